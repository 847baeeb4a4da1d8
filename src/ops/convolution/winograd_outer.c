/* Weights' gradients by Winograd's F(3x3, 2x2) and F(3x3, 4x4) on devices whose work-items are whole cores
 * (cl/winograd_outer.cl). */
#include "ops/convolution/winograd.h"

enum {
    BLOCK_TILES = 64,    /* whose transforms stay in a core's caches, and which make a long sum in registers */
    CHANNELS_MOST = 128, /* of the input, that a work-item takes */
    GROUPS_PER_UNIT = 2, /* work-items that even out the cores' loads */
    TILES_LEAST = 256,   /* of a slice: fewer do not pay for reading its sums again */
    SUMS_BYTES_MOST = 32 << 20,
};

/* By the side of a tile of outputs. transform_cost: of a tile in one channel of input or output, measured, in
 * multiplications. */
typedef struct kind {
    const char *name;
    size_t side, products, transform_cost;
} kind;
static const kind kinds[] = {{"winograd", 2, CLQ_WINOGRAD_PRODUCTS, 220},
                             {"wide winograd", 4, CLQ_WINOGRAD_WIDE_PRODUCTS, 700}};

typedef struct cut {
    size_t vectors, rows, channels, slices;
} cut;

static clq_winograd_tiles tiles_of(const kind *k, const clq_product *p) {
    const clq_patches *q = &p->patches;
    return (clq_winograd_tiles){clq_ceil_div(q->h.out, k->side), clq_ceil_div(q->w.out, k->side), q->h.out * q->w.out};
}

static size_t sums_bytes(const kind *k, const clq_product *p) { /* of a slice */
    return k->products * p->patches.channels * p->columns * sizeof(float);
}

/* Two vectors of columns are enough for as many multiplications per load as a core can do. Accumulators leave room for
 * a row of gradients and one input. */
static cut cut_of(const clq_list *list, const kind *k, const clq_product *p) {
    const clq_winograd_tiles tiles = tiles_of(k, p);
    size_t vector = clq_list_vector(list), all = p->columns / vector, registers = vector >= 16 ? 32 : 16;
    cut c = {.vectors = all % 2 == 0 ? 2 : all % 3 == 0 ? 3 : 1};
    c.channels = vector * clq_winograd_part(p->patches.channels / vector, CHANNELS_MOST / vector);
    c.rows = clq_winograd_part(c.channels, (registers - 1 - c.vectors) / c.vectors);
    size_t groups = clq_device_min_groups(clq_list_device(list)) * GROUPS_PER_UNIT,
           parts = p->patches.channels / c.channels;
    size_t most =
        CLQ_MIN(tiles.h * tiles.w * clq_list_capacity(list) / TILES_LEAST, SUMS_BYTES_MOST / sums_bytes(k, p));
    c.slices = CLQ_MAX(CLQ_MIN(clq_ceil_div(groups, parts), most), (size_t)1);
    return c;
}

static bool fits(const clq_list *list, const kind *k, const clq_product *p) {
    size_t vector = clq_list_vector(list);
    return clq_list_family(list) == CLQ_FAMILY_TILE && p->patches.rows == 1 && p->patches.channels % vector == 0 &&
           p->columns % vector == 0 && sums_bytes(k, p) <= SUMS_BYTES_MOST && clq_winograd_taps_fit(p);
}

/* Multiplications, and what transforms take in place of as many. */
static double cost_of(const clq_list *list, const kind *k, const clq_product *p) {
    const clq_winograd_tiles tiles = tiles_of(k, p);
    const cut c = cut_of(list, k, p);
    const double cost = (double)k->transform_cost;
    return (double)(tiles.h * tiles.w) * ((double)k->products + cost / (double)c.channels + cost / (double)p->columns);
}

/* Against a plain sum that leaves out what taps meet in the padding. */
static bool pays(const clq_list *list, const kind *k, const clq_product *p) {
    const clq_patches *q = &p->patches;
    const clq_winograd_tiles tiles = tiles_of(k, p);
    const size_t reached = CLQ_MIN(tiles.pixels, q->h.in * q->w.in);
    return tiles.h * tiles.w * clq_list_capacity(list) >= TILES_LEAST &&
           cost_of(list, k, p) <= (double)(q->h.taps * q->w.taps * reached);
}

/* NULL: neither pays. */
static const kind *best_of(const clq_list *list, const clq_product *p) {
    const kind *best = NULL;
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++)
        if (fits(list, &kinds[i], p) && pays(list, &kinds[i], p) &&
            (!best || cost_of(list, &kinds[i], p) < cost_of(list, best, p)))
            best = &kinds[i];
    return best;
}

static void add_gradient(clq_list *list, const kind *k, const clq_product *p, const cut *c, clq_value sums) {
    const size_t floats = p->patches.channels * p->columns, vector = clq_list_vector(list);
    clq_kernel_options options = {.length = 0};
    clq_options_add(&options, "-DGRADIENT -DSIDE=%zu -DIN_C=%zu -DCOLUMNS=%zu -DNR=%zu -DSLICES=%zu%s ", k->side,
                    p->patches.channels, p->columns, c->vectors, c->slices, p->adds ? " -DADDS" : "");
    clq_options_storage(&options, list, "TO", p->c);
    clq_launch_begin(list, "reduce", "winograd_outer", options.text, "winograd_gradient");
    clq_launch_value(list, sums, CLQ_READS);
    clq_launch_value(list, p->c, p->adds ? CLQ_READS_WRITES : CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_SUM_FACTOR);
    clq_launch_work(list, 2, (size_t[]){p->patches.channels / vector, p->columns / (c->vectors * vector)},
                    (size_t[]){1, 1}, -1, 0, 0);
    const size_t terms = k->products * c->slices;
    clq_launch_cost(list, (double)(floats * terms), 0, (double)(floats * (terms + 9 + 9 * p->adds)) * sizeof(float), 0);
}

bool clq_winograd_outer(clq_list *list, const clq_product *p, clq_choice *choice) {
    const clq_patches *q = &p->patches;
    if (!fits(list, &kinds[0], p)) return false;
    clq_product_start_choice(choice, list, "conv weights", p);
    const kind *best = best_of(list, p);
    if (best) clq_choice_add(choice, true, (uint32_t)(best - kinds), best->name);
    clq_choice_add(choice, false, 0, "direct");
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++)
        if (fits(list, &kinds[i], p)) clq_choice_add(choice, true, (uint32_t)i, kinds[i].name);
    const struct clq_candidate *chosen = clq_list_select(list, choice);
    if (!chosen->values[0]) return false;

    const kind *k = &kinds[chosen->values[1]];
    const clq_winograd_tiles tiles = tiles_of(k, p);
    cut c = cut_of(list, k, p);
    clq_value sums =
        clq_list_scratch(list, "sums of products", CLQ_F32, c.slices * k->products * q->channels * p->columns, 0);
    clq_kernel_options options = clq_winograd_options(p, &tiles);
    clq_options_add(&options, "-DNR=%zu -DMR=%zu -DCHANNELS=%zu -DAT_ONCE=1 -DBLOCK=%d -DSLICES=%zu -DSIDE=%zu ",
                    c.vectors, c.rows, c.channels, BLOCK_TILES, c.slices, k->side);
    clq_product_add_storage(&options, list, p->a, p->b, sums);
    clq_launch_begin(list, p->label, "winograd_outer", options.text, "winograd_outer");
    CLQ_LAUNCH_READS(list, p->a, p->b);
    clq_launch_value(list, sums, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 2, (size_t[]){q->channels / c.channels, c.slices}, (size_t[]){1, 1}, -1, 0, 0);
    clq_product_cost(list, p);
    add_gradient(list, k, p, &c, sums);
    return true;
}
