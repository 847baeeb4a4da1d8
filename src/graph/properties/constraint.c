/* Constraints on variables behind each update: their numbers are not below 0, or their norms lie between two bounds. */
#include "graph/model.h"

#include <math.h>

/* Finds, in turns, the sizes of the variable's axes that are kept and that are summed over. Axes of one kind that lie
 * side by side become one size. */
static clq_status find_sizes(const clq_variable *v, const clq_axes *axes, size_t sizes[5]) {
    static const clq_axes first = {.count = 1};
    bool summed[CLQ_SHAPE_MAX] = {false};
    unsigned at = 0;
    const clq_axes *all = axes->count ? axes : &first;
    for (unsigned i = 0; i < all->count; i++) {
        const int rank = (int)v->shape.rank, axis = all->axes[i] + (all->axes[i] < 0 ? rank : 0);
        if (axis < 0 || axis >= rank)
            return clq_fail(CLQ_ERROR_ARGUMENT, "its constraint's axis %d is none of the variable's %d", all->axes[i],
                            rank);
        summed[axis] = true;
    }
    for (unsigned i = 0; i < 5; i++) sizes[i] = 1;
    for (unsigned d = 0; d < v->shape.rank; d++) {
        if ((at % 2 == 1) != summed[d] && at == 4)
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "its constraint's axes lie too far apart");
        at += (at % 2 == 1) != summed[d];
        sizes[at] *= v->shape.dims[d];
    }
    return CLQ_OK;
}

/* The problem of a variable with a constraint. All kinds but one are norms between two bounds. */
static clq_constraint_problem problem_of(const clq_variable *v) {
    const clq_constraint *c = &v->properties.constraint;
    clq_constraint_problem p = {.least = 0, .most = c->most, .rate = 1};
    if (c->kind == CLQ_CONSTRAINT_NON_NEGATIVE)
        return (clq_constraint_problem){.non_negative = true, .sizes = {v->elements, 1, 1, 1, 1}};
    if (c->kind == CLQ_CONSTRAINT_UNIT_NORM) p.least = p.most = 1;
    if (c->kind == CLQ_CONSTRAINT_MIN_MAX_NORM) {
        p.least = c->least;
        p.rate = c->rate;
    }
    (void)find_sizes(v, &c->axes, p.sizes); /* clq_constrain has checked the axes */
    return p;
}

static clq_status check(const clq_variable *v, const clq_constraint *c) {
    size_t sizes[5];
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_constraint, c));
    if ((unsigned)c->kind > CLQ_CONSTRAINT_MIN_MAX_NORM)
        return clq_fail(CLQ_ERROR_ARGUMENT, "there is no such constraint");
    if (c->kind == CLQ_CONSTRAINT_NONE || c->kind == CLQ_CONSTRAINT_NON_NEGATIVE) return CLQ_OK;
    if (!(c->least >= 0 && c->most >= c->least && isfinite(c->most)))
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "its constraint's norms from %g to %g should be finite, at least 0, in order", c->least,
                        c->most);
    if (c->kind == CLQ_CONSTRAINT_MIN_MAX_NORM && !(c->rate >= 0 && c->rate <= 1))
        return clq_fail(CLQ_ERROR_ARGUMENT, "its constraint's rate %g should be from 0 to 1", c->rate);
    return find_sizes(v, &c->axes, sizes);
}

clq_tensor clq_constrain(clq_model *model, clq_tensor x, const char *variable, const clq_constraint *constraint) {
    clq_layer *layer = clq_model_marked_layer(model, x, "clq_constrain");
    if (!layer) return (clq_tensor){0};
    clq_variable *v = clq_model_variable_named(model, layer, variable);
    const clq_status status =
        v ? check(v, constraint) : clq_fail(CLQ_ERROR_ARGUMENT, "it has no variable '%.60s'", variable ? variable : "");
    if (status != CLQ_OK) return clq_model_fail(model, status, layer->name);
    v->properties.constraint = *constraint;
    return x;
}

static bool is_on(const clq_properties *properties) { return properties->constraint.kind != CLQ_CONSTRAINT_NONE; }

static void add_key(const clq_properties *properties, clq_text *to) {
    const clq_constraint *c = &properties->constraint;
    clq_text_add(to, " constraint %d %.17g %.17g %.17g of", (int)c->kind, c->least, c->most, c->rate);
    for (unsigned i = 0; i < c->axes.count; i++) clq_text_add(to, " %d", c->axes.axes[i]);
}

static void follow(clq_list *list, const clq_variable *variable, size_t block, clq_value w) {
    const clq_constraint_problem problem = problem_of(variable);
    clq_constrain_weights(list, &problem, block, w);
}

static void follow_on_host(const clq_variable *variable, float *w) {
    const clq_constraint_problem problem = problem_of(variable);
    clq_constrain_on_host(&problem, w);
}

const clq_property clq_property_constraint = {.names = "constraints on its weights",
                                              .is_on = is_on,
                                              .add_key = add_key,
                                              .follow = follow,
                                              .follow_on_host = follow_on_host};
