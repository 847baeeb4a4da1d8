/* clique bench conv: convolution layers, forward and both gradients, as Clique runs them. Operations are counted as for
 * the plain sum over all taps, padding included. Sampled elements are verified against sums in double. The limit is
 * that of gemm. */
#include "lab.h"

#include <math.h>
#include <string.h>

enum { KEY_LAYERS = CLQ_BENCH_KEY_OWN, KEY_VARIANT, LAYERS_MOST = 64, NAME_BYTES = 64, SIDE_MOST = 1 << 14 };

typedef struct layer {
    char name[NAME_BYTES];
    uint32_t batch;
    clq_conv2d_problem p;
} layer;

typedef struct options {
    layer layers[LAYERS_MOST];
    size_t count;
    size_t variant;
} options;

enum { AUTO, DIRECT, WINOGRAD, WIDE, STRIDED };
static const char *const variant_names[] = {
    [AUTO] = "auto", [DIRECT] = "direct", [WINOGRAD] = "winograd", [WIDE] = "wide", [STRIDED] = "strided", NULL};

typedef enum pass { FORWARD, DATA_GRADIENT, WEIGHT_GRADIENT, PASSES } pass;
static const char *const pass_names[PASSES] = {"forward", "data gradient", "weight gradient"};

typedef enum array { X, W, Z, ARRAYS } array; /* input, weights, output; or their gradients */
static const array results[PASSES] = {Z, X, W};

typedef struct problem {
    const layer *l;
    size_t counts[ARRAYS];
    float *data[ARRAYS];
} problem;

/* ---- the plain sums ---- */

typedef struct sum {
    double value, magnitude;
    size_t terms;
} sum;

static void add_term(sum *s, float a, float b) {
    double term = (double)a * (double)b;
    s->value += term;
    s->magnitude += fabs(term);
    s->terms++;
}

/* The input index that output index o reads through a tap. False if it lies in the padding. */
static bool meets(size_t o, size_t tap, size_t stride, size_t pad, size_t in, size_t *out) {
    size_t at = o * stride + tap;
    if (at < pad || at - pad >= in) return false;
    *out = at - pad;
    return true;
}

static size_t x_at(const layer *l, size_t n, size_t y, size_t x, size_t c) {
    return ((n * l->p.in_h + y) * l->p.in_w + x) * l->p.in_c + c;
}
static size_t w_at(const layer *l, size_t ty, size_t tx, size_t c, size_t o) {
    return ((ty * l->p.kernel_w + tx) * l->p.in_c + c) * l->p.out_c + o;
}
static size_t z_at(const layer *l, size_t n, size_t y, size_t x, size_t o) {
    return ((n * l->p.out_h + y) * l->p.out_w + x) * l->p.out_c + o;
}

/* Splits `index` into coordinates of an array with these sides, the last one varying fastest. */
static void split_index(size_t index, const size_t sides[4], size_t out[4]) {
    for (size_t i = 4; i-- > 0;) {
        out[i] = index % sides[i];
        index /= sides[i];
    }
}

static sum forward_sum(const problem *q, size_t index) {
    const layer *l = q->l;
    const clq_conv2d_problem *p = &l->p;
    size_t at[4], y, x;
    split_index(index, (size_t[]){l->batch, p->out_h, p->out_w, p->out_c}, at);
    sum s = {0, 0, 0};
    for (size_t ty = 0; ty < p->kernel_h; ty++)
        for (size_t tx = 0; tx < p->kernel_w; tx++)
            if (meets(at[1], ty, p->stride_h, p->pad_top, p->in_h, &y) &&
                meets(at[2], tx, p->stride_w, p->pad_left, p->in_w, &x))
                for (size_t c = 0; c < p->in_c; c++)
                    add_term(&s, q->data[X][x_at(l, at[0], y, x, c)], q->data[W][w_at(l, ty, tx, c, at[3])]);
    return s;
}

/* Along each axis, sums over all outputs and taps that read the input at this place. */
static sum data_gradient_sum(const problem *q, size_t index) {
    const layer *l = q->l;
    const clq_conv2d_problem *p = &l->p;
    size_t at[4], y, x;
    split_index(index, (size_t[]){l->batch, p->in_h, p->in_w, p->in_c}, at);
    sum s = {0, 0, 0};
    for (size_t ty = 0; ty < p->kernel_h; ty++)
        for (size_t oy = 0; oy < p->out_h; oy++) {
            if (!meets(oy, ty, p->stride_h, p->pad_top, p->in_h, &y) || y != at[1]) continue;
            for (size_t tx = 0; tx < p->kernel_w; tx++)
                for (size_t ox = 0; ox < p->out_w; ox++) {
                    if (!meets(ox, tx, p->stride_w, p->pad_left, p->in_w, &x) || x != at[2]) continue;
                    for (size_t o = 0; o < p->out_c; o++)
                        add_term(&s, q->data[Z][z_at(l, at[0], oy, ox, o)], q->data[W][w_at(l, ty, tx, at[3], o)]);
                }
        }
    return s;
}

static sum weight_gradient_sum(const problem *q, size_t index) {
    const layer *l = q->l;
    const clq_conv2d_problem *p = &l->p;
    size_t at[4], y, x;
    split_index(index, (size_t[]){p->kernel_h, p->kernel_w, p->in_c, p->out_c}, at);
    sum s = {0, 0, 0};
    for (size_t n = 0; n < l->batch; n++)
        for (size_t oy = 0; oy < p->out_h; oy++)
            for (size_t ox = 0; ox < p->out_w; ox++)
                if (meets(oy, at[0], p->stride_h, p->pad_top, p->in_h, &y) &&
                    meets(ox, at[1], p->stride_w, p->pad_left, p->in_w, &x))
                    add_term(&s, q->data[X][x_at(l, n, y, x, at[2])], q->data[Z][z_at(l, n, oy, ox, at[3])]);
    return s;
}

static uint64_t count_wrong(const problem *q, pass which, const float *got) {
    sum (*const sums[PASSES])(const problem *, size_t) = {forward_sum, data_gradient_sum, weight_gradient_sum};
    size_t places[CLQ_BENCH_SAMPLES], samples = clq_bench_sampled(q->counts[results[which]], places);
    uint64_t wrong = 0;
    for (size_t i = 0; i < samples; i++) {
        sum s = sums[which](q, places[i]);
        wrong += !clq_bench_sum_is((double)got[places[i]], s.value, s.terms, s.magnitude);
    }
    return wrong;
}

/* ---- on the device ---- */

typedef struct measured {
    clq_bench_times times;
    const char *variant; /* the variant that ran; "": not known */
    uint64_t wrong;
    json_t *answers;
} measured;

/* The variant that makes the list's result, according to its last launch. */
static const char *variant_of(const clq_list *list) {
    clq_launch_info info;
    clq_list_launch_info(list, clq_list_launch_count(list) - 1, &info);
    const char *name = variant_names[WINOGRAD]; /* the Winograd kernels' file names begin with it, in all families */
    if (!info.file || strncmp(info.file, name, strlen(name)) != 0) return variant_names[DIRECT];
    const bool strided = strstr(info.options, "-DSTRIDE=2") || strstr(info.options, "-DSPREAD");
    return variant_names[strided ? STRIDED : strstr(info.options, "-DSIDE=4") ? WIDE : WINOGRAD];
}

static clq_status measure_in(const clq_bench_run *run, const problem *q, pass which, clq_bench_lab *lab,
                             measured *out) {
    static const char *const names[ARRAYS] = {"input", "weights", "output"};
    static const clq_selection selections[] = {[DIRECT] = {"conv *", "direct"},
                                               [WINOGRAD] = {"conv *", "winograd"},
                                               [WIDE] = {"conv *", "wide winograd"},
                                               [STRIDED] = {"conv *", "strided winograd"}};
    clq_value values[ARRAYS];
    for (int a = 0; a < ARRAYS; a++) values[a] = clq_bench_lab_value(lab, names[a], q->counts[a] * sizeof(float));
    size_t variant = ((const options *)run->context)->variant;
    const clq_selections forced = {.entries = &selections[variant], .count = variant != AUTO};
    clq_list_set_selections(lab->list, &forced);
    if (which == FORWARD)
        clq_conv2d_forward(lab->list, &q->l->p, values[X], values[W], CLQ_NO_VALUE, values[Z]);
    else
        clq_conv2d_backward(lab->list, &q->l->p, values[X], values[W], values[Z],
                            which == DATA_GRADIENT ? values[X] : CLQ_NO_VALUE,
                            which == WEIGHT_GRADIENT ? values[W] : CLQ_NO_VALUE);
    CLQ_TRY(clq_bench_lab_bind(lab));
    out->variant = variant_of(lab->list);
    for (int a = 0; a < ARRAYS; a++)
        if ((array)a != results[which]) CLQ_TRY(clq_bench_lab_write(lab, values[a], q->data[a]));
    CLQ_TRY(clq_bench_lab_measure(run, lab, &out->times));
    float *got;
    CLQ_TRY(clq_bench_lab_read(lab, values[results[which]], &got));
    out->wrong = count_wrong(q, which, got);
    clq_free(got);
    return CLQ_OK;
}

static clq_status measure_pass(const clq_bench_run *run, clq_queue *queue, const problem *q, pass which,
                               measured *out) {
    clq_bench_lab lab;
    clq_status status = clq_bench_lab_open(queue, q->l->batch, &lab);
    if (status == CLQ_OK) status = measure_in(run, q, which, &lab, out);
    out->answers = status == CLQ_OK ? clq_bench_lab_selections(&lab) : json_null();
    clq_bench_lab_release(&lab);
    return status;
}

static clq_status add(clq_bench_run *run, uint32_t device, const layer *l, pass which, const measured *m, double limit,
                      const char *reason) {
    const clq_conv2d_problem *p = &l->p;
    double sums = (double)l->batch * (double)(p->out_h * p->out_w * p->out_c);
    double rate = 2 * sums * (double)(p->kernel_h * p->kernel_w * p->in_c) / m->times.p50_us * 1e-3;
    clq_bench_row row = clq_bench_row_of(run, device);
    clq_bench_put_text(&row, "layer", l->name);
    clq_bench_put_text(&row, "what", pass_names[which]);
    clq_bench_put_text(&row, "variant", m->variant);
    clq_bench_put_times(&row, "time_us", &m->times);
    clq_bench_put_number(&row, "gflops", rate);
    clq_bench_put_limit(&row, "gflops", rate, limit);
    clq_bench_put_wrong(&row, &m->times, m->wrong);
    clq_bench_put(&row, "answers", m->answers);
    clq_bench_put_reason(&row, reason);
    return clq_bench_add(run, &row);
}

static clq_status measure_layer(clq_bench_run *run, uint32_t device, clq_queue *queue, const layer *l, double limit) {
    const clq_conv2d_problem *p = &l->p;
    problem q = {.l = l,
                 .counts = {l->batch * p->in_h * p->in_w * p->in_c, p->kernel_h * p->kernel_w * p->in_c * p->out_c,
                            l->batch * p->out_h * p->out_w * p->out_c}};
    clq_status status = CLQ_OK;
    for (int a = 0; a < ARRAYS && status == CLQ_OK; a++)
        if (!(q.data[a] = clq_bench_floats(q.counts[a], (uint64_t)a))) status = CLQ_ERROR_MEMORY;
    for (int i = 0; i < PASSES && status == CLQ_OK; i++) {
        measured m = {.times = clq_bench_no_times, .variant = ""};
        status = measure_pass(run, queue, &q, (pass)i, &m);
        if (status != CLQ_OK && !clq_bench_is_local(status)) {
            json_decref(m.answers);
            break;
        }
        if (status != CLQ_OK) m.times = clq_bench_no_times;
        status = add(run, device, l, (pass)i, &m, limit, status == CLQ_OK ? NULL : clq_error_detail());
    }
    for (int a = 0; a < ARRAYS; a++) clq_free(q.data[a]);
    return status;
}

static clq_status measure_device(clq_bench_run *run, uint32_t device, clq_queue *queue) {
    const options *o = run->context;
    double limit;
    CLQ_TRY(clq_bench_peak(queue, &limit));
    for (size_t i = 0; i < o->count; i++) CLQ_TRY(measure_layer(run, device, queue, &o->layers[i], limit));
    return CLQ_OK;
}

static clq_status run_conv(clq_bench_run *run, void *context) {
    run->expected = ((const options *)context)->count * PASSES * run->devices.count;
    return clq_bench_each_device(run, measure_device);
}

/* ---- options ---- */

static size_t same_pad(size_t in, size_t out, size_t kernel, size_t stride) {
    size_t reach = (out - 1) * stride + kernel;
    return reach > in ? (reach - in) / 2 : 0;
}

/* Sets output size and padding as Keras does for "same" and "valid". False if the kernel is larger than the input. */
static bool lay_out(clq_conv2d_problem *p, bool same) {
    if (!same && (p->kernel_h > p->in_h || p->kernel_w > p->in_w)) return false;
    p->out_h = same ? clq_ceil_div(p->in_h, p->stride_h) : (p->in_h - p->kernel_h) / p->stride_h + 1;
    p->out_w = same ? clq_ceil_div(p->in_w, p->stride_w) : (p->in_w - p->kernel_w) / p->stride_w + 1;
    p->pad_top = same ? same_pad(p->in_h, p->out_h, p->kernel_h, p->stride_h) : 0;
    p->pad_left = same ? same_pad(p->in_w, p->out_w, p->kernel_w, p->stride_w) : 0;
    return true;
}

/* BATCHxHxWxC:KHxKWxOUT[/STRIDE][+same] */
static bool parse_layer(const char *text, size_t length, layer *out) {
    if (length == 0 || length >= sizeof out->name) return false;
    *out = (layer){.name = ""};
    memcpy(out->name, text, length);
    unsigned n[7], stride = 1;
    int end = 0, more = 0;
    if (sscanf(out->name, "%5ux%5ux%5ux%5u:%5ux%5ux%5u%n", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &end) != 7)
        return false;
    const char *at = out->name + end;
    if (*at == '/' && sscanf(at, "/%5u%n", &stride, &more) != 1) return false;
    at += more;
    bool same = strcmp(at, "+same") == 0, small = stride >= 1 && stride <= SIDE_MOST;
    for (size_t i = 0; i < CLQ_COUNT_OF(n); i++) small = small && n[i] >= 1 && n[i] <= SIDE_MOST;
    if (!small || (*at && !same)) return false;
    out->batch = n[0];
    out->p = (clq_conv2d_problem){.in_h = n[1],
                                  .in_w = n[2],
                                  .in_c = n[3],
                                  .out_c = n[6],
                                  .kernel_h = n[4],
                                  .kernel_w = n[5],
                                  .stride_h = stride,
                                  .stride_w = stride,
                                  .dilation_h = 1,
                                  .dilation_w = 1,
                                  .activation = CLQ_ACTIVATION_LINEAR};
    return lay_out(&out->p, same);
}

static clq_status set_variant(options *o, const char *text) {
    return clq_find_word("--variant", text, variant_names, &o->variant);
}

static clq_status set_layers(options *o, const char *text) {
    o->count = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        if (o->count == LAYERS_MOST || !parse_layer(at, length, &o->layers[o->count++]))
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "--layers '%s': expected up to %d layers as 64x28x28x1:3x3x32 (batch, height, width, "
                            "channels: kernel, filters), each with /STRIDE or +same behind if wished",
                            text, (int)LAYERS_MOST);
        at += length;
        if (*at == '\0') return CLQ_OK;
    }
}

static clq_status set(void *context, const clq_argument *option, const char *text) {
    return option->key == KEY_VARIANT ? set_variant(context, text) : set_layers(context, text);
}

clq_status clq_bench_conv(int argc, char **argv) {
    static const clq_argument table[] = {
        {"layers", KEY_LAYERS, "LAYER,…", .help = "as 64x28x28x1:3x3x32 or 16x56x56x64:3x3x128/2+same"},
        {"variant", KEY_VARIANT, "NAME", .help = "auto, direct, winograd, wide or strided (default auto)"},
        {0}};
    static const clq_bench_column columns[] = {{"label", "device", -12, 0},      {"layer", "layer", -28, 0},
                                               {"what", "what", -15, 0},         {"variant", "variant", -8, 0},
                                               {"time_us.min", "us min", 10, 1}, {"time_us.p50", "us p50", 10, 1},
                                               {"time_us.p99", "us p99", 10, 1}, {"gflops", "GFLOP/s", 9, 1},
                                               {"limit_gflops", "limit", 9, 1},  {"pct_of_limit", "%", 5, 0},
                                               {"wrong", "wrong", 6, 0},         {"answers", "answers", -28, 0},
                                               {"reason", "reason", -1, 0},      {0}};
    static const clq_bench_spec spec = {.name = "conv",
                                        .about = "Convolution layers: forward, data gradient, weight gradient.",
                                        .options = table,
                                        .set = set,
                                        .run = run_conv,
                                        .iterations = 20,
                                        .iterations_most = 1000000,
                                        .warm_ups = 2,
                                        .columns = columns};
    options o = {.variant = AUTO};
    CLQ_TRY(set_layers(&o, "64x28x28x1:3x3x32,64x13x13x32:3x3x64,8x56x56x64:3x3x64+same,8x56x56x64:3x3x128/2+same,"
                           "8x28x28x128:1x1x256"));
    return clq_bench_main(&spec, &o, argc, argv);
}
