#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static atomic_uint_fast64_t made;    /* allocations since the last clq_memory_fail_at */
static atomic_uint_fast64_t fail_at; /* 0: none is to fail */
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
        clq_fail(CLQ_MEMORY, "out of host memory: %zu bytes were asked for", count);
    else
        clq_fail(CLQ_MEMORY, "out of host memory: %zu x %zu bytes were asked for", count, size);
    return NULL;
}

void *clq_alloc(size_t count, size_t size) {
    size_t bytes;
    if (refused_by_test() || !clq_mul_size(count, size, &bytes)) return out_of_memory(count, size);
    void *block = calloc(1, bytes ? bytes : 1);
    return block ? block : out_of_memory(count, size);
}

void *clq_realloc(void *block, size_t old_count, size_t new_count, size_t size) {
    size_t bytes;
    if (refused_by_test() || !clq_mul_size(new_count, size, &bytes)) return out_of_memory(new_count, size);
    char *grown = realloc(block, bytes ? bytes : 1);
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
    void *block;
    if (refused_by_test() || posix_memalign(&block, alignment, bytes ? bytes : 1) != 0) return out_of_memory(bytes, 1);
    return block;
}

void *clq_alloc_aligned(size_t alignment, size_t bytes) {
    void *block = clq_alloc_unset(alignment, bytes);
    if (block) memset(block, 0, bytes);
    return block;
}

void clq_free(void *block) { free(block); }

char *clq_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = clq_alloc(bytes, 1);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}
