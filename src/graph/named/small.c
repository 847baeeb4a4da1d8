/* Small models: mlp, cnn, cnn1, lenet5, autoencoder. */
#include "graph/named/named.h"

static clq_tensor dense(clq_model *m, clq_tensor x, size_t units, clq_activation activation) {
    return clq_dense(m, x, &(clq_dense_config){.units = units, .activation = activation});
}

static clq_tensor conv_and_pool(clq_model *m, clq_tensor x, size_t filters) {
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = filters, .kernel = {3, 3}, .activation = CLQ_ACTIVATION_RELU});
    return clq_max_pool2d(m, x, NULL);
}

static clq_tensor build_mlp(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    return clq_named_classify(m, dense(m, clq_flatten(m, x, NULL), s->options[0], CLQ_ACTIVATION_RELU), s);
}
const clq_named_model clq_named_mlp = {
    .name = "mlp", .input = CLQ_NAMED_ANY, .options = {{"units", 128, 1, 1 << 20}}, .build = build_mlp};

static clq_tensor build_cnn(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    x = conv_and_pool(m, conv_and_pool(m, x, 32), 64);
    return clq_named_classify(m, clq_flatten(m, x, NULL), s);
}
const clq_named_model clq_named_cnn = {.name = "cnn", .input = CLQ_NAMED_IMAGE, .build = build_cnn};

static clq_tensor build_cnn1(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    return clq_named_classify(m, clq_flatten(m, conv_and_pool(m, x, 32), NULL), s);
}
const clq_named_model clq_named_cnn1 = {.name = "cnn1", .input = CLQ_NAMED_IMAGE, .build = build_cnn1};

/* LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document recognition", 1998, as it is taught:
 * the third convolution is a dense layer, each map of the second reads all maps of the first, and a softmax comes
 * last. */
static clq_tensor build_lenet5(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    x = clq_conv2d(m, x,
                   &(clq_conv2d_config){
                       .filters = 6, .kernel = {5, 5}, .padding = CLQ_PADDING_SAME, .activation = CLQ_ACTIVATION_TANH});
    x = clq_average_pool2d(m, x, NULL);
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 16, .kernel = {5, 5}, .activation = CLQ_ACTIVATION_TANH});
    x = clq_flatten(m, clq_average_pool2d(m, x, NULL), NULL);
    return clq_named_classify(m, dense(m, dense(m, x, 120, CLQ_ACTIVATION_TANH), 84, CLQ_ACTIVATION_TANH), s);
}
const clq_named_model clq_named_lenet5 = {.name = "lenet5", .input = CLQ_NAMED_IMAGE, .build = build_lenet5};

/* As Keras's guide "Building autoencoders": dense layers to a code of 32 values and back; values of 0 to 1. */
static clq_tensor build_autoencoder(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    size_t values = 1;
    for (unsigned d = 0; d < s->input.rank; d++) values *= s->input.dims[d];
    x = dense(m, dense(m, clq_flatten(m, x, NULL), 128, CLQ_ACTIVATION_RELU), 64, CLQ_ACTIVATION_RELU);
    x = dense(m, x, s->options[0], CLQ_ACTIVATION_RELU);
    x = dense(m, dense(m, x, 64, CLQ_ACTIVATION_RELU), 128, CLQ_ACTIVATION_RELU);
    return clq_reshape(m, dense(m, x, values, CLQ_ACTIVATION_SIGMOID), s->input, NULL);
}
const clq_named_model clq_named_autoencoder = {.name = "autoencoder",
                                               .input = CLQ_NAMED_ANY,
                                               .no_classes = true,
                                               .options = {{"code", 32, 1, 1 << 20}},
                                               .build = build_autoencoder};
