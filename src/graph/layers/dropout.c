/* Dropout: in training, elements become 0 at random, and the others are scaled so that the mean stays. */
#include "graph/layers/layer.h"

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const double rate = layer->config.dropout.rate;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    if (rate >= 0 && rate < 1) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT, "rate %g should be at least 0 and below 1", rate);
}

/* Each use of a layer has a stream of its own, and so a mask of its own: streams are counted from 0, in the order of
 * the model's tensors. */
static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_dropout_config *config = &e->layer->config.dropout;
    clq_instruction drop = {.op = CLQ_ELEMENT_DROPOUT, .number = config->rate, .stream = e->dropouts++};
    if (e->config->mode != CLQ_MODE_TRAIN || config->rate == 0) return x[0];
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    drop.a = clq_element_take(p, clq_each_element);
    p->outputs[p->output_count++].from = clq_element_do(p, drop);
    p->seed = config->seed ? config->seed : e->config->seed;
    return clq_expand_unary(e, node, x[0]);
}

const clq_layer_kind clq_layer_dropout = {
    .type = "Dropout", .stem = "dropout", .inputs = {1, 1}, .infer = infer, .expand = expand};

clq_tensor clq_dropout(clq_model *model, clq_tensor x, const clq_dropout_config *config) {
    const clq_layer_config all = {.dropout = config ? *config : (clq_dropout_config){.rate = 0.5}};
    return clq_model_add_layer(model, &clq_layer_dropout, config ? config->name : NULL, &all, &x, 1);
}
