/* clq_trainer_stop, called from another thread, from a signal handler and from callbacks: what ends, where it ends, and
 * what is kept. */
#include "support/files.h"
#include "support/system.h"
#include "train/train.h"
#include <clique/checkpoint.h>

#include <signal.h>

enum { N = 64, BATCH = 4 };
static float samples[N][2], targets[N];
static clq_model *model;
static clq_dataset *data;
static clq_trainer *trainer;

static int begin(void **state) {
    static const size_t shape[] = {2};
    clq_trainer_config config = clq_trainer_config_default();
    clq_devices devices;
    if (open_system(state) != 0) return -1;
    for (size_t i = 0; i < N; i++) {
        samples[i][0] = (float)(i % 7);
        samples[i][1] = (float)(i % 5);
        targets[i] = (float)(i % 3);
    }
    assert_ok(clq_model_create("line", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(2));
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = 1})));
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, N, 1, shape, targets, CLQ_F32, 1, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    config.global_batch = BATCH;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return files_begin(state);
}

static int end(void **state) {
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    return files_end(state) == 0 ? close_system(state) : -1;
}

static void on_signal(int number) {
    (void)number;
    clq_trainer_stop(trainer);
}

/* Raises the signal at the third step of a fit. */
static uint64_t steps_seen;
static clq_status raise_at_third(void *context, const clq_step_info *info) {
    (void)info;
    if (++steps_seen == 3) raise(*(int *)context);
    return CLQ_OK;
}

/* The fit ends after the update during which the signal came, with a checkpoint. The next fit goes on. */
static void a_signal_ends_a_fit(void **state) {
    (void)state;
    int number = SIGUSR1;
    uint64_t step;
    clq_checkpoints *checkpoints;
    struct sigaction action = {.sa_handler = on_signal}, before;
    assert_int_equal(sigaction(number, &action, &before), 0);
    assert_ok(clq_checkpoints_open(&(clq_checkpoints_config){.folder = files_path("signal")}, &checkpoints));
    steps_seen = 0;
    const uint64_t first = clq_trainer_step(trainer);
    const clq_fit_config fit = {.epochs = 5, .context = &number, .on_step = raise_at_third, .checkpoints = checkpoints};
    assert_fails(CLQ_ERROR_INTERRUPTED, "behind step", clq_fit(trainer, data, &fit));
    assert_int_equal(steps_seen, 3);
    assert_int_equal(clq_trainer_step(trainer), first + 3);
    clq_checkpoints_close(checkpoints);
    assert_ok(clq_checkpoints_newest(files_path("signal"), &step));
    assert_int_equal(step, first + 3);
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 2})); /* the stop counts only once */
    assert_int_equal(clq_trainer_step(trainer), first + 5);
    assert_int_equal(sigaction(number, &before, NULL), 0);
}

typedef struct stopper {
    atomic_bool begun;
} stopper;

static void stop_soon(void *context) {
    stopper *s = context;
    while (!atomic_load(&s->begun)) {
    }
    clq_trainer_stop(trainer);
}

static clq_status note_begin(void *context, const clq_progress *progress) {
    stopper *s = context;
    (void)progress;
    atomic_store(&s->begun, true);
    return CLQ_OK;
}

static void another_thread_ends_a_fit(void **state) {
    (void)state;
    stopper s = {.begun = false};
    clq_thread *thread;
    assert_ok(clq_thread_start("stop", stop_soon, &s, &thread));
    /* More epochs than there is time for. */
    const clq_fit_config fit = {.epochs = 1000000000, .context = &s, .on_progress = note_begin};
    assert_fails(CLQ_ERROR_INTERRUPTED, "clq_trainer_stop", clq_fit(trainer, data, &fit));
    clq_thread_join(thread);
}

static clq_status stop_now(void *context, clq_trainer *of, const clq_epoch_info *info) {
    (void)context;
    (void)info;
    clq_trainer_stop(of);
    return CLQ_OK;
}

static clq_status stop_at_end(void *context, clq_trainer *of, clq_status status) {
    (void)context;
    (void)status;
    clq_trainer_stop(of);
    return CLQ_OK;
}
static clq_status stop_in_vain(void *context, clq_trainer *of, const clq_fit_config *config) {
    (void)context;
    (void)config;
    clq_trainer_stop(of);
    return clq_fit_stop(of);
}

/* After a fit's last update, and in a fit that makes no update, there is nothing to stop. No later call is stopped
 * either. */
static void a_late_stop_stops_nothing(void **state) {
    (void)state;
    const clq_callback late[] = {{.name = "epoch", .on_epoch = stop_now},
                                 {.name = "end", .on_end = stop_at_end},
                                 {.name = "none", .on_begin = stop_in_vain}};
    clq_totals totals;
    for (size_t i = 0; i < CLQ_COUNT_OF(late); i++) {
        const clq_fit_config fit = {.epochs = 1, .callbacks = &late[i], .callback_count = 1};
        assert_ok(clq_fit(trainer, data, &fit));
        assert_ok(clq_evaluate(trainer, data, &totals));
        assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 1}));
    }
}

/* A callback that makes calls of its own and does not pass on their status: 1 evaluates, 2 predicts, 3 fits. */
static unsigned calls;
static clq_status call_others(void *context, clq_trainer *of, const clq_epoch_info *info) {
    float out[N];
    clq_totals totals;
    (void)info;
    if (calls++ > 0) return CLQ_OK;
    clq_trainer_stop(of);
    switch (*(const int *)context) {
    case 1: assert_fails(CLQ_ERROR_INTERRUPTED, "clq_trainer_stop", clq_evaluate(of, data, &totals)); break;
    case 2: assert_fails(CLQ_ERROR_INTERRUPTED, "clq_trainer_stop", clq_predict(of, data, out)); break;
    default: assert_fails(CLQ_ERROR_INTERRUPTED, "clq_trainer_stop", clq_fit(of, data, &(clq_fit_config){.epochs = 1}));
    }
    return CLQ_OK;
}

static void calls_of_callbacks_hold_up_no_stop(void **state) {
    (void)state;
    for (int kind = 1; kind <= 3; kind++) {
        const clq_callback callback = {.name = "calls", .context = &kind, .on_epoch = call_others};
        calls = 0;
        assert_fails(
            CLQ_ERROR_INTERRUPTED, "clq_trainer_stop",
            clq_fit(trainer, data, &(clq_fit_config){.epochs = 3, .callbacks = &callback, .callback_count = 1}));
        assert_int_equal(calls, 1);
        assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 1}));
    }
}

static void a_stop_waits_for_what_comes_next(void **state) {
    (void)state;
    clq_totals totals = {.samples = 7};
    float out[N];
    clq_trainer_stop(trainer);
    assert_fails(CLQ_ERROR_INTERRUPTED, "clq_trainer_stop", clq_evaluate(trainer, data, &totals));
    assert_int_equal(totals.samples, 7);
    assert_ok(clq_evaluate(trainer, data, &totals));
    assert_int_equal(totals.samples, N);
    clq_trainer_stop(trainer);
    clq_trainer_stop(trainer);
    assert_fails(CLQ_ERROR_INTERRUPTED, "clq_trainer_stop", clq_predict(trainer, data, out));
    assert_ok(clq_predict(trainer, data, out));
}

/* An epoch whose validation is stopped has not been told. The fit that resumes tells it. */
static unsigned epochs_told;
static uint64_t last_step;
static clq_status stop_behind_last(void *context, const clq_step_info *info) {
    (void)context;
    if (info->step == last_step) clq_trainer_stop(trainer); /* the last update's figures are read after it */
    return CLQ_OK;
}
static clq_status count_epoch(void *context, const clq_epoch_info *info) {
    (void)context;
    epochs_told += info->validation.samples == N;
    return CLQ_OK;
}

static void a_validation_ends_too(void **state) {
    (void)state;
    clq_checkpoints *checkpoints;
    uint64_t step;
    clq_checkpoints_config config = {.folder = files_path("validation")};
    assert_ok(clq_checkpoints_open(&config, &checkpoints));
    const uint64_t first = clq_trainer_step(trainer);
    clq_fit_config fit = {.epochs = 1, .validation = data, .on_epoch = count_epoch, .checkpoints = checkpoints};
    clq_trainer_stop(trainer); /* stops after the first update */
    assert_fails(CLQ_ERROR_INTERRUPTED, "clq_trainer_stop", clq_fit(trainer, data, &fit));
    assert_int_equal(clq_trainer_step(trainer), first + 1);
    fit.on_log = stop_behind_last;
    fit.log_every_s = 1e9;
    last_step = clq_trainer_step(trainer) + N / BATCH - 1; /* the first update was made */
    clq_checkpoints_close(checkpoints);
    config.folder = files_path("second");
    assert_ok(clq_checkpoints_open(&config, &checkpoints));
    fit.checkpoints = checkpoints;
    assert_fails(CLQ_ERROR_INTERRUPTED, "clq_trainer_stop", clq_fit(trainer, data, &fit));
    assert_int_equal(clq_trainer_step(trainer), last_step);
    assert_int_equal(epochs_told, 0);
    clq_checkpoints_close(checkpoints);
    config.resume = true;
    assert_ok(clq_checkpoints_open(&config, &checkpoints));
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &step));
    fit.on_log = NULL;
    fit.checkpoints = checkpoints;
    assert_ok(clq_fit(trainer, data, &fit));
    assert_int_equal(epochs_told, 1);
    clq_checkpoints_close(checkpoints);
}

/* An update that has begun is completed. */
static void a_stop_ends_an_update_of_several_batches(void **state) {
    (void)state;
    clq_trainer_config config = clq_trainer_config_default();
    clq_devices devices;
    clq_trainer *accumulates;
    uint64_t epoch, index;
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_dtype = CLQ_F32;
    config.global_batch = BATCH;
    config.strategy_options.accumulate = 3;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &accumulates));
    assert_ok(clq_dataset_seek(data, 0, 0));
    clq_trainer_stop(accumulates);
    assert_fails(CLQ_ERROR_INTERRUPTED, "behind step 1", clq_fit(accumulates, data, &(clq_fit_config){.epochs = 1}));
    clq_dataset_tell(data, &epoch, &index);
    assert_int_equal(index, 3);
    assert_int_equal(clq_trainer_step(accumulates), 1);
    assert_ok(clq_dataset_seek(data, 0, 0));
    clq_trainer_destroy(accumulates);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_signal_ends_a_fit),
                                       cmocka_unit_test(another_thread_ends_a_fit),
                                       cmocka_unit_test(a_late_stop_stops_nothing),
                                       cmocka_unit_test(calls_of_callbacks_hold_up_no_stop),
                                       cmocka_unit_test(a_stop_ends_an_update_of_several_batches),
                                       cmocka_unit_test(a_stop_waits_for_what_comes_next),
                                       cmocka_unit_test(a_validation_ends_too)};
    return cmocka_run_group_tests(tests, begin, end);
}
