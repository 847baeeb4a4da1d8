/* Made-up traces, with every figure worked out by hand, and files that are not traces. */
#include "support/check.h"
#include "support/files.h"
#include "why/intervals.h"
#include "why/why.h"

#include <math.h>

/* Two replicas, one step each, in microseconds; replica 1 comes 20 later to the exchange.
 *
 *            0    10   20   30   40   50   60   70   80   90   100
 * replica 0  host ........step 1.......................           (0 to 90), and then nothing until its update ends
 *            queue     |forward 10-30|            |update 70-100|
 *            exchange            |30 -- waits until 50 -- 60|
 * replica 1  host      step 1 (10 to 80)
 *            queue          |forward 20-50|    |update 60-80|
 *            exchange                     |50-60|
 * input      waits from 0 to 20 */
#define NAMES                                                                                                          \
    "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"tid\":0,\"args\":{\"name\":\"input\"}},"                      \
    "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"replica 0: one\"}},"             \
    "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":2,\"tid\":0,\"args\":{\"name\":\"replica 1: two\"}},"             \
    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":1,\"args\":{\"name\":\"host\"}},"                        \
    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"queue\"}},"                       \
    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":3,\"args\":{\"name\":\"exchange\"}},"                    \
    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":2,\"tid\":1,\"args\":{\"name\":\"host\"}},"                        \
    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":2,\"tid\":2,\"args\":{\"name\":\"queue\"}},"                       \
    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":2,\"tid\":3,\"args\":{\"name\":\"exchange\"}}"
#define EVENT(name, pid, tid, from, lasts, more)                                                                       \
    ",{\"name\":\"" name "\",\"ph\":\"X\",\"pid\":" #pid ",\"tid\":" #tid ",\"ts\":" #from ",\"dur\":" #lasts more "}"
#define STEP(n) ",\"args\":{\"batch\":" #n "}"
#define TRACE(events) "{\"traceEvents\":[" NAMES events "]}"
#define ONE_STEP                                                                                                       \
    EVENT("wait for a batch", 0, 1, 0, 20, "")                                                                         \
    EVENT("dense/forward", 1, 2, 10, 20, "")                                                                           \
    EVENT("update/update", 1, 2, 70, 30, "")                                                                           \
    EVENT("all-reduce", 1, 3, 30, 30, "")                                                                              \
    EVENT("step", 1, 1, 0, 90, STEP(1))                                                                                \
    EVENT("dense/forward", 2, 2, 20, 30, "")                                                                           \
    EVENT("update/update", 2, 2, 60, 20, "") EVENT("all-reduce", 2, 3, 50, 10, "") EVENT("step", 2, 1, 10, 70, STEP(1))

static clq_status explain(const char *text, clq_traced_run *out) {
    return clq_trace_explain(files_put("trace.json", text, strlen(text)), out);
}

static void expect(const clq_traced_step *step, double busy, double waiting, double exchange, double host,
                   double input) {
    const double want[CLQ_DOINGS] = {busy, waiting, exchange, host, input};
    for (unsigned d = 0; d < CLQ_DOINGS; d++)
        if (fabs(step->seconds[d] * 1e6 - want[d]) > 1e-6)
            fail_msg("%s: %g us, not %g", clq_doing_name(d), step->seconds[d] * 1e6, want[d]);
}

static void each_moment_is_explained_once(void **state) {
    (void)state;
    clq_traced_run run;
    assert_ok(explain(TRACE(ONE_STEP), &run));
    assert_int_equal(run.count, 2);
    assert_string_equal(run.replicas[1].name, "two");
    /* 0 to 100: the replica's thread works from 0 to 10 and from 60 to 70. */
    expect(&run.replicas[0].steps[0], 50, 20, 10, 20, 0);
    assert_int_equal(run.replicas[0].steps[0].waited_for, 1);
    assert_true(fabs(run.replicas[0].waited_for_s[1] - 20e-6) < 1e-12);
    /* 10 to 80. */
    expect(&run.replicas[1].steps[0], 50, 0, 10, 10, 0);
    assert_int_equal(run.replicas[1].steps[0].waited_for, -1);
    clq_traced_run_release(&run);
}

/* Step 1 lasts from 0 to 100, and its thread works for 30. Then come 50 of waiting for a batch, 20 of nothing, and a
 * test, which is no step. The thread of step 2 works from 300 to 310. */
static void steps_are_apart(void **state) {
    (void)state;
    clq_traced_run run;
    assert_ok(explain(TRACE(EVENT("step", 1, 1, 300, 10, STEP(2)) EVENT("step", 1, 1, 0, 30, STEP(1))
                                EVENT("wait for a batch", 0, 1, 20, 60, "") EVENT("evaluate", 1, 1, 100, 100, "")
                                    EVENT("dense/forward", 1, 2, 120, 30, "")),
                      &run));
    assert_int_equal(run.replicas[0].step_count, 2);
    assert_int_equal(run.replicas[0].steps[1].step, 2);
    expect(&run.replicas[0].steps[0], 0, 0, 0, 50, 50);
    expect(&run.replicas[0].steps[1], 0, 0, 0, 10, 0);
    assert_int_equal(run.replicas[1].step_count, 0);
    clq_traced_run_release(&run);
}

static void what_is_no_trace_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "line 1"},
        {"[]", "traceEvents"},
        {"{\"traceEvents\":{}}", "traceEvents"},
        {"{\"traceEvents\":[]}", "no process is a replica"},
        {"{\"traceEvents\":[3]}", "event 0 is no object"},
        {"{\"traceEvents\":[[[[[[[[[[]]]]]]]]]]}", "nested"},
        {"{\"traceEvents\":[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"replica 64: x\"}}]}",
         "no process is a replica"},
        {"{\"traceEvents\":[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":-1,\"args\":{\"name\":\"replica 0: x\"}}]}",
         "\"pid\""},
        {TRACE(",{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":7,\"args\":{\"name\":\"replica 1: x\"}}"),
         "replica 1 has a process already"},
        {TRACE(""), "no replica made a step"},
        {TRACE(EVENT("step", 1, 1, 0, 1, "")), "a step has no number"},
        {TRACE(EVENT("step", 1, 1, 0, -1, STEP(1))), "\"dur\""},
        {TRACE(EVENT("step", 1, 1, 1e300, 1, STEP(1))), "\"ts\""},
        {TRACE(EVENT("step", 1, 1, "0", 1, STEP(1))), "\"ts\""},
        {TRACE(EVENT("step", 1.5, 1, 0, 1, STEP(1))), "\"pid\""},
        {TRACE(",{\"ph\":\"X\",\"pid\":1,\"ts\":0,\"dur\":1}"), "\"tid\""},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_traced_run run;
        assert_fails(CLQ_ERROR_FORMAT, cases[i].says, explain(cases[i].text, &run));
    }
    clq_traced_run run;
    assert_fails(CLQ_ERROR_NOT_FOUND, "nowhere", clq_trace_explain("nowhere.json", &run));
}

static clq_status explain_again(void *context) {
    clq_traced_run run = {0};
    clq_status status = clq_trace_explain(context, &run);
    clq_traced_run_release(&run);
    return status;
}

static void allocations_fail(void **state) {
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", files_put("trace.json", TRACE(ONE_STEP), strlen(TRACE(ONE_STEP))));
    assert_true(walk_allocations(explain_again, path) > 10);
}

/* Compares intervals with sets of single moments. */
static void intervals_are_sets(void **state) {
    (void)state;
    enum { MOMENTS = 40, ROUNDS = 200 };
    clq_random random = clq_random_start(1, 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        clq_intervals sets[3] = {{0}};
        bool in[2][MOMENTS] = {{false}};
        for (unsigned s = 0; s < 2; s++) {
            for (unsigned i = (unsigned)clq_random_below(&random, 9); i > 0; i--) {
                const size_t begin = clq_random_below(&random, MOMENTS), end = clq_random_below(&random, MOMENTS);
                for (size_t k = begin; k < end; k++) in[s][k] = true;
                assert_ok(clq_intervals_add(&sets[s], (double)begin, (double)end));
            }
            clq_intervals_join(&sets[s]);
        }
        assert_ok(clq_intervals_take(&sets[0], &sets[1], &sets[2]));
        for (size_t k = 0; k < MOMENTS; k++) {
            unsigned rest = 0, taken = 0;
            for (size_t i = 0; i < sets[0].count; i++)
                rest += sets[0].items[i].begin <= (double)k && (double)k < sets[0].items[i].end;
            for (size_t i = 0; i < sets[2].count; i++)
                taken += sets[2].items[i].begin <= (double)k && (double)k < sets[2].items[i].end;
            assert_int_equal(rest, in[0][k] && !in[1][k]);
            assert_int_equal(taken, in[0][k] && in[1][k]);
        }
        for (unsigned s = 0; s < 3; s++) clq_free(sets[s].items);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_moment_is_explained_once),
        cmocka_unit_test(steps_are_apart),
        cmocka_unit_test(what_is_no_trace_is_refused),
        cmocka_unit_test(allocations_fail),
        cmocka_unit_test(intervals_are_sets),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
