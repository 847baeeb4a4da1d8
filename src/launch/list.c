/* Building and reading launch lists. */
#include "launch/list.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

clq_status clq_list_create(clq_device *device, uint32_t capacity, clq_list **out) {
    if (capacity == 0 || capacity > INT32_MAX)
        return clq_fail(CLQ_ERROR_INTERNAL, "a launch list for %u examples: 1 to %d are possible", capacity, INT32_MAX);
    clq_list *list = clq_alloc(1, sizeof *list);
    if (!list) return CLQ_ERROR_MEMORY;
    list->scope = "";
    list->device = device;
    list->capacity = capacity;
    list->family = clq_device_family(device);
    *out = list;
    return CLQ_OK;
}

void clq_list_destroy(clq_list *list) {
    if (!list) return;
    clq_list_unbind(list);
    for (size_t i = 0; i < list->launch_count; i++) clq_free(list->launches[i].context);
    for (size_t i = 0; i < list->text_count; i++) clq_free(list->texts[i]);
    clq_free(list->texts);
    clq_free(list->values);
    clq_free(list->launches);
    clq_free(list->choices);
    clq_free(list->arguments);
    clq_free(list->views);
    clq_free(list->runs);
    clq_free(list);
}

void clq_list_latch(clq_list *list, clq_status status) {
    if (list->error.status == CLQ_OK && status != CLQ_OK) clq_error_take(status, &list->error);
}

bool clq_list_grow(clq_list *list, void **array, size_t count, size_t *capacity, size_t size) {
    void *grown = clq_grow(*array, count, capacity, 16, size);
    if (grown)
        *array = grown;
    else
        clq_list_latch(list, CLQ_ERROR_MEMORY);
    return grown;
}

clq_status clq_list_status(const clq_list *list) { return clq_error_raise(&list->error); }
clq_device *clq_list_device(const clq_list *list) { return list->device; }
uint32_t clq_list_capacity(const clq_list *list) { return list->capacity; }
void clq_list_set_family(clq_list *list, clq_kernel_family family) { list->family = family; }
clq_kernel_family clq_list_family(const clq_list *list) { return list->family; }
size_t clq_list_vector(const clq_list *list) { return clq_device_vector(list->device); }
void clq_list_set_precision(clq_list *list, clq_matmul_precision precision) { list->precision = precision; }
clq_matmul_precision clq_list_precision(const clq_list *list) { return list->precision; }
void clq_list_set_fused(clq_list *list, bool fused) { list->fuses = fused; }

bool clq_list_is_fused(const clq_list *list) {
    for (size_t i = 0; i < list->launch_count; i++)
        if (!list->launches[i].run) return false;
    return list->launch_count > 0;
}

size_t clq_list_command_count(const clq_list *list) {
    size_t count = list->run_count;
    for (size_t i = 0; i < list->launch_count; i++) count += !list->launches[i].run;
    return count;
}

/* Whether the list can be added to. If it is bound, it cannot, and keeps that as its failure. */
static bool can_add(clq_list *list) {
    if (list->error.status != CLQ_OK) return false;
    if (list->bound)
        clq_list_latch(list, clq_fail(CLQ_ERROR_INTERNAL, "%s: a launch list that is bound cannot grow", list->scope));
    return !list->bound;
}

/* A copy, which the list owns; NULL after a failure. */
static const char *copy_text(clq_list *list, const char *text) {
    if (!CLQ_LIST_GROW(list, texts, text_count, text_capacity)) return NULL;
    char *copy = clq_strdup(text);
    if (copy)
        list->texts[list->text_count++] = copy;
    else
        clq_list_latch(list, CLQ_ERROR_MEMORY);
    return copy;
}

void clq_list_scope(clq_list *list, const char *scope) {
    const char *copy = can_add(list) ? copy_text(list, scope) : NULL;
    if (copy) list->scope = copy;
}

clq_value clq_list_value(clq_list *list, clq_value_kind kind, const char *name, size_t fixed_bytes,
                         size_t bytes_per_example) {
    if (!can_add(list)) return CLQ_NO_VALUE;
    size_t bytes;
    if (!clq_mul_size(bytes_per_example, list->capacity, &bytes) || !clq_add_size(bytes, fixed_bytes, &bytes) ||
        bytes == 0) {
        clq_list_latch(list, clq_fail(CLQ_ERROR_ARGUMENT,
                                      "%s: %s has %zu bytes + %u x %zu: more than none and less than 2^64 are possible",
                                      list->scope, name, fixed_bytes, list->capacity, bytes_per_example));
        return CLQ_NO_VALUE;
    }
    const char *copy = copy_text(list, name);
    if (!copy || !CLQ_LIST_GROW(list, values, value_count, value_capacity)) return CLQ_NO_VALUE;
    list->values[list->value_count++] =
        (clq_value_slot){.name = copy, .kind = kind, .storage = CLQ_F32, .bytes = bytes, .first_use = SIZE_MAX};
    return (clq_value)list->value_count;
}

clq_value clq_list_scratch(clq_list *list, const char *name, clq_dtype dtype, size_t fixed, size_t per_example) {
    const clq_value value = clq_list_value(list, CLQ_VALUE_SCRATCH, name, clq_values_bytes(dtype, fixed),
                                           clq_values_bytes(dtype, per_example));
    clq_list_set_storage(list, value, dtype);
    return value;
}

void clq_list_set_storage(clq_list *list, clq_value value, clq_dtype dtype) {
    if (value) list->values[value - 1].storage = dtype;
}

clq_dtype clq_list_storage(const clq_list *list, clq_value value) {
    return value ? list->values[value - 1].storage : CLQ_F32;
}

/* ---- launches ---- */

void clq_options_add_list(clq_kernel_options *options, const char *format, va_list arguments) {
    size_t room = sizeof options->text - options->length;
    int length = clq_format_list(options->text + options->length, room, format, arguments);
    assert(length >= 0 && (size_t)length < room);
    options->length += CLQ_MIN((size_t)length, room - 1);
}

void clq_options_storage(clq_kernel_options *options, const clq_list *list, const char *name, clq_value value) {
    const clq_dtype dtype = clq_list_storage(list, value);
    if (dtype == CLQ_F16 || dtype == CLQ_BF16)
        clq_options_add(options, " -D%s_STORAGE=%d", name, dtype == CLQ_F16 ? 1 : 2);
}

void clq_options_add(clq_kernel_options *options, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    clq_options_add_list(options, format, arguments);
    va_end(arguments);
}

static clq_launch *last_launch(clq_list *list) { return &list->launches[list->launch_count - 1]; }

/* A new launch at the end; NULL after a failure. */
static clq_launch *add_launch(clq_list *list, const char *label, const char *file, const char *options,
                              const char *function) {
    const char *copy = options ? copy_text(list, options) : NULL;
    if ((options && !copy) || !CLQ_LIST_GROW(list, launches, launch_count, launch_capacity)) return NULL;
    clq_launch *launch = &list->launches[list->launch_count++];
    *launch = (clq_launch){
        .scope = list->scope,
        .label = label,
        .file = file,
        .function = function,
        .options = copy,
        .batch_dim = -1,
    };
    return launch;
}

void clq_launch_begin(clq_list *list, const char *label, const char *file, const char *options, const char *function) {
    if (!can_add(list)) return;
    if (list->open || list->pending) {
        clq_list_latch(list, clq_fail(CLQ_ERROR_INTERNAL, "%s: %s is begun before the last launch was given its work",
                                      list->scope, label));
        return;
    }
    clq_launch *launch = add_launch(list, label, file, options, function);
    if (!launch) return;
    launch->first_argument = list->argument_count;
    list->open = true;
}

void clq_launch_source(clq_list *list, const char *file, const char *text) {
    if (!can_add(list)) return;
    const char *copy = copy_text(list, file);
    if (!copy) return;
    last_launch(list)->file = copy;
    last_launch(list)->text = text;
}

static void add_argument(clq_list *list, clq_argument argument) {
    if (!CLQ_LIST_GROW(list, arguments, argument_count, argument_capacity)) return;
    list->arguments[list->argument_count++] = argument;
    if (list->open)
        last_launch(list)->argument_count++;
    else
        list->pending++;
}

void clq_launch_value_at(clq_list *list, clq_value value, size_t offset, size_t bytes, clq_access access) {
    if (!can_add(list)) return;
    if (value > list->value_count) {
        clq_list_latch(list, clq_fail(CLQ_ERROR_INTERNAL, "%s: there is no value %u", list->scope, value));
        return;
    }
    if (value != CLQ_NO_VALUE) {
        clq_value_slot *slot = &list->values[value - 1];
        size_t align = clq_device_view_align(list->device);
        if (bytes == 0 || offset % align || offset > slot->bytes || bytes > slot->bytes - offset) {
            clq_list_latch(list, clq_fail(CLQ_ERROR_INTERNAL,
                                          "%s: bytes %zu + %zu are no part of %s with %zu, at multiples of %zu",
                                          list->scope, offset, bytes, slot->name, slot->bytes, align));
            return;
        }
        if ((access & CLQ_READS) && !slot->written && slot->kind != CLQ_VALUE_EXTERNAL) {
            clq_list_latch(list, clq_fail(CLQ_ERROR_INTERNAL, "%s: %s is read before any launch has written it",
                                          list->scope, slot->name));
            return;
        }
        if (access & CLQ_WRITES) slot->written = true;
        size_t index = list->launch_count - (list->open ? 1 : 0); /* a call's launch is the next one */
        slot->first_use = CLQ_MIN(slot->first_use, index);
        slot->last_use = CLQ_MAX(slot->last_use, index);
    }
    add_argument(
        list,
        (clq_argument){.kind = CLQ_ARGUMENT_VALUE, .value = value, .offset = offset, .bytes = bytes, .access = access});
}

void clq_launch_value(clq_list *list, clq_value value, clq_access access) {
    bool known = value != CLQ_NO_VALUE && value <= list->value_count;
    clq_launch_value_at(list, value, 0, known ? list->values[value - 1].bytes : 0, access);
}

void clq_launch_values(clq_list *list, clq_access access, const clq_value *values, size_t count) {
    for (size_t i = 0; i < count; i++) clq_launch_value(list, values[i], access);
}

void clq_launch_zeros(clq_list *list, size_t bytes) {
    clq_launch_value(list, CLQ_NO_VALUE, CLQ_READS);
    list->zero_bytes = CLQ_MAX(list->zero_bytes, bytes);
}

/* Numbers, parameters and local memory are for kernels, not for calls. */
static bool kernel_is_open(clq_list *list) {
    if (!can_add(list)) return false;
    if (!list->open)
        clq_list_latch(list, clq_fail(CLQ_ERROR_INTERNAL, "%s: an argument outside of a launch", list->scope));
    return list->open;
}

void clq_launch_int(clq_list *list, int value) {
    if (kernel_is_open(list)) add_argument(list, (clq_argument){.kind = CLQ_ARGUMENT_INT, .word.as_int = value});
}

void clq_launch_size(clq_list *list, size_t size) {
    assert(size <= INT_MAX);
    clq_launch_int(list, (int)size);
}

void clq_launch_sizes(clq_list *list, const size_t *sizes, size_t count) {
    for (size_t i = 0; i < count; i++) clq_launch_size(list, sizes[i]);
}

void clq_launch_float(clq_list *list, float value) {
    if (kernel_is_open(list)) add_argument(list, (clq_argument){.kind = CLQ_ARGUMENT_FLOAT, .word.as_float = value});
}

void clq_launch_param(clq_list *list, clq_param param) {
    if (!kernel_is_open(list)) return;
    add_argument(list, (clq_argument){.kind = CLQ_ARGUMENT_PARAM, .param = param});
    last_launch(list)->has_params = true;
}

void clq_launch_local(clq_list *list, size_t bytes) {
    if (kernel_is_open(list)) add_argument(list, (clq_argument){.kind = CLQ_ARGUMENT_LOCAL, .bytes = bytes});
}

size_t clq_launch_batch_size(const clq_launch *launch, size_t count) {
    size_t groups = clq_ceil_div(count * launch->rows_per_example, launch->rows_per_group);
    return groups * (launch->has_local ? launch->local[launch->batch_dim] : 1);
}

void clq_launch_work(clq_list *list, uint32_t dims, const size_t *global, const size_t *local, int batch_dim,
                     size_t rows_per_example, size_t rows_per_group) {
    if (!kernel_is_open(list)) return;
    clq_launch *launch = last_launch(list);
    size_t rows;
    bool right = dims >= 1 && dims <= 3 && batch_dim < (int)dims &&
                 (batch_dim < 0 || (rows_per_group > 0 && clq_mul_size(rows_per_example, list->capacity, &rows)));
    for (uint32_t d = 0; right && d < dims; d++)
        right = (int)d == batch_dim || (global[d] > 0 && (!local || (local[d] > 0 && global[d] % local[d] == 0)));
    if (!right) {
        clq_list_latch(
            list, clq_fail(CLQ_ERROR_ARGUMENT, "%s: %s has an impossible work size", launch->scope, launch->label));
        return;
    }
    launch->dims = dims;
    launch->has_local = local != NULL;
    launch->batch_dim = batch_dim;
    launch->rows_per_example = rows_per_example;
    launch->rows_per_group = rows_per_group;
    for (uint32_t d = 0; d < dims; d++) {
        if (local) launch->local[d] = local[d];
        launch->global[d] = (int)d == batch_dim ? clq_launch_batch_size(launch, list->capacity) : global[d];
    }
    list->open = false;
}

void clq_launch_cost(clq_list *list, double flops, double flops_per_example, double bytes, double bytes_per_example) {
    if (!can_add(list)) return;
    if (list->launch_count == 0) {
        clq_list_latch(list, clq_fail(CLQ_ERROR_INTERNAL, "%s: a cost without a launch", list->scope));
        return;
    }
    clq_launch *launch = last_launch(list);
    launch->flops = flops + flops_per_example * list->capacity;
    launch->bytes = bytes + bytes_per_example * list->capacity;
}

void clq_launch_call(clq_list *list, const char *label, const char *function, clq_call run, void *context) {
    if (can_add(list) && list->open)
        clq_list_latch(list, clq_fail(CLQ_ERROR_INTERNAL, "%s: %s is called inside of a launch", list->scope, label));
    clq_launch *launch = can_add(list) ? add_launch(list, label, NULL, NULL, function) : NULL;
    if (!launch) {
        clq_free(context);
        return;
    }
    launch->first_argument = list->argument_count - list->pending;
    launch->argument_count = list->pending;
    list->pending = 0;
    launch->call = run;
    launch->context = context;
}

/* ---- reading ---- */

size_t clq_list_launch_count(const clq_list *list) { return list->launch_count; }

void clq_list_launch_info(const clq_list *list, size_t index, clq_launch_info *out) {
    const clq_launch *launch = &list->launches[index];
    *out = (clq_launch_info){
        .scope = launch->scope,
        .label = launch->label,
        .file = launch->file,
        .function = launch->function,
        .options = launch->options,
        .dims = launch->dims,
        .flops = launch->flops,
        .bytes = launch->bytes,
    };
    memcpy(out->global, launch->global, sizeof out->global);
    memcpy(out->local, launch->local, sizeof out->local);
}

size_t clq_list_value_count(const clq_list *list) { return list->value_count; }

void clq_list_value_info(const clq_list *list, clq_value value, clq_value_info *out) {
    const clq_value_slot *slot = &list->values[value - 1];
    *out = (clq_value_info){
        .name = slot->name,
        .kind = slot->kind,
        .bytes = slot->bytes,
        .first_use = slot->first_use,
        .last_use = slot->last_use,
    };
}
