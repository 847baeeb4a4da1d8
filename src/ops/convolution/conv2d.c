/* Two-dimensional convolutions (cross-correlations, as in Keras) as products with patches of images. */
#include "ops/convolution/winograd.h"

/* A convolution that is a matrix product as it lies in memory: by one pixel at a time, or by the whole image. */
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
    };
    return true;
}

static clq_patches patches_of_input(const clq_conv2d_problem *p) {
    return (clq_patches){
        .rows = 1,
        .channels = p->in_c,
        .h = {p->in_h, p->out_h, p->kernel_h, (int)p->stride_h, -(int)p->pad_top, (int)p->dilation_h, 1},
        .w = {p->in_w, p->out_w, p->kernel_w, (int)p->stride_w, -(int)p->pad_left, (int)p->dilation_w, 1},
    };
}

/* Which outputs' gradients an input pixel gathers: output o met it through tap t where o * stride - pad + t * dilation
 * is its place. */
static clq_patches patches_of_gradient(const clq_conv2d_problem *p) {
    return (clq_patches){
        .rows = 1,
        .channels = p->out_c,
        .h = {p->out_h, p->in_h, p->kernel_h, 1, (int)p->pad_top, -(int)p->dilation_h, (int)p->stride_h},
        .w = {p->out_w, p->in_w, p->kernel_w, 1, (int)p->pad_left, -(int)p->dilation_w, (int)p->stride_w},
    };
}

static void add_rows(clq_list *list, const clq_rows_product *p) {
    clq_choice choice = {.index = SIZE_MAX};
    if (!clq_winograd_rows(list, p, &choice)) clq_product_rows(list, p);
    clq_list_end_choice(list, &choice);
}

void clq_conv2d_forward(clq_list *list, const clq_conv2d_problem *p, clq_value x, clq_value w, clq_value b,
                        clq_value y) {
    clq_dense_problem dense;
    if (as_dense(p, &dense)) {
        clq_dense_forward(list, &dense, x, w, b, y);
        return;
    }
    add_rows(list, &(clq_rows_product){
                       .label = "forward",
                       .patches = patches_of_input(p),
                       .columns = p->out_c,
                       .activation = p->activation,
                       .x = x,
                       .w = w,
                       .b = b,
                       .y = y,
                   });
}

void clq_conv2d_backward(clq_list *list, const clq_conv2d_problem *p, clq_value x, clq_value w, clq_value dz,
                         clq_value dx, clq_value dw) {
    clq_dense_problem dense;
    if (as_dense(p, &dense)) {
        clq_dense_backward(list, &dense, x, w, dz, dx, dw);
        return;
    }
    if (dw)
        clq_product_outer(list, &(clq_outer_product){
                                    .label = "weight gradient",
                                    .patches = patches_of_input(p),
                                    .columns = p->out_c,
                                    .x = x,
                                    .dz = dz,
                                    .dw = dw,
                                });
    if (dx)
        add_rows(list, &(clq_rows_product){
                           .label = "input gradient",
                           .patches = patches_of_gradient(p),
                           .columns = p->in_c,
                           .transposed = true,
                           .x = dz,
                           .w = w,
                           .y = dx,
                       });
}
