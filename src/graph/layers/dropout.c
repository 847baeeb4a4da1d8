/* Dropout: in training, elements become 0 at random, and the others are scaled so that the mean stays. */
#include "graph/layers/layer.h"

static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("rate", CLQ_ATTRIBUTE_NUMBER, clq_dropout_config, rate), .needed = true, .most = 1,
     .below = true},
    {CLQ_LAYER_ATTRIBUTE("seed", CLQ_ATTRIBUTE_SEED, clq_dropout_config, seed)},
};

/* Each use of a layer has a stream of its own, and so a mask of its own: streams are counted from 0, in the order of
 * the model's tensors. */
static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_dropout_config *config = e->layer->config;
    clq_instruction drop = {.op = CLQ_ELEMENT_DROPOUT, .number = config->rate, .stream = e->dropouts++};
    if (e->config->mode != CLQ_MODE_TRAIN || config->rate == 0) return x[0];
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    drop.a = clq_element_take(p, clq_each_element);
    p->outputs[p->output_count++].from = clq_element_do(p, drop);
    p->seed = config->seed ? config->seed : e->config->seed;
    return clq_expand_unary(e, node, x[0]);
}

const clq_layer_kind clq_layer_dropout = {.type = "Dropout",
                                          .stem = "dropout",
                                          .inputs = {1, 1},
                                          CLQ_LAYER_CONFIG(clq_dropout_config, attributes),
                                          .draws = true,
                                          .infer = clq_layer_keep_shape,
                                          .expand = expand};

clq_tensor clq_dropout(clq_model *model, clq_tensor x, const clq_dropout_config *config) {
    const clq_dropout_config all = config ? *config : (clq_dropout_config){.rate = 0.5};
    return clq_model_add_layer(model, &clq_layer_dropout, all.name, &all, &x, 1);
}
