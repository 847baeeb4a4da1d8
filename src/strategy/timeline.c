#include "strategy/strategy.h"

enum { SPANS_MAX = 1 << 18, SPANS_FIRST = 64 };

clq_status clq_timeline_add(clq_timeline *timeline, double begin, const char *name, const char *key, uint64_t value) {
    if (timeline->count == SPANS_MAX) return CLQ_OK;
    clq_span *spans = clq_grow(timeline->spans, timeline->count, &timeline->capacity, SPANS_FIRST, sizeof *spans);
    if (!spans) return CLQ_ERROR_MEMORY;
    timeline->spans = spans;
    timeline->spans[timeline->count++] =
        (clq_span){.name = name, .key = key, .value = value, .begin = begin, .end = clq_now()};
    return CLQ_OK;
}
