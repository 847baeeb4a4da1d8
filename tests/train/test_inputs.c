/* Models of several inputs, one of which has tokens: compared with a closed form under several strategies. And tokens
 * for which a table has no row. */
#include "support/apart.h"
#include "support/check.h"
#include "support/system.h"
#include "train/train.h"

#include <math.h>

enum { N = 8, NUMBERS = 3, TOKENS = 4, ROWS = 5, WIDTH = 2, BATCH = 4, EPOCHS = 2, VALUES = NUMBERS + TOKENS };

static const float numbers[N * NUMBERS] = {1, -2, 0.5f, 0,  1, 1, 2,  0, -1, 0.25f, -1,    3,
                                           1, 1,  1,    -2, 2, 0, -1, 0, 1,  1.5f,  -0.5f, 2};
static const float tokens[N * TOKENS] = {0, 1, 2, 3, 4, 4, 4, 4, 3, 0, 0, 1, 2, 2, 1, 3,
                                         1, 0, 4, 2, 0, 0, 0, 0, 3, 3, 1, 4, 2, 4, 0, 1};
static const float targets[N] = {1, -2, 0.5f, 3, -1, 0, 2, 1};
static const double lr = 0.03125;

/* y = the tokens' rows of the table, side by side, times w, plus b, plus the numbers times a, plus c. */
typedef struct closed_form {
    double table[ROWS * WIDTH], w[TOKENS * WIDTH], b, a[NUMBERS], c;
} closed_form;

static double predict(const closed_form *f, size_t n) {
    double y = f->b + f->c;
    for (size_t i = 0; i < NUMBERS; i++) y += (double)numbers[n * NUMBERS + i] * f->a[i];
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t k = 0; k < WIDTH; k++)
            y += f->table[(size_t)tokens[n * TOKENS + t] * WIDTH + k] * f->w[t * WIDTH + k];
    return y;
}

static void step(closed_form *f, size_t first, size_t count) {
    closed_form g = {.b = 0};
    for (size_t n = first; n < first + count; n++) {
        const double d = 2 * (predict(f, n) - (double)targets[n]) / (double)count;
        g.b += d;
        g.c += d;
        for (size_t i = 0; i < NUMBERS; i++) g.a[i] += d * (double)numbers[n * NUMBERS + i];
        for (size_t t = 0; t < TOKENS; t++)
            for (size_t k = 0; k < WIDTH; k++) {
                const size_t at = (size_t)tokens[n * TOKENS + t] * WIDTH + k;
                g.w[t * WIDTH + k] += d * f->table[at];
                g.table[at] += d * f->w[t * WIDTH + k];
            }
    }
    double *values = (double *)f, *slopes = (double *)&g;
    for (size_t i = 0; i < sizeof g / sizeof(double); i++) values[i] -= lr * slopes[i];
}

/* ---- the model ---- */

static clq_model *two_inputs(void) {
    clq_model *model;
    clq_tensor x[2];
    assert_ok(clq_model_create("two", &model));
    clq_inputs(model, (const clq_shape[]){CLQ_SHAPE(NUMBERS), CLQ_SHAPE(TOKENS)},
               (const char *const[]){"numbers", "tokens"}, 2, x);
    clq_tensor rows = clq_flatten(
        model, clq_embedding(model, x[1], &(clq_embedding_config){.rows = ROWS, .width = WIDTH, .name = "table"}),
        NULL);
    clq_tensor of_tokens = clq_dense(model, rows, &(clq_dense_config){.units = 1, .name = "of_tokens"});
    clq_tensor of_numbers = clq_dense(model, x[0], &(clq_dense_config){.units = 1, .name = "of_numbers"});
    assert_ok(clq_model_finish(model, clq_add(model, CLQ_TENSORS(of_tokens, of_numbers), NULL)));
    assert_int_equal(clq_model_input_shape(model).dims[0], VALUES);
    return model;
}

static clq_dataset *both_inputs(const float *second) {
    clq_dataset *data;
    assert_ok(clq_dataset_arrays(numbers, CLQ_F32, N, 1, (const size_t[]){NUMBERS}, targets, CLQ_F32, 1, &data));
    assert_ok(clq_dataset_add_samples(data, second, CLQ_F32, TOKENS));
    assert_ok(clq_dataset_batch(data, BATCH, false));
    return data;
}

static clq_trainer *trainer_of(const clq_model *model, const char *spec, const char *strategy) {
    clq_devices devices;
    clq_trainer *trainer;
    clq_trainer_config config = apart_config();
    config.global_batch = BATCH;
    config.sample_dtype = CLQ_F32;
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD);
    assert_ok(clq_optimizer_set(&config.optimizer, "lr", lr));
    assert_ok(clq_strategy_parse(strategy, &config.strategy, &config.strategy_options));
    assert_ok(clq_devices_select(sys, spec, &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

/* By name, since strategies may have variables in any order. */
static void get_all(const clq_model *model, clq_trainer *trainer, closed_form *f) {
    const struct {
        const char *name;
        double *to;
        size_t count;
    } parts[] = {{"table/embeddings", f->table, ROWS * WIDTH},
                 {"of_tokens/kernel", f->w, TOKENS * WIDTH},
                 {"of_tokens/bias", &f->b, 1},
                 {"of_numbers/kernel", f->a, NUMBERS},
                 {"of_numbers/bias", &f->c, 1}};
    assert_int_equal(clq_model_variable_count(model), CLQ_COUNT_OF(parts));
    for (size_t v = 0; v < CLQ_COUNT_OF(parts); v++) {
        clq_variable_info info;
        float values[ROWS * WIDTH];
        size_t p = 0;
        assert_ok(clq_model_variable(model, v, &info));
        while (p < CLQ_COUNT_OF(parts) && strcmp(parts[p].name, info.name) != 0) p++;
        assert_true(p < CLQ_COUNT_OF(parts) && info.elements == parts[p].count);
        assert_ok(clq_trainer_get_variable(trainer, v, values));
        for (size_t i = 0; i < parts[p].count; i++) parts[p].to[i] = (double)values[i];
    }
}

static void check_strategy(const char *spec, const char *strategy) {
    clq_model *model = two_inputs();
    clq_dataset *data = both_inputs(tokens);
    clq_trainer *trainer = trainer_of(model, spec, strategy);
    clq_fit_config fit = {.epochs = EPOCHS};
    closed_form want, got;
    float y[N];
    get_all(model, trainer, &want);
    for (size_t s = 0; s < EPOCHS * N / BATCH; s++) step(&want, s * BATCH % N, BATCH);
    assert_ok(clq_fit(trainer, data, &fit));
    get_all(model, trainer, &got);
    for (size_t i = 0; i < sizeof want / sizeof(double); i++)
        if (!(fabs(((double *)&got)[i] - ((double *)&want)[i]) <= 1e-5))
            fail_msg("%s on %s: value %zu is %.9g, not %.9g", strategy, spec, i, ((double *)&got)[i],
                     ((double *)&want)[i]);
    assert_ok(clq_predict(trainer, data, y));
    for (size_t n = 0; n < N; n++) assert_true(fabs((double)y[n] - predict(&want, n)) <= 1e-5);
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
}

static void strategies_follow_the_closed_form(void **state) {
    (void)state;
    check_strategy("pocl:0", "single");
    check_strategy("pocl:0,pocl:1", "mirrored");
    check_strategy("pocl:0,pocl:1", "central");
    check_strategy("pocl:0,pocl:1", "pipeline");
}

/* ---- what is refused ---- */

static void tokens_without_a_row(void **state) {
    (void)state;
    const float wrong[] = {5, -1, 1e9f};
    clq_model *model = two_inputs();
    clq_trainer *trainer = trainer_of(model, "pocl:0", "single");
    const clq_fit_config fit = {.epochs = 1};
    for (size_t i = 0; i < CLQ_COUNT_OF(wrong); i++) {
        float bad[N * TOKENS], y[N];
        char says[128];
        clq_batch batch;
        bool more = false;
        memcpy(bad, tokens, sizeof bad);
        bad[2 * TOKENS + 1] = wrong[i];
        clq_dataset *data = both_inputs(bad);
        snprintf(says, sizeof says, "value 4 of sample 2 is %g, and layer 'table' has rows 0 to 4", (double)wrong[i]);
        assert_fails(CLQ_ERROR_MISMATCH, says, clq_fit(trainer, data, &fit));
        assert_fails(CLQ_ERROR_MISMATCH, says, clq_predict(trainer, data, y));
        assert_ok(clq_dataset_next(data, &batch, &more));
        assert_fails(CLQ_ERROR_MISMATCH, says, clq_step_gradients(trainer, &batch));
        assert_ok(clq_dataset_take(data, 2)); /* the first two samples have rows */
        assert_ok(clq_predict(trainer, data, y));
        clq_dataset_destroy(data);
    }
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* If another layer computes the tokens, the sample's values need not be numbers of rows. */
static void numbers_of_rows_that_are_computed(void **state) {
    (void)state;
    const float large[2] = {40, 30}, want[2] = {4, 3};
    const int32_t labels[2] = {0};
    clq_model *model;
    clq_dataset *data;
    float y[2 * 2], table[5 * 2];
    assert_ok(clq_model_create("computed", &model));
    clq_tensor x = clq_rescaling(model, clq_input(model, CLQ_SHAPE(1)), 0.1, 0, NULL);
    assert_ok(clq_model_finish(model, clq_embedding(model, x, &(clq_embedding_config){.rows = 5, .width = 2})));
    clq_trainer *trainer = trainer_of(model, "pocl:0", "single");
    assert_ok(clq_dataset_arrays(large, CLQ_F32, 2, 1, (const size_t[]){1}, labels, CLQ_I32, 1, &data));
    assert_ok(clq_trainer_get_variable(trainer, 0, table));
    assert_ok(clq_predict(trainer, data, y));
    for (size_t n = 0; n < 2; n++) assert_memory_equal(y + 2 * n, table + 2 * (size_t)want[n], 2 * sizeof(float));
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* In bert-tiny, what stands at places of padding does not count, and what stands elsewhere does. */
static void padding_is_left_out(void **state) {
    enum { CONTEXT = 6, CLASSES = 2, CHANNELS = 8, PLACES = 1 /* the second variable: of positions */ };
    static const float words[CONTEXT] = {5, 3, 0, 4, 0, 0};
    static const bool padding[CONTEXT] = {false, false, true, false, true, true};
    const int32_t label = 0;
    clq_model *model;
    clq_dataset *data;
    clq_variable_info info;
    float first[CLASSES], again[CLASSES], rows[CONTEXT * CHANNELS];
    (void)state;
    assert_ok(clq_model_builtin("bert-tiny:layers=2,width=8,heads=2,context=6,vocabulary=9,classes=2", &model));
    clq_trainer *trainer = trainer_of(model, "pocl:0", "single");
    assert_ok(clq_dataset_arrays(words, CLQ_F32, 1, 1, (const size_t[]){CONTEXT}, &label, CLQ_I32, 1, &data));
    assert_ok(clq_model_variable(model, PLACES, &info));
    assert_string_equal(info.name, "position_embedding/embeddings");
    assert_ok(clq_predict(trainer, data, first));
    for (size_t place = 0; place < CONTEXT; place++) {
        assert_ok(clq_trainer_get_variable(trainer, PLACES, rows));
        for (size_t c = 0; c < CHANNELS; c++) rows[place * CHANNELS + c] += (float)c;
        assert_ok(clq_trainer_set_variable(trainer, PLACES, rows));
        assert_ok(clq_predict(trainer, data, again));
        if ((memcmp(first, again, sizeof first) == 0) != padding[place]) fail_msg("place %zu", place);
        memcpy(first, again, sizeof first);
    }
    clq_dataset_destroy(data);
    clq_trainer_destroy(trainer);
    clq_model_destroy(model);
}

/* Numbers of rows have 32 bits, whatever the activations have: 16 bits would round them to other numbers. */
static void tokens_in_mixed_precision(void **state) {
    (void)state;
    enum { MANY = 3000 };
    static const float odd[4] = {257, 2049, 2051, 2999};
    static const float answers[4] = {1, -1, 2, -2};
    static const clq_precision precisions[] = {CLQ_PRECISION_MIXED, CLQ_PRECISION_MIXED_BF16};
    for (size_t p = 0; p < CLQ_COUNT_OF(precisions); p++) {
        clq_model *model;
        clq_dataset *data;
        clq_devices devices;
        clq_trainer *trainer;
        clq_tensor x[2];
        static float before[MANY], after[MANY];
        assert_ok(clq_model_create("mixed", &model));
        clq_inputs(model, (const clq_shape[]){CLQ_SHAPE(1), CLQ_SHAPE(1, 1)}, NULL, 2, x);
        clq_tensor token = clq_flatten(model, clq_permute(model, x[1], CLQ_SHAPE(2, 1), NULL), NULL);
        clq_tensor row = clq_flatten(
            model, clq_embedding(model, token, &(clq_embedding_config){.rows = MANY, .width = 1, .name = "table"}),
            NULL);
        assert_ok(clq_model_finish(model, clq_add(model, CLQ_TENSORS(row, x[0]), NULL)));
        clq_trainer_config config = apart_config();
        config.global_batch = 4;
        config.sample_dtype = CLQ_F32;
        config.precision = precisions[p];
        config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
        config.optimizer = clq_optimizer_default(CLQ_OPTIMIZER_SGD);
        assert_ok(clq_devices_select(sys, "pocl:0", &devices));
        assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
        assert_ok(clq_dataset_arrays(answers, CLQ_F32, 4, 1, (const size_t[]){1}, answers, CLQ_F32, 1, &data));
        assert_ok(clq_dataset_add_samples(data, odd, CLQ_F32, 1));
        assert_ok(clq_dataset_batch(data, 4, false));
        for (int i = 0; i < MANY; i++) before[i] = (float)(i % 7 + 1);
        assert_ok(clq_trainer_set_variable(trainer, 0, before));
        assert_ok(clq_fit(trainer, data, &(clq_fit_config){.epochs = 1}));
        assert_ok(clq_trainer_get_variable(trainer, 0, after));
        for (int i = 0; i < MANY; i++) {
            bool used = false;
            for (size_t k = 0; k < 4; k++) used = used || odd[k] == (float)i;
            if ((after[i] != before[i]) != used) fail_msg("precision %zu: row %d", p, i);
        }
        clq_trainer_destroy(trainer);
        clq_dataset_destroy(data);
        clq_model_destroy(model);
    }
}

static void inputs_that_are_refused(void **state) {
    (void)state;
    const struct {
        size_t count;
        clq_shape shapes[2];
        const char *names[2], *says;
    } cases[] = {
        {0, {{0}}, {0}, "1 to 64 inputs are supported, not 0"},
        {65, {{0}}, {0}, "1 to 64 inputs are supported, not 65"},
        {2, {CLQ_SHAPE(3), CLQ_SHAPE(0)}, {0}, "input 1: a dimension of (0) is 0"},
        {2, {CLQ_SHAPE(1u << 30), CLQ_SHAPE(1u << 30)}, {0}, "have 2147483648 values, more than"},
        {2, {CLQ_SHAPE(3), CLQ_SHAPE(3)}, {"a", "a"}, "two layers have this name"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_model *model;
        clq_tensor x[CLQ_MODEL_INPUTS_MAX + 1];
        assert_ok(clq_model_create("refused", &model));
        clq_inputs(model, cases[i].shapes, cases[i].names, cases[i].count, x);
        if (cases[i].count > 0) assert_int_equal(x[cases[i].count - 1].id, 0);
        assert_fails(CLQ_ERROR_ARGUMENT, cases[i].says, clq_model_finish(model, x[0]));
        clq_model_destroy(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strategies_follow_the_closed_form), cmocka_unit_test(tokens_without_a_row),
        cmocka_unit_test(numbers_of_rows_that_are_computed), cmocka_unit_test(padding_is_left_out),
        cmocka_unit_test(tokens_in_mixed_precision),         cmocka_unit_test(inputs_that_are_refused),
    };
    return cmocka_run_group_tests(tests, open_system, close_system);
}
