/* The properties that variables can have, and what is asked of all of them. */
#include "graph/layers/layer.h"
#include "graph/plan.h"

static const clq_property *const rows[] = {&clq_property_penalty, &clq_property_constraint};

const clq_property *clq_variable_follows(const clq_variable *variable) {
    for (size_t i = 0; i < CLQ_COUNT_OF(rows) && variable->role == CLQ_ROLE_TRAINABLE; i++)
        if (rows[i]->follow && rows[i]->is_on(&variable->properties)) return rows[i];
    return NULL;
}

const clq_property *clq_model_follows(const clq_model *model) {
    const clq_property *found = NULL;
    for (uint32_t i = 0; i < model->variable_count && !found; i++) found = clq_variable_follows(&model->variables[i]);
    return found;
}

void clq_properties_add_key(const clq_properties *properties, clq_text *to) {
    for (size_t i = 0; i < CLQ_COUNT_OF(rows); i++)
        if (rows[i]->is_on(properties)) rows[i]->add_key(properties, to);
}

void clq_properties_join_loss(clq_expansion *e) {
    for (uint32_t i = 0; i < e->model->variable_count; i++) {
        const clq_variable *v = &e->model->variables[i];
        if (!e->weights[i] || v->role != CLQ_ROLE_TRAINABLE) continue;
        for (size_t k = 0; k < CLQ_COUNT_OF(rows) && e->graph->error.status == CLQ_OK; k++)
            if (rows[k]->join_loss && rows[k]->is_on(&v->properties)) rows[k]->join_loss(e, i);
    }
}

clq_status clq_find_held(const clq_weights *weights, clq_held **out, size_t *count) {
    const clq_model *model = weights->model;
    *out = NULL;
    *count = 0;
    if (!clq_model_follows(model)) return CLQ_OK;
    if (!(*out = clq_alloc(model->variable_count, sizeof **out))) return CLQ_ERROR_MEMORY;
    for (uint32_t i = 0; i < model->variable_count; i++) {
        const clq_variable *v = &model->variables[i];
        if (clq_variable_follows(v) && weights->offsets[i] != CLQ_NO_OFFSET)
            (*out)[(*count)++] = (clq_held){.block = weights->offsets[i] / CLQ_VARIABLE_ALIGN, .variable = v};
    }
    return CLQ_OK;
}

void clq_follow_update(clq_list *list, const clq_held *held, clq_value w) {
    for (size_t i = 0; i < CLQ_COUNT_OF(rows); i++)
        if (rows[i]->follow && rows[i]->is_on(&held->variable->properties))
            rows[i]->follow(list, held->variable, held->block, w);
}

void clq_follow_on_host(const clq_held *held, float *w) {
    for (size_t i = 0; i < CLQ_COUNT_OF(rows); i++)
        if (rows[i]->follow_on_host && rows[i]->is_on(&held->variable->properties))
            rows[i]->follow_on_host(held->variable, w + held->block * CLQ_UPDATE_BLOCK);
}
