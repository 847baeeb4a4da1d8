#include "support/stop.h"

#include <stdio.h>

enum { MANY = 6 };

typedef struct party {
    struct crowd *crowd;
    unsigned index;
    unsigned rounds; /* barriers that this party has passed: two in each round of the crowd */
    clq_status ended;
} party;

typedef struct crowd {
    clq_barrier *barrier;
    unsigned parties, rounds;
    unsigned abort_in; /* party 0 aborts in this round; larger than `rounds`: no party aborts */
    double late;       /* in seconds: party 0 comes this late in every fourth round, so that the others fall asleep */
    unsigned turns;    /* rounds of all parties; not atomic: the barrier keeps the parties apart */
    party members[MANY];
} crowd;

/* In each round one party alone writes `turns`, and all parties read it in the next round. If the barrier let a party
 * through early, there would be a data race and a wrong number. */
static void march(void *context) {
    party *self = context;
    crowd *all = self->crowd;
    for (unsigned round = 0; round < all->rounds; round++) {
        if (self->index == 0 && round == all->abort_in) clq_barrier_abort(all->barrier);
        if (self->index == 0 && all->late > 0 && round % 4 == 0) nap(all->late);
        if (round % all->parties == self->index) all->turns++;
        self->ended = clq_barrier_wait(all->barrier, 60);
        if (self->ended != CLQ_OK) return;
        self->rounds++;
        if (all->turns != round + 1) self->ended = CLQ_ERROR_STATE;
        if (self->ended != CLQ_OK) return;
        self->ended = clq_barrier_wait(all->barrier, 0);
        if (self->ended != CLQ_OK) return;
        self->rounds++;
    }
}

static void march_all(crowd *all) {
    clq_thread *threads[MANY];
    assert_ok(clq_barrier_create(all->parties, &all->barrier));
    for (unsigned i = 0; i < all->parties; i++) {
        all->members[i] = (party){.crowd = all, .index = i};
        assert_ok(clq_thread_start("party", march, &all->members[i], &threads[i]));
    }
    for (unsigned i = 0; i < all->parties; i++) clq_thread_join(threads[i]);
}

static void keeps_all_in_step(void **state) {
    (void)state;
    for (unsigned parties = 1; parties <= MANY; parties++) {
        crowd all = {.parties = parties, .rounds = 1000, .abort_in = UINT32_MAX};
        march_all(&all);
        for (unsigned i = 0; i < parties; i++) {
            assert_int_equal(all.members[i].ended, CLQ_OK);
            assert_int_equal(all.members[i].rounds, 2 * 1000);
        }
        assert_int_equal(all.turns, 1000);
        clq_barrier_destroy(all.barrier);
    }
}

static void sleepers_wake(void **state) {
    (void)state;
    crowd all = {.parties = MANY, .rounds = 40, .abort_in = UINT32_MAX, .late = 0.002};
    march_all(&all);
    for (unsigned i = 0; i < MANY; i++) assert_int_equal(all.members[i].rounds, 2 * 40);
    clq_barrier_destroy(all.barrier);
}

static void an_abort_ends_all(void **state) {
    (void)state;
    for (unsigned trial = 0; trial < 200; trial++) {
        crowd all = {.parties = 2 + trial % (MANY - 1), .rounds = 1000, .abort_in = trial % 20};
        all.late = trial % 10 == 0 ? 0.001 : 0;
        march_all(&all);
        for (unsigned i = 0; i < all.parties; i++) {
            assert_int_equal(all.members[i].ended, CLQ_ERROR_ABORTED);
            assert_int_equal(all.members[i].rounds, 2 * all.abort_in); /* all saw the same rounds end well */
        }
        assert_fails(CLQ_ERROR_ABORTED, "was aborted", clq_barrier_wait(all.barrier, 0));
        clq_barrier_abort(all.barrier);
        assert_int_equal(clq_barrier_wait(all.barrier, 1), CLQ_ERROR_ABORTED);
        clq_barrier_destroy(all.barrier);
    }
}

static void wait_once(void *context) {
    party *self = context;
    self->ended = clq_barrier_wait(self->crowd->barrier, 60);
}

static void a_deadline_leaves_the_barrier_whole(void **state) {
    (void)state;
    crowd all = {0};
    party other = {.crowd = &all};
    clq_thread *thread;
    assert_ok(clq_barrier_create(2, &all.barrier));
    double before = clq_now();
    assert_fails(CLQ_ERROR_TIMEOUT, "only 1 of 2", clq_barrier_wait(all.barrier, 0.02));
    assert_true(clq_now() - before >= 0.02);
    assert_int_equal(clq_barrier_wait(all.barrier, 1e-9), CLQ_ERROR_TIMEOUT);
    for (int round = 0; round < 3; round++) { /* a party that left is not counted: both must come */
        other.ended = CLQ_ERROR_STATE;
        assert_ok(clq_thread_start("other", wait_once, &other, &thread));
        assert_ok(clq_barrier_wait(all.barrier, 60));
        clq_thread_join(thread);
        assert_int_equal(other.ended, CLQ_OK);
        assert_int_equal(clq_barrier_wait(all.barrier, 0.001), CLQ_ERROR_TIMEOUT);
    }
    clq_barrier_destroy(all.barrier);
}

/* Deadlines that end close to the moment when the last party comes. Either both parties pass, or the impatient party
 * gets CLQ_ERROR_TIMEOUT. */
static void impatient(void *context) {
    party *self = context;
    for (unsigned round = 0; round < 200; round++) {
        clq_status status;
        do status = clq_barrier_wait(self->crowd->barrier, 100e-6);
        while (status == CLQ_ERROR_TIMEOUT);
        if (status != CLQ_OK) return;
        self->rounds++;
    }
}

static void patient(void *context) {
    party *self = context;
    for (unsigned round = 0; round < 200; round++) {
        nap(1e-6 * (round % 10));
        if (clq_barrier_wait(self->crowd->barrier, 0) != CLQ_OK) return;
        self->rounds++;
    }
}

static void deadlines_race_with_arrivals(void **state) {
    (void)state;
    crowd all = {0};
    party one = {.crowd = &all}, two = {.crowd = &all};
    clq_thread *threads[2];
    assert_ok(clq_barrier_create(2, &all.barrier));
    assert_ok(clq_thread_start("impatient", impatient, &one, &threads[0]));
    assert_ok(clq_thread_start("patient", patient, &two, &threads[1]));
    clq_thread_join(threads[0]);
    clq_thread_join(threads[1]);
    assert_int_equal(one.rounds, 200);
    assert_int_equal(two.rounds, 200);
    clq_barrier_destroy(all.barrier);
}

static clq_status create(void *context) {
    (void)context;
    clq_barrier *barrier = NULL;
    clq_status status = clq_barrier_create(3, &barrier);
    clq_barrier_destroy(barrier);
    return status;
}

static void bad_beginnings(void **state) {
    (void)state;
    clq_barrier *barrier = NULL;
    assert_fails(CLQ_ERROR_INTERNAL, "0 threads", clq_barrier_create(0, &barrier));
    assert_fails(CLQ_ERROR_INTERNAL, "threads", clq_barrier_create(UINT32_MAX, &barrier));
    assert_null(barrier);
    clq_barrier_destroy(NULL);
    assert_int_equal(walk_allocations(create, NULL), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_all_in_step),
        cmocka_unit_test(sleepers_wake),
        cmocka_unit_test(an_abort_ends_all),
        cmocka_unit_test(a_deadline_leaves_the_barrier_whole),
        cmocka_unit_test(deadlines_race_with_arrivals),
        cmocka_unit_test(bad_beginnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
