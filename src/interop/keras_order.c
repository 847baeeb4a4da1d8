/* The order of a Functional model's layers in Keras, which numbers layers of a class by it in files of weights: those
 * that are farther from the outputs come first, and of equally far ones those that are met first on the way from the
 * outputs (map_graph of keras/src/ops/function.py). */
#include "interop/keras_reading.h"

#include <stdlib.h>
#include <string.h>

/* Calls of layers, one behind the other. An input has one. */
typedef struct graph {
    json_t *layers, *places; /* places: by name, the index of a layer */
    size_t layer_count, call_count;
    size_t *first;              /* (layer_count + 1) of each layer its first call */
    size_t *layer_of;           /* (call_count) */
    size_t *inputs, *input_end; /* calls that each reads: those of call i end at input_end[i] */
    size_t input_count, input_capacity;
    size_t *met, *farness; /* by layer; met: in which order, from 1 on, 0: not at all */
    size_t *call_farness;  /* by call */
    size_t *behind;        /* calls, each behind all that it reads */
    size_t behind_count;
    struct step {
        size_t call, next;
    } * way; /* of the walk: calls on the way, and the input that is next */
    bool *done;
    clq_status status;
} graph;

static size_t calls_of(json_t *layer) {
    const size_t calls = json_array_size(json_object_get(layer, "inbound_nodes"));
    return CLQ_MAX(calls, (size_t)1);
}

/* The call of a reference, [name, call, tensor]; the call count: none. */
static size_t find_call(const graph *g, json_t *history) {
    const char *name = json_string_value(json_array_get(history, 0));
    json_t *place = name ? json_object_get(g->places, name) : NULL;
    const json_int_t call = json_integer_value(json_array_get(history, 1));
    if (!place || call < 0) return g->call_count;
    const size_t layer = (size_t)json_integer_value(place), found = g->first[layer] + (size_t)call;
    return found < g->first[layer + 1] ? found : g->call_count;
}

static void add_input(graph *g, json_t *history) {
    const size_t call = find_call(g, history);
    if (call == g->call_count || g->status != CLQ_OK) return;
    size_t *grown = clq_grow(g->inputs, g->input_count, &g->input_capacity, 64, sizeof *grown);
    if (!grown) {
        g->status = CLQ_MEMORY;
        return;
    }
    g->inputs = grown;
    g->inputs[g->input_count++] = call;
}

static int by_key(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static void add_inputs(graph *g, json_t *value);

/* Keras goes through keywords in the order of the alphabet. */
static void add_members(graph *g, json_t *object) {
    const size_t count = json_object_size(object);
    const char **keys = clq_alloc(CLQ_MAX(count, (size_t)1), sizeof *keys), *key;
    json_t *value;
    size_t at = 0;
    if (!keys) {
        g->status = CLQ_MEMORY;
        return;
    }
    json_object_foreach(object, key, value) keys[at++] = key;
    qsort(keys, count, sizeof *keys, by_key);
    for (size_t i = 0; i < count; i++) add_inputs(g, json_object_get(object, keys[i]));
    clq_free(keys);
}

static void add_inputs(graph *g, json_t *value) {
    size_t i;
    json_t *child, *history = json_object_get(json_object_get(value, "config"), "keras_history");
    if (history) {
        add_input(g, history);
    } else if (json_is_array(value)) {
        json_array_foreach(value, i, child) add_inputs(g, child);
    } else if (json_is_object(value)) {
        add_members(g, value);
    }
}

static clq_status open_graph(json_t *layers, graph *g) {
    size_t i;
    json_t *layer;
    g->layers = layers;
    g->layer_count = json_array_size(layers);
    g->places = json_object();
    g->first = clq_alloc(g->layer_count + 1, sizeof *g->first);
    if (!g->places || !g->first) return CLQ_MEMORY;
    json_array_foreach(layers, i, layer) {
        const char *name = json_string_value(json_object_get(layer, "name"));
        if (!name || json_object_set_new(g->places, name, json_integer((json_int_t)i)) != 0) return CLQ_MEMORY;
        g->first[i + 1] = g->first[i] + calls_of(layer);
    }
    g->call_count = g->first[g->layer_count];
    const size_t calls = CLQ_MAX(g->call_count, (size_t)1), count = CLQ_MAX(g->layer_count, (size_t)1);
    g->layer_of = clq_alloc(calls, sizeof *g->layer_of);
    g->input_end = clq_alloc(calls, sizeof *g->input_end);
    g->call_farness = clq_alloc(calls, sizeof *g->call_farness);
    g->behind = clq_alloc(calls, sizeof *g->behind);
    g->way = clq_alloc(calls, sizeof *g->way);
    g->done = clq_alloc(calls, sizeof *g->done);
    g->met = clq_alloc(count, sizeof *g->met);
    g->farness = clq_alloc(count, sizeof *g->farness);
    if (!g->layer_of || !g->input_end || !g->call_farness || !g->behind || !g->way || !g->done || !g->met ||
        !g->farness)
        return CLQ_MEMORY;
    json_array_foreach(layers, i, layer) for (size_t call = g->first[i]; call < g->first[i + 1]; call++) {
        json_t *node = json_array_get(json_object_get(layer, "inbound_nodes"), call - g->first[i]);
        g->layer_of[call] = i;
        add_inputs(g, json_object_get(node, "args"));
        add_inputs(g, json_object_get(node, "kwargs"));
        g->input_end[call] = g->input_count;
    }
    return g->status;
}

static void close_graph(graph *g) {
    json_decref(g->places);
    clq_free(g->first);
    clq_free(g->layer_of);
    clq_free(g->inputs);
    clq_free(g->input_end);
    clq_free(g->met);
    clq_free(g->farness);
    clq_free(g->call_farness);
    clq_free(g->behind);
    clq_free(g->way);
    clq_free(g->done);
}

static void enter(graph *g, size_t call, size_t *depth, size_t *met) {
    size_t *mine = &g->met[g->layer_of[call]];
    if (*mine == 0) *mine = ++*met;
    g->way[(*depth)++] = (struct step){call, call > 0 ? g->input_end[call - 1] : 0};
}

/* From a call to all that it reads, directly or not. A model has no rings, so that no call is on the way twice. */
static void walk(graph *g, size_t from, size_t *met) {
    size_t depth = 0;
    if (from == g->call_count || g->done[from]) return;
    enter(g, from, &depth, met);
    while (depth > 0) {
        struct step *here = &g->way[depth - 1];
        while (here->next < g->input_end[here->call] && g->done[g->inputs[here->next]]) here->next++;
        if (here->next < g->input_end[here->call]) {
            enter(g, g->inputs[here->next++], &depth, met);
            continue;
        }
        g->done[here->call] = true;
        g->behind[g->behind_count++] = here->call;
        depth--;
    }
}

static void measure(graph *g) {
    for (size_t i = g->behind_count; i-- > 0;) {
        const size_t call = g->behind[i], begin = call > 0 ? g->input_end[call - 1] : 0;
        size_t *of_layer = &g->farness[g->layer_of[call]];
        *of_layer = CLQ_MAX(*of_layer, g->call_farness[call]);
        g->call_farness[call] = *of_layer;
        for (size_t k = begin; k < g->input_end[call]; k++) {
            size_t *read = &g->call_farness[g->inputs[k]];
            *read = CLQ_MAX(*read, *of_layer + 1);
        }
    }
}

typedef struct ranked {
    size_t farness, met, place;
} ranked;

static int by_rank(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->farness != b->farness) return a->farness > b->farness ? -1 : 1;
    return a->met < b->met ? -1 : a->met > b->met ? 1 : (a->place > b->place) - (a->place < b->place);
}

static clq_status arrange(const graph *g, json_t **out) {
    ranked *order = clq_alloc(CLQ_MAX(g->layer_count, (size_t)1), sizeof *order);
    json_t *arranged = json_array();
    clq_status status = order && arranged ? CLQ_OK : CLQ_MEMORY;
    for (size_t i = 0; i < g->layer_count && status == CLQ_OK; i++)
        order[i] = (ranked){.farness = g->farness[i], .met = g->met[i], .place = i};
    if (status == CLQ_OK) qsort(order, g->layer_count, sizeof *order, by_rank);
    for (size_t i = 0; i < g->layer_count && status == CLQ_OK; i++)
        if (json_array_append(arranged, json_array_get(g->layers, order[i].place)) != 0) status = CLQ_MEMORY;
    clq_free(order);
    if (status == CLQ_OK)
        *out = arranged;
    else
        json_decref(arranged);
    return status;
}

/* outputs: [name, call, tensor], or a list of them. */
clq_status clq_keras_arrange(json_t *layers, json_t *outputs, json_t **out) {
    graph g = {0};
    size_t met = 0;
    clq_status status = open_graph(layers, &g);
    if (status == CLQ_OK && json_is_array(json_array_get(outputs, 0)))
        for (size_t i = 0; i < json_array_size(outputs); i++) walk(&g, find_call(&g, json_array_get(outputs, i)), &met);
    else if (status == CLQ_OK)
        walk(&g, find_call(&g, outputs), &met);
    if (status == CLQ_OK) {
        measure(&g);
        status = arrange(&g, out);
    }
    close_graph(&g);
    return status == CLQ_MEMORY ? clq_fail_memory("arranging a model's layers") : status;
}
