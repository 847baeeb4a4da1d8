/* Optimizers for parts of a model: which variables each one has, and their learning rates, by the definition of SGD. */
#include "support/apart.h"
#include "support/runs.h"

#include <math.h>

static const clq_optimizer_config *with;
static size_t with_count;

static clq_trainer_config configure(clq_trainer_config config) {
    config.optimizers = with;
    config.optimizer_count = with_count;
    return config;
}

static clq_optimizer optimizer(const char *text) {
    clq_optimizer result;
    assert_ok(clq_optimizer_parse(text, &result));
    return result;
}

/* Checks w - lr g for each variable. */
static void check_step(clq_trainer *trainer, const clq_model *model, clq_dataset *data, const double *rates) {
    const size_t elements = clq_model_parameter_count(model);
    float *before = clq_alloc(elements, sizeof *before), *gradient = clq_alloc(elements, sizeof *before),
          *after = clq_alloc(elements, sizeof *before);
    assert_true(before && gradient && after);
    run_read(trainer, model, false, before);
    run_step(trainer, data, false);
    run_read(trainer, model, true, gradient);
    run_read(trainer, model, false, after);
    for (size_t v = 0, i = 0; v < clq_model_variable_count(model); v++) {
        clq_variable_info variable;
        assert_ok(clq_model_variable(model, v, &variable));
        for (const size_t end = i + variable.elements; i < end; i++) {
            const double want = (double)before[i] - rates[v] * (double)gradient[i];
            if (!(fabs((double)after[i] - want) < 1e-7 * (1 + fabs(want))))
                fail_msg("%s is %.9g, not %.9g", variable.name, (double)after[i], want);
        }
    }
    clq_free(before);
    clq_free(gradient);
    clq_free(after);
}

/* The first optimizer that names a variable has it. Setting the rate scales all rates, and a rate of 0 stays 0. */
static void each_has_its_rate(void **state) {
    const clq_optimizer_config others[] = {{.variables = "dense/bias", .optimizer = optimizer("sgd:lr=0")},
                                           {.variables = "den?e_1/k*l,dense_1", .optimizer = optimizer("sgd:lr=0.02")},
                                           {.variables = "*bias,d*e", .optimizer = optimizer("sgd:lr=0.3")}};
    static const double rates[] = {0.3, 0, 0.02, 0.02}, lowered[] = {0.15, 0, 0.01, 0.01};
    (void)state;
    with = others;
    with_count = CLQ_COUNT_OF(others);
    const run r = {.optimizer = "sgd:lr=0.1", .spec = "pocl:0", .configure = configure};
    clq_model *model = run_model("mlp");
    clq_dataset *data = run_data();
    clq_trainer *trainer = run_trainer(&r, model);
    assert_int_equal(clq_model_variable_count(model), CLQ_COUNT_OF(rates));
    check_step(trainer, model, data, rates);
    assert_ok(clq_trainer_set_learning_rate(trainer, 0.05));
    check_step(trainer, model, data, lowered);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void nonsense_is_refused(void **state) {
    const clq_optimizer sgd = optimizer("sgd");
    const clq_optimizer_config unknown[] = {{.variables = "dense,conv*", .optimizer = sgd}},
                               empty[] = {{.variables = "dense,", .optimizer = sgd}}, none[] = {{.optimizer = sgd}},
                               taken[] = {{.variables = "*", .optimizer = sgd},
                                          {.variables = "dense", .optimizer = sgd}},
                               wrong[] = {{.variables = "dense", .optimizer = {(clq_optimizer_kind)99, {0}}}},
                               fine[] = {{.variables = "dense", .optimizer = sgd}};
    const struct {
        const clq_optimizer_config *optimizers;
        size_t count;
        double lr;
        const char *says;
    } cases[] = {{unknown, 1, 0.1, "no layer or trainable variable of model mlp is named 'conv*'"},
                 {empty, 1, 0.1, "expected names of layers or variables"},
                 {none, 1, 0.1, "expected names of layers or variables"},
                 {taken, 2, 0.1, "all variables of 'dense' already have an earlier optimizer"},
                 {wrong, 1, 0.1, "none of clq_optimizer_kind"},
                 {fine, 1, 0, "the main one's lr has to be above 0"},
                 {fine, CLQ_OPTIMIZERS_MAX, 0.1, "are too many: use at most 3"}};
    clq_model *model = run_model("mlp");
    clq_devices devices;
    (void)state;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_trainer_config config = apart_config();
        clq_trainer *trainer;
        config.optimizer.values[0] = cases[i].lr;
        config.optimizers = cases[i].optimizers;
        config.optimizer_count = cases[i].count;
        assert_fails(CLQ_ERROR_ARGUMENT, cases[i].says, clq_trainer_create(model, &devices, &config, &trainer));
    }
    clq_model_destroy(model);
}

/* A NULL list is empty, for optimizers and for callbacks, whatever its count. */
static void null_lists_are_empty(void **state) {
    clq_model *model = run_model("mlp");
    clq_dataset *data = run_data();
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = apart_config();
    (void)state;
    config.optimizer_count = 2;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 1, .callback_count = 3}));
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_has_its_rate), cmocka_unit_test(nonsense_is_refused),
                                       cmocka_unit_test(null_lists_are_empty)};
    return cmocka_run_group_tests(tests, open_system, close_system);
}
