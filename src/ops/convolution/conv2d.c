/* Two-dimensional convolutions (cross-correlations, as in Keras) as products with patches of images. */
#include "ops/convolution/winograd.h"

/* Whether a convolution is a matrix product of values as they lie in memory: pixel by pixel, or over the whole image.
 * If so, *out is this product. */
static bool as_dense(const clq_conv2d_problem *p, clq_dense_problem *out) {
    bool padded = p->pad_top || p->pad_left;
    bool pixel = p->kernel_h == 1 && p->kernel_w == 1 && p->stride_h == 1 && p->stride_w == 1 && p->out_h == p->in_h &&
                 p->out_w == p->in_w;
    bool whole = p->kernel_h == p->in_h && p->kernel_w == p->in_w && p->out_h == 1 && p->out_w == 1 &&
                 (p->dilation_h == 1 || p->kernel_h == 1) && (p->dilation_w == 1 || p->kernel_w == 1);
    if (padded || (!pixel && !whole)) return false;
    *out = (clq_dense_problem){
        .in = pixel ? p->in_c : p->in_h * p->in_w * p->in_c,
        .out = p->out_c,
        .activation = p->activation,
        .rows_per_example = pixel ? p->in_h * p->in_w : 1,
        .adds = p->adds,
    };
    return true;
}

clq_patches clq_patches_of_conv(const clq_conv2d_problem *p) {
    return (clq_patches){
        .rows = 1,
        .channels = p->in_c,
        .h = {p->in_h, p->out_h, p->kernel_h, (int)p->stride_h, -(int)p->pad_top, (int)p->dilation_h, 1},
        .w = {p->in_w, p->out_w, p->kernel_w, (int)p->stride_w, -(int)p->pad_left, (int)p->dilation_w, 1},
    };
}

/* The outputs whose gradients an input pixel gathers. Output o met the pixel through tap t if o * stride - pad + t *
 * dilation is the pixel's place. */
static clq_patches patches_of_gradient(const clq_conv2d_problem *p) {
    return (clq_patches){
        .rows = 1,
        .channels = p->out_c,
        .h = {p->out_h, p->in_h, p->kernel_h, 1, (int)p->pad_top, -(int)p->dilation_h, (int)p->stride_h},
        .w = {p->out_w, p->in_w, p->kernel_w, 1, (int)p->pad_left, -(int)p->dilation_w, (int)p->stride_w},
    };
}

static void add(clq_list *list, const clq_product *p) {
    clq_choice choice = {.index = SIZE_MAX};
    bool (*by_fewer)(clq_list *, const clq_product *, clq_choice *) = p->outer ? clq_winograd_outer : clq_winograd_rows;
    if (!by_fewer(list, p, &choice)) clq_product_add(list, p);
    clq_list_end_choice(list, &choice);
}

void clq_conv2d_forward(clq_list *list, const clq_conv2d_problem *p, clq_value x, clq_value w, clq_value b,
                        clq_value y) {
    clq_dense_problem dense;
    if (as_dense(p, &dense)) {
        clq_dense_forward(list, &dense, x, w, b, y);
        return;
    }
    const clq_product product = clq_product_forward(clq_patches_of_conv(p), p->out_c, p->activation, x, w, b, y);
    add(list, &product);
}

void clq_conv2d_backward(clq_list *list, const clq_conv2d_problem *p, clq_value x, clq_value w, clq_value dz,
                         clq_value dx, clq_value dw) {
    clq_dense_problem dense;
    if (as_dense(p, &dense)) {
        clq_dense_backward(list, &dense, x, w, dz, dx, dw);
        return;
    }
    const clq_product weights = clq_product_weight_gradient(clq_patches_of_conv(p), p->out_c, x, dz, dw, p->adds);
    const clq_product input = clq_product_input_gradient(patches_of_gradient(p), p->in_c, dz, w, dx);
    if (dw) add(list, &weights);
    if (dx) add(list, &input);
}
