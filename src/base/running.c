/* The clock of the time in which the process ran. A waiting thread reads the clock every CLQ_RUNNING_LOOK_S. So if the
 * gap between two readings is much longer, the process was stopped: what is beyond CLQ_RUNNING_MOST_S counts as
 * stopped. If nobody waited during a gap, the gap counts as stopped, too. This is harmless, because no deadline ran in
 * it. */
#include "base/base.h"

/* Stops affect the whole process, so all threads share the state. The last reading and the stopped time are in one
 * word. If they were apart, a thread that saw a new last reading, but not yet the stopped time before it, would find
 * its deadline passed.
 *
 * - bits 63..32: the last reading, in ticks of clq_now, modulo 2^32 (two years);
 *
 * - bits 31..0: the stopped time, in ticks. */
static _Atomic uint64_t looks;

enum { TICKS_PER_SECOND = 64 };
static const uint32_t most_ticks = (uint32_t)(CLQ_RUNNING_MOST_S * TICKS_PER_SECOND);

double clq_now_running(void) {
    for (;;) {
        uint64_t state = atomic_load(&looks); /* before the clock is read, so the last reading is not after `now` */
        const double now = clq_now();
        const uint32_t tick = (uint32_t)(uint64_t)(now * TICKS_PER_SECOND);
        uint32_t stopped = (uint32_t)state, passed = state == 0 ? 0 : tick - (uint32_t)(state >> 32);
        if (passed > most_ticks) stopped += passed - most_ticks;
        bool looked = state != 0 && passed == 0; /* some thread has read the clock in this tick */
        if (looked || atomic_compare_exchange_strong(&looks, &state, (uint64_t)tick << 32 | stopped))
            return now - (double)stopped / TICKS_PER_SECOND;
    }
}
