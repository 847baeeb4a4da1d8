/* Replicas that wait for a slower one take over some of its work; nobody can tell from the results. */
#include "strategy/strategy.h"
#include "support/check.h"
#include "support/system.h"
#include "train/trainer.h"

#include <pthread.h>
#include <unistd.h>

enum { STEPS = 30, SECONDS_MOST = 240 };

typedef struct run {
    const char *spec, *model;
    size_t batch, take; /* the last batch of an epoch is smaller */
    bool traced;        /* launches are made one by one: nobody helps */
    double losses[STEPS];
    uint64_t helps; /* out */
} run;

static clq_status note_loss(void *context, const clq_step_info *info) {
    ((run *)context)->losses[info->step - 1] = info->loss;
    return CLQ_OK;
}

static clq_status train(run *r) {
    clq_devices devices;
    clq_model *model = NULL;
    clq_trainer *trainer = NULL;
    clq_dataset *data = NULL;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = r->batch;
    config.trace_steps = r->traced ? STEPS : 0;
    (void)alarm(SECONDS_MOST);
    clq_status status = clq_devices_select(sys, r->spec, &devices);
    if (status == CLQ_OK) status = clq_model_builtin(r->model, &model);
    if (status == CLQ_OK) status = clq_dataset_open("synthetic:28x28x1/10/512", "train", &data);
    if (status == CLQ_OK) status = clq_dataset_take(data, r->take);
    if (status == CLQ_OK) status = clq_dataset_batch(data, r->batch, false);
    if (status == CLQ_OK) status = clq_trainer_create(model, &devices, &config, &trainer);
    if (status == CLQ_OK)
        status = clq_fit(trainer, data, &(clq_fit_config){.steps = STEPS, .context = r, .on_step = note_loss});
    r->helps = 0;
    for (unsigned i = 0; status == CLQ_OK && i < clq_trainer_replicas(trainer); i++)
        r->helps += clq_plan_helps(clq_trainer_plan(trainer, i));
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    (void)alarm(0);
    return status;
}

/* Takes a core from one of the replicas, now and then. */
static void *take_a_core(void *stop) {
    while (!atomic_load((atomic_bool *)stop)) {
        for (double until = clq_now() + 0.005; clq_now() < until;) continue;
        (void)usleep(3000);
    }
    return NULL;
}

/* Where others want the cores replicas may be at work one after the other, and help then comes too late: not every
 * time. */
static void check_same_losses(const run *alone, bool loaded) {
    enum { ATTEMPTS = 100 };
    run helped = {.helps = 0};
    for (int i = 0; i < ATTEMPTS && helped.helps == 0; i++) {
        atomic_bool stop = false;
        pthread_t hog;
        helped = *alone;
        helped.traced = false;
        if (loaded) assert_int_equal(pthread_create(&hog, NULL, take_a_core, &stop), 0);
        clq_status status = train(&helped);
        atomic_store(&stop, true);
        if (loaded) assert_int_equal(pthread_join(hog, NULL), 0);
        assert_ok(status);
        assert_memory_equal(helped.losses, alone->losses, sizeof helped.losses);
        if (clq_cpu_count() < 2) return; /* nobody has a core of his own */
    }
    assert_true(helped.helps > 0);
}

static void nobody_can_tell(void **state) {
    (void)state;
    static const struct {
        size_t batch, take;
    } all[] = {{128, 512}, {101, 400}, {100, 301}}; /* equal shares, unequal ones, and one with a sample and none */
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) {
        run alone = {
            .spec = "pocl:0,pocl:1", .model = "cnn", .batch = all[i].batch, .take = all[i].take, .traced = true};
        assert_ok(train(&alone));
        assert_int_equal(alone.helps, 0);
        for (int loaded = 0; loaded < 2; loaded++) check_same_losses(&alone, loaded);
    }
}

/* Small steps, devices of several units, devices of other drivers, and replicas without a core of their own. */
static void others_do_not_help(void **state) {
    (void)state;
    static const struct {
        const char *spec, *model;
    } all[] = {
        {"pocl:0,pocl:1", "mlp"},
        {"pocl:5*2", "cnn"},
        {"pocl:0,pocl:5", "cnn"},
#if defined(__x86_64__)
        {"pocl:0,intel", "cnn"},
#endif
        {"pocl:0", "cnn"}
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) {
        run r = {.spec = all[i].spec, .model = all[i].model, .batch = 128, .take = 512};
        assert_ok(train(&r));
        assert_int_equal(r.helps, 0);
    }
}

/* Whatever cannot be had: the reason is told, and nobody is waited for. */
static void memory_runs_out(void **state) {
    (void)state;
    run r = {.spec = "pocl:0,pocl:1", .model = "cnn", .batch = 128, .take = 256};
    assert_ok(train(&r));
    (void)clq_memory_fail_at(0, false);
    assert_ok(train(&r));
    uint64_t allocations = clq_memory_fail_at(0, false), failures = 0;
    assert_true(allocations > 100);
    for (uint64_t nth = 1; nth <= allocations; nth += 1 + allocations / 60) {
        (void)clq_memory_fail_at(nth, nth % 2);
        clq_status status = train(&r);
        (void)clq_memory_fail_at(0, false);
        failures += status != CLQ_OK;
        if (status != CLQ_OK && (status != CLQ_MEMORY || !strstr(clq_error_detail(), "memory")))
            fail_msg("allocation %d: %s: %s", (int)nth, clq_status_text(status), clq_error_detail());
    }
    assert_true(failures > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_can_tell), cmocka_unit_test(others_do_not_help),
                                       cmocka_unit_test(memory_runs_out)};
    return cmocka_run_group_tests_name("train/helpers", tests, open_system, close_system);
}
