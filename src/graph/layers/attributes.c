/* A layer's attributes, by the rows of its kind: the checks of what a builder is given, and the key of a model. */
#include "graph/layers/layer.h"

#include <math.h>
#include <string.h>

/* ---- types ---- */

/* What can be done with a config member of a type. NULL: there is nothing to do. */
typedef struct attribute_type {
    clq_status (*check)(const clq_attribute *row, void *member); /* also gives an unset member its default */
    void (*add_key)(const clq_attribute *row, const void *member, clq_text *to);
    clq_status (*own)(void *member); /* replaces what the member points to by a copy; on failure, by NULL */
    void (*release)(void *member);
} attribute_type;

static clq_status check_sizes(const clq_attribute *row, void *member) {
    size_t *sizes = member;
    const unsigned count = CLQ_MAX(row->count, 1u);
    for (unsigned i = 0; i < count; i++) {
        if (sizes[i] == 0) sizes[i] = (size_t)row->fallback;
        if (sizes[i] == 0 && row->needed)
            return clq_fail(CLQ_ERROR_ARGUMENT, "%s%s must be at least 1", count > 1 ? "both sides of " : "", row->key);
    }
    return CLQ_OK;
}
static void add_sizes(const clq_attribute *row, const void *member, clq_text *to) {
    const size_t *sizes = member;
    clq_text_add(to, " %s", row->key);
    for (unsigned i = 0; i < CLQ_MAX(row->count, 1u); i++) clq_text_add(to, " %zu", sizes[i]);
}

static void add_flag(const clq_attribute *row, const void *member, clq_text *to) {
    clq_text_add(to, " %s %d", row->key, *(const bool *)member);
}

static clq_status check_number(const clq_attribute *row, void *member) {
    const double number = *(const double *)member;
    const bool open = row->least == row->most; /* any finite number */
    if (open ? isfinite(number) : number >= row->least && (row->below ? number < row->most : number <= row->most))
        return CLQ_OK;
    if (open) return clq_fail(CLQ_ERROR_ARGUMENT, "%s %g should be finite", row->key, number);
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    row->below ? "%s %g should be at least %g and below %g" : "%s %g should be from %g to %g", row->key,
                    number, row->least, row->most);
}
static void add_number(const clq_attribute *row, const void *member, clq_text *to) {
    clq_text_add(to, " %s %.17g", row->key, *(const double *)member);
}

static clq_status check_numbers(const clq_attribute *row, void *member) {
    const clq_numbers *numbers = member;
    for (size_t i = 0; i < numbers->count; i++)
        if (!isfinite(numbers->values[i]))
            return clq_fail(CLQ_ERROR_ARGUMENT, "%s[%zu] %g should be finite", row->key, i, (double)numbers->values[i]);
    return CLQ_OK;
}
static void add_numbers(const clq_attribute *row, const void *member, clq_text *to) {
    clq_text_add(to, " %s of %zu", row->key, ((const clq_numbers *)member)->count);
}
static clq_status own_numbers(void *member) {
    clq_numbers *numbers = member;
    const float *values = numbers->values;
    numbers->values = NULL;
    if (numbers->count == 0) return CLQ_OK;
    float *copy = clq_alloc(numbers->count, sizeof *copy);
    if (!copy) return CLQ_ERROR_MEMORY;
    memcpy(copy, values, numbers->count * sizeof *copy);
    numbers->values = copy;
    return CLQ_OK;
}
static void release_numbers(void *member) { clq_free((void *)(uintptr_t)((clq_numbers *)member)->values); }

static clq_status check_activation(const clq_attribute *row, void *member) {
    (void)row;
    return clq_layer_check_activation(*(const clq_activation *)member);
}
static void add_choice(const clq_attribute *row, const void *member, clq_text *to) {
    clq_text_add(to, " %s %d", row->key, *(const int *)member);
}
_Static_assert(sizeof(clq_activation) == sizeof(int) && sizeof(clq_padding) == sizeof(int), "enumerators are ints");

static clq_status check_padding(const clq_attribute *row, void *member) {
    const clq_padding padding = *(const clq_padding *)member;
    if (padding == CLQ_PADDING_VALID || padding == CLQ_PADDING_SAME || (padding == CLQ_PADDING_CAUSAL && row->causal))
        return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "padding %d is none of clq_padding that the layer has", (int)padding);
}

static clq_status check_axes(const clq_attribute *row, void *member) {
    const unsigned count = ((const clq_axes *)member)->count;
    if (count <= CLQ_SHAPE_MAX) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%s has %u axes; at most %d are supported", row->key, count, CLQ_SHAPE_MAX);
}
static void add_axes(const clq_attribute *row, const void *member, clq_text *to) {
    const clq_axes *axes = member;
    clq_text_add(to, " %s", row->key);
    for (unsigned i = 0; i < axes->count; i++) clq_text_add(to, " %d", axes->axes[i]);
}

static clq_status check_operand(const clq_attribute *row, void *member) {
    const clq_operand *operand = member;
    CLQ_TRY(check_numbers(row, (void *)(uintptr_t)&operand->array));
    const unsigned most = row->type == CLQ_ATTRIBUTE_ARGUMENT ? row->count : 2;
    if (operand->place <= most && isfinite(operand->number)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%s %g, of place %u, should be finite, and of place 1 to %u", row->key,
                    operand->number, operand->place, most);
}

static void add_operand(const clq_attribute *row, const void *member, clq_text *to) {
    const clq_operand *operand = member;
    clq_text_add(to, " %s %u %.17g of %zu", row->key, operand->place, operand->number, operand->array.count);
}
static clq_status own_operand(void *member) { return own_numbers(&((clq_operand *)member)->array); }
static void release_operand(void *member) { release_numbers(&((clq_operand *)member)->array); }

static void add_word(const clq_attribute *row, const void *member, clq_text *to) {
    clq_text_add(to, " %s %s", row->key, ((const clq_short_text *)member)->text);
}

static void add_copy(const clq_attribute *row, const void *member, clq_text *to) {
    const char *given = *(const char *const *)member, *text = given ? given : "";
    const clq_hash128 hash = clq_hash128_of(text, strlen(text), 0);
    clq_text_add(to, " %s %016llx%016llx", row->key, (unsigned long long)hash.high, (unsigned long long)hash.low);
}
static clq_status own_copy(void *member) {
    const char **text = member;
    if (!*text) return CLQ_OK;
    *text = clq_strdup(*text);
    return *text ? CLQ_OK : CLQ_ERROR_MEMORY;
}
static void release_copy(void *member) { clq_free((void *)(uintptr_t) * (const char **)member); }

static clq_status check_choice(const clq_attribute *row, void *member) {
    const int choice = *(const int *)member;
    int count = 0;
    while (row->words[count]) count++;
    if (choice >= 0 && choice < count) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%s %d is none of the %d that there are", row->key, choice, count);
}

static clq_status check_range(const clq_attribute *row, void *member) {
    const clq_draw_range *range = member;
    if (!(isfinite(range->low) && isfinite(range->high) && range->low <= range->high))
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s should be two finite numbers, the lower one first, not %g and %g",
                        row->key, range->low, range->high);
    if (row->least == row->most || (range->low <= row->most && range->high >= row->least)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%s should be two numbers from %g to %g, not %g and %g", row->key, row->least,
                    row->most, range->low, range->high);
}
static void add_range(const clq_attribute *row, const void *member, clq_text *to) {
    const clq_draw_range *range = member;
    clq_text_add(to, " %s %.17g:%.17g", row->key, range->low, range->high);
}

static void add_pads(const clq_attribute *row, const void *member, clq_text *to) {
    const clq_pads *pads = member;
    clq_text_add(to, " %s", row->key);
    for (unsigned d = 0; d < pads->rank; d++) clq_text_add(to, " %zu:%zu", pads->sides[d][0], pads->sides[d][1]);
}

static void add_sections(const clq_attribute *row, const void *member, clq_text *to) {
    const clq_sections *sections = member;
    clq_text_add(to, " %s %zu", row->key, sections->parts);
    for (size_t i = 0; i < sections->count; i++) clq_text_add(to, ":%zu", sections->places[i]);
}

static void add_pair(const clq_attribute *row, const void *member, clq_text *to) {
    clq_text_add(to, " %s %d %d", row->key, ((const int *)member)[0], ((const int *)member)[1]);
}

static void add_place(const clq_attribute *row, const void *member, clq_text *to) {
    clq_text_add(to, " %s %zu", row->key, *(const size_t *)member);
}

static void add_shape(const clq_attribute *row, const void *member, clq_text *to) {
    const clq_shape *shape = member;
    clq_text_add(to, " %s", row->key);
    for (unsigned d = 0; d < shape->rank; d++) clq_text_add(to, " %zu", shape->dims[d]);
}

static void add_places(const clq_attribute *row, const void *member, clq_text *to) {
    const clq_places *places = member;
    clq_text_add(to, " %s %u", row->key, places->rest);
    for (unsigned i = 0; i < places->count; i++) {
        const struct clq_index *p = &places->axes[i];
        clq_text_add(to, " %d:%d:%ld:%d:%ld:%ld", (int)p->kind, p->from_begin, p->first, p->to_end, p->end, p->step);
    }
}

static clq_status check_initialiser(const clq_attribute *row, void *member) {
    const clq_status status = clq_initialiser_check(member);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "%s", row->key);
}

/* Shapes and sides add nothing to a key, because the key has the tensors' shapes. Seeds and initial values add nothing,
 * because they do not change how long a layer takes. */
static const attribute_type types[CLQ_ATTRIBUTE_TYPES] = {
    [CLQ_ATTRIBUTE_SIZES] = {.check = check_sizes, .add_key = add_sizes},
    [CLQ_ATTRIBUTE_FLAG] = {.add_key = add_flag},
    [CLQ_ATTRIBUTE_KEYWORD_FLAG] = {.add_key = add_flag},
    [CLQ_ATTRIBUTE_KEYWORD_NUMBER] = {.add_key = add_number},
    [CLQ_ATTRIBUTE_OPPOSITE] = {.add_key = add_flag},
    [CLQ_ATTRIBUTE_NUMBER] = {.check = check_number, .add_key = add_number},
    [CLQ_ATTRIBUTE_NUMBERS] = {.check = check_numbers,
                               .add_key = add_numbers,
                               .own = own_numbers,
                               .release = release_numbers},
    [CLQ_ATTRIBUTE_ACTIVATION] = {.check = check_activation, .add_key = add_choice},
    [CLQ_ATTRIBUTE_PADDING] = {.check = check_padding, .add_key = add_choice},
    [CLQ_ATTRIBUTE_AXIS] = {.add_key = add_choice},
    [CLQ_ATTRIBUTE_NEW_AXIS] = {.add_key = add_choice},
    [CLQ_ATTRIBUTE_SHARED] = {.add_key = add_choice},
    [CLQ_ATTRIBUTE_AXES] = {.check = check_axes, .add_key = add_axes},
    [CLQ_ATTRIBUTE_ORDER] = {.add_key = add_shape},
    [CLQ_ATTRIBUTE_OPEN_SHAPE] = {.add_key = add_shape},
    [CLQ_ATTRIBUTE_PLACES] = {.add_key = add_places},
    [CLQ_ATTRIBUTE_OPERAND] = {.check = check_operand,
                               .add_key = add_operand,
                               .own = own_operand,
                               .release = release_operand},
    [CLQ_ATTRIBUTE_ARGUMENT] = {.check = check_operand,
                                .add_key = add_operand,
                                .own = own_operand,
                                .release = release_operand},
    [CLQ_ATTRIBUTE_TENSOR] = {.add_key = add_place},
    [CLQ_ATTRIBUTE_TEXT] = {.add_key = add_word},
    [CLQ_ATTRIBUTE_COPY] = {.add_key = add_copy, .own = own_copy, .release = release_copy},
    [CLQ_ATTRIBUTE_CHOICE] = {.check = check_choice, .add_key = add_choice},
    [CLQ_ATTRIBUTE_RANGE] = {.check = check_range, .add_key = add_range},
    [CLQ_ATTRIBUTE_PADS] = {.add_key = add_pads},
    [CLQ_ATTRIBUTE_SECTIONS] = {.add_key = add_sections},
    [CLQ_ATTRIBUTE_AXIS_PAIR] = {.add_key = add_pair},
    [CLQ_ATTRIBUTE_INITIALISER] = {.check = check_initialiser},
};

/* ---- all of a layer ---- */

clq_status clq_layer_check(const clq_layer_kind *kind, void *config) {
    for (size_t i = 0; i < kind->attribute_count; i++) {
        const clq_attribute *row = &kind->attributes[i];
        if (types[row->type].check) CLQ_TRY(types[row->type].check(row, (char *)config + row->at));
    }
    return CLQ_OK;
}

clq_status clq_layer_own(const clq_layer_kind *kind, void *config) {
    clq_status status = CLQ_OK;
    for (size_t i = 0; i < kind->attribute_count; i++) {
        const clq_attribute *row = &kind->attributes[i];
        const clq_status owned = types[row->type].own ? types[row->type].own((char *)config + row->at) : CLQ_OK;
        if (status == CLQ_OK) status = owned;
    }
    return status;
}

void clq_layer_release_config(const clq_layer_kind *kind, void *config) {
    if (config && kind->release) kind->release(config);
    for (size_t i = 0; config && i < kind->attribute_count; i++) {
        const clq_attribute *row = &kind->attributes[i];
        if (types[row->type].release) types[row->type].release((char *)config + row->at);
    }
}

void clq_layer_add_key(const clq_layer *layer, clq_text *to) {
    for (size_t i = 0; i < layer->kind->attribute_count; i++) {
        const clq_attribute *row = &layer->kind->attributes[i];
        if (types[row->type].add_key) types[row->type].add_key(row, (const char *)layer->config + row->at, to);
    }
}

bool clq_layer_knows(clq_model *model, const char *type, const char *name, const void *reserved, size_t bytes) {
    const clq_status status = clq_reserve_check(type, reserved, bytes);
    if (status != CLQ_OK) (void)clq_model_fail(model, status, name);
    return status == CLQ_OK;
}
