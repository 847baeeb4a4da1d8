/* Initial values of variables: a row of the table for each initializer. */
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
    [CLQ_INITIALIZER_ZEROS] = zeros, [CLQ_INITIALIZER_ONES] = ones, [CLQ_INITIALIZER_GLOROT_UNIFORM] = glorot_uniform};

void clq_variable_initialize(const clq_variable *variable, clq_initializer initializer, uint64_t seed, uint32_t index,
                             float *out) {
    clq_random random = clq_random_start(seed, clq_random_stream(CLQ_RANDOM_WEIGHTS, index));
    rows[initializer](variable, &random, out);
}

void clq_plan_initialize(const clq_plan *plan, uint64_t seed, void *arena) {
    for (uint32_t i = 0; i < plan->model->variable_count; i++) {
        const clq_variable *variable = &plan->model->variables[i];
        clq_variable_initialize(variable, variable->is_bias ? CLQ_INITIALIZER_ZEROS : CLQ_INITIALIZER_GLOROT_UNIFORM,
                                seed, i, (float *)(void *)((char *)arena + plan->offsets[i]));
    }
}
