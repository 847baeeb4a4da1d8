/* Communicators that were split from a communicator. Their collectives involve only their own ranks, and run beside the
 * collectives of other communicators of the same ranks. If one communicator fails, all of them end. */
#include "support/check.h"
#include "support/comm_cases.h"

#include <unistd.h>

enum { RANKS_MOST = 5, COMMS_MOST = 6, COUNT_MOST = 3001, ROUNDS = 12 };

static const clq_group_config settings[] = {
    {.deadline_s = 60},
    {.transport = CLQ_TRANSPORT_STAGED, .algorithm = CLQ_ALGORITHM_RING, .chunk_bytes = 512, .deadline_s = 60},
    {.transport = CLQ_TRANSPORT_MAPPED, .algorithm = CLQ_ALGORITHM_RING, .chunk_bytes = 512, .deadline_s = 60},
    {.transport = CLQ_TRANSPORT_STAGED, .algorithm = CLQ_ALGORITHM_HIERARCHICAL, .slots = 1, .deadline_s = 60}};

/* ---- a stream of sums in one communicator ---- */

typedef struct stream {
    ranks part;
    unsigned worlds[RANKS_MOST]; /* of its ranks, in the first communicator */
    unsigned number;             /* of the stream */
    clq_buffer *buffers[RANKS_MOST];
    double seconds[RANKS_MOST];
    clq_thread *thread;
} stream;

static void open_stream(const ranks *all, unsigned number, const unsigned *who, unsigned count, stream *s) {
    *s = (stream){.number = number};
    ranks_split(all, who, count, &s->part);
    for (unsigned i = 0; i < count; i++) {
        s->worlds[i] = who[i];
        assert_ok(clq_buffer_create(s->part.devices[i], CLQ_MEMORY_DEVICE, COUNT_MOST * sizeof(int32_t), "test",
                                    &s->buffers[i]));
    }
}

static void close_stream(stream *s) {
    for (unsigned i = 0; i < s->part.count; i++) clq_buffer_destroy(s->buffers[i]);
    ranks_close_part(&s->part);
}

static int32_t value_of(const stream *s, unsigned rank, unsigned round, size_t i) {
    return (int32_t)(s->worlds[rank] * 1000 + s->number * 100 + round * 10 + i % 97);
}

static size_t count_of(unsigned number, unsigned round) { return 1 + (number * 977 + round * 613) % COUNT_MOST; }

/* Runs one sum over all ranks, and checks it against plain addition. */
static clq_status add_once(stream *s, unsigned rank, unsigned round) {
    int32_t values[COUNT_MOST];
    const size_t count = count_of(s->number, round);
    clq_queue *queue = s->part.queues[rank];
    for (size_t i = 0; i < count; i++) values[i] = value_of(s, rank, round, i);
    CLQ_TRY(clq_queue_write(queue, s->buffers[rank], 0, values, count * sizeof *values, true));
    CLQ_TRY(clq_comm_all_reduce(s->part.comm, rank, queue, s->buffers[rank], 0, s->buffers[rank], 0, count, CLQ_I32));
    CLQ_TRY(clq_queue_read(queue, s->buffers[rank], 0, values, count * sizeof *values, true));
    for (size_t i = 0; i < count; i++) {
        int32_t sum = 0;
        for (unsigned other = 0; other < s->part.count; other++) sum += value_of(s, other, round, i);
        if (values[i] != sum)
            return clq_fail(CLQ_ERROR_INTERNAL, "stream %u, round %u, rank %u: element %zu is %d, not %d", s->number,
                            round, rank, i, values[i], sum);
    }
    return CLQ_OK;
}

static clq_status add_often(ranks *part, unsigned rank, void *context) {
    stream *s = context;
    (void)part;
    for (unsigned round = 0; round < ROUNDS; round++) CLQ_TRY(add_once(s, rank, round));
    return CLQ_OK;
}

static void run_stream(void *context) {
    stream *s = context;
    ranks_run(&s->part, add_often, s);
}

static void run_all(stream *streams, size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_ok(clq_thread_start("stream", run_stream, &streams[i], &streams[i].thread));
    for (size_t i = 0; i < count; i++) clq_thread_join(streams[i].thread);
    for (size_t i = 0; i < count; i++) ranks_expect_ok(&streams[i].part);
}

/* ---- which ranks meet ---- */

static const char *const mixes[] = {"bbbb", "bpib", "b1i2b1i2"};

/* The two halves run one after the other, and then at once. Then all four ranks run. Ranks 2 and 3 need not come for 0
 * and 1. */
static void halves_and_the_whole(void **state) {
    (void)state;
    for (size_t k = 0; k < CLQ_COUNT_OF(mixes); k++)
        for (size_t c = 0; c < CLQ_COUNT_OF(settings); c++) {
            ranks all;
            stream streams[3];
            ranks_open(&all, mixes[k], false, &settings[c]);
            open_stream(&all, 0, (unsigned[]){0, 1}, 2, &streams[0]);
            open_stream(&all, 1, (unsigned[]){2, 3}, 2, &streams[1]);
            open_stream(&all, 2, (unsigned[]){0, 1, 2, 3}, 4, &streams[2]);
            run_all(streams, 1);
            run_all(streams, 2);
            run_all(&streams[2], 1);
            for (size_t i = 0; i < 3; i++) close_stream(&streams[i]);
            ranks_close(&all);
        }
}

/* Two communicators of all ranks, and communicators that have ranks in common, all at the same time. */
static void streams_that_overlap(void **state) {
    (void)state;
    for (size_t k = 0; k < CLQ_COUNT_OF(mixes); k++)
        for (size_t c = 0; c < CLQ_COUNT_OF(settings); c++) {
            ranks all;
            stream streams[COMMS_MOST];
            ranks_open(&all, mixes[k], false, &settings[c]);
            open_stream(&all, 0, (unsigned[]){0, 1, 2, 3}, 4, &streams[0]);
            open_stream(&all, 1, (unsigned[]){3, 2, 1, 0}, 4, &streams[1]);
            open_stream(&all, 2, (unsigned[]){0, 1, 2}, 3, &streams[2]);
            open_stream(&all, 3, (unsigned[]){1, 2, 3}, 3, &streams[3]);
            open_stream(&all, 4, (unsigned[]){1, 2}, 2, &streams[4]);
            open_stream(&all, 5, (unsigned[]){2}, 1, &streams[5]);
            run_all(streams, COMMS_MOST);
            for (size_t i = 0; i < COMMS_MOST; i++) close_stream(&streams[i]);
            ranks_close(&all);
        }
}

/* Every collective, with every setting, in a communicator whose ranks are in another order. Then the same in a
 * communicator that was split from it. */
static void every_collective(void **state) {
    (void)state;
    for (size_t i = 0; i < COMM_SETTINGS; i++) {
        ranks all, part, inner;
        const bool together = comm_settings[i].transport == CLQ_TRANSPORT_PEER;
        clq_group_config config = comm_settings[i];
        config.chunk_bytes = 512;
        ranks_open(&all, together ? "b1b1b1p1" : "bbip", false, &config);
        ranks_split(&all, (unsigned[]){3, 0, 2}, 3, &part);
        ranks_split(&part, (unsigned[]){2, 1}, 2, &inner);
        for (unsigned collective = 0; collective < CLQ_COLLECTIVE_COUNT; collective++) {
            comm_case c = {.collective = (clq_collective)collective,
                           .dtype = collective % 2 ? CLQ_F32 : CLQ_I16,
                           .count = 1031,
                           .root = 1,
                           .to = 2,
                           .placement = APART,
                           .caller = CALL_COMM,
                           .seed = collective};
            (void)comm_case_run(&part, NULL, &c, "ranks 3, 0, 2 of four");
            c.to = 0;
            (void)comm_case_run(&inner, NULL, &c, "ranks 2, 0 of four");
        }
        ranks_close_part(&inner);
        ranks_close_part(&part);
        ranks_close(&all);
    }
}

/* A communicator still works after the communicator that it was split from was destroyed. */
static void a_part_outlives_the_whole(void **state) {
    (void)state;
    ranks all;
    stream s;
    ranks_open(&all, "bbi", false, &settings[1]);
    open_stream(&all, 0, (unsigned[]){2, 0}, 2, &s);
    clq_comm_destroy(all.comm);
    all.comm = NULL;
    run_all(&s, 1);
    close_stream(&s);
    ranks_close(&all);
}

/* ---- failures ---- */

/* In stream 0, rank 1 waits for rank 2, which never comes. In stream 1, a little later, ranks 0 and 3 wait for rank
 * 1. */
static clq_status wait_in_vain(ranks *part, unsigned rank, void *context) {
    stream *s = context;
    if (s->worlds[rank] == (s->number == 0 ? 2u : 1u)) return CLQ_OK;
    if (s->number == 1) (void)usleep(200000);
    const double start = clq_now();
    clq_status status = ranks_meet(part->comm, rank);
    s->seconds[rank] = clq_now() - start;
    return status;
}

static void run_waiting(void *context) {
    stream *s = context;
    ranks_run(&s->part, wait_in_vain, s);
}

/* As soon as one rank is late, ranks that wait in other communicators are told, before their own deadline. The error
 * names the late rank by its number in the first communicator. */
static void a_failure_ends_all_comms(void **state) {
    (void)state;
    static const clq_group_config impatient[] = {
        {.deadline_s = 0.5}, {.transport = CLQ_TRANSPORT_STAGED, .algorithm = CLQ_ALGORITHM_RING, .deadline_s = 0.5}};
    for (size_t c = 0; c < CLQ_COUNT_OF(impatient); c++) {
        ranks all;
        stream streams[2];
        ranks_open(&all, "bbbp", false, &impatient[c]);
        open_stream(&all, 0, (unsigned[]){1, 2}, 2, &streams[0]);
        open_stream(&all, 1, (unsigned[]){3, 1, 0}, 3, &streams[1]);
        for (size_t i = 0; i < 2; i++)
            assert_ok(clq_thread_start("stream", run_waiting, &streams[i], &streams[i].thread));
        for (size_t i = 0; i < 2; i++) clq_thread_join(streams[i].thread);
        clq_error why;
        assert_int_equal(clq_comm_failure(all.comm, &why), CLQ_ERROR_TIMEOUT);
        expect_text(why.detail, "rank 2 on pocl:2");
        for (size_t i = 0; i < 2; i++)
            for (unsigned r = 0; r < streams[i].part.count; r++) {
                const clq_error *result = &streams[i].part.results[r];
                if (streams[i].seconds[r] == 0) continue; /* it never came */
                assert_int_equal(result->status, i == 0 ? CLQ_ERROR_TIMEOUT : CLQ_ERROR_ABORTED);
                expect_text(result->detail, "rank 2 on pocl:2");
                assert_true(streams[i].seconds[r] < 0.5 + 1);
            }
        assert_int_equal(ranks_meet(all.comm, 0), CLQ_ERROR_ABORTED);
        clq_comm *late = NULL;
        assert_fails(CLQ_ERROR_ABORTED, why.detail, clq_comm_split(all.comm, (unsigned[]){0}, 1, &late));
        assert_null(late);
        for (size_t i = 0; i < 2; i++) close_stream(&streams[i]);
        ranks_close(&all);
    }
}

static void abort_soon(void *context) {
    (void)usleep(50000);
    clq_comm_abort(context, &(clq_error){CLQ_ERROR_INTERRUPTED, "enough"});
}

/* Four communicators: the whole, a part, a part of the part, and a second communicator of all ranks. An abort of any of
 * them ends a wait in any of them. */
static void an_abort_ends_all_comms(void **state) {
    (void)state;
    enum { COMMS = 4 };
    for (unsigned whose = 0; whose < COMMS; whose++)
        for (unsigned waits = 0; waits < COMMS; waits++) {
            ranks all, part, inner, second;
            clq_thread *thread;
            ranks_open(&all, "bbb", false, &settings[waits % 3]);
            ranks_split(&all, (unsigned[]){2, 0}, 2, &part);
            ranks_split(&part, (unsigned[]){1, 0}, 2, &inner);
            ranks_split(&all, (unsigned[]){0, 1, 2}, 3, &second);
            clq_comm *const comms[COMMS] = {all.comm, part.comm, inner.comm, second.comm};
            const double start = clq_now();
            assert_ok(clq_thread_start("aborter", abort_soon, comms[whose], &thread));
            assert_fails(CLQ_ERROR_ABORTED, "enough", ranks_meet(comms[waits], 0));
            clq_thread_join(thread);
            assert_true(clq_now() - start < 2);
            for (unsigned i = 0; i < COMMS; i++)
                assert_int_equal(clq_comm_failure(comms[i], NULL), CLQ_ERROR_INTERRUPTED);
            ranks_close_part(&inner);
            ranks_close_part(&part);
            ranks_close_part(&second);
            ranks_close(&all);
        }
}

static void bad_ranks(void **state) {
    (void)state;
    ranks all;
    clq_comm *part = NULL;
    ranks_open(&all, "bbb", false, NULL);
    assert_fails(CLQ_ERROR_INTERNAL, "0 ranks: expected 1 to 3", clq_comm_split(all.comm, (unsigned[]){0}, 0, &part));
    assert_fails(CLQ_ERROR_INTERNAL, "4 ranks: expected 1 to 3",
                 clq_comm_split(all.comm, (unsigned[]){0, 1, 2, 0}, 4, &part));
    assert_fails(CLQ_ERROR_INTERNAL, "0 ranks", clq_comm_split(all.comm, NULL, 2, &part));
    assert_fails(CLQ_ERROR_INTERNAL, "rank 3 is out of range", clq_comm_split(all.comm, (unsigned[]){1, 3}, 2, &part));
    assert_fails(CLQ_ERROR_INTERNAL, "rank 1 is there twice",
                 clq_comm_split(all.comm, (unsigned[]){1, 0, 1}, 3, &part));
    assert_null(part);
    assert_int_equal(clq_comm_failure(all.comm, NULL), CLQ_OK);
    ranks_close(&all);
}

static clq_status split_and_end(void *context) {
    const ranks *all = context;
    clq_comm *part = NULL;
    clq_status status = clq_comm_split(all->comm, (unsigned[]){1, 0}, 2, &part);
    if (status != CLQ_OK) assert_null(part);
    clq_comm_destroy(part);
    assert_int_equal(clq_comm_failure(all->comm, NULL), CLQ_OK);
    return status;
}

/* If a split fails, only its caller sees the failure. The whole communicator goes on. */
static void without_memory(void **state) {
    (void)state;
    static const clq_group_config configs[] = {
        {.deadline_s = 60},
        {.transport = CLQ_TRANSPORT_STAGED, .algorithm = CLQ_ALGORITHM_RING, .chunk_bytes = 256, .deadline_s = 60},
        {.transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 256, .deadline_s = 60}};
    for (size_t c = 0; c < CLQ_COUNT_OF(configs); c++) {
        ranks all;
        stream s;
        ranks_open(&all, "bbb", false, &configs[c]);
        assert_ok(split_and_end(&all)); /* measures the links if necessary, and keeps the result */
        assert_true(walk_allocations(split_and_end, &all) >= 5);
        open_stream(&all, 0, (unsigned[]){0, 1, 2}, 3, &s);
        run_all(&s, 1);
        close_stream(&s);
        ranks_close(&all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(halves_and_the_whole),
                                       cmocka_unit_test(streams_that_overlap),
                                       cmocka_unit_test(every_collective),
                                       cmocka_unit_test(a_part_outlives_the_whole),
                                       cmocka_unit_test(a_failure_ends_all_comms),
                                       cmocka_unit_test(an_abort_ends_all_comms),
                                       cmocka_unit_test(bad_ranks),
                                       cmocka_unit_test(without_memory)};
    return cmocka_run_group_tests_name("comm/split", tests, NULL, NULL);
}
