#include "comm/link/gate.h"

#include <sched.h>

/* How to wait for the other end's thread. If it runs, it is a few microseconds behind: spin. If it shares this core, it
 * needs the core: yield. But not for long: if other threads compete for the core, a single yield lasts until they have
 * had their turns, tens of milliseconds. If it waits for its device, it may take milliseconds: sleep. */
enum { SPINS = 400 };
static const double yield_s = 20e-6;

clq_status clq_gate_init(clq_gate *gate) {
    atomic_init(&gate->count, 0);
    atomic_init(&gate->sleepers, 0);
    const clq_status status = clq_lock_create("a link", &gate->lock, &gate->moved);
    gate->made = status == CLQ_OK;
    return status;
}

void clq_gate_end(clq_gate *gate) {
    if (!gate->made) return;
    pthread_mutex_destroy(&gate->lock);
    pthread_cond_destroy(&gate->moved);
}

void clq_gate_wake(clq_gate *gate) {
    pthread_mutex_lock(&gate->lock);
    pthread_cond_broadcast(&gate->moved);
    pthread_mutex_unlock(&gate->lock);
}

/* The raiser writes the count and then reads `sleepers`; the sleeper writes `sleepers` and then reads the count. All
 * four accesses are sequentially consistent: either the raiser sees the sleeper, or the sleeper sees the new count. */
void clq_gate_raise(clq_gate *gate, size_t count) {
    atomic_store(&gate->count, count);
    if (atomic_load(&gate->sleepers) != 0) clq_gate_wake(gate);
}

bool clq_gate_reached(const clq_gate *gate, size_t count) {
    return atomic_load_explicit(&gate->count, memory_order_acquire) >= count;
}

static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static clq_status sleep_until_raised(clq_gate *gate, size_t count, double until, const atomic_bool *aborted) {
    clq_status status = CLQ_OK;
    pthread_mutex_lock(&gate->lock);
    atomic_fetch_add(&gate->sleepers, 1);
    while (atomic_load(&gate->count) < count) {
        double left = until - clq_now_running();
        if (atomic_load(aborted))
            status = CLQ_ERROR_ABORTED;
        else if (left <= 0)
            status = CLQ_ERROR_TIMEOUT;
        if (status != CLQ_OK) break;
        clq_lock_wait(&gate->lock, &gate->moved, CLQ_MIN(left, CLQ_RUNNING_LOOK_S));
    }
    atomic_fetch_sub(&gate->sleepers, 1);
    pthread_mutex_unlock(&gate->lock);
    return status;
}

clq_status clq_gate_wait(clq_gate *gate, size_t count, double until, const atomic_bool *aborted) {
    double sleep_at = 0;
    for (int i = 0; sleep_at == 0 || (clq_now() < sleep_at && !atomic_load(aborted)); i++) {
        if (clq_gate_reached(gate, count)) return CLQ_OK;
        if (i < SPINS) {
            pause_briefly();
            continue;
        }
        if (sleep_at == 0) sleep_at = clq_now() + yield_s;
        sched_yield();
    }
    return sleep_until_raised(gate, count, until, aborted);
}
