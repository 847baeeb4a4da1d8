/* Fused launches. This text stands after their kernels, which are functions there (src/device/program/source_text.c),
 * and before the kernel that src/launch/fused.c writes, which calls them.
 *
 * The work-groups of that kernel have one item each. They take a launch's items in runs, and count those that are done.
 * A work-group that comes to a launch waits until the earlier launches that this one depends on are done. So it waits
 * only for items that some work-group has taken and is now running, never for a work-group that has yet to begin.
 * Therefore the kernel ends however many work-groups run at a time, in any order.
 *
 * progress: for each launch the items taken and the items done, in a cache line each; then the work-groups that have
 * left. All are zero between runs. On CPU devices, atomic functions of OpenCL 1.2 are full barriers of compiler and
 * processor. */

enum { COUNTER = 16 };

/* For the function that calls the launches: compilers that know the attribute do not inline it into the kernel. */
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

/* Takes the next run of items, begin .. end - 1; false: all are taken. done: how many items of the previous run are
 * done. */
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
