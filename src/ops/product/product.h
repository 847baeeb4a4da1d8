/* Matrix products, and what their variants share: used by product*.c, clblast.c, dense.c and conv2d.c. */
#ifndef CLQ_OPS_PRODUCT_H
#define CLQ_OPS_PRODUCT_H

#include "ops/ops.h"

/* One axis of a convolution. Output place o and tap t meet at input place (o * step + first + t * tap) / divide. If
 * this is not a whole number, or lies outside the input, they meet a zero. A convolution has step = stride, first =
 * -padding, tap = dilation and divide = 1. Its gradient by the input has step = 1, first = padding, tap = -dilation and
 * divide = stride. */
typedef struct clq_axis {
    size_t in, out, taps;
    int step, first, tap, divide;
} clq_axis;

/* The patches of images (h.in, w.in, channels) form a matrix (output pixels, taps * taps * channels), which is never
 * stored. A matrix with `rows` rows per example is treated as `rows` images of one pixel. */
typedef struct clq_patches {
    size_t rows; /* images per example */
    size_t channels;
    clq_axis h, w;
} clq_patches;

clq_patches clq_patches_of_matrix(size_t rows, size_t columns);
clq_patches clq_patches_of_conv(const clq_conv2d_problem *p); /* the patches of its input (conv2d.c) */
bool clq_patches_are_matrix(const clq_patches *p);
size_t clq_patches_depth(const clq_patches *p);  /* taps * taps * channels */
size_t clq_patches_pixels(const clq_patches *p); /* output pixels of an example */
bool clq_axis_padded(const clq_axis *axis);      /* whether some place and tap meet outside the input */
/* Adds a launch that pads the images with zeros, so that no tap lies outside. *x becomes a scratch value. */
void clq_patches_pad(clq_list *list, clq_patches *p, clq_value *x);
static inline bool clq_is_short(const clq_list *list, clq_value value) { /* whether it is stored in 16 bits */
    return clq_dtype_bytes(clq_list_storage(list, value)) == 2;
}

/* A product of one of two kinds.
 * Rows: c (pixels, columns) = act(patches(a) b + bias), for each example.
 * Outer: c (taps, taps, channels, columns) = patches(a)^T b, with b (pixels, columns), summed over all pixels of all
 * examples. For this kind, the axes have divide = 1, b is not transposed, and there is neither bias nor activation. */
typedef struct clq_product {
    const char *label;
    clq_patches patches;
    size_t columns;
    bool outer;
    bool transposed; /* rows: b is (taps, taps, columns, channels); false: (taps, taps, channels, columns) */
    clq_activation activation;
    clq_value a, b, bias, c; /* bias may be none */
    bool adds;               /* outer: adds to c as clq_accumulate does; c is f32 */
} clq_product;

/* The products of a layer (dense.c): y = act(patches(x) w + b); from dz, the gradient before the activation, the
 * weights' gradient (columns: z's); and from dz the gradient of x (patches: of z; columns: x's). */
clq_product clq_product_forward(clq_patches patches, size_t columns, clq_activation activation, clq_value x,
                                clq_value w, clq_value b, clq_value y);
clq_product clq_product_weight_gradient(clq_patches patches, size_t columns, clq_value x, clq_value dz, clq_value dw,
                                        bool adds);
clq_product clq_product_input_gradient(clq_patches patches, size_t columns, clq_value dz, clq_value w, clq_value dx);
/* The product that clq_gemm computes. If A and B both lie transposed, b must be B after a launch that transposed it
 * back. */
clq_product clq_product_of_gemm(const clq_gemm_problem *p, clq_value a, clq_value b, clq_value c);

enum { CLQ_OWN_FLOATS = 48 << 10 }; /* the most floats that a tile keeps in private memory */

/* Adds a product by the variant that the list selects. Its choices have keys "rows …" and "outer …". */
void clq_product_add(clq_list *list, const clq_product *p);

/* The variants. CLBlast multiplies matrices only. */
void clq_product_by_tiles(clq_list *list, const clq_product *p);
/* For tiles: copies a transposed b of a rows product into panels of `width` columns. width is whole vectors. */
clq_value clq_product_pack(clq_list *list, const char *name, clq_value b, size_t taps, size_t channels, size_t columns,
                           size_t width);
/* For tiles: adds a launch that converts 16-bit numbers to floats. There are (rows, row) numbers in each example or,
 * without per_example, in all. */
clq_value clq_product_floats(clq_list *list, clq_value from, size_t rows, size_t row, bool per_example);
/* Only for matrices: tiles in blocks. packed: A and B are both packed, which outer products require. Otherwise the
 * kernel packs B alone. */
void clq_product_by_blocks(clq_list *list, const clq_product *p, bool packed);
/* Whether a product is so large that packed blocks are known to be faster. */
bool clq_product_is_large(const clq_list *list, const clq_product *p);
/* index: the block's number, below CLQ_LOCAL_BLOCKS. */
void clq_product_by_local(clq_list *list, const clq_product *p, size_t index);
void clq_product_by_clblast(clq_list *list, const clq_product *p);

/* Writes how A, B and C are stored, for example ", f16 by f32 to f16", or nothing if all are f32. */
enum { CLQ_STORAGE_NAME_BYTES = 32 };
void clq_product_name_storage(const clq_dtype storage[3], char text[CLQ_STORAGE_NAME_BYTES]);
/* Starts a choice with a key such as "tile of rows 64x784 by 128". */
void clq_product_start_choice(clq_choice *choice, const clq_list *list, const char *what, const clq_product *p);

/* The patches and columns as -D options, with a blank at the end. */
clq_kernel_options clq_product_options(const clq_product *p);
/* For tiles of matrices, whose kernels get the sizes as arguments. clq_product_matrix_options: options that say whether
 * the rows of B and C are whole vectors, and whole panels of `vectors` vectors (0: the kernel does not need to know).
 * clq_product_add_matrix: adds the arguments rows of an example, depth and columns to the launch. */
clq_kernel_options clq_product_matrix_options(const clq_list *list, const clq_product *p, size_t vectors);
void clq_product_add_matrix(clq_list *list, const clq_product *p);
/* Appends options that say how these values are stored. Call it after all other options. */
void clq_product_add_storage(clq_kernel_options *options, const clq_list *list, clq_value a, clq_value b, clq_value c);
/* Sets the launch's cost: flops and traffic. Weights count once, images per example. */
void clq_product_cost(clq_list *list, const clq_product *p);
/* The number of slices that the sum of an outer product is cut into, so that work-groups run side by side: `wanted`, if
 * the sum is long enough. At a full batch, a slice has at least `terms_least` terms. The partial sums must not take too
 * much memory. */
size_t clq_product_slices(const clq_list *list, const clq_product *p, size_t wanted, size_t terms_least);
/* Where the slices write their sums: c itself if there is one slice and p->adds is false, otherwise scratch memory. */
clq_value clq_product_partial(clq_list *list, const clq_product *p, size_t slices);
/* How a device with work-groups adds up slices. A column is a few neighbouring floats. A work-group computes `across`
 * columns, with `rows` items for each. Their sums are added as a tree. Both numbers are powers of two. */
typedef struct clq_reduce_cut {
    size_t across, rows;
} clq_reduce_cut;
clq_reduce_cut clq_product_cut_reduce(const clq_list *list, size_t columns, size_t slices);
/* For an outer product: c = the sum of the slices. The tile family adds them in order, other devices as
 * clq_product_cut_reduce says. With p->adds, the sum is added to c. Adds no launch if `partial` is c. */
void clq_product_reduce(clq_list *list, const clq_product *p, clq_value partial, size_t slices);

#endif
