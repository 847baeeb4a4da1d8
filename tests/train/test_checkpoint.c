/* A training that resumes from a checkpoint has the losses, the epochs' totals and the weights of an uninterrupted one,
 * bit for bit, with every strategy. Checkpoints that are damaged are left out, and those of another model are
 * refused. */
#include "train/checkpoint.h"
#include "support/named.h"
#include "train/resumed.h"
#include <clique/callbacks.h>

#include <dirent.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum { STEPS = 17, STOP = 9, EPOCHS_MOST = 8 };

typedef struct record {
    double losses[STEPS + 1], epochs[EPOCHS_MOST];
    uint64_t told; /* the last step */
    uint64_t stop; /* the fit is interrupted after this step; 0: never */
    float weights[WEIGHTS_MOST];
} record;

static clq_status note(void *context, const clq_step_info *info) {
    record *r = context;
    assert_int_equal(info->step, r->told + 1);
    r->told = info->step;
    r->losses[info->step] = info->loss;
    return CLQ_OK;
}

static clq_status stop(void *context, const clq_step_info *info) {
    record *r = context;
    return info->step == r->stop ? clq_fail(CLQ_ERROR_INTERRUPTED, "stopped") : CLQ_OK;
}

static clq_status note_epoch(void *context, const clq_epoch_info *info) {
    ((record *)context)->epochs[info->epoch] = info->train.loss;
    return CLQ_OK;
}

/* Whether the fits have callbacks that do so. */
static bool lowers_rate, stops_early;
static const char *saves_best; /* the file for the best weights; NULL: no such callback */
static double best_by;         /* how much lower a best loss must be; no loss is ever lower by 100 */

static size_t open_callbacks(clq_callback *out) {
    const clq_monitor never = {.name = "loss", .min_delta = 100}, loss = {.name = "loss", .min_delta = best_by};
    size_t count = 0;
    if (lowers_rate) /* after every second epoch */
        assert_ok(
            clq_callback_reduce_lr(&(clq_reduce_lr){.monitor = never, .factor = 0.25, .patience = 2}, &out[count++]));
    if (stops_early)
        assert_ok(clq_callback_early_stopping(&(clq_early_stopping){.monitor = never, .patience = 2}, &out[count++]));
    if (saves_best) assert_ok(clq_callback_save_best(saves_best, &loss, &out[count++]));
    return count;
}

/* Trains from the folder's newest checkpoint if there is one; folder NULL: no checkpoints. Returns that checkpoint's
 * step. */
static uint64_t train(const setting *s, const char *folder, uint64_t every, uint64_t stop_at, record *r) {
    clq_model *model = make_model(s->synchronized, 8);
    clq_dataset *data = make_data();
    clq_trainer *trainer = make_trainer(model, s, "adam:lr=0.01");
    clq_checkpoints *checkpoints = NULL;
    uint64_t from = 0;
    if (folder) {
        assert_ok(clq_checkpoints_open(
            &(clq_checkpoints_config){.folder = folder, .every = every, .keep = 2, .resume = true}, &checkpoints));
        assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &from));
        const uint64_t batches = clq_dataset_batches(data);
        uint64_t epoch = 77, batch = 77;
        assert_int_equal(clq_checkpoints_continue_at(checkpoints, &epoch, &batch), from > 0);
        if (from == 0)
            assert_true(epoch == 77 && batch == 77);
        else if (s->options.accumulate <= 1)
            assert_true(batch > 0 && batch <= batches && epoch * batches + batch == from);
    }
    r->told = from;
    r->stop = stop_at;
    clq_callback callbacks[3];
    const size_t count = open_callbacks(callbacks);
    const clq_fit_config fit = {.steps = STEPS,
                                .context = r,
                                .on_log = note,
                                .on_step = stop_at ? stop : NULL,
                                .on_epoch = note_epoch,
                                .validation = data,
                                .checkpoints = checkpoints,
                                .callbacks = callbacks,
                                .callback_count = count};
    const clq_status status = clq_fit(trainer, data, &fit);
    for (size_t i = 0; i < count; i++) clq_callback_destroy(&callbacks[i]);
    assert_int_equal(status, stop_at ? CLQ_ERROR_INTERRUPTED : CLQ_OK);
    if (!stop_at) read_weights(trainer, model, r->weights);
    clq_checkpoints_close(checkpoints);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    return from;
}

static void same(const setting *s, const record *whole, const record *parts) {
    for (int i = 1; i <= STEPS; i++)
        if (memcmp(&whole->losses[i], &parts->losses[i], sizeof whole->losses[i]) != 0)
            fail_msg("%s: step %d has loss %.17g, and %.17g uninterrupted", s->name, i, parts->losses[i],
                     whole->losses[i]);
    for (int i = 0; i < EPOCHS_MOST; i++)
        if (memcmp(&whole->epochs[i], &parts->epochs[i], sizeof whole->epochs[i]) != 0)
            fail_msg("%s: epoch %d has loss %.17g, and %.17g uninterrupted", s->name, i, parts->epochs[i],
                     whole->epochs[i]);
    if (memcmp(whole->weights, parts->weights, sizeof whole->weights) != 0) fail_msg("%s: other weights", s->name);
}

/* The training is interrupted twice: within an epoch, and at the end of one. */
static void resumes(const setting *s) {
    static record whole, parts;
    whole = parts = (record){0};
    char name[64];
    snprintf(name, sizeof name, "at-%zu-%s", (size_t)(s - settings), clq_precision_name(precision));
    const char *folder = files_path(name);
    (void)train(s, NULL, 0, 0, &whole);
    assert_int_equal(train(s, folder, 4, STOP, &parts), 0);
    assert_int_equal(train(s, folder, 4, 10, &parts), STOP);
    assert_int_equal(train(s, folder, 4, 0, &parts), 10);
    same(s, &whole, &parts);
    assert_true(files_count(folder) <= 2);
}

static void test_every_strategy_goes_on(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(settings); i++) {
        printf("%s\n", settings[i].name);
        resumes(&settings[i]);
    }
}

/* The rate falls after the third epoch, which is the second without improvement. One of these two comes before the
 * interruption, and one after it. */
static void test_callbacks_go_on(void **state) {
    static record whole, parts, other;
    const setting *s = &settings[4];
    (void)state;
    whole = parts = other = (record){0};
    (void)train(s, NULL, 0, 0, &other);
    lowers_rate = true;
    (void)train(s, NULL, 0, 0, &whole);
    assert_true(memcmp(whole.weights, other.weights, sizeof whole.weights) != 0);
    assert_int_equal(train(s, files_path("callbacks"), 0, 12, &parts), 0);
    assert_int_equal(train(s, files_path("callbacks"), 0, 0, &parts), 12);
    lowers_rate = false;
    same(s, &whole, &parts);
    /* Without the callback's state, its first epoch comes again. */
    parts = (record){0};
    assert_int_equal(train(s, files_path("no callbacks"), 0, 12, &parts), 0);
    lowers_rate = true;
    assert_int_equal(train(s, files_path("no callbacks"), 0, 0, &parts), 12);
    lowers_rate = false;
    assert_memory_equal(parts.weights, other.weights, sizeof other.weights);
}

/* A fit that a callback ends has a last checkpoint. The resumed fit tells that epoch again, yet the rate that fell
 * after it falls only once. */
static void test_stopped_fits_go_on(void **state) {
    static record whole, parts;
    const setting *s = &settings[4];
    (void)state;
    whole = parts = (record){0};
    lowers_rate = true;
    (void)train(s, NULL, 0, 0, &whole);
    stops_early = true;
    assert_int_equal(train(s, files_path("stopped"), 0, 0, &parts), 0);
    assert_int_equal(parts.told, 15);
    assert_int_equal(train(s, files_path("stopped"), 0, 0, &parts), 15);
    assert_int_equal(parts.told, 15); /* it stops again */
    stops_early = false;
    assert_int_equal(train(s, files_path("stopped"), 0, 0, &parts), 15);
    lowers_rate = false;
    same(s, &whole, &parts);
}

/* The file of the best epoch equals that of an uninterrupted training. If the first epoch stays the best, no epoch
 * after the checkpoint overwrites the file. If each epoch is better, the last epoch is in the file. */
static void test_the_best_file_goes_on(void **state) {
    static record whole, parts;
    const setting *s = &settings[4];
    (void)state;
    for (unsigned first_stays = 0; first_stays < 2; first_stays++) {
        const char *folder = files_path(first_stays ? "first is best" : "last is best");
        size_t bytes, wanted_bytes;
        whole = parts = (record){0};
        best_by = first_stays ? 100 : 0;
        saves_best = files_path("wanted.safetensors");
        (void)train(s, NULL, 0, 0, &whole);
        char *wanted = files_get(saves_best, &wanted_bytes);
        saves_best = files_path("best.safetensors");
        assert_int_equal(train(s, folder, 0, STOP, &parts), 0);
        char *first = files_get(saves_best, &bytes);
        assert_int_equal(train(s, folder, 0, 0, &parts), STOP);
        char *best = files_get(saves_best, &bytes);
        assert_int_equal(bytes, wanted_bytes);
        assert_memory_equal(best, wanted, bytes);
        assert_int_equal(memcmp(best, first, bytes) == 0, first_stays);
        free(wanted);
        free(first);
        free(best);
    }
    saves_best = NULL;
}

/* Taking checkpoints does not change a training. */
static void test_checkpoints_change_nothing(void **state) {
    (void)state;
    static record with, without;
    const setting *s = &settings[2];
    with = without = (record){0};
    (void)train(s, NULL, 0, 0, &without);
    (void)train(s, files_path("changes"), 1, 0, &with);
    same(s, &without, &with);
}

/* Also with a loss scale. */
static void test_mixed_precision_goes_on(void **state) {
    (void)state;
    static const unsigned some[] = {0, 4, 7, 14};
    precision = CLQ_PRECISION_MIXED;
    for (unsigned k = 0; k < CLQ_COUNT_OF(some); k++) resumes(&settings[some[k]]);
    precision = CLQ_PRECISION_F32;
}

/* ---- another set of replicas ---- */

static void test_other_replicas_go_on(void **state) {
    (void)state;
    static record parts;
    static const unsigned others[] = {4, 7, 9, 10, 11, 15, 16};
    for (unsigned k = 0; k < CLQ_COUNT_OF(others); k++) {
        const size_t i = others[k];
        char name[64];
        snprintf(name, sizeof name, "other-%zu", i);
        parts = (record){0};
        assert_int_equal(train(&settings[i], files_path(name), 0, STOP, &parts), 0);
        assert_int_equal(train(&settings[0], files_path(name), 0, 12, &parts), STOP);
        assert_int_equal(train(&settings[i], files_path(name), 0, 0, &parts), 12);
        for (int step = 1; step <= STEPS; step++) assert_true(parts.losses[step] > 0.0 && parts.losses[step] < 5.0);
    }
}

/* ---- asynchronous updates ---- */

static void same_entries(const clq_model *model, const clq_snapshot *a, const clq_snapshot *b) {
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        const clq_snapshot_entry *one = &a->entries[i], *other = &b->entries[i];
        clq_variable_info info;
        assert_ok(clq_model_variable(model, one->variable, &info));
        assert_int_equal(one->variable, other->variable);
        assert_int_equal(one->kind, other->kind);
        assert_int_equal(one->slot, other->slot);
        assert_int_equal(one->replica, other->replica);
        assert_memory_equal(one->values, other->values, info.elements * sizeof *one->values);
    }
}

/* No two runs are the same. A checkpoint includes what is under way when it is taken: the weights, the slots and each
 * replica's statistics come back with the step, the epoch and the place in the data. The losses stay near those of an
 * uninterrupted training. */
static void test_asynchronous_updates_go_on(void **state) {
    (void)state;
    static record whole, parts;
    const setting s = {.name = "asynchronous ps",
                       .spec = "pocl:0,pocl:1",
                       .strategy = CLQ_STRATEGY_PS,
                       .options = {.staleness = 4},
                       .disabled = APART};
    clq_model *model = make_model(false, 8);
    clq_dataset *data = make_data(), *again = make_data();
    clq_trainer *trainer = make_trainer(model, &s, "adam:lr=0.01");
    clq_checkpoints *checkpoints = open_checkpoints(files_path("apart"));
    clq_snapshot before, after;
    uint64_t step, epoch, index;
    make_steps(trainer, data, 4); /* without waiting for any */
    assert_ok(clq_checkpoints_save(checkpoints, trainer, data));
    assert_ok(clq_strategy_take_snapshot(clq_trainer_strategy(trainer), false, &before));
    clq_trainer_destroy(trainer);
    trainer = make_trainer(model, &s, "adam:lr=0.01");
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, again, &step));
    clq_dataset_tell(again, &epoch, &index);
    assert_true(step == 4 && epoch == 0 && index == 4);
    assert_ok(clq_strategy_take_snapshot(clq_trainer_strategy(trainer), false, &after));
    assert_true(before.slots == 2 && before.state_apart && after.state_apart);
    same_entries(model, &before, &after);
    clq_snapshot_release(&before);
    clq_snapshot_release(&after);
    clq_checkpoints_close(checkpoints);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_dataset_destroy(again);
    clq_model_destroy(model);

    whole = parts = (record){0};
    (void)train(&s, NULL, 0, 0, &whole);
    assert_int_equal(train(&s, files_path("asynchronous"), 4, STOP, &parts), 0);
    assert_int_equal(train(&s, files_path("asynchronous"), 4, 0, &parts), STOP);
    assert_int_equal(parts.told, STEPS);
    for (int i = 1; i <= STEPS; i++) assert_true(parts.losses[i] > 0 && isfinite(parts.losses[i]));
    for (int i = 0; i <= STEPS / 5; i++) /* an epoch has 5 batches */
        if (!(fabs(parts.epochs[i] / whole.epochs[i] - 1) < 0.25))
            fail_msg("epoch %d has loss %g, and %g uninterrupted", i, parts.epochs[i], whole.epochs[i]);
}

/* ---- damage ---- */

static void damage(const char *path, bool cut) {
    size_t bytes;
    char *data = files_get(path, &bytes);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    data[bytes - 5] ^= 4;
    fwrite(data, 1, cut ? bytes / 2 : bytes, file);
    fclose(file);
    free(data);
}

static void test_damaged_ones_are_left_out(void **state) {
    (void)state;
    static const char *const files[] = {"step-000000000009/tensors.safetensors", "step-000000000009/manifest.json"};
    static record whole, parts;
    const setting *s = &settings[0];
    whole = (record){0};
    (void)train(s, NULL, 0, 0, &whole);
    for (unsigned i = 0; i < 4; i++) {
        char name[64], path[512];
        snprintf(name, sizeof name, "damaged-%u", i);
        parts = (record){0};
        assert_int_equal(train(s, files_path(name), 4, STOP, &parts), 0);
        snprintf(path, sizeof path, "%s/%s", files_path(name), files[i / 2]);
        damage(path, i % 2);
        const uint64_t from = train(s, files_path(name), 4, 0, &parts);
        assert_true(from == 8 || from == 4); /* checkpoint 8 may be left out if 4 is still being written */
        same(s, &whole, &parts);
    }
}

static unsigned count_named(const char *folder, const char *beginning) {
    unsigned count = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (const struct dirent *entry; (entry = readdir(listing));)
        count += strncmp(entry->d_name, beginning, strlen(beginning)) == 0;
    closedir(listing);
    return count;
}

/* The last two skipped checkpoints are kept, as many as good ones. */
static void test_few_stay_of_those_left_out(void **state) {
    (void)state;
    static record parts;
    const char *folder = files_path("aside");
    char path[512];
    (void)train(&settings[0], folder, 4, 0, &parts);
    snprintf(path, sizeof path, "%s/step-%012d/manifest.json", folder, STEPS);
    for (unsigned i = 1; i <= 4; i++) {
        damage(path, false);
        assert_true(train(&settings[0], folder, 4, 0, &parts) < STEPS);
        assert_int_equal(count_named(folder, "skipped-"), CLQ_MIN(i, 2u));
        assert_int_equal(count_named(folder, "step-"), 2);
    }
}

/* ---- weights alone ---- */

/* Moving statistics are variables, so saved weights include them. */
static void test_weights_have_statistics(void **state) {
    (void)state;
    static record saved, loaded;
    const setting *s = &settings[2];
    clq_model *model = make_model(false, 8);
    clq_dataset *data = make_data();
    clq_trainer *trainer = make_trainer(model, s, "adam:lr=0.01");
    clq_totals before, after;
    size_t changed = 0, offset = 0;
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 7}));
    assert_ok(clq_evaluate(trainer, data, &before));
    read_weights(trainer, model, saved.weights);
    assert_ok(clq_trainer_save(trainer, files_path("weights")));
    clq_trainer_destroy(trainer);
    trainer = make_trainer(model, &settings[0], "sgd");
    assert_ok(clq_trainer_load(trainer, files_path("weights")));
    read_weights(trainer, model, loaded.weights);
    assert_memory_equal(saved.weights, loaded.weights, sizeof saved.weights);
    assert_ok(clq_evaluate(trainer, data, &after));
    assert_true(fabs(before.loss - after.loss) < 1e-6 * before.loss);
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, v, &info));
        if (strstr(info.name, "moving_mean"))
            for (size_t i = 0; i < info.elements; i++) changed += loaded.weights[offset + i] != 0.0f;
        offset += info.elements;
    }
    assert_int_equal(changed, 8);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void test_misuse(void **state) {
    (void)state;
    static record parts;
    const setting *s = &settings[0];
    uint64_t step = 77;
    clq_checkpoints *checkpoints = NULL;
    assert_int_equal(train(s, files_path("misuse"), 4, STOP, &parts), 0);
    clq_checkpoints_config config = {.folder = files_path("misuse")};
    assert_int_equal(clq_checkpoints_open(&config, &checkpoints), CLQ_ERROR_ARGUMENT);
    config.resume = true;
    assert_ok(clq_checkpoints_open(&config, &checkpoints));
    clq_checkpoints *second = NULL;
    assert_int_equal(clq_checkpoints_open(&config, &second), CLQ_ERROR_ARGUMENT);

    clq_model *other = make_model(false, 9);
    clq_trainer *trainer = make_trainer(other, s, "adam");
    assert_int_equal(clq_checkpoints_restore(checkpoints, trainer, NULL, &step), CLQ_ERROR_MISMATCH);
    assert_non_null(strstr(clq_error_detail(), "kernel"));
    assert_int_equal(step, 77);
    clq_trainer_destroy(trainer);
    clq_model_destroy(other);
    clq_model *model = make_model(false, 8);
    trainer = make_trainer(model, s, "sgd");
    assert_int_equal(clq_checkpoints_restore(checkpoints, trainer, NULL, &step), CLQ_ERROR_MISMATCH);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    clq_checkpoints_close(checkpoints);
}

/* Each allocation of a save, of its write and of a restore fails in turn. This gives an error, or a checkpoint that
 * counts as failed, but never half a checkpoint. */
static void test_failing_allocations(void **state) {
    (void)state;
    clq_model *model = make_model(false, 8);
    clq_dataset *data = make_data();
    clq_trainer *trainer = make_trainer(model, &settings[2], "adam");
    clq_checkpoints *checkpoints;
    bool failed = true;
    assert_ok(clq_checkpoints_open(&(clq_checkpoints_config){.folder = files_path("memory"), .resume = true, .keep = 1},
                                   &checkpoints));
    for (uint64_t nth = 1; failed; nth += 7) {
        uint64_t step = 0;
        assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 1}));
        const uint64_t before = clq_checkpoints_counts(checkpoints).written;
        (void)clq_memory_fail_at(nth, false);
        clq_status status = clq_checkpoints_save(checkpoints, trainer, data);
        clq_checkpoints_wait(checkpoints);
        const bool written = clq_checkpoints_counts(checkpoints).written > before;
        if (status == CLQ_OK && written) {
            status = clq_checkpoints_restore(checkpoints, trainer, data, &step);
            failed = status != CLQ_OK;
        }
        (void)clq_memory_fail_at(0, false);
        assert_true(status == CLQ_OK || status == CLQ_ERROR_MEMORY);
        if (clq_checkpoints_counts(checkpoints).last_step > 0) {
            assert_ok(clq_checkpoints_restore(checkpoints, trainer, data, &step));
            assert_true(step > 0);
        }
        assert_true(nth < 100000);
    }
    clq_checkpoints_close(checkpoints);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static clq_status fail_next_allocation(void *context, uint64_t step) {
    (void)context;
    (void)clq_memory_fail_at(step == 1, false);
    return CLQ_OK;
}

/* If there is no memory for the copy, the checkpoint counts as failed and the fit goes on. */
static void test_no_memory_for_a_copy(void **state) {
    (void)state;
    clq_model *model = make_model(false, 8);
    clq_dataset *data = make_data();
    clq_trainer *trainer = make_trainer(model, &settings[0], "adam");
    clq_checkpoints *checkpoints;
    assert_ok(clq_checkpoints_open(&(clq_checkpoints_config){.folder = files_path("copy"), .every = 1}, &checkpoints));
    const clq_status status =
        clq_fit(trainer, data,
                &(clq_fit_config){.steps = 2, .checkpoints = checkpoints, .on_checkpoint = fail_next_allocation});
    (void)clq_memory_fail_at(0, false);
    assert_ok(status);
    const clq_checkpoint_counts counts = clq_checkpoints_counts(checkpoints);
    assert_int_equal(counts.failed, 1);
    assert_int_equal(counts.last_step, 2);
    clq_checkpoints_close(checkpoints);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* Refused, as in files of weights. */
static void test_weights_that_are_not_finite(void **state) {
    const char *folder = files_path("not finite");
    (void)state;
    clq_model *model = make_model(false, 8);
    clq_dataset *data = make_data();
    clq_trainer *trainer = make_trainer(model, &settings[0], "sgd");
    clq_checkpoints *checkpoints = open_checkpoints(folder);
    static float values[WEIGHTS_MOST];
    make_steps(trainer, data, 1);
    assert_ok(clq_trainer_get_variable(trainer, 0, values));
    values[1] = NAN;
    assert_ok(clq_trainer_set_variable(trainer, 0, values));
    assert_ok(clq_checkpoints_save(checkpoints, trainer, NULL));
    clq_checkpoints_wait(checkpoints);
    assert_int_equal(clq_trainer_load_checkpoint(trainer, folder, 1), CLQ_ERROR_FORMAT);
    assert_non_null(strstr(clq_error_detail(), "value 1 is nan, and weights must be finite"));
    clq_checkpoints_close(checkpoints);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* Loads the weights of the newest whole checkpoint into a trainer that cannot resume from it. A load that fails leaves
 * the weights as they were. */
static void test_weights_alone(void **state) {
    static record whole;
    static float read[WEIGHTS_MOST], kept[WEIGHTS_MOST];
    const char *folder = files_path("weights alone");
    uint64_t newest = 1;
    (void)state;
    whole = (record){0};
    assert_ok(clq_checkpoints_newest(folder, &newest));
    assert_int_equal(newest, 0); /* there is no folder */
    (void)train(&settings[0], folder, 4, 0, &whole);
    assert_ok(clq_checkpoints_newest(folder, &newest));
    assert_int_equal(newest, STEPS);

    clq_model *model = make_model(false, 8), *other = make_model(false, 9);
    clq_trainer *trainer, *stranger = make_trainer(other, &settings[0], "sgd");
    clq_devices devices;
    clq_trainer_config config = clq_trainer_config_default();
    config.sample_dtype = CLQ_F32;
    config.inference_only = true;
    config.disabled_paths = APART;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_ok(clq_trainer_load_checkpoint(trainer, folder, newest));
    read_weights(trainer, model, read);
    assert_memory_equal(read, whole.weights, sizeof read);

    read_weights(stranger, other, kept);
    assert_int_equal(clq_trainer_load_checkpoint(stranger, folder, newest), CLQ_ERROR_MISMATCH);
    assert_int_equal(clq_trainer_load_checkpoint(stranger, folder, newest + 1), CLQ_ERROR_NOT_FOUND);
    read_weights(stranger, other, read);
    assert_memory_equal(read, kept, sizeof read);
    /* Without its manifest, a folder does not count as a checkpoint. */
    char path[512];
    (void)snprintf(path, sizeof path, "%s/step-%012d/manifest.json", folder, STEPS);
    assert_int_equal(remove(path), 0);
    assert_ok(clq_checkpoints_newest(folder, &newest));
    assert_within(newest, 1, STEPS - 1);
    clq_trainer_destroy(trainer);
    clq_trainer_destroy(stranger);
    clq_model_destroy(model);
    clq_model_destroy(other);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_strategy_goes_on),
        cmocka_unit_test(test_callbacks_go_on),
        cmocka_unit_test(test_asynchronous_updates_go_on),
        cmocka_unit_test(test_the_best_file_goes_on),
        cmocka_unit_test(test_checkpoints_change_nothing),
        cmocka_unit_test(test_other_replicas_go_on),
        cmocka_unit_test(test_damaged_ones_are_left_out),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_weights_alone),
        cmocka_unit_test(test_weights_that_are_not_finite),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_no_memory_for_a_copy),
        cmocka_unit_test(test_few_stay_of_those_left_out),
        cmocka_unit_test(test_weights_have_statistics),
        cmocka_unit_test(test_stopped_fits_go_on),
        cmocka_unit_test(test_mixed_precision_goes_on),
    };
    return run_named(argc, argv, tests, start, end);
}
