/* What a crew's config allows, and what follows from it. */
#include "comm/crew.h"

enum { DEFAULT_SLOTS = 4 };
static const size_t default_chunk_bytes = (size_t)256 << 10, largest_chunk_bytes = (size_t)1 << 30;
static const double default_deadline_s = 30;

static clq_status take_config(clq_crew *crew, const clq_group_config *config) {
    if ((unsigned)config->algorithm >= CLQ_ALGORITHM_COUNT || (unsigned)config->transport >= CLQ_TRANSPORT_COUNT)
        return clq_fail(CLQ_ARGUMENT, "algorithm %d is none of clq_algorithm, or transport %d none of clq_transport",
                        (int)config->algorithm, (int)config->transport);
    if (config->slots > CLQ_SLOTS_MAX || config->chunk_bytes > largest_chunk_bytes)
        return clq_fail(CLQ_ARGUMENT, "slots is %u and chunk_bytes %zu: expected at most %d and %zu", config->slots,
                        config->chunk_bytes, CLQ_SLOTS_MAX, largest_chunk_bytes);
    if (config->bucket_bytes > largest_chunk_bytes)
        return clq_fail(CLQ_ARGUMENT, "bucket_bytes is %zu: expected at most %zu", config->bucket_bytes,
                        largest_chunk_bytes);
    if (!(config->deadline_s >= 0 && config->deadline_s <= 1e9))
        return clq_fail(CLQ_ARGUMENT, "deadline_s is %g: expected seconds from 0 to 1e9", config->deadline_s);
    crew->chunk_bytes = config->chunk_bytes ? clq_round_up(config->chunk_bytes, CLQ_PART_ALIGN) : default_chunk_bytes;
    crew->slots = config->slots ? config->slots : DEFAULT_SLOTS;
    crew->deadline_s = config->deadline_s > 0 ? config->deadline_s : default_deadline_s;
    crew->transport = config->transport;
    return CLQ_OK;
}

/* Ranks whose devices share the host's memory work on it by the host's hands, unless links by commands were asked for:
 * that saves every command, and every byte a transfer. */
static void find_hosted(clq_crew *crew) {
    bool by_commands = crew->transport == CLQ_TRANSPORT_STAGED || crew->transport == CLQ_TRANSPORT_PEER;
    for (unsigned r = 0; r < crew->size; r++)
        crew->members[r].hosted = !by_commands && clq_device_get_info(crew->members[r].device)->host_unified;
}

/* The first rank that is not hosted; the number of ranks: all are. */
static unsigned find_stranger(const clq_crew *crew) {
    unsigned r = 0;
    while (r < crew->size && crew->members[r].hosted) r++;
    return r;
}

/* Direct wherever it can be: it moves 2 n S bytes of host memory against the ring's 5 (n - 1) S or more, and needs two
 * meetings instead of 2 (n - 1) hand-overs. */
static clq_status take_algorithm(clq_crew *crew, clq_algorithm wanted) {
    const unsigned stranger = find_stranger(crew);
    bool direct = wanted == CLQ_ALGORITHM_DIRECT, mapped = crew->transport == CLQ_TRANSPORT_MAPPED;
    bool any = crew->transport == CLQ_TRANSPORT_AUTO;
    if (direct && !any && !mapped)
        return clq_fail(CLQ_UNSUPPORTED,
                        "the direct algorithm works on mapped memory only: choose transport auto or mapped");
    if ((direct || mapped) && stranger < crew->size)
        return clq_fail(CLQ_UNSUPPORTED, "%s does not share the host's memory, which mapped memory needs",
                        clq_device_label(crew->members[stranger].device));
    if (direct || (wanted == CLQ_ALGORITHM_AUTO && stranger == crew->size)) {
        crew->algorithm = CLQ_ALGORITHM_DIRECT;
        crew->reason = direct || mapped ? "as asked" : "every device shares the host's memory";
        return CLQ_OK;
    }
    crew->algorithm = wanted;
    if (wanted != CLQ_ALGORITHM_AUTO)
        crew->reason = "as asked";
    else
        crew->reason = any ? "not every device shares the host's memory" : "links as asked";
    return CLQ_OK;
}

/* Devices of one context are an island, since peer copies may go between them; and so are the hosted ones. */
static void find_islands(clq_crew *crew) {
    unsigned names[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < crew->size; r++) {
        const clq_member *member = &crew->members[r], *other = crew->members;
        while (other != member && !(member->hosted && other->hosted) &&
               (member->hosted || other->hosted || !clq_device_same_context(other->device, member->device)))
            other++;
        names[r] = (unsigned)(other - crew->members);
    }
    clq_islands_make(names, crew->size, &crew->islands);
}

static clq_status make_links(clq_crew *crew) {
    unsigned n = crew->size;
    crew->links = clq_alloc((size_t)n * n, sizeof *crew->links);
    if (!crew->links) return CLQ_MEMORY;
    for (unsigned r = 0; r < n; r++) {
        if (crew->members[r].hosted) continue;
        CLQ_TRY(clq_queue_create(crew->members[r].device, 0, &crew->members[r].up));
        CLQ_TRY(clq_queue_create(crew->members[r].device, 0, &crew->members[r].down));
    }
    return CLQ_OK;
}

clq_status clq_crew_open_ring(clq_crew *crew) {
    unsigned n = crew->size;
    bool rings = crew->algorithm == CLQ_ALGORITHM_AUTO || crew->algorithm == CLQ_ALGORITHM_RING;
    for (unsigned r = 0; rings && n > 1 && r < n; r++)
        CLQ_TRY(clq_link_create(crew, r, (r + 1) % n, &crew->links[r * n + (r + 1) % n]));
    return CLQ_OK;
}

static clq_status check_peers(const clq_crew *crew) {
    if (crew->transport != CLQ_TRANSPORT_PEER || crew->islands.count == 1) return CLQ_OK;
    return clq_fail(CLQ_UNSUPPORTED, "no peer copies from %s to %s: the devices have no context in common",
                    clq_device_label(crew->members[0].device),
                    clq_device_label(crew->members[crew->islands.ranks[crew->islands.begin[1]]].device));
}

clq_status clq_crew_plan(clq_crew *crew) {
    CLQ_TRY(take_config(crew, &crew->config));
    find_hosted(crew);
    CLQ_TRY(take_algorithm(crew, crew->config.algorithm));
    find_islands(crew);
    CLQ_TRY(check_peers(crew));
    if (crew->size == 1 || crew->algorithm == CLQ_ALGORITHM_DIRECT) return CLQ_OK;
    return make_links(crew);
}

/* ---- telling ---- */

/* From which size on chunks go another way, to a part in 64; 0: never. */
static size_t find_turn(const clq_crew *crew, const clq_link *link) {
    const clq_transport first = clq_link_transport(link, 0);
    for (size_t bytes = 64; bytes < crew->chunk_bytes; bytes += CLQ_MAX(bytes / 64, (size_t)4))
        if (clq_link_transport(link, bytes) != first) return bytes;
    return 0;
}

/* what: the collectives that the link is for, as a prefix. */
static void explain_link(const clq_crew *crew, const clq_link *link, const char *what, clq_text *text) {
    const clq_member *from = &crew->members[link->from], *to = &crew->members[link->to];
    clq_text_add(text, "%srank %u to %u (%s to %s): ", what, from->world, to->world, clq_device_label(from->device),
                 clq_device_label(to->device));
    const size_t turn = find_turn(crew, link);
    clq_text_add(text, "%s", clq_transport_name(clq_link_transport(link, 0)));
    if (turn > 0)
        clq_text_add(text, " for chunks below %zu bytes, then %s", turn,
                     clq_transport_name(clq_link_transport(link, turn)));
    if (link->transport != CLQ_TRANSPORT_MAPPED)
        clq_text_add(text, ", %u slots of %zu bytes", crew->slots, crew->chunk_bytes);
    clq_text_add(text, " (%s)\n", link->reason);
    for (int t = 0; t < CLQ_TRANSPORT_COUNT; t++)
        if (link->costs[t].alpha_s > 0)
            clq_text_add(text, "  a chunk %s takes %.1f us + %.3f us per KiB\n", clq_transport_name((clq_transport)t),
                         link->costs[t].alpha_s * 1e6, link->costs[t].beta_s * 1e6 * 1024);
}

static void explain_links(const clq_crew *crew, const char *what, clq_text *text) {
    const size_t n = (size_t)crew->size * crew->size;
    for (size_t i = 0; crew->links && i < n; i++)
        if (crew->links[i]) explain_link(crew, crew->links[i], what, text);
    for (size_t i = 0; crew->pairs && i < n; i++) {
        const clq_crew *pair = atomic_load(&crew->pairs[i]);
        if (pair && pair->size == 2 && clq_crew_is_direct(pair))
            clq_text_add(text, "send/recv: ranks %u and %u: direct over mapped memory (%s)\n", pair->members[0].world,
                         pair->members[1].world, pair->reason);
        if (pair) explain_links(pair, "send/recv: ", text);
    }
}

char *clq_crew_explain(clq_crew *crew) {
    clq_text text = {0};
    if (crew->size == 1) {
        clq_text_add(&text, "one rank: nothing to exchange\n");
    } else if (crew->algorithm == CLQ_ALGORITHM_DIRECT) {
        clq_text_add(&text, "all %u ranks, any size: direct over mapped memory (%s)\n", crew->size, crew->reason);
    } else if (crew->algorithm != CLQ_ALGORITHM_AUTO) {
        clq_text_add(&text, "all %u ranks, any size: %s (%s)\n", crew->size, clq_algorithm_name(crew->algorithm),
                     crew->reason);
    } else {
        clq_crew_explain_choice(crew, &text);
    }
    pthread_mutex_lock(&crew->family->lock); /* ranks that are inside may be making links */
    explain_links(crew, "", &text);
    pthread_mutex_unlock(&crew->family->lock);
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
