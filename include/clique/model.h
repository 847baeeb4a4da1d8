/* clique/model.h: a model, built line by line. Nothing touches a device here.
 *
 * Each builder call adds a layer and returns its output. The first failure is latched with its layer's name, and
 * clq_model_finish reports it: so a model reads as straight lines and is checked once. Shapes do not include the batch;
 * they have 1 to CLQ_SHAPE_MAX dimensions, each at least 1.
 *
 * Layer names are Keras's unless given: conv2d, conv2d_1, …, dense, …. A given name is unique, has 1 to 127 bytes in
 * UTF-8, no '/' and no control characters, and is copied. Variables are named `layer/kernel` and `layer/bias`;
 * clq_batch_norm's are `gamma`, `beta`, `moving_mean` and `moving_variance`, each (c).
 *
 * Configs are copied. If a builder's comment says so, its config may be NULL for its defaults; any other NULL config is
 * latched as ARGUMENT.
 *
 * Thread rules: one thread at a time builds a model; once finished, it is read-only and may be shared. */
#ifndef CLIQUE_MODEL_H
#define CLIQUE_MODEL_H

#include <clique/types.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Layers and their variables, symbolically. From clq_model_create to clq_model_destroy. */
typedef struct clq_model clq_model;
/* What a layer gives, of one sample: an input of further layers. */
typedef struct clq_tensor {
    const clq_model *model; /* the model that it belongs to */
    uint32_t id;            /* 0: none (a failure was latched) */
} clq_tensor;

/* Sizes of the axes of one sample, the outermost first; the batch is none of them. See CLQ_SHAPE. */
typedef struct clq_shape {
    unsigned rank;
    size_t dims[CLQ_SHAPE_MAX];
} clq_shape;
/* CLQ_SHAPE(28, 28, 1) */
#define CLQ_SHAPE(...) ((clq_shape){sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t), {__VA_ARGS__}})

/* How a window moves along an axis with `in` values, if extent = (size - 1) * dilation + 1:
 *
 * - VALID: (in - extent) / stride + 1 positions, rounded down; extent is at most in.
 * - SAME: in / stride positions, rounded up. Zeros surround the values; an odd zero comes after them, as in TensorFlow.
 * - CAUSAL, in clq_conv1d: extent - 1 zeros come first, and then the positions are as with VALID: no position sees
 *   later values. */
typedef enum clq_padding { CLQ_PADDING_VALID, CLQ_PADDING_SAME, CLQ_PADDING_CAUSAL } clq_padding;

/* How a variable's first values are chosen, by Keras's formulas for initializers. Random values depend on the trainer's
 * seed; each variable has its own random numbers. Fans: those in clq_variable_info. */
typedef enum clq_initialiser_kind {
    CLQ_INITIALISER_DEFAULT,  /* the layer's: Glorot's uniform for a kernel, else what the layer says */
    CLQ_INITIALISER_CONSTANT, /* `value` everywhere */
    CLQ_INITIALISER_UNIFORM,  /* from `low` to `high` */
    CLQ_INITIALISER_NORMAL,   /* with `mean` and standard `deviation` */
    CLQ_INITIALISER_TRUNCATED_NORMAL, /* NORMAL, drawn anew if more than two deviations from the mean */
    /* Mean 0 and variance `scale` / fan. `distribution` is uniform within +-sqrt(3 scale / fan), normal, or truncated
     * normal. A truncated one has, before truncation, the deviation sqrt(scale / fan) / 0.87962566103423978. */
    CLQ_INITIALISER_VARIANCE_SCALING,
    /* `gain` times a matrix with orthonormal rows or columns, whichever are fewer (Saxe, McClelland and Ganguli, 2014).
     * All axes before the last one count as one. For variables with at least two dimensions. */
    CLQ_INITIALISER_ORTHOGONAL,
    CLQ_INITIALISER_IDENTITY /* `gain` on the diagonal, else 0. For matrices */
} clq_initialiser_kind;
typedef enum clq_fan { CLQ_FAN_IN, CLQ_FAN_OUT, CLQ_FAN_MEAN } clq_fan; /* MEAN: both fans' mean */
/* How the values of CLQ_INITIALISER_VARIANCE_SCALING are drawn. */
typedef enum clq_distribution {
    CLQ_DISTRIBUTION_TRUNCATED_NORMAL,
    CLQ_DISTRIBUTION_NORMAL,
    CLQ_DISTRIBUTION_UNIFORM
} clq_distribution;
/* All zero: the default. Members that a kind does not use are not read. All numbers are finite. */
typedef struct clq_initialiser {
    clq_initialiser_kind kind;
    double value;
    double low, high;       /* low is at most high */
    double mean, deviation; /* deviation is at least 0 */
    double scale;           /* above 0 */
    clq_fan fan;
    clq_distribution distribution;
    double gain;
    double reserved[2]; /* 0 */
} clq_initialiser;

/* Of clq_conv2d. All zero is the default, but of filters and kernel. */
typedef struct clq_conv2d_config {
    size_t filters;
    size_t kernel[2];   /* h, w */
    size_t strides[2];  /* 0: 1 */
    size_t dilation[2]; /* 0: 1. Above 1 only without strides */
    clq_padding padding;
    clq_activation activation;
    bool no_bias;
    const char *name;                                     /* NULL: made */
    clq_initialiser kernel_initialiser, bias_initialiser; /* defaults: Glorot's uniform one; zeros */
    size_t groups; /* of channels; a filter reads its own group alone. Divides channels and filters. 0: 1 */
    double reserved[4]; /* 0 */
} clq_conv2d_config;
/* As clq_conv2d_config, along one axis. */
typedef struct clq_conv1d_config {
    size_t filters, kernel, strides, dilation, groups;
    clq_padding padding; /* CAUSAL, too */
    clq_activation activation;
    bool no_bias;
    const char *name;
    clq_initialiser kernel_initialiser, bias_initialiser;
    double reserved[4]; /* 0 */
} clq_conv1d_config;
/* Of clq_depthwise_conv2d. All zero is the default, but of kernel. */
typedef struct clq_depthwise_conv2d_config {
    size_t kernel[2], strides[2], dilation[2]; /* as in clq_conv2d_config */
    size_t multiplier;                         /* filters for each channel. 0: 1 */
    clq_padding padding;
    clq_activation activation;
    bool no_bias;
    const char *name;
    clq_initialiser depthwise_initialiser, bias_initialiser; /* defaults: Glorot's uniform one; zeros */
    double reserved[4]; /* 0 */
} clq_depthwise_conv2d_config;
/* Activation and bias apply to the result, after both convolutions. */
typedef struct clq_separable_conv2d_config {
    clq_depthwise_conv2d_config depthwise;
    size_t filters;
    clq_initialiser pointwise_initialiser; /* default: Glorot's uniform one */
    double reserved[4]; /* 0 */
} clq_separable_conv2d_config;
/* Of clq_dense. All zero is the default, but of units. */
typedef struct clq_dense_config {
    size_t units;
    clq_activation activation;
    bool no_bias;
    const char *name;
    clq_initialiser kernel_initialiser, bias_initialiser; /* defaults: Glorot's uniform one; zeros */
    double reserved[4]; /* 0 */
} clq_dense_config;
/* Of clq_conv3d. All zero is the default, but of filters and kernel. */
typedef struct clq_conv3d_config {
    size_t filters;
    size_t kernel[3];   /* d, h, w */
    size_t strides[3];  /* 0: 1 */
    size_t dilation[3]; /* 0: 1. Above 1 only without strides */
    clq_padding padding;
    clq_activation activation;
    bool no_bias;
    const char *name;
    clq_initialiser kernel_initialiser, bias_initialiser; /* defaults: Glorot's uniform one; zeros */
    size_t groups;                                        /* as in clq_conv2d_config */
    double reserved[4]; /* 0 */
} clq_conv3d_config;
/* Of pooling of volumes; d, h, w. */
typedef struct clq_pool3d_config {
    size_t size[3];    /* 0: 2 */
    size_t strides[3]; /* 0: size */
    clq_padding padding;
    const char *name;
    double reserved[4]; /* 0 */
} clq_pool3d_config;
/* Of pooling of images; h, w. */
typedef struct clq_pool_config {
    size_t size[2];    /* 0: 2 */
    size_t strides[2]; /* 0: size */
    clq_padding padding;
    const char *name;
    double reserved[4]; /* 0 */
} clq_pool_config;
/* Of pooling along one axis. */
typedef struct clq_pool1d_config {
    size_t size;    /* 0: 2 */
    size_t strides; /* 0: size */
    clq_padding padding;
    const char *name;
    double reserved[4]; /* 0 */
} clq_pool1d_config;

/* clq_batch_norm_config_default gives Keras's defaults. */
typedef struct clq_batch_norm_config {
    double momentum; /* 0 to 1: moving = moving * momentum + batch's * (1 - momentum). Default 0.99 */
    double epsilon;  /* 0 to 1: added to the variance. Default 1e-3 */
    bool no_center, no_scale;
    bool synchronized; /* in training, use the global batch's statistics, not those of each replica's part */
    const char *name;
    /* Defaults: ones for gamma and moving_variance, zeros for the others. */
    clq_initialiser gamma_initialiser, beta_initialiser, moving_mean_initialiser, moving_variance_initialiser;
    double reserved[4]; /* 0 */
} clq_batch_norm_config;
/* A tensor's axes: 0 is the first axis after the batch, -1 the last one. count 0: the last one. */
typedef struct clq_axes {
    unsigned count;
    int axes[CLQ_SHAPE_MAX];
} clq_axes;
/* What an update may make of a variable w, as in keras.constraints. NON_NEGATIVE: numbers below 0 become 0. The other
 * kinds scale by a norm: n is the norm of all numbers along `axes`, for each place along the other axes, and w becomes
 * w * d / (1e-7 + n), with
 *
 * - MAX_NORM: d = min(n, most)
 * - UNIT_NORM: d = 1
 * - MIN_MAX_NORM: d = rate * clip(n, least, most) + (1 - rate) * n */
typedef enum clq_constraint_kind {
    CLQ_CONSTRAINT_NONE,
    CLQ_CONSTRAINT_NON_NEGATIVE,
    CLQ_CONSTRAINT_MAX_NORM,
    CLQ_CONSTRAINT_UNIT_NORM,
    CLQ_CONSTRAINT_MIN_MAX_NORM
} clq_constraint_kind;
/* What a variable is brought back to after each update. All zero: none. */
typedef struct clq_constraint {
    clq_constraint_kind kind;
    double least, most; /* finite, 0 <= least <= most. least: MIN_MAX_NORM alone */
    double rate;        /* MIN_MAX_NORM: 0 to 1 */
    clq_axes axes;      /* the variable's axes for the norm; 0 is its first. count 0: the first one */
    double reserved[2]; /* 0 */
} clq_constraint;
/* Of clq_layer_norm, clq_rms_norm and clq_group_norm. All zero is the default. */
typedef struct clq_row_norm_config {
    clq_axes axes;  /* a row's: the last axis, or several of the last ones. Not for group normalisation */
    double epsilon; /* 0 to 1: added to the variance. 0: the default, 1e-3; for clq_rms_norm 1e-6 */
    double groups;  /* for group normalisation: divides the channels. -1: as many as channels. 0: 32 */
    bool no_center, no_scale;
    const char *name;
    clq_initialiser gamma_initialiser, beta_initialiser; /* defaults: ones; zeros */
    double reserved[4]; /* 0 */
} clq_row_norm_config;
/* Of clq_embedding. All zero is the default, but of rows and width. */
typedef struct clq_embedding_config {
    size_t rows, width; /* needed; rows is below 2^24 */
    /* Token 0 is padding. Later recurrent layers and attention skip such steps, and so does the loss if the output
     * keeps the steps, as with Keras's masks. */
    bool mask_zero;
    const char *name;
    clq_initialiser initialiser; /* default: from -0.05 to 0.05 */
    double reserved[4]; /* 0 */
} clq_embedding_config;
/* Of clq_attention. All zero is the default, but of heads and key. */
typedef struct clq_attention_config {
    size_t heads, key; /* key: channels in each head's queries and keys */
    size_t value;      /* channels in each head's values; 0: key */
    size_t output;     /* channels in the result; 0: as many as in the query */
    double dropout;    /* on attention weights, in training: at least 0 and below 1 */
    bool causal;       /* no token looks at later ones */
    bool no_bias;
    clq_axes axes; /* axes to attend along: the last ones before the channels. count 0: all */
    uint64_t seed; /* for dropout; 0: the trainer's */
    const char *name;
    clq_initialiser kernel_initialiser, bias_initialiser; /* defaults: Glorot's uniform one; zeros */
    double reserved[4]; /* 0 */
} clq_attention_config;
/* clq_recurrent_config_default gives Keras's defaults. */
typedef struct clq_recurrent_config {
    size_t units;
    /* Defaults: TANH, SIGMOID. SOFTMAX is not supported. LINEAR, RELU, SIGMOID and TANH run all steps in one launch.
     * With any other activation each step is some twenty operations, and there may be at most 64 steps. */
    clq_activation activation, gate_activation;
    bool no_bias;
    bool return_sequences;     /* return the state after each step, not the last state alone */
    bool go_backwards;         /* go from the last step to the first; steps are returned in that order */
    bool zero_output_for_mask; /* masked steps return zeros, not what the step before returned */
    /* Dropout on each step's input and on the state, in training: at least 0 and below 1. A sample's choice is the same
     * for all steps. */
    double dropout, recurrent_dropout;
    uint64_t seed;       /* for dropout; 0: the trainer's */
    bool no_forget_ones; /* LSTM: the forget gate's bias starts like the others, not with ones */
    const char *name;
    clq_initialiser kernel_initialiser, recurrent_initialiser, bias_initialiser; /* defaults: Glorot's uniform one,
                                                                                    orthogonal, zeros */
    bool reset_before; /* GRU: apply the reset gate before the state's product (Keras: reset_after=False), not after
                          it */
    double reserved[4]; /* 0 */
} clq_recurrent_config;
/* Of clq_dropout and its siblings. */
typedef struct clq_dropout_config {
    double rate;   /* fraction that becomes 0: at least 0 and below 1 */
    uint64_t seed; /* 0: the trainer's */
    const char *name;
    unsigned shared; /* bit d: along axis d all places in a sample are dropped or kept together (Keras's noise_shape) */
    double reserved[4]; /* 0 */
} clq_dropout_config;

/* Makes an empty model, which the caller destroys. name: 1 to 127 bytes, copied. Errors: ARGUMENT, MEMORY. */
CLQ_API clq_status clq_model_create(const char *name, clq_model **out);
CLQ_API void clq_model_destroy(clq_model *model); /* takes NULL. First destroy the trainers that were made from it */

/* Builders. Comments say: the input's shape -> the output's shape, and the layer's variables. (…) stands for any
 * leading axes. */

/* The model's only input, with a sample's shape. */
CLQ_API clq_tensor clq_input(clq_model *model, clq_shape shape);
/* Several inputs, instead of clq_input: tensors[i] has shape shapes[i]. A sample has all inputs' values, in this order,
 * one after the other: clq_dataset_add_samples combines arrays in this form. count: 1 to CLQ_MODEL_INPUTS_MAX. names:
 * (count) layer names, each may be NULL: made; names itself may be NULL. */
CLQ_API void clq_inputs(clq_model *model, const clq_shape *shapes, const char *const *names, size_t count,
                        clq_tensor *tensors);
/* 2-D convolution: (h, w, c) -> (positions along h, along w, filters). filters and kernel are needed. Variables: kernel
 * (kh, kw, c, filters), bias (filters). */
CLQ_API clq_tensor clq_conv2d(clq_model *model, clq_tensor x, const clq_conv2d_config *config);
/* 3-D convolution: (d, h, w, c) -> (positions along d, along h, along w, filters). Variables: kernel (kd, kh, kw, c,
 * filters), bias (filters). Clique computes it as a 2-D convolution, which holds kw times the input in memory. */
CLQ_API clq_tensor clq_conv3d(clq_model *model, clq_tensor x, const clq_conv3d_config *config);
/* 1-D convolution: (steps, c) -> (positions, filters). filters and kernel are needed. Variables: kernel (kernel, c,
 * filters), bias. */
CLQ_API clq_tensor clq_conv1d(clq_model *model, clq_tensor x, const clq_conv1d_config *config);
/* Convolves each channel separately: (h, w, c) -> (positions along h, along w, c * multiplier). kernel is needed.
 * Variables: kernel (kh, kw, c, multiplier), bias. */
CLQ_API clq_tensor clq_depthwise_conv2d(clq_model *model, clq_tensor x, const clq_depthwise_conv2d_config *config);
/* clq_depthwise_conv2d, then 1 x 1 filters: (h, w, c) -> (positions along h, along w, filters). Variables:
 * depthwise_kernel (kh, kw, c, multiplier), pointwise_kernel (1, 1, c * multiplier, filters), bias. */
CLQ_API clq_tensor clq_separable_conv2d(clq_model *model, clq_tensor x, const clq_separable_conv2d_config *config);
/* Transposed 2-D convolution, which is a convolution's gradient with respect to its input: (h, w, c) -> (h', w',
 * filters). h' = h * stride, and likewise w'; with VALID at least (h - 1) * stride + extent. Variables: kernel (kh, kw,
 * filters, c), bias. groups is not read. */
CLQ_API clq_tensor clq_conv2d_transpose(clq_model *model, clq_tensor x, const clq_conv2d_config *config);
/* Transposed 3-D convolution: (d, h, w, c) -> (d', h', w', filters). Variables: kernel (kd, kh, kw, filters, c), bias.
 * It holds kw times the output in memory. groups: 0 or 1. */
CLQ_API clq_tensor clq_conv3d_transpose(clq_model *model, clq_tensor x, const clq_conv3d_config *config);
/* Maximum or average in each window: (h, w, c) -> (positions along h, along w, c). config may be NULL: 2 x 2 windows
 * side by side. Padding does not count in the maximum or average. */
CLQ_API clq_tensor clq_max_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config);
/* The mean of the places that a window has within the image. */
CLQ_API clq_tensor clq_average_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config);
/* The same in three dimensions: (d, h, w, c) -> (positions along d, along h, along w, c). config may be NULL. */
CLQ_API clq_tensor clq_max_pool3d(clq_model *model, clq_tensor x, const clq_pool3d_config *config);
/* As clq_average_pool2d, of volumes. */
CLQ_API clq_tensor clq_average_pool3d(clq_model *model, clq_tensor x, const clq_pool3d_config *config);
/* The same in one dimension: (steps, c) -> (positions, c). config may be NULL: 2 side by side. */
CLQ_API clq_tensor clq_max_pool1d(clq_model *model, clq_tensor x, const clq_pool1d_config *config);
/* As clq_average_pool2d, along one axis. */
CLQ_API clq_tensor clq_average_pool1d(clq_model *model, clq_tensor x, const clq_pool1d_config *config);
/* Dense: (…, in) -> (…, units). units is needed. Variables: kernel (in, units), bias (units). */
CLQ_API clq_tensor clq_dense(clq_model *model, clq_tensor x, const clq_dense_config *config);
/* The mean over height and width: (h, w, c) -> (c), or with keep_dims (1, 1, c). */
CLQ_API clq_tensor clq_global_average_pool2d(clq_model *model, clq_tensor x, bool keep_dims, const char *name);
/* Each channel's mean, or largest value, over all 1 to 3 other axes: (…, c) -> (c). With keep_dims each other axis
 * stays, with size 1. */
CLQ_API clq_tensor clq_global_average_pool(clq_model *model, clq_tensor x, bool keep_dims, const char *name);
/* The largest value of each channel; shapes as of clq_global_average_pool. */
CLQ_API clq_tensor clq_global_max_pool(clq_model *model, clq_tensor x, bool keep_dims, const char *name);
/* For 1 to 3 axes and channels. Padding puts sides[d][0] zeros before axis d and sides[d][1] zeros after it; cropping
 * takes as many places away. sides has a pair for each axis but the last; NULL: none. */
CLQ_API clq_tensor clq_zero_padding(clq_model *model, clq_tensor x, const size_t (*sides)[2], const char *name);
/* Takes places away: the opposite of clq_zero_padding, with the same `sides`. */
CLQ_API clq_tensor clq_cropping(clq_model *model, clq_tensor x, const size_t (*sides)[2], const char *name);
/* Repeats each place: (h, w, c) -> (h * size[0], w * size[1], c). size NULL: 2 and 2. */
CLQ_API clq_tensor clq_up_sampling2d(clq_model *model, clq_tensor x, const size_t size[2], const char *name);
/* The same in three dimensions: (d, h, w, c). */
CLQ_API clq_tensor clq_up_sampling3d(clq_model *model, clq_tensor x, const size_t size[3], const char *name);
/* Repeats the features: (features) -> (times, features). */
CLQ_API clq_tensor clq_repeat_vector(clq_model *model, clq_tensor x, size_t times, const char *name);
/* Reorders axes: the output's axis d is x's axis axes.dims[d], counted from 1. CLQ_SHAPE(2, 1) swaps two. */
CLQ_API clq_tensor clq_permute(clq_model *model, clq_tensor x, clq_shape axes, const char *name);
/* (any) -> (product of its dimensions). name: here and in the layers that follow, NULL: made. */
CLQ_API clq_tensor clq_flatten(clq_model *model, clq_tensor x, const char *name);
/* (any) -> shape, which has the same product. */
CLQ_API clq_tensor clq_reshape(clq_model *model, clq_tensor x, clq_shape shape, const char *name);
/* Applies an activation; the shape stays. Softmax: over the last axis; x must have no mask (else UNSUPPORTED). */
CLQ_API clq_tensor clq_activate(clq_model *model, clq_tensor x, clq_activation activation, const char *name);
/* x if x is above 0, else slope * x; slope is at least 0. */
CLQ_API clq_tensor clq_leaky_relu(clq_model *model, clq_tensor x, double slope, const char *name);
/* The same with trained slopes, 0 at first: one for each element, or with by_channel one for each channel. Variable:
 * alpha (any), or (1, …, c). */
CLQ_API clq_tensor clq_prelu(clq_model *model, clq_tensor x, bool by_channel, const char *name);

/* x * scale + offset. Bytes arrive as 0 to 255 if this layer reads the model's input, directly or after layers that
 * only move values or change brightness and contrast (docs/data.md); else as 0 to 1. */
CLQ_API clq_tensor clq_rescaling(clq_model *model, clq_tensor x, double scale, double offset, const char *name);
/* (x - mean) / max(sqrt(variance), 1e-7). mean and variance have one number, or one for each channel (count); copied.
 * Bytes arrive as for clq_rescaling. NULL: the variables `mean` and `variance` (c), which are zeros and ones unless a
 * file has others; training leaves them unchanged. */
CLQ_API clq_tensor clq_normalization(clq_model *model, clq_tensor x, size_t count, const float *mean,
                                     const float *variance, const char *name);
/* Keras's defaults. */
CLQ_API clq_batch_norm_config clq_batch_norm_config_default(void);
/* Batch normalisation over the last axis (Ioffe and Szegedy, 2015), as in Keras: y = (x - mean) / sqrt(variance +
 * epsilon) * gamma + beta. In training, mean and (biased) variance are those in the replica's part of the batch, and
 * the moving statistics follow them. Evaluation and prediction use the moving statistics. These are state: variables
 * `moving_mean` and `moving_variance`, without gradient. With several replicas each keeps its own; reading, saving and
 * evaluating use their mean.
 *
 * With `synchronized`, mean and variance are the global batch's. Replicas add up what they need for it in forward, and
 * again in backward, each weighted by the number of its samples, which may be 0. Moving statistics have the same bits
 * on all replicas. Several replicas then equal one, in this sense: with the same kernels, and relative to one replica,
 * the first step's gradient is within 1e-6 (L2 over all variables), the losses in 50 steps are within 1e-5, and each
 * variable after them, moving statistics included, is within 2e-5 (L2). Bits differ, since sums are taken in another
 * order. One replica exchanges nothing, and its bits are those without `synchronized`. config NULL: the default. */
CLQ_API clq_tensor clq_batch_norm(clq_model *model, clq_tensor x, const clq_batch_norm_config *config);
/* Normalises each row by its own mean and (biased) variance, as in Keras: (x - mean) / sqrt(variance + epsilon) * gamma
 * + beta. A row is the values along config's axes at one place along the other axes (Ba, Kiros and Hinton, 2016).
 * Variables: gamma and beta, with a row's shape. config NULL: its defaults. */
CLQ_API clq_tensor clq_layer_norm(clq_model *model, clq_tensor x, const clq_row_norm_config *config);
/* x / sqrt(mean(x^2) + epsilon) * scale in each row (Zhang and Sennrich, 2019). Variable: scale. */
CLQ_API clq_tensor clq_rms_norm(clq_model *model, clq_tensor x, const clq_row_norm_config *config);
/* The same as clq_layer_norm for other rows: a row is a group of neighboring channels at all places in a sample (Wu and
 * He, 2018). Variables: gamma (c), beta (c). */
CLQ_API clq_tensor clq_group_norm(clq_model *model, clq_tensor x, const clq_row_norm_config *config);
/* x / sqrt(sum(x^2)) along the last axis. */
CLQ_API clq_tensor clq_unit_norm(clq_model *model, clq_tensor x, const char *name);
/* In training each element becomes 0 with probability `rate`, and the others are divided by 1 - rate. In evaluation and
 * prediction: x itself. Which elements depends on the seed, the layer, the step and the sample's place in the global
 * batch: the same with any number of replicas. config NULL: rate 0.5. */
CLQ_API clq_tensor clq_dropout(clq_model *model, clq_tensor x, const clq_dropout_config *config);

/* Dropout for layers with SELU (Klambauer et al., 2017): in training, dropped elements become SELU's lowest value, and
 * a linear function keeps mean and variance. rate: as in clq_dropout_config. */
CLQ_API clq_tensor clq_alpha_dropout(clq_model *model, clq_tensor x, double rate, const char *name);
/* In training, adds normally distributed noise with this standard deviation. */
CLQ_API clq_tensor clq_gaussian_noise(clq_model *model, clq_tensor x, double deviation, const char *name);

/* ---- branches ----
 *
 * Several layers may read any tensor. The layers below read several tensors: `inputs` has `count`, at least 2
 * (clq_subtract: exactly 2). CLQ_TENSORS makes both arguments: clq_add(m, CLQ_TENSORS(a, b), NULL). */
#define CLQ_TENSORS(...)                                                                                               \
    ((const clq_tensor[]){__VA_ARGS__}), (sizeof((const clq_tensor[]){__VA_ARGS__}) / sizeof(clq_tensor))

/* Elementwise. Shapes broadcast as in NumPy: aligned at the last axis, two sizes are equal or one is 1; the batch is
 * never broadcast. Other shapes: ARGUMENT, with both shapes. */
CLQ_API clq_tensor clq_add(clq_model *model, const clq_tensor *inputs, size_t count, const char *name);
CLQ_API clq_tensor clq_subtract(clq_model *model, const clq_tensor *inputs, size_t count,
                                const char *name); /* the first minus the second */
/* clq_multiply, clq_maximum and clq_minimum respect masks, as Keras's layers do. A step that an input's mask excludes
 * counts as 1 in a product, and in a comparison as the inputs before it. If all inputs have masks, a product is 0 in
 * steps that all masks exclude. Errors: UNSUPPORTED (the mask has axes other than all but the input's last). */
CLQ_API clq_tensor clq_multiply(clq_model *model, const clq_tensor *inputs, size_t count, const char *name);
/* The mean of the inputs, element by element; shapes as of clq_add. */
CLQ_API clq_tensor clq_average(clq_model *model, const clq_tensor *inputs, size_t count, const char *name);
/* The gradient goes to the input with the largest value (maximum) or the smallest value (minimum); if several are
 * equal, to the first. */
CLQ_API clq_tensor clq_maximum(clq_model *model, const clq_tensor *inputs, size_t count, const char *name);
/* The smallest of the inputs, element by element; shapes as of clq_add, gradients as of clq_maximum. */
CLQ_API clq_tensor clq_minimum(clq_model *model, const clq_tensor *inputs, size_t count, const char *name);
/* Joins inputs along one axis; their shapes may differ in that axis alone. axis: 0 is the first axis after the batch;
 * -1 the last one. */
CLQ_API clq_tensor clq_concatenate(clq_model *model, const clq_tensor *inputs, size_t count, int axis,
                                   const char *name);
/* Multi-head attention (Vaswani et al., 2017) -> (…, tokens, output). Inputs: the query (…, tokens, c); the value (…,
 * others, c'), by default the query; the key, by default the value. Variables, with h heads: query/kernel (c, h, key),
 * query/bias (h, key); the same under `key` and `value`; attention_output/kernel (h, value, output) and its bias. heads
 * and key are needed. */
CLQ_API clq_tensor clq_attention(clq_model *model, const clq_tensor *inputs, size_t count,
                                 const clq_attention_config *config);
/* Looks up table rows by number: (…) -> (…, width). x: whole numbers from 0 to rows - 1. If x is an input, other
 * numbers are refused before a step; if the model computes x, other numbers stand for the nearest row. Variable:
 * embeddings (rows, width). */
CLQ_API clq_tensor clq_embedding(clq_model *model, clq_tensor x, const clq_embedding_config *config);
/* The first rows in a learned table, as many as x (tokens, c) has tokens: to be added to x. Variable: embeddings (rows,
 * c). initialiser NULL: Glorot's uniform. */
CLQ_API clq_tensor clq_position_embedding(clq_model *model, clq_tensor x, size_t rows,
                                          const clq_initialiser *initialiser, const char *name);
/* Keras's defaults, with so many units. */
CLQ_API clq_recurrent_config clq_recurrent_config_default(size_t units);
/* A recurrent layer over x's steps, as in Keras: (steps, c) -> (units), or (steps, units) with return_sequences.
 * Variables: kernel (c, gates * units), recurrent_kernel (units, gates * units), bias (gates * units); a GRU without
 * reset_before has bias (2, gates * units). gates: 1 in simple cells; 4 in LSTM, in the order input, forget, cell,
 * output; 3 in GRU, in the order update, reset, candidate. config: units, at least 1, are needed. Errors, at
 * clq_model_finish: ARGUMENT (x has axes other than (steps, c), units are 0, a dropout is out of its range, steps * 8 *
 * units are more than INT32_MAX), UNSUPPORTED (an activation that clq_recurrent_config does not have, or not with so
 * many steps). */
CLQ_API clq_tensor clq_recurrent(clq_model *model, clq_tensor x, clq_cell cell, const clq_recurrent_config *config);
/* Two recurrent layers with their own weights, one in each direction, side by side: (2 units), or (steps, 2 units),
 * with a step's two states in one row. Layers: forward_NAME and backward_NAME, which have clq_recurrent's variables,
 * and NAME, which joins them. Without a name NAME is bidirectional, bidirectional_1, …. A given name has at most 54
 * bytes, so that the prefix fits. If config goes backwards, the first layer does, and the second one goes forwards.
 * Errors: those of clq_recurrent. */
CLQ_API clq_tensor clq_bidirectional(clq_model *model, clq_tensor x, clq_cell cell, const clq_recurrent_config *config);
/* x itself; backward stops its gradient (TensorFlow: stop_gradient, PyTorch: detach), or multiplies it by `factor`,
 * which is finite. Factor -1 reverses the gradient (Ganin and Lempitsky, 2015). Variables that no gradient reaches have
 * gradient 0: weight decay and momentum still change them. */
CLQ_API clq_tensor clq_stop_gradient(clq_model *model, clq_tensor x, const char *name);
/* x itself; the gradient by it is multiplied by factor, which is finite and may be negative. */
CLQ_API clq_tensor clq_gradient_scale(clq_model *model, clq_tensor x, double factor, const char *name);
/* Applies the layer that gave `of` to x as well, with the same weights (tied weights). Errors: ARGUMENT (x's shape
 * would need weights in another shape, or the layer takes other than one input). */
CLQ_API clq_tensor clq_share(clq_model *model, clq_tensor of, clq_tensor x);

/* Freezes the layer that gave x: training keeps its variables unchanged and computes no gradients for them. A frozen
 * batch normalisation uses its moving statistics, as in evaluation. Returns x. Errors: ARGUMENT (x is no tensor of the
 * model). */
CLQ_API clq_tensor clq_freeze(clq_model *model, clq_tensor x);

/* Gives x another tensor's mask; both have the same steps. Layers that are added after x from now on skip the masked
 * steps. Use it if a mask does not pass through a layer, as in Keras: a sum with a position embedding, for instance. If
 * `of` has no mask, x has none from now on. For clq_attention mask the value alone: Keras's files cannot express such a
 * query. Returns x. Errors: ARGUMENT (a tensor is not the model's, x has other steps). */
CLQ_API clq_tensor clq_keep_mask(clq_model *model, clq_tensor x, clq_tensor of);

/* Adds the penalty l1 * sum |w| + l2 * sum w^2 to the loss, for one variable w in the layer that gave x. Reported
 * losses include it; variables in frozen layers have no penalty, as in Keras. Only for models with one output, whose
 * loss has a weight other than 0; not with strategies tensor and pipeline. variable: the name without its layer:
 * "kernel", "bias", "gamma", "embeddings", "recurrent_kernel", "query/kernel", …; a second call for it replaces the
 * first. l1, l2: finite, at least 0. Returns x. Errors: ARGUMENT (x is no tensor of the model, there is no such
 * variable, l1 or l2 is out of its range). */
CLQ_API clq_tensor clq_regularise(clq_model *model, clq_tensor x, const char *variable, double l1, double l2);

/* Constrains one variable in the layer that gave x. variable: as for clq_regularise; a second call for it replaces the
 * first. The constraint is applied after each update in training, as in Keras; values before the first update are not
 * changed. An update from several batches applies it once, and so does an update that mixed precision skips; Keras
 * differs there if a norm approaches its bounds with a rate below 1. Not for variables in frozen layers, which have no
 * updates; not with a sharded optimizer, local steps, or a parameter server on its own ranks. Returns x. Errors:
 * ARGUMENT (x is no tensor of the model, there is no such variable, a number is out of its range, the variable has no
 * such axis), UNSUPPORTED (every other axis in a variable with five axes). */
CLQ_API clq_tensor clq_constrain(clq_model *model, clq_tensor x, const char *variable,
                                 const clq_constraint *constraint);

/* Marks a cut for strategy pipeline after x: layers up to x belong to the stages before the cut, layers added later to
 * the stages after it. A model with marks is cut at them, into one stage more than marks. A model without marks is cut
 * so that its stages are equally fast, as measured, or else as estimated. Other strategies ignore marks. Returns x.
 * Errors: ARGUMENT (x is no tensor of the model, more than 63 marks). clq_trainer_create checks whether the model can
 * be cut there. */
CLQ_API clq_tensor clq_pipeline_cut(clq_model *model, clq_tensor x);

/* Marks x for recomputation: training does not keep it from forward to backward, and computes it again when backward
 * needs it, whatever clq_trainer_config.recompute says. Use it for a layer whose output is large and cheap to compute.
 * Values with side effects, such as exchanged sums, are kept nevertheless. Returns x. Errors: ARGUMENT (x is no tensor
 * of the model). */
CLQ_API clq_tensor clq_recompute(clq_model *model, clq_tensor x);

/* Finishes the model, and reports the first error in any line above, with its layer. From then on the model is fixed:
 * further layers are refused with STATE. Layers that do not lead to the output are dropped, as in Keras. If the output
 * has a mask (mask_zero, clq_keep_mask), its loss is the mean over the global batch's unmasked steps, and so are
 * metrics that are means, as in Keras; root_mean_squared_error, and metrics made from counts (precision, auc, …), count
 * every step. Errors: ARGUMENT (also a tensor from another model), UNSUPPORTED (a second input; a mask with axes other
 * than all but the output's last one or two), MEMORY, STATE (finished already). */
CLQ_API clq_status clq_model_finish(clq_model *model, clq_tensor output);
/* The same with several outputs, at most CLQ_MODEL_OUTPUTS_MAX, each another tensor. Trainers need each output to be
 * another layer's. */
CLQ_API clq_status clq_model_finish_outputs(clq_model *model, const clq_tensor *outputs, size_t count);

/* Makes a model by its name, as the command line's --model: "mlp", or with options "gpt:layers=2,width=64". All names
 * and options are in docs/models.md. Defaults: a 28 x 28 x 1 image and 10 classes; for sequences, what the model's name
 * stands for. The caller destroys *out. Errors: ARGUMENT (an unknown name or option, a value that the model cannot
 * have), MEMORY. */
CLQ_API clq_status clq_model_builtin(const char *name, clq_model **out);
/* The same for given data: `input`, a sample's shape, and `classes` replace these defaults if the options do not say
 * them. A sample with rank 2 is an image with one channel. If the model takes images and a sample is none,
 * clq_model_builtin's defaults stay. input with rank 0, or classes 0: not known. */
CLQ_API clq_status clq_model_builtin_for(const char *name, clq_shape input, size_t classes, clq_model **out);
/* Reads a file from Keras's model.to_json(), version 3 or 2: Sequential or Functional, or a keras_hub backbone by its
 * class name and hyper-parameters, whose inputs have open sizes. If training here would not honour an attribute, the
 * file is refused with that attribute's path. The caller destroys *out. Errors: NOT_FOUND, READ, FORMAT (malformed),
 * UNSUPPORTED (Keras may read it, and Clique does not yet), MEMORY. */
CLQ_API clq_status clq_model_read_keras_json(const char *path, clq_model **out);
/* Sizes for axes that a file leaves open (null). */
typedef struct clq_keras_sizes {
    size_t open; /* size for each axis that neither the file nor `shapes` sets; 0: such a file is refused */
    /* (count) shapes for the first inputs, in the file's order, without the batch. A size 0 leaves that axis to the
     * file. If a Sequential file has no shape at all, the first shape is its input's. */
    const clq_shape *shapes;
    size_t count;
    double reserved[2]; /* 0 */
} clq_keras_sizes;
/* Reads a file as clq_model_read_keras_json does, and takes open sizes from `sizes`. If `sizes` is NULL, a file with
 * open sizes is refused (UNSUPPORTED). Errors: those of clq_model_read_keras_json; MISMATCH (a shape has other sizes,
 * or another number of axes, than the file's; there are more shapes than inputs). */
CLQ_API clq_status clq_model_read_keras_json_sized(const char *path, const clq_keras_sizes *sizes, clq_model **out);
/* Writes a finished model as JSON for a Functional model in Keras 3. keras.models.model_from_json loads it, and
 * clq_model_read_keras_json reads it: the same layers with the same names, variables, initialisers, penalties, frozen
 * layers, shared layers and masks. Layers in blocks, and in models within the model, become layers in the model. Keras
 * chooses the number types. Weights, marks (clq_pipeline_cut, clq_recompute) and the order of variables are not
 * written. The complete file appears by rename, or not at all, and replaces a file with that name. Errors: STATE (the
 * model is not finished), UNSUPPORTED (Keras has no form for a layer, which is named: a penalty on only some variables
 * that one regularizer is for; a block whose rule for masks none of its layers has), WRITE, MEMORY. */
CLQ_API clq_status clq_model_write_keras_json(const clq_model *model, const char *path);
/* Prepares a finished model that was built here for saving as a .keras file (clq_trainer_save). Call it after
 * clq_model_freeze, before the model has a trainer. It also finds where Keras's weight files have the variables, since
 * Keras numbers layers in its own order. A model that was read from a Keras file does not need it. Errors: those of
 * clq_model_write_keras_json except WRITE. */
CLQ_API clq_status clq_model_prepare_keras(clq_model *model);

/* Reads the model in a .keras file from Keras 3; `sizes` may be NULL. Its weights: clq_trainer_load with the same path.
 * Needs a build with HDF5 and libzip. A separate process reads the file; the call waits for it. The caller destroys
 * *out. Errors: those of clq_model_read_keras_json_sized; SYSTEM (that process cannot be started), WRITE (no room for a
 * temporary file in TMPDIR), UNSUPPORTED (a build without these libraries). */
CLQ_API clq_status clq_model_read_keras(const char *path, const clq_keras_sizes *sizes, clq_model **out);

/* Freezes layers by name, as clq_freeze does: their variables have no gradient, take no part in exchanges and keep
 * their values. names: separated by commas; '*' stands for any characters, '?' for one; the name of a model within the
 * model means all its layers. The model may be finished, but must not have a trainer yet. Errors: ARGUMENT (a name that
 * no layer has; no variable would be left to train). */
CLQ_API clq_status clq_model_freeze(clq_model *model, const char *names);

/* Getters. Texts live as long as the model; variables' names only until the next builder call or clq_model_finish, then
 * as long as the model. Before clq_model_finish, the input's shape has rank 0 until clq_input, the output's shape has
 * rank 0, and variables are those in the layers so far, some of which finishing may drop. */
CLQ_API const char *clq_model_name(const clq_model *model);
/* Of one sample, as a dataset has it: of several inputs all their values in one row. Before there is an input a
 * shape of rank 0. */
CLQ_API clq_shape clq_model_input_shape(const clq_model *model);
/* For a finished model: outputs in clq_model_finish_outputs's order. An index beyond the last gives a shape with rank
 * 0, and NULL. */
CLQ_API size_t clq_model_output_count(const clq_model *model);
/* Of one sample. */
CLQ_API clq_shape clq_model_output_shape(const clq_model *model, size_t index);
CLQ_API const char *clq_model_output_name(const clq_model *model, size_t index); /* its layer's; the model owns it */
/* A variable, as clq_model_variable tells it. Its text is the model's. */
typedef struct clq_variable_info {
    const char *name; /* "conv2d/kernel" */
    clq_shape shape;  /* Keras's: (kh, kw, in, out), (in, out), (out) */
    size_t elements;
    size_t fan_in, fan_out; /* Keras's: kh * kw * in and kh * kw * out */
    bool is_bias;
    bool trainable; /* false: state, which the layer maintains itself, without gradient */
    double reserved[4]; /* 0 */
} clq_variable_info;
/* How many variables the layers have. */
CLQ_API size_t clq_model_variable_count(const clq_model *model);
/* The variable `index`, counted from 0 in the order of the layers. Errors: ARGUMENT (an index that is not below the
 * count). */
CLQ_API clq_status clq_model_variable(const clq_model *model, size_t index, clq_variable_info *out);
/* State included. */
CLQ_API size_t clq_model_parameter_count(const clq_model *model);

#ifdef __cplusplus
}
#endif
#endif
