/* interop: other people's model files. clq_model_read_keras_json (<clique/model.h>) is in keras_json.c (the file's
 * structure), keras_layers.c (layers by class) and attributes.c (checked access to a configuration). */
#ifndef CLQ_INTEROP_H
#define CLQ_INTEROP_H

#include "train/train.h"

#endif
