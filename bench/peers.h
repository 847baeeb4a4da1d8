/* The other systems that clique bench peers runs (the peers): finding what is needed to start them, and one run of
 * each.
 *
 * peers.c decides what runs when. This process measures nothing and loads no driver: child processes measure all
 * figures, Clique's too. */
#ifndef CLQ_BENCH_PEERS_H
#define CLQ_BENCH_PEERS_H

#include "bench.h"
#include "child.h"

/* The files in bench/peers, embedded at build time. name: without the extension. */
typedef struct clq_peer_file {
    const char *name, *text; /* NULL ends the table */
} clq_peer_file;
extern const clq_peer_file clq_peer_files[];

typedef enum clq_peer_system {
    CLQ_PEER_MPI,
    CLQ_PEER_TORCH,
    CLQ_PEER_TENSORFLOW,
    CLQ_PEER_BLAS,
    CLQ_PEER_COUNT
} clq_peer_system;

typedef struct clq_peers {
    char *folder; /* temporary: has the sources, the programs built from them, and the children's output */
    char *self;   /* the path of this program */
    char *starters[CLQ_PEER_COUNT]; /* paths of mpirun, python and python; NULL for OpenBLAS */
    char *sources[CLQ_PEER_COUNT];
    char *programs[CLQ_PEER_COUNT]; /* for peers that are compiled: their programs; NULL: the source is run */
    char *out_path, *err_path, *json_path;
    bool ready[CLQ_PEER_COUNT];
    double limit_s; /* time limit for one child, in seconds */
} clq_peers;

/* Makes the folder and the paths. Close it also after an error. */
clq_status clq_peers_open(clq_peers *peers);
void clq_peers_close(clq_peers *peers);
/* Finds out which peers are installed, compiles programs for them, and prints a note for each peer that cannot be used.
 * cc: the compiler for OpenBLAS; NULL: OpenBLAS is not wanted. */
clq_status clq_peers_find(clq_peers *peers, clq_bench_run *run, const char *mpirun, const char *python, const char *cc);

/* ---- children (peer_run.c) ---- */

enum { CLQ_PEER_ARGUMENTS_MAX = 40, CLQ_PEER_REASON_MAX = CLQ_BENCH_LINE_MAX + 80 };

/* A command line under construction. `failed` stays true once an argument did not fit. */
typedef struct clq_peer_command {
    char *argv[CLQ_PEER_ARGUMENTS_MAX + 1];
    size_t count, used;
    bool failed;
    char text[8192];
} clq_peer_command;
/* Adds one argument. clq_peer_command_add_words adds several, separated by spaces. */
void clq_peer_command_add(clq_peer_command *command, const char *format, ...) CLQ_PRINTF(2, 3);
void clq_peer_command_add_words(clq_peer_command *command, const char *format, ...) CLQ_PRINTF(2, 3);

/* Runs a peer. *out: the last line of its stdout that is a JSON object. If the peer fails or prints none, *out is NULL
 * and `reason` says why. Returns an error only for failures that end the whole run. */
clq_status clq_peer_run(const clq_peers *peers, const clq_peer_command *command, char reason[CLQ_PEER_REASON_MAX],
                        json_t **out);
/* Runs a benchmark of this program with these arguments. *out: its result file. */
clq_status clq_peer_run_own(const clq_peers *peers, const clq_peer_command *arguments, json_t **out);

/* One system's figures for one measurement: microseconds, where less is better, or images per second. */
typedef struct clq_peer_figures {
    double typical, least, most;
} clq_peer_figures;
/* Reads {"min", "p50", "p99"} of `time_us`, or `images_per_s` with _least and _most. False if they are missing, not in
 * order, or not above 0. */
bool clq_peer_figures_read(const json_t *object, clq_peer_figures *out);

#endif
