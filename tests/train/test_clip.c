/* Clipped gradients, and weights of which some decay: by every strategy as by one device. What one device makes of them
 * is held against the definition: the update by hand, from the gradient that was not clipped. */
#include "support/runs.h"

#include <math.h>

/* ---- settings ---- */

typedef struct setting {
    const char *name, *optimizer;
    clq_clip clip;
    const char *no_decay;
    bool everywhere; /* else by every third way */
} setting;

/* Limits that some of the norms, 0.3 to 3, are above of. */
static const setting settings[] = {
    {"value", "sgd:lr=0.1", {CLQ_CLIP_VALUE, 0.01}, NULL, false},
    {"norm", "sgd:lr=0.1", {CLQ_CLIP_NORM, 0.5}, NULL, true},
    {"global norm", "adam", {CLQ_CLIP_GLOBAL_NORM, 0.7}, NULL, false},
    {"spared biases", "adamw:weight_decay=0.3", {CLQ_CLIP_OFF, 0}, "bias", false},
    {"both", "sgd:lr=0.1,momentum=0.9,weight_decay=0.2", {CLQ_CLIP_GLOBAL_NORM, 0.5}, "dense_1,bias", true},
};

typedef struct way {
    const char *name, *spec;
    clq_strategy_kind kind;
    clq_strategy_options options;
    const char *disabled;
    size_t bucket_bytes;
    bool measured;
} way;

static const way ways[] = {
    {"single, measured", "pocl:0", CLQ_STRATEGY_SINGLE, {0}, NULL, 0, true},
    {"sharded update", "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {0}, NULL, 0, false},
    {"sharded update, measured", "pocl:0,pocl:1,pocl:2", CLQ_STRATEGY_MIRRORED, {0}, NULL, 0, true},
    {"plain", "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {0}, "sharded update", 0, true},
    {"buckets", "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {0}, "sharded update", 4096, false},
    {"sharded optimizer", "pocl:0,pocl:1,pocl:2", CLQ_STRATEGY_MIRRORED, {.shard_optimizer = 1}, NULL, 0, true},
    {"scattered", "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {.shard_optimizer = 1}, "sharded update", 0, true},
    {"central", "pocl:0,pocl:1", CLQ_STRATEGY_CENTRAL, {0}, NULL, 0, true},
    {"ps", "pocl:0,pocl:1", CLQ_STRATEGY_PS, {0}, NULL, 0, false},
    {"pipeline", "pocl:0,pocl:1", CLQ_STRATEGY_PIPELINE, {0}, NULL, 0, true},
    {"two pipelines", "pocl:0,pocl:1,pocl:2,pocl:3", CLQ_STRATEGY_PIPELINE, {.stages = 2}, NULL, 0, false},
    {"tensor", "pocl:0,pocl:1", CLQ_STRATEGY_TENSOR, {0}, NULL, 0, true},
};

static const way *under;
static const setting *with;

static clq_trainer_config configure(clq_trainer_config config) {
    config.strategy = under->kind;
    config.strategy_options = under->options;
    config.disabled_paths = under->disabled;
    config.bucket_bytes = under->bucket_bytes;
    config.measure_gradient = under->measured;
    config.clip = with->clip;
    config.no_decay = with->no_decay;
    return config;
}

static double difference(const float *a, const float *b, size_t count) {
    double apart = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(apart / size);
}

static run train(const setting *s, const way *w) {
    with = s;
    under = w;
    run r = {.model = "mlp", .optimizer = s->optimizer, .spec = w->spec, .configure = configure};
    run_train(&r);
    return r;
}

static const way one_device = {"single", "pocl:0", CLQ_STRATEGY_SINGLE, {0}, NULL, 0, false};

static void by_every_strategy_as_by_one(void **state) {
    (void)state;
    for (size_t s = 0; s < CLQ_COUNT_OF(settings); s++) {
        run one = train(&settings[s], &one_device);
        for (size_t w = 0; w < CLQ_COUNT_OF(ways); w++) {
            if (!settings[s].everywhere && w % 3 != s % 3) continue;
            run r = train(&settings[s], &ways[w]);
            for (size_t i = 0; i < RUN_STEPS; i++)
                if (!(fabs(r.losses[i] / one.losses[i] - 1) < 1e-5))
                    fail_msg("%s, %s: loss %zu is %.9g, not %.9g", settings[s].name, ways[w].name, i, r.losses[i],
                             one.losses[i]);
            const double apart = difference(r.weights_at_end, one.weights_at_end, one.elements);
            if (!(apart < 1e-5)) fail_msg("%s, %s: weights are %g apart", settings[s].name, ways[w].name, apart);
            /* What is told is the gradient before it is clipped. */
            assert_true(difference(r.gradient, one.gradient, one.elements) < 1e-6);
            run_release(&r);
        }
        run_release(&one);
    }
}

/* ---- one device ---- */

static bool is_spared(const setting *s, const char *name) {
    return s->no_decay && (strstr(name, "bias") || (strchr(s->no_decay, '_') && strstr(name, "dense_1")));
}

/* SGD without momentum: w - w lr decay - lr factor g. */
static void check_step(const setting *s, double lr, double decay) {
    with = s;
    under = &ways[0];
    const run r = {.model = "mlp", .optimizer = s->optimizer, .spec = "pocl:0", .configure = configure};
    clq_model *model = run_model(r.model);
    clq_dataset *data = run_data();
    clq_trainer *trainer = run_trainer(&r, model);
    const size_t elements = clq_model_parameter_count(model);
    float *before = clq_alloc(elements, sizeof *before), *gradient = clq_alloc(elements, sizeof *before),
          *after = clq_alloc(elements, sizeof *before);
    assert_true(before && gradient && after);
    run_read(trainer, model, false, before);
    run_step(trainer, data, false);
    run_read(trainer, model, true, gradient);
    run_read(trainer, model, false, after);
    double all = 0;
    for (size_t i = 0; i < elements; i++) all += (double)gradient[i] * (double)gradient[i];
    clq_step_info info;
    assert_ok(clq_step_read(trainer, &info));
    assert_true(fabs(info.grad_norm / sqrt(all) - 1) < 1e-6);
    bool clipped = s->clip.kind == CLQ_CLIP_OFF;
    for (size_t v = 0, first = 0; v < clq_model_variable_count(model); v++) {
        clq_variable_info variable;
        assert_ok(clq_model_variable(model, v, &variable));
        double own = 0, limit = s->clip.limit, factor = 1;
        for (size_t i = first; i < first + variable.elements; i++) own += (double)gradient[i] * (double)gradient[i];
        if (s->clip.kind == CLQ_CLIP_NORM) factor = fmin(1, limit / sqrt(own));
        if (s->clip.kind == CLQ_CLIP_GLOBAL_NORM) factor = fmin(1, limit / sqrt(all));
        clipped = clipped || factor < 1;
        for (size_t i = first; i < first + variable.elements; i++) {
            double g = factor * (double)gradient[i], w = (double)before[i];
            if (s->clip.kind == CLQ_CLIP_VALUE) {
                clipped = clipped || fabs(g) > limit;
                g = fmax(-limit, fmin(limit, g));
            }
            const double want = w - (is_spared(s, variable.name) ? 0 : w * lr * decay) - lr * g;
            if (!(fabs((double)after[i] - want) < 2e-7 * (1 + fabs(want))))
                fail_msg("%s: %s[%zu] is %.9g, not %.9g", s->name, variable.name, i - first, (double)after[i], want);
        }
        first += variable.elements;
    }
    assert_true(clipped);
    clq_free(before);
    clq_free(gradient);
    clq_free(after);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void one_device_clips_by_definition(void **state) {
    (void)state;
    check_step(&settings[0], 0.1, 0);
    check_step(&settings[1], 0.1, 0);
    static const setting more[] = {
        {"global norm", "sgd:lr=0.1", {CLQ_CLIP_GLOBAL_NORM, 0.7}, NULL, false},
        {"decay", "sgd:lr=0.1,weight_decay=0.5", {CLQ_CLIP_OFF, 0}, NULL, false},
        {"decay and spared", "sgd:lr=0.1,weight_decay=0.5", {CLQ_CLIP_OFF, 0}, "bias", false},
        {"all", "sgd:lr=0.1,weight_decay=0.5", {CLQ_CLIP_NORM, 0.3}, "dense_1,bias", false},
    };
    check_step(&more[0], 0.1, 0);
    for (size_t i = 1; i < CLQ_COUNT_OF(more); i++) check_step(&more[i], 0.1, 0.5);
}

/* ---- nonsense ---- */

static void nonsense_is_refused(void **state) {
    (void)state;
    clq_clip clip = {0};
    clq_model *model = run_model("mlp");
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = clq_trainer_config_default();
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_clip_parse("global_norm=0.5", &clip));
    assert_true(clip.kind == CLQ_CLIP_GLOBAL_NORM && clip.limit == 0.5);
    assert_ok(clq_clip_parse("value=2", &clip));
    assert_true(clip.kind == CLQ_CLIP_VALUE && clip.limit == 2);
    assert_fails(CLQ_ARGUMENT, "there are off, value=X, norm=X and global_norm=X", clq_clip_parse("norms=1", &clip));
    assert_fails(CLQ_ARGUMENT, "'fast' is no number", clq_clip_parse("norm=fast", &clip));
    assert_fails(CLQ_ARGUMENT, "expected a number above 0", clq_clip_parse("norm=0", &clip));
    assert_true(clip.kind == CLQ_CLIP_VALUE && clip.limit == 2);
    assert_ok(clq_clip_parse("off", &clip));
    assert_true(clip.kind == CLQ_CLIP_OFF);
    config.clip = (clq_clip){CLQ_CLIP_NORM, (double)NAN};
    assert_fails(CLQ_ARGUMENT, "expected a number above 0", clq_trainer_create(model, &devices, &config, &trainer));
    config.clip = (clq_clip){(clq_clip_kind)9, 1};
    assert_fails(CLQ_ARGUMENT, "none of clq_clip_kind", clq_trainer_create(model, &devices, &config, &trainer));
    config.clip = (clq_clip){CLQ_CLIP_OFF, 0};
    config.no_decay = "bias,gamma";
    assert_fails(CLQ_ARGUMENT, "has 'gamma' in its name", clq_trainer_create(model, &devices, &config, &trainer));
    config.no_decay = "bias,";
    assert_fails(CLQ_ARGUMENT, "parts of variables' names", clq_trainer_create(model, &devices, &config, &trainer));
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_device_clips_by_definition),
                                       cmocka_unit_test(by_every_strategy_as_by_one),
                                       cmocka_unit_test(nonsense_is_refused)};
    return cmocka_run_group_tests(tests, open_system, close_system);
}
