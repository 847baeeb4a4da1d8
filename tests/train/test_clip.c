/* Clipped gradients, and weights of which only some decay: every strategy equals one device. One device is compared
 * with the definition: the update by hand, from the gradient before it was clipped. */
#include "support/runs.h"
#include "support/ways.h"

#include <math.h>

typedef struct setting {
    const char *name, *optimizer;
    clq_clip clip;
    const char *no_decay;
} setting;

static const setting settings[] = {
    {"value", "sgd:lr=0.1", {.kind = CLQ_CLIP_VALUE, .limit = 0.01}, NULL},
    {"norm", "sgd:lr=0.1", {.kind = CLQ_CLIP_NORM, .limit = 0.5}, NULL},
    {"global norm", "sgd:lr=0.1", {.kind = CLQ_CLIP_GLOBAL_NORM, .limit = 0.7}, NULL},
    {"decay", "sgd:lr=0.1,weight_decay=0.5", {.kind = CLQ_CLIP_OFF, .limit = 0}, NULL},
    {"decay and spared", "sgd:lr=0.1,weight_decay=0.5", {.kind = CLQ_CLIP_OFF, .limit = 0}, "bias"},
    {"all", "sgd:lr=0.1,weight_decay=0.5", {.kind = CLQ_CLIP_NORM, .limit = 0.3}, "dense_1,bias"},
};
/* A limit that the norm exceeds in some steps, for each strategy. */
static const setting together = {
    "both", "sgd:lr=0.1,momentum=0.9,weight_decay=0.2", {.kind = CLQ_CLIP_GLOBAL_NORM, .limit = 0.5}, "dense_1,bias"};

static const way *under;
static const setting *with;

static clq_trainer_config configure(clq_trainer_config config) {
    way_configure(under, &config);
    config.measure_gradient = true;
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

static void by_every_strategy_as_by_one(void **state) {
    (void)state;
    run one = train(&together, &way_single);
    for (size_t w = 0; w < CLQ_COUNT_OF(ways); w++) {
        run r = train(&together, &ways[w]);
        for (size_t i = 0; i < RUN_STEPS; i++)
            if (!(fabs(r.losses[i] / one.losses[i] - 1) < 1e-5))
                fail_msg("%s: loss %zu is %.9g, not %.9g", ways[w].name, i, r.losses[i], one.losses[i]);
        const double apart = difference(r.weights_at_end, one.weights_at_end, one.elements);
        if (!(apart < 1e-5)) fail_msg("%s: weights are %g apart", ways[w].name, apart);
        /* The gradient that is read is the one before it is clipped. */
        assert_true(difference(r.gradient, one.gradient, one.elements) < 1e-6);
        run_release(&r);
    }
    run_release(&one);
}

/* ---- one device ---- */

static bool is_spared(const setting *s, const char *name) {
    return s->no_decay && (strstr(name, "bias") || (strchr(s->no_decay, '_') && strstr(name, "dense_1")));
}

/* SGD without momentum: w - w lr decay - lr factor g. */
static void check_step(const setting *s, double lr, double decay) {
    with = s;
    under = &way_single;
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
    for (size_t i = 0; i < CLQ_COUNT_OF(settings); i++)
        check_step(&settings[i], 0.1, strstr(settings[i].optimizer, "weight_decay") ? 0.5 : 0);
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
    assert_fails(CLQ_ERROR_ARGUMENT, "expected off, value=X, norm=X or global_norm=X",
                 clq_clip_parse("norms=1", &clip));
    assert_fails(CLQ_ERROR_ARGUMENT, "'fast' is no number", clq_clip_parse("norm=fast", &clip));
    assert_fails(CLQ_ERROR_ARGUMENT, "expected a number above 0", clq_clip_parse("norm=0", &clip));
    assert_true(clip.kind == CLQ_CLIP_VALUE && clip.limit == 2);
    assert_ok(clq_clip_parse("off", &clip));
    assert_true(clip.kind == CLQ_CLIP_OFF);
    config.clip = (clq_clip){.kind = CLQ_CLIP_NORM, .limit = (double)NAN};
    assert_fails(CLQ_ERROR_ARGUMENT, "expected a number above 0",
                 clq_trainer_create(model, &devices, &config, &trainer));
    config.clip = (clq_clip){.kind = (clq_clip_kind)9, .limit = 1};
    assert_fails(CLQ_ERROR_ARGUMENT, "none of clq_clip_kind", clq_trainer_create(model, &devices, &config, &trainer));
    config.clip = (clq_clip){.kind = CLQ_CLIP_OFF, .limit = 0};
    config.no_decay = "bias,gamma";
    assert_fails(CLQ_ERROR_ARGUMENT, "has 'gamma' in its name", clq_trainer_create(model, &devices, &config, &trainer));
    config.no_decay = "bias,";
    assert_fails(CLQ_ERROR_ARGUMENT, "parts of variables' names",
                 clq_trainer_create(model, &devices, &config, &trainer));
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_device_clips_by_definition),
                                       cmocka_unit_test(by_every_strategy_as_by_one),
                                       cmocka_unit_test(nonsense_is_refused)};
    return cmocka_run_group_tests(tests, open_system, close_system);
}
