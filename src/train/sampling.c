/* Draws a token by the model's logits. */
#include "train/sampling.h"
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>

clq_status clq_sampling_check(const clq_sampling *how) {
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_sampling, how));
    if (!(how->temperature >= 0 && isfinite(how->temperature)))
        return clq_fail(CLQ_ERROR_ARGUMENT, "temperature %g should be finite and at least 0", how->temperature);
    if (how->top_p >= 0 && how->top_p <= 1) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "top_p %g should be from 0 to 1", how->top_p);
}

/* The most probable token first, and of equal ones the lower number, so that the order is unique. */
static int compare(const void *left, const void *right) {
    const clq_sampled *a = left, *b = right;
    if (a->number != b->number) return a->number > b->number ? -1 : 1;
    return a->token < b->token ? -1 : a->token > b->token;
}

/* How many tokens of `all` are drawn from. If top_k or top_p limits the draw, `all` has the most probable tokens first.
 * *sum: of the numbers of these tokens. */
static size_t cut(const clq_sampling *how, const clq_sampled *all, size_t count, double *sum) {
    double whole = 0, reached = 0;
    size_t kept = 0;
    if (how->top_k > 0) count = CLQ_MIN(count, (size_t)how->top_k);
    for (size_t i = 0; i < count; i++) whole += all[i].number;
    const double wanted = how->top_p > 0 && how->top_p < 1 ? how->top_p * whole : INFINITY;
    while (kept < count && reached < wanted) reached += all[kept++].number;
    *sum = reached;
    return kept;
}

clq_status clq_sample(const clq_sampling *how, const float *logits, size_t count, uint64_t place, clq_sampled *room,
                      uint32_t *out) {
    size_t best = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(logits[i]))
            return clq_fail(CLQ_ERROR_NOT_FINITE, "the model gives %g for token %zu: are its weights finite?",
                            (double)logits[i], i);
        if (logits[i] > logits[best]) best = i;
    }
    if (!isfinite(logits[best]))
        return clq_fail(CLQ_ERROR_NOT_FINITE, "the model gives no finite logit: the largest is %g",
                        (double)logits[best]);
    if (how->temperature == 0) {
        *out = (uint32_t)best;
        return CLQ_OK;
    }
    for (size_t i = 0; i < count; i++)
        room[i] = (clq_sampled){(uint32_t)i, exp(((double)logits[i] - (double)logits[best]) / how->temperature)};
    if (how->top_k > 0 || (how->top_p > 0 && how->top_p < 1)) qsort(room, count, sizeof *room, compare);
    double sum;
    const size_t kept = cut(how, room, count, &sum);
    clq_random random = clq_random_start(how->seed, clq_random_stream(CLQ_RANDOM_TEXT, place));
    double left = clq_random_unit(&random) * sum;
    size_t drawn = 0;
    while (drawn + 1 < kept && left >= room[drawn].number) left -= room[drawn++].number;
    *out = room[drawn].token;
    return CLQ_OK;
}
