/* Which seeds' models are planned: all seeds in CLQ_TEST_SEEDS, if set. Otherwise some of the usual seeds, chosen by
 * the kinds of their models (kinds.h). */
#ifndef CLQ_TEST_GRAPH_SEED_PLANS_H
#define CLQ_TEST_GRAPH_SEED_PLANS_H

#include "graph/check_graph.h"
#include "graph/kinds.h"

typedef struct seed_plans {
    unsigned graphs;                          /* the usual seeds are 0 to graphs - 1 */
    void (*start)(subject *s, uint64_t seed); /* builds the model, sets how it is planned */
    void (*check)(uint64_t seed, void *context);
} seed_plans;

/* Checks the plans of the seeds in CLQ_TEST_SEEDS. If it is not set, returns false, and `of` (graphs) has the kinds
 * that the plans of the usual seeds have on the device. */
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
