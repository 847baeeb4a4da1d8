/* Copies of slices of channels: from one value's rows into another value's rows, whose other channels stay. */
#include "support/ops_rig.h"

static const struct slice_case {
    size_t rows, channels;
    clq_slice_of_channels from, to;
    uint32_t capacity, count;
} cases[] = {
    {1, 1, {1, 0}, {1, 0}, 1, 1},          {1, 1, {3, 2}, {5, 0}, 4, 3},
    {4, 16, {16, 0}, {48, 32}, 2, 2},                                        /* whole vectors */
    {4, 16, {48, 16}, {16, 0}, 2, 2},      {3, 17, {17, 0}, {40, 23}, 3, 3}, /* no whole vectors */
    {9, 8, {20, 12}, {24, 4}, 2, 2},       {5, 6, {10, 2}, {8, 2}, 4, 0},
    {7, 31, {31, 0}, {33, 1}, 3, 2},       {1, 1009, {1013, 3}, {2000, 991}, 2, 2},
    {49, 64, {64, 0}, {256, 128}, 33, 32}, /* several work-items */
    {196, 24, {24, 0}, {30, 6}, 9, 8},
};

static void check(rig *r, const struct slice_case *c, clq_dtype of_x, clq_dtype of_y) {
    clq_random random = clq_random_start(95, c->from.width * 64 + c->to.width);
    size_t in = c->rows * c->from.width * c->count, out = c->rows * c->to.width * c->count;
    float *x, *y, *got;
    double *doubles[2];
    rig_numbers(&random, in, -1, 1, &x, &doubles[0]);
    rig_numbers(&random, out, -1, 1, &y, &doubles[1]);
    void *in_x = rig_stored(of_x, x, doubles[0], in), *in_y = rig_stored(of_y, y, doubles[1], out),
         *bytes = rig_alloc(out + 1, sizeof(float));
    rig_begin(r, c->capacity);
    clq_value vx = rig_value_of(r, "x", of_x, 0, c->rows * c->from.width),
              vy = rig_value_of(r, "y", of_y, 0, c->rows * c->to.width);
    clq_copy_channels(r->list, c->rows, c->channels, c->from, c->to, vx, vy);
    rig_bind(r);
    rig_fill(r, vx, in_x, clq_values_bytes(of_x, in));
    rig_fill(r, vy, in_y, clq_values_bytes(of_y, out));
    rig_run(r, c->count);
    rig_read(r, vy, bytes, clq_values_bytes(of_y, out));
    got = rig_floats(of_y, bytes, out);
    for (size_t row = 0; row < c->rows * c->count; row++)
        memcpy(y + row * c->to.width + c->to.offset, x + row * c->from.width + c->from.offset,
               c->channels * sizeof(float));
    clq_free(rig_stored(of_y, y, doubles[1], out)); /* rounds what was copied */
    for (size_t i = 0; i < out; i++)
        if (memcmp(&got[i], &y[i], sizeof *y) != 0)
            fail_msg("%s: channel %zu of row %zu is %.9g, should be %.9g", r->name, i % c->to.width, i / c->to.width,
                     (double)got[i], (double)y[i]);
    rig_check_untouched(r, vy, clq_values_bytes(of_y, out));
    rig_end(r);
    void *const all[] = {x, y, got, doubles[0], doubles[1], in_x, in_y, bytes};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_free(all[i]);
}

static void slices(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++)
        if (rig_affords(r, cases[i].rows * (cases[i].from.width + cases[i].to.width) * cases[i].capacity))
            check(r, &cases[i], CLQ_F32, CLQ_F32);
    static const clq_dtype types[][2] = {{CLQ_F16, CLQ_F16}, {CLQ_BF16, CLQ_F32}, {CLQ_F32, CLQ_BF16}};
    for (size_t i = 0; i < CLQ_COUNT_OF(types) && !rig_is_simulated(r); i++)
        for (size_t c = 2; c < 5; c++) check(r, &cases[c], types[i][0], types[i][1]);
}

static void test_slices(void **state) {
    (void)state;
    rig_each(slices);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
