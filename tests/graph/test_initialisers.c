/* Initial values of variables. */
#include "graph/model.h"
#include "support/check.h"

#include <math.h>

enum { ELEMENTS = 40000, FAN_IN = 300, FAN_OUT = 100 };
static float values[ELEMENTS], others[ELEMENTS];

static const clq_variable *of(clq_initialiser initialiser) {
    static clq_variable variable;
    variable = (clq_variable){.elements = ELEMENTS, .fan_in = FAN_IN, .fan_out = FAN_OUT, .initialiser = initialiser};
    return &variable;
}

static void fill(const clq_variable *variable, uint64_t seed, uint32_t index, float *out) {
    assert_ok(clq_initialiser_check(&variable->initialiser));
    assert_ok(clq_variable_initialise(variable, seed, index, out));
}

static void constants(void **state) {
    (void)state;
    static const double numbers[] = {0, 1, -2.5};
    for (size_t n = 0; n < CLQ_COUNT_OF(numbers); n++) {
        fill(of((clq_initialiser){.kind = CLQ_INITIALISER_CONSTANT, .value = numbers[n]}), 1, 0, values);
        for (size_t i = 0; i < ELEMENTS; i++) assert_true(values[i] == (float)numbers[n]);
    }
}

/* Closed forms: a uniform distribution over [m - w, m + w] has the variance w^2 / 3. A normal distribution with
 * standard deviation s, cut at 2 s, has a standard deviation of s times 0.87962566103423978, which is that of the
 * standard normal distribution between -2 and 2. For 40,000 values, the mean must be within 5 of its standard
 * deviations, and the variance within 3 %. */
static void distributions(void **state) {
    (void)state;
    static const double kept = 0.87962566103423978;
    const double in = FAN_IN, mean_fan = (FAN_IN + FAN_OUT) / 2.0, out = FAN_OUT;
    const struct {
        clq_initialiser initialiser;
        double mean, deviation, most; /* most: the largest distance from the mean; 0: no limit */
    } cases[] = {
        {{.kind = CLQ_INITIALISER_UNIFORM, .low = -0.05, .high = 0.05}, 0, 0.05 / sqrt(3), 0.05},
        {{.kind = CLQ_INITIALISER_UNIFORM, .low = 1, .high = 3}, 2, 1 / sqrt(3), 1},
        {{.kind = CLQ_INITIALISER_NORMAL, .mean = 0.5, .deviation = 0.02}, 0.5, 0.02, 0},
        {{.kind = CLQ_INITIALISER_TRUNCATED_NORMAL, .mean = -1, .deviation = 0.1}, -1, 0.1 * kept, 0.2},
        /* Glorot's, LeCun's and He's */
        {{.kind = CLQ_INITIALISER_VARIANCE_SCALING,
          .scale = 1,
          .fan = CLQ_FAN_MEAN,
          .distribution = CLQ_DISTRIBUTION_UNIFORM},
         0,
         sqrt(1 / mean_fan),
         sqrt(3 / mean_fan)},
        {{.kind = CLQ_INITIALISER_VARIANCE_SCALING, .scale = 1, .fan = CLQ_FAN_MEAN},
         0,
         sqrt(1 / mean_fan),
         2 * sqrt(1 / mean_fan) / kept},
        {{.kind = CLQ_INITIALISER_VARIANCE_SCALING, .scale = 1, .fan = CLQ_FAN_IN},
         0,
         sqrt(1 / in),
         2 * sqrt(1 / in) / kept},
        {{.kind = CLQ_INITIALISER_VARIANCE_SCALING, .scale = 2, .fan = CLQ_FAN_IN},
         0,
         sqrt(2 / in),
         2 * sqrt(2 / in) / kept},
        {{.kind = CLQ_INITIALISER_VARIANCE_SCALING,
          .scale = 2,
          .fan = CLQ_FAN_OUT,
          .distribution = CLQ_DISTRIBUTION_NORMAL},
         0,
         sqrt(2 / out),
         0},
    };
    for (size_t c = 0; c < CLQ_COUNT_OF(cases); c++) {
        double sum = 0, squares = 0, furthest = 0;
        fill(of(cases[c].initialiser), 7, 3, values);
        for (size_t i = 0; i < ELEMENTS; i++) {
            const double off = (double)values[i] - cases[c].mean;
            sum += off;
            squares += off * off;
            furthest = fmax(furthest, fabs(off));
        }
        if (fabs(sum / ELEMENTS) > 5 * cases[c].deviation / sqrt(ELEMENTS))
            fail_msg("case %zu: mean %g", c, sum / ELEMENTS);
        if (fabs(squares / ELEMENTS / (cases[c].deviation * cases[c].deviation) - 1) > 0.03)
            fail_msg("case %zu: variance %g", c, squares / ELEMENTS);
        const double most = cases[c].most;
        if (most > 0 && (furthest > most * (1 + 1e-6) || furthest < 0.98 * most)) fail_msg("case %zu: %g", c, furthest);
        if (most == 0 && furthest < 3.5 * cases[c].deviation) fail_msg("case %zu: nothing beyond %g", c, furthest);
    }
}

static clq_variable matrix_of(clq_initialiser initialiser, clq_shape shape) {
    clq_variable variable = {.shape = shape, .elements = 1, .initialiser = initialiser};
    for (unsigned d = 0; d < shape.rank; d++) variable.elements *= shape.dims[d];
    return variable;
}

/* The variable is a matrix whose columns are the last axis and whose rows are all other axes. Its rows or columns,
 * whichever are fewer, are orthonormal times the gain. */
static void orthogonal(void **state) {
    (void)state;
    static const clq_shape shapes[] = {{2, {40, 40}}, {2, {60, 25}}, {2, {25, 60}}, {4, {3, 3, 5, 20}}, {2, {1, 7}}};
    const double gain = 1.5;
    for (size_t s = 0; s < CLQ_COUNT_OF(shapes); s++) {
        const clq_variable variable =
            matrix_of((clq_initialiser){.kind = CLQ_INITIALISER_ORTHOGONAL, .gain = gain}, shapes[s]);
        const size_t columns = shapes[s].dims[shapes[s].rank - 1], rows = variable.elements / columns;
        const size_t few = CLQ_MIN(rows, columns), many = CLQ_MAX(rows, columns);
        const size_t step = rows < columns ? columns : 1, along = rows < columns ? 1 : columns;
        fill(&variable, 11, (uint32_t)s, values);
        for (size_t a = 0; a < few; a++)
            for (size_t b = 0; b <= a; b++) {
                double product = 0;
                for (size_t k = 0; k < many; k++)
                    product += (double)values[a * step + k * along] * (double)values[b * step + k * along];
                if (fabs(product - (a == b ? gain * gain : 0)) > 1e-6) fail_msg("%zu: %zu, %zu: %g", s, a, b, product);
            }
    }
}

static void identity(void **state) {
    (void)state;
    const clq_variable variable =
        matrix_of((clq_initialiser){.kind = CLQ_INITIALISER_IDENTITY, .gain = 2}, CLQ_SHAPE(3, 5));
    fill(&variable, 1, 0, values);
    for (size_t i = 0; i < 15; i++) assert_true(values[i] == (i / 5 == i % 5 ? 2.0f : 0.0f));
}

/* The same seed and place give the same values. Another seed or place gives others. */
static void streams(void **state) {
    (void)state;
    static const clq_initialiser kinds[] = {
        {.kind = CLQ_INITIALISER_UNIFORM, .low = -1, .high = 1},
        {.kind = CLQ_INITIALISER_NORMAL, .deviation = 1},
        {.kind = CLQ_INITIALISER_TRUNCATED_NORMAL, .deviation = 1},
        {.kind = CLQ_INITIALISER_VARIANCE_SCALING, .scale = 1, .distribution = CLQ_DISTRIBUTION_UNIFORM}};
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++) {
        fill(of(kinds[k]), 7, 3, values);
        fill(of(kinds[k]), 7, 3, others);
        assert_memory_equal(values, others, sizeof values);
        for (uint32_t other = 0; other < 2; other++) {
            fill(of(kinds[k]), 7 + other, 4 - other, others);
            size_t same = 0;
            for (size_t i = 0; i < ELEMENTS; i++) same += values[i] == others[i];
            assert_true(same < 10);
        }
    }
}

/* The builder gives an initialiser to the variables that it is for, and refuses an impossible one by name. */
static void builder(void **state) {
    (void)state;
    clq_model *model;
    const clq_initialiser two = {.kind = CLQ_INITIALISER_CONSTANT, .value = 2};
    assert_ok(clq_model_create("m", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(4, 4, 1));
    x = clq_conv2d(model, x, &(clq_conv2d_config){.filters = 2, .kernel = {3, 3}, .bias_initialiser = two});
    clq_batch_norm_config norm = clq_batch_norm_config_default();
    norm.gamma_initialiser = (clq_initialiser){.kind = CLQ_INITIALISER_CONSTANT};
    x = clq_dense(model, clq_flatten(model, clq_batch_norm(model, x, &norm), NULL),
                  &(clq_dense_config){.units = 3, .kernel_initialiser = two});
    assert_ok(clq_model_finish(model, x));
    /* conv2d: kernel, bias; normalisation: gamma, beta, moving mean and variance; dense: kernel, bias */
    static const double firsts[] = {NAN, 2, 0, 0, 0, 1, 2, 0};
    assert_int_equal(model->variable_count, CLQ_COUNT_OF(firsts));
    for (uint32_t v = 0; v < model->variable_count; v++) {
        fill(&model->variables[v], 5, v, values);
        for (size_t i = 0; i < model->variables[v].elements && !isnan(firsts[v]); i++)
            assert_true(values[i] == (float)firsts[v]);
    }
    clq_model_destroy(model);
    static const struct {
        clq_initialiser initialiser;
        const char *says;
    } refused[] = {
        {{.kind = (clq_initialiser_kind)99}, "kernel_initializer: kind 99 is none of clq_initialiser_kind"},
        {{.kind = CLQ_INITIALISER_CONSTANT, .value = INFINITY}, "value inf should be a number that a float can hold"},
        {{.kind = CLQ_INITIALISER_UNIFORM, .low = 1}, "low 1 should be at most high 0"},
        {{.kind = CLQ_INITIALISER_NORMAL, .deviation = -1}, "deviation -1 should be at least 0"},
        {{.kind = CLQ_INITIALISER_VARIANCE_SCALING}, "scale 0 should be above 0"},
        {{.kind = CLQ_INITIALISER_VARIANCE_SCALING, .scale = 1, .fan = (clq_fan)7}, "fan 7 is none of clq_fan"},
        {{.kind = CLQ_INITIALISER_IDENTITY, .gain = 1}, "its kernel: (3, 3, 1, 2) has 4 dimensions"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(refused); i++) {
        assert_ok(clq_model_create("m", &model));
        x = clq_conv2d(
            model, clq_input(model, CLQ_SHAPE(4, 4, 1)),
            &(clq_conv2d_config){.filters = 2, .kernel = {3, 3}, .kernel_initialiser = refused[i].initialiser});
        assert_int_equal(clq_model_finish(model, x), CLQ_ERROR_ARGUMENT);
        expect_text(clq_error_detail(), refused[i].says);
        clq_model_destroy(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(constants),  cmocka_unit_test(distributions),
                                       cmocka_unit_test(orthogonal), cmocka_unit_test(identity),
                                       cmocka_unit_test(streams),    cmocka_unit_test(builder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
