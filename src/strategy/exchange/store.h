/* store: variables in host memory: the parameters, the optimizer's slots and the sum of the gradients, laid out as the
 * arenas of clq_weights. A store is cut into parts of nearly the same size. Each part has a thread that updates it, its
 * server, but the first part is updated by the thread that asks for the update. Of strategies, and of why, which
 * measures it.
 *
 * Updates and reads exclude each other: a read sees all parts of one version, which is the number of updates so far. */
#ifndef CLQ_STRATEGY_STORE_H
#define CLQ_STRATEGY_STORE_H

#include "graph/graph.h"

enum { CLQ_STORE_PARTS_MAX = 16 };

typedef struct clq_store clq_store;
/* A variable's floats in the arrays. */
typedef struct clq_store_variable {
    size_t first, floats;
    clq_treatment treatment;
} clq_store_variable;
typedef struct clq_store_config {
    clq_optimizer optimizer;     /* the main one */
    const clq_optimizer *others; /* (other_count, less than CLQ_OPTIMIZERS_MAX) copied */
    unsigned other_count;
    size_t bytes;   /* of the f32 parameters, a multiple of CLQ_VARIABLE_ALIGN; all are zero */
    unsigned parts; /* 0: as many as there are cores, but each of at least 64 KiB */
    clq_clip clip;
    bool averages; /* keeps a moving average of the parameters */
    /* (variable_count) in rising order, copied; needed where gradients are clipped by a norm, an optimizer has a trust
     * ratio, there are others, or a variable is spared. */
    const clq_store_variable *variables;
    size_t variable_count;
    const clq_held *held; /* (held_count) what follows updates; outlives the store */
    size_t held_count;
} clq_store_config;
/* Errors: MEMORY, SYSTEM. */
clq_status clq_store_create(const clq_store_config *config, clq_store **out);
void clq_store_destroy(clq_store *store); /* takes NULL; no thread is in a call on it */

/* One update by `factor` times the sum of `count` >= 1 gradients, added in this order. The new parameters are written
 * to `copies` as well. All arrays are as large as the store's parameters, in the host's memory. Waits until no thread
 * reads, and until the update before is done. By any thread. Returns the new version. */
typedef struct clq_store_change {
    const float *const *gradients;
    unsigned count;
    float factor;
    clq_step_rates rates;
    float average; /* the part of its way that the average of the parameters goes */
    float *const *copies;
    unsigned copy_count;
} clq_store_change;
uint64_t clq_store_update(clq_store *store, const clq_store_change *change);
/* The sum alone; no new version. */
void clq_store_sum(clq_store *store, const clq_store_change *change);

/* Waits while an update is under way; no update begins before end_read. Returns the version. By any number of threads
 * at once. */
uint64_t clq_store_begin_read(clq_store *store);
void clq_store_end_read(clq_store *store);
/* As begin_read, for a thread that writes the parameters: no other reads meanwhile. */
void clq_store_begin_write(clq_store *store);
void clq_store_end_write(clq_store *store);
float *clq_store_parameters(const clq_store *store);
unsigned clq_store_states(const clq_store *store); /* slots of the optimizer, and behind them the average */
float *clq_store_state(const clq_store *store, unsigned slot);
const float *clq_store_gradient(const clq_store *store); /* of the last update or sum */

/* For reports and tests, between updates. */
unsigned clq_store_parts(const clq_store *store);
void clq_store_part(const clq_store *store, unsigned part, size_t *begin, size_t *end); /* bytes */
uint64_t clq_store_part_updates(const clq_store *store, unsigned part);                 /* made by its server */
size_t clq_store_bytes(const clq_store *store); /* of host memory that it holds */

#endif
