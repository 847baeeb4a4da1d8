/* Dropout, SpatialDropout1D to 3D, AlphaDropout, GaussianDropout and GaussianNoise: layers that are random in training
 * and do nothing in evaluation. Each use of a layer has a stream of random numbers of its own. Streams are counted from
 * 0, in the order of the model's tensors. */
#include "graph/layers/layer.h"

#include <math.h>

#define RATE                                                                                                           \
    {                                                                                                                  \
        CLQ_LAYER_ATTRIBUTE("rate", CLQ_ATTRIBUTE_NUMBER, clq_dropout_config, rate), .needed = true, .most = 1,        \
                                                                                     .below = true                     \
    }
#define SEED                                                                                                           \
    { CLQ_LAYER_ATTRIBUTE("seed", CLQ_ATTRIBUTE_SEED, clq_dropout_config, seed) }
static const clq_attribute attributes[] = {
    RATE, SEED, {CLQ_LAYER_ATTRIBUTE("noise_shape", CLQ_ATTRIBUTE_SHARED, clq_dropout_config, shared)}};
static const clq_attribute spatial_attributes[] = {
    RATE, SEED, {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"}};
static const clq_attribute alpha_attributes[] = {RATE, SEED, {.key = "noise_shape", .type = CLQ_ATTRIBUTE_ONLY_NULL}};
static const clq_attribute gaussian_attributes[] = {RATE, SEED};
static const clq_attribute noise_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("stddev", CLQ_ATTRIBUTE_NUMBER, clq_dropout_config, rate), .needed = true, .most = INFINITY},
    SEED};

static const clq_dropout_config *config_of(const clq_expansion *e) { return e->layer->config; }

/* Takes the use's stream in every case. False: there is nothing to do. */
static bool begins(clq_expansion *e, uint32_t *stream) {
    *stream = e->dropouts++;
    return e->config->mode == CLQ_MODE_TRAIN && config_of(e)->rate > 0;
}

static uint64_t seed_of(const clq_expansion *e) { return config_of(e)->seed ? config_of(e)->seed : e->config->seed; }

/* Ends the program: register `from` is the output, of y's shape. */
static clq_id finish(clq_expansion *e, clq_node *node, unsigned from, clq_id x) {
    clq_element_program *p = &node->attributes.program;
    p->outputs[p->output_count++].from = from;
    p->seed = seed_of(e);
    return clq_expand_unary(e, *node, x);
}

clq_id clq_expand_drops(clq_expansion *e, const clq_shape *shape, double rate, uint64_t seed, uint32_t stream) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    size_t elements = 1;
    for (unsigned d = 0; d < shape->rank; d++) elements *= shape->dims[d];
    const unsigned one = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 1});
    const clq_instruction drop = {.op = CLQ_ELEMENT_DROPOUT, .a = one, .number = rate, .stream = stream};
    p->outputs[p->output_count++].from = clq_element_do(p, drop);
    p->seed = seed ? seed : e->config->seed;
    node.outputs[0] = clq_expand_value(e, shape, elements);
    return clq_graph_add_node(e->graph, &node);
}

/* x times a mask that places share. A mask with a number for each sample and channel is read by channel. Any other mask
 * is repeated to y's shape. */
static clq_id expand_shared(clq_expansion *e, clq_id x, unsigned shared, uint32_t stream) {
    clq_shape shape = e->y->shape, channels = CLQ_SHAPE(shape.dims[shape.rank - 1]);
    const unsigned all = (1u << shape.rank) - 1, last = 1u << (shape.rank - 1);
    size_t elements = 1;
    for (unsigned d = 0; d < shape.rank; d++) {
        if (shared & 1u << d) shape.dims[d] = 1;
        elements *= shape.dims[d];
    }
    const bool by_channel = (shared | last) == all;
    clq_id mask = clq_expand_drops(e, &shape, config_of(e)->rate, config_of(e)->seed, stream);
    if (!mask) return 0;
    if (by_channel && elements < channels.dims[0]) mask = clq_expand_repeated(e, &CLQ_SHAPE(1), &channels, mask);
    if (!by_channel) mask = clq_expand_repeated(e, &shape, &e->y->shape, mask);
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const struct clq_element_input kind = {.kind = by_channel ? CLQ_EACH_SAMPLE_AND_CHANNEL : CLQ_EACH_ELEMENT,
                                           .dtype = CLQ_F32};
    const unsigned number = clq_element_take(p, clq_each_element), factor = clq_element_take(p, kind);
    node.inputs[1] = mask;
    return finish(e, &node, clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY, .a = number, .b = factor}),
                  x);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_shape *shape = &e->y->shape;
    const unsigned channels = 1u << (shape->rank - 1);
    const unsigned shared = e->layer->kind == &clq_layer_dropout ? config_of(e)->shared : channels - 1;
    uint32_t stream;
    if (!begins(e, &stream)) return x[0];
    if (shared) return expand_shared(e, x[0], shared, stream);
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const clq_instruction drop = {.op = CLQ_ELEMENT_DROPOUT,
                                  .a = clq_element_take(p, clq_each_element),
                                  .number = config_of(e)->rate,
                                  .stream = stream};
    return finish(e, &node, clq_element_do(p, drop), x[0]);
}

/* Klambauer et al., "Self-normalizing neural networks", 2017: numbers that are dropped become SELU's lowest value, and
 * a linear function of all numbers then keeps mean and variance. */
static clq_id expand_alpha(clq_expansion *e, const clq_id *x) {
    const double rate = config_of(e)->rate, lowest = -1.0507009873554805 * 1.6732632423543772;
    const double a = 1 / sqrt((1 - rate) * (1 + rate * lowest * lowest)), b = -a * lowest * rate;
    uint32_t stream;
    if (!begins(e, &stream)) return x[0];
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    const unsigned one = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 1});
    const unsigned stays =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_DROPOUT, .a = one, .number = rate, .stream = stream});
    const unsigned low = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = lowest});
    const unsigned chosen =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SELECT, .a = stays, .b = number, .c = low});
    const unsigned scaled = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SCALE, .a = chosen, .number = a});
    const unsigned shift = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = b});
    return finish(e, &node, clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = scaled, .b = shift}), x[0]);
}

/* Adds noise with this standard deviation to x. about_one: multiplies x by noise about 1 instead. */
static clq_id add_noise(clq_expansion *e, clq_id x, double deviation, bool about_one) {
    uint32_t stream;
    if (!begins(e, &stream)) return x;
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    const unsigned drawn = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_NORMAL, .stream = stream});
    unsigned noise = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SCALE, .a = drawn, .number = deviation});
    if (about_one) {
        const unsigned one = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 1});
        noise = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = noise, .b = one});
    }
    const clq_element_op op = about_one ? CLQ_ELEMENT_MULTIPLY : CLQ_ELEMENT_ADD;
    return finish(e, &node, clq_element_do(p, (clq_instruction){.op = op, .a = number, .b = noise}), x);
}

static clq_id expand_gaussian(clq_expansion *e, const clq_id *x) {
    return add_noise(e, x[0], sqrt(config_of(e)->rate / (1 - config_of(e)->rate)), true);
}
static clq_id expand_noise(clq_expansion *e, const clq_id *x) { return add_noise(e, x[0], config_of(e)->rate, false); }

static clq_status infer_spatial(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    y->shape = clq_model_input_of(model, y, 0)->shape;
    return clq_layer_check_rank(&y->shape, layer->kind == &clq_layer_spatial_dropout1d   ? 1
                                           : layer->kind == &clq_layer_spatial_dropout2d ? 2
                                                                                         : 3);
}

#define KIND(kind, class_name, name_stem, rows, shape, expansion)                                                      \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(clq_dropout_config, rows),                                           \
                                 .draws = true,                                                                        \
                                 .mask = clq_layer_keep_mask,                                                          \
                                 .by_token = clq_layer_is_by_token,                                                    \
                                 .infer = (shape),                                                                     \
                                 .expand = (expansion)}
KIND(clq_layer_dropout, "Dropout", "dropout", attributes, clq_layer_keep_shape, expand);
KIND(clq_layer_spatial_dropout1d, "SpatialDropout1D", "spatial_dropout1d", spatial_attributes, infer_spatial, expand);
KIND(clq_layer_spatial_dropout2d, "SpatialDropout2D", "spatial_dropout2d", spatial_attributes, infer_spatial, expand);
KIND(clq_layer_spatial_dropout3d, "SpatialDropout3D", "spatial_dropout3d", spatial_attributes, infer_spatial, expand);
KIND(clq_layer_alpha_dropout, "AlphaDropout", "alpha_dropout", alpha_attributes, clq_layer_keep_shape, expand_alpha);
KIND(clq_layer_gaussian_dropout, "GaussianDropout", "gaussian_dropout", gaussian_attributes, clq_layer_keep_shape,
     expand_gaussian);
KIND(clq_layer_gaussian_noise, "GaussianNoise", "gaussian_noise", noise_attributes, clq_layer_keep_shape, expand_noise);

clq_tensor clq_dropout(clq_model *model, clq_tensor x, const clq_dropout_config *config) {
    CLQ_LAYER_KNOWS(model, clq_dropout_config, config);
    const clq_dropout_config all = config ? *config : (clq_dropout_config){.rate = 0.5};
    return clq_model_add_layer(model, &clq_layer_dropout, all.name, &all, &x, 1);
}

clq_tensor clq_alpha_dropout(clq_model *model, clq_tensor x, double rate, const char *name) {
    return clq_model_add_layer(model, &clq_layer_alpha_dropout, name, &(clq_dropout_config){.rate = rate}, &x, 1);
}

clq_tensor clq_gaussian_noise(clq_model *model, clq_tensor x, double deviation, const char *name) {
    return clq_model_add_layer(model, &clq_layer_gaussian_noise, name, &(clq_dropout_config){.rate = deviation}, &x, 1);
}
