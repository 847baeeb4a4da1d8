/* Dropout: plain C on the host tells bit for bit which elements stay, whatever part of the batch a device has. */
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <math.h>

static const uint64_t seed = UINT64_C(0x9876543210FEDCBA);

/* What a device makes of rows [first, first + count) of a batch of x, in step `step`. */
typedef struct part {
    size_t elements;
    uint32_t first, count, capacity, step, stream;
    double rate;
} part;

static clq_element_program program_of(const part *d, bool sums) {
    clq_element_program p = {.output_count = 1, .sum_count = sums, .seed = seed};
    unsigned x = clq_element_take(&p, (struct clq_element_input){.kind = CLQ_EACH_ELEMENT, .dtype = CLQ_F32});
    clq_instruction drop = {.op = CLQ_ELEMENT_DROPOUT, .a = x, .number = d->rate, .stream = d->stream};
    p.outputs[0].from = p.sums[0] = clq_element_do(&p, drop);
    return p;
}

/* sums: takes the kernel that makes sums, too. */
static void run_part(rig *r, const part *d, const float *x, float *y, bool sums) {
    size_t row = d->elements * sizeof(float), bytes = d->count * row;
    clq_element_program p = program_of(d, sums);
    clq_element_values v = {.elements = d->elements, .channels = d->elements};
    rig_begin(r, d->capacity);
    v.inputs[0] = rig_value(r, "x", 0, row);
    v.outputs[0] = d->first % 2 ? v.inputs[0] : rig_value(r, "y", 0, row);
    if (sums) v.sums[0] = rig_value(r, "sums", row, 0);
    clq_elementwise(r->list, "dropout", &p, &v);
    rig_bind(r);
    rig_fill(r, v.inputs[0], x + d->first * d->elements, bytes);
    r->params.step = d->step;
    r->params.first_row = d->first;
    rig_run(r, d->count);
    rig_read(r, v.outputs[0], y + d->first * d->elements, bytes);
    rig_end(r);
}

static void check_rows(rig *r, const part *d, const float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t place = i / d->elements, element = i % d->elements;
        double factor = ref_dropout(seed, d->stream, d->step, (uint32_t)place, (uint32_t)element, d->rate);
        float want = factor > 0 ? x[i] * (float)factor : 0;
        if (memcmp(&want, &y[i], sizeof want) != 0)
            fail_msg("%s: element %zu of row %zu is %.9g, should be %.9g", r->name, element, place, (double)y[i],
                     (double)want);
    }
}

/* One batch, cut into parts of several lengths. Samples are shorter than a vector, whole blocks of four, or neither. */
static void parts(rig *r) {
    static const size_t samples[] = {1, 3, 4, 7, 16, 17, 20, 61, 128};
    static const uint32_t cuts[][4] = {{0, 23}, {0, 1, 23}, {0, 8, 16, 23}, {0, 22, 22, 23}};
    for (size_t s = 0; s < CLQ_COUNT_OF(samples); s++) {
        clq_random random = clq_random_start(71, s);
        size_t n = 23 * samples[s];
        float *x, *y = rig_alloc(n, sizeof(float));
        double *unused;
        if (!rig_affords(r, n)) continue;
        rig_numbers(&random, n, 1, 2, &x, &unused);
        for (size_t c = s % 2; c < CLQ_COUNT_OF(cuts); c += 2) {
            part d = {.elements = samples[s], .step = 7 + 1000000 * (uint32_t)s, .stream = 3, .rate = 0.4};
            memset(y, 0, n * sizeof(float));
            for (size_t k = 0; k < 3 && cuts[c][k] < 23; k++) {
                d.count = cuts[c][k + 1] - cuts[c][k];
                d.first = cuts[c][k];
                d.capacity = d.count + 1;
                run_part(r, &d, x, y, k == 1);
            }
            check_rows(r, &d, x, y, n);
        }
        clq_free(x);
        clq_free(y);
        clq_free(unused);
    }
}

/* Checks what a device makes of columns [first, end) of two samples of three rows of `whole` columns. All numbers are
 * 1. */
static void check_slice(rig *r, size_t whole, size_t first, size_t end, bool sums) {
    enum { SAMPLES = 2, ROWS = 3, MOST = SAMPLES * ROWS * 64 };
    const part d = {.step = 5, .stream = 4, .rate = 0.3};
    const size_t columns = end - first, row = ROWS * columns * sizeof(float);
    float x[MOST], y[MOST];
    clq_element_program p = program_of(&d, sums);
    p.slice = (struct clq_element_slice){whole, first};
    clq_element_values v = {.elements = ROWS * columns, .channels = columns};
    rig_begin(r, SAMPLES);
    v.inputs[0] = rig_value(r, "x", 0, row);
    v.outputs[0] = rig_value(r, "y", 0, row);
    if (sums) v.sums[0] = rig_value(r, "sums", columns * sizeof(float), 0);
    clq_elementwise(r->list, "dropout", &p, &v);
    rig_bind(r);
    for (size_t i = 0; i < MOST; i++) x[i] = 1;
    rig_fill(r, v.inputs[0], x, SAMPLES * row);
    r->params.step = d.step;
    r->params.first_row = 8;
    rig_run(r, SAMPLES);
    rig_read(r, v.outputs[0], y, SAMPLES * row);
    for (size_t i = 0; i < SAMPLES * ROWS * columns; i++) {
        const size_t element = i / columns % ROWS * whole + first + i % columns, sample = i / columns / ROWS;
        const double want = ref_dropout(seed, d.stream, d.step, 8 + (uint32_t)sample, (uint32_t)element, d.rate);
        if (y[i] != (float)want) fail_msg("%s: %zu-%zu of %zu, element %zu", r->name, first, end, whole, element);
    }
    rig_end(r);
}

/* Rows that are cut into slices, one for each device, drop the same elements as whole rows, with and without blocks. */
static void slices(rig *r) {
    static const size_t cuts[][4] = {{0, 16, 24, 64}, {0, 20, 28, 31}, {0, 1, 3, 11}, {0, 6, 12, 20}};
    for (size_t c = 0; c < CLQ_COUNT_OF(cuts); c++)
        for (size_t k = 0; k < 3; k++) check_slice(r, cuts[c][3], cuts[c][k], cuts[c][k + 1], c % 2);
}

/* Each rate is met, and every step and layer draws anew. */
static void rates(rig *r) {
    enum { ELEMENTS = 250, ROWS = 40, N = ELEMENTS * ROWS };
    static const double all[] = {0, 0.1, 0.5, 0.9, 0.999999999999};
    float *x = rig_alloc(N, sizeof(float)), *y = rig_alloc(N, sizeof(float)), *before = rig_alloc(N, sizeof(float));
    for (size_t i = 0; i < N; i++) x[i] = 1;
    for (size_t i = 0; i < CLQ_COUNT_OF(all) && rig_affords(r, N); i++) {
        part d = {.elements = ELEMENTS, .count = ROWS, .capacity = ROWS, .step = 1, .stream = 1, .rate = all[i]};
        size_t stay = 0, same = 0;
        for (int run = 0; run < 3; run++) {
            d.step += run == 1;
            d.stream += run == 2;
            run_part(r, &d, x, y, false);
            check_rows(r, &d, x, y, N);
            for (size_t k = 0; k < N; k++) stay += y[k] > 0, same += run > 0 && (y[k] > 0) == (before[k] > 0);
            memcpy(before, y, N * sizeof(float));
        }
        double keep = 1 - all[i], both = keep * keep + all[i] * all[i]; /* the same twice, if draws are independent */
        assert_true(fabs((double)stay / (3 * N) - keep) < 0.01);
        assert_true(fabs((double)same / (2 * N) - both) < 0.02);
    }
    clq_free(x);
    clq_free(y);
    clq_free(before);
}

/* No NaN or infinity is left of an element that is dropped. */
static void dropped_nan(rig *r) {
    enum { N = 33 };
    float x[N], y[N];
    const part d = {.elements = N, .count = 1, .capacity = 1, .step = 2, .stream = 9, .rate = 0.5};
    for (size_t i = 0; i < N; i++) x[i] = i % 2 ? NAN : INFINITY;
    run_part(r, &d, x, y, false);
    for (size_t i = 0; i < N; i++) {
        bool stays = ref_dropout(seed, 9, 2, 0, (uint32_t)i, 0.5) > 0;
        assert_true(stays ? !isfinite(y[i]) : y[i] == 0);
    }
}

static void test_words(void **state) {
    (void)state;
    assert_int_equal(clq_dropout_words_of(0).threshold, 0);
    assert_true(clq_dropout_words_of(0).scale == 1);
    assert_int_equal(clq_dropout_words_of(0.5).threshold, 0x80000000);
    assert_true(clq_dropout_words_of(0.75).scale == 4);
    assert_int_equal(clq_dropout_words_of(0x1p-32).threshold, 1);
    assert_int_equal(clq_dropout_words_of(1 - 0x1p-40).threshold, 0xFFFFFFFF); /* not 2^32 */
}

#define ON_DEVICES(name)                                                                                               \
    static void test_##name(void **state) {                                                                            \
        (void)state;                                                                                                   \
        rig_each(name);                                                                                                \
    }
ON_DEVICES(parts)
ON_DEVICES(slices)
ON_DEVICES(rates)
ON_DEVICES(dropped_nan)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words), cmocka_unit_test(test_parts),       cmocka_unit_test(test_slices),
        cmocka_unit_test(test_rates), cmocka_unit_test(test_dropped_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
