/* Settings with their defaults, and a model of two outputs for them. */
#ifndef CLQ_SUPPORT_SETTINGS_H
#define CLQ_SUPPORT_SETTINGS_H

#include "support/check.h"
#include <clique/settings.h>

static inline clq_settings *make_settings(void) {
    clq_settings *settings;
    assert_ok(clq_settings_create(&settings));
    return settings;
}

static inline clq_model *make_two_outputs(void) {
    clq_model *model;
    assert_ok(clq_model_create("two", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(3));
    clq_tensor place = clq_dense(model, x, &(clq_dense_config){.units = 2, .name = "place"});
    clq_tensor size = clq_dense(model, place, &(clq_dense_config){.units = 1, .name = "size"});
    assert_ok(clq_model_finish_outputs(model, CLQ_TENSORS(place, size)));
    return model;
}

#endif
