/* Flatten and Reshape: the same memory in another shape. */
#include "graph/layers/layer.h"

static clq_status infer_flatten(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    (void)layer;
    y->shape = CLQ_SHAPE(clq_model_input_of(model, y, 0)->elements);
    return CLQ_OK;
}

static clq_status infer_reshape(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_model_tensor *x = clq_model_input_of(model, y, 0);
    size_t elements;
    y->shape = layer->config.shape;
    CLQ_TRY(clq_shape_elements(&y->shape, &elements));
    if (elements == x->elements) return CLQ_OK;
    char to[CLQ_SHAPE_TEXT_MAX], from[CLQ_SHAPE_TEXT_MAX];
    return clq_fail(CLQ_ARGUMENT, "%s has %zu value%s and its input, %s, has %zu", clq_shape_describe(&y->shape, to),
                    elements, clq_plural(elements), clq_shape_describe(&x->shape, from), x->elements);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    return clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), x[0]);
}

const clq_layer_kind clq_layer_flatten = {
    .type = "Flatten", .stem = "flatten", .inputs = {1, 1}, .infer = infer_flatten, .expand = expand};
const clq_layer_kind clq_layer_reshape = {
    .type = "Reshape", .stem = "reshape", .inputs = {1, 1}, .infer = infer_reshape, .expand = expand};

clq_tensor clq_flatten(clq_model *model, clq_tensor x, const char *name) {
    return clq_model_add_layer(model, &clq_layer_flatten, name, &(clq_layer_config){.axis = 0}, &x, 1);
}

clq_tensor clq_reshape(clq_model *model, clq_tensor x, clq_shape shape, const char *name) {
    return clq_model_add_layer(model, &clq_layer_reshape, name, &(clq_layer_config){.shape = shape}, &x, 1);
}
