/* clique launch: a command on several hosts, by the launcher of an MPI. launch.c is the command; the others below each
 * have one thing that it needs. The process that launches loads no MPI and no OpenCL driver, and has no threads. One
 * that evaluates is another: it computes. */
#ifndef CLQ_CLI_LAUNCH_H
#define CLQ_CLI_LAUNCH_H

#include "base/base.h"

#include <signal.h>
#include <stdatomic.h>

/* ---- which hosts (cluster.c) ---- */

typedef struct clq_host {
    char *name, *port; /* port NULL: none was named */
    unsigned processes;
    bool is_here; /* this machine; known once clq_cluster_find has found it */
} clq_host;

/* The hosts of a run. Ranks are counted through them in their order. Start with {0}, release in any case. */
typedef struct clq_cluster {
    clq_host *hosts; /* (count) */
    size_t count, capacity;
    bool is_tf_config;
    /* By TF_CONFIG: */
    int own_rank;   /* -1: this task has none */
    size_t others;  /* tasks besides this one */
    unsigned ps;    /* entries of `ps` */
    bool has_stores; /* which are the last ranks; else they have none */
    size_t trainers; /* hosts in front of them */
    bool evaluates; /* this task is an evaluator */
    bool has_twins; /* two entries of one host */
    size_t twin;    /* which host's */
} clq_cluster;
/* list: "a,b:2". Errors: ARGUMENT, MEMORY. */
clq_status clq_cluster_of_hosts(const char *list, clq_cluster *out);
/* text: TF_CONFIG, as tf.distribute has it. has_stores: of a training by strategy ps, where entries of `ps` are ranks.
 * Errors: FORMAT, UNSUPPORTED, MEMORY. */
clq_status clq_cluster_of_tf_config(const char *text, bool has_stores, clq_cluster *out);
unsigned clq_cluster_ranks(const clq_cluster *cluster);
/* The host that this rank is on. */
size_t clq_cluster_host_of(const clq_cluster *cluster, unsigned rank);
/* Looks each host up, for so many seconds in all: names may come up later than this process. In a list of hosts the one
 * that is this machine becomes the first: Open MPI's launcher has rank 0 there in any case. has_agent: names are the
 * agent's affair, and only compared with this machine's own. Errors: NOT_FOUND, INTERRUPTED. */
clq_status clq_cluster_find(clq_cluster *cluster, double wait_s, bool has_agent);
void clq_cluster_remove(clq_cluster *cluster, size_t host);
void clq_cluster_release(clq_cluster *cluster);

/* ---- which launcher (launchers.c) ---- */

typedef struct clq_mpi clq_mpi;
/* name: "openmpi" or "mpich"; NULL: the first whose launcher and engine are there. Errors: ARGUMENT, NOT_FOUND. */
clq_status clq_mpi_find(const char *name, const clq_mpi **out, const char **program);
/* What reaches other hosts: `agent`, or what the MPI's variables name; NULL: neither, so ssh. */
const char *clq_mpi_agent(const clq_mpi *mpi, const char *agent);

typedef struct clq_words {
    char **list; /* NULL-terminated */
    size_t count, capacity;
    bool failed;
} clq_words;
void clq_words_add(clq_words *words, const char *word);
void clq_words_take(clq_words *words, char *word /* NULL: no memory */);
void clq_words_release(clq_words *words);
void clq_text_add_quoted(clq_text *text, const char *word); /* for a shell */
/* The same as a program and its first arguments, as the MPI reads it: Open MPI splits it at blanks, and takes the first
 * of a list with colons. Behind them are two words for the host and the line. Errors: ARGUMENT, MEMORY. Release the
 * words in any case. */
clq_status clq_mpi_agent_words(const clq_mpi *mpi, const char *agent, clq_words *words);

/* What is to be started. */
typedef struct clq_mpirun {
    clq_cluster *cluster;
    const clq_mpi *mpi;
    const char *program; /* of the launcher */
    const char *agent;   /* as the command was told; NULL: not */
    clq_words reach;     /* of clq_mpi_agent_words */
    char **command;      /* NULL-terminated */
    bool is_train;       /* `clique train`, which reports */
    bool resumes;        /* with --resume at the end */
    bool names_stores;   /* with --ps-ranks at the end: the cluster's entries of `ps` */
    char id[24];         /* of this run, in the environment of its ranks */
    struct clq_waiters *waiters;
} clq_mpirun;
/* The launcher's command line, in words; and the variables "NAME=VALUE" that it needs. Both NULL-terminated; release in
 * any case. Errors: MEMORY. */
clq_status clq_mpirun_words(const clq_mpirun *launch, clq_words *words, clq_words *variables);

/* ---- lines of a shell on the hosts (remote.c) ---- */

typedef struct clq_answer {
    bool is_there;  /* the host answered */
    bool found;     /* there were processes of the run */
    char said[256]; /* the last line of the agent, if it could not reach the host */
} clq_answer;
/* Sends a signal to the processes of the run on the first `hosts` hosts, on many at once; 0: only looks, and ends when
 * this process is told to stop. A host has `limit_s` to answer. Errors: MEMORY, SYSTEM. */
clq_status clq_hosts_signal(const clq_mpirun *launch, int signal_number, size_t hosts, double limit_s,
                            clq_answer *answers);

int clq_child_pipe(int ends[2]); /* as pipe: closed on exec, and a read of ends[0] does not wait */

/* ---- one run (run.c) ---- */

typedef struct clq_mpirun_end {
    int code;         /* the exit code */
    bool reported;    /* a rank has printed why it ended */
    bool interrupted; /* by a signal */
    bool unwritable;  /* stdout is, so the run was ended */
    bool forced;      /* the launcher did not end by itself */
    bool *lost;       /* [rank] as those that were left know it; the caller's */
} clq_mpirun_end;
/* Starts the launcher, passes signals on, and ends what does not end by itself. Errors: MEMORY, SYSTEM, NOT_FOUND. */
clq_status clq_mpirun_run(const clq_mpirun *launch, clq_mpirun_end *end);

/* ---- hosts that wait (waiting.c) ---- */

/* Those that wait for the end of a run. */
typedef struct clq_waiters {
    int listener; /* -1: nobody can wait */
    size_t expected;
    int *links; /* (count) greeted */
    size_t count, capacity;
    double opened; /* when (clq_now) */
} clq_waiters;
/* By the host that launches, on its own port of TF_CONFIG, if somebody may wait: a host that TF_CONFIG names, or, of a
 * training with checkpoints, an evaluator that it does not name. A port that cannot be had is a warning. */
void clq_waiters_open(const clq_cluster *cluster, bool has_checkpoints, clq_waiters *out);
/* Takes those in that have come, and forgets those that have gone. Does not wait. */
void clq_waiters_greet(clq_waiters *waiters);
/* Tells all of them the exit code. Waits for the others: up to 10 s if some have come, else up to 2 s after opening. */
void clq_waiters_end(clq_waiters *waiters, int code);
/* By another host: until the one that launches has ended, or *stop (NULL: nobody stops it). Errors: TIMEOUT: it has not
 * greeted within `wait_s` seconds; ABORTED: it fell silent; FORMAT, INTERRUPTED. */
clq_status clq_wait_for_end(const clq_host *host, double wait_s, const atomic_bool *stop, int *code);

/* ---- a host that evaluates (evaluator.c) ---- */

/* Evaluates the checkpoints of the training that is launched (`clique train` with --checkpoint) until its run has
 * ended; *code: the run's. It waits for the launching host as others do. Errors: those of waiting and of evaluation. */
clq_status clq_launch_evaluate(const clq_mpirun *launch, double wait_s, int *code);

#endif
