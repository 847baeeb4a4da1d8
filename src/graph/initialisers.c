/* Initial values of variables: a row of the table for each kind of initialiser. */
#include "graph/model.h"
#include "graph/plan.h"

#include <float.h>
#include <math.h>

/* ---- random numbers ---- */

/* Box and Muller, 1958. Only the cosine is used, so each value takes two numbers of the stream. */
static double normal(clq_random *random) {
    const double radius = sqrt(-2.0 * log(1.0 - clq_random_unit(random)));
    return radius * cos(2.0 * 3.14159265358979323846 * clq_random_unit(random));
}

static double truncated_normal(clq_random *random) {
    double value;
    do value = normal(random);
    while (fabs(value) > 2.0);
    return value;
}

/* ---- rows of values, each by itself ---- */

static double constant_value(const clq_initialiser *i, const clq_variable *variable, clq_random *random) {
    (void)variable;
    (void)random;
    return i->value;
}
static double uniform_value(const clq_initialiser *i, const clq_variable *variable, clq_random *random) {
    (void)variable;
    return i->low + (i->high - i->low) * clq_random_unit(random);
}
static double normal_value(const clq_initialiser *i, const clq_variable *variable, clq_random *random) {
    (void)variable;
    return i->mean + i->deviation * normal(random);
}
static double truncated_value(const clq_initialiser *i, const clq_variable *variable, clq_random *random) {
    (void)variable;
    return i->mean + i->deviation * truncated_normal(random);
}

static double fan_of(const clq_initialiser *i, const clq_variable *variable) {
    const double in = (double)variable->fan_in, out = (double)variable->fan_out;
    return i->fan == CLQ_FAN_IN ? in : i->fan == CLQ_FAN_OUT ? out : (in + out) / 2;
}
/* The standard deviation of a normal distribution that is cut off at two deviations, in deviations of the whole one. */
static const double kept_deviation = 0.87962566103423978;
static double scaled_value(const clq_initialiser *i, const clq_variable *variable, clq_random *random) {
    const double fan = fan_of(i, variable), deviation = sqrt(i->scale / fan);
    if (i->distribution == CLQ_DISTRIBUTION_UNIFORM)
        return (2.0 * clq_random_unit(random) - 1.0) * sqrt(3.0 * i->scale / fan);
    return i->distribution == CLQ_DISTRIBUTION_NORMAL ? deviation * normal(random)
                                                      : deviation / kept_deviation * truncated_normal(random);
}

/* ---- matrices ---- */

/* Makes `count` rows of `width` values orthonormal; before, they must be linearly independent. Gram and Schmidt's
 * method goes over each row twice, which is enough for the rounding errors of floats (Giraud, Langou and Rozloznik,
 * 2005). */
static void orthonormalise(double *rows, size_t count, size_t width) {
    for (size_t r = 0; r < count; r++) {
        double *row = rows + r * width;
        for (size_t k = 0; k < 2 * r; k++) {
            const double *other = rows + k % r * width;
            double product = 0;
            for (size_t c = 0; c < width; c++) product += row[c] * other[c];
            for (size_t c = 0; c < width; c++) row[c] -= product * other[c];
        }
        double squares = 0;
        for (size_t c = 0; c < width; c++) squares += row[c] * row[c];
        for (size_t c = 0; c < width; c++) row[c] /= sqrt(squares);
    }
}

/* The first axes are the matrix's rows, the last one its columns. */
static clq_status orthogonal(const clq_variable *variable, clq_random *random, float *out) {
    const size_t columns = variable->shape.dims[variable->shape.rank - 1], rows = variable->elements / columns;
    const size_t count = CLQ_MIN(rows, columns), width = CLQ_MAX(rows, columns);
    double *values = clq_alloc(variable->elements, sizeof *values);
    if (!values) return CLQ_ERROR_MEMORY;
    for (size_t k = 0; k < variable->elements; k++) values[k] = normal(random);
    orthonormalise(values, count, width);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            out[r * columns + c] =
                (float)(variable->initialiser.gain * (rows < columns ? values[r * width + c] : values[c * width + r]));
    clq_free(values);
    return CLQ_OK;
}

static clq_status identity(const clq_variable *variable, clq_random *random, float *out) {
    const size_t columns = variable->shape.dims[1];
    (void)random;
    for (size_t k = 0; k < variable->elements; k++)
        out[k] = k / columns == k % columns ? (float)variable->initialiser.gain : 0.0f;
    return CLQ_OK;
}

/* ---- the table ---- */

static const struct {
    double (*value)(const clq_initialiser *i, const clq_variable *variable, clq_random *random);
    clq_status (*all)(const clq_variable *variable, clq_random *random,
                      float *out);  /* if values depend on each other */
    unsigned rank_least, rank_most; /* 0: any */
} rows[] = {
    [CLQ_INITIALISER_CONSTANT] = {.value = constant_value},
    [CLQ_INITIALISER_UNIFORM] = {.value = uniform_value},
    [CLQ_INITIALISER_NORMAL] = {.value = normal_value},
    [CLQ_INITIALISER_TRUNCATED_NORMAL] = {.value = truncated_value},
    [CLQ_INITIALISER_VARIANCE_SCALING] = {.value = scaled_value},
    [CLQ_INITIALISER_ORTHOGONAL] = {.all = orthogonal, .rank_least = 2, .rank_most = CLQ_SHAPE_MAX},
    [CLQ_INITIALISER_IDENTITY] = {.all = identity, .rank_least = 2, .rank_most = 2},
};

clq_status clq_initialiser_check(const clq_initialiser *i) {
    const struct {
        const char *name;
        double number;
    } numbers[] = {{"value", i->value},         {"low", i->low},     {"high", i->high}, {"mean", i->mean},
                   {"deviation", i->deviation}, {"scale", i->scale}, {"gain", i->gain}};
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_initialiser, i));
    if ((size_t)i->kind >= CLQ_COUNT_OF(rows))
        return clq_fail(CLQ_ERROR_ARGUMENT, "kind %d is none of clq_initialiser_kind", (int)i->kind);
    for (size_t k = 0; k < CLQ_COUNT_OF(numbers); k++)
        if (!isfinite(numbers[k].number) || fabs(numbers[k].number) > (double)FLT_MAX)
            return clq_fail(CLQ_ERROR_ARGUMENT, "%s %g should be a number that a float can hold", numbers[k].name,
                            numbers[k].number);
    if (i->kind == CLQ_INITIALISER_UNIFORM && i->low > i->high)
        return clq_fail(CLQ_ERROR_ARGUMENT, "low %g should be at most high %g", i->low, i->high);
    if ((i->kind == CLQ_INITIALISER_NORMAL || i->kind == CLQ_INITIALISER_TRUNCATED_NORMAL) && i->deviation < 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "deviation %g should be at least 0", i->deviation);
    if (i->kind != CLQ_INITIALISER_VARIANCE_SCALING) return CLQ_OK;
    if (!(i->scale > 0)) return clq_fail(CLQ_ERROR_ARGUMENT, "scale %g should be above 0", i->scale);
    if ((unsigned)i->fan > CLQ_FAN_MEAN) return clq_fail(CLQ_ERROR_ARGUMENT, "fan %d is none of clq_fan", (int)i->fan);
    if ((unsigned)i->distribution > CLQ_DISTRIBUTION_UNIFORM)
        return clq_fail(CLQ_ERROR_ARGUMENT, "distribution %d is none of clq_distribution", (int)i->distribution);
    return CLQ_OK;
}

clq_status clq_initialiser_check_shape(const clq_initialiser *initialiser, const clq_shape *shape) {
    const unsigned least = rows[initialiser->kind].rank_least, most = rows[initialiser->kind].rank_most;
    char text[CLQ_SHAPE_TEXT_MAX];
    if (least == 0 || (shape->rank >= least && shape->rank <= most)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%s has %u dimension%s, and its initialiser is for %s",
                    clq_shape_describe(shape, text), shape->rank, clq_plural(shape->rank),
                    most == least ? "matrices" : "two and more");
}

clq_status clq_variable_initialise(const clq_variable *variable, uint64_t seed, uint32_t index, float *out) {
    const clq_initialiser *initialiser = &variable->initialiser;
    if (variable->fill) {
        variable->fill(variable, out);
        return CLQ_OK;
    }
    clq_random random = clq_random_start(seed, clq_random_stream(CLQ_RANDOM_WEIGHTS, index));
    if (rows[initialiser->kind].all) CLQ_TRY(rows[initialiser->kind].all(variable, &random, out));
    for (size_t i = 0; i < variable->elements && !rows[initialiser->kind].all; i++)
        out[i] = (float)rows[initialiser->kind].value(initialiser, variable, &random);
    for (size_t i = variable->ones[0]; i < variable->ones[1]; i++) out[i] = 1;
    return CLQ_OK;
}

static clq_status initialise_slice(const clq_weights *weights, uint32_t index, uint64_t seed, float *out) {
    const clq_variable *variable = &weights->model->variables[index];
    float *values = clq_alloc(variable->elements, sizeof *values);
    if (!values) return CLQ_ERROR_MEMORY;
    const clq_status status = clq_variable_initialise(variable, seed, index, values);
    if (status == CLQ_OK) clq_weight_slice_cut(&weights->slices[index], variable, values, out);
    clq_free(values);
    return status;
}

clq_status clq_weights_initial_values(const clq_weights *weights, clq_arena arena, uint64_t seed, void *out) {
    for (uint32_t i = 0; i < weights->model->variable_count; i++) {
        const clq_variable *variable = &weights->model->variables[i];
        if (clq_variable_arena(variable) != arena || weights->offsets[i] == CLQ_NO_OFFSET) continue;
        float *to = (float *)(void *)((char *)out + weights->offsets[i]);
        if (clq_weight_slice_is_part(&weights->slices[i], variable))
            CLQ_TRY(initialise_slice(weights, i, seed, to));
        else
            CLQ_TRY(clq_variable_initialise(variable, seed, i, to));
    }
    return CLQ_OK;
}
