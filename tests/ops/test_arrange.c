/* Values taken from other places, against the definition: padding, slices with steps, transposes, and their gradients.
 */
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

typedef struct arrange_case {
    size_t sizes[4]; /* x's sizes; 0: no more axes */
    struct change {
        unsigned axis; /* an axis of x */
        size_t out;    /* 0: as x has it */
        long first, step;
    } changes[4]; /* of y's axes, in their order */
    clq_dtype from, to;
} arrange_case;

static const arrange_case cases[] = {
    {{5}, {{0, 9, -2, 1}}, CLQ_F32, CLQ_F32},                                    /* padding */
    {{6, 5, 3}, {{0, 9, -1, 1}, {1, 8, -2, 1}, {2, 0, 0, 1}}, CLQ_F32, CLQ_F32}, /* padding of images */
    {{7, 9, 40}, {{0, 4, 2, 1}, {1, 6, 1, 1}, {2, 0, 0, 1}}, CLQ_F32, CLQ_F32},  /* cropping */
    {{3, 17}, {{1, 0, 0, 1}, {0, 0, 0, 1}}, CLQ_F32, CLQ_F32},                   /* a transpose */
    {{4, 5, 6}, {{2, 0, 0, 1}, {0, 0, 0, 1}, {1, 0, 0, 1}}, CLQ_F32, CLQ_F32},   /* a transpose of three axes */
    {{2, 3, 4, 5}, {{3, 0, 0, 1}, {1, 0, 0, 1}, {2, 0, 0, 1}, {0, 0, 0, 1}}, CLQ_F32, CLQ_F32},
    {{23, 4}, {{0, 8, 1, 3}, {1, 2, 3, -2}}, CLQ_F32, CLQ_F32},                  /* steps, backwards */
    {{33}, {{0, 33, 32, -1}}, CLQ_F32, CLQ_F32},                                 /* reversed */
    {{6, 3, 35}, {{0, 1, 4, 1}, {1, 0, 0, 1}, {2, 20, 7, 1}}, CLQ_F32, CLQ_F32}, /* one place of an axis */
    {{3, 1, 2}, {{1, 4, -2, 1}, {2, 0, 0, 1}, {0, 0, 0, 1}}, CLQ_F32, CLQ_F32},  /* an axis of one place */
    {{5, 4, 37}, {{0, 8, -2, 1}, {1, 6, -1, 1}, {2, 0, 0, 1}}, CLQ_F16, CLQ_F16},
    {{9, 7}, {{1, 0, 0, 1}, {0, 4, 0, 2}}, CLQ_BF16, CLQ_F32},
    {{64, 33, 5}, {{1, 0, 0, 1}, {0, 70, -3, 1}, {2, 0, 0, 1}}, CLQ_F32, CLQ_BF16}, /* enough for several work-items */
};

static clq_arrangement arrangement_of(const arrange_case *c, size_t *x_elements) {
    unsigned rank = 0;
    *x_elements = 1;
    while (rank < 4 && c->sizes[rank]) *x_elements *= c->sizes[rank++];
    const clq_arrangement whole = clq_arrangement_of(rank, c->sizes);
    clq_arrangement a = {.rank = rank};
    for (unsigned d = 0; d < rank; d++) {
        const struct change *change = &c->changes[d];
        a.axes[d] = whole.axes[change->axis];
        if (change->out) a.axes[d].out = change->out;
        a.axes[d].first = change->first;
        a.axes[d].step = change->step;
    }
    return a;
}

static void check(rig *r, clq_random *random, const clq_arrangement *a, size_t x_elements, clq_dtype from, clq_dtype to,
                  uint32_t capacity, uint32_t count) {
    const size_t elements = clq_arrangement_elements(a);
    float *x, *got;
    double *exact, *want = rig_alloc(elements * count + 1, sizeof *want);
    void *bytes = rig_alloc(elements * count + 1, sizeof *got);
    rig_numbers(random, x_elements * count, -1, 1, &x, &exact);
    void *stored = rig_stored(from, x, exact, x_elements * count);
    rig_begin(r, capacity);
    clq_value in = rig_value_of(r, "from", from, 0, x_elements), out = rig_value_of(r, "to", to, 0, elements);
    clq_arrange(r->list, a, x_elements, false, in, out);
    rig_bind(r);
    rig_fill(r, in, stored, clq_values_bytes(from, x_elements * count));
    rig_run(r, count);
    rig_read(r, out, bytes, clq_values_bytes(to, elements * count));
    got = rig_floats(to, bytes, elements * count);
    ref_arrange(a, count, x_elements, exact, want);
    rig_check_close(r, "arranged", got, want, elements * count, rig_half_bit(to, 1.001), 0);
    rig_check_untouched(r, out, clq_values_bytes(to, elements * count));
    rig_end(r);
    void *const all[] = {x, exact, want, bytes, stored, got};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_free(all[i]);
}

static void arranged(rig *r) {
    clq_random random = clq_random_start(71, 0);
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        size_t x_elements;
        const clq_arrangement a = arrangement_of(&cases[i], &x_elements), back = clq_arrangement_back(&a);
        const uint32_t capacity = 1 + (uint32_t)i % 5, count = capacity - (uint32_t)(i % 3 == 1);
        assert_int_equal(clq_arrangement_elements(&back), x_elements);
        if (!rig_takes(r, i) || !rig_affords(r, x_elements * capacity)) continue;
        check(r, &random, &a, x_elements, cases[i].from, cases[i].to, capacity, count);
        check(r, &random, &back, clq_arrangement_elements(&a), cases[i].to, cases[i].from, capacity, count);
    }
}

static void test_arranged(void **state) {
    (void)state;
    rig_each(arranged);
}

/* <A x, y> = <x, A* y>, where A* is the gradient's arrangement. With whole numbers this holds exactly. */
static void test_gradients_are_transposes(void **state) {
    (void)state;
    clq_random random = clq_random_start(72, 0);
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        size_t n;
        const clq_arrangement a = arrangement_of(&cases[i], &n), back = clq_arrangement_back(&a);
        const size_t m = clq_arrangement_elements(&a);
        double *x = rig_alloc(n, sizeof *x), *y = rig_alloc(m, sizeof *y), *ax = rig_alloc(m, sizeof *ax),
               *ay = rig_alloc(n, sizeof *ay), first = 0, second = 0;
        for (size_t k = 0; k < n; k++) x[k] = (double)rig_below(&random, 100);
        for (size_t k = 0; k < m; k++) y[k] = (double)rig_below(&random, 100);
        ref_arrange(&a, 1, n, x, ax);
        ref_arrange(&back, 1, m, y, ay);
        for (size_t k = 0; k < m; k++) first += ax[k] * y[k];
        for (size_t k = 0; k < n; k++) second += x[k] * ay[k];
        assert_true(first == second && first > 0);
        void *const all[] = {x, y, ax, ay};
        for (size_t k = 0; k < CLQ_COUNT_OF(all); k++) clq_free(all[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arranged),
                                       cmocka_unit_test(test_gradients_are_transposes)};
    return cmocka_run_group_tests_name("ops/arrange", tests, NULL, NULL);
}
