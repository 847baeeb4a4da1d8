/* The models that have a name on the command line. All take 28 x 28 grey images and end in softmax over 10 classes. */
#include "graph/graph.h"

#include <string.h>

static clq_tensor image(clq_model *m) { return clq_input(m, CLQ_SHAPE(28, 28, 1)); }

static clq_tensor conv_and_pool(clq_model *m, clq_tensor x, size_t filters) {
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = filters, .kernel = {3, 3}, .activation = CLQ_RELU});
    return clq_max_pool2d(m, x, NULL);
}

static clq_tensor classify(clq_model *m, clq_tensor x) {
    return clq_dense(m, clq_flatten(m, x, NULL),
                     &(clq_dense_config){.units = 10, .activation = CLQ_SOFTMAX}); /* (10) */
}

static clq_tensor build_mlp(clq_model *m) {
    clq_tensor x = clq_flatten(m, image(m), NULL);                                       /* (784) */
    x = clq_dense(m, x, &(clq_dense_config){.units = 128, .activation = CLQ_RELU});      /* (128) */
    return clq_dense(m, x, &(clq_dense_config){.units = 10, .activation = CLQ_SOFTMAX}); /* (10) */
}

static clq_tensor build_cnn(clq_model *m) {
    clq_tensor x = conv_and_pool(m, image(m), 32); /* (13, 13, 32) */
    x = conv_and_pool(m, x, 64);                   /* (5, 5, 64) */
    return classify(m, x);
}

static clq_tensor build_cnn1(clq_model *m) { return classify(m, conv_and_pool(m, image(m), 32)); }

static const struct {
    const char *name;
    clq_tensor (*build)(clq_model *m);
} builtins[] = {{"mlp", build_mlp}, {"cnn", build_cnn}, {"cnn1", build_cnn1}};

bool clq_model_is_file(const char *word) {
    const char *ending = strrchr(word, '.');
    return ending && strcmp(ending, ".json") == 0;
}

static clq_status refuse(const char *name) {
    clq_text known = {0};
    for (size_t i = 0; i < CLQ_COUNT_OF(builtins); i++) clq_text_add(&known, "%s%s", i ? ", " : "", builtins[i].name);
    clq_status status = CLQ_MEMORY;
    if (!known.failed)
        status = clq_fail(CLQ_ARGUMENT, "model '%.80s' is unknown: expected %s, or a Keras model's .json file", name,
                          known.data);
    clq_free(known.data);
    return status;
}

clq_status clq_model_builtin(const char *name, clq_model **out) {
    for (size_t i = 0; i < CLQ_COUNT_OF(builtins); i++) {
        if (strcmp(builtins[i].name, name) != 0) continue;
        clq_model *model;
        CLQ_TRY(clq_model_create(name, &model));
        clq_status status = clq_model_finish(model, builtins[i].build(model));
        if (status == CLQ_OK)
            *out = model;
        else
            clq_model_destroy(model);
        return status;
    }
    return refuse(name);
}
