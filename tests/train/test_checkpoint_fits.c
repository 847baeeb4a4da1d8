/* How far a fit trains that resumes from a checkpoint, or that follows another fit. */
#include "train/checkpoint.h"
#include "train/resumed.h"
#include <clique/callbacks.h>

#include <string.h>
#include <unistd.h>

/* A trainer with its data and its folder, from which its fits resume. */
typedef struct scene {
    clq_model *model;
    clq_dataset *data;
    clq_trainer *trainer;
    clq_checkpoints *checkpoints; /* NULL: none */
    uint64_t from;                /* the step that the trainer resumes from */
} scene;

static void open_scene(const char *folder, size_t batch, uint64_t accumulate, scene *out) {
    setting s = settings[0];
    s.options.accumulate = accumulate;
    *out = (scene){.model = make_model(false, 8), .data = make_data()};
    assert_ok(clq_dataset_batch(out->data, batch, false));
    out->trainer = make_trainer(out->model, &s, "sgd");
    if (!folder) return;
    out->checkpoints = open_checkpoints(files_path(folder));
    assert_ok(clq_checkpoints_restore(out->checkpoints, out->trainer, out->data, &out->from));
}

static void close_scene(scene *s) {
    clq_checkpoints_close(s->checkpoints);
    clq_trainer_destroy(s->trainer);
    clq_dataset_destroy(s->data);
    clq_model_destroy(s->model);
}

typedef struct told {
    uint64_t epochs; /* told by on_progress */
    uint64_t last;   /* the last step that on_log told */
    unsigned epoch_count;
    clq_epoch_info epoch; /* the last one told */
    uint64_t interrupts;  /* the step at which on_log interrupts; 0: never */
} told;

static clq_status note_progress(void *context, const clq_progress *progress) {
    ((told *)context)->epochs = progress->epochs;
    return CLQ_OK;
}
static clq_status note_epoch(void *context, const clq_epoch_info *info) {
    told *t = context;
    t->epoch_count++;
    t->epoch = *info;
    return CLQ_OK;
}
static clq_status note_log(void *context, const clq_step_info *info) {
    told *t = context;
    t->last = info->step;
    return info->step == t->interrupts ? clq_fail(CLQ_ERROR_INTERRUPTED, "stopped") : CLQ_OK;
}

static told fit(scene *s, uint64_t epochs, uint64_t steps) {
    told t = {0};
    assert_ok(clq_fit(s->trainer, s->data,
                      &(clq_fit_config){.epochs = epochs,
                                        .steps = steps,
                                        .context = &t,
                                        .on_progress = note_progress,
                                        .on_epoch = note_epoch,
                                        .on_log = note_log,
                                        .checkpoints = s->checkpoints}));
    return t;
}

/* Epochs have five batches. Fits begin anywhere in an epoch. */
static void steps_are_made_from_any_place(void **state) {
    static const uint64_t epochs[] = {2, 2, 3};
    scene s;
    (void)state;
    open_scene(NULL, BATCH, 0, &s);
    for (unsigned i = 0; i < CLQ_COUNT_OF(epochs); i++) {
        const told t = fit(&s, 0, 7);
        assert_int_equal(t.last, 7 * (i + 1));
        assert_int_equal(t.epochs, epochs[i]);
        assert_int_equal(t.epoch_count, epochs[i]);
    }
    close_scene(&s);
}

/* The first twelve steps are from epochs of five batches. With nine batches in an epoch, four of the third epoch's nine
 * count as done, so 5, 9 and 4 steps are left. */
static void steps_count_with_other_batches(void **state) {
    scene s;
    (void)state;
    open_scene("other batches", BATCH, 0, &s);
    (void)fit(&s, 0, 12);
    close_scene(&s);
    open_scene("other batches", BATCH / 2, 0, &s);
    assert_int_equal(s.from, 12);
    const told t = fit(&s, 0, 30);
    assert_int_equal(t.last, 30);
    assert_int_equal(t.epochs, 5);
    assert_int_equal(t.epoch.epoch, 4);
    close_scene(&s);
}

/* A fit asks for fewer epochs than were begun. The begun epoch is told as far as it went, and no update is made that no
 * checkpoint has. */
static void fewer_epochs_train_no_more(void **state) {
    scene s;
    (void)state;
    open_scene("fewer epochs", BATCH, 0, &s);
    (void)fit(&s, 5, 12);
    close_scene(&s);
    open_scene("fewer epochs", BATCH, 0, &s);
    assert_int_equal(s.from, 12);
    const told t = fit(&s, 2, 0);
    assert_int_equal(t.last, 0);
    assert_int_equal(t.epoch_count, 1);
    assert_int_equal(t.epoch.epoch, 2);
    assert_int_equal(t.epoch.train.samples, 2 * BATCH);
    assert_int_equal(clq_checkpoints_counts(s.checkpoints).last_step, 12);
    close_scene(&s);
}

static clq_status restore_nothing(void *context, const char *text) {
    (void)context;
    (void)text;
    return clq_fail(CLQ_ERROR_FORMAT, "no such state");
}

static clq_status save_state(void *context, char *text, size_t bytes) {
    (void)context;
    assert_true(bytes > 2);
    memcpy(text, "{}", 3);
    return CLQ_OK;
}

/* Fills all of its room and does not end the text. */
static clq_status save_without_end(void *context, char *text, size_t bytes) {
    (void)context;
    memset(text, 'a', bytes);
    return CLQ_OK;
}

static void states_have_an_end(void **state) {
    scene s;
    const clq_callback endless = {.name = "endless", .save = save_without_end};
    (void)state;
    open_scene("endless", BATCH, 0, &s);
    assert_fails(CLQ_ERROR_ARGUMENT, "callback 'endless': its state is no text that ends",
                 clq_fit(s.trainer, s.data,
                         &(clq_fit_config){
                             .steps = 3, .checkpoints = s.checkpoints, .callbacks = &endless, .callback_count = 1}));
    close_scene(&s);
}

/* A fit that is refused, or whose callbacks are refused, has not begun: the next fit resumes at the checkpoint. */
static void refused_fits_lose_no_place(void **state) {
    scene s;
    clq_callback stops, broken = {.name = "broken", .save = save_state, .restore = restore_nothing};
    (void)state;
    assert_ok(clq_callback_early_stopping(&(clq_early_stopping){.patience = 1}, &stops)); /* watches val_loss */
    open_scene("refused", BATCH, 0, &s);
    assert_ok(clq_fit(
        s.trainer, s.data,
        &(clq_fit_config){.steps = 12, .checkpoints = s.checkpoints, .callbacks = &broken, .callback_count = 1}));
    close_scene(&s);
    open_scene("refused", BATCH, 0, &s);
    told ignored = {0};
    clq_fit_config config = {
        .steps = 15, .context = &ignored, .on_log = note_log, .log_every_s = -1, .checkpoints = s.checkpoints};
    assert_int_equal(clq_fit(s.trainer, s.data, &config), CLQ_ERROR_ARGUMENT);
    config.log_every_s = 0;
    config.callback_count = 1;
    config.callbacks = &stops;
    assert_int_equal(clq_fit(s.trainer, s.data, &config), CLQ_ERROR_ARGUMENT);
    config.callbacks = &broken;
    assert_int_equal(clq_fit(s.trainer, s.data, &config), CLQ_ERROR_FORMAT);
    const told t = fit(&s, 0, 15);
    assert_int_equal(t.last, 15);
    assert_int_equal(t.epoch_count, 1);
    assert_int_equal(t.epoch.epoch, 2);
    assert_int_equal(t.epoch.train.samples, SAMPLES);
    close_scene(&s);
    clq_callback_destroy(&stops);
}

/* ---- interruptions ---- */

/* Sleeps at the beginning of the second update, so that it is time to tell on_log of the first one. */
static double sleep_in_update(void *context, uint64_t step) {
    (void)context;
    if (step == 1) usleep(600000);
    return 0.01;
}

/* on_log may end the fit. Then a checkpoint has all updates that were made, and no update is made in part. */
static void a_log_that_interrupts_leaves_a_checkpoint(void **state) {
    (void)state;
    for (uint64_t accumulate = 0; accumulate <= 2; accumulate += 2) {
        scene s;
        told t = {.interrupts = 1};
        clq_step_info info;
        learning_rate = accumulate ? sleep_in_update : NULL;
        open_scene(accumulate ? "log of batches" : "log", BATCH, accumulate, &s);
        assert_int_equal(clq_fit(s.trainer, s.data,
                                 &(clq_fit_config){.epochs = 2,
                                                   .context = &t,
                                                   .on_log = note_log,
                                                   .log_every = accumulate ? 50 : 1,
                                                   .log_every_s = 0.5,
                                                   .checkpoints = s.checkpoints}),
                         CLQ_ERROR_INTERRUPTED);
        assert_int_equal(t.last, 1);
        assert_ok(clq_step_read(s.trainer, &info));
        const clq_checkpoint_counts counts = clq_checkpoints_counts(s.checkpoints);
        assert_int_equal(counts.written, 1);
        assert_int_equal(counts.last_step, info.step);
        close_scene(&s);
    }
    learning_rate = NULL;
}

/* ---- which checkpoints are taken ---- */

/* A file is in the place of the checkpoint's folder. A checkpoint that was not written can be taken again. */
static void what_was_not_written_is_taken_again(void **state) {
    scene s;
    char path[600];
    (void)state;
    open_scene("again", BATCH, 0, &s);
    snprintf(path, sizeof path, "%s/step-%012d", files_path("again"), 2);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    make_steps(s.trainer, s.data, 2);
    assert_ok(clq_checkpoints_save(s.checkpoints, s.trainer, s.data));
    assert_int_equal(clq_checkpoints_counts(s.checkpoints).failed, 1);
    (void)remove(path);
    for (unsigned i = 0; i < 2; i++) { /* only once */
        assert_ok(clq_checkpoints_save(s.checkpoints, s.trainer, s.data));
        assert_int_equal(clq_checkpoints_counts(s.checkpoints).written, 1);
        assert_int_equal(clq_checkpoints_counts(s.checkpoints).last_step, 2);
    }
    close_scene(&s);
}

static clq_status count_checkpoint(void *context, uint64_t step) {
    (void)step;
    ++*(uint64_t *)context;
    return CLQ_OK;
}

/* on_checkpoint is called before each checkpoint that is taken, and not before one that is skipped. */
static void on_checkpoint_is_of_those_that_are_taken(void **state) {
    scene s;
    uint64_t calls = 0;
    (void)state;
    open_scene(NULL, BATCH, 0, &s);
    assert_ok(
        clq_checkpoints_open(&(clq_checkpoints_config){.folder = files_path("every"), .every = 1}, &s.checkpoints));
    assert_ok(
        clq_fit(s.trainer, s.data,
                &(clq_fit_config){
                    .steps = 30, .context = &calls, .checkpoints = s.checkpoints, .on_checkpoint = count_checkpoint}));
    const clq_checkpoint_counts counts = clq_checkpoints_counts(s.checkpoints);
    assert_int_equal(counts.last_step, 30);
    assert_int_equal(counts.written + counts.skipped, 30);
    assert_int_equal(calls, counts.written);
    close_scene(&s);
}

/* Has no memory for its state at the first save. */
typedef struct forgetful {
    unsigned saves;
    bool stops;
} forgetful;

static clq_status save_later(void *context, char *text, size_t bytes) {
    forgetful *f = context;
    return f->saves++ == 0 ? clq_fail(CLQ_ERROR_MEMORY, "no memory for a state") : save_state(NULL, text, bytes);
}

static clq_status stop_fit(void *context, clq_trainer *trainer, const clq_epoch_info *info) {
    (void)info;
    return ((forgetful *)context)->stops ? clq_fit_stop(trainer) : CLQ_OK;
}

/* After an epoch there is no memory for the callbacks' states, and the fit goes on. If the fit ends there, the
 * checkpoint counts as failed, but the fit does not. */
static void no_memory_for_states(void **state) {
    (void)state;
    for (unsigned stops = 0; stops < 2; stops++) {
        scene s;
        forgetful f = {.stops = stops};
        const clq_callback callback = {.name = "forgetful", .context = &f, .save = save_later, .on_epoch = stop_fit};
        open_scene(stops ? "forgetful and stopped" : "forgetful", BATCH, 0, &s);
        assert_ok(clq_fit(
            s.trainer, s.data,
            &(clq_fit_config){.epochs = 2, .checkpoints = s.checkpoints, .callbacks = &callback, .callback_count = 1}));
        const clq_checkpoint_counts counts = clq_checkpoints_counts(s.checkpoints);
        assert_int_equal(counts.failed, stops);
        assert_int_equal(counts.written, !stops);
        assert_int_equal(counts.last_step, stops ? 0 : 10);
        close_scene(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_made_from_any_place),
        cmocka_unit_test(steps_count_with_other_batches),
        cmocka_unit_test(fewer_epochs_train_no_more),
        cmocka_unit_test(states_have_an_end),
        cmocka_unit_test(refused_fits_lose_no_place),
        cmocka_unit_test(a_log_that_interrupts_leaves_a_checkpoint),
        cmocka_unit_test(what_was_not_written_is_taken_again),
        cmocka_unit_test(on_checkpoint_is_of_those_that_are_taken),
        cmocka_unit_test(no_memory_for_states),
    };
    return cmocka_run_group_tests(tests, start, end);
}
