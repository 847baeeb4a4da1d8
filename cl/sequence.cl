/* Fused launches: behind their kernels as functions (src/device/program/source_text.c), and in front of the
 * kernel that src/launch/fused.c writes, which calls them.
 *
 * Its work-groups, of one item each, take a launch's items in runs, and count those that are done. Who comes to a
 * launch waits until those before it that it depends on are done: only for items that a group has taken, and so is just
 * now running, never for a group that has yet to begin. So it ends however many of the groups run at a time, in any
 * order.
 *
 * progress: for each launch the items taken and the items done, a cache line each, then the groups that have left; all
 * zero between runs. Atomic functions of OpenCL 1.2 on CPU devices are full barriers of compiler and processor. */

enum { COUNTER = 16 };

/* Of the function that calls the launches: compilers that know the attribute do not make it a part of the kernel. */
#define SEQUENCE_BODY __attribute__((noinline))

/* Leaves the core to its other hardware thread for a moment. */
#if defined(__x86_64__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_pause)
#define PAUSE __builtin_ia32_pause()
#endif
#endif
#ifndef PAUSE
#define PAUSE continue
#endif

typedef volatile global int *counters;

static counters taken_of(counters progress, int launch) { return progress + 2 * launch * COUNTER; }
static counters done_of(counters progress, int launch) { return progress + (2 * launch + 1) * COUNTER; }

/* The next run of items, begin .. end - 1; false: all are taken. `done` is how many of the run before are done. */
static bool take(counters progress, int launch, int groups, int items, int done, int *begin, int *end) {
    if (groups == 1) {
        *begin = *end;
        *end = items;
        return *begin < items;
    }
    if (done > 0) atomic_add(done_of(progress, launch), done);
    int run = max(1, items / (groups * RUNS));
    *begin = atomic_add(taken_of(progress, launch), run);
    *end = min(*begin + run, items);
    return *begin < items;
}

static void wait_for(counters progress, int launch, int items) {
    counters done = done_of(progress, launch);
    while (*done < items) PAUSE;
    (void)atomic_or(done, 0);
}

/* The last group clears the counters. */
static void leave(counters progress, int launches, int groups) {
    counters left = taken_of(progress, launches);
    if (groups == 1 || atomic_inc(left) < groups - 1) return;
    for (int i = 0; i < 2 * launches; i++) progress[i * COUNTER] = 0;
    *left = 0;
}
