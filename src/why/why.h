/* why: what limits training on 1 to n devices. Probes (probe.c, groups.c, rig.c) measure for a few seconds what a step
 * is made of; predict.c is arithmetic from them to steps of each strategy, and advise.c to the change that would help
 * most. No probe of one machine runs training steps on more than one replica: what several devices cost one another is
 * measured with made-up work, in the lengths of the real steps, and with collectives. trace.c reads where the queues of
 * a recorded run waited. machines.h does the same for several machines.
 *
 * All times are seconds. One thread at a time. */
#ifndef CLQ_WHY_H
#define CLQ_WHY_H

#include "scale/scale.h"
#include "train/train.h"

/* ---- how far a measurement can be trusted (looks.h) ---- */

typedef struct clq_doubt {
    double others; /* part of the cores, 0 to 1, that other programs used meanwhile; NaN: not known */
    double spread; /* of the looks: how far apart their middle half lies, over what was taken */
} clq_doubt;
/* Others used so much that it is to be measured again when they do not. */
bool clq_doubt_is_grave(const clq_doubt *doubt);
clq_doubt clq_doubt_worse(const clq_doubt *a, const clq_doubt *b);
/* How long measurements may be repeated, all together, because other programs were busy. */
typedef struct clq_patience {
    double left_s;
} clq_patience;

/* ---- what was measured ---- */

/* A step with its input and update, on one device that trains alone. */
typedef struct clq_step_probe {
    size_t batch;
    double step_s;
} clq_step_probe;

/* Of a device; of devices that are alike the steps of the first are every one's. */
enum { CLQ_STEP_PROBES_MAX = 16 };
typedef struct clq_device_probe {
    clq_step_probe steps[CLQ_STEP_PROBES_MAX]; /* by batch, ascending; at least one */
    unsigned step_count;
    size_t too_large;    /* the smallest batch whose step was found not to fit the device's memory; 0: none was */
    double launch_s;     /* of an empty kernel, among many */
    size_t launches;     /* of a step */
    double update_s;     /* of these steps, the update of all weights */
    double row_s;        /* copying one sample to where the device reads it; 0 where that is done beside the step */
    clq_doubt doubt;     /* of the steps */
    double memory_share; /* 0 to 1: how much of a step memory takes, by its traffic and the two rates below */
    double gflops, gbps; /* of made-up work alone: multiplying and adding; reading and writing as much memory as a step
                            touches */
} clq_device_probe;

/* A pipeline over the first `stages` devices; arrays are by stage. */
typedef struct clq_pipe_probe {
    unsigned stages, micro_batches; /* stages 0: the model does not go into so many */
    /* The stage's part of all stages' work, and of the parameters. */
    double forward[CLQ_REPLICAS_MAX], backward[CLQ_REPLICAS_MAX], parameters[CLQ_REPLICAS_MAX];
    double sent_bytes[CLQ_REPLICAS_MAX], back_bytes[CLQ_REPLICAS_MAX]; /* to the next stage, and from there: of a
                                                                          full micro-batch */
    double hop_s;     /* until a thread that waited for another goes on */
    double copy_gbps; /* between the memories of device and host, one way */
} clq_pipe_probe;

/* Weights split over the first devices. */
typedef struct clq_slice_probe {
    unsigned exchanges;      /* all-reduces in a step; 0: the model has nothing to split over so many */
    double work, parameters; /* a device's part of a step on one, and of the parameters */
    size_t launches, bytes;  /* of a step; that its all-reduces add up */
    double exchange_s;       /* what these add to made-up work, evenly between them, of the length of the rest; with
                                waiting for the slower device in front of each */
} clq_slice_probe;

/* Of the first `count` devices, all at work at the same time. */
typedef struct clq_group_probe {
    unsigned count;
    bool shards_update, overlaps; /* fast paths that a mirrored step takes (`clique plan`) */
    unsigned buckets;             /* where it overlaps */
    unsigned exchanges;           /* within a step, of statistics (synchronized batch normalisation) */
    bool too_large;               /* a mirrored step does not fit the devices' memory: nothing is known of its paths */
    clq_doubt doubt;              /* of what is below */
    double gflops[CLQ_REPLICAS_MAX], gbps[CLQ_REPLICAS_MAX]; /* of each device: as alone */
    /* The mean over steps of the slowest device's time, less the slowest device's mean: now this one is slower, now
     * that one, and who meets in each step waits for the one that is. */
    double waiting_s;
    /* What an all-reduce of the gradient adds to made-up work of a step's length, which all do at the same time.
     * Replicas that share an update move as many bytes between them. Without that waiting. */
    double exchange_s;
    /* Likewise: the sum's parts, and the parameters' back; an update in the host's memory by all gradients, which all
     * wait for; one by each device's own gradient, behind a step of the whole batch, where nobody waits. */
    double scatter_s, store_s, own_store_s;
    clq_pipe_probe pipe;
    clq_slice_probe slices;
    double alpha_s, beta_s; /* an all-reduce of b bytes takes alpha + beta b where nothing else is done */
} clq_group_probe;

enum { CLQ_GROUP_PROBES_MAX = 16 };
typedef struct clq_probes {
    size_t batch;         /* global */
    size_t accumulate;    /* batches that make an update, as was asked for; what is probed makes one each */
    size_t samples;       /* of the data set */
    unsigned staleness;   /* of strategy ps: 1 or more */
    const char *strategy; /* that was asked for: a row's name; NULL: one that has no row */
    bool own_statistics;  /* replicas have statistics of their own of what they compute */
    clq_error lack;       /* the first that was found not to fit the memory: DEVICE_MEMORY; OK: all fits */
    size_t gradient_bytes;
    double rows_per_s;                     /* the input pipeline alone: samples, as steps take them */
    double post_s;                         /* time of the caller's thread for a step on one device */
    unsigned cores;                        /* that the process may use */
    unsigned busy_cores[CLQ_REPLICAS_MAX]; /* that the first r + 1 devices keep busy: of CPU devices */
    unsigned device_count;
    clq_device_probe devices[CLQ_REPLICAS_MAX];
    clq_group_probe groups[CLQ_GROUP_PROBES_MAX]; /* by count, from 2 on */
    unsigned group_count;
} clq_probes;

/* What is to be trained. Borrowed. */
typedef struct clq_why_task {
    const clq_model *model;
    const clq_devices *devices;
    const clq_trainer_config *config;
    clq_dataset *data;      /* shuffled as in training; the probes set its batch */
    bool all_only;          /* several devices only all together: no fewer of them are probed */
    size_t further;         /* another batch that is probed; 0: none */
    clq_patience *patience; /* NULL: nothing is repeated */
} clq_why_task;
/* Takes some seconds. What does not fit the devices' memory is left out of the probes, and no row is predicted from it.
 * Errors: as of clq_trainer_create and clq_fit on the devices together; DEVICE_MEMORY if a device takes no batch that a
 * row needs. */
clq_status clq_why_probe(const clq_why_task *task, clq_probes *out);
/* The rate of training on the first device alone, the batches of an update as configured. Some tenths of a second. */
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
    CLQ_LIMIT_SLOW_MACHINE, /* of a run of several processes alone */
    CLQ_LIMIT_COMMUNICATION,
    CLQ_LIMIT_BUBBLE,
    CLQ_LIMIT_COUNT
} clq_limit;
const char *clq_limit_name(clq_limit limit); /* "too small a batch" */

/* Where a step's time goes: the mean over its replicas. All of it together is the step. */
typedef struct clq_step_parts {
    double input;         /* copying samples, and waiting for the pipeline */
    double host;          /* the caller's thread, where it takes a core from the devices, or is behind them */
    double launches;      /* what launching costs */
    double fixed;         /* else the same for any batch: the update, small products */
    double compute;       /* grows with the batch */
    double sharing;       /* what devices cost one another: cores and memory */
    double waiting;       /* for the slowest device, or for other stages */
    double communication; /* not hidden behind compute */
} clq_step_parts;

/* A way to train: the first `replicas` devices, which were probed together, or device `first` alone. */
typedef struct clq_way {
    const char *strategy; /* what follows --strategy: "mirrored", "mirrored --shard-optimizer" */
    unsigned first, replicas;
    size_t batch, accumulate; /* global; batches that make an update, which is a step */
} clq_way;
typedef struct clq_prediction {
    clq_way way;
    double step_s, images_per_s;
    clq_step_parts parts;
    clq_limit limit;
    clq_doubt doubt; /* the worst of what it was made of */
} clq_prediction;

enum { CLQ_PREDICTIONS_MAX = 160 };
/* For 1 and each probed number of devices, and each strategy that takes so many. Returns how many. */
size_t clq_why_predict(const clq_probes *probes, clq_prediction *out, size_t capacity);
/* The same for one. False: the strategy does not take so many devices, its step does not fit their memory, or nothing
 * was probed for it. */
bool clq_why_predict_one(const clq_probes *probes, const clq_way *way, clq_prediction *out);
/* Whether it makes other updates than one device does: asynchronous ones. */
bool clq_way_is_asynchronous(const clq_way *way);
/* The row of a training, by its strategy and its settings. NULL: there is none, for nothing predicts what it does. */
const char *clq_why_row(clq_strategy_kind kind, const clq_strategy_options *options, unsigned replicas);
/* Which numbers of devices, or of processes, have rows: each up to 8, then doubled, and all (`most`, at least 1). The
 * one behind `count`; beyond `most` behind that. */
unsigned clq_why_next_count(unsigned count, unsigned most);
/* The one with the highest rate, of those that are not asynchronous, of which there is one. */
const clq_prediction *clq_why_best(const clq_prediction *predictions, size_t count);

/* ---- the gradient, between machines (gradient.c) ---- */

/* Backward is this part of computing, where it is not known (decisions/055). */
static const double clq_backward_part = 2.0 / 3;
enum { CLQ_PIECES_MAX = 1024 };
/* What backward finishes one after the other, from the last layer to the first: its time goes by the layers' work.
 * out: room for CLQ_PIECES_MAX; *bytes: of all. Errors: MISMATCH (nothing is trained). */
clq_status clq_why_pieces(const clq_model *model, clq_scale_piece *out, size_t *count, size_t *bytes);
/* Of the buckets between processes; CLQ_SCALE_WHOLE: none. wanted: of --bucket-bytes; 0: as training has them without
 * it. near: all processes are on one host. */
size_t clq_why_bucket_bytes(size_t gradient_bytes, size_t wanted, bool near);

/* A change to the options and what it would give. */
enum { CLQ_ADVICE_TEXT = 256, CLQ_ADVICE_MAX = 6 };
typedef struct clq_advice {
    char text[CLQ_ADVICE_TEXT], options[CLQ_ADVICE_TEXT]; /* "use device 0 only", "--devices 0" */
    const char *effect;                                   /* what it does to the training's results */
    double gain, images_per_s; /* the gain: over the rate of all devices with the options as they are; INFINITY: with
                                  those the training does not fit the memory */
} clq_advice;
/* The SPEC of some of the devices: "0,1", "0/2", "0/2:1". False: there is no room. */
bool clq_why_spec(const clq_devices *devices, unsigned first, unsigned count, char *text, size_t bytes);
/* What helps most first; only what gains 5 % at least. The gains are over the strategy that was asked for; if that has
 * no row, over mirrored, or over the best that fits the memory: that is told first then, and all options are for it. */
size_t clq_why_advise(const clq_probes *probes, const clq_devices *devices, clq_advice *out, size_t capacity);

/* ---- a run's own verdict (judge.c) ---- */

/* What training has spent so far. */
typedef struct clq_toll {
    double trained_s, input_s;         /* in epochs; of these, waiting for data */
    double exchange_s;                 /* in exchanges that nothing hid */
    double waited_s[CLQ_REPLICAS_MAX]; /* by each replica for slower ones */
} clq_toll;
clq_toll clq_toll_now(const clq_trainer *trainer, double trained_s, double input_s);
/* What a process spent between the two: shares of the time. */
typedef struct clq_spent {
    double input, exchange, waiting; /* waiting: by its other replicas for the slowest one */
    unsigned slowest;                /* the replica that waited least */
} clq_spent;
clq_spent clq_why_spent(unsigned replicas, const clq_toll *begun, const clq_toll *ended);
/* What limited the training of these processes: INPUT, SLOW_MACHINE, SLOW_DEVICE, COMMUNICATION, else COMPUTE. */
typedef struct clq_verdict {
    clq_limit limit;
    double share;     /* of the time, that went into it; of COMPUTE that of the input */
    unsigned rank;    /* INPUT: the process that waited most; SLOW_MACHINE: for which others did; SLOW_DEVICE: its own */
    unsigned replica; /* SLOW_DEVICE: the one of that process that waited least */
} clq_verdict;
clq_verdict clq_why_judge(unsigned processes, const clq_spent *all);

/* ---- recorded runs (trace.c) ---- */

/* What a replica did in a step. All together is the time from the step's begin to that of what followed it. */
enum { CLQ_DOING_BUSY, CLQ_DOING_WAITING, CLQ_DOING_EXCHANGE, CLQ_DOING_HOST, CLQ_DOING_INPUT, CLQ_DOINGS };
const char *clq_doing_name(unsigned doing); /* "busy" */
typedef struct clq_traced_step {
    uint64_t step;              /* from 1 */
    double seconds[CLQ_DOINGS]; /* its queues worked; it waited for another replica in an exchange; it exchanged; its
                                   thread worked, or had nothing to do; it had nothing to do while batches were waited
                                   for */
    int waited_for;             /* the replica that it waited for longest; -1: none */
} clq_traced_step;
typedef struct clq_traced_replica {
    unsigned replica;
    char name[CLQ_NAME_MAX];
    clq_traced_step *steps;
    size_t step_count;
    double waited_for_s[CLQ_REPLICAS_MAX]; /* in all steps, by who was waited for */
} clq_traced_replica;
typedef struct clq_traced_run {
    clq_traced_replica *replicas; /* by their number */
    size_t count;
} clq_traced_run;
/* Reads what clq_trainer_write_trace wrote; the file may be anything. Release also {0}. Errors: NOT_FOUND, READ, FORMAT
 * (no trace, or none of a training), MEMORY. */
clq_status clq_trace_explain(const char *path, clq_traced_run *out);
void clq_traced_run_release(clq_traced_run *run);

/* ---- what is kept (keep.c) ---- */

/* Beside the built kernels of the first device, as selections are: for a later training of the same model on the same
 * devices, with the same settings as far as the table of settings has them in this key. */
enum { CLQ_ROW_NAME_MAX = 32 };
typedef struct clq_kept_prediction {
    double images_per_s, best_images_per_s; /* of this training; the best one's (clq_why_best), */
    unsigned best_replicas;                 /* which so many reach */
    clq_limit limit;
    char best_strategy[CLQ_ROW_NAME_MAX]; /* by it */
} clq_kept_prediction;
/* Nothing is kept where the device has no place for it. Errors: WRITE, MEMORY,
 * and those of opening the devices. */
clq_status clq_why_keep(const clq_why_task *task, const clq_prediction *predictions, size_t count);
/* config: that the trainer was made of. */
clq_status clq_why_recall(const clq_trainer *trainer, const clq_model *model, const clq_trainer_config *config,
                          bool *known, clq_kept_prediction *out);

/* ---- which devices and strategy to choose (choose.c, choosing.c) ---- */

enum { CLQ_SPEC_TEXT = 256, CLQ_ALTERNATIVES_MAX = 80 };
typedef enum clq_alternative_state {
    CLQ_ALTERNATIVE_MEASURED,  /* alone: by training */
    CLQ_ALTERNATIVE_PREDICTED, /* together: from probes */
    CLQ_ALTERNATIVE_SLOWER,    /* together: not even the bound is above the best */
    CLQ_ALTERNATIVE_NO_TIME,   /* the budget was at its end */
    CLQ_ALTERNATIVE_FAILED,    /* it cannot train this */
    CLQ_ALTERNATIVE_STATES
} clq_alternative_state;
const char *clq_alternative_state_name(clq_alternative_state state); /* "no time" */

/* An alternative, and the best that it can do: some of its devices, if not only all of them, with a strategy. */
typedef struct clq_alternative {
    clq_alternative_state state;
    char devices[CLQ_SPEC_TEXT];
    unsigned replicas;
    const char *strategy; /* "mirrored" */
    double images_per_s;  /* 0 where it is not known */
    clq_doubt doubt;      /* likewise */
} clq_alternative;

/* What is left open. */
typedef struct clq_choosing {
    const char *strategy; /* that is asked for; "auto": any whose results are those of one replica */
    bool plain;           /* no settings that only mirrored takes */
    double budget_s;      /* nothing is begun after that, but for the rule's first device and `before`; 0: no end */
    const struct clq_kept_choice *before; /* the choice that is made anew; NULL: there is none */
    bool fell_short; /* of it: what trainings reached counts in place of what is predicted, where that is more */
} clq_choosing;
/* Of the predictions for one alternative the fastest that may be chosen, of at least `least` replicas; NULL: there is
 * none. */
const clq_prediction *clq_why_pick(const clq_choosing *choosing, const clq_prediction *predictions, size_t count,
                                   unsigned least);
typedef struct clq_choice_made {
    clq_alternative alternatives[CLQ_ALTERNATIVES_MAX];
    size_t count, best;  /* the index of the chosen */
    clq_devices devices; /* the chosen's */
} clq_choice_made;
/* task: its devices are the rule's, and its config is what is to be trained. Some seconds for each alternative. Errors:
 * of the rule's devices, where nothing can train this; MEMORY. */
clq_status clq_why_choose(const clq_why_task *task, const clq_choosing *choosing, clq_choice_made *out);

/* ---- choices that are kept (chosen.c) ---- */

/* By a key of clq_machine_key, beside the list of devices. */
typedef struct clq_kept_choice {
    char devices[CLQ_SPEC_TEXT], strategy[16];
    double images_per_s; /* predicted */
    clq_doubt doubt;
    uint64_t fell_short;         /* trainings in a row that did not reach it */
    double reached_images_per_s; /* the most that these reached; 0: there were none */
    uint64_t renewals;           /* how often trainings made it anew, in a row, or tried to, for it was doubtful */
    uint64_t made;               /* tells it from others of the same key */
    clq_hash128 described;       /* which devices they were */
    clq_hash128 settings;        /* a hash of those that the prediction is of, made by the caller */
} clq_kept_choice;
/* Sets what says which devices they are and when it was made, and writes it. */
clq_status clq_why_keep_choice(clq_hash128 key, const clq_devices *devices, clq_kept_choice *choice);
clq_status clq_why_recall_choice(clq_hash128 key, bool *known, clq_kept_choice *out);
/* Whether these are the devices that were chosen. Errors: MEMORY. */
clq_status clq_why_choice_holds(const clq_kept_choice *kept, const clq_devices *devices, bool *holds);

/* Whether a training is to make it anew. others_now: part of the cores; NaN: not known. */
typedef enum clq_renewal {
    CLQ_RENEWAL_NONE,
    CLQ_RENEWAL_DOUBTFUL,  /* it was measured while others used the cores, and now they do not; so a few times in a row
                            */
    CLQ_RENEWAL_FELL_SHORT /* three trainings in a row did not reach what was predicted */
} clq_renewal;
clq_renewal clq_why_renewal(const clq_kept_choice *kept, double others_now);
/* What a training by the choice reached, while others used so much. One that met busier cores than the choice did says
 * nothing. False: nothing changed. */
bool clq_why_judge_choice(clq_kept_choice *kept, double images_per_s, double others);
/* Likewise of what is kept, unless it was made anew meanwhile. Trainings that end at the same moment may count as one.
 * Errors: WRITE, MEMORY. */
clq_status clq_why_note_training(clq_hash128 key, const clq_kept_choice *used, double images_per_s, double others);
/* Comparing failed for a choice that was to be made anew: this counts as one more time that it was, so that not every
 * training tries. Errors: WRITE, MEMORY. */
clq_status clq_why_note_failed_renewal(clq_hash128 key, const clq_kept_choice *used);

/* ---- several machines ---- */

#include "why/machines.h"

#endif
