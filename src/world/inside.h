/* What the files of src/world share. */
#ifndef CLQ_WORLD_INSIDE_H
#define CLQ_WORLD_INSIDE_H

#include "world/world.h"

/* Tags of the world's own messages; the tags of its users follow. */
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
    unsigned apart; /* how many ranks take no part in collective functions: the last ones */
    const clq_engine *engine;
    const void *communicator;
    clq_thread *thread; /* NULL: this process is alone, without an engine */
    double silence_s, deadline_s;
    double last_words_s; /* scales the wait of clq_world_let_others_speak; 0: no wait */
    /* [rank]. Until the hosts are known this is `numbers`, in which only this rank's name has its host. Both lists
     * stay, since the thread may be reading either. */
    _Atomic(clq_rank_name *) names;
    clq_rank_name *numbers;
    unsigned next_tag;
    uint64_t turns; /* clq_world_turns */
    bool is_near;   /* all ranks are on one host */

    pthread_mutex_t lock;
    pthread_cond_t asked; /* for the thread: something was posted, or the world is to end */
    pthread_cond_t ended; /* for all other threads: a job is over, or `opened` or `gone` is set */
    bool locks_made;
    clq_job *posted;  /* under `lock`, in the order in which they were posted */
    bool closing;     /* under `lock`: the world is to close (clq_world_stop) */
    double leaves_at; /* under `lock`: when the engine began to close (clq_now_running); 0: it did not */
    bool gone;        /* under `lock`: the thread no longer uses the world */
    bool is_left;     /* under `lock`: nobody waits for the thread any more, so it frees the world */
    bool opened;      /* under `lock`: the engine is open, or `open_error` says why it is not */
    clq_error open_error;
    /* The thread that moves jobs forward holds `driving`: the world's thread or, if `takes_turns`, a thread that waits
     * for its own job. is_busy: the world's thread has jobs. is_wanted: the world's thread waits for its turn. */
    pthread_mutex_t driving;
    bool takes_turns;
    atomic_bool is_busy, is_wanted;
    atomic_bool failed; /* set once `failure` and `failed_rank` are fixed */
    clq_error failure;  /* as this rank reports it */
    clq_error told;     /* as the rank that failed reports it, and as the others are told */
    unsigned failed_rank;
    clq_rank_name failed_name;
    double failed_at; /* clq_now */

    /* Only the world's thread uses these members. A thread that has its turn uses `link`, too. */
    void *link;
    clq_job *active;
    clq_neighbor *neighbors;
    unsigned neighbor_count;
    double beat_at, looked_at; /* the next heartbeat; the last look at what came (clq_now_running) */
    double moved_at;           /* when a job last moved (clq_now) */
};

/* world.c: makes the names of all `size` ranks; only this rank's name has its host. */
clq_status clq_world_make_numbers(clq_world *world);

/* engine.c: chooses and loads the engine. The config names it; otherwise the environment does, then the MPI of the
 * program's communicator, then the launcher. *out NULL: no engine, this process is alone. Errors: NOT_FOUND,
 * UNSUPPORTED, FORMAT. */
clq_status clq_engine_choose(const clq_world_config *config, const clq_launcher *launcher, const clq_engine **out);

/* launcher.c: fails with UNSUPPORTED, because the launcher's processes cannot meet by this engine. */
clq_status clq_launcher_refuse(const clq_launcher *launcher, const char *engine);

/* progress.c: starts the thread of a world that has its locks. Returns when the engine is open, with `rank` and `size`
 * set. Errors: the engine's, SYSTEM, MEMORY; then there is no thread. */
clq_status clq_world_start(clq_world *world);
/* Ends the thread and closes the engine. Before that all ranks have come this far, or the world has failed. False: the
 * engine does not return. Then the thread is left behind, and frees the world if the engine ever returns. */
bool clq_world_stop(clq_world *world);
/* world.c: frees the world, after its thread's last use of it. */
void clq_world_release(clq_world *world);
/* progress.c: returns SYSTEM for an engine's error, with the detail "Open MPI: DOING: …". */
clq_status clq_world_engine_failed(clq_world *world, const char *doing, int error);

/* notices.c: called by the world's thread. */
clq_status clq_notices_open(clq_world *world);
/* Tells the neighbors that this rank lives, if a heartbeat is due, and takes their notices. Ends the world if a
 * neighbor was silent for too long. */
clq_status clq_notices_advance(clq_world *world);
/* If this rank waits for `rank`: the rank that all wait for in the end. */
unsigned clq_notices_culprit(const clq_world *world, unsigned rank);
/* Tells all neighbors what ended the world. Waits only for a moment until that is sent. */
void clq_notices_tell_failure(clq_world *world);
/* Tells all neighbors that this rank leaves, and waits until each has said that it leaves, too. False: some did not
 * within some seconds, or the world has failed. */
bool clq_notices_close(clq_world *world);
void clq_notices_free(clq_world *world);
/* Ends the world with a failure of `rank`, unless the world has ended already. name: the rank's. why: as that rank
 * reports it. */
void clq_world_fail_of(clq_world *world, unsigned rank, const char *name, const clq_error *why);

#endif
