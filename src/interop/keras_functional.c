/* Functional and Sequential models, and models within them. A layer's inbound_nodes say what the layer is applied to:
 * each node is one call, and names the tensors that it reads as [layer, node of that layer, output]. In a Sequential
 * model each layer has one node, which reads the layer before. An inner model is a layer that adds layers of its own;
 * applied again, it applies these layers again. */
#include "graph/graph.h"
#include "interop/keras_masks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- building ---- */

static clq_status call_model(clq_keras_graph *f, clq_keras_node *n, const clq_tensor *inputs);

/* The keyword of a call that asks for one more tensor than the layer gives; NULL: there is none. */
static const char *further_of(json_t *layer, json_t *keywords) {
    const char *key;
    json_t *value;
    json_object_foreach(keywords, key, value) if (json_is_true(value) && clq_keras_is_further(layer, key)) return key;
    return NULL;
}

/* Tensor number `output` of a node that is DONE. */
static clq_status find_tensor(const clq_keras_graph *f, const clq_keras_source *from, const char *where,
                              clq_tensor *out) {
    const clq_keras_node *n = &f->nodes[from->node];
    const char *further = further_of(clq_keras_layer_at(f, n->layer), n->keywords);
    if (further && from->output == 1)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: what layer '%.60s' gives by %s is not supported", where,
                        clq_keras_name(clq_keras_layer_at(f, n->layer)), further);
    if (from->output >= CLQ_MAX(n->output_count, 1u))
        return clq_fail(CLQ_ERROR_FORMAT, "%s: layer '%.60s' gives %u tensor%s, and number %u is asked for", where,
                        clq_keras_name(clq_keras_layer_at(f, n->layer)), CLQ_MAX(n->output_count, 1u),
                        clq_plural(CLQ_MAX(n->output_count, 1u)), from->output);
    *out = n->outputs ? n->outputs[from->output] : n->tensor;
    return CLQ_OK;
}

static clq_status find_source(const clq_keras_graph *f, const clq_keras_node *n, uint32_t i, const char *where,
                              clq_tensor *out) {
    const clq_keras_source *from = &f->sources[n->first_source + i];
    if (from->node != CLQ_KERAS_GIVEN) return find_tensor(f, from, where, out);
    *out = f->given;
    return CLQ_OK;
}

/* As find_source. Only if it fails, the layer's place is put into words for the message. */
static clq_status find_placed(const clq_keras_graph *f, const clq_keras_node *n, uint32_t i, clq_tensor *out) {
    char where[160];
    if (find_source(f, n, i, "", out) == CLQ_OK) return CLQ_OK;
    clq_keras_describe_place(clq_keras_layer_at(f, n->layer), n->layer, where);
    return find_source(f, n, i, where, out);
}

/* Notes the outputs of a layer that gives several. Each output gets a name that no layer of a file has. If an inner
 * model is called again, these names are taken, and the outputs get numbered names as unnamed layers do. */
static clq_status note_outputs(clq_keras_graph *f, clq_keras_node *n, const char *where) {
    const unsigned count = clq_model_outputs_of(f->model, n->tensor);
    const uint32_t number = (uint32_t)(n - f->nodes) - f->first_node[n->layer];
    char name[CLQ_LAYER_NAME_MAX];
    if (count == 1) return CLQ_OK;
    n->outputs = clq_alloc(count, sizeof *n->outputs);
    if (!n->outputs) return CLQ_ERROR_MEMORY;
    n->output_count = count;
    for (unsigned k = 0; k < count; k++) {
        const int length = snprintf(name, sizeof name, "%s%s%s.%u.%u", f->scope ? f->scope : "", f->scope ? "." : "",
                                    clq_keras_name(clq_keras_layer_at(f, n->layer)), number, k);
        const bool fits = length < (int)sizeof name && !clq_model_has_layer(f->model, name);
        n->outputs[k] = clq_model_output_of(f->model, n->tensor, k, fits ? name : NULL);
        if (!n->outputs[k].id) return clq_fail_within(clq_error_raise(&f->model->error), "%s", where);
    }
    return CLQ_OK;
}

/* Checks that the arguments of a model's call are tensors, with nothing but nulls after them. */
static clq_status check_arguments(const clq_keras_node *n, const char *where) {
    json_t *argument;
    size_t i;
    bool ended = false;
    json_array_foreach(n->arguments, i, argument) {
        if (!ended && (clq_keras_is_tensor(argument) || json_is_array(argument))) continue;
        ended = true;
        if (!json_is_null(argument))
            return clq_fail(CLQ_ERROR_UNSUPPORTED,
                            "%s: argument %zu of its call: only tensors, and no gaps between them, are "
                            "supported: name what follows",
                            where, i + 1);
    }
    return CLQ_OK;
}

/* The layer's place in the file's text; the caller's. All layers in a block have the block's place, also those of
 * models within the block. */
static char *find_place(const clq_keras_graph *f, uint32_t layer) {
    if (f->in_block) return clq_strdup(f->place);
    return f->place ? clq_strprintf("%s/%u", f->place, layer) : clq_strprintf("%u", layer);
}

/* Notes where the layer is in files of weights, and in the file's text. */
static clq_status note_places(const clq_keras_graph *f, const clq_keras_node *n) {
    char *place = find_place(f, n->layer);
    if (!place) return CLQ_ERROR_MEMORY;
    const clq_status status = clq_model_note_path(f->model, n->tensor, f->stores[n->layer], place);
    clq_free(place);
    if (status != CLQ_OK || f->stores[n->layer] || !f->of_parts) return status;
    const char *store = json_string_value(json_object_get(clq_keras_layer_at(f, n->layer), "store"));
    return clq_model_note_block_store(f->model, n->tensor, f->scope, store);
}

static clq_status call_layer(clq_keras_graph *f, clq_keras_node *n, clq_tensor *inputs);

/* Refuses a mask that Keras ends in evaluation alone. An example is the mask of a Dropout's input, if an attention
 * reads the Dropout's output: in evaluation the two are one tensor. */
static clq_status refuse_unsure(const char *where, const char *whose) {
    return clq_fail(CLQ_ERROR_UNSUPPORTED,
                    "%s: in Keras the mask of '%.60s' counts here in training and not in evaluation: "
                    "a MultiHeadAttention reads the same tensor through a layer that does nothing in evaluation, for "
                    "example Dropout, and ends the mask there; let both read the output of that layer",
                    where, whose);
}

/* Takes the mask off a source if Keras has done so by the time the node runs. *mask: the mask that the source had. */
static clq_status hide_mask(const clq_keras_graph *f, const clq_keras_node *n, uint32_t i, uint32_t *mask) {
    const clq_keras_source *from = &f->sources[n->first_source + i];
    json_t *layer = clq_keras_layer_at(f, n->layer);
    const clq_keras_mask_state state = clq_keras_mask_state_of(f, from, (uint32_t)(n - f->nodes));
    clq_tensor x;
    CLQ_TRY(find_placed(f, n, i, &x));
    uint32_t *own = &f->model->tensors[x.id - 1].mask;
    *mask = *own;
    if (state == CLQ_KERAS_MASK_ENDED) *own = 0;
    if (state != CLQ_KERAS_MASK_UNSURE || !*own || !(clq_keras_is_model(layer) || clq_keras_heeds_masks(layer)))
        return CLQ_OK;
    char where[160];
    clq_keras_describe_place(layer, n->layer, where);
    return refuse_unsure(where, f->model->layers[f->model->tensors[x.id - 1].layer - 1].name);
}

/* Refuses a layer that changes nothing and passes on no mask, if anything later may look at its mask. With Keras's JAX
 * backend the layer gives its input itself, with the mask; with other backends the mask is gone. */
static clq_status check_nothing_done(const clq_keras_graph *f, const clq_keras_node *n) {
    json_t *layer = clq_keras_layer_at(f, n->layer);
    clq_tensor x;
    if (!clq_keras_may_do_nothing(layer, n) || n->outputs) return CLQ_OK;
    CLQ_TRY(find_placed(f, n, 0, &x));
    const clq_model_tensor *from = &f->model->tensors[x.id - 1], *y = &f->model->tensors[n->tensor.id - 1];
    if (!from->mask || y->mask || !clq_shape_equal(&from->shape, &y->shape)) return CLQ_OK;
    if (!clq_keras_heeds_output(f, (uint32_t)(n - f->nodes))) return CLQ_OK;
    char where[160];
    clq_keras_describe_place(layer, n->layer, where);
    return clq_fail(CLQ_ERROR_UNSUPPORTED,
                    "%s: it gives its input unchanged; Keras keeps the mask with the JAX backend and drops it with "
                    "others: leave the layer out",
                    where);
}

/* Adds a node with the masks that its inputs have in Keras when the node runs. masks: room for the inputs' masks. */
static clq_status add_node(clq_keras_graph *f, clq_keras_node *n, clq_tensor *inputs, uint32_t *masks) {
    clq_status status = CLQ_OK;
    uint32_t hidden = 0;
    for (; hidden < n->source_count && status == CLQ_OK && f->masks; hidden++)
        status = hide_mask(f, n, hidden, &masks[hidden]);
    if (status != CLQ_OK) return status; /* the masks stay hidden: the model is only destroyed */
    status = call_layer(f, n, inputs);
    if (status == CLQ_OK && f->masks) status = check_nothing_done(f, n);
    while (hidden-- > 0) {
        clq_tensor x;
        if (find_source(f, n, hidden, "", &x) == CLQ_OK) f->model->tensors[x.id - 1].mask = masks[hidden];
    }
    return status;
}

static clq_status call_layer(clq_keras_graph *f, clq_keras_node *n, clq_tensor *inputs) {
    char where[160];
    json_t *layer = clq_keras_layer_at(f, n->layer);
    clq_keras_describe_place(layer, n->layer, where);
    if (++*f->calls > CALLS_MAX)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: more than %d calls of layers are not supported", where, CALLS_MAX);
    if (clq_keras_is_input(layer)) return clq_fail(CLQ_ERROR_FORMAT, "%s: no input_layers name it", where);
    if (clq_keras_is_model(layer)) { /* its layers need room for their own inputs */
        clq_tensor own[CLQ_MODEL_INPUTS_MAX];
        if (!clq_keras_block_takes_arguments(layer)) CLQ_TRY(check_arguments(n, where));
        if (n->source_count > CLQ_COUNT_OF(own))
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: a model of %u inputs is not supported", where, n->source_count);
        for (uint32_t i = 0; i < n->source_count; i++) CLQ_TRY(find_source(f, n, i, where, &own[i]));
        return call_model(f, n, own);
    }
    for (uint32_t i = 0; i < n->source_count; i++) CLQ_TRY(find_source(f, n, i, where, &inputs[i]));
    const uint32_t before = f->added[n->layer];
    if (!before) {
        const clq_keras_call call = {.inputs = inputs,
                                     .count = n->source_count,
                                     .positional = n->positional,
                                     .arguments = n->arguments,
                                     .first = n->first,
                                     .keywords = n->keywords,
                                     .scope = f->scope,
                                     .frozen = f->frozen,
                                     .is_part = f->of_parts,
                                     .is_itself = f->own_config && json_is_true(json_object_get(layer, "itself"))};
        CLQ_TRY(clq_keras_add_layer(f->model, layer, n->layer, &call, &n->tensor));
        CLQ_TRY(note_places(f, n));
        f->added[n->layer] = n->tensor.id;
        f->keywords[n->layer] = n->keywords;
        f->arguments[n->layer] = n->arguments;
        f->positional[n->layer] = n->positional;
        return note_outputs(f, n, where);
    }
    if (n->positional != f->positional[n->layer] || !clq_keras_same_keywords(layer, f->keywords[n->layer], n->keywords))
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "%s: calls with other keywords than the first, or more or fewer tensors, are not supported",
                        where);
    if (!clq_keras_same_arguments(f->arguments[n->layer], n->arguments))
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: calls with other arguments than the first are not supported",
                        where);
    n->tensor = clq_model_apply_again(f->model, f->model->tensors[before - 1].layer, inputs, n->source_count);
    if (!n->tensor.id) return clq_fail_within(clq_error_raise(&f->model->error), "%s", where);
    return note_outputs(f, n, where);
}

/* The node of the next source that is not in the model yet; SIZE_MAX: all are in it. */
static size_t next_source(const clq_keras_graph *f, const clq_keras_node *n) {
    for (uint32_t i = 0; i < n->source_count; i++) {
        const uint32_t from = f->sources[n->first_source + i].node;
        if (from != CLQ_KERAS_GIVEN && f->nodes[from].state != DONE) return from;
    }
    return SIZE_MAX;
}

/* Adds a node after all nodes that it reads, which may come later in the file. stack: room for all nodes. */
static clq_status add_with_sources(clq_keras_graph *f, uint32_t index, uint32_t *stack, clq_tensor *inputs,
                                   uint32_t *masks) {
    size_t depth = 0;
    stack[depth++] = index;
    while (depth > 0) {
        clq_keras_node *n = &f->nodes[stack[depth - 1]];
        const size_t next = next_source(f, n);
        char where[160];
        if (next == SIZE_MAX) {
            CLQ_TRY(add_node(f, n, inputs, masks));
            n->state = DONE;
            depth--;
            continue;
        }
        n->state = OPEN;
        if (f->nodes[next].state == OPEN) {
            clq_keras_describe_place(clq_keras_layer_at(f, f->nodes[next].layer), f->nodes[next].layer, where);
            return clq_fail(CLQ_ERROR_FORMAT,
                            "%s.inbound_nodes: the layer reads what is computed from its own output: a cycle", where);
        }
        stack[depth++] = (uint32_t)next;
    }
    return CLQ_OK;
}

static clq_status add_nodes(clq_keras_graph *f) {
    uint32_t *stack = clq_alloc(f->node_count, sizeof *stack);
    clq_tensor *inputs = clq_alloc(CLQ_KERAS_INPUTS_MAX, sizeof *inputs);
    uint32_t *masks = clq_alloc(CLQ_KERAS_INPUTS_MAX, sizeof *masks);
    clq_status status = stack && inputs && masks ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (uint32_t k = 0; k < f->node_count && status == CLQ_OK; k++)
        if (f->nodes[k].state != DONE) status = add_with_sources(f, k, stack, inputs, masks);
    clq_free(stack);
    clq_free(inputs);
    clq_free(masks);
    return status;
}

/* Adds the inputs that config.input_layers names, in that order. */
static clq_status add_inputs(clq_keras_graph *f, const clq_keras_sizes *sizes) {
    clq_keras_source found[CLQ_MODEL_INPUTS_MAX];
    clq_shape shapes[CLQ_MODEL_INPUTS_MAX];
    const char *names[CLQ_MODEL_INPUTS_MAX];
    clq_tensor inputs[CLQ_MODEL_INPUTS_MAX];
    size_t count;
    CLQ_TRY(clq_keras_find_inputs(f, found, &count));
    CLQ_TRY(clq_keras_check_sizes(sizes, count));
    for (size_t i = 0; i < count; i++) {
        const uint32_t index = f->nodes[found[i].node].layer;
        if (!clq_keras_is_input(clq_keras_layer_at(f, index)))
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "config.input_layers: '%.60s' is no InputLayer",
                            clq_keras_name(clq_keras_layer_at(f, index)));
        CLQ_TRY(clq_keras_read_input(clq_keras_layer_at(f, index), index, sizes, i, &shapes[i], &names[i]));
    }
    clq_inputs(f->model, shapes, names, count, inputs);
    for (size_t i = 0; i < count; i++) {
        if (!inputs[i].id) return clq_fail_within(clq_error_raise(&f->model->error), "config.input_layers");
        f->nodes[found[i].node].tensor = inputs[i];
        f->nodes[found[i].node].state = DONE;
    }
    return CLQ_OK;
}

static clq_status finish(clq_keras_graph *f) {
    clq_tensor outputs[CLQ_BLOCK_OUTPUTS_MAX];
    clq_keras_source found[CLQ_BLOCK_OUTPUTS_MAX];
    size_t count;
    CLQ_TRY(clq_keras_find_outputs(f, found, &count));
    for (size_t i = 0; i < count; i++) {
        CLQ_TRY(find_tensor(f, &found[i], "config.output_layers", &outputs[i]));
        const clq_keras_mask_state state = clq_keras_mask_state_of(f, &found[i], CLQ_KERAS_GIVEN);
        clq_model_tensor *y = &f->model->tensors[outputs[i].id - 1];
        if (state == CLQ_KERAS_MASK_UNSURE && y->mask)
            return refuse_unsure("config.output_layers", f->model->layers[y->layer - 1].name);
        if (state == CLQ_KERAS_MASK_ENDED) y->mask = 0;
    }
    const clq_status status = clq_model_finish_outputs(f->model, outputs, count);
    return status == CLQ_ERROR_ARGUMENT && !f->sequential ? clq_fail_within(status, "config.output_layers") : status;
}

/* ---- a model's graph ---- */

static void close_graph(clq_keras_graph *f) {
    for (size_t i = 0; f->inner && i < json_array_size(f->layers); i++) {
        if (f->inner[i]) close_graph(f->inner[i]);
        clq_free(f->inner[i]);
    }
    for (uint32_t k = 0; f->nodes && k < f->node_count; k++) clq_free(f->nodes[k].outputs);
    for (size_t i = 0; f->stores && i < json_array_size(f->layers); i++) clq_free(f->stores[i]);
    json_decref(f->index);
    json_decref(f->own_config);
    clq_free(f->stores);
    clq_free(f->path);
    clq_free(f->place);
    clq_free(f->own_scope);
    clq_free(f->inner);
    clq_free(f->nodes);
    clq_free(f->first_node);
    clq_free(f->added);
    clq_free(f->keywords);
    clq_free(f->arguments);
    clq_free(f->positional);
    clq_free(f->sources);
    clq_keras_release_masks(f->masks);
}

static clq_status open_functional(clq_keras_graph *f) {
    CLQ_TRY(clq_keras_check_layers(f->layers));
    CLQ_TRY(clq_keras_note_stores(f));
    CLQ_TRY(clq_keras_index_layers(f));
    CLQ_TRY(clq_keras_count_nodes(f));
    return clq_keras_read_nodes(f);
}

/* Makes one node for each layer, which reads the layer before. */
static clq_status open_sequential(clq_keras_graph *f) {
    CLQ_TRY(clq_keras_check_layers(f->layers));
    CLQ_TRY(clq_keras_note_stores(f));
    const uint32_t count = (uint32_t)json_array_size(f->layers);
    CLQ_TRY(clq_keras_make_room(f));
    f->nodes = clq_alloc(count, sizeof *f->nodes);
    f->sources = clq_alloc(count, sizeof *f->sources);
    if (!f->nodes || !f->sources) return CLQ_ERROR_MEMORY;
    f->node_count = f->source_count = count;
    for (uint32_t i = 0; i < count; i++) {
        json_t *layer = clq_keras_layer_at(f, i);
        const bool input = clq_keras_is_input(layer) && i == 0;
        if (!input && !clq_keras_is_model(layer)) CLQ_TRY(clq_keras_check_class(layer, i));
        f->first_node[i] = i;
        f->sources[i] = (clq_keras_source){.node = i == 0 ? CLQ_KERAS_GIVEN : i - 1};
        f->nodes[i] = (clq_keras_node){
            .layer = i, .first_source = i, .source_count = !input, .positional = !input, .given = !input};
    }
    f->first_node[count] = count;
    return CLQ_OK;
}

/* ---- a model within a model ---- */

static bool is_frozen(json_t *config) { return json_is_false(json_object_get(config, "trainable")); }

static clq_status note_masks(clq_keras_graph *f);

/* Opens the graph of an inner model or a block. inputs: of a block's first call; other models do not use it. */
static clq_status open_inner(clq_keras_graph *outer, const clq_keras_node *n, const clq_tensor *inputs,
                             const char *where) {
    const uint32_t index = n->layer;
    json_t *layer = clq_keras_layer_at(outer, index), *config = json_object_get(layer, "config");
    clq_keras_graph *in = outer->inner[index] = clq_alloc(1, sizeof *in);
    const char *name = clq_keras_name(layer) ? clq_keras_name(layer) : "model";
    if (!in) return CLQ_ERROR_MEMORY;
    in->model = outer->model;
    in->calls = outer->calls;
    in->frozen = outer->frozen || is_frozen(config);
    in->own_scope = outer->scope ? clq_strprintf("%s.%s", outer->scope, name) : clq_strdup(name);
    in->scope = in->own_scope;
    in->sequential = clq_keras_is_sequential(layer);
    in->config = config;
    in->bits = n->given;
    in->flags = n->keywords;
    in->given_arguments = n->arguments;
    if (outer->stores[index]) in->path = clq_strdup(outer->stores[index]);
    in->place = find_place(outer, index);
    if (!in->scope || !in->place || (outer->stores[index] && !in->path)) return CLQ_ERROR_MEMORY;
    if (clq_keras_is_block(layer)) {
        const clq_keras_block_use use = {.model = outer->model,
                                         .layer = layer,
                                         .inputs = inputs,
                                         .given = n->given,
                                         .keywords = n->keywords,
                                         .arguments = n->arguments,
                                         .heeded = &in->heeded};
        CLQ_TRY(clq_keras_write_block(layer, where, &use, &in->own_config));
        in->masked = clq_keras_find_masked(in, inputs);
        in->config = config = in->own_config;
    }
    in->in_block = outer->in_block || in->own_config;
    in->of_parts = clq_keras_block_has_parts(layer);
    in->layers = json_is_array(config) ? config : json_object_get(config, "layers");
    CLQ_TRY(in->sequential ? open_sequential(in) : open_functional(in));
    return in->own_config ? CLQ_OK : note_masks(in);
}

/* Notes what Keras does to masks in a graph that the file has. The inner models come first. */
static clq_status note_masks(clq_keras_graph *f) {
    clq_keras_source inputs[CLQ_MODEL_INPUTS_MAX], outputs[CLQ_BLOCK_OUTPUTS_MAX];
    size_t input_count, output_count;
    for (uint32_t i = 0; i < json_array_size(f->layers); i++) {
        json_t *layer = clq_keras_layer_at(f, i);
        char where[160];
        if (!clq_keras_is_inner_model(layer)) continue;
        clq_keras_describe_place(layer, i, where);
        const clq_status status = open_inner(f, &f->nodes[f->first_node[i]], NULL, where);
        if (status != CLQ_OK) return clq_fail_within(status, "%s", where);
    }
    CLQ_TRY(clq_keras_find_inputs(f, inputs, &input_count));
    CLQ_TRY(clq_keras_find_outputs(f, outputs, &output_count));
    return clq_keras_note_masks(f, inputs, input_count, outputs, output_count);
}

/* Binds the inputs of an inner model to the tensors that it is applied to, and sets its nodes back to WAITING. */
static clq_status bind_inputs(clq_keras_graph *in, json_t *layer, const clq_keras_node *n, const clq_tensor *inputs) {
    clq_keras_source found[CLQ_MODEL_INPUTS_MAX];
    size_t count;
    const uint32_t applied_to = n->source_count - n->masks;
    for (uint32_t k = 0; k < in->node_count; k++) {
        in->nodes[k].state = WAITING;
        clq_free(in->nodes[k].outputs);
        in->nodes[k].outputs = NULL;
        in->nodes[k].output_count = 0;
    }
    in->given = inputs[0];
    CLQ_TRY(clq_keras_find_inputs(in, found, &count));
    if (in->sequential && applied_to != 1)
        return clq_fail(CLQ_ERROR_FORMAT, "a Sequential model has one input, not %u", applied_to);
    if (found[0].node == CLQ_KERAS_GIVEN) return CLQ_OK;
    if (in->bits != n->given)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "calls with other inputs than the first are not supported");
    if (!clq_keras_block_same_flags(layer, in->flags, n->keywords))
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "calls with other keywords than the first are not supported");
    if (clq_keras_block_takes_arguments(layer) && !clq_keras_same_arguments(in->given_arguments, n->arguments))
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "calls with other arguments than the first are not supported");
    if (clq_keras_find_masked(in, inputs) & ~in->masked)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "calls with a mask of an input of which the first call had none are not supported: make it two "
                        "layers");
    if (count != applied_to)
        return clq_fail(CLQ_ERROR_FORMAT, "a model of %zu inputs is applied to %u tensors", count, applied_to);
    for (size_t i = 0; i < count; i++) {
        in->nodes[found[i].node].tensor = inputs[i];
        in->nodes[found[i].node].state = DONE;
    }
    return CLQ_OK;
}

/* Makes the outputs of an inner model the outputs of its node in the outer graph. */
static clq_status find_outputs(const clq_keras_graph *in, clq_keras_node *n) {
    clq_keras_source found[CLQ_BLOCK_OUTPUTS_MAX];
    size_t count;
    CLQ_TRY(clq_keras_find_outputs(in, found, &count));
    CLQ_TRY(find_tensor(in, &found[0], "output_layers", &n->tensor));
    if (count == 1) return CLQ_OK;
    n->outputs = clq_alloc(count, sizeof *n->outputs);
    if (!n->outputs) return CLQ_ERROR_MEMORY;
    n->output_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) CLQ_TRY(find_tensor(in, &found[i], "output_layers", &n->outputs[i]));
    return CLQ_OK;
}

/* Gives a block's output the mask of the tensor that "mask_of" names, whatever the block's layers do to masks. */
static clq_status set_mask(const clq_keras_graph *in, clq_tensor y) {
    json_t *whose = json_object_get(in->own_config, "mask_of");
    clq_keras_source found = {0};
    clq_tensor masked = {0};
    if (whose) CLQ_TRY(clq_keras_find_node(in, whose, "mask_of", &found));
    if (whose) CLQ_TRY(find_tensor(in, &found, "mask_of", &masked));
    in->model->tensors[y.id - 1].mask = whose ? in->model->tensors[masked.id - 1].mask : 0;
    return CLQ_OK;
}

static clq_status call_model_of(clq_keras_graph *f, clq_keras_node *n, const clq_tensor *inputs, const char *where) {
    json_t *layer = clq_keras_layer_at(f, n->layer);
    clq_status status = f->inner[n->layer] ? CLQ_OK : open_inner(f, n, inputs, where);
    clq_keras_graph *in = f->inner[n->layer];
    if (status == CLQ_OK) status = bind_inputs(in, layer, n, inputs);
    if (status == CLQ_OK) status = add_nodes(in);
    if (status == CLQ_OK) status = find_outputs(in, n);
    if (status == CLQ_OK && in->own_config) status = set_mask(in, n->tensor);
    return status;
}

/* Whether x has the mask anyway, perhaps as another tensor with the same values. mask == x: the call gives x no mask,
 * which counts, too. */
static bool has_that_mask(const clq_model *model, clq_tensor x, clq_tensor mask) {
    if (mask.id == x.id) return true;
    const clq_tensor own = {.model = model, .id = model->tensors[x.id - 1].mask};
    return own.id && clq_keras_same_numbers(model, own, mask);
}

/* In Keras, a mask that the call gives an input stays on that tensor afterwards; here it does not. So the tensor must
 * have this mask anyway, or nothing that runs later may look at it. there (n->masks): whether the tensor has it
 * anyway. */
static clq_status check_masks(const clq_keras_graph *f, const clq_keras_node *n, const clq_tensor *inputs,
                              const char *where, bool *there) {
    const uint32_t count = n->source_count - n->masks;
    for (uint32_t i = 0; i < n->masks; i++) {
        there[i] = has_that_mask(f->model, inputs[i], inputs[count + i]);
        if (there[i]) continue;
        if (clq_keras_heeds_input(f, (uint32_t)(n - f->nodes), i))
            return clq_fail(CLQ_ERROR_UNSUPPORTED,
                            "%s: in Keras the mask of its call stays on input %u, and what runs behind it sees it, "
                            "which is not supported: give the call a copy, as keras.ops.multiply by 1",
                            where, i + 1);
    }
    if (clq_keras_mixes_masks(f, n))
        for (uint32_t i = 0; i < count; i++)
            if (n->masks > 0 || f->model->tensors[inputs[i].id - 1].mask)
                return clq_fail(CLQ_ERROR_UNSUPPORTED,
                                "%s: two of its inputs are one tensor, whose mask an attention within it ends for "
                                "both, which is not supported: give one a copy, as keras.ops.multiply by 1",
                                where);
    return CLQ_OK;
}

/* Calls a model. During the call, the model's inputs have the masks that the call gives them. */
static clq_status call_model(clq_keras_graph *f, clq_keras_node *n, const clq_tensor *inputs) {
    const uint32_t count = n->source_count - n->masks;
    char where[160];
    uint32_t own[CLQ_MODEL_INPUTS_MAX];
    bool there[CLQ_MODEL_INPUTS_MAX];
    clq_keras_describe_place(clq_keras_layer_at(f, n->layer), n->layer, where);
    CLQ_TRY(check_masks(f, n, inputs, where, there));
    for (uint32_t i = 0; i < n->masks; i++) own[i] = f->model->tensors[inputs[i].id - 1].mask;
    for (uint32_t i = 0; i < n->masks; i++)
        if (!there[i]) f->model->tensors[inputs[i].id - 1].mask = inputs[count + i].id;
    const clq_status status = call_model_of(f, n, inputs, where);
    for (uint32_t i = n->masks; i-- > 0;) f->model->tensors[inputs[i].id - 1].mask = own[i];
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "%s", where);
}

/* ---- the whole ---- */

clq_status clq_keras_read_functional(clq_model *model, const clq_keras_sizes *sizes, json_t *config, bool written) {
    uint32_t calls = 0;
    clq_keras_graph f = {.model = model,
                         .calls = &calls,
                         .frozen = is_frozen(config),
                         .layers = json_object_get(config, "layers"),
                         .config = config};
    if (written) f.own_config = json_incref(config);
    clq_status status = open_functional(&f);
    if (status == CLQ_OK) status = add_inputs(&f, sizes);
    if (status == CLQ_OK && !written) status = note_masks(&f);
    if (status == CLQ_OK) status = add_nodes(&f);
    if (status == CLQ_OK) status = finish(&f);
    close_graph(&f);
    return status;
}

/* Adds the InputLayer of a Sequential model. */
static clq_status add_first(clq_keras_graph *f, const clq_keras_sizes *sizes) {
    clq_shape shape;
    const char *name;
    char where[160];
    clq_keras_describe_place(clq_keras_layer_at(f, 0), 0, where);
    CLQ_TRY(clq_keras_read_input(clq_keras_layer_at(f, 0), 0, sizes, 0, &shape, &name));
    clq_inputs(f->model, &shape, name ? &name : NULL, 1, &f->nodes[0].tensor);
    f->nodes[0].state = DONE;
    return f->nodes[0].tensor.id ? CLQ_OK : clq_fail_within(clq_error_raise(&f->model->error), "%s", where);
}

clq_status clq_keras_read_sequential(clq_model *model, const clq_keras_sizes *sizes, json_t *config, json_t *layers,
                                     clq_tensor given) {
    uint32_t calls = 0;
    clq_keras_graph f = {.model = model,
                         .calls = &calls,
                         .frozen = is_frozen(config),
                         .layers = layers,
                         .given = given,
                         .sequential = true};
    clq_status status = open_sequential(&f);
    if (status == CLQ_OK && f.nodes[0].source_count == 0) status = add_first(&f, sizes);
    if (status == CLQ_OK) status = note_masks(&f);
    if (status == CLQ_OK) status = add_nodes(&f);
    if (status == CLQ_OK) status = finish(&f);
    close_graph(&f);
    return status;
}
