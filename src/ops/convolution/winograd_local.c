/* Winograd's F(2x2, 3x3) for devices with work-groups and local memory (cl/winograd_local.cl): whether to use it, and
 * in which block. */
#include "ops/local/local.h"
#include "ops/product/product_local.h"
#include "ops/convolution/winograd.h"

#include <math.h>
#include <stdio.h>

enum {
    SUM_CHANNELS = 256,   /* are summed before they are added to y: rounding errors are larger than in a plain sum */
    CHANNELS_LEAST = 32,  /* of input and output: with fewer, memory and not arithmetic takes the time */
    CHANNELS_BEFORE = 16, /* what starting and ending a block costs, in channels. A product's block takes four times as
                             many channels, for four times as many outputs, and without their transform */
    LAUNCH = 1 << 20,     /* the cost of the weights' transform: some microseconds, in multiplications of a unit */
    TRANSFORM = 128, /* per tile and channel: loads and stores count as two multiplications each, besides 32 sums */
    WEIGHT = 2       /* per transformed weight, on its way to local memory */
};

/* From large to small. An item's results are 8 x 8, 8 x 4, 8 x 4 and 4 x 4. Half of a group's items transform inputs:
 * in each step, such an item has one tile in one channel (tiles x depth). The last block is for devices with small
 * work-groups. */
static const clq_winograd_block blocks[CLQ_WINOGRAD_BLOCKS] = {
    {32, 32, 4, 4}, {32, 16, 4, 4}, {16, 16, 2, 4}, {8, 8, 2, 2}};

const clq_winograd_block *clq_winograd_block_get(size_t index) { return &blocks[index]; }

void clq_winograd_block_name(size_t index, char name[CLQ_CANDIDATE_BYTES]) {
    (void)snprintf(name, CLQ_CANDIDATE_BYTES, "winograd %zux%zu", blocks[index].tiles, blocks[index].columns);
}

static size_t items_of(const clq_winograd_block *b) {
    return CLQ_WINOGRAD_PRODUCTS * b->group_tiles * b->group_columns;
}

/* The channels of a step. */
static size_t depth_of(const clq_winograd_block *b) { return items_of(b) / 2 / b->tiles; }

static bool block_fits(const clq_device_info *info, const clq_winograd_block *b) {
    size_t bytes = 2 * CLQ_WINOGRAD_PRODUCTS * depth_of(b) * (b->tiles + b->columns) * sizeof(float);
    return items_of(b) <= info->max_work_group && bytes <= info->local_mem_bytes;
}

static const clq_device_info *info_of(const clq_list *list) { return clq_device_get_info(clq_list_device(list)); }

bool clq_winograd_local_fits(const clq_list *list, const clq_product *p) {
    if (clq_is_short(list, p->a) || clq_is_short(list, p->b) || clq_is_short(list, p->c)) return false;
    return block_fits(info_of(list), &blocks[CLQ_WINOGRAD_BLOCKS - 1]);
}

/* ---- choosing ---- */

/* The estimated time. The items transform, then multiply, and read local memory for it. Reading a number counts as two
 * multiplications. */
static double time_of(const clq_list *list, const clq_product *p, const clq_winograd_tiles *tiles,
                      const clq_winograd_block *b) {
    double all = (double)(tiles->h * tiles->w) * clq_list_capacity(list);
    double groups = clq_local_ceil(all, (double)b->tiles) * (double)clq_ceil_div(p->columns, b->columns);
    size_t channels = clq_round_up(p->patches.channels, depth_of(b)) + CHANNELS_BEFORE;
    size_t reads = b->tiles * b->group_columns + b->columns * b->group_tiles;
    size_t products = CLQ_WINOGRAD_PRODUCTS * (b->tiles * b->columns + 2 * reads);
    size_t work = products + TRANSFORM * b->tiles + WEIGHT * CLQ_WINOGRAD_PRODUCTS * b->columns;
    return LAUNCH + clq_local_time(info_of(list), groups, items_of(b), (double)(work * channels));
}

/* Sets the time of each block, INFINITY if it cannot be used. Returns the least time. */
static double times_of(const clq_list *list, const clq_product *p, const clq_winograd_tiles *tiles,
                       double times[CLQ_WINOGRAD_BLOCKS]) {
    const clq_device_info *info = info_of(list);
    double least = INFINITY;
    for (size_t i = 0; i < CLQ_WINOGRAD_BLOCKS; i++) {
        const clq_winograd_block *b = &blocks[i];
        size_t results = CLQ_WINOGRAD_PRODUCTS * b->tiles * b->columns;
        bool can = results <= clq_local_results_most(info) * items_of(b) && block_fits(info, b);
        times[i] = can ? time_of(list, p, tiles, b) : INFINITY;
        least = CLQ_MIN(least, times[i]);
    }
    return least;
}

bool clq_winograd_local_pays(const clq_list *list, const clq_product *p, const clq_winograd_tiles *tiles) {
    double times[CLQ_WINOGRAD_BLOCKS];
    return p->patches.channels >= CHANNELS_LEAST && p->columns >= CHANNELS_LEAST &&
           times_of(list, p, tiles, times) < clq_product_local_time(list, p);
}

/* Returns CLQ_WINOGRAD_BLOCKS if no block works. */
static size_t choose(const clq_list *list, const clq_product *p, const clq_winograd_tiles *tiles) {
    double times[CLQ_WINOGRAD_BLOCKS];
    (void)times_of(list, p, tiles, times);
    return clq_local_choose(clq_list_device(list), times, CLQ_WINOGRAD_BLOCKS, clq_winograd_block_works, NULL);
}

/* ---- launches ---- */

static clq_value transform_weights(clq_list *list, const clq_product *p, const clq_winograd_block *b,
                                   const char *options, size_t floats) {
    size_t columns = clq_round_up(p->columns, b->columns), channels = clq_round_up(p->patches.channels, depth_of(b));
    clq_value to = clq_winograd_weights(list, p, "winograd_local", "winograd_local_weights", options, floats);
    clq_launch_work(list, 2, (size_t[]){columns, channels}, (size_t[]){b->columns, depth_of(b)}, -1, 0, 0);
    clq_launch_cost(list, 0, 0, (double)(clq_patches_depth(&p->patches) * p->columns + floats) * sizeof(float), 0);
    return to;
}

bool clq_winograd_local_add(clq_list *list, const clq_product *p, const clq_winograd_tiles *tiles, size_t block) {
    size_t index = block < CLQ_WINOGRAD_BLOCKS ? block : choose(list, p, tiles), all = tiles->h * tiles->w;
    if (index == CLQ_WINOGRAD_BLOCKS) return false;
    const clq_winograd_block *b = &blocks[index];
    size_t panels = clq_ceil_div(p->columns, b->columns), items = items_of(b);
    size_t floats = CLQ_WINOGRAD_PRODUCTS * panels * b->columns * clq_round_up(p->patches.channels, depth_of(b));
    clq_kernel_options options = clq_winograd_options(p, tiles), of_block = {.length = 0};
    clq_options_add(&of_block, "-DBM=%zu -DBN=%zu -DBK=%zu -DGM=%zu -DGN=%zu", b->tiles, b->columns, depth_of(b),
                    b->group_tiles, b->group_columns);
    clq_value weights = transform_weights(list, p, b, of_block.text, floats);
    clq_options_add(&options, "%s -DSUM=%zu%s", of_block.text, SUM_CHANNELS / depth_of(b),
                    info_of(list)->type == CLQ_DEVICE_CPU ? " -DROLLED" : "");
    clq_launch_begin(list, p->label, "winograd_local", options.text, "winograd_local");
    CLQ_LAUNCH_READS(list, p->a, weights, p->bias);
    clq_launch_value(list, p->c, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 2, (size_t[]){panels * items, 0}, (size_t[]){items, 1}, 1, all, b->tiles);
    double sums = (double)(tiles->pixels * p->columns);
    clq_winograd_cost(list, p, sums, sums * sizeof(float), floats);
    return true;
}
