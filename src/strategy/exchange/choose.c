/* Chooses the exchange of a strategy. */
#include "strategy/module.h"

/* The exchange is that of the first row whose fact holds or whose path is on. The last row always holds. Path 0 is not
 * a path of the exchange, so 0 stands for no path. */
static const struct {
    unsigned fact;
    clq_path path;
    const clq_exchange_kind *kind;
} rows[] = {{.path = CLQ_PATH_SHARDED_UPDATE, .kind = &clq_exchange_sharded},
            {.path = CLQ_PATH_OVERLAP, .kind = &clq_exchange_overlapped},
            {.fact = CLQ_FACT_SHARDED_OPTIMIZER, .kind = &clq_exchange_zero},
            {.fact = CLQ_FACT_LOCAL_STEPS, .kind = &clq_exchange_local},
            {.fact = CLQ_FACT_COMPRESSED, .kind = &clq_exchange_compressed},
            {.fact = CLQ_FACT_REPLICAS, .kind = &clq_exchange_whole},
            {.kind = &clq_exchange_none}};

static const clq_exchange_kind *choose(const clq_paths *paths, unsigned facts) {
    size_t i = 0;
    while (rows[i].kind != &clq_exchange_none && !(rows[i].fact & facts) && !(rows[i].path && paths->on[rows[i].path]))
        i++;
    return rows[i].kind;
}

clq_status clq_exchange_choose(clq_strategy *strategy, const clq_exchange_kind *given) {
    clq_paths *paths = &strategy->paths;
    unsigned facts = clq_facts_of_all(strategy);
    if (clq_paths_decide(paths, CLQ_PATH_OVERLAP, facts)) facts |= CLQ_FACT_OVERLAP;
    (void)clq_paths_decide(paths, CLQ_PATH_SHARDED_UPDATE, facts);
    if (clq_paths_decide(paths, CLQ_PATH_BUSY_WAIT, facts))
        clq_comm_set_patience(strategy->replicas[0].peers, clq_patience_s);
    strategy->exchange = given ? given : choose(paths, facts);
    return strategy->exchange->open ? strategy->exchange->open(strategy) : CLQ_OK;
}
