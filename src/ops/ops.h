/* ops: operations as launches. An operation turns a problem (shapes, attributes) and values (names for memory)
 * into launches in a launch list; it chooses among its variants by device and shape. Nothing runs here until the
 * list has been placed (graph gives every value its memory), bound (kernels built, arguments set) and run.
 *
 * The batch is a number: a list is made for a capacity, and runs any count from 0 up to it. Kernels get the count
 * as an argument, touch no row beyond it, and sums over 0 examples write zeros. Work that grows with the batch is
 * launched for the count, not for the capacity. Shapes below leave the batch out: (h, w, c) is one example.
 *
 * Layouts (Keras's): activations NHWC, convolution kernels (kh, kw, in, out), Dense (in, out). float32.
 * Every sum has one fixed order for one count, list and device: results are bitwise repeatable. */
#ifndef CLQ_OPS_H
#define CLQ_OPS_H

#include "device/device.h"

/* ---- launch lists (list.c) ---- */

typedef struct clq_list clq_list;

/* Memory that launches read and write, before it has a place. 0 is none. */
typedef uint32_t clq_value;
enum { CLQ_NO_VALUE = 0 };

/* Where a value lives. SCRATCH and ACTIVATION values share one arena by lifetime (first to last launch that uses
 * them); the others are given a buffer by the caller (clq_list_place). */
typedef enum clq_value_kind { CLQ_VALUE_ACTIVATION, CLQ_VALUE_SCRATCH, CLQ_VALUE_EXTERNAL } clq_value_kind;

/* Parameters of a step: 4-byte kernel arguments that change between runs of a list. */
typedef enum clq_param {
    CLQ_PARAM_COUNT, /* int: examples in this run */
    CLQ_PARAM_SCALE, /* float: 1 / global count, the weight of one example's loss */
    CLQ_PARAM_SLOT,  /* int: which row of the metrics buffer this step writes */
    CLQ_PARAM_RATE,  /* float: learning rate, or Adam's bias-corrected rate */
    CLQ_PARAM_COUNT_OF
} clq_param;

/* What a launch does with a value. Memory of the arena is of use to nobody before a launch has written it. */
typedef enum clq_access { CLQ_READS = 1, CLQ_WRITES = 2, CLQ_READS_WRITES = 3 } clq_access;

/* A list for one device and at most `capacity` examples. Adding latches the first failure (clq_list_status). */
clq_status clq_list_create(clq_device *device, uint32_t capacity, clq_list **out);
void clq_list_destroy(clq_list *list); /* takes NULL; before the buffers that its values were placed in */
clq_status clq_list_status(const clq_list *list);
clq_device *clq_list_device(const clq_list *list);
uint32_t clq_list_capacity(const clq_list *list);
/* The kernel family that operations use: the device's (clq_device_family) unless set. Tests force each. Before the
 * first operation. */
void clq_list_set_family(clq_list *list, clq_kernel_family family);
clq_kernel_family clq_list_family(const clq_list *list);

/* bytes = fixed + capacity * per_example. The name is copied; shown by clique plan. */
clq_value clq_list_value(clq_list *list, clq_value_kind kind, const char *name, size_t fixed_bytes,
                         size_t bytes_per_example);
/* What follows belongs to this layer, in tables and messages ("conv2d_1"); copied. */
void clq_list_scope(clq_list *list, const char *scope);

/* A launch is built by these calls in order: begin, arguments (in the kernel's order), work, cost. */
void clq_launch_begin(clq_list *list, const char *label /* "forward" */, const char *file, const char *options,
                      const char *function);
void clq_launch_value(clq_list *list, clq_value value,
                      clq_access access); /* NO_VALUE: a placeholder that the kernel leaves alone */
/* A part of a value, at a byte offset that is a multiple of clq_device_view_align. */
void clq_launch_value_at(clq_list *list, clq_value value, size_t offset, size_t bytes, clq_access access);
void clq_launch_int(clq_list *list, int value);
void clq_launch_float(clq_list *list, float value);
void clq_launch_param(clq_list *list, clq_param param);
void clq_launch_zeros(clq_list *list, size_t bytes); /* memory to read at least this many zero bytes from */
void clq_launch_local(clq_list *list, size_t bytes);
/* Global and local sizes for a full batch; local NULL leaves it to the driver (tile kernels pass {1,1,1}). If
 * batch_dim >= 0, that dimension is in fact local * ceil(count * rows_per_example / rows_per_group), its value in
 * `global` being ignored; with a count of 0 the launch is skipped. */
void clq_launch_work(clq_list *list, uint32_t dims, const size_t *global, const size_t *local, int batch_dim,
                     size_t rows_per_example, size_t rows_per_group);
/* What it costs: arithmetic and memory traffic, fixed and per example. */
void clq_launch_cost(clq_list *list, double flops, double flops_per_example, double bytes, double bytes_per_example);
/* A launch that is a library call (CLBlast): run is called at its place with the count, also with 0; the values it uses
 * are named by clq_launch_value before, with no begin. buffers[i] is the i-th named value's, NO_VALUE's a placeholder.
 * context is freed with clq_free, also where adding fails. */
typedef clq_status (*clq_call)(void *context, clq_queue *queue, uint32_t count, clq_buffer *const *buffers);
void clq_launch_call(clq_list *list, const char *label, clq_call run, void *context);

/* Reading a list, for placing and printing. */
typedef struct clq_launch_info {
    const char *scope, *label, *file, *function, *options; /* file NULL for a call */
    size_t global[3], local[3];                            /* for a full batch */
    uint32_t dims;
    double flops, bytes; /* for a full batch */
} clq_launch_info;
size_t clq_list_launch_count(const clq_list *list);
void clq_list_launch_info(const clq_list *list, size_t index, clq_launch_info *out);
typedef struct clq_value_info {
    const char *name;
    clq_value_kind kind;
    size_t bytes;
    size_t first_use, last_use; /* launch indices; first > last where no launch uses it */
} clq_value_info;
size_t clq_list_value_count(const clq_list *list);
void clq_list_value_info(const clq_list *list, clq_value value, clq_value_info *out);

/* Placing: every value that a launch uses gets a range of a buffer (offset aligned to clq_device_view_align). */
void clq_list_place(clq_list *list, clq_value value, clq_buffer *buffer, size_t offset);
/* Keeps a value out of lifetime sharing beyond its uses: it must survive the whole list (an output). */
void clq_list_keep(clq_list *list, clq_value value);
/* Builds kernels and sets all arguments. After it the list is fixed. */
clq_status clq_list_bind(clq_list *list);
/* Whether binding makes one kernel of all launches where it can (sequence.h): on CPU devices, where nothing else wants
 * the device's cores while it runs: its threads do not sleep while they wait for each other. Before binding. */
void clq_list_set_joined(clq_list *list, bool joined);
bool clq_list_is_joined(const clq_list *list); /* once bound: whether it is one */
/* Another buffer of the same size for an external value that was placed as the whole of one and is read only, between
 * runs: for what arrives in turn in several buffers. It must outlive the launches. */
clq_status clq_list_replace(clq_list *list, clq_value value, clq_buffer *buffer);
/* Two buffers of one size change places, for all values in them, between runs of a list that is one. */
clq_status clq_list_swap(clq_list *list, clq_buffer *a, clq_buffer *b);
void clq_list_set_int(clq_list *list, clq_param param, int value);
void clq_list_set_float(clq_list *list, clq_param param, float value);
/* Enqueues launches [first, end) on an in-order queue of the list's device for COUNT examples. No allocation, no
 * look-up; arguments are touched only where a parameter changed. */
clq_status clq_list_run(clq_list *list, clq_queue *queue, size_t first, size_t end);
/* Launches each kernel once, for a full batch, with all memory zero, and leaves all of it zero: for drivers that
 * compile then. Calls of libraries are left out. Before the list's first use. */
clq_status clq_list_launch_first(clq_list *list, clq_queue *queue);

/* ---- questions (question.c)
 * What can be made in several ways is a question: a text that tells the operation and its shape, and candidates, the
 * first of which a rule took that knows the device's vectors and cores, but has not measured it. An operation asks the
 * list while it is added, and goes by the answer: that of the list's own answers (the tuner's, tests'), else the one
 * that was measured and kept for such devices, their driver and this version of Clique, else the first.
 *
 * Another answer may add in another order. So what was measured counts only once it is kept. ---- */

enum { CLQ_QUESTION_BYTES = 160, CLQ_CANDIDATE_BYTES = 24, CLQ_CANDIDATES_MOST = 12 };
typedef struct clq_question {
    char text[CLQ_QUESTION_BYTES]; /* "weight gradient 784x128, sum of 64" */
    struct clq_candidate {
        char name[CLQ_CANDIDATE_BYTES]; /* "8 x 2 vectors" */
        uint32_t values[2];             /* whatever the operation makes of it */
    } candidates[CLQ_CANDIDATES_MOST];
    size_t count, answer;
    size_t first, end; /* the launches that it is about; end 0: the whole list */
    size_t index;      /* among the list's; SIZE_MAX where it was not noted */
    bool kept;         /* answered by what was measured */
} clq_question;
/* Both are for the asker: the text (what does not fit is left out); a candidate, unless one has its name already or
 * there are too many. */
void clq_question_start(clq_question *question, const char *format, ...) CLQ_PRINTF(2, 3);
void clq_question_add(clq_question *question, uint32_t value0, uint32_t value1, const char *format, ...)
    CLQ_PRINTF(4, 5);
/* A candidate for the list's own answers to force: it is there only where one of them names it. */
void clq_question_add_named(clq_question *question, const clq_list *list, uint32_t value0, uint32_t value1,
                            const char *name);
/* Answers the question and notes it, where it has more than one candidate and is not forced. */
const struct clq_candidate *clq_list_ask(clq_list *list, clq_question *question);
/* The launches that it is about end here. */
void clq_list_end_question(clq_list *list, const clq_question *question);

/* The list's own answers. One whose text ends with '*' forces all questions whose texts begin so: tests and `clique
 * bench` compare variants by it. The first that names a candidate decides; of a text that is whole and names none, the
 * first candidate. */
typedef struct clq_answer {
    char text[CLQ_QUESTION_BYTES], candidate[CLQ_CANDIDATE_BYTES];
} clq_answer;
typedef struct clq_answers {
    const clq_answer *answers;
    size_t count;
    bool by_rule; /* other questions get no kept answer, */
    size_t nth;   /* but candidate `nth`, or the last */
} clq_answers;
/* Borrowed until the last operation is added; NULL: none. Before the first operation. */
void clq_list_set_answers(clq_list *list, const clq_answers *answers);
size_t clq_list_question_count(const clq_list *list);
const clq_question *clq_list_question(const clq_list *list, size_t index);

/* What is kept for devices like this one: a candidate's name; "" where nothing (whole) is. */
clq_status clq_answer_recall(const clq_device *device, const char *question, char candidate[CLQ_CANDIDATE_BYTES]);
bool clq_answers_are_shared(const clq_device *a, const clq_device *b); /* whether what is kept is so for both */
/* In place of what was kept before. Errors: WRITE, MEMORY; STATE where the device has no place to keep things. */
clq_status clq_answer_keep(clq_device *device, const char *question, const char *candidate);

/* ---- products: Dense and Conv2D (product.c picks tile, local or CLBlast; dense.c, conv2d.c) ---- */

typedef struct clq_dense_problem {
    size_t in, out;
    clq_activation activation; /* not softmax */
    size_t rows_per_example;   /* 1 unless the input has more than one axis: (r, in) -> (r, out) */
} clq_dense_problem;
/* y = act(x w + b). x (rows, in), w (in, out), b (out) or none, y (rows, out). */
void clq_dense_forward(clq_list *list, const clq_dense_problem *p, clq_value x, clq_value w, clq_value b, clq_value y);
/* From dz, the gradient before the activation (see clq_activation_backward): dx = dz w^T, dw = x^T dz; either may
 * be none. dw is overwritten. */
void clq_dense_backward(clq_list *list, const clq_dense_problem *p, clq_value x, clq_value w, clq_value dz,
                        clq_value dx, clq_value dw);

typedef struct clq_conv2d_problem {
    size_t in_h, in_w, in_c, out_h, out_w, out_c;
    size_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    size_t pad_top, pad_left;  /* zeros in front; those behind follow from the output size */
    clq_activation activation; /* not softmax */
} clq_conv2d_problem;
/* Cross-correlation as in Keras. x (in_h, in_w, in_c), w (kh, kw, in_c, out_c), b (out_c) or none. */
void clq_conv2d_forward(clq_list *list, const clq_conv2d_problem *p, clq_value x, clq_value w, clq_value b,
                        clq_value y);
void clq_conv2d_backward(clq_list *list, const clq_conv2d_problem *p, clq_value x, clq_value w, clq_value dz,
                         clq_value dx, clq_value dw);

/* Operands that are halves in memory; sums are of floats. */
enum { CLQ_HALF_A = 1, CLQ_HALF_B = 2, CLQ_HALF_C = 4 };

/* C (m, n) = op(A) op(B), row-major, for bench and doctor: lists with capacity 1 and count 1. A and B lie transposed
 * where the flags say so. With halves it is made by kernels for work-groups, on every device. */
typedef struct clq_gemm_problem {
    size_t m, n, k;
    bool transpose_a, transpose_b;
    unsigned halves; /* CLQ_HALF_… */
} clq_gemm_problem;
void clq_gemm(clq_list *list, const clq_gemm_problem *p, clq_value a, clq_value b, clq_value c);

/* How exact products are (HIGHEST unless set). Per list, before the first op. */
void clq_list_set_precision(clq_list *list, clq_matmul_precision precision);
clq_matmul_precision clq_list_precision(const clq_list *list);

/* ---- elementwise (activation.c) ---- */

/* y = act(x) over `elements` per example; softmax over rows of `channels`. x and y may be one value. */
void clq_activation_forward(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value x,
                            clq_value y);
/* dz = dy * act'(z), written in terms of the output y (for softmax: y * (dy - sum(dy * y)) per row), and, unless none,
 * db (channels) = the sums of dz over all rows. dz may be dy's own value. With LINEAR, dz none and db given, only
 * the sums are made. */
void clq_activation_backward(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value y,
                             clq_value dy, clq_value dz, clq_value db);

/* Activations one behind the other: links[0] is applied first. Each is relu, sigmoid or tanh. A program is made for
 * each sequence. */
enum { CLQ_CHAIN_LINKS_MOST = 8 };
typedef struct clq_chain {
    unsigned count; /* 0: what goes in comes out */
    clq_activation links[CLQ_CHAIN_LINKS_MOST];
} clq_chain;
/* y = what the chain makes of x, `elements` per example, in one launch. x and y may be one value. */
void clq_chain_forward(clq_list *list, const clq_chain *chain, size_t elements, clq_value x, clq_value y);
/* As clq_activation_backward, where y = act(z) has gone through the chain as well: dy is the gradient of what came out
 * of that, dz = dy * chain'(y) * act'(z). What was between the links is computed again from y, to the same bits. act is
 * no softmax, unless the chain is empty. */
void clq_chain_backward(clq_list *list, const clq_chain *chain, clq_activation act, size_t elements, size_t channels,
                        clq_value y, clq_value dy, clq_value dz, clq_value db);

/* ---- pooling (pool2d.c) ---- */

typedef struct clq_pool2d_problem {
    size_t in_h, in_w, channels, out_h, out_w;
    size_t size_h, size_w, stride_h, stride_w, pad_top, pad_left;
    bool average;              /* padding is left out of the average's count; a maximum never picks padding */
    clq_activation activation; /* of what is stored; the maximum is chosen before it. Not softmax */
} clq_pool2d_problem;
/* winner: which element of its window each maximum was (u8 where the window has at most 256, else i32; bytes from
 * clq_pool2d_winner_bytes per example; the first of equals wins, as in TensorFlow). None for averages or inference. */
size_t clq_pool2d_winner_bytes(const clq_pool2d_problem *p);
void clq_pool2d_forward(clq_list *list, const clq_pool2d_problem *p, clq_value x, clq_value y, clq_value winner);
/* dx from dy, and from y where there is an activation (else it is left alone, and may be none); gathers; no atomics. */
void clq_pool2d_backward(clq_list *list, const clq_pool2d_problem *p, clq_value y, clq_value dy, clq_value winner,
                         clq_value dx);

/* ---- convolution, activation and max pooling in one (conv_pool.c, conv_pool_backward.c) ---- */

/* pool.in is conv.out; the activation is the convolution's. y, winner: as of the pooling; nothing else of the
 * convolution's output is kept. */
typedef struct clq_conv_pool_problem {
    clq_conv2d_problem conv;
    clq_pool2d_problem pool;
} clq_conv_pool_problem;
/* Whether it can be one: for the tile family, windows of a maximum that do not overlap or reach beyond the
 * convolution's output, few enough places in a window for registers, no dilation, and any other shape. */
bool clq_conv_pool_fits(const clq_list *list, const clq_conv_pool_problem *p);
/* Whether it is known to be faster than the layers one by one: where the output's channels are whole vectors. */
bool clq_conv_pool_pays(const clq_list *list, const clq_conv_pool_problem *p);
/* The images as the others take them: x itself, or where taps reach outside a copy with zeros around. */
clq_value clq_conv_pool_frames(clq_list *list, const clq_conv_pool_problem *p, clq_value x);
void clq_conv_pool_forward(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value w, clq_value b,
                           clq_value y, clq_value winner);
/* From dz (pool.out, channels), the gradient before the activation of what won (clq_activation_backward of the pooled
 * y): as clq_conv2d_backward. */
void clq_conv_pool_backward(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value x, clq_value w,
                            clq_value dz, clq_value winner, clq_value dx, clq_value dw);

/* ---- input (input.c) ---- */

/* y = (float)x * (1/255), u8 to f32, `elements` per example. */
void clq_input_u8(clq_list *list, size_t elements, clq_value x, clq_value y);

/* ---- losses (loss.c)
 * -------------------------------------------------------------------------------------------------- */

typedef struct clq_loss_problem {
    clq_loss_kind kind;
    size_t classes;
    bool from_logits;      /* else x are probabilities: row-normalised, clipped to [1e-7, 1 - 1e-7] as Keras does */
    float label_smoothing; /* categorical only: t * (1 - s) + s / classes */
} clq_loss_problem;
/* Loss, gradient and metrics at once (clq_loss is train.h's type). x (classes) logits or probabilities; labels: i32 (1)
 * where sparse, else f32 (classes). dx = SCALE * dloss/dx unless none; it may be x's own value. metrics: row SLOT of a
 * (slots, 2) f32 buffer gets the sum of the examples' losses and the number of right answers (argmax of x against label
 * or argmax of the target; the first of equals). A count of 0 writes zeros. Labels outside [0, classes) make the loss
 * NaN (the data layer refuses them). */
void clq_cross_entropy(clq_list *list, const clq_loss_problem *p, clq_value x, clq_value labels, clq_value dx,
                       clq_value metrics);

/* ---- updates over flat arenas (update.c), launched once
 * ------------------------------------ */

enum { CLQ_UPDATE_RANKS_MAX = 8 };

/* Flat arenas, and the part of them that is updated. Replicas on the same memory can shard an update: each has a part
 * of its own, adds all gradients there, that of rank 0 first, and writes the new weights where all gradients were;
 * where its own weights were, it leaves the sum. (So weights and gradients have changed places.) */
typedef struct clq_update_arenas {
    clq_value w, g;
    clq_value m, v;                            /* Adam's moments; v: SGD's velocity, NO_VALUE without momentum */
    size_t first, floats;                      /* first: begins a view (clq_device_view_align); at least one float */
    unsigned ranks, rank;                      /* 0 or 1: not sharded. At most CLQ_UPDATE_RANKS_MAX */
    clq_value peers[CLQ_UPDATE_RANKS_MAX - 1]; /* [i]: gradient of rank (rank + 1 + i) % ranks */
} clq_update_arenas;

/* Keras SGD: mu = 0: w -= RATE * g. Else v = mu v - RATE g; w += v, or with nesterov w += mu v - RATE g. */
void clq_update_sgd(clq_list *list, const clq_update_arenas *arenas, float momentum, bool nesterov);
/* Keras Adam: m += (g - m)(1 - b1); v += (g^2 - v)(1 - b2); w -= RATE * m / (sqrt(v) + epsilon), where the caller's
 * RATE is lr * sqrt(1 - b2^t) / (1 - b1^t), in double on the host. */
void clq_update_adam(clq_list *list, const clq_update_arenas *arenas, double beta1, double beta2, double epsilon);
/* out[index] (f32) = sum of squares of x, summed pairwise in a fixed order. */
void clq_square_sum(clq_list *list, size_t floats, clq_value x, size_t offset_bytes, clq_value out, size_t index);

#endif
