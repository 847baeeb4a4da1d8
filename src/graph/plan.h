/* A plan's inside, shared by plan.c (life and memory), emit.c
 * (launches) and update.c (updates that replicas shard). Private to graph. */
#ifndef CLQ_GRAPH_PLAN_H
#define CLQ_GRAPH_PLAN_H

#include "graph/graph.h"
#include "graph/step/step.h"

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
    clq_optimizer update;
    clq_list *list;
    size_t segment_end[CLQ_SEGMENT_COUNT];
    clq_placement placement;
    clq_sharded_update sharded;

    /* flat arenas of arena_bytes each; offsets[i] is where variable i lies in every one */
    size_t arena_bytes;
    size_t *offsets;
    clq_buffer *parameters, *gradient, *optimizer[CLQ_UPDATE_STATES_MAX];
    unsigned optimizer_slots;
    clq_buffer *samples, *labels, *output, *metrics, *norms;

    /* the same as values of the list */
    clq_value v_samples, v_labels, v_output, v_metrics, v_norms;
    clq_value v_parameters, v_gradient, v_optimizer[CLQ_UPDATE_STATES_MAX];
    clq_value *v_weight, *v_weight_gradient; /* per variable */
    size_t *done;                            /* per variable: launches after which its gradient is whole */
};

/* Adds all launches and notes where each segment ends. */
clq_status clq_plan_emit(clq_plan *plan);

#endif
