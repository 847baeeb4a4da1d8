/* Local SGD, compared with a reference: one trainer of one replica for each replica, each on its share. The reference
 * averages their weights in double, weighted by the samples that each trainer has seen. */
#include "comm/communicator.h"
#include "strategy/module.h"
#include "train/two_layers.h"
#include <clique/distribute.h>

#include <math.h>

enum { STEPS = 12, VARIABLES = 4 };

static const size_t elements[VARIABLES] = {INPUTS * UNITS, UNITS, UNITS *CLASSES, CLASSES};
enum { ELEMENTS = INPUTS * UNITS + UNITS + UNITS * CLASSES + CLASSES };

static const char *const momentum = "sgd:lr=0.2,momentum=0.7";
static const char *const specs[] = {
    "pocl:0,pocl:1",
    "pocl:0,pocl:1,pocl:2",
    "pocl:0,pocl:1,pocl:2,pocl:3,pocl:4",
#if defined(__x86_64__)
    "pocl:5,intel",
#endif
};

static clq_trainer *make_trainer(const char *spec, const char *optimizer, uint64_t local_steps) {
    return open_trainer(spec, optimizer, &(clq_strategy_options){.local_steps = local_steps}, 0);
}

static void get_weights(clq_trainer *trainer, float *out) {
    for (size_t v = 0; v < VARIABLES; out += elements[v++]) assert_ok(clq_trainer_get_variable(trainer, v, out));
}

static void check_close(const char *what, const float *got, const float *wanted, double tolerance) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < ELEMENTS; i++) {
        difference += pow((double)got[i] - (double)wanted[i], 2);
        norm += pow((double)wanted[i], 2);
    }
    if (!(sqrt(difference / norm) <= tolerance)) fail_msg("%s: weights differ by %.3g", what, sqrt(difference / norm));
}

/* ---- the reference ---- */

typedef struct reference {
    clq_trainer *trainers[CLQ_REPLICAS_MAX];
    unsigned count;
    uint64_t seen[CLQ_REPLICAS_MAX], steps;
} reference;

static void average(reference *ref) {
    double means[ELEMENTS] = {0};
    float weights[ELEMENTS];
    uint64_t total = 0;
    for (unsigned r = 0; r < ref->count; r++) total += ref->seen[r];
    for (unsigned r = 0; r < ref->count; r++) {
        get_weights(ref->trainers[r], weights);
        for (size_t i = 0; i < ELEMENTS; i++) means[i] += (double)weights[i] * (double)ref->seen[r] / (double)total;
        ref->seen[r] = 0;
    }
    for (size_t i = 0; i < ELEMENTS; i++) weights[i] = (float)means[i];
    for (unsigned r = 0; r < ref->count; r++)
        for (size_t v = 0, at = 0; v < VARIABLES; at += elements[v++])
            assert_ok(clq_trainer_set_variable(ref->trainers[r], v, weights + at));
    ref->steps = 0;
}

/* Gives the loss over the batch, and the norm of the first replica's own gradient. */
static void reference_step(reference *ref, const clq_batch *batch, uint64_t local_steps, double *loss, double *norm) {
    const size_t share = clq_ceil_div(batch->count, ref->count);
    *loss = 0;
    for (unsigned r = 0; r < ref->count; r++) {
        const size_t first = CLQ_MIN(r * share, batch->count), count = CLQ_MIN(share, batch->count - first);
        clq_batch own = *batch;
        clq_step_info info;
        if (count == 0) continue;
        own.count = count;
        own.samples = (const float *)batch->samples + first * INPUTS;
        own.labels = (const int32_t *)batch->labels + first;
        assert_ok(clq_step(ref->trainers[r], &own));
        assert_ok(clq_step_read(ref->trainers[r], &info));
        *loss += info.loss * (double)count / (double)batch->count;
        if (r == 0) *norm = info.grad_norm;
        ref->seen[r] += count;
    }
    if (++ref->steps == local_steps) average(ref);
}

/* ---- tests ---- */

static void check_against_reference(const char *spec, const char *optimizer, uint64_t local_steps) {
    char what[128];
    snprintf(what, sizeof what, "%s, %s, %d local steps", spec, optimizer, (int)local_steps);
    clq_trainer *trainer = make_trainer(spec, optimizer, local_steps);
    reference ref = {.count = clq_trainer_replicas(trainer)};
    float got[ELEMENTS], wanted[ELEMENTS], other[ELEMENTS];
    for (unsigned r = 0; r < ref.count; r++) ref.trainers[r] = make_trainer("pocl:0", optimizer, 0);
    for (size_t step = 0; step < STEPS; step++) {
        const clq_batch batch = batch_of(step);
        clq_step_info info;
        double loss, norm = 0;
        assert_ok(clq_step(trainer, &batch));
        assert_ok(clq_step_read(trainer, &info));
        reference_step(&ref, &batch, local_steps, &loss, &norm);
        if (!(fabs(info.loss - loss) <= 1e-5 * loss) || !(fabs(info.grad_norm - norm) <= 1e-4 * norm))
            fail_msg("%s: step %zu has loss %.9g and norm %.9g, not %.9g and %.9g", what, step, info.loss,
                     info.grad_norm, loss, norm);
    }
    get_weights(trainer, got);
    if (ref.steps > 0) average(&ref);
    get_weights(ref.trainers[0], wanted);
    check_close(what, got, wanted, 1e-5);
    for (unsigned r = 1; r < ref.count; r++) {
        float *at = other;
        for (size_t v = 0; v < VARIABLES; at += elements[v++])
            assert_ok(clq_strategy_read_variable(trainer->strategy, r, v, false, at));
        assert_memory_equal(other, got, sizeof got);
    }
    for (unsigned r = 0; r < ref.count; r++) clq_trainer_destroy(ref.trainers[r]);
    clq_trainer_destroy(trainer);
}

static void replicas_are_trainers_of_their_own(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        check_against_reference(specs[i], momentum, 1);
        check_against_reference(specs[i], momentum, 5);
    }
}

/* For an optimizer that is linear in the gradient the result is the same, whatever the shares are. shares: as
 * --shares. */
static void check_local_step(const char *spec, const char *shares) {
    double weights[CLQ_REPLICAS_MAX];
    clq_strategy_options options = {0};
    assert_ok(clq_shares_parse(shares, weights, &options));
    clq_trainer *mirrored = open_trainer(spec, "sgd:lr=0.2", &options, 0);
    options.local_steps = 1;
    clq_trainer *local = open_trainer(spec, "sgd:lr=0.2", &options, 0);
    float got[ELEMENTS], wanted[ELEMENTS];
    for (size_t step = 0; step < STEPS; step++) {
        const clq_batch batch = batch_of(step);
        clq_step_info a, b;
        assert_ok(clq_step(local, &batch));
        assert_ok(clq_step(mirrored, &batch));
        assert_ok(clq_step_read(local, &a));
        assert_ok(clq_step_read(mirrored, &b));
        assert_true(fabs(a.loss - b.loss) <= 1e-5 * b.loss);
    }
    get_weights(local, got);
    get_weights(mirrored, wanted);
    check_close(spec, got, wanted, 1e-5);
    clq_trainer_destroy(local);
    clq_trainer_destroy(mirrored);
}

static void one_local_step_is_a_mirrored_step(void **state) {
    (void)state;
    check_local_step(specs[2], "equal");
    check_local_step(specs[0], "1,3"); /* the first share is not the largest, which takes what rounding leaves */
}

typedef struct run {
    double losses[STEPS];
    size_t count;
    clq_totals totals;
    float weights[ELEMENTS];
} run;

static clq_status note(void *context, const clq_step_info *info) {
    run *r = context;
    r->losses[r->count++] = info->loss;
    return CLQ_OK;
}

static run fit(clq_trainer *trainer) {
    run r = {.count = 0};
    assert_ok(clq_dataset_seek(data, 0, 0));
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = STEPS, .context = &r, .on_step = note}));
    assert_int_equal(r.count, STEPS);
    assert_ok(clq_evaluate(trainer, data, &r.totals));
    r.totals.seconds = r.totals.input_s = 0;
    get_weights(trainer, r.weights);
    return r;
}

/* With three local steps, 12 steps make four averages and none is left over. Weights are averaged before they are
 * evaluated and read. */
static void averages_are_counted(void **state) {
    (void)state;
    static const struct {
        uint64_t local_steps;
        size_t averages; /* with that of an evaluation, if any */
    } cases[] = {{1, 12}, {3, 4}, {5, 3}, {12, 1}, {100, 1}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_trainer *trainer = make_trainer("pocl:0,pocl:1", momentum, cases[i].local_steps);
        const clq_member *member = &trainer->strategy->replicas[0].peers->members[0];
        const size_t before = atomic_load(&member->meetings);
        (void)fit(trainer);
        assert_int_equal(atomic_load(&member->meetings) - before, 2 * cases[i].averages); /* before and after */
        assert_true(clq_trainer_comm_times(trainer).total_s > 0);
        clq_trainer_destroy(trainer);
    }
}

/* Evaluation uses the mean of the weights, and gives what one replica gives with the same weights. */
static void two_runs_are_the_same_bits(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        clq_trainer *trainers[2] = {make_trainer(specs[i], momentum, 5), make_trainer(specs[i], momentum, 5)};
        clq_trainer *one = make_trainer("pocl:0", momentum, 0);
        const run a = fit(trainers[0]), b = fit(trainers[1]);
        clq_totals totals;
        assert_memory_equal(a.losses, b.losses, sizeof a.losses);
        assert_memory_equal(a.weights, b.weights, sizeof a.weights);
        assert_true(a.totals.loss == b.totals.loss);
        assert_true(a.losses[STEPS - 1] < a.losses[0]);
        for (size_t v = 0, at = 0; v < VARIABLES; at += elements[v++])
            assert_ok(clq_trainer_set_variable(one, v, a.weights + at));
        assert_ok(clq_evaluate(one, data, &totals));
        assert_true(fabs(totals.loss - a.totals.loss) <= 1e-5 * totals.loss);
        clq_trainer_destroy(trainers[0]);
        clq_trainer_destroy(trainers[1]);
        clq_trainer_destroy(one);
    }
}

static clq_status create(const clq_model *of, clq_strategy_kind kind, const char *spec,
                         clq_compression_kind compression, bool inference_only) {
    clq_trainer *trainer = NULL;
    clq_devices devices;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.strategy = kind;
    config.inference_only = inference_only;
    config.strategy_options = (clq_strategy_options){.compression = {.kind = compression}, .local_steps = 2};
    assert_ok(clq_devices_select(sys, spec, &devices));
    clq_status status = clq_trainer_create(of, &devices, &config, &trainer);
    clq_path_info path;
    unsigned off = 0;
    for (size_t i = 0; trainer && clq_strategy_path(trainer->strategy, i, &path); i++)
        off += path.reason && strcmp(path.reason, "replicas update by their own gradients") == 0;
    if (trainer && !inference_only && clq_trainer_replicas(trainer) > 1)
        assert_int_equal(off, 1); /* the sharded update; overlap does not pay */
    clq_trainer_destroy(trainer);
    return status;
}

static clq_status return_ok(clq_replica_context *replica, void *context) {
    (void)replica, (void)context;
    return CLQ_OK;
}

static void what_does_not_go_together_is_refused(void **state) {
    (void)state;
    const char *two = "pocl:0,pocl:1";
    assert_fails(CLQ_ERROR_ARGUMENT, "leave out local steps, or compression",
                 create(model, CLQ_STRATEGY_MIRRORED, two, CLQ_COMPRESSION_F16, false));
    assert_fails(CLQ_ERROR_ARGUMENT, "use strategy mirrored in place of single",
                 create(model, CLQ_STRATEGY_AUTO, "pocl:0", CLQ_COMPRESSION_OFF, false));
    assert_ok(create(model, CLQ_STRATEGY_AUTO, two, CLQ_COMPRESSION_OFF, false));
    assert_ok(create(model, CLQ_STRATEGY_MIRRORED, "pocl:0", CLQ_COMPRESSION_OFF, false));
    assert_ok(create(model, CLQ_STRATEGY_MIRRORED, two, CLQ_COMPRESSION_OFF, true));

    clq_trainer *none = NULL;
    clq_devices devices;
    clq_trainer_config config = clq_trainer_config_default();
    config.strategy_options = (clq_strategy_options){.local_steps = 2, .accumulate = 2};
    assert_ok(clq_devices_select(sys, two, &devices));
    assert_fails(CLQ_ERROR_ARGUMENT, "leave out local steps, or accumulation",
                 clq_trainer_create(model, &devices, &config, &none));

    clq_model *normalised;
    assert_ok(clq_model_create("normalised", &normalised));
    clq_tensor x = clq_batch_norm(normalised, clq_input(normalised, CLQ_SHAPE(INPUTS)),
                                  &(clq_batch_norm_config){.momentum = 0.9, .epsilon = 1e-3, .synchronized = true});
    assert_ok(clq_model_finish(
        normalised,
        clq_dense(normalised, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX})));
    assert_fails(CLQ_ERROR_ARGUMENT, "model normalised has synchronized statistics",
                 create(normalised, CLQ_STRATEGY_MIRRORED, two, CLQ_COMPRESSION_OFF, false));
    clq_model_destroy(normalised);

    clq_trainer *trainer = make_trainer(two, momentum, 2);
    const clq_batch batch = batch_of(0);
    clq_step_info info;
    assert_fails(CLQ_ERROR_STATE, "use clq_step or clq_fit", clq_step_gradients(trainer, &batch));
    assert_fails(CLQ_ERROR_STATE, "use clq_step or clq_fit", clq_step_accumulate(trainer, &batch));
    const clq_distributed_batch parts = {.replicas = 2, .parts = (const clq_batch[]){batch, batch}};
    assert_fails(CLQ_ERROR_STATE, "use clq_step or clq_fit", clq_run(trainer, &parts, return_ok, NULL));
    assert_ok(clq_step(trainer, &batch)); /* the trainer still works */
    assert_ok(clq_step_read(trainer, &info));
    assert_int_equal(info.step, 1);
    clq_trainer_destroy(trainer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_are_trainers_of_their_own),
        cmocka_unit_test(one_local_step_is_a_mirrored_step),
        cmocka_unit_test(averages_are_counted),
        cmocka_unit_test(two_runs_are_the_same_bits),
        cmocka_unit_test(what_does_not_go_together_is_refused),
    };
    return cmocka_run_group_tests_name("train/local_steps", tests, start, finish);
}
