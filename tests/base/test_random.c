#include "support/check.h"

#include <math.h>

/* The known answers that the authors publish with Random123 for philox4x32 with 10 rounds. */
static void known_answers(void **state) {
    (void)state;
    static const struct {
        uint64_t key, low, high;
        clq_philox expected;
    } answers[] = {
        {0, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {UINT64_C(0x299f31d0a4093822),
         UINT64_C(0x85a308d3243f6a88),
         UINT64_C(0x0370734413198a2e),
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(answers); i++) {
        clq_philox got = clq_philox4x32(answers[i].key, answers[i].low, answers[i].high);
        assert_memory_equal(&got, &answers[i].expected, sizeof(got));
    }
}

static void streams(void **state) {
    (void)state;
    clq_random random = clq_random_start(42, 7), again = clq_random_start(42, 7), other = clq_random_start(42, 8);
    int equal = 0;
    for (uint64_t block = 0; block < 100; block++) {
        clq_philox expected = clq_philox4x32(42, block, 7);
        for (int word = 0; word < 4; word++) {
            uint32_t value = clq_random_u32(&random);
            assert_int_equal(value, expected.word[word]);
            assert_int_equal(value, clq_random_u32(&again));
            equal += value == clq_random_u32(&other);
        }
    }
    assert_true(equal < 3);
}

/* Chi-square of counts against a uniform expectation. */
static double chi_square(const unsigned *counts, unsigned bins, unsigned draws) {
    double expected = (double)draws / bins, sum = 0;
    for (unsigned i = 0; i < bins; i++) sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    return sum;
}

static void below_is_even(void **state) {
    (void)state;
    clq_random random = clq_random_start(1, 0);
    unsigned counts[12] = {0};
    for (int i = 0; i < 120000; i++) {
        uint64_t value = clq_random_below(&random, 12);
        assert_true(value < 12);
        counts[value]++;
    }
    assert_true(chi_square(counts, 12, 120000) < 31.3); /* 11 degrees of freedom, 0.1 % */
    for (int i = 0; i < 100; i++) assert_int_equal(clq_random_below(&random, 1), 0);
    /* With 3 x 2^62, taking remainders of 64 bits would favour the first third two to one. */
    uint64_t bound = UINT64_C(3) << 62;
    unsigned thirds[3] = {0};
    for (int i = 0; i < 30000; i++) {
        uint64_t value = clq_random_below(&random, bound);
        assert_true(value < bound);
        thirds[value >> 62]++;
    }
    assert_true(chi_square(thirds, 3, 30000) < 13.9);
}

static void unit_is_even(void **state) {
    (void)state;
    clq_random random = clq_random_start(2, 0);
    unsigned counts[20] = {0};
    double sum = 0;
    bool fine = false;
    for (int i = 0; i < 100000; i++) {
        double value = clq_random_unit(&random);
        assert_true(value >= 0 && value < 1);
        counts[(int)(value * 20)]++;
        sum += value;
        fine |= value * 0x1p32 != floor(value * 0x1p32); /* more than 32 bits */
    }
    assert_true(fine);
    assert_true(fabs(sum / 100000 - 0.5) < 0.004);
    assert_true(chi_square(counts, 20, 100000) < 43.9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(streams),
        cmocka_unit_test(below_is_even),
        cmocka_unit_test(unit_is_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
