#include "why/intervals.h"

#include <stdlib.h>

clq_status clq_intervals_add(clq_intervals *set, double begin, double end) {
    if (!(end > begin)) return CLQ_OK;
    clq_interval *grown = clq_grow(set->items, set->count, &set->capacity, 64, sizeof *grown);
    if (!grown) return CLQ_ERROR_MEMORY;
    set->items = grown;
    set->items[set->count++] = (clq_interval){begin, end};
    return CLQ_OK;
}

static int by_begin(const void *left, const void *right) {
    const double a = ((const clq_interval *)left)->begin, b = ((const clq_interval *)right)->begin;
    return (a > b) - (a < b);
}

void clq_intervals_join(clq_intervals *set) {
    size_t kept = 0;
    if (set->count == 0) return;
    qsort(set->items, set->count, sizeof set->items[0], by_begin);
    for (size_t i = 1; i < set->count; i++) {
        if (set->items[i].begin <= set->items[kept].end)
            set->items[kept].end = CLQ_MAX(set->items[kept].end, set->items[i].end);
        else
            set->items[++kept] = set->items[i];
    }
    set->count = kept + 1;
}

clq_status clq_intervals_take(clq_intervals *from, const clq_intervals *what, clq_intervals *taken) {
    clq_intervals rest = {0};
    clq_status status = CLQ_OK;
    size_t first = 0; /* of `what`: those before it end before any interval to come */
    for (size_t i = 0; i < from->count && status == CLQ_OK; i++) {
        clq_interval left = from->items[i];
        while (first < what->count && what->items[first].end <= left.begin) first++;
        for (size_t k = first; k < what->count && what->items[k].begin < left.end && status == CLQ_OK; k++) {
            const clq_interval *cut = &what->items[k];
            const double begin = CLQ_MAX(cut->begin, left.begin), end = CLQ_MIN(cut->end, left.end);
            status = clq_intervals_add(&rest, left.begin, begin);
            if (status == CLQ_OK) status = clq_intervals_add(taken, begin, end);
            left.begin = CLQ_MAX(left.begin, end);
        }
        if (status == CLQ_OK) status = clq_intervals_add(&rest, left.begin, left.end);
    }
    clq_free(status == CLQ_OK ? from->items : rest.items);
    if (status == CLQ_OK) *from = rest;
    return status;
}
