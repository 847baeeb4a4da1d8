/* interop: other people's model files. clq_model_read_keras_json (<clique/model.h>) is in keras_json.c (the file's
 * structure), keras_functional.c (that of Functional models) and keras_layers.c (layers by class, with checked access
 * to their configurations); clq_model_write_keras_json in keras_writer.c. */
#ifndef CLQ_INTEROP_H
#define CLQ_INTEROP_H

#include "train/train.h"

#endif
