/* The launches of a step graph, node by node: each value gets its memory, and the operation adds its launches. */
#include "graph/plan.h"

/* What is known of a value of the graph. */
typedef struct known {
    clq_value memory;
    clq_id root;   /* the value that has the memory: itself; of a reshaped value, the value that was reshaped */
    uint32_t last; /* of a root: the last node that reads its memory */
    bool checked;
} known;

typedef struct emitter {
    clq_plan *plan;
    const clq_graph *graph;
    known *values; /* by id */
} emitter;

static clq_value input_of(const clq_plan *plan, clq_feed_role role, uint32_t index) {
    return plan->v_inputs[clq_feed_find(&plan->feed, role, index)];
}

static clq_value memory_of_home(const clq_plan *plan, const clq_graph_value *value) {
    switch (value->home) {
    case CLQ_HOME_SAMPLES: return input_of(plan, CLQ_FEED_SAMPLES, value->index);
    case CLQ_HOME_LABELS: return input_of(plan, CLQ_FEED_LABELS, value->index);
    case CLQ_HOME_OUTPUT: return plan->v_output[value->index];
    case CLQ_HOME_METRICS: return plan->v_metrics;
    case CLQ_HOME_NORMS: return plan->v_norms;
    case CLQ_HOME_TABLE: return value->index ? plan->v_trust_table : plan->v_table;
    case CLQ_HOME_DECAYS: return plan->v_decays;
    case CLQ_HOME_SCALING: return plan->v_scaling;
    case CLQ_HOME_WEIGHT:
    case CLQ_HOME_STATE: return plan->variables[value->index].weight;
    case CLQ_HOME_GRADIENT: return plan->variables[value->index].gradient;
    case CLQ_HOME_PARAMETERS: return plan->v_parameters;
    case CLQ_HOME_GRADIENTS: return plan->v_gradient;
    case CLQ_HOME_OPTIMIZER: return plan->v_optimizer[value->index];
    case CLQ_HOME_RECEIVED: return plan->v_crossings[CLQ_RECEIVED][value->index];
    case CLQ_HOME_SENT: return plan->v_crossings[CLQ_SENT][value->index];
    case CLQ_HOME_RECEIVED_GRADIENT: return plan->v_crossings[CLQ_RECEIVED_GRADIENT][value->index];
    case CLQ_HOME_SENT_GRADIENT: return plan->v_crossings[CLQ_SENT_GRADIENT][value->index];
    case CLQ_HOME_CONSTANT: return clq_plan_whole_value(plan->list, value->name, plan->constants[value->index]);
    case CLQ_HOME_STEP: break;
    }
    return CLQ_NO_VALUE;
}

/* ---- constants ---- */

void clq_plan_drop_constants(clq_plan *plan) {
    for (uint32_t i = 0; i < plan->constant_count; i++) clq_buffer_destroy(plan->constants[i]);
    clq_free(plan->constants);
    plan->constants = NULL;
    plan->constant_count = 0;
}

static clq_status create_constants(clq_plan *plan, const clq_graph *graph) {
    if (graph->constant_count == 0) return CLQ_OK;
    plan->constants = clq_alloc(graph->constant_count, sizeof *plan->constants);
    if (!plan->constants) return CLQ_ERROR_MEMORY;
    for (; plan->constant_count < graph->constant_count; plan->constant_count++) {
        const clq_constant *constant = &graph->constants[plan->constant_count];
        clq_buffer **buffer = &plan->constants[plan->constant_count];
        const size_t bytes = constant->count * sizeof *constant->numbers;
        CLQ_TRY(clq_buffer_create(plan->device, CLQ_MEMORY_DEVICE, bytes, "constants", buffer));
        const clq_status status = clq_buffer_set(plan->device, *buffer, constant->numbers, bytes);
        if (status != CLQ_OK) {
            clq_buffer_destroy(*buffer);
            return status;
        }
    }
    return CLQ_OK;
}

static void find_memory(emitter *e) {
    for (clq_id id = 1; id <= e->graph->value_count; id++)
        e->values[id] = (known){.memory = memory_of_home(e->plan, clq_graph_value_at(e->graph, id)), .root = id};
    for (uint32_t n = 0; n < e->graph->node_count; n++) {
        const clq_node *node = &e->graph->nodes[n];
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) e->values[e->values[node->inputs[i]].root].last = n;
        if (node->op->traits & CLQ_OP_ALIAS) e->values[node->outputs[0]].root = e->values[node->inputs[0]].root;
    }
}

/* Whether node n may write its first output y where its input x lies: no later node reads this memory, and x is the
 * step's own and as large as y. */
static bool may_overwrite(const emitter *e, uint32_t n, clq_id x, clq_id y) {
    const clq_id root = e->values[x].root;
    const clq_graph_value *from = clq_graph_value_at(e->graph, root), *to = clq_graph_value_at(e->graph, y);
    return from->home == CLQ_HOME_STEP && e->values[root].last == n && from->dtype == to->dtype &&
           from->per_sample == to->per_sample && from->elements == to->elements;
}

static clq_value output_memory(const emitter *e, uint32_t n, unsigned i) {
    const clq_node *node = &e->graph->nodes[n];
    const clq_graph_value *value = clq_graph_value_at(e->graph, node->outputs[i]);
    const unsigned overwrites = i == 0 ? node->op->overwrites : 0;
    const clq_id over = overwrites ? node->inputs[overwrites - 1] : 0;
    if (value->home != CLQ_HOME_STEP) return e->values[node->outputs[i]].memory;
    if (i == 0 && node->op->traits & CLQ_OP_ALIAS) return e->values[node->inputs[0]].memory;
    if (over && may_overwrite(e, n, over, node->outputs[0])) return e->values[over].memory;
    size_t bytes = clq_graph_value_bytes(value);
    const clq_value memory = clq_list_value(e->plan->list, CLQ_VALUE_ACTIVATION, value->name,
                                            value->per_sample ? 0 : bytes, value->per_sample ? bytes : 0);
    clq_list_set_storage(e->plan->list, memory, value->dtype);
    return memory;
}

/* A variable's gradient is complete after the last launch of backward that writes or reads it. Then replicas add up
 * their gradients. */
static void note_gradient(const emitter *e, clq_id id, size_t launches) {
    const clq_graph_value *value = clq_graph_value_at(e->graph, id);
    if (value->home == CLQ_HOME_GRADIENT) e->plan->variables[value->index].done = launches;
}

static void check_inputs(const emitter *e, const clq_node *node) {
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
        const clq_id id = node->inputs[i];
        if (!id || e->values[id].checked) continue;
        clq_check_input(e->plan, node, clq_graph_value_at(e->graph, id), e->values[id].memory);
        e->values[id].checked = true;
    }
}

static void emit_node(const emitter *e, uint32_t n) {
    const clq_node *node = &e->graph->nodes[n];
    clq_emission emission = {.list = e->plan->list, .graph = e->graph, .node = node};
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) emission.in[i] = e->values[node->inputs[i]].memory;
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
        if (node->outputs[i] && !(node->op->makes >> i & 1)) emission.out[i] = output_memory(e, n, i);
    const bool exchanges = node->op->traits & CLQ_OP_EXCHANGES;
    e->plan->exchanges |= exchanges;
    clq_list_scope(e->plan->list, node->scope);
    check_inputs(e, node);
    if (exchanges) clq_check_exchange(e->plan);
    if (node->op->emit) node->op->emit(&emission);
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
        if (node->outputs[i] && !(node->op->makes >> i & 1))
            clq_check_output(e->plan, node, clq_graph_value_at(e->graph, node->outputs[i]), emission.out[i]);
    size_t launches = clq_list_launch_count(e->plan->list);
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++) {
        if (!node->outputs[i]) continue;
        e->values[node->outputs[i]].memory = emission.out[i];
        note_gradient(e, node->outputs[i], launches);
    }
    for (unsigned i = 0; i < CLQ_NODE_INPUTS && node->segment <= CLQ_SEGMENT_BACKWARD; i++)
        if (node->inputs[i]) note_gradient(e, node->inputs[i], launches);
    for (unsigned s = node->segment; s < CLQ_SEGMENT_COUNT; s++) e->plan->segment_end[s] = launches;
}

bool clq_node_takes(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    const clq_operation *op = node->op;
    if (dtype == CLQ_F32 || op->types & CLQ_OP_TYPE(dtype)) return true;
    if (dtype != CLQ_F16 && dtype != CLQ_BF16) return false;
    if (op->traits & CLQ_OP_ALIAS && !op->emit) return true; /* no kernel touches it */
    return op->stores && op->stores(list, node, value, dtype);
}

/* Checks that the operation takes the types of the node's values. Kernels exist only for these types. */
static clq_status check_types(const clq_list *list, const clq_graph *graph, const clq_node *node) {
    for (unsigned i = 0; i < CLQ_NODE_INPUTS + CLQ_NODE_OUTPUTS; i++) {
        const clq_id id = i < CLQ_NODE_INPUTS ? node->inputs[i] : node->outputs[i - CLQ_NODE_INPUTS];
        const clq_graph_value *value = id ? clq_graph_value_at(graph, id) : NULL;
        if (value && !clq_node_takes(list, node, i, value->dtype))
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: '%s' is %s, which operation %s does not take", node->scope,
                            value->name, clq_dtype_name(value->dtype), node->op->name);
    }
    return CLQ_OK;
}

clq_status clq_plan_build_graph(const clq_plan *plan, clq_list *list, clq_graph *graph, clq_pass_observer after,
                                void *observer) {
    const clq_weights *weights = plan->weights;
    const clq_buffer *decays = weights->blocks.decays;
    const clq_pass_context context = {.config = &plan->config,
                                      .list = list,
                                      .slices = weights->sliced ? weights->slices : NULL,
                                      .table_entries = weights->blocks.entries,
                                      .decaying = decays ? clq_buffer_bytes(decays) / sizeof(float) : 0,
                                      .arena_dtype = clq_weights_dtype(weights, CLQ_ARENA_PARAMETERS),
                                      .arena_bytes = weights->part_end - weights->part_begin,
                                      .updates = clq_plan_updates(plan, weights->part_begin, weights->part_end)};
    return clq_graph_build(graph, plan->model, &context, after, observer);
}

clq_status clq_plan_emit(clq_plan *plan) {
    clq_graph graph = {0};
    emitter e = {.plan = plan, .graph = &graph};
    clq_status status;
    CLQ_TRY_OR(done, status, clq_plan_build_graph(plan, plan->list, &graph, NULL, NULL));
    for (uint32_t n = 0; n < graph.node_count; n++)
        CLQ_TRY_OR(done, status, check_types(plan->list, &graph, &graph.nodes[n]));
    CLQ_TRY_OR(done, status, create_constants(plan, &graph));
    e.values = clq_alloc((size_t)graph.value_count + 1, sizeof *e.values);
    CLQ_TRY_OR(done, status, e.values ? CLQ_OK : CLQ_ERROR_MEMORY);
    find_memory(&e);
    for (uint32_t n = 0; n < graph.node_count; n++) emit_node(&e, n);
    status = clq_list_status(plan->list);
done:
    clq_free(e.values);
    clq_graph_release(&graph);
    return status;
}
