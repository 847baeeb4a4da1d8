/* How fast the host's cores are, and how busy other programs keep them. */
#define _GNU_SOURCE /* sched_getaffinity; NOLINT(bugprone-reserved-identifier) */
#include "bench.h"

#include "comm/reduce/reduce.h"

#include <math.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- memcpy and memset ---- */

unsigned clq_bench_cores_of(const clq_device *device) {
    return CLQ_MAX(CLQ_MIN(clq_device_get_info(device)->compute_units, clq_cpu_count()), 1u);
}

enum { ROUNDS = 9, CORES_MOST = 1024, PAGE_BYTES = 4096 };

/* The least that each core moves in a round. */
static const size_t round_bytes = (size_t)16 << 20;

/* Called through these pointers, so that the compiler cannot drop a repetition as useless. */
static void *(*volatile copy_bytes)(void *, const void *, size_t) = memcpy;
static void *(*volatile set_bytes)(void *, int, size_t) = memset;

/* Adds with the collectives' own function, which is as fast as the memory. */
static void add_floats(float *to, const float *from, unsigned inputs, size_t count) {
    clq_reduce_find(CLQ_F32, CLQ_REDOP_SUM)((const void *[]){to, from}, inputs, (void *[]){to}, 1, 0, count, inputs,
                                            false);
}

typedef struct mover {
    clq_barrier *barrier;
    clq_bench_host_work work;
    size_t bytes, repeats;
    char *block; /* `from` and `to` point into it */
    char *from, *to;
    double start[ROUNDS], end[ROUNDS];
    clq_thread *thread;
} mover;

static void move(void *context) {
    mover *m = context;
    for (int round = 0; round < ROUNDS; round++) {
        if (clq_barrier_wait(m->barrier, 0) != CLQ_OK) return;
        m->start[round] = clq_now();
        for (size_t i = 0; i < m->repeats; i++) {
            if (m->work == CLQ_BENCH_FILL)
                (void)set_bytes(m->to, 0, m->bytes);
            else if (m->work == CLQ_BENCH_COPY)
                (void)copy_bytes(m->to, m->from, m->bytes);
            else
                add_floats((float *)m->to, (const float *)m->from, m->work == CLQ_BENCH_ADD ? 2 : 1,
                           m->bytes / sizeof(float));
        }
        m->end[round] = clq_now();
    }
}

static clq_status start_mover(mover *m, bool own_thread) {
    size_t room = clq_round_up(m->bytes, PAGE_BYTES);
    m->block = clq_alloc_aligned(PAGE_BYTES, 2 * room + PAGE_BYTES);
    if (!m->block) return CLQ_ERROR_MEMORY;
    m->from = m->block;
    m->to = m->block + room + PAGE_BYTES / 2; /* offset within a page: otherwise loads seem to depend on stores */
    memset(m->from, 1, m->bytes);
    memset(m->to, 2, m->bytes);
    return own_thread ? clq_thread_start("mover", move, m, &m->thread) : CLQ_OK;
}

static double best_rate(const mover *movers, unsigned cores) {
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double start = movers[0].start[round], end = movers[0].end[round];
        for (unsigned i = 1; i < cores; i++) {
            start = CLQ_MIN(start, movers[i].start[round]);
            end = CLQ_MAX(end, movers[i].end[round]);
        }
        best = CLQ_MAX(best, (double)(movers[0].bytes * movers[0].repeats * cores) / (end - start) * 1e-9);
    }
    return best;
}

clq_status clq_bench_host_rate(unsigned cores, size_t bytes, clq_bench_host_work work, double *out) {
    cores = CLQ_MIN(cores, (unsigned)CORES_MOST);
    clq_barrier *barrier;
    CLQ_TRY(clq_barrier_create(cores, &barrier));
    mover *movers = clq_alloc(cores, sizeof *movers);
    clq_status status = movers ? CLQ_OK : CLQ_ERROR_MEMORY;
    size_t part = clq_ceil_div(bytes, cores);
    for (unsigned i = 0; i < cores && status == CLQ_OK; i++) {
        movers[i] =
            (mover){.barrier = barrier, .work = work, .bytes = part, .repeats = clq_ceil_div(round_bytes, part)};
        status = start_mover(&movers[i], i > 0);
    }
    if (status == CLQ_OK)
        move(&movers[0]); /* this thread is the first mover */
    else
        clq_barrier_abort(barrier);
    for (unsigned i = 0; movers && i < cores; i++) {
        clq_thread_join(movers[i].thread);
        clq_free(movers[i].block);
    }
    if (status == CLQ_OK) *out = best_rate(movers, cores);
    clq_free(movers);
    clq_barrier_destroy(barrier);
    return status;
}

/* ---- others ---- */

/* Seconds that the cores which this process may use have worked since the system started. */
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
    struct rusage own, children;
    load.known =
        cores_at_work(&load.all_s) && getrusage(RUSAGE_SELF, &own) == 0 && getrusage(RUSAGE_CHILDREN, &children) == 0;
    if (load.known)
        load.own_s = seconds_of(own.ru_utime) + seconds_of(own.ru_stime) + seconds_of(children.ru_utime) +
                     seconds_of(children.ru_stime);
    return load;
}

double clq_bench_others(const clq_bench_run *run, const clq_bench_load *since) {
    clq_bench_load now = clq_bench_load_now();
    const bool known = since->known && now.known && now.at > since->at;
    double own = known ? now.own_s - since->own_s : NAN;
    clq_bench_add_up_here(run, &own);
    double others = (now.all_s - since->all_s) - own;
    return isnan(own) ? NAN : CLQ_MAX(others, 0.0) / (now.at - since->at);
}

/* Busy: others took more than a tenth of the cores. The system counts in steps of 10 ms, so they must also have worked
 * for more than 0.1 s. */
bool clq_bench_is_busy(double others, double seconds) {
    return others > 0.1 * clq_cpu_count() && others * seconds > 0.1;
}
