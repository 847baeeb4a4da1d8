/* remote: variables on store ranks. These are the ranks that are set apart (clq_world_set_apart), and each has a part
 * of the arenas in a store (store.h). remote.c is the side of a training process, serve.c the side of a store rank
 * (docs/decisions/076).
 *
 * In a training process, the poster and each replica's thread send requests. Each of these threads has a tag of its
 * own, and thereby a conversation of its own with each store rank. A request is a header, and values may follow it. The
 * answer is a header, or values, or both. A version is a number of updates. It begins at the number of the step that
 * the training goes on from, which is 0 in a new training. */
#ifndef CLQ_STRATEGY_REMOTE_H
#define CLQ_STRATEGY_REMOTE_H

#include "strategy/exchange/store.h"
#include "world/world.h"

/* ---- messages ---- */

/* The tags of the poster and of replica r of a process. */
enum { CLQ_TAG_POSTER = CLQ_TAG_APART };
static inline unsigned clq_tag_of_replica(unsigned r) { return CLQ_TAG_POSTER + 1 + r; }
_Static_assert((int)CLQ_REPLICAS_MAX < (int)CLQ_TAGS_APART, "each replica has a tag");

/* Below, "the first" is the first store rank, which hands out steps, keeps the bound of the staleness, and orders
 * updates. */
typedef enum clq_request_kind {
    CLQ_REQUEST_OPEN,   /* by rank 0's poster: terms follow. Answer: header */
    CLQ_REQUEST_END,    /* by rank 0's poster: no process asks any more. No answer */
    CLQ_REQUEST_CLOSE,  /* the conversation ends. No answer */
    CLQ_REQUEST_CLAIM,  /* to the first: asks for a step, or only how many are handed out. Answer: header */
    CLQ_REQUEST_BEGIN,  /* to the first: parameters for a gradient, once the bound allows it. Answer: header, values */
    CLQ_REQUEST_GET,    /* asks for an array, once `version` updates are made. Answer: values */
    CLQ_REQUEST_PUT,    /* writes a range of an array, once `version` updates are made. Values follow. Answer: header */
    CLQ_REQUEST_PUSH,   /* a gradient follows. The first makes the update. Answer, of the first alone: header */
    CLQ_REQUEST_APPLY,  /* not to the first: makes update `version` by the gradient that was pushed before. No answer */
    CLQ_REQUEST_ROUND,  /* by all processes, after `version` updates: gradients follow, and their sum makes an update.
                           Answer: parameters, squares if measured */
    CLQ_REQUEST_SUM,    /* likewise, but without an update. Answer: the sum */
    CLQ_REQUEST_BY_SUM, /* by all processes: makes an update by that sum. Answer: header, squares if measured */
    CLQ_REQUEST_GO_ON,  /* the training goes on after step `version`. Answer: header */
    CLQ_REQUEST_COUNTS, /* asks for counts, once `version` updates are made. Answer: clq_remote_counts; from the first,
                           unless synchronous, the histogram too */
} clq_request_kind;

/* The arrays of a store: the parameters, the gradient, and from FIRST_STATE on the states (clq_store_state). */
enum { CLQ_ARRAY_PARAMETERS, CLQ_ARRAY_GRADIENT, CLQ_ARRAY_FIRST_STATE };

typedef struct clq_request {
    uint32_t kind, array;
    uint32_t place;        /* BEGIN, PUSH: the replica's number among the replicas of all processes */
    uint32_t wants;        /* CLAIM: 1: a replica is free, so a step is wanted; 0: the process only asks */
    uint64_t version;      /* CLAIM: the step that the process posts next */
    uint64_t first, bytes; /* PUT: the range, relative to the begin of the store rank's part */
    double seconds;        /* CLAIM: the time of a batch on the process's fastest replica; 0: not known */
    clq_step_params params;
} clq_request;

typedef struct clq_answer_head {
    uint64_t version; /* of the values that follow; PUSH: the number of the update */
    uint64_t step;    /* CLAIM: the step that the process is to make; 0: none */
    uint64_t issued;  /* CLAIM: the first step that is not handed out yet */
    uint64_t staleness;
    double seconds;  /* CLAIM: the time of a batch on the fastest replica of all processes; 0: not known */
    uint32_t status; /* OPEN: the clq_status of making the store; `detail` has the error's line */
    char detail[200];
} clq_answer_head;

/* The counts of one store rank, or of all store ranks together. version: how many updates this store rank, or in
 * the second case the first store rank, has made. The other members are those of clq_gradient_counts. */
typedef struct clq_remote_counts {
    uint64_t version, servers, updates, least, most, pushed;
} clq_remote_counts;

/* What a store rank is to do. Two more messages follow: the variables (clq_store_variable), and the number of replicas
 * of each process (uint32_t). */
typedef struct clq_terms {
    clq_optimizer optimizers[CLQ_OPTIMIZERS_MAX]; /* the main one, and the others */
    clq_clip clip;
    uint64_t bytes, variable_count; /* bytes: of the store rank's part */
    uint64_t bound;                 /* the largest staleness; 0: synchronous */
    double deadline_s;
    uint32_t other_count, processes;
    bool averages, is_first, measures;
} clq_terms;

/* ---- a process that trains ---- */

typedef struct clq_remote clq_remote;
typedef struct clq_remote_config {
    clq_store_config store; /* the store as if one rank had all parts */
    clq_world *world;
    unsigned replicas; /* of this process */
    uint64_t bound;
    double deadline_s;
    bool measures; /* rounds measure the squares of the gradient, by variable */
} clq_remote_config;
/* All processes call it. Errors: UNSUPPORTED (several store ranks cannot clip by the global norm), ARGUMENT (the
 * variables cannot be cut into so many parts), MEMORY, and those of the store ranks and of the world. */
clq_status clq_remote_open(const clq_remote_config *config, clq_remote **out);
/* Call when no thread sends requests any more. Takes NULL. */
void clq_remote_close(clq_remote *remote);
unsigned clq_remote_states(const clq_remote *remote); /* slots, as of clq_store_states */
/* Buffers of this process (arena bytes): for the sum of its gradients, or of all gradients; and for parameters on their
 * way to the replicas. */
float *clq_remote_gradient(const clq_remote *remote);
float *clq_remote_parameters(const clq_remote *remote);

/* Called by replica r's thread. to, gradient: memory of the host (arena bytes). All functions below have the errors of
 * clq_world_wait alone. */
/* Asks for the parameters for a gradient. place: the replica's number among the replicas of all processes. */
clq_status clq_remote_begin(clq_remote *remote, unsigned r, unsigned place, float *to);
/* Pushes that gradient, and returns when the first store rank has made the update. */
clq_status clq_remote_push(clq_remote *remote, unsigned r, unsigned place, const float *gradient,
                           const clq_step_params *params, uint64_t *staleness);
/* Asks for an array, once `version` updates are made. The poster passes CLQ_REPLICAS_MAX as r. */
clq_status clq_remote_get(clq_remote *remote, unsigned r, unsigned array, uint64_t version, float *to);
/* Takes part in a ROUND, SUM or BY_SUM after `version` updates: sends `from` to all store ranks, and receives `to` from
 * them. BY_SUM does neither. One thread at a time calls this, in the conversations of replica 0. squares: (variables of
 * the config), which stay as they are if squares are not measured, and in a SUM. */
clq_status clq_remote_round(clq_remote *remote, clq_request_kind kind, uint64_t version, const float *from,
                            const clq_step_params *params, float *to, float *squares);

/* Called by the poster. */
/* Writes bytes [first, first + bytes) of an array, once `version` updates are made. All processes call it; only rank 0
 * sends the bytes. */
clq_status clq_remote_put(clq_remote *remote, unsigned array, uint64_t version, size_t first, size_t bytes,
                          const void *from);
/* Called by all processes before a step: waits until everything that was put is written. */
clq_status clq_remote_settle(clq_remote *remote);
clq_status clq_remote_claim(clq_remote *remote, uint64_t step, bool wants, double seconds, clq_answer_head *out);
/* Tells the store ranks that the training goes on after `step`. All processes call it, while no step is under way. */
clq_status clq_remote_go_on(clq_remote *remote, uint64_t step);
/* Asks all store ranks for their counts, once `version` updates are made. The other ranks answer once they have made as
 * many updates as the first had, and they may have made more. histogram: (bound + 1), from the first; NULL:
 * synchronous. */
clq_status clq_remote_count(clq_remote *remote, uint64_t version, clq_remote_counts *out, uint64_t *histogram);

#endif
