/* ops: operations as launches. An operation turns a problem (shapes, attributes) and values (names for memory)
 * into launches in a launch list (launch/launch.h), by the variant that the list selects for the device and the shape.
 *
 * The batch is a number: a list is made for a capacity, and runs any count from 0 up to it. Kernels get the count
 * as an argument, touch no row beyond it, and sums over 0 examples write zeros. Work that grows with the batch is
 * launched for the count, not for the capacity. Shapes below leave the batch out: (h, w, c) is one example.
 *
 * Layouts (Keras's): activations NHWC, convolution kernels (kh, kw, in, out), Dense (in, out). float32.
 * Every sum has one fixed order for one count, list and device: results are bitwise repeatable. */
#ifndef CLQ_OPS_H
#define CLQ_OPS_H

#include "launch/launch.h"
#include "ops/attention.h"
#include "ops/losses.h"
#include "ops/recurrent.h"
#include "ops/updates.h"

/* ---- products: Dense and Conv2D (product.c picks tile, local or CLBlast; dense.c, conv2d.c) ---- */

typedef struct clq_dense_problem {
    size_t in, out;
    clq_activation activation; /* not softmax */
    size_t rows_per_example;   /* 1 unless the input has more than one axis: (r, in) -> (r, out) */
    bool adds;                 /* of backward: dw is added up as of clq_accumulate, not overwritten */
} clq_dense_problem;
/* y = act(x w + b). x (rows, in), w (in, out), b (out) or none, y (rows, out). */
void clq_dense_forward(clq_list *list, const clq_dense_problem *p, clq_value x, clq_value w, clq_value b, clq_value y);
/* From dz, the gradient before the activation: dx = dz w^T, dw = x^T dz; either may
 * be none. dw is overwritten, unless p->adds. */
void clq_dense_backward(clq_list *list, const clq_dense_problem *p, clq_value x, clq_value w, clq_value dz,
                        clq_value dx, clq_value dw);

typedef struct clq_conv2d_problem {
    size_t in_h, in_w, in_c, out_h, out_w, out_c;
    size_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    size_t pad_top, pad_left;  /* zeros in front; those behind follow from the output size */
    clq_activation activation; /* not softmax */
    bool adds;                 /* of backward, as of clq_dense_problem */
} clq_conv2d_problem;
/* Cross-correlation as in Keras. x (in_h, in_w, in_c), w (kh, kw, in_c, out_c), b (out_c) or none. */
void clq_conv2d_forward(clq_list *list, const clq_conv2d_problem *p, clq_value x, clq_value w, clq_value b,
                        clq_value y);
void clq_conv2d_backward(clq_list *list, const clq_conv2d_problem *p, clq_value x, clq_value w, clq_value dz,
                         clq_value dx, clq_value dw);

/* A convolution whose channels are in groups (grouped.c): filter f reads the channels of group f / (out_c / groups)
 * alone. Of depthwise ones there are as many groups as channels. w (kh, kw, in_c / groups, out_c), which is also
 * (kh, kw, in_c, multiplier) of a depthwise one. `adds` is not looked at. */
typedef struct clq_grouped_problem {
    clq_conv2d_problem conv;
    size_t groups; /* divides in_c and out_c */
} clq_grouped_problem;
void clq_grouped_forward(clq_list *list, const clq_grouped_problem *p, clq_value x, clq_value w, clq_value b,
                         clq_value y);
void clq_grouped_backward(clq_list *list, const clq_grouped_problem *p, clq_value x, clq_value w, clq_value dz,
                          clq_value dx, clq_value dw);

/* C (m, n) = op(A) op(B), row-major, for bench and doctor: lists with capacity 1 and count 1. A and B lie transposed
 * where the flags say so. */
typedef struct clq_gemm_problem {
    size_t m, n, k;
    bool transpose_a, transpose_b;
} clq_gemm_problem;
void clq_gemm(clq_list *list, const clq_gemm_problem *p, clq_value a, clq_value b, clq_value c);

/* ---- elementwise programs (elementwise.c)
 * One launch computes a small program for each element of values of one shape: it takes the inputs' elements, goes
 * through instructions, and stores registers in outputs; sums over rows of a register may be taken on the way. A
 * device's program is built for each structure (all but numbers, shapes and seeds). ---- */

/* What an instruction makes of registers a, b and c. The activations and their slopes are those of all kernels
 * (cl/prelude.cl), to the same bits. cl/elementwise.cl has the operations by these numbers. */
typedef enum clq_element_op {
    CLQ_ELEMENT_INPUT,    /* input number a, not a register */
    CLQ_ELEMENT_CONSTANT, /* number */
    CLQ_ELEMENT_ADD,
    CLQ_ELEMENT_SUBTRACT, /* a - b */
    CLQ_ELEMENT_MULTIPLY,
    CLQ_ELEMENT_MAXIMUM, /* NaN where a or b is */
    CLQ_ELEMENT_MINIMUM, /* the same */
    CLQ_ELEMENT_NEGATE,
    CLQ_ELEMENT_SQUARE,
    CLQ_ELEMENT_SCALE, /* a * number */
    CLQ_ELEMENT_RELU,
    CLQ_ELEMENT_SIGMOID,
    CLQ_ELEMENT_TANH,
    CLQ_ELEMENT_RELU_SLOPE,    /* b times the activation's derivative where its result is a: relu' = 1 where a > 0, */
    CLQ_ELEMENT_SIGMOID_SLOPE, /* a (1 - a), */
    CLQ_ELEMENT_TANH_SLOPE,    /* 1 - a^2 */
    CLQ_ELEMENT_GREATER,       /* 1 where a > b, else 0 */
    CLQ_ELEMENT_AT_LEAST,      /* a >= b */
    CLQ_ELEMENT_EQUAL,
    CLQ_ELEMENT_SELECT,  /* b where a is not 0, else c */
    CLQ_ELEMENT_DROPOUT, /* a / (1 - number) where the element stays, else 0 (clq_dropout_words); 0 <= number < 1 */
    CLQ_ELEMENT_MISH,
    CLQ_ELEMENT_MISH_SLOPE, /* b times mish's derivative at a */
    CLQ_ELEMENT_SOFTPLUS,   /* log(1 + exp(a)) */
    CLQ_ELEMENT_SOFTPLUS_SLOPE,
    CLQ_ELEMENT_DIVIDE, /* a / b */
    CLQ_ELEMENT_EXP,
    CLQ_ELEMENT_EXPM1, /* exp(a) - 1 */
    CLQ_ELEMENT_LOG,
    CLQ_ELEMENT_LOG1P, /* log(1 + a) */
    CLQ_ELEMENT_SQRT,
    CLQ_ELEMENT_ABS,
    CLQ_ELEMENT_SIGN, /* -1, 0 or 1; 0 of NaN */
    CLQ_ELEMENT_ERF,
    CLQ_ELEMENT_SIN,
    CLQ_ELEMENT_COS,
    CLQ_ELEMENT_POWER,  /* a to the power of number */
    CLQ_ELEMENT_NORMAL, /* a random number with mean 0 and deviation 1 (clq_dropout_words) */
    CLQ_ELEMENT_OPS
} clq_element_op;

typedef struct clq_instruction {
    clq_element_op op;
    unsigned a, b, c; /* registers of instructions before; those that the operation has */
    double number;    /* CONSTANT, SCALE, POWER: a float; DROPOUT: the rate */
    uint32_t stream;  /* DROPOUT, NORMAL: tells those with one seed apart, below 2^24; a layer's number */
} clq_instruction;

/* What an input has for an element. */
typedef enum clq_element_kind {
    CLQ_EACH_ELEMENT,           /* elements per sample; f32, f16, bf16, or u8 as 0 to 255 */
    CLQ_EACH_CHANNEL,           /* (rows, channels): row `row`, repeated; f32, f16 or bf16 */
    CLQ_ONE_FOR_ALL,            /* one f32 */
    CLQ_EACH_SAMPLE_AND_CHANNEL /* channels per sample, repeated over the sample's rows; f32 */
} clq_element_kind;

enum {
    CLQ_ELEMENT_INPUTS = 6,
    CLQ_ELEMENT_OUTPUTS = 3,
    CLQ_ELEMENT_SUMS = 2,
    CLQ_ELEMENT_INSTRUCTIONS = 24,
    CLQ_ELEMENT_WORDS = 24 /* one for a number; for a dropout three, and for all two for the seed, two for the slice */
};
typedef struct clq_element_program {
    struct clq_element_input {
        clq_element_kind kind;
        clq_dtype dtype;
        unsigned row; /* EACH_CHANNEL */
    } inputs[CLQ_ELEMENT_INPUTS];
    clq_instruction instructions[CLQ_ELEMENT_INSTRUCTIONS]; /* number i makes register i */
    struct clq_element_output {
        unsigned from;   /* the register that is stored */
        clq_dtype dtype; /* f32, f16 or bf16; sums are of what is not rounded yet */
    } outputs[CLQ_ELEMENT_OUTPUTS];
    unsigned sums[CLQ_ELEMENT_SUMS]; /* the register that each adds up */
    size_t input_count, instruction_count, output_count, sum_count;
    uint64_t seed; /* of its dropouts */
    /* Where the rows are slices of longer ones, `channels` from `first` on of `whole`: dropouts go by an element's
     * number among those of the longer rows. whole 0: they are whole. */
    struct clq_element_slice {
        size_t whole, first;
    } slice;
} clq_element_program;

/* Appends an instruction, or an input and the instruction that takes it; the register. There must be room. */
unsigned clq_element_do(clq_element_program *p, clq_instruction instruction);
unsigned clq_element_take(clq_element_program *p, struct clq_element_input input);
bool clq_element_is_random(clq_element_op op);
bool clq_element_program_is_random(const clq_element_program *p);
/* How many of an instruction's a, b and c are registers. */
unsigned clq_element_operands(clq_element_op op);
/* Kernel arguments that hold a program's numbers: at most CLQ_ELEMENT_WORDS. */
size_t clq_element_words(const clq_element_program *p);
/* Whether a program keeps to the numbers above, and reads registers that were made before. */
bool clq_element_program_fits(const clq_element_program *p);

/* The values of a launch. Samples of `elements` elements, rows of `channels` that they are a multiple of. */
typedef struct clq_element_values {
    size_t elements, channels;
    bool whole; /* the values have no samples (weights): `elements` in all, whatever the count is. Not with dropout */
    clq_value inputs[CLQ_ELEMENT_INPUTS];
    clq_value outputs[CLQ_ELEMENT_OUTPUTS]; /* each may be an input's value of its type and kind EACH_ELEMENT */
    clq_value sums[CLQ_ELEMENT_SUMS];       /* (channels) f32, of all rows of the count; overwritten */
} clq_element_values;
/* Runs the program in one launch; with sums mostly a second one, which adds parts up. The order of the sums is fixed by
 * the device, the capacity and the shapes. Runs of at most 64 rows are added as they are, and these sums with
 * compensation (Knuth's two-sum), so rounding errors do not grow with the count. */
void clq_elementwise(clq_list *list, const char *label, const clq_element_program *p, const clq_element_values *v);

/* Dropout as in Keras: at a rate r an element stays with probability 1 - r, and is then divided by 1 - r. Whether it
 * stays is a function of the seed, the stream (layer), CLQ_PARAM_STEP, the sample's place in the global batch
 * (CLQ_PARAM_FIRST_ROW + its row here) and the element's number: nothing is stored, and replicas that split a batch, or
 * rows (.slice), at any place drop what one device would drop. It stays where its word is at least the threshold. The
 * word is number element % 4 of the Philox4x32-10 block with the seed as key and the counter (element / 4, place, step,
 * CLQ_RANDOM_DROPOUT << 24 | stream), lowest word first. NORMAL makes of such a word w what a normal distribution
 * exceeds with probability v = (w mod 2^31 + 1/2) / 2^32; its negative if w is 2^31 or more. */
typedef struct clq_dropout_words {
    uint32_t threshold; /* rate * 2^32, rounded */
    float scale;        /* 1 / (1 - rate) */
} clq_dropout_words;
clq_dropout_words clq_dropout_words_of(double rate);

/* ---- activations (activations.c) ---- */

/* A row of the table of activations. */
typedef struct clq_activation_row {
    const char *name; /* Keras's */
    /* What computes it, and what takes a gradient through it. CLQ_ELEMENT_INPUT for linear, for softmax, which is no
     * function of one element, and for what is made of several instructions. */
    clq_element_op op, slope;
    bool slope_of_input; /* the slope's instruction takes what the activation was given; else its result */
    /* Appends the instructions that make it of register x; its register. Its derivative is theirs. NULL: it is `op`. */
    unsigned (*build)(clq_element_program *p, unsigned x);
} clq_activation_row;
/* NULL: there is no such activation. */
const clq_activation_row *clq_activation_row_of(clq_activation activation);
bool clq_activation_named(const char *name, clq_activation *out); /* by Keras's other names, too */
/* Appends what makes the activation of register x: its register, x itself if it is linear. Not softmax. There must be
 * room for CLQ_ACTIVATION_INSTRUCTIONS. */
enum { CLQ_ACTIVATION_INSTRUCTIONS = 8 };
unsigned clq_activation_do(clq_element_program *p, clq_activation activation, unsigned x);
/* The same of those that have a number: x above 0, else slope * x; x above 0, else alpha (exp(x) - 1). */
unsigned clq_leaky_relu_do(clq_element_program *p, double slope, unsigned x);
unsigned clq_elu_do(clq_element_program *p, double alpha, unsigned x);
/* Whether the kernels of products, convolutions and poolings apply it to what they store. They keep its result alone,
 * so its slope has to be known from that. */
bool clq_activation_joins(clq_activation activation);

/* ---- softmax (softmax.c) ---- */

/* y = softmax(x) over rows of `channels`; `elements` per sample. x and y may be one value. */
void clq_softmax_forward(clq_list *list, size_t elements, size_t channels, clq_value x, clq_value y);
/* dx = y * (dy - sum(dy * y)) per row, and, unless none, db (channels) = the sums of dx over all rows. dx may be dy's
 * own value, or none. */
void clq_softmax_backward(clq_list *list, size_t elements, size_t channels, clq_value y, clq_value dy, clq_value dx,
                          clq_value db);

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

/* ---- normalisation of rows by themselves (row_norm.c): layer normalisation (Ba, Kiros and Hinton, 2016), group
 * normalisation (Wu and He, 2018), root mean square normalisation (Zhang and Sennrich, 2019) ---- */

/* A sample is (outer, positions, groups, width). A row, of `positions` runs of `width` numbers, is what one place of
 * `outer` and one group have; factors and summands are by channel (groups * width). y = (x - mean) / sqrt(variance +
 * epsilon) * gamma + beta, with the (biased) variance; not `centred`: x / sqrt(mean of squares + epsilon) and so on. */
typedef struct clq_row_norm_problem {
    size_t outer, positions, groups, width;
    bool centred;
    double epsilon;
} clq_row_norm_problem;
size_t clq_row_norm_rows(const clq_row_norm_problem *p); /* of a sample */
/* statistics (rows, 2), for backward: the mean, 1 / sqrt(variance + epsilon); may be none, as gamma and beta. */
void clq_row_norm_forward(clq_list *list, const clq_row_norm_problem *p, clq_value x, clq_value gamma, clq_value beta,
                          clq_value y, clq_value statistics);
/* Each of dx, dgamma and dbeta may be none. */
void clq_row_norm_backward(clq_list *list, const clq_row_norm_problem *p, clq_value x, clq_value dy,
                           clq_value statistics, clq_value gamma, clq_value dx, clq_value dgamma, clq_value dbeta);

/* ---- products of small matrices, many for each sample (batched.c) ---- */

/* C (m, n) = scale * A (m, k) B (k, n), for counts[0] * counts[1] matrices of each sample. c.column is 1. */
typedef struct clq_batched_problem {
    size_t counts[2], m, n, k;
    clq_batched_matrix a, b, c;
    float scale;
} clq_batched_problem;
void clq_batched(clq_list *list, const clq_batched_problem *p, clq_value a, clq_value b, clq_value c);
clq_batched_matrix clq_batched_transposed(clq_batched_matrix matrix);
double clq_batched_flops(const clq_batched_problem *p); /* of a sample */

/* ---- rows of a table by number (gather.c) ---- */

/* x (tokens): whole numbers from 0 to rows - 1; others are taken for the nearest of these. y (tokens, width). */
typedef struct clq_gather_problem {
    size_t tokens, rows, width;
} clq_gather_problem;
void clq_gather(clq_list *list, const clq_gather_problem *p, clq_value x, clq_value table, clq_value y);
/* dtable (rows, width): of each row the sum of dy over its tokens, in their order; zeros of the others. */
void clq_gather_gradient(clq_list *list, const clq_gather_problem *p, clq_value x, clq_value dy, clq_value dtable);

/* ---- values taken from other places (arrange.c): padding, slices with steps, transposes ---- */

enum { CLQ_ARRANGED_AXES = 6 };
/* Of y (out, …), which are axes of x in any order, each once: place p along one takes place (first + p * step) / spread
 * of x's, if that is whole and below `in`, else 0. step is not 0, spread at least 1. */
typedef struct clq_arranged_axis {
    size_t out, in;
    size_t pitch; /* numbers from one place of x to the next */
    long first, step, spread;
} clq_arranged_axis;
typedef struct clq_arrangement {
    unsigned rank;
    clq_arranged_axis axes[CLQ_ARRANGED_AXES];
} clq_arrangement;
/* x as it is. */
clq_arrangement clq_arrangement_of(unsigned rank, const size_t *sizes);
/* Of the gradient: what x's places were taken for. */
clq_arrangement clq_arrangement_back(const clq_arrangement *a);
size_t clq_arrangement_elements(const clq_arrangement *a); /* of y */
/* once: x and y are not of samples, as weights are not. */
void clq_arrange(clq_list *list, const clq_arrangement *a, size_t x_elements, bool once, clq_value x, clq_value y);

/* ---- images with their places moved by a rule that each sample draws (warp.c): bilinear, or `nearest` ---- */

/* By draws (4) of a sample, from 0 to 1, d in [ranges[0]] by the first, e in [ranges[1]] by the second:
 *   FLIP    if the first draw is at most 0.5: along the width (flags & 1), along the height (flags & 2)
 *   TURN    about the middle, d whole turns
 *   ZOOM    about the middle, a place is 1 + d as far away, along the width 1 + e (flags & 1) or 1 + d
 *   SHIFT   d heights down, e widths to the right
 *   CROP    from row floor(d), column floor(e) on */
typedef enum clq_warp_kind { CLQ_WARP_FLIP, CLQ_WARP_TURN, CLQ_WARP_ZOOM, CLQ_WARP_SHIFT, CLQ_WARP_CROP } clq_warp_kind;
/* What is beyond an edge: `value`; what is at the edge; what is as far within; what is at the other side. */
typedef enum clq_warp_fill { CLQ_FILL_VALUE, CLQ_FILL_EDGE, CLQ_FILL_REFLECTED, CLQ_FILL_WRAPPED } clq_warp_fill;
typedef struct clq_warp_problem {
    clq_warp_kind kind;
    clq_warp_fill fill;
    bool nearest;
    size_t height, width, channels, out_height, out_width;
    double ranges[2][2];
    unsigned flags;
    double value;
} clq_warp_problem;
/* x (height, width, channels), draws (4), y (out_height, out_width, channels). */
void clq_warp(clq_list *list, const clq_warp_problem *p, clq_value x, clq_value draws, clq_value y);

/* ---- batch normalisation (normalise.c)
 * Over the last axis, as in Keras (Ioffe and Szegedy, 2015): y = gamma (x - mean) / sqrt(variance + epsilon) + beta,
 * where mean and variance (biased) are of a channel in all rows of the batch. gamma and beta (channels) may be none. In
 * training a step has six parts, and between them replicas may add up what they have, so that mean and variance are of
 * the global batch:
 *   moments, [sum of moments over the ranks], statistics, forward;
 *   gradients, corrections, [sum of corrections], backward.
 * A count of 0 has moments, gradients and corrections of zeros. x, y, dy and dx are f32, f16 or bf16; what is by
 * channel is f32. ---- */

typedef struct clq_normalise_problem {
    size_t positions, channels; /* a sample is (positions, channels) */
    double epsilon, momentum;   /* of the moving statistics: what stays of them in a step */
} clq_normalise_problem;

enum {
    CLQ_MOMENTS_ROWS = 3,    /* count * positions; mean; sum of squares about the mean */
    CLQ_STATISTICS_ROWS = 4, /* mean; 1 / sqrt(variance + epsilon); gamma times that; 1 / (count * positions) */
    CLQ_CORRECTIONS_ROWS = 2 /* dbeta / n; dgamma / sqrt(variance + epsilon) / n */
};

/* moments (ranks, CLQ_MOMENTS_ROWS, channels): the rows of `rank`, and zeros in those of the others. x is read once:
 * sums (as of clq_elementwise) of the differences to its first row and of their squares. So the variance's rounding
 * error is that of floats times 1 + ((first - mean) / deviation)^2, however large the mean is. */
void clq_normalise_moments(clq_list *list, const clq_normalise_problem *p, clq_value x, unsigned rank, unsigned ranks,
                           clq_value moments);
/* statistics (CLQ_STATISTICS_ROWS, channels) from all ranks' moments, joined in their order (Chan, Golub and LeVeque,
 * 1983). moving_mean, moving_variance (channels): moving = moving * momentum + batch's * (1 - momentum), the same bits
 * from the same moments on every device. Where no rank has a sample, statistics are zeros and the moving ones stay. */
void clq_normalise_statistics(clq_list *list, const clq_normalise_problem *p, clq_value moments, unsigned ranks,
                              clq_value gamma, clq_value moving_mean, clq_value moving_variance, clq_value statistics);
/* For inference, in place of both: statistics from the moving ones (1 / count is 0). */
void clq_normalise_moving(clq_list *list, const clq_normalise_problem *p, clq_value gamma, clq_value moving_mean,
                          clq_value moving_variance, clq_value statistics);
/* y = (x - mean) * scale + beta. y may be x's value. */
void clq_normalise_forward(clq_list *list, const clq_normalise_problem *p, clq_value x, clq_value statistics,
                           clq_value beta, clq_value y);
/* dgamma = the sum of dy (x - mean) / sqrt(variance + epsilon), dbeta = that of dy, over this run's rows: both are
 * written (channels), also where the layer has no such weights, since dx needs them. */
void clq_normalise_gradients(clq_list *list, const clq_normalise_problem *p, clq_value x, clq_value dy,
                             clq_value statistics, clq_value dgamma, clq_value dbeta);
/* corrections (CLQ_CORRECTIONS_ROWS, channels): what the gradients of mean and variance take from each row's, where n
 * is of all ranks. They are linear in dgamma and dbeta: the sum over the ranks is that of the global batch. */
void clq_normalise_corrections(clq_list *list, const clq_normalise_problem *p, clq_value statistics, clq_value dgamma,
                               clq_value dbeta, clq_value corrections);
/* dx = gamma / sqrt(variance + epsilon) * (dy - dbeta / n - (x - mean) / sqrt(variance + epsilon) * dgamma / n), by the
 * corrections of all ranks. dx may be dy's or x's value. */
void clq_normalise_backward(clq_list *list, const clq_normalise_problem *p, clq_value x, clq_value dy,
                            clq_value statistics, clq_value corrections, clq_value dx);

/* ---- slices of channels (copy.c): concatenation and its gradient ---- */

/* A part of a sample's rows: `channels` of each row of `width`, from `offset` on. */
typedef struct clq_slice_of_channels {
    size_t width, offset;
} clq_slice_of_channels;
/* Copies channels [from.offset, from.offset + channels) of x's rows to [to.offset, …) of y's: x (rows, from.width), y
 * (rows, to.width), whose other channels stay as they are. Another axis than the last is the last one, once those
 * behind it are taken as one with it. */
void clq_copy_channels(clq_list *list, size_t rows, size_t channels, clq_slice_of_channels from,
                       clq_slice_of_channels to, clq_value x, clq_value y);

/* ---- convolution, activation and max pooling in one (conv_pool.c) ---- */

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
bool clq_conv_pool_is_padded(const clq_conv_pool_problem *p); /* whether frames are a copy */
void clq_conv_pool_forward(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value w, clq_value b,
                           clq_value y, clq_value winner);
/* From dz (pool.out, channels), the gradient before the activation of what won: as clq_conv2d_backward. */
void clq_conv_pool_backward(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value x, clq_value w,
                            clq_value dz, clq_value winner, clq_value dx, clq_value dw);

/* ---- repeats (repeat.c) ---- */

/* Of each sample x is (outer, inner) and y (outer, repeats, inner). */
typedef struct clq_repeat_problem {
    size_t outer, repeats, inner;
    float scale;
} clq_repeat_problem;
/* y[o][r][i] = scale * x[o][i]. */
void clq_repeat(clq_list *list, const clq_repeat_problem *p, clq_value x, clq_value y);
/* x[o][i] = scale * the sum of y[o][r][i] over r: in blocks of 16, first to last. */
void clq_reduce_axis(clq_list *list, const clq_repeat_problem *p, clq_value y, clq_value x);

/* ---- input (input.c) ---- */

/* y = (float)x * factor, u8 to f32, f16 or bf16, `elements` per example. */
void clq_input_u8(clq_list *list, size_t elements, float factor, clq_value x, clq_value y);

#endif
