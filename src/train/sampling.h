/* Drawing a token by its logits (sampling.c). Private to train. */
#ifndef CLQ_TRAIN_SAMPLING_H
#define CLQ_TRAIN_SAMPLING_H

#include "base/base.h"
#include <clique/generate.h>

/* A token with its logit, and then its share of the probability. */
typedef struct clq_sampled {
    uint32_t token;
    double number;
} clq_sampled;

/* ARGUMENT names the number that is out of range. */
clq_status clq_sampling_check(const clq_sampling *how);
/* Draws a token of logits[count], count at least 1, for a place of the text. room (count) is written. NOT_FINITE where
 * no logit is finite, or one is no number. */
clq_status clq_sample(const clq_sampling *how, const float *logits, size_t count, uint64_t place, clq_sampled *room,
                      uint32_t *out);

#endif
