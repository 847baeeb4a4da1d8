/* Counts the calls to the driver that a training step takes on two GPUs. Flushes, markers, waits and callbacks cost a
 * driver as much as small kernels do, and transfers of memory that is not pinned in the device's own context block the
 * thread. The strict layer counts: its devices start a command only after it was flushed. */
#include "support/check.h"
#include "support/strict.h"
#include "support/system.h"
#include "train/small_net.h"
#include "train/train.h"

#include <math.h>
#include <unistd.h>

/* A wait asks for a callback only if the command takes long, which is chance. The mean over many steps is steady. */
enum { FEW = 3, MANY = 23, UPLOAD_FLUSHES = 1, SECONDS_MOST = 240 };

/* Each replica has as many samples in each batch, so all trainings of a model have the same kernels; mlp has those of
 * train/strict. With WIDE filters, GPUs divide the sums of the second convolution in forward. */
enum { SHARE = 8, WIDE = 16 };

static strict layer;

typedef struct counts {
    double of[STRICT_COUNTS]; /* per step and rank */
    double last_loss;
    bool gpus;
} counts;

static clq_status note_loss(void *context, const clq_step_info *info) {
    ((counts *)context)->last_loss = info->loss;
    return CLQ_OK;
}

static clq_dataset *open_data(size_t batches, size_t batch) {
    clq_dataset *data;
    char name[64];
    (void)snprintf(name, sizeof name, "synthetic:%dx%d/%d/%zu", SIDE, SIDE, CLASSES, batches * batch);
    assert_ok(clq_dataset_open(name, "train", &data));
    assert_ok(clq_dataset_batch(data, batch, false));
    return data;
}

/* Each fit begins at the same epoch. What a fit costs besides its steps is the same, too. */
static void fit(clq_trainer *trainer, clq_dataset *data, size_t steps, unsigned long *out) {
    assert_ok(clq_dataset_seek(data, 0, 0));
    layer.reset();
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = steps}));
    for (int what = 0; what < STRICT_COUNTS; what++) out[what] = layer.count(-1, what);
}

static clq_model *make_model(const char *name) {
    clq_model *model;
    if (strcmp(name, "small") == 0) return make_small_net(WIDE);
    assert_ok(clq_model_builtin_for(name, CLQ_SHAPE(SIDE, SIDE, 1), CLASSES, &model));
    return model;
}

static counts count(const char *model_name, const char *spec, clq_group_config group, const char *disabled) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    counts result = {.gpus = true};
    unsigned long few[STRICT_COUNTS], many[STRICT_COUNTS];
    config.group = group;
    config.disabled_paths = disabled;
    (void)alarm(SECONDS_MOST);
    assert_ok(clq_devices_select(sys, spec, &devices));
    config.global_batch = SHARE * devices.count;
    clq_dataset *data = open_data(2 * MANY, config.global_batch);
    clq_model *model = make_model(model_name);
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    for (unsigned r = 0; r < devices.count; r++)
        result.gpus =
            result.gpus && clq_system_device_info(devices.system, devices.items[r].index)->type == CLQ_DEVICE_GPU;
    fit(trainer, data, 1, few); /* launches all kernels for the first time */
    fit(trainer, data, FEW, few);
    fit(trainer, data, MANY, many);
    for (int what = 0; what < STRICT_COUNTS; what++)
        result.of[what] = (double)(many[what] - few[what]) / ((MANY - FEW) * devices.count);
    assert_ok(clq_dataset_seek(data, 0, 0));
    assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = 1, .context = &result, .on_step = note_loss}));
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    (void)alarm(0);
    return result;
}

static void at_most(const char *where, const char *what, double found, double most) {
    if (found > most) fail_msg("%s: %.2f %s per step and rank, at most %g", where, found, what, most);
}

/* The limit of calls in all is a third of what the exchange took when every command had a marker and a flush of its
 * own, measured in the same way: 43 by ring and 45 by way of one rank, with 1,000 and more polls. In addition, the
 * queue of uploads is flushed once for each batch. */
static void check(const char *model, const char *spec, clq_group_config group) {
    char where[128];
    (void)snprintf(where, sizeof where, "%s by %s", model, clq_algorithm_name(group.algorithm));
    const counts c = count(model, spec, group, NULL);
    const double *of = c.of;
    assert_true(c.gpus);
    assert_true(isfinite(c.last_loss) && c.last_loss > 0 && c.last_loss < 3);
    at_most(where, "flushes", of[STRICT_FLUSHES], 5 + UPLOAD_FLUSHES);
    at_most(where, "markers", of[STRICT_MARKERS], 1);
    at_most(where, "waits", of[STRICT_WAITS], 4);
    at_most(where, "callbacks", of[STRICT_CALLBACKS], 4);
    at_most(where, "calls in all", of[STRICT_FLUSHES] + of[STRICT_MARKERS] + of[STRICT_WAITS] + of[STRICT_CALLBACKS],
            14 + UPLOAD_FLUSHES);
    at_most(where, "polls", of[STRICT_POLLS], 300);
    at_most(where, "blocking reads", of[STRICT_BLOCKING_READS], 0);
    at_most(where, "blocking writes", of[STRICT_BLOCKING_WRITES], 0);
    at_most(where, "finishes", of[STRICT_FINISHES], 0);
    at_most(where, "pageable transfers", of[STRICT_PAGEABLE], 0);
    at_most(where, "transfers of memory pinned elsewhere", of[STRICT_FOREIGN_PINNED], 0);
    at_most(where, "waits for commands that were not flushed", of[STRICT_UNFLUSHED], 0);
    assert_true(of[STRICT_LAUNCHES] > 5);
}

static void steps_take_few_calls(void **state) {
    (void)state;
    static const clq_algorithm algorithms[] = {CLQ_ALGORITHM_RING, CLQ_ALGORITHM_REDUCE_TO_ONE, CLQ_ALGORITHM_DOUBLING,
                                               CLQ_ALGORITHM_AUTO};
    for (size_t a = 0; a < CLQ_COUNT_OF(algorithms); a++)
        check("mlp", "nvidia:0,nvidia:1", (clq_group_config){.algorithm = algorithms[a]});
    check("small", "nvidia:0,nvidia:1", (clq_group_config){.algorithm = CLQ_ALGORITHM_RING});
}

/* ---- what a batch costs ---- */

/* A step on one GPU makes its launches and one transfer of samples and labels, which takes one more flush. The plain
 * way takes two transfers. */
static void a_batch_is_one_transfer(void **state) {
    (void)state;
    static const char *const disabled[] = {NULL, "upload ahead"};
    for (unsigned plain = 0; plain < 2; plain++) {
        const counts c = count("mlp", "nvidia:0", (clq_group_config){0}, disabled[plain]);
        const double *of = c.of;
        assert_true(c.gpus && of[STRICT_LAUNCHES] > 5);
        assert_true(of[STRICT_COMMANDS] - of[STRICT_LAUNCHES] == (plain ? 2.0 : 1.0));
        assert_true(of[STRICT_FLUSHES] == (plain ? 1.0 : 1.0 + UPLOAD_FLUSHES));
        assert_true(of[STRICT_MARKERS] == 0 && of[STRICT_PAGEABLE] == 0 && of[STRICT_UNFLUSHED] == 0);
    }
}

/* ---- what a log costs ---- */

enum { LOGGED = 20, EVERY = 5, BEFORE = 2 * EVERY };

static clq_status forget(void *context, const clq_step_info *info) {
    ++*(size_t *)context;
    return info->loss > 0 ? CLQ_OK : clq_fail(CLQ_ERROR_INTERNAL, "the loss is %g", info->loss);
}

/* Counts calls in which a thread waits for all that its device has to do: reads, writes and finishes. */
static unsigned long blocking(clq_trainer *trainer, clq_dataset *data, size_t steps, bool logs) {
    size_t told = 0;
    assert_ok(clq_dataset_seek(data, 0, 0));
    layer.reset();
    assert_ok(clq_fit(trainer, data,
                      &(clq_fit_config){.steps = steps,
                                        .context = &told,
                                        .on_log = logs ? forget : NULL,
                                        .log_every = EVERY,
                                        .log_every_s = SECONDS_MOST}));
    assert_int_equal(told, logs ? steps : 0);
    return layer.count(-1, STRICT_BLOCKING_READS) + layer.count(-1, STRICT_BLOCKING_WRITES) +
           layer.count(-1, STRICT_FINISHES) + layer.count(-1, STRICT_PAGEABLE);
}

/* The difference of two fits within an epoch counts: at their end both cost the same. */
static void logs_block_now_and_then(void **state) {
    (void)state;
    static const char *const specs[] = {"nvidia:0", "nvidia:0,nvidia:1"};
    for (size_t d = 0; d < CLQ_COUNT_OF(specs); d++) {
        clq_devices devices;
        clq_trainer *trainer;
        clq_trainer_config config = clq_trainer_config_default();
        config.measure_gradient = true;
        (void)alarm(SECONDS_MOST);
        assert_ok(clq_devices_select(sys, specs[d], &devices));
        config.global_batch = SHARE * devices.count;
        clq_dataset *data = open_data(2 * (BEFORE + LOGGED), config.global_batch);
        clq_model *model = make_model("mlp");
        assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
        for (int logs = 0; logs < 2; logs++) {
            const unsigned long few = blocking(trainer, data, BEFORE, logs);
            const unsigned long calls = blocking(trainer, data, BEFORE + LOGGED, logs) - few;
            printf("%s, %d steps %s a log: %lu blocking calls\n", specs[d], (int)LOGGED, logs ? "with" : "without",
                   calls);
            assert_int_equal(calls, logs ? LOGGED / EVERY * (d + 1) : 0);
        }
        clq_trainer_destroy(trainer);
        clq_dataset_destroy(data);
        clq_model_destroy(model);
        (void)alarm(0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_take_few_calls),
                                       cmocka_unit_test(a_batch_is_one_transfer),
                                       cmocka_unit_test(logs_block_now_and_then)};
    if (strict_load(&layer, "disguise=nn- hold seed=1") != 0) return 1;
    return cmocka_run_group_tests_name("train/counts", tests, open_system, close_system);
}
