/* Winograd's F(2x2, 3x3) for convolutions on devices whose work-items are whole cores (cl/winograd.cl). */
#include "ops/winograd.h"

#include <assert.h>
#include <stdio.h>

enum {
    TAPS = 3,
    TRANSFORM_COST = 100,      /* of a tile in one channel of input or output, measured, in multiplications */
    PRODUCTS = 16,             /* of a tile and channel */
    SCRATCH_BYTES = 192 << 10, /* for the transformed inputs of a block of tiles: of a core's second-level cache */
    BLOCK_TILES = 24,
    ROW_VECTORS = 12,     /* that are summed side by side, in each of two sums */
    BLOCKS_PER_GROUP = 2, /* that even out the cores' loads */
    PIXELS_LEAST = 256    /* that the transformed weights serve */
};

/* vectors: of channels at a time; rows: tiles at a time; block: tiles from transform to output. */
typedef struct cut {
    size_t vectors, rows, block;
} cut;

static size_t vector_of(const clq_list *list) { return clq_device_vector(clq_list_device(list)); }

/* Two vectors of channels are enough for as many multiplications per load as a core can do. As many rows as have room
 * for two accumulators a vector, a row of weights and one input. */
static cut cut_of(const clq_list *list, const clq_rows_product *p, size_t tiles) {
    clq_device *device = clq_list_device(list);
    size_t vector = vector_of(list), all = p->columns / vector, registers = vector >= 16 ? 32 : 16;
    cut c = {.vectors = all % 2 == 0 ? 2 : all % 3 == 0 ? 3 : 1};
    c.rows = CLQ_MIN((size_t)ROW_VECTORS, (registers - 1 - c.vectors) / 2) / c.vectors;
    size_t groups = clq_device_min_groups(device) * BLOCKS_PER_GROUP;
    size_t most = CLQ_MIN((size_t)BLOCK_TILES, SCRATCH_BYTES / (PRODUCTS * p->patches.channels * sizeof(float)));
    size_t wanted = CLQ_MIN(most, tiles * clq_list_capacity(list) / groups);
    c.block = CLQ_MAX(wanted / c.rows, (size_t)1) * c.rows;
    return c;
}

static bool axis_fits(const clq_axis *a, bool turned) {
    return a->taps == TAPS && a->step == 1 && a->divide == 1 && a->tap == (turned ? -1 : 1);
}

bool clq_winograd_fits(const clq_list *list, const clq_rows_product *p) {
    const clq_patches *q = &p->patches;
    size_t vector = vector_of(list), channels_most = SCRATCH_BYTES / (PRODUCTS * ROW_VECTORS * sizeof(float));
    return clq_list_family(list) == CLQ_FAMILY_TILE && axis_fits(&q->h, p->transposed) &&
           axis_fits(&q->w, p->transposed) && q->channels % vector == 0 && p->columns % vector == 0 &&
           q->channels <= channels_most;
}

/* Against a plain sum that leaves out what taps meet in the padding. */
bool clq_winograd_pays(const clq_list *list, const clq_rows_product *p, size_t tiles, size_t pixels) {
    const clq_patches *q = &p->patches;
    double transforms = TRANSFORM_COST / (double)q->channels + TRANSFORM_COST / (double)p->columns;
    size_t reached = CLQ_MIN(pixels, q->h.in * q->w.in);
    return pixels * clq_list_capacity(list) >= PIXELS_LEAST &&
           (double)tiles * (PRODUCTS + transforms) <= (double)(TAPS * TAPS * reached);
}

static bool chosen(clq_list *list, const clq_rows_product *p, const char *what, size_t tiles, size_t pixels,
                   clq_question *question) {
    clq_conv_variant variant = clq_list_conv(list);
    if (variant == CLQ_CONV_DIRECT || !clq_winograd_fits(list, p)) return false;
    if (variant == CLQ_CONV_WINOGRAD) return true;
    if (clq_list_product(list) != CLQ_PRODUCT_AUTO) return false;
    clq_product_question(question, list, what, &p->patches, p->columns, p->transposed);
    if (clq_winograd_pays(list, p, tiles, pixels)) clq_question_add(question, true, 0, "winograd");
    clq_question_add(question, false, 0, "direct");
    clq_question_add(question, true, 0, "winograd");
    return clq_list_ask(list, question)->values[0];
}

/* Zeros in front of the input's first place, as the first of the taps meets it; those of a gradient are turned. */
static int pad_of(const clq_axis *a) { return a->tap < 0 ? TAPS - 1 - a->first : -a->first; }

static clq_value transform_weights(clq_list *list, const clq_rows_product *p, const cut *c) {
    size_t channels = p->patches.channels, vector = vector_of(list), floats = channels * p->columns;
    char options[CLQ_PRODUCT_OPTIONS];
    (void)snprintf(options, sizeof options, "-DWEIGHTS -DIN_C=%zu -DCOLUMNS=%zu -DNR=%zu%s", channels, p->columns,
                   c->vectors, p->transposed ? " -DTRANSPOSED" : "");
    clq_value to = clq_list_value(list, CLQ_VALUE_SCRATCH, "transformed weights", PRODUCTS * floats * sizeof(float), 0);
    clq_launch_begin(list, "transform", "winograd", options, "winograd_weights");
    clq_launch_value(list, p->w, CLQ_READS);
    clq_launch_value(list, to, CLQ_WRITES);
    clq_launch_work(list, 2, (size_t[]){channels / vector, p->columns / vector}, (size_t[]){1, 1}, -1, 0, 0);
    clq_launch_cost(list, 0, 0, (double)((TAPS * TAPS + PRODUCTS) * floats) * sizeof(float), 0);
    return to;
}

/* pool NULL: all outputs. Arithmetic is counted as of the plain sum. */
static void add(clq_list *list, const clq_rows_product *p, size_t tiles_h, size_t tiles_w,
                const clq_pool2d_problem *pool, clq_value winner) {
    const clq_patches *q = &p->patches;
    size_t tiles = tiles_h * tiles_w;
    cut c = cut_of(list, p, tiles);
    clq_value weights = transform_weights(list, p, &c);
    char options[CLQ_PRODUCT_OPTIONS];
    int length =
        snprintf(options, sizeof options,
                 "-DIN_H=%zu -DIN_W=%zu -DIN_C=%zu -DOUT_H=%zu -DOUT_W=%zu -DCOLUMNS=%zu -DTILES_H=%zu -DTILES_W=%zu "
                 "-DSTEP_H=%zu -DSTEP_W=%zu -DPAD_TOP=%d -DPAD_LEFT=%d -DNR=%zu -DMR=%zu -DBLOCK=%zu -DACT=%d%s%s%s",
                 q->h.in, q->w.in, q->channels, q->h.out, q->w.out, p->columns, tiles_h, tiles_w,
                 pool ? pool->stride_h : 2, pool ? pool->stride_w : 2, pad_of(&q->h), pad_of(&q->w), c.vectors, c.rows,
                 c.block, (int)p->activation, p->b ? " -DBIAS" : "", pool ? " -DPOOLED" : "", winner ? " -DKEEP" : "");
    assert(length > 0 && (size_t)length < sizeof options);
    (void)length;
    clq_launch_begin(list, p->label, "winograd", options, "winograd");
    clq_launch_value(list, p->x, CLQ_READS);
    clq_launch_value(list, weights, CLQ_READS);
    clq_launch_value(list, p->b, CLQ_READS);
    clq_launch_value(list, p->y, CLQ_WRITES);
    if (pool) clq_launch_value(list, winner, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 1, (size_t[]){0}, (size_t[]){1}, 0, tiles, c.block);
    double in = (double)(q->h.in * q->w.in * q->channels), channels = (double)p->columns;
    double sums = (pool ? 4 * (double)tiles : (double)(q->h.out * q->w.out)) * channels;
    double out = pool ? (double)tiles * channels * (winner ? 5 : 4) : sums * sizeof(float);
    clq_launch_cost(list, 0, 2 * sums * (double)clq_patches_depth(q),
                    PRODUCTS * (double)q->channels * channels * sizeof(float), in * sizeof(float) + out);
}

bool clq_winograd_rows(clq_list *list, const clq_rows_product *p, clq_question *question) {
    size_t tiles_h = clq_ceil_div(p->patches.h.out, 2), tiles_w = clq_ceil_div(p->patches.w.out, 2);
    if (!chosen(list, p, "conv", tiles_h * tiles_w, p->patches.h.out * p->patches.w.out, question)) return false;
    add(list, p, tiles_h, tiles_w, NULL, CLQ_NO_VALUE);
    return true;
}

bool clq_winograd_pool(clq_list *list, const clq_rows_product *p, const clq_pool2d_problem *pool, clq_value winner,
                       clq_question *question) {
    size_t tiles = pool->out_h * pool->out_w;
    if (pool->size_h != 2 || pool->size_w != 2 || !chosen(list, p, "pooled conv", tiles, 4 * tiles, question))
        return false;
    add(list, p, pool->out_h, pool->out_w, pool, winner);
    return true;
}
