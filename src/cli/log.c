#include "cli/log.h"

#include <errno.h>
#include <math.h>
#include <string.h>

clq_status clq_step_log_open(const char *path, bool metrics, clq_step_log *out) {
    *out = (clq_step_log){0};
    if (!path) return CLQ_OK;
    FILE *file = fopen(path, "w");
    if (!file) return clq_fail(CLQ_WRITE, "--log %s: %s", path, strerror(errno));
    *out = (clq_step_log){.file = file, .path = path, .metrics = metrics};
    return CLQ_OK;
}

/* A key that holds the name of a layer is UTF-8 without control characters. JSON has no NaN and no infinity: null says
 * that there was no number. */
static void put_number(FILE *file, const char *key, double value) {
    putc('"', file);
    for (; *key; key++) {
        if (*key == '"' || *key == '\\') putc('\\', file);
        putc(*key, file);
    }
    if (isfinite(value))
        fprintf(file, "\": %.17g, ", value);
    else
        fprintf(file, "\": null, ");
}

clq_status clq_step_log_put(clq_step_log *log, const clq_step_info *info, uint64_t epoch) {
    if (!log->file) return CLQ_OK;
    fprintf(log->file, "{\"step\": %llu, \"epoch\": %llu, ", (unsigned long long)info->step, (unsigned long long)epoch);
    put_number(log->file, "loss", info->loss);
    for (unsigned i = 0; i < info->metrics.count && log->metrics; i++)
        put_number(log->file, info->metrics.names[i], info->metrics.values[i]);
    put_number(log->file, "grad_norm", info->grad_norm);
    put_number(log->file, "lr", info->lr);
    fprintf(log->file, "\"samples\": %zu, \"ms\": %.6g}\n", info->samples, 1e3 * info->seconds);
    return ferror(log->file) ? clq_fail(CLQ_WRITE, "--log %s: %s", log->path, strerror(errno)) : CLQ_OK;
}

clq_status clq_step_log_flush(clq_step_log *log) {
    if (!log->file || fflush(log->file) == 0) return CLQ_OK;
    return clq_fail(CLQ_WRITE, "--log %s: %s", log->path, strerror(errno));
}

clq_status clq_step_log_close(clq_step_log *log) {
    if (!log->file) return CLQ_OK;
    bool failed = ferror(log->file) != 0;
    failed |= fclose(log->file) != 0;
    log->file = NULL;
    return failed ? clq_fail(CLQ_WRITE, "--log %s: %s", log->path, strerror(errno)) : CLQ_OK;
}
