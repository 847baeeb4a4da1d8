/* InputLayer. */
#include "graph/layers/layer.h"

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    y->shape = layer->config.shape;
    if (!model->input) return CLQ_OK;
    return clq_fail(CLQ_UNSUPPORTED, "model %s has an input already, and only one is supported", model->name);
}

static clq_id expand(clq_expansion *e, const clq_model_tensor *y, const clq_id *x) {
    (void)x;
    return clq_expand_input(e, y);
}

const clq_layer_kind clq_layer_input = {.type = "InputLayer", .stem = "input_layer", .infer = infer, .expand = expand};

clq_tensor clq_model_add_input(clq_model *model, clq_shape shape, const char *name) {
    const clq_layer_config config = {.shape = shape};
    clq_tensor x = clq_model_add_layer(model, &clq_layer_input, name, &config, NULL, 0);
    if (x.id) model->input = x.id;
    return x;
}

clq_tensor clq_input(clq_model *model, clq_shape shape) { return clq_model_add_input(model, shape, NULL); }
