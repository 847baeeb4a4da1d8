/* Models of what acts on other layers: penalties on their weights, and images that are moved in front of them. */
#ifndef CLQ_TEST_GRAPH_SPECIAL_MODELS_H
#define CLQ_TEST_GRAPH_SPECIAL_MODELS_H

#include "graph/layers/layer.h"
#include "graph/random_model.h"

/* A penalty on what is read twice, on what has no other gradient than it, and on what is not trained, which has none.
 */
static clq_tensor regularised(subject *s, clq_tensor x) {
    x = clq_conv2d(s->model, x, &(clq_conv2d_config){.filters = 3, .kernel = {3, 3}, .activation = CLQ_TANH});
    x = clq_regularise(s->model, clq_regularise(s->model, x, "kernel", 0.02, 0.3), "bias", 0.1, 0);
    x = clq_dense(s->model, clq_reshape(s->model, x, CLQ_SHAPE(12, 4), NULL), &(clq_dense_config){.units = 4});
    x = clq_regularise(s->model, x, "kernel", 0, 0.2);
    x = clq_share(s->model, x, clq_activate(s->model, x, CLQ_TANH, NULL));
    x = clq_dense(s->model, clq_flatten(s->model, x, NULL), &(clq_dense_config){.units = 4});
    return clq_regularise(s->model, clq_freeze(s->model, x), "kernel", 7, 7);
}

/* Images that each sample moves at random, in front of all weights. */
static clq_tensor moved_by(subject *s, clq_tensor x, const clq_layer_kind *kind, double low, double high) {
    const clq_draw_range range = {.low = low, .high = high, .given = true};
    const size_t size = 4;
    const int bilinear = 1, reflected = CLQ_FILL_REFLECTED;
    unsigned char *config = clq_alloc(1, kind->config_bytes);
    assert_non_null(config);
    memset(config, 0, kind->config_bytes);
    for (size_t i = 0; i < kind->attribute_count; i++) {
        const clq_attribute *row = &kind->attributes[i];
        if (row->type == CLQ_ATTRIBUTE_RANGE) memcpy(config + row->at, &range, sizeof range);
        if (row->type == CLQ_ATTRIBUTE_SIZES) memcpy(config + row->at, &size, sizeof size);
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
    x = clq_conv2d(s->model, x, &(clq_conv2d_config){.filters = 3, .kernel = {3, 3}, .activation = CLQ_TANH});
    return clq_flatten(s->model, x, NULL);
}

#endif
