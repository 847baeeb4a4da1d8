/* Winograd's products for convolutions: whether one is made by them, by which, and what all tell their kernels. */
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

/* The kernels that are known to be the fastest, as the choice has them; NULL: those of the plain sum. */
static const char *best_of(const clq_list *list, const clq_product *p, const clq_winograd_tiles *tiles, bool wide,
                           size_t *which) {
    *which = CLQ_WINOGRAD_BLOCK_BY_RULE;
    if (clq_list_family(list) != CLQ_FAMILY_TILE) return clq_winograd_local_pays(list, p, tiles) ? "winograd" : NULL;
    const clq_patches *q = &p->patches;
    const double plain = (double)(q->h.taps * q->w.taps * CLQ_MIN(tiles->pixels, q->h.in * q->w.in)),
                 narrow = clq_winograd_tile_cost(p, tiles);
    enum { PIXELS_LEAST = 256 }; /* that the transformed weights serve */
    if (tiles->pixels * clq_list_capacity(list) < PIXELS_LEAST) return NULL;
    if (wide && clq_winograd_wide_cost(p) < CLQ_MIN(narrow, plain)) {
        *which = CLQ_WINOGRAD_WIDE;
        return "wide winograd";
    }
    return narrow <= plain ? "winograd" : NULL;
}

/* *which: by which kernels. pooled: with the windows' maxima. */
static bool chosen(clq_list *list, const clq_product *p, bool pooled, const clq_winograd_tiles *tiles,
                   clq_choice *choice, size_t *which) {
    if (!fits(list, p)) return false;
    const bool wide = !pooled && clq_winograd_wide_fits(list, p);
    clq_product_start_choice(choice, list, pooled ? "pooled conv" : "conv", p);
    const char *best = best_of(list, p, tiles, wide, which);
    if (best) clq_choice_add(choice, true, (uint32_t)*which, best);
    clq_choice_add(choice, false, 0, "direct");
    clq_choice_add(choice, true, CLQ_WINOGRAD_BLOCK_BY_RULE, "winograd");
    if (wide) clq_choice_add(choice, true, CLQ_WINOGRAD_WIDE, "wide winograd");
    for (size_t i = 0; i < CLQ_WINOGRAD_BLOCKS && clq_list_family(list) == CLQ_FAMILY_LOCAL; i++) {
        char name[CLQ_CANDIDATE_BYTES];
        clq_winograd_block_name(i, name);
        clq_choice_add_named(choice, list, true, (uint32_t)i, name);
    }
    const struct clq_candidate *candidate = clq_list_select(list, choice);
    *which = candidate->values[1];
    return candidate->values[0];
}

bool clq_winograd_rows(clq_list *list, const clq_product *p, clq_choice *choice) {
    size_t out_h = p->patches.h.out, out_w = p->patches.w.out;
    const clq_winograd_tiles tiles = {clq_ceil_div(out_h, 2), clq_ceil_div(out_w, 2), out_h * out_w};
    size_t which;
    if (!chosen(list, p, false, &tiles, choice, &which)) return false;
    if (clq_list_family(list) == CLQ_FAMILY_LOCAL) return clq_winograd_local_add(list, p, &tiles, which);
    if (which == CLQ_WINOGRAD_WIDE)
        clq_winograd_wide_add(list, p);
    else
        clq_winograd_tile_add(list, p, &tiles, NULL, CLQ_NO_VALUE);
    return true;
}

bool clq_winograd_pool(clq_list *list, const clq_product *p, const clq_pool2d_problem *pool, clq_value winner,
                       clq_choice *choice) {
    const clq_winograd_tiles tiles = {pool->out_h, pool->out_w, 4 * pool->out_h * pool->out_w};
    size_t which;
    if (clq_list_family(list) != CLQ_FAMILY_TILE || pool->size_h != 2 || pool->size_w != 2 ||
        !chosen(list, p, true, &tiles, choice, &which))
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
