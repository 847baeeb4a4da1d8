/* GlobalAveragePooling2D: the mean of each channel over all places of an image. */
#include "graph/layers/layer.h"

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(clq_layer_check_image(x));
    y->shape = layer->config.keep_dims ? CLQ_SHAPE(1, 1, x->dims[2]) : CLQ_SHAPE(x->dims[2]);
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
                                                        .infer = infer,
                                                        .expand = expand};

clq_tensor clq_global_average_pool2d(clq_model *model, clq_tensor x, bool keep_dims, const char *name) {
    return clq_model_add_layer(model, &clq_layer_global_average_pool2d, name,
                               &(clq_layer_config){.keep_dims = keep_dims}, &x, 1);
}
