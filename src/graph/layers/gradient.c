/* Layers that change only the gradient: their output is their input. */
#include "graph/layers/layer.h"

#include <float.h>

static clq_id expand_stop(clq_expansion *e, const clq_id *x) {
    return clq_expand_unary(e, clq_expand_node(e, &clq_op_stop_gradient), x[0]);
}

/* The function of keras.ops. Like all functions of keras.ops, it ends masks. */
const clq_layer_kind clq_layer_op_stop_gradient = {.type = "StopGradient",
                                                   .stem = "stop_gradient",
                                                   .module = "keras.src.ops.core",
                                                   .inputs = {1, 1},
                                                   .moves = true,
                                                   .takes_scalars = true,
                                                   .infer = clq_layer_keep_shape,
                                                   .expand = expand_stop};
static const clq_layer_kind stop_gradient = {.type = "StopGradient",
                                             .stem = "stop_gradient",
                                             .module = "clique",
                                             .inputs = {1, 1},
                                             .moves = true,
                                             .takes_scalars = true,
                                             .mask = clq_layer_keep_mask,
                                             .infer = clq_layer_keep_shape,
                                             .expand = expand_stop};

typedef struct scale_config {
    double factor;
} scale_config;
static const clq_attribute scale_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("factor", CLQ_ATTRIBUTE_NUMBER, scale_config, factor), .needed = true,
     .least = -(double)FLT_MAX, .most = (double)FLT_MAX},
};

static clq_id expand_scale(clq_expansion *e, const clq_id *x) {
    const double factor = ((const scale_config *)e->layer->config)->factor;
    if (factor == 0) return expand_stop(e, x);
    clq_node node = clq_expand_node(e, &clq_op_scale_gradient);
    node.attributes.factor = (float)factor;
    return clq_expand_unary(e, node, x[0]);
}
static const clq_layer_kind gradient_scale = {.type = "GradientScale",
                                              .stem = "gradient_scale",
                                              .module = "clique",
                                              .inputs = {1, 1},
                                              CLQ_LAYER_CONFIG(scale_config, scale_attributes),
                                              .moves = true,
                                              .takes_scalars = true,
                                              .mask = clq_layer_keep_mask,
                                              .infer = clq_layer_keep_shape,
                                              .expand = expand_scale};

/* ---- builders ---- */

clq_tensor clq_stop_gradient(clq_model *model, clq_tensor x, const char *name) {
    return clq_model_add_layer(model, &stop_gradient, name, NULL, &x, 1);
}

clq_tensor clq_gradient_scale(clq_model *model, clq_tensor x, double factor, const char *name) {
    return clq_model_add_layer(model, &gradient_scale, name, &(scale_config){factor}, &x, 1);
}
