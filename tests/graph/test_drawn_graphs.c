/* Step graphs of random models of all layers (drawn_layers.h). Passes must keep what a graph computes, and gradients
 * must match finite differences. The launches of a plan must give what the interpreter gives, and so must two devices
 * of different drivers that split the samples. The seeds are 0 to GRAPHS - 1, or the range in CLQ_TEST_SEEDS ("100
 * 2000"), each with a plan. With CLQ_TEST_WHOLE=1 more of the usual seeds have one. */
#include "graph/drawn_layers.h"
#include "graph/seed_plans.h"

enum { GRAPHS = 100 };

static unsigned halves; /* models whose samples were split */
enum { HALVES = 4 };

/* Builds a seed's model and puts the seed in front of its path. */
static void build_seed(subject *s, uint64_t seed) {
    char layers[sizeof s->path];
    build_of(s, seed, add_drawn_layers);
    memcpy(layers, s->path, sizeof layers);
    (void)snprintf(s->path, sizeof s->path, " seed %llu:%.*s", (unsigned long long)seed, (int)sizeof layers - 40,
                   layers);
    settle(s, seed);
}

static void passes_on(clq_device *device, clq_queue *queue) {
    uint64_t first, end;
    (void)queue;
    (void)seeds(GRAPHS, &first, &end);
    for (uint64_t seed = first; seed < end; seed++) {
        subject s;
        if (seed % 2 == clq_device_runs_in_caller(device)) continue;
        build_seed(&s, seed);
        s.config.lowered_graph = seed / 2 % 3 == 0;
        pass_tolerance = s.config.lowered_graph ? 1e-6 : 1e-12;
        check_passes_on(&s, device);
        clq_model_destroy(s.model);
    }
}

static void passes_keep_what_a_graph_computes(void **state) {
    (void)state;
    on_each_driver(passes_on);
}

/* ---- plans ---- */

typedef struct pair {
    clq_device *devices[2];
    clq_queue *queues[2];
} pair;

/* A model with state may not be split: each device would have the statistics of its part of the batch only. */
static bool may_be_split(const subject *s) {
    for (uint32_t v = 0; v < s->model->variable_count; v++)
        if (s->model->variables[v].role == CLQ_ROLE_STATE) return false;
    return s->config.update != NULL;
}

static void add_gradients(const subject *s, clq_plan *plan, clq_queue *queue, double *const *sums) {
    for (uint32_t v = 0; v < s->model->variable_count; v++) {
        const size_t count = s->model->variables[v].elements;
        float *floats = clq_alloc(count, sizeof *floats);
        assert_non_null(floats);
        if (s->model->variables[v].role == CLQ_ROLE_TRAINABLE)
            CHECK_OK(clq_queue_read(queue, clq_plan_gradient(plan), clq_plan_variable_offset(plan, v), floats,
                                    count * sizeof *floats, true));
        for (size_t i = 0; i < count && s->model->variables[v].role == CLQ_ROLE_TRAINABLE; i++)
            sums[v][i] += (double)floats[i];
        clq_free(floats);
    }
}

/* Two samples run on one device, the last sample on the other: the sums of gradients and totals must be right. */
static void check_halves(subject *s, const numbers *n, const pair *devices) {
    static const size_t first[] = {0, 2, COUNT};
    const unsigned width = clq_losses_width(s->losses, s->model->output_count);
    double *sums[VARIABLES_MOST], totals[METRICS] = {0};
    results want;
    if (!may_be_split(s)) return;
    s->config.accumulates = false;
    for (uint32_t v = 0; v < n->variables; v++) {
        sums[v] = clq_alloc(s->model->variables[v].elements, sizeof *sums[v]);
        assert_non_null(sums[v]);
        memset(sums[v], 0, s->model->variables[v].elements * sizeof *sums[v]);
    }
    for (unsigned k = 0; k < 2; k++) {
        clq_plan *plan;
        float metrics[METRICS];
        CHECK_OK(clq_plan_create_alone(s->model, devices->devices[k], &s->config, &plan));
        put_numbers(s, n, plan, devices->queues[k], first[k], first[k + 1] - first[k]);
        clq_plan_set_params(plan, &(clq_step_params){.count = (uint32_t)(first[k + 1] - first[k]),
                                                     .scale = (float)scale,
                                                     .step = 5,
                                                     .first_row = 2 + (uint32_t)first[k]});
        CHECK_OK(clq_plan_run(plan, devices->queues[k], CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_BACKWARD));
        add_gradients(s, plan, devices->queues[k], sums);
        CHECK_OK(clq_queue_read(devices->queues[k], clq_plan_metrics(plan), 0, metrics, width * sizeof *metrics, true));
        for (unsigned i = 0; i < width; i++) totals[i] += (double)metrics[i];
        if (k == 0) interpret_plain(s, n, plan->list, &want);
        clq_plan_destroy(plan);
    }
    assert_same(s, "metrics of two devices", totals, want.metrics, width, tolerance_of(s), 0);
    for (uint32_t v = 0; v < n->variables; v++)
        if (s->model->variables[v].role == CLQ_ROLE_TRAINABLE)
            assert_same(s, s->model->variables[v].name, sums[v], want.gradients[v], s->model->variables[v].elements,
                        tolerance_of(s), largest_gradient(&want, s->model));
    free_numbers(sums, n->variables);
    free_results(&want, n->variables);
    halves++;
}

static void plan_of_seed(uint64_t seed, void *context) {
    const pair *devices = context;
    subject s;
    numbers n;
    build_seed(&s, seed);
    s.config.unfused_graph = seed / 2 % 2;
    make_numbers(&s, &n);
    check_plan(&s, &n, devices->devices[seed % 2], devices->queues[seed % 2]);
    /* For halves, both drivers compile the model's kernels. */
    if (halves < HALVES || getenv("CLQ_TEST_SEEDS") || getenv("CLQ_TEST_WHOLE")) check_halves(&s, &n, devices);
    free_numbers(n.weights, n.variables);
    clq_model_destroy(s.model);
}

/* Plans few of the models of the usual seeds, those with most kinds of nodes: each kernel must be compiled. */
static void run_plans(pair *devices) {
    const unsigned count = getenv("CLQ_TEST_WHOLE") ? 12 : 8;
    static const seed_plans plans = {.graphs = GRAPHS, .start = build_seed, .check = plan_of_seed};
    static kind_set of[GRAPHS];
    kind_set known = {.nodes = 0};
    size_t chosen;
    if (check_given_seeds(&plans, devices, devices->devices[0], of)) return;
    for (unsigned i = 0; i < count && choose_model(of, GRAPHS, &known, &chosen); i++) plan_of_seed(chosen, devices);
    assert_true(halves >= HALVES);
}

static void plans_compute_what_their_graphs_do(void **state) {
    clq_system *system;
    uint32_t indices[TEST_DEVICES];
    pair devices;
    (void)state;
    CHECK_OK(clq_system_open(NULL, &system));
    const size_t count = find_devices(system, indices);
    const uint32_t chosen[] = {indices[TEST_BASIC], indices[count - 1]};
    for (unsigned k = 0; k < 2; k++) {
        CHECK_OK(clq_device_open(system, (clq_device_choice){chosen[k], 0, 1}, &devices.devices[k]));
        CHECK_OK(clq_queue_create(devices.devices[k], 0, &devices.queues[k]));
    }
    run_plans(&devices);
    for (unsigned k = 0; k < 2; k++) {
        clq_queue_destroy(devices.queues[k]);
        assert_int_equal(clq_device_memory_used(devices.devices[k]), 0);
        clq_device_close(devices.devices[k]);
    }
    clq_system_close(system);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_keep_what_a_graph_computes),
                                       cmocka_unit_test(plans_compute_what_their_graphs_do)};
    return cmocka_run_group_tests_name("graph/drawn_graphs", tests, NULL, NULL);
}
