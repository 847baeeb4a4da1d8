/* ops: operations as launches. An operation takes a problem (shapes, attributes) and values (names for memory), and
 * adds launches to a launch list (launch/launch.h). The list selects the variant for the device and the shape.
 *
 * The batch is a number: a list is made for a capacity, and runs any count from 0 up to the capacity. Kernels get the
 * count as an argument, and touch no row beyond the count. Sums over 0 examples write zeros. Work that grows with the
 * batch is launched for the count, not for the capacity. Shapes below leave the batch out: (h, w, c) is one example.
 *
 * Layouts (Keras's): activations NHWC, convolution kernels (kh, kw, in, out), Dense (in, out). float32.
 * Every sum has one fixed order for one count, list and device, so results are bitwise repeatable. */
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
    size_t rows_per_example;   /* 1 for an input of one axis; otherwise (r, in) -> (r, out) */
    bool adds;                 /* backward: adds to dw as clq_accumulate does, and does not overwrite dw */
} clq_dense_problem;
/* y = act(x w + b). x (rows, in), w (in, out), y (rows, out). b is (out), or none. */
void clq_dense_forward(clq_list *list, const clq_dense_problem *p, clq_value x, clq_value w, clq_value b, clq_value y);
/* dz is the gradient before the activation. Writes dx = dz w^T and dw = x^T dz. Either may be none. With p->adds, dw is
 * added to, not overwritten. */
void clq_dense_backward(clq_list *list, const clq_dense_problem *p, clq_value x, clq_value w, clq_value dz,
                        clq_value dx, clq_value dw);

typedef struct clq_conv2d_problem {
    size_t in_h, in_w, in_c, out_h, out_w, out_c;
    size_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    size_t pad_top, pad_left;  /* zeros before the input; the output size says how many come after it */
    clq_activation activation; /* not softmax */
    bool adds;                 /* backward: as in clq_dense_problem */
} clq_conv2d_problem;
/* Cross-correlation as in Keras. x (in_h, in_w, in_c), w (kh, kw, in_c, out_c). b is (out_c), or none. */
void clq_conv2d_forward(clq_list *list, const clq_conv2d_problem *p, clq_value x, clq_value w, clq_value b,
                        clq_value y);
void clq_conv2d_backward(clq_list *list, const clq_conv2d_problem *p, clq_value x, clq_value w, clq_value dz,
                         clq_value dx, clq_value dw);

/* A convolution whose channels are in groups (grouped.c): filter f reads only the channels of group f / (out_c /
 * groups). A depthwise convolution has as many groups as input channels. w is (kh, kw, in_c / groups, out_c). For a
 * depthwise convolution, this is the layout (kh, kw, in_c, multiplier), too. `conv.adds` is ignored. */
typedef struct clq_grouped_problem {
    clq_conv2d_problem conv;
    size_t groups; /* divides in_c and out_c */
} clq_grouped_problem;
void clq_grouped_forward(clq_list *list, const clq_grouped_problem *p, clq_value x, clq_value w, clq_value b,
                         clq_value y);
void clq_grouped_backward(clq_list *list, const clq_grouped_problem *p, clq_value x, clq_value w, clq_value dz,
                          clq_value dx, clq_value dw);

/* C (m, n) = op(A) op(B), row-major, for bench and doctor. The list has capacity 1 and runs with count 1. The flags say
 * whether A and B are stored transposed. */
typedef struct clq_gemm_problem {
    size_t m, n, k;
    bool transpose_a, transpose_b;
} clq_gemm_problem;
void clq_gemm(clq_list *list, const clq_gemm_problem *p, clq_value a, clq_value b, clq_value c);

/* ---- elementwise programs (elementwise.c)
 * One launch runs a small program for each element of values of one shape. The program takes the inputs' elements,
 * executes its instructions, and stores registers in outputs. The launch can also sum registers over rows. The device's
 * compiler builds one kernel per program structure, which is everything but numbers, shapes and seeds. ---- */

/* What an instruction computes from registers a, b and c. The activations and their slopes have the same bits as in all
 * other kernels (cl/prelude.cl). cl/elementwise.cl uses these numbers. */
typedef enum clq_element_op {
    CLQ_ELEMENT_INPUT,    /* input number a, not a register */
    CLQ_ELEMENT_CONSTANT, /* number */
    CLQ_ELEMENT_ADD,
    CLQ_ELEMENT_SUBTRACT, /* a - b */
    CLQ_ELEMENT_MULTIPLY,
    CLQ_ELEMENT_MAXIMUM, /* NaN if a or b is NaN */
    CLQ_ELEMENT_MINIMUM, /* the same */
    CLQ_ELEMENT_NEGATE,
    CLQ_ELEMENT_SQUARE,
    CLQ_ELEMENT_SCALE, /* a * number */
    CLQ_ELEMENT_RELU,
    CLQ_ELEMENT_SIGMOID,
    CLQ_ELEMENT_TANH,
    CLQ_ELEMENT_RELU_SLOPE, /* b times the activation's derivative; a is the activation's result. relu' = 1 if a > 0, */
    CLQ_ELEMENT_SIGMOID_SLOPE, /* a (1 - a), */
    CLQ_ELEMENT_TANH_SLOPE,    /* 1 - a^2 */
    CLQ_ELEMENT_GREATER,       /* 1 if a > b, else 0 */
    CLQ_ELEMENT_AT_LEAST,      /* a >= b */
    CLQ_ELEMENT_EQUAL,
    CLQ_ELEMENT_SELECT,  /* b if a is not 0, else c */
    CLQ_ELEMENT_DROPOUT, /* a / (1 - number) if the element stays, else 0 (clq_dropout_words); 0 <= number < 1 */
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
    CLQ_ELEMENT_SIGN, /* -1, 0 or 1; 0 for NaN */
    CLQ_ELEMENT_ERF,
    CLQ_ELEMENT_SIN,
    CLQ_ELEMENT_COS,
    CLQ_ELEMENT_POWER,  /* a to the power of number */
    CLQ_ELEMENT_NORMAL, /* a random number with mean 0 and deviation 1 (clq_dropout_words) */
    CLQ_ELEMENT_OPS
} clq_element_op;

typedef struct clq_instruction {
    clq_element_op op;
    unsigned a, b, c; /* registers of earlier instructions; clq_element_operands says how many are used */
    double number;    /* CONSTANT, SCALE, POWER: a float; DROPOUT: the rate */
    uint32_t stream;  /* DROPOUT, NORMAL: a layer's number, below 2^24; sets layers with one seed apart */
} clq_instruction;

/* Which number of an input an element gets. */
typedef enum clq_element_kind {
    CLQ_EACH_ELEMENT,           /* `elements` per sample; f32, f16, bf16, or u8 as 0 to 255 */
    CLQ_EACH_CHANNEL,           /* (rows, channels): every row of the samples gets row `row`; f32, f16 or bf16 */
    CLQ_ONE_FOR_ALL,            /* one f32 */
    CLQ_EACH_SAMPLE_AND_CHANNEL /* (channels) per sample: every row of the sample gets them; f32 */
} clq_element_kind;

enum {
    CLQ_ELEMENT_INPUTS = 6,
    CLQ_ELEMENT_OUTPUTS = 3,
    CLQ_ELEMENT_SUMS = 2,
    CLQ_ELEMENT_INSTRUCTIONS = 24,
    CLQ_ELEMENT_WORDS = 24 /* a number takes 1, NORMAL 1, DROPOUT 3, the seed 2, the slice 2 */
};
typedef struct clq_element_program {
    struct clq_element_input {
        clq_element_kind kind;
        clq_dtype dtype;
        unsigned row; /* EACH_CHANNEL */
    } inputs[CLQ_ELEMENT_INPUTS];
    clq_instruction instructions[CLQ_ELEMENT_INSTRUCTIONS]; /* instruction i writes register i */
    struct clq_element_output {
        unsigned from;   /* the register to store */
        clq_dtype dtype; /* f32, f16 or bf16; sums add values before this rounding */
    } outputs[CLQ_ELEMENT_OUTPUTS];
    unsigned sums[CLQ_ELEMENT_SUMS]; /* the register that each sum adds up */
    size_t input_count, instruction_count, output_count, sum_count;
    uint64_t seed; /* of DROPOUT and NORMAL */
    /* The rows may be slices of longer rows of `whole` channels: channels [first, first + channels). Random numbers
     * then depend on an element's index in the longer rows. whole 0: the rows are no slices. */
    struct clq_element_slice {
        size_t whole, first;
    } slice;
} clq_element_program;

/* Appends an instruction, or an input with the instruction that takes it. Returns the register. There must be room. */
unsigned clq_element_do(clq_element_program *p, clq_instruction instruction);
unsigned clq_element_take(clq_element_program *p, struct clq_element_input input);
bool clq_element_is_random(clq_element_op op);
bool clq_element_program_is_random(const clq_element_program *p);
/* How many of an instruction's a, b and c are registers. */
unsigned clq_element_operands(clq_element_op op);
/* The number of kernel arguments that hold the program's numbers: at most CLQ_ELEMENT_WORDS. */
size_t clq_element_words(const clq_element_program *p);
/* Whether a program keeps within the limits above, and reads only registers of earlier instructions. */
bool clq_element_program_fits(const clq_element_program *p);

/* The values of a launch. A sample has `elements` elements, in rows of `channels`, which divides `elements`. */
typedef struct clq_element_values {
    size_t elements, channels;
    bool whole; /* weights, not samples: `elements` in all, for any count. Not with random instructions */
    clq_value inputs[CLQ_ELEMENT_INPUTS];
    clq_value outputs[CLQ_ELEMENT_OUTPUTS]; /* each may be an EACH_ELEMENT input's value of the same type */
    clq_value sums[CLQ_ELEMENT_SUMS];       /* (channels) f32, over all rows of the batch; overwritten */
} clq_element_values;
/* Runs the program in one launch. With sums, a second launch usually adds partial sums. The device, the capacity and
 * the shapes fix the order of the sums. Sums are added with compensation (Knuth's two-sum), so rounding errors do not
 * grow with the count. The tile family compensates only between runs of at most 64 rows, and adds the rows of a run
 * plainly. */
void clq_elementwise(clq_list *list, const char *label, const clq_element_program *p, const clq_element_values *v);

/* Dropout as in Keras: at a rate r, an element stays with probability 1 - r, and is then divided by 1 - r. Whether it
 * stays is a function of the seed, the stream (layer), CLQ_PARAM_STEP, the sample's index in the global batch
 * (CLQ_PARAM_FIRST_ROW + its row here) and the element's index in the sample. So nothing is stored, and replicas that
 * split a batch, or rows (.slice), anywhere drop what one device would drop.
 *
 * An element stays if its random word is at least the threshold. The word is number element % 4, lowest first, of a
 * Philox4x32-10 block. The block's key is the seed, and its counter is (element / 4, index in the global batch, step,
 * CLQ_RANDOM_DROPOUT << 24 | stream).
 *
 * NORMAL turns a word w into the number that a normal distribution exceeds with probability v = (w mod 2^31 + 1/2) /
 * 2^32. If w is 2^31 or more, it takes the negative of this number. */
typedef struct clq_dropout_words {
    uint32_t threshold; /* rate * 2^32, rounded */
    float scale;        /* 1 / (1 - rate) */
} clq_dropout_words;
clq_dropout_words clq_dropout_words_of(double rate);

/* ---- activations (activations.c) ---- */

/* A row of the table of activations. */
typedef struct clq_activation_row {
    const char *name; /* Keras's */
    /* The instructions that compute the activation and its gradient. CLQ_ELEMENT_INPUT for linear, for softmax (not a
     * function of one element), and for activations of several instructions. */
    clq_element_op op, slope;
    bool slope_of_input; /* the slope's instruction takes the activation's input; false: its result */
    /* Appends the instructions that compute the activation of register x, and returns the result's register. The
     * gradient follows from the derivatives of these instructions. NULL: the activation is `op`. */
    unsigned (*build)(clq_element_program *p, unsigned x);
} clq_activation_row;
/* NULL: there is no such activation. */
const clq_activation_row *clq_activation_row_of(clq_activation activation);
bool clq_activation_named(const char *name, clq_activation *out); /* accepts Keras's aliases, too */
/* Appends the instructions of the activation of register x, and returns the result's register: x itself if the
 * activation is linear. Not softmax. There must be room for CLQ_ACTIVATION_INSTRUCTIONS. */
enum { CLQ_ACTIVATION_INSTRUCTIONS = 8 };
unsigned clq_activation_do(clq_element_program *p, clq_activation activation, unsigned x);
/* The same for activations with a parameter. If x is above 0, the result is x. Otherwise it is slope * x or alpha
 * (exp(x) - 1). */
unsigned clq_leaky_relu_do(clq_element_program *p, double slope, unsigned x);
unsigned clq_elu_do(clq_element_program *p, double alpha, unsigned x);
/* Whether the kernels of products, convolutions and poolings can apply the activation to what they store. They keep
 * only its result, so its slope has to follow from the result. */
bool clq_activation_joins(clq_activation activation);

/* ---- softmax (softmax.c) ---- */

/* y = softmax(x) over rows of `channels`; `elements` per sample. x and y may be one value. */
void clq_softmax_forward(clq_list *list, size_t elements, size_t channels, clq_value x, clq_value y);
/* dx = y * (dy - sum(dy * y)) per row. db (channels) = the sums of dx over all rows, or none. dx may be dy's own value,
 * or none. */
void clq_softmax_backward(clq_list *list, size_t elements, size_t channels, clq_value y, clq_value dy, clq_value dx,
                          clq_value db);

/* ---- pooling (pool2d.c) ---- */

typedef struct clq_pool2d_problem {
    size_t in_h, in_w, channels, out_h, out_w;
    size_t size_h, size_w, stride_h, stride_w, pad_top, pad_left;
    bool average;              /* an average does not count padding; a maximum never picks padding */
    clq_activation activation; /* applied to what is stored, after the maximum is chosen. Not softmax */
} clq_pool2d_problem;
/* winner: the index of each maximum in its window, for backward. u8 if the window has at most 256 elements, otherwise
 * i32; clq_pool2d_winner_bytes per example. The first of equal elements wins, as in TensorFlow. None for averages and
 * for inference. */
size_t clq_pool2d_winner_bytes(const clq_pool2d_problem *p);
void clq_pool2d_forward(clq_list *list, const clq_pool2d_problem *p, clq_value x, clq_value y, clq_value winner);
/* Computes dx from dy and, if there is an activation, from y. Without an activation, y is not read, and may be none.
 * Each element of dx gathers its gradients, without atomics. */
void clq_pool2d_backward(clq_list *list, const clq_pool2d_problem *p, clq_value y, clq_value dy, clq_value winner,
                         clq_value dx);

/* ---- normalisation of each row by itself (row_norm.c): layer normalisation (Ba, Kiros and Hinton, 2016), group
 * normalisation (Wu and He, 2018), root mean square normalisation (Zhang and Sennrich, 2019) ---- */

/* A sample is (outer, positions, groups, width). A row consists of the numbers of one index of `outer` and one group:
 * `positions` runs of `width` numbers. gamma and beta are per channel (groups * width).
 * Centred: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the biased variance.
 * Not `centred`: y = x / sqrt(mean of squares + epsilon) * gamma + beta. */
typedef struct clq_row_norm_problem {
    size_t outer, positions, groups, width;
    bool centred;
    double epsilon;
} clq_row_norm_problem;
size_t clq_row_norm_rows(const clq_row_norm_problem *p); /* of a sample */
/* statistics (rows, 2), for backward: the mean (0 if not centred) and 1 / sqrt(variance + epsilon). statistics, gamma
 * and beta may be none. */
void clq_row_norm_forward(clq_list *list, const clq_row_norm_problem *p, clq_value x, clq_value gamma, clq_value beta,
                          clq_value y, clq_value statistics);
/* Each of dx, dgamma and dbeta may be none. */
void clq_row_norm_backward(clq_list *list, const clq_row_norm_problem *p, clq_value x, clq_value dy,
                           clq_value statistics, clq_value gamma, clq_value dx, clq_value dgamma, clq_value dbeta);

/* ---- products of small matrices, many for each sample (batched.c) ---- */

/* C (m, n) = scale * A (m, k) B (k, n), for counts[0] * counts[1] matrices of each sample. c.column must be 1. */
typedef struct clq_batched_problem {
    size_t counts[2], m, n, k;
    clq_batched_matrix a, b, c;
    float scale;
} clq_batched_problem;
void clq_batched(clq_list *list, const clq_batched_problem *p, clq_value a, clq_value b, clq_value c);
clq_batched_matrix clq_batched_transposed(clq_batched_matrix matrix);
double clq_batched_flops(const clq_batched_problem *p); /* of a sample */

/* ---- rows of a table by number (gather.c) ---- */

/* x (tokens): whole numbers from 0 to rows - 1; numbers outside are clamped to this range. y (tokens, width). */
typedef struct clq_gather_problem {
    size_t tokens, rows, width;
} clq_gather_problem;
void clq_gather(clq_list *list, const clq_gather_problem *p, clq_value x, clq_value table, clq_value y);
/* dtable (rows, width): each row gets the sum of dy over its tokens, in the tokens' order, or zeros if it has no
 * token. */
void clq_gather_gradient(clq_list *list, const clq_gather_problem *p, clq_value x, clq_value dy, clq_value dtable);

/* ---- values taken from other places (arrange.c): padding, slices with steps, transposes ---- */

enum { CLQ_ARRANGED_AXES = 6 };
/* An axis of y. The axes of y are the axes of x in any order, each once. Place p of y's axis takes place (first + p *
 * step) / spread of x's axis if this is a whole number from 0 to in - 1, otherwise 0. step is not 0, and spread is at
 * least 1. */
typedef struct clq_arranged_axis {
    size_t out, in;
    size_t pitch; /* numbers between neighbouring places in x */
    long first, step, spread;
} clq_arranged_axis;
typedef struct clq_arrangement {
    unsigned rank;
    clq_arranged_axis axes[CLQ_ARRANGED_AXES];
} clq_arrangement;
/* The arrangement that leaves x as it is. */
clq_arrangement clq_arrangement_of(unsigned rank, const size_t *sizes);
/* The arrangement of the gradient: it takes each place of y's gradient back to its place in x's. */
clq_arrangement clq_arrangement_back(const clq_arrangement *a);
size_t clq_arrangement_elements(const clq_arrangement *a); /* of y */
/* once: x and y have no samples (weights). */
void clq_arrange(clq_list *list, const clq_arrangement *a, size_t x_elements, bool once, clq_value x, clq_value y);

/* ---- images whose pixels are moved by a rule that each sample draws (warp.c): bilinear, or `nearest` ---- */

/* A sample has four draws, from 0 to 1. The first selects d in the range ranges[0], the second selects e in ranges[1].
 *   FLIP    if the first draw is at most 0.5: along the width (flags & 1), along the height (flags & 2)
 *   TURN    about the middle, d whole turns
 *   ZOOM    about the middle: distances in x are 1 + d times those in y; along the width 1 + e times if flags & 1
 *   SHIFT   d heights down, e widths to the right
 *   CROP    from row floor(d) and column floor(e) on */
typedef enum clq_warp_kind { CLQ_WARP_FLIP, CLQ_WARP_TURN, CLQ_WARP_ZOOM, CLQ_WARP_SHIFT, CLQ_WARP_CROP } clq_warp_kind;
/* What lies beyond an edge: `value`; the edge's pixel; the image mirrored at the edge; the image repeated. */
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
 * Over the last axis, as in Keras (Ioffe and Szegedy, 2015): y = gamma (x - mean) / sqrt(variance + epsilon) + beta.
 * mean and variance (biased) are per channel, over all rows of the batch. gamma and beta (channels) may be none. A
 * training step has six parts. Between them, replicas may sum moments and corrections, so that mean and variance are
 * those of the global batch:
 *   moments, [sum of moments over the ranks], statistics, forward;
 *   gradients, corrections, [sum of corrections], backward.
 * With a count of 0, moments, gradients and corrections are zeros. x, y, dy and dx are f32, f16 or bf16; values per
 * channel are f32. ---- */

typedef struct clq_normalise_problem {
    size_t positions, channels; /* a sample is (positions, channels) */
    double epsilon, momentum;   /* momentum: the part of the moving statistics that stays in a step */
} clq_normalise_problem;

enum {
    CLQ_MOMENTS_ROWS = 3,    /* count * positions; mean; sum of squares about the mean */
    CLQ_STATISTICS_ROWS = 4, /* mean; 1 / sqrt(variance + epsilon); gamma times that; 1 / (count * positions) */
    CLQ_CORRECTIONS_ROWS = 2 /* dbeta / n; dgamma / sqrt(variance + epsilon) / n */
};

/* moments (ranks, CLQ_MOMENTS_ROWS, channels): writes the rows of `rank`, and zeros in the rows of other ranks. Reads x
 * once, and sums (as clq_elementwise does) the differences to x's first row and their squares. So the variance has a
 * float's rounding error times 1 + ((first - mean) / deviation)^2, however large the mean is. */
void clq_normalise_moments(clq_list *list, const clq_normalise_problem *p, clq_value x, unsigned rank, unsigned ranks,
                           clq_value moments);
/* Computes statistics (CLQ_STATISTICS_ROWS, channels) from all ranks' moments, joined in the ranks' order (Chan, Golub
 * and LeVeque, 1983). Updates moving_mean and moving_variance (channels): moving = moving * momentum + batch's * (1 -
 * momentum). The same moments give the same bits on every device. If no rank has a sample, statistics become zeros, and
 * the moving statistics stay. */
void clq_normalise_statistics(clq_list *list, const clq_normalise_problem *p, clq_value moments, unsigned ranks,
                              clq_value gamma, clq_value moving_mean, clq_value moving_variance, clq_value statistics);
/* For inference, in place of the two functions above: takes statistics from the moving ones (1 / count is 0). */
void clq_normalise_moving(clq_list *list, const clq_normalise_problem *p, clq_value gamma, clq_value moving_mean,
                          clq_value moving_variance, clq_value statistics);
/* y = (x - mean) * scale + beta. y may be x's value. */
void clq_normalise_forward(clq_list *list, const clq_normalise_problem *p, clq_value x, clq_value statistics,
                           clq_value beta, clq_value y);
/* dgamma = the sum of dy (x - mean) / sqrt(variance + epsilon), dbeta = the sum of dy, over this run's rows. Both
 * (channels) are written even if the layer has no gamma or beta, since dx needs them. */
void clq_normalise_gradients(clq_list *list, const clq_normalise_problem *p, clq_value x, clq_value dy,
                             clq_value statistics, clq_value dgamma, clq_value dbeta);
/* corrections (CLQ_CORRECTIONS_ROWS, channels): the terms of dx from the gradients of mean and variance, where n counts
 * the rows of all ranks. They are linear in dgamma and dbeta, so their sum over the ranks is that of the global
 * batch. */
void clq_normalise_corrections(clq_list *list, const clq_normalise_problem *p, clq_value statistics, clq_value dgamma,
                               clq_value dbeta, clq_value corrections);
/* dx = gamma / sqrt(variance + epsilon) * (dy - dbeta / n - (x - mean) / sqrt(variance + epsilon) * dgamma / n), from
 * the corrections summed over all ranks. dx may be dy's or x's value. */
void clq_normalise_backward(clq_list *list, const clq_normalise_problem *p, clq_value x, clq_value dy,
                            clq_value statistics, clq_value corrections, clq_value dx);

/* ---- slices of channels (copy.c): concatenation and its gradient ---- */

/* A part of each row of a sample: `channels` numbers, from `offset` on, of a row of `width`. */
typedef struct clq_slice_of_channels {
    size_t width, offset;
} clq_slice_of_channels;
/* Copies channels [from.offset, from.offset + channels) of x's rows to [to.offset, …) of y's rows. x is (rows,
 * from.width), y (rows, to.width). y's other channels stay as they are. For an axis before the last, the caller joins
 * this axis and those after it into one axis of channels. */
void clq_copy_channels(clq_list *list, size_t rows, size_t channels, clq_slice_of_channels from,
                       clq_slice_of_channels to, clq_value x, clq_value y);

/* ---- convolution, activation and max pooling in one (conv_pool.c) ---- */

/* pool.in is conv.out. The activation is the convolution's. y and winner are as in clq_pool2d_forward. The rest of the
 * convolution's output is not kept. */
typedef struct clq_conv_pool_problem {
    clq_conv2d_problem conv;
    clq_pool2d_problem pool;
} clq_conv_pool_problem;
/* Whether one kernel can do both. It can in the tile family, if all of this holds: it is max pooling; the windows
 * neither overlap nor reach beyond the convolution's output, and are small enough for registers; there is no dilation;
 * and all taps of the kernel, or those of one of its rows, are few enough for a plain sum. */
bool clq_conv_pool_fits(const clq_list *list, const clq_conv_pool_problem *p);
/* Whether the one kernel is known to be faster than separate layers: if the output's channels are whole vectors. */
bool clq_conv_pool_pays(const clq_list *list, const clq_conv_pool_problem *p);
/* The images as the functions below take them: a copy with zeros around if taps reach outside, otherwise x itself. */
clq_value clq_conv_pool_frames(clq_list *list, const clq_conv_pool_problem *p, clq_value x);
bool clq_conv_pool_is_padded(const clq_conv_pool_problem *p); /* whether frames are a copy */
void clq_conv_pool_forward(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value w, clq_value b,
                           clq_value y, clq_value winner);
/* As clq_conv2d_backward, from dz (pool.out, channels): the gradient before the activation, at each window's winner. */
void clq_conv_pool_backward(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value x, clq_value w,
                            clq_value dz, clq_value winner, clq_value dx, clq_value dw);

/* ---- repeats (repeat.c) ---- */

/* In each sample, x is (outer, inner) and y (outer, repeats, inner). */
typedef struct clq_repeat_problem {
    size_t outer, repeats, inner;
    float scale;
} clq_repeat_problem;
/* y[o][r][i] = scale * x[o][i]. */
void clq_repeat(clq_list *list, const clq_repeat_problem *p, clq_value x, clq_value y);
/* x[o][i] = scale * the sum of y[o][r][i] over r, added in blocks of 16, first to last. */
void clq_reduce_axis(clq_list *list, const clq_repeat_problem *p, clq_value y, clq_value x);

/* ---- input (input.c) ---- */

/* y = (float)x * factor, u8 to f32, f16 or bf16, `elements` per example. */
void clq_input_u8(clq_list *list, size_t elements, float factor, clq_value x, clq_value y);

#endif
