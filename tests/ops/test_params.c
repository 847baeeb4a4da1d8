/* Every parameter of a step reaches the kernels that ask for it, launch by launch and if all launches are one. */
#include "ops/elementwise/cut.h"
#include "support/ops_rig.h"

enum { ROWS = 8, CAPACITY = 4 };

/* A launch that copies as many floats as the parameter says. */
static void add_counted(rig *r, clq_param param, clq_value x, clq_value y) {
    clq_cut cut = clq_cut_make(r->list, ROWS, 1, 1);
    const clq_kernel_options options = clq_cut_options(&cut, " -DWIDTH=%d", 1);
    clq_launch_begin(r->list, "counted", "repeat", options.text, "repeat");
    clq_launch_value(r->list, x, CLQ_READS);
    clq_launch_value(r->list, y, CLQ_WRITES);
    clq_launch_param(r->list, param);
    for (unsigned i = 0; i < 3; i++) clq_launch_int(r->list, 1); /* one float each */
    clq_launch_float(r->list, 1);
    clq_cut_work(r->list, &cut);
}

static void check_counted(rig *r, clq_value y, uint32_t count) {
    float got[ROWS];
    rig_read(r, y, got, count * sizeof *got);
    for (uint32_t i = 0; i < count; i++) assert_true(got[i] == 1.0f);
    rig_check_untouched(r, y, count * sizeof *got);
}

static const clq_param whole[] = {CLQ_PARAM_COUNT, CLQ_PARAM_SLOT, CLQ_PARAM_STEP, CLQ_PARAM_FIRST_ROW};

static void check_whole_numbers(rig *r, bool fused) {
    float ones[ROWS];
    clq_value y[CLQ_COUNT_OF(whole)];
    for (size_t i = 0; i < ROWS; i++) ones[i] = 1;
    rig_begin(r, CAPACITY);
    clq_value x = rig_value(r, "x", sizeof ones, 0);
    for (size_t i = 0; i < CLQ_COUNT_OF(whole); i++) {
        y[i] = rig_value(r, "y", ROWS * sizeof(float), 0);
        add_counted(r, whole[i], x, y[i]);
    }
    clq_list_set_fused(r->list, fused);
    rig_bind(r);
    assert_int_equal(clq_list_is_fused(r->list), fused && r->family == CLQ_FAMILY_TILE);
    rig_fill(r, x, ones, sizeof ones);
    for (uint32_t run = 0; run < 2; run++) { /* parameters change between runs */
        const uint32_t want[] = {3 - run, 6 + run, 5 - run, 4 + run};
        for (size_t i = 0; i < CLQ_COUNT_OF(whole); i++) rig_fill(r, y[i], NULL, 0);
        r->params = (clq_step_params){.slot = want[1], .step = want[2], .first_row = want[3]};
        rig_run(r, want[0]);
        for (size_t i = 0; i < CLQ_COUNT_OF(whole); i++) check_counted(r, y[i], want[i]);
    }
    rig_end(r);
}

/* w -= RATE * g, a sum is multiplied by SUM_FACTOR, and a loss's gradient is SCALE times that of one sample. */
static void check_fractions(rig *r, bool fused) {
    const float one = 1, logits[2] = {0, 0};
    const int32_t label = 0;
    float w, sum, dx[2];
    rig_begin(r, 1);
    clq_value vw = rig_value(r, "w", sizeof one, 0), vg = rig_value(r, "g", sizeof one, 0),
              vs = rig_value(r, "sum", sizeof one, 0);
    clq_value vx = rig_value(r, "x", sizeof logits, 0), vl = rig_value(r, "label", sizeof label, 0);
    clq_value vd = rig_value(r, "dx", sizeof dx, 0), vm = rig_value(r, "metrics", 2 * sizeof(float), 0);
    clq_update(r->list, &(clq_update_problem){.optimizer = {.kind = CLQ_OPTIMIZER_SGD}},
               &(clq_update_arenas){.w = vw, .g = vg, .floats = 1});
    clq_accumulate(r->list, 1, vg, vs);
    clq_loss_and_metrics(
        r->list,
        &(clq_loss_problem){.kind = CLQ_LOSS_SPARSE_CATEGORICAL, .classes = 2, .from_logits = true, .weight = 1},
        &(clq_loss_values){.x = vx, .targets = vl, .dx = vd, .metrics = vm});
    clq_list_set_fused(r->list, fused);
    rig_bind(r);
    rig_fill(r, vw, &one, sizeof one);
    rig_fill(r, vg, &one, sizeof one);
    rig_fill(r, vs, &one, sizeof one);
    rig_fill(r, vx, logits, sizeof logits);
    rig_fill(r, vl, &label, sizeof label);
    r->params = (clq_step_params){.rate = 0.25f, .scale = 0.125f, .sum_factor = 1.5f};
    rig_run(r, 1);
    rig_read(r, vw, &w, sizeof w);
    rig_read(r, vd, dx, sizeof dx);
    rig_read(r, vs, &sum, sizeof sum);
    assert_true(w == 0.75f);
    assert_true(sum == 3);                              /* (1 + 1) * 1.5 */
    assert_true(dx[0] == -0.0625f && dx[1] == 0.0625f); /* (1/2 - 1) / 8, 1/2 / 8 */
    rig_end(r);
}

static void check_all(rig *r) {
    for (int fused = 0; fused < 2; fused++) {
        check_whole_numbers(r, fused);
        check_fractions(r, fused);
    }
}

static void kernels_see_them(void **state) {
    (void)state;
    rig_each(check_all);
}

static void the_table_is_the_struct(void **state) {
    (void)state;
    static const char *const names[] = {"count",    "scale",   "slot",     "step",    "first_row", "sum_factor",
                                        "average",  "rate",    "second",   "third",   "decay",     "rate_1",
                                        "second_1", "third_1", "decay_1",  "rate_2",  "second_2",  "third_2",
                                        "decay_2",  "rate_3",  "second_3", "third_3", "decay_3"};
    static const char *const first_types[] = {"int", "float", "int", "int", "int"}; /* the others are floats */
    assert_int_equal(CLQ_COUNT_OF(names), CLQ_PARAM_COUNT_OF);
    for (int p = 0; p < CLQ_PARAM_COUNT_OF; p++) {
        assert_string_equal(clq_param_table[p].name, names[p]);
        assert_string_equal(clq_param_table[p].kernel_type,
                            (size_t)p < CLQ_COUNT_OF(first_types) ? first_types[p] : "float");
        assert_int_equal(clq_param_table[p].offset, (size_t)p * sizeof(uint32_t));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_see_them), cmocka_unit_test(the_table_is_the_struct)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
