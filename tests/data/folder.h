/* Folders of data files for tests. Each test makes a folder of its own below the build folder. */
#ifndef CLQ_TEST_DATA_FOLDER_H
#define CLQ_TEST_DATA_FOLDER_H

#include "data/data.h"
#include "support/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

typedef struct folder {
    char path[512], file[1024]; /* file: the path that in_folder returned last */
} folder;

static inline folder folder_make(void) {
    folder f;
    const char *below = clq_environment("CLQ_TEST_BINARY");
    snprintf(f.path, sizeof f.path, "%s/data-XXXXXX", below ? below : ".");
    assert_non_null(mkdtemp(f.path));
    return f;
}

static inline const char *in_folder(folder *f, const char *name) {
    snprintf(f->file, sizeof f->file, "%s/%s", f->path, name);
    return f->file;
}

static inline void folder_clear(folder *f) {
    DIR *entries = opendir(f->path);
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries));)
        if (entry->d_name[0] != '.') assert_int_equal(unlink(in_folder(f, entry->d_name)), 0);
    closedir(entries);
}

static inline void folder_remove(folder *f) {
    folder_clear(f);
    assert_int_equal(rmdir(f->path), 0);
}

static inline void put_file(folder *f, const char *name, const void *data, size_t bytes) {
    FILE *file = fopen(in_folder(f, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Writes an IDX file of bytes. Compresses it if the name ends in .gz. */
static inline void put_idx(folder *f, const char *name, unsigned rank, const size_t *dims,
                           const unsigned char *values) {
    unsigned char bytes[4096] = {0, 0, 8, (unsigned char)rank};
    size_t used = 4, count = 1;
    for (unsigned i = 0; i < rank; i++, used += 4) {
        bytes[used + 2] = (unsigned char)(dims[i] >> 8);
        bytes[used + 3] = (unsigned char)dims[i];
        count *= dims[i];
    }
    assert_true(used + count <= sizeof bytes);
    memcpy(bytes + used, values, count);
    size_t length = strlen(name);
    if (length < 3 || strcmp(name + length - 3, ".gz") != 0) {
        put_file(f, name, bytes, used + count);
        return;
    }
    gzFile file = gzopen(in_folder(f, name), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)(used + count)), used + count);
    assert_int_equal(gzclose(file), Z_OK);
}

static inline void put_npy(folder *f, const char *name, clq_dtype dtype, unsigned rank, const size_t *dims,
                           const void *values) {
    clq_array array = {0};
    assert_int_equal(clq_array_create(dtype, rank, dims, &array), CLQ_OK);
    if (array.count) memcpy(array.data, values, array.count * clq_dtype_bytes(dtype));
    assert_int_equal(clq_npy_write(in_folder(f, name), &array), CLQ_OK);
    clq_array_release(&array);
}

#define DIMS(...) ((const size_t[]){__VA_ARGS__})

/* Checks that a call failed with `expected`, and that the error message contains both words. */
static inline void expect_failure(clq_status status, clq_status expected, const char *word, const char *other) {
    if (status != expected)
        fail_msg("expected '%s', got '%s': %s", clq_status_text(expected), clq_status_text(status), clq_error_detail());
    expect_text(clq_error_detail(), word);
    expect_text(clq_error_detail(), other);
}

/* Checks that the folder cannot be opened as a dataset. */
static inline void expect_bad(const folder *f, clq_status expected, const char *word, const char *other) {
    clq_dataset *data = NULL;
    expect_failure(clq_dataset_open(f->path, "train", &data), expected, word, other);
    assert_null(data);
}

#define OK assert_ok

#endif
