/* He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2016: resnet18, resnet34, resnet50 (with the
 * stride in the 3 x 3 convolution, as in torchvision), and section 4.2's resnet20 for small images. */
#include "graph/named/named.h"

enum { STAGES_MAX = 4, WIDENING = 4 };

typedef struct network {
    size_t stages, width; /* width: filters of the first stage; each further one has twice as many */
    size_t blocks[STAGES_MAX];
    bool bottleneck;
} network;

static clq_tensor conv(clq_model *m, clq_tensor x, size_t filters, size_t side, size_t stride,
                       clq_activation activation) {
    const clq_conv2d_config config = {.filters = filters,
                                      .kernel = {side, side},
                                      .strides = {stride, stride},
                                      .padding = CLQ_PADDING_SAME,
                                      /* He, Zhang, Ren and Sun, "Delving deep into rectifiers", 2015. */
                                      .kernel_initialiser = {.kind = CLQ_INITIALISER_VARIANCE_SCALING,
                                                             .scale = 2,
                                                             .distribution = CLQ_DISTRIBUTION_TRUNCATED_NORMAL}};
    return clq_named_conv_norm(m, x, &config, activation);
}

/* wider: the block's output has another shape than x. Then a convolution of 1 x 1 gives the shortcut that shape. */
static clq_tensor add_block(clq_model *m, clq_tensor x, const network *n, size_t filters, size_t stride, bool wider) {
    const size_t outputs = n->bottleneck ? WIDENING * filters : filters;
    clq_tensor y;
    if (n->bottleneck) {
        y = conv(m, x, filters, 1, 1, CLQ_ACTIVATION_RELU);
        y = conv(m, y, filters, 3, stride, CLQ_ACTIVATION_RELU);
        y = conv(m, y, outputs, 1, 1, CLQ_ACTIVATION_LINEAR);
    } else {
        y = conv(m, x, filters, 3, stride, CLQ_ACTIVATION_RELU);
        y = conv(m, y, filters, 3, 1, CLQ_ACTIVATION_LINEAR);
    }
    const clq_tensor shortcut = wider ? conv(m, x, outputs, 1, stride, CLQ_ACTIVATION_LINEAR) : x;
    return clq_activate(m, clq_add(m, CLQ_TENSORS(y, shortcut), NULL), CLQ_ACTIVATION_RELU, NULL);
}

static clq_tensor add_stages(clq_model *m, clq_tensor x, const network *n, const clq_named_settings *s) {
    for (size_t stage = 0; stage < n->stages; stage++)
        for (size_t block = 0; block < n->blocks[stage]; block++) {
            const bool first = block == 0, halves = first && stage > 0;
            x = add_block(m, x, n, n->width << stage, halves ? 2 : 1, first && (halves || n->bottleneck));
        }
    return clq_named_classify(m, clq_named_average(m, x), s);
}

/* The sides of photographs are reduced to a quarter before the blocks. Small images keep their size. */
static clq_tensor build(clq_model *m, clq_tensor x, const network *n, const clq_named_settings *s) {
    if (clq_named_is_small(s)) return add_stages(m, conv(m, x, n->width, 3, 1, CLQ_ACTIVATION_RELU), n, s);
    x = conv(m, x, n->width, 7, 2, CLQ_ACTIVATION_RELU);
    x = clq_max_pool2d(m, x, &(clq_pool_config){.size = {3, 3}, .strides = {2, 2}, .padding = CLQ_PADDING_SAME});
    return add_stages(m, x, n, s);
}

static clq_tensor build_18(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    return build(m, x, &(network){.stages = 4, .width = s->options[0], .blocks = {2, 2, 2, 2}}, s);
}
static clq_tensor build_34(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    return build(m, x, &(network){.stages = 4, .width = s->options[0], .blocks = {3, 4, 6, 3}}, s);
}
static clq_tensor build_50(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    return build(m, x, &(network){.stages = 4, .width = s->options[0], .blocks = {3, 4, 6, 3}, .bottleneck = true}, s);
}
static clq_tensor build_20(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    const network n = {.stages = 3, .width = s->options[0], .blocks = {3, 3, 3}};
    return add_stages(m, conv(m, x, n.width, 3, 1, CLQ_ACTIVATION_RELU), &n, s);
}

#define RESNET(layers, first_width)                                                                                    \
    const clq_named_model clq_named_resnet##layers = {.name = "resnet" #layers,                                        \
                                                      .input = CLQ_NAMED_IMAGE,                                        \
                                                      .options = {{"width", (first_width), 1, 1024}},                  \
                                                      .build = build_##layers}
RESNET(18, 64);
RESNET(20, 16);
RESNET(34, 64);
RESNET(50, 64);
