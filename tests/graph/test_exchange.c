/* One to three ranks that train random models together. Each rank has a plan of its own. Either it has a part of the
 * batch, and the ranks synchronize statistics, or it has slices of the weights and the whole batch. Together the ranks
 * must compute what the interpreter, in double, computes with the whole batch and whole weights. The seeds are some of
 * 0 to GRAPHS - 1, or those in the range in CLQ_TEST_SEEDS ("100 2000"). */
#include "graph/kinds.h"
#include "graph/layers/layer.h"
#include "graph/random_numbers.h"
#include "ref/graph_interpret.h"

#include <math.h>

enum { GRAPHS = 75, RANKS_MOST = 3, METRICS = 2 * OUTPUTS, EXCHANGED_MOST = RANKS_MOST * 1024 };
static const double scale = 0.25, patience_s = 300;

/* ---- numbers ---- */

/* ---- ranks ---- */

typedef struct group {
    unsigned ranks;
    clq_slicing *slicing; /* NULL: the batch is split, not the weights */
    clq_barrier *barrier;
    float values[RANKS_MOST][EXCHANGED_MOST];
    unsigned exchanges[RANKS_MOST];
} group;

typedef struct rank {
    group *group;
    unsigned index;
    size_t first, count; /* its samples in the whole batch */
    clq_plan *plan;
    clq_queue *queue;
    clq_thread *thread;
    clq_status status;
    clq_error error;
} rank;

/* Held by the rank that may use the device. The ranks of this test share one device, and PoCL 3.1 aborts if two threads
 * launch the same kernel on one device while its code is being loaded (pocl_release_dlhandle_cache). Replicas each have
 * their own device. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static clq_status wait_for_others(const group *g) {
    pthread_mutex_unlock(&turn);
    clq_status status = clq_barrier_wait(g->barrier, patience_s);
    pthread_mutex_lock(&turn);
    return status;
}

/* The all-reduce: every rank adds the values of all ranks in the order of ranks. The caller holds `turn`. */
static clq_status add_up(void *context, clq_queue *queue, clq_buffer *values, size_t count) {
    const rank *r = context;
    group *g = r->group;
    const size_t bytes = count * sizeof(float);
    float sums[EXCHANGED_MOST] = {0};
    if (queue != r->queue || count > EXCHANGED_MOST || bytes > clq_buffer_bytes(values))
        return clq_fail(CLQ_ERROR_INTERNAL, "another queue, or too much");
    CLQ_TRY(clq_queue_read(queue, values, 0, g->values[r->index], bytes, true));
    CLQ_TRY(wait_for_others(g));
    for (unsigned k = 0; k < g->ranks; k++)
        for (size_t i = 0; i < count; i++) sums[i] += g->values[k][i];
    CLQ_TRY(clq_queue_write(queue, values, 0, sums, bytes, true));
    g->exchanges[r->index]++;
    return wait_for_others(g); /* until all ranks have read */
}

static void run(void *context) {
    rank *r = context;
    pthread_mutex_lock(&turn);
    r->status = clq_plan_run(r->plan, r->queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_NORM);
    if (r->status == CLQ_OK) r->status = clq_queue_finish(r->queue);
    pthread_mutex_unlock(&turn);
    if (r->status == CLQ_OK) return;
    clq_error_take(r->status, &r->error);
    clq_barrier_abort(r->group->barrier);
}

static clq_buffer *arena_of(const clq_plan *plan, uint32_t v) {
    return clq_weights_arena(clq_plan_weights(plan), clq_variable_arena(&plan->model->variables[v]));
}

static clq_weight_slice slice_of(const rank *r, uint32_t v) { return clq_weights_slice(clq_plan_weights(r->plan), v); }

static void put_weights(const rank *r, const clq_variable *variable, uint32_t v, const double *values) {
    const clq_weight_slice slice = slice_of(r, v);
    const size_t count = clq_weight_slice_elements(&slice, variable);
    float *all = clq_alloc(2 * variable->elements, sizeof *all), *own = all + variable->elements;
    assert_non_null(all);
    for (size_t i = 0; i < variable->elements; i++) all[i] = (float)values[i];
    clq_weight_slice_cut(&slice, variable, all, own);
    assert_int_equal(clq_weights_variable_bytes(clq_plan_weights(r->plan), v), count * sizeof *own);
    CHECK_OK(clq_queue_write(r->queue, arena_of(r->plan, v), clq_plan_variable_offset(r->plan, v), own,
                             count * sizeof *own, true));
    clq_free(all);
}

static void open_rank(rank *r, const subject *s, const numbers *n, clq_device *device) {
    clq_plan_config config = s->config;
    const clq_step_sum all = {r->index, r->group->ranks, add_up, r};
    config.slicing = r->group->slicing;
    *(config.slicing ? &config.joins : &config.exchange) = all;
    CHECK_OK(clq_queue_create(device, 0, &r->queue));
    CHECK_OK(clq_plan_create_alone(s->model, device, &config, &r->plan));
    put(r->queue, clq_plan_samples(r->plan), 0, n->samples + r->first * 72, r->count * 72, config.sample_dtype);
    for (uint32_t i = 0; i < s->model->output_count; i++) {
        const size_t target = clq_loss_target_elements(&s->losses[i]);
        put(r->queue, clq_plan_labels(r->plan, i), 0, n->labels[i] + r->first * target, r->count * target,
            clq_loss_has_index(&s->losses[i]) ? CLQ_I32 : CLQ_F32);
    }
    for (uint32_t v = 0; v < s->model->variable_count; v++) put_weights(r, &s->model->variables[v], v, n->weights[v]);
    clq_plan_set_params(r->plan, &(clq_step_params){.count = (uint32_t)r->count,
                                                    .scale = (float)scale,
                                                    .step = 5,
                                                    .first_row = 2 + (uint32_t)r->first});
}

/* ---- against the whole batch ---- */

typedef struct results {
    double metrics[METRICS], *gradients[VARIABLES_MOST], *states[VARIABLES_MOST];
} results;

/* Interprets the graph of a single rank, which exchanges nothing. */
static void interpret(const subject *s, const numbers *n, size_t count, clq_device *device, results *w) {
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
                  &(ref_inputs){.count = count,
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

/* Every rank must have the statistics of the whole batch, and all ranks must have the same bits. */
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

/* ---- slices ---- */

/* Joins a variable's gradient from the slices of all ranks. If the variable is not sliced, all ranks must have the same
 * bits. */
static void gather_gradient(const subject *s, const rank *ranks, uint32_t v, double *out) {
    const clq_variable *variable = &s->model->variables[v];
    float *all = clq_alloc(2 * variable->elements, sizeof *all), *first = all + variable->elements;
    assert_non_null(all);
    for (unsigned k = 0; k < ranks->group->ranks; k++) {
        const clq_weight_slice slice = slice_of(&ranks[k], v);
        const size_t count = clq_weight_slice_elements(&slice, variable);
        float *own =
            floats_of(&ranks[k], clq_plan_gradient(ranks[k].plan), clq_plan_variable_offset(ranks[k].plan, v), count);
        clq_weight_slice_paste(&slice, variable, own, all);
        if (k == 0) memcpy(first, all, variable->elements * sizeof *first);
        if (!clq_weight_slice_is_part(&slice, variable)) assert_memory_equal(all, first, count * sizeof *all);
        clq_free(own);
    }
    for (size_t i = 0; i < variable->elements; i++) out[i] = (double)all[i];
    clq_free(all);
}

static void check_norm(const subject *s, const rank *ranks, uint32_t v, const double *gradient) {
    double want = 0, got = 0;
    for (size_t i = 0; i < s->model->variables[v].elements; i++) want += gradient[i] * gradient[i];
    for (unsigned k = 0; k < ranks->group->ranks; k++) {
        float *squares = floats_of(&ranks[k], clq_plan_norms(ranks[k].plan), v * sizeof(float), 1);
        got += (double)*squares;
        clq_free(squares);
    }
    assert_near(s, "norm", &got, &want, 1, 0);
}

static void check_slices(const subject *s, const rank *ranks, const results *want) {
    const unsigned width = clq_losses_width(s->losses, s->model->output_count);
    double floor = 0;
    for (uint32_t v = 0; v < s->model->variable_count; v++)
        for (size_t i = 0; i < s->model->variables[v].elements; i++)
            floor = fmax(floor, 0.1 * fabs(want->gradients[v][i]));
    for (unsigned k = 0; k < ranks->group->ranks; k++) {
        double metrics[METRICS] = {0};
        float *row = floats_of(&ranks[k], clq_plan_metrics(ranks[k].plan), 0, width);
        for (unsigned i = 0; i < width; i++) metrics[i] = (double)row[i];
        assert_near(s, "metrics", metrics, want->metrics, width, 0);
        clq_free(row);
    }
    for (uint32_t v = 0; v < s->model->variable_count; v++) {
        const clq_variable *variable = &s->model->variables[v];
        if (variable->role == CLQ_ROLE_STATE) {
            check_state(s, ranks, v, want->states[v]);
            continue;
        }
        double *gradient = clq_alloc(variable->elements, sizeof *gradient);
        assert_non_null(gradient);
        gather_gradient(s, ranks, v, gradient);
        assert_near(s, variable->name, gradient, want->gradients[v], variable->elements, floor);
        check_norm(s, ranks, v, gradient);
        clq_free(gradient);
    }
}

/* ---- all ---- */

static unsigned exchanged; /* exchanges of all models so far */

typedef struct split {
    unsigned ranks;
    size_t counts[RANKS_MOST];
} split;

static void check(subject *s, const numbers *n, clq_device *device, const split *of, clq_slicing *slicing) {
    static group g;
    rank ranks[RANKS_MOST] = {{0}};
    results want;
    g = (group){.ranks = of->ranks, .slicing = slicing};
    CHECK_OK(clq_barrier_create(g.ranks, &g.barrier));
    interpret(s, n, slicing ? of->counts[0] : COUNT, device, &want);
    for (unsigned k = 0; k < g.ranks; k++) {
        ranks[k] = (rank){.group = &g, .index = k, .count = of->counts[k]};
        for (unsigned before = 0; before < k && !slicing; before++) ranks[k].first += of->counts[before];
        open_rank(&ranks[k], s, n, device);
    }
    for (unsigned k = 0; k < g.ranks; k++) CHECK_OK(clq_thread_start("rank", run, &ranks[k], &ranks[k].thread));
    for (unsigned k = 0; k < g.ranks; k++) clq_thread_join(ranks[k].thread);
    for (unsigned k = 0; k < g.ranks; k++)
        if (ranks[k].status != CLQ_OK) fail_msg("rank %u:%s: %s", k, s->path, ranks[k].error.detail);
    slicing ? check_slices(s, ranks, &want) : check_sums(s, ranks, &want);
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
        ((clq_batch_norm_config *)layer->config)->synchronized = true;
        any = true;
    }
    return any;
}

static const split splits[] = {{3, {1, 1, 1}}, {3, {2, 0, 1}}, {2, {1, 2}}, {3, {0, 3, 0}},
                               {2, {3, 0}},    {3, {2, 1, 0}}, {1, {3}}};

/* True for one seed in four: all launches between two exchanges become one program, which takes long to build. */
static bool is_one_launch(uint64_t seed) { return seed / 2 % 4 == 1; }

/* False: the model has nothing to synchronize. */
static bool start_ranks(subject *s, uint64_t seed) {
    build(s, seed);
    s->config.mode = CLQ_MODE_TRAIN;
    s->config.loss = s->losses;
    s->config.update = &s->update;
    s->config.unfused_graph = seed % 2;
    s->config.fused_launches = is_one_launch(seed);
    return synchronize(s->model);
}

static void check_ranks_of(uint64_t seed, clq_device *device) {
    subject s;
    numbers n;
    if (start_ranks(&s, seed)) {
        make_numbers(&s, &n);
        check(&s, &n, device, &splits[seed % CLQ_COUNT_OF(splits)], NULL);
        free_numbers(n.weights, n.variables);
    }
    clq_model_destroy(s.model);
}

/* The kinds in the plan of one of several ranks. If the model has nothing to synchronize, the set is empty. */
static void kinds_of_ranks(uint64_t seed, clq_device *device, kind_set *out) {
    subject s;
    memset(out, 0, sizeof *out);
    if (start_ranks(&s, seed)) {
        s.config.exchange = (clq_step_sum){0, 2, add_up, NULL};
        find_kinds(&s, device, out);
        add_kind(out, "split %d", (int)(seed % CLQ_COUNT_OF(splits)));
    }
    clq_model_destroy(s.model);
}

/* ---- models of many Dense layers ---- */

static clq_tensor add_units(subject *s, clq_tensor x, unsigned units) {
    note(s, "dense");
    return clq_dense(s->model, x,
                     &(clq_dense_config){.units = units, .activation = any_activation(s), .no_bias = below(s, 4) == 0});
}

static clq_tensor add_elements(subject *s, clq_tensor x, clq_tensor like, unsigned units) {
    switch (below(s, 6)) {
    case 0: note(s, "activation"); return clq_activate(s->model, x, any_activation(s), NULL);
    case 1:
    case 2: note(s, "dropout"); return clq_dropout(s->model, x, &(clq_dropout_config){.rate = 0.3});
    case 3: note(s, "gate"); return clq_multiply(s->model, CLQ_TENSORS(x, add_units(s, like, units)), NULL);
    case 4: note(s, "reshape"); return clq_reshape(s->model, x, *shape_of(s, x), NULL);
    default: return x;
    }
}

/* Dense layers over the last axis of (6, 6, 2), or over flat rows. Some outputs have two readers, some layers are
 * shared. */
static clq_tensor add_dense_layers(subject *s, clq_tensor x) {
    static const unsigned widths[] = {3, 4, 5, 8};
    const bool flat = below(s, 2);
    if (flat) x = clq_flatten(s->model, x, NULL);
    for (unsigned i = 1 + below(s, 2); i > 0; i--) {
        const unsigned units = widths[below(s, 4)];
        clq_tensor y = add_units(s, x, units);
        if (below(s, 4) == 0) {
            note(s, "shared");
            y = clq_add(s->model,
                        CLQ_TENSORS(y, clq_share(s->model, y, clq_activate(s->model, x, CLQ_ACTIVATION_TANH, NULL))),
                        NULL);
        }
        y = add_elements(s, add_elements(s, y, x, units), x, units);
        const clq_tensor first = add_units(s, y, 2);
        clq_tensor z = first;
        if (below(s, 3) == 0) z = clq_add(s->model, CLQ_TENSORS(z, add_units(s, y, 2)), NULL);
        if (below(s, 3) == 0) z = clq_add(s->model, CLQ_TENSORS(z, clq_share(s->model, first, y)), NULL);
        x = z;
    }
    return flat ? x : clq_flatten(s->model, x, NULL);
}

/* ---- models of attention, and of tables, in front of Dense layers ---- */

/* An embedding. The samples themselves are its row indices. */
static clq_tensor add_rows(subject *s, clq_tensor x) {
    const bool summed = below(s, 2);
    note(s, summed ? "table, summed" : "table");
    x = clq_embedding(s->model, clq_reshape(s->model, x, CLQ_SHAPE(12, 6), NULL),
                      &(clq_embedding_config){.rows = 256, .width = 3 + below(s, 3)});
    if (summed) return clq_global_average_pool(s->model, x, false, NULL);
    return clq_reshape(s->model, x, CLQ_SHAPE(12, 6 * shape_of(s, x)->dims[2]), NULL);
}

/* Attention with 2 to 5 heads, so some ranks may have one more head than others. It is self-attention, or attends to
 * another tensor. */
static clq_tensor add_heads(subject *s, clq_tensor x) {
    clq_attention_config config = {
        .heads = 2 + below(s, 4), .key = 1 + below(s, 3), .value = 1 + below(s, 3), .causal = below(s, 2)};
    const bool crossed = below(s, 3) == 0;
    config.dropout = below(s, 2) ? 0.3 : 0;
    note(s, crossed ? "crossed heads" : "heads");
    const clq_tensor others = crossed ? add_units(s, x, 4) : x;
    const clq_tensor y = clq_attention(s->model, CLQ_TENSORS(x, others), &config);
    if (below(s, 2)) return clq_layer_norm(s->model, y, NULL);
    return clq_add(s->model, CLQ_TENSORS(y, x), NULL);
}

static clq_tensor add_split_layers(subject *s, clq_tensor x) {
    const bool table = below(s, 2);
    x = table ? add_rows(s, x) : clq_reshape(s->model, x, CLQ_SHAPE(12, 6), NULL);
    if (shape_of(s, x)->rank == 2)
        for (unsigned i = table ? below(s, 2) : 1 + below(s, 2); i > 0; i--) x = add_heads(s, x);
    return add_dense_layers(s, x);
}

typedef enum cut { REFUSED, PAIRS, JOINED } cut;
static unsigned cut_models[3];

static clq_slicing *slicing_of(const clq_model *model, unsigned ranks, cut *found) {
    clq_slicing *slicing = NULL;
    const clq_status status = clq_slicing_create(model, ranks, &slicing);
    bool joined = false;
    for (uint32_t v = 0; v < model->variable_count && slicing; v++)
        joined = joined || clq_slicing_of(slicing, 0, v).joined;
    assert_true(status == CLQ_OK || status == CLQ_ERROR_ARGUMENT);
    *found = !slicing ? REFUSED : joined ? JOINED : PAIRS;
    return slicing;
}

static const split whole_batches[] = {{2, {COUNT, COUNT}}, {3, {COUNT, COUNT, COUNT}}, {2, {2, 2}}};

static void start_slices(subject *s, uint64_t seed) {
    static build_layers *const kinds[] = {add_layers, add_dense_layers, add_split_layers, add_dense_layers,
                                          add_split_layers};
    build_of(s, seed + 7000, kinds[seed % CLQ_COUNT_OF(kinds)]);
    assert_true(s->model->variable_count <= VARIABLES_MOST);
    s->config.mode = CLQ_MODE_TRAIN;
    s->config.loss = s->losses;
    s->config.update = &s->update;
    s->config.unfused_graph = seed % 4 == 1;
    s->config.fused_launches = is_one_launch(seed);
}

static void check_slices_of(uint64_t seed, clq_device *device) {
    const split *of = &whole_batches[seed % CLQ_COUNT_OF(whole_batches)];
    subject s;
    numbers n;
    start_slices(&s, seed);
    make_numbers(&s, &n);
    cut found;
    clq_slicing *slicing = slicing_of(s.model, of->ranks, &found);
    cut_models[found]++;
    if (slicing) check(&s, &n, device, of, slicing);
    clq_slicing_destroy(slicing);
    free_numbers(n.weights, n.variables);
    clq_model_destroy(s.model);
}

/* The kinds in the plan of a single rank, and how the model is cut. If nothing can be cut, only the latter. */
static void kinds_of_slices(uint64_t seed, clq_device *device, kind_set *out) {
    const unsigned way = (unsigned)(seed % CLQ_COUNT_OF(whole_batches));
    subject s;
    memset(out, 0, sizeof *out);
    start_slices(&s, seed);
    cut found;
    clq_slicing *slicing = slicing_of(s.model, whole_batches[way].ranks, &found);
    if (slicing) find_kinds(&s, device, out);
    add_kind(out, "ranks %u, cut %d", way, found);
    clq_slicing_destroy(slicing);
    clq_model_destroy(s.model);
}

/* ---- on all drivers ---- */

typedef void check_model(uint64_t seed, clq_device *device);
typedef void kinds_of_model(uint64_t seed, clq_device *device, kind_set *out);

static size_t least_of_one_launch(const kind_set *of) {
    size_t least = GRAPHS;
    for (size_t seed = 0; seed < GRAPHS; seed++)
        if (is_one_launch(seed) && of[seed].nodes > 0 && (least == GRAPHS || of[seed].nodes < of[least].nodes))
            least = seed;
    assert_true(least < GRAPHS);
    return least;
}

/* Checks few of GRAPHS models that together have every kind. The smallest model that is one launch is checked on every
 * driver. PoCL checks two thirds of the other models, and the other driver checks the rest. */
static void check_some(clq_device *device, check_model *check_one, kinds_of_model *kinds_of_one) {
    static kind_set of[GRAPHS];
    kind_set known = {.nodes = 0};
    size_t chosen;
    for (uint64_t seed = 0; seed < GRAPHS; seed++) kinds_of_one(seed, device, &of[seed]);
    const size_t least = least_of_one_launch(of);
    learn_kinds(&known, &of[least]);
    check_one(least, device);
    for (unsigned i = 0; choose_model(of, GRAPHS, &known, &chosen); i++)
        if ((i % 3 > 0) == clq_device_runs_in_caller(device)) check_one(chosen, device);
}

static void check_models(clq_device *device, check_model *check_one, kinds_of_model *kinds_of_one) {
    unsigned long long first, end;
    const char *given = getenv("CLQ_TEST_SEEDS");
    if (!given) {
        check_some(device, check_one, kinds_of_one);
        return;
    }
    assert_int_equal(sscanf(given, "%llu %llu", &first, &end), 2);
    for (uint64_t seed = first; seed < end; seed++) check_one(seed, device);
}

static void ranks_on(clq_device *device, clq_queue *queue) {
    (void)queue;
    check_models(device, check_ranks_of, kinds_of_ranks);
}

static void slices_on(clq_device *device, clq_queue *queue) {
    (void)queue;
    check_models(device, check_slices_of, kinds_of_slices);
}

static void ranks_make_what_one_does(void **state) {
    (void)state;
    on_each_driver(ranks_on);
    printf("%u exchanges\n", exchanged);
    assert_true(exchanged > (getenv("CLQ_TEST_SEEDS") ? 0 : 10));
}

static void slices_make_what_the_whole_does(void **state) {
    (void)state;
    exchanged = 0;
    on_each_driver(slices_on);
    printf("%u exchanges, %u models of pairs, %u of joined layers, %u refused\n", exchanged, cut_models[PAIRS],
           cut_models[JOINED], cut_models[REFUSED]);
    if (getenv("CLQ_TEST_SEEDS")) return;
    assert_true(exchanged > 10 && cut_models[PAIRS] > 2 && cut_models[JOINED] > 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_make_what_one_does),
                                       cmocka_unit_test(slices_make_what_the_whole_does)};
    return cmocka_run_group_tests_name("graph/exchange", tests, NULL, NULL);
}
