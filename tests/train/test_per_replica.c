/* Values per replica, how they are reduced, and means that are made of them. */
#include "support/check.h"
#include <clique/distribute.h>

#include <math.h>

static clq_per_replica *values_of(unsigned replicas, unsigned rank, const size_t *shape, const double *from) {
    clq_per_replica *values;
    size_t elements = 1;
    for (unsigned i = 0; i < rank; i++) elements *= shape[i];
    assert_ok(clq_per_replica_create(replicas, rank, shape, &values));
    for (unsigned r = 0; r < replicas; r++)
        memcpy(clq_per_replica_of(values, r), from + r * elements, elements * sizeof *from);
    return values;
}

static void expect_values(const clq_per_replica *values, clq_reduction reduction, int axis, const double *expected,
                          size_t count) {
    double got[8];
    assert_ok(clq_per_replica_reduce(values, reduction, axis, got, count));
    for (size_t i = 0; i < count; i++) assert_true(got[i] == expected[i]);
}
#define expect(values, reduction, axis, ...)                                                                           \
    expect_values(values, CLQ_REDUCE_##reduction, axis, (const double[]){__VA_ARGS__},                                 \
                  sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* The examples of the documentation of tf.distribute.Strategy.reduce (TensorFlow 2.15). */
static void reductions_are_those_of_tensorflow(void **state) {
    (void)state;
    clq_per_replica *values = values_of(2, 1, (size_t[]){4}, (double[]){0, 1, 2, 3, 4, 5, 6, 7});
    expect(values, SUM, CLQ_NO_AXIS, 0 + 4, 1 + 5, 2 + 6, 3 + 7);
    expect(values, SUM, 0, 28);
    expect(values, MEAN, 0, 28.0 / 8);
    /* A last batch of 6: [0,1,2,3] and [4,5]. */
    double out[4];
    assert_ok(clq_per_replica_set_length(values, 1, 2));
    assert_fails(CLQ_ERROR_MISMATCH, "axis 0", clq_per_replica_reduce(values, CLQ_REDUCE_SUM, CLQ_NO_AXIS, out, 4));
    expect(values, SUM, 0, 15);
    expect(values, MEAN, 0, 15.0 / 6);
    assert_ok(clq_per_replica_set_length(values, 0, 2));
    expect(values, MEAN, CLQ_NO_AXIS, 2, 3);
    assert_ok(clq_per_replica_set_length(values, 0, 0));
    assert_ok(clq_per_replica_set_length(values, 1, 0));
    expect(values, SUM, 0, 0);
    assert_ok(clq_per_replica_reduce(values, CLQ_REDUCE_MEAN, 0, out, 1));
    assert_true(isnan(out[0]));
    clq_per_replica_destroy(values);
}

static void reductions_go_along_any_axis(void **state) {
    (void)state;
    const double from[] = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60};
    clq_per_replica *values = values_of(2, 2, (size_t[]){2, 3}, from);
    expect(values, SUM, CLQ_NO_AXIS, 11, 22, 33, 44, 55, 66);
    expect(values, SUM, 0, 55, 77, 99);
    expect(values, SUM, 1, 66, 165);
    expect(values, MEAN, 1, 11, 27.5);
    assert_ok(clq_per_replica_set_length(values, 0, 1));
    expect(values, MEAN, 0, 51.0 / 3, 72.0 / 3, 93.0 / 3);
    assert_ok(clq_per_replica_set_length(values, 1, 1));
    expect(values, SUM, 1, 66);
    clq_per_replica_destroy(values);
    values = values_of(3, 0, NULL, (double[]){1, 2, 4});
    expect(values, SUM, CLQ_NO_AXIS, 7);
    expect(values, MEAN, CLQ_NO_AXIS, 7.0 / 3);
    clq_per_replica_destroy(values);
}

static void wrong_values_are_refused(void **state) {
    (void)state;
    clq_per_replica *values;
    double out[4];
    assert_fails(CLQ_ERROR_ARGUMENT, "0 replicas", clq_per_replica_create(0, 0, NULL, &values));
    assert_fails(CLQ_ERROR_ARGUMENT, "7 axes", clq_per_replica_create(1, 7, (size_t[7]){0}, &values));
    assert_fails(CLQ_ERROR_ARGUMENT, "axis 1", clq_per_replica_create(1, 2, (size_t[]){2, 0}, &values));
    assert_fails(CLQ_ERROR_ARGUMENT, "larger", clq_per_replica_create(2, 2, (size_t[]){SIZE_MAX / 2, 2}, &values));
    assert_fails(CLQ_ERROR_ARGUMENT, "larger", clq_per_replica_create(64, 1, (size_t[]){SIZE_MAX / 64}, &values));
    assert_ok(clq_per_replica_create(2, 1, (size_t[]){4}, &values));
    assert_null(clq_per_replica_of(values, 2));
    assert_true(clq_per_replica_of(values, 1)[3] == 0);
    assert_fails(CLQ_ERROR_ARGUMENT, "replica 2 is out of range: there are 2",
                 clq_per_replica_set_length(values, 2, 1));
    assert_fails(CLQ_ERROR_ARGUMENT, "axis 0 was made with 4", clq_per_replica_set_length(values, 0, 5));
    assert_fails(CLQ_ERROR_ARGUMENT, "4 elements", clq_per_replica_reduce(values, CLQ_REDUCE_SUM, CLQ_NO_AXIS, out, 3));
    assert_fails(CLQ_ERROR_ARGUMENT, "axis 1", clq_per_replica_reduce(values, CLQ_REDUCE_SUM, 1, out, 4));
    assert_fails(CLQ_ERROR_ARGUMENT, "axis -2", clq_per_replica_reduce(values, CLQ_REDUCE_SUM, -2, out, 4));
    assert_fails(CLQ_ERROR_ARGUMENT, "clq_reduction", clq_per_replica_reduce(values, (clq_reduction)2, 0, out, 1));
    clq_per_replica_destroy(values);
    assert_ok(clq_per_replica_create(1, 0, NULL, &values));
    assert_fails(CLQ_ERROR_ARGUMENT, "no axis", clq_per_replica_set_length(values, 0, 1));
    clq_per_replica_destroy(values);
}

static void means_are_of_all_numbers(void **state) {
    (void)state;
    clq_mean *mean;
    assert_ok(clq_mean_create(3, &mean));
    assert_true(clq_mean_read(mean) == 0);
    assert_ok(clq_mean_add(mean, 0, 3, 2));
    assert_ok(clq_mean_add(mean, 2, 9, 2));
    assert_ok(clq_mean_add(mean, 2, 1, 0.5));
    assert_true(clq_mean_read(mean) == 13 / 4.5);
    assert_fails(CLQ_ERROR_ARGUMENT, "replica 3 is out of range: there are 3", clq_mean_add(mean, 3, 1, 1));
    clq_mean_reset(mean);
    assert_true(clq_mean_read(mean) == 0);
    clq_mean_destroy(mean);
    assert_fails(CLQ_ERROR_ARGUMENT, "65 replicas", clq_mean_create(65, &mean));
}

static clq_status walk(void *context) {
    clq_per_replica *values;
    clq_mean *mean;
    (void)context;
    CLQ_TRY(clq_per_replica_create(2, 1, (size_t[]){3}, &values));
    clq_per_replica_destroy(values);
    CLQ_TRY(clq_mean_create(2, &mean));
    clq_mean_destroy(mean);
    return CLQ_OK;
}

static void allocations_fail(void **state) {
    (void)state;
    assert_int_equal(walk_allocations(walk, NULL), 3);
    clq_per_replica_destroy(NULL);
    clq_mean_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reductions_are_those_of_tensorflow),
                                       cmocka_unit_test(reductions_go_along_any_axis),
                                       cmocka_unit_test(wrong_values_are_refused),
                                       cmocka_unit_test(means_are_of_all_numbers), cmocka_unit_test(allocations_fail)};
    return cmocka_run_group_tests_name("train/per_replica", tests, NULL, NULL);
}
