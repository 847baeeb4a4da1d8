/* CategoryEncoding and keras.ops.one_hot: whole numbers as rows of a table of ones and zeros. */
#include "graph/layers/layer.h"

enum { ONE_HOT, MULTI_HOT, COUNT };
static const char *const modes[] = {"one_hot", "multi_hot", "count", NULL};

typedef struct encoding_config {
    size_t tokens;
    int mode;
} encoding_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("num_tokens", CLQ_ATTRIBUTE_SIZES, encoding_config, tokens), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("output_mode", CLQ_ATTRIBUTE_CHOICE, encoding_config, mode), .words = modes,
     .fallback = MULTI_HOT},
    {.key = "sparse", .type = CLQ_ATTRIBUTE_ONLY_FALSE},
};
static const clq_attribute one_hot_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("num_classes", CLQ_ATTRIBUTE_SIZES, encoding_config, tokens), .needed = true},
    {.key = "axis", .type = CLQ_ATTRIBUTE_ONLY_NUMBER, .fallback = -1},
    {.key = "dtype", .type = CLQ_ATTRIBUTE_ONLY_FLOAT},
    {.key = "sparse", .type = CLQ_ATTRIBUTE_ONLY_FALSE},
};

static size_t rows_of(const clq_layer *layer) { return ((const encoding_config *)layer->config)->tokens; }

static clq_status check_table(size_t tokens) {
    enum { TOKENS_MOST = 8192 }; /* the table has the square of this many numbers */
    if (tokens <= TOKENS_MOST) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED,
                    "%zu different numbers are more than the %d that are supported: use an Embedding", tokens,
                    TOKENS_MOST);
}

/* x (…) -> (…, tokens). The last axis of x is dropped if it has one place, or if the mode combines its numbers. */
static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const encoding_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(check_table(config->tokens));
    y->shape = *x;
    if (x->rank > 0 && (config->mode != ONE_HOT || x->dims[x->rank - 1] == 1)) y->shape.rank--;
    if (y->shape.rank == CLQ_SHAPE_MAX) return clq_fail(CLQ_ERROR_UNSUPPORTED, "its output would have too many axes");
    y->shape.dims[y->shape.rank++] = config->tokens;
    return CLQ_OK;
}
static clq_status infer_one_hot(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    y->shape = clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(check_table(rows_of(layer)));
    if (y->shape.rank == CLQ_SHAPE_MAX) return clq_fail(CLQ_ERROR_UNSUPPORTED, "its output would have too many axes");
    y->shape.dims[y->shape.rank++] = rows_of(layer);
    return CLQ_OK;
}

/* Gathers the table's row for each number of x. */
static clq_id add_rows(clq_expansion *e, clq_id x, const clq_shape *shape) {
    const size_t rows = rows_of(e->layer), tokens = clq_model_input_of(e->model, e->y, 0)->elements;
    float *table = clq_alloc(rows * rows, sizeof *table);
    if (!table) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < rows; i++) table[i * rows + i] = 1;
    clq_node node = clq_expand_node(e, &clq_op_gather);
    node.attributes.gather = (clq_gather_problem){.tokens = tokens, .rows = rows, .width = rows};
    node.inputs[0] = x;
    node.inputs[1] = clq_graph_add_constant(e->graph, "table", &CLQ_SHAPE(rows, rows), rows * rows, table);
    node.outputs[0] = clq_expand_value(e, shape, tokens * rows);
    clq_free(table);
    return node.inputs[1] ? clq_graph_add_node(e->graph, &node) : 0;
}

clq_id clq_layer_expand_classes(clq_expansion *e, clq_id x, size_t numbers, size_t classes) {
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    const clq_shape rows = CLQ_SHAPE(numbers, classes);
    float *known = clq_alloc(classes, sizeof *known);
    if (!known) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < classes; i++) known[i] = (float)i;
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element), class_of = clq_element_take(p, by_channel);
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_EQUAL, .a = number, .b = class_of});
    clq_node flat = clq_expand_node(e, &clq_op_reshape);
    flat.inputs[0] = clq_expand_repeated(e, &CLQ_SHAPE(numbers, 1), &rows, x);
    flat.outputs[0] = clq_expand_value(e, &rows, numbers * classes);
    node.inputs[1] = clq_graph_add_constant(e->graph, "classes", &CLQ_SHAPE(classes), classes, known);
    clq_free(known);
    if (!flat.inputs[0] || !node.inputs[1]) return 0;
    node.inputs[0] = clq_graph_add_node(e->graph, &flat);
    node.outputs[0] = clq_expand_value(e, &rows, numbers * classes);
    return node.inputs[0] ? clq_graph_add_node(e->graph, &node) : 0;
}

/* Numbers that come from the sample are checked before they are read, so they can index the table. Other numbers may be
 * no class. */
static clq_id expand_one_hot(clq_expansion *e, const clq_id *x) {
    const bool own = clq_model_find_own(e->model, clq_model_input_of(e->model, e->y, 0));
    if (own) return add_rows(e, x[0], &e->y->shape);
    const size_t classes = rows_of(e->layer);
    const clq_id made = clq_layer_expand_classes(e, x[0], e->y->elements / classes, classes);
    return made ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), made) : 0;
}

clq_id clq_layer_expand_at_most_one(clq_expansion *e, clq_id x) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    const unsigned one = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 1});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MINIMUM, .a = number, .b = one});
    return clq_expand_unary(e, node, x);
}

/* Adds up the rows of the numbers that are combined, which counts them. With MULTI_HOT a count is at most one. */
static clq_id expand(clq_expansion *e, const clq_id *x) {
    const encoding_config *config = e->layer->config;
    const size_t rows = config->tokens, numbers = clq_model_input_of(e->model, e->y, 0)->elements,
                 together = numbers * rows / e->y->elements;
    if (together == 1) return add_rows(e, x[0], &e->y->shape);
    const clq_shape shape = CLQ_SHAPE(numbers, rows);
    clq_node node = clq_expand_node(e, &clq_op_reduce);
    node.attributes.repeat =
        (clq_repeat_problem){.outer = numbers / together, .repeats = together, .inner = rows, .scale = 1};
    const clq_id each = add_rows(e, x[0], &shape), sum = each ? clq_expand_unary(e, node, each) : 0;
    if (config->mode == COUNT || !sum) return sum;
    return clq_layer_expand_at_most_one(e, sum);
}

const clq_layer_kind clq_layer_category_encoding = {.type = "CategoryEncoding",
                                                    .stem = "category_encoding",
                                                    .inputs = {1, 1},
                                                    CLQ_LAYER_CONFIG(encoding_config, attributes),
                                                    .takes_scalars = true,
                                                    .rows = rows_of,
                                                    .infer = infer,
                                                    .expand = expand};
const clq_layer_kind clq_layer_op_one_hot = {.type = "OneHot",
                                             .stem = "one_hot",
                                             .module = "keras.src.ops.nn",
                                             .inputs = {1, 1},
                                             CLQ_LAYER_CONFIG(encoding_config, one_hot_attributes),
                                             .takes_scalars = true,
                                             .rows = rows_of,
                                             .infer = infer_one_hot,
                                             .expand = expand_one_hot};
