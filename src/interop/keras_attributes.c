/* Attributes of a layer in a Keras file, by the rows of its kind. */
#include "interop/keras.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a configuration ---- */

void clq_keras_open(json_t *layer, size_t index, clq_keras_attributes *out) {
    char where[160];
    clq_keras_describe_place(layer, index, where);
    *out = (clq_keras_attributes){.object = json_object_get(layer, "config")};
    snprintf(out->path, sizeof out->path, "%s.config", where);
    if (!json_is_object(out->object)) {
        out->status = clq_fail(CLQ_FORMAT, "%s is not an object", out->path);
        return;
    }
    out->left = json_copy(out->object);
    if (!out->left) out->status = clq_fail(CLQ_MEMORY, "out of memory at %s", out->path);
}

void clq_keras_refuse(clq_keras_attributes *a, clq_status status, const char *key, const char *format, ...) {
    if (a->status != CLQ_OK) return;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    clq_format_list(text, sizeof text, format, arguments);
    va_end(arguments);
    a->status = clq_fail(status, "%s.%.80s: %s", a->path, key, text);
}

/* A value as the file has it, cut short, for messages. */
static const char *quote(const json_t *value, char text[80]) {
    char *dumped = clq_json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, 80, "%.70s", dumped ? dumped : "its value");
    free(dumped);
    return text;
}

static void refuse_value(clq_keras_attributes *a, const char *key, const json_t *value, const char *wanted) {
    char text[80];
    clq_keras_refuse(a, CLQ_FORMAT, key, "%s should be %s", quote(value, text), wanted);
}

clq_status clq_keras_close(clq_keras_attributes *a) {
    const char *key;
    json_t *value;
    json_object_foreach(a->left, key, value) {
        char text[80];
        if (json_is_null(value)) continue;
        const char *class_name = json_string_value(json_object_get(value, "class_name"));
        clq_keras_refuse(a, CLQ_UNSUPPORTED, key, "%.70s is not supported",
                         class_name ? class_name : quote(value, text));
    }
    json_decref(a->left);
    return a->status;
}

json_t *clq_keras_attribute(clq_keras_attributes *a, const char *key) {
    if (a->status != CLQ_OK) return NULL;
    json_t *value = json_object_get(a->object, key);
    if (value) json_object_del(a->left, key);
    return value && !json_is_null(value) ? value : NULL;
}

const char *clq_keras_text(clq_keras_attributes *a, const char *key, const char *fallback) {
    json_t *value = clq_keras_attribute(a, key);
    if (!value) {
        if (!fallback) clq_keras_refuse(a, CLQ_FORMAT, key, "is missing");
        return fallback ? fallback : "";
    }
    if (json_is_string(value)) return json_string_value(value);
    const char *class_name = json_string_value(json_object_get(value, "class_name"));
    if (class_name)
        clq_keras_refuse(a, CLQ_UNSUPPORTED, key, "%.70s as an object is not supported, only names", class_name);
    refuse_value(a, key, value, "a text");
    return "";
}

bool clq_keras_flag(clq_keras_attributes *a, const char *key, bool fallback) {
    json_t *value = clq_keras_attribute(a, key);
    if (!value) return fallback;
    if (!json_is_boolean(value)) refuse_value(a, key, value, "true or false");
    return json_is_true(value);
}

bool clq_keras_is_size(const json_t *value, size_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > INT32_MAX) return false;
    *out = (size_t)json_integer_value(value);
    return true;
}

/* ---- values by type ---- */

/* What a row is read with: the file's attributes, and the layer's first input. */
typedef struct reading {
    clq_keras_attributes *a;
    const clq_attribute *row;
    const clq_model_tensor *x;
} reading;

/* The value of a row; NULL if the file has none, and then what the row says of that is done. */
static json_t *value_of(const reading *r) {
    json_t *value = clq_keras_attribute(r->a, r->row->key);
    if (!value && r->row->alias) value = clq_keras_attribute(r->a, r->row->alias);
    if (!value && r->row->needed) clq_keras_refuse(r->a, CLQ_FORMAT, r->row->key, "is missing");
    return value;
}

static void refuse(const reading *r, const json_t *value, const char *wanted) {
    refuse_value(r->a, r->row->key, value, wanted);
}

/* n, for all, or [n, …]. */
static void read_sizes(const reading *r, void *member) {
    const unsigned count = CLQ_MAX(r->row->count, 1u);
    json_t *value = value_of(r);
    size_t *sizes = member, all = (size_t)r->row->fallback;
    char wanted[64];
    bool fits = !value || json_is_array(value) || clq_keras_is_size(value, &all);
    if (json_is_array(value)) fits = json_array_size(value) == count;
    for (unsigned i = 0; i < count && fits; i++) {
        sizes[i] = all;
        if (json_is_array(value)) fits = clq_keras_is_size(json_array_get(value, i), &sizes[i]);
    }
    if (count == 1)
        (void)snprintf(wanted, sizeof wanted, "a whole number of at least 1");
    else if (json_is_array(value))
        (void)snprintf(wanted, sizeof wanted, "%s whole numbers of at least 1", count == 2 ? "two" : "three");
    else
        (void)snprintf(wanted, sizeof wanted, "a whole number of at least 1, or %s", count == 2 ? "two" : "three");
    if (!fits) refuse(r, value, wanted);
}

static bool is_count(const json_t *value, size_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > INT32_MAX) return false;
    *out = (size_t)json_integer_value(value);
    return true;
}

/* n; or for each axis n or [in front, behind]; of one axis these two alone, too. */
static void read_sides(const reading *r, void *member) {
    const unsigned count = CLQ_MAX(r->row->count, 1u);
    size_t(*sides)[2] = member, all = (size_t)r->row->fallback;
    json_t *value = value_of(r);
    bool fits = !value || is_count(value, &all);
    for (unsigned i = 0; i < count; i++) sides[i][0] = sides[i][1] = all;
    const bool alone = count == 1 && json_array_size(value) == 2;
    if (json_is_array(value)) fits = alone || json_array_size(value) == count;
    for (unsigned i = 0; i < count && fits && json_is_array(value); i++) {
        json_t *axis = alone ? value : json_array_get(value, i);
        if (json_is_array(axis)) {
            fits = json_array_size(axis) == 2 && is_count(json_array_get(axis, 0), &sides[i][0]) &&
                   is_count(json_array_get(axis, 1), &sides[i][1]);
        } else {
            fits = is_count(axis, &sides[i][0]);
            sides[i][1] = sides[i][0];
        }
    }
    if (!fits) refuse(r, value, "a whole number of at least 0, or for each axis one, or two: in front and behind");
}

static void read_flag(const reading *r, void *member) {
    *(bool *)member = clq_keras_flag(r->a, r->row->key, r->row->fallback != 0);
}
static void read_opposite(const reading *r, void *member) {
    *(bool *)member = !clq_keras_flag(r->a, r->row->key, true);
}

static void read_number(const reading *r, void *member) {
    json_t *value = value_of(r);
    *(double *)member = value ? json_number_value(value) : r->row->fallback;
    if (value && !json_is_number(value)) clq_keras_refuse(r->a, CLQ_FORMAT, r->row->key, "should be a number");
}

static size_t count_numbers(const json_t *value) {
    size_t count = json_is_number(value), i;
    const json_t *item;
    json_array_foreach(value, i, item) count += count_numbers(item);
    return count;
}

/* Whether all are numbers; those from *at on. */
static bool take_numbers(const json_t *value, float *to, size_t *at) {
    size_t i;
    const json_t *item;
    if (json_is_number(value)) to[(*at)++] = (float)json_number_value(value);
    json_array_foreach(value, i, item) if (!take_numbers(item, to, at)) return false;
    return json_is_number(value) || json_is_array(value);
}

/* A number or lists of them, also as Keras writes arrays: {"class_name": "__numpy__", "config": {"value": …}}. */
static void read_numbers(const reading *r, void *member) {
    clq_numbers *out = member;
    json_t *given = value_of(r), *value = given;
    if (json_is_object(value)) value = json_object_get(json_object_get(value, "config"), "value");
    if (!given) return;
    const size_t count = count_numbers(value);
    float *values = clq_alloc(CLQ_MAX(count, (size_t)1), sizeof *values);
    size_t at = 0;
    *out = (clq_numbers){.count = count, .values = values};
    if (!values)
        clq_keras_refuse(r->a, CLQ_MEMORY, r->row->key, "out of memory");
    else if (count == 0 || !take_numbers(value, values, &at))
        refuse(r, given, "a number, or a list of numbers");
}

static void read_seed(const reading *r, void *member) {
    json_t *value = value_of(r);
    if (value && !json_is_integer(value)) clq_keras_refuse(r->a, CLQ_FORMAT, r->row->key, "should be a whole number");
    *(uint64_t *)member = (uint64_t)json_integer_value(value);
}

static void read_activation(const reading *r, void *member) {
    const char *name = clq_keras_text(r->a, r->row->key, "linear");
    clq_activation *out = member;
    *out = CLQ_LINEAR;
    if (clq_activation_named(name, out)) return;
    clq_text known = {0};
    for (unsigned i = 0; clq_activation_row_of((clq_activation)i); i++)
        clq_text_add(&known, "%s%s", i ? ", " : "", clq_activation_row_of((clq_activation)i)->name);
    clq_keras_refuse(r->a, CLQ_UNSUPPORTED, r->row->key, "'%.60s' is not supported; expected %s", name,
                     known.data ? known.data : "others");
    clq_free(known.data);
}

static void read_padding(const reading *r, void *member) {
    static const char *const names[] = {[CLQ_VALID] = "valid", [CLQ_SAME] = "same", [CLQ_CAUSAL] = "causal"};
    const char *name = clq_keras_text(r->a, r->row->key, "valid");
    for (unsigned i = 0; i < (r->row->causal ? 3u : 2u); i++) {
        *(clq_padding *)member = (clq_padding)i;
        if (strcmp(name, names[i]) == 0) return;
    }
    clq_keras_refuse(r->a, CLQ_UNSUPPORTED, r->row->key, "'%.60s' is not supported; there are valid and same%s", name,
                     r->row->causal ? ", and causal" : "");
}

/* Keras counts the batch as axis 0: an axis behind it, as the builder counts. Keras 2's normalisations have a list. */
static int take_axis(const reading *r, unsigned ranks) {
    json_t *value = value_of(r);
    if (json_array_size(value) == 1) value = json_array_get(value, 0);
    const json_int_t axis = value ? json_integer_value(value) : -1, rank = ranks;
    if (value && !json_is_integer(value))
        clq_keras_refuse(r->a, CLQ_FORMAT, r->row->key, "should be a whole number");
    else if (axis == 0 || axis > rank || axis < -rank)
        clq_keras_refuse(r->a, CLQ_FORMAT, r->row->key, "%lld should be from 1 to %u, or from -%u to -1",
                         (long long)axis, ranks, ranks);
    return r->a->status == CLQ_OK ? (int)(axis > 0 ? axis - 1 : axis) : -1;
}
static void read_axis(const reading *r, void *member) { *(int *)member = take_axis(r, r->x->shape.rank); }
static void read_new_axis(const reading *r, void *member) { *(int *)member = take_axis(r, r->x->shape.rank + 1); }

/* One, or a list, each counted as Keras does. */
static void read_axes(const reading *r, void *member) {
    clq_axes *out = member;
    json_t *value = value_of(r);
    const json_int_t rank = r->x->shape.rank;
    const size_t count = json_is_array(value) ? json_array_size(value) : value != NULL;
    bool fits = count <= CLQ_SHAPE_MAX && (!value || count > 0);
    for (size_t i = 0; i < count && fits; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        const json_int_t axis = json_integer_value(item);
        fits = json_is_integer(item) && axis != 0 && axis <= rank && axis >= -rank;
        out->axes[out->count++] = (int)(axis > 0 ? axis - 1 : axis);
    }
    char wanted[96];
    (void)snprintf(wanted, sizeof wanted, "an axis from 1 to %d, or from -%d to -1, or a list of such", (int)rank,
                   (int)rank);
    if (!fits) refuse(r, value, wanted);
}

/* As of a mask's shape, with the batch in front: null, or a size; 1 where an axis has more. */
static void read_shared(const reading *r, void *member) {
    json_t *value = value_of(r);
    const clq_shape *x = &r->x->shape;
    unsigned shared = 0;
    bool fits = !value || (json_array_size(value) == x->rank + 1 && json_is_null(json_array_get(value, 0)));
    for (unsigned d = 0; d < x->rank && value && fits; d++) {
        const json_t *size = json_array_get(value, d + 1);
        const json_int_t places = json_is_null(size) ? (json_int_t)x->dims[d] : json_integer_value(size);
        fits = (json_is_null(size) || json_is_integer(size)) && (places == 1 || places == (json_int_t)x->dims[d]);
        if (places == 1 && x->dims[d] > 1) shared |= 1u << d;
    }
    *(unsigned *)member = shared;
    if (!fits) refuse(r, value, "null for the batch, and for each axis null, its size, or 1");
}

/* One dimension may be -1: what the others leave. */
static bool resolve_shape(const json_t *target, size_t elements, clq_shape *out) {
    size_t known = 1, open = SIZE_MAX;
    if (!json_is_array(target) || json_array_size(target) == 0 || json_array_size(target) > CLQ_SHAPE_MAX) return false;
    *out = (clq_shape){.rank = (unsigned)json_array_size(target)};
    for (size_t d = 0; d < out->rank; d++) {
        json_t *dim = json_array_get(target, d);
        json_int_t value = json_is_integer(dim) ? json_integer_value(dim) : 0;
        if (value == -1 && open == SIZE_MAX)
            open = d;
        else if (value < 1 || value > INT32_MAX || !clq_mul_size(known, (size_t)value, &known))
            return false;
        else
            out->dims[d] = (size_t)value;
    }
    if (open != SIZE_MAX) out->dims[open] = elements / known;
    return true;
}

static void read_shape(const reading *r, void *member) {
    if (!resolve_shape(value_of(r), r->x->elements, member))
        clq_keras_refuse(r->a, CLQ_FORMAT, r->row->key, "should be 1 to %d whole numbers, one of them perhaps -1",
                         CLQ_SHAPE_MAX);
}

static void read_initialiser(const reading *r, void *member) { clq_keras_read_initialiser(r->a, r->row->key, member); }

/* ---- what calls are given beside tensors ---- */

/* [tensor, number] or [number, tensor]. */
static void read_operand(const reading *r, void *member) {
    clq_operand *out = member;
    json_t *all = r->a->arguments;
    if (!all) return;
    r->a->arguments = NULL;
    for (unsigned i = 0; i < 2; i++) {
        json_t *argument = json_array_get(all, i);
        if (!json_is_number(argument)) continue;
        *out = (clq_operand){.place = i + 1, .number = json_number_value(argument)};
    }
    if (json_array_size(all) != 2 || !out->place || !clq_keras_is_tensor(json_array_get(all, 2 - out->place)))
        clq_keras_refuse(r->a, CLQ_UNSUPPORTED, "args", "should be two tensors, or a tensor and a number");
}

static void read_keyword_flag(const reading *r, void *member) {
    json_t *value = json_object_get(r->a->keywords, r->row->key);
    *(bool *)member = json_is_true(value);
    if (value && !json_is_null(value) && !json_is_boolean(value)) refuse(r, value, "true or false");
}

static bool read_index(json_t *value, bool *left_out, long *out) {
    *left_out = json_is_null(value);
    const json_int_t given = json_integer_value(value);
    const bool fits = json_is_integer(value) && given >= -INT32_MAX && given <= INT32_MAX;
    if (fits) *out = (long)given;
    return *left_out || fits;
}

static bool read_place(json_t *item, struct clq_index *out) {
    *out = (struct clq_index){.kind = CLQ_PLACES_RANGE, .step = 1};
    bool plain;
    if (json_is_null(item)) {
        out->kind = CLQ_PLACES_NEW;
        return true;
    }
    if (json_is_integer(item)) {
        out->kind = CLQ_PLACES_ONE;
        return read_index(item, &plain, &out->first);
    }
    json_t *config = json_object_get(item, "config");
    return strcmp(clq_keras_class(item), "__slice__") == 0 &&
           read_index(json_object_get(config, "start"), &out->from_begin, &out->first) &&
           read_index(json_object_get(config, "stop"), &out->to_end, &out->end) &&
           read_index(json_object_get(config, "step"), &plain, &out->step) && out->step != 0;
}

static bool is_whole(const struct clq_index *place) {
    return place->kind == CLQ_PLACES_RANGE && place->from_begin && place->to_end && place->step == 1;
}

/* [tensor, index], or a list of indices, of which the first is the batch's and takes all of it. */
static void read_places(const reading *r, void *member) {
    clq_places *out = member;
    json_t *all = r->a->arguments, *indices = json_array_get(all, 1);
    const size_t count = json_is_array(indices) ? json_array_size(indices) : 1;
    r->a->arguments = NULL;
    bool fits = json_array_size(all) == 2 && clq_keras_is_tensor(json_array_get(all, 0));
    struct clq_index place;
    for (size_t i = 0; i < count && fits; i++) {
        json_t *item = json_is_array(indices) ? json_array_get(indices, i) : indices;
        if (strcmp(clq_keras_class(item), "__ellipsis__") == 0) {
            fits = !out->rest;
            out->rest = out->count + 1;
            continue;
        }
        fits = read_place(item, &place) && out->count < CLQ_PLACES_MOST;
        if (i == 0)
            fits = fits && is_whole(&place);
        else if (fits)
            out->axes[out->count++] = place;
    }
    if (!fits)
        clq_keras_refuse(
            r->a, CLQ_UNSUPPORTED, "args",
            "should be a tensor, and whole numbers, slices, None or ... as indices, the whole batch first");
}

/* Sizes with the batch in front, which is -1 or null. */
static void read_batch_shape(const reading *r, void *member) {
    json_t *value = value_of(r), *first = json_array_get(value, 0);
    const bool open = json_is_null(first) || json_integer_value(first) == -1;
    json_t *rest = json_is_array(value) && open ? json_copy(value) : NULL;
    if (rest) (void)json_array_remove(rest, 0);
    if (!rest || !resolve_shape(rest, r->x->elements, member))
        refuse(r, value, "-1 for the batch, and whole numbers, one of them perhaps -1");
    json_decref(rest);
}

/* Axes of a transpose: the batch stays in front. From 1 on, as of a SHAPE. */
static void read_order(const reading *r, void *member) {
    json_t *value = value_of(r);
    clq_shape *out = member;
    const unsigned rank = r->x->shape.rank;
    bool fits = json_array_size(value) == rank + 1 && json_integer_value(json_array_get(value, 0)) == 0;
    *out = (clq_shape){.rank = rank};
    for (unsigned d = 0; d < rank && fits; d++) {
        const json_int_t axis = json_integer_value(json_array_get(value, d + 1));
        fits = axis >= -(json_int_t)rank && axis <= (json_int_t)rank && axis != 0;
        if (fits) out->dims[d] = (size_t)(axis < 0 ? axis + (json_int_t)rank + 1 : axis);
    }
    if (!fits) refuse(r, value, "each axis once, 0, the batch, first");
}

/* ---- values of which one is taken ---- */

static void check_word(const reading *r, void *member) {
    (void)member;
    const char *text = clq_keras_text(r->a, r->row->key, r->row->word);
    if (strcmp(text, r->row->word) != 0)
        clq_keras_refuse(r->a, CLQ_UNSUPPORTED, r->row->key, "'%.60s' is not supported, only '%s'", text, r->row->word);
}

static void check_number(const reading *r, void *member) {
    (void)member;
    json_t *value = value_of(r);
    char text[80];
    if (value && (!json_is_number(value) || json_number_value(value) != r->row->fallback))
        clq_keras_refuse(r->a, CLQ_UNSUPPORTED, r->row->key, "%s is not supported, only %g", quote(value, text),
                         r->row->fallback);
}

static void check_false(const reading *r, void *member) {
    (void)member;
    if (clq_keras_flag(r->a, r->row->key, false))
        clq_keras_refuse(r->a, CLQ_UNSUPPORTED, r->row->key, "true is not supported");
}

static void check_null(const reading *r, void *member) {
    (void)member;
    json_t *value = value_of(r);
    char text[80];
    if (value)
        clq_keras_refuse(r->a, CLQ_UNSUPPORTED, r->row->key, "%s is not supported, only null", quote(value, text));
}

static void check_last_axis(const reading *r, void *member) {
    (void)member;
    const int axis = take_axis(r, r->x->shape.rank);
    if (axis != -1 && axis + 1 != (int)r->x->shape.rank)
        clq_keras_refuse(r->a, CLQ_UNSUPPORTED, r->row->key, "%d is not supported, only the last: -1 or %u",
                         axis < 0 ? axis : axis + 1, r->x->shape.rank);
}

static void pass_over(const reading *r, void *member) {
    (void)member;
    (void)clq_keras_attribute(r->a, r->row->key);
}

/* ---- all ---- */

static void (*const readers[CLQ_ATTRIBUTE_TYPES])(const reading *r, void *member) = {
    [CLQ_ATTRIBUTE_SIZES] = read_sizes,       [CLQ_ATTRIBUTE_SIDES] = read_sides,
    [CLQ_ATTRIBUTE_FLAG] = read_flag,         [CLQ_ATTRIBUTE_OPPOSITE] = read_opposite,
    [CLQ_ATTRIBUTE_NUMBER] = read_number,     [CLQ_ATTRIBUTE_NUMBERS] = read_numbers,
    [CLQ_ATTRIBUTE_SEED] = read_seed,         [CLQ_ATTRIBUTE_ACTIVATION] = read_activation,
    [CLQ_ATTRIBUTE_PADDING] = read_padding,   [CLQ_ATTRIBUTE_AXIS] = read_axis,
    [CLQ_ATTRIBUTE_AXES] = read_axes,         [CLQ_ATTRIBUTE_SHARED] = read_shared,
    [CLQ_ATTRIBUTE_SHAPE] = read_shape,       [CLQ_ATTRIBUTE_INITIALISER] = read_initialiser,
    [CLQ_ATTRIBUTE_ONLY_WORD] = check_word,   [CLQ_ATTRIBUTE_ONLY_NUMBER] = check_number,
    [CLQ_ATTRIBUTE_ONLY_FALSE] = check_false, [CLQ_ATTRIBUTE_ONLY_LAST_AXIS] = check_last_axis,
    [CLQ_ATTRIBUTE_UNUSED] = pass_over,       [CLQ_ATTRIBUTE_NEW_AXIS] = read_new_axis,
    [CLQ_ATTRIBUTE_OPERAND] = read_operand,   [CLQ_ATTRIBUTE_KEYWORD_FLAG] = read_keyword_flag,
    [CLQ_ATTRIBUTE_PLACES] = read_places,     [CLQ_ATTRIBUTE_BATCH_SHAPE] = read_batch_shape,
    [CLQ_ATTRIBUTE_ORDER] = read_order,       [CLQ_ATTRIBUTE_ONLY_NULL] = check_null,
};

void clq_keras_read_rows(clq_keras_attributes *a, const clq_layer_kind *kind, const clq_model_tensor *x, void *config) {
    for (size_t i = 0; i < kind->attribute_count && a->status == CLQ_OK; i++) {
        const clq_attribute *row = &kind->attributes[i];
        readers[row->type](&(reading){a, row, x}, (char *)config + row->at);
    }
}
