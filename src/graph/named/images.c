/* Further networks for images: vgg11, convmixer, unet; and helpers that several networks share. */
#include "graph/named/named.h"

clq_tensor clq_named_norm(clq_model *m, clq_tensor x, clq_activation activation) {
    clq_batch_norm_config norm = clq_batch_norm_config_default();
    norm.momentum = 0.9; /* with 0.99 the moving statistics would lag behind the weights of a short training */
    x = clq_batch_norm(m, x, &norm);
    return activation == CLQ_ACTIVATION_LINEAR ? x : clq_activate(m, x, activation, NULL);
}

clq_tensor clq_named_conv_norm(clq_model *m, clq_tensor x, const clq_conv2d_config *conv, clq_activation activation) {
    clq_conv2d_config config = *conv;
    config.no_bias = true; /* the normalisation has one */
    return clq_named_norm(m, clq_conv2d(m, x, &config), activation);
}

clq_tensor clq_named_average(clq_model *m, clq_tensor x) { return clq_global_average_pool(m, x, false, NULL); }

clq_tensor clq_named_classify(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    return clq_dense(m, x, &(clq_dense_config){.units = s->classes, .activation = CLQ_ACTIVATION_SOFTMAX});
}

/* ---- Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015,
 * configuration A, with batch normalisation. Small images have one dense layer, as is usual for them. ---- */

static clq_tensor build_vgg11(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    static const size_t filters[] = {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0}; /* 0: a pooling */
    for (size_t i = 0; i < CLQ_COUNT_OF(filters); i++)
        x = filters[i]
                ? clq_named_conv_norm(
                      m, x, &(clq_conv2d_config){.filters = filters[i], .kernel = {3, 3}, .padding = CLQ_PADDING_SAME},
                      CLQ_ACTIVATION_RELU)
                : clq_max_pool2d(m, x, &(clq_pool_config){.padding = CLQ_PADDING_SAME});
    x = clq_flatten(m, x, NULL);
    for (int layer = 0; layer < 2 && !clq_named_is_small(s); layer++) {
        x = clq_dense(m, x, &(clq_dense_config){.units = 4096, .activation = CLQ_ACTIVATION_RELU});
        x = clq_dropout(m, x, NULL);
    }
    return clq_named_classify(m, x, s);
}
const clq_named_model clq_named_vgg11 = {.name = "vgg11", .input = CLQ_NAMED_IMAGE, .build = build_vgg11};

/* ---- Trockman and Kolter, "Patches are all you need?", 2022 ---- */

static clq_tensor build_convmixer(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    const size_t width = s->options[0], layers = s->options[1], side = s->options[2], patch = s->options[3];
    clq_conv2d_config conv = {
        .filters = width, .kernel = {patch, patch}, .strides = {patch, patch}, .activation = CLQ_ACTIVATION_GELU};
    x = clq_named_norm(m, clq_conv2d(m, x, &conv), CLQ_ACTIVATION_LINEAR);
    conv = (clq_conv2d_config){.filters = width, .kernel = {1, 1}, .activation = CLQ_ACTIVATION_GELU};
    for (size_t i = 0; i < layers; i++) {
        const clq_depthwise_conv2d_config depthwise = {
            .kernel = {side, side}, .padding = CLQ_PADDING_SAME, .activation = CLQ_ACTIVATION_GELU};
        const clq_tensor y = clq_named_norm(m, clq_depthwise_conv2d(m, x, &depthwise), CLQ_ACTIVATION_LINEAR);
        x = clq_add(m, CLQ_TENSORS(y, x), NULL);
        x = clq_named_norm(m, clq_conv2d(m, x, &conv), CLQ_ACTIVATION_LINEAR);
    }
    return clq_named_classify(m, clq_named_average(m, x), s);
}
const clq_named_model clq_named_convmixer = {
    .name = "convmixer",
    .input = CLQ_NAMED_IMAGE,
    .options = {{"width", 256, 1, 4096}, {"layers", 8, 1, 64}, {"kernel", 5, 1, 31}, {"patch", 2, 1, 64}},
    .build = build_convmixer};

/* ---- Ronneberger, Fischer and Brox, "U-Net: Convolutional networks for biomedical image segmentation", 2015, with
 * convolutions that keep the size: a class for each place ---- */

enum { LEVELS_MAX = 6, LEVELS_USUAL = 4 };

static clq_tensor two_convs(clq_model *m, clq_tensor x, size_t filters) {
    const clq_conv2d_config conv = {
        .filters = filters, .kernel = {3, 3}, .padding = CLQ_PADDING_SAME, .activation = CLQ_ACTIVATION_RELU};
    return clq_conv2d(m, clq_conv2d(m, x, &conv), &conv);
}

/* The option `levels`. If it is left open: as often as both sides can be halved, but at most LEVELS_USUAL times. */
static size_t levels_of(const clq_named_settings *s) {
    size_t levels = s->options[1];
    const size_t sides = s->input.dims[0] | s->input.dims[1];
    while (!s->options[1] && levels < LEVELS_USUAL && sides % (2u << levels) == 0) levels++;
    return levels;
}

static clq_status check_unet(const clq_named_settings *s) {
    const size_t levels = levels_of(s), *sides = s->input.dims;
    if (levels > 0 && (sides[0] | sides[1]) % (1u << levels) == 0) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "images of %zu x %zu cannot be halved %zu times", sides[0], sides[1],
                    CLQ_MAX(levels, (size_t)1));
}

static clq_tensor build_unet(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    const size_t width = s->options[0], levels = levels_of(s);
    clq_tensor kept[LEVELS_MAX];
    for (size_t i = 0; i < levels; i++) {
        kept[i] = two_convs(m, x, width << i);
        x = clq_max_pool2d(m, kept[i], NULL);
    }
    x = two_convs(m, x, width << levels);
    for (size_t i = levels; i-- > 0;) {
        x = clq_conv2d_transpose(m, x,
                                 &(clq_conv2d_config){.filters = width << i, .kernel = {2, 2}, .strides = {2, 2}});
        x = two_convs(m, clq_concatenate(m, CLQ_TENSORS(kept[i], x), -1, NULL), width << i);
    }
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = s->classes, .kernel = {1, 1}});
    return clq_activate(m, x, CLQ_ACTIVATION_SOFTMAX, NULL);
}
const clq_named_model clq_named_unet = {.name = "unet",
                                        .input = CLQ_NAMED_IMAGE,
                                        .options = {{"width", 32, 1, 512}, {"levels", 0, 1, LEVELS_MAX}},
                                        .check = check_unet,
                                        .build = build_unet};
