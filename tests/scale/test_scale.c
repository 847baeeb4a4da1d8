/* Predicted steps, compared with closed forms, with tables of order statistics, and with a simulation that goes from
 * event to event and knows no item before its time. */
#include "scale/scale.h"
#include "support/check.h"

#include <math.h>

enum { RANKS_MOST = 9, ITEMS_MOST = 4096 };

static const clq_scale_link plain = {.latency_s = 20e-6, .byte_s = 1e-9, .message_s = 3e-6, .add_byte_s = 0.2e-9};

static clq_schedule make(clq_algorithm algorithm, clq_collective collective, unsigned ranks, size_t bytes) {
    clq_schedule schedule;
    clq_schedule_make(algorithm, collective, ranks, 0, 0, bytes, NULL, &schedule);
    return schedule;
}

static double walk(const clq_schedule *schedule, const clq_scale_link *link, bool by_one) {
    double seconds;
    assert_ok(clq_scale_walk(schedule, link, by_one, &seconds));
    return seconds;
}

static void expect(double found, double expected, double tolerance, const char *what, unsigned n) {
    if (fabs(found - expected) > tolerance * fabs(expected))
        fail_msg("%s, %u ranks: %.12g, expected %.12g", what, n, found, expected);
}

/* ---- closed forms ---- */

static void rings(void **state) {
    (void)state;
    for (unsigned n = 2; n <= 64; n++) {
        enum { part = 64 * 1000 };
        const clq_schedule s = make(CLQ_ALGORITHM_RING, CLQ_ALL_REDUCE, n, n * part);
        const double hop = plain.latency_s + plain.byte_s * part + plain.message_s,
                     expected = 2 * (n - 1) * hop + (n - 1) * plain.add_byte_s * part;
        expect(walk(&s, &plain, false), expected, 1e-12, "ring", n);
        expect(walk(&s, &plain, true), expected, 1e-12, "ring by one", n);
    }
}

/* Along rows and columns of a grid. */
static void tori(void **state) {
    (void)state;
    static const unsigned widths[][2] = {{2, 2}, {2, 3}, {3, 3}, {3, 5}, {4, 6}, {7, 7}, {25, 50}};
    for (size_t i = 0; i < CLQ_COUNT_OF(widths); i++) {
        const unsigned w = widths[i][0], h = widths[i][1], n = w * h;
        const size_t part = 6400;
        const clq_schedule s = make(CLQ_ALGORITHM_TORUS, CLQ_ALL_REDUCE, n, n * part);
        const double row = plain.latency_s + plain.message_s + plain.byte_s * (double)(h * part),
                     column = plain.latency_s + plain.message_s + plain.byte_s * (double)part,
                     expected = 2 * (w - 1) * row + 2 * (h - 1) * column +
                                plain.add_byte_s * (double)((w - 1) * h * part + (h - 1) * part);
        if (n <= 64) expect(walk(&s, &plain, false), expected, 1e-12, "torus", n);
        expect(walk(&s, &plain, true), expected, 1e-12, "torus by one", n);
    }
}

/* Byte counts that do not divide evenly by the number of ranks. If one rank stands for all, it is walked with whole
 * parts. */
static void uneven_rings(void **state) {
    (void)state;
    for (unsigned n = 2; n <= 40; n++) {
        const clq_schedule s = make(CLQ_ALGORITHM_RING, CLQ_ALL_REDUCE, n, 407080);
        clq_scale_link link = plain;
        link.message_bytes = 4096;
        expect(walk(&s, &link, true), walk(&s, &link, false), 64.0 * n / 407080 + 1e-9, "uneven ring", n);
    }
    /* 10,000 ranks have 6,361 parts: each goes round the whole ring. */
    const clq_schedule s = make(CLQ_ALGORITHM_RING, CLQ_ALL_REDUCE, 10000, 407080);
    expect(walk(&s, &plain, true),
           2 * 9999 * (plain.latency_s + plain.message_s + 64 * plain.byte_s) + 9999 * 64 * plain.add_byte_s, 1e-6,
           "ring of small parts", 10000);
}

static void doublings(void **state) {
    (void)state;
    for (unsigned n = 2; n <= 70; n++) {
        enum { bytes = 30000 };
        const clq_schedule s = make(CLQ_ALGORITHM_DOUBLING, CLQ_ALL_REDUCE, n, bytes);
        unsigned levels = 0;
        while (2u << levels <= n) levels++;
        const bool folds = n != 1u << levels;
        const double hop = plain.latency_s + plain.byte_s * bytes + plain.message_s, add = plain.add_byte_s * bytes,
                     expected = (levels + (folds ? 2 : 0)) * hop + (levels + (folds ? 1 : 0)) * add;
        const double found = walk(&s, &plain, false);
        if (!folds) expect(found, expected, 1e-12, "doubling", n);
        /* Folded ranks begin a hop later than the others. The others need not all wait for them at each level. */
        if (found > expected * (1 + 1e-12) || found < expected - hop - add)
            fail_msg("doubling, %u ranks: %g s, with every hop %g", n, found, expected);
        expect(walk(&s, &plain, true), expected, 1e-12, "doubling by one", n);
    }
}

/* Messages follow one another over n - 1 links. The last message leaves when all messages before it have left, and is
 * then passed on. */
static void pipelines(void **state) {
    (void)state;
    clq_scale_link link = plain;
    link.message_bytes = 5000;
    for (unsigned n = 2; n <= RANKS_MOST; n++) {
        const clq_schedule s = make(CLQ_ALGORITHM_RING, CLQ_BROADCAST, n, 20 * 5000);
        const double message = link.byte_s * 5000;
        expect(walk(&s, &link, false), 19 * message + (n - 1) * (message + link.latency_s + link.message_s), 1e-12,
               "broadcast", n);
    }
}

/* All messages come in by the root's one link. */
static void stars(void **state) {
    (void)state;
    const clq_scale_link link = {.byte_s = 1e-9};
    for (unsigned n = 2; n <= RANKS_MOST; n++) {
        const clq_schedule s = make(CLQ_ALGORITHM_REDUCE_TO_ONE, CLQ_ALL_REDUCE, n, 1 << 20);
        expect(walk(&s, &link, false), 2 * (n - 1) * 1e-9 * (1 << 20), 1e-12, "star", n);
    }
}

/* ---- from event to event ---- */

/* A rank as its thread sees it: the next message that it may send, and the next message that it waits for. */
typedef struct agent {
    size_t sent, received;       /* items */
    double link_free, came_free; /* until when the outgoing and the incoming link are busy */
    double busy;                 /* until when the rank processes what came */
    double arrives[ITEMS_MOST];  /* when each item's message arrives; < 0: it has not left */
} agent;

typedef struct network {
    const clq_schedule *schedule;
    const clq_scale_link *link;
    unsigned phase;
    size_t chunks, items;
    agent agents[RANKS_MOST];
} network;

static clq_hop hop_of(const network *w, unsigned rank, size_t item, size_t *sent, size_t *came) {
    const clq_phase *phase = &w->schedule->phase[w->phase];
    const size_t round = phase->by_chunk ? item % phase->rounds : item / w->chunks,
                 skipped = (phase->by_chunk ? item / phase->rounds : item % w->chunks) * w->link->message_bytes;
    const clq_hop hop = clq_schedule_hop(w->schedule, w->phase, rank, (unsigned)round);
    *sent = hop.sent.bytes > skipped ? CLQ_MIN(hop.sent.bytes - skipped, w->link->message_bytes) : 0;
    *came = hop.received.bytes > skipped ? CLQ_MIN(hop.received.bytes - skipped, w->link->message_bytes) : 0;
    return hop;
}

/* Whether a rank does something at `now`. *next: the earliest later time at which the rank may be able to do
 * something. */
static bool act(network *w, unsigned rank, double now, double *next) {
    agent *a = &w->agents[rank];
    size_t sent, came;
    const size_t stride = w->schedule->phase[w->phase].by_chunk ? 1 : w->chunks;
    if (a->busy > now) {
        *next = fmin(*next, a->busy);
    } else if (a->received < w->items) {
        const clq_hop hop = hop_of(w, rank, a->received, &sent, &came);
        if (came == 0) {
            a->received++;
            return true;
        }
        if (a->arrives[a->received] >= 0 && a->arrives[a->received] <= now) {
            a->busy = now + w->link->message_s + (hop.reduced ? w->link->add_byte_s * (double)came : 0);
            a->received++;
            return true;
        }
        if (a->arrives[a->received] >= 0) *next = fmin(*next, a->arrives[a->received]);
    }
    /* A message that the rank still processes is not received yet. */
    const size_t done = a->received - (a->busy > now ? 1 : 0);
    if (a->sent == w->items || (a->sent >= stride && done < a->sent - stride + 1)) return false;
    const clq_hop hop = hop_of(w, rank, a->sent, &sent, &came);
    if (sent > 0 && a->link_free > now) {
        *next = fmin(*next, a->link_free);
        return false;
    }
    if (sent > 0) {
        agent *to = &w->agents[hop.to];
        a->link_free = now + w->link->byte_s * (double)sent;
        to->came_free = fmax(to->came_free, now + w->link->latency_s) + w->link->byte_s * (double)sent;
        to->arrives[a->sent] = to->came_free;
    }
    a->sent++;
    return true;
}

static double play_phase(network *w, double now) {
    double next = now;
    while (next < INFINITY) {
        now = next;
        next = INFINITY;
        for (bool moved = true; moved;) {
            moved = false;
            next = INFINITY;
            for (unsigned r = 0; r < w->schedule->ranks; r++) moved = act(w, r, now, &next) || moved;
        }
    }
    for (unsigned r = 0; r < w->schedule->ranks; r++)
        assert_true(w->agents[r].sent == w->items && w->agents[r].received == w->items);
    return now;
}

static double play(const clq_schedule *schedule, const clq_scale_link *link) {
    static network w;
    assert_int_equal(schedule->phases, 1);
    w = (network){.schedule = schedule, .link = link};
    w.chunks = clq_ceil_div(schedule->phase[0].most_bytes, link->message_bytes);
    w.items = w.chunks * schedule->phase[0].rounds;
    assert_true(w.items <= ITEMS_MOST);
    for (unsigned r = 0; r < schedule->ranks; r++)
        for (size_t i = 0; i < w.items; i++) w.agents[r].arrives[i] = -1;
    return play_phase(&w, 0);
}

static void events(void **state) {
    (void)state;
    static const struct {
        clq_algorithm algorithm;
        clq_collective collective;
    } cases[] = {{CLQ_ALGORITHM_RING, CLQ_ALL_REDUCE},     {CLQ_ALGORITHM_DOUBLING, CLQ_ALL_REDUCE},
                 {CLQ_ALGORITHM_RING, CLQ_REDUCE_SCATTER}, {CLQ_ALGORITHM_RING, CLQ_ALL_GATHER},
                 {CLQ_ALGORITHM_RING, CLQ_BROADCAST},      {CLQ_ALGORITHM_RING, CLQ_REDUCE},
                 {CLQ_ALGORITHM_RING, CLQ_SEND_RECV}};
    /* Links that are bound by the wire, by latency, and by the processor. */
    static const clq_scale_link links[] = {
        {20e-6, 8e-9, 1e-6, 0.1e-9, 4096}, {900e-6, 8e-9, 7e-6, 0.3e-9, 1000}, {5e-6, 0.1e-9, 11e-6, 2e-9, 2048}};
    for (size_t c = 0; c < CLQ_COUNT_OF(cases); c++)
        for (size_t k = 0; k < CLQ_COUNT_OF(links); k++)
            for (unsigned n = 2; n <= RANKS_MOST; n++) {
                /* Folded ranks and others send to one rank at the same time. Their order is arbitrary. */
                if (cases[c].algorithm == CLQ_ALGORITHM_DOUBLING && (n & (n - 1)) != 0) continue;
                const clq_schedule s = make(cases[c].algorithm, cases[c].collective, n, 64 * 331);
                expect(walk(&s, &links[k], false), play(&s, &links[k]), 1e-9, clq_collective_name(cases[c].collective),
                       n);
            }
}

/* ---- the slowest of many ---- */

static void slowest(void **state) {
    (void)state;
    /* Two lognormal draws: 2 Phi(sigma / sqrt 2) times the mean. */
    for (double spread = 0.01; spread < 2; spread *= 3) {
        const double sigma = sqrt(log1p(spread * spread));
        expect(clq_scale_largest(2, spread), erfc(-0.5 * sigma), 1e-9, "two draws", 2);
    }
    /* For small spreads, normal draws: the expected largest values as Harter (1961) tabulates them. */
    static const struct {
        unsigned n;
        double largest;
    } normal[] = {{5, 1.16296}, {10, 1.53875}, {100, 2.50759}, {400, 2.96818}};
    for (size_t i = 0; i < CLQ_COUNT_OF(normal); i++)
        expect((clq_scale_largest(normal[i].n, 1e-5) - 1) / 1e-5, normal[i].largest, 1e-4, "normal draws", normal[i].n);
    assert_true(clq_scale_largest(1, 0.3) == 1 && clq_scale_largest(10000, 0) == 1);
    assert_true(clq_scale_largest(10000, 0.1) > clq_scale_largest(9999, 0.1));
}

/* ---- steps ---- */

/* Two machines, with a link that costs a second per 100 bytes: a ring exchanges 64 k bytes in 0.64 k s. */
static clq_scale_task two_machines(const clq_scale_piece *pieces, size_t count) {
    return (clq_scale_task){.machines = 2,
                            .devices = 1,
                            .forward_s = 1,
                            .backward_s = 2,
                            .update_s = 0.5,
                            .pieces = pieces,
                            .piece_count = count,
                            .between = {.byte_s = 0.01},
                            .algorithm = CLQ_ALGORITHM_RING};
}

static clq_scale_result step_of(const clq_scale_task *task) {
    clq_scale_result result;
    assert_ok(clq_scale_step(task, &result));
    return result;
}

static void steps(void **state) {
    (void)state;
    static const clq_scale_piece pieces[] = {{0.25, 128}, {0.5, 64}, {0.5, 64}, {1, 128}};
    clq_scale_task task = two_machines(pieces, 4);
    /* Buckets of 128 bytes take 1.28 s each. They are complete at 1.5, 2 and 3. Their exchanges end at 2.78, 4.06 and
     * 5.34. */
    task.bucket_bytes = 128;
    clq_scale_result r = step_of(&task);
    assert_int_equal(r.buckets, 3);
    expect(r.exchange_s, 3.84, 1e-12, "exchange", 2);
    expect(r.exposed_s, 2.34, 1e-12, "exposed", 2);
    expect(r.step_s, 5.84, 1e-12, "step", 2);
    expect(r.efficiency, 3.5 / 5.84, 1e-12, "efficiency", 2);
    /* Computing and the exchange one after the other: 3 + 3.84 + 0.5. */
    task.bucket_bytes = CLQ_SCALE_WHOLE;
    expect(step_of(&task).step_s, 7.34, 1e-12, "whole", 2);
    /* A fast link hides all but the last bucket. */
    task.bucket_bytes = 128;
    task.between.byte_s = 0.0001;
    expect(step_of(&task).exposed_s, 0.0128, 1e-9, "hidden", 2);
    /* Waiting for the slower of two machines. */
    task.spread = 0.2;
    expect(step_of(&task).waiting_s, 3 * (erfc(-0.5 * sqrt(log1p(0.04))) - 1), 1e-9, "waiting", 2);
    /* A single device neither waits nor exchanges. */
    task.machines = 1;
    assert_true(step_of(&task).efficiency == 1);
    /* Several devices per machine: to the first device, between machines, and back. Each way inside takes S over the
     * devices' link, in one message. */
    task = two_machines(pieces, 4);
    task.bucket_bytes = CLQ_SCALE_WHOLE;
    task.devices = 2;
    task.inside.byte_s = 0.001;
    expect(step_of(&task).exchange_s, 3.84 + 2 * 0.384, 1e-12, "inside", 2);
}

/* AUTO is the algorithm that the library chooses by bytes. The best algorithm is no worse than any that can be asked
 * for. */
static void best(void **state) {
    (void)state;
    static const clq_scale_piece few[] = {{1, 4096}}, many[] = {{0.3, 40 << 20}, {0.7, 20 << 20}, {1, 40 << 20}};
    clq_scale_task task = two_machines(few, 1);
    task.machines = 64;
    task.between = plain;
    task.between.message_bytes = 60 << 10;
    task.algorithm = CLQ_ALGORITHM_AUTO;
    const double automatic = step_of(&task).step_s;
    task.algorithm = CLQ_ALGORITHM_DOUBLING;
    assert_true(automatic == step_of(&task).step_s);
    static const clq_algorithm all[] = {CLQ_ALGORITHM_RING, CLQ_ALGORITHM_DOUBLING, CLQ_ALGORITHM_TORUS};
    clq_scale_result found;
    for (unsigned machines = 2; machines <= 1024; machines *= 8) {
        task.pieces = many;
        task.piece_count = 3;
        task.machines = machines;
        assert_ok(clq_scale_best(&task, &found));
        for (unsigned a = 0; a < 3; a++)
            for (size_t bytes = 1 << 20; bytes <= 256 << 20; bytes *= 4) {
                task.algorithm = all[a];
                task.bucket_bytes = bytes;
                assert_true(found.step_s <= step_of(&task).step_s * (1 + 1e-12));
            }
        task.algorithm = found.algorithm;
        task.bucket_bytes = found.bucket_bytes;
        assert_true(found.step_s == step_of(&task).step_s);
    }
}

static void failures(void **state) {
    (void)state;
    static const clq_scale_piece piece = {1, 1 << 20};
    clq_scale_task task = two_machines(&piece, 1);
    clq_scale_result result;
    task.devices = 4;
    clq_memory_fail_at(0, false);
    assert_ok(clq_scale_best(&task, &result));
    const uint64_t allocations = clq_memory_fail_at(0, false);
    assert_true(allocations > 0);
    for (uint64_t i = 1; i <= allocations; i += 7) {
        clq_memory_fail_at(i, false);
        assert_int_equal(clq_scale_best(&task, &result), CLQ_ERROR_MEMORY);
    }
    clq_memory_fail_at(0, false);
    for (unsigned i = 0; i < 4; i++) {
        clq_scale_task wrong = task;
        if (i == 0) wrong.machines = 0;
        if (i == 1) wrong.devices = 0;
        if (i == 2) wrong.devices = CLQ_REPLICAS_MAX + 1;
        if (i == 3) wrong.piece_count = 0;
        assert_int_equal(clq_scale_step(&wrong, &result), CLQ_ERROR_ARGUMENT);
        assert_int_equal(clq_scale_best(&wrong, &result), CLQ_ERROR_ARGUMENT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings),     cmocka_unit_test(tori),      cmocka_unit_test(uneven_rings),
        cmocka_unit_test(doublings), cmocka_unit_test(pipelines), cmocka_unit_test(stars),
        cmocka_unit_test(events),    cmocka_unit_test(slowest),   cmocka_unit_test(steps),
        cmocka_unit_test(best),      cmocka_unit_test(failures),
    };
    return cmocka_run_group_tests_name("scale/scale", tests, NULL, NULL);
}
