/* How the values of a node are split over ranks: what the operations' rules share. */
#include "graph/step/step.h"

bool clq_split_set(size_t *run, size_t wanted) {
    if (*run == 0) *run = wanted;
    return *run == wanted;
}

void clq_split_group(clq_split *s, size_t parts) {
    size_t a = s->groups, b = parts;
    while (b > 0) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    s->groups = a;
}

bool clq_split_in_units(clq_split *s, const size_t units[CLQ_NODE_VALUES]) {
    size_t count = 0; /* of units in a run */
    for (unsigned i = 0; i < CLQ_NODE_VALUES; i++) {
        const size_t run = *clq_split_run(s, i);
        if (run == 0) continue;
        if (units[i] == 0 || run % units[i] || !clq_split_set(&count, run / units[i])) return false;
    }
    for (unsigned i = 0; i < CLQ_NODE_VALUES; i++) *clq_split_run(s, i) = count * units[i];
    clq_split_group(s, count);
    return count > 0;
}

bool clq_split_alike(clq_split *s) {
    size_t units[CLQ_NODE_VALUES];
    for (unsigned i = 0; i < CLQ_NODE_VALUES; i++) units[i] = clq_node_value(s->node, i) ? 1 : 0;
    return clq_split_in_units(s, units);
}

void clq_split_fan(clq_split *s, unsigned i) {
    const clq_id id = s->node->inputs[i];
    if (id && clq_graph_value_at(s->graph, id)->home != CLQ_HOME_CONSTANT) s->fans |= 1u << i;
}

bool clq_split_axis(const clq_graph_value *value, size_t run, unsigned *axis, size_t *inner) {
    *inner = 1;
    for (*axis = value->shape.rank - 1; *axis > 0 && *inner * value->shape.dims[*axis] < run; (*axis)--)
        *inner *= value->shape.dims[*axis];
    return run % *inner == 0 && *inner * value->shape.dims[*axis] % run == 0;
}
