/* Winograd's products for convolutions on devices whose work-items are whole cores (cl/winograd_tile.cl). */
#include "ops/convolution/winograd.h"

enum {
    BLOCK_TILES = 96,
    ROW_VECTORS = 12,              /* summed side by side, in each of two sums */
    WEIGHTS_BYTES_KEPT = 16 << 20, /* transformed weights that a processor's caches keep from block to block */
};

/* own_bytes: the most bytes of a block's transformed inputs and outputs, which a core's second-level cache keeps.
 * channels: the most channels of the output that are computed from the inputs at a time. blocks: how many blocks a
 * launch has. If `few`, at most this many, unless such blocks would exceed own_bytes. Otherwise at least this many. */
typedef struct plan {
    size_t own_bytes, channels, blocks;
    bool few;
} plan;

/* Many blocks balance the cores' loads. But weights that no cache keeps are read from memory for each block. And with a
 * stride or spread of 2, there are few tiles for as many weights. In both cases, blocks are few, and as large as the
 * cache allows. */
static plan plan_of(const clq_list *list, const clq_winograd_size *size, const clq_product *p) {
    clq_device *device = clq_list_device(list);
    const size_t weights = size->taps * p->patches.channels * p->columns * sizeof(float);
    if (weights <= WEIGHTS_BYTES_KEPT && size->stride == 1 && size->spread == 1)
        return (plan){256 << 10, 128, 2 * clq_device_min_groups(device), false};
    const size_t cores = clq_device_runs_in_caller(device) ? 1 : clq_device_get_info(device)->compute_units;
    return (plan){512 << 10, 256, 2 * cores, true};
}

/* vectors: how many vectors of channels at a time. rows: how many tiles at a time. block: tiles that a work-item takes
 * from transform to output. group: channels of the output at a time. at_once: columns of transformed inputs kept at a
 * time. */
typedef struct cut {
    size_t vectors, rows, block, group, at_once;
} cut;

/* Two vectors of channels are enough for as many multiplications per load as a core can do. The number of rows leaves
 * room for two accumulators per vector, a row of weights and one input. */
static cut cut_of(const clq_list *list, const clq_winograd_size *size, const clq_product *p, size_t tiles) {
    const plan how = plan_of(list, size, p);
    size_t vector = clq_list_vector(list), all = p->columns / vector, registers = vector >= 16 ? 32 : 16;
    cut c = {.vectors = all % 2 == 0 ? 2 : all % 3 == 0 ? 3 : 1};
    c.rows = CLQ_MIN((size_t)ROW_VECTORS, (registers - 1 - c.vectors) / 2) / c.vectors;
    const size_t width = c.vectors * vector, panels = p->columns / width;
    /* in: bytes of a column of a tile's inputs. of_channel: bytes of a tile's outputs in one channel. fit: the channels
     * with which `rows` tiles have room. */
    const size_t in = size->lines * p->patches.channels * sizeof(float), room = how.own_bytes / c.rows,
                 of_channel = size->side * size->side * sizeof(float), fit = room > in ? (room - in) / of_channel : 0;
    c.group = width * clq_winograd_part(panels, CLQ_MAX(CLQ_MIN(how.channels, fit) / width, (size_t)1));
    const size_t out = c.group * of_channel;
    const bool all_fit = size->side == 2 && BLOCK_TILES * (size->lines * in + out) <= how.own_bytes;
    c.at_once = all_fit ? size->lines : 1;
    const size_t rows_of_all = how.blocks * c.rows, all_tiles = tiles * clq_list_capacity(list);
    const size_t most = CLQ_MIN((size_t)BLOCK_TILES, how.own_bytes / (c.at_once * in + out)) / c.rows;
    const size_t share = how.few ? clq_ceil_div(all_tiles, rows_of_all) : all_tiles / rows_of_all;
    c.block = CLQ_MAX(CLQ_MIN(most, share), (size_t)1) * c.rows;
    return c;
}

bool clq_winograd_tile_fits(const clq_list *list, const clq_winograd_size *size, const clq_product *p) {
    const clq_patches *q = &p->patches;
    size_t vector = clq_list_vector(list);
    return q->channels % vector == 0 && p->columns % vector == 0 && q->channels <= size->channels_most &&
           clq_winograd_taps_fit(p, size->stride, size->spread);
}

double clq_winograd_tile_cost(const clq_winograd_size *size, const clq_product *p) {
    const clq_winograd_tiles tiles = clq_winograd_tiles_of(size, p);
    const double transforms = size->transform / (double)p->patches.channels + size->transform / (double)p->columns;
    return (double)(tiles.h * tiles.w) * ((double)size->products + transforms);
}

static clq_value transform_weights(clq_list *list, const clq_winograd_size *size, const clq_product *p, const cut *c) {
    size_t channels = p->patches.channels, vector = clq_list_vector(list), floats = channels * p->columns;
    size_t transformed = size->taps * floats;
    clq_kernel_options options = {.length = 0};
    clq_options_add(&options, "-DSIDE=%zu -DSTRIDE=%zu%s -DNR=%zu", size->side, size->stride,
                    size->spread > 1 ? " -DSPREAD" : "", c->vectors);
    clq_value to = clq_winograd_weights(list, p, "winograd_tile", "winograd_tile_weights", options.text, transformed);
    clq_launch_work(list, 2, (size_t[]){channels / vector, p->columns / vector}, (size_t[]){1, 1}, -1, 0, 0);
    clq_launch_cost(list, 0, 0, (double)(clq_patches_depth(&p->patches) * p->columns + transformed) * sizeof(float), 0);
    return to;
}

void clq_winograd_tile_add(clq_list *list, const clq_winograd_size *size, const clq_product *p,
                           const clq_pool2d_problem *pool, clq_value winner) {
    const clq_patches *q = &p->patches;
    /* A pool may leave out the last row or column of its input. */
    const clq_winograd_tiles tiles = pool
                                         ? (clq_winograd_tiles){pool->out_h, pool->out_w, 4 * pool->out_h * pool->out_w}
                                         : clq_winograd_tiles_of(size, p);
    size_t all = tiles.h * tiles.w;
    cut c = cut_of(list, size, p, all);
    clq_value weights = transform_weights(list, size, p, &c);
    clq_kernel_options options = clq_winograd_options(p, &tiles);
    clq_options_add(&options,
                    "-DSIDE=%zu -DSTRIDE=%zu%s -DSTEP_H=%zu -DSTEP_W=%zu -DNR=%zu -DMR=%zu -DBLOCK=%zu -DCHANNELS=%zu "
                    "-DGROUP=%zu -DAT_ONCE=%zu%s%s",
                    size->side, size->stride, size->spread > 1 ? " -DSPREAD" : "", pool ? pool->stride_h : size->side,
                    pool ? pool->stride_w : size->side, c.vectors, c.rows, c.block, q->channels, c.group, c.at_once,
                    pool ? " -DPOOLED" : "", winner ? " -DKEEP" : "");
    clq_product_add_storage(&options, list, p->a, weights, p->c);
    clq_launch_begin(list, p->label, "winograd_tile", options.text, "winograd_tile");
    CLQ_LAUNCH_READS(list, p->a, weights, p->bias);
    clq_launch_value(list, p->c, CLQ_WRITES);
    if (pool) clq_launch_value(list, winner, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 1, (size_t[]){0}, (size_t[]){1}, 0, all, c.block);
    double channels = (double)p->columns, sums = (double)tiles.pixels * channels;
    const double number = (double)clq_dtype_bytes(clq_list_storage(list, p->c));
    double out = pool ? (double)all * channels * (number + (winner ? 1 : 0)) : sums * number;
    clq_winograd_cost(list, p, sums, out, size->taps * q->channels * p->columns);
}
