/* InputLayer; and the layers of several inputs, which are parts of one sample. */
#include "graph/layers/layer.h"

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    size_t elements;
    y->shape = *(const clq_shape *)layer->config;
    CLQ_TRY(clq_shape_elements(&y->shape, &elements)); /* samples have an axis */
    if (!model->input) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "model %s has an input already: clq_inputs adds several", model->name);
}

/* Whether the samples reach a layer that takes numbers of rows, as an Embedding does. needed: (tensors), zeros. */
static bool has_tokens(const clq_model *model, bool *needed) {
    for (uint32_t id = model->tensor_count; id > 0; id--) {
        const clq_model_tensor *y = &model->tensors[id - 1];
        const bool reads = needed[id - 1] || clq_layer_rows(&model->layers[y->layer - 1]) > 0;
        for (uint32_t i = 0; i < y->input_count && reads; i++) needed[model->inputs[y->first_input + i] - 1] = true;
    }
    return needed[model->input - 1];
}

/* Whether samples of bytes stay as they are, 0 to 255. They do if a layer for such numbers reads the samples, directly
 * or behind layers that only move or shade them. */
static bool takes_raw_bytes(const clq_model *model) {
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const clq_model_tensor *y = &model->tensors[i];
        const clq_layer *layer = &model->layers[y->layer - 1];
        if (!layer->kind->takes_bytes || !layer->kind->takes_bytes(layer)) continue;
        uint32_t id = model->inputs[y->first_input];
        for (; id != model->input; id = model->inputs[model->tensors[id - 1].first_input]) {
            const clq_layer_kind *kind = model->layers[model->tensors[id - 1].layer - 1].kind;
            if (!kind->moves && !kind->takes_bytes) break;
        }
        if (id == model->input) return true;
    }
    return false;
}

clq_status clq_model_byte_factor(const clq_model *model, float *out) {
    bool *needed = clq_alloc(model->tensor_count, sizeof *needed);
    if (!needed) return CLQ_ERROR_MEMORY;
    *out = has_tokens(model, needed) || takes_raw_bytes(model) ? 1.0f : 1.0f / 255.0f;
    clq_free(needed);
    return CLQ_OK;
}

/* The samples that the plan gets. Bytes become float32. */
static clq_id expand(clq_expansion *e, const clq_id *x) {
    (void)x;
    const clq_id samples = clq_graph_add_value(e->graph, &(clq_graph_value){.name = e->layer->name,
                                                                            .dtype = e->config->sample_dtype,
                                                                            .per_sample = true,
                                                                            .shape = e->y->shape,
                                                                            .elements = e->y->elements,
                                                                            .home = CLQ_HOME_SAMPLES});
    if (e->config->sample_dtype != CLQ_U8) return samples;
    clq_node node = clq_expand_node(e, &clq_op_scale_bytes);
    const clq_status status = clq_model_byte_factor(e->model, &node.attributes.factor);
    if (status == CLQ_OK) return clq_expand_unary(e, node, samples);
    clq_graph_fail(e->graph, status);
    return 0;
}

const clq_layer_kind clq_layer_input = {
    .type = "InputLayer", .stem = "input_layer", .config_bytes = sizeof(clq_shape), .infer = infer, .expand = expand};

clq_tensor clq_model_add_input(clq_model *model, clq_shape shape, const char *name) {
    clq_tensor x = clq_model_add_layer(model, &clq_layer_input, name, &shape, NULL, 0);
    if (x.id) model->input = x.id;
    return x;
}

clq_tensor clq_input(clq_model *model, clq_shape shape) { return clq_model_add_input(model, shape, NULL); }

/* ---- several inputs: each is a run of the values of a sample ---- */

typedef struct part_config {
    double first; /* a whole number */
    clq_shape shape;
} part_config;
static const clq_attribute part_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("first", CLQ_ATTRIBUTE_NUMBER, part_config, first), .most = INT32_MAX},
};

static clq_status infer_part(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    (void)model;
    y->shape = ((const part_config *)layer->config)->shape;
    return CLQ_OK;
}

static clq_id expand_part(clq_expansion *e, const clq_id *x) {
    const clq_model_tensor *whole = clq_model_input_of(e->model, e->y, 0);
    clq_arrangement a = clq_arrangement_of(1, &whole->elements);
    a.axes[0].first = (long)((const part_config *)e->layer->config)->first;
    a.axes[0].out = e->y->elements;
    return clq_expand_arrange(e, &a, x[0]);
}

/* This kind is not in the list of kinds: an InputLayer of a file is always the kind without inputs. */
static const clq_layer_kind part_kind = {.type = "InputLayer",
                                         .stem = "input_layer",
                                         .inputs = {1, 1},
                                         CLQ_LAYER_CONFIG(part_config, part_attributes),
                                         .moves = true,
                                         .infer = infer_part,
                                         .expand = expand_part};

/* How many values a sample has. 0: the shapes are refused, and the model's error says why. */
static size_t add_up(clq_model *model, const clq_shape *shapes, size_t count) {
    size_t sum = 0, elements = 0;
    clq_status status = CLQ_OK;
    if (count < 1 || count > CLQ_MODEL_INPUTS_MAX)
        status = clq_fail(CLQ_ERROR_ARGUMENT, "model %s: 1 to %d inputs are supported, not %zu", model->name,
                          CLQ_MODEL_INPUTS_MAX, count);
    for (size_t i = 0; i < count && status == CLQ_OK; i++) {
        status = clq_tensor_elements(&shapes[i], &elements);
        if (status != CLQ_OK) clq_fail_within(status, "input %zu", i);
        sum += elements;
    }
    if (status == CLQ_OK && sum > INT32_MAX)
        status =
            clq_fail(CLQ_ERROR_ARGUMENT, "model %s: its inputs have %zu values, more than the %d that are supported",
                     model->name, sum, INT32_MAX);
    if (status == CLQ_OK) return sum;
    if (model->error.status == CLQ_OK) clq_error_take(status, &model->error);
    return 0;
}

void clq_inputs(clq_model *model, const clq_shape *shapes, const char *const *names, size_t count,
                clq_tensor *tensors) {
    if (count == 1 && shapes[0].rank > 0) {
        tensors[0] = clq_model_add_input(model, shapes[0], names ? names[0] : NULL);
        return;
    }
    part_config part = {0};
    clq_tensor whole = {0};
    const size_t sum = add_up(model, shapes, count); /* a sample has an axis, even if its only input has none */
    if (sum > 0) whole = clq_model_add_input(model, CLQ_SHAPE(sum), "all inputs");
    for (size_t i = 0; i < count; i++) {
        tensors[i] = (clq_tensor){0};
        if (!whole.id) continue;
        part.shape = shapes[i];
        tensors[i] = clq_model_add_layer(model, &part_kind, names ? names[i] : NULL, &part, &whole, 1);
        if (tensors[i].id) part.first += (double)model->tensors[tensors[i].id - 1].elements;
    }
}

/* ---- tokens ---- */

const clq_model_tensor *clq_model_find_own(const clq_model *model, const clq_model_tensor *x) {
    for (;; x = clq_model_input_of(model, x, 0)) {
        const clq_layer *layer = &model->layers[x->layer - 1];
        if (layer->kind == &part_kind || layer->kind == &clq_layer_input) return x;
        if (!layer->kind->moves || x->input_count != 1 || clq_model_input_of(model, x, 0)->elements != x->elements)
            return NULL;
    }
}

bool clq_model_tokens(const clq_model *model, uint32_t index, clq_tokens *out) {
    const clq_model_tensor *y = &model->tensors[index];
    *out = (clq_tokens){.rows = clq_layer_rows(&model->layers[y->layer - 1]), .layer = y->layer - 1};
    if (out->rows == 0 || (model->layers[y->layer - 1].kind->opposite && y->input_count == 2)) return false;
    const clq_model_tensor *x = clq_model_find_own(model, clq_model_input_of(model, y, 0));
    if (!x) return false;
    const clq_layer *layer = &model->layers[x->layer - 1];
    out->count = x->elements;
    if (layer->kind == &part_kind) out->first = (size_t)((const part_config *)layer->config)->first;
    return true;
}
