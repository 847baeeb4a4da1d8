/* Whole training runs against traces of Keras in float64 (tests/golden/README.md): the loss of every step, the first
 * step's gradient norm of every variable, and the initial model's predictions. Traces of one device are shared out
 * between PoCL and Intel's driver; others are of several devices. The argument `alone` picks the tests on one device,
 * `optimized` a few of these traces, for kernels that are optimized as users' are, and `ways` the tests on several
 * devices. With CLQ_TEST_WHOLE=1 more traces go by each way of `ways`, and more kernels by `gpu`. With `long` every
 * strategy makes every trace, in steps that are one launch if the strategy has such. */
#include "support/apart.h"
#include "support/check.h"
#include "support/disguise.h"
#include "support/interop_golden.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_long(void) { return getenv("CLQ_TEST_WHOLE") != NULL; }

/* Launches of some kernel files in the plans of all runs. */
static const char *const counted_files[] = {"winograd_local", "product_local", "product_subgroup"};
static size_t counted[CLQ_COUNT_OF(counted_files)];

static void count_launches(const clq_trainer *trainer) {
    const clq_list *list = clq_plan_list(clq_strategy_plan(clq_trainer_strategy(trainer), 0));
    for (size_t i = 0; i < clq_list_launch_count(list); i++) {
        clq_launch_info info;
        clq_list_launch_info(list, i, &info);
        for (size_t k = 0; k < CLQ_COUNT_OF(counted); k++)
            counted[k] += info.file && strcmp(info.file, counted_files[k]) == 0;
    }
}

/* The first candidate makes this case's step as one launch: of kernels that no rule puts into one on a CPU. */
static const char whole_by_candidates[] = "mlp_adam_probs";

/* Candidates that the tuner could choose; the first is the rule's, which others run with. All of a CPU device's, which
 * has few, and every fourth one of a GPU's, other ones for each trace: ops/gemm and ops/winograd hold each block to a
 * reference. With CLQ_TEST_WHOLE=1 every second one of a GPU's. Returns how many of them a question of these runs had
 * at least. The first follows the trace to its end, and the others through an epoch, whose last batch is not full. */
static size_t run_candidates(golden *g, const char *spec, size_t stride, size_t second) {
    const char *const disabled = golden_by.disabled_paths;
    const size_t steps = golden_by.steps, samples = (size_t)json_integer_value(json_object_get(g->json, "samples"));
    size_t nth = 1, least = 2;
    if (strcmp(g->name, whole_by_candidates) == 0) golden_by.disabled_paths = NULL;
    for (size_t next = second; golden_run(g, spec, &(clq_selections){.by_rule = true, .nth = nth}); next += stride) {
        least = nth + 2; /* they count from 0, and one is behind this one */
        nth = next;
        golden_by.disabled_paths = disabled;
        golden_by.steps = clq_ceil_div(samples, g->batch);
    }
    golden_by.disabled_paths = disabled;
    golden_by.steps = steps;
    return least;
}

/* How many steps as_gpu_without_its_units follows: an epoch or more. Other runs follow the same traces to their ends.
 */
enum { FIRST_STEPS = 10 };

typedef enum extent {
    ALL_CASES,
    WEIGHTED_CASES,
    WEIGHTED_CASES_BY_PIECES,
    FEW_CASES,
    FEW_CASES_BY_CANDIDATES,
    RAGGED_CASES,
    RAGGED_CASES_BY_PIECES
} extent;
enum { FEW = 4, FEW_BY_CANDIDATES = 2, RAGGED = 2, PIECES = 4 };

/* The first two have dense layers and convolutions with many channels, and are enough for as_gpu to see each kind of
 * GPU kernel; the last one has a batch that is not full. */
static const char *one_case; /* its name; NULL: not one alone */
static bool is_in(extent which, const char *name) {
    static const char *const few[FEW] = {"cnn_wide", "mlp_adam_probs", "cnn_adam_logits", "cnn_sgd_nesterov_ragged"};
    if (one_case && strcmp(name, one_case) != 0) return false;
    if (which == WEIGHTED_CASES || which == WEIGHTED_CASES_BY_PIECES)
        return strcmp(name, "sample_weights") == 0 || strcmp(name, "class_weights_of_rows") == 0;
    if (which == RAGGED_CASES || which == RAGGED_CASES_BY_PIECES)
        return strcmp(name, few[1]) == 0 || strcmp(name, few[3]) == 0;
    if (one_case) return true;
    size_t count = which == FEW_CASES_BY_CANDIDATES ? FEW_BY_CANDIDATES : FEW, i = 0;
    while (i < count && strcmp(name, few[i]) != 0) i++;
    return which == ALL_CASES || i < count;
}

typedef struct tally {
    const char *spec;
    extent which;
    unsigned cases;
    size_t candidates; /* so many a question had at least */
} tally;

static bool gpu;         /* devices are in disguise */
static bool alternating; /* cases are shared out between drivers */

static bool is_one_of(const char *name, const char *const *names, size_t count) {
    size_t i = 0;
    while (i < count && strcmp(names[i], name) != 0) i++;
    return i < count;
}

/* Cases whose steps are one launch: each such program is compiled for one case alone, while kernels by themselves are
 * shared by cases, ways and tests. Kinds of layers and losses are shared out between the drivers. Both have transformed
 * convolutions and statistics, which other tests do not have as one launch on all drivers. */
static const struct {
    const char *name;
    bool pocl, intel;
} whole[] = {{"cnn_wide", true, true},        {"residual_bn", true, true},
             {"conv_variants", true, false},  {"cnn_sgd_nesterov_ragged", true, false},
             {"two_outputs", true, false},    {"mse_regression", true, false},
             {"mlp_adam_probs", false, true}, {"lenet_chains", false, true},
             {"shared_layer", false, true},   {"dropout_eval", false, true}};

/* Intel has a driver for x86-64 only. */
#if defined(__x86_64__)
enum { DRIVERS = 2 };
#else
enum { DRIVERS = 1 };
#endif
/* Cases that run on both drivers: on one of the two, no other test has their losses. */
static const char *const on_both[] = {"huber_regression", "mae_regression"};
static size_t alternated; /* how many alternating cases one driver has met */

/* Decides whether a case runs on a driver, and sets how. Cases without such a step alternate between the drivers:
 * tests/ops tests their kernels on both. With the arguments `on all SPEC` all cases run on the devices of SPEC. */
static bool runs_alone(const char *name, const char *spec) {
    const bool intel = strcmp(spec, "intel") == 0;
    size_t i = 0;
    while (i < CLQ_COUNT_OF(whole) && strcmp(whole[i].name, name) != 0) i++;
    const bool is_whole = i < CLQ_COUNT_OF(whole);
    golden_by.disabled_paths = is_whole ? NULL : APART;
    if (DRIVERS == 1 || is_one_of(name, on_both, CLQ_COUNT_OF(on_both))) return true;
    return is_whole ? (intel ? whole[i].intel : whole[i].pocl) : alternated++ % DRIVERS == intel;
}

/* Three alike replicas share out the update in steps that are one launch, each of which is a program of its own. An
 * optimizer has such a step with its state on each replica, or with that shared out, too; both where its update needs
 * more than the gradient's sum. The other way runs by kernels that replicas of other traces have built. */
typedef enum three_alike { NOT_THREE, THREE, THREE_SHARDED } three_alike;
static three_alike as_three;

static bool has_whole_step(const char *name) {
    static const char *const both[] = {"average", "clip_global_norm", "lamb_decay"};
    static const char *const plain[] = {"adadelta",    "adam_amsgrad", "clip_value", "cosine",
                                        "exponential", "nadam",        "polynomial", "rmsprop_centered"};
    if (is_one_of(name, both, CLQ_COUNT_OF(both))) return true;
    return is_one_of(name, plain, CLQ_COUNT_OF(plain)) == (as_three == THREE);
}

/* The nth case of a test. */
static size_t run_candidates_of(golden *g, const char *spec, size_t nth) {
    if (!gpu) return run_candidates(g, spec, 1, 2);
    return is_long() ? run_candidates(g, spec, 2, 3) : run_candidates(g, spec, 4, nth % 2 ? 5 : 3);
}

static void run_named(golden *g, void *context) {
    tally *t = context;
    const extent which = t->which;
    const char *spec = t->spec;
    if (!is_in(which, g->name)) return;
    if (alternating && !runs_alone(g->name, spec)) return;
    t->cases++;
    if (as_three != NOT_THREE) golden_by.disabled_paths = has_whole_step(g->name) ? NULL : APART;
    if (which == RAGGED_CASES_BY_PIECES || which == WEIGHTED_CASES_BY_PIECES) g->pieces = PIECES;
    if (which == FEW_CASES_BY_CANDIDATES)
        t->candidates = CLQ_MAX(t->candidates, run_candidates_of(g, spec, t->cases));
    else
        (void)golden_run(g, spec, NULL);
}

static tally run_group(extent which, const char *group, const char *spec) {
    tally t = {.which = which, .spec = spec};
    (void)golden_each(group, run_named, &t);
    return t;
}

static tally run_cases(extent which, const char *spec) { return run_group(which, ".", spec); }

static void run_all(const char *spec) {
    static const struct {
        const char *name;
        size_t least; /* cases that it has */
    } all[] = {{".", 10}, {"branched", 4}, {"outputs", 2}, {"normalised", 2}, {"regression", 3}};
    tally t = {.which = ALL_CASES, .spec = spec};
    alternating = true;
    alternated = 0;
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) assert_true(golden_each(all[i].name, run_named, &t) >= all[i].least);
    alternating = false;
    golden_by.disabled_paths = NULL;
    assert_true(t.cases >= 10);
}

static void on_pocl_basic(void **state) {
    (void)state;
    run_all("pocl:0");
}
static void on_intel(void **state) {
    (void)state;
    run_all("intel");
}

/* PoCL's pool of threads has the same compiler as pocl:0, and shares each launch out between its threads. */
static void on_pocl_pthread(void **state) {
    (void)state;
    assert_int_equal(run_cases(FEW_CASES, "pocl:5").cases, FEW);
}

/* Steps that are one launch, of layers that most models have. */
static void run_optimized(const char *spec) {
    static const char *const names[] = {"mlp_adam_probs", "cnn_sgd_nesterov_ragged"};
    for (size_t i = 0; i < CLQ_COUNT_OF(names); i++) {
        one_case = names[i];
        assert_int_equal(run_cases(FEW_CASES, spec).cases, 1);
    }
    one_case = NULL;
}
static void optimized_on_pocl(void **state) {
    (void)state;
    run_optimized("pocl:5");
}
static void optimized_on_intel(void **state) {
    (void)state;
    run_optimized("intel");
}

/* Two kinds of tests have steps that are one launch: the tests on one device, and those traces of
 * optimizers_by_replicas that share out the update. */
static void begin_apart(const char *strategy) {
    golden_by = (golden_way){.strategy = strategy, .disabled_paths = APART};
}
static void end_apart(void) { golden_by = (golden_way){0}; }

/* All cases run on one of them; here it is a few, split. */
static void mirrored_on_two(void **state) {
    (void)state;
    begin_apart(NULL);
    assert_int_equal(run_cases(FEW_CASES, "pocl:0,pocl:1").cases, FEW);
    assert_true(run_group(ALL_CASES, "outputs", "pocl:0,pocl:1").cases >= 2);
    end_apart();
}
/* PoCL's halves are those of mirrored_on_two, and its thirds those of stored_for_both_vendors: the same kernels. */
static void mirrored_on_both_vendors(void **state) {
    (void)state;
    begin_apart(NULL);
    if (is_long())
        assert_int_equal(run_cases(FEW_CASES, "pocl:0,intel").cases, FEW);
    else
        assert_int_equal(run_cases(RAGGED_CASES, "pocl:0,intel").cases, RAGGED);
    assert_true(run_group(ALL_CASES, "outputs", "pocl:0,intel,pocl:1").cases >= 2);
    end_apart();
}

/* Optimizers, weight decay, clipping, schedules and averages. */
static void optimizers_on_one(void **state) {
    (void)state;
    begin_apart(NULL);
    assert_true(run_group(ALL_CASES, "optimizers", "pocl:0").cases >= 22);
    end_apart();
}
/* Losses: tests/ops has every rule on every device. */
static void losses_on_one(void **state) {
    (void)state;
    begin_apart(NULL);
    assert_true(run_group(ALL_CASES, "losses", "pocl:0").cases >= 19);
    end_apart();
}
/* Weights of samples and classes go along with the targets: through every strategy, and accumulation. Strategies whose
 * kernels are their own have one of the two. */
static void weights_on_two(void **state) {
    (void)state;
    static const struct {
        const char *strategy, *only;
    } rows[] = {{"mirrored", NULL},
                {"central", NULL},
                {"ps", NULL},
                {"pipeline", "class_weights_of_rows"},
                {"tensor", "sample_weights"}};
    for (size_t i = 0; i < CLQ_COUNT_OF(rows); i++) {
        begin_apart(rows[i].strategy);
        one_case = is_long() ? NULL : rows[i].only;
        assert_int_equal(run_group(WEIGHTED_CASES, "losses", "pocl:0,pocl:1").cases, one_case ? 1 : 2);
    }
    one_case = NULL;
    begin_apart("mirrored");
    assert_int_equal(run_group(WEIGHTED_CASES_BY_PIECES, "losses", "pocl:0,pocl:1").cases, 2);
    end_apart();
}
static void shard(clq_trainer_config *config, unsigned replicas) {
    (void)replicas;
    config->strategy_options.shard_optimizer = 1;
}
static void optimizers_by_replicas(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        three_alike as;
    } rows[] = {{"pocl:0,pocl:1", NOT_THREE}, {"pocl:0,pocl:1,pocl:2", THREE}, {"pocl:0,pocl:1,pocl:2", THREE_SHARDED}};
    for (size_t i = 0; i < CLQ_COUNT_OF(rows); i++) {
        begin_apart("mirrored");
        as_three = rows[i].as;
        if (as_three == THREE_SHARDED) golden_by.set = shard;
        assert_true(run_group(ALL_CASES, "optimizers", rows[i].spec).cases >= 22);
    }
    as_three = NOT_THREE;
    end_apart();
}
/* Stages follow the same traces; with statistics, where a batch is one micro-batch. Each strategy compiles kernels of
 * its own for each trace: the long form has all of them. */
static void pipelined_on_two(void **state) {
    (void)state;
    begin_apart("pipeline");
    assert_true(run_group(ALL_CASES, "branched", "pocl:0,pocl:1").cases >= 4);
    golden_by.micro_batches = 1;
    assert_true(run_group(ALL_CASES, "normalised", "pocl:0,pocl:1").cases >= 2);
    end_apart();
}

/* Variables in the host's memory. */
static void stored_on_two(void **state) {
    (void)state;
    begin_apart("central");
    assert_true(run_group(ALL_CASES, "outputs", "pocl:0,pocl:1").cases >= 2);
    golden_by.strategy = "ps";
    assert_true(run_group(ALL_CASES, "outputs", "pocl:0,pocl:1").cases >= 2);
    end_apart();
}
static void stored_for_both_vendors(void **state) {
    (void)state;
    begin_apart("ps");
    assert_true(run_group(ALL_CASES, "outputs", "pocl:0,intel,pocl:1").cases >= 2);
    end_apart();
}

/* A step of the trace made of four batches, whose gradients are accumulated; the last step of an epoch is of two, of
 * which the last has fewer samples: 8 and 4, or 6 and 5. Several devices make one of the traces. */
static void accumulated(void **state) {
    (void)state;
    static const struct {
        const char *spec, *only;
    } places[] = {
        {"pocl:0", NULL},
        {"pocl:0,pocl:1", "cnn_sgd_nesterov_ragged"},
#if defined(__x86_64__)
        {"pocl:0,intel", "mlp_adam_probs"},
#endif
    };
    begin_apart(NULL);
    for (size_t i = 0; i < CLQ_COUNT_OF(places); i++) {
        one_case = is_long() ? NULL : places[i].only;
        assert_int_equal(run_cases(RAGGED_CASES_BY_PIECES, places[i].spec).cases, one_case ? 1 : RAGGED);
    }
    one_case = NULL;
    end_apart();
}

/* Statistics of the global batch: replicas follow the trace of one. */
static void run_synchronized(const char *strategy, const char *spec) {
    begin_apart(strategy);
    golden_by.synchronized = true;
    assert_int_equal(run_group(ALL_CASES, "normalised", spec).cases, 2);
    end_apart();
}
static void synchronized_on_pocl(void **state) {
    (void)state;
    run_synchronized(NULL, "pocl:0*2");
    run_synchronized(NULL, "pocl:0,pocl:1,pocl:0"); /* unequal shares */
    run_synchronized("central", "pocl:0*2");
}
static void synchronized_on_intel(void **state) {
    (void)state;
    run_synchronized(NULL, "intel*2");
    run_synchronized(NULL, "intel,pocl:0");
}

/* Replicas split the weights; dropout's masks and moving statistics are those of one. */
static void run_tensor(const char *spec, const char *normalised) {
    begin_apart("tensor");
    assert_true(run_group(ALL_CASES, "outputs", spec).cases >= 2);
    one_case = is_long() ? NULL : normalised;
    assert_int_equal(run_group(ALL_CASES, "normalised", spec).cases, one_case ? 1 : 2);
    one_case = NULL;
    end_apart();
}
static void tensor_on_pocl(void **state) {
    (void)state;
    run_tensor("pocl:0,pocl:1,pocl:2", NULL);
}
static void tensor_on_both_vendors(void **state) {
    (void)state;
    run_tensor("pocl:0,intel,pocl:1", "dropout_eval"); /* PoCL's parts are those of tensor_on_pocl */
}

static void by_candidates(void **state) {
    (void)state;
    begin_apart(NULL);
    tally t = run_cases(FEW_CASES_BY_CANDIDATES, "pocl:0");
    end_apart();
    assert_int_equal(t.cases, FEW_BY_CANDIDATES);
    assert_true(t.candidates > 2); /* some have so many */
}

/* ---- Intel's CPU as a small GPU: kernels of work-groups ---- */

static unsigned refused;
static void count_refusals(void *context, clq_log_level level, const char *line) {
    (void)context;
    if (level == CLQ_LOG_WARNING && strstr(line, "is not used for products")) refused++;
}

static void as_gpu(void **state) {
    (void)state;
    tally t = run_cases(FEW_CASES_BY_CANDIDATES, "intel");
    assert_int_equal(t.cases, FEW_BY_CANDIDATES);
    assert_true(t.candidates >= 5); /* blocks through local memory and of sub-groups */
    for (size_t k = 0; k < CLQ_COUNT_OF(counted); k++) assert_true(counted[k] > 0);
    assert_int_equal(refused, 0);
}

/* The device has no matrix units: Clique tries them, and then does without. */
static void as_gpu_without_its_units(void **state) {
    (void)state;
    golden_by.lowered = true;
    golden_by.steps = FIRST_STEPS;
    tally t = run_cases(is_long() ? FEW_CASES : RAGGED_CASES, "intel");
    assert_int_equal(t.cases, is_long() ? FEW : RAGGED);
    assert_true(refused > 0);
}

static int run_as_gpu(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_gpu), cmocka_unit_test(as_gpu_without_its_units)};
    if (disguise_load_gpus() != 0 || disguise_as_gpus("") != 0) return 1;
    if (disguise_size("4", "256", "65536") != 0) return 1; /* CLBlast wants groups of 256 */
    if (disguise_extensions("cl_intel_subgroup_matrix_multiply_accumulate") != 0) return 1;
    clq_log_set_sink(count_refusals, NULL, CLQ_LOG_WARNING);
    gpu = true;
    golden_by.look_at = count_launches;
    return cmocka_run_group_tests(tests, golden_open, golden_close);
}

/* ---- the long form: every trace through every strategy ---- */

static void ring(clq_trainer_config *config, unsigned replicas) {
    (void)replicas;
    config->group.algorithm = CLQ_ALGORITHM_RING;
}
static void in_buckets(clq_trainer_config *config, unsigned replicas) {
    ring(config, replicas);
    config->bucket_bytes = 1;
}
static void shares(clq_trainer_config *config, unsigned replicas) {
    static const double weights[] = {3, 1, 0.5, 2};
    config->strategy_options.shares = CLQ_SHARES_WEIGHTS;
    config->strategy_options.share_weights = weights;
    config->strategy_options.share_count = replicas;
}

static const struct way_row {
    const char *name;
    golden_way by;
    size_t pieces;
    bool four; /* on four replicas alone */
} ways[] = {
    {"mirrored, by hand", {.strategy = NULL}, 0, false},
    {"mirrored", {.strategy = "mirrored"}, 0, false},
    {"ring", {.strategy = "mirrored", .set = ring}, 0, false},
    {"buckets", {.strategy = "mirrored", .set = in_buckets}, 0, false},
    {"unequal shares", {.strategy = "mirrored", .set = shares}, 0, false},
    {"sharded optimizer", {.strategy = "mirrored", .set = shard}, 0, false},
    {"central", {.strategy = "central"}, 0, false},
    {"synchronous ps", {.strategy = "ps"}, 0, false},
    {"tensor", {.strategy = "tensor"}, 0, false},
    {"pipeline", {.strategy = "pipeline"}, 0, false},
    {"pipeline, one micro-batch", {.strategy = "pipeline", .micro_batches = 1}, 0, false},
    {"hybrid", {.strategy = "pipeline:stages=2"}, 0, true},
    {"accumulated", {.strategy = "mirrored"}, 2, false},
    {"accumulated, unequal shares", {.strategy = "mirrored", .set = shares}, 2, false},
    {"accumulated, sharded optimizer", {.strategy = "mirrored", .set = shard}, 2, false},
    {"accumulated centrally", {.strategy = "central"}, 2, false},
    {"accumulated, synchronous ps", {.strategy = "ps"}, 2, false},
    {"accumulated, tensor", {.strategy = "tensor"}, 2, false},
    {"accumulated pipeline", {.strategy = "pipeline"}, 2, false},
    {"accumulated hybrid", {.strategy = "pipeline:stages=2"}, 2, true},
};

typedef struct counts {
    const struct way_row *way;
    const char *spec;
    size_t follows, refused, differs;
} counts;

/* That a way means something else than the trace does, by its documents, though it trains. */
static const char *other_meaning(const golden *g, const struct way_row *way) {
    if (way->pieces && golden_has_statistics(g)) return "statistics are of each batch that is accumulated";
    if (way->pieces && golden_leaves_steps_out(g))
        return "steps that count are those of each batch that is accumulated";
    if (way->pieces && g->drop_remainder) return "what is dropped is less than a batch that is accumulated";
    return NULL;
}

static void run_row(golden *g, void *context) {
    counts *c = context;
    bool more;
    const char *other = other_meaning(g, c->way);
    if (other) {
        c->differs++;
        print_message("%-30s %-36s %-24s not run: %s\n", c->way->name, c->spec, g->name, other);
        return;
    }
    golden_by = c->way->by;
    golden_by.synchronized = golden_has_statistics(g) && c->way->by.micro_batches != 1;
    g->pieces = c->way->pieces;
    if (golden_try(g, c->spec, NULL, &more) == CLQ_OK) {
        c->follows++;
        return;
    }
    if (!golden_refusal_is_documented())
        fail_msg("%s, %s on %s: %s", g->name, c->way->name, c->spec, clq_error_detail());
    c->refused++;
    print_message("%-30s %-36s %-24s refused: %s\n", c->way->name, c->spec, g->name, clq_error_detail());
}

static const char *only; /* a way's name; NULL: all */

static const char *const groups[] = {".",          "branched",   "outputs", "normalised",
                                     "regression", "optimizers", "losses",  "families"};

/* fours: with the ways that need four devices. */
static void every_way_on(const char *spec, bool fours) {
    for (size_t w = 0; w < CLQ_COUNT_OF(ways); w++) {
        counts c = {.way = &ways[w], .spec = spec};
        if (ways[w].four && !fours) continue;
        if (only && strcmp(only, ways[w].name) != 0) continue;
        for (size_t i = 0; i < CLQ_COUNT_OF(groups); i++) (void)golden_each(groups[i], run_row, &c);
        print_message("%-30s %-36s %zu follow, %zu refused, %zu not run\n", ways[w].name, spec, c.follows, c.refused,
                      c.differs);
    }
    golden_by = (golden_way){0};
}

static void every_way(void **state) {
    (void)state;
    every_way_on("pocl:0,pocl:1", false);
#if defined(__x86_64__)
    every_way_on("intel,pocl:0,intel,pocl:1", true);
#else
    every_way_on("pocl:0,pocl:1,pocl:2,pocl:3", true);
#endif
}

static void all_optimizers_by_replicas(void **state) {
    static const char *const specs[] = {"pocl:0,pocl:1", "pocl:0,pocl:1,pocl:2", "pocl:0,intel", "intel"};
    (void)state;
    if (only && strcmp(only, "optimizers") != 0) return;
    for (unsigned disabled = 0; disabled < 2; disabled++)
        for (size_t i = 0; i < CLQ_COUNT_OF(specs); i++) {
            golden_by = (golden_way){.strategy = i < 3 ? "mirrored" : "single",
                                     .disabled_paths = disabled ? "sharded update" : NULL};
            assert_true(run_group(ALL_CASES, "optimizers", specs[i]).cases >= 22);
        }
    golden_by = (golden_way){0};
}

static int run_long(const char *name) {
    only = name;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_way), cmocka_unit_test(all_optimizers_by_replicas)};
    return cmocka_run_group_tests(tests, golden_open, golden_close);
}

static char **specs; /* of devices, up to a NULL */

static void on_given(void **state) {
    (void)state;
    for (char **spec = specs; *spec; spec++) assert_int_equal(run_cases(FEW_CASES, *spec).cases, one_case ? 1 : FEW);
}

static void all_on_given(void **state) {
    (void)state;
    for (char **spec = specs; *spec; spec++)
        for (size_t i = 0; i < CLQ_COUNT_OF(groups); i++) assert_true(run_group(ALL_CASES, groups[i], *spec).cases > 0);
}

static void every_way_on_given(void **state) {
    (void)state;
    for (char **spec = specs; *spec; spec++) every_way_on(*spec, false);
}

/* on few|all|CASE SPEC…: those cases on each choice of devices, mirrored on several. on ways|WAY SPEC…: all cases by
 * each way that two devices have, or by that one. */
static int run_on(const char *cases, char **on_specs) {
    const bool all = strcmp(cases, "all") == 0;
    bool by_ways = strcmp(cases, "ways") == 0;
    for (size_t w = 0; w < CLQ_COUNT_OF(ways); w++)
        if (strcmp(cases, ways[w].name) == 0) {
            by_ways = true;
            only = cases;
        }
    const struct CMUnitTest tests[] = {{"on_given",
                                        by_ways ? every_way_on_given
                                        : all   ? all_on_given
                                                : on_given,
                                        NULL, NULL, NULL}};
    one_case = all || strcmp(cases, "few") == 0 ? NULL : cases;
    specs = on_specs;
    return cmocka_run_group_tests(tests, golden_open, golden_close);
}

int main(int argc, char **argv) {
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(on_pocl_basic),
        cmocka_unit_test(on_pocl_pthread),
#if defined(__x86_64__)
        cmocka_unit_test(on_intel),
#endif
    };
    const struct CMUnitTest optimized[] = {
        cmocka_unit_test(optimized_on_pocl),
#if defined(__x86_64__)
        cmocka_unit_test(optimized_on_intel),
#endif
    };
    const struct CMUnitTest by_ways[] = {
        cmocka_unit_test(mirrored_on_two),
        cmocka_unit_test(optimizers_on_one),
        cmocka_unit_test(losses_on_one),
        cmocka_unit_test(weights_on_two),
        cmocka_unit_test(optimizers_by_replicas),
        cmocka_unit_test(pipelined_on_two),
        cmocka_unit_test(accumulated),
        cmocka_unit_test(stored_on_two),
        cmocka_unit_test(synchronized_on_pocl),
        cmocka_unit_test(tensor_on_pocl),
        cmocka_unit_test(by_candidates),
#if defined(__x86_64__)
        cmocka_unit_test(mirrored_on_both_vendors),
        cmocka_unit_test(stored_for_both_vendors),
        cmocka_unit_test(synchronized_on_intel),
        cmocka_unit_test(tensor_on_both_vendors),
#endif
    };
    const char *const which = argc > 1 ? argv[1] : "";
    if (argc > 3 && strcmp(which, "on") == 0) return run_on(argv[2], argv + 3);
    if (strcmp(which, "gpu") == 0) return run_as_gpu();
    if (strcmp(which, "long") == 0) return run_long(argv[2]);
    if (strcmp(which, "alone") == 0) return cmocka_run_group_tests(alone, golden_open, golden_close);
    if (strcmp(which, "optimized") == 0) return cmocka_run_group_tests(optimized, golden_open, golden_close);
    if (strcmp(which, "ways") != 0) {
        fprintf(stderr, "expected alone, optimized, ways, gpu, long or on; not '%s'\n", which);
        return 2;
    }
    if (argc > 2) cmocka_set_test_filter(argv[2]); /* a test's name, or a pattern of names: those alone */
    return cmocka_run_group_tests(by_ways, golden_open, golden_close);
}
