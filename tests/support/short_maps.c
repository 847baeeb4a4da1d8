/* Gives Intel's OpenCL runtime a short list of the process's mappings. tests/run preloads this; without it the same
 * tests are slower.
 *
 * Each time it loads a program, the runtime (2026.2) looks for the folder of its own library, to read its configuration
 * file there. It finds the folder in /proc/self/maps. A process that has loaded many kernels has thousands of mappings.
 * Linux writes the whole list when the file is read, and again when it is closed before its end. In
 * interop/single_layers, this took half of the time. Here the runtime reads a copy that has only the lines of its own
 * library. A copy is enough, because these lines do not change while the library is loaded. */
#define _GNU_SOURCE 1 /* RTLD_NEXT, dladdr; NOLINT(bugprone-reserved-identifier) */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Compared without its folder: dladdr's path may go through links, and the paths of the list do not. */
#define LIBRARY "/libintelocl.so"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_read;
static char *lines; /* the runtime's; set once, and never freed; NULL: they could not be read */
static size_t bytes;

static void read_lines(void) {
    char *line = NULL;
    size_t room = 0;
    FILE *maps = REAL(fopen)("/proc/self/maps", "re"), *copy = maps ? open_memstream(&lines, &bytes) : NULL;
    while (copy && getline(&line, &room, maps) > 0)
        if (strstr(line, LIBRARY)) (void)fputs(line, copy);
    free(line);
    if (copy) (void)fclose(copy);
    if (maps) (void)fclose(maps);
    if (bytes > 0) return;
    free(lines);
    lines = NULL;
}

/* Returns NULL if the file is to be opened as it is. */
static FILE *open_short(const char *path, const void *caller) {
    Dl_info of;
    FILE *file = NULL;
    if (strcmp(path, "/proc/self/maps") != 0 || !dladdr(caller, &of) || !of.dli_fname || !strstr(of.dli_fname, LIBRARY))
        return NULL;
    (void)pthread_mutex_lock(&lock);
    if (!is_read) read_lines();
    is_read = true;
    if (lines) file = fmemopen(lines, bytes, "r");
    (void)pthread_mutex_unlock(&lock);
    return file;
}

EXPORT FILE *fopen(const char *path, const char *mode) {
    FILE *file = open_short(path, __builtin_return_address(0));
    return file ? file : REAL(fopen)(path, mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode) {
    FILE *file = open_short(path, __builtin_return_address(0));
    return file ? file : REAL(fopen64)(path, mode);
}
