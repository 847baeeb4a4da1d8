/* What the files of comm share: a communicator's members (one per rank), its links (from each rank to the next), and
 * how a collective begins and ends. Everything that a member or one end of a link owns is touched by that rank's thread
 * alone; what crosses threads does so through a gate, a barrier or the communicator's failure. */
#ifndef CLQ_COMM_COMMUNICATOR_H
#define CLQ_COMM_COMMUNICATOR_H

#include "comm/comm.h"
#include "comm/link/gate.h"
#include "comm/reduce/combine.h"
#include "comm/reduce/reduce.h"

/* A rank's task, and what follows from it. Written by the rank's thread before the first meeting of a collective, read
 * by all ranks until the last meeting. */
typedef struct clq_work {
    clq_task task;
    clq_algorithm algorithm;
    size_t bytes, in_bytes, out_bytes;
    char *in_host, *out_host; /* direct, or a hosted member's: where the host sees the two ranges */
    char *mapping;            /* of the output, or of both */
    bool in_is_mapped, out_is_mapped;
} clq_work;

/* The uses of queues by a rank that works by commands. Uploads, its own work and downloads overlap on three queues, but
 * every hand-over between queues needs an event and a flush. Where a walk moves few bytes that costs more than it
 * saves: then all three lanes are the caller's queue (clq_member.one_queue). */
typedef enum clq_lane_name { CLQ_LANE_UP, CLQ_LANE_OWN, CLQ_LANE_DOWN, CLQ_LANES } clq_lane_name;
typedef struct clq_lane {
    clq_queue *queue;
    bool unflushed;  /* commands were enqueued since the last flush */
    clq_event *last; /* of the last command; NULL: there was none in this phase */
} clq_lane;

typedef struct clq_member {
    _Alignas(64) clq_work work;
    clq_comm *comm;
    unsigned rank;  /* in it */
    unsigned world; /* its rank in the family's first communicator: messages name it by this number */
    clq_device *device;
    bool hosted;                    /* its thread works on its memory by itself, not by commands */
    atomic_size_t meetings;         /* barriers that it has reached; tells which rank is late */
    atomic_size_t taken;            /* direct: bytes of its part that any rank has begun */
    double until;                   /* deadline of its present collective; clq_now_running */
    double begun;                   /* arrival of the last rank at the collective */
    atomic_uint_fast64_t busy_ns;   /* in collectives, from there on, since the communicator was made */
    atomic_uint_fast64_t waited_ns; /* from its own arrival to there */
    unsigned step;                  /* where it is in a schedule, for messages */
    size_t chunk;

    clq_event *drained; /* marker of the last drain; used again by the next */
    clq_event *copied;  /* of the last copy from its own input to its own output */

    /* For schedules only. Hosted: */
    char *aside; /* CLQ_PLACE_WORK; grows */
    size_t aside_bytes;
    /* Not hosted: */
    clq_queue *up, *down; /* uploads, downloads */
    bool one_queue;       /* in this walk */
    clq_lane lanes[CLQ_LANES];
    clq_kernel *combine[CLQ_DTYPE_COUNT][CLQ_REDOP_COUNT]; /* f32 sums at once, others when needed */
    clq_buffer *passing;                                   /* CLQ_PLACE_WORK; grows */
    clq_event **ready;                                     /* [chunk]: of what was received last there */
    size_t ready_capacity;
} clq_member;

enum { CLQ_SLOTS_MAX = 64 }; /* of a link */
typedef struct clq_slot {
    char *outgoing; /* its part of the sender's staging memory */
    char *incoming; /* its part of the receiver's, where that works by commands */
    const char *at; /* staged, mapped: where the chunk is: in `outgoing`, or in a hosted sender's own memory */
    /* Peer: an object of its own for every slot, since a driver may move an object as a whole from the device that used
     * it last. The sender writes it, then the receiver reads it, then the sender writes it again: never both at once.
     */
    clq_buffer *landing;
    clq_event *filled; /* by the sender's command; NULL: by the host. The sender's to replace at the next use */
    clq_event *freed;  /* peer: by the receiver's last command on `landing`. The sender's once the gate is raised */
    /* The receiver's alone: its last command on `incoming`, and its last on `landing` or the scratch. */
    clq_event *uploaded, *used;
} clq_slot;

/* Seconds that a transfer or collective takes: alpha + beta * bytes. alpha 0: unknown. */
typedef struct clq_cost {
    double alpha_s, beta_s;
} clq_cost;

/* From one rank to another. Slots are used round and round; the gates count those that were filled and freed. */
typedef struct clq_link {
    clq_gate filled, freed;
    clq_transport transport;             /* AUTO: for every chunk the cheaper one by `costs` */
    clq_cost costs[CLQ_TRANSPORT_COUNT]; /* those that were measured */
    const char *reason;                  /* why this one, for explain */
    clq_member *from, *to;
    clq_buffer *outgoing, *incoming; /* staging memory, pinned for the sender and for the receiver: those by commands */
    char *aside;                     /* a hosted sender's copies of what it is about to overwrite */
    clq_buffer *scratch; /* on a receiver by commands, a chunk per slot: staged chunks that are to be combined */
    clq_slot *slots;
    unsigned slot_count;
    /* Counts of chunks: those for which commands were enqueued, and those that the other rank was told of. By the
     * sender alone: */
    _Alignas(64) size_t sent;
    size_t sent_told;
    /* By the receiver alone: */
    _Alignas(64) size_t received;
    size_t received_told;
} clq_link;

/* A communicator, the communicators split from it and from these, and the pairs of their ranks. They fail together: a
 * rank that is lost is lost to every communicator that it is in, and whoever waits for that communicator waits in vain.
 */
typedef struct clq_family {
    pthread_mutex_t lock; /* of the list, of the places of links, and for writing `failure` */
    clq_comm *comms;      /* linked by clq_comm.next; the family ends with its last communicator */
    atomic_bool failed;   /* set once `failure` and `failed_at` are fixed */
    clq_error failure;
    double failed_at; /* clq_now_running */
} clq_family;

struct clq_comm {
    clq_family *family;
    clq_comm *next; /* in the family's list */
    unsigned size;
    clq_group_config config; /* as it was given */
    clq_algorithm algorithm; /* AUTO: what choose.c finds best for each size */
    clq_transport transport;
    bool measured; /* the costs are */
    clq_cost costs[CLQ_ALGORITHM_COUNT];
    const char *reason; /* why direct, or why not; for explain */
    size_t chunk_bytes;
    unsigned slots;
    double deadline_s;
    clq_islands islands;
    clq_member *members;
    /* [from * size + to]; made when first needed, before all meet: by the sender, or by who issues its next calls,
     * while the ranks walk over others. */
    _Atomic(clq_link *) *links;
    clq_barrier *barrier;
    atomic_uint
        inside; /* ranks that may touch others' memory: no rank leaves a failed collective while there are any */
    /* For send/recv, [lower * size + higher]: two ranks as a communicator of their own, or one; made when first needed.
     */
    _Atomic(clq_comm *) *pairs;
    pthread_mutex_t pairs_lock; /* for making them */
    bool pairs_lock_made;
    struct clq_wide *wide; /* it spans the processes of a world: wide.h. NULL: this process's ranks are all */
};

/* family.c */
clq_status clq_family_create(clq_comm *comm); /* of this communicator alone */
/* Moves a communicator that nobody knows yet out of its own family and into another. Errors: ABORTED: that one has
 * failed. */
clq_status clq_family_join(clq_family *family, clq_comm *comm);
void clq_family_leave(clq_comm *comm);
/* Whether `why` is the first failure; then all who wait are woken. */
bool clq_family_fail(clq_family *family, const clq_error *why);
/* What a rank reports that did not fail itself: ABORTED, with the first failure's detail. */
clq_status clq_family_raise(const clq_family *family);

/* communicator.c */
/* A communicator in a family of its own. devices, worlds: one per rank; worlds NULL: the ranks'. A pair needs a plan
 * and queues for its links; any other also the ring's links, the most usual kernel, what the algorithms cost, and room
 * for pairs. */
clq_status clq_comm_make(clq_device *const *devices, const unsigned *worlds, unsigned count,
                         const clq_group_config *config, bool is_pair, clq_comm **out);
/* As clq_comm_run, among the ranks of this process. */
clq_status clq_comm_run_here(clq_comm *comm, unsigned rank, const clq_task *call);
/* Whether the processes that it spans have as many ranks as the collective needs. Errors: UNSUPPORTED. */
clq_status clq_comm_check_spread(const clq_comm *comm, clq_collective collective);
/* The end of what a CLQ_ERROR_TIMEOUT says, behind which rank did not do what; its argument is deadline_s. */
#define CLQ_LATE " within the deadline of %g s (deadline_s)"
/* A task's type, operation (UNSUPPORTED: the type has none), ranks and count; *bytes: the count's. Then its offsets,
 * and whether so many bytes from there lie in its buffers; 0 bytes: that buffer is not looked at. fault: what a mistake
 * is: ARGUMENT in a caller's task, INTERNAL in our own. */
clq_status clq_task_check(const clq_task *task, unsigned ranks, clq_status fault, size_t *bytes);
clq_status clq_task_check_ranges(const clq_task *task, clq_status fault, size_t in_bytes, size_t out_bytes);
/* Drains the queue: waits until its commands are done, at most until the member's deadline. */
clq_status clq_member_drain(clq_member *member, clq_queue *queue);
/* Waits for an event of this or another rank, at most until the member's deadline. The event's queue was flushed. */
clq_status clq_member_wait(const clq_member *member, clq_event *event);

/* split.c: the communicator that carries out a task, and the task there. A send/recv: the communicator of its two
 * ranks; all others: this communicator. */
clq_status clq_comm_route(clq_comm *comm, const clq_task *task, clq_comm **by, clq_task *there);

/* plan.c: what the config allows. */
clq_status clq_comm_plan(clq_comm *comm);

/* choose.c: which algorithm a call gets: the same on every rank. */
/* For AUTO over links: looks up what the candidates cost, or measures and stores it. The communicator is complete, and
 * no rank is in a collective. */
clq_status clq_comm_measure(clq_comm *comm);
clq_algorithm clq_comm_choose(const clq_comm *comm, clq_collective collective, size_t bytes);
void clq_comm_explain_choice(const clq_comm *comm, clq_text *text);

/* mapping.c: makes a rank's memory visible to the host, and takes that back. */
clq_status clq_member_map(clq_member *member);
clq_status clq_member_unmap(clq_member *member);

/* direct.c. ABORTED: not all was done, because the communicator has failed. */
clq_status clq_direct_run(clq_comm *comm, unsigned rank);

/* walk.c: carries out a schedule. */
/* Before all meet: links to those that the rank will send to, kernels, memory. */
clq_status clq_walk_prepare(clq_member *member);
/* Makes what a collective needs and does not have yet, its links and kernels, for all ranks: before it, since compiling
 * and testing heed no deadline. By the one thread that issues the communicator's collectives. */
clq_status clq_walk_prepare_all(clq_comm *comm, const clq_task *task);
clq_status clq_walk_prepare_here(clq_comm *comm, const clq_task *task); /* of a collective of this process's ranks */
/* Makes a reduction's kernel, unless it is there: before the collective, since compiling heeds no deadline. By any
 * thread, if the rank has no call of that type and operation or the kernel was there before it. */
clq_status clq_walk_build(clq_member *member, clq_dtype dtype, clq_redop op);
clq_status clq_walk(clq_member *member);

/* lane.c: the queues of a rank by commands during a walk. */
void clq_member_open_lanes(clq_member *member, bool one_queue);
clq_queue *clq_member_queue(const clq_member *member, clq_lane_name name);
/* An event of the rank's own, as commands on another lane have to wait for it: NULL where there is one queue. */
clq_event *clq_member_own_event(const clq_member *member, clq_event *event);
/* *out: a command that waits for two events, which may be NULL. On a device that runs in its caller the host waits, and
 * *out is empty: PoCL 3.1's basic device does not wait for an event that is not complete, or deadlocks when it
 * completes. */
clq_status clq_member_order(const clq_member *member, clq_event *first, clq_event *second, clq_order *out);
/* Behind a command on the lane, whose event is `event`. */
clq_status clq_member_enqueued(clq_member *member, clq_lane_name name, clq_event *event);
/* Flushes the rank's commands, and reports to the other ranks the chunks that these fill and free. To be called before
 * any wait for another rank, which may be waiting for these chunks. */
clq_status clq_member_hand_over(clq_member *member);
/* Waits until all that was enqueued on the lanes is done. */
clq_status clq_member_drain_lanes(clq_member *member);

/* link.c */
clq_status clq_link_create(clq_member *from, clq_member *to, clq_link **out);
void clq_link_destroy(clq_link *link); /* takes NULL */
/* Before all meet, by the sender: chunks will be exchanged over it (clq_departure). */
clq_status clq_link_prepare_exchange(clq_link *link);
/* The transport of a chunk of this size. */
clq_transport clq_link_transport(const clq_link *link, size_t bytes);

/* Memory of a rank: hosted, where the host sees it; else a place in a buffer. */
typedef struct clq_spot {
    char *host;
    clq_place_at place;
} clq_spot;

/* A chunk that the sender sends. */
typedef struct clq_departure {
    clq_spot from;
    size_t bytes;
    bool exchanged;   /* the sender will receive into this memory: the receiver may not read it there */
    clq_event *after; /* completes when the chunk is ready to be sent; NULL: it is ready */
} clq_departure;
/* *sent: event of the command that sends the chunk, owned by the link until its next use; NULL: the chunk was sent. */
clq_status clq_link_send(clq_link *link, const clq_departure *chunk, clq_event **sent);

/* A chunk that the receiver receives. */
typedef struct clq_arrival {
    clq_spot to;
    size_t bytes;
    bool combined, last; /* combined with operand; last: the sum is complete, and an average is taken of it */
    bool came_first;     /* what came op operand, else operand op what came */
    clq_spot operand;
    clq_event *after; /* combined: not before this is complete; may be NULL */
} clq_arrival;
/* *ready: of the last command that brings it there, in the place of *ready; a hosted receiver leaves it alone. */
clq_status clq_link_receive(clq_link *link, const clq_arrival *chunk, clq_event **ready);

/* probe.c: of a link whose memory is all there, and whose ends share a context. */
/* Whether peer copies over it arrive, and memory that both devices write at the same time keeps what each wrote. */
clq_status clq_link_test_peer(clq_link *link, bool *ok);
/* What a chunk costs by way of staged slots and as a peer copy, until a kernel of the receiver has used it; measured
 * once for the two devices and their drivers and kept with the built kernels. */
clq_status clq_link_measure(clq_link *link);

#endif
