/* What the pass that recomputes is made of. Private to recompute.c (the pass), order.c (the order of nodes, and the
 * memory that it takes) and recompute_search.c (which values are kept). */
#ifndef CLQ_GRAPH_RECOMPUTE_H
#define CLQ_GRAPH_RECOMPUTE_H

#include "graph/step/step.h"

/* An entry of the order: a node of the graph, that node again, or one of its outputs again, alone. */
typedef enum clq_order_kind { CLQ_ORDER_NODE, CLQ_ORDER_AGAIN, CLQ_ORDER_ALONE } clq_order_kind;
typedef struct clq_order_entry {
    uint32_t node;
    clq_order_kind kind;
    unsigned output; /* of ALONE */
} clq_order_entry;

/* A differentiated graph, in which of each block of memory that forward writes and backward reads is known whether it
 * is kept. A value's id is as in the graph; what is made again has that id + `values`. Values in the same memory, as
 * reshaped ones, have one root, of which this is known. */
typedef struct clq_recomputation {
    const clq_graph *graph;
    uint32_t values, forward; /* of the graph; nodes in front of the first of backward */
    double samples;           /* of a batch */
    struct clq_stored {
        clq_id root;
        uint32_t maker; /* node: index + 1; 0: it comes from outside */
        double bytes;   /* of a batch; of a root in the step's own memory */
        double work;    /* of its maker, in operations */
        bool stays;     /* of a root: it is in any case where it was written, or cannot be made again */
        bool read;      /* of a root: backward reads it */
        bool dropped;   /* of a root: it is not kept, and made again */
        bool marked;    /* of a root: the model asks for that */
    } * stored;         /* by id */
    /* Of the order: */
    clq_order_entry *entries;
    uint32_t entry_count;
    bool *again; /* by id: it was made again */
    /* Of what lives when: by id, and id + values. */
    clq_id *memory;
    uint32_t *last;
} clq_recomputation;

/* Release in any case. Errors: MEMORY. */
clq_status clq_recomputation_open(clq_recomputation *r, const clq_graph *graph, uint32_t capacity);
void clq_recomputation_release(clq_recomputation *r);
/* Whether the root may be dropped. */
bool clq_recomputation_may_drop(const clq_recomputation *r, clq_id id);
/* Whether backward finds the value where forward left it. */
bool clq_recomputation_has(const clq_recomputation *r, clq_id id);
/* Sets the entries: each dropped value is made again in front of the first node of backward that wants it. */
void clq_recomputation_order(clq_recomputation *r);
/* A node of the order, with ids as of the recomputation. */
typedef struct clq_ordered_node {
    const clq_node *of;
    const clq_operation *op; /* of the node, or what makes one of its outputs alone */
    clq_id inputs[CLQ_NODE_INPUTS], outputs[CLQ_NODE_OUTPUTS];
} clq_ordered_node;
/* Before the first entry. */
void clq_recomputation_begin(clq_recomputation *r);
/* Entry after entry. */
void clq_recomputation_entry(clq_recomputation *r, uint32_t entry, clq_ordered_node *out);

typedef struct clq_recompute_cost {
    double peak;   /* the most bytes that live at one time */
    double excess; /* bytes above the limit, added up over all entries */
    double work;   /* of what is made again, in operations */
} clq_recompute_cost;
/* Of the values that are dropped now. */
clq_recompute_cost clq_recomputation_cost(clq_recomputation *r, double limit);

/* recompute_search.c: drops values until at most `limit` bytes live at one time, or as few as can be found. */
clq_status clq_recomputation_fit(clq_recomputation *r, double limit);
/* Drops values until the fewest bytes live at one time that can be found. */
clq_status clq_recomputation_least(clq_recomputation *r);

#endif
