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
clq_patches clq_patches_of_conv(const clq_conv2d_problem *p); /* of its input (conv2d.c) */
bool clq_patches_are_matrix(const clq_patches *p);
size_t clq_patches_depth(const clq_patches *p);  /* taps * taps * channels */
size_t clq_patches_pixels(const clq_patches *p); /* out pixels of an example */
bool clq_axis_padded(const clq_axis *axis);      /* whether some place and tap meet outside */
/* Images padded with zeros by a launch of its own, so that no tap lies outside; *x becomes scratch. */
void clq_patches_pad(clq_list *list, clq_patches *p, clq_value *x);
static inline bool clq_is_short(const clq_list *list, clq_value value) { /* whether its numbers have 16 bits */
    return clq_dtype_bytes(clq_list_storage(list, value)) == 2;
}

/* One of two kinds.
 * Rows: c (pixels, columns) = act(patches(a) b + bias), for each example.
 * Outer: c (taps, taps, channels, columns) = patches(a)^T b, with b (pixels, columns), summed over all pixels of all
 * examples. There the axes have divide = 1, b is not transposed, and there is neither bias nor activation. */
typedef struct clq_product {
    const char *label;
    clq_patches patches;
    size_t columns;
    bool outer;
    bool transposed; /* b of rows is (taps, taps, columns, channels), else (taps, taps, channels, columns) */
    clq_activation activation;
    clq_value a, b, bias, c; /* bias may be none */
    bool adds;               /* of outer: c is added up as of clq_accumulate, and is f32 */
} clq_product;

/* Those of a layer: y = act(patches(x) w + b), and from dz, the gradient before the activation, that of the weights
 * (columns: of z) and, by the patches of z, that of x (columns: of x). (dense.c) */
clq_product clq_product_forward(clq_patches patches, size_t columns, clq_activation activation, clq_value x,
                                clq_value w, clq_value b, clq_value y);
clq_product clq_product_weight_gradient(clq_patches patches, size_t columns, clq_value x, clq_value dz, clq_value dw,
                                        bool adds);
clq_product clq_product_input_gradient(clq_patches patches, size_t columns, clq_value dz, clq_value w, clq_value dx);
/* What clq_gemm makes. Where A and B both lie transposed, b is B after a launch that has transposed it back. */
clq_product clq_product_of_gemm(const clq_gemm_problem *p, clq_value a, clq_value b, clq_value c);

enum { CLQ_OWN_FLOATS = 48 << 10 }; /* that a work-item of these, in the tile family, may have in memory of its own */

/* By the variant that the list chooses: "rows …" and "outer …" are the keys of its choices. */
void clq_product_add(clq_list *list, const clq_product *p);

/* The variants. CLBlast multiplies matrices only. */
void clq_product_by_tiles(clq_list *list, const clq_product *p);
/* b of rows that is transposed, for tiles: panels of `width` columns, which are whole vectors. */
clq_value clq_product_pack(clq_list *list, const char *name, clq_value b, size_t taps, size_t channels, size_t columns,
                           size_t width);
/* Numbers of 16 bits as floats, by a launch of its own, for tiles: (rows, row) of each example, or once. */
clq_value clq_product_floats(clq_list *list, clq_value from, size_t rows, size_t row, bool per_example);
/* Tiles in blocks, of matrices. packed: both operands, as in outer products always, not B alone on the way. */
void clq_product_by_blocks(clq_list *list, const clq_product *p, bool packed);
/* Whether a product is known to be faster in packed blocks. */
bool clq_product_is_large(const clq_list *list, const clq_product *p);
/* index: of the block. */
void clq_product_by_local(clq_list *list, const clq_product *p, size_t index);
void clq_product_by_clblast(clq_list *list, const clq_product *p);

/* ", f16 by f32 to f16": what A, B and C are in memory; nothing where all are floats. */
enum { CLQ_STORAGE_NAME_BYTES = 32 };
void clq_product_name_storage(const clq_dtype storage[3], char text[CLQ_STORAGE_NAME_BYTES]);
/* What is asked about: "tile of rows 64x784 by 128". */
void clq_product_start_choice(clq_choice *choice, const clq_list *list, const char *what, const clq_product *p);

/* The patches and columns as -D options, with a blank behind. */
clq_kernel_options clq_product_options(const clq_product *p);
/* Of a matrix by tiles, whose sizes are arguments of its kernels: the options tell whether the rows of B and C are
 * whole vectors, and whole panels of `vectors` vectors (0: the kernel does not read that), and the launch is given rows
 * of an example, depth and columns. */
clq_kernel_options clq_product_matrix_options(const clq_list *list, const clq_product *p, size_t vectors);
void clq_product_add_matrix(clq_list *list, const clq_product *p);
/* How these values lie in memory, behind all other options. */
void clq_product_add_storage(clq_kernel_options *options, const clq_list *list, clq_value a, clq_value b, clq_value c);
/* The cost of a product: flops and traffic; weights once, images per example. */
void clq_product_cost(clq_list *list, const clq_product *p);
/* Into how many parts the sum of an outer product is cut, so that at least `wanted` parts run side by side if the sum
 * is long enough; never more than parts of `terms_least` at a full batch. */
size_t clq_product_slices(const clq_list *list, const clq_product *p, size_t wanted, size_t terms_least);
/* Where slices leave their sums: c itself where there is one, and nothing is added to what c has. */
clq_value clq_product_partial(clq_list *list, const clq_product *p, size_t slices);
/* How a device with work-groups adds up the slices of so many columns, which are some neighbouring floats each: a
 * work-group makes `across` columns with `rows` items for each of them, whose sums are added as a tree. Both are powers
 * of two. */
typedef struct clq_reduce_cut {
    size_t across, rows;
} clq_reduce_cut;
clq_reduce_cut clq_product_cut_reduce(const clq_list *list, size_t columns, size_t slices);
/* Of an outer product c = the slices' sum: in order where tile, else as the cut has it. And it is added to what c has
 * where p->adds. Nothing where the partial sum is c. */
void clq_product_reduce(clq_list *list, const clq_product *p, clq_value partial, size_t slices);

#endif
