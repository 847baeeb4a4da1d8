/* The list of all kinds of layers, and what several share. */
#include "graph/layers/layer.h"

#include <string.h>

static const clq_layer_kind *const kinds[] = {
    &clq_layer_input,
    &clq_layer_dense,
    &clq_layer_conv1d,
    &clq_layer_conv2d,
    &clq_layer_depthwise_conv1d,
    &clq_layer_depthwise_conv2d,
    &clq_layer_separable_conv1d,
    &clq_layer_separable_conv2d,
    &clq_layer_conv1d_transpose,
    &clq_layer_conv2d_transpose,
    &clq_layer_max_pool1d,
    &clq_layer_max_pool2d,
    &clq_layer_average_pool1d,
    &clq_layer_average_pool2d,
    &clq_layer_global_average_pool1d,
    &clq_layer_global_average_pool2d,
    &clq_layer_global_average_pool3d,
    &clq_layer_global_max_pool1d,
    &clq_layer_global_max_pool2d,
    &clq_layer_global_max_pool3d,
    &clq_layer_zero_padding1d,
    &clq_layer_zero_padding2d,
    &clq_layer_zero_padding3d,
    &clq_layer_cropping1d,
    &clq_layer_cropping2d,
    &clq_layer_cropping3d,
    &clq_layer_up_sampling1d,
    &clq_layer_up_sampling2d,
    &clq_layer_repeat_vector,
    &clq_layer_permute,
    &clq_layer_batch_norm,
    &clq_layer_dropout,
    &clq_layer_flatten,
    &clq_layer_reshape,
    &clq_layer_activation,
    &clq_layer_relu,
    &clq_layer_softmax,
    &clq_layer_add,
    &clq_layer_subtract,
    &clq_layer_multiply,
    &clq_layer_average,
    &clq_layer_maximum,
    &clq_layer_concatenate,
    &clq_layer_layer_norm,
    &clq_layer_rms_norm,
    &clq_layer_group_norm,
    &clq_layer_unit_norm,
    &clq_layer_rescaling,
    &clq_layer_normalization,
    &clq_layer_layer_scale,
    &clq_layer_leaky_relu,
    &clq_layer_elu,
    &clq_layer_prelu,
    &clq_layer_minimum,
    &clq_layer_spatial_dropout1d,
    &clq_layer_spatial_dropout2d,
    &clq_layer_spatial_dropout3d,
    &clq_layer_alpha_dropout,
    &clq_layer_gaussian_dropout,
    &clq_layer_gaussian_noise,
};

const clq_layer_kind *clq_layer_kind_at(size_t index) { return index < CLQ_COUNT_OF(kinds) ? kinds[index] : NULL; }

const clq_layer_kind *clq_layer_kind_named(const char *type) {
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++)
        if (strcmp(kinds[i]->type, type) == 0) return kinds[i];
    return NULL;
}

clq_status clq_layer_keep_shape(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    (void)layer;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    return CLQ_OK;
}
