/* Composites are what they are short for: graphs in which they stay and graphs in which they are lowered have the same
 * outputs, losses and gradients, by the interpreter in double; and the launches of one, on each driver, give what the
 * interpreter makes of the other. */
#include "graph/check_graph.h"

static clq_tensor finish_layers(subject *s, clq_tensor x) {
    return clq_flatten(s->model, clq_activate(s->model, x, CLQ_TANH, NULL), NULL);
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
static build_layers *const models[] = {layer_norms, root_norms, group_norms};

static unsigned composites_in(const clq_graph *graph) {
    unsigned found = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) found += graph->nodes[n].op->lower != NULL;
    return found;
}

/* The factors of means are float32, as of reductions: a third is 3e-8 beside it, and gradients of what is taken away
 * again are sums of larger terms. */
static const double means_of_floats = 1e-6;

/* What a graph computes, and how many composites it has. */
static unsigned interpret_graph(const subject *s, const numbers *n, clq_list *list, bool lowered, results *r) {
    clq_plan_config config = s->config;
    clq_graph graph = {0};
    config.unfused_graph = lowered;
    CHECK_OK(clq_graph_build(&graph, s->model,
                             &(clq_pass_context){.config = &config, .list = list, .arena_bytes = CLQ_VARIABLE_ALIGN},
                             NULL, NULL));
    interpret(&graph, n, r);
    const unsigned found = composites_in(&graph);
    clq_graph_release(&graph);
    return found;
}

static void check_model(subject *s, clq_device *device, clq_queue *queue) {
    numbers n;
    results kept, lowered;
    clq_list *list;
    make_numbers(s, &n);
    CHECK_OK(clq_list_create(device, COUNT, &list));
    assert_int_equal(interpret_graph(s, &n, list, false, &kept), 3);
    assert_int_equal(interpret_graph(s, &n, list, true, &lowered), 0);
    for (size_t i = 0; i < OUTPUTS; i++)
        assert_same(s, "output", lowered.output[i], kept.output[i], COUNT * CLASSES, means_of_floats, 0);
    assert_same(s, "metrics", lowered.metrics, kept.metrics, METRICS, means_of_floats, 0);
    for (uint32_t v = 0; v < n.variables && s->config.update; v++)
        assert_same(s, s->model->variables[v].name, lowered.gradients[v], kept.gradients[v],
                    s->model->variables[v].elements, means_of_floats, 0.1 * largest_gradient(&kept, s->model));
    for (unsigned way = 0; way < 2; way++) {
        s->config.unfused_graph = way;
        check_plan(s, &n, device, queue); /* against the graph that is lowered */
    }
    clq_list_destroy(list);
    free_results(&kept, n.variables);
    free_results(&lowered, n.variables);
    free_numbers(n.weights, n.variables);
}

static void composites_on(clq_device *device, clq_queue *queue) {
    unsigned trained = 0;
    for (size_t i = 0; i < CLQ_COUNT_OF(models); i++)
        for (uint64_t seed = 2 * i; seed < 2 * i + 2; seed++) {
            subject s;
            build_of(&s, seed, models[i]);
            (void)snprintf(s.path, sizeof s.path, " model %zu, seed %llu", i, (unsigned long long)seed);
            check_model(&s, device, queue);
            trained += s.config.update != NULL;
            clq_model_destroy(s.model);
        }
    assert_true(trained >= 3);
}

static void composites_are_what_they_are_short_for(void **state) {
    (void)state;
    on_each_driver(composites_on);
}

/* ---- one that has no kernels ---- */

static void emit_nothing(clq_emission *e) { (void)e; }

/* 2x, by an addition. */
static void add_twice(clq_graph *graph, const clq_node *node) {
    clq_node sum =
        clq_graph_node_like(node, &clq_op_elementwise, node->segment, CLQ_IDS(node->inputs[0], node->inputs[0]));
    clq_element_program *p = &sum.attributes.program;
    const unsigned a = clq_element_take(p, clq_each_element), b = clq_element_take(p, clq_each_element);
    p->outputs[p->output_count++].from = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = a, .b = b});
    sum.outputs[0] = node->outputs[0];
    clq_graph_add_node(graph, &sum);
}

/* It stays if it has kernels, unless the graph is for comparison. */
static void a_composite_without_kernels_is_lowered(void **state) {
    (void)state;
    for (unsigned way = 0; way < 4; way++) {
        const bool has_kernels = way % 2, compares = way / 2;
        const clq_operation twice = {.name = "twice", .lower = add_twice, .emit = has_kernels ? emit_nothing : NULL};
        const clq_plan_config config = {.unfused_graph = compares};
        const clq_graph_value value = {.name = "x", .dtype = CLQ_F32, .shape = CLQ_SHAPE(4), .elements = 4};
        clq_graph graph = {0};
        clq_node node = {.op = &twice, .scope = "layer", .segment = CLQ_SEGMENT_FORWARD};
        node.inputs[0] = clq_graph_add_value(&graph, &value);
        node.outputs[0] = clq_graph_add_like(&graph, node.inputs[0], "y");
        clq_graph_add_node(&graph, &node);
        clq_graph_lower(&graph, &(clq_pass_context){.config = &config});
        CHECK_OK(clq_error_raise(&graph.error));
        assert_int_equal(graph.node_count, 1);
        assert_ptr_equal(graph.nodes[0].op, has_kernels && !compares ? &twice : &clq_op_elementwise);
        assert_int_equal(graph.nodes[0].outputs[0], node.outputs[0]);
        clq_graph_release(&graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(composites_are_what_they_are_short_for),
                                       cmocka_unit_test(a_composite_without_kernels_is_lowered)};
    return cmocka_run_group_tests_name("graph/composites", tests, NULL, NULL);
}
