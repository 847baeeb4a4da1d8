#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static atomic_uint_fast64_t made;    /* allocations since the last clq_memory_fail_at */
static atomic_uint_fast64_t fail_at; /* number of the allocation that fails; 0: none */
static atomic_bool fail_after;

uint64_t clq_memory_fail_at(uint64_t nth, bool sticky) {
    atomic_store(&fail_at, 0);
    atomic_store(&fail_after, sticky);
    uint64_t before = atomic_exchange(&made, 0);
    atomic_store(&fail_at, nth);
    return before;
}

static bool refused_by_test(void) {
    uint64_t nth = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed) + 1;
    uint64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return at && (nth == at || (nth > at && atomic_load(&fail_after)));
}

static void *out_of_memory(size_t count, size_t size) {
    if (size == 1)
        clq_fail(CLQ_ERROR_MEMORY, "out of host memory: %zu bytes were asked for", count);
    else
        clq_fail(CLQ_ERROR_MEMORY, "out of host memory: %zu x %zu bytes were asked for", count, size);
    return NULL;
}

/* ---- where memory comes from ---- */

static void *of_system(void *context, size_t alignment, size_t bytes) {
    void *block;
    (void)context;
    if (alignment == 0) return malloc(bytes);
    return posix_memalign(&block, alignment, bytes) == 0 ? block : NULL;
}

static void *again_of_system(void *context, void *block, size_t bytes) {
    (void)context;
    return realloc(block, bytes);
}

static void back_to_system(void *context, void *block) {
    (void)context;
    free(block);
}

/* Set before there are threads that allocate, so it needs no lock. */
static clq_allocator allocator = {.allocate = of_system, .reallocate = again_of_system, .release = back_to_system};
static atomic_bool is_used, is_set;

static void note_use(void) {
    if (!atomic_load_explicit(&is_used, memory_order_relaxed)) atomic_store(&is_used, true);
}

clq_status clq_set_allocator(const clq_allocator *given) {
    if (!given) return clq_fail(CLQ_ERROR_ARGUMENT, "clq_set_allocator: the allocator is NULL");
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_allocator, given));
    if (!given->allocate || !given->reallocate || !given->release)
        return clq_fail(CLQ_ERROR_ARGUMENT, "clq_set_allocator: allocate, reallocate and release are all needed");
    if (atomic_load(&is_used) || atomic_exchange(&is_set, true))
        return clq_fail(CLQ_ERROR_STATE,
                        "clq_set_allocator: memory was allocated already, or an allocator was set: it is "
                        "the first call of a program, once");
    allocator = *given;
    return CLQ_OK;
}

void *clq_raw_alloc(size_t bytes) {
    note_use();
    return allocator.allocate(allocator.context, 0, bytes);
}
void clq_raw_free(void *block) { allocator.release(allocator.context, block); }

static void *take_zeroed(size_t bytes) {
    if (allocator.allocate == of_system) { /* calloc does not clear pages that the system gives as zeros */
        note_use();
        return calloc(1, bytes);
    }
    void *block = clq_raw_alloc(bytes);
    if (block) memset(block, 0, bytes);
    return block;
}

/* ---- memory that is counted, and tells ---- */

void *clq_alloc(size_t count, size_t size) {
    size_t bytes;
    if (refused_by_test() || !clq_mul_size(count, size, &bytes)) return out_of_memory(count, size);
    void *block = take_zeroed(bytes ? bytes : 1);
    return block ? block : out_of_memory(count, size);
}

void *clq_realloc(void *block, size_t old_count, size_t new_count, size_t size) {
    size_t bytes;
    if (refused_by_test() || !clq_mul_size(new_count, size, &bytes)) return out_of_memory(new_count, size);
    note_use();
    char *grown = allocator.reallocate(allocator.context, block, bytes ? bytes : 1);
    if (!grown) return out_of_memory(new_count, size);
    size_t kept = block ? CLQ_MIN(old_count, new_count) * size : 0;
    memset(grown + kept, 0, bytes - kept);
    return grown;
}

void *clq_grow(void *block, size_t count, size_t *capacity, size_t first, size_t size) {
    if (count < *capacity) return block;
    const size_t larger = CLQ_MAX(*capacity * 2, first);
    void *grown = clq_realloc(block, *capacity, larger, size);
    if (grown) *capacity = larger;
    return grown;
}

void *clq_alloc_unset(size_t alignment, size_t bytes) {
    note_use();
    void *block = refused_by_test() ? NULL : allocator.allocate(allocator.context, alignment, bytes ? bytes : 1);
    return block ? block : out_of_memory(bytes, 1);
}

void *clq_alloc_aligned(size_t alignment, size_t bytes) {
    void *block = clq_alloc_unset(alignment, bytes);
    if (block) memset(block, 0, bytes);
    return block;
}

void clq_free(void *block) { clq_raw_free(block); }

char *clq_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = clq_alloc(bytes, 1);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}
