/* Makes a model of single tokens of a model of texts. Each layer is added anew, for one token, and attention keeps keys
 * and values of the tokens so far. What a layer computes for one token is in the layer's own file. */
#include "graph/layers/layer.h"

#include <string.h>

/* The model's tensors and layers, by id, and their ids in the new model; 0: nothing yet. */
typedef struct decoding {
    const clq_model *model;
    clq_model *to;
    uint32_t *tensors, *layers;
    clq_tensor *inputs; /* room for the inputs of any tensor */
} decoding;

static clq_status refuse(const clq_layer *layer) {
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "layer '%s' (%s) does not compute tokens one after another", layer->name,
                    layer->kind->type);
}

/* Tells why a layer could not be added. Unless memory is out, the layer does not take the shape of one token. */
static clq_status refuse_failed(const decoding *d, const clq_layer *layer) {
    if (d->to->error.status == CLQ_ERROR_MEMORY) return clq_error_raise(&d->to->error);
    return refuse(layer);
}

/* Adds the samples of the decoding model: tokens, and behind them their places, which layers take from the samples. */
static clq_status add_input(decoding *d) {
    const clq_shape shapes[] = {CLQ_SHAPE(1), CLQ_SHAPE(1)};
    const char *const names[] = {clq_model_tensor_name(d->model, clq_model_input(d->model)), "places of tokens"};
    clq_tensor tensors[2];
    clq_inputs(d->to, shapes, names, 2, tensors);
    d->tensors[d->model->input] = tensors[0].id;
    return d->to->error.status == CLQ_OK ? CLQ_OK : clq_error_raise(&d->to->error);
}

/* Whether `now` is the shape `of`, with one token in place of all. */
static bool is_one_of(const clq_shape *now, const clq_shape *of, size_t tokens) {
    clq_shape whole = *now;
    if (now->rank < 1 || now->dims[0] != 1) return false;
    whole.dims[0] = tokens;
    return clq_shape_equal(&whole, of);
}

static clq_status add_tensor(decoding *d, uint32_t id) {
    const clq_model *model = d->model;
    const clq_model_tensor *y = &model->tensors[id - 1];
    const clq_layer *layer = &model->layers[y->layer - 1];
    if (y->mask || !layer->kind->by_token || !layer->kind->by_token(model, layer, y)) return refuse(layer);
    for (uint32_t i = 0; i < y->input_count; i++)
        d->inputs[i] = (clq_tensor){.model = d->to, .id = d->tensors[model->inputs[y->first_input + i]]};
    const uint32_t known = d->layers[y->layer];
    const clq_tensor made =
        known ? clq_model_apply_again(d->to, known, d->inputs, y->input_count)
              : clq_model_add_layer(d->to, layer->kind, layer->name, layer->config, d->inputs, y->input_count);
    if (!made.id) return refuse_failed(d, layer);
    const clq_model_tensor *now = &d->to->tensors[made.id - 1];
    if (!is_one_of(&now->shape, &y->shape, d->to->decodes)) return refuse(layer);
    d->tensors[id] = made.id;
    d->layers[y->layer] = now->layer;
    return CLQ_OK;
}

/* Checks that the new model has each of the model's variables, in the same shape. */
static clq_status check_variables(const decoding *d) {
    for (uint32_t i = 0; i < d->model->variable_count; i++) {
        const clq_variable *v = &d->model->variables[i], *same = NULL;
        for (uint32_t k = 0; k < d->to->variable_count && !same; k++)
            if (strcmp(d->to->variables[k].name, v->name) == 0) same = &d->to->variables[k];
        if (!same || !clq_shape_equal(&same->shape, &v->shape)) return refuse(&d->model->layers[v->layer - 1]);
    }
    return CLQ_OK;
}

static clq_status add_all(decoding *d) {
    const clq_model *model = d->model;
    for (uint32_t id = 1; id <= model->tensor_count; id++)
        CLQ_TRY(id == model->input ? add_input(d) : add_tensor(d, id));
    const clq_tensor output = {.model = d->to, .id = d->tensors[model->outputs[0]]};
    CLQ_TRY(clq_model_finish(d->to, output));
    return check_variables(d);
}

clq_status clq_model_decoding(const clq_model *model, clq_model **out) {
    decoding d = {.model = model};
    CLQ_TRY(clq_model_create(model->name, &d.to));
    d.to->decodes = clq_model_input(model)->shape.dims[0];
    d.tensors = clq_alloc((size_t)model->tensor_count + 1, sizeof *d.tensors);
    d.layers = clq_alloc((size_t)model->layer_count + 1, sizeof *d.layers);
    d.inputs = clq_alloc(CLQ_MAX(model->input_total, 1u), sizeof *d.inputs);
    const clq_status status = d.tensors && d.layers && d.inputs ? add_all(&d) : CLQ_ERROR_MEMORY;
    clq_free(d.tensors);
    clq_free(d.layers);
    clq_free(d.inputs);
    if (status == CLQ_OK)
        *out = d.to;
    else
        clq_model_destroy(d.to);
    return status;
}

/* Whether a value is a softmax, perhaps behind operations that give on their input. A reshape does not matter for
 * drawing tokens: it leaves the tokens of a place together. */
static bool is_softmax(const clq_graph *graph, clq_id id) {
    for (uint32_t maker; (maker = clq_graph_value_at(graph, id)->maker) > 0;) {
        const clq_node *node = &graph->nodes[maker - 1];
        if (node->op == &clq_op_softmax) return true;
        if (node->op != &clq_op_reshape && node->op != &clq_op_stop_gradient && node->op != &clq_op_scale_gradient)
            return false;
        id = node->inputs[0];
    }
    return false;
}

/* Looks at operations, not at layers: many layers end in a softmax, and layers behind it may give it on. */
clq_status clq_model_gives_probabilities(const clq_model *model, bool *out) {
    const clq_plan_config config = {.mode = CLQ_MODE_PREDICT, .capacity = 1, .sample_dtype = CLQ_F32};
    const clq_pass_context context = {.config = &config};
    clq_graph graph = {.model = model};
    clq_graph_expand(&graph, &context);
    const clq_status status = clq_error_raise(&graph.error);
    if (status == CLQ_OK) {
        clq_graph_find_uses(&graph);
        *out = is_softmax(&graph, graph.outputs[0]);
    }
    clq_graph_release(&graph);
    return status;
}
