/* Worlds whose ranks are threads, over an engine that behaves like a network: rank numbers and names, messages,
 * gathers. */
#include "support/stop.h"
#include "support/world_fabric.h"

#include <stdlib.h>

static const clq_world_config patient = {.silence_s = 60, .deadline_s = 60};

static void all_ended(const fabric_rank *ranks, unsigned size) {
    for (unsigned r = 0; r < size; r++)
        if (ranks[r].ended != CLQ_OK) fail_msg("rank %u: %s: %s", r, clq_status_text(ranks[r].ended), ranks[r].detail);
}

/* Runs the body on `size` ranks. All of them must succeed. */
static void run_all(unsigned size, double latency_s, double bytes_per_s, void (*body)(fabric_rank *), void *context) {
    fabric_rank ranks[FABRIC_RANKS_MAX];
    fabric *network = fabric_open(size, latency_s, bytes_per_s);
    fabric_run(network, size, &patient, body, context, ranks);
    fabric_close(network);
    all_ended(ranks, size);
}

#define EXPECT(self, condition)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fabric_note(self, clq_fail(CLQ_ERROR_STATE, "%s:%d: %s", __FILE__, __LINE__, #condition));                 \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)
#define EXPECT_OK(self, call)                                                                                          \
    do {                                                                                                               \
        clq_status expect_status_ = (call);                                                                            \
        if (expect_status_ != CLQ_OK) {                                                                                \
            fabric_note(self, expect_status_);                                                                         \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

/* ---- ranks and names ---- */

static void knows_all(fabric_rank *self) {
    char host[64] = "", name[128];
    EXPECT(self, gethostname(host, sizeof host - 1) == 0);
    EXPECT(self, clq_world_rank(self->world) == self->rank);
    EXPECT(self, clq_world_size(self->world) == *(const unsigned *)self->context);
    for (unsigned r = 0; r < clq_world_size(self->world); r++) {
        snprintf(name, sizeof name, "rank %u on %s", r, host);
        EXPECT(self, strcmp(clq_world_name(self->world, r), name) == 0);
    }
    EXPECT(self, strcmp(clq_world_name(self->world, 99), "no rank") == 0);
    EXPECT_OK(self, clq_world_failure(self->world));
}

static void ranks_know_one_another(void **state) {
    (void)state;
    for (unsigned size = 1; size <= 6; size++) run_all(size, 0, 0, knows_all, &size);
}

static void alone(void **state) {
    (void)state;
    clq_world *world;
    int mine = 7, all = 0;
    assert_ok(clq_world_open(NULL, &world));
    clq_world *const both[] = {world, NULL};
    for (size_t i = 0; i < CLQ_COUNT_OF(both); i++) {
        assert_int_equal(clq_world_rank(both[i]), 0);
        assert_int_equal(clq_world_size(both[i]), 1);
        assert_string_equal(clq_world_name(both[i], 0), "rank 0");
        assert_ok(clq_world_gather(both[i], &mine, sizeof mine, &all));
        assert_int_equal(all, 7);
        assert_ok(clq_world_barrier(both[i]));
        assert_ok(clq_world_agree(both[i], "model", (clq_hash128){1, 2}));
        assert_fails(CLQ_ERROR_ARGUMENT, "0 bytes", clq_world_gather(both[i], &mine, 0, &all));
    }
    clq_world_abort(world, "no more");
    assert_fails(CLQ_ERROR_ABORTED, "no more", clq_world_gather(world, &mine, sizeof mine, &all));
    assert_fails(CLQ_ERROR_ABORTED, "no more", clq_world_barrier(world));
    assert_fails(CLQ_ERROR_ABORTED, "no more", clq_world_agree(world, "model", (clq_hash128){1, 2}));
    clq_world_close(world);
    clq_world_close(NULL);
    clq_world_abort(NULL, "nobody");
}

/* ---- gathers ---- */

static unsigned char byte_of(unsigned rank, size_t at, unsigned turn) {
    return (unsigned char)(31 * rank + 7 * at + turn);
}

static void gathers(fabric_rank *self) {
    static const size_t sizes[] = {1, 7, 512, 70001};
    const unsigned size = clq_world_size(self->world);
    for (unsigned turn = 0; turn < CLQ_COUNT_OF(sizes); turn++) {
        const size_t bytes = sizes[turn];
        unsigned char *mine = malloc(bytes), *all = malloc(size * bytes);
        for (size_t i = 0; i < bytes; i++) mine[i] = byte_of(self->rank, i, turn);
        const clq_status status = clq_world_gather(self->world, mine, bytes, all);
        bool right = true;
        for (size_t i = 0; status == CLQ_OK && i < size * bytes; i++)
            right = right && all[i] == byte_of((unsigned)(i / bytes), i % bytes, turn);
        free(mine);
        free(all);
        EXPECT_OK(self, status);
        EXPECT(self, right);
    }
}

static void gathers_bring_all_to_all(void **state) {
    (void)state;
    for (unsigned size = 1; size <= 9; size++) run_all(size, 0, 0, gathers, NULL);
    run_all(3, 2e-3, 0, gathers, NULL);
    run_all(5, 1e-4, 50e6, gathers, NULL);
    run_all(FABRIC_RANKS_MAX, 0, 0, gathers, NULL);
}

typedef struct meeting {
    atomic_uint came;
} meeting;

static void meets(fabric_rank *self) {
    meeting *all = self->context;
    const unsigned size = clq_world_size(self->world);
    for (unsigned turn = 1; turn <= 20; turn++) {
        if (self->rank == turn % size) nap(2e-3);
        atomic_fetch_add(&all->came, 1);
        EXPECT_OK(self, clq_world_barrier(self->world));
        EXPECT(self, atomic_load(&all->came) >= turn * size);
    }
}

static void barriers_hold_all(void **state) {
    (void)state;
    for (unsigned size = 2; size <= 5; size++) {
        meeting all = {0};
        run_all(size, 0, 0, meets, &all);
    }
}

static void agrees(fabric_rank *self) {
    const clq_hash128 same = {5, 6}, other = {5, self->rank == 2 ? 7 : 6};
    char who[256];
    EXPECT_OK(self, clq_world_agree(self->world, "model", same));
    EXPECT(self, clq_world_agree(self->world, "model", other) == CLQ_ERROR_MISMATCH);
    snprintf(who, sizeof who, "%s has another model than %s: start all processes with the same options and files",
             clq_world_name(self->world, 2), clq_world_name(self->world, 0));
    EXPECT(self, strcmp(clq_error_detail(), who) == 0);
    EXPECT(self, clq_world_failed_rank(self->world) == 2 && clq_world_failed_status(self->world) == CLQ_ERROR_MISMATCH);
    EXPECT(self, clq_world_barrier(self->world) == (self->rank == 2 ? CLQ_ERROR_MISMATCH : CLQ_ERROR_ABORTED));
}

static void what_differs_is_named(void **state) {
    (void)state;
    run_all(4, 0, 0, agrees, NULL);
}

/* Ranks 1 and 3 fail. All ranks report the failure of rank 1, the lower rank. */
static void checks(fabric_rank *self) {
    char said[256] = "no such folder";
    EXPECT_OK(self, clq_world_check(self->world, CLQ_OK));
    const bool fails = self->rank % 2 == 1;
    if (self->rank != 1) snprintf(said, sizeof said, "%s: no such folder", clq_world_name(self->world, 1));
    const char *why = self->rank == 1 ? "no such folder" : "no such file";
    const clq_status status = clq_world_check(self->world, fails ? clq_fail(CLQ_ERROR_NOT_FOUND, "%s", why) : CLQ_OK);
    EXPECT(self, status == (self->rank == 1 ? CLQ_ERROR_NOT_FOUND : CLQ_ERROR_ABORTED));
    EXPECT(self, strcmp(clq_error_detail(), said) == 0);
    EXPECT(self,
           clq_world_failed_rank(self->world) == 1 && clq_world_failed_status(self->world) == CLQ_ERROR_NOT_FOUND);
}

static void the_first_that_fails_is_named(void **state) {
    (void)state;
    run_all(5, 0, 0, checks, NULL);
}

/* ---- broadcasts ---- */

static void broadcasts(fabric_rank *self) {
    static const size_t sizes[] = {1, 1000, 3 << 20};
    for (unsigned turn = 0; turn < CLQ_COUNT_OF(sizes); turn++) {
        unsigned char *data = clq_alloc(sizes[turn], 1);
        bool right = data != NULL;
        for (size_t i = 0; self->rank == 0 && i < sizes[turn]; i++) data[i] = byte_of(0, i, turn);
        const clq_status status = clq_world_broadcast(self->world, data, sizes[turn]);
        for (size_t i = 0; status == CLQ_OK && i < sizes[turn]; i++) right = right && data[i] == byte_of(0, i, turn);
        clq_free(data);
        EXPECT_OK(self, status);
        EXPECT(self, right);
    }
}

static void all_get_what_rank_0_has(void **state) {
    (void)state;
    for (unsigned size = 1; size <= 9; size++) run_all(size, 0, 0, broadcasts, NULL);
}

/* ---- messages ---- */

enum { MESSAGES = 12 };

static size_t bytes_of(unsigned turn) { return (size_t)1 << (turn * 3 % 17); }

/* Sends to the next rank, or receives from the rank before. Two threads do so, each with its own tag. */
typedef struct carrier {
    fabric_rank *self;
    unsigned tag;
    bool sends;
    clq_status ended;
} carrier;

static clq_status carry_one(const carrier *work, unsigned turn) {
    const unsigned size = clq_world_size(work->self->world), rank = work->self->rank;
    const unsigned from = work->sends ? rank : (rank + size - 1) % size;
    const size_t bytes = bytes_of(turn);
    unsigned char *data = clq_alloc(bytes, 1);
    for (size_t i = 0; work->sends && i < bytes; i++) data[i] = byte_of(from, i, turn + work->tag);
    clq_status status = work->sends ? clq_world_send(work->self->world, (rank + 1) % size, work->tag, data, bytes, 0)
                                    : clq_world_receive(work->self->world, from, work->tag, data, bytes, 0);
    for (size_t i = 0; status == CLQ_OK && i < bytes; i++)
        if (data[i] != byte_of(from, i, turn + work->tag))
            status = clq_fail(CLQ_ERROR_STATE, "turn %u, byte %zu", turn, i);
    clq_free(data);
    return status;
}

static void carry(void *context) {
    carrier *work = context;
    for (unsigned turn = 0; turn < MESSAGES && work->ended == CLQ_OK; turn++) work->ended = carry_one(work, turn);
}

static void carries(fabric_rank *self) {
    enum { TAGS = 2 };
    carrier work[2 * TAGS];
    clq_thread *threads[2 * TAGS];
    for (unsigned i = 0; i < 2 * TAGS; i += 2) {
        unsigned tag;
        EXPECT_OK(self, clq_world_new_tags(self->world, 1, &tag));
        work[i] = (carrier){.self = self, .tag = tag, .sends = true};
        work[i + 1] = (carrier){.self = self, .tag = tag};
    }
    for (unsigned i = 0; i < 2 * TAGS; i++) EXPECT_OK(self, clq_thread_start("carrier", carry, &work[i], &threads[i]));
    for (unsigned i = 0; i < 2 * TAGS; i++) clq_thread_join(threads[i]);
    for (unsigned i = 0; i < 2 * TAGS; i++) EXPECT_OK(self, work[i].ended);
}

static void messages_arrive(void **state) {
    (void)state;
    for (unsigned size = 2; size <= 5; size++) run_all(size, 0, 0, carries, NULL);
    run_all(3, 1e-3, 100e6, carries, NULL);
}

/* Sends more bytes than an engine takes at once. */
static void carries_much(fabric_rank *self) {
    const size_t bytes = ((size_t)64 << 20) + 13;
    unsigned tag;
    EXPECT_OK(self, clq_world_new_tags(self->world, 1, &tag));
    char *data = clq_alloc(bytes, 1);
    EXPECT(self, data != NULL);
    if (self->rank == 0) memset(data, 9, bytes);
    const clq_status status = self->rank == 0 ? clq_world_send(self->world, 1, tag, data, bytes, 0)
                                              : clq_world_receive(self->world, 0, tag, data, bytes, 0);
    const bool right = data[0] == 9 && data[bytes / 2] == 9 && data[bytes - 1] == 9;
    clq_free(data);
    EXPECT_OK(self, status);
    EXPECT(self, right);
}

static void long_messages_go_in_pieces(void **state) {
    (void)state;
    run_all(2, 0, 0, carries_much, NULL);
}

/* ---- which thread advances a job ---- */

typedef struct watched {
    clq_job job;
    pthread_t caller;
    bool is_stubborn; /* only another thread can end it */
    unsigned by_caller;
} watched;

static clq_status watch(clq_job *job, clq_world *world, bool *moved, bool *done) {
    watched *self = (watched *)job;
    (void)world;
    const bool is_caller = pthread_equal(pthread_self(), self->caller);
    self->by_caller += is_caller;
    *moved = *done = !self->is_stubborn || !is_caller;
    return CLQ_OK;
}

/* The world's thread takes its turn every 5 ms. During that turn, the caller has no turn with the engine. */
static void runs_jobs(fabric_rank *self) {
    enum { JOBS = 200 };
    const bool takes_turns = *(const bool *)self->context;
    unsigned by_caller = 0;
    for (unsigned i = 0; i < JOBS; i++) {
        watched work = {.job = {.advance = watch, .doing = "a test"}, .caller = pthread_self(), .is_stubborn = i == 0};
        EXPECT_OK(self, clq_world_run(self->world, &work.job));
        EXPECT(self, takes_turns || work.by_caller == 0);
        by_caller += work.by_caller > 0;
    }
    EXPECT(self, !takes_turns || by_caller > JOBS / 4);
}

static void who_waits_takes_turns(void **state) {
    (void)state;
    for (unsigned takes_turns = 0; takes_turns < 2; takes_turns++) {
        fabric_takes_turns = takes_turns > 0;
        run_all(2, 0, 0, runs_jobs, &fabric_takes_turns);
    }
}

static void misuses(fabric_rank *self) {
    char byte = 0;
    const unsigned size = clq_world_size(self->world);
    EXPECT(self, clq_world_send(self->world, self->rank, 5, &byte, 1, 0) == CLQ_ERROR_INTERNAL);
    EXPECT(self, clq_world_receive(self->world, size, 5, &byte, 1, 0) == CLQ_ERROR_INTERNAL);
    EXPECT(self, clq_world_gather(self->world, &byte, 0, &byte) == CLQ_ERROR_ARGUMENT);
    EXPECT_OK(self, clq_world_barrier(self->world));
}

static void misuse_ends_nothing(void **state) {
    (void)state;
    run_all(2, 0, 0, misuses, NULL);
    clq_world *world;
    assert_fails(CLQ_ERROR_ARGUMENT, "silence_s", clq_world_open(&(clq_world_config){.silence_s = 1}, &world));
    assert_fails(CLQ_ERROR_ARGUMENT, "silence_s", clq_world_open(&(clq_world_config){.silence_s = -1}, &world));
    assert_fails(CLQ_ERROR_ARGUMENT, "deadline_s", clq_world_open(&(clq_world_config){.deadline_s = -1}, &world));
}

/* ---- engines and launchers ---- */

static void launchers_are_known(void **state) {
    (void)state;
    assert_null(clq_launcher_find().name);
    setenv("PMI_RANK", "1", 1);
    setenv("PMI_SIZE", "4", 1);
    clq_launcher found = clq_launcher_find();
    assert_string_equal(found.engine, "mpich");
    assert_int_equal(found.size, 4);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1); /* Open MPI's processes have variables of PMI, too */
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    found = clq_launcher_find();
    assert_string_equal(found.engine, "openmpi");
    assert_int_equal(found.size, 2);
    setenv("OMPI_COMM_WORLD_SIZE", "two", 1);
    assert_int_equal(clq_launcher_find().size, 0);
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("PMI_RANK");
    unsetenv("PMI_SIZE");
}

static void engines_that_cannot_be_had(void **state) {
    (void)state;
    clq_world *world;
    assert_fails(CLQ_ERROR_NOT_FOUND, "/nowhere/engine.so",
                 clq_world_open(&(clq_world_config){.engine = "/nowhere/engine.so"}, &world));
    assert_fails(CLQ_ERROR_NOT_FOUND, "development package",
                 clq_world_open(&(clq_world_config){.engine = "none"}, &world));
    setenv("CLIQUE_ENGINE", "libm.so.6", 1); /* a library, but no engine */
    assert_fails(CLQ_ERROR_NOT_FOUND, "libm.so.6", clq_world_open(NULL, &world));
    unsetenv("CLIQUE_ENGINE");
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "3", 1);
    assert_fails(CLQ_ERROR_NOT_FOUND, "3 processes", clq_world_open(&(clq_world_config){.engine = "none"}, &world));
    unsetenv("PMI_RANK");
    unsetenv("PMI_SIZE");
}

/* ---- ranks that are set apart ---- */

/* The last two of five ranks are set apart. The other three gather and run barriers without them, and exchange messages
 * with them. */
static void goes_on_without_two(fabric_rank *self) {
    unsigned all[5], word = 100 + self->rank;
    EXPECT_OK(self, clq_world_set_apart(self->world, 2));
    EXPECT(self, clq_world_size(self->world) == 3 && clq_world_apart(self->world) == 2);
    EXPECT(self, clq_world_is_apart(self->world) == (self->rank >= 3));
    EXPECT(self, strncmp(clq_world_name(self->world, 4), "rank 4 on ", 10) == 0);
    if (self->rank >= 3) {
        EXPECT(self, clq_world_gather(self->world, &word, sizeof word, all) == CLQ_ERROR_STATE);
        EXPECT_OK(self, clq_world_receive(self->world, 1, CLQ_TAG_APART, &word, sizeof word, 0));
        EXPECT(self, word == 101);
    } else {
        EXPECT(self, clq_world_set_apart(self->world, 1) == CLQ_ERROR_STATE);
        EXPECT_OK(self, clq_world_gather(self->world, &word, sizeof word, all));
        EXPECT(self, all[0] == 100 && all[1] == 101 && all[2] == 102);
        EXPECT_OK(self, clq_world_agree(self->world, "thing", (clq_hash128){1, 2}));
        EXPECT_OK(self, clq_world_check(self->world, CLQ_OK));
        unsigned first = self->rank == 0 ? 7 : 0;
        EXPECT_OK(self, clq_world_broadcast(self->world, &first, sizeof first));
        EXPECT(self, first == 7);
        EXPECT_OK(self, clq_world_barrier(self->world));
        for (unsigned to = 3; to < 5 && self->rank == 1; to++)
            EXPECT_OK(self, clq_world_send(self->world, to, CLQ_TAG_APART, &word, sizeof word, 0));
    }
    clq_world_take_back(self->world);
    EXPECT(self, clq_world_size(self->world) == 5);
    word = 100 + self->rank;
    EXPECT_OK(self, clq_world_gather(self->world, &word, sizeof word, all));
    for (unsigned r = 0; r < 5; r++) EXPECT(self, all[r] == 100 + r);
}

static void ranks_are_set_apart(void **state) {
    (void)state;
    run_all(5, 1e-4, 0, goes_on_without_two, NULL);
}

static void sets_apart_as_told(fabric_rank *self) {
    const unsigned *counts = self->context;
    fabric_note(self, clq_world_set_apart(self->world, counts[self->rank]));
}

static void one_at_least_remains(void **state) {
    (void)state;
    static const struct {
        unsigned counts[3];
        const char *says;
        clq_status status;
    } cases[] = {{{3, 3, 3}, "3 of 3 ranks cannot be set apart", CLQ_ERROR_ARGUMENT},
                 {{1, 1, 2}, "another number of ranks set apart", CLQ_ERROR_MISMATCH}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        fabric_rank ranks[3];
        fabric *network = fabric_open(3, 0, 0);
        fabric_run(network, 3, &patient, sets_apart_as_told, (void *)(uintptr_t)cases[i].counts, ranks);
        fabric_close(network);
        for (unsigned r = 0; r < 3; r++) assert_non_null(strstr(ranks[r].detail, cases[i].says));
        assert_int_equal(ranks[0].ended, cases[i].status);
    }
    assert_fails(CLQ_ERROR_ARGUMENT, "1 of 1 ranks", clq_world_set_apart(NULL, 1));
    assert_ok(clq_world_set_apart(NULL, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_know_one_another),     cmocka_unit_test(alone),
        cmocka_unit_test(gathers_bring_all_to_all),   cmocka_unit_test(barriers_hold_all),
        cmocka_unit_test(what_differs_is_named),      cmocka_unit_test(the_first_that_fails_is_named),
        cmocka_unit_test(all_get_what_rank_0_has),    cmocka_unit_test(messages_arrive),
        cmocka_unit_test(long_messages_go_in_pieces), cmocka_unit_test(who_waits_takes_turns),
        cmocka_unit_test(misuse_ends_nothing),        cmocka_unit_test(ranks_are_set_apart),
        cmocka_unit_test(one_at_least_remains),       cmocka_unit_test(launchers_are_known),
        cmocka_unit_test(engines_that_cannot_be_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
