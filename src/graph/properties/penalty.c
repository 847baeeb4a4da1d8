/* Penalties on variables. Each sample's loss has the whole penalty, so a mean over any split of a batch has it once. */
#include "graph/layers/layer.h"

#include <math.h>
#include <stdio.h>

clq_tensor clq_regularise(clq_model *model, clq_tensor x, const char *variable, double l1, double l2) {
    const clq_layer *layer = clq_model_marked_layer(model, x, "clq_regularise");
    clq_status status = CLQ_OK;
    if (!layer) return (clq_tensor){0};
    if (!(l1 >= 0 && l2 >= 0 && isfinite(l1) && isfinite(l2)))
        status = clq_fail(CLQ_ERROR_ARGUMENT, "penalties %g and %g should be finite and at least 0", l1, l2);
    clq_variable *v = clq_model_variable_named(model, layer, variable);
    if (status == CLQ_OK && !v)
        status = clq_fail(CLQ_ERROR_ARGUMENT, "it has no variable '%.60s'", variable ? variable : "");
    if (status != CLQ_OK) return clq_model_fail(model, status, layer->name);
    v->properties.l1 = l1;
    v->properties.l2 = l2;
    return x;
}

static bool is_on(const clq_properties *properties) { return properties->l1 != 0 || properties->l2 != 0; }

static void add_key(const clq_properties *properties, clq_text *to) {
    clq_text_add(to, " penalty %.17g %.17g", properties->l1, properties->l2);
}

/* ---- in the loss ---- */

/* What does not support penalties in this plan; NULL: all of it does. The totals of a loss of weight 0 do not count in
 * the model's loss, so penalties cannot be added to them. */
static const char *refuses(const clq_expansion *e) {
    if (e->model->output_count > 1) return "a model of several outputs does";
    if (e->config->stage || e->config->slicing) return "this strategy does";
    return e->config->loss->weight == 0 ? "a loss of weight 0 does" : NULL;
}

enum { W, SCALING };

/* Adds the penalty to the totals of the only output's loss. */
static void join_loss(clq_expansion *e, uint32_t index) {
    const clq_loss_problem *loss = e->config->loss;
    const size_t width = clq_losses_width(loss, e->model->output_count);
    const clq_variable *v = &e->model->variables[index];
    const char *refused = refuses(e);
    if (refused) {
        clq_graph_fail(e->graph,
                       clq_fail(CLQ_ERROR_UNSUPPORTED, "%s has a regulariser, which %s not support: leave it out",
                                v->name, refused));
        return;
    }
    clq_node node = {.op = &clq_op_penalty, .segment = CLQ_SEGMENT_LOSS};
    (void)snprintf(node.scope, sizeof node.scope, "%s", e->model->layers[v->layer - 1].name);
    node.attributes.penalty.problem = (clq_penalty_problem){
        .elements = v->elements, .l1 = v->properties.l1, .l2 = v->properties.l2, .metrics_width = width};
    node.attributes.penalty.weight = loss->weight;
    node.attributes.penalty.scale = (float)e->config->update_options.scaling.initial;
    node.inputs[W] = e->weights[index];
    if (e->config->update && node.attributes.penalty.scale > 0) node.inputs[SCALING] = clq_graph_add_scaling(e->graph);
    node.outputs[0] = clq_graph_add_value(e->graph, &(clq_graph_value){.name = "metrics",
                                                                       .dtype = CLQ_F32,
                                                                       .shape = CLQ_SHAPE(width),
                                                                       .elements = width,
                                                                       .home = CLQ_HOME_METRICS});
    clq_graph_add_node(e->graph, &node);
}

const clq_property clq_property_penalty = {
    .names = "penalties on its weights", .is_on = is_on, .add_key = add_key, .join_loss = join_loss};

/* ---- as operations ---- */

/* Only the weights have a gradient here. */
static void gradient(clq_derivation *d) {
    if (!d->wants[W]) return;
    clq_node back = clq_graph_backward_node(&d->node, &clq_op_penalty_gradient,
                                            CLQ_IDS(d->node.inputs[W], d->node.inputs[SCALING]));
    back.outputs[0] = d->dx[W] = clq_graph_add_gradient(d->graph, d->node.inputs[W]);
    clq_graph_add_node(d->graph, &back);
}
/* The output, a row of the metrics, has the loss already. What is reported is this loss times its weight: so the
 * penalty is divided by the weight first. */
static void emit(clq_emission *e) {
    const struct clq_penalty_attributes *a = &e->node->attributes.penalty;
    clq_penalty_problem p = a->problem;
    p.l1 /= (double)a->weight;
    p.l2 /= (double)a->weight;
    clq_penalty_loss(e->list, &p, e->in[W], e->out[0]);
}
const clq_operation clq_op_penalty = {
    .name = "penalty", .traits = CLQ_OP_LOSS, .types = CLQ_OP_TYPE(CLQ_I32), .differentiate = gradient, .emit = emit};

static void emit_gradient(clq_emission *e) {
    const struct clq_penalty_attributes *a = &e->node->attributes.penalty;
    clq_penalty_gradient(e->list, &a->problem, a->scale, e->in[SCALING], e->in[W], e->out[0]);
}
const clq_operation clq_op_penalty_gradient = {
    .name = "penalty_gradient", .types = CLQ_OP_TYPE(CLQ_I32), .emit = emit_gradient};
