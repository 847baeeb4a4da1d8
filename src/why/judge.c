/* Finds what limited a run from what the run itself measured. */
#include "why/why.h"

/* Something limits a run if it takes more than these shares of the time. */
static const double input_least = 0.2, waiting_least = 0.15, exchange_least = 0.2;

clq_toll clq_toll_now(const clq_trainer *trainer, double trained_s, double input_s) {
    clq_toll toll = {
        .trained_s = trained_s, .input_s = input_s, .exchange_s = clq_trainer_comm_times(trainer).exposed_s};
    for (unsigned r = 0; r < clq_trainer_replicas(trainer); r++)
        toll.waited_s[r] = clq_strategy_waited(clq_trainer_strategy(trainer), r);
    return toll;
}

/* How much longer the others waited, on average, than the replica that waited least. */
static double find_slowest(unsigned replicas, const clq_toll *begun, const clq_toll *ended, unsigned *slowest) {
    double least = 0, sum = 0;
    for (unsigned r = 0; r < replicas; r++) {
        const double waited = ended->waited_s[r] - begun->waited_s[r];
        sum += waited;
        if (r > 0 && waited >= least) continue;
        least = waited;
        *slowest = r;
    }
    return replicas > 1 ? (sum - least) / (replicas - 1) - least : 0.0;
}

clq_spent clq_why_spent(unsigned replicas, const clq_toll *begun, const clq_toll *ended) {
    const double seconds = CLQ_MAX(ended->trained_s - begun->trained_s, 1e-9);
    unsigned slowest = 0;
    const double waiting = find_slowest(replicas, begun, ended, &slowest);
    return (clq_spent){.input = (ended->input_s - begun->input_s) / seconds,
                       .exchange = (ended->exchange_s - begun->exchange_s) / seconds,
                       .waiting = waiting / seconds,
                       .slowest = slowest};
}

/* A process that computes longer than the others spends the least time in exchanges, in which the others wait for it:
 * what they spend beyond that is waiting. */
static double find_slowest_process(unsigned processes, const clq_spent *all, unsigned *slowest) {
    double sum = 0;
    *slowest = 0;
    for (unsigned p = 0; p < processes; p++) {
        sum += all[p].exchange;
        if (all[p].exchange < all[*slowest].exchange) *slowest = p;
    }
    const double least = all[*slowest].exchange;
    return processes > 1 ? (sum - least) / (processes - 1) - least : 0.0;
}

clq_verdict clq_why_judge(unsigned processes, const clq_spent *all) {
    unsigned slowest, input = 0, waiting = 0;
    const double waited = find_slowest_process(processes, all, &slowest);
    for (unsigned p = 1; p < processes; p++) {
        if (all[p].input > all[input].input) input = p;
        if (all[p].waiting > all[waiting].waiting) waiting = p;
    }
    if (all[input].input > input_least)
        return (clq_verdict){.limit = CLQ_LIMIT_INPUT, .share = all[input].input, .rank = input};
    if (waited > waiting_least) return (clq_verdict){.limit = CLQ_LIMIT_SLOW_MACHINE, .share = waited, .rank = slowest};
    if (all[waiting].waiting > waiting_least)
        return (clq_verdict){.limit = CLQ_LIMIT_SLOW_DEVICE,
                             .share = all[waiting].waiting,
                             .rank = waiting,
                             .replica = all[waiting].slowest};
    if (all[slowest].exchange > exchange_least)
        return (clq_verdict){.limit = CLQ_LIMIT_COMMUNICATION, .share = all[slowest].exchange};
    return (clq_verdict){.limit = CLQ_LIMIT_COMPUTE, .share = all[input].input};
}
