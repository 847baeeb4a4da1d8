/* A replica: a worker with a model's weights on its device, plans that run on these weights, and staging memory for
 * input rows. Private to strategy.
 *
 * If rows stay valid (clq_rows.stay), the replica's thread copies them itself. Other rows travel in staging slots: the
 * poster copies them into the next free slot, and posts the command. The replica's thread has the device read the slot,
 * and then frees the slot. */
#ifndef CLQ_STRATEGY_REPLICA_H
#define CLQ_STRATEGY_REPLICA_H

#include "strategy/replicas/paths.h"
#include "strategy/replicas/pool.h"
#include "strategy/replicas/shares.h"

/* CLQ_STEPS_AHEAD: how many steps with staged rows may be enqueued before the device has read these rows. */
enum { CLQ_STAGING_SLOTS_MAX = 8, CLQ_STEPS_AHEAD = 2, CLQ_OWN_SLOTS = CLQ_STEPS_AHEAD + 1 };

/* Memory for the rows of a batch: a slot that the host fills, and that the device copies or its kernels read; or a
 * block of the device (clq_uploads). */
typedef struct clq_staging {
    clq_buffer *block;                /* one buffer with all arrays (uploads.c). NULL: each array has its own */
    clq_buffer *arrays[CLQ_FEED_MAX]; /* in the order of the strategy's feed. NULL: another stage reads the array */
    clq_event *read;                  /* the device has read the last rows; the event is reused */
} clq_staging;

/* The separate queue that uploads batches (uploads.c). {0}: not used. */
enum { CLQ_UPLOAD_BLOCKS = 2 };
typedef struct clq_uploads {
    clq_queue *queue;
    size_t at[CLQ_FEED_MAX];               /* offset of each array in a block, in bytes */
    clq_staging blocks[CLQ_UPLOAD_BLOCKS]; /* device memory. .read: the launches have read the last batch */
    uint64_t sent, used;                   /* batches so far, with or without rows; at most one is sent ahead */
    clq_staging *from;                     /* the slot of the batch that was sent last. NULL: it has no rows */
} clq_uploads;

/* What steps measured (figures.c): a row for each of the plan's metric slots. */
typedef struct clq_figures {
    clq_buffer *norms; /* on the device, (slots, variables): squares as in clq_plan_norms. NULL: not measured */
    size_t variables;  /* 0 without norms */
    clq_buffer *host;  /* pinned: (slots, width), then (slots, variables), as far as they were read. NULL: no loss */
} clq_figures;

typedef struct clq_replica {
    clq_worker worker;
    clq_strategy *strategy;
    uint32_t capacity;      /* the most samples of one command; at least 1 */
    const clq_stage *stage; /* the stage of the model that it has. NULL: the whole model */
    uint32_t plan_capacity; /* samples that its plans run at once: a micro-batch. 0: capacity */
    uint32_t metric_rows;   /* rows of metrics per slot, one per micro-batch; they are added up. 0: 1 */
    uint64_t behind;        /* the last update that was posted before clq_strategy_reduce */
    bool measures_norms;    /* the squared norm of the gradient is the sum over all replicas with this flag */
    clq_weights *weights;
    clq_plan *plan;                  /* the plan of the mode that the strategy was made for */
    clq_plan *plans[CLQ_MODE_COUNT]; /* by mode, over the same weights. NULL until needed */
    clq_plan *adding; /* the training plan for all but the first batch of an update: it adds to the gradient. `plan`, if
                         `plan` accumulates. Otherwise a plan of its own, NULL until needed */
    bool joined;      /* its plans' clq_plan_config.fused_launches */
    clq_staging staging[CLQ_STAGING_SLOTS_MAX]; /* the first `slots` are used, in turn */
    unsigned slots;
    uint64_t filled;                /* how many slots the poster has filled so far */
    clq_channel *in_use;            /* slots that are filled and not yet free again */
    clq_staging own[CLQ_OWN_SLOTS]; /* slots for rows that the replica's thread copies, used in turn */
    unsigned next_own;
    clq_uploads uploads;
    bool reads_in_place;                     /* slots are device memory that kernels read; nothing is uploaded */
    clq_staging *under_way[CLQ_STEPS_AHEAD]; /* slots of the last steps, in turn. NULL: the step had no staged rows */
    unsigned next_under_way;
    clq_figures figures;
    clq_pace pace;
    /* The communicator for collectives with other replicas: of gradients, state, and sums within a step. The
     * strategy's. NULL: none. */
    clq_comm *peers;
    unsigned rank;           /* in `peers` */
    clq_timeline exchanges;  /* written by its thread, or by its reducer (overlap.c); never by both at once */
    size_t activations_most; /* as in clq_plan_config */
    unsigned flights;        /* how many training plans it has, each with its own activations. 0: one */
} clq_replica;

/* ---- life and steps (replica.c) ---- */

/* Makes the replica's queue, weights, plan and slots on its device, which is open. */
clq_status clq_replica_open(clq_replica *replica);
/* Call this for all replicas before you close any of them: a plan may read another replica's weights. */
void clq_replica_close_plans(clq_replica *replica);
void clq_replica_close(clq_replica *replica); /* the rest, and its device */
/* The config of a plan for a mode, over the replica's weights. */
clq_plan_config clq_replica_plan_config(const clq_replica *replica, clq_mode mode);
/* Makes the plan for a mode. The replica must be idle. */
clq_status clq_replica_make_plan(clq_replica *replica, clq_mode mode);
clq_status clq_replica_make_adding(clq_replica *replica); /* likewise `adding` */

/* Stages input and execute: brings the command's rows, and enqueues all launches of the plan up to the end of `last`.
 * If params.sum_factor is not 0, the plan `adding` runs in place of `plan` up to BACKWARD, and adds to the gradient of
 * the earlier batches. All that comes later, here or elsewhere, uses the gradient of all these batches. */
clq_status clq_replica_run(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_segment last);
/* Reads `count` rows of predictions into the command's outputs, from row `first` on. Waits until they are read. */
clq_status clq_replica_read_outputs(clq_replica *replica, const clq_plan *plan, const clq_command *command,
                                    size_t first, size_t count);
/* Makes the update, by the sum of the gradients. */
clq_status clq_replica_apply(clq_replica *replica, const clq_step_params *params);
/* A whole step, as if there were no other replica. */
clq_status clq_replica_step_alone(clq_replica *replica, const clq_command *command);

/* figures.c */
clq_status clq_replica_open_figures(clq_replica *replica); /* the replica's device and plan exist */
void clq_replica_close_figures(clq_replica *replica);
/* Called behind an update: copies the norms that it measured to the row of `slot`. */
clq_status clq_replica_keep_norms(clq_replica *replica, uint32_t slot);
/* By the replica's thread: reads its own row of metrics. Waits until the device has written the row. */
clq_status clq_replica_read_row(clq_replica *replica, uint32_t slot, double *row);

/* rows.c */
clq_status clq_replica_open_rows(clq_replica *replica); /* makes the slots; the replica's device and plan exist */
void clq_replica_close_rows(clq_replica *replica);
/* By the poster: gives a command its rows. If they do not stay, waits for a free slot and copies them there. */
void clq_replica_give_rows(clq_replica *replica, const clq_rows *rows, clq_command *command);
/* *out: the slot with the command's rows. Copies rows that stay into one of the replica's own slots. NULL: no rows. */
clq_status clq_replica_pick_rows(clq_replica *replica, const clq_command *command, clq_staging **out);
/* Brings the command's rows to where the plan's next run reads them. Give that run *order. *out: the slot that the
 * launches themselves read: mark its event `read` behind them. NULL: there is none. */
clq_status clq_replica_bring_rows(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_order *order,
                                  clq_staging **out);
/* These two bring rows part by part. The first gives the slot with the command's rows (NULL: no rows). The second
 * uploads rows [first, first + count) of the slot to the arrays that the plan reads. *read becomes the event at the end
 * of the transfer. read NULL: this is not the last part. */
clq_status clq_replica_take_rows(clq_replica *replica, const clq_command *command, clq_staging **out);
clq_status clq_replica_upload_rows(clq_replica *replica, const clq_plan *plan, const clq_staging *staging, size_t first,
                                   size_t count, clq_event **read);
void clq_replica_close_slots(clq_staging *slots, unsigned count);
void clq_replica_free_slot(clq_replica *replica); /* the slot that was filled first */
/* Called in place of clq_replica_bring_rows, if the rows are not used. */
clq_status clq_replica_drop_rows(clq_replica *replica, const clq_command *command);

/* slices.c: transfers of a variable of which each replica has a slice. The host has the whole variable. */
bool clq_replica_has_slice(const clq_replica *replica, size_t variable);
extern const clq_command_kind clq_write_slice; /* its arguments: memory, variable, from */
clq_status clq_strategy_read_slices(clq_strategy *strategy, clq_arena arena, size_t variable, float *to);

/* uploads.c: a fast path of the input. */
clq_status clq_uploads_open(clq_replica *replica); /* the replica's device and plan exist */
void clq_uploads_close(clq_replica *replica);      /* before the slots and plans are closed */
/* Makes a slot whose arrays all lie in one block. */
clq_status clq_uploads_open_slot(clq_replica *replica, clq_memory_kind kind, const char *what, clq_staging *slot);
/* As clq_replica_bring_rows, without a slot to mark. */
clq_status clq_uploads_bring(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_order *order);
/* Sends the rows of the next command, if it is posted already. Call this before the thread waits for other
 * replicas. */
clq_status clq_uploads_send_next(clq_replica *replica);

#endif
