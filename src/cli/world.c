/* A training of several processes: what TF_CONFIG says of them, which of them are store ranks, which devices they have,
 * and how these are printed. How processes join and end: ranks.c. */
#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/ranks.h"

#include <string.h>

/* What this process's TF_CONFIG says. */
typedef struct tf_config {
    unsigned ranks, stores; /* all processes, and the store ranks of strategy ps among them; 0: there is no TF_CONFIG,
                               or clique launch has read it */
    int own_rank;           /* -1: it does not say */
} tf_config;

static clq_status read_tf_config(bool is_ps, tf_config *out) {
    const char *text = clq_environment("TF_CONFIG");
    clq_cluster cluster = {0};
    *out = (tf_config){.own_rank = -1};
    if (!text || clq_environment("CLIQUE_LAUNCH")) return CLQ_OK;
    const clq_status status = clq_cluster_of_tf_config(text, is_ps, &cluster);
    if (status == CLQ_OK)
        *out = (tf_config){
            .ranks = clq_cluster_ranks(&cluster), .stores = is_ps ? cluster.ps : 0, .own_rank = cluster.own_rank};
    clq_cluster_release(&cluster);
    return status;
}

/* Checks that TF_CONFIG and the launcher agree on which rank this process is. If all ranks got their TF_CONFIG from one
 * host, it describes that host's task: then only the number of processes is compared. */
static clq_status check_tf_config(clq_world *world, bool is_ps, tf_config *out) {
    const unsigned size = clq_world_size(world), rank = clq_world_rank(world);
    clq_status status = read_tf_config(is_ps, out);
    const unsigned ranks = out->ranks;
    const int own = out->own_rank;
    int *all = clq_alloc(size, sizeof *all);
    status = clq_world_check(world, status == CLQ_OK && !all ? CLQ_ERROR_MEMORY : status);
    if (status == CLQ_OK) status = clq_world_gather(world, &own, sizeof own, all);
    bool differ = false;
    for (unsigned r = 1; status == CLQ_OK && r < size; r++) differ = differ || all[r] != all[0];
    clq_free(all);
    CLQ_TRY(status);
    if (ranks > 0 && ranks != size)
        status = clq_fail(CLQ_ERROR_MISMATCH,
                          "TF_CONFIG names %u processes, and the launcher started %u: let clique launch start them, or "
                          "unset TF_CONFIG",
                          ranks, size);
    else if (differ && own >= 0 && (unsigned)own != rank)
        status = clq_fail(CLQ_ERROR_MISMATCH,
                          "TF_CONFIG says that this process is rank %d, and the launcher that it is rank %u: name the "
                          "hosts in the order of TF_CONFIG, or unset it",
                          own, rank);
    return clq_world_check(world, status);
}

/* If TF_CONFIG names several processes and this one is alone: fails if a launcher started it so. Without a launcher
 * only warns: the user may have missed clique launch. */
static clq_status check_tf_config_alone(bool is_ps) {
    tf_config config;
    CLQ_TRY(read_tf_config(is_ps, &config));
    const unsigned ranks = config.ranks;
    if (ranks > 1 && clq_launcher_find().name)
        return clq_fail(CLQ_ERROR_MISMATCH, "TF_CONFIG names %u processes, and the launcher started one", ranks);
    if (ranks > 1)
        clq_log(CLQ_LOG_WARNING,
                "TF_CONFIG names %u processes, and this one works alone: clique launch -- clique … starts all", ranks);
    return CLQ_OK;
}

/* Puts `rank` in place of "{rank}" in *option, and `ranks` in place of "{ranks}". The new text is *owned, for clq_free;
 * an option without "{rank" stays as it is. */
static clq_status name_rank(const char *rank, const char *ranks, const char **option, char **owned) {
    const char *const names[] = {"{rank}", "{ranks}"}, *const values[] = {rank, ranks};
    clq_text text = {0};
    if (!*option || !strstr(*option, "{rank")) return CLQ_OK;
    for (const char *at = *option; *at;) {
        size_t k = 0;
        while (k < CLQ_COUNT_OF(names) && strncmp(at, names[k], strlen(names[k])) != 0) k++;
        clq_text_add(&text, k < CLQ_COUNT_OF(names) ? "%s" : "%.1s", k < CLQ_COUNT_OF(names) ? values[k] : at);
        at += k < CLQ_COUNT_OF(names) ? strlen(names[k]) : 1;
    }
    *owned = text.data;
    if (text.failed) return CLQ_ERROR_MEMORY;
    *option = text.data;
    return CLQ_OK;
}

clq_status clq_setup_name_files(clq_setup *setup, const char *command, clq_options *options) {
    char rank[16], ranks[16];
    (void)snprintf(rank, sizeof rank, "%u", clq_world_rank(setup->world));
    (void)snprintf(ranks, sizeof ranks, "%u", clq_world_size(setup->world));
    CLQ_TRY(name_rank(rank, ranks, &options->data, &setup->data));
    CLQ_TRY(name_rank(rank, ranks, &options->sample_weights, &setup->sample_weights));
    return setup->data || setup->sample_weights ? clq_options_check_files(command, options, NULL, 0) : CLQ_OK;
}

clq_status clq_setup_evaluator(clq_setup *setup, clq_options *options, unsigned processes) {
    char ranks[16];
    (void)snprintf(ranks, sizeof ranks, "%u", processes);
    return name_rank("evaluator", ranks, &options->data, &setup->data);
}

/* ---- store ranks ---- */

clq_status clq_options_train_by_ps(const clq_options *o, bool *is_ps) {
    clq_strategy_options ignored = {0};
    clq_strategy_kind kind = CLQ_STRATEGY_AUTO;
    CLQ_TRY(clq_strategy_parse(o->strategy, &kind, &ignored));
    *is_ps = kind == CLQ_STRATEGY_PS;
    return CLQ_OK;
}

/* Makes sure that all processes agree before store ranks leave the others' collective functions. *stores: 0 without
 * strategy ps. */
static clq_status agree_on_stores(const clq_options *o, clq_world *world, bool is_ps, const tf_config *config,
                                  unsigned *stores) {
    const uint64_t count = !is_ps ? 0 : o->ps_ranks ? o->ps_ranks : CLQ_MAX(config->stores, 1u);
    *stores = (unsigned)count;
    return clq_world_agree(world, "number of store ranks (--strategy, --ps-ranks)",
                           clq_hash128_of(&count, sizeof count, 0));
}

static clq_status check_stores(const clq_options *o, const clq_world *world, bool is_ps, const tf_config *config) {
    const unsigned size = clq_world_size(world);
    if (o->ps_ranks > 0 && !is_ps)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "--ps-ranks is an option of --strategy ps, and the strategy is %s: use ps, or leave "
                        "it out",
                        o->strategy);
    if (o->ps_ranks > 0 && !world)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "--ps-ranks %u: they keep variables in processes of their own, and this process is "
                        "alone: start several (mpirun, clique launch), or leave it out",
                        (unsigned)o->ps_ranks);
    if (o->ps_ranks > 0 && config->stores > 0 && o->ps_ranks != config->stores)
        return clq_fail(CLQ_ERROR_ARGUMENT, "--ps-ranks %u, and TF_CONFIG has %u in cluster.ps: leave --ps-ranks out",
                        (unsigned)o->ps_ranks, config->stores);
    if (o->ps_ranks >= size && world)
        return clq_fail(CLQ_ERROR_ARGUMENT, "--ps-ranks %u of %u processes leaves none to train: use at most %u",
                        (unsigned)o->ps_ranks, size, size - 1);
    return CLQ_OK;
}

/* A signal does not end a store rank. Launchers send it to the processes that train, too, and these decide whether it
 * ends the training. */
clq_status clq_setup_serve(const clq_setup *setup) {
    (void)clq_interrupts_count();
    return clq_serve(setup->world);
}

clq_status clq_setup_end_stores(clq_setup *setup, clq_status status) {
    clq_error error;
    if (clq_world_apart(setup->world) == 0 || (status != CLQ_OK && status != CLQ_ERROR_INTERRUPTED)) return status;
    clq_error_take(status, &error);
    clq_setup_close_trainer(setup);
    CLQ_TRY(clq_serve_end(setup->world));
    return clq_error_raise(&error);
}

clq_status clq_setup_world(clq_setup *setup, clq_options *options, bool trains, clq_status status) {
    tf_config config = {.own_rank = -1};
    bool is_ps = false;
    unsigned stores = 0;
    if (status == CLQ_OK && trains) status = clq_options_train_by_ps(options, &is_ps);
    status = clq_ranks_join(&setup->world, status);
    clq_world *world = setup->world;
    setup->is_silent = clq_world_rank(world) > 0;
    if (status == CLQ_OK) status = world ? check_tf_config(world, is_ps, &config) : check_tf_config_alone(is_ps);
    if (status == CLQ_OK) status = clq_world_check(world, check_stores(options, world, is_ps, &config));
    if (status == CLQ_OK && world) status = agree_on_stores(options, world, is_ps, &config, &stores);
    if (status == CLQ_OK && stores > 0) status = clq_world_set_apart(world, stores);
    if (setup->is_silent) {
        options->json = false;
        options->save = options->save_best = options->monitor = options->csv = options->trace = NULL;
    }
    if (status != CLQ_OK || clq_world_is_apart(world)) return status;
    return clq_world_check(world, clq_setup_name_files(setup, trains ? "train" : "why", options));
}

/* ---- devices ---- */

static bool is_same_device(const clq_world *world, const clq_peer *a, const clq_peer *b) {
    if (strcmp(clq_world_host(world, a->rank), clq_world_host(world, b->rank)) != 0) return false;
    if (a->pci[0] && b->pci[0]) return strcmp(a->pci, b->pci) == 0;
    return a->index == b->index && strcmp(a->driver, b->driver) == 0;
}

/* Two processes on one device. A GPU computes for one after the other: an error, unless --share-devices is given. A CPU
 * device shares its cores among them: a warning. */
static clq_status check_sharing(const clq_setup *s, const clq_options *o) {
    bool is_told = o->share_devices || s->is_silent;
    for (unsigned b = 1; b < s->peer_count; b++)
        for (unsigned a = 0; a < b; a++) {
            const clq_peer *first = &s->peers[a], *second = &s->peers[b];
            if (first->rank == second->rank || !is_same_device(s->world, first, second)) continue;
            if (second->type != CLQ_DEVICE_CPU && !o->share_devices)
                return clq_fail(
                    CLQ_ERROR_ARGUMENT,
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
    clq_status status = mine && all ? CLQ_OK : CLQ_ERROR_MEMORY;
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

/* Compares the options that decide which way a training goes, without those that the trainer and its fit compare
 * themselves. */
static clq_status agree_on_options(const clq_setup *s, const clq_options *o) {
    clq_text text = {0};
    clq_text_add(&text, "%d %d %d %d %d %llu %s %s", o->checkpoint != NULL, o->resume, o->log != NULL, o->no_test,
                 o->batch_per_replica > 0, (unsigned long long)o->checkpoint_every,
                 o->early_stopping ? o->early_stopping : "-", o->reduce_lr ? o->reduce_lr : "-");
    clq_status status = clq_world_check(s->world, text.failed ? CLQ_ERROR_MEMORY : CLQ_OK);
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
    const clq_strategy *strategy = clq_trainer_strategy(s->trainer);
    if (s->world && clq_strategy_is_by_batches(strategy)) return s->global_batch;
    if (s->world) return clq_strategy_share_of_all(strategy, replica);
    (void)clq_trainer_replica(s->trainer, replica, &device, &share);
    return share;
}

void clq_introduce_peers(const clq_setup *s, FILE *to) {
    const bool whole = clq_strategy_is_by_batches(clq_trainer_strategy(s->trainer));
    const unsigned first = clq_world_size(s->world), stores = clq_world_apart(s->world);
    for (unsigned r = 0; r < s->peer_count; r++) {
        const clq_peer *peer = &s->peers[r];
        fprintf(to, "  %u: %s (%s) of %s, %zu of each batch%s\n", r, peer->name, peer->driver,
                clq_world_name(s->world, peer->rank), clq_setup_share(s, r), whole ? " that it is given" : "");
    }
    for (unsigned k = 0; k < stores; k++)
        fprintf(to, "  %s keeps %s the variables\n", clq_world_name(s->world, first + k),
                stores == 1 ? "all of" : "a part of");
}

json_t *clq_describe_peers(const clq_setup *s) {
    json_t *list = json_array();
    for (unsigned r = 0; r < s->peer_count; r++)
        list = clq_json_append(list, json_pack("{s:i, s:o, s:I, s:i}", "index", (int)s->peers[r].index, "name",
                                               clq_json_text(s->peers[r].name), "share",
                                               (json_int_t)clq_setup_share(s, r), "rank", (int)s->peers[r].rank));
    return list;
}
