/* interop: reads and writes the model files of other frameworks. clq_model_read_keras_json (<clique/model.h>) is in
 * keras_json.c, which reads the file's structure. keras_functional.c reads Functional models, keras_layers.c adds
 * layers by class, and keras_attributes.c reads their configurations and checks each access. clq_model_write_keras_json
 * is in keras_writer.c. */
#ifndef CLQ_INTEROP_H
#define CLQ_INTEROP_H

#include "train/train.h"

#endif
