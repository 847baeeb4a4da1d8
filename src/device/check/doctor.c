#include "device/check/checks.h"

#include <stdio.h>

static const struct {
    const char *name;
    clq_status (*run)(clq_queue *queue, clq_verdict *out);
    bool at_start; /* part of the start-up test */
} check_rows[] = {
    {"arithmetic", clq_check_arithmetic, true},
    {"vectors", clq_check_vectors, false},
    {"long loop", clq_check_long_loop, true},
    {"barrier", clq_check_barrier, true},
    {"random numbers", clq_check_random, false},
    {"copies", clq_check_copies, true},
    {"fills", clq_check_fills, false},
    {"offsets", clq_check_offsets, false},
    {"host memory", clq_check_host_memory, true},
};

void clq_verdict_wrong(clq_verdict *verdict, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)clq_format_list(verdict->detail, sizeof verdict->detail, format, arguments);
    va_end(arguments);
    verdict->ok = false;
}

/* If a call fails on the device, the check has failed. Only failures of the host itself (memory, system) are returned
 * as a status. */
static clq_status run_check(clq_device *device, clq_status (*check)(clq_queue *queue, clq_verdict *out),
                            clq_verdict *out) {
    *out = (clq_verdict){.ok = true, .detail = ""};
    clq_queue *queue = NULL;
    clq_status status = clq_queue_create(device, 0, &queue);
    if (status == CLQ_OK) status = check(queue, out);
    clq_queue_destroy(queue);
    if (status == CLQ_OK) return CLQ_OK;
    if (status == CLQ_ERROR_MEMORY || status == CLQ_ERROR_SYSTEM) return status;
    clq_verdict_wrong(out, "%s", clq_error_detail());
    return CLQ_OK;
}

clq_status clq_device_test_host_memory(clq_device *device) {
    clq_verdict verdict;
    CLQ_TRY(run_check(device, clq_check_host_memory, &verdict));
    if (verdict.ok) return CLQ_OK;
    return clq_fail(CLQ_ERROR_DEVICE, "%s: start-up test, host memory: %s", clq_device_label(device), verdict.detail);
}

clq_status clq_device_self_test(clq_device *device, bool *ok, char *reason, size_t reason_bytes) {
    clq_verdict verdict = {.ok = true};
    for (size_t i = 0; i < CLQ_COUNT_OF(check_rows) && verdict.ok; i++) {
        if (!check_rows[i].at_start) continue;
        CLQ_TRY(run_check(device, check_rows[i].run, &verdict));
        if (!verdict.ok)
            (void)snprintf(reason, reason_bytes, "start-up test, %s: %s", check_rows[i].name, verdict.detail);
    }
    if (verdict.ok) reason[0] = '\0';
    *ok = verdict.ok;
    return CLQ_OK;
}

clq_status clq_device_checks(clq_device *device, clq_check *rows, size_t capacity, size_t *count) {
    size_t kept = CLQ_MIN(capacity, CLQ_COUNT_OF(check_rows));
    for (size_t i = 0; i < kept; i++) {
        clq_verdict verdict;
        double start = clq_now();
        CLQ_TRY(run_check(device, check_rows[i].run, &verdict));
        rows[i] = (clq_check){.ok = verdict.ok, .ms = (clq_now() - start) * 1e3};
        (void)snprintf(rows[i].name, sizeof rows[i].name, "%s", check_rows[i].name);
        (void)snprintf(rows[i].detail, sizeof rows[i].detail, "%s", verdict.detail);
    }
    *count = kept;
    return CLQ_OK;
}
