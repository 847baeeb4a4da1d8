/* Functional and Sequential models, and models within them. A layer's inbound_nodes say what it is applied to: each
 * node gives a tensor, and names the tensors that it reads as [layer, node of that layer, 0]. In a Sequential model
 * each layer has one node, which reads the one before. A model within a model is a layer that adds its own; applied
 * again, it applies these again. */
#include "interop/keras.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODE_INPUTS_MAX = 1024, CALLS_MAX = 1 << 16 };
static const uint32_t given_source = UINT32_MAX; /* what a Sequential model without an InputLayer is applied to */

typedef struct node {
    uint32_t layer; /* index in config.layers */
    uint32_t first_source, source_count;
    json_t *arguments; /* of the call, if some are no tensors; borrowed */
    json_t *keywords;  /* of the call; borrowed */
    enum { WAITING, OPEN, DONE } state;
    clq_tensor tensor; /* once DONE */
} node;

typedef struct functional functional;
struct functional {
    clq_model *model;
    uint32_t *calls;   /* of layers so far, in the whole: models within models may be applied again and again */
    const char *scope; /* names of models that it is within, with dots between; NULL: it is the whole */
    char *own_scope;   /* the same, its own */
    bool frozen;       /* it, or a model that it is within, is not trained */
    clq_tensor given;
    functional **inner;     /* by layer: a model within it, once that was applied; else NULL */
    json_t *layers, *index; /* index: by name, of layers */
    node *nodes;            /* of all layers, one behind the other */
    uint32_t *first_node;   /* by layer; one more at the end */
    uint32_t *added;        /* by layer: its first tensor in the model; 0: it is not there yet */
    json_t **keywords;      /* by layer: those of its first call; borrowed */
    uint32_t *sources;      /* indices of nodes */
    uint32_t node_count, source_count;
    size_t source_capacity;
};

static json_t *layer_at(const functional *f, size_t i) { return json_array_get(f->layers, i); }
static bool is_input(json_t *layer) { return strcmp(clq_keras_class(layer), "InputLayer") == 0; }
static bool is_sequential(json_t *layer) { return strcmp(clq_keras_class(layer), "Sequential") == 0; }

/* A model of Keras's own classes as a layer. */
static bool is_model(json_t *layer) {
    const char *module = json_string_value(json_object_get(layer, "module"));
    const bool keras = !module || strcmp(module, "keras") == 0 || strncmp(module, "keras.", 6) == 0;
    const char *class_name = clq_keras_class(layer);
    return keras && (is_sequential(layer) || strcmp(class_name, "Functional") == 0 || strcmp(class_name, "Model") == 0);
}

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
        if (!is_input(layer) && !is_model(layer)) CLQ_TRY(clq_keras_check_class(layer, i));
        inputs += is_input(layer);
        if (json_object_get(f->index, name_of(layer)))
            return clq_fail(CLQ_FORMAT, "config.layers[%zu].config.name: two layers are named '%.60s'", i,
                            name_of(layer));
        if (json_object_set_new(f->index, name_of(layer), json_integer((json_int_t)i)) != 0)
            return clq_fail(CLQ_MEMORY, "config.layers: out of memory");
    }
    return inputs >= 1 ? CLQ_OK : clq_fail(CLQ_FORMAT, "config.layers has no InputLayer");
}

static clq_status make_room(functional *f) {
    const size_t layers = json_array_size(f->layers);
    f->first_node = clq_alloc(layers + 1, sizeof *f->first_node);
    f->added = clq_alloc(layers, sizeof *f->added);
    f->keywords = clq_alloc(layers, sizeof(json_t *));
    f->inner = clq_alloc(layers, sizeof *f->inner);
    return f->first_node && f->added && f->keywords && f->inner ? CLQ_OK : CLQ_MEMORY;
}

/* An InputLayer has one node, which reads nothing and may stand in the file or not. */
static clq_status count_nodes(functional *f) {
    const size_t layers = json_array_size(f->layers);
    size_t total = 0;
    CLQ_TRY(make_room(f));
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
static clq_status check_keywords(json_t *layer, json_t *keywords, const char *where) {
    const char *key;
    json_t *value;
    if (keywords && !json_is_null(keywords) && !json_is_object(keywords))
        return clq_fail(CLQ_FORMAT, "%s.kwargs should be an object", where);
    json_object_foreach(keywords, key, value) {
        bool harmless = json_is_null(value) || (strcmp(key, "training") == 0 && json_is_boolean(value));
        for (size_t i = 0; clq_keras_is_tensor(value) && clq_keras_input_name(layer, i); i++)
            harmless = harmless || strcmp(key, clq_keras_input_name(layer, i)) == 0;
        if (!harmless && !clq_keras_takes_keyword(layer, key))
            return clq_fail(CLQ_UNSUPPORTED, "%s.kwargs.%.40s is not supported", where, key);
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
        CLQ_TRY(check_keywords(layer_at(f, n->layer), json_array_get(tensor, 3), place));
        if (i == 0) n->keywords = json_array_get(tensor, 3);
        CLQ_TRY(add_source(f, tensor, place));
    }
    n->source_count = (uint32_t)count;
    return CLQ_OK;
}

/* Lists of lists of tensors are none of ours. */
static bool is_list_of_tensors(json_t *argument) {
    size_t i;
    json_t *item;
    json_array_foreach(argument, i, item) if (!clq_keras_is_tensor(item)) return false;
    return json_array_size(argument) > 0;
}

/* args: tensors and lists of them, in order; what else there is, the layer's kind takes, or nobody. */
static clq_status read_node(functional *f, json_t *object, node *n, const char *where) {
    if (json_is_array(object)) return read_old_node(f, object, n, where);
    json_t *arguments = json_object_get(object, "args"), *argument;
    size_t i, k;
    n->keywords = json_object_get(object, "kwargs");
    CLQ_TRY(check_keywords(layer_at(f, n->layer), n->keywords, where));
    n->first_source = f->source_count;
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
    for (i = f->source_count - n->first_source; (name = clq_keras_input_name(layer_at(f, n->layer), i)); i++) {
        json_t *tensor = json_object_get(n->keywords, name);
        if (!clq_keras_is_tensor(tensor)) break;
        CLQ_TRY(read_source(f, tensor, where));
    }
    n->source_count = f->source_count - n->first_source;
    if (n->source_count == 0 || n->source_count > NODE_INPUTS_MAX)
        return clq_fail(CLQ_FORMAT, "%s.args: a layer reads 1 to %d tensors, not %u", where, NODE_INPUTS_MAX,
                        n->source_count);
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

static clq_status call_model(functional *f, const node *n, const clq_tensor *inputs, clq_tensor *out);

static clq_tensor source_of(const functional *f, const node *n, uint32_t i) {
    const uint32_t source = f->sources[n->first_source + i];
    return source == given_source ? f->given : f->nodes[source].tensor;
}

static clq_status add_node(functional *f, node *n, clq_tensor *inputs) {
    char where[160];
    json_t *layer = layer_at(f, n->layer);
    clq_keras_describe_place(layer, n->layer, where);
    if (++*f->calls > CALLS_MAX)
        return clq_fail(CLQ_UNSUPPORTED, "%s: more than %d calls of layers are not supported", where, CALLS_MAX);
    if (is_input(layer)) return clq_fail(CLQ_FORMAT, "%s: no input_layers name it", where);
    if (is_model(layer)) { /* its layers need room for their own inputs */
        clq_tensor own[CLQ_MODEL_INPUTS_MAX];
        if (n->source_count > CLQ_COUNT_OF(own))
            return clq_fail(CLQ_UNSUPPORTED, "%s: a model of %u inputs is not supported", where, n->source_count);
        for (uint32_t i = 0; i < n->source_count; i++) own[i] = source_of(f, n, i);
        return call_model(f, n, own, &n->tensor);
    }
    for (uint32_t i = 0; i < n->source_count; i++) inputs[i] = source_of(f, n, i);
    const uint32_t before = f->added[n->layer];
    if (!before) {
        const clq_keras_call call = {.inputs = inputs,
                                     .count = n->source_count,
                                     .arguments = n->arguments,
                                     .keywords = n->keywords,
                                     .scope = f->scope,
                                     .frozen = f->frozen};
        CLQ_TRY(clq_keras_add_layer(f->model, layer, n->layer, &call, &n->tensor));
        f->added[n->layer] = n->tensor.id;
        f->keywords[n->layer] = n->keywords;
        return CLQ_OK;
    }
    if (!clq_keras_same_keywords(layer, f->keywords[n->layer], n->keywords))
        return clq_fail(CLQ_UNSUPPORTED, "%s: calls with other keywords than the first are not supported", where);
    if (n->arguments) return clq_fail(CLQ_UNSUPPORTED, "%s: only tensors can be arguments of a second call", where);
    n->tensor = clq_model_apply_again(f->model, f->model->tensors[before - 1].layer, inputs, n->source_count);
    return n->tensor.id ? CLQ_OK : clq_fail_within(clq_error_raise(&f->model->error), "%s", where);
}

/* The next source of a node that is not in the model yet; SIZE_MAX: all are. */
static size_t next_source(const functional *f, const node *n) {
    for (uint32_t i = 0; i < n->source_count; i++) {
        const uint32_t source = f->sources[n->first_source + i];
        if (source != given_source && f->nodes[source].state != DONE) return source;
    }
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

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Of ends by name: a list of them, in the order of the names, which is Keras's. NULL: out of memory. */
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

static clq_status find_listed(const functional *f, json_t *ends, const char *where, size_t most, uint32_t *out,
                              size_t *count) {
    const bool list = json_is_array(json_array_get(ends, 0));
    if (!json_is_array(ends) || json_array_size(ends) == 0)
        return clq_fail(CLQ_FORMAT, "%s should be a list of [layer, node, tensor]", where);
    *count = list ? json_array_size(ends) : 1;
    if (*count > most) return clq_fail(CLQ_UNSUPPORTED, "%s: %zu are not supported, at most %zu", where, *count, most);
    for (size_t i = 0; i < *count; i++) CLQ_TRY(find_node(f, list ? json_array_get(ends, i) : ends, where, &out[i]));
    return CLQ_OK;
}

/* The nodes that input_layers or output_layers names: ["name", 0, 0], a list of such, or one for each name. */
static clq_status find_ends(const functional *f, json_t *config, const char *key, size_t most, uint32_t *out,
                            size_t *count) {
    json_t *ends = json_object_get(config, key);
    char where[64];
    snprintf(where, sizeof where, "config.%s", key);
    json_t *list = json_is_object(ends) ? list_by_name(ends) : json_incref(ends);
    if (ends && !list) return clq_fail(CLQ_MEMORY, "%s: out of memory", where);
    const clq_status status = find_listed(f, list, where, most, out, count);
    json_decref(list);
    return status;
}

/* What config.input_layers names, in that order. */
static clq_status add_inputs(functional *f, json_t *config) {
    uint32_t found[CLQ_MODEL_INPUTS_MAX];
    clq_shape shapes[CLQ_MODEL_INPUTS_MAX];
    const char *names[CLQ_MODEL_INPUTS_MAX];
    clq_tensor inputs[CLQ_MODEL_INPUTS_MAX];
    size_t count;
    CLQ_TRY(find_ends(f, config, "input_layers", CLQ_COUNT_OF(found), found, &count));
    for (size_t i = 0; i < count; i++) {
        const uint32_t index = f->nodes[found[i]].layer;
        if (!is_input(layer_at(f, index)))
            return clq_fail(CLQ_UNSUPPORTED, "config.input_layers: '%.60s' is no InputLayer",
                            name_of(layer_at(f, index)));
        CLQ_TRY(clq_keras_read_input(layer_at(f, index), index, &shapes[i], &names[i]));
    }
    clq_inputs(f->model, shapes, names, count, inputs);
    for (size_t i = 0; i < count; i++) {
        if (!inputs[i].id) return clq_fail_within(clq_error_raise(&f->model->error), "config.input_layers");
        f->nodes[found[i]].tensor = inputs[i];
        f->nodes[found[i]].state = DONE;
    }
    return CLQ_OK;
}

static clq_status finish(functional *f, json_t *config) {
    clq_tensor outputs[CLQ_MODEL_OUTPUTS_MAX];
    uint32_t found[CLQ_MODEL_OUTPUTS_MAX];
    size_t count;
    CLQ_TRY(find_ends(f, config, "output_layers", CLQ_MODEL_OUTPUTS_MAX, found, &count));
    for (size_t i = 0; i < count; i++) outputs[i] = f->nodes[found[i]].tensor;
    const clq_status status = clq_model_finish_outputs(f->model, outputs, count);
    return status == CLQ_ARGUMENT ? clq_fail_within(status, "config.output_layers") : status;
}

/* ---- a model's graph ---- */

static void close_graph(functional *f) {
    for (size_t i = 0; f->inner && i < json_array_size(f->layers); i++) {
        if (f->inner[i]) close_graph(f->inner[i]);
        clq_free(f->inner[i]);
    }
    json_decref(f->index);
    clq_free(f->own_scope);
    clq_free(f->inner);
    clq_free(f->nodes);
    clq_free(f->first_node);
    clq_free(f->added);
    clq_free(f->keywords);
    clq_free(f->sources);
}

static clq_status open_functional(functional *f) {
    CLQ_TRY(clq_keras_check_layers(f->layers));
    CLQ_TRY(index_layers(f));
    CLQ_TRY(count_nodes(f));
    return read_nodes(f);
}

/* One node for each layer, which reads the one before. */
static clq_status open_sequential(functional *f) {
    CLQ_TRY(clq_keras_check_layers(f->layers));
    const uint32_t count = (uint32_t)json_array_size(f->layers);
    CLQ_TRY(make_room(f));
    f->nodes = clq_alloc(count, sizeof *f->nodes);
    f->sources = clq_alloc(count, sizeof *f->sources);
    if (!f->nodes || !f->sources) return CLQ_MEMORY;
    f->node_count = f->source_count = count;
    for (uint32_t i = 0; i < count; i++) {
        json_t *layer = layer_at(f, i);
        const bool input = is_input(layer) && i == 0;
        if (!input && !is_model(layer)) CLQ_TRY(clq_keras_check_class(layer, i));
        f->first_node[i] = i;
        f->sources[i] = i == 0 ? given_source : i - 1;
        f->nodes[i] = (node){.layer = i, .first_source = i, .source_count = !input};
    }
    f->first_node[count] = count;
    return CLQ_OK;
}

/* ---- a model within a model ---- */

static bool is_frozen(json_t *config) { return json_is_false(json_object_get(config, "trainable")); }

static clq_status open_inner(functional *outer, uint32_t index) {
    json_t *layer = layer_at(outer, index), *config = json_object_get(layer, "config");
    functional *in = outer->inner[index] = clq_alloc(1, sizeof *in);
    const char *name = name_of(layer) ? name_of(layer) : "model";
    if (!in) return CLQ_MEMORY;
    in->model = outer->model;
    in->calls = outer->calls;
    in->frozen = outer->frozen || is_frozen(config);
    in->own_scope = outer->scope ? clq_strprintf("%s.%s", outer->scope, name) : clq_strdup(name);
    in->scope = in->own_scope;
    in->layers = json_is_array(config) ? config : json_object_get(config, "layers");
    if (!in->scope) return CLQ_MEMORY;
    return is_sequential(layer) ? open_sequential(in) : open_functional(in);
}

/* Its inputs are the tensors that it is applied to. */
static clq_status bind_inputs(functional *in, json_t *layer, const node *n, const clq_tensor *inputs) {
    uint32_t found[CLQ_MODEL_INPUTS_MAX] = {0};
    size_t count = 1;
    for (uint32_t k = 0; k < in->node_count; k++) in->nodes[k].state = WAITING;
    in->given = inputs[0];
    if (is_sequential(layer)) {
        if (n->source_count != 1)
            return clq_fail(CLQ_FORMAT, "a Sequential model has one input, not %u", n->source_count);
        if (!is_input(layer_at(in, 0))) return CLQ_OK;
    } else {
        CLQ_TRY(find_ends(in, json_object_get(layer, "config"), "input_layers", CLQ_COUNT_OF(found), found, &count));
    }
    if (count != n->source_count)
        return clq_fail(CLQ_FORMAT, "a model of %zu inputs is applied to %u tensors", count, n->source_count);
    for (size_t i = 0; i < count; i++) {
        in->nodes[found[i]].tensor = inputs[i];
        in->nodes[found[i]].state = DONE;
    }
    return CLQ_OK;
}

static clq_status find_output(functional *in, json_t *layer, clq_tensor *out) {
    uint32_t found = in->node_count - 1;
    size_t count;
    if (!is_sequential(layer))
        CLQ_TRY(find_ends(in, json_object_get(layer, "config"), "output_layers", 1, &found, &count));
    *out = in->nodes[found].tensor;
    return CLQ_OK;
}

static clq_status call_model(functional *f, const node *n, const clq_tensor *inputs, clq_tensor *out) {
    json_t *layer = layer_at(f, n->layer);
    char where[160];
    clq_keras_describe_place(layer, n->layer, where);
    clq_status status = f->inner[n->layer] ? CLQ_OK : open_inner(f, n->layer);
    functional *in = f->inner[n->layer];
    if (status == CLQ_OK) status = bind_inputs(in, layer, n, inputs);
    if (status == CLQ_OK) status = add_nodes(in);
    if (status == CLQ_OK) status = find_output(in, layer, out);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "%s", where);
}

/* ---- the whole ---- */

clq_status clq_keras_read_functional(clq_model *model, json_t *config) {
    uint32_t calls = 0;
    functional f = {
        .model = model, .calls = &calls, .frozen = is_frozen(config), .layers = json_object_get(config, "layers")};
    clq_status status = open_functional(&f);
    if (status == CLQ_OK) status = add_inputs(&f, config);
    if (status == CLQ_OK) status = add_nodes(&f);
    if (status == CLQ_OK) status = finish(&f, config);
    close_graph(&f);
    return status;
}

/* The InputLayer of a Sequential model. */
static clq_status add_first(functional *f) {
    clq_shape shape;
    const char *name;
    char where[160];
    clq_keras_describe_place(layer_at(f, 0), 0, where);
    CLQ_TRY(clq_keras_read_input(layer_at(f, 0), 0, &shape, &name));
    f->nodes[0].tensor = clq_model_add_input(f->model, shape, name);
    f->nodes[0].state = DONE;
    return f->nodes[0].tensor.id ? CLQ_OK : clq_fail_within(clq_error_raise(&f->model->error), "%s", where);
}

clq_status clq_keras_read_sequential(clq_model *model, json_t *config, json_t *layers, clq_tensor given) {
    uint32_t calls = 0;
    functional f = {.model = model, .calls = &calls, .frozen = is_frozen(config), .layers = layers, .given = given};
    clq_status status = open_sequential(&f);
    if (status == CLQ_OK && f.nodes[0].source_count == 0) status = add_first(&f);
    if (status == CLQ_OK) status = add_nodes(&f);
    if (status == CLQ_OK) status = clq_model_finish(model, f.nodes[f.node_count - 1].tensor);
    close_graph(&f);
    return status;
}
