/* Optimizers to test updates with, and what happens around their rules: for updates by kernels and by the host. */
#ifndef CLQ_TEST_OPS_UPDATE_H
#define CLQ_TEST_OPS_UPDATE_H

#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <math.h>

static const size_t lengths[] = {1, 3, 15, 16, 17, 63, 64, 65, 1009, 60013};

enum { STEPS = 5, STATES = CLQ_UPDATE_STATES_MAX };

/* Optimizers with hyper-parameters that are not their defaults, or that choose another rule. each_optimizer runs every
 * optimizer with its defaults, too. Multiples of 1/64 are the same in float. */
static const clq_optimizer variants[] = {
    {CLQ_OPTIMIZER_SGD, {0}},
    {CLQ_OPTIMIZER_SGD, {0, 0.890625}},
    {CLQ_OPTIMIZER_SGD, {0, 0.890625, 1}},
    {CLQ_OPTIMIZER_SGD, {0, 0.890625, 0, 0.25}},
    {CLQ_OPTIMIZER_ADAM, {0, 0.9, 0.999, 1e-7}},
    {CLQ_OPTIMIZER_ADAM, {0, 0.5, 0.75, 0.125}},
    {CLQ_OPTIMIZER_ADAM, {0, 0.9, 0.75, 1e-7, 1}},
    {CLQ_OPTIMIZER_ADAMW, {0, 0.9, 0.75, 1e-3, 1, 0.5}},
    {CLQ_OPTIMIZER_ADAMAX, {0, 0.5, 0.75, 0.125, 0.5}},
    {CLQ_OPTIMIZER_NADAM, {0, 0.5, 0.75, 0.125}},
    {CLQ_OPTIMIZER_RMSPROP, {0, 0.75, 0.5, 0.125}},
    {CLQ_OPTIMIZER_RMSPROP, {0, 0.75, 0, 0.125, 1}},
    {CLQ_OPTIMIZER_RMSPROP, {0, 0.75, 0.5, 0.125, 1, 0.25}},
    {CLQ_OPTIMIZER_ADAGRAD, {0, 0.25, 0.125}},
    {CLQ_OPTIMIZER_ADADELTA, {0, 0.75, 0.125}},
    {CLQ_OPTIMIZER_LION, {0, 0.5, 0.75, 0.5}},
};

/* Optimizers whose steps depend on norms of variables. */
static const clq_optimizer trust_ratio_optimizers[] = {{CLQ_OPTIMIZER_LAMB, {0, 0.9, 0.999, 1e-7}},
                                                       {CLQ_OPTIMIZER_LAMB, {0, 0.5, 0.75, 0.125, 0.5}},
                                                       {CLQ_OPTIMIZER_LAMB, {0, 0.75, 0.5, 0, 0.25}}};

typedef void (*with_optimizer)(rig *r, const clq_optimizer *optimizer);

static inline void each_optimizer(rig *r, with_optimizer run) {
    for (size_t i = 0; i < CLQ_COUNT_OF(variants); i++) run(r, &variants[i]);
    for (size_t kind = 0; kind < clq_optimizer_count(); kind++) {
        clq_optimizer optimizer = {.kind = (clq_optimizer_kind)kind};
        const clq_option *options = clq_optimizer_row_of(optimizer.kind)->options;
        for (size_t i = 0; options[i].key; i++) optimizer.values[i] = options[i].value;
        if (!clq_optimizer_has_trust_ratio(&optimizer)) run(r, &optimizer);
    }
}

/* What happens around the rule. All zero: nothing. */
typedef struct manner {
    double limit, average;
    bool decays, factors, factor_of_all; /* by block; factor_of_all: one factor for all blocks */
    bool skips;                          /* skips blocks whose factor is 0 */
} manner;

/* Turns g into the gradient that the rule gets. factors: one per block; NULL: all are 1. */
static inline void treat(const manner *m, const float *factors, size_t n, double *g) {
    for (size_t i = 0; i < n; i++) {
        if (factors) g[i] *= (double)factors[i / CLQ_UPDATE_BLOCK];
        if (m->limit > 0) g[i] = fmax(fmin(g[i], m->limit), -m->limit);
    }
}

#endif
