/* The order in which a graph's nodes run if some values are made again, and how much memory lives at which time. */
#include "graph/step/recompute.h"

#include <string.h>

/* ---- the graph ---- */

/* The operations of a node for one sample, estimated from the shapes alone. */
static double work_of(const clq_graph *graph, const clq_node *node) {
    double bytes = 0;
    for (unsigned i = 0; i < CLQ_NODE_INPUTS + CLQ_NODE_OUTPUTS; i++) {
        const clq_id id = i < CLQ_NODE_INPUTS ? node->inputs[i] : node->outputs[i - CLQ_NODE_INPUTS];
        const clq_graph_value *value = id ? clq_graph_value_at(graph, id) : NULL;
        if (value && value->per_sample) bytes += (double)clq_graph_value_bytes(value);
    }
    return (node->op->work ? node->op->work(node) : 0) + (node->op->emit ? CLQ_OPERATIONS_PER_BYTE * bytes : 0);
}

/* A value that is one for all samples is small, and always stays for backward to read. */
static void note_values(clq_recomputation *r) {
    for (clq_id id = 1; id <= r->values; id++) {
        const clq_graph_value *value = clq_graph_value_at(r->graph, id);
        const bool own = value->home == CLQ_HOME_STEP;
        r->stored[id] = (struct clq_stored){
            .root = id,
            .bytes = own ? (double)clq_graph_value_bytes(value) * (value->per_sample ? r->samples : 1) : 0,
            .marked = value->recompute,
            .stays = !own || !value->per_sample};
    }
}

static unsigned places_of(const clq_id *ids, unsigned most) {
    while (most > 0 && !ids[most - 1]) most--;
    return most;
}

static void note_nodes(clq_recomputation *r) {
    for (uint32_t n = 0; n < r->graph->node_count; n++) {
        const clq_node *node = &r->graph->nodes[n];
        r->places[n].inputs = places_of(node->inputs, CLQ_NODE_INPUTS);
        r->places[n].outputs = places_of(node->outputs, CLQ_NODE_OUTPUTS);
        for (unsigned i = 0; i < CLQ_NODE_INPUTS && n >= r->forward; i++)
            if (node->inputs[i]) r->stored[r->stored[node->inputs[i]].root].read = true;
        for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++) {
            const clq_id id = node->outputs[i];
            if (!id) continue;
            struct clq_stored *stored = &r->stored[id];
            stored->maker = n + 1;
            stored->work = work_of(r->graph, node) * r->samples;
            if (clq_node_is_alias(node, node->op, i)) stored->root = r->stored[node->inputs[0]].root;
            struct clq_stored *root = &r->stored[stored->root];
            root->marked = root->marked || stored->marked;
            if (!(node->op->traits & CLQ_OP_AGAIN)) root->stays = true;
        }
    }
}

clq_status clq_recomputation_open(clq_recomputation *r, const clq_graph *graph, uint32_t capacity) {
    const uint32_t values = graph->value_count;
    *r = (clq_recomputation){.graph = graph, .values = values, .samples = (double)capacity};
    while (r->forward < graph->node_count && graph->nodes[r->forward].segment < CLQ_SEGMENT_BACKWARD) r->forward++;
    r->stored = clq_alloc((size_t)values + 1, sizeof *r->stored);
    r->places = clq_alloc(graph->node_count, sizeof *r->places);
    r->entries = clq_alloc((size_t)graph->node_count + values, sizeof *r->entries);
    r->again = clq_alloc((size_t)values + 1, sizeof *r->again);
    r->memory = clq_alloc(2 * (size_t)values + 1, sizeof *r->memory);
    r->last = clq_alloc(2 * (size_t)values + 1, sizeof *r->last);
    if (!r->stored || !r->places || !r->entries || !r->again || !r->memory || !r->last) return CLQ_ERROR_MEMORY;
    note_values(r);
    note_nodes(r);
    return CLQ_OK;
}

void clq_recomputation_release(clq_recomputation *r) {
    clq_free(r->stored);
    clq_free(r->places);
    clq_free(r->entries);
    clq_free(r->again);
    clq_free(r->memory);
    clq_free(r->last);
    *r = (clq_recomputation){0};
}

bool clq_recomputation_may_drop(const clq_recomputation *r, clq_id id) {
    const struct clq_stored *s = &r->stored[id];
    return s->root == id && s->maker && s->maker <= r->forward && s->read && !s->stays;
}

/* A value that only forward reads is gone in backward, unless it stays in any case. */
bool clq_recomputation_has(const clq_recomputation *r, clq_id id) {
    const struct clq_stored *root = &r->stored[r->stored[id].root];
    return root->stays || (root->read && !root->dropped);
}

/* ---- the order ---- */

static clq_id now(const clq_recomputation *r, clq_id id) { return id && r->again[id] ? r->values + id : id; }

static clq_order_entry *add_entry(clq_recomputation *r, uint32_t index, clq_order_kind kind, const clq_operation *op,
                                  unsigned input_count) {
    clq_order_entry *entry = &r->entries[r->entry_count++];
    *entry = (clq_order_entry){.node = index, .kind = kind, .op = op, .input_count = input_count};
    for (unsigned i = 0; i < input_count; i++) entry->inputs[i] = now(r, r->graph->nodes[index].inputs[i]);
    return entry;
}

static unsigned output_of(const clq_node *node, clq_id id) {
    unsigned i = 0;
    while (node->outputs[i] != id) i++;
    return i;
}

static void make_again(clq_recomputation *r, clq_id id);

static void make_inputs_again(clq_recomputation *r, uint32_t index, unsigned count) {
    const clq_node *node = &r->graph->nodes[index];
    for (unsigned i = 0; i < count; i++)
        if (node->inputs[i]) make_again(r, node->inputs[i]);
}

/* Adds entries that make the value again, in front of a node of backward that reads it. */
static void make_again(clq_recomputation *r, clq_id id) {
    const uint32_t maker = r->stored[id].maker;
    if (!maker || maker > r->forward || r->again[id] || clq_recomputation_has(r, id)) return;
    const clq_node *node = &r->graph->nodes[maker - 1];
    const struct clq_node_places places = r->places[maker - 1];
    const unsigned output = output_of(node, id);
    const clq_operation *alone = node->op->alone[output];
    const unsigned inputs = alone ? 1 : places.inputs;
    make_inputs_again(r, maker - 1, inputs);
    clq_order_entry *entry =
        add_entry(r, maker - 1, alone ? CLQ_ORDER_ALONE : CLQ_ORDER_AGAIN, alone ? alone : node->op, inputs);
    entry->output_count = alone ? 1 : places.outputs;
    for (unsigned i = 0; i < entry->output_count; i++) {
        const clq_id made = alone ? id : node->outputs[i];
        entry->outputs[i] = made ? r->values + made : 0;
        if (made && !clq_recomputation_has(r, made)) r->again[made] = true;
    }
}

void clq_recomputation_order(clq_recomputation *r) {
    r->entry_count = 0;
    memset(r->again, 0, ((size_t)r->values + 1) * sizeof *r->again);
    for (uint32_t n = 0; n < r->graph->node_count; n++) {
        const clq_node *node = &r->graph->nodes[n];
        if (n >= r->forward) make_inputs_again(r, n, r->places[n].inputs);
        clq_order_entry *entry = add_entry(r, n, CLQ_ORDER_NODE, node->op, r->places[n].inputs);
        entry->output_count = r->places[n].outputs;
        memcpy(entry->outputs, node->outputs, sizeof entry->outputs);
    }
}

/* ---- memory ---- */

static double bytes_of(const clq_recomputation *r, clq_id id) {
    return r->stored[id > r->values ? id - r->values : id].bytes;
}

/* Finds which memory values have, and until when. */
static void find_lives(clq_recomputation *r) {
    for (clq_id id = 0; id <= 2 * r->values; id++) {
        r->memory[id] = id;
        r->last[id] = 0;
    }
    for (uint32_t t = 0; t < r->entry_count; t++) {
        const clq_order_entry *e = &r->entries[t];
        for (unsigned i = 0; i < e->input_count; i++)
            if (e->inputs[i]) r->last[r->memory[e->inputs[i]]] = t;
        for (unsigned i = 0; i < e->output_count; i++) {
            const clq_id id = e->outputs[i];
            if (!id) continue;
            if (clq_node_is_alias(&r->graph->nodes[e->node], e->op, i)) r->memory[id] = r->memory[e->inputs[0]];
            r->last[r->memory[id]] = t;
        }
    }
}

/* Whether the output takes the memory of the input, as emit.c decides it. */
static bool overwrites(const clq_recomputation *r, const clq_order_entry *e, uint32_t entry) {
    if (!e->op->overwrites) return false;
    const clq_id x = r->memory[e->inputs[e->op->overwrites - 1]], y = e->outputs[0];
    return y && r->memory[y] == y && r->last[x] == entry && bytes_of(r, x) > 0 && bytes_of(r, x) == bytes_of(r, y);
}

/* The bytes of all memory that the entry uses last, each counted once. */
static double ending(const clq_recomputation *r, const clq_order_entry *e, uint32_t entry) {
    clq_id seen[CLQ_NODE_INPUTS + CLQ_NODE_OUTPUTS];
    unsigned count = 0;
    double bytes = 0;
    for (unsigned i = 0; i < e->input_count + e->output_count; i++) {
        const clq_id id = i < e->input_count ? e->inputs[i] : e->outputs[i - e->input_count];
        const clq_id memory = r->memory[id];
        unsigned k = 0;
        if (!id || r->last[memory] != entry) continue;
        while (k < count && seen[k] != memory) k++;
        if (k == count) bytes += bytes_of(r, memory);
        seen[count++] = memory;
    }
    return bytes;
}

/* Every output has the work of its node. Outputs that nobody reads may be missing. */
static double work_again(const clq_recomputation *r, const clq_order_entry *e) {
    unsigned i = 0;
    while (!e->outputs[i]) i++;
    return r->stored[e->outputs[i] - r->values].work;
}

clq_recompute_cost clq_recomputation_cost(clq_recomputation *r, double limit) {
    clq_recompute_cost cost = {0};
    double live = 0;
    clq_recomputation_order(r);
    find_lives(r);
    for (uint32_t t = 0; t < r->entry_count; t++) {
        const clq_order_entry *e = &r->entries[t];
        double made = 0;
        for (unsigned i = 0; i < e->output_count; i++)
            if (e->outputs[i] && r->memory[e->outputs[i]] == e->outputs[i]) made += bytes_of(r, e->outputs[i]);
        const double kept = overwrites(r, e, t) ? bytes_of(r, e->outputs[0]) : 0;
        live += made - kept;
        cost.peak = CLQ_MAX(cost.peak, live);
        cost.excess += CLQ_MAX(live - limit, 0.0);
        live -= ending(r, e, t) - kept;
        if (e->kind == CLQ_ORDER_ALONE)
            cost.work += CLQ_OPERATIONS_PER_BYTE * (bytes_of(r, e->inputs[0]) + bytes_of(r, e->outputs[0]));
        else if (e->kind == CLQ_ORDER_AGAIN)
            cost.work += work_again(r, e);
    }
    return cost;
}
