/* Step graphs of random models. The interpreter, in double, shows that no pass changes what a graph computes. Gradients
 * must match finite differences of the graph's own loss. The launches of a plan must give what the interpreter gives.
 * The seeds are 0 to GRAPHS - 1, each on one of the drivers, or the range in CLQ_TEST_SEEDS ("100 2000"), on all
 * drivers. */
#include "graph/seed_plans.h"
#include "graph/seldom_models.h"

enum { GRAPHS = 150 };
enum { POOLED = 16, BINARY = 38 }; /* no other seed has the kernels of these two: each driver runs both */

/* How often the passes made each thing, over all graphs. Comparing results alone would not find a pass that does
 * nothing. */
static struct {
    unsigned conv_pools, products, pools, elementwise, long_programs, derivatives, joined_sums, softmax_sums, added,
        two_gradients, repeats, slices, normalised, dropped, exchanged, second_losses, accumulated, adding_products,
        narrow, narrow_gradients, casts, again, products_again, normalised_again, dropped_again;
} made;
static unsigned frames_again, penalties, warps; /* likewise, for the special models */

static void count_elements(const clq_node *node) {
    const clq_element_program *p = &node->attributes.program;
    unsigned slopes = 0;
    for (unsigned i = 0; i < p->instruction_count; i++)
        slopes += p->instructions[i].op >= CLQ_ELEMENT_RELU_SLOPE && p->instructions[i].op <= CLQ_ELEMENT_TANH_SLOPE;
    for (unsigned i = 0; i < p->instruction_count; i++)
        if (p->instructions[i].op == CLQ_ELEMENT_DROPOUT && node->segment == CLQ_SEGMENT_BACKWARD)
            ++*(node->again ? &made.dropped_again : &made.dropped);
    if (node->again) return;
    if (node->segment == CLQ_SEGMENT_FORWARD) {
        made.elementwise++;
        made.long_programs += p->instruction_count > p->input_count + 1;
    } else {
        made.derivatives += slopes > 1;
        made.joined_sums += p->sum_count > 0 && p->output_count > 0;
        made.added += slopes == 0 && p->input_count > 1;
        made.two_gradients += p->output_count > 1;
    }
}

static bool is_narrow(const clq_graph *graph, clq_id id) {
    return id && clq_dtype_bytes(clq_graph_value_at(graph, id)->dtype) == 2;
}

static void count_made(const clq_graph *graph) {
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const clq_node *node = &graph->nodes[n];
        const bool narrow = is_narrow(graph, node->outputs[0]);
        *(node->segment == CLQ_SEGMENT_FORWARD ? &made.narrow : &made.narrow_gradients) += narrow;
        made.casts += node->op == &clq_op_elementwise && node->attributes.program.instruction_count == 1 &&
                      is_narrow(graph, node->inputs[0]) != narrow;
        if (node->op == &clq_op_elementwise) count_elements(node);
        made.again += node->again;
        made.products_again += node->again && (node->op == &clq_op_dense || node->op == &clq_op_conv2d);
        made.normalised_again += node->again && node->op == &clq_op_normalise;
        frames_again += node->op == &clq_op_frames;
        penalties += node->op == &clq_op_penalty_gradient;
        warps += node->op == &clq_op_warp;
        made.conv_pools += node->op == &clq_op_conv_pool;
        made.products += node->op == &clq_op_dense && node->attributes.dense.activation != CLQ_ACTIVATION_LINEAR;
        made.pools += node->op == &clq_op_pool2d && node->attributes.pool2d.activation != CLQ_ACTIVATION_LINEAR;
        made.softmax_sums += node->op == &clq_op_softmax_gradient && node->outputs[1];
        made.repeats += node->op == &clq_op_repeat;
        made.slices += node->op == &clq_op_slice;
        made.normalised += node->op == &clq_op_normalise_gradient;
        made.accumulated += node->op == &clq_op_accumulate;
        made.adding_products += (node->op == &clq_op_dense_gradient && node->attributes.dense.adds) ||
                                (node->op == &clq_op_conv2d_gradient && node->attributes.conv2d.adds);
        made.exchanged += node->op == &clq_op_all_reduce && node->segment == CLQ_SEGMENT_BACKWARD;
        made.second_losses += node->op == &clq_op_loss && clq_graph_value_at(graph, node->inputs[1])->index == 1;
    }
}

/* Whether a driver runs a seed. The parity of the seed's bits decides: models and ways are chosen by residues of the
 * seed, and so each driver gets seeds of every residue. */
static bool takes(const clq_device *device, uint64_t seed) {
    bool odd = clq_device_runs_in_caller(device);
    for (uint64_t bits = seed; bits; bits &= bits - 1) odd = !odd;
    return odd || getenv("CLQ_TEST_SEEDS");
}

static void passes_on(clq_device *device, clq_queue *queue) {
    uint64_t first, end;
    (void)queue;
    (void)seeds(GRAPHS, &first, &end);
    for (uint64_t seed = first; seed < end; seed++) {
        subject s;
        if (!takes(device, seed)) continue;
        build(&s, seed);
        settle(&s, seed);
        check_passes_on(&s, device);
        clq_model_destroy(s.model);
    }
}

static void passes_keep_what_a_graph_computes(void **state) {
    (void)state;
    uint64_t first, end;
    see_graph = count_made;
    on_each_driver(passes_on);
    see_graph = NULL;
    if (seeds(GRAPHS, &first, &end)) return; /* other seeds need not have everything */
    const unsigned *counts = (const unsigned *)&made;
    for (size_t i = 0; i < sizeof made / sizeof *counts; i++)
        if (!counts[i]) fail_msg("no graph has what counter %zu of `made` counts", i);
}

/* ---- plans ---- */

/* Builds a seed's model and sets how it is planned. */
static void start_plan(subject *s, uint64_t seed) {
    build(s, seed);
    settle(s, seed);
    s->config.unfused_graph = seed % 2; /* an unfused graph overwrites more values in place */
}

typedef struct driver {
    clq_device *device;
    clq_queue *queue;
} driver;

static void plan_of_seed(uint64_t seed, void *context) {
    const driver *d = context;
    subject s;
    numbers n;
    start_plan(&s, seed);
    make_numbers(&s, &n);
    check_plan(&s, &n, d->device, d->queue);
    free_numbers(n.weights, n.variables);
    clq_model_destroy(s.model);
}

/* Checks few of GRAPHS models that together have every kind: POOLED and BINARY on each driver, the others on one. */
static void plans_on(clq_device *device, clq_queue *queue) {
    static const uint64_t on_each[] = {POOLED, BINARY};
    static const seed_plans plans = {.graphs = GRAPHS, .start = start_plan, .check = plan_of_seed};
    static kind_set of[GRAPHS];
    driver d = {device, queue};
    kind_set known = {.nodes = 0};
    size_t chosen;
    if (check_given_seeds(&plans, &d, device, of)) return;
    for (size_t i = 0; i < CLQ_COUNT_OF(on_each); i++) {
        learn_kinds(&known, &of[on_each[i]]);
        plan_of_seed(on_each[i], &d);
    }
    for (unsigned turn = 0; choose_model(of, GRAPHS, &known, &chosen); turn++)
        if (turn % 2 == clq_device_runs_in_caller(device)) plan_of_seed(chosen, &d);
}

static void plans_compute_what_their_graphs_do(void **state) {
    (void)state;
    on_each_driver(plans_on);
}

/* ---- special models, which random draws seldom give ---- */

enum { SEEDS_EACH = 6 };

/* A penalty is added to the model's loss in full, whatever the weight of the output's loss is. Models of several
 * outputs have no penalties here. */
static void weigh_penalties(subject *s) {
    s->losses[0].weight = 0.5f;
    for (uint32_t v = 0; v < s->model->variable_count && s->model->output_count > 1; v++)
        s->model->variables[v].properties.l1 = s->model->variables[v].properties.l2 = 0;
}

/* The drivers take turns with the seeds. Passes are cheap, but each kernel of a plan must be compiled. So a model has
 * one plan per driver: one recomputes all values that may be recomputed, the other only some. If CLQ_TEST_SEEDS is set,
 * every driver runs all plans. */
static void special_on(clq_device *device, clq_queue *queue) {
    uint64_t first, end;
    const bool all = seeds(GRAPHS, &first, &end);
    for (size_t i = 0; i < CLQ_COUNT_OF(special) * SEEDS_EACH; i++) {
        subject s;
        numbers n;
        clq_list *list;
        const size_t seed = i % SEEDS_EACH, turn = i / SEEDS_EACH + seed;
        if (!all && turn % 2 == clq_device_runs_in_caller(device)) continue;
        build_of(&s, i, special[i / SEEDS_EACH]);
        (void)snprintf(s.path, sizeof s.path, " special %zu", i / SEEDS_EACH);
        if (special[i / SEEDS_EACH] == regularised) weigh_penalties(&s);
        make_numbers(&s, &n);
        recompute(&s, i % 2);
        CHECK_OK(clq_list_create(device, COUNT, &list));
        clq_list_set_selections(list, &fused);
        check_passes(&s, &n, list);
        if (all || seed % 3 == 0) check_plan(&s, &n, device, queue);
        clq_list_destroy(list);
        free_numbers(n.weights, n.variables);
        clq_model_destroy(s.model);
    }
}

static void special_models_compute_what_their_graphs_do(void **state) {
    (void)state;
    uint64_t first, end;
    if (seeds(GRAPHS, &first, &end) && first > 0) return; /* special models have own seeds: once is enough */
    see_graph = count_made;
    on_each_driver(special_on);
    see_graph = NULL;
    assert_true(frames_again > 0 && penalties > 0 && warps > 0);
}

/* ---- without memory ---- */

typedef struct made_graph {
    const subject *s;
    clq_list *list;
} made_graph;

static clq_status make_graph(void *context) {
    const made_graph *m = context;
    const clq_pass_context passes = {.config = &m->s->config, .list = m->list, .arena_bytes = CLQ_VARIABLE_ALIGN};
    clq_graph graph = {0};
    clq_status status = clq_graph_build(&graph, m->s->model, &passes, NULL, NULL);
    clq_graph_release(&graph);
    return status;
}

static void out_of_memory_on(clq_device *device, clq_queue *queue) {
    (void)queue;
    for (uint64_t seed = 0; seed < 10; seed++) {
        subject s;
        if (!takes(device, seed)) continue;
        build(&s, seed);
        settle(&s, seed);
        made_graph m = {.s = &s};
        CHECK_OK(clq_list_create(device, COUNT, &m.list));
        assert_true(walk_allocations(make_graph, &m) >= 5);
        clq_list_destroy(m.list);
        clq_model_destroy(s.model);
    }
}

static void graphs_run_out_of_memory(void **state) {
    (void)state;
    on_each_driver(out_of_memory_on);
}

/* ---- missing derivatives ---- */

/* Differentiates a loss of the node's output. The node's only input is a weight. */
static clq_status differentiate(clq_node *node, bool has_gradient) {
    clq_graph graph = {0};
    const clq_graph_value weight = {
        .name = "weight", .dtype = CLQ_F32, .shape = CLQ_SHAPE(4), .elements = 4, .home = CLQ_HOME_WEIGHT};
    clq_node loss = {.op = &clq_op_loss, .scope = "loss", .segment = CLQ_SEGMENT_LOSS};
    node->inputs[0] = clq_graph_add_value(&graph, &weight);
    loss.inputs[0] = node->outputs[0] = clq_graph_add_like(&graph, node->inputs[0], "y");
    clq_graph_add_node(&graph, node);
    clq_graph_add_node(&graph, &loss);
    clq_graph_differentiate(&graph, NULL);
    const clq_status status = clq_error_raise(&graph.error);
    unsigned gradients = 0, zeros = 0;
    clq_graph_find_uses(&graph);
    for (clq_id id = 1; id <= graph.value_count; id++) {
        const clq_graph_value *value = clq_graph_value_at(&graph, id);
        if (value->home != CLQ_HOME_GRADIENT) continue;
        gradients++;
        zeros += graph.nodes[value->maker - 1].inputs[0] == 0; /* made from no value */
    }
    assert_int_equal(gradients, status == CLQ_OK);
    assert_int_equal(zeros, status == CLQ_OK && !has_gradient);
    clq_graph_release(&graph);
    return status;
}

/* Differentiates one instruction with a weight and a constant as operands. */
static clq_status differentiate_instruction(clq_element_op op, bool has_gradient) {
    clq_node node = {.op = &clq_op_elementwise, .scope = "layer", .segment = CLQ_SEGMENT_FORWARD};
    clq_element_program *p = &node.attributes.program;
    const unsigned x = clq_element_take(p, clq_each_element);
    const unsigned number = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 1});
    const clq_instruction instruction = {.op = op, .a = x, .b = number, .c = number, .number = 0.5};
    p->outputs[p->output_count++].from = clq_element_do(p, instruction);
    const clq_status status = differentiate(&node, has_gradient);
    assert_int_equal(clq_element_has_derivative(&node), status == CLQ_OK);
    return status;
}

/* Without a gradient, a weight would silently never be trained. An instruction that is flat has a gradient of zeros. */
static void instructions_without_a_derivative_are_refused(void **state) {
    static const clq_element_op unknown[] = {CLQ_ELEMENT_RELU_SLOPE, CLQ_ELEMENT_SIGMOID_SLOPE, CLQ_ELEMENT_TANH_SLOPE,
                                             CLQ_ELEMENT_MISH_SLOPE, CLQ_ELEMENT_SOFTPLUS_SLOPE};
    static const clq_element_op flat[] = {CLQ_ELEMENT_GREATER, CLQ_ELEMENT_AT_LEAST,
                                          CLQ_ELEMENT_EQUAL,   CLQ_ELEMENT_SELECT /* by what decides */,
                                          CLQ_ELEMENT_SIGN,    CLQ_ELEMENT_NORMAL};
    (void)state;
    for (unsigned op = CLQ_ELEMENT_CONSTANT + 1; op < CLQ_ELEMENT_OPS; op++) {
        bool is_known = true, is_flat = false;
        for (size_t i = 0; i < CLQ_COUNT_OF(unknown); i++) is_known = is_known && unknown[i] != (clq_element_op)op;
        for (size_t i = 0; i < CLQ_COUNT_OF(flat); i++) is_flat = is_flat || flat[i] == (clq_element_op)op;
        if (is_known)
            CHECK_OK(differentiate_instruction((clq_element_op)op, !is_flat));
        else
            CHECK_FAILS(CLQ_ERROR_INTERNAL, differentiate_instruction((clq_element_op)op, false));
    }
}

static void operations_without_a_derivative_are_refused(void **state) {
    clq_node reshape = {.op = &clq_op_reshape, .scope = "layer", .segment = CLQ_SEGMENT_FORWARD};
    clq_node slice = {.op = &clq_op_slice, .scope = "layer", .segment = CLQ_SEGMENT_FORWARD};
    (void)state;
    CHECK_OK(differentiate(&reshape, true));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, differentiate(&slice, false));
    CHECK_DETAIL("layer 'layer': the operation slice has no derivative");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_keep_what_a_graph_computes),
                                       cmocka_unit_test(plans_compute_what_their_graphs_do),
                                       cmocka_unit_test(special_models_compute_what_their_graphs_do),
                                       cmocka_unit_test(graphs_run_out_of_memory),
                                       cmocka_unit_test(instructions_without_a_derivative_are_refused),
                                       cmocka_unit_test(operations_without_a_derivative_are_refused)};
    return cmocka_run_group_tests_name("graph/step_graph", tests, NULL, NULL);
}
