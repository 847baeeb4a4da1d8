/* remote: variables that lie on ranks of their own, the store ranks: those that are set apart (clq_world_set_apart).
 * Each has a part of the arenas in a store (store.h). remote.c is the side of a process that trains, serve.c that of a
 * store rank (docs/decisions/076).
 *
 * Each thread of a training process that asks has a conversation of its own with each store rank, by a tag of its own:
 * the poster, and each replica's thread. A request is a header, perhaps with values behind it; the answer is a header,
 * or values, or both. Versions are numbers of updates, counted from the step that the training began at. */
#ifndef CLQ_STRATEGY_REMOTE_H
#define CLQ_STRATEGY_REMOTE_H

#include "strategy/exchange/store.h"
#include "world/world.h"

/* ---- what is said ---- */

/* The poster's tag, and that of replica r of a process. */
enum { CLQ_TAG_POSTER = CLQ_TAG_APART };
static inline unsigned clq_tag_of_replica(unsigned r) { return CLQ_TAG_POSTER + 1 + r; }
_Static_assert((int)CLQ_REPLICAS_MAX < (int)CLQ_TAGS_APART, "each replica has a tag");

/* "First" is said of the first store rank, which hands out steps, keeps the bound, and orders updates. */
typedef enum clq_request_kind {
    CLQ_REQUEST_OPEN,   /* rank 0's poster: terms follow. Answer: header */
    CLQ_REQUEST_END,    /* rank 0's poster: nobody asks any more. No answer */
    CLQ_REQUEST_CLOSE,  /* the conversation ends. No answer */
    CLQ_REQUEST_CLAIM,  /* to the first: which step is next? Answer: header */
    CLQ_REQUEST_BEGIN,  /* to the first: parameters, for a gradient, once the bound allows it. Answer: header, values */
    CLQ_REQUEST_GET,    /* values of an array, once `version` updates are made. Answer: values */
    CLQ_REQUEST_PUT,    /* likewise; a range of an array follows. Answer: header */
    CLQ_REQUEST_PUSH,   /* a gradient follows. The first makes the update, and answers with a header */
    CLQ_REQUEST_APPLY,  /* not to the first: makes the update by the gradient before, as number `version` */
    CLQ_REQUEST_ROUND,  /* of all processes, behind `version` updates: gradients follow, whose sum makes an update.
                           Answer: parameters, squares if measured */
    CLQ_REQUEST_SUM,    /* likewise: the sum alone. Answer: the sum */
    CLQ_REQUEST_BY_SUM, /* of all processes: an update by that sum. Answer: header, squares if measured */
    CLQ_REQUEST_GO_ON,  /* step `version` was the last. Answer: header */
    CLQ_REQUEST_COUNTS, /* once `version` updates are made. Answer: clq_remote_counts; of the first the histogram,
                           too */
} clq_request_kind;

/* Arrays of a store: the parameters, the gradient, and from FIRST_STATE on the optimizer's slots. */
enum { CLQ_ARRAY_PARAMETERS, CLQ_ARRAY_GRADIENT, CLQ_ARRAY_FIRST_STATE };

typedef struct clq_request {
    uint32_t kind, array;
    uint32_t place;        /* BEGIN, PUSH: the replica's number among those of all processes */
    uint32_t wants;        /* CLAIM: a replica has nothing to do, so that a step is wanted; else it is only asked */
    uint64_t version;      /* CLAIM: the step that is to be posted next */
    uint64_t first, bytes; /* PUT: the range, within the store's part */
    double seconds;        /* CLAIM: that the process's fastest replica takes for a batch; 0: not known */
    clq_step_params params;
} clq_request;

typedef struct clq_answer_head {
    uint64_t version; /* of what follows; PUSH: the update's number */
    uint64_t step;    /* CLAIM: the step that the process is to make; 0: none */
    uint64_t issued;  /* CLAIM: the first step that is handed out to nobody yet */
    uint64_t staleness;
    double seconds;  /* CLAIM: of the fastest replica of all processes */
    uint32_t status; /* OPEN: of making the store; its line is in `detail` */
    char detail[200];
} clq_answer_head;

/* Of one store rank, or of all. As of clq_gradient_counts, but for `version`: how many updates it had made. */
typedef struct clq_remote_counts {
    uint64_t version, servers, updates, least, most, pushed;
} clq_remote_counts;

/* What a store rank is to do. Behind them: variables, and (processes) each one's number of replicas, as uint32_t. */
typedef struct clq_terms {
    clq_optimizer optimizers[CLQ_OPTIMIZERS_MAX]; /* the main one, and the others */
    clq_clip clip;
    uint64_t bytes, variable_count; /* of its part */
    uint64_t bound;                 /* of the staleness; 0: synchronous */
    double deadline_s;
    uint32_t other_count, processes;
    bool averages, is_first, measures;
} clq_terms;

/* ---- a process that trains ---- */

typedef struct clq_remote clq_remote;
typedef struct clq_remote_config {
    clq_store_config store; /* of all that all parts have */
    clq_world *world;
    unsigned replicas; /* of this process */
    uint64_t bound;
    double deadline_s;
    bool measures; /* squares of gradients of rounds, by variable */
} clq_remote_config;
/* All processes call it. Errors: UNSUPPORTED, ARGUMENT (the parts cannot be so many), MEMORY, and those of the store
 * ranks and of the world. */
clq_status clq_remote_open(const clq_remote_config *config, clq_remote **out);
/* Once no thread asks. Takes NULL. */
void clq_remote_close(clq_remote *remote);
unsigned clq_remote_states(const clq_remote *remote); /* slots, as of clq_store_states */
/* (arena bytes) of this process: the sum of its gradients, or of all; and parameters on their way to replicas. */
float *clq_remote_gradient(const clq_remote *remote);
float *clq_remote_parameters(const clq_remote *remote);

/* By replica r's thread. to, gradient: (arena bytes), in the host's memory. All errors are those of clq_world_wait. */
/* Parameters for a gradient of the replica with the number `place`. */
clq_status clq_remote_begin(clq_remote *remote, unsigned r, unsigned place, float *to);
/* That gradient: makes an update. */
clq_status clq_remote_push(clq_remote *remote, unsigned r, unsigned place, const float *gradient,
                           const clq_step_params *params, uint64_t *staleness);
/* An array, once `version` updates are made. By the poster: r is CLQ_REPLICAS_MAX. */
clq_status clq_remote_get(clq_remote *remote, unsigned r, unsigned array, uint64_t version, float *to);
/* A ROUND, SUM, or BY_SUM, behind `version` updates, by one thread at a time, in place of replica 0's: `from` to all
 * store ranks, *to from them. squares: as measured, (variables of the config); else it stays. */
clq_status clq_remote_round(clq_remote *remote, clq_request_kind kind, uint64_t version, const float *from,
                            const clq_step_params *params, float *to, float *squares);

/* By the poster. */
/* Bytes [first, first + bytes) of an array, once `version` updates are made; of all processes rank 0 writes. */
clq_status clq_remote_put(clq_remote *remote, unsigned array, uint64_t version, size_t first, size_t bytes,
                          const void *from);
/* Before a step: whatever was put is there. */
clq_status clq_remote_settle(clq_remote *remote);
clq_status clq_remote_claim(clq_remote *remote, uint64_t step, bool wants, double seconds, clq_answer_head *out);
/* All processes call it, with no step under way. */
clq_status clq_remote_go_on(clq_remote *remote, uint64_t step);
/* Once `version` updates are made: of the first store rank's updates by then, which all others have made, too, and
 * perhaps more. histogram (bound + 1), of the first; NULL: synchronous. */
clq_status clq_remote_count(clq_remote *remote, uint64_t version, clq_remote_counts *out, uint64_t *histogram);

#endif
