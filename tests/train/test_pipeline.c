/* The parts of a pipeline: the order of the stages' turns, bubbles, where a model is cut, what is refused, and a model
 * that is too large for any single device. test_strategies.c tests that pipelines equal one replica. */
#include "strategy/pipeline/pipeline.h"
#include "support/apart.h"
#include "support/check.h"
#include "support/synthetic.h"
#include "support/system.h"
#include "train/train.h"
#include "train/trainer.h"

#include <math.h>

/* ---- turns ---- */

/* Each micro-batch goes forward, and later backward, once, in order. At most stages - stage of them are in flight. */
static void check_turns(unsigned stage, unsigned stages, unsigned count) {
    unsigned forward = 0, backward = 0, most = 0;
    for (unsigned i = 0; i < 2 * count; i++) {
        const clq_turn turn = clq_pipeline_turn(stage, stages, count, i);
        assert_int_equal(turn.micro_batch, turn.backward ? backward : forward);
        *(turn.backward ? &backward : &forward) += 1;
        assert_true(backward <= forward);
        most = CLQ_MAX(most, forward - backward);
    }
    assert_int_equal(forward, count);
    assert_int_equal(backward, count);
    assert_int_equal(most, clq_pipeline_in_flight(stage, stages, count));
    assert_int_equal(most, CLQ_MIN(stages - stage, count));
}

static void one_forward_one_backward(void **state) {
    (void)state;
    for (unsigned stages = 1; stages <= 6; stages++)
        for (unsigned stage = 0; stage < stages; stage++)
            for (unsigned count = 1; count <= 9; count++) check_turns(stage, stages, count);
}

static void assert_near(double got, double want) {
    if (!(fabs(got - want) <= 1e-12)) fail_msg("%.15g, should be %.15g", got, want);
}

static void bubbles(void **state) {
    (void)state;
    for (unsigned stages = 1; stages <= 6; stages++)
        for (unsigned count = 1; count <= 9; count++) {
            const double forward[] = {1, 1, 1, 1, 1, 1}, backward[] = {2, 2, 2, 2, 2, 2};
            assert_near(clq_pipeline_bubble(stages, count, forward, backward), (stages - 1.0) / (count + stages - 1.0));
        }
    /* Worked out by hand: the second stage is busy from 1 to 13, and the first ends at 15. */
    assert_near(clq_pipeline_bubble(2, 2, (const double[]){1, 2}, (const double[]){2, 4}), 1 - 18.0 / 30);
}

/* ---- cuts ---- */

/* A chain of `layers` layers with 8 units each, except the last, which has `width`. */
static clq_model *chain(unsigned layers, size_t width, unsigned mark) {
    clq_model *m;
    assert_ok(clq_model_create("chain", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(8));
    for (unsigned i = 1; i < layers; i++) {
        x = clq_dense(m, x, &(clq_dense_config){.units = 8});
        if (i == mark) x = clq_pipeline_cut(m, x);
    }
    assert_ok(clq_model_finish(m, clq_dense(m, x, &(clq_dense_config){.units = width})));
    return m;
}

static const clq_optimizer adam = {.kind = CLQ_OPTIMIZER_ADAM};

static clq_cut_wishes wishes_of(unsigned stages) {
    clq_cut_wishes wishes = {
        .stages = stages, .micro_batch = 4, .micro_batches = 4, .trains = true, .slots = 2, .sample_bytes = 32};
    for (unsigned s = 0; s < stages; s++) wishes.memory[s] = 1u << 30;
    return wishes;
}

static void check_ends(const clq_model *m, const clq_cut_wishes *wishes, const uint32_t *ends) {
    clq_stage stages[8];
    assert_ok(clq_choose_cuts(m, wishes, stages, NULL));
    for (unsigned s = 0; s < wishes->stages; s++) {
        assert_int_equal(stages[s].before.at, s ? ends[s - 1] : 1);
        assert_int_equal(stages[s].after.at, s + 1 < wishes->stages ? ends[s] : m->tensor_count + 1);
    }
}

static void stages_are_alike(void **state) {
    (void)state;
    clq_model *m = chain(6, 8, 0); /* tensor 1 is the input; 2 to 7 are the layers' outputs */
    clq_cut_wishes wishes = wishes_of(2);
    check_ends(m, &wishes, (const uint32_t[]){5});
    wishes = wishes_of(3);
    check_ends(m, &wishes, (const uint32_t[]){4, 6});
    wishes = wishes_of(6);
    check_ends(m, &wishes, (const uint32_t[]){3, 4, 5, 6, 7});
    /* The first device has room for one layer: parameters, gradient, gradient sum and two moments of 512 bytes each. */
    wishes = wishes_of(2);
    wishes.memory[0] = 8000;
    check_ends(m, &wishes, (const uint32_t[]){3});
    wishes.memory[0] = wishes.memory[1] = 1; /* neither fits: as little as can be too much */
    clq_stage stages[2];
    assert_ok(clq_choose_cuts(m, &wishes, stages, NULL));
    clq_model_destroy(m);
    m = chain(6, 4000, 0); /* the last layer is nearly all of the model */
    wishes = wishes_of(2);
    check_ends(m, &wishes, (const uint32_t[]){7});
    clq_model_destroy(m);
}

/* If several cuts balance about as well, the cut that the fewest bytes cross is chosen. */
static void few_bytes_cross(void **state) {
    (void)state;
    clq_model *m;
    assert_ok(clq_model_create("waist", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(64));
    x = clq_dense(m, x, &(clq_dense_config){.units = 200});
    x = clq_dense(m, x, &(clq_dense_config){.units = 200});
    x = clq_dense(m, x, &(clq_dense_config){.units = 2});
    x = clq_dense(m, x, &(clq_dense_config){.units = 2});
    x = clq_dense(m, x, &(clq_dense_config){.units = 200});
    x = clq_dense(m, x, &(clq_dense_config){.units = 200});
    x = clq_dense(m, x, &(clq_dense_config){.units = 64});
    assert_ok(clq_model_finish(m, x));
    clq_cut_wishes wishes = wishes_of(2);
    clq_stage stages[2];
    assert_ok(clq_choose_cuts(m, &wishes, stages, NULL));
    assert_true(stages[0].after.at == 5 || stages[0].after.at == 6); /* after either layer of 2 units */
    clq_model_destroy(m);
}

static void marks(void **state) {
    (void)state;
    clq_model *m = chain(6, 8, 1);
    clq_cut_wishes wishes = wishes_of(2);
    clq_stage stages[8];
    check_ends(m, &wishes, (const uint32_t[]){3});
    wishes = wishes_of(3);
    assert_fails(CLQ_ERROR_ARGUMENT, "is marked for 2 stages", clq_choose_cuts(m, &wishes, stages, NULL));
    clq_model_destroy(m);
    assert_ok(clq_model_create("shared", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(8));
    clq_tensor y = clq_pipeline_cut(m, clq_dense(m, x, &(clq_dense_config){.units = 8, .name = "twice"}));
    y = clq_dense(m, clq_share(m, y, y), &(clq_dense_config){.units = 8});
    assert_ok(clq_model_finish(m, y));
    wishes = wishes_of(2);
    assert_fails(CLQ_ERROR_ARGUMENT, "cannot be cut behind layer 'twice'", clq_choose_cuts(m, &wishes, stages, NULL));
    assert_int_equal(clq_pipeline_cut(m, y).id, 0); /* the model is finished */
    clq_model_destroy(m);
    assert_ok(clq_model_create("stranger", &m));
    (void)clq_pipeline_cut(m, x);
    assert_fails(CLQ_ERROR_ARGUMENT, "clq_pipeline_cut: the tensor is none of model", clq_model_finish(m, x));
    clq_model_destroy(m);
}

/* ---- measured times ---- */

/* Gives each part of the model a time of `seconds`; the last `unknown` parts have no time. */
static clq_stage_times times_of(const clq_model *m, double seconds, size_t unknown) {
    clq_stage *parts;
    size_t count;
    assert_ok(clq_model_parts(m, &parts, &count));
    clq_stage_times times = {.items = clq_alloc(count + 1, sizeof *times.items), .count = count - unknown};
    assert_non_null(times.items);
    for (size_t i = 0; i < times.count; i++)
        times.items[i] = (clq_stage_time){parts[i].before.at, parts[i].after.at, {seconds / 4, seconds * 3 / 4}};
    clq_free(parts);
    return times;
}

static void check_timed(const clq_model *m, const clq_cut_wishes *wishes, clq_cut_basis want, uint32_t end) {
    clq_stage stages[2];
    clq_cut_basis basis;
    assert_ok(clq_choose_cuts(m, wishes, stages, &basis));
    assert_int_equal(basis, want);
    assert_int_equal(stages[0].after.at, end);
    assert_int_equal(stages[1].before.at, end);
}

/* Six parts, which end in front of tensors 3 to 8. The two stages have k and 6 - k parts. */
static void cuts_follow_measured_times(void **state) {
    (void)state;
    clq_model *m = chain(6, 8, 0);
    clq_stage_times fast = times_of(m, 1, 0), slow = times_of(m, 3, 0), part = times_of(m, 3, 1);
    clq_cut_wishes wishes = wishes_of(2);
    check_timed(m, &wishes, CLQ_CUT_BY_ESTIMATE, 5);
    wishes.replicas = 2;
    wishes.times[0] = wishes.times[1] = &fast;
    check_timed(m, &wishes, CLQ_CUT_BY_TIME, 5);
    wishes.times[1] = &slow; /* stages of 5 s and 3 s; 4 s and 6 s would take longer */
    check_timed(m, &wishes, CLQ_CUT_BY_TIME, 7);
    wishes.times[0] = &slow;
    wishes.times[1] = &fast;
    check_timed(m, &wishes, CLQ_CUT_BY_TIME, 3);
    wishes.memory[1] = 8000; /* room for one layer, however long the first stage takes */
    check_timed(m, &wishes, CLQ_CUT_BY_TIME, 7);
    wishes.memory[1] = wishes.memory[0];
    wishes.times[0] = &part;
    check_timed(m, &wishes, CLQ_CUT_BY_ESTIMATE, 5);
    /* There is a second pipeline, whose first stage is slow: the slowest device of a stage counts. */
    wishes.replicas = 4;
    wishes.times[0] = wishes.times[3] = &fast;
    wishes.times[2] = &slow;
    check_timed(m, &wishes, CLQ_CUT_BY_TIME, 3);
    /* Four parts take less time measured as one: the stages take 2.5 s and 2 s. */
    fast.items[fast.count++] = (clq_stage_time){1, 6, {1, 1.5}};
    wishes.replicas = 2;
    check_timed(m, &wishes, CLQ_CUT_BY_TIME, 6);
    clq_free(fast.items);
    clq_free(slow.items);
    clq_free(part.items);
    clq_model_destroy(m);
}

typedef struct script {
    unsigned trials;
    double clock; /* in seconds; advances by one second per trial */
} script;

static clq_status scripted_trial(void *context, clq_plan *plan, size_t first, size_t end, double *seconds) {
    script *s = context;
    assert_true(first < end && end <= clq_list_launch_count(clq_plan_list(plan)));
    s->trials++;
    s->clock += 1;
    *seconds = 2;
    return CLQ_OK;
}
static double scripted_now(void *context) { return ((script *)context)->clock; }

typedef struct timing {
    clq_stage_timing of;
    clq_stage *parts;
    size_t count;
    script script;
} timing;

static const clq_loss_problem classes = {.kind = CLQ_LOSS_SPARSE_CATEGORICAL, .classes = 8, .rows = 1};

static timing start_timing(const clq_model *m, uint32_t micro_batch) {
    timing t = {.of = {.model = m,
                       .config = {.capacity = micro_batch,
                                  .sample_dtype = CLQ_F32,
                                  .loss = &classes,
                                  .update = &adam,
                                  .metric_slots = 1,
                                  .accumulates = true}}};
    clq_devices devices;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_devices_open(&devices, false, &t.of.device, NULL));
    assert_ok(clq_model_parts(m, &t.parts, &t.count));
    return t;
}

static void end_timing(timing *t) {
    clq_free(t->parts);
    clq_device_close(t->of.device);
}

/* Measures anew and keeps the times. Gives how many times are known then. */
static size_t measure(timing *t, double budget_s) {
    const clq_tune_config tune = {
        .budget_s = budget_s, .trial = scripted_trial, .now = scripted_now, .context = &t->script};
    clq_stage_times times = {0};
    assert_ok(clq_stage_times_measure(&t->of, &tune, t->parts, t->count, &times));
    const size_t known = times.count;
    for (size_t i = 0; i < known; i++) {
        assert_int_equal(times.items[i].begin, t->parts[i].before.at);
        assert_int_equal(times.items[i].end, t->parts[i].after.at);
        assert_true(times.items[i].seconds.forward == 2 && times.items[i].seconds.backward == 2);
    }
    clq_free(times.items);
    return known;
}

static size_t recalled(const timing *t) {
    clq_stage_times times = {0};
    assert_ok(clq_stage_times_recall(&t->of, &times));
    const size_t known = times.count;
    clq_free(times.items);
    return known;
}

/* Loads the programs of a plan of the first part, which the device keeps. */
static void load_first_part(const timing *t) {
    clq_plan *plan;
    clq_plan_config config = t->of.config;
    config.stage = &t->parts[0];
    assert_ok(clq_plan_create_alone(t->of.model, t->of.device, &config, &plan));
    clq_plan_destroy(plan);
}

static clq_status measure_again(void *context) {
    timing *t = context;
    const clq_tune_config tune = {.trial = scripted_trial, .now = scripted_now, .context = &t->script};
    clq_stage_times times = {0};
    clq_status status = clq_stage_times_measure(&t->of, &tune, t->parts, 1, &times);
    clq_free(times.items);
    if (status != CLQ_OK) return status;
    times = (clq_stage_times){0};
    status = clq_stage_times_recall(&t->of, &times);
    clq_free(times.items);
    return status;
}

static void times_are_kept(void **state) {
    (void)state;
    clq_model *m = chain(3, 8, 0), *other = chain(3, 7, 0);
    timing t = start_timing(m, 4);
    assert_int_equal(t.count, 3);
    assert_int_equal(measure(&t, 0), 3);
    assert_int_equal(recalled(&t), 3);
    clq_stage_times times = {0};
    const unsigned trials = t.script.trials;
    const clq_tune_config tune = {.trial = scripted_trial, .context = &t.script};
    assert_ok(clq_stage_times_recall(&t.of, &times));
    assert_ok(clq_stage_times_measure(&t.of, &tune, t.parts, t.count, &times));
    assert_int_equal(t.script.trials, trials); /* all times are known */
    clq_free(times.items);
    /* Times are kept for one size of micro-batch and one model alone: another size or another model has none. */
    t.of.config.capacity = 5;
    assert_int_equal(measure(&t, 30), 1); /* a part takes 22 trials */
    assert_int_equal(recalled(&t), 1);
    t.of.config.capacity = 4;
    assert_int_equal(recalled(&t), 3);
    t.of.model = other;
    assert_int_equal(recalled(&t), 0);
    t.of.model = m;
    t.of.settings = "precision mixed\n";
    assert_int_equal(recalled(&t), 0);
    t.of.settings = NULL;
    /* If memory runs out before a program is saved, each round compiles it anew. Only the sanitizers watch that. */
    if (!IS_WATCHED) load_first_part(&t);
    assert_true(walk_allocations(measure_again, &t) > 20);
    end_timing(&t);
    clq_model_destroy(m);
    clq_model_destroy(other);
}

/* Real times. All that holds on every machine is that they are above 0. */
static void parts_take_time(void **state) {
    (void)state;
    clq_model *m = chain(3, 8, 0);
    timing t = start_timing(m, 4);
    const clq_tune_config tune = {.budget_s = 0};
    for (size_t i = 0; i < t.count; i++) {
        clq_plan_seconds alone, added;
        t.of.config.stage = &t.parts[i];
        t.of.config.accumulates = false;
        assert_ok(clq_plan_time(m, t.of.device, &t.of.config, &tune, &alone));
        t.of.config.accumulates = true;
        assert_ok(clq_plan_time(m, t.of.device, &t.of.config, &tune, &added));
        assert_true(alone.forward > 0 && alone.backward > 0 && added.forward > 0 && added.backward > 0);
    }
    end_timing(&t);
    clq_model_destroy(m);
}

static clq_status choose(void *model) {
    const clq_cut_wishes wishes = wishes_of(3);
    clq_stage stages[3];
    return clq_choose_cuts(model, &wishes, stages, NULL);
}

static void cuts_need_memory(void **state) {
    (void)state;
    clq_model *m = chain(6, 8, 0);
    assert_true(walk_allocations(choose, m) >= 5);
    clq_model_destroy(m);
}

/* ---- bad input ---- */

static void refuse(const clq_model *model, const char *spec, uint32_t stages, uint32_t micro_batches,
                   const char *says) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = apart_config();
    config.global_batch = 8;
    config.strategy = CLQ_STRATEGY_PIPELINE;
    config.strategy_options.stages = stages;
    config.strategy_options.micro_batches = micro_batches;
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_fails(CLQ_ERROR_ARGUMENT, says, clq_trainer_create(model, &devices, &config, &trainer));
}

static void refused(void **state) {
    (void)state;
    clq_model *m;
    clq_strategy_kind kind;
    clq_strategy_options options = {.stages = 0};
    assert_ok(clq_model_builtin("mlp", &m));
    refuse(m, "pocl:0,pocl:1,pocl:2,pocl:3", 0, 0, "model mlp can be cut into at most 3 stages and 4 are asked for");
    refuse(m, "pocl:0,pocl:1,pocl:2", 2, 0, "pipelines of 2 stages need a multiple of 2 devices and there are 3");
    refuse(m, "pocl:0,pocl:1", 3, 0, "need a multiple of 3 devices and there are 2");
    refuse(m, "pocl:0,pocl:1", 2, 9, "9 micro-batches are more than the 8 samples");
    refuse(m, "pocl:0,pocl:1", 1, 5,
           "5 micro-batches are more than the 4 samples that a pipeline gets of a batch of 8");
    clq_model_destroy(m);
    assert_ok(clq_strategy_parse("pipeline:stages=3", &kind, &options));
    assert_int_equal(kind, CLQ_STRATEGY_PIPELINE);
    assert_int_equal(options.stages, 3);
    assert_fails(CLQ_ERROR_ARGUMENT, "stages=0", clq_strategy_parse("pipeline:stages=0", &kind, &options));
    assert_fails(CLQ_ERROR_ARGUMENT, "is not a whole number from 1 to",
                 clq_strategy_parse("pipeline:stages=1.5", &kind, &options));
    assert_fails(CLQ_ERROR_ARGUMENT, "takes: stages", clq_strategy_parse("pipeline:depth=2", &kind, &options));
}

static void statistics_are_of_a_micro_batch(void **state) {
    (void)state;
    clq_devices devices;
    clq_trainer *trainer;
    clq_model *m;
    clq_trainer_config config = apart_config();
    config.strategy = CLQ_STRATEGY_PIPELINE;
    clq_batch_norm_config norm = clq_batch_norm_config_default();
    norm.synchronized = true;
    assert_ok(clq_model_create("synchronized", &m));
    clq_tensor x = clq_batch_norm(m, clq_input(m, CLQ_SHAPE(8)), &norm);
    assert_ok(clq_model_finish(m, clq_dense(m, x, &(clq_dense_config){.units = 3})));
    assert_ok(clq_devices_select(sys, "pocl:0,pocl:1", &devices));
    assert_fails(CLQ_ERROR_UNSUPPORTED, "without `synchronized`", clq_trainer_create(m, &devices, &config, &trainer));
    clq_model_destroy(m);
}

/* Gives the losses of two steps, the loss of an evaluation after them, and the moving mean. */
static void train_normalised(const char *spec, const char *strategy, double losses[3], float mean[8]) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_dataset *data;
    clq_model *m;
    clq_totals totals;
    clq_trainer_config config = apart_config();
    config.global_batch = 16;
    assert_ok(clq_strategy_parse(strategy, &config.strategy, &config.strategy_options));
    if (config.strategy == CLQ_STRATEGY_PIPELINE) config.strategy_options.micro_batches = 1;
    assert_ok(clq_model_create("normalised", &m));
    clq_tensor x = clq_flatten(m, clq_input(m, CLQ_SHAPE(28, 28, 1)), NULL);
    x = clq_batch_norm(m, clq_dense(m, x, &(clq_dense_config){.units = 8, .no_bias = true}), NULL);
    x = clq_dense(m, x, &(clq_dense_config){.units = 8, .activation = CLQ_ACTIVATION_TANH});
    assert_ok(
        clq_model_finish(m, clq_dense(m, x, &(clq_dense_config){.units = 10, .activation = CLQ_ACTIVATION_SOFTMAX})));
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(m, &devices, &config, &trainer));
    assert_ok(open_synthetic("train", 64, &data));
    assert_ok(clq_dataset_batch(data, 16, true));
    for (unsigned i = 0; i < 2; i++) {
        clq_batch batch;
        bool more;
        clq_step_info info;
        assert_ok(clq_dataset_next(data, &batch, &more));
        assert_ok(clq_step(trainer, &batch));
        assert_ok(clq_step_read(trainer, &info));
        losses[i] = info.loss;
    }
    assert_ok(clq_evaluate(trainer, data, &totals));
    losses[2] = totals.loss;
    assert_ok(clq_trainer_get_variable(trainer, 3, mean)); /* variable 3 follows dense/kernel, gamma and beta */
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(m);
}

/* With one micro-batch, the batch statistics are those of a pipeline's share, like those of a replica's share.
 * Evaluation uses the mean of all pipelines' moving statistics. */
static void statistics_of_pipelines_are_averaged(void **state) {
    (void)state;
    double want[3], got[3];
    float want_mean[8], got_mean[8];
    train_normalised("pocl:0,pocl:1", "mirrored", want, want_mean);
    train_normalised("pocl:0,pocl:1,pocl:2,pocl:3", "pipeline:stages=2", got, got_mean);
    for (unsigned i = 0; i < 3; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-5 * want[i])) fail_msg("loss %u is %.9g, not %.9g", i, got[i], want[i]);
    for (unsigned i = 0; i < 8; i++) {
        assert_true(want_mean[i] != 0.0f);
        assert_true(fabsf(got_mean[i] - want_mean[i]) <= 2e-5f * fabsf(want_mean[i]) + 1e-7f);
    }
}

/* ---- memory ---- */

enum { WIDTH = 512, BATCH = 16, STEPS = 3 };

static clq_model *wide(void) {
    clq_model *m;
    assert_ok(clq_model_create("wide", &m));
    clq_tensor x = clq_flatten(m, clq_input(m, CLQ_SHAPE(28, 28, 1)), NULL);
    for (unsigned i = 0; i < 5; i++)
        x = clq_dense(m, x, &(clq_dense_config){.units = WIDTH, .activation = CLQ_ACTIVATION_TANH});
    assert_ok(
        clq_model_finish(m, clq_dense(m, x, &(clq_dense_config){.units = 10, .activation = CLQ_ACTIVATION_SOFTMAX})));
    return m;
}

/* Gives the losses, and in *used the most bytes that the buffers of one device took. */
static clq_status train_wide(clq_system *system, const char *spec, clq_strategy_kind strategy, double *losses,
                             uint64_t *used) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_dataset *data;
    clq_model *m = wide();
    clq_trainer_config config = apart_config();
    config.global_batch = BATCH;
    config.strategy = strategy;
    assert_ok(clq_devices_select(system, spec, &devices));
    clq_status status = clq_trainer_create(m, &devices, &config, &trainer);
    if (status == CLQ_OK) {
        assert_ok(open_synthetic("train", (size_t)STEPS * BATCH, &data));
        assert_ok(clq_dataset_batch(data, BATCH, true));
        for (unsigned i = 0; i < STEPS; i++) {
            clq_batch batch;
            bool more;
            clq_step_info info;
            assert_ok(clq_dataset_next(data, &batch, &more));
            assert_ok(clq_step(trainer, &batch));
            assert_ok(clq_step_read(trainer, &info));
            losses[i] = info.loss;
        }
        *used = 0;
        for (unsigned r = 0; r < devices.count; r++)
            *used = CLQ_MAX(*used, clq_device_memory_used(clq_strategy_device(trainer->strategy, r)));
        clq_dataset_destroy(data);
        clq_trainer_destroy(trainer);
    }
    clq_model_destroy(m);
    return status;
}

/* 1.46 million parameters with their gradient and two moments take 22 MiB, and the sum of gradients takes more. */
static void a_model_that_no_device_holds(void **state) {
    (void)state;
    const uint64_t limit = 20u << 20;
    double want[STEPS], got[STEPS];
    uint64_t whole = 0, used = 0;
    clq_system *small;
    assert_ok(train_wide(sys, "pocl:0", CLQ_STRATEGY_SINGLE, want, &whole));
    assert_true(whole > limit);
    assert_ok(clq_system_open(&(clq_system_config){.memory_limit_bytes = limit}, &small));
    assert_fails(CLQ_ERROR_DEVICE_MEMORY, "of the budget",
                 train_wide(small, "pocl:0", CLQ_STRATEGY_SINGLE, got, &used));
    assert_fails(CLQ_ERROR_DEVICE_MEMORY, "of the budget",
                 train_wide(small, "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, got, &used));
    assert_ok(train_wide(small, "pocl:0,pocl:1", CLQ_STRATEGY_PIPELINE, got, &used));
    assert_true(used <= limit);
    for (unsigned i = 0; i < STEPS; i++) assert_true(fabs(got[i] - want[i]) <= 1e-5 * want[i]);
    clq_system_close(small);
    /* The devices are too small even for their stages. */
    assert_ok(clq_system_open(&(clq_system_config){.memory_limit_bytes = limit / 8}, &small));
    assert_fails(CLQ_ERROR_DEVICE_MEMORY, "replica 0, layers 'input_layer' to 'dense",
                 train_wide(small, "pocl:0,pocl:1", CLQ_STRATEGY_PIPELINE, got, &used));
    clq_system_close(small);
}

/* ---- a variable is in its stage ---- */

static void variables_are_found(void **state) {
    (void)state;
    clq_devices devices;
    clq_trainer *trainer;
    clq_model *m;
    clq_trainer_config config = apart_config();
    config.strategy = CLQ_STRATEGY_PIPELINE;
    assert_ok(clq_model_builtin("mlp", &m));
    assert_ok(clq_devices_select(sys, "pocl:0,pocl:1", &devices));
    assert_ok(clq_trainer_create(m, &devices, &config, &trainer));
    for (size_t i = 0; i < clq_model_variable_count(m); i++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(m, i, &info));
        float *values = clq_alloc(info.elements, sizeof *values), *back = clq_alloc(info.elements, sizeof *back);
        assert_true(values && back);
        for (size_t k = 0; k < info.elements; k++) values[k] = (float)(i + 1) + (float)(k % 7);
        assert_ok(clq_trainer_set_variable(trainer, i, values));
        assert_ok(clq_trainer_get_variable(trainer, i, back));
        assert_memory_equal(values, back, info.elements * sizeof *values);
        clq_free(values);
        clq_free(back);
    }
    assert_fails(CLQ_ERROR_UNSUPPORTED, "cannot train alone", clq_strategy_set_apart(trainer->strategy, true));
    clq_trainer_destroy(trainer);
    clq_model_destroy(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_forward_one_backward),
        cmocka_unit_test(bubbles),
        cmocka_unit_test(stages_are_alike),
        cmocka_unit_test(few_bytes_cross),
        cmocka_unit_test(marks),
        cmocka_unit_test(cuts_need_memory),
        cmocka_unit_test(cuts_follow_measured_times),
        cmocka_unit_test(times_are_kept),
        cmocka_unit_test(parts_take_time),
        cmocka_unit_test(refused),
        cmocka_unit_test(statistics_are_of_a_micro_batch),
        cmocka_unit_test(statistics_of_pipelines_are_averaged),
        cmocka_unit_test(a_model_that_no_device_holds),
        cmocka_unit_test(variables_are_found),
    };
    return cmocka_run_group_tests(tests, open_system, close_system);
}
