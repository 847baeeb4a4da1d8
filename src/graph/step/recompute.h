/* The parts of the pass that recomputes. Private to recompute.c (the pass), order.c (the order of nodes, and the memory
 * that it takes) and recompute_search.c (which values are kept). */
#ifndef CLQ_GRAPH_RECOMPUTE_H
#define CLQ_GRAPH_RECOMPUTE_H

#include "graph/step/step.h"

/* An entry of the order: a node of the graph; or a second run of that node; or a node that makes one of its outputs
 * again, alone. */
typedef enum clq_order_kind { CLQ_ORDER_NODE, CLQ_ORDER_AGAIN, CLQ_ORDER_ALONE } clq_order_kind;
typedef struct clq_order_entry {
    uint32_t node; /* its index in the graph */
    clq_order_kind kind;
    const clq_operation *op; /* the node's, or the one that makes one of its outputs alone */
    /* Ids as in clq_recomputation. An id is 0 if the node has none in this place. From the counts on, all are 0. */
    unsigned input_count, output_count;
    clq_id inputs[CLQ_NODE_INPUTS], outputs[CLQ_NODE_OUTPUTS];
} clq_order_entry;

/* A differentiated graph. For each block of memory that forward writes and backward reads, it says whether the block is
 * kept. A value has its id in the graph; when it is made again, the new value has that id + `values`. Values in the
 * same memory, such as reshaped ones, have one root, and the members "of a root" are valid for the root alone. */
typedef struct clq_recomputation {
    const clq_graph *graph;
    uint32_t values, forward; /* values of the graph; nodes in front of backward's first */
    double samples;           /* in a batch */
    struct clq_stored {
        clq_id root;
        uint32_t maker; /* index + 1 of the node that makes it; 0: it comes from outside */
        double bytes;   /* for a batch; 0 outside of the step's own memory */
        double work;    /* of its maker for a batch, in operations */
        bool stays;     /* of a root: it is kept in any case, or cannot be made again */
        bool read;      /* of a root: backward reads it */
        bool dropped;   /* of a root: it is not kept, but made again */
        bool marked;    /* of a root: the model asks to drop it */
    } * stored;         /* by id */
    struct clq_node_places {
        unsigned inputs, outputs; /* places up to the last one that is not empty */
    } * places;                   /* by node */
    /* The order: */
    clq_order_entry *entries;
    uint32_t entry_count;
    bool *again; /* by id: an entry so far made it again */
    /* By id and by id + values. memory: the value whose memory it has; last: the last entry that uses its memory. */
    clq_id *memory;
    uint32_t *last;
} clq_recomputation;

/* Release in any case. Errors: MEMORY. */
clq_status clq_recomputation_open(clq_recomputation *r, const clq_graph *graph, uint32_t capacity);
void clq_recomputation_release(clq_recomputation *r);
/* Whether the value is a root that may be dropped. */
bool clq_recomputation_may_drop(const clq_recomputation *r, clq_id id);
/* Whether backward finds the value where forward left it. */
bool clq_recomputation_has(const clq_recomputation *r, clq_id id);
/* Sets the entries: each dropped value is made again in front of the first node of backward that reads it. */
void clq_recomputation_order(clq_recomputation *r);

typedef struct clq_recompute_cost {
    double peak;   /* the most bytes that live at one time */
    double excess; /* bytes above the limit, added up over all entries */
    double work;   /* of all that is made again, in operations */
} clq_recompute_cost;
/* The cost of dropping the values that are marked as dropped now. */
clq_recompute_cost clq_recomputation_cost(clq_recomputation *r, double limit);

/* recompute_search.c: drops values until at most `limit` bytes live at one time, or as few as can be found. */
clq_status clq_recomputation_fit(clq_recomputation *r, double limit);
/* Drops values until the fewest bytes live at one time that can be found. */
clq_status clq_recomputation_least(clq_recomputation *r);

#endif
