/* A table of epochs, as keras.callbacks.CSVLogger: a line for each, whose columns the first line names. */
#include "train/callbacks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char csv[] = "csv";

typedef struct table {
    char *path;
    FILE *file;
    bool append, restored;
    bool validated; /* columns of a validation, too */
    char *names;    /* the first line, until the fit has a line to write; else NULL */
    uint64_t bytes; /* of whole lines, written or found */
} table;

static clq_status fail_file(const table *t) {
    return clq_fail(CLQ_WRITE, "%s %s: cannot write: %s", csv, t->path, strerror(errno));
}

/* A name that holds a comma or a quote stands in quotes (RFC 4180). */
static void add_name(clq_text *line, const char *prefix, const char *name) {
    if (!strpbrk(name, ",\"\n\r")) {
        clq_text_add(line, ",%s%s", prefix, name);
        return;
    }
    clq_text_add(line, ",\"%s", prefix);
    for (; *name; name++) clq_text_add(line, *name == '"' ? "\"\"" : "%c", *name);
    clq_text_add(line, "\"");
}

static void add_names(clq_text *line, const clq_trainer *trainer, const char *prefix) {
    add_name(line, prefix, "loss");
    for (unsigned i = 0; i < trainer->metric_count; i++) add_name(line, prefix, trainer->metric_names[i]);
}

static void add_values(clq_text *line, const clq_totals *totals) {
    if (totals->samples == 0) { /* of a training that goes on behind the epoch's last step: nothing is known */
        for (unsigned i = 0; i <= totals->metrics.count; i++) clq_text_add(line, ",");
        return;
    }
    clq_text_add(line, ",%.9g", totals->loss);
    for (unsigned i = 0; i < totals->metrics.count; i++) clq_text_add(line, ",%.9g", totals->metrics.values[i]);
}

static clq_status write_line(table *t, clq_text *line) {
    clq_text_add(line, "\n");
    if (line->failed) return CLQ_MEMORY;
    if (fwrite(line->data, 1, line->length, t->file) < line->length || fflush(t->file) != 0) return fail_file(t);
    t->bytes += line->length;
    return CLQ_OK;
}

/* Whether the file begins with the line; *empty: it has no bytes. */
static clq_status begins_with(const table *t, const char *line, bool *empty, bool *same) {
    FILE *file = fopen(t->path, "r");
    int c = 0;
    if (!file) return clq_fail(CLQ_READ, "%s %s: cannot read: %s", csv, t->path, strerror(errno));
    *same = true;
    for (const char *at = line; *at && *same; at++) *same = (c = getc(file)) == (unsigned char)*at;
    if (*same) c = getc(file);
    *same = *same && (c == '\n' || c == '\r');
    rewind(file);
    *empty = getc(file) == EOF;
    const bool failed = ferror(file) != 0;
    fclose(file);
    return failed ? clq_fail(CLQ_READ, "%s %s: cannot read: %s", csv, t->path, strerror(errno)) : CLQ_OK;
}

/* A device is not cut. A file that is shorter has lost lines, or is another one: it stays. */
static clq_status cut(table *t, uint64_t bytes) {
    if (fseeko(t->file, 0, SEEK_END) == 0 && ftello(t->file) >= 0 && (uint64_t)ftello(t->file) < bytes) {
        clq_log(CLQ_LOG_WARNING, "%s %s: lines of earlier epochs are missing", csv, t->path);
        t->bytes = (uint64_t)ftello(t->file);
        return CLQ_OK;
    }
    if (ftruncate(fileno(t->file), (off_t)bytes) != 0 && errno != EINVAL) return fail_file(t);
    t->bytes = bytes;
    return CLQ_OK;
}

static bool goes_on(const table *t) { return t->append || (t->restored && t->bytes > 0); }

static clq_status refuse_columns(const table *t, const char *names) {
    return clq_fail(CLQ_MISMATCH,
                    "%s %s: its first line is not '%s': lines with other columns are not "
                    "added to it",
                    csv, t->path, names);
}

/* Lines that a restored state does not know are cut; else the file begins anew unless lines are added to it. */
static clq_status begin_table(table *t) {
    bool empty = true, same = false;
    clq_text names = {0};
    clq_text_add(&names, "%s", t->names);
    clq_status status = names.failed ? CLQ_MEMORY : CLQ_OK;
    if (status == CLQ_OK && (t->restored || !goes_on(t))) status = cut(t, goes_on(t) ? t->bytes : 0);
    if (status == CLQ_OK && goes_on(t)) status = begins_with(t, t->names, &empty, &same);
    if (status == CLQ_OK && empty) status = write_line(t, &names);
    if (status == CLQ_OK && !empty && !same) status = refuse_columns(t, t->names);
    if (status == CLQ_OK && !empty && fseeko(t->file, 0, SEEK_END) == 0) t->bytes = (uint64_t)ftello(t->file);
    if (status == CLQ_OK) {
        clq_free(t->names);
        t->names = NULL;
    }
    clq_free(names.data);
    return status;
}

/* Other columns are refused before anything is trained; the file stays as it is until there is a line for it. */
static clq_status check_table(const table *t) {
    bool empty = true, same = false;
    if (goes_on(t)) CLQ_TRY(begins_with(t, t->names, &empty, &same));
    return empty || same ? CLQ_OK : refuse_columns(t, t->names);
}

static clq_status on_begin(void *context, clq_trainer *trainer, const clq_fit_config *config) {
    table *t = context;
    clq_text names = {0};
    t->validated = config->validation != NULL;
    clq_text_add(&names, "epoch");
    add_names(&names, trainer, "");
    if (t->validated) add_names(&names, trainer, "val_");
    clq_text_add(&names, ",lr");
    clq_free(t->names);
    t->names = NULL;
    if (names.failed) {
        clq_free(names.data);
        return CLQ_MEMORY;
    }
    t->names = names.data;
    if (!goes_on(t)) t->bytes = 0; /* as checkpoints are told until there is a line */
    if (t->append && !t->restored && fseeko(t->file, 0, SEEK_END) == 0) t->bytes = (uint64_t)ftello(t->file);
    return check_table(t);
}

static clq_status on_epoch(void *context, clq_trainer *trainer, const clq_epoch_info *info) {
    table *t = context;
    clq_text line = {0};
    if (t->names) CLQ_TRY(begin_table(t));
    clq_text_add(&line, "%llu", (unsigned long long)info->epoch);
    add_values(&line, &info->train);
    if (t->validated) add_values(&line, &info->validation);
    clq_text_add(&line, ",%.9g", clq_trainer_learning_rate(trainer));
    clq_status status = write_line(t, &line);
    clq_free(line.data);
    return status;
}

static clq_status on_end(void *context, clq_trainer *trainer, clq_status status) {
    table *t = context;
    (void)trainer;
    (void)status;
    t->restored = false;
    return CLQ_OK;
}

static clq_status save(void *context, char *text, size_t bytes) {
    return clq_state_write(csv, json_pack("{s:I}", "bytes", (json_int_t)((table *)context)->bytes), text, bytes);
}

static clq_status restore(void *context, const char *text) {
    table *t = context;
    json_t *state;
    uint64_t bytes;
    CLQ_TRY(clq_state_read(csv, text, &state));
    clq_status status = clq_state_count(csv, state, "bytes", &bytes);
    json_decref(state);
    CLQ_TRY(status);
    t->bytes = bytes;
    t->restored = true;
    return CLQ_OK;
}

static void destroy(void *context) {
    table *t = context;
    if (t->file) fclose(t->file);
    clq_free(t->names);
    clq_free(t->path);
    clq_free(t);
}

clq_status clq_callback_csv(const char *path, bool append, clq_callback *out) {
    table *t = clq_alloc(1, sizeof *t);
    if (!t) return CLQ_MEMORY;
    clq_status status = CLQ_MEMORY;
    t->append = append;
    t->path = clq_strdup(path);
    if (t->path) {
        t->file = fopen(path, "a");
        status = t->file ? CLQ_OK : fail_file(t);
    }
    if (status != CLQ_OK) {
        destroy(t);
        return status;
    }
    *out = (clq_callback){.name = csv,
                          .context = t,
                          .on_begin = on_begin,
                          .on_epoch = on_epoch,
                          .on_end = on_end,
                          .save = save,
                          .restore = restore,
                          .destroy = destroy};
    return CLQ_OK;
}
