/* clique/model.h: a model, built line by line. Nothing touches a device here.
 *
 * Each builder call adds a layer and returns its output; the first failure is latched with its layer's name and
 * reported by clq_model_finish, so a model reads as straight lines and is checked once. Shapes leave the batch out and
 * have 1 to CLQ_SHAPE_MAX dimensions of at least 1.
 * Layer names are Keras's: conv2d, conv2d_1, …, dense, … unless given; a given one is unique, has 1 to 127 bytes of
 * UTF-8, no '/' and no control characters, and is copied. A variable is `layer/kernel`, `layer/bias`;
 * of clq_batch_norm `gamma`, `beta`, `moving_mean`, `moving_variance`, each (c).
 *
 * Configs are copied. One that is marked so may be NULL, for its defaults; another that is NULL is latched as ARGUMENT.
 *
 * Thread rules: one thread at a time while building; read-only and shareable once finished. */
#ifndef CLIQUE_MODEL_H
#define CLIQUE_MODEL_H

#include <clique/types.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clq_model clq_model;
typedef struct clq_tensor {
    const clq_model *model; /* whose it is */
    uint32_t id;            /* 0: none (a failure was latched) */
} clq_tensor;

typedef struct clq_shape {
    unsigned rank;
    size_t dims[CLQ_SHAPE_MAX];
} clq_shape;
/* CLQ_SHAPE(28, 28, 1) */
#define CLQ_SHAPE(...) ((clq_shape){sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t), {__VA_ARGS__}})

/* Positions of a window along an axis of `in` values, with extent = (size - 1) * dilation + 1:
 *
 * - VALID: (in - extent) / stride + 1, rounded down; extent is at most in;
 * - SAME: in / stride, rounded up; zeros around, the odd one behind, as TensorFlow has it;
 * - CAUSAL, of clq_conv1d: the same positions as of extent - 1 zeros in front, so that none sees what is behind it. */
typedef enum clq_padding { CLQ_VALID, CLQ_SAME, CLQ_CAUSAL } clq_padding;

/* How the first values of a variable are chosen, by the formulas of Keras's initializers. Random ones take the
 * trainer's seed, and each variable has random numbers of its own. Fans: those of clq_variable_info. */
typedef enum clq_initialiser_kind {
    CLQ_INITIALISER_DEFAULT,  /* of the layer: of a kernel Glorot's uniform one, of others as their layer says */
    CLQ_INITIALISER_CONSTANT, /* `value` everywhere */
    CLQ_INITIALISER_UNIFORM,  /* from `low` to `high` */
    CLQ_INITIALISER_NORMAL,   /* with `mean` and standard `deviation` */
    CLQ_INITIALISER_TRUNCATED_NORMAL, /* the same, drawn anew if it is more than two deviations from the mean */
    /* With mean 0 and the variance `scale` / fan: by `distribution` within +-sqrt(3 scale / fan), or normal. Of a
     * truncated one the deviation before truncation is sqrt(scale / fan) / 0.87962566103423978. */
    CLQ_INITIALISER_VARIANCE_SCALING,
    /* `gain` times a matrix with orthonormal rows or columns, whichever are fewer (Saxe, McClelland and Ganguli, 2014).
     * Axes in front of the last one are taken as one. For variables of two dimensions and more. */
    CLQ_INITIALISER_ORTHOGONAL,
    CLQ_INITIALISER_IDENTITY /* `gain` on the diagonal, else 0. For matrices */
} clq_initialiser_kind;
typedef enum clq_fan { CLQ_FAN_IN, CLQ_FAN_OUT, CLQ_FAN_MEAN } clq_fan; /* MEAN: of both */
typedef enum clq_distribution {
    CLQ_DISTRIBUTION_TRUNCATED_NORMAL,
    CLQ_DISTRIBUTION_NORMAL,
    CLQ_DISTRIBUTION_UNIFORM
} clq_distribution;
/* All zero: the default. Members that a kind does not name are not read. All numbers are finite. */
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
    size_t groups; /* of channels; each filter reads those of its group alone. Divides channels and filters. 0: 1 */
    double reserved[4]; /* 0 */
} clq_conv2d_config;
/* As of clq_conv2d_config, along one axis. */
typedef struct clq_conv1d_config {
    size_t filters, kernel, strides, dilation, groups;
    clq_padding padding; /* CAUSAL, too */
    clq_activation activation;
    bool no_bias;
    const char *name;
    clq_initialiser kernel_initialiser, bias_initialiser;
    double reserved[4]; /* 0 */
} clq_conv1d_config;
typedef struct clq_depthwise_conv2d_config {
    size_t kernel[2], strides[2], dilation[2]; /* as of clq_conv2d_config */
    size_t multiplier;                         /* filters of each channel. 0: 1 */
    clq_padding padding;
    clq_activation activation;
    bool no_bias;
    const char *name;
    clq_initialiser depthwise_initialiser, bias_initialiser; /* defaults: Glorot's uniform one; zeros */
    double reserved[4]; /* 0 */
} clq_depthwise_conv2d_config;
/* Activation and bias are those of the whole. */
typedef struct clq_separable_conv2d_config {
    clq_depthwise_conv2d_config depthwise;
    size_t filters;
    clq_initialiser pointwise_initialiser; /* default: Glorot's uniform one */
    double reserved[4]; /* 0 */
} clq_separable_conv2d_config;
typedef struct clq_dense_config {
    size_t units;
    clq_activation activation;
    bool no_bias;
    const char *name;
    clq_initialiser kernel_initialiser, bias_initialiser; /* defaults: Glorot's uniform one; zeros */
    double reserved[4]; /* 0 */
} clq_dense_config;
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
    size_t groups;                                        /* as of clq_conv2d_config */
    double reserved[4]; /* 0 */
} clq_conv3d_config;
typedef struct clq_pool3d_config {
    size_t size[3];    /* 0: 2 */
    size_t strides[3]; /* 0: size */
    clq_padding padding;
    const char *name;
    double reserved[4]; /* 0 */
} clq_pool3d_config;
typedef struct clq_pool_config {
    size_t size[2];    /* 0: 2 */
    size_t strides[2]; /* 0: size */
    clq_padding padding;
    const char *name;
    double reserved[4]; /* 0 */
} clq_pool_config;
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
    double epsilon;  /* 0 to 1: is added to the variance. Default 1e-3 */
    bool no_center, no_scale;
    bool synchronized; /* in training, statistics of the global batch, not of each replica's part of it */
    const char *name;
    /* Defaults: ones of gamma and moving_variance, zeros of the others. */
    clq_initialiser gamma_initialiser, beta_initialiser, moving_mean_initialiser, moving_variance_initialiser;
    double reserved[4]; /* 0 */
} clq_batch_norm_config;
/* Axes of a tensor: 0 is the first behind the batch, -1 the last. count 0: the last one. */
typedef struct clq_axes {
    unsigned count;
    int axes[CLQ_SHAPE_MAX];
} clq_axes;
/* What a variable w may be behind an update (keras.constraints). NON_NEGATIVE: numbers below 0 become 0. The others are
 * about the norm n of all numbers along some axes, for each place along the other ones, which becomes w * d / (1e-7 + n):
 * MAX_NORM d = min(n, most); UNIT_NORM d = 1; MIN_MAX_NORM d = rate * clip(n, least, most) + (1 - rate) * n. */
typedef enum clq_constraint_kind {
    CLQ_CONSTRAINT_NONE,
    CLQ_CONSTRAINT_NON_NEGATIVE,
    CLQ_CONSTRAINT_MAX_NORM,
    CLQ_CONSTRAINT_UNIT_NORM,
    CLQ_CONSTRAINT_MIN_MAX_NORM
} clq_constraint_kind;
typedef struct clq_constraint {
    clq_constraint_kind kind;
    double least, most; /* finite, 0 <= least <= most. least: of MIN_MAX_NORM */
    double rate;        /* of MIN_MAX_NORM: 0 to 1 */
    clq_axes axes;      /* of the variable, along which a norm is: 0 is the first. count 0: the first one */
    double reserved[2]; /* 0 */
} clq_constraint;
typedef struct clq_row_norm_config {
    clq_axes axes;  /* of a row: the last one, or several of the last ones. Not of group normalisation */
    double epsilon; /* 0 to 1: is added to the variance. 0: the default, 1e-3; of clq_rms_norm 1e-6 */
    double groups;  /* of channels, of group normalisation; divides them. -1: as many as channels. 0: 32 */
    bool no_center, no_scale;
    const char *name;
    clq_initialiser gamma_initialiser, beta_initialiser; /* defaults: ones; zeros */
    double reserved[4]; /* 0 */
} clq_row_norm_config;
typedef struct clq_embedding_config {
    size_t rows, width; /* needed; rows is below 2^24 */
    /* Token 0 is padding: recurrent layers and attention behind it, and the loss of an output that keeps the steps,
     * leave such steps out, as Keras's masks do. */
    bool mask_zero;
    const char *name;
    clq_initialiser initialiser; /* default: from -0.05 to 0.05 */
    double reserved[4]; /* 0 */
} clq_embedding_config;
typedef struct clq_attention_config {
    size_t heads, key; /* key: channels of each head's queries and keys */
    size_t value;      /* of its values; 0: key */
    size_t output;     /* channels of the result; 0: those of the query */
    double dropout;    /* of the attention's weights, in training: at least 0 and below 1 */
    bool causal;       /* no token looks at those behind it */
    bool no_bias;
    clq_axes axes; /* that it goes along: the last ones in front of the channels. count 0: all */
    uint64_t seed; /* of dropout; 0: the trainer's */
    const char *name;
    clq_initialiser kernel_initialiser, bias_initialiser; /* defaults: Glorot's uniform one; zeros */
    double reserved[4]; /* 0 */
} clq_attention_config;
/* clq_recurrent_config_default gives Keras's defaults. */
typedef struct clq_recurrent_config {
    size_t units;
    /* Defaults: TANH, SIGMOID. SOFTMAX is not supported. If one is not LINEAR, RELU, SIGMOID or TANH, each step is some
     * twenty operations in place of one launch for all, and there may be at most 64 steps. */
    clq_activation activation, gate_activation;
    bool no_bias;
    bool return_sequences;     /* the state behind each step, not that behind the last one alone */
    bool go_backwards;         /* from the last step to the first; steps are returned in that order */
    bool zero_output_for_mask; /* steps that a mask leaves out return zeros, not what the step before returned */
    /* Of each step's input and of the state, in training: at least 0 and below 1. One choice holds for all steps of a
     * sample. */
    double dropout, recurrent_dropout;
    uint64_t seed;       /* of dropout; 0: the trainer's */
    bool no_forget_ones; /* of LSTM: the forget gate's bias begins as the others', not with ones */
    const char *name;
    clq_initialiser kernel_initialiser, recurrent_initialiser, bias_initialiser; /* defaults: Glorot's uniform one,
                                                                                    orthogonal, zeros */
    bool reset_before; /* of GRU: the reset gate before the state's product (Keras: reset_after=False), not behind it */
    double reserved[4]; /* 0 */
} clq_recurrent_config;
typedef struct clq_dropout_config {
    double rate;   /* of the elements that become 0: at least 0 and below 1 */
    uint64_t seed; /* 0: the trainer's */
    const char *name;
    unsigned shared; /* bit d: all places along axis d of a sample are dropped or kept together (Keras's noise_shape) */
    double reserved[4]; /* 0 */
} clq_dropout_config;

/* name: 1 to 127 bytes, copied. Errors: ARGUMENT, MEMORY. */
CLQ_API clq_status clq_model_create(const char *name, clq_model **out);
CLQ_API void clq_model_destroy(clq_model *model); /* takes NULL; after the trainers made from it */

/* Builders: the input's shape -> the output's. (…) stands for any leading axes. */

CLQ_API clq_tensor clq_input(clq_model *model, clq_shape shape);
/* In place of clq_input, several inputs: tensors[i] is shapes[i]. A sample has the values of all inputs, one behind the
 * other in this order: clq_dataset_add_samples puts arrays together like that. count: 1 to CLQ_MODEL_INPUTS_MAX. names:
 * (count) of the layers, each NULL: made; or NULL. */
CLQ_API void clq_inputs(clq_model *model, const clq_shape *shapes, const char *const *names, size_t count,
                        clq_tensor *tensors);
/* (h, w, c) -> (positions along h, along w, filters); filters and kernel are needed. Variables: kernel (kh, kw, c,
 * filters), bias (filters). */
CLQ_API clq_tensor clq_conv2d(clq_model *model, clq_tensor x, const clq_conv2d_config *config);
/* The same of volumes: (d, h, w, c) -> (positions along d, along h, along w, filters). Variables: kernel (kd, kh, kw, c,
 * filters), bias (filters). It is made of a convolution of images, which holds kw times the input. */
CLQ_API clq_tensor clq_conv3d(clq_model *model, clq_tensor x, const clq_conv3d_config *config);
/* (steps, c) -> (positions, filters); filters and kernel are needed. Variables: kernel (kernel, c, filters), bias. */
CLQ_API clq_tensor clq_conv1d(clq_model *model, clq_tensor x, const clq_conv1d_config *config);
/* Each channel by itself: (h, w, c) -> (positions along h, along w, c * multiplier); kernel is needed. Variables:
 * kernel (kh, kw, c, multiplier), bias. */
CLQ_API clq_tensor clq_depthwise_conv2d(clq_model *model, clq_tensor x, const clq_depthwise_conv2d_config *config);
/* The same, and filters of 1 x 1 behind it: (positions along h, along w, filters). Variables: depthwise_kernel (kh, kw,
 * c, multiplier), pointwise_kernel (1, 1, c * multiplier, filters), bias. */
CLQ_API clq_tensor clq_separable_conv2d(clq_model *model, clq_tensor x, const clq_separable_conv2d_config *config);
/* The gradient of a convolution by its input, as a layer: (h, w, c) -> (h', w', filters), where each size is that times
 * its stride; with VALID at least (size - 1) * stride + extent. Variables: kernel (kh, kw, filters, c), bias. groups is
 * not looked at. */
CLQ_API clq_tensor clq_conv2d_transpose(clq_model *model, clq_tensor x, const clq_conv2d_config *config);
/* The same of volumes: (d, h, w, c) -> (d', h', w', filters). Variables: kernel (kd, kh, kw, filters, c), bias. It holds
 * kw times the output. groups: 0 or 1. */
CLQ_API clq_tensor clq_conv3d_transpose(clq_model *model, clq_tensor x, const clq_conv3d_config *config);
/* (h, w, c) -> (positions along h, along w, c); config may be NULL: 2 x 2 side by side. Padding takes no part in
 * maximum or average. */
CLQ_API clq_tensor clq_max_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config);
CLQ_API clq_tensor clq_average_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config);
/* The same of volumes: (d, h, w, c) -> (positions along d, along h, along w, c). config may be NULL. */
CLQ_API clq_tensor clq_max_pool3d(clq_model *model, clq_tensor x, const clq_pool3d_config *config);
CLQ_API clq_tensor clq_average_pool3d(clq_model *model, clq_tensor x, const clq_pool3d_config *config);
/* (steps, c) -> (positions, c); config may be NULL: 2 side by side. */
CLQ_API clq_tensor clq_max_pool1d(clq_model *model, clq_tensor x, const clq_pool1d_config *config);
CLQ_API clq_tensor clq_average_pool1d(clq_model *model, clq_tensor x, const clq_pool1d_config *config);
/* (…, in) -> (…, units); units is needed. Variables: kernel (in, units), bias (units). */
CLQ_API clq_tensor clq_dense(clq_model *model, clq_tensor x, const clq_dense_config *config);
/* The mean over height and width: (c), or with keep_dims (1, 1, c). */
CLQ_API clq_tensor clq_global_average_pool2d(clq_model *model, clq_tensor x, bool keep_dims, const char *name);
/* The mean, or the largest value, of each channel over all of its 1 to 3 axes: (…, c) -> (c), or with keep_dims with 1
 * in place of each axis. */
CLQ_API clq_tensor clq_global_average_pool(clq_model *model, clq_tensor x, bool keep_dims, const char *name);
CLQ_API clq_tensor clq_global_max_pool(clq_model *model, clq_tensor x, bool keep_dims, const char *name);
/* Of 1 to 3 axes and channels: sides[d] zeros in front of axis d and behind it, or so many places taken away there.
 * sides has a pair for each axis but the last; NULL: none. */
CLQ_API clq_tensor clq_zero_padding(clq_model *model, clq_tensor x, const size_t (*sides)[2], const char *name);
CLQ_API clq_tensor clq_cropping(clq_model *model, clq_tensor x, const size_t (*sides)[2], const char *name);
/* (h, w, c) -> (h * size[0], w * size[1], c), each place repeated. NULL: 2 and 2. */
CLQ_API clq_tensor clq_up_sampling2d(clq_model *model, clq_tensor x, const size_t size[2], const char *name);
/* The same of volumes, (d, h, w, c). */
CLQ_API clq_tensor clq_up_sampling3d(clq_model *model, clq_tensor x, const size_t size[3], const char *name);
/* (features) -> (times, features). */
CLQ_API clq_tensor clq_repeat_vector(clq_model *model, clq_tensor x, size_t times, const char *name);
/* Axis d of the output is axis axes.dims[d], from 1 on, of x: CLQ_SHAPE(2, 1) swaps two. */
CLQ_API clq_tensor clq_permute(clq_model *model, clq_tensor x, clq_shape axes, const char *name);
/* Names of these may be NULL: made. (any) -> (product of its dimensions). */
CLQ_API clq_tensor clq_flatten(clq_model *model, clq_tensor x, const char *name);
/* (any) -> shape, of the same product. */
CLQ_API clq_tensor clq_reshape(clq_model *model, clq_tensor x, clq_shape shape, const char *name);
/* Keeps the shape. Softmax: over the last axis, of an x without a mask (else: UNSUPPORTED). */
CLQ_API clq_tensor clq_activate(clq_model *model, clq_tensor x, clq_activation activation, const char *name);
/* x above 0, else slope * x; slope is at least 0. */
CLQ_API clq_tensor clq_leaky_relu(clq_model *model, clq_tensor x, double slope, const char *name);
/* The same with slopes that are trained, 0 at first: one for each element, or by_channel. Variable: alpha (any), or
 * (1, …, c). */
CLQ_API clq_tensor clq_prelu(clq_model *model, clq_tensor x, bool by_channel, const char *name);

/* x * scale + offset. If it reads the model's input, itself or behind layers that only move or shade values, samples of
 * bytes come as 0 to 255, and else as 0 to 1. */
CLQ_API clq_tensor clq_rescaling(clq_model *model, clq_tensor x, double scale, double offset, const char *name);
/* (x - mean) / max(sqrt(variance), 1e-7): of one number or of one for each channel, which are copied. Bytes: as of
 * clq_rescaling. NULL: variables `mean` and `variance` (c), zeros and ones unless a file has others, which training
 * leaves as they are. */
CLQ_API clq_tensor clq_normalization(clq_model *model, clq_tensor x, size_t count, const float *mean,
                                     const float *variance, const char *name);
/* Over the last axis (Ioffe and Szegedy, 2015), as in Keras: in training by mean and (biased) variance of the replica's
 * part of the batch, which the moving statistics follow; in evaluation and prediction by the moving ones. These are
 * state: variables `moving_mean` and `moving_variance`, which have no gradient. With several replicas, each keeps its
 * own; reading, saving and evaluating use their mean.
 *
 * With `synchronized` mean and variance are of the global batch: replicas add up what they need for it in forward and
 * again in backward, each by the number of its samples, which may be 0; moving statistics are the same bits on all
 * replicas. Several replicas then equal one. That means, of the same kernels and relative to one replica: the first
 * step's gradient within 1e-6 (L2 over all variables), the losses of 50 steps within 1e-5, and each variable behind
 * them, moving statistics included, within 2e-5 (L2). Bits differ, since sums are taken in another order. On one
 * replica nothing is exchanged, and bits are those without `synchronized`. config NULL: the default. */
CLQ_API clq_batch_norm_config clq_batch_norm_config_default(void);
CLQ_API clq_tensor clq_batch_norm(clq_model *model, clq_tensor x, const clq_batch_norm_config *config);
/* Each row by its own mean and (biased) variance, as in Keras: (x - mean) / sqrt(variance + epsilon) * gamma + beta. A
 * row is what one place of the other axes has (Ba, Kiros and Hinton, 2016). Variables: gamma and beta, of a row's
 * shape. config NULL: its defaults. */
CLQ_API clq_tensor clq_layer_norm(clq_model *model, clq_tensor x, const clq_row_norm_config *config);
/* x / sqrt(mean of squares + epsilon) * scale (Zhang and Sennrich, 2019). Variable: scale. */
CLQ_API clq_tensor clq_rms_norm(clq_model *model, clq_tensor x, const clq_row_norm_config *config);
/* A row is a group of neighboring channels at all places of a sample (Wu and He, 2018). Variables: gamma (c), beta
 * (c). */
CLQ_API clq_tensor clq_group_norm(clq_model *model, clq_tensor x, const clq_row_norm_config *config);
/* x over the root of the sum of squares along the last axis. */
CLQ_API clq_tensor clq_unit_norm(clq_model *model, clq_tensor x, const char *name);
/* In training each element becomes 0 with probability `rate`; the others are divided by 1 - rate. In evaluation and
 * prediction: x itself. Which ones is a function of the seed, the layer, the step and the sample's place in the global
 * batch: the same on any number of replicas. config NULL: a rate of 0.5. */
CLQ_API clq_tensor clq_dropout(clq_model *model, clq_tensor x, const clq_dropout_config *config);

/* In training what is dropped becomes SELU's lowest value, and a line through all keeps mean and variance; for layers
 * with SELU (Klambauer et al., 2017). rate: as of clq_dropout_config. */
CLQ_API clq_tensor clq_alpha_dropout(clq_model *model, clq_tensor x, double rate, const char *name);
/* In training normally distributed noise with this standard deviation is added. */
CLQ_API clq_tensor clq_gaussian_noise(clq_model *model, clq_tensor x, double deviation, const char *name);

/* ---- branches ----
 * Any tensor may be read by several layers. The layers below read several tensors: `inputs` has `count` of them, at
 * least 2 (clq_subtract: exactly 2). CLQ_TENSORS makes both arguments: clq_add(m, CLQ_TENSORS(a, b), NULL). */
#define CLQ_TENSORS(...)                                                                                               \
    ((const clq_tensor[]){__VA_ARGS__}), (sizeof((const clq_tensor[]){__VA_ARGS__}) / sizeof(clq_tensor))

/* Elementwise. Shapes broadcast as NumPy's do: aligned at the last axis, each pair of sizes equal or one of them 1;
 * the batch is never broadcast. Else ARGUMENT, with both shapes. */
CLQ_API clq_tensor clq_add(clq_model *model, const clq_tensor *inputs, size_t count, const char *name);
CLQ_API clq_tensor clq_subtract(clq_model *model, const clq_tensor *inputs, size_t count,
                                const char *name); /* the first minus the second */
/* As Keras's layers do, clq_multiply, clq_maximum and clq_minimum look at masks: a step that an input's mask leaves out
 * counts as 1 in a product, and in what is compared as the inputs in front of it. If all inputs have masks, a product is
 * 0 for steps that all of them leave out. Errors: UNSUPPORTED (a mask of other axes than all but the input's last). */
CLQ_API clq_tensor clq_multiply(clq_model *model, const clq_tensor *inputs, size_t count, const char *name);
CLQ_API clq_tensor clq_average(clq_model *model, const clq_tensor *inputs, size_t count, const char *name);
/* The gradient of a maximum goes to the largest input, of a minimum to the smallest; of equal ones to the first. */
CLQ_API clq_tensor clq_maximum(clq_model *model, const clq_tensor *inputs, size_t count, const char *name);
CLQ_API clq_tensor clq_minimum(clq_model *model, const clq_tensor *inputs, size_t count, const char *name);
/* One behind the other along an axis, in which alone their shapes may differ. axis: 0 is the first behind the batch;
 * -1 the last, … */
CLQ_API clq_tensor clq_concatenate(clq_model *model, const clq_tensor *inputs, size_t count, int axis,
                                   const char *name);
/* Multi-head attention (Vaswani et al., 2017): inputs are the query (…, tokens, c), the value (…, others, c'), unless
 * it is the query, and the key, unless that is the value. -> (…, tokens, output). Variables, with h heads:
 * query/kernel (c, h, key), query/bias (h, key), the same of `key` and `value`, attention_output/kernel (h, value,
 * output) and its bias. heads and key are needed. */
CLQ_API clq_tensor clq_attention(clq_model *model, const clq_tensor *inputs, size_t count,
                                 const clq_attention_config *config);
/* Rows of a table by number: (…) -> (…, width). x: whole numbers from 0 to rows - 1. If x is an
 * input, others are refused before a step; others that the model computes are taken for the nearest row.
 * Variable: embeddings (rows, width). */
CLQ_API clq_tensor clq_embedding(clq_model *model, clq_tensor x, const clq_embedding_config *config);
/* The first rows of a learned table, as many as x (tokens, c) has tokens: to be added to x. Variable: embeddings
 * (rows, c). initialiser NULL: Glorot's uniform one. */
CLQ_API clq_tensor clq_position_embedding(clq_model *model, clq_tensor x, size_t rows,
                                          const clq_initialiser *initialiser, const char *name);
/* A recurrent layer over the steps of x (steps, c) -> (units), or (steps, units) with return_sequences, as in Keras.
 * Variables: kernel (c, gates * units), recurrent_kernel (units, gates * units), bias (gates * units), of GRU without
 * reset_before (2, gates * units); gates: 1 of simple cells, 4 of LSTM in the order input, forget, cell, output, 3 of GRU in the order
 * update, reset, candidate. config: its units, at least 1, are needed. Errors, at clq_model_finish: ARGUMENT (x has
 * other axes than (steps, c), units are 0, a dropout is out of its range, steps * 8 * units are more than INT32_MAX),
 * UNSUPPORTED (an activation that clq_recurrent_config does not have, or not with so many steps). */
CLQ_API clq_recurrent_config clq_recurrent_config_default(size_t units);
CLQ_API clq_tensor clq_recurrent(clq_model *model, clq_tensor x, clq_cell cell, const clq_recurrent_config *config);
/* Two such layers with weights of their own, of which one goes backwards, side by side: (2 units), or (steps, 2 units),
 * each step's two states in one row. Layers: forward_NAME and backward_NAME, which have the variables of clq_recurrent,
 * and NAME, which joins them; without a name it is bidirectional, bidirectional_1, … NAME has at most 54 bytes, so that
 * the word in front of it fits. If config goes backwards, the first one does, and the second one forwards. Errors:
 * those of clq_recurrent. */
CLQ_API clq_tensor clq_bidirectional(clq_model *model, clq_tensor x, clq_cell cell, const clq_recurrent_config *config);
/* x itself; in backward no gradient goes through (TensorFlow: stop_gradient, PyTorch: detach), or `factor` times the
 * gradient, which is finite. A factor of -1 turns it around (gradient reversal; Ganin and Lempitsky, 2015). Variables
 * that no gradient comes to have a gradient of 0: weight decay and momentum work on them all the same. */
CLQ_API clq_tensor clq_stop_gradient(clq_model *model, clq_tensor x, const char *name);
CLQ_API clq_tensor clq_gradient_scale(clq_model *model, clq_tensor x, double factor, const char *name);
/* Applies the layer that gave `of` to x as well, with the same weights (tied weights). Errors: ARGUMENT (x's shape
 * would need weights of another shape, or the layer takes other than one input). */
CLQ_API clq_tensor clq_share(clq_model *model, clq_tensor of, clq_tensor x);

/* Freezes the layer that gave x: training leaves its variables as they are, and computes no gradients of them. A batch
 * normalisation uses its moving statistics then, as in evaluation. Returns x. Errors: ARGUMENT (x is no tensor of the
 * model). */
CLQ_API clq_tensor clq_freeze(clq_model *model, clq_tensor x);

/* Gives x the mask of another tensor, whose steps x has: layers that are added behind x from now on leave out the same
 * steps. For what a mask does not go through, as in Keras, such as the sum with a position embedding. If `of` has no
 * mask, x has none from now on. As the query of clq_attention x is then nothing that Keras's files can have: give the
 * mask to the value alone. Returns x. Errors: ARGUMENT (a tensor is none of the model, x has other steps). */
CLQ_API clq_tensor clq_keep_mask(clq_model *model, clq_tensor x, clq_tensor of);

/* Adds l1 * sum |w| + l2 * sum w^2 to the loss, w being the variable of the layer that gave x: "kernel", "embeddings",
 * … Losses that are reported have it, and variables of frozen layers have none, as in Keras. For models of one output,
 * whose loss has a weight other than 0; not under tensor and pipeline. variable: what stands behind the layer's name in
 * the variable's: "kernel", "bias", "gamma", "recurrent_kernel", "query/kernel", …; a second call for it takes the
 * place of the first. l1, l2: finite, at least 0. Returns x. Errors: ARGUMENT (x is no tensor of the model, there is no
 * such variable, l1 or l2 is out of its range). */
CLQ_API clq_tensor clq_regularise(clq_model *model, clq_tensor x, const char *variable, double l1, double l2);

/* Constrains the variable of the layer that gave x: "kernel", "embeddings", …, as of clq_regularise; a second call for it
 * takes the place of the first. Each update of a training is followed by it, as in Keras. What a variable is before the
 * first update is left as it is. An update of several batches is followed by it once, and so is one that mixed precision
 * skips; Keras differs there if a norm comes to its bounds by a rate below 1. Not for variables of frozen layers, which
 * have no updates; not with a sharded optimizer, local steps, or ranks of their own for a parameter server. Returns x.
 * Errors: ARGUMENT (x is no tensor of the model, there is no such variable, a number is out of its range, the variable has
 * no such axis), UNSUPPORTED (of a variable of five axes every other one). */
CLQ_API clq_tensor clq_constrain(clq_model *model, clq_tensor x, const char *variable,
                                 const clq_constraint *constraint);

/* Marks a cut for strategy pipeline, behind x: layers added up to x belong to the stages before the cut, layers added
 * later to those behind it. A model with marks is cut at its marks, into one stage more than it has marks; one without
 * marks where its stages are measured, or else estimated, to be equally fast. Other strategies take no notice. Returns
 * x. Errors: ARGUMENT (x is no tensor of the model, more than 63 marks). Whether the model can be cut there is checked
 * by clq_trainer_create. */
CLQ_API clq_tensor clq_pipeline_cut(clq_model *model, clq_tensor x);

/* Marks x for recomputation: training does not keep it in memory from forward to backward, and computes it again where
 * backward needs it, whatever clq_trainer_config.recompute says. For a layer whose output is large and cheap to
 * compute. Values with side effects, such as exchanged sums, are kept all the same. Returns x. Errors: ARGUMENT
 * (x is no tensor of the model). */
CLQ_API clq_tensor clq_recompute(clq_model *model, clq_tensor x);

/* The first error of any line above, with its layer. Afterwards the model is fixed: what is added is refused with
 * STATE. Layers that do not lead to the output are left out, as in Keras. If the output has a mask (mask_zero,
 * clq_keep_mask), its loss is the mean over the steps of the global batch that count, and so are metrics that are means,
 * as in Keras; root_mean_squared_error, and metrics that are made of counts (precision, auc, …), take every step.
 * Errors: ARGUMENT (also a tensor of another model), UNSUPPORTED (a second input; a mask of other axes than all
 * but the output's last one or two), MEMORY, STATE (finished already). */
CLQ_API clq_status clq_model_finish(clq_model *model, clq_tensor output);
/* The same with several outputs, at most CLQ_MODEL_OUTPUTS_MAX, each another tensor. Trainers need each to be of a
 * layer of its own. */
CLQ_API clq_status clq_model_finish_outputs(clq_model *model, const clq_tensor *outputs, size_t count);

/* A model by its name, as the command line's --model: "mlp", or with options "gpt:layers=2,width=64". docs/models.md has
 * all names and options. What the options leave open are an image of 28 x 28 x 1 and 10 classes, and of sequences what the
 * model's name stands for. Errors: ARGUMENT (an unknown name or option, a value that the model cannot have), MEMORY. */
CLQ_API clq_status clq_model_builtin(const char *name, clq_model **out);
/* The same for data: `input`, the shape of a sample, and `classes` take the place of what the options leave open. A
 * sample of rank 2 is an image of one channel. If the model takes images and a sample is neither, it stays as
 * clq_model_builtin has it. input of rank 0, classes 0: not known. */
CLQ_API clq_status clq_model_builtin_for(const char *name, clq_shape input, size_t classes, clq_model **out);
/* A model.to_json() file of Keras 3 or 2: Sequential or Functional, or a backbone of keras_hub by its class name and
 * hyper-parameters, whose inputs have open sizes. An attribute that training here
 * would not honour is refused by its path in the file. Errors: NOT_FOUND, READ, FORMAT (malformed), UNSUPPORTED (what
 * Keras may read and this does not, yet), MEMORY. */
CLQ_API clq_status clq_model_read_keras_json(const char *path, clq_model **out);
/* Sizes of axes that a file leaves open (null). */
typedef struct clq_keras_sizes {
    size_t open; /* of every axis that neither the file nor `shapes` has a size for; 0: such a file is refused */
    /* (count) of the first inputs in the file's order, without the batch. A size of 0 leaves that axis to the file. Of a
     * Sequential file that has no shape at all the first is its input's. */
    const clq_shape *shapes;
    size_t count;
    double reserved[2]; /* 0 */
} clq_keras_sizes;
/* Reads a file as clq_model_read_keras_json does, and takes from `sizes` what the file leaves open. If `sizes` is NULL, a
 * file with open sizes is refused (UNSUPPORTED). Errors: also MISMATCH (a shape has other sizes or another number of axes
 * than the file's, or there are more shapes than inputs). */
CLQ_API clq_status clq_model_read_keras_json_sized(const char *path, const clq_keras_sizes *sizes, clq_model **out);
/* Writes a finished model as a Functional model's JSON of Keras 3, which keras.models.model_from_json loads, and
 * clq_model_read_keras_json reads: the same layers under the same names, variables, initialisers, penalties, frozen
 * layers, shared layers and masks; layers of blocks and of models within the model are layers of the model. Types of
 * numbers are left to Keras. Weights are not in it. Left out: what clq_pipeline_cut and clq_recompute marked, and the
 * order of variables. The file appears whole or not at all, and replaces one of that name. Errors: STATE (the model is
 * not finished), UNSUPPORTED (a layer that Keras has no form for, by its name: a penalty on some of the variables
 * that one regularizer is for, a block whose rule for masks is none of its layers'), WRITE, MEMORY. */
CLQ_API clq_status clq_model_write_keras_json(const clq_model *model, const char *path);
/* Prepares a finished model that was made here to be saved as a .keras file (clq_trainer_save), before it has a trainer
 * and behind clq_model_freeze. It also finds where Keras's files of weights have the variables, as layers are numbered in
 * Keras's own order. A model that was read from a Keras file needs that not. Errors: as of clq_model_write_keras_json, but for WRITE. */
CLQ_API clq_status clq_model_prepare_keras(clq_model *model);

/* The model of a .keras file of Keras 3, likewise; `sizes` may be NULL. Its weights: clq_trainer_load with the same path.
 * Needs a build with HDF5 and libzip. The file is read by a process of its own, which is waited for. Errors: also SYSTEM
 * (that process cannot be started), WRITE (no room for a file between, where TMPDIR says), UNSUPPORTED (a build without
 * these libraries). */
CLQ_API clq_status clq_model_read_keras(const char *path, const clq_keras_sizes *sizes, clq_model **out);

/* Freezes layers by their names, as clq_freeze does: their variables have no gradient, take no part in exchanges and
 * keep their values. names: with commas between, '*' for any characters, '?' for one; the name of a model within the
 * model means all its layers. Also of a finished model, as long as no trainer was made of it. Errors: ARGUMENT (a name
 * that no layer has; no variable would be left to train). */
CLQ_API clq_status clq_model_freeze(clq_model *model, const char *names);

/* Getters. Texts live as long as the model; names of variables until the next builder call or clq_model_finish, then as
 * long as the model. Before clq_model_finish, the input's shape is of rank 0 until clq_input, the output's is of rank
 * 0, and variables are those of the layers so far, of which finishing may leave some out. */
CLQ_API const char *clq_model_name(const clq_model *model);
CLQ_API clq_shape clq_model_input_shape(const clq_model *model);
/* Of a finished model; outputs in the order in which clq_model_finish_outputs got them. An index beyond the last: a
 * shape of rank 0; NULL. */
CLQ_API size_t clq_model_output_count(const clq_model *model);
CLQ_API clq_shape clq_model_output_shape(const clq_model *model, size_t index);
CLQ_API const char *clq_model_output_name(const clq_model *model, size_t index); /* its layer's; the model's */
typedef struct clq_variable_info {
    const char *name; /* "conv2d/kernel" */
    clq_shape shape;  /* Keras's: (kh, kw, in, out), (in, out), (out) */
    size_t elements;
    size_t fan_in, fan_out; /* Keras's: kh * kw * in and kh * kw * out */
    bool is_bias;
    bool trainable; /* else it is state: kept up by the layer itself, and without a gradient */
    double reserved[4]; /* 0 */
} clq_variable_info;
/* In the order of the layers, counted from 0. Errors: ARGUMENT (an index that is not below the count). */
CLQ_API size_t clq_model_variable_count(const clq_model *model);
CLQ_API clq_status clq_model_variable(const clq_model *model, size_t index, clq_variable_info *out);
/* State included. */
CLQ_API size_t clq_model_parameter_count(const clq_model *model);

#ifdef __cplusplus
}
#endif
#endif
