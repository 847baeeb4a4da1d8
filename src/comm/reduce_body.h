/* Included by reduce.c once for every width of vectors: LEVEL is a suffix of names, TARGET the attribute that lets the
 * compiler use them, STREAM(to, vector) stores a vector past the caches. Defines table_LEVEL.
 *
 * Vectors by hand rather than by the compiler: in place, inputs and outputs are the same memory, which its check for
 * overlap would send to the scalar loop. */

TARGET CALLED static void LEVEL(load_f16)(f16_work *to, const f16_stored *from) {
    u32_work half = __builtin_convertvector(*from, u32_work), sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    u32_work normal = (rest << 13) + (112u << 23), special = (rest << 13) | 0x7f800000u;
    u32_work tiny = (u32_work)(__builtin_convertvector((i32_work)rest, f32_work) * 0x1p-24f);
    u32_work bits = SELECT(u32, rest >= 0x7c00u, special, normal);
    *to = (f16_work)(SELECT(u32, rest < 0x400u, tiny, bits) | sign);
}

/* Rounds to nearest, ties to even. Below 2^-14 the addition does it: a unit of 0.5 is that of the small halves. */
TARGET CALLED static void LEVEL(store_f16)(f16_stored *to, const f16_work *from) {
    u32_work bits = (u32_work)*from, sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
    u32_work normal = (rest + 0xfffu + ((rest >> 13) & 1u) - (112u << 23)) >> 13;
    u32_work tiny = (u32_work)((f32_work)rest + 0.5f) - 0x3f000000u;
    u32_work special = ((u32_work)(rest > 0x7f800000u) & 0x200u) | 0x7c00u;
    u32_work half = SELECT(u32, rest >= 0x47800000u, special, normal);
    *to = __builtin_convertvector(SELECT(u32, rest < 0x38800000u, tiny, half) | sign, f16_stored);
}

TARGET CALLED static void LEVEL(load_bf16)(bf16_work *to, const bf16_stored *from) {
    *to = (bf16_work)(__builtin_convertvector(*from, u32_work) << 16);
}

TARGET CALLED static void LEVEL(store_bf16)(bf16_stored *to, const bf16_work *from) {
    u32_work bits = (u32_work)*from, rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    u32_work half = SELECT(u32, (bits & 0x7fffffffu) > 0x7f800000u, (bits >> 16) | 0x40u, rounded);
    *to = __builtin_convertvector(half, bf16_stored);
}

#define LOAD_SAME(to, from) (*(to) = *(from))
#define LOAD_F16(to, from) LEVEL(load_f16)(to, from)
#define STORE_F16(to, from) LEVEL(store_f16)(to, from)
#define LOAD_BF16(to, from) LEVEL(load_bf16)(to, from)
#define STORE_BF16(to, from) LEVEL(store_bf16)(to, from)

/* Four vectors at a time, so that loads and additions overlap. */
#define TAKE(T, LOAD, to, from, n)                                                                                     \
    do {                                                                                                               \
        T##_stored taken;                                                                                              \
        memcpy(&taken, (from) + (n) * sizeof taken, sizeof taken);                                                     \
        LOAD(&(to), &taken);                                                                                           \
    } while (0)
#define PUT(to, n, v)                                                                                                  \
    do {                                                                                                               \
        if (streamed)                                                                                                  \
            STREAM((to) + (n) * sizeof(v), v);                                                                         \
        else                                                                                                           \
            memcpy((to) + (n) * sizeof(v), &(v), sizeof(v));                                                           \
    } while (0)
#define REDUCE(NAME, T, LOAD, OP, FINISH, STORE)                                                                       \
    TARGET static void LEVEL(NAME##_by)(const void *const *in, unsigned ins, void *const *out, unsigned outs,          \
                                        size_t begin, size_t end, unsigned ranks, bool stream) {                       \
        enum { BLOCK = 4 * sizeof(T##_stored) };                                                                       \
        const size_t last = end * ELEMENT(T);                                                                          \
        size_t i = begin * ELEMENT(T);                                                                                 \
        size_t head = stream ? CLQ_MIN(stream_head((const char *)out[0] + i, ELEMENT(T)), last - i) : 0;               \
        if (head > 0) reduce_rest(LEVEL(NAME##_by), BLOCK, ELEMENT(T), in, ins, out, outs, i, head, ranks);            \
        for (i += head; i + BLOCK <= last; i += BLOCK) {                                                               \
            T##_work a, b, c, d, w;                                                                                    \
            T##_stored e, f, g, h;                                                                                     \
            const char *from = (const char *)in[0] + i;                                                                \
            if (stream) fetch_ahead(in, ins, i, BLOCK);                                                                \
            TAKE(T, LOAD, a, from, 0);                                                                                 \
            TAKE(T, LOAD, b, from, 1);                                                                                 \
            TAKE(T, LOAD, c, from, 2);                                                                                 \
            TAKE(T, LOAD, d, from, 3);                                                                                 \
            for (unsigned k = 1; k < ins; k++) {                                                                       \
                from = (const char *)in[k] + i;                                                                        \
                TAKE(T, LOAD, w, from, 0);                                                                             \
                a = OP(T, a, w);                                                                                       \
                TAKE(T, LOAD, w, from, 1);                                                                             \
                b = OP(T, b, w);                                                                                       \
                TAKE(T, LOAD, w, from, 2);                                                                             \
                c = OP(T, c, w);                                                                                       \
                TAKE(T, LOAD, w, from, 3);                                                                             \
                d = OP(T, d, w);                                                                                       \
            }                                                                                                          \
            FINISH(T, a);                                                                                              \
            FINISH(T, b);                                                                                              \
            FINISH(T, c);                                                                                              \
            FINISH(T, d);                                                                                              \
            STORE(&e, &a);                                                                                             \
            STORE(&f, &b);                                                                                             \
            STORE(&g, &c);                                                                                             \
            STORE(&h, &d);                                                                                             \
            for (unsigned k = 0; k < outs; k++) {                                                                      \
                char *to = (char *)out[k] + i;                                                                         \
                const bool streamed = stream && (uintptr_t)to % STREAM_ALIGNED == 0;                                   \
                PUT(to, 0, e);                                                                                         \
                PUT(to, 1, f);                                                                                         \
                PUT(to, 2, g);                                                                                         \
                PUT(to, 3, h);                                                                                         \
            }                                                                                                          \
        }                                                                                                              \
        if (i < last) reduce_rest(LEVEL(NAME##_by), BLOCK, ELEMENT(T), in, ins, out, outs, i, last - i, ranks);        \
        if (stream) stream_end();                                                                                      \
    }                                                                                                                  \
    TARGET static void LEVEL(NAME)(const void *const *in, unsigned ins, void *const *out, unsigned outs, size_t begin, \
                                   size_t end, unsigned ranks) {                                                       \
        LEVEL(NAME##_by)(in, ins, out, outs, begin, end, ranks, false);                                                \
    }                                                                                                                  \
    TARGET static void LEVEL(NAME##_stream)(const void *const *in, unsigned ins, void *const *out, unsigned outs,      \
                                            size_t begin, size_t end, unsigned ranks) {                                \
        LEVEL(NAME##_by)(in, ins, out, outs, begin, end, ranks, true);                                                 \
    }

/* Sums and products of signed integers are those of unsigned ones: they wrap. Only comparing and dividing tell them
 * apart. */
#define REDUCE_FLOAT(T, LOAD, STORE)                                                                                   \
    REDUCE(T##_sum, T, LOAD, OP_SUM, KEEP, STORE)                                                                      \
    REDUCE(T##_prod, T, LOAD, OP_PROD, KEEP, STORE)                                                                    \
    REDUCE(T##_min, T, LOAD, OP_FLOAT_MIN, KEEP, STORE)                                                                \
    REDUCE(T##_max, T, LOAD, OP_FLOAT_MAX, KEEP, STORE)                                                                \
    REDUCE(T##_avg, T, LOAD, OP_SUM, SCALE, STORE)
#define REDUCE_WRAPPING(T)                                                                                             \
    REDUCE(T##_sum, T, LOAD_SAME, OP_SUM, KEEP, LOAD_SAME)                                                             \
    REDUCE(T##_prod, T, LOAD_SAME, OP_PROD, KEEP, LOAD_SAME)
#define REDUCE_INTEGER(T, UNSIGNED)                                                                                    \
    REDUCE(T##_min, T, LOAD_SAME, OP_MIN, KEEP, LOAD_SAME)                                                             \
    REDUCE(T##_max, T, LOAD_SAME, OP_MAX, KEEP, LOAD_SAME)                                                             \
    REDUCE(T##_avg, UNSIGNED, LOAD_SAME, OP_SUM, DIVIDE_##T, LOAD_SAME)

REDUCE_FLOAT(f32, LOAD_SAME, LOAD_SAME)
REDUCE_FLOAT(f64, LOAD_SAME, LOAD_SAME)
REDUCE_FLOAT(f16, LOAD_F16, STORE_F16)
REDUCE_FLOAT(bf16, LOAD_BF16, STORE_BF16)
REDUCE_WRAPPING(u8)
REDUCE_WRAPPING(u16)
REDUCE_WRAPPING(u32)
REDUCE_WRAPPING(u64)
REDUCE_INTEGER(i8, u8)
REDUCE_INTEGER(i16, u16)
REDUCE_INTEGER(i32, u32)
REDUCE_INTEGER(i64, u64)
REDUCE_INTEGER(u8, u8)
REDUCE_INTEGER(u16, u16)
REDUCE_INTEGER(u32, u32)
REDUCE_INTEGER(u64, u64)

#define ROW(WRAPPING, T)                                                                                               \
    { PAIR(WRAPPING##_sum), PAIR(WRAPPING##_prod), PAIR(T##_min), PAIR(T##_max), PAIR(T##_avg) }
#define PAIR(NAME)                                                                                                     \
    { LEVEL(NAME), LEVEL(NAME##_stream) }
static const reduce_table LEVEL(table) = {
    [CLQ_F32] = ROW(f32, f32), [CLQ_F64] = ROW(f64, f64), [CLQ_F16] = ROW(f16, f16), [CLQ_BF16] = ROW(bf16, bf16),
    [CLQ_I8] = ROW(u8, i8),    [CLQ_I16] = ROW(u16, i16), [CLQ_I32] = ROW(u32, i32), [CLQ_I64] = ROW(u64, i64),
    [CLQ_U8] = ROW(u8, u8),    [CLQ_U16] = ROW(u16, u16), [CLQ_U32] = ROW(u32, u32), [CLQ_U64] = ROW(u64, u64),
};

#undef PAIR
#undef ROW
#undef REDUCE_INTEGER
#undef REDUCE_WRAPPING
#undef REDUCE_FLOAT
#undef REDUCE
#undef PUT
#undef TAKE
#undef STORE_BF16
#undef LOAD_BF16
#undef STORE_F16
#undef LOAD_F16
#undef LOAD_SAME
#undef LEVEL
#undef STREAM
#undef TARGET
