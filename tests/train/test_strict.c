/* Training on devices that behave like strict discrete GPUs (tests/support/strict), alone and beside CPUs: whatever
 * their drivers hold back, delay and reorder, the bits are those of the same devices when they do not; and the losses
 * are one CPU's, as near as other kernels and other orders of addition let them be: 1e-5 relative for an mlp with Adam
 * and for synchronized statistics, 1e-4 for a convolutional network with SGD. usage: test_train_strict [SEEDS] */
#include "support/apart.h"
#include "support/runs.h"
#include "support/strict_case.h"
#include "train/small_net.h"

#include <limits.h>
#include <math.h>
#include <unistd.h>

/* Shares of BATCH are even over 2 and 3 devices, and no less than the 8 rows of a CPU's tile: few kernels are compiled.
 * Those of the last batch are not. */
enum { EPOCHS = 2, BATCH = 24, LOST = 1 /* nvidia:1 */, DEADLINE_S = 300 /* a first run compiles */ };

static strict layer;
static unsigned seeds = STRICT_SEEDS;
static bool whole;      /* the long form */
static uint32_t stages; /* of a pipeline; 0: devices are mirrored */

typedef struct training {
    const char *model, *optimizer;
    double tolerance;
} training;

typedef struct trace {
    double losses[EPOCHS];
    float *weights; /* at the end */
    size_t elements;
} trace;

static void release(trace *t) { clq_free(t->weights); }

/* Statistics of images and of vectors, behind layers of the sizes that "small" has: they are the same kernels. */
static clq_tensor synchronized(clq_model *model, clq_tensor x) {
    const clq_batch_norm_config norm = {.momentum = 0.9, .epsilon = 1e-3, .synchronized = true};
    x = clq_conv2d(model, x, &(clq_conv2d_config){.filters = FILTERS, .kernel = {3, 3}, .no_bias = true});
    x = clq_activate(model, clq_batch_norm(model, x, &norm), CLQ_ACTIVATION_TANH, NULL);
    x = clq_flatten(model, clq_average_pool2d(model, x, &(clq_pool_config){.size = {5, 5}}), NULL);
    x = clq_dense(model, x, &(clq_dense_config){.units = CLASSES, .no_bias = true});
    x = clq_activate(model, clq_batch_norm(model, x, &norm), CLQ_ACTIVATION_TANH, NULL);
    return clq_dense(model, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX});
}

static clq_model *make_model(const char *name) {
    clq_model *model;
    if (strcmp(name, "synchronized") == 0) {
        assert_ok(clq_model_create(name, &model));
        assert_ok(clq_model_finish(model, synchronized(model, clq_input(model, CLQ_SHAPE(SIDE, SIDE, 1)))));
        return model;
    }
    if (strcmp(name, "small") == 0) return make_small_net(FILTERS);
    assert_ok(clq_model_builtin_for(name, CLQ_SHAPE(SIDE, SIDE, 1), CLASSES, &model));
    return model;
}

static clq_dataset *make_data(void) {
    char name[64];
    clq_dataset *data;
    /* Every third batch has 5 samples. */
    (void)snprintf(name, sizeof name, "synthetic:%dx%d/%d/%d", SIDE, SIDE, CLASSES, BATCH * 2 + 5);
    assert_ok(clq_dataset_open(name, "train", &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    return data;
}

static clq_status note_loss(void *context, const clq_epoch_info *info) {
    ((trace *)context)->losses[info->epoch] = info->train.loss;
    return CLQ_OK;
}

/* Whole epochs: replicas run ahead of whoever looks at them. */
static clq_status train(const training *what, const char *spec, clq_group_config group, size_t bucket_bytes, trace *t) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    const clq_fit_config fit = {.epochs = EPOCHS, .context = t, .on_epoch = note_loss};
    if (strcmp(what->model, "mlp") == 0) config.disabled_paths = APART; /* CPUs have its kernels from other tests */
    config.global_batch = BATCH;
    config.seed = 7;
    config.group = group;
    config.group.deadline_s = DEADLINE_S;
    config.bucket_bytes = bucket_bytes;
    if (stages) config.strategy = CLQ_STRATEGY_PIPELINE;
    config.strategy_options.stages = stages;
    assert_ok(clq_optimizer_parse(what->optimizer, &config.optimizer));
    assert_ok(clq_devices_select(sys, spec, &devices));
    clq_model *model = make_model(what->model);
    clq_dataset *data = make_data();
    clq_status status = clq_trainer_create(model, &devices, &config, &trainer);
    if (status == CLQ_OK) {
        status = clq_fit(trainer, data, &fit);
        if (status == CLQ_OK) {
            t->elements = clq_model_parameter_count(model);
            t->weights = run_weights(trainer, model);
        }
        clq_trainer_destroy(trainer);
    }
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    return status;
}

static trace run_training(const training *what, const char *spec, clq_group_config group, size_t bucket_bytes) {
    trace t = {0};
    assert_ok(train(what, spec, group, bucket_bytes, &t));
    return t;
}

static void expect_near(const trace *cpu, const trace *t, double tolerance, const char *where) {
    for (size_t s = 0; s < EPOCHS; s++)
        if (!(fabs(t->losses[s] - cpu->losses[s]) <= tolerance * fabs(cpu->losses[s])))
            fail_msg("%s: loss of epoch %zu is %.9g and one CPU's is %.9g", where, s + 1, t->losses[s], cpu->losses[s]);
}

static void expect_equal(const trace *calm, const trace *t, const char *where) {
    if (memcmp(calm->losses, t->losses, sizeof calm->losses) != 0) fail_msg("%s: other losses", where);
    if (memcmp(calm->weights, t->weights, calm->elements * sizeof *calm->weights) != 0)
        fail_msg("%s: other weights", where);
}

typedef struct setup {
    const char *spec;
    clq_group_config group;
    size_t bucket_bytes;
    const char *more; /* of the driver */
} setup;

static const setup setups[] = {
    {"nvidia:0", {0}, 0, "migrate"},
    {"nvidia:0,nvidia:1", {.algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_STAGED}, 0, "migrate"},
    {"amd:0,amd:1", {.algorithm = CLQ_ALGORITHM_RING, .chunk_bytes = 1 << 12}, 1 << 12, "migrate"},
    {"amd:0,amd:1,nvidia:1", {.algorithm = CLQ_ALGORITHM_RING}, 0, "migrate slow=2:20"},
    {"nvidia:0,amd:0,pocl:0", {.algorithm = CLQ_ALGORITHM_HIERARCHICAL}, 0, "migrate"},
    {"pocl:0,amd:1,nvidia:1", {0}, 1 << 12, "migrate"},
#if defined(__x86_64__)
    {"amd:0,intel,nvidia:0", {.algorithm = CLQ_ALGORITHM_RING}, SIZE_MAX, "migrate"},
    {"pocl:0,intel", {.algorithm = CLQ_ALGORITHM_DIRECT}, 1 << 12, ""},
#endif
    /* amd:2 is of a kind of its own, for which all kernels are compiled again. */
    {"amd:0,amd:1,amd:2", {.algorithm = CLQ_ALGORITHM_RING}, 0, "migrate slow=2:20"},
};
enum { SHORT_SETUPS = CLQ_COUNT_OF(setups) - 1 };

static void check(const training *what, const setup *s, const trace *cpu) {
    char where[256];
    (void)snprintf(where, sizeof where, "%s on %s, calm", what->model, s->spec);
    strict_disguise(&layer, 0, "");
    trace calm = run_training(what, s->spec, s->group, s->bucket_bytes);
    expect_near(cpu, &calm, what->tolerance, where);
    for (unsigned seed = 1; seed <= seeds; seed++) {
        char words[256];
        (void)snprintf(words, sizeof words, "hold order nan delay_us=200 callback_us=1000 %s", s->more);
        (void)snprintf(where, sizeof where, "%s on %s, seed %u", what->model, s->spec, seed);
        strict_disguise(&layer, seed, words);
        trace t = run_training(what, s->spec, s->group, s->bucket_bytes);
        strict_expect_no_violation(&layer, where);
        expect_equal(&calm, &t, where);
        release(&t);
    }
    release(&calm);
}

/* `taken`: a letter for each setup but the last one, x if the short form has it. */
static void check_all(const training *what, const char *taken) {
    assert_true(strlen(taken) >= SHORT_SETUPS); /* there are fewer setups without Intel's driver */
    strict_disguise(&layer, 0, "");
    trace cpu = run_training(what, "pocl:0", (clq_group_config){0}, 0);
    for (size_t i = 0; i < (whole ? CLQ_COUNT_OF(setups) : SHORT_SETUPS); i++)
        if (whole || taken[i] == 'x') check(what, &setups[i], &cpu);
    release(&cpu);
}

static void mlp_with_adam(void **state) {
    (void)state;
    check_all(&(const training){"mlp", "adam", 1e-5}, "xxxxxxxx");
}
/* PoCL compiles a kernel for GPUs for a second. So the short form has only the setups that each kind of GPU needs. */
static void convolutions_with_sgd(void **state) {
    (void)state;
    check_all(&(const training){whole ? "cnn" : "small", "sgd:lr=0.01", 1e-4}, "xx--x--x");
}
static void synchronized_statistics(void **state) {
    (void)state;
    check_all(&(const training){"synchronized", "sgd:lr=0.01", 1e-5}, "x-x----x");
}

/* What crosses goes through two pieces of pinned memory between two GPUs, and one beside a CPU. */
static void stages_of_pipelines(void **state) {
    (void)state;
    static const setup pipelines[] = {{"nvidia:0,amd:0", {0}, 0, "migrate"},
                                      {"amd:0,pocl:0,amd:1,nvidia:1", {.algorithm = CLQ_ALGORITHM_RING}, 0, "migrate"}};
    const training mlp = {"mlp", "adam", 1e-5};
    strict_disguise(&layer, 0, "");
    trace cpu = run_training(&mlp, "pocl:0", (clq_group_config){0}, 0);
    stages = 2;
    for (size_t i = 0; i < CLQ_COUNT_OF(pipelines); i++) check(&mlp, &pipelines[i], &cpu);
    stages = 0;
    release(&cpu);
}

/* A GPU whose every call fails, as after a kernel's illegal access, from one call or another on. */
static void a_lost_gpu_is_named(void **state) {
    (void)state;
    const training what = {"mlp", "adam", 0};
    const clq_group_config ring = {.algorithm = CLQ_ALGORITHM_RING};
    unsigned failures = 0;
    strict_disguise(&layer, 1, "hold delay_us=200 callback_us=1000");
    trace before = run_training(&what, "amd:0,nvidia:1", ring, 0);
    for (unsigned long calls = 60;; calls += 60) {
        trace lost = {0};
        layer.lose(LOST, calls);
        (void)alarm(DEADLINE_S / 2); /* for what hangs */
        clq_status status = train(&what, "amd:0,nvidia:1", ring, 0, &lost);
        (void)alarm(0);
        layer.lose(LOST, ULONG_MAX);
        release(&lost);
        if (status == CLQ_OK) break;
        failures++;
        const char *detail = clq_error_detail();
        if (status != CLQ_ERROR_DEVICE || !strstr(detail, "-9999") || !strstr(detail, "nvidia:1"))
            fail_msg("after %lu calls: %s: %s", calls, clq_status_text(status), detail);
    }
    assert_true(failures >= 3);
    trace after = run_training(&what, "amd:0,nvidia:1", ring, 0);
    expect_equal(&before, &after, "after the losses");
    release(&after);
    release(&before);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(mlp_with_adam), cmocka_unit_test(convolutions_with_sgd),
                                       cmocka_unit_test(synchronized_statistics), cmocka_unit_test(stages_of_pipelines),
                                       cmocka_unit_test(a_lost_gpu_is_named)};
    if (count > 1) seeds = (unsigned)strtoul(words[1], NULL, 10);
    whole = count > 1;
    if (strict_load(&layer, STRICT_DISGUISE) != 0) return 1;
    return cmocka_run_group_tests_name("train/strict", tests, open_system, close_system);
}
