#include "support/ops_product.h"

#include "ref/ref_elementwise.h"

#include <math.h>
#include <stdio.h>

static void must(const rig *r, clq_status status) {
    if (status != CLQ_OK) fail_msg("%s: %s: %s", r->name, clq_status_text(status), clq_error_detail());
}

void product_check_numbers_to(const rig *r, const char *what, clq_dtype dtype, const void *stored, const double *want,
                              const double *sizes, size_t n, size_t terms, double relative) {
    const double unit = ldexp(1, -24);
    double error_square = 0, square = 0, steps = (double)terms + 8; /* a sum in any order, and what follows it */
    float *got = rig_floats(dtype, stored, n);
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)got[i] - want[i]), most = steps * unit * sizes[i] + 1e-6 * fabs(want[i]) + 1e-30;
        most += rig_half_bit(dtype, fabs(want[i]) + most);
        error_square += error * error;
        square += want[i] * want[i];
        if (!(error <= most))
            fail_msg("%s: %s[%zu of %zu] is %.9g, should be %.9g: off by %.3g", r->name, what, i, n, (double)got[i],
                     want[i], error);
    }
    if (!(sqrt(error_square) <= (relative + rig_half_bit(dtype, 1)) * sqrt(square)))
        fail_msg("%s: %s is off by %.3g (relative, L2) over %zu sums of %zu", r->name, what,
                 sqrt(error_square / square), n, terms);
    clq_free(got);
}

void product_check_numbers(const rig *r, const char *what, clq_dtype dtype, const void *stored, const double *want,
                           const double *sizes, size_t n, size_t terms) {
    product_check_numbers_to(r, what, dtype, stored, want, sizes, n, terms, PRODUCT_RELATIVE);
}

/* Random inputs, what the reference makes of them, and what it makes of their absolute values. */
typedef struct arrays {
    float *x, *w, *b, *dz;
    void *in_x, *in_w, *in_dz; /* as memory stores them */
    double *d_x, *d_w, *d_b, *d_dz;
    double *y, *dx, *dw, *y_size, *dx_size, *dw_size;
} arrays;

/* Whether matrix units compute the products. They round a float32 factor to the 16 bits that the other factor has
 * (067). */
static bool rounds_factors(const rig *r, const rig_variant *how) {
    return (how->x != CLQ_F32 || how->w != CLQ_F32 || how->y != CLQ_F32) && r->family == CLQ_FAMILY_LOCAL &&
           clq_device_matrix_unit(r->device) != CLQ_UNIT_NONE;
}

/* Rounds to numbers of seven bits, which float16 and bfloat16 hold exactly. */
static void make_short(size_t n, float *floats, double *doubles) {
    for (size_t i = 0; i < n; i++) doubles[i] = floats[i] = rintf(127 * floats[i]) / 128;
}

static arrays make_arrays(const rig *r, const product_layer *l, const rig_variant *how, size_t count) {
    clq_random random = clq_random_start(77, l->in * 1009 + l->weights);
    arrays a = {0};
    rig_numbers(&random, count * l->in, -1, 1, &a.x, &a.d_x);
    rig_numbers(&random, l->weights, -1, 1, &a.w, &a.d_w);
    rig_numbers(&random, l->biases, -1, 1, &a.b, &a.d_b);
    rig_numbers(&random, count * l->out, -1, 1, &a.dz, &a.d_dz);
    if (rounds_factors(r, how)) {
        make_short(count * l->in, a.x, a.d_x);
        make_short(l->weights, a.w, a.d_w);
        make_short(count * l->out, a.dz, a.d_dz);
    }
    a.in_x = rig_stored(how->x, a.x, a.d_x, count * l->in);
    a.in_w = rig_stored(how->w, a.w, a.d_w, l->weights);
    a.in_dz = rig_stored(how->y, a.dz, a.d_dz, count * l->out);
    double **const results[] = {&a.y, &a.dx, &a.dw, &a.y_size, &a.dx_size, &a.dw_size};
    const size_t sizes[] = {count * l->out, count * l->in, l->weights};
    for (size_t i = 0; i < CLQ_COUNT_OF(results); i++) *results[i] = rig_alloc(sizes[i % 3] + 1, sizeof(double));
    const double *b = l->biases ? a.d_b : NULL;
    double *z = rig_alloc(count * l->out + 1, sizeof(double));
    l->ref(l->problem, count, a.d_x, a.d_w, b, z);
    ref_activation(l->activation, count * l->out, 1, z, a.y);
    l->ref_gradients(l->problem, count, a.d_x, a.d_w, a.d_dz, a.dx, a.dw);
    rig_sizes(a.d_x, count * l->in);
    rig_sizes(a.d_w, l->weights);
    rig_sizes(a.d_b, l->biases);
    rig_sizes(a.d_dz, count * l->out);
    l->ref(l->problem, count, a.d_x, a.d_w, b, a.y_size);
    l->ref_gradients(l->problem, count, a.d_x, a.d_w, a.d_dz, a.dx_size, a.dw_size);
    clq_free(z);
    return a;
}

static void free_arrays(arrays *a) {
    void *const all[] = {a->x,    a->w, a->b,  a->dz, a->d_x,    a->d_w,     a->d_b,     a->in_x, a->in_w,
                         a->d_dz, a->y, a->dx, a->dw, a->y_size, a->dx_size, a->dw_size, a->in_dz};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_free(all[i]);
}

typedef struct values {
    clq_value x, w, b, y, dz, dx, dw;
} values;

static double relative_of(const product_layer *l) { return l->relative > 0 ? l->relative : PRODUCT_RELATIVE; }

static size_t gradient_terms(const product_layer *l, size_t count) {
    return l->gradient_terms ? l->gradient_terms(l->problem, count) : count * l->rows;
}

/* Checks the sum of three runs' weights' gradients: the first run begins a new sum, and the last one scales the sum. A
 * simulator has no run between these. */
static void check_sum(rig *r, const product_layer *l, clq_value dw, uint32_t count, arrays *a) {
    const float factors[] = {1, 0.25f};
    float *got = rig_alloc(l->weights, sizeof *got);
    rig_run(r, count); /* begins a new sum */
    const size_t first = rig_is_simulated(r) ? 1 : 0;
    for (size_t i = first; i < CLQ_COUNT_OF(factors); i++) {
        r->params.sum_factor = factors[i];
        rig_run(r, count);
    }
    r->params.sum_factor = 0;
    rig_read(r, dw, got, l->weights * sizeof *got);
    for (size_t i = 0; i < l->weights; i++) {
        a->dw[i] *= first ? 0.5 : 0.75;
        a->dw_size[i] *= first ? 0.5 : 0.75;
    }
    product_check_numbers_to(r, "the sum of dw", CLQ_F32, got, a->dw, a->dw_size, l->weights,
                             (3 - first) * (gradient_terms(l, count) + 1), relative_of(l));
    rig_check_untouched(r, dw, l->weights * sizeof *got);
    clq_free(got);
}

static void check_count(rig *r, const product_layer *l, const rig_variant *how, const values *v, uint32_t count) {
    arrays a = make_arrays(r, l, how, count);
    rig_fill(r, v->x, a.in_x, clq_values_bytes(how->x, count * l->in));
    rig_fill(r, v->w, a.in_w, clq_values_bytes(how->w, l->weights));
    if (v->b) rig_fill(r, v->b, a.b, l->biases * sizeof(float));
    rig_fill(r, v->dz, a.in_dz, clq_values_bytes(how->y, count * l->out));
    rig_fill(r, v->y, NULL, 0);
    rig_fill(r, v->dx, NULL, 0);
    rig_fill(r, v->dw, NULL, 0);
    rig_run(r, count);
    size_t n_y = count * l->out, n_dx = count * l->in, columns = l->out / l->rows,
           growth = CLQ_MAX(l->growth, (size_t)1);
    const rig_result results[] = {{"y", v->y, clq_values_bytes(how->y, n_y)},
                                  {"dx", v->dx, clq_values_bytes(how->x, n_dx)},
                                  {"dw", v->dw, l->weights * sizeof(float)}};
    void *got[CLQ_COUNT_OF(results)];
    rig_read_both(r, results, CLQ_COUNT_OF(results), count, got);
    const double relative = relative_of(l);
    product_check_numbers_to(r, "y", how->y, got[0], a.y, a.y_size, n_y, growth * (l->weights / columns + 1), relative);
    product_check_numbers_to(r, "dx", how->x, got[1], a.dx, a.dx_size, n_dx, growth * l->weights, relative);
    product_check_numbers_to(r, "dw", CLQ_F32, got[2], a.dw, a.dw_size, l->weights, gradient_terms(l, count), relative);
    if (l->adds) check_sum(r, l, v->dw, count, &a);
    for (size_t i = 0; i < CLQ_COUNT_OF(results); i++) clq_free(got[i]);
    free_arrays(&a);
}

void product_check(rig *r, const product_layer *l, uint32_t capacity, const rig_variant *how) {
    if (!rig_affords(r, capacity * (l->in + l->out) + l->weights)) return;
    rig_begin(r, capacity);
    rig_force(r, how);
    values v = {
        .x = rig_value_of(r, "x", how->x, 0, l->in),
        .w = rig_value_of(r, "w", how->w, l->weights, 0),
        .b = l->biases ? rig_value(r, "b", l->biases * sizeof(float), 0) : CLQ_NO_VALUE,
        .y = rig_value_of(r, "y", how->y, 0, l->out),
        .dz = rig_value_of(r, "dz", how->y, 0, l->out),
        .dx = rig_value_of(r, "dx", how->x, 0, l->in),
        .dw = rig_value(r, "dw", l->weights * sizeof(float), 0),
    };
    l->forward(r->list, l->problem, v.x, v.w, v.b, v.y);
    l->backward(r->list, l->problem, v.x, v.w, v.dz, v.dx, v.dw);
    must(r, clq_list_status(r->list));
    rig_bind(r);
    const uint32_t counts[] = {capacity, 1, 0, capacity - 1};
    for (size_t i = 0; i < (rig_is_simulated(r) ? 2 : CLQ_COUNT_OF(counts)); i++)
        if (i < 3 || counts[i] > 1) check_count(r, l, how, &v, counts[i]);
    rig_end(r);
}

void product_build_clblast(rig *r) {
    const clq_kernel_family family = r->family;
    const float numbers[4] = {0};
    if (rig_is_simulated(r)) return; /* a simulator does not optimize */
    r->family = CLQ_FAMILY_LOCAL;
    rig_begin(r, 1);
    rig_force(r, &(rig_variant){.product = "clblast"});
    const clq_value a = rig_value(r, "a", sizeof numbers, 0), b = rig_value(r, "b", sizeof numbers, 0),
                    c = rig_value(r, "c", sizeof numbers, 0);
    clq_gemm(r->list, &(clq_gemm_problem){.m = 2, .n = 2, .k = 2}, a, b, c);
    rig_bind(r);
    rig_fill(r, a, numbers, sizeof numbers);
    rig_fill(r, b, numbers, sizeof numbers);
    rig_run(r, 1);
    rig_end(r);
    r->family = family;
}

static void check_cases(rig *r, size_t cases, size_t everywhere, bool shared, void (*check)(rig *r, size_t index)) {
    bool all = clq_device_runs_in_caller(r->device) || rig_is_simulated(r);
    for (size_t i = 0; i < (all ? cases : everywhere); i++)
        if (!shared || rig_takes(r, i)) check(r, i);
}

void product_check_cases(rig *r, size_t cases, size_t everywhere, void (*check)(rig *r, size_t index)) {
    check_cases(r, cases, everywhere, false, check);
}

void product_share_cases(rig *r, size_t cases, size_t everywhere, void (*check)(rig *r, size_t index)) {
    check_cases(r, cases, everywhere, true, check);
}
