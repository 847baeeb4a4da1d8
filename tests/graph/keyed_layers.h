/* For tests of step graphs: settings of layers that have no builder function, and sequences with a mask. */
#ifndef CLQ_TEST_GRAPH_KEYED_LAYERS_H
#define CLQ_TEST_GRAPH_KEYED_LAYERS_H

#include "graph/layers/layer.h"
#include "graph/random_model.h"

/* A layer's settings. Members are found by the keys that its kind has in files, as some layers have no builder. */
typedef struct keyed_config {
    const clq_layer_kind *kind;
    size_t bytes[64];
} keyed_config;

static void *setting(keyed_config *config, const char *key) {
    assert_true(config->kind->config_bytes <= sizeof config->bytes);
    for (size_t i = 0; i < config->kind->attribute_count; i++)
        if (strcmp(config->kind->attributes[i].key, key) == 0)
            return (char *)config->bytes + config->kind->attributes[i].at;
    fail_msg("%s has no %s", config->kind->type, key);
    return NULL;
}

/* Sequences (steps, 72 / steps) with some masked steps: a step counts if its first number is greater than 0.25. That
 * masks a quarter of the steps if samples are bytes, and most of the steps otherwise. */
static clq_tensor masked_sequence(subject *s, clq_tensor x, size_t steps) {
    const clq_operand quarter = {.place = 2, .number = 0.25};
    clq_tensor mask = clq_max_pool1d(s->model, clq_reshape(s->model, x, CLQ_SHAPE(72, 1), NULL),
                                     &(clq_pool1d_config){.size = 1, .strides = 72 / steps});
    mask = clq_reshape(s->model, mask, CLQ_SHAPE(steps), NULL);
    mask = clq_model_add_layer(s->model, &clq_layer_op_greater, NULL, &quarter, &mask, 1);
    x = clq_reshape(s->model, x, CLQ_SHAPE(steps, 72 / steps), NULL);
    s->model->tensors[x.id - 1].mask = mask.id;
    return x;
}

#endif
