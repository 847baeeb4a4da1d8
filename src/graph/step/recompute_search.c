/* Decides which of the values that backward reads are kept, and which are computed again. In each round, the search
 * drops the value that frees the most bytes for the least work, until the rest fits (a greedy form of what Jain et al.,
 * "Checkmate", 2020, solve exactly). It does not compare the peak alone, which one dropped value seldom lowers, but the
 * bytes above the limit, added up over all times. Bytes are counted by lifetimes, without the memory that kernels need
 * for themselves and without gaps. What a plan really takes is known only once it is placed. So plan.c lowers the limit
 * here until the placement fits. */
#include "graph/step/recompute.h"

#include <math.h>

/* What dropping a value gains, as it was last found. */
typedef struct gain {
    double per_work; /* bytes for each operation */
    uint32_t round;  /* in which it was found */
} gain;

static void drop_marked(clq_recomputation *r) {
    for (clq_id id = 1; id <= r->values; id++)
        r->stored[id].dropped = r->stored[id].marked && clq_recomputation_may_drop(r, id);
}

static double find_gain(clq_recomputation *r, clq_id id, double limit, const clq_recompute_cost *before) {
    r->stored[id].dropped = true;
    const clq_recompute_cost after = clq_recomputation_cost(r, limit);
    r->stored[id].dropped = false;
    return (before->excess - after.excess) / CLQ_MAX(after.work - before->work, 1.0);
}

/* The value whose gain, as it was last found, is the largest; 0: none is left to drop. */
static clq_id most_promising(const clq_recomputation *r, const gain *gains) {
    clq_id best = 0;
    for (clq_id id = 1; id <= r->values; id++)
        if (!r->stored[id].dropped && clq_recomputation_may_drop(r, id) &&
            (!best || gains[id].per_work > gains[best].per_work))
            best = id;
    return best;
}

/* The value with the largest gain; 0: no value has any. A gain that was found in an earlier round is seldom larger now,
 * so as a rule only few gains have to be found anew. */
static clq_id next_drop(clq_recomputation *r, gain *gains, uint32_t round, double limit,
                        const clq_recompute_cost *before) {
    for (;;) {
        const clq_id id = most_promising(r, gains);
        if (!id || (gains[id].round == round && gains[id].per_work <= 0)) return 0;
        if (gains[id].round == round) return id;
        gains[id] = (gain){find_gain(r, id, limit, before), round};
    }
}

/* Keeps values that need not be dropped after all, those with the most work first. Gives the work that is left. */
static double keep_again(clq_recomputation *r, double peak) {
    double work = clq_recomputation_cost(r, peak).work, most = (double)INFINITY;
    for (;;) {
        clq_id id = 0;
        for (clq_id i = 1; i <= r->values; i++) {
            const struct clq_stored *s = &r->stored[i];
            if (s->dropped && !s->marked && s->work < most && (!id || s->work > r->stored[id].work)) id = i;
        }
        if (!id) return work;
        most = r->stored[id].work;
        for (clq_id i = 1; i <= r->values; i++) {
            if (!r->stored[i].dropped || r->stored[i].marked || r->stored[i].work < most || r->stored[i].work > most)
                continue;
            r->stored[i].dropped = false;
            const clq_recompute_cost cost = clq_recomputation_cost(r, peak);
            if (cost.peak <= peak && cost.work < work)
                work = cost.work;
            else
                r->stored[i].dropped = true;
        }
    }
}

clq_status clq_recomputation_fit(clq_recomputation *r, double limit) {
    gain *gains = clq_alloc((size_t)r->values + 1, sizeof *gains);
    if (!gains) return CLQ_ERROR_MEMORY;
    for (clq_id id = 1; id <= r->values; id++) gains[id].per_work = (double)INFINITY;
    drop_marked(r);
    clq_recompute_cost cost = clq_recomputation_cost(r, limit);
    for (uint32_t round = 1; cost.peak > limit; round++) {
        const clq_id id = next_drop(r, gains, round, limit, &cost);
        if (!id) break;
        r->stored[id].dropped = true;
        cost = clq_recomputation_cost(r, limit);
    }
    clq_free(gains);
    (void)keep_again(r, CLQ_MAX(cost.peak, limit));
    return CLQ_OK;
}

/* Searches by halving the range of limits. */
clq_status clq_recomputation_least(clq_recomputation *r) {
    enum { HALVINGS = 8 };
    drop_marked(r);
    double low = 0, high = clq_recomputation_cost(r, 0).peak, least = high;
    for (unsigned i = 0; i < HALVINGS; i++) {
        const double limit = (low + high) / 2;
        CLQ_TRY(clq_recomputation_fit(r, limit));
        const double peak = clq_recomputation_cost(r, limit).peak;
        least = CLQ_MIN(least, peak);
        if (peak <= limit)
            high = peak;
        else
            low = limit;
    }
    return clq_recomputation_fit(r, least);
}
