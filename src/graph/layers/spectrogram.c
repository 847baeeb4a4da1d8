/* STFTSpectrogram and MelSpectrogram: short-time Fourier transforms (Allen and Rabiner, 1977), computed as convolutions
 * whose kernels are windows times waves. The kernels of STFTSpectrogram are variables, which are trained unless the
 * layer is frozen. The Mel scale is that of the HTK book: 2595 log10(1 + f / 700). */
#include "graph/layers/layer.h"

#include <float.h>
#include <math.h>

#define PI 3.14159265358979323846

enum { HANN, HAMMING, BLACKMAN };
static const char *const windows[] = {"hann", "hamming", "blackman", NULL}, *const mel_windows[] = {"hann", "hamming",
                                                                                                    NULL};
/* Place i of a window of n places. A periodic window begins anew behind its end. */
static double window_at(int window, bool periodic, size_t n, size_t i) {
    static const double terms[][3] = {
        [HANN] = {0.5, 0.5, 0}, [HAMMING] = {0.54, 0.46, 0}, [BLACKMAN] = {0.42, 0.5, 0.08}};
    if (n == 1) return 1;
    const double angle = 2 * PI * (double)i / (double)(periodic ? n : n - 1);
    return terms[window][0] - terms[window][1] * cos(angle) + terms[window][2] * cos(2 * angle);
}
/* Place t of wave f. The `bins` waves have 0 to bins - 1 periods in 2 (bins - 1) places. */
static double wave_at(bool imaginary, size_t t, size_t f, size_t bins) {
    const size_t all = CLQ_MAX(2 * (bins - 1), (size_t)1);
    const double angle = -2 * PI * (double)(t * f % all) / (double)all;
    return imaginary ? sin(angle) : cos(angle);
}

/* ---- STFTSpectrogram ---- */

enum { LOG, MAGNITUDE, POWER, REAL, IMAGINARY, BOTH };
static const char *const modes[] = {"log", "magnitude", "psd", "real", "imag", "stft", NULL};
enum { DENSITY, SPECTRUM };
static const char *const scalings[] = {"density", "spectrum", NULL};
enum { REAL_KERNEL, IMAGINARY_KERNEL };
static const double least_number = 1e-7; /* Keras's epsilon */

typedef struct stft_config {
    int mode, window, scaling;
    size_t length, step, fft; /* step 0: half of length; fft 0: the least power of 2 that is at least length */
    bool periodic, apart;     /* apart: channels have an axis of their own */
    clq_padding padding;
} stft_config;
#define MEMBER(key, type, member) CLQ_LAYER_ATTRIBUTE(key, type, stft_config, member)
static const clq_attribute attributes[] = {
    {MEMBER("mode", CLQ_ATTRIBUTE_CHOICE, mode), .words = modes},
    {MEMBER("frame_length", CLQ_ATTRIBUTE_SIZES, length), .fallback = 256},
    {MEMBER("frame_step", CLQ_ATTRIBUTE_SIZES, step)},
    {MEMBER("fft_length", CLQ_ATTRIBUTE_SIZES, fft)},
    {MEMBER("window", CLQ_ATTRIBUTE_CHOICE, window), .words = windows, .not_null = true},
    {MEMBER("periodic", CLQ_ATTRIBUTE_FLAG, periodic)},
    {MEMBER("scaling", CLQ_ATTRIBUTE_CHOICE, scaling), .words = scalings, .not_null = true},
    {MEMBER("padding", CLQ_ATTRIBUTE_PADDING, padding)},
    {MEMBER("expand_dims", CLQ_ATTRIBUTE_FLAG, apart)},
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
};

typedef struct frames {
    clq_window window; /* along the steps */
    size_t channels, bins, width;
} frames;

static const stft_config *config_of(const clq_layer *layer) { return layer->config; }

static clq_status find_frames(const stft_config *config, const clq_shape *x, frames *out) {
    size_t fft = 1, elements;
    CLQ_TRY(clq_layer_check_rank(x, 1));
    while (fft < config->length) fft *= 2;
    fft = clq_or_default(config->fft, fft);
    *out = (frames){.window = {.axis = "length",
                               .in = x->dims[0],
                               .size = config->length,
                               .stride = clq_or_default(config->step, config->length / 2),
                               .dilation = 1},
                    .channels = x->dims[1],
                    .bins = fft / 2 + 1};
    out->width = out->bins * (config->mode == BOTH ? 2 : 1);
    if (out->window.stride == 0 || out->window.stride > config->length)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a frame_step of %zu should be from 1 to its frame_length, %zu",
                        out->window.stride, config->length);
    if (fft < config->length)
        return clq_fail(CLQ_ERROR_ARGUMENT, "an fft_length of %zu should be at least its frame_length, %zu", fft,
                        config->length);
    CLQ_TRY(clq_window_place(&out->window, config->padding));
    const clq_shape kernel = CLQ_SHAPE(config->length, out->bins);
    return clq_shape_elements(&kernel, &elements);
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    frames f;
    size_t elements;
    CLQ_TRY(find_frames(config_of(layer), &clq_model_input_of(model, y, 0)->shape, &f));
    const clq_shape all = CLQ_SHAPE(f.window.out, f.width, f.channels);
    CLQ_TRY(clq_shape_elements(&all, &elements));
    y->shape = config_of(layer)->apart ? all : CLQ_SHAPE(f.window.out, f.channels * f.width);
    return CLQ_OK;
}

/* What `fill` has to know of the layer, packed into one number. */
static unsigned pack(const stft_config *config, bool imaginary) {
    return (unsigned)imaginary | (unsigned)config->periodic << 1 | (unsigned)config->scaling << 2 |
           (unsigned)config->window << 3;
}
static void fill(const clq_variable *variable, float *out) {
    const unsigned by = variable->fill_by;
    const size_t length = variable->shape.dims[0], bins = variable->shape.dims[2];
    const bool spectrum = (by >> 2 & 1u) == SPECTRUM, periodic = by & 2u;
    const int window = (int)(by >> 3);
    double scale = 0;
    for (size_t t = 0; t < length; t++) {
        const double w = window_at(window, periodic, length, t);
        scale += spectrum ? fabs(w) : w * w;
    }
    if (!spectrum) scale = sqrt(scale);
    for (size_t i = 0; i < length * bins; i++)
        out[i] =
            (float)(wave_at(by & 1u, i / bins, i % bins, bins) * window_at(window, periodic, length, i / bins) / scale);
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const stft_config *config = config_of(layer);
    frames f;
    CLQ_TRY(find_frames(config, &clq_model_input_of(model, y, 0)->shape, &f));
    for (unsigned i = 0; i < 2; i++) {
        clq_variable_kind kind = clq_variable_kernel;
        kind.what = i == IMAGINARY_KERNEL ? "imag_kernel" : "real_kernel";
        kind.fill = fill;
        kind.fill_by = pack(config, i == IMAGINARY_KERNEL);
        if (config->mode == (i == REAL_KERNEL ? IMAGINARY : REAL)) continue;
        CLQ_TRY(clq_model_declare_variable(model, layer, i, CLQ_SHAPE(config->length, 1, f.bins), &kind));
    }
    return CLQ_OK;
}

/* Convolves rows of steps, each of which is a row of an image with one channel: (rows, frames, bins). */
static clq_id convolve(const clq_expansion *e, const clq_parts *parts, const clq_window *window, size_t rows,
                       size_t bins, clq_id x, clq_id kernel) {
    const clq_conv2d_problem problem = {.in_h = rows,
                                        .in_w = window->in,
                                        .in_c = 1,
                                        .out_h = rows,
                                        .out_w = window->out,
                                        .out_c = bins,
                                        .kernel_h = 1,
                                        .kernel_w = window->size,
                                        .stride_h = 1,
                                        .stride_w = window->stride,
                                        .dilation_h = 1,
                                        .dilation_w = 1,
                                        .pad_left = window->pad};
    clq_node node = clq_expand_convolution(e, &problem, 1);
    node.inputs[0] = x;
    node.inputs[1] = kernel;
    return kernel ? clq_part_add(parts, node, CLQ_SHAPE(rows, window->out, bins)) : 0;
}

/* One instruction of a register and a number, and one of a register alone. */
static unsigned with_number(clq_element_program *p, clq_element_op op, unsigned a, double number) {
    const unsigned b = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = number});
    return clq_element_do(p, (clq_instruction){.op = op, .a = a, .b = b});
}
static unsigned apply(clq_element_program *p, clq_element_op op, unsigned a) {
    return clq_element_do(p, (clq_instruction){.op = op, .a = a});
}

/* Computes re^2 + im^2, of this shape, and then what `finish` makes of it. */
typedef unsigned (*finishing)(clq_element_program *p, const void *config, unsigned power);
static clq_id combine(const clq_parts *parts, clq_id re, clq_id im, clq_shape shape, finishing finish,
                      const void *config) {
    clq_node node = clq_part_node(parts, &clq_op_elementwise, CLQ_IDS(re, im));
    clq_element_program *p = &node.attributes.program;
    const unsigned a = apply(p, CLQ_ELEMENT_SQUARE, clq_element_take(p, clq_each_element));
    const unsigned b = apply(p, CLQ_ELEMENT_SQUARE, clq_element_take(p, clq_each_element));
    p->outputs[p->output_count++].from =
        finish(p, config, clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = a, .b = b}));
    return re && im ? clq_part_add(parts, node, shape) : 0;
}
static unsigned finish_stft(clq_element_program *p, const void *config, unsigned power) {
    const int mode = ((const stft_config *)config)->mode;
    if (mode == POWER) return power;
    power = apply(p, CLQ_ELEMENT_SQRT, with_number(p, CLQ_ELEMENT_MAXIMUM, power, least_number));
    if (mode == MAGNITUDE) return power;
    return apply(p, CLQ_ELEMENT_LOG, with_number(p, CLQ_ELEMENT_MAXIMUM, power, least_number));
}

/* Doubles the power of all waves but the first and the last, because each stands for its conjugate, too. */
static clq_id double_inner(clq_expansion *e, const clq_parts *parts, size_t bins, clq_shape shape, clq_id power) {
    float *factors = clq_alloc(bins, sizeof *factors);
    if (!factors) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < bins; i++) factors[i] = i == 0 || i + 1 == bins ? 1 : 2;
    const clq_id known = clq_graph_add_constant(e->graph, "factors", &CLQ_SHAPE(bins), bins, factors);
    clq_free(factors);
    return known && power ? clq_part_by_channel(parts, CLQ_ELEMENT_MULTIPLY, power, known, shape) : 0;
}

/* The transform of each channel: (channels, frames, width). */
static clq_id transform(clq_expansion *e, const clq_parts *parts, const frames *f, clq_id x) {
    const stft_config *config = config_of(e->layer);
    const clq_shape all = CLQ_SHAPE(f->channels, f->window.out, f->bins);
    clq_id part[2] = {0, 0};
    for (unsigned i = 0; i < 2; i++)
        if (config->mode != (i == REAL_KERNEL ? IMAGINARY : REAL))
            part[i] = convolve(e, parts, &f->window, f->channels, f->bins, x, clq_expand_weight(e, i));
    if (config->mode == REAL || config->mode == IMAGINARY) return part[config->mode == IMAGINARY];
    if (config->mode == BOTH)
        return part[0] && part[1] ? clq_part_side_by_side(parts, part, (const size_t[]){f->bins, f->bins}, 2,
                                                          f->channels * f->window.out)
                                  : 0;
    const clq_id made = combine(parts, part[0], part[1], all, finish_stft, config);
    return config->mode == POWER ? double_inner(e, parts, f->bins, all, made) : made;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    frames f;
    clq_node of;
    (void)find_frames(config_of(e->layer), in, &f); /* as it was inferred */
    const clq_parts parts = clq_expand_parts(e, &of);
    clq_arrangement a = clq_arrangement_of(2, in->dims);
    clq_node turn = clq_part_node(&parts, &clq_op_arrange, CLQ_IDS(x[0]));
    turn.attributes.arrangement = (clq_arrangement){.rank = 2, .axes = {a.axes[1], a.axes[0]}};
    const clq_id rows = f.channels > 1 ? clq_part_add(&parts, turn, CLQ_SHAPE(f.channels, in->dims[0])) : x[0];
    const clq_id y = transform(e, &parts, &f, rows);
    if (f.channels == 1) return clq_part_reshape(&parts, y, e->y->shape);
    a = clq_arrangement_of(3, (const size_t[]){f.channels, f.window.out, f.width});
    const clq_arrangement side = {.rank = 3, .axes = {a.axes[1], a.axes[0], a.axes[2]}},
                          apart = {.rank = 3, .axes = {a.axes[1], a.axes[2], a.axes[0]}};
    return y ? clq_expand_arrange(e, config_of(e->layer)->apart ? &apart : &side, y) : 0;
}

const clq_layer_kind clq_layer_stft_spectrogram = {.type = "STFTSpectrogram",
                                                   .stem = "stft_spectrogram",
                                                   .inputs = {1, 1},
                                                   CLQ_LAYER_CONFIG(stft_config, attributes),
                                                   .infer = infer,
                                                   .declare = declare,
                                                   .expand = expand};

/* ---- MelSpectrogram ---- */

typedef struct mel_config {
    size_t fft, step, length, bins;
    int window;
    bool as_power; /* no decibels */
    double rate, low, high, most_apart, exponent, least_power, reference;
} mel_config;
#undef MEMBER
#define MEMBER(key, type, member) CLQ_LAYER_ATTRIBUTE(key, type, mel_config, member)
static const clq_attribute mel_attributes[] = {
    {MEMBER("fft_length", CLQ_ATTRIBUTE_SIZES, fft), .fallback = 2048},
    {MEMBER("sequence_stride", CLQ_ATTRIBUTE_SIZES, step), .fallback = 512},
    {MEMBER("sequence_length", CLQ_ATTRIBUTE_SIZES, length)}, /* none: fft_length */
    {MEMBER("window", CLQ_ATTRIBUTE_CHOICE, window), .words = mel_windows, .not_null = true},
    {MEMBER("sampling_rate", CLQ_ATTRIBUTE_NUMBER, rate), .fallback = 16000, .least = 1, .most = 1e9},
    {MEMBER("num_mel_bins", CLQ_ATTRIBUTE_SIZES, bins), .fallback = 128},
    {MEMBER("min_freq", CLQ_ATTRIBUTE_NUMBER, low), .fallback = 20, .most = 1e9},
    {MEMBER("max_freq", CLQ_ATTRIBUTE_NUMBER, high), .most = 1e9}, /* none: half the sampling rate */
    {MEMBER("power_to_db", CLQ_ATTRIBUTE_OPPOSITE, as_power)},
    {MEMBER("top_db", CLQ_ATTRIBUTE_NUMBER, most_apart), .fallback = 80},
    {MEMBER("mag_exp", CLQ_ATTRIBUTE_NUMBER, exponent), .fallback = 2, .least = FLT_MIN, .most = 1e3},
    {MEMBER("min_power", CLQ_ATTRIBUTE_NUMBER, least_power), .fallback = 1e-10, .least = FLT_MIN, .most = FLT_MAX},
    {MEMBER("ref_power", CLQ_ATTRIBUTE_NUMBER, reference), .fallback = 1},
};

static clq_status find_mel(const mel_config *config, const clq_shape *x, clq_window *out) {
    enum { FFT_MOST = 4096 }; /* the waves have about the square of this many numbers */
    const size_t half = config->fft / 2;
    const double needed = ceil(10 * (log10(FLT_MAX) - log10(config->least_power)));
    if (x->rank != 1) return clq_fail(CLQ_ERROR_ARGUMENT, "it takes (steps): its input has %u axes", x->rank);
    if (config->fft > FFT_MOST)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "an fft_length of %zu is not supported; up to %d is", config->fft,
                        FFT_MOST);
    const double high = config->high > 0 ? config->high : floor(config->rate / 2);
    if (!(config->low < high))
        return clq_fail(CLQ_ERROR_ARGUMENT, "min_freq %g should be below max_freq, which is %g", config->low, high);
    const clq_shape reflected = CLQ_SHAPE(x->dims[0], 1 + 2 * half); /* at least what `reflect` makes */
    size_t elements;
    CLQ_TRY(clq_shape_elements(&reflected, &elements));
    if (config->length > config->fft)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a sequence_length of %zu should be at most its fft_length, %zu",
                        config->length, config->fft);
    if (x->dims[0] <= half)
        return clq_fail(CLQ_ERROR_ARGUMENT, "its input of %zu steps should have more than half of fft_length, %zu",
                        x->dims[0], half);
    if (!config->as_power && !(config->most_apart >= needed))
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "with power_to_db, top_db %g cuts each sample by the loudest of its batch: say power_to_db "
                        "false, or a top_db of at least %g",
                        config->most_apart, needed);
    *out = (clq_window){
        .axis = "length", .size = clq_or_default(config->length, config->fft), .stride = config->step, .dilation = 1};
    out->out = (x->dims[0] + 2 * half - config->fft) / config->step + 1;
    out->in = (out->out - 1) * config->step + out->size;
    return CLQ_OK;
}

static clq_status infer_mel(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const mel_config *config = layer->config;
    size_t elements;
    clq_window w;
    CLQ_TRY(find_mel(config, &clq_model_input_of(model, y, 0)->shape, &w));
    const clq_shape waves = CLQ_SHAPE(w.out, 2 * (config->fft / 2 + 1)),
                    weights = CLQ_SHAPE(config->fft / 2 + 1, config->bins);
    CLQ_TRY(clq_shape_elements(&waves, &elements));
    CLQ_TRY(clq_shape_elements(&weights, &elements));
    y->shape = CLQ_SHAPE(config->bins, w.out);
    return CLQ_OK;
}

/* Pads x in front and behind with half of fft_length, mirrored at its ends. Gives the padded x from the place on at
 * which windows begin. */
static clq_id reflect(const clq_parts *parts, const mel_config *config, const clq_window *w, size_t steps, clq_id x) {
    const size_t half = config->fft / 2, first = (config->fft - w->size) / 2;
    clq_joining joined = {.rows = 1};
    clq_node node = clq_part_node(parts, &clq_op_arrange, CLQ_IDS(x));
    clq_arranged_axis *axis = node.attributes.arrangement.axes;
    node.attributes.arrangement = clq_arrangement_of(1, &steps);
    axis->step = -1;
    axis->out = half;
    if (half) {
        axis->first = (long)half;
        clq_joining_add(parts, &joined, clq_part_add(parts, node, CLQ_SHAPE(half)), half);
    }
    clq_joining_add(parts, &joined, x, steps);
    if (half) {
        axis->first = (long)steps - 2;
        clq_joining_add(parts, &joined, clq_part_add(parts, node, CLQ_SHAPE(half)), half);
    }
    const clq_id whole = clq_part_reshape(parts, clq_joining_end(parts, &joined), CLQ_SHAPE(steps + 2 * half));
    return whole ? clq_part_run(parts, whole, first, CLQ_SHAPE(w->in)) : 0;
}

static clq_id add_constant(clq_expansion *e, const char *name, clq_shape shape, float *values) {
    clq_id id = 0;
    if (values)
        id = clq_graph_add_constant(e->graph, name, &shape, shape.dims[0] * shape.dims[shape.rank - 1], values);
    else
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
    clq_free(values);
    return id;
}

/* (places, 1, twice the waves): the real parts, then the imaginary parts. */
static clq_id add_waves(clq_expansion *e, const mel_config *config, size_t length) {
    const size_t bins = config->fft / 2 + 1, first = (config->fft - length) / 2;
    float *values = clq_alloc(length * 2 * bins, sizeof *values);
    for (size_t i = 0; i < length * 2 * bins && values; i++) {
        const size_t t = i / (2 * bins), f = i % (2 * bins);
        const double angle = -2 * PI * (double)((first + t) * (f % bins) % config->fft) / (double)config->fft;
        values[i] = (float)(window_at(config->window, true, length, t) * (f < bins ? cos(angle) : sin(angle)));
    }
    return add_constant(e, "waves", CLQ_SHAPE(length, 1, 2 * bins), values);
}

static double mel_of(double frequency) { return 1127 * log(1 + frequency / 700); }

/* (waves, bins): triangles along the Mel scale. Each triangle reaches from the middle of the one before to the middle
 * of the next. */
static clq_id add_weights(clq_expansion *e, const mel_config *config) {
    const size_t waves = config->fft / 2 + 1;
    const double high = config->high > 0 ? config->high : floor(config->rate / 2), low = mel_of(config->low),
                 width = (mel_of(high) - low) / (double)(config->bins + 1);
    float *values = clq_alloc(waves * config->bins, sizeof *values);
    for (size_t i = 0; i < waves * config->bins && values; i++) {
        const size_t wave = i / config->bins;
        const double mel = mel_of(config->rate / 2 * (double)wave / (double)(waves - 1)),
                     up = (mel - low) / width - (double)(i % config->bins);
        values[i] = (float)(wave > 0 ? fmax(0, fmin(up, 2 - up)) : 0);
    }
    return add_constant(e, "weights", CLQ_SHAPE(waves, config->bins), values);
}

static unsigned finish_power(clq_element_program *p, const void *config, unsigned power) {
    const double exponent = ((const mel_config *)config)->exponent;
    if (exponent == 2) return power;
    if (exponent == 1) return apply(p, CLQ_ELEMENT_SQRT, power);
    return clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_POWER, .a = power, .number = exponent / 2});
}

/* 10 log10(x / reference). Both are raised to the least power if they are below it. */
static clq_id add_decibels(const clq_parts *parts, const mel_config *config, clq_shape shape, clq_id x) {
    clq_node node = clq_part_node(parts, &clq_op_elementwise, CLQ_IDS(x));
    clq_element_program *p = &node.attributes.program;
    const unsigned least =
        with_number(p, CLQ_ELEMENT_MAXIMUM, clq_element_take(p, clq_each_element), config->least_power);
    const unsigned decibels = with_number(p, CLQ_ELEMENT_MULTIPLY, apply(p, CLQ_ELEMENT_LOG, least), 10 / log(10));
    p->outputs[p->output_count++].from =
        with_number(p, CLQ_ELEMENT_SUBTRACT, decibels, 10 * log10(fmax(fabs(config->reference), config->least_power)));
    return x ? clq_part_add(parts, node, shape) : 0;
}

static clq_id expand_mel(clq_expansion *e, const clq_id *x) {
    const mel_config *config = e->layer->config;
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    const size_t waves = config->fft / 2 + 1, bins = config->bins;
    clq_window w;
    clq_node of;
    (void)find_mel(config, in, &w); /* as it was inferred */
    const clq_parts parts = clq_expand_parts(e, &of);
    const clq_shape made = CLQ_SHAPE(w.out, waves), mels = CLQ_SHAPE(w.out, bins);
    const size_t sizes[] = {w.out, 2, waves}, turned[] = {w.out, bins};
    const clq_id steps = reflect(&parts, config, &w, in->dims[0], x[0]),
                 both = steps ? convolve(e, &parts, &w, 1, 2 * waves, steps, add_waves(e, config, w.size)) : 0;
    clq_node node =
        clq_part_node(&parts, &clq_op_batched,
                      CLQ_IDS(both ? combine(&parts, clq_part_slice(&parts, both, sizes, 0, made),
                                             clq_part_slice(&parts, both, sizes, 1, made), made, finish_power, config)
                                   : 0,
                              add_weights(e, config)));
    node.attributes.batched = (clq_batched_problem){.counts = {1, 1},
                                                    .m = w.out,
                                                    .n = bins,
                                                    .k = waves,
                                                    .a = {.sample = w.out * waves, .row = waves, .column = 1},
                                                    .b = {.row = bins, .column = 1},
                                                    .c = {.sample = w.out * bins, .row = bins, .column = 1},
                                                    .scale = 1};
    clq_id y = node.inputs[0] && node.inputs[1] ? clq_part_add(&parts, node, mels) : 0;
    if (!config->as_power && y) y = add_decibels(&parts, config, mels, y);
    const clq_arrangement a = clq_arrangement_of(2, turned), back = {.rank = 2, .axes = {a.axes[1], a.axes[0]}};
    return y ? clq_expand_arrange(e, &back, y) : 0;
}

const clq_layer_kind clq_layer_mel_spectrogram = {.type = "MelSpectrogram",
                                                  .stem = "mel_spectrogram",
                                                  .inputs = {1, 1},
                                                  CLQ_LAYER_CONFIG(mel_config, mel_attributes),
                                                  .infer = infer_mel,
                                                  .expand = expand_mel};
