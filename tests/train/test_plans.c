/* One set of weights per replica serves the plans for training, evaluation and prediction. The plans for the latter two
 * open no device, start no thread and copy no weights. Their values are those of the model in double, and they do not
 * affect training. */
#include "strategy/module.h"
#include "support/apart.h"
#include "support/check.h"
#include "support/faults.h"
#include "support/files.h"
#include "support/system.h"
#include "train/trainer.h"

#include <math.h>
#include <unistd.h>

enum { SAMPLES = 21, BATCH = 8, INPUTS = 12, UNITS = 3000, CLASSES = 3, STEPS = 5, SECONDS_MOST = 240 };
enum { KERNEL, BIAS, OUT_KERNEL, OUT_BIAS, VARIABLES };
static const size_t elements[VARIABLES] = {INPUTS * UNITS, UNITS, UNITS *CLASSES, CLASSES};

static faults layer;
static float samples[SAMPLES][INPUTS];
static int32_t labels[SAMPLES];

typedef struct run {
    const char *spec;
    size_t bucket_bytes, trace_steps;
    bool inference_only;
    /* out */
    clq_model *model;
    clq_trainer *trainer;
    clq_dataset *data;
} run;

static void start(run *r) {
    clq_devices devices;
    const size_t shape[] = {INPUTS};
    clq_trainer_config config = apart_config();
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.bucket_bytes = r->bucket_bytes;
    config.trace_steps = r->trace_steps;
    config.inference_only = r->inference_only;
    assert_ok(clq_devices_select(sys, r->spec, &devices));
    assert_ok(clq_model_create("small", &r->model));
    clq_tensor x = clq_input(r->model, CLQ_SHAPE(INPUTS));
    x = clq_dense(r->model, x, &(clq_dense_config){.units = UNITS, .activation = CLQ_ACTIVATION_TANH});
    x = clq_dense(r->model, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX});
    assert_ok(clq_model_finish(r->model, x));
    assert_ok(clq_trainer_create(r->model, &devices, &config, &r->trainer));
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, labels, CLQ_I32, 0, &r->data));
    assert_ok(clq_dataset_batch(r->data, BATCH, false));
}

static void end(run *r) {
    clq_trainer_destroy(r->trainer);
    clq_dataset_destroy(r->data);
    clq_model_destroy(r->model);
}

static void train(run *r, uint64_t steps) {
    assert_ok(clq_fit(r->trainer, r->data, &(clq_fit_config){.steps = steps}));
}

/* ---- the model in double ---- */

static float *read_variable(run *r, size_t index) {
    float *values = clq_alloc(elements[index], sizeof *values);
    assert_non_null(values);
    assert_ok(clq_trainer_get_variable(r->trainer, index, values));
    return values;
}

static void reference(float *const *w, const float *x, double *out) {
    double sum = 0;
    for (size_t c = 0; c < CLASSES; c++) out[c] = (double)w[OUT_BIAS][c];
    for (size_t u = 0; u < UNITS; u++) {
        double z = (double)w[BIAS][u];
        for (size_t i = 0; i < INPUTS; i++) z += (double)x[i] * (double)w[KERNEL][i * UNITS + u];
        for (size_t c = 0; c < CLASSES; c++) out[c] += tanh(z) * (double)w[OUT_KERNEL][u * CLASSES + c];
    }
    for (size_t c = 0; c < CLASSES; c++) sum += out[c] = exp(out[c]);
    for (size_t c = 0; c < CLASSES; c++) out[c] /= sum;
}

/* Evaluates and predicts, and compares both with a computation from the weights that can be read. */
static void check_values(run *r) {
    clq_totals totals;
    float outputs[SAMPLES][CLASSES], *w[VARIABLES];
    double loss = 0;
    assert_ok(clq_evaluate(r->trainer, r->data, &totals));
    assert_ok(clq_predict(r->trainer, r->data, outputs[0]));
    for (size_t v = 0; v < VARIABLES; v++) w[v] = read_variable(r, v);
    for (size_t i = 0; i < SAMPLES; i++) {
        double want[CLASSES];
        reference(w, samples[i], want);
        loss -= log(want[labels[i]]);
        for (size_t c = 0; c < CLASSES; c++)
            if (!(fabs((double)outputs[i][c] - want[c]) < 1e-5))
                fail_msg("%s: output %zu of sample %zu is %g, not %g", r->spec, c, i, (double)outputs[i][c], want[c]);
    }
    if (!(fabs(totals.loss - loss / SAMPLES) < 1e-5))
        fail_msg("%s: the loss is %g, not %g", r->spec, totals.loss, loss / SAMPLES);
    for (size_t v = 0; v < VARIABLES; v++) clq_free(w[v]);
}

/* ---- the tests ---- */

static const run runs[] = {
    {.spec = "pocl:0"},
    {.spec = "pocl:0,pocl:1"}, /* updates are sharded: arenas change places */
    {.spec = "pocl:0,pocl:1,pocl:2", .bucket_bytes = 1},
    {.spec = "pocl:0,pocl:1", .trace_steps = 100}, /* launches are not joined */
};

static void check_same_training(const run *config) {
    run plain = *config, watched = *config;
    start(&plain);
    start(&watched);
    for (int step = 0; step < STEPS; step++) {
        train(&plain, 1);
        train(&watched, 1);
        check_values(&watched);
    }
    for (size_t v = 0; v < VARIABLES; v++) {
        float *wanted = read_variable(&plain, v), *got = read_variable(&watched, v);
        assert_memory_equal(got, wanted, elements[v] * sizeof *got);
        assert_ok(clq_trainer_get_gradient(plain.trainer, 0, v, wanted));
        assert_ok(clq_trainer_get_gradient(watched.trainer, 0, v, got));
        assert_memory_equal(got, wanted, elements[v] * sizeof *got);
        clq_free(wanted);
        clq_free(got);
    }
    end(&plain);
    end(&watched);
}

static void training_does_not_notice(void **state) {
    (void)state;
    (void)alarm(SECONDS_MOST);
    for (size_t i = 0; i < CLQ_COUNT_OF(runs); i++) check_same_training(&runs[i]);
    (void)alarm(0);
}

static unsigned threads(void) {
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    while (readdir(tasks)) count++;
    (void)closedir(tasks);
    return count;
}

static void nothing_is_opened_twice(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(runs); i++) {
        run r = runs[i];
        start(&r);
        train(&r, 1);
        const unsigned contexts = layer.contexts(), running = threads();
        assert_true(contexts > 0);
        const uint64_t bytes = clq_trainer_device_bytes(r.trainer);
        const uint64_t arena = clq_weights_arena_bytes(r.trainer->strategy->replicas[0].weights, 0);
        check_values(&r);
        check_values(&r);
        assert_int_equal(layer.contexts(), contexts);
        assert_int_equal(threads(), running);
        uint64_t more = clq_trainer_device_bytes(r.trainer) - bytes;
        if (!(more < clq_trainer_replicas(r.trainer) * arena / 4))
            fail_msg("%s: %llu bytes more, of parameters with %llu", r.spec, (unsigned long long)more,
                     (unsigned long long)arena);
        end(&r);
    }
}

static void inference_needs_no_training(void **state) {
    (void)state;
    run r = {.spec = "pocl:0,pocl:1", .inference_only = true};
    float *gradient = clq_alloc(elements[KERNEL], sizeof *gradient);
    assert_non_null(gradient);
    start(&r);
    check_values(&r);
    assert_fails(CLQ_ERROR_STATE, "no gradient", clq_trainer_get_gradient(r.trainer, 0, KERNEL, gradient));
    assert_null(clq_weights_arena(r.trainer->strategy->replicas[0].weights, CLQ_ARENA_GRADIENT));
    clq_free(gradient);
    end(&r);
}

/* If the driver compiles at the first launch, the kernels of the additional plans are launched once before their
 * use. */
static void compiling_leaves_weights_alone(void **state) {
    clq_system *cached = sys;
    assert_int_equal(files_begin(state), 0);
    assert_ok(clq_system_open(&(clq_system_config){.cache_dir = files_folder}, &sys));
    run r = {.spec = "pocl:0,pocl:1"};
    start(&r);
    train(&r, 1);
    float *before = read_variable(&r, KERNEL);
    check_values(&r);
    float *after = read_variable(&r, KERNEL);
    assert_memory_equal(after, before, elements[KERNEL] * sizeof *after);
    clq_free(before);
    clq_free(after);
    end(&r);
    clq_system_close(sys);
    sys = cached;
    assert_int_equal(files_end(state), 0);
}

static int open_all(void **state) {
    clq_random random = clq_random_start(4, 0);
    for (size_t i = 0; i < SAMPLES; i++) {
        for (size_t k = 0; k < INPUTS; k++) samples[i][k] = (float)clq_random_unit(&random) - 0.5f;
        labels[i] = (int32_t)clq_random_below(&random, CLASSES);
    }
    return open_system(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_does_not_notice), cmocka_unit_test(nothing_is_opened_twice),
        cmocka_unit_test(inference_needs_no_training), cmocka_unit_test(compiling_leaves_weights_alone)};
    if (faults_load(&layer) != 0) return 1;
    return cmocka_run_group_tests_name("train/plans", tests, open_all, close_system);
}
