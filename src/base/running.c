/* Time in which the process ran. That it was stopped is seen by a gap between two looks at the clock that is longer
 * than a thread which waits sleeps; what is beyond CLQ_RUNNING_MOST_S counts as stopped. A gap in which nobody waited
 * counts so, too: no deadline ran in it. */
#include "base/base.h"

/* Whether the process was stopped is a fact about the process, so the state is the process's: one word, since threads
 * that saw the last look but not the stopped time before it would find their deadlines passed.
 *
 * - bits 63..32: the last look, in ticks of clq_now, modulo 2^32 (two years);
 *
 * - bits 31..0: the stopped time, in ticks. */
static _Atomic uint64_t looks;

enum { TICKS_PER_SECOND = 64 };
static const uint32_t most_ticks = (uint32_t)(CLQ_RUNNING_MOST_S * TICKS_PER_SECOND);

double clq_now_running(void) {
    for (;;) {
        uint64_t state = atomic_load(&looks); /* before the clock is read: the last look is not later than this one */
        const double now = clq_now();
        const uint32_t tick = (uint32_t)(uint64_t)(now * TICKS_PER_SECOND);
        uint32_t stopped = (uint32_t)state, passed = state == 0 ? 0 : tick - (uint32_t)(state >> 32);
        if (passed > most_ticks) stopped += passed - most_ticks;
        bool looked = state != 0 && passed == 0; /* in this tick, by some thread */
        if (looked || atomic_compare_exchange_strong(&looks, &state, (uint64_t)tick << 32 | stopped))
            return now - (double)stopped / TICKS_PER_SECOND;
    }
}
