/* on_log of clq_fit is told every step once, in order and later, with the figures that on_step was told when it waited
 * for the step. This also holds if the training is stopped or a device fails. */
#include "support/apart.h"
#include "support/check.h"
#include "support/faults.h"
#include "support/named.h"
#include "support/synthetic.h"
#include "support/system.h"
#include "train/trainer.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 37, BATCH = 4, INPUTS = 6, CLASSES = 3, UNITS = 5, EPOCH = (SAMPLES + BATCH - 1) / BATCH };
enum { STEPS_MOST = 2 * CLQ_METRIC_SLOTS + 300, SECONDS_MOST = 240 };
static const double never_s = 1e9; /* so long that the clock never causes a read, which no test could predict */

static faults layer;
static float samples[SAMPLES][INPUTS];
static int32_t labels[SAMPLES];

typedef struct figures {
    double loss, norm, lr, accuracy;
    size_t samples;
} figures;

typedef struct run {
    const char *spec;
    size_t steps, every, accumulate; /* batches of an update; 0: one */
    size_t stop_at, refuse_at;       /* steps at which on_step, or on_log, ends the fit; 0: never */
    bool silent;                     /* no on_step, so nothing waits for a step */
    clq_trainer *trainer;
    size_t made, told; /* counted by on_step and by on_log */
    double seconds;    /* sum over the steps of the epoch */
    figures by_step[STEPS_MOST], by_log[STEPS_MOST];
} run;

static size_t epoch_of(const run *of) { return clq_ceil_div(EPOCH, CLQ_MAX(of->accumulate, (size_t)1)); }

static figures figures_of(const clq_step_info *info) {
    return (figures){info->loss, info->grad_norm, info->lr, clq_metric_value(&info->metrics, "accuracy"),
                     info->samples};
}

static clq_status on_step(void *context, const clq_step_info *info) {
    run *r = context;
    assert_int_equal(info->step, r->made + 1);
    r->by_step[r->made++] = figures_of(info);
    return r->made == r->stop_at ? clq_fail(CLQ_ERROR_INTERRUPTED, "stopped") : CLQ_OK;
}

/* Steps are told after every `every` of them, at the end of an epoch, and at the end of the fit. */
static clq_status on_log(void *context, const clq_step_info *info) {
    run *r = context;
    assert_int_equal(info->step, r->told + 1);
    assert_true(r->told < STEPS_MOST);
    if (!r->silent) {
        const size_t epoch = epoch_of(r), of_epoch = (r->made - 1) % epoch + 1;
        const bool read = of_epoch % r->every == 0 || of_epoch == epoch || r->made == r->steps || r->made == r->stop_at;
        assert_true(r->told < r->made && read);
    }
    assert_true(info->seconds >= 0);
    r->seconds += info->seconds;
    r->by_log[r->told++] = figures_of(info);
    return r->told == r->refuse_at ? clq_fail(CLQ_ERROR_WRITE, "the log is full") : CLQ_OK;
}

static clq_status on_epoch(void *context, const clq_epoch_info *info) {
    run *r = context;
    const size_t last = CLQ_MIN((info->epoch + 1) * epoch_of(r), r->steps);
    assert_int_equal(r->told, last);
    assert_true(r->seconds > 0 && r->seconds <= info->train.seconds);
    r->seconds = 0;
    return CLQ_OK;
}

static clq_status fit(run *r, const char *thread, unsigned fail_at, unsigned *calls) {
    clq_devices devices;
    clq_model *model;
    clq_dataset *data;
    const size_t shape[] = {INPUTS};
    clq_trainer_config config = apart_config();
    const clq_fit_config how = {.steps = r->steps,
                                .context = r,
                                .on_step = r->silent ? NULL : on_step,
                                .on_epoch = thread ? NULL : on_epoch,
                                .on_log = on_log,
                                .log_every = (uint32_t)r->every,
                                .log_every_s = never_s};
    r->made = r->told = 0;
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.measure_gradient = true;
    config.strategy_options.accumulate = r->accumulate;
    assert_ok(clq_lr_schedule_parse("exponential:decay_steps=5,decay_rate=0.99", &config.schedule));
    (void)alarm(SECONDS_MOST);
    assert_ok(clq_devices_select(sys, r->spec, &devices));
    assert_ok(clq_model_create("small", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(INPUTS));
    x = clq_dense(model, x, &(clq_dense_config){.units = UNITS, .activation = CLQ_ACTIVATION_TANH});
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = CLASSES})));
    config.loss.from_logits = true;
    assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, labels, CLQ_I32, 0, &data));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    assert_ok(clq_trainer_create(model, &devices, &config, &r->trainer));
    layer.only(thread);
    if (thread) (void)layer.arm(fail_at, CL_MEM_OBJECT_ALLOCATION_FAILURE, false);
    clq_status status = clq_fit(r->trainer, data, &how);
    if (thread) *calls = layer.arm(0, 0, false);
    layer.only(NULL);
    clq_trainer_destroy(r->trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    (void)alarm(0);
    return status;
}

static void check_figures(const run *r, const figures *wanted, const char *where) {
    for (size_t s = 0; s < r->told; s++)
        if (memcmp(&r->by_log[s], &wanted[s], sizeof *wanted) != 0)
            fail_msg("%s on %s, every %zu: step %zu is loss %.17g, norm %.17g, and was %.17g, %.17g", where, r->spec,
                     r->every, s + 1, r->by_log[s].loss, r->by_log[s].norm, wanted[s].loss, wanted[s].norm);
}

static const char *const specs[] = {"pocl:0", "pocl:5", "pocl:0,pocl:1"};
static run r, clean;

/* Fits end one step before the end of an epoch, at the end, or one step after it. */
static void each_step_is_told_once(void **state) {
    (void)state;
    static const size_t everies[] = {1, 3, EPOCH, 50};
    for (size_t d = 0; d < CLQ_COUNT_OF(specs); d++)
        for (size_t i = 0; i < CLQ_COUNT_OF(everies); i++)
            for (size_t steps = 3 * EPOCH - 1; steps <= 3 * EPOCH + 1; steps++) {
                r = (run){.spec = specs[d], .steps = steps, .every = everies[i]};
                assert_ok(fit(&r, NULL, 0, NULL));
                assert_int_equal(r.made, steps);
                assert_int_equal(r.told, steps);
                check_figures(&r, r.by_step, "each step");
                assert_true(r.by_log[0].norm > 0 && r.by_log[0].loss > 0 && r.by_log[0].loss != r.by_log[EPOCH].loss);
                assert_true(r.by_log[0].lr > r.by_log[steps - 1].lr);
                assert_int_equal(r.by_log[EPOCH - 1].samples, SAMPLES % BATCH);
            }
}

/* An update of several batches has the figures of all its batches. Its last batch's row of metrics may be read with
 * rows of its other batches or without them, as the rows are used round and round. The last update of an epoch has
 * fewer batches. */
static void updates_of_several_batches_are_told_once(void **state) {
    (void)state;
    static const size_t batches[] = {2, 4, 256}, samples_most[] = {2 * BATCH, 4 * BATCH, SAMPLES};
    for (size_t d = 0; d < CLQ_COUNT_OF(specs); d++)
        for (size_t i = 0; i < CLQ_COUNT_OF(batches); i++) {
            r = (run){.spec = specs[d], .every = 3, .accumulate = batches[i]};
            const size_t epoch = epoch_of(&r);
            r.steps = (d ? 3 : CLQ_METRIC_SLOTS / EPOCH + 2) * epoch - (epoch > 1);
            assert_ok(fit(&r, NULL, 0, NULL));
            assert_int_equal(r.made, r.steps);
            assert_int_equal(r.told, r.steps);
            check_figures(&r, r.by_step, "batches");
            for (size_t s = 0; s < r.steps; s++)
                assert_int_equal(r.by_log[s].samples,
                                 (s + 1) % epoch ? samples_most[i] : SAMPLES - (epoch - 1) * samples_most[i]);
        }
}

static void stopped_fits_tell_all_that_was_made(void **state) {
    (void)state;
    for (size_t d = 0; d < CLQ_COUNT_OF(specs); d++)
        for (size_t stop = 1; stop < 2 * EPOCH; stop += 3) {
            r = (run){.spec = specs[d], .steps = 3 * EPOCH, .every = 5, .stop_at = stop};
            assert_fails(CLQ_ERROR_INTERRUPTED, "stopped", fit(&r, NULL, 0, NULL));
            assert_int_equal(r.told, stop);
            check_figures(&r, r.by_step, "stopped");
        }
}

static void a_log_that_refuses_ends_the_fit(void **state) {
    (void)state;
    r = (run){.spec = "pocl:0", .steps = 3 * EPOCH, .every = 5, .refuse_at = 7};
    assert_fails(CLQ_ERROR_WRITE, "the log is full", fit(&r, NULL, 0, NULL));
    assert_int_equal(r.told, 7); /* on_log is not called again */
    assert_int_equal(r.made, 10);
}

/* The rows of metrics are used round and round: some reads go past the last row. */
static void rows_are_used_again(void **state) {
    (void)state;
    for (size_t d = 0; d < CLQ_COUNT_OF(specs); d++) {
        r = (run){.spec = specs[d], .steps = STEPS_MOST, .every = 7};
        assert_ok(fit(&r, NULL, 0, NULL));
        assert_int_equal(r.told, STEPS_MOST);
        check_figures(&r, r.by_step, "all rows");
    }
}

static unsigned calls_of(const char *spec, const char *thread, size_t steps, size_t accumulate) {
    unsigned calls;
    r = (run){.spec = spec, .steps = steps, .every = CLQ_METRIC_SLOTS, .accumulate = accumulate, .silent = true};
    assert_ok(fit(&r, thread, 0, &calls));
    return calls;
}

/* Each call of a replica fails in turn, long before the log is read. Only steps that were finished are told, with the
 * same figures as without the failure. */
static void failed_fits_tell_what_was_finished(void **state) {
    (void)state;
    static const struct {
        const char *spec, *thread;
        bool counts; /* each step takes the same number of calls, since nothing waits for a replica */
        size_t accumulate;
    } all[] = {
        {"pocl:0", "replica 0", true, 1}, {"pocl:0,pocl:1", "replica 1", false, 1}, {"pocl:0", "replica 0", true, 2}};
    for (size_t d = 0; d < CLQ_COUNT_OF(all); d++) {
        const size_t batches = all[d].accumulate, steps = EPOCH / batches - 1;
        clean = (run){.spec = all[d].spec, .steps = steps, .every = CLQ_METRIC_SLOTS, .accumulate = batches};
        assert_ok(fit(&clean, NULL, 0, NULL));
        const unsigned of_two = calls_of(all[d].spec, all[d].thread, 2, batches);
        const unsigned of_step =
            (calls_of(all[d].spec, all[d].thread, steps, batches) - of_two) / (unsigned)(steps - 2);
        const unsigned first = of_two - 2 * of_step; /* calls that only the first step and the end of the fit make */
        assert_true(of_step > 3);
        size_t failed = 0, told = 0;
        for (unsigned n = 1; n < of_step * steps; n += 3) {
            unsigned calls;
            r = (run){
                .spec = all[d].spec, .steps = steps, .every = CLQ_METRIC_SLOTS, .accumulate = batches, .silent = true};
            clq_status status = fit(&r, all[d].thread, n, &calls);
            if (status == CLQ_OK && !all[d].counts) continue;  /* a wait polled once more */
            assert_int_equal(status, CLQ_ERROR_DEVICE_MEMORY); /* the device is not lost and still answers */
            check_figures(&r, clean.by_step, "failed");
            const size_t most = (n - 1) / of_step, least = n > first ? (n - 1 - CLQ_MIN(n - 1, first)) / of_step : 0;
            if (all[d].counts && (r.told + 1 < least || r.told > most + 1))
                fail_msg("call %u, %u a step: %zu steps were told", n, of_step, r.told);
            failed++;
            told += r.told;
        }
        assert_true(failed >= steps && told > steps);
    }
}

static void nonsense_is_refused(void **state) {
    (void)state;
    clq_devices devices;
    clq_model *model;
    clq_dataset *data;
    clq_trainer *trainer;
    const clq_trainer_config config = apart_config();
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_model_builtin("mlp", &model));
    assert_ok(open_synthetic("train", 64, &data));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    assert_fails(CLQ_ERROR_ARGUMENT, "log_every_s is -1",
                 clq_fit(trainer, data, &(clq_fit_config){.steps = 1, .on_log = on_log, .log_every_s = -1}));
    assert_fails(CLQ_ERROR_ARGUMENT, "log_every_s is ",
                 clq_fit(trainer, data, &(clq_fit_config){.steps = 1, .on_log = on_log, .log_every_s = (double)NAN}));
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

/* ---- norms of steps by hand ---- */

static double norm_of_gradient(clq_trainer *trainer, const clq_model *model) {
    static float gradient[INPUTS * UNITS];
    double sum = 0;
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, v, &info));
        assert_true(info.elements <= CLQ_COUNT_OF(gradient));
        assert_ok(clq_trainer_get_gradient(trainer, 0, v, gradient));
        for (size_t i = 0; i < info.elements; i++) sum += (double)gradient[i] * (double)gradient[i];
    }
    return sqrt(sum);
}

/* The norm is that of the step's gradient, whatever is evaluated in between. Before the update there is no norm. */
static void norms_belong_to_their_gradients(void **state) {
    (void)state;
    for (size_t d = 0; d < CLQ_COUNT_OF(specs); d++) {
        clq_devices devices;
        clq_model *model;
        clq_dataset *data;
        clq_trainer *trainer;
        clq_step_info info;
        clq_totals totals;
        const size_t shape[] = {INPUTS};
        clq_trainer_config config = apart_config();
        config.global_batch = BATCH;
        config.sample_dtype = CLQ_F32;
        config.measure_gradient = true;
        assert_ok(clq_devices_select(sys, specs[d], &devices));
        assert_ok(clq_model_create("small", &model));
        clq_tensor x = clq_dense(model, clq_input(model, CLQ_SHAPE(INPUTS)),
                                 &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX});
        assert_ok(clq_model_finish(model, x));
        assert_ok(clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, shape, labels, CLQ_I32, 0, &data));
        assert_ok(clq_dataset_batch(data, BATCH, false));
        assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
        for (unsigned i = 0; i < 4; i++) {
            clq_batch batch;
            bool more;
            assert_ok(clq_dataset_next(data, &batch, &more));
            assert_true(more);
            assert_ok(clq_step_gradients(trainer, &batch));
            assert_ok(clq_step_reduce(trainer));
            assert_ok(clq_step_read(trainer, &info));
            assert_true(isnan(info.grad_norm));
            const double wanted = norm_of_gradient(trainer, model);
            if (i % 2) assert_ok(clq_evaluate(trainer, data, &totals));
            assert_ok(clq_step_apply(trainer));
            if (i > 1) assert_ok(clq_evaluate(trainer, data, &totals));
            assert_ok(clq_step_read(trainer, &info));
            assert_true(wanted > 0 && fabs(info.grad_norm - wanted) <= 1e-6 * wanted);
        }
        clq_trainer_destroy(trainer);
        clq_dataset_destroy(data);
        clq_model_destroy(model);
    }
}

static int start(void **state) {
    for (int i = 0; i < SAMPLES; i++) {
        labels[i] = i % CLASSES;
        for (int k = 0; k < INPUTS; k++)
            samples[i][k] = (float)((i * 7 + k * 3) % 11) / 11.0f + (float)(k == labels[i]);
    }
    if (faults_load(&layer) != 0) return -1;
    return open_system(state);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_is_told_once),
        cmocka_unit_test(updates_of_several_batches_are_told_once),
        cmocka_unit_test(stopped_fits_tell_all_that_was_made),
        cmocka_unit_test(a_log_that_refuses_ends_the_fit),
        cmocka_unit_test(rows_are_used_again),
        cmocka_unit_test(failed_fits_tell_what_was_finished),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(norms_belong_to_their_gradients),
    };
    return run_named(argc, argv, tests, start, close_system);
}
