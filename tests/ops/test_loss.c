#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <float.h>
#include <math.h>

typedef struct loss_case {
    size_t classes, rows;
    uint32_t capacity, count;
} loss_case;

static const loss_case cases[] = {{10, 1, 64, 64},   {5, 1, 64, 63},  {1, 1, 4, 3},   {2, 1, 7, 7},       {15, 1, 9, 9},
                                  {16, 1, 9, 9},     {17, 3, 7, 6},   {10, 1, 5, 0},  {64, 1, 3, 3},      {65, 2, 3, 2},
                                  {1000, 1, 20, 20}, {1009, 1, 2, 1}, {5, 7, 11, 11}, {10, 1, 9000, 8999}};

/* Losses with the metrics that are measured beside them. */
#define ACCURACY .metric_count = 1, .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}
#define ENTROPY                                                                                                        \
    .metric_count = 3, .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY, CLQ_METRIC_CROSSENTROPY, CLQ_METRIC_PERPLEXITY}
#define AREAS                                                                                                          \
    .metric_count = 4,                                                                                                 \
    .metrics = {CLQ_METRIC_AUC, CLQ_METRIC_MEAN_ABSOLUTE_ERROR, CLQ_METRIC_BINARY_CONFUSION, CLQ_METRIC_PR_AUC},       \
    .metric_values = {200, 0, 0.375f, 7}
#define ERRORS                                                                                                         \
    .metric_count = 3,                                                                                                 \
    .metrics = {CLQ_METRIC_MEAN_ABSOLUTE_ERROR, CLQ_METRIC_ROOT_MEAN_SQUARED_ERROR, CLQ_METRIC_MEAN_SQUARED_ERROR}
#define DECISIONS                                                                                                      \
    .metric_count = 4,                                                                                                 \
    .metrics = {CLQ_METRIC_PRECISION, CLQ_METRIC_BINARY_ACCURACY, CLQ_METRIC_RECALL, CLQ_METRIC_F1},                   \
    .metric_values = {0.5f, 0.625f, 0.25f, 0.375f}
#define DISTANCES                                                                                                      \
    .metric_count = 5,                                                                                                 \
    .metrics = {CLQ_METRIC_KL_DIVERGENCE, CLQ_METRIC_COSINE_SIMILARITY, CLQ_METRIC_MEAN_ABSOLUTE_PERCENTAGE_ERROR,     \
                CLQ_METRIC_MEAN_SQUARED_LOGARITHMIC_ERROR, CLQ_METRIC_LOG_COSH}
#define FOCAL(a, g) .alpha = (a), .gamma = (g)
static const clq_loss_problem kinds[] = {
    {.kind = CLQ_LOSS_SPARSE_CATEGORICAL, .from_logits = true, .weight = 1, ACCURACY},
    {.kind = CLQ_LOSS_CATEGORICAL, .from_logits = true, .weight = 1, ACCURACY},
    {.kind = CLQ_LOSS_CATEGORICAL, .from_logits = true, .label_smoothing = 0.1f, .weight = 0.75f, ENTROPY},
    {.kind = CLQ_LOSS_SPARSE_CATEGORICAL, .weight = 1, ACCURACY},
    {.kind = CLQ_LOSS_CATEGORICAL, .weight = 1, .metric_count = 1, .metrics = {CLQ_METRIC_TOP_K}, .metric_values = {3}},
    {.kind = CLQ_LOSS_CATEGORICAL, .label_smoothing = 0.2f, .weight = 3, ENTROPY},
    {.kind = CLQ_LOSS_CATEGORICAL, .from_logits = true, .skipped = CLQ_ACTIVATION_SOFTMAX, .weight = 1, ERRORS},
    {.kind = CLQ_LOSS_BINARY, .from_logits = true, .weight = 1, DECISIONS},
    {.kind = CLQ_LOSS_BINARY, .from_logits = true, .skipped = CLQ_ACTIVATION_SIGMOID, .weight = 0.5f, DECISIONS},
    {.kind = CLQ_LOSS_BINARY, .label_smoothing = 0.1f, .weight = 1, DECISIONS},
    {.kind = CLQ_LOSS_MEAN_SQUARED_ERROR, .weight = 2, ERRORS},
    {.kind = CLQ_LOSS_MEAN_ABSOLUTE_ERROR, .weight = 1, ERRORS},
    {.kind = CLQ_LOSS_HUBER, .delta = 1.5f, .weight = 1, ERRORS},
    {.kind = CLQ_LOSS_HINGE, .weight = 1, ERRORS},
    {.kind = CLQ_LOSS_SPARSE_CATEGORICAL,
     .from_logits = true,
     .weight = 1,
     .weighted = true,
     .metric_count = 4,
     .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY, CLQ_METRIC_CROSSENTROPY, CLQ_METRIC_PERPLEXITY,
                 CLQ_METRIC_CONFUSION}},
    {.kind = CLQ_LOSS_MEAN_SQUARED_ERROR, .weight = 2, .weighted = true, ERRORS},
    {.kind = CLQ_LOSS_SQUARED_HINGE, .weight = 1},
    {.kind = CLQ_LOSS_CATEGORICAL_HINGE,
     .weight = 1,
     .metric_count = 2,
     .metrics = {CLQ_METRIC_BINARY_CONFUSION, CLQ_METRIC_CONFUSION},
     .metric_values = {0.25f}},
    {.kind = CLQ_LOSS_LOG_COSH, .weight = 1},
    {.kind = CLQ_LOSS_KL_DIVERGENCE, .weight = 1},
    {.kind = CLQ_LOSS_POISSON, .weight = 1, DISTANCES},
    {.kind = CLQ_LOSS_COSINE_SIMILARITY, .weight = 0.5f},
    {.kind = CLQ_LOSS_MEAN_ABSOLUTE_PERCENTAGE_ERROR, .weight = 1},
    {.kind = CLQ_LOSS_MEAN_SQUARED_LOGARITHMIC_ERROR, .weight = 1},
    {.kind = CLQ_LOSS_BINARY_FOCAL, .from_logits = true, .alpha = 0.25f, .gamma = 2, .weight = 1, AREAS},
    {.kind = CLQ_LOSS_BINARY_FOCAL, FOCAL(0.375f, 1.5f), .balanced = true, .label_smoothing = 0.1f, .weight = 1, AREAS},
    {.kind = CLQ_LOSS_CATEGORICAL_FOCAL, .from_logits = true, .alpha = 0.25f, .gamma = 2, .weight = 1, AREAS},
    {.kind = CLQ_LOSS_CATEGORICAL_FOCAL, .alpha = 0.75f, .gamma = 0.5f, .label_smoothing = 0.1f, .weight = 1},
};
enum { FIRST_FROM_PROBABILITIES = 3, WITH_MATRIX = 14 };

/* A batch and what should come of it. */
typedef struct batch {
    clq_loss_problem p;
    size_t one, n; /* values of a sample, and of all */
    uint32_t count;
    float *x, *soft;
    int32_t *sparse;
    float *weights;        /* (count) of samples; 1 where they have none */
    float *mask;           /* (count, mask_steps) */
    float counting, steps; /* of all steps, and how many there are */
    double part;           /* the first over the second */
    double *d_mask, *d_x, *target, *dx;
    double totals[CLQ_METRICS_ROW_MAX];
    double size; /* of what the loss is a sum of: at least that of the loss, and more where signs differ */
} batch;

static bool is_of_classes(const clq_loss_problem *p) { return clq_loss_row_of(p->kind)->target != CLQ_TARGET_VALUES; }

/* What a model gives that such a loss is used behind: numbers of any sign, above 0, or shares of 1. */
static double least_of(const clq_loss_problem *p) {
    switch (p->kind) {
    case CLQ_LOSS_CATEGORICAL:
    case CLQ_LOSS_SPARSE_CATEGORICAL:
    case CLQ_LOSS_CATEGORICAL_FOCAL:
    case CLQ_LOSS_BINARY:
    case CLQ_LOSS_BINARY_FOCAL: return p->from_logits ? -8 : 0.01;
    case CLQ_LOSS_KL_DIVERGENCE:
    case CLQ_LOSS_POISSON: return 0.01;
    default: return -8;
    }
}

static bool is_binary(const clq_loss_problem *p) {
    return p->kind == CLQ_LOSS_BINARY || p->kind == CLQ_LOSS_BINARY_FOCAL;
}

/* A row of a distribution, or a class. */
static void make_row(batch *b, size_t r, clq_random *random) {
    size_t classes = b->p.classes, label = rig_below(random, classes);
    double *t = b->target + r * classes, sum = 0;
    b->sparse[r] = (int32_t)label;
    bool one_hot = clq_loss_has_index(&b->p) || r % 3 == 0;
    for (size_t c = 0; c < classes; c++) sum += t[c] = one_hot ? c == label : rig_uniform(random, 0, 1) * (c % 4 != 1);
    for (size_t c = 0; c < classes && sum > 0; c++) t[c] /= sum;
}

static void make_targets(batch *b, clq_random *random) {
    for (size_t r = 0; r < b->n / b->p.classes && is_of_classes(&b->p); r++) make_row(b, r, random);
    for (size_t i = 0; i < b->n; i++) {
        if (!is_of_classes(&b->p))
            b->target[i] = b->p.kind == CLQ_LOSS_HINGE || b->p.kind == CLQ_LOSS_SQUARED_HINGE
                               ? (double)rig_below(random, 3) - 1
                           : is_binary(&b->p)              ? (double)rig_below(random, 2)
                           : b->p.kind == CLQ_LOSS_POISSON ? (double)rig_below(random, 6)
                                                           : rig_uniform(random, -3, 3);
        b->target[i] = (double)(b->soft[i] = (float)b->target[i]);
    }
}

/* The terms of a cosine are as large as those of the cosine of the values' sizes. */
static double size_of_loss(const batch *b, const double *x, const double *t) {
    if (b->p.kind != CLQ_LOSS_COSINE_SIMILARITY) return fabs(ref_loss(&b->p, x, t, NULL)) / (b->part > 0 ? b->part : 1);
    double *sizes = rig_alloc(2 * b->one, sizeof *sizes), size;
    for (size_t i = 0; i < b->one; i++) {
        sizes[i] = fabs(x[i]);
        sizes[b->one + i] = fabs(t[i]);
    }
    size = fabs(ref_loss(&b->p, sizes, sizes + b->one, NULL));
    clq_free(sizes);
    return size;
}

/* What the references make of x and the targets; scale is the gradient's. */
static void compute(batch *b, double scale) {
    double totals[CLQ_METRICS_ROW_MAX];
    memset(b->totals, 0, sizeof b->totals);
    b->size = 0;
    for (size_t e = 0; e < b->count; e++) {
        const double *x = b->d_x + e * b->one, *t = b->target + e * b->one;
        const double *mask = b->p.mask_steps ? b->d_mask + e * b->p.mask_steps : NULL;
        ref_totals(&b->p, x, t, mask, b->part, totals);
        (void)ref_masked_loss(&b->p, x, t, mask, b->part, b->dx + e * b->one);
        for (unsigned k = 0; k < clq_loss_totals(&b->p); k++)
            b->totals[k] += k == 0 ? totals[k] * (double)b->weights[e] : totals[k];
        b->size += size_of_loss(b, x, t) * (double)b->weights[e];
        for (size_t i = 0; i < b->one; i++) b->dx[e * b->one + i] *= (double)b->weights[e];
    }
    for (size_t i = 0; i < b->n; i++) b->dx[i] *= scale;
}

/* Of three steps two count or none, unless none of the batch does. */
static void make_mask(batch *b, bool some) {
    const size_t steps = b->count * b->p.mask_steps;
    double counting = 0;
    b->mask = rig_alloc(steps + 1, sizeof *b->mask);
    b->d_mask = rig_alloc(steps + 1, sizeof *b->d_mask);
    for (size_t s = 0; s < steps; s++) {
        b->d_mask[s] = some && s % 5 > 1;
        b->mask[s] = (float)b->d_mask[s];
        counting += b->d_mask[s];
    }
    b->counting = (float)counting;
    b->steps = (float)steps;
    b->part = steps > 0 ? counting / (double)steps : 1;
}

static batch make_batch(clq_loss_problem p, size_t classes, size_t rows, uint32_t count, double scale) {
    clq_random random = clq_random_start(21, classes * 100 + count);
    const double least = least_of(&p), most = least < 0 ? 8 : is_binary(&p) ? 0.99 : 1;
    p.classes = classes;
    p.rows = rows;
    if (clq_loss_totals(&p) > CLQ_METRICS_ROW_MAX) p.metric_count--; /* a matrix of so many classes */
    batch b = {.p = p, .one = classes * rows, .n = classes * rows * count, .count = count};
    rig_numbers(&random, b.n, least, most, &b.x, &b.d_x);
    for (size_t i = 0; i + 1 < b.n; i += 5) b.x[i + 1] = b.x[i], b.d_x[i + 1] = b.d_x[i]; /* equals */
    b.soft = rig_alloc(b.n + 1, sizeof(float));
    b.sparse = rig_alloc(count * rows + 1, sizeof(int32_t));
    b.weights = rig_alloc(count + 1, sizeof(float));
    for (size_t e = 0; e < count; e++) b.weights[e] = p.weighted ? 0.25f * (float)(e % 7) : 1;
    b.target = rig_alloc(b.n + 1, sizeof(double));
    b.dx = rig_alloc(b.n + 1, sizeof(double));
    make_targets(&b, &random);
    make_mask(&b, p.kind != CLQ_LOSS_KL_DIVERGENCE);
    compute(&b, scale);
    return b;
}

static void free_batch(batch *b) {
    clq_free(b->x);
    clq_free(b->soft);
    clq_free(b->sparse);
    clq_free(b->weights);
    clq_free(b->mask);
    clq_free(b->d_mask);
    clq_free(b->d_x);
    clq_free(b->target);
    clq_free(b->dx);
}

enum { SLOTS = 4, SLOT = 2, FLOATS_MOST = CLQ_METRICS_ROW_MAX + 4 };

/* Targets as the device gets them: behind each sample's its weight. */
static void fill_targets(rig *r, clq_value targets, const batch *b) {
    const size_t each = clq_loss_target_elements(&b->p), own = clq_loss_label_elements(&b->p);
    const float *from = clq_loss_has_index(&b->p) ? (const void *)b->sparse : b->soft; /* 4 bytes each, either way */
    float *packed = rig_alloc(each * b->count + 1, sizeof *packed);
    for (size_t e = 0; e < b->count; e++) {
        memcpy(packed + e * each, from + e * own, own * sizeof *packed);
        if (b->p.weighted) packed[e * each + own] = b->weights[e];
    }
    rig_fill(r, targets, packed, each * b->count * sizeof *packed);
    clq_free(packed);
}

/* Adds the loss to a new list, bound and filled. */
static clq_loss_values begin_loss(rig *r, const batch *b, uint32_t capacity, bool gradient, bool in_place,
                                  float scale) {
    size_t one = b->one * sizeof(float), label = clq_loss_target_elements(&b->p) * sizeof(float);
    clq_loss_values v = {0};
    rig_begin(r, capacity);
    v.x = rig_value(r, "x", 0, one);
    v.targets = rig_value(r, "targets", 0, label);
    if (b->p.mask_steps > 0) {
        v.mask = rig_value(r, "mask", 0, b->p.mask_steps * sizeof(float));
        v.counting = rig_value(r, "counting", sizeof(float), 0);
        v.steps = rig_value(r, "steps", sizeof(float), 0);
    }
    v.metrics = rig_value(r, "metrics", SLOTS * clq_loss_metrics_width(&b->p) * sizeof(float), 0);
    if (gradient) v.dx = in_place ? v.x : rig_value(r, "dx", 0, one);
    clq_loss_and_metrics(r->list, &b->p, &v);
    rig_bind(r);
    rig_fill(r, v.x, b->x, one * b->count);
    fill_targets(r, v.targets, b);
    if (v.mask) {
        rig_fill(r, v.mask, b->mask, b->count * b->p.mask_steps * sizeof(float));
        rig_fill(r, v.counting, &b->counting, sizeof b->counting);
        rig_fill(r, v.steps, &b->steps, sizeof b->steps);
    }
    r->params.scale = scale;
    r->params.slot = SLOT;
    return v;
}

/* The loss and the totals, in their place; nothing beside it is written. */
static void check_metrics(rig *r, clq_loss_values v, const batch *b, double relative, double absolute) {
    float metrics[SLOTS * FLOATS_MOST];
    unsigned width = clq_loss_metrics_width(&b->p), first = SLOT * width + b->p.metrics_at,
             totals = clq_loss_totals(&b->p);
    rig_read(r, v.metrics, metrics, SLOTS * width * sizeof *metrics);
    for (unsigned i = 0; i < SLOTS * width; i++)
        if (i < first || i >= first + totals) assert_true(isnan(metrics[i]));
    rig_check_close(r, "loss", &metrics[first], b->totals, 1, 0, relative * b->size + absolute);
    bool counts = b->p.metric_count == 1 && (b->p.rows & (b->p.rows - 1)) == 0;
    rig_check_close(r, "totals", &metrics[first + 1], b->totals + 1, totals - 1, counts ? 0 : 1e-6,
                    counts ? 0 : absolute);
}

static void check_loss(rig *r, clq_loss_problem p, loss_case c, bool gradient, bool in_place) {
    const float scale = 1.0f / 48;
    batch b = make_batch(p, c.classes, c.rows, c.count, (double)scale);
    float *got = rig_alloc(b.n + 1, sizeof(float)), first[SLOTS * FLOATS_MOST], again[SLOTS * FLOATS_MOST];
    size_t bytes = SLOTS * clq_loss_metrics_width(&b.p) * sizeof(float);
    clq_loss_values v = begin_loss(r, &b, c.capacity, gradient, in_place, scale);
    rig_run(r, c.count);
    /* one row's rounding is about 1e-7 of its largest term; that of the sum must not add to it */
    check_metrics(r, v, &b, 3e-7, 1e-7 * (c.count ? 1 : 0));
    rig_read(r, v.metrics, first, bytes);
    if (gradient) {
        double largest = 0;
        for (size_t i = 0; i < b.n; i++) largest = fmax(largest, fabs(b.dx[i]));
        /* A cosine of one value is 1 or -1: what remains of its slope is rounding. */
        if (p.kind == CLQ_LOSS_COSINE_SIMILARITY && c.classes == 1) largest = (double)(scale * p.weight);
        rig_read(r, v.dx, got, b.n * sizeof(float));
        rig_check_close(r, "dx", got, b.dx, b.n, 1e-6, 3e-7 * largest);
        rig_check_untouched(r, v.dx, b.n * sizeof(float));
    }
    if (!rig_is_simulated(r)) { /* which finds races */
        if (in_place) rig_fill(r, v.x, b.x, b.n * sizeof(float));
        rig_run(r, c.count);
        rig_read(r, v.metrics, again, bytes);
        assert_memory_equal(first, again, bytes);
    }
    rig_end(r);
    free_batch(&b);
    clq_free(got);
}

/* Losses of values differ in their function alone: the first of them have the wide rows. */
static bool is_covered(const clq_loss_problem *p, const loss_case *c) {
    return p->kind > CLQ_LOSS_HINGE && !clq_loss_row_of(p->kind)->by_row && c->classes > 64;
}

static bool has_matrix(size_t kind) {
    const clq_loss_problem *p = &kinds[kind];
    return p->metric_count > 0 && p->metrics[p->metric_count - 1] == CLQ_METRIC_CONFUSION;
}

/* The kinds that have the large cases in the local family, too: a row's rule, two of values, and all with matrices. */
static bool is_whole(size_t kind) {
    static const size_t whole[] = {0, 7, 20};
    if (has_matrix(kind)) return true;
    size_t i = 0;
    while (i < CLQ_COUNT_OF(whole) && whole[i] != kind) i++;
    return i < CLQ_COUNT_OF(whole);
}

/* Whether the device has the case's program of this kind. Rows of many classes have work-groups of their own: one more
 * program, whose trees of barriers take PoCL three seconds to compile. Such rows have no matrices, so a kind with a
 * matrix has other metrics there, and both drivers build it. Each of the other kinds is built by one driver. */
static bool takes(const rig *r, size_t kind, const loss_case *c) {
    if (c->classes <= 64 || r->family == CLQ_FAMILY_TILE) return true;
    const bool all = has_matrix(kind) || rig_is_simulated(r) || getenv("CLQ_TEST_DEVICES");
    return is_whole(kind) && (all || clq_device_runs_in_caller(r->device) == (kind % 2 == 1));
}

/* A work-group's items share a row, however many rows there are: thousands of them take a CPU a second with each kind
 * of the local family, and tell how sums are added up, which kinds do alike. So the whole kinds have them there, and
 * one that counts by thresholds; each on one of the drivers. */
static bool has_rows_of(const rig *r, size_t kind, const loss_case *c) {
    enum { MANY_ROWS = 1000, BY_THRESHOLDS = 25 };
    if (r->family == CLQ_FAMILY_TILE || c->rows * c->capacity < MANY_ROWS || getenv("CLQ_TEST_DEVICES")) return true;
    return (is_whole(kind) || kind == BY_THRESHOLDS) && clq_device_runs_in_caller(r->device) == (kind % 2 == 0);
}

/* A simulator's time grows with the work-items that have a row each: full work-groups, and more than one of them, are
 * for the whole kinds. What kinds differ in is a function of one value or row. */
static bool affords(const rig *r, size_t kind, const loss_case *c) {
    const size_t rows = c->rows * c->capacity;
    return rig_affords(r, c->classes * rows) &&
           (!rig_is_simulated(r) || r->family == CLQ_FAMILY_TILE || rows <= 32 || is_whole(kind));
}

/* Each kind is a program of each family. PoCL takes all cases, others every second one, and a simulator every fourth:
 * another of each kind. */
static void losses(rig *r) {
    const size_t stride = rig_is_simulated(r) ? 4 : clq_device_runs_in_caller(r->device) ? 1 : 2;
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++) {
        rig_alternate(r, k);
        for (size_t c = k % stride; c < CLQ_COUNT_OF(cases); c += stride)
            if (!is_covered(&kinds[k], &cases[c]) && takes(r, k, &cases[c]) && has_rows_of(r, k, &cases[c]) &&
                affords(r, k, &cases[c]))
                check_loss(r, kinds[k], cases[c], true, c % 4 == 3);
    }
    rig_alternate(r, 0);
    check_loss(r, kinds[0], cases[1], false, false);
}

/* Kernels are told the metrics' numbers in text, which a locale's decimal point must not get into. */
static void losses_with_numbers(rig *r) {
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++)
        if (kinds[k].metric_values[0] != 0 && rig_takes(r, k)) check_loss(r, kinds[k], cases[0], true, false);
}

/* Steps of one row and of two, of losses by rows and by values, with weights of samples and without; and a batch of
 * which no step counts. */
static void masked_losses(rig *r) {
    static const struct {
        size_t kind, steps;
        loss_case c;
    } masked[] = {{0, 3, {17, 3, 7, 6}},  {2, 3, {5, 6, 4, 3}},  {10, 4, {3, 4, 9, 9}},
                  {14, 3, {10, 3, 5, 5}}, {15, 2, {1, 4, 6, 5}}, {19, 3, {6, 3, 4, 4}}};
    for (size_t i = 0; i < CLQ_COUNT_OF(masked); i++) {
        clq_loss_problem p = kinds[masked[i].kind];
        p.mask_steps = masked[i].steps;
        if (rig_takes(r, i)) check_loss(r, p, masked[i].c, true, i % 2 == 1);
    }
}

/* Two losses whose metrics share the rows of one buffer: each writes its part. The tile family has several shares of
 * the largest case, the local one of any. */
static void parts_of_a_row(rig *r) {
    clq_loss_problem p = kinds[7];
    p.metrics_width = clq_loss_totals(&p) + 4;
    for (p.metrics_at = 0; p.metrics_at <= 4; p.metrics_at += 2) check_loss(r, p, cases[1], true, false);
    p.metrics_at = 4;
    const size_t last = r->family == CLQ_FAMILY_TILE ? CLQ_COUNT_OF(cases) - 1 : 0;
    if (rig_affords(r, cases[last].rows * cases[last].capacity * cases[last].classes))
        check_loss(r, p, cases[last], true, false);
}

/* A sample's target: an index for each row, or a value for each class of each row. */
static void test_targets_have_a_type(void **state) {
    (void)state;
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++) {
        const clq_loss_problem p = {.kind = kinds[k].kind, .classes = 10, .rows = 3};
        const bool index = p.kind == CLQ_LOSS_SPARSE_CATEGORICAL;
        assert_int_equal(clq_loss_target_dtype(&p), index ? CLQ_I32 : CLQ_F32);
        assert_int_equal(clq_loss_target_elements(&p), index ? 3 : 30);
        assert_int_equal(clq_loss_target_bytes(&p), index ? 12 : 120);
    }
}

/* Every row of the tables has a case here. */
static void test_tables_are_covered(void **state) {
    (void)state;
    for (size_t kind = 0; kind < clq_loss_count(); kind++) {
        bool found = false;
        for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++) found = found || (size_t)kinds[k].kind == kind;
        if (!found) fail_msg("loss %s has no case", clq_loss_row_of((clq_loss_kind)kind)->name);
    }
    for (size_t kind = 0; kind < clq_metric_count(); kind++) {
        bool found = false;
        for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++)
            for (unsigned m = 0; m < kinds[k].metric_count; m++) found = found || (size_t)kinds[k].metrics[m] == kind;
        if (!found) fail_msg("metric %s has no case", clq_metric_row_of((clq_metric_kind)kind)->name);
    }
}

/* A sure and right answer: the loss and the gradient are tiny, and still right to 1e-6 of themselves. */
static void sure_answers(rig *r) {
    batch b = make_batch(kinds[0], 10, 1, 8, 1);
    for (size_t row = 0; row < 8; row++)
        for (size_t c = 0; c < 10; c++) {
            bool right = (int32_t)c == b.sparse[row];
            b.d_x[row * 10 + c] = (double)(b.x[row * 10 + c] = right ? 14.f : -1.f - (float)c);
        }
    compute(&b, 1);
    assert_true(b.totals[0] < 1e-5);
    for (size_t row = 0; row < 8; row++) { /* the reference's p - 1 cancels: the row sums to zero */
        double others = 0;
        for (size_t c = 0; c < 10; c++) others += (int32_t)c == b.sparse[row] ? 0 : b.dx[row * 10 + c];
        b.dx[row * 10 + (size_t)b.sparse[row]] = -others;
    }
    float got[80];
    clq_loss_values v = begin_loss(r, &b, 8, true, false, 1);
    rig_run(r, 8);
    check_metrics(r, v, &b, 1e-6, 0);
    rig_read(r, v.dx, got, sizeof got);
    rig_check_close(r, "dx", got, b.dx, 80, 2e-6, 0);
    rig_end(r);
    free_batch(&b);
}

/* Probabilities at the clip: no slope there, and a loss of -log(1e-7). */
static void clipped(rig *r) {
    for (size_t k = FIRST_FROM_PROBABILITIES; k < FIRST_FROM_PROBABILITIES + 3; k++) {
        batch b = make_batch(kinds[k], 3, 1, 3, 1);
        const double x[9] = {0, 1, 1, 0, 0, 2, 1e-9, 0.5, 0.25};
        const int32_t labels[3] = {0, 2, 0};
        for (size_t i = 0; i < 9; i++) {
            b.x[i] = (float)x[i];
            b.d_x[i] = (double)b.x[i];
            b.soft[i] = (size_t)labels[i / 3] == i % 3;
            b.target[i] = (double)b.soft[i];
        }
        memcpy(b.sparse, labels, sizeof labels);
        compute(&b, 1);
        float got[9];
        clq_loss_values v = begin_loss(r, &b, 3, true, false, 1);
        rig_run(r, 3);
        check_metrics(r, v, &b, 1e-6, 1e-7);
        rig_read(r, v.dx, got, sizeof got);
        rig_check_close(r, "dx", got, b.dx, 9, 1e-6, 1e-6);
        rig_end(r);
        free_batch(&b);
    }
}

static void wrong_labels(rig *r) {
    for (size_t k = 0; k <= 3; k += 3) {
        for (int which = 0; which < 2; which++) {
            batch b = make_batch(kinds[k], 10, 1, 4, 1);
            b.sparse[2] = which ? 10 : -1;
            clq_loss_values v = begin_loss(r, &b, 4, true, false, 1);
            float metrics[SLOTS][2];
            rig_run(r, 4);
            rig_read(r, v.metrics, metrics, sizeof metrics);
            assert_true(isnan(metrics[SLOT][0]));
            rig_end(r);
            free_batch(&b);
        }
    }
}

/* Rows without a largest value count as class 0, rows of no class nowhere. */
static void uncertain_rows(rig *r) {
    const float x[5][3] = {{NAN, NAN, NAN}, {-INFINITY, -INFINITY, -INFINITY}, {NAN, 1, 2}, {0, 1, 0}, {0, 0, 1}};
    const int32_t labels[5] = {2, 0, 1, -1, 3};
    const float want[9] = {1, 0, 0, 0, 0, 1, 1, 0, 0};
    batch b = make_batch(kinds[WITH_MATRIX], 3, 1, 5, 1);
    assert_int_equal(b.p.metrics[3], CLQ_METRIC_CONFUSION);
    memcpy(b.x, x, sizeof x);
    memcpy(b.sparse, labels, sizeof labels);
    clq_loss_values v = begin_loss(r, &b, 5, true, false, 1);
    float metrics[SLOTS][1 + 3 + 9];
    rig_run(r, 5);
    rig_read(r, v.metrics, metrics, sizeof metrics);
    assert_memory_equal(&metrics[SLOT][4], want, sizeof want);
    rig_end(r);
    free_batch(&b);
}

/* Logits that overflow exp; a class that is impossible; one NaN. */
static void extremes(rig *r) {
    const float x[4][3] = {{1000, 0, -1000}, {-1000, -1000, 1000}, {0, -INFINITY, 0}, {0, NAN, 0}};
    const double want[4] = {1000, 0, 0.69314718055994531, NAN};
    const int32_t labels[4] = {1, 2, 2, 0};
    for (size_t row = 0; row < 4; row++) {
        batch b = make_batch(kinds[row % 2], 3, 1, 1, 1);
        memcpy(b.x, x[row], sizeof x[row]);
        b.sparse[0] = labels[row];
        for (size_t c = 0; c < 3; c++) b.soft[c] = labels[row] == (int32_t)c;
        clq_loss_values v = begin_loss(r, &b, 1, true, false, 1);
        float metrics[SLOTS][2];
        rig_run(r, 1);
        rig_read(r, v.metrics, metrics, sizeof metrics);
        rig_check_close(r, "loss", &metrics[SLOT][0], &want[row], 1, 2e-7, 0);
        rig_end(r);
        free_batch(&b);
    }
}

/* Of values, too: binary logits that overflow exp, and a NaN that no comparison hides. The list has room for two
 * samples, so that the local family adds up shares, as it does for other cases: for one it is a program of its own. */
static void extreme_values(rig *r) {
    const float x[3] = {1000, -1000, 90};
    const double want = (1000 + 0 + 0) / 3.0; /* targets 0, 0, 1 */
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++) {
        if (is_of_classes(&kinds[k])) continue;
        for (int nan = rig_is_simulated(r); nan < 2; nan++) { /* numbers are alike to a simulator */
            rig_alternate(r, k);
            batch b = make_batch(kinds[k], 3, 1, 1, 1);
            bool binary = b.p.kind == CLQ_LOSS_BINARY && b.p.from_logits;
            float metrics[SLOTS * FLOATS_MOST];
            memcpy(b.x, x, sizeof x);
            if (nan) b.x[1] = NAN;
            b.soft[0] = b.soft[1] = 0, b.soft[2] = 1;
            clq_loss_values v = begin_loss(r, &b, 2, true, false, 1);
            rig_run(r, 1);
            rig_read(r, v.metrics, metrics, SLOTS * clq_loss_totals(&b.p) * sizeof(float));
            const float *loss = &metrics[SLOT * clq_loss_totals(&b.p)];
            if (nan) assert_true(isnan(*loss));
            if (!nan && binary) rig_check_close(r, "loss", loss, &want, 1, 2e-7, 0);
            rig_end(r);
            free_batch(&b);
        }
    }
}

/* What models give that end in relu or in nothing, to losses of probabilities. */
static const clq_loss_problem of_probabilities[] = {
    {.kind = CLQ_LOSS_SPARSE_CATEGORICAL, .weight = 1, ENTROPY},
    {.kind = CLQ_LOSS_CATEGORICAL, .weight = 1, ENTROPY},
    {.kind = CLQ_LOSS_CATEGORICAL, .label_smoothing = 0.2f, .weight = 1, ACCURACY},
    {.kind = CLQ_LOSS_CATEGORICAL_FOCAL, .alpha = 0.25f, .gamma = 2, .weight = 1, ACCURACY},
    {.kind = CLQ_LOSS_BINARY, .weight = 1, DECISIONS},
    {.kind = CLQ_LOSS_BINARY_FOCAL, .alpha = 0.25f, .gamma = 2, .weight = 1, DECISIONS},
    {.kind = CLQ_LOSS_BINARY_FOCAL, .alpha = 0.25f, .gamma = 3, .weight = 1, DECISIONS},
    {.kind = CLQ_LOSS_KL_DIVERGENCE, .weight = 1, ACCURACY},
    {.kind = CLQ_LOSS_POISSON, .weight = 1},
};

static void beyond_probabilities(rig *r) {
    static const float rows[][3] = {{0, 0, 0},           {-1, 0.5f, 2},    {3, 0.25f, 0.125f}, {0, 0.5f, 0},
                                    {-0.5f, -0.25f, -1}, {1e-9f, 1, 0.5f}, {-2, 2, 0},         {1, 1, 1}};
    enum { ROWS = CLQ_COUNT_OF(rows) };
    const uint32_t count = rig_is_simulated(r) ? 2 : ROWS; /* to a simulator they are alike */
    for (size_t k = 0; k < CLQ_COUNT_OF(of_probabilities); k++) {
        rig_alternate(r, k);
        batch b = make_batch(of_probabilities[k], 3, 1, count, 1);
        float got[3 * ROWS];
        for (size_t i = 0; i < b.n; i++) b.d_x[i] = (double)(b.x[i] = rows[i / 3][i % 3]);
        compute(&b, 1);
        clq_loss_values v = begin_loss(r, &b, count, true, false, 1);
        rig_run(r, count);
        check_metrics(r, v, &b, 1e-6, 1e-6);
        rig_read(r, v.dx, got, sizeof got);
        rig_check_close(r, "dx", got, b.dx, b.n, 2e-6, 2e-6);
        rig_end(r);
        free_batch(&b);
    }
}

/* No finite output makes a slope NaN, nor a loss that float32 has: a sum with infinite terms may be. To a simulator,
 * which looks at memory, these kernels with such shapes are those above. */
static void large_outputs(rig *r) {
    static const float rows[][3] = {{3e38f, 3e38f, 3e38f}, {-3e38f, 0, 0}, {0, 3e38f, 1}, {1e-38f, 0, 0}};
    for (size_t k = 0; k < CLQ_COUNT_OF(of_probabilities) && !rig_is_simulated(r); k++) {
        rig_alternate(r, k);
        batch b = make_batch(of_probabilities[k], 3, 1, CLQ_COUNT_OF(rows), 1);
        float got[3 * CLQ_COUNT_OF(rows)], metrics[SLOTS * FLOATS_MOST];
        memcpy(b.x, rows, sizeof rows);
        for (size_t i = 0; i < b.n; i++) b.d_x[i] = (double)b.x[i];
        compute(&b, 1);
        const bool fits = fabs(b.totals[0]) <= (double)FLT_MAX;
        clq_loss_values v = begin_loss(r, &b, CLQ_COUNT_OF(rows), true, false, 1);
        rig_run(r, CLQ_COUNT_OF(rows));
        rig_read(r, v.metrics, metrics, SLOTS * clq_loss_totals(&b.p) * sizeof(float));
        rig_read(r, v.dx, got, sizeof got);
        if (fits && isnan(metrics[SLOT * clq_loss_totals(&b.p)])) fail_msg("problem %zu: the loss is NaN", k);
        for (size_t i = 0; i < b.n; i++)
            if (isnan(got[i])) fail_msg("problem %zu: slope %zu is NaN", k, i);
        rig_end(r);
        free_batch(&b);
    }
}

/* Outputs that are no probabilities, which cross-entropy clips: right answers, of no loss. */
static void focal_beyond_probabilities(rig *r) {
    const clq_loss_problem focal = {.kind = CLQ_LOSS_BINARY_FOCAL, .gamma = 0.5f, .alpha = 0.25f, .weight = 1};
    batch b = make_batch(focal, 2, 1, 1, 1);
    float metrics[SLOTS];
    b.x[0] = -0.5f, b.soft[0] = 0;
    b.x[1] = 1.5f, b.soft[1] = 1;
    clq_loss_values v = begin_loss(r, &b, 1, true, false, 1);
    rig_run(r, 1);
    rig_read(r, v.metrics, metrics, sizeof metrics);
    assert_true(metrics[SLOT] >= 0 && metrics[SLOT] < 1e-6f);
    rig_end(r);
    free_batch(&b);
}

/* ---- the reference itself ---- */

static void test_reference_by_differences(void **state) {
    (void)state;
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++) {
        batch b = make_batch(kinds[k], 7, 2, 3, 1);
        for (size_t i = 0; i < b.n; i++) {
            double h = 1e-6, kept = b.d_x[i], *x = b.d_x + i / 14 * 14, *t = b.target + i / 14 * 14;
            b.d_x[i] = kept + h;
            double above = ref_loss(&b.p, x, t, NULL);
            b.d_x[i] = kept - h;
            double below = ref_loss(&b.p, x, t, NULL);
            b.d_x[i] = kept;
            double difference = (above - below) / (2 * h) * (double)b.p.weight * (double)b.weights[i / 14];
            assert_true(fabs(difference - b.dx[i]) < 1e-7 * (1 + fabs(b.dx[i])));
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
ON_DEVICES(losses_with_numbers)
ON_DEVICES(sure_answers)
ON_DEVICES(clipped)
ON_DEVICES(wrong_labels)
ON_DEVICES(uncertain_rows)
ON_DEVICES(extremes)
ON_DEVICES(extreme_values)
ON_DEVICES(beyond_probabilities)
ON_DEVICES(large_outputs)
ON_DEVICES(focal_beyond_probabilities)
ON_DEVICES(masked_losses)
ON_DEVICES(parts_of_a_row)

/* "numbers": what a locale may change, alone. */
int main(int argc, char **argv) {
    const struct CMUnitTest numbers[] = {cmocka_unit_test(test_losses_with_numbers)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reference_by_differences),
                                       cmocka_unit_test(test_losses),
                                       cmocka_unit_test(test_sure_answers),
                                       cmocka_unit_test(test_clipped),
                                       cmocka_unit_test(test_wrong_labels),
                                       cmocka_unit_test(test_uncertain_rows),
                                       cmocka_unit_test(test_extremes),
                                       cmocka_unit_test(test_extreme_values),
                                       cmocka_unit_test(test_beyond_probabilities),
                                       cmocka_unit_test(test_large_outputs),
                                       cmocka_unit_test(test_focal_beyond_probabilities),
                                       cmocka_unit_test(test_masked_losses),
                                       cmocka_unit_test(test_parts_of_a_row),
                                       cmocka_unit_test(test_targets_have_a_type),
                                       cmocka_unit_test(test_tables_are_covered)};
    if (argc > 1 && strcmp(argv[1], "numbers") == 0) return cmocka_run_group_tests(numbers, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
