/* Half-precision numbers: each of them converted there and back, and the rounding of values between two of them. */
#include "base/base.h"
#include "support/check.h"

#include <math.h>

/* By the definition: 1 bit of sign, 5 of exponent, 10 of fraction. */
static double value_of(unsigned half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return half & 0x8000 ? -size : size;
}

static void every_half_returns(void **state) {
    (void)state;
    for (unsigned half = 0; half < 1u << 16; half++) {
        float value = clq_half_to_float((uint16_t)half);
        if ((half & 0x7fff) > 0x7c00) {
            assert_true(isnan(value));
            assert_true((clq_half_of_float(value) & 0x7fff) > 0x7c00);
            continue;
        }
        if ((half & 0x7fff) == 0x7c00)
            assert_true(isinf(value) && !signbit(value) == !(half & 0x8000));
        else
            assert_true((double)value == value_of(half));
        assert_int_equal(clq_half_of_float(value), half);
    }
}

/* A value between two neighbours becomes the nearer one. The value in the middle becomes the even one. */
static void rounds_to_the_nearest(void **state) {
    (void)state;
    for (unsigned half = 0; half < 0x7bff; half++) {
        double low = value_of(half), high = value_of(half + 1), middle = (low + high) / 2;
        assert_int_equal(clq_half_of_float((float)middle), half + (half & 1));
        assert_int_equal(clq_half_of_float(nextafterf((float)middle, 0)), half);
        assert_int_equal(clq_half_of_float(nextafterf((float)middle, 1e9f)), half + 1);
        assert_int_equal(clq_half_of_float(-nextafterf((float)middle, 0)), half | 0x8000);
    }
    assert_int_equal(clq_half_of_float(65519.996f), 0x7bff);
    assert_int_equal(clq_half_of_float(65520), 0x7c00);
    assert_int_equal(clq_half_of_float(-INFINITY), 0xfc00);
}

static void bfloats_are_upper_halves(void **state) {
    (void)state;
    assert_true(clq_bfloat_to_float(0x3f80) == 1.0f);
    assert_true(clq_bfloat_to_float(0xc049) == -3.140625f);
    assert_true(isnan(clq_bfloat_to_float(0x7fc0)));
}

/* In bf16, 1 + 2^-7 follows 1. The value half way between them becomes 1, the even one, and 1 + 3 * 2^-8 becomes 1 +
 * 2^-6. */
static void bfloats_are_the_nearest(void **state) {
    (void)state;
    assert_int_equal(clq_bfloat_of_float(1.00390625f), 0x3f80);
    assert_int_equal(clq_bfloat_of_float(1.0039064f), 0x3f81);
    assert_int_equal(clq_bfloat_of_float(1.01171875f), 0x3f82);
    assert_int_equal(clq_bfloat_of_float(3.4e38f), 0x7f80);
    assert_int_equal(clq_bfloat_of_float(-INFINITY), 0xff80);
    assert_true(isnan(clq_bfloat_to_float(clq_bfloat_of_float(NAN))));
    for (uint32_t b = 0; b < 0x7f80; b++) assert_int_equal(clq_bfloat_of_float(clq_bfloat_to_float((uint16_t)b)), b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_half_returns), cmocka_unit_test(rounds_to_the_nearest),
                                       cmocka_unit_test(bfloats_are_upper_halves),
                                       cmocka_unit_test(bfloats_are_the_nearest)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
