/* clique-bench: measurements as rows. main.c finds the benchmark; each has a file of its own, which describes itself by
 * a clq_bench_spec and hands it to clq_bench_main (run.c): that parses the options, opens and names the devices, prints
 * the table as its rows come, stops behind the current row on Ctrl-C, and writes the file of docs/bench.md
 * ("clique-bench/1") of what was measured, whole or not.
 *
 * Rows are flat JSON objects but for the spread of times; all of one benchmark have the same keys. */
#ifndef CLQ_BENCH_H
#define CLQ_BENCH_H

#include "cli/arguments.h"
#include "train/train.h"
#include "world/world.h"

#include <stdio.h>

clq_status clq_bench_conv(int argc, char **argv);
clq_status clq_bench_gemm(int argc, char **argv);
clq_status clq_bench_launch(int argc, char **argv);
clq_status clq_bench_memory(int argc, char **argv);
clq_status clq_bench_ops(int argc, char **argv);
clq_status clq_bench_p2p(int argc, char **argv);
clq_status clq_bench_peers(int argc, char **argv);
clq_status clq_bench_step(int argc, char **argv);
clq_status clq_bench_train(int argc, char **argv);
clq_status clq_bench_all_reduce(int argc, char **argv);
clq_status clq_bench_reduce_scatter(int argc, char **argv);
clq_status clq_bench_all_gather(int argc, char **argv);
clq_status clq_bench_broadcast(int argc, char **argv);
clq_status clq_bench_reduce(int argc, char **argv);
clq_status clq_bench_send_recv(int argc, char **argv);

/* ---- a benchmark (run.c) ---- */

typedef struct clq_bench_run clq_bench_run;

/* A column of the table, which shows a row's value ("time_us.p50": a member of one): text, a whole number, or a number
 * with so many decimals. Null shows as "-", in a column of text as nothing. */
typedef struct clq_bench_column {
    const char *key, *title;
    int width; /* negative: text, which begins at the left */
    int decimals;
} clq_bench_column;

/* What a benchmark does if a launcher of MPI started several processes. */
typedef enum clq_bench_span {
    CLQ_BENCH_OF_ONE,     /* it is of one process, and refuses */
    CLQ_BENCH_OF_DEVICES, /* of the devices of all processes */
    CLQ_BENCH_OF_HOSTS    /* of the processes, without devices */
} clq_bench_span;

typedef struct clq_bench_spec {
    const char *name, *about;
    clq_bench_span span;
    const clq_argument *options; /* its own, ended by {0}; NULL: none. Keys: letters but n and w, or from OWN on */
    clq_option_handler set;      /* takes them */
    clq_status (*check)(const void *context); /* of all options together, before any device is touched; may be NULL */
    /* Of a benchmark whose devices its child processes open: sets run->described. No driver is loaded then, and
     * run->system and run->devices stay empty. Else NULL. */
    clq_status (*describe)(clq_bench_run *run, void *context);
    clq_status (*run)(clq_bench_run *run, void *context);
    uint64_t iterations, warm_ups; /* what -n and -w are when they are not given */
    uint64_t iterations_most;
    const char *iterations_help, *warm_ups_help; /* NULL: the usual */
    const clq_bench_column *columns;             /* ended by {0}; NULL: it prints its own table (clq_bench_print) */
} clq_bench_spec;
enum { CLQ_BENCH_KEY_OWN = 512 };

enum { CLQ_BENCH_LABEL_MAX = 40 };
struct clq_bench_run {
    const clq_bench_spec *spec;
    void *context;
    clq_world *world; /* NULL: this process is alone. Else all have the same rows, and rank 0 prints and writes them */
    clq_text given;   /* options, as they were given, that are to be the same in all processes */
    uint64_t iterations, warm_ups;
    bool iterations_given, warm_ups_given; /* by -n and -w */
    clq_system *system;
    clq_devices devices;
    char (*labels)[CLQ_BENCH_LABEL_MAX]; /* of the devices: "pocl:0", "intel:0 1/2" */
    json_t *described;                   /* the file's "devices" */
    json_t *rows;
    size_t expected; /* rows in all, once known: for the progress line */
    const char *json_path, *csv_path, *devices_spec;
    const char *build_deadline; /* as it was given; NULL: it was not */
    double build_deadline_s;    /* 0: it was not */
    const char *models, *data;  /* that it reads; NULL: none */
    FILE *talk;                 /* where people read: stdout, or stderr with --json */
    double started;
    bool terminal;      /* a progress line may be drawn on stderr */
    size_t line_length; /* of the one that stands there */
    size_t wrong_rows;  /* whose data were not what they must be */
};

/* context: what the benchmark's own options are kept in, for set, check and run. */
clq_status clq_bench_main(const clq_bench_spec *spec, void *context, int argc, char **argv);

/* Calls body for each selected device, opened, with an in-order queue of its own. */
typedef clq_status (*clq_bench_device_body)(clq_bench_run *run, uint32_t device, clq_queue *queue);
clq_status clq_bench_each_device(clq_bench_run *run, clq_bench_device_body body);

/* ---- measuring (measure.c) ---- */

/* work is timed; it does one thing `repeats` times and waits until it is done. settle, which may be NULL, follows it
 * untimed: for what is only to be begun within the time. */
typedef struct clq_bench_work {
    clq_status (*work)(void *context, uint64_t repeats);
    clq_status (*settle)(void *context);
    void *context;
} clq_bench_work;

/* Of one repeat; medians and the like by nearest rank over the run's -n samples. NaN where nothing was measured. */
typedef struct clq_bench_times {
    double min_us, p50_us, p99_us;
} clq_bench_times;
extern const clq_bench_times clq_bench_no_times;

/* -w warm-ups, then repeats are doubled until a sample takes 20 us, then -n samples. Of several processes, each sample
 * begins behind a barrier and lasts until the last is done, for 200 us at least: all have the same times. */
clq_status clq_bench_measure(const clq_bench_run *run, const clq_bench_work *work, clq_bench_times *out);
/* The same of some works, one sample of each in turn. */
enum { CLQ_BENCH_WORKS_MOST = 2 };
clq_status clq_bench_measure_in_turns(const clq_bench_run *run, const clq_bench_work *works, size_t count,
                                      clq_bench_times *out);
/* Those of sorted samples, in seconds, each of so many repeats. */
clq_bench_times clq_bench_times_of(double *seconds, size_t count, uint64_t repeats);

/* ---- rows (row.c) ---- */

/* A row under construction; latches its first failure. */
typedef struct clq_bench_row {
    json_t *object;
    bool failed;
} clq_bench_row;
clq_bench_row clq_bench_row_start(void);
/* The same with "device", a place among the selected ones, and its "label". */
clq_bench_row clq_bench_row_of(const clq_bench_run *run, uint32_t device);
void clq_bench_put(clq_bench_row *row, const char *key,
                   json_t *value); /* takes the value, which may be NULL (failed) */
void clq_bench_put_text(clq_bench_row *row, const char *key, const char *value);
void clq_bench_put_count(clq_bench_row *row, const char *key, uint64_t value);
void clq_bench_put_number(clq_bench_row *row, const char *key, double value); /* NaN and infinity: null */
/* "limit_UNIT" and "pct_of_limit"; both null where there is no limit (NaN). */
void clq_bench_put_limit(clq_bench_row *row, const char *unit, double rate, double limit);
void clq_bench_put_times(clq_bench_row *row, const char *key, const clq_bench_times *times); /* "min", "p50", "p99" */
/* "wrong": values that are not what they must be; null where nothing was measured. Such rows fail the run at its end.
 */
void clq_bench_put_wrong(clq_bench_row *row, const clq_bench_times *times, uint64_t wrong);
/* Takes the row: appends and shows it. */
clq_status clq_bench_keep(clq_bench_run *run, clq_bench_row *row);
/* clq_bench_keep; INTERRUPTED once Ctrl-C was pressed, which ends the benchmark. */
clq_status clq_bench_add(clq_bench_run *run, clq_bench_row *row);
/* "reason": why the row was not measured; NULL, for null, where it was. */
void clq_bench_put_reason(clq_bench_row *row, const char *reason);
/* Whether a failure is the affair of one device, pair or size, which its row tells, and not of the whole run.
 */
bool clq_bench_is_local(clq_status status);
/* A line of the table, for benchmarks without columns. */
void clq_bench_print(clq_bench_run *run, const char *format, ...) CLQ_PRINTF(2, 3);

/* ---- several processes (world.c) ---- */

/* All are collective, and nothing if this process is alone. */

/* Behind the options; status: of parsing them. Joins the processes that a launcher started, and compares what each was
 * given. Errors: `status` of the first that failed, MISMATCH, UNSUPPORTED (a benchmark of one process). */
clq_status clq_bench_join(clq_bench_run *run, clq_status status);
/* Whether this process prints and writes nothing. */
bool clq_bench_is_silent(const clq_bench_run *run);
clq_status clq_bench_add_up(const clq_bench_run *run, uint64_t *value);    /* the sum of all */
clq_status clq_bench_find_last(const clq_bench_run *run, double *seconds); /* the most of all */
void clq_bench_add_up_here(const clq_bench_run *run, double *seconds); /* the sum of those on this host; NaN: failed */
/* run->described: of this process's devices before, of all processes' behind it. */
clq_status clq_bench_describe_all(clq_bench_run *run);
clq_status clq_bench_describe_ranks(clq_bench_run *run); /* run->described: the processes themselves */
/* 1e9 bytes/s from rank to rank of the world, in the host's memory, with nothing else under way. */
clq_status clq_bench_rate_between(const clq_bench_run *run, unsigned from, unsigned to, size_t bytes, double *out);
/* clique bench p2p of several processes (between.c). */
clq_status clq_bench_between(clq_bench_run *run, size_t bytes);

/* ---- limits and load (host.c) ---- */

/* How many of the host's cores a device that shares its memory can put to a copy. */
unsigned clq_bench_cores_of(const clq_device *device);
typedef enum clq_bench_host_work {
    CLQ_BENCH_COPY,
    CLQ_BENCH_FILL,
    CLQ_BENCH_ADD,
    CLQ_BENCH_UPDATE
} clq_bench_host_work;
/* What so many cores together reach with memcpy, memset, the addition of floats to others, or reading and writing in
 * place, each on its part of `bytes`, in 1e9 bytes/s: the best of some rounds. A copy and an addition count their bytes
 * once. */
clq_status clq_bench_host_rate(unsigned cores, size_t bytes, clq_bench_host_work work, double *out);

/* What others took of the cores that this process may use. */
typedef struct clq_bench_load {
    bool known;
    double at, all_s,
        own_s; /* seconds: of the clock, of the cores at work, of these for this process and its children */
} clq_bench_load;
clq_bench_load clq_bench_load_now(void);
/* Cores that others kept busy from `since` to now, on average; NaN where the system does not tell. Processes of the run
 * that share this host are no others. */
double clq_bench_others(const clq_bench_run *run, const clq_bench_load *since);
/* Whether that is enough to distrust the figures of a run of so many seconds. */
bool clq_bench_is_busy(double others, double seconds);

/* ---- models (models.c) ---- */

/* A model: a name, which may have options, or the path of a Keras model.to_json() file, which ends in ".json". In a
 * list a comma in front of KEY=VALUE belongs to the name in front of it: "gpt:layers=2,width=64,mlp" are two models. */
enum { CLQ_BENCH_MODEL_BYTES = 4096, CLQ_BENCH_DATA_BYTES = 256 };
/* The model at *at of a list, which is moved behind it and its comma; false where there is none, or it is too long. */
bool clq_bench_next_model(const char **at, char model[CLQ_BENCH_MODEL_BYTES]);
/* Of --models: that all can be opened, for data or (NULL) without. */
clq_status clq_bench_models_check(const char *list, const char *data);
size_t clq_bench_models_count(const char *list);
/* Named ones for the shape and the classes of `data`; NULL: for none. UNSUPPORTED: it has several outputs. */
clq_status clq_bench_model_open(const char *model, const char *data, clq_model **out);
/* What rows call it: a file by its base name. */
const char *clq_bench_model_name(const char *model);
/* Rows of classes that it gives for a sample: a label for each. */
size_t clq_bench_model_places(const clq_model *model);
/* Made-up data of the model's shape and classes, as clq_dataset_open takes it. */
clq_status clq_bench_model_data(const clq_model *model, uint64_t samples, char out[CLQ_BENCH_DATA_BYTES]);

/* ---- shapes of matrix products (shapes.c) ---- */

/* C (m, n) = A (m, k) B (k, n). */
enum { CLQ_BENCH_SHAPES_MOST = 64, CLQ_BENCH_SHAPE_BYTES = 32 };
typedef struct clq_bench_shape {
    size_t m, n, k;
    bool transposed[2]; /* A is stored (k, m); B is stored (n, k) */
    char name[CLQ_BENCH_SHAPE_BYTES];
} clq_bench_shape;
typedef struct clq_bench_shapes {
    clq_bench_shape items[CLQ_BENCH_SHAPES_MOST];
    size_t count;
} clq_bench_shapes;
/* The value of an option, which replaces all that were there. */
clq_status clq_bench_shapes_set(clq_bench_shapes *shapes, const char *option, const char *text);
const char *clq_bench_shape_transpose(const clq_bench_shape *shape); /* "nn", "tn", "nt", "tt" */

/* ---- sizes (sizes.c) ---- */

/* -b MIN -e MAX -f FACTOR, or -i STEP; as in nccl-tests, with K, M and G as powers of 1024. */
typedef struct clq_bench_sizes {
    uint64_t min, max, factor, step; /* step 0: by the factor */
} clq_bench_sizes;
#define CLQ_BENCH_SIZES_OPTIONS                                                                                        \
    {NULL, 'b', "MIN", .help = "smallest size in bytes, e.g. 4K"},                                                     \
        {NULL, 'e', "MAX", .help = "largest size, e.g. 64M"},                                                          \
        {NULL, 'f', "FACTOR", .help = "from one size to the next"}, {                                                  \
        NULL, 'i', "STEP", .help = "instead of a factor: bytes from one size to the next"                              \
    }
clq_status clq_bench_sizes_set(clq_bench_sizes *sizes, const clq_argument *option, const char *text);
clq_status clq_bench_sizes_check(const clq_bench_sizes *sizes, uint64_t least);
/* Moves to the next size; false behind the last. */
bool clq_bench_sizes_next(const clq_bench_sizes *sizes, uint64_t *bytes);
size_t clq_bench_sizes_count(const clq_bench_sizes *sizes);

/* ---- the result file (result.c) ---- */

/* Two failures as one line; the second's detail is this thread's. Where `first` is none, the second alone. */
clq_status clq_bench_fail_also(const clq_error *first, clq_status second);
/* The file's "devices": the selected ones. */
clq_status clq_bench_describe_devices(const clq_bench_run *run, json_t **out);
/* Writes what the options ask for, each file by rename. */
clq_status clq_bench_result_write(const clq_bench_run *run, int argc, char **argv, double others, bool complete);

#endif
