/* Text by models that Keras made (tests/golden/texts.json): token by token with keys and values that are kept, and by
 * the whole window, which give the same logits at each place, and the same text. */
#include "interop/interop.h"
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include <clique/custom.h>
#include <clique/generate.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OTHER "intel"
#else
#define OTHER "pocl:5"
#endif

enum { CONTEXT = 12, VOCABULARY = 11, TOKENS = 2 * CONTEXT + 5 };

static json_t *entries;
static char memory_path[] = "/tmp/clq_memory_XXXXXX";

static clq_model *read_model(json_t *entry) {
    char file[] = "/tmp/clq_text_XXXXXX";
    clq_model *model;
    const int handle = mkstemp(file);
    assert_true(handle >= 0);
    FILE *to = fdopen(handle, "w");
    assert_non_null(to);
    assert_int_equal(json_dumpf(json_object_get(entry, "model"), to, 0), 0);
    assert_int_equal(fclose(to), 0);
    assert_ok(clq_model_read_keras_json(file, &model));
    assert_int_equal(remove(file), 0);
    return model;
}

static clq_model *model_named(const char *name) {
    size_t i;
    json_t *entry;
    json_array_foreach(entries, i, entry) if (strcmp(json_string_value(json_object_get(entry, "name")), name) ==
                                              0) return read_model(entry);
    fail_msg("no model %s", name);
    return NULL;
}

static clq_generator *generator_of(const clq_model *model, const char *spec, bool whole) {
    const clq_generator_config config = {.whole_window = whole, .disabled_paths = APART};
    clq_generator *generator;
    clq_devices devices;
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_generator_create(model, &devices, &config, &generator));
    return generator;
}

static void make_file(char *path) {
    const int handle = mkstemp(path);
    assert_true(handle >= 0 && close(handle) == 0);
}

/* Weights that are large enough for each layer to matter. */
static void save_weights(const clq_model *model, const char *path) {
    clq_trainer_config config = apart_config();
    clq_devices devices;
    clq_trainer *trainer;
    clq_random random = clq_random_start(91, 0);
    config.inference_only = true;
    config.global_batch = 1;
    config.sample_dtype = CLQ_F32;
    config.loss.from_logits = true;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, v, &info));
        float *values = clq_alloc(info.elements, sizeof *values);
        assert_non_null(values);
        for (size_t i = 0; i < info.elements; i++) values[i] = (float)(2 * clq_random_unit(&random) - 1);
        assert_ok(clq_trainer_set_variable(trainer, v, values));
        clq_free(values);
    }
    assert_ok(clq_trainer_save(trainer, path));
    clq_trainer_destroy(trainer);
}

static void check_logits(const char *name, size_t place, const float *got, const float *want) {
    float largest = 0;
    for (size_t i = 0; i < VOCABULARY; i++) largest = fmaxf(largest, fabsf(want[i]));
    for (size_t i = 0; i < VOCABULARY; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * largest))
            fail_msg("%s: logit %zu behind token %zu is %.9g, not %.9g", name, i, place, (double)got[i],
                     (double)want[i]);
}

/* Through two windows that are full, token by token, and again with a prompt that is computed at once. */
static void check_model(json_t *entry, const char *spec) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    char path[] = "/tmp/clq_weights_XXXXXX";
    clq_model *model = read_model(entry);
    clq_random random = clq_random_start(92, 0);
    float want[TOKENS][VOCABULARY], got[VOCABULARY];
    uint32_t text[TOKENS];
    clq_generator_info info;
    make_file(path);
    save_weights(model, path);
    clq_generator *whole = generator_of(model, spec, true), *one = generator_of(model, spec, false);
    assert_ok(clq_generator_load(whole, path));
    assert_ok(clq_generator_load(one, path));
    clq_generator_get_info(one, &info);
    if (info.cached != json_is_true(json_object_get(entry, "cached"))) fail_msg("%s: cached: %s", name, info.reason);
    assert_true(info.context == CONTEXT && info.vocabulary == VOCABULARY);
    for (size_t t = 0; t < TOKENS; t++) {
        text[t] = (uint32_t)clq_random_below(&random, VOCABULARY);
        assert_ok(clq_generator_feed(whole, &text[t], 1));
        assert_ok(clq_generator_feed(one, &text[t], 1));
        assert_ok(clq_generator_logits(whole, want[t]));
        assert_ok(clq_generator_logits(one, got));
        check_logits(name, t, got, want[t]);
    }
    for (size_t first = 1; first <= TOKENS; first += 9) { /* 1, 10, 19 and 28 tokens at once */
        clq_generator_reset(one);
        assert_ok(clq_generator_feed(one, text, first));
        assert_ok(clq_generator_logits(one, got));
        check_logits(name, first - 1, got, want[first - 1]);
    }
    clq_generator_destroy(one);
    clq_generator_destroy(whole);
    assert_int_equal(remove(path), 0);
    clq_model_destroy(model);
}

static void kept_keys_and_values_are_those_of_the_window(void **state) {
    (void)state;
    size_t i;
    json_t *entry;
    json_array_foreach(entries, i, entry) check_model(entry, i % 2 ? OTHER : "pocl:0");
}

/* ---- the text ---- */

/* Greedy text is that of the logits, and both forms draw the same text; a reset text is the same again. */
static void both_forms_draw_one_text(void **state) {
    (void)state;
    const clq_sampling greedy = {.temperature = 0}, drawn = {.temperature = 1.5, .top_k = 6, .seed = 5};
    clq_model *model = model_named("gpt2");
    char path[] = "/tmp/clq_weights_XXXXXX";
    make_file(path);
    save_weights(model, path);
    clq_generator *g[] = {generator_of(model, "pocl:0", false), generator_of(model, "pocl:0", true)};
    const uint32_t prompt[] = {3, 1, 4};
    uint32_t text[3][TOKENS];
    for (unsigned i = 0; i < 3; i++) {
        clq_generator *one = g[i % 2];
        if (i < 2) assert_ok(clq_generator_load(one, path));
        clq_generator_reset(one);
        assert_ok(clq_generator_feed(one, prompt, CLQ_COUNT_OF(prompt)));
        for (size_t t = 0; t < TOKENS; t++) {
            float logits[VOCABULARY];
            size_t best = 0;
            assert_ok(clq_generator_logits(one, logits));
            for (size_t v = 1; v < VOCABULARY; v++) best = logits[v] > logits[best] ? v : best;
            assert_ok(clq_generator_next(one, t % 3 ? &drawn : &greedy, &text[i][t]));
            if (t % 3 == 0) assert_int_equal(text[i][t], best);
        }
    }
    assert_memory_equal(text[0], text[1], sizeof text[0]);
    assert_memory_equal(text[0], text[2], sizeof text[0]);
    clq_generator_info info;
    clq_generator_get_info(g[0], &info);
    assert_true(info.tokens == TOKENS + 3 && info.cache_bytes == CONTEXT * 2 * 2 * 16 * sizeof(float));
    clq_generator_destroy(g[0]);
    clq_generator_destroy(g[1]);
    assert_int_equal(remove(path), 0);
    clq_model_destroy(model);
}

/* A table of logits, and what may stand behind it. The softmax of a model is taken back, whatever gives it on. */
typedef enum ending { PLAIN, SOFTMAX, DENSE, RESHAPED, OF_ALL, LINEAR, DROPPED, STOPPED, LOGARITHM, ENDINGS } ending;

static clq_tensor add_ending(clq_model *m, clq_tensor x, ending how) {
    const clq_shape rows = CLQ_SHAPE(CONTEXT, VOCABULARY);
    if (how == PLAIN) return x;
    if (how == DENSE)
        return clq_dense(m, x, &(clq_dense_config){.units = VOCABULARY, .activation = CLQ_ACTIVATION_SOFTMAX});
    if (how == OF_ALL) x = clq_reshape(m, x, CLQ_SHAPE(CONTEXT * VOCABULARY), NULL);
    x = clq_activate(m, x, CLQ_ACTIVATION_SOFTMAX, NULL);
    switch (how) {
    case RESHAPED:
    case OF_ALL: return clq_reshape(m, x, rows, NULL);
    case LINEAR: return clq_activate(m, x, CLQ_ACTIVATION_LINEAR, NULL);
    case DROPPED: return clq_dropout(m, x, &(clq_dropout_config){.rate = 0.5});
    case STOPPED: return clq_stop_gradient(m, clq_gradient_scale(m, x, 2, NULL), NULL);
    case LOGARITHM: return clq_expression(m, "log(x)", &x, 1, NULL);
    default: return x;
    }
}

static clq_trainer *trainer_of(const clq_model *model) {
    clq_trainer_config config = apart_config();
    clq_devices devices;
    clq_trainer *trainer;
    config.inference_only = true;
    config.sample_dtype = CLQ_F32;
    config.global_batch = 1;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

/* Behind the tokens 2 and 5: the logits of the latter's row, but for a summand. */
static void check_ending(ending how, bool whole) {
    static float table[VOCABULARY][VOCABULARY], unit[VOCABULARY][VOCABULARY];
    clq_model *model;
    float got[VOCABULARY];
    clq_random random = clq_random_start(93, 0);
    assert_ok(clq_model_create("table", &model));
    clq_tensor x = clq_embedding(model, clq_input(model, CLQ_SHAPE(CONTEXT)),
                                 &(clq_embedding_config){.rows = VOCABULARY, .width = VOCABULARY});
    assert_ok(clq_model_finish(model, add_ending(model, x, how)));
    for (size_t i = 0; i < VOCABULARY; i++)
        for (size_t k = 0; k < VOCABULARY; k++) {
            table[i][k] = (float)(4 * clq_random_unit(&random) - 2);
            unit[i][k] = i == k;
        }
    clq_trainer *trainer = trainer_of(model);
    clq_generator *g = generator_of(model, "pocl:0", whole);
    assert_ok(clq_trainer_set_variable(trainer, 0, table[0]));
    if (how == DENSE) assert_ok(clq_trainer_set_variable(trainer, 1, unit[0]));
    assert_ok(clq_generator_take_weights(g, trainer));
    assert_ok(clq_generator_feed(g, (const uint32_t[]){2, 5}, 2));
    assert_ok(clq_generator_logits(g, got));
    for (size_t k = 0; k < VOCABULARY; k++)
        if (!(fabsf((got[k] - got[0]) - (table[5][k] - table[5][0])) < 1e-5f))
            fail_msg("ending %u: logit %zu is %g above the first, not %g", how, k, (double)(got[k] - got[0]),
                     (double)(table[5][k] - table[5][0]));
    clq_generator_destroy(g);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static void probabilities_are_taken_back(void **state) {
    (void)state;
    for (unsigned how = 0; how < ENDINGS; how++) {
        check_ending(how, false);
        check_ending(how, true);
    }
}

/* ---- figures ---- */

/* Of a token in each form: all weights but the tables, a row of either table for each token that is computed, and keys
 * and values of one. */
static void bytes_that_are_read(void **state) {
    (void)state;
    enum { WIDTH = 16, ROWS = VOCABULARY + CONTEXT + 3 };
    clq_model *model = model_named("gpt2");
    char path[] = "/tmp/clq_weights_XXXXXX";
    size_t weights = 0;
    make_file(path);
    save_weights(model, path);
    for (size_t v = 0; v < clq_model_variable_count(model); v++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, v, &info));
        weights += info.elements * sizeof(float);
    }
    weights -= ROWS * WIDTH * sizeof(float);
    for (unsigned whole = 0; whole < 2; whole++) {
        clq_generator *g = generator_of(model, "pocl:0", whole);
        float logits[VOCABULARY];
        clq_generator_info info;
        assert_ok(clq_generator_load(g, path));
        assert_ok(clq_generator_feed(g, (const uint32_t[]){2}, 1));
        assert_ok(clq_generator_logits(g, logits));
        clq_generator_get_info(g, &info);
        assert_int_equal(info.weight_bytes, weights);
        assert_int_equal(info.read_bytes,
                         weights + 2 * WIDTH * sizeof(float) * (whole ? CONTEXT : 1) + info.cache_bytes / CONTEXT);
        clq_generator_destroy(g);
    }
    assert_int_equal(remove(path), 0);
    clq_model_destroy(model);
}

/* ---- what is refused ---- */

/* A table of fewer rows than the model gives tokens: no token is taken that has none, given or drawn. */
static void tokens_without_a_row(void **state) {
    (void)state;
    enum { ROWS = 5 };
    clq_model *model;
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = apart_config();
    clq_generator_info info;
    float bias[VOCABULARY] = {0};
    uint32_t token = 1;
    assert_ok(clq_model_create("short", &model));
    clq_tensor x = clq_embedding(model, clq_input(model, CLQ_SHAPE(CONTEXT)),
                                 &(clq_embedding_config){.rows = ROWS, .width = 4, .name = "table"});
    assert_ok(clq_model_finish(model, clq_dense(model, x, &(clq_dense_config){.units = VOCABULARY, .name = "logits"})));
    config.inference_only = true;
    config.sample_dtype = CLQ_F32;
    config.loss.from_logits = true;
    config.global_batch = 1;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    bias[7] = 1e3f; /* is drawn */
    assert_ok(clq_trainer_set_variable(trainer, 2, bias));
    for (unsigned whole = 0; whole < 2; whole++) {
        clq_generator *g = generator_of(model, "pocl:0", whole);
        assert_ok(clq_generator_take_weights(g, trainer));
        assert_fails(CLQ_ERROR_ARGUMENT, "token 1 is 5, and layer 'table' has rows 0 to 4",
                     clq_generator_feed(g, (const uint32_t[]){4, 5}, 2));
        assert_ok(clq_generator_feed(g, (const uint32_t[]){4, 0}, 2));
        assert_fails(CLQ_ERROR_MISMATCH, "token 2 is 7, and layer 'table' has rows 0 to 4",
                     clq_generator_next(g, &(clq_sampling){.temperature = 0}, &token));
        clq_generator_get_info(g, &info);
        assert_true(token == 1 && info.tokens == 2);
        clq_generator_destroy(g);
    }
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

static void what_is_refused(void **state) {
    (void)state;
    clq_model *model = model_named("gpt2"), *other = model_named("convolved"), *images;
    clq_devices devices;
    clq_generator *g;
    clq_trainer *trainer;
    clq_trainer_config config = apart_config();
    float logits[VOCABULARY];
    uint32_t token = VOCABULARY;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_model_builtin("mlp", &images));
    assert_fails(CLQ_ERROR_UNSUPPORTED, "takes (28, 28, 1) and gives (10)",
                 clq_generator_create(images, &devices, NULL, &g));
    g = generator_of(model, "pocl:0", false);
    assert_fails(CLQ_ERROR_STATE, "no weights", clq_generator_logits(g, logits));
    config.inference_only = true;
    config.sample_dtype = CLQ_F32;
    config.loss.from_logits = true;
    config.global_batch = 1;
    assert_ok(clq_trainer_create(other, &devices, &config, &trainer));
    assert_fails(CLQ_ERROR_ARGUMENT, "of model convolved", clq_generator_take_weights(g, trainer));
    assert_fails(CLQ_ERROR_NOT_FOUND, "nowhere", clq_generator_load(g, "/tmp/clq_nowhere.safetensors"));
    clq_generator_destroy(g);
    g = generator_of(other, "pocl:0", false);
    assert_ok(clq_generator_take_weights(g, trainer));
    assert_fails(CLQ_ERROR_STATE, "text is empty", clq_generator_logits(g, logits));
    assert_fails(CLQ_ERROR_ARGUMENT, "token 1 is 11", clq_generator_feed(g, (const uint32_t[]){1, 11}, 2));
    assert_fails(CLQ_ERROR_STATE, "text is empty", clq_generator_next(g, &(clq_sampling){.seed = 1}, &token));
    assert_ok(clq_generator_feed(g, (const uint32_t[]){1}, 1));
    assert_fails(CLQ_ERROR_ARGUMENT, "temperature", clq_generator_next(g, &(clq_sampling){.temperature = -1}, &token));
    assert_ok(clq_generator_next(g, &(clq_sampling){.seed = 1}, &token));
    clq_generator_info info;
    clq_generator_get_info(g, &info);
    expect_text(info.reason, "layer 'convolution' (Conv1D)");
    assert_true(info.tokens == 2 && info.cache_bytes == 0);
    clq_trainer_destroy(trainer);
    clq_generator_destroy(g);
    clq_model_destroy(images);
    clq_model_destroy(other);
    clq_model_destroy(model);
}

/* ---- memory ---- */

static clq_status make_text(void *context) {
    const clq_generator_config config = {.disabled_paths = APART};
    const uint32_t prompt[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    uint32_t token;
    clq_devices devices;
    clq_generator *g = NULL;
    CLQ_TRY(clq_devices_select(sys, "pocl:0", &devices));
    clq_status status = clq_generator_create(context, &devices, &config, &g);
    if (status == CLQ_OK) status = clq_generator_load(g, memory_path);
    if (status == CLQ_OK) status = clq_generator_feed(g, prompt, CLQ_COUNT_OF(prompt));
    if (status == CLQ_OK) status = clq_generator_next(g, &(clq_sampling){.temperature = 1}, &token);
    clq_generator_destroy(g);
    return status;
}

static void allocations_that_fail(void **state) {
    (void)state;
    clq_model *model = model_named("mistral");
    make_file(memory_path);
    save_weights(model, memory_path);
    assert_true(walk_allocations(make_text, model) > 100);
    assert_int_equal(remove(memory_path), 0);
    clq_model_destroy(model);
}

int main(void) {
    json_error_t error;
    char *path = clq_strprintf("%s/tests/golden/texts.json", getenv("CLQ_TEST_SOURCE"));
    json_t *all = path ? json_load_file(path, 0, &error) : NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_keys_and_values_are_those_of_the_window),
                                       cmocka_unit_test(both_forms_draw_one_text),
                                       cmocka_unit_test(probabilities_are_taken_back),
                                       cmocka_unit_test(bytes_that_are_read),
                                       cmocka_unit_test(tokens_without_a_row),
                                       cmocka_unit_test(what_is_refused),
                                       cmocka_unit_test(allocations_that_fail)};
    clq_free(path);
    if (!all) return 1;
    entries = json_object_get(all, "models");
    const int failed = cmocka_run_group_tests(tests, open_system, close_system);
    json_decref(all);
    return failed;
}
