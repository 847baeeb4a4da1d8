/* Attention by its definition, in double. */
#include "ref/ref_elementwise.h"

#include <math.h>
#include <stdlib.h>

static size_t number_of_matrix(const clq_batched_matrix *m, size_t sample, size_t p, size_t q, size_t i, size_t j) {
    return sample * m->sample + p * m->pitch[0] + q * m->pitch[1] + i * m->row + j * m->column;
}

void ref_attention(const clq_attention_problem *p, size_t count, const double *q, const double *k, const double *v,
                   const double *mask, double *y) {
    double *scores = malloc(p->others * sizeof *scores);
    if (!scores) abort();
    for (size_t row = 0; row < count * p->counts[0] * p->counts[1] * p->tokens; row++) {
        const size_t i = row % p->tokens, matrix = row / p->tokens, b = matrix % p->counts[1],
                     a = matrix / p->counts[1] % p->counts[0], sample = matrix / p->counts[1] / p->counts[0];
        double most = -INFINITY, total = 0;
        for (size_t j = 0; j < p->others; j++) {
            double score = 0;
            for (size_t c = 0; c < p->key; c++)
                score +=
                    q[number_of_matrix(&p->q, sample, a, b, i, c)] * k[number_of_matrix(&p->k, sample, a, b, j, c)];
            score *= (double)p->scale;
            if (p->masked) {
                const double number = mask[number_of_matrix(&p->mask, sample, a, b, i, j)];
                if (p->masked == CLQ_ATTENTION_ADDS) score += number;
                if (p->masked == CLQ_ATTENTION_SELECTS && number == 0) score = (double)p->low;
            }
            scores[j] = score;
            most = fmax(most, score);
        }
        for (size_t j = 0; j < p->others; j++) total += scores[j] = exp(scores[j] - most);
        for (size_t c = 0; c < p->value; c++) {
            double sum = 0;
            for (size_t j = 0; j < p->others; j++)
                sum += scores[j] / total * v[number_of_matrix(&p->v, sample, a, b, j, c)];
            y[number_of_matrix(&p->y, sample, a, b, i, c)] = sum;
        }
    }
    free(scores);
}
