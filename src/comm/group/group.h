/* What the files of the public calls share: a group, the threads of its ranks, and the calls that they carry out.
 * group.c makes groups and issues calls. call.c checks what a call holds. pack.c lets small calls travel together.
 * split.c decides which ranks form which part of a group. shared.c holds what these parts share. */
#ifndef CLQ_COMM_GROUP_H
#define CLQ_COMM_GROUP_H

#include "comm/communicator.h"

/* Memory that clq_group_alloc made. */
typedef struct clq_group_memory {
    struct clq_group_memory *next;
    const clq_group *owner; /* the group whose caller allocated it */
    clq_buffer *buffer;
    atomic_uint holders; /* references: of the owner, and of each part of a call that uses it */
} clq_group_memory;

/* What a group and those that were split from it share. The last of them frees it. */
typedef struct clq_shared {
    atomic_uint groups;
    atomic_uint stuck;                     /* clq_build_limit.stuck, of the group's own limit */
    clq_device *devices[CLQ_REPLICAS_MAX]; /* [rank in the first group] */
    pthread_mutex_t lock;                  /* guards `memory` */
    pthread_mutex_t marking;               /* see clq_shared_mark */
    bool lock_made, marking_made;
    clq_group_memory *memory;
} clq_shared;

/* What one rank does in a call. */
typedef struct clq_part {
    clq_task task;                    /* its queue is the rank's own; in, out NULL: no input, no output */
    clq_group_memory *in_is, *out_is; /* clq_group_alloc made it; NULL: the caller's, wrapped for this call */
    clq_event *wait;                  /* the caller's event to wait for; NULL: none */
    clq_event *mark; /* end of the commands on the caller's queue when the call was issued; NULL: no such queue */
    clq_event *done; /* tells the caller that the part is done; NULL: the caller did not ask */
} clq_part;

/* One collective as it was issued. */
typedef struct clq_call {
    struct clq_call *next;   /* in the list that the call is in */
    struct clq_call *packed; /* calls that travel as this one, in the ranks' buckets; NULL: a caller's call */
    size_t at;               /* packed: its offset in the bucket, bytes */
    clq_task task;           /* without what differs between ranks */
    size_t bytes;
    bool blocks; /* the caller waits for it: no events were asked for, of it or of a call that it packs */
    bool held;   /* it waits for an event that the caller has yet to complete */
    unsigned size;
    unsigned first, total; /* clq_comm_first, clq_comm_total */
    unsigned running;      /* ranks that have not finished it */
    clq_part parts[];
} clq_call;

typedef struct clq_group_rank {
    clq_group *group;
    unsigned index;
    clq_device *device;       /* one of clq_shared.devices */
    clq_queue *queue;         /* the thread's own: commands that the caller enqueues meanwhile do not delay it */
    clq_queue *callers_queue; /* NULL: none */
    clq_buffer *bucket;       /* for packed calls; NULL until first needed */
    clq_call *next;           /* its current or next call; NULL: all its calls are done */
    clq_thread *thread;
} clq_group_rank;

struct clq_group {
    unsigned size;
    clq_shared *shared;
    clq_comm *comm;
    clq_group_rank *ranks;
    pthread_mutex_t lock; /* guards the list of issued calls */
    pthread_cond_t issued, idle;
    bool lock_made, issued_made, idle_made;
    clq_call *last;            /* of the list; clq_group_rank.next is each rank's position in it */
    size_t enlisted, finished; /* calls so far; they finish in order */
    size_t held;               /* unfinished calls that wait for the caller */
    bool closing;
    bool runs_in_caller; /* any rank's device does (clq_device_runs_in_caller) */
    /* For the caller's thread alone: */
    size_t bucket_bytes;
    bool started; /* between clq_group_start and clq_group_end */
    clq_call *noted, **noted_end;
};

/* ---- shared.c ---- */

/* Opens the ranks' devices. limit NULL: 120 s, and these devices are lost together. */
clq_status clq_shared_create(const clq_rank *ranks, unsigned count, const clq_build_limit *limit, clq_shared **out);
void clq_shared_release(clq_shared *shared); /* the last of its groups frees it */
/* Marks the end of the commands on the caller's queue of this rank. If the device runs commands in its caller, one
 * thread at a time does so: PoCL's basic device (3.1) deadlocks if two threads enqueue on one queue, and groups that
 * were split from one another share their callers' queues. */
clq_status clq_shared_mark(const clq_group_rank *rank, clq_event **out);
/* The memory with this handle on the rank's device, which the caller of this function releases. NULL: clq_group_alloc
 * did not make it. */
clq_group_memory *clq_memory_find(const clq_group *group, unsigned rank, cl_mem handle);
void clq_memory_release(clq_group_memory *own); /* any thread may call it; takes NULL */
void clq_memory_release_all(clq_group *group);  /* what the group's caller allocated and did not free */

/* ---- group.c ---- */

/* A group of these ranks: ranks[i] of `group` is rank i of *out. */
clq_status clq_group_make_part(const clq_group *group, const unsigned *ranks, unsigned count, clq_group **out);

/* ---- call.c ---- */

/* Takes the first call off a list. */
static inline clq_call *clq_call_take(clq_call **list) {
    clq_call *call = *list;
    *list = call->next;
    call->next = NULL;
    return call;
}
/* Checks the arguments and makes a call, which is not issued yet. */
clq_status clq_call_create(const clq_group *group, const clq_task *task, const clq_slice *in, const clq_slice *out,
                           const cl_event *waits, bool wants_done, clq_call **result);
void clq_call_destroy(clq_call *call); /* and the calls that it packs; takes NULL */
/* Completes the rank's events: of the call and of all that it packs. */
void clq_call_complete(const clq_call *call, unsigned rank, bool ok);
/* Whether the call waits for an event that the caller has yet to complete. */
bool clq_call_is_held(const clq_call *call);

/* ---- pack.c ---- */

/* Takes calls from the front of the list as long as they may travel together, at least one. *out: this one call, or a
 * call that packs all of them. */
clq_status clq_pack_take(clq_group *group, clq_call **list, clq_call **out);
/* The rank's thread copies the packed calls' inputs to the bucket, and the bucket to their outputs. */
clq_status clq_pack_fill(const clq_group_rank *rank, const clq_call *pack);
clq_status clq_pack_empty(const clq_group_rank *rank, const clq_call *pack);

#endif
