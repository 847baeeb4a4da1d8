/* Operations joined in one kernel give the same bits as launch by launch. The operations are those that no model's plan
 * in the other tests has. */
#include "support/ops_rig.h"

enum {
    POSITIONS = 15,
    CHANNELS = 12,
    CAPACITY = 9,
    COUNT = 8,
    ROW = POSITIONS * CHANNELS * sizeof(float),
    VECTOR = CHANNELS * sizeof(float),
    RESULTS = 6,
    BYTES_MOST = 2 * ROW * COUNT
};

/* The operations: dropout with a bias's gradient, normalisation forward and backward, means, a concatenation. The
 * output of each is a result. */
static const clq_repeat_problem mean = {1, POSITIONS, CHANNELS, 1.0f / POSITIONS};

static void add_operations(rig *r, clq_value x, clq_value results[RESULTS], size_t bytes[RESULTS]) {
    const clq_normalise_problem norm = {POSITIONS, CHANNELS, 1e-3, 0.9};
    const size_t rows[RESULTS] = {ROW, 0, ROW, ROW, VECTOR, 2 * ROW};
    clq_element_program p = {.output_count = 1, .sum_count = 1, .seed = 11};
    unsigned number = clq_element_take(&p, (struct clq_element_input){.kind = CLQ_EACH_ELEMENT, .dtype = CLQ_F32});
    clq_instruction drop = {.op = CLQ_ELEMENT_DROPOUT, .a = number, .number = 0.3, .stream = 2};
    p.outputs[0].from = p.sums[0] = clq_element_do(&p, drop);
    for (size_t i = 0; i < RESULTS; i++) {
        results[i] = rig_value(r, "result", rows[i] ? 0 : VECTOR, rows[i]);
        bytes[i] = rows[i] ? rows[i] * COUNT : VECTOR;
    }
    clq_value moments = rig_value(r, "moments", CLQ_MOMENTS_ROWS * VECTOR, 0), weights[4];
    clq_value statistics = rig_value(r, "statistics", CLQ_STATISTICS_ROWS * VECTOR, 0);
    clq_value corrections = rig_value(r, "corrections", CLQ_CORRECTIONS_ROWS * VECTOR, 0);
    for (size_t i = 0; i < 4; i++) weights[i] = rig_value(r, "by channel", VECTOR, 0);
    clq_elementwise(r->list, "dropout", &p,
                    &(clq_element_values){.elements = POSITIONS * CHANNELS,
                                          .channels = CHANNELS,
                                          .inputs = {x},
                                          .outputs = {results[0]},
                                          .sums = {results[1]}});
    clq_normalise_moments(r->list, &norm, results[0], 0, 1, moments);
    clq_normalise_statistics(r->list, &norm, moments, 1, CLQ_NO_VALUE, weights[0], weights[1], statistics);
    clq_normalise_forward(r->list, &norm, results[0], statistics, results[1], results[2]);
    clq_normalise_gradients(r->list, &norm, results[0], x, statistics, weights[2], weights[3]);
    clq_normalise_corrections(r->list, &norm, statistics, weights[2], weights[3], corrections);
    clq_normalise_backward(r->list, &norm, results[0], x, statistics, corrections, results[3]);
    clq_reduce_axis(r->list, &mean, results[2], results[4]);
    clq_copy_channels(r->list, POSITIONS, CHANNELS, (clq_slice_of_channels){CHANNELS, 0},
                      (clq_slice_of_channels){2 * CHANNELS, 0}, results[2], results[5]);
    clq_repeat(r->list, &mean, results[4], results[0]);
    clq_copy_channels(r->list, POSITIONS, CHANNELS, (clq_slice_of_channels){CHANNELS, 0},
                      (clq_slice_of_channels){2 * CHANNELS, CHANNELS}, results[0], results[5]);
}

static void run(rig *r, bool joined, const float *data, unsigned char got[RESULTS][BYTES_MOST], size_t *bytes) {
    clq_value results[RESULTS];
    rig_begin(r, CAPACITY);
    clq_value x = rig_value(r, "x", 0, ROW);
    add_operations(r, x, results, bytes);
    clq_list_set_fused(r->list, joined);
    rig_bind(r);
    assert_int_equal(clq_list_is_fused(r->list), joined);
    rig_fill(r, x, data, COUNT * ROW);
    r->params.step = 4;
    r->params.first_row = 2;
    rig_run(r, COUNT);
    for (size_t i = 0; i < RESULTS; i++) rig_read(r, results[i], got[i], bytes[i]);
    rig_end(r);
}

static void compare(rig *r) {
    static unsigned char apart[RESULTS][BYTES_MOST], joined[RESULTS][BYTES_MOST];
    size_t bytes[RESULTS];
    clq_random random = clq_random_start(97, 0);
    float *x;
    double *unused;
    /* The threads of a joined kernel wait for each other, which only a CPU device's threads can. */
    if (r->family != CLQ_FAMILY_TILE || clq_device_family(r->device) != CLQ_FAMILY_TILE) return;
    rig_numbers(&random, COUNT * ROW / sizeof *x, -1, 1, &x, &unused);
    run(r, false, x, apart, bytes);
    run(r, true, x, joined, bytes);
    for (size_t i = 0; i < RESULTS; i++) assert_memory_equal(apart[i], joined[i], bytes[i]);
    float first;
    memcpy(&first, apart[2], sizeof first);
    assert_true(first == first); /* not what memory was filled with */
    clq_free(x);
    clq_free(unused);
}

static void test_bits(void **state) {
    (void)state;
    rig_each(compare);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
