/* The order in which Keras goes through a Functional model: calls that are farther from the outputs come first, and
 * among equally far calls the one that is met first (map_graph of keras/src/ops/function.py). In this order Keras runs
 * the calls, and numbers the layers of each class in files of weights. */
#include "interop/keras_order.h"

#include "interop/keras_reading.h"

#include <stdlib.h>
#include <string.h>

/* What the walk from the outputs finds out about layers and calls. */
typedef struct order {
    const clq_keras_calls *calls;
    size_t *met, *farness;               /* by layer. met: when the walk met it, counted from 1; 0: never */
    size_t *call_farness, *call_reached; /* by call. reached: when it was met or read first, from 1 on; 0: never */
    size_t *behind;                      /* calls, each after all calls that it reads */
    size_t behind_count;
    struct step {
        size_t call, next;
    } * way;    /* stack of the walk: calls on the way, each with its next input */
    bool *done; /* by call: it is, or was, on the way */
} order;

static clq_status open_order(const clq_keras_calls *calls, order *o) {
    const size_t count = CLQ_MAX(calls->call_count, (size_t)1), layers = CLQ_MAX(calls->layer_count, (size_t)1);
    *o = (order){.calls = calls,
                 .met = clq_alloc(layers, sizeof *o->met),
                 .farness = clq_alloc(layers, sizeof *o->farness),
                 .call_farness = clq_alloc(count, sizeof *o->call_farness),
                 .call_reached = clq_alloc(count, sizeof *o->call_reached),
                 .behind = clq_alloc(count, sizeof *o->behind),
                 .way = clq_alloc(count, sizeof *o->way),
                 .done = clq_alloc(count, sizeof *o->done)};
    const bool all = o->met && o->farness && o->call_farness && o->call_reached && o->behind && o->way && o->done;
    return all ? CLQ_OK : CLQ_ERROR_MEMORY;
}

static void close_order(order *o) {
    clq_free(o->met);
    clq_free(o->farness);
    clq_free(o->call_farness);
    clq_free(o->call_reached);
    clq_free(o->behind);
    clq_free(o->way);
    clq_free(o->done);
}

static size_t first_input(const clq_keras_calls *calls, size_t call) {
    return call > 0 ? calls->input_end[call - 1] : 0;
}

static void enter(order *o, size_t call, size_t *depth, size_t *met) {
    size_t *mine = &o->met[o->calls->layer_of[call]];
    if (*mine == 0) *mine = ++*met;
    o->done[call] = true;
    o->way[(*depth)++] = (struct step){call, first_input(o->calls, call)};
}

/* Walks from a call to all calls that it reads, directly or not. In a cycle, which only a damaged file has, the walk
 * ends where it began. */
static void walk(order *o, size_t from, size_t *met) {
    const clq_keras_calls *calls = o->calls;
    size_t depth = 0;
    if (from >= calls->call_count || o->done[from]) return;
    enter(o, from, &depth, met);
    while (depth > 0) {
        struct step *here = &o->way[depth - 1];
        while (here->next < calls->input_end[here->call] && o->done[calls->inputs[here->next]]) here->next++;
        if (here->next < calls->input_end[here->call]) {
            enter(o, calls->inputs[here->next++], &depth, met);
            continue;
        }
        o->behind[o->behind_count++] = here->call;
        depth--;
    }
}

static void reach(order *o, size_t call, size_t *reached) {
    if (o->call_reached[call] == 0) o->call_reached[call] = ++*reached;
}

static clq_status find_order(const clq_keras_calls *calls, order *o) {
    size_t met = 0, reached = 0;
    CLQ_TRY(open_order(calls, o));
    for (size_t i = 0; i < calls->output_count; i++) walk(o, calls->outputs[i], &met);
    for (size_t i = o->behind_count; i-- > 0;) {
        const size_t call = o->behind[i];
        size_t *of_layer = &o->farness[calls->layer_of[call]];
        reach(o, call, &reached);
        *of_layer = CLQ_MAX(*of_layer, o->call_farness[call]);
        o->call_farness[call] = *of_layer;
        for (size_t k = first_input(calls, call); k < calls->input_end[call]; k++) {
            size_t *read = &o->call_farness[calls->inputs[k]];
            reach(o, calls->inputs[k], &reached);
            *read = CLQ_MAX(*read, *of_layer + 1);
        }
    }
    return CLQ_OK;
}

typedef struct ranked {
    size_t farness, met, place;
} ranked;

static int by_rank(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->farness != b->farness) return a->farness > b->farness ? -1 : 1;
    return a->met < b->met ? -1 : a->met > b->met ? 1 : (a->place > b->place) - (a->place < b->place);
}

clq_status clq_keras_find_turns(const clq_keras_calls *calls, size_t *turns) {
    ranked *ranks = clq_alloc(CLQ_MAX(calls->call_count, (size_t)1), sizeof *ranks);
    order o = {0};
    clq_status status = ranks ? find_order(calls, &o) : CLQ_ERROR_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < calls->call_count && status == CLQ_OK; i++) {
        turns[i] = SIZE_MAX;
        if (o.call_reached[i] > 0) ranks[count++] = (ranked){o.call_farness[i], o.call_reached[i], i};
    }
    if (count > 0) qsort(ranks, count, sizeof *ranks, by_rank);
    for (size_t i = 0; i < count; i++) turns[ranks[i].place] = i;
    close_order(&o);
    clq_free(ranks);
    return status;
}

/* ---- layers of a file ---- */

/* The calls of a file's layers, one layer after the other. An InputLayer has one call. */
typedef struct graph {
    json_t *layers, *places; /* places: by name, the index of a layer */
    size_t layer_count, call_count;
    size_t *first;              /* (layer_count + 1) by layer: its first call */
    size_t *layer_of;           /* (call_count) */
    size_t *inputs, *input_end; /* calls that each call reads: those of call i end at input_end[i] */
    size_t input_count, input_capacity;
    clq_status status;
} graph;

static size_t calls_of(json_t *layer) {
    const size_t calls = json_array_size(json_object_get(layer, "inbound_nodes"));
    return CLQ_MAX(calls, (size_t)1);
}

/* The call of a reference, [name, call, tensor]; call_count: there is none. */
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
        g->status = CLQ_ERROR_MEMORY;
        return;
    }
    g->inputs = grown;
    g->inputs[g->input_count++] = call;
}

static int by_key(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static void add_inputs(graph *g, json_t *value);

/* Keras goes through keywords in alphabetical order. */
static void add_members(graph *g, json_t *object) {
    const size_t count = json_object_size(object);
    const char **keys = clq_alloc(CLQ_MAX(count, (size_t)1), sizeof *keys), *key;
    json_t *value;
    size_t at = 0;
    if (!keys) {
        g->status = CLQ_ERROR_MEMORY;
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
    if (!g->places || !g->first) return CLQ_ERROR_MEMORY;
    json_array_foreach(layers, i, layer) {
        const char *name = json_string_value(json_object_get(layer, "name"));
        if (!name || json_object_set_new(g->places, name, json_integer((json_int_t)i)) != 0) return CLQ_ERROR_MEMORY;
        g->first[i + 1] = g->first[i] + calls_of(layer);
    }
    g->call_count = g->first[g->layer_count];
    const size_t calls = CLQ_MAX(g->call_count, (size_t)1);
    g->layer_of = clq_alloc(calls, sizeof *g->layer_of);
    g->input_end = clq_alloc(calls, sizeof *g->input_end);
    if (!g->layer_of || !g->input_end) return CLQ_ERROR_MEMORY;
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
}

static clq_status arrange(const graph *g, const order *o, json_t **out) {
    ranked *ranks = clq_alloc(CLQ_MAX(g->layer_count, (size_t)1), sizeof *ranks);
    json_t *arranged = json_array();
    clq_status status = ranks && arranged ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < g->layer_count && status == CLQ_OK; i++) ranks[i] = (ranked){o->farness[i], o->met[i], i};
    if (status == CLQ_OK) qsort(ranks, g->layer_count, sizeof *ranks, by_rank);
    for (size_t i = 0; i < g->layer_count && status == CLQ_OK; i++)
        if (json_array_append(arranged, json_array_get(g->layers, ranks[i].place)) != 0) status = CLQ_ERROR_MEMORY;
    clq_free(ranks);
    if (status == CLQ_OK)
        *out = arranged;
    else
        json_decref(arranged);
    return status;
}

/* outputs: [name, call, tensor], or a list of them. */
clq_status clq_keras_arrange(json_t *layers, json_t *outputs, json_t **out) {
    const bool list = json_is_array(json_array_get(outputs, 0));
    const size_t count = list ? json_array_size(outputs) : 1;
    size_t *ends = clq_alloc(count, sizeof *ends);
    graph g = {0};
    order o = {0};
    clq_status status = ends ? open_graph(layers, &g) : CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < count && status == CLQ_OK; i++)
        ends[i] = find_call(&g, list ? json_array_get(outputs, i) : outputs);
    const clq_keras_calls calls = {.layer_count = g.layer_count,
                                   .call_count = g.call_count,
                                   .layer_of = g.layer_of,
                                   .inputs = g.inputs,
                                   .input_end = g.input_end,
                                   .outputs = ends,
                                   .output_count = count};
    if (status == CLQ_OK) status = find_order(&calls, &o);
    if (status == CLQ_OK) status = arrange(&g, &o, out);
    close_order(&o);
    close_graph(&g);
    clq_free(ends);
    return status == CLQ_ERROR_MEMORY ? clq_fail_memory("arranging a model's layers") : status;
}
