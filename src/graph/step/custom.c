/* Operations with a program's own kernels: their launches, and their derivative, which is such a kernel, too. */
#include "graph/step/step.h"

#include <stdio.h>

enum { GROUP = 64 };

/* ---- launches ---- */

/* "X0_SIZE", "X0_DIM0", … */
static void add_shape(clq_kernel_options *options, const char *what, const clq_shape *shape) {
    size_t elements = 1;
    for (unsigned d = 0; d < shape->rank; d++) {
        elements *= shape->dims[d];
        clq_options_add(options, " -D%s_DIM%u=%zu", what, d, shape->dims[d]);
    }
    clq_options_add(options, " -D%s_SIZE=%zu", what, elements);
}

static void add_shapes(clq_kernel_options *options, const char *letter, const clq_shape *shapes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char what[32];
        (void)snprintf(what, sizeof what, "%s%zu", letter, i);
        add_shape(options, what, &shapes[i]);
    }
}

static clq_kernel_options options_of(const clq_custom_operation *operation, const clq_custom_shapes *s) {
    clq_kernel_options options = {.length = 0};
    add_shapes(&options, "X", s->inputs, s->input_count);
    for (unsigned i = 0; i < s->variable_count; i++) {
        char what[32];
        (void)snprintf(what, sizeof what, "W%u", i);
        add_shape(&options, what, &s->variables[i].shape);
    }
    add_shape(&options, "Y", &s->output);
    add_shapes(&options, "KEPT", s->kept, s->kept_count);
    clq_options_add(&options, " -DFORWARD_ITEMS=%zu -DBACKWARD_ITEMS=%zu", s->forward_items, s->backward_items);
    for (unsigned i = 0; i < CLQ_CUSTOM_NUMBERS_MAX; i++) /* by its bits, so that none is rounded or "inff" */
        clq_options_add(&options, " -DNUMBER%u=%af", i, (double)(float)operation->numbers[i]);
    return options;
}

static size_t group_of(const clq_list *list, const clq_custom_shapes *s) {
    size_t group = s->group ? s->group : GROUP;
    while (!s->group && group > clq_device_get_info(clq_list_device(list))->max_work_group) group /= 2;
    return CLQ_MAX(group, (size_t)1);
}

static size_t elements_of(const clq_shape *shape) {
    size_t elements = 1;
    for (unsigned d = 0; d < shape->rank; d++) elements *= shape->dims[d];
    return elements;
}

/* Memory traffic of a sample: each of its values once. */
static double bytes_of(const clq_custom_shapes *s, bool backward) {
    size_t elements = elements_of(&s->output);
    for (size_t i = 0; i < s->input_count; i++) elements += (backward ? 2 : 1) * elements_of(&s->inputs[i]);
    for (size_t i = 0; i < s->variable_count && backward; i++) elements += elements_of(&s->variables[i].shape);
    for (size_t i = 0; i < s->kept_count; i++) elements += elements_of(&s->kept[i]);
    return (double)elements * sizeof(float);
}

void clq_custom_launch(clq_list *list, const clq_custom_operation *operation, const clq_custom_shapes *s, bool backward,
                       const clq_custom_values *v) {
    const clq_kernel_options options = options_of(operation, s);
    const size_t group = group_of(list, s), items = backward ? s->backward_items : s->forward_items;
    const clq_access makes = backward ? CLQ_READS : CLQ_WRITES;
    clq_launch_begin(list, backward ? "backward" : "forward", operation->name, options.text,
                     backward ? operation->backward : operation->forward);
    clq_launch_source(list, operation->name, operation->source);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_values(list, CLQ_READS, v->inputs, s->input_count);
    clq_launch_values(list, CLQ_READS, v->variables, s->variable_count);
    clq_launch_values(list, makes, &v->output, 1);
    clq_launch_values(list, makes, v->kept, s->kept_count);
    if (backward) {
        clq_launch_value(list, v->output_gradient, CLQ_READS);
        clq_launch_values(list, CLQ_WRITES, v->input_gradients, s->input_count);
        clq_launch_values(list, CLQ_WRITES, v->variable_gradients, s->variable_count);
    }
    /* All of a sample's work-items, in whole groups. */
    clq_launch_work(list, 1, (size_t[]){group}, (size_t[]){group}, 0, items, group);
    clq_launch_cost(list, 0, s->operations * (backward ? 2 : 1), 0, bytes_of(s, backward));
}

/* ---- nodes ---- */

/* Inputs of the gradient node: those of forward, forward's outputs, and the output's gradient. Its outputs: the
 * gradients of the inputs, and what each sample contributes to the gradients of the variables. */
static clq_custom_shapes shapes_of(const clq_emission *e) {
    const struct clq_custom_attributes *a = &e->node->attributes.custom;
    const bool backward = e->node->op == &clq_op_custom_gradient;
    const clq_id *in = e->node->inputs, *out = e->node->outputs;
    const clq_id *kept = backward ? in + a->inputs + a->variables + 1 : out + 1;
    clq_custom_shapes s = {.input_count = a->inputs,
                           .variable_count = a->variables,
                           .kept_count = a->kept,
                           .forward_items = a->forward_items,
                           .backward_items = a->backward_items,
                           .group = a->group,
                           .operations = a->operations};
    for (unsigned i = 0; i < a->inputs; i++)
        s.inputs[i] = clq_graph_value_at(e->graph, backward ? out[i] : in[i])->shape;
    for (unsigned i = 0; i < a->variables; i++)
        s.variables[i].shape = clq_graph_value_at(e->graph, in[a->inputs + i])->shape;
    for (unsigned i = 0; i < a->kept; i++) s.kept[i] = clq_graph_value_at(e->graph, kept[i])->shape;
    s.output = clq_graph_value_at(e->graph, backward ? kept[a->kept] : out[0])->shape;
    return s;
}

static void emit(clq_emission *e) {
    const struct clq_custom_attributes *a = &e->node->attributes.custom;
    const clq_custom_shapes s = shapes_of(e);
    const bool backward = e->node->op == &clq_op_custom_gradient;
    const clq_value *made = backward ? e->in + a->inputs + a->variables : e->out;
    clq_custom_values v = {.output = made[0]};
    for (unsigned i = 0; i < a->inputs; i++) v.inputs[i] = e->in[i];
    for (unsigned i = 0; i < a->variables; i++) v.variables[i] = e->in[a->inputs + i];
    for (unsigned i = 0; i < a->kept; i++) v.kept[i] = made[1 + i];
    if (backward) v.output_gradient = made[1 + a->kept];
    for (unsigned i = 0; i < a->inputs && backward; i++) v.input_gradients[i] = e->out[i];
    for (unsigned i = 0; i < a->variables && backward; i++) v.variable_gradients[i] = e->out[a->inputs + i];
    clq_custom_launch(e->list, a->operation, &s, backward, &v);
}

/* Adds up over samples what each contributes. */
static void add_up(clq_derivation *d, unsigned input, clq_id contributions) {
    clq_node node = clq_graph_node_like(&d->node, &clq_op_elementwise, CLQ_SEGMENT_BACKWARD, CLQ_IDS(contributions));
    clq_element_program *p = &node.attributes.program;
    p->sums[p->sum_count++] = clq_element_take(p, clq_each_element);
    node.outputs[0] = d->dx[input] = clq_graph_add_gradient(d->graph, d->node.inputs[input]);
    clq_graph_add_node(d->graph, &node);
}

/* The kernel writes all gradients, whether they are wanted or not. */
static void differentiate(clq_derivation *d) {
    const struct clq_custom_attributes *a = &d->node.attributes.custom;
    const unsigned values = a->inputs + a->variables;
    clq_node back = clq_graph_backward_node(&d->node, &clq_op_custom_gradient, CLQ_IDS(0));
    for (unsigned i = 0; i < values; i++)
        back.inputs[i] = i < a->inputs && a->operation->unread_inputs ? 0 : d->node.inputs[i];
    back.inputs[values] = a->operation->unread_output ? 0 : d->node.outputs[0];
    for (unsigned i = 0; i < a->kept; i++) back.inputs[values + 1 + i] = d->node.outputs[1 + i];
    back.inputs[values + 1 + a->kept] = d->dy[0];
    for (unsigned i = 0; i < values; i++) {
        clq_graph_value gradient = *clq_graph_value_at(d->graph, d->node.inputs[i]);
        gradient.name = "gradient";
        gradient.home = CLQ_HOME_STEP;
        gradient.dtype = CLQ_F32;
        gradient.per_sample = true;
        gradient.recompute = false;
        if (i >= a->inputs) gradient.shape = CLQ_SHAPE(gradient.elements);
        back.outputs[i] = clq_graph_add_value(d->graph, &gradient);
    }
    clq_graph_add_node(d->graph, &back);
    for (unsigned i = 0; i < values && d->graph->error.status == CLQ_OK; i++)
        if (d->wants[i] && i < a->inputs)
            d->dx[i] = back.outputs[i];
        else if (d->wants[i])
            add_up(d, i, back.outputs[i]);
}

static double work(const clq_node *node) { return node->attributes.custom.operations; }

_Static_assert(CLQ_CUSTOM_VALUES_MAX + CLQ_CUSTOM_KEPT_MAX + 2 <= CLQ_NODE_INPUTS &&
                   (int)CLQ_CUSTOM_VALUES_MAX <= (int)CLQ_NODE_OUTPUTS && CLQ_CUSTOM_KEPT_MAX + 1 <= CLQ_NODE_OUTPUTS,
               "a node has room for all values");
const clq_operation clq_op_custom = {
    .name = "custom", .traits = CLQ_OP_WIDE | CLQ_OP_AGAIN, .differentiate = differentiate, .emit = emit, .work = work};
const clq_operation clq_op_custom_constant = {
    .name = "custom_constant", .traits = CLQ_OP_WIDE | CLQ_OP_AGAIN | CLQ_OP_STOPS, .emit = emit, .work = work};
const clq_operation clq_op_custom_gradient = {.name = "custom_gradient", .traits = CLQ_OP_WIDE, .emit = emit};
