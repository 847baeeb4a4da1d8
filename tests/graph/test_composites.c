/* Composite operations compute the same as the operations that they stand for. Composites stay in a graph, are lowered
 * before the search for patterns, or are lowered after the search. In all three cases, the interpreter in double shows
 * that no pass changes what a graph computes, and gradients match finite differences. On each driver, the launches of
 * plans give what the interpreter gives for the graph without composites. With CLQ_TEST_WHOLE=1 both drivers run the
 * plans of composites for each seed. */
#include "graph/check_graph.h"
#include "graph/recurrent_models.h"
#include "graph/step/parts.h"

static clq_tensor finish_layers(subject *s, clq_tensor x) {
    return clq_flatten(s->model, clq_activate(s->model, x, CLQ_ACTIVATION_TANH, NULL), NULL);
}
static clq_tensor image(subject *s, clq_tensor x) {
    return clq_conv2d(s->model, x, &(clq_conv2d_config){.filters = 4, .kernel = {2, 2}});
}

static clq_tensor layer_norms(subject *s, clq_tensor x) {
    x = clq_layer_norm(s->model, image(s, x), NULL);
    x = clq_layer_norm(s->model, x, &(clq_row_norm_config){.axes = {2, {-2, -1}}, .epsilon = 0.1, .no_scale = true});
    return finish_layers(s, clq_layer_norm(s->model, x, &(clq_row_norm_config){.epsilon = 0.2, .no_center = true}));
}
static clq_tensor root_norms(subject *s, clq_tensor x) {
    x = clq_rms_norm(s->model, image(s, x), &(clq_row_norm_config){.axes = {3, {-3, -2, -1}}});
    return finish_layers(s, clq_unit_norm(s->model, clq_rms_norm(s->model, x, NULL), NULL));
}
static clq_tensor group_norms(subject *s, clq_tensor x) {
    x = clq_group_norm(s->model, image(s, x), &(clq_row_norm_config){.groups = 2, .epsilon = 0.1});
    x = clq_group_norm(s->model, x, &(clq_row_norm_config){.groups = -1, .epsilon = 0.1, .no_center = true});
    return finish_layers(s, clq_group_norm(s->model, x, &(clq_row_norm_config){.groups = 1, .no_scale = true}));
}

static clq_tensor pooled(subject *s, clq_tensor x) {
    x = clq_conv2d(s->model, x,
                   &(clq_conv2d_config){
                       .filters = 4, .kernel = {3, 3}, .padding = CLQ_PADDING_SAME, .activation = CLQ_ACTIVATION_TANH});
    x = clq_max_pool2d(s->model, x, NULL);
    x = clq_conv2d(s->model, x, &(clq_conv2d_config){.filters = 3, .kernel = {2, 2}, .no_bias = true});
    return clq_flatten(s->model, clq_max_pool2d(s->model, x, &(clq_pool_config){.size = {2, 1}}), NULL);
}

/* Attention with a mask of each sample, with this and a causal mask, with a causal mask alone, and with no mask and
 * shared heads of keys and values. */
static clq_tensor attentive(subject *s, clq_tensor x) {
    clq_attention_config config = {.heads = 2, .key = 3};
    clq_tensor y = clq_attention(s->model, CLQ_TENSORS(masked_sequence(s, x, 8)), &config);
    config.causal = true;
    y = clq_attention(s->model, &y, 1, &config);
    assert_true(s->model->tensors[y.id - 1].mask);
    s->model->tensors[y.id - 1].mask = 0;
    y = clq_attention(s->model, &y, 1, &config);
    const keyed_config dot = {.kind = &clq_layer_op_attention};
    const clq_tensor k = clq_reshape(
        s->model, clq_dense(s->model, y, &(clq_dense_config){.units = 3, .activation = CLQ_ACTIVATION_TANH}),
        CLQ_SHAPE(8, 1, 3), NULL);
    y = clq_model_add_layer(s->model, dot.kind, NULL, dot.bytes,
                            CLQ_TENSORS(clq_reshape(s->model, y, CLQ_SHAPE(8, 3, 3), NULL), k, k));
    return clq_flatten(s->model, y, NULL);
}

/* The kernels of recurrent cells lack these activations: the steps run one by one, in every graph. */
static clq_tensor in_steps(subject *s, clq_tensor x) {
    clq_recurrent_config config = clq_recurrent_config_default(5);
    config.activation = CLQ_ACTIVATION_ELU;
    config.gate_activation = CLQ_ACTIVATION_HARD_SIGMOID;
    config.return_sequences = true;
    const clq_tensor y = clq_recurrent(s->model, masked_sequence(s, x, 4), CLQ_CELL_LSTM, &config);
    config = clq_recurrent_config_default(4);
    config.activation = CLQ_ACTIVATION_SOFTSIGN;
    config.go_backwards = config.reset_before = true;
    config.recurrent_dropout = 0.2;
    return clq_recurrent(s->model, y, CLQ_CELL_GRU, &config);
}

/* trained, predicted: how many composites stay in a graph with gradients and in one without, unless the graph is for
 * comparison. between: the tolerance between a composite and its lowered form, whose constants are float32, such as the
 * factors of means and the sixth in hard_sigmoid. */
static const struct {
    build_layers *build;
    unsigned trained, predicted;
    double between;
} models[] = {
    {layer_norms, 3, 3, 1e-6},        {root_norms, 3, 3, 1e-6},
    {group_norms, 3, 3, 1e-6},        {pooled, 2, 2, 1e-12},
    {attentive, 0, 4, 1e-12},         {masked_both_ways, 5, 5, 1e-12},
    {dropped_sequences, 2, 2, 1e-12}, {from_state_to_state, 3, 3, 1e-12},
    {in_steps, 0, 0, 1e-8},
};

typedef enum way { STAY, LOWERED, LOWERED_BEHIND, WAYS } way;
static void set_way(subject *s, way how) {
    s->config.unfused_graph = how == LOWERED;
    s->config.lowered_graph = how == LOWERED_BEHIND;
}

static unsigned composites; /* in the graph after the last pass */
static void count_composites(const clq_graph *graph) {
    composites = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) composites += graph->nodes[n].op->lower != NULL;
}

/* Whether a driver runs the plan of a seed's graph. Models take turns between the drivers. A graph with composites runs
 * on the driver whose turn it is for the model's first seed, and on the other driver for its second seed. A graph
 * without composites runs on the former driver alone, for one of the two seeds. */
static bool is_planned_on(const clq_device *device, uint64_t seed, bool has_composites) {
    const uint64_t model = seed / 2;
    const bool is_second = seed % 2 == 1, has_turn = model % 2 == clq_device_runs_in_caller(device);
    if (getenv("CLQ_TEST_WHOLE")) return has_composites || has_turn;
    if (has_composites) return has_turn != is_second;
    return has_turn && is_second == (model / 2 % 2 == 1);
}

static void check_way(subject *s, const numbers *n, uint64_t seed, way how, clq_device *device, clq_queue *queue) {
    clq_list *list;
    set_way(s, how);
    CHECK_OK(clq_list_create(device, COUNT, &list));
    clq_list_set_selections(list, &fused);
    pass_tolerance = how == STAY && models[seed / 2].predicted > 0 ? 1e-12 : models[seed / 2].between;
    check_passes(s, n, list);
    assert_int_equal(composites, how != STAY        ? 0
                                 : s->config.update ? models[seed / 2].trained
                                                    : models[seed / 2].predicted);
    clq_list_destroy(list);
    /* Compiling kernels takes most of the time. Lowering after the patterns gives the same kernels as lowering before
     * them. */
    if (how != LOWERED_BEHIND && is_planned_on(device, seed, composites > 0)) check_plan(s, n, device, queue);
}

static void composites_on(clq_device *device, clq_queue *queue) {
    unsigned trained = 0, predicted = 0;
    see_graph = count_composites;
    for (size_t i = 0; i < CLQ_COUNT_OF(models); i++)
        for (uint64_t seed = 2 * i; seed < 2 * i + 2; seed++) {
            subject s;
            numbers n;
            build_of(&s, seed, models[i].build);
            (void)snprintf(s.path, sizeof s.path, " model %zu, seed %llu", i, (unsigned long long)seed);
            make_numbers(&s, &n);
            for (unsigned how = 0; how < WAYS; how++) check_way(&s, &n, seed, (way)how, device, queue);
            trained += s.config.update != NULL;
            predicted += s.config.update == NULL && models[i].predicted > models[i].trained;
            free_numbers(n.weights, n.variables);
            clq_model_destroy(s.model);
        }
    see_graph = NULL;
    assert_true(trained >= CLQ_COUNT_OF(models) && predicted > 0);
}

static void composites_are_what_they_are_short_for(void **state) {
    (void)state;
    on_each_driver(composites_on);
}

/* ---- a composite that has no kernels ---- */

static void emit_nothing(clq_emission *e) { (void)e; }

/* Computes 2x as x + x. */
static bool add_twice(clq_graph *graph, const clq_node *node) {
    clq_node sum =
        clq_graph_node_like(node, &clq_op_elementwise, node->segment, CLQ_IDS(node->inputs[0], node->inputs[0]));
    clq_element_program *p = &sum.attributes.program;
    const unsigned a = clq_element_take(p, clq_each_element), b = clq_element_take(p, clq_each_element);
    p->outputs[p->output_count++].from = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = a, .b = b});
    sum.outputs[0] = node->outputs[0];
    clq_graph_add_node(graph, &sum);
    return true;
}
static bool add_nothing(clq_graph *graph, const clq_node *node) {
    (void)graph, (void)node;
    return false;
}
static bool fits_nothing(const clq_node *node) {
    (void)node;
    return false;
}

/* Makes a graph of one node and lowers it. */
static clq_graph lower_one(const clq_operation *op, bool compares) {
    const clq_plan_config config = {.unfused_graph = compares};
    const clq_graph_value value = {.name = "x", .dtype = CLQ_F32, .shape = CLQ_SHAPE(4), .elements = 4};
    clq_graph graph = {0};
    clq_node node = {.op = op, .scope = "layer", .segment = CLQ_SEGMENT_FORWARD};
    node.inputs[0] = clq_graph_add_value(&graph, &value);
    node.outputs[0] = clq_graph_add_like(&graph, node.inputs[0], "y");
    clq_graph_add_node(&graph, &node);
    clq_graph_lower(&graph, &(clq_pass_context){.config = &config});
    return graph;
}

/* A composite stays if it has kernels and fits them, unless the graph is for comparison. */
static void a_composite_without_kernels_is_lowered(void **state) {
    (void)state;
    for (unsigned k = 0; k < 8; k++) {
        const bool has_kernels = k % 2, compares = k / 2 % 2, fits = k / 4;
        const clq_operation twice = {.name = "twice",
                                     .lower = add_twice,
                                     .emit = has_kernels ? emit_nothing : NULL,
                                     .fits = fits ? NULL : fits_nothing};
        clq_graph graph = lower_one(&twice, compares);
        CHECK_OK(clq_error_raise(&graph.error));
        assert_int_equal(graph.node_count, 1);
        assert_ptr_equal(graph.nodes[0].op, has_kernels && fits && !compares ? &twice : &clq_op_elementwise);
        assert_int_equal(graph.nodes[0].outputs[0], 2);
        clq_graph_release(&graph);
    }
}

/* A composite that would become too many operations stays, even for comparison. Without kernels, it fails. */
static void a_composite_that_is_too_long_stays(void **state) {
    const clq_operation stays = {.name = "stays", .lower = add_nothing, .emit = emit_nothing},
                        fails = {.name = "fails", .lower = add_nothing};
    (void)state;
    clq_graph graph = lower_one(&stays, true);
    CHECK_OK(clq_error_raise(&graph.error));
    assert_ptr_equal(graph.nodes[0].op, &stays);
    clq_graph_release(&graph);
    graph = lower_one(&fails, false);
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_error_raise(&graph.error));
    assert_non_null(strstr(clq_error_detail(), "layer 'layer': the operation fails has no kernels"));
    clq_graph_release(&graph);
}

/* The error names the layer: a value's shape alone would not identify it. */
static void a_part_that_is_too_large_is_refused(void **state) {
    const clq_graph_value value = {
        .name = "x", .dtype = CLQ_F32, .per_sample = true, .shape = CLQ_SHAPE(1), .elements = 1};
    const clq_repeat_problem twice = {.outer = 1, .repeats = (size_t)1 << 31, .inner = 1, .scale = 1};
    clq_graph graph = {0};
    (void)state;
    const clq_node of = {.scope = "layer", .segment = CLQ_SEGMENT_FORWARD};
    const clq_parts parts = {.graph = &graph, .of = &of, .name = "part"};
    const clq_id x = clq_graph_add_value(&graph, &value);
    assert_int_equal(clq_part_repeat(&parts, x, &twice, CLQ_SHAPE((size_t)1 << 16, (size_t)1 << 15)), 0);
    CHECK_FAILS(CLQ_ERROR_UNSUPPORTED, clq_error_raise(&graph.error));
    assert_string_equal(clq_error_detail(), "layer 'layer': (65536, 32768) values of a sample are too many");
    assert_int_equal(clq_part_zeros(&parts, CLQ_SHAPE(1)), 0);
    clq_graph_release(&graph);
}

/* ---- sequences of many steps ---- */

static clq_status finish_steps(size_t steps, clq_activation activation, clq_model **out) {
    clq_recurrent_config config = clq_recurrent_config_default(3);
    config.gate_activation = activation;
    CHECK_OK(clq_model_create("steps", out));
    const clq_tensor x = clq_input(*out, CLQ_SHAPE(steps, 2));
    return clq_model_finish(*out, clq_recurrent(*out, x, CLQ_CELL_GRU, &config));
}

/* Cells with kernels take any number of steps. Other cells are refused if there are too many steps to lower. */
static void many_steps_need_kernels(void **state) {
    static const struct {
        size_t steps;
        clq_activation activation;
        const char *refusal;
    } cases[] = {
        {CLQ_PARTS_STEPS + 1, CLQ_ACTIVATION_SIGMOID, NULL},
        {CLQ_PARTS_STEPS, CLQ_ACTIVATION_HARD_SIGMOID, NULL},
        {CLQ_PARTS_STEPS + 1, CLQ_ACTIVATION_HARD_SIGMOID,
         "with recurrent_activation 'hard_sigmoid' more than 64 steps are not supported: there are 65; linear, relu, "
         "sigmoid and tanh take any number"},
        {3, CLQ_ACTIVATION_SOFTMAX, "recurrent_activation 'softmax' is not supported"},
    };
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_model *model;
        const clq_status status = finish_steps(cases[i].steps, cases[i].activation, &model);
        assert_int_equal(status, cases[i].refusal ? CLQ_ERROR_UNSUPPORTED : CLQ_OK);
        if (cases[i].refusal) assert_non_null(strstr(clq_error_detail(), cases[i].refusal));
        clq_model_destroy(model);
    }
}

/* A sequence that is too long to lower keeps its kernels, also in a graph for comparison. */
static void long_sequences_on(clq_device *device, clq_queue *queue) {
    (void)queue;
    for (size_t more = 0; more < 2; more++) {
        const clq_plan_config config = {.capacity = COUNT, .sample_dtype = CLQ_F32, .unfused_graph = true};
        clq_pass_context context = {.config = &config, .arena_bytes = CLQ_VARIABLE_ALIGN};
        clq_model *model;
        clq_graph graph = {0};
        CHECK_OK(finish_steps(CLQ_PARTS_STEPS + more, CLQ_ACTIVATION_SIGMOID, &model));
        CHECK_OK(clq_list_create(device, COUNT, &context.list));
        CHECK_OK(clq_graph_build(&graph, model, &context, NULL, NULL));
        count_composites(&graph);
        assert_int_equal(composites, more);
        clq_graph_release(&graph);
        clq_list_destroy(context.list);
        clq_model_destroy(model);
    }
}

static void sequences_that_are_too_long_keep_their_kernels(void **state) {
    (void)state;
    on_each_driver(long_sequences_on);
}

/* ---- recomputation of lowered composites ---- */

/* How many products with the weights of gates are recomputed. Each step has one for each gate. */
static unsigned products_again(const subject *s, clq_device *device) {
    clq_pass_context context = {.config = &s->config, .arena_bytes = CLQ_VARIABLE_ALIGN};
    clq_graph graph = {0};
    unsigned again = 0;
    CHECK_OK(clq_list_create(device, COUNT, &context.list));
    CHECK_OK(clq_graph_build(&graph, s->model, &context, NULL, NULL));
    for (uint32_t n = 0; n < graph.node_count; n++) again += graph.nodes[n].again && graph.nodes[n].op == &clq_op_dense;
    clq_graph_release(&graph);
    clq_list_destroy(context.list);
    return again;
}

/* A lowered cell that is marked for recomputation keeps nothing of its steps for backward, like a cell with kernels. */
static void marked_on(clq_device *device, clq_queue *queue) {
    subject s;
    (void)queue;
    build_of(&s, 1, in_steps);
    s.config.recompute = CLQ_RECOMPUTE_OFF;
    s.model->recomputes = true;
    for (uint32_t i = 0; i < s.model->tensor_count; i++) s.model->tensors[i].recompute = false;
    assert_int_equal(products_again(&s, device), 0);
    for (uint32_t i = 0; i < s.model->tensor_count; i++)
        s.model->tensors[i].recompute = s.model->layers[s.model->tensors[i].layer - 1].kind == &clq_layer_lstm;
    assert_true(products_again(&s, device) > 2 * 4);
    check_passes_on(&s, device);
    clq_model_destroy(s.model);
}

static void a_marked_cell_runs_its_steps_again(void **state) {
    (void)state;
    on_each_driver(marked_on);
}

/* ---- in mixed precision ---- */

static unsigned steps_seen;
static void check_wide(const clq_graph *graph) {
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const clq_node *node = &graph->nodes[n];
        for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++) {
            if (!node->outputs[i] || !clq_graph_value_at(graph, node->outputs[i])->wide) continue;
            assert_int_equal(clq_graph_value_at(graph, node->outputs[i])->dtype, CLQ_F32);
            steps_seen++;
        }
    }
}

/* States accumulate the rounding errors of all steps, so they stay float32, as in the kernels of cells. */
static void wide_on(clq_device *device, clq_queue *queue) {
    subject s;
    numbers n;
    build_of(&s, 1, in_steps);
    s.config.activations = CLQ_BF16;
    make_numbers(&s, &n);
    steps_seen = 0;
    pass_tolerance = 1e-8;
    see_graph = check_wide;
    check_passes_on(&s, device);
    see_graph = NULL;
    assert_true(steps_seen > 20);
    if (clq_device_runs_in_caller(device) || getenv("CLQ_TEST_WHOLE")) check_plan(&s, &n, device, queue);
    free_numbers(n.weights, n.variables);
    clq_model_destroy(s.model);
}

static void steps_stay_wide_in_mixed_precision(void **state) {
    (void)state;
    on_each_driver(wide_on);
}

/* ---- without memory ---- */

typedef struct lowering {
    const subject *s;
    clq_list *list;
} lowering;

static clq_status lower_model(void *context) {
    const lowering *l = context;
    const clq_pass_context passes = {.config = &l->s->config, .list = l->list, .arena_bytes = CLQ_VARIABLE_ALIGN};
    clq_graph graph = {0};
    const clq_status status = clq_graph_build(&graph, l->s->model, &passes, NULL, NULL);
    clq_graph_release(&graph);
    return status;
}

static void out_of_memory_on(clq_device *device, clq_queue *queue) {
    (void)queue;
    for (size_t i = clq_device_runs_in_caller(device); i < CLQ_COUNT_OF(models); i += 2) {
        subject s;
        lowering l = {.s = &s};
        build_of(&s, 2 * i, models[i].build);
        set_way(&s, i / 2 % 2 ? LOWERED : LOWERED_BEHIND);
        CHECK_OK(clq_list_create(device, COUNT, &l.list));
        clq_list_set_selections(l.list, &fused);
        assert_true(walk_allocations(lower_model, &l) >= 5);
        clq_list_destroy(l.list);
        clq_model_destroy(s.model);
    }
}

static void expansions_run_out_of_memory(void **state) {
    (void)state;
    on_each_driver(out_of_memory_on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composites_are_what_they_are_short_for),
        cmocka_unit_test(a_composite_without_kernels_is_lowered),
        cmocka_unit_test(a_composite_that_is_too_long_stays),
        cmocka_unit_test(a_part_that_is_too_large_is_refused),
        cmocka_unit_test(many_steps_need_kernels),
        cmocka_unit_test(sequences_that_are_too_long_keep_their_kernels),
        cmocka_unit_test(a_marked_cell_runs_its_steps_again),
        cmocka_unit_test(steps_stay_wide_in_mixed_precision),
        cmocka_unit_test(expansions_run_out_of_memory),
    };
    return cmocka_run_group_tests_name("graph/composites", tests, NULL, NULL);
}
