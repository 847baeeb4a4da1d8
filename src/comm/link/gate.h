/* A count that only grows, which one thread raises and another waits for: how the two ends of a link tell each
 * other that a slot was filled or freed. */
#ifndef CLQ_COMM_GATE_H
#define CLQ_COMM_GATE_H

#include "base/base.h"

typedef struct clq_gate {
    _Alignas(64) atomic_size_t count;
    atomic_uint sleepers;
    pthread_mutex_t lock; /* only for sleeping; the count is raised without it */
    pthread_cond_t moved;
    bool made; /* lock and condition are */
} clq_gate;

clq_status clq_gate_init(clq_gate *gate);
void clq_gate_end(clq_gate *gate); /* takes one that is all zero */
void clq_gate_raise(clq_gate *gate, size_t count);
void clq_gate_wake(clq_gate *gate); /* after setting what `aborted` points to */
/* Whether nobody would have to wait for the count. */
bool clq_gate_reached(const clq_gate *gate, size_t count);
/* Until the count is at least `count`: CLQ_OK; CLQ_ERROR_ABORTED once *aborted; CLQ_ERROR_TIMEOUT at the time `until`
 * of clq_now_running. */
clq_status clq_gate_wait(clq_gate *gate, size_t count, double until, const atomic_bool *aborted);

#endif
