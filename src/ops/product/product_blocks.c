/* Matrix products in blocks that fit a core's cache, packed on the way (BLOCKS in cl/product_tile.cl): large ones,
 * whose operands' rows lie too far apart to be read in place again and again, and those whose B lies transposed. */
#include "ops/product/product.h"

#include <assert.h>
#include <stdio.h>

enum {
    SIDE_LEAST = 512, /* of a large product */
    B_BYTES_LEAST = 3 << 20,
    TILE_ROWS = 12,       /* of a large product */
    FEW_TILE_ROWS = 8,    /* of another: divides usual batches */
    NARROW_TILE_ROWS = 6, /* by two vectors of less than 16 floats: there are 16 registers */
    BLOCK_ROWS = 256,     /* by as many terms: a quarter of a second-level cache of 1 MiB */
    BLOCK_COLUMNS = 1024, /* before A is packed again */
    BLOCK_TERMS = 256,    /* a panel of that many and two vectors stays in a first-level cache */
    OWN_TERMS = 512,      /* of a work-item's own panel, for few rows */
    BLOCKS_PER_UNIT = 8   /* that even out the cores' loads */
};

typedef struct blocks {
    const char *label;
    const clq_patches *matrix;
    size_t columns;
    bool a_transposed, b_transposed;
    bool large; /* A is packed, and B beforehand */
    clq_activation activation;
    clq_value a, b, bias, c;
    size_t rows, terms; /* at a full batch */
    size_t tile_rows, tile_vectors, block_rows, block_columns, block_terms;
} blocks;

/* n in equal parts of at most `most`, which are multiples of `unit`. */
static size_t even_part(size_t n, size_t most, size_t unit) {
    return clq_round_up(clq_ceil_div(n, clq_ceil_div(n, most)), unit);
}

bool clq_product_is_large(size_t rows, size_t columns, size_t terms) {
    return rows >= SIDE_LEAST && columns >= SIDE_LEAST && terms >= SIDE_LEAST &&
           (double)terms * (double)columns * sizeof(float) >= B_BYTES_LEAST;
}

/* As many blocks as keep all cores busy, none smaller than a row of tiles. */
static void choose_blocks(const clq_list *list, blocks *b) {
    clq_device *device = clq_list_device(list);
    size_t vector = clq_device_vector(device), all = clq_ceil_div(b->columns, vector), width;
    b->tile_vectors = CLQ_MIN(all, (size_t)2);
    size_t most = b->large ? TILE_ROWS : FEW_TILE_ROWS;
    b->tile_rows = CLQ_MIN(vector < 16 ? CLQ_MIN(most, (size_t)NARROW_TILE_ROWS) : most, b->rows);
    width = b->tile_vectors * vector;
    b->block_terms = even_part(b->terms, b->large ? BLOCK_TERMS : OWN_TERMS, vector);
    size_t down = clq_ceil_div(b->rows, BLOCK_ROWS), across = clq_ceil_div(b->columns, BLOCK_COLUMNS);
    size_t units = clq_device_get_info(device)->compute_units,
           wanted = clq_device_runs_in_caller(device) ? 1 : units * BLOCKS_PER_UNIT;
    while (down * across < wanted && clq_ceil_div(b->columns, across) > (b->large ? 4 * width : width)) across *= 2;
    while (down * across < wanted && clq_ceil_div(b->rows, down) > 4 * b->tile_rows) down *= 2;
    b->block_rows = even_part(b->rows, clq_ceil_div(b->rows, down), b->tile_rows);
    b->block_columns = even_part(b->columns, clq_ceil_div(b->columns, across), width);
}

/* B as panels of the tiles' width. */
static clq_value add_panels(clq_list *list, const blocks *b, const char *options) {
    size_t width = b->tile_vectors * clq_device_vector(clq_list_device(list));
    size_t bytes = b->terms * clq_round_up(b->columns, width) * sizeof(float);
    clq_value panels = clq_list_value(list, CLQ_VALUE_SCRATCH, "panels", bytes, 0);
    clq_launch_begin(list, "pack", "product_tile", options, "product_panels");
    clq_launch_value(list, b->b, CLQ_READS);
    clq_launch_value(list, panels, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 2, (size_t[]){clq_ceil_div(b->terms, b->block_terms), clq_ceil_div(b->columns, width)},
                    (size_t[]){1, 1}, -1, 0, 0);
    clq_launch_cost(list, 0, 0, (double)(b->terms * b->columns * sizeof(float) + bytes), 0);
    return panels;
}

static void add_blocks(clq_list *list, blocks *b) {
    choose_blocks(list, b);
    char options[CLQ_PRODUCT_OPTIONS];
    size_t used = clq_patches_options(b->matrix, b->columns, options, sizeof options);
    int length =
        snprintf(options + used, sizeof options - used,
                 "-DBLOCKS -DMR=%zu -DNR=%zu -DMC=%zu -DNC=%zu -DKC=%zu -DACT=%d%s%s%s%s%s", b->tile_rows,
                 b->tile_vectors, b->block_rows, b->block_columns, b->block_terms, (int)b->activation,
                 b->bias ? " -DBIAS" : "", b->a_transposed ? " -DA_TRANSPOSED" : "",
                 b->b_transposed ? " -DB_TRANSPOSED" : "", b->large ? " -DPANELS -DA_PACKED" : "",
                 clq_device_has_quirk(clq_list_device(list), CLQ_QUIRK_COMPILES_PREFETCH) ? " -DPREFETCH" : "");
    assert(length > 0 && (size_t)length < sizeof options - used);
    (void)length;
    clq_value right = b->large ? add_panels(list, b, options) : b->b;
    clq_launch_begin(list, b->label, "product_tile", options, "product_blocks");
    clq_launch_value(list, b->a, CLQ_READS);
    clq_launch_value(list, right, CLQ_READS);
    clq_launch_value(list, b->bias, CLQ_READS);
    clq_launch_value(list, b->c, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    size_t across = clq_ceil_div(b->columns, b->block_columns);
    if (b->a_transposed)
        clq_launch_work(list, 2, (size_t[]){clq_ceil_div(b->rows, b->block_rows), across}, (size_t[]){1, 1}, -1, 0, 0);
    else
        clq_launch_work(list, 2, (size_t[]){0, across}, (size_t[]){1, 1}, 0, b->matrix->rows, b->block_rows);
    clq_product_cost(list, b->matrix, b->columns);
}

void clq_product_rows_blocks(clq_list *list, const clq_rows_product *p, bool packed) {
    add_blocks(list, &(blocks){
                         .label = p->label,
                         .matrix = &p->patches,
                         .columns = p->columns,
                         .b_transposed = p->transposed,
                         .large = packed,
                         .activation = p->activation,
                         .a = p->x,
                         .b = p->w,
                         .bias = p->b,
                         .c = p->y,
                         .rows = p->patches.rows * clq_list_capacity(list),
                         .terms = p->patches.channels,
                     });
}

void clq_product_outer_blocks(clq_list *list, const clq_outer_product *p) {
    add_blocks(list, &(blocks){
                         .label = p->label,
                         .matrix = &p->patches,
                         .columns = p->columns,
                         .a_transposed = true,
                         .large = true,
                         .activation = CLQ_LINEAR,
                         .a = p->x,
                         .b = p->dz,
                         .c = p->dw,
                         .rows = p->patches.channels,
                         .terms = p->patches.rows * clq_list_capacity(list),
                     });
}
