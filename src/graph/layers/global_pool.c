/* GlobalAveragePooling2D: the mean of each channel over all places of an image. */
#include "graph/layers/layer.h"

typedef struct global_pool_config {
    bool keep_dims;
} global_pool_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("keepdims", CLQ_ATTRIBUTE_FLAG, global_pool_config, keep_dims)},
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
};

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(clq_layer_check_image(x));
    const bool keeps = ((const global_pool_config *)layer->config)->keep_dims;
    y->shape = keeps ? CLQ_SHAPE(1, 1, x->dims[2]) : CLQ_SHAPE(x->dims[2]);
    return CLQ_OK;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_shape *image = &clq_model_input_of(e->model, e->y, 0)->shape;
    const size_t places = image->dims[0] * image->dims[1];
    clq_node node = clq_expand_node(e, &clq_op_reduce);
    node.attributes.repeat = (clq_repeat_problem){
        .outer = 1, .repeats = places, .inner = image->dims[2], .scale = (float)(1.0 / (double)places)};
    return clq_expand_unary(e, node, x[0]);
}

const clq_layer_kind clq_layer_global_average_pool2d = {.type = "GlobalAveragePooling2D",
                                                        .stem = "global_average_pooling2d",
                                                        .inputs = {1, 1},
                                                        CLQ_LAYER_CONFIG(global_pool_config, attributes),
                                                        .infer = infer,
                                                        .expand = expand};

clq_tensor clq_global_average_pool2d(clq_model *model, clq_tensor x, bool keep_dims, const char *name) {
    return clq_model_add_layer(model, &clq_layer_global_average_pool2d, name, &(global_pool_config){keep_dims}, &x, 1);
}
