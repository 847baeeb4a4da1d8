/* Recomputation changes no bit: by every strategy, losses and weights are those of the same training without it. `auto`
 * keeps every budget, and what does not fit is refused with a batch that does. */
#include "support/runs.h"
#include "support/ways.h"

#include <stdio.h>

enum { STEPS = 3 };

/* ---- a residual net, with all that a model may have ---- */

typedef struct net {
    bool vectors; /* of Dense layers alone, over the last axis: few kernels are to be compiled */
    bool many;    /* one vector for each pixel. Otherwise a quarter of them, which saves time in slow kernels */
    bool cells;   /* of recurrent layers whose steps are operations by themselves */
    bool synchronized, marked;
} net;

static clq_tensor normalised(clq_model *m, clq_tensor x, const net *how, bool relu) {
    if (how->vectors)
        x = clq_dense(m, x, &(clq_dense_config){.units = 4});
    else
        x = clq_conv2d(
            m, x, &(clq_conv2d_config){.filters = 4, .kernel = {3, 3}, .padding = CLQ_PADDING_SAME, .no_bias = true});
    x = clq_batch_norm(m, x, &(clq_batch_norm_config){.synchronized = how->synchronized});
    return relu ? clq_activate(m, x, CLQ_ACTIVATION_RELU, NULL) : x;
}

static clq_tensor marked(clq_model *m, clq_tensor x, const net *how) { return how->marked ? clq_recompute(m, x) : x; }

static clq_model *make_cells(clq_model *m, clq_tensor x, const net *how) {
    clq_recurrent_config config = clq_recurrent_config_default(8);
    config.activation = CLQ_ACTIVATION_SOFTSIGN; /* no kernel of cells has it */
    config.return_sequences = true;
    x = marked(m, clq_recurrent(m, clq_reshape(m, x, CLQ_SHAPE(4, 196), NULL), CLQ_CELL_LSTM, &config), how);
    config.return_sequences = false;
    x = clq_recurrent(m, x, CLQ_CELL_GRU, &config);
    assert_ok(
        clq_model_finish(m, clq_dense(m, x, &(clq_dense_config){.units = 10, .activation = CLQ_ACTIVATION_SOFTMAX})));
    return m;
}

static clq_model *make_net(const net *how) {
    clq_model *m;
    assert_ok(clq_model_create("residual", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(28, 28, 1));
    if (how->cells) return make_cells(m, x, how);
    if (!how->vectors) x = clq_average_pool2d(m, x, NULL);
    if (how->vectors && !how->many) x = clq_reshape(m, x, CLQ_SHAPE(196, 4), NULL);
    x = normalised(m, x, how, true);
    for (unsigned block = 0; block < 2; block++) {
        clq_tensor y = normalised(m, normalised(m, x, how, true), how, false);
        x = marked(m, clq_activate(m, clq_add(m, CLQ_TENSORS(y, x), NULL), CLQ_ACTIVATION_RELU, NULL), how);
    }
    x = clq_dropout(m, x, &(clq_dropout_config){.rate = 0.25});
    if (!how->vectors) {
        x = clq_conv2d(
            m, x,
            &(clq_conv2d_config){
                .filters = 8, .kernel = {3, 3}, .padding = CLQ_PADDING_SAME, .activation = CLQ_ACTIVATION_RELU});
        x = clq_max_pool2d(m, x, NULL);
    }
    x = clq_flatten(m, x, NULL);
    x = marked(m, clq_dense(m, x, &(clq_dense_config){.units = 64, .activation = CLQ_ACTIVATION_TANH}), how);
    x = clq_dense(m, x, &(clq_dense_config){.units = 10, .activation = CLQ_ACTIVATION_SOFTMAX});
    assert_ok(clq_model_finish(m, x));
    return m;
}

/* ---- trainings ---- */

typedef struct training {
    const way *way;
    const net *net;
    clq_system *system; /* NULL: the one without a limit */
    clq_recompute_kind recompute;
    void (*set)(clq_trainer_config *config); /* NULL: nothing */
    bool whole;                              /* steps are one launch */
    /* out */
    run run;
    uint64_t bytes;     /* the most on a replica's device */
    size_t activations; /* of all replicas together */
} training;

static clq_status open_trainer(const training *t, const clq_model *model, clq_trainer **out) {
    clq_devices devices;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = RUN_BATCH;
    config.seed = 7;
    config.recompute = t->recompute;
    way_configure(t->way, &config);
    /* Kernels by themselves are the same with and without. */
    char disabled[64];
    (void)snprintf(disabled, sizeof disabled, "one launch%s%s", t->way->disabled ? "," : "",
                   t->way->disabled ? t->way->disabled : "");
    config.disabled_paths = t->whole ? NULL : disabled;
    if (t->set) t->set(&config);
    assert_ok(clq_devices_select(t->system ? t->system : sys, t->way->spec, &devices));
    return clq_trainer_create(model, &devices, &config, out);
}

static void note_memory(const clq_trainer *trainer, training *t) {
    const clq_strategy *strategy = clq_trainer_strategy(trainer);
    for (unsigned r = 0; r < clq_strategy_replicas(strategy); r++) {
        clq_plan_memory memory;
        clq_plan_get_memory(clq_strategy_plan(strategy, r), &memory);
        t->bytes = CLQ_MAX(t->bytes, clq_device_memory_used(clq_strategy_device(strategy, r)));
        t->activations += memory.activation_bytes;
    }
}

/* Variables of which replicas may have values of their own are read from the first. */
static void train(training *t) {
    static const net plain = {.synchronized = false};
    clq_model *model = make_net(t->net ? t->net : &plain);
    clq_dataset *data = run_data();
    clq_trainer *trainer;
    clq_totals totals;
    assert_ok(open_trainer(t, model, &trainer));
    for (size_t i = 0; i < STEPS; i++) {
        clq_step_info info;
        run_step(trainer, data, false);
        assert_ok(clq_step_read(trainer, &info));
        t->run.losses[i] = info.loss;
    }
    if (t->way == &way_single) { /* in the memory that there is */
        assert_ok(clq_evaluate(trainer, data, &totals));
        t->run.losses[STEPS] = totals.loss;
    }
    note_memory(trainer, t);
    t->run.elements = clq_model_parameter_count(model);
    t->run.weights_at_end = run_weights(trainer, model);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void check_identical(const training *a, const training *b) {
    if (memcmp(a->run.losses, b->run.losses, (STEPS + 1) * sizeof *a->run.losses) != 0)
        fail_msg("%s: losses %.17g and %.17g", a->way->name, a->run.losses[STEPS], b->run.losses[STEPS]);
    if (memcmp(a->run.weights_at_end, b->run.weights_at_end, a->run.elements * sizeof(float)) != 0)
        fail_msg("%s: weights differ", a->way->name);
}

/* ---- by every strategy ---- */

/* The training by `auto`, whose steps are several launches: as one, each limit would be a program of its own, which
 * takes seconds to compile. Gives its bytes of activations. */
static size_t train_within(const training *off, uint64_t limit) {
    training t = {.way = off->way, .net = off->net, .set = off->set, .recompute = CLQ_RECOMPUTE_AUTO};
    assert_ok(clq_system_open(&(clq_system_config){.memory_limit_bytes = limit}, &t.system));
    train(&t);
    check_identical(&t, off);
    if (t.bytes > limit)
        fail_msg("%s: %llu bytes of %llu", t.way->name, (unsigned long long)t.bytes, (unsigned long long)limit);
    run_release(&t.run);
    clq_system_close(t.system);
    return t.activations;
}

static void set_mixed(clq_trainer_config *config) { config->precision = CLQ_PRECISION_MIXED; }

/* Without and with the most of it; limited: also with as much as a limit between the two asks for. */
static void check_way(const way *w, const net *n, void (*set)(clq_trainer_config *config), bool limited) {
    training off = {.way = w, .net = n, .set = set, .whole = w == &way_single && set != set_mixed}, all = off;
    all.recompute = CLQ_RECOMPUTE_ALL;
    train(&off);
    train(&all);
    check_identical(&all, &off);
    if (all.activations >= off.activations || all.bytes >= off.bytes) fail_msg("%s: nothing is saved", w->name);
    /* A pipeline may be cut elsewhere instead. */
    if (limited && train_within(&off, off.bytes - 1) >= off.activations && w->kind != CLQ_STRATEGY_PIPELINE)
        fail_msg("%s: the limit asks for nothing", w->name);
    run_release(&off.run);
    run_release(&all.run);
}

static void every_strategy_gives_the_same_bits(void **state) {
    static const net vectors = {.vectors = true}, many = {.vectors = true, .many = true};
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(ways); i++) {
        way w = ways[i];
        if (w.kind == CLQ_STRATEGY_PS) w.options.staleness = 0; /* two runs would differ */
        /* A stage has few values: what is estimated beside them would outweigh what they save. */
        const net *n = w.kind == CLQ_STRATEGY_PIPELINE ? &many : &vectors;
        check_way(&w, n, NULL, w.kind != CLQ_STRATEGY_MIRRORED || w.bucket_bytes > 0);
    }
}

static void set_accumulation(clq_trainer_config *config) { config->strategy_options.accumulate = 2; }
static void set_compression(clq_trainer_config *config) {
    config->strategy_options.compression = (clq_compression){.kind = CLQ_COMPRESSION_F16};
}
static void set_local_steps(clq_trainer_config *config) { config->strategy_options.local_steps = 2; }
static void set_mixed_bf16(clq_trainer_config *config) { config->precision = CLQ_PRECISION_MIXED_BF16; }
/* What needs memory beside the weights. */
static void set_average(clq_trainer_config *config) {
    config->average = 0.8;
    config->clip = (clq_clip){.kind = CLQ_CLIP_NORM, .limit = 0.5};
    config->check_numerics = true;
}

static void every_setting_gives_the_same_bits(void **state) {
    static const net vectors = {.vectors = true}, many = {.vectors = true, .many = true},
                     synchronized = {.vectors = true, .synchronized = true}, cells = {.cells = true};
    (void)state;
    check_way(&ways[1], &synchronized, NULL, false);
    check_way(&ways[1], &cells, set_accumulation, false);
    check_way(&ways[1], &vectors, set_accumulation, false);
    check_way(&ways[1], &vectors, set_compression, false);
    check_way(&ways[1], &vectors, set_local_steps, false);
    check_way(&way_single, &vectors, set_average, true);
    check_way(&way_single, &many, set_mixed, true); /* enough rows for products in parts, which are added up */
    check_way(&ways[1], &vectors, set_mixed_bf16, false);
}

/* ---- marks ---- */

static void check_marks(const net *n, const net *with_marks, bool whole) {
    training off = {.way = &way_single, .net = n, .whole = whole}, on = off;
    on.net = with_marks;
    train(&off);
    train(&on);
    check_identical(&on, &off);
    assert_true(on.activations < off.activations);
    run_release(&off.run);
    run_release(&on.run);
}

static void marked_tensors_are_not_kept(void **state) {
    (void)state;
    check_marks(&(net){.marked = false}, &(net){.marked = true}, true);
    check_marks(&(net){.cells = true}, &(net){.cells = true, .marked = true}, false);
}

static void marks_are_checked(void **state) {
    clq_model *m, *other;
    (void)state;
    assert_ok(clq_model_create("marked", &m));
    assert_ok(clq_model_create("other", &other));
    const clq_tensor x = clq_input(m, CLQ_SHAPE(4)), y = clq_dense(m, x, &(clq_dense_config){.units = 2});
    assert_int_equal(clq_recompute(m, y).id, y.id);
    assert_int_equal(clq_recompute(other, y).id, 0);
    assert_int_equal(clq_model_finish(other, y), CLQ_ERROR_ARGUMENT);
    assert_string_equal(clq_error_detail(), "clq_recompute: the tensor is none of model other");
    assert_ok(clq_model_finish(m, y));
    assert_int_equal(clq_recompute(m, y).id, 0); /* it is finished */
    clq_model_destroy(m);
    clq_model_destroy(other);
}

/* ---- budgets ---- */

static void auto_keeps_five_budgets(void **state) {
    training off = {.way = &way_single}, all = {.way = &way_single, .recompute = CLQ_RECOMPUTE_ALL};
    size_t least_kept = SIZE_MAX;
    (void)state;
    train(&off);
    train(&all);
    const uint64_t slack = 256 << 10; /* for what is estimated of later plans */
    for (unsigned i = 0; i < 5; i++) {
        const uint64_t least = all.bytes + slack, most = CLQ_MAX(off.bytes + slack, least);
        const size_t activations = train_within(&off, most - (most - least) * i / 4);
        if (i == 0) assert_int_equal(activations, off.activations); /* no more than is needed */
        /* The search lowers its limit in steps until the placement fits, so a tighter budget may keep a little more. */
        assert_true(all.activations <= activations && activations <= off.activations);
        least_kept = CLQ_MIN(least_kept, activations);
    }
    assert_true(least_kept < off.activations);
    run_release(&off.run);
    run_release(&all.run);
}

static void too_small_a_budget_names_what_fits(void **state) {
    training t = {.way = &way_single, .recompute = CLQ_RECOMPUTE_ALL};
    clq_model *model = make_net(&(net){.marked = false});
    clq_trainer *trainer;
    unsigned long long bytes;
    const char *needs;
    (void)state;
    train(&t);
    run_release(&t.run);
    t.recompute = CLQ_RECOMPUTE_AUTO;
    assert_ok(clq_system_open(&(clq_system_config){.memory_limit_bytes = t.bytes - t.activations / 2}, &t.system));
    assert_int_equal(open_trainer(&t, model, &trainer), CLQ_ERROR_DEVICE_MEMORY);
    assert_non_null(strstr(clq_error_detail(), "would fit"));
    assert_null(strstr(clq_error_detail(), "no smaller batch"));
    assert_null(strchr(clq_error_detail(), '\n'));
    needs = strstr(clq_error_detail(), "needs ");
    if (!needs || sscanf(needs, "needs %llu bytes", &bytes) != 1) fail_msg("%s", clq_error_detail());
    clq_system_close(t.system);
    assert_ok(clq_system_open(&(clq_system_config){.memory_limit_bytes = bytes - 1}, &t.system));
    assert_int_equal(open_trainer(&t, model, &trainer), CLQ_ERROR_DEVICE_MEMORY);
    clq_system_close(t.system);
    assert_ok(clq_system_open(&(clq_system_config){.memory_limit_bytes = bytes}, &t.system));
    assert_ok(open_trainer(&t, model, &trainer));
    clq_trainer_destroy(trainer);
    clq_system_close(t.system);
    assert_ok(clq_system_open(&(clq_system_config){.memory_limit_bytes = 64 << 10}, &t.system));
    assert_int_equal(open_trainer(&t, model, &trainer), CLQ_ERROR_DEVICE_MEMORY);
    clq_system_close(t.system);
    clq_model_destroy(model);
}

static void unknown_kinds_are_refused(void **state) {
    training t = {.way = &way_single, .recompute = (clq_recompute_kind)9};
    clq_model *model = make_net(&(net){.marked = false});
    clq_trainer *trainer;
    clq_recompute_kind kind;
    (void)state;
    assert_int_equal(open_trainer(&t, model, &trainer), CLQ_ERROR_ARGUMENT);
    assert_ok(clq_recompute_parse("auto", &kind));
    assert_int_equal(kind, CLQ_RECOMPUTE_AUTO);
    assert_int_equal(clq_recompute_parse("most", &kind), CLQ_ERROR_ARGUMENT);
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_strategy_gives_the_same_bits),
                                       cmocka_unit_test(every_setting_gives_the_same_bits),
                                       cmocka_unit_test(marked_tensors_are_not_kept),
                                       cmocka_unit_test(marks_are_checked),
                                       cmocka_unit_test(auto_keeps_five_budgets),
                                       cmocka_unit_test(too_small_a_budget_names_what_fits),
                                       cmocka_unit_test(unknown_kinds_are_refused)};
    return cmocka_run_group_tests_name("train/recompute", tests, open_system, close_system);
}
