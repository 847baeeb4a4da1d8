/* Blocks, which are written down as inner models made of other layers: Keras's wrappers, functions and layers, and
 * keras_hub's blocks. A row has the names of a block's inputs, the keys of its configuration, and a function that
 * writes its layers down. What is written is then read as any inner model is. */
#include "interop/keras_blocks.h"
#include "interop/keras_graph.h"

#include <stdio.h>
#include <string.h>

/* ---- configurations ---- */

/* Whether a word is among the words of a text. */
static bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; at && *at; at += strspn(at, " ")) {
        const size_t next = strcspn(at, " ");
        if (next == length && strncmp(at, word, length) == 0) return true;
        at += next;
    }
    return false;
}

/* A block's layers compute in float32, as all others do. */
clq_status clq_keras_check_common(json_t *config, const char *layer) {
    const char *path = layer ? layer : "", *dot = layer ? "." : "";
    json_t *dtype = json_object_get(config, "dtype"), *trainable = json_object_get(config, "trainable");
    const char *name;
    if (dtype && !json_is_null(dtype) && !clq_keras_keeps_floats(dtype, &name))
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "%s%sconfig.dtype: '%.40s' is not supported, only float32, mixed_float16 and mixed_bfloat16",
                        path, dot, name ? name : "");
    if (trainable && !json_is_boolean(trainable))
        return clq_fail(CLQ_ERROR_FORMAT, "%s%sconfig.trainable should be true or false", path, dot);
    return CLQ_OK;
}

/* Refuses keys that are neither in `keys` nor common to all layers, unless they are null. */
static clq_status check_keys(const char *keys, json_t *config, const char *path) {
    static const char *const common[] = {"name", "trainable", "dtype", "batch_input_shape", "autocast"};
    const char *key;
    json_t *value;
    json_object_foreach(config, key, value) {
        bool known = json_is_null(value);
        for (size_t i = 0; i < CLQ_COUNT_OF(common); i++) known = known || strcmp(common[i], key) == 0;
        if (!known && !has_word(keys, key))
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s.config.%.60s is not supported", path, key);
    }
    return CLQ_OK;
}

/* ---- Keras's wrappers ---- */

/* Adds the layer that a wrapper has, with changes to the layer's configuration; takes them. */
static void add_wrapped(clq_block_writer *w, json_t *layer, const char *name, json_t *changes, const char *from) {
    json_t *config = clq_json_copy(json_object_get(layer, "config"));
    (void)json_object_update(config, changes);
    json_decref(changes);
    const char *module = json_string_value(json_object_get(layer, "module"));
    clq_block_add(w, module ? module : CLQ_LAYERS, clq_keras_class(layer), name, config, NULL, CLQ_FROM(from));
}

static const char *name_of(json_t *layer, const char *otherwise) {
    const char *name = json_string_value(json_object_get(json_object_get(layer, "config"), "name"));
    return name ? name : otherwise;
}

/* Whether this is a name that a block may give a layer of its own. */
static bool is_own(const char *name) {
    static const char *const own[] = {"sequences", "inputs", "mask", "turned", "output"};
    for (size_t i = 0; i < CLQ_COUNT_OF(own); i++)
        if (strcmp(name, own[i]) == 0) return true;
    const bool numbered = strncmp(name, "step_", 5) == 0 || strncmp(name, "state_", 6) == 0;
    const char *number = strchr(name, '_');
    return numbered && number[1 + strspn(number + 1, "0123456789")] == '\0';
}

/* Makes the name that a layer of the file has within a block: the layer's name, cut to at most `bytes` bytes of whole
 * characters. It differs from the block's own names and from `other`, a name that is taken (NULL: none is). */
static void name_within(const char *prefix, const char *name, size_t bytes, const char *other,
                        char out[CLQ_LAYER_NAME_MAX]) {
    size_t length = 0, next;
    while (name[length] && (next = clq_utf8_length(name + length)) > 0 && length + next <= bytes) length += next;
    (void)snprintf(out, CLQ_LAYER_NAME_MAX, "%s%.*s", prefix, (int)length, name);
    if (is_own(out) || (other && strcmp(out, other) == 0)) memcpy(out + strlen(out), "_", 2);
}

/* Adds outputs of the block after the first `outputs`: the states of the one layer, then those of the other. */
static void give_states(clq_block_writer *w, const char *const layers[2], int states, unsigned outputs) {
    static const char *const names[] = {"state_0", "state_1", "state_2", "state_3"};
    for (int i = 0; i < 2 * states; i++) {
        clq_block_add(w, CLQ_LAYERS, "Activation", names[i], json_pack("{s:s}", "activation", "linear"), NULL,
                      CLQ_FROM(NULL));
        clq_block_append_argument(w, clq_block_refer(layers[i / states], i % states + 1));
        w->output[outputs++] = names[i];
    }
}

static const char *const sequence_names[] = {"sequences", "mask", NULL};
/* The class and module of the layer that joins both directions; NULL: they stay apart. "mul" is the function Multiply,
 * since the layer Multiply would look at masks. */
static const char *const *find_joining(clq_block_writer *w) {
    json_t *mode = clq_block_value_of(w, "merge_mode");
    const char *merge = mode ? json_string_value(mode) : "concat";
    static const char *const modes[][3] = {{"concat", "Concatenate", CLQ_LAYERS},
                                           {"sum", "Add", CLQ_LAYERS},
                                           {"mul", "Multiply", CLQ_NUMPY},
                                           {"ave", "Average", CLQ_LAYERS}};
    const char *const *joined = NULL;
    for (size_t i = 0; merge && i < CLQ_COUNT_OF(modes); i++)
        if (strcmp(modes[i][0], merge) == 0) joined = modes[i] + 1;
    if (!joined && merge)
        clq_block_refuse(w, "merge_mode", "'%.20s' is not supported; there are concat, sum, mul, ave", merge);
    if (mode && !merge && !json_is_null(mode))
        clq_block_refuse(w, "merge_mode", "should be null, or one of concat, sum, mul, ave");
    if (!merge && clq_block_has_mask(w, 0))
        clq_block_refuse(w, "merge_mode", "null is not supported if the input carries a mask");
    return joined;
}

static const char *const *write_bidirectional(clq_block_writer *w) {
    json_t *ahead = clq_block_value_of(w, "layer"), *back = clq_block_value_of(w, "backward_layer");
    json_t *config = json_object_get(ahead, "config");
    const char *class_name = clq_keras_class(ahead);
    const char *const *joined = find_joining(w);
    if (strcmp(class_name, "LSTM") != 0 && strcmp(class_name, "GRU") != 0 && strcmp(class_name, "SimpleRNN") != 0)
        clq_block_refuse(w, "layer", "a %.40s is not supported; there are LSTM, GRU and SimpleRNN", class_name);
    if (json_is_object(back) && json_is_true(json_object_get(json_object_get(back, "config"), "go_backwards")) ==
                                    json_is_true(json_object_get(config, "go_backwards")))
        clq_block_refuse(w, "backward_layer", "it goes the same way as the other layer: one has to go backwards");
    if (w->status != CLQ_OK) return NULL;
    const bool sequences = json_is_true(json_object_get(config, "return_sequences"));
    enum { BYTES = 50 }; /* of a name, so that there is room for a prefix and a suffix */
    char names[2][CLQ_LAYER_NAME_MAX];
    const char *given = name_of(ahead, "forward"), *behind = strncmp(given, "forward_", 8) == 0 ? given + 8 : given;
    const bool own = json_is_object(back);
    name_within("", given, BYTES, NULL, names[0]);
    name_within(own ? "" : "backward_", own ? name_of(back, "backward") : behind, BYTES, names[0], names[1]);
    json_t *zeros = json_pack("{s:b}", "zero_output_for_mask", sequences);
    json_t *turned = json_pack("{s:b}", "zero_output_for_mask", sequences);
    if (!own)
        (void)json_object_set_new(turned, "go_backwards",
                                  json_boolean(!json_is_true(json_object_get(config, "go_backwards"))));
    add_wrapped(w, ahead, names[0], zeros, "sequences");
    clq_block_note_store(w, "forward_layer");
    add_wrapped(w, own ? back : ahead, names[1], turned, "sequences");
    clq_block_note_store(w, "backward_layer");
    if (clq_block_is_given(w, 1)) /* both directions have it */
        for (size_t i = json_array_size(w->layers) - 2; i < json_array_size(w->layers); i++) {
            json_t *node = json_array_get(json_object_get(json_array_get(w->layers, i), "inbound_nodes"), 0);
            (void)json_object_set_new(json_object_get(node, "kwargs"), "mask", clq_block_refer("mask", 0));
        }
    const char *last = names[1];
    if (sequences) {
        clq_block_add(w, CLQ_NUMPY, "Flip", "turned", json_pack("{s:i}", "axis", 1), NULL, CLQ_FROM(names[1]));
        last = "turned";
    }
    unsigned outputs = 1;
    if (joined) {
        clq_block_add(w, joined[1], joined[0], "output", NULL, NULL, CLQ_FROM(names[0], last));
        (void)clq_block_give(w, "output");
    } else {
        (void)clq_block_give(w, names[0]);
        clq_block_add_activation(w, "output", json_string("linear"), last);
        w->output[outputs++] = "output";
    }
    if (sequences) w->masked = "sequences";
    if (json_is_true(json_object_get(config, "return_state")))
        give_states(w, (const char *[]){names[0], names[1]}, strcmp(class_name, "LSTM") == 0 ? 2 : 1, outputs);
    return w->output;
}

/* Adds a cell as the recurrent layer that has such a cell. Several cells become such layers, one after the other. */
static void add_cell(clq_block_writer *w, json_t *cell, const char *name, bool first, bool last, const char *from) {
    static const char *const classes[][2] = {{"LSTMCell", "LSTM"}, {"GRUCell", "GRU"}, {"SimpleRNNCell", "SimpleRNN"}};
    static const char *const keys[] = {"stateful", "unroll", "zero_output_for_mask"};
    const char *class_name = NULL;
    for (size_t i = 0; i < CLQ_COUNT_OF(classes); i++)
        if (strcmp(classes[i][0], clq_keras_class(cell)) == 0) class_name = classes[i][1];
    if (!class_name || !json_is_object(json_object_get(cell, "config"))) {
        clq_block_refuse(w, "cell", "should be an LSTMCell, GRUCell or SimpleRNNCell, or StackedRNNCells of such");
        return;
    }
    json_t *config = clq_json_copy(json_object_get(cell, "config"));
    for (size_t i = 0; i < CLQ_COUNT_OF(keys); i++)
        (void)json_object_set_new(config, keys[i], json_boolean(clq_block_flag(w, keys[i], false)));
    (void)json_object_set_new(config, "go_backwards", json_boolean(first && clq_block_flag(w, "go_backwards", false)));
    (void)json_object_set_new(config, "return_sequences",
                              json_boolean(!last || clq_block_flag(w, "return_sequences", false)));
    clq_block_add(w, CLQ_LAYERS, class_name, name, config, NULL, CLQ_FROM(from));
    if (clq_block_is_given(w, 1)) clq_block_set_keyword(w, "mask", clq_block_refer("mask", 0));
}

/* Checks the configuration of a stack of cells: besides the cells, it may say only whether they are trained. */
static clq_status check_stack(const clq_block_writer *w, json_t *config) {
    char *path = clq_strprintf("%s.config.cell", w->path);
    clq_status status = path ? check_keys("cells", config, path) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) status = clq_keras_check_common(config, path);
    clq_free(path);
    return status;
}

/* Gives the cell its own name. If a layer before has that name, the cell's number stands in front of it. */
static void name_cell(const clq_block_writer *w, json_t *cell, size_t number, char out[CLQ_LAYER_NAME_MAX]) {
    enum { BYTES = CLQ_LAYER_NAME_MAX - 30 };
    char prefix[28] = "";
    for (bool taken = true; taken; number++) {
        taken = false;
        name_within(prefix, name_of(cell, "cell"), BYTES, NULL, out);
        for (size_t i = 0; i < json_array_size(w->layers) && !taken; i++)
            taken = strcmp(json_string_value(json_object_get(json_array_get(w->layers, i), "name")), out) == 0;
        (void)snprintf(prefix, sizeof prefix, "cell_%zu_", number);
    }
}

enum { CELLS_MOST = 256 };

static const char *const *write_cells(clq_block_writer *w) {
    json_t *cell = clq_block_value_of(w, "cell");
    const bool stacked = strcmp(clq_keras_class(cell), "StackedRNNCells") == 0;
    json_t *stack = stacked ? json_object_get(cell, "config") : NULL, *cells = json_object_get(stack, "cells");
    const size_t count = stacked ? json_array_size(cells) : 1;
    char name[CLQ_LAYER_NAME_MAX], from[CLQ_LAYER_NAME_MAX] = "sequences";
    const bool masked = clq_block_is_given(w, 1) || clq_block_has_mask(w, 0);
    if (clq_block_flag(w, "return_state", false)) clq_block_refuse(w, "return_state", "true is not supported");
    if (count == 0) clq_block_refuse(w, "cell", "there are no cells");
    if (count > CELLS_MOST) clq_block_refuse(w, "cell", "more than %d cells are not supported", CELLS_MOST);
    /* Layers after the first read the first's steps, which are in reverse order, but the mask is not. */
    if (count > 1 && masked && clq_block_flag(w, "go_backwards", false))
        clq_block_refuse(w, "go_backwards",
                         "true is not supported of several cells with a mask; make each cell an RNN of its own");
    if (w->status == CLQ_OK && stacked) w->status = check_stack(w, stack);
    for (size_t i = 0; i < count && w->status == CLQ_OK; i++) {
        json_t *one = stacked ? json_array_get(cells, i) : cell;
        name_cell(w, one, i, name);
        add_cell(w, one, name, i == 0, i + 1 == count, from);
        if (w->status == CLQ_OK && json_is_false(json_object_get(stack, "trainable")))
            clq_block_set(w, "trainable", json_false());
        memcpy(from, name, sizeof from);
    }
    if (w->status != CLQ_OK) return NULL;
    if (!stacked) clq_block_note_store(w, "");
    if (clq_block_flag(w, "return_sequences", false)) w->masked = "sequences";
    return clq_block_give(w, from);
}

static const char *const distributed_names[] = {"inputs", "mask", NULL};

/* Whether a layer works on the last axis, or on each number by itself. Applied to all steps at once, it does what it
 * does in each step. */
static bool goes_along(json_t *layer) {
    static const char *const classes[] = {"Dense",     "Dropout", "Activation", "ReLU",         "LeakyReLU",
                                          "Rescaling", "ELU",     "Identity",   "GaussianNoise"};
    for (size_t i = 0; i < CLQ_COUNT_OF(classes); i++)
        if (strcmp(clq_keras_class(layer), classes[i]) == 0) return true;
    return false;
}

/* Whether Keras gives calls of the layer the mask of a step. */
static bool takes_step_mask(json_t *layer) {
    const char *name;
    for (size_t i = 0; clq_keras_is_block(layer) && (name = clq_keras_block_input(layer, i)); i++)
        if (strcmp(name, "mask") == 0) return true;
    return clq_keras_takes_mask(layer) || clq_keras_is_inner_model(layer);
}

/* TimeDistributed: applies the layer to each step, as Keras does, or to all steps at once if that is the same. */
enum { STEPS_MAX = 1024 }; /* most steps that a layer is applied to one by one */

static const char *const *write_distributed(clq_block_writer *w) {
    json_t *layer = clq_block_value_of(w, "layer");
    const clq_shape *x = clq_block_shape_of(w, 0);
    const char *module = json_string_value(json_object_get(layer, "module"));
    const size_t steps = x->dims[0];
    char name[CLQ_LAYER_NAME_MAX];
    name_within("", name_of(layer, "layer"), sizeof name - 2, NULL, name);
    if (!json_is_object(layer)) clq_block_refuse(w, "layer", "should be a layer");
    if (x->rank < 2) clq_block_refuse(w, "layer", "its input has no axis behind the steps");
    if (json_is_object(layer) && !json_is_object(json_object_get(layer, "config")))
        clq_block_refuse(w, "layer", "its config should be an object");
    if (json_is_object(layer) && takes_step_mask(layer) && (clq_block_is_given(w, 1) || clq_block_has_mask(w, 0)))
        clq_block_refuse(w, "layer", "a %.40s, which looks at masks, is not supported of an input that has one",
                         clq_keras_class(layer));
    if (w->status != CLQ_OK) return NULL;
    w->masked = "inputs";
    if (goes_along(layer)) {
        clq_block_add(w, module ? module : CLQ_LAYERS, clq_keras_class(layer), name,
                      clq_json_copy(json_object_get(layer, "config")), NULL, CLQ_FROM("inputs"));
        clq_block_note_store(w, "layer");
        clq_block_add(w, CLQ_LAYERS, "Activation", "output", json_pack("{s:s}", "activation", "linear"), NULL,
                      CLQ_FROM(name));
        return clq_block_give(w, "output");
    }
    if (strcmp(clq_keras_class(layer), "Flatten") == 0) {
        clq_block_add(w, CLQ_LAYERS, "Reshape", "output",
                      json_pack("{s:[I, i]}", "target_shape", (json_int_t)steps, -1), NULL, CLQ_FROM("inputs"));
        return clq_block_give(w, "output");
    }
    if (steps > STEPS_MAX) {
        clq_block_refuse(w, "layer", "more than %d steps are not supported", STEPS_MAX);
        return NULL;
    }
    json_t *nodes = json_array(), *made = json_array();
    for (size_t i = 0; i < steps; i++) {
        char step[40];
        (void)snprintf(step, sizeof step, "step_%zu", i);
        clq_block_add(w, CLQ_NUMPY, "GetItem", step, NULL, NULL, CLQ_FROM("inputs"));
        clq_block_append_argument(w, json_pack("[{s:s, s:{s:n, s:n, s:n}}, I]", "class_name", "__slice__", "config",
                                               "start", "stop", "step", (json_int_t)i));
        (void)json_array_append_new(nodes, json_pack("{s:[o], s:{}}", "args", clq_block_refer(step, 0), "kwargs"));
        (void)json_array_append_new(made, clq_keras_refer(name, (uint32_t)i, 0, NULL));
    }
    json_t *inner = clq_keras_write_layer(
        module ? module : CLQ_LAYERS, clq_keras_class(layer), name,
        clq_json_put(clq_json_copy(json_object_get(layer, "config")), "name", json_string(name)), nodes);
    if (inner && json_object_set_new(inner, "store", json_string("layer")) != 0) w->status = CLQ_ERROR_MEMORY;
    (void)json_array_append_new(w->layers, inner);
    json_t *stack =
        clq_keras_write_layer(CLQ_NUMPY, "Stack", "output", json_pack("{s:s, s:i}", "name", "output", "axis", 1),
                              json_pack("[{s:[o], s:{}}]", "args", made, "kwargs"));
    if (!inner || !stack || json_array_append_new(w->layers, stack) != 0)
        w->status = clq_fail(CLQ_ERROR_MEMORY, "%s: out of memory", w->path);
    return clq_block_give(w, "output");
}

/* ---- the rows ---- */

static const clq_block_row rows[] = {
    CLQ_BLOCK_ROW(NULL, "Bidirectional", sequence_names, "layer backward_layer merge_mode", write_bidirectional),
    CLQ_BLOCK_ROW(NULL, "RNN", sequence_names,
                  "cell return_sequences return_state go_backwards stateful unroll zero_output_for_mask", write_cells),
    CLQ_BLOCK_ROW(NULL, "TimeDistributed", distributed_names, "layer", write_distributed),
    CLQ_BLOCK_END,
};

static const clq_block_row *const tables[] = {
    rows,           clq_keras_ops,    clq_keras_axes, clq_hub_blocks, clq_hub_decoders,
    clq_hub_rotary, clq_hub_relative, clq_hub_vision, clq_hub_pairs,  clq_hub_images};

static const clq_block_row *find_row(json_t *layer) {
    const char *name = clq_keras_class(layer), *module = json_string_value(json_object_get(layer, "module"));
    const bool is_keras = !module || strncmp(module, "keras.", 6) == 0;
    for (size_t k = 0; k < CLQ_COUNT_OF(tables); k++)
        for (const clq_block_row *row = tables[k]; row->class_name; row++) {
            if (strcmp(row->class_name, name) != 0) continue;
            if (row->of_config && !row->of_config(json_object_get(layer, "config"))) continue;
            if (row->module ? module && strcmp(module, row->module) == 0 : is_keras) return row;
        }
    return NULL;
}

bool clq_keras_is_block(json_t *layer) { return find_row(layer) != NULL; }
bool clq_keras_block_takes_arguments(json_t *layer) {
    const clq_block_row *row = find_row(layer);
    return row && row->takes_arguments;
}
bool clq_keras_block_ends_mask(json_t *layer) {
    const clq_block_row *row = find_row(layer);
    return row && row->ends_mask && row->ends_mask(json_object_get(layer, "config"));
}
bool clq_keras_block_has_parts(json_t *layer) {
    const clq_block_row *row = find_row(layer);
    return row && row->module;
}

const char *clq_keras_block_input(json_t *layer, size_t i) {
    const clq_block_row *row = find_row(layer);
    for (size_t k = 0; row && row->names[k]; k++)
        if (k == i) return row->names[k];
    return NULL;
}

size_t clq_keras_block_places(json_t *layer) {
    const clq_block_row *row = find_row(layer);
    if (!row) return SIZE_MAX;
    if (row->names == sequence_names) return 1; /* in Keras the second is a state */
    if (row->names[0] && strcmp(row->names[0], "decoder_sequence") == 0 && row->names[2])
        return 3; /* in Keras the fourth is a mask of pairs */
    size_t count = 0;
    while (row->names[count]) count++;
    return count;
}

bool clq_keras_block_takes_flag(json_t *layer, const char *key) {
    const clq_block_row *row = find_row(layer);
    return row && has_word(row->flags, key);
}

bool clq_keras_block_same_flags(json_t *layer, json_t *a, json_t *b) {
    const clq_block_row *row = find_row(layer);
    const char *key;
    json_t *value;
    json_t *const calls[] = {a, b};
    for (unsigned i = 0; row && row->flags && i < 2; i++)
        json_object_foreach(calls[i], key,
                            value) if (has_word(row->flags, key) &&
                                       !json_equal(value, json_object_get(calls[1 - i], key))) return false;
    return true;
}

const char *clq_keras_block_class(size_t i) {
    for (size_t k = 0; k < CLQ_COUNT_OF(tables); k++)
        for (const clq_block_row *row = tables[k]; row->class_name; row++)
            if (!row->of_config && i-- == 0) return row->class_name;
    return NULL;
}

/* Adds the InputLayers, and gives the config of a Functional model with the block's inputs and outputs. */
static json_t *finish(clq_block_writer *w, const clq_block_row *row, const char *const *outputs) {
    json_t *ends = json_array(), *starts = json_array();
    for (size_t i = 0; row->names[i]; i++) {
        if (!clq_block_is_given(w, (unsigned)i)) continue;
        (void)json_array_append_new(w->layers,
                                    json_pack("{s:s, s:s, s:s, s:{s:s, s:[n, i]}, s:[]}", "module", CLQ_LAYERS,
                                              "class_name", "InputLayer", "name", row->names[i], "config", "name",
                                              row->names[i], "batch_shape", 1, "inbound_nodes"));
        (void)json_array_append_new(starts, json_pack("[s, i, i]", row->names[i], 0, 0));
    }
    for (size_t i = 0; outputs[i]; i++) (void)json_array_append_new(ends, json_pack("[s, i, i]", outputs[i], 0, 0));
    json_t *config = json_pack("{s:O, s:o, s:o}", "layers", w->layers, "input_layers", starts, "output_layers", ends);
    if (!w->masked || json_object_set_new(config, "mask_of", json_pack("[s, i, i]", w->masked, 0, 0)) == 0)
        return config;
    json_decref(config);
    return NULL;
}

clq_status clq_keras_write_block(json_t *layer, const char *path, const clq_keras_block_use *use, json_t **out) {
    const clq_block_row *row = find_row(layer);
    clq_block_writer w = {.use = use, .config = json_object_get(layer, "config"), .layers = json_array(), .path = path};
    *out = NULL;
    if (!w.layers) return clq_fail(CLQ_ERROR_MEMORY, "%s: out of memory", path);
    if (row->keys) w.status = check_keys(row->keys, w.config, path);
    if (w.status == CLQ_OK) w.status = clq_keras_check_common(w.config, path);
    const char *const *outputs = w.status == CLQ_OK ? row->write(&w) : NULL;
    if (w.status == CLQ_OK && outputs) {
        *out = finish(&w, row, outputs);
        if (!*out) w.status = clq_fail(CLQ_ERROR_MEMORY, "%s: out of memory", path);
    }
    json_decref(w.layers);
    return w.status;
}
