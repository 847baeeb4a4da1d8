/* Dense, over the last axis. */
#include "graph/layers/layer.h"

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_dense_config *config = &layer->config.dense;
    const clq_model_tensor *x = clq_model_input_of(model, y, 0);
    if (!config->units) return clq_fail(CLQ_ARGUMENT, "units must be at least 1");
    CLQ_TRY(clq_layer_check_activation(config->activation));
    unsigned last = x->shape.rank - 1;
    const size_t in = x->shape.dims[last];
    y->shape = x->shape;
    y->shape.dims[last] = config->units;
    y->dense = (clq_dense_problem){.in = in,
                                   .out = config->units,
                                   .rows_per_example = x->elements / in,
                                   .activation = clq_layer_fused_activation(config->activation)};
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    CLQ_TRY(clq_model_declare_variable(model, layer, CLQ_KERNEL, CLQ_SHAPE(y->dense.in, y->dense.out),
                                       &clq_variable_kernel));
    if (layer->config.dense.no_bias) return CLQ_OK;
    return clq_model_declare_variable(model, layer, CLQ_BIAS, CLQ_SHAPE(y->dense.out), &clq_variable_bias);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    clq_node node = clq_expand_node(e, &clq_op_dense);
    node.attributes.dense = e->y->dense;
    return clq_expand_product(e, node, x[0], e->layer->config.dense.activation);
}

const clq_layer_kind clq_layer_dense = {
    .type = "Dense", .stem = "dense", .inputs = {1, 1}, .infer = infer, .declare = declare, .expand = expand};

clq_tensor clq_dense(clq_model *model, clq_tensor x, const clq_dense_config *config) {
    const clq_layer_config all = {.dense = config ? *config : (clq_dense_config){0}};
    return clq_model_add_layer(model, &clq_layer_dense, config ? config->name : NULL, &all, &x, 1);
}
