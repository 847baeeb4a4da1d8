/* What the files of comm share: a communicator's members (one per rank), its links (from one rank to another), and how
 * a collective begins and ends. Only a rank's own thread touches what its member owns, or its end of a link. What
 * crosses threads goes through a gate, a barrier or the communicator's failure. */
#ifndef CLQ_COMM_COMMUNICATOR_H
#define CLQ_COMM_COMMUNICATOR_H

#include "comm/comm.h"
#include "comm/link/gate.h"
#include "comm/reduce/combine.h"
#include "comm/reduce/reduce.h"

/* A rank's task, and what the rank derives from it. The rank's thread writes it before the first meeting of a
 * collective; all ranks may read it until the last meeting. */
typedef struct clq_work {
    clq_task task;
    clq_algorithm algorithm;
    size_t bytes, in_bytes, out_bytes;
    char *in_host, *out_host; /* the host's pointers to the two ranges; only for direct, or if the member is hosted */
    char *mapping;            /* the host's pointer to the output's range, or to one that contains both ranges */
    bool in_is_mapped, out_is_mapped;
} clq_work;

/* What a rank that works by commands uses queues for. On three queues, uploads, the rank's own kernels and copies, and
 * downloads overlap. But each dependency between two queues needs an event and a flush. If a walk moves few bytes, this
 * costs more than the overlap saves: all three lanes are then the caller's queue (clq_member.one_queue). */
typedef enum clq_lane_name { CLQ_LANE_UP, CLQ_LANE_OWN, CLQ_LANE_DOWN, CLQ_LANES } clq_lane_name;
typedef struct clq_lane {
    clq_queue *queue;
    bool unflushed;  /* commands were enqueued since the last flush */
    clq_event *last; /* of the last command, not owned; NULL: no command yet in this phase */
} clq_lane;

typedef struct clq_member {
    _Alignas(64) clq_work work;
    clq_comm *comm;
    unsigned rank;  /* in comm */
    unsigned world; /* its number in messages: rank in the family's first communicator, or among all processes */
    clq_device *device;
    bool hosted;                    /* its thread reads and writes the device's memory itself, not by commands */
    atomic_size_t meetings;         /* barriers that it has reached; shows which rank is late */
    atomic_size_t taken;            /* direct: bytes of its part that ranks have begun */
    double until;                   /* deadline of its current collective, on clq_now_running's clock */
    double begun;                   /* when the last rank arrived at the collective, on clq_now's clock */
    atomic_uint_fast64_t busy_ns;   /* time in successful collectives from `begun` on, in total */
    atomic_uint_fast64_t waited_ns; /* time in collectives from its own arrival to `begun`, in total */
    unsigned step;                  /* for messages: the round in a schedule, from 1 on; 0: in none */
    size_t chunk;

    clq_event *drained; /* event of the last drain; the next drain reuses it */
    clq_event *copied;  /* event of the last copy from its own input to its own output */

    /* For schedules only. If the member is hosted: */
    char *aside; /* the memory of CLQ_PLACE_WORK; grows */
    size_t aside_bytes;
    /* If it is not hosted: */
    clq_queue *up, *down; /* uploads, downloads */
    bool one_queue;       /* all lanes of this walk are the caller's queue */
    clq_lane lanes[CLQ_LANES];
    clq_kernel *combine[CLQ_DTYPE_COUNT][CLQ_REDOP_COUNT]; /* f32 sums: made at once; others when needed */
    clq_buffer *passing;                                   /* the memory of CLQ_PLACE_WORK; grows */
    clq_event **ready; /* [chunk]: event of the command that received the chunk last */
    size_t ready_capacity;
} clq_member;

enum { CLQ_SLOTS_MAX = 64 }; /* of one link */
typedef struct clq_slot {
    char *outgoing; /* its part of the sender's staging memory, or of `aside` */
    char *incoming; /* its part of the receiver's staging memory; NULL: receiver is hosted, or PEER was asked */
    const char *at; /* staged, mapped: where the chunk is, in `outgoing` or in a hosted sender's own memory */
    /* Peer: memory of the receiver's device that takes the slot's chunks. Every slot has its own memory object, since a
     * driver may move an object as a whole from the device that used it last. The sender writes it, the receiver reads
     * it, then the sender writes it again: never both at the same time. */
    clq_buffer *landing;
    clq_event *filled; /* of the sender's command; NULL: the host filled it. The sender replaces it at the next use */
    clq_event *freed;  /* peer: of the receiver's last command on `landing`. The sender's once the gate is raised */
    /* The receiver's alone: events of its last command on `incoming`, and of its last one on `landing` or the scratch.
     */
    clq_event *uploaded, *used;
} clq_slot;

/* Time of a transfer or collective in seconds: alpha + beta * bytes. alpha 0: unknown. */
typedef struct clq_cost {
    double alpha_s, beta_s;
} clq_cost;

/* A connection from one rank to another. Its slots are used in turn, again and again. The gates count the chunks for
 * which a slot was filled, and for which it was freed. */
typedef struct clq_link {
    clq_gate filled, freed;
    clq_transport transport;             /* AUTO: each chunk takes the one that is cheaper by `costs` */
    clq_cost costs[CLQ_TRANSPORT_COUNT]; /* [transport]; alpha 0: not measured */
    const char *reason;                  /* why this transport, for clq_comm_explain */
    clq_member *from, *to;
    clq_buffer *outgoing, *incoming; /* staging memory pinned for each end; NULL: end is hosted, or PEER was asked */
    char *aside;         /* a hosted sender's copies of chunks that it is about to overwrite; NULL until needed */
    clq_buffer *scratch; /* on the receiver's device, one chunk per slot: staged chunks to combine; NULL if hosted */
    clq_slot *slots;
    unsigned slot_count;
    /* Counts of chunks: those that this end has handled (by commands: enqueued), and those that the other end was told
     * of. The sender's alone: */
    _Alignas(64) size_t sent;
    size_t sent_told;
    /* The receiver's alone: */
    _Alignas(64) size_t received;
    size_t received_told;
} clq_link;

/* A communicator, all that were split from it, directly or not, and the pairs of their ranks. They fail together: a
 * lost rank is lost to every communicator that it is in, and ranks that wait in one of these would wait in vain. */
typedef struct clq_family {
    pthread_mutex_t lock; /* guards the list, the entries of clq_comm.links, and writes of `failure` */
    clq_comm *comms;      /* linked by clq_comm.next; the family ends with its last communicator */
    atomic_bool failed;   /* set after `failure` and `failed_at`, which then never change */
    clq_error failure;
    double failed_at; /* on clq_now_running's clock */
} clq_family;

struct clq_comm {
    clq_family *family;
    clq_comm *next; /* in the family's list */
    unsigned size;
    clq_group_config config; /* as the caller gave it; clq_comm_span raises deadline_s */
    clq_algorithm algorithm; /* AUTO: choose.c finds the best for each size */
    clq_transport transport;
    bool measured; /* `costs` is set */
    clq_cost costs[CLQ_ALGORITHM_COUNT];
    const char *reason; /* why `algorithm` is direct, or is not; for clq_comm_explain */
    size_t chunk_bytes;
    unsigned slots;
    double deadline_s;
    clq_islands islands;
    clq_member *members;
    /* [from * size + to]; NULL until first needed. Made before the ranks meet, by the sender's thread, or by the thread
     * that issues the next calls, while ranks still walk over other links. */
    _Atomic(clq_link *) *links;
    clq_barrier *barrier;
    /* Ranks that may touch other ranks' memory. After a failure, no rank leaves a collective while there are any,
     * except after a grace time. */
    atomic_uint inside;
    /* [lower * size + higher], for send/recv: the communicator of these two ranks, or of one rank that sends to itself.
     * NULL until first needed. */
    _Atomic(clq_comm *) *pairs;
    pthread_mutex_t pairs_lock; /* held while a pair is made */
    bool pairs_lock_made;
    struct clq_wide *wide; /* for the processes of a world (wide.h); NULL: all its ranks are in this process */
};

/* family.c */
clq_status clq_family_create(clq_comm *comm); /* with this communicator alone */
/* Moves a communicator that no other thread knows yet from its own family to `family`. Errors: ABORTED: `family` has
 * failed. */
clq_status clq_family_join(clq_family *family, clq_comm *comm);
void clq_family_leave(clq_comm *comm);
/* If `why` is the first failure, keeps it, wakes all who wait, and returns true. */
bool clq_family_fail(clq_family *family, const clq_error *why);
/* The status of a rank that did not fail itself: ABORTED, with the first failure's detail. */
clq_status clq_family_raise(const clq_family *family);

/* communicator.c */
/* Makes a communicator in its own family. devices, worlds: one entry per rank. worlds: the ranks' numbers in messages
 * (clq_member.world); NULL: their ranks. A pair gets a plan, and queues for its links. Any other communicator also gets
 * the ring's links, the most usual kernel (f32 sums), the algorithms' costs, and room for pairs. */
clq_status clq_comm_make(clq_device *const *devices, const unsigned *worlds, unsigned count,
                         const clq_group_config *config, bool is_pair, clq_comm **out);
/* clq_comm_run among this process's ranks alone. */
clq_status clq_comm_run_here(clq_comm *comm, unsigned rank, const clq_task *call);
/* Checks that each process has as many ranks as the collective needs (reduce-scatter, all-gather: equally many).
 * Errors: UNSUPPORTED. */
clq_status clq_comm_check_spread(const clq_comm *comm, clq_collective collective);
/* The end of a CLQ_ERROR_TIMEOUT message, after which rank did not do what. Its argument is deadline_s. */
#define CLQ_LATE " within the deadline of %g s (deadline_s)"
/* clq_task_check checks a task's type, operation (UNSUPPORTED: the type has none), ranks and count, and sets *bytes to
 * the bytes of that count. clq_task_check_ranges checks its offsets, and that in_bytes and out_bytes from there lie in
 * its buffers; with 0 bytes, a buffer is not looked at. fault: the status for a mistake: ARGUMENT in a caller's task,
 * INTERNAL in our own. */
clq_status clq_task_check(const clq_task *task, unsigned ranks, clq_status fault, size_t *bytes);
clq_status clq_task_check_ranges(const clq_task *task, clq_status fault, size_t in_bytes, size_t out_bytes);
/* Waits until the queue's commands are done, at most until the member's deadline. */
clq_status clq_member_drain(clq_member *member, clq_queue *queue);
/* Waits for an event of this or another rank, at most until the member's deadline. The event's queue must have been
 * flushed. */
clq_status clq_member_wait(const clq_member *member, clq_event *event);

/* split.c: finds the communicator that carries out a task (*by), and the task in that communicator (*there). For a
 * send/recv, it is the communicator of the two ranks. Otherwise, or if `comm` has no other ranks, it is `comm`. */
clq_status clq_comm_route(clq_comm *comm, const clq_task *task, clq_comm **by, clq_task *there);

/* plan.c: checks the config, and sets what follows from it. */
clq_status clq_comm_plan(clq_comm *comm);

/* choose.c: which algorithm a call gets. All ranks choose the same. */
/* For AUTO over links: looks up what the candidates cost, or measures and stores the costs. The communicator must be
 * complete, with no rank in a collective. */
clq_status clq_comm_measure(clq_comm *comm);
clq_algorithm clq_comm_choose(const clq_comm *comm, clq_collective collective, size_t bytes);
void clq_comm_explain_choice(const clq_comm *comm, clq_text *text);

/* mapping.c: make a rank's input and output visible to the host, and undo this. */
clq_status clq_member_map(clq_member *member);
clq_status clq_member_unmap(clq_member *member);

/* direct.c: does the rank's part, and helps with other parts. ABORTED: the communicator has failed; work may be
 * missing. */
clq_status clq_direct_run(clq_comm *comm, unsigned rank);

/* walk.c: carries out a schedule. */
/* Called before the ranks meet: makes the links to the ranks that this one will send to, its kernels and its memory. */
clq_status clq_walk_prepare(clq_member *member);
/* Makes the links and kernels that a collective needs and does not have yet, for all ranks. Called before the
 * collective, since compiling and testing take no notice of the deadline. The one thread that issues the communicator's
 * collectives calls it. */
clq_status clq_walk_prepare_all(clq_comm *comm, const clq_task *task);
clq_status clq_walk_prepare_here(clq_comm *comm, const clq_task *task); /* the same for this process */
/* Makes a reduction's kernel, unless it exists. Called before the collective, since compiling takes no notice of the
 * deadline. Any thread may call it, unless the rank is in a call that may be making the same kernel. */
clq_status clq_walk_build(clq_member *member, clq_dtype dtype, clq_redop op);
clq_status clq_walk(clq_member *member);

/* lane.c: the queues, during a walk, of a rank that works by commands. */
void clq_member_open_lanes(clq_member *member, bool one_queue);
clq_queue *clq_member_queue(const clq_member *member, clq_lane_name name);
/* What a command on another lane has to wait for: `event`, which is the rank's own. NULL if all lanes are one queue,
 * which keeps the order anyway. */
clq_event *clq_member_own_event(const clq_member *member, clq_event *event);
/* *out: the order for a command that waits for two events, which may be NULL. On a device that runs in its caller, the
 * host waits here instead, and *out is empty: PoCL 3.1's basic device does not wait for an event that is not complete,
 * or deadlocks when it completes. */
clq_status clq_member_order(const clq_member *member, clq_event *first, clq_event *second, clq_order *out);
/* Called after each command on the lane, with its event. Flushes, unless all lanes are one queue. */
clq_status clq_member_enqueued(clq_member *member, clq_lane_name name, clq_event *event);
/* Flushes the rank's commands, and tells the other ranks which chunks these fill and free. Call it before any wait for
 * another rank, which may itself be waiting for these chunks. */
clq_status clq_member_hand_over(clq_member *member);
/* Hands over, and waits until all commands on the lanes are done. */
clq_status clq_member_drain_lanes(clq_member *member);

/* link.c */
clq_status clq_link_create(clq_member *from, clq_member *to, clq_link **out);
void clq_link_destroy(clq_link *link); /* takes NULL */
/* The sender calls it before the ranks meet, if it will exchange chunks over the link (clq_departure.exchanged). */
clq_status clq_link_prepare_exchange(clq_link *link);
/* The transport for a chunk of this size. */
clq_transport clq_link_transport(const clq_link *link, size_t bytes);

/* A place in a rank's memory: `host` if the rank is hosted, otherwise `place`. */
typedef struct clq_spot {
    char *host;
    clq_place_at place;
} clq_spot;

/* A chunk that the sender sends. */
typedef struct clq_departure {
    clq_spot from;
    size_t bytes;
    bool exchanged;   /* the sender will receive into this memory, so the receiver may not read the chunk there */
    clq_event *after; /* completes when the chunk is ready to be sent; NULL: it is ready */
} clq_departure;
/* *sent: the event of the command that sends the chunk, owned by the link until its next use. NULL: the chunk is sent.
 */
clq_status clq_link_send(clq_link *link, const clq_departure *chunk, clq_event **sent);

/* A chunk that the receiver receives. */
typedef struct clq_arrival {
    clq_spot to;
    size_t bytes;
    bool combined, last; /* combined: with operand; last: the sum is complete, and an average is taken of it */
    bool came_first;     /* combined as: what came op operand; false: operand op what came */
    clq_spot operand;
    clq_event *after; /* combined: wait for this event first; may be NULL */
} clq_arrival;
/* *ready: replaced by the event of the last command that brings the chunk to its place. A receiver that is hosted, or
 * whose lanes are one queue, leaves it alone. */
clq_status clq_link_receive(clq_link *link, const clq_arrival *chunk, clq_event **ready);

/* probe.c: for a link with all its memory, whose two devices share a context. */
/* Tests whether peer copies over the link arrive, and whether memory that both devices write at the same time keeps
 * what each wrote. */
clq_status clq_link_test_peer(clq_link *link, bool *ok);
/* Measures what a chunk costs through staged slots and as a peer copy, until a kernel of the receiver has used it. Done
 * once for the two devices and their drivers; the costs are kept with the built kernels. */
clq_status clq_link_measure(clq_link *link);

#endif
