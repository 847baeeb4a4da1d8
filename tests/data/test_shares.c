/* How a batch is shared out: tf.distribute's examples. */
#include "data/folder.h"

static void expect_shares(size_t count, unsigned replicas, const size_t *expected) {
    size_t offsets[64], counts[64], sum = 0;
    clq_shares_split(count, replicas, offsets, counts);
    for (unsigned r = 0; r < replicas; r++) {
        assert_int_equal(offsets[r], sum);
        assert_int_equal(counts[r], expected[r]);
        sum += counts[r];
    }
    assert_int_equal(sum, count);
}

static void shares(void **state) {
    (void)state;
    expect_shares(4, 3, DIMS(2, 2, 0)); /* range(8) in batches of 4: [0,1],[2,3],[] */
    expect_shares(2, 2, DIMS(1, 1));    /* a partial [4,5]: [4],[5] */
    expect_shares(8, 3, DIMS(3, 3, 2));
    expect_shares(64, 5, DIMS(13, 13, 13, 13, 12));
    expect_shares(1, 3, DIMS(1, 0, 0));
    expect_shares(5, 4, DIMS(2, 2, 1, 0));
    expect_shares(0, 2, DIMS(0, 0));
    expect_shares(7, 1, DIMS(7));
    expect_shares(SIZE_MAX, 2, DIMS(SIZE_MAX / 2 + 1, SIZE_MAX / 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
