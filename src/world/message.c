/* Messages from one rank to another, the broadcast, and the engine's own all-reduce. */
#include "world/inside.h"

/* A long message goes in pieces, and some of them are under way at once. Over a network a piece has as many bytes as
 * the engine sends without an answer from the receiver, and up to 2 MiB are under way (docs/decisions/072). On one host
 * pieces are longer, but not so long that heartbeats wait long behind one. */
static const size_t near_piece_bytes = (size_t)1 << 20, window_bytes = (size_t)2 << 20;

static void cut(const clq_world *world, clq_message *self) {
    self->piece_bytes = clq_world_is_near(world) ? near_piece_bytes : clq_world_message_bytes(world);
    const size_t fitting = window_bytes / CLQ_MAX(self->piece_bytes, (size_t)1);
    self->window = (unsigned)CLQ_MIN(CLQ_MAX(fitting, (size_t)1), (size_t)CLQ_MESSAGE_PIECES_MAX);
}

static clq_status begin_piece(clq_message *self, clq_world *world) {
    const size_t bytes = CLQ_MIN(self->piece_bytes, self->bytes - self->begun);
    char *at = self->data + self->begun;
    void **request = &self->requests[self->pieces_begun++ % self->window];
    self->begun += bytes;
    return self->is_sent ? clq_world_begin_send(world, self->peer, self->tag, at, bytes, request)
                         : clq_world_begin_receive(world, self->peer, self->tag, at, bytes, request);
}

/* Tests pieces in the order in which they were begun. */
static clq_status advance(clq_job *job, clq_world *world, bool *moved, bool *done) {
    clq_message *self = (clq_message *)job;
    for (bool goes_on = true; goes_on;) {
        while (self->begun < self->bytes && self->pieces_begun - self->pieces_done < self->window)
            CLQ_TRY(begin_piece(self, world));
        goes_on = false;
        if (self->pieces_done == self->pieces_begun) break;
        CLQ_TRY(clq_world_test(world, &self->requests[self->pieces_done % self->window], moved, &goes_on));
        self->pieces_done += goes_on;
    }
    *done = self->begun == self->bytes && self->pieces_done == self->pieces_begun;
    return CLQ_OK;
}

static clq_status prepare(const clq_world *world, clq_message *self) {
    if (self->peer >= world->size || self->peer == clq_world_rank(world))
        return clq_fail(CLQ_ERROR_INTERNAL, "a message between rank %u and rank %u", clq_world_rank(world), self->peer);
    self->job =
        (clq_job){.advance = advance, .deadline_s = self->deadline_s, .waits_for = self->peer, .doing = "a message"};
    cut(world, self);
    return CLQ_OK;
}

clq_status clq_world_begin_message(clq_world *world, clq_message *self) {
    CLQ_TRY(prepare(world, self));
    clq_world_post(world, &self->job);
    return CLQ_OK;
}

static clq_status run_message(clq_world *world, clq_message *self) {
    CLQ_TRY(prepare(world, self));
    return clq_world_run(world, &self->job);
}

clq_status clq_world_send(clq_world *world, unsigned to, unsigned tag, const void *data, size_t bytes,
                          double deadline_s) {
    clq_message self = {.is_sent = true,
                        .peer = to,
                        .tag = tag,
                        .data = (char *)(uintptr_t)data,
                        .bytes = bytes,
                        .deadline_s = deadline_s};
    return run_message(world, &self);
}

clq_status clq_world_receive(clq_world *world, unsigned from, unsigned tag, void *data, size_t bytes,
                             double deadline_s) {
    clq_message self = {.peer = from, .tag = tag, .data = data, .bytes = bytes, .deadline_s = deadline_s};
    return run_message(world, &self);
}

/* A binomial tree: a rank receives from the rank without its lowest set bit, and sends to the ranks that have one more
 * bit set below that bit. */
clq_status clq_world_broadcast(clq_world *world, void *data, size_t bytes) {
    const unsigned size = clq_world_size(world), rank = clq_world_rank(world);
    CLQ_TRY(clq_world_failure(world));
    if (size == 1 || bytes == 0) return CLQ_OK;
    unsigned bit = 1;
    while (bit < size && !(rank & bit)) bit <<= 1;
    if (rank > 0) CLQ_TRY(clq_world_receive(world, rank - bit, CLQ_TAG_BROADCAST, data, bytes, 0));
    for (bit >>= 1; bit > 0; bit >>= 1)
        if (rank + bit < size) CLQ_TRY(clq_world_send(world, rank + bit, CLQ_TAG_BROADCAST, data, bytes, 0));
    return CLQ_OK;
}

/* ---- the engine's own ---- */

typedef struct engine_sum {
    clq_job job;
    const float *in;
    float *out;
    size_t count;
} engine_sum;

static clq_status add_by_engine(clq_job *job, clq_world *world, bool *moved, bool *done) {
    const engine_sum *self = (const engine_sum *)job;
    const int error = world->engine->all_reduce(world->link, self->in, self->out, self->count);
    *moved = *done = true;
    return error ? clq_world_engine_failed(world, "its own all-reduce", error) : CLQ_OK;
}

/* An engine that waits for a rank that is gone waits forever, and the world's thread with it. */
static const double engine_deadline_s = 10;

clq_status clq_world_engine_all_reduce(clq_world *world, const float *in, float *out, size_t count) {
    if (clq_world_size(world) == 1 || !world->engine->all_reduce)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s has no all-reduce of its own", clq_world_engine_name(world));
    engine_sum *self = clq_alloc(1, sizeof *self);
    if (!self) return clq_world_fail_with(world, CLQ_ERROR_MEMORY); /* the others wait for this rank */
    *self =
        (engine_sum){.job = {.advance = add_by_engine, .doing = "an all-reduce"}, .in = in, .out = out, .count = count};
    clq_world_post(world, &self->job);
    if (!clq_world_wait_up_to(world, &self->job, engine_deadline_s)) /* the job stays with the thread */
        return clq_world_fail_with(
            world, clq_fail(CLQ_ERROR_TIMEOUT, "%s's own all-reduce is not done within %g s: a rank is late, or gone",
                            world->engine->name, engine_deadline_s));
    const clq_status status = clq_world_wait(world, &self->job);
    clq_free(self);
    return status;
}
