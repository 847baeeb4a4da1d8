/* Which looks of a measurement count. The looks are made up. */
#include "support/check.h"
#include "why/looks.h"

#include <math.h>

static clq_looks looks_of(unsigned first, unsigned least, const double *others, unsigned count) {
    clq_looks looks = {.first = first, .least = least, .count = count};
    memcpy(looks.others, others, count * sizeof *others);
    return looks;
}

static void quiet_looks_count_alone(void **state) {
    (void)state;
    const double others[] = {0.5, 0.02, 0.1, 0.6, 0.0};
    const clq_looks looks = looks_of(5, 3, others, 5);
    double values[] = {50, 2, 10, 60, 1};
    assert_int_equal(clq_looks_pick(&looks, values), 3);
    assert_true(values[0] == 2 && values[1] == 10 && values[2] == 1);
    assert_float_equal(clq_looks_others(&looks), 0.04, 1e-12);
    assert_false(clq_looks_wanted(&looks, &(clq_patience){5}));
}

/* Looks that are nearly as quiet as the quietest count. The looks of a burst do not count. Under a steady load, all
 * looks do. */
static void without_quiet_looks_the_quietest_count(void **state) {
    (void)state;
    const double burst[] = {0.9, 0.2, 0.85, 0.25, 0.31}, steady[] = {0.5, 0.52, 0.48, 0.55, 0.47};
    clq_looks looks = looks_of(5, 2, burst, 5);
    double values[] = {9, 2, 8, 3, 4};
    assert_int_equal(clq_looks_pick(&looks, values), 3);
    assert_true(values[0] == 2 && values[1] == 3 && values[2] == 4);
    assert_float_equal(clq_looks_others(&looks), 0.76 / 3, 1e-12);
    looks = looks_of(5, 2, steady, 5);
    for (unsigned i = 0; i < 5; i++) assert_true(clq_looks_counts(&looks, i));
}

static void looks_are_made_while_patience_lasts(void **state) {
    (void)state;
    const double busy[] = {0.9, 0.8, 0.05};
    clq_looks looks = looks_of(3, 2, busy, 2);
    assert_true(clq_looks_wanted(&looks, NULL)); /* the first ones */
    looks = looks_of(3, 2, busy, 3);
    assert_false(clq_looks_wanted(&looks, NULL));
    assert_false(clq_looks_wanted(&looks, &(clq_patience){0}));
    assert_true(clq_looks_wanted(&looks, &(clq_patience){0.5})); /* one of two quiet ones */
    looks.others[1] = (double)NAN;                               /* its load is unknown: it is not quiet */
    assert_true(clq_looks_wanted(&looks, &(clq_patience){0.5}));
    assert_false(clq_looks_counts(&looks, 1));
    looks.others[0] = looks.others[2] = (double)NAN; /* no look's load is known: would more looks help? */
    assert_false(clq_looks_wanted(&looks, &(clq_patience){0.5}));
    for (unsigned i = 0; i < 3; i++) assert_true(clq_looks_counts(&looks, i));
    looks = (clq_looks){.first = 1, .least = 1, .count = CLQ_LOOKS_MAX};
    for (unsigned i = 0; i < CLQ_LOOKS_MAX; i++) looks.others[i] = 1;
    assert_false(clq_looks_wanted(&looks, &(clq_patience){0.5})); /* there is no room */
}

/* Looks beyond the first ones use up patience. */
static void looks_take_patience(void **state) {
    (void)state;
    clq_looks looks = {.first = 1, .least = 1};
    clq_patience patience = {1000};
    clq_looks_begin(&looks);
    clq_looks_end(&looks, &patience);
    assert_int_equal(looks.count, 1);
    assert_true(patience.left_s == 1000);
    clq_looks_begin(&looks);
    looks.begun.at_s -= 7;
    clq_looks_end(&looks, &patience);
    assert_int_equal(looks.count, 2);
    assert_true(patience.left_s <= 993 && patience.left_s > 0);
    clq_looks_begin(&looks);
    clq_looks_end(&looks, NULL);
}

static void what_is_not_known_is_no_doubt(void **state) {
    (void)state;
    const double unknown[] = {(double)NAN, (double)NAN}, mixed[] = {(double)NAN, 0.06};
    clq_looks looks = looks_of(2, 1, unknown, 2);
    clq_doubt doubt = {.others = (double)NAN};
    clq_doubt_add(&doubt, &looks, 0.25);
    assert_true(isnan(doubt.others) && doubt.spread == 0.25);
    assert_false(clq_doubt_is_grave(&doubt));
    looks = looks_of(2, 1, mixed, 2);
    clq_doubt_add(&doubt, &looks, 0.125);
    assert_true(doubt.others == 0.06 && doubt.spread == 0.25);
    assert_false(clq_doubt_is_grave(&doubt));
    doubt = clq_doubt_worse(&doubt, &(clq_doubt){.others = 0.5});
    assert_true(doubt.others == 0.5 && doubt.spread == 0.25 && clq_doubt_is_grave(&doubt));
    doubt = clq_doubt_worse(&doubt, &(clq_doubt){.others = (double)NAN});
    assert_true(doubt.others == 0.5);
}

static void the_middle_half(void **state) {
    (void)state;
    double values[] = {100, 4, 1, 2, 3, 0, 5, 6, -90}; /* -90 0 | 1 2 3 4 5 | 6 100 */
    assert_float_equal(clq_middle_mean(values, 9), 3, 1e-12);
    assert_float_equal(clq_middle_spread(values, 9), 4.0 / 3, 1e-12); /* 1 to 5, around 3 */
    double one[] = {7}, three[] = {1, 2, 6};
    assert_float_equal(clq_middle_mean(one, 1), 7, 0);
    assert_float_equal(clq_middle_spread(one, 1), 0, 0);
    assert_float_equal(clq_middle_mean(three, 3), 3, 1e-12);
}

/* Each member takes 2 on average, and one of them takes 3 in each round. */
static void each_round_waits_for_its_slowest(void **state) {
    (void)state;
    const double a[] = {1, 3, 1, 3}, b[] = {3, 1, 3, 1};
    const double *const times[] = {a, b};
    assert_float_equal(clq_mean_of_slowest(times, 2, 4), 3, 1e-12);
    assert_float_equal(clq_mean_of_slowest(times, 1, 4), 2, 1e-12);
    assert_float_equal(clq_mean_of_slowest(times, 2, 0), 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quiet_looks_count_alone),
        cmocka_unit_test(without_quiet_looks_the_quietest_count),
        cmocka_unit_test(looks_are_made_while_patience_lasts),
        cmocka_unit_test(looks_take_patience),
        cmocka_unit_test(what_is_not_known_is_no_doubt),
        cmocka_unit_test(the_middle_half),
        cmocka_unit_test(each_round_waits_for_its_slowest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
