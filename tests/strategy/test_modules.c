/* Which module implements a strategy, by its name and the number of devices, and which combinations are refused. */
#include "strategy/module.h"
#include "support/check.h"
#include "support/system.h"

enum { BATCH = 6 };

static clq_status create(clq_strategy_kind kind, const char *spec, clq_strategy **out) {
    static const clq_loss_problem loss = {
        .kind = CLQ_LOSS_SPARSE_CATEGORICAL, .classes = 2, .from_logits = true, .weight = 1};
    static const clq_optimizer sgd = {.kind = CLQ_OPTIMIZER_SGD};
    static clq_model *model;
    clq_devices devices;
    assert_ok(clq_devices_select(sys, spec, &devices));
    clq_model_destroy(model); /* belongs to the last strategy, which has ended */
    assert_ok(clq_model_create("small", &model));
    assert_ok(
        clq_model_finish(model, clq_dense(model, clq_input(model, CLQ_SHAPE(3)), &(clq_dense_config){.units = 2})));
    const clq_strategy_config config = {
        .kind = kind,
        .plan = {.sample_dtype = CLQ_F32, .loss = &loss, .update = &sgd, .metric_slots = 1},
        .global_batch = BATCH};
    return clq_strategy_create(model, &devices, &config, out);
}

static void names_are_known(void **state) {
    (void)state;
    static const char *const names[] = {
        [CLQ_STRATEGY_AUTO] = "auto",        [CLQ_STRATEGY_SINGLE] = "single", [CLQ_STRATEGY_MIRRORED] = "mirrored",
        [CLQ_STRATEGY_CENTRAL] = "central",  [CLQ_STRATEGY_PS] = "ps",         [CLQ_STRATEGY_TENSOR] = "tensor",
        [CLQ_STRATEGY_PIPELINE] = "pipeline"};
    for (size_t i = 0; i < CLQ_COUNT_OF(names); i++) assert_string_equal(clq_strategy_name(i), names[i]);
    assert_null(clq_strategy_name(CLQ_COUNT_OF(names)));
}

static void the_kind_reaches_the_table(void **state) {
    (void)state;
    static const struct {
        clq_strategy_kind kind;
        const char *spec, *name;
        bool communicates;
    } cases[] = {{CLQ_STRATEGY_AUTO, "pocl:0", "single", false},
                 {CLQ_STRATEGY_SINGLE, "pocl:0", "single", false},
                 {CLQ_STRATEGY_MIRRORED, "pocl:0", "mirrored", false},
                 {CLQ_STRATEGY_AUTO, "pocl:0,pocl:1", "mirrored", true},
                 {CLQ_STRATEGY_MIRRORED, "pocl:0,pocl:1", "mirrored", true},
                 {CLQ_STRATEGY_CENTRAL, "pocl:0", "central", true},
                 {CLQ_STRATEGY_CENTRAL, "pocl:0,pocl:1", "central", true},
                 {CLQ_STRATEGY_PS, "pocl:0,pocl:1", "ps", true},
                 {CLQ_STRATEGY_TENSOR, "pocl:0", "tensor", false},
                 {CLQ_STRATEGY_TENSOR, "pocl:0,pocl:1", "tensor", true}};
    static const float samples[BATCH * 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const int32_t labels[BATCH] = {0, 1, 0, 1, 0, 1};
    const char *const arrays[] = {(const char *)samples, (const char *)labels};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_strategy *strategy;
        assert_ok(create(cases[i].kind, cases[i].spec, &strategy));
        const clq_feed *feed = clq_strategy_feed(strategy);
        assert_int_equal(feed->count, 2);
        assert_int_equal(feed->arrays[0].bytes, 3 * sizeof(float));
        assert_int_equal(feed->arrays[1].bytes, sizeof(int32_t));
        const clq_rows batch = {.feed = feed, .arrays = arrays, .count = BATCH};
        assert_string_equal(strategy->module->name, cases[i].name);
        assert_ok(clq_strategy_step(strategy, &batch, &(clq_step_params){.rate = 0.5f, .step = 1}));
        assert_ok(clq_strategy_gradients(strategy, &batch, &(clq_step_params){.step = 2}));
        assert_ok(clq_strategy_reduce(strategy));
        assert_ok(clq_strategy_apply(strategy, &(clq_step_params){.rate = 0.5f, .step = 2}));
        assert_ok(clq_strategy_wait(strategy));
        assert_true((clq_strategy_comm_times(strategy).total_s > 0) == cases[i].communicates);
        clq_strategy_destroy(strategy);
    }
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    clq_strategy *strategy = NULL;
    assert_fails(CLQ_ERROR_ARGUMENT, "single takes one device and 2 are selected",
                 create(CLQ_STRATEGY_SINGLE, "pocl:0,pocl:1", &strategy));
    assert_fails(CLQ_ERROR_ARGUMENT, "none of clq_strategy_kind", create((clq_strategy_kind)17, "pocl:0", &strategy));
    assert_null(strategy);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_known), cmocka_unit_test(the_kind_reaches_the_table),
                                       cmocka_unit_test(what_does_not_fit_is_refused)};
    return cmocka_run_group_tests_name("strategy/modules", tests, open_system, close_system);
}
