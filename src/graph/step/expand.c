/* A model's layers as operations, and its loss. */
#include "graph/layers/layer.h"

#include <stdio.h>
#include <string.h>

static clq_id external(clq_graph *graph, const clq_graph_value *like, clq_home home, uint32_t index) {
    clq_graph_value value = *like;
    value.home = home;
    value.index = index;
    return clq_graph_add_value(graph, &value);
}

/* ---- what kinds of layers build on ---- */

clq_node clq_expand_node(const clq_expansion *e, const clq_operation *op) {
    clq_node node = {.op = op, .segment = CLQ_SEGMENT_FORWARD};
    (void)snprintf(node.scope, sizeof node.scope, "%s", e->layer->name);
    return node;
}

clq_parts clq_expand_parts(const clq_expansion *e, clq_node *of) {
    *of = clq_expand_node(e, NULL);
    return (clq_parts){.graph = e->graph, .of = of, .name = e->layer->name};
}

clq_id clq_expand_value(clq_expansion *e, const clq_shape *shape, size_t elements) {
    if (elements > INT32_MAX) {
        clq_graph_fail(e->graph, clq_fail(CLQ_ERROR_UNSUPPORTED, "layer '%s': %zu values of a sample are too many",
                                          e->layer->name, elements));
        return 0;
    }
    return clq_graph_add_value(
        e->graph,
        &(clq_graph_value){
            .name = e->layer->name, .dtype = e->y->dtype, .per_sample = true, .shape = *shape, .elements = elements});
}

clq_id clq_expand_unary(clq_expansion *e, clq_node node, clq_id x) {
    node.inputs[0] = x;
    node.outputs[0] = clq_expand_value(e, &e->y->shape, e->y->elements);
    return clq_graph_add_node(e->graph, &node);
}

clq_id clq_expand_elements(clq_expansion *e, clq_instruction instruction, const clq_id *x) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    instruction.a = clq_element_take(p, clq_each_element);
    if (clq_element_operands(instruction.op) > 1) {
        instruction.b = clq_element_take(p, clq_each_element);
        node.inputs[1] = x[1];
    }
    p->outputs[p->output_count++].from = clq_element_do(p, instruction);
    return clq_expand_unary(e, node, x[0]);
}

static clq_id add_variable(clq_expansion *e, uint32_t index) {
    const clq_variable *v = &e->model->variables[index];
    return external(e->graph,
                    &(clq_graph_value){.name = v->name, .dtype = v->dtype, .shape = v->shape, .elements = v->elements},
                    v->role == CLQ_ROLE_STATE ? CLQ_HOME_STATE : CLQ_HOME_WEIGHT, index);
}

clq_id clq_expand_weight(clq_expansion *e, unsigned index) {
    const uint32_t variable = clq_layer_variable(e->layer, index);
    if (!variable) return 0;
    clq_id *known = &e->weights[variable - 1];
    if (!*known) *known = add_variable(e, variable - 1);
    return *known;
}

/* Nodes that are added later read the new value: the state of a shared layer goes through all its uses. */
clq_id clq_expand_new_state(clq_expansion *e, unsigned index) {
    const uint32_t variable = clq_layer_variable(e->layer, index) - 1;
    e->weights[variable] = add_variable(e, variable);
    return e->weights[variable];
}

/* In a model that decodes, a sample is a token's number and its place. */
clq_id clq_expand_places(clq_expansion *e) {
    const size_t both = 2;
    const clq_shape shape = CLQ_SHAPE(1);
    clq_node node = clq_expand_node(e, &clq_op_arrange);
    if (e->places) return e->places;
    node.attributes.arrangement = clq_arrangement_of(1, &both);
    node.attributes.arrangement.axes[0].first = 1;
    node.attributes.arrangement.axes[0].out = 1;
    node.inputs[0] = e->tensors[e->model->input].value;
    node.outputs[0] = clq_expand_value(e, &shape, 1);
    return e->places = clq_graph_add_node(e->graph, &node);
}

/* Whether a loss takes the activation's input in place of its result. As in Keras, losses do so with a softmax or
 * sigmoid at the model's end. */
static bool loss_goes_before(const clq_expansion *e, clq_activation activation) {
    for (uint32_t i = 0; i < e->model->output_count && e->config->loss && activation != CLQ_ACTIVATION_LINEAR; i++)
        if (e->model->outputs[i] == e->id) return clq_loss_takes_input_of(&e->config->loss[i], activation);
    return false;
}

clq_id clq_expand_activation(clq_expansion *e, clq_activation activation, clq_id x) {
    if (activation == CLQ_ACTIVATION_LINEAR) return x;
    if (loss_goes_before(e, activation)) {
        e->tensors[e->id].logits = x;
        e->tensors[e->id].skipped = activation;
        if (!e->tensors[e->id].read) return x; /* nobody wants the activation */
    }
    if (activation == CLQ_ACTIVATION_SOFTMAX) return clq_expand_unary(e, clq_expand_node(e, &clq_op_softmax), x);
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    p->outputs[p->output_count++].from = clq_activation_do(p, activation, clq_element_take(p, clq_each_element));
    return clq_expand_unary(e, node, x);
}

clq_id clq_expand_capped(clq_expansion *e, const clq_shape *shape, double cap, clq_id z) {
    if (cap == 0 || !z) return z;
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned x = clq_element_take(p, clq_each_element);
    const unsigned part = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 1 / cap});
    const unsigned most = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = cap});
    const unsigned shrunk = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY, .a = x, .b = part});
    const unsigned bent = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_TANH, .a = shrunk});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY, .a = bent, .b = most});
    node.inputs[0] = z;
    node.outputs[0] = clq_expand_value(e, shape, clq_graph_value_at(e->graph, z)->elements);
    return clq_graph_add_node(e->graph, &node);
}

clq_id clq_expand_bias(clq_expansion *e, unsigned index, clq_id z) {
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    node.inputs[1] = clq_expand_weight(e, index);
    if (!node.inputs[1]) return z;
    const unsigned number = clq_element_take(p, clq_each_element), bias = clq_element_take(p, by_channel);
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = number, .b = bias});
    return clq_expand_unary(e, node, z);
}

clq_id clq_expand_arrange(clq_expansion *e, const clq_arrangement *arrangement, clq_id x) {
    clq_node node = clq_expand_node(e, &clq_op_arrange);
    node.attributes.arrangement = *arrangement;
    return clq_expand_unary(e, node, x);
}

clq_id clq_expand_arranged_weight(clq_expansion *e, const clq_arrangement *arrangement, const clq_shape *shape,
                                  clq_id weight) {
    clq_node node = clq_expand_node(e, &clq_op_arrange);
    node.attributes.arrangement = *arrangement;
    node.inputs[0] = weight;
    node.outputs[0] =
        clq_graph_add_value(e->graph, &(clq_graph_value){.name = e->layer->name,
                                                         .dtype = CLQ_F32,
                                                         .shape = *shape,
                                                         .elements = clq_arrangement_elements(arrangement)});
    return weight ? clq_graph_add_node(e->graph, &node) : 0;
}

clq_id clq_expand_product(clq_expansion *e, clq_node node, clq_id x, clq_activation activation) {
    clq_activation *fused = node.op->activation(&node);
    if (loss_goes_before(e, activation)) *fused = CLQ_ACTIVATION_LINEAR;
    const bool apart = *fused != activation;
    node.inputs[1] = clq_expand_weight(e, CLQ_KERNEL);
    node.inputs[2] = clq_expand_weight(e, CLQ_BIAS);
    clq_id z = clq_expand_unary(e, node, x);
    return apart ? clq_expand_activation(e, activation, z) : z;
}

/* ---- the model ---- */

static void add_received(clq_expansion *e) {
    const clq_cut *cut = &e->config->stage->before;
    for (unsigned i = 0; i < cut->count; i++) {
        const clq_model_tensor *y = &e->model->tensors[cut->tensors[i] - 1];
        e->tensors[cut->tensors[i]].value = external(e->graph,
                                                     &(clq_graph_value){.name = clq_model_tensor_name(e->model, y),
                                                                        .dtype = CLQ_F32,
                                                                        .per_sample = true,
                                                                        .shape = y->shape,
                                                                        .elements = y->elements},
                                                     CLQ_HOME_RECEIVED, i);
    }
}

static void note_sent(const clq_expansion *e) {
    const clq_cut *cut = &e->config->stage->after;
    for (unsigned i = 0; i < cut->count; i++)
        e->graph->sent[e->graph->sent_count++] = e->tensors[cut->tensors[i]].value;
}

/* x: room for the inputs of any tensor. */
static void add_tensors(clq_expansion *e, clq_id *x) {
    for (e->id = 1; e->id <= e->model->tensor_count && e->graph->error.status == CLQ_OK; e->id++) {
        e->y = &e->model->tensors[e->id - 1];
        e->layer = &e->model->layers[e->y->layer - 1];
        if (!clq_stage_has_tensor(e->config->stage, e->id)) {
            e->dropouts += e->layer->kind->draws; /* streams have the same numbers as in the whole model */
            continue;
        }
        if (!e->tensors[e->id].wanted) continue; /* a mask that nobody reads: it draws nothing, so it has no stream */
        for (uint32_t i = 0; i < e->y->input_count; i++)
            x[i] = e->tensors[e->model->inputs[e->y->first_input + i]].value;
        const clq_id y = e->tensors[e->id].value = e->layer->kind->expand(e, x);
        if (y && e->y->recompute) clq_graph_value_at(e->graph, y)->recompute = true;
    }
}

/* As in Keras, the loss is the mean over the steps that count, in the batch of all ranks. A step counts if its number
 * in the mask is not 0. */
static void add_mask(clq_expansion *e, const clq_model_tensor *y, clq_node *loss) {
    const size_t steps = loss->attributes.loss.problem.mask_steps;
    const clq_graph_value column = {
        .name = "mask", .dtype = CLQ_F32, .per_sample = true, .shape = CLQ_SHAPE(steps, 1), .elements = steps};
    clq_graph_value sum = {.dtype = CLQ_F32, .shape = CLQ_SHAPE(1), .elements = 1};
    clq_node reshape = {.op = &clq_op_reshape, .segment = loss->segment}, count = {.op = &clq_op_elementwise};
    memcpy(reshape.scope, loss->scope, sizeof reshape.scope);
    memcpy(count.scope, loss->scope, sizeof count.scope);
    count.segment = loss->segment;
    clq_element_program *p = &count.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element),
                   zero = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT}),
                   one = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 1}),
                   none = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_EQUAL, .a = number, .b = zero});
    p->outputs[p->output_count++].from = p->sums[p->sum_count++] =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SUBTRACT, .a = one, .b = none});
    p->sums[p->sum_count++] = one;
    reshape.inputs[0] = e->tensors[y->mask].value;
    reshape.outputs[0] = clq_graph_add_value(e->graph, &column);
    count.inputs[0] = clq_graph_add_node(e->graph, &reshape);
    count.outputs[0] = clq_graph_add_value(e->graph, &column);
    for (unsigned i = 0; i < 2; i++) {
        sum.name = i == 0 ? "steps that count" : "steps";
        count.outputs[1 + i] = clq_graph_add_value(e->graph, &sum);
    }
    loss->inputs[3] = clq_graph_add_node(e->graph, &count);
    for (unsigned i = 0; i < 2; i++)
        loss->inputs[4 + i] = clq_add_all_reduce(e->graph, &count, count.outputs[1 + i], &e->config->exchange);
}

static void add_loss(clq_expansion *e, uint32_t index) {
    const clq_loss_problem *loss = &e->config->loss[index];
    const clq_expanded *output = &e->tensors[e->model->outputs[index]];
    const clq_model_tensor *y = &e->model->tensors[e->model->outputs[index] - 1];
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
    clq_loss_problem *problem = &node.attributes.loss.problem;
    *problem = *loss;
    problem->metrics_at = metrics_at;
    problem->metrics_width = clq_losses_width(e->config->loss, e->model->output_count);
    if (output->logits) {
        problem->from_logits = true;
        problem->skipped = output->skipped;
        /* A softmax is over the last axis, so metrics that look at its result do so by rows of that axis. */
        const size_t last = clq_model_channels(y), rows = CLQ_MAX(problem->rows, (size_t)1);
        if (problem->skipped == CLQ_ACTIVATION_SOFTMAX && problem->classes > last) {
            problem->rows = rows * (problem->classes / last);
            problem->classes = last;
        }
    }
    if (loss->mask_steps > 0) add_mask(e, y, &node);
    node.inputs[0] = output->logits ? output->logits : output->value;
    node.inputs[1] = external(e->graph, &labels, CLQ_HOME_LABELS, index);
    node.attributes.loss.scale = e->config->update_options.scaling.initial;
    if (e->config->update && node.attributes.loss.scale > 0) node.inputs[2] = clq_graph_add_scaling(e->graph);
    node.outputs[0] = external(e->graph, &metrics, CLQ_HOME_METRICS, metrics_at);
    clq_graph_add_node(e->graph, &node);
}

/* Notes which tensors are wanted and read. Only losses read the masks of outputs. */
static void note_readers(clq_expansion *e) {
    for (uint32_t i = 0; i < e->model->output_count; i++) {
        const uint32_t output = e->model->outputs[i], mask = e->model->tensors[output - 1].mask;
        e->tensors[output].wanted = true;
        if (mask && e->config->loss && e->config->loss[i].mask_steps > 0) e->tensors[mask].wanted = true;
    }
    for (unsigned i = 0; e->config->stage && i < e->config->stage->after.count; i++)
        e->tensors[e->config->stage->after.tensors[i]].wanted = true; /* they are sent */
    for (uint32_t id = e->model->tensor_count; id >= 1; id--) {
        const clq_model_tensor *y = &e->model->tensors[id - 1];
        for (uint32_t i = 0; i < y->input_count && e->tensors[id].wanted; i++) {
            clq_expanded *x = &e->tensors[e->model->inputs[y->first_input + i]];
            x->wanted = x->read = true;
        }
    }
}

void clq_graph_expand(clq_graph *graph, const clq_pass_context *context) {
    const clq_model *model = graph->model;
    clq_expansion e = {.graph = graph, .model = model, .config = context->config};
    e.tensors = clq_alloc((size_t)model->tensor_count + 1, sizeof *e.tensors);
    e.weights = clq_alloc(model->variable_count, sizeof *e.weights);
    clq_id *x = clq_alloc(model->input_total, sizeof *x);
    if (e.tensors && e.weights && x) {
        note_readers(&e);
        if (e.config->stage) add_received(&e);
        add_tensors(&e, x);
        if (e.config->stage && graph->error.status == CLQ_OK) note_sent(&e);
    } else {
        clq_graph_fail(graph, CLQ_ERROR_MEMORY);
    }
    for (uint32_t i = 0; i < model->output_count && graph->error.status == CLQ_OK; i++)
        if (!context->config->loss)
            graph->outputs[graph->output_count++] =
                clq_stage_has_tensor(e.config->stage, model->outputs[i]) ? e.tensors[model->outputs[i]].value : 0;
        else if (clq_stage_has_tensor(e.config->stage, model->outputs[i]))
            add_loss(&e, i);
    if (context->config->loss && graph->error.status == CLQ_OK) clq_properties_join_loss(&e);
    clq_free(e.tensors);
    clq_free(e.weights);
    clq_free(x);
}

/* A tensor that only passes through the stage is sent from where it was received. */
static void place_sent(clq_graph *graph, uint32_t index) {
    const clq_stage *stage = graph->stage;
    const clq_graph_value *value = clq_graph_value_at(graph, graph->sent[index]);
    if (value->home == CLQ_HOME_RECEIVED && stage->before.tensors[value->index] == stage->after.tensors[index]) return;
    graph->sent[index] = clq_graph_place(graph, graph->sent[index], CLQ_HOME_SENT, index, CLQ_SEGMENT_FORWARD);
}

void clq_graph_place_output(clq_graph *graph, const clq_pass_context *context) {
    (void)context;
    for (uint32_t i = 0; i < graph->output_count && graph->error.status == CLQ_OK; i++)
        if (graph->outputs[i]) (void)clq_graph_place(graph, graph->outputs[i], CLQ_HOME_OUTPUT, i, CLQ_SEGMENT_FORWARD);
    for (uint32_t i = 0; i < graph->sent_count && graph->error.status == CLQ_OK; i++) place_sent(graph, i);
}
