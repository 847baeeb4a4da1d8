/* store: variables in host memory. A store has the parameters, the optimizer's slots and the sum of the gradients, laid
 * out as the arenas of clq_weights. It is cut into parts of nearly the same size. Each part is updated by a thread of
 * its own, its server. Only the first part is updated by the thread that asks for the update. The strategies use
 * stores, and src/why measures them.
 *
 * Updates and reads exclude each other: a read sees all parts in one version. The version is the number of updates so
 * far. */
#ifndef CLQ_STRATEGY_STORE_H
#define CLQ_STRATEGY_STORE_H

#include "graph/graph.h"

enum { CLQ_STORE_PARTS_MAX = 16 };

typedef struct clq_store clq_store;
/* Where a variable lies in the arrays: floats [first, first + floats). */
typedef struct clq_store_variable {
    size_t first, floats;
    clq_treatment treatment;
} clq_store_variable;
typedef struct clq_store_config {
    clq_optimizer optimizer;     /* the main one */
    const clq_optimizer *others; /* (other_count, less than CLQ_OPTIMIZERS_MAX) copied */
    unsigned other_count;
    size_t bytes;   /* of the parameters, which are f32 and begin as zeros; a multiple of CLQ_VARIABLE_ALIGN */
    unsigned parts; /* at most CLQ_STORE_PARTS_MAX; 0: one for each core, each of at least 64 KiB */
    clq_clip clip;
    bool averages; /* keeps a moving average of the parameters */
    /* (variable_count) in rising order; copied. Needed if gradients are clipped by a norm, an optimizer has a trust
     * ratio, there are other optimizers, or a variable is spared. */
    const clq_store_variable *variables;
    size_t variable_count;
    const clq_held *held; /* (held_count) variables that a property changes after each update; outlives the store */
    size_t held_count;
} clq_store_config;
/* Errors: MEMORY, SYSTEM. */
clq_status clq_store_create(const clq_store_config *config, clq_store **out);
void clq_store_destroy(clq_store *store); /* takes NULL; no thread is in a call on it */

/* An update by `factor` times the sum of `count` gradients (at least 1), which are added in this order. The new
 * parameters are written to `copies` as well. All arrays lie in the host's memory, and are as large as the store's
 * parameters. clq_store_update waits until no thread reads, and until the previous update is done. It returns the new
 * version. Any thread may call it. */
typedef struct clq_store_change {
    const float *const *gradients;
    unsigned count;
    float factor;
    clq_step_rates rates;
    float average; /* how far the average moves towards the new parameters: 0 to 1 */
    float *const *copies;
    unsigned copy_count;
} clq_store_change;
uint64_t clq_store_update(clq_store *store, const clq_store_change *change);
/* Only sums the gradients: no update, and no new version. */
void clq_store_sum(clq_store *store, const clq_store_change *change);

/* Begins a read: waits while an update is under way, and returns the version. No update begins before end_read. Any
 * number of threads may read at once. */
uint64_t clq_store_begin_read(clq_store *store);
void clq_store_end_read(clq_store *store);
/* The same for a thread that writes to the store: no other thread reads or updates meanwhile. */
void clq_store_begin_write(clq_store *store);
void clq_store_end_write(clq_store *store);
float *clq_store_parameters(const clq_store *store);
unsigned clq_store_states(const clq_store *store); /* the optimizer's slots, and behind them the average */
float *clq_store_state(const clq_store *store, unsigned slot);
const float *clq_store_gradient(const clq_store *store); /* the sum of the last update or clq_store_sum */

/* For reports and tests, between updates. */
unsigned clq_store_parts(const clq_store *store);
void clq_store_part(const clq_store *store, unsigned part, size_t *begin, size_t *end); /* bytes */
uint64_t clq_store_part_updates(const clq_store *store, unsigned part);                 /* made by its server */
size_t clq_store_bytes(const clq_store *store); /* of host memory that it holds */

#endif
