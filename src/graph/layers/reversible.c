/* ReversibleEmbedding gives rows of a table by number. In reverse, it multiplies rows of channels with each row of the
 * table (Press and Wolf, "Using the Output Embedding to Improve Language Models", 2017), or with a matrix of its own. A
 * reverse use has its tensor twice as input. As in Keras 3.15, the layer gives no mask, even with mask_zero. */
#include "graph/layers/layer.h"

enum { TABLE, REVERSE };

typedef struct reversible_config {
    size_t rows, width;
    clq_initialiser initialiser;
    bool mask_zero, untied; /* untied: the reverse has a matrix of its own */
    double cap;             /* soft cap of what the reverse gives; 0: none */
} reversible_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("input_dim", CLQ_ATTRIBUTE_SIZES, reversible_config, rows), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("output_dim", CLQ_ATTRIBUTE_SIZES, reversible_config, width), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("embeddings_initializer", CLQ_ATTRIBUTE_INITIALISER, reversible_config, initialiser)},
    {CLQ_LAYER_ATTRIBUTE("mask_zero", CLQ_ATTRIBUTE_FLAG, reversible_config, mask_zero)},
    {CLQ_LAYER_ATTRIBUTE("tie_weights", CLQ_ATTRIBUTE_OPPOSITE, reversible_config, untied)},
    {CLQ_LAYER_ATTRIBUTE("logit_soft_cap", CLQ_ATTRIBUTE_NUMBER, reversible_config, cap), .most = 1e6},
    {.key = "reverse_dtype", .type = CLQ_ATTRIBUTE_ONLY_FLOAT},
};

static const reversible_config *config_of(const clq_layer *layer) { return layer->config; }
static bool is_reverse(const clq_model_tensor *y) { return y->input_count == 2; }

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const reversible_config *config = config_of(layer);
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    y->shape = *x;
    if (config->rows >= 1u << 24) /* token numbers arrive as floats, which have all whole numbers below 2^24 */
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "input_dim %zu is not supported; below %u is", config->rows, 1u << 24);
    if (!is_reverse(y)) {
        if (x->rank == CLQ_SHAPE_MAX) return clq_fail(CLQ_ERROR_UNSUPPORTED, "its output would have too many axes");
        y->shape.dims[y->shape.rank++] = config->width;
        return CLQ_OK;
    }
    char text[CLQ_SHAPE_TEXT_MAX];
    if (x->rank == 0 || x->dims[x->rank - 1] != config->width)
        return clq_fail(CLQ_ERROR_ARGUMENT, "in reverse it takes rows of %zu channels, not %s", config->width,
                        clq_shape_describe(x, text));
    y->shape.dims[x->rank - 1] = config->rows;
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    static const clq_variable_kind kind = {
        .what = "embeddings", .initialiser = {.kind = CLQ_INITIALISER_UNIFORM, .low = -0.05, .high = 0.05}};
    const reversible_config *config = config_of(layer);
    clq_variable_kind table = clq_variable_kind_by(&kind, &config->initialiser);
    (void)y;
    CLQ_TRY(clq_model_declare_variable(model, layer, TABLE, CLQ_SHAPE(config->rows, config->width), &table));
    table.what = "reverse_embeddings";
    if (!config->untied) return CLQ_OK;
    return clq_model_declare_variable(model, layer, REVERSE, CLQ_SHAPE(config->width, config->rows), &table);
}

/* The matrix of the reverse, (width, rows). */
static clq_id expand_matrix(clq_expansion *e) {
    const reversible_config *config = config_of(e->layer);
    if (config->untied) return clq_expand_weight(e, REVERSE);
    const size_t sizes[] = {config->rows, config->width};
    const clq_arrangement table = clq_arrangement_of(2, sizes);
    clq_arrangement turned = table;
    turned.axes[0] = table.axes[1];
    turned.axes[1] = table.axes[0];
    return clq_expand_arranged_weight(e, &turned, &CLQ_SHAPE(config->width, config->rows), clq_expand_weight(e, TABLE));
}

static clq_id expand_reverse(clq_expansion *e, clq_id x) {
    const reversible_config *config = config_of(e->layer);
    clq_node node = clq_expand_node(e, &clq_op_dense);
    node.attributes.dense = (clq_dense_problem){
        .in = config->width, .out = config->rows, .rows_per_example = e->y->elements / config->rows};
    node.inputs[1] = expand_matrix(e);
    (void)clq_expand_weight(e, TABLE);
    return clq_expand_capped(e, &e->y->shape, config->cap, node.inputs[1] ? clq_expand_unary(e, node, x) : 0);
}

/* A matrix that no use needs gets a gradient of 0. */
static clq_id expand(clq_expansion *e, const clq_id *x) {
    const reversible_config *config = config_of(e->layer);
    if (is_reverse(e->y)) return expand_reverse(e, x[0]);
    clq_node node = clq_expand_node(e, &clq_op_gather);
    node.attributes.gather = (clq_gather_problem){
        .tokens = clq_model_input_of(e->model, e->y, 0)->elements, .rows = config->rows, .width = config->width};
    node.inputs[1] = clq_expand_weight(e, TABLE);
    (void)clq_expand_weight(e, REVERSE);
    return clq_expand_unary(e, node, x[0]);
}

static size_t rows_of(const clq_layer *layer) { return config_of(layer)->rows; }

const clq_layer_kind clq_layer_reversible_embedding = {.type = "ReversibleEmbedding",
                                                       .stem = "reversible_embedding",
                                                       .inputs = {1, 2},
                                                       CLQ_LAYER_CONFIG(reversible_config, attributes),
                                                       .takes_scalars = true,
                                                       .opposite = "reverse",
                                                       .rows = rows_of,
                                                       .by_token = clq_layer_is_of_tokens,
                                                       .infer = infer,
                                                       .declare = declare,
                                                       .expand = expand};
