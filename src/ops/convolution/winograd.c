/* Winograd's products for convolutions: chooses whether and how to use them. Also has what the families share. */
#include "ops/convolution/winograd.h"

static bool axis_fits(const clq_axis *a, bool turned, size_t stride, size_t spread) {
    const bool begins = spread == 1 || (a->first >= 0 && a->first < CLQ_WINOGRAD_TAPS);
    return a->taps == CLQ_WINOGRAD_TAPS && a->step == (int)stride && a->divide == (int)spread &&
           a->tap == (turned ? -1 : 1) && begins;
}

bool clq_winograd_taps_fit(const clq_product *p, size_t stride, size_t spread) {
    return axis_fits(&p->patches.h, p->transposed, stride, spread) &&
           axis_fits(&p->patches.w, p->transposed, stride, spread);
}

const clq_winograd_size clq_winograd_sizes[CLQ_WINOGRAD_SIZES] = {{.name = "winograd",
                                                                   .side = 2,
                                                                   .stride = 1,
                                                                   .spread = 1,
                                                                   .lines = 4,
                                                                   .products = CLQ_WINOGRAD_PRODUCTS,
                                                                   .taps = CLQ_WINOGRAD_PRODUCTS,
                                                                   .channels_most = 1024,
                                                                   .pixels_least = 256,
                                                                   .transform = 100,
                                                                   .outer_transform = 220},
                                                                  {.name = "wide winograd",
                                                                   .side = 4,
                                                                   .stride = 1,
                                                                   .spread = 1,
                                                                   .lines = 6,
                                                                   .products = 36,
                                                                   .taps = 36,
                                                                   .channels_most = 512,
                                                                   .pixels_least = 576,
                                                                   .transform = 650,
                                                                   .outer_transform = 700},
                                                                  {.name = "strided winograd",
                                                                   .side = 4,
                                                                   .stride = 2,
                                                                   .spread = 1,
                                                                   .lines = 9,
                                                                   .products = 81,
                                                                   .taps = 36,
                                                                   .channels_most = 512,
                                                                   .pixels_least = 576,
                                                                   .transform = 1800,
                                                                   .outer_transform = 1400},
                                                                  {.name = "strided winograd",
                                                                   .side = 8,
                                                                   .stride = 1,
                                                                   .spread = 2,
                                                                   .lines = 9,
                                                                   .products = 81,
                                                                   .taps = 36,
                                                                   .channels_most = 256,
                                                                   .pixels_least = 2304,
                                                                   .transform = 1800}};

/* With a spread, the first tile begins before the first output. Returns how far. */
static size_t begin_of(const clq_axis *a) { return a->divide > 1 ? (size_t)a->first : 0; }

clq_winograd_tiles clq_winograd_tiles_of(const clq_winograd_size *size, const clq_product *p) {
    const clq_patches *q = &p->patches;
    return (clq_winograd_tiles){clq_ceil_div(q->h.out + begin_of(&q->h), size->side),
                                clq_ceil_div(q->w.out + begin_of(&q->w), size->side), q->h.out * q->w.out};
}

const clq_winograd_size *clq_winograd_select(clq_list *list, clq_choice *choice, const clq_winograd_size *best,
                                             const bool fits[CLQ_WINOGRAD_SIZES]) {
    if (best) clq_choice_add(choice, true, (uint32_t)(best - clq_winograd_sizes), best->name);
    if (!best) clq_choice_add(choice, false, 0, "direct");
    for (size_t i = 0; i < CLQ_WINOGRAD_SIZES; i++)
        if (fits[i]) clq_choice_add(choice, true, (uint32_t)i, clq_winograd_sizes[i].name);
    clq_choice_add(choice, false, 0, "direct"); /* if selected, the plain sum makes further choices */
    const struct clq_candidate *chosen = clq_list_select(list, choice);
    return chosen->values[0] ? &clq_winograd_sizes[chosen->values[1]] : NULL;
}

/* ---- the tile family ---- */

/* The rule's size. NULL: the plain sum, which skips taps in the padding, is known to be as fast. */
static const clq_winograd_size *best_of(const clq_list *list, const clq_product *p, size_t sizes) {
    const clq_patches *q = &p->patches;
    const size_t pixels = q->h.out * q->w.out, reached = CLQ_MIN(pixels, q->h.in * q->w.in);
    const clq_winograd_size *best = NULL;
    double least = (double)(q->h.taps * q->w.taps * reached);
    for (size_t i = 0; i < sizes; i++) {
        const clq_winograd_size *size = &clq_winograd_sizes[i];
        if (!clq_winograd_tile_fits(list, size, p) || pixels * clq_list_capacity(list) < size->pixels_least) continue;
        const double cost = clq_winograd_tile_cost(size, p);
        if (cost > least) continue;
        least = cost;
        best = size;
    }
    return best;
}

/* Returns the selected size, or NULL for the plain sum. sizes: how many of clq_winograd_sizes may be taken, from the
 * first on. */
static const clq_winograd_size *choose_size(clq_list *list, const clq_product *p, const char *what, size_t sizes,
                                            clq_choice *choice) {
    bool fits[CLQ_WINOGRAD_SIZES] = {false}, any = false;
    for (size_t i = 0; i < sizes; i++) any |= fits[i] = clq_winograd_tile_fits(list, &clq_winograd_sizes[i], p);
    if (!any) return NULL;
    clq_product_start_choice(choice, list, what, p);
    return clq_winograd_select(list, choice, best_of(list, p, sizes), fits);
}

static bool add_tiles(clq_list *list, const clq_product *p, clq_choice *choice) {
    const clq_winograd_size *size = choose_size(list, p, "conv", CLQ_WINOGRAD_SIZES, choice);
    if (size) clq_winograd_tile_add(list, size, p, NULL, CLQ_NO_VALUE);
    return size;
}

bool clq_winograd_pool(clq_list *list, const clq_product *p, const clq_pool2d_problem *pool, clq_value winner,
                       clq_choice *choice) {
    if (clq_list_family(list) != CLQ_FAMILY_TILE || pool->size_h != 2 || pool->size_w != 2) return false;
    const clq_winograd_size *size = choose_size(list, p, "pooled conv", 1, choice); /* a tile is a window */
    if (size) clq_winograd_tile_add(list, size, p, pool, winner);
    return size;
}

/* ---- the local family ---- */

static bool add_blocks(clq_list *list, const clq_product *p, clq_choice *choice) {
    if (!clq_winograd_taps_fit(p, 1, 1) || !clq_winograd_local_fits(list, p)) return false;
    const clq_winograd_tiles tiles = clq_winograd_tiles_of(&clq_winograd_sizes[0], p);
    clq_product_start_choice(choice, list, "conv", p);
    if (clq_winograd_local_pays(list, p, &tiles)) clq_choice_add(choice, true, CLQ_WINOGRAD_BLOCK_BY_RULE, "winograd");
    clq_choice_add(choice, false, 0, "direct");
    clq_choice_add(choice, true, CLQ_WINOGRAD_BLOCK_BY_RULE, "winograd");
    for (size_t i = 0; i < CLQ_WINOGRAD_BLOCKS; i++) {
        char name[CLQ_CANDIDATE_BYTES];
        clq_winograd_block_name(i, name);
        clq_choice_add_named(choice, list, true, (uint32_t)i, name);
    }
    const struct clq_candidate *chosen = clq_list_select(list, choice);
    return chosen->values[0] && clq_winograd_local_add(list, p, &tiles, chosen->values[1]);
}

bool clq_winograd_rows(clq_list *list, const clq_product *p, clq_choice *choice) {
    return clq_list_family(list) == CLQ_FAMILY_LOCAL ? add_blocks(list, p, choice) : add_tiles(list, p, choice);
}

/* ---- shared by the families ---- */

/* How many zeros lie before the input's first place, as seen by the first tap. The taps of a gradient are in reverse
 * order. */
static int pad_of(const clq_axis *a) {
    if (a->divide > 1) return 1;
    return a->tap < 0 ? CLQ_WINOGRAD_TAPS - 1 - a->first : -a->first;
}

clq_kernel_options clq_winograd_options(const clq_product *p, const clq_winograd_tiles *tiles) {
    clq_kernel_options options = {.length = 0};
    const clq_patches *q = &p->patches;
    clq_options_add(&options,
                    "-DIN_H=%zu -DIN_W=%zu -DIN_C=%zu -DOUT_H=%zu -DOUT_W=%zu -DCOLUMNS=%zu -DTILES_H=%zu "
                    "-DTILES_W=%zu -DPAD_TOP=%d -DPAD_LEFT=%d -DFIRST_H=%zu -DFIRST_W=%zu -DACT=%d%s ",
                    q->h.in, q->w.in, q->channels, q->h.out, q->w.out, p->columns, tiles->h, tiles->w, pad_of(&q->h),
                    pad_of(&q->w), begin_of(&q->h), begin_of(&q->w), (int)p->activation, p->bias ? " -DBIAS" : "");
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
