/* Settings for all outputs of a model, or for one output: "loss" NAME, or OUTPUT=NAME. */
#include "train/setting_members.h"
#include "train/words.h"

#include <float.h>
#include <string.h>

/* What a setting says for all outputs, and for each output; NULL: nothing. */
typedef struct sorted {
    const char *all, *of[CLQ_MODEL_OUTPUTS_MAX];
    bool any_named;
} sorted;

static clq_status refuse_output(const clq_model *model, const char *key, const char *text) {
    clq_text known = {0};
    clq_nearest nearest = {.word = text, .length = strcspn(text, "=")};
    for (size_t i = 0; i < clq_model_output_count(model); i++) {
        clq_text_add(&known, "%s'%s'", i ? ", " : "", clq_model_output_name(model, i));
        clq_nearest_try(&nearest, clq_model_output_name(model, i));
    }
    clq_status status = known.failed
                            ? clq_fail_memory("naming the outputs")
                            : clq_nearest_fail(&nearest, "%s '%s': model %s has no output '%.*s', only %s", key, text,
                                               clq_model_name(model), (int)nearest.length, text, known.data);
    clq_free(known.data);
    return status;
}

/* The output that the text names; the number of outputs: none. *value: what follows OUTPUT=, or the whole text. */
static size_t output_of(const clq_model *model, const char *text, const char **value) {
    size_t i = 0;
    for (; i < clq_model_output_count(model); i++) {
        const char *name = clq_model_output_name(model, i);
        const size_t length = strlen(name);
        *value = text + length + 1;
        if (strncmp(text, name, length) == 0 && text[length] == '=') return i;
    }
    *value = text;
    return i;
}

static clq_status sort(const clq_model *model, const char *key, const clq_named_texts *given, sorted *out) {
    for (size_t k = 0; k < given->count; k++) {
        const char *text = given->texts[k], *value;
        const size_t i = output_of(model, text, &value);
        if (i == clq_model_output_count(model)) {
            if (text[strcspn(text, "=:")] == '=') return refuse_output(model, key, text);
            out->all = text;
            continue;
        }
        if (out->of[i])
            return clq_fail(CLQ_ERROR_ARGUMENT, "%s '%s': output '%s' has '%s' already", key, text,
                            clq_model_output_name(model, i), out->of[i]);
        out->of[i] = value;
        out->any_named = true;
    }
    return CLQ_OK;
}

static clq_status measure_output(const clq_model *model, size_t i, const sorted *losses, const sorted *weights,
                                 const sorted *metrics, clq_output_config *out) {
    const char *name = clq_model_output_name(model, i), *loss = losses->of[i] ? losses->of[i] : losses->all;
    *out = clq_output_config_default(name);
    if (!loss && losses->any_named)
        return clq_fail(CLQ_ERROR_ARGUMENT, "output '%s' of model %s has no loss: loss '%s=NAME' gives it one", name,
                        clq_model_name(model), name);
    clq_status status = loss ? clq_loss_parse(loss, &out->loss) : CLQ_OK;
    if (status != CLQ_OK && losses->of[i]) return clq_fail_within(status, "output '%s'", name);
    CLQ_TRY(status);
    if (weights->of[i] && !clq_parse_double(weights->of[i], -(double)FLT_MAX, (double)FLT_MAX, &out->weight))
        return clq_fail(CLQ_ERROR_ARGUMENT, "loss-weight '%s=%s': expected a number that float32 has", name,
                        weights->of[i]);
    out->metrics = metrics->of[i] ? metrics->of[i] : metrics->all;
    return CLQ_OK;
}

clq_status clq_settings_make_outputs(const clq_settings *settings, const clq_model *model, clq_made_config *to) {
    const size_t count = clq_model_output_count(model);
    sorted losses = {0}, weights = {0}, metrics = {0};
    CLQ_TRY(sort(model, "loss", &settings->losses, &losses));
    CLQ_TRY(sort(model, "loss-weight", &settings->loss_weights, &weights));
    CLQ_TRY(sort(model, "metrics", &settings->metrics, &metrics));
    if (weights.all) return clq_fail(CLQ_ERROR_ARGUMENT, "loss-weight '%s': expected OUTPUT=NUMBER", weights.all);
    for (size_t i = 0; i < count; i++) CLQ_TRY(measure_output(model, i, &losses, &weights, &metrics, &to->outputs[i]));
    to->config.outputs = to->outputs;
    to->config.output_count = count;
    return CLQ_OK;
}

/* ---- without a model ---- */

/* Names of outputs may have any characters, also '=' and ':'. So a text is accepted if all of it is a value, or what
 * follows one of its '='. */
static clq_status check_value(const char *text, clq_status (*check)(const char *value)) {
    const size_t name = strcspn(text, "=:");
    const bool is_named = text[name] == '=';
    clq_status status = check(is_named ? text + name + 1 : text);
    if (status == CLQ_OK || status == CLQ_ERROR_MEMORY) return status;
    clq_error error;
    clq_error_take(status, &error);
    for (const char *at = text; (at = strchr(at, '=')) != NULL;)
        if (check(++at) == CLQ_OK) return CLQ_OK;
    status = clq_error_raise(&error);
    return is_named ? clq_fail_within(status, "output '%.*s'", (int)name, text) : status;
}

static clq_status is_loss(const char *text) {
    clq_loss loss;
    return clq_loss_parse(text, &loss);
}

clq_status clq_check_setting_loss(const char *text) { return check_value(text, is_loss); }
clq_status clq_check_setting_metrics(const char *text) { return check_value(text, clq_metrics_check_names); }

clq_status clq_check_setting_loss_weight(const char *text) {
    const char *equals = strrchr(text, '=');
    double weight;
    if (!equals) return clq_fail(CLQ_ERROR_ARGUMENT, "loss-weight '%s': expected OUTPUT=NUMBER", text);
    if (clq_parse_double(equals + 1, -(double)FLT_MAX, (double)FLT_MAX, &weight)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "loss-weight '%s': expected a number that float32 has", text);
}
