/* scale: computes how long a step of mirrored training takes on many machines. It is arithmetic over the schedules of
 * comm, and uses no device, no clock and no file.
 *
 * The model is LogGP (Alexandrov et al., 1995) at two levels: between the devices of a machine, and between machines. A
 * link has a latency, a time for each byte, and a time of the processor for each message. Adding what was received
 * takes a time for each byte. comm/schedule tells who sends what to whom, in which order and in which messages. walk.c
 * goes through this in simulated time, as comm/outer/outer.c does in real time. One rank stands for all ranks whose
 * parts are alike, so that simulating 10,000 devices takes no longer than their rounds.
 *
 * A step is the one that the library makes (step.c). All devices compute. Each bucket of the gradient, in turn, is
 * summed onto the first device of each machine, summed between these devices, and sent back. The update follows. No
 * device goes on before the slowest one has computed. That time is the expected largest of as many draws as there are
 * devices (spread.c).
 *
 * Left out: other traffic on the network, and links that several machines share. */
#ifndef CLQ_SCALE_H
#define CLQ_SCALE_H

#include "base/base.h"
#include "comm/schedule/schedule.h"

/* In seconds: LogGP's L, G and o. A message costs time at both of its ends; all of it is charged to the receiver. */
typedef struct clq_scale_link {
    double latency_s;     /* from a byte's leaving to its arrival */
    double byte_s;        /* one over the rate, in each direction */
    double message_s;     /* of the threads at both ends, for each message */
    double add_byte_s;    /* to add a byte that was received */
    size_t message_bytes; /* ranges are sent in messages of so many bytes; 0: each as one message */
} clq_scale_link;
/* add_byte_s, if it was not measured: 4 GB/s. It is small beside the links between machines. */
static const double clq_scale_add_byte_s = 0.25e-9;

/* The time of a schedule in which all ranks begin together. by_one: walks rank 0 alone, and takes every rank to be as
 * far as rank 0 is. This is exact for rings with equal parts, and for doubling on a power of two of ranks; on another
 * number of ranks, doubling takes at most one hop more. It does not work for pipelines and stars. Errors: MEMORY. */
clq_status clq_scale_walk(const clq_schedule *schedule, const clq_scale_link *link, bool by_one, double *seconds);

/* The expected largest of n independent draws, over their mean. spread: standard deviation over mean. Draws are
 * lognormal, because times are above 0 and lean to the long side. */
double clq_scale_largest(unsigned n, double spread);

/* A piece of the gradient. part: when backward has finished the piece, 0 to 1 of backward's time. Pieces are in
 * ascending order of `part`. */
typedef struct clq_scale_piece {
    double part;
    size_t bytes;
} clq_scale_piece;

/* Buckets are cut as clq_plan_buckets cuts them: each is a run of consecutive pieces, of at least bucket_bytes. */
#define CLQ_SCALE_WHOLE SIZE_MAX /* no buckets: the whole gradient is exchanged after backward */

typedef struct clq_scale_task {
    unsigned machines, devices;             /* devices: of each machine, at most CLQ_REPLICAS_MAX */
    double forward_s, backward_s, update_s; /* of one device that trains alone */
    double spread;                          /* of the time to compute, from step to step */
    const clq_scale_piece *pieces;          /* borrowed */
    size_t piece_count;                     /* at least one */
    clq_scale_link inside, between;         /* inside: between devices of a machine; between: between machines */
    clq_algorithm algorithm;                /* between machines, as configured (clq_schedule_between) */
    size_t bucket_bytes;                    /* CLQ_SCALE_WHOLE: no buckets */
} clq_scale_task;

typedef struct clq_scale_result {
    double step_s, exchange_s; /* exchange_s: of all buckets */
    double waiting_s;          /* for the slowest device */
    double exposed_s;          /* the part of the exchange that backward does not hide */
    double efficiency;         /* the rate, over the rate of as many devices that each train alone */
    clq_algorithm algorithm;   /* the one that is carried out; AUTO: it depends on the bytes of each bucket */
    size_t bucket_bytes, buckets;
} clq_scale_result;

/* Errors: MEMORY; ARGUMENT (no machine, no device, too many, no piece). */
clq_status clq_scale_step(const clq_scale_task *task, clq_scale_result *out);
/* The shortest step over all algorithms and bucket sizes. It ignores those of the task. */
clq_status clq_scale_best(const clq_scale_task *task, clq_scale_result *out);

#endif
