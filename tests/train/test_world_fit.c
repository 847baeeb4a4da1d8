/* A fit over several processes, which are threads here. What they decide together (log, progress, stops, interruptions,
 * checkpoints) is the same on all processes, and the same as in one process. */
#include "support/apart.h"
#include "support/files.h"
#include "support/synthetic.h"
#include "support/stop.h"
#include "support/system.h"
#include "support/world_fabric.h"
#include "train/train.h"
#include <clique/callbacks.h>
#include <clique/checkpoint.h>

#include <math.h>

enum { BATCH = 40, BATCHES = 6, EPOCHS = 3, STEPS = EPOCHS * BATCHES, PROCESSES_MAX = 3, UNITS = 16 };
static const clq_world_config patient = {.silence_s = 60, .deadline_s = 60}, brief = {.silence_s = 4};

/* What one process was told. */
typedef struct told {
    double losses[STEPS + 1], norms[STEPS + 1]; /* from on_log, indexed by step; NaN: not told */
    uint64_t steps, resumed;
    uint64_t progress_samples[STEPS + 1]; /* from on_progress in training, by step; 0: not told */
    double progress_losses[STEPS + 1], validation[EPOCHS];
    unsigned epochs;
    clq_checkpoint_counts counts;
} told;

typedef struct plan {
    const char *folder_of_1; /* rank 1's folder if has_own_checkpoints */
    const char *folder;      /* of checkpoints, one after every second step; NULL: no checkpoints */
    bool resume, normalises, logs;
    unsigned acts;                                                                      /* the rank that does these: */
    uint64_t interrupts_at, fails_at, stops_at, dies_at, spoils_at, waves_at, calls_at; /* after this step; 0: never */
    bool stops_first;                                                                   /* in on_begin */
    bool waves_at_checkpoints, has_own_checkpoints, has_other_weights;
    bool has_other_data, checks, is_even;
    const clq_strategy_options *options; /* NULL: whole gradients, even shares */
    told results[PROCESSES_MAX];
} plan;

typedef struct part {
    const plan *how;
    unsigned rank;
    fabric *network; /* NULL: a process alone */
    clq_trainer *trainer;
    told *told;
} part;

static clq_status note_log(void *context, const clq_step_info *info) {
    part *p = context;
    p->told->losses[info->step] = info->loss;
    p->told->norms[info->step] = info->grad_norm;
    p->told->steps = info->step;
    if (p->how->acts == p->rank && p->how->fails_at == info->step) return clq_fail(CLQ_ERROR_WRITE, "the disk is full");
    if (p->how->acts == p->rank && p->how->waves_at > 0 && p->how->waves_at <= info->step)
        return clq_fail(CLQ_ERROR_INTERRUPTED, "somebody waved");
    if (p->how->acts == p->rank && p->how->dies_at == info->step) {
        nap(0.2); /* meanwhile the others' replicas begin to wait for this one's */
        fabric_kill(p->network, p->rank);
    }
    return CLQ_OK;
}

static clq_status note_step(void *context, clq_trainer *trainer, const clq_step_info *info) {
    part *p = context;
    const bool acts = p->how->acts == p->rank;
    if (acts && p->how->stops_at == info->step) return clq_fit_stop(trainer);
    if (acts && p->how->spoils_at == info->step) {
        static float bias[UNITS] = {1};
        return clq_trainer_set_variable(trainer, 1, bias);
    }
    if (acts && p->how->calls_at == info->step) clq_trainer_stop(trainer);
    if (acts && p->how->interrupts_at == info->step) return clq_fail(CLQ_ERROR_INTERRUPTED, "somebody waved");
    return CLQ_OK;
}

static clq_status begin_fit(void *context, clq_trainer *trainer, const clq_fit_config *config) {
    const part *p = context;
    (void)config;
    return p->how->acts == p->rank && p->how->stops_first ? clq_fit_stop(trainer) : CLQ_OK;
}

static clq_status note_checkpoint(void *context, uint64_t step) {
    const part *p = context;
    (void)step;
    if (p->how->acts != p->rank || !p->how->waves_at_checkpoints) return CLQ_OK;
    return clq_fail(CLQ_ERROR_INTERRUPTED, "somebody waved");
}

static clq_status note_progress(void *context, const clq_progress *progress) {
    part *p = context;
    if (progress->validation_batches > 0) return CLQ_OK;
    p->told->progress_samples[progress->step] = progress->totals.samples;
    p->told->progress_losses[progress->step] = progress->totals.loss;
    return CLQ_OK;
}

static clq_status note_epoch(void *context, const clq_epoch_info *info) {
    part *p = context;
    p->told->validation[info->epoch] = info->validation.loss;
    p->told->epochs++;
    return CLQ_OK;
}

static clq_status make_model(bool normalises, clq_model **out) {
    const clq_batch_norm_config config = clq_batch_norm_config_default();
    CLQ_TRY(clq_model_create("small", out));
    clq_tensor x = clq_flatten(*out, clq_input(*out, CLQ_SHAPE(28, 28, 1)), NULL);
    x = clq_dense(*out, x, &(clq_dense_config){.units = UNITS});
    if (normalises) x = clq_batch_norm(*out, x, &config);
    x = clq_dense(*out, x, &(clq_dense_config){.units = 10});
    return clq_model_finish(*out, x);
}

static clq_status fit(part *p, clq_dataset *data, clq_dataset *test, clq_checkpoints *checkpoints) {
    const bool by_steps =
        p->how->stops_at > 0 || p->how->interrupts_at > 0 || p->how->spoils_at > 0 || p->how->calls_at > 0;
    const clq_callback callback = {
        .name = "steps", .context = p, .on_begin = begin_fit, .on_step = by_steps ? note_step : NULL};
    const clq_fit_config config = {.epochs = EPOCHS,
                                   .validation = test,
                                   .context = p,
                                   .on_progress = note_progress,
                                   .on_epoch = note_epoch,
                                   .on_log = p->how->logs ? note_log : NULL,
                                   .log_every = 4,
                                   .checkpoints = checkpoints,
                                   .callbacks = &callback,
                                   .on_checkpoint = note_checkpoint,
                                   .callback_count = 1};
    return clq_fit(p->trainer, data, &config);
}

static clq_status train(const plan *how, const char *spec, const fabric_rank *of, told *result) {
    const unsigned rank = of ? of->rank : 0;
    clq_world *world = of ? of->world : NULL;
    clq_devices devices;
    clq_model *model = NULL;
    clq_dataset *data = NULL, *test = NULL;
    clq_checkpoints *checkpoints = NULL;
    part p = {.how = how, .rank = rank, .network = of ? of->port.network : NULL, .told = result};
    clq_trainer_config config = apart_config();
    config.global_batch = BATCH;
    config.seed = 7;
    config.measure_gradient = true;
    config.check_replicas = how->checks ? 2 : 0;
    if (how->options) config.strategy_options = *how->options;
    if (how->options && of) config.recompute = CLQ_RECOMPUTE_AUTO; /* each process counts what fits by itself */
    if (how->options) config.strategy = how->options->stages ? CLQ_STRATEGY_PIPELINE : CLQ_STRATEGY_MIRRORED;
    config.world = world;
    *result = (told){0};
    for (unsigned i = 0; i <= STEPS; i++) result->losses[i] = (double)NAN;
    const bool is_other = how->has_other_data && how->acts == rank;
    const clq_checkpoints_config kept = {.folder =
                                             how->has_own_checkpoints && rank == 1 ? how->folder_of_1 : how->folder,
                                         .every = 2,
                                         .resume = how->resume,
                                         .world = how->has_own_checkpoints ? NULL : world};
    const bool halves = how->options && how->options->compression.kind != CLQ_COMPRESSION_OFF;
    /* Small steps: the errors of half precision grow from step to step. */
    clq_status status = clq_optimizer_parse(halves ? "sgd:lr=1e-5,momentum=0.9" : "adam", &config.optimizer);
    if (status == CLQ_OK) status = clq_devices_select(sys, spec, &devices);
    if (status == CLQ_OK) status = make_model(how->normalises, &model);
    if (status == CLQ_OK) status = open_synthetic("train", BATCH * BATCHES, &data);
    if (status == CLQ_OK) status = clq_dataset_shuffle(data, 1000, is_other ? 4 : 3);
    if (status == CLQ_OK) status = clq_dataset_batch(data, BATCH, false);
    if (status == CLQ_OK) status = open_synthetic("test", 45, &test);
    if (status == CLQ_OK) status = clq_dataset_batch(test, BATCH, false);
    if (status == CLQ_OK) status = clq_trainer_create(model, &devices, &config, &p.trainer);
    if (status == CLQ_OK && how->folder) status = clq_checkpoints_open(&kept, &checkpoints);
    if (status == CLQ_OK && how->resume)
        status = clq_checkpoints_restore(checkpoints, p.trainer, data, &result->resumed);
    if (status == CLQ_OK && how->has_other_weights && how->acts == rank) {
        static float bias[UNITS] = {1};
        status = clq_trainer_set_variable(p.trainer, 1, bias);
    }
    if (status == CLQ_OK) status = fit(&p, data, test, checkpoints);
    clq_error why;
    clq_error_take(status, &why);
    if (checkpoints) result->counts = clq_checkpoints_counts(checkpoints);
    clq_checkpoints_close(checkpoints);
    clq_trainer_destroy(p.trainer);
    clq_dataset_destroy(data);
    clq_dataset_destroy(test);
    clq_model_destroy(model);
    return clq_error_raise(&why);
}

static const char *const specs[PROCESSES_MAX] = {"pocl:0", "pocl:1,pocl:2", "pocl:3"};
static const char *const even_specs[PROCESSES_MAX] = {"pocl:0,pocl:1", "pocl:2,pocl:3"};

static void train_rank(fabric_rank *rank) {
    plan *how = rank->context;
    fabric_note(rank, train(how, (how->is_even ? even_specs : specs)[rank->rank], rank, &how->results[rank->rank]));
}

static void run(plan *how, unsigned processes, fabric_rank *ranks) {
    fabric *network = fabric_open(processes, 0, 0);
    fabric_run(network, processes, how->dies_at > 0 ? &brief : &patient, train_rank, how, ranks);
    fabric_close(network);
}

static void run_well(plan *how, unsigned processes) {
    fabric_rank ranks[PROCESSES_MAX];
    run(how, processes, ranks);
    for (unsigned r = 0; r < processes; r++)
        if (ranks[r].ended != CLQ_OK) fail_msg("process %u: %s", r, ranks[r].detail);
}

static void expect_near(const char *what, uint64_t step, double value, double right, double tolerance) {
    if (!(fabs(value - right) <= tolerance * CLQ_MAX(fabs(right), 1e-3)))
        fail_msg("%s of step %d: %.9g, not %.9g", what, (int)step, value, right);
}

static void assert_same(double value, double right) {
    if (!(value == right)) fail_msg("%.17g is not %.17g", value, right);
}

/* ---- what on_log and on_progress tell ---- */

static void the_log_is_of_all(void **state) {
    (void)state;
    plan alone = {.logs = true}, together = {.logs = true};
    told *one = &alone.results[0];
    assert_ok(train(&alone, "pocl:0", NULL, one));
    run_well(&together, 3);
    for (unsigned s = 1; s <= STEPS; s++) {
        expect_near("loss", s, together.results[0].losses[s], one->losses[s], 1e-4);
        expect_near("norm", s, together.results[0].norms[s], one->norms[s], 1e-3);
        for (unsigned r = 1; r < 3; r++) {
            assert_same(together.results[r].losses[s], together.results[0].losses[s]);
            expect_near("norm", s, together.results[r].norms[s], together.results[0].norms[s], 1e-6);
        }
    }
    /* All processes tell of the first meeting. Later meetings are told by each process's own clock. */
    unsigned compared = 0;
    for (unsigned s = 1; s <= STEPS; s++) {
        const told *first = &together.results[0];
        for (unsigned r = 1; r < 3; r++) {
            const told *other = &together.results[r];
            if (first->progress_samples[s] == 0 || other->progress_samples[s] == 0) continue;
            assert_int_equal(first->progress_samples[s] % BATCH, 0);
            assert_int_equal(other->progress_samples[s], first->progress_samples[s]);
            assert_same(other->progress_losses[s], first->progress_losses[s]);
            compared++;
        }
    }
    assert_true(compared >= 2);
}

/* ---- how it ends ---- */

static void who_is_interrupted_interrupts_all(void **state) {
    (void)state;
    plan how = {.logs = true, .acts = 1, .interrupts_at = 3};
    fabric_rank ranks[3];
    run(&how, 3, ranks);
    for (unsigned r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].ended, CLQ_ERROR_INTERRUPTED);
        expect_text(ranks[r].detail, r == 1 ? "somebody waved" : "rank 1 on ");
        assert_within(how.results[r].steps, 3, STEPS);
        assert_int_equal(how.results[r].steps, how.results[0].steps);
    }
}

/* One process calls clq_trainer_stop. After the last update of an epoch, all processes validate before they stop. */
static void a_stop_of_one_stops_all(void **state) {
    (void)state;
    for (uint64_t at = 2; at <= BATCHES; at += BATCHES - 2) {
        plan how = {.logs = true, .acts = 1, .calls_at = at};
        fabric_rank ranks[3];
        run(&how, 3, ranks);
        for (unsigned r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].ended, CLQ_ERROR_INTERRUPTED);
            expect_text(ranks[r].detail, r == 1 ? "stopped by clq_trainer_stop behind step" : "rank 1 on ");
            assert_within(how.results[r].steps, at, STEPS - 1);
            assert_int_equal(how.results[r].steps, how.results[0].steps);
            assert_int_equal(how.results[r].epochs, how.results[0].epochs);
        }
    }
}

/* The callback is called again and again until all processes meet. */
static void it_may_be_said_by_the_log(void **state) {
    (void)state;
    plan how = {.logs = true, .acts = 1, .waves_at = 2};
    fabric_rank ranks[2];
    run(&how, 2, ranks);
    for (unsigned r = 0; r < 2; r++) {
        assert_int_equal(ranks[r].ended, CLQ_ERROR_INTERRUPTED);
        assert_int_equal(how.results[r].steps, how.results[0].steps);
        for (unsigned s = 1; s <= how.results[r].steps; s++) assert_true(how.results[r].losses[s] > 0);
    }
}

static void it_may_be_said_at_a_checkpoint(void **state) {
    (void)state;
    plan how = {.folder = files_path("waved"), .acts = 0, .waves_at_checkpoints = true};
    fabric_rank ranks[2];
    run(&how, 2, ranks);
    for (unsigned r = 0; r < 2; r++) assert_int_equal(ranks[r].ended, CLQ_ERROR_INTERRUPTED);
    assert_within(how.results[0].counts.last_step, 2, STEPS);
}

static void who_stops_first_stops_all(void **state) {
    (void)state;
    plan how = {.logs = true, .acts = 1, .stops_first = true};
    run_well(&how, 2);
    for (unsigned r = 0; r < 2; r++) assert_int_equal(how.results[r].steps, 0);
}

static void who_stops_stops_all(void **state) {
    (void)state;
    plan how = {.logs = true, .acts = 2, .stops_at = 2};
    run_well(&how, 3);
    for (unsigned r = 0; r < 3; r++) {
        assert_within(how.results[r].steps, 2, BATCHES);
        assert_int_equal(how.results[r].steps, how.results[0].steps);
        assert_int_equal(how.results[r].epochs, 1);
    }
}

static void who_fails_is_named_to_all(void **state) {
    (void)state;
    plan how = {.logs = true, .acts = 1, .fails_at = 5};
    fabric_rank ranks[3];
    run(&how, 3, ranks);
    for (unsigned r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].ended, r == 1 ? CLQ_ERROR_WRITE : CLQ_ERROR_ABORTED);
        expect_text(ranks[r].detail, "the disk is full");
        if (r != 1) expect_text(ranks[r].detail, "rank 1 on ");
    }
}

/* The other processes' replicas wait for the dead process in the middle of an exchange. */
static void who_dies_is_missed(void **state) {
    (void)state;
    plan how = {.logs = true, .acts = 1, .dies_at = 1};
    fabric_rank ranks[3];
    run(&how, 3, ranks);
    for (unsigned r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].ended, CLQ_ERROR_ABORTED);
        expect_text(ranks[r].detail, "nothing heard for 4 s");
        if (r != 1) expect_text(ranks[r].detail, "rank 1 on ");
    }
}

/* One process's weights are changed, as if its device computed wrong ones. */
static void who_differs_is_named(void **state) {
    (void)state;
    plan good = {.checks = true}, bad = {.checks = true, .acts = 2, .spoils_at = 3};
    fabric_rank ranks[3];
    run_well(&good, 3);
    run(&bad, 3, ranks);
    for (unsigned r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].ended, r == 2 ? CLQ_ERROR_REPLICAS_DIFFER : CLQ_ERROR_ABORTED);
        expect_text(ranks[r].detail, "step 4: processes have different weights in 'dense/bias'");
        expect_text(ranks[r].detail, "rank 2 on ");
    }
}

static void other_data_are_refused(void **state) {
    (void)state;
    plan how = {.acts = 1, .has_other_data = true};
    fabric_rank ranks[2];
    run(&how, 2, ranks);
    for (unsigned r = 0; r < 2; r++) {
        assert_int_equal(ranks[r].ended, CLQ_ERROR_MISMATCH);
        expect_text(ranks[r].detail, "rank 1 on ");
        expect_text(ranks[r].detail, "another data set than rank 0 on ");
    }
}

static void other_weights_are_refused(void **state) {
    (void)state;
    plan how = {.acts = 1, .has_other_weights = true};
    fabric_rank ranks[2];
    run(&how, 2, ranks);
    for (unsigned r = 0; r < 2; r++) {
        assert_int_equal(ranks[r].ended, CLQ_ERROR_MISMATCH);
        expect_text(ranks[r].detail, "another set of initial weights than rank 0 on ");
    }
}

/* ---- checkpoints ---- */

static void checkpoints_of_one_process_are_refused(void **state) {
    (void)state;
    plan how = {.folder = files_path("of one"), .folder_of_1 = files_path("of the other"), .has_own_checkpoints = true};
    fabric_rank ranks[2];
    run(&how, 2, ranks);
    assert_int_equal(ranks[0].ended, CLQ_ERROR_ARGUMENT);
    assert_int_equal(ranks[1].ended, CLQ_ERROR_ABORTED);
    for (unsigned r = 0; r < 2; r++) expect_text(ranks[r].detail, "are of different processes");
}

/* A training that as many processes resume after an interruption has the losses of an undisturbed one, bit for bit. */
static void it_goes_on_bit_for_bit(void **state) {
    (void)state;
    for (int normalises = 0; normalises < 2; normalises++) {
        const char *undisturbed = files_path(normalises ? "undisturbed n" : "undisturbed"),
                   *folder = files_path(normalises ? "interrupted n" : "interrupted");
        plan right = {.folder = undisturbed, .logs = true, .normalises = normalises};
        plan first = {.folder = folder, .logs = true, .normalises = normalises, .acts = 1, .interrupts_at = 5};
        plan second = {.folder = folder, .logs = true, .normalises = normalises, .resume = true};
        fabric_rank ranks[2];
        run_well(&right, 2);
        run(&first, 2, ranks);
        for (unsigned r = 0; r < 2; r++) assert_int_equal(ranks[r].ended, CLQ_ERROR_INTERRUPTED);
        run_well(&second, 2);
        const uint64_t from = first.results[0].steps;
        assert_int_equal(first.results[0].counts.last_step, from);
        assert_int_equal(first.results[1].counts.written, 0); /* only rank 0 writes */
        for (unsigned r = 0; r < 2; r++) {
            assert_int_equal(second.results[r].resumed, from);
            for (unsigned s = 1; s <= STEPS; s++) {
                const told *by = s <= from ? &first.results[r] : &second.results[r];
                assert_same(by->losses[s], right.results[r].losses[s]);
            }
            for (unsigned e = 0; e < EPOCHS; e++) {
                const told *by = e < first.results[r].epochs ? &first.results[r] : &second.results[r];
                expect_near("validation", e, by->validation[e], right.results[r].validation[e], 1e-5);
            }
        }
    }
}

/* The moving statistics of a folder's newest checkpoint. */
static void read_statistics(const char *folder, float out[2][UNITS]) {
    unsigned found = 0;
    uint64_t step = 0;
    clq_model *model;
    clq_devices devices;
    clq_trainer *trainer;
    clq_checkpoints *checkpoints;
    clq_trainer_config config = apart_config();
    assert_ok(make_model(true, &model));
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    config.global_batch = BATCH;
    assert_ok(clq_optimizer_parse("adam", &config.optimizer));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_ok(clq_checkpoints_open(&(clq_checkpoints_config){.folder = folder, .resume = true}, &checkpoints));
    assert_ok(clq_checkpoints_restore(checkpoints, trainer, NULL, &step));
    assert_int_equal(step, STEPS);
    clq_checkpoints_close(checkpoints);
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, v, &info));
        if (!info.trainable) assert_ok(clq_trainer_get_variable(trainer, v, out[found++]));
    }
    assert_int_equal(found, 2);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* Each replica has statistics of its own share. A checkpoint has their mean over the replicas of all processes. Adam
 * makes rounding errors of small gradients into steps, so the means differ by up to 2e-4 of the largest. The statistics
 * of one process alone differ by 4e-3. */
static void checkpoints_have_the_mean_of_statistics(void **state) {
    float together[2][UNITS], alone[2][UNITS];
    plan of_two = {.folder = files_path("of two"), .normalises = true};
    plan of_one = {.folder = files_path("of one n"), .normalises = true};
    (void)state;
    run_well(&of_two, 2);
    assert_ok(train(&of_one, "pocl:0,pocl:1,pocl:2", NULL, &of_one.results[0]));
    read_statistics(of_two.folder, together);
    read_statistics(of_one.folder, alone);
    for (unsigned v = 0; v < 2; v++) {
        float largest = 0;
        for (unsigned i = 0; i < UNITS; i++) largest = fmaxf(largest, fabsf(alone[v][i]));
        for (unsigned i = 0; i < UNITS; i++)
            if (!(fabsf(together[v][i] - alone[v][i]) <= 1e-3f * largest))
                fail_msg("statistic %u of unit %u is %g, not %g; the largest is %g", v, i, (double)together[v][i],
                         (double)alone[v][i], (double)largest);
    }
}

/* ---- ways of exchanging ---- */

static const double three_weights[] = {3, 1, 2};
static const struct way {
    const char *name, *other_name;
    clq_strategy_options options;
    bool is_even;     /* two devices in each process; otherwise one device and two */
    double tolerance; /* of losses; norms: ten times that. Halves have 11 bits, and the order of additions differs */
} ways[] = {
    {"local steps", "local steps undisturbed", {.local_steps = 3}, false, 1e-4},
    {"f16", "f16 undisturbed", {.compression = {.kind = CLQ_COMPRESSION_F16}}, false, 5e-3},
    {"halves between",
     "halves between undisturbed",
     {.compression = {.kind = CLQ_COMPRESSION_F16_BETWEEN}},
     false,
     5e-3},
    {"sharded optimizer, halves between",
     "sharded optimizer, halves between undisturbed",
     {.compression = {.kind = CLQ_COMPRESSION_F16_BETWEEN}, .shard_optimizer = true},
     true,
     5e-3},
    {"shares",
     "shares undisturbed",
     {.shares = CLQ_SHARES_WEIGHTS, .share_weights = three_weights, .share_count = 3},
     false,
     1e-4},
    {"sharded optimizer", "sharded optimizer undisturbed", {.shard_optimizer = true}, true, 1e-4},
    {"pipelines", "pipelines undisturbed", {.stages = 2, .micro_batches = 3}, true, 1e-4},
};

/* Two processes train like one process that has all devices. */
static void compare_way(const struct way *way, const told *together, const told *alone, bool norms) {
    for (unsigned s = 1; s <= STEPS; s++) {
        expect_near(way->name, s, together->losses[s], alone->losses[s], way->tolerance);
        if (norms) expect_near(way->name, s, together->norms[s], alone->norms[s], 10 * way->tolerance);
    }
    for (unsigned e = 0; e < EPOCHS; e++)
        expect_near(way->name, e, together->validation[e], alone->validation[e], way->tolerance);
}

static void each_way_is_that_of_one_process(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(ways); i++) {
        const struct way *way = &ways[i];
        plan alone = {.logs = true, .options = &way->options}, together = alone;
        together.is_even = way->is_even;
        assert_ok(train(&alone, way->is_even ? "pocl:0,pocl:1,pocl:2,pocl:3" : "pocl:0,pocl:1,pocl:2", NULL,
                        &alone.results[0]));
        run_well(&together, 2);
        compare_way(way, &together.results[0], &alone.results[0], true);
        compare_way(way, &together.results[1], &alone.results[0], way->options.local_steps == 0);
    }
}

static void parts_of_an_optimizer_are_equal(void **state) {
    (void)state;
    static const clq_strategy_options shards = {.shard_optimizer = true};
    plan how = {.options = &shards};
    fabric_rank ranks[2];
    run(&how, 2, ranks);
    for (unsigned r = 0; r < 2; r++) {
        assert_int_equal(ranks[r].ended, r == 0 ? CLQ_ERROR_UNSUPPORTED : CLQ_ERROR_ABORTED);
        expect_text(ranks[r].detail, "need equally many devices on each");
    }
}

/* The checkpoint of rank 0 holds what each replica has of its own (optimizers, their shards, compression errors). */
static void each_way_goes_on_bit_for_bit(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(ways); i++) {
        const plan way = {.logs = true, .options = &ways[i].options, .is_even = ways[i].is_even};
        plan right = way, first = way, second = way;
        fabric_rank ranks[2];
        right.folder = files_path(ways[i].other_name);
        first.folder = second.folder = files_path(ways[i].name);
        first.acts = 1;
        first.interrupts_at = 5;
        second.resume = true;
        run_well(&right, 2);
        run(&first, 2, ranks);
        run_well(&second, 2);
        const uint64_t from = first.results[0].steps;
        for (unsigned r = 0; r < 2; r++) {
            assert_int_equal(ranks[r].ended, CLQ_ERROR_INTERRUPTED);
            assert_int_equal(second.results[r].resumed, from);
            for (unsigned s = 1; s <= STEPS; s++) {
                const told *by = s <= from ? &first.results[r] : &second.results[r];
                if (!(by->losses[s] == right.results[r].losses[s]))
                    fail_msg("%s: loss of step %u: %.9g, not %.9g", ways[i].name, s, by->losses[s],
                             right.results[r].losses[s]);
            }
        }
    }
}

/* Other numbers of processes, and one process alone, resume the training. */
static void others_go_on(void **state) {
    (void)state;
    for (unsigned processes = 1; processes <= 3; processes += 2) {
        const char *folder = files_path(processes == 1 ? "by one" : "by three");
        plan right = {.logs = true};
        plan first = {.folder = folder, .logs = true, .acts = 1, .interrupts_at = 5};
        plan second = {.folder = folder, .logs = true, .resume = true};
        fabric_rank ranks[2];
        assert_ok(train(&right, "pocl:0", NULL, &right.results[0]));
        run(&first, 2, ranks);
        assert_int_equal(ranks[0].ended, CLQ_ERROR_INTERRUPTED);
        if (processes == 1)
            assert_ok(train(&second, "pocl:0", NULL, &second.results[0]));
        else
            run_well(&second, processes);
        assert_int_equal(second.results[0].resumed, first.results[0].steps);
        for (uint64_t s = second.results[0].resumed + 1; s <= STEPS; s++)
            expect_near("loss", s, second.results[0].losses[s], right.results[0].losses[s], 1e-4);
    }
}

/* If rank 0 refuses a folder, all processes refuse it. */
static void a_folder_with_checkpoints_is_refused_on_all(void **state) {
    (void)state;
    const char *folder = files_path("in use");
    plan first = {.folder = folder};
    fabric_rank ranks[2];
    run_well(&first, 2);
    run(&first, 2, ranks);
    assert_int_equal(ranks[0].ended, CLQ_ERROR_ARGUMENT);
    assert_int_equal(ranks[1].ended, CLQ_ERROR_ABORTED);
    for (unsigned r = 0; r < 2; r++) expect_text(ranks[r].detail, "resume from them");
    expect_text(ranks[1].detail, "rank 0 on ");
}

static int begin(void **state) { return files_begin(state) == 0 ? open_system(state) : -1; }
static int end(void **state) { return close_system(state) == 0 ? files_end(state) : -1; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_log_is_of_all),
        cmocka_unit_test(who_is_interrupted_interrupts_all),
        cmocka_unit_test(a_stop_of_one_stops_all),
        cmocka_unit_test(who_stops_stops_all),
        cmocka_unit_test(who_stops_first_stops_all),
        cmocka_unit_test(it_may_be_said_by_the_log),
        cmocka_unit_test(it_may_be_said_at_a_checkpoint),
        cmocka_unit_test(other_weights_are_refused),
        cmocka_unit_test(checkpoints_of_one_process_are_refused),
        cmocka_unit_test(who_fails_is_named_to_all),
        cmocka_unit_test(who_dies_is_missed),
        cmocka_unit_test(who_differs_is_named),
        cmocka_unit_test(other_data_are_refused),
        cmocka_unit_test(it_goes_on_bit_for_bit),
        cmocka_unit_test(checkpoints_have_the_mean_of_statistics),
        cmocka_unit_test(each_way_is_that_of_one_process),
        cmocka_unit_test(each_way_goes_on_bit_for_bit),
        cmocka_unit_test(parts_of_an_optimizer_are_equal),
        cmocka_unit_test(others_go_on),
        cmocka_unit_test(a_folder_with_checkpoints_is_refused_on_all),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
