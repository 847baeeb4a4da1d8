/* Probes of a small model on two devices, and what is kept of predictions. */
#include "support/check.h"
#include "support/faults.h"
#include "support/system.h"
#include "why/why.h"

enum { BATCH = 8, SAMPLES = 64 };

static faults layer;

typedef struct rig {
    clq_model *model;
    clq_dataset *data;
    clq_devices devices;
    clq_trainer_config config;
    clq_why_task task;
} rig;

static void open_rig(rig *r, const char *spec) {
    *r = (rig){.config = clq_trainer_config_default()};
    assert_ok(clq_devices_select(sys, spec, &r->devices));
    assert_ok(clq_dataset_open("synthetic:3/2/64", "train", &r->data));
    assert_ok(clq_model_create("small", &r->model));
    assert_ok(clq_model_finish(
        r->model, clq_dense(r->model, clq_input(r->model, CLQ_SHAPE(3)), &(clq_dense_config){.units = 2})));
    r->config.global_batch = BATCH;
    r->config.loss.from_logits = true;
    r->config.sample_dtype = clq_dataset_get_info(r->data)->sample_dtype;
    r->task = (clq_why_task){.model = r->model, .devices = &r->devices, .config = &r->config, .data = r->data};
}

static void close_rig(rig *r) {
    clq_dataset_destroy(r->data);
    clq_model_destroy(r->model);
}

/* One full probe of the rig on "pocl:0,pocl:1" takes seconds, so all cases share it. */
static struct whole {
    clq_probes *probes;
    double seconds;       /* that the probe took; compiling may have taken most of them */
    uint64_t allocations; /* that the probe made */
} whole;

static int probe_the_whole(void **state) {
    rig r;
    if (open_system(state) != 0) return -1;
    whole.probes = clq_alloc(1, sizeof *whole.probes);
    assert_non_null(whole.probes);
    open_rig(&r, "pocl:0,pocl:1");
    const double begin = clq_now();
    (void)clq_memory_fail_at(0, false);
    assert_ok(clq_why_probe(&r.task, whole.probes));
    whole.allocations = clq_memory_fail_at(0, false);
    whole.seconds = clq_now() - begin;
    close_rig(&r);
    return 0;
}

static int end(void **state) {
    clq_free(whole.probes);
    return close_system(state);
}

static void two_devices_are_probed(void **state) {
    (void)state;
    const clq_probes *p = whole.probes;
    assert_int_equal(p->batch, BATCH);
    assert_int_equal(p->samples, SAMPLES);
    assert_int_equal(p->device_count, 2);
    assert_int_equal(p->accumulate, 1);
    assert_int_equal(p->group_count, 1);
    assert_int_equal(p->groups[0].count, 2);
    assert_int_equal(p->busy_cores[1], 2);
    assert_true(p->rows_per_s > 0 && p->post_s > 0 && p->gradient_bytes >= 8 * sizeof(float));
    for (unsigned d = 0; d < 2; d++) {
        const clq_device_probe *device = &p->devices[d];
        assert_int_equal(device->step_count, 3); /* the share of two, the batch, and four times as many */
        assert_int_equal(device->steps[0].batch, BATCH / 2);
        assert_int_equal(device->steps[1].batch, BATCH);
        assert_int_equal(device->steps[2].batch, 4 * BATCH);
        for (unsigned i = 0; i < 3; i++) assert_true(device->steps[i].step_s > 0);
        assert_int_equal(device->launches, 1);
        assert_true(device->update_s > 0 && device->launch_s > 0 && device->row_s > 0);
        assert_true(device->gflops > 0 && device->gbps > 0);
        assert_true(device->memory_share > 0 && device->memory_share < 1);
        assert_true(p->groups[0].gflops[d] > 0 && p->groups[0].gbps[d] > 0);
    }
    assert_string_equal(p->strategy, "mirrored");
    assert_int_equal(p->staleness, 4);
    assert_int_equal(p->groups[0].pipe.stages, 0);      /* one layer */
    assert_int_equal(p->groups[0].slices.exchanges, 1); /* whose two units are joined */
    assert_int_equal(p->groups[0].slices.bytes, BATCH * 2 * sizeof(float));
    assert_true(p->groups[0].slices.work > 0 && p->groups[0].slices.work <= 1);
}

typedef struct asked {
    rig *rig;
    clq_probes *probes;
    clq_choice_made *made;
} asked;

/* Fails the allocations number 1, 2, 4, 8 and so on, up to `most`. The call makes too many for walk_allocations. */
static void walk_some_allocations(clq_status (*call)(const asked *), const asked *context, uint64_t most) {
    size_t failed = 0;
    for (uint64_t nth = 1; nth <= most; nth *= 2) {
        clq_memory_fail_at(nth, false);
        clq_status status = call(context);
        if (clq_memory_fail_at(0, false) < nth) assert_ok(status); /* the call made fewer allocations */
        failed += status != CLQ_OK;
        if (status != CLQ_OK && status != CLQ_ERROR_MEMORY) fail_msg("allocation %d: %s", (int)nth, clq_error_detail());
    }
    assert_true(failed > 5);
}

static clq_status probe_once(const asked *a) { return clq_why_probe(&a->rig->task, a->probes); }

/* A failing allocation ends the probes, wherever it is. The leak sanitizer checks that nothing leaks. */
static void allocations_fail(void **state) {
    (void)state;
    rig r;
    clq_probes *p = clq_alloc(1, sizeof *p);
    assert_non_null(p);
    open_rig(&r, "pocl:0,pocl:1");
    walk_some_allocations(probe_once, &(asked){.rig = &r, .probes = p}, whole.allocations);
    clq_free(p);
    close_rig(&r);
}

/* An OpenCL call that fails in any thread ends the probes. No thread waits for the thread that failed, as a collective
 * would for 30 seconds. On a crowded machine probes take longer. */
static void calls_fail(void **state) {
    (void)state;
    static const struct {
        const char *thread; /* NULL: any */
        unsigned nth;
    } rows[] = {{NULL, 400}, {"probe 0", 1}, {"probe 0", 4000}, {"probe 1", 40}};
    rig r;
    clq_probes *p = clq_alloc(1, sizeof *p);
    assert_non_null(p);
    open_rig(&r, "pocl:0,pocl:1");
    size_t failed = 0;
    const double seconds_most = 20 + whole.seconds;
    for (size_t i = 0; i < CLQ_COUNT_OF(rows); i++) {
        const double start = clq_now();
        layer.only(rows[i].thread);
        (void)layer.arm(rows[i].nth, CL_OUT_OF_RESOURCES, false);
        clq_status status = clq_why_probe(&r.task, p);
        const unsigned calls = layer.arm(0, 0, false);
        if (calls < rows[i].nth) assert_ok(status);
        failed += status != CLQ_OK;
        if (status != CLQ_OK && !strstr(clq_error_detail(), "no shared memory left")) /* what buffers say of it */
            expect_text(clq_error_detail(), "CL_OUT_OF_RESOURCES");
        assert_true(clq_now() - start < seconds_most);
    }
    layer.only(NULL);
    assert_true(failed >= 3);
    clq_free(p);
    close_rig(&r);
}

static const clq_prediction predictions[] = {
    {.way = {"single", 0, 1, BATCH, 1}, .images_per_s = 300, .limit = CLQ_LIMIT_LAUNCHES},
    {.way = {"mirrored", 0, 2, BATCH, 1}, .images_per_s = 200, .limit = CLQ_LIMIT_COMMUNICATION}};

static clq_status keep(void *context) { return clq_why_keep(&((rig *)context)->task, predictions, 2); }

/* A prediction is kept for the same model, batch, optimizer and devices, and for no other. */
static void predictions_are_kept(void **state) {
    (void)state;
    rig r;
    clq_trainer *trainer;
    clq_kept_prediction kept;
    bool known;
    open_rig(&r, "pocl:0,pocl:1");
    walk_allocations(keep, &r);
    assert_ok(clq_trainer_create(r.model, &r.devices, &r.config, &trainer));
    assert_ok(clq_why_recall(trainer, r.model, &r.config, &known, &kept));
    assert_true(known);
    assert_true(kept.images_per_s == 200 && kept.best_images_per_s == 300 && kept.best_replicas == 1);
    assert_int_equal(kept.limit, CLQ_LIMIT_COMMUNICATION);
    clq_trainer_config others[10];
    for (size_t i = 0; i < CLQ_COUNT_OF(others); i++) others[i] = r.config;
    others[0].global_batch++;
    others[1].strategy_options.accumulate = 2;
    others[2].precision = CLQ_PRECISION_MIXED;
    others[3].optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD);
    others[4].recompute = CLQ_RECOMPUTE_ALL;
    others[5].matmul_precision = CLQ_MATMUL_MEDIUM;
    others[6].clip = (clq_clip){.kind = CLQ_CLIP_GLOBAL_NORM, .limit = 1};
    others[7].average = 0.9;
    others[8].check_numerics = true;
    others[9].disabled_paths = "overlap";
    for (size_t i = 0; i < CLQ_COUNT_OF(others); i++) {
        assert_ok(clq_why_recall(trainer, r.model, &others[i], &known, &kept));
        assert_false(known);
    }
    /* Settings that do not affect the time of a step change nothing. */
    clq_trainer_config same = r.config;
    same.seed++;
    same.optimizer.values[0] *= 2;
    same.strategy_options.staleness++;
    assert_ok(clq_why_recall(trainer, r.model, &same, &known, &kept));
    assert_true(known);
    clq_trainer_destroy(trainer);
    r.devices.count = 1;
    assert_ok(clq_trainer_create(r.model, &r.devices, &r.config, &trainer));
    assert_ok(clq_why_recall(trainer, r.model, &r.config, &known, &kept));
    assert_true(known && kept.images_per_s == 300);
    clq_trainer_destroy(trainer);
    close_rig(&r);
}

/* A choice with almost no budget. The rule's own device is measured whatever the budget is. */
static const clq_choosing hurried = {.strategy = "auto", .plain = true, .budget_s = 1e-6};

static clq_status choose_hurried(const asked *a) { return clq_why_choose(&a->rig->task, &hurried, a->made); }

static void the_rules_device_is_chosen_in_no_time(void **state) {
    (void)state;
    rig r;
    clq_choice_made *made = clq_alloc(1, sizeof *made);
    assert_non_null(made);
    open_rig(&r, "pocl:1");
    (void)clq_memory_fail_at(0, false);
    assert_ok(clq_why_choose(&r.task, &hurried, made));
    const uint64_t allocations = clq_memory_fail_at(0, false);
    assert_int_equal(made->best, 0);
    assert_int_equal(made->devices.count, 1);
    assert_int_equal(made->devices.items[0].index, r.devices.items[0].index);
    assert_int_equal(made->alternatives[0].state, CLQ_ALTERNATIVE_MEASURED);
    assert_true(made->alternatives[0].images_per_s > 0);
    assert_true(made->count > 1);
    for (size_t i = 1; i < made->count; i++) {
        assert_int_equal(made->alternatives[i].state, CLQ_ALTERNATIVE_NO_TIME);
        assert_true(made->alternatives[i].images_per_s == 0);
    }
    walk_some_allocations(choose_hurried, &(asked){.rig = &r, .made = made}, allocations);
    clq_free(made);
    close_rig(&r);
}

/* A device that fails is left out. If it was the only device, its failure is reported. */
static void a_failing_device_is_not_chosen(void **state) {
    (void)state;
    rig r;
    clq_choice_made *made = clq_alloc(1, sizeof *made);
    assert_non_null(made);
    open_rig(&r, "pocl:1");
    layer.only("replica 0"); /* the commands of a step: a buffer that fails would be CLQ_ERROR_MEMORY */
    (void)layer.arm(1, CL_OUT_OF_RESOURCES, true);
    assert_int_equal(clq_why_choose(&r.task, &hurried, made), CLQ_ERROR_DEVICE);
    assert_true(layer.arm(0, 0, false) > 0);
    layer.only(NULL);
    expect_text(clq_error_detail(), "CL_OUT_OF_RESOURCES");
    clq_free(made);
    close_rig(&r);
}

typedef struct keeping {
    clq_devices *devices;
    clq_hash128 key;
} keeping;

static clq_status keep_choice(void *context) {
    const keeping *k = context;
    clq_kept_choice choice = {.strategy = "mirrored", .images_per_s = 1234.5, .doubt = {.others = 0.5, .spread = 0.25}};
    return clq_why_keep_choice(k->key, k->devices, &choice);
}

static clq_status recall_choice(void *context) {
    const keeping *k = context;
    clq_kept_choice kept;
    bool known = false;
    CLQ_TRY(clq_why_recall_choice(k->key, &known, &kept));
    return known ? clq_why_choice_holds(&kept, k->devices, &known) : clq_fail(CLQ_ERROR_STATE, "nothing is kept");
}

/* A choice is kept by its key, for these devices only. */
static void choices_are_kept(void **state) {
    (void)state;
    rig r;
    clq_kept_choice kept;
    clq_hash128 other = {.low = 5, .high = 7};
    bool known, holds;
    open_rig(&r, "pocl:0,pocl:1");
    keeping k = {&r.devices, {.low = 0x70b8e1f2a3c4d5e6u, .high = 0x1122334455667788u}};
    walk_allocations(keep_choice, &k);
    walk_allocations(recall_choice, &k);
    assert_ok(clq_why_recall_choice(k.key, &known, &kept));
    assert_true(known);
    assert_string_equal(kept.strategy, "mirrored");
    assert_true(kept.images_per_s == 1234.5);
    assert_true(kept.doubt.others == 0.5 && kept.doubt.spread == 0.25 && kept.made != 0);
    assert_true(kept.fell_short == 0 && kept.renewals == 0);
    char spec[CLQ_SPEC_TEXT];
    assert_true(clq_why_spec(&r.devices, 0, 2, spec, sizeof spec));
    assert_string_equal(kept.devices, spec);
    assert_ok(clq_why_choice_holds(&kept, &r.devices, &holds));
    assert_true(holds);
    r.devices.count = 1;
    assert_ok(clq_why_choice_holds(&kept, &r.devices, &holds));
    assert_false(holds);
    assert_ok(clq_why_recall_choice(other, &known, &kept));
    assert_false(known);
    assert_ok(clq_machine_keep(k.key, "short", 6)); /* a record of another format */
    assert_ok(clq_why_recall_choice(k.key, &known, &kept));
    assert_false(known);
    clq_machine_forget(k.key);
    close_rig(&r);
}

static clq_status note_training(void *context) {
    const keeping *k = context;
    clq_kept_choice kept;
    bool known;
    CLQ_TRY(clq_why_recall_choice(k->key, &known, &kept));
    return clq_why_note_training(k->key, &kept, 0.5 * kept.images_per_s, 0);
}

static uint64_t fell_short(clq_hash128 key) {
    clq_kept_choice kept;
    bool known;
    assert_ok(clq_why_recall_choice(key, &known, &kept));
    assert_true(known);
    return kept.fell_short;
}

/* What a training reaches is noted beside the choice that the training was made by, and beside no other choice. */
static void trainings_are_noted(void **state) {
    (void)state;
    rig r;
    bool known;
    clq_kept_choice used;
    open_rig(&r, "pocl:0,pocl:1");
    keeping k = {&r.devices, {.low = 0x70b8e1f2a3c4d5e7u, .high = 0x1122334455667789u}};
    assert_ok(
        clq_why_note_training(k.key, &(clq_kept_choice){.made = 1, .images_per_s = 10}, 1, 0)); /* nothing is kept */
    assert_ok(keep_choice(&k));
    assert_ok(note_training(&k));
    assert_int_equal(fell_short(k.key), 1);
    assert_ok(clq_why_recall_choice(k.key, &known, &used));
    assert_ok(keep_choice(&k)); /* another process makes the choice again meanwhile */
    assert_ok(clq_why_note_training(k.key, &used, 1, 0));
    assert_int_equal(fell_short(k.key), 0);
    walk_allocations(note_training, &k);
    assert_true(fell_short(k.key) > 0);

    /* Comparing again fails repeatedly, for either of the two reasons to compare. In the end the choice is left
     * alone. */
    assert_ok(clq_why_recall_choice(k.key, &known, &used));
    for (unsigned failed = 0; failed < 3; failed++) {
        clq_kept_choice doubtful;
        assert_ok(clq_why_note_failed_renewal(k.key, &used));
        assert_ok(clq_why_recall_choice(k.key, &known, &doubtful));
        assert_int_equal(doubtful.renewals, failed + 1);
        assert_int_equal(doubtful.fell_short, 0);
        assert_int_equal(clq_why_renewal(&doubtful, 0), failed < 2 ? CLQ_RENEWAL_DOUBTFUL : CLQ_RENEWAL_NONE);
    }
    clq_machine_forget(k.key);
    close_rig(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_devices_are_probed),
        cmocka_unit_test(allocations_fail),
        cmocka_unit_test(calls_fail),
        cmocka_unit_test(predictions_are_kept),
        cmocka_unit_test(the_rules_device_is_chosen_in_no_time),
        cmocka_unit_test(a_failing_device_is_not_chosen),
        cmocka_unit_test(choices_are_kept),
        cmocka_unit_test(trainings_are_noted),
    };
    if (faults_load(&layer) != 0) return 1;
    return cmocka_run_group_tests(tests, probe_the_whole, end);
}
