/* A gate is a count that only grows: one thread raises it, another waits for it. Through gates, the two ends of a link
 * tell each other that slots were filled or freed. */
#ifndef CLQ_COMM_GATE_H
#define CLQ_COMM_GATE_H

#include "base/base.h"

typedef struct clq_gate {
    _Alignas(64) atomic_size_t count;
    atomic_uint sleepers;
    pthread_mutex_t lock; /* only for sleeping; the count is raised without it */
    pthread_cond_t moved;
    bool made; /* lock and condition exist */
} clq_gate;

clq_status clq_gate_init(clq_gate *gate);
void clq_gate_end(clq_gate *gate); /* takes a gate that is all zero */
void clq_gate_raise(clq_gate *gate, size_t count);
void clq_gate_wake(clq_gate *gate); /* call it after setting what `aborted` points to */
/* Whether a wait for this count would return at once. */
bool clq_gate_reached(const clq_gate *gate, size_t count);
/* Waits until the gate's count is at least `count`. Errors: ABORTED once *aborted is set; TIMEOUT at the time `until`
 * on clq_now_running's clock. */
clq_status clq_gate_wait(clq_gate *gate, size_t count, double until, const atomic_bool *aborted);

#endif
