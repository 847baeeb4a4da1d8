/* Fast paths. A fast path replaces the plain way of doing a stage of a step, and computes the same values. Its row of
 * the table (paths.c) says when it is on. Private to strategy. */
#ifndef CLQ_STRATEGY_PATHS_H
#define CLQ_STRATEGY_PATHS_H

#include "base/base.h"

/* In the order in which they are decided. */
typedef enum clq_path {
    CLQ_PATH_ONE_LAUNCH,     /* all launches of a plan are fused into one (clq_list_set_fused) */
    CLQ_PATH_INPUT_IN_PLACE, /* kernels read the staging memory: rows.c */
    CLQ_PATH_UPLOAD_AHEAD,   /* batches are sent while the device computes: uploads.c */
    CLQ_PATH_OWN_ROWS,       /* each replica copies its rows from the dataset itself: rows that stay */
    CLQ_PATH_OVERLAP,        /* buckets are exchanged during backward: overlap.c */
    CLQ_PATH_SHARDED_UPDATE, /* each replica updates a part of the parameters for all: sharded.c */
    CLQ_PATH_BUSY_WAIT,      /* a thread spins while it waits for other replicas: choose.c */
    CLQ_PATH_COUNT
} clq_path;

/* Facts about a strategy or one of its replicas. `reasons` in paths.c says what they mean. */
enum {
    CLQ_FACT_REPLICAS = 1 << 0,
    CLQ_FACT_TRAINS = 1 << 1,
    CLQ_FACT_CORES = 1 << 2,
    CLQ_FACT_SINGLE_ITEMS = 1 << 3,
    CLQ_FACT_HOST_MEMORY = 1 << 4,
    CLQ_FACT_LABELS_READY = 1 << 5,
    CLQ_FACT_IN_CALLER = 1 << 6,
    CLQ_FACT_OVERLAP_PAYS = 1 << 7,
    CLQ_FACT_DIRECT = 1 << 8,
    CLQ_FACT_PARTS = 1 << 9,
    CLQ_FACT_ONE_LAUNCH = 1 << 10,
    CLQ_FACT_TRACED = 1 << 11,
    CLQ_FACT_NO_BUCKETS = 1 << 12,
    CLQ_FACT_OVERLAP = 1 << 13,
    CLQ_FACT_EXCHANGES = 1 << 14, /* replicas exchange sums within a step, besides the gradient */
    CLQ_FACT_OWN_MEMORY = 1 << 15,
    CLQ_FACT_ACCUMULATES = 1 << 16,
    CLQ_FACT_STORE = 1 << 17,
    CLQ_FACT_BACKUP = 1 << 18,
    CLQ_FACT_SHARDED_OPTIMIZER = 1 << 19,
    CLQ_FACT_SLICED = 1 << 20, /* replicas split the weights */
    CLQ_FACT_COMPRESSED = 1 << 21,
    CLQ_FACT_LOCAL_STEPS = 1 << 22,
    CLQ_FACT_STAGES = 1 << 23
};

typedef struct clq_paths {
    bool disabled[CLQ_PATH_COUNT]; /* switched off by clq_paths_open */
    bool on[CLQ_PATH_COUNT];
    const char *reason[CLQ_PATH_COUNT]; /* why the path is off; NULL: it is on */
} clq_paths;

/* Starts with all paths off. disabled: names separated by commas, or NULL. Errors: ARGUMENT (an unknown name). */
clq_status clq_paths_open(clq_paths *paths, const char *disabled);
/* Decides by these facts whether the path is on. Reports then show this decision. */
bool clq_paths_decide(clq_paths *paths, clq_path path, unsigned facts);

#endif
