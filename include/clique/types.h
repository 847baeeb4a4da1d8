/* clique/types.h: element types for tensors, buffers and files, and types that several headers share.
 *
 * How the interface grows. Lists of names (X(name, …)) and enumerations grow at their end. Structs are of four kinds:
 *
 * - Structs that are passed with their size (see <clique/train.h>) get members at their end.
 * - Structs with a member `reserved` keep their size; new members take their room from it. A program's struct in which
 *   it is not 0 is refused (ARGUMENT): the library does not pass over what it does not know.
 * - Structs that the library makes and lends (clq_dataset_info, clq_epoch_info, clq_replica_context, …) get members at
 *   their end; programs only read them.
 * - All others stay as they are: clq_shape, clq_tensor, clq_slice, clq_optimizer, ….
 *
 * 0 in a new member means what happened before, or the struct's _default function sets its value. So start from that
 * function, or from {0}, and name members: (clq_group_config){.slots = 8}. */
#ifndef CLIQUE_TYPES_H
#define CLIQUE_TYPES_H

#include <clique/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
/* X(name, text, bytes). The order is part of the binary interface: add at the end. */
#define CLQ_DTYPE_MAP(X) \
    X(F32, "f32", 4) \
    X(F64, "f64", 8) \
    X(F16, "f16", 2) \
    X(BF16, "bf16", 2) \
    X(I8, "i8", 1) \
    X(I16, "i16", 2) \
    X(I32, "i32", 4) \
    X(I64, "i64", 8) \
    X(U8, "u8", 1) \
    X(U16, "u16", 2) \
    X(U32, "u32", 4) \
    X(U64, "u64", 8) \
    X(BOOL, "bool", 1)

/* The type of an element; names and bytes stand in CLQ_DTYPE_MAP. */
typedef enum clq_dtype {
#define CLQ_DTYPE_ENUM(name, text, bytes) CLQ_##name,
    CLQ_DTYPE_MAP(CLQ_DTYPE_ENUM)
#undef CLQ_DTYPE_ENUM
    CLQ_DTYPE_COUNT
} clq_dtype;
/* clang-format on */

/* Bytes in one element; 0 for a value that is no type. */
CLQ_API size_t clq_dtype_bytes(clq_dtype dtype);
/* "f32", "i64", …; "unknown type" for a value that is no type. */
CLQ_API const char *clq_dtype_name(clq_dtype dtype);

enum { CLQ_SHAPE_MAX = 6 };         /* dimensions in a shape */
enum { CLQ_MODEL_OUTPUTS_MAX = 8 }; /* a model's outputs, and so a sample's targets */
enum { CLQ_MODEL_INPUTS_MAX = 64 }; /* a model's inputs */

/* Keras's activations of these names. mish: x tanh(log(1 + exp(x))) (Misra, "Mish: a self regularized non-monotonic
 * activation function", 2019). The order is part of the binary interface: add at the end. */
typedef enum clq_activation {
    CLQ_ACTIVATION_LINEAR,
    CLQ_ACTIVATION_RELU,
    CLQ_ACTIVATION_SIGMOID,
    CLQ_ACTIVATION_TANH,
    CLQ_ACTIVATION_SOFTMAX,
    CLQ_ACTIVATION_MISH,
    CLQ_ACTIVATION_SILU,             /* x sigmoid(x); Keras's swish, too */
    CLQ_ACTIVATION_GELU,             /* x (1 + erf(x / sqrt(2))) / 2 */
    CLQ_ACTIVATION_GELU_APPROXIMATE, /* tanh instead of erf: Keras's gelu with approximate=True */
    CLQ_ACTIVATION_RELU6,
    CLQ_ACTIVATION_LEAKY_RELU, /* x above 0, else 0.2 x */
    CLQ_ACTIVATION_ELU,        /* x above 0, else exp(x) - 1; Keras's celu, too */
    CLQ_ACTIVATION_SELU,
    CLQ_ACTIVATION_EXPONENTIAL,
    CLQ_ACTIVATION_SOFTPLUS,
    CLQ_ACTIVATION_SOFTSIGN,
    CLQ_ACTIVATION_LOG_SIGMOID,
    CLQ_ACTIVATION_HARD_SIGMOID,
    CLQ_ACTIVATION_HARD_SILU, /* Keras's hard_swish, too */
    CLQ_ACTIVATION_HARD_TANH,
    CLQ_ACTIVATION_TANH_SHRINK,
    CLQ_ACTIVATION_SOFT_SHRINK, /* with threshold 0.5, like hard_shrink */
    CLQ_ACTIVATION_HARD_SHRINK,
    CLQ_ACTIVATION_SQUAREPLUS /* (x + sqrt(x^2 + 4)) / 2 */
} clq_activation;

/* Recurrent cells: simple (Elman, 1990); long short-term memory (Hochreiter and Schmidhuber, 1997); gated recurrent
 * units (Cho et al., 2014). */
typedef enum clq_cell { CLQ_CELL_SIMPLE, CLQ_CELL_LSTM, CLQ_CELL_GRU } clq_cell;
/* Losses, with Keras's formulas: categorical_crossentropy, sparse_categorical_crossentropy, binary_crossentropy,
 * mean_squared_error, mean_absolute_error, huber, hinge, squared_hinge, categorical_hinge, log_cosh, kl_divergence,
 * poisson, cosine_similarity, mean_absolute_percentage_error, mean_squared_logarithmic_error,
 * binary_focal_crossentropy, categorical_focal_crossentropy (focal: Lin et al., "Focal loss for dense object
 * detection", 2017). Settings and their defaults: clq_loss in <clique/train.h>. The order is part of the binary
 * interface: add at the end. */
typedef enum clq_loss_kind {
    CLQ_LOSS_CATEGORICAL,
    CLQ_LOSS_SPARSE_CATEGORICAL,
    CLQ_LOSS_BINARY,
    CLQ_LOSS_MEAN_SQUARED_ERROR,
    CLQ_LOSS_MEAN_ABSOLUTE_ERROR,
    CLQ_LOSS_HUBER,
    CLQ_LOSS_HINGE,
    CLQ_LOSS_SQUARED_HINGE,
    CLQ_LOSS_CATEGORICAL_HINGE,
    CLQ_LOSS_LOG_COSH,
    CLQ_LOSS_KL_DIVERGENCE,
    CLQ_LOSS_POISSON,
    CLQ_LOSS_COSINE_SIMILARITY,
    CLQ_LOSS_MEAN_ABSOLUTE_PERCENTAGE_ERROR,
    CLQ_LOSS_MEAN_SQUARED_LOGARITHMIC_ERROR,
    CLQ_LOSS_BINARY_FOCAL,
    CLQ_LOSS_CATEGORICAL_FOCAL
} clq_loss_kind;

/* How the learning rate changes from update to update, as in keras.optimizers.schedules. `values` has each schedule's
 * parameters in this order, with Keras's defaults, which clq_lr_schedule_parse sets:
 *
 * - CONSTANT: none.
 * - EXPONENTIAL: decay_steps, decay_rate (0.96), staircase (0 or 1; 0).
 * - COSINE: decay_steps, alpha (the last rate as a fraction of lr; 0).
 * - INVERSE_TIME: decay_steps, decay_rate (0.5), staircase (0 or 1; 0).
 * - POLYNOMIAL: decay_steps, end (a rate; 1e-4), power (1), cycle (0 or 1; 0).
 * - PIECEWISE: CLQ_LR_BOUNDARIES_MAX boundaries, which rise from at least 1, with 0 after the last one; then the rates,
 *   one more than boundaries. values[4] is the rate up to and including the first boundary's update, and so on. The
 *   optimizer's own rate is not used.
 * - COSINE_RESTARTS: first_decay_steps, t_mul (2), m_mul (1), alpha (0) (Loshchilov and Hutter, "SGDR: Stochastic
 *   Gradient Descent with Warm Restarts", 2017).
 *
 * Ranges: decay_steps and first_decay_steps 1 to 1e15 updates, and needed; rates, decay_rate and m_mul 0 to 1e6; t_mul
 * 1 to 1e6; alpha 0 to 1; power 0 to 1000. The order is part of the binary interface: add at the end. */
typedef enum clq_lr_schedule_kind {
    CLQ_LR_SCHEDULE_CONSTANT,
    CLQ_LR_SCHEDULE_EXPONENTIAL,
    CLQ_LR_SCHEDULE_COSINE,
    CLQ_LR_SCHEDULE_INVERSE_TIME,
    CLQ_LR_SCHEDULE_POLYNOMIAL,
    CLQ_LR_SCHEDULE_PIECEWISE,
    CLQ_LR_SCHEDULE_COSINE_RESTARTS
} clq_lr_schedule_kind;
/* Boundaries of CLQ_LR_SCHEDULE_PIECEWISE. */
enum { CLQ_LR_BOUNDARIES_MAX = 4 };
/* Places in `values` that all schedules have. If values[CLQ_LR_WARMUP], a number of updates, is above 0, the rate first
 * rises linearly from values[CLQ_LR_WARMUP_FROM] to the schedule's first rate. Update number WARMUP, counted from 0,
 * has that first rate, and the schedule begins there (as warmup_steps in Keras's CosineDecay, for any schedule).
 * Ranges: 0 to 1e15 updates, a rate from 0 to 1e6; default 0, both. */
enum { CLQ_LR_WARMUP = 10, CLQ_LR_WARMUP_FROM = 11 };

/* Keras's optimizers. `values` has the hyper-parameters in this order, with Keras's defaults, which
 * clq_optimizer_default sets:
 *
 * - SGD: lr (0.01), momentum (0), nesterov (0 or 1; 0), weight_decay (0).
 * - ADAM, ADAMW: lr (0.001), beta1 (0.9), beta2 (0.999), epsilon (1e-7), amsgrad (0 or 1; 0), weight_decay (ADAM 0,
 *   ADAMW 0.004) (Kingma and Ba, 2015; amsgrad: Reddi et al., 2018).
 * - ADAGRAD: lr (0.001), initial_accumulator_value (0.1), epsilon (1e-7), weight_decay (0) (Duchi et al., 2011).
 * - ADAMAX, NADAM: lr (0.001), beta1 (0.9), beta2 (0.999), epsilon (1e-7), weight_decay (0) (Kingma and Ba, 2015;
 *   Dozat, 2016).
 * - RMSPROP: lr (0.001), rho (0.9), momentum (0), epsilon (1e-7), centered (0 or 1; 0), weight_decay (0) (Tieleman and
 *   Hinton, 2012).
 * - ADADELTA: lr (0.001), rho (0.95), epsilon (1e-7), weight_decay (0) (Zeiler, 2012).
 * - LION: lr (0.001), beta1 (0.9), beta2 (0.99), weight_decay (0) (Chen et al., 2023).
 * - LAMB: lr (0.001), beta1 (0.9), beta2 (0.999), epsilon (1e-7), weight_decay (0). Each variable's step has the length
 *   lr times the variable's norm (You et al., 2020).
 *
 * values[0] is always the learning rate. The last parameter is always the weight decay: each update first makes every
 * weight smaller by the fraction lr * weight_decay (Loshchilov and Hutter, "Decoupled weight decay regularization",
 * 2019). Ranges: momentum 0 to 1; beta1, beta2 and rho from 0 to below 1; all other numbers 0 to 1e6. The order is part
 * of the binary interface: add at the end. */
typedef enum clq_optimizer_kind {
    CLQ_OPTIMIZER_SGD,
    CLQ_OPTIMIZER_ADAM,
    CLQ_OPTIMIZER_ADAGRAD,
    CLQ_OPTIMIZER_ADAMW,
    CLQ_OPTIMIZER_ADAMAX,
    CLQ_OPTIMIZER_NADAM,
    CLQ_OPTIMIZER_RMSPROP,
    CLQ_OPTIMIZER_ADADELTA,
    CLQ_OPTIMIZER_LION,
    CLQ_OPTIMIZER_LAMB
} clq_optimizer_kind;
/* How the reduced gradient is clipped before the update, to a positive limit, as Keras's clipvalue, clipnorm and
 * global_clipnorm:
 *
 * - VALUE: each element to [-limit, limit].
 * - NORM: each variable's gradient to an L2 norm no larger than the limit.
 * - GLOBAL_NORM: all variables' gradients together, to such a norm (Pascanu et al., "On the difficulty of training
 *   recurrent neural networks", 2013).
 *
 * The order is part of the binary interface: add at the end. */
typedef enum clq_clip_kind { CLQ_CLIP_OFF, CLQ_CLIP_VALUE, CLQ_CLIP_NORM, CLQ_CLIP_GLOBAL_NORM } clq_clip_kind;
/* How gradients are clipped, and to what. */
typedef struct clq_clip {
    clq_clip_kind kind;
    double limit;       /* above 0; not read with OFF */
    double reserved[2]; /* 0 */
} clq_clip;

/* OPTIMIZERS_MAX: optimizers in a trainer, including the main one. */
enum { CLQ_HYPERPARAMETERS_MAX = 12, CLQ_OPTIMIZERS_MAX = 4 };
/* The struct keeps its size in later versions: a new optimizer's parameters take places in `values` that are 0 for the
 * others. */
typedef struct clq_optimizer {
    clq_optimizer_kind kind;
    double values[CLQ_HYPERPARAMETERS_MAX];
} clq_optimizer;
/* A schedule with its parameters, in the order in which clq_lr_schedule_kind lists them; the others are 0. */
typedef struct clq_lr_schedule {
    clq_lr_schedule_kind kind;
    double values[CLQ_HYPERPARAMETERS_MAX];
} clq_lr_schedule;

/* How devices train together. A replica is a device with its plan and its queues.
 *
 * - AUTO: SINGLE for one device, else MIRRORED.
 * - SINGLE: one device.
 * - MIRRORED: every replica has all variables; replicas split each batch and sum their gradients (PyTorch DDP).
 * - CENTRAL: parameters and optimizer state lie in the host's memory; replicas split each batch (tf.distribute's
 *   CentralStorageStrategy).
 * - PS: a parameter server in the host's memory. It is asynchronous, and each replica takes complete batches; with
 *   staleness 0 it is synchronous, and replicas split each batch.
 * - PIPELINE: each device has a stage, which is a run of consecutive layers, and micro-batches go through the stages
 *   (Huang et al., "GPipe", 2019; 1F1B: Narayanan et al., "PipeDream", 2019).
 * - TENSOR: replicas split the kernels in Dense layers, attention by heads, and embedding tables; each replica runs the
 *   complete batch (Shoeybi et al., "Megatron-LM", 2019).
 *
 * The order is part of the binary interface: add at the end. */
typedef enum clq_strategy_kind {
    CLQ_STRATEGY_AUTO,
    CLQ_STRATEGY_SINGLE,
    CLQ_STRATEGY_MIRRORED,
    CLQ_STRATEGY_CENTRAL,
    CLQ_STRATEGY_PS,
    CLQ_STRATEGY_PIPELINE,
    CLQ_STRATEGY_TENSOR
} clq_strategy_kind;

/* How a batch is split over replicas. EQUAL: as evenly as possible. AUTO: by each replica's speed, which is measured
 * during the entire training. WEIGHTS: in given proportions, the same in every run. Shares determine how sums are
 * rounded, so two runs with AUTO differ in their bits. */
typedef enum clq_shares_kind { CLQ_SHARES_EQUAL, CLQ_SHARES_AUTO, CLQ_SHARES_WEIGHTS } clq_shares_kind;

/* How gradients are compressed when replicas exchange them.
 *
 * - F16: elements are rounded to 16-bit floats, and so are their sums.
 * - TOP_K: only the `fraction` of elements (rounded up) with the largest absolute values is sent, as pairs with index
 *   and value (Lin et al., "Deep gradient compression", 2018).
 * - F16_BETWEEN: a process's devices add up gradients in float32; a run's processes exchange 16-bit floats made from
 *   these sums. Rounding errors are lost. For strategies mirrored and pipeline, also with a sharded optimizer. With one
 *   process nothing is rounded.
 *
 * With F16 and TOP_K, what a message omits stays with its replica and is added to that replica's next gradient (error
 * feedback: Seide et al., 2014; Karimireddy et al., 2019). 16-bit floats reach from 6e-8 to 65504. The order is part of
 * the binary interface: add at the end. */
typedef enum clq_compression_kind {
    CLQ_COMPRESSION_OFF,
    CLQ_COMPRESSION_F16,
    CLQ_COMPRESSION_TOP_K,
    CLQ_COMPRESSION_F16_BETWEEN
} clq_compression_kind;
/* How gradients are compressed while they are exchanged. */
typedef struct clq_compression {
    clq_compression_kind kind;
    double fraction;    /* TOP_K: above 0, at most 1 */
    double reserved[2]; /* 0 */
} clq_compression;

enum { CLQ_ACCUMULATE_MAX = 65536 }; /* batches for one update in clq_fit */
/* The largest staleness: by how many updates a gradient may be late. */
enum { CLQ_STALENESS_MAX = 65536 };
/* Settings for strategies. Each member's default is 0, except staleness's. clq_trainer_create refuses settings that
 * exclude each other, or that the strategy does not have (ARGUMENT). The struct keeps its size in later versions: new
 * members take their room from `reserved`. */
typedef struct clq_strategy_options {
    /* clq_fit: how many of the dataset's batches make one update, up to CLQ_ACCUMULATE_MAX; the gradient is the mean
     * over all their samples. An epoch's last update may have fewer batches. 0: 1. */
    uint64_t accumulate;
    clq_shares_kind shares; /* MIRRORED */
    uint32_t share_count;   /* numbers in share_weights */
    /* (share_count) with WEIGHTS: a number for each replica, finite, at least 0; their sum is above 0. Borrowed while
     * the trainer is created. */
    const double *share_weights;
    /* MIRRORED: 0 or 1. With 1 each of n replicas keeps the optimizer's state for one n-th of the parameters, updates
     * these, and gets the other parameters from the replicas that updated them (ZeRO stage 1: Rajbhandari et al.,
     * 2020). */
    uint32_t shard_optimizer;
    /* PS: the most updates that may be made between a replica's read of the parameters and the update with its
     * gradient, from 0 to CLQ_STALENESS_MAX. 0: synchronous. clq_trainer_config_default sets 4. */
    int32_t staleness;
    /* PS with staleness 0: backup replicas. An update does not wait for the slowest replicas, this many (Chen et al.,
     * 2016). */
    uint32_t backup;
    /* PIPELINE. stages: devices in one pipeline; divides the number of devices. Several pipelines are mirrored. 0: one
     * pipeline with all devices. micro_batches: how many micro-batches a pipeline's share of a batch is cut into. 0:
     * four for each stage, each with at least 4 samples. */
    uint32_t stages, micro_batches;
    uint32_t unused;             /* 0 */
    clq_compression compression; /* MIRRORED. One replica exchanges nothing */
    /* MIRRORED: each replica makes this many updates by its own share's gradient, with its own optimizer; then the
     * weights are averaged (local SGD: Stich, "Local SGD converges fast and communicates little", 2019). 0: gradients
     * are exchanged in each step. Not with compression, accumulate, shares AUTO or shard_optimizer. */
    uint64_t local_steps;
    double reserved[21]; /* 0 */
} clq_strategy_options;

/* Whether kernel variants are measured. Operations have several kernel variants, and tiles with several shapes. The
 * fastest ones on a device can be measured once. Results are stored with the device's built kernels, by device, driver
 * and Clique version. All later plans use stored results, so that each run computes the same bits as the run before
 * it. */
typedef enum clq_tuning {
    CLQ_TUNING_OFF, /* measure nothing; use stored results, else rules */
    /* Measure what is not stored yet, for at most 2 s per kind of device; what remains then is chosen by rule. */
    CLQ_TUNING_QUICK,
    CLQ_TUNING_FULL /* measure everything anew */
} clq_tuning;

/* Recomputation (gradient checkpointing). Activations that forward computes and backward needs either stay in memory
 * between the two, or are computed a second time in backward. Losses, gradients and weights keep their bits. */
typedef enum clq_recompute_kind {
    CLQ_RECOMPUTE_OFF, /* only what the model marks (clq_recompute) */
    /* As little as makes the training fit each device's memory limit; none if everything fits. */
    CLQ_RECOMPUTE_AUTO,
    CLQ_RECOMPUTE_ALL /* so that activations take the least memory that can be found */
} clq_recompute_kind;

/* Which samples each process takes if several processes train together. Names are those in tf.data's AutoShardPolicy.
 * The order is part of the binary interface. */
typedef enum clq_shard {
    /* All processes have the same set, and each takes its part of each batch: like one process with all devices. */
    CLQ_SHARD_DATA,
    /* Each process has its own set, and takes its part of each batch from it. */
    CLQ_SHARD_FILE,
    /* All processes have the same set, and each takes its part from all of it, in its own order. */
    CLQ_SHARD_OFF
} clq_shard;

/* How exact float32 matrix multiplications are, if a device has faster units for fewer bits. Sums are always float32.
 * HIGHEST: as float32. HIGH: factors may be rounded to TF32 (10 bits after the point). MEDIUM: factors may be rounded
 * to bfloat16 (7 bits after the point). */
typedef enum clq_matmul_precision { CLQ_MATMUL_HIGHEST, CLQ_MATMUL_HIGH, CLQ_MATMUL_MEDIUM } clq_matmul_precision;

/* The type in which a step keeps values for each sample: activations and their gradients. F32: float32. MIXED: float16,
 * with a loss scale. MIXED_BF16: bfloat16, which has float32's range and needs no loss scale. Everything else is
 * float32: arithmetic, weights, optimizer state, variables' gradients, sums, statistics and losses (Micikevicius et
 * al., "Mixed precision training", 2018). The order is part of the binary interface: add at the end. */
typedef enum clq_precision { CLQ_PRECISION_F32, CLQ_PRECISION_MIXED, CLQ_PRECISION_MIXED_BF16 } clq_precision;

/* Seconds that steps spent exchanging gradients; exposed_s is the part that did not overlap with backward. */
typedef struct clq_comm_times {
    double total_s, exposed_s;
    double reserved[2]; /* 0 */
} clq_comm_times;

#ifdef __cplusplus
}
#endif
#endif
