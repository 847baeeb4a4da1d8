/* A command that several processes carry out together, one on each machine, which a launcher of MPI started. Rank 0
 * talks, and writes all files. */
#define _GNU_SOURCE /* sched_setaffinity; NOLINT(bugprone-reserved-identifier) */
#include "cli/cli.h"
#include "cli/program.h"
#include "world/world.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- cores ---- */

static const char *host_of(const clq_world *world, unsigned rank) {
    const char *at = strstr(clq_world_name(world, rank), " on ");
    return at ? at + strlen(" on ") : "";
}

static unsigned ranks_here(const clq_world *world) {
    const char *here = host_of(world, clq_world_rank(world));
    unsigned count = 0;
    for (unsigned r = 0; r < clq_world_size(world); r++) count += strcmp(host_of(world, r), here) == 0;
    return count;
}

/* Open MPI gives each process one core, also where it is the only one of its machine. A process that has less than its
 * part of the machine's cores takes all that the system allows it; before there are drivers, which count cores. */
static void widen_affinity(const clq_world *world) {
    cpu_set_t mine, all;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN), configured = sysconf(_SC_NPROCESSORS_CONF);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) return;
    const int part = (int)CLQ_MAX(cores / (long)ranks_here(world), 1L), before = CPU_COUNT(&mine);
    if (before >= part) return;
    CPU_ZERO(&all);
    for (long core = 0; core < CLQ_MIN(configured, (long)CPU_SETSIZE); core++) CPU_SET((size_t)core, &all);
    if (sched_setaffinity(0, sizeof all, &all) == 0 && sched_getaffinity(0, sizeof mine, &mine) == 0 &&
        CPU_COUNT(&mine) >= part)
        return;
    clq_log(CLQ_LOG_WARNING,
            "%s may use %d of %ld cores of its machine: start it without a binding to cores (mpirun --bind-to none)",
            clq_world_name(world, clq_world_rank(world)), CPU_COUNT(&mine), cores);
}

/* ---- opening ---- */

static const char *own_name = "";
static void log_with_name(void *context, clq_log_level level, const char *line) {
    (void)context;
    fprintf(stderr, "clique: %s%s: %s\n", level == CLQ_LOG_WARNING ? "warning: " : "", own_name, line);
}

static clq_status be_silent(const clq_world *world, clq_options *options) {
    own_name = clq_world_name(world, clq_world_rank(world));
    clq_log_set_sink(log_with_name, NULL, CLQ_LOG_WARNING);
    options->json = false;
    options->save = options->save_best = options->monitor = options->csv = options->trace = NULL;
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0)
        return clq_fail(CLQ_SYSTEM, "/dev/null cannot be opened for the output of a rank other than 0");
    close(nowhere);
    return CLQ_OK;
}

clq_status clq_setup_world(clq_setup *setup, clq_options *options, clq_status status) {
    clq_error error = {0};
    clq_world *world;
    if (status != CLQ_OK) clq_error_take(status, &error);
    const clq_status opened = clq_world_open(NULL, &world);
    /* Processes that another MPI's launcher started find themselves alone, all alike: the first says so. */
    if (opened == CLQ_UNSUPPORTED && clq_launcher_find().rank > 0) _exit(clq_program_exit_code(opened));
    CLQ_TRY(opened);
    if (clq_world_size(world) == 1) {
        clq_world_close(world);
        return status == CLQ_OK ? CLQ_OK : clq_error_raise(&error);
    }
    setup->world = world;
    setup->is_silent = clq_world_rank(world) > 0;
    if (status != CLQ_OK) (void)clq_error_raise(&error);
    CLQ_TRY(clq_world_check(world, status));
    widen_affinity(world);
    return setup->is_silent ? be_silent(world, options) : CLQ_OK;
}

/* ---- devices ---- */

static bool is_same_device(const clq_world *world, const clq_peer *a, const clq_peer *b) {
    if (strcmp(host_of(world, a->rank), host_of(world, b->rank)) != 0) return false;
    if (a->pci[0] && b->pci[0]) return strcmp(a->pci, b->pci) == 0;
    return a->index == b->index && strcmp(a->driver, b->driver) == 0;
}

/* Two processes on one device: GPUs compute for one after the other, and CPU devices share their cores. */
static clq_status check_sharing(const clq_setup *s, const clq_options *o) {
    bool is_told = o->share_devices || s->is_silent;
    for (unsigned b = 1; b < s->peer_count; b++)
        for (unsigned a = 0; a < b; a++) {
            const clq_peer *first = &s->peers[a], *second = &s->peers[b];
            if (first->rank == second->rank || !is_same_device(s->world, first, second)) continue;
            if (second->type != CLQ_DEVICE_CPU && !o->share_devices)
                return clq_fail(CLQ_ARGUMENT,
                                "rank %u and %s both train on %s: give each rank devices of its own (--devices), start "
                                "one rank on each machine, or allow it (--share-devices)",
                                first->rank, clq_world_name(s->world, second->rank), second->name);
            if (!is_told)
                clq_log(CLQ_LOG_WARNING,
                        "rank %u and %s share the cores of %s: one rank on each machine is enough (--share-devices "
                        "silences this)",
                        first->rank, clq_world_name(s->world, second->rank), second->name);
            is_told = true;
        }
    return CLQ_OK;
}

static clq_status gather_peers(clq_setup *s) {
    enum { MOST = CLQ_REPLICAS_MAX };
    const unsigned size = clq_world_size(s->world), rank = clq_world_rank(s->world);
    clq_peer *mine = clq_alloc(MOST, sizeof *mine), *all = clq_alloc(size, MOST * sizeof *all);
    clq_status status = mine && all ? CLQ_OK : CLQ_MEMORY;
    for (unsigned i = 0; status == CLQ_OK && i < s->devices.count; i++) {
        const clq_device_info *info = clq_system_device_info(s->system, s->devices.items[i].index);
        mine[i] = (clq_peer){.rank = rank, .counts = true, .index = info->index, .type = info->type};
        memcpy(mine[i].driver, info->driver, sizeof info->driver);
        memcpy(mine[i].name, info->name, sizeof info->name);
        memcpy(mine[i].pci, info->pci, sizeof info->pci);
    }
    status = clq_world_check(s->world, status);
    if (status == CLQ_OK) status = clq_world_gather(s->world, mine, MOST * sizeof *mine, all);
    for (size_t i = 0; status == CLQ_OK && i < (size_t)size * MOST; i++)
        if (all[i].counts) all[s->peer_count++] = all[i];
    s->peers = all;
    clq_free(mine);
    return status;
}

clq_status clq_setup_meet(clq_setup *s, const clq_options *o, clq_status status) {
    if (!s->world) return status;
    CLQ_TRY(clq_world_check(s->world, status));
    CLQ_TRY(gather_peers(s));
    if (o->batch_per_replica) s->global_batch = o->batch_per_replica * s->peer_count;
    return clq_world_check(s->world, s->is_silent ? CLQ_OK : check_sharing(s, o));
}

/* ---- telling ---- */

static size_t share_of(const clq_setup *s, unsigned replica) {
    return clq_strategy_share_of_all(clq_trainer_strategy(s->trainer), replica);
}

void clq_introduce_peers(const clq_setup *s, FILE *to) {
    for (unsigned r = 0; r < s->peer_count; r++) {
        const clq_peer *peer = &s->peers[r];
        fprintf(to, "  %u: %s (%s) of %s, %zu of each batch\n", r, peer->name, peer->driver,
                clq_world_name(s->world, peer->rank), share_of(s, r));
    }
}

json_t *clq_describe_peers(const clq_setup *s) {
    json_t *list = json_array();
    for (unsigned r = 0; r < s->peer_count; r++)
        list = clq_json_append(list, json_pack("{s:i, s:o, s:I, s:i}", "index", (int)s->peers[r].index, "name",
                                               clq_json_text(s->peers[r].name), "share", (json_int_t)share_of(s, r),
                                               "rank", (int)s->peers[r].rank));
    return list;
}

json_t *clq_describe_peer_shares(const clq_setup *s) {
    json_t *row = json_array();
    for (unsigned r = 0; r < s->peer_count; r++) row = clq_json_append(row, json_integer((json_int_t)share_of(s, r)));
    return clq_json_append(json_array(), json_pack("{s:I, s:o}", "step", (json_int_t)1, "shares", row));
}

/* ---- the end ---- */

/* Whether this rank is to say why the run failed. While it is set up, one line on one rank is enough: that of the rank
 * that failed, if it could say so. A run that was under way is ended by each with a line. */
static bool is_to_tell(const clq_setup *s, clq_status status) {
    const clq_status cause = clq_world_cause(s->world);
    if (clq_world_culprit(s->world) == clq_world_rank(s->world)) return true;
    return s->begun || (status == CLQ_ABORTED && cause == CLQ_ABORTED);
}

static void tell(const clq_setup *s, clq_status status) {
    const unsigned rank = clq_world_rank(s->world);
    const char *detail = *clq_error_detail() ? clq_error_detail() : clq_status_text(status);
    const char *name = clq_world_name(s->world, rank);
    const bool names_itself = rank == 0 || strncmp(detail, name, strlen(name)) == 0;
    if (status == CLQ_ABORTED)
        fprintf(stderr, "clique: error: %s (as %s knows it)\n", detail, name);
    else
        fprintf(stderr, "clique: error: %s%s%s\n", names_itself ? "" : name, names_itself ? "" : ": ", detail);
}

/* Others of the launcher's processes get a second to say what they know: it ends all once one has ended. */
static const struct timespec last_words = {.tv_sec = 1};

/* Devices may hang, and MPI is not to be called any more: nothing is put in order but what was printed. */
static void end_failed(const clq_setup *s, clq_status status) {
    clq_error error;
    clq_error_take(clq_world_fail_with(s->world, status), &error);
    (void)clq_error_raise(&error);
    if (is_to_tell(s, status)) tell(s, status);
    (void)fflush(NULL);
    (void)nanosleep(&last_words, NULL);
    _exit(clq_program_exit_code(status == CLQ_ABORTED ? clq_world_cause(s->world) : status));
}

void clq_setup_leave_if_failed(const clq_setup *s, clq_status status) {
    if (!s->world) return;
    if (status != CLQ_OK && (status != CLQ_INTERRUPTED || clq_world_failure(s->world) != CLQ_OK)) end_failed(s, status);
}

clq_status clq_setup_leave(clq_setup *s, clq_status status) {
    clq_error error;
    if (!s->world) return status;
    clq_error_take(status, &error);
    clq_status left = clq_world_barrier(s->world); /* all have written what they write */
    if (left != CLQ_OK) end_failed(s, left);
    clq_world_close(s->world);
    s->world = NULL;
    if (status == CLQ_INTERRUPTED && s->is_silent) _exit(clq_program_exit_code(status));
    return clq_error_raise(&error);
}
