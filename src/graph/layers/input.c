/* InputLayer. */
#include "graph/layers/layer.h"

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    y->shape = *(const clq_shape *)layer->config;
    if (!model->input) return CLQ_OK;
    return clq_fail(CLQ_UNSUPPORTED, "model %s has an input already, and only one is supported", model->name);
}

/* Whether samples of bytes come as they are, 0 to 255, since a layer brings them to a range itself. */
static bool takes_raw_bytes(const clq_model *model) {
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        const clq_model_tensor *y = &model->tensors[i];
        if (!model->layers[y->layer - 1].kind->scales_bytes) continue;
        uint32_t id = model->inputs[y->first_input];
        while (id != model->input && model->layers[model->tensors[id - 1].layer - 1].kind->moves)
            id = model->inputs[model->tensors[id - 1].first_input];
        if (id == model->input) return true;
    }
    return false;
}

/* The samples, as the plan gets them, in float32. */
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
    node.attributes.factor = takes_raw_bytes(e->model) ? 1.0f : 1.0f / 255.0f;
    return clq_expand_unary(e, node, samples);
}

const clq_layer_kind clq_layer_input = {
    .type = "InputLayer", .stem = "input_layer", .config_bytes = sizeof(clq_shape), .infer = infer, .expand = expand};

clq_tensor clq_model_add_input(clq_model *model, clq_shape shape, const char *name) {
    clq_tensor x = clq_model_add_layer(model, &clq_layer_input, name, &shape, NULL, 0);
    if (x.id) model->input = x.id;
    return x;
}

clq_tensor clq_input(clq_model *model, clq_shape shape) { return clq_model_add_input(model, shape, NULL); }
