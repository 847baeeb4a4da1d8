/* What clique bench peers measures on OpenBLAS: cblas_sgemm, C (m, n) = A (m, k) B (k, n), row-major.
 *
 *     peer_blas M N K nn|tn|nt|tt SAMPLES WARMUPS THREADS
 *
 * A sample has so many calls that it takes at least 20 us. Prints {"version", "in_place", "time_us": {"min", "p50",
 * "p99"}} as one line. */
#define _POSIX_C_SOURCE 200809L
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Only OpenBLAS has these functions, so this program does not link with another BLAS. */
extern void openblas_set_num_threads(int threads);
extern char *openblas_get_config(void);

typedef struct {
    int m, n, k, transposed_a, transposed_b;
    float *a, *b, *c;
} problem;

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* By nearest rank. */
static double percentile(const double *sorted, int count, int percent) {
    int at = (count * percent + 99) / 100;
    return sorted[at > 0 ? at - 1 : 0];
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double sample(const problem *p, long repeats) {
    double start = now();
    for (long i = 0; i < repeats; i++)
        cblas_sgemm(CblasRowMajor, p->transposed_a ? CblasTrans : CblasNoTrans,
                    p->transposed_b ? CblasTrans : CblasNoTrans, p->m, p->n, p->k, 1, p->a,
                    p->transposed_a ? p->m : p->k, p->b, p->transposed_b ? p->k : p->n, 0, p->c, p->n);
    return now() - start;
}

static long calls_per_sample(const problem *p) {
    long repeats = 1;
    while (repeats < 1 << 16 && sample(p, repeats) < 20e-6) repeats *= 2;
    return repeats;
}

/* Small whole numbers, whose sums are exact. */
static void fill(float *to, size_t count, unsigned step) {
    for (size_t i = 0; i < count; i++) to[i] = (float)(i * step % 7) - 3;
}

static int is_right(const problem *p, int row, int column) {
    double sum = 0;
    for (int t = 0; t < p->k; t++)
        sum +=
            (double)p
                ->a[p->transposed_a ? (size_t)t * (size_t)p->m + (size_t)row : (size_t)row * (size_t)p->k + (size_t)t] *
            (double)p->b[p->transposed_b ? (size_t)column * (size_t)p->k + (size_t)t
                                         : (size_t)t * (size_t)p->n + (size_t)column];
    return fabs(sum - (double)p->c[(size_t)row * (size_t)p->n + (size_t)column]) < 0.5;
}

static void print_result(double *seconds, int samples, long repeats) {
    char version[64];
    snprintf(version, sizeof version, "%s", openblas_get_config());
    char *end = version;
    for (int words = 0; *end && words < 2; end++) words += *end == ' '; /* the library's name and version number */
    if (end > version && end[-1] == ' ') end--;
    *end = '\0';
    qsort(seconds, (size_t)samples, sizeof *seconds, compare);
    double us = 1e6 / (double)repeats;
    printf("{\"version\": \"%s\", \"in_place\": false, \"time_us\": {\"min\": %.9g, \"p50\": %.9g, \"p99\": %.9g}}\n",
           version, seconds[0] * us, percentile(seconds, samples, 50) * us, percentile(seconds, samples, 99) * us);
}

int main(int argc, char **argv) {
    problem p = {0};
    int samples = 0, warm_ups = 0, threads = 0;
    if (argc == 8 && strlen(argv[4]) == 2) {
        p = (problem){.m = atoi(argv[1]), .n = atoi(argv[2]), .k = atoi(argv[3])};
        p.transposed_a = argv[4][0] == 't';
        p.transposed_b = argv[4][1] == 't';
        samples = atoi(argv[5]);
        warm_ups = atoi(argv[6]);
        threads = atoi(argv[7]);
    }
    if (p.m < 1 || p.n < 1 || p.k < 1 || samples < 1 || threads < 1) {
        fprintf(stderr, "usage: peer_blas M N K nn|tn|nt|tt SAMPLES WARMUPS THREADS\n");
        return 2;
    }
    size_t m = (size_t)p.m, n = (size_t)p.n, k = (size_t)p.k;
    double *seconds = malloc((size_t)samples * sizeof *seconds);
    p.a = aligned_alloc(64, (m * k * sizeof(float) + 63) / 64 * 64);
    p.b = aligned_alloc(64, (k * n * sizeof(float) + 63) / 64 * 64);
    p.c = aligned_alloc(64, (m * n * sizeof(float) + 63) / 64 * 64);
    if (!p.a || !p.b || !p.c || !seconds) {
        fprintf(stderr, "out of memory\n");
        return 1;
    }
    fill(p.a, m * k, 5);
    fill(p.b, k * n, 3);
    openblas_set_num_threads(threads);
    for (int i = 0; i < warm_ups; i++) sample(&p, 1);
    long repeats = calls_per_sample(&p);
    for (int i = 0; i < samples; i++) seconds[i] = sample(&p, repeats);
    if (!is_right(&p, 0, 0) || !is_right(&p, p.m - 1, p.n - 1) || !is_right(&p, p.m / 2, p.n / 2)) {
        fprintf(stderr, "the product is wrong\n");
        return 1;
    }
    print_result(seconds, samples, repeats);
    free(seconds);
    free(p.c);
    free(p.b);
    free(p.a);
    return 0;
}
