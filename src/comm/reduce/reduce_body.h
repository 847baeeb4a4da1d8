/* The functions for one vector width, and their table. The including file defines VECTOR and TARGET (see
 * reduce_vector.h), and TABLE, the table's name. */
#include "comm/reduce/reduce_vector.h"

#define OP_SUM(T, a, b) ((a) + (b))
#define OP_PROD(T, a, b) ((a) * (b))
#define OP_MIN(T, a, b) SELECT(T, (a) < (b), a, b)
#define OP_MAX(T, a, b) SELECT(T, (a) > (b), a, b)
/* NaN wins: a != a if a is NaN; if b is NaN, the comparison with b is false, which selects b. */
#define OP_FLOAT_MIN(T, a, b) SELECT(T, ((a) < (b)) | ((a) != (a)), a, b)
#define OP_FLOAT_MAX(T, a, b) SELECT(T, ((a) > (b)) | ((a) != (a)), a, b)

/* FINISH for a vector of results: KEEP leaves it alone; SCALE and divide_u8, … make averages of sums. */
#define KEEP(v, ranks) ((void)(ranks))
/* Multiplies by a rounded factor instead of dividing: devices may round a division as they like, and host and devices
 * must agree. */
#define SCALE(v, ranks) (*(v) *= 1 / (__typeof__((*(v))[0]))(ranks))

/* Reduces less than a block: copies it into a whole block whose end is zeros. */
static void reduce_rest(clq_reduce_function *reduce, size_t block, size_t element, const void *const *in, unsigned ins,
                        void *const *out, unsigned outs, size_t at, size_t bytes, unsigned ranks) {
    char blocks[CLQ_REPLICAS_MAX][4 * VECTOR];
    const void *from[CLQ_REPLICAS_MAX];
    void *to[1] = {blocks[0]};
    for (unsigned k = 0; k < ins; k++) {
        memcpy(blocks[k], (const char *)in[k] + at, bytes);
        memset(blocks[k] + bytes, 0, block - bytes);
        from[k] = blocks[k];
    }
    reduce(from, ins, to, 1, 0, block / element, ranks, false);
    for (unsigned k = 0; k < outs; k++) memcpy((char *)out[k] + at, blocks[0], bytes);
}

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
            stream_vector((to) + (n) * sizeof(v), &(v), sizeof(v));                                                    \
        else                                                                                                           \
            memcpy((to) + (n) * sizeof(v), &(v), sizeof(v));                                                           \
    } while (0)
#define REDUCE(NAME, T, LOAD, OP, FINISH, STORE)                                                                       \
    TARGET static void NAME(const void *const *in, unsigned ins, void *const *out, unsigned outs, size_t begin,        \
                            size_t end, unsigned ranks, bool stream) {                                                 \
        enum { BLOCK = 4 * sizeof(T##_stored), ALIGNED = CLQ_MIN(BLOCK, LINE) };                                       \
        const uint64_t streamed_outs = stream ? apart_from_inputs(in, ins, out, outs) : 0;                             \
        const size_t last = end * ELEMENT(T);                                                                          \
        size_t i = begin * ELEMENT(T);                                                                                 \
        size_t head = stream ? CLQ_MIN(stream_head((const char *)out[0] + i, ALIGNED, ELEMENT(T)), last - i) : 0;      \
        if (head > 0) reduce_rest(NAME, BLOCK, ELEMENT(T), in, ins, out, outs, i, head, ranks);                        \
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
            FINISH(&a, ranks);                                                                                         \
            FINISH(&b, ranks);                                                                                         \
            FINISH(&c, ranks);                                                                                         \
            FINISH(&d, ranks);                                                                                         \
            STORE(&e, &a);                                                                                             \
            STORE(&f, &b);                                                                                             \
            STORE(&g, &c);                                                                                             \
            STORE(&h, &d);                                                                                             \
            for (unsigned k = 0; k < outs; k++) {                                                                      \
                char *to = (char *)out[k] + i;                                                                         \
                const bool streamed = (streamed_outs >> k & 1) && (uintptr_t)to % ALIGNED == 0;                        \
                PUT(to, 0, e);                                                                                         \
                PUT(to, 1, f);                                                                                         \
                PUT(to, 2, g);                                                                                         \
                PUT(to, 3, h);                                                                                         \
            }                                                                                                          \
        }                                                                                                              \
        if (i < last) reduce_rest(NAME, BLOCK, ELEMENT(T), in, ins, out, outs, i, last - i, ranks);                    \
        if (stream) stream_end();                                                                                      \
    }

/* Signed integers use the sums and products of unsigned ones: both wrap around to the same bits. Only comparisons and
 * divisions differ. */
#define REDUCE_FLOAT(T, LOAD, STORE)                                                                                   \
    REDUCE(T##_sum, T, LOAD, OP_SUM, KEEP, STORE)                                                                      \
    REDUCE(T##_prod, T, LOAD, OP_PROD, KEEP, STORE)                                                                    \
    REDUCE(T##_min, T, LOAD, OP_FLOAT_MIN, KEEP, STORE)                                                                \
    REDUCE(T##_max, T, LOAD, OP_FLOAT_MAX, KEEP, STORE)                                                                \
    REDUCE(T##_avg, T, LOAD, OP_SUM, SCALE, STORE)
#define REDUCE_ORDERED(T, UNSIGNED)                                                                                    \
    REDUCE(T##_min, T, LOAD_SAME, OP_MIN, KEEP, LOAD_SAME)                                                             \
    REDUCE(T##_max, T, LOAD_SAME, OP_MAX, KEEP, LOAD_SAME)                                                             \
    REDUCE(T##_avg, UNSIGNED, LOAD_SAME, OP_SUM, divide_##T, LOAD_SAME)
#define REDUCE_INTEGERS(SIGNED, UNSIGNED)                                                                              \
    REDUCE(UNSIGNED##_sum, UNSIGNED, LOAD_SAME, OP_SUM, KEEP, LOAD_SAME)                                               \
    REDUCE(UNSIGNED##_prod, UNSIGNED, LOAD_SAME, OP_PROD, KEEP, LOAD_SAME)                                             \
    REDUCE_ORDERED(SIGNED, UNSIGNED)                                                                                   \
    REDUCE_ORDERED(UNSIGNED, UNSIGNED)

REDUCE_FLOAT(f32, LOAD_SAME, LOAD_SAME)
REDUCE_FLOAT(f64, LOAD_SAME, LOAD_SAME)
REDUCE_FLOAT(f16, load_f16, store_f16)
REDUCE_FLOAT(bf16, load_bf16, store_bf16)
REDUCE_INTEGERS(i8, u8)
REDUCE_INTEGERS(i16, u16)
REDUCE_INTEGERS(i32, u32)
REDUCE_INTEGERS(i64, u64)

/* Converts a vector at a time; a shorter rest is filled up with zeros first. FROM, TO: the elements' types in memory.
 * BY: load_f16 or store_f16, which converts the vector `taken` to the vector `made`. */
#define CONVERT(NAME, FROM, FROM_VECTOR, TO, TO_VECTOR, BY)                                                            \
    TARGET static void NAME(const FROM *from, TO *to, size_t count) {                                                  \
        enum { STEP = VECTOR / sizeof(float) };                                                                        \
        FROM_VECTOR taken;                                                                                             \
        TO_VECTOR made;                                                                                                \
        for (size_t i = 0; i < count; i += STEP) {                                                                     \
            const size_t n = CLQ_MIN((size_t)STEP, count - i);                                                         \
            if (n < STEP) memset(&taken, 0, sizeof taken);                                                             \
            memcpy(&taken, from + i, n == STEP ? sizeof taken : n * sizeof *from);                                     \
            BY(&made, &taken);                                                                                         \
            memcpy(to + i, &made, n == STEP ? sizeof made : n * sizeof *to);                                           \
        }                                                                                                              \
    }
CONVERT(to_halves, float, f16_work, uint16_t, f16_stored, store_f16)
CONVERT(from_halves, uint16_t, f16_stored, float, f16_work, load_f16)

#define ROW(WRAPPING, T)                                                                                               \
    { WRAPPING##_sum, WRAPPING##_prod, T##_min, T##_max, T##_avg }
const clq_reduce_table TABLE = {.by = {[CLQ_F32] = ROW(f32, f32),
                                       [CLQ_F64] = ROW(f64, f64),
                                       [CLQ_F16] = ROW(f16, f16),
                                       [CLQ_BF16] = ROW(bf16, bf16),
                                       [CLQ_I8] = ROW(u8, i8),
                                       [CLQ_I16] = ROW(u16, i16),
                                       [CLQ_I32] = ROW(u32, i32),
                                       [CLQ_I64] = ROW(u64, i64),
                                       [CLQ_U8] = ROW(u8, u8),
                                       [CLQ_U16] = ROW(u16, u16),
                                       [CLQ_U32] = ROW(u32, u32),
                                       [CLQ_U64] = ROW(u64, u64)},
                                .to_halves = to_halves,
                                .from_halves = from_halves};
