/* Which models of seeds have plans: all that CLQ_TEST_SEEDS names; else those of the usual ones that are chosen by
 * their kinds (kinds.h). */
#ifndef CLQ_TEST_GRAPH_SEED_PLANS_H
#define CLQ_TEST_GRAPH_SEED_PLANS_H

#include "graph/check_graph.h"
#include "graph/kinds.h"

typedef struct seed_plans {
    unsigned graphs;                          /* the usual seeds are 0 to graphs - 1 */
    void (*start)(subject *s, uint64_t seed); /* the model and the way of its plan */
    void (*check)(uint64_t seed, void *context);
} seed_plans;

/* Checks the plans of the seeds that are given. False: none are, and the kinds of the usual ones are found in of
 * (graphs), as plans on the device have them. */
static bool check_given_seeds(const seed_plans *plans, void *context, clq_device *device, kind_set *of) {
    uint64_t first, end;
    const bool given = seeds(plans->graphs, &first, &end);
    for (uint64_t seed = first; seed < end; seed++) {
        subject s;
        if (given) plans->check(seed, context);
        if (given) continue;
        plans->start(&s, seed);
        find_kinds(&s, device, &of[seed]);
        clq_model_destroy(s.model);
    }
    return given;
}

#endif
