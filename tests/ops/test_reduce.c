/* Means over positions, forward and backward. */
#include "support/ops_rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct shape {
    size_t positions, channels;
    uint32_t capacity, count;
} shapes[] = {
    {1, 1, 1, 1},   {1, 17, 3, 3},  {49, 1, 2, 2},    {64, 4, 2, 1},     {65, 5, 3, 3},    {127, 16, 2, 2},
    {7, 33, 4, 3},  {49, 24, 3, 0}, {63, 31, 2, 2},   {49, 512, 5, 4},   {3, 1009, 2, 2},  {4096, 3, 2, 2},
    {256, 8, 1, 1}, {9, 12, 7, 6},  {2, 128, 65, 64}, {49, 130, 33, 32}, {1000, 64, 9, 9}, /* several work-items */
};

/* y[n, c] = mean over p of x[n, p, c]; its gradient hands each position a share of dy. */
static void check(rig *r, const struct shape *s) {
    clq_random random = clq_random_start(91, s->positions * 2048 + s->channels);
    size_t row = s->positions * s->channels, in = row * s->count, out = s->channels * s->count;
    float *x, *dy, *got = rig_alloc(in + 1, sizeof(float));
    double *x64, *dy64, *want = rig_alloc(in + 1, sizeof(double));
    rig_numbers(&random, in, 0, 1, &x, &x64); /* of one sign, so that rounding adds up */
    rig_numbers(&random, out, -1, 1, &dy, &dy64);
    for (size_t i = 0; i < in; i++) want[i / row * s->channels + i % s->channels] += x64[i] / (double)s->positions;
    rig_begin(r, s->capacity);
    clq_value vx = rig_value(r, "x", 0, row * sizeof(float)), vy = rig_value(r, "y", 0, s->channels * sizeof(float));
    clq_value vdy = rig_value(r, "dy", 0, s->channels * sizeof(float)),
              vdx = rig_value(r, "dx", 0, row * sizeof(float));
    clq_reduce_mean(r->list, s->positions, s->channels, vx, vy);
    clq_reduce_mean_backward(r->list, s->positions, s->channels, vdy, vdx);
    rig_bind(r);
    rig_fill(r, vx, x, in * sizeof(float));
    rig_fill(r, vdy, dy, out * sizeof(float));
    rig_run(r, s->count);
    rig_read(r, vy, got, out * sizeof(float));
    rig_check_close(r, "y", got, want, out, 2e-6, 0);
    rig_check_untouched(r, vy, out * sizeof(float));
    for (size_t i = 0; i < in; i++) want[i] = dy64[i / row * s->channels + i % s->channels] / (double)s->positions;
    rig_read(r, vdx, got, in * sizeof(float));
    rig_check_close(r, "dx", got, want, in, 2e-7, 0);
    rig_check_untouched(r, vdx, in * sizeof(float));
    rig_end(r);
    void *const all[] = {x, dy, got, x64, dy64, want};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_free(all[i]);
}

static void means(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(shapes); i++)
        if (rig_affords(r, shapes[i].positions * shapes[i].channels * shapes[i].capacity)) check(r, &shapes[i]);
}

static void test_means(void **state) {
    (void)state;
    rig_each(means);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_means)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
