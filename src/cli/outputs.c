/* Options that are of all outputs of a model, or of one: --loss NAME, --loss OUTPUT=NAME. */
#include "cli/cli.h"

#include <float.h>
#include <string.h>

clq_status clq_named_texts_add(clq_named_texts *to, const char *option, const char *text) {
    if (to->count == CLQ_COUNT_OF(to->texts))
        return clq_fail(CLQ_ARGUMENT, "--%s is given more than %zu times", option, to->count);
    to->texts[to->count++] = text;
    return CLQ_OK;
}

/* What an option says: of all outputs, of each; NULL where nothing is said. */
typedef struct sorted {
    const char *all, *of[CLQ_MODEL_OUTPUTS_MAX];
    bool any_named;
} sorted;

static clq_status refuse_output(const clq_model *model, const char *option, const char *text) {
    clq_text known = {0};
    clq_nearest nearest = {.word = text, .length = strcspn(text, "=")};
    for (size_t i = 0; i < clq_model_output_count(model); i++) {
        clq_text_add(&known, "%s'%s'", i ? ", " : "", clq_model_output_name(model, i));
        clq_nearest_try(&nearest, clq_model_output_name(model, i));
    }
    clq_status status = known.failed
                            ? clq_fail_memory("naming the outputs")
                            : clq_nearest_fail(&nearest, "--%s '%s': model %s has no output '%.*s', only %s", option,
                                               text, clq_model_name(model), (int)nearest.length, text, known.data);
    clq_free(known.data);
    return status;
}

/* *value: what stands behind OUTPUT=, or the text. */
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

static clq_status sort(const clq_model *model, const char *option, const clq_named_texts *given, sorted *out) {
    for (size_t k = 0; k < given->count; k++) {
        const char *text = given->texts[k], *value;
        const size_t i = output_of(model, text, &value);
        if (i == clq_model_output_count(model)) {
            if (text[strcspn(text, "=:")] == '=') return refuse_output(model, option, text);
            out->all = text;
            continue;
        }
        if (out->of[i])
            return clq_fail(CLQ_ARGUMENT, "--%s '%s': output '%s' has '%s' already", option, text,
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
        return clq_fail(CLQ_ARGUMENT, "output '%s' of model %s has no loss: --loss '%s=NAME' gives it one", name,
                        clq_model_name(model), name);
    clq_status status = loss ? clq_loss_parse(loss, &out->loss) : CLQ_OK;
    if (status != CLQ_OK && losses->of[i]) return clq_fail_within(status, "output '%s'", name);
    CLQ_TRY(status);
    if (weights->of[i] && !clq_parse_double(weights->of[i], -(double)FLT_MAX, (double)FLT_MAX, &out->weight))
        return clq_fail(CLQ_ARGUMENT, "--loss-weight '%s=%s': expected a number that float32 has", name,
                        weights->of[i]);
    out->metrics = metrics->of[i] ? metrics->of[i] : metrics->all;
    return CLQ_OK;
}

clq_status clq_setup_measures(const clq_model *model, const clq_options *options, clq_output_config *outputs,
                              clq_trainer_config *config) {
    const size_t count = clq_model_output_count(model);
    sorted losses = {0}, weights = {0}, metrics = {0};
    CLQ_TRY(sort(model, "loss", &options->losses, &losses));
    CLQ_TRY(sort(model, "loss-weight", &options->loss_weights, &weights));
    CLQ_TRY(sort(model, "metrics", &options->metrics, &metrics));
    if (weights.all) return clq_fail(CLQ_ARGUMENT, "--loss-weight '%s': expected OUTPUT=NUMBER", weights.all);
    for (size_t i = 0; i < count; i++) CLQ_TRY(measure_output(model, i, &losses, &weights, &metrics, &outputs[i]));
    config->outputs = outputs;
    config->output_count = count;
    return CLQ_OK;
}
