/* Clock and samples. */
#include "bench.h"

#include "cli/interrupt.h"

#include <math.h>
#include <stdlib.h>

/* A sample this long is long enough for the clock's own cost (about 50 ns) to be below one percent. */
static const double sample_s = 20e-6;
enum { REPEATS_MOST = 1 << 16, TRIES = 3 };

const clq_bench_times clq_bench_no_times = {NAN, NAN, NAN};

static clq_status sample(const clq_bench_work *work, uint64_t repeats, double *out) {
    double start = clq_now();
    CLQ_TRY(work->work(work->context, repeats));
    double seconds = clq_now() - start;
    if (work->settle) CLQ_TRY(work->settle(work->context));
    *out = seconds;
    return CLQ_OK;
}

/* The least of some tries counts: one that was disturbed must not make all samples too short. */
static clq_status calibrate(const clq_bench_work *work, uint64_t *out) {
    uint64_t repeats = 1;
    for (;;) {
        double least = INFINITY, seconds;
        for (int i = 0; i < TRIES && least >= sample_s; i++) {
            CLQ_TRY(sample(work, repeats, &seconds));
            least = CLQ_MIN(least, seconds);
            if (seconds > 1e3 * sample_s) break; /* no disturbance is that long */
        }
        if (least >= sample_s || repeats >= REPEATS_MOST) break;
        repeats *= 2;
    }
    *out = repeats;
    return CLQ_OK;
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double nearest_rank(const double *sorted, size_t count, double part) {
    size_t rank = (size_t)ceil(part * (double)count);
    return sorted[CLQ_MAX(rank, (size_t)1) - 1];
}

clq_bench_times clq_bench_times_of(double *seconds, size_t count, uint64_t repeats) {
    qsort(seconds, count, sizeof *seconds, by_value);
    double scale = 1e6 / (double)repeats;
    return (clq_bench_times){.min_us = seconds[0] * scale,
                             .p50_us = nearest_rank(seconds, count, 0.5) * scale,
                             .p99_us = nearest_rank(seconds, count, 0.99) * scale};
}

static clq_status measure_into(const clq_bench_run *run, const clq_bench_work *work, double *seconds,
                               clq_bench_times *out) {
    uint64_t repeats;
    double unused;
    for (uint64_t i = 0; i < run->warm_ups; i++) CLQ_TRY(sample(work, 1, &unused));
    CLQ_TRY(calibrate(work, &repeats));
    (void)clq_interrupted(); /* what compiles has compiled, and what is measured from here on is told */
    for (uint64_t i = 0; i < run->iterations; i++) CLQ_TRY(sample(work, repeats, &seconds[i]));
    *out = clq_bench_times_of(seconds, run->iterations, repeats);
    return CLQ_OK;
}

clq_status clq_bench_measure(const clq_bench_run *run, const clq_bench_work *work, clq_bench_times *out) {
    double *seconds = clq_alloc(run->iterations, sizeof *seconds);
    if (!seconds) return CLQ_MEMORY;
    clq_status status = measure_into(run, work, seconds, out);
    clq_free(seconds);
    return status;
}
