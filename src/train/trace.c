/* What a trainer recorded, as a file of trace events. */
#include "train/trainer.h"

#include <stdio.h>

enum { HOST = 0, FIRST_REPLICA = 1 };                    /* processes */
enum { INPUT = 1, STEPS = 1, QUEUE, EXCHANGE, UPLOADS }; /* threads */

typedef struct track {
    unsigned process, thread;
    double start; /* of the trace */
} track;

static clq_status put_track(clq_trace_writer *writer, track at, const char *name, const clq_span *spans, size_t count) {
    CLQ_TRY(clq_trace_writer_thread(writer, at.process, at.thread, name));
    for (size_t i = 0; i < count; i++) {
        const clq_span *span = &spans[i];
        CLQ_TRY(clq_trace_writer_put(writer, &(clq_trace_event){.process = at.process,
                                                                .thread = at.thread,
                                                                .scope = span->scope,
                                                                .name = span->name,
                                                                .begin_s = span->begin - at.start,
                                                                .end_s = span->end - at.start,
                                                                .key = span->key,
                                                                .value = span->value}));
    }
    return CLQ_OK;
}

static clq_status put_replica(clq_trace_writer *writer, clq_trainer *trainer, unsigned replica) {
    clq_replica_trace trace;
    char name[CLQ_NAME_MAX + 64], label[64];
    CLQ_TRY(clq_strategy_trace(trainer->strategy, replica, &trace));
    const clq_device_info *device = clq_device_get_info(clq_strategy_device(trainer->strategy, replica));
    (void)snprintf(name, sizeof name, "replica %u: %s (%s)", replica, device->name, device->driver);
    (void)clq_format(label, sizeof label, "the queue's times within %.1f us", trace.clock_error_s * 1e6);
    track at = {.process = FIRST_REPLICA + replica, .thread = STEPS, .start = trainer->created};
    clq_status status;
    CLQ_TRY_OR(done, status, clq_trace_writer_process(writer, at.process, name, label));
    CLQ_TRY_OR(done, status, put_track(writer, at, "host", trace.steps->spans, trace.steps->count));
    at.thread = QUEUE;
    CLQ_TRY_OR(done, status, put_track(writer, at, "queue", trace.queue, trace.queue_count));
    at.thread = EXCHANGE;
    if (clq_trainer_replicas(trainer) > 1)
        CLQ_TRY_OR(done, status, put_track(writer, at, "exchange", trace.exchange->spans, trace.exchange->count));
    at.thread = UPLOADS;
    if (trace.upload_count > 0) status = put_track(writer, at, "uploads", trace.uploads, trace.upload_count);
done:
    clq_free(trace.queue);
    clq_free(trace.uploads);
    return status;
}

static clq_status put_all(clq_trace_writer *writer, clq_trainer *trainer) {
    track at = {.process = HOST, .thread = INPUT, .start = trainer->created};
    CLQ_TRY(clq_trace_writer_process(writer, at.process, "input", NULL));
    CLQ_TRY(put_track(writer, at, "pipeline", trainer->input.spans, trainer->input.count));
    for (unsigned r = 0; r < clq_trainer_replicas(trainer); r++) CLQ_TRY(put_replica(writer, trainer, r));
    return CLQ_OK;
}

clq_status clq_trainer_write_trace(clq_trainer *trainer, const char *path) {
    if (trainer->config.trace_steps == 0)
        return clq_fail(CLQ_ERROR_STATE, "this trainer records nothing to trace: set trace_steps");
    clq_trace_writer *writer;
    CLQ_TRY(clq_trainer_wait(trainer));
    CLQ_TRY(clq_trace_writer_open(path, &writer));
    clq_status status = put_all(writer, trainer);
    if (status == CLQ_OK) return clq_trace_writer_commit(writer);
    clq_trace_writer_cancel(writer);
    return status;
}
