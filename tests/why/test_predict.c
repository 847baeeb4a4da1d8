/* Predictions from made-up probes. Each expected number is worked out by hand beside it. */
#include "support/check.h"
#include "why/why.h"

#include <math.h>

static const double ms = 1e-3;

static void assert_near(double got, double want) {
    if (!(fabs(got - want) <= 1e-9 * fabs(want) + 1e-12)) fail_msg("%.12g is not %.12g", got, want);
}

/* One device: a step takes 2 ms, and 0.125 ms per sample. */
static clq_probes one_device(void) {
    return (clq_probes){.batch = 64,
                        .accumulate = 1,
                        .samples = 1000,
                        .staleness = 4,
                        .gradient_bytes = 1000,
                        .rows_per_s = 1e9,
                        .cores = 4,
                        .busy_cores = {1, 2, 3},
                        .device_count = 1,
                        .devices = {{.steps = {{32, 6e-3}, {64, 10e-3}},
                                     .step_count = 2,
                                     .launch_s = 0.1e-3,
                                     .launches = 4,
                                     .update_s = 1e-3,
                                     .row_s = 0.01e-3,
                                     .memory_share = 0.25,
                                     .gflops = 100,
                                     .gbps = 40}}};
}

/* Two such devices, which do not slow each other down. */
static clq_probes two_devices(void) {
    clq_probes p = one_device();
    p.device_count = 2;
    p.devices[1] = p.devices[0];
    p.group_count = 1;
    p.groups[0] = (clq_group_probe){.count = 2, .gflops = {100, 100}, .gbps = {40, 40}, .exchange_s = 1e-3};
    p.groups[0].scatter_s = 2e-3;
    p.groups[0].store_s = 3e-3;
    p.groups[0].own_store_s = 1e-3;
    return p;
}

static clq_prediction predict(const clq_probes *p, const char *strategy, unsigned replicas, size_t batch) {
    clq_prediction out;
    assert_true(clq_why_predict_one(p, &(clq_way){strategy, 0, replicas, batch, 1}, &out));
    const clq_step_parts *s = &out.parts;
    assert_near(s->input + s->host + s->launches + s->fixed + s->compute + s->sharing + s->waiting + s->communication,
                out.step_s);
    assert_near(out.images_per_s, (double)batch / out.step_s);
    return out;
}

static void test_one_device(void **state) {
    (void)state;
    const clq_probes p = one_device();
    const clq_prediction now = predict(&p, "single", 1, 64);
    assert_near(now.step_s, 10 * ms);
    assert_near(now.images_per_s, 6400);
    assert_near(now.parts.launches, 0.4 * ms); /* 4 of 0.1 */
    assert_near(now.parts.fixed, 1.6 * ms);    /* 2 ms, from the line above, less the launches */
    assert_near(now.parts.input, 0.64 * ms);   /* 64 of 0.01 */
    assert_near(now.parts.compute, 7.36 * ms); /* the rest: 74 % */
    assert_int_equal(now.limit, CLQ_LIMIT_COMPUTE);
    assert_near(predict(&p, "single", 1, 48).step_s, 8 * ms);
    assert_near(predict(&p, "single", 1, 256).step_s, 34 * ms);
    clq_prediction none;
    assert_false(clq_why_predict_one(&p, &(clq_way){"single", 0, 2, 64, 1}, &none));
    assert_false(clq_why_predict_one(&p, &(clq_way){"mirrored", 0, 1, 64, 1}, &none));
    assert_false(clq_why_predict_one(&p, &(clq_way){"unheard of", 0, 1, 64, 1}, &none));
}

/* The step was probed at one batch size only. Then only its update and its launches count as fixed, 1.4 ms. */
static void test_one_probe(void **state) {
    (void)state;
    clq_probes p = one_device();
    p.devices[0].steps[0] = (clq_step_probe){64, 9.4e-3};
    p.devices[0].step_count = 1;
    assert_near(predict(&p, "single", 1, 32).step_s, 5.4 * ms);
    assert_near(predict(&p, "single", 1, 64).parts.fixed, 1 * ms);
}

/* The whole batch fits no device, but half of it does. The optimizer's state does not fit if every replica keeps it. */
static void test_memory(void **state) {
    (void)state;
    clq_probes p = two_devices();
    clq_prediction none, all[CLQ_PREDICTIONS_MAX];
    for (unsigned r = 0; r < 2; r++) {
        p.devices[r].step_count = 1; /* of 32 samples */
        p.devices[r].too_large = 64;
    }
    assert_false(clq_why_predict_one(&p, &(clq_way){"single", 0, 1, 64, 1}, &none));
    assert_false(clq_why_predict_one(&p, &(clq_way){"ps", 0, 2, 64, 1}, &none));
    assert_near(predict(&p, "mirrored", 2, 64).step_s, 7 * ms);
    assert_near(predict(&p, "single", 1, 32).step_s, 6 * ms);
    assert_false(clq_why_predict_one(&p, &(clq_way){"mirrored", 0, 2, 128, 1}, &none));
    p.groups[0].too_large = true;
    assert_false(clq_why_predict_one(&p, &(clq_way){"mirrored", 0, 2, 64, 1}, &none));
    assert_false(clq_why_predict_one(&p, &(clq_way){"mirrored --shard-optimizer", 0, 2, 64, 1}, &none));
    const size_t count = clq_why_predict(&p, all, CLQ_PREDICTIONS_MAX);
    for (size_t i = 0; i < count; i++) assert_true(strstr(all[i].way.strategy, "mirrored") == NULL);
    assert_string_equal(clq_why_best(all, count)->way.strategy, "central");
    /* Gains are relative to the best way that fits. No advice needs a way that does not fit: batches are accumulated,
     * not enlarged. */
    clq_advice advice[CLQ_ADVICE_MAX];
    const clq_devices devices = {.count = 2, .items = {{.index = 0, .parts = 1}, {.index = 1, .parts = 1}}};
    const size_t advised = clq_why_advise(&p, &devices, advice, CLQ_ADVICE_MAX);
    assert_true(advised > 1);
    for (size_t i = 0; i < advised; i++) {
        assert_true(strstr(advice[i].options, "mirrored") == NULL && strstr(advice[i].options, "--batch") == NULL);
        assert_true(strstr(advice[i].options, "--devices") == NULL);
    }
    /* The way that fits comes first. All other advice is given on top of this way. */
    assert_string_equal(advice[0].options, "--strategy central");
    assert_true(isinf(advice[0].gain));
    assert_string_equal(advice[1].options, "--accumulate 4 --strategy central");
    /* The strategy does not fit, but mirrored does. */
    p.groups[0].too_large = false;
    p.strategy = "ps";
    const size_t again = clq_why_advise(&p, &devices, advice, CLQ_ADVICE_MAX);
    assert_string_equal(advice[0].options, "--strategy mirrored");
    for (size_t i = 0; i < again; i++) assert_non_null(strstr(advice[i].options, "--strategy "));
}

static void test_mirrored(void **state) {
    (void)state;
    clq_probes p = two_devices();
    clq_prediction two = predict(&p, "mirrored", 2, 64);
    assert_near(two.step_s, 7 * ms); /* 32 samples, and the exchange */
    assert_near(two.parts.communication, 1 * ms);
    /* Arithmetic runs at 0.8 of its rate, and memory at half: the device takes 0.75 x 0.25 + 0.25 x 1 longer. */
    p.groups[0].gflops[0] = p.groups[0].gflops[1] = 80;
    p.groups[0].gbps[0] = p.groups[0].gbps[1] = 20;
    two = predict(&p, "mirrored", 2, 64);
    assert_near(two.parts.sharing, 6 * 0.4375 * ms);
    assert_near(two.step_s, 9.625 * ms);
    assert_int_equal(two.limit, CLQ_LIMIT_SHARED_MEMORY);
    /* If a device is faster beside the others than alone, it was measured in a better moment. This does not shorten the
     * step. */
    p.groups[0].gflops[0] = p.groups[0].gflops[1] = 120;
    p.groups[0].gbps[0] = p.groups[0].gbps[1] = 41;
    assert_near(predict(&p, "mirrored", 2, 64).step_s, 7 * ms);
}

/* Each device makes half of the update. */
static void test_sharded_update(void **state) {
    (void)state;
    clq_probes p = two_devices();
    p.groups[0].shards_update = true;
    assert_near(predict(&p, "mirrored", 2, 64).step_s, 6.5 * ms);
}

/* 4 buckets take 4 x 0.1 + 4 ms in all, and the last one 1.1 ms. Backward takes 2/3 of the 3.68 ms of arithmetic. It
 * hides what is exchanged before its last quarter: 1.84 ms. */
static void test_overlap(void **state) {
    (void)state;
    clq_probes p = two_devices();
    p.groups[0].overlaps = true;
    p.groups[0].buckets = 4;
    p.groups[0].alpha_s = 0.1 * ms;
    p.groups[0].beta_s = 4 * ms / 1000;
    assert_near(predict(&p, "mirrored", 2, 64).parts.communication, (4.4 - 1.84) * ms);
    p.groups[0].exchanges = 3; /* small exchanges of statistics */
    assert_near(predict(&p, "mirrored", 2, 64).parts.communication, (4.4 - 1.84 + 3 * 0.1) * ms);
    p.groups[0].exchanges = 0;
    p.groups[0].beta_s = 1 * ms / 1000; /* 1.4 ms in all: only the last bucket is exposed, 0.35 ms */
    assert_near(predict(&p, "mirrored", 2, 64).parts.communication, 0.35 * ms);
}

/* Four batches of 32 samples: 4 x (6 - 1) ms, an update of 1 ms and an exchange of 1 ms. To add a gradient, the device
 * reads the 1,000 bytes of the sum, 4 times at 40 GB/s. */
static void test_accumulation(void **state) {
    (void)state;
    clq_probes p = two_devices();
    clq_prediction four;
    clq_way way = {"mirrored", 0, 2, 64, 4};
    assert_true(clq_why_predict_one(&p, &way, &four));
    assert_near(four.step_s, 22 * ms + 4 * 1000 / 40e9);
    assert_near(four.images_per_s, 256 / four.step_s);
    p.groups[0].shards_update = true; /* each device makes half of the update */
    p.groups[0].overlaps = true;      /* has no effect on accumulated batches */
    p.groups[0].buckets = 1;
    assert_true(clq_why_predict_one(&p, &way, &four));
    assert_near(four.step_s, 21.5 * ms + 4 * 1000 / 40e9);
    const clq_devices devices = {.count = 2, .items = {{0, 0, 1}, {1, 0, 1}}};
    clq_advice advice[CLQ_ADVICE_MAX];
    p.groups[0].overlaps = false;
    size_t i = 0;
    const size_t count = clq_why_advise(&p, &devices, advice, CLQ_ADVICE_MAX);
    while (i < count && strcmp(advice[i].options, "--accumulate 4") != 0) i++;
    assert_true(i < count);
    assert_near(advice[i].gain, 4 * 6.5 * ms / four.step_s);
    way.strategy = "single";
    way.replicas = 1;
    assert_true(clq_why_predict_one(&p, &way, &four));
    assert_near(four.step_s, (4 * 9 + 1) * ms + 4 * 1000 / 40e9);
}

static const clq_advice *find_advice(const clq_probes *p, const clq_devices *devices, clq_advice *all,
                                     const char *options) {
    const size_t count = clq_why_advise(p, devices, all, CLQ_ADVICE_MAX);
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].options, options) == 0) return &all[i];
    fail_msg("%s is not advised", options);
    return NULL;
}

static void test_slow_device(void **state) {
    (void)state;
    clq_probes p = two_devices();
    p.devices[1].steps[0].step_s = 30 * ms;
    p.devices[1].steps[1].step_s = 50 * ms;
    p.groups[0].exchange_s = 0;
    const clq_prediction two = predict(&p, "mirrored", 2, 64);
    assert_near(two.step_s, 30 * ms);
    assert_near(two.parts.waiting, 12 * ms); /* one of the two waits 24 ms */
    assert_int_equal(two.limit, CLQ_LIMIT_SLOW_DEVICE);
    /* The first device alone takes 10 ms. */
    const clq_devices devices = {.count = 2, .items = {{3, 0, 1}, {5, 0, 1}}};
    clq_advice advice[CLQ_ADVICE_MAX];
    const clq_advice *one = find_advice(&p, &devices, advice, "--devices 3");
    assert_string_equal(one->text, "use device 3 only");
    assert_string_equal(one->effect, "the same but for rounding");
    assert_near(one->gain, 3);
    p.own_statistics = true;
    expect_text(find_advice(&p, &devices, advice, "--devices 3")->effect, "statistics");
    p.strategy = "central"; /* 29 ms, and 3 of the store; mirrored is named, for central would be on one as well */
    one = find_advice(&p, &devices, advice, "--devices 3 --strategy mirrored");
    assert_near(one->gain, 3.2);
}

/* Two devices on one core, each at half its rate: 2 x 6 ms and the exchange, against 10 ms on one device. */
static void test_one_core(void **state) {
    (void)state;
    clq_probes p = two_devices();
    clq_prediction all[CLQ_PREDICTIONS_MAX];
    p.groups[0].gflops[0] = p.groups[0].gflops[1] = 50;
    p.groups[0].gbps[0] = p.groups[0].gbps[1] = 20;
    /* All but pipeline and tensor, for which nothing was probed; two of the store are one. */
    assert_int_equal(clq_why_predict(&p, all, CLQ_PREDICTIONS_MAX), 6);
    assert_string_equal(all[1].way.strategy, "mirrored");
    assert_near(all[1].step_s, 13 * ms);
    assert_int_equal(all[1].limit, CLQ_LIMIT_SHARED_CORES);
    assert_ptr_equal(clq_why_best(all, 6), &all[0]);
    /* The advice names a part of a device as a SPEC does. 13 ms become 10 ms. */
    const clq_devices parts = {.count = 2, .items = {{0, 0, 2}, {0, 1, 2}}};
    clq_advice advice[CLQ_ADVICE_MAX];
    const size_t count = clq_why_advise(&p, &parts, advice, CLQ_ADVICE_MAX);
    size_t named = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(advice[i].options, "--devices 0/2:0") != 0) continue;
        assert_near(advice[i].gain, 1.3);
        named++;
    }
    assert_int_equal(named, 1);
}

/* Each device makes half of the update, and there are two exchanges. If updates are shared out anyway, the option
 * changes nothing. */
static void test_sharded_optimizer(void **state) {
    (void)state;
    clq_probes p = two_devices();
    assert_near(predict(&p, "mirrored --shard-optimizer", 2, 64).step_s, 7.5 * ms);
    p.groups[0].shards_update = true;
    assert_near(predict(&p, "mirrored --shard-optimizer", 2, 64).step_s, predict(&p, "mirrored", 2, 64).step_s);
}

/* 5 ms without the update. The store makes the update for all devices. */
static void test_central(void **state) {
    (void)state;
    clq_probes p = two_devices();
    assert_near(predict(&p, "central", 2, 64).step_s, 8 * ms);
    assert_near(predict(&p, "ps --staleness 0", 2, 64).step_s, 8 * ms);
    clq_prediction four; /* 4 x 5 ms, the sums of gradients as in test_accumulation, and one exchange */
    assert_true(clq_why_predict_one(&p, &(clq_way){"central", 0, 2, 64, 4}, &four));
    assert_near(four.step_s, 23 * ms + 4 * 1000 / 40e9);
    assert_false(clq_why_predict_one(&p, &(clq_way){"central", 0, 1, 64, 1}, &four));
}

/* For a whole batch each device takes 9 ms, and 1 ms of the store: two devices make an update every 5 ms. A device that
 * takes 50 ms lets four updates of the other come between. So an update takes 10 ms, although both devices together
 * could take 1 / (1/10 + 1/50) ms. */
static void test_asynchronous(void **state) {
    (void)state;
    clq_probes p = two_devices();
    clq_prediction both = predict(&p, "ps", 2, 64);
    assert_near(both.step_s, 5 * ms);
    assert_near(both.parts.communication, 0.5 * ms);
    p.devices[1].steps[0].step_s = 30 * ms;
    p.devices[1].steps[1].step_s = 50 * ms;
    both = predict(&p, "ps", 2, 64);
    assert_near(both.step_s, 10 * ms);
    assert_near(both.parts.waiting, (10 - 1 / 0.12) * ms);
    p.staleness = 64;
    assert_near(predict(&p, "ps", 2, 64).step_s, ms / 0.12);
    assert_false(clq_why_predict_one(&p, &(clq_way){"ps", 0, 2, 64, 4}, &both)); /* ps does not accumulate */
    /* ps is the fastest but not the best, because its updates differ. */
    clq_prediction all[CLQ_PREDICTIONS_MAX];
    clq_advice advice[CLQ_ADVICE_MAX];
    const clq_devices devices = {.count = 2, .items = {{0, 0, 1}, {1, 0, 1}}};
    const size_t count = clq_why_predict(&p, all, CLQ_PREDICTIONS_MAX);
    assert_string_equal(clq_why_best(all, count)->way.strategy, "single");
    expect_text(find_advice(&p, &devices, advice, "--strategy ps")->effect, "other updates");
}

/* 16 samples take 4 ms. 1 ms of this is the update, and the stages make a quarter and three quarters of it. Forward and
 * backward take 0.6 and 1.2 ms in stage 0, and 0.3 and 0.9 ms in stage 1. Stage 0 ends F0 at 0.6, F1 at 1.2, B0 at 3.0
 * (it waits for stage 1 until 1.8), F2 at 3.6, B1 at 4.8, F3 at 5.4, B2 at 6.6, B3 at 7.8. If a stage that waits goes
 * on 0.1 ms later, B0 ends at 3.2 (1.9 and 0.1 later), B1 at 5.0, B2 at 6.8, and B3, whose input comes at 6.9, at
 * 8.2. */
static void test_pipeline(void **state) {
    (void)state;
    clq_probes p = two_devices();
    p.gradient_bytes = 0;
    p.groups[0].pipe = (clq_pipe_probe){.stages = 2,
                                        .micro_batches = 4,
                                        .forward = {0.2, 0.1},
                                        .backward = {0.4, 0.3},
                                        .parameters = {0.25, 0.75},
                                        .copy_gbps = 10};
    clq_prediction two = predict(&p, "pipeline", 2, 64);
    assert_near(two.step_s, (7.8 + 0.25) * ms);
    assert_near(two.parts.waiting, (8.05 - 6.5) * ms); /* 4 x 3 ms and the update, in two stages */
    p.groups[0].pipe.hop_s = 0.1 * ms;
    two = predict(&p, "pipeline", 2, 64);
    assert_near(two.step_s, (8.2 + 0.25) * ms);
    p.groups[0].pipe.hop_s = ms;
    assert_int_equal(predict(&p, "pipeline", 2, 64).limit, CLQ_LIMIT_BUBBLE);
    p.groups[0].pipe.hop_s = 0;
    p.groups[0].pipe.sent_bytes[0] = 1e6; /* 0.1 ms, of both stages in each micro-batch, and as much back */
    p.groups[0].pipe.back_bytes[0] = 1e6;
    assert_near(predict(&p, "pipeline", 2, 64).parts.communication, 4 * 0.2 * ms);
    assert_false(clq_why_predict_one(&p, &(clq_way){"pipeline", 0, 2, 128, 1}, &two)); /* other micro-batches */
}

/* From a step of 10 ms: 6 launches of 0.1 ms; 1.6 ms less 0.4 ms of the update; the input of 0.64 ms; half of the
 * 7.36 ms of computing; and the exchanges. */
static void test_tensor(void **state) {
    (void)state;
    clq_probes p = two_devices();
    p.groups[0].slices = (clq_slice_probe){
        .exchanges = 2, .work = 0.5, .parameters = 0.6, .launches = 6, .bytes = 2000, .exchange_s = 0.5e-3};
    assert_near(predict(&p, "tensor", 2, 64).step_s, (0.6 + 1.2 + 0.64 + 3.68 + 0.5) * ms);
    p.groups[0].beta_s = 1e-6; /* 2,000 bytes more at twice the batch: 2 ms; compute is 15.36 of 18 ms */
    assert_near(predict(&p, "tensor", 2, 128).step_s, (0.6 + 1.2 + 1.28 + 14.72 / 2 + 0.5 + 2) * ms);
}

/* 0.1 and 0.3 ms a sample: even shares take 9.6 ms, and shares of 48 and 16 samples take 4.8 ms. */
static void test_shares(void **state) {
    (void)state;
    clq_probes p = two_devices();
    const clq_devices devices = {.count = 2, .items = {{0, 0, 1}, {1, 0, 1}}};
    clq_advice advice[CLQ_ADVICE_MAX];
    for (unsigned d = 0; d < 2; d++)
        for (unsigned i = 0; i < 2; i++)
            p.devices[d].steps[i].step_s = (d ? 0.3 : 0.1) * ms * (double)p.devices[d].steps[i].batch;
    p.devices[0].update_s = p.devices[1].update_s = p.groups[0].exchange_s = 0;
    const clq_advice *shares = find_advice(&p, &devices, advice, "--shares 3,1");
    assert_near(shares->gain, 2);
    assert_string_equal(shares->text, "shares 3,1");
    p.devices[1] = p.devices[0];
    const size_t count = clq_why_advise(&p, &devices, advice, CLQ_ADVICE_MAX);
    for (size_t i = 0; i < count; i++) assert_null(strstr(advice[i].options, "--shares"));
}

/* A prediction is quoted only for the trainings that it predicts. */
static void test_rows(void **state) {
    (void)state;
    clq_strategy_options o = {.staleness = 4};
    assert_string_equal(clq_why_row(CLQ_STRATEGY_AUTO, &o, 1), "single");
    assert_string_equal(clq_why_row(CLQ_STRATEGY_AUTO, &o, 2), "mirrored");
    assert_string_equal(clq_why_row(CLQ_STRATEGY_PS, &o, 2), "ps");
    assert_string_equal(clq_why_row(CLQ_STRATEGY_PS, &(clq_strategy_options){0}, 2), "ps --staleness 0");
    assert_null(clq_why_row(CLQ_STRATEGY_PS, &(clq_strategy_options){.backup = 1}, 3));
    assert_string_equal(clq_why_row(CLQ_STRATEGY_PIPELINE, &(clq_strategy_options){.stages = 2}, 2), "pipeline");
    assert_null(clq_why_row(CLQ_STRATEGY_PIPELINE, &(clq_strategy_options){.stages = 2}, 4));
    assert_string_equal(clq_why_row(CLQ_STRATEGY_MIRRORED, &(clq_strategy_options){.shard_optimizer = 1}, 2),
                        "mirrored --shard-optimizer");
    assert_null(clq_why_row(CLQ_STRATEGY_MIRRORED, &(clq_strategy_options){.local_steps = 8}, 2));
    assert_null(clq_why_row(CLQ_STRATEGY_MIRRORED, &(clq_strategy_options){.shares = CLQ_SHARES_AUTO}, 2));
    assert_null(
        clq_why_row(CLQ_STRATEGY_MIRRORED, &(clq_strategy_options){.compression = {.kind = CLQ_COMPRESSION_F16}}, 2));
}

/* The caller's thread needs a core. If the devices keep all cores busy, and left one free when a step was measured
 * alone, the thread's time is added. */
static void test_host(void **state) {
    (void)state;
    clq_probes p = two_devices();
    p.post_s = 0.1 * ms;
    assert_near(predict(&p, "mirrored", 2, 64).parts.host, 0);
    p.cores = 2;
    assert_near(predict(&p, "mirrored", 2, 64).parts.host, 0.2 * ms);
    p.cores = 1; /* the step that was measured alone includes it */
    assert_near(predict(&p, "mirrored", 2, 64).parts.host, 0);
    p.post_s = 20 * ms; /* longer than the step, so it sets its time */
    const clq_prediction slow = predict(&p, "mirrored", 2, 64);
    assert_near(slow.step_s, 40 * ms);
    assert_int_equal(slow.limit, CLQ_LIMIT_HOST);
}

static void test_input(void **state) {
    (void)state;
    clq_probes p = one_device();
    p.rows_per_s = 1000;
    const clq_prediction slow = predict(&p, "single", 1, 64);
    assert_near(slow.step_s, 64 * ms);
    assert_near(slow.parts.input, 54.64 * ms);
    assert_int_equal(slow.limit, CLQ_LIMIT_INPUT);
}

/* 2 ms and 0.1 ms a sample. Batches of 4 give 1,667 samples a second. Batches of 16 take 3.6 ms and give 2.67 times as
 * many. Batches of 8 give less than 95 % of that. */
static void test_small_batch(void **state) {
    (void)state;
    clq_probes p = one_device();
    p.batch = 4;
    p.devices[0].row_s = 0;
    p.devices[0].launches = 1;
    p.devices[0].update_s = 0; /* so that accumulating gains nothing */
    p.devices[0].steps[0] = (clq_step_probe){4, 2.4e-3};
    p.devices[0].steps[1] = (clq_step_probe){16, 3.6e-3};
    assert_int_equal(predict(&p, "single", 1, 4).limit, CLQ_LIMIT_SMALL_BATCH);
    const clq_devices devices = {.count = 1};
    clq_advice advice[CLQ_ADVICE_MAX];
    assert_int_equal(clq_why_advise(&p, &devices, advice, CLQ_ADVICE_MAX), 1);
    assert_string_equal(advice[0].options, "--batch 16");
    assert_near(advice[0].gain, (16 / 3.6) / (4 / 2.4));
    p.samples = 15; /* 8 is what the set has */
    assert_int_equal(clq_why_advise(&p, &devices, advice, CLQ_ADVICE_MAX), 1);
    assert_string_equal(advice[0].options, "--batch 8");
    assert_near(advice[0].gain, (8 / 2.8) / (4 / 2.4));
    p.devices[0].launches = 18; /* of 0.1 ms: more than all else */
    assert_int_equal(predict(&p, "single", 1, 4).limit, CLQ_LIMIT_LAUNCHES);
}

/* In each step, a device waits for the one that is slower just then: 0.5 ms more for strategies in which all devices
 * meet after their shares. */
static void test_waiting_in_each_step(void **state) {
    (void)state;
    static const char *const meet[] = {"mirrored", "mirrored --shard-optimizer", "central", "ps --staleness 0"};
    clq_probes p = two_devices(), waits = two_devices();
    waits.groups[0].waiting_s = 0.5 * ms;
    for (size_t i = 0; i < CLQ_COUNT_OF(meet); i++) {
        const clq_prediction before = predict(&p, meet[i], 2, 64), now = predict(&waits, meet[i], 2, 64);
        assert_near(now.step_s, before.step_s + 0.5 * ms);
        assert_near(now.parts.waiting, before.parts.waiting + 0.5 * ms);
    }
    assert_near(predict(&waits, "ps", 2, 64).step_s, predict(&p, "ps", 2, 64).step_s);
    assert_near(predict(&waits, "single", 1, 64).step_s, predict(&p, "single", 1, 64).step_s);
}

/* A row is as doubtful as the worst measurement that it is made from. */
static void test_doubt_of_rows(void **state) {
    (void)state;
    clq_probes p = two_devices();
    p.devices[0].doubt = (clq_doubt){.others = 0.02, .spread = 0.3};
    p.devices[1].doubt = (clq_doubt){.others = (double)NAN, .spread = 0.1};
    p.groups[0].doubt = (clq_doubt){.others = 0.4, .spread = 0.2};
    const clq_doubt one = predict(&p, "single", 1, 64).doubt, two = predict(&p, "mirrored", 2, 64).doubt;
    assert_near(one.others, 0.02);
    assert_near(one.spread, 0.3);
    assert_near(two.others, 0.4);
    assert_near(two.spread, 0.3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_device),
        cmocka_unit_test(test_one_probe),
        cmocka_unit_test(test_mirrored),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_sharded_update),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_slow_device),
        cmocka_unit_test(test_one_core),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_input),
        cmocka_unit_test(test_small_batch),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_sharded_optimizer),
        cmocka_unit_test(test_central),
        cmocka_unit_test(test_asynchronous),
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_tensor),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_waiting_in_each_step),
        cmocka_unit_test(test_doubt_of_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
