/* Clock, samples, and what else the machine was doing. */
#define _GNU_SOURCE /* sched_getaffinity; NOLINT(bugprone-reserved-identifier) */
#include "bench.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

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

void clq_bench_put_times(clq_bench_row *row, const clq_bench_times *times) {
    clq_bench_put_number(row, "us_min", times->min_us);
    clq_bench_put_number(row, "us_p50", times->p50_us);
    clq_bench_put_number(row, "us_p99", times->p99_us);
}

/* ---- others ---- */

/* Seconds that the cores which this process may use have worked since the machine's start. */
static bool cores_at_work(double *out) {
#if defined(__linux__)
    cpu_set_t allowed;
    FILE *stat = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? fopen("/proc/stat", "r") : NULL;
    if (!stat) return false;
    char line[512];
    double ticks = 0;
    bool found = false;
    while (fgets(line, sizeof line, stat)) {
        unsigned cpu;
        unsigned long long user, nice_user, system, idle, waiting, interrupts, soft, stolen = 0;
        if (sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &user, &nice_user, &system, &idle,
                   &waiting, &interrupts, &soft, &stolen) < 8 ||
            cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed))
            continue;
        ticks += (double)(user + nice_user + system + interrupts + soft + stolen);
        found = true;
    }
    fclose(stat);
    *out = ticks / (double)sysconf(_SC_CLK_TCK);
    return found;
#else
    (void)out;
    return false;
#endif
}

static double seconds_of(struct timeval time) { return (double)time.tv_sec + 1e-6 * (double)time.tv_usec; }

clq_bench_load clq_bench_load_now(void) {
    clq_bench_load load = {.at = clq_now()};
    struct rusage own;
    load.known = cores_at_work(&load.all_s) && getrusage(RUSAGE_SELF, &own) == 0;
    if (load.known) load.own_s = seconds_of(own.ru_utime) + seconds_of(own.ru_stime);
    return load;
}

double clq_bench_others(const clq_bench_load *since) {
    clq_bench_load now = clq_bench_load_now();
    if (!since->known || !now.known || now.at <= since->at) return NAN;
    double others = (now.all_s - since->all_s) - (now.own_s - since->own_s);
    return CLQ_MAX(others, 0.0) / (now.at - since->at);
}

/* A tenth of the cores; but what the system counts comes in steps of 10 ms. */
bool clq_bench_is_busy(double others, double seconds) {
    return others > 0.1 * clq_cpu_count() && others * seconds > 0.1;
}
