#include "lane.h"

#include <string.h>

/* A slot has the default size of the library's link chunks: the host copies faster what fits a core's cache. */
enum { SLOTS = 2, SLOT_BYTES = 256 << 10, SEEN_BYTES = 16 };

static unsigned char pattern(uint64_t seed, size_t i) { return (unsigned char)(1 + (i + 37 * seed) % 251); }

/* Writes in pieces, so that a large lane needs little host memory. */
static clq_status write_source(clq_bench_lane *lane, unsigned char *piece) {
    for (size_t at = 0; at < lane->bytes; at += SLOT_BYTES) {
        size_t bytes = CLQ_MIN((size_t)SLOT_BYTES, lane->bytes - at);
        memset(piece, 0, bytes);
        CLQ_TRY(clq_queue_write(lane->up, lane->target, at, piece, bytes, true));
        for (size_t i = 0; i < bytes; i++) piece[i] = pattern(lane->seed, at + i);
        CLQ_TRY(clq_queue_write(lane->down, lane->source, at, piece, bytes, true));
    }
    return CLQ_OK;
}

clq_status clq_bench_lane_open(clq_device *from, clq_device *to, bool staged, size_t bytes, uint64_t seed,
                               clq_bench_lane *lane) {
    *lane = (clq_bench_lane){.bytes = bytes, .seed = seed};
    CLQ_TRY(clq_queue_create(from, 0, &lane->down));
    CLQ_TRY(clq_queue_create(to, 0, &lane->up));
    CLQ_TRY(clq_buffer_create(from, CLQ_MEMORY_DEVICE, bytes, "what is sent", &lane->source));
    CLQ_TRY(clq_buffer_create(to, CLQ_MEMORY_DEVICE, bytes, "what is received", &lane->target));
    if (staged) {
        const size_t slots = (size_t)SLOTS * SLOT_BYTES;
        CLQ_TRY(clq_buffer_create(from, CLQ_MEMORY_PINNED, slots, "staging slots", &lane->slots));
        CLQ_TRY(clq_buffer_create(to, CLQ_MEMORY_PINNED, slots, "staging slots", &lane->arrivals));
    } else if (from != to) {
        CLQ_TRY(clq_buffer_create(to, CLQ_MEMORY_DEVICE, SEEN_BYTES, "what was seen", &lane->seen));
    }
    unsigned char *piece = clq_alloc(SLOT_BYTES, 1);
    if (!piece) return CLQ_ERROR_MEMORY;
    clq_status status = write_source(lane, piece);
    clq_free(piece);
    return status;
}

void clq_bench_lane_release(clq_bench_lane *lane) {
    if (lane->up) (void)clq_queue_finish(lane->up); /* after a failure, transfers may still use the slots */
    if (lane->down) (void)clq_queue_finish(lane->down);
    clq_buffer_destroy(lane->slots);
    clq_buffer_destroy(lane->arrivals);
    clq_buffer_destroy(lane->seen);
    clq_buffer_destroy(lane->target);
    clq_buffer_destroy(lane->source);
    clq_queue_destroy(lane->up);
    clq_queue_destroy(lane->down);
    *lane = (clq_bench_lane){0};
}

/* ---- staged: through memory pinned for each of the two devices, as the library's links work ---- */

typedef struct stage {
    clq_event *filled[SLOTS], *freed[SLOTS];
} stage;

/* Waits for *event and destroys it. NULL: does nothing. */
static clq_status await(clq_event **event) {
    if (!*event) return CLQ_OK;
    clq_status status = clq_event_wait(*event);
    clq_event_destroy(*event);
    *event = NULL;
    return status;
}

static clq_status fill_slot(clq_bench_lane *lane, stage *s, size_t chunk) {
    size_t slot = chunk % SLOTS, at = chunk * SLOT_BYTES, bytes = CLQ_MIN((size_t)SLOT_BYTES, lane->bytes - at);
    char *host = (char *)clq_buffer_host(lane->slots) + slot * SLOT_BYTES;
    CLQ_TRY(clq_queue_read(lane->down, lane->source, at, host, bytes, false));
    return clq_queue_mark(lane->down, &s->filled[slot]);
}

static clq_status empty_slot(clq_bench_lane *lane, stage *s, size_t chunk) {
    size_t slot = chunk % SLOTS, at = chunk * SLOT_BYTES, bytes = CLQ_MIN((size_t)SLOT_BYTES, lane->bytes - at);
    const char *filled = (const char *)clq_buffer_host(lane->slots) + slot * SLOT_BYTES;
    char *host = (char *)clq_buffer_host(lane->arrivals) + slot * SLOT_BYTES;
    CLQ_TRY(await(&s->filled[slot]));
    CLQ_TRY(await(&s->freed[slot]));
    memcpy(host, filled, bytes);
    CLQ_TRY(clq_queue_write(lane->up, lane->target, at, host, bytes, false));
    return clq_queue_mark(lane->up, &s->freed[slot]);
}

static clq_status send_chunks(clq_bench_lane *lane, stage *s) {
    size_t chunks = clq_ceil_div(lane->bytes, SLOT_BYTES);
    CLQ_TRY(fill_slot(lane, s, 0));
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        if (chunk + 1 < chunks) CLQ_TRY(fill_slot(lane, s, chunk + 1));
        CLQ_TRY(empty_slot(lane, s, chunk));
    }
    return clq_queue_finish(lane->up);
}

static clq_status move_staged(clq_bench_lane *lane) {
    stage s = {{NULL}, {NULL}};
    clq_status status = send_chunks(lane, &s);
    for (size_t i = 0; i < SLOTS; i++) {
        clq_event_destroy(s.filled[i]);
        clq_event_destroy(s.freed[i]);
    }
    return status;
}

/* ---- peer ---- */

/* Copies to the target, and waits until a command of the receiver has used the bytes. The second command matters:
 * drivers that keep a copy of a buffer on each device write only the sender's, and bring it over when the receiver uses
 * it. */
static clq_status move_to_peer(clq_bench_lane *lane) {
    CLQ_TRY(clq_queue_copy(lane->down, lane->source, 0, lane->target, 0, lane->bytes));
    CLQ_TRY(clq_queue_finish(lane->down));
    if (!lane->seen) return CLQ_OK; /* within one device */
    CLQ_TRY(clq_queue_copy(lane->up, lane->target, 0, lane->seen, 0, CLQ_MIN(lane->bytes, (size_t)SEEN_BYTES)));
    return clq_queue_finish(lane->up);
}

/* ---- both ---- */

clq_status clq_bench_lane_move(clq_bench_lane *lane, uint64_t repeats) {
    for (uint64_t i = 0; i < repeats; i++) CLQ_TRY(lane->slots ? move_staged(lane) : move_to_peer(lane));
    return CLQ_OK;
}

clq_status clq_bench_lane_check(clq_bench_lane *lane, uint64_t *wrong) {
    unsigned char *piece = clq_alloc(SLOT_BYTES, 1);
    clq_status status = piece ? CLQ_OK : CLQ_ERROR_MEMORY;
    uint64_t count = 0;
    for (size_t at = 0; at < lane->bytes && status == CLQ_OK; at += SLOT_BYTES) {
        size_t bytes = CLQ_MIN((size_t)SLOT_BYTES, lane->bytes - at);
        status = clq_queue_read(lane->up, lane->target, at, piece, bytes, true);
        for (size_t i = 0; i < bytes && status == CLQ_OK; i++) count += piece[i] != pattern(lane->seed, at + i);
    }
    clq_free(piece);
    if (status == CLQ_OK) *wrong = count;
    return status;
}
