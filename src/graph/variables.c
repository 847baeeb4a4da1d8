/* A model's variables: kernels and biases, in the order of the layers. */
#include "graph/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static clq_status reserve(clq_model *model) {
    if (model->variable_count < model->variable_capacity) return CLQ_OK;
    uint32_t capacity = model->variable_capacity ? model->variable_capacity * 2 : 16;
    clq_variable *variables = clq_realloc(model->variables, model->variable_capacity, capacity, sizeof(*variables));
    if (!variables) return CLQ_MEMORY;
    model->variables = variables;
    model->variable_capacity = capacity;
    return CLQ_OK;
}

/* Adds `layer/what` to the last layer; *out is its index + 1. */
static clq_status add(clq_model *model, const char *what, clq_shape shape, uint32_t *out) {
    const bool is_bias = shape.rank == 1;
    clq_variable variable = {.shape = shape,
                             .is_bias = is_bias,
                             .role = CLQ_ROLE_TRAINABLE,
                             .initialiser = is_bias ? CLQ_INITIALISER_ZEROS : CLQ_INITIALISER_GLOROT_UNIFORM,
                             .decays = !is_bias,
                             .layer = model->layer_count};
    const char *layer = model->layers[model->layer_count - 1].name;
    snprintf(variable.name, sizeof(variable.name), "%s/%s", layer, what);
    clq_status status = clq_shape_elements(&shape, &variable.elements);
    if (status != CLQ_OK) return clq_fail_within(status, "its %s", what);
    /* Keras's fans: a convolution's window counts for both; a vector is its own fan. */
    size_t in = shape.rank > 1 ? shape.dims[shape.rank - 2] : shape.dims[0], out_size = shape.dims[shape.rank - 1];
    variable.fan_in = shape.rank > 1 ? variable.elements / out_size : in;
    variable.fan_out = variable.elements / (shape.rank > 1 ? in : 1);
    CLQ_TRY(reserve(model));
    model->variables[model->variable_count] = variable;
    *out = ++model->variable_count;
    return CLQ_OK;
}

void clq_variable_initialise(const clq_variable *variable, uint64_t seed, uint32_t index, float *out) {
    const double limit = sqrt(6.0 / (double)(variable->fan_in + variable->fan_out));
    clq_random random = clq_random_start(seed, clq_random_stream(CLQ_RANDOM_WEIGHTS, index));
    for (size_t i = 0; i < variable->elements; i++) {
        switch (variable->initialiser) {
        case CLQ_INITIALISER_GLOROT_UNIFORM: out[i] = (float)((2.0 * clq_random_unit(&random) - 1.0) * limit); break;
        case CLQ_INITIALISER_ZEROS: out[i] = 0.0f; break;
        case CLQ_INITIALISER_ONES: out[i] = 1.0f; break;
        }
    }
}

clq_tensor clq_model_add_weights(clq_model *model, clq_tensor y, clq_shape kernel, bool bias) {
    if (y.id == 0) return y;
    clq_layer *layer = &model->layers[y.id - 1];
    clq_status status = add(model, "kernel", kernel, &layer->kernel);
    if (status == CLQ_OK && bias) status = add(model, "bias", CLQ_SHAPE(kernel.dims[kernel.rank - 1]), &layer->bias);
    return status == CLQ_OK ? y : clq_model_latch(model, status, layer->name);
}

void clq_model_keep_variables(clq_model *model) {
    uint32_t kept = 0;
    for (uint32_t id = 1; id <= model->layer_count; id++) {
        clq_layer *layer = &model->layers[id - 1];
        uint32_t *const own[2] = {&layer->kernel, &layer->bias};
        for (unsigned i = 0; i < 2; i++) {
            if (!*own[i]) continue;
            model->variables[kept] = model->variables[*own[i] - 1];
            model->variables[kept].layer = id;
            *own[i] = ++kept;
        }
    }
    model->variable_count = kept;
}

size_t clq_model_variable_count(const clq_model *model) { return model->variable_count; }

clq_status clq_model_variable(const clq_model *model, size_t index, clq_variable_info *out) {
    if (index >= model->variable_count)
        return clq_fail(CLQ_ARGUMENT, "variable %zu of model %s: it has %u, counted from 0", index, model->name,
                        model->variable_count);
    const clq_variable *v = &model->variables[index];
    *out = (clq_variable_info){.name = v->name,
                               .shape = v->shape,
                               .elements = v->elements,
                               .fan_in = v->fan_in,
                               .fan_out = v->fan_out,
                               .is_bias = v->is_bias};
    return CLQ_OK;
}

size_t clq_model_parameter_count(const clq_model *model) {
    size_t count = 0;
    for (uint32_t i = 0; i < model->variable_count; i++) count += model->variables[i].elements;
    return count;
}
