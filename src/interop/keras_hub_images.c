/* Blocks of keras_hub: convolutional networks of images, MobileNet (Howard et al., 2017 and 2019) and EfficientNetV2
 * (Tan and Le, 2021). Their layers are named after the block. */
#include "interop/keras_blocks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const image_names[] = {"inputs", NULL};

/* The block's name with an ending, which its layers have as names: "block_1_0_conv1". */
typedef struct own_name {
    char text[CLQ_LAYER_NAME_MAX];
} own_name;
static own_name name_own(clq_block_writer *w, const char *ending) {
    own_name own;
    const char *name = json_string_value(clq_block_value_of(w, "name"));
    const int length = snprintf(own.text, sizeof own.text, "%s%s", name ? name : "", ending);
    if (length >= (int)sizeof own.text) clq_block_refuse(w, "name", "is too long");
    return own;
}

typedef struct convolution {
    size_t filters, groups; /* groups: 0 means 1 */
    json_t *kernel;         /* taken */
    size_t strides;         /* 0 means 1 */
    const char *activation; /* NULL: linear, and there is no bias */
    bool same;
    json_t *initializer; /* taken; NULL: Keras's default */
} convolution;
static void add_convolution(clq_block_writer *w, const char *name, const convolution *c, const char *from) {
    clq_block_add(w, CLQ_LAYERS, "Conv2D", name,
                  json_pack("{s:I, s:o, s:I, s:s, s:I, s:b, s:s}", "filters", (json_int_t)c->filters, "kernel_size",
                            c->kernel, "strides", (json_int_t)CLQ_MAX(c->strides, (size_t)1), "padding",
                            c->same ? "same" : "valid", "groups", (json_int_t)CLQ_MAX(c->groups, (size_t)1), "use_bias",
                            c->activation != NULL, "activation", c->activation ? c->activation : "linear"),
                  NULL, CLQ_FROM(from));
    if (c->initializer) clq_block_set(w, "kernel_initializer", c->initializer);
}
static void add_statistics(clq_block_writer *w, const char *name, double momentum, double epsilon, const char *from) {
    clq_block_add(w, CLQ_LAYERS, "BatchNormalization", name,
                  json_pack("{s:f, s:f}", "momentum", momentum, "epsilon", epsilon), NULL, CLQ_FROM(from));
}
static void add_zeros(clq_block_writer *w, const char *name, size_t padding, const char *from) {
    clq_block_add(w, CLQ_LAYERS, "ZeroPadding2D", name, json_pack("{s:I}", "padding", (json_int_t)padding), NULL,
                  CLQ_FROM(from));
}
static json_t *of_size(size_t size) { return json_integer((json_int_t)size); }
static json_t *take_activation(clq_block_writer *w) {
    json_t *value = clq_block_value_of(w, "activation");
    if (!value || json_is_null(value)) clq_block_refuse(w, "activation", "is missing");
    return value ? json_incref(value) : json_null();
}
static size_t channels_of(clq_block_writer *w) {
    const clq_shape *x = clq_block_shape_of(w, 0);
    if (x->rank == 3) return x->dims[2];
    if (w->status == CLQ_OK)
        w->status = clq_fail(CLQ_ERROR_ARGUMENT, "%s: it takes images (height, width, channels), not %u axes", w->path,
                             x->rank);
    return 1;
}
/* Scales each channel by a factor, which two convolutions of size 1 make of the channels' means (Hu et al., 2017). */
typedef struct squeezing {
    const char *mean, *reduce, *expand, *out;
    size_t few, channels;
    const char *activations[2];
} squeezing;
static void add_squeezing(clq_block_writer *w, const squeezing *s, json_t *initializer, const char *from) {
    const convolution reduce = {.filters = s->few,
                                .kernel = of_size(1),
                                .activation = s->activations[0],
                                .initializer = json_incref(initializer)},
                      expand = {.filters = s->channels,
                                .kernel = of_size(1),
                                .activation = s->activations[1],
                                .initializer = initializer};
    clq_block_add(w, CLQ_LAYERS, "GlobalAveragePooling2D", s->mean, json_pack("{s:b}", "keepdims", 1), NULL,
                  CLQ_FROM(from));
    add_convolution(w, s->reduce, &reduce, s->mean);
    add_convolution(w, s->expand, &expand, s->reduce);
    clq_block_add_of_list(w, "Multiply", s->out, NULL, CLQ_FROM(from, s->expand));
}

/* ---- MobileNet ---- */

enum { CHANNELS_STEP = 8 };
#define MOBILE_MOMENTUM 0.9
#define MOBILE_EPSILON 1e-5

/* The multiple of 8, at least 8, that is nearest to the number; the next one if it is below nine tenths of the
 * number. */
static size_t adjust(double channels) {
    const double step = CHANNELS_STEP;
    double near = floor((double)(long)(channels + step / 2) / step) * step;
    near = fmax(near, step);
    return (size_t)(near < 0.9 * channels ? near + step : near);
}

static void add_mobile_squeezing(clq_block_writer *w, const char *name, size_t channels, const char *from) {
    const double ratio = clq_block_number(w, "squeeze_excite_ratio", 0);
    char reduce[CLQ_LAYER_NAME_MAX], expand[CLQ_LAYER_NAME_MAX];
    const own_name own = name_own(w, name);
    if (!(ratio > 0 && ratio <= 64)) clq_block_refuse(w, "squeeze_excite_ratio", "should be above 0, and at most 64");
    const int lengths[] = {snprintf(reduce, sizeof reduce, "%s.%s_conv_reduce", own.text, own.text),
                           snprintf(expand, sizeof expand, "%s.%s_conv_expand", own.text, own.text)};
    if (CLQ_MAX(lengths[0], lengths[1]) >= CLQ_LAYER_NAME_MAX) clq_block_refuse(w, "name", "is too long");
    if (w->status != CLQ_OK) return;
    add_squeezing(w,
                  &(squeezing){.mean = "squeezed",
                               .reduce = reduce,
                               .expand = expand,
                               .out = "excited",
                               .few = adjust((double)channels * ratio),
                               .channels = channels,
                               .activations = {"relu", "hard_sigmoid"}},
                  NULL, from);
}
static bool is_squeezed(const clq_block_writer *w) {
    json_t *ratio = clq_block_value_of(w, "squeeze_excite_ratio");
    return ratio && !json_is_null(ratio) && json_number_value(ratio) != 0;
}

/* Adds zeros around the image, a convolution by channel, and a batch normalization. */
static void add_by_channel(clq_block_writer *w, size_t channels, size_t padding, const own_name names[2],
                           const char *from) {
    const convolution by_channel = {.filters = channels,
                                    .groups = channels,
                                    .kernel = clq_block_value_or(w, "kernel_size", of_size(3)),
                                    .strides = (size_t)clq_block_whole(w, "stride", 2)};
    add_zeros(w, "pad", padding, from);
    add_convolution(w, names[0].text, &by_channel, "pad");
    add_statistics(w, names[1].text, MOBILE_MOMENTUM, MOBILE_EPSILON, names[0].text);
}
static void add_pointwise(clq_block_writer *w, size_t filters, const own_name names[2], const char *from) {
    const convolution pointwise = {.filters = filters, .kernel = of_size(1)};
    add_convolution(w, names[0].text, &pointwise, from);
    add_statistics(w, names[1].text, MOBILE_MOMENTUM, MOBILE_EPSILON, names[0].text);
}

static const char *const *write_by_channel(clq_block_writer *w) {
    const size_t channels = (size_t)clq_block_whole(w, "infilters", -1),
                 filters = (size_t)clq_block_whole(w, "filters", -1);
    const own_name first[] = {name_own(w, "_conv1"), name_own(w, "_bn1")},
                   second[] = {name_own(w, "_conv2"), name_own(w, "_bn2")};
    (void)channels_of(w);
    add_by_channel(w, channels, 1, first, "inputs");
    clq_block_add_activation(w, "activation1", json_string("relu"), first[1].text);
    const bool squeezed = is_squeezed(w);
    if (squeezed) add_mobile_squeezing(w, "_squeeze_excite", channels, "activation1");
    add_pointwise(w, filters, second, squeezed ? "excited" : "activation1");
    if (!clq_block_flag(w, "residual", false)) return clq_block_give(w, second[1].text);
    clq_block_add_sum(w, "sum", second[1].text, "inputs");
    return clq_block_give(w, "sum");
}

static const char *const *write_inverted(clq_block_writer *w) {
    const size_t in = (size_t)clq_block_whole(w, "infilters", -1), filters = (size_t)clq_block_whole(w, "filters", -1),
                 stride = (size_t)clq_block_whole(w, "stride", -1),
                 wide = adjust((double)clq_block_whole(w, "expansion", -1));
    const own_name first[] = {name_own(w, "_conv1"), name_own(w, "_bn1")},
                   second[] = {name_own(w, "_conv2"), name_own(w, "_bn2")},
                   third[] = {name_own(w, "_conv3"), name_own(w, "_bn3")};
    (void)channels_of(w);
    add_pointwise(w, wide, first, "inputs");
    clq_block_add_activation(w, "activation1", take_activation(w), first[1].text);
    add_by_channel(w, wide, (size_t)clq_block_whole(w, "padding", -1), second, "activation1");
    clq_block_add_activation(w, "activation2", take_activation(w), second[1].text);
    const bool squeezed = is_squeezed(w);
    if (squeezed) add_mobile_squeezing(w, "_se", wide, "activation2");
    add_pointwise(w, filters, third, squeezed ? "excited" : "activation2");
    if (stride != 1 || in != filters) return clq_block_give(w, third[1].text);
    clq_block_add_sum(w, "sum", third[1].text, "inputs");
    return clq_block_give(w, "sum");
}

static const char *const *write_pointwise(clq_block_writer *w) {
    const own_name names[] = {name_own(w, "_conv"), name_own(w, "_bn")};
    (void)channels_of(w);
    add_pointwise(w, (size_t)clq_block_whole(w, "filter", -1), names, "inputs");
    clq_block_add_activation(w, "activation", take_activation(w), names[1].text);
    return clq_block_give(w, "activation");
}

/* ---- EfficientNetV2 ---- */

static json_t *fan_out(void) {
    return json_pack("{s:s, s:{s:f, s:s, s:s}}", "class_name", "VarianceScaling", "config", "scale", 2.0, "mode",
                     "fan_out", "distribution", "truncated_normal");
}
static void add_efficient_statistics(clq_block_writer *w, const char *name, const char *from) {
    add_statistics(w, name, clq_block_number(w, "batch_norm_momentum", 0.9),
                   clq_block_number(w, "batch_norm_epsilon", 1e-3), from);
}
/* Adds a convolution; a kernel larger than 1 gets kernel / 2 zeros around the image. */
static void add_padded(clq_block_writer *w, const char *pad, const char *name, size_t filters, size_t kernel,
                       size_t strides, const char *from) {
    const convolution c = {.filters = filters, .kernel = of_size(kernel), .strides = strides, .initializer = fan_out()};
    if (kernel > 1) add_zeros(w, pad, kernel / 2, from);
    add_convolution(w, name, &c, kernel > 1 ? pad : from);
}

typedef struct efficient_block {
    size_t in, out, ratio, kernel, strides;
    json_t *activation; /* borrowed */
} efficient_block;
static efficient_block take_block(clq_block_writer *w) {
    const char *format = json_string_value(clq_block_value_of(w, "data_format"));
    const efficient_block b = {.in = (size_t)clq_block_whole(w, "input_filters", -1),
                               .out = (size_t)clq_block_whole(w, "output_filters", -1),
                               .ratio = (size_t)clq_block_whole(w, "expand_ratio", 1),
                               .kernel = (size_t)clq_block_whole(w, "kernel_size", 3),
                               .strides = (size_t)clq_block_whole(w, "strides", 1),
                               .activation = clq_block_value_of(w, "activation")};
    if (format && strcmp(format, "channels_last") != 0)
        clq_block_refuse(w, "data_format", "only channels_last is supported");
    if (b.in != channels_of(w)) clq_block_refuse(w, "input_filters", "should be its input's channels");
    if (!json_is_string(b.activation)) clq_block_refuse(w, "activation", "should be a name");
    return b;
}

/* Scales the channels if se_ratio is above 0 and at most 1. Gives the name of the result. */
static const char *add_excitation(clq_block_writer *w, const efficient_block *b, const char *from) {
    const double ratio = clq_block_number(w, "se_ratio", 0);
    const own_name reduce = name_own(w, "se_reduce"), expand = name_own(w, "se_expand");
    if (!(ratio > 0 && ratio <= 1)) return from;
    add_squeezing(w,
                  &(squeezing){.mean = "squeezed",
                               .reduce = reduce.text,
                               .expand = expand.text,
                               .out = "excited",
                               .few = CLQ_MAX((size_t)((double)b->in * ratio), (size_t)1),
                               .channels = b->in * b->ratio,
                               .activations = {json_string_value(b->activation), "sigmoid"}},
                  fan_out(), from);
    return "excited";
}
static const char *const *give_efficient(clq_block_writer *w, const efficient_block *b, const char *x) {
    if (b->strides != 1 || b->in != b->out || clq_block_flag(w, "nores", false)) return clq_block_give(w, x);
    const double rate = clq_block_number(w, "dropout", 0.2);
    if (rate != 0) {
        clq_block_add_dropout(w, "drop", rate, x);
        clq_block_set(w, "noise_shape", json_pack("[n, i, i, i]", 1, 1, 1));
        x = "drop";
    }
    clq_block_add_sum(w, "sum", x, "inputs");
    return clq_block_give(w, "sum");
}

#define EFFICIENT_KEYS                                                                                                 \
    "input_filters output_filters kernel_size strides data_format batch_norm_momentum batch_norm_epsilon activation "  \
    "dropout nores"
#define MBCONV_KEYS EFFICIENT_KEYS " expand_ratio se_ratio"
#define FUSED_KEYS MBCONV_KEYS " projection_activation projection_kernel_size"

static const char *const *write_fused(clq_block_writer *w) {
    const efficient_block b = take_block(w);
    json_t *last = clq_block_value_of(w, "projection_activation");
    const own_name expand = name_own(w, "expand_conv"), expand_bn = name_own(w, "expand_bn"),
                   project = name_own(w, "project_conv"), project_bn = name_own(w, "project_bn");
    const char *x = project_bn.text;
    if (w->status != CLQ_OK) return NULL;
    add_padded(w, "expand_pad", expand.text, b.in * b.ratio, b.kernel, b.strides, "inputs");
    add_efficient_statistics(w, expand_bn.text, expand.text);
    clq_block_add_activation(w, "activation", json_incref(b.activation), expand_bn.text);
    add_padded(w, "project_pad", project.text, b.out, (size_t)clq_block_whole(w, "projection_kernel_size", 1), 1,
               add_excitation(w, &b, "activation"));
    add_efficient_statistics(w, project_bn.text, project.text);
    if (b.ratio == 1 && last && !json_is_null(last)) {
        clq_block_add_activation(w, "projection_activation", json_incref(last), x);
        x = "projection_activation";
    }
    return give_efficient(w, &b, x);
}

static const char *const *write_mbconv(clq_block_writer *w) {
    const efficient_block b = take_block(w);
    const own_name expand = name_own(w, "expand_conv"), expand_bn = name_own(w, "expand_bn"),
                   each = name_own(w, "dwconv2"), each_bn = name_own(w, "bn"), project = name_own(w, "project_conv"),
                   project_bn = name_own(w, "project_bn");
    const char *x = "inputs";
    if (w->status != CLQ_OK) return NULL;
    if (b.ratio != 1) {
        add_padded(w, "expand_pad", expand.text, b.in * b.ratio, 1, 1, x);
        add_efficient_statistics(w, expand_bn.text, expand.text);
        clq_block_add_activation(w, "expand_activation", json_incref(b.activation), expand_bn.text);
        x = "expand_activation";
    }
    clq_block_add(w, CLQ_LAYERS, "DepthwiseConv2D", each.text,
                  json_pack("{s:I, s:I, s:s, s:b, s:o}", "kernel_size", (json_int_t)b.kernel, "strides",
                            (json_int_t)b.strides, "padding", "same", "use_bias", 0, "depthwise_initializer",
                            fan_out()),
                  NULL, CLQ_FROM(x));
    add_efficient_statistics(w, each_bn.text, each.text);
    clq_block_add_activation(w, "activation", json_incref(b.activation), each_bn.text);
    add_padded(w, "project_pad", project.text, b.out, b.ratio != 1 ? 1 : b.kernel, 1,
               add_excitation(w, &b, "activation"));
    add_efficient_statistics(w, project_bn.text, project.text);
    return give_efficient(w, &b, project_bn.text);
}

static const char *const *write_cba(clq_block_writer *w) {
    const efficient_block b = take_block(w);
    const own_name names[] = {name_own(w, "conv"), name_own(w, "bn")};
    if (w->status != CLQ_OK) return NULL;
    add_padded(w, "pad", names[0].text, b.out, b.kernel, b.strides, "inputs");
    add_efficient_statistics(w, names[1].text, names[0].text);
    clq_block_add_activation(w, "activation", json_incref(b.activation), names[1].text);
    return give_efficient(w, &b, "activation");
}

/* ---- the rows ---- */

#define MOBILENET CLQ_HUB "models.mobilenet.mobilenet_backbone"
#define EFFICIENTNET CLQ_HUB "models.efficientnet."
const clq_block_row clq_hub_images[] = {
    CLQ_BLOCK_ROW(MOBILENET, "DepthwiseConvBlock", image_names,
                  "infilters filters kernel_size stride squeeze_excite_ratio residual", write_by_channel),
    CLQ_BLOCK_ROW(MOBILENET, "InvertedResidualBlock", image_names,
                  "expansion infilters filters kernel_size stride squeeze_excite_ratio activation padding",
                  write_inverted),
    CLQ_BLOCK_ROW(MOBILENET, "ConvBnActBlock", image_names, "filter activation", write_pointwise),
    CLQ_BLOCK_ROW(EFFICIENTNET "fusedmbconv", "FusedMBConvBlock", image_names, FUSED_KEYS, write_fused),
    CLQ_BLOCK_ROW(EFFICIENTNET "mbconv", "MBConvBlock", image_names, MBCONV_KEYS, write_mbconv),
    CLQ_BLOCK_ROW(EFFICIENTNET "cba", "CBABlock", image_names, EFFICIENT_KEYS, write_cba),
    CLQ_BLOCK_END,
};
