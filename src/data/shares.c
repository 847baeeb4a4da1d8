/* Splits a batch into one share per replica. */
#include "data/data.h"

#include <assert.h>

static bool are_equal(unsigned replicas, const double *weights) {
    for (unsigned r = 1; r < replicas && weights; r++)
        if (weights[r] < weights[0] || weights[r] > weights[0]) return false;
    return true;
}

static void split_equally(size_t count, unsigned replicas, size_t *offsets, size_t *counts) {
    size_t size = clq_ceil_div(count, replicas), offset = 0;
    for (unsigned r = 0; r < replicas; r++) {
        offsets[r] = offset;
        counts[r] = CLQ_MIN(size, count - offset);
        offset += counts[r];
    }
}

/* Rounds the running sum of the weights, not each share: what one share loses by rounding, the next one gets. The
 * running sum never falls, and it ends at exactly `total`, which was added up in the same order. So the last run ends
 * at `count`. For any count, a share is at most its exact part rounded up. So no batch of up to `count` samples gives a
 * replica more than its part of `count`, rounded up. Giving what is left to the largest remainders would not ensure
 * this. */
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
    if (are_equal(replicas, weights))
        split_equally(count, replicas, offsets, counts);
    else
        split_by_weight(count, replicas, weights, offsets, counts);
}

size_t clq_shares_most(size_t count, unsigned replicas, const double *weights, unsigned replica) {
    if (are_equal(replicas, weights)) return clq_ceil_div(count, replicas);
    double total = 0.0;
    for (unsigned r = 0; r < replicas; r++) total += weights[r];
    if (!(weights[replica] > 0.0)) return 0;
    /* One more than the part rounded down, and not the part rounded up: the division's rounding may have made the part
     * a whole number that it is not. */
    return CLQ_MIN((size_t)((double)count * (weights[replica] / total)) + 1, count);
}
