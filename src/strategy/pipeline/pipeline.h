/* The parts of the pipelined strategy. Private to pipeline.c (steps), pipe.c (transfers), cuts.c (where a model is
 * cut), stage_times.c (how long its parts take) and schedule.c (who does what when).
 *
 * Replicas form pipelines of `stages` each: replica p * stages + s is stage s of pipeline p. */
#ifndef CLQ_STRATEGY_PIPELINE_H
#define CLQ_STRATEGY_PIPELINE_H

#include "strategy/module.h"

/* ---- transfers (pipe.c) ---- */

/* A one-way channel for what crosses a cut, from one stage's device to the next one's, through slots in the host's
 * memory. The thread at each end is one replica's. */
typedef struct clq_pipe clq_pipe;
enum { CLQ_PIPE_SLOTS = 3 };

/* For tensors of a cut, each of at most `capacity` rows; gradients: only of those that have one. from, to: the plan at
 * each end is of that device. deadline_s: how long an end waits for the other. */
typedef struct clq_pipe_config {
    const clq_model *model;
    const clq_cut *cut;
    bool gradients;
    uint32_t capacity;
    clq_device *from, *to;
    double deadline_s;
} clq_pipe_config;
clq_status clq_pipe_create(const clq_pipe_config *config, clq_pipe **out);
void clq_pipe_destroy(clq_pipe *pipe); /* takes NULL; no thread is in it, and both queues are finished or lost */
/* Enqueues the transfer of `count` rows of what the plan sends to the next slot, and flushes. Waits only while no slot
 * is free. Errors: TIMEOUT (the other end took nothing), ABORTED, those of transfers. */
clq_status clq_pipe_send(clq_pipe *pipe, clq_queue *queue, const clq_plan *plan, uint32_t count);
/* Waits until the next slot is filled, and enqueues its transfer to where the plan reads it. Errors: likewise. */
clq_status clq_pipe_receive(clq_pipe *pipe, clq_queue *queue, const clq_plan *plan, uint32_t count);
/* Waits until the device has finished the last transfer to a slot. By the sender, so that a device that hangs is found
 * by the deadline. Errors: likewise. pipe NULL: nothing. */
clq_status clq_pipe_await_sent(clq_pipe *pipe);
/* Ends the waits of both ends, for good. From any thread. */
void clq_pipe_abort(clq_pipe *pipe); /* takes NULL */

/* ---- how long parts of a model take (stage_times.c) ---- */

/* Of tensors [begin, end), as a stage: seconds of a micro-batch. */
typedef struct clq_stage_time {
    uint32_t begin, end;
    clq_plan_seconds seconds;
} clq_stage_time;
/* What is known of a device. Start with {0}, end with clq_free(items). */
typedef struct clq_stage_times {
    clq_stage_time *items;
    size_t count, capacity;
    double spent_s; /* in measuring them now */
} clq_stage_times;
/* NULL: it was not measured as one. */
const clq_plan_seconds *clq_stage_times_find(const clq_stage_times *times, uint32_t begin, uint32_t end);

/* What times are of: a model's micro-batches on devices like this one. config: of a micro-batch; its stage is not read.
 * Borrowed. */
typedef struct clq_stage_timing {
    const clq_model *model;
    clq_device *device;
    clq_plan_config config;
    const char *settings; /* clq_strategy_config.stage_settings */
} clq_stage_timing;
/* What is kept beside built kernels: where nothing is, nothing. times: {0}. */
clq_status clq_stage_times_recall(const clq_stage_timing *of, clq_stage_times *times);
/* Measures those of the stages that are not known, and keeps all; ends early at the end of tune's budget. What a device
 * has no room for, or no kernels, stays unknown. Where nothing can be kept, nothing is measured or, with a warning,
 * known. */
clq_status clq_stage_times_measure(const clq_stage_timing *of, const clq_tune_config *tune, const clq_stage *stages,
                                   size_t count, clq_stage_times *times);

/* ---- where a model is cut (cuts.c) ---- */

/* What decides about cuts. */
typedef struct clq_cut_wishes {
    unsigned stages;
    uint32_t micro_batch; /* samples */
    unsigned micro_batches;
    bool trains;
    unsigned slots; /* of the optimizers */
    size_t sample_bytes;
    uint64_t memory[CLQ_REPLICAS_MAX]; /* the most that each stage may take */
    unsigned replicas;                 /* that have times: replica r is of stage r % stages; 0: none */
    const clq_stage_times *times[CLQ_REPLICAS_MAX];
} clq_cut_wishes;
/* The stages of a model: cut at its marks (clq_pipeline_cut); or, where it has none, so that all stages fit and the
 * slowest stage takes the least time. Of cuts that are about as good, those with the fewest bytes that cross. A stage
 * takes as long as was measured on its slowest device, or as its parts together; where a part's time is not known of
 * some device, all go by estimates. stages: room for wishes->stages. basis: may be NULL. Errors: ARGUMENT (the model
 * has too few parts, or other marks; a mark where it cannot be cut), MEMORY. */
clq_status clq_choose_cuts(const clq_model *model, const clq_cut_wishes *wishes, clq_stage *stages,
                           clq_cut_basis *basis);
/* A model's smallest parts, as stages: between each two neighbours of its cuts. Caller frees with clq_free. */
clq_status clq_model_parts(const clq_model *model, clq_stage **out, size_t *count);

/* ---- who does what when (schedule.c) ----
 * One forward, one backward (Narayanan et al., "PipeDream", 2019; Fan et al., "DAPPLE", 2021): stage s of P begins with
 * P - 1 - s micro-batches forward; then each forward is followed by a backward; so it holds at most P - s of them. */
typedef struct clq_turn {
    bool backward;
    unsigned micro_batch;
} clq_turn;
/* Turn `index` of 2 * count. */
clq_turn clq_pipeline_turn(unsigned stage, unsigned stages, unsigned count, unsigned index);
unsigned clq_pipeline_in_flight(unsigned stage, unsigned stages, unsigned count); /* micro-batches at once, at most */
/* The share of the time in which a stage has nothing to do, by the stages' times of one micro-batch, forward[] and
 * backward[]: 0 to 1. Equal times: (P - 1) / (count + P - 1). */
double clq_pipeline_bubble(unsigned stages, unsigned count, const double *forward, const double *backward);

/* ---- the strategy ---- */

typedef struct clq_pipeline_part {       /* of a replica */
    clq_plan *flights[CLQ_REPLICAS_MAX]; /* the first is the replica's own plan */
    unsigned flight_count;
    clq_pipe *values, *gradients; /* to the next stage, and back from there; NULL: there is none, or nothing crosses */
} clq_pipeline_part;

typedef struct clq_pipeline {
    unsigned stages, pipelines, micro_batches;
    clq_stage cut[CLQ_REPLICAS_MAX];         /* by stage */
    clq_cut_basis basis;                     /* of these cuts */
    clq_stage_times times[CLQ_REPLICAS_MAX]; /* by replica, of the first of each kind of device */
    unsigned kind_of[CLQ_REPLICAS_MAX];      /* the replica that has a replica's times */
    clq_comm *rows[CLQ_REPLICAS_MAX]; /* by pipeline, of its stages; NULL unless gradients are clipped by a norm */
    clq_pipeline_part parts[CLQ_REPLICAS_MAX];
} clq_pipeline;

/* Cuts the model of a strategy, whose devices are open and have no plans: by times that are kept and, where it tunes,
 * that are measured now, which become those of the wishes (stage_times.c). */
clq_status clq_pipeline_choose_cuts(clq_strategy *strategy, clq_cut_wishes *wishes);

#endif
