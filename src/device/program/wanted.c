/* The source of a program that has only some of a file's kernels: a compiler spends its time on every kernel that it is
 * shown, and PoCL once more when it is asked for the program's binary. */
#include "device/internal.h"

#include <ctype.h>
#include <string.h>

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool starts_kernel(const char *line) {
    static const char *const starts[] = {"kernel ", "TILE_KERNEL ", "KERNEL "};
    for (size_t i = 0; i < CLQ_COUNT_OF(starts); i++)
        if (strncmp(line, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

/* The name behind `void`; its length, 0 where there is none. */
static size_t kernel_name(const char *definition, const char **name) {
    const char *at = strstr(definition, "void");
    if (!at) return 0;
    at += strlen("void");
    while (isspace((unsigned char)*at)) at++;
    size_t length = 0;
    while (is_word(at[length])) length++;
    *name = at;
    return length;
}

static const char *line_end(const char *line) {
    const char *end = strchr(line, '\n');
    return end ? end : line + strlen(line);
}

/* Where a definition's last line ends: the first one that ends it on its own line, or a brace in the first column. */
static const char *definition_end(const char *definition) {
    const char *end = line_end(definition);
    if (end > definition && end[-1] == '}') return end;
    for (const char *line = end; *line == '\n';) {
        line++;
        end = line_end(line);
        if (*line == '}') return end;
        line = end;
    }
    return end;
}

const char *clq_next_kernel(const char *at, const char **name, size_t *length, const char **end) {
    for (const char *line = at; *line;) {
        if (starts_kernel(line)) {
            *length = kernel_name(line, name);
            *end = definition_end(line);
            return line;
        }
        line = line_end(line);
        if (*line) line++;
    }
    return NULL;
}

char *clq_wanted_source(const char *text, const char *kernels) {
    char *copy = clq_strdup(text);
    if (!copy || kernels[0] == '\0') return copy;
    const char *name, *end = copy;
    size_t length;
    for (const char *at = copy; (at = clq_next_kernel(at, &name, &length, &end)); at = end) {
        if (clq_list_has(kernels, " ", name, length)) continue;
        for (char *blank = copy + (at - copy); blank < end; blank++) /* messages of compilers keep their lines */
            if (*blank != '\n') *blank = ' ';
    }
    return copy;
}
