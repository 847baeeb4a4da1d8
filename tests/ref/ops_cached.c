#include "ref/ref_elementwise.h"

#include <math.h>

void ref_cached_append(const clq_cached_problem *p, size_t count, const double *k, const double *v,
                       const double *places, double *keys, double *values) {
    for (size_t s = 0; s < count; s++) {
        const size_t place = (size_t)places[s];
        for (size_t i = 0; i < p->shared * p->key; i++)
            keys[place * p->shared * p->key + i] = k[s * p->shared * p->key + i];
        for (size_t i = 0; i < p->shared * p->value; i++)
            values[place * p->shared * p->value + i] = v[s * p->shared * p->value + i];
    }
}

/* softmax(scale q K^T) V by its definition. */
void ref_cached_attend(const clq_cached_problem *p, size_t count, const double *q, const double *keys,
                       const double *values, const double *places, double *y) {
    for (size_t s = 0; s < count; s++)
        for (size_t h = 0; h < p->heads; h++) {
            const size_t last = (size_t)places[s], from = h / (p->heads / p->shared);
            double most = -INFINITY, sum = 0, *to = y + (s * p->heads + h) * p->value;
            for (size_t c = 0; c < p->value; c++) to[c] = 0;
            for (int pass = 0; pass < 2; pass++)
                for (size_t row = 0; row <= last; row++) {
                    double score = 0;
                    if (p->window && last - row >= p->window) continue;
                    for (size_t i = 0; i < p->key; i++)
                        score += q[(s * p->heads + h) * p->key + i] * keys[(row * p->shared + from) * p->key + i];
                    score *= p->scale;
                    if (pass == 0) most = fmax(most, score);
                    const double share = pass == 0 ? 0 : exp(score - most);
                    sum += share;
                    for (size_t c = 0; c < p->value; c++)
                        to[c] += share * values[(row * p->shared + from) * p->value + c];
                }
            for (size_t c = 0; c < p->value; c++) to[c] /= sum;
        }
}
