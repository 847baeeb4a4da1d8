/* MultiHeadAttention (Vaswani et al., "Attention is all you need", 2017). */
#include "graph/layers/layer.h"

#include <math.h>

enum { QUERY_KERNEL, QUERY_BIAS, KEY_KERNEL, KEY_BIAS, VALUE_KERNEL, VALUE_BIAS, OUTPUT_KERNEL, OUTPUT_BIAS };

static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("num_heads", CLQ_ATTRIBUTE_SIZES, clq_attention_config, heads), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("key_dim", CLQ_ATTRIBUTE_SIZES, clq_attention_config, key), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("value_dim", CLQ_ATTRIBUTE_SIZES, clq_attention_config, value)},
    {CLQ_LAYER_ATTRIBUTE("output_shape", CLQ_ATTRIBUTE_SIZES, clq_attention_config, output)},
    {CLQ_LAYER_ATTRIBUTE("dropout", CLQ_ATTRIBUTE_NUMBER, clq_attention_config, dropout), .most = 1, .below = true},
    {CLQ_LAYER_ATTRIBUTE("use_bias", CLQ_ATTRIBUTE_OPPOSITE, clq_attention_config, no_bias)},
    {CLQ_LAYER_ATTRIBUTE("attention_axes", CLQ_ATTRIBUTE_AXES, clq_attention_config, axes)},
    {CLQ_LAYER_ATTRIBUTE("seed", CLQ_ATTRIBUTE_SEED, clq_attention_config, seed)},
    {CLQ_LAYER_ATTRIBUTE("use_causal_mask", CLQ_ATTRIBUTE_KEYWORD_FLAG, clq_attention_config, causal)},
    {CLQ_LAYER_ATTRIBUTE("kernel_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_attention_config, kernel_initialiser)},
    {CLQ_LAYER_ATTRIBUTE("bias_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_attention_config, bias_initialiser)},
    {.key = "use_gate", .type = CLQ_ATTRIBUTE_ONLY_FALSE},
    {.key = "sliding_window", .type = CLQ_ATTRIBUTE_ONLY_NULL},
    {.key = "flash_attention", .type = CLQ_ATTRIBUTE_UNUSED},
};

/* Sizes: `outer` times a sample has `tokens` queries, which look at `others`. */
typedef struct sizes {
    size_t outer, tokens, others, heads, key, value, output;
} sizes;

static size_t product_of(const clq_shape *shape, unsigned begin, unsigned end) {
    size_t product = 1;
    for (unsigned d = begin; d < end; d++) product *= shape->dims[d];
    return product;
}

/* Attention goes along all axes but the channels', or along the last ones of these. */
static clq_status find_sizes(const clq_attention_config *config, const clq_shape *query, const clq_shape *others,
                             sizes *out) {
    unsigned first = 0, seen = 0;
    const unsigned last = query->rank - 1;
    char a[CLQ_SHAPE_TEXT_MAX], b[CLQ_SHAPE_TEXT_MAX];
    if (query->rank < 2 || others->rank != query->rank)
        return clq_fail(CLQ_ARGUMENT, "it takes tensors of tokens and channels, of as many axes, not %s and %s",
                        clq_shape_describe(query, a), clq_shape_describe(others, b));
    for (unsigned i = 0; i < config->axes.count; i++) {
        unsigned axis;
        if (!clq_find_axis(query, config->axes.axes[i], &axis) || axis == last)
            return clq_fail(CLQ_ARGUMENT, "attention_axes: %d is none of tokens", config->axes.axes[i]);
        seen |= 1u << axis;
    }
    while (config->axes.count && !(seen & 1u << first)) first++;
    if (config->axes.count && seen != (1u << last) - (1u << first))
        return clq_fail(CLQ_UNSUPPORTED, "attention_axes: only the last axes in front of the channels are supported");
    for (unsigned d = 0; d < first; d++)
        if (query->dims[d] != others->dims[d])
            return clq_fail(CLQ_ARGUMENT, "its inputs %s and %s differ along an axis that attention does not go along",
                            clq_shape_describe(query, a), clq_shape_describe(others, b));
    *out = (sizes){.outer = product_of(query, 0, first),
                   .tokens = product_of(query, first, last),
                   .others = product_of(others, first, last),
                   .heads = config->heads,
                   .key = config->key,
                   .value = clq_or_default(config->value, config->key),
                   .output = clq_or_default(config->output, query->dims[last])};
    return CLQ_OK;
}

/* The query, the value, and the key, which is the value unless there is a third. */
static const clq_model_tensor *input_of(const clq_model *model, const clq_model_tensor *y, unsigned i) {
    return clq_model_input_of(model, y, CLQ_MIN(i, y->input_count - 1));
}

/* What it computes on its way has as many values as a tensor may have. */
static clq_status check_size(const char *what, clq_shape shape) {
    size_t elements;
    const clq_status status = clq_shape_elements(&shape, &elements);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "its %s", what);
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *query = &input_of(model, y, 0)->shape, *value = &input_of(model, y, 1)->shape,
                    *key = &input_of(model, y, 2)->shape;
    const clq_attention_config *config = layer->config;
    sizes s, of_key;
    if (config->causal && query->rank != 2)
        return clq_fail(CLQ_UNSUPPORTED, "use_causal_mask is supported for (tokens, channels) alone");
    CLQ_TRY(find_sizes(config, query, value, &s));
    CLQ_TRY(find_sizes(config, query, key, &of_key));
    CLQ_TRY(check_size("queries", CLQ_SHAPE(s.outer, s.tokens, s.heads, s.key)));
    CLQ_TRY(check_size("keys", CLQ_SHAPE(s.outer, s.others, s.heads, s.key)));
    CLQ_TRY(check_size("values", CLQ_SHAPE(s.outer, CLQ_MAX(s.tokens, s.others), s.heads, s.value)));
    CLQ_TRY(check_size("pairs of tokens", CLQ_SHAPE(s.outer, s.heads, s.tokens, s.others)));
    if (s.others != of_key.others)
        return clq_fail(CLQ_ARGUMENT, "there are %zu keys and %zu values", of_key.others, s.others);
    y->shape = *query;
    y->shape.dims[query->rank - 1] = s.output;
    return CLQ_OK;
}

static clq_status declare_part(clq_model *model, clq_layer *layer, const char *const names[2], unsigned number,
                               clq_shape kernel, clq_shape bias) {
    const clq_attention_config *config = layer->config;
    clq_variable_kind of_kernel = clq_variable_kind_by(&clq_variable_kernel, &config->kernel_initialiser),
                      of_bias = clq_variable_kind_by(&clq_variable_bias, &config->bias_initialiser);
    of_kernel.what = names[0];
    of_bias.what = names[1];
    CLQ_TRY(clq_model_declare_variable(model, layer, number, kernel, &of_kernel));
    if (config->no_bias) return CLQ_OK;
    return clq_model_declare_variable(model, layer, number + 1, bias, &of_bias);
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    static const char *const names[][2] = {{"query/kernel", "query/bias"},
                                           {"key/kernel", "key/bias"},
                                           {"value/kernel", "value/bias"},
                                           {"attention_output/kernel", "attention_output/bias"}};
    const clq_shape *query = &input_of(model, y, 0)->shape, *value = &input_of(model, y, 1)->shape,
                    *key = &input_of(model, y, 2)->shape;
    sizes s;
    CLQ_TRY(find_sizes(layer->config, query, value, &s));
    const size_t d = query->dims[query->rank - 1], of_key = key->dims[key->rank - 1],
                 of_value = value->dims[value->rank - 1];
    CLQ_TRY(
        declare_part(model, layer, names[0], QUERY_KERNEL, CLQ_SHAPE(d, s.heads, s.key), CLQ_SHAPE(s.heads, s.key)));
    CLQ_TRY(
        declare_part(model, layer, names[1], KEY_KERNEL, CLQ_SHAPE(of_key, s.heads, s.key), CLQ_SHAPE(s.heads, s.key)));
    CLQ_TRY(declare_part(model, layer, names[2], VALUE_KERNEL, CLQ_SHAPE(of_value, s.heads, s.value),
                         CLQ_SHAPE(s.heads, s.value)));
    return declare_part(model, layer, names[3], OUTPUT_KERNEL, CLQ_SHAPE(s.heads, s.value, s.output),
                        CLQ_SHAPE(s.output));
}

/* Rows of `in` numbers times the kernel. */
static clq_id project(clq_expansion *e, clq_id x, size_t rows, size_t in, size_t out, unsigned kernel) {
    const clq_shape shape = CLQ_SHAPE(rows, out);
    clq_node node = clq_expand_node(e, &clq_op_dense);
    node.attributes.dense = (clq_dense_problem){.in = in, .out = out, .rows_per_example = rows};
    node.inputs[0] = x;
    node.inputs[1] = clq_expand_weight(e, kernel);
    node.inputs[2] = clq_expand_weight(e, kernel + 1);
    node.outputs[0] = clq_expand_value(e, &shape, rows * out);
    return clq_graph_add_node(e->graph, &node);
}

/* Rows of `heads` matrices side by side, of `width` columns each. */
static clq_batched_matrix side_by_side(const sizes *s, size_t rows, size_t width) {
    const size_t row = s->heads * width;
    return (clq_batched_matrix){.sample = s->outer * rows * row, .pitch = {rows * row, width}, .row = row, .column = 1};
}
/* Of each head what queries have of others. */
static clq_batched_matrix of_pairs(const sizes *s) {
    const size_t pairs = s->tokens * s->others;
    return (clq_batched_matrix){
        .sample = s->outer * s->heads * pairs, .pitch = {s->heads * pairs, pairs}, .row = s->others, .column = 1};
}

static clq_id multiply(clq_expansion *e, const clq_batched_problem *p, clq_id a, clq_id b, const clq_shape *shape) {
    clq_node node = clq_expand_node(e, &clq_op_batched);
    node.attributes.batched = *p;
    node.inputs[0] = a;
    node.inputs[1] = b;
    node.outputs[0] = clq_expand_value(e, shape, shape->dims[0] * shape->dims[1]);
    return clq_graph_add_node(e->graph, &node);
}

/* No query looks at what is behind it: a large number is taken from such pairs, as in Keras; one that 16 bits have too.
 * shape: a head's pairs, as channels, so that the mask is one number for each. */
static clq_id mask(clq_expansion *e, const clq_shape *shape, clq_id scores, size_t others) {
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    const size_t pairs = shape->dims[1];
    float *numbers = clq_alloc(pairs, sizeof *numbers);
    if (!numbers) {
        clq_graph_fail(e->graph, CLQ_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < pairs; i++) numbers[i] = i % others > i / others ? -3e4f : 0.0f;
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned score = clq_element_take(p, clq_each_element), more = clq_element_take(p, by_channel);
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = score, .b = more});
    node.inputs[0] = scores;
    node.inputs[1] = clq_graph_add_constant(e->graph, "mask", &CLQ_SHAPE(pairs), pairs, numbers);
    node.outputs[0] = clq_expand_value(e, shape, shape->dims[0] * pairs);
    clq_free(numbers);
    return clq_graph_add_node(e->graph, &node);
}

static clq_id add_softmax(clq_expansion *e, const clq_shape *rows, clq_id scores) {
    clq_node node = clq_expand_node(e, &clq_op_softmax), flat = clq_expand_node(e, &clq_op_reshape);
    flat.inputs[0] = scores;
    flat.outputs[0] = clq_expand_value(e, rows, rows->dims[0] * rows->dims[1]);
    node.inputs[0] = clq_graph_add_node(e->graph, &flat);
    node.outputs[0] = clq_expand_value(e, rows, rows->dims[0] * rows->dims[1]);
    return clq_graph_add_node(e->graph, &node);
}

static clq_id drop(clq_expansion *e, const clq_shape *rows, clq_id shares) {
    const clq_attention_config *config = e->layer->config;
    const uint32_t stream = e->dropouts++;
    if (e->config->mode != CLQ_MODE_TRAIN || config->dropout == 0) return shares;
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const clq_instruction drops = {.op = CLQ_ELEMENT_DROPOUT,
                                   .a = clq_element_take(p, clq_each_element),
                                   .number = config->dropout,
                                   .stream = stream};
    p->outputs[p->output_count++].from = clq_element_do(p, drops);
    p->seed = config->seed ? config->seed : e->config->seed;
    node.inputs[0] = shares;
    node.outputs[0] = clq_expand_value(e, rows, rows->dims[0] * rows->dims[1]);
    return clq_graph_add_node(e->graph, &node);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_attention_config *config = e->layer->config;
    const clq_model_tensor *query = input_of(e->model, e->y, 0), *value = input_of(e->model, e->y, 1),
                           *key = input_of(e->model, e->y, 2);
    const uint32_t last = e->y->input_count - 1;
    sizes s;
    (void)find_sizes(config, &query->shape, &value->shape, &s); /* as it was inferred */
    const size_t rows = s.outer * s.tokens, others = s.outer * s.others;
    const clq_shape pairs = CLQ_SHAPE(s.outer * s.heads * s.tokens, s.others),
                    by_head = CLQ_SHAPE(s.outer * s.heads, s.tokens * s.others),
                    heads = CLQ_SHAPE(rows, s.heads * s.value);
    const clq_id q = project(e, x[0], rows, clq_model_channels(query), s.heads * s.key, QUERY_KERNEL);
    const clq_id k = project(e, x[CLQ_MIN(2u, last)], others, clq_model_channels(key), s.heads * s.key, KEY_KERNEL);
    const clq_id v =
        project(e, x[CLQ_MIN(1u, last)], others, clq_model_channels(value), s.heads * s.value, VALUE_KERNEL);
    const clq_batched_problem scores = {.counts = {s.outer, s.heads},
                                        .m = s.tokens,
                                        .n = s.others,
                                        .k = s.key,
                                        .a = side_by_side(&s, s.tokens, s.key),
                                        .b = clq_batched_transposed(side_by_side(&s, s.others, s.key)),
                                        .c = of_pairs(&s),
                                        .scale = (float)(1 / sqrt((double)s.key))},
                              mixed = {.counts = {s.outer, s.heads},
                                       .m = s.tokens,
                                       .n = s.value,
                                       .k = s.others,
                                       .a = of_pairs(&s),
                                       .b = side_by_side(&s, s.others, s.value),
                                       .c = side_by_side(&s, s.tokens, s.value),
                                       .scale = 1};
    clq_id shares = multiply(e, &scores, q, k, &by_head);
    if (config->causal && shares) shares = mask(e, &by_head, shares, s.others);
    if (shares) shares = drop(e, &pairs, add_softmax(e, &pairs, shares));
    const clq_id z = multiply(e, &mixed, shares, v, &heads);
    clq_node node = clq_expand_node(e, &clq_op_dense);
    node.attributes.dense = (clq_dense_problem){.in = s.heads * s.value, .out = s.output, .rows_per_example = rows};
    node.inputs[1] = clq_expand_weight(e, OUTPUT_KERNEL);
    node.inputs[2] = clq_expand_weight(e, OUTPUT_BIAS);
    return clq_expand_unary(e, node, z);
}

static const char *const input_names[] = {"query", "value", "key"};
const clq_layer_kind clq_layer_attention = {.type = "MultiHeadAttention",
                                            .input_names = input_names,
                                            .stem = "multi_head_attention",
                                            .inputs = {1, 3},
                                            CLQ_LAYER_CONFIG(clq_attention_config, attributes),
                                            .draws = true,
                                            .infer = infer,
                                            .declare = declare,
                                            .expand = expand};

clq_tensor clq_attention(clq_model *model, const clq_tensor *inputs, size_t count, const clq_attention_config *config) {
    const clq_attention_config all = config ? *config : (clq_attention_config){0};
    return clq_model_add_layer(model, &clq_layer_attention, all.name, &all, inputs, count);
}
