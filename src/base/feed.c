/* Feeds: the lists of the arrays that a sample consists of. */
#include "base/base.h"

const char *clq_feed_role_name(clq_feed_role role) {
    static const char *const names[] = {
        [CLQ_FEED_SAMPLES] = "samples", [CLQ_FEED_LABELS] = "labels", [CLQ_FEED_WEIGHTS] = "weights"};
    return names[role];
}

void clq_feed_add(clq_feed *feed, clq_feed_role role, unsigned index, clq_dtype dtype, size_t elements) {
    feed->arrays[feed->count++] =
        (clq_feed_array){.role = role, .index = index, .dtype = dtype, .bytes = clq_values_bytes(dtype, elements)};
}

unsigned clq_feed_find(const clq_feed *feed, clq_feed_role role, unsigned index) {
    unsigned i = 0;
    while (i < feed->count && (feed->arrays[i].role != role || feed->arrays[i].index != index)) i++;
    return i;
}

size_t clq_feed_bytes(const clq_feed *feed) {
    size_t bytes = 0;
    for (unsigned i = 0; i < feed->count; i++) bytes += feed->arrays[i].bytes;
    return bytes;
}
