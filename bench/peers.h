/* The other systems that clique bench peers runs: what is needed to start them, and one run of each.
 *
 * peers.c conducts; here nothing measures and no driver is loaded: every figure, Clique's too, is a child's. */
#ifndef CLQ_BENCH_PEERS_H
#define CLQ_BENCH_PEERS_H

#include "bench.h"
#include "child.h"

/* bench/peers/<name>.*, embedded at build time. */
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
    char *folder;                   /* a temporary one: sources, what is built of them, what the children say */
    char *self;                     /* this program */
    char *starters[CLQ_PEER_COUNT]; /* mpirun, python, python, none */
    char *sources[CLQ_PEER_COUNT];
    char *programs[CLQ_PEER_COUNT]; /* of those that are compiled */
    char *out_path, *err_path, *json_path;
    bool ready[CLQ_PEER_COUNT];
    double limit_s; /* of one child */
} clq_peers;

/* Folder and paths. To be closed whatever it returns. */
clq_status clq_peers_open(clq_peers *peers);
void clq_peers_close(clq_peers *peers);
/* Finds out which peers are there, compiles programs for them, and prints a line for each that cannot be used. `cc`:
 * for OpenBLAS; NULL: it is not asked for. */
clq_status clq_peers_find(clq_peers *peers, clq_bench_run *run, const char *mpirun, const char *python, const char *cc);

/* ---- children (peer_run.c) ---- */

enum { CLQ_PEER_ARGUMENTS_MAX = 40, CLQ_PEER_REASON_MAX = CLQ_BENCH_LINE_MAX + 80 };

/* A command line under construction; latches that it became too long. */
typedef struct clq_peer_command {
    char *argv[CLQ_PEER_ARGUMENTS_MAX + 1];
    size_t count, used;
    bool failed;
    char text[8192];
} clq_peer_command;
/* One argument; or several, which spaces divide. */
void clq_peer_command_add(clq_peer_command *command, const char *format, ...) CLQ_PRINTF(2, 3);
void clq_peer_command_add_words(clq_peer_command *command, const char *format, ...) CLQ_PRINTF(2, 3);

/* Runs a peer. *out is the last line of its stdout that is a JSON object; where the peer failed or there is none, it is
 * NULL and `reason` says why. A failure is only what ends the whole run. */
clq_status clq_peer_run(const clq_peers *peers, const clq_peer_command *command, char reason[CLQ_PEER_REASON_MAX],
                        json_t **out);
/* Runs a benchmark of this program, whose arguments these are; *out is its result file. */
clq_status clq_peer_run_own(const clq_peers *peers, const clq_peer_command *arguments, json_t **out);

/* Of one thing by one system: microseconds, where less is better, or images per second. */
typedef struct clq_peer_figures {
    double typical, least, most;
} clq_peer_figures;
/* {"min", "p50", "p99"} in `time_us`, or `images_per_s` with _least and _most; false where they are not there, not in
 * order or not above 0. */
bool clq_peer_figures_read(const json_t *object, clq_peer_figures *out);

#endif
