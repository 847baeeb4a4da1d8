/* Initial values of variables. */
#include "graph/graph.h"
#include "support/check.h"

#include <math.h>

enum { ELEMENTS = 40000, FAN_IN = 300, FAN_OUT = 100 };
static float values[ELEMENTS], others[ELEMENTS];

static const clq_variable *of(clq_initialiser initialiser) {
    static clq_variable variable;
    variable = (clq_variable){.elements = ELEMENTS, .fan_in = FAN_IN, .fan_out = FAN_OUT, .initialiser = initialiser};
    return &variable;
}

static void constants(void **state) {
    (void)state;
    clq_variable_initialise(of(CLQ_INITIALISER_ONES), 1, 0, values);
    for (size_t i = 0; i < ELEMENTS; i++) assert_true(values[i] == 1.0f);
    clq_variable_initialise(of(CLQ_INITIALISER_ZEROS), 1, 0, values);
    for (size_t i = 0; i < ELEMENTS; i++) assert_true(values[i] == 0.0f);
}

/* Uniform within the limit: the variance is limit^2 / 3; of 40,000 values the mean is within 5 of its deviations. */
static void glorot_uniform(void **state) {
    (void)state;
    double limit = sqrt(6.0 / (FAN_IN + FAN_OUT)), sum = 0, squares = 0, largest = 0;
    clq_variable_initialise(of(CLQ_INITIALISER_GLOROT_UNIFORM), 7, 3, values);
    for (size_t i = 0; i < ELEMENTS; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
        largest = fmax(largest, fabs((double)values[i]));
    }
    assert_true(largest <= limit * (1 + 1e-7) && largest > 0.999 * limit);
    assert_true(fabs(sum / ELEMENTS) < 5 * limit / sqrt(3.0 * ELEMENTS));
    assert_true(fabs(squares / ELEMENTS / (limit * limit / 3) - 1) < 0.03);
}

/* The same for a seed and a place, and for no other. */
static void streams(void **state) {
    (void)state;
    clq_variable_initialise(of(CLQ_INITIALISER_GLOROT_UNIFORM), 7, 3, values);
    clq_variable_initialise(of(CLQ_INITIALISER_GLOROT_UNIFORM), 7, 3, others);
    assert_memory_equal(values, others, sizeof values);
    for (uint32_t other = 0; other < 2; other++) {
        clq_variable_initialise(of(CLQ_INITIALISER_GLOROT_UNIFORM), 7 + other, 4 - other, others);
        size_t same = 0;
        for (size_t i = 0; i < ELEMENTS; i++) same += values[i] == others[i];
        assert_true(same < 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(constants), cmocka_unit_test(glorot_uniform),
                                       cmocka_unit_test(streams)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
