/* Models with penalties on the weights of layers, with random image layers in front of other layers, and with
 * expressions. */
#ifndef CLQ_TEST_GRAPH_SPECIAL_MODELS_H
#define CLQ_TEST_GRAPH_SPECIAL_MODELS_H

#include "graph/layers/layer.h"
#include "graph/random_model.h"
#include <clique/custom.h>

/* A penalty on what is read twice, on what has no other gradient than it, and on what is not trained, which has none.
 */
static clq_tensor regularised(subject *s, clq_tensor x) {
    x = clq_conv2d(s->model, x,
                   &(clq_conv2d_config){.filters = 3, .kernel = {3, 3}, .activation = CLQ_ACTIVATION_TANH});
    x = clq_regularise(s->model, clq_regularise(s->model, x, "kernel", 0.02, 0.3), "bias", 0.1, 0);
    x = clq_dense(s->model, clq_reshape(s->model, x, CLQ_SHAPE(12, 4), NULL), &(clq_dense_config){.units = 4});
    x = clq_regularise(s->model, x, "kernel", 0, 0.2);
    x = clq_share(s->model, x, clq_activate(s->model, x, CLQ_ACTIVATION_TANH, NULL));
    x = clq_dense(s->model, clq_flatten(s->model, x, NULL), &(clq_dense_config){.units = 4});
    return clq_regularise(s->model, clq_freeze(s->model, x), "kernel", 7, 7);
}

/* Random image layers: each sample's image moves at random before all weights, and its contrast and brightness change
 * at random behind some weights. */
static clq_tensor moved_by(subject *s, clq_tensor x, const clq_layer_kind *kind, double low, double high) {
    const clq_draw_range range = {.low = low, .high = high, .given = true}, wide = {-50, 50, true};
    const size_t size = 4;
    const int bilinear = 1, reflected = CLQ_FILL_REFLECTED;
    unsigned char *config = clq_alloc(1, kind->config_bytes);
    assert_non_null(config);
    memset(config, 0, kind->config_bytes);
    for (size_t i = 0; i < kind->attribute_count; i++) {
        const clq_attribute *row = &kind->attributes[i];
        if (row->type == CLQ_ATTRIBUTE_RANGE) memcpy(config + row->at, &range, sizeof range);
        if (row->type == CLQ_ATTRIBUTE_SIZES) memcpy(config + row->at, &size, sizeof size);
        if (strcmp(row->key, "value_range") == 0) memcpy(config + row->at, &wide, sizeof wide); /* nothing is clipped */
        if (strcmp(row->key, "interpolation") == 0) memcpy(config + row->at, &bilinear, sizeof bilinear);
        if (strcmp(row->key, "fill_mode") == 0) memcpy(config + row->at, &reflected, sizeof reflected);
    }
    const clq_tensor y = clq_model_add_layer(s->model, kind, NULL, config, &x, 1);
    clq_free(config);
    return y;
}
static clq_tensor moved(subject *s, clq_tensor x) {
    x = moved_by(s, x, &clq_layer_random_translation, -0.2, 0.4);
    x = moved_by(s, moved_by(s, x, &clq_layer_random_rotation, -0.1, 0.3), &clq_layer_random_zoom, -0.3, 0.5);
    x = moved_by(s, moved_by(s, x, &clq_layer_random_flip, 0, 0), &clq_layer_random_crop, 0, 0);
    x = clq_conv2d(s->model, x,
                   &(clq_conv2d_config){.filters = 3, .kernel = {3, 3}, .activation = CLQ_ACTIVATION_TANH});
    x = moved_by(s, moved_by(s, x, &clq_layer_random_contrast, 0.2, 0.6), &clq_layer_random_brightness, -0.01, 0.02);
    return clq_flatten(s->model, x, NULL);
}

/* Expressions with scalar variables and per-channel variables, alone and together, with an input that broadcasts, and
 * with an input that is read several times. */
static clq_tensor expressed(subject *s, clq_tensor x) {
    x = clq_conv2d(s->model, x,
                   &(clq_conv2d_config){.filters = 4, .kernel = {3, 3}, .activation = CLQ_ACTIVATION_TANH});
    x = clq_expression(s->model, "x * sigmoid(b * x)", CLQ_TENSORS(x),
                       &(clq_expression_config){.variables = {{.name = "b", .value = 1}}});
    const clq_tensor row = clq_global_average_pool2d(s->model, x, false, NULL);
    x = clq_expression(
        s->model, "where(x > y, a * x^2 - c, exp(-abs(y)) / (1.5 + d * z)) + max(x1, 0.25 * x0 ** 3) - gelu(z) * 2^x",
        CLQ_TENSORS(x, row, clq_activate(s->model, x, CLQ_ACTIVATION_TANH, NULL)),
        &(clq_expression_config){.variables = {{.name = "a", .value = 1},
                                               {.name = "c", .by_channel = true},
                                               {.name = "d", .value = 0.5, .by_channel = true}}});
    return clq_flatten(s->model, clq_freeze(s->model, x), NULL);
}
/* The same with trained variables, each of which meets numbers first. */
static clq_tensor expressed_by_variables(subject *s, clq_tensor x) {
    x = clq_dense(s->model, clq_flatten(s->model, x, NULL),
                  &(clq_dense_config){.units = 5, .activation = CLQ_ACTIVATION_TANH});
    return clq_expression(s->model, "(exp(a) * x + b ^ 2 / 3) * log1p(square(c)) + sin(d - x) - min(x, d)",
                          CLQ_TENSORS(x),
                          &(clq_expression_config){.variables = {{.name = "a"},
                                                                 {.name = "b", .value = 1, .by_channel = true},
                                                                 {.name = "c", .value = 2, .by_channel = true},
                                                                 {.name = "d", .value = 0.5}}});
}

#endif
