/* Concatenate. */
#include "graph/layers/layer.h"

typedef struct concatenate_config {
    int axis; /* 0 is the first behind the batch; below 0: from the end */
} concatenate_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXIS, concatenate_config, axis), .fallback = -1},
};

static bool joins(const clq_shape *a, const clq_shape *b, unsigned axis) {
    if (a->rank != b->rank) return false;
    for (unsigned d = 0; d < a->rank; d++)
        if (d != axis && a->dims[d] != b->dims[d]) return false;
    return true;
}

/* For any kind whose config begins with the axis. */
clq_status clq_layer_infer_concatenated(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    char first[CLQ_SHAPE_TEXT_MAX], second[CLQ_SHAPE_TEXT_MAX];
    const concatenate_config *config = layer->config;
    unsigned axis;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    if (!clq_find_axis(&y->shape, config->axis, &axis))
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "its input %s has no axis %d: there are %u, counted from 0 behind the batch",
                        clq_shape_describe(&y->shape, first), config->axis, y->shape.rank);
    for (size_t i = 1; i < y->input_count; i++) {
        const clq_shape *x = &clq_model_input_of(model, y, i)->shape;
        if (!joins(&y->shape, x, axis))
            return clq_fail(CLQ_ERROR_ARGUMENT, "its inputs %s and %s may differ along axis %u alone",
                            clq_shape_describe(&clq_model_input_of(model, y, 0)->shape, first),
                            clq_shape_describe(x, second), axis);
        if (x->dims[axis] > SIZE_MAX - y->shape.dims[axis])
            return clq_fail(CLQ_ERROR_ARGUMENT, "it is too large along axis %u", axis);
        y->shape.dims[axis] += x->dims[axis];
    }
    return CLQ_OK;
}

/* Each row of a sample begins at the axis. In it, input i has `widths[i]` elements. */
static clq_id join(clq_expansion *e, const clq_id *x, size_t count, size_t rows) {
    clq_node node = clq_expand_node(e, &clq_op_concatenate);
    clq_concatenation *p = &node.attributes.concatenation;
    size_t elements = 0;
    *p = (clq_concatenation){.rows = rows};
    for (size_t i = 0; i < count; i++) {
        const size_t own = clq_graph_value_at(e->graph, x[i])->elements;
        node.inputs[i] = x[i];
        p->widths[i] = own / rows;
        elements += own;
    }
    const clq_shape shape = elements == e->y->elements ? e->y->shape : CLQ_SHAPE(rows, elements / rows);
    node.outputs[0] = clq_expand_value(e, &shape, elements);
    return clq_graph_add_node(e->graph, &node);
}

/* If there are more inputs than a node takes, several nodes join them. */
clq_id clq_expand_joined(clq_expansion *e, const clq_id *x, size_t rows) {
    clq_id terms[CLQ_NODE_INPUTS];
    size_t count = 0;
    for (uint32_t i = 0; i < e->y->input_count; i++) {
        if (e->graph->error.status != CLQ_OK) return 0;
        terms[count++] = x[i];
        if (count < CLQ_NODE_INPUTS || i + 1 == e->y->input_count) continue;
        terms[0] = join(e, terms, count, rows);
        count = 1;
    }
    return join(e, terms, count, rows);
}

clq_id clq_layer_expand_concatenated(clq_expansion *e, const clq_id *x) {
    unsigned axis = 0;
    size_t rows = 1;
    (void)clq_find_axis(&e->y->shape, ((const concatenate_config *)e->layer->config)->axis, &axis);
    for (unsigned d = 0; d < axis; d++) rows *= e->y->shape.dims[d];
    return clq_expand_joined(e, x, rows);
}

/* If the layer joins channels, a step counts if it counts in any input. An input without a mask counts at every step,
 * and the result then has no mask. Joining steps is refused if any input has a mask. */
static clq_tensor join_masks(clq_model *model, uint32_t layer, clq_tensor y) {
    const clq_model_tensor made = model->tensors[y.id - 1];
    const int axis = ((const concatenate_config *)model->layers[layer - 1].config)->axis;
    clq_tensor mask = {0};
    uint32_t masks = 0;
    unsigned along = 0;
    for (uint32_t i = 0; i < made.input_count; i++)
        masks += model->tensors[model->inputs[made.first_input + i] - 1].mask > 0;
    if (masks == 0) return mask;
    (void)clq_find_axis(&made.shape, axis, &along); /* as it was inferred */
    if (along == 0)
        clq_error_take(clq_fail(CLQ_ERROR_UNSUPPORTED, "layer '%s': joining steps that have masks is not supported",
                                model->layers[layer - 1].name),
                       &model->error);
    if (masks < made.input_count || along == 0) return mask;
    for (uint32_t i = 0; i < made.input_count; i++) {
        const clq_tensor other = {.model = model, .id = model->tensors[model->inputs[made.first_input + i] - 1].mask};
        if (other.id == mask.id) continue;
        mask = mask.id ? clq_model_join_masks(model, model->layers[layer - 1].name, mask, other) : other;
    }
    return mask;
}

static bool is_by_token(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y) {
    unsigned axis = 0;
    (void)model;
    (void)clq_find_axis(&y->shape, ((const concatenate_config *)layer->config)->axis, &axis); /* as it was inferred */
    return axis > 0;
}

const clq_layer_kind clq_layer_concatenate = {.type = "Concatenate",
                                              .stem = "concatenate",
                                              .inputs = {2, SIZE_MAX},
                                              .takes_list = true,
                                              CLQ_LAYER_CONFIG(concatenate_config, attributes),
                                              .mask = join_masks,
                                              .by_token = is_by_token,
                                              .infer = clq_layer_infer_concatenated,
                                              .expand = clq_layer_expand_concatenated};

clq_tensor clq_concatenate(clq_model *model, const clq_tensor *inputs, size_t count, int axis, const char *name) {
    return clq_model_add_layer(model, &clq_layer_concatenate, name, &(concatenate_config){axis}, inputs, count);
}
