/* What expansions are built with: the operations that a composite, or a layer of many steps, is short for. (parts.c) */
#ifndef CLQ_GRAPH_STEP_PARTS_H
#define CLQ_GRAPH_STEP_PARTS_H

#include "graph/step/step.h"

/* Nodes are added behind all others, in the scope and the segment of another. The expansion of an operation whose
 * values stay float32 (CLQ_OP_WIDE) has values that do. */
typedef struct clq_parts {
    clq_graph *graph;
    const clq_node *of;
    const char *name; /* of values: the model's or a literal */
} clq_parts;

/* Most steps of a sequence that are expanded one by one: a step is some twenty operations, each with its gradient. */
enum { CLQ_PARTS_STEPS = 64 };

/* Each adds a node with one new value, and gives the value: 0 if it could not be added, and then the graph has failed,
 * and whatever is made of 0 is 0, too. There is one for each sample, unless input 0 is one for all samples. */

/* A node of any operation, which has its inputs and attributes. */
clq_id clq_part_add(const clq_parts *p, clq_node node, clq_shape shape);
/* The same, in the composite's scope and segment, without attributes; for others to complete. */
clq_node clq_part_node(const clq_parts *p, const clq_operation *op, const clq_id inputs[CLQ_NODE_INPUTS]);
clq_id clq_part_reshape(const clq_parts *p, clq_id x, clq_shape shape);
/* 0, of each sample. */
clq_id clq_part_zeros(const clq_parts *p, clq_shape shape);
/* One instruction, of x's shape: of x alone if `op` takes one register (y 0), else of two. */
clq_id clq_part_combine(const clq_parts *p, clq_element_op op, clq_id x, clq_id y);
/* One instruction of two registers, of each number of x and that of its channel, the shape's last axis; vector 0: x. */
clq_id clq_part_by_channel(const clq_parts *p, clq_element_op op, clq_id x, clq_id vector, clq_shape shape);
/* activation(x + y); y 0: of x. x itself if there is nothing to compute. Not softmax. */
clq_id clq_part_activate(const clq_parts *p, clq_activation activation, clq_id x, clq_id y);
/* `count` numbers of `all`, from `first` on. */
clq_arrangement clq_arrangement_run(size_t all, size_t first, size_t count);
/* x's numbers from `first` on, as many as the shape has. */
clq_id clq_part_run(const clq_parts *p, clq_id x, size_t first, clq_shape shape);
/* Part `index` of the middle axis of x (outer, count, inner). */
clq_id clq_part_slice(const clq_parts *p, clq_id x, const size_t sizes[3], size_t index, clq_shape shape);
clq_id clq_part_repeat(const clq_parts *p, clq_id x, const clq_repeat_problem *problem, clq_shape shape);
clq_id clq_part_reduce(const clq_parts *p, clq_id x, const clq_repeat_problem *problem, clq_shape shape);
/* x becomes the composite's own value `output`, whatever its shape is; output 0: nobody wants it. */
void clq_part_give(const clq_parts *p, clq_id x, clq_id output);

/* Terms of `widths` numbers side by side in each of `rows` rows; at most CLQ_NODE_INPUTS. */
clq_id clq_part_side_by_side(const clq_parts *p, const clq_id *terms, const size_t *widths, unsigned count,
                             size_t rows);
/* The same of any number of terms, one after the other; it begins with `rows` alone. */
typedef struct clq_joining {
    size_t rows;
    clq_id terms[CLQ_NODE_INPUTS];
    size_t widths[CLQ_NODE_INPUTS];
    unsigned count;
} clq_joining;
void clq_joining_add(const clq_parts *p, clq_joining *j, clq_id term, size_t width);
clq_id clq_joining_end(const clq_parts *p, const clq_joining *j); /* of at least one */

#endif
