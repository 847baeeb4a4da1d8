/* The weights of the best epoch so far in a file, as keras.callbacks.ModelCheckpoint with save_best_only. */
#include "train/callbacks.h"

static const char save_best[] = "save_best";

typedef struct saving {
    char *path;
    clq_watch watch;
} saving;

/* The best stays from fit to fit, as the file does, and as in Keras. */
static clq_status on_begin(void *context, clq_trainer *trainer, const clq_fit_config *config) {
    const saving *s = context;
    return clq_watch_check(&s->watch, trainer, config, save_best);
}

static clq_status on_epoch(void *context, clq_trainer *trainer, const clq_epoch_info *info) {
    saving *s = context;
    clq_watch watch = s->watch;
    if (!clq_watch_has_value(&watch, info) || !clq_watch_take(&watch, clq_watch_value(&watch, info))) return CLQ_OK;
    clq_status status = clq_trainer_save(trainer, s->path);
    if (status != CLQ_OK) return clq_fail_within(status, "%s", save_best);
    s->watch = watch; /* that of the file */
    return CLQ_OK;
}

static clq_status save(void *context, char *text, size_t bytes) {
    const saving *s = context;
    return clq_state_write(save_best, clq_watch_save(&s->watch, json_object()), text, bytes);
}

static clq_status restore(void *context, const char *text) {
    saving *s = context, result = *s;
    json_t *state;
    CLQ_TRY(clq_state_read(save_best, text, &state));
    clq_status status = clq_watch_restore(save_best, state, &result.watch);
    json_decref(state);
    CLQ_TRY(status);
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
        return CLQ_MEMORY;
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
