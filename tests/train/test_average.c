/* Moving averages of the weights after each update, with every strategy. Swapping the weights with their averages does
 * not change a training. */
#include "support/runs.h"
#include "support/ways.h"

#include <math.h>

enum { STEPS = 6 };
static const double momentum = 0.75;

static const way *under;

static clq_trainer_config configure(clq_trainer_config config) {
    way_configure(under, &config);
    config.average = momentum;
    return config;
}

static void check_way(const way *w) {
    under = w;
    const run r = {.model = "mlp", .optimizer = "adam", .spec = w->spec, .configure = configure};
    clq_model *model = run_model(r.model);
    clq_dataset *data = run_data(), *same = run_data();
    clq_trainer *trainer = run_trainer(&r, model), *other = run_trainer(&r, model);
    const size_t elements = clq_model_parameter_count(model);
    float *now = clq_alloc(elements, sizeof *now), *got = clq_alloc(elements, sizeof *got);
    double *want = clq_alloc(elements, sizeof *want);
    assert_true(now && got && want);
    assert_fails(CLQ_ERROR_STATE, "no update was made", clq_trainer_swap_average(trainer));
    for (int step = 1; step <= STEPS; step++) {
        run_step(trainer, data, step % 3 == 0);
        run_step(other, same, step % 3 == 0);
        run_read(trainer, model, false, now);
        for (size_t i = 0; i < elements; i++) /* as in Keras: the first average is the weights */
            want[i] = step == 1 ? (double)now[i] : momentum * want[i] + (1 - momentum) * (double)now[i];
        if (step != 1 && step != 4) continue;
        clq_step_info before, after;
        assert_ok(clq_step_read(trainer, &before));
        assert_ok(clq_trainer_swap_average(trainer));
        run_read(trainer, model, false, got);
        for (size_t i = 0; i < elements; i++)
            if (!(fabs((double)got[i] - want[i]) < 1e-6))
                fail_msg("%s: step %d: average %zu is %.9g, not %.9g", w->name, step, i, (double)got[i], want[i]);
        assert_ok(clq_trainer_swap_average(trainer));
        run_read(trainer, model, false, got);
        assert_memory_equal(got, now, elements * sizeof *now);
        assert_ok(clq_step_read(trainer, &after));
        assert_true(before.loss == after.loss && before.step == after.step);
    }
    run_read(other, model, false, got);
    run_read(trainer, model, false, now);
    assert_memory_equal(got, now, elements * sizeof *now);
    clq_free(now);
    clq_free(got);
    clq_free(want);
    clq_trainer_destroy(trainer);
    clq_trainer_destroy(other);
    clq_dataset_destroy(data);
    clq_dataset_destroy(same);
    clq_model_destroy(model);
}

static void averages_are_of_all_updates(void **state) {
    (void)state;
    check_way(&way_single);
    for (size_t i = 0; i < CLQ_COUNT_OF(ways); i++) check_way(&ways[i]);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    clq_model *model = run_model("mlp");
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_fails(CLQ_ERROR_STATE, "keeps no average", clq_trainer_swap_average(trainer));
    clq_trainer_destroy(trainer);
    static const double wrong[] = {-0.5, 1, (double)NAN};
    for (size_t i = 0; i < CLQ_COUNT_OF(wrong); i++) {
        config.average = wrong[i];
        assert_fails(CLQ_ERROR_ARGUMENT, "from 0 up to 1", clq_trainer_create(model, &devices, &config, &trainer));
    }
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(averages_are_of_all_updates),
                                       cmocka_unit_test(nonsense_is_refused)};
    return cmocka_run_group_tests(tests, open_system, close_system);
}
