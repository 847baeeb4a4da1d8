/* The parts of the pipelined strategy. Private to pipeline.c (steps), pipe.c (transfers), cuts.c (where a model is
 * cut), stage_times.c (how long its parts take), schedule.c (the order of each stage's work), stage_info.c (reports),
 * and modules/part.c, which cuts a model, too.
 *
 * Replicas form pipelines of `stages` each: replica p * stages + s is stage s of pipeline p. */
#ifndef CLQ_STRATEGY_PIPELINE_H
#define CLQ_STRATEGY_PIPELINE_H

#include "strategy/module.h"

/* ---- transfers (pipe.c) ---- */

/* A one-way channel for tensors that cross a cut, from one stage's device to that of the stage on the other side,
 * through slots in host memory. Each end is used by the thread of one replica. */
typedef struct clq_pipe clq_pipe;
enum { CLQ_PIPE_SLOTS = 3 };

/* The pipe carries the tensors of `cut`, each with at most `capacity` rows. gradients: it carries the gradients of the
 * tensors that have one. from, to: the devices of the sending and the receiving plan. deadline_s: how many seconds an
 * end waits for the other. */
typedef struct clq_pipe_config {
    const clq_model *model;
    const clq_cut *cut;
    bool gradients;
    uint32_t capacity;
    clq_device *from, *to;
    double deadline_s;
} clq_pipe_config;
clq_status clq_pipe_create(const clq_pipe_config *config, clq_pipe **out);
void clq_pipe_destroy(clq_pipe *pipe); /* takes NULL; no thread uses it, and both queues are finished or lost */
/* Enqueues the transfer of `count` rows of what the plan sends into the next slot, and flushes the queue. Waits only
 * while no slot is free. Errors: TIMEOUT (the other end took nothing), ABORTED, those of transfers. */
clq_status clq_pipe_send(clq_pipe *pipe, clq_queue *queue, const clq_plan *plan, uint32_t count);
/* Waits until the next slot is filled, and enqueues the transfer of `count` rows from the slot to the buffers that the
 * plan reads. Errors: likewise. */
clq_status clq_pipe_receive(clq_pipe *pipe, clq_queue *queue, const clq_plan *plan, uint32_t count);
/* Called by the sender: waits until its device has finished its last transfer into a slot, so that the deadline finds a
 * device that hangs. Errors: likewise. pipe NULL: does nothing. */
clq_status clq_pipe_await_sent(clq_pipe *pipe);
/* Ends the waits of both ends, for good. Called from any thread. */
void clq_pipe_abort(clq_pipe *pipe); /* takes NULL */

/* ---- how long parts of a model take (stage_times.c) ---- */

/* How long a micro-batch takes in a stage that has tensors [begin, end). */
typedef struct clq_stage_time {
    uint32_t begin, end;
    clq_plan_seconds seconds;
} clq_stage_time;
/* The times that are known on a device. Start with {0}, end with clq_free(items). */
typedef struct clq_stage_times {
    clq_stage_time *items;
    size_t count, capacity;
    double spent_s; /* seconds spent on measuring, in this process */
} clq_stage_times;
/* The time of the stage with tensors [begin, end). NULL: this stage was not measured. */
const clq_plan_seconds *clq_stage_times_find(const clq_stage_times *times, uint32_t begin, uint32_t end);

/* What the times are measured for: a model's micro-batches, on devices like this one. config: of a plan for
 * a micro-batch; config.stage is not read. Borrowed. */
typedef struct clq_stage_timing {
    const clq_model *model;
    clq_device *device;
    clq_plan_config config;
    const char *settings; /* clq_strategy_config.stage_settings */
} clq_stage_timing;
/* Reads the times that are kept beside built kernels. times: {0}, and stays so if none are kept. */
clq_status clq_stage_times_recall(const clq_stage_timing *of, clq_stage_times *times);
/* Measures the stages whose times are not known, and keeps all times beside built kernels. Ends early if the next
 * measurement may exceed tune's budget. If a device has no room for a stage, or no kernels, the stage's time stays
 * unknown. If the device has no place to keep times, nothing is measured. If keeping fails, all times are dropped, with
 * a warning. */
clq_status clq_stage_times_measure(const clq_stage_timing *of, const clq_tune_config *tune, const clq_stage *stages,
                                   size_t count, clq_stage_times *times);

/* ---- where a model is cut (cuts.c) ---- */

/* What decides about cuts. */
typedef struct clq_cut_wishes {
    unsigned stages;
    uint32_t micro_batch; /* samples */
    unsigned micro_batches;
    bool trains;
    unsigned slots; /* the optimizers' slots for each parameter */
    size_t sample_bytes;
    uint64_t memory[CLQ_REPLICAS_MAX]; /* bytes that each stage may take at most */
    unsigned replicas;                 /* how many have times; replica r has stage r % stages. 0: no times */
    const clq_stage_times *times[CLQ_REPLICAS_MAX];
} clq_cut_wishes;
/* Cuts a model into stages. A model with marks (clq_pipeline_cut) is cut at its marks. Any other model is cut so that
 * all stages fit and the slowest stage takes the least time; among cuts that are about as good, the fewest bytes cross.
 * A stage's time is the time measured on its slowest device; if this stage was not measured, the sum of its parts'
 * times. If the time of one part is unknown on one device, all stages are compared by estimates instead. stages: room
 * for wishes->stages. basis: may be NULL. Errors: ARGUMENT (the model has too few parts, or another number of marks; or
 * it cannot be cut at a mark), MEMORY. */
clq_status clq_choose_cuts(const clq_model *model, const clq_cut_wishes *wishes, clq_stage *stages,
                           clq_cut_basis *basis);
/* A model's smallest parts, as stages: one in front of each possible cut, and one behind the last cut. The caller frees
 * *out with clq_free. */
clq_status clq_model_parts(const clq_model *model, clq_stage **out, size_t *count);

/* ---- who does what when (schedule.c) ----
 * One forward, one backward (1F1B: Narayanan et al., "PipeDream", 2019; Fan et al., "DAPPLE", 2021): stage s of P
 * begins with P - 1 - s forward passes. Then a backward pass follows each forward pass. So the stage holds at most
 * P - s micro-batches at once. */
typedef struct clq_turn {
    bool backward;
    unsigned micro_batch;
} clq_turn;
/* What a stage does in turn `index` of its 2 * count turns. */
clq_turn clq_pipeline_turn(unsigned stage, unsigned stages, unsigned count, unsigned index);
unsigned clq_pipeline_in_flight(unsigned stage, unsigned stages, unsigned count); /* the most micro-batches at once */
/* The fraction of the time, 0 to 1, in which stages have nothing to do. forward[], backward[]: each stage's time for
 * one micro-batch. With equal times it is (P - 1) / (count + P - 1). */
double clq_pipeline_bubble(unsigned stages, unsigned count, const double *forward, const double *backward);

/* ---- the strategy ---- */

typedef struct clq_pipeline_part {       /* of a replica */
    clq_plan *flights[CLQ_REPLICAS_MAX]; /* a plan for each micro-batch held at once; the first is the replica's own */
    unsigned flight_count;
    clq_pipe *values, *gradients; /* to the next stage; back from it. NULL: no next stage, or no gradients come back */
} clq_pipeline_part;

typedef struct clq_pipeline {
    unsigned stages, pipelines, micro_batches;
    clq_stage cut[CLQ_REPLICAS_MAX];         /* by stage */
    clq_cut_basis basis;                     /* of these cuts */
    clq_stage_times times[CLQ_REPLICAS_MAX]; /* by replica; filled for the first replica of each kind of device */
    unsigned kind_of[CLQ_REPLICAS_MAX];      /* by replica: the replica whose `times` hold for it */
    clq_comm *rows[CLQ_REPLICAS_MAX]; /* by pipeline, over its stages; NULL: updates need no sum of their squares */
    clq_pipeline_part parts[CLQ_REPLICAS_MAX];
} clq_pipeline;

/* Cuts a strategy's model, once its devices are open and before any has a plan (stage_times.c). Uses the times that are
 * kept; if the strategy tunes, missing times are measured first. Sets the replicas and times of the wishes. */
clq_status clq_pipeline_choose_cuts(clq_strategy *strategy, clq_cut_wishes *wishes);

#endif
