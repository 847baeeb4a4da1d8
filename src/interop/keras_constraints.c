/* Constraints on variables. Each class of Keras's has a row, by which it is read and written. */
#include "interop/keras.h"

#include <string.h>

typedef struct constraint_class {
    const char *class_name, *names[2]; /* as text: "max_norm" */
    clq_constraint value;              /* with the defaults of its numbers */
    bool least, most, rate, axes;      /* keys that its configuration has */
} constraint_class;

static const constraint_class classes[] = {
    {"NonNeg", {"non_neg", "nonneg"}, {.kind = CLQ_CONSTRAINT_NON_NEGATIVE}, .most = false},
    {"MaxNorm", {"max_norm", "maxnorm"}, {.kind = CLQ_CONSTRAINT_MAX_NORM, .most = 2}, .most = true, .axes = true},
    {"UnitNorm", {"unit_norm", "unitnorm"}, {.kind = CLQ_CONSTRAINT_UNIT_NORM}, .axes = true},
    {"MinMaxNorm",
     {"min_max_norm", "minmaxnorm"},
     {.kind = CLQ_CONSTRAINT_MIN_MAX_NORM, .most = 1, .rate = 1},
     .least = true,
     .most = true,
     .rate = true,
     .axes = true},
};

/* ---- reading ---- */

static bool read_axes(const json_t *value, clq_axes *out) {
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    *out = (clq_axes){.count = 0};
    if (count == 0 || count > CLQ_SHAPE_MAX) return false;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        const json_int_t axis = json_integer_value(item);
        if (!json_is_integer(item) || axis < -CLQ_SHAPE_MAX || axis > CLQ_SHAPE_MAX) return false;
        out->axes[out->count++] = (int)axis;
    }
    return true;
}

static bool read_number(const json_t *value, double *out) {
    *out = json_number_value(value);
    return json_is_number(value);
}

/* Reads a configuration. False: it has a key that the class does not have, or a value that does not fit. */
static bool read_config(const constraint_class *class, json_t *config, clq_constraint *out) {
    const char *key;
    json_t *value;
    bool fits = true;
    json_object_foreach(config, key, value) {
        if (class->most && strcmp(key, "max_value") == 0)
            fits = read_number(value, &out->most) && fits;
        else if (class->least && strcmp(key, "min_value") == 0)
            fits = read_number(value, &out->least) && fits;
        else if (class->rate && strcmp(key, "rate") == 0)
            fits = read_number(value, &out->rate) && fits;
        else if (class->axes && strcmp(key, "axis") == 0)
            fits = read_axes(value, &out->axes) && fits;
        else
            fits = false;
    }
    return fits;
}

/* Reads a constraint, as an object or by name. False: it is none of Keras's own, or its configuration does not fit. */
static bool read_constraint(json_t *value, clq_properties *found) {
    clq_constraint *out = &found->constraint;
    const char *name = json_is_string(value) ? json_string_value(value) : clq_keras_class(value);
    if (!clq_keras_is_own(value)) return false;
    for (size_t i = 0; i < CLQ_COUNT_OF(classes); i++) {
        const constraint_class *class = &classes[i];
        bool meant = strcmp(name, class->class_name) == 0;
        for (size_t k = 0; k < CLQ_COUNT_OF(class->names); k++) meant = meant || strcmp(name, class->names[k]) == 0;
        if (!meant) continue;
        *out = class->value;
        json_t *config = json_object_get(value, "config");
        return json_is_string(value) || ((!config || json_is_object(config)) && read_config(class, config, out));
    }
    return false;
}

static void give(clq_model *model, clq_tensor x, const char *variable, const clq_properties *found) {
    (void)clq_constrain(model, x, variable, &found->constraint);
}

/* ---- writing ---- */

static json_t *write_axes(const clq_axes *axes) {
    json_t *list = json_array();
    if (axes->count <= 1) {
        json_decref(list);
        return json_integer(axes->count ? axes->axes[0] : 0);
    }
    for (unsigned i = 0; i < axes->count; i++) (void)json_array_append_new(list, json_integer(axes->axes[i]));
    return list;
}

static json_t *write_constraint(const clq_properties *found) {
    const clq_constraint *c = &found->constraint;
    const constraint_class *class = &classes[0];
    json_t *config = json_object();
    for (size_t i = 0; i < CLQ_COUNT_OF(classes); i++)
        if (classes[i].value.kind == c->kind) class = &classes[i];
    if (class->least) config = clq_json_put(config, "min_value", json_real(c->least));
    if (class->most) config = clq_json_put(config, "max_value", json_real(c->most));
    if (class->rate) config = clq_json_put(config, "rate", json_real(c->rate));
    if (class->axes) config = clq_json_put(config, "axis", write_axes(&c->axes));
    return json_pack("{s:s, s:s, s:o, s:n}", "module", "keras.constraints", "class_name", class->class_name, "config",
                     config, "registered_name");
}

static bool is_on(const clq_properties *found) { return found->constraint.kind != CLQ_CONSTRAINT_NONE; }

static bool is_same(const clq_properties *first, const clq_properties *second) {
    const clq_constraint *a = &first->constraint, *b = &second->constraint;
    bool same = a->kind == b->kind && a->least == b->least && a->most == b->most && a->rate == b->rate &&
                a->axes.count == b->axes.count;
    for (unsigned i = 0; i < a->axes.count && same; i++) same = a->axes.axes[i] == b->axes.axes[i];
    return same;
}

const clq_keras_property clq_keras_constraint = {.end = "_constraint",
                                                 .one = "one",
                                                 .read = read_constraint,
                                                 .give = give,
                                                 .is_same = is_same,
                                                 .is_on = is_on,
                                                 .write = write_constraint};
