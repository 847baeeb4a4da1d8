/* Winograd's F(2x2, 3x3) for convolutions: whether one is made by it, and what both families tell their kernels. */
#include "ops/convolution/winograd.h"

static bool axis_fits(const clq_axis *a, bool turned) {
    return a->taps == CLQ_WINOGRAD_TAPS && a->step == 1 && a->divide == 1 && a->tap == (turned ? -1 : 1);
}

bool clq_winograd_taps_fit(const clq_product *p) {
    return axis_fits(&p->patches.h, p->transposed) && axis_fits(&p->patches.w, p->transposed);
}

static bool fits(const clq_list *list, const clq_product *p) {
    if (!clq_winograd_taps_fit(p)) return false;
    return clq_list_family(list) == CLQ_FAMILY_TILE ? clq_winograd_tile_fits(list, p)
                                                    : clq_winograd_local_fits(list, p);
}

static bool pays(const clq_list *list, const clq_product *p, const clq_winograd_tiles *tiles) {
    return clq_list_family(list) == CLQ_FAMILY_TILE ? clq_winograd_tile_pays(list, p, tiles)
                                                    : clq_winograd_local_pays(list, p, tiles);
}

/* *block: of the local family. */
static bool chosen(clq_list *list, const clq_product *p, const char *what, const clq_winograd_tiles *tiles,
                   clq_choice *choice, size_t *block) {
    if (!fits(list, p)) return false;
    clq_product_start_choice(choice, list, what, p);
    if (pays(list, p, tiles)) clq_choice_add(choice, true, CLQ_WINOGRAD_BLOCK_BY_RULE, "winograd");
    clq_choice_add(choice, false, 0, "direct");
    clq_choice_add(choice, true, CLQ_WINOGRAD_BLOCK_BY_RULE, "winograd");
    for (size_t i = 0; i < CLQ_WINOGRAD_BLOCKS && clq_list_family(list) == CLQ_FAMILY_LOCAL; i++) {
        char name[CLQ_CANDIDATE_BYTES];
        clq_winograd_block_name(i, name);
        clq_choice_add_named(choice, list, true, (uint32_t)i, name);
    }
    const struct clq_candidate *candidate = clq_list_select(list, choice);
    *block = candidate->values[1];
    return candidate->values[0];
}

bool clq_winograd_rows(clq_list *list, const clq_product *p, clq_choice *choice) {
    size_t out_h = p->patches.h.out, out_w = p->patches.w.out;
    const clq_winograd_tiles tiles = {clq_ceil_div(out_h, 2), clq_ceil_div(out_w, 2), out_h * out_w};
    size_t block;
    if (!chosen(list, p, "conv", &tiles, choice, &block)) return false;
    if (clq_list_family(list) == CLQ_FAMILY_LOCAL) return clq_winograd_local_add(list, p, &tiles, block);
    clq_winograd_tile_add(list, p, &tiles, NULL, CLQ_NO_VALUE);
    return true;
}

bool clq_winograd_pool(clq_list *list, const clq_product *p, const clq_pool2d_problem *pool, clq_value winner,
                       clq_choice *choice) {
    const clq_winograd_tiles tiles = {pool->out_h, pool->out_w, 4 * pool->out_h * pool->out_w};
    size_t block;
    if (clq_list_family(list) != CLQ_FAMILY_TILE || pool->size_h != 2 || pool->size_w != 2 ||
        !chosen(list, p, "pooled conv", &tiles, choice, &block))
        return false;
    clq_winograd_tile_add(list, p, &tiles, pool, winner);
    return true;
}

/* ---- shared by the families ---- */

/* Zeros in front of the input's first place, as the first of the taps meets it; those of a gradient are turned. */
static int pad_of(const clq_axis *a) { return a->tap < 0 ? CLQ_WINOGRAD_TAPS - 1 - a->first : -a->first; }

clq_kernel_options clq_winograd_options(const clq_product *p, const clq_winograd_tiles *tiles) {
    clq_kernel_options options = {.length = 0};
    const clq_patches *q = &p->patches;
    clq_options_add(&options,
                    "-DIN_H=%zu -DIN_W=%zu -DIN_C=%zu -DOUT_H=%zu -DOUT_W=%zu -DCOLUMNS=%zu -DTILES_H=%zu "
                    "-DTILES_W=%zu -DPAD_TOP=%d -DPAD_LEFT=%d -DACT=%d%s ",
                    q->h.in, q->w.in, q->channels, q->h.out, q->w.out, p->columns, tiles->h, tiles->w, pad_of(&q->h),
                    pad_of(&q->w), (int)p->activation, p->bias ? " -DBIAS" : "");
    return options;
}

clq_value clq_winograd_weights(clq_list *list, const clq_product *p, const char *file, const char *function,
                               const char *options, size_t floats) {
    clq_kernel_options all = {.length = 0};
    clq_options_add(&all, "-DWEIGHTS -DIN_C=%zu -DCOLUMNS=%zu %s%s", p->patches.channels, p->columns, options,
                    p->transposed ? " -DTRANSPOSED" : "");
    clq_options_storage(&all, list, "B", p->b);
    clq_value to = clq_list_scratch(list, "transformed weights", CLQ_F32, floats, 0);
    clq_launch_begin(list, "transform", file, all.text, function);
    clq_launch_value(list, p->b, CLQ_READS);
    clq_launch_value(list, to, CLQ_WRITES);
    return to;
}

void clq_winograd_cost(clq_list *list, const clq_product *p, double sums, double out_bytes, size_t floats) {
    const clq_patches *q = &p->patches;
    double in = (double)(q->h.in * q->w.in * q->channels);
    const double in_bytes = in * (double)clq_dtype_bytes(clq_list_storage(list, p->a));
    clq_launch_cost(list, 0, 2 * sums * (double)clq_patches_depth(q), (double)floats * sizeof(float),
                    in_bytes + out_bytes);
}
