/* Workers of a pool: commands run in order, waiting, the first failure, and what happens to the commands after it. */
#include "strategy/replicas/pool.h"
#include "support/check.h"
#include "support/system.h"

#include <string.h>
#include <unistd.h>

enum { WORKERS = 2, COMMANDS = 500, AHEAD = 8, FAILS_AT = 200, ROUNDS = 20, SECONDS_MOST = 60 };

typedef struct owner {
    uint64_t ran[COMMANDS], count; /* `bytes` of the commands that ran */
    atomic_uint skipped;
    size_t fails_at;
    atomic_uint *meeting; /* a worker that is about to fail waits here for all others; NULL: no worker waits */
} owner;

typedef struct bench {
    clq_pool pool;
    clq_worker workers[WORKERS];
    owner owners[WORKERS];
    atomic_uint told;
    clq_error why;
} bench;

static clq_status note(clq_worker *worker, const clq_command *command) {
    owner *o = worker->owner;
    if (command->bytes == o->fails_at && o->meeting) {
        atomic_fetch_add(o->meeting, 1);
        while (atomic_load(o->meeting) < WORKERS) {
        }
    }
    if (command->bytes == o->fails_at) return clq_fail(CLQ_ERROR_DEVICE, "worker %u has had enough", worker->index);
    o->ran[o->count++] = command->bytes;
    return CLQ_OK;
}
static void note_skipped(clq_worker *worker, const clq_command *command) {
    (void)command;
    atomic_fetch_add(&((owner *)worker->owner)->skipped, 1);
}
static const clq_command_kind note_kind = {.name = "note", .run = note, .skip = note_skipped};

static void tell(void *context, const clq_error *error) {
    bench *b = context;
    if (atomic_fetch_add(&b->told, 1) == 0) b->why = *error;
}

static void start(bench *b) {
    clq_devices devices;
    clq_device *opened[WORKERS];
    *b = (bench){.pool = {CLQ_POOL_START, .on_failure = tell, .context = b}};
    assert_ok(clq_devices_select(sys, "pocl:0,pocl:1", &devices));
    assert_ok(clq_devices_open(&devices, false, opened, NULL));
    for (unsigned w = 0; w < WORKERS; w++) {
        b->owners[w].fails_at = SIZE_MAX;
        b->workers[w] = (clq_worker){.device = opened[w], .owner = &b->owners[w], .in_flight = 1};
        assert_ok(clq_worker_open(&b->workers[w], &b->pool));
    }
    for (unsigned w = 0; w < WORKERS; w++) assert_ok(clq_worker_start(&b->workers[w], AHEAD));
}

static void end(bench *b) {
    for (unsigned w = 0; w < WORKERS; w++) clq_worker_stop(&b->workers[w]);
    for (unsigned w = 0; w < WORKERS; w++) {
        clq_worker_close(&b->workers[w]);
        clq_device_close(b->workers[w].device);
    }
}

static void post_all(bench *b) {
    for (size_t i = 0; i < COMMANDS; i++) clq_pool_post(&b->pool, &(clq_command){.kind = &note_kind, .bytes = i});
}

static void commands_run_in_order(void **state) {
    (void)state;
    static bench b;
    start(&b);
    post_all(&b);
    assert_ok(clq_pool_wait(&b.pool));
    for (unsigned w = 0; w < WORKERS; w++) {
        assert_int_equal(b.owners[w].count, COMMANDS);
        for (size_t i = 0; i < COMMANDS; i++) assert_int_equal(b.owners[w].ran[i], i);
    }
    b.owners[1].count = 0;
    assert_ok(clq_worker_call(&b.workers[1], &(clq_command){.kind = &note_kind, .bytes = 7}));
    assert_int_equal(b.owners[1].count, 1); /* the command is done when the call returns, and no other worker ran it */
    assert_int_equal(b.owners[0].count, COMMANDS);
    assert_ok(clq_pool_failure(&b.pool));
    end(&b);
    assert_int_equal(b.told, 0);
}

static void the_first_failure_is_the_pools(void **state) {
    (void)state;
    static bench b;
    start(&b);
    b.owners[1].fails_at = FAILS_AT;
    post_all(&b); /* posting never blocks */
    assert_fails(CLQ_ERROR_DEVICE, "worker 1 has had enough", clq_pool_wait(&b.pool));
    assert_fails(CLQ_ERROR_DEVICE, "replica 1", clq_pool_failure(&b.pool));
    assert_fails(CLQ_ERROR_DEVICE, "worker 1", clq_worker_call(&b.workers[0], &(clq_command){.kind = &note_kind}));
    assert_int_equal(b.owners[1].count, FAILS_AT);
    assert_int_equal(atomic_load(&b.owners[1].skipped), COMMANDS - FAILS_AT - 1);
    assert_int_equal(b.owners[0].count + atomic_load(&b.owners[0].skipped), COMMANDS);
    end(&b);
    assert_int_equal(b.told, 1);
    assert_int_equal(b.why.status, CLQ_ERROR_DEVICE);
}

/* If two workers fail at the same time, the pool reports one of the failures, whole. The thread sanitizer checks that
 * the workers do not write it at the same time. */
static void one_of_two_failures_is_the_pools(void **state) {
    (void)state;
    static bench b;
    for (unsigned round = 0; round < ROUNDS; round++) {
        atomic_uint meeting = 0;
        start(&b);
        for (unsigned w = 0; w < WORKERS; w++) {
            b.owners[w].fails_at = 0;
            b.owners[w].meeting = &meeting;
        }
        post_all(&b);
        assert_int_equal(clq_pool_wait(&b.pool), CLQ_ERROR_DEVICE);
        const bool second = strstr(clq_error_detail(), "worker 1") != NULL;
        assert_non_null(strstr(clq_error_detail(), second ? "worker 1 has had enough" : "worker 0 has had enough"));
        assert_non_null(strstr(clq_error_detail(), second ? "replica 1" : "replica 0"));
        end(&b);
        assert_int_equal(b.told, WORKERS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(commands_run_in_order),
                                       cmocka_unit_test(the_first_failure_is_the_pools),
                                       cmocka_unit_test(one_of_two_failures_is_the_pools)};
    (void)alarm(SECONDS_MOST);
    return cmocka_run_group_tests_name("strategy/pool", tests, open_system, close_system);
}
