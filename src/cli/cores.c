/* The cores that one of several processes may use. */
#define _GNU_SOURCE /* sched_setaffinity; NOLINT(bugprone-reserved-identifier) */
#include "cli/cli.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

static unsigned ranks_here(const clq_world *world) {
    const char *here = clq_world_host(world, clq_world_rank(world));
    unsigned count = 0;
    for (unsigned r = 0; r < clq_world_size(world); r++) count += strcmp(clq_world_host(world, r), here) == 0;
    return count;
}

void clq_widen_affinity(const clq_world *world) {
    cpu_set_t mine, all;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN), configured = sysconf(_SC_NPROCESSORS_CONF);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) return;
    const int part = (int)CLQ_MAX(cores / (long)ranks_here(world), 1L), before = CPU_COUNT(&mine);
    if (before >= part) return;
    CPU_ZERO(&all);
    for (long core = 0; core < CLQ_MIN(configured, (long)CPU_SETSIZE); core++) CPU_SET((size_t)core, &all);
    if (sched_setaffinity(0, sizeof all, &all) == 0) return; /* the system leaves out cores that it does not allow */
    clq_log(CLQ_LOG_WARNING,
            "%s may use %d of %ld cores of its machine: start it without a binding to cores (mpirun --bind-to none)",
            clq_world_name(world, clq_world_rank(world)), before, cores);
}
