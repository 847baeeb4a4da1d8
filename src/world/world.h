/* world: the processes of a run. See <clique/world.h> for what callers see; below is what the layers above use.
 *
 * The world's thread calls the engine (engine.h), so that messages move forward while all other threads compute or
 * sleep. Other threads give it jobs, and wait for them. A thread that waits for its own job takes turns with the
 * world's thread, if the engine allows that. A job is a small state machine: it begins messages, looks whether they are
 * done, and works on what has come, but never waits.
 *
 * Every rank listens to its neighbors: the ranks at the distances 1, 2, 4, … on both sides of the ring of ranks
 * (notices.c). Each second it tells them that it lives. When it learns of a failure, it tells them at once, so that all
 * ranks know after log2(size) hops. */
#ifndef CLQ_WORLD_INTERNAL_H
#define CLQ_WORLD_INTERNAL_H

#include "base/base.h"
#include "world/engine.h"
#include <clique/world.h>

/* clq_world_open with this engine, which gets `communicator`. */
clq_status clq_world_open_with(const clq_engine *engine, const void *communicator, const clq_world_config *config,
                               clq_world **out);

const char *clq_world_engine_name(const clq_world *world); /* "Open MPI"; "nothing" in a world of one process */

/* The name of a rank's host; "" if it is not known. Belongs to the world. */
const char *clq_world_host(const clq_world *world, unsigned rank);

/* Whether all ranks are on one host. */
bool clq_world_is_near(const clq_world *world);
/* The size of the pieces in which a long message goes fastest over the engine's network. */
size_t clq_world_message_bytes(const clq_world *world);

/* ---- jobs (progress.c) ---- */

typedef struct clq_job clq_job;
struct clq_job {
    /* Does what can be done without waiting. Sets *moved if it did something, and *done once the whole job is done. The
     * world's thread calls it again and again; so does the caller of clq_world_run, in turns with that thread. A
     * failure ends the world. */
    clq_status (*advance)(clq_job *job, clq_world *world, bool *moved, bool *done);
    /* Seconds from clq_world_post or clq_world_run (clq_now_running); 0: the world's deadline_s */
    double deadline_s;
    /* For the error message at the deadline: "rank 2 on n3 did not come to DOING within …". `advance` keeps waits_for
     * up to date. */
    unsigned waits_for;
    const char *doing;
    /* Set by the world: */
    clq_job *next;
    double until;
    clq_error end;
    atomic_bool over; /* `end` is written, and the world's thread no longer touches the job */
};
/* Hands the job to the world's thread. The caller leaves the job alone until clq_world_wait has returned. Any thread
 * may call it, in a world of several ranks. If the world has failed, the job ends at once. */
void clq_world_post(clq_world *world, clq_job *job);
/* Waits until the job is over. Errors: this rank's own failure (TIMEOUT, SYSTEM, those of `advance`), or ABORTED with
 * the detail of the rank that failed. */
clq_status clq_world_wait(clq_world *world, clq_job *job);
/* Posts the job and waits for it. A job that is done soon is done in the calling thread, perhaps ahead of jobs that
 * were posted before. So the caller has no posted job with the same tag under way: only their order tells messages with
 * one tag apart. */
clq_status clq_world_run(clq_world *world, clq_job *job);
/* Waits until the job is over, for at most `seconds` (clq_now_running). Returns whether the job is over. */
bool clq_world_wait_up_to(clq_world *world, clq_job *job, double seconds);

/* For `advance`: begin a message. *request is NULL if no message is under way. Tags are those from
 * clq_world_new_tags. */
clq_status clq_world_begin_send(clq_world *world, unsigned to, unsigned tag, const void *data, size_t bytes,
                                void **request);
clq_status clq_world_begin_receive(clq_world *world, unsigned from, unsigned tag, void *data, size_t bytes,
                                   void **request);
/* Sets *done if no message is under way, or if the message is done now; in the second case it sets *moved, too. */
clq_status clq_world_test(clq_world *world, void **request, bool *moved, bool *done);
/* Reserves `count` tags, from *out on, for messages of one user. All ranks reserve as many, in the same order. Errors:
 * UNSUPPORTED (fewer than `count` are left). */
clq_status clq_world_new_tags(clq_world *world, unsigned count, unsigned *out);

/* ---- messages (message.c) ---- */

/* A message. The caller sets the members from is_sent to deadline_s, and waits for `job` once the message was begun. */
enum { CLQ_MESSAGE_PIECES_MAX = 64 };
typedef struct clq_message {
    clq_job job;
    bool is_sent; /* false: received */
    unsigned peer, tag;
    char *data;
    size_t bytes;
    double deadline_s; /* 0: the world's */
    /* Set by message.c: */
    size_t piece_bytes, begun; /* begun: bytes in pieces that were begun */
    uint64_t pieces_begun, pieces_done;
    unsigned window; /* how many pieces may be under way */
    void *requests[CLQ_MESSAGE_PIECES_MAX];
} clq_message;
/* Posts the message's job. Errors: INTERNAL; then there is nothing to wait for. */
clq_status clq_world_begin_message(clq_world *world, clq_message *message);

/* Send host memory to rank `to`, which receives as many bytes with the same tag. clq_world_send returns when `data` may
 * be used again, clq_world_receive when `data` is complete. Any thread may call them, each with its own tag. Errors: as
 * clq_world_wait. */
clq_status clq_world_send(clq_world *world, unsigned to, unsigned tag, const void *data, size_t bytes,
                          double deadline_s /* 0: the world's */);
clq_status clq_world_receive(clq_world *world, unsigned from, unsigned tag, void *data, size_t bytes,
                             double deadline_s);

/* Copies rank 0's data (bytes) to all ranks. Collective. Errors: as clq_world_wait. */
clq_status clq_world_broadcast(clq_world *world, void *data, size_t bytes);

/* The engine's own all-reduce of floats, for comparisons. The world does nothing else meanwhile, not even heartbeats,
 * so it must not last longer than silence_s. Errors: UNSUPPORTED, and as clq_world_wait. After an error that has ended
 * the world, the engine may still use `in` and `out`. TIMEOUT: it is not done within 10 s. Then the process can only
 * end, since the world's thread does not come back. */
clq_status clq_world_engine_all_reduce(clq_world *world, const float *in, float *out, size_t count);

/* ---- ranks that are set apart ---- */

/* Tags of messages with ranks that are set apart. Nobody reserves them, since those ranks do not call
 * clq_world_new_tags. */
enum { CLQ_TAG_APART = 3, CLQ_TAGS_APART = 65 };
/* Takes back the ranks that are set apart. All ranks call it, at the same place in their order of collective
 * functions. */
void clq_world_take_back(clq_world *world);

/* ---- what all have alike (gather.c) ---- */

/* How many gathers, barriers, agreements and checks this rank has begun. A rank that fails compares it with an earlier
 * value: if the two are equal, the others still wait in the first of these. */
uint64_t clq_world_turns(const clq_world *world);
/* Checks that `value` is the same on all ranks. Collective. Errors: MISMATCH, on every rank: "rank 2 on n3 has another
 * WHAT than rank 0 on n1: …", and the world ends with this failure of rank 2; and as clq_world_gather. */
clq_status clq_world_agree(clq_world *world, const char *what, clq_hash128 value);

/* Checks that no rank has failed. status: this rank's, with the calling thread's failure. Collective. If ranks have
 * failed, the world ends with the failure of the lowest one: that rank gets its own status back, the others get
 * ABORTED, with its name and line. Other errors: as clq_world_gather. */
clq_status clq_world_check(clq_world *world, clq_status status);

/* ---- failure (notices.c) ---- */

/* Ends the world with the calling thread's failure, unless it has ended, and returns `status` with its detail. */
clq_status clq_world_fail_with(clq_world *world, clq_status status);

/* Ends the world with `why`, a failure of this rank, unless it has ended. Any thread may call it. */
void clq_world_fail(clq_world *world, const clq_error *why);
/* What ended the world, as this rank reports it; CLQ_OK: it has not failed. */
clq_status clq_world_failure(const clq_world *world);
/* For a world that has failed: the rank that failed, and its status as that rank reports it. ABORTED: that rank fell
 * silent without a report, or its program called clq_world_abort. */
unsigned clq_world_failed_rank(const clq_world *world);
clq_status clq_world_failed_status(const clq_world *world);
/* For a world that has failed: waits until a second after the failure if this rank failed, otherwise until 2.5 s after
 * it. A launcher ends all ranks once one has ended, so each rank gives the others time to say what they know. */
void clq_world_let_others_speak(const clq_world *world);

/* ---- launchers (launcher.c) ---- */

/* What the environment says about the launcher that started this process. */
typedef struct clq_launcher {
    const char *name;   /* "Open MPI's mpirun"; NULL: none started it */
    const char *engine; /* "openmpi", "mpich"; NULL: not known */
    bool is_of_engine;  /* under it processes of another MPI end in MPI_Init, with an error of that MPI */
    unsigned size;      /* number of processes; 0: not known */
    unsigned rank;      /* this process's number among them */
} clq_launcher;
clq_launcher clq_launcher_find(void);
/* engine.c: whether the library of an engine ("openmpi", "mpich") was built or installed beside this code. Loads
 * nothing. */
bool clq_engine_exists(const char *name);

#endif
