/* Initial values of variables: a row of the table for each initialiser. */
#include "graph/plan.h"

#include <math.h>

typedef void (*fill)(const clq_variable *variable, clq_random *random, float *out);

static void fill_with(const clq_variable *variable, float value, float *out) {
    for (size_t i = 0; i < variable->elements; i++) out[i] = value;
}

static void zeros(const clq_variable *variable, clq_random *random, float *out) {
    (void)random;
    fill_with(variable, 0.0f, out);
}

static void ones(const clq_variable *variable, clq_random *random, float *out) {
    (void)random;
    fill_with(variable, 1.0f, out);
}

/* Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010: uniform within
 * sqrt(6 / (fan_in + fan_out)). */
static void glorot_uniform(const clq_variable *variable, clq_random *random, float *out) {
    double limit = sqrt(6.0 / (double)(variable->fan_in + variable->fan_out));
    for (size_t i = 0; i < variable->elements; i++) out[i] = (float)((2.0 * clq_random_unit(random) - 1.0) * limit);
}

static const fill rows[] = {
    [CLQ_INITIALISER_ZEROS] = zeros, [CLQ_INITIALISER_ONES] = ones, [CLQ_INITIALISER_GLOROT_UNIFORM] = glorot_uniform};

void clq_variable_initialise(const clq_variable *variable, uint64_t seed, uint32_t index, float *out) {
    clq_random random = clq_random_start(seed, clq_random_stream(CLQ_RANDOM_WEIGHTS, index));
    rows[variable->initialiser](variable, &random, out);
}

void clq_weights_initial_values(const clq_weights *weights, clq_arena arena, uint64_t seed, void *out) {
    for (uint32_t i = 0; i < weights->model->variable_count; i++) {
        const clq_variable *variable = &weights->model->variables[i];
        if (clq_variable_arena(variable) == arena)
            clq_variable_initialise(variable, seed, i, (float *)(void *)((char *)out + weights->offsets[i]));
    }
}
