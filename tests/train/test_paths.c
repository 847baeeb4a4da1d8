/* Fast paths cross kinds of models. With one path off at a time, with all on, and with all off, a training gives the
 * same bits as the plain way, on CPUs and on disguised GPUs, whose drivers delay and reorder. Prints a table of what
 * was crossed. With the argument `long` each model runs on all devices. */
#include "support/check.h"
#include "support/strict.h"
#include "support/system.h"
#include "train/trainer.h"

#include <unistd.h>

/* A share of two replicas has 8 samples, the rows of a tile, so it has the kernels of a whole batch. */
enum { BATCH = 16, SAMPLES = 2 * BATCH + 5, SIDE = 8, CLASSES = 4, VALUES = 3, STEPS = 7 };
enum { FILTERS = 8, POOLED = 3 * 3 * FILTERS, FLOATS_MOST = 8192, PATHS_MOST = 16 };
enum { SECONDS_MOST = 600 };

static uint8_t samples[SAMPLES][SIDE * SIDE];
static int32_t labels[SAMPLES];
static float values[SAMPLES * VALUES];

static clq_tensor image(clq_model *m) { return clq_input(m, CLQ_SHAPE(SIDE, SIDE, 1)); }
/* All models have POOLED values before their classes, and FILTERS channels after a convolution, so that equal parts of
 * models have equal kernels. */
static clq_tensor classify(clq_model *m, clq_tensor x) {
    return clq_dense(m, clq_flatten(m, x, NULL),
                     &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX});
}

static clq_tensor build_mlp(clq_model *m) {
    clq_tensor x = clq_flatten(m, image(m), NULL);
    return classify(m, clq_dense(m, x, &(clq_dense_config){.units = POOLED, .activation = CLQ_ACTIVATION_RELU}));
}
static clq_tensor build_cnn(clq_model *m) {
    const clq_conv2d_config conv = {.filters = FILTERS, .kernel = {3, 3}, .activation = CLQ_ACTIVATION_RELU};
    return classify(m, clq_max_pool2d(m, clq_conv2d(m, image(m), &conv), NULL));
}
static clq_tensor build_chain(clq_model *m) {
    clq_tensor x = clq_conv2d(m, image(m), &(clq_conv2d_config){.filters = FILTERS, .kernel = {3, 3}});
    x = clq_activate(m, clq_activate(m, x, CLQ_ACTIVATION_SOFTMAX, NULL), CLQ_ACTIVATION_TANH, NULL);
    return classify(m, clq_activate(m, clq_average_pool2d(m, x, NULL), CLQ_ACTIVATION_SIGMOID, NULL));
}
static clq_tensor build_synchronized(clq_model *m) {
    const clq_conv2d_config conv = {.filters = FILTERS, .kernel = {3, 3}, .no_bias = true};
    const clq_batch_norm_config norm = {.momentum = 0.9, .epsilon = 1e-3, .synchronized = true};
    clq_tensor x = clq_batch_norm(m, clq_conv2d(m, image(m), &conv), &norm);
    return classify(m, clq_average_pool2d(m, clq_activate(m, x, CLQ_ACTIVATION_RELU, NULL), NULL));
}

/* A second output, which reads the first. */
static clq_tensor add_values(clq_model *m, clq_tensor classes) {
    return clq_dense(m, classes,
                     &(clq_dense_config){.units = VALUES, .activation = CLQ_ACTIVATION_TANH, .name = "values"});
}

enum { SYNCHRONIZED = 5 };
static const struct {
    const char *name;
    clq_tensor (*build)(clq_model *m);
    clq_loss_kind loss;
    clq_tensor (*second)(clq_model *m, clq_tensor first); /* NULL: only one output */
} models[] = {{"mlp", build_mlp, CLQ_LOSS_SPARSE_CATEGORICAL, NULL},
              {"cnn", build_cnn, CLQ_LOSS_SPARSE_CATEGORICAL, NULL},
              {"softmax, pool", build_chain, CLQ_LOSS_SPARSE_CATEGORICAL, NULL},
              {"converted labels", build_mlp, CLQ_LOSS_CATEGORICAL, NULL},
              {"two outputs", build_cnn, CLQ_LOSS_SPARSE_CATEGORICAL, add_values},
              [SYNCHRONIZED] = {"synchronized", build_synchronized, CLQ_LOSS_SPARSE_CATEGORICAL, NULL}};

enum { ONE, BUCKETS = 2, ACCUMULATING };
static const struct {
    const char *name, *spec;
    size_t bucket_bytes;
    clq_algorithm algorithm;
    uint64_t accumulate;
} places[] = {[ONE] = {"one", "pocl:0", 0, CLQ_ALGORITHM_AUTO, 1},
              {"two", "pocl:0,pocl:1", 0, CLQ_ALGORITHM_AUTO, 1},
              [BUCKETS] = {"two, in buckets", "pocl:0,pocl:1", 1, CLQ_ALGORITHM_AUTO, 1},
              [ACCUMULATING] = {"two, by batches", "pocl:0,pocl:1", 1, CLQ_ALGORITHM_AUTO, 2},
              {"two, by links", "pocl:0,pocl:1", 0, CLQ_ALGORITHM_RING, 1},
              {"a GPU", "nvidia:0", 0, CLQ_ALGORITHM_AUTO, 2},
              {"GPUs, in buckets", "nvidia:0,nvidia:1", 1, CLQ_ALGORITHM_AUTO, 1},
              {"a GPU and a CPU", "amd:0,pocl:0", 0, CLQ_ALGORITHM_RING, 1}};

typedef struct run {
    float weights[FLOATS_MOST];
    size_t floats, paths;
    bool on[PATHS_MOST];
    const char *names[PATHS_MOST], *reasons[PATHS_MOST];
} run;

/* Notes the paths that the trainer reports after it has trained. */
static void note_paths(const clq_trainer *trainer, const char *disabled, run *r) {
    clq_path_info path;
    for (r->paths = 0; clq_strategy_path(trainer->strategy, r->paths, &path); r->paths++) {
        assert_true(r->paths < PATHS_MOST);
        r->on[r->paths] = path.on;
        r->names[r->paths] = path.name;
        r->reasons[r->paths] = path.reason;
        assert_true(path.on == (path.reason == NULL));
        if (!disabled || !strstr(disabled, path.name)) continue;
        assert_false(path.on);
        assert_string_equal(path.reason, "switched off");
    }
}

static clq_dataset *open_data(bool two) {
    const size_t shape[] = {SIDE, SIDE, 1};
    clq_dataset *data;
    assert_ok(clq_dataset_arrays(samples, CLQ_U8, SAMPLES, 3, shape, labels, CLQ_I32, 0, &data));
    if (two) assert_ok(clq_dataset_add_labels(data, values, CLQ_F32, VALUES));
    assert_ok(clq_dataset_shuffle(data, SAMPLES, 3));
    assert_ok(clq_dataset_batch(data, BATCH, false)); /* the last batch has five samples */
    return data;
}

static clq_model *build(size_t index, clq_output_config outputs[2]) {
    clq_model *model;
    assert_ok(clq_model_create(models[index].name, &model));
    const clq_tensor first = models[index].build(model);
    if (!models[index].second) {
        assert_ok(clq_model_finish(model, first));
        return model;
    }
    assert_ok(clq_model_finish_outputs(model, CLQ_TENSORS(first, models[index].second(model, first))));
    for (size_t i = 0; i < 2; i++) outputs[i] = clq_output_config_default(clq_model_output_name(model, i));
    outputs[0].weight = 0.5;
    outputs[1].loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    return model;
}

static void train(size_t model_index, size_t place, const char *disabled, run *r) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_output_config outputs[2];
    clq_model *model = build(model_index, outputs);
    clq_dataset *data = open_data(models[model_index].second);
    clq_trainer_config config = clq_trainer_config_default();
    config.outputs = models[model_index].second ? outputs : NULL;
    config.output_count = models[model_index].second ? 2 : 0;
    config.global_batch = BATCH;
    config.loss.kind = models[model_index].loss;
    config.bucket_bytes = places[place].bucket_bytes;
    config.group.algorithm = places[place].algorithm;
    config.strategy_options.accumulate = places[place].accumulate;
    config.disabled_paths = disabled;
    assert_ok(clq_devices_select(sys, places[place].spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = STEPS}));
    note_paths(trainer, disabled, r);
    r->floats = 0;
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        assert_true(r->floats + model->variables[v].elements <= FLOATS_MOST);
        assert_ok(clq_trainer_get_variable(trainer, v, r->weights + r->floats));
        r->floats += model->variables[v].elements;
    }
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* Lists the names of all paths, and joins them in one text. */
static size_t list_paths(const char *names[PATHS_MOST], char all[512]) {
    clq_devices devices;
    clq_model *model;
    clq_trainer *trainer;
    clq_path_info path;
    const clq_trainer_config config = clq_trainer_config_default();
    size_t count = 0, length = 0;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_model_builtin("mlp", &model));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    for (; clq_strategy_path(clq_trainer_strategy(trainer), count, &path); count++) {
        names[count] = path.name;
        length += (size_t)snprintf(all + length, 512 - length, "%s%s", count ? "," : "", path.name);
    }
    assert_true(length < 512);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    return count;
}

static void check_same(const run *got, const run *wanted, const char *where, const char *disabled) {
    assert_int_equal(got->floats, wanted->floats);
    if (memcmp(got->weights, wanted->weights, got->floats * sizeof *got->weights) != 0)
        fail_msg("%s without %s: other bits than the plain way", where, disabled);
}

/* Checks and prints a row of the table. `ever` collects which paths were on anywhere. */
static void cross(size_t model, size_t place, const char *const *names, size_t count, const char *all, bool *ever) {
    static run plain, full, without;
    char where[64];
    (void)snprintf(where, sizeof where, "%s on %s", models[model].name, places[place].name);
    train(model, place, all, &plain);
    for (size_t p = 0; p < count; p++) assert_false(plain.on[p]);
    train(model, place, NULL, &full);
    check_same(&full, &plain, where, "nothing");
    printf("%-17s %-16s", models[model].name, places[place].name);
    for (size_t p = 0; p < count; p++) {
        ever[p] = ever[p] || full.on[p];
        if (full.on[p]) {
            train(model, place, names[p], &without);
            check_same(&without, &plain, where, names[p]);
        }
        printf(" %*s", (int)strlen(names[p]), full.on[p] ? "same" : "off");
    }
    printf("\n");
}

static bool all_places;

/* In the short form a model runs on every third of the devices, and the next model on others: every device has two
 * kinds of models. */
static bool is_crossed(size_t model, size_t place) { return all_places || (model + model / 3 + place) % 3 == 0; }

static void all_paths_cross_all_models(void **state) {
    (void)state;
    const char *names[PATHS_MOST];
    char all[512];
    bool ever[PATHS_MOST] = {false};
    size_t count = list_paths(names, all);
    printf("%-17s %-16s", "model", "devices");
    for (size_t p = 0; p < count; p++) printf(" %s", names[p]);
    printf("\n");
    for (size_t m = 0; m < CLQ_COUNT_OF(models); m++)
        for (size_t p = 0; p < CLQ_COUNT_OF(places); p++)
            if (is_crossed(m, p)) cross(m, p, names, count, all, ever);
    for (size_t p = 0; p < count; p++)
        if (!ever[p] && (clq_cpu_count() > 1 || strcmp(names[p], "busy wait") != 0))
            fail_msg("%s was on nowhere", names[p]);
}

static const char *reason_of(const run *r, const char *name) {
    for (size_t p = 0; p < r->paths; p++)
        if (strcmp(r->names[p], name) == 0) return r->reasons[p];
    fail_msg("there is no path %s", name);
    return NULL;
}

static void assert_off(const run *r, const char *name, const char *why) {
    const char *reason = reason_of(r, name);
    assert_string_equal(reason ? reason : "on", why);
}

/* Replicas wait for each other within forward and backward. */
static void exchanged_statistics_rule_paths_out(void **state) {
    (void)state;
    static run r;
    static const char why[] = "sums are exchanged within the step";
    train(SYNCHRONIZED, BUCKETS, NULL, &r);
    assert_off(&r, "one launch", why);
    assert_off(&r, "overlap", why);
    train(SYNCHRONIZED, ONE, NULL, &r); /* nothing is exchanged */
    assert_null(reason_of(&r, "one launch"));
}

/* Accumulated gradients are complete only with the last batch, so none can be exchanged before. */
static void accumulated_gradients_rule_buckets_out(void **state) {
    (void)state;
    static run r;
    train(0, ACCUMULATING, NULL, &r);
    assert_off(&r, "overlap", "gradients of several batches are accumulated first");
    assert_null(reason_of(&r, "one launch"));
    assert_null(reason_of(&r, "sharded update"));
}

static void unknown_names_are_refused(void **state) {
    (void)state;
    clq_devices devices;
    clq_model *model;
    clq_trainer *trainer = NULL;
    clq_trainer_config config = clq_trainer_config_default();
    config.disabled_paths = "overlap,magic";
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_model_builtin("mlp", &model));
    assert_fails(CLQ_ERROR_ARGUMENT, "'magic' is unknown: expected one launch, ",
                 clq_trainer_create(model, &devices, &config, &trainer));
    assert_null(trainer);
    clq_model_destroy(model);
}

static int open_all(void **state) {
    clq_random random = clq_random_start(8, 0);
    for (size_t i = 0; i < SAMPLES; i++) {
        for (size_t k = 0; k < SIDE * SIDE; k++) samples[i][k] = (uint8_t)clq_random_below(&random, 256);
        labels[i] = (int32_t)clq_random_below(&random, CLASSES);
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(values); i++) values[i] = (float)clq_random_unit(&random) - 0.5f;
    return open_system(state);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_paths_cross_all_models), cmocka_unit_test(exchanged_statistics_rule_paths_out),
        cmocka_unit_test(accumulated_gradients_rule_buckets_out), cmocka_unit_test(unknown_names_are_refused)};
    strict layer;
    if (strict_load(&layer, "disguise=--nna hold order nan delay_us=100 callback_us=200 seed=5") != 0) return 1;
    all_places = argc > 1 && strcmp(argv[1], "long") == 0;
    (void)alarm(SECONDS_MOST);
    return cmocka_run_group_tests_name("train/paths", tests, open_all, close_system);
}
