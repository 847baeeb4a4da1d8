/* Compression of gradients against references in double, to the bit, over some steps. The messages and the last error
 * add up to the sum of all gradients. */
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <float.h>
#include <math.h>

enum { STEPS = 3, ALIGN = 128 };

/* The first step begins with an error of zero, later steps do not. */
static unsigned steps_of(const rig *r) { return rig_is_simulated(r) ? 2 : STEPS; }

static const size_t lengths[] = {ALIGN, 5 * ALIGN, 9 * ALIGN, 600 * ALIGN};

/* A gradient with numbers of many sizes, equal numbers, zeros, and numbers that round oddly. */
static void make_gradient(size_t n, unsigned step, float *out) {
    static const float odd[] = {0.0f,     -0.0f,       1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 0x1p-24f, 0x1p-25f,
                                0x3p-25f, -0x1.8p-15f, 65504.0f,        -1e6f,           3e9f,     2048.0f};
    clq_random random = clq_random_start(31, n + step);
    for (size_t i = 0; i < n; i++) {
        out[i] = (float)(rig_uniform(&random, -1, 1) * pow(2, rig_uniform(&random, -30, 3)));
        if (i % 3 == 0) out[i] = (float)rig_below(&random, 5) - 2;
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(odd); i++) out[(7 * i + 50 * step) % n] = odd[i];
}

typedef struct arrays {
    float *gradient, *got;
    double *wanted, *sent, *error, *sum, *sizes;
} arrays;

static arrays make_arrays(size_t n) {
    return (arrays){rig_alloc(2 * n, sizeof(float)), rig_alloc(2 * n, sizeof(float)), rig_alloc(n, sizeof(double)),
                    rig_alloc(n, sizeof(double)),    rig_alloc(n, sizeof(double)),    rig_alloc(n, sizeof(double)),
                    rig_alloc(n, sizeof(double))};
}

static void free_arrays(arrays *a) {
    clq_free(a->gradient);
    clq_free(a->got);
    clq_free(a->wanted);
    clq_free(a->sent);
    clq_free(a->error);
    clq_free(a->sum);
    clq_free(a->sizes);
}

static void next_gradient(size_t n, unsigned step, arrays *a) {
    make_gradient(n, step, a->gradient);
    for (size_t i = 0; i < n; i++) {
        a->wanted[i] = (double)a->gradient[i];
        a->sum[i] += a->wanted[i];
        a->sizes[i] += fabs(a->wanted[i]);
    }
}

/* Nothing is lost: what was sent and what is left make up the sum. */
static void check_sum(const rig *r, size_t n, const arrays *a) {
    for (size_t i = 0; i < n; i++)
        if (!(fabs(a->sent[i] + a->error[i] - a->sum[i]) <= STEPS * FLT_EPSILON * a->sizes[i]))
            fail_msg("%s: element %zu: %.9g was sent and %.9g is left of %.9g", r->name, i, a->sent[i], a->error[i],
                     a->sum[i]);
}

/* ---- halves ---- */

static void check_halves(rig *r, size_t n, unsigned ranks) {
    const double most = (double)clq_halves_most(ranks);
    arrays a = make_arrays(n);
    double *halves = rig_alloc(n, sizeof *halves);
    rig_begin(r, 1);
    clq_value g = rig_value(r, "gradient", n * 4, 0), error = rig_value(r, "error", n * 4, 0),
              message = rig_value(r, "halves", n * 2, 0), out = rig_value(r, "sum", n * 4, 0);
    clq_compress_halves(r->list, n, ranks, g, error, message);
    clq_expand_halves(r->list, n, message, out);
    rig_bind(r);
    rig_fill(r, error, a.got, n * sizeof(float)); /* zeros */
    for (unsigned step = 0; step < steps_of(r); step++) {
        next_gradient(n, step, &a);
        rig_fill(r, g, a.gradient, n * sizeof(float));
        rig_run(r, 1);
        ref_compress_halves(n, most, a.wanted, a.error, halves);
        for (size_t i = 0; i < n; i++) a.sent[i] += halves[i];
        rig_read(r, out, a.got, n * sizeof(float));
        rig_check_close(r, "what is sent", a.got, halves, n, 0, 0);
        rig_read(r, error, a.got, n * sizeof(float));
        rig_check_close(r, "the error", a.got, a.error, n, 0, 0);
    }
    rig_check_untouched(r, message, n * 2);
    check_sum(r, n, &a);
    rig_end(r);
    clq_free(halves);
    free_arrays(&a);
}

static void halves(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(lengths); i++)
        if (rig_affords(r, lengths[i])) check_halves(r, lengths[i], (unsigned)i + 1);
}

/* NaN and infinity are sent once, and leave no error. */
static void halves_of_no_numbers(rig *r) {
    float numbers[ALIGN] = {NAN, INFINITY, -INFINITY, 1.0f}, zeros[ALIGN] = {0}, got[ALIGN];
    rig_begin(r, 1);
    clq_value g = rig_value(r, "gradient", sizeof numbers, 0), error = rig_value(r, "error", sizeof numbers, 0),
              message = rig_value(r, "halves", sizeof numbers / 2, 0), out = rig_value(r, "sum", sizeof numbers, 0);
    clq_compress_halves(r->list, ALIGN, 2, g, error, message);
    clq_expand_halves(r->list, ALIGN, message, out);
    rig_bind(r);
    rig_fill(r, error, zeros, sizeof zeros);
    rig_fill(r, g, numbers, sizeof numbers);
    rig_run(r, 1);
    rig_read(r, out, got, sizeof got);
    assert_true(isnan(got[0]) && got[1] == INFINITY && got[2] == -INFINITY && got[3] == 1.0f);
    rig_read(r, error, got, sizeof got);
    assert_memory_equal(got, zeros, sizeof got);
    rig_end(r);
}

/* A sum of `ranks` such halves is finite, and a sum of the next larger half is not. */
static void largest_halves(void **state) {
    (void)state;
    assert_true(clq_halves_most(1) == 65504 && clq_halves_most(2) == 32752);
    for (unsigned ranks = 1; ranks <= 64; ranks++) {
        const float most = clq_halves_most(ranks), next = clq_half_to_float((uint16_t)(clq_half_of_float(most) + 1));
        assert_true((float)ranks * most <= 65504 && (float)ranks * next > 65504);
    }
}

/* ---- the largest ---- */

static void check_largest(rig *r, size_t n, size_t chosen) {
    arrays a = make_arrays(n);
    uint32_t *places = rig_alloc(chosen, sizeof *places);
    double *numbers = rig_alloc(chosen, sizeof *numbers);
    rig_begin(r, 1);
    clq_value g = rig_value(r, "gradient", n * 4, 0), error = rig_value(r, "error", n * 4, 0),
              pairs = rig_value(r, "pairs", chosen * 8, 0);
    clq_choose_largest(r->list, n, chosen, g, error, pairs);
    rig_bind(r);
    rig_fill(r, error, a.got, n * sizeof(float));
    for (unsigned step = 0; step < steps_of(r); step++) {
        next_gradient(n, step, &a);
        rig_fill(r, g, a.gradient, n * sizeof(float));
        rig_run(r, 1);
        ref_choose_largest(n, chosen, a.wanted, a.error, places, numbers);
        for (size_t k = 0; k < chosen; k++) a.sent[places[k]] += numbers[k];
        rig_read(r, pairs, a.got, chosen * 8);
        assert_memory_equal(a.got, places, chosen * sizeof *places);
        rig_check_close(r, "what is chosen", a.got + chosen, numbers, chosen, 0, 0);
        rig_read(r, error, a.got, n * sizeof(float));
        rig_check_close(r, "the error", a.got, a.error, n, 0, 0);
    }
    rig_check_untouched(r, pairs, chosen * 8);
    check_sum(r, n, &a);
    rig_end(r);
    clq_free(places);
    clq_free(numbers);
    free_arrays(&a);
}

static void largest(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(lengths); i++) {
        const size_t n = lengths[i], counts[] = {1, n / 100 + 2, n / 2, n - 1, n};
        for (size_t k = 0; k < CLQ_COUNT_OF(counts) && rig_affords(r, n); k++) check_largest(r, n, counts[k]);
    }
}

/* NaN comes before infinity, and infinity before numbers. Of equal sizes the first places are chosen, whatever the
 * signs. */
static void the_largest_of_equals(rig *r) {
    float numbers[ALIGN] = {0}, zeros[ALIGN] = {0};
    uint32_t got[8];
    const struct {
        uint32_t place;
        float number;
    } set[] = {{3, -2}, {9, 2}, {40, INFINITY}, {41, 2}, {90, NAN}, {99, -2}, {127, 1}};
    for (size_t i = 0; i < CLQ_COUNT_OF(set); i++) numbers[set[i].place] = set[i].number;
    rig_begin(r, 1);
    clq_value g = rig_value(r, "gradient", sizeof numbers, 0), error = rig_value(r, "error", sizeof numbers, 0),
              pairs = rig_value(r, "pairs", sizeof got, 0);
    clq_choose_largest(r->list, ALIGN, 4, g, error, pairs);
    rig_bind(r);
    rig_fill(r, error, zeros, sizeof zeros);
    rig_fill(r, g, numbers, sizeof numbers);
    rig_run(r, 1);
    rig_read(r, pairs, got, sizeof got);
    const uint32_t wanted[4] = {3, 9, 40, 90};
    assert_memory_equal(got, wanted, sizeof wanted);
    rig_run(r, 1); /* 41 and 99 are left, and the same gradient came again */
    rig_read(r, pairs, got, sizeof got);
    const uint32_t then[4] = {40, 41, 90, 99};
    assert_memory_equal(got, then, sizeof then);
    rig_end(r);
}

/* There are more NaN and infinities than places to choose. None of them is left in the error. */
static void no_numbers_are_not_left(rig *r) {
    float numbers[9 * ALIGN] = {0}, zeros[9 * ALIGN] = {0}, got[9 * ALIGN];
    uint32_t pairs_got[4];
    const uint32_t wanted[2] = {7, 1000};
    numbers[1] = 3;
    numbers[7] = numbers[1000] = numbers[1100] = NAN;
    numbers[6] = numbers[500] = INFINITY;
    numbers[1150] = -INFINITY;
    numbers[501] = -2;
    rig_begin(r, 1);
    clq_value g = rig_value(r, "gradient", sizeof numbers, 0), error = rig_value(r, "error", sizeof numbers, 0),
              pairs = rig_value(r, "pairs", sizeof pairs_got, 0);
    clq_choose_largest(r->list, 9 * ALIGN, 2, g, error, pairs);
    rig_bind(r);
    rig_fill(r, error, zeros, sizeof zeros);
    rig_fill(r, g, numbers, sizeof numbers);
    rig_run(r, 1);
    rig_read(r, pairs, pairs_got, sizeof pairs_got);
    assert_memory_equal(pairs_got, wanted, sizeof wanted);
    rig_read(r, error, got, sizeof got);
    zeros[1] = 3;
    zeros[501] = -2;
    assert_memory_equal(got, zeros, sizeof got);
    rig_end(r);
}

/* ---- sums of pairs ---- */

/* The ranks chose some of the same places, some places of their own, and the ends. */
static void check_pairs(rig *r, size_t n, size_t chosen, unsigned ranks) {
    clq_random random = clq_random_start(5, n + ranks);
    uint32_t *pairs = rig_alloc(2 * ranks * chosen, sizeof *pairs);
    float *got = rig_alloc(n, sizeof *got), *sum = rig_alloc(n, sizeof *sum);
    for (unsigned rank = 0; rank < ranks; rank++)
        for (size_t k = 0; k < chosen; k++) {
            const size_t run = n / chosen, first = k * run, place = first + (k % 2 ? rig_below(&random, run) : 0);
            const float number = (float)rig_uniform(&random, -1, 1);
            pairs[2 * rank * chosen + k] = (uint32_t)place;
            memcpy(&pairs[(2 * rank + 1) * chosen + k], &number, sizeof number);
            sum[place] += number;
        }
    rig_begin(r, 1);
    clq_value in = rig_value(r, "pairs", 2 * ranks * chosen * sizeof *pairs, 0), out = rig_value(r, "sum", n * 4, 0);
    clq_add_pairs(r->list, n, chosen, ranks, in, out);
    rig_bind(r);
    rig_fill(r, in, pairs, 2 * ranks * chosen * sizeof *pairs);
    rig_fill(r, out, NULL, 0);
    rig_run(r, 1);
    rig_read(r, out, got, n * sizeof *got);
    for (size_t i = 0; i < n; i++) assert_true(got[i] == sum[i]);
    rig_check_untouched(r, out, n * sizeof *got);
    rig_end(r);
    clq_free(pairs);
    clq_free(got);
    clq_free(sum);
}

static void sums_of_pairs(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(lengths); i++)
        for (unsigned ranks = 1; ranks <= 3 && rig_affords(r, lengths[i]); ranks++)
            check_pairs(r, lengths[i], ranks == 2 ? lengths[i] : lengths[i] / 50 + 1, ranks);
}

static void each(rig *r) {
    halves(r);
    halves_of_no_numbers(r);
    largest(r);
    the_largest_of_equals(r);
    no_numbers_are_not_left(r);
    sums_of_pairs(r);
}

static void on_each_device(void **state) {
    (void)state;
    rig_each(each);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(largest_halves), cmocka_unit_test(on_each_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
