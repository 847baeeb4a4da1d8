/* A layer's attributes, by the rows of its kind: what a builder may be given, and the key of a model. */
#include "graph/layers/layer.h"

#include <string.h>

/* ---- checks ---- */

static clq_status check_sizes(const clq_attribute *row, size_t *sizes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (sizes[i] == 0) sizes[i] = (size_t)row->fallback;
        if (sizes[i] == 0 && row->needed)
            return clq_fail(CLQ_ARGUMENT, "%s%s must be at least 1", count > 1 ? "both sides of " : "", row->key);
    }
    return CLQ_OK;
}

static clq_status check_number(const clq_attribute *row, double number) {
    if (number >= row->least && (row->below ? number < row->most : number <= row->most)) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT,
                    row->below ? "%s %g should be at least %g and below %g" : "%s %g should be from %g to %g", row->key,
                    number, row->least, row->most);
}

static clq_status check_initialiser(const clq_attribute *row, const clq_initialiser *initialiser) {
    const clq_status status = clq_initialiser_check(initialiser);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "%s", row->key);
}

clq_status clq_layer_check(const clq_layer_kind *kind, void *config) {
    for (size_t i = 0; i < kind->attribute_count; i++) {
        const clq_attribute *row = &kind->attributes[i];
        void *member = (char *)config + row->at;
        switch (row->type) {
        case CLQ_ATTRIBUTE_SIZE: CLQ_TRY(check_sizes(row, member, 1)); break;
        case CLQ_ATTRIBUTE_PAIR: CLQ_TRY(check_sizes(row, member, 2)); break;
        case CLQ_ATTRIBUTE_NUMBER: CLQ_TRY(check_number(row, *(const double *)member)); break;
        case CLQ_ATTRIBUTE_INITIALISER: CLQ_TRY(check_initialiser(row, member)); break;
        case CLQ_ATTRIBUTE_ACTIVATION: CLQ_TRY(clq_layer_check_activation(*(const clq_activation *)member)); break;
        case CLQ_ATTRIBUTE_PADDING:
            if (*(const clq_padding *)member != CLQ_VALID && *(const clq_padding *)member != CLQ_SAME)
                return clq_fail(CLQ_ARGUMENT, "padding %d is none of clq_padding", (int)*(const clq_padding *)member);
            break;
        default: break;
        }
    }
    return CLQ_OK;
}

/* ---- keys ---- */

static void add_value(const clq_attribute *row, const void *member, clq_text *to) {
    switch (row->type) {
    case CLQ_ATTRIBUTE_SIZE: clq_text_add(to, " %s %zu", row->key, *(const size_t *)member); break;
    case CLQ_ATTRIBUTE_PAIR:
        clq_text_add(to, " %s %zu %zu", row->key, ((const size_t *)member)[0], ((const size_t *)member)[1]);
        break;
    case CLQ_ATTRIBUTE_FLAG:
    case CLQ_ATTRIBUTE_OPPOSITE: clq_text_add(to, " %s %d", row->key, *(const bool *)member); break;
    case CLQ_ATTRIBUTE_NUMBER: clq_text_add(to, " %s %.17g", row->key, *(const double *)member); break;
    case CLQ_ATTRIBUTE_ACTIVATION: clq_text_add(to, " %s %d", row->key, (int)*(const clq_activation *)member); break;
    case CLQ_ATTRIBUTE_PADDING: clq_text_add(to, " %s %d", row->key, (int)*(const clq_padding *)member); break;
    case CLQ_ATTRIBUTE_AXIS: clq_text_add(to, " %s %d", row->key, *(const int *)member); break;
    default: break; /* shapes are told; seeds and initial values change no time */
    }
}

void clq_layer_add_key(const clq_layer *layer, clq_text *to) {
    for (size_t i = 0; i < layer->kind->attribute_count; i++)
        add_value(&layer->kind->attributes[i], (const char *)layer->config + layer->kind->attributes[i].at, to);
}
