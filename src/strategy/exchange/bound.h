/* bound: the rule that keeps the staleness of gradients within a bound, when several gradients are computed at the same
 * time (docs/decisions/049). ps.c applies the rule to the replicas of one process, serve.c to the replicas of all
 * processes. The caller of each function holds the lock. */
#ifndef CLQ_STRATEGY_BOUND_H
#define CLQ_STRATEGY_BOUND_H

#include "base/base.h"

/* A gradient is under way from the replica's read of the parameters until the update by the gradient begins. */
typedef struct clq_under_way {
    bool is;       /* a gradient is under way */
    uint64_t read; /* the version of the parameters that the gradient is computed with */
} clq_under_way;

typedef struct clq_bound {
    uint64_t most;         /* the largest staleness that an update may have */
    clq_under_way *places; /* (count) one for each replica; the caller's */
    unsigned count;
} clq_bound;

/* Whether a replica may read the parameters for one more gradient: whether that gradient, as the youngest, can still be
 * applied within the bound. */
bool clq_bound_may_read(const clq_bound *bound);
/* Whether the gradient of `place` may be applied now, after `version` updates: whether all other gradients under way
 * can still be applied within the bound afterwards. */
bool clq_bound_may_apply(const clq_bound *bound, uint64_t version, unsigned place);
/* The place with the oldest gradient under way, which all others wait for; 0 if none is under way. */
unsigned clq_bound_oldest(const clq_bound *bound);

#endif
