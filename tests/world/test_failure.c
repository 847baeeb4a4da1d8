/* Worlds that end: a rank fails, dies, stops, is cut off or does not come, or its engine or memory fails. Every rank
 * that can be reached learns which rank it was and what that rank said. No rank waits for ever. */
#include "support/stop.h"
#include "support/world_fabric.h"

#include <stdlib.h>
#include <unistd.h>

enum { FIVE = 5 };
/* Longer than a busy machine may keep a thread from its core. */
enum { SILENCE_S = 4 };
static const clq_world_config brief = {.silence_s = SILENCE_S, .deadline_s = 60};
/* The time from a fault to the last rank's report: the silence, heartbeats one second apart, and a margin for a busy
 * machine. */
static const double told_within_s = SILENCE_S + 16;

typedef struct fault fault;
struct fault {
    unsigned size;
    void (*strike)(fabric *network, fabric_rank *self); /* called by rank `of`, in its turn `turn` */
    unsigned of, turn;
    bool (*is_reached)(unsigned rank); /* NULL: all ranks but `of` */
    const char *word;                  /* part of the error text of the ranks that are reached */
    double began_s;                    /* when the fault struck */
    fabric *network;
    fabric_rank ranks[FABRIC_RANKS_MAX];
};

/* Runs barriers until one fails. */
static void meet_until_it_fails(fabric_rank *self) {
    fault *how = self->context;
    clq_status status = CLQ_OK;
    for (unsigned turn = 0; status == CLQ_OK; turn++) {
        if (self->rank == how->of && turn == how->turn) {
            how->began_s = clq_now();
            how->strike(self->port.network, self);
        }
        status = clq_world_barrier(self->world);
    }
    fabric_note(self, status);
}

static void check(const fault *how) {
    for (unsigned r = 0; r < how->size; r++) {
        const fabric_rank *rank = &how->ranks[r];
        assert_ok(rank->opened);
        assert_int_equal(rank->ended, CLQ_ERROR_ABORTED);
        if (how->is_reached ? how->is_reached(r) : r != how->of) expect_text(rank->detail, how->word);
    }
}

/* Runs all faults at the same time, since they mostly wait. */
static void strike_all(fault *faults, size_t count) {
    for (size_t i = 0; i < count; i++) {
        faults[i].network = fabric_open(faults[i].size, 0, 0);
        fabric_begin(faults[i].network, faults[i].size, &brief, meet_until_it_fails, &faults[i], faults[i].ranks);
    }
    for (size_t i = 0; i < count; i++) fabric_go(faults[i].network);
    for (size_t i = 0; i < count; i++) {
        fabric_end(faults[i].network, faults[i].ranks);
        assert_true(clq_now() - faults[i].began_s < told_within_s);
    }
    for (size_t i = 0; i < count; i++) fabric_close(faults[i].network);
    for (size_t i = 0; i < count; i++) check(&faults[i]);
}

/* ---- a rank that reports its failure ---- */

static void says_so(fabric *network, fabric_rank *self) {
    (void)network;
    clq_world_abort(self->world, "its device is lost\nand more");
}

static void a_failure_is_told_to_all(void **state) {
    (void)state;
    enum { SIZES = 6 };
    static const unsigned sizes[SIZES] = {2, 3, 4, 5, 8, FABRIC_RANKS_MAX};
    fault faults[SIZES];
    for (size_t i = 0; i < SIZES; i++)
        faults[i] = (fault){
            .size = sizes[i], .strike = says_so, .of = sizes[i] / 2, .turn = 3, .word = "device is lost and more"};
    strike_all(faults, SIZES);
}

static void is_named(fabric_rank *self) {
    const bool own = self->rank == 1;
    char named[256] = "a device failed";
    clq_status status = clq_world_barrier(self->world); /* all ranks have opened the world */
    if (own) clq_world_fail(self->world, &(clq_error){CLQ_ERROR_DEVICE, "a device failed"});
    while (status == CLQ_OK) status = clq_world_barrier(self->world);
    if (!own) snprintf(named, sizeof named, "%s: a device failed", clq_world_name(self->world, 1));
    const bool is_right =
        status == (own ? CLQ_ERROR_DEVICE : CLQ_ERROR_ABORTED) && strcmp(clq_error_detail(), named) == 0;
    fabric_note(self, is_right && clq_world_failure(self->world) == status ? CLQ_OK : status);
}

static void the_rank_and_its_host_are_named(void **state) {
    (void)state;
    fabric_rank ranks[3];
    fabric *network = fabric_open(3, 0, 0);
    fabric_run(network, 3, &brief, is_named, NULL, ranks);
    fabric_close(network);
    for (unsigned r = 0; r < 3; r++)
        if (ranks[r].ended != CLQ_OK) fail_msg("rank %u: %s", r, ranks[r].detail);
}

static void fails_at_once(fabric_rank *self) {
    clq_world_fail(self->world, &(clq_error){CLQ_ERROR_DEVICE, "a device failed"});
    fabric_note(self, CLQ_OK);
}

/* Ranks 0 and 2 never hear of each other, and so do not know each other's hosts. Rank 1 knows both. Rank 0 or 2 may be
 * gone before the other has been told. */
static void it_is_named_to_those_who_open(void **state) {
    (void)state;
    char host[64] = "", name[128];
    fabric_rank ranks[3];
    fabric *network = fabric_open(3, 0, 0);
    fabric_cut(network, 0, 2);
    fabric_run(network, 3, &brief, fails_at_once, NULL, ranks);
    fabric_close(network);
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    snprintf(name, sizeof name, "rank 1 on %s: a device failed", host);
    assert_ok(ranks[1].opened);
    assert_true(ranks[0].opened == CLQ_ERROR_ABORTED || ranks[2].opened == CLQ_ERROR_ABORTED);
    for (unsigned r = 0; r < 3; r += 2) {
        assert_true(ranks[r].opened != CLQ_OK);
        if (ranks[r].opened == CLQ_ERROR_ABORTED) assert_string_equal(ranks[r].detail, name);
    }
}

/* ---- a rank that falls silent ---- */

static void dies(fabric *network, fabric_rank *self) { fabric_kill(network, self->rank); }

static void two_die(fabric *network, fabric_rank *self) {
    fabric_kill(network, self->rank);
    fabric_kill(network, self->rank + 1);
}
static bool others_than_two_and_three(unsigned rank) { return rank != 2 && rank != 3; }

static void is_cut_off(fabric *network, fabric_rank *self) {
    for (unsigned r = 0; r < FIVE; r++)
        if (r != self->rank) fabric_cut(network, self->rank, r);
}

static void a_link_breaks(fabric *network, fabric_rank *self) {
    (void)self;
    fabric_cut(network, 0, 1);
}
static bool anyone(unsigned rank) {
    (void)rank;
    return true;
}

static bool three_alone(unsigned rank) { return rank == 3; }

static void is_stopped(fabric *network, fabric_rank *self) {
    fabric_hold(network, self->rank, clq_now() + SILENCE_S + 3);
}

static void the_silent_are_missed(void **state) {
    (void)state;
    static const char silent[] = "nothing heard for 4 s", of_one[] = "rank 1 on ", of_three[] = "rank 3 on ";
    fault faults[] = {
        {.size = 2, .strike = dies, .of = 1, .turn = 2, .word = of_one},
        {.size = FIVE, .strike = dies, .of = 3, .turn = 2, .word = of_three},
        {.size = 7, .strike = two_die, .of = 2, .turn = 1, .is_reached = others_than_two_and_three, .word = silent},
        {.size = FIVE, .strike = is_cut_off, .of = 3, .turn = 1, .word = of_three},
        {.size = FIVE, .strike = is_cut_off, .of = 3, .turn = 1, .is_reached = anyone, .word = silent},
        {.size = FIVE, .strike = is_cut_off, .of = 3, .turn = 1, .is_reached = three_alone, .word = ", nor from rank "},
        {.size = 2, .strike = a_link_breaks, .of = 0, .turn = 1, .is_reached = anyone, .word = silent},
        {.size = 3, .strike = is_stopped, .of = 1, .turn = 1, .word = of_one},
    };
    strike_all(faults, CLQ_COUNT_OF(faults));
}

/* ---- an engine that does not return from closing ---- */

static void leaves_late(fabric_rank *self) {
    fabric_note(self, clq_world_barrier(self->world));
    if (self->rank == 1) fabric_hold_close(self->port.network, 1, clq_now() + 9);
}

static void an_engine_that_does_not_return_is_left(void **state) {
    (void)state;
    fabric_rank ranks[2];
    fabric *network = fabric_open(2, 0, 0);
    const double began = clq_now();
    fabric_run(network, 2, &brief, leaves_late, NULL, ranks);
    assert_within((unsigned)(clq_now() - began), 5, 8);
    while (fabric_is_open(network, 1)) nap(0.1); /* its thread returns, and frees its memory */
    fabric_close(network);
    for (unsigned r = 0; r < 2; r++) assert_ok(ranks[r].ended);
}

/* ---- a rank that is alive but does not come ---- */

static void waits_in_vain(fabric_rank *self) {
    const unsigned late = *(const unsigned *)self->context;
    clq_status status = CLQ_OK;
    while (status == CLQ_OK && self->rank == late) {
        nap(1e-2);
        status = clq_world_failure(self->world);
    }
    fabric_note(self, self->rank == late ? status : clq_world_barrier(self->world));
}

/* Each rank waits for its neighbor, which waits for another. Heartbeats tell for which rank each one waits. */
static void the_late_are_named(void **state) {
    (void)state;
    for (unsigned late = 2; late < FIVE; late += 2) {
        fabric_rank ranks[FIVE];
        unsigned timeouts = 0;
        char name[32];
        snprintf(name, sizeof name, "rank %u on ", late);
        fabric *network = fabric_open(FIVE, 0, 0);
        fabric_run(network, FIVE, &(clq_world_config){.silence_s = 60, .deadline_s = 5}, waits_in_vain, &late, ranks);
        fabric_close(network);
        for (unsigned r = 0; r < FIVE; r++) {
            expect_text(ranks[r].detail, "did not come to a barrier within the deadline of 5 s");
            expect_text(ranks[r].detail, name);
            timeouts += ranks[r].ended == CLQ_ERROR_TIMEOUT;
            assert_true(ranks[r].ended == CLQ_ERROR_TIMEOUT || ranks[r].ended == CLQ_ERROR_ABORTED);
        }
        assert_within(timeouts, 1, FIVE - 1);
    }
}

/* ---- no false alarm ---- */

static void keeps_on(fabric_rank *self) {
    const double until = clq_now() + 4;
    if (self->rank == 1) fabric_hold(self->port.network, 1, clq_now() + 2);
    clq_status status = CLQ_OK;
    unsigned char ends = 0, all[FABRIC_RANKS_MAX];
    for (bool over = false; status == CLQ_OK && !over;) { /* rank 0's clock decides when to end */
        if (self->rank == 0) ends = clq_now() > until;
        status = clq_world_gather(self->world, &ends, 1, all);
        over = all[0] != 0;
    }
    fabric_note(self, status);
}

static void short_pauses_are_borne(void **state) {
    (void)state;
    fabric_rank ranks[4];
    fabric *network = fabric_open(4, 0, 0);
    fabric_run(network, 4, &(clq_world_config){.silence_s = 5}, keeps_on, NULL, ranks);
    fabric_close(network);
    for (unsigned r = 0; r < 4; r++)
        if (ranks[r].ended != CLQ_OK) fail_msg("rank %u: %s", r, ranks[r].detail);
}

static void is_stopped_whole(fabric_rank *self) {
    clq_status status = clq_world_barrier(self->world);
    if (self->rank == 0) stop_process(SILENCE_S + 2);
    for (unsigned turn = 0; status == CLQ_OK && turn < 3; turn++) status = clq_world_barrier(self->world);
    fabric_note(self, status);
}

static void a_process_that_was_stopped_blames_nobody(void **state) {
    (void)state;
    fabric_rank ranks[2];
    fabric *network = fabric_open(2, 0, 0);
    fabric_run(network, 2, &brief, is_stopped_whole, NULL, ranks);
    fabric_close(network);
    for (unsigned r = 0; r < 2; r++)
        if (ranks[r].ended != CLQ_OK) fail_msg("rank %u: %s", r, ranks[r].detail);
}

/* ---- engines and memory that fail ---- */

static void uses_all(fabric_rank *self) {
    unsigned tag;
    char data[100] = "", all[300];
    const unsigned size = clq_world_size(self->world), rank = self->rank;
    clq_status status = clq_world_new_tags(self->world, 1, &tag);
    if (status == CLQ_OK) status = clq_world_gather(self->world, data, sizeof data, all);
    if (status == CLQ_OK && rank == 0) status = clq_world_send(self->world, 1, tag, data, sizeof data, 0);
    if (status == CLQ_OK && rank == 1) status = clq_world_receive(self->world, 0, tag, data, sizeof data, 0);
    if (status == CLQ_OK) status = clq_world_agree(self->world, "model", (clq_hash128){size, size});
    if (status == CLQ_OK) status = clq_world_barrier(self->world);
    fabric_note(self, status);
}

/* The rank that a fault hits fails with `status`. The other ranks are told, or find the rank gone, or nobody notices
 * the fault. */
static bool ends_so(const fabric_rank *self, clq_status status) {
    return self->ended == CLQ_OK || self->ended == status || self->ended == CLQ_ERROR_ABORTED ||
           (self->ended == CLQ_ERROR_SYSTEM && strstr(self->detail, "the rank is gone"));
}

enum { ENGINE_CALLS = 24 }; /* all uses of a rank together make at least this many calls */

static void each_call_of_an_engine_fails(void **state) {
    (void)state;
    fabric_rank ranks[3];
    unsigned failed = 0;
    for (unsigned nth = 1; nth <= ENGINE_CALLS; nth++) {
        fabric *network = fabric_open(3, 0, 0);
        fabric_fail_at(network, 1, nth);
        fabric_run(network, 3, &(clq_world_config){.silence_s = SILENCE_S, .deadline_s = 20}, uses_all, NULL, ranks);
        fabric_close(network);
        if (ranks[1].ended == CLQ_ERROR_SYSTEM) expect_text(ranks[1].detail, "as asked for");
        for (unsigned r = 0; r < 3; r++)
            if (!ends_so(&ranks[r], CLQ_ERROR_SYSTEM))
                fail_msg("call %u, rank %u: %s: %s", nth, r, clq_status_text(ranks[r].ended), ranks[r].detail);
        failed += ranks[1].ended == CLQ_ERROR_SYSTEM;
    }
    assert_within(failed, ENGINE_CALLS / 2, ENGINE_CALLS);
}

/* An allocation of any thread fails. The rank of that thread fails and the other rank is told, or neither rank
 * notices. */
static void each_allocation_fails(void **state) {
    (void)state;
    fabric_rank ranks[2];
    uint64_t made = 1;
    unsigned runs = 0, ended_so = 0;
    for (int sticky = 0; sticky < 2; sticky++)
        for (uint64_t nth = 1; nth <= made; nth++) {
            fabric *network = fabric_open(2, 0, 0);
            fabric_begin(network, 2, &brief, uses_all, NULL, ranks);
            clq_memory_fail_at(nth, sticky);
            fabric_end(network, ranks);
            made = clq_memory_fail_at(0, false);
            fabric_close(network);
            runs++;
            ended_so += ranks[0].ended == CLQ_ERROR_MEMORY || ranks[1].ended == CLQ_ERROR_MEMORY;
            for (unsigned r = 0; r < 2; r++)
                if (!ends_so(&ranks[r], CLQ_ERROR_MEMORY))
                    fail_msg("allocation %d: %s: %s", (int)nth, clq_status_text(ranks[r].ended), ranks[r].detail);
        }
    assert_within(runs, 2 * 8, 2 * 100);
    assert_within(ended_so, runs / 2, runs); /* a run with fewer allocations than the run before has no failure */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_is_told_to_all),
        cmocka_unit_test(the_rank_and_its_host_are_named),
        cmocka_unit_test(it_is_named_to_those_who_open),
        cmocka_unit_test(the_silent_are_missed),
        cmocka_unit_test(an_engine_that_does_not_return_is_left),
        cmocka_unit_test(the_late_are_named),
        cmocka_unit_test(short_pauses_are_borne),
        cmocka_unit_test(a_process_that_was_stopped_blames_nobody),
        cmocka_unit_test(each_call_of_an_engine_fails),
        cmocka_unit_test(each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
