/* bound: the rule by which gradients that are computed at the same time keep a bound of the staleness
 * (docs/decisions/049). Of ps.c, over the replicas of a process, and of serve.c, over those of all processes. The
 * caller has the lock. */
#ifndef CLQ_STRATEGY_BOUND_H
#define CLQ_STRATEGY_BOUND_H

#include "base/base.h"

/* A gradient under way. */
typedef struct clq_under_way {
    bool is;       /* one is computed, */
    uint64_t read; /* with this version of the parameters */
} clq_under_way;

typedef struct clq_bound {
    uint64_t most;         /* the staleness that no update exceeds */
    clq_under_way *places; /* (count) one of each replica */
    unsigned count;
} clq_bound;

/* Whether one more gradient, as the youngest, can be applied within the bound. */
bool clq_bound_may_read(const clq_bound *bound);
/* Whether all other gradients can still be applied once that of `place` was, behind `version` updates. */
bool clq_bound_may_apply(const clq_bound *bound, uint64_t version, unsigned place);
/* The place that all others wait for. */
unsigned clq_bound_oldest(const clq_bound *bound);

#endif
