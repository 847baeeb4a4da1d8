/* Gives activations and scratch their memory. Values whose lifetimes do not overlap share bytes. The largest value is
 * placed first, and each value at the lowest offset that is free over its whole life ("greedy by size", Pisarchyk and
 * Lee, "Efficient memory management for deep neural net inference", 2020). The memory consists of chunks that the
 * device can allocate. */
#include "graph/graph.h"

#include <stdlib.h>

typedef struct placed {
    clq_value value;
    clq_value_info info;
    size_t chunk, offset;
} placed;

static int by_size(const void *left, const void *right) {
    const placed *a = left, *b = right;
    if (a->info.bytes != b->info.bytes) return a->info.bytes < b->info.bytes ? 1 : -1;
    return a->value < b->value ? -1 : 1; /* the same plan on every run */
}

static bool lives_overlap(const clq_value_info *a, const clq_value_info *b) {
    return a->first_use <= b->last_use && b->first_use <= a->last_use;
}

/* The lowest offset in `chunk` where `item` overlaps no placed value that lives at the same time. */
static size_t lowest_offset(const placed *items, size_t count, const placed *item, size_t chunk) {
    size_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < count; i++) {
            const placed *other = &items[i];
            if (other->chunk != chunk || !lives_overlap(&other->info, &item->info)) continue;
            if (offset < other->offset + other->info.bytes && other->offset < offset + item->info.bytes) {
                offset = other->offset + other->info.bytes;
                moved = true;
            }
        }
    }
    return offset;
}

/* Collects the values that need memory, largest first. items has room for all values of the list. */
static clq_status collect(const clq_list *list, size_t chunk_max, placed *items, size_t *count, clq_placement *result) {
    const size_t align = clq_device_view_align(clq_list_device(list));
    for (clq_value v = 1; v <= clq_list_value_count(list); v++) {
        placed *item = &items[*count];
        item->value = v;
        clq_list_value_info(list, v, &item->info);
        if (item->info.kind == CLQ_VALUE_EXTERNAL || item->info.first_use > item->info.last_use) continue;
        item->info.bytes = clq_round_up(CLQ_MAX(item->info.bytes, (size_t)1), align);
        if (item->info.bytes > chunk_max) {
            clq_bytes_text needed, most;
            clq_bytes_apart(item->info.bytes, chunk_max, &needed, &most);
            return clq_fail(CLQ_ERROR_DEVICE_MEMORY,
                            "%s needs %s in one piece and the device allocates at most %s: use a smaller batch",
                            item->info.name, needed.text, most.text);
        }
        result->unplanned_bytes += item->info.bytes;
        ++*count;
    }
    qsort(items, *count, sizeof *items, by_size);
    return CLQ_OK;
}

/* The lender's chunk of this number, if it is large enough. Otherwise NULL. */
static clq_buffer *borrow(const clq_placement *lender, size_t chunk, size_t bytes) {
    if (!lender || !lender->chunks || chunk >= lender->chunk_count || clq_buffer_bytes(lender->chunks[chunk]) < bytes)
        return NULL;
    return lender->chunks[chunk];
}

/* Finds how many chunks there are, and how large the values make each chunk. */
static clq_status size_chunks(const placed *items, size_t count, size_t **sizes, clq_placement *result) {
    size_t chunks = 0;
    for (size_t i = 0; i < count; i++) chunks = CLQ_MAX(chunks, items[i].chunk + 1);
    *sizes = clq_alloc(chunks, sizeof **sizes);
    if (!*sizes) return CLQ_ERROR_MEMORY;
    result->chunk_count = chunks;
    for (size_t i = 0; i < count; i++) {
        size_t *size = &(*sizes)[items[i].chunk];
        *size = CLQ_MAX(*size, items[i].offset + items[i].info.bytes);
    }
    return CLQ_OK;
}

static clq_status create_chunks(clq_device *device, const size_t *sizes, clq_placement *result) {
    result->chunks = clq_alloc(result->chunk_count, sizeof *result->chunks);
    if (!result->chunks) return CLQ_ERROR_MEMORY;
    for (size_t c = 0; c < result->chunk_count; c++) {
        result->chunks[c] = borrow(result->lender, c, sizes[c]);
        if (result->chunks[c]) continue;
        CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, sizes[c], "activations", &result->chunks[c]));
        result->bytes += sizes[c];
    }
    return CLQ_OK;
}

/* Finds each value's chunk and offset. items has room for all values of the list. */
static clq_status arrange(const clq_list *list, placed *items, size_t *count, clq_placement *result) {
    const size_t chunk_max = (size_t)clq_device_get_info(clq_list_device(list))->max_alloc_bytes;
    CLQ_TRY(collect(list, chunk_max, items, count, result));
    for (size_t i = 0; i < *count; i++) {
        placed *item = &items[i];
        for (item->chunk = 0;; item->chunk++) {
            item->offset = lowest_offset(items, i, item, item->chunk);
            if (item->offset + item->info.bytes <= chunk_max) break;
        }
    }
    return CLQ_OK;
}

/* buffers: also makes the chunks, and tells the list where each value lies. */
static clq_status place(clq_list *list, const clq_placement *lender, bool buffers, clq_placement *out) {
    clq_placement result = {.lender = lender};
    size_t count = 0, *sizes = NULL;
    placed *items = clq_alloc(clq_list_value_count(list), sizeof *items);
    if (!items) return CLQ_ERROR_MEMORY;
    clq_status status = arrange(list, items, &count, &result);
    if (status == CLQ_OK) status = size_chunks(items, count, &sizes, &result);
    if (status == CLQ_OK && buffers) status = create_chunks(clq_list_device(list), sizes, &result);
    for (size_t i = 0; i < count && status == CLQ_OK && buffers; i++)
        clq_list_place(list, items[i].value, result.chunks[items[i].chunk], items[i].offset);
    for (size_t c = 0; c < result.chunk_count && status == CLQ_OK && !buffers; c++) result.bytes += sizes[c];
    clq_free(items);
    clq_free(sizes);
    if (status == CLQ_OK)
        *out = result;
    else
        clq_placement_release(&result);
    return status;
}

clq_status clq_placement_create(clq_list *list, clq_placement *out) {
    return clq_placement_create_over(list, NULL, out);
}

clq_status clq_placement_create_over(clq_list *list, const clq_placement *lender, clq_placement *out) {
    return place(list, lender, true, out);
}

clq_status clq_placement_measure(clq_list *list, clq_placement *out) { return place(list, NULL, false, out); }

void clq_placement_release(clq_placement *placement) {
    for (size_t c = 0; c < placement->chunk_count && placement->chunks; c++)
        if (placement->chunks[c] != borrow(placement->lender, c, 0)) clq_buffer_destroy(placement->chunks[c]);
    clq_free(placement->chunks);
    *placement = (clq_placement){0};
}
