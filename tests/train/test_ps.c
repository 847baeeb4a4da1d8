/* The parameter server, on a model that shows which updates were made (far_below.h).
 *
 * A replica is held up after its backward pass (the linker wraps clq_replica_run), until the others have got as far as
 * they may. So no test depends on the machine's speed, except for the limit on the hold. */
#include "far_below.h"
#include "strategy/modules/ps.h"
#include "support/disguise.h"
#include "support/files.h"
#include "support/system.h"
#include <clique/checkpoint.h>

#include <time.h>

enum { REPLICAS = 4, NOBODY = 64 };
#define FOUR "pocl:0,pocl:1,pocl:2,pocl:3"

/* ---- holding a replica up ---- */

static const double held_most_s = 10;
static atomic_uint posted_most;           /* number of steps; after the last one the others have nothing to do */
static atomic_uint held = NOBODY;         /* the replica that is held up */
static atomic_bool held_till_failure;     /* until another replica fails */
static atomic_uint held_to_end;           /* how often the others got as far as they may */
static atomic_bool held_has_begun = true; /* false: the others begin after it; otherwise they could end first */

/* Whether the others have made all updates that they may make without the held replica. *idle: whether no steps are
 * left for them. */
static bool others_are_done(const clq_replica *replica, bool *idle) {
    clq_ps *ps = clq_ps_of(replica);
    clq_storage *storage = &ps->rounds.storage;
    const clq_free_client *own = &ps->clients[replica->worker.index];
    const uint64_t read = ps->under_way[replica->worker.index].read;
    const uint64_t given = ps->rounds.shares[replica->worker.index].given;
    pthread_mutex_lock(&storage->lock);
    const bool done = ps->asynchronous ? storage->version >= read + storage->bound : ps->rounds.made >= given + 3;
    const uint64_t begun = ps->asynchronous ? storage->pushed + own->outstanding : ps->rounds.made;
    *idle = begun >= atomic_load(&posted_most);
    pthread_mutex_unlock(&storage->lock);
    return done;
}

static void pause_for(double seconds) {
    const struct timespec time = {.tv_nsec = (long)(seconds * 1e9)};
    nanosleep(&time, NULL);
}

clq_status __real_clq_replica_run(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_segment last);
clq_status __wrap_clq_replica_run(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_segment last);
clq_status __wrap_clq_replica_run(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_segment last) {
    const double until = clq_now() + held_most_s;
    const unsigned who = atomic_load(&held);
    if (replica->worker.index == who) atomic_store(&held_has_begun, true);
    while (who != NOBODY && !atomic_load(&held_has_begun) && !atomic_load(&replica->worker.pool->failed) &&
           clq_now() < until)
        pause_for(2e-4);
    CLQ_TRY(__real_clq_replica_run(replica, plan, command, last));
    if (replica->worker.index != who || last != CLQ_SEGMENT_BACKWARD) return CLQ_OK;
    while (atomic_load(&held_till_failure) && !atomic_load(&replica->worker.pool->failed) && clq_now() < until)
        pause_for(2e-4);
    bool done = false, idle = false;
    while (!(done = others_are_done(replica, &idle)) && !idle && clq_now() < until) pause_for(2e-4);
    atomic_fetch_add(&held_to_end, done);
    return CLQ_OK;
}

/* ---- model, data, trainer ---- */

typedef struct bench {
    clq_model *model;
    clq_dataset *data;
    clq_trainer *trainer;
} bench;

static clq_trainer_config config_of(const char *strategy, clq_strategy_options options, double deadline_s) {
    clq_trainer_config config;
    assert_ok(far_below_config(&config));
    assert_ok(clq_strategy_parse(strategy, &config.strategy, &config.strategy_options));
    config.strategy_options = options;
    config.group.deadline_s = deadline_s;
    return config;
}

static clq_status open_trainer(const clq_model *model, const char *strategy, const char *spec,
                               clq_strategy_options options, double deadline_s, clq_trainer **out) {
    const clq_trainer_config config = config_of(strategy, options, deadline_s);
    clq_devices devices;
    assert_ok(clq_devices_select(sys, spec, &devices));
    return clq_trainer_create(model, &devices, &config, out);
}

static void zero_weights(const bench *b) { assert_ok(zero_weights_of(b->trainer)); }

static bench open_bench(const char *strategy, const char *spec, clq_strategy_options options) {
    static float samples[SAMPLES * FEATURES], labels[SAMPLES];
    bench b;
    assert_ok(far_below_model(&b.model));
    assert_ok(far_below_data(samples, labels, &b.data));
    assert_ok(open_trainer(b.model, strategy, spec, options, 0, &b.trainer));
    zero_weights(&b);
    return b;
}

static void close_bench(bench *b) {
    clq_trainer_destroy(b->trainer);
    clq_dataset_destroy(b->data);
    clq_model_destroy(b->model);
    held = NOBODY;
}

/* ---- expected values ---- */

static void check_weights(const bench *b, const double want[FEATURES + 1]) {
    float got[FEATURES + 1];
    assert_ok(clq_trainer_get_variable(b->trainer, 0, got));
    assert_ok(clq_trainer_get_variable(b->trainer, 1, got + FEATURES));
    for (size_t f = 0; f <= FEATURES; f++)
        if ((double)got[f] != want[f]) fail_msg("weight %zu is %.9g and is to be %.9g", f, (double)got[f], want[f]);
}

static void check_counts(const bench *b, size_t updates, size_t gradients) {
    clq_server_counts counts;
    assert_ok(clq_trainer_server_counts(b->trainer, &counts));
    assert_true(counts.servers >= 1);
    assert_int_equal(counts.updates, updates);
    assert_int_equal(counts.least, updates);
    assert_int_equal(counts.most, updates);
    assert_int_equal(counts.gradients, gradients);
}

/* Checks that the histogram counts `updates` updates. Gives the largest staleness. */
static size_t check_histogram(const bench *b, size_t bound, size_t updates) {
    uint64_t of[128], sum = 0;
    size_t count, largest = 0;
    assert_ok(clq_trainer_staleness(b->trainer, CLQ_COUNT_OF(of), of, &count));
    assert_int_equal(count, bound + 1);
    for (size_t s = 0; s <= bound; s++) {
        sum += of[s];
        if (of[s] > 0) largest = s;
    }
    assert_int_equal(sum, updates);
    return largest;
}

/* ---- asynchronous ---- */

typedef struct told {
    size_t steps, bound, staleness;
} told;

/* Steps are told in the order in which batches were handed out, with the rate of that place. */
static clq_status hear(void *context, const clq_step_info *info) {
    told *t = context;
    assert_int_equal(info->step, ++t->steps);
    assert_true(info->lr == rate_of(t->steps - 1));
    assert_within(info->replica, 0, REPLICAS - 1);
    assert_within(info->staleness, 0, t->bound);
    assert_int_equal(info->samples, BATCH);
    assert_true(info->seconds >= 0);
    const double norm = norm_of_batch(t->steps - 1);
    assert_true(fabs(info->grad_norm - norm) <= 1e-6 * norm);
    t->staleness += info->staleness;
    return CLQ_OK;
}

static void fit_once(size_t bound, unsigned slow) {
    bench b = open_bench("ps", FOUR, (clq_strategy_options){.staleness = (int32_t)bound});
    told t = {.bound = bound};
    double want[FEATURES + 1] = {0};
    held = slow;
    posted_most = BATCHES;
    atomic_store(&held_to_end, 0);
    /* If fewer gradients may be under way than there are replicas, the held replica may have to wait for the others. */
    atomic_store(&held_has_begun, bound + 1 < REPLICAS);
    assert_ok(clq_fit(b.trainer, b.data, &(clq_fit_config){.epochs = 1, .on_log = hear, .context = &t}));
    held = NOBODY;
    assert_int_equal(t.steps, BATCHES);
    for (size_t u = 0; u < BATCHES; u++) add_update(want, u, u, 0, BATCH, 1.0);
    check_weights(&b, want);
    check_counts(&b, BATCHES, BATCHES);
    const size_t largest = check_histogram(&b, bound, BATCHES);
    if (slow != NOBODY && bound + 1 >= REPLICAS && bound < BATCHES / 2) {
        assert_true(atomic_load(&held_to_end) > 0); /* the others went on */
        assert_int_equal(largest, bound);           /* and no further */
    }
    close_bench(&b);
}

static void every_update_is_made_once(void **state) {
    (void)state;
    for (unsigned run = 0; run < 10; run++) fit_once(4, run % 2 ? run % REPLICAS : NOBODY);
    fit_once(1, 2); /* fewer gradients under way than replicas */
    fit_once(64, 0);
}

static void step(const bench *b) {
    clq_batch batch;
    bool more;
    assert_ok(clq_dataset_next(b->data, &batch, &more));
    assert_true(more);
    assert_ok(clq_step(b->trainer, &batch));
}

/* Steps by hand, evaluation and the setting of weights come between whole steps, as if all updates were synchronous. */
static void other_calls_see_all_updates(void **state) {
    (void)state;
    bench b = open_bench("ps", FOUR, (clq_strategy_options){.staleness = 4});
    double want[FEATURES + 1] = {0};
    clq_batch batch;
    clq_totals totals;
    bool more;
    held = 1;
    posted_most = 10;
    for (size_t u = 0; u < 10; u++) {
        step(&b);
        add_update(want, u, u, 0, BATCH, 1.0);
    }
    check_weights(&b, want);
    assert_ok(clq_dataset_next(b.data, &batch, &more));
    assert_ok(clq_step_gradients(b.trainer, &batch));
    assert_ok(clq_step_reduce(b.trainer));
    for (unsigned r = 0; r < REPLICAS; r++) {
        float bias;
        assert_ok(clq_trainer_get_gradient(b.trainer, r, 1, &bias));
        assert_true(bias == -1.0f);
    }
    assert_ok(clq_step_apply(b.trainer));
    add_update(want, 10, 10, 0, BATCH, 1.0);
    step(&b);
    add_update(want, 11, 11, 0, BATCH, 1.0);
    assert_ok(clq_evaluate(b.trainer, b.data, &totals)); /* by the weights of all replicas */
    assert_true(fabs(totals.loss - loss_of(want)) <= 1e-6 * totals.loss);
    check_weights(&b, want);
    float gradient;
    assert_ok(clq_trainer_get_gradient(b.trainer, 3, 1, &gradient)); /* of the last update */
    assert_true(gradient == -1.0f);
    zero_weights(&b);
    step(&b);
    double last[FEATURES + 1] = {0};
    add_update(last, 12, 12, 0, BATCH, 1.0);
    check_weights(&b, last);
    check_histogram(&b, 4, 12);
    check_counts(&b, 13, 12);
    close_bench(&b);
}

/* A checkpoint that is taken while gradients are under way has all updates up to its step. A new trainer resumes with
 * the right step, rate and batch. */
static void updates_go_on_from_a_checkpoint(void **state) {
    (void)state;
    static const size_t stops[] = {5, 13, 22}; /* the rate falls after 10, 20 and 30 updates */
    for (size_t i = 0; i < CLQ_COUNT_OF(stops); i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "%zu", stops[i]);
        const clq_checkpoints_config config = {.folder = files_path(name), .resume = true};
        double want[FEATURES + 1] = {0};
        told t = {.steps = stops[i], .bound = 4};
        clq_fit_config fit = {.epochs = 1, .steps = stops[i]};
        uint64_t step;
        for (unsigned part = 0; part < 2; part++) {
            bench b = open_bench("ps", FOUR, (clq_strategy_options){.staleness = 4});
            held = 1 + part;
            atomic_store(&held_has_begun, false);
            posted_most = part ? (unsigned)(BATCHES - stops[i]) : (unsigned)stops[i];
            assert_ok(clq_checkpoints_open(&config, &fit.checkpoints));
            assert_ok(clq_checkpoints_restore(fit.checkpoints, b.trainer, b.data, &step));
            assert_int_equal(step, part ? stops[i] : 0);
            check_weights(&b, want);
            assert_ok(clq_fit(b.trainer, b.data, &fit));
            for (size_t u = part ? stops[i] : 0; u < (part ? BATCHES : stops[i]); u++)
                add_update(want, u, u, 0, BATCH, 1.0);
            check_weights(&b, want);
            clq_checkpoints_close(fit.checkpoints);
            close_bench(&b);
            fit = (clq_fit_config){.epochs = 1, .on_log = hear, .context = &t};
        }
        assert_int_equal(t.steps, BATCHES);
        assert_true(t.staleness > 0);
    }
}

/* Each fast path of the exchange is off, and names the reason. */
static void check_paths(const bench *b) {
    clq_path_info path;
    size_t exchanges = 0;
    for (size_t i = 0; clq_strategy_path(clq_trainer_strategy(b->trainer), i, &path); i++) {
        if (strcmp(path.stage, "exchange") != 0) continue;
        assert_string_equal(path.reason, "variables lie in the host's memory");
        exchanges++;
    }
    assert_int_equal(exchanges, 3);
}

/* Central storage makes the same updates, also on one device. */
static void central_makes_every_update(void **state) {
    (void)state;
    static const char *const specs[] = {"pocl:0", "pocl:0,pocl:1,pocl:2", FOUR};
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        bench b = open_bench("central", specs[i], (clq_strategy_options){.staleness = 4});
        double want[FEATURES + 1] = {0};
        assert_ok(clq_fit(b.trainer, b.data, &(clq_fit_config){.epochs = 1}));
        for (size_t u = 0; u < BATCHES; u++) add_update(want, u, u, 0, BATCH, 1.0);
        /* With three replicas sums are not exact: a third of a batch is no power of two. */
        if (i != 1) check_weights(&b, want);
        check_counts(&b, BATCHES, BATCHES * clq_trainer_replicas(b.trainer));
        check_paths(&b);
        close_bench(&b);
    }
}

/* A device has room for this model's parameters and gradient, but not for Adam's moments beside them. */
static void optimizer_state_needs_no_room_on_devices(void **state) {
    (void)state;
    static const char *const strategies[] = {"single", "central", "ps"};
    const clq_system_config limited = {.memory_limit_bytes = 10 << 20};
    clq_system *system;
    clq_model *model;
    assert_ok(clq_system_open(&limited, &system));
    assert_ok(clq_model_create("wide", &model)); /* 4 MB of parameters */
    assert_ok(clq_model_finish(
        model, clq_dense(model, clq_input(model, CLQ_SHAPE(100)), &(clq_dense_config){.units = 10000})));
    for (size_t i = 0; i < CLQ_COUNT_OF(strategies); i++) {
        clq_trainer_config config = config_of(strategies[i], (clq_strategy_options){.staleness = 1}, 0);
        clq_trainer *trainer;
        clq_devices devices;
        config.optimizer = clq_optimizer_default(CLQ_OPTIMIZER_ADAM);
        config.global_batch = 1;
        config.sample_dtype = CLQ_U8;
        config.measure_gradient = false;
        assert_ok(clq_devices_select(system, "pocl:0", &devices));
        if (i == 0) {
            assert_fails(CLQ_ERROR_DEVICE_MEMORY, "optimizer state",
                         clq_trainer_create(model, &devices, &config, &trainer));
            continue;
        }
        assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
        assert_within(clq_trainer_device_bytes(trainer), 8 << 20, 10 << 20);
        static const unsigned char samples[100] = {1, 2, 3};
        static const float targets[10000];
        assert_ok(clq_step(trainer, &(clq_batch){.count = 1,
                                                 .samples = samples,
                                                 .sample_elements = 100,
                                                 .labels = targets,
                                                 .float_labels = true,
                                                 .sample_dtype = CLQ_U8,
                                                 .label_elements = 10000}));
        assert_ok(clq_trainer_wait(trainer));
        clq_trainer_destroy(trainer);
    }
    clq_model_destroy(model);
    clq_system_close(system);
}

/* ---- backup replicas ---- */

enum { SHARE = BATCH / REPLICAS };

static void the_slowest_are_left_out(void **state) {
    (void)state;
    bench b = open_bench("ps", FOUR, (clq_strategy_options){.backup = 2});
    double want[FEATURES + 1] = {0};
    clq_step_info info;
    clq_server_counts counts;
    held = 3;
    posted_most = 20;
    atomic_store(&held_to_end, 0);
    for (size_t u = 0; u < 20; u++) step(&b);
    assert_ok(clq_step_read(b.trainer, &info));
    assert_int_equal(info.samples, BATCH / 2);
    assert_int_equal(info.replica, -1);
    const clq_strategy *strategy = clq_trainer_strategy(b.trainer);
    double loss = 0;
    for (size_t u = 0; u < 20; u++) {
        const uint64_t by = strategy->measured_by[u];
        assert_int_equal(__builtin_popcountll(by), 2);
        loss = 0;
        for (size_t i = 0; i < BATCH; i++) {
            double value = want[FEATURES];
            for (size_t f = 0; f < FEATURES; f++) value += want[f] * (double)sample_at(u * BATCH + i, f);
            if (by >> (i / SHARE) & 1) loss += (65536.0 - value) / (BATCH / 2);
        }
        for (size_t r = 0; r < REPLICAS; r++)
            if (by >> r & 1) add_update(want, u, u, r * SHARE, (r + 1) * SHARE, 0.5);
    }
    assert_true(fabs(info.loss - loss) <= 1e-6 * loss);
    check_weights(&b, want);
    assert_ok(clq_trainer_server_counts(b.trainer, &counts));
    assert_int_equal(counts.updates, 20);
    assert_int_equal(counts.dropped, 40); /* two of each batch */
    close_bench(&b);
}

/* Only one replica gets samples of the batch. The replicas without samples are not enough for an update. */
static void small_batches_are_waited_for(void **state) {
    (void)state;
    static const float one[FEATURES] = {1, 2, 3}, far[1] = {65536.0f};
    const clq_batch batch = {.count = 1,
                             .samples = one,
                             .sample_elements = FEATURES,
                             .sample_dtype = CLQ_F32,
                             .labels = far,
                             .float_labels = true};
    static const clq_strategy_options options[] = {{.backup = 3}, {.staleness = 0}, {.staleness = 2}};
    for (size_t i = 0; i < CLQ_COUNT_OF(options); i++) {
        bench b = open_bench("ps", FOUR, options[i]);
        const double want[FEATURES + 1] = {0.125, 0.25, 0.375, 0.125};
        assert_ok(clq_step(b.trainer, &batch));
        check_weights(&b, want);
        close_bench(&b);
    }
}

/* ---- failures ---- */

static void who_waits_has_a_deadline(void **state) {
    (void)state;
    static const struct {
        const char *strategy;
        clq_strategy_options options;
    } cases[] = {{"central", {.staleness = 0}}, {"ps", {.staleness = 1}}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        bench b = open_bench(cases[i].strategy, "pocl:0,pocl:1", cases[i].options);
        for (size_t u = 0; u < 4; u++) step(&b); /* builds all kernels */
        clq_trainer_destroy(b.trainer);
        assert_ok(open_trainer(b.model, cases[i].strategy, "pocl:0,pocl:1", cases[i].options, 0.05, &b.trainer));
        held = 1;
        held_has_begun = false; /* otherwise the other replica could do all batches, and nobody would wait */
        posted_most = 0;
        held_till_failure = true;
        clq_status status = CLQ_OK;
        for (size_t u = 0; u < 8 && status == CLQ_OK; u++) {
            clq_batch batch;
            bool more;
            assert_ok(clq_dataset_next(b.data, &batch, &more));
            status = clq_step(b.trainer, &batch);
        }
        assert_fails(CLQ_ERROR_TIMEOUT, "deadline_s", clq_trainer_wait(b.trainer));
        assert_fails(CLQ_ERROR_TIMEOUT, "deadline_s", clq_fit(b.trainer, b.data, &(clq_fit_config){.epochs = 1}));
        held_till_failure = false;
        close_bench(&b);
    }
}

static void bad_options_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *strategy, *word;
        clq_strategy_options options;
    } cases[] = {{"ps", "a staleness of -1: expected 0", {.staleness = -1}},
                 {"ps", "expected 0, which is synchronous, to 65536", {.staleness = INT32_MAX}},
                 {"ps", "use at most 3", {.backup = 4}},
                 {"ps", "staleness of 0, and it is 4", {.staleness = 4, .backup = 1}},
                 {"ps", "staleness of 0 and no backup", {.staleness = 4, .accumulate = 2}},
                 {"ps", "staleness of 0 and no backup", {.backup = 1, .accumulate = 2}},
                 {"central", "no backup replicas", {.backup = 1}},
                 {"mirrored", "no backup replicas", {.backup = 1}}};
    bench b = open_bench("single", "pocl:0", (clq_strategy_options){.staleness = 4});
    clq_trainer *trainer = NULL;
    clq_server_counts counts;
    size_t bounds;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++)
        assert_fails(CLQ_ERROR_ARGUMENT, cases[i].word,
                     open_trainer(b.model, cases[i].strategy, FOUR, cases[i].options, 0, &trainer));
    assert_null(trainer);
    assert_ok(clq_trainer_server_counts(b.trainer, &counts)); /* a strategy without a store */
    assert_ok(clq_trainer_staleness(b.trainer, 0, NULL, &bounds));
    assert_true(counts.servers == 0 && counts.updates == 0 && bounds == 0);
    close_bench(&b);
}

typedef struct walk {
    const clq_model *model;
    clq_devices devices;
    clq_trainer_config config;
} walk;

static clq_status create_and_step(void *context) {
    static const float samples[2 * FEATURES] = {1, 2, 3, 4, 5, 6}, far[2] = {65536.0f, 65536.0f};
    static const clq_batch batch = {.count = 2,
                                    .samples = samples,
                                    .sample_elements = FEATURES,
                                    .sample_dtype = CLQ_F32,
                                    .labels = far,
                                    .float_labels = true};
    const walk *w = context;
    clq_trainer *trainer;
    CLQ_TRY(clq_trainer_create(w->model, &w->devices, &w->config, &trainer));
    clq_status status = clq_step(trainer, &batch);
    if (status == CLQ_OK) status = clq_trainer_wait(trainer);
    clq_trainer_destroy(trainer);
    return status;
}

static void bears_failing_allocations(void **state) {
    (void)state;
    bench b = open_bench("ps", "pocl:0,pocl:1", (clq_strategy_options){.staleness = 4});
    walk w = {.model = b.model, .config = config_of("ps", (clq_strategy_options){.staleness = 4}, 0)};
    assert_ok(clq_devices_select(sys, "pocl:0,pocl:1", &w.devices));
    assert_ok(create_and_step(&w));
    assert_true(walk_allocations(create_and_step, &w) > 100);
    close_bench(&b);
}

/* Devices whose memory is not the host's. */
static void memory_is_apart(void **state) {
    (void)state;
    clq_devices devices;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_false(clq_system_device_info(sys, devices.items[0].index)->host_unified);
}

static int run_as_discrete(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_apart),
        cmocka_unit_test(every_update_is_made_once),
        cmocka_unit_test(other_calls_see_all_updates),
        cmocka_unit_test(central_makes_every_update),
        cmocka_unit_test(the_slowest_are_left_out),
        cmocka_unit_test(bears_failing_allocations),
    };
    if (disguise_load("basic") != 0) return 1;
    return cmocka_run_group_tests_name("train/ps_discrete", tests, open_system, close_system);
}

static int begin(void **state) { return files_begin(state) || open_system(state); }
static int end(void **state) { return close_system(state) || files_end(state); }

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "discrete") == 0) return run_as_discrete();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_update_is_made_once),       cmocka_unit_test(other_calls_see_all_updates),
        cmocka_unit_test(updates_go_on_from_a_checkpoint), cmocka_unit_test(the_slowest_are_left_out),
        cmocka_unit_test(small_batches_are_waited_for),    cmocka_unit_test(who_waits_has_a_deadline),
        cmocka_unit_test(bad_options_are_refused),         cmocka_unit_test(bears_failing_allocations),
        cmocka_unit_test(central_makes_every_update),      cmocka_unit_test(optimizer_state_needs_no_room_on_devices),
    };
    return cmocka_run_group_tests_name("train/ps", tests, begin, end);
}
