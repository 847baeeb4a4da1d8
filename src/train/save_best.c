/* Saves the weights of the best epoch so far in a file, as keras.callbacks.ModelCheckpoint with save_best_only. */
#include "train/callbacks.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char save_best[] = "save_best";

typedef struct saving {
    char *path;
    clq_watch watch;
} saving;

/* The best value stays from fit to fit, as the file does. Keras does the same. */
static clq_status on_begin(void *context, clq_trainer *trainer, const clq_fit_config *config) {
    saving *s = context;
    CLQ_TRY(clq_model_check_save(trainer->model, s->path));
    s->watch.anew = false;
    return clq_watch_begin(&s->watch, trainer, config, save_best);
}

static clq_status on_epoch(void *context, clq_trainer *trainer, const clq_epoch_info *info) {
    saving *s = context;
    clq_watch watch = s->watch;
    if (!clq_watch_has_value(&watch, info) || !clq_watch_take(&watch, clq_watch_value(&watch, info))) return CLQ_OK;
    clq_status status = clq_trainer_save(trainer, s->path);
    if (status != CLQ_OK) return clq_fail_within(status, "%s", save_best);
    s->watch = watch; /* the file has these weights now */
    return CLQ_OK;
}

/* A callback's state is short, so it has hashes of paths. */
enum { PATH_HASH = 33 };
static void hash_path(const char *path, char text[PATH_HASH]) {
    const clq_hash128 hash = clq_hash128_of(path, strlen(path), 0);
    (void)snprintf(text, PATH_HASH, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
}

/* Which file it is. path: the path as it was given, which stays the same if a folder moves with all that is in it.
 * place: the resolved path, as the same path has many spellings. */
typedef struct identity {
    char path[PATH_HASH], place[PATH_HASH];
} identity;
static identity identify(const char *path) {
    identity id;
    char real[PATH_MAX];
    hash_path(path, id.path);
    hash_path(realpath(path, real) ? real : path, id.place);
    return id;
}

static clq_status save(void *context, char *text, size_t bytes) {
    const saving *s = context;
    const identity id = identify(s->path);
    json_t *state = json_pack("{s:s, s:s}", "path", id.path, "place", id.place);
    return clq_state_write(save_best, clq_watch_save(&s->watch, state), text, bytes);
}

static bool is_same(const json_t *state, const char *path) {
    const identity id = identify(path);
    const char *before = json_string_value(json_object_get(state, "path")),
               *place = json_string_value(json_object_get(state, "place"));
    return !before || strcmp(before, id.path) == 0 || (place && strcmp(place, id.place) == 0);
}

static clq_status restore(void *context, const char *text) {
    saving *s = context, result = *s;
    json_t *state;
    CLQ_TRY(clq_state_read(save_best, text, &state));
    clq_status status = clq_watch_restore(save_best, state, &result.watch);
    const bool another = !is_same(state, s->path) || !clq_file_exists(s->path);
    json_decref(state);
    CLQ_TRY(status);
    if (another && result.watch.any) {
        clq_log(CLQ_LOG_WARNING, "%s: the best weights before are not in %s: the best is looked for from here on",
                save_best, s->path);
        clq_watch_forget(&result.watch);
    }
    *s = result;
    return CLQ_OK;
}

static void destroy(void *context) {
    saving *s = context;
    clq_free(s->path);
    clq_free(s);
}

clq_status clq_callback_save_best(const char *path, const clq_monitor *monitor, clq_callback *out) {
    clq_watch watch;
    CLQ_TRY(clq_watch_open(&watch, monitor, save_best));
    CLQ_TRY(clq_file_writer_try(save_best, path));
    saving *s = clq_alloc(1, sizeof *s);
    char *copy = clq_strdup(path);
    if (!s || !copy) {
        clq_free(s);
        clq_free(copy);
        return CLQ_ERROR_MEMORY;
    }
    *s = (saving){.path = copy, .watch = watch};
    *out = (clq_callback){.name = save_best,
                          .context = s,
                          .on_begin = on_begin,
                          .on_epoch = on_epoch,
                          .save = save,
                          .restore = restore,
                          .destroy = destroy};
    return CLQ_OK;
}
