/* Checks for tests of step graphs of random models. The interpreter, in double, shows that no pass changes what a graph
 * computes. Gradients must match finite differences of the graph's own loss. The launches of a plan must give what the
 * interpreter gives. A failure's message has subject.path: the model's layers, or a name that the test gave it. */
#ifndef CLQ_TEST_GRAPH_CHECK_GRAPH_H
#define CLQ_TEST_GRAPH_CHECK_GRAPH_H

#include "device/fixture.h"
#include "graph/layers/layer.h"
#include "graph/random_numbers.h"
#include "ref/graph_interpret.h"

#include <math.h>

enum { METRICS = 2 * OUTPUTS };

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

/* sum_factor: 0, or the factor of a graph that accumulates. If it is not 0, the gradients' memory starts with the
 * weights. */
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

/* Replaces each gradient by sum_factor times its sum with the weights. */
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

/* Errors are relative to the largest number in `want`, or to `floor` if that is larger. A gradient that vanishes, such
 * as one that a normalisation cancels, needs a floor: it is the sum of terms that are not small. */
static void assert_same(const subject *s, const char *what, const double *got, const double *want, size_t count,
                        double relative, double floor) {
    double most = floor;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs(want[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= relative * most + 1e-30))
            fail_msg("%s:%s: [%zu of %zu] is %.17g, should be %.17g", what, s->path, i, count, got[i], want[i]);
}

/* ---- passes ---- */

/* The relative tolerance between a graph's results before and after a pass. Constants in a graph are float32, such as
 * the factors of means over rows. A test with a pass that makes new constants sets a larger tolerance. */
static double pass_tolerance = 1e-12;

typedef struct watch {
    subject *s;
    const numbers *n;
    results first, gradient; /* of the expanded graph, before all passes; of the first graph that had gradients */
    bool differentiated;
    unsigned passes;
} watch;

/* The graph's loss: the weighted sum of its outputs' losses. */
static double loss_of(const subject *s, const results *r) {
    double sum = 0;
    for (uint32_t i = 0; i < s->model->output_count; i++)
        sum += (double)s->losses[i].weight * r->metrics[clq_losses_width(s->losses, i)];
    return sum * scale;
}

/* Checks a few elements of each variable's gradient. For a loss of about 1, central differences in double with h = 1e-6
 * are accurate to about 1e-9. */
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

/* Called with the graph after each pass. NULL: no call. */
static void (*see_graph)(const clq_graph *graph);

/* Checks that the graph adds every gradient exactly once to what the gradients' memory has. */
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
    if (see_graph) see_graph(graph);
    results r;
    interpret(graph, w->n, &r);
    if (w->passes++ == 0) {
        w->first = r;
        return;
    }
    for (size_t i = 0; i < OUTPUTS; i++)
        assert_same(w->s, pass, r.output[i], w->first.output[i], COUNT * CLASSES, pass_tolerance, 0);
    assert_same(w->s, pass, r.metrics, w->first.metrics, METRICS, pass_tolerance, 0);
    if (strcmp(pass, "differentiate") == 0) {
        w->gradient = r;
        w->differentiated = true;
        check_differences(w, graph);
        return;
    }
    for (uint32_t v = 0; v < w->n->variables; v++)
        assert_same(w->s, pass, r.states[v], w->first.states[v], graph->model->variables[v].elements, pass_tolerance,
                    0);
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

/* The seeds of a test, from *first to *end - 1. If the environment has CLQ_TEST_SEEDS, takes them from there and
 * returns true. Otherwise they are 0 to `usual` - 1. */
static inline bool seeds(unsigned usual, uint64_t *first, uint64_t *end) {
    unsigned long long a = 0, b = usual;
    const char *given = getenv("CLQ_TEST_SEEDS");
    if (given) assert_int_equal(sscanf(given, "%llu %llu", &a, &b), 2);
    *first = a;
    *end = b;
    return given != NULL;
}

/* An all-reduce with ranks that have no samples: the sums stay as they are. */
static clq_status nobody_else(void *context, clq_queue *queue, clq_buffer *values, size_t count) {
    (void)context;
    (void)queue;
    (void)values;
    (void)count;
    return CLQ_OK;
}

/* Plans every third graph as one of two ranks, and synchronizes some of its batch normalisations. */
static void synchronize(subject *s, uint64_t seed) {
    if (seed % 3) return;
    s->config.exchange = (clq_step_sum){.rank = seed % 2, .ranks = 2, .all_reduce = nobody_else};
    for (uint32_t i = 0; i < s->model->layer_count; i++)
        if (s->model->layers[i].kind == &clq_layer_batch_norm && (i + seed / 3) % 4)
            ((clq_batch_norm_config *)s->model->layers[i].config)->synchronized = true;
}

/* Three of four models recompute: all values that may be, enough values for a limit in bytes, or marked tensors. */
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

/* Two of four models accumulate. */
static void accumulate(subject *s, uint64_t seed) { s->config.accumulates = seed / 2 % 2; }

/* Two of four models have 16-bit activations: one F16, one BF16. */
static void narrow(subject *s, uint64_t seed) {
    static const clq_dtype types[] = {CLQ_F32, CLQ_F16, CLQ_F32, CLQ_BF16};
    s->config.activations = types[seed / 4 % 4];
}

/* Sets how a seed's model is planned. */
static inline void settle(subject *s, uint64_t seed) {
    synchronize(s, seed);
    accumulate(s, seed);
    narrow(s, seed);
    recompute(s, seed / 4);
}

static inline void check_passes_on(subject *s, clq_device *device) {
    numbers n;
    clq_list *list;
    make_numbers(s, &n);
    CHECK_OK(clq_list_create(device, COUNT, &list));
    clq_list_set_selections(list, &fused);
    check_passes(s, &n, list);
    clq_list_destroy(list);
    free_numbers(n.weights, n.variables);
}

/* ---- plans ---- */

/* If values have 16 bits, a plan and the interpreter round a few of thousands of values in opposite directions. */
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
    if (plain.activations == CLQ_F32) plain.unfused_graph = true; /* 16 bits: fusing changes what is rounded */
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

/* Runs backward in parts, one per bucket: a bucket's gradients must be complete once the launches up to bucket.done
 * have run, before any later launch. */
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

/* Does for a plan what check_sums does for a graph. */
static void check_plan_sums(const subject *s, const numbers *n, clq_plan *plan, clq_queue *queue, results *want) {
    put_gradients(s, plan, queue, (const double *const *)n->weights);
    clq_plan_set_params(
        plan, &(clq_step_params){
                  .count = COUNT, .scale = (float)scale, .step = 5, .first_row = 2, .sum_factor = (float)sum_factor});
    CHECK_OK(clq_plan_run(plan, queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_LOSS));
    add_weights(s->model, n, want);
    run_buckets(s, n, plan, queue, want);
}

/* Writes to the plan: `count` samples from `first` on, their labels, and all weights. */
static void put_numbers(const subject *s, const numbers *n, clq_plan *plan, clq_queue *queue, size_t first,
                        size_t count) {
    const size_t sample = CLQ_COUNT_OF(n->samples) / COUNT;
    put(queue, clq_plan_samples(plan), 0, n->samples + first * sample, count * sample, s->config.sample_dtype);
    for (uint32_t i = 0; i < s->model->output_count && s->config.loss; i++) {
        const bool index = clq_loss_has_index(&s->losses[i]);
        const size_t each = clq_loss_target_elements(&s->losses[i]);
        put(queue, clq_plan_labels(plan, i), 0, n->labels[i] + first * each, count * each, index ? CLQ_I32 : CLQ_F32);
    }
    for (uint32_t v = 0; v < n->variables; v++)
        put(queue, arena_of(plan, v), clq_plan_variable_offset(plan, v), n->weights[v], s->model->variables[v].elements,
            CLQ_F32);
}

static void check_plan(const subject *s, const numbers *n, clq_device *device, clq_queue *queue) {
    clq_plan *plan;
    results want;
    CHECK_OK(clq_plan_create_alone(s->model, device, &s->config, &plan));
    interpret_plain(s, n, plan->list, &want);
    put_numbers(s, n, plan, queue, 0, COUNT);
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

#endif
