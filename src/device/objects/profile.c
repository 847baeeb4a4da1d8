#include "device/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PENDING_MAX = 1024 }; /* events kept before their times are added up */

typedef struct pending {
    cl_event event;
    size_t row;
} pending;

struct clq_profile {
    clq_profile_row *rows;
    size_t row_count;
    pending pending[PENDING_MAX];
    size_t pending_count;
};

clq_status clq_profile_create(clq_profile **out) {
    clq_profile *profile = clq_alloc(1, sizeof *profile);
    if (!profile) return CLQ_MEMORY;
    *out = profile;
    return CLQ_OK;
}

void clq_profile_destroy(clq_profile *profile, bool release_events) {
    if (!profile) return;
    if (release_events)
        for (size_t i = 0; i < profile->pending_count; i++) (void)clReleaseEvent(profile->pending[i].event);
    clq_free(profile->rows);
    clq_free(profile);
}

static clq_status find_row(clq_profile *profile, const char *name, size_t *out) {
    for (size_t i = 0; i < profile->row_count; i++) {
        if (strcmp(profile->rows[i].name, name) != 0) continue;
        *out = i;
        return CLQ_OK;
    }
    clq_profile_row *rows = clq_realloc(profile->rows, profile->row_count, profile->row_count + 1, sizeof *rows);
    if (!rows) return CLQ_MEMORY;
    profile->rows = rows;
    (void)snprintf(rows[profile->row_count].name, sizeof rows[0].name, "%s", name);
    *out = profile->row_count++;
    return CLQ_OK;
}

static clq_status fold_event(clq_device *device, clq_profile_row *row, cl_event event) {
    cl_ulong begin = 0, end = 0;
    CLQ_TRY(clq_event_times(device, event, row->name, &begin, &end));
    double seconds = (double)(end - begin) * 1e-9;
    row->total_s += seconds;
    row->least_s = row->launches == 0 ? seconds : CLQ_MIN(row->least_s, seconds);
    row->launches++;
    return CLQ_OK;
}

/* The events must be complete. */
static clq_status fold(clq_profile *profile, clq_device *device) {
    clq_status status = CLQ_OK;
    for (size_t i = 0; i < profile->pending_count; i++) {
        const pending *entry = &profile->pending[i];
        if (status == CLQ_OK) status = fold_event(device, &profile->rows[entry->row], entry->event);
        (void)clReleaseEvent(entry->event);
    }
    profile->pending_count = 0;
    return status;
}

clq_status clq_profile_add(clq_profile *profile, clq_device *device, const char *name, cl_event event) {
    size_t row = 0;
    clq_status status = find_row(profile, name, &row);
    if (status != CLQ_OK) {
        (void)clReleaseEvent(event);
        return status;
    }
    profile->pending[profile->pending_count++] = (pending){event, row};
    if (profile->pending_count < PENDING_MAX) return CLQ_OK;
    /* In-order: the last being complete means that all are. */
    cl_int error = clWaitForEvents(1, &event);
    if (error != CL_SUCCESS) return clq_cl_fail_running(device, error, "waiting for %s", name);
    return fold(profile, device);
}

static int by_total(const void *a, const void *b) {
    double x = ((const clq_profile_row *)a)->total_s, y = ((const clq_profile_row *)b)->total_s;
    return (x < y) - (x > y);
}

clq_status clq_queue_profile(clq_queue *queue, clq_profile_row *rows, size_t capacity, size_t *count) {
    clq_profile *profile = queue->profile;
    if (!profile) return clq_fail(CLQ_INTERNAL, "%s: the queue was not created for profiling", queue->device->label);
    CLQ_TRY(clq_queue_finish(queue));
    CLQ_TRY(fold(profile, queue->device));
    size_t kept = CLQ_MIN(capacity, profile->row_count);
    if (profile->row_count > 0) {
        qsort(profile->rows, profile->row_count, sizeof *rows, by_total);
        memcpy(rows, profile->rows, kept * sizeof *rows);
    }
    *count = kept;
    clq_free(profile->rows);
    profile->rows = NULL;
    profile->row_count = 0;
    return CLQ_OK;
}
