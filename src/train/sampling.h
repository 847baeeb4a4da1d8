/* Draws a token by the model's logits (sampling.c). Private to train. */
#ifndef CLQ_TRAIN_SAMPLING_H
#define CLQ_TRAIN_SAMPLING_H

#include "base/base.h"
#include <clique/generate.h>

/* A token with its probability, up to a factor that all tokens share. */
typedef struct clq_sampled {
    uint32_t token;
    double number;
} clq_sampled;

/* Errors: ARGUMENT (names the number that is out of range). */
clq_status clq_sampling_check(const clq_sampling *how);
/* Draws a token by logits[count], count at least 1. place: the token's in the text; with the seed it decides the random
 * number. room (count): scratch. Errors: NOT_FINITE (the largest logit is not finite, or a logit is NaN). */
clq_status clq_sample(const clq_sampling *how, const float *logits, size_t count, uint64_t place, clq_sampled *room,
                      uint32_t *out);

#endif
