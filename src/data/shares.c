/* How a batch is shared out over replicas. */
#include "data/data.h"

#include <assert.h>

static void split_equally(size_t count, unsigned replicas, size_t *offsets, size_t *counts) {
    size_t size = clq_ceil_div(count, replicas), offset = 0;
    for (unsigned r = 0; r < replicas; r++) {
        offsets[r] = offset;
        counts[r] = CLQ_MIN(size, count - offset);
        offset += counts[r];
    }
}

/* Rounds the running sum of the weights, not each share: what one share loses to rounding the next one
 * gets. The sum never falls, and ends at exactly `total`, which was added up in the same order: the last
 * run ends at `count`. */
static void split_by_weight(size_t count, unsigned replicas, const double *weights, size_t *offsets, size_t *counts) {
    double total = 0.0, sum = 0.0;
    for (unsigned r = 0; r < replicas; r++) total += weights[r];
    assert(total > 0.0);
    size_t offset = 0;
    for (unsigned r = 0; r < replicas; r++) {
        sum += weights[r];
        size_t end = (size_t)((double)count * (sum / total) + 0.5);
        offsets[r] = offset;
        counts[r] = end - offset;
        offset = end;
    }
}

void clq_shares_split(size_t count, unsigned replicas, const double *weights, size_t *offsets, size_t *counts) {
    assert(replicas > 0);
    if (weights)
        split_by_weight(count, replicas, weights, offsets, counts);
    else
        split_equally(count, replicas, offsets, counts);
}
