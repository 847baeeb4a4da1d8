/* The nodes of a Functional model, from its file: what each layer is applied to. */
#include "interop/keras_graph.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the layers and their nodes ---- */

/* An unknown class is refused here, before the nodes are looked at, so that the message names the class. */
clq_status clq_keras_index_layers(clq_keras_graph *f) {
    size_t inputs = 0;
    f->index = json_object();
    if (!f->index) return clq_fail(CLQ_ERROR_MEMORY, "config.layers: out of memory");
    for (size_t i = 0; i < json_array_size(f->layers); i++) {
        json_t *layer = clq_keras_layer_at(f, i);
        if (!clq_keras_name(layer)) return clq_fail(CLQ_ERROR_FORMAT, "config.layers[%zu].name is missing", i);
        if (!clq_keras_is_input(layer) && !clq_keras_is_model(layer)) CLQ_TRY(clq_keras_check_class(layer, i));
        inputs += clq_keras_is_input(layer);
        if (json_object_get(f->index, clq_keras_name(layer)))
            return clq_fail(CLQ_ERROR_FORMAT, "config.layers[%zu].config.name: two layers are named '%.60s'", i,
                            clq_keras_name(layer));
        if (json_object_set_new(f->index, clq_keras_name(layer), json_integer((json_int_t)i)) != 0)
            return clq_fail(CLQ_ERROR_MEMORY, "config.layers: out of memory");
    }
    return inputs >= 1 ? CLQ_OK : clq_fail(CLQ_ERROR_FORMAT, "config.layers has no InputLayer");
}

clq_status clq_keras_make_room(clq_keras_graph *f) {
    const size_t layers = json_array_size(f->layers);
    f->first_node = clq_alloc(layers + 1, sizeof *f->first_node);
    f->added = clq_alloc(layers, sizeof *f->added);
    f->keywords = clq_alloc(layers, sizeof(json_t *));
    f->arguments = clq_alloc(layers, sizeof(json_t *));
    f->positional = clq_alloc(layers, sizeof(uint32_t));
    f->inner = clq_alloc(layers, sizeof *f->inner);
    return f->first_node && f->added && f->keywords && f->arguments && f->positional && f->inner ? CLQ_OK
                                                                                                 : CLQ_ERROR_MEMORY;
}

/* An InputLayer has one node, which reads nothing. The file may leave this node out. */
clq_status clq_keras_count_nodes(clq_keras_graph *f) {
    const size_t layers = json_array_size(f->layers);
    size_t total = 0;
    CLQ_TRY(clq_keras_make_room(f));
    for (size_t i = 0; i < layers; i++) {
        char where[160];
        const size_t count = clq_keras_is_input(clq_keras_layer_at(f, i))
                                 ? 1
                                 : json_array_size(json_object_get(clq_keras_layer_at(f, i), "inbound_nodes"));
        clq_keras_describe_place(clq_keras_layer_at(f, i), i, where);
        if (count == 0)
            return clq_fail(CLQ_ERROR_FORMAT, "%s.inbound_nodes is missing or empty: no input reaches the layer",
                            where);
        f->first_node[i] = (uint32_t)total;
        total += count;
        if (total > INT32_MAX) return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: so many nodes are not supported", where);
    }
    f->first_node[layers] = f->node_count = (uint32_t)total;
    f->nodes = clq_alloc(total, sizeof *f->nodes);
    return f->nodes ? CLQ_OK : CLQ_ERROR_MEMORY;
}

/* Finds the node of the tensor [layer, node, tensor]. Whether the node gives so many tensors is known only once it is
 * added. */
clq_status clq_keras_find_node(const clq_keras_graph *f, json_t *history, const char *where, clq_keras_source *out) {
    const char *name = json_string_value(json_array_get(history, 0));
    json_t *node_index = json_array_get(history, 1), *tensor_index = json_array_get(history, 2);
    if (!name || !json_is_integer(node_index) || !json_is_integer(tensor_index))
        return clq_fail(CLQ_ERROR_FORMAT, "%s should be [layer, node, tensor]", where);
    json_t *found = json_object_get(f->index, name);
    if (!found) return clq_fail(CLQ_ERROR_FORMAT, "%s: no layer of the file is named '%.60s'", where, name);
    const size_t layer = (size_t)json_integer_value(found);
    const uint32_t count = f->first_node[layer + 1] - f->first_node[layer];
    const json_int_t index = json_integer_value(node_index), output = json_integer_value(tensor_index);
    if (index < 0 || index >= (json_int_t)count || output < 0 || output >= CLQ_KERAS_OUTPUTS_MAX)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: layer '%.60s' has %u nodes, and [%lld, %lld] is none of their tensors",
                        where, name, count, (long long)index, (long long)output);
    *out = (clq_keras_source){.node = f->first_node[layer] + (uint32_t)index, .output = (uint32_t)output};
    return CLQ_OK;
}

/* Whether `masks` may be the masks of an inner model's inputs. Keras's files also name masks that the tensors carry
 * anyway, and have null for an input without a mask. */
static bool are_masks(json_t *layer, json_t *masks) {
    json_t *mask;
    size_t i;
    if (!clq_keras_is_inner_model(layer)) return false;
    json_array_foreach(masks, i, mask) if (!clq_keras_is_tensor(mask) && !json_is_null(mask)) return false;
    return json_is_array(masks) || clq_keras_is_tensor(masks);
}

/* How many masks a call gives the inputs of an inner model; 0: it gives none, or all are null. */
static size_t count_masks(json_t *layer, json_t *masks) {
    json_t *mask;
    size_t i;
    if (!are_masks(layer, masks)) return 0;
    json_array_foreach(masks, i, mask) if (clq_keras_is_tensor(mask)) return json_array_size(masks);
    return json_is_array(masks) ? 0 : 1;
}

/* Refuses keywords of a call that are not supported. `training` is harmless: the file has its value from when the model
 * was built, and Keras sets it by what the model is used for. */
static clq_status check_keywords(json_t *layer, json_t *keywords, const char *where) {
    const char *key;
    json_t *value;
    if (keywords && !json_is_null(keywords) && !json_is_object(keywords))
        return clq_fail(CLQ_ERROR_FORMAT, "%s.kwargs should be an object", where);
    json_object_foreach(keywords, key, value) {
        bool harmless = json_is_null(value) || (strcmp(key, "training") == 0 && json_is_boolean(value));
        harmless = harmless || (json_is_boolean(value) && clq_keras_block_takes_flag(layer, key));
        harmless = harmless || (json_is_boolean(value) && clq_keras_is_further(layer, key));
        harmless = harmless || (strcmp(key, "mask") == 0 && are_masks(layer, value));
        for (size_t i = 0; clq_keras_is_tensor(value) && clq_keras_input_name(layer, i); i++)
            harmless = harmless || strcmp(key, clq_keras_input_name(layer, i)) == 0;
        for (size_t i = 0; clq_keras_is_tensor(value) && clq_keras_block_input(layer, i); i++)
            harmless = harmless || strcmp(key, clq_keras_block_input(layer, i)) == 0;
        if (!harmless && !clq_keras_takes_keyword(layer, key))
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s.kwargs.%.40s is not supported", where, key);
    }
    return CLQ_OK;
}

static clq_status append_source(clq_keras_graph *f, clq_keras_source source) {
    clq_keras_source *sources = clq_grow(f->sources, f->source_count, &f->source_capacity, 64, sizeof *sources);
    if (!sources) return CLQ_ERROR_MEMORY;
    f->sources = sources;
    f->sources[f->source_count++] = source;
    return CLQ_OK;
}
static clq_status add_source(clq_keras_graph *f, json_t *history, const char *where) {
    clq_keras_source found;
    CLQ_TRY(clq_keras_find_node(f, history, where, &found));
    return append_source(f, found);
}
/* A call that does the opposite (clq_layer_kind.opposite) has its tensor twice. */
static clq_status repeat_source(clq_keras_graph *f, const clq_keras_node *n) {
    return append_source(f, f->sources[n->first_source]);
}

static clq_status read_source(clq_keras_graph *f, json_t *tensor, const char *where) {
    json_t *history = json_object_get(json_object_get(tensor, "config"), "keras_history");
    char place[256];
    snprintf(place, sizeof place, "%s.keras_history", where);
    if (!history) return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s is missing: only tensors can be arguments", place);
    return add_source(f, history, place);
}

/* Notes which inputs of a block the call passes by their places. */
static clq_status note_given(const clq_keras_graph *f, clq_keras_node *n, const char *where) {
    const size_t most = clq_keras_block_places(clq_keras_layer_at(f, n->layer));
    if (n->positional > most && !clq_keras_block_input(clq_keras_layer_at(f, n->layer), most))
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: more than %zu tensors are not supported", where, most);
    if (n->positional > most)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: tensors behind the first %zu are supported by their names alone",
                        where, most);
    for (size_t i = 0; clq_keras_block_input(clq_keras_layer_at(f, n->layer), i) && i < n->positional; i++)
        n->given |= 1u << i;
    return CLQ_OK;
}

/* Reads a node as Keras 2 wrote it: [[layer, node, tensor, keywords], …], or a single entry without the list around
 * it. */
static clq_status read_old_node(clq_keras_graph *f, json_t *list, clq_keras_node *n, const char *where) {
    const bool one = json_is_string(json_array_get(list, 0));
    const size_t count = one ? 1 : json_array_size(list);
    n->first_source = f->source_count;
    if (count == 0 || count > CLQ_KERAS_INPUTS_MAX)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: a layer reads 1 to %d tensors, not %zu", where, CLQ_KERAS_INPUTS_MAX,
                        count);
    for (size_t i = 0; i < count; i++) {
        json_t *tensor = one ? list : json_array_get(list, i);
        const size_t size = json_array_size(tensor);
        char place[256];
        snprintf(place, sizeof place, "%s[%zu]", where, i);
        if (size != 3 && size != 4)
            return clq_fail(CLQ_ERROR_FORMAT, "%s should be [layer, node, tensor, keywords], as Keras 2 writes it",
                            place);
        CLQ_TRY(check_keywords(clq_keras_layer_at(f, n->layer), json_array_get(tensor, 3), place));
        if (i == 0) n->keywords = json_array_get(tensor, 3);
        CLQ_TRY(add_source(f, tensor, place));
    }
    n->source_count = n->positional = (uint32_t)count;
    return note_given(f, n, where);
}

/* Whether an argument is a list of tensors. Lists of such lists are not supported. */
static bool is_list_of_tensors(json_t *argument) {
    size_t i;
    json_t *item;
    json_array_foreach(argument, i, item) if (!clq_keras_is_tensor(item)) return false;
    return json_array_size(argument) > 0;
}

/* Reads a node. "args" has tensors and lists of tensors, in order. Other arguments are left to the layer's kind, and
 * refused if it does not take them. */
static clq_status read_node(clq_keras_graph *f, json_t *object, clq_keras_node *n, const char *where) {
    if (json_is_array(object)) return read_old_node(f, object, n, where);
    json_t *arguments = json_object_get(object, "args"), *argument;
    size_t i, k;
    n->keywords = json_object_get(object, "kwargs");
    CLQ_TRY(check_keywords(clq_keras_layer_at(f, n->layer), n->keywords, where));
    n->first_source = f->source_count;
    n->first = json_array_get(arguments, 0);
    json_array_foreach(arguments, i, argument) {
        const bool list = is_list_of_tensors(argument);
        const size_t count = list ? json_array_size(argument) : 1;
        if (!list && !clq_keras_is_tensor(argument)) {
            n->arguments = arguments;
            continue;
        }
        for (k = 0; k < count; k++) CLQ_TRY(read_source(f, list ? json_array_get(argument, k) : argument, where));
    }
    const char *name;
    for (i = f->source_count - n->first_source; (name = clq_keras_input_name(clq_keras_layer_at(f, n->layer), i));
         i++) {
        json_t *tensor = json_object_get(n->keywords, name);
        if (!clq_keras_is_tensor(tensor)) break;
        CLQ_TRY(read_source(f, tensor, where));
    }
    n->positional = f->source_count - n->first_source;
    CLQ_TRY(note_given(f, n, where));
    for (i = n->positional; (name = clq_keras_block_input(clq_keras_layer_at(f, n->layer), i)); i++) {
        json_t *tensor = json_object_get(n->keywords, name);
        if (!clq_keras_is_tensor(tensor)) continue;
        n->given |= 1u << i;
        CLQ_TRY(read_source(f, tensor, where));
    }
    const clq_attribute *row;
    for (i = 0; (row = clq_keras_tensor_row(clq_keras_layer_at(f, n->layer), i)); i++) {
        json_t *given = json_object_get(n->keywords, row->key);
        const size_t count = clq_keras_tensors(given, row->several);
        for (k = 0; k < count; k++)
            CLQ_TRY(read_source(f, json_is_array(given) ? json_array_get(given, k) : given, where));
    }
    json_t *masks = json_object_get(n->keywords, "mask");
    n->masks = (uint32_t)count_masks(clq_keras_layer_at(f, n->layer), masks);
    if (n->masks > n->positional)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: its call has %u masks of %u inputs", where, n->masks, n->positional);
    for (k = 0; k < n->masks; k++) {
        json_t *mask = json_is_array(masks) ? json_array_get(masks, k) : masks;
        CLQ_TRY(json_is_null(mask) ? append_source(f, f->sources[n->first_source + k]) : read_source(f, mask, where));
    }
    if (n->positional == 1 && clq_keras_is_opposite(clq_keras_layer_at(f, n->layer), n->keywords))
        CLQ_TRY(repeat_source(f, n));
    n->source_count = f->source_count - n->first_source;
    if (n->source_count == 0 || n->source_count > CLQ_KERAS_INPUTS_MAX)
        return clq_fail(CLQ_ERROR_FORMAT, "%s.args: a layer reads 1 to %d tensors, not %u", where, CLQ_KERAS_INPUTS_MAX,
                        n->source_count);
    return CLQ_OK;
}

clq_status clq_keras_read_nodes(clq_keras_graph *f) {
    for (size_t i = 0; i < json_array_size(f->layers); i++) {
        json_t *nodes = json_object_get(clq_keras_layer_at(f, i), "inbound_nodes");
        char place[160], where[224];
        clq_keras_describe_place(clq_keras_layer_at(f, i), i, place);
        for (uint32_t k = f->first_node[i]; k < f->first_node[i + 1]; k++) {
            f->nodes[k].layer = (uint32_t)i;
            if (clq_keras_is_input(clq_keras_layer_at(f, i))) continue;
            snprintf(where, sizeof where, "%s.inbound_nodes[%u]", place, k - f->first_node[i]);
            CLQ_TRY(read_node(f, json_array_get(nodes, k - f->first_node[i]), &f->nodes[k], where));
        }
    }
    return CLQ_OK;
}

bool clq_keras_same_arguments(json_t *a, json_t *b) {
    size_t i;
    json_t *argument;
    if (json_array_size(a) != json_array_size(b)) return false;
    json_array_foreach(a, i, argument) {
        json_t *other = json_array_get(b, i);
        const bool tensor = clq_keras_is_tensor(argument);
        if (tensor != clq_keras_is_tensor(other) || (!tensor && !json_equal(argument, other))) return false;
    }
    return true;
}

/* ---- inputs and outputs of a model ---- */

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Turns a model's inputs or outputs by name into a list, in the order of the names, which is Keras's. NULL: out of
 * memory. */
static json_t *list_by_name(json_t *ends) {
    const size_t count = json_object_size(ends);
    const char **names = clq_alloc(CLQ_MAX(count, (size_t)1), sizeof *names), *name;
    json_t *list = json_array(), *end;
    size_t i = 0;
    bool ok = names && list;
    if (ok) {
        json_object_foreach(ends, name, end) names[i++] = name;
        qsort(names, count, sizeof *names, compare_names);
    }
    for (i = 0; i < count && ok; i++) ok = json_array_append(list, json_object_get(ends, names[i])) == 0;
    clq_free(names);
    if (ok) return list;
    json_decref(list);
    return NULL;
}

/* Finds the node of a model's input or output. Here alone, Keras counts the calls of an inner Functional model from 1
 * on, as a call of the model's own comes first. */
static clq_status find_end(const clq_keras_graph *f, json_t *end, const char *where, clq_keras_source *out) {
    json_t *index = json_object_get(f->index, json_string_value(json_array_get(end, 0)));
    json_t *layer = index ? clq_keras_layer_at(f, (size_t)json_integer_value(index)) : NULL;
    const json_int_t call = json_integer_value(json_array_get(end, 1));
    const bool functional = layer && clq_keras_is_inner_model(layer) && !clq_keras_is_sequential(layer);
    if (!functional || call == 0 || json_array_size(end) != 3) return clq_keras_find_node(f, end, where, out);
    json_t *counted = json_pack("[O, I, O]", json_array_get(end, 0), call - 1, json_array_get(end, 2));
    const clq_status status =
        counted ? clq_keras_find_node(f, counted, where, out) : clq_fail(CLQ_ERROR_MEMORY, "%s: out of memory", where);
    json_decref(counted);
    return status;
}

static clq_status find_listed(const clq_keras_graph *f, json_t *ends, const char *where, size_t most,
                              clq_keras_source *out, size_t *count) {
    const bool list = json_is_array(json_array_get(ends, 0));
    if (!json_is_array(ends) || json_array_size(ends) == 0)
        return clq_fail(CLQ_ERROR_FORMAT, "%s should be a list of [layer, node, tensor]", where);
    *count = list ? json_array_size(ends) : 1;
    if (*count > most)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: %zu are not supported, at most %zu", where, *count, most);
    for (size_t i = 0; i < *count; i++) CLQ_TRY(find_end(f, list ? json_array_get(ends, i) : ends, where, &out[i]));
    return CLQ_OK;
}

/* Finds the nodes that a key of the configuration names. The key has one entry, ["name", 0, 0], a list of entries, or
 * an object with an entry for each name. */
static clq_status find_ends(const clq_keras_graph *f, const char *key, size_t most, clq_keras_source *out,
                            size_t *count) {
    json_t *ends = json_object_get(f->config, key);
    char where[64];
    snprintf(where, sizeof where, "config.%s", key);
    json_t *list = json_is_object(ends) ? list_by_name(ends) : json_incref(ends);
    if (ends && !list) return clq_fail(CLQ_ERROR_MEMORY, "%s: out of memory", where);
    const clq_status status = find_listed(f, list, where, most, out, count);
    json_decref(list);
    return status;
}

clq_status clq_keras_find_inputs(const clq_keras_graph *f, clq_keras_source out[CLQ_MODEL_INPUTS_MAX], size_t *count) {
    if (!f->sequential) return find_ends(f, "input_layers", CLQ_MODEL_INPUTS_MAX, out, count);
    out[0] = (clq_keras_source){.node = clq_keras_is_input(clq_keras_layer_at(f, 0)) ? 0 : CLQ_KERAS_GIVEN};
    *count = 1;
    return CLQ_OK;
}

clq_status clq_keras_find_outputs(const clq_keras_graph *f, clq_keras_source out[CLQ_BLOCK_OUTPUTS_MAX],
                                  size_t *count) {
    if (!f->sequential) return find_ends(f, "output_layers", CLQ_BLOCK_OUTPUTS_MAX, out, count);
    out[0] = (clq_keras_source){.node = f->node_count - 1};
    *count = 1;
    return CLQ_OK;
}
