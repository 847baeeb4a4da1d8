/* Step graphs of random models. Every pass leaves what a graph computes as it was, by the interpreter in double;
 * gradients are those of finite differences of the graph's own loss; and the launches of a plan give what the
 * interpreter gives. Seeds are numbers: 0 to GRAPHS - 1, or the two in CLQ_TEST_SEEDS ("100 2000"). */
#include "device/fixture.h"
#include "graph/plan.h"
#include "ref/graph_interpret.h"
#include "support/check.h"

#include <math.h>

enum { GRAPHS = 100, PLANS = 40, COUNT = 3, CLASSES = 3, LAYERS_MOST = 7, VARIABLES_MOST = 2 * LAYERS_MOST + 2 };

/* ---- a random model ---- */

typedef struct subject {
    clq_random random;
    clq_model *model;
    clq_plan_config config;
    clq_loss_problem loss;
    clq_update_problem update;
    char path[512]; /* what was built, for messages */
} subject;

/* Convolutions with their poolings, wherever they can be. */
static const clq_selection one = {"conv + pool *", "one"};
static const clq_selections fused = {.entries = &one, .count = 1};

static unsigned below(subject *s, unsigned bound) { return (unsigned)clq_random_below(&s->random, bound); }

static void note(subject *s, const char *what) {
    size_t used = strlen(s->path);
    (void)snprintf(s->path + used, sizeof s->path - used, " %s", what);
}

static clq_activation any_activation(subject *s) {
    static const clq_activation all[] = {CLQ_LINEAR, CLQ_RELU, CLQ_SIGMOID, CLQ_TANH, CLQ_SOFTMAX};
    return all[below(s, CLQ_COUNT_OF(all))];
}

static clq_tensor add_image_layer(subject *s, clq_tensor x, const clq_shape *shape) {
    bool roomy = shape->dims[0] >= 2 && shape->dims[1] >= 2;
    switch (below(s, roomy ? 4 : 1)) {
    case 1:
        note(s, "conv3");
        return clq_conv2d(s->model, x,
                          &(clq_conv2d_config){.filters = 4,
                                               .kernel = {3, 3},
                                               .padding = CLQ_SAME,
                                               .activation = any_activation(s),
                                               .no_bias = below(s, 4) == 0});
    case 2:
        note(s, "max");
        return clq_max_pool2d(s->model, x, below(s, 3) ? NULL : &(clq_pool_config){.strides = {1, 1}});
    case 3: note(s, "mean"); return clq_average_pool2d(s->model, x, NULL);
    default: note(s, "flatten"); return clq_flatten(s->model, x, NULL);
    }
}

static clq_tensor add_layer(subject *s, clq_tensor x) {
    const clq_shape shape = s->model->layers[x.id - 1].shape;
    switch (below(s, 5)) {
    case 0:
        note(s, "dense");
        return clq_dense(s->model, x,
                         &(clq_dense_config){.units = 4, .activation = any_activation(s), .no_bias = below(s, 4) == 0});
    case 1:
    case 2: note(s, "activation"); return clq_activate(s->model, x, any_activation(s), NULL);
    default: return shape.rank == 3 ? add_image_layer(s, x, &shape) : clq_flatten(s->model, x, NULL);
    }
}

static void build(subject *s, uint64_t seed) {
    *s = (subject){.random = clq_random_start(seed, 15)};
    bool update = below(s, 4) > 0, loss = update || below(s, 2);
    CHECK_OK(clq_model_create("random", &s->model));
    clq_tensor x = clq_input(s->model, CLQ_SHAPE(6, 6, 2));
    for (unsigned layers = below(s, LAYERS_MOST + 1); layers > 0; layers--) x = add_layer(s, x);
    x = clq_flatten(s->model, x, NULL);
    x = clq_dense(s->model, x, &(clq_dense_config){.units = CLASSES, .activation = any_activation(s)});
    if (below(s, 3) == 0) x = clq_activate(s->model, x, any_activation(s), NULL);
    CHECK_OK(clq_model_finish(s->model, x));
    s->loss = (clq_loss_problem){.kind = below(s, 2) ? CLQ_LOSS_SPARSE_CATEGORICAL : CLQ_LOSS_CATEGORICAL,
                                 .classes = CLASSES,
                                 .from_logits = true};
    s->config = (clq_plan_config){.capacity = COUNT,
                                  .sample_dtype = below(s, 2) ? CLQ_U8 : CLQ_F32,
                                  .metric_slots = 1,
                                  .loss = loss ? &s->loss : NULL,
                                  .update = update ? &s->update : NULL,
                                  .gradient_norms = true,
                                  .selections = &fused};
}

/* ---- its numbers ---- */

typedef struct numbers {
    double samples[COUNT * 72], labels[COUNT * CLASSES];
    double *weights[VARIABLES_MOST];
    uint32_t variables;
} numbers;

static void make_numbers(subject *s, numbers *n) {
    *n = (numbers){.variables = s->model->variable_count};
    for (size_t i = 0; i < CLQ_COUNT_OF(n->samples); i++)
        n->samples[i] =
            s->config.sample_dtype == CLQ_U8 ? below(s, 256) : (double)(float)(clq_random_unit(&s->random) - 0.5);
    for (size_t i = 0; i < CLQ_COUNT_OF(n->labels); i++)
        n->labels[i] = s->loss.kind == CLQ_LOSS_SPARSE_CATEGORICAL ? below(s, CLASSES)
                                                                   : (double)(float)clq_random_unit(&s->random);
    for (uint32_t v = 0; v < n->variables; v++) {
        const clq_variable *variable = &s->model->variables[v];
        double limit = sqrt(6.0 / (double)(variable->fan_in + variable->fan_out));
        n->weights[v] = clq_alloc(variable->elements, sizeof(double));
        assert_non_null(n->weights[v]);
        for (size_t i = 0; i < variable->elements; i++)
            n->weights[v][i] = (double)(float)((clq_random_unit(&s->random) * 2 - 1) * limit);
    }
}

static void free_numbers(double *const *of, uint32_t variables) {
    for (uint32_t v = 0; v < variables; v++) clq_free(of[v]);
}

typedef struct results {
    double output[COUNT * CLASSES], metrics[2], norms[VARIABLES_MOST];
    double *gradients[VARIABLES_MOST];
} results;

static const double scale = 0.25;

static void interpret(const clq_graph *graph, const numbers *n, results *r) {
    *r = (results){.output = {0}};
    for (uint32_t v = 0; v < n->variables; v++) {
        r->gradients[v] = clq_alloc(graph->model->variables[v].elements, sizeof(double));
        assert_non_null(r->gradients[v]);
    }
    ref_interpret(
        graph,
        &(ref_inputs){.count = COUNT,
                      .scale = scale,
                      .samples = n->samples,
                      .labels = n->labels,
                      .weights = (const double *const *)n->weights},
        &(ref_outputs){.output = r->output, .metrics = r->metrics, .gradients = r->gradients, .norms = r->norms});
}

static void assert_same(const subject *s, const char *what, const double *got, const double *want, size_t count,
                        double relative) {
    double most = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs(want[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= relative * most + 1e-30))
            fail_msg("%s:%s: [%zu of %zu] is %.17g, should be %.17g", what, s->path, i, count, got[i], want[i]);
}

/* ---- passes ---- */

typedef struct watch {
    subject *s;
    const numbers *n;
    results first, gradient; /* of the graph as it was expanded; of the first that had gradients */
    bool differentiated;
    unsigned passes;
} watch;

/* At a few places of each variable. Central differences of a loss of about 1 in double with h = 1e-6 are right to about
 * 1e-9. */
static void check_differences(watch *w, const clq_graph *graph) {
    const double h = 1e-6;
    for (uint32_t v = 0; v < w->n->variables; v++)
        for (unsigned k = 0; k < 3; k++) {
            double *weight = &w->n->weights[v][below(w->s, (unsigned)graph->model->variables[v].elements)];
            double keep = *weight, loss[2];
            for (unsigned side = 0; side < 2; side++) {
                results r;
                *weight = keep + (side ? h : -h);
                interpret(graph, w->n, &r);
                loss[side] = r.metrics[0] * scale;
                free_numbers(r.gradients, w->n->variables);
            }
            *weight = keep;
            double difference = (loss[1] - loss[0]) / (2 * h),
                   got = w->gradient.gradients[v][weight - w->n->weights[v]];
            if (!(fabs(got - difference) <= 1e-7))
                fail_msg("%s: gradient of %s is %.12g, by differences %.12g", w->s->path,
                         graph->model->variables[v].name, got, difference);
        }
}

/* What the passes made, over all graphs: a pass that does nothing would change nothing. */
static struct { unsigned conv_pools, long_chains, products, pools, derivatives, sums; } made;

static void count_made(const clq_graph *graph) {
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const clq_node *node = &graph->nodes[n];
        const struct clq_slopes_problem *p = &node->attributes.slopes;
        made.conv_pools += node->op == &clq_op_conv_pool;
        made.long_chains += node->op == &clq_op_chain && p->chain.count > 1;
        made.products += node->op == &clq_op_dense && node->attributes.dense.activation != CLQ_LINEAR;
        made.pools += node->op == &clq_op_pool2d && node->attributes.pool2d.activation != CLQ_LINEAR;
        made.derivatives += node->op == &clq_op_slopes && p->activation != CLQ_LINEAR && p->chain.count > 0;
        made.sums += node->op == &clq_op_slopes && p->activation == CLQ_SOFTMAX && node->outputs[1];
    }
}

static void check_pass(void *context, const char *pass, const clq_graph *graph) {
    watch *w = context;
    count_made(graph);
    results r;
    interpret(graph, w->n, &r);
    if (w->passes++ == 0) {
        w->first = r;
        return;
    }
    assert_same(w->s, pass, r.output, w->first.output, COUNT * CLASSES, 1e-12);
    assert_same(w->s, pass, r.metrics, w->first.metrics, 2, 1e-12);
    if (strcmp(pass, "differentiate") == 0) {
        w->gradient = r;
        w->differentiated = true;
        check_differences(w, graph);
        return;
    }
    for (uint32_t v = 0; v < w->n->variables && w->differentiated; v++)
        assert_same(w->s, pass, r.gradients[v], w->gradient.gradients[v], graph->model->variables[v].elements, 1e-12);
    free_numbers(r.gradients, w->n->variables);
}

static void check_passes(subject *s, const numbers *n, clq_list *list) {
    watch w = {.s = s, .n = n};
    const clq_pass_context context = {.config = &s->config, .list = list, .arena_bytes = CLQ_VARIABLE_ALIGN};
    clq_graph graph = {0};
    CHECK_OK(clq_graph_build(&graph, s->model, &context, check_pass, &w));
    assert_int_equal(w.differentiated, s->config.update != NULL);
    clq_graph_release(&graph);
    free_numbers(w.first.gradients, n->variables);
    if (w.differentiated) free_numbers(w.gradient.gradients, n->variables);
}

static void seeds(uint64_t *first, uint64_t *end) {
    unsigned long long a = 0, b = GRAPHS;
    const char *given = getenv("CLQ_TEST_SEEDS");
    if (given) assert_int_equal(sscanf(given, "%llu %llu", &a, &b), 2);
    *first = a;
    *end = b;
}

static void passes_on(clq_device *device, clq_queue *queue) {
    uint64_t first, end;
    (void)queue;
    seeds(&first, &end);
    for (uint64_t seed = first; seed < end; seed++) {
        subject s;
        numbers n;
        clq_list *list;
        build(&s, seed);
        make_numbers(&s, &n);
        CHECK_OK(clq_list_create(device, COUNT, &list));
        clq_list_set_selections(list, &fused);
        check_passes(&s, &n, list);
        clq_list_destroy(list);
        free_numbers(n.weights, n.variables);
        clq_model_destroy(s.model);
    }
}

static void passes_keep_what_a_graph_computes(void **state) {
    (void)state;
    on_each_driver(passes_on);
    assert_true(made.conv_pools && made.long_chains && made.products && made.pools && made.derivatives && made.sums);
}

/* ---- plans ---- */

static void put(clq_queue *queue, clq_buffer *buffer, size_t offset, const double *from, size_t count,
                clq_dtype dtype) {
    size_t bytes = count * clq_dtype_bytes(dtype);
    void *block = clq_alloc(count, clq_dtype_bytes(dtype));
    assert_non_null(block);
    for (size_t i = 0; i < count; i++) {
        if (dtype == CLQ_U8) ((unsigned char *)block)[i] = (unsigned char)from[i];
        if (dtype == CLQ_I32) ((int32_t *)block)[i] = (int32_t)from[i];
        if (dtype == CLQ_F32) ((float *)block)[i] = (float)from[i];
    }
    CHECK_OK(clq_queue_write(queue, buffer, offset, block, bytes, true));
    clq_free(block);
}

static void compare(const subject *s, clq_queue *queue, const clq_buffer *buffer, size_t offset, const double *want,
                    size_t count, const char *what) {
    float *floats = clq_alloc(count, sizeof *floats);
    double *got = clq_alloc(count, sizeof *got);
    assert_true(floats && got);
    CHECK_OK(clq_queue_read(queue, buffer, offset, floats, count * sizeof *floats, true));
    for (size_t i = 0; i < count; i++) got[i] = (double)floats[i];
    assert_same(s, what, got, want, count, 1e-5);
    clq_free(floats);
    clq_free(got);
}

static void interpret_plain(const subject *s, const numbers *n, clq_list *list, results *r) {
    clq_plan_config plain = s->config;
    clq_graph graph = {0};
    plain.unfused_graph = true;
    CHECK_OK(clq_graph_build(&graph, s->model,
                             &(clq_pass_context){.config = &plain, .list = list, .arena_bytes = CLQ_VARIABLE_ALIGN},
                             NULL, NULL));
    interpret(&graph, n, r);
    clq_graph_release(&graph);
}

static void check_plan(const subject *s, const numbers *n, clq_device *device, clq_queue *queue) {
    clq_plan *plan;
    results want;
    CHECK_OK(clq_plan_create_alone(s->model, device, &s->config, &plan));
    interpret_plain(s, n, plan->list, &want);
    put(queue, clq_plan_samples(plan), 0, n->samples, CLQ_COUNT_OF(n->samples), s->config.sample_dtype);
    bool sparse = s->loss.kind == CLQ_LOSS_SPARSE_CATEGORICAL;
    if (s->config.loss)
        put(queue, clq_plan_labels(plan), 0, n->labels, sparse ? COUNT : COUNT * CLASSES, sparse ? CLQ_I32 : CLQ_F32);
    for (uint32_t v = 0; v < n->variables; v++)
        put(queue, clq_plan_parameters(plan), clq_plan_variable_offset(plan, v), n->weights[v],
            s->model->variables[v].elements, CLQ_F32);
    clq_plan_set_params(plan, &(clq_step_params){.count = COUNT, .scale = (float)scale});
    CHECK_OK(clq_plan_run(plan, queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_NORM));
    if (!s->config.loss) compare(s, queue, clq_plan_output(plan), 0, want.output, COUNT * CLASSES, "output");
    if (s->config.loss) compare(s, queue, clq_plan_metrics(plan), 0, want.metrics, 2, "metrics");
    for (uint32_t v = 0; v < n->variables && s->config.update; v++)
        compare(s, queue, clq_plan_gradient(plan), clq_plan_variable_offset(plan, v), want.gradients[v],
                s->model->variables[v].elements, s->model->variables[v].name);
    free_numbers(want.gradients, n->variables);
    clq_plan_destroy(plan);
}

static void plans_on(clq_device *device, clq_queue *queue) {
    uint64_t first, end;
    seeds(&first, &end);
    if (!getenv("CLQ_TEST_SEEDS")) end = PLANS;
    for (uint64_t seed = first; seed < end; seed++) {
        subject s;
        numbers n;
        build(&s, seed);
        s.config.unfused_graph = seed % 2; /* what is not fused writes over more */
        make_numbers(&s, &n);
        check_plan(&s, &n, device, queue);
        free_numbers(n.weights, n.variables);
        clq_model_destroy(s.model);
    }
}

static void plans_compute_what_their_graphs_do(void **state) {
    (void)state;
    on_each_driver(plans_on);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_keep_what_a_graph_computes),
                                       cmocka_unit_test(plans_compute_what_their_graphs_do)};
    return cmocka_run_group_tests_name("graph/step_graph", tests, NULL, NULL);
}
