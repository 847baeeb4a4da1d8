/* Constraints on variables: `kernel_constraint` is of the variable that `kernel_initializer` is of. A class of Keras's
 * is a row, by which it is read and written. */
#include "interop/keras.h"

#include <stdio.h>
#include <string.h>

typedef struct constraint_class {
    const char *class_name, *names[2]; /* as text: "max_norm" */
    clq_constraint value;              /* with the defaults of its numbers */
    bool least, most, rate, axes;      /* what its configuration has */
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

/* Of the configuration's keys each is one that the class has. */
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

/* As an object or by name; false: it is none of Keras's own. */
static bool read_constraint(json_t *value, clq_constraint *out) {
    const char *module = json_string_value(json_object_get(value, "module"));
    const char *name = json_is_string(value) ? json_string_value(value) : clq_keras_class(value);
    if (module && strncmp(module, "keras.", 6) != 0) return false;
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

void clq_keras_take_constraints(clq_keras_attributes *a) {
    const char *key;
    json_t *value;
    char subject[CLQ_KERAS_SUBJECT_MAX];
    clq_constraint ignored;
    json_object_foreach(a->object, key, value) {
        if (!clq_keras_find_subject(key, "_constraint", subject)) continue;
        if (!json_is_null(value) && !read_constraint(value, &ignored)) continue; /* refused at the end */
        (void)clq_keras_attribute(a, key);
    }
}

static void add_constraint(clq_model *model, clq_tensor x, const char *subject, const clq_constraint *found) {
    const clq_layer *layer = &model->layers[model->tensors[x.id - 1].layer - 1];
    bool known = clq_keras_is_optional(subject);
    for (size_t k = 0; k < layer->variable_places; k++) {
        const clq_variable *v = clq_keras_variable_at(model, layer, k);
        if (!v || !clq_keras_means(layer, subject, clq_keras_what_of(layer, v))) continue;
        (void)clq_constrain(model, x, clq_keras_what_of(layer, v), found);
        known = true;
    }
    if (!known) (void)clq_constrain(model, x, subject, found); /* fails: there is none */
}

void clq_keras_add_constraints(clq_model *model, clq_tensor x, json_t *config) {
    const char *key;
    json_t *value;
    char subject[CLQ_KERAS_SUBJECT_MAX];
    clq_constraint found;
    json_object_foreach(config, key, value) {
        if (!json_is_null(value) && clq_keras_find_subject(key, "_constraint", subject) &&
            read_constraint(value, &found))
            add_constraint(model, x, subject, &found);
    }
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

static json_t *write_constraint(const clq_constraint *c) {
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

static bool is_same(const clq_constraint *a, const clq_constraint *b) {
    bool same = a->kind == b->kind && a->least == b->least && a->most == b->most && a->rate == b->rate &&
                a->axes.count == b->axes.count;
    for (unsigned i = 0; i < a->axes.count && same; i++) same = a->axes.axes[i] == b->axes.axes[i];
    return same;
}

/* What all variables that the subject means have, NULL: none; false: they differ. count: how many are constrained. */
static bool find_constraint(const clq_model *model, const clq_layer *layer, const char *subject,
                            const clq_constraint **out, size_t *count) {
    bool first = true, same = true;
    *out = NULL;
    for (size_t k = 0; k < layer->variable_places; k++) {
        const clq_variable *v = clq_keras_variable_at(model, layer, k);
        if (!v || !clq_keras_means(layer, subject, clq_keras_what_of(layer, v))) continue;
        same = same && (first || is_same(*out, &v->properties.constraint));
        *out = &v->properties.constraint;
        *count += v->properties.constraint.kind != CLQ_CONSTRAINT_NONE;
        first = false;
    }
    return same;
}

clq_status clq_keras_write_constraints(const clq_model *model, const clq_layer *layer, json_t **config) {
    size_t written = 0, all = 0;
    bool fits = true;
    for (size_t i = 0; i < layer->kind->attribute_count; i++) {
        char subject[CLQ_KERAS_SUBJECT_MAX], key[64];
        const clq_constraint *found;
        if (layer->kind->attributes[i].type != CLQ_ATTRIBUTE_INITIALISER ||
            !clq_keras_find_subject(layer->kind->attributes[i].key, "_initializer", subject))
            continue;
        fits = find_constraint(model, layer, subject, &found, &written) && fits;
        if (!found || found->kind == CLQ_CONSTRAINT_NONE) continue;
        (void)snprintf(key, sizeof key, "%s_constraint", subject);
        *config = clq_json_put(*config, key, write_constraint(found));
    }
    for (size_t k = 0; k < layer->variable_places; k++) {
        const clq_variable *v = clq_keras_variable_at(model, layer, k);
        all += v && v->properties.constraint.kind;
    }
    if (fits && written == all) return CLQ_OK;
    return clq_fail(CLQ_UNSUPPORTED,
                    "layer '%s': Keras's %s has no constraint for the variables that have one, or has one for several "
                    "that have different ones",
                    layer->name, layer->kind->type);
}
