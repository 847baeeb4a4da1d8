/* Trainings over several processes, which are threads here, over a network of the tests' own. They equal those of one
 * replica, and a ring has the bits of one process with as many devices. Some configs are refused. */
#include "support/apart.h"
#include "support/synthetic.h"
#include "support/system.h"
#include "support/world_fabric.h"
#include "train/train.h"

#include <math.h>
#include <stdlib.h>

enum { BATCH = 37, EPOCHS = 3, PROCESSES_MAX = 4, PREDICTED = 45 };
static const clq_world_config patient = {.silence_s = 60, .deadline_s = 60};

/* A way to train. */
typedef struct way {
    const char *name, *model, *optimizer;
    uint64_t accumulate;
    bool normalises, synchronized; /* batch normalization, in a model of this test */
    clq_precision precision;
    double clip;
    size_t bucket_bytes;
    clq_group_config group;
} way;

/* What a training makes. */
typedef struct outcome {
    double losses[EPOCHS], accuracies[EPOCHS], validation[EPOCHS], step_loss;
    uint64_t samples;
    float *weights, *predictions;
    size_t elements;
    unsigned epochs;
} outcome;

static void release(outcome *result) {
    clq_free(result->weights);
    clq_free(result->predictions);
}

static clq_status make_model(const way *how, clq_model **out) {
    if (!how->normalises) return clq_model_builtin(how->model, out);
    clq_batch_norm_config config = clq_batch_norm_config_default();
    config.synchronized = how->synchronized;
    CLQ_TRY(clq_model_create("normalised", out));
    clq_tensor x = clq_flatten(*out, clq_input(*out, CLQ_SHAPE(28, 28, 1)), NULL);
    x = clq_dense(*out, x, &(clq_dense_config){.units = 24});
    x = clq_batch_norm(*out, x, &config);
    x = clq_dense(*out, x, &(clq_dense_config){.units = 10});
    return clq_model_finish(*out, x);
}

static clq_status note_epoch(void *context, const clq_epoch_info *info) {
    outcome *result = context;
    const unsigned epoch = result->epochs++;
    result->losses[epoch] = info->train.loss;
    result->accuracies[epoch] = info->train.metrics.values[0];
    result->validation[epoch] = info->validation.loss;
    result->samples = info->train.samples;
    return CLQ_OK;
}

static clq_status read_weights(clq_trainer *trainer, const clq_model *model, outcome *result) {
    size_t elements = 0;
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info v;
        CLQ_TRY(clq_model_variable(model, i, &v));
        CLQ_TRY(clq_trainer_get_variable(trainer, i, result->weights + elements));
        elements += v.elements;
    }
    result->elements = elements;
    return CLQ_OK;
}

/* Trains epochs, makes one step by hand and predictions, and then reads the weights. */
static clq_status use(clq_trainer *trainer, const clq_model *model, clq_dataset *data, clq_dataset *test,
                      outcome *result) {
    const clq_fit_config fit = {.epochs = EPOCHS, .validation = test, .on_epoch = note_epoch, .context = result};
    clq_step_info info;
    clq_batch batch;
    bool more;
    CLQ_TRY(clq_fit(trainer, data, &fit));
    CLQ_TRY(clq_dataset_next(data, &batch, &more));
    CLQ_TRY(clq_step(trainer, &batch));
    CLQ_TRY(clq_step_read(trainer, &info));
    result->step_loss = info.loss;
    CLQ_TRY(clq_predict(trainer, test, result->predictions));
    return read_weights(trainer, model, result);
}

static clq_status train(const way *how, const char *spec, clq_world *world, outcome *result) {
    clq_devices devices;
    clq_model *model = NULL;
    clq_dataset *data = NULL, *test = NULL;
    clq_trainer *trainer = NULL;
    clq_trainer_config config = apart_config();
    config.global_batch = BATCH;
    config.seed = 7;
    config.strategy_options.accumulate = how->accumulate;
    config.precision = how->precision;
    if (how->clip > 0) config.clip = (clq_clip){.kind = CLQ_CLIP_GLOBAL_NORM, .limit = how->clip};
    config.bucket_bytes = how->bucket_bytes;
    config.group = how->group;
    config.world = world;
    clq_status status = clq_optimizer_parse(how->optimizer, &config.optimizer);
    if (status == CLQ_OK) status = clq_devices_select(sys, spec, &devices);
    if (status == CLQ_OK) status = make_model(how, &model);
    if (status == CLQ_OK) status = open_synthetic("train", BATCH * 6 + 5, &data); /* the last batch has 5 samples */
    if (status == CLQ_OK) status = clq_dataset_shuffle(data, 1000, 3);
    if (status == CLQ_OK) status = clq_dataset_batch(data, BATCH, false);
    if (status == CLQ_OK) status = open_synthetic("test", PREDICTED, &test);
    if (status == CLQ_OK) status = clq_dataset_batch(test, BATCH, false);
    if (status == CLQ_OK) status = clq_trainer_create(model, &devices, &config, &trainer);
    if (status == CLQ_OK) {
        result->weights = clq_alloc(clq_model_parameter_count(model) + 1000, sizeof(float));
        result->predictions = clq_alloc(PREDICTED * 10, sizeof(float));
        status = use(trainer, model, data, test, result);
    }
    clq_error why;
    clq_error_take(status, &why);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_dataset_destroy(test);
    clq_model_destroy(model);
    return clq_error_raise(&why);
}

/* ---- processes ---- */

typedef struct cluster {
    const way *how;
    const char *specs[PROCESSES_MAX];
    outcome results[PROCESSES_MAX];
} cluster;

static void train_rank(fabric_rank *rank) {
    cluster *all = rank->context;
    fabric_note(rank, train(all->how, all->specs[rank->rank], rank->world, &all->results[rank->rank]));
}

static void train_all(cluster *all, unsigned processes) {
    fabric_rank ranks[FABRIC_RANKS_MAX];
    fabric *network = fabric_open(processes, 0, 0);
    fabric_run(network, processes, &patient, train_rank, all, ranks);
    fabric_close(network);
    for (unsigned r = 0; r < processes; r++)
        if (ranks[r].ended != CLQ_OK) fail_msg("%s, process %u: %s", all->how->name, r, ranks[r].detail);
}

static void expect_near(const char *what, double value, double right, double tolerance) {
    if (!(fabs(value - right) <= tolerance * CLQ_MAX(fabs(right), 1e-3)))
        fail_msg("%s: %.9g, not %.9g", what, value, right);
}

/* All processes have the same bits of metrics and weights, and these are near those of one replica. */
static void expect_equal(const cluster *all, unsigned processes, const outcome *one, double tolerance) {
    const outcome *first = &all->results[0];
    for (unsigned r = 1; r < processes; r++) {
        const outcome *other = &all->results[r];
        assert_memory_equal(other->losses, first->losses, sizeof first->losses);
        assert_memory_equal(other->validation, first->validation, sizeof first->validation);
        assert_memory_equal(other->weights, first->weights, first->elements * sizeof(float));
        assert_memory_equal(other->predictions, first->predictions, PREDICTED * 10 * sizeof(float));
    }
    assert_int_equal(first->samples, one->samples);
    for (unsigned e = 0; e < EPOCHS; e++) {
        expect_near(all->how->name, first->losses[e], one->losses[e], tolerance);
        expect_near(all->how->name, first->accuracies[e], one->accuracies[e], 0.02);
        expect_near(all->how->name, first->validation[e], one->validation[e], 3 * tolerance);
    }
    expect_near(all->how->name, first->step_loss, one->step_loss, 3 * tolerance);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < one->elements; i++) {
        difference += pow((double)first->weights[i] - (double)one->weights[i], 2);
        norm += pow((double)one->weights[i], 2);
    }
    if (!(sqrt(difference / norm) <= 10 * tolerance))
        fail_msg("%s: weights differ by %.3g of their norm", all->how->name, sqrt(difference / norm));
}

static void release_all(cluster *all) {
    for (unsigned r = 0; r < PROCESSES_MAX; r++) release(&all->results[r]);
}

static const way mlp = {.name = "mlp", .model = "mlp", .optimizer = "adam"};

static void equal_to_one_replica(void **state) {
    (void)state;
    static const struct {
        unsigned processes;
        const char *specs[PROCESSES_MAX];
    } clusters[] = {{2, {"pocl:0", "pocl:1"}},
                    {3, {"pocl:0", "pocl:1", "pocl:2"}},
                    {4, {"pocl:0", "pocl:1", "pocl:2", "pocl:3"}},
                    {2, {"pocl:0,pocl:1", "pocl:2,pocl:3"}},
                    {3, {"pocl:0,pocl:1", "pocl:2,pocl:3", "pocl:0,pocl:1"}},
                    {2, {"pocl:0,pocl:1,pocl:2", "pocl:3"}}};
    outcome one = {0};
    assert_ok(train(&mlp, "pocl:0", NULL, &one));
    for (size_t i = 0; i < CLQ_COUNT_OF(clusters); i++) {
        cluster all = {.how = &mlp};
        memcpy(all.specs, clusters[i].specs, sizeof all.specs);
        train_all(&all, clusters[i].processes);
        expect_equal(&all, clusters[i].processes, &one, 1e-5);
        release_all(&all);
    }
    release(&one);
}

static void by_each_way(void **state) {
    (void)state;
    static const way ways[] = {
        {.name = "cnn", .model = "cnn", .optimizer = "sgd:lr=0.01"},
        {.name = "in buckets", .model = "mlp", .optimizer = "adam", .bucket_bytes = 64 << 10},
        {.name = "accumulated", .model = "mlp", .optimizer = "adam", .accumulate = 3},
        {.name = "clipped", .model = "mlp", .optimizer = "sgd:lr=0.1", .clip = 0.5},
        {.name = "mixed", .model = "mlp", .optimizer = "sgd:lr=0.01", .precision = CLQ_PRECISION_MIXED},
        {.name = "statistics", .normalises = true, .synchronized = true, .optimizer = "sgd:lr=0.001"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(ways); i++) {
        outcome one = {0};
        cluster all = {.how = &ways[i], .specs = {"pocl:0,pocl:1", "pocl:2"}};
        assert_ok(train(&ways[i], "pocl:0", NULL, &one));
        train_all(&all, 2);
        expect_equal(&all, 2, &one, ways[i].precision == CLQ_PRECISION_MIXED ? 2e-2 : 1e-4);
        release_all(&all);
        release(&one);
    }
}

/* Each replica's own statistics are averaged over all processes. */
static void own_statistics_are_averaged(void **state) {
    (void)state;
    static const way own = {.name = "own statistics", .normalises = true, .optimizer = "sgd:lr=0.05"};
    outcome three = {0};
    cluster all = {.how = &own, .specs = {"pocl:0,pocl:1", "pocl:2"}};
    assert_ok(train(&own, "pocl:0,pocl:1,pocl:2", NULL, &three));
    train_all(&all, 2);
    expect_equal(&all, 2, &three, 1e-4);
    release_all(&all);
    release(&three);
}

/* A ring of processes adds up as a ring of devices does. */
static void rings_have_the_same_bits(void **state) {
    (void)state;
    static const way ring = {.name = "ring",
                             .model = "mlp",
                             .optimizer = "adam",
                             .group = {.algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_STAGED}};
    outcome three = {0};
    cluster all = {.how = &ring, .specs = {"pocl:0", "pocl:1", "pocl:2"}};
    assert_ok(train(&ring, "pocl:0,pocl:1,pocl:2", NULL, &three));
    train_all(&all, 3);
    assert_memory_equal(all.results[0].weights, three.weights, three.elements * sizeof(float));
    release_all(&all);
    release(&three);
}

/* ---- what does not go together ---- */

static void expect_refused(clq_status status, const char *word, const way *how, clq_trainer_config *config,
                           clq_world *world, fabric_rank *rank) {
    clq_devices devices;
    clq_model *model;
    clq_trainer *trainer;
    config->global_batch = BATCH;
    config->world = world;
    (void)clq_optimizer_parse("sgd", &config->optimizer);
    if (clq_devices_select(sys, "pocl:0", &devices) != CLQ_OK || make_model(how, &model) != CLQ_OK) abort();
    const clq_status got = clq_trainer_create(model, &devices, config, &trainer);
    if (got != status || !strstr(clq_error_detail(), word))
        fabric_note(rank, clq_fail(CLQ_ERROR_STATE, "%s: %s", word, clq_error_detail()));
    else
        fabric_note(rank, CLQ_OK);
    if (got == CLQ_OK) clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

typedef struct refusal {
    const char *word;
    clq_trainer_config config;
    unsigned differs; /* the rank with another seed; 0: none */
    clq_status status;
} refusal;

static void refuses(fabric_rank *rank) {
    const refusal *what = rank->context;
    clq_trainer_config config = what->config;
    if (what->differs > 0 && what->differs == rank->rank) config.seed = 99;
    expect_refused(what->status, what->word, &mlp, &config, rank->world, rank);
}

static void what_does_not_go_together(void **state) {
    (void)state;
    clq_trainer_config plain = apart_config(), central = plain, topk = plain;
    central.strategy = CLQ_STRATEGY_CENTRAL;
    topk.strategy_options.compression = (clq_compression){.kind = CLQ_COMPRESSION_TOP_K, .fraction = 0.1};
    const refusal refusals[] = {
        {"no strategies but mirrored, pipeline and ps", central, 0, CLQ_ERROR_UNSUPPORTED},
        {"not sent in part (topk)", topk, 0, CLQ_ERROR_UNSUPPORTED},
        {"rank 1 on", plain, 1, CLQ_ERROR_MISMATCH},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(refusals); i++) {
        fabric_rank ranks[2];
        fabric *network = fabric_open(2, 0, 0);
        fabric_run(network, 2, &patient, refuses, (void *)&refusals[i], ranks);
        fabric_close(network);
        for (unsigned r = 0; r < 2; r++)
            if (ranks[r].ended != CLQ_OK && !strstr(ranks[r].detail, "rank ")) fail_msg("%s", ranks[r].detail);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_to_one_replica),        cmocka_unit_test(by_each_way),
        cmocka_unit_test(own_statistics_are_averaged), cmocka_unit_test(rings_have_the_same_bits),
        cmocka_unit_test(what_does_not_go_together),
    };
    return cmocka_run_group_tests(tests, open_system, close_system);
}
