/* Measures how long a work takes, by samples. */
#include "bench.h"

#include "cli/interrupt.h"

#include <math.h>
#include <stdlib.h>

/* The shortest sample. Alone: the clock itself costs about 50 ns, which is then below one percent. Among processes:
 * some leave a barrier later than others, which must weigh little, too. */
static const double sample_alone_s = 20e-6, sample_among_s = 200e-6;
enum { REPEATS_MOST = 1 << 16, TRIES = 3 };

const clq_bench_times clq_bench_no_times = {NAN, NAN, NAN};

static clq_status sample(const clq_bench_run *run, const clq_bench_work *work, uint64_t repeats, double *out) {
    if (run->world) CLQ_TRY(clq_world_barrier(run->world));
    double start = clq_now();
    CLQ_TRY(work->work(work->context, repeats));
    double seconds = clq_now() - start;
    if (work->settle) CLQ_TRY(work->settle(work->context));
    CLQ_TRY(clq_bench_find_last(run, &seconds));
    *out = seconds;
    return CLQ_OK;
}

/* Finds the repeats of a sample. The shortest of some tries counts, because a single disturbed try would make all
 * samples too short. */
static clq_status calibrate(const clq_bench_run *run, const clq_bench_work *work, uint64_t *out) {
    const double sample_s = run->world ? sample_among_s : sample_alone_s;
    uint64_t repeats = 1;
    for (;;) {
        double least = INFINITY, seconds;
        for (int i = 0; i < TRIES && least >= sample_s; i++) {
            CLQ_TRY(sample(run, work, repeats, &seconds));
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

/* seconds: (count, iterations) */
static clq_status measure_into(const clq_bench_run *run, const clq_bench_work *works, size_t count, double *seconds,
                               clq_bench_times *out) {
    uint64_t repeats[CLQ_BENCH_WORKS_MOST];
    double unused;
    for (uint64_t i = 0; i < run->warm_ups; i++)
        for (size_t k = 0; k < count; k++) CLQ_TRY(sample(run, &works[k], 1, &unused));
    for (size_t k = 0; k < count; k++) CLQ_TRY(calibrate(run, &works[k], &repeats[k]));
    (void)clq_interrupted(); /* kernels are compiled: from here on Ctrl-C stops after a row, and the rows are kept */
    for (uint64_t i = 0; i < run->iterations; i++)
        for (size_t k = 0; k < count; k++)
            CLQ_TRY(sample(run, &works[k], repeats[k], &seconds[k * run->iterations + i]));
    for (size_t k = 0; k < count; k++)
        out[k] = clq_bench_times_of(seconds + k * run->iterations, run->iterations, repeats[k]);
    return CLQ_OK;
}

clq_status clq_bench_measure_in_turns(const clq_bench_run *run, const clq_bench_work *works, size_t count,
                                      clq_bench_times *out) {
    double *seconds = clq_alloc(count * run->iterations, sizeof *seconds);
    if (!seconds) return CLQ_ERROR_MEMORY;
    clq_status status = measure_into(run, works, count, seconds, out);
    clq_free(seconds);
    return status;
}

clq_status clq_bench_measure(const clq_bench_run *run, const clq_bench_work *work, clq_bench_times *out) {
    return clq_bench_measure_in_turns(run, work, 1, out);
}
