/* Convolution, activation and max pooling in one, with a backward pass from the pooled gradient (cl/conv_pool.cl). */
#include "ops/convolution/conv_pool.h"

#include "ops/convolution/winograd.h"

enum {
    LONG_SUM = 1024,  /* terms that are added up before they are put aside, */
    LONG_RUN = 512,   /* and of one row of taps */
    CHAINS = 8,       /* sums side by side that hide a multiplication's latency */
    ITEM_TERMS = 1500 /* products of vectors that are worth a work-item */
};

/* Along an axis: windows side by side that do not reach beyond the convolution's output. */
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
           c->dilation_w == 1 && places + 2 <= clq_conv_pool_registers(list) &&
           (run <= LONG_RUN || c->kernel_h * run <= LONG_SUM);
}

bool clq_conv_pool_pays(const clq_list *list, const clq_conv_pool_problem *p) {
    return p->conv.out_c % clq_device_vector(clq_list_device(list)) == 0;
}

size_t clq_conv_pool_registers(const clq_list *list) {
    return clq_device_vector(clq_list_device(list)) >= 16 ? 32 : 16;
}

clq_conv2d_problem clq_conv_pool_framed(const clq_conv2d_problem *c) {
    clq_conv2d_problem framed = *c;
    if (!is_padded(c)) return framed;
    framed.in_h = (c->out_h - 1) * c->stride_h + c->kernel_h;
    framed.in_w = (c->out_w - 1) * c->stride_w + c->kernel_w;
    framed.pad_top = framed.pad_left = 0;
    return framed;
}

clq_value clq_conv_pool_frames(clq_list *list, const clq_conv_pool_problem *p, clq_value x) {
    if (!is_padded(&p->conv)) return x;
    clq_patches patches = clq_patches_of_conv(&p->conv);
    clq_patches_pad(list, &patches, &x);
    return x;
}

clq_kernel_options clq_conv_pool_options(const clq_conv_pool_problem *p) {
    clq_kernel_options options = {.length = 0};
    const clq_conv2d_problem c = clq_conv_pool_framed(&p->conv);
    const clq_pool2d_problem *q = &p->pool;
    clq_options_add(&options,
                    "-DCOLUMNS=%zu -DDEPTH=%zu -DIN_H=%zu -DIN_W=%zu -DIN_C=%zu -DTAPS_H=%zu -DTAPS_W=%zu "
                    "-DSTEP_H=%zu -DSTEP_W=%zu -DPOOL_H=%zu -DPOOL_W=%zu -DSIZE_H=%zu -DSIZE_W=%zu -DSTRIDE_H=%zu "
                    "-DSTRIDE_W=%zu ",
                    c.out_c, c.kernel_h * c.kernel_w * c.in_c, c.in_h, c.in_w, c.in_c, c.kernel_h, c.kernel_w,
                    c.stride_h, c.stride_w, q->out_h, q->out_w, q->size_h, q->size_w, q->stride_h, q->stride_w);
    return options;
}

/* What a work-item makes: `tiles` times `windows` windows in `vectors` vectors of channels. stay: the weights do, in
 * registers. */
typedef struct forward_cut {
    size_t windows, vectors, panels, tiles;
    bool stay;
} forward_cut;

/* Two vectors of channels are enough for as many multiplications per load as a core can do; three where that wastes
 * less. As many windows as have room for their accumulators, a row of weights and one input; but one where all weights
 * have room, too, and stay, and its sums are enough to go on side by side. Short sums take several tiles to be worth a
 * work-item. */
static forward_cut cut_forward(const clq_list *list, const clq_conv_pool_problem *p) {
    const clq_conv2d_problem *c = &p->conv;
    size_t places = p->pool.size_h * p->pool.size_w, depth = c->kernel_h * c->kernel_w * c->in_c;
    size_t all = clq_ceil_div(c->out_c, clq_device_vector(clq_list_device(list)));
    size_t registers = clq_conv_pool_registers(list), groups = clq_device_min_groups(clq_list_device(list));
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

/* By the plain sum. */
static void add_forward(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value w, clq_value b,
                        clq_value y, clq_value winner) {
    const clq_conv2d_problem *c = &p->conv;
    const clq_pool2d_problem *q = &p->pool;
    clq_kernel_options options = clq_conv_pool_options(p);
    size_t depth = c->kernel_h * c->kernel_w * c->in_c;
    forward_cut f = cut_forward(list, p);
    clq_options_add(&options, "-DFORWARD -DTILES=%zu -DWT=%zu -DNR=%zu -DACT=%d%s%s%s%s", f.tiles, f.windows, f.vectors,
                    (int)c->activation, b ? " -DBIAS" : "", winner ? " -DKEEP" : "",
                    depth > LONG_SUM ? " -DBLOCKED" : "", f.stay ? " -DSTAY" : "");
    clq_launch_begin(list, "forward", "conv_pool", options.text, "conv_pool_forward");
    CLQ_LAUNCH_READS(list, frames, w, b);
    CLQ_LAUNCH_WRITES(list, y, winner);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 2, (size_t[]){0, f.panels}, (size_t[]){1, 1}, 0, q->out_h * q->out_w, f.windows * f.tiles);
    double pooled = (double)(q->out_h * q->out_w * c->out_c), in = (double)(c->in_h * c->in_w * c->in_c);
    clq_launch_cost(list, 0, 2 * pooled * (double)(q->size_h * q->size_w * depth),
                    (double)(depth * c->out_c) * sizeof(float), (in + pooled) * sizeof(float) + (winner ? pooled : 0));
}

void clq_conv_pool_forward(clq_list *list, const clq_conv_pool_problem *p, clq_value frames, clq_value w, clq_value b,
                           clq_value y, clq_value winner) {
    const clq_conv2d_problem c = clq_conv_pool_framed(&p->conv);
    const clq_product product = clq_product_forward(clq_patches_of_conv(&c), c.out_c, c.activation, frames, w, b, y);
    clq_choice choice = {.index = SIZE_MAX};
    if (!clq_winograd_pool(list, &product, &p->pool, winner, &choice)) add_forward(list, p, frames, w, b, y, winner);
    clq_list_end_choice(list, &choice);
}
