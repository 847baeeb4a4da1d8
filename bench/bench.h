/* clique-bench: measurements as rows. main.c finds the benchmark by its name. Each benchmark has a file of its own,
 * which describes it in a clq_bench_spec and hands that to clq_bench_main (run.c). clq_bench_main parses the options,
 * opens and names the devices, and prints the table row by row. On Ctrl-C it stops after the current row. At the end it
 * writes the file of docs/bench.md ("clique-bench/1") with the rows measured so far, also if some are missing.
 *
 * A row is a flat JSON object, except that a spread of times is an object within it. All rows of one benchmark have the
 * same keys. */
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

/* A column of the table. key: the row's value to show; "time_us.p50" is member p50 of time_us. The value is a text, a
 * whole number, or a number with `decimals` decimals. Null shows as "-", in a column of texts as nothing. */
typedef struct clq_bench_column {
    const char *key, *title;
    int width; /* negative: text, aligned to the left */
    int decimals;
} clq_bench_column;

/* What a benchmark does if an MPI launcher started several processes. */
typedef enum clq_bench_span {
    CLQ_BENCH_OF_ONE,     /* refuses: it runs in one process only */
    CLQ_BENCH_OF_DEVICES, /* measures the devices of all processes */
    CLQ_BENCH_OF_HOSTS    /* measures the processes, without devices */
} clq_bench_span;

typedef struct clq_bench_spec {
    const char *name, *about;
    clq_bench_span span;
    const clq_argument *options; /* its own options, ended by {0}; NULL: none. Keys: letters except n and w, or from
                                    CLQ_BENCH_KEY_OWN on */
    clq_option_handler set;      /* takes these options */
    clq_status (*check)(const void *context); /* checks all options before any device is touched; may be NULL */
    /* Sets run->described, for a benchmark whose child processes open the devices. This process then loads no driver,
     * and run->system and run->devices stay empty. NULL: this process opens the devices itself. */
    clq_status (*describe)(clq_bench_run *run, void *context);
    clq_status (*run)(clq_bench_run *run, void *context);
    uint64_t iterations, warm_ups; /* defaults of -n and -w */
    uint64_t iterations_most;
    const char *iterations_help, *warm_ups_help; /* NULL: the usual help */
    const clq_bench_column *columns; /* ended by {0}; NULL: the benchmark prints its own table (clq_bench_print) */
} clq_bench_spec;
enum { CLQ_BENCH_KEY_OWN = 512 };

enum { CLQ_BENCH_LABEL_MAX = 40 };
struct clq_bench_run {
    const clq_bench_spec *spec;
    void *context;
    clq_world *world; /* NULL: this process is alone. Otherwise all have the same rows; rank 0 prints and writes them */
    clq_text given;   /* the given options that must be the same in all processes */
    uint64_t iterations, warm_ups;
    bool iterations_given, warm_ups_given; /* whether -n and -w were given */
    clq_system *system;
    clq_devices devices;
    char (*labels)[CLQ_BENCH_LABEL_MAX]; /* one per device: "pocl:0", "intel:0 1/2" */
    json_t *described;                   /* the file's "devices" */
    json_t *rows;
    size_t expected; /* rows that the whole run will have, for the progress line; 0: not known yet */
    const char *json_path, *csv_path, *devices_spec;
    const char *build_deadline; /* as given; NULL: not given */
    double build_deadline_s;    /* 0: not given */
    const char *models, *data;  /* values of --models and --data; NULL: not given */
    FILE *talk;                 /* where text for people goes: stdout, or stderr with --json */
    double started;
    bool terminal;      /* a progress line may be drawn on stderr */
    size_t line_length; /* of the progress line now on stderr; 0: none */
    size_t wrong_rows;  /* rows with wrong data */
};

/* context: where the benchmark keeps its own options; set, check, describe and run get it. */
clq_status clq_bench_main(const clq_bench_spec *spec, void *context, int argc, char **argv);

/* Opens each selected device in turn, makes an in-order queue on it, and calls body. */
typedef clq_status (*clq_bench_device_body)(clq_bench_run *run, uint32_t device, clq_queue *queue);
clq_status clq_bench_each_device(clq_bench_run *run, clq_bench_device_body body);

/* ---- measuring (measure.c) ---- */

/* work is timed: it does one thing `repeats` times and waits until it is done. settle follows untimed; NULL: nothing
 * follows. It finishes what `work` only begins, if only the beginning is to be timed. */
typedef struct clq_bench_work {
    clq_status (*work)(void *context, uint64_t repeats);
    clq_status (*settle)(void *context);
    void *context;
} clq_bench_work;

/* Times of one repeat, by nearest rank over the run's -n samples. NaN if nothing was measured. */
typedef struct clq_bench_times {
    double min_us, p50_us, p99_us;
} clq_bench_times;
extern const clq_bench_times clq_bench_no_times;

/* Runs -w warm-ups, then doubles the repeats until a sample takes 20 us, then takes -n samples. With several processes,
 * each sample begins behind a barrier, lasts until the last process is done, and takes at least 200 us. All processes
 * get the same times. */
clq_status clq_bench_measure(const clq_bench_run *run, const clq_bench_work *work, clq_bench_times *out);
/* The same for several works: takes one sample of each in turn. */
enum { CLQ_BENCH_WORKS_MOST = 2 };
clq_status clq_bench_measure_in_turns(const clq_bench_run *run, const clq_bench_work *works, size_t count,
                                      clq_bench_times *out);
/* The times of one repeat, from samples in seconds that have `repeats` repeats each. Sorts the samples. */
clq_bench_times clq_bench_times_of(double *seconds, size_t count, uint64_t repeats);

/* ---- rows (row.c) ---- */

/* A row under construction. `failed` stays true after the first failure. */
typedef struct clq_bench_row {
    json_t *object;
    bool failed;
} clq_bench_row;
clq_bench_row clq_bench_row_start(void);
/* The same with "device", an index into the selected devices, and its "label". */
clq_bench_row clq_bench_row_of(const clq_bench_run *run, uint32_t device);
void clq_bench_put(clq_bench_row *row, const char *key, json_t *value); /* takes the value; NULL: the row has failed */
void clq_bench_put_text(clq_bench_row *row, const char *key, const char *value);
void clq_bench_put_count(clq_bench_row *row, const char *key, uint64_t value);
void clq_bench_put_number(clq_bench_row *row, const char *key, double value); /* NaN and infinity: null */
/* Puts "limit_UNIT" and "pct_of_limit"; both are null if there is no limit (NaN). */
void clq_bench_put_limit(clq_bench_row *row, const char *unit, double rate, double limit);
void clq_bench_put_times(clq_bench_row *row, const char *key, const clq_bench_times *times); /* "min", "p50", "p99" */
/* "wrong": the number of wrong values; null if nothing was measured. A row with wrong values fails the run at its
 * end. */
void clq_bench_put_wrong(clq_bench_row *row, const clq_bench_times *times, uint64_t wrong);
/* Takes the row: appends and shows it. */
clq_status clq_bench_keep(clq_bench_run *run, clq_bench_row *row);
/* Does clq_bench_keep. Returns INTERRUPTED if Ctrl-C was pressed and rows are still missing; the benchmark must then
 * end. */
clq_status clq_bench_add(clq_bench_run *run, clq_bench_row *row);
/* "reason": why the row was not measured; NULL, which gives null: it was measured. */
void clq_bench_put_reason(clq_bench_row *row, const char *reason);
/* Whether a failure concerns only one device, pair or size, so that its row reports it and the run goes on. */
bool clq_bench_is_local(clq_status status);
/* Prints text to run->talk, after removing the progress line. */
void clq_bench_print(clq_bench_run *run, const char *format, ...) CLQ_PRINTF(2, 3);

/* ---- several processes (world.c) ---- */

/* These functions are collective. If this process is alone, they do nothing. */

/* Call it after parsing the options; status: the result of that. Joins the processes that a launcher started, and
 * checks that all were given the same benchmark and options. Errors: `status` of the lowest rank that failed, MISMATCH,
 * UNSUPPORTED (the benchmark runs in one process only). */
clq_status clq_bench_join(clq_bench_run *run, clq_status status);
/* Whether this process prints and writes nothing. */
bool clq_bench_is_silent(const clq_bench_run *run);
clq_status clq_bench_add_up(const clq_bench_run *run, uint64_t *value);    /* the sum over all processes */
clq_status clq_bench_find_last(const clq_bench_run *run, double *seconds); /* the maximum over all processes */
void clq_bench_add_up_here(const clq_bench_run *run, double *seconds);     /* sum over this host; NaN: failed */
/* run->described has this process's devices before the call, and all processes' devices after it. */
clq_status clq_bench_describe_all(clq_bench_run *run);
clq_status clq_bench_describe_ranks(clq_bench_run *run); /* sets run->described: the processes themselves */
/* The bandwidth between two ranks of the world, in host memory with no other traffic, in 1e9 bytes/s. */
clq_status clq_bench_rate_between(const clq_bench_run *run, unsigned from, unsigned to, size_t bytes, double *out);
/* clique bench p2p with several processes (between.c). */
clq_status clq_bench_between(clq_bench_run *run, size_t bytes);

/* ---- limits and load (host.c) ---- */

/* How many of the host's cores copy for a device that shares the host's memory: at most its compute units. */
unsigned clq_bench_cores_of(const clq_device *device);
typedef enum clq_bench_host_work {
    CLQ_BENCH_COPY,
    CLQ_BENCH_FILL,
    CLQ_BENCH_ADD,
    CLQ_BENCH_UPDATE
} clq_bench_host_work;
/* What `cores` cores reach together, in 1e9 bytes/s: with memcpy (COPY), memset (FILL), adding floats to other floats
 * (ADD), or reading and writing in place (UPDATE). Each core works on its own part of `bytes`. The best of some rounds.
 * A copy and an addition count their bytes once. */
clq_status clq_bench_host_rate(unsigned cores, size_t bytes, clq_bench_host_work work, double *out);

/* How busy the cores are that this process may use. Two readings tell how much other programs took of them. */
typedef struct clq_bench_load {
    bool known;
    double at, all_s, own_s; /* seconds: of the clock; that the cores have worked; that they worked for this process and
                                its children */
} clq_bench_load;
clq_bench_load clq_bench_load_now(void);
/* How many cores other programs kept busy on average from `since` to now. NaN if the system does not tell. Processes of
 * the run that share this host do not count. */
double clq_bench_others(const clq_bench_run *run, const clq_bench_load *since);
/* Whether the load makes the figures of a run of `seconds` seconds unreliable. */
bool clq_bench_is_busy(double others, double seconds);

/* ---- models (models.c) ---- */

/* A model is a name, which may have options, or the path of a Keras model.to_json() file, which ends in ".json". In a
 * list, a comma in front of KEY=VALUE belongs to the name before it: "gpt:layers=2,width=64,mlp" names two models. */
enum { CLQ_BENCH_MODEL_BYTES = 4096, CLQ_BENCH_DATA_BYTES = 256 };
/* Takes the model at *at of a list, and moves *at past it and its comma. False if there is none, or if it is too
 * long. */
bool clq_bench_next_model(const char **at, char model[CLQ_BENCH_MODEL_BYTES]);
/* Checks that all models of --models can be opened. data: as for clq_bench_model_open. */
clq_status clq_bench_models_check(const char *list, const char *data);
size_t clq_bench_models_count(const char *list);
/* Opens a model. A named one gets the shape and the classes of `data`; data NULL: its usual ones. Errors: UNSUPPORTED
 * (the file's model has several outputs), and those of reading or building it. */
clq_status clq_bench_model_open(const char *model, const char *data, clq_model **out);
/* The model's name in rows: a file has its base name. */
const char *clq_bench_model_name(const char *model);
/* How many rows of classes the model's output has for a sample, and so how many labels a sample needs. */
size_t clq_bench_model_places(const clq_model *model);
/* Made-up data for the model's input shape and classes, as a name for clq_dataset_open. */
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
/* Parses an option's value. The shapes in it replace all earlier ones. */
clq_status clq_bench_shapes_set(clq_bench_shapes *shapes, const char *option, const char *text);
const char *clq_bench_shape_transpose(const clq_bench_shape *shape); /* "nn", "tn", "nt", "tt" */

/* ---- sizes (sizes.c) ---- */

/* A sweep's sizes, by -b MIN -e MAX -f FACTOR, or by -i STEP instead of a factor. As in nccl-tests; K, M and G are
 * powers of 1024. */
typedef struct clq_bench_sizes {
    uint64_t min, max, factor, step; /* step 0: the factor applies */
} clq_bench_sizes;
#define CLQ_BENCH_SIZES_OPTIONS                                                                                        \
    {NULL, 'b', "MIN", .help = "smallest size in bytes, e.g. 4K"},                                                     \
        {NULL, 'e', "MAX", .help = "largest size, e.g. 64M"},                                                          \
        {NULL, 'f', "FACTOR", .help = "from one size to the next"}, {                                                  \
        NULL, 'i', "STEP", .help = "instead of a factor: bytes from one size to the next"                              \
    }
clq_status clq_bench_sizes_set(clq_bench_sizes *sizes, const clq_argument *option, const char *text);
clq_status clq_bench_sizes_check(const clq_bench_sizes *sizes, uint64_t least);
/* Moves to the next size; false after the last. */
bool clq_bench_sizes_next(const clq_bench_sizes *sizes, uint64_t *bytes);
size_t clq_bench_sizes_count(const clq_bench_sizes *sizes);

/* ---- the result file (result.c) ---- */

/* Reports two failures in one line; the second one's detail is this thread's error. If `first` is no failure, reports
 * the second alone. */
clq_status clq_bench_fail_also(const clq_error *first, clq_status second);
/* The file's "devices": describes the selected devices. */
clq_status clq_bench_describe_devices(const clq_bench_run *run, json_t **out);
/* Writes the files that the options ask for. Each appears complete, by a rename. */
clq_status clq_bench_result_write(const clq_bench_run *run, int argc, char **argv, double others, bool complete);

#endif
