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
    clq_buffer *values, *copy;    /* values: what is exchanged; copy: what comes back from a store */
    float *gradient, *parameters; /* the same two, as the host sees them */
    bool borrows;                 /* the host does not see the device's memory: gradient and parameters are copies */
    clq_thread *thread;
    double seconds;  /* mean of the rounds of a run */
    double *times;   /* of each of the first rounds of a run; room for CLQ_RIG_TIMES_MAX */
    size_t timed;    /* how many times there are */
    clq_error error; /* of its thread; status OK: none */
} clq_rig_member;

/* What members do after the work of a round. */
typedef enum clq_rig_meeting {
    CLQ_RIG_ALL_REDUCE,
    CLQ_RIG_SCATTER_GATHER, /* a reduce-scatter, then an all-gather */
    CLQ_RIG_STORE,          /* an update in host memory by all members, which wait for it */
    CLQ_RIG_OWN_STORE       /* an update there by each member alone */
} clq_rig_meeting;
enum { CLQ_RIG_MEETINGS_MAX = 64, CLQ_RIG_TIMES_MAX = 1024 };

struct clq_rig {
    unsigned count; /* how many members are open */
    size_t value_bytes;
    clq_rig_member members[CLQ_REPLICAS_MAX];
    /* Fields of a run: */
    unsigned at_work;
    clq_barrier *start;
    clq_comm *comm;
    clq_status (*round)(clq_rig_member *member);
    double lasts_s;       /* rounds begin for this many seconds, if rounds_wanted is 0 */
    size_t rounds_wanted; /* this many rounds are made; 0: by lasts_s */
    size_t rounds_before; /* earlier rounds that are not counted */
    clq_load_kind load;
    int rounds[CLQ_REPLICAS_MAX]; /* [r]: rounds of the load in a round of member r */
    clq_rig_meeting meeting;
    size_t meetings[CLQ_RIG_MEETINGS_MAX]; /* bytes of each meeting in a round; the meetings lie evenly between parts of
                                              its work */
    unsigned meeting_count;
    /* For meetings without the communicator (desk.c): */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool locked; /* the lock exists */
    atomic_bool aborted;
    bool sleeps;      /* a member that waits for others gives up its core: the path "busy wait" is disabled */
    clq_store *store; /* borrowed */
    unsigned present, turn;
    uint64_t met;
};

/* memory_bytes: of the memory that made-up traffic changes. value_bytes: of the largest all-reduce. Close the rig even
 * if this fails. */
clq_status clq_rig_open(const clq_devices *devices, size_t memory_bytes, size_t value_bytes, clq_rig *rig);
void clq_rig_close(clq_rig *rig);

/* Seconds for the launch of an empty kernel, among many launches. */
clq_status clq_rig_launch(clq_rig *rig, unsigned member, double *seconds);
/* The rate of made-up work in 1e9 operations or bytes per second: of one member alone, and of the first `count` members
 * at the same time. Measure the two in turn, several times: machines change their speed. */
clq_status clq_rig_rate_alone(clq_rig *rig, clq_load_kind kind, unsigned member, double *rate);
clq_status clq_rig_rates(clq_rig *rig, clq_load_kind kind, unsigned count, double *rates);
/* Whether a communicator of the first `count` members fits their memory. Errors: DEVICE_MEMORY if it does not. */
clq_status clq_rig_has_room(clq_rig *rig, unsigned count);
/* Seconds of an all-reduce of `bytes` over the first `count` members. */
clq_status clq_rig_all_reduce(clq_rig *rig, unsigned count, size_t bytes, double *seconds);
/* What meetings add to rounds of made-up arithmetic. The meetings lie between the parts of a round. bytes: (count) of
 * each meeting. work_s: of each member's round, if the member works alone at `gflops`. optimizer: of the store; NULL:
 * the meeting needs no store. */
typedef struct clq_rig_exchange {
    clq_rig_meeting meeting;
    const size_t *bytes;
    unsigned count; /* of meetings, 1 to CLQ_RIG_MEETINGS_MAX */
    const double *work_s, *gflops;
    const clq_optimizer *optimizer;
    /* Found. waiting_s: the mean over rounds of the slowest member's work, less the slowest member's mean work; 0 for
     * own stores, where no member waits. seconds: what else the meetings add to the slowest member's mean. */
    double seconds, waiting_s;
} clq_rig_exchange;
enum { CLQ_RIG_EXCHANGES_MAX = 8 };
/* What members cost one another. */
typedef struct clq_rig_together {
    const unsigned *alike;            /* given: [r] the first member like member r */
    double slowing[CLQ_REPLICAS_MAX]; /* found: [r] how many times as long the first exchange's work takes member r
                                         beside the others; 1 or more */
    clq_doubt doubt;                  /* given and found: becomes the worse of what it was and of these looks */
} clq_rig_together;
/* Measures all exchanges in turn, several times. So they can be compared: other load on the machine affects all of them
 * alike. */
clq_status clq_rig_exchanges(clq_rig *rig, unsigned count, clq_rig_exchange *exchanges, size_t exchange_count,
                             clq_patience *patience, clq_rig_together *together);
/* Seconds until a member that waits for another goes on. */
clq_status clq_rig_hop(clq_rig *rig, unsigned count, double *seconds);
/* The rate of a member's copies to and from the host, in 1e9 bytes per second. */
clq_status clq_rig_copy(clq_rig *rig, unsigned member, size_t bytes, double *gbps);

/* desk.c: meetings at a store or by a token. */
clq_status clq_desk_open(clq_rig *rig);
void clq_desk_close(clq_rig *rig);
void clq_desk_abort(clq_rig *rig); /* members that wait go on; any member may call */
clq_status clq_desk_update(clq_rig_member *member, size_t bytes);
clq_status clq_desk_update_alone(clq_rig_member *member, size_t bytes);
/* Waits for the member's turn, then gives the turn to the next member. */
clq_status clq_desk_pass_on(clq_rig_member *member);

double clq_median(double *values, size_t count); /* sorts them */

#endif
