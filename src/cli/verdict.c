/* The verdict of a training: what limited it, by what the run itself measured, and what was predicted. */
#include "cli/cli.h"

static const double worth_telling = 1.05; /* of a gain */

static void describe(const clq_trainer *trainer, const clq_verdict *v, clq_text *text) {
    const double percent = 100 * v->share;
    switch (v->limit) {
    case CLQ_LIMIT_INPUT: clq_text_add(text, "input: %.0f%% of the time went into waiting for data", percent); return;
    case CLQ_LIMIT_SLOW_DEVICE:
        clq_text_add(text, "slow device: the others waited %.0f%% of the time for replica %u (%s)", percent, v->replica,
                     clq_device_label(clq_strategy_device(clq_trainer_strategy(trainer), v->replica)));
        return;
    case CLQ_LIMIT_COMMUNICATION:
        clq_text_add(text, "communication: %.0f%% of the time went into exchanges that nothing hid", percent);
        return;
    default: clq_text_add(text, "devices: they were kept busy; waiting for data took %.1f%% of the time", percent);
    }
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
    bool known;
    clq_text text = {0};
    CLQ_TRY(clq_why_recall(trainer, setup->model, &setup->config, &known, &kept));
    const clq_verdict verdict = clq_why_judge(clq_trainer_replicas(trainer), begun, ended);
    describe(trainer, &verdict, &text);
    if (known && !options->trace && !setup->world) quote(&kept, images_per_s, &text);
    if (!text.failed) snprintf(out, CLQ_VERDICT_TEXT, "%s", text.data);
    clq_free(text.data);
    return text.failed ? CLQ_MEMORY : CLQ_OK;
}
