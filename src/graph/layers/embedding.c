/* Embedding, which gives rows of a table by number. Also OnesLike, ZerosLike and Cumsum of keras.ops. */
#include "graph/layers/layer.h"

#define NUMPY "keras.src.ops.numpy"

static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("input_dim", CLQ_ATTRIBUTE_SIZES, clq_embedding_config, rows), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("output_dim", CLQ_ATTRIBUTE_SIZES, clq_embedding_config, width), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("embeddings_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_embedding_config, initialiser)},
    {CLQ_LAYER_ATTRIBUTE("mask_zero", CLQ_ATTRIBUTE_FLAG, clq_embedding_config, mask_zero)},
    {.key = "input_length", .type = CLQ_ATTRIBUTE_UNUSED},
};
static const clq_variable_kind table_kind = {
    .what = "embeddings", .initialiser = {.kind = CLQ_INITIALISER_UNIFORM, .low = -0.05, .high = 0.05}};

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_embedding_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    if (x->rank == CLQ_SHAPE_MAX) return clq_fail(CLQ_ERROR_UNSUPPORTED, "its output would have too many axes");
    if (config->rows >= 1u << 24) /* token numbers arrive as floats, which have all whole numbers below 2^24 */
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "input_dim %zu is not supported; below %u is", config->rows, 1u << 24);
    y->shape = *x;
    y->shape.dims[y->shape.rank++] = config->width;
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_embedding_config *config = layer->config;
    const clq_variable_kind table = clq_variable_kind_by(&table_kind, &config->initialiser);
    (void)y;
    return clq_model_declare_variable(model, layer, CLQ_KERNEL, CLQ_SHAPE(config->rows, config->width), &table);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_embedding_config *config = e->layer->config;
    clq_node node = clq_expand_node(e, &clq_op_gather);
    node.attributes.gather = (clq_gather_problem){
        .tokens = clq_model_input_of(e->model, e->y, 0)->elements, .rows = config->rows, .width = config->width};
    node.inputs[1] = clq_expand_weight(e, CLQ_KERNEL);
    return clq_expand_unary(e, node, x[0]);
}

static size_t rows_of(const clq_layer *layer) { return ((const clq_embedding_config *)layer->config)->rows; }

/* With mask_zero, token 0 does not count. */
static clq_tensor make_mask(clq_model *model, uint32_t id, clq_tensor y) {
    const clq_layer *layer = &model->layers[id - 1];
    const clq_tensor x = {.model = model, .id = model->inputs[model->tensors[y.id - 1].first_input]};
    if (!((const clq_embedding_config *)layer->config)->mask_zero) return (clq_tensor){0};
    return clq_model_add_mask(model, layer->name, x);
}

const clq_layer_kind clq_layer_embedding = {.type = "Embedding",
                                            .stem = "embedding",
                                            .inputs = {1, 1},
                                            CLQ_LAYER_CONFIG(clq_embedding_config, attributes),
                                            .takes_scalars = true,
                                            .is_table = true,
                                            .rows = rows_of,
                                            .mask = make_mask,
                                            .by_token = clq_layer_is_of_tokens,
                                            .infer = infer,
                                            .declare = declare,
                                            .expand = expand};

clq_tensor clq_embedding(clq_model *model, clq_tensor x, const clq_embedding_config *config) {
    CLQ_LAYER_KNOWS(model, clq_embedding_config, config);
    return clq_model_add_layer(model, &clq_layer_embedding, config ? config->name : NULL, config, &x, 1);
}

size_t clq_layer_rows(const clq_layer *layer) { return layer->kind->rows ? layer->kind->rows(layer) : 0; }

/* ---- numbers that do not depend on the input ---- */

static clq_id add_constant(clq_expansion *e, double number) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = number});
    node.outputs[0] = clq_expand_value(e, &e->y->shape, e->y->elements);
    return clq_graph_add_node(e->graph, &node);
}
static clq_id expand_ones(clq_expansion *e, const clq_id *x) {
    (void)x;
    return add_constant(e, 1);
}
static clq_id expand_zeros(clq_expansion *e, const clq_id *x) {
    (void)x;
    return add_constant(e, 0);
}
/* Any type is accepted, also types of whole numbers. */
static const clq_attribute numbers_attributes[] = {{.key = "dtype", .type = CLQ_ATTRIBUTE_UNUSED}};
#define NUMBERS(name, class_name, name_stem)                                                                           \
    const clq_layer_kind clq_layer_op_##name = {.type = (class_name),                                                  \
                                                .stem = (name_stem),                                                   \
                                                .module = NUMPY,                                                       \
                                                .inputs = {1, 1},                                                      \
                                                CLQ_LAYER_ATTRIBUTES(numbers_attributes),                              \
                                                .takes_scalars = true,                                                 \
                                                .by_token = clq_layer_is_by_token,                                     \
                                                .infer = clq_layer_keep_shape,                                         \
                                                .expand = expand_##name}
NUMBERS(ones, "OnesLike", "ones_like");
NUMBERS(zeros, "ZerosLike", "zeros_like");

/* ---- cumulative sums: a product with a triangle of ones ---- */

typedef struct cumsum_config {
    int axis;
} cumsum_config;
static const clq_attribute cumsum_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXIS, cumsum_config, axis), .needed = true},
};

static clq_status infer_cumsum(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    enum { PLACES_MOST = 4096 }; /* the triangle has the square of this many numbers */
    const int given = ((const cumsum_config *)layer->config)->axis;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    unsigned axis;
    if (!clq_find_axis(&y->shape, given, &axis)) return clq_fail(CLQ_ERROR_ARGUMENT, "its input has no axis %d", given);
    if (y->shape.dims[axis] <= PLACES_MOST) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "%zu places along axis %d are more than the %d that are supported",
                    y->shape.dims[axis], given, PLACES_MOST);
}

/* The Cumsum of a OnesLike is each token's place, counted from 1. No other Cumsum is by token. */
static bool cumsum_is_by_token(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y) {
    const clq_model_tensor *x = clq_model_input_of(model, y, 0);
    (void)layer;
    return y->shape.rank == 1 && model->layers[x->layer - 1].kind == &clq_layer_op_ones;
}
static clq_id expand_place(clq_expansion *e) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned place = clq_element_take(p, clq_each_element),
                   one = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 1});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = place, .b = one});
    return clq_expand_unary(e, node, clq_expand_places(e));
}

static clq_id expand_cumsum(clq_expansion *e, const clq_id *x) {
    if (e->model->decodes) return expand_place(e);
    const clq_shape *shape = &e->y->shape;
    unsigned axis = 0;
    (void)clq_find_axis(shape, ((const cumsum_config *)e->layer->config)->axis, &axis); /* as it was inferred */
    const size_t n = shape->dims[axis];
    size_t outer = 1, inner = 1;
    for (unsigned d = 0; d < shape->rank; d++) *(d < axis ? &outer : &inner) *= d == axis ? 1 : shape->dims[d];
    float *triangle = clq_alloc(n * n, sizeof *triangle);
    if (!triangle) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < n * n; i++) triangle[i] = i % n <= i / n;
    const clq_id y =
        clq_layer_expand_mixed(e, &(clq_mixture){.to = n, .from = n, .outer = outer, .inner = inner}, triangle, x[0]);
    clq_free(triangle);
    return y;
}
const clq_layer_kind clq_layer_op_cumsum = {.type = "Cumsum",
                                            .stem = "cumsum",
                                            .module = NUMPY,
                                            .inputs = {1, 1},
                                            CLQ_LAYER_CONFIG(cumsum_config, cumsum_attributes),
                                            .by_token = cumsum_is_by_token,
                                            .infer = infer_cumsum,
                                            .expand = expand_cumsum};
