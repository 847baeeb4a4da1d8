/* Activation and Softmax. */
#include "graph/layers/layer.h"

clq_status clq_layer_check_activation(clq_activation activation) {
    if (clq_activation_row_of(activation)) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT, "activation %d is none of clq_activation", (int)activation);
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    CLQ_TRY(clq_layer_check_activation(layer->config.activation));
    y->shape = clq_model_input_of(model, y, 0)->shape;
    return CLQ_OK;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    return clq_expand_activation(e, e->layer->config.activation, x[0]);
}

const clq_layer_kind clq_layer_activation = {
    .type = "Activation", .stem = "activation", .inputs = {1, 1}, .infer = infer, .expand = expand};
const clq_layer_kind clq_layer_softmax = {
    .type = "Softmax", .stem = "softmax", .inputs = {1, 1}, .infer = infer, .expand = expand};

clq_tensor clq_activate(clq_model *model, clq_tensor x, clq_activation activation, const char *name) {
    return clq_model_add_layer(model, activation == CLQ_SOFTMAX ? &clq_layer_softmax : &clq_layer_activation, name,
                               &(clq_layer_config){.activation = activation}, &x, 1);
}
