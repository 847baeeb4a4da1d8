/* The list of all kinds of layers, and what several share. */
#include "graph/layers/layer.h"

#include <string.h>

static const clq_layer_kind *const kinds[] = {
    &clq_layer_input,
    &clq_layer_dense,
    &clq_layer_conv1d,
    &clq_layer_conv2d,
    &clq_layer_conv3d,
    &clq_layer_depthwise_conv1d,
    &clq_layer_depthwise_conv2d,
    &clq_layer_separable_conv1d,
    &clq_layer_separable_conv2d,
    &clq_layer_conv1d_transpose,
    &clq_layer_conv2d_transpose,
    &clq_layer_max_pool1d,
    &clq_layer_max_pool2d,
    &clq_layer_max_pool3d,
    &clq_layer_average_pool1d,
    &clq_layer_average_pool2d,
    &clq_layer_average_pool3d,
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
    &clq_layer_up_sampling3d,
    &clq_layer_repeat_vector,
    &clq_layer_permute,
    &clq_layer_batch_norm,
    &clq_layer_dropout,
    &clq_layer_masking,
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
    &clq_layer_op_add,
    &clq_layer_op_subtract,
    &clq_layer_op_multiply,
    &clq_layer_op_divide,
    &clq_layer_op_true_divide,
    &clq_layer_op_maximum,
    &clq_layer_op_minimum,
    &clq_layer_op_negative,
    &clq_layer_op_absolute,
    &clq_layer_op_square,
    &clq_layer_op_sqrt,
    &clq_layer_op_exp,
    &clq_layer_op_log,
    &clq_layer_op_sin,
    &clq_layer_op_cos,
    &clq_layer_op_tanh,
    &clq_layer_op_relu,
    &clq_layer_op_relu6,
    &clq_layer_op_sigmoid,
    &clq_layer_op_silu,
    &clq_layer_op_softplus,
    &clq_layer_op_softsign,
    &clq_layer_op_log_sigmoid,
    &clq_layer_op_selu,
    &clq_layer_op_hard_sigmoid,
    &clq_layer_op_hard_silu,
    &clq_layer_op_hard_tanh,
    &clq_layer_op_tanh_shrink,
    &clq_layer_op_gelu,
    &clq_layer_op_sum,
    &clq_layer_op_mean,
    &clq_layer_custom_scale,
    &clq_layer_op_reshape,
    &clq_layer_op_squeeze,
    &clq_layer_op_expand_dims,
    &clq_layer_op_transpose,
    &clq_layer_op_concatenate,
    &clq_layer_op_stack,
    &clq_layer_op_get_item,
    &clq_layer_op_softmax,
    &clq_layer_attention,
    &clq_layer_embedding,
    &clq_layer_op_ones,
    &clq_layer_op_zeros,
    &clq_layer_op_cumsum,
    &clq_layer_op_equal,
    &clq_layer_op_not_equal,
    &clq_layer_op_greater,
    &clq_layer_op_greater_equal,
    &clq_layer_op_less,
    &clq_layer_op_less_equal,
    &clq_layer_op_both,
    &clq_layer_op_either,
    &clq_layer_op_not,
    &clq_layer_op_any,
    &clq_layer_op_all,
    &clq_layer_op_where,
    &clq_layer_op_power,
    &clq_layer_op_sign,
    &clq_layer_op_expm1,
    &clq_layer_op_log1p,
    &clq_layer_op_reciprocal,
    &clq_layer_op_cast,
    &clq_layer_op_convert,
    &clq_layer_op_stop_gradient,
    &clq_layer_op_clip,
    &clq_layer_op_max,
    &clq_layer_op_min,
    &clq_layer_op_matmul,
    &clq_layer_op_einsum,
    &clq_layer_op_one_hot,
    &clq_layer_op_fft2,
    &clq_layer_op_split,
    &clq_layer_op_swapaxes,
    &clq_layer_op_flip,
    &clq_layer_op_pad,
    &clq_layer_simple_rnn,
    &clq_layer_lstm,
    &clq_layer_gru,
    &clq_layer_conv_lstm2d,
    &clq_layer_op_attention,
    &clq_layer_position_embedding,
    &clq_layer_learned_rows,
    &clq_layer_rotary_embedding,
    &clq_layer_llama_norm,
    &clq_layer_mistral_norm,
    &clq_layer_qwen_norm,
    &clq_layer_phi3_norm,
    &clq_layer_gemma_norm,
    &clq_layer_gemma3_norm,
    &clq_layer_qwen3_norm,
    &clq_layer_t5_norm,
    &clq_layer_relative_rows,
    &clq_layer_relative_scores,
    &clq_layer_scored_attention,
    &clq_layer_reversible_embedding,
    &clq_layer_random_flip,
    &clq_layer_random_rotation,
    &clq_layer_random_zoom,
    &clq_layer_random_translation,
    &clq_layer_random_crop,
    &clq_layer_random_brightness,
    &clq_layer_random_contrast,
    &clq_layer_score_attention,
    &clq_layer_additive_attention,
    &clq_layer_top_k,
    &clq_layer_dot,
    &clq_layer_einsum_dense,
    &clq_layer_resizing,
    &clq_layer_category_encoding,
    &clq_layer_conv3d_transpose,
    &clq_layer_op_extract_patches,
};

const clq_layer_kind *clq_layer_kind_at(size_t index) { return index < CLQ_COUNT_OF(kinds) ? kinds[index] : NULL; }

/* Another library's class of the same name is another layer. Keras 2 leaves the module out. */
static bool is_of_module(const clq_layer_kind *kind, const char *module) {
    static const char *const keras[] = {"keras.layers", "keras.src.layers", "keras.src.engine"};
    if (kind->module) return module && strcmp(module, kind->module) == 0;
    for (size_t i = 0; module && i < CLQ_COUNT_OF(keras); i++)
        if (strncmp(module, keras[i], strlen(keras[i])) == 0) return true;
    return !module;
}

const clq_layer_kind *clq_layer_kind_named(const char *type, const char *module) {
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++)
        if (strcmp(kinds[i]->type, type) == 0 && is_of_module(kinds[i], module)) return kinds[i];
    return NULL;
}

clq_status clq_layer_keep_shape(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    (void)layer;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    return CLQ_OK;
}

bool clq_layer_is_by_token(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y) {
    (void)layer;
    for (uint32_t i = 0; i < y->input_count; i++)
        if (clq_model_input_of(model, y, i)->shape.rank != y->shape.rank) return false;
    return true;
}

bool clq_layer_is_by_row(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y) {
    return clq_layer_is_by_token(model, layer, y) && y->shape.rank > 1;
}

bool clq_layer_is_of_tokens(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y) {
    (void)model, (void)layer, (void)y;
    return true;
}
