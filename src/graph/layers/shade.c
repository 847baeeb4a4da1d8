/* RandomBrightness and RandomContrast. In training each sample draws a number (clq_layer_expand_draws), by which its
 * image gets brighter or darker, or by which the image's numbers move away from their channel's mean or towards it. The
 * results are clipped to the range of values. In evaluation and prediction the layers do nothing. */
#include "graph/layers/layer.h"

typedef struct shade_config {
    clq_draw_range factor, values;
    uint64_t seed;
} shade_config;

#define MEMBER(key, type, member) CLQ_LAYER_ATTRIBUTE(key, type, shade_config, member)
#define ROWS(lowest_factor)                                                                                            \
    {MEMBER("factor", CLQ_ATTRIBUTE_RANGE, factor), .needed = true, .least = (lowest_factor), .most = 1},              \
        {MEMBER("value_range", CLQ_ATTRIBUTE_RANGE, values), .fallback = 255},                                         \
        {MEMBER("seed", CLQ_ATTRIBUTE_SEED, seed)}, {                                                                  \
        .key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"                                 \
    }
static const clq_attribute brightness_attributes[] = {ROWS(-1)}, contrast_attributes[] = {ROWS(0)};

static const shade_config *config_of(const clq_layer *layer) { return layer->config; }

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    (void)layer;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    return clq_layer_check_rank(&y->shape, 2);
}

/* A program under construction: register `number` is the image's number, and `drawn` is the sample's, between low and
 * high. */
typedef struct shading {
    clq_node node;
    unsigned number, drawn, inputs;
} shading;

static shading begin(clq_expansion *e, clq_id x, uint32_t stream, double low, double high) {
    const struct clq_element_input by_sample = {.kind = CLQ_EACH_SAMPLE_AND_CHANNEL, .dtype = CLQ_F32};
    const size_t channels = e->y->shape.dims[e->y->shape.rank - 1];
    shading s = {.node = clq_expand_node(e, &clq_op_elementwise), .inputs = 2};
    clq_element_program *p = &s.node.attributes.program;
    const clq_id one = clq_layer_expand_draws(e, stream, config_of(e->layer)->seed, 1);
    s.node.inputs[0] = x;
    s.node.inputs[1] = one ? clq_expand_repeated(e, &CLQ_SHAPE(1), &CLQ_SHAPE(channels), one) : 0;
    s.number = clq_element_take(p, clq_each_element);
    const unsigned part = clq_element_take(p, by_sample);
    const unsigned scaled =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SCALE, .a = part, .number = high - low});
    const unsigned least = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = low});
    s.drawn = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = scaled, .b = least});
    return s;
}

static clq_id end(clq_expansion *e, shading *s, unsigned shaded) {
    const clq_draw_range *values = &config_of(e->layer)->values;
    clq_element_program *p = &s->node.attributes.program;
    const unsigned low = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = values->low});
    const unsigned high = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = values->high});
    const unsigned above = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MAXIMUM, .a = shaded, .b = low});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MINIMUM, .a = above, .b = high});
    s->node.outputs[0] = clq_expand_value(e, &e->y->shape, e->y->elements);
    for (unsigned i = 0; i < s->inputs; i++)
        if (!s->node.inputs[i]) return 0;
    return clq_graph_add_node(e->graph, &s->node);
}

static clq_id expand_brightness(clq_expansion *e, const clq_id *x) {
    const shade_config *c = config_of(e->layer);
    const double size = c->values.high - c->values.low;
    uint32_t stream;
    if (!clq_layer_begins_draw(e, &stream)) return x[0];
    shading s = begin(e, x[0], stream, c->factor.low * size, c->factor.high * size);
    return end(e, &s,
               clq_element_do(&s.node.attributes.program,
                              (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = s.number, .b = s.drawn}));
}

/* The mean of each channel over the image, repeated at every place. */
static clq_id add_means(clq_expansion *e, clq_id x) {
    const clq_shape *image = &e->y->shape;
    const size_t channels = image->dims[2], places = image->dims[0] * image->dims[1];
    const clq_shape row = CLQ_SHAPE(1, 1, channels);
    clq_node node = clq_expand_node(e, &clq_op_reduce);
    node.attributes.repeat =
        (clq_repeat_problem){.outer = 1, .repeats = places, .inner = channels, .scale = 1 / (float)places};
    node.inputs[0] = x;
    node.outputs[0] = clq_expand_value(e, &row, channels);
    const clq_id means = clq_graph_add_node(e->graph, &node);
    return means ? clq_expand_repeated(e, &row, image, means) : 0;
}

/* Keras draws from 1 - factor[0] to 1 + factor[1]. */
static clq_id expand_contrast(clq_expansion *e, const clq_id *x) {
    const shade_config *c = config_of(e->layer);
    uint32_t stream;
    if (!clq_layer_begins_draw(e, &stream)) return x[0];
    shading s = begin(e, x[0], stream, 1 - c->factor.low, 1 + c->factor.high);
    clq_element_program *p = &s.node.attributes.program;
    s.node.inputs[s.inputs++] = add_means(e, x[0]);
    const unsigned mean = clq_element_take(p, clq_each_element);
    const unsigned apart = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SUBTRACT, .a = s.number, .b = mean});
    const unsigned scaled = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY, .a = apart, .b = s.drawn});
    return end(e, &s, clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = scaled, .b = mean}));
}

/* Whether the layer is for bytes as they are: the range of values ends above 1. */
static bool takes_bytes(const clq_layer *layer) { return config_of(layer)->values.high > 1; }

#define KIND(kind, class_name, name_stem, rows, expansion)                                                             \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(shade_config, rows),                                                 \
                                 .takes_bytes = takes_bytes,                                                           \
                                 .draws = true,                                                                        \
                                 .infer = infer,                                                                       \
                                 .expand = (expansion)}
KIND(clq_layer_random_brightness, "RandomBrightness", "random_brightness", brightness_attributes, expand_brightness);
KIND(clq_layer_random_contrast, "RandomContrast", "random_contrast", contrast_attributes, expand_contrast);
