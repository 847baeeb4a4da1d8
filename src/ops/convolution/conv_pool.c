/* Convolution, activation and max pooling in one kernel (cl/conv_pool.cl). The backward pass starts from the pooled
 * gradient. There are three ways: lists of the gradients that are not zero, an outer product over windows, or the
 * gradient before the pooling. */
#include "ops/convolution/winograd.h"

enum {
    LONG_SUM = 1024,        /* longer sums are added to a total after each row of taps */
    LONG_RUN = 512,         /* the most terms of such a row */
    CHAINS = 8,             /* sums side by side, which hide a multiplication's latency */
    ITEM_TERMS = 1500,      /* products of vectors that are worth a work-item */
    TILE_COST = 6,          /* the cost of a tile of weights besides its vectors, in vectors */
    CHANNELS_LEAST = 8,     /* fewest channels that share the reading of an image */
    CHANNELS_SHORT = 32,    /* the same for a 16-bit image, which is converted to floats */
    PIXELS_SHORT = 1 << 16, /* how many pixels 16 bits can index */
    TERMS_LEAST = 64        /* per slice */
};

/* The vectors that a core's registers hold. */
static size_t registers_of(const clq_list *list) { return clq_list_vector(list) >= 16 ? 32 : 16; }

static size_t depth_of(const clq_conv2d_problem *c) { return c->kernel_h * c->kernel_w * c->in_c; }

/* Whether the windows along an axis do not overlap, and do not reach beyond the convolution's output. */
static bool side_by_side(size_t in, size_t out, size_t size, size_t stride, size_t pad) {
    return pad == 0 && stride >= size && (out - 1) * stride + size <= in;
}

static bool is_padded(const clq_conv2d_problem *c) {
    return c->pad_top || c->pad_left || (c->out_h - 1) * c->stride_h + c->kernel_h > c->in_h ||
           (c->out_w - 1) * c->stride_w + c->kernel_w > c->in_w;
}

bool clq_conv_pool_fits(const clq_list *list, const clq_conv_pool_problem *p) {
    const clq_conv2d_problem *c = &p->conv;
    const clq_pool2d_problem *q = &p->pool;
    size_t places = q->size_h * q->size_w, run = c->kernel_w * c->in_c;
    return clq_list_family(list) == CLQ_FAMILY_TILE && !q->average &&
           side_by_side(q->in_h, q->out_h, q->size_h, q->stride_h, q->pad_top) &&
           side_by_side(q->in_w, q->out_w, q->size_w, q->stride_w, q->pad_left) && c->dilation_h == 1 &&
           c->dilation_w == 1 && places + 2 <= registers_of(list) && (run <= LONG_RUN || c->kernel_h * run <= LONG_SUM);
}

bool clq_conv_pool_pays(const clq_list *list, const clq_conv_pool_problem *p) {
    return p->conv.out_c % clq_list_vector(list) == 0;
}

/* The convolution over frames: the same, without padding. */
static clq_conv2d_problem framed_of(const clq_conv2d_problem *c) {
    clq_conv2d_problem framed = *c;
    if (!is_padded(c)) return framed;
    framed.in_h = (c->out_h - 1) * c->stride_h + c->kernel_h;
    framed.in_w = (c->out_w - 1) * c->stride_w + c->kernel_w;
    framed.pad_top = framed.pad_left = 0;
    return framed;
}

bool clq_conv_pool_is_padded(const clq_conv_pool_problem *p) { return is_padded(&p->conv); }

clq_value clq_conv_pool_frames(clq_list *list, const clq_conv_pool_problem *p, clq_value x) {
    if (!is_padded(&p->conv)) return x;
    clq_patches patches = clq_patches_of_conv(&p->conv);
    clq_patches_pad(list, &patches, &x);
    return x;
}

/* The shapes as -D options, with a blank at the end. */
static clq_kernel_options options_of(const clq_conv_pool_problem *p) {
    clq_kernel_options options = {.length = 0};
    const clq_conv2d_problem c = framed_of(&p->conv);
    const clq_pool2d_problem *q = &p->pool;
    clq_options_add(&options,
                    "-DCOLUMNS=%zu -DDEPTH=%zu -DIN_H=%zu -DIN_W=%zu -DIN_C=%zu -DTAPS_H=%zu -DTAPS_W=%zu "
                    "-DSTEP_H=%zu -DSTEP_W=%zu -DPOOL_H=%zu -DPOOL_W=%zu -DSIZE_H=%zu -DSIZE_W=%zu -DSTRIDE_H=%zu "
                    "-DSTRIDE_W=%zu ",
                    c.out_c, depth_of(&c), c.in_h, c.in_w, c.in_c, c.kernel_h, c.kernel_w, c.stride_h, c.stride_w,
                    q->out_h, q->out_w, q->size_h, q->size_w, q->stride_h, q->stride_w);
    return options;
}

static double bytes_of(const clq_list *list, clq_value value) { /* of a number */
    return (double)clq_dtype_bytes(clq_list_storage(list, value));
}

/* A work-item computes `tiles` times `windows` windows, in `vectors` vectors of channels. stay: the weights stay in
 * registers. */
typedef struct forward_cut {
    size_t windows, vectors, panels, tiles;
    bool stay;
} forward_cut;

/* Two vectors of channels are enough for as many multiplications per load as a core can do. Three are taken if they
 * waste less. As many windows are taken as leave room for their accumulators, a row of weights and one input. But only
 * one is taken if all weights fit into registers beside it, and its sums are enough to go on side by side. If sums are
 * short, a work-item takes several tiles, to be worth its start. */
static forward_cut cut_forward(const clq_list *list, const clq_conv_pool_problem *p) {
    const clq_conv2d_problem *c = &p->conv;
    size_t places = p->pool.size_h * p->pool.size_w, depth = depth_of(c);
    size_t all = clq_ceil_div(c->out_c, clq_list_vector(list));
    size_t registers = registers_of(list), groups = clq_device_min_groups(clq_list_device(list));
    forward_cut f = {.vectors = all <= 3 ? all : all % 2 != 0 && all % 3 == 0 ? 3 : 2};
    while (f.vectors > 1 && f.vectors * (places + 1) + 1 > registers) f.vectors--;
    f.panels = clq_ceil_div(all, f.vectors);
    f.stay = f.vectors * (places + depth) + 1 <= registers && f.vectors * places >= CHAINS;
    f.windows = f.stay ? 1 : (registers - 1 - f.vectors) / (places * f.vectors);
    size_t runs = clq_ceil_div(p->pool.out_h * p->pool.out_w * clq_list_capacity(list), f.windows);
    size_t worth = clq_ceil_div(ITEM_TERMS, f.windows * places * f.vectors * depth);
    f.tiles = CLQ_MAX(CLQ_MIN(worth, runs * f.panels / (4 * groups)), (size_t)1);
    return f;
}

/* Adds the forward launch by the plain sum. */
static void add_forward(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value w, clq_value b,
                        clq_value y, clq_value winner) {
    const clq_conv2d_problem *c = &p->conv;
    const clq_pool2d_problem *q = &p->pool;
    clq_kernel_options options = options_of(p);
    size_t depth = depth_of(c);
    forward_cut f = cut_forward(list, p);
    clq_options_add(&options, "-DFORWARD -DTILES=%zu -DWT=%zu -DNR=%zu -DACT=%d%s%s%s%s", f.tiles, f.windows, f.vectors,
                    (int)c->activation, b ? " -DBIAS" : "", winner ? " -DKEEP" : "",
                    depth > LONG_SUM ? " -DBLOCKED" : "", f.stay ? " -DSTAY" : "");
    clq_options_storage(&options, list, "X", frames);
    clq_options_storage(&options, list, "Y", y);
    if (clq_is_short(list, w)) w = clq_product_floats(list, w, depth, c->out_c, false);
    clq_launch_begin(list, "forward", "conv_pool", options.text, "conv_pool_forward");
    CLQ_LAUNCH_READS(list, frames, w, b);
    CLQ_LAUNCH_WRITES(list, y, winner);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 2, (size_t[]){0, f.panels}, (size_t[]){1, 1}, 0, q->out_h * q->out_w, f.windows * f.tiles);
    double pooled = (double)(q->out_h * q->out_w * c->out_c), in = (double)(c->in_h * c->in_w * c->in_c);
    clq_launch_cost(list, 0, 2 * pooled * (double)(q->size_h * q->size_w * depth),
                    (double)(depth * c->out_c) * sizeof(float),
                    in * bytes_of(list, frames) + pooled * bytes_of(list, y) + (winner ? pooled : 0));
}

void clq_conv_pool_forward(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value w, clq_value b,
                           clq_value y, clq_value winner) {
    const clq_conv2d_problem c = framed_of(&p->conv);
    const clq_product product = clq_product_forward(clq_patches_of_conv(&c), c.out_c, c.activation, frames, w, b, y);
    clq_choice choice = {.index = SIZE_MAX};
    if (!clq_winograd_pool(list, &product, &p->pool, winner, &choice)) add_forward(list, p, frames, w, b, y, winner);
    clq_list_end_choice(list, &choice);
}

/* ---- backward ---- */

/* How the weights of an output channel are cut into tiles: `across` units (vectors or floats) in each of `down` rows of
 * taps. */
typedef struct tile {
    size_t across, down, tiles;
} tile;

/* The tile with the fewest operations in all. `most` units have room in registers. */
static tile choose_tile(size_t run, size_t rows, size_t most) {
    tile best = {0};
    size_t least = SIZE_MAX;
    for (size_t across = 1; across <= run && across <= most; across++) {
        for (size_t down = 1; down <= rows && across * down <= most; down++) {
            size_t tiles = clq_ceil_div(run, across) * clq_ceil_div(rows, down);
            size_t cost = tiles * (across * down + TILE_COST);
            if (cost >= least) continue;
            least = cost;
            best = (tile){across, down, tiles};
        }
    }
    return best;
}

/* Multiplications and additions per example. In each window, at most one gradient is not zero. */
static double flops_of(const clq_conv_pool_problem *p) {
    return 2.0 * (double)(p->pool.out_h * p->pool.out_w * p->conv.out_c * depth_of(&p->conv));
}

static double image_bytes(const clq_list *list, const clq_conv2d_problem *c, clq_value image) {
    return (double)(c->in_h * c->in_w * c->in_c) * bytes_of(list, image);
}

/* The weights' gradient as a product, whose slices are then summed. */
static clq_product product_of(const clq_conv_pool_problem *p, clq_value dw) {
    clq_conv2d_problem c = framed_of(&p->conv);
    c.out_h = p->pool.out_h;
    c.out_w = p->pool.out_w;
    return clq_product_weight_gradient(clq_patches_of_conv(&c), c.out_c, CLQ_NO_VALUE, CLQ_NO_VALUE, dw, false);
}

/* ---- by lists ---- */

typedef struct lists {
    clq_kernel_options options;
    clq_value entries, lengths;
    double bytes; /* per example */
    tile tile;
    size_t blocks, slices;      /* blocks of output channels; slices of examples */
    bool short_entries, own_dx; /* own_dx: a work-item sums the input's gradient in its private memory */
} lists;

/* Options for how values are stored, and which values are converted to floats. A list's entry has 4 bytes instead of 8
 * if both the gradient and the place of its patch fit into 16 bits. */
static void add_list_storage(const clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value dz,
                             clq_value dx, lists *l) {
    const clq_conv2d_problem *c = &p->conv, framed = framed_of(c);
    const bool fits = framed.in_h * framed.in_w * framed.in_c <= CLQ_OWN_FLOATS;
    l->own_dx = clq_is_short(list, dx) && fits;
    l->short_entries = clq_is_short(list, dz) && framed.in_h * framed.in_w < PIXELS_SHORT;
    clq_options_add(&l->options, "%s", l->short_entries ? " -DSHORT" : "");
    if (clq_is_short(list, frames) && fits) clq_options_add(&l->options, " -DOWN_IMAGE");
    if (l->own_dx)
        clq_options_add(&l->options, " -DOWN_DX -DX_H=%zu -DX_W=%zu -DPAD_TOP=%zu -DPAD_LEFT=%zu", c->in_h, c->in_w,
                        c->pad_top, c->pad_left);
    clq_options_storage(&l->options, list, "X", frames);
    clq_options_storage(&l->options, list, "DZ", dz);
    clq_options_storage(&l->options, list, "DX", dx);
}

static lists make_lists(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value dz,
                        clq_value winner, clq_value dx) {
    const clq_conv2d_problem *c = &p->conv;
    const size_t channels_least = clq_is_short(list, frames) ? CHANNELS_SHORT : CHANNELS_LEAST;
    size_t vector = clq_list_vector(list), groups = clq_device_min_groups(clq_list_device(list));
    size_t gradients = p->pool.out_h * p->pool.out_w * c->out_c;
    lists l = {.tile = choose_tile(c->kernel_w * c->in_c / vector, c->kernel_h, registers_of(list) - 4)};
    size_t blocks = CLQ_MIN(clq_ceil_div(groups, l.tile.tiles), clq_ceil_div(c->out_c, channels_least));
    size_t block = clq_ceil_div(c->out_c, blocks);
    clq_product product = product_of(p, CLQ_NO_VALUE);
    l.blocks = clq_ceil_div(c->out_c, block);
    l.slices = clq_product_slices(list, &product, clq_ceil_div(groups, l.tile.tiles * l.blocks), TERMS_LEAST);
    l.options = options_of(p);
    clq_options_add(&l.options, "-DLISTS -DTL=%zu -DTR=%zu -DTILES=%zu -DBLOCK=%zu -DSLICES=%zu", l.tile.across,
                    l.tile.down, l.tile.tiles, block, l.slices);
    add_list_storage(list, p, frames, dz, dx, &l);
    const size_t words = l.short_entries ? gradients : 2 * gradients;
    l.entries = clq_list_scratch(list, "gradients that are not zero", CLQ_I32, 0, words);
    const clq_dtype of_lengths = l.short_entries ? CLQ_I16 : CLQ_I32; /* there are fewer windows than pixels */
    l.lengths = clq_list_scratch(list, "how many are not zero", of_lengths, 0, c->out_c);
    l.bytes = (double)(clq_values_bytes(CLQ_I32, words) + clq_values_bytes(of_lengths, c->out_c));
    clq_launch_begin(list, "list gradients", "conv_pool", l.options.text, "list_gradients");
    CLQ_LAUNCH_READS(list, dz, winner);
    CLQ_LAUNCH_WRITES(list, l.entries, l.lengths);
    clq_launch_work(list, 1, (size_t[]){0}, (size_t[]){1}, 0, 1, 1);
    clq_launch_cost(list, 0, 0, 0, l.bytes + (double)gradients * (1 + bytes_of(list, dz)));
    return l;
}

static void list_weight_gradient(clq_list *list, const clq_conv_pool_problem *p, const lists *l, clq_value frames,
                                 clq_value dw) {
    const clq_conv2d_problem *c = &p->conv;
    size_t depth = depth_of(c), floats = depth * c->out_c;
    clq_value sums = clq_list_scratch(list, "partial sums", CLQ_F32, l->slices * floats, 0);
    clq_launch_begin(list, "weight gradient", "conv_pool", l->options.text, "sum_weights");
    CLQ_LAUNCH_READS(list, frames, l->entries, l->lengths);
    clq_launch_value(list, sums, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 3, (size_t[]){l->tile.tiles, l->blocks, l->slices}, (size_t[]){1, 1, 1}, -1, 0, 0);
    clq_launch_cost(list, 0, flops_of(p), (double)(l->slices * floats) * sizeof(float),
                    image_bytes(list, c, frames) + l->bytes);
    clq_launch_begin(list, "reduce", "conv_pool", l->options.text, "fold_weights");
    clq_launch_value(list, sums, CLQ_READS);
    clq_launch_value(list, dw, CLQ_WRITES);
    clq_launch_work(list, 1, (size_t[]){depth}, (size_t[]){1}, -1, 0, 0);
    clq_launch_cost(list, (double)((l->slices - 1) * floats), 0, (double)((l->slices + 1) * floats) * sizeof(float), 0);
}

/* If there is padding, the gradient is computed in frames, from which the image is then cut out. The same happens if
 * the image has 16 bits, and is too large to be summed in a work-item's private memory. */
static void list_input_gradient(clq_list *list, const clq_conv_pool_problem *p, const lists *l, clq_value w,
                                clq_value dx) {
    const clq_conv2d_problem *c = &p->conv, framed = framed_of(c);
    /* (output channels, depth): packed into one panel as wide as the depth */
    size_t depth = depth_of(c);
    clq_value weights = clq_product_pack(list, "transposed weights", w, 1, c->out_c, depth, depth), to = dx;
    const bool crops = !l->own_dx && (is_padded(c) || clq_is_short(list, dx));
    if (crops) to = clq_list_scratch(list, "padded gradient", CLQ_F32, 0, framed.in_h * framed.in_w * framed.in_c);
    clq_launch_begin(list, "input gradient", "conv_pool", l->options.text, "spread_gradients");
    CLQ_LAUNCH_READS(list, weights, l->entries, l->lengths);
    clq_launch_value(list, to, CLQ_WRITES);
    clq_launch_work(list, 1, (size_t[]){0}, (size_t[]){1}, 0, 1, 1);
    clq_launch_cost(list, 0, flops_of(p), (double)(depth * c->out_c) * sizeof(float),
                    image_bytes(list, l->own_dx ? c : &framed, to) + l->bytes);
    if (!crops) return;
    clq_launch_begin(list, "crop", "conv_pool", l->options.text, "crop_frames");
    clq_launch_value(list, to, CLQ_READS);
    clq_launch_value(list, dx, CLQ_WRITES);
    CLQ_LAUNCH_SIZES(list, c->in_h, c->in_w, c->pad_top, c->pad_left);
    clq_launch_work(list, 1, (size_t[]){0}, (size_t[]){1}, 0, 1, 1);
    clq_launch_cost(list, 0, 0, 0, image_bytes(list, &framed, to) + image_bytes(list, c, dx));
}

/* ---- by windows ---- */

static void window_weight_gradient(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value dz,
                                   clq_value winner, clq_value dw) {
    const clq_conv2d_problem *c = &p->conv;
    size_t all = clq_ceil_div(c->out_c, clq_list_vector(list)), vectors = CLQ_MIN(all, (size_t)2),
           panels = clq_ceil_div(all, vectors), groups = clq_device_min_groups(clq_list_device(list));
    tile t = choose_tile(c->kernel_w * c->in_c, c->kernel_h, registers_of(list) / vectors - 4);
    clq_product product = product_of(p, dw);
    size_t slices = clq_product_slices(list, &product, clq_ceil_div(groups, t.tiles * panels), TERMS_LEAST);
    clq_kernel_options options = options_of(p);
    clq_options_add(&options, "-DWINNERS -DTL=%zu -DTR=%zu -DNR=%zu -DSLICES=%zu", t.across, t.down, vectors, slices);
    clq_options_storage(&options, list, "X", frames);
    clq_options_storage(&options, list, "DZ", dz);
    clq_value sums = clq_product_partial(list, &product, slices);
    clq_launch_begin(list, "weight gradient", "conv_pool", options.text, "outer_of_winners");
    CLQ_LAUNCH_READS(list, frames, dz, winner);
    clq_launch_value(list, sums, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 3, (size_t[]){t.tiles, panels, slices}, (size_t[]){1, 1, 1}, -1, 0, 0);
    size_t places = p->pool.size_h * p->pool.size_w, pooled = p->pool.out_h * p->pool.out_w * c->out_c;
    clq_launch_cost(list, 0, flops_of(p) * (double)places, (double)(depth_of(c) * c->out_c) * sizeof(float),
                    image_bytes(list, c, frames) + (double)pooled * (1 + bytes_of(list, dz)));
    clq_product_reduce(list, &product, sums, slices);
}

void clq_conv_pool_backward(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value x, clq_value w,
                            clq_value dz, clq_value winner, clq_value dx, clq_value dw) {
    const clq_conv2d_problem *c = &p->conv;
    if (c->in_c % clq_list_vector(list) == 0) {
        lists l = make_lists(list, p, frames, dz, winner, dx);
        list_weight_gradient(list, p, &l, frames, dw);
        if (dx) list_input_gradient(list, p, &l, w, dx);
    } else if (!dx) {
        window_weight_gradient(list, p, frames, dz, winner, dw);
    } else {
        clq_value full = clq_list_scratch(list, "gradient before pooling", clq_list_storage(list, dz), 0,
                                          c->out_h * c->out_w * c->out_c);
        clq_pool2d_backward(list, &p->pool, CLQ_NO_VALUE, dz, winner, full);
        clq_conv2d_backward(list, c, x, w, full, dx, dw);
    }
}
