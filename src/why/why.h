/* why: finds what limits training on 1 to n devices. Probes (probe.c, groups.c, rig.c) take a few seconds to measure
 * what a step is made of. From the probes, predict.c computes the step of each strategy, and advise.c finds the change
 * that would help most. On one machine, no probe runs training steps on more than one replica. Instead, made-up work as
 * long as the real steps, and collectives, measure what several devices cost one another. trace.c finds where the
 * queues of a recorded run waited. machines.h finds what limits training on several machines.
 *
 * All times are in seconds. One thread at a time may call. */
#ifndef CLQ_WHY_H
#define CLQ_WHY_H

#include "scale/scale.h"
#include "train/train.h"

/* ---- how far a measurement can be trusted (looks.h) ---- */

typedef struct clq_doubt {
    double others; /* part of the cores, 0 to 1, that other programs used meanwhile; NaN: not known */
    double spread; /* relative spread of the looks: the range of their middle half, over the middle of that range */
} clq_doubt;
/* Whether other programs used so much of the cores that the measurement should be repeated once they do not. */
bool clq_doubt_is_grave(const clq_doubt *doubt);
clq_doubt clq_doubt_worse(const clq_doubt *a, const clq_doubt *b);
/* How long measurements may be repeated, in total, because other programs were busy. */
typedef struct clq_patience {
    double left_s;
} clq_patience;

/* ---- what was measured ---- */

/* A step with its input and update, on one device that trains alone. */
typedef struct clq_step_probe {
    size_t batch;
    double step_s;
} clq_step_probe;

/* What was measured on one device. Devices that are alike share the steps of the first of them. */
enum { CLQ_STEP_PROBES_MAX = 16 };
typedef struct clq_device_probe {
    clq_step_probe steps[CLQ_STEP_PROBES_MAX]; /* in ascending order of batch; at least one */
    unsigned step_count;
    size_t too_large;    /* the smallest batch whose step did not fit the device's memory; 0: none was found */
    double launch_s;     /* for the launch of an empty kernel, among many launches */
    size_t launches;     /* in a step */
    double update_s;     /* the part of each step that updates all weights */
    double row_s;        /* to copy one sample to where the device reads it; 0: samples are copied beside the step */
    clq_doubt doubt;     /* of the measured steps */
    double memory_share; /* 0 to 1: the part of a step that memory traffic takes, by the step's work and the two rates
                            below */
    double gflops, gbps; /* rates of made-up work that runs alone, in 1e9 per second: operations that multiply and add;
                            bytes read and written, in as much memory as a step touches */
} clq_device_probe;

/* A pipeline over the first `stages` devices. Each array has one element for each stage. */
typedef struct clq_pipe_probe {
    unsigned stages, micro_batches; /* stages 0: the group cannot run the pipeline, or has no memory for it */
    /* Each stage's part, 0 to 1, of the work of all stages (forward and backward together), and of all parameters. */
    double forward[CLQ_REPLICAS_MAX], backward[CLQ_REPLICAS_MAX], parameters[CLQ_REPLICAS_MAX];
    double sent_bytes[CLQ_REPLICAS_MAX], back_bytes[CLQ_REPLICAS_MAX]; /* of a full micro-batch: to the next stage, and
                                                                          back from there */
    double hop_s;     /* until a waiting thread goes on, after the other thread is done */
    double copy_gbps; /* between device and host memory, in one direction */
} clq_pipe_probe;

/* Strategy tensor: weights split over the group's devices. */
typedef struct clq_slice_probe {
    unsigned exchanges;      /* all-reduces in a step; 0: the group cannot split the model, or has no memory for it */
    double work, parameters; /* one device's part of the work of an unsplit step, and of the parameters */
    size_t launches, bytes;  /* launches: in a step; bytes: what its all-reduces sum */
    double exchange_s; /* what the all-reduces add to made-up work as long as the rest of the step, spread evenly over
                          the work; includes waiting for the slower device before each */
} clq_slice_probe;

/* What was measured on the first `count` devices while all of them work. */
typedef struct clq_group_probe {
    unsigned count;
    bool shards_update, overlaps; /* fast paths that a mirrored step takes (`clique plan`) */
    unsigned buckets;             /* of the gradient; used if `overlaps` */
    unsigned exchanges;           /* sums within a step (synchronized batch normalisation, masked losses) */
    bool too_large;               /* a mirrored step does not fit the devices' memory: its fast paths are not known */
    clq_doubt doubt;              /* of the measurements below */
    double gflops[CLQ_REPLICAS_MAX], gbps[CLQ_REPLICAS_MAX]; /* of each device, beside the others */
    /* The cost of waiting for the slowest device of each step: the mean over steps of the slowest device's time, less
     * the slowest device's mean time. Each time another device may be the slowest, and devices that meet in each step
     * wait for it. */
    double waiting_s;
    /* What an all-reduce of the gradient adds to made-up work as long as a step, which all devices do at the same time.
     * Excludes waiting_s. Also holds for replicas that share an update: they move as many bytes between them. */
    double exchange_s;
    /* The same for other exchanges. scatter_s: a reduce-scatter of the gradient and an all-gather of the parameters;
     * not measured if shards_update. store_s: an update in host memory by the gradients of all devices, which all
     * devices wait for. own_store_s: an update there by each device's own gradient, after a step of the whole batch; no
     * device waits for another. */
    double scatter_s, store_s, own_store_s;
    clq_pipe_probe pipe;
    clq_slice_probe slices;
    double alpha_s, beta_s; /* an all-reduce of b bytes takes alpha + beta b if the devices do nothing else */
} clq_group_probe;

enum { CLQ_GROUP_PROBES_MAX = 16 };
typedef struct clq_probes {
    size_t batch;         /* the global batch */
    size_t accumulate;    /* batches per update, as configured; probed steps update after each batch */
    size_t samples;       /* in the data set */
    unsigned staleness;   /* of strategy ps; at least 1 */
    const char *strategy; /* the row of the configured strategy (clq_why_row); NULL: it has none */
    bool own_statistics;  /* each replica keeps statistics of its own samples (batch normalisation that is not
                             synchronized) */
    clq_error lack; /* the first DEVICE_MEMORY failure of a step or group that was asked for; OK: all of them fit */
    size_t gradient_bytes;
    double rows_per_s;                     /* samples per second that the input pipeline alone delivers to steps */
    double post_s;                         /* CPU time of the caller's thread for a step on one device */
    unsigned cores;                        /* that the process may use */
    unsigned busy_cores[CLQ_REPLICAS_MAX]; /* [r]: cores that the CPU devices among the first r + 1 keep busy */
    unsigned device_count;
    clq_device_probe devices[CLQ_REPLICAS_MAX];
    clq_group_probe groups[CLQ_GROUP_PROBES_MAX]; /* in ascending order of count, from 2 */
    unsigned group_count;
} clq_probes;

/* What is to be trained. All pointers are borrowed. */
typedef struct clq_why_task {
    const clq_model *model;
    const clq_devices *devices;
    const clq_trainer_config *config;
    clq_dataset *data;      /* shuffled as in training; the probes set its batch */
    bool all_only;          /* probe several devices only all together, no fewer of them */
    size_t further;         /* another global batch to probe; 0: none */
    clq_patience *patience; /* NULL: nothing is repeated */
} clq_why_task;
/* Takes some seconds. A step that does not fit the devices' memory is left out of the probes, and no row is predicted
 * from it. Errors: as of clq_trainer_create and clq_fit on the devices together; DEVICE_MEMORY if a device can run none
 * of the batches that rows need. */
clq_status clq_why_probe(const clq_why_task *task, clq_probes *out);
/* The rate of training on the first device alone, with as many batches per update as configured. Takes some tenths of a
 * second. */
clq_status clq_why_time(const clq_why_task *task, double *images_per_s, clq_doubt *doubt);

/* ---- what follows from it (predict.c) ---- */

typedef enum clq_limit {
    CLQ_LIMIT_COMPUTE,
    CLQ_LIMIT_INPUT,
    CLQ_LIMIT_HOST,
    CLQ_LIMIT_LAUNCHES,
    CLQ_LIMIT_SMALL_BATCH,
    CLQ_LIMIT_SHARED_MEMORY,
    CLQ_LIMIT_SHARED_CORES,
    CLQ_LIMIT_SLOW_DEVICE,
    CLQ_LIMIT_SLOW_MACHINE, /* only in runs of several processes */
    CLQ_LIMIT_COMMUNICATION,
    CLQ_LIMIT_BUBBLE,
    CLQ_LIMIT_COUNT
} clq_limit;
const char *clq_limit_name(clq_limit limit); /* "too small a batch" */

/* Where the time of a step goes. Each part is a mean over replicas; all parts add up to the step. */
typedef struct clq_step_parts {
    double input;         /* copying samples, and waiting for the input pipeline */
    double host;          /* the caller's thread, if it takes a core from the devices or is slower than they are */
    double launches;      /* launching kernels */
    double fixed;         /* other time that does not depend on the batch: the update, small products */
    double compute;       /* grows with the batch */
    double sharing;       /* what devices cost one another by sharing cores and memory */
    double waiting;       /* for the slowest device, or for other stages */
    double communication; /* exchanges, as far as compute does not hide them */
} clq_step_parts;

/* A way to train: on the first `replicas` devices, which were probed together, or on device `first` alone. */
typedef struct clq_way {
    const char *strategy; /* what follows --strategy: "mirrored", "mirrored --shard-optimizer" */
    unsigned first, replicas;
    size_t batch, accumulate; /* batch: global; accumulate: batches per update; a step makes one update */
} clq_way;
typedef struct clq_prediction {
    clq_way way;
    double step_s, images_per_s;
    clq_step_parts parts;
    clq_limit limit;
    clq_doubt doubt; /* the worst of the measurements that it was made from */
} clq_prediction;

enum { CLQ_PREDICTIONS_MAX = 160 };
/* Predicts every strategy on 1 device and on each probed number of devices, unless the strategy does not take so many.
 * Returns how many predictions there are. */
size_t clq_why_predict(const clq_probes *probes, clq_prediction *out, size_t capacity);
/* Predicts one way. False: the strategy does not take so many devices, its step does not fit their memory, or nothing
 * was probed for it. */
bool clq_why_predict_one(const clq_probes *probes, const clq_way *way, clq_prediction *out);
/* Whether the way makes asynchronous updates, which differ from those of one device. */
bool clq_way_is_asynchronous(const clq_way *way);
/* The name of the row that predicts a training with this strategy and these settings. NULL: no row does. */
const char *clq_why_row(clq_strategy_kind kind, const clq_strategy_options *options, unsigned replicas);
/* The next number of devices, or of processes, that has rows after `count`. Each number up to 8 has rows, then doubled
 * numbers, and last `most` (at least 1). After `most` the result is larger than `most`. */
unsigned clq_why_next_count(unsigned count, unsigned most);
/* The fastest of the predictions that are not asynchronous; there is at least one. */
const clq_prediction *clq_why_best(const clq_prediction *predictions, size_t count);

/* ---- the gradient, between machines (gradient.c) ---- */

/* The part of compute that backward takes, if it was not measured (decisions/055). */
static const double clq_backward_part = 2.0 / 3;
enum { CLQ_PIECES_MAX = 1024 };
/* The pieces of the gradient, in the order in which backward finishes them: from the last layer to the first. Each
 * layer takes a part of backward's time in proportion to its work. out: room for CLQ_PIECES_MAX. *bytes: of all pieces.
 * Errors: MISMATCH (the model has nothing to train). */
clq_status clq_why_pieces(const clq_model *model, clq_scale_piece *out, size_t *count, size_t *bytes);
/* The size of gradient buckets between processes. CLQ_SCALE_WHOLE: there are no buckets. wanted: of --bucket-bytes; 0:
 * training's default. near: all processes are on one host. */
size_t clq_why_bucket_bytes(size_t gradient_bytes, size_t wanted, bool near);

/* A change to the options, and its gain. */
enum { CLQ_ADVICE_TEXT = 256, CLQ_ADVICE_MAX = 6 };
typedef struct clq_advice {
    char text[CLQ_ADVICE_TEXT], options[CLQ_ADVICE_TEXT]; /* "use device 0 only", "--devices 0" */
    const char *effect;                                   /* how it changes the training's results */
    double gain, images_per_s; /* gain: the new rate over the rate of all devices with the present options; INFINITY:
                                  with the present options, the training does not fit the memory */
} clq_advice;
/* Writes the SPEC of `count` devices from `first` on: "0,1", "0/2", "0/2:1". False: `bytes` are too few for it. */
bool clq_why_spec(const clq_devices *devices, unsigned first, unsigned count, char *text, size_t bytes);
/* Advice in descending order of gain; only changes that gain at least 5 %. Gains are relative to the configured
 * strategy or, if that has no row, to mirrored. If the configured strategy does not fit the memory, gains are relative
 * to mirrored or, if that does not fit either, to the best way that does. Then this way is the first advice, and the
 * other advice builds on it. */
size_t clq_why_advise(const clq_probes *probes, const clq_devices *devices, clq_advice *out, size_t capacity);

/* ---- a run's own verdict (judge.c) ---- */

/* The seconds that training has spent so far. */
typedef struct clq_toll {
    double trained_s, input_s;         /* in epochs; the part of it that waited for data */
    double exchange_s;                 /* in exchanges, as far as backward did not hide them */
    double waited_s[CLQ_REPLICAS_MAX]; /* that each replica waited for slower ones */
} clq_toll;
clq_toll clq_toll_now(const clq_trainer *trainer, double trained_s, double input_s);
/* What a process spent between two tolls, as shares of the time in epochs. */
typedef struct clq_spent {
    double input, exchange, waiting; /* waiting: of its other replicas, on average, for the slowest one */
    unsigned slowest;                /* the replica that waited least */
} clq_spent;
clq_spent clq_why_spent(unsigned replicas, const clq_toll *begun, const clq_toll *ended);
/* What limited the training of these processes: the first of INPUT, SLOW_MACHINE, SLOW_DEVICE and COMMUNICATION that
 * took a large share of the time; otherwise COMPUTE. */
typedef struct clq_verdict {
    clq_limit limit;
    double share;     /* of the time, that the limit took; COMPUTE: that waiting for input took */
    unsigned rank;    /* INPUT: the process that waited most; SLOW_MACHINE: the process that the others waited for;
                         SLOW_DEVICE: the process with the slow device */
    unsigned replica; /* SLOW_DEVICE: the replica of that process that waited least */
} clq_verdict;
clq_verdict clq_why_judge(unsigned processes, const clq_spent *all);

/* ---- recorded runs (trace.c) ---- */

/* What a replica did in a step. All parts add up to the time from the beginning of the step to the beginning of what
 * followed it. */
enum { CLQ_DOING_BUSY, CLQ_DOING_WAITING, CLQ_DOING_EXCHANGE, CLQ_DOING_HOST, CLQ_DOING_INPUT, CLQ_DOINGS };
const char *clq_doing_name(unsigned doing); /* "busy" */
typedef struct clq_traced_step {
    uint64_t step;              /* from 1 */
    double seconds[CLQ_DOINGS]; /* BUSY: its queues worked; WAITING: it waited for another replica in an exchange;
                                   EXCHANGE: it exchanged; HOST: its thread worked, or was idle; INPUT: it was idle
                                   while the trainer waited for batches */
    int waited_for;             /* the replica that it waited for longest; -1: none */
} clq_traced_step;
typedef struct clq_traced_replica {
    unsigned replica;
    char name[CLQ_NAME_MAX];
    clq_traced_step *steps;
    size_t step_count;
    double waited_for_s[CLQ_REPLICAS_MAX]; /* [r]: how long it waited for replica r, in all steps */
} clq_traced_replica;
typedef struct clq_traced_run {
    clq_traced_replica *replicas; /* in ascending order of their number */
    size_t count;
} clq_traced_run;
/* Explains a file that clq_trainer_write_trace wrote. The file is not trusted: it may hold anything. Also release a run
 * that is {0}. Errors: NOT_FOUND, READ, FORMAT (not a trace, or a trace without a training), MEMORY. */
clq_status clq_trace_explain(const char *path, clq_traced_run *out);
void clq_traced_run_release(clq_traced_run *run);

/* ---- what is kept (keep.c) ---- */

/* Predictions are kept beside the built kernels of the first device, as selections are. A later training finds its
 * prediction if it has the same model, the same devices, and the same of all settings that the table of settings has in
 * this key (CLQ_KEY_PREDICTION). */
enum { CLQ_ROW_NAME_MAX = 32 };
typedef struct clq_kept_prediction {
    double images_per_s, best_images_per_s; /* of this training; of the best prediction (clq_why_best) */
    unsigned best_replicas;                 /* how many replicas the best prediction has */
    clq_limit limit;
    char best_strategy[CLQ_ROW_NAME_MAX]; /* the strategy of the best prediction */
} clq_kept_prediction;
/* Keeps nothing if the device has no place for it. Errors: WRITE, MEMORY, and those of opening the devices. */
clq_status clq_why_keep(const clq_why_task *task, const clq_prediction *predictions, size_t count);
/* config: the one that the trainer was made from. */
clq_status clq_why_recall(const clq_trainer *trainer, const clq_model *model, const clq_trainer_config *config,
                          bool *known, clq_kept_prediction *out);

/* ---- which devices and strategy to choose (choose.c, choosing.c) ---- */

enum { CLQ_SPEC_TEXT = 256, CLQ_ALTERNATIVES_MAX = 80 };
typedef enum clq_alternative_state {
    CLQ_ALTERNATIVE_MEASURED,  /* a device alone, timed by training on it */
    CLQ_ALTERNATIVE_PREDICTED, /* devices together, predicted from probes */
    CLQ_ALTERNATIVE_SLOWER,    /* devices together: not even the bound on their rate is above the best */
    CLQ_ALTERNATIVE_NO_TIME,   /* the time budget was used up */
    CLQ_ALTERNATIVE_FAILED,    /* it cannot train this model */
    CLQ_ALTERNATIVE_STATES
} clq_alternative_state;
const char *clq_alternative_state_name(clq_alternative_state state); /* "no time" */

/* An alternative, and the best way to train on it: the strategy, and how many of its devices. Some alternatives can
 * only use all of their devices. */
typedef struct clq_alternative {
    clq_alternative_state state;
    char devices[CLQ_SPEC_TEXT];
    unsigned replicas;
    const char *strategy; /* "mirrored" */
    double images_per_s;  /* 0: not known */
    clq_doubt doubt;      /* of images_per_s */
} clq_alternative;

/* What is open to choose. */
typedef struct clq_choosing {
    const char *strategy; /* as configured; "auto": any strategy whose results are those of one replica */
    bool plain;           /* the training has no settings that only mirrored takes */
    double budget_s; /* after this time nothing new is measured but the rule's first device and `before`; 0: no limit */
    const struct clq_kept_choice *before; /* the choice that is made anew; NULL: none */
    bool fell_short; /* trainings by `before` were too slow: the rate that they reached replaces the predicted rate of
                        that alternative if the predicted one is higher */
} clq_choosing;
/* Picks the fastest of the predictions for one alternative that may be chosen and have at least `least` replicas.
 * Mirrored is picked if it is nearly as fast. NULL: none may be chosen. */
const clq_prediction *clq_why_pick(const clq_choosing *choosing, const clq_prediction *predictions, size_t count,
                                   unsigned least);
typedef struct clq_choice_made {
    clq_alternative alternatives[CLQ_ALTERNATIVES_MAX];
    size_t count, best;  /* best: the index of the chosen alternative */
    clq_devices devices; /* of the chosen alternative */
} clq_choice_made;
/* Compares the alternatives; takes some seconds for each. task: has the rule's devices, and the config of the training.
 * Errors: MEMORY; if nothing can train this, those of the rule's devices. */
clq_status clq_why_choose(const clq_why_task *task, const clq_choosing *choosing, clq_choice_made *out);

/* ---- choices that are kept (chosen.c) ---- */

/* Kept under a key of clq_machine_key, beside the list of devices. */
typedef struct clq_kept_choice {
    char devices[CLQ_SPEC_TEXT], strategy[16];
    double images_per_s; /* predicted */
    clq_doubt doubt;
    uint64_t fell_short;         /* trainings in a row that did not reach the prediction */
    double reached_images_per_s; /* the fastest rate of these trainings; 0: there were none */
    uint64_t renewals;     /* how often in a row trainings made the choice anew, or tried to, because it was doubtful */
    uint64_t made;         /* a mark that tells it from other choices under the same key */
    clq_hash128 described; /* a hash of what describes the devices */
    clq_hash128 settings;  /* the caller's hash of the settings that the prediction is for */
} clq_kept_choice;
/* Sets the devices, `described` and `made` of the choice, and writes it. */
clq_status clq_why_keep_choice(clq_hash128 key, const clq_devices *devices, clq_kept_choice *choice);
clq_status clq_why_recall_choice(clq_hash128 key, bool *known, clq_kept_choice *out);
/* Whether these are the devices that were chosen. Errors: MEMORY. */
clq_status clq_why_choice_holds(const clq_kept_choice *kept, const clq_devices *devices, bool *holds);

/* Whether a training should make the choice anew, and why. others_now: the part of the cores that other programs use
 * now; NaN: not known. */
typedef enum clq_renewal {
    CLQ_RENEWAL_NONE,
    CLQ_RENEWAL_DOUBTFUL,  /* it was measured while other programs used the cores, and now they do not; a few times in a
                              row at most */
    CLQ_RENEWAL_FELL_SHORT /* three trainings in a row did not reach what was predicted */
} clq_renewal;
clq_renewal clq_why_renewal(const clq_kept_choice *kept, double others_now);
/* Notes the rate that a training by the choice reached, while other programs used this part of the cores. A training on
 * busier cores than those that the choice was measured on says nothing. False: nothing changed. */
bool clq_why_judge_choice(clq_kept_choice *kept, double images_per_s, double others);
/* The same for the choice that is kept, unless it was made anew meanwhile. Trainings that end at the same moment may
 * count as one. Errors: WRITE, MEMORY. */
clq_status clq_why_note_training(clq_hash128 key, const clq_kept_choice *used, double images_per_s, double others);
/* Notes that a choice was to be made anew, but comparing the devices failed. The attempt counts as one more renewal, so
 * that not every training tries again. Errors: WRITE, MEMORY. */
clq_status clq_why_note_failed_renewal(clq_hash128 key, const clq_kept_choice *used);

/* ---- several machines ---- */

#include "why/machines.h"

#endif
