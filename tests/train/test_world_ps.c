/* The parameter server over several processes with store ranks. The processes are threads. One model shows which
 * updates were made (far_below.h); another is compared with a training in one process.
 *
 * Process 0's first replica is held up after a backward pass (the linker wraps clq_replica_run), until the others have
 * got as far as they may. So no test depends on the machine's speed, except for the limit on the hold. */
#include "far_below.h"
#include "strategy/modules/ps.h"
#include "support/files.h"
#include "support/stop.h"
#include "support/synthetic.h"
#include "support/system.h"
#include "support/world_fabric.h"
#include <clique/callbacks.h>
#include <clique/checkpoint.h>

enum { PROCESSES_MAX = 3, REPLICAS_MAX = 4, BOUND_MAX = 64, TESTS = 45, EPOCHS_MAX = 12 };
static const clq_world_config patient = {.silence_s = 60, .deadline_s = 60}, brief = {.silence_s = 4};
static const char *const specs[PROCESSES_MAX] = {"pocl:0", "pocl:1,pocl:2", "pocl:3"};

/* What one process was told. */
typedef struct told {
    double losses[BATCHES + 1], norms[BATCHES + 1]; /* from on_log, indexed by step */
    int replicas[BATCHES + 1];
    unsigned staleness[BATCHES + 1];
    uint64_t steps, last_step, resumed, histogram[BOUND_MAX + 1];
    size_t bounds;
    clq_server_counts counts;
    float weights[FEATURES + 1];
    double evaluated, validation[EPOCHS_MAX];
    unsigned epochs;
    float *values; /* (of the small model) all variables, one after the other */
} told;

typedef struct plan {
    unsigned processes, stores; /* 0 stores: one process without a world */
    clq_strategy_options options;
    clq_strategy_kind kind; /* 0: ps */
    const char *folder;
    uint64_t steps;               /* steps of the fit; 0: one epoch */
    uint64_t interrupts_at;       /* process 0 is interrupted after this step; 0: never */
    uint64_t kills_at;            /* after this step process 0 kills a store rank; 0: never */
    const char *optimizer, *clip; /* NULL: the one of far_below_config, or Adam for the small model */
    clq_precision precision;
    double deadline_s;
    bool logs, is_small, stops_early, by_hand, by_steps, checks;
    bool ends_first; /* ends the store ranks while the trainer still exists */
    told results[PROCESSES_MAX];
} plan;

typedef struct part {
    plan *how;
    unsigned rank;
    fabric *network;
    clq_trainer *trainer;
    told *told;
    clq_dataset *data, *test;
} part;

/* ---- holding a process up ---- */

static const double held_most_s = 20;
static atomic_bool holds,
    has_begun; /* holds: the first step of process 0's replica is held up, and the other replicas begin after it */
static atomic_uint others, others_most; /* the others' gradients since then; the number of them that ends the hold */
static atomic_bool held_to_end;

clq_status __real_clq_replica_run(clq_replica *replica, clq_plan *of, const clq_command *command, clq_segment last);
clq_status __wrap_clq_replica_run(clq_replica *replica, clq_plan *of, const clq_command *command, clq_segment last);
clq_status __wrap_clq_replica_run(clq_replica *replica, clq_plan *of, const clq_command *command, clq_segment last) {
    const bool is_first = replica->strategy->first == 0 && replica->worker.index == 0;
    const double until = clq_now() + held_most_s;
    if (is_first) atomic_store(&has_begun, true);
    while (atomic_load(&holds) && !atomic_load(&has_begun) && clq_now() < until) nap(2e-4);
    CLQ_TRY(__real_clq_replica_run(replica, of, command, last));
    if (last != CLQ_SEGMENT_BACKWARD || !atomic_load(&holds)) return CLQ_OK;
    if (!is_first) {
        atomic_fetch_add(&others, 1);
        return CLQ_OK;
    }
    while (atomic_load(&others) < atomic_load(&others_most) && clq_now() < until &&
           clq_world_failure(replica->strategy->config.world) == CLQ_OK)
        nap(2e-4);
    atomic_store(&held_to_end, atomic_load(&others) >= atomic_load(&others_most));
    atomic_store(&holds, false);
    return CLQ_OK;
}

/* ---- a process ---- */

static clq_status note_log(void *context, const clq_step_info *info) {
    part *p = context;
    told *t = p->told;
    if (info->step != ++t->last_step) return clq_fail(CLQ_ERROR_INTERNAL, "step %d is told", (int)info->step);
    t->losses[info->step] = info->loss;
    t->norms[info->step] = info->grad_norm;
    t->replicas[info->step] = info->replica;
    t->staleness[info->step] = info->staleness;
    t->steps++;
    if (p->rank == 0 && p->how->interrupts_at > 0 && info->step >= p->how->interrupts_at)
        return clq_fail(CLQ_ERROR_INTERRUPTED, "somebody waved");
    if (p->rank == 0 && p->how->kills_at == info->step) fabric_kill(p->network, p->how->processes);
    return CLQ_OK;
}

static clq_status note_epoch(void *context, const clq_epoch_info *info) {
    part *p = context;
    p->told->validation[info->epoch] = info->validation.loss;
    p->told->epochs++;
    return CLQ_OK;
}

static clq_status make_small_model(clq_model **out) {
    CLQ_TRY(clq_model_create("small", out));
    clq_tensor x = clq_flatten(*out, clq_input(*out, CLQ_SHAPE(28, 28, 1)), NULL);
    x = clq_dense(*out, x, &(clq_dense_config){.units = 16});
    x = clq_dense(*out, x, &(clq_dense_config){.units = 10});
    return clq_model_finish(*out, x);
}

static clq_status next_batch(const part *p, clq_batch *out) {
    bool more;
    CLQ_TRY(clq_dataset_next(p->data, out, &more));
    return more ? CLQ_OK : clq_fail(CLQ_ERROR_INTERNAL, "no batch is left");
}

/* Without meetings of the processes: at a meeting figures may be read, and reading waits for all processes. */
static clq_status train_by_steps(part *p) {
    clq_batch batch;
    for (size_t u = 0; u < BATCHES; u++) {
        CLQ_TRY(next_batch(p, &batch));
        CLQ_TRY(clq_step(p->trainer, &batch));
    }
    return CLQ_OK;
}

/* Steps by hand, evaluation and the setting of weights come between whole steps, as if all updates were synchronous. */
static clq_status train_by_hand(part *p) {
    clq_batch batch;
    clq_totals totals;
    float gradient;
    for (size_t u = 0; u < 10; u++) {
        CLQ_TRY(next_batch(p, &batch));
        CLQ_TRY(clq_step(p->trainer, &batch));
    }
    CLQ_TRY(next_batch(p, &batch));
    CLQ_TRY(clq_step_gradients(p->trainer, &batch));
    CLQ_TRY(clq_step_reduce(p->trainer));
    CLQ_TRY(clq_trainer_get_gradient(p->trainer, 0, 1, &gradient));
    if (gradient != -1.0f) return clq_fail(CLQ_ERROR_INTERNAL, "the sum of the gradients is %g", (double)gradient);
    CLQ_TRY(clq_step_apply(p->trainer));
    CLQ_TRY(next_batch(p, &batch));
    CLQ_TRY(clq_step(p->trainer, &batch));
    CLQ_TRY(clq_evaluate(p->trainer, p->data, &totals));
    p->told->evaluated = totals.loss;
    CLQ_TRY(clq_trainer_get_gradient(p->trainer, 0, 1, &gradient)); /* of the last update */
    if (gradient != -1.0f) return clq_fail(CLQ_ERROR_INTERNAL, "the last gradient is %g", (double)gradient);
    CLQ_TRY(zero_weights_of(p->trainer));
    CLQ_TRY(next_batch(p, &batch));
    return clq_step(p->trainer, &batch);
}

/* To stop early, the fit watches for a validation loss that grows (mode=max). The loss does not grow. */
static clq_status fit(part *p, clq_checkpoints *checkpoints) {
    clq_early_stopping early = {0};
    clq_callback stopping = {0};
    const bool stops = p->how->stops_early;
    clq_status status = stops ? clq_early_stopping_parse("monitor=val_loss,mode=max,patience=1", &early) : CLQ_OK;
    if (status == CLQ_OK && stops) status = clq_callback_early_stopping(&early, &stopping);
    const clq_fit_config config = {.epochs = stops ? EPOCHS_MAX : 1,
                                   .steps = p->how->steps,
                                   .validation = p->test,
                                   .context = p,
                                   .on_epoch = note_epoch,
                                   .on_log = p->how->logs ? note_log : NULL,
                                   .log_every = 4,
                                   .checkpoints = checkpoints,
                                   .callbacks = &stopping,
                                   .callback_count = stops};
    if (status == CLQ_OK) status = clq_fit(p->trainer, p->data, &config);
    clq_callback_destroy(&stopping);
    return status;
}

static clq_status keep(part *p) {
    told *t = p->told;
    size_t floats = 0;
    CLQ_TRY(clq_trainer_server_counts(p->trainer, &t->counts)); /* comes first; counts the steps of all processes */
    CLQ_TRY(clq_trainer_staleness(p->trainer, BOUND_MAX + 1, t->histogram, &t->bounds));
    if (!p->how->is_small) {
        CLQ_TRY(clq_trainer_get_variable(p->trainer, 0, t->weights));
        CLQ_TRY(clq_trainer_get_variable(p->trainer, 1, t->weights + FEATURES));
    }
    for (uint32_t i = 0; i < p->trainer->model->variable_count; i++) floats += p->trainer->model->variables[i].elements;
    if (!(t->values = clq_alloc(floats, sizeof *t->values))) return CLQ_ERROR_MEMORY;
    floats = 0;
    for (uint32_t i = 0; i < p->trainer->model->variable_count; i++) {
        CLQ_TRY(clq_trainer_get_variable(p->trainer, i, t->values + floats));
        floats += p->trainer->model->variables[i].elements;
    }
    return CLQ_OK;
}

static clq_status open_data(part *p, float *samples, float *labels) {
    if (!p->how->is_small) return far_below_data(samples, labels, &p->data);
    CLQ_TRY(open_synthetic("train", SAMPLES, &p->data));
    CLQ_TRY(clq_dataset_shuffle(p->data, 1000, 3));
    CLQ_TRY(clq_dataset_batch(p->data, BATCH, false));
    CLQ_TRY(open_synthetic("test", TESTS, &p->test));
    return clq_dataset_batch(p->test, BATCH, false);
}

static clq_status config_of(const plan *how, clq_world *world, clq_trainer_config *out) {
    CLQ_TRY(far_below_config(out));
    if (how->is_small) {
        *out = apart_config();
        out->global_batch = BATCH;
        out->measure_gradient = true;
        CLQ_TRY(clq_optimizer_parse("adam", &out->optimizer));
    }
    if (how->optimizer) CLQ_TRY(clq_optimizer_parse(how->optimizer, &out->optimizer));
    if (how->clip) CLQ_TRY(clq_clip_parse(how->clip, &out->clip));
    out->strategy = how->kind ? how->kind : CLQ_STRATEGY_PS;
    out->strategy_options = how->options;
    out->check_replicas = how->checks ? 2 : 0;
    if (how->deadline_s > 0) out->group.deadline_s = how->deadline_s;
    out->precision = how->precision;
    out->world = world;
    return CLQ_OK;
}

static clq_status train(plan *how, const char *spec, const fabric_rank *of, told *result) {
    static float samples[PROCESSES_MAX][SAMPLES * FEATURES], labels[PROCESSES_MAX][SAMPLES];
    const unsigned rank = of ? of->rank : 0;
    part p = {.how = how, .rank = rank, .network = of ? of->port.network : NULL, .told = result};
    const clq_checkpoints_config kept = {.folder = how->folder, .resume = true, .world = of ? of->world : NULL};
    clq_trainer_config config;
    clq_devices devices;
    clq_model *model = NULL;
    clq_checkpoints *checkpoints = NULL;
    *result = (told){0};
    clq_status status = config_of(how, of ? of->world : NULL, &config);
    if (status == CLQ_OK) status = clq_devices_select(sys, spec, &devices);
    if (status == CLQ_OK) status = how->is_small ? make_small_model(&model) : far_below_model(&model);
    if (status == CLQ_OK) status = open_data(&p, samples[rank], labels[rank]);
    if (status == CLQ_OK) status = clq_trainer_create(model, &devices, &config, &p.trainer);
    if (status == CLQ_OK && !how->is_small) status = zero_weights_of(p.trainer);
    if (status == CLQ_OK && how->folder) status = clq_checkpoints_open(&kept, &checkpoints);
    if (status == CLQ_OK && how->folder)
        status = clq_checkpoints_restore(checkpoints, p.trainer, p.data, &result->resumed);
    result->last_step = result->resumed;
    if (status == CLQ_OK)
        status = how->by_hand ? train_by_hand(&p) : how->by_steps ? train_by_steps(&p) : fit(&p, checkpoints);
    if (status == CLQ_OK) status = keep(&p);
    if (status == CLQ_OK && how->ends_first) status = clq_serve_end(of->world);
    clq_error why;
    clq_error_take(status, &why);
    clq_checkpoints_close(checkpoints);
    clq_trainer_destroy(p.trainer);
    clq_dataset_destroy(p.data);
    clq_dataset_destroy(p.test);
    clq_model_destroy(model);
    return clq_error_raise(&why);
}

static void run_rank(fabric_rank *rank) {
    plan *how = rank->context;
    clq_status status = clq_world_set_apart(rank->world, how->stores);
    if (status == CLQ_OK && clq_world_is_apart(rank->world)) {
        fabric_note(rank, clq_serve(rank->world));
        return;
    }
    if (status == CLQ_OK) status = train(how, specs[rank->rank], rank, &how->results[rank->rank]);
    if (status == CLQ_OK || status == CLQ_ERROR_INTERRUPTED) {
        clq_error why;
        clq_error_take(status, &why);
        status = clq_serve_end(rank->world);
        if (status == CLQ_OK) status = clq_error_raise(&why);
    }
    fabric_note(rank, status);
}

static void run(plan *how, fabric_rank *ranks) {
    const unsigned size = how->processes + how->stores;
    fabric *network = fabric_open(size, 0, 0);
    fabric_run(network, size, how->kills_at > 0 ? &brief : &patient, run_rank, how, ranks);
    fabric_close(network);
}

static void run_well(plan *how) {
    fabric_rank ranks[PROCESSES_MAX + 3];
    run(how, ranks);
    for (unsigned r = 0; r < how->processes + how->stores; r++)
        if (ranks[r].ended != CLQ_OK) fail_msg("rank %u: %s", r, ranks[r].detail);
}

static void forget(plan *how) {
    for (unsigned r = 0; r < PROCESSES_MAX; r++) {
        clq_free(how->results[r].values);
        how->results[r].values = NULL;
    }
}

/* ---- expected values ---- */

static unsigned replicas_of(unsigned processes) { return processes == 1 ? 1 : processes == 2 ? 3 : 4; }

static void check_weights(const told *t, size_t from, size_t updates) {
    double want[FEATURES + 1] = {0};
    for (size_t u = from; u < updates; u++) add_update(want, u, u, 0, BATCH, 1.0);
    for (size_t f = 0; f <= FEATURES; f++)
        if ((double)t->weights[f] != want[f])
            fail_msg("weight %zu is %.9g and is to be %.9g", f, (double)t->weights[f], want[f]);
}

/* Gives the largest staleness. */
static size_t check_counts(const told *t, size_t bound, size_t updates) {
    uint64_t sum = 0;
    size_t largest = 0;
    assert_int_equal(t->counts.updates, updates);
    assert_int_equal(t->counts.least, updates);
    assert_int_equal(t->counts.most, updates);
    assert_int_equal(t->counts.gradients, updates);
    assert_int_equal(t->bounds, bound + 1);
    for (size_t s = 0; s <= bound; s++) {
        sum += t->histogram[s];
        if (t->histogram[s] > 0) largest = s;
    }
    assert_int_equal(sum, updates);
    return largest;
}

/* Each step is told once, in the order of the data, whichever replica made it. All processes tell the same. */
static void check_log(const plan *how, const told *t, size_t from, size_t bound) {
    uint64_t histogram[BOUND_MAX + 1] = {0};
    assert_int_equal(t->steps, BATCHES - from);
    for (size_t s = from + 1; s <= BATCHES; s++) {
        assert_within(t->replicas[s], 0, (int)replicas_of(how->processes) - 1);
        assert_within(t->staleness[s], 0, bound);
        histogram[t->staleness[s]]++;
        if (!(fabs(t->norms[s] - norm_of_batch(s - 1)) <= 1e-6 * t->norms[s]))
            fail_msg("norm of step %zu: %.9g, not %.9g", s, t->norms[s], norm_of_batch(s - 1));
        assert_true(t->losses[s] == how->results[0].losses[s]);
        assert_int_equal(t->replicas[s], how->results[0].replicas[s]);
    }
    if (from > 0) return;
    for (size_t s = 0; s <= bound; s++) assert_int_equal(histogram[s], t->histogram[s]);
}

/* ---- asynchronous ---- */

static size_t fit_once(plan how, bool is_held) {
    const size_t bound = (size_t)how.options.staleness;
    size_t largest = 0;
    how.logs = !is_held;
    how.by_steps = is_held;
    atomic_store(&others, 0);
    atomic_store(&held_to_end, false);
    atomic_store(&has_begun, false);
    /* The others may make `bound` updates. After these, each other replica computes one more gradient. */
    atomic_store(&others_most, (unsigned)bound + replicas_of(how.processes) - 1);
    atomic_store(&holds, is_held);
    run_well(&how);
    for (unsigned r = 0; r < how.processes; r++) {
        const told *t = &how.results[r];
        check_weights(t, 0, BATCHES);
        largest = check_counts(t, bound, BATCHES);
        if (how.logs) check_log(&how, t, 0, bound);
    }
    forget(&how);
    return largest;
}

static void every_update_is_made_once(void **state) {
    (void)state;
    static const struct {
        unsigned processes, stores;
        int32_t bound;
    } cases[] = {{1, 1, 4}, {2, 1, 4}, {2, 2, 4}, {3, 1, 64}, {3, 2, 1}, {1, 2, 1}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++)
        (void)fit_once(
            (plan){.processes = cases[i].processes, .stores = cases[i].stores, .options.staleness = cases[i].bound},
            false);
}

/* Replicas that are not held up go on until the staleness bound stops them. */
static void the_bound_is_that_of_all_processes(void **state) {
    (void)state;
    for (unsigned stores = 1; stores <= 2; stores++) {
        const size_t largest = fit_once((plan){.processes = 3, .stores = stores, .options.staleness = 6}, true);
        assert_true(atomic_load(&held_to_end));
        assert_int_equal(largest, 6);
    }
}

static void other_calls_see_all_updates(void **state) {
    (void)state;
    for (int32_t bound = 0; bound <= 4; bound += 4) {
        plan how = {.processes = 2, .stores = 2, .options.staleness = bound, .by_hand = true};
        double want[FEATURES + 1] = {0};
        run_well(&how);
        for (size_t u = 0; u < 12; u++) add_update(want, u, u, 0, BATCH, 1.0);
        for (unsigned r = 0; r < 2; r++) {
            const told *t = &how.results[r];
            if (bound > 0) check_weights(t, 12, 13);
            assert_true(fabs(t->evaluated - loss_of(want)) <= 1e-6 * loss_of(want));
            assert_int_equal(t->counts.updates, 13);
        }
        forget(&how);
    }
}

/* ---- synchronous ---- */

static void expect_near(const char *what, size_t at, double value, double right, double tolerance) {
    if (!(fabs(value - right) <= tolerance * CLQ_MAX(fabs(right), 1e-3)))
        fail_msg("%s %zu: %.9g, not %.9g", what, at, value, right);
}

/* Without staleness it equals a mirrored training of one process that has all devices and splits batches likewise. */
static void without_staleness_it_is_mirrored(void **state) {
    (void)state;
    /* Small steps keep differences in the last bits from growing. */
    static const char sgd[] = "sgd:lr=1e-5,momentum=0.9";
    plan alone = {.processes = 1, .kind = CLQ_STRATEGY_MIRRORED, .is_small = true, .logs = true, .optimizer = sgd};
    assert_ok(train(&alone, "pocl:0,pocl:1,pocl:2", NULL, &alone.results[0]));
    for (unsigned stores = 1; stores <= 2; stores++) {
        plan how = {.processes = 2, .stores = stores, .is_small = true, .logs = true, .optimizer = sgd};
        run_well(&how);
        for (unsigned r = 0; r < 2; r++) {
            const told *t = &how.results[r], *one = &alone.results[0];
            for (size_t s = 1; s <= BATCHES; s++) {
                expect_near("loss", s, t->losses[s], one->losses[s], 1e-4);
                expect_near("norm", s, t->norms[s], one->norms[s], 1e-3);
            }
            expect_near("validation", 0, t->validation[0], one->validation[0], 1e-4);
            assert_int_equal(t->bounds, 0);
            assert_int_equal(t->counts.least, BATCHES);
        }
        forget(&how);
    }
    forget(&alone);
}

/* The number of store ranks, up to one for each variable, does not change a bit of the result, even if the optimizer
 * scales a variable's update by a norm. */
static void parts_make_the_same_update(void **state) {
    (void)state;
    static const struct {
        const char *optimizer, *clip;
        unsigned most;
    } cases[] = {{"adam", NULL, 2}, {"lamb", NULL, 4}, {"sgd:lr=0.1,momentum=0.9", "norm=0.01", 2}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        plan one = {.processes = 2,
                    .stores = 1,
                    .is_small = true,
                    .steps = 6,
                    .optimizer = cases[i].optimizer,
                    .clip = cases[i].clip};
        run_well(&one);
        for (unsigned stores = 2; stores <= cases[i].most; stores++) {
            plan more = one;
            more.stores = stores;
            run_well(&more);
            for (size_t v = 0; v < 28 * 28 * 16 + 16 + 16 * 10 + 10; v++)
                if (one.results[0].values[v] != more.results[1].values[v])
                    fail_msg("%s: value %zu: %.9g and %.9g", cases[i].optimizer, v, (double)one.results[0].values[v],
                             (double)more.results[1].values[v]);
            forget(&more);
        }
        forget(&one);
    }
}

/* All processes stop after the same epoch, and have the same validation loss after each. */
static void it_stops_early_on_all(void **state) {
    (void)state;
    plan how = {.processes = 2, .stores = 1, .options.staleness = 4, .is_small = true, .stops_early = true};
    run_well(&how);
    for (unsigned r = 0; r < 2; r++) {
        assert_within(how.results[r].epochs, 2, EPOCHS_MAX - 1);
        assert_int_equal(how.results[r].epochs, how.results[0].epochs);
        assert_int_equal(how.results[r].counts.updates, how.results[r].epochs * BATCHES);
        for (unsigned e = 0; e < how.results[r].epochs; e++)
            expect_near("validation", e, how.results[r].validation[e], how.results[0].validation[e], 1e-9);
    }
    forget(&how);
}

/* ---- checkpoints ---- */

/* A training is interrupted. Other numbers of processes and store ranks, and one process alone, resume it with the
 * right step, rate and batch, and every update is made once. */
static void it_goes_on_from_a_checkpoint(void **state) {
    (void)state;
    static const struct { unsigned processes, stores; } cases[] = {{2, 1}, {3, 2}, {1, 1}, {1, 0}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "kept %zu", i);
        plan first = {.processes = 2,
                      .stores = 2,
                      .options.staleness = 4,
                      .logs = true,
                      .folder = files_path(name),
                      .interrupts_at = 5};
        plan second = first;
        fabric_rank ranks[PROCESSES_MAX + 3];
        second.processes = cases[i].processes;
        second.stores = cases[i].stores;
        second.interrupts_at = 0;
        run(&first, ranks);
        for (unsigned r = 0; r < 2; r++) assert_int_equal(ranks[r].ended, CLQ_ERROR_INTERRUPTED);
        for (unsigned r = 2; r < 4; r++) assert_int_equal(ranks[r].ended, CLQ_OK);
        if (second.stores == 0)
            assert_ok(train(&second, "pocl:0", NULL, &second.results[0]));
        else
            run_well(&second);
        for (unsigned r = 0; r < second.processes; r++) {
            const told *t = &second.results[r];
            const uint64_t from = t->resumed;
            assert_within(from, 5, BATCHES);
            check_weights(t, 0, BATCHES);
            (void)check_counts(t, 4, BATCHES - from);
            check_log(&second, t, from, 4);
        }
        forget(&second);
    }
}

/* A checkpoint also keeps Adam's moments, which lie on the store ranks. */
static void moments_are_kept(void **state) {
    (void)state;
    plan right = {.processes = 2, .stores = 2, .is_small = true, .logs = true};
    plan first = right, second = right;
    fabric_rank ranks[PROCESSES_MAX + 3];
    first.folder = second.folder = files_path("moments");
    first.interrupts_at = 5;
    second.stores = 1;
    run_well(&right);
    run(&first, ranks);
    assert_int_equal(ranks[0].ended, CLQ_ERROR_INTERRUPTED);
    run_well(&second);
    for (uint64_t s = 1; s <= BATCHES; s++) {
        const told *t = s <= second.results[0].resumed ? &first.results[0] : &second.results[0];
        if (t->losses[s] != right.results[0].losses[s])
            fail_msg("loss of step %d: %.9g, not %.9g", (int)s, t->losses[s], right.results[0].losses[s]);
    }
    forget(&right);
    forget(&second);
}

/* ---- failures ---- */

static void a_store_rank_that_dies_is_named(void **state) {
    (void)state;
    for (int32_t bound = 0; bound <= 4; bound += 4) {
        plan how = {.processes = 2, .stores = 2, .options.staleness = bound, .logs = true, .kills_at = 4};
        fabric_rank ranks[PROCESSES_MAX + 3];
        run(&how, ranks);
        for (unsigned r = 0; r < 4; r++) {
            assert_int_equal(ranks[r].ended, CLQ_ERROR_ABORTED);
            if (r != 2) expect_text(ranks[r].detail, "rank 2 on ");
        }
        forget(&how);
    }
}

/* The store ranks name what they wait for: the replica with the oldest gradient, or the process whose gradients are
 * missing. */
static void who_is_late_is_named(void **state) {
    (void)state;
    /* A bound of 2 lets all three replicas read before one has pushed. Those that push first wait for replica 0. */
    static const struct {
        int32_t bound;
        const char *says;
    } cases[] = {{0, " did not come to the update within the deadline of 3 s"},
                 {2, "the gradient of replica 0, of rank 0 on "}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        plan first = {
            .processes = 2, .stores = 1, .options.staleness = cases[i].bound, .by_steps = true, .is_small = true};
        plan how = first;
        fabric_rank ranks[PROCESSES_MAX + 3];
        run_well(&first); /* compiles the kernels, so that no rank compiles within the deadline */
        forget(&first);
        how.deadline_s = 3;
        atomic_store(&others, 0);
        atomic_store(&has_begun, false);
        atomic_store(&others_most, UINT32_MAX);
        atomic_store(&holds, true);
        run(&how, ranks);
        atomic_store(&holds, false);
        assert_int_equal(ranks[2].ended, CLQ_ERROR_TIMEOUT);
        expect_text(ranks[2].detail, cases[i].says);
        expect_text(ranks[2].detail, "rank 0 on ");
        forget(&how);
    }
}

static void store_ranks_end_behind_the_trainer(void **state) {
    (void)state;
    plan how = {.processes = 2, .stores = 2, .options.staleness = 4, .ends_first = true};
    fabric_rank ranks[PROCESSES_MAX + 3];
    run(&how, ranks);
    const fabric_rank *store = &ranks[ranks[2].ended == CLQ_ERROR_STATE ? 2 : 3]; /* the first to fail ends the world */
    assert_int_equal(store->ended, CLQ_ERROR_STATE);
    expect_text(store->detail, "destroy the trainer first");
    forget(&how);
}

static void what_does_not_go_together_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *says;
        plan how;
        clq_status status;
    } cases[] = {
        {"backup replicas are of one machine",
         {.processes = 2, .stores = 1, .options.backup = 1},
         CLQ_ERROR_UNSUPPORTED},
        {"--ps-ranks 1", {.processes = 2, .stores = 2, .clip = "global_norm=1"}, CLQ_ERROR_UNSUPPORTED},
        {"only strategy ps uses", {.processes = 2, .stores = 1, .kind = CLQ_STRATEGY_MIRRORED}, CLQ_ERROR_UNSUPPORTED},
        {"cannot be cut into parts for 3", {.processes = 2, .stores = 3}, CLQ_ERROR_ARGUMENT},
        {"one copy of the weights, on the store ranks",
         {.processes = 2, .stores = 1, .checks = true},
         CLQ_ERROR_ARGUMENT},
        {"splits batches evenly", {.processes = 2, .stores = 1, .options.shares = CLQ_SHARES_AUTO}, CLQ_ERROR_ARGUMENT},
        {"splits batches evenly", {.processes = 3, .stores = 1, .options.shares = CLQ_SHARES_AUTO}, CLQ_ERROR_ARGUMENT},
        {"precision mixed scales", {.processes = 2, .stores = 1, .precision = CLQ_PRECISION_MIXED}, CLQ_ERROR_ARGUMENT},
        {"name how many (--ps-ranks", {.processes = 2, .stores = 0}, CLQ_ERROR_UNSUPPORTED}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        plan how = cases[i].how;
        fabric_rank ranks[PROCESSES_MAX + 3];
        run(&how, ranks);
        for (unsigned r = 0; r < how.processes + how.stores; r++) {
            expect_text(ranks[r].detail, cases[i].says);
            assert_int_equal(ranks[r].ended, r == 0 ? cases[i].status : CLQ_ERROR_ABORTED);
        }
        forget(&how);
    }
}

static int begin(void **state) { return files_begin(state) == 0 ? open_system(state) : -1; }
static int end(void **state) { return close_system(state) == 0 ? files_end(state) : -1; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_update_is_made_once),          cmocka_unit_test(the_bound_is_that_of_all_processes),
        cmocka_unit_test(other_calls_see_all_updates),        cmocka_unit_test(without_staleness_it_is_mirrored),
        cmocka_unit_test(parts_make_the_same_update),         cmocka_unit_test(it_stops_early_on_all),
        cmocka_unit_test(it_goes_on_from_a_checkpoint),       cmocka_unit_test(moments_are_kept),
        cmocka_unit_test(a_store_rank_that_dies_is_named),    cmocka_unit_test(who_is_late_is_named),
        cmocka_unit_test(store_ranks_end_behind_the_trainer), cmocka_unit_test(what_does_not_go_together_is_refused),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
