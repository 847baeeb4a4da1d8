/* Max and average pooling. */
#include "ops/elementwise/cut.h"

static clq_dtype winner_dtype(const clq_pool2d_problem *p) { return p->size_h * p->size_w <= 256 ? CLQ_U8 : CLQ_I32; }

size_t clq_pool2d_winner_bytes(const clq_pool2d_problem *p) {
    return clq_values_bytes(winner_dtype(p), p->out_h * p->out_w * p->channels);
}

/* Whether no window reaches beyond the input along an axis. */
static bool inside(size_t in, size_t out, size_t size, size_t stride, size_t pad) {
    return pad == 0 && (out - 1) * stride + size <= in;
}

static clq_kernel_options options_of(const clq_pool2d_problem *p, const clq_cut *cut, size_t width, bool keep) {
    bool in = inside(p->in_h, p->out_h, p->size_h, p->stride_h, p->pad_top) &&
              inside(p->in_w, p->out_w, p->size_w, p->stride_w, p->pad_left);
    bool blocks = in && p->size_h == p->stride_h && p->size_w == p->stride_w;
    return clq_cut_options(
        cut, " -DWIDTH=%zu -DSIZE_H=%zu -DSIZE_W=%zu -DSTRIDE_H=%zu -DSTRIDE_W=%zu -DWINNER=%s -DACT=%d%s%s%s%s", width,
        p->size_h, p->size_w, p->stride_h, p->stride_w, winner_dtype(p) == CLQ_U8 ? "uchar" : "int", (int)p->activation,
        in ? " -DINSIDE" : "", blocks ? " -DBLOCKS" : "", p->average ? " -DAVERAGE" : "", keep ? " -DKEEP" : "");
}

static void shape_arguments(clq_list *list, const clq_pool2d_problem *p, size_t width) {
    CLQ_LAUNCH_SIZES(list, p->in_h, p->in_w, p->out_h, p->out_w, p->pad_top, p->pad_left, p->channels / width);
}

static double bytes_of(const clq_list *list, clq_value value) { /* of a number */
    return (double)clq_dtype_bytes(clq_list_storage(list, value));
}

/* Bytes that move for one example, either way. */
static double traffic(const clq_list *list, const clq_pool2d_problem *p, clq_value x, clq_value y, bool winners) {
    double in = (double)(p->in_h * p->in_w * p->channels), out = (double)(p->out_h * p->out_w * p->channels);
    return in * bytes_of(list, x) + out * bytes_of(list, y) + (winners ? (double)clq_pool2d_winner_bytes(p) : 0);
}

static double window_flops(const clq_pool2d_problem *p) {
    return (double)(p->out_h * p->out_w * p->channels) * (double)(p->size_h * p->size_w);
}

void clq_pool2d_forward(clq_list *list, const clq_pool2d_problem *p, clq_value x, clq_value y, clq_value winner) {
    bool keep = !p->average && winner != CLQ_NO_VALUE;
    double bytes = traffic(list, p, x, y, keep), capacity = clq_list_capacity(list);
    double elements = (double)(p->out_h * p->out_w * p->channels);
    clq_cut cut = clq_cut_make(list, bytes * capacity, elements * capacity / 4, 256);
    size_t width = clq_cut_pack(&cut, p->channels);
    clq_kernel_options options = options_of(p, &cut, width, keep);
    clq_options_storage(&options, list, "X", x);
    clq_options_storage(&options, list, "Y", y);
    clq_launch_begin(list, "forward", "pool2d", options.text, "pool2d_forward");
    clq_launch_value(list, x, CLQ_READS);
    CLQ_LAUNCH_WRITES(list, y, keep ? winner : CLQ_NO_VALUE);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    shape_arguments(list, p, width);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, window_flops(p), 0, bytes);
}

void clq_pool2d_backward(clq_list *list, const clq_pool2d_problem *p, clq_value y, clq_value dy, clq_value winner,
                         clq_value dx) {
    bool linear = p->activation == CLQ_ACTIVATION_LINEAR;
    double bytes = traffic(list, p, dx, dy, !p->average), capacity = clq_list_capacity(list);
    double elements = (double)(p->in_h * p->in_w * p->channels);
    if (!linear) bytes += (double)(p->out_h * p->out_w * p->channels) * bytes_of(list, y);
    clq_cut cut = clq_cut_make(list, bytes * capacity, elements * capacity / 4, 256);
    size_t width = clq_cut_pack(&cut, p->channels);
    clq_kernel_options options = options_of(p, &cut, width, !p->average);
    if (!linear) clq_options_storage(&options, list, "Y", y);
    clq_options_storage(&options, list, "DY", dy);
    clq_options_storage(&options, list, "DX", dx);
    clq_launch_begin(list, "backward", "pool2d", options.text, "pool2d_backward");
    CLQ_LAUNCH_READS(list, linear ? CLQ_NO_VALUE : y, dy, p->average ? CLQ_NO_VALUE : winner);
    clq_launch_value(list, dx, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    shape_arguments(list, p, width);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, window_flops(p), 0, bytes);
}
