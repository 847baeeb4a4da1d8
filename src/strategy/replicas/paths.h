/* Fast paths: each replaces a stage of a step where its row of the table (paths.c) allows it, and makes the same
 * values. What is off is done by the plain way. Private to strategy. */
#ifndef CLQ_STRATEGY_PATHS_H
#define CLQ_STRATEGY_PATHS_H

#include "base/base.h"

/* In the order in which they are decided. */
typedef enum clq_path {
    CLQ_PATH_ONE_LAUNCH,     /* a plan's launches are one (clq_list_set_fused) */
    CLQ_PATH_INPUT_IN_PLACE, /* kernels read staging memory: rows.c */
    CLQ_PATH_UPLOAD_AHEAD,   /* batches are sent while the device computes: uploads.c */
    CLQ_PATH_OWN_ROWS,       /* each replica copies its rows from the dataset: rows that stay */
    CLQ_PATH_OVERLAP,        /* buckets are exchanged beside backward: overlap.c */
    CLQ_PATH_SHARDED_UPDATE, /* replicas update a part each, for all: sharded.c */
    CLQ_PATH_BUSY_WAIT,      /* who waits for others keeps its core: choose.c */
    CLQ_PATH_COUNT
} clq_path;

/* What holds of a strategy, or of one of its replicas. */
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
    CLQ_FACT_EXCHANGES = 1 << 14, /* within a step, beside those of the gradient */
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
    bool disabled[CLQ_PATH_COUNT]; /* by name */
    bool on[CLQ_PATH_COUNT];
    const char *reason[CLQ_PATH_COUNT]; /* why not; NULL where on */
} clq_paths;

/* All off. disabled: names with commas between, or NULL. Errors: ARGUMENT (an unknown name). */
clq_status clq_paths_open(clq_paths *paths, const char *disabled);
/* Whether the path is on by these facts, as it is reported from then on. */
bool clq_paths_decide(clq_paths *paths, clq_path path, unsigned facts);

#endif
