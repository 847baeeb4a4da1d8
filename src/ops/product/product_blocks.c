/* Matrix products in blocks that fit a core's cache, packed by the kernel (cl/product_blocks.cl). For large products,
 * whose operands' rows lie too far apart to be read in place again and again, and for products whose B lies
 * transposed. */
#include "ops/product/product.h"

enum {
    SIDE_LEAST = 512, /* the least rows, columns and terms of a large product */
    B_BYTES_LEAST = 3 << 20,
    TILE_ROWS = 12,       /* per tile of a large product */
    FEW_TILE_ROWS = 8,    /* of other products: divides usual batch sizes */
    NARROW_TILE_ROWS = 6, /* with two vectors of less than 16 floats: there are 16 registers */
    BLOCK_ROWS = 256,     /* with as many terms: a quarter of a second-level cache of 1 MiB */
    BLOCK_COLUMNS = 1024, /* before A is packed again */
    BLOCK_TERMS = 256,    /* a panel of these terms and two vectors stays in a first-level cache */
    OWN_TERMS = 512,      /* of a panel that a work-item packs for itself, for few rows */
    BLOCKS_PER_UNIT = 8   /* to balance the cores' loads */
};

typedef struct blocks {
    const clq_product *p;
    bool packed;        /* A is packed, and B in a launch before */
    bool a_packed;      /* A is packed; also if A is stored in 16 bits, and has to become floats */
    size_t rows, terms; /* of a full batch */
    size_t tile_rows, tile_vectors, block_rows, block_columns, block_terms;
} blocks;

/* n in equal parts of at most `most`, which are multiples of `unit`. */
static size_t even_part(size_t n, size_t most, size_t unit) {
    return clq_round_up(clq_ceil_div(n, clq_ceil_div(n, most)), unit);
}

static size_t rows_of(const clq_list *list, const clq_product *p) {
    return p->outer ? p->patches.channels : p->patches.rows * clq_list_capacity(list);
}

static size_t terms_of(const clq_list *list, const clq_product *p) {
    return p->outer ? p->patches.rows * clq_list_capacity(list) : p->patches.channels;
}

bool clq_product_is_large(const clq_list *list, const clq_product *p) {
    size_t rows = rows_of(list, p), terms = terms_of(list, p);
    return rows >= SIDE_LEAST && p->columns >= SIDE_LEAST && terms >= SIDE_LEAST &&
           (double)terms * (double)p->columns * sizeof(float) >= B_BYTES_LEAST;
}

/* Chooses the blocks: enough to keep all cores busy, but none smaller than a row of tiles. */
static void choose_blocks(const clq_list *list, blocks *b) {
    clq_device *device = clq_list_device(list);
    size_t vector = clq_list_vector(list), all = clq_ceil_div(b->p->columns, vector), width;
    b->tile_vectors = CLQ_MIN(all, (size_t)2);
    size_t most = b->packed ? TILE_ROWS : FEW_TILE_ROWS;
    b->tile_rows = CLQ_MIN(vector < 16 ? CLQ_MIN(most, (size_t)NARROW_TILE_ROWS) : most, b->rows);
    width = b->tile_vectors * vector;
    b->block_terms = even_part(b->terms, b->a_packed ? BLOCK_TERMS : OWN_TERMS, vector);
    size_t down = clq_ceil_div(b->rows, BLOCK_ROWS), across = clq_ceil_div(b->p->columns, BLOCK_COLUMNS);
    size_t units = clq_device_get_info(device)->compute_units,
           wanted = clq_device_runs_in_caller(device) ? 1 : units * BLOCKS_PER_UNIT;
    while (down * across < wanted && clq_ceil_div(b->p->columns, across) > (b->packed ? 4 * width : width)) across *= 2;
    while (down * across < wanted && clq_ceil_div(b->rows, down) > 4 * b->tile_rows) down *= 2;
    b->block_rows = even_part(b->rows, clq_ceil_div(b->rows, down), b->tile_rows);
    b->block_columns = even_part(b->p->columns, clq_ceil_div(b->p->columns, across), width);
}

/* Adds the launch that packs B into panels of the tiles' width. */
static clq_value add_panels(clq_list *list, const blocks *b, const char *options) {
    size_t width = b->tile_vectors * clq_list_vector(list);
    size_t floats = b->terms * clq_round_up(b->p->columns, width);
    clq_value panels = clq_list_scratch(list, "panels", CLQ_F32, floats, 0);
    clq_launch_begin(list, "pack", "product_blocks", options, "product_panels");
    clq_launch_value(list, b->p->b, CLQ_READS);
    clq_launch_value(list, panels, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_product_add_matrix(list, b->p);
    clq_launch_work(list, 2, (size_t[]){clq_ceil_div(b->terms, b->block_terms), clq_ceil_div(b->p->columns, width)},
                    (size_t[]){1, 1}, -1, 0, 0);
    clq_launch_cost(list, 0, 0, (double)(b->terms * b->p->columns + floats) * sizeof(float), 0);
    return panels;
}

/* Memory for the sums of earlier blocks of terms, since a 16-bit C would round them. None if there is only one block of
 * terms. */
static clq_value add_sums(clq_list *list, const blocks *b) {
    if (b->block_terms >= b->terms) return CLQ_NO_VALUE;
    size_t of_all = b->p->outer ? b->rows * b->p->columns : 0,
           of_one = b->p->outer ? 0 : b->p->patches.rows * b->p->columns;
    return clq_list_scratch(list, "partial sums", CLQ_F32, of_all, of_one);
}

/* Only sizes of a work-item's private memory are compiled into the program. */
static clq_kernel_options options_of(const clq_list *list, const blocks *b) {
    const clq_product *p = b->p;
    clq_kernel_options options = clq_product_matrix_options(list, p, 0);
    clq_options_add(&options, "-DMR=%zu -DNR=%zu -DKC=%zu -DACT=%d%s%s%s%s%s", b->tile_rows, b->tile_vectors,
                    b->a_packed ? b->block_terms : (size_t)OWN_TERMS, (int)p->activation, p->bias ? " -DBIAS" : "",
                    p->outer ? " -DA_TRANSPOSED" : "", p->transposed ? " -DB_TRANSPOSED" : "",
                    b->packed ? " -DPANELS" : "", p->adds ? " -DADDS" : "");
    if (b->a_packed) clq_options_add(&options, " -DA_PACKED -DMC=%zu", b->block_rows);
    if (clq_device_has_quirk(clq_list_device(list), CLQ_QUIRK_COMPILES_PREFETCH))
        clq_options_add(&options, " -DPREFETCH");
    clq_product_add_storage(&options, list, p->a, p->b, p->c);
    return options;
}

void clq_product_by_blocks(clq_list *list, const clq_product *p, bool packed) {
    blocks b = {.p = p,
                .packed = packed,
                .a_packed = packed || clq_is_short(list, p->a),
                .rows = rows_of(list, p),
                .terms = terms_of(list, p)};
    choose_blocks(list, &b);
    const clq_kernel_options options = options_of(list, &b);
    clq_value right = packed ? add_panels(list, &b, options.text) : p->b;
    clq_launch_begin(list, p->label, "product_blocks", options.text, "product_blocks");
    CLQ_LAUNCH_READS(list, p->a, right, p->bias);
    clq_launch_value(list, p->c, p->adds ? CLQ_READS_WRITES : CLQ_WRITES);
    if (clq_is_short(list, p->c)) clq_launch_value(list, add_sums(list, &b), CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_param(list, CLQ_PARAM_SUM_FACTOR);
    clq_product_add_matrix(list, p);
    CLQ_LAUNCH_SIZES(list, b.block_rows, b.block_columns, b.block_terms);
    size_t down = clq_ceil_div(b.rows, b.block_rows), across = clq_ceil_div(p->columns, b.block_columns);
    clq_launch_work(list, 2, (size_t[]){down, across}, (size_t[]){1, 1}, p->outer ? -1 : 0, p->patches.rows,
                    b.block_rows);
    clq_product_cost(list, p);
}
