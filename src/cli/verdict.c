/* The verdict of a training: what limited it, by what the run itself measured, and what was predicted. */
#include "cli/cli.h"
#include "world/world.h"

static const double worth_telling = 1.05; /* the least gain that the verdict tells of */

static const char *machine(const clq_setup *s, const clq_verdict *v) { return clq_world_name(s->world, v->rank); }

/* Names the device of v->replica on process v->rank. If there are several processes, its number counts the replicas of
 * all: peers come in the order of their processes. */
static void name_device(const clq_setup *s, const clq_verdict *v, clq_text *text) {
    if (!s->world) {
        clq_text_add(text, "replica %u (%s)", v->replica,
                     clq_device_label(clq_strategy_device(clq_trainer_strategy(s->trainer), v->replica)));
        return;
    }
    unsigned first = 0;
    while (first < s->peer_count && s->peers[first].rank < v->rank) first++;
    clq_text_add(text, "replica %u (%s) of %s", first + v->replica, s->peers[first + v->replica].name, machine(s, v));
}

static bool may_share_by_speed(const clq_setup *s) {
    clq_strategy_kind kind;
    clq_strategy_options options;
    clq_strategy_settings(clq_trainer_strategy(s->trainer), &kind, &options);
    return kind == CLQ_STRATEGY_MIRRORED && options.shares == CLQ_SHARES_EQUAL && options.local_steps == 0 &&
           s->config.shard == CLQ_SHARD_DATA && s->peer_count <= CLQ_REPLICAS_MAX;
}

static void describe(const clq_setup *s, const clq_verdict *v, clq_text *text) {
    const double percent = 100 * v->share;
    switch (v->limit) {
    case CLQ_LIMIT_INPUT:
        clq_text_add(text, "input: %.0f%% of the time went into waiting for data", percent);
        if (s->world) clq_text_add(text, " on %s", machine(s, v));
        return;
    case CLQ_LIMIT_SLOW_MACHINE:
        clq_text_add(text, "slow machine: the others waited %.0f%% of the time for %s", percent, machine(s, v));
        if (may_share_by_speed(s)) clq_text_add(text, "; --shares auto gives it less to do");
        return;
    case CLQ_LIMIT_SLOW_DEVICE:
        clq_text_add(text, "slow device: the others waited %.0f%% of the time for ", percent);
        name_device(s, v, text);
        return;
    case CLQ_LIMIT_COMMUNICATION:
        clq_text_add(text, "communication: %.0f%% of the time went into exchanges that nothing hid", percent);
        return;
    default: clq_text_add(text, "devices: they were kept busy; waiting for data took %.1f%% of the time", percent);
    }
}

/* Finds what limited the training of all processes; each of them calls it. */
static clq_status judge(const clq_setup *s, const clq_toll *begun, const clq_toll *ended, clq_verdict *out) {
    const clq_spent own = clq_why_spent(clq_trainer_replicas(s->trainer), begun, ended);
    clq_spent *all = clq_alloc(clq_world_size(s->world), sizeof *all);
    clq_status status = clq_world_check(s->world, all ? CLQ_OK : CLQ_ERROR_MEMORY);
    if (status == CLQ_OK) status = clq_world_gather(s->world, &own, sizeof own, all);
    if (status == CLQ_OK) *out = clq_why_judge(clq_world_size(s->world), all);
    clq_free(all);
    return status;
}

static void quote(const clq_kept_prediction *kept, double images_per_s, clq_text *text) {
    clq_text_add(text, "; clique why predicted %.0f images/s (limit: %s), measured %.0f (%.2f of it)",
                 kept->images_per_s, clq_limit_name(kept->limit), images_per_s, images_per_s / kept->images_per_s);
    if (kept->best_images_per_s < worth_telling * kept->images_per_s) return;
    clq_text_add(text, ", and %.1fx on %u device%s by --strategy %s", kept->best_images_per_s / kept->images_per_s,
                 kept->best_replicas, kept->best_replicas == 1 ? "" : "s", kept->best_strategy);
}

clq_status clq_judge(const clq_setup *setup, const clq_options *options, const clq_toll *begun, const clq_toll *ended,
                     double images_per_s, char *out) {
    const clq_trainer *trainer = setup->trainer;
    clq_kept_prediction kept;
    clq_verdict verdict;
    bool known;
    clq_text text = {0};
    CLQ_TRY(clq_why_recall(trainer, setup->model, &setup->config, &known, &kept));
    CLQ_TRY(judge(setup, begun, ended, &verdict));
    describe(setup, &verdict, &text);
    if (known && !options->trace && !setup->world) quote(&kept, images_per_s, &text);
    if (!text.failed) snprintf(out, CLQ_VERDICT_TEXT, "%s", text.data);
    clq_free(text.data);
    return text.failed ? CLQ_ERROR_MEMORY : CLQ_OK;
}
