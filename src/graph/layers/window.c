/* Windows that slide over images: how many positions they have, and how many zeros are put in front. */
#include "graph/layers/layer.h"

clq_status clq_window_place(clq_window *w, clq_padding padding) {
    size_t extent;
    /* Kernels compute positions up to the input's size plus the window's in 32-bit integers. */
    if (w->stride > INT32_MAX || !clq_mul_size(w->size - 1, w->dilation, &extent) || extent > INT32_MAX ||
        extent + w->in >= INT32_MAX)
        return clq_fail(CLQ_ARGUMENT, "a window of %zu with stride %zu and dilation %zu along its %s is too large",
                        w->size, w->stride, w->dilation, w->axis);
    extent += 1;
    if (padding == CLQ_VALID) {
        if (extent > w->in)
            return clq_fail(CLQ_ARGUMENT,
                            "its window covers %zu values of the input's %s, which is %zu: use a smaller window or "
                            "padding same",
                            extent, w->axis, w->in);
        w->out = (w->in - extent) / w->stride + 1;
        return CLQ_OK;
    }
    w->out = clq_ceil_div(w->in, w->stride);
    size_t covered = (w->out - 1) * w->stride + extent;
    w->pad = covered > w->in ? (covered - w->in) / 2 : 0;
    return CLQ_OK;
}

clq_status clq_layer_check_image(const clq_shape *shape) {
    char text[CLQ_SHAPE_TEXT_MAX];
    if (shape->rank == 3) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT, "it takes (height, width, channels) and its input is %s: reshape it first",
                    clq_shape_describe(shape, text));
}
