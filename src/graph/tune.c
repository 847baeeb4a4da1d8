/* Which candidate of each choice of a plan is the fastest on a device. */
#include "graph/model.h"
#include "graph/trial.h"

#include <math.h>
#include <string.h>

typedef struct tuner {
    const clq_model *model;
    clq_device *device;
    clq_plan_config config; /* .selections is `table` */
    const clq_tune_config *tune;
    clq_trials trials;
    clq_plan *best;
    clq_selections table;
    clq_selection *entries;
    size_t entry_capacity;
    clq_tune_log *log;
    const void *mark;      /* programs of candidates were built after this mark; NULL: none were */
    double begun, longest; /* when measuring began; the longest time that a candidate took */
    bool over;             /* the budget is used up */
} tuner;

static double now(const tuner *t) { return t->tune->now ? t->tune->now(t->tune->context) : clq_now(); }

/* Whether there is time for another candidate, which may take as long as any did. */
static bool has_time(tuner *t) {
    if (t->tune->budget_s > 0 && now(t) - t->begun + t->longest >= t->tune->budget_s) t->over = true;
    return !t->over;
}

static const clq_choice *find(const clq_plan *plan, const char *text) {
    const clq_list *list = clq_plan_list(plan);
    for (size_t i = 0; i < clq_list_choice_count(list); i++)
        if (strcmp(clq_list_choice(list, i)->key, text) == 0) return clq_list_choice(list, i);
    return NULL;
}

static double flops_of(const clq_trial_part *part) { return clq_plan_launch_flops(part->plan, part->first, part->end); }

/* The open choice whose launches compute most, so a choice about the whole list comes first. If two choices are about
 * the same launches, the later one comes first: then the earlier one compares a candidate that the later one has
 * already made the best of. NULL: no choice is open. */
static const clq_choice *next_choice(const tuner *t) {
    const clq_list *list = clq_plan_list(t->best);
    const clq_choice *next = NULL;
    double most = -1;
    for (size_t i = 0; i < clq_list_choice_count(list); i++) {
        const clq_choice *choice = clq_list_choice(list, i);
        bool open = t->tune->anew || !choice->kept;
        for (size_t k = 0; k < t->table.count && open; k++) open = strcmp(t->entries[k].key, choice->key) != 0;
        clq_trial_part part = clq_trial_part_of(t->best, choice);
        double flops = flops_of(&part);
        if (!open || flops < most) continue;
        most = flops;
        next = choice;
    }
    return next;
}

static void set_selection(tuner *t, size_t index, const clq_choice *choice, size_t candidate) {
    clq_selection *selection = &t->entries[index];
    memcpy(selection->key, choice->key, sizeof selection->key);
    memcpy(selection->candidate, choice->candidates[candidate].name, sizeof selection->candidate);
}

static clq_status add_row(clq_tune_log *log, const clq_choice *choice, clq_tune_row **out) {
    CLQ_TRY(CLQ_RESERVE(log, rows, count, 1, capacity));
    clq_tune_row *row = &log->rows[log->count++];
    *row = (clq_tune_row){.choice = *choice};
    for (size_t i = 0; i < CLQ_CANDIDATES_MOST; i++) row->seconds[i] = (double)NAN;
    *out = row;
    return CLQ_OK;
}

static clq_status add_selection(tuner *t, const clq_choice *choice) {
    CLQ_TRY(CLQ_RESERVE(t, entries, table.count, 1, entry_capacity));
    t->table.entries = t->entries;
    set_selection(t, t->table.count++, choice, choice->selected);
    return CLQ_OK;
}

static clq_status make_plan(tuner *t, const clq_plan_config *config, clq_plan **out) {
    clq_plan *plan;
    CLQ_TRY(clq_plan_create_alone(t->model, t->device, config, &plan));
    clq_status status = clq_trials_prepare(&t->trials, plan);
    if (status == CLQ_OK)
        *out = plan;
    else
        clq_plan_destroy(plan);
    return status;
}

/* Whether a failure is the candidate's own, and not the machine's. */
static bool is_candidates(clq_status status) {
    return status == CLQ_ERROR_BUILD || status == CLQ_ERROR_DEVICE_MEMORY || status == CLQ_ERROR_UNSUPPORTED;
}

/* Compares a candidate with the best plan so far. If the candidate wins, its plan becomes the best one. */
static clq_status try_candidate(tuner *t, clq_tune_row *row, size_t candidate) {
    size_t index = t->table.count - 1;
    const clq_choice *choice = &row->choice, *before = find(t->best, choice->key), *after;
    clq_plan *plan = NULL;
    clq_trial_result result = {.b_wins = false};
    set_selection(t, index, choice, candidate);
    clq_status status = make_plan(t, &t->config, &plan);
    after = status == CLQ_OK ? find(plan, choice->key) : NULL;
    if (after)
        status =
            clq_trials_compare(&t->trials, clq_trial_part_of(t->best, before), clq_trial_part_of(plan, after), &result);
    if (after && status == CLQ_OK) {
        row->measured = true;
        row->seconds[choice->selected] = result.a_s;
        row->seconds[candidate] = result.b_s;
    }
    if (result.b_wins) {
        row->choice.selected = candidate;
        clq_plan *worse = t->best;
        t->best = plan;
        plan = worse;
    }
    set_selection(t, index, choice, row->choice.selected);
    clq_plan_destroy(plan);
    return is_candidates(status) ? CLQ_OK : status;
}

static clq_status measure_choice(tuner *t, const clq_choice *choice) {
    clq_tune_row *row;
    CLQ_TRY(add_selection(t, choice));
    CLQ_TRY(add_row(t->log, choice, &row));
    size_t first = choice->selected, count = choice->count;
    for (size_t i = 0; i < count && has_time(t); i++) {
        if (i == first) continue;
        double start = now(t);
        CLQ_TRY(try_candidate(t, row, i));
        t->longest = CLQ_MAX(t->longest, now(t) - start);
    }
    clq_trial_part part = clq_trial_part_of(t->best, find(t->best, row->choice.key));
    row->flops = flops_of(&part);
    return CLQ_OK;
}

/* When the budget is used up, the choices that are left stay as they are. */
static clq_status measure_all(tuner *t) {
    for (const clq_choice *choice; (choice = next_choice(t));) CLQ_TRY(measure_choice(t, choice));
    return CLQ_OK;
}

static clq_status keep(const tuner *t) {
    for (size_t i = 0; i < t->table.count; i++) {
        clq_status status = clq_selection_keep(t->device, t->entries[i].key, t->entries[i].candidate);
        if (status == CLQ_ERROR_MEMORY) return status;
        if (status != CLQ_OK) {
            clq_log(CLQ_LOG_WARNING, "%s: what was measured is not used, since it cannot be kept: %s",
                    clq_device_label(t->device), clq_error_detail());
            return CLQ_OK;
        }
    }
    return CLQ_OK;
}

/* Compares the step as it was with the step of the winners, both without the update. Does nothing if the device has no
 * memory for both. */
static clq_status measure_steps(tuner *t) {
    clq_choice whole;
    clq_choice_start(&whole, "step without its update");
    clq_choice_add(&whole, 0, 0, "as before");
    clq_choice_add(&whole, 0, 0, "as answered");
    whole.selected = 1;
    clq_plan_config config = t->config;
    clq_selections by_rule = {.by_rule = t->tune->anew};
    clq_plan *plan;
    clq_trial_result result;
    config.selections = &by_rule;
    clq_status status = make_plan(t, &config, &plan);
    if (status == CLQ_ERROR_DEVICE_MEMORY) return CLQ_OK;
    CLQ_TRY(status);
    status =
        clq_trials_compare(&t->trials, clq_trial_part_of(t->best, &whole), clq_trial_part_of(plan, &whole), &result);
    clq_plan_destroy(plan);
    CLQ_TRY(status);
    clq_trial_part part = clq_trial_part_of(t->best, &whole);
    clq_tune_row *row;
    CLQ_TRY(add_row(t->log, &whole, &row));
    row->measured = true;
    row->seconds[0] = result.b_s;
    row->seconds[1] = result.a_s;
    row->flops = flops_of(&part);
    return CLQ_OK;
}

static clq_status tune(tuner *t) {
    CLQ_TRY(clq_plan_create_alone(t->model, t->device, &t->config, &t->best));
    if (!next_choice(t)) return CLQ_OK;
    CLQ_TRY(clq_trials_open(t->best, t->tune, &t->trials));
    CLQ_TRY(clq_trials_prepare(&t->trials, t->best));
    t->mark = clq_device_mark_programs(t->device);
    t->begun = now(t);
    CLQ_TRY(measure_all(t));
    if (t->tune->compares) CLQ_TRY(measure_steps(t));
    return keep(t);
}

clq_status clq_plan_tune(const clq_model *model, clq_device *device, const clq_plan_config *config,
                         const clq_tune_config *tune_config, clq_tune_log *log) {
    if (!clq_device_remembers(device)) {
        clq_log(CLQ_LOG_WARNING, "%s: nothing is measured, since there is no folder to keep it in",
                clq_device_label(device));
        return CLQ_OK;
    }
    clq_tune_log own = {.count = 0};
    tuner t = {.model = model, .device = device, .config = *config, .tune = tune_config, .log = log ? log : &own};
    t.table.by_rule = tune_config->anew;
    t.config.selections = &t.table;
    clq_status status = tune(&t);
    clq_plan_destroy(t.best);
    if (t.mark) clq_device_drop_programs(device, t.mark);
    clq_trials_release(&t.trials);
    clq_free(t.entries);
    clq_tune_log_release(&own);
    return status;
}

clq_tune_config clq_tune_config_of(clq_tuning tuning, double seconds) {
    static const double quick_s = 2;
    bool full = tuning == CLQ_TUNING_FULL;
    return (clq_tune_config){.anew = full, .compares = full, .budget_s = seconds > 0 ? seconds : full ? 0 : quick_s};
}

void clq_tune_log_release(clq_tune_log *log) {
    clq_free(log->rows);
    *log = (clq_tune_log){.count = 0};
}
