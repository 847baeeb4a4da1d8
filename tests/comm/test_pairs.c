/* Messages from one rank to another. Only sender and receiver meet, and several pairs may do so at the same time. Also:
 * what happens if one of the two does not come, or comes for something else. */
#include "support/check.h"
#include "support/comm_ranks.h"

#include <stdio.h>
#include <unistd.h>

enum { RANKS_MOST = 5, BYTES_MOST = 20011, GUARD = 16 };
static const size_t sizes[] = {0, 1, 61, 4096, BYTES_MOST};

static const clq_group_config settings[] = {
    {.deadline_s = 20},
    {.transport = CLQ_TRANSPORT_STAGED, .algorithm = CLQ_ALGORITHM_RING, .chunk_bytes = 512, .deadline_s = 20},
    {.transport = CLQ_TRANSPORT_MAPPED, .algorithm = CLQ_ALGORITHM_RING, .chunk_bytes = 512, .deadline_s = 20},
    {.transport = CLQ_TRANSPORT_STAGED, .algorithm = CLQ_ALGORITHM_REDUCE_TO_ONE, .slots = 1, .deadline_s = 20}};
static const clq_group_config impatient[] = {
    {.deadline_s = 0.4},
    {.transport = CLQ_TRANSPORT_STAGED, .algorithm = CLQ_ALGORITHM_RING, .chunk_bytes = 512, .deadline_s = 0.4},
    {.transport = CLQ_TRANSPORT_MAPPED, .algorithm = CLQ_ALGORITHM_RING, .chunk_bytes = 512, .deadline_s = 0.4}};

typedef struct plan {
    clq_buffer *buffers[RANKS_MOST];
    atomic_bool first_pair_is_done;
    atomic_uint started;
    uint64_t fail_at; /* the allocation that fails, counted from when all threads run */
    double seconds[RANKS_MOST];
} plan;

static void begin(ranks *all, const char *kinds, const clq_group_config *config, plan *p) {
    *p = (plan){0};
    ranks_open(all, kinds, false, config);
    for (unsigned r = 0; r < all->count; r++)
        assert_ok(
            clq_buffer_create(all->devices[r], CLQ_MEMORY_DEVICE, BYTES_MOST + 2 * GUARD, "test", &p->buffers[r]));
}

static void end(ranks *all, plan *p) {
    for (unsigned r = 0; r < all->count; r++) clq_buffer_destroy(p->buffers[r]);
    ranks_close(all);
}

static unsigned char byte_of(unsigned from, unsigned message, size_t i) {
    return (unsigned char)(from * 31 + message * 7 + i * 13 + i / 251);
}

static clq_status put(ranks *all, plan *p, unsigned rank, unsigned message, size_t bytes) {
    unsigned char values[BYTES_MOST + 2 * GUARD];
    memset(values, 0xee, sizeof values);
    for (size_t i = 0; i < bytes; i++) values[GUARD + i] = byte_of(rank, message, i);
    return clq_queue_write(all->queues[rank], p->buffers[rank], 0, values, sizeof values, true);
}

/* Checks that the message from `from` has arrived, and that the bytes around it are unchanged. */
static clq_status check(ranks *all, plan *p, unsigned rank, unsigned from, unsigned message, size_t bytes) {
    unsigned char values[BYTES_MOST + 2 * GUARD];
    CLQ_TRY(clq_queue_read(all->queues[rank], p->buffers[rank], 0, values, sizeof values, true));
    for (size_t i = 0; i < sizeof values; i++) {
        const bool inside = i >= GUARD && i < GUARD + bytes;
        if (values[i] != (inside ? byte_of(from, message, i - GUARD) : 0xee))
            return clq_fail(CLQ_ERROR_INTERNAL, "message %u from %u to %u: byte %zu of %zu is %d", message, from, rank,
                            i, bytes, values[i]);
    }
    return CLQ_OK;
}

/* The rank's part in a message, as its sender or its receiver. The message is `bytes` bytes of its buffer. */
static clq_status pass(const ranks *all, const plan *p, unsigned rank, unsigned from, unsigned to, size_t offset,
                       size_t bytes) {
    const clq_task task = {.collective = CLQ_SEND_RECV,
                           .queue = all->queues[rank],
                           .in = p->buffers[rank],
                           .in_offset = offset,
                           .out = p->buffers[rank],
                           .out_offset = offset,
                           .count = bytes,
                           .dtype = CLQ_U8,
                           .root = from,
                           .to = to};
    return clq_comm_run(all->comm, rank, &task);
}

static clq_status send(ranks *all, plan *p, unsigned rank, unsigned to, unsigned message, size_t bytes) {
    CLQ_TRY(put(all, p, rank, message, bytes));
    return pass(all, p, rank, rank, to, GUARD, bytes);
}

static clq_status receive(ranks *all, plan *p, unsigned rank, unsigned from, unsigned message, size_t bytes) {
    CLQ_TRY(put(all, p, rank, 99, 0));
    CLQ_TRY(pass(all, p, rank, from, rank, GUARD, bytes));
    return check(all, p, rank, from, message, bytes);
}

/* Messages in both directions between a rank and its partner. The rank with the lower number sends first. */
static clq_status talk(ranks *all, plan *p, unsigned rank, unsigned partner) {
    for (unsigned m = 0; m < 2 * CLQ_COUNT_OF(sizes); m++) {
        const bool mine = (m % 2 == 0) == (rank < partner);
        const size_t bytes = sizes[m / 2];
        CLQ_TRY(mine ? send(all, p, rank, partner, m, bytes) : receive(all, p, rank, partner, m, bytes));
    }
    return CLQ_OK;
}

/* ---- pairs ---- */

/* Ranks 0 and 1 talk while no other rank calls anything. Then ranks 2 and 3 talk. Any further rank calls nothing. */
static clq_status talk_in_turn(ranks *all, unsigned rank, void *context) {
    plan *p = context;
    if (rank > 3) return CLQ_OK;
    while (rank > 1 && !atomic_load(&p->first_pair_is_done) && clq_comm_failure(all->comm, NULL) == CLQ_OK)
        (void)usleep(1000);
    CLQ_TRY(talk(all, p, rank, rank ^ 1));
    if (rank == 1) atomic_store(&p->first_pair_is_done, true);
    return CLQ_OK;
}

static clq_status talk_at_once(ranks *all, unsigned rank, void *context) {
    return rank > 3 ? CLQ_OK : talk(all, context, rank, rank ^ 1);
}

/* With everyone in turn, beside collectives of all. Each sends to the rank after it: even ranks first. */
static clq_status talk_to_each(ranks *all, unsigned rank, void *context) {
    plan *p = context;
    for (unsigned a = 0; a < all->count; a++) {
        for (unsigned b = a + 1; b < all->count; b++)
            if (rank == a || rank == b) CLQ_TRY(talk(all, p, rank, rank == a ? b : a));
        CLQ_TRY(ranks_meet(all->comm, rank));
    }
    return CLQ_OK;
}

static const char *const mixes[] = {"bbbbp", "bpibi", "b1i2b1i2p"};

static void run_all(ranks_body *body) {
    for (size_t k = 0; k < CLQ_COUNT_OF(mixes); k++)
        for (size_t s = 0; s < CLQ_COUNT_OF(settings); s++) {
            ranks all;
            plan p;
            begin(&all, mixes[k], &settings[s], &p);
            ranks_run(&all, body, &p);
            ranks_expect_ok(&all);
            end(&all, &p);
        }
}

static void two_meet_without_the_others(void **state) {
    (void)state;
    run_all(talk_in_turn);
}

static void pairs_talk_at_the_same_time(void **state) {
    (void)state;
    run_all(talk_at_once);
}

static void every_pair_beside_collectives(void **state) {
    (void)state;
    run_all(talk_to_each);
}

/* ---- failures ---- */

static void expect_failure(const ranks *all, clq_status status, const char *part) {
    clq_error failure;
    assert_int_equal(clq_comm_failure(all->comm, &failure), status);
    expect_text(failure.detail, part);
}

typedef clq_status act(ranks *all, plan *p, unsigned rank);
typedef struct trouble {
    plan *p;
    act *acts;
} trouble;

static clq_status run_act(ranks *all, unsigned rank, void *context) {
    const trouble *t = context;
    const double start = clq_now();
    clq_status status = t->acts(all, t->p, rank);
    t->p->seconds[rank] = clq_now() - start;
    return status;
}

/* Rank 2 sends to rank 1, which never comes. Ranks 0 and 3 wait in a barrier of all ranks. */
static clq_status one_is_missing(ranks *all, plan *p, unsigned rank) {
    if (rank == 1) return CLQ_OK;
    return rank == 2 ? send(all, p, 2, 1, 0, 5000) : ranks_meet(all->comm, rank);
}

static void a_rank_that_does_not_come_ends_all(void **state) {
    (void)state;
    for (size_t s = 0; s < CLQ_COUNT_OF(impatient); s++) {
        ranks all;
        plan p;
        begin(&all, "bbbp", &impatient[s], &p);
        trouble t = {&p, one_is_missing};
        ranks_run(&all, run_act, &t);
        expect_failure(&all, CLQ_ERROR_TIMEOUT, "rank 1 on pocl");
        for (unsigned r = 0; r < all.count; r++) {
            if (r == 1) continue;
            assert_true(all.results[r].status == CLQ_ERROR_TIMEOUT || all.results[r].status == CLQ_ERROR_ABORTED);
            expect_text(all.results[r].detail, "rank 1 on pocl");
            assert_true(p.seconds[r] < 0.4 + 1);
        }
        assert_int_equal(pass(&all, &p, 0, 0, 1, 0, 4), CLQ_ERROR_ABORTED); /* the communicator stays aborted */
        end(&all, &p);
    }
}

static clq_status both_send(ranks *all, plan *p, unsigned rank) {
    return rank < 2 ? send(all, p, rank, 1 - rank, 0, 100) : CLQ_OK;
}
static clq_status other_sizes(ranks *all, plan *p, unsigned rank) {
    if (rank == 1) return send(all, p, 1, 2, 0, 100);
    return rank == 2 ? receive(all, p, 2, 1, 0, 99) : CLQ_OK;
}
static clq_status beyond_the_memory(ranks *all, plan *p, unsigned rank) {
    if (rank == 1) return pass(all, p, 1, 1, 2, 64, BYTES_MOST);
    return rank == 2 ? receive(all, p, 2, 1, 0, BYTES_MOST) : CLQ_OK;
}
static clq_status nobody(ranks *all, plan *p, unsigned rank) {
    return rank == 2 ? pass(all, p, 2, 2, all->count, 0, 4) : CLQ_OK;
}

static void what_does_not_agree_ends_all(void **state) {
    (void)state;
    static const struct {
        act *acts;
        const char *said;
    } cases[] = {{both_send, "collective mismatch: rank"},
                 {other_sizes, "collective mismatch: rank"},
                 {beyond_the_memory, "rank 1, send/recv, on pocl:1"},
                 {nobody, "rank 3 is out of range: the group has 3 ranks"}};
    for (size_t c = 0; c < CLQ_COUNT_OF(cases); c++) {
        ranks all;
        plan p;
        begin(&all, "bbb", &settings[c % 3], &p);
        trouble t = {&p, cases[c].acts};
        ranks_run(&all, run_act, &t);
        expect_failure(&all, CLQ_ERROR_INTERNAL, cases[c].said);
        for (unsigned r = 0; r < all.count; r++) assert_true(p.seconds[r] < 5);
        end(&all, &p);
    }
}

static void to_itself(void **state) {
    (void)state;
    ranks all;
    plan p;
    unsigned char got[100];
    begin(&all, "bbi", &settings[1], &p);
    /* A copy within one rank, for which no other rank comes. */
    assert_ok(put(&all, &p, 2, 5, sizeof got));
    const clq_task copy = {.collective = CLQ_SEND_RECV,
                           .queue = all.queues[2],
                           .in = p.buffers[2],
                           .in_offset = GUARD,
                           .out = p.buffers[2],
                           .out_offset = 5000,
                           .count = sizeof got,
                           .dtype = CLQ_U8,
                           .root = 2,
                           .to = 2};
    assert_ok(clq_comm_run(all.comm, 2, &copy));
    assert_ok(clq_queue_read(all.queues[2], p.buffers[2], 5000, got, sizeof got, true));
    for (size_t i = 0; i < sizeof got; i++) assert_int_equal(got[i], byte_of(2, 5, i));
    end(&all, &p);
}

static clq_status one_message(ranks *all, plan *p, unsigned rank) {
    if (rank == 1) return CLQ_OK;
    return rank == 0 ? send(all, p, 0, 2, 0, 100) : receive(all, p, 2, 0, 0, 100);
}

/* A message makes a link that is not part of the ring. The explanation shows the link once the message was sent. */
static void messages_are_explained(void **state) {
    (void)state;
    ranks all;
    plan p;
    begin(&all, "bbb", &settings[1], &p);
    trouble t = {&p, one_message};
    char *before = clq_comm_explain(all.comm);
    ranks_run(&all, run_act, &t);
    ranks_expect_ok(&all);
    char *after = clq_comm_explain(all.comm), line[CLQ_NAME_MAX + 64];
    (void)snprintf(line, sizeof line, "\nsend/recv: rank 0 to 2 (%s", clq_device_label(all.devices[0]));
    assert_non_null(before);
    assert_non_null(after);
    assert_non_null(strstr(before, "\nrank 2 to 0 (pocl:2"));
    assert_null(strstr(before, "rank 0 to 2"));
    assert_non_null(strstr(after, line));
    clq_free(before);
    clq_free(after);
    end(&all, &p);
}

static void abort_soon(void *context) {
    (void)usleep(50000);
    clq_comm_abort(context, NULL);
}

static void an_abort_ends_a_message(void **state) {
    (void)state;
    ranks all;
    plan p;
    clq_thread *thread;
    begin(&all, "bbb", &settings[1], &p);
    trouble t = {&p, one_is_missing};
    assert_ok(clq_thread_start("aborter", abort_soon, all.comm, &thread));
    ranks_run(&all, run_act, &t);
    clq_thread_join(thread);
    for (unsigned r = 0; r < all.count; r += 2) {
        assert_int_equal(all.results[r].status, CLQ_ERROR_ABORTED);
        assert_true(p.seconds[r] < 1);
    }
    end(&all, &p);
}

/* The test reports a failure outside of the communicator to the communicator, as a strategy does. */
static clq_status talk_short_of_memory(ranks *all, unsigned rank, void *context) {
    plan *p = context;
    if (atomic_fetch_add(&p->started, 1) + 1 == all->count) {
        clq_memory_fail_at(p->fail_at, false);
        atomic_fetch_add(&p->started, 1);
    }
    while (atomic_load(&p->started) <= all->count) (void)usleep(100);
    clq_status status = talk_in_turn(all, rank, context);
    if (status == CLQ_OK) return CLQ_OK;
    clq_error why;
    clq_error_take(status, &why);
    clq_comm_abort(all->comm, &why);
    return clq_error_raise(&why);
}

/* Each allocation fails once. All ranks return, and the communicator says why. */
static void without_memory(void **state) {
    (void)state;
    const clq_group_config config = {
        .transport = CLQ_TRANSPORT_STAGED, .algorithm = CLQ_ALGORITHM_RING, .chunk_bytes = 4096, .deadline_s = 5};
    bool enough = false;
    for (uint64_t nth = 1; !enough; nth++) {
        ranks all;
        plan p;
        begin(&all, "bbbb", &config, &p);
        p.fail_at = nth;
        ranks_run(&all, talk_short_of_memory, &p);
        enough = clq_memory_fail_at(0, false) < nth;
        assert_true(nth < 1000);
        for (unsigned r = 0; r < all.count; r++) {
            clq_status status = all.results[r].status;
            if (status != CLQ_OK && (enough || (status != CLQ_ERROR_MEMORY && status != CLQ_ERROR_ABORTED)))
                fail_msg("allocation %u, rank %u: %s", (unsigned)nth, r, all.results[r].detail);
        }
        clq_status first = clq_comm_failure(all.comm, NULL);
        assert_true(first == CLQ_OK || first == CLQ_ERROR_MEMORY);
        end(&all, &p);
    }
    assert_true(enough);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_meet_without_the_others),
                                       cmocka_unit_test(pairs_talk_at_the_same_time),
                                       cmocka_unit_test(every_pair_beside_collectives),
                                       cmocka_unit_test(a_rank_that_does_not_come_ends_all),
                                       cmocka_unit_test(what_does_not_agree_ends_all),
                                       cmocka_unit_test(to_itself),
                                       cmocka_unit_test(messages_are_explained),
                                       cmocka_unit_test(an_abort_ends_a_message),
                                       cmocka_unit_test(without_memory)};
    return cmocka_run_group_tests_name("comm/pairs", tests, NULL, NULL);
}
