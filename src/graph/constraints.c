/* Constraints on variables: what a program asks for, and those of the variables that weights hold. */
#include "graph/model.h"
#include "graph/plan.h"

#include <math.h>
#include <string.h>

/* ---- of a model ---- */

/* Axes of the variable's own, which are summed over, as sizes that are kept and summed over in turns. */
static clq_status find_sizes(const clq_variable *v, const clq_axes *axes, size_t sizes[5]) {
    static const clq_axes first = {.count = 1};
    bool summed[CLQ_SHAPE_MAX] = {false};
    unsigned at = 0;
    const clq_axes *all = axes->count ? axes : &first;
    for (unsigned i = 0; i < all->count; i++) {
        const int rank = (int)v->shape.rank, axis = all->axes[i] + (all->axes[i] < 0 ? rank : 0);
        if (axis < 0 || axis >= rank)
            return clq_fail(CLQ_ARGUMENT, "its constraint's axis %d is none of the variable's %d", all->axes[i], rank);
        summed[axis] = true;
    }
    for (unsigned i = 0; i < 5; i++) sizes[i] = 1;
    for (unsigned d = 0; d < v->shape.rank; d++) {
        if ((at % 2 == 1) != summed[d] && at == 4)
            return clq_fail(CLQ_UNSUPPORTED, "its constraint's axes lie too far apart");
        at += (at % 2 == 1) != summed[d];
        sizes[at] *= v->shape.dims[d];
    }
    return CLQ_OK;
}

/* All are norms between two bounds. */
clq_constraint_problem clq_constraint_problem_of(const clq_variable *v) {
    const clq_constraint *c = &v->constraint;
    clq_constraint_problem p = {.least = 0, .most = c->most, .rate = 1};
    if (c->kind == CLQ_CONSTRAINT_NONE) return (clq_constraint_problem){.rate = 1};
    if (c->kind == CLQ_CONSTRAINT_NON_NEGATIVE)
        return (clq_constraint_problem){.non_negative = true, .sizes = {v->elements, 1, 1, 1, 1}};
    if (c->kind == CLQ_CONSTRAINT_UNIT_NORM) p.least = p.most = 1;
    if (c->kind == CLQ_CONSTRAINT_MIN_MAX_NORM) {
        p.least = c->least;
        p.rate = c->rate;
    }
    (void)find_sizes(v, &c->axes, p.sizes); /* was checked */
    return p;
}

static clq_status check(const clq_variable *v, const clq_constraint *c) {
    size_t sizes[5];
    if ((unsigned)c->kind > CLQ_CONSTRAINT_MIN_MAX_NORM) return clq_fail(CLQ_ARGUMENT, "there is no such constraint");
    if (c->kind == CLQ_CONSTRAINT_NONE || c->kind == CLQ_CONSTRAINT_NON_NEGATIVE) return CLQ_OK;
    if (!(c->least >= 0 && c->most >= c->least && isfinite(c->most)))
        return clq_fail(CLQ_ARGUMENT, "its constraint's norms from %g to %g should be finite, at least 0, in order",
                        c->least, c->most);
    if (c->kind == CLQ_CONSTRAINT_MIN_MAX_NORM && !(c->rate >= 0 && c->rate <= 1))
        return clq_fail(CLQ_ARGUMENT, "its constraint's rate %g should be from 0 to 1", c->rate);
    return find_sizes(v, &c->axes, sizes);
}

clq_tensor clq_constrain(clq_model *model, clq_tensor x, const char *variable, const clq_constraint *constraint) {
    clq_layer *layer = clq_model_marked_layer(model, x, "clq_constrain");
    if (!layer) return (clq_tensor){0};
    clq_variable *v = clq_model_variable_named(model, layer, variable);
    const clq_status status =
        v ? check(v, constraint) : clq_fail(CLQ_ARGUMENT, "it has no variable '%.60s'", variable ? variable : "");
    if (status != CLQ_OK) return clq_model_fail(model, status, layer->name);
    v->constraint = *constraint;
    return x;
}

bool clq_model_constrains(const clq_model *model) {
    for (uint32_t i = 0; i < model->variable_count; i++)
        if (model->variables[i].constraint.kind && model->variables[i].role == CLQ_ROLE_TRAINABLE) return true;
    return false;
}

/* ---- of weights, behind their update ---- */

static bool is_held(const clq_weights *weights, uint32_t i) {
    const clq_variable *v = &weights->model->variables[i];
    return v->constraint.kind && v->role == CLQ_ROLE_TRAINABLE && weights->offsets[i] != CLQ_NO_OFFSET;
}

clq_status clq_weights_take_constraints(clq_weights *weights) {
    size_t count = 0;
    for (uint32_t i = 0; i < weights->model->variable_count; i++) count += is_held(weights, i);
    if (count == 0) return CLQ_OK;
    if (!(weights->constraints = clq_alloc(count, sizeof *weights->constraints))) return CLQ_MEMORY;
    for (uint32_t i = 0; i < weights->model->variable_count; i++)
        if (is_held(weights, i))
            weights->constraints[weights->constraint_count++] =
                (clq_held_constraint){.block = weights->offsets[i] / CLQ_VARIABLE_ALIGN,
                                      .problem = clq_constraint_problem_of(&weights->model->variables[i])};
    return CLQ_OK;
}
