/* What the files of comm share: a crew's members (one per rank), its links (from each rank to the next), and how a
 * collective begins and ends. Everything that a member or one end of a link owns is touched by that rank's thread
 * alone; what crosses threads does so through a gate, a barrier or the crew's failure. */
#ifndef CLQ_COMM_CREW_H
#define CLQ_COMM_CREW_H

#include "comm/comm.h"
#include "comm/gate.h"
#include "comm/reduce.h"

/* Parts of a buffer begin at multiples of this many bytes: no cache line and no vector is shared by two ranks. */
enum { CLQ_PART_ALIGN = 64 };

typedef enum clq_collective { CLQ_BARRIER, CLQ_ALL_REDUCE, CLQ_BROADCAST } clq_collective;

/* What a rank has come to do. Written by its thread before the first meeting of a collective, read by all until the
 * last one. */
typedef struct clq_call {
    clq_collective collective;
    clq_queue *queue;
    clq_buffer *in, *out; /* broadcast: the same */
    size_t in_offset, out_offset, bytes;
    clq_dtype dtype;
    unsigned root;
    void *in_host, *out_host; /* direct: where the host sees the two ranges */
} clq_call;

typedef struct clq_member {
    _Alignas(64) clq_call call;
    clq_device *device;
    atomic_size_t meetings;       /* barriers that it has reached: who is late */
    double until;                 /* the deadline of the collective that it is in */
    double begun;                 /* when all ranks had come to it */
    atomic_uint_fast64_t busy_ns; /* in collectives, from there on, since the crew was made */
    unsigned step;                /* where it is in a ring, for messages */
    size_t chunk;
    bool in_is_mapped, out_is_mapped;

    /* Ring only. */
    clq_queue *up, *down;
    clq_kernel *add;
    size_t add_items;    /* work-items that it is launched with */
    clq_buffer *scratch; /* a chunk per slot of the link that leads here */
    clq_event **ready;   /* [chunk]: when what was received last there may be sent on */
    size_t ready_capacity;
} clq_member;

typedef struct clq_slot {
    char *host;        /* staged: its part of the link's pinned memory */
    clq_event *filled; /* the sender's last command on it; the sender destroys it when it fills the slot again */
    clq_event *freed;  /* the receiver's last command on it; the sender destroys it too */
} clq_slot;

/* From one rank to the next. Slots are used round and round; the gates count those that were filled and freed. */
typedef struct clq_link {
    clq_gate filled, freed;
    bool gates_made;
    clq_transport transport; /* STAGED or PEER */
    const char *reason;      /* why this one, for explain */
    unsigned from, to;
    clq_buffer *pinned;
    clq_slot *slots;
    unsigned slot_count;
    _Alignas(64) size_t sent; /* by the sender alone */
    _Alignas(64) size_t received;
} clq_link;

struct clq_crew {
    unsigned size;
    clq_algorithm algorithm;
    const char *reason; /* why this one, for explain */
    size_t chunk_bytes;
    unsigned slots;
    double deadline_s;
    clq_member *members;
    clq_link *links; /* links[r]: from r to the rank after it; NULL where nothing is sent */
    clq_barrier *barrier;
    clq_reduce_f32 *reduce;
    atomic_uint inside; /* ranks that may touch others' memory: nobody leaves a failed collective before them */

    pthread_mutex_t lock; /* for writing `failure`; it is fixed once `failed` is set */
    bool lock_made;
    atomic_bool failed;
    clq_error failure;
};

/* crew.c */
clq_status clq_crew_begin(clq_crew *crew, unsigned rank, const clq_call *call);
clq_status clq_crew_end(clq_crew *crew, unsigned rank, clq_status status);
/* All ranks meet. `what` names what a late one is late for. */
clq_status clq_crew_meet(clq_crew *crew, unsigned rank, const char *what);
/* Waits until what was enqueued on the queue is done, as long as the member's deadline allows. */
clq_status clq_member_drain(clq_crew *crew, unsigned rank, clq_queue *queue);
/* Waits for an event of another rank's or of this one's, within the same limits. */
clq_status clq_member_wait(clq_crew *crew, unsigned rank, clq_event *event);
/* What is enqueued on the rank's queue from now on starts after the event. On a device that runs in its caller the host
 * waits: PoCL 3.1's basic device does not wait for an event that is not complete, or deadlocks when it completes. */
clq_status clq_member_order(clq_crew *crew, unsigned rank, clq_queue *queue, clq_event *event);
/* Where one of `parts` equal parts of `bytes` begins (and the one before it ends); trailing parts may be empty. */
size_t clq_part_begin(unsigned part, unsigned parts, size_t bytes);

/* plan.c: decides how bytes move and makes what that needs. */
clq_status clq_crew_plan(clq_crew *crew, const clq_group_config *config);

/* direct.c */
/* Makes the rank's memory visible to the host, and takes that back. */
clq_status clq_direct_acquire(clq_crew *crew, unsigned rank);
clq_status clq_direct_release(clq_crew *crew, unsigned rank);
void clq_direct_all_reduce(clq_crew *crew, unsigned rank);
void clq_direct_broadcast(clq_crew *crew, unsigned rank);

/* ring.c */
clq_status clq_ring_all_reduce(clq_crew *crew, unsigned rank);
clq_status clq_ring_broadcast(clq_crew *crew, unsigned rank);

/* link.c */
clq_status clq_link_open(clq_crew *crew, clq_link *link);
void clq_link_close(clq_link *link);
/* The next chunk of `bytes` at `offset` of the message leaves the sender, out of `call->in` or (`from_out`)
 * `call->out`, once `after` (may be NULL) is complete. `added` says what the receiver will do with it. */
clq_status clq_link_send(clq_crew *crew, clq_link *link, bool from_out, size_t offset, size_t bytes, bool added,
                         clq_event *after);
/* The next chunk arrives: in + chunk goes to out (`added`), or the chunk itself. *done: when it has. */
clq_status clq_link_receive(clq_crew *crew, clq_link *link, size_t offset, size_t bytes, bool added, clq_event **done);
/* Whether a pattern sent over it arrives. */
clq_status clq_link_test(clq_crew *crew, clq_link *link, bool *ok);

#endif
