/* A model's layers as operations, and its loss. */
#include "graph/layers/layer.h"

#include <stdio.h>

static uint32_t id_of(const clq_expansion *e, const clq_model_tensor *y) {
    return (uint32_t)(y - e->model->tensors) + 1;
}

const clq_layer *clq_expand_layer(const clq_expansion *e, const clq_model_tensor *y) {
    return &e->model->layers[y->layer - 1];
}

static clq_id external(clq_graph *graph, const clq_graph_value *like, clq_home home, uint32_t index) {
    clq_graph_value value = *like;
    value.home = home;
    value.index = index;
    return clq_graph_add_value(graph, &value);
}

/* ---- what kinds of layers build on ---- */

clq_node clq_expand_node(const clq_expansion *e, const clq_model_tensor *y, const clq_operation *op) {
    clq_node node = {.op = op, .segment = CLQ_SEGMENT_FORWARD};
    (void)snprintf(node.scope, sizeof node.scope, "%s", clq_expand_layer(e, y)->name);
    return node;
}

clq_id clq_expand_value(clq_expansion *e, const clq_model_tensor *y, const clq_shape *shape, size_t elements) {
    return clq_graph_add_value(e->graph, &(clq_graph_value){.name = clq_expand_layer(e, y)->name,
                                                            .dtype = y->dtype,
                                                            .per_sample = true,
                                                            .shape = *shape,
                                                            .elements = elements});
}

clq_id clq_expand_unary(clq_expansion *e, const clq_model_tensor *y, clq_node node, clq_id x) {
    node.inputs[0] = x;
    node.outputs[0] = clq_expand_value(e, y, &y->shape, y->elements);
    clq_graph_add_node(e->graph, &node);
    return node.outputs[0];
}

clq_id clq_expand_elements(clq_expansion *e, const clq_model_tensor *y, const clq_instruction *instruction,
                           const clq_id *x, unsigned count) {
    clq_node node = clq_expand_node(e, y, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    clq_instruction made = *instruction;
    unsigned *const operands[] = {&made.a, &made.b, &made.c};
    for (unsigned i = 0; i < count; i++) {
        *operands[i] = clq_element_take(p, clq_each_element);
        node.inputs[i] = x[i];
    }
    p->outputs[p->output_count++].from = clq_element_do(p, made);
    p->seed = e->config->seed;
    return clq_expand_unary(e, y, node, x[0]);
}

static clq_id add_variable(clq_expansion *e, uint32_t index) {
    const clq_variable *v = &e->model->variables[index];
    return external(e->graph,
                    &(clq_graph_value){.name = v->name, .dtype = v->dtype, .shape = v->shape, .elements = v->elements},
                    v->role == CLQ_ROLE_STATE ? CLQ_HOME_STATE : CLQ_HOME_WEIGHT, index);
}

clq_id clq_expand_weight(clq_expansion *e, const clq_model_tensor *y, unsigned index) {
    const uint32_t variable = clq_expand_layer(e, y)->variables[index];
    if (!variable) return 0;
    clq_id *known = &e->weights[variable - 1];
    if (!*known) *known = add_variable(e, variable - 1);
    return *known;
}

/* What reads the variable behind this reads the new one: a shared layer's state goes through all its uses. */
clq_id clq_expand_new_state(clq_expansion *e, const clq_model_tensor *y, unsigned index) {
    const uint32_t variable = clq_expand_layer(e, y)->variables[index] - 1;
    e->weights[variable] = add_variable(e, variable);
    return e->weights[variable];
}

/* The loss of what the tensor is as an output; NULL: there is none. */
static const clq_loss_problem *loss_of(const clq_expansion *e, uint32_t id) {
    for (uint32_t i = 0; i < e->model->output_count && e->config->loss; i++)
        if (e->model->outputs[i] == id) return &e->config->loss[i];
    return NULL;
}

/* As Keras does, a loss takes what goes into the activation at the model's end: softmax or sigmoid. */
static bool loss_goes_before(const clq_expansion *e, uint32_t id, clq_activation activation) {
    const clq_loss_problem *loss = loss_of(e, id);
    return loss && activation != CLQ_LINEAR && activation == clq_loss_row_of(loss->kind)->activation;
}

clq_id clq_expand_activation(clq_expansion *e, const clq_model_tensor *y, clq_activation activation, clq_id x) {
    const uint32_t id = id_of(e, y);
    if (activation == CLQ_LINEAR) return x;
    if (loss_goes_before(e, id, activation)) {
        e->logits[id] = x;
        if (!e->read[id]) return x; /* nobody wants the activation */
    }
    if (activation == CLQ_SOFTMAX) return clq_expand_unary(e, y, clq_expand_node(e, y, &clq_op_softmax), x);
    return clq_expand_elements(e, y, &(clq_instruction){.op = clq_activation_row_of(activation)->op}, &x, 1);
}

clq_id clq_expand_product(clq_expansion *e, const clq_model_tensor *y, clq_node node, clq_id x,
                          clq_activation activation) {
    clq_activation *fused =
        node.op == &clq_op_dense ? &node.attributes.dense.activation : &node.attributes.conv2d.activation;
    if (loss_goes_before(e, id_of(e, y), activation)) *fused = CLQ_LINEAR;
    const bool apart = *fused != activation;
    node.inputs[1] = clq_expand_weight(e, y, CLQ_KERNEL);
    node.inputs[2] = clq_expand_weight(e, y, CLQ_BIAS);
    clq_id z = clq_expand_unary(e, y, node, x);
    return apart ? clq_expand_activation(e, y, activation, z) : z;
}

clq_id clq_expand_input(clq_expansion *e, const clq_model_tensor *y) {
    const clq_graph_value samples = {.name = clq_expand_layer(e, y)->name,
                                     .dtype = e->config->sample_dtype,
                                     .per_sample = true,
                                     .shape = y->shape,
                                     .elements = y->elements};
    clq_id x = external(e->graph, &samples, CLQ_HOME_SAMPLES, 0);
    return samples.dtype == CLQ_U8 ? clq_expand_unary(e, y, clq_expand_node(e, y, &clq_op_scale_bytes), x) : x;
}

/* ---- the model ---- */

static clq_id add_tensor(clq_expansion *e, const clq_model_tensor *y, clq_id *x) {
    for (uint32_t i = 0; i < y->input_count; i++) x[i] = e->values[e->model->inputs[y->first_input + i]];
    return clq_expand_layer(e, y)->kind->expand(e, y, x);
}

static clq_status add_tensors(clq_expansion *e) {
    const clq_model *model = e->model;
    uint32_t most = 1;
    for (uint32_t i = 0; i < model->tensor_count; i++) most = CLQ_MAX(most, model->tensors[i].input_count);
    clq_id *x = clq_alloc(most, sizeof *x);
    if (!x) return CLQ_MEMORY;
    for (uint32_t id = 1; id <= model->tensor_count && e->graph->error.status == CLQ_OK; id++)
        e->values[id] = add_tensor(e, &model->tensors[id - 1], x);
    clq_free(x);
    return clq_graph_status(e->graph);
}

static void add_loss(clq_expansion *e, uint32_t index) {
    const clq_loss_problem *loss = &e->config->loss[index];
    const uint32_t output = e->model->outputs[index];
    const unsigned metrics_at = clq_losses_width(e->config->loss, index);
    clq_graph_value labels = {.name = "labels",
                              .dtype = clq_loss_target_dtype(loss),
                              .per_sample = true,
                              .elements = clq_loss_target_elements(loss)};
    labels.shape = CLQ_SHAPE(labels.elements);
    clq_graph_value metrics = {.name = "metrics", .dtype = CLQ_F32, .elements = clq_loss_totals(loss)};
    metrics.shape = CLQ_SHAPE(metrics.elements);
    clq_node node = {.op = &clq_op_loss, .scope = "loss", .segment = CLQ_SEGMENT_LOSS};
    if (e->model->output_count > 1)
        (void)snprintf(node.scope, sizeof node.scope, "%s_loss", clq_model_output_name(e->model, index));
    node.attributes.loss = *loss;
    node.attributes.loss.metrics_at = metrics_at;
    node.attributes.loss.metrics_width = clq_losses_width(e->config->loss, e->model->output_count);
    if (e->logits[output]) {
        node.attributes.loss.from_logits = true;
        node.attributes.loss.skipped = clq_loss_row_of(loss->kind)->activation;
    }
    node.inputs[0] = e->logits[output] ? e->logits[output] : e->values[output];
    node.inputs[1] = external(e->graph, &labels, CLQ_HOME_LABELS, index);
    node.outputs[0] = external(e->graph, &metrics, CLQ_HOME_METRICS, metrics_at);
    clq_graph_add_node(e->graph, &node);
}

static clq_status open_expansion(clq_expansion *e) {
    const clq_model *model = e->model;
    const size_t tensors = (size_t)model->tensor_count + 1;
    e->values = clq_alloc(tensors, sizeof *e->values);
    e->logits = clq_alloc(tensors, sizeof *e->logits);
    e->weights = clq_alloc(CLQ_MAX(model->variable_count, 1u), sizeof *e->weights);
    e->read = clq_alloc(tensors, sizeof *e->read);
    if (!e->values || !e->logits || !e->weights || !e->read) return CLQ_MEMORY;
    for (uint32_t id = 1; id < tensors; id++) {
        const clq_model_tensor *y = &model->tensors[id - 1];
        for (uint32_t i = 0; i < y->input_count; i++) e->read[model->inputs[y->first_input + i]] = true;
    }
    return CLQ_OK;
}

static void close_expansion(clq_expansion *e) {
    clq_free(e->values);
    clq_free(e->logits);
    clq_free(e->weights);
    clq_free(e->read);
}

void clq_graph_expand(clq_graph *graph, const clq_pass_context *context) {
    const clq_model *model = graph->model;
    clq_expansion e = {.graph = graph, .model = model, .config = context->config};
    clq_status status = open_expansion(&e);
    if (status == CLQ_OK) status = add_tensors(&e);
    for (uint32_t i = 0; i < model->output_count && status == CLQ_OK; i++)
        if (context->config->loss)
            add_loss(&e, i);
        else
            graph->outputs[graph->output_count++] = e.values[model->outputs[i]];
    close_expansion(&e);
    if (status != CLQ_OK) clq_graph_fail(graph, status);
}

/* The value whose memory `id` is: reshapes make none of their own. */
static clq_id root_of(const clq_graph *graph, clq_id id) {
    for (uint32_t n = graph->node_count; n-- > 0;)
        if (graph->nodes[n].outputs[0] == id && graph->nodes[n].op->traits & CLQ_OP_ALIAS)
            id = graph->nodes[n].inputs[0];
    return id;
}

/* Where an output's value has memory of another home already, as the samples and what is two outputs at once have, it
 * is copied. */
static void place_output(clq_graph *graph, uint32_t index) {
    const clq_id root = root_of(graph, graph->outputs[index]);
    clq_graph_value *value = clq_graph_value_at(graph, root);
    if (value->home == CLQ_HOME_STEP) {
        value->home = CLQ_HOME_OUTPUT;
        value->index = index;
        return;
    }
    clq_node like = {.op = NULL};
    (void)snprintf(like.scope, sizeof like.scope, "%s", value->name);
    const clq_id copy = clq_add_sum(graph, &like, CLQ_SEGMENT_FORWARD, &root, 1);
    if (graph->error.status != CLQ_OK) return;
    value = clq_graph_value_at(graph, copy);
    value->home = CLQ_HOME_OUTPUT;
    value->index = index;
}

void clq_graph_place_output(clq_graph *graph, const clq_pass_context *context) {
    (void)context;
    for (uint32_t i = 0; i < graph->output_count; i++) place_output(graph, i);
}
