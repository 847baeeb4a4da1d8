/* A convolution, its activation and a max pooling as one operation, against the references of the three. */
#include "ref/ref_elementwise.h"
#include "ref/ref_product.h"
#include "support/ops_product.h"

#include <math.h>

typedef struct pool_case {
    clq_conv2d_problem c;
    size_t pool_h, pool_w, size_h, size_w, stride_h, stride_w;
    uint32_t capacity;
    bool bias, input; /* input: whether its gradient is wanted */
} pool_case;

/* in h, w, c, out h, w, c, kernel, stride, dilation, padding in front, activation; windows, their size and stride;
 * capacity; bias; input gradient */
static const pool_case cases[] = {
    /* lists; an output row and column that no window reads */
    {{9, 9, 32, 7, 7, 48, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 3, 3, 2, 2, 2, 2, 5, true, true},
    /* one channel: weights stay in registers, gradient by windows */
    {{14, 14, 1, 12, 12, 32, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 6, 6, 2, 2, 2, 2, 7, true, false},
    /* small enough for a simulator: both, with odd channels, and with padding */
    {{6, 7, 2, 4, 5, 5, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_TANH, false}, 2, 2, 2, 2, 2, 2, 3, true, false},
    {{4, 5, 16, 3, 4, 3, 2, 2, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false}, 1, 2, 2, 2, 2, 2, 3, false, true},
    {{4, 4, 3, 4, 4, 17, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 2, 2, 2, 2, 2, 2, 2, true, false},
    /* same, lists */
    {{8, 7, 16, 8, 7, 20, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 4, 3, 2, 2, 2, 2, 4, true, true},
    /* odd channels with the input's gradient: as before the pooling; gaps between windows */
    {{13, 12, 6, 9, 10, 9, 5, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 3, 3, 2, 2, 3, 3, 4, true, true},
    /* strides, windows that are no squares, more taps than a tile has, a panel and a half of channels */
    {{23, 20, 32, 10, 9, 33, 5, 3, 2, 2, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 3, 4, 3, 2, 3, 2, 3, true, true},
    /* long sums, of weights and over windows */
    {{6, 6, 115, 4, 4, 8, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false}, 2, 2, 2, 2, 2, 2, 3, true, false},
    {{50, 50, 2, 48, 48, 4, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false}, 24, 24, 2, 2, 2, 2, 8, true, false},
};
enum { EVERYWHERE = 2 };

/* For Winograd's products, which need windows of 2x2. */
static const pool_case fewer[] = {
    {{9, 9, 32, 7, 7, 48, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 3, 3, 2, 2, 2, 2, 5, true, true},
    /* same; gaps between windows */
    {{8, 7, 16, 8, 7, 32, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_LINEAR, false}, 3, 2, 2, 2, 2, 3, 4, false, true},
    {{4, 4, 16, 2, 2, 16, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 1, 1, 2, 2, 2, 2, 1, true, false},
};

static rig_variant how;
static bool is_winograd(void) { return how.conv && strcmp(how.conv, "winograd") == 0; }
/* How much larger rounding errors may be than with plain sums. See tests/support/ops_conv.c. */
enum { WINOGRAD_GROWTH = 3 };

static clq_conv_pool_problem problem_of(const pool_case *c) {
    return (clq_conv_pool_problem){.conv = c->c,
                                   .pool = {.in_h = c->c.out_h,
                                            .in_w = c->c.out_w,
                                            .channels = c->c.out_c,
                                            .out_h = c->pool_h,
                                            .out_w = c->pool_w,
                                            .size_h = c->size_h,
                                            .size_w = c->size_w,
                                            .stride_h = c->stride_h,
                                            .stride_w = c->stride_w}};
}

typedef struct sizes {
    size_t in, conv, out, weights; /* floats: of one example's input, convolution, pooled output */
} sizes;

static sizes sizes_of(const pool_case *c) {
    return (sizes){.in = c->c.in_h * c->c.in_w * c->c.in_c,
                   .conv = c->c.out_h * c->c.out_w * c->c.out_c,
                   .out = c->pool_h * c->pool_w * c->c.out_c,
                   .weights = c->c.kernel_h * c->c.kernel_w * c->c.in_c * c->c.out_c};
}

/* Inputs, and what the references make of them and of their absolute values. */
typedef struct arrays {
    float *x, *w, *b, *dz;
    void *in_x, *in_w, *in_dz; /* as memory has them */
    double *d_x, *d_w, *d_b, *d_dz;
    unsigned char *winner; /* given to the backward pass: any places */
    double *y, *dx, *dw, *y_size, *dx_size, *dw_size;
    int *best; /* the forward pass's winners */
} arrays;

static void run_reference(const pool_case *c, size_t count, clq_activation act, arrays *a, double *y, double *dx,
                          double *dw, int *best) {
    const clq_conv_pool_problem p = problem_of(c);
    sizes s = sizes_of(c);
    double *z = rig_alloc(count * s.conv + 1, sizeof *z), *full = rig_alloc(count * s.conv + 1, sizeof *full);
    ref_conv2d(&c->c, count, a->d_x, a->d_w, c->bias ? a->d_b : NULL, z);
    ref_activation(act, count * s.conv, 1, z, full);
    ref_pool2d(&p.pool, count, full, y, best);
    memset(full, 0, count * s.conv * sizeof *full);
    size_t channels = c->c.out_c;
    for (size_t i = 0; i < count * s.out; i++) { /* (n, oh, ow, channel) */
        size_t ow = i / channels % c->pool_w, oh = i / channels / c->pool_w % c->pool_h, n = i / s.out;
        size_t h = oh * c->stride_h + a->winner[i] / c->size_w, w = ow * c->stride_w + a->winner[i] % c->size_w;
        full[((n * c->c.out_h + h) * c->c.out_w + w) * channels + i % channels] = a->d_dz[i];
    }
    ref_conv2d_gradients(&c->c, count, a->d_x, a->d_w, full, dx, dw);
    clq_free(z);
    clq_free(full);
}

static arrays make_arrays(const pool_case *c, size_t count) {
    sizes s = sizes_of(c);
    clq_random random = clq_random_start(78, s.in * 1009 + s.weights);
    arrays a = {.winner = rig_alloc(count * s.out + 1, 1), .best = rig_alloc(count * s.out + 1, sizeof(int))};
    rig_numbers(&random, count * s.in, -1, 1, &a.x, &a.d_x);
    rig_numbers(&random, s.weights, -1, 1, &a.w, &a.d_w);
    rig_numbers(&random, c->c.out_c, -1, 1, &a.b, &a.d_b);
    rig_numbers(&random, count * s.out, -1, 1, &a.dz, &a.d_dz);
    for (size_t i = 0; i < count * s.out; i++) {
        a.winner[i] = (unsigned char)rig_below(&random, c->size_h * c->size_w);
        if (rig_below(&random, 2)) a.d_dz[i] = (double)(a.dz[i] = 0); /* relu leaves many zeros */
    }
    a.in_x = rig_stored(how.x, a.x, a.d_x, count * s.in);
    a.in_w = rig_stored(how.w, a.w, a.d_w, s.weights);
    a.in_dz = rig_stored(how.y, a.dz, a.d_dz, count * s.out);
    double **const results[] = {&a.y, &a.dx, &a.dw, &a.y_size, &a.dx_size, &a.dw_size};
    const size_t counts[] = {count * s.out, count * s.in, s.weights};
    for (size_t i = 0; i < CLQ_COUNT_OF(results); i++) *results[i] = rig_alloc(counts[i % 3] + 1, sizeof(double));
    run_reference(c, count, c->c.activation, &a, a.y, a.dx, a.dw, a.best);
    rig_sizes(a.d_x, count * s.in);
    rig_sizes(a.d_w, s.weights);
    rig_sizes(a.d_b, c->c.out_c);
    rig_sizes(a.d_dz, count * s.out);
    run_reference(c, count, CLQ_ACTIVATION_LINEAR, &a, a.y_size, a.dx_size, a.dw_size, NULL);
    return a;
}

static void free_arrays(arrays *a) {
    void *const all[] = {a->x,  a->w,      a->b,       a->dz,      a->d_x,    a->d_w,  a->d_b,  a->d_dz, a->y,    a->dx,
                         a->dw, a->y_size, a->dx_size, a->dw_size, a->winner, a->best, a->in_x, a->in_w, a->in_dz};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_free(all[i]);
}

typedef struct values {
    clq_value x, w, b, y, best, dz, winner, dx, dw;
} values;

static values add_layer(rig *r, const pool_case *c) {
    const clq_conv_pool_problem p = problem_of(c);
    sizes s = sizes_of(c);
    rig_begin(r, c->capacity);
    values v = {
        .x = rig_value_of(r, "x", how.x, 0, s.in),
        .w = rig_value_of(r, "w", how.w, s.weights, 0),
        .b = c->bias ? rig_value(r, "b", c->c.out_c * sizeof(float), 0) : CLQ_NO_VALUE,
        .y = rig_value_of(r, "y", how.y, 0, s.out),
        .best = rig_value(r, "best", 0, s.out),
        .dz = rig_value_of(r, "dz", how.y, 0, s.out),
        .winner = rig_value(r, "winner", 0, s.out),
        .dx = c->input ? rig_value_of(r, "dx", how.x, 0, s.in) : CLQ_NO_VALUE,
        .dw = rig_value(r, "dw", s.weights * sizeof(float), 0),
    };
    assert_true(clq_conv_pool_fits(r->list, &p));
    rig_force(r, &how);
    clq_value frames = clq_conv_pool_frames(r->list, &p, v.x);
    clq_conv_pool_forward(r->list, &p, frames, v.w, v.b, v.y, v.best);
    clq_launch_info info;
    clq_list_launch_info(r->list, clq_list_launch_count(r->list) - 1, &info);
    assert_string_equal(info.file, is_winograd() ? "winograd_tile" : "conv_pool");
    clq_conv_pool_backward(r->list, &p, frames, v.x, v.w, v.dz, v.winner, v.dx, v.dw);
    rig_bind(r);
    return v;
}

/* If values are equal after a relu, any of them may have won. */
static void check_best(const rig *r, const pool_case *c, const arrays *a, const unsigned char *got, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (got[i] != a->best[i] && (c->c.activation != CLQ_ACTIVATION_RELU || a->y[i] > 0))
            fail_msg("%s: winner[%zu] is %d, should be %d", r->name, i, got[i], a->best[i]);
}

static void check_count(rig *r, const pool_case *c, const values *v, uint32_t count) {
    sizes s = sizes_of(c);
    arrays a = make_arrays(c, count);
    rig_fill(r, v->x, a.in_x, clq_values_bytes(how.x, count * s.in));
    rig_fill(r, v->w, a.in_w, clq_values_bytes(how.w, s.weights));
    if (v->b) rig_fill(r, v->b, a.b, c->c.out_c * sizeof(float));
    rig_fill(r, v->dz, a.in_dz, clq_values_bytes(how.y, count * s.out));
    rig_fill(r, v->winner, a.winner, count * s.out);
    const size_t n = count * s.out, n_dx = count * s.in, made = v->dx ? 4 : 3;
    const rig_result results[] = {{"y", v->y, clq_values_bytes(how.y, n)},
                                  {"winner", v->best, n},
                                  {"dw", v->dw, s.weights * sizeof(float)},
                                  {"dx", v->dx, clq_values_bytes(how.x, n_dx)}};
    void *got[CLQ_COUNT_OF(results)];
    for (size_t i = 0; i < made; i++) rig_fill(r, results[i].value, NULL, 0);
    rig_run(r, count);
    rig_read_both(r, results, made, count, got);
    size_t growth = is_winograd() ? WINOGRAD_GROWTH : 1;
    product_check_numbers(r, "y", how.y, got[0], a.y, a.y_size, n, growth * (s.weights / c->c.out_c + 1));
    check_best(r, c, &a, got[1], n);
    product_check_numbers(r, "dw", CLQ_F32, got[2], a.dw, a.dw_size, s.weights, count * c->pool_h * c->pool_w);
    if (v->dx) product_check_numbers(r, "dx", how.x, got[3], a.dx, a.dx_size, n_dx, s.weights);
    for (size_t i = 0; i < made; i++) clq_free(got[i]);
    free_arrays(&a);
}

static void check_case(rig *r, const pool_case *c) {
    sizes s = sizes_of(c);
    if (r->family != CLQ_FAMILY_TILE || !rig_affords(r, c->capacity * (s.in + s.out) + s.weights)) return;
    values v = add_layer(r, c);
    const uint32_t counts[] = {c->capacity, 1, 0, c->capacity - 1};
    for (size_t i = 0; i < (rig_is_simulated(r) ? 2 : CLQ_COUNT_OF(counts)); i++)
        if (i < 3 || counts[i] > 1) check_count(r, c, &v, counts[i]);
    rig_end(r);
}

static void check(rig *r, size_t index) { check_case(r, &cases[index]); }

static void check_family(rig *r) { product_check_cases(r, CLQ_COUNT_OF(cases), EVERYWHERE, check); }

static void matches_references(void **state) {
    (void)state;
    how = (rig_variant){.conv = "direct"};
    rig_each(check_family);
}

static void check_fewer(rig *r, size_t index) { check_case(r, &fewer[index]); }

static void check_winograd(rig *r) { product_check_cases(r, CLQ_COUNT_OF(fewer), 1, check_fewer); }

static void winograd_matches_references(void **state) {
    (void)state;
    how = (rig_variant){.conv = "winograd"};
    rig_each(check_winograd);
}

/* 16 bits in memory: lists with and without padding, windows, the gradient before the pooling; an image too large to be
 * floats in a work-item's own memory; Winograd's products. */
static const struct {
    pool_case c;
    rig_variant how;
} stored[] = {
    {{{6, 6, 16, 4, 4, 20, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 2, 2, 2, 2, 2, 2, 5, true, true},
     {.conv = "direct", .x = CLQ_F16, .w = CLQ_F16, .y = CLQ_F16}},
    {{{8, 7, 16, 8, 7, 20, 3, 3, 1, 1, 1, 1, 1, 1, CLQ_ACTIVATION_RELU, false}, 4, 3, 2, 2, 2, 2, 4, true, true},
     {.conv = "direct", .x = CLQ_BF16, .w = CLQ_BF16, .y = CLQ_BF16}},
    {{{6, 7, 2, 4, 5, 5, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_TANH, false}, 2, 2, 2, 2, 2, 2, 3, true, false},
     {.conv = "direct", .x = CLQ_F16, .y = CLQ_BF16}},
    {{{13, 12, 6, 9, 10, 9, 5, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 3, 3, 2, 2, 3, 3, 4, true, true},
     {.conv = "direct", .x = CLQ_BF16, .w = CLQ_F16, .y = CLQ_F16}},
    {{{60, 60, 16, 58, 58, 16, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false},
      29,
      29,
      2,
      2,
      2,
      2,
      2,
      true,
      true},
     {.conv = "direct", .x = CLQ_F16}},
    {{{4, 4, 16, 2, 2, 16, 3, 3, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_RELU, false}, 1, 1, 2, 2, 2, 2, 1, true, false},
     {.conv = "winograd", .x = CLQ_F16, .w = CLQ_F16, .y = CLQ_BF16}},
};
enum { STORED_EVERYWHERE = 3 };

static void check_stored(rig *r, size_t index) {
    how = stored[index].how;
    check_case(r, &stored[index].c);
}

static void check_family_stored(rig *r) {
    product_check_cases(r, CLQ_COUNT_OF(stored), STORED_EVERYWHERE, check_stored);
}

static void stored_in_16_bits(void **state) {
    (void)state;
    rig_each(check_family_stored);
}

/* ---- what decides among places ---- */

static const pool_case identity = {
    {2, 6, 1, 2, 6, 1, 1, 1, 1, 1, 1, 1, 0, 0, CLQ_ACTIVATION_LINEAR, false}, 1, 3, 2, 2, 2, 2, 1, false, false};

static void run_identity(rig *r, clq_activation act, const float x[12], float y[3], unsigned char best[3]) {
    const float one = 1;
    pool_case c = identity;
    c.c.activation = act;
    values v = add_layer(r, &c);
    rig_fill(r, v.x, x, 12 * sizeof *x);
    rig_fill(r, v.w, &one, sizeof one);
    rig_fill(r, v.dz, (const float[3]){0}, 3 * sizeof(float));
    rig_fill(r, v.winner, (const char[3]){0}, 3);
    rig_run(r, 1);
    rig_read(r, v.y, y, 3 * sizeof *y);
    rig_read(r, v.best, best, 3);
    rig_end(r);
}

/* The first of equal values wins, even if a tanh that has reached 1 makes them equal. NaN wins over all. */
static void check_winners(rig *r) {
    float y[3];
    unsigned char best[3];
    if (r->family != CLQ_FAMILY_TILE) return;
    run_identity(r, CLQ_ACTIVATION_LINEAR,
                 (const float[12]){1, 2, NAN, 7, -INFINITY, -INFINITY, 2, 1, 9, 8, -INFINITY, -INFINITY}, y, best);
    assert_true(y[0] == 2 && isnan(y[1]) && y[2] == -INFINITY);
    assert_true(best[0] == 1 && best[1] == 0 && best[2] == 0);
    run_identity(r, CLQ_ACTIVATION_TANH, (const float[12]){20, 30, -1, -1, 0, 1, 40, 20, -1, NAN, 2, 0}, y, best);
    assert_true(fabsf(y[0] - 1) < 1e-6f && isnan(y[1]) && fabsf(y[2] - tanhf(2)) < 1e-6f);
    assert_true(best[0] == 0 && best[1] == 3 && best[2] == 2);
    run_identity(r, CLQ_ACTIVATION_RELU, (const float[12]){-1, -2, 3, NAN, -1, 5, -3, -1, 9, 8, 5, 5}, y, best);
    assert_true(y[0] == 0 && isnan(y[1]) && y[2] == 5);
    assert_true(best[1] == 1 && best[2] == 1);
}

static void first_and_nan_win(void **state) {
    (void)state;
    how = (rig_variant){.conv = NULL};
    rig_each(check_winners);
}

/* ---- what can be one operation ---- */

static void check_fits(rig *r) {
    rig_begin(r, 1);
    clq_conv_pool_problem good = problem_of(&cases[0]), p = good;
    assert_int_equal(clq_conv_pool_fits(r->list, &p), r->family == CLQ_FAMILY_TILE);
    if (r->family == CLQ_FAMILY_TILE) {
        p.pool.average = true;
        assert_false(clq_conv_pool_fits(r->list, &p));
        p = good;
        p.pool.stride_w = 1; /* windows that overlap */
        assert_false(clq_conv_pool_fits(r->list, &p));
        p = good;
        p.pool.pad_top = 1;
        assert_false(clq_conv_pool_fits(r->list, &p));
        p = good;
        p.pool.out_h = 4; /* beyond the convolution's output */
        assert_false(clq_conv_pool_fits(r->list, &p));
        p = good;
        p.conv.dilation_h = 2;
        assert_false(clq_conv_pool_fits(r->list, &p));
        p = good;
        p.pool = (clq_pool2d_problem){
            7, 7, 48, 1, 1, 7, 7, 7, 7, 0, 0, false, CLQ_ACTIVATION_LINEAR}; /* more places than registers */
        assert_false(clq_conv_pool_fits(r->list, &p));
    }
    rig_end(r);
}

static void other_shapes_do_not_fit(void **state) {
    (void)state;
    rig_each(check_fits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_references),      cmocka_unit_test(winograd_matches_references),
        cmocka_unit_test(stored_in_16_bits),       cmocka_unit_test(first_and_nan_win),
        cmocka_unit_test(other_shapes_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
