/* Matrix products in all their forms: selects the variant. Also has what the variants share. */
#include "ops/product/product_local.h"

#include <stdio.h>

/* The most memory that partial sums may take. */
enum { PARTIAL_BYTES_MOST = 32 << 20 };

clq_patches clq_patches_of_matrix(size_t rows, size_t columns) {
    clq_axis one = {.in = 1, .out = 1, .taps = 1, .step = 1, .first = 0, .tap = 1, .divide = 1};
    return (clq_patches){.rows = rows, .channels = columns, .h = one, .w = one};
}

static bool is_point(const clq_axis *axis) {
    return axis->in == 1 && axis->out == 1 && axis->taps == 1 && axis->first == 0;
}

bool clq_patches_are_matrix(const clq_patches *p) { return is_point(&p->h) && is_point(&p->w); }

size_t clq_patches_depth(const clq_patches *p) { return p->h.taps * p->w.taps * p->channels; }
size_t clq_patches_pixels(const clq_patches *p) { return p->rows * p->h.out * p->w.out; }

bool clq_axis_padded(const clq_axis *axis) {
    long taps = ((long)axis->taps - 1) * axis->tap, outs = ((long)axis->out - 1) * axis->step + axis->first;
    long least = axis->first + CLQ_MIN(taps, 0L), most = outs + CLQ_MAX(taps, 0L);
    return least < 0 || most >= (long)axis->in * axis->divide;
}

/* Whether the axis has no strides, padding or dilation. Then its input size and taps describe it in a key. */
static bool is_plain(const clq_axis *axis) {
    bool by_one = axis->step == 1 && axis->first == 0 && axis->tap == 1 && axis->divide == 1;
    return by_one && axis->out + axis->taps == axis->in + 1;
}

void clq_product_name_storage(const clq_dtype storage[3], char text[CLQ_STORAGE_NAME_BYTES]) {
    const bool floats = storage[0] == CLQ_F32 && storage[1] == CLQ_F32 && storage[2] == CLQ_F32;
    (void)snprintf(text, CLQ_STORAGE_NAME_BYTES, floats ? "" : ", %s by %s to %s", clq_dtype_name(storage[0]),
                   clq_dtype_name(storage[1]), clq_dtype_name(storage[2]));
}

void clq_product_start_choice(clq_choice *choice, const clq_list *list, const char *what, const clq_product *p) {
    static const char *const behinds[][2] = {[CLQ_MATMUL_HIGHEST] = {"", ", transposed"},
                                             [CLQ_MATMUL_HIGH] = {", high", ", transposed, high"},
                                             [CLQ_MATMUL_MEDIUM] = {", medium", ", transposed, medium"}};
    /* Without matrix units, precision makes no difference. */
    bool units = clq_device_matrix_unit(clq_list_device(list)) != CLQ_UNIT_NONE;
    char behind[64], storage[CLQ_STORAGE_NAME_BYTES];
    clq_product_name_storage(
        (const clq_dtype[]){clq_list_storage(list, p->a), clq_list_storage(list, p->b), clq_list_storage(list, p->c)},
        storage);
    (void)snprintf(behind, sizeof behind, "%s%s",
                   behinds[units ? clq_list_precision(list) : CLQ_MATMUL_HIGHEST][p->transposed], storage);
    const clq_axis *h = &p->patches.h, *w = &p->patches.w;
    size_t rows = p->patches.rows * clq_list_capacity(list), channels = p->patches.channels;
    if (clq_patches_are_matrix(&p->patches))
        clq_choice_start(choice, "%s %zux%zu by %zu%s", what, rows, channels, p->columns, behind);
    else if (is_plain(h) && is_plain(w))
        clq_choice_start(choice, "%s %zux%zux%zux%zu by %zux%zu taps to %zu%s", what, rows, h->in, w->in, channels,
                         h->taps, w->taps, p->columns, behind);
    else
        clq_choice_start(choice,
                         "%s %zux%zux%zux%zu by %zux%zu taps to %zux%zux%zu%s (%d,%d + %d,%d + %d,%d over %d,%d)", what,
                         rows, h->in, w->in, channels, h->taps, w->taps, h->out, w->out, p->columns, behind, h->step,
                         w->step, h->first, w->first, h->tap, w->tap, h->divide, w->divide);
}

/* What makes a product: tiles, work-groups in one of their blocks, or CLBlast. */
typedef enum maker { BY_TILES, BY_GROUPS, BY_CLBLAST } maker;
typedef struct way {
    maker by;
    size_t block;
} way;

/* CLBlast is not used on devices whose work-groups hold fewer items. CLBlast 1.6 failed on a device with work-groups of
 * 64 items ("128 is larger than 64"). The limit of 256 is what all GPUs have at least, and was not read from CLBlast's
 * parameters. */
enum { CLBLAST_GROUP = 256 };

static const char *kind_of(const clq_product *p) { return p->outer ? "outer" : "rows"; }

/* Selects the family's own kernels, or what was measured to be faster. The list's own selections may name any other
 * variant, too. */
static way select_way(clq_list *list, const clq_product *p, clq_choice *choice) {
    const bool tile = clq_list_family(list) == CLQ_FAMILY_TILE;
    const bool floats = !clq_is_short(list, p->a) && !clq_is_short(list, p->b) && !clq_is_short(list, p->c);
    const bool groups_fit = clq_device_get_info(clq_list_device(list))->max_work_group >= CLBLAST_GROUP;
    const bool clblast = clq_patches_are_matrix(&p->patches) && floats && groups_fit;
    clq_product_start_choice(choice, list, kind_of(p), p);
    if (!tile)
        clq_product_add_local(list, choice, BY_GROUPS, p);
    else
        clq_choice_add(choice, BY_TILES, 0, "tile");
    if (!tile && clblast) clq_choice_add(choice, BY_CLBLAST, 0, "clblast");
    if (clblast) clq_choice_add_named(choice, list, BY_CLBLAST, 0, "clblast");
    clq_choice_add_named(choice, list, BY_TILES, 0, "tile");
    clq_choice_add_named(choice, list, BY_GROUPS, CLQ_LOCAL_BLOCK_BY_RULE, "local");
    clq_product_add_named_blocks(list, choice, BY_GROUPS);
    const struct clq_candidate *candidate = clq_list_select(list, choice);
    way w = {(maker)candidate->values[0], candidate->values[1]};
    if (w.by == BY_GROUPS) w.block = clq_local_block_that_works(list, w.block, p);
    return w;
}

/* Adds a product by the tile family. Tiles can compute every product. For large matrices, packed blocks are known to be
 * faster, and so are blocks for weights that lie transposed. */
static void add_tiles(clq_list *list, const clq_product *p, clq_choice *choice) {
    enum { TILES, BLOCKS, PACKED } form = TILES;
    if (clq_patches_are_matrix(&p->patches)) {
        clq_product_start_choice(choice, list, kind_of(p), p);
        if (clq_product_is_large(list, p)) clq_choice_add(choice, PACKED, 0, "packed blocks");
        if (p->transposed) clq_choice_add(choice, BLOCKS, 0, "blocks");
        clq_choice_add(choice, TILES, 0, "tiles");
        clq_choice_add(choice, PACKED, 0, "packed blocks");
        form = clq_list_select(list, choice)->values[0];
    }
    if (form == TILES)
        clq_product_by_tiles(list, p);
    else
        clq_product_by_blocks(list, p, form == PACKED);
}

void clq_product_add(clq_list *list, const clq_product *p) {
    clq_choice choice = {.index = SIZE_MAX};
    way w = select_way(list, p, &choice);
    switch (w.by) {
    case BY_GROUPS: clq_product_by_local(list, p, w.block); break;
    case BY_CLBLAST: clq_product_by_clblast(list, p); break;
    case BY_TILES: add_tiles(list, p, &choice); break;
    }
    clq_list_end_choice(list, &choice);
}

/* ---- shared by the variants ---- */

clq_kernel_options clq_product_options(const clq_product *p) {
    clq_kernel_options options = {.length = 0};
    const clq_patches *q = &p->patches;
    const clq_axis *h = &q->h, *w = &q->w;
    clq_options_add(&options,
                    "-DCOLUMNS=%zu -DDEPTH=%zu -DIN_H=%zu -DIN_W=%zu -DIN_C=%zu -DOUT_H=%zu -DOUT_W=%zu "
                    "-DTAPS_H=%zu -DTAPS_W=%zu -DSTEP_H=%d -DSTEP_W=%d -DFIRST_H=%d -DFIRST_W=%d -DTAP_H=%d -DTAP_W=%d "
                    "-DDIVIDE_H=%d -DDIVIDE_W=%d ",
                    p->columns, clq_patches_depth(q), h->in, w->in, q->channels, h->out, w->out, h->taps, w->taps,
                    h->step, w->step, h->first, w->first, h->tap, w->tap, h->divide, w->divide);
    return options;
}

clq_kernel_options clq_product_matrix_options(const clq_list *list, const clq_product *p, size_t vectors) {
    const size_t vector = clq_list_vector(list);
    clq_kernel_options options = {.length = 0};
    clq_options_add(&options, "-DMATRIX -DWHOLE_VECTORS=%d ", p->columns % vector == 0);
    if (vectors) clq_options_add(&options, "-DWHOLE_PANELS=%d ", p->columns % (vectors * vector) == 0);
    return options;
}

void clq_product_add_matrix(clq_list *list, const clq_product *p) {
    CLQ_LAUNCH_SIZES(list, p->patches.rows, p->patches.channels, p->columns);
}

void clq_product_add_storage(clq_kernel_options *options, const clq_list *list, clq_value a, clq_value b, clq_value c) {
    clq_options_storage(options, list, "A", a);
    clq_options_storage(options, list, "B", b);
    clq_options_storage(options, list, "C", c);
}

static double bytes_of(const clq_list *list, clq_value value, double numbers) {
    return numbers * (double)clq_dtype_bytes(clq_list_storage(list, value));
}

void clq_product_cost(clq_list *list, const clq_product *p) {
    const clq_patches *q = &p->patches;
    double pixels = (double)clq_patches_pixels(q), depth = (double)clq_patches_depth(q), n = (double)p->columns;
    double in = (double)(q->rows * q->h.in * q->w.in * q->channels);
    const clq_value of_pixels = p->outer ? p->b : p->c, of_weights = p->outer ? p->c : p->b;
    clq_launch_cost(list, 0, 2 * pixels * depth * n / (q->h.divide * q->w.divide),
                    bytes_of(list, of_weights, depth * n),
                    bytes_of(list, p->a, in) + bytes_of(list, of_pixels, pixels * n));
}

void clq_patches_pad(clq_list *list, clq_patches *p, clq_value *x) {
    size_t frame_h = (p->h.out - 1) * (size_t)p->h.step + (p->h.taps - 1) * (size_t)p->h.tap + 1;
    size_t frame_w = (p->w.out - 1) * (size_t)p->w.step + (p->w.taps - 1) * (size_t)p->w.tap + 1;
    size_t in_floats = p->h.in * p->w.in * p->channels, floats = frame_h * frame_w * p->channels;
    const clq_dtype dtype = clq_list_storage(list, *x);
    clq_value frames = clq_list_scratch(list, "padded input", dtype, 0, floats);
    clq_kernel_options options = {.length = 0};
    clq_options_storage(&options, list, "FROM", *x);
    clq_options_storage(&options, list, "TO", frames);
    clq_launch_begin(list, "pad", "product_support", options.text, "product_pad");
    clq_launch_value(list, *x, CLQ_READS);
    clq_launch_value(list, frames, CLQ_WRITES);
    CLQ_LAUNCH_SIZES(list, p->h.in, p->w.in * p->channels, frame_w * p->channels);
    clq_launch_int(list, -p->h.first);
    clq_launch_int(list, -p->w.first * (int)p->channels);
    clq_launch_work(list, 2, (size_t[]){frame_h, 0}, (size_t[]){1, 1}, 1, 1, 1);
    clq_launch_cost(list, 0, 0, 0, (double)clq_values_bytes(dtype, in_floats + floats));
    p->h.in = frame_h;
    p->w.in = frame_w;
    p->h.first = p->w.first = 0;
    *x = frames;
}

size_t clq_product_slices(const clq_list *list, const clq_product *p, size_t wanted, size_t terms_least) {
    const clq_patches *q = &p->patches;
    double images = (double)q->rows * clq_list_capacity(list), terms = images * (double)(q->h.out * q->w.out);
    double bytes = (double)clq_patches_depth(q) * (double)p->columns * sizeof(float);
    double most = CLQ_MIN(CLQ_MIN(images, terms / (double)terms_least), PARTIAL_BYTES_MOST / bytes);
    return most < 1 ? 1 : CLQ_MIN(CLQ_MAX(wanted, (size_t)1), (size_t)most);
}

clq_value clq_product_partial(clq_list *list, const clq_product *p, size_t slices) {
    if (slices == 1 && !p->adds) return p->c;
    size_t rows = p->outer ? clq_patches_depth(&p->patches) : clq_patches_pixels(&p->patches);
    size_t floats = slices * rows * p->columns;
    return clq_list_scratch(list, "partial sums", CLQ_F32, p->outer ? floats : 0, p->outer ? 0 : floats);
}

clq_reduce_cut clq_product_cut_reduce(const clq_list *list, size_t columns, size_t slices) {
    enum {
        GROUP = 64,
        ROWS_MOST = 64,
        SLICES_LEAST = 4,     /* per item */
        COLUMNS_LEAST = 4,    /* per work-group: neighbours fill a memory transaction */
        GROUPS_LEAST = 32,    /* work-groups for a long sum; more important than COLUMNS_LEAST */
        ITEMS_PER_UNIT = 512, /* work-items that hide the latency of a compute unit's memory */
    };
    const clq_device_info *info = clq_device_get_info(clq_list_device(list));
    size_t places = CLQ_MAX(info->compute_units, 1u) * (size_t)ITEMS_PER_UNIT;
    size_t rows_most = CLQ_MIN(CLQ_MIN(slices / SLICES_LEAST, info->max_work_group), (size_t)ROWS_MOST);
    clq_reduce_cut c = {.rows = 1};
    while (2 * c.rows <= rows_most && columns * c.rows < places) c.rows *= 2;
    c.across = CLQ_MAX(GROUP / c.rows, (size_t)COLUMNS_LEAST);
    while (c.across > 1 &&
           (c.across * c.rows > info->max_work_group || (c.rows > 1 && clq_ceil_div(columns, c.across) < GROUPS_LEAST)))
        c.across /= 2;
    return c;
}

void clq_product_reduce(clq_list *list, const clq_product *p, clq_value partial, size_t slices) {
    if (partial == p->c) return;
    bool tile = clq_list_family(list) == CLQ_FAMILY_TILE;
    size_t floats = clq_patches_depth(&p->patches) * p->columns;
    size_t wide = floats % 4 == 0 ? 4 : floats % 2 == 0 ? 2 : 1;
    clq_kernel_options options = {.length = 0};
    if (!tile) clq_options_add(&options, "-DWIDE=%zu ", wide);
    clq_options_add(&options, "%s", p->adds ? " -DADDS" : "");
    clq_options_storage(&options, list, "TO", p->c);
    clq_launch_begin(list, "reduce", "product_support", options.text, tile ? "product_reduce" : "product_reduce_rows");
    clq_launch_value(list, partial, CLQ_READS);
    clq_launch_value(list, p->c, p->adds ? CLQ_READS_WRITES : CLQ_WRITES);
    CLQ_LAUNCH_SIZES(list, floats, slices);
    if (tile) {
        size_t share = 32 * clq_list_vector(list);
        clq_launch_size(list, share);
        clq_launch_param(list, CLQ_PARAM_SUM_FACTOR);
        clq_launch_work(list, 1, (size_t[]){clq_ceil_div(floats, share)}, (size_t[]){1}, -1, 0, 0);
    } else {
        clq_reduce_cut c = clq_product_cut_reduce(list, floats / wide, slices);
        size_t group = c.across * c.rows, groups = clq_ceil_div(floats / wide, c.across);
        clq_launch_size(list, c.across);
        clq_launch_local(list, group * wide * sizeof(float));
        clq_launch_param(list, CLQ_PARAM_SUM_FACTOR);
        clq_launch_work(list, 1, (size_t[]){groups * group}, (size_t[]){group}, -1, 0, 0);
    }
    const size_t terms = slices + p->adds;
    clq_launch_cost(list, (double)(floats * (terms - 1)), 0, (double)(floats * (terms + 1)) * sizeof(float), 0);
}
