/* clique-keras-files read FILE TO.safetensors, and write FROM.safetensors FILE. On its output stands "ok", or one line
 * that says what is wrong with the file. */
#include "keras/keras.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

void keras_release(keras_content *content) {
    for (size_t i = 0; i < content->count; i++) {
        clq_free((void *)(uintptr_t)content->tensors[i].name);
        clq_free((void *)(uintptr_t)content->tensors[i].data);
    }
    for (size_t i = 0; i < 2 * content->metadata_count; i++) clq_free(content->metadata[i]);
    clq_free(content->tensors);
    clq_free(content->metadata);
}

clq_status keras_note(keras_content *content, const char *key, const char *value, size_t value_bytes) {
    char **grown =
        clq_grow(content->metadata, content->metadata_count, &content->metadata_capacity, 64, 2 * sizeof *grown);
    if (!grown) return CLQ_ERROR_MEMORY;
    content->metadata = grown;
    char *copy = clq_alloc(value_bytes + 1, 1), *name = clq_strdup(key);
    if (copy) memcpy(copy, value, value_bytes);
    grown[2 * content->metadata_count] = name;
    grown[2 * content->metadata_count + 1] = copy;
    content->metadata_count++;
    if (!copy || !name) return CLQ_ERROR_MEMORY;
    return clq_is_utf8(name) && clq_is_utf8(copy) ? CLQ_OK : clq_fail(CLQ_ERROR_FORMAT, "'%.200s' is no UTF-8", key);
}

/* ---- reading ---- */

static clq_status read_weights(const char *path, void *image, size_t bytes, keras_content *to) {
    CLQ_TRY(keras_hdf5_read(path, image, bytes, to));
    return to->count ? CLQ_OK : clq_fail(CLQ_ERROR_FORMAT, "%s: it holds no weights", path);
}

static clq_status read_archive(const char *path, keras_content *to) {
    void *config = NULL, *weights = NULL;
    size_t config_bytes = 0, bytes = 0;
    clq_status status = keras_archive_read(path, "config.json", &config, &config_bytes);
    if (status == CLQ_OK && !config)
        status = clq_fail(CLQ_ERROR_FORMAT, "%s: a zip archive without a config.json is no .keras file", path);
    if (status == CLQ_OK && memchr(config, '\0', config_bytes))
        status = clq_fail(CLQ_ERROR_FORMAT, "%s: config.json is no text", path);
    if (status == CLQ_OK) status = keras_note(to, "keras_config", config, config_bytes);
    if (status == CLQ_OK) status = keras_archive_read(path, "model.weights.h5", &weights, &bytes);
    if (status == CLQ_OK && !weights)
        status =
            clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: the archive has no model.weights.h5; other forms are not read", path);
    if (status == CLQ_OK) status = keras_hdf5_read(path, weights, bytes, to);
    clq_free(weights);
    clq_free(config);
    return status;
}

static clq_status read_any(const char *path, keras_content *to) {
    char begin[4] = "";
    clq_file file;
    CLQ_TRY(clq_file_open(path, KERAS_BYTES_MAX, &file));
    void *image = NULL;
    size_t bytes;
    clq_status status = clq_file_get(&file, 0, begin, CLQ_MIN(sizeof begin, file.bytes));
    const bool is_archive = status == CLQ_OK && keras_is_archive(begin, CLQ_MIN(sizeof begin, file.bytes));
    if (status == CLQ_OK && !is_archive) status = clq_file_get_all(&file, &image, &bytes);
    clq_file_close(&file);
    if (status == CLQ_OK) status = is_archive ? read_archive(path, to) : read_weights(path, image, bytes, to);
    clq_free(image);
    return status;
}

static clq_status read_file(const char *path, const char *to) {
    keras_content content = {0};
    clq_status status = read_any(path, &content);
    if (status == CLQ_OK)
        status = clq_safetensors_write(to, content.tensors, content.count, (const char *const *)content.metadata,
                                       content.metadata_count);
    keras_release(&content);
    return status;
}

/* ---- writing ---- */

static clq_status write_bytes(const char *path, const void *data, size_t bytes) {
    clq_file_writer *writer;
    CLQ_TRY(clq_file_writer_open(path, &writer));
    (void)clq_file_writer_put(writer, data, bytes);
    return clq_file_writer_commit(writer); /* which fails if the put has */
}

static clq_status write_file(const char *from, const char *path) {
    static const char metadata[] = "{\"keras_version\": \"3.0.0\", \"date_saved\": \"\"}";
    clq_safetensors *file;
    void *weights = NULL;
    size_t bytes = 0;
    CLQ_TRY(clq_safetensors_open(from, &file));
    const char *config = clq_safetensors_metadata(file, "keras_config");
    clq_status status = keras_hdf5_write(path, file, &weights, &bytes);
    if (status == CLQ_OK && config) {
        const keras_member members[] = {{"metadata.json", metadata, sizeof metadata - 1},
                                        {"config.json", config, strlen(config)},
                                        {"model.weights.h5", weights, bytes}};
        status = keras_archive_write(path, members, CLQ_COUNT_OF(members));
    } else if (status == CLQ_OK) {
        status = write_bytes(path, weights, bytes);
    }
    clq_free(weights);
    clq_safetensors_close(file);
    return status;
}

/* ---- the program ---- */

static void limit(int which, uint64_t most) {
    const struct rlimit asked = {.rlim_cur = (rlim_t)most, .rlim_max = (rlim_t)most};
    (void)setrlimit(which, &asked); /* a system without it goes without it */
}

/* A file decides how much memory and time HDF5 takes: more than its size explains is a damaged one's. */
static void limit_by(const char *path) {
    clq_file file;
    limit(RLIMIT_CORE, 0);
    if (clq_file_open(path, KERAS_BYTES_MAX, &file) != CLQ_OK) return;
    const uint64_t bytes = file.bytes;
    clq_file_close(&file);
    limit(RLIMIT_CPU, 5 + bytes / 10000000); /* HDF5 goes round and round in some damaged files */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which map far more than they use */
    limit(RLIMIT_AS, ((uint64_t)512 << 20) + 8 * bytes);
#endif
}

int main(int argc, char **argv) {
    if (argc != 4 || (strcmp(argv[1], "read") != 0 && strcmp(argv[1], "write") != 0)) {
        fputs("clique-keras-files read FILE TO.safetensors, or write FROM.safetensors FILE: the library starts this "
              "program for .keras and .weights.h5 files\n",
              stderr);
        return 2;
    }
    limit_by(argv[2]);
    const clq_status status = argv[1][0] == 'r' ? read_file(argv[2], argv[3]) : write_file(argv[2], argv[3]);
    if (status == CLQ_OK)
        puts("ok");
    else
        printf("%d %s\n", (int)status, clq_error_detail());
    return status == CLQ_OK && fflush(stdout) == 0 ? 0 : 1;
}
