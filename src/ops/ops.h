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
