/* The clock of deadlines. It goes on like the ordinary clock while some thread looks at it, but not while the process
 * is stopped. */
#include "support/stop.h"

static const double look_s = 0.02;

/* Looks at the clock for `seconds` of clq_now. Returns how far the clock went on. No step of it goes back, or is longer
 * than that of the ordinary clock. */
static double look_for(double seconds) {
    double begun = clq_now_running(), last = begun;
    for (double until = clq_now() + seconds; clq_now() < until;) {
        nap(look_s);
        double now = clq_now_running();
        assert_true(now >= last);
        last = now;
    }
    return last - begun;
}

static void goes_on_while_looked_at(void **state) {
    (void)state;
    double before = clq_now(), ran = look_for(0.6);
    assert_true(ran <= clq_now() - before);
    assert_true(ran > 0.2); /* if the machine is so busy that all looks come late, some time is lost */
}

static void stands_while_stopped(void **state) {
    (void)state;
    const double stopped_s = 1.2;
    look_for(2 * look_s);
    double before = clq_now(), ran_before = clq_now_running();
    stop_process(stopped_s);
    double passed = clq_now() - before, ran = clq_now_running() - ran_before;
    assert_true(passed >= 0.9 * stopped_s);
    /* A gap counts as CLQ_RUNNING_MOST_S at most. Forking and waiting around it are further gaps. */
    assert_true(ran <= passed - 0.9 * stopped_s + CLQ_RUNNING_MOST_S + 0.1);
    assert_true(ran > 0);
    assert_true(look_for(0.3) > 0.1); /* and it goes on */
}

enum { THREADS = 4 };

typedef struct looker {
    atomic_int *begun;
    const atomic_bool *end;
    bool steps_back;
    double passed, ran;
} looker;

static void look_without_rest(void *context) {
    looker *self = context;
    const double begun = clq_now(), first = clq_now_running();
    double last = first;
    atomic_fetch_add(self->begun, 1);
    do {
        double now = clq_now_running();
        self->steps_back = self->steps_back || now < last;
        last = now;
    } while (!atomic_load(self->end));
    self->ran = last - first;
    self->passed = clq_now() - begun;
}

/* Threads look at the clock all the time while the process is stopped. For no thread does the clock go on too far,
 * which it would have to take back. For all threads it leaves out the stop. */
static void threads_agree(void **state) {
    (void)state;
    const double stopped_s = 0.7;
    clq_thread *threads[THREADS];
    atomic_bool end = false;
    atomic_int begun = 0;
    looker lookers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        lookers[i] = (looker){.begun = &begun, .end = &end};
        assert_ok(clq_thread_start("look", look_without_rest, &lookers[i], &threads[i]));
    }
    while (atomic_load(&begun) < THREADS) nap(0.001);
    stop_process(stopped_s);
    nap(0.05);
    atomic_store(&end, true);
    for (int i = 0; i < THREADS; i++) clq_thread_join(threads[i]);
    for (int i = 0; i < THREADS; i++) {
        assert_false(lookers[i].steps_back);
        assert_true(lookers[i].ran <= lookers[i].passed - 0.9 * stopped_s + CLQ_RUNNING_MOST_S + 0.1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_while_looked_at),
        cmocka_unit_test(stands_while_stopped),
        cmocka_unit_test(threads_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
