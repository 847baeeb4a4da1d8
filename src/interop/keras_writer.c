/* Writes a model as Keras's JSON, a Functional model. The rows of a layer's kind write the layer, as they read it.
 *
 * Blocks and inner models became layers of the model when they were read, and are written as such layers. Masks are
 * left to Keras, which passes them on by the rules of the kinds' `mask`. If Keras would pass another mask than the
 * model has, for example after a block with a rule of its own, the layers that read the mask get it by keyword. */
#include "interop/keras_masks.h"
#include "interop/keras_order.h"
#include "interop/keras_reading.h"

#include <stdio.h>
#include <string.h>

#define OTHER_MASK (UINT32_MAX - 1) /* a mask that the model has no tensor for */

typedef struct writing {
    const clq_model *model;
    /* By tensor. */
    uint32_t *place, *node, *output; /* its layer in the file, from 0 on; the call of that layer; that call's output */
    uint32_t *mask;                  /* id of the mask that Keras gives it; 0: none */
    size_t *turns, *mask_ends;       /* the turns in which Keras computes it, and ends its mask (keras_masks.c), */
    size_t *untrained_ends;          /* and ends its mask in evaluation */
    bool *needed;                    /* it is in the file */
    uint32_t *last, *previous; /* ids. last: the last of several outputs of a layer that reads it; previous: of such an
                                  output, the one before it that reads the same tensor. 0: none */
    /* By layer. */
    clq_keras_sameness *sameness;
    bool *names_masks;   /* its calls name their masks */
    uint32_t *in_layers; /* its place in the file + 1; 0: it is not in it */
    json_t *layers;      /* NULL: memory is out */
    clq_status status;
} writing;

static const clq_model_tensor *tensor_of(const writing *w, uint32_t id) { return &w->model->tensors[id - 1]; }
static const clq_layer *layer_of(const writing *w, uint32_t id) {
    return &w->model->layers[tensor_of(w, id)->layer - 1];
}
static uint32_t input_of(const writing *w, uint32_t id, size_t i) {
    return w->model->inputs[tensor_of(w, id)->first_input + i];
}
static const void *member_of(const clq_layer *layer, const clq_attribute *row) {
    return (const char *)layer->config + row->at;
}
static size_t place_of(const clq_layer *layer, const clq_attribute *row) {
    return row->type == CLQ_ATTRIBUTE_TENSOR ? *(const size_t *)member_of(layer, row) : 0;
}
static bool is_input(const clq_layer *layer) { return strcmp(layer->kind->type, "InputLayer") == 0; }
/* Whether a layer is one output of another layer that gives the values of all its outputs in one tensor. */
static bool is_output(const clq_layer *layer) { return strcmp(layer->kind->type, "Output") == 0; }
static bool is_function(const clq_layer_kind *kind) {
    return kind->module && strncmp(kind->module, "keras.src.ops.", 14) == 0;
}

/* ---- masks ---- */

/* The call that gives the tensor. For one of several outputs, this is the call of the layer that gives all. */
static size_t call_of(const writing *w, uint32_t id) {
    return (is_output(layer_of(w, id)) ? input_of(w, id, 0) : id) - 1;
}

static clq_status find_turns(writing *w) {
    const clq_model *model = w->model;
    size_t *layers = clq_alloc(model->tensor_count, sizeof *layers),
           *ends = clq_alloc(model->tensor_count, sizeof *ends),
           *inputs = clq_alloc(CLQ_MAX(model->input_total, 1u), sizeof *inputs), last[CLQ_MODEL_OUTPUTS_MAX], count = 0;
    clq_status status = layers && ends && inputs ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (uint32_t id = 1; id <= model->tensor_count && status == CLQ_OK; id++) {
        layers[id - 1] = tensor_of(w, id)->layer - 1;
        for (uint32_t i = 0; i < tensor_of(w, id)->input_count; i++) inputs[count++] = call_of(w, input_of(w, id, i));
        ends[id - 1] = count;
    }
    for (uint32_t i = 0; i < model->output_count; i++) last[i] = call_of(w, model->outputs[i]);
    const clq_keras_calls calls = {.layer_count = model->layer_count,
                                   .call_count = model->tensor_count,
                                   .layer_of = layers,
                                   .inputs = inputs,
                                   .input_end = ends,
                                   .outputs = last,
                                   .output_count = model->output_count};
    if (status == CLQ_OK) status = clq_keras_find_turns(&calls, w->turns);
    clq_free(layers);
    clq_free(ends);
    clq_free(inputs);
    return status;
}

/* Whether Keras's layer gives the very tensor that it gets. */
static clq_keras_sameness find_sameness(writing *w, const clq_layer *layer) {
    if (!clq_keras_may_be_same(layer->kind->type)) return CLQ_KERAS_OTHER;
    json_t *config = json_object();
    for (size_t i = 0; i < layer->kind->attribute_count; i++) {
        const clq_attribute *row = &layer->kind->attributes[i];
        const clq_keras_writing to = {.row = row, .x = NULL};
        const bool plain = row->type == CLQ_ATTRIBUTE_NUMBER || row->type == CLQ_ATTRIBUTE_TEXT ||
                           row->type == CLQ_ATTRIBUTE_ACTIVATION;
        if (plain)
            (void)json_object_set_new(config, row->key, clq_keras_types[row->type].write(&to, member_of(layer, row)));
    }
    if (!config && w->status == CLQ_OK) w->status = clq_fail_memory("writing a model as JSON");
    const clq_keras_sameness same = clq_keras_find_sameness(layer->kind->type, config);
    json_decref(config);
    return same;
}

/* ends: by tensor, the first turn that ends its mask, or the mask of what Keras has as the same tensor, by `least`. */
static clq_status note_ends_of(writing *w, clq_keras_sameness least, size_t *ends) {
    const uint32_t count = w->model->tensor_count;
    uint32_t *same = clq_alloc(count, sizeof *same);
    if (!same) return CLQ_ERROR_MEMORY;
    for (uint32_t id = 1; id <= count; id++) {
        same[id - 1] = w->sameness[tensor_of(w, id)->layer - 1] >= least ? same[input_of(w, id, 0) - 1] : id;
        ends[id - 1] = SIZE_MAX;
    }
    for (uint32_t id = 1; id <= count; id++) {
        const clq_layer *layer = layer_of(w, id);
        const size_t positional =
            layer->kind->ends_masks ? clq_layer_positional(layer, tensor_of(w, id)->input_count) : 0;
        for (size_t i = 0; i < positional; i++) {
            size_t *end = &ends[same[input_of(w, id, i) - 1] - 1];
            *end = CLQ_MIN(*end, w->turns[id - 1]);
        }
    }
    for (uint32_t id = 1; id <= count; id++) ends[id - 1] = ends[same[id - 1] - 1];
    clq_free(same);
    return w->status;
}

static clq_status note_ends(writing *w) {
    CLQ_TRY(find_turns(w));
    for (uint32_t i = 0; i < w->model->layer_count && w->status == CLQ_OK; i++)
        w->sameness[i] = find_sameness(w, &w->model->layers[i]);
    CLQ_TRY(w->status);
    CLQ_TRY(note_ends_of(w, CLQ_KERAS_SAME, w->mask_ends));
    return note_ends_of(w, CLQ_KERAS_SAME_UNTRAINED, w->untrained_ends);
}

/* The mask that tensor x has in Keras before a turn. where: who looks at the mask, for messages. */
static uint32_t mask_at(writing *w, uint32_t x, size_t turn, const char *where) {
    if (w->mask_ends[x - 1] < turn || !w->mask[x - 1]) return 0;
    if (w->untrained_ends[x - 1] < turn && w->status == CLQ_OK)
        w->status = clq_fail(CLQ_ERROR_UNSUPPORTED,
                             "'%s': in evaluation Keras would take off the mask of '%s' in front of it, as a "
                             "MultiHeadAttention reads the same tensor through a Dropout",
                             where, layer_of(w, x)->name);
    return w->mask[x - 1];
}
/* The mask that tensor x has when Keras computes tensor id from it. */
static uint32_t mask_of(writing *w, uint32_t x, uint32_t id) {
    return mask_at(w, x, w->turns[call_of(w, id)], layer_of(w, id)->name);
}

/* Whether calls of the kind can be given their masks by keyword. */
static bool takes_masks(const clq_layer_kind *kind) {
    for (size_t i = 0; i < kind->attribute_count; i++)
        if (kind->attributes[i].implicit && !kind->attributes[i].unnamed) return true;
    return false;
}

/* The mask that Keras gives the tensor. What it gives the tensor's inputs must be known (w->mask). */
static uint32_t find_mask(writing *w, uint32_t id) {
    const clq_model_tensor *y = tensor_of(w, id);
    const clq_layer_kind *kind = layer_of(w, id)->kind;
    if (!kind->mask) return 0;
    const bool keeps = kind->mask == clq_layer_keep_mask, joins = kind->mask == clq_layer_join_masks;
    const uint32_t count = keeps ? 1 : (uint32_t)clq_layer_positional(layer_of(w, id), y->input_count);
    bool other = false;
    if (!keeps && takes_masks(kind)) return y->made_mask; /* made of the mask that the call gets */
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t x = input_of(w, id, i), mask = mask_of(w, x, id);
        if (mask == 0 && (keeps || joins)) return 0;
        other = other || mask != tensor_of(w, x)->mask;
    }
    return other ? OTHER_MASK : y->made_mask;
}

/* The mask that Keras gives a call as mask i of a row if the call does not name it. */
static uint32_t implied(writing *w, uint32_t id, const clq_attribute *row, size_t i) {
    const clq_layer *layer = layer_of(w, id);
    const size_t count = tensor_of(w, id)->input_count, positional = clq_layer_positional(layer, count);
    if (row->alone && count > positional + (place_of(layer, row) > 0)) return 0;
    return mask_of(w, input_of(w, id, row->each ? i : CLQ_MIN((size_t)row->implicit, positional) - 1), id);
}
/* The mask that the model gives the call as mask i of the row; 0: none. */
static uint32_t wanted_mask(const writing *w, uint32_t id, const clq_attribute *row, size_t i) {
    const size_t place = place_of(layer_of(w, id), row);
    const uint32_t given = place ? input_of(w, id, place - 1 + i) : 0;
    return row->each && given == input_of(w, id, i) ? 0 : given;
}

static void refuse_other_mask(writing *w, const clq_layer *layer) {
    if (w->status == CLQ_OK)
        w->status = clq_fail(CLQ_ERROR_UNSUPPORTED, "layer '%s': Keras would give its call another mask", layer->name);
}

static void note_masks(writing *w, uint32_t id) {
    const clq_layer *layer = layer_of(w, id);
    bool unread = layer->kind->takes_mask;            /* Keras's layer takes a mask, and no row has it */
    if (w->turns[call_of(w, id)] == SIZE_MAX) return; /* it is not in the file */
    w->mask[id - 1] = find_mask(w, id);
    for (size_t i = 0; i < layer->kind->attribute_count; i++) {
        const clq_attribute *row = &layer->kind->attributes[i];
        if (row->type != CLQ_ATTRIBUTE_TENSOR || !row->implicit) continue;
        unread = false;
        const size_t count = row->each ? clq_layer_positional(layer, tensor_of(w, id)->input_count) : 1;
        for (size_t k = 0; k < count; k++) {
            const uint32_t given = implied(w, id, row, k), wanted = wanted_mask(w, id, row, k);
            if (given == wanted) continue;
            if (!wanted || row->unnamed) refuse_other_mask(w, layer);
            w->names_masks[tensor_of(w, id)->layer - 1] = true;
        }
    }
    if (unread && mask_of(w, input_of(w, id, 0), id)) refuse_other_mask(w, layer);
}

/* Checks that Keras's loss would leave out the same steps as the model's: those that the outputs' masks leave out. */
static void check_outputs(writing *w) {
    for (uint32_t i = 0; i < w->model->output_count && w->status == CLQ_OK; i++) {
        const uint32_t id = w->model->outputs[i], mask = mask_at(w, id, SIZE_MAX, clq_model_output_name(w->model, i));
        if (mask != tensor_of(w, id)->mask && w->status == CLQ_OK)
            w->status = clq_fail(CLQ_ERROR_UNSUPPORTED,
                                 "output '%s': Keras's loss would leave out other steps than this model's",
                                 clq_model_output_name(w->model, i));
    }
}

/* Whether input `i` of the layer's calls is a mask that the file leaves out, as Keras gives it by itself. */
static bool is_left_out(const writing *w, const clq_layer *layer, size_t i) {
    for (size_t k = 0; k < layer->kind->attribute_count; k++) {
        const clq_attribute *row = &layer->kind->attributes[k];
        const size_t place = place_of(layer, row);
        if (row->implicit && place > 0 && (row->each ? i + 1 >= place : i + 1 == place))
            return row->unnamed || !w->names_masks[layer - w->model->layers];
    }
    return false;
}

static void note_needed(writing *w) {
    const clq_model *model = w->model;
    for (uint32_t i = 0; i < model->output_count; i++) w->needed[model->outputs[i] - 1] = true;
    for (uint32_t id = model->tensor_count; id >= 1; id--)
        for (uint32_t i = 0; i < tensor_of(w, id)->input_count && w->needed[id - 1]; i++)
            if (!is_left_out(w, layer_of(w, id), i)) w->needed[input_of(w, id, i) - 1] = true;
}

/* ---- calls ---- */

static const char *name_of(const writing *w, uint32_t id) {
    const char *name = json_string_value(json_object_get(json_array_get(w->layers, w->place[id - 1]), "name"));
    return name ? name : ""; /* memory is out */
}
static json_t *refer(const writing *w, uint32_t id) {
    return clq_keras_refer(name_of(w, id), w->node[id - 1], w->output[id - 1], &tensor_of(w, id)->shape);
}

/* Inputs [from, to) of a call, as a list. */
static json_t *refer_all(const writing *w, uint32_t id, size_t from, size_t to) {
    json_t *list = json_array();
    for (size_t i = from; i < to; i++) list = clq_json_append(list, refer(w, input_of(w, id, i)));
    return list;
}

/* Writes what the call is passed by place: tensors, and numbers in place of a tensor or after the tensors. */
static json_t *write_arguments(const writing *w, uint32_t id) {
    const clq_layer *layer = layer_of(w, id);
    json_t *list = refer_all(w, id, 0, clq_layer_positional(layer, tensor_of(w, id)->input_count));
    if (layer->kind->takes_list) list = clq_json_append(json_array(), list);
    for (size_t i = 0; i < layer->kind->attribute_count; i++) {
        const clq_attribute *row = &layer->kind->attributes[i];
        if (clq_keras_types[row->type].home != CLQ_KERAS_IN_ARGUMENTS) continue;
        json_t *value = clq_keras_types[row->type].write(&(clq_keras_writing){row, NULL}, member_of(layer, row));
        const bool placed = row->type == CLQ_ATTRIBUTE_OPERAND || row->type == CLQ_ATTRIBUTE_ARGUMENT;
        if (json_is_null(value)) continue;
        if (!placed) {
            list = clq_json_append(list, value);
        } else if (json_array_insert_new(list, ((const clq_operand *)member_of(layer, row))->place - 1, value) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* Writes the tensors of a keyword. They end where those of the next keyword begin. */
static json_t *write_tensors(const writing *w, uint32_t id, const clq_attribute *row) {
    const clq_layer *layer = layer_of(w, id);
    const size_t first = place_of(layer, row) - 1;
    size_t end = tensor_of(w, id)->input_count;
    for (size_t i = 0; i < layer->kind->attribute_count; i++) {
        const size_t other = place_of(layer, &layer->kind->attributes[i]);
        if (other > first + 1) end = CLQ_MIN(end, other - 1);
    }
    return end == first + 1 ? refer(w, input_of(w, id, first)) : refer_all(w, id, first, end);
}

/* Writes what the call is passed by keyword. A null mask, which Keras writes, too, makes Keras look at the tensor's
 * mask when the call runs. Without it, Keras takes the mask that the tensor had when the file was read, which no call
 * ends. */
static json_t *write_keywords(const writing *w, uint32_t id) {
    const clq_layer *layer = layer_of(w, id);
    json_t *keywords = json_object();
    if (layer->kind->opposite && tensor_of(w, id)->input_count == 2)
        keywords = clq_json_put(keywords, layer->kind->opposite, json_true());
    for (size_t i = 0; i < layer->kind->attribute_count; i++) {
        const clq_attribute *row = &layer->kind->attributes[i];
        const size_t place = place_of(layer, row);
        json_t *value = json_null();
        if (place > 0 && !is_left_out(w, layer, place - 1)) value = write_tensors(w, id, row);
        if (clq_keras_types[row->type].home == CLQ_KERAS_IN_KEYWORDS)
            value = clq_keras_types[row->type].write(&(clq_keras_writing){row, NULL}, member_of(layer, row));
        if (!json_is_null(value)) keywords = clq_json_put(keywords, row->key, value);
    }
    if (layer->kind->takes_mask && !json_object_get(keywords, "mask"))
        keywords = clq_json_put(keywords, "mask", json_null());
    return keywords;
}

/* ---- layers ---- */

/* The output number of a layer, for kinds that have each output as a layer of its own. */
static size_t number_of(const clq_layer *layer) {
    return *(const size_t *)(const void *)((const char *)layer->config + layer->kind->output_member - 1);
}

static json_t *write_config(const writing *w, const clq_layer *layer, const char *name, clq_status *status) {
    *status = CLQ_OK;
    json_t *config = json_pack("{s:s}", "name", name);
    /* Only layers with variables get `trainable`: Keras's Discretization refuses it. */
    if (!is_function(layer->kind) && layer->kind->declare)
        config = clq_json_put(config, "trainable", json_boolean(!layer->frozen));
    for (size_t i = 0; i < layer->kind->attribute_count; i++) {
        const clq_attribute *row = &layer->kind->attributes[i];
        const clq_keras_type *type = &clq_keras_types[row->type];
        if (!type->write || type->home != CLQ_KERAS_IN_CONFIG) continue;
        if (layer->kind->output_member == row->at + 1) continue; /* the output number */
        json_t *value = type->write(&(clq_keras_writing){row, &layer->made_for}, member_of(layer, row));
        const bool none = json_is_false(value) || (json_is_number(value) && json_number_value(value) == row->fallback);
        if (json_is_null(value) || ((row->own || row->newer) && none)) {
            json_decref(value);
            continue;
        }
        if (row->own)
            *status = clq_fail(CLQ_ERROR_UNSUPPORTED, "layer '%s': Keras's %s has no %s", layer->name,
                               layer->kind->type, row->key);
        config = clq_json_put(config, row->key, value);
    }
    if (*status == CLQ_OK) *status = clq_keras_write_properties(w->model, layer, &config);
    return config;
}

/* Adds a layer that has no nodes yet. */
static void add_layer(writing *w, uint32_t id, const char *name) {
    const clq_layer *layer = layer_of(w, id);
    const clq_layer_kind *kind = layer->kind;
    clq_status status;
    if (kind->module && strcmp(kind->module, "clique") == 0) {
        w->status = clq_fail(CLQ_ERROR_UNSUPPORTED, "layer '%s': Keras has no layer that does what it does, a %s",
                             layer->name, kind->type);
        return;
    }
    json_t *all = clq_keras_write_layer(kind->module ? kind->module : "keras.layers", kind->type, name,
                                        write_config(w, layer, name, &status), json_array());
    all = clq_json_put(all, "registered_name", kind->module ? json_string(kind->type) : json_null());
    if (layer->variable_places > 0 && clq_layer_positional(layer, tensor_of(w, id)->input_count) == 1)
        all =
            clq_json_put(all, "build_config",
                         json_pack("{s:o}", "input_shape",
                                   clq_keras_write_dims(clq_json_append(json_array(), json_null()), &layer->made_for)));
    w->layers = clq_json_append(w->layers, all);
    w->in_layers[tensor_of(w, id)->layer - 1] = (uint32_t)json_array_size(w->layers);
    if (status != CLQ_OK) w->status = status;
}

/* ---- tensors ---- */

/* Whether two tensors are outputs of one call of a layer that gives several. */
static bool is_same_call(const writing *w, uint32_t a, uint32_t b) {
    const clq_layer *first = layer_of(w, a), *second = layer_of(w, b);
    const size_t at = first->kind->output_member - 1, behind = at + sizeof(size_t);
    if (first->kind != second->kind || tensor_of(w, a)->input_count != tensor_of(w, b)->input_count) return false;
    for (uint32_t i = 0; i < tensor_of(w, a)->input_count; i++)
        if (input_of(w, a, i) != input_of(w, b, i)) return false;
    return memcmp(first->config, second->config, at) == 0 &&
           memcmp((const char *)first->config + behind, (const char *)second->config + behind,
                  first->kind->config_bytes - behind) == 0;
}

/* Whether another output of the tensor's call is in the file already. The tensor then shares its layer and node. */
static bool joins_call(writing *w, uint32_t id) {
    uint32_t *last = &w->last[input_of(w, id, 0) - 1], other = *last;
    w->output[id - 1] = (uint32_t)number_of(layer_of(w, id));
    while (other && !is_same_call(w, id, other)) other = w->previous[other - 1];
    w->previous[id - 1] = *last;
    *last = id;
    if (!other) return false;
    w->place[id - 1] = w->place[other - 1];
    w->node[id - 1] = w->node[other - 1];
    return true;
}

/* This layer computes a mask that another layer makes. When the file is read back, the other layer makes its mask
 * again, as "embedding.mask". So this layer is written under another name, "embedding_mask". */
static void name_mask(const writing *w, const clq_layer *layer, char name[CLQ_LAYER_NAME_MAX]) {
    char *point = strrchr(name, '.');
    if (point) *point = '_';
    if (clq_model_has_layer(w->model, name)) memcpy(name, layer->name, strlen(name) + 1);
}

/* The layer's name in the file: "split" if the reader named this one of its several outputs "split.0.1". */
static void name_call(const writing *w, uint32_t id, char name[CLQ_LAYER_NAME_MAX]) {
    const clq_layer *layer = layer_of(w, id);
    char end[32];
    (void)snprintf(name, CLQ_LAYER_NAME_MAX, "%s", layer->name);
    if (layer->of_mask) name_mask(w, layer, name);
    if (!layer->kind->output_member || number_of(layer) == 0) return;
    (void)snprintf(end, sizeof end, ".0.%zu", number_of(layer));
    const size_t length = strlen(name), tail = strlen(end);
    if (length <= tail || strcmp(name + length - tail, end) != 0) return;
    name[length - tail] = '\0';
    if (clq_model_has_layer(w->model, name)) memcpy(name, layer->name, length + 1);
}

static void add_call(writing *w, uint32_t id) {
    const uint32_t *in_layers = &w->in_layers[tensor_of(w, id)->layer - 1];
    char name[CLQ_LAYER_NAME_MAX];
    name_call(w, id, name);
    if (*in_layers == 0) add_layer(w, id, name);
    if (w->status != CLQ_OK || !w->layers) return;
    json_t *nodes = json_object_get(json_array_get(w->layers, *in_layers - 1), "inbound_nodes");
    w->place[id - 1] = *in_layers - 1;
    w->node[id - 1] = (uint32_t)json_array_size(nodes);
    if (json_array_append_new(
            nodes, json_pack("{s:o, s:o}", "args", write_arguments(w, id), "kwargs", write_keywords(w, id))) != 0)
        w->status = clq_fail_memory("writing a model as JSON");
}

/* ---- inputs and outputs ---- */

/* Whether all layers that read the input take it as row numbers, that is, as tokens. */
static bool is_of_tokens(const writing *w, uint32_t input) {
    bool read = false;
    for (uint32_t id = 1; id <= w->model->tensor_count; id++)
        for (uint32_t i = 0; i < tensor_of(w, id)->input_count && w->needed[id - 1]; i++) {
            if (input_of(w, id, i) != input) continue;
            const bool opposite = layer_of(w, id)->kind->opposite && tensor_of(w, id)->input_count == 2;
            if (clq_layer_rows(layer_of(w, id)) == 0 || opposite) return false;
            read = true;
        }
    return read;
}

static json_t *add_input(writing *w, const char *name, const clq_shape *shape, bool of_tokens) {
    json_t *sizes = clq_keras_write_dims(clq_json_append(json_array(), json_null()), shape);
    json_t *config = json_pack("{s:s, s:o, s:s, s:b, s:b}", "name", name, "batch_shape", sizes, "dtype",
                               of_tokens ? "int32" : "float32", "sparse", 0, "ragged", 0);
    json_t *layer = clq_keras_write_layer("keras.layers", "InputLayer", name, config, json_array());
    w->layers = clq_json_append(w->layers, clq_json_put(layer, "registered_name", json_null()));
    return json_pack("[s, i, i]", name, 0, 0);
}

/* Numbers of a sample that no layer reads become an input, too. */
static json_t *add_gap(writing *w, json_t *inputs, size_t count) {
    char name[CLQ_LAYER_NAME_MAX] = "unused";
    if (count == 0) return inputs;
    for (unsigned i = 1; clq_model_has_layer(w->model, name) || i <= json_array_size(inputs); i++)
        (void)snprintf(name, sizeof name, "unused_%u", i);
    return clq_json_append(inputs, add_input(w, name, &CLQ_SHAPE(count), false));
}

static json_t *add_inputs(writing *w) {
    const clq_model *model = w->model;
    json_t *inputs = json_array();
    size_t covered = 0;
    bool parts = false;
    for (uint32_t id = 1; id <= model->tensor_count; id++) {
        const clq_layer *layer = layer_of(w, id);
        if (!is_input(layer) || tensor_of(w, id)->input_count == 0) continue;
        const size_t first = (size_t) * (const double *)member_of(layer, &layer->kind->attributes[0]);
        inputs = add_gap(w, inputs, first - covered);
        covered = first + tensor_of(w, id)->elements;
        w->place[id - 1] = (uint32_t)json_array_size(w->layers);
        inputs = clq_json_append(inputs, add_input(w, layer->name, &tensor_of(w, id)->shape, is_of_tokens(w, id)));
        parts = true;
    }
    if (parts) return add_gap(w, inputs, tensor_of(w, model->input)->elements - covered);
    w->place[model->input - 1] = 0;
    return clq_json_append(inputs, add_input(w, layer_of(w, model->input)->name, &tensor_of(w, model->input)->shape,
                                             is_of_tokens(w, model->input)));
}

/* A single entry stands without a list around it. */
static json_t *unwrap(json_t *list) {
    if (json_array_size(list) != 1) return list;
    json_t *only = json_incref(json_array_get(list, 0));
    json_decref(list);
    return only;
}

/* ---- the model ---- */

static json_t *write_model(writing *w) {
    const clq_model *model = w->model;
    json_t *inputs = add_inputs(w), *outputs = json_array();
    for (uint32_t id = 1; id <= model->tensor_count && w->status == CLQ_OK; id++) {
        const clq_layer *layer = layer_of(w, id);
        if (!w->needed[id - 1] || is_input(layer)) continue;
        if (is_output(layer)) {
            const uint32_t all = input_of(w, id, 0);
            w->place[id - 1] = w->place[all - 1];
            w->node[id - 1] = w->node[all - 1];
            w->output[id - 1] = (uint32_t) * (const size_t *)member_of(layer, &layer->kind->attributes[0]);
        } else if (!layer->kind->output_member || !joins_call(w, id)) {
            add_call(w, id);
        }
    }
    for (uint32_t i = 0; i < model->output_count; i++) {
        const uint32_t id = model->outputs[i];
        outputs = clq_json_append(outputs, json_pack("[s, I, I]", name_of(w, id), (json_int_t)w->node[id - 1],
                                                     (json_int_t)w->output[id - 1]));
    }
    json_t *layers = NULL;
    if (w->status == CLQ_OK && w->layers && outputs) w->status = clq_keras_arrange(w->layers, outputs, &layers);
    return json_pack("{s:s, s:s, s:{s:s, s:b, s:o, s:o, s:o}, s:s, s:{s:n}}", "module", "keras.src.models.functional",
                     "class_name", "Functional", "config", "name", model->name, "trainable", 1, "layers", layers,
                     "input_layers", unwrap(inputs), "output_layers", unwrap(outputs), "registered_name", "Functional",
                     "build_config", "input_shape");
}

static clq_status open_writing(writing *w) {
    const size_t tensors = w->model->tensor_count, layers = w->model->layer_count;
    w->place = clq_alloc(tensors, sizeof *w->place);
    w->node = clq_alloc(tensors, sizeof *w->node);
    w->output = clq_alloc(tensors, sizeof *w->output);
    w->mask = clq_alloc(tensors, sizeof *w->mask);
    w->turns = clq_alloc(tensors, sizeof *w->turns);
    w->mask_ends = clq_alloc(tensors, sizeof *w->mask_ends);
    w->untrained_ends = clq_alloc(tensors, sizeof *w->untrained_ends);
    w->needed = clq_alloc(tensors, sizeof *w->needed);
    w->last = clq_alloc(tensors, sizeof *w->last);
    w->previous = clq_alloc(tensors, sizeof *w->previous);
    w->sameness = clq_alloc(layers, sizeof *w->sameness);
    w->names_masks = clq_alloc(layers, sizeof *w->names_masks);
    w->in_layers = clq_alloc(layers, sizeof *w->in_layers);
    w->layers = json_array();
    const bool all = w->place && w->node && w->output && w->mask && w->turns && w->mask_ends && w->untrained_ends &&
                     w->needed && w->last && w->previous && w->sameness && w->names_masks && w->in_layers && w->layers;
    return all ? CLQ_OK : CLQ_ERROR_MEMORY;
}

static void close_writing(writing *w) {
    clq_free(w->place);
    clq_free(w->node);
    clq_free(w->output);
    clq_free(w->mask);
    clq_free(w->turns);
    clq_free(w->mask_ends);
    clq_free(w->untrained_ends);
    clq_free(w->needed);
    clq_free(w->last);
    clq_free(w->previous);
    clq_free(w->sameness);
    clq_free(w->names_masks);
    clq_free(w->in_layers);
    json_decref(w->layers);
}

clq_status clq_keras_write_text(const clq_model *model, clq_text *text) {
    writing w = {.model = model};
    json_t *document = NULL;
    w.status = open_writing(&w);
    if (w.status == CLQ_OK) w.status = note_ends(&w);
    for (uint32_t id = 1; id <= model->tensor_count && w.status == CLQ_OK; id++) note_masks(&w, id);
    check_outputs(&w);
    if (w.status == CLQ_OK) {
        note_needed(&w);
        document = write_model(&w);
    }
    if (w.status == CLQ_OK && document) clq_json_dump(document, JSON_INDENT(1), text);
    if (w.status == CLQ_OK && (!document || text->failed)) w.status = clq_fail_memory("writing a model as JSON");
    json_decref(document);
    close_writing(&w);
    return w.status;
}

static clq_status write_file(const char *path, const clq_text *text) {
    clq_file_writer *writer;
    CLQ_TRY(clq_file_writer_open(path, &writer));
    (void)clq_file_writer_put(writer, text->data, text->length); /* commit says if it failed */
    (void)clq_file_writer_put(writer, "\n", 1);
    return clq_file_writer_commit(writer);
}

clq_status clq_model_write_keras_json(const clq_model *model, const char *path) {
    clq_text text = {0};
    if (!model->finished)
        return clq_fail(CLQ_ERROR_STATE, "model %s is not finished: call clq_model_finish before it is written",
                        model->name);
    clq_status status = clq_keras_write_text(model, &text);
    if (status == CLQ_OK) status = write_file(path, &text);
    clq_free(text.data);
    return status;
}
