/* A convolutional network for tests on devices that look like GPUs. A CPU runs the kernels for GPUs slowly. */
#ifndef CLQ_TEST_SMALL_NET_H
#define CLQ_TEST_SMALL_NET_H

#include "support/check.h"

#include <clique/model.h>

enum { SIDE = 10 /* of images */, CLASSES = 10, FILTERS = 8 /* as few as possible */ };

static inline clq_model *make_small_net(size_t filters) {
    const clq_conv2d_config conv = {.filters = filters, .kernel = {3, 3}, .activation = CLQ_ACTIVATION_RELU};
    clq_model *model;
    assert_ok(clq_model_create("small", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(SIDE, SIDE, 1));
    x = clq_max_pool2d(model, clq_conv2d(model, x, &conv), NULL);
    x = clq_max_pool2d(model, clq_conv2d(model, x, &conv), NULL);
    x = clq_dense(model, clq_flatten(model, x, NULL),
                  &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX});
    assert_ok(clq_model_finish(model, x));
    return model;
}

#endif
