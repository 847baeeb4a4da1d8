/* Convolutions whose channels are in groups, depthwise convolutions included. They are no matrix products: each filter
 * has windows of few channels. */
#include "ops/elementwise/cut.h"

/* How many flops count as one byte of traffic when the number of cores is chosen. */
static const double flops_per_byte = 4;

static size_t inputs_of(const clq_grouped_problem *p) { return p->conv.in_c / p->groups; }
static size_t weights_of(const clq_grouped_problem *p) {
    return p->conv.kernel_h * p->conv.kernel_w * inputs_of(p) * p->conv.out_c;
}

/* Multiplications and additions per sample. */
static double flops_of(const clq_grouped_problem *p) {
    return 2.0 * (double)(p->conv.out_h * p->conv.out_w) * (double)weights_of(p);
}

static clq_kernel_options options_of(const clq_grouped_problem *p, const clq_cut *cut, const char *more) {
    return clq_cut_options(cut, " -DKH=%zu -DKW=%zu -DIN=%zu -DOUT=%zu%s", p->conv.kernel_h, p->conv.kernel_w,
                           inputs_of(p), p->conv.out_c / p->groups, more);
}

static void add_sizes(clq_list *list, const clq_conv2d_problem *p) {
    CLQ_LAUNCH_SIZES(list, p->in_h, p->in_w, p->in_c, p->out_h, p->out_w, p->out_c, p->stride_h, p->stride_w,
                     p->dilation_h, p->dilation_w, p->pad_top, p->pad_left);
}

/* The bytes of a sample's input and output. */
static double bytes_of(const clq_list *list, const clq_conv2d_problem *p, clq_value x, clq_value y) {
    return (double)(p->in_h * p->in_w * p->in_c) * (double)clq_dtype_bytes(clq_list_storage(list, x)) +
           (double)(p->out_h * p->out_w * p->out_c) * (double)clq_dtype_bytes(clq_list_storage(list, y));
}

/* The cut. Arithmetic counts, too, for the number of cores. */
static clq_cut cut_of(const clq_list *list, const clq_grouped_problem *p, double bytes, double numbers) {
    const double capacity = clq_list_capacity(list);
    return clq_cut_make(list, (bytes + flops_of(p) / flops_per_byte) * capacity, numbers * capacity, 256);
}

void clq_grouped_forward(clq_list *list, const clq_grouped_problem *p, clq_value x, clq_value w, clq_value b,
                         clq_value y) {
    const clq_conv2d_problem *c = &p->conv;
    const double bytes = bytes_of(list, c, x, y);
    const clq_cut cut = cut_of(list, p, bytes, (double)(c->out_h * c->out_w * c->out_c));
    clq_kernel_options options = options_of(p, &cut, b != CLQ_NO_VALUE ? " -DBIAS" : "");
    clq_options_add(&options, " -DACT=%d", (int)c->activation);
    clq_options_storage(&options, list, "X", x);
    clq_options_storage(&options, list, "Y", y);
    clq_launch_begin(list, "forward", "grouped", options.text, "grouped_forward");
    CLQ_LAUNCH_READS(list, x, w, b);
    clq_launch_value(list, y, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    add_sizes(list, c);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, flops_of(p), (double)weights_of(p) * sizeof(float), bytes);
}

static void input_gradient(clq_list *list, const clq_grouped_problem *p, clq_value w, clq_value dz, clq_value dx) {
    const clq_conv2d_problem *c = &p->conv;
    const double bytes = bytes_of(list, c, dx, dz);
    const clq_cut cut = cut_of(list, p, bytes, (double)(c->in_h * c->in_w * c->in_c));
    clq_kernel_options options = options_of(p, &cut, "");
    clq_options_storage(&options, list, "DZ", dz);
    clq_options_storage(&options, list, "DX", dx);
    clq_launch_begin(list, "input gradient", "grouped", options.text, "grouped_input_gradient");
    CLQ_LAUNCH_READS(list, dz, w);
    clq_launch_value(list, dx, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    add_sizes(list, c);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, flops_of(p), (double)weights_of(p) * sizeof(float), bytes);
}

static void weight_gradient(clq_list *list, const clq_grouped_problem *p, clq_value x, clq_value dz, clq_value dw) {
    const clq_conv2d_problem *c = &p->conv;
    const size_t numbers = weights_of(p), rows = c->out_h * clq_list_capacity(list);
    const double bytes = bytes_of(list, c, x, dz);
    clq_cut cut = cut_of(list, p, bytes, (double)numbers);
    const size_t slices = clq_fold_slices(list, &cut, rows, numbers);
    if (cut.tile) cut.groups = slices;
    const clq_value partials = clq_list_scratch(list, "partial sums", CLQ_F32, slices * numbers, 0);
    clq_kernel_options options = options_of(p, &cut, "");
    clq_options_storage(&options, list, "X", x);
    clq_options_storage(&options, list, "DZ", dz);
    clq_launch_begin(list, "weight gradient", "grouped", options.text, "grouped_weight_gradient");
    CLQ_LAUNCH_READS(list, x, dz);
    clq_launch_value(list, partials, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_size(list, slices);
    add_sizes(list, c);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, flops_of(p), (double)(slices * numbers) * sizeof(float), bytes);
    clq_fold(list, slices, numbers, partials, dw);
}

void clq_grouped_backward(clq_list *list, const clq_grouped_problem *p, clq_value x, clq_value w, clq_value dz,
                          clq_value dx, clq_value dw) {
    if (dw) weight_gradient(list, p, x, dz, dw);
    if (dx) input_gradient(list, p, w, dz, dx);
}
