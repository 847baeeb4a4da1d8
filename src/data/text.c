/* Texts: the bytes of a file as tokens. A sample is a window of tokens. Its labels are the bytes that follow each of
 * its bytes. Windows lie side by side. If the set is shuffled, the windows begin at another byte in each epoch
 * (rows.c), so that a model sees each byte at every place. */
#include "data/dataset.h"

#include <stdio.h>
#include <string.h>

enum {
    HELD_BACK = 10, /* the test part is the last of this many equal parts of the text */
    WINDOW_USUAL = 128
};

static const char prefix[] = "text:";

bool clq_dataset_is_text(const char *name) { return strncmp(name, prefix, sizeof prefix - 1) == 0; }
const char *clq_dataset_text_file(const char *name) { return name + sizeof prefix - 1; }

size_t clq_windows(const clq_dataset *d) {
    const size_t windows = d->arrays[0].count / d->window;
    return d->buffer > 0 ? windows - 1 : windows; /* leaves room for any beginning of the first window */
}

clq_status clq_dataset_window(clq_dataset *d, size_t tokens) {
    clq_dataset_info *info = &d->info;
    if (!d->window) return clq_fail(CLQ_ERROR_ARGUMENT, "%s is no text: it has no windows", info->name);
    if (tokens == 0 || tokens > d->arrays[0].count / 2)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "%s has %zu bytes: a window has 1 to %zu, half of them, and %zu were asked for", info->name,
                        d->arrays[0].count, d->arrays[0].count / 2, tokens);
    clq_dataset_start_over(d);
    info->labels[0].least_at = d->least_byte / tokens;
    d->window = tokens;
    for (unsigned i = 0; i < d->feed.count; i++)
        d->feed.arrays[i].bytes = clq_values_bytes(d->feed.arrays[i].dtype, tokens);
    info->shape[0] = info->sample_elements = info->label_elements = info->labels[0].elements = tokens;
    info->label_least_at = info->labels[0].least_at;
    clq_dataset_count(d);
    return CLQ_OK;
}

/* Makes a dataset of the text's bytes [first, first + count), with the bytes that follow them as labels. */
static clq_status cut(const char *text, size_t first, size_t count, const clq_data_origin *origin, clq_dataset **out) {
    clq_array tokens = {0}, behind = {0};
    clq_dataset *data;
    const size_t dims[] = {count, 1};
    clq_status status = clq_array_create(CLQ_U8, 2, dims, &tokens);
    if (status == CLQ_OK) status = clq_array_create(CLQ_U8, 2, dims, &behind);
    if (status == CLQ_OK) {
        memcpy(tokens.data, text + first, count);
        memcpy(behind.data, text + first + 1, count);
        status = clq_dataset_adopt(origin, &tokens, &behind, &data);
    }
    clq_array_release(&tokens);
    clq_array_release(&behind);
    if (status != CLQ_OK) return status;
    data->window = 1;
    data->least_byte = data->info.labels[0].least_at;
    status = clq_dataset_window(data, CLQ_MIN((size_t)WINDOW_USUAL, count / 2));
    if (status == CLQ_OK)
        *out = data;
    else
        clq_dataset_destroy(data);
    return status;
}

clq_status clq_source_of_text_look(clq_dataset_sight *out) {
    *out = (clq_dataset_sight){.classes = UINT8_MAX + 1};
    return CLQ_OK;
}

clq_status clq_source_of_text(const char *path, const char *part, clq_dataset **out) {
    enum { LEAST = 4 * HELD_BACK }; /* so that each part has at least two windows */
    bool test = false;
    void *text;
    size_t bytes;
    CLQ_TRY(clq_part_parse(part, &test));
    if (!*path)
        return clq_fail(CLQ_ERROR_ARGUMENT, "data '%s': the file of the text is missing: %sFILE", prefix, prefix);
    CLQ_TRY(clq_gz_read(path, INT32_MAX, &text, &bytes));
    const size_t held = bytes / HELD_BACK, first = test ? bytes - held : 0;
    char *name = clq_strprintf("%s (%s)", path, part);
    clq_status status = name ? CLQ_OK : CLQ_ERROR_MEMORY;
    const clq_data_origin origin = {.name = name, .samples = path, .labels = path};
    if (status == CLQ_OK && bytes < LEAST)
        status = clq_fail(CLQ_ERROR_FORMAT, "%s: a text of %zu byte%s: at least %d are needed", path, bytes,
                          clq_plural(bytes), LEAST);
    if (status == CLQ_OK) status = cut(text, first, (test ? held : bytes - held) - 1, &origin, out);
    clq_free(name);
    clq_free(text);
    return status;
}
