/* Built-in models, which have a name. Each has a row in a file of this folder, and a place in the list of named.c. The
 * row says what samples the model takes, which options it has, and how the layers of clique/model.h build it. */
#ifndef CLQ_GRAPH_NAMED_H
#define CLQ_GRAPH_NAMED_H

#include "graph/graph.h"

enum { CLQ_NAMED_OPTIONS_MAX = 6 };

typedef struct clq_named_option {
    const char *key;
    size_t value; /* the default; 0: the model chooses one */
    size_t least, most;
} clq_named_option;

/* What a sample is. IMAGE: (h, w, c). TOKENS: `context` whole numbers below `vocabulary`; both are options. ANY: values
 * of any shape. */
typedef enum clq_named_input { CLQ_NAMED_IMAGE, CLQ_NAMED_TOKENS, CLQ_NAMED_ANY } clq_named_input;

/* What is to be built. */
typedef struct clq_named_settings {
    clq_shape input; /* of rank 3 for IMAGE, of rank 1 for TOKENS */
    size_t classes;
    size_t options[CLQ_NAMED_OPTIONS_MAX]; /* in the row's order */
} clq_named_settings;

typedef struct clq_named_model {
    const char *name;
    clq_named_input input;
    bool no_classes; /* it has no classes: its output's shape follows from input and options */
    clq_named_option options[CLQ_NAMED_OPTIONS_MAX];
    /* Checks whether options and input go together. NULL: they always do. */
    clq_status (*check)(const clq_named_settings *s);
    /* Adds the layers behind the input x, and gives the output. */
    clq_tensor (*build)(clq_model *m, clq_tensor x, const clq_named_settings *s);
} clq_named_model;

/* An image is small if a side is not longer than this. Networks that were made for photographs do not halve small
 * images in their first layers. */
enum { CLQ_NAMED_SMALL = 64 };
static inline bool clq_named_is_small(const clq_named_settings *s) {
    return s->input.dims[0] <= CLQ_NAMED_SMALL || s->input.dims[1] <= CLQ_NAMED_SMALL;
}

/* Softmax over the classes. */
clq_tensor clq_named_classify(clq_model *m, clq_tensor x, const clq_named_settings *s);
/* Convolution without bias, batch normalisation (momentum 0.9), activation. */
clq_tensor clq_named_conv_norm(clq_model *m, clq_tensor x, const clq_conv2d_config *conv, clq_activation activation);
/* Batch normalisation (momentum 0.9), activation. */
clq_tensor clq_named_norm(clq_model *m, clq_tensor x, clq_activation activation);
/* A feature for each channel: the mean over all places. */
clq_tensor clq_named_average(clq_model *m, clq_tensor x);

extern const clq_named_model clq_named_mlp, clq_named_cnn, clq_named_cnn1, clq_named_lenet5, clq_named_autoencoder,
    clq_named_vgg11, clq_named_resnet18, clq_named_resnet20, clq_named_resnet34, clq_named_resnet50,
    clq_named_mobilenetv2, clq_named_efficientnetb0, clq_named_convmixer, clq_named_unet, clq_named_vit_tiny,
    clq_named_gpt, clq_named_bert_tiny, clq_named_bilstm;

#endif
