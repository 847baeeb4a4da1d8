/* Transfers between the devices of two neighbouring stages. A slot is host memory: the sender's device writes it, and
 * the receiver's device reads it. If neither device shares the host's memory, a slot has two buffers, each pinned for
 * one of the devices, and the receiver's thread copies from one to the other (docs/decisions/016). */
#include "strategy/pipeline/pipeline.h"

#include <string.h>

/* sent, taken: the events of the last transfers into the slot and out of it; reused. NULL: there were none yet. */
typedef struct slot {
    clq_buffer *memory, *other; /* other: the receiver's buffer; NULL: the receiver reads `memory` */
    clq_event *sent, *taken;
} slot;

struct clq_pipe {
    clq_crossing sends, receives;
    unsigned count; /* tensors */
    struct {
        unsigned index;       /* in the cut */
        size_t row_bytes, at; /* at: offset in a slot, in bytes */
    } tensors[CLQ_CROSSINGS_MAX];
    slot slots[CLQ_PIPE_SLOTS];
    const clq_device *from, *to;
    double deadline_s;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t sent, taken; /* slots filled and taken so far; changed under `lock` */
    bool has_lock;
    atomic_bool aborted;
};

/* ---- life ---- */

/* Places the pipe's tensors in a slot, and returns the slot's bytes. */
static size_t lay_out(clq_pipe *pipe, const clq_pipe_config *config) {
    size_t bytes = 0;
    for (unsigned i = 0; i < config->cut->count; i++) {
        if (config->gradients && !config->cut->trained[i]) continue;
        const size_t elements = config->model->tensors[config->cut->tensors[i] - 1].elements;
        pipe->tensors[pipe->count].index = i;
        pipe->tensors[pipe->count].row_bytes = clq_values_bytes(CLQ_F32, elements);
        pipe->tensors[pipe->count].at = bytes;
        bytes += clq_round_up(config->capacity * pipe->tensors[pipe->count++].row_bytes, (size_t)CLQ_BUFFER_ALIGN);
    }
    return bytes;
}

static clq_status open_slots(clq_pipe *pipe, const clq_pipe_config *config, size_t bytes) {
    const char *what = config->gradients ? "gradients between stages" : "values between stages";
    const bool both =
        !clq_device_get_info(config->from)->host_unified && !clq_device_get_info(config->to)->host_unified;
    for (unsigned i = 0; i < CLQ_PIPE_SLOTS; i++) {
        CLQ_TRY(clq_buffer_create(config->from, CLQ_MEMORY_PINNED, bytes, what, &pipe->slots[i].memory));
        if (both) CLQ_TRY(clq_buffer_create(config->to, CLQ_MEMORY_PINNED, bytes, what, &pipe->slots[i].other));
    }
    return CLQ_OK;
}

clq_status clq_pipe_create(const clq_pipe_config *config, clq_pipe **out) {
    clq_pipe *pipe = clq_alloc(1, sizeof *pipe);
    if (!pipe) return CLQ_ERROR_MEMORY;
    pipe->sends = config->gradients ? CLQ_SENT_GRADIENT : CLQ_SENT;
    pipe->receives = config->gradients ? CLQ_RECEIVED_GRADIENT : CLQ_RECEIVED;
    pipe->from = config->from;
    pipe->to = config->to;
    pipe->deadline_s = config->deadline_s;
    clq_status status;
    CLQ_TRY_OR(fail, status, clq_lock_create("a pipe", &pipe->lock, &pipe->changed));
    pipe->has_lock = true;
    CLQ_TRY_OR(fail, status, open_slots(pipe, config, lay_out(pipe, config)));
    *out = pipe;
    return CLQ_OK;
fail:
    clq_pipe_destroy(pipe);
    return status;
}

void clq_pipe_destroy(clq_pipe *pipe) {
    if (!pipe) return;
    for (unsigned i = 0; i < CLQ_PIPE_SLOTS; i++) {
        clq_event_destroy(pipe->slots[i].sent);
        clq_event_destroy(pipe->slots[i].taken);
        /* Without a second buffer, commands of the lost receiver may still read this one. */
        if (pipe->slots[i].memory && !pipe->slots[i].other && clq_device_lost(pipe->to))
            clq_buffer_keep(pipe->slots[i].memory);
        clq_buffer_destroy(pipe->slots[i].memory);
        clq_buffer_destroy(pipe->slots[i].other);
    }
    if (pipe->has_lock) {
        pthread_mutex_destroy(&pipe->lock);
        pthread_cond_destroy(&pipe->changed);
    }
    clq_free(pipe);
}

/* ---- waiting ---- */

void clq_pipe_abort(clq_pipe *pipe) {
    if (!pipe) return;
    pthread_mutex_lock(&pipe->lock);
    atomic_store(&pipe->aborted, true);
    pthread_cond_broadcast(&pipe->changed);
    pthread_mutex_unlock(&pipe->lock);
}

static bool ready(const clq_pipe *pipe, bool sender) {
    return sender ? pipe->sent - pipe->taken < CLQ_PIPE_SLOTS : pipe->sent > pipe->taken;
}

static clq_status await_turn(clq_pipe *pipe, bool sender, double until) {
    pthread_mutex_lock(&pipe->lock);
    for (double left; !ready(pipe, sender) && !atomic_load(&pipe->aborted) && (left = until - clq_now_running()) > 0;)
        clq_lock_wait(&pipe->lock, &pipe->changed, CLQ_MIN(left, CLQ_RUNNING_LOOK_S));
    const bool is_ready = ready(pipe, sender), aborted = atomic_load(&pipe->aborted);
    pthread_mutex_unlock(&pipe->lock);
    if (aborted) return clq_fail(CLQ_ERROR_ABORTED, "another stage of the pipeline failed");
    if (is_ready) return CLQ_OK;
    return clq_fail(CLQ_ERROR_TIMEOUT, "the stage on %s %s nothing within the deadline of %g s (deadline_s)",
                    clq_device_label(sender ? pipe->to : pipe->from), sender ? "took" : "sent", pipe->deadline_s);
}

/* event NULL: there was no transfer, since no rows were sent or the slot is new. */
static clq_status await_transfer(const clq_pipe *pipe, clq_event *event, double until) {
    bool complete = !event;
    if (event) CLQ_TRY(clq_event_look(event, &complete));
    if (complete) return CLQ_OK;
    clq_status status = clq_event_wait_until(event, until, &pipe->aborted);
    if (status != CLQ_ERROR_TIMEOUT) return status;
    return clq_fail(CLQ_ERROR_TIMEOUT, "a transfer from %s to %s did not end within the deadline of %g s (deadline_s)",
                    clq_device_label(pipe->from), clq_device_label(pipe->to), pipe->deadline_s);
}

static void go_on(clq_pipe *pipe, uint64_t *counter) {
    pthread_mutex_lock(&pipe->lock);
    ++*counter;
    pthread_cond_broadcast(&pipe->changed);
    pthread_mutex_unlock(&pipe->lock);
}

/* ---- transfers ---- */

clq_status clq_pipe_send(clq_pipe *pipe, clq_queue *queue, const clq_plan *plan, uint32_t count) {
    const double until = clq_now_running() + pipe->deadline_s;
    slot *s = &pipe->slots[pipe->sent % CLQ_PIPE_SLOTS]; /* this thread alone changes `sent` */
    CLQ_TRY(await_turn(pipe, true, until));
    CLQ_TRY(await_transfer(pipe, s->taken, until));
    for (unsigned i = 0; i < pipe->count && count > 0; i++) {
        char *to = (char *)clq_buffer_host(s->memory) + pipe->tensors[i].at;
        clq_queue_name(queue, "send", pipe->sends == CLQ_SENT ? "values" : "gradients");
        CLQ_TRY(clq_queue_read_after(queue, clq_plan_crossing(plan, pipe->sends, pipe->tensors[i].index), 0, to,
                                     count * pipe->tensors[i].row_bytes,
                                     &(clq_order){.done = i + 1 == pipe->count ? &s->sent : NULL}));
    }
    CLQ_TRY(clq_queue_flush(queue));
    go_on(pipe, &pipe->sent);
    return CLQ_OK;
}

clq_status clq_pipe_receive(clq_pipe *pipe, clq_queue *queue, const clq_plan *plan, uint32_t count) {
    const double until = clq_now_running() + pipe->deadline_s;
    slot *s = &pipe->slots[pipe->taken % CLQ_PIPE_SLOTS]; /* this thread alone changes `taken` */
    CLQ_TRY(await_turn(pipe, false, until));
    CLQ_TRY(await_transfer(pipe, s->sent, until));
    if (s->other && s->taken) CLQ_TRY(await_transfer(pipe, s->taken, until));
    for (unsigned i = 0; i < pipe->count && count > 0; i++) {
        const size_t bytes = count * pipe->tensors[i].row_bytes;
        const char *from = (const char *)clq_buffer_host(s->memory) + pipe->tensors[i].at;
        if (s->other) {
            char *copy = (char *)clq_buffer_host(s->other) + pipe->tensors[i].at;
            memcpy(copy, from, bytes);
            from = copy;
        }
        clq_queue_name(queue, "receive", pipe->sends == CLQ_SENT ? "values" : "gradients");
        CLQ_TRY(clq_queue_write_after(queue, clq_plan_crossing(plan, pipe->receives, pipe->tensors[i].index), 0, from,
                                      bytes, &(clq_order){.done = i + 1 == pipe->count ? &s->taken : NULL}));
    }
    CLQ_TRY(clq_queue_flush(queue)); /* before it uses the slot again, the sender waits for this transfer */
    go_on(pipe, &pipe->taken);
    return CLQ_OK;
}

clq_status clq_pipe_await_sent(clq_pipe *pipe) {
    if (!pipe || pipe->sent == 0) return CLQ_OK;
    return await_transfer(pipe, pipe->slots[(pipe->sent - 1) % CLQ_PIPE_SLOTS].sent,
                          clq_now_running() + pipe->deadline_s);
}
