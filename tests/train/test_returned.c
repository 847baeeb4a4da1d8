/* Callers' functions that fail without a detail: the detail then names the function, and not what failed before. */
#include "support/check.h"
#include "support/files.h"
#include "support/system.h"

#include <clique/clique.h>

enum { INPUTS = 3, SAMPLES = 8, BATCH = 4 };

static clq_model *model;
static clq_dataset *data;
static clq_trainer *trainer;

/* ---- functions that fail ---- */

static clq_status on_step(void *context, const clq_step_info *info) {
    (void)info;
    return *(const clq_status *)context;
}
static clq_status on_progress(void *context, const clq_progress *progress) {
    (void)progress;
    return *(const clq_status *)context;
}
static clq_status on_validation(void *context, const clq_progress *progress) {
    return progress->validation_batches > 0 ? *(const clq_status *)context : CLQ_OK;
}
static clq_status on_epoch(void *context, const clq_epoch_info *info) {
    (void)info;
    return *(const clq_status *)context;
}
static clq_status on_checkpoint(void *context, uint64_t step) {
    (void)step;
    return *(const clq_status *)context;
}
static clq_status own_begin(void *context, clq_trainer *t, const clq_fit_config *config) {
    (void)t;
    (void)config;
    return *(const clq_status *)context;
}
static clq_status own_step(void *context, clq_trainer *t, const clq_step_info *info) {
    (void)t;
    (void)info;
    return *(const clq_status *)context;
}
static clq_status own_epoch(void *context, clq_trainer *t, const clq_epoch_info *info) {
    (void)t;
    (void)info;
    return *(const clq_status *)context;
}
static clq_status own_end(void *context, clq_trainer *t, clq_status status) {
    (void)t;
    (void)status;
    return *(const clq_status *)context;
}
static clq_status own_save(void *context, char *text, size_t bytes) {
    (void)text;
    (void)bytes;
    return *(const clq_status *)context;
}
static clq_status own_detail(void *context, const clq_step_info *info) {
    (void)info;
    return clq_fail(*(const clq_status *)context, "what it says of itself");
}

/* ---- fits ---- */

static void fit_fails(clq_fit_config config, const char *says) {
    clq_status wanted = CLQ_ERROR_NOT_FOUND;
    config.context = &wanted;
    config.epochs = 1;
    assert_ok(clq_dataset_seek(data, 0, 0));
    (void)clq_fail(CLQ_ERROR_ARGUMENT, "older");
    assert_fails(CLQ_ERROR_NOT_FOUND, says, clq_fit(trainer, data, &config));
    assert_null(strstr(clq_error_detail(), "older"));
}

static void callback_fails(clq_callback callback, const char *says) {
    clq_status wanted = CLQ_ERROR_NOT_FOUND;
    callback.name = "mine";
    callback.context = &wanted;
    fit_fails((clq_fit_config){.callbacks = &callback, .callback_count = 1}, says);
}

static void functions_of_a_fit(void **state) {
    (void)state;
    fit_fails((clq_fit_config){.on_step = on_step}, "on_step returned \"not found\"");
    fit_fails((clq_fit_config){.on_step = own_detail}, "what it says of itself");
    fit_fails((clq_fit_config){.on_progress = on_progress}, "on_progress returned \"not found\"");
    fit_fails((clq_fit_config){.on_epoch = on_epoch}, "on_epoch returned \"not found\"");
    fit_fails((clq_fit_config){.on_log = on_step}, "on_log returned \"not found\"");
    callback_fails((clq_callback){.on_begin = own_begin}, "callback 'mine': on_begin returned \"not found\"");
    callback_fails((clq_callback){.on_step = own_step}, "callback 'mine': on_step returned \"not found\"");
    callback_fails((clq_callback){.on_epoch = own_epoch}, "callback 'mine': on_epoch returned \"not found\"");
    callback_fails((clq_callback){.on_end = own_end}, "callback 'mine': on_end returned \"not found\"");
}

static void functions_at_checkpoints(void **state) {
    (void)state;
    clq_status wanted = CLQ_ERROR_NOT_FOUND;
    const clq_callback saves = {.name = "mine", .context = &wanted, .save = own_save};
    clq_checkpoints *checkpoints;
    for (int i = 0; i < 2; i++) {
        assert_ok(clq_checkpoints_open(
            &(clq_checkpoints_config){.folder = files_path(i ? "saves" : "tells"), .every = 1}, &checkpoints));
        clq_fit_config config = {.checkpoints = checkpoints};
        if (i)
            config.callbacks = &saves, config.callback_count = 1;
        else
            config.on_checkpoint = on_checkpoint;
        fit_fails(config, i ? "save returned \"not found\"" : "on_checkpoint returned \"not found\"");
        clq_checkpoints_close(checkpoints);
    }
}

/* Progress is told now and then: in a validation after a quarter of a second at the latest. */
static void progress_of_a_validation(void **state) {
    (void)state;
    enum { MANY = 200000 };
    float *samples = clq_alloc((size_t)MANY * INPUTS, sizeof *samples);
    int32_t *labels = clq_alloc(MANY, sizeof *labels);
    clq_dataset *validation;
    assert_true(samples && labels);
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, MANY, 1, (size_t[]){INPUTS}, labels, CLQ_I32, 1, &validation));
    fit_fails((clq_fit_config){.on_progress = on_validation, .validation = validation},
              "on_progress returned \"not found\"");
    clq_dataset_destroy(validation);
    clq_free(samples);
    clq_free(labels);
}

static int setup(void **state) {
    float samples[SAMPLES * INPUTS] = {0};
    int32_t labels[SAMPLES] = {0};
    files_begin(state);
    open_system(state);
    assert_ok(clq_model_create("small", &model));
    const clq_tensor x = clq_input(model, CLQ_SHAPE(INPUTS));
    const clq_dense_config dense = {.units = 2, .activation = CLQ_ACTIVATION_SOFTMAX};
    assert_ok(clq_model_finish(model, clq_dense(model, x, &dense)));
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, (size_t[]){INPUTS}, labels, CLQ_I32, 1, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    clq_devices one;
    assert_ok(clq_devices_select(sys, "pocl:0", &one));
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    assert_ok(clq_trainer_create(model, &one, &config, &trainer));
    return 0;
}

static int teardown(void **state) {
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    close_system(state);
    return files_end(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions_of_a_fit), cmocka_unit_test(functions_at_checkpoints),
                                       cmocka_unit_test(progress_of_a_validation)};
    return cmocka_run_group_tests_name("returned", tests, setup, teardown);
}
