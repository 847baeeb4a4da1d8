/* Activation, ReLU and Softmax. */
#include "graph/layers/layer.h"

clq_status clq_layer_check_activation(clq_activation activation) {
    if (clq_activation_row_of(activation)) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT, "activation %d is none of clq_activation", (int)activation);
}

typedef struct activation_config {
    clq_activation activation;
} activation_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("activation", CLQ_ATTRIBUTE_ACTIVATION, activation_config, activation)},
};
static clq_id expand(clq_expansion *e, const clq_id *x) {
    return clq_expand_activation(e, ((const activation_config *)e->layer->config)->activation, x[0]);
}
const clq_layer_kind clq_layer_activation = {.type = "Activation",
                                             .stem = "activation",
                                             .inputs = {1, 1},
                                             CLQ_LAYER_CONFIG(activation_config, attributes),
                                             .infer = clq_layer_keep_shape,
                                             .expand = expand};

static const clq_attribute relu_attributes[] = {
    {.key = "negative_slope", .type = CLQ_ATTRIBUTE_ONLY_NUMBER},
    {.key = "threshold", .type = CLQ_ATTRIBUTE_ONLY_NUMBER},
};
static clq_id expand_relu(clq_expansion *e, const clq_id *x) { return clq_expand_activation(e, CLQ_RELU, x[0]); }
const clq_layer_kind clq_layer_relu = {.type = "ReLU",
                                       .stem = "re_lu",
                                       .inputs = {1, 1},
                                       CLQ_LAYER_ATTRIBUTES(relu_attributes),
                                       .infer = clq_layer_keep_shape,
                                       .expand = expand_relu};

static const clq_attribute softmax_attributes[] = {{.key = "axis", .type = CLQ_ATTRIBUTE_ONLY_NUMBER, .fallback = -1}};
static clq_id expand_softmax(clq_expansion *e, const clq_id *x) { return clq_expand_activation(e, CLQ_SOFTMAX, x[0]); }
const clq_layer_kind clq_layer_softmax = {.type = "Softmax",
                                          .stem = "softmax",
                                          .inputs = {1, 1},
                                          CLQ_LAYER_ATTRIBUTES(softmax_attributes),
                                          .infer = clq_layer_keep_shape,
                                          .expand = expand_softmax};

clq_tensor clq_activate(clq_model *model, clq_tensor x, clq_activation activation, const char *name) {
    const activation_config config = {activation};
    return activation == CLQ_SOFTMAX ? clq_model_add_layer(model, &clq_layer_softmax, name, NULL, &x, 1)
                                     : clq_model_add_layer(model, &clq_layer_activation, name, &config, &x, 1);
}
