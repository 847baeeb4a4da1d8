/* A convolution of volumes, computed as a convolution of images. Private to graph/layers. (volume.c)
 *
 * In memory, the kernel (kd, kh, kw, c, filters) is the kernel of an image with kw * c channels. An image is (depth,
 * height), and there is one for each window position along the width. Channel (k, c) of the image is what channel c has
 * at place k of the window. All images of a sample are joined to one image, the depths of one behind those of another.
 * Zeros between them keep each window that counts within its own image, and make windows begin where images begin. */
#ifndef CLQ_GRAPH_LAYERS_VOLUME_H
#define CLQ_GRAPH_LAYERS_VOLUME_H

#include "graph/layers/layer.h"

enum { CLQ_DEPTH, CLQ_HEIGHT, CLQ_WIDTH, CLQ_VOLUME_AXES };

/* Attributes of volume convolutions. Strides and dilation default to 1. */
#define CLQ_VOLUME_ATTRIBUTES                                                                                          \
    {CLQ_LAYER_ATTRIBUTE("filters", CLQ_ATTRIBUTE_SIZES, clq_conv3d_config, filters), .needed = true},                 \
        {CLQ_LAYER_ATTRIBUTE("kernel_size", CLQ_ATTRIBUTE_SIZES, clq_conv3d_config, kernel), .count = 3,               \
         .needed = true},                                                                                              \
        {CLQ_LAYER_ATTRIBUTE("strides", CLQ_ATTRIBUTE_SIZES, clq_conv3d_config, strides), .count = 3, .fallback = 1},  \
        {CLQ_LAYER_ATTRIBUTE("dilation_rate", CLQ_ATTRIBUTE_SIZES, clq_conv3d_config, dilation), .count = 3,           \
         .fallback = 1},                                                                                               \
        {CLQ_LAYER_ATTRIBUTE("padding", CLQ_ATTRIBUTE_PADDING, clq_conv3d_config, padding)},                           \
        {CLQ_LAYER_ATTRIBUTE("activation", CLQ_ATTRIBUTE_ACTIVATION, clq_conv3d_config, activation)},                  \
        {CLQ_LAYER_ATTRIBUTE("use_bias", CLQ_ATTRIBUTE_OPPOSITE, clq_conv3d_config, no_bias)},                         \
        {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},                              \
        {CLQ_LAYER_ATTRIBUTE("kernel_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_conv3d_config, kernel_initialiser)}, \
    {                                                                                                                  \
        CLQ_LAYER_ATTRIBUTE("bias_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_conv3d_config, bias_initialiser)        \
    }

/* The windows of a volume's convolution or pooling, one along each axis. */
typedef struct clq_volume_windows {
    clq_window of[CLQ_VOLUME_AXES];
} clq_volume_windows;

/* The windows over a volume x. The caller still has to place each axis. dilation NULL: 1. */
clq_status clq_volume_windows_of(const clq_shape *x, const size_t *size, const size_t *strides, const size_t *dilation,
                                 clq_volume_windows *out);
/* Errors: ARGUMENT or UNSUPPORTED if the convolution cannot be computed as one of images. */
clq_status clq_volume_check(const clq_volume_windows *w, size_t channels, size_t filters);
/* Declares the kernel (kd, kh, kw, in, out), and the bias if the layer has one. */
clq_status clq_volume_declare(clq_model *model, clq_layer *layer, size_t in, size_t out);

clq_conv2d_problem clq_volume_problem(const clq_volume_windows *w, size_t channels, size_t filters);
/* (depth, height, width, channels) -> what the windows have at place k of the width: (images, depth, height,
 * channels). */
clq_arrangement clq_volume_place(const clq_volume_windows *w, size_t k, size_t channels);
/* (images, depth / stride, height, filters) -> (depth, height, width, filters). Leaves out what lies between images. */
clq_arrangement clq_volume_positions(const clq_volume_windows *w, size_t filters);
/* Convolves x (depth, height, width, channels) to (positions along each axis, filters). kernel: (kd, kh, kw, channels /
 * groups, filters); bias 0: none. */
typedef struct clq_volume_sizes {
    size_t channels, filters, groups;
} clq_volume_sizes;
clq_id clq_volume_convolve(const clq_expansion *e, const clq_parts *parts, const clq_volume_windows *w,
                           const clq_volume_sizes *sizes, clq_id x, clq_id kernel, clq_id bias);

#endif
