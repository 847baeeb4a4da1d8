/* The parts of the reader of Keras's model files: the file (keras_json.c), Functional models (keras_functional.c),
 * layers by class (keras_layers.c). Private to interop. */
#ifndef CLQ_INTEROP_KERAS_H
#define CLQ_INTEROP_KERAS_H

#include "interop/attributes.h"

const char *clq_keras_class(json_t *object); /* its class_name; "" where it has none */
/* FORMAT unless it is an array of layers; UNSUPPORTED where it has too many. */
clq_status clq_keras_check_layers(json_t *layers);
/* "config.layers[3] (conv2d)" */
void clq_keras_describe_place(json_t *layer, const char *path, char where[160]);

/* Adds an InputLayer. path names the layer's object in the file. */
clq_status clq_keras_add_input(clq_model *model, json_t *layer, const char *path, clq_tensor *out);
/* Adds the layer of another class to the model, applied to inputs[0 … count). */
clq_status clq_keras_add_layer(clq_model *model, json_t *layer, const char *path, const clq_tensor *inputs,
                               size_t count, clq_tensor *out);
/* Whether the layer's class is one that can be added. */
clq_status clq_keras_check_class(json_t *layer, const char *path);
/* The shape of an InputLayer, or of a "build_input_shape": the batch in front must be null. */
clq_status clq_keras_batch_shape(json_t *shape, const char *path, clq_shape *out);

/* Adds all layers of a Functional model's config and finishes the model. */
clq_status clq_keras_read_functional(clq_model *model, json_t *config);

#endif
