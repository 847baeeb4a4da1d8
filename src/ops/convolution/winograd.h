/* 3x3 convolutions by Winograd's method, with fewer products than taps, if the list chooses it (keys "conv …", "conv
 * weights …" and "pooled conv …"). Called by conv2d.c and conv_pool.c. winograd.c and winograd_outer.c choose;
 * winograd_tile.c, winograd_local.c and winograd_trial.c belong to one kernel family each. */
#ifndef CLQ_OPS_WINOGRAD_H
#define CLQ_OPS_WINOGRAD_H

#include "ops/product/product.h"

/* Adds a product of kind rows. Returns false, and adds nothing, if the caller should use the plain sum. *choice gets
 * the choice between the two, if there is one. The caller ends it by clq_list_end_choice, after either's launches. */
bool clq_winograd_rows(clq_list *list, const clq_product *p, clq_choice *choice);
/* The same, in the tile family, with max pooling over 2x2 windows. winner is as in clq_pool2d_forward. x must not need
 * padding. */
bool clq_winograd_pool(clq_list *list, const clq_product *p, const clq_pool2d_problem *pool, clq_value winner,
                       clq_choice *choice);

/* The same, in the tile family, for the weights' gradient, an outer product. (winograd_outer.c) */
bool clq_winograd_outer(clq_list *list, const clq_product *p, clq_choice *choice);

/* ---- shared by the families (winograd.c) ---- */

/* The largest divisor of `all` that is at most `most`. most is at least 1. */
static inline size_t clq_winograd_part(size_t all, size_t most) {
    size_t part = CLQ_MIN(all, most);
    while (all % part != 0) part--;
    return part;
}

/* Whether the product has 3x3 taps with this stride and this spread. A spread of 2 is the gradient by the input of a
 * convolution with stride 2. */
bool clq_winograd_taps_fit(const clq_product *p, size_t stride, size_t spread);

enum {
    CLQ_WINOGRAD_TAPS = 3,
    CLQ_WINOGRAD_ROWS = 4,      /* rows and columns of the inputs of a tile of 2x2 outputs */
    CLQ_WINOGRAD_PRODUCTS = 16, /* multiplications per such tile and channel, instead of 36 */
};

/* The tiles of an example's outputs. pixels: how many outputs are wanted. */
typedef struct clq_winograd_tiles {
    size_t h, w, pixels;
} clq_winograd_tiles;

/* The tile sizes of the tile family: F(2x2, 3x3); F(4x4, 3x3), which has fewer products and more rounding; tiles for a
 * stride of 2; and tiles for the gradient of such a convolution by its input. A transform's cost is per tile and
 * channel of input or output. It was measured, in multiplications. (winograd.c) */
typedef struct clq_winograd_size {
    const char *name; /* in choices */
    size_t side, stride, spread;
    size_t lines;         /* rows, and columns, of a tile's transformed inputs */
    size_t products;      /* per tile and channel, instead of 9 for each output or, if spread, for each input */
    size_t taps;          /* transformed weights per channel; each product takes one */
    size_t channels_most; /* most channels of the input with which a few tiles fit a core's cache */
    size_t pixels_least;  /* fewest pixels of a batch that are worth the transform of the weights */
    double transform, outer_transform;
} clq_winograd_size;
enum { CLQ_WINOGRAD_SIZES = 4 };
extern const clq_winograd_size clq_winograd_sizes[CLQ_WINOGRAD_SIZES];
clq_winograd_tiles clq_winograd_tiles_of(const clq_winograd_size *size, const clq_product *p);
/* The selected size, or NULL for the plain sum. fits: the sizes to choose from. best: the rule's choice; NULL: the
 * plain sum. */
const clq_winograd_size *clq_winograd_select(clq_list *list, clq_choice *choice, const clq_winograd_size *best,
                                             const bool fits[CLQ_WINOGRAD_SIZES]);

/* Shapes, padding, bias and activation as -D options, with a blank at the end. */
clq_kernel_options clq_winograd_options(const clq_product *p, const clq_winograd_tiles *tiles);
/* Begins the launch that transforms the weights into `floats` floats. `options` are the kernel's. The caller adds the
 * launch's work and cost. Returns the transformed weights. */
clq_value clq_winograd_weights(clq_list *list, const clq_product *p, const char *file, const char *function,
                               const char *options, size_t floats);
/* Sets the cost. The arithmetic counts as that of the plain sum. sums and out_bytes are per example; floats is the
 * number of transformed weights. */
void clq_winograd_cost(clq_list *list, const clq_product *p, double sums, double out_bytes, size_t floats);

/* ---- the families: for convolutions whose taps fit ---- */

/* Whether the tile family can use this size: input and output channels are whole vectors, and few enough for a core's
 * cache. */
bool clq_winograd_tile_fits(const clq_list *list, const clq_winograd_size *size, const clq_product *p);
/* The cost of an example: multiplications per channel of input and output, with the transforms as multiplications. */
double clq_winograd_tile_cost(const clq_winograd_size *size, const clq_product *p);
/* pool NULL: stores all outputs. Otherwise stores the maximum of each tile, and the tiles are 2x2. */
void clq_winograd_tile_add(clq_list *list, const clq_winograd_size *size, const clq_product *p,
                           const clq_pool2d_problem *pool, clq_value winner);

/* Any shape, if all values are floats, and a work-group and its local memory are large enough for some block. */
bool clq_winograd_local_fits(const clq_list *list, const clq_product *p);
bool clq_winograd_local_pays(const clq_list *list, const clq_product *p, const clq_winograd_tiles *tiles);
/* Adds the launches with block number `block`, without trying it. BY_RULE: with the best block that works on the
 * device. If none works, returns false and adds nothing. */
enum { CLQ_WINOGRAD_BLOCKS = 4, CLQ_WINOGRAD_BLOCK_BY_RULE = 0xFF };
bool clq_winograd_local_add(clq_list *list, const clq_product *p, const clq_winograd_tiles *tiles, size_t block);

/* A work-group computes `tiles` tiles in `columns` columns, with group_tiles x group_columns items for each of the 16
 * products. */
typedef struct clq_winograd_block {
    size_t tiles, columns, group_tiles, group_columns;
} clq_winograd_block;
const clq_winograd_block *clq_winograd_block_get(size_t index);             /* below CLQ_WINOGRAD_BLOCKS */
void clq_winograd_block_name(size_t index, char name[CLQ_CANDIDATE_BYTES]); /* "winograd 32x16" */
/* As clq_local_block_works. (winograd_trial.c) */
bool clq_winograd_block_works(clq_device *device, size_t index, const void *unused);

#endif
