/* Executes the command again in the same process. The OpenCL loader reads its environment once: if the one driver that
 * it opened is not enough, only a new program image can open the others. */
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

enum { TEXT_MAX = 1 << 22 }; /* of arguments, and of the environment: more than systems take */

/* The texts of a file of /proc, each ended by a zero byte, as the list that execve takes, with `more`, which may be
 * NULL, at its end. The caller frees the list and its first text, which the others lie behind. */
static char **read_texts(const char *path, const char *more) {
    FILE *file = fopen(path, "re");
    char *text = file ? clq_alloc(TEXT_MAX, 1) : NULL;
    size_t bytes = text ? fread(text, 1, TEXT_MAX - 1, file) : 0, count = 0;
    if (file) (void)fclose(file);
    for (size_t i = 0; i < bytes; i++) count += text[i] == '\0';
    char **list = bytes > 0 && bytes < TEXT_MAX - 1 ? clq_alloc(count + 2, sizeof *list) : NULL;
    if (!list) {
        clq_free(text);
        return NULL;
    }
    size_t at = 0;
    for (char *next = text; at < count; next += strlen(next) + 1) list[at++] = next;
    list[at] = (char *)(uintptr_t)more;
    return list;
}

static void free_texts(char **list) {
    if (list) clq_free(list[0]);
    clq_free(list);
}

clq_status clq_restart_with_all_drivers(clq_status status) {
    static const char once[] = "CLIQUE_ALL_DRIVERS=1"; /* so that the new one does not come here again */
    clq_error error;
    char program[4096];
    clq_error_take(status, &error);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    char **arguments = read_texts("/proc/self/cmdline", NULL), **environment = read_texts("/proc/self/environ", once);
    if (length > 0 && arguments && environment) {
        program[length] = '\0';
        clq_log(CLQ_LOG_WARNING, "%s; starting again with all drivers", error.detail);
        (void)fflush(NULL);
        (void)execve(program, arguments, environment);
    }
    free_texts(arguments);
    free_texts(environment);
    return clq_error_raise(&error);
}
