/* Ways to train on several devices, which tests compare with training on one device. */
#ifndef CLQ_TEST_WAYS_H
#define CLQ_TEST_WAYS_H

#include "support/apart.h"

typedef struct way {
    const char *name, *spec; /* spec: of devices */
    clq_strategy_kind kind;
    clq_strategy_options options;
    const char *disabled; /* fast paths */
    size_t bucket_bytes;
} way;

static const way way_single = {"single", "pocl:0", CLQ_STRATEGY_SINGLE, {0}, APART, 0};

/* One way for each strategy, and further ways of mirrored that update differently. */
static const way ways[] = {
    {"sharded update", "pocl:0,pocl:1,pocl:2", CLQ_STRATEGY_MIRRORED, {0}, NULL, 0},
    {"plain", "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {0}, APART ",sharded update", 0},
    {"buckets", "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {0}, APART ",sharded update", 4096},
    {"sharded optimizer", "pocl:0,pocl:1,pocl:2", CLQ_STRATEGY_MIRRORED, {.shard_optimizer = 1}, NULL, 0},
    {"scattered", "pocl:0,pocl:1", CLQ_STRATEGY_MIRRORED, {.shard_optimizer = 1}, APART ",sharded update", 0},
    {"central", "pocl:0,pocl:1", CLQ_STRATEGY_CENTRAL, {0}, APART, 0},
    {"ps", "pocl:0,pocl:1", CLQ_STRATEGY_PS, {0}, APART, 0},
    {"pipeline", "pocl:0,pocl:1", CLQ_STRATEGY_PIPELINE, {0}, APART, 0},
    {"two pipelines", "pocl:0,pocl:1,pocl:2,pocl:3", CLQ_STRATEGY_PIPELINE, {.stages = 2}, APART, 0},
    {"tensor", "pocl:0,pocl:1", CLQ_STRATEGY_TENSOR, {0}, APART, 0},
};

static inline void way_configure(const way *w, clq_trainer_config *config) {
    config->strategy = w->kind;
    config->strategy_options = w->options;
    config->disabled_paths = w->disabled;
    config->bucket_bytes = w->bucket_bytes;
}

#endif
