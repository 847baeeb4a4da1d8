/* machines: what limits training on 1 to R machines, a process on each. Each process probes its own devices, which
 * exchange with nobody (machine_probe.c), and neighbors in the ring of processes send to each other (between.c). What
 * was measured is gathered, and the rest is arithmetic: steps (machines.c) and advice (machines_advise.c). The exchange
 * between machines is scale's, by the schedules that run. Part of why.h.
 *
 * All seconds. Functions that take a world are collective. */
#ifndef CLQ_WHY_MACHINES_H
#define CLQ_WHY_MACHINES_H

/* ---- what was measured ---- */

/* A step of one batch, of all devices of a process together, which exchange with no other process. */
typedef struct clq_machine_step {
    size_t batch;
    clq_step_parts parts;
} clq_machine_step;

/* What a process knows of itself, in one size: processes gather it. */
enum { CLQ_MACHINE_STEPS_MAX = 16, CLQ_MACHINE_LOOKS = 16, CLQ_MACHINE_ROUNDS = 16 * CLQ_MACHINE_LOOKS };
enum { CLQ_MACHINE_TIMED_MOST = 4096 }; /* single steps that are timed */
typedef struct clq_machine_probe {
    unsigned devices, step_count;
    clq_machine_step steps[CLQ_MACHINE_STEPS_MAX]; /* by batch, ascending; those that fit the memory */
    size_t too_large;                              /* a batch that does not fit; 0: none was found */
    double update_s;                               /* of these steps */
    double adding_s;                               /* a batch's gradient to those before it; the same for rounding it */
    /* Steps of the process's share of the batch in rounds in which all processes make theirs: the mean (0: not known
     * yet), and single ones of some looks, one look behind the other: of each so many rounds. */
    double together_s;
    unsigned look_count, look_rounds;
    float rounds_s[CLQ_MACHINE_ROUNDS];
    clq_doubt doubt;
} clq_machine_probe;

/* Between a process and the next one in the ring, there and back: b bytes take alpha + beta b one way. */
typedef struct clq_link_probe {
    double alpha_s, beta_s;
} clq_link_probe;

typedef struct clq_machines {
    unsigned count;                  /* at least 2 */
    const clq_machine_probe *probes; /* (count) borrowed, */
    const clq_link_probe *links;     /* likewise: link r is from process r to the next, the last one's to process 0 */
    size_t batch, samples;           /* global; of the data set */
    const clq_scale_piece *pieces;   /* of the gradient; borrowed */
    size_t piece_count;
    unsigned sums; /* exchanges within a batch, of statistics (synchronized batch normalisation) */
    clq_algorithm algorithm; /* as it is asked for */
    size_t bucket_bytes;     /* CLQ_SCALE_WHOLE: none */
    size_t message_bytes;    /* 0: whole */
    bool scales_loss;        /* which local steps refuse */
} clq_machines;

/* ---- measuring ---- */

/* The devices of this process alone. task: its batch is this process's share, and it has no world. largest: another
 * batch that predictions are of. Errors: as of clq_why_probe. */
clq_status clq_why_probe_machine(const clq_why_task *task, size_t largest, clq_machine_probe *out);
/* Half a second of training, but 15 steps at least. Behind the first of them, which compile, all processes of the world
 * begin together. estimate_s: of a step, the same on all. seconds (CLQ_MACHINE_TIMED_MOST): of single steps, which are
 * updates, oldest first. Errors: as of clq_trainer_create and clq_fit, and of clq_world_check. */

/* Each process trains alone, by a config without a world, and behind each step all meet and rest for rest_s, as they
 * would in an exchange: who sleeps now and then gets a core sooner than who never does. */
clq_status clq_why_time_rounds(const clq_why_task *task, clq_world *world, double estimate_s, double rest_s,
                               float *seconds, size_t *count);
/* All train together, by a config with this world. */
clq_status clq_why_time_steps(const clq_why_task *task, clq_world *world, double estimate_s, float *seconds,
                              size_t *count);

/* Of such seconds, of one step at least: what one takes. */
double clq_why_mean_step(const float *seconds, size_t count);
/* Sets what a process measured while all did. count: at least 1. */
void clq_why_note_together(clq_machine_probe *probe, const float *seconds, size_t count);
/* Between each process and the next; out (size of the world). Errors: MEMORY, and as clq_world_wait. */
clq_status clq_why_probe_links(clq_world *world, clq_link_probe *out);

/* ---- what follows from it ---- */

/* A way to train: the first so many processes, with all their devices. */
typedef struct clq_machines_way {
    unsigned machines;
    size_t batch, accumulate;         /* global; batches that make an update, which is a step */
    uint64_t local_steps;             /* 0: each update is by the gradient of all */
    clq_compression_kind compression; /* not TOP_K */
    bool by_speed;                    /* shares make all processes take equally long; else each device has as much */
    double link_factor;               /* of the measured rates */
} clq_machines_way;

typedef struct clq_machines_prediction {
    clq_machines_way way;
    double step_s, images_per_s;
    clq_step_parts parts; /* mean over processes; together the step */
    double waited_s;      /* of parts.waiting: for other processes */
    double exchange_s;    /* between processes, with what is hidden */
    clq_algorithm algorithm;
    size_t bucket_bytes;
    unsigned slowest; /* the process that computes longest */
    clq_limit limit;
    clq_doubt doubt;
} clq_machines_prediction;

/* *known false: a share does not fit a machine's memory, or a machine has none. Errors: MEMORY. */
clq_status clq_why_predict_machines(const clq_machines *machines, const clq_machines_way *way, bool *known,
                                    clq_machines_prediction *out);
/* Samples of each of the first `count` processes; devices (count): of each; shares (count): as training has them. paces
 * (count): the batch that takes a process alone as long as its share does. Training cuts a batch by the devices of all
 * processes, and a process alone by its own: it takes as long as the device with the most samples, so each has as many
 * in this batch. 0: the process has no share. Errors: MEMORY. */
clq_status clq_why_machine_shares(const unsigned *devices, unsigned count, size_t batch, size_t *shares, size_t *paces);
/* What computing takes of this process's part of a batch on all processes, alone and beside the others. */
double clq_why_machine_alone(const clq_machine_probe *probe, size_t pace);
double clq_why_machine_together(const clq_machine_probe *probe, size_t pace);
/* Of the links of the first so many processes, what is slowest of each. */
clq_link_probe clq_why_slowest_link(const clq_machines *machines, unsigned count);

/* The link from this process to the next takes longest for a process's part of the gradient; and the middle of all
 * links, of each number for itself. Errors: MEMORY. */
unsigned clq_why_worst_link(const clq_machines *machines);
clq_status clq_why_middle_link(const clq_machines *machines, clq_link_probe *out);

enum { CLQ_MACHINES_ADVICE_MAX = 8 };
/* What helps most first, over `now`; what gains 5 % at least. best: of predictions for fewer or as many processes, the
 * fastest. Returns how many in *count. Errors: MEMORY. */
clq_status clq_why_advise_machines(const clq_machines *machines, const clq_machines_prediction *now,
                                   const clq_machines_prediction *best, clq_advice *out, size_t capacity,
                                   size_t *count);

#endif
