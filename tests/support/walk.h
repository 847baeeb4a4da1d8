/* Makes the allocations of a call fail, place by place. A place is an allocation and its callers. The same place in a
 * loop meets other data and takes the same way out: its first and its last time stand for all. Of the places that an
 * earlier walk of the same call has seen, with other settings, a part fails once more. */
#ifndef CLQ_TEST_WALK_H
#define CLQ_TEST_WALK_H

#include "base/base.h"

#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { WALK_PLACES = 8192, WALK_CALLERS = 30, WALK_AGAIN = 7 };

typedef struct walk_place {
    clq_hash128 key;
    uint64_t times; /* in the call without a failure */
} walk_place;

static struct walk_state {
    pthread_mutex_t lock; /* allocations are of any thread */
    walk_place places[WALK_PLACES];
    size_t count;
    clq_hash128 seen[WALK_PLACES]; /* by earlier walks */
    size_t seen_count;
    size_t again;    /* places that were seen before */
    uint64_t made;   /* allocations in the call without a failure */
    clq_hash128 key; /* of the place that fails, */
    uint64_t nth;    /* when it is met for the nth time, */
    bool sticky;     /* and all that comes then */
    uint64_t met;    /* so often */
    bool failed;     /* so some did fail */
} walking = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline clq_hash128 walk_here(void) {
    void *callers[WALK_CALLERS];
    const int count = backtrace(callers, WALK_CALLERS);
    return clq_hash128_of(callers, (size_t)count * sizeof callers[0], 0);
}

static inline bool walk_same(clq_hash128 a, clq_hash128 b) { return memcmp(&a, &b, sizeof a) == 0; }

/* Counts, and lets no allocation fail. */
static inline bool walk_note(void *context) {
    (void)context;
    const clq_hash128 key = walk_here();
    (void)pthread_mutex_lock(&walking.lock);
    size_t i = 0;
    while (i < walking.count && !walk_same(walking.places[i].key, key)) i++;
    if (i == walking.count && i < WALK_PLACES) walking.places[walking.count++] = (walk_place){.key = key};
    if (i < walking.count) walking.places[i].times++;
    walking.made++;
    (void)pthread_mutex_unlock(&walking.lock);
    return false;
}

static inline bool walk_fails(void *context) {
    (void)context;
    const bool here = walk_same(walk_here(), walking.key);
    (void)pthread_mutex_lock(&walking.lock);
    const bool now = here && ++walking.met == walking.nth;
    const bool fails = now || (walking.failed && walking.sticky);
    walking.failed |= now;
    (void)pthread_mutex_unlock(&walking.lock);
    return fails;
}

/* One failure, and what the call said of it. */
typedef struct walk_step {
    uint64_t number; /* of the failure */
    clq_status status;
    bool failed; /* the allocation was made, and failed: threads may come to an end before they meet it */
} walk_step;

/* Whether this walk fails the place: it is new, or its turn. */
static inline bool walk_takes(clq_hash128 key) {
    size_t i = 0;
    while (i < walking.seen_count && !walk_same(walking.seen[i], key)) i++;
    if (i < walking.seen_count) return walking.again++ % WALK_AGAIN == 0;
    if (i < WALK_PLACES) walking.seen[walking.seen_count++] = key;
    return true;
}

/* Fails an allocation in each place of `call`: once, the first time that the call gets there, and with all that come
 * then, the last time. `judge` looks at each outcome. The call undoes what it did, which the leak sanitizer watches.
 * Returns how many allocations the call makes if none fails. */
static inline uint64_t walk_places(clq_status (*call)(void *), void *context,
                                   void (*judge)(void *context, const walk_step *step)) {
    uint64_t number = 0;
    clq_status clean = call(context); /* what is made once is there from now on */
    walking.count = 0;
    walking.made = 0;
    clq_memory_ask(walk_note, NULL);
    if (clean == CLQ_OK) clean = call(context);
    clq_memory_ask(NULL, NULL);
    if (clean != CLQ_OK) fail_msg("fails without a failing allocation: %s", clq_error_detail());
    if (walking.count == WALK_PLACES) fail_msg("%d places are not enough", WALK_PLACES);
    const uint64_t made = walking.made;
    for (size_t i = 0; i < walking.count; i++) {
        if (!walk_takes(walking.places[i].key)) continue;
        for (unsigned sticky = 0; sticky < 2; sticky++) {
            walking.key = walking.places[i].key;
            walking.nth = sticky ? walking.places[i].times : 1;
            walking.sticky = sticky;
            walking.met = 0;
            walking.failed = false;
            clq_fail(CLQ_OK, "%s", "");
            clq_memory_ask(walk_fails, NULL);
            const clq_status status = call(context);
            clq_memory_ask(NULL, NULL);
            judge(context, &(walk_step){++number, status, walking.failed});
        }
    }
    return made;
}

static inline void walk_says_memory(void *context, const walk_step *step) {
    (void)context;
    if (step->status == CLQ_OK) return;
    if (!step->failed) fail_msg("fails without a failing allocation: %s", clq_error_detail());
    if (step->status != CLQ_MEMORY || !*clq_error_detail())
        fail_msg("failure %d: %s: \"%s\"", (int)step->number, clq_status_text(step->status), clq_error_detail());
}

/* The call must say MEMORY with a detail, or succeed. */
static inline uint64_t walk_allocations(clq_status (*call)(void *), void *context) {
    return walk_places(call, context, walk_says_memory);
}

#endif
