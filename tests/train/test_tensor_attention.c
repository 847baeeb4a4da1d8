/* Replicas split attention by heads, and tables by columns. Trainings equal those of one replica, with dropout of
 * attention weights, with masks, and with unequal numbers of heads. What replicas hold whole has the same bits on all.
 * Checkpoints and files hold whole variables. interop/single_layers compares single layers with Keras. */
#include "graph/graph.h"
#include "strategy/module.h"
#include "support/apart.h"
#include "support/check.h"
#include "support/files.h"
#include "support/system.h"
#include "train/trainer.h"
#include <clique/checkpoint.h>

#include <math.h>

enum { BATCH = 6, STEPS = 4, HALF = 2, TOKENS = 8, VOCABULARY = 16, PLACES_MOST = 768 };

static float samples[STEPS * BATCH * PLACES_MOST];
static int32_t labels[STEPS * BATCH * TOKENS];

/* ---- models ---- */

static clq_status build_gpt(clq_model **out) {
    return clq_model_builtin("gpt:layers=1,width=12,heads=3,context=8,vocabulary=16", out);
}
/* In some samples half of the tokens are 0, which means none. */
static clq_status build_bert(clq_model **out) {
    return clq_model_builtin_for("bert-tiny:layers=1,width=8,heads=2,context=8,vocabulary=16", (clq_shape){0}, 4, out);
}
static clq_status build_vit(clq_model **out) {
    return clq_model_builtin_for("vit-tiny:layers=1,width=9,heads=3,patch=8", CLQ_SHAPE(16, 16, 3), 4, out);
}
/* Each token has a query, which attends to others; attention weights and outputs have dropout. At the end each pair of
 * units is normed, with a scale that all pairs share: replicas hold the scale whole, and compute a part of its
 * gradient. */
static clq_status build_dropped(clq_model **out) {
    clq_model *m;
    CLQ_TRY(clq_model_create("dropped", &m));
    *out = m;
    const clq_tensor tokens = clq_input(m, CLQ_SHAPE(TOKENS));
    const clq_tensor others =
        clq_embedding(m, tokens, &(clq_embedding_config){.rows = VOCABULARY, .width = 6, .mask_zero = true});
    clq_tensor x = clq_layer_norm(m, others, NULL);
    x = clq_attention(m, CLQ_TENSORS(x, others),
                      &(clq_attention_config){.heads = 4, .key = 3, .value = 2, .dropout = 0.4, .causal = true});
    x = clq_dropout(m, clq_layer_norm(m, x, NULL), &(clq_dropout_config){.rate = 0.2});
    x = clq_attention(m, &x, 1, &(clq_attention_config){.heads = 3, .key = 2, .dropout = 0.3});
    x = clq_global_average_pool(m, x, false, NULL);
    x = clq_reshape(m, clq_dense(m, x, &(clq_dense_config){.units = 8}), CLQ_SHAPE(4, 2), NULL);
    x = clq_flatten(m, clq_layer_norm(m, x, &(clq_row_norm_config){.epsilon = 0.1, .name = "pairs"}), NULL);
    return clq_model_finish(m, clq_dense(m, x, &(clq_dense_config){.units = 4, .activation = CLQ_ACTIVATION_SOFTMAX}));
}

static const struct model_row {
    const char *name;
    clq_status (*build)(clq_model **out);
    const char *split; /* a variable that is split */
    bool each;         /* each token has a label */
} models[] = {{"gpt", build_gpt, "multi_head_attention/attention_output/kernel", true},
              {"bert", build_bert, "embedding/embeddings", false},
              {"vit", build_vit, "multi_head_attention/query/bias", false},
              {"dropped", build_dropped, "multi_head_attention_1/value/kernel", false}};
static const char *const specs[] = {"pocl:0,pocl:1", "pocl:0,pocl:1,pocl:2"};

/* bert has two heads. */
static bool has_way(const struct model_row *row, unsigned way) { return way == 0 || row->build != build_bert; }

static clq_model *build(const struct model_row *row) {
    clq_model *model;
    assert_ok(row->build(&model));
    return model;
}

/* ---- trainings ---- */

typedef struct feature {
    const char *name, *optimizer;
    void (*set)(clq_trainer_config *config);
    double tolerance;
    bool accumulates;   /* two batches make an update */
    bool scales, skips; /* losses are scaled; the scale is so large that steps are skipped */
} feature;
static void set_nothing(clq_trainer_config *config) { (void)config; }
static const feature plain = {
    .name = "plain", .optimizer = "sgd:lr=0.1,momentum=0.9", .set = set_nothing, .tolerance = 5e-6};

static clq_trainer *open_trainer(const clq_model *model, const feature *f, clq_strategy_kind kind, const char *spec) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = apart_config();
    config.strategy = kind;
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.measure_gradient = true;
    config.seed = 3;
    f->set(&config);
    assert_ok(clq_optimizer_parse(f->optimizer, &config.optimizer));
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

/* The last batch is smaller. */
static clq_batch batch_of(const struct model_row *row, const clq_model *model, size_t s) {
    const clq_shape shape = clq_model_input_shape(model);
    size_t elements = 1;
    for (unsigned d = 0; d < shape.rank; d++) elements *= shape.dims[d];
    return (clq_batch){.count = s + 1 < STEPS ? BATCH : BATCH - 1,
                       .samples = samples + s * BATCH * elements,
                       .sample_elements = elements,
                       .sample_dtype = CLQ_F32,
                       .labels = labels + s * BATCH * (row->each ? TOKENS : 1),
                       .label_elements = row->each ? TOKENS : 1};
}

static clq_step_info step(clq_trainer *trainer, const struct model_row *row, const clq_model *model, size_t s) {
    const clq_batch batch = batch_of(row, model, s);
    clq_step_info info;
    assert_ok(clq_step(trainer, &batch));
    assert_ok(clq_step_read(trainer, &info));
    return info;
}

static void make_data(const struct model_row *row) {
    clq_random random = clq_random_start(5, 0);
    for (size_t i = 0; i < CLQ_COUNT_OF(labels); i++)
        labels[i] = (int32_t)clq_random_below(&random, row->each ? VOCABULARY : 4);
    for (size_t i = 0; i < CLQ_COUNT_OF(samples); i++) {
        const bool none = i % TOKENS >= TOKENS / 2 && i / TOKENS % 3 == 0;
        samples[i] = row->build == build_vit ? (float)clq_random_unit(&random) - 0.5f
                     : none                  ? 0
                                             : (float)clq_random_below(&random, VOCABULARY);
    }
}

static float *read_weights(clq_trainer *trainer, const clq_model *model) {
    float *out = clq_alloc(clq_model_parameter_count(model), sizeof *out), *at = out;
    assert_non_null(out);
    for (uint32_t v = 0; v < model->variable_count; v++) {
        assert_ok(clq_trainer_get_variable(trainer, v, at));
        at += model->variables[v].elements;
    }
    return out;
}

static void assert_near(const char *name, const feature *f, const char *what, double got, double want) {
    if (!(fabs(got - want) <= f->tolerance * fabs(want)))
        fail_msg("%s, %s: %s is %.9g, and of one replica %.9g", name, f->name, what, got, want);
}

static void assert_weights_near(const char *name, const feature *f, const clq_model *model, const float *got,
                                const float *want) {
    double apart = 0, size = 0;
    for (size_t i = 0; i < clq_model_parameter_count(model); i++) {
        apart += pow((double)got[i] - (double)want[i], 2);
        size += pow((double)want[i], 2);
    }
    if (!(size > 0 && sqrt(apart / size) <= f->tolerance))
        fail_msg("%s, %s: weights differ by %g", name, f->name, sqrt(apart / size));
}

static void assert_is_split(const clq_trainer *trainer, const clq_model *model, const char *name) {
    for (uint32_t v = 0; v < model->variable_count; v++)
        if (strcmp(model->variables[v].name, name) == 0) {
            assert_true(clq_replica_has_slice(&trainer->strategy->replicas[0], v));
            return;
        }
    fail_msg("no variable %s", name);
}

/* Checks that replicas have the same bits of what they hold whole, whether its gradient is a sum over replicas or
 * not. */
static void assert_whole_alike(clq_trainer *trainer) {
    const size_t bytes = clq_weights_whole_bytes(trainer->strategy->replicas[0].weights);
    float *first = clq_alloc(2 * bytes, 1), *other = first + clq_values_count(CLQ_F32, bytes);
    assert_non_null(first);
    assert_true(bytes > 0);
    assert_ok(clq_strategy_read(trainer->strategy, 0, CLQ_ARENA_PARAMETERS, 0, first, bytes));
    for (unsigned r = 1; r < clq_trainer_replicas(trainer); r++) {
        assert_ok(clq_strategy_read(trainer->strategy, r, CLQ_ARENA_PARAMETERS, 0, other, bytes));
        assert_memory_equal(other, first, bytes);
    }
    clq_free(first);
}

/* All replicas skip a step together, whichever replica's slice has the number that is not finite. */
static void assert_scale_alike(clq_trainer *many, clq_trainer *one, const feature *f) {
    double scale, of_one;
    uint64_t skipped, by_one;
    if (!f->scales) return;
    assert_ok(clq_trainer_loss_scale(many, &scale, &skipped));
    assert_ok(clq_trainer_loss_scale(one, &of_one, &by_one));
    assert_true(scale == of_one && skipped == by_one);
    if ((skipped > 0) != f->skips || skipped >= STEPS)
        fail_msg("%s: %llu of %d steps are skipped", f->name, (unsigned long long)skipped, STEPS);
}

static void check_training(const struct model_row *row, const feature *f, const char *spec) {
    clq_model *model = build(row);
    make_data(row);
    clq_trainer *one = open_trainer(model, f, CLQ_STRATEGY_SINGLE, "pocl:0"),
                *many = open_trainer(model, f, CLQ_STRATEGY_TENSOR, spec);
    assert_is_split(many, model, row->split);
    for (size_t s = 0; s < STEPS; s++) {
        const clq_batch before = batch_of(row, model, (s + 1) % STEPS);
        if (f->accumulates) assert_ok(clq_step_accumulate(one, &before));
        if (f->accumulates) assert_ok(clq_step_accumulate(many, &before));
        const clq_step_info want = step(one, row, model, s), got = step(many, row, model, s);
        assert_near(row->name, f, "the loss", got.loss, want.loss);
        if (!f->skips || isfinite(want.grad_norm))
            assert_near(row->name, f, "the gradient's norm", got.grad_norm, want.grad_norm);
        else if (isfinite(got.grad_norm))
            fail_msg("%s, %s: the gradient's norm is %g", row->name, f->name, got.grad_norm);
    }
    assert_scale_alike(many, one, f);
    float *want = read_weights(one, model), *got = read_weights(many, model);
    assert_weights_near(row->name, f, model, got, want);
    assert_whole_alike(many);
    clq_free(want);
    clq_free(got);
    clq_trainer_destroy(one);
    clq_trainer_destroy(many);
    clq_model_destroy(model);
}

static void trainings_are_those_of_one(void **state) {
    (void)state;
    for (size_t m = 0; m < CLQ_COUNT_OF(models); m++)
        for (unsigned way = 0; way < CLQ_COUNT_OF(specs); way++)
            if (has_way(&models[m], way)) check_training(&models[m], &plain, specs[way]);
}

/* ---- features of trainings ---- */

static void set_norms(clq_trainer_config *config) {
    config->clip = (clq_clip){.kind = CLQ_CLIP_GLOBAL_NORM, .limit = 0.5};
}
static void set_mixed(clq_trainer_config *config) { config->precision = CLQ_PRECISION_MIXED_BF16; }
static void set_scaled(clq_trainer_config *config) { config->precision = CLQ_PRECISION_MIXED; }
static void set_far_scaled(clq_trainer_config *config) {
    config->precision = CLQ_PRECISION_MIXED;
    config->loss_scale = 0x1p17;
}
static void set_recompute(clq_trainer_config *config) { config->recompute = CLQ_RECOMPUTE_ALL; }

/* Values of 16 bits are sometimes rounded to other numbers. */
static const feature features[] = {
    {"global norm, lamb", "lamb:lr=0.01,weight_decay=0.1", set_norms, 2e-5, false, false, false},
    {"accumulation", "sgd:lr=0.1,momentum=0.9", set_nothing, 5e-6, true, false, false},
    {"recomputation", "sgd:lr=0.1,momentum=0.9", set_recompute, 5e-6, false, false, false},
    {"mixed-bf16", "sgd:lr=0.1", set_mixed, 2e-2, false, false, false},
    {"mixed", "sgd:lr=0.1", set_scaled, 5e-3, false, true, false},
    {"mixed, skipped", "sgd:lr=0.1", set_far_scaled, 5e-3, false, true, true},
};

static void features_are_those_of_one(void **state) {
    (void)state;
    const struct model_row *row = &models[CLQ_COUNT_OF(models) - 1];
    for (size_t i = 0; i < CLQ_COUNT_OF(features); i++) {
        check_training(row, &features[i], specs[0]);
        printf("%-20s as one\n", features[i].name);
    }
}

/* ---- checkpoints and files ---- */

static clq_checkpoints *open_checkpoints(const char *folder) {
    clq_checkpoints *checkpoints;
    assert_ok(clq_checkpoints_open(&(clq_checkpoints_config){.folder = folder, .resume = true}, &checkpoints));
    return checkpoints;
}

/* Several replicas stop half way. From their checkpoint one replica goes on, and so does another number of replicas. */
static void others_go_on_from_a_checkpoint(void **state) {
    (void)state;
    const struct model_row *row = &models[CLQ_COUNT_OF(models) - 1];
    static const struct {
        clq_strategy_kind kind;
        const char *spec;
    } ways[] = {{CLQ_STRATEGY_SINGLE, "pocl:0"}, {CLQ_STRATEGY_TENSOR, "pocl:0,pocl:1,pocl:2"}};
    clq_model *model = build(row);
    make_data(row);
    clq_trainer *first = open_trainer(model, &plain, CLQ_STRATEGY_TENSOR, "pocl:0,pocl:1");
    clq_checkpoints *checkpoints = open_checkpoints(files_path("half"));
    for (size_t s = 0; s < HALF; s++) (void)step(first, row, model, s);
    assert_ok(clq_checkpoints_save(checkpoints, first, NULL));
    clq_checkpoints_close(checkpoints);
    float *half = read_weights(first, model);
    assert_ok(clq_trainer_save(first, files_path("half.safetensors")));
    double losses[STEPS];
    for (size_t s = HALF; s < STEPS; s++) losses[s] = step(first, row, model, s).loss;
    float *want = read_weights(first, model);
    for (size_t w = 0; w < CLQ_COUNT_OF(ways); w++) {
        uint64_t from;
        clq_trainer *other = open_trainer(model, &plain, ways[w].kind, ways[w].spec);
        assert_ok(clq_trainer_load(other, files_path("half.safetensors")));
        float *got = read_weights(other, model);
        assert_memory_equal(got, half, clq_model_parameter_count(model) * sizeof *got);
        clq_free(got);
        checkpoints = open_checkpoints(files_path("half"));
        assert_ok(clq_checkpoints_restore(checkpoints, other, NULL, &from));
        assert_int_equal(from, HALF);
        for (size_t s = HALF; s < STEPS; s++)
            assert_near(row->name, &plain, "the loss", step(other, row, model, s).loss, losses[s]);
        got = read_weights(other, model);
        assert_weights_near(row->name, &plain, model, got, want);
        clq_free(got);
        clq_checkpoints_close(checkpoints);
        clq_trainer_destroy(other);
    }
    clq_free(half);
    clq_free(want);
    clq_trainer_destroy(first);
    clq_model_destroy(model);
}

static int begin(void **state) { return open_system(state) || files_begin(state) ? -1 : 0; }
static int end(void **state) { return close_system(state) || files_end(state) ? -1 : 0; }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(trainings_are_those_of_one),
                                       cmocka_unit_test(features_are_those_of_one),
                                       cmocka_unit_test(others_go_on_from_a_checkpoint)};
    return cmocka_run_group_tests_name("train/tensor_attention", tests, begin, end);
}
