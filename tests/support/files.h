/* A folder of its own for each test program: files_begin and files_end are cmocka's group setup and teardown. */
#ifndef CLQ_TEST_FILES_H
#define CLQ_TEST_FILES_H

#include "support/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char files_folder[128];

static inline int files_begin(void **state) {
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(files_folder, sizeof(files_folder), "%.80s/clique-test-XXXXXX", parent && *parent ? parent : "/tmp");
    return mkdtemp(files_folder) ? 0 : -1;
}

/* Removes a file, or a folder with all that is in it. */
static inline int files_remove(const char *path) {
    if (remove(path) == 0) return 0;
    DIR *listing = opendir(path);
    if (!listing) return -1;
    for (struct dirent *entry; (entry = readdir(listing));) {
        char inner[1024];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name) < (int)sizeof(inner)) files_remove(inner);
    }
    closedir(listing);
    return remove(path);
}

static inline int files_end(void **state) {
    (void)state;
    return files_remove(files_folder);
}

/* The path of a file in the program's folder. Valid for the next seven calls. */
static inline const char *files_path(const char *name) {
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", files_folder, name);
    return path;
}

static inline const char *files_put(const char *name, const void *data, size_t bytes) {
    const char *path = files_path(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(bytes ? fwrite(data, 1, bytes, file) : 0, bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* Returns the file's content, NUL-terminated. The caller frees it with free(). */
static inline char *files_get(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t capacity = 1 << 20;
    char *data = calloc(1, capacity);
    assert_non_null(data);
    *bytes = fread(data, 1, capacity - 1, file);
    assert_true(feof(file) != 0);
    fclose(file);
    return data;
}

/* How many entries a folder has. */
static inline int files_count(const char *folder) {
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(listing));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(listing);
    return count;
}

#endif
