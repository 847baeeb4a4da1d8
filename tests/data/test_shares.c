/* How a batch is divided among replicas: the examples of tf.distribute, and laws that hold for every split. */
#include "data/folder.h"

static void expect_shares(size_t count, unsigned replicas, const double *weights, const size_t *expected) {
    size_t offsets[64], counts[64], sum = 0;
    clq_shares_split(count, replicas, weights, offsets, counts);
    for (unsigned r = 0; r < replicas; r++) {
        assert_int_equal(offsets[r], sum);
        assert_int_equal(counts[r], expected[r]);
        sum += counts[r];
    }
    assert_int_equal(sum, count);
}

static void equal_shares(void **state) {
    (void)state;
    expect_shares(4, 3, NULL, DIMS(2, 2, 0)); /* range(8) in batches of 4: [0,1],[2,3],[] */
    expect_shares(2, 2, NULL, DIMS(1, 1));    /* a partial [4,5]: [4],[5] */
    expect_shares(8, 3, NULL, DIMS(3, 3, 2));
    expect_shares(64, 5, NULL, DIMS(13, 13, 13, 13, 12));
    expect_shares(1, 3, NULL, DIMS(1, 0, 0));
    expect_shares(5, 4, NULL, DIMS(2, 2, 1, 0));
    expect_shares(0, 2, NULL, DIMS(0, 0));
    expect_shares(7, 1, NULL, DIMS(7));
    expect_shares(SIZE_MAX, 2, NULL, DIMS(SIZE_MAX / 2 + 1, SIZE_MAX / 2));
}

#define WEIGHTS(...) ((const double[]){__VA_ARGS__})

static void weighted_shares(void **state) {
    (void)state;
    expect_shares(64, 2, WEIGHTS(3.0, 1.0), DIMS(48, 16));
    expect_shares(10, 3, WEIGHTS(0.0, 1.0, 0.0), DIMS(0, 10, 0));
    expect_shares(10, 3, WEIGHTS(1.0, 0.0, 1.0), DIMS(5, 0, 5));
    expect_shares(10, 2, WEIGHTS(2.0, 1.0), DIMS(7, 3)); /* 6.67, 3.33 */
    expect_shares(0, 2, WEIGHTS(1.0, 2.0), DIMS(0, 0));
    expect_shares(6, 3, WEIGHTS(1e-3, 2e-3, 3e-3), DIMS(1, 2, 3));
    expect_shares(8, 3, WEIGHTS(5.0, 5.0, 5.0), DIMS(3, 3, 2)); /* as without weights */
    expect_shares(7, 1, WEIGHTS(0.5), DIMS(7));
}

/* Laws for any weights. Shares are runs that follow one another and add up to the count. Each share is its exact part
 * rounded up or down, and 0 for a weight of 0. No share of a smaller count is larger than clq_shares_most says for the
 * whole count. */
static void laws_of_weights(void **state) {
    (void)state;
    clq_random random = clq_random_start(7, 0);
    for (int trial = 0; trial < 20000; trial++) {
        unsigned replicas = 1 + (unsigned)clq_random_below(&random, 9);
        size_t count = (size_t)clq_random_below(&random, 300), less = (size_t)clq_random_below(&random, count + 1);
        size_t offsets[9], counts[9], sum = 0;
        double weights[9], total = 0.0;
        for (unsigned r = 0; r < replicas; r++) {
            weights[r] = clq_random_below(&random, 4) ? clq_random_unit(&random) * 5.0 : 0.0;
            total += weights[r];
        }
        if (total <= 0.0 || replicas == 1) continue;
        clq_shares_split(less, replicas, weights, offsets, counts);
        for (unsigned r = 0; r < replicas; r++) {
            double exact = (double)less * weights[r] / total;
            assert_int_equal(offsets[r], sum);
            assert_true((double)counts[r] < exact + 1.0 + 1e-9 && (double)counts[r] > exact - 1.0 - 1e-9);
            assert_true(counts[r] <= clq_shares_most(count, replicas, weights, r));
            assert_true((double)clq_shares_most(count, replicas, weights, r) <=
                        (double)count * weights[r] / total + 1.0 + 1e-9);
            if (weights[r] <= 0.0) assert_int_equal(counts[r], 0);
            sum += counts[r];
        }
        assert_int_equal(sum, less);
    }
}

/* Whole-number weights that add up to a full batch are its shares. So a split that was worked out in samples is made
 * exactly. */
static void whole_weights_are_the_shares(void **state) {
    (void)state;
    clq_random random = clq_random_start(8, 0);
    for (int trial = 0; trial < 20000; trial++) {
        const unsigned replicas = 2 + (unsigned)clq_random_below(&random, 8);
        size_t wanted[9], total = 0;
        double weights[9];
        for (unsigned r = 0; r < replicas; r++) {
            wanted[r] = (size_t)clq_random_below(&random, trial % 2 ? 5 : 5000);
            weights[r] = (double)wanted[r];
            total += wanted[r];
        }
        if (total > 0) expect_shares(total, replicas, weights, wanted);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_shares), cmocka_unit_test(weighted_shares),
                                       cmocka_unit_test(laws_of_weights),
                                       cmocka_unit_test(whole_weights_are_the_shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
