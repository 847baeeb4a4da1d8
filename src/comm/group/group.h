/* What the files of the public calls share: a group, the threads of its ranks, and the calls on their way through them.
 * group.c makes groups and issues calls, call.c knows what a call holds, pack.c lets small ones travel together,
 * split.c knows who belongs to which part of a group, shared.c holds what these share. */
#ifndef CLQ_COMM_GROUP_H
#define CLQ_COMM_GROUP_H

#include "comm/communicator.h"

/* Memory that clq_group_alloc made. */
typedef struct clq_group_memory {
    struct clq_group_memory *next;
    const clq_group *owner; /* whose caller had it made */
    clq_buffer *buffer;
    atomic_uint holders; /* the owner, and each part of a call that uses it */
} clq_group_memory;

/* What a group and those that are split from it share. Ends with the last of them. */
typedef struct clq_shared {
    atomic_uint groups;
    atomic_uint stuck;                     /* of clq_build_limit */
    clq_device *devices[CLQ_REPLICAS_MAX]; /* of the first group's ranks */
    pthread_mutex_t lock;                  /* of the list */
    pthread_mutex_t marking;               /* see clq_shared_mark */
    bool lock_made, marking_made;
    clq_group_memory *memory;
} clq_shared;

/* What one rank does in a call. */
typedef struct clq_part {
    clq_task task;                    /* on its thread's queue; in, out NULL: it has no part there */
    clq_group_memory *in_is, *out_is; /* made by clq_group_alloc; NULL: the caller's, wrapped for this call */
    clq_event *wait;                  /* the caller's; NULL: none */
    clq_event *mark; /* end of the commands on the rank's queue when the call was issued; NULL: there were none */
    clq_event *done; /* NULL: the caller did not ask */
} clq_part;

/* One collective as it was issued. */
typedef struct clq_call {
    struct clq_call *next;   /* in the list that it stands in */
    struct clq_call *packed; /* those that travel as this one, in the ranks' buckets; NULL: it is one of the caller's */
    size_t at;               /* packed: where in the bucket, bytes */
    clq_task task;           /* without what differs between ranks */
    size_t bytes;
    bool blocks; /* the caller asked for no events, of it or of one that it packs: it waits for the call */
    bool held;   /* it waits for an event that the caller is to complete */
    unsigned size;
    unsigned first, total; /* of clq_comm_first and clq_comm_total */
    unsigned running;      /* ranks that are not done with it */
    clq_part parts[];
} clq_call;

typedef struct clq_group_rank {
    clq_group *group;
    unsigned index;
    clq_device *device;       /* one of clq_shared.devices */
    clq_queue *queue;         /* the thread's own: commands that the caller enqueues meanwhile do not delay it */
    clq_queue *callers_queue; /* NULL: none */
    clq_buffer *bucket;       /* of what is packed; made when first needed */
    clq_call *next;           /* its present or next call; NULL: all calls are done */
    clq_thread *thread;
} clq_group_rank;

struct clq_group {
    unsigned size;
    clq_shared *shared;
    clq_comm *comm;
    clq_group_rank *ranks;
    pthread_mutex_t lock; /* of the list of issued calls */
    pthread_cond_t issued, idle;
    bool lock_made, issued_made, idle_made;
    clq_call *last;            /* of the list; each rank knows where it stands */
    size_t enlisted, finished; /* calls in all; they finish in order */
    size_t held;               /* of those under way: how many wait for the caller */
    bool closing;
    bool runs_in_caller; /* the device of a rank does (clq_device_runs_in_caller) */
    /* The caller's thread's alone: */
    size_t bucket_bytes;
    bool started; /* between clq_group_start and clq_group_end */
    clq_call *noted, **noted_end;
};

/* ---- shared.c ---- */

/* Opens the devices. limit: NULL: 120 s, and they are lost together. */
clq_status clq_shared_create(const clq_rank *ranks, unsigned count, const clq_build_limit *limit, clq_shared **out);
void clq_shared_release(clq_shared *shared); /* the last of its groups frees it */
/* Marks the end of the commands on the rank's caller's queue. One at a time where commands run in their caller: PoCL's
 * basic device (3.1) deadlocks where two threads enqueue on one queue, and groups that were split from one another have
 * their callers' queues in common. */
clq_status clq_shared_mark(const clq_group_rank *rank, clq_event **out);
/* Memory of this handle on the rank's device, to be released; NULL: it was not made by clq_group_alloc. */
clq_group_memory *clq_memory_find(const clq_group *group, unsigned rank, cl_mem handle);
void clq_memory_release(clq_group_memory *own); /* by any thread; takes NULL */
void clq_memory_release_all(clq_group *group);  /* what the group's caller had made and did not free */

/* ---- group.c ---- */

/* A group of these ranks: ranks[i] of `group` is rank i of *out. */
clq_status clq_group_make_part(const clq_group *group, const unsigned *ranks, unsigned count, clq_group **out);

/* ---- call.c ---- */

/* The first of a list, taken off it. */
static inline clq_call *clq_call_take(clq_call **list) {
    clq_call *call = *list;
    *list = call->next;
    call->next = NULL;
    return call;
}
/* Checks the arguments and makes a call that is not issued yet. */
clq_status clq_call_create(const clq_group *group, const clq_task *task, const clq_slice *in, const clq_slice *out,
                           const cl_event *waits, bool wants_done, clq_call **result);
void clq_call_destroy(clq_call *call); /* takes NULL; what it packs, too */
/* The rank's events: of the call and of what it packs. */
void clq_call_complete(const clq_call *call, unsigned rank, bool ok);
/* Whether it waits for an event that the caller is yet to complete. */
bool clq_call_is_held(const clq_call *call);

/* ---- pack.c ---- */

/* Takes calls from the front of the list as long as they may travel together, at least one: *out is that one, or a call
 * that packs them. */
clq_status clq_pack_take(clq_group *group, clq_call **list, clq_call **out);
/* By the rank's thread: from the members' inputs to the bucket, and from there to their outputs. */
clq_status clq_pack_fill(const clq_group_rank *rank, const clq_call *pack);
clq_status clq_pack_empty(const clq_group_rank *rank, const clq_call *pack);

#endif
