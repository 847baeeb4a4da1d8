#include "support/formats_seeds.h"

#include "formats/fixtures.h"
#include "formats/formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static unsigned char storage[SEED_MAX][SEED_BYTES_MAX];
static seed seeds[SEED_MAX];
static size_t seed_count;

static void demand(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "broken: %s (detail: %s)\n", what, clq_error_detail());
    abort();
}

/* ---- good files ---- */

static void add(const char *name, seed_kind kind, const void *data, size_t bytes) {
    demand(seed_count < SEED_MAX && bytes <= SEED_BYTES_MAX, "a seed too much or too large");
    memcpy(storage[seed_count], data, bytes);
    seeds[seed_count] = (seed){.name = name, .kind = kind, .data = storage[seed_count], .bytes = bytes};
    seed_count++;
}

static size_t compress_gz(const void *data, size_t bytes, unsigned char *out, size_t capacity) {
    z_stream stream = {0};
    demand(deflateInit2(&stream, 9, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflateInit2");
    stream.next_in = (z_const Bytef *)(uintptr_t)data;
    stream.avail_in = (uInt)bytes;
    stream.next_out = out;
    stream.avail_out = (uInt)capacity;
    demand(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
    size_t made = capacity - stream.avail_out;
    deflateEnd(&stream);
    return made;
}

static void add_idx(void) {
    unsigned char images[4 + 12 + 3 * 5 * 4] = {0, 0, 0x08, 3, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 4};
    for (size_t i = 16; i < sizeof(images); i++) images[i] = (unsigned char)(i * 37);
    add("images", SEED_IDX, images, sizeof(images));
    static const unsigned char floats[] = {0, 0, 0x0D, 1, 0, 0, 0, 2, 0x3f, 0xc0, 0, 0, 0xbf, 0x80, 0, 0};
    add("floats", SEED_IDX, floats, sizeof(floats));
    unsigned char packed[512];
    size_t first = compress_gz(images, 40, packed, sizeof(packed));
    size_t second = compress_gz(images + 40, sizeof(images) - 40, packed + first, sizeof(packed) - first);
    add("images in two gzip members", SEED_IDX, packed, first + second);
}

static void add_cifar(void) {
    unsigned char records[2 * 3073];
    for (size_t i = 0; i < sizeof(records); i++) records[i] = (unsigned char)(i * 11);
    records[0] = 3;
    records[3073] = 9;
    add("two records", SEED_CIFAR, records, sizeof(records));
}

size_t seeds_make(const seed **out) {
    static const char json[] =
        "{\"class\": \"Sequential\", \"layers\": [{\"units\": 10, \"rate\": -2.5e-3, \"bias\": true},"
        " [[], {}], null, \"\\u00e9\\\"]}\"]}";
    static const char manifest[] =
        "{\"format\": \"clique-checkpoint\", \"version\": 1, \"step\": 4, \"model\": \"mlp\", \"replicas\": 1,"
        " \"optimizer_slots\": 2, \"tensors\": {\"variables/dense/bias\": \"00ff\"},"
        " \"values\": {\"fit/seconds\": \"0x1.8p-3\", \"callback/csv/0\": \"{\\\"lines\\\":3}\"}, \"xxh3\": \"00\"}";
    if (seed_count == 0) {
        add_idx();
        add_cifar();
        add("f4", SEED_NPY, npy_f4, sizeof(npy_f4));
        add("Fortran order", SEED_NPY, npy_fortran_big, sizeof(npy_fortran_big));
        add("version 2", SEED_NPY, npy_v2_u1, sizeof(npy_v2_u1));
        add("version 3", SEED_NPY, npy_v3_bool, sizeof(npy_v3_bool));
        add("scalar", SEED_NPY, npy_scalar, sizeof(npy_scalar));
        add("five tensors", SEED_SAFETENSORS, safetensors_file, sizeof(safetensors_file));
        add("a model", SEED_JSON, json, sizeof(json) - 1);
        add("a checkpoint's manifest", SEED_JSON, manifest, sizeof(manifest) - 1);
    }
    *out = seeds;
    return seed_count;
}

/* ---- all readers ---- */

static volatile unsigned sum; /* so that touching is not optimised away */

static void touch(const void *data, size_t bytes) {
    const unsigned char *next = data;
    for (size_t i = 0; i < bytes; i++) sum += next[i];
}

static bool failed_well(clq_status status) {
    demand(status > CLQ_OK && status < CLQ_STATUS_COUNT, "no status");
    demand(*clq_error_detail() != '\0', "a failure without a detail");
    return false;
}

static void check_array(const clq_array *array) {
    size_t count = 1;
    demand(array->rank <= CLQ_ARRAY_DIMS_MAX, "rank");
    for (unsigned i = 0; i < array->rank; i++) count *= array->dims[i];
    demand(array->count == count && (uintptr_t)array->data % 64 == 0, "an array that contradicts itself");
    touch(array->data, count * clq_dtype_bytes(array->dtype));
}

static bool read_array(clq_status (*reader)(const char *, clq_array *), const char *path) {
    clq_array array = {.rank = 77};
    clq_status status = reader(path, &array);
    if (status != CLQ_OK) {
        demand(array.rank == 77 && !array.data, "an output of a failed call");
        return failed_well(status);
    }
    check_array(&array);
    clq_array_release(&array);
    return true;
}

static bool read_cifar(const char *path) {
    clq_array images = {0}, labels = {0};
    clq_status status = clq_cifar10_read(&path, 1, &images, &labels);
    if (status != CLQ_OK) {
        demand(!images.data && !labels.data, "an output of a failed call");
        return failed_well(status);
    }
    check_array(&images);
    check_array(&labels);
    demand(images.dims[0] == labels.count && images.count == labels.count * 3072, "images and labels");
    clq_array_release(&images);
    clq_array_release(&labels);
    return true;
}

static bool read_safetensors(const char *path) {
    clq_safetensors *file = NULL;
    clq_status status = clq_safetensors_open(path, &file);
    if (status != CLQ_OK) {
        demand(!file, "an output of a failed call");
        return failed_well(status);
    }
    for (size_t i = 0; i < clq_safetensors_count(file); i++) {
        const clq_safetensors_entry *entry = clq_safetensors_at(file, i);
        demand(entry->bytes == entry->count * clq_dtype_bytes(entry->dtype), "an entry that contradicts itself");
        demand(clq_safetensors_find(file, entry->name) == entry, "an entry that is not found");
        touch(entry->data, entry->bytes);
    }
    demand(!clq_safetensors_at(file, clq_safetensors_count(file)), "an entry too many");
    clq_safetensors_metadata(file, "format");
    clq_safetensors_close(file);
    return true;
}

static bool read_json(const char *path) {
    json_t *json = NULL;
    clq_status status = clq_json_read(path, 1 << 20, 8, &json);
    if (status != CLQ_OK) {
        demand(!json, "an output of a failed call");
        return failed_well(status);
    }
    demand(json_is_object(json) || json_is_array(json), "neither object nor array");
    json_decref(json);
    return true;
}

bool seeds_read(seed_kind kind, const char *path) {
    clq_fail(CLQ_OK, "%s", "");
    switch (kind) {
    case SEED_IDX: return read_array(clq_idx_read, path);
    case SEED_NPY: return read_array(clq_npy_read, path);
    case SEED_CIFAR: return read_cifar(path);
    case SEED_SAFETENSORS: return read_safetensors(path);
    case SEED_JSON: return read_json(path);
    case SEED_KINDS: break;
    }
    abort();
}
