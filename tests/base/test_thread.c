#include "support/check.h"

#include <signal.h>
#include <stdio.h>

static void store_seven(void *context) { *(int *)context = 7; }

static void runs_and_joins(void **state) {
    (void)state;
    int value = 0;
    clq_thread *thread = NULL;
    assert_ok(clq_thread_start("a name much longer than fifteen", store_seven, &value, &thread));
    clq_thread_join(thread);
    assert_int_equal(value, 7);
    clq_thread_join(NULL);
}

static void look_at_signals(void *context) { pthread_sigmask(SIG_SETMASK, NULL, context); }

static void handlers_stay_with_the_program(void **state) {
    (void)state;
    sigset_t own, theirs, after;
    sigemptyset(&own);
    sigaddset(&own, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &own, NULL);
    clq_thread *thread;
    assert_ok(clq_thread_start("signals", look_at_signals, &theirs, &thread));
    clq_thread_join(thread);
    assert_int_equal(sigismember(&theirs, SIGINT), 1);
    assert_int_equal(sigismember(&theirs, SIGTERM), 1);
    assert_int_equal(sigismember(&theirs, SIGSEGV), 0);
    assert_int_equal(sigismember(&theirs, SIGABRT), 0);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&after, SIGUSR1), 1);
    assert_int_equal(sigismember(&after, SIGINT), 0);
}

#if defined(__linux__)
static void read_name(void *context) {
    FILE *file = fopen("/proc/thread-self/comm", "r");
    if (!file) return;
    if (!fgets(context, 64, file)) *(char *)context = '\0';
    fclose(file);
}

static void threads_have_names(void **state) {
    (void)state;
    char name[64] = "";
    clq_thread *thread;
    assert_ok(clq_thread_start("clq-worker-3", read_name, name, &thread));
    clq_thread_join(thread);
    assert_string_equal(name, "clq-worker-3\n");
}
#endif

static clq_status start(void *context) {
    clq_thread *thread = NULL;
    clq_status status = clq_thread_start("x", store_seven, context, &thread);
    clq_thread_join(thread);
    return status;
}

static void without_memory(void **state) {
    (void)state;
    int value = 0;
    assert_int_equal(walk_allocations(start, &value), 1);
}

static void counts_cores(void **state) {
    (void)state;
    assert_true(clq_cpu_count() >= 1);
    assert_true(clq_cpu_count() < 100000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_and_joins),
        cmocka_unit_test(handlers_stay_with_the_program),
#if defined(__linux__)
        cmocka_unit_test(threads_have_names),
#endif
        cmocka_unit_test(without_memory),
        cmocka_unit_test(counts_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
