/* Bytes from one rank to another. */
#include "world/inside.h"

/* An engine's message has at most this many bytes. */
static const size_t piece_bytes = (size_t)64 << 20;

typedef struct message {
    clq_job job;
    bool is_sent;
    unsigned peer, tag;
    char *data;
    size_t bytes, begun; /* of which messages were begun */
    void *request;
} message;

static clq_status advance(clq_job *job, clq_world *world, bool *moved, bool *done) {
    message *self = (message *)job;
    bool piece_done;
    CLQ_TRY(clq_world_test(world, &self->request, moved, &piece_done));
    while (piece_done && self->begun < self->bytes) {
        const size_t bytes = CLQ_MIN(piece_bytes, self->bytes - self->begun);
        char *at = self->data + self->begun;
        self->begun += bytes;
        CLQ_TRY(self->is_sent ? clq_world_begin_send(world, self->peer, self->tag, at, bytes, &self->request)
                              : clq_world_begin_receive(world, self->peer, self->tag, at, bytes, &self->request));
        CLQ_TRY(clq_world_test(world, &self->request, moved, &piece_done));
    }
    *done = piece_done;
    return CLQ_OK;
}

static clq_status run(clq_world *world, message *self) {
    if (self->peer >= clq_world_size(world) || self->peer == clq_world_rank(world))
        return clq_fail(CLQ_INTERNAL, "a message between rank %u and rank %u", clq_world_rank(world), self->peer);
    self->job = (clq_job){.advance = advance, .waits_for = self->peer, .doing = "a message"};
    return clq_world_run(world, &self->job);
}

clq_status clq_world_send(clq_world *world, unsigned to, unsigned tag, const void *data, size_t bytes) {
    message self = {.is_sent = true, .peer = to, .tag = tag, .data = (char *)(uintptr_t)data, .bytes = bytes};
    return run(world, &self);
}

clq_status clq_world_receive(clq_world *world, unsigned from, unsigned tag, void *data, size_t bytes) {
    message self = {.peer = from, .tag = tag, .data = data, .bytes = bytes};
    return run(world, &self);
}
