/* A model: nodes, variables, names, and the first failure of building. */
#include "graph/model.h"

#include <stdio.h>
#include <string.h>

clq_status clq_model_create(const char *name, clq_model **out) {
    if (!name || !*name || strlen(name) >= CLQ_LAYER_NAME_MAX)
        return clq_fail(CLQ_ARGUMENT, "a model's name has 1 to %d characters", CLQ_LAYER_NAME_MAX - 1);
    clq_model *model = clq_alloc(1, sizeof *model);
    if (!model) return CLQ_MEMORY;
    snprintf(model->name, sizeof model->name, "%s", name);
    *out = model;
    return CLQ_OK;
}

void clq_model_destroy(clq_model *model) {
    if (!model) return;
    clq_free(model->nodes);
    clq_free(model->variables);
    clq_free(model);
}

clq_tensor clq_model_latch(clq_model *model, clq_status status, const char *layer) {
    if (model->error.status == CLQ_OK) {
        if (layer) clq_fail_within(status, "layer '%s'", layer);
        clq_error_take(status, &model->error);
    }
    return (clq_tensor){0};
}

const clq_node *clq_model_source(clq_model *model, clq_tensor x, const char *what) {
    if (model->error.status != CLQ_OK) return NULL;
    if (model->finished) {
        clq_model_latch(model, clq_fail(CLQ_STATE, "model %s is finished: no %s can be added", model->name, what), NULL);
        return NULL;
    }
    if (x.id == 0 || x.id > model->node_count) {
        clq_model_latch(model, clq_fail(CLQ_ARGUMENT, "model %s: %s is given a tensor that is not of this model", model->name, what), NULL);
        return NULL;
    }
    return &model->nodes[x.id - 1];
}

void clq_shape_describe(const clq_shape *shape, char text[96]) {
    int used = snprintf(text, 96, "(");
    for (unsigned d = 0; d < shape->rank && used > 0 && used < 96; d++)
        used += snprintf(text + used, (size_t)(96 - used), "%s%zu", d ? ", " : "", shape->dims[d]);
    if (used > 0 && used < 96) snprintf(text + used, (size_t)(96 - used), ")");
}

/* ---- names, as Keras makes them: dense, dense_1, … ------------------------------------------------------------------ */

static bool name_taken(const clq_model *model, const char *name) {
    for (uint32_t i = 0; i < model->node_count; i++)
        if (strcmp(model->nodes[i].name, name) == 0) return true;
    return false;
}

static clq_status choose_name(const clq_model *model, const char *stem, const char *name, char out[CLQ_LAYER_NAME_MAX]) {
    if (name) {
        size_t length = strlen(name);
        if (length == 0 || length >= CLQ_LAYER_NAME_MAX || strchr(name, '/'))
            return clq_fail(CLQ_ARGUMENT, "model %s: a layer's name has 1 to %d characters and no '/': '%.80s'", model->name, CLQ_LAYER_NAME_MAX - 1, name);
        if (name_taken(model, name)) return clq_fail(CLQ_ARGUMENT, "model %s: two layers have the name '%s'", model->name, name);
        memcpy(out, name, length + 1);
        return CLQ_OK;
    }
    snprintf(out, CLQ_LAYER_NAME_MAX, "%s", stem);
    for (uint32_t i = 1; name_taken(model, out); i++) snprintf(out, CLQ_LAYER_NAME_MAX, "%s_%u", stem, i);
    return CLQ_OK;
}

/* ---- nodes and variables ---------------------------------------------------------------------------------------------- */

static clq_status count_elements(const clq_shape *shape, size_t *out) {
    size_t elements = 1;
    if (shape->rank > CLQ_SHAPE_MAX) return clq_fail(CLQ_ARGUMENT, "a shape has at most %d dimensions, not %u", CLQ_SHAPE_MAX, shape->rank);
    for (unsigned d = 0; d < shape->rank; d++) {
        if (shape->dims[d] == 0) return clq_fail(CLQ_ARGUMENT, "dimension %u of its output is 0", d);
        /* Kernels index an example with 32-bit integers. */
        if (!clq_mul_size(elements, shape->dims[d], &elements) || elements > INT32_MAX)
            return clq_fail(CLQ_ARGUMENT, "its output has more than %d values", INT32_MAX);
    }
    *out = elements;
    return CLQ_OK;
}

clq_tensor clq_model_add_node(clq_model *model, clq_node node, const char *stem, const char *name) {
    if (model->error.status != CLQ_OK) return (clq_tensor){0};
    clq_status status = choose_name(model, stem, name, node.name);
    if (status != CLQ_OK) return clq_model_latch(model, status, NULL);
    status = count_elements(&node.shape, &node.elements);
    if (status != CLQ_OK) return clq_model_latch(model, status, node.name);
    if (model->node_count == model->node_capacity) {
        uint32_t capacity = model->node_capacity ? model->node_capacity * 2 : 16;
        clq_node *nodes = clq_realloc(model->nodes, model->node_capacity, capacity, sizeof *nodes);
        if (!nodes) return clq_model_latch(model, CLQ_MEMORY, node.name);
        model->nodes = nodes;
        model->node_capacity = capacity;
    }
    model->nodes[model->node_count++] = node;
    return (clq_tensor){model->node_count};
}

uint32_t clq_model_add_variable(clq_model *model, const char *what, clq_shape shape, size_t fan_in, size_t fan_out) {
    if (model->error.status != CLQ_OK) return 0;
    const clq_node *node = &model->nodes[model->node_count - 1];
    clq_variable variable = {.shape = shape, .fan_in = fan_in, .fan_out = fan_out, .is_bias = shape.rank == 1, .node = model->node_count};
    snprintf(variable.name, sizeof variable.name, "%s/%s", node->name, what);
    clq_status status = count_elements(&shape, &variable.elements);
    if (status == CLQ_OK && model->variable_count == model->variable_capacity) {
        uint32_t capacity = model->variable_capacity ? model->variable_capacity * 2 : 16;
        clq_variable *variables = clq_realloc(model->variables, model->variable_capacity, capacity, sizeof *variables);
        if (variables) {
            model->variables = variables;
            model->variable_capacity = capacity;
        } else {
            status = CLQ_MEMORY;
        }
    }
    if (status != CLQ_OK) {
        clq_model_latch(model, status, node->name);
        return 0;
    }
    model->variables[model->variable_count++] = variable;
    return model->variable_count;
}

/* ---- finishing and reading ----------------------------------------------------------------------------------------------- */

static clq_status check_finish(clq_model *model, clq_tensor output) {
    if (model->error.status != CLQ_OK) return clq_error_raise(&model->error);
    if (model->finished) return clq_fail(CLQ_STATE, "model %s is finished already", model->name);
    if (output.id == 0 || output.id > model->node_count)
        return clq_fail(CLQ_ARGUMENT, "model %s: the output is not a tensor of this model", model->name);
    return CLQ_OK;
}

clq_status clq_model_finish(clq_model *model, clq_tensor output) {
    clq_status status = check_finish(model, output);
    if (status != CLQ_OK) return status;
    model->output = output.id;
    model->finished = true;
    return CLQ_OK;
}

const char *clq_model_name(const clq_model *model) { return model->name; }
clq_shape clq_model_input_shape(const clq_model *model) { return model->input ? model->nodes[model->input - 1].shape : (clq_shape){0}; }
clq_shape clq_model_output_shape(const clq_model *model) { return model->output ? model->nodes[model->output - 1].shape : (clq_shape){0}; }
size_t clq_model_variable_count(const clq_model *model) { return model->variable_count; }

clq_status clq_model_variable(const clq_model *model, size_t index, clq_variable_info *out) {
    if (index >= model->variable_count) return clq_fail(CLQ_ARGUMENT, "variable %zu: model %s has %u", index, model->name, model->variable_count);
    const clq_variable *v = &model->variables[index];
    *out = (clq_variable_info){.name = v->name, .shape = v->shape, .elements = v->elements, .fan_in = v->fan_in, .fan_out = v->fan_out, .is_bias = v->is_bias};
    return CLQ_OK;
}

size_t clq_model_parameter_count(const clq_model *model) {
    size_t count = 0;
    for (uint32_t i = 0; i < model->variable_count; i++) count += model->variables[i].elements;
    return count;
}
