/* .keras files as zip archives, by libzip. */
#include "keras/keras.h"

#include <string.h>
#include <zip.h>

bool keras_is_archive(const void *bytes, size_t count) { return count >= 4 && memcmp(bytes, "PK\3\4", 4) == 0; }

static clq_status fail_open(const char *path, int code, clq_status status) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    (void)clq_fail(status, "%s: %s", path, zip_error_strerror(&error));
    zip_error_fini(&error);
    return status;
}

/* The member's bytes, as long as the archive says, and no longer than what is stored explains. */
static clq_status read_member(const char *path, zip_t *archive, const zip_stat_t *info, void **out) {
    if (info->size > KERAS_BYTES_MAX || info->size / 1032 > info->comp_size)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: %.60s: %ju bytes out of %ju: the archive is damaged", path, info->name,
                        (uintmax_t)info->size, (uintmax_t)info->comp_size);
    zip_file_t *file = zip_fopen_index(archive, info->index, 0);
    if (!file) return clq_fail(CLQ_ERROR_FORMAT, "%s: %.60s: %s", path, info->name, zip_strerror(archive));
    char *data = clq_alloc_aligned(64, (size_t)info->size + 1);
    clq_status status = data ? CLQ_OK : CLQ_ERROR_MEMORY;
    size_t done = 0;
    while (status == CLQ_OK && done < info->size) {
        const zip_int64_t got = zip_fread(file, data + done, info->size - done);
        if (got <= 0)
            status = clq_fail(CLQ_ERROR_FORMAT, "%s: %.60s: %s", path, info->name,
                              got < 0 ? zip_file_strerror(file) : "it ends early");
        else
            done += (size_t)got;
    }
    char more; /* which also compares the checksum */
    if (status == CLQ_OK && zip_fread(file, &more, 1) != 0)
        status = clq_fail(CLQ_ERROR_FORMAT, "%s: %.60s: %s", path, info->name, zip_file_strerror(file));
    (void)zip_fclose(file);
    if (status == CLQ_OK)
        *out = data;
    else
        clq_free(data);
    return status;
}

clq_status keras_archive_read(const char *path, const char *member, void **out, size_t *bytes) {
    int code = 0;
    zip_stat_t info;
    zip_t *archive = zip_open(path, ZIP_RDONLY, &code);
    if (!archive) return fail_open(path, code, CLQ_ERROR_FORMAT);
    *out = NULL;
    clq_status status = CLQ_OK;
    if (zip_stat(archive, member, 0, &info) == 0) {
        const bool known = (info.valid & (ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_INDEX | ZIP_STAT_NAME)) ==
                           (ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_INDEX | ZIP_STAT_NAME);
        status = known ? read_member(path, archive, &info, out)
                       : clq_fail(CLQ_ERROR_FORMAT, "%s: %s: the archive does not say how long it is", path, member);
        if (status == CLQ_OK) *bytes = (size_t)info.size;
    }
    zip_discard(archive);
    return status;
}

/* ---- writing ---- */

enum { DOS_EPOCH = 315532800 }; /* 1980-01-01: what is written does not depend on the clock */

static bool add_member(zip_t *archive, const keras_member *member) {
    zip_source_t *source = zip_source_buffer(archive, member->data, member->bytes, 0);
    if (!source) return false;
    const zip_int64_t index = zip_file_add(archive, member->name, source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
        zip_source_free(source);
        return false;
    }
    return zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0) == 0 &&
           zip_file_set_mtime(archive, (zip_uint64_t)index, DOS_EPOCH, 0) == 0;
}

/* The archive in memory, to a file that appears whole. */
static clq_status put_source(const char *path, zip_source_t *whole) {
    static char block[1 << 16];
    clq_file_writer *writer;
    CLQ_TRY(clq_file_writer_open(path, &writer));
    if (zip_source_open(whole) != 0) {
        clq_file_writer_cancel(writer);
        return clq_fail(CLQ_ERROR_WRITE, "%s: %s", path, zip_error_strerror(zip_source_error(whole)));
    }
    zip_int64_t got;
    while ((got = zip_source_read(whole, block, sizeof block)) > 0)
        (void)clq_file_writer_put(writer, block, (size_t)got);
    (void)zip_source_close(whole);
    if (got == 0) return clq_file_writer_commit(writer); /* which fails if a put has */
    clq_file_writer_cancel(writer);
    return clq_fail(CLQ_ERROR_WRITE, "%s: %s", path, zip_error_strerror(zip_source_error(whole)));
}

clq_status keras_archive_write(const char *path, const keras_member *members, size_t count) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *whole = zip_source_buffer_create(NULL, 0, 0, &error);
    zip_t *archive = whole ? zip_open_from_source(whole, ZIP_TRUNCATE, &error) : NULL;
    if (!archive) {
        (void)clq_fail(CLQ_ERROR_WRITE, "%s: %s", path, zip_error_strerror(&error));
        if (whole) zip_source_free(whole);
        zip_error_fini(&error);
        return CLQ_ERROR_WRITE;
    }
    zip_source_keep(whole);
    bool good = true;
    for (size_t i = 0; i < count && good; i++) good = add_member(archive, &members[i]);
    good = good && zip_close(archive) == 0;
    clq_status status = CLQ_OK;
    if (!good) {
        status = clq_fail(CLQ_ERROR_WRITE, "%s: %s", path, zip_strerror(archive));
        zip_discard(archive);
    } else {
        status = put_source(path, whole);
    }
    zip_source_free(whole);
    return status;
}
