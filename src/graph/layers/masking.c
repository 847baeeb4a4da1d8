/* Masking: steps whose numbers are all 0 do not count. They are 0 already, so the layer itself changes no number. */
#include "graph/layers/layer.h"

#include <math.h>

typedef struct masking_config {
    double value;
} masking_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("mask_value", CLQ_ATTRIBUTE_NUMBER, masking_config, value), .least = -INFINITY,
     .most = INFINITY},
};

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const masking_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    if (config->value != 0)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "a mask_value of %g: only 0 is supported", config->value);
    if (x->rank < 2) return clq_fail(CLQ_ERROR_ARGUMENT, "its input should have steps and channels");
    y->shape = *x;
    return CLQ_OK;
}

static clq_tensor make_mask(clq_model *model, uint32_t id, clq_tensor y) {
    const clq_tensor x = {.model = model, .id = model->inputs[model->tensors[y.id - 1].first_input]};
    const clq_reduction_config last = {.axes = {.count = 1, .axes = {-1}}};
    const clq_tensor numbers = clq_model_add_mask(model, model->layers[id - 1].name, x);
    return clq_model_add_mask_of(model, model->layers[id - 1].name, &clq_layer_op_any, &last, &numbers, 1);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    return clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), x[0]);
}

const clq_layer_kind clq_layer_masking = {.type = "Masking",
                                          .stem = "masking",
                                          .inputs = {1, 1},
                                          CLQ_LAYER_CONFIG(masking_config, attributes),
                                          .moves = true,
                                          .mask = make_mask,
                                          .infer = infer,
                                          .expand = expand};
