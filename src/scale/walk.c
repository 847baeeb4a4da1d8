/* Goes through a schedule in simulated time, message by message, as outer.c does in real time. Receives and sends are
 * in the order of the items (round, chunk). A send waits for the receives up to one round before it. A rank's link
 * carries one message after another in each direction, and both directions at once. */
#include "scale/scale.h"

typedef struct rank_clock {
    double sent, came; /* when its link is free again: outwards, inwards */
    double received;   /* when it has received the items so far */
    double departs;    /* when the first byte of the current item's message leaves */
    double *before;    /* [stride]: when it had received each of the last `stride` items */
} rank_clock;

typedef struct walker {
    const clq_schedule *schedule;
    const clq_scale_link *link;
    rank_clock *ranks;
    unsigned count; /* of clocks: all ranks, or 1 */
    bool by_one;    /* rank 0 stands for all ranks */
    /* by_one: one rank may wait while rank 0 works with the others. The time when that rank has received what rank 0
     * sent to it. */
    double partner;
    size_t chunks, stride;
    const clq_phase *phase;
} walker;

/* Bytes of a chunk of a range. In rings, trailing parts may be empty while other ranks have whole parts. If rank 0
 * walks alone, it stands for a rank with a whole part. */
static size_t chunk_of(const walker *w, clq_range range, size_t chunk) {
    const size_t most = w->link->message_bytes, skipped = chunk * most;
    const size_t bytes = w->by_one && range.bytes == 0 && !w->phase->by_chunk ? w->phase->most_bytes : range.bytes;
    if (most == 0) return chunk == 0 ? bytes : 0;
    return skipped < bytes ? CLQ_MIN(most, bytes - skipped) : 0;
}

static void send(walker *w, rank_clock *clock, size_t item, size_t bytes, bool receives) {
    const double ready = item < w->stride ? 0 : clock->before[item % w->stride];
    if (bytes == 0) return;
    clock->departs = CLQ_MAX(clock->sent, ready);
    clock->sent = clock->departs + w->link->byte_s * (double)bytes;
    if (!receives) w->partner = clock->sent + w->link->latency_s + w->link->message_s;
}

static void receive(walker *w, rank_clock *clock, double departs, size_t item, size_t bytes, bool reduced) {
    if (bytes > 0) {
        clock->came = CLQ_MAX(clock->came, departs + w->link->latency_s) + w->link->byte_s * (double)bytes;
        clock->received = CLQ_MAX(clock->received, clock->came) + w->link->message_s;
        if (reduced) clock->received += w->link->add_byte_s * (double)bytes;
    }
    clock->before[item % w->stride] = clock->received;
}

static void run_item(walker *w, unsigned phase, size_t item) {
    const size_t rounds = w->phase->rounds, chunk = w->phase->by_chunk ? item / rounds : item % w->chunks;
    const unsigned round = (unsigned)(w->phase->by_chunk ? item % rounds : item / w->chunks);
    for (unsigned r = 0; r < w->count; r++) {
        const clq_hop hop = clq_schedule_hop(w->schedule, phase, r, round);
        send(w, &w->ranks[r], item, chunk_of(w, hop.sent, chunk), chunk_of(w, hop.received, chunk) > 0);
    }
    for (unsigned r = 0; r < w->count; r++) {
        const clq_hop hop = clq_schedule_hop(w->schedule, phase, r, round);
        double departs = w->ranks[w->by_one ? 0 : hop.from].departs;
        if (w->by_one && chunk_of(w, hop.sent, chunk) == 0) departs = w->partner;
        receive(w, &w->ranks[r], departs, item, chunk_of(w, hop.received, chunk), hop.reduced);
    }
}

/* A rank begins a phase when it is done with all of the one before. */
static void start_phase(walker *w, unsigned phase) {
    w->phase = &w->schedule->phase[phase];
    w->chunks = w->link->message_bytes ? clq_ceil_div(w->phase->most_bytes, w->link->message_bytes) : 1;
    w->chunks = CLQ_MAX(w->chunks, (size_t)1);
    w->stride = w->phase->by_chunk ? 1 : w->chunks;
}

static clq_status run_phase(walker *w, unsigned phase) {
    start_phase(w, phase);
    double *before = clq_alloc(w->count * w->stride, sizeof *before);
    if (!before) return CLQ_ERROR_MEMORY;
    for (unsigned r = 0; r < w->count; r++) {
        rank_clock *clock = &w->ranks[r];
        clock->before = before + r * w->stride;
        clock->sent = clock->came = clock->received = CLQ_MAX(clock->sent, clock->received);
    }
    for (size_t item = 0; item < w->phase->rounds * w->chunks; item++) run_item(w, phase, item);
    clq_free(before);
    return CLQ_OK;
}

clq_status clq_scale_walk(const clq_schedule *schedule, const clq_scale_link *link, bool by_one, double *seconds) {
    walker w = {.schedule = schedule, .link = link, .count = by_one ? 1 : schedule->ranks, .by_one = by_one};
    w.ranks = clq_alloc(w.count, sizeof *w.ranks);
    if (!w.ranks) return CLQ_ERROR_MEMORY;
    clq_status status = CLQ_OK;
    for (unsigned phase = 0; status == CLQ_OK && phase < schedule->phases; phase++) status = run_phase(&w, phase);
    double last = w.partner; /* 0 unless a rank has the result later than the walked ones */
    for (unsigned r = 0; r < w.count; r++) last = CLQ_MAX(last, w.ranks[r].received);
    clq_free(w.ranks);
    if (status == CLQ_OK) *seconds = last;
    return status;
}
