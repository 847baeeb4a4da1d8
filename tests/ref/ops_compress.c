#include "ref/ref_elementwise.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

/* A float16 has 11 significant bits, and no bits below 2^-24. */
double ref_half(double x) {
    int exponent;
    (void)frexp(x, &exponent);
    const double unit = ldexp(1, exponent - 11 > -24 ? exponent - 11 : -24);
    return nearbyint(x / unit) * unit;
}

void ref_compress_halves(size_t n, double most, const double *gradient, double *error, double *halves) {
    for (size_t i = 0; i < n; i++) {
        const double all = (double)(float)(error[i] + gradient[i]);
        halves[i] = isfinite(all) ? ref_half(fmax(-most, fmin(most, all))) : all;
        error[i] = isfinite(all) ? (double)(float)(all - halves[i]) : 0;
    }
}

typedef struct number {
    uint32_t place;
    double size;
} number;

static int by_size(const void *a, const void *b) {
    const number *x = a, *y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

static int by_place(const void *a, const void *b) {
    const number *x = a, *y = b;
    return x->place < y->place ? -1 : 1;
}

/* NaN is larger than infinity. */
void ref_choose_largest(size_t n, size_t chosen, const double *gradient, double *error, uint32_t *places,
                        double *numbers) {
    number *all = clq_alloc(n, sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < n; i++) {
        error[i] = (double)(float)(error[i] + gradient[i]);
        const double size = fabs(error[i]);
        all[i] = (number){(uint32_t)i, isnan(size) ? INFINITY : isinf(size) ? 1e300 : size};
    }
    qsort(all, n, sizeof *all, by_size);
    qsort(all, chosen, sizeof *all, by_place);
    for (size_t k = 0; k < chosen; k++) {
        places[k] = all[k].place;
        numbers[k] = error[all[k].place];
        error[all[k].place] = 0;
    }
    clq_free(all);
}
