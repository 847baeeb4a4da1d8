/* Trainings that resume from a checkpoint with other data: in other batches, of other samples, or with other labels. */
#include "train/callbacks.h"
#include "train/checkpoint.h"
#include "train/resumed.h"

#include <math.h>

/* ---- the place in an epoch ---- */

/* Two of five batches are done, which are 3.6 of nine batches. */
static void other_batches_go_on_at_the_same_part(void **state) {
    (void)state;
    clq_model *model = make_model(false, 8);
    clq_dataset *data = make_data();
    uint64_t step, epoch, index;
    clq_checkpoints *checkpoints = save_two(model, data, &settings[0], "adam", "batches");
    clq_trainer *trainer = make_trainer(model, &settings[0], "adam");
    assert_ok(clq_dataset_batch(data, BATCH / 2, false));
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &step));
    clq_dataset_tell(data, &epoch, &index);
    assert_int_equal(step, 2);
    assert_int_equal(epoch, 0);
    assert_int_equal(index, 4);
    clq_trainer_destroy(trainer);
    clq_checkpoints_close(checkpoints);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* Two of five batches are done. If other samples make as many batches, only their order differs. Of three batches 1.2
 * are done. */
static void other_samples_go_on_at_the_same_part(void **state) {
    static const struct {
        size_t take, index;
        const char *says;
    } cases[] = {
        {SAMPLES, 2, NULL},
        {SAMPLES - 3, 2, "its data were 133 samples in batches of 32, shuffled among 133, and now are 130 samples"},
        {2 * BATCH + 6, 1, "its epochs had 5 batches, and now have 3"},
    };
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        char name[32];
        uint64_t step, epoch, index;
        clq_model *model = make_model(false, 8);
        clq_dataset *data = make_data();
        (void)snprintf(name, sizeof name, "taken %zu", i);
        clq_checkpoints *checkpoints = save_two(model, data, &settings[0], "adam", name);
        clq_trainer *trainer = make_trainer(model, &settings[0], "adam");
        clq_dataset_destroy(data);
        data = make_data();
        assert_ok(clq_dataset_take(data, cases[i].take));
        warned[0] = '\0';
        assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &step));
        clq_dataset_tell(data, &epoch, &index);
        assert_int_equal(step, 2);
        assert_int_equal(epoch, 0);
        assert_int_equal(index, cases[i].index);
        if (cases[i].says)
            expect_text(warned, cases[i].says);
        else
            assert_string_equal(warned, "");
        clq_trainer_destroy(trainer);
        clq_checkpoints_close(checkpoints);
        clq_dataset_destroy(data);
        clq_model_destroy(model);
    }
}

/* ---- labels ---- */

typedef struct losses {
    double sum; /* sum of the steps' losses times their samples */
    size_t samples;
    /* The last epoch's, told by on_epoch. */
    double loss;
    size_t told;
} losses;

static clq_status stop_at_seven(void *context, const clq_step_info *info) {
    (void)context;
    return info->step == 7 ? clq_fail(CLQ_ERROR_INTERRUPTED, "stopped") : CLQ_OK;
}

static clq_status sum_losses(void *context, const clq_step_info *info) {
    losses *l = context;
    l->samples += info->samples;
    l->sum += (double)info->samples * info->loss;
    return CLQ_OK;
}

static clq_status keep_losses(void *context, const clq_epoch_info *info) {
    losses *l = context;
    l->loss = info->train.loss;
    l->told = info->train.samples;
    return CLQ_OK;
}

/* The labels are numbers near 0, or the samples. */
static clq_dataset *label_by(bool samples_are_labels) {
    static float near_zero[SAMPLES][INPUTS];
    const size_t shape[] = {INPUTS};
    clq_dataset *data;
    for (size_t n = 0; n < SAMPLES; n++)
        for (size_t i = 0; i < INPUTS; i++) near_zero[n][i] = 1e-3f;
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, near_zero, CLQ_F32, INPUTS, &data));
    if (samples_are_labels) assert_ok(clq_dataset_label_by_samples(data, 1));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    return data;
}

/* A trainer of a model that gives back as many values as it gets. They are 0 at first. */
static clq_trainer *make_valuer(const clq_model *model) {
    clq_trainer_config config = clq_trainer_config_default();
    const float zeros[INPUTS * INPUTS] = {0};
    clq_devices devices;
    clq_trainer *trainer;
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.metrics = "mae";
    assert_ok(clq_optimizer_parse("sgd:lr=0.001", &config.optimizer));
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_ok(clq_trainer_set_variable(trainer, 0, zeros));
    return trainer;
}

/* Fits two epochs, the second of which is stopped (left NULL), or fits what is left of the second. */
static void fit_part(clq_trainer *trainer, clq_dataset *data, const char *monitor, clq_checkpoints *checkpoints,
                     bool samples_are_labels, losses *left, clq_early_stopping_result *found) {
    clq_early_stopping stop = {.patience = 5};
    clq_callback callback;
    clq_dataset *tested = label_by(samples_are_labels);
    clq_fit_config fit = {.epochs = 2,
                          .validation = tested,
                          .context = left,
                          .on_step = left ? sum_losses : stop_at_seven,
                          .on_epoch = left ? keep_losses : NULL,
                          .checkpoints = checkpoints,
                          .callbacks = &callback,
                          .callback_count = 1};
    assert_ok(clq_early_stopping_parse(monitor, &stop));
    assert_ok(clq_callback_early_stopping(&stop, &callback));
    assert_int_equal(clq_fit(trainer, data, &fit), left ? CLQ_OK : CLQ_ERROR_INTERRUPTED);
    assert_ok(clq_early_stopping_read(&callback, found));
    clq_callback_destroy(&callback);
    clq_dataset_destroy(tested);
}

/* The loss and the error are near 0 unless the labels are the samples. */
static void go_on_with_labels(const char *monitor, bool before, bool now) {
    const bool change = before != now;
    clq_model *model;
    clq_early_stopping_result found;
    losses left = {0};
    uint64_t step;
    char folder[64];
    (void)snprintf(folder, sizeof folder, "%s %d %d", monitor, before, now);
    clq_checkpoints *checkpoints = open_checkpoints(files_path(folder));
    assert_ok(clq_model_create("values", &model));
    assert_ok(clq_model_finish(model, clq_dense(model, clq_input(model, CLQ_SHAPE(INPUTS)),
                                                &(clq_dense_config){.units = INPUTS, .no_bias = true})));
    clq_trainer *trainer = make_valuer(model);
    clq_dataset *data = label_by(before);
    fit_part(trainer, data, monitor, checkpoints, before, NULL, &found);
    assert_true(found.has_best && found.best_epoch == 0 && (found.best > 0.01) == before);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    trainer = make_valuer(model);
    data = label_by(now);
    warned[0] = '\0';
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &step));
    assert_int_equal(step, 7);
    fit_part(trainer, data, monitor, checkpoints, now, &left, &found);
    assert_int_equal(strstr(warned, "its loss or metrics are others") != NULL, change);
    assert_int_equal(strstr(warned, "than the training's: the best is looked for from here on") != NULL, change);
    assert_int_equal(left.samples, SAMPLES - 2 * BATCH);
    assert_int_equal(left.told, change ? left.samples : SAMPLES);
    assert_true(found.has_best && found.best_epoch == 1 && (found.best > 0.01) == now);
    if (change) assert_true(fabs(left.loss - left.sum / (double)left.samples) < 1e-6 * left.loss);
    clq_trainer_destroy(trainer);
    clq_checkpoints_close(checkpoints);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void what_other_labels_gave_begins_anew(void **state) {
    static const char *const monitors[] = {"monitor=loss", "monitor=val_loss", "monitor=mae", "monitor=val_mae"};
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(monitors); i++)
        for (unsigned way = 0; way < 4; way++) go_on_with_labels(monitors[i], way & 1, way & 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(other_batches_go_on_at_the_same_part),
                                       cmocka_unit_test(other_samples_go_on_at_the_same_part),
                                       cmocka_unit_test(what_other_labels_gave_begins_anew)};
    clq_log_set_sink(keep_warning, NULL, CLQ_LOG_WARNING);
    return cmocka_run_group_tests_name("train/checkpoint_data", tests, start, end);
}
