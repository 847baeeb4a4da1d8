/* What the files of world share. */
#ifndef CLQ_WORLD_INSIDE_H
#define CLQ_WORLD_INSIDE_H

#include "world/world.h"

/* Tags of the world's own messages; those of its users follow. */
enum {
    CLQ_TAG_NOTICE,
    CLQ_TAG_GATHER,
    CLQ_TAG_BROADCAST,
    CLQ_TAG_FIRST_FREE = (int)CLQ_TAG_APART + (int)CLQ_TAGS_APART
};
_Static_assert((int)CLQ_TAG_BROADCAST < (int)CLQ_TAG_APART, "each tag has one user");
enum { CLQ_TAGS_MAX = 32768 };

enum { CLQ_HOST_NAME_MAX = 64, CLQ_RANK_NAME_MAX = CLQ_HOST_NAME_MAX + 24 };
typedef struct clq_rank_name {
    char text[CLQ_RANK_NAME_MAX]; /* "rank 2 on n3" */
    char host[CLQ_HOST_NAME_MAX]; /* "n3"; "": not known yet */
} clq_rank_name;

typedef struct clq_neighbor clq_neighbor; /* notices.c */

struct clq_world {
    unsigned rank, size;
    unsigned apart; /* the last so many ranks take no part in collective functions */
    const clq_engine *engine;
    const void *communicator;
    clq_thread *thread; /* NULL: alone, without an engine */
    double silence_s, deadline_s;
    double last_words_s; /* between a failure and the end of closing */
    /* [rank]. Until the hosts are known: `numbers`, in which only this rank's name has its host. Both lists stay, since
     * the thread may be reading one. */
    _Atomic(clq_rank_name *) names;
    clq_rank_name *numbers;
    unsigned next_tag;
    uint64_t turns; /* clq_world_turns */
    bool is_near;   /* all ranks are on one host */

    pthread_mutex_t lock;
    pthread_cond_t asked; /* for the thread: something was posted, or the world is to end */
    pthread_cond_t ended; /* for all others: a job is over, or `opened` is set */
    bool locks_made;
    clq_job *posted;  /* by `lock`, the first to be taken first */
    bool closing;     /* by `lock`: all ranks want to close */
    double leaves_at; /* by `lock`: since when the engine is closing (clq_now_running); 0: it is not */
    bool gone;        /* by `lock`: the thread uses the world no more */
    bool is_left;     /* by `lock`: nobody waits for the thread any more: it frees the world */
    bool opened;      /* by `lock`: the engine is open, or `open_error` says why it is not */
    clq_error open_error;
    /* Whoever calls the engine has `driving`, if it takes turns: the thread, or one that waits for its own job.
     * is_busy: the thread has jobs. is_wanted: it waits for its turn. */
    pthread_mutex_t driving;
    bool takes_turns;
    atomic_bool is_busy, is_wanted;
    atomic_bool failed; /* set once `failure` and `failed_rank` are fixed */
    clq_error failure;  /* as this rank reports it */
    clq_error told;     /* as the rank that failed has it, which is told to the others */
    unsigned failed_rank;
    clq_rank_name failed_name;
    double failed_at; /* clq_now */

    /* The thread's alone: */
    void *link;
    clq_job *active;
    clq_neighbor *neighbors;
    unsigned neighbor_count;
    double beat_at, looked_at; /* the next heartbeat; the last look at what came (clq_now_running) */
    double moved_at;           /* when a job last moved (clq_now) */
};

/* world.c: names of all ranks, as many as `size`; only this rank's has its host. */
clq_status clq_world_make_numbers(clq_world *world);

/* engine.c: the engine that the config names, or the environment, or the launcher, or the MPI that the program's
 * communicator is of. NULL: none, this process is alone. Errors: NOT_FOUND, UNSUPPORTED. */
clq_status clq_engine_choose(const clq_world_config *config, const clq_launcher *launcher, const clq_engine **out);

/* launcher.c: the failure of a launcher that starts no processes of this engine. */
clq_status clq_launcher_refuse(const clq_launcher *launcher, const char *engine);

/* progress.c: the thread, with the world open as far as `locks_made`. Returns when the engine is open, with `rank` and
 * `size` set. Errors: the engine's, SYSTEM, MEMORY; then there is no thread. */
clq_status clq_world_start(clq_world *world);
/* Ends the thread, and the engine with it. All ranks have come this far, or the world has failed. False: the engine
 * does not return; then the thread is left behind, and frees the world if it ever does. */
bool clq_world_stop(clq_world *world);
/* world.c: the world's memory, behind its thread's last use. */
void clq_world_release(clq_world *world);
/* Makes the status and the detail of an engine's error: "Open MPI: DOING: …". */
clq_status clq_world_engine_failed(clq_world *world, const char *doing, int error);

/* notices.c: by the thread. */
clq_status clq_notices_open(clq_world *world);
/* Tells others that this rank lives, if it is time to, and listens. A rank that was not heard of ends the world. */
clq_status clq_notices_advance(clq_world *world);
/* Whom the others wait for if this rank waits for `rank`. */
unsigned clq_notices_culprit(const clq_world *world, unsigned rank);
/* Tells all neighbors what ended the world; waits for them for a moment. */
void clq_notices_tell_failure(clq_world *world);
/* Tells all neighbors that this rank leaves, and waits until each has said so. False: not within some seconds, or the
 * world has failed. */
bool clq_notices_close(clq_world *world);
void clq_notices_free(clq_world *world);
/* Ends the world with `why`, as the rank that failed has it, unless it has ended already. name: that rank's. */
void clq_world_fail_of(clq_world *world, unsigned rank, const char *name, const clq_error *why);

#endif
