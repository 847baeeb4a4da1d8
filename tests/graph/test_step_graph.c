/* Step graphs of random models. Every pass leaves what a graph computes as it was, by the interpreter in double;
 * gradients are those of finite differences of the graph's own loss; and the launches of a plan give what the
 * interpreter gives. Seeds are numbers: 0 to GRAPHS - 1, each on one of the drivers; or, on all of them, those between
 * the two in CLQ_TEST_SEEDS ("100 2000"). */
#include "device/fixture.h"
#include "graph/kinds.h"
#include "graph/layers/layer.h"
#include "graph/random_numbers.h"
#include "graph/seldom_models.h"
#include "ref/graph_interpret.h"

#include <math.h>

enum { GRAPHS = 150, METRICS = 2 * OUTPUTS };
enum { POOLED = 16, BINARY = 38 }; /* seeds of kernels that no other seed has: each driver has these two */

/* ---- what a graph computes ---- */

typedef struct results {
    double output[OUTPUTS][COUNT * CLASSES], metrics[METRICS], norms[VARIABLES_MOST];
    double *gradients[VARIABLES_MOST], *states[VARIABLES_MOST];
} results;

static void free_results(const results *r, uint32_t variables) {
    free_numbers(r->gradients, variables);
    free_numbers(r->states, variables);
}

static const double scale = 0.25;

/* sum_factor: of a graph that accumulates; the weights are what the gradients' memory has. */
static void interpret_run(const clq_graph *graph, const numbers *n, double sum_factor, bool rounds, results *r) {
    *r = (results){.output = {{0}}};
    for (uint32_t v = 0; v < n->variables; v++) {
        r->gradients[v] = clq_alloc(graph->model->variables[v].elements, sizeof(double));
        r->states[v] = clq_alloc(graph->model->variables[v].elements, sizeof(double));
        assert_true(r->gradients[v] && r->states[v]);
    }
    ref_interpret(graph,
                  &(ref_inputs){.count = COUNT,
                                .scale = scale,
                                .samples = n->samples,
                                .labels = {n->labels[0], n->labels[1]},
                                .weights = (const double *const *)n->weights,
                                .step = 5,
                                .first_row = 2,
                                .sum_factor = sum_factor,
                                .rounds = rounds,
                                .gradients = sum_factor != 0 ? (const double *const *)n->weights : NULL},
                  &(ref_outputs){.outputs = {r->output[0], r->output[1]},
                                 .metrics = r->metrics,
                                 .gradients = r->gradients,
                                 .states = r->states,
                                 .norms = r->norms});
}

static void interpret(const clq_graph *graph, const numbers *n, results *r) { interpret_run(graph, n, 0, false, r); }

static const double sum_factor = 0.5;

/* What a gradient becomes when it is added to the weights, and the sum is halved. */
static void add_weights(const clq_model *model, const numbers *n, results *r) {
    for (uint32_t v = 0; v < n->variables; v++)
        for (size_t i = 0; i < model->variables[v].elements; i++)
            r->gradients[v][i] = sum_factor * (n->weights[v][i] + r->gradients[v][i]);
}

static double largest_gradient(const results *r, const clq_model *model) {
    double most = 0;
    for (uint32_t v = 0; v < model->variable_count; v++)
        for (size_t i = 0; i < model->variables[v].elements; i++) most = fmax(most, fabs(r->gradients[v][i]));
    return most;
}

/* floor: of the largest number: gradients that vanish, as of what a normalisation takes away again, are sums of terms
 * that are not small. */
static void assert_same(const subject *s, const char *what, const double *got, const double *want, size_t count,
                        double relative, double floor) {
    double most = floor;
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

/* Of the graph: the weighted sum of its losses. */
static double loss_of(const subject *s, const results *r) {
    double sum = 0;
    for (uint32_t i = 0; i < s->model->output_count; i++)
        sum += (double)s->losses[i].weight * r->metrics[clq_losses_width(s->losses, i)];
    return sum * scale;
}

/* At a few places of each variable. Central differences of a loss of about 1 in double with h = 1e-6 are right to about
 * 1e-9. */
static void check_differences(watch *w, const clq_graph *graph) {
    const double h = 1e-6;
    for (uint32_t v = 0; v < w->n->variables; v++)
        for (unsigned k = 0; k < 3 && graph->model->variables[v].role == CLQ_ROLE_TRAINABLE; k++) {
            double *weight = &w->n->weights[v][below(w->s, (unsigned)graph->model->variables[v].elements)];
            double keep = *weight, loss[2];
            for (unsigned side = 0; side < 2; side++) {
                results r;
                *weight = keep + (side ? h : -h);
                interpret(graph, w->n, &r);
                loss[side] = loss_of(w->s, &r);
                free_results(&r, w->n->variables);
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
static struct {
    unsigned conv_pools, products, pools, elementwise, long_programs, derivatives, joined_sums, softmax_sums, added,
        two_gradients, repeats, slices, normalised, dropped, exchanged, second_losses, accumulated, adding_products,
        narrow, narrow_gradients, casts, again, products_again, normalised_again, dropped_again;
} made;
static unsigned frames_again, penalties, warps; /* likewise, of the special models */

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
        made.products += node->op == &clq_op_dense && node->attributes.dense.activation != CLQ_LINEAR;
        made.pools += node->op == &clq_op_pool2d && node->attributes.pool2d.activation != CLQ_LINEAR;
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

/* Every gradient is added to what is there, once: a second time, and with norms of the sum where they are measured. */
static void check_sums(const watch *w, const clq_graph *graph, const char *pass) {
    results got, want;
    interpret(graph, w->n, &want);
    interpret_run(graph, w->n, sum_factor, false, &got);
    add_weights(graph->model, w->n, &want);
    for (uint32_t v = 0; v < w->n->variables; v++)
        if (graph->model->variables[v].role == CLQ_ROLE_TRAINABLE)
            assert_same(w->s, pass, got.gradients[v], want.gradients[v], graph->model->variables[v].elements, 1e-12, 0);
    free_results(&got, w->n->variables);
    free_results(&want, w->n->variables);
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
    for (size_t i = 0; i < OUTPUTS; i++)
        assert_same(w->s, pass, r.output[i], w->first.output[i], COUNT * CLASSES, 1e-12, 0);
    assert_same(w->s, pass, r.metrics, w->first.metrics, METRICS, 1e-12, 0);
    if (strcmp(pass, "differentiate") == 0) {
        w->gradient = r;
        w->differentiated = true;
        check_differences(w, graph);
        return;
    }
    for (uint32_t v = 0; v < w->n->variables; v++)
        assert_same(w->s, pass, r.states[v], w->first.states[v], graph->model->variables[v].elements, 1e-12, 0);
    for (uint32_t v = 0; v < w->n->variables && w->differentiated; v++)
        assert_same(w->s, pass, r.gradients[v], w->gradient.gradients[v], graph->model->variables[v].elements, 1e-12,
                    0.1 * largest_gradient(&w->gradient, graph->model));
    if (w->s->config.accumulates && strcmp(pass, "accumulate") == 0) check_sums(w, graph, pass);
    free_results(&r, w->n->variables);
}

static void check_passes(subject *s, const numbers *n, clq_list *list) {
    watch w = {.s = s, .n = n};
    const clq_pass_context context = {.config = &s->config, .list = list, .arena_bytes = CLQ_VARIABLE_ALIGN};
    clq_graph graph = {0};
    CHECK_OK(clq_graph_build(&graph, s->model, &context, check_pass, &w));
    assert_int_equal(w.differentiated, s->config.update != NULL);
    clq_graph_release(&graph);
    free_results(&w.first, n->variables);
    if (w.differentiated) free_results(&w.gradient, n->variables);
}

/* Whether others than the usual ones were asked for. */
static bool seeds(uint64_t *first, uint64_t *end) {
    unsigned long long a = 0, b = GRAPHS;
    const char *given = getenv("CLQ_TEST_SEEDS");
    if (given) assert_int_equal(sscanf(given, "%llu %llu", &a, &b), 2);
    *first = a;
    *end = b;
    return given != NULL;
}

/* Whether a driver has a seed: by the parity of its bits, so each driver has seeds of every residue, by which models
 * and ways are chosen. */
static bool takes(const clq_device *device, uint64_t seed) {
    bool odd = clq_device_runs_in_caller(device);
    for (uint64_t bits = seed; bits; bits &= bits - 1) odd = !odd;
    return odd || getenv("CLQ_TEST_SEEDS");
}

/* The sum with ranks that have no samples. */
static clq_status nobody_else(void *context, clq_queue *queue, clq_buffer *values, size_t count) {
    (void)context;
    (void)queue;
    (void)values;
    (void)count;
    return CLQ_OK;
}

/* Every third graph is that of one of two ranks, with some of its layers synchronized. */
static void synchronize(subject *s, uint64_t seed) {
    if (seed % 3) return;
    s->config.exchange = (clq_step_sum){.rank = seed % 2, .ranks = 2, .all_reduce = nobody_else};
    for (uint32_t i = 0; i < s->model->layer_count; i++)
        if (s->model->layers[i].kind == &clq_layer_batch_norm && (i + seed / 3) % 4)
            ((clq_batch_norm_config *)s->model->layers[i].config)->synchronized = true;
}

/* Three of four: all that may be, as much as fits some bytes, or what is marked. */
static void recompute(subject *s, uint64_t seed) {
    static const clq_recompute_kind kinds[] = {CLQ_RECOMPUTE_ALL, CLQ_RECOMPUTE_AUTO, CLQ_RECOMPUTE_OFF,
                                               CLQ_RECOMPUTE_OFF};
    const uint64_t marks = seed * 0x9E3779B97F4A7C15u;
    s->config.recompute = kinds[seed % 4];
    s->config.activations_most = 1 + (size_t)(marks >> 32) % 4096;
    for (uint32_t i = 0; i < s->model->tensor_count && seed % 4 == 2; i++)
        s->model->tensors[i].recompute = marks >> i % 64 & 1;
    s->model->recomputes = seed % 4 == 2;
}

/* Two of four. */
static void accumulate(subject *s, uint64_t seed) { s->config.accumulates = seed / 2 % 2; }

/* Two of four, one of each type. */
static void narrow(subject *s, uint64_t seed) {
    static const clq_dtype types[] = {CLQ_F32, CLQ_F16, CLQ_F32, CLQ_BF16};
    s->config.activations = types[seed / 4 % 4];
}

static void passes_on(clq_device *device, clq_queue *queue) {
    uint64_t first, end;
    (void)queue;
    (void)seeds(&first, &end);
    for (uint64_t seed = first; seed < end; seed++) {
        subject s;
        numbers n;
        clq_list *list;
        if (!takes(device, seed)) continue;
        build(&s, seed);
        synchronize(&s, seed);
        accumulate(&s, seed);
        narrow(&s, seed);
        recompute(&s, seed / 4);
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
    uint64_t first, end;
    on_each_driver(passes_on);
    if (seeds(&first, &end)) return; /* a hundred other graphs need not have everything */
    const unsigned *counts = (const unsigned *)&made;
    for (size_t i = 0; i < sizeof made / sizeof *counts; i++)
        if (!counts[i]) fail_msg("no graph has what counter %zu of `made` counts", i);
}

/* ---- plans ---- */

/* Where values have 16 bits, some of thousands are rounded the other way. */
static double tolerance_of(const subject *s) {
    return s->config.activations == CLQ_F32 ? 1e-5 : s->config.activations == CLQ_F16 ? 4e-3 : 3e-2;
}

static void compare(const subject *s, clq_queue *queue, const clq_buffer *buffer, size_t offset, const double *want,
                    size_t count, const char *what, double floor) {
    float *floats = clq_alloc(count, sizeof *floats);
    double *got = clq_alloc(count, sizeof *got);
    assert_true(floats && got);
    CHECK_OK(clq_queue_read(queue, buffer, offset, floats, count * sizeof *floats, true));
    for (size_t i = 0; i < count; i++) got[i] = (double)floats[i];
    assert_same(s, what, got, want, count, tolerance_of(s), floor);
    clq_free(floats);
    clq_free(got);
}

static void interpret_plain(const subject *s, const numbers *n, clq_list *list, results *r) {
    clq_plan_config plain = s->config;
    clq_graph graph = {0};
    if (plain.activations == CLQ_F32) plain.unfused_graph = true; /* else where it rounds depends on what is fused */
    CHECK_OK(clq_graph_build(&graph, s->model,
                             &(clq_pass_context){.config = &plain, .list = list, .arena_bytes = CLQ_VARIABLE_ALIGN},
                             NULL, NULL));
    interpret_run(&graph, n, 0, true, r);
    clq_graph_release(&graph);
}

static clq_buffer *arena_of(const clq_plan *plan, uint32_t variable) {
    const bool state = plan->model->variables[variable].role == CLQ_ROLE_STATE;
    return clq_weights_arena(clq_plan_weights(plan), state ? CLQ_ARENA_STATE : CLQ_ARENA_PARAMETERS);
}

/* Backward in parts: a bucket's gradients are whole when its last launch has run, before any later one. */
static void run_buckets(const subject *s, const numbers *n, clq_plan *plan, clq_queue *queue, const results *want) {
    clq_bucket *buckets;
    size_t count, next, end, seen = 0;
    CHECK_OK(clq_plan_buckets(plan, 1, &buckets, &count));
    clq_plan_segment_range(plan, CLQ_SEGMENT_BACKWARD, &next, &end);
    for (size_t i = 0; i < count; i++) {
        CHECK_OK(clq_plan_run_part(plan, queue, next, buckets[i].done));
        next = buckets[i].done;
        for (uint32_t v = 0; v < n->variables; v++) {
            const size_t offset = clq_plan_variable_offset(plan, v);
            if (s->model->variables[v].role == CLQ_ROLE_STATE) continue;
            if (offset < buckets[i].begin || offset >= buckets[i].end) continue;
            compare(s, queue, clq_plan_gradient(plan), offset, want->gradients[v], s->model->variables[v].elements,
                    s->model->variables[v].name, largest_gradient(want, s->model));
            seen++;
        }
    }
    for (uint32_t v = 0; v < n->variables; v++) seen += s->model->variables[v].role == CLQ_ROLE_STATE;
    assert_int_equal(seen, n->variables);
    assert_true(next <= end);
    CHECK_OK(clq_plan_run_part(plan, queue, next, end));
    clq_free(buckets);
}

static void put_gradients(const subject *s, clq_plan *plan, clq_queue *queue, const double *const *from) {
    for (uint32_t v = 0; v < s->model->variable_count; v++)
        if (s->model->variables[v].role == CLQ_ROLE_TRAINABLE)
            put(queue, clq_plan_gradient(plan), clq_plan_variable_offset(plan, v), from[v],
                s->model->variables[v].elements, CLQ_F32);
}

/* As check_sums. */
static void check_plan_sums(const subject *s, const numbers *n, clq_plan *plan, clq_queue *queue, results *want) {
    put_gradients(s, plan, queue, (const double *const *)n->weights);
    clq_plan_set_params(
        plan, &(clq_step_params){
                  .count = COUNT, .scale = (float)scale, .step = 5, .first_row = 2, .sum_factor = (float)sum_factor});
    CHECK_OK(clq_plan_run(plan, queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_LOSS));
    add_weights(s->model, n, want);
    run_buckets(s, n, plan, queue, want);
}

static void check_plan(const subject *s, const numbers *n, clq_device *device, clq_queue *queue) {
    clq_plan *plan;
    results want;
    CHECK_OK(clq_plan_create_alone(s->model, device, &s->config, &plan));
    interpret_plain(s, n, plan->list, &want);
    put(queue, clq_plan_samples(plan), 0, n->samples, CLQ_COUNT_OF(n->samples), s->config.sample_dtype);
    for (uint32_t i = 0; i < s->model->output_count && s->config.loss; i++) {
        const bool index = clq_loss_has_index(&s->losses[i]);
        put(queue, clq_plan_labels(plan, i), 0, n->labels[i], COUNT * clq_loss_target_elements(&s->losses[i]),
            index ? CLQ_I32 : CLQ_F32);
    }
    for (uint32_t v = 0; v < n->variables; v++)
        put(queue, arena_of(plan, v), clq_plan_variable_offset(plan, v), n->weights[v], s->model->variables[v].elements,
            CLQ_F32);
    clq_plan_set_params(plan, &(clq_step_params){.count = COUNT, .scale = (float)scale, .step = 5, .first_row = 2});
    CHECK_OK(clq_plan_run(plan, queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_LOSS));
    if (s->config.update) run_buckets(s, n, plan, queue, &want);
    if (s->config.update) CHECK_OK(clq_plan_run(plan, queue, CLQ_SEGMENT_NORM, CLQ_SEGMENT_NORM));
    for (uint32_t i = 0; i < s->model->output_count && !s->config.loss; i++)
        compare(s, queue, clq_plan_output(plan, i), 0, want.output[i], COUNT * CLASSES, "output", 0);
    if (s->config.loss)
        compare(s, queue, clq_plan_metrics(plan), 0, want.metrics, clq_losses_width(s->losses, s->model->output_count),
                "metrics", 0);
    for (uint32_t v = 0; v < n->variables && s->config.mode == CLQ_MODE_TRAIN; v++)
        if (s->model->variables[v].role == CLQ_ROLE_STATE)
            compare(s, queue, arena_of(plan, v), clq_plan_variable_offset(plan, v), want.states[v],
                    s->model->variables[v].elements, s->model->variables[v].name, 0);
    if (s->config.accumulates && s->config.update) check_plan_sums(s, n, plan, queue, &want);
    free_results(&want, n->variables);
    clq_plan_destroy(plan);
}

/* The model and the way of a plan. */
static void start_plan(subject *s, uint64_t seed) {
    build(s, seed);
    synchronize(s, seed);
    accumulate(s, seed);
    narrow(s, seed);
    recompute(s, seed / 4);
    s->config.unfused_graph = seed % 2; /* what is not fused writes over more */
}

static void plan_of_seed(uint64_t seed, clq_device *device, clq_queue *queue) {
    subject s;
    numbers n;
    start_plan(&s, seed);
    make_numbers(&s, &n);
    check_plan(&s, &n, device, queue);
    free_numbers(n.weights, n.variables);
    clq_model_destroy(s.model);
}

/* Of so many models those that have every kind between them; drivers take turns. */
static void plans_on(clq_device *device, clq_queue *queue) {
    static const uint64_t on_each[] = {POOLED, BINARY};
    static kind_set of[GRAPHS];
    kind_set known = {.nodes = 0};
    uint64_t first, end;
    size_t chosen;
    const bool given = seeds(&first, &end);
    for (uint64_t seed = first; seed < end; seed++) {
        subject s;
        if (given) plan_of_seed(seed, device, queue);
        if (given) continue;
        start_plan(&s, seed);
        find_kinds(&s, device, &of[seed]);
        clq_model_destroy(s.model);
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(on_each) && !given; i++) {
        learn_kinds(&known, &of[on_each[i]]);
        plan_of_seed(on_each[i], device, queue);
    }
    for (unsigned turn = 0; !given && choose_model(of, GRAPHS, &known, &chosen); turn++)
        if (turn % 2 == clq_device_runs_in_caller(device)) plan_of_seed(chosen, device, queue);
}

static void plans_compute_what_their_graphs_do(void **state) {
    (void)state;
    on_each_driver(plans_on);
}

/* ---- models that the random ones seldom are ---- */

enum { SEEDS_EACH = 6 };

/* Penalties are added to the model's loss, whatever the weight is of the output's. Models of several outputs have none.
 */
static void weigh_penalties(subject *s) {
    s->losses[0].weight = 0.5f;
    for (uint32_t v = 0; v < s->model->variable_count && s->model->output_count > 1; v++)
        s->model->variables[v].l1 = s->model->variables[v].l2 = 0;
}

/* Seeds turn by turn on the drivers. Passes are cheap, and each kernel of a plan is compiled: a model has one plan of
 * each driver, the one with all recomputed that may be, the other with some. */
static void special_on(clq_device *device, clq_queue *queue) {
    const bool all = getenv("CLQ_TEST_SEEDS");
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
    on_each_driver(special_on);
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
        build(&s, seed);
        synchronize(&s, seed);
        accumulate(&s, seed);
        narrow(&s, seed);
        recompute(&s, seed / 4);
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

/* ---- derivatives that there are not ---- */

/* Of the loss of what the node makes of a weight alone. */
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
        zeros += graph.nodes[value->maker - 1].inputs[0] == 0; /* of no value */
    }
    assert_int_equal(gradients, status == CLQ_OK);
    assert_int_equal(zeros, status == CLQ_OK && !has_gradient);
    clq_graph_release(&graph);
    return status;
}

/* Of a weight and a constant. */
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

/* A weight without a gradient would be one that is never trained; one that is flat has zeros. */
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
            CHECK_FAILS(CLQ_INTERNAL, differentiate_instruction((clq_element_op)op, false));
    }
}

static void operations_without_a_derivative_are_refused(void **state) {
    clq_node reshape = {.op = &clq_op_reshape, .scope = "layer", .segment = CLQ_SEGMENT_FORWARD};
    clq_node slice = {.op = &clq_op_slice, .scope = "layer", .segment = CLQ_SEGMENT_FORWARD};
    (void)state;
    CHECK_OK(differentiate(&reshape, true));
    CHECK_FAILS(CLQ_INTERNAL, differentiate(&slice, false));
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
