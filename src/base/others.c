/* Measures how much other programs use the cores that this process may use. The counters are those of Linux's
 * /proc/stat, which also count the time that a hypervisor gave to others (steal). They are integers, so no locale
 * changes how they are read. */
#define _GNU_SOURCE /* CPU_ISSET; NOLINT(bugprone-reserved-identifier) */
#include "base/base.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH_BYTES = 512, LINE_BYTES = 512 };
/* The counters in a core's row of /proc/stat, in their order. user and nice include guests' time. */
enum { USER, NICE, SYSTEM, IDLE, IO_WAIT, IRQ, SOFT_IRQ, STEAL, COUNTERS };

static FILE *open_below_root(const char *path) {
    const char *root = clq_environment("CLIQUE_MACHINE_ROOT");
    char whole[PATH_BYTES];
    const int length = snprintf(whole, sizeof whole, "%s%s", root ? root : "", path);
    return length > 0 && (size_t)length < sizeof whole ? fopen(whole, "re") : NULL;
}

/* Reads up to `count` numbers from the beginning of the text, and returns how many it read. Reading ends at "max" and
 * other words. */
static unsigned read_numbers(const char *text, unsigned count, double *out) {
    for (unsigned i = 0; i < count; i++) {
        char *end;
        const unsigned long long number = strtoull(text, &end, 10);
        if (end == text) return i;
        out[i] = (double)number;
        text = end;
    }
    return count;
}

/* The CPU limit of the process's cgroup, in cores: by cgroups version 2, otherwise by version 1. 0: there is no
 * limit. */
static double limit_of_cores(void) {
    static const char *const files[][2] = {
        {"/sys/fs/cgroup/cpu.max", NULL},
        {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"}};
    for (size_t i = 0; i < CLQ_COUNT_OF(files); i++) {
        double numbers[2] = {0, 0};
        unsigned read = 0;
        for (size_t k = 0; k < 2 && files[i][k]; k++) {
            char line[LINE_BYTES] = "";
            FILE *file = open_below_root(files[i][k]);
            if (!file) break;
            if (fgets(line, sizeof line, file) && line[0] != '-') read += read_numbers(line, 2 - read, &numbers[read]);
            (void)fclose(file);
        }
        if (read == 2 && numbers[0] > 0 && numbers[1] > 0) return numbers[0] / numbers[1];
    }
    return 0.0;
}

/* Adds the row of a core, if the process may use this core. False: the line is behind the rows of cores. */
static bool add_core(const char *line, const cpu_set_t *allowed, clq_cores_used *used) {
    double counters[COUNTERS];
    char *end;
    if (strncmp(line, "cpu", 3) != 0) return false;
    if (!clq_is_digit(line[3])) return true; /* the sum of all */
    const unsigned long core = strtoul(line + 3, &end, 10);
    if (core >= CPU_SETSIZE || !CPU_ISSET(core, allowed) || read_numbers(end, COUNTERS, counters) < COUNTERS)
        return true;
    for (unsigned i = 0; i < COUNTERS; i++) *(i == IDLE || i == IO_WAIT ? &used->idle_s : &used->busy_s) += counters[i];
    used->cores++;
    return true;
}

static double seconds_of(const struct timeval *time) { return (double)time->tv_sec + 1e-6 * (double)time->tv_usec; }

/* The processor time of this process, and of the programs that it started and that have ended, such as compilers. */
static double own_seconds(void) {
    static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    double seconds = 0;
    for (size_t i = 0; i < CLQ_COUNT_OF(whose); i++) {
        struct rusage usage;
        if (getrusage(whose[i], &usage) == 0) seconds += seconds_of(&usage.ru_utime) + seconds_of(&usage.ru_stime);
    }
    return seconds;
}

clq_cores_used clq_cores_used_now(void) {
    clq_cores_used used = {.limit = limit_of_cores()};
    cpu_set_t allowed;
    char line[LINE_BYTES];
    const long ticks = sysconf(_SC_CLK_TCK);
    FILE *file = open_below_root("/proc/stat");
    used.own_s = own_seconds();
    if (file && ticks > 0 && sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        while (fgets(line, sizeof line, file) && add_core(line, &allowed, &used)) {
        }
        used.busy_s /= (double)ticks;
        used.idle_s /= (double)ticks;
    }
    if (file) (void)fclose(file);
    used.at_s = clq_now();
    return used;
}

/* In some sandboxes the counters stand still, and so tell nothing: the result is NaN if they advanced by less than half
 * of the time. */
double clq_others_between(const clq_cores_used *begun, const clq_cores_used *ended) {
    const double cores = ended->cores, seconds = ended->at_s - begun->at_s, busy_s = ended->busy_s - begun->busy_s,
                 counted_s = busy_s + ended->idle_s - begun->idle_s;
    if (cores == 0 || begun->cores != ended->cores || seconds <= 0 || counted_s < seconds * cores / 2)
        return (double)NAN;
    const double usable = ended->limit > 0 ? CLQ_MIN(ended->limit, cores) : cores;
    const double others = (busy_s - (ended->own_s - begun->own_s)) / seconds - (cores - usable);
    return CLQ_MIN(CLQ_MAX(others / usable, 0.0), 1.0);
}
