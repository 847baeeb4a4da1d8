/* States of callbacks in a training that resumes. The best weights are kept. What belongs to another monitor, another
 * loss or another file is forgotten, with a warning. */
#include "support/check.h"
#include "support/files.h"
#include "support/system.h"
#include "train/callbacks.h"
#include <clique/checkpoint.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A bias alone, from 0 towards 1. A rate of 1.25 swings it around 1 ever further: 2.5, -1.25, 4.375. */
static const float sample[1] = {0}, target[1] = {1};
static const size_t shape[] = {1};
static clq_model *model;
static clq_dataset *data, *validation;
static char warned[4000];

static void keep_warning(void *context, clq_log_level level, const char *line) {
    (void)context;
    if (level == CLQ_LOG_WARNING) snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", line);
}

static clq_trainer *open_weighted(clq_loss_kind loss, double lr, bool samples, const double *classes) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    config.loss = clq_loss_default(loss);
    config.sample_dtype = CLQ_F32;
    config.metrics = "mae";
    config.optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD);
    config.optimizer.values[0] = lr;
    config.sample_weights = samples;
    config.class_weights = classes;
    config.class_weight_count = classes ? 2 : 0;
    assert_ok(clq_dataset_seek(data, 0, 0));
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

static clq_trainer *open_trainer(clq_loss_kind loss, double lr) { return open_weighted(loss, lr, false, NULL); }

typedef struct outcome {
    float bias;
    clq_early_stopping_result found;
} outcome;

/* A run of a program, which resumes if the folder has a checkpoint. */
static outcome run(const char *folder, const char *options, uint64_t epochs) {
    outcome result;
    clq_early_stopping config = {.patience = 0};
    clq_callback stop;
    clq_checkpoints *checkpoints;
    uint64_t step;
    clq_trainer *trainer = open_trainer(CLQ_LOSS_MEAN_SQUARED_ERROR, 1.25);
    assert_ok(clq_early_stopping_parse(options, &config));
    assert_ok(clq_callback_early_stopping(&config, &stop));
    assert_ok(clq_checkpoints_open(&(clq_checkpoints_config){.folder = folder, .resume = true}, &checkpoints));
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &step));
    const clq_fit_config fit = {.epochs = epochs,
                                .validation = validation,
                                .checkpoints = checkpoints,
                                .callbacks = &stop,
                                .callback_count = 1};
    assert_ok(clq_fit(trainer, data, &fit));
    assert_ok(clq_trainer_get_variable(trainer, 1, &result.bias));
    assert_ok(clq_early_stopping_read(&stop, &result.found));
    clq_callback_destroy(&stop);
    clq_checkpoints_close(checkpoints);
    clq_trainer_destroy(trainer);
    return result;
}

static void expect_best(outcome o, bool stopped) {
    assert_true(fabsf(o.bias - 2.5f) < 1e-5f);
    assert_true(o.found.restored_best_weights && o.found.has_best && o.found.best_epoch == 0);
    assert_true(o.found.stopped == stopped && fabs(o.found.best - 2.25) < 1e-5);
}

/* Epoch 0 is the best: in a run that is repeated, in a run that resumes after it was cut short, and in its
 * repetition. */
static void best_weights_go_along(void **state) {
    (void)state;
    char *repeated = clq_strdup(files_path("repeated")), *cut = clq_strdup(files_path("cut"));
    assert_true(repeated && cut);
    for (unsigned i = 0; i < 3; i++) expect_best(run(repeated, "patience=2,restore_best=1", 20), true);
    expect_best(run(cut, "patience=9,restore_best=1", 1), false);
    expect_best(run(cut, "patience=9,restore_best=1", 3), false);
    expect_best(run(cut, "patience=9,restore_best=1", 3), false);
    clq_free(repeated);
    clq_free(cut);
}

/* If the checkpoint has no best weights, the last weights stay, and a warning says so. */
static void without_best_weights_the_last_stay(void **state) {
    (void)state;
    char *folder = clq_strdup(files_path("none"));
    warned[0] = '\0';
    (void)run(folder, "patience=9", 2);
    const outcome o = run(folder, "patience=9,restore_best=1", 2);
    assert_true(fabsf(o.bias + 1.25f) < 1e-5f);
    assert_false(o.found.restored_best_weights);
    assert_non_null(strstr(warned, "the last weights stay"));
    clq_free(folder);
}

static clq_epoch_info epoch_of(double loss, double mae) {
    const clq_totals totals = {.samples = 1, .loss = loss, .metrics = {.count = 1, .names = {"mae"}, .values = {mae}}};
    return (clq_epoch_info){.epoch = 1, .train = totals, .validation = totals};
}

/* Tells what becomes of a best loss of 0.001 after an epoch with a loss of 0.5 and an error of 0.7. Destroys both
 * trainers. */
static clq_early_stopping_result go_on_with(const char *before, clq_trainer *first, const char *now,
                                            clq_trainer *second) {
    const clq_fit_config config = {.validation = validation};
    clq_early_stopping stop = {.patience = 50}, stop_now = stop;
    clq_callback a, b;
    clq_early_stopping_result found;
    char state[CLQ_CALLBACK_STATE_MAX];
    warned[0] = '\0';
    assert_ok(clq_early_stopping_parse(before, &stop));
    assert_ok(clq_early_stopping_parse(now, &stop_now));
    assert_ok(clq_callback_early_stopping(&stop, &a));
    assert_ok(clq_callback_early_stopping(&stop_now, &b));
    clq_epoch_info info = epoch_of(0.001, 0.001);
    assert_ok(a.on_begin(a.context, first, &config));
    assert_ok(a.on_epoch(a.context, first, &info));
    assert_ok(a.save(a.context, state, sizeof state));
    assert_ok(b.restore(b.context, state));
    info = epoch_of(0.5, 0.7);
    assert_ok(b.on_begin(b.context, second, &config));
    assert_ok(b.on_epoch(b.context, second, &info));
    assert_ok(clq_early_stopping_read(&b, &found));
    clq_callback_destroy(&a);
    clq_callback_destroy(&b);
    clq_trainer_destroy(first);
    clq_trainer_destroy(second);
    return found;
}

static clq_early_stopping_result go_on(const char *before, const char *now, clq_loss_kind loss) {
    return go_on_with(before, open_trainer(CLQ_LOSS_MEAN_SQUARED_ERROR, 0.1), now, open_trainer(loss, 0.1));
}

/* Whether the best is kept from a training to another one with other weights. */
static bool keeps_best(const char *monitor, clq_trainer *first, clq_trainer *second) {
    const bool kept = go_on_with(monitor, first, monitor, second).best == 0.001;
    assert_int_equal(strstr(warned, "of another loss") == NULL, kept);
    return kept;
}

static clq_trainer *open_mean(bool samples, const double *classes) {
    return open_weighted(CLQ_LOSS_MEAN_SQUARED_ERROR, 0.1, samples, classes);
}

/* Class weights belong to training alone. Sample weights count where a set has them. */
static void the_best_is_of_its_weights(void **state) {
    static const double classes[] = {1, 2}, others[] = {1, 3};
    (void)state;
    assert_true(keeps_best("monitor=val_loss", open_mean(false, NULL), open_mean(false, classes)));
    assert_true(keeps_best("monitor=val_loss", open_mean(false, classes), open_mean(false, others)));
    assert_true(keeps_best("monitor=val_loss", open_mean(false, NULL), open_mean(true, NULL)));
    assert_true(keeps_best("monitor=loss", open_mean(false, classes), open_mean(false, classes)));
    assert_false(keeps_best("monitor=loss", open_mean(false, NULL), open_mean(false, classes)));
    assert_false(keeps_best("monitor=loss", open_mean(false, classes), open_mean(false, others)));
    assert_false(keeps_best("monitor=loss", open_mean(false, NULL), open_mean(true, NULL)));
}

static void the_best_is_of_its_monitor(void **state) {
    (void)state;
    assert_true(go_on("patience=50", "patience=40,min_delta=0.1", CLQ_LOSS_MEAN_SQUARED_ERROR).best == 0.001);
    assert_string_equal(warned, "");
    assert_true(go_on("patience=50", "monitor=val_mae", CLQ_LOSS_MEAN_SQUARED_ERROR).best == 0.7);
    assert_non_null(strstr(warned, "monitor 'val_loss' (min), and the training watches 'val_mae' (min)"));
    assert_true(go_on("patience=50", "mode=max", CLQ_LOSS_MEAN_SQUARED_ERROR).best == 0.5);
    assert_non_null(strstr(warned, "watches 'val_loss' (max)"));
    assert_true(go_on("monitor=val_mae", "monitor=val_mae", CLQ_LOSS_MEAN_ABSOLUTE_ERROR).best == 0.001);
    assert_string_equal(warned, "");
    assert_true(go_on("patience=50", "patience=50", CLQ_LOSS_MEAN_ABSOLUTE_ERROR).best == 0.5);
    assert_non_null(strstr(warned, "of another loss"));
}

/* The lowered rate stays. Epochs without an improvement are counted anew. */
static void a_plateau_is_of_its_monitor(void **state) {
    (void)state;
    const clq_fit_config config = {.validation = validation};
    clq_trainer *trainer = open_trainer(CLQ_LOSS_MEAN_SQUARED_ERROR, 0.5);
    clq_reduce_lr reduce = clq_reduce_lr_default();
    clq_callback a, b;
    char text[CLQ_CALLBACK_STATE_MAX];
    clq_epoch_info info = epoch_of(0.001, 0.9);
    reduce.patience = 2;
    assert_ok(clq_callback_reduce_lr(&reduce, &a));
    assert_ok(clq_reduce_lr_parse("monitor=val_mae", &reduce));
    assert_ok(clq_callback_reduce_lr(&reduce, &b));
    assert_ok(a.on_begin(a.context, trainer, &config));
    for (unsigned i = 0; i < 2; i++) assert_ok(a.on_epoch(a.context, trainer, &info)); /* one is no improvement */
    assert_ok(a.save(a.context, text, sizeof text));
    assert_ok(b.restore(b.context, text));
    assert_ok(b.on_begin(b.context, trainer, &config));
    for (unsigned i = 0; i < 3; i++) {
        info = epoch_of(0.5, 0.9 - 0.1 * i);
        assert_ok(b.on_epoch(b.context, trainer, &info));
    }
    assert_true(trainer->config.optimizer.values[0] == 0.5);
    clq_callback_destroy(&a);
    clq_callback_destroy(&b);
    clq_trainer_destroy(trainer);
}

/* The best so far counts only if its callback's file has it. */
static void the_best_is_in_its_file(void **state) {
    (void)state;
    const clq_fit_config config = {.validation = validation};
    const clq_monitor monitor = {.mode = CLQ_MONITOR_AUTO};
    clq_trainer *trainer = open_trainer(CLQ_LOSS_MEAN_SQUARED_ERROR, 0.5);
    char *paths[] = {clq_strdup(files_path("a")), clq_strdup(files_path("./a")), clq_strdup(files_path("b"))};
    char text[CLQ_CALLBACK_STATE_MAX];
    clq_callback a, again;
    assert_ok(clq_callback_save_best(paths[0], &monitor, &a));
    clq_epoch_info info = epoch_of(0.001, 0.1);
    assert_ok(a.on_begin(a.context, trainer, &config));
    assert_ok(a.on_epoch(a.context, trainer, &info));
    assert_ok(a.save(a.context, text, sizeof text));
    info = epoch_of(0.5, 0.5);
    /* The same file, the same file by another path, another file, and the first file after it was removed. */
    for (unsigned i = 0; i < 4; i++) {
        const char *path = paths[i % 3];
        warned[0] = '\0';
        if (i == 3) assert_int_equal(unlink(path), 0);
        assert_ok(clq_callback_save_best(path, &monitor, &again));
        assert_ok(again.restore(again.context, text));
        assert_ok(again.on_begin(again.context, trainer, &config));
        assert_int_equal(clq_file_exists(path), i < 2);
        assert_ok(again.on_epoch(again.context, trainer, &info));
        assert_true(clq_file_exists(path));
        assert_int_equal(strstr(warned, "the best weights before are not in") != NULL, i > 1);
        clq_callback_destroy(&again);
    }
    clq_callback_destroy(&a);
    for (unsigned i = 0; i < 3; i++) clq_free(paths[i]);
    clq_trainer_destroy(trainer);
}

static int start(void **state) {
    if (files_begin(state) != 0 || open_system(state) != 0) return -1;
    assert_ok(clq_model_create("bias", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(1));
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = 1})));
    assert_ok(clq_dataset_arrays(sample, CLQ_F32, 1, 1, shape, target, CLQ_F32, 1, &data));
    assert_ok(clq_dataset_arrays(sample, CLQ_F32, 1, 1, shape, target, CLQ_F32, 1, &validation));
    assert_ok(clq_dataset_batch(data, 1, false));
    assert_ok(clq_dataset_batch(validation, 1, false));
    return 0;
}

static int finish(void **state) {
    clq_dataset_destroy(data);
    clq_dataset_destroy(validation);
    clq_model_destroy(model);
    return files_end(state) == 0 ? close_system(state) : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_weights_go_along),       cmocka_unit_test(without_best_weights_the_last_stay),
        cmocka_unit_test(the_best_is_of_its_weights),  cmocka_unit_test(the_best_is_of_its_monitor),
        cmocka_unit_test(a_plateau_is_of_its_monitor), cmocka_unit_test(the_best_is_in_its_file)};
    clq_log_set_sink(keep_warning, NULL, CLQ_LOG_WARNING);
    return cmocka_run_group_tests(tests, start, finish);
}
