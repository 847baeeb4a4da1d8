/* The arithmetic of shares by speed: what samples cost, and which shares finish soonest. */
#include "strategy/replicas/shares.h"
#include "support/check.h"

#include <math.h>

enum { TRIALS = 3000, REPLICAS_MOST = 5, TOTAL_MOST = 40 };

static double slowest(unsigned replicas, const clq_share_cost *costs, const size_t *counts) {
    double seconds = 0.0;
    for (unsigned r = 0; r < replicas; r++) seconds = fmax(seconds, clq_share_cost_of(&costs[r], counts[r]));
    return seconds;
}

/* The shortest time among all splits of `total` over the replicas from r on. */
static double best_of(unsigned r, unsigned replicas, const clq_share_cost *costs, const size_t *most, size_t total) {
    double best = (double)INFINITY;
    if (r + 1 >= replicas || r + 1 >= REPLICAS_MOST)
        return total <= most[r] ? clq_share_cost_of(&costs[r], total) : best;
    for (size_t n = 0; n <= total && n <= most[r]; n++)
        best = fmin(best, fmax(clq_share_cost_of(&costs[r], n), best_of(r + 1, replicas, costs, most, total - n)));
    return best;
}

/* Compares with every possible split. */
static void no_split_is_faster(void **state) {
    (void)state;
    clq_random random = clq_random_start(3, 0);
    for (int trial = 0; trial < TRIALS; trial++) {
        const unsigned replicas = 1 + (unsigned)clq_random_below(&random, trial % 10 ? 3 : REPLICAS_MOST);
        const size_t total = 1 + (size_t)clq_random_below(&random, replicas > 3 ? 15 : TOTAL_MOST);
        clq_share_cost costs[REPLICAS_MOST] = {{0}};
        size_t most[REPLICAS_MOST], counts[REPLICAS_MOST], sum = 0;
        for (unsigned r = 0; r < replicas; r++) {
            costs[r].sample_s = 1e-5 * (1.0 + clq_random_unit(&random) * 9.0);
            costs[r].fixed_s = trial % 2 ? 1e-4 * clq_random_unit(&random) : 0.0;
            most[r] = clq_ceil_div(total, replicas) + (size_t)clq_random_below(&random, total);
        }
        clq_shares_balance(total, replicas, costs, most, counts);
        for (unsigned r = 0; r < replicas; r++) {
            assert_true(counts[r] <= most[r]);
            sum += counts[r];
        }
        assert_int_equal(sum, total);
        const double best = best_of(0, replicas, costs, most, total);
        assert_true(fabs(slowest(replicas, costs, counts) - best) <= 1e-9 * best);
    }
}

static void who_begins_too_late_gets_nothing(void **state) {
    (void)state;
    const clq_share_cost costs[] = {{.fixed_s = 1e-3, .sample_s = 1e-4}, {.fixed_s = 1.0, .sample_s = 1e-4}};
    size_t counts[2];
    clq_shares_balance(64, 2, costs, (const size_t[]){64, 64}, counts);
    assert_int_equal(counts[0], 64);
    assert_int_equal(counts[1], 0);
}

/* Observes a replica with this fixed time and this time per sample. */
static void observe(clq_share_cost *cost, size_t samples, double fixed_s, double sample_s) {
    clq_share_cost_observe(cost, samples, fixed_s + (double)samples * sample_s);
}

static void check(const clq_share_cost *cost, double fixed_s, double sample_s) {
    assert_true(fabs(cost->fixed_s - fixed_s) <= 1e-9 && fabs(cost->sample_s - sample_s) <= 1e-9);
}

static void costs_are_found(void **state) {
    (void)state;
    clq_share_cost cost = {0};
    observe(&cost, 100, 0, 2e-3); /* as long as only one number of samples was seen, all time counts as per sample */
    check(&cost, 0, 2e-3);
    observe(&cost, 100, 0, 6e-3); /* three times slower */
    check(&cost, 0, 6e-3);
    cost = (clq_share_cost){0};
    observe(&cost, 100, 0.1, 2e-3);
    check(&cost, 0, 3e-3);
    observe(&cost, 50, 0.1, 2e-3); /* a second number of samples shows the fixed part */
    check(&cost, 0.1, 2e-3);
    observe(&cost, 50, 0.3, 6e-3); /* everything is three times slower */
    check(&cost, 0.3, 6e-3);
    observe(&cost, 52, 0.3, 6e-3); /* too close to 50 to tell more */
    check(&cost, 0.3, 6e-3);
    observe(&cost, 0, 0.3, 6e-3); /* without samples only the fixed part remains, */
    check(&cost, 0.3, 6e-3);
    observe(&cost, 0, 0.1, 0); /* and shows how fast the replica is */
    check(&cost, 0.1, 2e-3);
}

/* Implausible observations are not taken as they are: more samples in less time, or a fixed part that suddenly is more
 * than half of the time. */
static void noise_makes_no_cost(void **state) {
    (void)state;
    clq_share_cost cost = {0};
    clq_share_cost_observe(&cost, 100, 0.2);
    clq_share_cost_observe(&cost, 200, 0.1);
    assert_true(cost.sample_s > 0.0 && cost.fixed_s >= 0.0);
    assert_true(fabs(clq_share_cost_of(&cost, 200) - 0.1) < 1e-12);
    cost = (clq_share_cost){0};
    clq_share_cost_observe(&cost, 100, 0.2);
    clq_share_cost_observe(&cost, 50, 0.19);
    assert_true(fabs(cost.fixed_s - 0.095) < 1e-12 && fabs(clq_share_cost_of(&cost, 50) - 0.19) < 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_split_is_faster),
                                       cmocka_unit_test(who_begins_too_late_gets_nothing),
                                       cmocka_unit_test(costs_are_found), cmocka_unit_test(noise_makes_no_cost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
