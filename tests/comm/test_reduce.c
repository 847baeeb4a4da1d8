/* The host's arithmetic. Checks every type and operation against the reference (comm_values.h), with lengths around
 * every block size, and with any bit patterns. */
#include <math.h>
#include "comm/reduce/reduce.h"
#include "support/check.h"
#include "support/comm_values.h"

enum { MOST = 704, RANKS = 3, ELEMENT = 8 };

/* f16 and bf16: the host keeps partial results in float, and the reference rounds every partial result. For whole
 * numbers both give the same result. */
static bool rounds_less(clq_dtype dtype) { return dtype == CLQ_F16 || dtype == CLQ_BF16; }

static void put(clq_dtype dtype, clq_redop op, void *array, size_t i, clq_random *random) {
    uint64_t word = (uint64_t)clq_random_u32(random) << 32 | clq_random_u32(random);
    if (rounds_less(dtype) && op == CLQ_REDOP_AVG)
        values_put(dtype, array, i, (int64_t)(word % 17) - 8);
    else
        values_put_any(dtype, array, i, word);
}

/* Where and how results are written. USUAL: ordinary stores. STREAMED: streaming stores to outputs with the same
 * alignment in their cache lines. STREAMED_APART: with different alignments. IN_PLACE: one output is also an input,
 * with ordinary or streaming stores. */
enum { USUAL, STREAMED, STREAMED_APART, IN_PLACE, STREAMED_IN_PLACE, WAYS };

/* The vector width under test. Every processor has the narrowest one. */
static clq_reduce_level level;

static bool next_level(void) {
    while (++level < CLQ_REDUCE_LEVELS)
        if (clq_reduce_find_at(level, CLQ_F32, CLQ_REDOP_SUM)) return true;
    level = CLQ_REDUCE_PLAIN;
    return false;
}

static void check_length(clq_dtype dtype, clq_redop op, int way, size_t begin, size_t end, unsigned ranks) {
    static uint64_t in[RANKS][MOST], want[MOST];
    static _Alignas(64) uint64_t out[2][MOST];
    const void *from[RANKS];
    size_t bytes = clq_dtype_bytes(dtype), shift = way == STREAMED_APART ? 3 : 0;
    clq_random random = clq_random_start(dtype * 16u + op, end * 8 + ranks);
    for (unsigned r = 0; r < ranks; r++) {
        from[r] = in[r];
        for (size_t i = 0; i < MOST; i++) put(dtype, op, in[r], i, &random);
    }
    memset(out, 0xAB, sizeof out);
    const bool in_place = way == IN_PLACE || way == STREAMED_IN_PLACE, streamed = way != USUAL && way != IN_PLACE;
    if (in_place) from[0] = memcpy(out[1], in[0], sizeof out[1]);
    memcpy(want, in[0], sizeof want);
    for (size_t i = begin; i < end; i++) {
        for (unsigned r = 1; r < ranks; r++) values_combine(dtype, op, want, in[r], want, i);
        if (op == CLQ_REDOP_AVG) values_average(dtype, want, i, ranks);
    }
    char *got[2] = {(char *)out[0], (char *)out[1] + shift * bytes};
    clq_reduce_find_at(level, dtype, op)(from, ranks, (void *[]){got[0], got[1]}, 2, begin, end, ranks, streamed);
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < MOST - shift; i++) {
            bool inside = i >= begin && i < end;
            if (inside && !values_equal(dtype, got[k], want, i))
                fail_msg("level %d: %s %s: element %zu of %zu to %zu", (int)level, clq_dtype_name(dtype),
                         clq_redop_name(op), i, begin, end);
            for (size_t b = 0; !inside && b < bytes; b++)
                if (((unsigned char *)got[k])[i * bytes + b] !=
                    (in_place && k == 1 ? ((unsigned char *)in[0])[i * bytes + b] : 0xAB))
                    fail_msg("%s %s: element %zu was written", clq_dtype_name(dtype), clq_redop_name(op), i);
        }
}

static unsigned most_ranks(clq_dtype dtype) { return rounds_less(dtype) ? 2 : RANKS; }

static void check_operation(clq_dtype dtype, clq_redop op) {
    const size_t ends[] = {0, 1, 15, 16, 17, 63, 64, 65, 127, 255, 256, 257, 511, 696};
    for (int way = 0; way < WAYS; way++)
        for (size_t e = 0; e < CLQ_COUNT_OF(ends); e++)
            for (unsigned ranks = 1; ranks <= most_ranks(dtype); ranks++)
                check_length(dtype, op, way, ends[e] > 5 ? e % 5 : 0, ends[e], ranks);
}

static void test_every_type_and_operation(void **state) {
    (void)state;
    do
        for (size_t d = 0; d < VALUES_DTYPES; d++)
            for (unsigned op = 0; op < CLQ_REDOP_COUNT; op++) check_operation(values_dtypes[d], (clq_redop)op);
    while (next_level());
}

/* Whole numbers near multiples of n and at both ends of the range, against C's own division. */
static void check_averages(clq_dtype dtype, unsigned n) {
    enum { MANY = 4096 };
    static uint64_t in[MANY], got[MANY], want[MANY];
    clq_random random = clq_random_start(dtype, n);
    for (size_t i = 0; i < MANY; i++) {
        uint64_t word = (uint64_t)clq_random_u32(&random) << 32 | clq_random_u32(&random);
        word >>= i % 64;
        if (i & 64) word = word / n * n - (i & 1);
        if (i & 128) word = ~(uint64_t)0 - word % (4 * n);
        if (i & 256) word = ((uint64_t)1 << (8 * clq_dtype_bytes(dtype) - 1)) + word % (4 * n) - 2 * n;
        values_put_any(dtype, in, i, word);
        values_put_any(dtype, want, i, word);
        values_average(dtype, want, i, n);
    }
    clq_reduce_find_at(level, dtype, CLQ_REDOP_AVG)((const void *[]){in}, 1, (void *[]){got}, 1, 0, MANY, n, false);
    for (size_t i = 0; i < MANY; i++)
        if (!values_equal(dtype, got, want, i))
            fail_msg("level %d: %s: average %zu of %u", (int)level, clq_dtype_name(dtype), i, n);
}

static void test_averages_of_integers(void **state) {
    (void)state;
    do
        for (size_t d = 0; d < VALUES_DTYPES; d++)
            for (unsigned n = 1; n <= CLQ_REPLICAS_MAX; n++)
                if (values_dtypes[d] >= CLQ_I8 && values_dtypes[d] <= CLQ_U64) check_averages(values_dtypes[d], n);
    while (next_level());
}

/* All halves, combined with every sixty-first half. */
static void check_all_halves(clq_dtype dtype, clq_redop op) {
    enum { ALL = 65536 };
    uint16_t *a = clq_alloc(ALL, 2), *b = clq_alloc(ALL, 2), *got = clq_alloc(ALL, 2), *want = clq_alloc(ALL, 2);
    assert_true(a && b && got && want);
    for (size_t i = 0; i < ALL; i++) {
        a[i] = (uint16_t)i;
        b[i] = (uint16_t)(i * 61 + i / 7);
        values_combine(dtype, op, a, b, want, i);
    }
    clq_reduce_find_at(level, dtype, op)((const void *[]){a, b}, 2, (void *[]){got}, 1, 0, ALL, 2, false);
    for (size_t i = 0; i < ALL; i++)
        if (!values_equal(dtype, got, want, i))
            fail_msg("level %d: %s %s of %04x and %04x is %04x, should be %04x", (int)level, clq_dtype_name(dtype),
                     clq_redop_name(op), a[i], b[i], got[i], want[i]);
    clq_free(want);
    clq_free(got);
    clq_free(b);
    clq_free(a);
}

/* Every half comes back unchanged, except that a NaN may become another NaN. The bits are the same at every vector
 * width. */
static void check_conversions(clq_dtype dtype) {
    enum { ALL = 65536 };
    static uint16_t in[ALL], got[ALL], plain[ALL];
    for (size_t i = 0; i < ALL; i++) in[i] = (uint16_t)i;
    const void *from[] = {in};
    clq_reduce_find_at(level, dtype, CLQ_REDOP_SUM)(from, 1, (void *[]){got}, 1, 0, ALL, 1, false);
    clq_reduce_find_at(CLQ_REDUCE_PLAIN, dtype, CLQ_REDOP_SUM)(from, 1, (void *[]){plain}, 1, 0, ALL, 1, false);
    const unsigned infinity = dtype == CLQ_F16 ? 0x7c00 : 0x7f80, quiet = dtype == CLQ_F16 ? 0x7e00 : 0x7fc0;
    for (size_t i = 0; i < ALL; i++) {
        bool nan = (in[i] & 0x7fffu) > infinity;
        if (nan ? (got[i] & quiet) != quiet || ((got[i] ^ in[i]) & 0x8000u) : got[i] != in[i])
            fail_msg("level %d: %s: %04x came back as %04x", (int)level, clq_dtype_name(dtype), in[i], got[i]);
        if (got[i] != plain[i])
            fail_msg("level %d: %s: %04x, but %04x at the narrowest", (int)level, clq_dtype_name(dtype), got[i],
                     plain[i]);
    }
}

/* Compares with the scalar conversions of the base layer: all halves, and floats between and beside them. */
static void check_halves_of_floats(void) {
    enum { ALL = 65536, COUNT = 3 * ALL - 1 };
    float *floats = clq_alloc(COUNT, sizeof *floats), *back = clq_alloc(COUNT, sizeof *back);
    uint16_t *halves = clq_alloc(COUNT, sizeof *halves);
    const clq_reduce_table *table = clq_reduce_table_at(level);
    assert_true(floats && back && halves);
    for (size_t i = 0; i < COUNT; i++) {
        const float at = clq_half_to_float((uint16_t)(i / 3)), next = clq_half_to_float((uint16_t)(i / 3 + 1));
        floats[i] = i % 3 == 0 ? at : i % 3 == 1 ? (at + next) / 2 : at + (next - at) / 3;
    }
    table->to_halves(floats, halves, COUNT);
    table->from_halves(halves, back, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const uint16_t right = clq_half_of_float(floats[i]);
        if (isnan(floats[i]) ? !isnan(clq_half_to_float(halves[i])) : halves[i] != right)
            fail_msg("level %d: %.9g is %04x, should be %04x", (int)level, (double)floats[i], halves[i], right);
        const float exact = clq_half_to_float(halves[i]);
        if (isnan(exact) ? !isnan(back[i]) : back[i] != exact)
            fail_msg("level %d: %04x is %.9g, should be %.9g", (int)level, halves[i], (double)back[i], (double)exact);
    }
    clq_free(halves);
    clq_free(back);
    clq_free(floats);
}

static void test_halves(void **state) {
    (void)state;
    do {
        check_halves_of_floats();
        check_conversions(CLQ_F16);
        check_conversions(CLQ_BF16);
        for (unsigned op = CLQ_REDOP_SUM; op <= CLQ_REDOP_MAX; op++) {
            check_all_halves(CLQ_F16, (clq_redop)op);
            check_all_halves(CLQ_BF16, (clq_redop)op);
        }
    } while (next_level());
}

static void test_the_widest(void **state) {
    (void)state;
    clq_reduce_function *widest = NULL;
    do widest = clq_reduce_find_at(level, CLQ_BF16, CLQ_REDOP_MAX);
    while (next_level());
    assert_non_null(widest);
    assert_ptr_equal(clq_reduce_find(CLQ_BF16, CLQ_REDOP_MAX), widest);
}

static void test_what_there_is_not(void **state) {
    (void)state;
    assert_null(clq_reduce_find(CLQ_BOOL, CLQ_REDOP_SUM));
    assert_null(clq_reduce_find(CLQ_DTYPE_COUNT, CLQ_REDOP_SUM));
    assert_null(clq_reduce_find(CLQ_F32, CLQ_REDOP_COUNT));
    assert_null(clq_reduce_find_at(CLQ_REDUCE_LEVELS, CLQ_F32, CLQ_REDOP_SUM));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_and_operation),
        cmocka_unit_test(test_averages_of_integers),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_the_widest),
        cmocka_unit_test(test_what_there_is_not),
    };
    return cmocka_run_group_tests_name("comm/reduce", tests, NULL, NULL);
}
