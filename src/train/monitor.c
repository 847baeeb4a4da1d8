/* What callbacks watch: a value of each epoch, and the best value so far. */
#include "train/callbacks.h"
#include "train/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char validation[] = "val_";
enum { VALIDATION = sizeof validation - 1 };

static bool is_validation(const char *name) { return strncmp(name, validation, VALIDATION) == 0; }

double clq_epoch_value(const clq_epoch_info *info, const char *name) {
    const bool of_validation = is_validation(name);
    const clq_totals *totals = of_validation ? &info->validation : &info->train;
    if (of_validation) name += VALIDATION;
    if (totals->samples == 0) return (double)NAN;
    return strcmp(name, "loss") == 0 ? totals->loss : clq_metric_value(&totals->metrics, name);
}

/* If the word ends the first `length` bytes of the name, alone or after an output's name and '_': how many bytes come
 * before the word. Otherwise SIZE_MAX. */
static size_t find_end(const char *name, size_t length, const char *word) {
    const size_t own = word ? strlen(word) : 0;
    if (own == 0 || own > length || strncmp(name + length - own, word, own) != 0) return SIZE_MAX;
    return own == length || name[length - own - 1] == '_' ? length - own : SIZE_MAX;
}

/* Whether higher values are better, by the metric's row. A number may follow the metric's name:
 * "out_recall:threshold=0.7". Several rows may match, as an output's name can end like a metric's: the longest match is
 * the metric. A loss has no row: lower is better. */
static bool is_better_high(const char *name) {
    const char *number = strrchr(name, ':');
    if (number && !strchr(number, '=')) number = NULL; /* this ':' is part of an output's name */
    const size_t length = number ? (size_t)(number - name) : strlen(name);
    size_t found = CLQ_MIN(find_end(name, length, "accuracy"), find_end(name, length, "acc"));
    bool high = found != SIZE_MAX;
    for (size_t i = 0; i < clq_metric_count(); i++) {
        const clq_metric_row *row = clq_metric_row_of((clq_metric_kind)i);
        const size_t at = CLQ_MIN(find_end(name, length, row->name), find_end(name, length, row->alias));
        if (at >= found) continue;
        found = at;
        high = row->better_high;
    }
    return high;
}

clq_status clq_watch_open(clq_watch *watch, const clq_monitor *monitor, const char *who) {
    clq_watch result = {.monitor = *monitor, .any = false};
    clq_monitor *m = &result.monitor;
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_monitor, m));
    if ((unsigned)m->mode > CLQ_MONITOR_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: mode %d is none of clq_monitor_mode", who, (int)m->mode);
    if (!(m->min_delta >= 0.0 && isfinite(m->min_delta)))
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: min_delta %g is not a number of at least 0", who, m->min_delta);
    if (!memchr(m->name, '\0', sizeof m->name))
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: the monitor's name has more than %d bytes", who,
                        CLQ_MONITOR_NAME_MAX - 1);
    if (!m->name[0]) memcpy(m->name, "val_loss", sizeof "val_loss");
    if (m->mode == CLQ_MONITOR_AUTO) m->mode = is_better_high(m->name) ? CLQ_MONITOR_MAX : CLQ_MONITOR_MIN;
    *watch = result;
    return CLQ_OK;
}

static clq_status check_name(const clq_watch *watch, const clq_trainer *trainer, const clq_fit_config *config,
                             const char *who) {
    const char *name = watch->monitor.name;
    const bool of_validation = is_validation(name);
    const char *figure = of_validation ? name + VALIDATION : name;
    if (of_validation && !config->validation)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "%s watches '%s' and there is no validation: watch '%s', or give a validation set", who, name,
                        figure);
    if (of_validation && config->epochs > 0 && config->validation_freq > config->epochs)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "%s watches '%s', which is measured after every %llu epochs, and there are %llu: validate more "
                        "often, or watch '%s'",
                        who, name, (unsigned long long)config->validation_freq, (unsigned long long)config->epochs,
                        figure);
    bool known = strcmp(figure, "loss") == 0;
    for (unsigned i = 0; i < trainer->metric_count; i++) known |= strcmp(figure, trainer->metric_names[i]) == 0;
    if (known) return CLQ_OK;
    for (unsigned i = 0; i < trainer->matrix_count; i++)
        if (strcmp(figure, trainer->matrix_names[i]) == 0)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "%s watches '%s', which is a matrix: watch a single number, such as '%sloss'", who, name,
                            of_validation ? validation : "");
    clq_text names = {0};
    clq_nearest nearest = clq_nearest_of(figure);
    clq_text_add(&names, "loss");
    clq_nearest_try(&nearest, "loss");
    for (unsigned i = 0; i < trainer->metric_count; i++) {
        clq_text_add(&names, ", %s", trainer->metric_names[i]);
        clq_nearest_try(&nearest, trainer->metric_names[i]);
    }
    if (config->validation) clq_text_add(&names, ", and each of these with val_ in front");
    if (nearest.found) clq_text_add(&names, "; did you mean '%s%s'?", of_validation ? validation : "", nearest.found);
    clq_status status = names.failed
                            ? clq_fail_memory("naming what is measured")
                            : clq_fail(CLQ_ERROR_ARGUMENT, "%s watches '%s', which is not measured: expected %s", who,
                                       name, names.data);
    clq_free(names.data);
    return status;
}

/* Whether a value is a loss, by its name: "loss", "val_loss", "OUTPUT_loss". The name of a metric says all about it
 * except whose labels it compares. */
static bool is_loss(const char *name) { return find_end(name, strlen(name), "loss") != SIZE_MAX; }

static clq_status hash_figure(const clq_watch *watch, const clq_trainer *trainer, const clq_dataset *tested,
                              clq_hash128 *out) {
    clq_text text = {0};
    if (is_loss(watch->monitor.name))
        clq_trainer_describe_losses(trainer, tested, &text);
    else
        clq_text_add(&text, "of %s", clq_trainer_labels_are_samples(trainer, tested) ? "the samples" : "labels");
    if (!text.failed) *out = clq_hash128_of(text.data, text.length, 0);
    clq_free(text.data);
    return text.failed ? CLQ_ERROR_MEMORY : CLQ_OK;
}

clq_status clq_watch_begin(clq_watch *watch, const clq_trainer *trainer, const clq_fit_config *config,
                           const char *who) {
    clq_hash128 figure;
    CLQ_TRY(check_name(watch, trainer, config, who));
    const clq_dataset *tested = is_validation(watch->monitor.name) ? config->validation : NULL;
    CLQ_TRY(hash_figure(watch, trainer, tested, &figure));
    const bool known = watch->figure.low != 0 || watch->figure.high != 0;
    if (watch->any && known && (watch->figure.low != figure.low || watch->figure.high != figure.high)) {
        clq_log(CLQ_LOG_WARNING, "%s: its best %s is of %s than the training's: the best is looked for from here on",
                who, watch->monitor.name, is_loss(watch->monitor.name) ? "another loss" : "other labels");
        clq_watch_forget(watch);
        watch->anew = true;
    }
    watch->figure = figure;
    return CLQ_OK;
}

double clq_watch_value(const clq_watch *watch, const clq_epoch_info *info) {
    return clq_epoch_value(info, watch->monitor.name);
}

bool clq_watch_has_value(const clq_watch *watch, const clq_epoch_info *info) {
    return (is_validation(watch->monitor.name) ? info->validation : info->train).samples > 0;
}

/* Computes in the same order as Keras, so that ties have the same result. */
bool clq_watch_improves(const clq_watch *watch, double value, double than) {
    const double delta = watch->monitor.min_delta;
    return watch->monitor.mode == CLQ_MONITOR_MIN ? value + delta < than : value - delta > than;
}

bool clq_watch_take(clq_watch *watch, double value) {
    if (watch->any && !clq_watch_improves(watch, value, watch->best)) return false;
    watch->best = value;
    watch->any = true;
    return true;
}

void clq_watch_forget(clq_watch *watch) {
    watch->any = false;
    watch->best = (double)NAN;
}

static const char *mode_name(size_t i) {
    static const char *const names[] = {
        [CLQ_MONITOR_AUTO] = "auto", [CLQ_MONITOR_MIN] = "min", [CLQ_MONITOR_MAX] = "max"};
    return names[i];
}

json_t *clq_watch_save(const clq_watch *watch, json_t *document) {
    char text[32] = "", figure[40];
    if (watch->any) clq_format(text, sizeof text, "%.17g", watch->best);
    snprintf(figure, sizeof figure, "%016" PRIx64 "%016" PRIx64, watch->figure.high, watch->figure.low);
    const bool put =
        json_object_set_new(document, "best", clq_json_number(watch->any ? watch->best : (double)NAN)) == 0 &&
        json_object_set_new(document, "best_value", json_string(text)) == 0 &&
        json_object_set_new(document, "monitor", clq_json_text(watch->monitor.name)) == 0 &&
        json_object_set_new(document, "mode", json_string(mode_name(watch->monitor.mode))) == 0 &&
        json_object_set_new(document, "losses", json_string(figure)) == 0;
    if (put) return document;
    json_decref(document);
    return NULL;
}

/* Whether the state is of another monitor or mode. States of earlier versions do not say what they watched. */
static bool watches_another(const json_t *document, const clq_watch *watch) {
    const char *name = json_string_value(json_object_get(document, "monitor"));
    const char *mode = json_string_value(json_object_get(document, "mode"));
    return (name && strcmp(name, watch->monitor.name) != 0) ||
           (mode && strcmp(mode, mode_name(watch->monitor.mode)) != 0);
}

clq_status clq_watch_restore(const char *what, const json_t *document, clq_watch *watch) {
    const char *text = json_string_value(json_object_get(document, "best_value"));
    const char *figure = json_string_value(json_object_get(document, "losses"));
    double best = 0;
    clq_watch result = *watch;
    clq_watch_forget(&result);
    if (!text || (*text && !clq_parse_number(text, &best)))
        return clq_fail(CLQ_ERROR_FORMAT, "%s: the state has no number 'best_value'", what);
    result.anew = watches_another(document, watch);
    if (result.anew && *text)
        clq_log(
            CLQ_LOG_WARNING,
            "%s: its best value is of monitor '%s' (%s), and the training watches '%s' (%s): the best is looked for "
            "from here on",
            what, json_string_value(json_object_get(document, "monitor")),
            json_string_value(json_object_get(document, "mode")), watch->monitor.name, mode_name(watch->monitor.mode));
    result.any = *text != '\0' && !result.anew;
    if (result.any) result.best = best;
    result.figure = (clq_hash128){0};
    if (figure && !result.anew)
        (void)sscanf(figure, "%16" SCNx64 "%16" SCNx64, &result.figure.high, &result.figure.low);
    *watch = result;
    return CLQ_OK;
}

/* ---- text ---- */

static clq_status parse_mode(const char *what, const char *text, clq_monitor_mode *out) {
    size_t mode;
    const clq_status status = clq_parse_name("mode", text, CLQ_MONITOR_MAX + 1, mode_name, NULL, &mode);
    if (status != CLQ_OK) return clq_fail_within(status, "%s", what);
    *out = (clq_monitor_mode)mode;
    return CLQ_OK;
}

clq_status clq_watch_parse(const char *what, const char *text, const clq_option *options, clq_monitor *monitor,
                           double *values) {
    enum { OWN = 2, MOST = 12 };
    clq_option all[MOST + 1] = {{.key = "monitor"}, {.key = "mode"}};
    clq_monitor result = *monitor;
    clq_words words;
    unsigned left = 0;
    double places[MOST] = {0};
    size_t count = OWN;
    CLQ_TRY(clq_parse_pairs(what, text, &words));
    for (unsigned i = 0; i < words.count; i++) {
        const char *key = words.options[i].key, *value = words.options[i].value;
        if (strcmp(key, "mode") == 0)
            CLQ_TRY(parse_mode(what, value, &result.mode));
        else if (strcmp(key, "monitor") == 0)
            memcpy(result.name, value, strlen(value) + 1);
        else
            words.options[left++] = words.options[i];
    }
    words.count = left;
    for (size_t i = 0; options[i].key; i++, count++) {
        all[count] = options[i];
        places[count] = values[i];
    }
    CLQ_TRY(clq_set_values(what, text, &words, all, places));
    memcpy(values, places + OWN, (count - OWN) * sizeof *values);
    *monitor = result;
    return CLQ_OK;
}
