/* scale: how long a step of mirrored training takes on many machines, on paper. Arithmetic alone, over the schedules of
 * comm: no device, no clock, no file.
 *
 * The model is LogGP (Alexandrov et al., 1995) at two levels: between the devices of a machine, and between machines. A
 * link has a latency, a time for each byte and a time of the processor for each message; adding what came takes a time
 * for each byte. Who sends what to whom, in which order and in which messages, is asked of comm/schedule, and carried
 * out in time as comm/outer/outer.c carries it out in fact (walk.c). Ranks whose parts are alike are stood for by one,
 * so that 10,000 devices take no longer than their rounds.
 *
 * A step is what the library makes of it (step.c): all devices compute; each bucket of the gradient is summed in its
 * turn, among the devices of a machine to the first, between the first ones of all machines, and back; the update
 * follows. Nobody goes on before the slowest device has computed: the expected largest of as many draws (spread.c).
 *
 * Left out: other traffic on the network, and links that several machines share. */
#ifndef CLQ_SCALE_H
#define CLQ_SCALE_H

#include "base/base.h"
#include "comm/schedule/schedule.h"

/* All seconds. LogGP's L, G and o. A message costs both of its ends; that is charged to the receiver. */
typedef struct clq_scale_link {
    double latency_s;     /* from a byte's leaving to its arrival */
    double byte_s;        /* one over the rate, in each direction */
    double message_s;     /* of the threads at both ends, for a message */
    double add_byte_s;    /* adding a byte that came */
    size_t message_bytes; /* ranges are sent in messages of so many; 0: whole */
} clq_scale_link;
/* Adding what came, where nobody measured it: 4 GB/s. Beside links between machines it is small. */
static const double clq_scale_add_byte_s = 0.25e-9;

/* The time of a schedule in which all ranks begin together. by_one: every rank is taken to be as far as rank 0 is. That
 * is exact for rings whose parts are equal, and for doubling by a power of two; by another number it is at most one hop
 * more. Of pipelines and stars it makes nothing. Errors: MEMORY. */
clq_status clq_scale_walk(const clq_schedule *schedule, const clq_scale_link *link, bool by_one, double *seconds);

/* The expected largest of n independent draws, over their mean. spread: standard deviation over mean. Draws are
 * lognormal: times are above 0, and lean to the long side. */
double clq_scale_largest(unsigned n, double spread);

/* A part of the gradient, and when backward has finished it: 0 to 1 of its time. In the order of `part`. */
typedef struct clq_scale_piece {
    double part;
    size_t bytes;
} clq_scale_piece;

/* Buckets as clq_plan_buckets cuts them: of pieces that follow one another, at least so many bytes each. */
#define CLQ_SCALE_WHOLE SIZE_MAX /* no buckets: all is exchanged behind backward */

typedef struct clq_scale_task {
    unsigned machines, devices;             /* devices: of each machine, at most CLQ_REPLICAS_MAX */
    double forward_s, backward_s, update_s; /* of one device that trains alone */
    double spread;                          /* of computing, from step to step */
    const clq_scale_piece *pieces;          /* borrowed */
    size_t piece_count;                     /* at least one */
    clq_scale_link inside, between;         /* devices of a machine; machines */
    clq_algorithm algorithm;                /* between machines, as it is asked for (clq_schedule_between) */
    size_t bucket_bytes;                    /* CLQ_SCALE_WHOLE: none */
} clq_scale_task;

typedef struct clq_scale_result {
    double step_s, exchange_s; /* exchange_s: of all buckets */
    double waiting_s;          /* for the slowest device */
    double exposed_s;          /* of the exchange, not hidden behind backward */
    double efficiency;         /* the rate over that of as many devices that each train alone */
    clq_algorithm algorithm;   /* as it is carried out; AUTO: by the bytes of each bucket */
    size_t bucket_bytes, buckets;
} clq_scale_result;

/* Errors: MEMORY; ARGUMENT (no machine, no device, too many, no piece). */
clq_status clq_scale_step(const clq_scale_task *task, clq_scale_result *out);
/* The shortest step over the algorithms and sizes of buckets that there are, whatever the task has. */
clq_status clq_scale_best(const clq_scale_task *task, clq_scale_result *out);

#endif
