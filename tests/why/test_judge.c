/* The verdict on a run: what limited its processes, from the time that each of them spent. */
#include "support/check.h"
#include "why/why.h"

/* What a run of 10 s spent, in seconds. */
static clq_spent spent(double input_s, double exchange_s, double first_waited_s, double second_waited_s) {
    const clq_toll begun = {.trained_s = 1, .input_s = 1, .exchange_s = 1, .waited_s = {1, 1}};
    clq_toll ended = {.trained_s = 11, .input_s = 1 + input_s, .exchange_s = 1 + exchange_s};
    ended.waited_s[0] = 1 + first_waited_s;
    ended.waited_s[1] = 1 + second_waited_s;
    return clq_why_spent(2, &begun, &ended);
}

static void expect_share(clq_verdict found, double right) {
    if (!(found.share > right - 1e-9 && found.share < right + 1e-9))
        fail_msg("a share of %g, not %g", found.share, right);
}

static void expect(unsigned processes, const clq_spent *all, clq_verdict right) {
    const clq_verdict found = clq_why_judge(processes, all);
    assert_string_equal(clq_limit_name(found.limit), clq_limit_name(right.limit));
    assert_int_equal(found.rank, right.rank);
    assert_int_equal(found.replica, right.replica);
    expect_share(found, right.share);
}

static clq_verdict judge(unsigned replicas, const clq_toll *begun, const clq_toll *ended) {
    const clq_spent own = clq_why_spent(replicas, begun, ended);
    return clq_why_judge(1, &own);
}

/* A run of 10 s. Before it there were 2 s with other costs, which do not count. */
static void one_process(void **state) {
    (void)state;
    const clq_toll begun = {.trained_s = 2, .input_s = 1, .exchange_s = 1, .waited_s = {0, 2, 0}};
    clq_toll ended = {.trained_s = 12, .input_s = 1.5, .exchange_s = 2, .waited_s = {1, 3, 1}};
    clq_verdict v = judge(3, &begun, &ended);
    assert_int_equal(v.limit, CLQ_LIMIT_COMPUTE);
    expect_share(v, 0.05); /* 0.5 of 10 */
    ended.exchange_s = 4;  /* 3 of 10 */
    v = judge(3, &begun, &ended);
    assert_int_equal(v.limit, CLQ_LIMIT_COMMUNICATION);
    expect_share(v, 0.3);
    ended.waited_s[0] = 5; /* waits of 5, 1 and 3: the others waited for replica 1, 3 s more than it did */
    ended.waited_s[2] = 3;
    v = judge(3, &begun, &ended);
    assert_int_equal(v.limit, CLQ_LIMIT_SLOW_DEVICE);
    assert_int_equal(v.replica, 1);
    expect_share(v, 0.3);
    assert_int_equal(judge(1, &begun, &ended).limit, CLQ_LIMIT_COMMUNICATION); /* no other replica to wait for */
    ended.input_s = 4;
    v = judge(3, &begun, &ended);
    assert_int_equal(v.limit, CLQ_LIMIT_INPUT);
    expect_share(v, 0.3);
}

/* If even the slowest process spends time in exchanges, this time is communication. All further time in exchanges is
 * waiting for the slowest process. */
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
