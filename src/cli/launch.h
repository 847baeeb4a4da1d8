/* clique launch: runs a command on several hosts by the launcher of an MPI. launch.c is the command; each of the other
 * files below does one thing that it needs. The process that launches loads no MPI and no OpenCL driver, and has no
 * threads. A process that evaluates is another matter: it computes (evaluator.c). */
#ifndef CLQ_CLI_LAUNCH_H
#define CLQ_CLI_LAUNCH_H

#include "base/base.h"

#include <signal.h>
#include <stdatomic.h>

/* ---- which hosts (cluster.c) ---- */

typedef struct clq_host {
    char *name, *port; /* port NULL: none was named */
    unsigned processes;
    bool is_here; /* it is this machine; known once clq_cluster_find has found it */
} clq_host;

/* The hosts of a run. Ranks are numbered host by host, in this order. Start with {0}; release it also after a
 * failure. */
typedef struct clq_cluster {
    clq_host *hosts; /* (count) */
    size_t count, capacity;
    bool is_tf_config;
    /* If is_tf_config: */
    int own_rank;    /* -1: this task has none */
    size_t others;   /* tasks besides this one */
    unsigned ps;     /* entries of `ps` */
    bool has_stores; /* these entries are ranks, the last ones; false: they have no ranks */
    size_t trainers; /* hosts before those of `ps` */
    bool evaluates;  /* this task is an evaluator */
    bool has_twins;  /* two entries that train name one host */
    size_t twin;     /* the index of that host */
} clq_cluster;
/* list: "a,b:2". Errors: ARGUMENT, MEMORY. */
clq_status clq_cluster_of_hosts(const char *list, clq_cluster *out);
/* text: TF_CONFIG, as tf.distribute has it. has_stores: the training is by strategy ps, so that entries of `ps` are
 * ranks. Errors: FORMAT, UNSUPPORTED, MEMORY. */
clq_status clq_cluster_of_tf_config(const char *text, bool has_stores, clq_cluster *out);
unsigned clq_cluster_ranks(const clq_cluster *cluster);
/* The host that this rank is on. */
size_t clq_cluster_host_of(const clq_cluster *cluster, unsigned rank);
/* Looks up each host's name, for at most `wait_s` seconds in all: names may come up later than this process. In a list
 * of hosts, moves this machine to the front: Open MPI's launcher puts rank 0 on it in any case. has_agent: the agent
 * resolves names, so they are only compared with this machine's own. Errors: NOT_FOUND, INTERRUPTED. */
clq_status clq_cluster_find(clq_cluster *cluster, double wait_s, bool has_agent);
void clq_cluster_remove(clq_cluster *cluster, size_t host);
void clq_cluster_release(clq_cluster *cluster);

/* ---- which launcher (launchers.c) ---- */

typedef struct clq_mpi clq_mpi;
/* name: "openmpi" or "mpich"; NULL: the first whose launcher and engine are there. Errors: ARGUMENT, NOT_FOUND. */
clq_status clq_mpi_find(const char *name, const clq_mpi **out, const char **program);
/* The program that reaches other hosts: `agent`, or what the MPI's variables name. NULL: neither is given, so it is
 * ssh. */
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
/* The agent as a program and its first arguments, split as the MPI does it: Open MPI splits the agent at blanks, and
 * takes the first one of a list with colons. Two words follow, for the host and the line that it is to run. Errors:
 * ARGUMENT, MEMORY. Release the words also after a failure. */
clq_status clq_mpi_agent_words(const clq_mpi *mpi, const char *agent, clq_words *words);

/* What is to be started. */
typedef struct clq_mpirun {
    clq_cluster *cluster;
    const clq_mpi *mpi;
    const char *program; /* the launcher's */
    const char *agent;   /* the value of --agent; NULL: not given */
    clq_words reach;     /* made by clq_mpi_agent_words */
    char **command;      /* NULL-terminated */
    bool is_train;       /* the command is `clique train`, whose ranks report to this process */
    bool resumes;        /* the command gets --resume at its end */
    bool names_stores;   /* the command gets --ps-ranks at its end: the cluster's entries of `ps` */
    char id[24];         /* the run's id, which its ranks have in their environment */
    struct clq_waiters *waiters;
} clq_mpirun;
/* The launcher's command line, in words; and the variables "NAME=VALUE" that it needs. Both are NULL-terminated;
 * release both also after a failure. Errors: MEMORY. */
clq_status clq_mpirun_words(const clq_mpirun *launch, clq_words *words, clq_words *variables);

/* ---- lines of a shell on the hosts (remote.c) ---- */

typedef struct clq_answer {
    bool is_there;  /* the host answered */
    bool found;     /* there were processes of the run */
    char said[256]; /* the last line of the agent, if it could not reach the host */
} clq_answer;
/* Sends a signal to the run's processes on the first `hosts` hosts, on many hosts at once. Signal 0: only looks, and
 * stops looking if this process is told to stop. Each host has `limit_s` seconds to answer. Errors: MEMORY, SYSTEM. */
clq_status clq_hosts_signal(const clq_mpirun *launch, int signal_number, size_t hosts, double limit_s,
                            clq_answer *answers);

int clq_child_pipe(int ends[2]); /* as pipe, but closed on exec, and a read of ends[0] does not wait */

/* ---- one run (run.c) ---- */

typedef struct clq_mpirun_end {
    int code;         /* the exit code */
    bool reported;    /* a rank has printed why it ended */
    bool interrupted; /* by a signal */
    bool unwritable;  /* stdout could not be written, so the run was ended */
    bool forced;      /* the launcher did not end by itself */
    bool *lost;       /* [rank]: surviving ranks reported it as lost; the caller's array */
} clq_mpirun_end;
/* Starts the launcher, passes signals on, and ends what does not end by itself. Errors: MEMORY, SYSTEM, NOT_FOUND. */
clq_status clq_mpirun_run(const clq_mpirun *launch, clq_mpirun_end *end);

/* ---- hosts that wait (waiting.c) ---- */

/* The hosts that wait for the end of a run. */
typedef struct clq_waiters {
    int listener; /* a socket; -1: nobody can wait */
    size_t expected;
    int *links; /* (count) sockets of the hosts that were greeted */
    size_t count, capacity;
    double opened; /* when clq_waiters_open was called (clq_now) */
} clq_waiters;
/* For the host that launches. Listens on its own port of TF_CONFIG if somebody may wait: a host that TF_CONFIG names
 * or, if the training has checkpoints, an evaluator that it does not name. If the port cannot be had and TF_CONFIG
 * names other hosts, warns. */
void clq_waiters_open(const clq_cluster *cluster, bool has_checkpoints, clq_waiters *out);
/* Greets the hosts that have connected, and forgets those that have gone. Does not wait. */
void clq_waiters_greet(clq_waiters *waiters);
/* Tells the exit code to all hosts that wait. Before that, waits for expected hosts that have not connected yet: up to
 * 10 s from now if some have, otherwise up to 2 s after opening. */
void clq_waiters_end(clq_waiters *waiters, int code);
/* For any other host. Waits until the host that launches has ended, or until *stop is true (NULL: nobody stops it).
 * Errors: TIMEOUT (that host has not greeted within `wait_s` seconds), ABORTED (it fell silent), FORMAT,
 * INTERRUPTED. */
clq_status clq_wait_for_end(const clq_host *host, double wait_s, const atomic_bool *stop, int *code);

/* ---- a host that evaluates (evaluator.c) ---- */

/* Evaluates the checkpoints of the training that is launched (`clique train` with --checkpoint) until its run has
 * ended. *code: the run's exit code. Waits for the launching host as others do. Errors: those of waiting and of
 * evaluation. */
clq_status clq_launch_evaluate(const clq_mpirun *launch, double wait_s, int *code);

#endif
