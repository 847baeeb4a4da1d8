/* Rows are sent to devices whose memory is not the host's. Other devices read the rows where they are. */
#include "support/apart.h"
#include "support/check.h"
#include "support/disguise.h"
#include "support/files.h"
#include "support/synthetic.h"
#include "support/system.h"
#include "train/train.h"

#include <math.h>

enum { STEPS = 12, BATCH = 64, LAST = 37, SECONDS_MOST = 240 };

static clq_dataset *data;

typedef struct run {
    const char *spec, *trace;
    bool by_hand; /* batch by batch instead of by clq_fit */
    bool unified; /* out: whether the first device shares the host's memory */
    double losses[STEPS];
} run;

static clq_status note_loss(void *context, const clq_step_info *info) {
    ((run *)context)->losses[info->step - 1] = info->loss;
    return CLQ_OK;
}

static void train_by_hand(run *r, clq_trainer *trainer) {
    for (size_t i = 0; i < STEPS; i++) {
        clq_batch batch;
        bool more;
        clq_step_info info;
        assert_ok(clq_dataset_next(data, &batch, &more));
        if (!more) assert_ok(clq_dataset_next(data, &batch, &more)); /* first of the next epoch */
        assert_true(more);
        assert_ok(clq_step(trainer, &batch));
        assert_ok(clq_step_read(trainer, &info));
        r->losses[i] = info.loss;
    }
}

static void train(run *r) {
    clq_devices devices;
    clq_model *model;
    clq_trainer *trainer;
    clq_trainer_config config = apart_config();
    config.global_batch = BATCH;
    config.trace_steps = r->trace ? STEPS : 0;
    (void)alarm(SECONDS_MOST);
    assert_ok(clq_devices_select(sys, r->spec, &devices));
    assert_ok(clq_model_builtin("mlp", &model));
    assert_ok(clq_dataset_seek(data, 0, 0));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    if (r->by_hand)
        train_by_hand(r, trainer);
    else
        assert_ok(clq_fit(trainer, data, &(clq_fit_config){.steps = STEPS, .context = r, .on_step = note_loss}));
    if (r->trace) assert_ok(clq_trainer_write_trace(trainer, r->trace));
    clq_device_info info;
    size_t share;
    assert_ok(clq_trainer_replica(trainer, 0, &info, &share));
    r->unified = info.host_unified;
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
    (void)alarm(0);
}

static size_t count_uploads(const char *path) {
    json_t *trace;
    size_t count = 0;
    assert_ok(clq_json_read(path, 64 << 20, 8, &trace));
    const json_t *events = json_object_get(trace, "traceEvents");
    for (size_t i = 0; i < json_array_size(events); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(events, i), "name"));
        count += strcmp(name, "upload/samples") == 0 || strcmp(name, "upload/labels") == 0;
    }
    json_decref(trace);
    return count;
}

static void the_disguise_is_on(void **state) {
    (void)state;
    run basic = {.spec = "pocl:0"}, pool = {.spec = "pocl:5"};
    train(&basic);
    train(&pool);
    assert_false(basic.unified);
    assert_true(pool.unified);
}

/* Both ways have the same batches, with ragged last ones among them. On one device both give the same bits. Devices
 * differ only by the order of sums. */
static void both_ways_train_alike(void **state) {
    (void)state;
    static const char *const specs[] = {"pocl:0", "pocl:5", "pocl:0,pocl:1", "pocl:0,pocl:5"};
    run first = {0};
    for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
        run fit = {.spec = specs[i]}, by_hand = {.spec = specs[i], .by_hand = true};
        train(&fit);
        train(&by_hand);
        assert_memory_equal(fit.losses, by_hand.losses, sizeof fit.losses);
        if (i == 0) first = fit;
        for (size_t s = 0; s < STEPS; s++)
            if (!(fabs(fit.losses[s] - first.losses[s]) <= 1e-5 * first.losses[s]))
                fail_msg("%s: loss %zu is %.9g, and %.9g on %s", specs[i], s, fit.losses[s], first.losses[s], specs[0]);
    }
    assert_true(first.losses[STEPS - 1] < first.losses[0]);
}

static void uploads_show(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        size_t uploads;
    } all[] = {{"pocl:0", 2 * STEPS}, {"pocl:5", 0}, {"pocl:0,pocl:5", 2 * STEPS}, {"pocl:0,pocl:1", 4 * STEPS}};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) {
        run r = {.spec = all[i].spec, .trace = files_path("trace.json")};
        train(&r);
        assert_int_equal(count_uploads(r.trace), all[i].uploads);
    }
}

static int start(void **state) {
    if (files_begin(state) != 0 || open_synthetic("train", 2 * BATCH + LAST, &data) != CLQ_OK) return -1;
    if (clq_dataset_batch(data, BATCH, false) != CLQ_OK) return -1;
    return open_system(state);
}
static int stop(void **state) {
    clq_dataset_destroy(data);
    clq_system_close(sys);
    return files_end(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_disguise_is_on), cmocka_unit_test(both_ways_train_alike),
                                       cmocka_unit_test(uploads_show)};
    if (disguise_load("basic") != 0) return 1;
    return cmocka_run_group_tests_name("train/upload", tests, start, stop);
}
