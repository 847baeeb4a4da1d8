/* How the bytes of a crew will move: chosen by rule here, in one place, and made ready. */
#include "comm/crew.h"

enum { DEFAULT_SLOTS = 2, MOST_SLOTS = 64 };
static const size_t default_chunk_bytes = (size_t)1 << 20, largest_chunk_bytes = (size_t)1 << 30;
static const double default_deadline_s = 30;

static clq_status take_config(clq_crew *crew, const clq_group_config *config) {
    if ((unsigned)config->algorithm > CLQ_ALGORITHM_DIRECT || (unsigned)config->transport > CLQ_TRANSPORT_MAPPED)
        return clq_fail(CLQ_ARGUMENT, "no such algorithm (%d) or transport (%d)", (int)config->algorithm,
                        (int)config->transport);
    if (config->slots > MOST_SLOTS || config->chunk_bytes > largest_chunk_bytes)
        return clq_fail(CLQ_ARGUMENT, "%u slots of %zu bytes: at most %d slots of %zu", config->slots,
                        config->chunk_bytes, MOST_SLOTS, largest_chunk_bytes);
    if (!(config->deadline_s >= 0 && config->deadline_s <= 1e9))
        return clq_fail(CLQ_ARGUMENT, "a deadline of %g s", config->deadline_s);
    crew->chunk_bytes = config->chunk_bytes ? clq_round_up(config->chunk_bytes, CLQ_PART_ALIGN) : default_chunk_bytes;
    crew->slots = config->slots ? config->slots : DEFAULT_SLOTS;
    crew->deadline_s = config->deadline_s > 0 ? config->deadline_s : default_deadline_s;
    return CLQ_OK;
}

/* The first device whose memory the host has no part in; NULL: there is none. */
static const clq_device *not_mapped(const clq_crew *crew) {
    for (unsigned r = 0; r < crew->size; r++)
        if (!clq_device_get_info(crew->members[r].device)->host_unified) return crew->members[r].device;
    return NULL;
}

/* Direct wherever it can be: it moves 2 n S bytes of host memory against the ring's 5 (n - 1) S or more, and needs two
 * meetings instead of 2 (n - 1) hand-overs. */
static clq_status choose_algorithm(clq_crew *crew, const clq_group_config *config) {
    const clq_device *stranger = not_mapped(crew);
    bool direct = config->algorithm == CLQ_ALGORITHM_DIRECT, mapped = config->transport == CLQ_TRANSPORT_MAPPED;
    bool ring = config->algorithm == CLQ_ALGORITHM_RING;
    bool linked = config->transport == CLQ_TRANSPORT_STAGED || config->transport == CLQ_TRANSPORT_PEER;
    if (direct && linked)
        return clq_fail(CLQ_UNSUPPORTED,
                        "the direct algorithm works on mapped memory only: choose transport auto or mapped");
    if (ring && mapped)
        return clq_fail(CLQ_UNSUPPORTED,
                        "the ring sends over staged or peer links: choose algorithm auto or direct for mapped memory");
    if ((direct || mapped) && stranger)
        return clq_fail(CLQ_UNSUPPORTED, "%s does not share the host's memory, which direct over mapped memory needs",
                        clq_device_label(stranger));
    if (direct || mapped || (!ring && !linked && !stranger)) {
        crew->algorithm = CLQ_ALGORITHM_DIRECT;
        crew->reason = direct || mapped ? "as asked" : "every device shares the host's memory";
    } else {
        crew->algorithm = CLQ_ALGORITHM_RING;
        crew->reason = ring || linked ? "as asked" : "not every device shares the host's memory";
    }
    return CLQ_OK;
}

/* What a rank needs to be part of a ring. */
static clq_status equip_member(const clq_crew *crew, clq_member *member) {
    clq_device *device = member->device;
    const clq_device_info *info = clq_device_get_info(device);
    bool tile = clq_device_family(device) == CLQ_FAMILY_TILE;
    CLQ_TRY(clq_queue_create(device, 0, &member->up));
    CLQ_TRY(clq_queue_create(device, 0, &member->down));
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, crew->slots * crew->chunk_bytes, "received chunks",
                              &member->scratch));
    CLQ_TRY(clq_kernel_create(device, "comm", tile ? "-DTILE" : "", "comm_add", &member->add));
    /* Enough to keep every unit busy with several groups; the stride takes care of the rest. */
    member->add_items = tile ? clq_device_min_groups(device) : (size_t)CLQ_MAX(info->compute_units, 1u) * 1024;
    return CLQ_OK;
}

/* Peer copies inside a shared context save one of two transfers, but some drivers corrupt them, so
 * each pair is tested. */
static clq_status choose_transport(clq_crew *crew, clq_link *link, clq_transport wanted) {
    const clq_device *from = crew->members[link->from].device, *to = crew->members[link->to].device;
    bool shared = clq_device_same_context(from, to), arrives = false;
    link->transport = CLQ_TRANSPORT_STAGED;
    link->reason = wanted == CLQ_TRANSPORT_STAGED ? "as asked" : "the devices have no context in common";
    if (wanted == CLQ_TRANSPORT_STAGED) return CLQ_OK;
    if (shared) {
        link->reason = "peer copies failed their test";
        clq_status status = clq_link_test(crew, link, &arrives);
        if (status == CLQ_MEMORY || status == CLQ_DEVICE_MEMORY) return status;
    }
    if (arrives) {
        link->transport = CLQ_TRANSPORT_PEER;
        link->reason = wanted == CLQ_TRANSPORT_PEER ? "as asked"
                                                    : "the devices share a context, and peer copies passed their test";
    } else if (wanted == CLQ_TRANSPORT_PEER) {
        return clq_fail(CLQ_UNSUPPORTED, "no peer copies from %s to %s: %s", clq_device_label(from),
                        clq_device_label(to), link->reason);
    }
    return CLQ_OK;
}

static clq_status make_ring(clq_crew *crew, clq_transport wanted) {
    crew->links = clq_alloc_aligned(_Alignof(clq_link), crew->size * sizeof *crew->links);
    if (!crew->links) return CLQ_MEMORY;
    for (unsigned r = 0; r < crew->size; r++) CLQ_TRY(equip_member(crew, &crew->members[r]));
    for (unsigned r = 0; r < crew->size; r++) {
        clq_link *link = &crew->links[r];
        link->from = r;
        link->to = (r + 1) % crew->size;
        CLQ_TRY(choose_transport(crew, link, wanted));
        CLQ_TRY(clq_link_open(crew, link));
    }
    return CLQ_OK;
}

clq_status clq_crew_plan(clq_crew *crew, const clq_group_config *config) {
    static const clq_group_config all_defaults;
    if (!config) config = &all_defaults;
    CLQ_TRY(take_config(crew, config));
    CLQ_TRY(choose_algorithm(crew, config));
    crew->reduce = clq_reduce_f32_best();
    if (crew->size == 1 || crew->algorithm == CLQ_ALGORITHM_DIRECT) return CLQ_OK;
    return make_ring(crew, config->transport);
}

char *clq_crew_explain(const clq_crew *crew) {
    clq_text text = {0};
    if (crew->size == 1) {
        clq_text_add(&text, "one rank: nothing to exchange\n");
    } else if (crew->algorithm == CLQ_ALGORITHM_DIRECT) {
        clq_text_add(&text, "all %u ranks, any size: direct over mapped memory (%s)\n", crew->size, crew->reason);
    } else {
        for (unsigned r = 0; r < crew->size; r++) {
            const clq_link *link = &crew->links[r];
            bool staged = link->transport == CLQ_TRANSPORT_STAGED;
            clq_text_add(&text, "rank %u to %u (%s to %s), any size: ring (%s) over %s, %u slots of %zu bytes (%s)\n",
                         link->from, link->to, clq_device_label(crew->members[link->from].device),
                         clq_device_label(crew->members[link->to].device), crew->reason,
                         staged ? "staged host memory" : "peer copies", crew->slots, crew->chunk_bytes, link->reason);
        }
    }
    if (!text.failed) return text.data;
    clq_free(text.data);
    return NULL;
}
