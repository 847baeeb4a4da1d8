/* A layer's attributes in a Keras file, by the rows of its kind: how each type of attribute is read and written. */
#include "interop/keras_reading.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- a configuration ---- */

void clq_keras_open(json_t *layer, size_t index, clq_keras_attributes *out) {
    char where[160];
    clq_keras_describe_place(layer, index, where);
    *out = (clq_keras_attributes){.object = json_object_get(layer, "config")};
    snprintf(out->path, sizeof out->path, "%s.config", where);
    if (!json_is_object(out->object)) {
        out->status = clq_fail(CLQ_ERROR_FORMAT, "%s is not an object", out->path);
        return;
    }
    out->left = clq_json_copy(out->object);
    if (!out->left) out->status = clq_fail(CLQ_ERROR_MEMORY, "out of memory at %s", out->path);
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
const char *clq_keras_quote(const json_t *value, char text[80]) {
    char *dumped = clq_json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, 80, "%.70s", dumped ? dumped : "its value");
    clq_free(dumped);
    return text;
}

static void refuse_value(clq_keras_attributes *a, const char *key, const json_t *value, const char *wanted) {
    char text[80];
    clq_keras_refuse(a, CLQ_ERROR_FORMAT, key, "%s should be %s", clq_keras_quote(value, text), wanted);
}

clq_status clq_keras_close(clq_keras_attributes *a) {
    const char *key;
    json_t *value;
    json_object_foreach(a->left, key, value) {
        char text[80];
        if (json_is_null(value)) continue;
        const char *class_name = json_string_value(json_object_get(value, "class_name"));
        clq_keras_refuse(a, CLQ_ERROR_UNSUPPORTED, key, "%.70s is not supported",
                         class_name ? class_name : clq_keras_quote(value, text));
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
        if (!fallback) clq_keras_refuse(a, CLQ_ERROR_FORMAT, key, "is missing");
        return fallback ? fallback : "";
    }
    if (json_is_string(value)) return json_string_value(value);
    const char *class_name = json_string_value(json_object_get(value, "class_name"));
    if (class_name)
        clq_keras_refuse(a, CLQ_ERROR_UNSUPPORTED, key, "%.70s as an object is not supported, only names", class_name);
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

/* The value of a row; NULL if the file has none. Refuses a missing value if the row says that it is needed. */
json_t *clq_keras_value(const clq_keras_reading *r) {
    json_t *value = clq_keras_attribute(r->a, r->row->key);
    if (!value && r->row->alias) value = clq_keras_attribute(r->a, r->row->alias);
    if (!value && r->row->needed) clq_keras_refuse(r->a, CLQ_ERROR_FORMAT, r->row->key, "is missing");
    return value;
}

void clq_keras_unfit(const clq_keras_reading *r, const json_t *value, const char *wanted) {
    refuse_value(r->a, r->row->key, value, wanted);
}

/* One size for all, or a list of sizes. */
static void read_sizes(const clq_keras_reading *r, void *member) {
    const unsigned count = CLQ_MAX(r->row->count, 1u);
    json_t *value = clq_keras_value(r);
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
    if (!fits) clq_keras_unfit(r, value, wanted);
}

/* A size of 0 is left to the layer, so the file goes without it. */
static json_t *write_sizes(const clq_keras_writing *w, const void *member) {
    const size_t *sizes = member;
    json_t *list = json_array();
    for (unsigned i = 0; i < w->row->count; i++) list = clq_json_append(list, json_integer((json_int_t)sizes[i]));
    if (sizes[0] > 0 && w->row->count > 1) return list;
    json_decref(list);
    return sizes[0] > 0 ? json_integer((json_int_t)sizes[0]) : json_null();
}

bool clq_keras_is_count(const json_t *value, size_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > INT32_MAX) return false;
    *out = (size_t)json_integer_value(value);
    return true;
}

/* A number for all sides, or for each axis a number or a pair [in front, behind]. For one axis, the pair may stand
 * alone. */
static void read_sides(const clq_keras_reading *r, void *member) {
    const unsigned count = CLQ_MAX(r->row->count, 1u);
    size_t(*sides)[2] = member, all = (size_t)r->row->fallback;
    json_t *value = clq_keras_value(r);
    bool fits = !value || clq_keras_is_count(value, &all);
    for (unsigned i = 0; i < count; i++) sides[i][0] = sides[i][1] = all;
    const bool alone = count == 1 && json_array_size(value) == 2;
    if (json_is_array(value)) fits = alone || json_array_size(value) == count;
    for (unsigned i = 0; i < count && fits && json_is_array(value); i++) {
        json_t *axis = alone ? value : json_array_get(value, i);
        if (json_is_array(axis)) {
            fits = json_array_size(axis) == 2 && clq_keras_is_count(json_array_get(axis, 0), &sides[i][0]) &&
                   clq_keras_is_count(json_array_get(axis, 1), &sides[i][1]);
        } else {
            fits = clq_keras_is_count(axis, &sides[i][0]);
            sides[i][1] = sides[i][0];
        }
    }
    if (!fits)
        clq_keras_unfit(r, value, "a whole number of at least 0, or for each axis one, or two: in front and behind");
}

static json_t *write_sides(const clq_keras_writing *w, const void *member) {
    const size_t(*sides)[2] = member;
    json_t *list = json_array();
    for (unsigned i = 0; i < w->row->count; i++)
        list = clq_json_append(list, json_pack("[I, I]", (json_int_t)sides[i][0], (json_int_t)sides[i][1]));
    if (w->row->count > 1) return list;
    json_decref(list);
    return json_pack("[I, I]", (json_int_t)sides[0][0], (json_int_t)sides[0][1]);
}

static void read_flag(const clq_keras_reading *r, void *member) {
    *(bool *)member = clq_keras_flag(r->a, r->row->key, r->row->fallback != 0);
}
static void read_opposite(const clq_keras_reading *r, void *member) {
    *(bool *)member = !clq_keras_flag(r->a, r->row->key, true);
}
static json_t *write_flag(const clq_keras_writing *w, const void *member) {
    (void)w;
    return json_boolean(*(const bool *)member);
}
static json_t *write_opposite(const clq_keras_writing *w, const void *member) {
    (void)w;
    return json_boolean(!*(const bool *)member);
}

static void read_number(const clq_keras_reading *r, void *member) {
    json_t *value = clq_keras_value(r);
    *(double *)member = value ? json_number_value(value) : r->row->fallback;
    if (value && !json_is_number(value)) clq_keras_refuse(r->a, CLQ_ERROR_FORMAT, r->row->key, "should be a number");
}

/* A number that is not finite becomes null. */
static json_t *write_number(const clq_keras_writing *w, const void *member) {
    const double number = *(const double *)member;
    return w->row->whole ? json_integer((json_int_t)number) : clq_json_number(number);
}

size_t clq_keras_count_numbers(const json_t *value) {
    size_t count = json_is_number(value) || json_is_boolean(value), i;
    const json_t *item;
    json_array_foreach(value, i, item) count += clq_keras_count_numbers(item);
    return count;
}

/* Copies the numbers to to[*at …], moving *at; true and false become 1 and 0. False: something is no number. */
bool clq_keras_take_numbers(const json_t *value, float *to, size_t *at) {
    size_t i;
    const json_t *item;
    const bool number = json_is_number(value), truth = json_is_boolean(value);
    if (number || truth) to[(*at)++] = truth ? (float)json_is_true(value) : (float)json_number_value(value);
    json_array_foreach(value, i, item) if (!clq_keras_take_numbers(item, to, at)) return false;
    return number || truth || json_is_array(value);
}

/* A number or nested lists of numbers, also in an array as Keras writes it: {"class_name": "__numpy__", "config":
 * {"value": …}}. */
static void read_numbers(const clq_keras_reading *r, void *member) {
    clq_numbers *out = member;
    json_t *given = clq_keras_value(r), *value = given;
    if (json_is_object(value)) value = json_object_get(json_object_get(value, "config"), "value");
    if (!given) return;
    if (r->row->listed && !json_is_array(value)) {
        clq_keras_unfit(r, given, "a list of numbers");
        return;
    }
    const size_t count = clq_keras_count_numbers(value);
    float *values = clq_alloc(CLQ_MAX(count, (size_t)1), sizeof *values);
    size_t at = 0;
    *out = (clq_numbers){.count = count, .values = values};
    if (!values)
        clq_keras_refuse(r->a, CLQ_ERROR_MEMORY, r->row->key, "out of memory");
    else if (count == 0 || !clq_keras_take_numbers(value, values, &at))
        clq_keras_unfit(r, given, "a number, or a list of numbers");
}

static json_t *write_one(const clq_keras_writing *w, float number) {
    return w->row->whole ? json_integer((json_int_t)number) : json_real((double)number);
}
static json_t *write_numbers(const clq_keras_writing *w, const void *member) {
    const clq_numbers *numbers = member;
    if (numbers->count == 0) return json_null();
    if (numbers->count == 1 && !w->row->listed) return write_one(w, numbers->values[0]);
    json_t *list = json_array();
    for (size_t i = 0; i < numbers->count; i++) list = clq_json_append(list, write_one(w, numbers->values[i]));
    return list;
}

static void read_seed(const clq_keras_reading *r, void *member) {
    json_t *value = clq_keras_value(r);
    if (value && !json_is_integer(value))
        clq_keras_refuse(r->a, CLQ_ERROR_FORMAT, r->row->key, "should be a whole number");
    *(uint64_t *)member = (uint64_t)json_integer_value(value);
}
static json_t *write_seed(const clq_keras_writing *w, const void *member) {
    const uint64_t seed = *(const uint64_t *)member;
    (void)w;
    return seed ? json_integer((json_int_t)seed) : json_null();
}

static const char *const paddings[] = {
    [CLQ_PADDING_VALID] = "valid", [CLQ_PADDING_SAME] = "same", [CLQ_PADDING_CAUSAL] = "causal"};

static void read_padding(const clq_keras_reading *r, void *member) {
    const char *name = clq_keras_text(r->a, r->row->key, "valid");
    for (unsigned i = 0; i < (r->row->causal ? 3u : 2u); i++) {
        *(clq_padding *)member = (clq_padding)i;
        if (strcmp(name, paddings[i]) == 0) return;
    }
    clq_keras_refuse(r->a, CLQ_ERROR_UNSUPPORTED, r->row->key, "'%.60s' is not supported; there are valid and same%s",
                     name, r->row->causal ? ", and causal" : "");
}

static json_t *write_padding(const clq_keras_writing *w, const void *member) {
    (void)w;
    return json_string(paddings[*(const clq_padding *)member]);
}

/* Reads an axis behind the batch. Keras counts the batch as axis 0; the result counts as the builder does, without the
 * batch. Keras 2's normalisations have a list of one axis. */
static int take_axis(const clq_keras_reading *r, unsigned ranks) {
    json_t *value = clq_keras_value(r);
    if (json_array_size(value) == 1) value = json_array_get(value, 0);
    const json_int_t axis = value ? json_integer_value(value) : -1, rank = ranks;
    if (value && !json_is_integer(value))
        clq_keras_refuse(r->a, CLQ_ERROR_FORMAT, r->row->key, "should be a whole number");
    else if (axis == 0 || axis > rank || axis < -rank)
        clq_keras_refuse(r->a, CLQ_ERROR_FORMAT, r->row->key, "%lld should be from 1 to %u, or from -%u to -1",
                         (long long)axis, ranks, ranks);
    return r->a->status == CLQ_OK ? (int)(axis > 0 ? axis - 1 : axis) : -1;
}
static void read_axis(const clq_keras_reading *r, void *member) { *(int *)member = take_axis(r, r->x->shape.rank); }
static void read_new_axis(const clq_keras_reading *r, void *member) {
    *(int *)member = take_axis(r, r->x->shape.rank + 1);
}

json_t *clq_keras_write_axis(int axis) { return json_integer(axis < 0 ? axis : axis + 1); }
static json_t *write_axis(const clq_keras_writing *w, const void *member) {
    (void)w;
    return clq_keras_write_axis(*(const int *)member);
}

/* One axis, or a list of axes, each counted as Keras does. */
static void read_axes(const clq_keras_reading *r, void *member) {
    clq_axes *out = member;
    json_t *value = clq_keras_value(r);
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
    if (!fits) clq_keras_unfit(r, value, wanted);
}

/* If there are no axes and the file needs one, writes the last axis, which is the builders' default. */
static json_t *write_axes(const clq_keras_writing *w, const void *member) {
    const clq_axes *axes = member;
    if (axes->count == 0) return w->row->needed ? json_integer(-1) : json_null();
    if (axes->count == 1) return clq_keras_write_axis(axes->axes[0]);
    json_t *list = json_array();
    for (unsigned i = 0; i < axes->count; i++) list = clq_json_append(list, clq_keras_write_axis(axes->axes[i]));
    return list;
}

/* Reads the shape of a mask, with the batch in front. Each entry is null, the axis's size, or 1, by which all places
 * along the axis share one number. */
static void read_shared(const clq_keras_reading *r, void *member) {
    json_t *value = clq_keras_value(r);
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
    if (!fits) clq_keras_unfit(r, value, "null for the batch, and for each axis null, its size, or 1");
}

static json_t *write_shared(const clq_keras_writing *w, const void *member) {
    const unsigned shared = *(const unsigned *)member;
    if (shared == 0) return json_null();
    json_t *list = clq_json_append(json_array(), json_null());
    for (unsigned d = 0; d < w->x->rank; d++)
        list = clq_json_append(list, shared & 1u << d ? json_integer(1) : json_null());
    return list;
}

/* One dimension may be -1, and becomes what the others leave of `elements`. */
bool clq_keras_resolve_shape(const json_t *target, size_t elements, clq_shape *out) {
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

static void read_shape(const clq_keras_reading *r, void *member) {
    if (!clq_keras_resolve_shape(clq_keras_value(r), r->x->elements, member))
        clq_keras_refuse(r->a, CLQ_ERROR_FORMAT, r->row->key, "should be 1 to %d whole numbers, one of them perhaps -1",
                         CLQ_SHAPE_MAX);
}

json_t *clq_keras_write_dims(json_t *list, const clq_shape *shape) {
    for (unsigned d = 0; d < shape->rank; d++) list = clq_json_append(list, json_integer((json_int_t)shape->dims[d]));
    return list;
}
static json_t *write_shape(const clq_keras_writing *w, const void *member) {
    (void)w;
    return clq_keras_write_dims(json_array(), member);
}

static void read_initialiser(const clq_keras_reading *r, void *member) {
    clq_keras_read_initialiser(r->a, r->row->key, member);
}

/* ---- attributes of which only one value is supported ---- */

static void check_word(const clq_keras_reading *r, void *member) {
    (void)member;
    const char *text = clq_keras_text(r->a, r->row->key, r->row->word);
    if (strcmp(text, r->row->word) != 0)
        clq_keras_refuse(r->a, CLQ_ERROR_UNSUPPORTED, r->row->key, "'%.60s' is not supported, only '%s'", text,
                         r->row->word);
}

static json_t *write_only_word(const clq_keras_writing *w, const void *member) {
    (void)member;
    return json_string(w->row->word);
}

static void check_number(const clq_keras_reading *r, void *member) {
    (void)member;
    json_t *value = clq_keras_value(r);
    char text[80];
    if (value && (!json_is_number(value) || json_number_value(value) != r->row->fallback))
        clq_keras_refuse(r->a, CLQ_ERROR_UNSUPPORTED, r->row->key, "%s is not supported, only %g",
                         clq_keras_quote(value, text), r->row->fallback);
}

static void check_false(const clq_keras_reading *r, void *member) {
    (void)member;
    if (clq_keras_flag(r->a, r->row->key, false))
        clq_keras_refuse(r->a, CLQ_ERROR_UNSUPPORTED, r->row->key, "true is not supported");
}

static void check_null(const clq_keras_reading *r, void *member) {
    (void)member;
    json_t *value = clq_keras_value(r);
    char text[80];
    if (value)
        clq_keras_refuse(r->a, CLQ_ERROR_UNSUPPORTED, r->row->key, "%s is not supported, only null",
                         clq_keras_quote(value, text));
}

/* Whether a cast to `type` leaves the tensor's numbers as they are. All numbers here are floats. Whole numbers stay
 * what they are as int32 and int64, and truths also as bool. Other numbers would be rounded. */
static bool stays(const json_t *tensor, const char *type) {
    static const char *const whole[] = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"};
    const char *from = json_string_value(json_object_get(json_object_get(tensor, "config"), "dtype"));
    bool is_whole = false;
    if (!from) return false;
    for (size_t i = 0; i < CLQ_COUNT_OF(whole); i++) is_whole = is_whole || strcmp(whole[i], from) == 0;
    const bool is_truth = strcmp(from, "bool") == 0;
    if (strcmp(type, "bool") == 0) return is_truth;
    return (strcmp(type, "int32") == 0 || strcmp(type, "int64") == 0) && (is_whole || is_truth);
}

static void check_float(const clq_keras_reading *r, void *member) {
    static const char *const floats[] = {"float32", "float16", "bfloat16", "float64"};
    (void)member;
    json_t *value = clq_keras_value(r);
    if (!value) return;
    if (json_is_object(value)) value = json_object_get(json_object_get(value, "config"), "name");
    for (size_t i = 0; i < CLQ_COUNT_OF(floats) && json_is_string(value); i++)
        if (strcmp(json_string_value(value), floats[i]) == 0) return;
    if (json_is_string(value) && stays(r->a->first, json_string_value(value))) return;
    char text[80];
    clq_keras_refuse(r->a, CLQ_ERROR_UNSUPPORTED, r->row->key,
                     "%s is not supported, only types of floating point, and int32 and int64 of whole numbers",
                     clq_keras_quote(value, text));
}

static json_t *write_float(const clq_keras_writing *w, const void *member) {
    (void)w;
    (void)member;
    return json_string("float32");
}

static void check_last_axis(const clq_keras_reading *r, void *member) {
    (void)member;
    const int axis = take_axis(r, r->x->shape.rank);
    if (axis != -1 && axis + 1 != (int)r->x->shape.rank)
        clq_keras_refuse(r->a, CLQ_ERROR_UNSUPPORTED, r->row->key, "%d is not supported, only the last: -1 or %u",
                         axis < 0 ? axis : axis + 1, r->x->shape.rank);
}

static void pass_over(const clq_keras_reading *r, void *member) {
    (void)member;
    (void)clq_keras_attribute(r->a, r->row->key);
}

/* ---- all ---- */

const clq_keras_type clq_keras_types[CLQ_ATTRIBUTE_TYPES] = {
    [CLQ_ATTRIBUTE_SIZES] = {read_sizes, write_sizes},
    [CLQ_ATTRIBUTE_SIDES] = {read_sides, write_sides},
    [CLQ_ATTRIBUTE_FLAG] = {read_flag, write_flag},
    [CLQ_ATTRIBUTE_OPPOSITE] = {read_opposite, write_opposite},
    [CLQ_ATTRIBUTE_NUMBER] = {read_number, write_number},
    [CLQ_ATTRIBUTE_NUMBERS] = {read_numbers, write_numbers},
    [CLQ_ATTRIBUTE_SEED] = {read_seed, write_seed},
    [CLQ_ATTRIBUTE_ACTIVATION] = {clq_keras_read_activation, clq_keras_write_activation},
    [CLQ_ATTRIBUTE_PADDING] = {read_padding, write_padding},
    [CLQ_ATTRIBUTE_AXIS] = {read_axis, write_axis},
    [CLQ_ATTRIBUTE_NEW_AXIS] = {read_new_axis, write_axis},
    [CLQ_ATTRIBUTE_AXES] = {read_axes, write_axes},
    [CLQ_ATTRIBUTE_SHARED] = {read_shared, write_shared},
    [CLQ_ATTRIBUTE_SHAPE] = {read_shape, write_shape},
    [CLQ_ATTRIBUTE_BATCH_SHAPE] = {clq_keras_read_batch_shape, clq_keras_write_batch_shape},
    [CLQ_ATTRIBUTE_OPEN_SHAPE] = {clq_keras_read_open_shape, clq_keras_write_open_shape},
    [CLQ_ATTRIBUTE_ORDER] = {clq_keras_read_order, clq_keras_write_order},
    [CLQ_ATTRIBUTE_INITIALISER] = {read_initialiser, clq_keras_write_initialiser},
    [CLQ_ATTRIBUTE_RANGE] = {clq_keras_read_range, clq_keras_write_range},
    [CLQ_ATTRIBUTE_TEXT] = {clq_keras_read_word, clq_keras_write_word},
    [CLQ_ATTRIBUTE_CHOICE] = {clq_keras_read_choice, clq_keras_write_choice},
    [CLQ_ATTRIBUTE_PADS] = {clq_keras_read_pads, clq_keras_write_pads},
    [CLQ_ATTRIBUTE_SECTIONS] = {clq_keras_read_sections, clq_keras_write_sections},
    [CLQ_ATTRIBUTE_AXIS_PAIR] = {clq_keras_read_axis_pair, clq_keras_write_axis_pair},
    [CLQ_ATTRIBUTE_OPERAND] = {clq_keras_read_operand, clq_keras_write_operand, CLQ_KERAS_IN_ARGUMENTS},
    [CLQ_ATTRIBUTE_ARGUMENT] = {clq_keras_read_argument, clq_keras_write_operand, CLQ_KERAS_IN_ARGUMENTS},
    [CLQ_ATTRIBUTE_TENSOR] = {clq_keras_read_tensor}, /* written with the call that reads it */
    [CLQ_ATTRIBUTE_KEYWORD_FLAG] = {clq_keras_read_keyword_flag, clq_keras_write_keyword_flag, CLQ_KERAS_IN_KEYWORDS},
    [CLQ_ATTRIBUTE_KEYWORD_NUMBER] = {clq_keras_read_keyword_number, clq_keras_write_keyword_number,
                                      CLQ_KERAS_IN_KEYWORDS},
    [CLQ_ATTRIBUTE_PLACES] = {clq_keras_read_places, clq_keras_write_places, CLQ_KERAS_IN_ARGUMENTS},
    [CLQ_ATTRIBUTE_ONLY_WORD] = {check_word, write_only_word},
    [CLQ_ATTRIBUTE_ONLY_NUMBER] = {check_number},
    [CLQ_ATTRIBUTE_ONLY_FALSE] = {check_false},
    [CLQ_ATTRIBUTE_ONLY_NULL] = {check_null},
    [CLQ_ATTRIBUTE_ONLY_LAST_AXIS] = {check_last_axis},
    [CLQ_ATTRIBUTE_ONLY_FLOAT] = {check_float, write_float},
    [CLQ_ATTRIBUTE_UNUSED] = {pass_over},
};

void clq_keras_read_rows(clq_keras_attributes *a, const clq_layer_kind *kind, const clq_model_tensor *x, void *config) {
    for (size_t i = 0; i < kind->attribute_count && a->status == CLQ_OK; i++) {
        const clq_attribute *row = &kind->attributes[i];
        if (row->own && !a->is_part) continue; /* its key is left, and refused like any unknown key */
        clq_keras_types[row->type].read(&(clq_keras_reading){a, row, x}, (char *)config + row->at);
    }
}
