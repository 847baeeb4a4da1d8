/* Functional models. A layer's inbound_nodes say what it is applied to: each node gives a tensor, and names the tensors
 * that it reads as [layer, node of that layer, 0]. */
#include "interop/keras.h"

#include <stdio.h>
#include <string.h>

enum { NODE_INPUTS_MAX = 1024 };

typedef struct node {
    uint32_t layer; /* index in config.layers */
    uint32_t first_source, source_count;
    enum { WAITING, OPEN, DONE } state;
    clq_tensor tensor; /* once DONE */
} node;

typedef struct functional {
    clq_model *model;
    json_t *layers, *index; /* index: by name, of layers */
    node *nodes;            /* of all layers, one behind the other */
    uint32_t *first_node;   /* by layer; one more at the end */
    uint32_t *added;        /* by layer: its first tensor in the model; 0: it is not there yet */
    uint32_t *sources;      /* indices of nodes */
    uint32_t node_count, source_count;
    size_t source_capacity;
} functional;

static json_t *layer_at(const functional *f, size_t i) { return json_array_get(f->layers, i); }
static bool is_input(json_t *layer) { return strcmp(clq_keras_class(layer), "InputLayer") == 0; }

static const char *name_of(json_t *layer) {
    const char *name = json_string_value(json_object_get(layer, "name"));
    return name ? name : json_string_value(json_object_get(json_object_get(layer, "config"), "name"));
}

/* ---- the layers and their nodes ---- */

/* An unknown layer is named as such before its nodes are looked at. */
static clq_status index_layers(functional *f) {
    size_t inputs = 0;
    f->index = json_object();
    if (!f->index) return clq_fail(CLQ_MEMORY, "config.layers: out of memory");
    for (size_t i = 0; i < json_array_size(f->layers); i++) {
        json_t *layer = layer_at(f, i);
        if (!name_of(layer)) return clq_fail(CLQ_FORMAT, "config.layers[%zu].name is missing", i);
        if (!is_input(layer)) CLQ_TRY(clq_keras_check_class(layer, i));
        if (is_input(layer) && ++inputs > 1)
            return clq_fail(CLQ_UNSUPPORTED,
                            "config.layers[%zu] and config.input_layers: a second InputLayer is not supported", i);
        if (json_object_get(f->index, name_of(layer)))
            return clq_fail(CLQ_FORMAT, "config.layers[%zu].config.name: two layers are named '%.60s'", i,
                            name_of(layer));
        if (json_object_set_new(f->index, name_of(layer), json_integer((json_int_t)i)) != 0)
            return clq_fail(CLQ_MEMORY, "config.layers: out of memory");
    }
    return inputs == 1 ? CLQ_OK : clq_fail(CLQ_FORMAT, "config.layers has no InputLayer");
}

/* An InputLayer has one node, which reads nothing and may stand in the file or not. */
static clq_status count_nodes(functional *f) {
    const size_t layers = json_array_size(f->layers);
    size_t total = 0;
    f->first_node = clq_alloc(layers + 1, sizeof *f->first_node);
    f->added = clq_alloc(layers, sizeof *f->added);
    if (!f->first_node || !f->added) return CLQ_MEMORY;
    for (size_t i = 0; i < layers; i++) {
        char where[160];
        const size_t count =
            is_input(layer_at(f, i)) ? 1 : json_array_size(json_object_get(layer_at(f, i), "inbound_nodes"));
        clq_keras_describe_place(layer_at(f, i), i, where);
        if (count == 0)
            return clq_fail(CLQ_FORMAT, "%s.inbound_nodes is missing or empty: no input reaches the layer", where);
        f->first_node[i] = (uint32_t)total;
        total += count;
        if (total > INT32_MAX) return clq_fail(CLQ_UNSUPPORTED, "%s: so many nodes are not supported", where);
    }
    f->first_node[layers] = f->node_count = (uint32_t)total;
    f->nodes = clq_alloc(total, sizeof *f->nodes);
    return f->nodes ? CLQ_OK : CLQ_MEMORY;
}

/* The node that gives the tensor [layer, node, 0]. */
static clq_status find_node(const functional *f, json_t *history, const char *where, uint32_t *out) {
    const char *name = json_string_value(json_array_get(history, 0));
    json_t *node_index = json_array_get(history, 1), *tensor_index = json_array_get(history, 2);
    if (!name || !json_is_integer(node_index) || !json_is_integer(tensor_index))
        return clq_fail(CLQ_FORMAT, "%s should be [layer, node, tensor]", where);
    json_t *found = json_object_get(f->index, name);
    if (!found) return clq_fail(CLQ_FORMAT, "%s: no layer of the file is named '%.60s'", where, name);
    const size_t layer = (size_t)json_integer_value(found);
    const uint32_t count = f->first_node[layer + 1] - f->first_node[layer];
    const json_int_t index = json_integer_value(node_index);
    if (index < 0 || index >= (json_int_t)count || json_integer_value(tensor_index) != 0)
        return clq_fail(CLQ_FORMAT, "%s: layer '%.60s' has %u nodes of one tensor, and [%lld, %lld] is none of them",
                        where, name, count, (long long)index, (long long)json_integer_value(tensor_index));
    *out = f->first_node[layer] + (uint32_t)index;
    return CLQ_OK;
}

/* What a call passes besides tensors. Keras notes `training` as it was when the model was built, and sets it by what
 * the model is used for. */
static clq_status check_keywords(json_t *keywords, const char *where) {
    const char *key;
    json_t *value;
    if (keywords && !json_is_null(keywords) && !json_is_object(keywords))
        return clq_fail(CLQ_FORMAT, "%s.kwargs should be an object", where);
    json_object_foreach(keywords, key, value) {
        const bool harmless = json_is_null(value) || (strcmp(key, "training") == 0 && json_is_boolean(value));
        if (!harmless) return clq_fail(CLQ_UNSUPPORTED, "%s.kwargs.%.40s is not supported", where, key);
    }
    return CLQ_OK;
}

static clq_status add_source(functional *f, json_t *history, const char *where) {
    uint32_t source;
    CLQ_TRY(find_node(f, history, where, &source));
    uint32_t *sources = clq_grow(f->sources, f->source_count, &f->source_capacity, 64, sizeof *sources);
    if (!sources) return CLQ_MEMORY;
    f->sources = sources;
    f->sources[f->source_count++] = source;
    return CLQ_OK;
}

static clq_status read_source(functional *f, json_t *tensor, const char *where) {
    json_t *history = json_object_get(json_object_get(tensor, "config"), "keras_history");
    char place[256];
    snprintf(place, sizeof place, "%s.keras_history", where);
    if (!history) return clq_fail(CLQ_UNSUPPORTED, "%s is missing: only tensors can be arguments", place);
    return add_source(f, history, place);
}

/* As Keras 2 wrote it: [[layer, node, tensor, keywords], …], or one such without the list around it. */
static clq_status read_old_node(functional *f, json_t *list, node *n, const char *where) {
    const bool one = json_is_string(json_array_get(list, 0));
    const size_t count = one ? 1 : json_array_size(list);
    n->first_source = f->source_count;
    if (count == 0 || count > NODE_INPUTS_MAX)
        return clq_fail(CLQ_FORMAT, "%s: a layer reads 1 to %d tensors, not %zu", where, NODE_INPUTS_MAX, count);
    for (size_t i = 0; i < count; i++) {
        json_t *tensor = one ? list : json_array_get(list, i);
        const size_t size = json_array_size(tensor);
        char place[256];
        snprintf(place, sizeof place, "%s[%zu]", where, i);
        if (size != 3 && size != 4)
            return clq_fail(CLQ_FORMAT, "%s should be [layer, node, tensor, keywords], as Keras 2 writes it", place);
        CLQ_TRY(check_keywords(json_array_get(tensor, 3), place));
        CLQ_TRY(add_source(f, tensor, place));
    }
    n->source_count = (uint32_t)count;
    return CLQ_OK;
}

/* args: [tensor], or [[tensor, …]] where a layer reads several. */
static clq_status read_node(functional *f, json_t *object, node *n, const char *where) {
    if (json_is_array(object)) return read_old_node(f, object, n, where);
    json_t *arguments = json_object_get(object, "args"), *tensors = json_array_get(arguments, 0);
    if (json_array_size(arguments) != 1)
        return clq_fail(CLQ_UNSUPPORTED, "%s.args: a call with %zu arguments is not supported, only with one", where,
                        json_array_size(arguments));
    CLQ_TRY(check_keywords(json_object_get(object, "kwargs"), where));
    n->first_source = f->source_count;
    const size_t count = json_is_array(tensors) ? json_array_size(tensors) : 1;
    if (count == 0 || count > NODE_INPUTS_MAX)
        return clq_fail(CLQ_FORMAT, "%s.args: a layer reads 1 to %d tensors, not %zu", where, NODE_INPUTS_MAX, count);
    for (size_t i = 0; i < count; i++)
        CLQ_TRY(read_source(f, json_is_array(tensors) ? json_array_get(tensors, i) : tensors, where));
    n->source_count = (uint32_t)count;
    return CLQ_OK;
}

static clq_status read_nodes(functional *f) {
    for (size_t i = 0; i < json_array_size(f->layers); i++) {
        json_t *nodes = json_object_get(layer_at(f, i), "inbound_nodes");
        char place[160], where[224];
        clq_keras_describe_place(layer_at(f, i), i, place);
        for (uint32_t k = f->first_node[i]; k < f->first_node[i + 1]; k++) {
            f->nodes[k].layer = (uint32_t)i;
            if (is_input(layer_at(f, i))) continue;
            snprintf(where, sizeof where, "%s.inbound_nodes[%u]", place, k - f->first_node[i]);
            CLQ_TRY(read_node(f, json_array_get(nodes, k - f->first_node[i]), &f->nodes[k], where));
        }
    }
    return CLQ_OK;
}

/* ---- building ---- */

static clq_status add_node(functional *f, node *n, clq_tensor *inputs) {
    char where[160];
    json_t *layer = layer_at(f, n->layer);
    clq_keras_describe_place(layer, n->layer, where);
    if (is_input(layer)) return clq_keras_add_input(f->model, layer, n->layer, &n->tensor);
    for (uint32_t i = 0; i < n->source_count; i++) inputs[i] = f->nodes[f->sources[n->first_source + i]].tensor;
    const uint32_t before = f->added[n->layer];
    if (!before) {
        CLQ_TRY(clq_keras_add_layer(f->model, layer, n->layer, inputs, n->source_count, &n->tensor));
        f->added[n->layer] = n->tensor.id;
        return CLQ_OK;
    }
    n->tensor = clq_model_apply_again(f->model, f->model->tensors[before - 1].layer, inputs, n->source_count);
    return n->tensor.id ? CLQ_OK : clq_fail_within(clq_error_raise(&f->model->error), "%s", where);
}

/* The next source of a node that is not in the model yet; SIZE_MAX: all are. */
static size_t next_source(const functional *f, const node *n) {
    for (uint32_t i = 0; i < n->source_count; i++)
        if (f->nodes[f->sources[n->first_source + i]].state != DONE) return f->sources[n->first_source + i];
    return SIZE_MAX;
}

/* Adds a node after all that it reads, which may stand behind it in the file. stack: room for all nodes. */
static clq_status add_with_sources(functional *f, uint32_t index, uint32_t *stack, clq_tensor *inputs) {
    size_t depth = 0;
    stack[depth++] = index;
    while (depth > 0) {
        node *n = &f->nodes[stack[depth - 1]];
        const size_t source = next_source(f, n);
        char where[160];
        if (source == SIZE_MAX) {
            CLQ_TRY(add_node(f, n, inputs));
            n->state = DONE;
            depth--;
            continue;
        }
        n->state = OPEN;
        if (f->nodes[source].state == OPEN) {
            clq_keras_describe_place(layer_at(f, f->nodes[source].layer), f->nodes[source].layer, where);
            return clq_fail(CLQ_FORMAT,
                            "%s.inbound_nodes: the layer reads what is computed from its own output: a cycle", where);
        }
        stack[depth++] = (uint32_t)source;
    }
    return CLQ_OK;
}

static clq_status add_nodes(functional *f) {
    uint32_t *stack = clq_alloc(f->node_count, sizeof *stack);
    clq_tensor *inputs = clq_alloc(NODE_INPUTS_MAX, sizeof *inputs);
    clq_status status = stack && inputs ? CLQ_OK : CLQ_MEMORY;
    for (uint32_t k = 0; k < f->node_count && status == CLQ_OK; k++)
        if (f->nodes[k].state != DONE) status = add_with_sources(f, k, stack, inputs);
    clq_free(stack);
    clq_free(inputs);
    return status;
}

/* The nodes that input_layers or output_layers names: ["name", 0, 0], or a list of such. */
static clq_status find_ends(const functional *f, json_t *config, const char *key, size_t most, uint32_t *out,
                            size_t *count) {
    json_t *ends = json_object_get(config, key);
    const bool list = json_is_array(json_array_get(ends, 0));
    char where[64];
    snprintf(where, sizeof where, "config.%s", key);
    if (!json_is_array(ends) || json_array_size(ends) == 0)
        return clq_fail(json_is_object(ends) ? CLQ_UNSUPPORTED : CLQ_FORMAT,
                        "%s should be a list of [layer, node, tensor]", where);
    *count = list ? json_array_size(ends) : 1;
    if (*count > most) return clq_fail(CLQ_UNSUPPORTED, "%s: %zu are not supported, at most %zu", where, *count, most);
    for (size_t i = 0; i < *count; i++) CLQ_TRY(find_node(f, list ? json_array_get(ends, i) : ends, where, &out[i]));
    return CLQ_OK;
}

static clq_status finish(functional *f, json_t *config) {
    clq_tensor outputs[CLQ_MODEL_OUTPUTS_MAX];
    uint32_t found[CLQ_MODEL_OUTPUTS_MAX];
    size_t count;
    CLQ_TRY(find_ends(f, config, "input_layers", 1, found, &count));
    json_t *input = layer_at(f, f->nodes[found[0]].layer);
    if (!is_input(input))
        return clq_fail(CLQ_UNSUPPORTED, "config.input_layers: '%.60s' is no InputLayer", name_of(input));
    CLQ_TRY(find_ends(f, config, "output_layers", CLQ_MODEL_OUTPUTS_MAX, found, &count));
    for (size_t i = 0; i < count; i++) outputs[i] = f->nodes[found[i]].tensor;
    const clq_status status = clq_model_finish_outputs(f->model, outputs, count);
    return status == CLQ_ARGUMENT ? clq_fail_within(status, "config.output_layers") : status;
}

clq_status clq_keras_read_functional(clq_model *model, json_t *config) {
    functional f = {.model = model, .layers = json_object_get(config, "layers")};
    clq_status status = clq_keras_check_layers(f.layers);
    if (status == CLQ_OK) status = index_layers(&f);
    if (status == CLQ_OK) status = count_nodes(&f);
    if (status == CLQ_OK) status = read_nodes(&f);
    if (status == CLQ_OK) status = add_nodes(&f);
    if (status == CLQ_OK) status = finish(&f, config);
    json_decref(f.index);
    clq_free(f.nodes);
    clq_free(f.first_node);
    clq_free(f.added);
    clq_free(f.sources);
    return status;
}
