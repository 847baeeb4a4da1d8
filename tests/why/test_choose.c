/* Which devices are compared and which are chosen, on made-up machines. Each list is written by hand. */
#include "support/check.h"
#include "why/choose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEVICES_MOST = 8 };

typedef struct machine {
    clq_device_info infos[DEVICES_MOST];
    const clq_device_info *list[DEVICES_MOST];
    clq_devices rule;
    clq_machine m;
    clq_lone lone[CLQ_LONE_MAX];
    size_t lone_count;
    clq_together together[CLQ_TOGETHER_MAX];
    size_t together_count;
} machine;

static void begin(machine *x, unsigned cores, size_t batch) {
    memset(x, 0, sizeof *x);
    x->m = (clq_machine){.devices = x->list, .rule = &x->rule, .cores = cores, .batch = batch};
}

static void put(machine *x, clq_device_type type, const char *driver, const char *name, uint32_t units, bool rule) {
    const uint32_t i = (uint32_t)x->m.count++;
    clq_device_info *info = &x->infos[i];
    *info = (clq_device_info){.index = i, .type = type, .compute_units = units, .usable = true};
    (void)snprintf(info->driver, sizeof info->driver, "%s", driver);
    (void)snprintf(info->name, sizeof info->name, "%s", name);
    x->list[i] = info;
    if (rule) x->rule.items[x->rule.count++] = (clq_device_choice){i, 0, 1};
}

/* Checks the SPECs of the lone devices, and then gives the devices these rates. */
static void expect_lone(machine *x, const char *specs, const double *rates) {
    char text[256] = "";
    x->lone_count = clq_why_lone(&x->m, x->lone, CLQ_COUNT_OF(x->lone));
    for (size_t i = 0; i < x->lone_count; i++) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%s%u", i ? " " : "", x->lone[i].device.index);
        x->lone[i].images_per_s = rates[i];
    }
    assert_string_equal(text, specs);
}

static void expect_together(machine *x, const char *specs) {
    char text[1024] = "";
    x->together_count = clq_why_together(&x->m, x->lone, x->lone_count, x->together, CLQ_COUNT_OF(x->together));
    for (size_t i = 0; i < x->together_count; i++) {
        const clq_together *t = &x->together[i];
        char spec[CLQ_SPEC_TEXT];
        clq_devices devices = {.count = t->count};
        memcpy(devices.items, t->items, sizeof devices.items);
        assert_true(clq_why_spec(&devices, 0, devices.count, spec, sizeof spec));
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", spec);
    }
    assert_string_equal(text, specs);
}

/* Two drivers of one CPU: their devices never train together. */
static void test_two_drivers_of_a_cpu(void **state) {
    (void)state;
    machine x;
    begin(&x, 8, 64);
    put(&x, CLQ_DEVICE_CPU, "pocl", "pthread", 8, false);
    put(&x, CLQ_DEVICE_CPU, "intel", "cpu", 8, true);
    expect_lone(&x, "1 0", (const double[]){100, 90});
    expect_together(&x, "1/2 1/4 1/8 0/2 0/4 0/8");
    for (size_t i = 0; i < x.together_count; i++) assert_true(x.together[i].all_only);
    x.lone[0].images_per_s = 0; /* it cannot train this */
    expect_together(&x, "0/2 0/4 0/8");
}

/* Devices of one core each: at most as many as there are cores. 6 is no power of two, so there are 4 parts at most.
 * There are no more parts than samples. */
static void test_cores_and_samples(void **state) {
    (void)state;
    machine x;
    begin(&x, 2, 64);
    for (unsigned i = 0; i < 3; i++) put(&x, CLQ_DEVICE_CPU, "pocl", "basic", 1, false);
    put(&x, CLQ_DEVICE_CPU, "pocl", "pthread", 2, true);
    expect_lone(&x, "3 0", (const double[]){100, 60});
    expect_together(&x, "0,1 3/2");
    x.m.cores = 1;
    expect_together(&x, "3/2");
    begin(&x, 6, 5);
    put(&x, CLQ_DEVICE_CPU, "intel", "cpu", 6, true);
    expect_lone(&x, "0", (const double[]){100});
    expect_together(&x, "0/2 0/4");
    x.m.batch = 1;
    expect_together(&x, "");
}

static void test_many_cores(void **state) {
    (void)state;
    machine x;
    begin(&x, 192, 4096);
    put(&x, CLQ_DEVICE_CPU, "pocl", "pthread", 192, true);
    expect_lone(&x, "0", (const double[]){1});
    expect_together(&x, "0/2 0/4 0/8 0/16 0/32 0/64"); /* CLQ_REPLICAS_MAX */
}

/* Devices whose memory does not hold the whole batch may train together, too: devices of one such kind, and such
 * devices beside others that hold the batch. */
static void test_too_large_alone(void **state) {
    (void)state;
    machine x;
    begin(&x, 2, 64);
    put(&x, CLQ_DEVICE_CPU, "pocl", "basic", 1, true);
    put(&x, CLQ_DEVICE_CPU, "pocl", "basic", 1, false);
    expect_lone(&x, "0", (const double[]){0});
    expect_together(&x, "");
    x.lone[0].too_large = true;
    expect_together(&x, "0,1");
    begin(&x, 4, 64);
    put(&x, CLQ_DEVICE_GPU, "amd", "small", 60, true);
    put(&x, CLQ_DEVICE_GPU, "nvidia", "large", 80, true);
    put(&x, CLQ_DEVICE_GPU, "amd", "small", 60, true);
    put(&x, CLQ_DEVICE_CPU, "pocl", "pthread", 4, false);
    expect_lone(&x, "0 1 3", (const double[]){0, 100, 10});
    expect_together(&x, "3/2 3/4 1,3");
    x.lone[0].too_large = true;
    expect_together(&x, "1,0,2 3/2 3/4 1,0,2,3");
}

/* The alternative that was chosen before comes first: the whole alternative, or a larger one that begins with its
 * devices. */
static void test_put_first(void **state) {
    (void)state;
    machine x;
    begin(&x, 4, 64);
    for (unsigned i = 0; i < 3; i++) put(&x, CLQ_DEVICE_GPU, "nvidia", "card", 80, true);
    put(&x, CLQ_DEVICE_CPU, "pocl", "pthread", 4, false);
    expect_lone(&x, "0 3", (const double[]){100, 10});
    expect_together(&x, "0,1,2 3/2 3/4 0,1,2,3");
    static const struct {
        const char *chosen;
        unsigned count, parts;
    } cases[] = {{"3/4", 4, 4}, {"0,1,2,3", 4, 1}, {"3/2", 2, 2}, {"0,1", 3, 1}, {"0,1,2", 3, 1}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        assert_true(clq_why_put_first(x.together, x.together_count, cases[i].chosen));
        assert_int_equal(x.together[0].count, cases[i].count);
        assert_int_equal(x.together[0].items[0].parts, cases[i].parts);
    }
    /* No alternative is lost. An alternative of parts matches only as a whole. A single device is an alternative of its
     * own. */
    unsigned replicas = 0;
    for (size_t i = 0; i < x.together_count; i++) replicas += x.together[i].count;
    assert_int_equal(replicas, 3 + 2 + 4 + 4);
    assert_false(clq_why_put_first(x.together, x.together_count, "0"));
    assert_false(clq_why_put_first(x.together, x.together_count, "3/8"));
}

/* Each kind of device that was chosen before is measured, also if it was chosen as one of several alike, or as
 * parts. */
static void test_kinds_of_what_was_chosen(void **state) {
    (void)state;
    machine x;
    begin(&x, 4, 64);
    put(&x, CLQ_DEVICE_CPU, "intel", "cpu", 4, true);
    for (unsigned i = 0; i < 2; i++) put(&x, CLQ_DEVICE_CPU, "pocl", "basic", 1, false);
    put(&x, CLQ_DEVICE_CPU, "pocl", "pthread", 4, false);
    expect_lone(&x, "0 1 3", (const double[]){0, 0, 0});
    static const struct {
        const char *spec;
        bool has[3];
    } cases[] = {{"0", {true}},
                 {"2", {false, true}},
                 {"1,2", {false, true}},
                 {"3/4", {false, false, true}},
                 {"3/2:1,0", {true, false, true}},
                 {"0,13", {true}},
                 {"17", {false}}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++)
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(clq_why_has_kind(&x.m, &x.lone[k], cases[i].spec), cases[i].has[k]);
}

/* GPUs are ordered by their rates, and equal GPUs as in the table. A GPU that another driver lists as well, or that is
 * too slow, is not in the rule. */
static void test_gpus(void **state) {
    (void)state;
    machine x;
    begin(&x, 4, 64);
    put(&x, CLQ_DEVICE_GPU, "nvidia", "small", 20, true);
    put(&x, CLQ_DEVICE_GPU, "nvidia", "large", 80, true);
    put(&x, CLQ_DEVICE_GPU, "rusticl", "large", 80, false);
    put(&x, CLQ_DEVICE_CPU, "pocl", "pthread", 1, false);
    put(&x, CLQ_DEVICE_GPU, "nvidia", "large", 80, true);
    expect_lone(&x, "0 1 3", (const double[]){400, 1000, 50});
    expect_together(&x, "1,4,0 1,4,0,3");
    assert_false(x.together[0].all_only);
    assert_true(x.together[1].all_only);
    assert_int_equal(x.together[0].lone[0], 1);
    assert_int_equal(x.together[0].lone[2], 0);
    x.infos[4].usable = false; /* what the rule took is tested; what is not usable is alone in nothing */
    x.rule.items[2] = x.rule.items[1];
    x.rule.count = 2;
    expect_together(&x, "1,0 1,0,3");
}

static void test_bound(void **state) {
    (void)state;
    const double rates[] = {1000, 1000, 400};
    assert_float_equal(clq_why_bound(rates, 2, true), 2200, 1e-9);
    assert_float_equal(clq_why_bound(rates, 3, true), 1320, 1e-9);  /* all wait for the slow one */
    assert_float_equal(clq_why_bound(rates, 3, false), 2200, 1e-9); /* the first two */
}

static clq_alternative does(const char *devices, unsigned replicas, double images_per_s) {
    clq_alternative a = {.replicas = replicas, .images_per_s = images_per_s};
    (void)snprintf(a.devices, sizeof a.devices, "%s", devices);
    return a;
}

static void test_fastest(void **state) {
    (void)state;
    clq_alternative a[] = {does("0", 1, 100), does("0/2", 2, 130), does("1", 1, 0), does("1/4", 4, 132)};
    assert_string_equal(clq_why_fastest(a, 4)->devices, "0/2"); /* nearly as fast as four */
    assert_string_equal(clq_why_fastest(a, 1)->devices, "0");
    a[3].images_per_s = 140;
    assert_string_equal(clq_why_fastest(a, 4)->devices, "1/4");
    a[0].images_per_s = 138;
    assert_string_equal(clq_why_fastest(a, 4)->devices, "0");
    assert_null(clq_why_fastest(&a[2], 1));
    assert_null(clq_why_fastest(a, 0));
}

/* Picks only strategies that compute the results of one replica, and only those that go with the settings. */
static void test_strategies(void **state) {
    (void)state;
    const clq_prediction p[] = {{.way = {"single", 0, 1, 64, 1}, .images_per_s = 900},
                                {.way = {"mirrored", 0, 2, 64, 1}, .images_per_s = 500},
                                {.way = {"tensor", 0, 2, 64, 1}, .images_per_s = 600},
                                {.way = {"ps", 0, 2, 64, 1}, .images_per_s = 700},
                                {.way = {"pipeline", 0, 2, 64, 1}, .images_per_s = 650},
                                {.way = {"mirrored", 0, 4, 64, 1}, .images_per_s = 550}};
    const clq_choosing any = {.strategy = "auto", .plain = true}, set = {.strategy = "auto", .plain = false},
                       ps = {.strategy = "ps", .plain = true}, single = {.strategy = "single"},
                       mirrored = {.strategy = "mirrored"};
    assert_ptr_equal(clq_why_pick(&any, p, 6, 1), &p[0]);
    assert_ptr_equal(clq_why_pick(&any, p, 6, 2), &p[2]);
    assert_ptr_equal(clq_why_pick(&set, p, 6, 2), &p[5]);
    assert_ptr_equal(clq_why_pick(&set, p, 5, 2), &p[1]);
    assert_ptr_equal(clq_why_pick(&ps, p, 6, 2), &p[3]);
    const clq_prediction near[] = {{.way = {"tensor", 0, 2, 64, 1}, .images_per_s = 600},
                                   {.way = {"mirrored", 0, 2, 64, 1}, .images_per_s = 580}}; /* over 0.95 of it */
    assert_ptr_equal(clq_why_pick(&any, near, 2, 2), &near[1]);
    assert_null(clq_why_pick(&single, p, 6, 2));
    assert_string_equal(clq_why_strategy_alone(&any), "single");
    assert_string_equal(clq_why_strategy_alone(&mirrored), "mirrored");
    assert_null(clq_why_strategy_alone(&ps));
}

static void test_spec(void **state) {
    (void)state;
    char text[24];
    const clq_devices devices = {.count = 6,
                                 .items = {{3, 0, 1}, {3, 0, 1}, {0, 0, 2}, {0, 1, 2}, {1, 1, 4}, {12, 0, 1}}};
    assert_true(clq_why_spec(&devices, 0, 6, text, sizeof text));
    assert_string_equal(text, "3,3,0/2,1/4:1,12");
    assert_true(clq_why_spec(&devices, 2, 1, text, sizeof text));
    assert_string_equal(text, "0/2:0");
    assert_true(clq_why_spec(&devices, 3, 2, text, sizeof text));
    assert_string_equal(text, "0/2:1,1/4:1");
    assert_false(clq_why_spec(&devices, 0, 6, text, 16));
}

/* ---- whether a kept choice still holds good ---- */

static clq_kept_choice kept_at(double images_per_s, double others) {
    return (clq_kept_choice){.images_per_s = images_per_s, .doubt = {.others = others}};
}

static void test_three_trainings_in_a_row(void **state) {
    (void)state;
    clq_kept_choice kept = kept_at(1000, 0);
    assert_false(clq_why_judge_choice(&kept, 850, 0)); /* near enough: nothing to note */
    for (unsigned i = 0; i < 2; i++) assert_true(clq_why_judge_choice(&kept, 800, 0.05));
    assert_int_equal(clq_why_renewal(&kept, 0), CLQ_RENEWAL_NONE);
    assert_true(clq_why_judge_choice(&kept, 900, 0)); /* not in a row */
    assert_int_equal(kept.fell_short, 0);
    assert_true(kept.reached_images_per_s == 0);
    assert_true(clq_why_judge_choice(&kept, 700, 0));
    assert_true(clq_why_judge_choice(&kept, 840, (double)NAN)); /* not known how busy it was */
    assert_false(clq_why_judge_choice(&kept, 100, 0.5));        /* tells nothing: the cores were busy */
    assert_false(clq_why_judge_choice(&kept, (double)NAN, 0));
    assert_int_equal(clq_why_renewal(&kept, 0), CLQ_RENEWAL_NONE);
    assert_true(clq_why_judge_choice(&kept, 600, 0));
    assert_true(kept.reached_images_per_s == 840);
    assert_int_equal(clq_why_renewal(&kept, 0), CLQ_RENEWAL_FELL_SHORT);
    assert_int_equal(clq_why_renewal(&kept, 0.9), CLQ_RENEWAL_FELL_SHORT);
    assert_int_equal(clq_why_renewal(&kept, (double)NAN), CLQ_RENEWAL_FELL_SHORT);
}

/* A choice that was predicted on busy cores can be judged by a training on cores that are as busy. */
static void test_as_busy_as_then(void **state) {
    (void)state;
    clq_kept_choice kept = kept_at(1000, 0.45);
    assert_true(clq_why_judge_choice(&kept, 500, 0.5));
    assert_false(clq_why_judge_choice(&kept, 500, 0.6));
    kept = kept_at(1000, (double)NAN);
    assert_true(clq_why_judge_choice(&kept, 500, 0.1));
    assert_false(clq_why_judge_choice(&kept, 500, 0.2));
}

static void test_doubtful_choices(void **state) {
    (void)state;
    clq_kept_choice kept = kept_at(1000, 0.4);
    assert_int_equal(clq_why_renewal(&kept, 0.05), CLQ_RENEWAL_DOUBTFUL);
    assert_int_equal(clq_why_renewal(&kept, 0.3), CLQ_RENEWAL_NONE);         /* comparing again would be no better */
    assert_int_equal(clq_why_renewal(&kept, (double)NAN), CLQ_RENEWAL_NONE); /* nor is it known whether it would */
    kept.renewals = 2;
    assert_int_equal(clq_why_renewal(&kept, 0), CLQ_RENEWAL_DOUBTFUL);
    kept.renewals = 3; /* cores that are never quiet for long */
    assert_int_equal(clq_why_renewal(&kept, 0), CLQ_RENEWAL_NONE);
    kept = kept_at(1000, 0.08);
    assert_int_equal(clq_why_renewal(&kept, 0), CLQ_RENEWAL_NONE);
    kept = kept_at(1000, (double)NAN);
    assert_int_equal(clq_why_renewal(&kept, 0), CLQ_RENEWAL_NONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_drivers_of_a_cpu),
        cmocka_unit_test(test_cores_and_samples),
        cmocka_unit_test(test_many_cores),
        cmocka_unit_test(test_too_large_alone),
        cmocka_unit_test(test_put_first),
        cmocka_unit_test(test_kinds_of_what_was_chosen),
        cmocka_unit_test(test_gpus),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_fastest),
        cmocka_unit_test(test_strategies),
        cmocka_unit_test(test_spec),
        cmocka_unit_test(test_three_trainings_in_a_row),
        cmocka_unit_test(test_as_busy_as_then),
        cmocka_unit_test(test_doubtful_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
