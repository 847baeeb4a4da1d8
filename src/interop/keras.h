/* The parts of the reader of Keras's model files: the file (keras_json.c), Functional models (keras_functional.c),
 * layers by class (keras_layers.c). Private to interop. */
#ifndef CLQ_INTEROP_KERAS_H
#define CLQ_INTEROP_KERAS_H

#include "interop/interop.h"

const char *clq_keras_class(json_t *object); /* its class_name; "" where it has none */
/* FORMAT unless it is an array of layers; UNSUPPORTED where it has too many. */
clq_status clq_keras_check_layers(json_t *layers);
/* "config.layers[3] (conv2d)" */
void clq_keras_describe_place(json_t *layer, size_t index, char where[160]);

/* Of config.layers[index]. Whether the layer's class is one that clq_keras_add_layer adds. */
clq_status clq_keras_check_class(json_t *layer, size_t index);
/* Adds the layer to the model, applied to inputs[0 … count). */
clq_status clq_keras_add_layer(clq_model *model, json_t *layer, size_t index, const clq_tensor *inputs, size_t count,
                               clq_tensor *out);
clq_status clq_keras_add_input(clq_model *model, json_t *layer, size_t index, clq_tensor *out); /* an InputLayer */
/* Adds an input of the shape that an InputLayer or a "build_input_shape" has: the batch in front must be null. */
clq_status clq_keras_add_shape(clq_model *model, json_t *shape, const char *name, const char *path, clq_tensor *out);

/* Adds all layers of a Functional model's config and finishes the model. */
clq_status clq_keras_read_functional(clq_model *model, json_t *config);

#endif
