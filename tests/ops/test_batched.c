/* Products of many small matrices for each sample, and rows of tables by number, against their definitions in
 * double. */
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

typedef struct batched_case {
    size_t outer, heads, m, n, k;
    bool a_turned, b_turned, b_shared;
    uint32_t capacity;
    clq_dtype a, b, c;
} batched_case;

static const batched_case cases[] = {
    {1, 2, 7, 5, 16, false, true, false, 3, CLQ_F32, CLQ_F32, CLQ_F32},  /* what queries have of keys */
    {2, 3, 5, 32, 9, false, false, false, 2, CLQ_F32, CLQ_F32, CLQ_F32}, /* mixed values, whole vectors */
    {1, 2, 6, 21, 7, true, false, false, 4, CLQ_F32, CLQ_F32, CLQ_F32},  /* gradients of values */
    {1, 1, 3, 1, 1, false, false, false, 5, CLQ_F32, CLQ_F32, CLQ_F32},
    {3, 1, 9, 4, 5, true, true, false, 2, CLQ_F32, CLQ_F32, CLQ_F32}, /* columns that are apart */
    {1, 4, 8, 8, 40, false, true, false, 3, CLQ_F32, CLQ_F32, CLQ_F32},
    {2, 1, 6, 11, 6, false, false, true, 3, CLQ_F32, CLQ_F32, CLQ_F32},   /* one matrix for all samples */
    {1, 4, 64, 64, 32, false, true, false, 9, CLQ_F32, CLQ_F32, CLQ_F32}, /* enough for several work-items */
    {1, 4, 64, 32, 64, false, false, false, 9, CLQ_F32, CLQ_F32, CLQ_F32},
    {1, 2, 5, 18, 17, false, true, false, 3, CLQ_F16, CLQ_F16, CLQ_F32},
    {1, 2, 5, 18, 6, false, false, false, 3, CLQ_F32, CLQ_BF16, CLQ_F16},
    {1, 2, 19, 21, 17, false, true, false, 3, CLQ_F32, CLQ_F32, CLQ_F32}, /* panels that are turned round once: edges */
    {1, 2, 67, 18, 33, false, true, false, 2, CLQ_F16, CLQ_BF16, CLQ_F16},
    {2, 1, 20, 37, 16, true, true, false, 2, CLQ_F32, CLQ_F32, CLQ_F32},
    {1, 1, 17, 6, 260, false, true, false, 2, CLQ_F32, CLQ_F32, CLQ_F32}, /* and too long for it */
};

/* The matrix has the layout (outer, rows, heads, columns): heads lie side by side, as in attention. */
static clq_batched_matrix matrix_of(const batched_case *c, size_t rows, size_t columns, bool turned) {
    const size_t row = c->heads * (turned ? rows : columns), count = turned ? columns : rows,
                 width = turned ? rows : columns;
    const clq_batched_matrix m = {
        .sample = c->outer * count * row, .pitch = {count * row, width}, .row = row, .column = 1};
    return turned ? clq_batched_transposed(m) : m;
}

static const double relative = 2e-6;

static void check(rig *r, const batched_case *c, uint32_t count) {
    const size_t matrices = c->outer * c->heads, left = matrices * c->m * c->k, right = matrices * c->k * c->n,
                 result = matrices * c->m * c->n;
    clq_batched_problem p = {.counts = {c->outer, c->heads},
                             .m = c->m,
                             .n = c->n,
                             .k = c->k,
                             .a = matrix_of(c, c->m, c->k, c->a_turned),
                             .b = matrix_of(c, c->k, c->n, c->b_turned),
                             .c = matrix_of(c, c->m, c->n, false),
                             .scale = 0.25f};
    if (c->b_shared) p.b.sample = 0;
    clq_random random = clq_random_start(75, c->k);
    rig_data a = rig_make(&random, c->a, left * count, -1, 1),
             b = rig_make(&random, c->b, c->b_shared ? right : right * count, -1, 1);
    double *want = rig_alloc(result * count + 1, sizeof *want);
    rig_begin(r, c->capacity);
    clq_value va = rig_value_of(r, "a", c->a, 0, left),
              vb = rig_value_of(r, "b", c->b, c->b_shared ? right : 0, c->b_shared ? 0 : right),
              vc = rig_value_of(r, "c", c->c, 0, result);
    clq_batched(r->list, &p, va, vb, vc);
    rig_bind(r);
    rig_fill(r, va, a.stored, clq_values_bytes(c->a, left * count));
    rig_fill(r, vb, b.stored, clq_values_bytes(c->b, c->b_shared ? right : right * count));
    rig_run(r, count);
    ref_batched(&p, count, a.exact, b.exact, want);
    rig_check_value(r, "c", vc, c->c, want, result * count, relative, 5e-8 * (double)c->k);
    rig_end(r);
    rig_release(&a);
    rig_release(&b);
    clq_free(want);
}

static void batched(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        const batched_case *c = &cases[i];
        if (!rig_takes(r, i) || !rig_affords(r, c->outer * c->heads * c->m * c->n * c->capacity)) continue;
        check(r, c, c->capacity);
        check(r, c, i % 2 ? 0 : c->capacity - 1);
    }
}

/* ---- rows of a table ---- */

static void check_gather(rig *r, size_t tokens, size_t rows, size_t width, clq_dtype dtype, uint32_t capacity,
                         uint32_t count) {
    const clq_gather_problem p = {tokens, rows, width};
    clq_random random = clq_random_start(76, rows);
    rig_data table = rig_make(&random, CLQ_F32, rows * width, -1, 1),
             dy = rig_make(&random, dtype, tokens * width * count, -1, 1);
    float *x = rig_alloc(tokens * count + 1, sizeof *x);
    double *exact = rig_alloc(tokens * count + 1, sizeof *exact), *y = rig_alloc(tokens * width * count + 1, sizeof *y),
           *dtable = rig_alloc(rows * width, sizeof *dtable);
    for (size_t i = 0; i < tokens * count; i++) exact[i] = (double)(x[i] = (float)rig_below(&random, rows));
    rig_begin(r, capacity);
    clq_value vx = rig_value_of(r, "x", CLQ_F32, 0, tokens), vt = rig_value_of(r, "table", CLQ_F32, rows * width, 0),
              vy = rig_value_of(r, "y", dtype, 0, tokens * width),
              vdy = rig_value_of(r, "dy", dtype, 0, tokens * width),
              vdt = rig_value_of(r, "dtable", CLQ_F32, rows * width, 0);
    clq_gather(r->list, &p, vx, vt, vy);
    clq_gather_gradient(r->list, &p, vx, vdy, vdt);
    rig_bind(r);
    rig_fill(r, vx, x, tokens * count * sizeof *x);
    rig_fill(r, vt, table.stored, rows * width * sizeof(float));
    rig_fill(r, vdy, dy.stored, clq_values_bytes(dtype, tokens * width * count));
    rig_run(r, count);
    ref_gather(&p, count, exact, table.exact, y);
    ref_gather_gradient(&p, count, exact, dy.exact, dtable);
    rig_check_value(r, "y", vy, dtype, y, tokens * width * count, relative, 0);
    rig_check_value(r, "dtable", vdt, CLQ_F32, dtable, rows * width, relative, 1e-7 * (double)(tokens * count + 1));
    rig_end(r);
    rig_release(&table);
    rig_release(&dy);
    void *const all[] = {x, exact, y, dtable};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_free(all[i]);
}

static void gathered(rig *r) {
    if (rig_takes(r, 0)) {
        check_gather(r, 5, 7, 19, CLQ_F32, 4, 3);
        check_gather(r, 1, 1, 1, CLQ_F32, 2, 2);
        check_gather(r, 3, 40, 4, CLQ_F32, 3, 0);
        if (rig_affords(r, 100000)) check_gather(r, 64, 500, 128, CLQ_F32, 13, 12); /* for several work-items */
    }
    if (rig_takes(r, 1)) check_gather(r, 5, 11, 33, CLQ_F16, 3, 3);
}

static void test_batched(void **state) {
    (void)state;
    rig_each(batched);
}
static void test_gathered(void **state) {
    (void)state;
    rig_each(gathered);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_batched), cmocka_unit_test(test_gathered)};
    return cmocka_run_group_tests_name("ops/batched", tests, NULL, NULL);
}
