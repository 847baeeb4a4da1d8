/* Products as register tiles (cl/product_tile.cl): chooses the shape of the tiles, and what is packed or padded
 * before. */
#include "ops/product/product.h"

#include <stdlib.h>

enum {
    BLOCK_TERMS = 512, /* terms of a long sum before they are added to its total */
    LONG_SUM = 1024,
    FEW_CHANNELS = 16, /* with fewer channels, padding a whole image costs less than a check at every tap */
    MATRIX_ROWS = 8,   /* per tile: divides usual batch sizes */
    TILE_ROWS_MOST = 14,
    VECTORS_MOST = 4,         /* across; more have no use */
    ROW_VECTORS = 8,          /* across, for a single row: it reads each number of B once, so it takes long runs */
    TILES_PER_UNIT = 8,       /* in a matrix: with fewer, tiles are made smaller, although these cost more per float */
    TERMS_LEAST = 64,         /* per slice, if slices are for more work-groups */
    CACHED_TERMS_LEAST = 512, /* per slice, if slices are for the cache */
    CACHED_BYTES = 512 << 10  /* what one slice may read: about half of a core's second-level cache */
};

typedef struct tile {
    size_t rows, vectors, width; /* width: the vectors' floats */
    size_t panels;               /* of `width` columns */
} tile;

static size_t registers(size_t vector) { return vector >= 16 ? 32 : 16; }

/* The most rows of a tile whose accumulators, a row of B and one number of A stay in registers. */
static size_t rows_most(size_t vector, size_t vectors) {
    return CLQ_MIN((registers(vector) - 1) / vectors - 1, (size_t)TILE_ROWS_MOST);
}

/* Two vectors across are enough for as many multiplications per load as a core can do. Three are taken if they waste
 * less, four if rows are few. */
static size_t vectors_across(size_t all, size_t rows_there) {
    if (all <= 3) return all;
    if (rows_there <= 4 && all % 4 == 0) return 4;
    return all % 2 != 0 && all % 3 == 0 ? 3 : 2;
}

/* n in equal parts of at most `most`. */
static size_t even_part(size_t n, size_t most) { return clq_ceil_div(n, clq_ceil_div(n, most)); }

static void set_vectors(tile *t, size_t vector, size_t vectors, size_t columns) {
    t->vectors = vectors;
    t->width = vectors * vector;
    t->panels = clq_ceil_div(columns, t->width);
}

/* pixels: how many pixels a row of tiles covers. others: how many rows of pixels there are. */
static tile choose_tile(const clq_list *list, size_t columns, size_t pixels, double others, bool matrix) {
    clq_device *device = clq_list_device(list);
    size_t vector = clq_list_vector(list), all = clq_ceil_div(columns, vector),
           units = clq_device_get_info(device)->compute_units,
           groups = CLQ_MIN((size_t)clq_device_min_groups(device), units * TILES_PER_UNIT);
    const bool single = matrix && pixels == 1 && all % ROW_VECTORS == 0;
    tile t = {0};
    set_vectors(&t, vector, single ? ROW_VECTORS : CLQ_MIN(vectors_across(all, pixels), registers(vector) / 4),
                columns);
    size_t most = single ? 1 : rows_most(vector, t.vectors);
    t.rows = matrix ? CLQ_MIN(CLQ_MIN((size_t)MATRIX_ROWS, most), pixels) : even_part(pixels, most);
    while (matrix && (double)(t.panels * clq_ceil_div(pixels, t.rows)) * others < (double)groups) {
        if (t.vectors > 1)
            set_vectors(&t, vector, t.vectors / 2, columns);
        else if (t.rows > 4)
            t.rows = clq_ceil_div(t.rows, 2);
        else
            break;
    }
    return t;
}

/* Selects the rule's tile, or another shape that has room in registers. */
static tile select_tile(clq_list *list, const clq_product *p, size_t pixels, double others, bool matrix,
                        clq_choice *choice) {
    static const uint8_t shapes[][2] = {{8, 2}, {12, 2}, {14, 2}, {6, 2}, {4, 4}, {8, 1}};
    size_t vector = clq_list_vector(list), all = clq_ceil_div(p->columns, vector);
    tile t = choose_tile(list, p->columns, pixels, others, matrix);
    clq_product_start_choice(choice, list, "tile of rows", p);
    clq_choice_add(choice, (uint32_t)t.rows, (uint32_t)t.vectors, "%zu x %zu vectors", t.rows, t.vectors);
    for (size_t i = 0; i < CLQ_COUNT_OF(shapes); i++) {
        size_t vectors = shapes[i][1], most = rows_most(vector, vectors);
        size_t rows = matrix ? shapes[i][0] : even_part(pixels, CLQ_MIN(most, (size_t)shapes[i][0]));
        if (vectors <= CLQ_MIN(all, registers(vector) / 4) && rows <= CLQ_MIN(most, pixels))
            clq_choice_add(choice, (uint32_t)rows, (uint32_t)vectors, "%zu x %zu vectors", rows, vectors);
    }
    const struct clq_candidate *candidate = clq_list_select(list, choice);
    t.rows = candidate->values[0];
    set_vectors(&t, vector, candidate->values[1], p->columns);
    return t;
}

/* ---- rows ---- */

clq_value clq_product_pack(clq_list *list, const char *name, clq_value b, size_t taps, size_t channels, size_t columns,
                           size_t width) {
    size_t vector = clq_list_vector(list), panels = clq_ceil_div(columns, width);
    size_t floats = panels * taps * channels * width;
    clq_value packed = clq_list_scratch(list, name, CLQ_F32, floats, 0);
    clq_kernel_options options = {.length = 0};
    clq_options_storage(&options, list, "FROM", b);
    clq_launch_begin(list, "pack", "product_support", options.text, "product_pack");
    clq_launch_value(list, b, CLQ_READS);
    clq_launch_value(list, packed, CLQ_WRITES);
    CLQ_LAUNCH_SIZES(list, taps, channels, columns, width);
    clq_launch_work(list, 2, (size_t[]){taps * clq_ceil_div(channels, vector), panels}, (size_t[]){1, 1}, -1, 0, 0);
    clq_launch_cost(list, 0, 0, (double)(taps * channels * columns + floats) * sizeof(float), 0);
    return packed;
}

/* Whether the taps of an image row are one run of floats, and all inside. */
static bool taps_are_runs(const clq_axis *w) {
    return (w->tap == 1 || w->taps == 1) && w->divide == 1 && !clq_axis_padded(w);
}

static clq_kernel_options rows_options(const clq_list *list, const clq_product *p, const tile *t) {
    const clq_patches *q = &p->patches;
    const bool matrix = clq_patches_are_matrix(q);
    clq_kernel_options options =
        matrix ? clq_product_matrix_options(list, p, p->transposed ? 0 : t->vectors) : clq_product_options(p);
    clq_options_add(&options, "-DMR=%zu -DNR=%zu -DACT=%d%s%s", t->rows, t->vectors, (int)p->activation,
                    p->bias ? " -DBIAS" : "", p->transposed ? " -DPACKED" : "");
    if (clq_patches_depth(q) > LONG_SUM) clq_options_add(&options, " -DBLOCKED=%d", BLOCK_TERMS);
    if (matrix) return options;
    size_t divide = (size_t)q->w.divide, tiles = clq_ceil_div(clq_ceil_div(q->w.out, divide), t->rows);
    clq_options_add(&options, " -DPATCHES -DTILES=%zu", tiles);
    if (taps_are_runs(&q->w))
        clq_options_add(&options, " -DRUNS");
    else if (clq_axis_padded(&q->w))
        clq_options_add(&options, tiles == 1 && divide == 1 ? " -DFOLDED" : " -DPADDED");
    return options;
}

clq_value clq_product_floats(clq_list *list, clq_value from, size_t rows, size_t row, bool per_example) {
    size_t numbers = rows * row, bytes = numbers * (sizeof(uint16_t) + sizeof(float));
    clq_kernel_options options = {.length = 0};
    clq_options_storage(&options, list, "FROM", from);
    clq_value floats = clq_list_scratch(list, "floats", CLQ_F32, per_example ? 0 : numbers, per_example ? numbers : 0);
    clq_launch_begin(list, "to floats", "product_support", options.text, "product_pad");
    clq_launch_value(list, from, CLQ_READS);
    clq_launch_value(list, floats, CLQ_WRITES);
    CLQ_LAUNCH_SIZES(list, rows, row, row, 0, 0);
    clq_launch_work(list, 2, (size_t[]){rows, 1}, (size_t[]){1, 1}, per_example ? 1 : -1, 1, 1);
    clq_launch_cost(list, 0, 0, per_example ? 0 : (double)bytes, per_example ? (double)bytes : 0);
    return floats;
}

/* How many floats product_tile.cl converts of a row of a 16-bit image. */
static size_t own_floats(const clq_patches *q, const tile *t) {
    const clq_axis *w = &q->w;
    size_t apart = w->taps == 1 ? 1 : (size_t)w->step, reach = (w->taps - 1) * (size_t)abs(w->tap);
    return ((t->rows - 1) * apart + reach / (size_t)w->divide + 2) * q->channels;
}

static void add_rows(clq_list *list, const clq_product *p, clq_choice *choice) {
    const clq_patches *q = &p->patches;
    bool matrix = clq_patches_are_matrix(q);
    double capacity = clq_list_capacity(list);
    size_t divide = (size_t)q->w.divide,
           pixels = matrix ? q->rows * clq_list_capacity(list) : CLQ_MAX(q->w.out / divide, (size_t)1);
    tile t = select_tile(list, p, pixels, matrix ? 1 : capacity * (double)q->h.out, matrix, choice);
    clq_value a = p->a, b = p->b;
    /* A launch before converts to floats: an image row that is too long for a work-item's private memory, and weights,
     * since many pixels read them. */
    if (!matrix && clq_is_short(list, a) && own_floats(q, &t) > CLQ_OWN_FLOATS)
        a = clq_product_floats(list, a, q->h.in, q->w.in * q->channels, true);
    if (!matrix && clq_is_short(list, b) && !p->transposed)
        b = clq_product_floats(list, b, clq_patches_depth(q), p->columns, false);
    if (p->transposed)
        b = clq_product_pack(list, "packed weights", b, q->h.taps * q->w.taps, q->channels, p->columns, t.width);
    clq_kernel_options options = rows_options(list, p, &t);
    clq_product_add_storage(&options, list, a, b, p->c);
    clq_launch_begin(list, p->label, "product_tile", options.text, "product_rows");
    CLQ_LAUNCH_READS(list, a, b, p->bias);
    clq_launch_value(list, p->c, CLQ_WRITES);
    if (matrix) {
        clq_launch_param(list, CLQ_PARAM_COUNT);
        clq_product_add_matrix(list, p);
        clq_launch_work(list, 2, (size_t[]){0, t.panels}, (size_t[]){1, 1}, 0, q->rows, t.rows);
    } else {
        size_t tiles = clq_ceil_div(clq_ceil_div(q->w.out, divide), t.rows) * divide;
        clq_launch_zeros(list, q->channels * sizeof(float));
        clq_launch_work(list, 3, (size_t[]){tiles * q->h.out, 0, t.panels}, (size_t[]){1, 1, 1}, 1, 1, 1);
    }
    clq_product_cost(list, p);
}

/* ---- outer ---- */

/* If a matrix has fewer columns than a vector has floats, the lanes of a vector can take one row of C each. Returns the
 * number of vectors, or 0 if this is not possible. */
static size_t narrow_vectors(const clq_list *list, const clq_product *p) {
    const clq_patches *q = &p->patches;
    size_t vector = clq_list_vector(list), vectors = p->columns <= rows_most(vector, 2) ? 2 : 1;
    double terms = (double)q->rows * clq_list_capacity(list);
    if (!clq_patches_are_matrix(q) || terms > LONG_SUM || q->channels < vectors * vector) return 0;
    return p->columns < vector && p->columns <= rows_most(vector, vectors) ? vectors : 0;
}

/* The tiles of an outer product. A tile covers one or more rows of taps, and `length` floats of each row. */
typedef struct outer_cut {
    tile t;
    bool runs;
    size_t length, tiles, slices;
} outer_cut;

static outer_cut cut_outer(const clq_list *list, const clq_product *p, size_t vectors) {
    const clq_patches *q = &p->patches;
    outer_cut c = {.runs = taps_are_runs(&q->w)};
    size_t run = (c.runs ? q->w.taps : 1) * q->channels, across = c.runs ? 1 : q->w.taps,
           vector = clq_list_vector(list), groups = clq_device_min_groups(clq_list_device(list));
    set_vectors(&c.t, vector, vectors, p->columns);
    size_t most = rows_most(vector, vectors);
    c.length = even_part(run, most);
    size_t stacked = c.runs && c.length == run ? even_part(q->h.taps, CLQ_MAX(most / run, (size_t)1)) : 1;
    c.t.rows = stacked * c.length;
    c.tiles = clq_ceil_div(run, c.length) * across * clq_ceil_div(q->h.taps, stacked);
    double read = (double)clq_list_capacity(list) * (double)(q->rows * sizeof(float)) *
                  (double)(q->h.in * q->w.in * q->channels + q->h.out * q->w.out * p->columns);
    size_t for_cache = clq_product_slices(list, p, (size_t)(read / CACHED_BYTES) + 1, CACHED_TERMS_LEAST);
    size_t for_groups = clq_product_slices(list, p, clq_ceil_div(groups, c.tiles * c.t.panels), TERMS_LEAST);
    c.slices = CLQ_MAX(for_cache, for_groups);
    return c;
}

static void add_cut(clq_choice *choice, size_t vectors, size_t slices) {
    clq_choice_add(choice, (uint32_t)vectors, (uint32_t)slices, "%zu vectors, %zu slices", vectors, slices);
}

/* Selects the rule's cut, or another number of slices or vectors. Returns false if the narrow form is selected. */
static bool select_cut(clq_list *list, const clq_product *p, clq_choice *choice, outer_cut *out) {
    size_t vector = clq_list_vector(list), all = clq_ceil_div(p->columns, vector), most = registers(vector) / 4;
    *out = cut_outer(list, p, CLQ_MIN(vectors_across(all, SIZE_MAX), most));
    clq_product_start_choice(choice, list, "tile of outer", p);
    if (narrow_vectors(list, p)) clq_choice_add(choice, 0, 0, "narrow");
    add_cut(choice, out->t.vectors, out->slices);
    for (size_t wanted = 1; wanted <= 4 * out->slices && wanted < UINT32_MAX / 4; wanted *= 2)
        add_cut(choice, out->t.vectors, clq_product_slices(list, p, wanted, TERMS_LEAST));
    for (size_t vectors = 1; vectors <= CLQ_MIN(CLQ_MIN(all, most), (size_t)VECTORS_MOST); vectors++)
        add_cut(choice, vectors, cut_outer(list, p, vectors).slices);
    const struct clq_candidate *candidate = clq_list_select(list, choice);
    if (candidate->values[0] == 0) return false;
    *out = cut_outer(list, p, candidate->values[0]);
    out->slices = candidate->values[1];
    return true;
}

static clq_kernel_options cut_options(const clq_list *list, const clq_product *p, const outer_cut *c) {
    const clq_patches *q = &p->patches;
    const bool matrix = clq_patches_are_matrix(q);
    clq_kernel_options options = matrix ? clq_product_matrix_options(list, p, c->t.vectors) : clq_product_options(p);
    size_t terms = clq_patches_pixels(q) * clq_list_capacity(list) / c->slices;
    clq_options_add(&options, "-DOUTER -DMR=%zu -DNR=%zu", c->t.rows, c->t.vectors);
    if (!matrix) clq_options_add(&options, " -DTL=%zu%s", c->length, c->runs ? " -DRUNS" : "");
    if (terms > LONG_SUM) clq_options_add(&options, " -DBLOCKED=%zu", CLQ_MAX(BLOCK_TERMS / q->w.out, (size_t)1));
    return options;
}

static void add_outer_launch(clq_list *list, const clq_product *p, clq_kernel_options *options, const outer_cut *c,
                             bool narrow) {
    const bool adds = p->adds && !narrow && c->slices == 1; /* the kernel itself adds, and so goes through C once */
    clq_value partial = adds ? p->c : clq_product_partial(list, p, c->slices);
    if (adds) clq_options_add(options, " -DADDS");
    clq_product_add_storage(options, list, p->a, p->b, partial);
    clq_launch_begin(list, p->label, "product_tile", options->text, "product_outer");
    CLQ_LAUNCH_READS(list, p->a, p->b);
    clq_launch_value(list, partial, adds ? CLQ_READS_WRITES : CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_param(list, CLQ_PARAM_SUM_FACTOR);
    if (clq_patches_are_matrix(&p->patches))
        clq_product_add_matrix(list, p);
    else
        clq_launch_size(list, p->patches.rows);
    clq_launch_size(list, c->slices);
    clq_launch_work(list, narrow ? 1 : 3, (size_t[]){c->tiles, c->t.panels, c->slices}, (size_t[]){1, 1, 1}, -1, 0, 0);
    clq_product_cost(list, p);
    clq_product_reduce(list, p, partial, c->slices);
}

/* The narrow form: the lanes of one or two vectors take a row of C each. The few columns are compiled into the
 * kernel. */
static void add_narrow(clq_list *list, const clq_product *p) {
    size_t vectors = narrow_vectors(list, p), width = vectors * clq_list_vector(list);
    clq_kernel_options options = {.length = 0};
    clq_options_add(&options, "-DMATRIX -DOUTER -DNARROW -DCOLUMNS=%zu -DNR=%zu -DMR=1", p->columns, vectors);
    add_outer_launch(list, p, &options, &(outer_cut){.tiles = clq_ceil_div(p->patches.channels, width), .slices = 1},
                     true);
}

static void add_outer(clq_list *list, const clq_product *p, clq_choice *choice) {
    outer_cut c;
    if (!select_cut(list, p, choice, &c)) {
        add_narrow(list, p);
        return;
    }
    clq_kernel_options options = cut_options(list, p, &c);
    add_outer_launch(list, p, &options, &c, false);
}

void clq_product_by_tiles(clq_list *list, const clq_product *product) {
    clq_product p = *product;
    clq_patches *q = &p.patches;
    clq_choice choice;
    bool padded = clq_axis_padded(&q->h) || clq_axis_padded(&q->w), divides = q->h.divide > 1 || q->w.divide > 1;
    if (q->channels < FEW_CHANNELS && padded && !divides && q->h.tap > 0) clq_patches_pad(list, q, &p.a);
    if (p.outer)
        add_outer(list, &p, &choice);
    else
        add_rows(list, &p, &choice);
    clq_list_end_choice(list, &choice);
}
