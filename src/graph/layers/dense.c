/* Dense, along the last axis. */
#include "graph/layers/layer.h"

static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("units", CLQ_ATTRIBUTE_SIZES, clq_dense_config, units), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("activation", CLQ_ATTRIBUTE_ACTIVATION, clq_dense_config, activation)},
    {CLQ_LAYER_ATTRIBUTE("use_bias", CLQ_ATTRIBUTE_OPPOSITE, clq_dense_config, no_bias)},
    {CLQ_LAYER_ATTRIBUTE("kernel_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_dense_config, kernel_initialiser)},
    {CLQ_LAYER_ATTRIBUTE("bias_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_dense_config, bias_initialiser)},
};

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_dense_config *config = layer->config;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    y->shape.dims[y->shape.rank - 1] = config->units;
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_dense_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    const clq_variable_kind kernel = clq_variable_kind_by(&clq_variable_kernel, &config->kernel_initialiser),
                            bias = clq_variable_kind_by(&clq_variable_bias, &config->bias_initialiser);
    const clq_shape shape = CLQ_SHAPE(x->dims[x->rank - 1], config->units);
    CLQ_TRY(clq_model_declare_variable(model, layer, CLQ_KERNEL, shape, &kernel));
    if (config->no_bias) return CLQ_OK;
    return clq_model_declare_variable(model, layer, CLQ_BIAS, CLQ_SHAPE(config->units), &bias);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_dense_config *config = e->layer->config;
    const clq_model_tensor *in = clq_model_input_of(e->model, e->y, 0);
    const size_t width = in->shape.dims[in->shape.rank - 1];
    clq_node node = clq_expand_node(e, &clq_op_dense);
    node.attributes.dense = (clq_dense_problem){.in = width,
                                                .out = config->units,
                                                .rows_per_example = in->elements / width,
                                                .activation = clq_layer_fused_activation(config->activation)};
    return clq_expand_product(e, node, x[0], config->activation);
}

const clq_layer_kind clq_layer_dense = {.type = "Dense",
                                        .stem = "dense",
                                        .inputs = {1, 1},
                                        CLQ_LAYER_CONFIG(clq_dense_config, attributes),
                                        .mask = clq_layer_keep_mask,
                                        .by_token = clq_layer_is_by_row,
                                        .infer = infer,
                                        .declare = declare,
                                        .expand = expand};

clq_tensor clq_dense(clq_model *model, clq_tensor x, const clq_dense_config *config) {
    CLQ_LAYER_KNOWS(model, clq_dense_config, config);
    const clq_dense_config all = config ? *config : (clq_dense_config){0};
    return clq_model_add_layer(model, &clq_layer_dense, all.name, &all, &x, 1);
}
