/* A training's folder of checkpoints: its lock, the thread that writes, and resuming from the newest checkpoint. */
#include "train/checkpoint.h"
#include "train/sharding.h"
#include <clique/callbacks.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

struct clq_checkpoints {
    clq_checkpoints_config config;
    char *folder;
    bool is_writer; /* this process, rank 0, uses the folder; the others have no thread */
    int lock;       /* the locked folder's descriptor; -1: it is not locked */
    clq_thread *thread;
    clq_channel *work;    /* of clq_checkpoint * */
    clq_checkpoint *next; /* room for the next checkpoint; NULL: not allocated yet */
    uint64_t taken;       /* step of the checkpoint that was taken or restored last; 0: none */
    uint64_t found;       /* until one is restored: step of the newest that the folder had at opening; 0: none */
    bool has_place;
    clq_fit_place place;
    json_t *values;                 /* the values of the checkpoint that was restored last; NULL: none was */
    clq_kept_weights *kept;         /* likewise */
    size_t kept_count, kept_values; /* kept_values: how many values each has */
    uint64_t skipped;
    atomic_bool busy; /* the thread has a checkpoint to write */
    atomic_uint_fast64_t written, failed, last_step;
};

/* ---- the folder ---- */

static void remove_old(const clq_checkpoints *c) {
    uint64_t *steps;
    size_t count, found = 0;
    if (clq_checkpoint_list(c->folder, &steps, &count) != CLQ_OK) return;
    for (size_t i = 0; i < count; i++) {
        bool whole = false;
        if (clq_checkpoint_look(c->folder, steps[i], &whole) == CLQ_OK && whole && ++found > c->config.keep)
            clq_checkpoint_remove(c->folder, steps[i]);
    }
    clq_free(steps);
}

/* ---- the writer ---- */

static clq_status write_one(const clq_checkpoints *c, const clq_checkpoint *checkpoint) {
    char *folder = clq_checkpoint_folder(c->folder, checkpoint->step);
    clq_status status = folder ? clq_make_folder(folder) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) status = clq_checkpoint_write(checkpoint, folder);
    clq_free(folder);
    /* The checkpoint's own folder is an entry of this folder, which is synced, too. */
    if (status == CLQ_OK && fsync(c->lock) != 0 && errno != EINVAL)
        status = clq_fail(CLQ_ERROR_WRITE, "%s: cannot sync: %s", c->folder, strerror(errno));
    return status;
}

static void say_failed(clq_checkpoints *c, uint64_t step) {
    atomic_fetch_add(&c->failed, 1);
    clq_log(CLQ_LOG_WARNING, "the checkpoint of step %" PRIu64 " was not written: %s; training goes on", step,
            clq_error_detail());
}

static void write_all(void *context) {
    clq_checkpoints *c = context;
    clq_checkpoint *checkpoint;
    while (clq_channel_take(c->work, &checkpoint)) {
        const clq_status status = write_one(c, checkpoint);
        if (status == CLQ_OK) {
            atomic_fetch_add(&c->written, 1);
            atomic_store(&c->last_step, checkpoint->step);
            remove_old(c);
        } else {
            say_failed(c, checkpoint->step);
            clq_checkpoint_remove(c->folder, checkpoint->step);
        }
        clq_checkpoint_release(checkpoint);
        clq_free(checkpoint);
        atomic_store(&c->busy, false);
        clq_channel_done(c->work);
    }
}

void clq_checkpoints_wait(clq_checkpoints *checkpoints) {
    if (checkpoints->work) clq_channel_wait(checkpoints->work);
}

clq_checkpoint_counts clq_checkpoints_counts(clq_checkpoints *checkpoints) {
    clq_checkpoints_wait(checkpoints);
    if (!checkpoints->is_writer) return (clq_checkpoint_counts){0};
    return (clq_checkpoint_counts){.written = atomic_load(&checkpoints->written),
                                   .failed = atomic_load(&checkpoints->failed),
                                   .skipped = checkpoints->skipped,
                                   .last_step = atomic_load(&checkpoints->last_step)};
}

/* ---- life ---- */

/* Finds the newest checkpoint, and removes folders without a manifest. Writers that were killed left these: this
 * process has the lock, so nobody else is writing. */
static clq_status look_through(clq_checkpoints *c) {
    uint64_t *steps;
    size_t count;
    clq_status status = CLQ_OK;
    CLQ_TRY(clq_checkpoint_list(c->folder, &steps, &count));
    for (size_t i = 0; i < count && status == CLQ_OK; i++) {
        bool whole;
        status = clq_checkpoint_look(c->folder, steps[i], &whole);
        if (status != CLQ_OK) break;
        if (whole && c->found == 0) c->found = steps[i];
        if (!whole)
            clq_checkpoint_remove(c->folder, steps[i]);
        else if (!c->config.resume)
            status =
                clq_fail(CLQ_ERROR_ARGUMENT,
                         "%s has checkpoints, the newest of step %" PRIu64 ": resume from them, or name another folder",
                         c->folder, steps[i]);
    }
    clq_free(steps);
    return status;
}

/* Tries for a while: a process that follows a training holds the lock for an instant, to see whether somebody writes
 * there (clq_checkpoints_are_written). */
static bool lock_folder(int fd) {
    enum { TRIES = 20, PAUSE_MS = 10 };
    for (unsigned i = 0; i < TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
        (void)poll(NULL, 0, PAUSE_MS);
    }
    return false;
}

bool clq_checkpoints_are_written(const char *folder) {
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return locked;
}

static clq_status open_folder(clq_checkpoints *c) {
    CLQ_TRY(clq_make_folder(c->folder));
    c->lock = open(c->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->lock < 0) return clq_fail(CLQ_ERROR_WRITE, "%s: cannot open the folder: %s", c->folder, strerror(errno));
    if (!lock_folder(c->lock))
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "%s: a training writes its checkpoints there already, of this process or another: name "
                        "another folder",
                        c->folder);
    CLQ_TRY(look_through(c));
    char *probe = clq_strprintf("%s/manifest.json", c->folder);
    if (!probe) return CLQ_ERROR_MEMORY;
    const clq_status status = clq_file_writer_try("checkpoints", probe);
    clq_free(probe);
    return status;
}

static clq_status open_writer(clq_checkpoints *c) {
    CLQ_TRY(open_folder(c));
    CLQ_TRY(clq_channel_create(sizeof(clq_checkpoint *), 1, &c->work));
    return clq_thread_start("checkpoints", write_all, c, &c->thread);
}

clq_status clq_checkpoints_open_sized(const clq_checkpoints_config *config, size_t config_bytes,
                                      clq_checkpoints **out) {
    clq_checkpoints_config whole;
    CLQ_TRY(clq_struct_take("clq_checkpoints_config", config, config_bytes, &whole, sizeof whole));
    if (!whole.folder || !*whole.folder)
        return clq_world_check(whole.world, clq_fail(CLQ_ERROR_ARGUMENT, "checkpoints need the name of a folder"));
    clq_checkpoints *c = clq_alloc(1, sizeof *c);
    if (!c) return clq_world_check(whole.world, CLQ_ERROR_MEMORY);
    c->config = whole;
    c->config.folder = NULL; /* the caller's text may be gone after this returns */
    if (whole.keep == 0) c->config.keep = CLQ_CHECKPOINTS_KEPT;
    c->lock = -1;
    c->folder = clq_strdup(whole.folder);
    c->is_writer = clq_world_rank(whole.world) == 0;
    clq_status status = c->folder ? CLQ_OK : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK && c->is_writer) status = open_writer(c);
    status = clq_world_check(whole.world, status);
    if (status == CLQ_OK) status = clq_world_broadcast(whole.world, &c->found, sizeof c->found);
    if (status != CLQ_OK)
        clq_checkpoints_close(c);
    else
        *out = c;
    return status;
}

void clq_checkpoints_close(clq_checkpoints *c) {
    if (!c) return;
    if (c->thread) clq_channel_close(c->work);
    clq_thread_join(c->thread);
    clq_channel_destroy(c->work);
    if (c->lock >= 0) close(c->lock);
    json_decref(c->values);
    clq_kept_weights_release(c->kept, c->kept_count);
    clq_free(c->next);
    clq_free(c->folder);
    clq_free(c);
}

/* ---- taking one ---- */

static clq_status check_world(const clq_checkpoints *c, const clq_trainer *trainer) {
    const clq_world *own = clq_world_size(c->config.world) > 1 ? c->config.world : NULL;
    const clq_world *its = clq_strategy_spans(trainer->strategy) ? trainer->config.world : NULL;
    if (own == its) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "%s: the checkpoints and the trainer are of different processes: open them with the same "
                    "world",
                    c->folder);
}

static clq_status check_trainer(const clq_checkpoints *c, const clq_trainer *trainer, const char *call) {
    CLQ_TRY(check_world(c, trainer));
    if (trainer->config.parts > 0)
        return clq_fail(CLQ_ERROR_STATE, "%s: checkpoints are of a whole model, and the trainer has a part of one",
                        call);
    if (trainer->config.inference_only)
        return clq_fail(CLQ_ERROR_STATE, "%s: an inference-only trainer has no training to go on with", call);
    if (trainer->running)
        return clq_fail(CLQ_ERROR_STATE, "%s: a function runs on the replicas: call it behind clq_run", call);
    if (trainer->accumulated > 0 || trainer->gradient != CLQ_GRADIENT_NONE)
        return clq_fail(CLQ_ERROR_STATE, "%s: an update is under way: finish it first (clq_step_apply)", call);
    return CLQ_OK;
}

/* "callback/early_stopping/0": the first callback of this name. Callbacks are counted by name, so that others may come
 * and go. NULL: no memory. */
static char *state_name(const clq_fit_config *config, size_t index) {
    const char *name = config->callbacks[index].name;
    size_t before = 0;
    for (size_t i = 0; i < index; i++)
        before += config->callbacks[i].name && strcmp(config->callbacks[i].name, name) == 0;
    return clq_strprintf("callback/%s/%zu", name, before);
}

/* Adds the callbacks' states, and what callbacks may have changed: a learning rate that was set by hand. */
static clq_status put_callbacks(clq_checkpoint *to, const clq_trainer *trainer, const clq_fit_config *config) {
    char state[CLQ_CALLBACK_STATE_MAX] = "";
    if (trainer->rate_set) CLQ_TRY(clq_checkpoint_put_number(to, "learning_rate", trainer->config.optimizer.values[0]));
    for (size_t i = 0; config && i < config->callback_count; i++) {
        const clq_callback *one = &config->callbacks[i];
        if (!one->save) continue;
        char *name = state_name(config, i);
        clq_status status =
            name ? CLQ_ASK(one->save(one->context, state, sizeof state), "%s: save", name) : CLQ_ERROR_MEMORY;
        if (status == CLQ_OK && !memchr(state, '\0', sizeof state))
            status = clq_fail(CLQ_ERROR_ARGUMENT, "callback '%s': its state is no text that ends within %zu bytes",
                              one->name, sizeof state);
        if (status == CLQ_OK) status = clq_checkpoint_put_text(to, name, state);
        clq_free(name);
        CLQ_TRY(status);
    }
    return CLQ_OK;
}

clq_status clq_checkpoints_note(const clq_trainer *trainer, const clq_fit_config *config, json_t **out) {
    clq_checkpoint states = {.values = json_object()};
    clq_status status =
        states.values ? put_callbacks(&states, trainer, config) : clq_fail_memory("making a checkpoint");
    if (status == CLQ_OK) *out = json_incref(states.values);
    clq_checkpoint_release(&states);
    return status;
}

clq_status clq_checkpoints_restore_callbacks(const clq_checkpoints *checkpoints, const clq_fit_config *config) {
    const clq_checkpoint from = {.values = checkpoints->values};
    for (size_t i = 0; i < config->callback_count; i++) {
        const clq_callback *one = &config->callbacks[i];
        if (!one->restore || !one->name) continue;
        char *name = state_name(config, i);
        if (!name) return CLQ_ERROR_MEMORY;
        const char *state = clq_checkpoint_text(&from, name);
        if (!state)
            clq_log(CLQ_LOG_WARNING, "%s: the checkpoint has no state of callback '%s', which begins anew",
                    checkpoints->folder, one->name);
        clq_status status = CLQ_OK;
        if (state) status = CLQ_ASK(one->restore(one->context, state), "callback '%s': restore", one->name);
        const float *weights = clq_kept_weights_find(checkpoints->kept, checkpoints->kept_count, name);
        if (status == CLQ_OK && state && weights && one->restore_weights)
            status = CLQ_ASK(one->restore_weights(one->context, weights, checkpoints->kept_values),
                             "callback '%s': restore_weights", one->name);
        clq_free(name);
        CLQ_TRY(status);
    }
    return CLQ_OK;
}

/* Adds the weights that callbacks keep now, besides their states. */
static clq_status put_weights(clq_checkpoint *to, const clq_fit_config *config) {
    for (size_t i = 0; config && i < config->callback_count; i++) {
        const clq_callback *one = &config->callbacks[i];
        const float *weights = one->weights && one->save ? one->weights(one->context) : NULL;
        if (!weights) continue;
        char *name = state_name(config, i);
        const clq_status status = name ? clq_checkpoint_keep_weights(to, name, weights) : CLQ_ERROR_MEMORY;
        clq_free(name);
        CLQ_TRY(status);
    }
    return CLQ_OK;
}

static clq_status fill(clq_checkpoint *to, clq_trainer *trainer, const clq_dataset *data, const clq_fit_place *place) {
    uint64_t epoch = 0, index = 0;
    to->model = trainer->model;
    to->step = trainer->step;
    CLQ_TRY(clq_strategy_take_snapshot(trainer->strategy, false, &to->snapshot));
    CLQ_TRY(clq_checkpoint_put_trainer(to, trainer));
    if (place) CLQ_TRY(clq_checkpoint_put_place(to, trainer, place));
    if (!place || !place->before)
        CLQ_TRY(put_callbacks(to, trainer, place ? place->config : NULL));
    else if (json_object_update(to->values, place->before) != 0)
        return clq_fail_memory("making a checkpoint");
    CLQ_TRY(put_weights(to, place ? place->config : NULL));
    if (place) epoch = place->data_epoch, index = place->data_index;
    if (!place && data) (void)clq_sharding_tell(trainer, data, &epoch, &index);
    if (!place && !data) return CLQ_OK;
    CLQ_TRY(clq_checkpoint_put_count(to, "data/epoch", epoch));
    if (data) CLQ_TRY(clq_checkpoint_put_data(to, trainer, data));
    return clq_checkpoint_put_count(to, "data/index", index);
}

clq_status clq_checkpoints_check(const clq_checkpoints *c, const clq_trainer *trainer) {
    CLQ_TRY(check_world(c, trainer));
    if (c->found == 0) return CLQ_OK;
    return clq_fail(CLQ_ERROR_STATE,
                    "%s has a checkpoint of step %" PRIu64
                    ", and the training does not go on from it: clq_checkpoints_restore comes first",
                    c->folder, c->found);
}

clq_status clq_checkpoints_go_without(clq_checkpoints *c, const clq_trainer *trainer) {
    CLQ_TRY(clq_strategy_failure(trainer->strategy));
    if (c->is_writer) say_failed(c, trainer->step);
    return CLQ_OK;
}

static bool writer_wants(clq_checkpoints *c, uint64_t step, bool waits) {
    if (waits) clq_checkpoints_wait(c);
    if (step == 0 || step == (waits ? atomic_load(&c->last_step) : c->taken)) return false;
    const bool busy = atomic_load(&c->busy);
    c->skipped += busy;
    if (busy) return false;
    if (!c->next) c->next = clq_alloc(1, sizeof *c->next);
    if (!c->next) say_failed(c, step);
    return c->next;
}

clq_status clq_checkpoints_want(clq_checkpoints *c, uint64_t step, bool waits, bool *out) {
    uint8_t wants = c->is_writer && writer_wants(c, step, waits);
    CLQ_TRY(clq_world_broadcast(c->config.world, &wants, sizeof wants));
    *out = wants;
    return CLQ_OK;
}

/* On other ranks than 0: sends rank 0 the values that the replicas of this process have of their own. */
static clq_status take_part(clq_checkpoints *c, clq_trainer *trainer, const clq_fit_place *place) {
    clq_snapshot own;
    const clq_status status = clq_strategy_take_snapshot(trainer->strategy, false, &own);
    clq_snapshot_release(&own);
    if (status == CLQ_ERROR_MEMORY && place) return clq_checkpoints_go_without(c, trainer);
    if (status == CLQ_OK) c->taken = trainer->step;
    return status;
}

clq_status clq_checkpoints_take(clq_checkpoints *c, clq_trainer *trainer, const clq_dataset *data,
                                const clq_fit_place *place) {
    CLQ_TRY(check_trainer(c, trainer, "a checkpoint"));
    CLQ_TRY(clq_checkpoints_check(c, trainer));
    clq_strategy_settle(trainer->strategy, false);
    if (!c->is_writer) return take_part(c, trainer, place);
    clq_checkpoint *next = c->next;
    const clq_status status = fill(next, trainer, data, place);
    if (status != CLQ_OK) {
        clq_checkpoint_release(next);
        *next = (clq_checkpoint){0};
        return status == CLQ_ERROR_MEMORY && place ? clq_checkpoints_go_without(c, trainer) : status;
    }
    c->taken = trainer->step;
    c->next = NULL; /* the writer's thread frees it */
    atomic_store(&c->busy, true);
    (void)clq_channel_put(c->work, &next);
    return CLQ_OK;
}

clq_status clq_checkpoints_save(clq_checkpoints *checkpoints, clq_trainer *trainer, const clq_dataset *dataset) {
    CLQ_TRY(clq_trainer_refuse_call(trainer, "clq_checkpoints_save"));
    CLQ_TRY(check_trainer(checkpoints, trainer, "a checkpoint"));
    bool wanted;
    CLQ_TRY(clq_checkpoints_want(checkpoints, trainer->step, true, &wanted));
    if (!wanted) return clq_checkpoints_check(checkpoints, trainer);
    return clq_checkpoints_take(checkpoints, trainer, dataset, NULL);
}

bool clq_checkpoints_are_due(const clq_checkpoints *checkpoints, uint64_t step) {
    return checkpoints->config.every > 0 && step % checkpoints->config.every == 0;
}

/* ---- going on ---- */

/* Moves the dataset first, since that may fail: it may be cut into other batches now. */
static clq_status apply(clq_checkpoints *c, clq_checkpoint *from, const char *folder, clq_trainer *trainer,
                        clq_dataset *data) {
    clq_fit_place place;
    bool has_place;
    if (data) trainer->labels_are_samples = clq_dataset_get_info(data)->labels_are_samples;
    CLQ_TRY(clq_checkpoint_get_place(from, folder, trainer, data, &place, &has_place));
    if (data) CLQ_TRY(clq_checkpoint_seek(from, folder, trainer, data));
    CLQ_TRY(clq_checkpoint_apply(from, folder, trainer));
    c->place = place;
    c->has_place = has_place;
    json_decref(c->values);
    c->values = json_incref(from->values);
    clq_kept_weights_release(c->kept, c->kept_count);
    c->kept = from->kept;
    c->kept_count = from->kept_count;
    c->kept_values = 0;
    for (uint32_t v = 0; v < from->model->variable_count; v++) c->kept_values += from->model->variables[v].elements;
    from->kept = NULL;
    from->kept_count = 0;
    c->taken = from->step;
    c->found = 0;
    atomic_store(&c->last_step, from->step);
    return CLQ_OK;
}

/* With another optimizer, tensors are missing or left over, too. Then the failure names the optimizer instead. */
static clq_status read_one(uint64_t step, const char *folder, const clq_trainer *trainer, clq_checkpoint *out) {
    clq_status status = clq_checkpoint_read(folder, trainer->model, clq_strategy_slots(trainer->strategy), out);
    if (status == CLQ_OK || status == CLQ_ERROR_MISMATCH) CLQ_TRY(clq_checkpoint_check_optimizer(out, trainer, folder));
    CLQ_TRY(status);
    if (out->step != step) return clq_fail(CLQ_ERROR_FORMAT, "%s: its manifest is of step %" PRIu64, folder, out->step);
    clq_settings_compare(out->values, trainer->settings, folder);
    return CLQ_OK;
}

/* Reads the checkpoint of steps[i]. If the training can resume from it (*usable), the newer ones, which were skipped,
 * are set aside before anything changes; a failure then comes from setting them aside. */
static clq_status find_one(const clq_checkpoints *c, const uint64_t *steps, size_t i, const clq_trainer *trainer,
                           clq_checkpoint *out, bool *usable) {
    char *folder = clq_checkpoint_folder(c->folder, steps[i]);
    if (!folder) return CLQ_ERROR_MEMORY;
    clq_status status = read_one(steps[i], folder, trainer, out);
    *usable = status == CLQ_OK;
    for (size_t k = 0; k < i && status == CLQ_OK; k++) status = clq_checkpoint_set_aside(c->folder, steps[k]);
    clq_free(folder);
    return status;
}

/* Finds the newest checkpoint that the training can resume from; *has: there is one. Rank 0 alone calls this. */
static clq_status find_newest(clq_checkpoints *c, const clq_trainer *trainer, clq_checkpoint *out, bool *has) {
    uint64_t *steps;
    size_t count;
    clq_error first = {0};
    clq_checkpoints_wait(c);
    *has = false;
    CLQ_TRY(clq_checkpoint_list(c->folder, &steps, &count));
    clq_status status = CLQ_OK;
    for (size_t i = 0; i < count && !*has; i++) {
        bool whole = true;
        status = clq_checkpoint_look(c->folder, steps[i], &whole);
        if (!whole) continue;
        if (status == CLQ_OK) status = find_one(c, steps, i, trainer, out, has);
        if (status == CLQ_OK && i > 0) clq_checkpoint_remove_aside(c->folder, c->config.keep);
        if (*has || status == CLQ_ERROR_MEMORY) break;
        clq_checkpoint_release(out);
        if (first.status == CLQ_OK) clq_error_take(status, &first);
        clq_log(CLQ_LOG_WARNING, "checkpoint left out: %s", clq_error_detail());
    }
    clq_free(steps);
    return *has || status == CLQ_ERROR_MEMORY || first.status == CLQ_OK ? status : clq_error_raise(&first);
}

static clq_status apply_to_data(clq_checkpoints *c, clq_checkpoint *from, const char *folder, clq_trainer *trainer,
                                clq_dataset *data) {
    const clq_data_part part = clq_dataset_part(data);
    uint64_t epoch, index;
    clq_error error;
    clq_dataset_tell(data, &epoch, &index);
    clq_status status = clq_sharding_open(trainer, data);
    if (status == CLQ_OK) status = clq_world_check(c->config.world, apply(c, from, folder, trainer, data));
    status = clq_sharding_close(trainer, data, &part, status);
    if (status == CLQ_OK) return CLQ_OK;
    clq_error_take(status, &error);
    (void)clq_dataset_seek(data, epoch, index);
    return clq_error_raise(&error);
}

/* Resumes from the checkpoint. All processes call this. On an error the dataset stays where it was. */
static clq_status go_on(clq_checkpoints *c, clq_checkpoint *from, clq_trainer *trainer, clq_dataset *data) {
    clq_world *world = c->config.world;
    char *folder = clq_checkpoint_folder(c->folder, from->step);
    clq_status status = folder ? clq_sharding_check_resumed(from, folder, trainer) : CLQ_ERROR_MEMORY;
    status = clq_world_check(world, status);
    if (status == CLQ_OK)
        status = data ? apply_to_data(c, from, folder, trainer, data)
                      : clq_world_check(world, apply(c, from, folder, trainer, NULL));
    clq_free(folder);
    return status;
}

clq_status clq_checkpoints_restore(clq_checkpoints *c, clq_trainer *trainer, clq_dataset *dataset, uint64_t *step) {
    clq_checkpoint from = {0};
    bool has = false;
    CLQ_TRY(clq_trainer_refuse_call(trainer, "clq_checkpoints_restore"));
    CLQ_TRY(check_trainer(c, trainer, "clq_checkpoints_restore"));
    clq_status status = c->is_writer ? find_newest(c, trainer, &from, &has) : CLQ_OK;
    status = clq_world_check(c->config.world, status);
    if (status == CLQ_OK) status = clq_checkpoint_share(c->config.world, trainer->model, &from, &has);
    if (status == CLQ_OK && has) status = go_on(c, &from, trainer, dataset);
    if (status == CLQ_OK) *step = has ? from.step : 0;
    clq_checkpoint_release(&from);
    return status;
}

bool clq_checkpoints_place(const clq_checkpoints *checkpoints, clq_fit_place *out) {
    if (checkpoints->has_place) *out = checkpoints->place;
    return checkpoints->has_place;
}

bool clq_checkpoints_continue_at(const clq_checkpoints *checkpoints, uint64_t *epoch, uint64_t *batch) {
    if (checkpoints->has_place) {
        *epoch = checkpoints->place.epoch;
        *batch = checkpoints->place.batch;
    }
    return checkpoints->has_place;
}

void clq_checkpoints_leave_place(clq_checkpoints *checkpoints) { checkpoints->has_place = false; }

/* ---- weights alone ---- */

clq_status clq_trainer_load_checkpoint(clq_trainer *trainer, const char *folder, uint64_t step) {
    const clq_model *model = trainer->model;
    size_t count = 0;
    for (uint32_t v = 0; v < model->variable_count; v++) count += model->variables[v].elements;
    char *own = clq_checkpoint_folder(folder, step);
    float *values = clq_alloc(CLQ_MAX(count, (size_t)1), sizeof *values);
    clq_status status = own && values ? clq_checkpoint_read_weights(own, model, values) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) status = clq_trainer_put_weights(trainer, values);
    clq_free(values);
    clq_free(own);
    return status;
}
