/* The verdict of a run: what limited its processes, by what each spent. */
#include "support/check.h"
#include "why/why.h"

/* Seconds of 10 that a run took. */
static clq_spent spent(double input_s, double exchange_s, double first_waited_s, double second_waited_s) {
    const clq_toll begun = {.trained_s = 1, .input_s = 1, .exchange_s = 1, .waited_s = {1, 1}};
    clq_toll ended = {.trained_s = 11, .input_s = 1 + input_s, .exchange_s = 1 + exchange_s};
    ended.waited_s[0] = 1 + first_waited_s;
    ended.waited_s[1] = 1 + second_waited_s;
    return clq_why_spent(2, &begun, &ended);
}

static void expect(unsigned processes, const clq_spent *all, clq_verdict right) {
    const clq_verdict found = clq_why_judge(processes, all);
    assert_string_equal(clq_limit_name(found.limit), clq_limit_name(right.limit));
    assert_int_equal(found.rank, right.rank);
    assert_int_equal(found.replica, right.replica);
    if (!(found.share > right.share - 1e-9 && found.share < right.share + 1e-9))
        fail_msg("a share of %g, not %g", found.share, right.share);
}

static void one_process(void **state) {
    (void)state;
    const clq_spent input = spent(3, 4, 0, 0), device = spent(1, 4, 2, 0), exchange = spent(1, 4, 0, 0),
                    busy = spent(1, 1, 1, 0);
    expect(1, &input, (clq_verdict){.limit = CLQ_LIMIT_INPUT, .share = 0.3});
    expect(1, &device, (clq_verdict){.limit = CLQ_LIMIT_SLOW_DEVICE, .share = 0.2, .replica = 1});
    expect(1, &exchange, (clq_verdict){.limit = CLQ_LIMIT_COMMUNICATION, .share = 0.4});
    expect(1, &busy, (clq_verdict){.limit = CLQ_LIMIT_COMPUTE, .share = 0.1});
}

/* Of exchanges, what the slowest process spends in them too is communication: the rest is waiting for it. */
static void several_processes(void **state) {
    (void)state;
    const clq_spent input[] = {spent(0, 5, 0, 0), spent(4, 1, 0, 0)};
    const clq_spent machine[] = {spent(1, 5, 0, 0), spent(1, 1, 0, 0), spent(0, 4, 0, 0)};
    const clq_spent device[] = {spent(0, 1, 0, 0), spent(0, 1, 0, 3)};
    const clq_spent exchange[] = {spent(0, 4, 0, 0), spent(0, 3, 0, 0)};
    const clq_spent busy[] = {spent(0, 1, 0, 0), spent(0.5, 2, 0, 0)};
    expect(2, input, (clq_verdict){.limit = CLQ_LIMIT_INPUT, .share = 0.4, .rank = 1});
    expect(3, machine, (clq_verdict){.limit = CLQ_LIMIT_SLOW_MACHINE, .share = 0.35, .rank = 1});
    expect(2, device, (clq_verdict){.limit = CLQ_LIMIT_SLOW_DEVICE, .share = 0.3, .rank = 1});
    expect(2, exchange, (clq_verdict){.limit = CLQ_LIMIT_COMMUNICATION, .share = 0.3});
    expect(2, busy, (clq_verdict){.limit = CLQ_LIMIT_COMPUTE, .share = 0.05});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_process), cmocka_unit_test(several_processes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
