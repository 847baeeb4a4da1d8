#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct loss_case {
    size_t classes;
    uint32_t capacity, count;
} loss_case;

static const loss_case cases[] = {{10, 64, 64},   {10, 64, 63}, {1, 4, 3},       {2, 7, 7},  {15, 9, 9},
                                  {16, 9, 9},     {17, 20, 19}, {10, 5, 0},      {64, 3, 3}, {65, 3, 2},
                                  {1000, 20, 20}, {1009, 2, 1}, {10, 9000, 8999}};

typedef struct kind_case {
    clq_loss_kind kind;
    bool from_logits;
    float smoothing;
} kind_case;
static const kind_case kinds[] = {{CLQ_LOSS_SPARSE_CATEGORICAL, true, 0}, {CLQ_LOSS_CATEGORICAL, true, 0},
                                  {CLQ_LOSS_CATEGORICAL, true, 0.1f},     {CLQ_LOSS_SPARSE_CATEGORICAL, false, 0},
                                  {CLQ_LOSS_CATEGORICAL, false, 0},       {CLQ_LOSS_CATEGORICAL, false, 0.2f}};

/* A batch and what should come of it. */
typedef struct batch {
    clq_loss_problem p;
    size_t n; /* count * classes */
    uint32_t count;
    float *x, *soft;
    int32_t *sparse;
    double *d_x, *target, *dx;
    double loss, right;
} batch;

static void make_targets(batch *b, clq_random *random) {
    size_t classes = b->p.classes;
    for (size_t r = 0; r < b->count; r++) {
        double *t = b->target + r * classes, sum = 0;
        size_t label = rig_below(random, classes);
        b->sparse[r] = (int32_t)label;
        bool one_hot = b->p.kind == CLQ_LOSS_SPARSE_CATEGORICAL || r % 3 == 0;
        for (size_t c = 0; c < classes; c++)
            sum += t[c] = one_hot ? c == label : rig_uniform(random, 0, 1) * (c % 4 != 1);
        for (size_t c = 0; c < classes && sum > 0; c++) {
            b->soft[r * classes + c] = (float)(t[c] / sum);
            t[c] = (double)b->soft[r * classes + c];
        }
    }
}

static batch make_batch(kind_case k, size_t classes, uint32_t count, double scale) {
    clq_random random = clq_random_start(21, classes * 100 + count);
    batch b = {.p = {k.kind, classes, k.from_logits, k.smoothing}, .n = classes * count, .count = count};
    if (k.from_logits)
        rig_numbers(&random, b.n, -8, 8, &b.x, &b.d_x);
    else
        rig_numbers(&random, b.n, 0.01, 1, &b.x, &b.d_x);
    for (size_t i = 0; i + 1 < b.n; i += 5) b.x[i + 1] = b.x[i], b.d_x[i + 1] = b.d_x[i]; /* equals */
    b.soft = rig_alloc(b.n + 1, sizeof(float));
    b.sparse = rig_alloc(count + 1, sizeof(int32_t));
    b.target = rig_alloc(b.n + 1, sizeof(double));
    b.dx = rig_alloc(b.n + 1, sizeof(double));
    make_targets(&b, &random);
    for (size_t r = 0; r < count; r++) {
        const double *x = b.d_x + r * classes, *t = b.target + r * classes;
        b.loss += ref_cross_entropy(&b.p, x, t);
        b.right += ref_argmax(x, classes) == ref_argmax(t, classes);
        ref_cross_entropy_gradient(&b.p, x, t, b.dx + r * classes);
    }
    for (size_t i = 0; i < b.n; i++) b.dx[i] *= scale;
    return b;
}

static void free_batch(batch *b) {
    clq_free(b->x);
    clq_free(b->soft);
    clq_free(b->sparse);
    clq_free(b->d_x);
    clq_free(b->target);
    clq_free(b->dx);
}

typedef struct loss_values {
    clq_value x, labels, dx, metrics;
} loss_values;
enum { SLOTS = 4, SLOT = 2 };

/* Adds the loss to a new list, bound and filled. */
static loss_values begin_loss(rig *r, const batch *b, uint32_t capacity, bool gradient, bool in_place, float scale) {
    bool sparse = b->p.kind == CLQ_LOSS_SPARSE_CATEGORICAL;
    size_t row = b->p.classes * sizeof(float), label = sparse ? sizeof(int32_t) : row;
    loss_values v = {0};
    rig_begin(r, capacity);
    v.x = rig_value(r, "x", 0, row);
    v.labels = rig_value(r, "labels", 0, label);
    v.metrics = rig_value(r, "metrics", SLOTS * 2 * sizeof(float), 0);
    if (gradient) v.dx = in_place ? v.x : rig_value(r, "dx", 0, row);
    clq_cross_entropy(r->list, &b->p, v.x, v.labels, v.dx, v.metrics);
    rig_bind(r);
    rig_fill(r, v.x, b->x, row * b->count);
    rig_fill(r, v.labels, sparse ? (const void *)b->sparse : b->soft, label * b->count);
    r->params.scale = scale;
    r->params.slot = SLOT;
    return v;
}

static void check_metrics(rig *r, loss_values v, double loss, double right, double relative, double absolute) {
    float metrics[SLOTS][2];
    rig_read(r, v.metrics, metrics, sizeof metrics);
    for (size_t s = 0; s < SLOTS; s++)
        if (s != SLOT) assert_true(isnan(metrics[s][0]) && isnan(metrics[s][1]));
    rig_check_close(r, "loss", &metrics[SLOT][0], &loss, 1, relative, absolute);
    rig_check_close(r, "right answers", &metrics[SLOT][1], &right, 1, 0, 0);
}

static void check_loss(rig *r, kind_case k, loss_case c, bool gradient, bool in_place) {
    const float scale = 1.0f / 48;
    batch b = make_batch(k, c.classes, c.count, (double)scale);
    float *got = rig_alloc(b.n + 1, sizeof(float)), first[SLOTS * 2], again[SLOTS * 2];
    loss_values v = begin_loss(r, &b, c.capacity, gradient, in_place, scale);
    rig_run(r, c.count);
    /* one row's rounding is about 1e-7 of its largest term; that of the sum must not add to it */
    check_metrics(r, v, b.loss, b.right, 3e-7, 1e-7 * (c.count ? 1 : 0));
    rig_read(r, v.metrics, first, sizeof first);
    if (gradient) {
        double largest = 0;
        for (size_t i = 0; i < b.n; i++) largest = fmax(largest, fabs(b.dx[i]));
        rig_read(r, v.dx, got, b.n * sizeof(float));
        rig_check_close(r, "dx", got, b.dx, b.n, 1e-6, 3e-7 * largest);
        rig_check_untouched(r, v.dx, b.n * sizeof(float));
    }
    if (in_place) rig_fill(r, v.x, b.x, b.n * sizeof(float));
    rig_run(r, c.count);
    rig_read(r, v.metrics, again, sizeof again);
    assert_memory_equal(first, again, sizeof first);
    rig_end(r);
    free_batch(&b);
    clq_free(got);
}

static void losses(rig *r) {
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++)
        for (size_t c = 0; c < CLQ_COUNT_OF(cases); c++)
            if (rig_affords(r, cases[c].classes * cases[c].capacity))
                check_loss(r, kinds[k], cases[c], true, c % 4 == 3);
    check_loss(r, kinds[0], cases[1], false, false);
}

/* A sure and right answer: the loss and the gradient are tiny, and still right to 1e-6 of themselves. */
static void sure_answers(rig *r) {
    batch b = make_batch(kinds[0], 10, 8, 1);
    double loss = 0;
    for (size_t row = 0; row < 8; row++) {
        for (size_t c = 0; c < 10; c++)
            b.d_x[row * 10 + c] = (double)(b.x[row * 10 + c] = (int32_t)c == b.sparse[row] ? 14.f : -1.f - (float)c);
        double target[10] = {0};
        target[b.sparse[row]] = 1;
        loss += ref_cross_entropy(&b.p, b.d_x + row * 10, target);
        ref_cross_entropy_gradient(&b.p, b.d_x + row * 10, target, b.dx + row * 10);
    }
    assert_true(loss < 1e-5);
    for (size_t row = 0; row < 8; row++) { /* the reference's p - 1 cancels: the row sums to zero */
        double others = 0;
        for (size_t c = 0; c < 10; c++) others += (int32_t)c == b.sparse[row] ? 0 : b.dx[row * 10 + c];
        b.dx[row * 10 + (size_t)b.sparse[row]] = -others;
    }
    float got[80];
    loss_values v = begin_loss(r, &b, 8, true, false, 1);
    rig_run(r, 8);
    check_metrics(r, v, loss, 8, 1e-6, 0);
    rig_read(r, v.dx, got, sizeof got);
    rig_check_close(r, "dx", got, b.dx, 80, 2e-6, 0);
    rig_end(r);
    free_batch(&b);
}

/* Probabilities at the clip: no slope there, and a loss of -log(1e-7). */
static void clipped(rig *r) {
    for (size_t k = 3; k < CLQ_COUNT_OF(kinds); k += 1) {
        batch b = make_batch(kinds[k], 3, 3, 1);
        const double x[9] = {0, 1, 1, 0, 0, 2, 1e-9, 0.5, 0.25};
        const int32_t labels[3] = {0, 2, 0};
        double loss = 0;
        for (size_t i = 0; i < 9; i++) {
            b.x[i] = (float)x[i];
            b.d_x[i] = (double)b.x[i];
            b.soft[i] = (size_t)labels[i / 3] == i % 3;
            b.target[i] = (double)b.soft[i];
        }
        memcpy(b.sparse, labels, sizeof labels);
        for (size_t row = 0; row < 3; row++) {
            loss += ref_cross_entropy(&b.p, b.d_x + row * 3, b.target + row * 3);
            ref_cross_entropy_gradient(&b.p, b.d_x + row * 3, b.target + row * 3, b.dx + row * 3);
        }
        float got[9];
        loss_values v = begin_loss(r, &b, 3, true, false, 1);
        rig_run(r, 3);
        check_metrics(r, v, loss, 1, 1e-6, 1e-7);
        rig_read(r, v.dx, got, sizeof got);
        rig_check_close(r, "dx", got, b.dx, 9, 1e-6, 1e-6);
        rig_end(r);
        free_batch(&b);
    }
}

static void wrong_labels(rig *r) {
    for (size_t k = 0; k <= 3; k += 3) {
        for (int which = 0; which < 2; which++) {
            batch b = make_batch(kinds[k], 10, 4, 1);
            b.sparse[2] = which ? 10 : -1;
            loss_values v = begin_loss(r, &b, 4, true, false, 1);
            float metrics[SLOTS][2];
            rig_run(r, 4);
            rig_read(r, v.metrics, metrics, sizeof metrics);
            assert_true(isnan(metrics[SLOT][0]));
            rig_end(r);
            free_batch(&b);
        }
    }
}

/* Logits that overflow exp; a class that is impossible; one NaN. */
static void extremes(rig *r) {
    const float x[4][3] = {{1000, 0, -1000}, {-1000, -1000, 1000}, {0, -INFINITY, 0}, {0, NAN, 0}};
    const double want[4] = {1000, 0, 0.69314718055994531, NAN};
    const int32_t labels[4] = {1, 2, 2, 0};
    for (size_t row = 0; row < 4; row++) {
        batch b = make_batch(kinds[row % 2], 3, 1, 1);
        memcpy(b.x, x[row], sizeof x[row]);
        b.sparse[0] = labels[row];
        for (size_t c = 0; c < 3; c++) b.soft[c] = labels[row] == (int32_t)c;
        loss_values v = begin_loss(r, &b, 1, true, false, 1);
        float metrics[SLOTS][2];
        rig_run(r, 1);
        rig_read(r, v.metrics, metrics, sizeof metrics);
        rig_check_close(r, "loss", &metrics[SLOT][0], &want[row], 1, 2e-7, 0);
        rig_end(r);
        free_batch(&b);
    }
}

/* ---- the reference itself ---- */

static void test_reference_by_differences(void **state) {
    (void)state;
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++) {
        batch b = make_batch(kinds[k], 7, 3, 1);
        for (size_t i = 0; i < b.n; i++) {
            double h = 1e-6, kept = b.d_x[i], *x = b.d_x + i / 7 * 7, *t = b.target + i / 7 * 7;
            b.d_x[i] = kept + h;
            double above = ref_cross_entropy(&b.p, x, t);
            b.d_x[i] = kept - h;
            double below = ref_cross_entropy(&b.p, x, t);
            b.d_x[i] = kept;
            assert_true(fabs((above - below) / (2 * h) - b.dx[i]) < 1e-7 * (1 + fabs(b.dx[i])));
        }
        free_batch(&b);
    }
}

#define ON_DEVICES(name)                                                                                               \
    static void test_##name(void **state) {                                                                            \
        (void)state;                                                                                                   \
        rig_each(name);                                                                                                \
    }
ON_DEVICES(losses)
ON_DEVICES(sure_answers)
ON_DEVICES(clipped)
ON_DEVICES(wrong_labels)
ON_DEVICES(extremes)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_by_differences),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_sure_answers),
        cmocka_unit_test(test_clipped),
        cmocka_unit_test(test_wrong_labels),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
