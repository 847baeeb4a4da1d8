/* What the files of layer kinds share: how they declare their rows (graph/layer_rows.h), and how they add their
 * operations to a step graph. Private to graph. */
#ifndef CLQ_GRAPH_LAYER_H
#define CLQ_GRAPH_LAYER_H

#include "graph/model.h"
#include "graph/step/parts.h"

/* ---- rows ---- */

/* For a kind whose layers take a `config`: the config's size, and the attributes in the static array `rows`. */
#define CLQ_LAYER_CONFIG(config, rows) .config_bytes = sizeof(config), CLQ_LAYER_ATTRIBUTES(rows)
/* The attributes alone, for a kind whose layers take no config: files may have these. */
#define CLQ_LAYER_ATTRIBUTES(rows) .attributes = (rows), .attribute_count = CLQ_COUNT_OF(rows)
/* An attribute, and the config's member that holds it. */
#define CLQ_LAYER_ATTRIBUTE(name, kind, config, member) .key = (name), .type = (kind), .at = offsetof(config, member)

/* An `infer` function: y gets the shape of its first input. (kinds.c) */
clq_status clq_layer_keep_shape(const clq_model *model, const clq_layer *layer, clq_model_tensor *y);

/* A `by_token` function of elementwise layers: true if all inputs have as many axes as y. (kinds.c) */
bool clq_layer_is_by_token(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y);
/* As clq_layer_is_by_token, for layers that compute along the last axis, which must not be the tokens'. (kinds.c) */
bool clq_layer_is_by_row(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y);
/* A `by_token` function of layers that always compute by token: true. (kinds.c) */
bool clq_layer_is_of_tokens(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y);

/* An `infer` function of kinds with several inputs whose shapes broadcast. (merge.c) */
clq_status clq_layer_infer_broadcast(const clq_model *model, const clq_layer *layer, clq_model_tensor *y);

/* Adds a tensor that is 1 for each number of x that is not 0, and 0 for the others. Its layer is named after layer
 * `of`. (logic.c) */
clq_tensor clq_model_add_mask(clq_model *model, const char *of, clq_tensor x);
/* Adds the mask of the steps that count in a, in b, or in both. Its layer is named after layer `of`. (logic.c) */
clq_tensor clq_model_join_masks(clq_model *model, const char *of, clq_tensor a, clq_tensor b);
/* Adds a mask that a layer of the given kind computes. The layer is named after layer `of`. (logic.c) */
clq_tensor clq_model_add_mask_of(clq_model *model, const char *of, const clq_layer_kind *kind, const void *config,
                                 const clq_tensor *inputs, size_t count);

/* Builders use this first, with a config or NULL. A config that sets `reserved` asks for what this version does not
 * know: the model fails, and the builder returns no tensor. (attributes.c) */
bool clq_layer_knows(clq_model *model, const char *type, const char *name, const void *reserved, size_t bytes);
#define CLQ_LAYER_KNOWS(model, type, config)                                                                           \
    if ((config) && !clq_layer_knows(model, #type, (config)->name, (config)->reserved, sizeof(config)->reserved))      \
        return (clq_tensor) { 0 }
/* Gives unset members of the config their defaults, and checks all members by the kind's rows. (attributes.c) */
clq_status clq_layer_check(const clq_layer_kind *kind, void *config);
/* Replaces what the attributes of a copied config point to by copies. The config has to be released even if this
 * fails. */
clq_status clq_layer_own(const clq_layer_kind *kind, void *config);
/* Appends a text of the attributes. Two layers of a kind have the same text only if their attributes make them take the
 * same time. */
void clq_layer_add_key(const clq_layer *layer, clq_text *to);

/* Variable numbers of layers that compute products. */
enum { CLQ_KERNEL, CLQ_BIAS };

extern const clq_layer_kind clq_layer_input, clq_layer_conv1d, clq_layer_conv2d, clq_layer_depthwise_conv1d,
    clq_layer_depthwise_conv2d, clq_layer_separable_conv1d, clq_layer_separable_conv2d, clq_layer_conv1d_transpose,
    clq_layer_conv2d_transpose, clq_layer_max_pool1d, clq_layer_max_pool2d, clq_layer_average_pool1d,
    clq_layer_average_pool2d, clq_layer_global_average_pool1d, clq_layer_global_average_pool2d,
    clq_layer_global_average_pool3d, clq_layer_global_max_pool1d, clq_layer_global_max_pool2d,
    clq_layer_global_max_pool3d, clq_layer_zero_padding1d, clq_layer_zero_padding2d, clq_layer_zero_padding3d,
    clq_layer_cropping1d, clq_layer_cropping2d, clq_layer_cropping3d, clq_layer_up_sampling1d, clq_layer_up_sampling2d,
    clq_layer_up_sampling3d, clq_layer_conv3d, clq_layer_max_pool3d, clq_layer_average_pool3d, clq_layer_conv_lstm2d,
    clq_layer_repeat_vector, clq_layer_permute, clq_layer_dense, clq_layer_flatten, clq_layer_reshape,
    clq_layer_activation, clq_layer_relu, clq_layer_softmax, clq_layer_add, clq_layer_subtract, clq_layer_multiply,
    clq_layer_average, clq_layer_maximum, clq_layer_concatenate, clq_layer_batch_norm, clq_layer_dropout,
    clq_layer_masking, clq_layer_layer_norm, clq_layer_rms_norm, clq_layer_group_norm, clq_layer_unit_norm,
    clq_layer_rescaling, clq_layer_normalization, clq_layer_layer_scale, clq_layer_leaky_relu, clq_layer_elu,
    clq_layer_prelu, clq_layer_minimum, clq_layer_spatial_dropout1d, clq_layer_spatial_dropout2d,
    clq_layer_spatial_dropout3d, clq_layer_alpha_dropout, clq_layer_gaussian_dropout, clq_layer_gaussian_noise,
    clq_layer_op_add, clq_layer_op_subtract, clq_layer_op_multiply, clq_layer_op_divide, clq_layer_op_true_divide,
    clq_layer_op_maximum, clq_layer_op_minimum, clq_layer_op_negative, clq_layer_op_absolute, clq_layer_op_square,
    clq_layer_op_sqrt, clq_layer_op_exp, clq_layer_op_log, clq_layer_op_sin, clq_layer_op_cos, clq_layer_op_tanh,
    clq_layer_op_relu, clq_layer_op_relu6, clq_layer_op_sigmoid, clq_layer_op_silu, clq_layer_op_softplus,
    clq_layer_op_softsign, clq_layer_op_log_sigmoid, clq_layer_op_selu, clq_layer_op_hard_sigmoid,
    clq_layer_op_hard_silu, clq_layer_op_hard_tanh, clq_layer_op_tanh_shrink, clq_layer_op_gelu, clq_layer_op_sum,
    clq_layer_op_mean, clq_layer_custom_scale, clq_layer_op_reshape, clq_layer_op_squeeze, clq_layer_op_expand_dims,
    clq_layer_op_transpose, clq_layer_op_concatenate, clq_layer_op_stack, clq_layer_op_get_item, clq_layer_op_softmax,
    clq_layer_attention, clq_layer_embedding, clq_layer_op_ones, clq_layer_op_zeros, clq_layer_op_cumsum,
    clq_layer_op_equal, clq_layer_op_not_equal, clq_layer_op_greater, clq_layer_op_greater_equal, clq_layer_op_less,
    clq_layer_op_less_equal, clq_layer_op_both, clq_layer_op_either, clq_layer_op_not, clq_layer_op_any,
    clq_layer_op_all, clq_layer_op_where, clq_layer_op_erf, clq_layer_op_power, clq_layer_op_sign, clq_layer_op_expm1,
    clq_layer_op_log1p, clq_layer_op_reciprocal, clq_layer_op_cast, clq_layer_op_convert, clq_layer_op_clip,
    clq_layer_op_max, clq_layer_op_min, clq_layer_op_matmul, clq_layer_op_einsum, clq_layer_dot, clq_layer_einsum_dense,
    clq_layer_resizing, clq_layer_category_encoding, clq_layer_op_one_hot, clq_layer_op_fft2, clq_layer_op_split,
    clq_layer_op_swapaxes, clq_layer_op_flip, clq_layer_op_pad, clq_layer_position_embedding, clq_layer_learned_rows,
    clq_layer_rotary_embedding, clq_layer_llama_norm, clq_layer_mistral_norm, clq_layer_qwen_norm, clq_layer_phi3_norm,
    clq_layer_gemma_norm, clq_layer_gemma3_norm, clq_layer_qwen3_norm, clq_layer_t5_norm, clq_layer_relative_rows,
    clq_layer_relative_scores, clq_layer_scored_attention, clq_layer_reversible_embedding, clq_layer_random_flip,
    clq_layer_random_rotation, clq_layer_random_zoom, clq_layer_random_translation, clq_layer_random_crop,
    clq_layer_random_brightness, clq_layer_random_contrast, clq_layer_op_attention, clq_layer_score_attention,
    clq_layer_additive_attention, clq_layer_top_k, clq_layer_simple_rnn, clq_layer_lstm, clq_layer_gru,
    clq_layer_op_stop_gradient, clq_layer_conv3d_transpose, clq_layer_conv_lstm1d, clq_layer_op_extract_patches,
    clq_layer_op_var, clq_layer_op_std, clq_layer_op_logsumexp, clq_layer_op_log_softmax, clq_layer_op_normalize,
    clq_layer_op_rsqrt, clq_layer_op_depth_to_space, clq_layer_op_space_to_depth, clq_layer_op_roll,
    clq_layer_op_repeat, clq_layer_op_tile, clq_layer_op_moveaxis, clq_layer_op_leaky_relu, clq_layer_op_elu,
    clq_layer_op_resize, clq_layer_center_crop, clq_layer_adaptive_average1d, clq_layer_adaptive_average2d,
    clq_layer_adaptive_average3d, clq_layer_adaptive_max1d, clq_layer_adaptive_max2d, clq_layer_adaptive_max3d,
    clq_layer_grouped_attention, clq_layer_discretization, clq_layer_stft_spectrogram, clq_layer_mel_spectrogram,
    clq_layer_conv_lstm3d;

/* Errors: ARGUMENT if the activation is none of clq_activation. */
clq_status clq_layer_check_activation(clq_activation activation);
/* The activation that a product's own launch applies. Any other activation is an operation of its own, and this gives
 * LINEAR. */
static inline clq_activation clq_layer_fused_activation(clq_activation activation) {
    return clq_activation_joins(activation) ? activation : CLQ_ACTIVATION_LINEAR;
}

/* ---- layers as operations (step/expand.c) ---- */

/* What the step graph has of a tensor of the model. */
typedef struct clq_expanded {
    clq_id value;
    clq_id logits;          /* the input of `skipped`, for a loss that reads it; 0: none */
    clq_activation skipped; /* the softmax or sigmoid behind `logits` */
    bool read;              /* a layer whose output is wanted reads it */
    bool wanted;            /* an output, a loss or a later stage needs it */
} clq_expanded;

/* The state of expanding a model's layers into operations. */
struct clq_expansion {
    clq_graph *graph;
    const clq_model *model;
    const clq_plan_config *config;
    clq_expanded *tensors; /* by the id of the model's tensor */
    clq_id *weights;       /* by variable; 0: not yet */
    uint32_t dropouts;     /* uses of layers that draw, so far: the next stream */
    clq_id places;         /* of clq_expand_places; 0: not yet */
    /* The tensor that is being expanded, and its layer. */
    uint32_t id;
    const clq_model_tensor *y;
    const clq_layer *layer;
};

/* A node of the layer, in the forward segment, without inputs and outputs. */
clq_node clq_expand_node(const clq_expansion *e, const clq_operation *op);
/* The builder for a layer of many operations (parts.h). Sets `of`, which has to live as long as the result. */
clq_parts clq_expand_parts(const clq_expansion *e, clq_node *of);
/* Adds a value of this shape for each sample, in the step's own memory. */
clq_id clq_expand_value(clq_expansion *e, const clq_shape *shape, size_t elements);
/* The value of the layer's variable `index`. All reads of the variable share it. 0: the layer has no such variable. */
clq_id clq_expand_weight(clq_expansion *e, unsigned index);
/* The value that the layer's state variable `index` has after the step. It lies in the same memory as the old value. */
clq_id clq_expand_new_state(clq_expansion *e, unsigned index);

/* For a model that decodes: the place of each sample's token in its text, as a number. */
clq_id clq_expand_places(clq_expansion *e);

/* Each adds a node, and gives the node's output, which has y's shape. */
clq_id clq_expand_unary(clq_expansion *e, clq_node node, clq_id x);
/* One instruction, which has one or two operands of y's shape. */
clq_id clq_expand_elements(clq_expansion *e, clq_instruction instruction, const clq_id *x);
/* LINEAR adds no node: the result is x itself. */
clq_id clq_expand_activation(clq_expansion *e, clq_activation activation, clq_id x);
/* cap tanh(z / cap), of z's shape. If the cap is 0, the result is z itself. */
clq_id clq_expand_capped(clq_expansion *e, const clq_shape *shape, double cap, clq_id z);
/* The functions of Permute and Concatenate, for other kinds with such configs. (permute.c, concatenate.c) */
clq_status clq_layer_infer_permuted(const clq_model *model, const clq_layer *layer, clq_model_tensor *y);
clq_id clq_layer_expand_permuted(clq_expansion *e, const clq_id *x);
clq_status clq_layer_infer_concatenated(const clq_model *model, const clq_layer *layer, clq_model_tensor *y);
clq_id clq_layer_expand_concatenated(clq_expansion *e, const clq_id *x);
/* Dropout factors of this shape for each sample. Each is 0 or 1 / (1 - rate). seed 0: the trainer's. (dropout.c) */
clq_id clq_expand_drops(clq_expansion *e, const clq_shape *shape, double rate, uint64_t seed, uint32_t stream);
/* Takes the stream of a use of a layer that draws, in every mode. False: the mode is not training, and nothing is
 * drawn. */
bool clq_layer_begins_draw(clq_expansion *e, uint32_t *stream);
/* `count` random numbers from 0 to 1 for each sample. They depend on the seed (0: the trainer's), the stream, the step
 * and the sample's place in the global batch. (augment.c) */
clq_id clq_layer_expand_draws(clq_expansion *e, uint32_t stream, uint64_t seed, size_t count);
/* Resizes image x to the height and width of y. interpolation: an index of clq_layer_interpolations, which end with
 * NULL: nearest, bilinear, bicubic. (resample.c) */
extern const char *const clq_layer_interpolations[];
clq_id clq_layer_expand_resampled(clq_expansion *e, clq_id x, int interpolation, bool antialias);
clq_id clq_layer_expand_resampled_from(clq_expansion *e, clq_id x, const clq_shape *from, int interpolation,
                                       bool antialias); /* x has shape `from` */
/* Moves an axis of x behind all others, or with `back` the last axis to that place. x has shape `from` and as many
 * elements as y. `to` is set to the new shape. (activation.c) */
clq_id clq_layer_move_axis(clq_expansion *e, clq_id x, const clq_shape *from, unsigned axis, bool back, clq_shape *to);
/* Joins all inputs of the layer: each of `rows` rows has the inputs' rows side by side. */
clq_id clq_expand_joined(clq_expansion *e, const clq_id *x, size_t rows);
/* Broadcasts x from shape `from` to shape `to`: repeats it along the axes on which it has size 1 and `to` more. */
clq_id clq_expand_repeated(clq_expansion *e, const clq_shape *from, const clq_shape *to, clq_id x);
/* z plus variable `index`, which has a number for each channel. If the layer has no such variable, the result is z
 * itself. */
clq_id clq_expand_bias(clq_expansion *e, unsigned index, clq_id z);
/* y, whose numbers the arrangement takes from x. */
clq_id clq_expand_arrange(clq_expansion *e, const clq_arrangement *arrangement, clq_id x);
/* A weight whose numbers the arrangement brings into this shape. Like the weight, it is one value for all samples. */
clq_id clq_expand_arranged_weight(clq_expansion *e, const clq_arrangement *arrangement, const clq_shape *shape,
                                  clq_id weight);
/* The product of x with the layer's kernel, plus its bias, then the activation. The activation is an operation of its
 * own if the node does not apply it, or if a loss reads its input. */
clq_id clq_expand_product(clq_expansion *e, clq_node node, clq_id x, clq_activation activation);

/* ---- windows of convolutions and poolings (window.c) ---- */

/* Errors: ARGUMENT unless a sample has `axes` axes, 1 to 3, and channels behind them. */
clq_status clq_layer_check_rank(const clq_shape *shape, unsigned axes);

/* A window along one axis. */
typedef struct clq_window {
    const char *axis; /* for messages: "height" */
    size_t in, size, stride, dilation;
    size_t out, pad; /* results: the window's positions; zeros in front of the axis */
} clq_window;
clq_status clq_window_place(clq_window *w, clq_padding padding);
/* The same for a transposed convolution: from the number of positions, `out`, finds the size of the axis, `in`, and
 * `pad`. behind: the output padding along the axis, below the stride; NULL: the padding alone decides. */
clq_status clq_window_place_transposed(clq_window *w, clq_padding padding, const size_t *behind);
/* Reads the `behind` of an axis from output_padding, which has no number, one for all axes, or one for each axis. Sets
 * `out` to `behind`, or to NULL if there is no number. */
clq_status clq_layer_find_behind(const clq_numbers *given, unsigned axes, unsigned axis, size_t *behind,
                                 const size_t **out);
/* The windows of a convolution or pooling along height and width. A number of 0 means 1. */
typedef struct clq_window_pair {
    size_t size[2], strides[2], dilation[2];
    clq_padding padding;
} clq_window_pair;
/* Sets y's shape: the windows' positions over y's input, along one axis or two, and the input's channels. */
clq_status clq_infer_windows(const clq_model *model, const clq_window_pair *pair, unsigned axes, clq_model_tensor *y);
/* The same windows as a problem of convolutions, without filters and activation. */
clq_conv2d_problem clq_expand_windows(const clq_expansion *e, const clq_window_pair *pair);
/* A convolution's node, without inputs and outputs. With more than one group of channels it is a grouped
 * convolution. */
clq_node clq_expand_convolution(const clq_expansion *e, const clq_conv2d_problem *problem, size_t groups);

/* Finds the axis, counted from 0, that `given` names. A negative `given` counts from the end. False: there is no such
 * axis. */
static inline bool clq_find_axis(const clq_shape *shape, int given, unsigned *axis) {
    const int from_start = given < 0 ? given + (int)shape->rank : given;
    if (from_start < 0 || from_start >= (int)shape->rank) return false;
    *axis = (unsigned)from_start;
    return true;
}

/* ---- what kinds of keras.ops share (arithmetic.c) ---- */

/* Kinds with two operands whose shapes broadcast: two tensors, or a tensor and numbers. */
enum { CLQ_OPERAND_ROWS = 1, CLQ_REDUCTION_ROWS = 3 };
extern const clq_attribute clq_layer_operand_rows[CLQ_OPERAND_ROWS];
/* Combines two registers of the program, and gives the register of the result. */
typedef unsigned (*clq_layer_combine)(clq_element_program *p, unsigned a, unsigned b);
clq_status clq_layer_infer_binary(const clq_model *model, const clq_layer *layer, clq_model_tensor *y);
/* The number of an operand's array for element `at` of y. The array broadcasts to y's shape. */
float clq_layer_operand_number(const clq_operand *operand, const clq_shape *y, size_t at);
/* Refuses an array that has more axes than a tensor of shape x has together with the batch. With such an array, the
 * batch would no longer be the first axis of the result. Errors: UNSUPPORTED. */
clq_status clq_layer_check_operand(const clq_operand *operand, const clq_shape *x);
clq_id clq_layer_expand_binary(clq_expansion *e, const clq_id *x, clq_layer_combine combine);
#define CLQ_BINARY_KIND(kind, class_name, name_stem, in_module, expansion)                                             \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .module = (in_module),                                                                \
                                 .inputs = {1, 2},                                                                     \
                                 .config_bytes = sizeof(clq_operand),                                                  \
                                 CLQ_LAYER_ATTRIBUTES(clq_layer_operand_rows),                                         \
                                 .takes_scalars = true,                                                                \
                                 .by_token = clq_layer_is_by_token,                                                    \
                                 .infer = clq_layer_infer_binary,                                                      \
                                 .expand = (expansion)}

/* Kinds that reduce one tensor over adjacent axes. */
extern const clq_attribute clq_layer_reduction_rows[CLQ_REDUCTION_ROWS];
typedef struct clq_reduction_config {
    clq_axes axes;
    bool keep_dims;
} clq_reduction_config;
clq_status clq_layer_infer_reduction(const clq_model *model, const clq_layer *layer, clq_model_tensor *y);
clq_id clq_layer_expand_sum(clq_expansion *e, clq_id x, double scale); /* the sum times `scale` */
/* The runs of the layer's input that it reduces, one for each number of y. The config begins with a
 * clq_reduction_config. */
clq_repeat_problem clq_layer_runs(const clq_expansion *e);
#define CLQ_REDUCTION_KIND(kind, class_name, name_stem, in_module, expansion)                                          \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .module = (in_module),                                                                \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(clq_reduction_config, clq_layer_reduction_rows),                     \
                                 .infer = clq_layer_infer_reduction,                                                   \
                                 .expand = (expansion)}

/* A function of keras.ops that takes one tensor, keeps its shape, and has no attributes. */
#define CLQ_FUNCTION_KIND(kind, class_name, name_stem, in_module, expansion)                                           \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .module = (in_module),                                                                \
                                 .inputs = {1, 1},                                                                     \
                                 .takes_scalars = true,                                                                \
                                 .by_token = clq_layer_is_by_token,                                                    \
                                 .infer = clq_layer_keep_shape,                                                        \
                                 .expand = (expansion)}

/* Whether the layer is the part of a TopK that gives places. (top_k.c) */
bool clq_layer_gives_places(const clq_layer *layer);
/* Whether all numbers that the layer computes from y's inputs are known to be whole numbers. (whole.c) */
bool clq_layer_gives_whole(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y);

/* ---- classes (encoding.c) ---- */

/* One-hot rows (numbers, classes): for each number of x 1 in the column of its class, and 0 in all others. A number
 * that is no class has a row of zeros. */
clq_id clq_layer_expand_classes(clq_expansion *e, clq_id x, size_t numbers, size_t classes);
/* The smaller of each number of x and 1. x has y's shape. */
clq_id clq_layer_expand_at_most_one(clq_expansion *e, clq_id x);

/* ---- products (products.c, mixed.c) ---- */

clq_status clq_layer_infer_matmul(const clq_model *model, const clq_layer *layer, clq_model_tensor *y);
clq_id clq_layer_expand_matmul(clq_expansion *e, const clq_id *x);
/* Makes y (outer, to, inner) of x (outer, from, inner): place i of y's middle axis is the sum over j of matrix[i][j]
 * times place j of x's. matrix: (to, from). The result has the shape of the layer's y. */
typedef struct clq_mixture {
    size_t to, from, outer, inner;
} clq_mixture;
clq_id clq_layer_expand_mixed(clq_expansion *e, const clq_mixture *mix, const float *matrix, clq_id x);

static inline size_t clq_or_default(size_t value, size_t otherwise) { return value ? value : otherwise; }

#endif
