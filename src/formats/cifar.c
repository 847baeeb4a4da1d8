#include "formats/private.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { SIDE = 32, PIXELS = SIDE * SIDE, CHANNELS = 3, RECORD = 1 + CHANNELS * PIXELS, CLASSES = 10 };

static clq_status count_records(const char *path, size_t *out) {
    struct stat info;
    if (stat(path, &info) != 0)
        return clq_fail(errno == ENOENT || errno == ENOTDIR ? CLQ_ERROR_NOT_FOUND : CLQ_ERROR_READ, "%s: %s", path,
                        strerror(errno));
    if (!S_ISREG(info.st_mode)) return clq_fail(CLQ_ERROR_READ, "%s: not a regular file", path);
    if (info.st_size == 0 || info.st_size % RECORD)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: no CIFAR-10 file: %jd bytes are not a number of records of %d", path,
                        (intmax_t)info.st_size, RECORD);
    *out = (size_t)(info.st_size / RECORD);
    return CLQ_OK;
}

/* Rearranges 3 planes to (32, 32, 3). */
static void interleave(const unsigned char *planes, unsigned char *image) {
    for (size_t pixel = 0; pixel < PIXELS; pixel++)
        for (size_t channel = 0; channel < CHANNELS; channel++)
            image[pixel * CHANNELS + channel] = planes[channel * PIXELS + pixel];
}

static clq_status read_records(const char *path, size_t records, unsigned char *images, unsigned char *labels) {
    void *data;
    size_t bytes;
    CLQ_TRY(clq_file_read(path, records * RECORD, &data, &bytes));
    clq_status status = CLQ_OK;
    if (bytes != records * RECORD) status = clq_fail(CLQ_ERROR_READ, "%s: became shorter while it was read", path);
    const unsigned char *record = data;
    for (size_t i = 0; i < records && status == CLQ_OK; i++, record += RECORD) {
        if (record[0] >= CLASSES)
            status = clq_fail(CLQ_ERROR_FORMAT, "%s: label %u in record %zu (offset %zu); CIFAR-10 has 0 to 9", path,
                              record[0], i, i * RECORD);
        labels[i] = record[0];
        interleave(record + 1, images + i * CHANNELS * PIXELS);
    }
    clq_free(data);
    return status;
}

clq_status clq_cifar10_read(const char *const *paths, size_t count, clq_array *images, clq_array *labels) {
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t records = 0;
        CLQ_TRY(count_records(paths[i], &records));
        if (!clq_add_size(total, records, &total)) return clq_fail(CLQ_ERROR_FORMAT, "%s: too large", paths[i]);
    }
    clq_array all = {0}, all_labels = {0};
    clq_status status;
    CLQ_TRY_OR(fail, status, clq_array_create(CLQ_U8, 4, (size_t[]){total, SIDE, SIDE, CHANNELS}, &all));
    CLQ_TRY_OR(fail, status, clq_array_create(CLQ_U8, 1, &total, &all_labels));
    size_t done = 0;
    for (size_t i = 0; i < count; i++) {
        size_t records = 0;
        CLQ_TRY_OR(fail, status, count_records(paths[i], &records));
        if (records > total - done) {
            status = clq_fail(CLQ_ERROR_READ, "%s: became longer while it was read", paths[i]);
            goto fail;
        }
        CLQ_TRY_OR(fail, status,
                   read_records(paths[i], records, (unsigned char *)all.data + done * CHANNELS * PIXELS,
                                (unsigned char *)all_labels.data + done));
        done += records;
    }
    if (done != total) {
        status = clq_fail(CLQ_ERROR_READ, "%s: the files became shorter while they were read", paths[0]);
        goto fail;
    }
    *images = all;
    *labels = all_labels;
    return CLQ_OK;
fail:
    clq_array_release(&all);
    clq_array_release(&all_labels);
    return status;
}
