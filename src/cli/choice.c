/* --devices auto and --strategy auto: takes what clique why, tune or --tune chose for this machine and model. Without a
 * choice, a rule decides. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>
#include <time.h>

static const double quick_s = 2; /* the budget of --tune quick */
static const double renew_s = 6; /* the budget of a training that makes a choice anew */
/* How long measurements that other programs disturbed are repeated: this part of a budget, but at most patience_s;
 * without a budget, patience_s. */
static const double patience_part = 0.5, patience_s = 8;
static const double glance_s = 0.2; /* how long to look whether other programs are quiet now */

static bool is_auto(const char *text) { return strcmp(text, "auto") == 0; }

/* Whether the choice of devices is open. Not with --batch-per-replica: the batch, and so what is trained, would depend
 * on the devices. Not with a strategy other than these: it is not always predicted. */
static bool leaves_devices_open(const clq_options *o) {
    const bool known =
        is_auto(o->strategy) || strcmp(o->strategy, "single") == 0 || strcmp(o->strategy, "mirrored") == 0;
    return is_auto(o->devices) && known && !o->batch_per_replica;
}

/* Adds the settings of every strategy: choices differ if any of them differs. */
static void add_settings(const clq_trainer_config *config, unsigned key, clq_text *text) {
    for (size_t kind = 0; clq_strategy_name(kind); kind++)
        clq_settings_add_key(config, key, (clq_strategy_kind)kind, text);
}

/* *out: the key, which says what a choice is for. *settings: a hash of all settings that the speed depends on, which
 * are more than the key has. */
static clq_status key_of(clq_setup *s, const clq_options *o, clq_trainer_config config, clq_hash128 *out,
                         clq_hash128 *settings) {
    clq_text text = {0}, all = {0};
    config.global_batch = o->batch ? (size_t)o->batch : CLQ_BATCH_DEFAULT;
    add_settings(&config, CLQ_KEY_PREDICTION, &all);
    clq_text_add(&all, "log %d, checkpoint every %llu\n", o->log != NULL, (unsigned long long)o->checkpoint_every);
    const bool failed = all.failed;
    if (!failed) *settings = clq_hash128_of(all.data, all.length, 0);
    clq_free(all.data);
    if (failed) return CLQ_ERROR_MEMORY;
    clq_text_add(&text, "choice 5 of clique %s\ndevices %s, strategy %s, memory %llu\n", clq_version(), o->devices,
                 o->strategy, (unsigned long long)o->memory_limit);
    add_settings(&config, CLQ_KEY_CHOICE, &text);
    clq_model_add_key(s->model, &text);
    return clq_machine_key(&text, out);
}

/* Whether this run is to measure devices and choose among them. */
static bool is_to_choose(const clq_setup *s, const clq_options *o) {
    if (!leaves_devices_open(o)) return false;
    return s->choice.measure || strcmp(o->tune, "full") == 0 || (strcmp(o->tune, "quick") == 0 && !s->choice.is_kept);
}

static double glance_at_others(void) {
    const clq_cores_used begun = clq_cores_used_now();
    const struct timespec rest = {.tv_nsec = (long)(glance_s * 1e9)};
    (void)nanosleep(&rest, NULL);
    const clq_cores_used ended = clq_cores_used_now();
    return clq_others_between(&begun, &ended);
}

/* Finds whether a kept choice is to be made anew. Not for a training that resumes: it has had its devices from its
 * beginning. */
static void find_renewal(clq_setup *s, const clq_options *o) {
    clq_choice_of_setup *choice = &s->choice;
    if (!choice->may_renew || !choice->is_kept || !leaves_devices_open(o) || o->resume) return;
    const bool glances = clq_doubt_is_grave(&choice->kept.doubt);
    choice->renewal = clq_why_renewal(&choice->kept, glances ? glance_at_others() : (double)NAN);
    if (choice->renewal == CLQ_RENEWAL_NONE) return;
    choice->before = choice->kept;
    choice->to_make = true;
    if (choice->renewal == CLQ_RENEWAL_DOUBTFUL)
        (void)clq_print(clq_talk(o),
                        "choosing devices anew: other programs used %.0f%% of the cores at the last time\n",
                        100 * choice->kept.doubt.others);
    else
        (void)clq_print(clq_talk(o),
                        "choosing devices anew: with --devices %s trainings reached %.0f images/s of %.0f predicted\n",
                        choice->kept.devices, choice->kept.reached_images_per_s, choice->kept.images_per_s);
}

/* How long choosing may take, in seconds; 0: without a limit. */
static double budget_of(const clq_setup *s, const clq_options *o) {
    if (s->choice.renewal != CLQ_RENEWAL_NONE) return renew_s;
    return !s->choice.measure && strcmp(o->tune, "quick") == 0 ? quick_s : o->budget;
}

void clq_setup_set_patience(clq_setup *s, const clq_options *o) {
    const double budget_s = budget_of(s, o);
    s->choice.patience.left_s = budget_s > 0 ? CLQ_MIN(patience_part * budget_s, patience_s) : patience_s;
}

clq_status clq_setup_recall(clq_setup *s, const clq_options *o) {
    clq_choice_of_setup *choice = &s->choice;
    const bool open = leaves_devices_open(o) || (is_auto(o->strategy) && !o->batch_per_replica);
    clq_trainer_config config;
    /* Refuses wrong settings before drivers are loaded, also if nothing is chosen. The type of the samples is constant,
     * because a choice holds for samples of any type. */
    CLQ_TRY(clq_setup_config(s, o, CLQ_U8, false, &config));
    if (open) {
        CLQ_TRY(key_of(s, o, config, &choice->key, &choice->settings));
        CLQ_TRY(clq_why_recall_choice(choice->key, &choice->is_kept, &choice->kept));
        choice->has_key = true;
    }
    choice->to_make = is_to_choose(s, o);
    if (!choice->to_make) find_renewal(s, o);
    clq_setup_set_patience(s, o);
    if (choice->to_make) choice->is_kept = false;
    if (choice->to_make) return CLQ_OK; /* all drivers' devices are to be compared */
    return clq_system_recall(choice->is_kept && leaves_devices_open(o) ? choice->kept.devices : o->devices,
                             &s->recalled);
}

/* Selects the devices of the kept choice. *holds false: they are not what they were, and none is selected. */
static clq_status select_kept(clq_setup *s, bool *holds) {
    clq_devices devices;
    clq_status status = clq_devices_select(s->system, s->choice.kept.devices, &devices);
    *holds = false;
    if (status == CLQ_ERROR_NO_DEVICE || status == CLQ_ERROR_ARGUMENT) return CLQ_OK;
    CLQ_TRY(status);
    CLQ_TRY(clq_why_choice_holds(&s->choice.kept, &devices, holds));
    if (*holds) s->devices = devices;
    return CLQ_OK;
}

/* Forgets the kept choice; a rule decides instead. If only one driver was opened, the rule needs the others, too: then
 * this fails, and the command restarts. */
static clq_status forget(clq_setup *s) {
    clq_machine_forget(s->choice.key);
    s->choice.is_kept = false;
    (void)clq_fail(CLQ_ERROR_NO_DEVICE,
                   "devices %s, which were chosen for this model, are not what they were: a rule decides until clique "
                   "why chooses anew",
                   s->choice.kept.devices);
    if (s->recalled_one) return CLQ_ERROR_NO_DEVICE;
    clq_log(CLQ_LOG_WARNING, "%s", clq_error_detail());
    return CLQ_OK;
}

clq_status clq_setup_select(clq_setup *s, const clq_options *o) {
    bool holds = true;
    if (s->choice.is_kept && leaves_devices_open(o)) {
        CLQ_TRY(select_kept(s, &holds));
        if (holds) {
            clq_warn_unlisted(s->system, &s->devices);
            return CLQ_OK;
        }
        CLQ_TRY(forget(s));
    }
    CLQ_TRY(clq_select_devices(s->system, o->devices, &s->devices));
    if (s->choice.is_kept) CLQ_TRY(clq_why_choice_holds(&s->choice.kept, &s->devices, &s->choice.is_kept));
    return CLQ_OK;
}

const char *clq_setup_strategy(const clq_setup *s, const clq_options *o) {
    return is_auto(o->strategy) && s->choice.is_kept ? s->choice.kept.strategy : o->strategy;
}

/* ---- choosing ---- */

static clq_status ask(clq_setup *s, const clq_options *o, clq_dataset *data, clq_choice_made *made) {
    clq_trainer_config config;
    const clq_renewal renewal = s->choice.renewal;
    const clq_choosing wanted = {.strategy = o->strategy,
                                 .plain = clq_settings_are_plain(o),
                                 .budget_s = budget_of(s, o),
                                 .before = renewal == CLQ_RENEWAL_NONE ? NULL : &s->choice.before,
                                 .fell_short = renewal == CLQ_RENEWAL_FELL_SHORT};
    CLQ_TRY(clq_setup_shuffle(o, data));
    CLQ_TRY(clq_setup_config(s, o, clq_dataset_get_info(data)->sample_dtype, false, &config));
    const clq_why_task task = {
        .model = s->model, .devices = &s->devices, .config = &config, .data = data, .patience = &s->choice.patience};
    return clq_why_choose(&task, &wanted, made);
}

/* A hash of all that the speed depends on, including the type of the samples, which is known once there are data. */
static clq_hash128 settings_of(const clq_setup *s, const clq_dataset *data) {
    const clq_hash128 *settings = &s->choice.settings;
    return clq_hash128_of(settings, sizeof *settings, (uint64_t)clq_dataset_get_info(data)->sample_dtype);
}

/* Keeps the choice for later runs, and for this one. */
static void keep(clq_setup *s, const clq_dataset *data, const clq_devices *devices, const char *strategy,
                 double images_per_s, const clq_doubt *doubt) {
    clq_kept_choice *kept = &s->choice.kept;
    const bool was_doubtful = s->choice.renewal == CLQ_RENEWAL_DOUBTFUL;
    memset(kept, 0, sizeof *kept);
    kept->images_per_s = images_per_s;
    kept->doubt = *doubt;
    kept->settings = settings_of(s, data);
    kept->renewals = was_doubtful ? s->choice.before.renewals + 1 : 0;
    (void)snprintf(kept->strategy, sizeof kept->strategy, "%s", strategy);
    if (clq_why_keep_choice(s->choice.key, devices, kept) != CLQ_OK)
        clq_log(CLQ_LOG_WARNING, "the choice of devices is not kept for later runs: %s", clq_error_detail());
    s->choice.is_kept = s->choice.is_new = true;
}

void clq_setup_note_training(const clq_setup *s, double images_per_s, double others) {
    const clq_choice_of_setup *choice = &s->choice;
    if (!choice->is_kept || !choice->may_renew || choice->kept.made == 0) return;
    const clq_hash128 now = settings_of(s, s->train), *then = &choice->kept.settings;
    if (now.low != then->low || now.high != then->high) return;
    if (clq_why_note_training(choice->key, &choice->kept, images_per_s, others) != CLQ_OK)
        clq_log(CLQ_LOG_INFO, "what the training reached is not kept beside the choice: %s", clq_error_detail());
}

/* Comparing failed with `status`. If a choice was to be made anew, takes what was chosen before, unless a driver hangs.
 * Otherwise returns `status`. */
static clq_status go_back(clq_setup *s, clq_status status) {
    bool noted, holds;
    if (s->choice.renewal == CLQ_RENEWAL_NONE || status == CLQ_ERROR_INTERRUPTED || status == CLQ_ERROR_MEMORY ||
        clq_system_is_stuck(s->system, &noted))
        return status;
    clq_log(CLQ_LOG_WARNING, "devices are not chosen anew: %s", clq_error_detail());
    if (clq_why_note_failed_renewal(s->choice.key, &s->choice.before) != CLQ_OK)
        clq_log(CLQ_LOG_INFO, "that comparing failed is not kept: %s", clq_error_detail());
    s->choice.kept = s->choice.before;
    s->choice.renewal = CLQ_RENEWAL_NONE;
    CLQ_TRY(select_kept(s, &holds));
    s->choice.is_kept = holds;
    return holds ? CLQ_OK : forget(s);
}

clq_status clq_setup_choose(clq_setup *s, const clq_options *o, clq_choice_made **out) {
    clq_dataset *data;
    bool asked = false;
    if (out) *out = NULL;
    if (!s->choice.to_make) return CLQ_OK;
    clq_choice_made *made = clq_alloc(1, sizeof *made);
    if (!made) return CLQ_ERROR_MEMORY;
    clq_status status = clq_setup_data(s, o, "train", &data); /* a data set of its own: probes change its batches */
    if (status == CLQ_ERROR_NOT_FOUND && s->choice.may_lack_data) {
        clq_log(CLQ_LOG_WARNING, "devices are not compared, a rule chooses them: %s", clq_error_detail());
        clq_free(made);
        return CLQ_OK;
    }
    if (status == CLQ_OK) {
        status = ask(s, o, data, made);
        if (status == CLQ_OK) {
            const clq_alternative *best = &made->alternatives[made->best];
            s->devices = made->devices;
            keep(s, data, &made->devices, best->strategy, best->images_per_s, &best->doubt);
        }
        clq_dataset_destroy(data);
        asked = true;
    }
    if (status == CLQ_OK && out)
        *out = made;
    else
        clq_free(made);
    return status == CLQ_OK || !asked ? status : go_back(s, status);
}

void clq_setup_keep_strategy(clq_setup *s, const clq_options *o, const clq_prediction *predictions, size_t count) {
    const clq_choosing wanted = {.strategy = o->strategy, .plain = clq_settings_are_plain(o)};
    if (!s->choice.has_key || is_auto(o->devices)) return;
    const clq_prediction *best = clq_why_pick(&wanted, predictions, count, s->devices.count);
    if (best) keep(s, s->train, &s->devices, best->way.strategy, best->images_per_s, &best->doubt);
}

/* ---- telling ---- */

static const char *chosen_by(const clq_setup *s) {
    return s->choice.is_new ? "measured" : s->choice.is_kept ? "kept" : "rule";
}

void clq_tell_choice(const clq_setup *s, const clq_options *o, FILE *to) {
    char spec[CLQ_SPEC_TEXT];
    if ((!is_auto(o->devices) && !s->choice.is_kept) ||
        !clq_why_spec(&s->devices, 0, s->devices.count, spec, sizeof spec))
        return;
    fprintf(to, "  %s: --devices %s --strategy %s", s->choice.is_kept ? "chosen" : "chosen by rule", spec,
            clq_strategy_own_name(clq_trainer_strategy(s->trainer)));
    if (!s->choice.is_kept) {
        fprintf(to, " (clique why measures which are the fastest)\n");
        return;
    }
    clq_fprintf(to, ", %.0f images/s predicted", s->choice.kept.images_per_s);
    if (clq_doubt_is_grave(&s->choice.kept.doubt))
        clq_fprintf(to, " while other programs used %.0f%% of the cores", 100 * s->choice.kept.doubt.others);
    putc('\n', to);
}

void clq_explain_doubt(const clq_doubt *worst, FILE *to) {
    if (clq_doubt_is_grave(worst))
        clq_fprintf(to, "?: measured while other programs used up to %.0f%% of the cores\n", 100 * worst->others);
}

json_t *clq_describe_doubt(const clq_doubt *doubt, double images_per_s) {
    const double factor = 1 + doubt->spread / 2;
    if (!(images_per_s > 0)) return json_null();
    return json_pack("{s:o, s:o, s:[o, o]}", "others", clq_json_number(doubt->others), "spread",
                     clq_json_number(doubt->spread), "images_per_s", clq_json_number(images_per_s / factor),
                     clq_json_number(images_per_s * factor));
}

static const char *why_anew(const clq_setup *s) {
    static const char *const names[] = {[CLQ_RENEWAL_DOUBTFUL] = "doubtful", [CLQ_RENEWAL_FELL_SHORT] = "fell short"};
    return names[s->choice.renewal];
}

json_t *clq_describe_choice(const clq_setup *s, const clq_options *o, const char *strategy) {
    char spec[CLQ_SPEC_TEXT];
    if ((!is_auto(o->devices) && !is_auto(o->strategy)) ||
        !clq_why_spec(&s->devices, 0, s->devices.count, spec, sizeof spec))
        return json_null();
    const clq_kept_choice *kept = &s->choice.kept;
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s?}", "by", chosen_by(s), "devices", spec, "strategy", strategy,
                     "images_per_s", s->choice.is_kept ? clq_json_number(kept->images_per_s) : json_null(), "doubt",
                     s->choice.is_kept ? clq_describe_doubt(&kept->doubt, kept->images_per_s) : json_null(), "anew",
                     why_anew(s));
}

void clq_print_alternatives(const clq_choice_made *made, FILE *to) {
    clq_doubt worst = {0};
    fprintf(to, "%-16s %8s %-10s %10s\n", "devices", "replicas", "strategy", "images/s");
    for (size_t i = 0; i < made->count; i++) {
        const clq_alternative *a = &made->alternatives[i];
        fprintf(to, "%-16s %8u %-10s", a->devices, a->replicas, a->strategy);
        if (a->images_per_s > 0)
            clq_fprintf(to, " %10.0f", a->images_per_s);
        else
            fprintf(to, " %10s", "-");
        fprintf(to, "%s %s%s\n", a->images_per_s > 0 && clq_doubt_is_grave(&a->doubt) ? "?" : " ",
                clq_alternative_state_name(a->state), i == made->best ? ", chosen" : "");
        if (a->images_per_s > 0) worst = clq_doubt_worse(&worst, &a->doubt);
    }
    clq_explain_doubt(&worst, to);
    const clq_alternative *best = &made->alternatives[made->best];
    fprintf(to, "\nchosen for trainings of this model: --devices %s --strategy %s\n\n", best->devices, best->strategy);
}

json_t *clq_describe_alternatives(const clq_choice_made *made) {
    json_t *list = json_array();
    for (size_t i = 0; i < made->count; i++) {
        const clq_alternative *a = &made->alternatives[i];
        list = clq_json_append(list, json_pack("{s:s, s:i, s:s, s:o, s:s, s:o}", "devices", a->devices, "replicas",
                                               (int)a->replicas, "strategy", a->strategy, "images_per_s",
                                               a->images_per_s > 0 ? clq_json_number(a->images_per_s) : json_null(),
                                               "state", clq_alternative_state_name(a->state), "doubt",
                                               clq_describe_doubt(&a->doubt, a->images_per_s)));
    }
    return list;
}
