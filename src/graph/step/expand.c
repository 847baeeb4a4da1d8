/* A model's layers as operations, and its loss. */
#include "graph/step/step.h"

#include <stdio.h>
#include <string.h>

typedef struct expansion {
    clq_graph *graph;
    const clq_model *model;
    const clq_plan_config *config;
    clq_id *outputs; /* by layer id */
} expansion;

static clq_id add_value(clq_graph *graph, const char *name, clq_dtype dtype, clq_shape shape, size_t elements) {
    return clq_graph_add_value(
        graph,
        &(clq_graph_value){.name = name, .dtype = dtype, .per_sample = true, .shape = shape, .elements = elements});
}

static clq_id external(clq_graph *graph, const clq_graph_value *like, clq_home home, uint32_t index) {
    clq_graph_value value = *like;
    value.home = home;
    value.index = index;
    return clq_graph_add_value(graph, &value);
}

/* As Keras does, the loss takes what goes into the last layer's softmax, or sigmoid: that activation is not computed.
 */
static bool is_skipped(const expansion *e, uint32_t id) {
    const clq_activation activation = e->model->layers[id - 1].activation;
    return e->config->loss && id == e->model->output && activation != CLQ_LINEAR &&
           activation == clq_loss_row_of(e->config->loss->kind)->activation;
}

static clq_node node_of(const clq_layer *layer, const clq_operation *op) {
    clq_node node = {.op = op, .segment = CLQ_SEGMENT_FORWARD};
    (void)snprintf(node.scope, sizeof node.scope, "%s", layer->name);
    return node;
}

static clq_id add_layer_value(expansion *e, const clq_layer *layer) {
    return add_value(e->graph, layer->name, CLQ_F32, layer->shape, layer->elements);
}

/* One operation from x to a value of the layer's shape. */
static clq_id add_unary(expansion *e, const clq_layer *layer, clq_node node, clq_id x) {
    node.inputs[0] = x;
    node.outputs[0] = add_layer_value(e, layer);
    clq_graph_add_node(e->graph, &node);
    return node.outputs[0];
}

static clq_id add_activation(expansion *e, const clq_layer *layer, clq_activation activation, clq_id x) {
    clq_node node = node_of(layer, activation == CLQ_SOFTMAX ? &clq_op_softmax : &clq_op_chain);
    if (activation == CLQ_LINEAR) return x;
    node.attributes.slopes = (struct clq_slopes_problem){.chain = {.count = 1, .links = {activation}}};
    return add_unary(e, layer, node, x);
}

static clq_id add_weight(expansion *e, uint32_t variable) {
    if (!variable) return 0;
    const clq_variable *v = &e->model->variables[variable - 1];
    return external(e->graph,
                    &(clq_graph_value){.name = v->name, .dtype = CLQ_F32, .shape = v->shape, .elements = v->elements},
                    CLQ_HOME_WEIGHT, variable - 1);
}

/* A product, and behind it the softmax, which its kernel cannot apply. */
static clq_id add_product(expansion *e, uint32_t id, clq_id x) {
    const clq_layer *layer = &e->model->layers[id - 1];
    bool dense = layer->kind == CLQ_LAYER_DENSE;
    clq_node node = node_of(layer, dense ? &clq_op_dense : &clq_op_conv2d);
    if (dense)
        node.attributes.dense = layer->dense;
    else
        node.attributes.conv2d = layer->conv2d;
    if (is_skipped(e, id))
        *(dense ? &node.attributes.dense.activation : &node.attributes.conv2d.activation) = CLQ_LINEAR;
    node.inputs[1] = add_weight(e, layer->kernel);
    node.inputs[2] = add_weight(e, layer->bias);
    clq_id y = add_unary(e, layer, node, x);
    return layer->activation == CLQ_SOFTMAX && !is_skipped(e, id) ? add_activation(e, layer, CLQ_SOFTMAX, y) : y;
}

static clq_id add_input(expansion *e, const clq_layer *layer) {
    clq_id samples = external(e->graph,
                              &(clq_graph_value){.name = layer->name,
                                                 .dtype = e->config->sample_dtype,
                                                 .per_sample = true,
                                                 .shape = layer->shape,
                                                 .elements = layer->elements},
                              CLQ_HOME_SAMPLES, 0);
    if (e->config->sample_dtype != CLQ_U8) return samples;
    return add_unary(e, layer, node_of(layer, &clq_op_scale_bytes), samples);
}

static clq_id add_layer(expansion *e, uint32_t id) {
    const clq_layer *layer = &e->model->layers[id - 1];
    clq_id x = layer->input ? e->outputs[layer->input] : 0;
    clq_node node;
    switch (layer->kind) {
    case CLQ_LAYER_INPUT: return add_input(e, layer);
    case CLQ_LAYER_RESHAPE: return add_unary(e, layer, node_of(layer, &clq_op_reshape), x);
    case CLQ_LAYER_DENSE:
    case CLQ_LAYER_CONV2D: return add_product(e, id, x);
    case CLQ_LAYER_POOL2D:
        node = node_of(layer, &clq_op_pool2d);
        node.attributes.pool2d = layer->pool2d;
        return add_unary(e, layer, node, x);
    case CLQ_LAYER_ACTIVATION: return is_skipped(e, id) ? x : add_activation(e, layer, layer->activation, x);
    }
    return 0;
}

static void add_loss(expansion *e) {
    const clq_loss_problem *loss = e->config->loss;
    clq_graph_value labels = {.name = "labels",
                              .dtype = clq_loss_has_index(loss) ? CLQ_I32 : CLQ_F32,
                              .per_sample = true,
                              .elements = clq_loss_target_elements(loss)};
    labels.shape = CLQ_SHAPE(labels.elements);
    clq_graph_value metrics = {.name = "metrics", .dtype = CLQ_F32, .elements = clq_loss_metrics_width(loss)};
    metrics.shape = CLQ_SHAPE(metrics.elements);
    clq_node node = {.op = &clq_op_loss, .scope = "loss", .segment = CLQ_SEGMENT_LOSS};
    node.attributes.loss = *loss;
    if (is_skipped(e, e->model->output)) {
        node.attributes.loss.from_logits = true;
        node.attributes.loss.skipped = clq_loss_row_of(loss->kind)->activation;
    }
    node.inputs[0] = e->graph->output;
    node.inputs[1] = external(e->graph, &labels, CLQ_HOME_LABELS, 0);
    node.outputs[0] = external(e->graph, &metrics, CLQ_HOME_METRICS, 0);
    clq_graph_add_node(e->graph, &node);
    e->graph->output = 0; /* the loss is the output */
}

clq_status clq_graph_expand(clq_graph *graph, const clq_model *model, const clq_plan_config *config) {
    expansion e = {.graph = graph, .model = model, .config = config};
    graph->model = model;
    e.outputs = clq_alloc((size_t)model->layer_count + 1, sizeof *e.outputs);
    if (!e.outputs) return CLQ_MEMORY;
    for (uint32_t id = 1; id <= model->layer_count; id++) e.outputs[id] = add_layer(&e, id);
    graph->output = e.outputs[model->output];
    clq_free(e.outputs);
    if (config->loss) add_loss(&e);
    return clq_graph_status(graph);
}

/* The value whose memory `id` is: reshapes make none of their own. */
static clq_id root_of(const clq_graph *graph, clq_id id) {
    for (uint32_t n = graph->node_count; n-- > 0;)
        if (graph->nodes[n].outputs[0] == id && graph->nodes[n].op->traits & CLQ_OP_ALIAS)
            id = graph->nodes[n].inputs[0];
    return id;
}

clq_status clq_graph_place_output(clq_graph *graph, const clq_pass_context *context) {
    (void)context;
    if (!graph->output) return CLQ_OK;
    clq_id root = root_of(graph, graph->output);
    clq_graph_value *value = clq_graph_value_at(graph, root);
    if (value->home == CLQ_HOME_STEP) {
        value->home = CLQ_HOME_OUTPUT;
        return CLQ_OK;
    }
    /* A model of reshapes alone. */
    clq_node node = {.op = &clq_op_copy, .segment = CLQ_SEGMENT_FORWARD, .inputs = {root}};
    (void)snprintf(node.scope, sizeof node.scope, "%s", value->name);
    node.outputs[0] = external(graph, value, CLQ_HOME_OUTPUT, 0);
    clq_graph_add_node(graph, &node);
    return clq_graph_status(graph);
}
