/* The kinds of nodes and settings that the plans of random models have. Tests use them to choose a few models that
 * together have all kinds: every kernel of a plan must be compiled, and most models repeat the kinds of others. */
#ifndef CLQ_TEST_GRAPH_KINDS_H
#define CLQ_TEST_GRAPH_KINDS_H

#include "graph/random_model.h"
#include "graph/step/step.h"

#include <stdarg.h>

enum { KINDS_MOST = 512, KIND_BYTES = 64 };
enum { MODEL_NODES = 20 }; /* the fixed cost of one more model, in nodes */

static char kind_names[KINDS_MOST][KIND_BYTES];
static unsigned kind_count;

typedef struct kind_set {
    bool has[KINDS_MOST];
    unsigned nodes; /* every node costs about the same to compile */
} kind_set;

__attribute__((format(printf, 2, 3))) static void add_kind(kind_set *k, const char *format, ...) {
    char name[KIND_BYTES];
    unsigned i = 0;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    while (i < kind_count && strcmp(kind_names[i], name) != 0) i++;
    assert_true(i < KINDS_MOST);
    if (i == kind_count) memcpy(kind_names[kind_count++], name, sizeof name);
    k->has[i] = true;
}

static void add_element_kinds(kind_set *k, const clq_node *node) {
    const clq_element_program *p = &node->attributes.program;
    for (size_t i = 0; i < p->instruction_count; i++) add_kind(k, "instruction %d", p->instructions[i].op);
    for (size_t i = 0; i < p->input_count; i++) {
        add_kind(k, "input of kind %d", p->inputs[i].kind);
        add_kind(k, "input as %d", p->inputs[i].dtype);
    }
    add_kind(k, "several outputs %d, sums %d", p->output_count > 1, p->sum_count > 0);
}

/* Adds the settings that a node's kernel is built for, such as its data type, activation, bias and sums. */
static void add_node_kinds(kind_set *k, const clq_graph *graph, const clq_node *node) {
    const clq_attributes *a = &node->attributes;
    const char *name = node->op->name;
    if (!node->op->emit) return;
    add_kind(k, "%s, segment %d", name, node->segment);
    if (node->again) add_kind(k, "%s again", name);
    if (node->outputs[0])
        add_kind(k, "%s of %zu bytes", name, clq_dtype_bytes(clq_graph_value_at(graph, node->outputs[0])->dtype));
    if (node->op == &clq_op_elementwise) add_element_kinds(k, node);
    if (node->op == &clq_op_dense) add_kind(k, "%s: activation %d", name, a->dense.activation);
    if (node->op == &clq_op_conv2d) add_kind(k, "%s: activation %d", name, a->conv2d.activation);
    if (node->op == &clq_op_dense || node->op == &clq_op_conv2d) add_kind(k, "%s: bias %d", name, node->inputs[2] != 0);
    if (node->op == &clq_op_dense_gradient) add_kind(k, "%s: adds %d", name, a->dense.adds);
    if (node->op == &clq_op_conv2d_gradient) add_kind(k, "%s: adds %d", name, a->conv2d.adds);
    if (node->op == &clq_op_pool2d) add_kind(k, "%s: average %d", name, a->pool2d.average);
    if (node->op == &clq_op_loss) add_kind(k, "loss %d", a->loss.problem.kind);
    if (node->op == &clq_op_loss) add_kind(k, "loss of output %u", clq_graph_value_at(graph, node->inputs[1])->index);
}

/* The kinds that the subject's plan has on a device. */
static void find_kinds(const subject *s, clq_device *device, kind_set *out) {
    const clq_plan_config *config = &s->config;
    clq_pass_context passes = {.config = config, .arena_bytes = CLQ_VARIABLE_ALIGN};
    clq_graph graph = {0};
    memset(out, 0, sizeof *out);
    CHECK_OK(clq_list_create(device, COUNT, &passes.list));
    clq_list_set_selections(passes.list, config->selections);
    CHECK_OK(clq_graph_build(&graph, s->model, &passes, NULL, NULL));
    out->nodes = graph.node_count;
    for (uint32_t n = 0; n < graph.node_count; n++) add_node_kinds(out, &graph, &graph.nodes[n]);
    add_kind(out, "unfused %d, in one launch %d", config->unfused_graph, config->fused_launches);
    add_kind(out, "accumulates %d", config->accumulates);
    add_kind(out, "mode %d, loss %d, update %d", config->mode, config->loss != NULL, config->update != NULL);
    add_kind(out, "recompute %d", config->recompute);
    add_kind(out, "activations as %d", config->activations);
    add_kind(out, "samples as %d", config->sample_dtype);
    add_kind(out, "%u outputs", s->model->output_count);
    clq_graph_release(&graph);
    clq_list_destroy(passes.list);
}

/* How many kinds are in `of` but not in `known`. */
static unsigned kinds_beyond(const kind_set *of, const kind_set *known) {
    unsigned count = 0;
    for (unsigned i = 0; i < kind_count; i++) count += of->has[i] && !known->has[i];
    return count;
}

static void learn_kinds(kind_set *known, const kind_set *of) {
    for (unsigned i = 0; i < kind_count; i++) known->has[i] |= of->has[i];
}

/* Chooses the next model greedily: the one with the most new kinds per cost of its plan. False: all kinds are known. */
static bool choose_model(const kind_set *of, size_t count, kind_set *known, size_t *chosen) {
    double best = 0;
    for (size_t i = 0; i < count; i++) {
        const double gain = (double)kinds_beyond(&of[i], known) / (MODEL_NODES + of[i].nodes);
        if (gain > best) *chosen = i;
        best = CLQ_MAX(best, gain);
    }
    if (best > 0) learn_kinds(known, &of[*chosen]);
    return best > 0;
}

#endif
