/* Products for devices with work-groups: by local memory (cl/product_local.cl) or sub-groups (cl/product_subgroup.cl).
 * Chooses the block and the number of slices. */
#include "ops/product/product_local.h"

#include "ops/local/local.h"

#include <math.h>
#include <stdio.h>

enum {
    PAD = 4,           /* words after each row in local memory */
    UNIT_PAD = 8,      /* for matrix units: puts the words that a sub-group reads at a time into different banks */
    LONG_SUM = 1024,   /* terms after which a long sum is added to C */
    TERMS_LEAST = 64,  /* per slice: adding it up later costs about a fifth of it */
    TERMS_BEFORE = 64, /* what starting and ending a block costs, as terms of its sum */
    SMALLEST = 8,      /* index of the smallest block below, which fits any device */
    PARTIAL_BYTES_MOST = 32 << 20
};

/* From large to small. With local memory, an item of 8 x 8 results reads 16 numbers for 64 multiplications, but needs
 * about 128 registers. An item of 4 x 4 results reads 8 numbers for 16, and needs half the registers. The narrow blocks
 * are for layers with few outputs, and for few rows. The last two local blocks are for devices with small work-groups.
 *
 * Sub-groups of 8 and 16 items are Intel's, whose items have 128 and 64 registers. Sub-groups of 32 and 64 items are
 * AMD's, whose items have 256 registers. The results leave room for numbers in transit, so that the compilers of all
 * vendors keep everything in registers. */
static const clq_local_block blocks[CLQ_LOCAL_BLOCKS] = {
    {128, 128, 8, 16, 16, CLQ_LOCAL_ITEMS, 0, 0},      {128, 64, 8, 16, 8, CLQ_LOCAL_ITEMS, 0, 0},
    {64, 64, 16, 8, 16, CLQ_LOCAL_ITEMS, 0, 0},        {64, 32, 16, 16, 8, CLQ_LOCAL_ITEMS, 0, 0},
    {128, 16, 16, 32, 4, CLQ_LOCAL_ITEMS, 0, 0},       {16, 128, 16, 4, 32, CLQ_LOCAL_ITEMS, 0, 0},
    {32, 32, 16, 8, 8, CLQ_LOCAL_ITEMS, 0, 0},         {16, 16, 16, 4, 4, CLQ_LOCAL_ITEMS, 0, 0},
    {4, 4, 16, 1, 1, CLQ_LOCAL_ITEMS, 0, 0},           {32, 32, 8, 4, 8, CLQ_LOCAL_SUB_GROUPS, 0, 0},
    {64, 16, 8, 4, 8, CLQ_LOCAL_SUB_GROUPS, 0, 0},     {16, 16, 8, 4, 8, CLQ_LOCAL_SUB_GROUPS, 0, 0},
    {32, 32, 16, 4, 16, CLQ_LOCAL_SUB_GROUPS, 0, 0},   {16, 32, 16, 4, 16, CLQ_LOCAL_SUB_GROUPS, 0, 0},
    {64, 128, 32, 4, 32, CLQ_LOCAL_SUB_GROUPS, 0, 0},  {32, 128, 32, 4, 32, CLQ_LOCAL_SUB_GROUPS, 0, 0},
    {128, 128, 64, 8, 64, CLQ_LOCAL_SUB_GROUPS, 0, 0}, {32, 64, 64, 4, 64, CLQ_LOCAL_SUB_GROUPS, 0, 0},
    {128, 128, 16, 16, 16, CLQ_LOCAL_DOTS, 0, 0},      {64, 64, 16, 8, 16, CLQ_LOCAL_DOTS, 0, 0},
    {128, 128, 16, 8, 32, CLQ_LOCAL_MMA, 64, 32},      {128, 64, 16, 4, 32, CLQ_LOCAL_MMA, 64, 32},
    {64, 64, 16, 4, 32, CLQ_LOCAL_MMA, 32, 32},        {32, 32, 16, 4, 32, CLQ_LOCAL_MMA, 16, 16},
    {64, 32, 16, 8, 8, CLQ_LOCAL_DPAS, 16, 16},        {64, 64, 16, 8, 16, CLQ_LOCAL_DPAS, 16, 32},
};

static const struct {
    const char *name;    /* in candidates */
    const char *file;    /* of the kernels */
    double memory_costs; /* the cost of a number that an item reads, in multiplications */
} ways[] = {
    [CLQ_LOCAL_ITEMS] = {"local", "product_local", 2}, [CLQ_LOCAL_SUB_GROUPS] = {"sub-groups", "product_subgroup", 4},
    [CLQ_LOCAL_DOTS] = {"dots", "product_local", 2},   [CLQ_LOCAL_MMA] = {"mma", "product_local", 2},
    [CLQ_LOCAL_DPAS] = {"dpas", "product_local", 2},
};

const clq_local_block *clq_local_block_get(size_t index) { return &blocks[index]; }

static size_t items_of(const clq_local_block *b) { return b->group_rows * b->group_columns; }

static bool is_unit(clq_local_way way) { return way == CLQ_LOCAL_MMA || way == CLQ_LOCAL_DPAS; }

static size_t pad_of(const clq_local_block *b) { return is_unit(b->way) ? (size_t)UNIT_PAD : (size_t)PAD; }

/* Whether the device has the unit or instruction that a block is made for, and need not imitate it. */
static bool is_native(const clq_device *device, const clq_local_block *b) {
    clq_matrix_unit unit = clq_device_matrix_unit(device);
    switch (b->way) {
    case CLQ_LOCAL_DOTS: return clq_device_has_quirk(device, CLQ_QUIRK_COMPILES_HALF_DOTS);
    case CLQ_LOCAL_MMA: return unit == CLQ_UNIT_MMA;
    case CLQ_LOCAL_DPAS: return unit == (b->group_columns == 8 ? CLQ_UNIT_DPAS8 : CLQ_UNIT_DPAS16);
    default: return true;
    }
}

/* Whether a block's kernels call sub-group functions: to exchange numbers, or to imitate a matrix unit. */
static bool calls_sub_groups(const clq_device *device, const clq_local_block *b) {
    return b->way == CLQ_LOCAL_SUB_GROUPS || (is_unit(b->way) && !is_native(device, b));
}

bool clq_local_block_fits(const clq_device *device, const clq_local_block *b) {
    const clq_device_info *info = clq_device_get_info(device);
    size_t bytes = 2 * b->depth * (b->rows + b->columns + 2 * pad_of(b)) * sizeof(float);
    bool required;
    if (items_of(b) > info->max_work_group) return false;
    if (calls_sub_groups(device, b) && !clq_device_has_sub_groups(device, b->group_columns, &required)) return false;
    return b->way == CLQ_LOCAL_SUB_GROUPS || bytes <= info->local_mem_bytes;
}

clq_dtype clq_local_factors(const clq_local_terms *terms) {
    const clq_dtype a = terms->storage[0], b = terms->storage[1];
    return a == CLQ_F32 ? b : b == CLQ_F32 || a == b ? a : CLQ_F32;
}

/* Whether a block is offered as a candidate. Tests can also name other blocks. */
static bool is_offered(const clq_device *device, const clq_local_block *b, const clq_local_terms *t) {
    const clq_device_info *info = clq_device_get_info(device);
    if (!is_native(device, b) || !clq_local_block_fits(device, b)) return false;
    const clq_dtype factors = clq_local_factors(t);
    if (b->way == CLQ_LOCAL_DOTS && factors != CLQ_F16) return false;
    if (b->way == CLQ_LOCAL_DPAS) return factors != CLQ_F32 || t->precision == CLQ_MATMUL_MEDIUM;
    if (b->way == CLQ_LOCAL_MMA) return true;
    size_t results = b->rows * b->columns / items_of(b);
    if (b->way == CLQ_LOCAL_SUB_GROUPS) return results <= clq_local_sub_group_results(info, b->group_columns);
    return results <= clq_local_results_most(info);
}

/* ---- choosing ---- */

/* C is (rows, columns). Each of its numbers is a sum of `terms` terms, at a full batch. */
typedef struct extent {
    double rows, columns, terms;
} extent;

static extent extent_of(const clq_list *list, const clq_product *p) {
    double pixels = (double)clq_patches_pixels(&p->patches) * clq_list_capacity(list);
    double depth = (double)clq_patches_depth(&p->patches);
    return (extent){p->outer ? depth : pixels, (double)p->columns, p->outer ? pixels : depth};
}

static clq_local_terms terms_of(const clq_list *list, const clq_product *p) {
    return (clq_local_terms){{clq_list_storage(list, p->a), clq_list_storage(list, p->b), clq_list_storage(list, p->c)},
                             clq_list_precision(list)};
}

typedef struct slicing {
    size_t block, slices, slice_terms; /* slice_terms: terms per slice, whole steps of the block */
} slicing;

static slicing cut(const clq_device_info *info, size_t index, const extent *e) {
    const clq_local_block *b = &blocks[index];
    double groups = clq_local_ceil(e->rows, (double)b->rows) * clq_local_ceil(e->columns, (double)b->columns);
    double wanted = (double)(uint64_t)(clq_local_places(info, items_of(b)) / groups);
    double most = CLQ_MIN(e->terms / TERMS_LEAST, PARTIAL_BYTES_MOST / (e->rows * e->columns * sizeof(float)));
    double slices = CLQ_MAX(CLQ_MIN(wanted, most), 1.0);
    size_t share = (size_t)clq_local_ceil(e->terms, (double)(size_t)slices);
    share = clq_round_up(share, b->depth);
    return (slicing){index, (size_t)clq_local_ceil(e->terms, (double)share), share};
}

/* How many numbers the items of a block read for one term of their sums. In a sub-group, a number of A is read once for
 * all items. */
static double reads_of(const clq_local_block *b) {
    double a = (double)(b->rows * (b->way == CLQ_LOCAL_SUB_GROUPS ? 1 : b->group_columns));
    return a + (double)(b->columns * b->group_rows);
}

/* The estimated time that the work-groups take to multiply, and to read the numbers for it. */
static double time_of(const clq_device_info *info, const slicing *c, const extent *e) {
    const clq_local_block *b = &blocks[c->block];
    double groups =
        clq_local_ceil(e->rows, (double)b->rows) * clq_local_ceil(e->columns, (double)b->columns) * (double)c->slices;
    double work = (double)(b->rows * b->columns) + ways[b->way].memory_costs * reads_of(b);
    return clq_local_time(info, groups, items_of(b), work * ((double)c->slice_terms + TERMS_BEFORE));
}

/* Sets the time of each block. A block that goes another way, or is not offered, gets INFINITY. Returns the least
 * time. */
static double times_of(const clq_device *device, clq_local_way way, const clq_local_terms *t, const extent *e,
                       double times[CLQ_LOCAL_BLOCKS]) {
    const clq_device_info *info = clq_device_get_info(device);
    double least = INFINITY;
    for (size_t i = 0; i < CLQ_LOCAL_BLOCKS; i++) {
        slicing c = cut(info, i, e);
        bool can = blocks[i].way == way && is_offered(device, &blocks[i], t);
        times[i] = can ? time_of(info, &c, e) : INFINITY;
        least = CLQ_MIN(least, times[i]);
    }
    return least;
}

/* Whether units may round factors. Such units are known to be several times as fast as float multiplications. */
static bool is_fast(const clq_local_terms *t) {
    return clq_local_factors(t) != CLQ_F32 || t->precision != CLQ_MATMUL_HIGHEST;
}

/* The best block that works, of the best way, by the estimated times. */
static size_t by_rule(clq_device *device, const clq_local_terms *t, const extent *e) {
    static const clq_local_way order[] = {CLQ_LOCAL_MMA, CLQ_LOCAL_DPAS, CLQ_LOCAL_DOTS, CLQ_LOCAL_ITEMS};
    for (size_t i = is_fast(t) ? 0 : CLQ_COUNT_OF(order) - 1; i < CLQ_COUNT_OF(order); i++) {
        double times[CLQ_LOCAL_BLOCKS];
        (void)times_of(device, order[i], t, e, times);
        size_t best = clq_local_choose(device, times, CLQ_LOCAL_BLOCKS, clq_local_block_works, t);
        if (best < CLQ_LOCAL_BLOCKS) return best;
    }
    return SMALLEST; /* runs untried: there is no other */
}

double clq_product_local_time(const clq_list *list, const clq_product *p) {
    double times[CLQ_LOCAL_BLOCKS];
    clq_device *device = clq_list_device(list);
    const clq_local_terms terms = terms_of(list, p), exact = {.precision = CLQ_MATMUL_HIGHEST};
    extent e = extent_of(list, p);
    if (is_fast(&terms) && is_unit(blocks[by_rule(device, &terms, &e)].way)) return 0;
    return times_of(device, CLQ_LOCAL_ITEMS, &exact, &e, times);
}

void clq_local_block_name(size_t index, char name[CLQ_CANDIDATE_BYTES]) {
    const clq_local_block *b = &blocks[index];
    char of[16] = "";
    if (b->way == CLQ_LOCAL_SUB_GROUPS) (void)snprintf(of, sizeof of, "/%zu", b->group_columns);
    (void)snprintf(name, CLQ_CANDIDATE_BYTES, "%s%s %zux%zu", ways[b->way].name, of, b->rows, b->columns);
}

static void add_candidate(clq_choice *choice, uint32_t value, size_t index) {
    char name[CLQ_CANDIDATE_BYTES];
    clq_local_block_name(index, name);
    clq_choice_add(choice, value, (uint32_t)index, "%s", name);
}

/* Adds the `most` fastest blocks, and sets their times to INFINITY. */
static void add_fastest(clq_choice *choice, uint32_t value, double times[CLQ_LOCAL_BLOCKS], size_t most) {
    for (size_t n = 0; n < most; n++) {
        size_t best = 0;
        for (size_t i = 1; i < CLQ_LOCAL_BLOCKS; i++)
            if (times[i] < times[best]) best = i;
        if (isinf(times[best])) return;
        add_candidate(choice, value, best);
        times[best] = INFINITY;
    }
}

void clq_product_add_local(const clq_list *list, clq_choice *choice, uint32_t value, const clq_product *p) {
    enum { OF_A_WAY = 3 };
    clq_device *device = clq_list_device(list);
    clq_local_terms terms = terms_of(list, p);
    extent e = extent_of(list, p);
    size_t first = by_rule(device, &terms, &e);
    add_candidate(choice, value, first);
    for (size_t way = 0; way < CLQ_COUNT_OF(ways); way++) {
        double times[CLQ_LOCAL_BLOCKS];
        (void)times_of(device, (clq_local_way)way, &terms, &e, times);
        times[first] = INFINITY;
        add_fastest(choice, value, times, OF_A_WAY - (blocks[first].way == (clq_local_way)way));
    }
}

void clq_product_add_named_blocks(const clq_list *list, clq_choice *choice, uint32_t value) {
    for (size_t i = 0; i < CLQ_LOCAL_BLOCKS; i++) {
        char name[CLQ_CANDIDATE_BYTES];
        if (!clq_local_block_fits(clq_list_device(list), &blocks[i])) continue;
        clq_local_block_name(i, name);
        clq_choice_add_named(choice, list, value, (uint32_t)i, name);
    }
}

size_t clq_local_block_that_works(const clq_list *list, size_t index, const clq_product *p) {
    clq_device *device = clq_list_device(list);
    clq_local_terms terms = terms_of(list, p);
    extent e = extent_of(list, p);
    bool trusted = clq_device_get_info(device)->type == CLQ_DEVICE_CPU; /* there are registers for every block */
    if (index < CLQ_LOCAL_BLOCKS && (trusted || clq_local_block_works(device, index, &terms))) return index;
    return by_rule(device, &terms, &e);
}

/* ---- launches ---- */

/* Options for the type of the numbers in local memory, and for what multiplies them. */
static void add_unit(const clq_device *device, const clq_local_block *b, const clq_local_terms *t,
                     clq_kernel_options *options) {
    bool mma = b->way == CLQ_LOCAL_MMA, dots = b->way == CLQ_LOCAL_DOTS, required = false;
    clq_options_add(options, " -DPAD=%zu", pad_of(b));
    if (b->way == CLQ_LOCAL_ITEMS) return;
    if (!dots) (void)clq_device_has_sub_groups(device, b->group_columns, &required);
    clq_options_add(options, "%s%s", required ? " -DREQUIRE" : "",
                    calls_sub_groups(device, b) ? " -DUSES_SUB_GROUPS" : "");
    if (b->way == CLQ_LOCAL_SUB_GROUPS) return;
    const clq_dtype factors = clq_local_factors(t);
    if (factors == CLQ_F16 || dots)
        clq_options_add(options, " -DF16");
    else if (factors == CLQ_BF16 || !mma || t->precision == CLQ_MATMUL_MEDIUM)
        clq_options_add(options, " -DBF16");
    else
        clq_options_add(options, "%s", t->precision == CLQ_MATMUL_HIGHEST ? " -DEXACT" : "");
    if (!dots)
        clq_options_add(options, " -DUNIT_%s -DWARP_M=%zu -DWARP_N=%zu", mma ? "MMA" : "DPAS", b->unit_rows,
                        b->unit_columns);
    clq_options_add(options, "%s", is_native(device, b) ? " -DUNIT_NATIVE" : "");
}

static clq_kernel_options options_of(const clq_list *list, const clq_product *p, const slicing *c) {
    const clq_device *device = clq_list_device(list);
    const clq_local_block *b = &blocks[c->block];
    const clq_local_terms terms = terms_of(list, p);
    const clq_axis *h = &p->patches.h, *w = &p->patches.w;
    bool padded = clq_axis_padded(h) || clq_axis_padded(w) || h->divide > 1 || w->divide > 1;
    clq_kernel_options options = clq_product_options(p);
    clq_options_add(&options, "-DROWS_PER_EXAMPLE=%zu -DBM=%zu -DBN=%zu -DBK=%zu -DGM=%zu -DGN=%zu -DSLICES=%zu%s%s",
                    p->patches.rows, b->rows, b->columns, b->depth, b->group_rows, b->group_columns, c->slices,
                    clq_patches_are_matrix(&p->patches) ? " -DMATRIX"
                    : padded                            ? " -DPADDED"
                                                        : "",
                    clq_device_get_info(device)->type == CLQ_DEVICE_CPU ? " -DROLLED" : "");
    add_unit(device, b, &terms, &options);
    /* A 16-bit result cannot hold intermediate sums: it would round them too much. */
    if (c->slice_terms > LONG_SUM && !(clq_is_short(list, p->c) && c->slices == 1))
        clq_options_add(&options, " -DBLOCKED=%d", LONG_SUM);
    if (p->outer)
        clq_options_add(&options, " -DOUTER");
    else
        clq_options_add(&options, " -DSHARE=%zu -DACT=%d%s%s", c->slice_terms, (int)p->activation,
                        p->bias ? " -DBIAS" : "", p->transposed ? " -DB_TRANSPOSED" : "");
    clq_product_add_storage(&options, list, p->a, p->b, p->c);
    return options;
}

/* For a rows product: c = act(the sum of the slices + bias). */
static void join(clq_list *list, const clq_product *p, const char *file, const char *options, clq_value partial,
                 size_t slices) {
    size_t wide = p->columns % 4 == 0 ? 4 : p->columns % 2 == 0 ? 2 : 1;
    size_t floats = clq_patches_pixels(&p->patches) * p->columns;
    clq_reduce_cut c = clq_product_cut_reduce(list, floats / wide * clq_list_capacity(list), slices);
    size_t group = c.across * c.rows;
    clq_launch_begin(list, "join", file, options, "product_join");
    CLQ_LAUNCH_READS(list, partial, p->bias);
    clq_launch_value(list, p->c, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_size(list, c.across);
    clq_launch_local(list, group * 4 * sizeof(float));
    clq_launch_work(list, 1, (size_t[]){0}, (size_t[]){group}, 0, floats / wide, c.across);
    clq_launch_cost(list, 0, (double)(floats * (slices - 1)), 0, (double)(floats * (slices + 1)) * sizeof(float));
}

void clq_product_by_local(clq_list *list, const clq_product *p, size_t index) {
    const clq_patches *q = &p->patches;
    extent e = extent_of(list, p);
    slicing c = cut(clq_device_get_info(clq_list_device(list)), index, &e);
    const clq_local_block *b = &blocks[c.block];
    const char *file = ways[b->way].file;
    const clq_kernel_options options = options_of(list, p, &c);
    clq_value partial = clq_product_partial(list, p, c.slices);
    clq_launch_begin(list, p->label, file, options.text, p->outer ? "product_outer" : "product_rows");
    CLQ_LAUNCH_READS(list, p->a, p->b);
    if (!p->outer) clq_launch_value(list, p->bias, CLQ_READS);
    clq_launch_value(list, partial, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    size_t panels = clq_ceil_div(p->columns, b->columns), tiles = clq_ceil_div(clq_patches_depth(q), b->rows);
    clq_launch_work(list, 3, (size_t[]){panels * b->group_columns, tiles * b->group_rows, c.slices},
                    (size_t[]){b->group_columns, b->group_rows, 1}, p->outer ? -1 : 1, clq_patches_pixels(q), b->rows);
    clq_product_cost(list, p);
    if (p->outer)
        clq_product_reduce(list, p, partial, c.slices);
    else if (c.slices > 1)
        join(list, p, file, options.text, partial, c.slices);
}
