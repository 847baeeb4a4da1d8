/* Helpers that build expansions: the operations that a composite, or a layer of many steps, is short for. (parts.c) */
#ifndef CLQ_GRAPH_STEP_PARTS_H
#define CLQ_GRAPH_STEP_PARTS_H

#include "graph/step/step.h"

/* Nodes are added behind all others, in the scope and the segment of the node `of`. If the values of its operation stay
 * float32 (CLQ_OP_WIDE), so do those of the expansion. */
typedef struct clq_parts {
    clq_graph *graph;
    const clq_node *of;
    const char *name; /* of the new values: the model's text, or a literal */
} clq_parts;

/* Longer sequences are not expanded step by step: a step is some twenty operations, each with its gradient. */
enum { CLQ_PARTS_STEPS = 64 };

/* Each function that gives a clq_id adds a node with one new value, and gives that value. The value is 0 if it could
 * not be added: then the graph has failed, and all later values are 0, too. Each sample has a value of its own, unless
 * input 0 is one value for all samples. */

/* Adds a node of any operation. The caller has set its inputs and attributes. */
clq_id clq_part_add(const clq_parts *p, clq_node node, clq_shape shape);
/* Makes a node in the composite's scope and segment, without attributes. The caller completes and adds it. */
clq_node clq_part_node(const clq_parts *p, const clq_operation *op, const clq_id inputs[CLQ_NODE_INPUTS]);
clq_id clq_part_reshape(const clq_parts *p, clq_id x, clq_shape shape);
/* Zeros, for each sample. */
clq_id clq_part_zeros(const clq_parts *p, clq_shape shape);
/* One instruction for each number: of x and y, or of x alone if `op` takes one register (y 0). The shape is x's. */
clq_id clq_part_combine(const clq_parts *p, clq_element_op op, clq_id x, clq_id y);
/* One instruction of two registers: a number of x, and the vector's number for its channel. Channels are the last axis
 * of `shape`. vector 0: gives x. */
clq_id clq_part_by_channel(const clq_parts *p, clq_element_op op, clq_id x, clq_id vector, clq_shape shape);
/* activation(x + y), or activation(x) if y is 0. Gives x itself if there is nothing to compute. Not for softmax. */
clq_id clq_part_activate(const clq_parts *p, clq_activation activation, clq_id x, clq_id y);
/* Takes `count` of `all` numbers, from number `first` on. */
clq_arrangement clq_arrangement_run(size_t all, size_t first, size_t count);
/* x's numbers from `first` on, as many as the shape has. */
clq_id clq_part_run(const clq_parts *p, clq_id x, size_t first, clq_shape shape);
/* Part `index` along the middle axis of x, whose sizes are (outer, count, inner). */
clq_id clq_part_slice(const clq_parts *p, clq_id x, const size_t sizes[3], size_t index, clq_shape shape);
clq_id clq_part_repeat(const clq_parts *p, clq_id x, const clq_repeat_problem *problem, clq_shape shape);
clq_id clq_part_reduce(const clq_parts *p, clq_id x, const clq_repeat_problem *problem, clq_shape shape);
/* Makes x the composite's own value `output`, whatever its shape is. output 0: nobody wants it; adds nothing. */
void clq_part_give(const clq_parts *p, clq_id x, clq_id output);

/* Joins terms side by side: each of `rows` rows has widths[i] numbers of each term. count: at most CLQ_NODE_INPUTS. */
clq_id clq_part_side_by_side(const clq_parts *p, const clq_id *terms, const size_t *widths, unsigned count,
                             size_t rows);
/* The same for any number of terms, which are added one after the other. At first, only `rows` is set. */
typedef struct clq_joining {
    size_t rows;
    clq_id terms[CLQ_NODE_INPUTS];
    size_t widths[CLQ_NODE_INPUTS];
    unsigned count;
} clq_joining;
void clq_joining_add(const clq_parts *p, clq_joining *j, clq_id term, size_t width);
clq_id clq_joining_end(const clq_parts *p, const clq_joining *j); /* after at least one term */

#endif
