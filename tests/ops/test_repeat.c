/* Repeats along an axis and sums over it, against their definitions in double. */
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

static void check_stored(rig *r, clq_random *random, clq_repeat_problem p, uint32_t capacity, uint32_t count,
                         bool reduce, clq_dtype of_from, clq_dtype of_to) {
    const size_t small = p.outer * p.inner, large = small * p.repeats, from = reduce ? large : small,
                 to = reduce ? small : large;
    float *x, *got;
    void *bytes = rig_alloc(to * count + 1, sizeof *got), *stored;
    double *exact, *want = rig_alloc(to * count + 1, sizeof *want);
    if (!rig_affords(r, large * count)) return;
    rig_numbers(random, from * count, -1, 1, &x, &exact);
    rig_begin(r, capacity);
    stored = rig_stored(of_from, x, exact, from * count);
    clq_value in = rig_value_of(r, "from", of_from, 0, from), out = rig_value_of(r, "to", of_to, 0, to);
    (reduce ? clq_reduce_axis : clq_repeat)(r->list, &p, in, out);
    rig_bind(r);
    rig_fill(r, in, stored, clq_values_bytes(of_from, from * count));
    rig_run(r, count);
    rig_read(r, out, bytes, clq_values_bytes(of_to, to * count));
    got = rig_floats(of_to, bytes, to * count);
    (reduce ? ref_reduce_axis : ref_repeat)(&p, count, exact, want);
    rig_check_close(r, reduce ? "reduce" : "repeat", got, want, to * count, 1e-6 + rig_half_bit(of_to, 1.001),
                    reduce ? 3e-7 * (double)p.repeats * (double)p.scale : 0);
    rig_check_untouched(r, out, clq_values_bytes(of_to, to * count));
    rig_end(r);
    clq_free(x);
    clq_free(exact);
    clq_free(got);
    clq_free(want);
    clq_free(stored);
    clq_free(bytes);
}

static void check(rig *r, clq_random *random, clq_repeat_problem p, uint32_t capacity, uint32_t count, bool reduce) {
    check_stored(r, random, p, capacity, count, reduce, CLQ_F32, CLQ_F32);
}

static void both_ways(rig *r) {
    static const size_t sizes[] = {1, 2, 3, 7, 16, 17, 33, 64};
    clq_random random = clq_random_start(11, 0);
    for (unsigned i = 0; i < 40; i++) {
        const clq_repeat_problem p = {.outer = sizes[rig_below(&random, 5)],
                                      .repeats = sizes[rig_below(&random, CLQ_COUNT_OF(sizes))],
                                      .inner = sizes[rig_below(&random, CLQ_COUNT_OF(sizes))],
                                      .scale = i % 3 ? 1.0f : 0.375f};
        const uint32_t capacity = 1 + (uint32_t)rig_below(&random, 9),
                       count = (uint32_t)rig_below(&random, capacity + 1);
        check(r, &random, p, capacity, count, i % 2);
    }
    for (unsigned reduce = 0; reduce < 2; reduce++) { /* enough for several work-items */
        check(r, &random, (clq_repeat_problem){1, 196, 64, 1.0f / 196}, 33, 31, reduce);
        check(r, &random, (clq_repeat_problem){196, 64, 1, 1}, 33, 32, reduce);
    }
}

/* 16 bits in memory: whole vectors, halves of them, and none; what is spread, and what is not. Each case is a program,
 * which a driver runs in one family. */
static void stored(rig *r) {
    clq_random random = clq_random_start(12, 0);
    for (unsigned reduce = 0; reduce < 2; reduce++) {
        if (rig_takes(r, reduce)) {
            check_stored(r, &random, (clq_repeat_problem){2, 5, 16, 0.375f}, 3, 3, reduce, CLQ_F16, CLQ_F16);
            check_stored(r, &random, (clq_repeat_problem){2, 3, 7, 1}, 2, 2, reduce, CLQ_F16, CLQ_BF16);
        }
        if (rig_takes(r, reduce + 1)) {
            check_stored(r, &random, (clq_repeat_problem){3, 4, 6, 1}, 3, 2, reduce, CLQ_BF16, CLQ_F16);
            check_stored(r, &random, (clq_repeat_problem){5, 32, 1, 1}, 2, 2, reduce, CLQ_BF16, CLQ_F32);
        }
    }
}

static void test_stored(void **state) {
    (void)state;
    rig_each(stored);
}

static void test_repeat(void **state) {
    (void)state;
    rig_each(both_ways);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_repeat), cmocka_unit_test(test_stored)};
    return cmocka_run_group_tests_name("ops/repeat", tests, NULL, NULL);
}
