/* Executes the command again in the same process. The OpenCL loader reads its environment once: if the one driver that
 * it opened is not enough, only a new program image can open the others. */
#include "cli/cli.h"
#include "cli/program.h"

#include <string.h>
#include <unistd.h>

enum { TEXT_MAX = 1 << 22 }; /* bytes of the arguments, and of the environment: more than systems take */

typedef struct texts {
    char *text, **list;
} texts;

/* Reads the texts of a file of /proc, each ended by a zero byte, as the list that execve takes. more: NULL, or a
 * variable "NAME=VALUE" that is put at the end. It replaces variables of its name, since getenv finds the first. list
 * NULL: the file cannot be read, or memory is out. Caller: free_texts in any case. */
static texts read_texts(const char *path, const char *more) {
    size_t name = more ? strcspn(more, "=") + 1 : 0;
    FILE *file = fopen(path, "re");
    char *text = file ? clq_alloc(TEXT_MAX, 1) : NULL;
    size_t bytes = text ? fread(text, 1, TEXT_MAX - 1, file) : 0, count = 0;
    if (file) (void)fclose(file);
    for (size_t i = 0; i < bytes; i++) count += text[i] == '\0';
    char **list = bytes > 0 && bytes < TEXT_MAX - 1 ? clq_alloc(count + 2, sizeof *list) : NULL;
    size_t at = 0;
    char *next = text;
    for (size_t i = 0; list && i < count; i++, next += strlen(next) + 1)
        if (!more || strncmp(next, more, name) != 0) list[at++] = next;
    if (list) list[at] = (char *)(uintptr_t)more;
    return (texts){text, list};
}

static void free_texts(texts *read) {
    clq_free(read->text);
    clq_free(read->list);
}

/* variable: put into the new environment; NULL: none. */
static clq_status restart(clq_status status, const char *how, const char *variable) {
    clq_error error;
    char program[4096];
    clq_error_take(status, &error);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    texts arguments = read_texts("/proc/self/cmdline", NULL), environment = read_texts("/proc/self/environ", variable);
    if (length > 0 && arguments.list && environment.list) {
        program[length] = '\0';
        clq_log(CLQ_LOG_WARNING, "%s; starting again %s", error.detail, how);
        (void)fflush(NULL);
        clq_interrupts_ignore_again();
        (void)execve(program, arguments.list, environment.list);
    }
    free_texts(&arguments);
    free_texts(&environment);
    return clq_error_raise(&error);
}

clq_status clq_restart_with_all_drivers(clq_status status) {
    /* the variable keeps the new program from coming here again */
    return restart(status, "with all drivers", "CLIQUE_ALL_DRIVERS=1");
}

/* execve ends a driver's threads, as _exit does. */
void clq_end_if_stuck(clq_system *system, bool begun, clq_status status) {
    bool noted;
    clq_system_close_tested(system);
    if (!system || !clq_system_is_stuck(system, &noted)) return;
    if (noted && !begun && status != CLQ_OK) status = restart(status, "with a launch for each of its kernels", NULL);
    const int code = clq_program_end(status);
    (void)fflush(NULL);
    _exit(code);
}
