/* The complete state is one word. So arrivals, a round's end, withdrawals after a deadline and an abort happen in one
 * order, and the parties of a round never disagree about how it ended:
 *
 * - bits 63..32: the round's number, which grows by one when all parties have arrived;
 *
 * - bit 31: the barrier was aborted, for good;
 *
 * - bits 30..0: how many parties have arrived in this round. */
#include "base/base.h"

#include <math.h>
#include <sched.h>

#define ABORTED_BIT (UINT64_C(1) << 31)
#define ARRIVED_MASK (ABORTED_BIT - 1)

enum { SPINS_PER_YIELD = 8 };
static const double usual_patience = 50e-6; /* the cost of some wake-ups by the kernel, and so of sleeping */
static const double endless_seconds = 1e9;

struct clq_barrier {
    _Alignas(64) _Atomic uint64_t state;
    _Alignas(64) atomic_uint sleepers;
    unsigned parties;
    double patience; /* seconds of spinning */
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static uint64_t round_of(uint64_t state) { return state >> 32; }

clq_status clq_barrier_create(unsigned parties, clq_barrier **out) {
    if (parties == 0 || parties >= ARRIVED_MASK)
        return clq_fail(CLQ_ERROR_INTERNAL, "a barrier for %u threads", parties);
    clq_barrier *barrier = clq_alloc_aligned(_Alignof(clq_barrier), sizeof(*barrier));
    if (!barrier) return CLQ_ERROR_MEMORY;
    clq_status status = clq_lock_create("a barrier", &barrier->lock, &barrier->changed);
    if (status != CLQ_OK) {
        clq_free(barrier);
        return status;
    }
    barrier->parties = parties;
    barrier->patience = usual_patience;
    *out = barrier;
    return CLQ_OK;
}

void clq_barrier_set_patience(clq_barrier *barrier, double seconds) { barrier->patience = seconds; }

void clq_barrier_destroy(clq_barrier *barrier) {
    if (!barrier) return;
    pthread_mutex_destroy(&barrier->lock);
    pthread_cond_destroy(&barrier->changed);
    clq_free(barrier);
}

/* A sleeper counts itself before it reads the state for the last time. This function's caller changes the state before
 * it reads the count. All four accesses are sequentially consistent, so at least one of the two threads sees what the
 * other did. */
static void wake_sleepers(clq_barrier *barrier) {
    if (atomic_load(&barrier->sleepers) == 0) return;
    pthread_mutex_lock(&barrier->lock);
    pthread_cond_broadcast(&barrier->changed);
    pthread_mutex_unlock(&barrier->lock);
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool waiting(clq_barrier *barrier, uint64_t round) {
    uint64_t state = atomic_load(&barrier->state);
    return round_of(state) == round && !(state & ABORTED_BIT);
}

static void spin(clq_barrier *barrier, uint64_t round) {
    double end = 0;
    for (unsigned turn = 1; waiting(barrier, round); turn++) {
        relax();
        if (turn % SPINS_PER_YIELD) continue;
        sched_yield(); /* a thread that has yet to arrive may need this core */
        double now = clq_now();
        if (end == 0) end = now + barrier->patience;
        if (now > end) return;
    }
}

/* until: a time of clq_now_running; infinite: no limit. */
static void sleep_until_changed(clq_barrier *barrier, uint64_t round, double until) {
    pthread_mutex_lock(&barrier->lock);
    atomic_fetch_add(&barrier->sleepers, 1);
    for (double left; waiting(barrier, round) && (left = until - clq_now_running()) > 0;)
        if (isinf(left))
            pthread_cond_wait(&barrier->changed, &barrier->lock);
        else
            clq_lock_wait(&barrier->lock, &barrier->changed, CLQ_MIN(left, CLQ_RUNNING_LOOK_S));
    atomic_fetch_sub(&barrier->sleepers, 1);
    pthread_mutex_unlock(&barrier->lock);
}

static clq_status fail_aborted(void) {
    return clq_fail(CLQ_ERROR_ABORTED, "the barrier was aborted while this thread waited for the other threads");
}

/* Returns how the round ended for this thread. If the round is still open, this thread withdraws its arrival, so that
 * the barrier stays usable. */
static clq_status leave(clq_barrier *barrier, uint64_t round, double deadline_s) {
    uint64_t state = atomic_load(&barrier->state);
    do {
        if (round_of(state) != round) return CLQ_OK;
        if (state & ABORTED_BIT) return fail_aborted();
    } while (!atomic_compare_exchange_weak(&barrier->state, &state, state - 1));
    return clq_fail(CLQ_ERROR_TIMEOUT, "only %u of %u threads arrived within %g s", (unsigned)(state & ARRIVED_MASK),
                    barrier->parties, deadline_s);
}

clq_status clq_barrier_wait(clq_barrier *barrier, double deadline_s) {
    bool limited = deadline_s > 0 && deadline_s < endless_seconds;
    double until = limited ? clq_now_running() + deadline_s : (double)INFINITY;
    uint64_t state = atomic_load(&barrier->state), next;
    bool last;
    do {
        if (state & ABORTED_BIT) return fail_aborted();
        last = (state & ARRIVED_MASK) + 1 == barrier->parties;
        next = last ? (round_of(state) + 1) << 32 : state + 1;
    } while (!atomic_compare_exchange_weak(&barrier->state, &state, next));
    if (last) {
        wake_sleepers(barrier);
        return CLQ_OK;
    }
    uint64_t round = round_of(state);
    spin(barrier, round);
    if (waiting(barrier, round)) sleep_until_changed(barrier, round, until);
    return leave(barrier, round, deadline_s);
}

void clq_barrier_abort(clq_barrier *barrier) {
    atomic_fetch_or(&barrier->state, ABORTED_BIT);
    wake_sleepers(barrier);
}
