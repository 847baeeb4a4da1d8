/* Trainings that do not fuse a step into one launch. A fused step is a program that only one combination of model,
 * loss, optimizer and way to train uses, and that takes seconds to build. The kernels of separate launches are built
 * once for all tests, and they compute the same bits. Fused steps are tested by graph/fused_step, train/paths,
 * interop/golden, and the ways that shard the update within a step. */
#ifndef CLQ_TEST_APART_H
#define CLQ_TEST_APART_H

#include <clique/train.h>

#define APART "one launch" /* value of clq_trainer_config.disabled_paths */

static inline clq_trainer_config apart_config(void) {
    clq_trainer_config config = clq_trainer_config_default();
    config.disabled_paths = APART;
    return config;
}

#endif
