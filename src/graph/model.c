/* A model: its layers and tensors, their names, and the first failure of building. */
#include "graph/layers/layer.h"

#include <stdio.h>
#include <string.h>

clq_status clq_model_create(const char *name, clq_model **out) {
    if (!name || !*name || strlen(name) >= CLQ_LAYER_NAME_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a model's name has 1 to %d bytes", CLQ_LAYER_NAME_MAX - 1);
    clq_model *model = clq_alloc(1, sizeof(*model));
    if (!model) return CLQ_ERROR_MEMORY;
    memcpy(model->name, name, strlen(name) + 1);
    *out = model;
    return CLQ_OK;
}

static void release(clq_layer *layer) {
    clq_layer_release_config(layer->kind, layer->config);
    clq_free(layer->config);
    clq_free(layer->variables);
    clq_free(layer->path);
    clq_free(layer->block_store);
    clq_free(layer->place);
}

void clq_model_destroy(clq_model *model) {
    if (!model) return;
    for (uint32_t i = 0; i < model->layer_count; i++) release(&model->layers[i]);
    clq_free(model->layers);
    clq_free(model->names);
    clq_free(model->tensors);
    clq_free(model->inputs);
    clq_free(model->variables);
    clq_free(model->keras_config);
    clq_free(model);
}

/* Notes the model's first failure: this thread's detail, with the layer's name in front unless that is NULL. Gives no
 * tensor. */
static clq_tensor latch(clq_model *model, clq_status status, const char *layer) {
    if (layer) clq_fail_within(status, "layer '%s'", layer);
    clq_error_take(status, &model->error);
    return (clq_tensor){0};
}

/* Whether something can be added to the model. If the model is finished, only this thread's detail is set: others may
 * be reading the model, so it is not touched. */
static bool may_add(const clq_model *model, const char *what) {
    if (model->error.status != CLQ_OK) return false;
    if (model->finished) clq_fail(CLQ_ERROR_STATE, "model %s is finished: no %s can be added", model->name, what);
    return !model->finished;
}

clq_tensor clq_model_fail(clq_model *model, clq_status status, const char *layer) {
    return may_add(model, layer ? layer : "layer") ? latch(model, status, layer) : (clq_tensor){0};
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

bool clq_shape_equal(const clq_shape *a, const clq_shape *b) {
    if (a->rank != b->rank) return false;
    for (unsigned d = 0; d < a->rank; d++)
        if (a->dims[d] != b->dims[d]) return false;
    return true;
}

clq_status clq_shape_elements(const clq_shape *shape, size_t *out) {
    char text[CLQ_SHAPE_TEXT_MAX];
    size_t elements = 1;
    if (shape->rank < 1 || shape->rank > CLQ_SHAPE_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a shape has 1 to %d dimensions, not %u", CLQ_SHAPE_MAX, shape->rank);
    for (unsigned d = 0; d < shape->rank; d++)
        if (shape->dims[d] == 0)
            return clq_fail(CLQ_ERROR_ARGUMENT, "a dimension of %s is 0; each is at least 1",
                            clq_shape_describe(shape, text));
    for (unsigned d = 0; d < shape->rank; d++)
        if (!clq_mul_size(elements, shape->dims[d], &elements) || elements > INT32_MAX)
            return clq_fail(CLQ_ERROR_ARGUMENT, "%s has more than the %d values that are supported: make it smaller",
                            clq_shape_describe(shape, text), INT32_MAX);
    *out = elements;
    return CLQ_OK;
}

clq_status clq_tensor_elements(const clq_shape *shape, size_t *out) {
    if (shape->rank > 0) return clq_shape_elements(shape, out);
    *out = 1;
    return CLQ_OK;
}

/* ---- layers and tensors ---- */

/* Whether a layer can be added; gives it its name. */
static bool begin(clq_model *model, const char *name, clq_layer *layer) {
    if (!may_add(model, layer->kind->stem)) return false;
    clq_status status = clq_names_reserve(model);
    if (status == CLQ_OK) status = clq_name_layer(model, name, layer);
    if (status != CLQ_OK) latch(model, status, name);
    return status == CLQ_OK;
}

clq_status clq_reserve(void **array, size_t count, size_t more, size_t *capacity, size_t size) {
    if (more <= *capacity - count) return CLQ_OK;
    if (more > UINT32_MAX / 4 - count)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a model of so many tensors is not supported");
    const size_t larger = CLQ_MAX(CLQ_MAX(*capacity * 2, (size_t)16), count + more);
    void *grown = clq_realloc(*array, *capacity, larger, size);
    if (!grown) return CLQ_ERROR_MEMORY;
    *array = grown;
    *capacity = larger;
    return CLQ_OK;
}

static clq_status check_inputs(const clq_model *model, const clq_layer_kind *kind, const clq_tensor *inputs,
                               size_t count) {
    const size_t least = kind->inputs[0], most = kind->inputs[1];
    if (count < least || count > most)
        return most > least && most <= CLQ_SHAPE_MAX
                   ? clq_fail(CLQ_ERROR_ARGUMENT, "%s takes %zu to %zu inputs, not %zu", kind->type, least, most, count)
                   : clq_fail(CLQ_ERROR_ARGUMENT, "%s takes %zu input%s%s, not %zu", kind->type, least,
                              clq_plural(least), most > least ? " or more" : "", count);
    for (size_t i = 0; i < count; i++) {
        if (inputs[i].id == 0)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "its input is no tensor: give it what another layer or clq_input returned");
        if (inputs[i].model != model || inputs[i].id > model->tensor_count)
            return clq_fail(CLQ_ERROR_ARGUMENT, "its input is a tensor of another model than %s", model->name);
        if (model->tensors[inputs[i].id - 1].shape.rank == 0 && !kind->takes_scalars)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "its input has one value for each sample, without an axis: add one first");
    }
    return CLQ_OK;
}

/* Adds the model's next tensor: what the layer makes of the inputs. id: the layer's id, which it may get later. */
static clq_status apply(clq_model *model, clq_layer *layer, uint32_t id, const clq_tensor *inputs, size_t count) {
    clq_model_tensor y = {
        .layer = id, .first_input = model->input_total, .input_count = (uint32_t)count, .dtype = CLQ_F32};
    CLQ_TRY(check_inputs(model, layer->kind, inputs, count));
    CLQ_TRY(CLQ_RESERVE(model, layers, layer_count, 1, layer_capacity));
    CLQ_TRY(CLQ_RESERVE(model, tensors, tensor_count, 1, tensor_capacity));
    CLQ_TRY(CLQ_RESERVE(model, inputs, input_total, count, input_capacity));
    for (size_t i = 0; i < count; i++) model->inputs[model->input_total + i] = inputs[i].id;
    CLQ_TRY(layer->kind->infer(model, layer, &y));
    CLQ_TRY(clq_tensor_elements(&y.shape, &y.elements));
    y.whole = clq_layer_gives_whole(model, layer, &y);
    if (count > 0) layer->applied_to = clq_model_input_of(model, &y, 0)->shape;
    if (layer->made_for.rank == 0) layer->made_for = layer->applied_to;
    if (layer->kind->declare) CLQ_TRY(layer->kind->declare(model, layer, &y));
    model->input_total += (uint32_t)count;
    model->tensors[model->tensor_count++] = y;
    return CLQ_OK;
}

static clq_status copy_config(clq_layer *layer, const void *config) {
    if (layer->kind->config_bytes == 0) return CLQ_OK;
    layer->config = clq_alloc(1, layer->kind->config_bytes);
    if (!layer->config) return CLQ_ERROR_MEMORY;
    memcpy(layer->config, config, layer->kind->config_bytes);
    CLQ_TRY(clq_layer_own(layer->kind, layer->config));
    return clq_layer_check(layer->kind, layer->config);
}

/* ---- masks ---- */

static size_t *place_of(const clq_layer *layer, const clq_attribute *row) {
    return (size_t *)(void *)((char *)layer->config + row->at);
}

size_t clq_layer_positional(const clq_layer *layer, size_t count) {
    if (layer->kind->opposite) return CLQ_MIN(count, (size_t)1);
    for (size_t i = 0; i < layer->kind->attribute_count; i++) {
        const clq_attribute *row = &layer->kind->attributes[i];
        const size_t place = row->type == CLQ_ATTRIBUTE_TENSOR ? *place_of(layer, row) : 0;
        if (place > 0) count = CLQ_MIN(count, place - 1);
    }
    return count;
}

static uint32_t mask_of(const clq_model *model, clq_tensor x) {
    const bool known = x.model == model && x.id > 0 && x.id <= model->tensor_count;
    return known ? model->tensors[x.id - 1].mask : 0;
}

/* Writes to masks[0 …] the masks that a row takes of `count` inputs, the first of which are positional. Gives the
 * number of masks. */
static size_t find_masks(const clq_model *model, const clq_attribute *row, const clq_tensor *inputs, size_t positional,
                         size_t count, clq_tensor *masks) {
    bool any = false;
    if (positional == 0 || (row->alone && count > positional)) return 0;
    const size_t first = row->each ? 0 : CLQ_MIN((size_t)row->implicit, positional) - 1;
    const size_t found = row->each ? positional : 1;
    for (size_t i = 0; i < found; i++) {
        const uint32_t mask = mask_of(model, inputs[first + i]);
        any = any || mask;
        masks[i] = mask ? (clq_tensor){.model = model, .id = mask} : inputs[first + i];
    }
    return any ? found : 0;
}

/* Gives the inputs of a use of the layer, and behind them the masks that the layer takes. A layer takes a mask in all
 * its uses or in none. The caller frees *all. */
static clq_status add_masks(clq_model *model, clq_layer *layer, const clq_tensor *inputs, size_t *count,
                            clq_tensor **all) {
    const bool first = layer->made_for.rank == 0; /* the layer's first use */
    const size_t rows = layer->kind->attribute_count, positional = clq_layer_positional(layer, *count);
    *all = clq_alloc(*count * 2 + rows, sizeof **all); /* at most one row takes the masks of all inputs */
    if (!*all) return CLQ_ERROR_MEMORY;
    if (*count > 0) memcpy(*all, inputs, *count * sizeof **all);
    for (size_t i = 0; i < rows; i++) {
        const clq_attribute *row = &layer->kind->attributes[i];
        if (row->type != CLQ_ATTRIBUTE_TENSOR || row->implicit == 0) continue;
        size_t *place = place_of(layer, row);
        if (*place > 0 && *place <= *count && !row->each) continue;
        const size_t found = find_masks(model, row, inputs, positional, *count, *all + *count);
        if (found == 0 && *place == 0) continue;
        if (!first && !(found > 0 && *place == *count + 1))
            return clq_fail(CLQ_ERROR_UNSUPPORTED,
                            "it is shared, and some of its inputs have a mask and others have none");
        *place = *count + 1;
        *count += found;
    }
    return CLQ_OK;
}

/* Gives the tensor that apply added, with the mask that its kind makes of the inputs' masks. */
static clq_tensor finish_use(clq_model *model, uint32_t id) {
    const clq_tensor y = {.model = model, .id = model->tensor_count};
    const clq_layer_kind *kind = model->layers[id - 1].kind;
    if (!kind->mask) return y;
    const clq_tensor mask = kind->mask(model, id, y);
    if (model->error.status != CLQ_OK) return (clq_tensor){0};
    model->tensors[y.id - 1].mask = model->tensors[y.id - 1].made_mask = mask.id;
    return y;
}

clq_tensor clq_layer_keep_mask(clq_model *model, uint32_t layer, clq_tensor y) {
    (void)layer;
    const uint32_t first = model->inputs[model->tensors[y.id - 1].first_input];
    return (clq_tensor){.model = model, .id = model->tensors[first - 1].mask};
}

/* ---- adding ---- */

/* Adds a use of the layer. id: the layer's id, which it may get later. */
static clq_status use(clq_model *model, clq_layer *layer, uint32_t id, const clq_tensor *inputs, size_t count) {
    clq_tensor *all;
    clq_status status = add_masks(model, layer, inputs, &count, &all);
    if (status == CLQ_OK) status = apply(model, layer, id, all, count);
    clq_free(all);
    return status;
}

clq_tensor clq_model_add_layer(clq_model *model, const clq_layer_kind *kind, const char *name, const void *config,
                               const clq_tensor *inputs, size_t count) {
    clq_layer layer = {.kind = kind};
    if (!begin(model, name, &layer)) return (clq_tensor){0};
    clq_status status = copy_config(&layer, config);
    if (status == CLQ_OK) status = use(model, &layer, model->layer_count + 1, inputs, count);
    if (status != CLQ_OK) {
        release(&layer);
        return latch(model, status, layer.name);
    }
    model->layers[model->layer_count++] = layer;
    clq_names_note(model, model->layer_count);
    return finish_use(model, model->layer_count);
}

clq_tensor clq_model_apply_again(clq_model *model, uint32_t id, const clq_tensor *inputs, size_t count) {
    if (model->error.status != CLQ_OK) return (clq_tensor){0};
    clq_layer layer = model->layers[id - 1];
    if (model->finished) {
        clq_fail(CLQ_ERROR_STATE, "model %s is finished: '%s' cannot be applied again", model->name, layer.name);
        return (clq_tensor){0};
    }
    clq_status status = use(model, &layer, id, inputs, count);
    model->layers[id - 1] = layer;
    if (status != CLQ_OK) return latch(model, status, layer.name);
    return finish_use(model, id);
}

clq_tensor clq_share(clq_model *model, clq_tensor of, clq_tensor x) {
    if (model->error.status != CLQ_OK) return (clq_tensor){0};
    if (model->finished) { /* others may be reading it: it is not touched */
        clq_fail(CLQ_ERROR_STATE, "model %s is finished: no layer can be applied again", model->name);
        return (clq_tensor){0};
    }
    if (of.id == 0 || of.model != model || of.id > model->tensor_count)
        return latch(
            model,
            clq_fail(CLQ_ERROR_ARGUMENT,
                     "clq_share: the first tensor is none of model %s: give it one that the layer to share returned",
                     model->name),
            NULL);
    return clq_model_apply_again(model, model->tensors[of.id - 1].layer, &x, 1);
}

/* Whether a tensor may be marked. If not, the failure is noted. */
static bool may_mark(clq_model *model, clq_tensor x, const char *call) {
    if (model->error.status != CLQ_OK) return false;
    if (model->finished) {
        clq_fail(CLQ_ERROR_STATE, "model %s is finished: it cannot be marked", model->name);
        return false;
    }
    if (x.id > 0 && x.model == model && x.id <= model->tensor_count) return true;
    (void)latch(model, clq_fail(CLQ_ERROR_ARGUMENT, "%s: the tensor is none of model %s", call, model->name), NULL);
    return false;
}

clq_tensor clq_recompute(clq_model *model, clq_tensor x) {
    if (!may_mark(model, x, "clq_recompute")) return (clq_tensor){0};
    model->tensors[x.id - 1].recompute = model->recomputes = true;
    return x;
}

clq_tensor clq_freeze(clq_model *model, clq_tensor x) {
    if (!may_mark(model, x, "clq_freeze")) return (clq_tensor){0};
    clq_layer *layer = &model->layers[model->tensors[x.id - 1].layer - 1];
    layer->frozen = true;
    clq_model_freeze_variables(model, layer);
    return x;
}

clq_tensor clq_keep_mask(clq_model *model, clq_tensor x, clq_tensor of) {
    if (!may_mark(model, x, "clq_keep_mask") || !may_mark(model, of, "clq_keep_mask")) return (clq_tensor){0};
    const uint32_t mask = model->tensors[of.id - 1].mask;
    clq_model_tensor *y = &model->tensors[x.id - 1];
    bool fits = true;
    if (mask) {
        const clq_shape *steps = &model->tensors[mask - 1].shape;
        fits = steps->rank <= y->shape.rank;
        for (unsigned d = 0; fits && d < steps->rank; d++) fits = steps->dims[d] == y->shape.dims[d];
    }
    if (!fits)
        return latch(model,
                     clq_fail(CLQ_ERROR_ARGUMENT, "clq_keep_mask: it has other steps than the tensor with the mask"),
                     model->layers[y->layer - 1].name);
    y->mask = mask;
    return x;
}

clq_layer *clq_model_marked_layer(clq_model *model, clq_tensor x, const char *call) {
    return may_mark(model, x, call) ? &model->layers[model->tensors[x.id - 1].layer - 1] : NULL;
}

clq_variable *clq_model_variable_named(clq_model *model, const clq_layer *layer, const char *what) {
    for (size_t k = 0; k < layer->variable_places && what; k++) {
        clq_variable *v = layer->variables[k] ? &model->variables[layer->variables[k] - 1] : NULL;
        if (v && strcmp(v->name + strlen(layer->name) + 1, what) == 0) return v;
    }
    return NULL;
}

clq_tensor clq_pipeline_cut(clq_model *model, clq_tensor x) {
    if (!may_mark(model, x, "clq_pipeline_cut")) return (clq_tensor){0};
    uint32_t place = model->mark_count;
    while (place > 0 && model->marks[place - 1] >= x.id) place--;
    if (place < model->mark_count && model->marks[place] == x.id) return x;
    if (model->mark_count == CLQ_MARKS_MAX)
        return latch(model,
                     clq_fail(CLQ_ERROR_ARGUMENT, "clq_pipeline_cut: at most %d marks are supported", CLQ_MARKS_MAX),
                     NULL);
    memmove(&model->marks[place + 1], &model->marks[place], (model->mark_count - place) * sizeof *model->marks);
    model->marks[place] = x.id;
    model->mark_count++;
    return x;
}

/* ---- finishing and reading ---- */

/* Renumbers what stays: each kept[id] that is not 0 becomes the new id. Gives how many stay. */
static uint32_t number(uint32_t *kept, uint32_t count) {
    uint32_t next = 0;
    for (uint32_t id = 1; id <= count; id++)
        if (kept[id]) kept[id] = ++next;
    return next;
}

static void keep_tensors(clq_model *model, const uint32_t *tensors, const uint32_t *layers) {
    for (uint32_t id = 1; id <= model->tensor_count; id++) {
        if (!tensors[id]) continue;
        clq_model_tensor tensor = model->tensors[id - 1];
        tensor.layer = layers[tensor.layer];
        if (tensor.mask) tensor.mask = tensors[tensor.mask] ? tensors[tensor.mask] : CLQ_MASK_DROPPED;
        if (tensor.made_mask)
            tensor.made_mask = tensors[tensor.made_mask] ? tensors[tensor.made_mask] : CLQ_MASK_DROPPED;
        for (uint32_t i = 0; i < tensor.input_count; i++) {
            uint32_t *input = &model->inputs[tensor.first_input + i];
            *input = tensors[*input];
        }
        model->tensors[tensors[id] - 1] = tensor;
    }
    model->input = tensors[model->input];
    for (uint32_t i = 0; i < model->mark_count; i++) {
        uint32_t id = model->marks[i]; /* if it was dropped, the last tensor in front of it that stays */
        while (id > 1 && !tensors[id]) id--;
        model->marks[i] = tensors[id];
    }
    for (uint32_t i = 0; i < model->output_count; i++) model->outputs[i] = tensors[model->outputs[i]];
}

/* Drops tensors and layers that no output is computed from. They would never be trained, but files would need them. */
static clq_status drop_unused(clq_model *model) {
    uint32_t *tensors = clq_alloc((size_t)model->tensor_count + 1, sizeof *tensors);
    uint32_t *layers = clq_alloc((size_t)model->layer_count + 1, sizeof *layers);
    clq_status status = tensors && layers ? CLQ_OK : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) {
        for (uint32_t i = 0; i < model->output_count; i++) {
            const uint32_t mask = model->tensors[model->outputs[i] - 1].mask;
            tensors[model->outputs[i]] = 1;
            if (mask) tensors[mask] = 1;
        }
        for (uint32_t id = model->tensor_count; id >= 1; id--) {
            const clq_model_tensor *tensor = &model->tensors[id - 1];
            if (!tensors[id]) continue;
            layers[tensor->layer] = 1;
            for (uint32_t i = 0; i < tensor->input_count; i++) tensors[model->inputs[tensor->first_input + i]] = 1;
        }
        const uint32_t tensor_count = number(tensors, model->tensor_count);
        const uint32_t layer_count = number(layers, model->layer_count);
        keep_tensors(model, tensors, layers);
        for (uint32_t id = 1; id <= model->layer_count; id++)
            if (layers[id])
                model->layers[layers[id] - 1] = model->layers[id - 1];
            else
                release(&model->layers[id - 1]);
        model->tensor_count = tensor_count;
        model->layer_count = layer_count;
        clq_names_note_all(model);
        clq_model_keep_variables(model, layers);
    }
    clq_free(tensors);
    clq_free(layers);
    return status;
}

/* A loss leaves out the steps that do not count. So a step must have one row of values, or the rows of one axis. */
static clq_status check_mask(const clq_model *model, const clq_model_tensor *y) {
    char shape[CLQ_SHAPE_TEXT_MAX], steps[CLQ_SHAPE_TEXT_MAX];
    const clq_shape *mask = y->mask ? &model->tensors[y->mask - 1].shape : NULL;
    if (!mask) return CLQ_OK;
    bool fits = mask->rank + 1 == y->shape.rank || mask->rank + 2 == y->shape.rank;
    for (unsigned d = 0; fits && d < mask->rank; d++) fits = mask->dims[d] == y->shape.dims[d];
    if (fits) return CLQ_OK;
    return clq_fail(
        CLQ_ERROR_UNSUPPORTED,
        "model %s: output '%s' %s has a mask %s, and a loss takes masks of the first axes, all but the last "
        "one or two: a keras.ops.multiply by 1 behind it ends the mask, in Keras, too, and then all steps count",
        model->name, clq_model_tensor_name(model, y), clq_shape_describe(&y->shape, shape),
        clq_shape_describe(mask, steps));
}

static clq_status check_outputs(const clq_model *model, const clq_tensor *outputs, size_t count) {
    if (count < 1 || count > CLQ_MODEL_OUTPUTS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "model %s: 1 to %d outputs are supported, not %zu", model->name,
                        CLQ_MODEL_OUTPUTS_MAX, count);
    for (size_t i = 0; i < count; i++) {
        if (outputs[i].id == 0)
            return clq_fail(CLQ_ERROR_ARGUMENT, "model %s has no output: finish it with the last layer's tensor",
                            model->name);
        if (outputs[i].model != model || outputs[i].id > model->tensor_count)
            return clq_fail(CLQ_ERROR_ARGUMENT, "model %s: the output is a tensor of another model", model->name);
        for (size_t k = 0; k < i; k++)
            if (outputs[k].id == outputs[i].id)
                return clq_fail(CLQ_ERROR_ARGUMENT, "model %s: outputs %zu and %zu are the same tensor, of layer '%s'",
                                model->name, k, i, clq_model_tensor_name(model, &model->tensors[outputs[i].id - 1]));
        CLQ_TRY(check_mask(model, &model->tensors[outputs[i].id - 1]));
    }
    return CLQ_OK;
}

clq_status clq_model_finish_outputs(clq_model *model, const clq_tensor *outputs, size_t count) {
    if (model->error.status != CLQ_OK) return clq_error_raise(&model->error);
    if (model->finished) return clq_fail(CLQ_ERROR_STATE, "model %s is finished already", model->name);
    CLQ_TRY(check_outputs(model, outputs, count));
    for (size_t i = 0; i < count; i++) {
        clq_shape *shape = &model->tensors[outputs[i].id - 1].shape;
        model->outputs[i] = outputs[i].id;
        if (shape->rank == 0) *shape = CLQ_SHAPE(1); /* a number for each sample */
    }
    model->output_count = (uint32_t)count;
    clq_status status = drop_unused(model);
    model->finished = status == CLQ_OK;
    if (!model->finished) model->output_count = 0;
    return status;
}

clq_status clq_model_finish(clq_model *model, clq_tensor output) { return clq_model_finish_outputs(model, &output, 1); }

const char *clq_model_name(const clq_model *model) { return model->name; }

clq_shape clq_model_input_shape(const clq_model *model) {
    return model->input ? model->tensors[model->input - 1].shape : (clq_shape){0};
}

size_t clq_model_output_count(const clq_model *model) { return model->output_count; }

clq_shape clq_model_output_shape(const clq_model *model, size_t index) {
    return index < model->output_count ? clq_model_output(model, index)->shape : (clq_shape){0};
}

const char *clq_model_output_name(const clq_model *model, size_t index) {
    return index < model->output_count ? clq_model_tensor_name(model, clq_model_output(model, index)) : NULL;
}

const clq_model_tensor *clq_model_input_of(const clq_model *model, const clq_model_tensor *tensor, size_t i) {
    return &model->tensors[model->inputs[tensor->first_input + i] - 1];
}
const clq_model_tensor *clq_model_input(const clq_model *model) { return &model->tensors[model->input - 1]; }
const clq_model_tensor *clq_model_output(const clq_model *model, size_t index) {
    return &model->tensors[model->outputs[index] - 1];
}
const char *clq_model_tensor_name(const clq_model *model, const clq_model_tensor *tensor) {
    return model->layers[tensor->layer - 1].name;
}
