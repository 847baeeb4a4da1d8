/* clique bench gemm: C (m, n) = A (m, k) B (k, n) in float32, by each variant of product kernels, and which variant
 * Clique chooses for the shape. A or B may be stored transposed, as in the gradients of a dense layer. All three may be
 * 16-bit floats (halves) in memory. Sampled elements are verified against sums in double. The limit is the rate at
 * which the device multiplies and adds floats in registers. */
#include "lab.h"

#include <math.h>
#include <string.h>

enum { KEY_SIZES = CLQ_BENCH_KEY_OWN, KEY_VARIANTS, KEY_PRECISION };

static const struct {
    const char *name;        /* also the candidate's */
    const char *files[2];    /* kernel files of its launches; a library call has none */
    clq_selection forced[2]; /* selections that force it */
} variants[] = {
    {"tile", {"product_tile", "product_blocks"}, {{"rows*", "tile"}, {"outer*", "tile"}}},
    {"local", {"product_local", "product_subgroup"}, {{"rows*", "local"}, {"outer*", "local"}}},
    {"clblast", {NULL, NULL}, {{"rows*", "clblast"}, {"outer*", "clblast"}}},
};
enum { VARIANTS = sizeof variants / sizeof variants[0], TILE = 0, LOCAL = 1, CLBLAST = 2 };

typedef struct options {
    clq_bench_shapes shapes;
    bool wanted[VARIANTS], only_chosen; /* only_chosen: for each shape, only the variant that Clique would use */
    bool halves;
    const char *precision_name;
    clq_matmul_precision precision;
} options;

typedef struct problem {
    const options *o;
    clq_bench_shape s;
    float *a, *b;          /* the factors as they are multiplied */
    bool rounds;           /* whether the variant may round the factors */
    void *a_data, *b_data; /* the factors in memory: a and b, or halves */
} problem;

typedef struct product {
    clq_bench_lab lab;
    clq_value a, b, c;
} product;

/* Adds the product to a new lab. variant: the one that is forced; VARIANTS: none, so Clique chooses. */
static clq_status open_product(clq_queue *queue, const problem *q, size_t variant, product *out) {
    const clq_bench_shape *s = &q->s;
    size_t bytes = q->o->halves ? sizeof(uint16_t) : sizeof(float);
    *out = (product){.a = CLQ_NO_VALUE};
    CLQ_TRY(clq_bench_lab_open(queue, 1, &out->lab));
    clq_list *list = out->lab.list;
    clq_selections forced = {.count = 0};
    if (variant < VARIANTS) forced = (clq_selections){.entries = variants[variant].forced, .count = 2};
    clq_list_set_selections(list, &forced);
    clq_list_set_precision(list, q->o->precision);
    out->a = clq_bench_lab_value(&out->lab, "A", s->m * s->k * bytes);
    out->b = clq_bench_lab_value(&out->lab, "B", s->k * s->n * bytes);
    out->c = clq_bench_lab_value(&out->lab, "C", s->m * s->n * bytes);
    clq_gemm_problem gemm = {
        .m = s->m, .n = s->n, .k = s->k, .transpose_a = s->transposed[0], .transpose_b = s->transposed[1]};
    const clq_value all[] = {out->a, out->b, out->c};
    for (size_t i = 0; i < 3; i++) clq_list_set_storage(list, all[i], q->o->halves ? CLQ_F16 : CLQ_F32);
    clq_gemm(list, &gemm, out->a, out->b, out->c);
    return clq_list_status(list);
}

static bool has_made(size_t variant, const char *file) {
    const char *const *files = variants[variant].files;
    if (!file) return !files[0];
    for (size_t i = 0; i < CLQ_COUNT_OF(variants[0].files); i++)
        if (files[i] && strcmp(files[i], file) == 0) return true;
    return false;
}

/* The index of the variant that Clique uses if none is forced. */
static clq_status chosen_variant(clq_queue *queue, const problem *q, size_t *out) {
    product p;
    clq_status status = open_product(queue, q, VARIANTS, &p);
    for (size_t i = 0; status == CLQ_OK && i < clq_list_launch_count(p.lab.list); i++) {
        clq_launch_info info;
        clq_list_launch_info(p.lab.list, i, &info);
        if (strcmp(info.label, "product") != 0) continue;
        for (size_t v = 0; v < VARIANTS; v++)
            if (has_made(v, info.file)) *out = v;
    }
    clq_bench_lab_release(&p.lab);
    return status;
}

/* Whether `got` is a possible result for the sum. The precision may round the factors, and the result may be stored as
 * a half. */
static bool is_sum(const problem *q, double got, double want, double magnitude) {
    static const double rounded[] = {
        [CLQ_MATMUL_HIGHEST] = 0, [CLQ_MATMUL_HIGH] = 0x1p-11, [CLQ_MATMUL_MEDIUM] = 0x1p-8};
    double factors = q->rounds ? rounded[q->o->precision] : 0;
    double more = 2 * factors * magnitude + (q->o->halves ? 0x1p-11 * fabs(want) + 0x1p-25 : 0);
    double apart = fmax(fabs(got - want) - more, 0);
    return clq_bench_sum_is(want + apart, want, q->s.k, magnitude) && got == got;
}

static float number_at(const problem *q, const void *numbers, size_t i) {
    return q->o->halves ? clq_half_to_float(((const uint16_t *)numbers)[i]) : ((const float *)numbers)[i];
}

static uint64_t count_wrong(const problem *q, const void *c) {
    size_t places[CLQ_BENCH_SAMPLES], samples = clq_bench_sampled(q->s.m * q->s.n, places);
    uint64_t wrong = 0;
    for (size_t i = 0; i < samples; i++) {
        size_t row = places[i] / q->s.n, column = places[i] % q->s.n;
        double sum = 0, magnitude = 0;
        for (size_t t = 0; t < q->s.k; t++) {
            const clq_bench_shape *s = &q->s;
            float a = q->a[s->transposed[0] ? t * s->m + row : row * s->k + t];
            float b = q->b[s->transposed[1] ? column * s->k + t : t * s->n + column];
            double term = (double)a * (double)b;
            sum += term;
            magnitude += fabs(term);
        }
        wrong += !is_sum(q, (double)number_at(q, c, places[i]), sum, magnitude);
    }
    return wrong;
}

static clq_status measure_product(const clq_bench_run *run, clq_queue *queue, const problem *q, size_t variant,
                                  clq_bench_times *times, uint64_t *wrong, json_t **answers) {
    product p;
    float *c = NULL;
    clq_status status;
    CLQ_TRY_OR(end, status, open_product(queue, q, variant, &p));
    CLQ_TRY_OR(end, status, clq_bench_lab_bind(&p.lab));
    CLQ_TRY_OR(end, status, clq_bench_lab_write(&p.lab, p.a, q->a_data));
    CLQ_TRY_OR(end, status, clq_bench_lab_write(&p.lab, p.b, q->b_data));
    CLQ_TRY_OR(end, status, clq_bench_lab_measure(run, &p.lab, times));
    CLQ_TRY_OR(end, status, clq_bench_lab_read(&p.lab, p.c, &c));
    *wrong = count_wrong(q, c);
end:
    *answers = status == CLQ_OK ? clq_bench_lab_selections(&p.lab) : json_null();
    clq_free(c);
    clq_bench_lab_release(&p.lab);
    return status;
}

static clq_status add(clq_bench_run *run, uint32_t device, const problem *q, size_t variant, bool chosen,
                      const clq_bench_times *times, uint64_t wrong, json_t *answers, double limit, const char *reason) {
    const clq_bench_shape *s = &q->s;
    double rate = 2.0 * (double)s->m * (double)s->n * (double)s->k / times->p50_us * 1e-3;
    clq_bench_row row = clq_bench_row_of(run, device);
    clq_bench_put_count(&row, "m", s->m);
    clq_bench_put_count(&row, "n", s->n);
    clq_bench_put_count(&row, "k", s->k);
    clq_bench_put_text(&row, "transpose", clq_bench_shape_transpose(s));
    clq_bench_put_text(&row, "dtype", clq_dtype_name(q->o->halves ? CLQ_F16 : CLQ_F32));
    clq_bench_put_text(&row, "precision", q->o->precision_name);
    clq_bench_put_text(&row, "variant", variants[variant].name);
    clq_bench_put(&row, "chosen", json_boolean(chosen));
    clq_bench_put_number(&row, "us", times->p50_us);
    clq_bench_put_times(&row, "time_us", times);
    clq_bench_put_number(&row, "gflops", rate);
    clq_bench_put_limit(&row, "gflops", rate, limit);
    clq_bench_put_wrong(&row, times, wrong);
    clq_bench_put(&row, "answers", answers);
    clq_bench_put_reason(&row, reason);
    return clq_bench_add(run, &row);
}

/* Makes random numbers; if matrices are halves, rounded to halves. data: the numbers themselves, or a copy as
 * halves. */
static clq_status make_numbers(const options *o, size_t count, uint64_t seed, float **numbers, void **data) {
    *numbers = clq_bench_floats(count, seed);
    if (!*numbers) return CLQ_ERROR_MEMORY;
    *data = *numbers;
    if (!o->halves) return CLQ_OK;
    uint16_t *halves = clq_alloc(count, sizeof *halves);
    *data = halves;
    if (!halves) return CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++) {
        halves[i] = clq_half_of_float((*numbers)[i]);
        (*numbers)[i] = clq_half_to_float(halves[i]);
    }
    return CLQ_OK;
}

static void release_problem(problem *q) {
    if (q->o->halves) {
        clq_free(q->a_data);
        clq_free(q->b_data);
    }
    clq_free(q->a);
    clq_free(q->b);
}

/* CLBlast supports only floats. */
static bool is_wanted(const options *o, size_t variant, size_t chosen) {
    return o->only_chosen ? variant == chosen : o->wanted[variant] && (!o->halves || variant != CLBLAST);
}

static clq_status measure_problem(clq_bench_run *run, uint32_t device, clq_queue *queue, problem *q, double limit) {
    size_t chosen = VARIANTS;
    bool units = clq_device_matrix_unit(clq_queue_device(queue)) != CLQ_UNIT_NONE;
    clq_status status = chosen_variant(queue, q, &chosen);
    for (size_t v = 0; v < VARIANTS && status == CLQ_OK; v++) {
        if (!is_wanted(q->o, v, chosen)) continue;
        q->rounds = units && v == LOCAL && !q->o->halves;
        clq_bench_times times = clq_bench_no_times;
        uint64_t wrong = 0;
        json_t *answers;
        /* The chosen variant is not forced: it then runs as Clique would run it, also by results that the tuner
         * kept. */
        size_t variant = v == chosen ? (size_t)VARIANTS : v;
        status = measure_product(run, queue, q, variant, &times, &wrong, &answers);
        if (status != CLQ_OK && !clq_bench_is_local(status)) {
            json_decref(answers);
            break;
        }
        if (status != CLQ_OK) times = clq_bench_no_times;
        status = add(run, device, q, v, v == chosen, &times, wrong, answers, limit,
                     status == CLQ_OK ? NULL : clq_error_detail());
    }
    return status;
}

static clq_status measure_shape(clq_bench_run *run, uint32_t device, clq_queue *queue, const clq_bench_shape *s,
                                double limit) {
    problem q = {.o = run->context, .s = *s};
    clq_status status = make_numbers(q.o, s->m * s->k, 1, &q.a, &q.a_data);
    if (status == CLQ_OK) status = make_numbers(q.o, s->k * s->n, 2, &q.b, &q.b_data);
    if (status == CLQ_OK) status = measure_problem(run, device, queue, &q, limit);
    release_problem(&q);
    return status;
}

static clq_status measure_device(clq_bench_run *run, uint32_t device, clq_queue *queue) {
    const options *o = run->context;
    double limit;
    CLQ_TRY(clq_bench_peak(queue, &limit));
    for (size_t i = 0; i < o->shapes.count; i++) CLQ_TRY(measure_shape(run, device, queue, &o->shapes.items[i], limit));
    return CLQ_OK;
}

static clq_status check(const void *context) {
    const options *o = context;
    const bool some = o->wanted[TILE] || o->wanted[LOCAL];
    if (!o->halves || o->only_chosen || some) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "-d f16 is for --variants tile, local or chosen: clblast takes f32");
}

static clq_status run_gemm(clq_bench_run *run, void *context) {
    const options *o = context;
    size_t rows = o->only_chosen ? 1 : 0;
    for (size_t v = 0; v < VARIANTS; v++) rows += !o->only_chosen && is_wanted(o, v, VARIANTS);
    run->expected = rows * o->shapes.count * run->devices.count;
    return clq_bench_each_device(run, measure_device);
}

/* ---- options ---- */

static clq_status refuse_variant(const char *text, const char *at, size_t length) {
    clq_nearest nearest = {.word = at, .length = length};
    for (size_t v = 0; v < VARIANTS; v++) clq_nearest_try(&nearest, variants[v].name);
    clq_nearest_try(&nearest, "chosen");
    return clq_nearest_fail(&nearest, "--variants '%s': expected some of tile, local and clblast, or chosen alone",
                            text);
}

static clq_status set_variants(options *o, const char *text) {
    memset(o->wanted, 0, sizeof o->wanted);
    o->only_chosen = strcmp(text, "chosen") == 0;
    if (o->only_chosen) return CLQ_OK;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ","), v = 0;
        while (v < VARIANTS && (strlen(variants[v].name) != length || strncmp(variants[v].name, at, length) != 0)) v++;
        if (v == VARIANTS) return refuse_variant(text, at, length);
        o->wanted[v] = true;
        at += length;
        if (*at == '\0') return CLQ_OK;
    }
}

static clq_status set_option(void *context, const clq_argument *option, const char *text) {
    static const char *const types[] = {"f32", "f16", NULL};
    options *o = context;
    size_t type;
    switch (option->key) {
    case KEY_SIZES: return clq_bench_shapes_set(&o->shapes, "--sizes", text);
    case KEY_VARIANTS: return set_variants(o, text);
    case 'd':
        CLQ_TRY(clq_find_word("-d", text, types, &type));
        o->halves = type == 1;
        return CLQ_OK;
    default: o->precision_name = text; return clq_matmul_precision_parse(text, &o->precision);
    }
}

clq_status clq_bench_gemm(int argc, char **argv) {
    static const clq_argument table[] = {
        {"sizes", KEY_SIZES, "MxNxK,…",
         .help = "shapes: C (m, n) = A (m, k) B (k, n); with :tn, :nt or :tt behind, A, B or both lie transposed"},
        {"variants", KEY_VARIANTS, "A,B|chosen",
         .help = "of tile, local and clblast (default all); chosen: only what Clique would use"},
        {NULL, 'd', "f32|f16", .help = "as the matrices lie in memory (default f32); f16 by tile and local alone"},
        {"matmul-precision", KEY_PRECISION, "highest|high|medium", .help = "as clique train's (default highest)"},
        {0}};
    static const clq_bench_column columns[] = {{"label", "device", -12, 0},
                                               {"m", "m", 6, 0},
                                               {"n", "n", 6, 0},
                                               {"k", "k", 6, 0},
                                               {"transpose", "AB", -2, 0},
                                               {"dtype", "type", -4, 0},
                                               {"variant", "variant", -8, 0},
                                               {"chosen", "chosen", -6, 0},
                                               {"time_us.min", "us min", 11, 2},
                                               {"time_us.p50", "us p50", 11, 2},
                                               {"time_us.p99", "us p99", 11, 2},
                                               {"gflops", "GFLOP/s", 9, 1},
                                               {"limit_gflops", "limit", 9, 1},
                                               {"pct_of_limit", "%", 5, 0},
                                               {"wrong", "wrong", 6, 0},
                                               {"answers", "answers", -28, 0},
                                               {"reason", "reason", -1, 0},
                                               {0}};
    static const clq_bench_spec spec = {.name = "gemm",
                                        .about = "Matrix products, by each variant of kernels.",
                                        .options = table,
                                        .set = set_option,
                                        .check = check,
                                        .run = run_gemm,
                                        .iterations = 20,
                                        .iterations_most = 1000000,
                                        .warm_ups = 2,
                                        .columns = columns};
    options o = {.precision_name = "highest"};
    CLQ_TRY(
        clq_bench_shapes_set(&o.shapes, "--sizes", "256x256x256,512x512x512,1024x1024x1024,64x128x784,512x128x784"));
    CLQ_TRY(set_variants(&o, "tile,local,clblast"));
    return clq_bench_main(&spec, &o, argc, argv);
}
