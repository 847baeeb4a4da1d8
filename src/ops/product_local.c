/* Products for devices with work-groups and local memory (cl/product_local.cl): which block, into how many slices. */
#include "ops/product_local.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    PAD = 4,           /* as in the kernel */
    LONG_SUM = 1024,   /* is put aside in C after so many terms */
    TERMS_LEAST = 128, /* of a slice: adding it up later costs about a tenth of it */
    WAVE = 64,         /* items that run in step, or more than do: a smaller group takes the time of so many */
    TERMS_BEFORE = 64, /* what starting and ending a block costs, as terms of its sum */
    PARTIAL_BYTES_MOST = 32 << 20
};

/* From large to small. An item's 8 x 8 results need 16 numbers of local memory for 64 multiplications, but about 128
 * registers; 4 x 4 need 8 for 16, and half the registers. The narrow ones are for layers with few outputs and for few
 * rows, the last two for devices whose work-groups are small. */
static const clq_local_block blocks[CLQ_LOCAL_BLOCKS] = {
    {128, 128, 8, 16, 16}, {128, 64, 8, 16, 8}, {64, 64, 16, 8, 16}, {64, 32, 16, 16, 8}, {128, 16, 16, 32, 4},
    {16, 128, 16, 4, 32},  {32, 32, 16, 8, 8},  {16, 16, 16, 4, 4},  {4, 4, 16, 1, 1},
};

/* What is known of a kind of device without having measured it. Registers are as compilers reported them. */
typedef struct traits {
    const char *driver; /* of clq_device_info */
    size_t results;     /* of an item, at most: what its registers hold beside the numbers on their way */
    size_t unit_items;  /* that keep a compute unit busy */
} traits;

static const traits known[] = {
    /* 65,536 registers to a unit: two groups of 256 items with 128 each. Four schedulers with two warps */
    {"nvidia", 64, 256},
    /* at least as many registers; four SIMDs with waves of up to 64 */
    {"amd", 64, 256},
    /* a unit is one of many small ones: 4 KiB of registers to a thread of 8 or 16 items, up to 8 threads */
    {"intel", 32, 64},
    /* nothing is known: few registers, small units */
    {"", 32, 128},
};

static const traits *traits_of(const clq_device_info *info) {
    size_t i = 0;
    while (known[i].driver[0] && strcmp(known[i].driver, info->driver) != 0) i++;
    return &known[i];
}

const clq_local_block *clq_local_block_get(size_t index) { return &blocks[index]; }

static size_t items_of(const clq_local_block *b) { return b->group_rows * b->group_columns; }

bool clq_local_block_fits(const clq_device *device, const clq_local_block *b) {
    const clq_device_info *info = clq_device_get_info(device);
    size_t bytes = 2 * b->depth * (b->rows + b->columns + 2 * (size_t)PAD) * sizeof(float);
    return items_of(b) <= info->max_work_group && bytes <= info->local_mem_bytes;
}

/* ---- choosing ---- */

/* C (rows, columns), a sum of so many terms. */
typedef struct extent {
    double rows, columns, terms;
} extent;

typedef struct choice {
    size_t block, slices, slice_terms; /* terms of a slice: whole steps */
} choice;

static double ceil_of(double a, double b) {
    double whole = (double)(uint64_t)(a / b);
    return whole * b < a ? whole + 1 : whole;
}

/* Work-groups of the block that keep a compute unit busy. */
static size_t groups_of_unit(const clq_device_info *info, const clq_local_block *b) {
    return clq_ceil_div(traits_of(info)->unit_items, clq_round_up(items_of(b), WAVE));
}

static double places(const clq_device_info *info, const clq_local_block *b) {
    return (double)CLQ_MAX(info->compute_units, 1u) * (double)groups_of_unit(info, b);
}

static choice cut(const clq_device_info *info, size_t index, const extent *e) {
    const clq_local_block *b = &blocks[index];
    double groups = ceil_of(e->rows, (double)b->rows) * ceil_of(e->columns, (double)b->columns);
    double wanted = (double)(uint64_t)(places(info, b) / groups);
    double most = CLQ_MIN(e->terms / TERMS_LEAST, PARTIAL_BYTES_MOST / (e->rows * e->columns * sizeof(float)));
    double slices = CLQ_MAX(CLQ_MIN(wanted, most), 1.0);
    size_t share = (size_t)ceil_of(e->terms, (double)(size_t)slices);
    share = clq_round_up(share, b->depth);
    return (choice){index, (size_t)ceil_of(e->terms, (double)share), share};
}

/* In units of a multiplication by one item: rounds of work-groups, each as long as its items' multiplications and what
 * they read of local memory for them, a number being two multiplications. */
static double time_of(const clq_device_info *info, const choice *c, const extent *e) {
    const clq_local_block *b = &blocks[c->block];
    double groups = ceil_of(e->rows, (double)b->rows) * ceil_of(e->columns, (double)b->columns) * (double)c->slices;
    double unit = (double)groups_of_unit(info, b), items = (double)items_of(b);
    double reads = (double)(b->rows * b->group_columns + b->columns * b->group_rows);
    double step = ((double)(b->rows * b->columns) + 2 * reads) * (double)clq_round_up(items_of(b), WAVE) / items;
    return ceil_of(groups, places(info, b)) * unit * step * ((double)c->slice_terms + TERMS_BEFORE);
}

static choice choose(clq_list *list, const extent *e) {
    clq_device *device = clq_list_device(list);
    const clq_device_info *info = clq_device_get_info(device);
    size_t forced = clq_list_local_block(list);
    if (forced != CLQ_LOCAL_BLOCK_AUTO) return cut(info, forced, e);
    bool refused[CLQ_LOCAL_BLOCKS] = {false};
    for (;;) {
        choice best = {CLQ_LOCAL_BLOCKS, 1, 0};
        double least = 0;
        for (size_t i = 0; i < CLQ_LOCAL_BLOCKS; i++) {
            const clq_local_block *b = &blocks[i];
            if (refused[i] || b->rows * b->columns > traits_of(info)->results * items_of(b)) continue;
            if (!clq_local_block_fits(device, b)) continue;
            choice c = cut(info, i, e);
            double time = time_of(info, &c, e);
            if (best.block < CLQ_LOCAL_BLOCKS && time >= least) continue;
            best = c;
            least = time;
        }
        /* The smallest is tried when it runs: there is no other. */
        if (best.block == CLQ_LOCAL_BLOCKS) return cut(info, CLQ_LOCAL_BLOCKS - 1, e);
        if (info->type == CLQ_DEVICE_CPU || clq_local_block_works(device, best.block)) return best;
        refused[best.block] = true;
    }
}

/* ---- launches ---- */

static void add_options(const clq_list *list, const clq_patches *p, size_t columns, const choice *c, const char *more,
                        char options[CLQ_PRODUCT_OPTIONS]) {
    const clq_local_block *b = &blocks[c->block];
    bool matrix = clq_patches_are_matrix(p), cpu = clq_device_get_info(clq_list_device(list))->type == CLQ_DEVICE_CPU;
    bool padded = clq_axis_padded(&p->h) || clq_axis_padded(&p->w) || p->h.divide > 1 || p->w.divide > 1;
    size_t used = clq_patches_options(p, columns, options, CLQ_PRODUCT_OPTIONS);
    int length = snprintf(options + used, CLQ_PRODUCT_OPTIONS - used,
                          "-DBM=%zu -DBN=%zu -DBK=%zu -DGM=%zu -DGN=%zu -DSLICES=%zu%s%s%s", b->rows, b->columns,
                          b->depth, b->group_rows, b->group_columns, c->slices,
                          matrix   ? " -DMATRIX"
                          : padded ? " -DPADDED"
                                   : "",
                          more, cpu ? " -DROLLED" : "");
    assert(length > 0 && used + (size_t)length < CLQ_PRODUCT_OPTIONS);
    used += (size_t)length;
    if (c->slice_terms <= LONG_SUM) return;
    length = snprintf(options + used, CLQ_PRODUCT_OPTIONS - used, " -DBLOCKED=%d", LONG_SUM);
    assert(length > 0 && used + (size_t)length < CLQ_PRODUCT_OPTIONS);
}

/* y = act(the slices' sum + bias). */
static void join(clq_list *list, const clq_rows_product *p, const char *options, clq_value partial, size_t slices) {
    enum { GROUP = 64 };
    size_t most = clq_device_get_info(clq_list_device(list))->max_work_group;
    size_t group = CLQ_MIN((size_t)GROUP, most), wide = p->columns % 4 == 0 ? 4 : p->columns % 2 == 0 ? 2 : 1;
    size_t floats = p->patches.rows * p->patches.h.out * p->patches.w.out * p->columns;
    clq_launch_begin(list, "join", "product_local", options, "product_join");
    clq_launch_value(list, partial, CLQ_READS);
    clq_launch_value(list, p->b, CLQ_READS);
    clq_launch_value(list, p->y, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 1, (size_t[]){0}, (size_t[]){group}, 0, floats / wide, group);
    clq_launch_cost(list, 0, (double)(floats * (slices - 1)), 0, (double)(floats * (slices + 1)) * sizeof(float));
}

void clq_product_rows_local(clq_list *list, const clq_rows_product *p) {
    size_t pixels = p->patches.rows * p->patches.h.out * p->patches.w.out;
    extent e = {(double)pixels * clq_list_capacity(list), (double)p->columns, (double)clq_patches_depth(&p->patches)};
    choice c = choose(list, &e);
    const clq_local_block *b = &blocks[c.block];
    char options[CLQ_PRODUCT_OPTIONS], more[64];
    (void)snprintf(more, sizeof more, " -DSHARE=%zu -DACT=%d%s%s", c.slice_terms, (int)p->activation,
                   p->b ? " -DBIAS" : "", p->transposed ? " -DB_TRANSPOSED" : "");
    add_options(list, &p->patches, p->columns, &c, more, options);
    clq_value to = p->y;
    if (c.slices > 1)
        to = clq_list_value(list, CLQ_VALUE_SCRATCH, "partial sums", 0, c.slices * pixels * p->columns * sizeof(float));
    clq_launch_begin(list, p->label, "product_local", options, "product_rows");
    clq_launch_value(list, p->x, CLQ_READS);
    clq_launch_value(list, p->w, CLQ_READS);
    clq_launch_value(list, p->b, CLQ_READS);
    clq_launch_value(list, to, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    size_t panels = clq_ceil_div(p->columns, b->columns);
    clq_launch_work(list, 3, (size_t[]){panels * b->group_columns, 0, c.slices},
                    (size_t[]){b->group_columns, b->group_rows, 1}, 1, pixels, b->rows);
    clq_product_cost(list, &p->patches, p->columns);
    if (c.slices > 1) join(list, p, options, to, c.slices);
}

void clq_product_outer_local(clq_list *list, const clq_outer_product *p) {
    const clq_patches *q = &p->patches;
    size_t depth = clq_patches_depth(q);
    double pixels = (double)(q->rows * q->h.out * q->w.out) * clq_list_capacity(list);
    choice c = choose(list, &(extent){(double)depth, (double)p->columns, pixels});
    const clq_local_block *b = &blocks[c.block];
    char options[CLQ_PRODUCT_OPTIONS];
    add_options(list, q, p->columns, &c, " -DOUTER", options);
    clq_value partial = clq_product_partial(list, p, c.slices);
    clq_launch_begin(list, p->label, "product_local", options, "product_outer");
    clq_launch_value(list, p->x, CLQ_READS);
    clq_launch_value(list, p->dz, CLQ_READS);
    clq_launch_value(list, partial, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    size_t panels = clq_ceil_div(p->columns, b->columns), tiles = clq_ceil_div(depth, b->rows);
    clq_launch_work(list, 3, (size_t[]){panels * b->group_columns, tiles * b->group_rows, c.slices},
                    (size_t[]){b->group_columns, b->group_rows, 1}, -1, 0, 0);
    clq_product_cost(list, q, p->columns);
    clq_product_reduce(list, p, partial, c.slices);
}
