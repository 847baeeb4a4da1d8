/* One of the tensors of a layer that gives several, as recurrent layers with states do: a part of that layer's
 * values. */
#include "graph/layers/layer.h"

#include <string.h>

typedef struct output_config {
    size_t index;
} output_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("index", CLQ_ATTRIBUTE_SIZES, output_config, index)},
};

static clq_status find(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y, clq_arrangement *a,
                       clq_shape *shape) {
    const clq_model_tensor *all = clq_model_input_of(model, y, 0);
    const size_t index = ((const output_config *)layer->config)->index;
    return model->layers[all->layer - 1].kind->output(model, all, (unsigned)index, a, shape);
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    clq_arrangement a;
    return find(model, layer, y, &a, &y->shape);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    clq_arrangement a;
    clq_shape shape;
    (void)find(e->model, e->layer, e->y, &a, &shape);
    return clq_expand_arrange(e, &a, x[0]);
}

/* The first tensor has the layer's mask: it is, for example, the sequence beside the last states. The others have
 * none. */
static clq_tensor mask_of(clq_model *model, uint32_t id, clq_tensor y) {
    const size_t index = ((const output_config *)model->layers[id - 1].config)->index;
    return index == 0 ? clq_layer_keep_mask(model, id, y) : (clq_tensor){0};
}

/* This kind is not in the list of kinds: no file has it. */
static const clq_layer_kind output_kind = {.type = "Output",
                                           .stem = "output",
                                           .inputs = {1, 1},
                                           CLQ_LAYER_CONFIG(output_config, attributes),
                                           .moves = true,
                                           .mask = mask_of,
                                           .infer = infer,
                                           .expand = expand};

unsigned clq_model_outputs_of(const clq_model *model, clq_tensor x) {
    const clq_layer *layer = &model->layers[model->tensors[x.id - 1].layer - 1];
    return layer->kind->output_count ? layer->kind->output_count(layer) : 1;
}

/* Adds the same layer once more, set to give another of its tensors. */
static clq_tensor add_other(clq_model *model, clq_tensor x, size_t index, const char *name) {
    const clq_model_tensor *y = &model->tensors[x.id - 1];
    const clq_layer *layer = &model->layers[y->layer - 1];
    const clq_layer_kind *kind = layer->kind;
    char *config = clq_alloc(1, kind->config_bytes);
    clq_tensor *inputs = clq_alloc(y->input_count, sizeof *inputs), made = {0};
    if (config && inputs) {
        memcpy(config, layer->config, kind->config_bytes);
        memcpy(config + kind->output_member - 1, &index, sizeof index);
        for (uint32_t i = 0; i < y->input_count; i++)
            inputs[i] = (clq_tensor){.model = model, .id = model->inputs[y->first_input + i]};
        made = clq_model_add_layer(model, kind, name, config, inputs, y->input_count);
    } else if (model->error.status == CLQ_OK) {
        clq_error_take(CLQ_ERROR_MEMORY, &model->error);
    }
    clq_free(config);
    clq_free(inputs);
    return made;
}

clq_tensor clq_model_output_of(clq_model *model, clq_tensor x, unsigned index, const char *name) {
    const clq_layer_kind *kind = model->layers[model->tensors[x.id - 1].layer - 1].kind;
    if (clq_model_outputs_of(model, x) == 1 || (kind->output_member && index == 0)) return x;
    if (kind->output_member) return add_other(model, x, index, name);
    return clq_model_add_layer(model, &output_kind, name, &(output_config){index}, &x, 1);
}
