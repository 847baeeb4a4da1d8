#include "comm/crew.h"

#include <string.h>

enum { ROUNDS = 5 };
static const size_t few_bytes = 4096;

typedef struct probe {
    const clq_crew *crew;
    clq_link *link;
    clq_queue *down, *up;
    clq_buffer *source;
    clq_event *filled[CLQ_SLOTS_MAX];
} probe;

/* ---- measuring: as many chunks as there are slots, as a collective sends them ---- */

static clq_status write_chunks(probe *p, size_t bytes) {
    for (unsigned i = 0; i < p->crew->slots; i++) {
        CLQ_TRY(clq_event_wait(p->filled[i]));
        CLQ_TRY(
            clq_queue_write(p->up, p->link->scratch, i * p->crew->chunk_bytes, p->link->slots[i].host, bytes, false));
    }
    return CLQ_OK;
}

static clq_status pass_staged(probe *p, size_t bytes) {
    clq_status status = CLQ_OK;
    for (unsigned i = 0; i < p->crew->slots && status == CLQ_OK; i++) {
        status = clq_queue_read(p->down, p->source, i * p->crew->chunk_bytes, p->link->slots[i].host, bytes, false);
        if (status == CLQ_OK) status = clq_queue_mark(p->down, &p->filled[i]);
    }
    if (status == CLQ_OK) status = write_chunks(p, bytes);
    for (unsigned i = 0; i < p->crew->slots; i++) {
        clq_event_destroy(p->filled[i]);
        p->filled[i] = NULL;
    }
    return status == CLQ_OK ? clq_queue_finish(p->up) : status;
}

static clq_status pass_peer(probe *p, size_t bytes) {
    for (unsigned i = 0; i < p->crew->slots; i++) {
        const size_t at = i * p->crew->chunk_bytes;
        CLQ_TRY(clq_queue_copy(p->down, p->source, at, p->link->scratch, at, bytes));
    }
    return clq_queue_finish(p->down);
}

/* Of a chunk: the least of several rounds, behind one that is not counted. */
static clq_status time_chunk(probe *p, clq_status (*pass)(probe *, size_t), size_t bytes, double *out) {
    double best = 1e9;
    for (int round = 0; round <= ROUNDS; round++) {
        double begun = clq_now();
        CLQ_TRY(pass(p, bytes));
        if (round > 0) best = CLQ_MIN(best, clq_now() - begun);
    }
    *out = best / p->crew->slots;
    return CLQ_OK;
}

static clq_status measure_pass(probe *p, clq_status (*pass)(probe *, size_t), clq_cost *out) {
    const size_t many = p->crew->chunk_bytes, few = CLQ_MIN(few_bytes, many / 2);
    double few_s, many_s;
    CLQ_TRY(time_chunk(p, pass, few, &few_s));
    CLQ_TRY(time_chunk(p, pass, many, &many_s));
    out->beta_s = CLQ_MAX(many_s - few_s, 0) / (double)(many - few);
    out->alpha_s = CLQ_MAX(few_s - out->beta_s * (double)few, 1e-9);
    return CLQ_OK;
}

static clq_status measure(const clq_crew *crew, clq_link *link) {
    probe p = {.crew = crew, .link = link};
    clq_device *from = crew->members[link->from].device, *to = crew->members[link->to].device;
    clq_status status = clq_queue_create(from, 0, &p.down);
    if (status == CLQ_OK) status = clq_queue_create(to, 0, &p.up);
    if (status == CLQ_OK)
        status =
            clq_buffer_create(from, CLQ_MEMORY_DEVICE, crew->slots * crew->chunk_bytes, "test of a link", &p.source);
    if (status == CLQ_OK) status = measure_pass(&p, pass_staged, &link->costs[CLQ_TRANSPORT_STAGED]);
    if (status == CLQ_OK) status = measure_pass(&p, pass_peer, &link->costs[CLQ_TRANSPORT_PEER]);
    if (p.down) (void)clq_queue_finish(p.down); /* after a failure nothing may still use the memory */
    if (p.up) (void)clq_queue_finish(p.up);
    clq_buffer_destroy(p.source);
    clq_queue_destroy(p.up);
    clq_queue_destroy(p.down);
    return status;
}

/* ---- keeping ---- */

/* What the times depend on. */
static clq_status make_key(const clq_crew *crew, const clq_link *link, clq_hash128 *out) {
    clq_text text = {0};
    const unsigned ends[2] = {link->from, link->to};
    clq_text_add(&text, "costs of a link 1, %u slots of %zu\n", crew->slots, crew->chunk_bytes);
    for (size_t i = 0; i < CLQ_COUNT_OF(ends); i++) {
        const clq_device_info *info = clq_device_get_info(crew->members[ends[i]].device);
        clq_text_add(&text, "%s %s %s %s %u units\n", info->driver, info->name, info->driver_version, info->pci,
                     info->compute_units);
    }
    if (!text.failed) *out = clq_hash128_of(text.data, strlen(text.data), 0);
    clq_free(text.data);
    return text.failed ? CLQ_MEMORY : CLQ_OK;
}

clq_status clq_link_measure(const clq_crew *crew, clq_link *link) {
    const clq_device *device = crew->members[link->from].device;
    clq_hash128 key;
    void *kept;
    size_t bytes;
    CLQ_TRY(make_key(crew, link, &key));
    CLQ_TRY(clq_device_recall(device, key, &kept, &bytes));
    bool found = kept && bytes == sizeof link->costs;
    if (found) memcpy(link->costs, kept, bytes);
    clq_free(kept);
    if (found) return CLQ_OK;
    CLQ_TRY(measure(crew, link));
    clq_device_remember(device, key, link->costs, sizeof link->costs);
    return CLQ_OK;
}
