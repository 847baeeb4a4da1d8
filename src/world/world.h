/* world: the processes of a run. See <clique/world.h> for what callers see; below is what the layers above use.
 *
 * The world's thread calls the engine (engine.h), so that messages move forward while all other threads compute or
 * sleep. Others give it jobs, and wait for them. A thread that waits for its own job takes turns with it, if the engine
 * allows that. A job is a small state machine: it begins messages, looks whether they are done, and works on what has
 * come, but never waits.
 *
 * Every rank listens to those at the distances 1, 2, 4, … on both sides of the ring of ranks (notices.c). Each second
 * it tells them that it lives; what it learns of a failure it tells them at once, so that all know after log2(size)
 * hops. */
#ifndef CLQ_WORLD_INTERNAL_H
#define CLQ_WORLD_INTERNAL_H

#include "base/base.h"
#include "world/engine.h"
#include <clique/world.h>

/* As clq_world_open, by this engine; `communicator` is handed to it. */
clq_status clq_world_open_with(const clq_engine *engine, const void *communicator, const clq_world_config *config,
                               clq_world **out);

const char *clq_world_engine_name(const clq_world *world); /* "Open MPI"; "nothing" in a world of one process */

/* The name of a rank's host. Belongs to the world. */
const char *clq_world_host(const clq_world *world, unsigned rank);

/* Whether all ranks are on one host. */
bool clq_world_is_near(const clq_world *world);
/* In pieces of so many bytes a long message goes fastest over the engine's network. */
size_t clq_world_message_bytes(const clq_world *world);

/* ---- jobs (progress.c) ---- */

typedef struct clq_job clq_job;
struct clq_job {
    /* Does what can be done without waiting. *moved: it did something. *done: all is done. By the world's thread or, in
     * turns with it, by the caller of clq_world_run, again and again. A failure ends the world. */
    clq_status (*advance)(clq_job *job, clq_world *world, bool *moved, bool *done);
    /* Seconds from clq_world_post, by clq_now_running; 0: the world's deadline_s */
    double deadline_s;
    /* For the message about a deadline, kept true by `advance`: "rank 2 on n3 did not come to DOING within …" */
    unsigned waits_for;
    const char *doing;
    /* The world's: */
    clq_job *next;
    double until;
    clq_error end;
    atomic_bool over; /* `end` is written, and the world's thread touches the job no more */
};
/* Hands the job to the world's thread: the caller leaves it alone until clq_world_wait has returned. From any thread,
 * in a world of several ranks. A world that has failed ends it at once. */
void clq_world_post(clq_world *world, clq_job *job);
/* Until the job is done. Errors: this rank's own failure (TIMEOUT, SYSTEM, those of `advance`), or ABORTED with the
 * detail of the rank that failed. */
clq_status clq_world_wait(clq_world *world, clq_job *job);
/* Both; what is done soon is done in the calling thread, perhaps ahead of jobs that were posted before. So the caller
 * has no posted job of the same tag under way: messages of one tag are told apart by their order alone. */
clq_status clq_world_run(clq_world *world, clq_job *job);
/* Whether the job is over within so many seconds (clq_now_running). */
bool clq_world_wait_up_to(clq_world *world, clq_job *job, double seconds);

/* For `advance`. A request is NULL where no message is under way. Tags: clq_world_new_tags's. */
clq_status clq_world_begin_send(clq_world *world, unsigned to, unsigned tag, const void *data, size_t bytes,
                                void **request);
clq_status clq_world_begin_receive(clq_world *world, unsigned from, unsigned tag, void *data, size_t bytes,
                                   void **request);
/* Whether no message is under way, or it is done now: then *moved is set, too. */
clq_status clq_world_test(clq_world *world, void **request, bool *moved, bool *done);
/* `count` tags, from *out on, for messages of one user. All ranks ask for as many, in the same order. Errors:
 * UNSUPPORTED: all are used. */
clq_status clq_world_new_tags(clq_world *world, unsigned count, unsigned *out);

/* ---- messages (message.c) ---- */

/* A message under way. The caller sets the first members; each that was begun is waited for by its job. */
enum { CLQ_MESSAGE_PIECES_MAX = 64 };
typedef struct clq_message {
    clq_job job;
    bool is_sent; /* else received */
    unsigned peer, tag;
    char *data;
    size_t bytes;
    double deadline_s; /* 0: the world's */
    /* message.c's: */
    size_t piece_bytes, begun; /* of which pieces were begun */
    uint64_t pieces_begun, pieces_done;
    unsigned window; /* pieces that may be under way */
    void *requests[CLQ_MESSAGE_PIECES_MAX];
} clq_message;
/* Errors: INTERNAL; then there is nothing to wait for. */
clq_status clq_world_begin_message(clq_world *world, clq_message *message);

/* Sends the host's memory to rank `to`, which receives as many bytes by the same tag. Return when `data` may be used
 * again, or is complete. From any thread, each with a tag of its own. Errors: as clq_world_wait. */
clq_status clq_world_send(clq_world *world, unsigned to, unsigned tag, const void *data, size_t bytes,
                          double deadline_s /* 0: the world's */);
clq_status clq_world_receive(clq_world *world, unsigned from, unsigned tag, void *data, size_t bytes,
                             double deadline_s);

/* data (bytes) of rank 0 on all. Collective. Errors: as clq_world_wait. */
clq_status clq_world_broadcast(clq_world *world, void *data, size_t bytes);

/* The engine's own all-reduce of floats, to compare with; the world does nothing else meanwhile, so that it must not
 * last for longer than a silence. Errors: UNSUPPORTED, and as clq_world_wait. With an error that has ended the world,
 * the engine may still use `in` and `out`. TIMEOUT: it is not done within 10 s; then the process can only end: the
 * world's thread does not come back. */
clq_status clq_world_engine_all_reduce(clq_world *world, const float *in, float *out, size_t count);

/* ---- ranks that are set apart ---- */

/* Tags of messages with ranks that are set apart: they need not be asked for, since those ranks ask for none. */
enum { CLQ_TAG_APART = 3, CLQ_TAGS_APART = 65 };
/* Takes the ranks that are set apart back. All call it, at the same place of their order of collective functions. */
void clq_world_take_back(clq_world *world);

/* ---- what all have alike (gather.c) ---- */

/* How many gathers, barriers, agreements and checks this rank has begun: whoever failed learns by it whether the others
 * wait in the first of these. */
uint64_t clq_world_turns(const clq_world *world);
/* Compares `value` over all ranks. Collective. Errors: MISMATCH, on every rank: "rank 2 on n3 has another WHAT than
 * rank 0 on n1: …", and the world ends with this failure of rank 2; and as clq_world_gather. */
clq_status clq_world_agree(clq_world *world, const char *what, clq_hash128 value);

/* Whether all ranks are well. status: this rank's, with the calling thread's failure. Collective. If a rank failed, the
 * world ends with the failure of the lowest of these ranks: that one gets its own status back, the others ABORTED, with
 * its name and line. Other errors: as clq_world_gather. */
clq_status clq_world_check(clq_world *world, clq_status status);

/* ---- failure (notices.c) ---- */

/* Ends the world with the calling thread's failure, unless it has ended, and returns `status` with its detail. */
clq_status clq_world_fail_with(clq_world *world, clq_status status);

/* Ends the world with `why`, the failure of this rank; the first one counts. From any thread. */
void clq_world_fail(clq_world *world, const clq_error *why);
/* What ended the world, as this rank reports it; CLQ_OK: it has not failed. */
clq_status clq_world_failure(const clq_world *world);
/* Of a world that has failed: whose failure it was, and its status as that rank has it. ABORTED: that rank did not
 * report it, but fell silent; or its program called clq_world_abort. */
unsigned clq_world_failed_rank(const clq_world *world);
clq_status clq_world_failed_status(const clq_world *world);
/* Of a world that has failed: returns a second after the failure, if that was this rank's; else after 2.5 s. A launcher
 * ends all ranks once one has ended, so each gives the others the time to say what they know. */
void clq_world_let_others_speak(const clq_world *world);

/* ---- launchers (launcher.c) ---- */

/* What the environment says of the launcher that started this process. */
typedef struct clq_launcher {
    const char *name;   /* "Open MPI's mpirun"; NULL: none started it */
    const char *engine; /* "openmpi", "mpich"; NULL: not known */
    bool is_of_engine;  /* processes of another MPI end in MPI_Init under it, with an error of that MPI */
    unsigned size;      /* processes; 0: not told */
    unsigned rank;      /* of this one among them */
} clq_launcher;
clq_launcher clq_launcher_find(void);
/* Whether the library of an engine was built or installed beside this code ("openmpi", "mpich"). Loads nothing.
 * (engine.c) */
bool clq_engine_exists(const char *name);

#endif
