/* One to three ranks that train together: step graphs of random models whose statistics are synchronized, each rank
 * with its part of the batch and a plan of its own. Together they make what the interpreter, in double, makes of the
 * whole batch. Seeds are numbers: 0 to GRAPHS - 1, or the two in CLQ_TEST_SEEDS ("100 2000"). */
#include "graph/layers/layer.h"
#include "graph/random_numbers.h"
#include "ref/graph_interpret.h"

#include <math.h>

enum { GRAPHS = 105, RANKS_MOST = 3, METRICS = 2 * OUTPUTS, EXCHANGED_MOST = RANKS_MOST * 1024 };
static const double scale = 0.25, patience_s = 300;

/* ---- numbers ---- */

/* ---- ranks ---- */

typedef struct group {
    unsigned ranks;
    clq_barrier *barrier;
    float values[RANKS_MOST][EXCHANGED_MOST];
    unsigned exchanges[RANKS_MOST];
} group;

typedef struct rank {
    group *group;
    unsigned index;
    size_t first, count; /* of its samples */
    clq_plan *plan;
    clq_queue *queue;
    clq_thread *thread;
    clq_status status;
    clq_error error;
} rank;

/* Ranks use one device here, and turn by turn: PoCL 3.1 aborts where two threads launch the same kernel of one device
 * while its code is loaded (pocl_release_dlhandle_cache). Replicas have devices of their own. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static clq_status wait_for_others(const group *g) {
    pthread_mutex_unlock(&turn);
    clq_status status = clq_barrier_wait(g->barrier, patience_s);
    pthread_mutex_lock(&turn);
    return status;
}

/* In the order of ranks, on each. The rank has the turn. */
static clq_status add_up(void *context, clq_queue *queue, clq_buffer *values) {
    const rank *r = context;
    group *g = r->group;
    const size_t bytes = clq_buffer_bytes(values), count = bytes / sizeof(float);
    float sums[EXCHANGED_MOST] = {0};
    if (queue != r->queue || count > EXCHANGED_MOST) return clq_fail(CLQ_INTERNAL, "another queue, or too much");
    CLQ_TRY(clq_queue_read(queue, values, 0, g->values[r->index], bytes, true));
    CLQ_TRY(wait_for_others(g));
    for (unsigned k = 0; k < g->ranks; k++)
        for (size_t i = 0; i < count; i++) sums[i] += g->values[k][i];
    CLQ_TRY(clq_queue_write(queue, values, 0, sums, bytes, true));
    g->exchanges[r->index]++;
    return wait_for_others(g); /* they have read */
}

static void run(void *context) {
    rank *r = context;
    pthread_mutex_lock(&turn);
    r->status = clq_plan_run(r->plan, r->queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_BACKWARD);
    if (r->status == CLQ_OK) r->status = clq_queue_finish(r->queue);
    pthread_mutex_unlock(&turn);
    if (r->status == CLQ_OK) return;
    clq_error_take(r->status, &r->error);
    clq_barrier_abort(r->group->barrier);
}

static clq_buffer *arena_of(const clq_plan *plan, uint32_t v) {
    return clq_weights_arena(clq_plan_weights(plan), clq_variable_arena(&plan->model->variables[v]));
}

static void open_rank(rank *r, const subject *s, const numbers *n, clq_device *device) {
    clq_plan_config config = s->config;
    config.exchange = (clq_exchange){r->index, r->group->ranks, add_up, r};
    CHECK_OK(clq_queue_create(device, 0, &r->queue));
    CHECK_OK(clq_plan_create_alone(s->model, device, &config, &r->plan));
    put(r->queue, clq_plan_samples(r->plan), 0, n->samples + r->first * 72, r->count * 72, config.sample_dtype);
    for (uint32_t i = 0; i < s->model->output_count; i++) {
        const size_t target = clq_loss_target_elements(&s->losses[i]);
        put(r->queue, clq_plan_labels(r->plan, i), 0, n->labels[i] + r->first * target, r->count * target,
            clq_loss_has_index(&s->losses[i]) ? CLQ_I32 : CLQ_F32);
    }
    for (uint32_t v = 0; v < s->model->variable_count; v++)
        put(r->queue, arena_of(r->plan, v), clq_plan_variable_offset(r->plan, v), n->weights[v],
            s->model->variables[v].elements, CLQ_F32);
    clq_plan_set_params(r->plan, &(clq_step_params){.count = (uint32_t)r->count,
                                                    .scale = (float)scale,
                                                    .step = 5,
                                                    .first_row = 2 + (uint32_t)r->first});
}

/* ---- against the whole batch ---- */

typedef struct results {
    double metrics[METRICS], *gradients[VARIABLES_MOST], *states[VARIABLES_MOST];
} results;

/* On one rank nothing is exchanged. */
static void interpret(const subject *s, const numbers *n, clq_device *device, results *w) {
    const clq_model *model = s->model;
    clq_list *list;
    clq_graph graph = {0};
    *w = (results){.metrics = {0}};
    for (uint32_t v = 0; v < model->variable_count; v++) {
        w->gradients[v] = clq_alloc(model->variables[v].elements, sizeof(double));
        w->states[v] = clq_alloc(model->variables[v].elements, sizeof(double));
        assert_true(w->gradients[v] && w->states[v]);
    }
    CHECK_OK(clq_list_create(device, COUNT, &list));
    const clq_pass_context context = {.config = &s->config, .list = list, .arena_bytes = CLQ_VARIABLE_ALIGN};
    CHECK_OK(clq_graph_build(&graph, model, &context, NULL, NULL));
    for (uint32_t k = 0; k < graph.node_count; k++) assert_true(graph.nodes[k].op != &clq_op_all_reduce);
    ref_interpret(&graph,
                  &(ref_inputs){.count = COUNT,
                                .scale = scale,
                                .samples = n->samples,
                                .labels = {n->labels[0], n->labels[1]},
                                .weights = (const double *const *)n->weights,
                                .step = 5,
                                .first_row = 2},
                  &(ref_outputs){.metrics = w->metrics, .gradients = w->gradients, .states = w->states});
    clq_graph_release(&graph);
    clq_list_destroy(list);
}

static void assert_near(const subject *s, const char *what, const double *got, const double *want, size_t count,
                        double floor) {
    double most = floor;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs(want[i]));
    for (size_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= 2e-5 * most + 1e-30))
            fail_msg("%s:%s: [%zu of %zu] is %.9g, should be %.9g", what, s->path, i, count, got[i], want[i]);
}

static float *floats_of(const rank *r, const clq_buffer *from, size_t offset, size_t count) {
    float *floats = clq_alloc(count, sizeof *floats);
    assert_non_null(floats);
    CHECK_OK(clq_queue_read(r->queue, from, offset, floats, count * sizeof *floats, true));
    return floats;
}

/* Each rank has the statistics of the whole batch, and all the same bits. */
static void check_state(const subject *s, const rank *ranks, uint32_t v, const double *want) {
    const size_t count = s->model->variables[v].elements, offset = clq_plan_variable_offset(ranks[0].plan, v);
    float *first = floats_of(&ranks[0], arena_of(ranks[0].plan, v), offset, count);
    double *got = clq_alloc(count, sizeof *got);
    assert_non_null(got);
    for (size_t i = 0; i < count; i++) got[i] = (double)first[i];
    assert_near(s, s->model->variables[v].name, got, want, count, 0);
    for (unsigned k = 1; k < ranks->group->ranks; k++) {
        float *other = floats_of(&ranks[k], arena_of(ranks[k].plan, v), offset, count);
        assert_memory_equal(other, first, count * sizeof *first);
        clq_free(other);
    }
    clq_free(first);
    clq_free(got);
}

static void add_all(const rank *ranks, double *sums, size_t offset, size_t count, bool gradient) {
    for (unsigned k = 0; k < ranks->group->ranks; k++) {
        const clq_plan *plan = ranks[k].plan;
        float *more = floats_of(&ranks[k], gradient ? clq_plan_gradient(plan) : clq_plan_metrics(plan), offset, count);
        for (size_t i = 0; i < count; i++) sums[i] += (double)more[i];
        clq_free(more);
    }
}

static void check_sums(const subject *s, const rank *ranks, const results *want) {
    const unsigned width = clq_losses_width(s->losses, s->model->output_count);
    double metrics[METRICS] = {0}, floor = 0;
    add_all(ranks, metrics, 0, width, false);
    assert_near(s, "metrics", metrics, want->metrics, width, 0);
    for (uint32_t v = 0; v < s->model->variable_count; v++)
        for (size_t i = 0; i < s->model->variables[v].elements; i++)
            floor = fmax(floor, 0.1 * fabs(want->gradients[v][i]));
    for (uint32_t v = 0; v < s->model->variable_count; v++) {
        const clq_variable *variable = &s->model->variables[v];
        if (variable->role == CLQ_ROLE_STATE) {
            check_state(s, ranks, v, want->states[v]);
            continue;
        }
        double *sums = clq_alloc(variable->elements, sizeof *sums);
        assert_non_null(sums);
        add_all(ranks, sums, clq_plan_variable_offset(ranks[0].plan, v), variable->elements, true);
        assert_near(s, variable->name, sums, want->gradients[v], variable->elements, floor);
        clq_free(sums);
    }
}

static unsigned exchanged; /* in all */

typedef struct split {
    unsigned ranks;
    size_t counts[RANKS_MOST];
} split;

static void check(subject *s, const numbers *n, clq_device *device, const split *of) {
    static group g;
    rank ranks[RANKS_MOST] = {{0}};
    results want;
    g = (group){.ranks = of->ranks};
    CHECK_OK(clq_barrier_create(g.ranks, &g.barrier));
    interpret(s, n, device, &want);
    for (unsigned k = 0; k < g.ranks; k++) {
        ranks[k] = (rank){.group = &g, .index = k, .count = of->counts[k]};
        for (unsigned before = 0; before < k; before++) ranks[k].first += of->counts[before];
        open_rank(&ranks[k], s, n, device);
    }
    for (unsigned k = 0; k < g.ranks; k++) CHECK_OK(clq_thread_start("rank", run, &ranks[k], &ranks[k].thread));
    for (unsigned k = 0; k < g.ranks; k++) clq_thread_join(ranks[k].thread);
    for (unsigned k = 0; k < g.ranks; k++)
        if (ranks[k].status != CLQ_OK) fail_msg("rank %u:%s: %s", k, s->path, ranks[k].error.detail);
    check_sums(s, ranks, &want);
    for (unsigned k = 0; k < g.ranks; k++) {
        assert_int_equal(g.exchanges[k], g.exchanges[0]);
        assert_int_equal(clq_plan_exchanges(ranks[k].plan), g.exchanges[k] > 0);
        assert_true(g.ranks > 1 || g.exchanges[k] == 0);
        clq_plan_destroy(ranks[k].plan);
        clq_queue_destroy(ranks[k].queue);
    }
    exchanged += g.exchanges[0];
    for (uint32_t v = 0; v < s->model->variable_count; v++) {
        clq_free(want.gradients[v]);
        clq_free(want.states[v]);
    }
    clq_barrier_destroy(g.barrier);
}

static bool synchronize(const clq_model *model) {
    bool any = false;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        clq_layer *layer = &model->layers[i];
        if (layer->kind != &clq_layer_batch_norm) continue;
        layer->config.batch_norm.synchronized = true;
        any = true;
    }
    return any;
}

static void check_seed(uint64_t seed, clq_device *device) {
    static const split splits[] = {{3, {1, 1, 1}}, {3, {2, 0, 1}}, {2, {1, 2}}, {3, {0, 3, 0}},
                                   {2, {3, 0}},    {3, {2, 1, 0}}, {1, {3}}};
    subject s;
    numbers n;
    build(&s, seed);
    if (synchronize(s.model)) {
        s.config.mode = CLQ_MODE_TRAIN;
        s.config.loss = s.losses;
        s.config.update = &s.update;
        s.config.unfused_graph = seed % 2;
        s.config.fused_launches = seed / 2 % 2;
        make_numbers(&s, &n);
        check(&s, &n, device, &splits[seed % CLQ_COUNT_OF(splits)]);
        free_numbers(n.weights, n.variables);
    }
    clq_model_destroy(s.model);
}

/* Each driver compiles what it runs: but for given seeds, one takes all, the others every third. */
static void ranks_on(clq_device *device, clq_queue *queue) {
    unsigned long long first = 0, end = GRAPHS;
    const unsigned stride = clq_device_runs_in_caller(device) || getenv("CLQ_TEST_SEEDS") ? 1 : 3;
    const char *given = getenv("CLQ_TEST_SEEDS");
    (void)queue;
    if (given) assert_int_equal(sscanf(given, "%llu %llu", &first, &end), 2);
    for (uint64_t seed = first; seed < end; seed += stride) check_seed(seed, device);
}

static void ranks_make_what_one_does(void **state) {
    (void)state;
    on_each_driver(ranks_on);
    printf("%u exchanges\n", exchanged);
    assert_true(exchanged > (getenv("CLQ_TEST_SEEDS") ? 0 : 20));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_make_what_one_does)};
    return cmocka_run_group_tests_name("graph/exchange", tests, NULL, NULL);
}
