/* Each allocation of every reader and writer fails, once alone and once with all later ones. This includes the
 * allocations of Jansson and zlib. */
#include "formats/formats.h"
#include "support/files.h"
#include "support/formats_seeds.h"

static void *json_alloc(size_t bytes) { return clq_alloc(bytes, 1); }

static int begin(void **state) {
    json_set_alloc_funcs(json_alloc, clq_free);
    return files_begin(state);
}

typedef struct reading {
    seed_kind kind;
    const char *path;
} reading;

static clq_status read_one(void *context) {
    reading *r = context;
    if (seeds_read(r->kind, r->path)) return CLQ_OK;
    /* Jansson reports some failed allocations as a syntax error. Then it is enough that the failure is clean. */
    bool jansson = r->kind == SEED_JSON || r->kind == SEED_SAFETENSORS;
    return jansson || strstr(clq_error_detail(), "memory") ? CLQ_ERROR_MEMORY : CLQ_ERROR_FORMAT;
}

static void readers(void **state) {
    (void)state;
    const seed *seeds;
    size_t count = seeds_make(&seeds);
    for (size_t i = 0; i < count; i++) {
        reading r = {.kind = seeds[i].kind, .path = files_put("seed", seeds[i].data, seeds[i].bytes)};
        assert_true(walk_allocations(read_one, &r) >= (seeds[i].kind == SEED_JSON ? 20 : 1));
    }
}

static clq_status write_npy(void *path) {
    static float values[6] = {1, 2, 3, 4, 5, 6};
    clq_array array = {.dtype = CLQ_F32, .rank = 2, .dims = {2, 3}, .count = 6, .data = values};
    return clq_npy_write(path, &array);
}

static clq_status write_safetensors(void *path) {
    static float values[6] = {1, 2, 3, 4, 5, 6};
    const clq_safetensors_source tensors[] = {
        {.name = "dense/kernel", .dtype = CLQ_F32, .rank = 2, .dims = {2, 3}, .data = values},
        {.name = "dense/bias", .dtype = CLQ_F32, .rank = 1, .dims = {3}, .data = values},
    };
    return clq_safetensors_write(path, tensors, 2, (const char *[]){"format", "pt", "by", "clique"}, 2);
}

static clq_status write_trace(void *path) {
    clq_trace_writer *writer;
    CLQ_TRY(clq_trace_writer_open(path, &writer));
    const clq_trace_event event = {.scope = "a", .name = "b", .key = "bytes", .value = 1};
    clq_status status = clq_trace_writer_process(writer, 1, "device", "label");
    if (status == CLQ_OK) status = clq_trace_writer_thread(writer, 1, 1, "queue");
    if (status == CLQ_OK) status = clq_trace_writer_put(writer, &event);
    if (status == CLQ_OK) return clq_trace_writer_commit(writer);
    clq_trace_writer_cancel(writer);
    return status;
}

static void writers(void **state) {
    (void)state;
    char folder[256], path[300];
    snprintf(folder, sizeof(folder), "%s", files_path("out"));
    snprintf(path, sizeof(path), "%s/f", folder);
    assert_ok(clq_make_folder(folder));
    assert_true(walk_allocations(write_npy, path) >= 6);
    assert_true(walk_allocations(write_trace, path) >= 20);
    assert_true(walk_allocations(write_safetensors, path) >= 20);
    assert_int_equal(files_count(folder), 1);
    clq_safetensors *file;
    assert_ok(clq_safetensors_open(path, &file));
    assert_int_equal(clq_safetensors_count(file), 2);
    clq_safetensors_close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(readers), cmocka_unit_test(writers)};
    return cmocka_run_group_tests(tests, begin, files_end);
}
