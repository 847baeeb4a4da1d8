/* A rig: threads that run made-up work on several devices at once, to measure what the devices cost one another.
 * Private to why. */
#ifndef CLQ_WHY_RIG_H
#define CLQ_WHY_RIG_H

#include "why/looks.h"

typedef struct clq_rig clq_rig;
typedef struct clq_rig_member {
    clq_rig *rig;
    unsigned rank;
    clq_device *device;
    clq_queue *queue;
    clq_load *arithmetic, *memory;
    clq_buffer *values, *copy;    /* what is exchanged; what comes back of a store */
    float *gradient, *parameters; /* the same two where the host sees them */
    bool borrows;                 /* that is, not in the device's memory */
    clq_thread *thread;
    double seconds;  /* of a round */
    double *times;   /* of the first rounds of a run, each: CLQ_RIG_TIMES_MAX at most */
    size_t timed;    /* how many there are */
    clq_error error; /* of its thread; status OK: none */
} clq_rig_member;

/* What members do behind the work of a round. */
typedef enum clq_rig_meeting {
    CLQ_RIG_ALL_REDUCE,
    CLQ_RIG_SCATTER_GATHER, /* of a sum's parts, and of the parts that became of them */
    CLQ_RIG_STORE,          /* an update in the host's memory, by all, who wait for it */
    CLQ_RIG_OWN_STORE       /* each one's own update there */
} clq_rig_meeting;
enum { CLQ_RIG_MEETINGS_MAX = 64, CLQ_RIG_TIMES_MAX = 1024 };

struct clq_rig {
    unsigned count; /* opened */
    size_t value_bytes;
    clq_rig_member members[CLQ_REPLICAS_MAX];
    /* Of a run: */
    unsigned at_work;
    clq_barrier *start;
    clq_comm *comm;
    clq_status (*round)(clq_rig_member *member);
    double lasts_s;       /* rounds are begun for this many seconds, */
    size_t rounds_wanted; /* or, where not 0, this many rounds are made */
    size_t rounds_before; /* rounds before them that are not counted */
    clq_load_kind load;
    int rounds[CLQ_REPLICAS_MAX]; /* of the load, in a round of each member */
    clq_rig_meeting meeting;
    size_t meetings[CLQ_RIG_MEETINGS_MAX]; /* bytes of each, of a round, evenly over its work */
    unsigned meeting_count;
    /* Where members meet but for the communicator (desk.c): */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool locked; /* the lock was made */
    atomic_bool aborted;
    bool sleeps; /* who waits for others does not keep its core: the path "busy wait" is disabled */
    clq_store *store; /* borrowed */
    unsigned present, turn;
    uint64_t met;
};

/* memory_bytes: of the memory that made-up traffic changes. value_bytes: of the largest all-reduce. Close in any case.
 */
clq_status clq_rig_open(const clq_devices *devices, size_t memory_bytes, size_t value_bytes, clq_rig *rig);
void clq_rig_close(clq_rig *rig);

/* Seconds of a launch of an empty kernel, among many. */
clq_status clq_rig_launch(clq_rig *rig, unsigned member, double *seconds);
/* The rate of made-up work in 1e9 operations or bytes per second: of one member alone, and of the first `count` at the
 * same time. Best measured alternately, several times: machines change their speed. */
clq_status clq_rig_rate_alone(clq_rig *rig, clq_load_kind kind, unsigned member, double *rate);
clq_status clq_rig_rates(clq_rig *rig, clq_load_kind kind, unsigned count, double *rates);
/* Whether a communicator of the first `count` members fits their memory: DEVICE_MEMORY. */
clq_status clq_rig_has_room(clq_rig *rig, unsigned count);
/* Seconds of an all-reduce of `bytes` over the first `count` members. */
clq_status clq_rig_all_reduce(clq_rig *rig, unsigned count, size_t bytes, double *seconds);
/* What meetings of so many bytes add to rounds of made-up arithmetic, between whose parts they are. work_s: of each
 * member's round, where it works alone at `gflops`. optimizer: of a store; NULL: the meeting takes none. */
typedef struct clq_rig_exchange {
    clq_rig_meeting meeting;
    const size_t *bytes;
    unsigned count; /* of meetings, 1 to CLQ_RIG_MEETINGS_MAX */
    const double *work_s, *gflops;
    const clq_optimizer *optimizer;
    /* Found: what the meetings add to the mean over rounds of the slowest member's work; what this is beyond the
     * slowest member's mean. Of own stores the latter is 0, for nobody waits there. */
    double seconds, waiting_s;
} clq_rig_exchange;
enum { CLQ_RIG_EXCHANGES_MAX = 8 };
/* What members cost one another. */
typedef struct clq_rig_together {
    const unsigned *alike;            /* given: the first member like this one */
    double slowing[CLQ_REPLICAS_MAX]; /* found: how much longer the first exchange's work takes each, 1 or more */
    clq_doubt doubt;                  /* likewise, of it all */
} clq_rig_together;
/* All of them in turn, several times: so what else the machine does meets them alike, and they can be compared. */
clq_status clq_rig_exchanges(clq_rig *rig, unsigned count, clq_rig_exchange *exchanges, size_t exchange_count,
                             clq_patience *patience, clq_rig_together *together);
/* Until a member that waits for another goes on. */
clq_status clq_rig_hop(clq_rig *rig, unsigned count, double *seconds);
/* Of a member's copies to and from the host, in 1e9 bytes per second. */
clq_status clq_rig_copy(clq_rig *rig, unsigned member, size_t bytes, double *gbps);

/* desk.c: meetings at a store or by a token. */
clq_status clq_desk_open(clq_rig *rig);
void clq_desk_close(clq_rig *rig);
void clq_desk_abort(clq_rig *rig); /* members that wait go on. By any of them */
clq_status clq_desk_update(clq_rig_member *member, size_t bytes);
clq_status clq_desk_update_alone(clq_rig_member *member, size_t bytes);
clq_status clq_desk_pass_on(clq_rig_member *member); /* once it is the member's turn, it is the next one's */

double clq_median(double *values, size_t count); /* sorts them */

#endif
