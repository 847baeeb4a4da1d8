/* Gives Intel's OpenCL runtime a short list of the process's mappings. tests/run preloads this; without it the same
 * tests are slower.
 *
 * For each program, the runtime (2026.2) looks for the folder from which it was loaded, to read its configuration file
 * there. It finds the folder in /proc/self/maps. A process that has loaded many kernels has thousands of mappings, and
 * the kernel of Linux writes all of them out twice: once for the reader, and once more when the file is closed before
 * its end. In interop/single_layers, this took half of the time. Here the runtime reads a copy that has only its own
 * lines, because these do not change. */
#define _GNU_SOURCE 1 /* RTLD_NEXT, dladdr; NOLINT(bugprone-reserved-identifier) */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *lines; /* of the runtime; written once, and never freed */
static size_t bytes;

/* Returns NULL if nothing could be read. */
static char *read_lines(const char *library) {
    char *text = NULL, *line = NULL;
    size_t room = 0;
    FILE *maps = REAL(fopen)("/proc/self/maps", "re"), *copy = maps ? open_memstream(&text, &bytes) : NULL;
    while (copy && getline(&line, &room, maps) > 0)
        if (strstr(line, library)) (void)fputs(line, copy);
    free(line);
    if (copy) (void)fclose(copy);
    if (maps) (void)fclose(maps);
    return bytes > 0 ? text : NULL;
}

/* Returns NULL if the file is to be opened as it is. */
static FILE *open_short(const char *path, const void *caller) {
    Dl_info of;
    if (strcmp(path, "/proc/self/maps") != 0 || !dladdr(caller, &of) || !of.dli_fname ||
        !strstr(of.dli_fname, "/libintelocl.so"))
        return NULL;
    (void)pthread_mutex_lock(&lock);
    if (!lines) lines = read_lines(of.dli_fname);
    FILE *file = lines ? fmemopen(lines, bytes, "r") : NULL;
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
