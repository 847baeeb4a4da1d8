/* A model: its layers, their names, and the first failure of building. */
#include "graph/model.h"

#include <stdio.h>
#include <string.h>

clq_status clq_model_create(const char *name, clq_model **out) {
    if (!name || !*name || strlen(name) >= CLQ_LAYER_NAME_MAX)
        return clq_fail(CLQ_ARGUMENT, "a model's name has 1 to %d bytes", CLQ_LAYER_NAME_MAX - 1);
    clq_model *model = clq_alloc(1, sizeof(*model));
    if (!model) return CLQ_MEMORY;
    memcpy(model->name, name, strlen(name) + 1);
    *out = model;
    return CLQ_OK;
}

void clq_model_destroy(clq_model *model) {
    if (!model) return;
    clq_free(model->layers);
    clq_free(model->variables);
    clq_free(model);
}

clq_tensor clq_model_latch(clq_model *model, clq_status status, const char *layer) {
    clq_fail_within(status, "layer '%s'", layer);
    clq_error_take(status, &model->error);
    return (clq_tensor){0};
}

/* ---- shapes ---- */

const char *clq_shape_describe(const clq_shape *shape, char text[CLQ_SHAPE_TEXT_MAX]) {
    int used = snprintf(text, CLQ_SHAPE_TEXT_MAX, "(");
    for (unsigned d = 0; d < CLQ_MIN(shape->rank, (unsigned)CLQ_SHAPE_MAX); d++)
        used += snprintf(text + used, (size_t)(CLQ_SHAPE_TEXT_MAX - used), "%s%zu", d ? ", " : "", shape->dims[d]);
    snprintf(text + used, (size_t)(CLQ_SHAPE_TEXT_MAX - used), ")");
    return text;
}
/* Six numbers of 20 digits with what is between them. */
_Static_assert(CLQ_SHAPE_MAX * 22 + 2 < CLQ_SHAPE_TEXT_MAX, "a shape's text fits");

clq_status clq_shape_elements(const clq_shape *shape, size_t *out) {
    char text[CLQ_SHAPE_TEXT_MAX];
    size_t elements = 1;
    if (shape->rank < 1 || shape->rank > CLQ_SHAPE_MAX)
        return clq_fail(CLQ_ARGUMENT, "a shape has 1 to %d dimensions, not %u", CLQ_SHAPE_MAX, shape->rank);
    for (unsigned d = 0; d < shape->rank; d++)
        if (shape->dims[d] == 0)
            return clq_fail(CLQ_ARGUMENT, "a dimension of %s is 0; each is at least 1",
                            clq_shape_describe(shape, text));
    for (unsigned d = 0; d < shape->rank; d++)
        if (!clq_mul_size(elements, shape->dims[d], &elements) || elements > INT32_MAX)
            return clq_fail(CLQ_ARGUMENT, "%s has more than the %d values that are supported: make it smaller",
                            clq_shape_describe(shape, text), INT32_MAX);
    *out = elements;
    return CLQ_OK;
}

/* ---- names, as Keras makes them: dense, dense_1, … ---- */

static bool name_taken(const clq_model *model, const char *name) {
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (strcmp(model->layers[i].name, name) == 0) return true;
    return false;
}

static clq_status take_name(const clq_model *model, const char *name, clq_layer *layer) {
    size_t length = strlen(name);
    char clean[CLQ_LAYER_NAME_MAX];
    (void)snprintf(clean, sizeof clean, "%s", name);
    clq_clean(clean);
    if (length == 0 || length >= CLQ_LAYER_NAME_MAX || strchr(name, '/') || strcmp(clean, name) != 0)
        return clq_fail(CLQ_ARGUMENT, "its name must have 1 to %d bytes of UTF-8, no '/' and no control characters",
                        CLQ_LAYER_NAME_MAX - 1);
    if (name_taken(model, name)) return clq_fail(CLQ_ARGUMENT, "two layers have this name: give one of them another");
    memcpy(layer->name, name, length + 1);
    layer->named = true;
    return CLQ_OK;
}

/* Keras counts the layers of a class that it named; one that the caller has used meanwhile is passed over. */
static void make_name(const clq_model *model, const char *stem, clq_layer *layer) {
    uint32_t number = 0;
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (!model->layers[i].named && strcmp(model->layers[i].type, layer->type) == 0) number++;
    do {
        if (number == 0)
            snprintf(layer->name, sizeof(layer->name), "%s", stem);
        else
            snprintf(layer->name, sizeof(layer->name), "%s_%u", stem, number);
        number++;
    } while (name_taken(model, layer->name));
}

/* ---- layers ---- */

/* Whether a layer can be added; gives it its name. */
static bool begin(clq_model *model, const char *stem, const char *name, clq_layer *layer) {
    if (model->error.status != CLQ_OK) return false;
    if (model->finished) { /* others may be reading it: it is not touched */
        clq_fail(CLQ_STATE, "model %s is finished: no %s can be added", model->name, stem);
        return false;
    }
    clq_status status = CLQ_OK;
    if (name)
        status = take_name(model, name, layer);
    else
        make_name(model, stem, layer);
    if (status != CLQ_OK) clq_model_latch(model, status, name);
    return status == CLQ_OK;
}

const clq_layer *clq_model_begin(clq_model *model, clq_tensor x, const char *stem, const char *name, clq_layer *layer) {
    if (!begin(model, stem, name, layer)) return NULL;
    clq_status status = CLQ_OK;
    if (x.id == 0)
        status = clq_fail(CLQ_ARGUMENT, "its input is no tensor: give it what another layer or clq_input returned");
    else if (x.model != model || x.id > model->layer_count)
        status = clq_fail(CLQ_ARGUMENT, "its input is a tensor of another model than %s", model->name);
    if (status != CLQ_OK) {
        clq_model_latch(model, status, layer->name);
        return NULL;
    }
    layer->input = x.id;
    return &model->layers[x.id - 1];
}

clq_tensor clq_model_add_input(clq_model *model, clq_shape shape, const char *name) {
    clq_layer layer = {.kind = CLQ_LAYER_INPUT, .type = "InputLayer", .shape = shape};
    if (!begin(model, "input_layer", name, &layer)) return (clq_tensor){0};
    if (model->input)
        return clq_model_latch(
            model, clq_fail(CLQ_UNSUPPORTED, "model %s has an input already, and only one is supported", model->name),
            layer.name);
    clq_tensor x = clq_model_add_layer(model, &layer);
    model->input = x.id;
    return x;
}

clq_tensor clq_input(clq_model *model, clq_shape shape) { return clq_model_add_input(model, shape, NULL); }

clq_tensor clq_model_add_layer(clq_model *model, const clq_layer *layer) {
    size_t elements;
    clq_status status = clq_shape_elements(&layer->shape, &elements);
    if (status == CLQ_OK && model->layer_count == model->layer_capacity) {
        uint32_t capacity = model->layer_capacity ? model->layer_capacity * 2 : 16;
        clq_layer *layers = clq_realloc(model->layers, model->layer_capacity, capacity, sizeof(*layers));
        if (layers) {
            model->layers = layers;
            model->layer_capacity = capacity;
        } else {
            status = CLQ_MEMORY;
        }
    }
    if (status != CLQ_OK) return clq_model_latch(model, status, layer->name);
    model->layers[model->layer_count] = *layer;
    model->layers[model->layer_count].elements = elements;
    return (clq_tensor){.model = model, .id = ++model->layer_count};
}

/* ---- finishing and reading ---- */

/* Leaves the chain from the input to the output. What is off it would never be trained, yet be asked for in files. */
static void drop_unused(clq_model *model, uint32_t output) {
    uint32_t first = model->layer_count;
    for (uint32_t id = output; id;) { /* gathered at the array's end, where no unread layer of the chain can be */
        clq_layer layer = model->layers[id - 1];
        id = layer.input;
        model->layers[--first] = layer;
    }
    model->layer_count -= first;
    memmove(model->layers, model->layers + first, model->layer_count * sizeof(*model->layers));
    for (uint32_t i = 0; i < model->layer_count; i++) model->layers[i].input = i;
    clq_model_keep_variables(model);
    model->input = 1;
    model->output = model->layer_count;
}

clq_status clq_model_finish(clq_model *model, clq_tensor output) {
    if (model->error.status != CLQ_OK) return clq_error_raise(&model->error);
    if (model->finished) return clq_fail(CLQ_STATE, "model %s is finished already", model->name);
    if (output.id == 0)
        return clq_fail(CLQ_ARGUMENT, "model %s has no output: finish it with the last layer's tensor", model->name);
    if (output.model != model || output.id > model->layer_count)
        return clq_fail(CLQ_ARGUMENT, "model %s: the output is a tensor of another model", model->name);
    drop_unused(model, output.id);
    model->finished = true;
    return CLQ_OK;
}

const char *clq_model_name(const clq_model *model) { return model->name; }

clq_shape clq_model_input_shape(const clq_model *model) {
    return model->input ? model->layers[model->input - 1].shape : (clq_shape){0};
}

clq_shape clq_model_output_shape(const clq_model *model) {
    return model->output ? model->layers[model->output - 1].shape : (clq_shape){0};
}
