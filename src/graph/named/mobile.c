/* Networks of inverted residuals: mobilenetv2 (Sandler et al., "MobileNetV2: Inverted residuals and linear
 * bottlenecks", 2018) and efficientnetb0 (Tan and Le, "EfficientNet: Rethinking model scaling for convolutional neural
 * networks", 2019). The first convolution keeps the size of small images, and so does mobilenetv2's second stage. */
#include "graph/named/named.h"

typedef struct stage {
    size_t expansion, filters, blocks, stride, side;
} stage;

typedef struct network {
    clq_activation activation;
    bool squeezes;    /* blocks weigh channels by their means (Hu, Shen and Sun, 2018) */
    double drop_path; /* the rate at which samples skip a block in training rises from 0 at the first block, nearly to
                         this at the last (Huang et al., 2016) */
    size_t first, last;
    double dropout;
} network;

static clq_tensor conv(clq_model *m, clq_tensor x, size_t filters, size_t side, size_t stride,
                       clq_activation activation) {
    return clq_named_conv_norm(
        m, x,
        &(clq_conv2d_config){
            .filters = filters, .kernel = {side, side}, .strides = {stride, stride}, .padding = CLQ_PADDING_SAME},
        activation);
}

static clq_tensor squeeze(clq_model *m, clq_tensor x, size_t filters, size_t inner) {
    clq_tensor y = clq_global_average_pool2d(m, x, true, NULL);
    y = clq_conv2d(m, y, &(clq_conv2d_config){.filters = inner, .kernel = {1, 1}, .activation = CLQ_ACTIVATION_SILU});
    y = clq_conv2d(m, y,
                   &(clq_conv2d_config){.filters = filters, .kernel = {1, 1}, .activation = CLQ_ACTIVATION_SIGMOID});
    return clq_multiply(m, CLQ_TENSORS(x, y), NULL);
}

/* filters: of x. */
static clq_tensor add_block(clq_model *m, clq_tensor x, const network *n, const stage *s, size_t filters, size_t stride,
                            double drop) {
    const size_t wide = filters * s->expansion;
    clq_tensor y = s->expansion > 1 ? conv(m, x, wide, 1, 1, n->activation) : x;
    y = clq_depthwise_conv2d(
        m, y,
        &(clq_depthwise_conv2d_config){
            .kernel = {s->side, s->side}, .strides = {stride, stride}, .padding = CLQ_PADDING_SAME, .no_bias = true});
    y = clq_named_norm(m, y, n->activation);
    if (n->squeezes) y = squeeze(m, y, wide, CLQ_MAX(filters / 4, (size_t)1));
    y = conv(m, y, s->filters, 1, 1, CLQ_ACTIVATION_LINEAR);
    if (stride > 1 || filters != s->filters) return y;
    if (drop > 0) y = clq_dropout(m, y, &(clq_dropout_config){.rate = drop, .shared = 7}); /* whole samples */
    return clq_add(m, CLQ_TENSORS(x, y), NULL);
}

static clq_tensor build(clq_model *m, clq_tensor x, const network *n, const stage *stages, size_t count,
                        size_t first_stride, const clq_named_settings *settings) {
    size_t all = 0, done = 0, filters = n->first;
    for (size_t i = 0; i < count; i++) all += stages[i].blocks;
    x = conv(m, x, n->first, 3, first_stride, n->activation);
    for (size_t i = 0; i < count; i++)
        for (size_t block = 0; block < stages[i].blocks; block++, done++) {
            const double drop = n->drop_path * (double)done / (double)all;
            x = add_block(m, x, n, &stages[i], filters, block == 0 ? stages[i].stride : 1, drop);
            filters = stages[i].filters;
        }
    x = clq_named_average(m, conv(m, x, n->last, 1, 1, n->activation));
    if (n->dropout > 0) x = clq_dropout(m, x, &(clq_dropout_config){.rate = n->dropout});
    return clq_named_classify(m, x, settings);
}

static clq_tensor build_mobilenetv2(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    const size_t early = clq_named_is_small(s) ? 1 : 2;
    const stage stages[] = {{1, 16, 1, 1, 3}, {6, 24, 2, early, 3}, {6, 32, 3, 2, 3}, {6, 64, 4, 2, 3},
                            {6, 96, 3, 1, 3}, {6, 160, 3, 2, 3},    {6, 320, 1, 1, 3}};
    const network n = {.activation = CLQ_ACTIVATION_RELU6, .first = 32, .last = 1280};
    return build(m, x, &n, stages, CLQ_COUNT_OF(stages), early, s);
}
const clq_named_model clq_named_mobilenetv2 = {
    .name = "mobilenetv2", .input = CLQ_NAMED_IMAGE, .build = build_mobilenetv2};

static clq_tensor build_efficientnetb0(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    static const stage stages[] = {{1, 16, 1, 1, 3},  {6, 24, 2, 2, 3},  {6, 40, 2, 2, 5}, {6, 80, 3, 2, 3},
                                   {6, 112, 3, 1, 5}, {6, 192, 4, 2, 5}, {6, 320, 1, 1, 3}};
    const network n = {.activation = CLQ_ACTIVATION_SILU,
                       .squeezes = true,
                       .drop_path = 0.2,
                       .first = 32,
                       .last = 1280,
                       .dropout = 0.2};
    return build(m, x, &n, stages, CLQ_COUNT_OF(stages), clq_named_is_small(s) ? 1 : 2, s);
}
const clq_named_model clq_named_efficientnetb0 = {
    .name = "efficientnetb0", .input = CLQ_NAMED_IMAGE, .build = build_efficientnetb0};
