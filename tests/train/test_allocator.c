/* A program's own allocator. All memory of a training comes from it and goes back to it, each block by the function
 * that it belongs to. Also tested: when an allocator may be set. */
#include "support/check.h"
#include "support/files.h"
#include "train/train.h"

#include <stdint.h>

/* A header in front of each block: a mark, and the memory from malloc that the block lies in. */
static const uint64_t mark = 0x5eedca11ab1e0001, released = 0xdeadb10cdeadb10c;
typedef struct header {
    uint64_t mark;
    void *whole;
    size_t bytes, alignment;
} header;
static atomic_size_t blocks, made;
static int context; /* only its address counts */

static header *header_of(void *block) { return (header *)((char *)block - sizeof(header)); }

static void *allocate(void *with, size_t alignment, size_t bytes) {
    if (with != &context || (alignment & (alignment - 1)) != 0 || bytes == 0) abort();
    const size_t unit = CLQ_MAX(alignment, (size_t)16);
    char *whole = malloc(sizeof(header) + unit + bytes);
    if (!whole) return NULL;
    char *block = whole + sizeof(header);
    block += (unit - (uintptr_t)block % unit) % unit;
    memset(block, 0xa5, bytes); /* nobody may rely on zeros */
    *header_of(block) = (header){mark, whole, bytes, alignment};
    blocks++;
    made++;
    return block;
}

static void release(void *with, void *block) {
    if (with != &context) abort();
    if (!block) return;
    header *of = header_of(block);
    if (of->mark != mark) fail_msg("%p is no block of the allocator", block);
    of->mark = released;
    blocks--;
    free(of->whole);
}

static void *reallocate(void *with, void *block, size_t bytes) {
    const size_t before = block ? header_of(block)->bytes : 0;
    if (block && (header_of(block)->mark != mark || header_of(block)->alignment != 0)) abort();
    void *grown = allocate(with, 0, bytes);
    if (grown && block) memcpy(grown, block, CLQ_MIN(before, bytes));
    if (grown) release(with, block);
    return grown;
}

/* Jansson's blocks come from functions of the program, too: free() does not fit them, as malloc did not return them. */
static atomic_size_t texts;
static void *allocate_json(size_t bytes) {
    header *whole = malloc(sizeof(header) + bytes);
    if (!whole) return NULL;
    *whole = (header){.mark = mark, .whole = whole, .bytes = bytes};
    texts++;
    return whole + 1;
}
static void release_json(void *block) {
    if (!block) return;
    if (header_of(block)->mark != mark) fail_msg("%p is no block of Jansson's", block);
    header_of(block)->mark = released;
    free(header_of(block)->whole);
}

static const clq_allocator own = {
    .allocate = allocate, .reallocate = reallocate, .release = release, .context = &context};

static void wrong_ones_are_refused(void **state) {
    (void)state;
    clq_allocator wrong = own;
    assert_fails(CLQ_ERROR_ARGUMENT, "is NULL", clq_set_allocator(NULL));
    wrong.reallocate = NULL;
    assert_fails(CLQ_ERROR_ARGUMENT, "all needed", clq_set_allocator(&wrong));
    wrong = own;
    wrong.reserved[3] = &wrong;
    assert_fails(CLQ_ERROR_ARGUMENT, "clq_allocator.reserved is not 0", clq_set_allocator(&wrong));
}

static void all_memory_is_its_own(void **state) {
    (void)state;
    static const float samples[8][2] = {{1, 2}, {0, 1}, {3, 1}, {1, 1}, {2, 0}, {0, 0}, {1, 3}, {2, 2}},
                       targets[8] = {1, 2, 3};
    static const size_t shape[] = {2};
    clq_system *system;
    clq_model *model;
    clq_dataset *data;
    clq_trainer *trainer;
    clq_settings *settings;
    json_set_alloc_funcs(allocate_json, release_json);
    assert_ok(clq_set_allocator(&own));
    assert_ok(clq_settings_create(&settings));
    assert_fails(CLQ_ERROR_STATE, "already", clq_set_allocator(&own));
    assert_ok(clq_settings_set(settings, "loss", "mse"));
    assert_ok(clq_settings_set(settings, "sample-dtype", "f32"));
    assert_ok(clq_settings_set(settings, "batch", "4"));
    assert_ok(clq_settings_set(settings, "devices", "pocl:0,pocl:1"));
    assert_ok(clq_settings_set(settings, "checkpoint", files_path("checkpoints")));
    assert_ok(clq_settings_set(settings, "early-stopping", "patience=9,restore_best=1"));
    assert_ok(clq_settings_set(settings, "reduce-lr", "patience=1"));
    assert_ok(clq_settings_set(settings, "save-best", files_path("best.safetensors")));
    assert_ok(clq_settings_set(settings, "csv", files_path("t.csv")));
    assert_ok(clq_settings_open_system(settings, &system));
    assert_ok(clq_model_create("line", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(2));
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = 1})));
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, 8, 1, shape, targets, CLQ_F32, 1, &data));
    assert_ok(clq_dataset_shuffle(data, 8, 1));
    assert_ok(clq_dataset_batch(data, 4, false));
    assert_ok(clq_settings_create_trainer(settings, system, model, &trainer));
    assert_ok(clq_settings_fit(settings, trainer, data, data, NULL, 0));
    clq_trainer_destroy(trainer); /* another trainer resumes from what it left */
    assert_ok(clq_settings_set(settings, "resume", "1"));
    assert_ok(clq_settings_set(settings, "epochs", "5"));
    assert_ok(clq_settings_create_trainer(settings, system, model, &trainer));
    assert_ok(clq_settings_fit(settings, trainer, data, data, NULL, 0));
    assert_int_equal(clq_trainer_step(trainer), 10);
    assert_true(texts > 50);
    assert_true(made > 500);
    assert_true(blocks > 50);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    clq_system_close(system);
    clq_settings_destroy(settings);
    assert_int_equal(blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_ones_are_refused),
                                       cmocka_unit_test(all_memory_is_its_own)};
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
