/* Tries a block on a device before it is used. GPU compilers refuse groups for lack of registers, and have compiled
 * such kernels wrongly. */
#include "ops/local/local.h"

#include <string.h>

enum { VALUES_MOST = 8 };

typedef struct run {
    clq_queue *queue;
    clq_list *list;
    clq_buffer *buffers[VALUES_MOST]; /* of all values, scratch included */
    float *numbers;                   /* room for the largest array */
} run;

static size_t bytes_of(const clq_local_trial *t, size_t array) {
    return clq_values_bytes(t->storage[array], t->numbers[array]);
}

static clq_status add(run *r, clq_device *device, const clq_local_trial *t) {
    clq_value values[3];
    CLQ_TRY(clq_list_create(device, t->examples, &r->list));
    clq_list_set_family(r->list, CLQ_FAMILY_LOCAL);
    clq_list_scope(r->list, "trial");
    for (size_t i = 0; i < 3; i++) {
        values[i] = clq_list_value(r->list, CLQ_VALUE_EXTERNAL, "trial", bytes_of(t, i), 0);
        clq_list_set_storage(r->list, values[i], t->storage[i]);
    }
    t->add(r->list, t->context, values);
    return clq_list_status(r->list);
}

static clq_status place(run *r, clq_device *device) {
    size_t count = clq_list_value_count(r->list);
    if (count > VALUES_MOST)
        return clq_fail(CLQ_ERROR_INTERNAL, "a trial has %zu values, and there is room for %d", count,
                        (int)VALUES_MOST);
    for (size_t i = 0; i < count; i++) {
        clq_value_info info;
        clq_list_value_info(r->list, (clq_value)(i + 1), &info);
        CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, info.bytes, "trial", &r->buffers[i]));
        clq_list_place(r->list, (clq_value)(i + 1), r->buffers[i], 0);
    }
    return clq_list_bind(r->list);
}

/* r->numbers has room for floats. 16-bit numbers only fill its front. */
static clq_status write_array(const run *r, const clq_local_trial *t, size_t array) {
    uint16_t *stored = (uint16_t *)r->numbers;
    for (size_t i = 0; i < t->numbers[array]; i++) {
        float number = t->number(t->context, array, i);
        if (t->storage[array] == CLQ_F32)
            r->numbers[i] = number;
        else
            stored[i] = t->storage[array] == CLQ_F16 ? clq_half_of_float(number) : clq_bfloat_of_float(number);
    }
    return clq_queue_write(r->queue, r->buffers[array], 0, r->numbers, bytes_of(t, array), true);
}

/* Converts 16-bit numbers to floats in place: from the last to the first, since a float takes the room of two. */
static clq_status read_result(const run *r, const clq_local_trial *t) {
    CLQ_TRY(clq_queue_read(r->queue, r->buffers[2], 0, r->numbers, bytes_of(t, 2), true));
    for (size_t i = t->storage[2] == CLQ_F32 ? 0 : t->numbers[2]; i-- > 0;) {
        uint16_t stored;
        memcpy(&stored, (const char *)r->numbers + i * sizeof stored, sizeof stored);
        r->numbers[i] = t->storage[2] == CLQ_F16 ? clq_half_to_float(stored) : clq_bfloat_to_float(stored);
    }
    return CLQ_OK;
}

static clq_status try_in(run *r, clq_device *device, const clq_local_trial *t, bool *right) {
    size_t most = CLQ_MAX(CLQ_MAX(t->numbers[0], t->numbers[1]), t->numbers[2]);
    r->numbers = clq_alloc(most, sizeof *r->numbers);
    if (!r->numbers) return CLQ_ERROR_MEMORY;
    CLQ_TRY(clq_queue_create(device, 0, &r->queue));
    CLQ_TRY(add(r, device, t));
    CLQ_TRY(place(r, device));
    for (size_t array = 0; array < 2; array++) CLQ_TRY(write_array(r, t, array));
    clq_list_set_params(r->list, &(clq_step_params){.count = (uint32_t)t->examples});
    CLQ_TRY(clq_list_run(r->list, r->queue, 0, clq_list_launch_count(r->list)));
    CLQ_TRY(clq_queue_finish(r->queue));
    CLQ_TRY(read_result(r, t));
    *right = t->right(t->context, r->numbers);
    return CLQ_OK;
}

/* Runs a trial in a list of its own. *right: whether the result is right. */
static clq_status try_one(clq_device *device, const clq_local_trial *trial, bool *right) {
    run r = {0};
    clq_status status = try_in(&r, device, trial, right);
    clq_list_destroy(r.list);
    for (size_t i = 0; i < VALUES_MOST; i++) clq_buffer_destroy(r.buffers[i]);
    clq_queue_destroy(r.queue);
    clq_free(r.numbers);
    return status;
}

bool clq_local_works(clq_device *device, const char *name, const char *what, const clq_local_trial *trials,
                     size_t count) {
    clq_hash128 key = clq_hash128_of(name, strlen(name), 0);
    clq_status status = CLQ_OK;
    bool works = true;
    if (clq_device_trial_result(device, key, &works)) return works;
    for (size_t i = 0; i < count && works; i++) {
        status = try_one(device, &trials[i], &works);
        works = works && status == CLQ_OK;
    }
    if (!works)
        clq_log(CLQ_LOG_WARNING, "%s: %s is not used for %s: %s", clq_device_label(device), name, what,
                status == CLQ_OK ? "its answers are wrong" : clq_error_detail());
    /* Right and wrong results come from the driver's compiler, so they hold for later runs. The cause of a failure may
     * be gone in a later run. A lack of memory may be gone before the next plan. */
    if (status == CLQ_OK)
        clq_device_keep_trial_result(device, key, works);
    else if (status != CLQ_ERROR_MEMORY && status != CLQ_ERROR_DEVICE_MEMORY)
        clq_device_note_trial_result(device, key, works);
    return works;
}
