/* Peer copies between two devices of one context: whether they are correct, and whether they are faster than staged
 * slots. Both are judged by what a kernel of the receiver sees, and when it has seen it. The sender cannot judge: a
 * driver may keep a copy of a buffer on each device, and then the sender's copy has the right data at once, whatever
 * the receiver's has. */
#include "comm/communicator.h"

#include <string.h>

enum { TIMINGS = 5, TEST_ROUNDS = 8, PIECES = 16 };
static const size_t few_bytes = 4096;

typedef struct probe {
    clq_link *link;
    unsigned slots;
    size_t chunk_bytes, bytes; /* of one slot, and of all slots */
    clq_queue *down, *up;
    clq_buffer *source;       /* on the sender's device */
    clq_buffer *shared;       /* on the receiver's device; both devices write it */
    clq_buffer *zeros, *seen; /* on the receiver's device: what its kernel adds, and the sum */
    clq_buffer *pinned;       /* for the receiver's device */
    clq_kernel *add;
    float *words; /* host pointer of `pinned` */
    clq_event *filled[CLQ_SLOTS_MAX], *used[CLQ_SLOTS_MAX];
} probe;

static clq_status open_probe(clq_link *link, probe *p) {
    const clq_comm *comm = link->from->comm;
    clq_device *from = link->from->device, *to = link->to->device;
    *p = (probe){link, comm->slots, comm->chunk_bytes, .bytes = comm->slots * comm->chunk_bytes};
    CLQ_TRY(clq_queue_create(from, 0, &p->down));
    CLQ_TRY(clq_queue_create(to, 0, &p->up));
    CLQ_TRY(clq_buffer_create(from, CLQ_MEMORY_DEVICE, p->bytes, "test of a link", &p->source));
    CLQ_TRY(clq_buffer_create(to, CLQ_MEMORY_DEVICE, p->bytes, "test of a link", &p->shared));
    CLQ_TRY(clq_buffer_create(to, CLQ_MEMORY_DEVICE, p->bytes, "test of a link", &p->zeros));
    CLQ_TRY(clq_buffer_create(to, CLQ_MEMORY_DEVICE, p->bytes, "test of a link", &p->seen));
    CLQ_TRY(clq_buffer_create(to, CLQ_MEMORY_PINNED, p->bytes, "test of a link", &p->pinned));
    p->words = clq_buffer_host(p->pinned);
    return clq_combine_create(to, CLQ_F32, CLQ_REDOP_SUM, &p->add);
}

static void close_probe(probe *p) {
    if (p->down) (void)clq_queue_finish(p->down); /* after a failure, commands may still use the memory */
    if (p->up) (void)clq_queue_finish(p->up);
    for (unsigned i = 0; i < CLQ_SLOTS_MAX; i++) {
        clq_event_destroy(p->filled[i]);
        clq_event_destroy(p->used[i]);
    }
    clq_kernel_destroy(p->add);
    clq_buffer_destroy(p->pinned);
    clq_buffer_destroy(p->seen);
    clq_buffer_destroy(p->zeros);
    clq_buffer_destroy(p->shared);
    clq_buffer_destroy(p->source);
    clq_queue_destroy(p->up);
    clq_queue_destroy(p->down);
}

/* *out: the order for a command on the queue that waits for the event. If the queue's device runs in its caller, the
 * host waits here instead. */
static clq_status after(const clq_queue *queue, clq_event *event, clq_order *out) {
    *out = (clq_order){.after = {event}};
    if (!event || !clq_device_runs_in_caller(clq_queue_device(queue))) return CLQ_OK;
    *out = (clq_order){.done = NULL};
    return clq_event_wait(event);
}

/* A kernel of the receiver adds bytes from a place to zeros, into `seen`. */
static clq_status see(probe *p, clq_place_at from, size_t at, size_t bytes, const clq_order *order) {
    return clq_combine_launch(p->up, p->add, CLQ_F32, (clq_place_at){p->seen, at}, (clq_place_at){p->zeros, at}, from,
                              bytes, 0, order);
}

/* Sends one chunk of the source through a slot's landing, as collectives do. */
static clq_status send_chunk(probe *p, unsigned slot, size_t bytes) {
    const size_t at = slot * p->chunk_bytes;
    clq_buffer *landing = p->link->slots[slot].landing;
    clq_order order;
    CLQ_TRY(after(p->down, p->used[slot], &order));
    order.done = &p->filled[slot];
    CLQ_TRY(clq_queue_copy_after(p->down, p->source, at, landing, 0, bytes, &order));
    CLQ_TRY(clq_queue_flush(p->down));
    CLQ_TRY(after(p->up, p->filled[slot], &order));
    order.done = &p->used[slot];
    CLQ_TRY(see(p, (clq_place_at){landing, 0}, at, bytes, &order));
    return clq_queue_flush(p->up);
}

/* ---- testing ---- */

/* The test's words: whole numbers below 2^23, which adding zero does not change; different ones in each round. */
static float word_of(unsigned round, size_t i) { return (float)((((uint32_t)i + round * 7919u) * 2654435761u) >> 9); }

static clq_status fill_source(probe *p, unsigned round) {
    for (size_t i = 0; i < p->bytes / sizeof(float); i++) p->words[i] = word_of(round, i);
    return clq_queue_write(p->down, p->source, 0, p->words, p->bytes, true);
}

/* Checks that the receiver's kernels have seen the round's words; otherwise *ok becomes false. */
static clq_status check(probe *p, unsigned round, bool *ok) {
    CLQ_TRY(clq_queue_read(p->up, p->seen, 0, p->words, p->bytes, true));
    for (size_t i = 0; i < p->bytes / sizeof(float); i++) *ok = *ok && p->words[i] == word_of(round, i);
    return CLQ_OK;
}

/* Both devices write their halves of one buffer, piece by piece; neither waits for the other. */
static clq_status write_halves(probe *p, unsigned round) {
    const size_t half = p->bytes / 2; /* whole words: chunks are multiples of CLQ_PART_ALIGN */
    const size_t piece = CLQ_MAX(half / PIECES / sizeof(float), (size_t)1) * sizeof(float);
    CLQ_TRY(fill_source(p, round));
    for (size_t at = 0; at < half; at += piece) {
        const size_t bytes = CLQ_MIN(piece, half - at);
        CLQ_TRY(clq_queue_copy(p->down, p->source, at, p->shared, at, bytes));
        CLQ_TRY(clq_queue_write(p->up, p->shared, half + at, (const char *)p->words + half + at, bytes, false));
        CLQ_TRY(clq_queue_flush(p->down));
        CLQ_TRY(clq_queue_flush(p->up));
    }
    CLQ_TRY(clq_queue_finish(p->down));
    return clq_queue_finish(p->up);
}

static clq_status test(probe *p, bool *ok) {
    for (unsigned round = 1; *ok && round <= TEST_ROUNDS; round++) {
        CLQ_TRY(write_halves(p, round));
        CLQ_TRY(see(p, (clq_place_at){p->shared, 0}, 0, p->bytes, NULL));
        CLQ_TRY(check(p, round, ok));
    }
    for (unsigned round = TEST_ROUNDS + 1; *ok && round <= 2 * TEST_ROUNDS; round++) {
        CLQ_TRY(fill_source(p, round));
        for (unsigned slot = 0; slot < p->slots; slot++) CLQ_TRY(send_chunk(p, slot, p->chunk_bytes));
        CLQ_TRY(check(p, round, ok));
    }
    return CLQ_OK;
}

clq_status clq_link_test_peer(clq_link *link, bool *ok) {
    probe p;
    *ok = true;
    clq_status status = open_probe(link, &p);
    if (status == CLQ_OK) status = test(&p, ok);
    close_probe(&p);
    return status;
}

/* ---- measuring: as many chunks as there are slots, as a collective sends them ---- */

static clq_status pass_staged(probe *p, size_t bytes) {
    const clq_link *link = p->link;
    for (unsigned i = 0; i < p->slots; i++) {
        const clq_order order = {.done = &p->filled[i]};
        CLQ_TRY(clq_queue_read_after(p->down, p->source, i * p->chunk_bytes, link->slots[i].outgoing, bytes, &order));
    }
    CLQ_TRY(clq_queue_flush(p->down));
    for (unsigned i = 0; i < p->slots; i++) {
        const size_t at = i * p->chunk_bytes;
        CLQ_TRY(clq_event_wait(p->filled[i]));
        memcpy(link->slots[i].incoming, link->slots[i].outgoing, bytes);
        CLQ_TRY(clq_queue_write(p->up, link->scratch, at, link->slots[i].incoming, bytes, false));
        CLQ_TRY(see(p, (clq_place_at){link->scratch, at}, at, bytes, NULL));
        CLQ_TRY(clq_queue_flush(p->up));
    }
    return clq_queue_finish(p->up);
}

static clq_status pass_peer(probe *p, size_t bytes) {
    for (unsigned i = 0; i < p->slots; i++) CLQ_TRY(send_chunk(p, i, bytes));
    return clq_queue_finish(p->up);
}

/* Times a chunk: the shortest of several rounds, after one that does not count. */
static clq_status time_chunk(probe *p, clq_status (*pass)(probe *, size_t), size_t bytes, double *out) {
    double best = 1e9;
    for (int round = 0; round <= TIMINGS; round++) {
        double begun = clq_now();
        CLQ_TRY(pass(p, bytes));
        if (round > 0) best = CLQ_MIN(best, clq_now() - begun);
    }
    *out = best / p->slots;
    return CLQ_OK;
}

static clq_status measure_pass(probe *p, clq_status (*pass)(probe *, size_t), clq_cost *out) {
    const size_t many = p->chunk_bytes, few = CLQ_MIN(few_bytes, many / 2);
    double few_s, many_s;
    CLQ_TRY(time_chunk(p, pass, few, &few_s));
    CLQ_TRY(time_chunk(p, pass, many, &many_s));
    out->beta_s = CLQ_MAX(many_s - few_s, 0) / (double)(many - few);
    out->alpha_s = CLQ_MAX(few_s - out->beta_s * (double)few, 1e-9);
    return CLQ_OK;
}

static clq_status measure(clq_link *link) {
    probe p;
    clq_status status = open_probe(link, &p);
    if (status == CLQ_OK) status = measure_pass(&p, pass_staged, &link->costs[CLQ_TRANSPORT_STAGED]);
    if (status == CLQ_OK) status = measure_pass(&p, pass_peer, &link->costs[CLQ_TRANSPORT_PEER]);
    close_probe(&p);
    return status;
}

/* ---- keeping ---- */

/* The key for kept times: a hash of all that they depend on. */
static clq_status make_key(const clq_link *link, clq_hash128 *out) {
    const clq_comm *comm = link->from->comm;
    const clq_member *const ends[2] = {link->from, link->to};
    clq_text text = {0};
    clq_text_add(&text, "costs of a link 2, %u slots of %zu\n", comm->slots, comm->chunk_bytes);
    for (size_t i = 0; i < CLQ_COUNT_OF(ends); i++) {
        const clq_device_info *info = clq_device_get_info(ends[i]->device);
        clq_text_add(&text, "%s %s %s %s %u units\n", info->driver, info->name, info->driver_version, info->pci,
                     info->compute_units);
    }
    if (!text.failed) *out = clq_hash128_of(text.data, strlen(text.data), 0);
    clq_free(text.data);
    return text.failed ? CLQ_ERROR_MEMORY : CLQ_OK;
}

clq_status clq_link_measure(clq_link *link) {
    const clq_device *device = link->from->device;
    clq_hash128 key;
    void *kept;
    size_t bytes;
    CLQ_TRY(make_key(link, &key));
    CLQ_TRY(clq_device_recall(device, key, &kept, &bytes));
    bool found = kept && bytes == sizeof link->costs;
    if (found) memcpy(link->costs, kept, bytes);
    clq_free(kept);
    if (found) return CLQ_OK;
    CLQ_TRY(measure(link));
    clq_device_remember(device, key, link->costs, sizeof link->costs);
    return CLQ_OK;
}
