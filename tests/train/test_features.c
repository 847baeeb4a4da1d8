/* Every feature of trainings under every strategy: a strategy gives the numbers of one device, or refuses in one line.
 * Each training by a strategy is interrupted half way, and another trainer resumes from its checkpoint. Prints the
 * table. Replicas that shard the update do so in one launch, whose program only one feature uses. So each feature has
 * one of the two ways to do so, in turn; with CLQ_TEST_WHOLE=1 in the environment, both. */
#include "support/files.h"
#include "support/runs.h"
#include "support/ways.h"
#include <clique/checkpoint.h>

#include <math.h>

/* The fourth step's batch, which is the first after the checkpoint, has RUN_LAST samples. */
enum { STEPS = 6, HALF = 3 };

typedef struct feature {
    const char *name, *optimizer;
    void (*set)(clq_trainer_config *config);
    double tolerance; /* relative: of losses, and of the final weights by their norm; 0: 1e-5 */
    bool batches;     /* two batches make an update */
    bool averages;    /* the final weights are averages */
} feature;

static void set_value(clq_trainer_config *config) { config->clip = (clq_clip){.kind = CLQ_CLIP_VALUE, .limit = 0.01}; }
static void set_norm(clq_trainer_config *config) { config->clip = (clq_clip){.kind = CLQ_CLIP_NORM, .limit = 0.5}; }
static void set_global_norm(clq_trainer_config *config) {
    config->clip = (clq_clip){.kind = CLQ_CLIP_GLOBAL_NORM, .limit = 0.7};
    config->measure_gradient = true;
    config->metrics = "accuracy,sparse_top_k_categorical_accuracy";
}
static void set_no_decay(clq_trainer_config *config) { config->no_decay = "bias,dense_1"; }
static void set_schedule(clq_trainer_config *config) {
    assert_ok(clq_lr_schedule_parse("cosine:decay_steps=4,warmup=1", &config->schedule));
}
static void set_average(clq_trainer_config *config) {
    config->average = 0.8;
    set_no_decay(config);
    set_schedule(config);
}

static void set_class_weights(clq_trainer_config *config) {
    static const double weights[] = {1, 2.5, 0, 0.5, 3};
    config->class_weights = weights;
    config->class_weight_count = CLQ_COUNT_OF(weights);
}
static void set_accumulation(clq_trainer_config *config) {
    config->strategy_options.accumulate = 2;
    set_class_weights(config);
}

static void set_optimizers(clq_trainer_config *config) {
    static clq_optimizer_config others[2] = {{.variables = "dense_1/kernel"}, {.variables = "*bias"}};
    assert_ok(clq_optimizer_parse("lamb:lr=0.01,weight_decay=0.1", &others[0].optimizer));
    assert_ok(clq_optimizer_parse("sgd:lr=0.05,momentum=0.9", &others[1].optimizer));
    config->optimizers = others;
    config->optimizer_count = CLQ_COUNT_OF(others);
    set_schedule(config);
    set_global_norm(config);
}

static void set_mixed(clq_trainer_config *config) { config->precision = CLQ_PRECISION_MIXED; }
static void set_mixed_bf16(clq_trainer_config *config) { config->precision = CLQ_PRECISION_MIXED_BF16; }
static void set_check(clq_trainer_config *config) {
    if (config->strategy != CLQ_STRATEGY_SINGLE) config->check_replicas = 3; /* one replica has nothing to compare */
}
static void set_recompute(clq_trainer_config *config) { config->recompute = CLQ_RECOMPUTE_ALL; }

static const feature features[] = {
    {"momentum, clip value", "sgd:lr=0.1,momentum=0.9", set_value, 0, false, false},
    {"amsgrad, clip norm", "adam:amsgrad=1", set_norm, 0, false, false},
    {"global norm, metrics", "nadam", set_global_norm, 0, false, false},
    {"decay, ema, schedule", "adamw:weight_decay=0.3", set_average, 0, false, true},
    {"lamb, spared", "lamb:lr=0.01,weight_decay=0.3", set_no_decay, 0, false, false},
    {"three optimizers", "adam", set_optimizers, 0, false, false},
    {"accumulation, weights", "adam", set_accumulation, 0, true, false},
    /* Sums in another order are sometimes rounded to other 16-bit numbers. */
    {"mixed", "sgd:lr=0.1", set_mixed, 2e-3, false, false},
    {"mixed-bf16", "sgd:lr=0.1", set_mixed_bf16, 2e-2, false, false},
    {"check of replicas", "adam", set_check, 0, false, false},
    {"recomputation", "adam", set_recompute, 0, false, false},
};

/* What a strategy refuses, and a part of its error text. */
static const struct refusal {
    const char *feature, *way, *says;
} refusals[] = {
    {"mixed", "central", "use precision mixed-bf16"},
    {"mixed", "ps", "use precision mixed-bf16"},
    {"check of replicas", "central", "one copy of the weights"},
    {"check of replicas", "ps", "one copy of the weights"},
    {"check of replicas", "pipeline", "no two replicas with the same weights"},
    {NULL, NULL, NULL}, /* marks the end */
};

/* ---- a training ---- */

static clq_status open_trainer(const feature *f, const way *w, const clq_model *model, clq_trainer **out) {
    clq_devices devices;
    clq_trainer_config config = clq_trainer_config_default();
    config.global_batch = RUN_BATCH;
    config.seed = 7;
    way_configure(w, &config);
    f->set(&config);
    assert_ok(clq_optimizer_parse(f->optimizer, &config.optimizer));
    assert_ok(clq_devices_select(sys, w->spec, &devices));
    return clq_trainer_create(model, &devices, &config, out);
}

static void step(const feature *f, clq_trainer *trainer, clq_dataset *data, run *r, size_t i) {
    clq_step_info info;
    clq_batch batch;
    bool more;
    if (f->batches) {
        assert_ok(clq_dataset_next(data, &batch, &more));
        if (!more) assert_ok(clq_dataset_next(data, &batch, &more));
        assert_ok(clq_step_accumulate(trainer, &batch));
    }
    run_step(trainer, data, false);
    assert_ok(clq_step_read(trainer, &info));
    r->losses[i] = info.loss;
}

/* Replaces the trainer by a new one, which resumes from its checkpoint. */
static void interrupt(const feature *f, const way *w, const clq_model *model, clq_trainer **trainer,
                      clq_dataset **data) {
    const clq_checkpoints_config config = {.folder = files_path("interrupted"), .keep = 1, .resume = true};
    clq_checkpoints *checkpoints;
    uint64_t from;
    assert_ok(clq_checkpoints_open(&config, &checkpoints));
    assert_ok(clq_checkpoints_save(checkpoints, *trainer, *data));
    clq_checkpoints_close(checkpoints);
    clq_trainer_destroy(*trainer);
    clq_dataset_destroy(*data);
    *data = run_data();
    assert_ok(open_trainer(f, w, model, trainer));
    assert_ok(clq_checkpoints_open(&config, &checkpoints));
    assert_ok(clq_checkpoints_restore(checkpoints, *trainer, *data, &from));
    assert_int_equal(from, HALF);
    clq_checkpoints_close(checkpoints);
    assert_int_equal(files_remove(config.folder), 0);
}

/* After a refusal, r has no values. */
static clq_status train(const feature *f, const way *w, bool interrupted, run *r) {
    clq_model *model = run_model("mlp");
    clq_trainer *trainer;
    *r = (run){.elements = clq_model_parameter_count(model)};
    const clq_status status = open_trainer(f, w, model, &trainer);
    if (status == CLQ_OK) {
        clq_dataset *data = run_data();
        r->weights_at_end = clq_alloc(r->elements, sizeof *r->weights_at_end);
        assert_non_null(r->weights_at_end);
        for (size_t i = 0; i < STEPS; i++) {
            if (i == HALF && interrupted) interrupt(f, w, model, &trainer, &data);
            step(f, trainer, data, r, i);
        }
        if (f->averages) assert_ok(clq_trainer_swap_average(trainer));
        run_read(trainer, model, false, r->weights_at_end);
        clq_trainer_destroy(trainer);
        clq_dataset_destroy(data);
    }
    clq_model_destroy(model);
    return status;
}

/* ---- the table ---- */

static const struct refusal *refusal_of(const feature *f, const way *w) {
    for (size_t i = 0; refusals[i].feature; i++)
        if (strcmp(refusals[i].feature, f->name) == 0 && strcmp(refusals[i].way, w->name) == 0) return &refusals[i];
    return NULL;
}

static double difference(const float *a, const float *b, size_t count) {
    double apart = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(apart / size);
}

static void check_equal(const feature *f, const way *w, const run *r, const run *one) {
    const double tolerance = f->tolerance > 0 ? f->tolerance : 1e-5;
    for (size_t i = 0; i < STEPS; i++)
        if (!(fabs(r->losses[i] / one->losses[i] - 1) < tolerance))
            fail_msg("%s, %s: loss %zu is %.9g, not %.9g", f->name, w->name, i, r->losses[i], one->losses[i]);
    const double apart = difference(r->weights_at_end, one->weights_at_end, one->elements);
    if (!(apart < tolerance)) fail_msg("%s, %s: weights are %g apart", f->name, w->name, apart);
}

enum { WIDTH = 19 };
static char said[CLQ_COUNT_OF(refusals)][512];
static size_t refused;

static void check_cell(const feature *f, const way *w, const run *one) {
    const struct refusal *refusal = refusal_of(f, w);
    run r;
    const clq_status status = train(f, w, true, &r);
    if (refusal) {
        if (status != CLQ_ERROR_ARGUMENT && status != CLQ_ERROR_UNSUPPORTED)
            fail_msg("%s, %s: is not refused", f->name, w->name);
        assert_non_null(strstr(clq_error_detail(), refusal->says));
        assert_null(strchr(clq_error_detail(), '\n'));
        snprintf(said[refused++], sizeof said[0], "%s, %s: %s", f->name, w->name, clq_error_detail());
        printf("%*s", WIDTH, "refused");
    } else {
        if (status != CLQ_OK) fail_msg("%s, %s: %s", f->name, w->name, clq_error_detail());
        check_equal(f, w, &r, one);
        printf("%*s", WIDTH, "equal");
    }
    run_release(&r);
}

/* Whether the short form leaves this out. The two ways whose update is one launch, without `disabled`, are at an even
 * and at an odd place of `ways`: so each feature has one of them. */
static bool leaves_out(size_t f, size_t w) { return !ways[w].disabled && (f + w) % 2 == 0; }

static void every_feature_by_every_strategy(void **state) {
    (void)state;
    const bool is_long = clq_environment("CLQ_TEST_WHOLE") != NULL;
    printf("%-22s", "");
    for (size_t w = 0; w < CLQ_COUNT_OF(ways); w++) printf("%*s", WIDTH, ways[w].name);
    for (size_t i = 0; i < CLQ_COUNT_OF(features); i++) {
        run one;
        assert_ok(train(&features[i], &way_single, false, &one));
        printf("\n%-22s", features[i].name);
        for (size_t w = 0; w < CLQ_COUNT_OF(ways); w++)
            if (!is_long && leaves_out(i, w))
                printf("%*s", WIDTH, "-");
            else
                check_cell(&features[i], &ways[w], &one);
        run_release(&one);
    }
    printf("\n");
    for (size_t i = 0; i < refused; i++) printf("%s\n", said[i]);
    assert_int_equal(refused, CLQ_COUNT_OF(refusals) - 1);
}

static int begin(void **state) { return files_begin(state) || open_system(state); }
static int end(void **state) { return close_system(state) || files_end(state); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_feature_by_every_strategy)};
    return cmocka_run_group_tests(tests, begin, end);
}
