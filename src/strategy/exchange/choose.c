/* Which exchange a strategy has. */
#include "strategy/module.h"

/* Where each replica's kernels run in its own thread, on a core of its own, and exchange in that thread, the core has
 * nothing better to do while the others are waited for, and a sleep would end late: in virtual machines one wake-up in
 * a thousand takes 6 ms. */
static const double patience_s = 2e-3;

clq_status clq_exchange_choose(clq_strategy *strategy, const clq_exchange_kind *given) {
    clq_paths *paths = &strategy->paths;
    unsigned facts = clq_facts_of_all(strategy);
    const clq_exchange_kind *kind = &clq_exchange_whole;
    if (strategy->count == 1) kind = &clq_exchange_none;
    if (facts & CLQ_FACT_COMPRESSED) kind = &clq_exchange_compressed;
    if (facts & CLQ_FACT_LOCAL_STEPS) kind = &clq_exchange_local;
    if (facts & CLQ_FACT_SHARDED_OPTIMIZER) kind = &clq_exchange_zero;
    if (clq_paths_decide(paths, CLQ_PATH_OVERLAP, facts)) {
        kind = &clq_exchange_overlapped;
        facts |= CLQ_FACT_OVERLAP;
    }
    if (clq_paths_decide(paths, CLQ_PATH_SHARDED_UPDATE, facts)) kind = &clq_exchange_sharded;
    if (clq_paths_decide(paths, CLQ_PATH_BUSY_WAIT, facts))
        clq_comm_set_patience(strategy->replicas[0].peers, patience_s);
    strategy->exchange = given ? given : kind;
    return strategy->exchange->open ? strategy->exchange->open(strategy) : CLQ_OK;
}
