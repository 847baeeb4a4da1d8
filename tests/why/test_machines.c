/* Steps of several machines, predicted from made-up measurements. Each expected number is worked out by hand beside it.
 * Also the links between processes, over a network of threads. */
#include "support/world_fabric.h"
#include "why/why.h"

#include <math.h>
#include <stdlib.h>

static const double ms = 1e-3;
/* BYTES: the size of a gradient. This size and its half divide evenly into 2 and 3 parts, and a ring exchanges them. */
enum { MACHINES_MOST = 4, BYTES = 76800 };

static void assert_near(double got, double want) {
    if (!(fabs(got - want) <= 1e-6 * fabs(want) + 1e-12)) fail_msg("%.12g is not %.12g", got, want);
}

/* Each machine has one device. A step takes 1 ms for any batch (the update) and 0.125 ms per sample. Links take 0.1 ms,
 * and 10 ns per byte. */
typedef struct scene {
    clq_machine_probe probes[MACHINES_MOST];
    clq_link_probe links[MACHINES_MOST];
    clq_scale_piece pieces[2];
    clq_machines machines;
} scene;

static void set_speed(clq_machine_probe *p, double sample_s) {
    p->step_count = 2;
    p->steps[0] = (clq_machine_step){32, {.fixed = 1 * ms, .compute = 32 * sample_s}};
    p->steps[1] = (clq_machine_step){64, {.fixed = 1 * ms, .compute = 64 * sample_s}};
}

/* batch: the global batch of all machines. */
static void set_up(scene *s, unsigned count, size_t batch) {
    *s = (scene){.pieces = {{1, BYTES}}};
    for (unsigned r = 0; r < count; r++) {
        s->probes[r] = (clq_machine_probe){.devices = 1, .update_s = 1 * ms, .adding_s = 0.25 * ms};
        set_speed(&s->probes[r], 0.125 * ms);
        s->links[r] = (clq_link_probe){0.1 * ms, 10e-9};
    }
    s->machines = (clq_machines){.count = count,
                                 .probes = s->probes,
                                 .links = s->links,
                                 .batch = batch,
                                 .samples = 100000,
                                 .pieces = s->pieces,
                                 .piece_count = 1,
                                 .bucket_bytes = CLQ_SCALE_WHOLE};
}

static clq_machines_way way_of(const scene *s, unsigned count) {
    return (clq_machines_way){.machines = count, .batch = s->machines.batch, .accumulate = 1, .link_factor = 1};
}

static clq_machines_prediction predict_way(const scene *s, const clq_machines_way *way) {
    clq_machines_prediction out;
    bool known;
    assert_ok(clq_why_predict_machines(&s->machines, way, &known, &out));
    assert_true(known);
    const clq_step_parts *p = &out.parts;
    assert_near(p->input + p->host + p->launches + p->fixed + p->compute + p->sharing + p->waiting + p->communication,
                out.step_s);
    assert_near(out.images_per_s, (double)(way->batch * way->accumulate) / out.step_s);
    return out;
}

static clq_machines_prediction predict(const scene *s, unsigned count) {
    const clq_machines_way way = way_of(s, count);
    return predict_way(s, &way);
}

/* An all-reduce of `bytes` by a ring of n ranks: 2 (n - 1) messages of one part each. n - 1 of these parts are
 * added. */
static double ring_s(unsigned n, double bytes, double alpha_s, double beta_s) {
    const double part = bytes / n;
    return 2 * (n - 1) * (alpha_s + beta_s * part) + (n - 1) * clq_scale_add_byte_s * part;
}

static void test_rows(void **state) {
    (void)state;
    scene s;
    set_up(&s, 2, 64);
    const clq_machines_prediction one = predict(&s, 1), two = predict(&s, 2);
    assert_near(one.step_s, 9 * ms);
    assert_near(one.parts.communication, 0);
    assert_int_equal(one.limit, CLQ_LIMIT_COMPUTE);
    assert_near(two.parts.communication, ring_s(2, BYTES, 0.1 * ms, 10e-9)); /* 0.978 ms */
    assert_near(two.step_s, 5 * ms + two.parts.communication);
    assert_int_equal(two.algorithm, CLQ_ALGORITHM_AUTO);
    /* Three machines get 22, 21 and 21 samples. The other two wait for one sample of the first. */
    set_up(&s, 3, 64);
    const clq_machines_prediction three = predict(&s, 3);
    assert_near(three.parts.waiting, 0.125 * ms * (22 - 64.0 / 3));
    assert_near(three.step_s, 1 * ms + 22 * 0.125 * ms + three.parts.communication);
    assert_int_equal(three.slowest, 0);
}

/* One machine is half as fast: it takes 9 ms, and the other 5 ms. */
static void test_slow_machine(void **state) {
    (void)state;
    scene s;
    set_up(&s, 2, 64);
    set_speed(&s.probes[1], 0.25 * ms);
    const clq_machines_prediction two = predict(&s, 2);
    assert_near(two.parts.waiting, 2 * ms);
    assert_near(two.waited_s, 2 * ms);
    assert_int_equal(two.limit, CLQ_LIMIT_SLOW_MACHINE);
    assert_int_equal(two.slowest, 1);
    /* If devices wait for one another within a process, the limit is a slow device, also with several machines. */
    scene t;
    set_up(&t, 2, 64);
    for (unsigned r = 0; r < 2; r++)
        for (unsigned i = 0; i < 2; i++) t.probes[r].steps[i].parts.waiting = 20 * ms;
    assert_int_equal(predict(&t, 1).limit, CLQ_LIMIT_SLOW_DEVICE);
    const clq_machines_prediction within = predict(&t, 2);
    assert_int_equal(within.limit, CLQ_LIMIT_SLOW_DEVICE);
    assert_near(within.parts.waiting, 20 * ms);
    assert_near(within.waited_s, 0);
    assert_near(two.step_s, 9 * ms + two.parts.communication);
    /* Both machines take equally long: b1 samples at 8 per ms and b2 at 4 per ms, with b1 + b2 = 64, are 42.67 and
     * 21.33. In whole samples that is 43 and 21. */
    clq_machines_way way = way_of(&s, 2);
    way.by_speed = true;
    const clq_machines_prediction shared = predict_way(&s, &way);
    assert_near(shared.step_s, 1 * ms + 43 * 0.125 * ms + shared.parts.communication);
    /* The second machine takes longer for any batch than the first takes for all samples. So it gets no samples, and
     * only makes its update. */
    for (unsigned i = 0; i < 2; i++) s.probes[1].steps[i].parts.fixed = 0.1;
    const clq_machines_prediction left_out = predict_way(&s, &way);
    assert_near(left_out.step_s, 9 * ms + left_out.parts.communication);
    assert_near(left_out.parts.waiting, 4 * ms); /* one of the two waits 8 ms */
    /* The same among three machines: the other two get 32 samples each. */
    set_up(&s, 3, 64);
    for (unsigned i = 0; i < 2; i++) s.probes[1].steps[i].parts.fixed = 0.1;
    way.machines = 3;
    const clq_machines_prediction of_three = predict_way(&s, &way);
    assert_near(of_three.step_s, 5 * ms + of_three.parts.communication);
    /* A batch so small that one device gets no samples. */
    clq_machines_prediction none;
    bool known;
    way = way_of(&s, 3);
    way.batch = 2;
    assert_ok(clq_why_predict_machines(&s.machines, &way, &known, &none));
    assert_false(known);
    /* Even shares of 4 samples for 3 devices are 2, 2 and 0. Shares by speed may be 2, 1 and 1: no device is without
     * samples. */
    way.batch = 4;
    assert_ok(clq_why_predict_machines(&s.machines, &way, &known, &none));
    assert_false(known);
    for (unsigned i = 0; i < 2; i++) s.probes[1].steps[i].parts.fixed = 1 * ms;
    way.by_speed = true;
    const clq_machines_prediction some = predict_way(&s, &way);
    assert_near(some.step_s, 1 * ms + 2 * 0.125 * ms + some.parts.communication);
}

/* Two machines that run together take 7.5 ms each instead of 5 ms. The first machine alone is not slowed down. If the
 * measurement was made with three machines, two machines slow each other down half as much. */
static void test_together(void **state) {
    (void)state;
    scene s;
    set_up(&s, 2, 64);
    for (unsigned r = 0; r < 2; r++) s.probes[r].together_s = 7.5 * ms;
    assert_near(predict(&s, 1).step_s, 9 * ms);
    const clq_machines_prediction two = predict(&s, 2);
    assert_near(two.parts.sharing, 2.5 * ms);
    assert_near(two.step_s, 7.5 * ms + two.parts.communication);
    assert_near(clq_why_machine_alone(&s.probes[0], 32), 5 * ms);
    assert_near(clq_why_machine_together(&s.probes[0], 32), 7.5 * ms);
    set_up(&s, 3, 96);
    for (unsigned r = 0; r < 3; r++) s.probes[r].together_s = 7.5 * ms;
    assert_near(predict(&s, 3).parts.sharing, 2.5 * ms);
    assert_near(predict(&s, 2).parts.sharing, 0.25 * 7 * ms); /* 48 samples take 7 ms alone */
    /* A machine that waits now and then may get its cores sooner, so together it may be faster than alone. Then all
     * parts are shorter. With two machines (48 samples each) they shrink by half as much. */
    for (unsigned r = 0; r < 3; r++) s.probes[r].together_s = 4 * ms;
    const clq_machines_prediction three = predict(&s, 3);
    assert_near(three.parts.sharing, 0);
    assert_near(three.parts.fixed, 0.8 * ms);
    assert_near(three.step_s, 4 * ms + three.parts.communication);
    assert_near(predict(&s, 2).step_s, 0.9 * 7 * ms + predict(&s, 2).parts.communication);
}

/* The two machines take 7.5 and 2.5 ms in turns. Each takes 5 ms on average, and the slower one of each round takes 7.5
 * ms. */
static void test_uneven(void **state) {
    (void)state;
    scene s;
    float seconds[2][1600];
    set_up(&s, 2, 64);
    for (unsigned r = 0; r < 2; r++) {
        for (size_t i = 0; i < 1600; i++) seconds[r][i] = (i + r) % 2 ? 7.5e-3f : 2.5e-3f;
        clq_why_note_together(&s.probes[r], seconds[r], 1600);
        assert_near(s.probes[r].together_s, 5 * ms);
        assert_int_equal(s.probes[r].look_count, CLQ_MACHINE_LOOKS);
    }
    const clq_machines_prediction two = predict(&s, 2);
    assert_near(two.parts.waiting, 2.5 * ms);
    assert_near(two.step_s, 7.5 * ms + two.parts.communication);
    /* A disturbance in a hundredth of the steps lies within one look of 16, and this look does not count. */
    for (size_t i = 0; i < 16; i++) seconds[0][i] = 0.5f;
    clq_why_note_together(&s.probes[0], seconds[0], 1600);
    assert_near(s.probes[0].together_s, 5 * ms);
    assert_near(predict(&s, 2).parts.waiting, 2.5 * ms);
    /* With local steps, the machines wait for one another only once in `local_steps` steps. */
    clq_machines_way way = way_of(&s, 2);
    way.local_steps = 10;
    assert_near(predict_way(&s, &way).parts.waiting, 0.25 * ms);
    /* Few steps make one look. Of 15 steps, one machine takes 7.5 ms in 8 (77.5 / 15 ms on average), and the other in
     * 7. */
    for (unsigned r = 0; r < 2; r++) {
        clq_why_note_together(&s.probes[r], seconds[1] + r, 15);
        assert_int_equal(s.probes[r].look_count, 1);
        s.probes[r].together_s = 5 * ms;
    }
    assert_near(predict(&s, 2).parts.waiting, 5 * ms * (7.5 / (77.5 / 15) - 1));
}

/* Two buckets. The first is complete after half of backward: backward is 2/3 of the 4 ms of computing, so at 2.667 ms.
 * Its exchange is done before the second bucket is complete. Only the second exchange is exposed. */
static void test_buckets(void **state) {
    (void)state;
    scene s;
    set_up(&s, 2, 64);
    s.pieces[0] = (clq_scale_piece){0.5, BYTES};
    s.pieces[1] = (clq_scale_piece){1, BYTES};
    s.machines.piece_count = 2;
    s.machines.bucket_bytes = BYTES;
    const double bucket_s = ring_s(2, BYTES, 0.1 * ms, 10e-9), half_s = ring_s(2, BYTES / 2, 0.1 * ms, 100e-9);
    clq_machines_prediction two = predict(&s, 2);
    assert_near(two.parts.communication, bucket_s);
    assert_near(two.exchange_s, 2 * bucket_s);
    assert_near(two.step_s, 5 * ms + bucket_s);
    /* At a tenth of the rate both exchanges are exposed, except for the 1.333 ms of the first that the rest of backward
     * hides. */
    for (unsigned r = 0; r < 2; r++) s.links[r].beta_s = 100e-9;
    two = predict(&s, 2);
    assert_near(two.parts.communication, 2 * ring_s(2, BYTES, 0.1 * ms, 100e-9) - 4.0 / 3 * ms);
    assert_int_equal(two.limit, CLQ_LIMIT_COMMUNICATION);
    /* The exchange of a sum over several batches is not hidden, and neither is the exchange of halves. */
    clq_machines_way way = way_of(&s, 2);
    way.accumulate = 4; /* 4 batches of 5 - 1 ms, one update, and four additions */
    const clq_machines_prediction four = predict_way(&s, &way);
    assert_near(four.parts.communication, ring_s(2, 2 * BYTES, 0.1 * ms, 100e-9));
    assert_near(four.step_s, 18 * ms + four.parts.communication);
    way.accumulate = 1;
    way.compression = CLQ_COMPRESSION_F16; /* rounded to halves, and read as floats */
    const clq_machines_prediction halves = predict_way(&s, &way);
    assert_near(halves.parts.communication, ring_s(2, BYTES, 0.1 * ms, 100e-9) + 2 * 0.25 * ms);
    /* Halves between machines only: the same buckets with half the bytes. Only the rounding of the last bucket is
     * exposed. */
    way.compression = CLQ_COMPRESSION_F16_BETWEEN;
    const clq_machines_prediction between = predict_way(&s, &way);
    assert_near(between.parts.communication, 2 * half_s - 4.0 / 3 * ms + 0.25 * ms);
    assert_int_equal(between.bucket_bytes, BYTES);
    way.compression = CLQ_COMPRESSION_OFF;
    way.local_steps = 8;
    assert_near(predict_way(&s, &way).parts.communication, ring_s(2, 2 * BYTES, 0.1 * ms, 100e-9) / 8);
    /* The exchanges and the waiting of the machine's devices are divided by `local_steps`, too. */
    const double alone_s = predict_way(&s, &way).step_s;
    for (unsigned i = 0; i < 4; i++) {
        s.probes[i / 2].steps[i % 2].parts.communication = 1.6 * ms;
        s.probes[i / 2].steps[i % 2].parts.waiting = 0.8 * ms;
    }
    assert_near(predict_way(&s, &way).step_s, alone_s + 0.3 * ms);
    for (unsigned i = 0; i < 4; i++) {
        s.probes[i / 2].steps[i % 2].parts.communication = 0;
        s.probes[i / 2].steps[i % 2].parts.waiting = 0;
    }
    way.local_steps = 0;
    way.link_factor = 10;
    assert_near(predict_way(&s, &way).parts.communication, bucket_s);
    /* Two sums within the step. Each has 1 KiB and goes by doubling, with one message each way. */
    s.machines.sums = 2;
    const double sum_s = 0.1 * ms + 1024 * 10e-9 + 1024 * clq_scale_add_byte_s;
    assert_near(predict_way(&s, &way).parts.communication, ring_s(2, 2 * BYTES, 0.1 * ms, 10e-9) + 2 * sum_s);
}

/* In a star of 20 machines, each machine sends the whole gradient to the first, one after the other, and gets it back.
 * With more than 16 ranks, one rank of a ring stands for all, but no rank of a star does. With more ranks than a star
 * may have, the exchange is a ring. */
static void test_star(void **state) {
    (void)state;
    enum { MANY = 80 };
    static clq_machine_probe probes[MANY];
    static clq_link_probe links[MANY];
    scene s;
    set_up(&s, 2, 80 * 32);
    for (unsigned r = 0; r < MANY; r++) probes[r] = s.probes[0], links[r] = s.links[0];
    s.machines.count = MANY;
    s.machines.probes = probes;
    s.machines.links = links;
    s.machines.algorithm = CLQ_ALGORITHM_REDUCE_TO_ONE;
    const clq_machines_prediction star = predict(&s, 20), ring = predict(&s, MANY);
    assert_int_equal(star.algorithm, CLQ_ALGORITHM_REDUCE_TO_ONE);
    assert_true(star.exchange_s >= 2 * 19 * BYTES * 10e-9);
    assert_int_equal(ring.algorithm, CLQ_ALGORITHM_RING);
    assert_near(ring.exchange_s, ring_s(MANY, BYTES, 0.1 * ms, 10e-9));
}

/* The slowest link sets the pace of a ring. The link from the last process back to the first is used only if all
 * processes take part. */
static void test_links(void **state) {
    (void)state;
    scene s;
    clq_link_probe middle;
    set_up(&s, 3, 96);
    s.links[1] = (clq_link_probe){0.2 * ms, 30e-9};
    s.links[2] = (clq_link_probe){0.4 * ms, 20e-9};
    assert_near(predict(&s, 2).parts.communication, ring_s(2, BYTES, 0.1 * ms, 10e-9));
    assert_near(predict(&s, 3).parts.communication, ring_s(3, BYTES, 0.4 * ms, 30e-9));
    assert_int_equal(clq_why_worst_link(&s.machines), 1); /* a third takes 0.2 + 0.77 ms; over link 2, 0.4 + 0.51 ms */
    assert_ok(clq_why_middle_link(&s.machines, &middle));
    assert_near(middle.alpha_s, 0.2 * ms);
    assert_near(middle.beta_s, 20e-9);
}

/* Each device has as many samples as training gives it: 100 samples over 1 + 4 + 2 devices are 15 each, and 10 for the
 * last. */
static void test_shares(void **state) {
    (void)state;
    const unsigned devices[] = {1, 4, 2};
    size_t shares[3], paces[3];
    assert_ok(clq_why_machine_shares(devices, 3, 100, shares, paces));
    assert_int_equal(shares[0], 15);
    assert_int_equal(shares[1], 60);
    assert_int_equal(shares[2], 25);
    /* By itself the last process would split its 25 samples into 13 and 12. In training its first device has 15, so the
     * process takes as long as for 30 samples. */
    assert_int_equal(paces[0], 15);
    assert_int_equal(paces[1], 60);
    assert_int_equal(paces[2], 30);
    assert_ok(clq_why_machine_shares(devices, 1, 100, shares, paces));
    assert_int_equal(shares[0], 100);
    assert_int_equal(paces[0], 100);
    /* 9 samples are 2 for each of four devices, and 1 for the next. The last process has none. */
    assert_ok(clq_why_machine_shares(devices, 3, 9, shares, paces));
    assert_int_equal(shares[1], 7);
    assert_int_equal(paces[1], 8);
    assert_int_equal(shares[2], 0);
    assert_int_equal(paces[2], 0);
}

static void test_memory(void **state) {
    (void)state;
    scene s;
    bool known;
    clq_machines_prediction none;
    set_up(&s, 2, 64);
    s.probes[0].step_count = 1; /* probed with 32 samples: 64 would take 1 + 8 ms, but do not fit */
    s.probes[0].too_large = 64;
    const clq_machines_way one = way_of(&s, 1);
    assert_ok(clq_why_predict_machines(&s.machines, &one, &known, &none));
    assert_false(known);
    s.probes[0].too_large = 0;
    assert_near(predict(&s, 1).step_s, 9 * ms);
    assert_near(predict(&s, 2).step_s, 5 * ms + predict(&s, 2).parts.communication);
}

/* The gradient of mlp (784-128-10), from the last layer to the first. Each element of a kernel or bias counts as one
 * multiplication. */
static void test_gradient(void **state) {
    (void)state;
    static const size_t elements[] = {10, 128 * 10, 128, 784 * 128};
    clq_scale_piece *pieces = calloc(CLQ_PIECES_MAX, sizeof *pieces);
    clq_model *model;
    size_t count, bytes, done = 0;
    assert_non_null(pieces);
    assert_ok(clq_model_builtin("mlp", &model));
    assert_ok(clq_why_pieces(model, pieces, &count, &bytes));
    assert_int_equal(count, 4);
    assert_int_equal(bytes, 4 * 101770);
    for (size_t i = 0; i < count; i++) {
        done += elements[i];
        assert_int_equal(pieces[i].bytes, 4 * elements[i]);
        assert_near(pieces[i].part, (double)done / 101770);
    }
    clq_model_destroy(model);
    free(pieces);
    /* Default buckets. Between hosts, a gradient of 512 KiB or more is cut into twelfths. Within one host, a gradient
     * of 1 MiB or more is cut into buckets of 4 MiB. */
    assert_true(clq_why_bucket_bytes(400000, 0, false) == CLQ_SCALE_WHOLE);
    assert_int_equal(clq_why_bucket_bytes(1200000, 0, false), 100000);
    assert_true(clq_why_bucket_bytes(1000000, 0, true) == CLQ_SCALE_WHOLE);
    assert_int_equal(clq_why_bucket_bytes(1200000, 0, true), 4 << 20);
    assert_int_equal(clq_why_bucket_bytes(1000, 77, true), 77);
}

/* ---- advice ---- */

static const clq_advice *find(const clq_advice *all, size_t count, const char *options) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].options, options) == 0) return &all[i];
    return NULL;
}

/* A step of 5 ms, and 15.6 ms of exchange at 200 ns for a byte. */
static void test_advice(void **state) {
    (void)state;
    scene s;
    clq_advice all[CLQ_MACHINES_ADVICE_MAX];
    size_t count;
    set_up(&s, 2, 64);
    for (unsigned r = 0; r < 2; r++) s.links[r].beta_s = 200e-9;
    const clq_machines_prediction one = predict(&s, 1), two = predict(&s, 2);
    const double exchange_s = ring_s(2, BYTES, 0.1 * ms, 200e-9);
    assert_near(two.step_s, 5 * ms + exchange_s);
    assert_ok(clq_why_advise_machines(&s.machines, &two, &one, all, CLQ_COUNT_OF(all), &count));
    for (size_t i = 1; i < count; i++) assert_true(all[i].gain <= all[i - 1].gain);
    assert_near(find(all, count, "mpirun -n 1")->gain, two.step_s / (9 * ms));
    assert_near(find(all, count, "--batch 256")->gain, 4 * two.step_s / (17 * ms + exchange_s));
    assert_near(find(all, count, "--accumulate 4")->gain, 4 * two.step_s / (18 * ms + exchange_s));
    assert_near(find(all, count, "--compress f16:between")->gain,
                two.step_s / (5 * ms + ring_s(2, BYTES / 2, 0.1 * ms, 200e-9) + 0.5 * ms));
    assert_near(find(all, count, "--local-steps 16")->gain, two.step_s / (5 * ms + exchange_s / 16));
    assert_near(find(all, count, "")->gain, two.step_s / (5 * ms + ring_s(2, BYTES, 0.1 * ms, 20e-9)));
    assert_null(find(all, count, "--shares auto")); /* all machines are equally fast */
    assert_string_equal(find(all, count, "mpirun -n 1")->text, "use the first machine only");
    /* A loss scale and local steps exclude each other. */
    s.machines.scales_loss = true;
    assert_ok(clq_why_advise_machines(&s.machines, &two, &one, all, CLQ_COUNT_OF(all), &count));
    assert_null(find(all, count, "--local-steps 16"));
    /* A fast network, which leaves nothing to gain, and a slow machine. */
    set_up(&s, 2, 64);
    s.machines.samples = 64;
    for (unsigned r = 0; r < 2; r++) s.links[r] = (clq_link_probe){1e-9, 1e-12};
    set_speed(&s.probes[1], 0.25 * ms);
    const clq_machines_prediction now = predict(&s, 2);
    assert_ok(clq_why_advise_machines(&s.machines, &now, &now, all, CLQ_COUNT_OF(all), &count));
    assert_int_equal(count, 1);
    assert_string_equal(all[0].options, "--shares auto");
    assert_near(all[0].gain, now.step_s / (now.step_s - 9 * ms + 1 * ms + 43 * 0.125 * ms));
}

/* ---- the links between processes ---- */

enum { RANKS_MOST = 5 };
static const double latency_s = 2e-3, bytes_per_s = 1e9;

static void probe_links(fabric_rank *self) {
    clq_link_probe links[RANKS_MOST];
    const clq_status status = clq_why_probe_links(self->world, links);
    if (status == CLQ_OK) memcpy((clq_link_probe *)self->context + self->rank * RANKS_MOST, links, sizeof links);
    fabric_note(self, status);
}

/* Neither message is measured faster than the network. If a rank were in two measurements at a time, one of them would
 * be. Other load on the cores can delay either message, so the rate by itself may come out better than the
 * network's. */
static void test_network(void **state) {
    static const double sent[] = {64, 4 << 20}; /* why/between.c */
    (void)state;
    static const clq_world_config patient = {.silence_s = 60, .deadline_s = 60};
    for (unsigned size = 2; size <= RANKS_MOST; size += size == 3 ? 2 : 1) {
        clq_link_probe links[RANKS_MOST][RANKS_MOST] = {0};
        fabric_rank ranks[RANKS_MOST];
        fabric *network = fabric_open(size, latency_s, bytes_per_s);
        fabric_run(network, size, &patient, probe_links, links, ranks);
        fabric_close(network);
        for (unsigned r = 0; r < size; r++) {
            assert_int_equal(ranks[r].ended, CLQ_OK);
            assert_memory_equal(links[r], links[0], size * sizeof links[0][0]);
            for (size_t i = 0; i < CLQ_COUNT_OF(sent); i++)
                assert_true(links[0][r].alpha_s + sent[i] * links[0][r].beta_s >=
                            (latency_s + sent[i] / bytes_per_s) * (1 - 1e-9));
        }
    }
}

/* ---- failures ---- */

typedef struct question {
    scene scene;
    clq_machines_prediction one, two;
} question;

static clq_status ask(void *context) {
    const question *q = context;
    clq_machines_way way = way_of(&q->scene, 2);
    clq_advice all[CLQ_MACHINES_ADVICE_MAX];
    size_t count;
    bool known;
    clq_machines_prediction out;
    clq_link_probe middle;
    way.by_speed = true;
    CLQ_TRY(clq_why_predict_machines(&q->scene.machines, &way, &known, &out));
    CLQ_TRY(clq_why_middle_link(&q->scene.machines, &middle));
    return clq_why_advise_machines(&q->scene.machines, &q->two, &q->one, all, CLQ_COUNT_OF(all), &count);
}

static void test_failures(void **state) {
    (void)state;
    question q;
    set_up(&q.scene, 2, 64);
    q.one = predict(&q.scene, 1);
    q.two = predict(&q.scene, 2);
    q.scene.machines.probes = q.scene.probes;
    assert_true(walk_allocations(ask, &q) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),     cmocka_unit_test(test_slow_machine), cmocka_unit_test(test_together),
        cmocka_unit_test(test_uneven),   cmocka_unit_test(test_buckets),      cmocka_unit_test(test_links),
        cmocka_unit_test(test_shares),   cmocka_unit_test(test_memory),       cmocka_unit_test(test_advice),
        cmocka_unit_test(test_star),     cmocka_unit_test(test_network),      cmocka_unit_test(test_failures),
        cmocka_unit_test(test_gradient),
    };
    return cmocka_run_group_tests_name("why/machines", tests, NULL, NULL);
}
