/* Carries out schedules on arrays as walk.c does: every algorithm and collective, n = 2 to 9. Each cell records the
 * terms of its sum and a hash of their order. */
#include "comm/schedule/schedule.h"
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 9, PARTS_BYTES = 64, ROOM = MOST * MOST * PARTS_BYTES };

/* A byte's content: how often each rank's input byte is in the sum, at which place in the input that byte was, and in
 * which order the sum was made. */
typedef struct cell {
    unsigned char times[MOST];
    unsigned origin; /* byte of the input; NOTHING: never written */
    uint32_t order;
} cell;
enum { NOTHING = 0xFFFFFFFF };

typedef struct world {
    clq_schedule schedule;
    cell *places[MOST][CLQ_PLACE_COUNT];
} world;

static cell combine(cell a, cell b) {
    assert_int_equal(a.origin, b.origin);
    cell c = a;
    for (unsigned r = 0; r < MOST; r++) c.times[r] = (unsigned char)(a.times[r] + b.times[r]);
    /* Symmetric in a and b, but different for different trees of sums. */
    c.order = (a.order ^ b.order) * 2654435761u + a.order * b.order + 1;
    return c;
}

static void fill(world *w, size_t in_bytes) {
    for (unsigned r = 0; r < w->schedule.ranks; r++)
        for (unsigned p = 0; p < CLQ_PLACE_COUNT; p++)
            for (size_t i = 0; i < ROOM; i++) {
                cell *c = &w->places[r][p][i];
                *c = (cell){.origin = NOTHING};
                if (p != CLQ_PLACE_IN || i >= in_bytes) continue;
                c->origin = (unsigned)i;
                c->times[r] = 1;
                c->order = r * 40503u + 7;
            }
}

/* One round of all ranks. All sends come before all receives: a rank sends what its place held before the round. */
static void run_round(world *w, unsigned phase, unsigned round) {
    static cell flying[MOST][ROOM];
    unsigned n = w->schedule.ranks;
    for (unsigned r = 0; r < n; r++) {
        clq_hop mine = clq_schedule_hop(&w->schedule, phase, r, round);
        if (mine.sent.bytes == 0) continue;
        assert_true(mine.to < n && mine.to != r && mine.sent.bytes <= w->schedule.phase[phase].most_bytes);
        clq_hop other = clq_schedule_hop(&w->schedule, phase, mine.to, round);
        assert_true(other.from == r && other.received.bytes == mine.sent.bytes);
        memcpy(flying[mine.to], w->places[r][mine.sent.place] + mine.sent.begin, mine.sent.bytes * sizeof(cell));
    }
    for (unsigned r = 0; r < n; r++) {
        clq_hop mine = clq_schedule_hop(&w->schedule, phase, r, round);
        if (mine.received.bytes == 0) continue;
        assert_true(clq_schedule_hop(&w->schedule, phase, mine.from, round).sent.bytes > 0);
        if (mine.received.place == CLQ_PLACE_WORK)
            assert_true(mine.received.begin + mine.received.bytes <= w->schedule.work_bytes);
        for (size_t i = 0; i < mine.received.bytes; i++) {
            cell *to = w->places[r][mine.received.place] + mine.received.begin + i;
            *to = mine.reduced ? combine(w->places[r][mine.operand.place][mine.operand.begin + i], flying[r][i])
                               : flying[r][i];
        }
    }
}

static void run(world *w, clq_collective collective) {
    for (unsigned r = 0; r < w->schedule.ranks; r++) {
        clq_range own = clq_schedule_own(&w->schedule, collective, r);
        memmove(w->places[r][CLQ_PLACE_OUT] + own.begin, w->places[r][CLQ_PLACE_IN], own.bytes * sizeof(cell));
    }
    for (unsigned p = 0; p < w->schedule.phases; p++)
        for (unsigned round = 0; round < w->schedule.phase[p].rounds; round++) run_round(w, p, round);
}

/* For byte i of a rank's output: its byte in the inputs, and the rank of that input (s->ranks means the sum of all
 * ranks). */
static void expected(clq_collective collective, const clq_schedule *s, unsigned rank, size_t i, size_t *origin,
                     unsigned *whose) {
    *origin = i;
    *whose = s->ranks;
    if (collective == CLQ_REDUCE_SCATTER) *origin = rank * s->bytes + i;
    if (collective == CLQ_ALL_GATHER) {
        *origin = i % s->bytes;
        *whose = (unsigned)(i / s->bytes);
    }
    if (collective == CLQ_BROADCAST || collective == CLQ_SEND_RECV) *whose = s->root;
}

static void check(const world *w, clq_collective collective) {
    const clq_schedule *s = &w->schedule;
    for (unsigned rank = 0; rank < s->ranks; rank++) {
        size_t bytes = clq_collective_out_bytes(collective, s->ranks, rank, s->root, s->to, s->bytes);
        const cell *out = w->places[rank][CLQ_PLACE_OUT];
        for (size_t i = 0; i < bytes; i++) {
            size_t origin;
            unsigned whose;
            expected(collective, s, rank, i, &origin, &whose);
            bool right = out[i].origin == origin;
            for (unsigned r = 0; r < s->ranks; r++)
                right = right && out[i].times[r] == (whose == s->ranks || whose == r ? 1 : 0);
            if (!right)
                fail_msg("%s of %u ranks, root %u: byte %zu of rank %u", clq_collective_name(collective), s->ranks,
                         s->root, i, rank);
            if (collective == CLQ_ALL_REDUCE && out[i].order != w->places[0][CLQ_PLACE_OUT][i].order)
                fail_msg("%u ranks: byte %zu of rank %u was summed in another order than rank 0's", s->ranks, i, rank);
        }
    }
}

static void check_one(world *w, clq_algorithm algorithm, clq_collective collective, unsigned n, unsigned root,
                      unsigned to, size_t bytes, const clq_islands *islands) {
    clq_schedule_make(algorithm, collective, n, root, to, bytes, islands, &w->schedule);
    fill(w, clq_collective_in_bytes(collective, n, root, root, bytes));
    run(w, collective);
    check(w, collective);
}

static void each_count(void (*body)(world *w, unsigned n, size_t bytes)) {
    world w = {0};
    for (unsigned r = 0; r < MOST; r++)
        for (unsigned p = 0; p < CLQ_PLACE_COUNT; p++) {
            w.places[r][p] = clq_alloc(ROOM, sizeof(cell));
            assert_non_null(w.places[r][p]);
        }
    for (unsigned n = 2; n <= MOST; n++) {
        const size_t sizes[] = {4, 64, 64 * n, 64 * (n - 1) + 4};
        for (size_t i = 0; i < CLQ_COUNT_OF(sizes); i++) body(&w, n, sizes[i]);
    }
    for (unsigned r = 0; r < MOST; r++)
        for (unsigned p = 0; p < CLQ_PLACE_COUNT; p++) clq_free(w.places[r][p]);
}

static void all_reduces(world *w, unsigned n, size_t bytes) {
    const clq_algorithm algorithms[] = {CLQ_ALGORITHM_RING, CLQ_ALGORITHM_REDUCE_TO_ONE, CLQ_ALGORITHM_DOUBLING,
                                        CLQ_ALGORITHM_TORUS};
    for (size_t a = 0; a < CLQ_COUNT_OF(algorithms); a++)
        check_one(w, algorithms[a], CLQ_ALL_REDUCE, n, 0, 0, bytes, NULL);
}

/* Islands of one rank each, one island of all ranks, and uneven islands whose members are not adjacent. */
static void hierarchies(world *w, unsigned n, size_t bytes) {
    for (unsigned modulus = 1; modulus <= n; modulus++) {
        unsigned names[MOST];
        for (unsigned r = 0; r < n; r++) names[r] = r * r % modulus;
        clq_islands islands;
        clq_islands_make(names, n, &islands);
        check_one(w, CLQ_ALGORITHM_HIERARCHICAL, CLQ_ALL_REDUCE, n, 0, 0, bytes, &islands);
    }
}

static void others(world *w, unsigned n, size_t bytes) {
    check_one(w, CLQ_ALGORITHM_RING, CLQ_REDUCE_SCATTER, n, 0, 0, bytes, NULL);
    check_one(w, CLQ_ALGORITHM_RING, CLQ_ALL_GATHER, n, 0, 0, bytes, NULL);
    for (unsigned root = 0; root < n; root++) {
        check_one(w, CLQ_ALGORITHM_RING, CLQ_BROADCAST, n, root, 0, bytes, NULL);
        check_one(w, CLQ_ALGORITHM_RING, CLQ_REDUCE, n, root, 0, bytes, NULL);
        for (unsigned to = 0; to < n; to++) check_one(w, CLQ_ALGORITHM_RING, CLQ_SEND_RECV, n, root, to, bytes, NULL);
    }
}

static void test_all_reduce(void **state) {
    (void)state;
    each_count(all_reduces);
}
static void test_hierarchical(void **state) {
    (void)state;
    each_count(hierarchies);
}
static void test_others(void **state) {
    (void)state;
    each_count(others);
}

/* The ring moves the least possible number of bytes. */
static void test_ring_bytes(void **state) {
    (void)state;
    for (unsigned n = 2; n <= MOST; n++) {
        clq_schedule s;
        size_t bytes = 6400 * n, sent = 0;
        clq_schedule_make(CLQ_ALGORITHM_RING, CLQ_ALL_REDUCE, n, 0, 0, bytes, NULL, &s);
        for (unsigned round = 0; round < s.phase[0].rounds; round++)
            sent += clq_schedule_hop(&s, 0, n - 1, round).sent.bytes;
        assert_int_equal(sent, 2 * (n - 1) * bytes / n);
    }
}

/* A torus moves as many bytes as a ring, in fewer rounds. For a prime number of ranks the torus is a ring. */
static void test_torus(void **state) {
    (void)state;
    static const struct {
        unsigned ranks, rounds;
    } cases[] = {{4, 2 + 2},      {6, 2 + 4},         {9, 4 + 4}, {64, 14 + 14},
                 {1250, 48 + 98}, {10000, 198 + 198}, {7, 12},    {2, 2}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        const unsigned n = cases[i].ranks;
        clq_schedule s;
        size_t bytes = (size_t)64 * n, sent = 0;
        unsigned rounds = 0;
        clq_schedule_make(CLQ_ALGORITHM_TORUS, CLQ_ALL_REDUCE, n, 0, 0, bytes, NULL, &s);
        for (unsigned p = 0; p < s.phases; p++) {
            rounds += s.phase[p].rounds;
            for (unsigned round = 0; round < s.phase[p].rounds; round++)
                sent += clq_schedule_hop(&s, p, n - 1, round).sent.bytes;
        }
        assert_int_equal(rounds, cases[i].rounds);
        assert_int_equal(sent, 2 * (n - 1) * bytes / n);
    }
}

/* If an algorithm has no form for a collective, the schedule is a ring, and is reported as one. */
static void test_forms(void **state) {
    (void)state;
    assert_int_equal(clq_schedule_form(CLQ_ALGORITHM_TORUS, CLQ_ALL_REDUCE, 6), CLQ_ALGORITHM_TORUS);
    assert_int_equal(clq_schedule_form(CLQ_ALGORITHM_TORUS, CLQ_ALL_REDUCE, 7), CLQ_ALGORITHM_RING);
    assert_int_equal(clq_schedule_form(CLQ_ALGORITHM_DOUBLING, CLQ_ALL_REDUCE, 7), CLQ_ALGORITHM_DOUBLING);
    for (int c = 0; c < CLQ_COLLECTIVE_COUNT; c++)
        if (c != CLQ_ALL_REDUCE)
            assert_int_equal(clq_schedule_form(CLQ_ALGORITHM_DOUBLING, (clq_collective)c, 8), CLQ_ALGORITHM_RING);
    assert_int_equal(clq_schedule_between(CLQ_ALGORITHM_TORUS, 7, 64), CLQ_ALGORITHM_RING);
}

/* The choice between processes: the fewest messages for few bytes, the fewest bytes for many bytes, and a torus for
 * many processes. */
static void test_between(void **state) {
    (void)state;
    assert_int_equal(clq_schedule_between(CLQ_ALGORITHM_AUTO, 8, 64), CLQ_ALGORITHM_DOUBLING);
    assert_int_equal(clq_schedule_between(CLQ_ALGORITHM_AUTO, 2, 1 << 20), CLQ_ALGORITHM_RING);
    assert_int_equal(clq_schedule_between(CLQ_ALGORITHM_AUTO, 36, 1 << 20), CLQ_ALGORITHM_RING);
    assert_int_equal(clq_schedule_between(CLQ_ALGORITHM_AUTO, 67, 1 << 20), CLQ_ALGORITHM_RING); /* a prime */
    assert_int_equal(clq_schedule_between(CLQ_ALGORITHM_AUTO, 64, 1 << 20), CLQ_ALGORITHM_TORUS);
    assert_int_equal(clq_schedule_between(CLQ_ALGORITHM_AUTO, 10000, 64), CLQ_ALGORITHM_DOUBLING);
    /* A requested algorithm. A star cannot have more ranks than a group. */
    assert_int_equal(clq_schedule_between(CLQ_ALGORITHM_DOUBLING, 64, 1 << 20), CLQ_ALGORITHM_DOUBLING);
    assert_int_equal(clq_schedule_between(CLQ_ALGORITHM_DIRECT, 64, 1 << 20), CLQ_ALGORITHM_TORUS);
    assert_int_equal(clq_schedule_between(CLQ_ALGORITHM_HIERARCHICAL, 64, 1 << 20), CLQ_ALGORITHM_RING);
    assert_int_equal(clq_schedule_between(CLQ_ALGORITHM_REDUCE_TO_ONE, 64, 64), CLQ_ALGORITHM_REDUCE_TO_ONE);
    assert_int_equal(clq_schedule_between(CLQ_ALGORITHM_REDUCE_TO_ONE, 65, 64), CLQ_ALGORITHM_RING);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce), cmocka_unit_test(test_hierarchical), cmocka_unit_test(test_others),
        cmocka_unit_test(test_forms),      cmocka_unit_test(test_ring_bytes),   cmocka_unit_test(test_torus),
        cmocka_unit_test(test_between),
    };
    return cmocka_run_group_tests_name("comm/schedule", tests, NULL, NULL);
}
