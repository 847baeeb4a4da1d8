/* A replica: a worker with a model's weights on its device, plans over them and memory for rows on their way. Private
 * to strategy.
 *
 * A replica's thread copies rows that stay from where they lie. Other rows travel in staging slots: the poster fills
 * the next free slot and posts, the replica's thread has the device read it and frees it. */
#ifndef CLQ_STRATEGY_REPLICA_H
#define CLQ_STRATEGY_REPLICA_H

#include "strategy/replicas/paths.h"
#include "strategy/replicas/pool.h"
#include "strategy/replicas/shares.h"

/* STEPS_AHEAD: how many steps may be enqueued before the device has got to their rows. */
enum { CLQ_STAGING_SLOTS_MAX = 8, CLQ_STEPS_AHEAD = 2, CLQ_OWN_SLOTS = CLQ_STEPS_AHEAD + 1 };

/* Rows on their way to the device, or where its kernels read them: in memory that is the host's too. */
typedef struct clq_staging {
    clq_buffer *block; /* in which all lie (uploads.c); NULL where each has memory of its own */
    clq_buffer *arrays[CLQ_FEED_MAX]; /* by the strategy's feed; NULL: another stage reads it */
    clq_event *read; /* the device has read the rows that were last in it; used again */
} clq_staging;

/* A queue of its own for batches (uploads.c); {0} where rows go the same way as the launches. */
enum { CLQ_UPLOAD_BLOCKS = 2 };
typedef struct clq_uploads {
    clq_queue *queue;
    size_t at[CLQ_FEED_MAX];               /* where arrays lie in blocks */
    clq_staging blocks[CLQ_UPLOAD_BLOCKS]; /* the device's; .read: by the launches of the batch that was last in it */
    uint64_t sent, used;                   /* batches so far, of replicas without rows too: at most one is ahead */
    clq_staging *from;                     /* the slot of the one that was sent last; NULL: without rows */
} clq_uploads;

/* What steps measured (figures.c), in rows as of the plan's metrics. */
typedef struct clq_figures {
    clq_buffer *norms; /* (slots, variables): squares, as of clq_plan_norms; NULL where it does not measure them */
    size_t variables;  /* 0 without norms */
    clq_buffer *host; /* pinned: (slots, width) and (slots, variables), as far as they were read; NULL without a loss */
} clq_figures;

typedef struct clq_replica {
    clq_worker worker;
    clq_strategy *strategy;
    uint32_t capacity;      /* samples that a command may give it; at least 1 */
    const clq_stage *stage; /* of the model that it has; NULL: all */
    uint32_t plan_capacity; /* samples that its plans run at once; 0: capacity */
    uint32_t metric_rows;   /* for each slot, which add up; 0: 1 */
    uint64_t behind;        /* the update that its sum by hand was posted behind */
    bool measures_norms;    /* the gradient's norm is the root of the squares of all replicas that do */
    clq_weights *weights;
    clq_plan *plan;                  /* of the mode that the strategy was made for */
    clq_plan *plans[CLQ_MODE_COUNT]; /* over the same weights; NULL until needed */
    clq_plan *adding; /* for training, of batches behind the first of an update: `plan`, or NULL until needed */
    bool joined;      /* clq_plan_config.fused_launches */
    clq_staging staging[CLQ_STAGING_SLOTS_MAX]; /* used round and round */
    unsigned slots;
    uint64_t filled;                /* slots so far, by the poster */
    clq_channel *in_use;            /* slots that are filled and not free again */
    clq_staging own[CLQ_OWN_SLOTS]; /* where the replica's thread copies rows to, in turn */
    unsigned next_own;
    clq_uploads uploads;
    bool reads_in_place;                     /* slots are memory of the device, and nothing is uploaded */
    clq_staging *under_way[CLQ_STEPS_AHEAD]; /* of the last steps, in turn; NULL where nothing was staged */
    unsigned next_under_way;
    clq_figures figures;
    clq_pace pace;
    /* For its collectives with other replicas: of gradients, of state, of sums within a step. NULL: it has none. */
    clq_comm *peers;
    unsigned rank;           /* in `peers` */
    clq_timeline exchanges;  /* by its thread, or by another thread of its own while that waits */
    size_t activations_most; /* as of clq_plan_config */
    unsigned flights;        /* plans for training, each with activations of its own; 0: one */
} clq_replica;

/* ---- life and steps (replica.c) ---- */

/* Makes what it needs on its device, which is open. */
clq_status clq_replica_open(clq_replica *replica);
/* First those of all replicas: a plan may read another replica's weights. */
void clq_replica_close_plans(clq_replica *replica);
void clq_replica_close(clq_replica *replica); /* what is left of it */
/* Of a plan for a mode, over its weights. */
clq_plan_config clq_replica_plan_config(const clq_replica *replica, clq_mode mode);
/* The plan for a mode, while the replica has nothing to do. */
clq_status clq_replica_make_plan(clq_replica *replica, clq_mode mode);
clq_status clq_replica_make_adding(clq_replica *replica); /* the same for `adding` */

/* Stages input and execute: the command's rows, and all launches of the plan up to the end of `last`. Where gradients
 * of several batches become one (params.sum_factor), they do in BACKWARD, by the plan for that: what comes later, here
 * or elsewhere, has the gradient of all.
 */
clq_status clq_replica_run(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_segment last);
/* `count` rows of predictions to rows of the command's outputs from `first` on; waits for them. */
clq_status clq_replica_read_outputs(clq_replica *replica, const clq_plan *plan, const clq_command *command,
                                    size_t first, size_t count);
/* The update, by the sum of gradients. */
clq_status clq_replica_apply(clq_replica *replica, const clq_step_params *params);
/* The whole step, as if there were no other replica. */
clq_status clq_replica_step_alone(clq_replica *replica, const clq_command *command);

/* figures.c */
clq_status clq_replica_open_figures(clq_replica *replica); /* the replica's device and plan exist */
void clq_replica_close_figures(clq_replica *replica);
/* Behind an update: the norms that were measured become those of the step's row. */
clq_status clq_replica_keep_norms(clq_replica *replica, uint32_t slot);
/* By the replica's thread: its own row of metrics, once the device has written it. */
clq_status clq_replica_read_row(clq_replica *replica, uint32_t slot, double *row);

/* rows.c */
clq_status clq_replica_open_rows(clq_replica *replica); /* the slots; the replica's device and plan exist */
void clq_replica_close_rows(clq_replica *replica);
/* Gives a command its rows: those that do not stay are copied into the next slot, once it is free. By the poster. */
void clq_replica_give_rows(clq_replica *replica, const clq_rows *rows, clq_command *command);
/* The slot with the command's rows, which a worker's rows are copied to; NULL where there are none. */
clq_status clq_replica_pick_rows(clq_replica *replica, const clq_command *command, clq_staging **out);
/* The command's rows, where the plan's next run reads them, which is given *order. *out: the slot that the launches
 * themselves read, to be marked behind them; NULL: none. */
clq_status clq_replica_bring_rows(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_order *order,
                                  clq_staging **out);
/* The slot with the command's rows, NULL where there are none; and rows [first, first + count) of it, to where the plan
 * reads them, as far as it does. The two for whoever brings them part by part. read: is set to the end of the transfer;
 * NULL: not the last part. */
clq_status clq_replica_take_rows(clq_replica *replica, const clq_command *command, clq_staging **out);
clq_status clq_replica_upload_rows(clq_replica *replica, const clq_plan *plan, const clq_staging *staging, size_t first,
                                   size_t count, clq_event **read);
void clq_replica_close_slots(clq_staging *slots, unsigned count);
void clq_replica_free_slot(clq_replica *replica); /* the one that was filled first */
/* In place of bringing them. */
clq_status clq_replica_drop_rows(clq_replica *replica, const clq_command *command);

/* slices.c: variables of which each replica has a slice, between its arena and the whole on the host. */
bool clq_replica_has_slice(const clq_replica *replica, size_t variable);
extern const clq_command_kind clq_write_slice; /* memory, variable, from */
clq_status clq_strategy_read_slices(clq_strategy *strategy, clq_arena arena, size_t variable, float *to);

/* uploads.c: a fast path of the input. */
clq_status clq_uploads_open(clq_replica *replica); /* the replica's device and plan exist */
void clq_uploads_close(clq_replica *replica);      /* before its slots and plans */
/* A slot whose arrays lie in one block. */
clq_status clq_uploads_open_slot(clq_replica *replica, clq_memory_kind kind, const char *what, clq_staging *slot);
/* As clq_replica_bring_rows. */
clq_status clq_uploads_bring(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_order *order);
/* Sends the rows of the command behind the one at hand, where it was posted already: before the thread waits for other
 * replicas. */
clq_status clq_uploads_send_next(clq_replica *replica);

#endif
