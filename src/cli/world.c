/* A command that several processes carry out together, one on each machine, which a launcher of MPI started. Rank 0
 * talks, and writes all files. */
#include "cli/cli.h"
#include "cli/program.h"
#include "world/world.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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
        return clq_fail(CLQ_SYSTEM, "cannot open /dev/null: %s", strerror(errno));
    close(nowhere);
    return CLQ_OK;
}

clq_status clq_setup_world(clq_setup *setup, clq_options *options, clq_status status) {
    clq_error error = {0};
    clq_world *world;
    if (status != CLQ_OK) clq_error_take(status, &error);
    const clq_status opened = clq_world_open(NULL, &world);
    /* The launcher of another MPI, and ranks of other versions: all processes find the same, and the first reports it.
     */
    if ((opened == CLQ_UNSUPPORTED || opened == CLQ_MISMATCH) && clq_launcher_find().rank > 0)
        _exit(clq_program_exit_code(opened));
    if (opened != CLQ_OK) return status == CLQ_OK ? opened : clq_error_raise(&error);
    if (clq_world_size(world) == 1) {
        clq_world_close(world);
        return status == CLQ_OK ? CLQ_OK : clq_error_raise(&error);
    }
    setup->world = world;
    setup->is_silent = clq_world_rank(world) > 0;
    if (status != CLQ_OK) (void)clq_error_raise(&error);
    CLQ_TRY(clq_world_check(world, status));
    clq_widen_affinity(world);
    return setup->is_silent ? be_silent(world, options) : CLQ_OK;
}

/* ---- devices ---- */

static bool is_same_device(const clq_world *world, const clq_peer *a, const clq_peer *b) {
    if (strcmp(clq_world_host(world, a->rank), clq_world_host(world, b->rank)) != 0) return false;
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
                return clq_fail(
                    CLQ_ARGUMENT,
                    "%s and %s train on the same device, %s: give each rank devices of its own (--devices), start "
                    "one rank on each machine, or allow it (--share-devices)",
                    clq_world_name(s->world, first->rank), clq_world_name(s->world, second->rank), second->name);
            if (!is_told)
                clq_log(CLQ_LOG_WARNING,
                        "%s and %s share the cores of %s: one rank on each machine is enough (--share-devices "
                        "silences this)",
                        clq_world_name(s->world, first->rank), clq_world_name(s->world, second->rank), second->name);
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
        mine[i] = (clq_peer){.rank = rank, .is_used = true, .index = info->index, .type = info->type};
        memcpy(mine[i].driver, info->driver, sizeof info->driver);
        memcpy(mine[i].name, info->name, sizeof info->name);
        memcpy(mine[i].pci, info->pci, sizeof info->pci);
    }
    status = clq_world_check(s->world, status);
    if (status == CLQ_OK) status = clq_world_gather(s->world, mine, MOST * sizeof *mine, all);
    for (size_t i = 0; status == CLQ_OK && i < (size_t)size * MOST; i++)
        if (all[i].is_used) all[s->peer_count++] = all[i];
    s->peers = all;
    clq_free(mine);
    return status;
}

/* Which ways a training goes, by options: what the trainer and its fit compare themselves is not among them. */
static clq_status agree_on_options(const clq_setup *s, const clq_options *o) {
    clq_text text = {0};
    clq_text_add(&text, "%d %d %d %d %d %llu %s %s", o->checkpoint != NULL, o->resume, o->log != NULL, o->no_test,
                 o->batch_per_replica > 0, (unsigned long long)o->checkpoint_every,
                 o->early_stopping ? o->early_stopping : "-", o->reduce_lr ? o->reduce_lr : "-");
    clq_status status = clq_world_check(s->world, text.failed ? CLQ_MEMORY : CLQ_OK);
    if (status == CLQ_OK)
        status = clq_world_agree(s->world, "set of options", clq_hash128_of(text.data, text.length, 0));
    clq_free(text.data);
    return status;
}

clq_status clq_setup_gather_devices(clq_setup *s, const clq_options *o, clq_status status) {
    if (!s->world) return status;
    CLQ_TRY(clq_world_check(s->world, status));
    CLQ_TRY(agree_on_options(s, o));
    CLQ_TRY(gather_peers(s));
    if (o->batch_per_replica) s->global_batch = o->batch_per_replica * s->peer_count;
    return clq_world_check(s->world, s->is_silent ? CLQ_OK : check_sharing(s, o));
}

/* ---- telling ---- */

unsigned clq_setup_replicas(const clq_setup *s) { return s->world ? s->peer_count : clq_trainer_replicas(s->trainer); }

size_t clq_setup_share(const clq_setup *s, unsigned replica) {
    clq_device_info device;
    size_t share = 0;
    if (s->world) return clq_strategy_share_of_all(clq_trainer_strategy(s->trainer), replica);
    (void)clq_trainer_replica(s->trainer, replica, &device, &share);
    return share;
}

void clq_introduce_peers(const clq_setup *s, FILE *to) {
    for (unsigned r = 0; r < s->peer_count; r++) {
        const clq_peer *peer = &s->peers[r];
        fprintf(to, "  %u: %s (%s) of %s, %zu of each batch\n", r, peer->name, peer->driver,
                clq_world_name(s->world, peer->rank), clq_setup_share(s, r));
    }
}

json_t *clq_describe_peers(const clq_setup *s) {
    json_t *list = json_array();
    for (unsigned r = 0; r < s->peer_count; r++)
        list = clq_json_append(list, json_pack("{s:i, s:o, s:I, s:i}", "index", (int)s->peers[r].index, "name",
                                               clq_json_text(s->peers[r].name), "share",
                                               (json_int_t)clq_setup_share(s, r), "rank", (int)s->peers[r].rank));
    return list;
}

/* ---- the end ---- */

/* Whether this rank is to say why the run failed. While it is set up, one line on one rank is enough: that of the rank
 * that failed, if it could say so. A run that was under way is ended by each with a line. */
static bool is_to_tell(const clq_setup *s, clq_status status) {
    const clq_status cause = clq_world_failed_status(s->world);
    if (clq_world_failed_rank(s->world) == clq_world_rank(s->world)) return true;
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

/* Devices may hang, and MPI is not to be called any more: nothing is put in order but what was printed. */
static void end_failed(const clq_setup *s, clq_status status) {
    clq_error error;
    clq_error_take(clq_world_fail_with(s->world, status), &error);
    (void)clq_error_raise(&error);
    if (is_to_tell(s, status)) tell(s, status);
    (void)fflush(NULL);
    clq_world_let_others_speak(s->world);
    _exit(clq_program_exit_code(status == CLQ_ABORTED ? clq_world_failed_status(s->world) : status));
}

void clq_setup_end_together(const clq_setup *s, clq_status status) {
    clq_error error;
    if (!s->world) return;
    if (status != CLQ_OK && status != CLQ_INTERRUPTED) end_failed(s, status);
    clq_error_take(status, &error);
    const clq_status met = clq_world_barrier(s->world);
    if (met != CLQ_OK) end_failed(s, met);
    (void)clq_error_raise(&error);
}

clq_status clq_setup_leave(clq_setup *s, clq_status status) {
    clq_error error;
    if (!s->world) return status;
    clq_error_take(status, &error);
    clq_world_close(s->world);
    s->world = NULL;
    if (status == CLQ_INTERRUPTED && s->is_silent) _exit(clq_program_exit_code(status));
    return clq_error_raise(&error);
}
