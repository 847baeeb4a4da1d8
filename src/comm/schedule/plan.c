/* What a communicator's config allows, and what follows from it. */
#include "comm/communicator.h"
#include "comm/outer/wide.h"

enum { DEFAULT_SLOTS = 4 };
static const size_t default_chunk_bytes = (size_t)256 << 10, largest_chunk_bytes = (size_t)1 << 30;
static const double default_deadline_s = 30;

static clq_status take_config(clq_comm *comm, const clq_group_config *config) {
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_group_config, config));
    if ((unsigned)config->algorithm >= CLQ_ALGORITHM_COUNT || (unsigned)config->transport >= CLQ_TRANSPORT_COUNT)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "algorithm %d is none of clq_algorithm, or transport %d none of clq_transport",
                        (int)config->algorithm, (int)config->transport);
    if (config->slots > CLQ_SLOTS_MAX || config->chunk_bytes > largest_chunk_bytes)
        return clq_fail(CLQ_ERROR_ARGUMENT, "slots is %u and chunk_bytes %zu: expected at most %d and %zu",
                        config->slots, config->chunk_bytes, CLQ_SLOTS_MAX, largest_chunk_bytes);
    if (config->bucket_bytes > largest_chunk_bytes)
        return clq_fail(CLQ_ERROR_ARGUMENT, "bucket_bytes is %zu: expected at most %zu", config->bucket_bytes,
                        largest_chunk_bytes);
    if (!(config->deadline_s >= 0 && config->deadline_s <= 1e9))
        return clq_fail(CLQ_ERROR_ARGUMENT, "deadline_s is %g: expected seconds from 0 to 1e9", config->deadline_s);
    comm->chunk_bytes = config->chunk_bytes ? clq_round_up(config->chunk_bytes, CLQ_PART_ALIGN) : default_chunk_bytes;
    comm->slots = config->slots ? config->slots : DEFAULT_SLOTS;
    comm->deadline_s = config->deadline_s > 0 ? config->deadline_s : default_deadline_s;
    comm->transport = config->transport;
    return CLQ_OK;
}

/* A rank is hosted if its device shares the host's memory: the host then works on that memory itself, which saves every
 * command and every transfer. Exception: links by commands were asked for. */
static void find_hosted(clq_comm *comm) {
    bool by_commands = comm->transport == CLQ_TRANSPORT_STAGED || comm->transport == CLQ_TRANSPORT_PEER;
    for (unsigned r = 0; r < comm->size; r++)
        comm->members[r].hosted = !by_commands && clq_device_get_info(comm->members[r].device)->host_unified;
}

/* AUTO takes direct whenever it is possible: it moves 2 n S bytes of host memory against the ring's 5 (n - 1) S or
 * more, and needs two meetings instead of 2 (n - 1) hand-overs. */
static clq_status take_algorithm(clq_comm *comm, clq_algorithm wanted) {
    unsigned stranger = 0; /* the first rank that is not hosted; comm->size: all are hosted */
    while (stranger < comm->size && comm->members[stranger].hosted) stranger++;
    bool direct = wanted == CLQ_ALGORITHM_DIRECT, mapped = comm->transport == CLQ_TRANSPORT_MAPPED;
    bool any = comm->transport == CLQ_TRANSPORT_AUTO;
    if (direct && !any && !mapped)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "the direct algorithm works on mapped memory only: choose transport auto or mapped");
    if ((direct || mapped) && stranger < comm->size)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s does not share the host's memory, which mapped memory needs",
                        clq_device_label(comm->members[stranger].device));
    comm->algorithm = wanted;
    comm->reason = "as asked";
    if (wanted == CLQ_ALGORITHM_AUTO && stranger == comm->size) {
        comm->algorithm = CLQ_ALGORITHM_DIRECT;
        if (!mapped) comm->reason = "every device shares the host's memory";
    } else if (wanted == CLQ_ALGORITHM_AUTO) {
        comm->reason = any ? "not every device shares the host's memory" : "links as asked";
    }
    return CLQ_OK;
}

/* Devices with the same context are an island, since peer copies may go between them. The hosted ranks are an island,
 * too. */
static void find_islands(clq_comm *comm) {
    unsigned names[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < comm->size; r++) {
        const clq_member *member = &comm->members[r], *other = comm->members;
        while (other != member && !(member->hosted && other->hosted) &&
               (member->hosted || other->hosted || !clq_device_same_context(other->device, member->device)))
            other++;
        names[r] = (unsigned)(other - comm->members);
    }
    clq_islands_make(names, comm->size, &comm->islands);
}

static clq_status make_links(clq_comm *comm) {
    unsigned n = comm->size;
    comm->links = clq_alloc((size_t)n * n, sizeof *comm->links);
    if (!comm->links) return CLQ_ERROR_MEMORY;
    for (unsigned r = 0; r < n; r++) {
        if (comm->members[r].hosted) continue;
        CLQ_TRY(clq_queue_create(comm->members[r].device, 0, &comm->members[r].up));
        CLQ_TRY(clq_queue_create(comm->members[r].device, 0, &comm->members[r].down));
    }
    return CLQ_OK;
}

static clq_status check_peers(const clq_comm *comm) {
    if (comm->transport != CLQ_TRANSPORT_PEER || comm->islands.count == 1) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "no peer copies from %s to %s: the devices have no context in common",
                    clq_device_label(comm->members[0].device),
                    clq_device_label(comm->members[comm->islands.ranks[comm->islands.begin[1]]].device));
}

clq_status clq_comm_plan(clq_comm *comm) {
    CLQ_TRY(take_config(comm, &comm->config));
    find_hosted(comm);
    CLQ_TRY(take_algorithm(comm, comm->config.algorithm));
    find_islands(comm);
    CLQ_TRY(check_peers(comm));
    if (comm->size == 1 || comm->algorithm == CLQ_ALGORITHM_DIRECT) return CLQ_OK;
    return make_links(comm);
}

/* ---- telling ---- */

/* The size from which on chunks take another transport, to one part in 64; 0: never. */
static size_t find_turn(const clq_comm *comm, const clq_link *link) {
    const clq_transport first = clq_link_transport(link, 0);
    for (size_t bytes = 64; bytes < comm->chunk_bytes; bytes += CLQ_MAX(bytes / 64, (size_t)4))
        if (clq_link_transport(link, bytes) != first) return bytes;
    return 0;
}

/* what: a prefix, which names the collectives that the link is for. */
static void explain_link(const clq_comm *comm, const clq_link *link, const char *what, clq_text *text) {
    const clq_member *from = link->from, *to = link->to;
    const size_t turn = find_turn(comm, link);
    clq_text_add(text, "%srank %u to %u (%s to %s): %s", what, from->world, to->world, clq_device_label(from->device),
                 clq_device_label(to->device), clq_transport_name(clq_link_transport(link, 0)));
    if (turn > 0)
        clq_text_add(text, " for chunks below %zu bytes, then %s", turn,
                     clq_transport_name(clq_link_transport(link, turn)));
    if (link->transport != CLQ_TRANSPORT_MAPPED)
        clq_text_add(text, ", %u slots of %zu bytes", comm->slots, comm->chunk_bytes);
    clq_text_add(text, " (%s)\n", link->reason);
    for (int t = 0; t < CLQ_TRANSPORT_COUNT; t++)
        if (link->costs[t].alpha_s > 0)
            clq_text_add(text, "  a chunk %s takes %.1f us + %.3f us per KiB\n", clq_transport_name((clq_transport)t),
                         link->costs[t].alpha_s * 1e6, link->costs[t].beta_s * 1e6 * 1024);
}

static void explain_links(const clq_comm *comm, const char *what, clq_text *text) {
    const size_t n = (size_t)comm->size * comm->size;
    for (size_t i = 0; comm->links && i < n; i++)
        if (comm->links[i]) explain_link(comm, comm->links[i], what, text);
    for (size_t i = 0; comm->pairs && i < n; i++) {
        const clq_comm *pair = atomic_load(&comm->pairs[i]);
        if (pair && pair->size == 2 && clq_comm_is_direct(pair))
            clq_text_add(text, "send/recv: ranks %u and %u: direct over mapped memory (%s)\n", pair->members[0].world,
                         pair->members[1].world, pair->reason);
        if (pair) explain_links(pair, "send/recv: ", text);
    }
}

char *clq_comm_explain(clq_comm *comm) {
    clq_text text = {0};
    if (comm->wide) clq_wide_explain(comm->wide, &text);
    if (comm->size == 1) {
        clq_text_add(&text, comm->wide ? "one rank in this process\n" : "one rank: nothing to exchange\n");
    } else if (comm->algorithm == CLQ_ALGORITHM_DIRECT) {
        clq_text_add(&text, "all %u ranks, any size: direct over mapped memory (%s)\n", comm->size, comm->reason);
    } else if (comm->algorithm != CLQ_ALGORITHM_AUTO) {
        const clq_algorithm algorithm = clq_comm_choose(comm, CLQ_ALL_REDUCE, 0);
        clq_text_add(&text, "all %u ranks, any size: %s (%s)\n", comm->size, clq_algorithm_name(algorithm),
                     comm->reason);
        if (algorithm != CLQ_ALGORITHM_RING) clq_text_add(&text, "other collectives, any size: ring\n");
    } else {
        clq_comm_explain_choice(comm, &text);
    }
    pthread_mutex_lock(&comm->family->lock); /* ranks that are inside may be making links */
    explain_links(comm, "", &text);
    pthread_mutex_unlock(&comm->family->lock);
    if (!text.failed) return text.data;
    clq_free(text.data);
    return NULL;
}

/* ---- names ---- */

#define CLQ_NAME_OF(name, text) text,
static const char *const redop_names[] = {CLQ_REDOP_MAP(CLQ_NAME_OF)};
static const char *const algorithm_names[] = {CLQ_ALGORITHM_MAP(CLQ_NAME_OF)};
static const char *const transport_names[] = {CLQ_TRANSPORT_MAP(CLQ_NAME_OF)};

const char *clq_redop_name(clq_redop op) { return (unsigned)op < CLQ_REDOP_COUNT ? redop_names[op] : "unknown"; }
const char *clq_algorithm_name(clq_algorithm algorithm) {
    return (unsigned)algorithm < CLQ_ALGORITHM_COUNT ? algorithm_names[algorithm] : "unknown";
}
const char *clq_transport_name(clq_transport transport) {
    return (unsigned)transport < CLQ_TRANSPORT_COUNT ? transport_names[transport] : "unknown";
}
