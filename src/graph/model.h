/* Building a model's nodes and variables. Private to graph. */
#ifndef CLQ_GRAPH_MODEL_H
#define CLQ_GRAPH_MODEL_H

#include "graph/graph.h"

/* Notes the model's first failure: this thread's detail, with the layer's name in front unless NULL. Gives no tensor. */
clq_tensor clq_model_latch(clq_model *model, clq_status status, const char *layer);
/* The node of a tensor, or NULL with a latched failure where it is none of this model's or the model is not open. */
const clq_node *clq_model_source(clq_model *model, clq_tensor x, const char *what);
/* Adds a node (name NULL: made from `stem`). The node's shape is set; its elements are computed here. */
clq_tensor clq_model_add_node(clq_model *model, clq_node node, const char *stem, const char *name);
/* Adds `layer/what` to the model's last node; index + 1, or 0 after a failure. */
uint32_t clq_model_add_variable(clq_model *model, const char *what, clq_shape shape, size_t fan_in, size_t fan_out);
/* "(28, 28, 1)" */
void clq_shape_describe(const clq_shape *shape, char text[96]);

#endif
