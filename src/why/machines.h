/* machines: finds what limits training on 1 to R machines with a process on each. Each process probes its own devices,
 * which exchange with no other process (machine_probe.c). Neighbors in the ring of processes send messages to each
 * other (between.c). The processes gather what they measured; the rest is arithmetic: steps (machines.c) and advice
 * (machines_advise.c). The layer scale simulates the exchange between machines, with the schedules that training runs.
 * Part of why.h.
 *
 * All times are in seconds. Functions that take a world are collective. */
#ifndef CLQ_WHY_MACHINES_H
#define CLQ_WHY_MACHINES_H

/* ---- what was measured ---- */

/* A step of one batch on all devices of a process together, without an exchange with other processes. */
typedef struct clq_machine_step {
    size_t batch;
    clq_step_parts parts;
} clq_machine_step;

/* What a process knows of itself. Its size is fixed, because processes gather it. */
enum { CLQ_MACHINE_STEPS_MAX = 16, CLQ_MACHINE_LOOKS = 16, CLQ_MACHINE_ROUNDS = 16 * CLQ_MACHINE_LOOKS };
enum { CLQ_MACHINE_TIMED_MOST = 4096 }; /* the most single steps that are timed */
typedef struct clq_machine_probe {
    unsigned devices, step_count;
    clq_machine_step steps[CLQ_MACHINE_STEPS_MAX]; /* in ascending order of batch; those that fit the memory */
    size_t too_large;                              /* the smallest batch that was found not to fit; 0: none was */
    double update_s;                               /* the part of these steps that is the update */
    double adding_s; /* to add a batch's gradient to the earlier ones; rounding a gradient takes as long */
    /* Steps of this process's share of the batch, in rounds in which every process makes a step of its own share.
     * together_s: their mean; 0: not known yet. rounds_s: single steps, look after look, look_rounds of each look. */
    double together_s;
    unsigned look_count, look_rounds;
    float rounds_s[CLQ_MACHINE_ROUNDS];
    clq_doubt doubt;
} clq_machine_probe;

/* The link between a process and the next one in the ring, measured there and back: b bytes take alpha + beta b in one
 * direction. */
typedef struct clq_link_probe {
    double alpha_s, beta_s;
} clq_link_probe;

typedef struct clq_machines {
    unsigned count;                  /* at least 2 */
    const clq_machine_probe *probes; /* (count) borrowed */
    const clq_link_probe *links;     /* (count) borrowed; [r]: from process r to the next; the last: to process 0 */
    size_t batch, samples;           /* batch: global; samples: in the data set */
    const clq_scale_piece *pieces;   /* of the gradient; borrowed */
    size_t piece_count;
    unsigned sums;           /* exchanges within a batch (synchronized batch normalisation, masked losses) */
    clq_algorithm algorithm; /* as configured */
    size_t bucket_bytes;     /* of the gradient; CLQ_SCALE_WHOLE: no buckets */
    size_t message_bytes;    /* 0: messages are not cut */
    bool scales_loss;        /* training scales its loss, which local steps refuse */
} clq_machines;

/* ---- measuring ---- */

/* Probes the devices of this process alone. task: its batch is this process's share, and it has no world. largest:
 * another batch to predict. Errors: as of clq_why_probe. */
clq_status clq_why_probe_machine(const clq_why_task *task, size_t largest, clq_machine_probe *out);
/* The two functions below time about half a second of training, but at least 15 steps. The first steps compile kernels.
 * After these, all processes of the world begin together. estimate_s: of a step; the same on all processes. seconds:
 * (CLQ_MACHINE_TIMED_MOST) times of single steps, which are updates, oldest first. Errors: as of clq_trainer_create and
 * clq_fit, and of clq_world_check. */

/* Each process trains alone, by a config without a world. Between steps all processes meet and rest for rest_s, as they
 * would in an exchange: a process that sleeps now and then gets a core sooner than one that never sleeps. */
clq_status clq_why_time_rounds(const clq_why_task *task, clq_world *world, double estimate_s, double rest_s,
                               float *seconds, size_t *count);
/* All processes train together, by a config with this world. If epochs are too short to time single steps, *count is 1,
 * and the value is the mean. */
clq_status clq_why_time_steps(const clq_why_task *task, clq_world *world, double estimate_s, float *seconds,
                              size_t *count);

/* How long a step takes, by the seconds of at least one step. */
double clq_why_mean_step(const float *seconds, size_t count);
/* Sets together_s and the looks of the probe, by the seconds of clq_why_time_rounds. count: at least 1. */
void clq_why_note_together(clq_machine_probe *probe, const float *seconds, size_t count);
/* Measures the link of each process to the next. out: (size of the world). Errors: MEMORY, and as clq_world_wait. */
clq_status clq_why_probe_links(clq_world *world, clq_link_probe *out);

/* ---- what follows from it ---- */

/* A way to train: on the first `machines` processes, with all their devices. */
typedef struct clq_machines_way {
    unsigned machines;
    size_t batch, accumulate;         /* batch: global; accumulate: batches per update; a step makes one update */
    uint64_t local_steps;             /* 0: each update is by the gradient of all processes */
    clq_compression_kind compression; /* not TOP_K */
    bool by_speed;      /* shares let all processes take equally long; false: all devices have equal shares */
    double link_factor; /* the links' rates are this many times the measured ones */
} clq_machines_way;

typedef struct clq_machines_prediction {
    clq_machines_way way;
    double step_s, images_per_s;
    clq_step_parts parts; /* means over processes; all parts add up to the step */
    double waited_s;      /* the part of parts.waiting that is for other processes */
    double exchange_s;    /* between processes, including what compute hides */
    clq_algorithm algorithm;
    size_t bucket_bytes;
    unsigned slowest; /* the process that computes longest */
    clq_limit limit;
    clq_doubt doubt;
} clq_machines_prediction;

/* *known false: a share does not fit a machine's memory, or a machine has no share. Errors: MEMORY. */
clq_status clq_why_predict_machines(const clq_machines *machines, const clq_machines_way *way, bool *known,
                                    clq_machines_prediction *out);
/* Shares a batch out over the first `count` processes. devices: (count) the devices of each process. shares: (count)
 * the samples of each process, as training shares them out. paces: (count) the batch that takes a process alone as long
 * as its share does; 0: the process has no share. The two differ because training cuts a batch by the devices of all
 * processes, and a process alone cuts it by its own devices. A process takes as long as its device with the most
 * samples, so in its pace all its devices have as many. Errors: MEMORY. */
clq_status clq_why_machine_shares(const unsigned *devices, unsigned count, size_t batch, size_t *shares, size_t *paces);
/* How long this process computes its part of the batch of all processes: alone, and beside the other processes. */
double clq_why_machine_alone(const clq_machine_probe *probe, size_t pace);
double clq_why_machine_together(const clq_machine_probe *probe, size_t pace);
/* The largest alpha and the largest beta of the links of the first `count` processes. */
clq_link_probe clq_why_slowest_link(const clq_machines *machines, unsigned count);

/* clq_why_worst_link: the process whose link to the next one takes longest for a process's part of the gradient.
 * clq_why_middle_link: the median alpha and the median beta of all links. Errors: MEMORY. */
unsigned clq_why_worst_link(const clq_machines *machines);
clq_status clq_why_middle_link(const clq_machines *machines, clq_link_probe *out);

enum { CLQ_MACHINES_ADVICE_MAX = 8 };
/* Advice in descending order of gain over `now`; only changes that gain at least 5 %. best: the fastest prediction for
 * at most as many processes. *count: how many. Errors: MEMORY. */
clq_status clq_why_advise_machines(const clq_machines *machines, const clq_machines_prediction *now,
                                   const clq_machines_prediction *best, clq_advice *out, size_t capacity,
                                   size_t *count);

#endif
