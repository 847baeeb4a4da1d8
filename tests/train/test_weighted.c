/* Weights of samples through take, shuffle, prefetch, ragged batches and shares of replicas. Every update is that of a
 * closed form in double, which looks the weights up by the samples themselves. */
#include "support/check.h"
#include "support/system.h"
#include "support/ways.h"
#include <clique/distribute.h>

#include <math.h>

enum { N = 29, TAKEN = 26, IN = 3, HIDDEN = 4, BATCH = 6, EPOCHS = 4, BATCHES = 5, STEPS_MOST = EPOCHS * BATCHES };
static const double rate = 0.03125;

static float samples[N][IN], targets[N], weights[N];

/* The first value of a sample tells its place in the set. */
static size_t place_of(const float *sample) { return (size_t)lrintf(sample[0] * 16.0f) + 10; }

static int open_data(void **state) {
    for (size_t n = 0; n < N; n++) {
        samples[n][0] = ((float)n - 10) / 16;
        for (size_t i = 1; i < IN; i++) samples[n][i] = (float)((n * 7 + i * 5) % 11) / 5 - 1;
        targets[n] = (float)((n * 5 + 3) % 9) - 4;
        weights[n] = (float)(n * 5 % 7) / 2; /* 0 to 3 */
    }
    return open_system(state);
}

static clq_dataset *make_data(bool weighted) {
    clq_dataset *data;
    const size_t shape[] = {IN};
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, N, 1, shape, targets, CLQ_F32, 1, &data));
    if (weighted) assert_ok(clq_dataset_set_weights(data, weights));
    assert_ok(clq_dataset_take(data, TAKEN));
    assert_ok(clq_dataset_shuffle(data, TAKEN - 9, 5)); /* as tf.data's, with a buffer smaller than the set */
    assert_ok(clq_dataset_batch(data, BATCH, false));
    return data;
}

/* ---- two layers without activation, in double ---- */

typedef struct network {
    double kernel_1[IN][HIDDEN], bias_1[HIDDEN], kernel_2[HIDDEN], bias_2;
} network;
enum { NUMBERS = sizeof(network) / sizeof(double) };

/* Adds a sample's gradient of weight times squared error to `gradient`. Returns weight times squared error. */
static double add_sample(const network *w, size_t n, network *gradient) {
    double hidden[HIDDEN], error = w->bias_2 - (double)targets[n];
    for (size_t h = 0; h < HIDDEN; h++) {
        hidden[h] = w->bias_1[h];
        for (size_t i = 0; i < IN; i++) hidden[h] += (double)samples[n][i] * w->kernel_1[i][h];
        error += hidden[h] * w->kernel_2[h];
    }
    const double d = 2 * (double)weights[n] * error;
    gradient->bias_2 += d;
    for (size_t h = 0; h < HIDDEN; h++) {
        gradient->kernel_2[h] += d * hidden[h];
        gradient->bias_1[h] += d * w->kernel_2[h];
        for (size_t i = 0; i < IN; i++) gradient->kernel_1[i][h] += d * w->kernel_2[h] * (double)samples[n][i];
    }
    return (double)weights[n] * error * error;
}

/* Makes an update by the samples at `places`. Returns the loss. */
static double update(network *w, const size_t *places, size_t count) {
    network gradient = {0};
    double loss = 0, *to = (double *)w;
    for (size_t i = 0; i < count; i++) loss += add_sample(w, places[i], &gradient);
    for (size_t k = 0; k < NUMBERS; k++) to[k] -= rate * ((const double *)&gradient)[k] / (double)count;
    return loss / (double)count;
}

/* Walks its own dataset without weights, from which it takes only the order of samples. */
typedef struct closed_form {
    clq_dataset *order;
    network w;
} closed_form;

/* Makes an update by `batches` batches, or by fewer at the end of an epoch. Returns the loss. */
static double next_update(closed_form *c, size_t batches) {
    size_t places[2 * BATCH], count = 0;
    for (size_t b = 0; b < batches; b++) {
        clq_batch batch;
        bool more;
        assert_ok(clq_dataset_next(c->order, &batch, &more));
        if (!more && count > 0) break;
        if (!more) assert_ok(clq_dataset_next(c->order, &batch, &more));
        assert_null(batch.weights);
        for (size_t i = 0; i < batch.count; i++, count++)
            places[count] = place_of((const float *)batch.samples + i * IN);
    }
    return update(&c->w, places, count);
}

/* ---- trainings ---- */

static clq_model *make_model(void) {
    clq_model *model;
    assert_ok(clq_model_create("line", &model));
    clq_tensor x = clq_dense(model, clq_input(model, CLQ_SHAPE(IN)), &(clq_dense_config){.units = HIDDEN});
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = 1})));
    return model;
}

static clq_trainer *open_trainer(const clq_model *model, const way *w, const double *shares) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.sample_weights = true;
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.seed = 3;
    way_configure(w, &config);
    assert_ok(clq_optimizer_parse("sgd:lr=0.03125", &config.optimizer));
    assert_ok(clq_devices_select(sys, w->spec, &devices));
    if (shares) {
        config.strategy_options.shares = CLQ_SHARES_WEIGHTS;
        config.strategy_options.share_weights = shares;
        config.strategy_options.share_count = devices.count;
    }
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

static void read_network(clq_trainer *trainer, network *out) {
    static const size_t counts[] = {IN * HIDDEN, HIDDEN, HIDDEN, 1};
    double *to = (double *)out;
    for (size_t v = 0; v < CLQ_COUNT_OF(counts); v++) {
        float values[IN * HIDDEN];
        assert_ok(clq_trainer_get_variable(trainer, v, values));
        for (size_t i = 0; i < counts[v]; i++) *to++ = (double)values[i];
    }
}

typedef struct told {
    double losses[STEPS_MOST];
    size_t steps;
} told;

static clq_status hear(void *context, const clq_step_info *info) {
    told *t = context;
    assert_true(t->steps < STEPS_MOST);
    t->losses[t->steps++] = info->loss;
    return CLQ_OK;
}

static void by_fit(clq_trainer *trainer, clq_dataset *data, told *t) {
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.epochs = EPOCHS, .context = t, .on_log = hear}));
}

static void note(clq_trainer *trainer, told *t) {
    clq_step_info info;
    assert_ok(clq_step_read(trainer, &info));
    (void)hear(t, &info);
}

/* Reads losses only in the last epoch, so that batches are prepared while replicas are at work. */
static void by_steps(clq_trainer *trainer, clq_dataset *data, told *t) {
    for (unsigned e = 0; e < EPOCHS; e++) {
        clq_batch batch;
        bool more = true;
        for (;;) {
            assert_ok(clq_dataset_next(data, &batch, &more));
            if (!more) break;
            assert_ok(clq_step(trainer, &batch));
            if (e == EPOCHS - 1) note(trainer, t);
        }
    }
}

static clq_status gradients(clq_replica_context *replica, void *context) {
    (void)context;
    return clq_replica_gradients(replica, 1.0 / (double)replica->global_count);
}

static void by_parts(clq_trainer *trainer, clq_dataset *data, told *t) {
    clq_distributed_dataset *parts;
    assert_ok(clq_distribute_dataset(trainer, data, &parts));
    for (unsigned e = 0; e < EPOCHS; e++) {
        clq_distributed_batch batch;
        bool more;
        for (;;) {
            assert_ok(clq_distributed_next(parts, &batch, &more));
            if (!more) break;
            assert_ok(clq_run(trainer, &batch, gradients, NULL));
            assert_ok(clq_step_reduce(trainer));
            assert_ok(clq_step_apply(trainer));
            note(trainer, t);
        }
    }
    clq_distributed_destroy(parts);
}

static void check(const char *name, const char *how, const closed_form *c, clq_trainer *trainer) {
    network found;
    const double *got = (const double *)&found, *want = (const double *)&c->w;
    read_network(trainer, &found);
    for (size_t k = 0; k < NUMBERS; k++)
        if (!(fabs(got[k] - want[k]) < 1e-5))
            fail_msg("%s, %s: number %zu is %.9g, not %.9g", name, how, k, got[k], want[k]);
}

/* batches: of each update. */
static void train(const way *w, const char *how, void (*run)(clq_trainer *, clq_dataset *, told *), size_t batches,
                  const double *shares, int prefetch) {
    clq_model *model = make_model();
    clq_trainer *trainer = open_trainer(model, w, shares);
    clq_dataset *data = make_data(true);
    closed_form c = {.order = make_data(false)};
    told t = {.steps = 0};
    const size_t updates = EPOCHS * ((BATCHES + batches - 1) / batches);
    assert_ok(clq_dataset_prefetch(data, prefetch));
    read_network(trainer, &c.w);
    run(trainer, data, &t);
    for (size_t i = 0; i < updates; i++) {
        const double want = next_update(&c, batches), got = t.losses[t.steps - CLQ_MIN(updates - i, t.steps)];
        if (updates - i <= t.steps && !(fabs(got - want) < 1e-5 * want))
            fail_msg("%s, %s: the loss of step %zu is %.9g, not %.9g", w->name, how, i + 1, got, want);
    }
    check(w->name, how, &c, trainer);
    clq_dataset_destroy(c.order);
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static void weights_stay_with_their_samples(void **state) {
    (void)state;
    static const double unequal[] = {5, 1, 2, 2};
    train(&way_single, "fit", by_fit, 1, NULL, 3);
    train(&way_single, "steps", by_steps, 1, NULL, CLQ_PREFETCH_AUTO);
    for (size_t i = 0; i < CLQ_COUNT_OF(ways); i++) {
        const way *w = &ways[i];
        const bool splits = w->kind != CLQ_STRATEGY_PIPELINE && w->kind != CLQ_STRATEGY_TENSOR;
        way two = *w;
        two.options.accumulate = 2;
        train(w, "fit", by_fit, 1, NULL, 3);
        train(w, "steps", by_steps, 1, NULL, CLQ_PREFETCH_AUTO);
        train(&two, "two batches", by_fit, 2, NULL, 1);
        if (splits) train(w, "parts", by_parts, 1, NULL, 2);
        if (w->kind == CLQ_STRATEGY_MIRRORED) train(w, "unequal shares", by_steps, 1, unequal, 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_stay_with_their_samples)};
    return cmocka_run_group_tests(tests, open_data, close_system);
}
