/* What a trainer's updates do around the optimizer's rule: clipping, and how each variable is treated. */
#include "train/words.h"

#include <float.h>
#include <string.h>

static clq_status refuse_clip(const char *text) {
    static const char *const words[] = {"off", "value", "norm", "global_norm"};
    clq_nearest nearest = {.word = text, .length = strcspn(text, "=")};
    for (size_t i = 0; i < CLQ_COUNT_OF(words); i++) clq_nearest_try(&nearest, words[i]);
    return clq_nearest_fail(&nearest, "clip '%s' is unknown: expected off, value=X, norm=X or global_norm=X", text);
}

clq_status clq_clip_parse(const char *text, clq_clip *out) {
    static const struct {
        const char *key;
        clq_clip_kind kind;
    } keys[] = {{"value=", CLQ_CLIP_VALUE}, {"norm=", CLQ_CLIP_NORM}, {"global_norm=", CLQ_CLIP_GLOBAL_NORM}};
    if (strcmp(text, "off") == 0) {
        *out = (clq_clip){.kind = CLQ_CLIP_OFF};
        return CLQ_OK;
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(keys); i++) {
        const size_t length = strlen(keys[i].key);
        clq_clip clip = {.kind = keys[i].kind};
        if (strncmp(text, keys[i].key, length) != 0) continue;
        if (!clq_parse_double(text + length, -DBL_MAX, DBL_MAX, &clip.limit))
            return clq_fail(CLQ_ERROR_ARGUMENT, "clip '%s': '%s' is no number", text, text + length);
        CLQ_TRY(clq_clip_check(&clip));
        *out = clip;
        return CLQ_OK;
    }
    return refuse_clip(text);
}

clq_status clq_clip_check(const clq_clip *clip) {
    if ((unsigned)clip->kind > CLQ_CLIP_GLOBAL_NORM)
        return clq_fail(CLQ_ERROR_ARGUMENT, "clip %d is none of clq_clip_kind", (int)clip->kind);
    if (clip->kind == CLQ_CLIP_OFF || (clip->limit >= (double)FLT_MIN && clip->limit <= (double)FLT_MAX)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "the gradient is to be clipped at %g: expected a number above 0 that float32 can hold",
                    clip->limit);
}

/* ---- variables that do not decay ---- */

/* Whether the name contains the first `length` bytes of `part`. */
static bool has_part(const char *name, const char *part, size_t length) {
    for (; *name; name++)
        if (strncmp(name, part, length) == 0) return true;
    return false;
}

/* Suggests what follows the '/' in a variable's name, such as "bias": users mostly mean this. */
static clq_status refuse_part(const clq_model *model, const char *part, size_t length) {
    clq_nearest nearest = {.word = part, .length = length};
    for (uint32_t i = 0; i < model->variable_count; i++) {
        const char *slash = strrchr(model->variables[i].name, '/');
        if (model->variables[i].role == CLQ_ROLE_TRAINABLE && slash) clq_nearest_try(&nearest, slash + 1);
    }
    return clq_nearest_fail(&nearest, "no_decay: no trainable variable of model %s has '%.*s' in its name, as %s has",
                            clq_model_name(model), (int)length, part,
                            model->variable_count ? model->variables[0].name : "none");
}

/* Spares every variable whose name contains the part. There must be at least one. */
static clq_status spare(const clq_model *model, const char *part, size_t length, clq_treatment *treatments) {
    bool any = false;
    if (length == 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "no_decay: expected parts of variables' names with commas between");
    for (uint32_t i = 0; i < model->variable_count; i++) {
        const clq_variable *variable = &model->variables[i];
        if (variable->role != CLQ_ROLE_TRAINABLE || !has_part(variable->name, part, length)) continue;
        any = treatments[i].spared = true;
    }
    return any ? CLQ_OK : refuse_part(model, part, length);
}

static clq_status spare_all(const clq_model *model, const char *parts, clq_treatment *treatments) {
    for (const char *at = parts; at; at++) {
        const size_t length = strcspn(at, ",");
        CLQ_TRY(spare(model, at, length, treatments));
        at += length;
        if (!*at) break;
    }
    return CLQ_OK;
}

clq_status clq_trainer_treat(clq_trainer *trainer, const clq_trainer_config *config, clq_treatment **out) {
    const clq_model *model = trainer->model;
    clq_treatment *treatments = clq_alloc(CLQ_MAX(model->variable_count, 1u), sizeof *treatments);
    *out = NULL;
    if (!treatments) return CLQ_ERROR_MEMORY;
    clq_status status = spare_all(model, config->no_decay, treatments);
    if (status == CLQ_OK) status = clq_trainer_take_optimizers(trainer, config, treatments);
    if (status == CLQ_OK)
        *out = treatments;
    else
        clq_free(treatments);
    return status;
}
