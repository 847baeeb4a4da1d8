/* Flatten and Reshape: the same memory in another shape. */
#include "graph/layers/layer.h"

typedef struct reshape_config {
    clq_shape shape;
} reshape_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("target_shape", CLQ_ATTRIBUTE_SHAPE, reshape_config, shape), .needed = true},
};
static const clq_attribute flatten_attributes[] = {
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
};

static clq_status infer_flatten(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    (void)layer;
    y->shape = CLQ_SHAPE(clq_model_input_of(model, y, 0)->elements);
    return CLQ_OK;
}

static clq_status infer_reshape(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_model_tensor *x = clq_model_input_of(model, y, 0);
    size_t elements;
    y->shape = ((const reshape_config *)layer->config)->shape;
    CLQ_TRY(clq_shape_elements(&y->shape, &elements));
    if (elements == x->elements) return CLQ_OK;
    char to[CLQ_SHAPE_TEXT_MAX], from[CLQ_SHAPE_TEXT_MAX];
    return clq_fail(CLQ_ERROR_ARGUMENT, "target_shape %s has %zu value%s and its input, %s, has %zu",
                    clq_shape_describe(&y->shape, to), elements, clq_plural(elements),
                    clq_shape_describe(&x->shape, from), x->elements);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    return clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), x[0]);
}

const clq_layer_kind clq_layer_flatten = {.type = "Flatten",
                                          .stem = "flatten",
                                          .inputs = {1, 1},
                                          CLQ_LAYER_ATTRIBUTES(flatten_attributes),
                                          .moves = true,
                                          .infer = infer_flatten,
                                          .expand = expand};
const clq_layer_kind clq_layer_reshape = {.type = "Reshape",
                                          .stem = "reshape",
                                          .inputs = {1, 1},
                                          CLQ_LAYER_CONFIG(reshape_config, attributes),
                                          .moves = true,
                                          .infer = infer_reshape,
                                          .expand = expand};

clq_tensor clq_flatten(clq_model *model, clq_tensor x, const char *name) {
    return clq_model_add_layer(model, &clq_layer_flatten, name, NULL, &x, 1);
}

clq_tensor clq_reshape(clq_model *model, clq_tensor x, clq_shape shape, const char *name) {
    return clq_model_add_layer(model, &clq_layer_reshape, name, &(reshape_config){shape}, &x, 1);
}
