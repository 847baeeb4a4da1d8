/* Weights' gradients by Winograd's products, on devices whose work-items are whole cores (cl/winograd_outer.cl): by
 * tiles of 2x2 and 4x4 outputs, also for strides of 2. */
#include "ops/convolution/winograd.h"

enum {
    BLOCK_TILES = 64,    /* tiles whose transforms stay in a core's caches, and which make a long sum in registers */
    CHANNELS_MOST = 128, /* of the input, per work-item */
    GROUPS_PER_UNIT = 2, /* work-items to balance the cores' loads */
    PIXELS_LEAST = 1024, /* of a batch: fewer are not worth writing and reading the sums */
    TILES_LEAST = 256,   /* per slice, unless a core would have none: fewer are not worth reading the sums again */
    SUMS_BYTES_MOST = 48 << 20,
};

typedef struct cut {
    size_t vectors, rows, channels, slices;
} cut;

static size_t sums_bytes(const clq_winograd_size *size, const clq_product *p) { /* per slice */
    return size->taps * p->patches.channels * p->columns * sizeof(float);
}

/* Two vectors of columns are enough for as many multiplications per load as a core can do. The accumulators leave room
 * for a row of gradients and one input. */
static cut cut_of(const clq_list *list, const clq_winograd_size *size, const clq_product *p) {
    const clq_winograd_tiles tiles = clq_winograd_tiles_of(size, p);
    size_t vector = clq_list_vector(list), all = p->columns / vector, registers = vector >= 16 ? 32 : 16;
    cut c = {.vectors = all % 2 == 0 ? 2 : all % 3 == 0 ? 3 : 1};
    c.channels = vector * clq_winograd_part(p->patches.channels / vector, CHANNELS_MOST / vector);
    c.rows = clq_winograd_part(c.channels, (registers - 1 - c.vectors) / c.vectors);
    size_t groups = clq_device_min_groups(clq_list_device(list)) * GROUPS_PER_UNIT,
           parts = p->patches.channels / c.channels;
    clq_device *device = clq_list_device(list);
    const size_t cores = clq_device_runs_in_caller(device) ? 1 : clq_device_get_info(device)->compute_units;
    const size_t by_tiles = tiles.h * tiles.w * clq_list_capacity(list) / TILES_LEAST;
    const size_t most = CLQ_MIN(CLQ_MAX(by_tiles, cores / parts), SUMS_BYTES_MOST / sums_bytes(size, p));
    c.slices = CLQ_MAX(CLQ_MIN(clq_ceil_div(groups, parts), most), (size_t)1);
    return c;
}

static bool fits(const clq_list *list, const clq_winograd_size *size, const clq_product *p) {
    size_t vector = clq_list_vector(list);
    return clq_list_family(list) == CLQ_FAMILY_TILE && p->patches.rows == 1 && p->patches.channels % vector == 0 &&
           p->columns % vector == 0 && sums_bytes(size, p) <= SUMS_BYTES_MOST && size->spread == 1 &&
           clq_winograd_taps_fit(p, size->stride, 1);
}

/* Multiplications, with the transforms counted as multiplications. */
static double cost_of(const clq_list *list, const clq_winograd_size *size, const clq_product *p) {
    const clq_winograd_tiles tiles = clq_winograd_tiles_of(size, p);
    const cut c = cut_of(list, size, p);
    return (double)(tiles.h * tiles.w) * ((double)size->products + size->outer_transform / (double)c.channels +
                                          size->outer_transform / (double)p->columns);
}

/* Compares with a plain sum, which skips taps in the padding. */
static bool pays(const clq_list *list, const clq_winograd_size *size, const clq_product *p) {
    const clq_patches *q = &p->patches;
    const clq_winograd_tiles tiles = clq_winograd_tiles_of(size, p);
    const size_t reached = CLQ_MIN(tiles.pixels, q->h.in * q->w.in);
    return tiles.pixels * clq_list_capacity(list) >= PIXELS_LEAST &&
           cost_of(list, size, p) <= (double)(q->h.taps * q->w.taps * reached);
}

/* The fastest size. NULL: the plain sum is faster. */
static const clq_winograd_size *best_of(const clq_list *list, const clq_product *p) {
    const clq_winograd_size *best = NULL;
    for (size_t i = 0; i < CLQ_WINOGRAD_SIZES; i++) {
        const clq_winograd_size *size = &clq_winograd_sizes[i];
        if (fits(list, size, p) && pays(list, size, p) && (!best || cost_of(list, size, p) < cost_of(list, best, p)))
            best = size;
    }
    return best;
}

static void add_gradient(clq_list *list, const clq_winograd_size *size, const clq_product *p, const cut *c,
                         clq_value sums) {
    const size_t floats = p->patches.channels * p->columns, vector = clq_list_vector(list);
    clq_kernel_options options = {.length = 0};
    clq_options_add(&options, "-DGRADIENT -DSIDE=%zu -DSTRIDE=%zu -DIN_C=%zu -DCOLUMNS=%zu -DNR=%zu -DSLICES=%zu%s ",
                    size->side, size->stride, p->patches.channels, p->columns, c->vectors, c->slices,
                    p->adds ? " -DADDS" : "");
    clq_options_storage(&options, list, "TO", p->c);
    clq_launch_begin(list, "reduce", "winograd_outer", options.text, "winograd_gradient");
    clq_launch_value(list, sums, CLQ_READS);
    clq_launch_value(list, p->c, p->adds ? CLQ_READS_WRITES : CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_SUM_FACTOR);
    clq_launch_work(list, 2, (size_t[]){p->patches.channels / vector, p->columns / (c->vectors * vector)},
                    (size_t[]){1, 1}, -1, 0, 0);
    const size_t terms = size->taps * c->slices;
    clq_launch_cost(list, (double)(floats * terms), 0, (double)(floats * (terms + 9 + 9 * p->adds)) * sizeof(float), 0);
}

bool clq_winograd_outer(clq_list *list, const clq_product *p, clq_choice *choice) {
    const clq_patches *q = &p->patches;
    bool which[CLQ_WINOGRAD_SIZES], any = false;
    for (size_t i = 0; i < CLQ_WINOGRAD_SIZES; i++) any |= which[i] = fits(list, &clq_winograd_sizes[i], p);
    if (!any) return false;
    clq_product_start_choice(choice, list, "conv weights", p);
    const clq_winograd_size *size = clq_winograd_select(list, choice, best_of(list, p), which);
    if (!size) return false;

    const clq_winograd_tiles tiles = clq_winograd_tiles_of(size, p);
    cut c = cut_of(list, size, p);
    clq_value sums =
        clq_list_scratch(list, "sums of products", CLQ_F32, c.slices * size->taps * q->channels * p->columns, 0);
    clq_kernel_options options = clq_winograd_options(p, &tiles);
    clq_options_add(&options,
                    "-DNR=%zu -DMR=%zu -DCHANNELS=%zu -DAT_ONCE=1 -DBLOCK=%d -DSLICES=%zu -DSIDE=%zu -DSTRIDE=%zu ",
                    c.vectors, c.rows, c.channels, BLOCK_TILES, c.slices, size->side, size->stride);
    clq_product_add_storage(&options, list, p->a, p->b, sums);
    clq_launch_begin(list, p->label, "winograd_outer", options.text, "winograd_outer");
    CLQ_LAUNCH_READS(list, p->a, p->b);
    clq_launch_value(list, sums, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 2, (size_t[]){q->channels / c.channels, c.slices}, (size_t[]){1, 1}, -1, 0, 0);
    clq_product_cost(list, p);
    add_gradient(list, size, p, &c, sums);
    return true;
}
