/* Attributes of several numbers or words, and arguments of calls that are not tensors. */
#include "interop/keras_reading.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- arguments of calls that are not tensors ---- */

/* The shape of nested lists, by the first list at each depth. False: they are too deep, or one of these lists is
 * empty. */
static bool find_list_shape(json_t *value, clq_shape *out) {
    *out = (clq_shape){.rank = 0};
    for (; json_is_array(value); value = json_array_get(value, 0)) {
        if (out->rank == CLQ_SHAPE_MAX + 1 || json_array_size(value) == 0) return false;
        if (out->rank < CLQ_SHAPE_MAX) out->dims[out->rank] = json_array_size(value);
        out->rank++;
    }
    return true;
}

/* Reads a number, or an array of NumPy or of a backend as Keras writes it. Leading axes of size 1, such as the batch's,
 * are left out and counted. */
static bool read_numbers_of(json_t *argument, clq_operand *out) {
    json_t *value = json_object_get(json_object_get(argument, "config"), "value");
    const bool array =
        strcmp(clq_keras_class(argument), "__numpy__") == 0 || strcmp(clq_keras_class(argument), "__tensor__") == 0;
    size_t elements = 1, at = 0;
    if (!array) value = argument;
    if (json_is_number(value) || json_is_boolean(value)) {
        out->number = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
        return true;
    }
    for (; array && json_array_size(value) == 1 && json_is_array(json_array_get(value, 0)); out->in_front++)
        value = json_array_get(value, 0);
    if (!array || !find_list_shape(value, &out->shape) || out->shape.rank > CLQ_SHAPE_MAX) return false;
    for (unsigned d = 0; d < out->shape.rank; d++)
        if (!clq_mul_size(elements, out->shape.dims[d], &elements)) return false;
    if (elements != clq_keras_count_numbers(value)) return false;
    float *values = clq_alloc(elements, sizeof *values);
    out->array = (clq_numbers){.count = elements, .values = values};
    return values && clq_keras_take_numbers(value, values, &at);
}

/* [tensor, numbers] or [numbers, tensor]. */
void clq_keras_read_operand(const clq_keras_reading *r, void *member) {
    clq_operand *out = member;
    json_t *all = r->a->arguments;
    if (!all) return;
    r->a->arguments = NULL;
    const bool first = clq_keras_is_tensor(json_array_get(all, 0)),
               second = clq_keras_is_tensor(json_array_get(all, 1));
    if (first != second) out->place = first ? 2 : 1;
    if (json_array_size(all) != 2 || !out->place || !read_numbers_of(json_array_get(all, out->place - 1), out))
        clq_keras_refuse(r->a, CLQ_ERROR_UNSUPPORTED, "args", "should be two tensors, or a tensor and numbers");
}

/* Reads argument number `count` of the call. At least one argument is a tensor. */
void clq_keras_read_argument(const clq_keras_reading *r, void *member) {
    clq_operand *out = member;
    json_t *all = r->a->arguments, *argument = json_array_get(all, r->row->count - 1);
    if (!all) return;
    if (r->row->count == json_array_size(all)) r->a->arguments = NULL;
    if (clq_keras_is_tensor(argument)) return;
    out->place = r->row->count;
    if (!argument || !read_numbers_of(argument, out))
        clq_keras_refuse(r->a, CLQ_ERROR_UNSUPPORTED, r->row->key, "should be a tensor or numbers");
}

/* Writes numbers as nested lists. They begin at *values, which moves past them. */
static json_t *write_array(const clq_shape *shape, unsigned axis, const float **values) {
    json_t *list = json_array();
    if (axis == shape->rank) {
        json_decref(list);
        return json_real((double)*(*values)++);
    }
    for (size_t i = 0; i < shape->dims[axis]; i++) list = clq_json_append(list, write_array(shape, axis + 1, values));
    return list;
}

/* Writes a number with a fraction: Keras would make a tensor of whole numbers from a whole number or from true or
 * false. */
json_t *clq_keras_write_operand(const clq_keras_writing *w, const void *member) {
    const clq_operand *operand = member;
    const float *values = operand->array.values;
    (void)w;
    if (!operand->place) return json_null();
    if (operand->array.count == 0) return json_real(operand->number);
    return json_pack("{s:s, s:{s:o, s:s}}", "class_name", "__numpy__", "config", "value",
                     write_array(&operand->shape, 0, &values), "dtype", "float32");
}

/* The tensors of keywords come after the other inputs, in the order of the rows. */
void clq_keras_read_tensor(const clq_keras_reading *r, void *member) {
    const size_t count = clq_keras_tensors(json_object_get(r->a->keywords, r->row->key), r->row->several);
    if (count == 0) return;
    *(size_t *)member = r->a->next_tensor;
    r->a->next_tensor += count;
}

void clq_keras_read_keyword_flag(const clq_keras_reading *r, void *member) {
    json_t *value = json_object_get(r->a->keywords, r->row->key);
    *(bool *)member = json_is_true(value);
    if (value && !json_is_null(value) && !json_is_boolean(value)) clq_keras_unfit(r, value, "true or false");
}

void clq_keras_read_keyword_number(const clq_keras_reading *r, void *member) {
    json_t *value = json_object_get(r->a->keywords, r->row->key);
    const double number = json_is_number(value) ? json_number_value(value) : r->row->fallback;
    const bool fits = (!value || json_is_null(value) || json_is_number(value)) && fabs(number) <= (double)FLT_MAX;
    *(double *)member = fits ? number : r->row->fallback;
    if (!fits) clq_keras_unfit(r, value, "a number of float32");
}

json_t *clq_keras_write_keyword_flag(const clq_keras_writing *w, const void *member) {
    (void)w;
    return *(const bool *)member ? json_true() : json_null();
}
json_t *clq_keras_write_keyword_number(const clq_keras_writing *w, const void *member) {
    const double number = *(const double *)member;
    return number == w->row->fallback ? json_null() : clq_json_number(number);
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

/* Reads [tensor, index] or [tensor, indices]. The first index is the batch's, and must take all of the batch. */
void clq_keras_read_places(const clq_keras_reading *r, void *member) {
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
            r->a, CLQ_ERROR_UNSUPPORTED, "args",
            "should be a tensor, and whole numbers, slices, None or ... as indices, the whole batch first");
}

static json_t *write_slice(const struct clq_index *place) {
    json_t *first = place->from_begin ? json_null() : json_integer(place->first);
    json_t *end = place->to_end ? json_null() : json_integer(place->end);
    json_t *step = place->step == 1 ? json_null() : json_integer(place->step);
    return json_pack("{s:s, s:{s:o, s:o, s:o}}", "class_name", "__slice__", "config", "start", first, "stop", end,
                     "step", step);
}

json_t *clq_keras_write_places(const clq_keras_writing *w, const void *member) {
    const clq_places *places = member;
    json_t *list =
        clq_json_append(json_array(), write_slice(&(struct clq_index){.from_begin = true, .to_end = true, .step = 1}));
    (void)w;
    for (unsigned i = 0; i <= places->count; i++) {
        const struct clq_index *place = &places->axes[CLQ_MIN(i, CLQ_PLACES_MOST - 1u)];
        if (places->rest == i + 1)
            list = clq_json_append(list, json_pack("{s:s, s:{}}", "class_name", "__ellipsis__", "config"));
        if (i == places->count) break;
        list = clq_json_append(list, place->kind == CLQ_PLACES_NEW   ? json_null()
                                     : place->kind == CLQ_PLACES_ONE ? json_integer(place->first)
                                                                     : write_slice(place));
    }
    return list;
}

/* A list of sizes, with -1 or null for the batch in front. */
void clq_keras_read_batch_shape(const clq_keras_reading *r, void *member) {
    json_t *value = clq_keras_value(r), *first = json_array_get(value, 0);
    const bool open = json_is_null(first) || json_integer_value(first) == -1;
    json_t *rest = json_is_array(value) && open ? clq_json_copy(value) : NULL;
    if (rest) (void)json_array_remove(rest, 0);
    if (!rest || !clq_keras_resolve_shape(rest, r->x->elements, member))
        clq_keras_unfit(r, value, "-1 for the batch, and whole numbers, one of them perhaps -1");
    json_decref(rest);
}

json_t *clq_keras_write_batch_shape(const clq_keras_writing *w, const void *member) {
    (void)w;
    return clq_keras_write_dims(clq_json_append(json_array(), json_integer(-1)), member);
}

/* The axes of a transpose, counted from 1. The batch, axis 0, must stay in front, and is left out. */
void clq_keras_read_order(const clq_keras_reading *r, void *member) {
    json_t *value = clq_keras_value(r);
    clq_shape *out = member;
    const unsigned rank = r->x->shape.rank;
    bool fits = json_array_size(value) == rank + 1 && json_integer_value(json_array_get(value, 0)) == 0;
    *out = (clq_shape){.rank = rank};
    for (unsigned d = 0; d < rank && fits; d++) {
        const json_int_t axis = json_integer_value(json_array_get(value, d + 1));
        fits = axis >= -(json_int_t)rank && axis <= (json_int_t)rank && axis != 0;
        if (fits) out->dims[d] = (size_t)(axis < 0 ? axis + (json_int_t)rank + 1 : axis);
    }
    if (!fits) clq_keras_unfit(r, value, "each axis once, 0, the batch, first");
}

json_t *clq_keras_write_order(const clq_keras_writing *w, const void *member) {
    (void)w;
    return clq_keras_write_dims(clq_json_append(json_array(), json_integer(0)), member);
}

/* One size, or a list of sizes and nulls. */
void clq_keras_read_open_shape(const clq_keras_reading *r, void *member) {
    clq_shape *out = member;
    json_t *value = clq_keras_value(r);
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    bool fits = count >= 1 && count <= CLQ_SHAPE_MAX;
    for (size_t d = 0; d < count && fits; d++) {
        const json_t *size = json_is_array(value) ? json_array_get(value, d) : value;
        fits = json_is_null(size) || clq_keras_is_size(size, &out->dims[d]);
        out->rank++;
    }
    if (!fits) clq_keras_unfit(r, value, "a whole number of at least 1, or a list of such and of nulls");
}

json_t *clq_keras_write_open_shape(const clq_keras_writing *w, const void *member) {
    const clq_shape *shape = member;
    (void)w;
    if (shape->rank == 1 && shape->dims[0]) return json_integer((json_int_t)shape->dims[0]);
    json_t *list = json_array();
    for (unsigned d = 0; d < shape->rank; d++)
        list = clq_json_append(list, shape->dims[d] ? json_integer((json_int_t)shape->dims[d]) : json_null());
    return list;
}

void clq_keras_read_word(const clq_keras_reading *r, void *member) {
    clq_short_text *word = member;
    const char *text = clq_keras_text(r->a, r->row->key, r->row->needed ? NULL : "");
    if (snprintf(word->text, sizeof word->text, "%s", text) >= (int)sizeof word->text)
        clq_keras_refuse(r->a, CLQ_ERROR_UNSUPPORTED, r->row->key, "more than %zu characters are not supported",
                         sizeof word->text - 1);
}

json_t *clq_keras_write_word(const clq_keras_writing *w, const void *member) {
    const clq_short_text *word = member;
    (void)w;
    return word->text[0] ? json_string(word->text) : json_null();
}

void clq_keras_read_choice(const clq_keras_reading *r, void *member) {
    const char *text = clq_keras_text(r->a, r->row->key, r->row->words[(size_t)r->row->fallback]);
    clq_text known = {0};
    if (r->row->not_null && json_is_null(json_object_get(r->a->object, r->row->key))) text = "null";
    for (int i = 0; r->row->words[i]; i++) {
        *(int *)member = i;
        if (strcmp(r->row->words[i], text) == 0) break;
        clq_text_add(&known, "%s%s", i ? ", " : "", r->row->words[i]);
        if (!r->row->words[i + 1])
            clq_keras_refuse(r->a, CLQ_ERROR_UNSUPPORTED, r->row->key, "'%.40s' is not supported; there are %s", text,
                             known.data ? known.data : "others");
    }
    clq_free(known.data);
}

json_t *clq_keras_write_choice(const clq_keras_writing *w, const void *member) {
    return json_string(w->row->words[*(const int *)member]);
}

/* A list with a pair [in front, behind] for each axis. The first pair is the batch's, and must be [0, 0]. */
void clq_keras_read_pads(const clq_keras_reading *r, void *member) {
    clq_pads *out = member;
    json_t *value = clq_keras_value(r), *first = json_array_get(value, 0);
    size_t none[2] = {0, 0};
    bool fits = json_is_array(value) && json_array_size(value) == (size_t)r->x->shape.rank + 1 &&
                clq_keras_is_count(json_array_get(first, 0), &none[0]) &&
                clq_keras_is_count(json_array_get(first, 1), &none[1]) && none[0] + none[1] == 0;
    out->rank = r->x->shape.rank;
    for (unsigned d = 0; d < out->rank && fits; d++) {
        json_t *axis = json_array_get(value, d + 1);
        fits = json_array_size(axis) == 2 && clq_keras_is_count(json_array_get(axis, 0), &out->sides[d][0]) &&
               clq_keras_is_count(json_array_get(axis, 1), &out->sides[d][1]);
    }
    if (!fits)
        clq_keras_unfit(r, value, "[0, 0] for the batch, and for each axis two whole numbers: in front and behind");
}

json_t *clq_keras_write_pads(const clq_keras_writing *w, const void *member) {
    const clq_pads *pads = member;
    json_t *list = clq_json_append(json_array(), json_pack("[i, i]", 0, 0));
    (void)w;
    for (unsigned d = 0; d < pads->rank; d++)
        list = clq_json_append(list, json_pack("[I, I]", (json_int_t)pads->sides[d][0], (json_int_t)pads->sides[d][1]));
    return list;
}

void clq_keras_read_range(const clq_keras_reading *r, void *member) {
    clq_draw_range *out = member;
    json_t *value = clq_keras_value(r), *low = json_array_get(value, 0), *high = json_array_get(value, 1);
    const clq_attribute *row = r->row;
    out->given = value || row->fallback != 0;
    if (!value) {
        out->high = row->fallback;
    } else if (json_is_number(value)) {
        out->high = fabs(json_number_value(value));
        out->low = row->least == row->most ? -out->high : fmax(-out->high, row->least);
    } else if (json_array_size(value) == 2 && json_is_number(low) && json_is_number(high)) {
        out->low = json_number_value(low);
        out->high = json_number_value(high);
    } else {
        clq_keras_unfit(r, value, "a number, or two: the lower one and the higher one");
    }
}

json_t *clq_keras_write_range(const clq_keras_writing *w, const void *member) {
    const clq_draw_range *range = member;
    (void)w;
    return range->given ? json_pack("[f, f]", range->low, range->high) : json_null();
}

void clq_keras_read_sections(const clq_keras_reading *r, void *member) {
    clq_sections *out = member;
    json_t *value = clq_keras_value(r);
    bool fits = json_is_array(value) ? json_array_size(value) >= 1 && json_array_size(value) <= CLQ_SECTIONS_MAX
                                     : clq_keras_is_size(value, &out->parts) && out->parts <= CLQ_SECTIONS_MAX;
    for (size_t i = 0; i < json_array_size(value) && fits; i++)
        fits = clq_keras_is_size(json_array_get(value, i), &out->places[out->count++]);
    if (!fits) clq_keras_unfit(r, value, "a number of parts, or the places in front of which they are cut, at most 32");
}

json_t *clq_keras_write_sections(const clq_keras_writing *w, const void *member) {
    const clq_sections *sections = member;
    json_t *list = json_array();
    (void)w;
    for (size_t i = 0; i < sections->count; i++)
        list = clq_json_append(list, json_integer((json_int_t)sections->places[i]));
    if (sections->parts == 0) return list;
    json_decref(list);
    return json_integer((json_int_t)sections->parts);
}

/* An axis of the first input and one of the second. A single number stands for both. */
void clq_keras_read_axis_pair(const clq_keras_reading *r, void *member) {
    int *out = member;
    json_t *value = clq_keras_value(r);
    bool fits = json_is_integer(value) || json_array_size(value) == 2;
    for (unsigned i = 0; i < 2 && fits; i++) {
        const json_t *axis = json_is_array(value) ? json_array_get(value, i) : value;
        const json_int_t given = json_integer_value(axis);
        fits = json_is_integer(axis) && given != 0 && given >= -CLQ_SHAPE_MAX && given <= CLQ_SHAPE_MAX;
        out[i] = (int)(given > 0 ? given - 1 : given);
    }
    if (!fits) clq_keras_unfit(r, value, "an axis behind the batch, or one of each input");
}

json_t *clq_keras_write_axis_pair(const clq_keras_writing *w, const void *member) {
    const int *axes = member;
    (void)w;
    return json_pack("[o, o]", clq_keras_write_axis(axes[0]), clq_keras_write_axis(axes[1]));
}
