/* clique/types.h: element types of tensors, buffers and files, and other types that several headers share.
 *
 * How the interface grows. Lists of names (X(name, …)) and enumerations grow at their end. Structs are of four kinds:
 * - Those that go along with their size (<clique/train.h>) get members at their end.
 * - Those with a member `reserved` keep their size, and new members take their room from it; it is 0, and a struct of a
 *   program's is refused if it is not (ARGUMENT): what a library does not know it does not pass over.
 * - Those that the library makes and lends (clq_dataset_info, clq_epoch_info, clq_replica_context, …) get members at
 *   their end, and programs only read them.
 * - All others are whole, and stay as they are: clq_shape, clq_tensor, clq_slice, clq_optimizer, ….
 * New members have the value 0 for what happened before, or get their value from the struct's _default function; so
 * start from that function, or from {0}, and name members: (clq_group_config){.slots = 8}. */
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

typedef enum clq_dtype {
#define CLQ_DTYPE_ENUM(name, text, bytes) CLQ_##name,
    CLQ_DTYPE_MAP(CLQ_DTYPE_ENUM)
#undef CLQ_DTYPE_ENUM
    CLQ_DTYPE_COUNT
} clq_dtype;
/* clang-format on */

CLQ_API size_t clq_dtype_bytes(clq_dtype dtype);
CLQ_API const char *clq_dtype_name(clq_dtype dtype);

enum { CLQ_SHAPE_MAX = 6 };         /* dimensions of a shape */
enum { CLQ_MODEL_OUTPUTS_MAX = 8 }; /* outputs of a model, and so targets of a sample */
enum { CLQ_MODEL_INPUTS_MAX = 64 }; /* inputs of a model */

/* Keras's activations of these names. mish: x tanh(log(1 + exp(x))) (Misra, "Mish: a self regularized non-monotonic
 * activation function", 2019). The order is part of the binary interface: add at the end. */
typedef enum clq_activation {
    CLQ_LINEAR,
    CLQ_RELU,
    CLQ_SIGMOID,
    CLQ_TANH,
    CLQ_SOFTMAX,
    CLQ_MISH,
    CLQ_SILU,             /* x sigmoid(x); Keras's swish, too */
    CLQ_GELU,             /* x (1 + erf(x / sqrt(2))) / 2 */
    CLQ_GELU_APPROXIMATE, /* by tanh in place of erf: Keras's gelu with approximate=True */
    CLQ_RELU6,
    CLQ_LEAKY_RELU, /* x above 0, else 0.2 x */
    CLQ_ELU,        /* x above 0, else exp(x) - 1; Keras's celu, too */
    CLQ_SELU,
    CLQ_EXPONENTIAL,
    CLQ_SOFTPLUS,
    CLQ_SOFTSIGN,
    CLQ_LOG_SIGMOID,
    CLQ_HARD_SIGMOID,
    CLQ_HARD_SILU, /* Keras's hard_swish, too */
    CLQ_HARD_TANH,
    CLQ_TANH_SHRINK,
    CLQ_SOFT_SHRINK, /* with a threshold of 0.5, as of hard_shrink */
    CLQ_HARD_SHRINK,
    CLQ_SQUAREPLUS /* (x + sqrt(x^2 + 4)) / 2 */
} clq_activation;

/* Recurrent cells: of Elman (1990); long short-term memory (Hochreiter and Schmidhuber, 1997); gated (Cho et al.,
 * 2014).
 */
typedef enum clq_cell { CLQ_CELL_SIMPLE, CLQ_CELL_LSTM, CLQ_CELL_GRU } clq_cell;
/* Keras's categorical_crossentropy, sparse_categorical_crossentropy, binary_crossentropy, mean_squared_error,
 * mean_absolute_error, huber, hinge, squared_hinge, categorical_hinge, log_cosh, kl_divergence, poisson,
 * cosine_similarity, mean_absolute_percentage_error, mean_squared_logarithmic_error, binary_focal_crossentropy,
 * categorical_focal_crossentropy. The order is part of the binary interface: add at the end. */
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

/* How the learning rate changes from update to update, as keras.optimizers.schedules of these names; parameters in the
 * order of `values`. CONSTANT: none. EXPONENTIAL: decay_steps, decay_rate, staircase (0 or 1). COSINE: decay_steps,
 * alpha. INVERSE_TIME: decay_steps, decay_rate, staircase. POLYNOMIAL: decay_steps, end (a rate), power, cycle (0 or
 * 1). PIECEWISE: CLQ_LR_BOUNDARIES_MAX boundaries, which rise from at least 1, 0 behind the last; then the rates, one
 * more than boundaries: values[4] up to and with the update of the first boundary, and so on; the optimizer's rate is
 * not looked at. COSINE_RESTARTS: first_decay_steps, t_mul, m_mul, alpha (Loshchilov and Hutter, "SGDR: Stochastic
 * Gradient Descent with Warm Restarts", 2017). The order is part of the binary interface: add at the end. */
typedef enum clq_lr_schedule_kind {
    CLQ_LR_SCHEDULE_CONSTANT,
    CLQ_LR_SCHEDULE_EXPONENTIAL,
    CLQ_LR_SCHEDULE_COSINE,
    CLQ_LR_SCHEDULE_INVERSE_TIME,
    CLQ_LR_SCHEDULE_POLYNOMIAL,
    CLQ_LR_SCHEDULE_PIECEWISE,
    CLQ_LR_SCHEDULE_COSINE_RESTARTS
} clq_lr_schedule_kind;
enum { CLQ_LR_BOUNDARIES_MAX = 4 };
/* Places of `values` that all schedules have. Where values[CLQ_LR_WARMUP], a number of updates, is above 0, the rate
 * first rises linearly from values[CLQ_LR_WARMUP_FROM] to the schedule's first rate, which is that of update WARMUP,
 * counted from 0; there the schedule begins (warmup_steps of Keras's CosineDecay, for any schedule). */
enum { CLQ_LR_WARMUP = 10, CLQ_LR_WARMUP_FROM = 11 };

/* Keras's optimizers, and their hyper-parameters in the order of `values`; values[0] is the learning rate of each, and
 * the last one the weight decay: in each update weights first become smaller by that part of them times the learning
 * rate. SGD: lr, momentum, nesterov (0 or 1), weight_decay. ADAM, ADAMW: lr, beta1, beta2, epsilon, amsgrad (0 or 1),
 * weight_decay. ADAGRAD: lr, initial_accumulator_value, epsilon, weight_decay. ADAMAX, NADAM: lr, beta1, beta2,
 * epsilon, weight_decay. RMSPROP: lr, rho, momentum, epsilon, centered (0 or 1), weight_decay. ADADELTA: lr, rho,
 * epsilon, weight_decay. LION: lr, beta1, beta2, weight_decay. LAMB: lr, beta1, beta2, epsilon, weight_decay. The order
 * is part of the binary interface: add at the end. */
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
/* How the reduced gradient is clipped before the update, to a positive limit. VALUE: each element to [-limit, limit].
 * NORM: each variable's gradient to an L2 norm of at most the limit. GLOBAL_NORM: the gradient of all variables
 * together (Pascanu et al., "On the difficulty of training recurrent neural networks", 2013). Keras's clipvalue,
 * clipnorm and global_clipnorm. The order is part of the binary interface: add at the end. */
typedef enum clq_clip_kind { CLQ_CLIP_OFF, CLQ_CLIP_VALUE, CLQ_CLIP_NORM, CLQ_CLIP_GLOBAL_NORM } clq_clip_kind;
typedef struct clq_clip {
    clq_clip_kind kind;
    double limit; /* above 0, unless OFF */
    double reserved[2]; /* 0 */
} clq_clip;

/* OPTIMIZERS_MAX: of a trainer, the main one among them. */
enum { CLQ_HYPERPARAMETERS_MAX = 12, CLQ_OPTIMIZERS_MAX = 4 };
/* Of one size for good: an optimizer that is added takes places of `values`, which are zero for the others. */
typedef struct clq_optimizer {
    clq_optimizer_kind kind;
    double values[CLQ_HYPERPARAMETERS_MAX];
} clq_optimizer;
typedef struct clq_lr_schedule {
    clq_lr_schedule_kind kind;
    double values[CLQ_HYPERPARAMETERS_MAX];
} clq_lr_schedule;

/* How devices train together. A replica is a device with its plan and its queues.
 * AUTO: SINGLE for one device, else MIRRORED.
 * SINGLE: one device.
 * MIRRORED: every replica has all variables; replicas split each batch and sum their gradients (PyTorch DDP).
 * CENTRAL: parameters and optimizer state lie in the host's memory; replicas split each batch (tf.distribute's
 * CentralStorageStrategy).
 * PS: a parameter server in the host's memory; asynchronous, with whole batches, unless its staleness is 0.
 * PIPELINE: each device has a stage, which is a run of the model's layers, and micro-batches go through the stages
 * (Huang et al., "GPipe", 2019; 1F1B: Narayanan et al., "PipeDream", 2019).
 * TENSOR: replicas split the kernels of Dense layers, attention by heads, and tables of embeddings, and each runs the
 * whole batch (Shoeybi et al., "Megatron-LM", 2019). The order is part of the binary interface: add at the end. */
typedef enum clq_strategy_kind {
    CLQ_STRATEGY_AUTO,
    CLQ_STRATEGY_SINGLE,
    CLQ_STRATEGY_MIRRORED,
    CLQ_STRATEGY_CENTRAL,
    CLQ_STRATEGY_PS,
    CLQ_STRATEGY_PIPELINE,
    CLQ_STRATEGY_TENSOR
} clq_strategy_kind;

/* How a batch is split over replicas. EQUAL: as evenly as it can be. AUTO: by the speed of each replica, which is
 * measured during the whole training. Shares decide how sums are rounded, so two runs with AUTO differ in their bits.
 * WEIGHTS: in given proportions, the same in every run. */
typedef enum clq_shares_kind { CLQ_SHARES_EQUAL, CLQ_SHARES_AUTO, CLQ_SHARES_WEIGHTS } clq_shares_kind;

/* How gradients are compressed for the exchange between replicas. What a message leaves out stays with its replica, and
 * is added to that replica's next gradient (error feedback: Seide et al., 2014; Karimireddy et al., 2019).
 * F16: elements are rounded to halves, and sums too. TOP_K: the `fraction` of the elements, rounded up, that have the
 * largest absolute values (Lin et al., "Deep gradient compression", 2018), as pairs of index and value. F16_BETWEEN:
 * the devices of a process add up whole gradients, and the processes of a run halves of these sums; what rounding
 * leaves out is lost. With strategies mirrored and pipeline, also with a sharded optimizer; one process has nothing to
 * round. Halves reach from 6e-8 to 65504. The order is part of the binary interface: add at the end. */
typedef enum clq_compression_kind {
    CLQ_COMPRESSION_OFF,
    CLQ_COMPRESSION_F16,
    CLQ_COMPRESSION_TOP_K,
    CLQ_COMPRESSION_F16_BETWEEN
} clq_compression_kind;
typedef struct clq_compression {
    clq_compression_kind kind;
    double fraction; /* TOP_K: above 0, at most 1 */
    double reserved[2]; /* 0 */
} clq_compression;

enum { CLQ_ACCUMULATE_MAX = 65536 }; /* batches of one update in clq_fit */
enum { CLQ_STALENESS_MAX = 65536 };
/* Settings of strategies. 0 is the default of each member, except of staleness. Settings that do not go together, or
 * not with the strategy, are refused by clq_trainer_create (ARGUMENT). The size of this struct never changes: new
 * members take their room from `reserved`. */
typedef struct clq_strategy_options {
    uint64_t accumulate;         /* clq_fit: batches of the dataset that make one update, up to CLQ_ACCUMULATE_MAX; its
                                    gradient is the mean over all their samples. The last update of an epoch may
                                    have fewer batches. 0: 1 */
    clq_shares_kind shares;      /* MIRRORED */
    uint32_t share_count;        /* how many share_weights there are */
    const double *share_weights; /* (share_count), for WEIGHTS: one for each replica, finite, at least 0, with a sum
                                    above 0. Borrowed while the trainer is created */
    uint32_t shard_optimizer; /* MIRRORED: 0 or 1. 1: each of n replicas keeps the optimizer's state of one n-th of the
                                 parameters, updates these, and gets the other parameters from the replicas that
                                 updated them (ZeRO stage 1: Rajbhandari et al., 2020) */
    int32_t staleness; /* PS: how many other updates at most are made between a replica's read of the parameters and the
                          update by its gradient, up to CLQ_STALENESS_MAX; 0: synchronous;
                          clq_trainer_config_default sets 4 */
    uint32_t backup;   /* PS with staleness 0: backup replicas. An update does not wait for this many replicas, the
                          slowest (Chen et al., 2016) */
    /* PIPELINE. stages: devices of one pipeline, a divisor of the number of devices; several pipelines are mirrored. 0:
     * one pipeline of all devices. micro_batches: how many a pipeline's share of a batch is cut into. 0: four for each
     * stage, of at least 4 samples each. */
    uint32_t stages, micro_batches;
    uint32_t unused;             /* 0 */
    clq_compression compression; /* MIRRORED. With one replica nothing is exchanged */
    uint64_t local_steps; /* MIRRORED: each replica makes this many updates by the gradient of its own share, with
                             an optimizer of its own; then the weights are averaged (local SGD: Stich, "Local
                             SGD converges fast and communicates little", 2019). 0: gradients are exchanged in
                             each step. Not with compression, accumulate, shares AUTO or shard_optimizer */
    double reserved[21];  /* 0 */
} clq_strategy_options;

/* Operations have several kernel variants, and tiles of several shapes; which are the fastest on a device can be
 * measured, once, and is kept beside its built kernels, by device, driver and version of Clique. What is kept is
 * used by all later plans, so that each run computes the bits of the one before it. */
typedef enum clq_tuning {
    CLQ_TUNING_OFF,   /* measure nothing; what is kept is used, else rules decide */
    CLQ_TUNING_QUICK, /* what is not kept yet, for at most 2 s per kind of device; what is left then keeps its rule */
    CLQ_TUNING_FULL   /* everything, anew */
} clq_tuning;

/* Recomputation (gradient checkpointing): activations that forward computes and backward needs take memory from the one
 * to the other, or are computed a second time in backward. It changes no bit of losses, gradients and weights. */
typedef enum clq_recompute_kind {
    CLQ_RECOMPUTE_OFF,  /* only what the model marks (clq_recompute) */
    CLQ_RECOMPUTE_AUTO, /* as little as makes the training fit each device's memory limit; none where all fits */
    CLQ_RECOMPUTE_ALL   /* so that activations take the least memory that can be found */
} clq_recompute_kind;

/* Which samples each process of a training over several takes; the order is part of the binary interface. Names are
 * those of tf.data's AutoShardPolicy. */
typedef enum clq_shard {
    CLQ_SHARD_DATA, /* all have the same set, and each takes its part of each batch: as one process with all devices */
    CLQ_SHARD_FILE, /* each has a set of its own, and takes its part of each batch from it */
    CLQ_SHARD_OFF   /* all have the same set, and each takes its part from all of it, in its own order */
} clq_shard;

/* How exact products of float32 matrices are, where a device has faster units for numbers of fewer bits; sums are
 * float32 always. HIGHEST: as float32; HIGH: factors may be rounded to TF32 (10 bits behind the point); MEDIUM: to
 * bfloat16 (7). */
typedef enum clq_matmul_precision { CLQ_MATMUL_HIGHEST, CLQ_MATMUL_HIGH, CLQ_MATMUL_MEDIUM } clq_matmul_precision;

/* The type of the values that a step computes for each sample: activations and their gradients. Arithmetic
 * is float32, and so are weights, optimizer state, gradients of variables, sums, statistics and losses (Micikevicius et
 * al., "Mixed precision training", 2018).
 * F32: float32. MIXED: float16, with a loss scale. MIXED_BF16: bfloat16, which has float32's range and needs none. The
 * order is part of the binary interface: add at the end. */
typedef enum clq_precision { CLQ_PRECISION_F32, CLQ_PRECISION_MIXED, CLQ_PRECISION_MIXED_BF16 } clq_precision;

/* Seconds that steps spent in the exchange of gradients, and the part of them that did not overlap with backward. */
typedef struct clq_comm_times {
    double total_s, exposed_s;
    double reserved[2]; /* 0 */
} clq_comm_times;

#ifdef __cplusplus
}
#endif
#endif
