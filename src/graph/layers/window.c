/* Windows that slide over images and rows: how many positions they have, and how many zeros stand in front. */
#include "graph/layers/layer.h"

typedef clq_window window;

/* TensorFlow's rule: 'same' gives ceil(in / stride) positions, and an odd zero stands behind. */
clq_status clq_window_place(clq_window *w, clq_padding padding) {
    size_t extent;
    /* Kernels compute positions up to the input's size plus the window's in 32-bit integers. */
    if (w->stride > INT32_MAX || !clq_mul_size(w->size - 1, w->dilation, &extent) || extent > INT32_MAX ||
        extent + w->in >= INT32_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "a window of %zu with stride %zu and dilation %zu along its %s is too large", w->size,
                        w->stride, w->dilation, w->axis);
    extent += 1;
    if (padding == CLQ_PADDING_VALID) {
        if (extent > w->in)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "its window covers %zu values of the input's %s, which is %zu: use a smaller window or "
                            "padding same",
                            extent, w->axis, w->in);
        w->out = (w->in - extent) / w->stride + 1;
        return CLQ_OK;
    }
    w->out = clq_ceil_div(w->in, w->stride);
    const size_t covered = (w->out - 1) * w->stride + extent;
    if (padding == CLQ_PADDING_CAUSAL)
        w->pad = extent - 1;
    else
        w->pad = covered > w->in ? (covered - w->in) / 2 : 0;
    return CLQ_OK;
}

/* Without `behind`, TensorFlow's rule. VALID: all windows lie within the axis, and there may be places behind the last
 * window. SAME: the axis has `out` times the stride places. With `behind`, PyTorch's output padding. VALID: so many
 * places lie behind the last window. SAME: the axis has (out - 1) times the stride places, `behind` more, and one more
 * if a window spans an odd number of places. For SAME, half of what the windows cover beyond the axis is padded in
 * front. */
clq_status clq_window_place_transposed(clq_window *w, clq_padding padding, const size_t *behind) {
    size_t extent, reach;
    if (w->stride > INT32_MAX || !clq_mul_size(w->size - 1, w->dilation, &extent) || extent >= INT32_MAX ||
        !clq_mul_size(w->out, w->stride, &reach) || reach + extent >= INT32_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "a window of %zu with stride %zu and dilation %zu along its %s is too large", w->size,
                        w->stride, w->dilation, w->axis);
    extent += 1;
    const size_t covered = (w->out - 1) * w->stride + extent;
    if (behind) {
        const size_t odd = extent % 2, around = extent + odd + *behind, all = (w->out - 1) * w->stride;
        const size_t in_front = padding == CLQ_PADDING_SAME ? CLQ_MIN((around - 1) / 2, extent - 1) : extent - 1;
        if (*behind >= w->stride)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "output_padding along its %s is %zu, and should be below its stride, %zu", w->axis, *behind,
                            w->stride);
        w->in = all + *behind + (padding == CLQ_PADDING_SAME ? odd : extent);
        w->pad = extent - 1 - in_front;
        if (w->in == 0)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "an output_padding of 0 leaves nothing of its %s: make it 1, or leave it out", w->axis);
        return CLQ_OK;
    }
    w->in = padding == CLQ_PADDING_SAME ? reach : CLQ_MAX(covered, reach);
    w->pad = padding == CLQ_PADDING_SAME && covered > reach ? (covered - reach) / 2 : 0;
    return CLQ_OK;
}

clq_status clq_layer_find_behind(const clq_numbers *given, unsigned axes, unsigned axis, size_t *behind,
                                 const size_t **out) {
    *out = NULL;
    if (given->count == 0) return CLQ_OK;
    const float number = given->values[given->count == 1 ? 0 : CLQ_MIN((size_t)axis, given->count - 1)];
    if ((given->count != 1 && given->count != axes) || !(number >= 0 && number < (float)INT32_MAX) ||
        number != (float)(size_t)number)
        return clq_fail(CLQ_ERROR_ARGUMENT, "output_padding should be one whole number of at least 0, or %u", axes);
    *behind = (size_t)number;
    *out = behind;
    return CLQ_OK;
}

clq_status clq_layer_check_rank(const clq_shape *shape, unsigned axes) {
    static const char *const wanted[] = {"", "(steps, channels)", "(height, width, channels)",
                                         "(depth, height, width, channels)"};
    char text[CLQ_SHAPE_TEXT_MAX];
    if (shape->rank == axes + 1) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "it takes %s and its input is %s: reshape it first", wanted[axes],
                    clq_shape_describe(shape, text));
}

/* Places the windows along both axes of an image. A row is an image of height 1, and its only axis is the width. */
static clq_status place_pair(const clq_window_pair *pair, const clq_shape *x, window *h, window *w) {
    const bool line = x->rank == 2;
    *h = (window){.axis = "height",
                  .in = line ? 1 : x->dims[0],
                  .size = clq_or_default(pair->size[0], 1),
                  .stride = clq_or_default(pair->strides[0], 1),
                  .dilation = clq_or_default(pair->dilation[0], 1)};
    *w = (window){.axis = line ? "length" : "width",
                  .in = x->dims[x->rank - 2],
                  .size = clq_or_default(pair->size[1], 1),
                  .stride = clq_or_default(pair->strides[1], 1),
                  .dilation = clq_or_default(pair->dilation[1], 1)};
    CLQ_TRY(clq_window_place(h, line ? CLQ_PADDING_VALID : pair->padding));
    return clq_window_place(w, pair->padding);
}

clq_status clq_infer_windows(const clq_model *model, const clq_window_pair *pair, unsigned axes, clq_model_tensor *y) {
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    window h, w;
    CLQ_TRY(clq_layer_check_rank(x, axes));
    CLQ_TRY(place_pair(pair, x, &h, &w));
    if ((h.stride > 1 || w.stride > 1) && (h.dilation > 1 || w.dilation > 1))
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "strides (%zu, %zu) and dilation_rate (%zu, %zu) cannot both be above 1: drop one", h.stride,
                        w.stride, h.dilation, w.dilation);
    y->shape = axes == 1 ? CLQ_SHAPE(w.out, x->dims[1]) : CLQ_SHAPE(h.out, w.out, x->dims[2]);
    return CLQ_OK;
}

clq_conv2d_problem clq_expand_windows(const clq_expansion *e, const clq_window_pair *pair) {
    const clq_shape *x = &clq_model_input_of(e->model, e->y, 0)->shape;
    window h, w;
    (void)place_pair(pair, x, &h, &w); /* as it was inferred */
    return (clq_conv2d_problem){.in_h = h.in,
                                .in_w = w.in,
                                .in_c = x->dims[x->rank - 1],
                                .out_h = h.out,
                                .out_w = w.out,
                                .kernel_h = h.size,
                                .kernel_w = w.size,
                                .stride_h = h.stride,
                                .stride_w = w.stride,
                                .dilation_h = h.dilation,
                                .dilation_w = w.dilation,
                                .pad_top = h.pad,
                                .pad_left = w.pad};
}

clq_node clq_expand_convolution(const clq_expansion *e, const clq_conv2d_problem *problem, size_t groups) {
    clq_node node = clq_expand_node(e, groups > 1 ? &clq_op_grouped : &clq_op_conv2d);
    if (groups > 1)
        node.attributes.grouped = (clq_grouped_problem){.conv = *problem, .groups = groups};
    else
        node.attributes.conv2d = *problem;
    return node;
}
