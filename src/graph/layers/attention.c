/* MultiHeadAttention (Vaswani et al., "Attention is all you need", 2017), and GroupQueryAttention, in which several
 * heads of queries share a head of keys and values (Ainslie et al., "GQA", 2023). */
#include "graph/layers/attention.h"

#include <math.h>

enum {
    QUERY_KERNEL,
    QUERY_BIAS,
    KEY_KERNEL,
    KEY_BIAS,
    VALUE_KERNEL,
    VALUE_BIAS,
    OUTPUT_KERNEL,
    OUTPUT_BIAS,
    GATE_KERNEL,
    GATE_BIAS,
    CACHES
};

typedef struct attention_config {
    clq_attention_config all;
    bool no_key_bias;
    bool gate;        /* what the heads give is multiplied by the sigmoid of a product of the query */
    size_t key_heads; /* heads of keys and values; 0: as many as of queries */
    size_t window;    /* as of clq_attention_core */
    size_t query_mask, value_mask, key_mask, mask; /* input numbers, from 1 on; 0: none */
} attention_config;
#define SHARED_ATTRIBUTES                                                                                              \
    {CLQ_LAYER_ATTRIBUTE("dropout", CLQ_ATTRIBUTE_NUMBER, attention_config, all.dropout), .most = 1, .below = true},   \
        {CLQ_LAYER_ATTRIBUTE("use_bias", CLQ_ATTRIBUTE_OPPOSITE, attention_config, all.no_bias)},                      \
        {CLQ_LAYER_ATTRIBUTE("use_gate", CLQ_ATTRIBUTE_FLAG, attention_config, gate), .newer = true},                  \
        {CLQ_LAYER_ATTRIBUTE("sliding_window", CLQ_ATTRIBUTE_SIZES, attention_config, window)},                        \
        {CLQ_LAYER_ATTRIBUTE("seed", CLQ_ATTRIBUTE_SEED, attention_config, all.seed)},                                 \
        {CLQ_LAYER_ATTRIBUTE("use_causal_mask", CLQ_ATTRIBUTE_KEYWORD_FLAG, attention_config, all.causal)},            \
        {CLQ_LAYER_ATTRIBUTE("kernel_initializer", CLQ_ATTRIBUTE_INITIALISER, attention_config,                        \
                             all.kernel_initialiser)},                                                                 \
        {CLQ_LAYER_ATTRIBUTE("bias_initializer", CLQ_ATTRIBUTE_INITIALISER, attention_config, all.bias_initialiser)},  \
        {CLQ_LAYER_ATTRIBUTE("value_mask", CLQ_ATTRIBUTE_TENSOR, attention_config, value_mask), .implicit = 2},        \
        {CLQ_LAYER_ATTRIBUTE("key_mask", CLQ_ATTRIBUTE_TENSOR, attention_config, key_mask), .implicit = 3}, {          \
        CLQ_LAYER_ATTRIBUTE("attention_mask", CLQ_ATTRIBUTE_TENSOR, attention_config, mask)                            \
    }
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("num_heads", CLQ_ATTRIBUTE_SIZES, attention_config, all.heads), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("key_dim", CLQ_ATTRIBUTE_SIZES, attention_config, all.key), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("value_dim", CLQ_ATTRIBUTE_SIZES, attention_config, all.value)},
    {CLQ_LAYER_ATTRIBUTE("output_shape", CLQ_ATTRIBUTE_SIZES, attention_config, all.output)},
    {CLQ_LAYER_ATTRIBUTE("no_key_bias", CLQ_ATTRIBUTE_FLAG, attention_config, no_key_bias), .own = true},
    {CLQ_LAYER_ATTRIBUTE("attention_axes", CLQ_ATTRIBUTE_AXES, attention_config, all.axes)},
    SHARED_ATTRIBUTES,
    /* Keras uses the query's own mask, whatever masks the call is given. */
    {CLQ_LAYER_ATTRIBUTE("query_mask", CLQ_ATTRIBUTE_TENSOR, attention_config, query_mask), .implicit = 1,
     .unnamed = true},
    {.key = "flash_attention", .type = CLQ_ATTRIBUTE_UNUSED},
};
static const clq_attribute grouped_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("num_query_heads", CLQ_ATTRIBUTE_SIZES, attention_config, all.heads), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("num_key_value_heads", CLQ_ATTRIBUTE_SIZES, attention_config, key_heads), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("head_dim", CLQ_ATTRIBUTE_SIZES, attention_config, all.key), .needed = true},
    SHARED_ATTRIBUTES,
    {CLQ_LAYER_ATTRIBUTE("query_mask", CLQ_ATTRIBUTE_TENSOR, attention_config, query_mask), .implicit = 1},
};

static size_t product_of(const clq_shape *shape, unsigned begin, unsigned end) {
    size_t product = 1;
    for (unsigned d = begin; d < end; d++) product *= shape->dims[d];
    return product;
}

/* Attention goes along all axes except the channels', or along the last of these axes if attention_axes names them. */
static clq_status find_sizes(const clq_attention_config *config, const clq_shape *query, const clq_shape *others,
                             clq_attention_sizes *out) {
    unsigned first = 0, seen = 0;
    const unsigned last = query->rank - 1;
    char a[CLQ_SHAPE_TEXT_MAX], b[CLQ_SHAPE_TEXT_MAX];
    if (query->rank < 2 || others->rank != query->rank)
        return clq_fail(CLQ_ERROR_ARGUMENT, "it takes tensors of tokens and channels, of as many axes, not %s and %s",
                        clq_shape_describe(query, a), clq_shape_describe(others, b));
    for (unsigned i = 0; i < config->axes.count; i++) {
        unsigned axis;
        if (!clq_find_axis(query, config->axes.axes[i], &axis) || axis == last)
            return clq_fail(CLQ_ERROR_ARGUMENT, "attention_axes: %d is none of tokens", config->axes.axes[i]);
        seen |= 1u << axis;
    }
    while (config->axes.count && !(seen & 1u << first)) first++;
    if (config->axes.count && seen != (1u << last) - (1u << first))
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "attention_axes: only the last axes in front of the channels are supported");
    for (unsigned d = 0; d < first; d++)
        if (query->dims[d] != others->dims[d])
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "its inputs %s and %s differ along an axis that attention does not go along",
                            clq_shape_describe(query, a), clq_shape_describe(others, b));
    *out = (clq_attention_sizes){.outer = product_of(query, 0, first),
                                 .tokens = product_of(query, first, last),
                                 .others = product_of(others, first, last),
                                 .heads = config->heads,
                                 .key = config->key,
                                 .value = clq_or_default(config->value, config->key),
                                 .output = clq_or_default(config->output, query->dims[last])};
    return CLQ_OK;
}

static const attention_config *config_of(const clq_layer *layer) { return layer->config; }
static size_t key_heads_of(const attention_config *config) {
    return clq_or_default(config->key_heads, config->all.heads);
}

/* How many inputs are not masks. Masks stand behind all other inputs. */
static uint32_t count_tokens(const clq_layer *layer, const clq_model_tensor *y) {
    const attention_config *config = config_of(layer);
    const size_t masks[] = {config->query_mask, config->value_mask, config->key_mask, config->mask};
    uint32_t count = y->input_count;
    for (size_t k = 0; k < CLQ_COUNT_OF(masks); k++) count -= masks[k] > 0;
    return count;
}

/* Which input is number i of query, value and key. The last input that is given stands for those that are not given. */
static uint32_t place_of(const clq_layer *layer, const clq_model_tensor *y, uint32_t i) {
    return CLQ_MIN(i, count_tokens(layer, y) - 1);
}
static const clq_model_tensor *input_of(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y,
                                        unsigned i) {
    return clq_model_input_of(model, y, place_of(layer, y, i));
}

/* A mask of queries, or of keys or values, must have a number for each token. A mask of pairs must be (queries or 1,
 * others). */
static clq_status check_masks(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y,
                              const clq_attention_sizes *s) {
    const attention_config *config = config_of(layer);
    const size_t places[] = {config->query_mask, config->value_mask, config->key_mask},
                 wanted[] = {s->tokens, s->others, s->others};
    char text[CLQ_SHAPE_TEXT_MAX];
    for (unsigned i = 0; i < 3; i++) {
        if (!places[i]) continue;
        const clq_shape *mask = &clq_model_input_of(model, y, places[i] - 1)->shape;
        if (s->outer != 1 || mask->rank != 1 || mask->dims[0] != wanted[i])
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "its mask %s should be (%zu), a number for each token",
                            clq_shape_describe(mask, text), wanted[i]);
    }
    if (!config->mask) return CLQ_OK;
    const clq_shape *mask = &clq_model_input_of(model, y, config->mask - 1)->shape;
    const size_t rows = mask->dims[0];
    if (s->outer == 1 && mask->rank == 2 && (rows == 1 || rows == s->tokens) && mask->dims[1] == s->others)
        return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "its attention_mask %s should be (%zu, %zu)", clq_shape_describe(mask, text),
                    s->tokens, s->others);
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *query = &input_of(model, layer, y, 0)->shape, *value = &input_of(model, layer, y, 1)->shape,
                    *key = &input_of(model, layer, y, 2)->shape;
    const clq_attention_config *config = &config_of(layer)->all;
    clq_attention_sizes s, of_key;
    if (count_tokens(layer, y) > 3)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "it takes a query, a value and a key; masks are supported by their names alone");
    if (config->causal && query->rank != 2)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "use_causal_mask is supported for (tokens, channels) alone");
    if ((config_of(layer)->window || config_of(layer)->key_heads) && query->rank != 2)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s is supported for (tokens, channels) alone",
                        config_of(layer)->window ? "sliding_window" : "num_key_value_heads");
    if (config_of(layer)->window && query->dims[0] >= value->dims[0] + config_of(layer)->window)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "a sliding_window of %zu leaves the last of %zu queries none of %zu keys to look at: widen it",
                        config_of(layer)->window, query->dims[0], value->dims[0]);
    if (config->heads % key_heads_of(config_of(layer)))
        return clq_fail(CLQ_ERROR_ARGUMENT, "num_key_value_heads %zu does not divide num_query_heads, which is %zu",
                        config_of(layer)->key_heads, config->heads);
    CLQ_TRY(find_sizes(config, query, value, &s));
    CLQ_TRY(find_sizes(config, query, key, &of_key));
    CLQ_TRY(clq_attention_check_size("queries", CLQ_SHAPE(s.outer, s.tokens, s.heads, s.key)));
    CLQ_TRY(clq_attention_check_size("keys", CLQ_SHAPE(s.outer, s.others, s.heads, s.key)));
    CLQ_TRY(clq_attention_check_size("values", CLQ_SHAPE(s.outer, CLQ_MAX(s.tokens, s.others), s.heads, s.value)));
    CLQ_TRY(clq_attention_check_size("pairs of tokens", CLQ_SHAPE(s.outer, s.heads, s.tokens, s.others)));
    if (s.others != of_key.others)
        return clq_fail(CLQ_ERROR_ARGUMENT, "there are %zu keys and %zu values", of_key.others, s.others);
    CLQ_TRY(check_masks(model, layer, y, &s));
    y->shape = *query;
    y->shape.dims[query->rank - 1] = s.output;
    return CLQ_OK;
}

static clq_status declare_part(clq_model *model, clq_layer *layer, const char *const names[2], unsigned number,
                               clq_shape kernel, clq_shape bias) {
    const clq_attention_config *config = &config_of(layer)->all;
    clq_variable_kind of_kernel = clq_variable_kind_by(&clq_variable_kernel, &config->kernel_initialiser),
                      of_bias = clq_variable_kind_by(&clq_variable_bias, &config->bias_initialiser);
    of_kernel.what = names[0];
    of_bias.what = names[1];
    CLQ_TRY(clq_model_declare_variable(model, layer, number, kernel, &of_kernel));
    if (config->no_bias || (number == KEY_KERNEL && config_of(layer)->no_key_bias)) return CLQ_OK;
    return clq_model_declare_variable(model, layer, number + 1, bias, &of_bias);
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    static const char *const names[][2] = {{"query/kernel", "query/bias"},
                                           {"key/kernel", "key/bias"},
                                           {"value/kernel", "value/bias"},
                                           {"attention_output/kernel", "attention_output/bias"},
                                           {"gate/kernel", "gate/bias"}};
    const clq_shape *query = &input_of(model, layer, y, 0)->shape, *value = &input_of(model, layer, y, 1)->shape,
                    *key = &input_of(model, layer, y, 2)->shape;
    clq_attention_sizes s;
    CLQ_TRY(find_sizes(&config_of(layer)->all, query, value, &s));
    const size_t d = query->dims[query->rank - 1], of_key = key->dims[key->rank - 1],
                 of_value = value->dims[value->rank - 1], shared = key_heads_of(config_of(layer));
    CLQ_TRY(
        declare_part(model, layer, names[0], QUERY_KERNEL, CLQ_SHAPE(d, s.heads, s.key), CLQ_SHAPE(s.heads, s.key)));
    CLQ_TRY(
        declare_part(model, layer, names[1], KEY_KERNEL, CLQ_SHAPE(of_key, shared, s.key), CLQ_SHAPE(shared, s.key)));
    if (config_of(layer)->gate)
        CLQ_TRY(declare_part(model, layer, names[4], GATE_KERNEL, CLQ_SHAPE(d, s.heads, s.value),
                             CLQ_SHAPE(s.heads, s.value)));
    CLQ_TRY(declare_part(model, layer, names[2], VALUE_KERNEL, CLQ_SHAPE(of_value, shared, s.value),
                         CLQ_SHAPE(shared, s.value)));
    CLQ_TRY(declare_part(model, layer, names[3], OUTPUT_KERNEL, CLQ_SHAPE(s.heads, s.value, s.output),
                         CLQ_SHAPE(s.output)));
    return clq_attention_declare_caches(model, layer, CACHES, shared * s.key, shared * s.value);
}

/* Rows of `in` numbers times the kernel, plus the bias if the layer has one. */
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

/* z times the sigmoid of the query's product with the gate's kernel. */
static clq_id apply_gate(clq_expansion *e, const clq_attention_sizes *s, clq_id query, size_t channels, clq_id z) {
    clq_node of;
    const clq_parts parts = clq_expand_parts(e, &of);
    const clq_id gate = project(e, query, s->outer * s->tokens, channels, s->heads * s->value, GATE_KERNEL);
    return clq_part_combine(&parts, CLQ_ELEMENT_MULTIPLY, z,
                            clq_part_activate(&parts, CLQ_ACTIVATION_SIGMOID, gate, 0));
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const attention_config *config = config_of(e->layer);
    const clq_model_tensor *query = input_of(e->model, e->layer, e->y, 0),
                           *value = input_of(e->model, e->layer, e->y, 1), *key = input_of(e->model, e->layer, e->y, 2);
    clq_attention_core c = {.causal = config->all.causal,
                            .window = config->window,
                            .dropout = config->all.dropout,
                            .seed = config->all.seed};
    (void)find_sizes(&config->all, &query->shape, &value->shape, &c.s); /* as it was inferred */
    c.scale = 1 / sqrt((double)c.s.key);
    c.zeros = c.dropout > 0 || query->shape.rank != 2; /* Keras uses its Softmax layer then */
    clq_attention_take_mask(&c, x, config->query_mask, true, false);
    clq_attention_take_mask(&c, x, config->value_mask, false, true);
    clq_attention_take_mask(&c, x, config->key_mask, false, true);
    if (config->mask)
        clq_attention_take_mask(&c, x, config->mask,
                                clq_model_input_of(e->model, e->y, config->mask - 1)->shape.dims[0] > 1, true);
    const size_t rows = c.s.outer * c.s.tokens, others = c.s.outer * c.s.others, shared = key_heads_of(config);
    const clq_id q = project(e, x[0], rows, clq_model_channels(query), c.s.heads * c.s.key, QUERY_KERNEL);
    clq_id k =
        project(e, x[place_of(e->layer, e->y, 2)], others, clq_model_channels(key), shared * c.s.key, KEY_KERNEL);
    clq_id v =
        project(e, x[place_of(e->layer, e->y, 1)], others, clq_model_channels(value), shared * c.s.value, VALUE_KERNEL);
    clq_id z = 0;
    if (e->model->decodes) {
        z = clq_expand_cached(e, &c, shared, CACHES, q, k, v);
    } else {
        k = clq_attention_repeat_heads(e, &CLQ_SHAPE(others, shared, c.s.key), c.s.heads, k);
        v = clq_attention_repeat_heads(e, &CLQ_SHAPE(others, shared, c.s.value), c.s.heads, v);
        z = k && v ? clq_expand_attended(e, &c, q, k, v) : 0;
    }
    if (config->gate && z) z = apply_gate(e, &c.s, x[0], clq_model_channels(query), z);
    clq_node node = clq_expand_node(e, &clq_op_dense);
    node.attributes.dense =
        (clq_dense_problem){.in = c.s.heads * c.s.value, .out = c.s.output, .rows_per_example = rows};
    node.inputs[1] = clq_expand_weight(e, OUTPUT_KERNEL);
    node.inputs[2] = clq_expand_weight(e, OUTPUT_BIAS);
    return z ? clq_expand_unary(e, node, z) : 0;
}

static bool is_by_token(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y) {
    return config_of(layer)->all.causal && count_tokens(layer, y) == y->input_count &&
           clq_attention_is_used_once(model, y);
}

static const char *const input_names[] = {"query", "value", "key", NULL, NULL, NULL, NULL};
static const char *const stores[] = {[QUERY_KERNEL] = "query_dense/vars/0",   [QUERY_BIAS] = "query_dense/vars/1",
                                     [KEY_KERNEL] = "key_dense/vars/0",       [KEY_BIAS] = "key_dense/vars/1",
                                     [VALUE_KERNEL] = "value_dense/vars/0",   [VALUE_BIAS] = "value_dense/vars/1",
                                     [OUTPUT_KERNEL] = "output_dense/vars/0", [OUTPUT_BIAS] = "output_dense/vars/1",
                                     [GATE_KERNEL] = "_gate_dense/vars/0",    [GATE_BIAS] = "_gate_dense/vars/1"};
static const char *const grouped_stores[] = {
    [QUERY_KERNEL] = "_query_dense/vars/0",   [QUERY_BIAS] = "_query_dense/vars/1",
    [KEY_KERNEL] = "_key_dense/vars/0",       [KEY_BIAS] = "_key_dense/vars/1",
    [VALUE_KERNEL] = "_value_dense/vars/0",   [VALUE_BIAS] = "_value_dense/vars/1",
    [OUTPUT_KERNEL] = "_output_dense/vars/0", [OUTPUT_BIAS] = "_output_dense/vars/1",
    [GATE_KERNEL] = "_gate_dense/vars/0",     [GATE_BIAS] = "_gate_dense/vars/1"};
#define KIND(kind, class_name, name_stem, least, rows, places, ends)                                                   \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .input_names = input_names,                                                           \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {(least), 7},                                                               \
                                 .further = CLQ_ATTENTION_SCORES,                                                      \
                                 CLQ_LAYER_CONFIG(attention_config, rows),                                             \
                                 .draws = true,                                                                        \
                                 .mask = clq_layer_keep_mask,                                                          \
                                 .ends_masks = (ends),                                                                 \
                                 .by_token = is_by_token,                                                              \
                                 .infer = infer,                                                                       \
                                 .declare = declare,                                                                   \
                                 .stores = (places),                                                                   \
                                 .expand = expand}
KIND(clq_layer_attention, "MultiHeadAttention", "multi_head_attention", 1, attributes, stores, true);
KIND(clq_layer_grouped_attention, "GroupQueryAttention", "grouped_query_attention", 2, grouped_attributes,
     grouped_stores, false);

clq_tensor clq_attention(clq_model *model, const clq_tensor *inputs, size_t count, const clq_attention_config *config) {
    CLQ_LAYER_KNOWS(model, clq_attention_config, config);
    const attention_config all = {.all = config ? *config : (clq_attention_config){0}};
    if (count == 1) { /* the query is the value, too, as files have it */
        const clq_tensor twice[] = {inputs[0], inputs[0]};
        return clq_model_add_layer(model, &clq_layer_attention, all.all.name, &all, twice, CLQ_COUNT_OF(twice));
    }
    return clq_model_add_layer(model, &clq_layer_attention, all.all.name, &all, inputs, count);
}
