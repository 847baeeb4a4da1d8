/* A CSV file with a line for each epoch, as keras.callbacks.CSVLogger writes it. The first line names the columns. */
#include "train/callbacks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char csv[] = "csv";

typedef struct table {
    char *path;
    FILE *file;
    bool append, restored;
    bool validated; /* there are columns for a validation, too */
    char *names;    /* the first line, from on_begin until the fit has a line to write; otherwise NULL */
    bool cr_lf;     /* lines end with CR LF: another program has written the file meanwhile */
    uint64_t rows;  /* epochs' rows in the file, written or found there */
    uint64_t own;   /* how many of these rows, the last ones, are this training's */
    uint64_t next;  /* the epoch after the last of these rows */
    uint64_t bytes; /* bytes of whole lines, which states of an earlier version have instead of rows; 0: none */
} table;

static clq_status fail_file(const table *t) {
    return clq_fail(CLQ_ERROR_WRITE, "%s %s: cannot write: %s", csv, t->path, strerror(errno));
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

/* Adds loss and metrics. An epoch without totals gets as many empty cells: it was trained before the checkpoint that
 * the fit resumed from, or its validation was left out. */
static void add_values(clq_text *line, const clq_totals *totals, unsigned metrics) {
    if (totals->samples == 0) {
        for (unsigned i = 0; i <= metrics; i++) clq_text_add(line, ",");
        return;
    }
    clq_text_add(line, ",%.9g", totals->loss);
    for (unsigned i = 0; i < totals->metrics.count; i++) clq_text_add(line, ",%.9g", totals->metrics.values[i]);
}

static clq_status write_line(table *t, clq_text *line) {
    clq_text_add(line, t->cr_lf ? "\r\n" : "\n");
    if (line->failed) return CLQ_ERROR_MEMORY;
    return fwrite(line->data, 1, line->length, t->file) < line->length || fflush(t->file) != 0 ? fail_file(t) : CLQ_OK;
}

/* ---- a table that goes on ----
 * Another program may have written the file meanwhile, with other line ends, comments or empty lines. So what is kept
 * of it is counted in rows of epochs. */

typedef struct piece {
    const char *text;
    size_t length; /* without the line end */
    bool ends, cr_lf;
} piece;

/* Takes the line that begins at *at, and moves *at to the next line. False: there is none. */
static bool take_line(const char *text, size_t bytes, size_t *at, piece *out) {
    if (*at >= bytes) return false;
    const char *from = text + *at, *end = memchr(from, '\n', bytes - *at);
    *out = (piece){.text = from, .length = end ? (size_t)(end - from) : bytes - *at, .ends = end};
    *at += out->length + (end ? 1 : 0);
    out->cr_lf = end && out->length > 0 && from[out->length - 1] == '\r';
    out->length -= out->cr_lf;
    return true;
}

/* Whether the line is neither empty nor a comment. */
static bool has_values(const piece *l) { return l->length > 0 && l->text[0] != '#'; }

static size_t columns(const char *text, size_t length) {
    size_t count = 1;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"') quoted = !quoted;
        count += text[i] == ',' && !quoted;
    }
    return count;
}

/* The number that a row begins with, quoted or not; UINT64_MAX: none. */
static uint64_t epoch_of(const piece *l) {
    const char *at = l->text + (l->text[0] == '"'), *end = l->text + l->length;
    uint64_t epoch = 0;
    if (at == end || !clq_is_digit(*at)) return UINT64_MAX;
    for (; at < end && clq_is_digit(*at) && epoch < UINT64_MAX / 100; at++) epoch = epoch * 10 + (uint64_t)(*at - '0');
    return epoch;
}

/* Whether the first line of values has the names. *found: that line; *behind: where the next one begins. A byte-order
 * mark, which spreadsheets put before UTF-8, is skipped. */
static bool has_names(const char *text, size_t bytes, const char *names, size_t *behind, piece *found) {
    size_t at = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (take_line(text, bytes, &at, found))
        if (has_values(found)) break;
    *behind = at;
    return found->length == strlen(names) && memcmp(found->text, names, found->length) == 0;
}

/* Where the first row begins that the restored state does not know, or that is cut off; *rows: how many rows come
 * before it. If nothing was restored, all rows that are not cut off are kept. */
static size_t end_of_rows(const table *t, const char *text, size_t bytes, size_t at, size_t width, uint64_t *rows) {
    size_t begin = at;
    *rows = 0;
    for (piece l; take_line(text, bytes, &at, &l); begin = at) {
        if (!has_values(&l)) continue;
        if (!l.ends && columns(l.text, l.length) != width) return begin;
        const bool known = t->bytes ? at <= t->bytes : *rows < t->rows;
        const bool later = !t->bytes && *rows + t->own >= t->rows && epoch_of(&l) >= t->next;
        if (t->restored && (!known || later)) return begin;
        ++*rows;
    }
    return begin;
}

static bool goes_on(const table *t) { return t->append || (t->restored && (t->rows > 0 || t->bytes > 0)); }

static clq_status refuse_columns(const table *t) {
    return clq_fail(CLQ_ERROR_MISMATCH,
                    "%s %s: its first line is not '%s': lines with other columns are not added to it", csv, t->path,
                    t->names);
}

/* Cuts the file after the rows that are kept, so that lines can be added. text: what the file has. */
static clq_status keep_rows(table *t, const char *text, size_t bytes) {
    piece first = {0};
    size_t behind;
    uint64_t rows;
    if (!has_names(text, bytes, t->names, &behind, &first)) return refuse_columns(t);
    const size_t end = end_of_rows(t, text, bytes, behind, columns(t->names, strlen(t->names)), &rows);
    if (t->restored && !t->bytes && rows < t->rows)
        clq_log(CLQ_LOG_WARNING, "%s %s: lines of earlier epochs are missing", csv, t->path);
    if (ftruncate(fileno(t->file), (off_t)end) != 0) return fail_file(t);
    t->cr_lf = first.cr_lf;
    t->rows = rows;
    t->own = t->restored ? CLQ_MIN(t->own, rows) : 0;
    t->bytes = 0;
    if (text[end - 1] == '\n') return CLQ_OK;
    return fputs(t->cr_lf ? "\r\n" : "\n", t->file) < 0 || fflush(t->file) != 0 ? fail_file(t) : CLQ_OK;
}

static clq_status start_table(table *t) {
    clq_text line = {0};
    if (t->restored && (t->rows > 0 || t->bytes > 0))
        clq_log(CLQ_LOG_WARNING, "%s %s: lines of earlier epochs are missing", csv, t->path);
    t->rows = t->own = t->bytes = 0;
    t->cr_lf = false;
    clq_text_add(&line, "%s", t->names);
    const clq_status status = write_line(t, &line);
    clq_free(line.data);
    return status;
}

/* Reads the text of the file. A pipe, a device and an empty file have none: NULL. The caller frees *text. */
static clq_status read_table(const table *t, void **text, size_t *bytes) {
    enum { BYTES_MOST = 1 << 30 };
    struct stat facts;
    *text = NULL;
    *bytes = 0;
    if (fstat(fileno(t->file), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size == 0) return CLQ_OK;
    const clq_status status = clq_file_read(t->path, BYTES_MOST, text, bytes);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "%s", csv);
}

/* Called before the first line. A table that goes on loses the lines that a restored state does not know; any other
 * begins anew. */
static clq_status begin_table(table *t) {
    void *text = NULL;
    size_t bytes = 0;
    if (goes_on(t)) CLQ_TRY(read_table(t, &text, &bytes));
    if (!goes_on(t) && ftruncate(fileno(t->file), 0) != 0 && errno != EINVAL) return fail_file(t);
    const clq_status status = bytes > 0 ? keep_rows(t, text, bytes) : start_table(t);
    clq_free(text);
    CLQ_TRY(status);
    clq_free(t->names);
    t->names = NULL;
    return CLQ_OK;
}

/* Refuses other columns before anything is trained. The file stays as it is until there is a line for it. But the rows
 * that are there are counted already, since a state may be saved before the first line. */
static clq_status check_table(table *t) {
    void *text;
    size_t bytes, behind;
    piece first;
    if (!goes_on(t)) t->rows = t->own = t->bytes = 0; /* what checkpoints save until there is a line */
    if (!goes_on(t)) return CLQ_OK;
    CLQ_TRY(read_table(t, &text, &bytes));
    clq_status status = CLQ_OK;
    if (bytes > 0 && !has_names(text, bytes, t->names, &behind, &first))
        status = refuse_columns(t);
    else if (bytes > 0 && (!t->restored || t->bytes > 0)) {
        (void)end_of_rows(t, text, bytes, behind, columns(t->names, strlen(t->names)), &t->rows);
        t->own = t->bytes = 0;
    }
    clq_free(text);
    return status;
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
        return CLQ_ERROR_MEMORY;
    }
    t->names = names.data;
    return check_table(t);
}

static clq_status on_epoch(void *context, clq_trainer *trainer, const clq_epoch_info *info) {
    table *t = context;
    clq_text line = {0};
    if (t->names) CLQ_TRY(begin_table(t));
    clq_text_add(&line, "%llu", (unsigned long long)info->epoch);
    const unsigned metrics = info->train.metrics.count;
    add_values(&line, &info->train, metrics);
    if (t->validated) add_values(&line, &info->validation, metrics);
    clq_text_add(&line, ",%.9g", clq_trainer_learning_rate(trainer));
    clq_status status = write_line(t, &line);
    clq_free(line.data);
    if (status != CLQ_OK) return status;
    t->rows++;
    t->own++;
    t->next = info->epoch + 1;
    return CLQ_OK;
}

static clq_status on_end(void *context, clq_trainer *trainer, clq_status status) {
    table *t = context;
    (void)trainer;
    (void)status;
    t->restored = false;
    return CLQ_OK;
}

static clq_status save(void *context, char *text, size_t bytes) {
    const table *t = context;
    return clq_state_write(csv,
                           json_pack("{s:I, s:I, s:I}", "rows", (json_int_t)t->rows, "own", (json_int_t)t->own, "next",
                                     (json_int_t)t->next),
                           text, bytes);
}

static clq_status restore(void *context, const char *text) {
    table *t = context, found = *t;
    json_t *state;
    CLQ_TRY(clq_state_read(csv, text, &state));
    clq_status status = CLQ_OK;
    found.rows = found.own = found.next = found.bytes = 0;
    if (json_object_get(state, "bytes")) {
        status = clq_state_count(csv, state, "bytes", &found.bytes);
    } else {
        CLQ_TRY_OR(done, status, clq_state_count(csv, state, "rows", &found.rows));
        CLQ_TRY_OR(done, status, clq_state_count(csv, state, "own", &found.own));
        CLQ_TRY_OR(done, status, clq_state_count(csv, state, "next", &found.next));
    }
done:
    json_decref(state);
    CLQ_TRY(status);
    found.restored = true;
    *t = found;
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
    if (!t) return CLQ_ERROR_MEMORY;
    clq_status status = CLQ_ERROR_MEMORY;
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
