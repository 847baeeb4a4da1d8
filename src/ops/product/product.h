/* Products, as the variants make them: shared by product*.c, clblast.c, dense.c and conv2d.c. */
#ifndef CLQ_OPS_PRODUCT_H
#define CLQ_OPS_PRODUCT_H

#include "ops/ops.h"

/* Along one axis, output place o and tap t meet at input place (o * step + first + t * tap) / divide, where that
 * divides and lies inside; elsewhere at a zero. A convolution has step = stride, first = -padding, tap = dilation,
 * divide = 1; its gradient by the input has step = 1, first = padding, tap = -dilation, divide = stride. */
typedef struct clq_axis {
    size_t in, out, taps;
    int step, first, tap, divide;
} clq_axis;

/* The patches of images (h.in, w.in, channels): a matrix of out pixels x (taps, taps, channels), never stored. A matrix
 * of `rows` rows per example is that many images of one pixel. */
typedef struct clq_patches {
    size_t rows; /* images per example */
    size_t channels;
    clq_axis h, w;
} clq_patches;

clq_patches clq_patches_of_matrix(size_t rows, size_t columns);
bool clq_patches_are_matrix(const clq_patches *p);
size_t clq_patches_depth(const clq_patches *p); /* taps * taps * channels */
bool clq_axis_padded(const clq_axis *axis);     /* whether some place and tap meet outside */
/* Images padded with zeros by a launch of its own, so that no tap lies outside; *x becomes scratch. */
void clq_patches_pad(clq_list *list, clq_patches *p, clq_value *x);

/* y (pixels, columns) = act(patches(x) w + b). `halves` of this and the next: which operands are halves in memory, the
 * others being floats; sums are floats. The LOCAL variant alone can do that. */
typedef struct clq_rows_product {
    const char *label;
    clq_patches patches;
    size_t columns;
    bool transposed; /* w (taps, taps, columns, channels), else (taps, taps, channels, columns) */
    clq_activation activation;
    clq_value x, w, b, y; /* b may be none */
    unsigned halves;      /* A: x, B: w, C: y */
} clq_rows_product;

/* dw (taps, taps, channels, columns) = patches(x)^T dz, over all pixels of all examples. Divides by 1. */
typedef struct clq_outer_product {
    const char *label;
    clq_patches patches;
    size_t columns;
    clq_value x, dz, dw;
    unsigned halves; /* A: x, B: dz, C: dw */
} clq_outer_product;

/* By the variant that the list chooses: "rows …" and "outer …" are the keys of its choices. */
void clq_product_rows(clq_list *list, const clq_rows_product *p);
void clq_product_outer(clq_list *list, const clq_outer_product *p);

/* The variants. CLBlast multiplies matrices only. */
void clq_product_rows_tile(clq_list *list, const clq_rows_product *p);
void clq_product_outer_tile(clq_list *list, const clq_outer_product *p);
/* Tiles in blocks, of matrices. packed: both operands, not B alone on the way. */
void clq_product_rows_blocks(clq_list *list, const clq_rows_product *p, bool packed);
void clq_product_outer_blocks(clq_list *list, const clq_outer_product *p);
/* Whether a product is known to be faster in packed blocks. rows, terms: at a full batch. */
bool clq_product_is_large(size_t rows, size_t columns, size_t terms);
/* index: of the block. */
void clq_product_rows_local(clq_list *list, const clq_rows_product *p, size_t index);
void clq_product_outer_local(clq_list *list, const clq_outer_product *p, size_t index);
void clq_product_rows_clblast(clq_list *list, const clq_rows_product *p);
void clq_product_outer_clblast(clq_list *list, const clq_outer_product *p);

/* What is asked about: "tile of rows 64x784 by 128". `transposed`: the weights are. */
void clq_product_start_choice(clq_choice *choice, const clq_list *list, const char *what, const clq_patches *p,
                              size_t columns, bool transposed);

enum { CLQ_PRODUCT_OPTIONS = 640 };
/* The patches as -D options, with a blank behind. Returns the length. */
size_t clq_patches_options(const clq_patches *p, size_t columns, char *out, size_t bytes);
/* The cost of a product, or of its outer form: flops and traffic; weights once, images per example. */
void clq_product_cost(clq_list *list, const clq_patches *p, size_t columns);
/* Into how many parts the sum of an outer product is cut, so that at least `wanted` parts run side by side if the sum
 * is long enough; never more than parts of `terms_least` at a full batch. */
size_t clq_product_slices(const clq_list *list, const clq_patches *p, size_t columns, size_t wanted,
                          size_t terms_least);
/* Where slices leave their sums: dw itself where there is one. */
clq_value clq_product_partial(clq_list *list, const clq_outer_product *p, size_t slices);
/* How a device with work-groups adds up the slices of so many columns, which are some neighbouring floats each: a
 * work-group makes `across` columns with `rows` items for each of them, whose sums are added as a tree. Both are powers
 * of two. */
typedef struct clq_reduce_cut {
    size_t across, rows;
} clq_reduce_cut;
clq_reduce_cut clq_product_cut_reduce(const clq_list *list, size_t columns, size_t slices);
/* dw = the slices' sum: in order where tile, else as the cut has it. */
void clq_product_reduce(clq_list *list, const clq_outer_product *p, clq_value partial, size_t slices);

#endif
