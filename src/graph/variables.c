/* A model's variables: kernels and biases, in the order of the layers. */
#include "graph/model.h"

#include <stdio.h>
#include <string.h>

static clq_status check_same(const clq_layer *layer, const clq_variable *variable, const char *what,
                             const clq_shape *shape) {
    char first[CLQ_SHAPE_TEXT_MAX], now[CLQ_SHAPE_TEXT_MAX], had[CLQ_SHAPE_TEXT_MAX], wanted[CLQ_SHAPE_TEXT_MAX];
    if (clq_shape_equal(&variable->shape, shape)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "it is shared: its %s %s was made for an input of %s, and an input of %s would need %s", what,
                    clq_shape_describe(&variable->shape, had), clq_shape_describe(&layer->made_for, first),
                    clq_shape_describe(&layer->applied_to, now), clq_shape_describe(shape, wanted));
}

/* Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010. */
const clq_variable_kind clq_variable_kernel = {.what = "kernel",
                                               .dtype = CLQ_F32,
                                               .initialiser = {.kind = CLQ_INITIALISER_VARIANCE_SCALING,
                                                               .scale = 1,
                                                               .fan = CLQ_FAN_MEAN,
                                                               .distribution = CLQ_DISTRIBUTION_UNIFORM},
                                               .decay = true};
const clq_variable_kind clq_variable_bias = {
    .what = "bias", .dtype = CLQ_F32, .initialiser = {.kind = CLQ_INITIALISER_CONSTANT}, .is_bias = true};

clq_variable_kind clq_variable_kind_by(const clq_variable_kind *kind, const clq_initialiser *initialiser) {
    clq_variable_kind result = *kind;
    if (initialiser->kind != CLQ_INITIALISER_DEFAULT) result.initialiser = *initialiser;
    return result;
}

size_t clq_variable_bytes(const clq_variable *variable) {
    return clq_values_bytes(variable->dtype, variable->elements);
}

static clq_status make_place(clq_layer *layer, unsigned number) {
    if (number < layer->variable_places) return CLQ_OK;
    uint32_t *grown = clq_realloc(layer->variables, layer->variable_places, (size_t)number + 1, sizeof *grown);
    if (!grown) return CLQ_ERROR_MEMORY;
    layer->variables = grown;
    layer->variable_places = (size_t)number + 1;
    return CLQ_OK;
}

clq_status clq_model_declare_variable(clq_model *model, clq_layer *layer, unsigned number, clq_shape shape,
                                      const clq_variable_kind *kind) {
    const uint32_t known = clq_layer_variable(layer, number);
    if (known) return check_same(layer, &model->variables[known - 1], kind->what, &shape);
    clq_variable variable = {.dtype = kind->dtype,
                             .shape = shape,
                             .is_bias = kind->is_bias,
                             .role = kind->role,
                             .initialiser = kind->initialiser,
                             .ones = {kind->ones[0], kind->ones[1]},
                             .fill = kind->fill,
                             .fill_by = kind->fill_by,
                             .decay = kind->decay,
                             .synchronized = kind->synchronized,
                             .fixed = kind->fixed,
                             .layer = model->layer_count + 1}; /* a new layer has the next id */
    snprintf(variable.name, sizeof(variable.name), "%s/%s", layer->name, kind->what);
    clq_status status = clq_shape_elements(&shape, &variable.elements);
    if (status == CLQ_OK) status = clq_initialiser_check_shape(&kind->initialiser, &shape);
    if (status != CLQ_OK) return clq_fail_within(status, "its %s", kind->what);
    /* Keras's fans: a convolution's window counts for both; a vector is its own fan. */
    size_t in = shape.rank > 1 ? shape.dims[shape.rank - 2] : shape.dims[0], out_size = shape.dims[shape.rank - 1];
    variable.fan_in = shape.rank > 1 ? variable.elements / out_size : in;
    variable.fan_out = variable.elements / (shape.rank > 1 ? in : 1);
    CLQ_TRY(make_place(layer, number));
    CLQ_TRY(CLQ_RESERVE(model, variables, variable_count, 1, variable_capacity));
    model->variables[model->variable_count] = variable;
    layer->variables[number] = ++model->variable_count;
    return CLQ_OK;
}

void clq_model_freeze_variables(clq_model *model, const clq_layer *layer) {
    for (size_t k = 0; k < layer->variable_places; k++) {
        if (!layer->variables[k]) continue;
        clq_variable *variable = &model->variables[layer->variables[k] - 1];
        variable->role = CLQ_ROLE_STATE;
        variable->fixed = true;
    }
}

void clq_model_keep_variables(clq_model *model, const uint32_t *kept) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->variable_count; i++) {
        clq_variable variable = model->variables[i];
        uint32_t layer = kept[variable.layer];
        if (!layer) continue;
        for (size_t k = 0; k < model->layers[layer - 1].variable_places; k++) {
            uint32_t *own = &model->layers[layer - 1].variables[k];
            if (*own == i + 1) *own = count + 1;
        }
        variable.layer = layer;
        model->variables[count++] = variable;
    }
    model->variable_count = count;
}

size_t clq_model_variable_count(const clq_model *model) { return model->variable_count; }

clq_status clq_model_variable(const clq_model *model, size_t index, clq_variable_info *out) {
    if (index >= model->variable_count)
        return clq_fail(CLQ_ERROR_ARGUMENT, "variable %zu is out of range: model %s has %u", index, model->name,
                        model->variable_count);
    const clq_variable *v = &model->variables[index];
    *out = (clq_variable_info){.name = v->name,
                               .shape = v->shape,
                               .elements = v->elements,
                               .fan_in = v->fan_in,
                               .fan_out = v->fan_out,
                               .is_bias = v->is_bias,
                               .trainable = v->role == CLQ_ROLE_TRAINABLE};
    return CLQ_OK;
}

size_t clq_model_parameter_count(const clq_model *model) {
    size_t count = 0;
    for (uint32_t i = 0; i < model->variable_count; i++) count += model->variables[i].elements;
    return count;
}
