/* The backward pass of a convolution whose output only a max pooling reads, from the pooled gradient: by lists of the
 * gradients that are not zero, by an outer product over windows, or by the gradient as it was before the pooling. */
#include "ops/convolution/conv_pool.h"

#include "ops/product/product.h"

enum {
    TILE_COST = 6,      /* what a tile costs besides its vectors, as so many of them */
    CHANNELS_LEAST = 8, /* that share the reading of an image */
    TERMS_LEAST = 64    /* of a slice */
};

/* How the weights of an output channel are cut: `across` units (vectors or floats) of each of `down` rows of taps. */
typedef struct tile {
    size_t across, down, tiles;
} tile;

/* The one that makes fewest operations in all; `most` units have room in registers. */
static tile choose_tile(size_t run, size_t rows, size_t most) {
    tile best = {0};
    size_t least = SIZE_MAX;
    for (size_t across = 1; across <= run && across <= most; across++) {
        for (size_t down = 1; down <= rows && across * down <= most; down++) {
            size_t tiles = clq_ceil_div(run, across) * clq_ceil_div(rows, down);
            size_t cost = tiles * (across * down + TILE_COST);
            if (cost >= least) continue;
            least = cost;
            best = (tile){across, down, tiles};
        }
    }
    return best;
}

static size_t vector_of(const clq_list *list) { return clq_device_vector(clq_list_device(list)); }

static size_t depth_of(const clq_conv2d_problem *c) { return c->kernel_h * c->kernel_w * c->in_c; }

/* Multiplications and additions for one example: at most one gradient of a window is not zero. */
static double flops_of(const clq_conv_pool_problem *p) {
    return 2.0 * (double)(p->pool.out_h * p->pool.out_w * p->conv.out_c * depth_of(&p->conv));
}

static double image_bytes(const clq_conv2d_problem *c) { return (double)(c->in_h * c->in_w * c->in_c) * sizeof(float); }

/* The weights' gradient as a product, for its slices' sum. */
static clq_product product_of(const clq_conv_pool_problem *p, clq_value dw) {
    clq_conv2d_problem c = clq_conv_pool_framed(&p->conv);
    c.out_h = p->pool.out_h;
    c.out_w = p->pool.out_w;
    return clq_product_weight_gradient(clq_patches_of_conv(&c), c.out_c, CLQ_NO_VALUE, CLQ_NO_VALUE, dw);
}

/* ---- by lists ---- */

typedef struct lists {
    clq_kernel_options options;
    clq_value entries, lengths;
    double bytes; /* of one example */
    tile tile;
    size_t blocks, slices; /* of output channels; of examples */
} lists;

static lists make_lists(clq_list *list, const clq_conv_pool_problem *p, clq_value dz, clq_value winner) {
    const clq_conv2d_problem *c = &p->conv;
    size_t vector = vector_of(list), groups = clq_device_min_groups(clq_list_device(list));
    size_t windows = p->pool.out_h * p->pool.out_w, entry_bytes = windows * c->out_c * 2 * sizeof(int32_t);
    lists l = {.tile = choose_tile(c->kernel_w * c->in_c / vector, c->kernel_h, clq_conv_pool_registers(list) - 4)};
    size_t blocks = CLQ_MIN(clq_ceil_div(groups, l.tile.tiles), clq_ceil_div(c->out_c, CHANNELS_LEAST));
    size_t block = clq_ceil_div(c->out_c, blocks);
    clq_product product = product_of(p, CLQ_NO_VALUE);
    l.blocks = clq_ceil_div(c->out_c, block);
    l.slices = clq_product_slices(list, &product.patches, c->out_c, clq_ceil_div(groups, l.tile.tiles * l.blocks),
                                  TERMS_LEAST);
    l.options = clq_conv_pool_options(p);
    clq_options_add(&l.options, "-DLISTS -DTL=%zu -DTR=%zu -DTILES=%zu -DBLOCK=%zu -DSLICES=%zu", l.tile.across,
                    l.tile.down, l.tile.tiles, block, l.slices);
    l.entries = clq_list_value(list, CLQ_VALUE_SCRATCH, "gradients that are not zero", 0, entry_bytes);
    l.lengths = clq_list_value(list, CLQ_VALUE_SCRATCH, "how many are not zero", 0, c->out_c * sizeof(int32_t));
    l.bytes = (double)(entry_bytes + c->out_c * sizeof(int32_t));
    clq_launch_begin(list, "list gradients", "conv_pool", l.options.text, "list_gradients");
    CLQ_LAUNCH_READS(list, dz, winner);
    CLQ_LAUNCH_WRITES(list, l.entries, l.lengths);
    clq_launch_work(list, 1, (size_t[]){0}, (size_t[]){1}, 0, 1, 1);
    clq_launch_cost(list, 0, 0, 0, l.bytes + (double)(windows * c->out_c) * 5);
    return l;
}

static void list_weight_gradient(clq_list *list, const clq_conv_pool_problem *p, const lists *l, clq_value frames,
                                 clq_value dw) {
    const clq_conv2d_problem *c = &p->conv;
    size_t depth = depth_of(c), floats = depth * c->out_c;
    clq_value sums = clq_list_value(list, CLQ_VALUE_SCRATCH, "partial sums", l->slices * floats * sizeof(float), 0);
    clq_launch_begin(list, "weight gradient", "conv_pool", l->options.text, "sum_weights");
    CLQ_LAUNCH_READS(list, frames, l->entries, l->lengths);
    clq_launch_value(list, sums, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 3, (size_t[]){l->tile.tiles, l->blocks, l->slices}, (size_t[]){1, 1, 1}, -1, 0, 0);
    clq_launch_cost(list, 0, flops_of(p), (double)(l->slices * floats) * sizeof(float), image_bytes(c) + l->bytes);
    clq_launch_begin(list, "reduce", "conv_pool", l->options.text, "fold_weights");
    clq_launch_value(list, sums, CLQ_READS);
    clq_launch_value(list, dw, CLQ_WRITES);
    clq_launch_work(list, 1, (size_t[]){depth}, (size_t[]){1}, -1, 0, 0);
    clq_launch_cost(list, (double)((l->slices - 1) * floats), 0, (double)((l->slices + 1) * floats) * sizeof(float), 0);
}

/* (output channels, depth): a pack into one panel as wide as the depth. */
static clq_value transpose_weights(clq_list *list, const clq_conv2d_problem *c, clq_value w) {
    size_t depth = depth_of(c), bytes = depth * c->out_c * sizeof(float);
    clq_value to = clq_list_value(list, CLQ_VALUE_SCRATCH, "transposed weights", bytes, 0);
    clq_launch_begin(list, "pack", "product_support", "", "product_pack");
    clq_launch_value(list, w, CLQ_READS);
    clq_launch_value(list, to, CLQ_WRITES);
    clq_launch_int(list, 1);
    CLQ_LAUNCH_SIZES(list, c->out_c, depth, depth);
    clq_launch_work(list, 2, (size_t[]){clq_ceil_div(c->out_c, vector_of(list)), 1}, (size_t[]){1, 1}, -1, 0, 0);
    clq_launch_cost(list, 0, 0, 2 * (double)bytes, 0);
    return to;
}

/* Where there is padding, in frames, of which the image is then cut out. */
static void list_input_gradient(clq_list *list, const clq_conv_pool_problem *p, const lists *l, clq_value w,
                                clq_value dx, bool padded) {
    const clq_conv2d_problem *c = &p->conv, framed = clq_conv_pool_framed(c);
    clq_value weights = transpose_weights(list, c, w), to = dx;
    if (padded) to = clq_list_value(list, CLQ_VALUE_SCRATCH, "padded gradient", 0, (size_t)image_bytes(&framed));
    clq_launch_begin(list, "input gradient", "conv_pool", l->options.text, "spread_gradients");
    CLQ_LAUNCH_READS(list, weights, l->entries, l->lengths);
    clq_launch_value(list, to, CLQ_WRITES);
    clq_launch_work(list, 1, (size_t[]){0}, (size_t[]){1}, 0, 1, 1);
    clq_launch_cost(list, 0, flops_of(p), (double)(depth_of(c) * c->out_c) * sizeof(float),
                    image_bytes(&framed) + l->bytes);
    if (!padded) return;
    clq_launch_begin(list, "crop", "conv_pool", l->options.text, "crop_frames");
    clq_launch_value(list, to, CLQ_READS);
    clq_launch_value(list, dx, CLQ_WRITES);
    CLQ_LAUNCH_SIZES(list, c->in_h, c->in_w, c->pad_top, c->pad_left);
    clq_launch_work(list, 1, (size_t[]){0}, (size_t[]){1}, 0, 1, 1);
    clq_launch_cost(list, 0, 0, 0, image_bytes(&framed) + image_bytes(c));
}

/* ---- by windows ---- */

static void window_weight_gradient(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value dz,
                                   clq_value winner, clq_value dw) {
    const clq_conv2d_problem *c = &p->conv;
    size_t all = clq_ceil_div(c->out_c, vector_of(list)), vectors = CLQ_MIN(all, (size_t)2),
           panels = clq_ceil_div(all, vectors), groups = clq_device_min_groups(clq_list_device(list));
    tile t = choose_tile(c->kernel_w * c->in_c, c->kernel_h, clq_conv_pool_registers(list) / vectors - 4);
    clq_product product = product_of(p, dw);
    size_t slices =
        clq_product_slices(list, &product.patches, c->out_c, clq_ceil_div(groups, t.tiles * panels), TERMS_LEAST);
    clq_kernel_options options = clq_conv_pool_options(p);
    clq_options_add(&options, "-DWINNERS -DTL=%zu -DTR=%zu -DNR=%zu -DSLICES=%zu", t.across, t.down, vectors, slices);
    clq_value sums = clq_product_partial(list, &product, slices);
    clq_launch_begin(list, "weight gradient", "conv_pool", options.text, "outer_of_winners");
    CLQ_LAUNCH_READS(list, frames, dz, winner);
    clq_launch_value(list, sums, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 3, (size_t[]){t.tiles, panels, slices}, (size_t[]){1, 1, 1}, -1, 0, 0);
    size_t places = p->pool.size_h * p->pool.size_w, pooled = p->pool.out_h * p->pool.out_w * c->out_c;
    clq_launch_cost(list, 0, flops_of(p) * (double)places, (double)(depth_of(c) * c->out_c) * sizeof(float),
                    image_bytes(c) + (double)pooled * 5);
    clq_product_reduce(list, &product, sums, slices);
}

void clq_conv_pool_backward(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value x, clq_value w,
                            clq_value dz, clq_value winner, clq_value dx, clq_value dw) {
    const clq_conv2d_problem *c = &p->conv;
    if (c->in_c % vector_of(list) == 0) {
        lists l = make_lists(list, p, dz, winner);
        list_weight_gradient(list, p, &l, frames, dw);
        if (dx) list_input_gradient(list, p, &l, w, dx, frames != x);
    } else if (!dx) {
        window_weight_gradient(list, p, frames, dz, winner, dw);
    } else {
        clq_value full = clq_list_value(list, CLQ_VALUE_SCRATCH, "gradient before pooling", 0,
                                        c->out_h * c->out_w * c->out_c * sizeof(float));
        clq_pool2d_backward(list, &p->pool, CLQ_NO_VALUE, dz, winner, full);
        clq_conv2d_backward(list, c, x, w, full, dx, dw);
    }
}
