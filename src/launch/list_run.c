/* Placing, binding and running launch lists. */
#include "launch/list.h"
#include "launch/fused.h"

#include <string.h>

enum { PLACEHOLDER_BYTES = 64 };

void clq_list_place(clq_list *list, clq_value value, clq_buffer *buffer, size_t offset) {
    if (value == CLQ_NO_VALUE || value > list->value_count) return; /* adding the value has latched the reason */
    clq_value_slot *slot = &list->values[value - 1];
    size_t bytes = clq_buffer_bytes(buffer), align = clq_device_view_align(list->device);
    if (list->bound) {
        clq_list_latch(list, clq_fail(CLQ_ERROR_INTERNAL, "%s is placed in a launch list that is bound", slot->name));
    } else if (offset % align || offset > bytes || slot->bytes > bytes - offset) {
        clq_list_latch(list, clq_fail(CLQ_ERROR_INTERNAL,
                                      "%s with %zu bytes has no place at %zu of a buffer of %zu (multiples of %zu)",
                                      slot->name, slot->bytes, offset, bytes, align));
    } else {
        slot->buffer = buffer;
        slot->offset = offset;
    }
}

/* ---- binding ---- */

void clq_list_unbind(clq_list *list) {
    for (size_t i = 0; i < list->launch_count; i++) {
        clq_kernel_destroy(list->launches[i].kernel);
        clq_free(list->launches[i].buffers);
        list->launches[i].kernel = NULL;
        list->launches[i].buffers = NULL;
        list->launches[i].run = NULL;
    }
    for (size_t i = 0; i < list->run_count; i++) clq_fused_destroy(list->runs[i]);
    list->run_count = 0;
    for (size_t i = 0; i < list->view_count; i++) clq_buffer_destroy(list->views[i].view);
    list->view_count = 0;
    clq_buffer_destroy(list->placeholder);
    list->placeholder = NULL;
    list->bound = false;
}

clq_status clq_list_placeholder(clq_list *list, clq_buffer **out) {
    size_t bytes = CLQ_MAX(list->zero_bytes, (size_t)PLACEHOLDER_BYTES);
    if (!list->placeholder)
        CLQ_TRY(clq_buffer_create(list->device, CLQ_MEMORY_DEVICE, bytes, "placeholder", &list->placeholder));
    *out = list->placeholder;
    return CLQ_OK;
}

/* The buffer of an argument: the placed buffer if the argument is all of it. Otherwise a view, made once per range. */
static clq_status argument_buffer(clq_list *list, const clq_argument *argument, clq_buffer **out) {
    if (argument->value == CLQ_NO_VALUE) return clq_list_placeholder(list, out);
    const clq_value_slot *slot = &list->values[argument->value - 1];
    if (!slot->buffer) return clq_fail(CLQ_ERROR_INTERNAL, "%s has no place", slot->name);
    size_t offset = slot->offset + argument->offset, bytes = argument->bytes;
    if (offset == 0 && bytes == clq_buffer_bytes(slot->buffer)) {
        *out = slot->buffer;
        return CLQ_OK;
    }
    for (size_t i = 0; i < list->view_count; i++) {
        const clq_list_view *view = &list->views[i];
        if (view->parent != slot->buffer || view->offset != offset || view->bytes != bytes) continue;
        *out = view->view;
        return CLQ_OK;
    }
    if (!CLQ_LIST_GROW(list, views, view_count, view_capacity)) return clq_list_status(list);
    clq_list_view *view = &list->views[list->view_count];
    CLQ_TRY(clq_buffer_view(slot->buffer, offset, bytes, &view->view));
    view->parent = slot->buffer;
    view->offset = offset;
    view->bytes = bytes;
    list->view_count++;
    *out = view->view;
    return CLQ_OK;
}

static clq_status bind_call(clq_list *list, clq_launch *launch) {
    launch->buffers = clq_alloc(launch->argument_count, sizeof *launch->buffers);
    if (!launch->buffers) return CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < launch->argument_count; i++)
        CLQ_TRY(argument_buffer(list, &list->arguments[launch->first_argument + i], &launch->buffers[i]));
    return CLQ_OK;
}

static clq_status check_group(const clq_launch *launch) {
    size_t items = 1, most;
    for (uint32_t d = 0; d < launch->dims && launch->has_local; d++) items *= launch->local[d];
    if (items == 1) return CLQ_OK;
    CLQ_TRY(clq_kernel_max_group(launch->kernel, &most));
    if (items <= most) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s takes work-groups of %zu items at most here, not of %zu",
                    launch->function, most, items);
}

static clq_status bind_kernel(clq_list *list, clq_launch *launch, const clq_program_wish *program) {
    CLQ_TRY(clq_kernel_create_among(list->device, program, launch->function, &launch->kernel));
    CLQ_TRY(check_group(launch));
    for (size_t i = 0; i < launch->argument_count; i++) {
        clq_argument *argument = &list->arguments[launch->first_argument + i];
        uint32_t index = (uint32_t)i;
        clq_buffer *buffer;
        switch (argument->kind) {
        case CLQ_ARGUMENT_VALUE:
            CLQ_TRY(argument_buffer(list, argument, &buffer));
            CLQ_TRY(clq_kernel_set_buffer(launch->kernel, index, buffer));
            break;
        case CLQ_ARGUMENT_PARAM:
            argument->word = clq_param_word(&list->params, argument->param);
            CLQ_TRY(clq_kernel_set_bytes(launch->kernel, index, &argument->word, sizeof argument->word));
            break;
        case CLQ_ARGUMENT_INT:
        case CLQ_ARGUMENT_FLOAT:
            CLQ_TRY(clq_kernel_set_bytes(launch->kernel, index, &argument->word, sizeof argument->word));
            break;
        case CLQ_ARGUMENT_LOCAL: CLQ_TRY(clq_kernel_set_local(launch->kernel, index, argument->bytes)); break;
        }
    }
    return CLQ_OK;
}

/* Whether the launch has a kernel of its own: it is neither a call nor fused. */
static bool has_kernel(const clq_launch *launch) { return launch->file && !launch->run; }

/* The programs of the launches that have kernels of their own. Launches with the same source and options share a
 * program, which has the kernels of these launches. */
typedef struct programs {
    clq_program_wish *wishes;
    size_t count;
    clq_text *kernels; /* of each program: the names of its kernels, with blanks between */
    size_t *of;        /* of each launch: the index of its program */
} programs;

static void programs_free(programs *p) {
    for (size_t i = 0; i < p->count; i++) clq_free(p->kernels[i].data);
    clq_free(p->wishes);
    clq_free(p->kernels);
    clq_free(p->of);
}

static bool launches_before(const clq_list *list, const programs *p, size_t launch) {
    for (size_t i = 0; i < launch; i++)
        if (has_kernel(&list->launches[i]) && p->of[i] == p->of[launch] &&
            strcmp(list->launches[i].function, list->launches[launch].function) == 0)
            return true;
    return false;
}

static clq_status programs_of(const clq_list *list, programs *out) {
    programs p = {.wishes = clq_alloc(list->launch_count, sizeof *p.wishes),
                  .kernels = clq_alloc(list->launch_count, sizeof *p.kernels),
                  .of = clq_alloc(list->launch_count, sizeof *p.of)};
    bool whole = p.wishes && p.kernels && p.of;
    for (size_t i = 0; i < list->launch_count && whole; i++) {
        const clq_launch *launch = &list->launches[i];
        if (!has_kernel(launch)) continue;
        size_t k = 0;
        while (k < p.count && (strcmp(p.wishes[k].file, launch->file) || p.wishes[k].text != launch->text ||
                               strcmp(p.wishes[k].options, launch->options)))
            k++;
        if (k == p.count)
            p.wishes[p.count++] =
                (clq_program_wish){.file = launch->file, .options = launch->options, .text = launch->text};
        p.of[i] = k;
        if (launches_before(list, &p, i)) continue;
        clq_text_add(&p.kernels[k], p.kernels[k].length ? " %s" : "%s", launch->function);
        whole = !p.kernels[k].failed;
    }
    if (!whole) {
        programs_free(&p);
        return CLQ_ERROR_MEMORY;
    }
    /* A caller's own source is compiled with all its kernels: it was not written for some to be left out. */
    for (size_t k = 0; k < p.count; k++) p.wishes[k].kernels = p.wishes[k].text ? "" : p.kernels[k].data;
    *out = p;
    return CLQ_OK;
}

/* A failure names the launch whose program could not be made. */
static clq_status load_programs(const clq_list *list, const programs *p) {
    size_t failed;
    clq_status status = clq_device_load_programs(list->device, p->wishes, p->count, &failed);
    for (size_t i = 0; i < list->launch_count && status != CLQ_OK; i++)
        if (has_kernel(&list->launches[i]) && p->of[i] == failed)
            return clq_fail_within(status, "%s, %s", list->launches[i].scope, list->launches[i].label);
    return status;
}

static clq_status bind_launches(clq_list *list, const programs *p) {
    for (size_t i = 0; i < list->launch_count; i++) {
        clq_launch *launch = &list->launches[i];
        if (launch->run) continue;
        clq_status status = launch->file ? bind_kernel(list, launch, &p->wishes[p->of[i]]) : bind_call(list, launch);
        if (status != CLQ_OK) return clq_fail_within(status, "%s, %s", launch->scope, launch->label);
    }
    return CLQ_OK;
}

static clq_status bind_others(clq_list *list) {
    programs p;
    CLQ_TRY(programs_of(list, &p));
    clq_status status = load_programs(list, &p);
    if (status == CLQ_OK) status = bind_launches(list, &p);
    programs_free(&p);
    return status;
}

/* Fuses runs of at least two launches. A launch alone keeps a kernel of its own. */
static clq_status fuse_runs(clq_list *list) {
    for (size_t first = 0, end; first < list->launch_count; first = CLQ_MAX(end, first + 1)) {
        end = clq_fused_end(list, first);
        if (end < first + 2) continue;
        if (!CLQ_LIST_GROW(list, runs, run_count, run_capacity)) return clq_list_status(list);
        clq_fused **run = &list->runs[list->run_count];
        CLQ_TRY(clq_fused_create(list, first, end, run));
        if (!*run) continue;
        list->run_count++;
        for (size_t i = first; i < end; i++) list->launches[i].run = *run;
    }
    return CLQ_OK;
}

clq_status clq_list_bind(clq_list *list) {
    CLQ_TRY(clq_list_status(list));
    if (list->bound) return CLQ_OK;
    if (list->open || list->pending)
        return clq_fail(CLQ_ERROR_INTERNAL, "%s: the last launch was not given its work", list->scope);
    clq_status status = list->fuses ? fuse_runs(list) : CLQ_OK;
    if (status == CLQ_OK) status = bind_others(list);
    if (status != CLQ_OK)
        clq_list_unbind(list);
    else
        list->bound = true;
    return status;
}

static clq_status replace_in(clq_list *list, clq_launch *launch, clq_value value, clq_buffer *buffer) {
    for (size_t i = 0; i < launch->argument_count; i++) {
        const clq_argument *argument = &list->arguments[launch->first_argument + i];
        if (argument->kind != CLQ_ARGUMENT_VALUE || argument->value != value) continue;
        if (launch->call)
            launch->buffers[i] = buffer;
        else
            CLQ_TRY(clq_kernel_set_buffer(launch->kernel, (uint32_t)i, buffer));
    }
    return CLQ_OK;
}

clq_status clq_list_replace(clq_list *list, clq_value value, clq_buffer *buffer) {
    if (value == CLQ_NO_VALUE || value > list->value_count || !list->bound)
        return clq_fail(CLQ_ERROR_INTERNAL,
                        "a value's buffer is replaced in a launch list that has no such value, or is unbound");
    clq_value_slot *slot = &list->values[value - 1];
    if (slot->buffer == buffer) return CLQ_OK;
    if (slot->bytes != clq_buffer_bytes(slot->buffer) || slot->bytes != clq_buffer_bytes(buffer))
        return clq_fail(CLQ_ERROR_INTERNAL,
                        "%s with %zu bytes is not the whole of the buffers, of %zu and %zu, that it changes",
                        slot->name, slot->bytes, clq_buffer_bytes(slot->buffer), clq_buffer_bytes(buffer));
    for (size_t i = 0; i < list->run_count; i++) CLQ_TRY(clq_fused_replace(list->runs[i], slot->buffer, buffer));
    for (size_t i = slot->first_use; i <= slot->last_use && i < list->launch_count; i++)
        if (!list->launches[i].run) CLQ_TRY(replace_in(list, &list->launches[i], value, buffer));
    slot->buffer = buffer;
    return CLQ_OK;
}

/* Sets those arguments of a launch anew that lie in either buffer. */
static clq_status rebind(clq_list *list, clq_launch *launch, const clq_buffer *a, const clq_buffer *b) {
    for (size_t i = 0; i < launch->argument_count; i++) {
        const clq_argument *argument = &list->arguments[launch->first_argument + i];
        if (argument->kind != CLQ_ARGUMENT_VALUE || argument->value == CLQ_NO_VALUE) continue;
        const clq_buffer *placed = list->values[argument->value - 1].buffer;
        if (placed != a && placed != b) continue;
        clq_buffer *buffer;
        CLQ_TRY(argument_buffer(list, argument, &buffer));
        if (launch->call)
            launch->buffers[i] = buffer;
        else
            CLQ_TRY(clq_kernel_set_buffer(launch->kernel, (uint32_t)i, buffer));
    }
    return CLQ_OK;
}

clq_status clq_list_swap(clq_list *list, clq_buffer *a, clq_buffer *b) {
    if (!list->bound) return clq_fail(CLQ_ERROR_INTERNAL, "buffers are exchanged in a launch list that is not bound");
    if (clq_buffer_bytes(a) != clq_buffer_bytes(b))
        return clq_fail(CLQ_ERROR_INTERNAL, "buffers of %zu and %zu bytes change places", clq_buffer_bytes(a),
                        clq_buffer_bytes(b));
    for (size_t i = 0; i < list->value_count; i++) {
        clq_value_slot *slot = &list->values[i];
        if (slot->buffer == a || slot->buffer == b) slot->buffer = slot->buffer == a ? b : a;
    }
    for (size_t i = 0; i < list->run_count; i++) CLQ_TRY(clq_fused_swap(list->runs[i], a, b));
    for (size_t i = 0; i < list->launch_count; i++)
        if (!list->launches[i].run) CLQ_TRY(rebind(list, &list->launches[i], a, b));
    return CLQ_OK;
}

/* ---- running ---- */

void clq_list_set_params(clq_list *list, const clq_step_params *params) { list->params = *params; }

/* Hands a kernel the parameters that changed since it last ran. */
static clq_status set_params(clq_list *list, clq_launch *launch) {
    for (size_t i = 0; i < launch->argument_count; i++) {
        clq_argument *argument = &list->arguments[launch->first_argument + i];
        if (argument->kind != CLQ_ARGUMENT_PARAM) continue;
        clq_word now = clq_param_word(&list->params, argument->param);
        if (argument->word.bits == now.bits) continue;
        CLQ_TRY(clq_kernel_set_bytes(launch->kernel, (uint32_t)i, &now, sizeof now));
        argument->word = now;
    }
    return CLQ_OK;
}

static clq_status run_launch(clq_list *list, clq_launch *launch, clq_queue *queue, uint32_t count,
                             const clq_order *order) {
    if (launch->call) {
        clq_queue_name(queue, launch->scope, launch->label);
        return launch->call(launch->context, queue, count, launch->buffers);
    }
    size_t global[3];
    memcpy(global, launch->global, sizeof global);
    if (launch->batch_dim >= 0) {
        global[launch->batch_dim] = clq_launch_batch_size(launch, count);
        if (global[launch->batch_dim] == 0) return CLQ_OK;
    }
    if (launch->has_params) CLQ_TRY(set_params(list, launch));
    clq_queue_name(queue, launch->scope, launch->label);
    return clq_queue_launch_after(queue, launch->kernel, launch->dims, global, launch->has_local ? launch->local : NULL,
                                  order);
}

/* Runs launches [first, end): a single launch, or launches of one fused run. */
static clq_status run_command(clq_list *list, clq_queue *queue, size_t first, size_t end, const clq_order *order) {
    clq_launch *launch = &list->launches[first];
    if (launch->run) return clq_fused_run(launch->run, queue, first, end, order);
    clq_status status = run_launch(list, launch, queue, list->params.count, order);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "%s, %s", launch->scope, launch->label);
}

/* Whether the launch is exactly one command. Without work it is no command, and a library's call may be any number. */
static bool is_one_command(const clq_launch *launch, uint32_t count) {
    if (launch->run) return true;
    return !launch->call && (launch->batch_dim < 0 || clq_launch_batch_size(launch, count) > 0);
}

/* Runs launches [first, end) with an order. If they are not exactly one command, the queue waits for the order's events
 * first, and a marker behind them is the order's `done` event. */
static clq_status run_in_order(clq_list *list, clq_queue *queue, size_t first, size_t end, const clq_order *order) {
    if (is_one_command(&list->launches[first], list->params.count)) return run_command(list, queue, first, end, order);
    for (unsigned i = 0; i < CLQ_AFTER_MAX; i++)
        if (order->after[i]) CLQ_TRY(clq_queue_wait(queue, order->after[i]));
    CLQ_TRY(run_command(list, queue, first, end, NULL));
    return order->done ? clq_queue_mark_again(queue, order->done) : CLQ_OK;
}

clq_status clq_list_run_after(clq_list *list, clq_queue *queue, size_t first, size_t end, const clq_order *order) {
    uint32_t count = list->params.count;
    if (!list->bound) return clq_fail(CLQ_ERROR_INTERNAL, "a launch list is run before it is bound");
    if (count > list->capacity)
        return clq_fail(CLQ_ERROR_INTERNAL, "a launch list for 0 to %u examples is run with %u", list->capacity, count);
    if (first > end || end > list->launch_count)
        return clq_fail(CLQ_ERROR_INTERNAL, "launches %zu to %zu of a list of %zu", first, end, list->launch_count);
    for (size_t i = first, next; i < end; i = next) {
        const clq_fused *run = list->launches[i].run;
        next = run ? CLQ_MIN(run->end, end) : i + 1;
        clq_order own = {0};
        if (order && i == first) memcpy(own.after, order->after, sizeof own.after);
        if (order && next == end) own.done = order->done;
        CLQ_TRY(run_in_order(list, queue, i, next, &own));
    }
    return CLQ_OK;
}

clq_status clq_list_run(clq_list *list, clq_queue *queue, size_t first, size_t end) {
    return clq_list_run_after(list, queue, first, end, NULL);
}

/* ---- first launches ---- */

static clq_status zero_arguments(clq_list *list, const clq_launch *launch, clq_queue *queue) {
    for (size_t i = 0; i < launch->argument_count; i++) {
        const clq_argument *argument = &list->arguments[launch->first_argument + i];
        if (argument->kind != CLQ_ARGUMENT_VALUE || argument->value == CLQ_NO_VALUE) continue;
        const clq_value_slot *slot = &list->values[argument->value - 1];
        if (!slot->written) continue; /* weights, which other lists may be working with */
        CLQ_TRY(clq_queue_fill_zero(queue, slot->buffer, slot->offset + argument->offset, argument->bytes));
    }
    return CLQ_OK;
}

static clq_status launch_first(clq_list *list, clq_queue *queue) {
    for (size_t i = 0, next; i < list->launch_count; i = next) {
        clq_launch *launch = &list->launches[i];
        next = launch->run ? launch->run->end : i + 1;
        for (size_t k = i; k < next && launch->file; k++) CLQ_TRY(zero_arguments(list, &list->launches[k], queue));
        if (launch->run)
            CLQ_TRY(clq_fused_run(launch->run, queue, i, next, NULL));
        else if (launch->file)
            CLQ_TRY(run_launch(list, launch, queue, list->capacity, NULL));
    }
    for (size_t i = 0; i < list->launch_count; i++) CLQ_TRY(zero_arguments(list, &list->launches[i], queue));
    return clq_queue_finish(queue);
}

clq_status clq_list_launch_first(clq_list *list, clq_queue *queue) {
    if (!list->bound) return clq_fail(CLQ_ERROR_INTERNAL, "a launch list is run before it is bound");
    uint32_t count = list->params.count;
    list->params.count = list->capacity;
    clq_status status = launch_first(list, queue);
    list->params.count = count;
    return status;
}
