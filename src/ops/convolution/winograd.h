/* 3x3 convolutions by fewer products than taps, where the list chooses that ("conv …", "pooled conv …"): by conv2d.c
 * and conv_pool.c (winograd.c, winograd_outer.c), and as each family makes them
 * (winograd_tile.c, winograd_local.c, winograd_trial.c). */
#ifndef CLQ_OPS_WINOGRAD_H
#define CLQ_OPS_WINOGRAD_H

#include "ops/product/product.h"

/* False, and nothing is added, where the plain sum is to be made. The choice is which of both, for the caller to end
 * behind either. */
bool clq_winograd_rows(clq_list *list, const clq_product *p, clq_choice *choice);
/* The same for the maxima of windows of 2x2 outputs, in the tile family; winner as clq_pool2d_forward's. x is not
 * padded. */
bool clq_winograd_pool(clq_list *list, const clq_product *p, const clq_pool2d_problem *pool, clq_value winner,
                       clq_choice *choice);

/* The same for the weights' gradient, in the tile family: an outer product. (winograd_outer.c) */
bool clq_winograd_outer(clq_list *list, const clq_product *p, clq_choice *choice);

/* ---- shared by the families (winograd.c) ---- */

/* The largest divisor of `all` that is at most `most`, which is at least 1. */
static inline size_t clq_winograd_part(size_t all, size_t most) {
    size_t part = CLQ_MIN(all, most);
    while (all % part != 0) part--;
    return part;
}

/* Whether the taps are 3x3, of outputs that are so many places apart, or of inputs that are, in the outputs. */
bool clq_winograd_taps_fit(const clq_product *p, size_t stride, size_t spread);

enum {
    CLQ_WINOGRAD_TAPS = 3,
    CLQ_WINOGRAD_ROWS = 4,      /* of a tile of 2x2 outputs: of its inputs, and columns */
    CLQ_WINOGRAD_PRODUCTS = 16, /* of such a tile and channel, in place of 36 */
};

/* Tiles of outputs of an example. pixels: how many of their outputs are wanted. */
typedef struct clq_winograd_tiles {
    size_t h, w, pixels;
} clq_winograd_tiles;

/* The sizes of tiles of the tile family: F(2x2, 3x3) and F(4x4, 3x3), which has fewer products and more rounding, and
 * tiles of outputs that are two places apart, and of the gradient of these by the input. Costs are those of a tile's
 * transforms in one channel of input or output, measured, in multiplications. (winograd.c) */
typedef struct clq_winograd_size {
    const char *name; /* of choices */
    size_t side, stride, spread;
    size_t lines;         /* of a tile's transformed inputs, either way */
    size_t products;      /* of a tile and a channel, in place of 9 for each output, or, spread, for each input */
    size_t taps;          /* transformed ones of a channel, of which a product takes one */
    size_t channels_most; /* of the input, of which a few tiles fit a core's cache */
    size_t pixels_least;  /* that the transformed weights serve */
    double transform, outer_transform;
} clq_winograd_size;
enum { CLQ_WINOGRAD_SIZES = 4 };
extern const clq_winograd_size clq_winograd_sizes[CLQ_WINOGRAD_SIZES];
clq_winograd_tiles clq_winograd_tiles_of(const clq_winograd_size *size, const clq_product *p);
/* The size that is selected among those that fit and the plain sum (NULL). best: the rule's. */
const clq_winograd_size *clq_winograd_select(clq_list *list, clq_choice *choice, const clq_winograd_size *best,
                                             const bool fits[CLQ_WINOGRAD_SIZES]);

/* Shapes, padding, bias and activation as -D options with a blank behind. */
clq_kernel_options clq_winograd_options(const clq_product *p, const clq_winograd_tiles *tiles);
/* The launch that transforms the weights to so many floats, as `options` of the kernel say; its work is left to add. */
clq_value clq_winograd_weights(clq_list *list, const clq_product *p, const char *file, const char *function,
                               const char *options, size_t floats);
/* Arithmetic is counted as of the plain sum: sums and written bytes per example, floats of transformed weights. */
void clq_winograd_cost(clq_list *list, const clq_product *p, double sums, double out_bytes, size_t floats);

/* ---- the families: of convolutions whose taps are right for it ---- */

/* Whether it can be: channels of input and output in whole vectors, few enough for a core's cache. */
bool clq_winograd_tile_fits(const clq_list *list, const clq_winograd_size *size, const clq_product *p);
/* Of an example: multiplications for a channel of the input in one of the output, and what transforms take in place of
 * as many. */
double clq_winograd_tile_cost(const clq_winograd_size *size, const clq_product *p);
/* pool NULL: all outputs; else tiles of 2x2. */
void clq_winograd_tile_add(clq_list *list, const clq_winograd_size *size, const clq_product *p,
                           const clq_pool2d_problem *pool, clq_value winner);

/* Any shape of floats, where a work-group and its local memory can be large enough for some block. */
bool clq_winograd_local_fits(const clq_list *list, const clq_product *p);
bool clq_winograd_local_pays(const clq_list *list, const clq_product *p, const clq_winograd_tiles *tiles);
/* In that block, untried, or, BY_RULE, in the best one that the device gets right: false, and nothing is added, where
 * there is none. */
enum { CLQ_WINOGRAD_BLOCKS = 4, CLQ_WINOGRAD_BLOCK_BY_RULE = 0xFF };
bool clq_winograd_local_add(clq_list *list, const clq_product *p, const clq_winograd_tiles *tiles, size_t block);

/* A work-group makes so many tiles in so many columns; for each of the 16 products it has group_tiles x group_columns
 * items. */
typedef struct clq_winograd_block {
    size_t tiles, columns, group_tiles, group_columns;
} clq_winograd_block;
const clq_winograd_block *clq_winograd_block_get(size_t index);             /* below CLQ_WINOGRAD_BLOCKS */
void clq_winograd_block_name(size_t index, char name[CLQ_CANDIDATE_BYTES]); /* "winograd 32x16" */
/* As clq_local_block_works. (winograd_trial.c) */
bool clq_winograd_block_works(clq_device *device, size_t index, const void *unused);

#endif
