/* A plan's inside, shared by plan.c (life and memory), fuse.c (which layers become one), emit.c
 * (launches) and update.c (the last of them). Private to graph. */
#ifndef CLQ_GRAPH_PLAN_H
#define CLQ_GRAPH_PLAN_H

#include "graph/graph.h"

enum { CLQ_OPTIMIZER_SLOTS_MAX = 2 };

/* A part of all replicas' updates, as a launch list of its own: one from weights to gradients as they are at first, and
 * one from where they have changed places. */
typedef struct clq_sharded_update {
    clq_list *lists[2]; /* NULL: the update is not sharded */
    unsigned turn;      /* which is next */
    clq_buffer *aliases[2 * (CLQ_UPDATE_RANKS_MAX - 1)];
    unsigned alias_count;
} clq_sharded_update;

struct clq_plan {
    const clq_model *model; /* outlives the plan */
    clq_device *device;
    clq_plan_config config;
    clq_loss_problem loss; /* copies of what config points to */
    clq_update_problem update;
    clq_list *list;
    size_t segment_end[CLQ_SEGMENT_COUNT];
    clq_placement placement;
    clq_sharded_update sharded;

    /* flat arenas of arena_bytes each; offsets[i] is where variable i lies in every one */
    size_t arena_bytes;
    size_t *offsets;
    clq_buffer *parameters, *gradient, *optimizer[CLQ_OPTIMIZER_SLOTS_MAX];
    unsigned optimizer_slots;
    clq_buffer *samples, *labels, *output, *metrics, *norms;

    /* the same as values of the list */
    clq_value v_samples, v_labels, v_output, v_metrics, v_norms;
    clq_value v_parameters, v_gradient, v_optimizer[CLQ_OPTIMIZER_SLOTS_MAX];
    clq_value *v_weight, *v_weight_gradient; /* per variable */
    struct clq_node_values {                 /* per node id */
        clq_value y, winner;
        clq_activation activation; /* the layer's own, or of one behind it, which is absorbed */
        clq_chain chain;           /* an activation layer's, but a softmax: its own, behind those of absorbed ones */
        uint32_t chained; /* the node of the chain behind whose derivative its own backward launch takes in; 0: none */
        bool derived;     /* a chain whose derivative another's launch takes in */
        size_t done;      /* launches after which the gradients of its variables are whole */
        /* A max pooling that computes the convolution below it, too: that one's id, and what they are together. The
         * convolution, and an activation between, are absorbed: no launch is theirs alone. */
        uint32_t fused;
        bool absorbed;
        clq_conv_pool_problem conv_pool;
        clq_value frames;
    } * nodes;
};

/* Notes which nodes of the path from input to output become one. */
void clq_plan_fuse(clq_plan *plan, const uint32_t *path, uint32_t length);
/* Adds all launches and notes where each segment ends. */
clq_status clq_plan_emit(clq_plan *plan);
void clq_plan_emit_update(clq_plan *plan);

#endif
