/* The check of an operation with a program's own kernels, on a device. Values lie between guards, samples behind the
 * count are guards, too, and gradients are compared with differences. */
#include "graph/custom.h"
#include "graph/graph.h"
#include "graph/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CAPACITY = 4, COUNT = 3, GUARD_LEAST = 1024, VALUES = 2 * CLQ_CUSTOM_VALUES_MAX + 4 };
static const float step = 1.0f / 256;
static const double tolerance = 2e-3;
static const unsigned char pattern = 0xFF; /* NaN, as floats */

/* A value: floats between two guards. */
typedef struct checked_value {
    char name[32];
    size_t elements, rows;  /* elements of a row; number of rows: CAPACITY, or 1 for variables */
    bool forward, backward; /* this kernel writes it */
    clq_value value;
    clq_buffer *buffer;
    unsigned char *host; /* guard, floats, guard */
} checked_value;

typedef struct check {
    clq_device *device;
    clq_queue *queue;
    clq_list *list; /* forward, and backward if there is one */
    const clq_custom_operation *operation;
    clq_custom_shapes shapes;
    clq_custom_values values;
    checked_value all[VALUES];
    unsigned count, output, gradient; /* `output`: index of y; `gradient`: index of dy, before dx and dw */
    size_t guard;                     /* bytes */
    clq_random random;
    clq_custom_report report;
} check;

static float *floats_of(const check *c, unsigned i) { return (float *)(void *)(c->all[i].host + c->guard); }
static size_t bytes_of(const checked_value *v) { return v->rows * v->elements * sizeof(float); }
static size_t all_bytes(const check *c, const checked_value *v) { return 2 * c->guard + bytes_of(v); }

/* ---- memory ---- */

static clq_status add_value(check *c, const char *name, const clq_shape *shape, size_t rows, bool forward,
                            bool backward, clq_value *out) {
    checked_value *v = &c->all[c->count++];
    *v = (checked_value){.rows = rows, .forward = forward, .backward = backward};
    (void)snprintf(v->name, sizeof v->name, "%s", name);
    CLQ_TRY(clq_shape_elements(shape, &v->elements));
    v->value = *out = clq_list_value(c->list, CLQ_VALUE_EXTERNAL, v->name, rows == 1 ? bytes_of(v) : 0,
                                     rows == 1 ? 0 : v->elements * sizeof(float));
    v->host = clq_alloc(all_bytes(c, v), 1);
    if (!v->host) return CLQ_ERROR_MEMORY;
    memset(v->host, pattern, all_bytes(c, v));
    CLQ_TRY(clq_buffer_create(c->device, CLQ_MEMORY_DEVICE, all_bytes(c, v), "checked values", &v->buffer));
    clq_list_place(c->list, v->value, v->buffer, c->guard);
    return CLQ_OK;
}

/* Fills a value with random numbers from 0.1 to 1, of both signs. */
static void make_up(check *c, unsigned i) {
    for (size_t k = 0; k < (c->all[i].rows == 1 ? 1 : COUNT) * c->all[i].elements; k++) {
        const double number = 0.1 + 0.9 * clq_random_unit(&c->random);
        floats_of(c, i)[k] = (float)(clq_random_below(&c->random, 2) ? number : -number);
    }
}

static clq_status add_numbered(check *c, const char *letter, const clq_shape *shapes, size_t count, bool forward,
                               bool backward, clq_value *out) {
    for (size_t i = 0; i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s%zu", letter, i);
        CLQ_TRY(add_value(c, name, &shapes[i], CAPACITY, forward, backward, &out[i]));
        if (!forward && !backward) make_up(c, c->count - 1);
    }
    return CLQ_OK;
}

static clq_status add_variables(check *c, const char *letter, size_t rows, clq_value *out) {
    for (size_t i = 0; i < c->shapes.variable_count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s%zu", letter, i);
        CLQ_TRY(add_value(c, name, &c->shapes.variables[i].shape, rows, false, rows > 1, &out[i]));
        if (rows == 1) make_up(c, c->count - 1);
    }
    return CLQ_OK;
}

static clq_status add_values(check *c) {
    const clq_custom_shapes *s = &c->shapes;
    clq_custom_values *v = &c->values;
    CLQ_TRY(add_numbered(c, "x", s->inputs, s->input_count, false, false, v->inputs));
    CLQ_TRY(add_variables(c, "w", 1, v->variables));
    c->output = c->count;
    CLQ_TRY(add_value(c, "y", &s->output, CAPACITY, true, false, &v->output));
    CLQ_TRY(add_numbered(c, "kept", s->kept, s->kept_count, true, false, v->kept));
    c->gradient = c->count;
    if (!c->operation->backward) return CLQ_OK;
    CLQ_TRY(add_value(c, "dy", &s->output, CAPACITY, false, false, &v->output_gradient));
    make_up(c, c->gradient);
    CLQ_TRY(add_numbered(c, "dx", s->inputs, s->input_count, false, true, v->input_gradients));
    return add_variables(c, "dw", CAPACITY, v->variable_gradients);
}

static clq_status open_check(check *c) {
    c->guard = clq_device_view_align(c->device);
    while (c->guard < GUARD_LEAST) c->guard *= 2;
    CLQ_TRY(clq_queue_create(c->device, 0, &c->queue));
    CLQ_TRY(clq_list_create(c->device, CAPACITY, &c->list));
    clq_list_scope(c->list, c->operation->name);
    CLQ_TRY(add_values(c));
    CLQ_TRY(clq_list_status(c->list));
    clq_custom_launch(c->list, c->operation, &c->shapes, false, &c->values);
    if (c->operation->backward) {
        clq_custom_values of_backward = c->values; /* values that are not read are missing */
        if (c->operation->unread_inputs) memset(of_backward.inputs, 0, sizeof of_backward.inputs);
        if (c->operation->unread_output) of_backward.output = CLQ_NO_VALUE;
        clq_custom_launch(c->list, c->operation, &c->shapes, true, &of_backward);
    }
    return clq_list_bind(c->list);
}

static void close_check(check *c) {
    if (c->queue) (void)clq_queue_finish(c->queue);
    clq_list_destroy(c->list);
    for (unsigned i = 0; i < c->count; i++) {
        clq_buffer_destroy(c->all[i].buffer);
        clq_free(c->all[i].host);
    }
    clq_queue_destroy(c->queue);
}

/* ---- runs ---- */

/* Whether the kernel writes the value. Then the value is filled with the pattern before each run. */
static bool is_made(const checked_value *v, bool backward) { return backward ? v->backward : v->forward; }

static clq_status upload(check *c, unsigned i) {
    return clq_queue_write(c->queue, c->all[i].buffer, 0, c->all[i].host, all_bytes(c, &c->all[i]), true);
}

static clq_status run(check *c, bool backward, uint32_t count) {
    for (unsigned i = 0; i < c->count; i++)
        if (is_made(&c->all[i], backward)) {
            memset(c->all[i].host, pattern, all_bytes(c, &c->all[i]));
            CLQ_TRY(upload(c, i));
        }
    clq_list_set_params(c->list, &(clq_step_params){.count = count});
    CLQ_TRY(clq_list_run(c->list, c->queue, backward, (size_t)backward + 1));
    for (unsigned i = 0; i < c->count; i++)
        if (is_made(&c->all[i], backward))
            CLQ_TRY(clq_queue_read(c->queue, c->all[i].buffer, 0, c->all[i].host, all_bytes(c, &c->all[i]), true));
    return CLQ_OK;
}

static const char *kernel_of(const check *c, bool backward) {
    return backward ? c->operation->backward : c->operation->forward;
}

static clq_status wrong(const check *c, bool backward, const char *what, unsigned value, size_t element) {
    return clq_fail(CLQ_ERROR_MISMATCH, "operation '%s', kernel %s: %s %s[%zu]", c->operation->name,
                    kernel_of(c, backward), what, c->all[value].name, element);
}

/* ---- bounds ---- */

static bool is_untouched(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != pattern) return false;
    return true;
}

/* Checks guards, samples behind the count, and values that the kernel must not write. */
static clq_status check_bounds(check *c, bool backward, unsigned char *now) {
    for (unsigned i = 0; i < c->count; i++) {
        const checked_value *v = &c->all[i];
        const size_t whole = all_bytes(c, v), end = c->guard + COUNT * v->elements * sizeof(float);
        if (is_made(v, backward)) {
            if (!is_untouched(v->host, c->guard)) return wrong(c, backward, "it writes in front of", i, 0);
            if (!is_untouched(v->host + c->guard + bytes_of(v), c->guard))
                return wrong(c, backward, "it writes behind the end of", i, v->rows * v->elements);
            if (!is_untouched(v->host + end, c->guard + bytes_of(v) - end))
                return wrong(c, backward, "it writes for samples that a smaller batch does not have, from", i,
                             COUNT * v->elements);
            for (size_t k = 0; k < COUNT * v->elements; k++)
                if (!isfinite(floats_of(c, i)[k]))
                    return wrong(c, backward, "it does not write, or is not finite, or reads what is not its own, at",
                                 i, k);
        } else {
            CLQ_TRY(clq_queue_read(c->queue, v->buffer, 0, now, whole, true));
            if (memcmp(now, v->host, whole) != 0) return wrong(c, backward, "it writes into what it only reads,", i, 0);
        }
    }
    return CLQ_OK;
}

/* ---- the same bits ---- */

static size_t largest_value(const check *c) {
    size_t most = 0;
    for (unsigned i = 0; i < c->count; i++) most = CLQ_MAX(most, all_bytes(c, &c->all[i]));
    return most;
}

/* Copies all values that the kernel made, one behind the other. */
static void keep(const check *c, bool backward, unsigned char *to) {
    for (unsigned i = 0; i < c->count; i++)
        if (is_made(&c->all[i], backward)) {
            memcpy(to, c->all[i].host, all_bytes(c, &c->all[i]));
            to += all_bytes(c, &c->all[i]);
        }
}
static size_t made_bytes(const check *c) {
    size_t bytes = 0;
    for (unsigned i = 0; i < c->count; i++) bytes += all_bytes(c, &c->all[i]);
    return bytes;
}

static clq_status check_again(check *c, bool backward, const unsigned char *kept) {
    CLQ_TRY(run(c, backward, COUNT));
    for (unsigned i = 0; i < c->count; i++) {
        if (!is_made(&c->all[i], backward)) continue;
        if (memcmp(kept, c->all[i].host, all_bytes(c, &c->all[i])) != 0)
            return wrong(c, backward, "a second run makes other bits of", i, 0);
        kept += all_bytes(c, &c->all[i]);
    }
    return CLQ_OK;
}

/* Makes the last sample of the batch the first and only one. */
static clq_status move_last(check *c, bool backward) {
    for (unsigned i = 0; i < c->count; i++) {
        const checked_value *v = &c->all[i];
        if (v->rows == 1 || is_made(v, backward)) continue;
        memcpy(floats_of(c, i), floats_of(c, i) + (COUNT - 1) * v->elements, v->elements * sizeof(float));
        CLQ_TRY(upload(c, i));
    }
    return CLQ_OK;
}

static clq_status check_alone(check *c, bool backward, const unsigned char *kept) {
    CLQ_TRY(move_last(c, backward));
    CLQ_TRY(run(c, backward, 1));
    for (unsigned i = 0; i < c->count; i++) {
        const checked_value *v = &c->all[i];
        if (!is_made(v, backward)) continue;
        const unsigned char *last = kept + c->guard + (COUNT - 1) * v->elements * sizeof(float);
        if (memcmp(last, floats_of(c, i), v->elements * sizeof(float)) != 0)
            return wrong(c, backward, "a sample alone has other bits than among others, in", i, 0);
        kept += all_bytes(c, v);
    }
    return CLQ_OK;
}

/* Leaves in `bytes` what the kernel made of the whole batch. There must be room for all values that the kernel makes,
 * and for one more. */
static clq_status check_kernel(check *c, bool backward, unsigned char *bytes) {
    CLQ_TRY(run(c, backward, COUNT));
    CLQ_TRY(check_bounds(c, backward, bytes + made_bytes(c)));
    keep(c, backward, bytes);
    return check_again(c, backward, bytes);
}

/* ---- gradients ---- */

/* The derivative of the loss by one number of an input, from two runs with this number moved down and up. The loss is
 * the sum of dy * y, so the differences of the outputs are taken times dy. minus: room for the outputs of the first
 * run. */
static clq_status difference(check *c, unsigned input, size_t element, double *minus, double *out) {
    float *number = floats_of(c, input) + element;
    const float before = *number, ends[2] = {before - step, before + step};
    const size_t outputs = COUNT * c->all[c->output].elements;
    *out = 0;
    for (unsigned side = 0; side < 2; side++) {
        *number = ends[side];
        clq_status status = upload(c, input);
        if (status == CLQ_OK) status = run(c, false, COUNT);
        *number = before;
        if (status != CLQ_OK) return status;
        for (size_t k = 0; k < outputs; k++) {
            const double y = (double)floats_of(c, c->output)[k];
            if (side) *out += (double)floats_of(c, c->gradient)[k] * (y - minus[k]);
            minus[k] = y;
        }
    }
    *out /= (double)ends[1] - (double)ends[0];
    return upload(c, input);
}

/* The derivative that the kernel made: of an input, an element's own; of a variable, the sum over all samples. */
static double derivative(const check *c, unsigned gradient, bool sums, size_t element) {
    double sum = 0;
    for (size_t n = 0; n < COUNT && sums; n++)
        sum += (double)floats_of(c, gradient)[n * c->all[gradient].elements + element];
    return sums ? sum : (double)floats_of(c, gradient)[element];
}

/* The element whose derivative is compared as the i-th. If there are few elements, all are compared. If there are many,
 * the first and the last one are compared, and others by chance; of an input, the first and the last one of each
 * sample. Mistakes are more frequent at ends than elsewhere. */
static size_t compared_at(check *c, const checked_value *v, size_t elements, size_t i) {
    const size_t ends = 2 * (elements / v->elements);
    if (elements <= CLQ_CUSTOM_COMPARED) return i;
    if (i < ends) return i / 2 * v->elements + (i % 2 ? v->elements - 1 : 0);
    return (size_t)clq_random_below(&c->random, (uint64_t)elements);
}

static clq_status check_gradient(check *c, unsigned input, unsigned gradient, double *room) {
    const bool sums = c->all[input].rows == 1;
    const size_t elements = (sums ? 1 : COUNT) * c->all[input].elements;
    double largest = 0;
    for (size_t k = 0; k < elements; k++) largest = fmax(largest, fabs(derivative(c, gradient, sums, k)));
    for (size_t i = 0; i < CLQ_MIN(elements, (size_t)CLQ_CUSTOM_COMPARED); i++) {
        const size_t k = compared_at(c, &c->all[input], elements, i);
        const double got = derivative(c, gradient, sums, k);
        double want;
        CLQ_TRY(difference(c, input, k, room, &want));
        const double error = fabs(got - want) / fmax(fmax(largest, fabs(want)), 1e-3);
        c->report.gradients++;
        if (error >= c->report.gradient_error) {
            c->report.gradient_error = error;
            (void)snprintf(c->report.gradient, sizeof c->report.gradient, "%s[%zu]", c->all[gradient].name, k);
        }
        if (!(error <= tolerance))
            return clq_fail(CLQ_ERROR_MISMATCH, "operation '%s', kernel %s: %s[%zu] is %.6g, and by differences %.6g",
                            c->operation->name, c->operation->backward, c->all[gradient].name, k, got, want);
    }
    return CLQ_OK;
}

static clq_status check_gradients(check *c) {
    double *room = clq_alloc(COUNT * c->all[c->output].elements, sizeof *room);
    clq_status status = room ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (unsigned i = 0; i < c->shapes.input_count + c->shapes.variable_count && status == CLQ_OK; i++)
        status = check_gradient(c, i, c->gradient + 1 + i, room);
    clq_free(room);
    return status;
}

/* ---- all ---- */

static clq_status check_all(check *c) {
    unsigned char *of_forward = clq_alloc(made_bytes(c) + largest_value(c), 1),
                  *of_backward = clq_alloc(made_bytes(c) + largest_value(c), 1);
    clq_status status = of_forward && of_backward ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (unsigned i = 0; i < c->count && status == CLQ_OK; i++) status = upload(c, i);
    if (status == CLQ_OK) status = check_kernel(c, false, of_forward);
    if (status == CLQ_OK && c->operation->backward) status = check_kernel(c, true, of_backward);
    if (status == CLQ_OK && c->operation->backward) status = check_gradients(c);
    /* check_gradients has left outputs of moved numbers. check_alone, which moves samples, needs the outputs of all. */
    if (status == CLQ_OK) status = run(c, false, COUNT);
    if (status == CLQ_OK && c->operation->backward) status = check_alone(c, true, of_backward);
    if (status == CLQ_OK) status = check_alone(c, false, of_forward);
    clq_free(of_forward);
    clq_free(of_backward);
    return status;
}

static clq_status check_on(clq_device *device, const clq_custom_operation *operation, const clq_custom_shapes *shapes,
                           uint64_t seed, clq_custom_report *report) {
    check c = {.device = device, .operation = operation, .shapes = *shapes, .random = clq_random_start(seed, 0)};
    clq_status status = open_check(&c);
    if (status == CLQ_OK) status = check_all(&c);
    close_check(&c);
    if (status != CLQ_OK) return clq_fail_within(status, "%s", clq_device_label(device));
    report->gradients += c.report.gradients;
    if (c.report.gradient_error < report->gradient_error) return CLQ_OK;
    report->gradient_error = c.report.gradient_error;
    memcpy(report->gradient, c.report.gradient, sizeof report->gradient);
    return CLQ_OK;
}

clq_status clq_custom_check(const clq_devices *devices, const clq_custom_operation *operation, const clq_shape *shapes,
                            size_t count, uint64_t seed, clq_custom_report *report) {
    clq_custom_shapes inferred;
    clq_custom_report all = {.gradients = 0};
    clq_status status = CLQ_OK;
    CLQ_TRY(clq_devices_check(devices));
    CLQ_TRY(clq_custom_check_operation(operation));
    if (count < 1 || count > CLQ_CUSTOM_INPUTS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "operation '%s' has 1 to %d inputs, not %zu", operation->name,
                        CLQ_CUSTOM_INPUTS_MAX, count);
    CLQ_TRY(clq_custom_infer(operation, shapes, count, &inferred));
    for (uint32_t i = 0; i < devices->count && status == CLQ_OK; i++) {
        clq_device *device;
        CLQ_TRY(clq_device_open(devices->system, devices->items[i], &device));
        status = check_on(device, operation, &inferred, seed, &all);
        clq_device_close(device);
    }
    if (status == CLQ_OK && report) *report = all;
    return status;
}
