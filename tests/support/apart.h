/* Trainings whose launches are programs of their own. A step as one launch is a program of each model, loss, optimizer
 * and way to train it, which no other test has and which takes seconds to build, while the kernels of a layer are built
 * once for all of these; and its results are the same bits. graph/fused_step, train/paths, the ways that share out the
 * update inside of a step, and interop/golden have steps as one launch. */
#ifndef CLQ_TEST_APART_H
#define CLQ_TEST_APART_H

#include <clique/train.h>

#define APART "one launch" /* of the fast paths that a trainer is not to use */

static inline clq_trainer_config apart_config(void) {
    clq_trainer_config config = clq_trainer_config_default();
    config.disabled_paths = APART;
    return config;
}

#endif
