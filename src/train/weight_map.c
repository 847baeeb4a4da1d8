/* Name maps: text files that say which tensor of a file is which variable. A line is "theirs -> ours", and may go on
 * with words for the layout of the values. Each side may have one '*', which stands for the same characters on both.
 * "theirs ->" leaves tensors out. '#' begins a remark. */
#include "train/weight_files.h"

#include <string.h>

enum { MAP_BYTES_MAX = 16 << 20 };

/* Layouts by the letters of PyTorch's documentation: o and i are output and input channels; d, h and w are depth,
 * height and width. Variables have Keras's order of axes. */
static const clq_axis_order orders[] = {
    {"transposed", 2, {1, 0}},     /* (out, in) to (in, out) */
    {"oihw", 4, {2, 3, 1, 0}},     /* Conv2d */
    {"iohw", 4, {2, 3, 1, 0}},     /* ConvTranspose2d, whose kernel is (h, w, out, in) here */
    {"oiw", 3, {2, 1, 0}},         /* Conv1d, ConvTranspose1d */
    {"oidhw", 5, {2, 3, 4, 1, 0}}, /* Conv3d */
};

static clq_status refuse_line(const clq_weight_map *map, size_t number, const char *what) {
    return clq_fail(CLQ_ERROR_FORMAT, "%s: line %zu: %s", map->path, number, what);
}

static clq_status refuse_word(const clq_weight_map *map, const char *word, size_t number) {
    clq_text known = {0};
    for (size_t i = 0; i < CLQ_COUNT_OF(orders); i++) clq_text_add(&known, "%s, ", orders[i].word);
    const clq_status status =
        known.failed ? CLQ_ERROR_MEMORY
                     : clq_fail(CLQ_ERROR_FORMAT, "%s: line %zu: '%.40s' is no layout; there are %sreshaped", map->path,
                                number, word, known.data);
    clq_free(known.data);
    return status;
}

static clq_status take_word(const clq_weight_map *map, const char *word, clq_map_line *line) {
    if (strcmp(word, "reshaped") == 0) return line->reshaped = true, CLQ_OK;
    size_t i = 0;
    while (i < CLQ_COUNT_OF(orders) && strcmp(orders[i].word, word) != 0) i++;
    if (i == CLQ_COUNT_OF(orders)) return refuse_word(map, word, line->number);
    if (line->order) return refuse_line(map, line->number, "axes are turned once: two layouts say how");
    line->order = &orders[i];
    return CLQ_OK;
}

static size_t stars(const char *text) {
    size_t count = 0;
    for (; *text; text++) count += *text == '*';
    return count;
}

/* Takes the words of a line: theirs, an arrow, ours, layouts. */
static clq_status take_words(const clq_weight_map *map, char *text, clq_map_line *line) {
    size_t place = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, " \t\r", &rest); word; word = strtok_r(NULL, " \t\r", &rest), place++) {
        if (place == 0) line->theirs = clq_strdup(word);
        if (place == 1 && strcmp(word, "->") != 0) return refuse_line(map, line->number, "expected 'theirs -> ours'");
        if (place == 2) line->ours = clq_strdup(word);
        if ((place == 0 && !line->theirs) || (place == 2 && !line->ours)) return CLQ_ERROR_MEMORY;
        if (place > 2) CLQ_TRY(take_word(map, word, line));
    }
    if (place < 2) return refuse_line(map, line->number, "expected 'theirs -> ours', or 'theirs ->'");
    if (stars(line->theirs) > 1 || (line->ours && stars(line->ours) > 1))
        return refuse_line(map, line->number, "a name may have one '*'");
    if (line->ours && stars(line->ours) > stars(line->theirs))
        return refuse_line(map, line->number, "a '*' on the right stands for what the one on the left stands for");
    return CLQ_OK;
}

static clq_status take_line(clq_weight_map *map, char *text, size_t number) {
    text[strcspn(text, "#")] = '\0';
    if (text[strspn(text, " \t\r")] == '\0') return CLQ_OK;
    clq_map_line *grown = clq_grow(map->lines, map->count, &map->capacity, 16, sizeof *grown);
    if (!grown) return CLQ_ERROR_MEMORY;
    map->lines = grown;
    clq_map_line *line = &map->lines[map->count++];
    *line = (clq_map_line){.number = number};
    return take_words(map, text, line);
}

clq_status clq_weight_map_read(const char *path, clq_weight_map *out) {
    void *text;
    size_t bytes, number = 0;
    out->path = path;
    CLQ_TRY(clq_file_read(path, MAP_BYTES_MAX, &text, &bytes));
    clq_status status = CLQ_OK;
    if (memchr(text, '\0', bytes)) status = clq_fail(CLQ_ERROR_FORMAT, "%s: no text file", path);
    char *begin = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? (char *)text + 3 : text; /* after a UTF-8 BOM */
    for (char *at = begin, *line; status == CLQ_OK && (line = strsep(&at, "\n"));)
        status = take_line(out, line, ++number);
    clq_free(text);
    if (status == CLQ_OK && out->count == 0) return clq_fail(CLQ_ERROR_FORMAT, "%s: no line names a tensor", path);
    return status;
}

void clq_weight_map_release(clq_weight_map *map) {
    for (size_t i = 0; i < map->count; i++) {
        clq_free(map->lines[i].theirs);
        clq_free(map->lines[i].ours);
    }
    clq_free(map->lines);
}

/* What the pattern's '*' stands for in a name, and its length; NULL: the name does not match. */
static const char *find_star(const char *pattern, const char *name, size_t *length) {
    const size_t before = strcspn(pattern, "*"), all = strlen(name);
    *length = 0;
    if (pattern[before] == '\0') return strcmp(pattern, name) == 0 ? name + all : NULL;
    const char *behind = pattern + before + 1;
    const size_t tail = strlen(behind);
    if (all < before + tail || strncmp(pattern, name, before) != 0 || strcmp(behind, name + all - tail) != 0)
        return NULL;
    *length = all - before - tail;
    return name + before;
}

bool clq_map_line_names(const clq_map_line *line, const char *theirs) {
    size_t length;
    return find_star(line->theirs, theirs, &length) != NULL;
}

clq_status clq_weight_map_find(const clq_weight_map *map, const char *theirs, const clq_map_line **line, char **ours) {
    *line = NULL;
    *ours = NULL;
    for (size_t i = 0; i < map->count && !*line; i++) {
        const clq_map_line *at = &map->lines[i];
        size_t length;
        const char *star = find_star(at->theirs, theirs, &length);
        if (!star) continue;
        *line = at;
        if (!at->ours) continue;
        const int before = (int)strcspn(at->ours, "*");
        *ours = at->ours[before]
                    ? clq_strprintf("%.*s%.*s%s", before, at->ours, (int)length, star, at->ours + before + 1)
                    : clq_strdup(at->ours);
        if (!*ours) return CLQ_ERROR_MEMORY;
    }
    return CLQ_OK;
}
