/* The golden files of tests/golden/keras_files, and trainers that load them. */
#ifndef CLQ_TEST_KERAS_FILES_H
#define CLQ_TEST_KERAS_FILES_H

#include "formats/formats.h"
#include "interop/interop.h"
#include "support/apart.h"
#include "support/check.h"
#include "support/files.h"
#include "support/system.h"
#include <clique/clique.h>

#include <stdlib.h>

enum { SAMPLES = 2 };

static inline char *golden_path(const char *name, const char *ending) {
    char *path = clq_strprintf("%s/tests/golden/keras_files/%s%s", getenv("CLQ_TEST_SOURCE"), name, ending);
    assert_non_null(path);
    return path;
}

static inline clq_model *read_model(const char *name) {
    const clq_keras_sizes tokens = {.open = 4}; /* of backbones */
    char *path = golden_path(name, ".keras");
    clq_model *model;
    assert_ok(clq_model_read_keras(path, &tokens, &model));
    clq_free(path);
    return model;
}

static inline clq_trainer *open_trainer(const clq_model *model) {
    clq_trainer_config config = apart_config();
    clq_devices devices;
    clq_trainer *trainer;
    config.loss = clq_loss_default(CLQ_LOSS_MEAN_SQUARED_ERROR);
    config.metrics = "none";
    config.global_batch = SAMPLES;
    config.sample_dtype = CLQ_F32;
    config.inference_only = true;
    assert_ok(clq_devices_select(sys, "pocl:0", &devices));
    assert_ok(clq_trainer_create(model, &devices, &config, &trainer));
    return trainer;
}

static inline void load_golden(clq_trainer *trainer, const char *name) {
    char *path = golden_path(name, ".keras");
    assert_ok(clq_trainer_load(trainer, path));
    clq_free(path);
}

static inline size_t index_of(const clq_model *model, const char *name) {
    clq_variable_info info;
    size_t i = 0;
    for (; clq_model_variable(model, i, &info) == CLQ_OK && strcmp(info.name, name) != 0; i++) continue;
    return i;
}

static inline int begin(void **state) { return files_begin(state) == 0 ? open_system(state) : -1; }
static inline int end(void **state) { return close_system(state) == 0 ? files_end(state) : -1; }

#endif
