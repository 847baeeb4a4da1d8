/* Claims: what processes that share a cache know of each other's work. Each open file here stands for a process: the
 * locks belong to the open file and end when it is closed, as they end with a process. */
#include "device/internal.h"
#include "fixture.h"

#include "support/files.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const clq_hash128 key = {.low = 12345, .high = 1}, place = {.low = 678, .high = 2},
                         other = {.low = 9, .high = 3};

static int open_claims(void) {
    int claims = clq_claims_open(files_folder);
    assert_true(claims >= 0);
    return claims;
}

typedef struct waiter {
    int claims;
    clq_claim claim;
    bool died;
    atomic_bool begun;
} waiter;

static void begin_claim(void *context) {
    waiter *w = context;
    w->died = clq_claim_begin(w->claims, place, key, &w->claim);
    atomic_store(&w->begun, true);
}

/* The first claim has the program to itself until it shares the program. From then on all claims work side by side. */
static void test_first_alone(void **state) {
    (void)state;
    int first = open_claims();
    clq_claim claim;
    assert_false(clq_claim_begin(first, place, key, &claim));
    assert_true(claim.held && claim.alone);
    waiter waiters[2] = {{.claims = open_claims()}, {.claims = open_claims()}};
    clq_thread *threads[2];
    for (int i = 0; i < 2; i++) CHECK_OK(clq_thread_start("waiter", begin_claim, &waiters[i], &threads[i]));
    usleep(50000);
    for (int i = 0; i < 2; i++) assert_false(atomic_load(&waiters[i].begun));
    clq_claim elsewhere; /* a claim on another program does not wait */
    assert_false(clq_claim_begin(waiters[0].claims, other, other, &elsewhere));
    assert_true(elsewhere.alone);
    clq_claim_end(&elsewhere);
    clq_claim_share(&claim);
    for (int i = 0; i < 2; i++) clq_thread_join(threads[i]);
    for (int i = 0; i < 2; i++) assert_true(waiters[i].claim.held && !waiters[i].claim.alone && !waiters[i].died);
    /* Claims may end in any order: the last one to end leaves no mark. */
    clq_claim_end(&claim);
    clq_claim_end(&waiters[1].claim);
    clq_claim_end(&waiters[0].claim);
    assert_false(clq_claim_begin(first, place, key, &claim));
    assert_true(claim.alone);
    assert_int_equal(claim.attempt, 0);
    clq_claim_end(&claim);
    clq_claims_close(first);
    for (int i = 0; i < 2; i++) clq_claims_close(waiters[i].claims);
}

/* A mark without a lock is reported to one process, once. It counts as one more attempt for all processes that build
 * the program afterwards. */
static void leave_mark(unsigned before) {
    int next = open_claims();
    clq_claim claim;
    assert_true(clq_claim_begin(next, place, key, &claim));
    assert_int_equal(claim.attempt, before + 1);
    clq_claim_end(&claim);
    assert_false(clq_claim_begin(next, place, key, &claim));
    assert_int_equal(claim.attempt, before + 1);
    clq_claim_end(&claim);
    clq_claims_close(next);
}

static void test_death(void **state) {
    (void)state;
    clq_claim claim;
    int claims = open_claims();
    assert_false(clq_claim_begin(claims, place, key, &claim));
    clq_claims_close(claims);
    leave_mark(0);
    pid_t child = fork();
    if (child == 0) {
        (void)clq_claim_begin(clq_claims_open(files_folder), place, key, &claim);
        (void)raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    leave_mark(1);
    claims = open_claims();
    assert_false(clq_claim_begin(claims, place, key, &claim));
    clq_claim_end(&claim);
    clq_claim_distrust(claims, place, key); /* as if this process had died */
    clq_claims_close(claims);
    leave_mark(2);
}

/* If a process dies while others work on the program and end well, its death is no sign that the program is to
 * blame. */
static void test_death_beside_others(void **state) {
    (void)state;
    clq_claim dies, lives;
    int first = open_claims(), second = open_claims();
    assert_false(clq_claim_begin(first, place, other, &dies));
    clq_claim_share(&dies);
    assert_false(clq_claim_begin(second, place, other, &lives));
    clq_claims_close(first);
    clq_claim_end(&lives);
    assert_false(clq_claim_begin(second, place, other, &lives));
    clq_claim_end(&lives);
    clq_claims_close(second);
}

/* From now on a file may have at most `bytes` bytes. Returns the limit before. */
static rlim_t limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    return before;
}

/* A process that cannot write (ulimit -f) ends last: it must not be taken for dead. It holds the place like any other
 * process. */
static void test_one_that_cannot_write(void **state) {
    (void)state;
    clq_claim writes, reads;
    int first = open_claims(), second = open_claims();
    assert_false(clq_claim_begin(first, place, other, &writes));
    clq_claim_share(&writes);
    (void)signal(SIGXFSZ, SIG_IGN);
    const rlim_t most = limit_files(0);
    assert_false(clq_claim_begin(second, place, other, &reads));
    assert_true(reads.held);
    (void)limit_files(most);
    clq_claim_end(&writes);
    (void)limit_files(0);
    clq_claim_end(&reads);
    assert_false(clq_claim_begin(second, place, other, &reads));
    assert_true(reads.held && reads.alone);
    (void)limit_files(most);
    clq_claim_end(&reads);
    assert_false(clq_claim_begin(first, place, other, &writes));
    assert_true(writes.alone);
    clq_claim_end(&writes);
    clq_claims_close(first);
    clq_claims_close(second);
}

/* Two devices of one driver with different names share the place, and each has its own mark. */
static void test_two_devices(void **state) {
    (void)state;
    const clq_hash128 second_key = {.low = 54321, .high = 1};
    int files[] = {open_claims(), open_claims()};
    for (int dies = 0; dies < 2; dies++) {
        clq_claim claims[2];
        assert_false(clq_claim_begin(files[0], place, key, &claims[0]));
        clq_claim_share(&claims[0]);
        assert_false(clq_claim_begin(files[1], place, second_key, &claims[1]));
        assert_false(claims[1].alone);
        clq_claim_end(&claims[0]); /* while the other claim holds the place */
        if (!dies) clq_claim_end(&claims[1]);
        if (dies) clq_claims_close(files[1]);
    }
    clq_claim claim;
    files[1] = open_claims();
    assert_false(clq_claim_begin(files[0], place, key, &claim));
    clq_claim_end(&claim);
    assert_true(clq_claim_begin(files[1], place, second_key, &claim));
    clq_claim_end(&claim);
    for (int i = 0; i < 2; i++) clq_claims_close(files[i]);
}

/* clq_claim_distrust does not wait. A process that makes the program at this moment, and ends well, shows that the
 * program can be made. */
static void test_distrust_does_not_wait(void **state) {
    (void)state;
    clq_claim makes;
    int first = open_claims(), second = open_claims();
    assert_false(clq_claim_begin(first, other, other, &makes));
    assert_true(makes.alone);
    double begun = clq_now();
    clq_claim_distrust(second, other, other);
    assert_true(clq_now() - begun < 10); /* a claim waits for a minute */
    clq_claim_end(&makes);
    assert_false(clq_claim_begin(second, other, other, &makes));
    assert_true(makes.alone);
    clq_claim_end(&makes);
    clq_claims_close(first);
    clq_claims_close(second);
}

/* Without a claims file there is no process to wait for, and nothing is known. */
static void test_no_file(void **state) {
    (void)state;
    clq_claim claim;
    assert_int_equal(clq_claims_open("/proc/no such folder"), -1);
    assert_false(clq_claim_begin(-1, place, key, &claim));
    assert_false(claim.held);
    assert_int_equal(claim.attempt, 0);
    clq_claim_share(&claim);
    clq_claim_end(&claim);
    clq_claim_distrust(-1, place, key);
    clq_claims_close(-1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_alone),
                                       cmocka_unit_test(test_death),
                                       cmocka_unit_test(test_death_beside_others),
                                       cmocka_unit_test(test_one_that_cannot_write),
                                       cmocka_unit_test(test_two_devices),
                                       cmocka_unit_test(test_distrust_does_not_wait),
                                       cmocka_unit_test(test_no_file)};
    return cmocka_run_group_tests_name("claim", tests, files_begin, files_end);
}
