/* Building a model's layers and variables. Private to graph. */
#ifndef CLQ_GRAPH_MODEL_H
#define CLQ_GRAPH_MODEL_H

#include "graph/graph.h"

/* Starts a layer that reads x: its name (NULL: made from `stem`) and its input go into `layer`. Gives the layer that x
 * is the output of, good until a layer is added; NULL with a failure noted where there is none or no layer can be
 * added. */
const clq_layer *clq_model_begin(clq_model *model, clq_tensor x, const char *stem, const char *name, clq_layer *layer);
/* Adds a layer that has its name and shape; computes its elements. */
clq_tensor clq_model_add_layer(clq_model *model, const clq_layer *layer);
/* Gives the model's last layer, y, a kernel (…, in, out) and, where `bias`, a bias (out). */
clq_tensor clq_model_add_weights(clq_model *model, clq_tensor y, clq_shape kernel, bool bias);
/* Notes the model's first failure: this thread's detail, with the layer's name in front. Gives no tensor. */
clq_tensor clq_model_latch(clq_model *model, clq_status status, const char *layer);

/* After layers were dropped: leaves the variables of those that are there. */
void clq_model_keep_variables(clq_model *model);
/* The product of the dimensions, each at least 1: at most INT32_MAX, as kernels index with 32-bit integers. */
clq_status clq_shape_elements(const clq_shape *shape, size_t *out);
/* "(28, 28, 1)" */
enum { CLQ_SHAPE_TEXT_MAX = 144 };
const char *clq_shape_describe(const clq_shape *shape, char text[CLQ_SHAPE_TEXT_MAX]);

#endif
