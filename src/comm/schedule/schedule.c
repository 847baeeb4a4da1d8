#include "comm/schedule/schedule.h"

#include <string.h>

size_t clq_part_begin(unsigned part, unsigned parts, size_t bytes) {
    size_t size = clq_round_up(clq_ceil_div(bytes, parts), CLQ_PART_ALIGN);
    return CLQ_MIN(bytes, part * size);
}

const char *clq_collective_name(clq_collective collective) {
    static const char *const names[CLQ_COLLECTIVE_COUNT] = {"barrier",   "all-reduce", "reduce-scatter", "all-gather",
                                                            "broadcast", "reduce",     "send/recv"};
    return names[collective];
}

bool clq_collective_reduces(clq_collective collective) {
    return collective == CLQ_ALL_REDUCE || collective == CLQ_REDUCE_SCATTER || collective == CLQ_REDUCE;
}

size_t clq_collective_in_bytes(clq_collective collective, unsigned ranks, unsigned rank, unsigned root, size_t bytes) {
    switch (collective) {
    case CLQ_BARRIER: return 0;
    case CLQ_REDUCE_SCATTER: return ranks * bytes;
    case CLQ_BROADCAST:
    case CLQ_SEND_RECV: return rank == root ? bytes : 0;
    default: return bytes;
    }
}

size_t clq_collective_out_bytes(clq_collective collective, unsigned ranks, unsigned rank, unsigned root, unsigned to,
                                size_t bytes) {
    switch (collective) {
    case CLQ_BARRIER: return 0;
    case CLQ_ALL_GATHER: return ranks * bytes;
    case CLQ_REDUCE: return rank == root ? bytes : 0;
    case CLQ_SEND_RECV: return rank == to ? bytes : 0;
    default: return bytes;
    }
}

static void send(clq_hop *step, unsigned to, clq_place place, size_t begin, size_t bytes) {
    step->to = to;
    step->sent = (clq_range){place, begin, bytes};
}

static void receive(clq_hop *step, unsigned from, clq_place place, size_t begin, size_t bytes) {
    step->from = from;
    step->received = (clq_range){place, begin, bytes};
}

/* Combines what is received with as many bytes of `operand`, from `begin` on. */
static void reduce(clq_hop *step, clq_place operand, size_t begin, bool last) {
    step->reduced = true;
    step->operand = (clq_range){operand, begin, step->received.bytes};
    step->last = last;
}

/* ---- ring: rank r sends to r + 1 only, and receives from r - 1 ---- */

/* All-reduce of a range over m ranks in a circle: a reduce-scatter, then an all-gather. In each of the 2 (m - 1) rounds
 * a rank sends one of m parts and receives one. So 2 (m - 1) / m S bytes go out of and into every device, the least
 * there can be. In round s the rank at `position` sends part position - s and receives part position - s - 1 (modulo
 * m). In the first m - 1 rounds it adds what it receives to its own data. Part p thus starts at position p and is
 * summed in the order p, p + 1, …, p - 1: the order is fixed, and so are the bits. Each sum is completed in one place
 * and only copied from there, so all ranks have the same bits. own: the range with the rank's own data. */
static void circle_step(clq_range own, unsigned position, unsigned m, unsigned round, clq_hop *out) {
    unsigned sent = (position + 2 * m - round) % m, received = (position + 2 * m - round - 1) % m;
    size_t begin = clq_part_begin(sent, m, own.bytes), end = clq_part_begin(sent + 1, m, own.bytes);
    send(out, 0, round == 0 ? own.place : CLQ_PLACE_OUT, own.begin + begin, end - begin);
    out->forwarded = round > 0;
    begin = clq_part_begin(received, m, own.bytes);
    end = clq_part_begin(received + 1, m, own.bytes);
    receive(out, 0, CLQ_PLACE_OUT, own.begin + begin, end - begin);
    if (round + 1 < m) reduce(out, own.place, own.begin + begin, round + 2 == m);
}

static void ring_all_reduce(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    circle_step((clq_range){CLQ_PLACE_IN, 0, s->bytes}, rank, s->ranks, round, out);
    out->to = (rank + 1) % s->ranks;
    out->from = (rank + s->ranks - 1) % s->ranks;
}

/* n - 1 rounds, (n - 1) / n of the whole over every link. Part p starts at rank p + 1 and ends, complete, at rank p.
 * Incomplete sums are in the work memory. */
static void ring_reduce_scatter(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    unsigned n = s->ranks, sent = (rank + 2 * n - 1 - round) % n, received = (rank + 2 * n - 2 - round) % n;
    bool last = round + 2 == n;
    send(out, (rank + 1) % n, round == 0 ? CLQ_PLACE_IN : CLQ_PLACE_WORK, sent * s->bytes, s->bytes);
    out->forwarded = round > 0;
    receive(out, (rank + n - 1) % n, last ? CLQ_PLACE_OUT : CLQ_PLACE_WORK, last ? 0 : received * s->bytes, s->bytes);
    reduce(out, CLQ_PLACE_IN, received * s->bytes, last);
}

/* n - 1 rounds, (n - 1) / n of the whole over every link. */
static void ring_all_gather(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    unsigned n = s->ranks, sent = (rank + n - round) % n, received = (rank + n - 1 - round) % n;
    if (round == 0)
        send(out, (rank + 1) % n, CLQ_PLACE_IN, 0, s->bytes);
    else
        send(out, (rank + 1) % n, CLQ_PLACE_OUT, sent * s->bytes, s->bytes);
    out->forwarded = round > 0;
    receive(out, (rank + n - 1) % n, CLQ_PLACE_OUT, received * s->bytes, s->bytes);
}

/* ---- pipelines along the ring: S bytes over each of n - 1 links, n - 2 chunks of delay ---- */

/* From the root around the ring to the rank before the root. */
static void pipe_broadcast(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    unsigned n = s->ranks, position = (rank + n - s->root) % n;
    if (round == position) {
        send(out, (rank + 1) % n, position == 0 ? CLQ_PLACE_IN : CLQ_PLACE_OUT, 0, s->bytes);
        out->forwarded = position > 0;
    }
    if (round + 1 == position) receive(out, (rank + n - 1) % n, CLQ_PLACE_OUT, 0, s->bytes);
}

/* From the rank after the root around the ring to the root. Summed in the order root + 1, …, root. */
static void pipe_reduce(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    unsigned n = s->ranks, position = (rank + 2 * n - s->root - 1) % n;
    if (round == position) {
        send(out, (rank + 1) % n, position == 0 ? CLQ_PLACE_IN : CLQ_PLACE_WORK, 0, s->bytes);
        out->forwarded = position > 0;
    }
    if (round + 1 == position) {
        receive(out, (rank + n - 1) % n, rank == s->root ? CLQ_PLACE_OUT : CLQ_PLACE_WORK, 0, s->bytes);
        reduce(out, CLQ_PLACE_IN, 0, rank == s->root);
    }
}

static void pair_step(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    (void)round;
    if (s->root == s->to) return;
    if (rank == s->root) send(out, s->to, CLQ_PLACE_IN, 0, s->bytes);
    if (rank == s->to) receive(out, s->root, CLQ_PLACE_OUT, 0, s->bytes);
}

/* ---- stars: all to one rank, and back from it: 2 (n - 1) S bytes through that rank; data make 2 hops ---- */

/* Members 1 … m - 1 of a list send to the first member, one after the other. It sums in the list's order. */
static void gather_step(const clq_schedule *s, const unsigned *members, unsigned m, unsigned rank, unsigned round,
                        bool last, clq_hop *out) {
    if (round + 1 >= m) return;
    if (rank == members[round + 1]) send(out, members[0], CLQ_PLACE_IN, 0, s->bytes);
    if (rank != members[0]) return;
    receive(out, members[round + 1], CLQ_PLACE_OUT, 0, s->bytes);
    reduce(out, round == 0 ? CLQ_PLACE_IN : CLQ_PLACE_OUT, 0, last && round + 2 == m);
}

static void spread_step(const clq_schedule *s, const unsigned *members, unsigned m, unsigned rank, unsigned round,
                        clq_hop *out) {
    if (round + 1 >= m) return;
    if (rank == members[0]) send(out, members[round + 1], CLQ_PLACE_OUT, 0, s->bytes);
    if (rank == members[round + 1]) receive(out, members[0], CLQ_PLACE_OUT, 0, s->bytes);
}

static void star_all_reduce(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    unsigned n = s->ranks, members[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < n; r++) members[r] = r;
    if (round + 1 < n) {
        gather_step(s, members, n, rank, round, true, out);
    } else {
        spread_step(s, members, n, rank, round - (n - 1), out);
        out->forwarded = out->sent.bytes > 0;
    }
}

/* ---- hierarchical: a star in every island, a ring across the leaders, and back ---- */

static unsigned island_size(const clq_islands *islands, unsigned island) {
    return islands->begin[island + 1] - islands->begin[island];
}

static void island_gather(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    const clq_islands *islands = s->islands;
    unsigned mine = islands->of[rank];
    gather_step(s, islands->ranks + islands->begin[mine], island_size(islands, mine), rank, round, islands->count == 1,
                out);
}

static void island_ring(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    const clq_islands *islands = s->islands;
    unsigned mine = islands->of[rank], m = islands->count;
    if (rank != islands->ranks[islands->begin[mine]]) return;
    const clq_place own = island_size(islands, mine) > 1 ? CLQ_PLACE_OUT : CLQ_PLACE_IN;
    circle_step((clq_range){own, 0, s->bytes}, mine, m, round, out);
    out->to = islands->ranks[islands->begin[(mine + 1) % m]];
    out->from = islands->ranks[islands->begin[(mine + m - 1) % m]];
}

static void island_spread(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    const clq_islands *islands = s->islands;
    unsigned mine = islands->of[rank];
    spread_step(s, islands->ranks + islands->begin[mine], island_size(islands, mine), rank, round, out);
}

void clq_islands_make(const unsigned *names, unsigned ranks, clq_islands *out) {
    memset(out, 0, sizeof *out);
    unsigned at = 0;
    for (unsigned r = 0; r < ranks; r++) {
        unsigned before = 0;
        while (before < r && names[before] != names[r]) before++;
        if (before < r) continue;
        out->begin[out->count] = at;
        for (unsigned other = r; other < ranks; other++) {
            if (names[other] != names[r]) continue;
            out->of[other] = out->count;
            out->ranks[at++] = other;
        }
        out->begin[++out->count] = at;
    }
}

/* ---- doubling: partners at distance 1, 2, 4, … exchange all they have: log2 n rounds of S bytes ---- */

static unsigned levels_of(unsigned ranks) {
    unsigned levels = 0;
    while (2u << levels <= ranks) levels++;
    return levels;
}

/* The ranks beyond the largest power of two add their data to a lower rank's first, and get the result last. Both
 * partners combine the same two numbers in the same order, the lower rank's number first. So they get the same bits,
 * also for NaNs and zeros. */
static void doubling_step(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    const unsigned levels = levels_of(s->ranks), power = 1u << levels, extras = s->ranks - power;
    const bool folds = extras > 0;
    if (folds && round == 0) {
        if (rank >= power) send(out, rank - power, CLQ_PLACE_IN, 0, s->bytes);
        if (rank >= extras) return;
        receive(out, rank + power, CLQ_PLACE_OUT, 0, s->bytes);
        reduce(out, CLQ_PLACE_IN, 0, false);
        return;
    }
    unsigned level = round - folds;
    if (level == levels) {
        if (rank < extras) send(out, rank + power, CLQ_PLACE_OUT, 0, s->bytes);
        out->forwarded = out->sent.bytes > 0;
        if (rank >= power) receive(out, rank - power, CLQ_PLACE_OUT, 0, s->bytes);
        return;
    }
    if (rank >= power) return;
    bool fresh = level == 0 && rank >= extras;
    clq_place mine = fresh ? CLQ_PLACE_IN : CLQ_PLACE_OUT;
    send(out, rank ^ (1u << level), mine, 0, s->bytes);
    out->forwarded = !fresh;
    receive(out, rank ^ (1u << level), CLQ_PLACE_OUT, 0, s->bytes);
    reduce(out, mine, 0, level + 1 == levels);
    out->came_first = (rank >> level & 1) != 0;
    out->exchanged = true;
}

static unsigned doubling_rounds(unsigned ranks) {
    const unsigned levels = levels_of(ranks);
    return ranks == 1u << levels ? levels : levels + 2;
}

/* ---- torus: rings along the rows of a grid, and along its columns ---- */

/* Row r has the ranks r w to r w + w - 1. The width w is the largest one that does not exceed the number of rows; 1:
 * there is no grid, since the number of ranks is prime. */
static unsigned torus_width(unsigned ranks) {
    unsigned width = 1;
    for (unsigned w = 2; w <= ranks / w; w++)
        if (ranks % w == 0) width = w;
    return width;
}

/* A reduce-scatter along the row, an all-reduce of the rank's part along the column, and an all-gather along the row.
 * As many bytes as a ring's, 2 (n - 1) / n S, in 2 (w - 1) + 2 (n / w - 1) rounds instead of 2 (n - 1). */
static void torus_row(const clq_schedule *s, unsigned rank, unsigned round, unsigned skipped, clq_hop *out) {
    const unsigned width = torus_width(s->ranks), at = rank % width;
    circle_step((clq_range){CLQ_PLACE_IN, 0, s->bytes}, at, width, skipped + round, out);
    out->to = rank - at + (at + 1) % width;
    out->from = rank - at + (at + width - 1) % width;
    out->forwarded = round > 0;
    out->last = false;
}

static void torus_scatter(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    torus_row(s, rank, round, 0, out);
}

static void torus_column(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    const unsigned width = torus_width(s->ranks), part = (rank % width + 1) % width;
    const size_t begin = clq_part_begin(part, width, s->bytes), end = clq_part_begin(part + 1, width, s->bytes);
    circle_step((clq_range){CLQ_PLACE_OUT, begin, end - begin}, rank / width, s->ranks / width, round, out);
    out->to = (rank + width) % s->ranks;
    out->from = (rank + s->ranks - width) % s->ranks;
}

static void torus_gather(const clq_schedule *s, unsigned rank, unsigned round, clq_hop *out) {
    torus_row(s, rank, round, torus_width(s->ranks) - 1, out);
}

/* ---- making ---- */

static void add_phase(clq_schedule *s, unsigned rounds, size_t most, bool by_chunk,
                      void (*step)(const clq_schedule *, unsigned, unsigned, clq_hop *)) {
    if (rounds > 0) s->phase[s->phases++] = (clq_phase){rounds, most, by_chunk, step};
}

static void make_hierarchical(clq_schedule *s) {
    unsigned deepest = 1, islands = s->islands->count;
    for (unsigned i = 0; i < islands; i++) deepest = CLQ_MAX(deepest, island_size(s->islands, i));
    add_phase(s, deepest - 1, s->bytes, true, island_gather);
    add_phase(s, 2 * (islands - 1), clq_part_begin(1, islands, s->bytes), false, island_ring);
    add_phase(s, deepest - 1, s->bytes, true, island_spread);
}

static void make_torus(clq_schedule *s) {
    const unsigned width = torus_width(s->ranks), height = s->ranks / width;
    const size_t part = clq_part_begin(1, width, s->bytes);
    add_phase(s, width - 1, part, false, torus_scatter);
    add_phase(s, 2 * (height - 1), clq_part_begin(1, height, part), false, torus_column);
    add_phase(s, width - 1, part, false, torus_gather);
}

static void make_all_reduce(clq_algorithm algorithm, clq_schedule *s) {
    unsigned n = s->ranks;
    if (algorithm == CLQ_ALGORITHM_HIERARCHICAL)
        make_hierarchical(s);
    else if (algorithm == CLQ_ALGORITHM_DOUBLING)
        add_phase(s, doubling_rounds(n), s->bytes, true, doubling_step);
    else if (algorithm == CLQ_ALGORITHM_TORUS)
        make_torus(s);
    else if (algorithm == CLQ_ALGORITHM_REDUCE_TO_ONE)
        add_phase(s, 2 * (n - 1), s->bytes, true, star_all_reduce);
    else
        add_phase(s, 2 * (n - 1), clq_part_begin(1, n, s->bytes), false, ring_all_reduce);
}

clq_algorithm clq_schedule_form(clq_algorithm asked, clq_collective collective, unsigned ranks) {
    const bool has_form = collective == CLQ_ALL_REDUCE && (asked != CLQ_ALGORITHM_TORUS || torus_width(ranks) > 1);
    return has_form ? asked : CLQ_ALGORITHM_RING;
}

void clq_schedule_make(clq_algorithm algorithm, clq_collective collective, unsigned ranks, unsigned root, unsigned to,
                       size_t bytes, const clq_islands *islands, clq_schedule *out) {
    *out = (clq_schedule){.ranks = ranks, .root = root, .to = to, .bytes = bytes, .islands = islands};
    switch (collective) {
    case CLQ_ALL_REDUCE: make_all_reduce(clq_schedule_form(algorithm, collective, ranks), out); break;
    case CLQ_REDUCE_SCATTER:
        add_phase(out, ranks - 1, bytes, false, ring_reduce_scatter);
        out->work_bytes = ranks > 2 ? ranks * bytes : 0;
        break;
    case CLQ_ALL_GATHER: add_phase(out, ranks - 1, bytes, false, ring_all_gather); break;
    case CLQ_BROADCAST: add_phase(out, ranks - 1, bytes, true, pipe_broadcast); break;
    case CLQ_REDUCE:
        add_phase(out, ranks - 1, bytes, true, pipe_reduce);
        out->work_bytes = ranks > 2 ? bytes : 0;
        break;
    default: add_phase(out, 1, bytes, false, pair_step); break;
    }
}

/* A message's start takes as long as this many bytes do, at 1 Gbit/s. */
static const size_t start_bytes = (size_t)8 << 10;
/* AUTO takes doubling up to doubling_bytes, and a torus from TORUS_RANKS ranks on. */
static const size_t doubling_bytes = (size_t)32 << 10;
enum { TORUS_RANKS = 64 };

/* The cost of the rounds along a ring, in bytes: the start of each message, and the message itself. */
static size_t circle_cost(unsigned ranks, size_t bytes) { return 2 * (ranks - 1) * (start_bytes + bytes / ranks); }

static clq_algorithm by_bytes(unsigned ranks, size_t bytes) {
    const unsigned levels = levels_of(ranks) + (ranks > 1u << levels_of(ranks)), width = torus_width(ranks);
    const size_t ring = circle_cost(ranks, bytes),
                 torus = circle_cost(width, bytes) + circle_cost(ranks / width, bytes / width);
    const bool is_torus = ranks >= TORUS_RANKS && width > 1 && torus < ring;
    if (bytes <= doubling_bytes && levels * (start_bytes + bytes) < (is_torus ? torus : ring))
        return CLQ_ALGORITHM_DOUBLING;
    return is_torus ? CLQ_ALGORITHM_TORUS : CLQ_ALGORITHM_RING;
}

clq_algorithm clq_schedule_between(clq_algorithm asked, unsigned ranks, size_t bytes) {
    switch (asked) {
    case CLQ_ALGORITHM_DOUBLING:
    case CLQ_ALGORITHM_RING:
    case CLQ_ALGORITHM_TORUS: return clq_schedule_form(asked, CLQ_ALL_REDUCE, ranks);
    case CLQ_ALGORITHM_HIERARCHICAL: return CLQ_ALGORITHM_RING;
    case CLQ_ALGORITHM_REDUCE_TO_ONE: return ranks <= CLQ_REPLICAS_MAX ? asked : CLQ_ALGORITHM_RING;
    default: return by_bytes(ranks, bytes);
    }
}

clq_hop clq_schedule_hop(const clq_schedule *schedule, unsigned phase, unsigned rank, unsigned round) {
    clq_hop step = {0};
    schedule->phase[phase].step(schedule, rank, round, &step);
    return step;
}

clq_range clq_schedule_own(const clq_schedule *s, clq_collective collective, unsigned rank) {
    bool broadcast = collective == CLQ_BROADCAST && rank == s->root;
    bool itself = collective == CLQ_SEND_RECV && rank == s->root && rank == s->to;
    bool gathers = collective == CLQ_ALL_GATHER;
    return (clq_range){CLQ_PLACE_OUT, gathers ? rank * s->bytes : 0, broadcast || itself || gathers ? s->bytes : 0};
}
