#include "lane.h"
#include "values.h"

#include <math.h>

/* ---- if all memory is the host's ---- */

static unsigned all_cores(const clq_bench_traffic *t) {
    unsigned cores = 0;
    for (unsigned r = 0; r < t->n; r++) cores += clq_bench_cores_of(t->devices[r]);
    return CLQ_MIN(cores, clq_cpu_count());
}

/* Bytes that algorithm direct reads and writes, given as bytes of a copy: a copied byte is one read and one write. */
static double direct_bytes(const clq_bench_traffic *t) {
    double n = t->n, s = (double)t->bytes;
    switch (t->collective) {
    case CLQ_ALL_REDUCE: return n * s;
    case CLQ_REDUCE_SCATTER: return n * (n + 1) * s / 2;
    case CLQ_ALL_GATHER: return n * (t->in_place ? n - 1 : n) * s;
    case CLQ_BROADCAST: return (t->in_place ? n - 1 : n) * s;
    case CLQ_REDUCE: return (n + 1) * s / 2;
    default: return s;
    }
}

/* The fewest bytes that links copy and that ranks combine. A byte on its way to its place is copied once, or twice
 * through a slot. A byte to be combined is read from the slot; over mapped memory it is read from where it is, without
 * a copy. */
static void link_bytes(const clq_bench_traffic *t, double *copied, double *combined) {
    double n = t->n, s = (double)t->bytes, moves = t->transport == CLQ_TRANSPORT_STAGED ? 2 : 1;
    double brings = t->transport == CLQ_TRANSPORT_MAPPED ? 0 : 1;
    *combined = 0;
    switch (t->collective) {
    case CLQ_ALL_REDUCE:
        *combined = (n - 1) * s;
        *copied = (n - 1) * s * (brings + moves);
        break;
    case CLQ_REDUCE_SCATTER:
        *combined = n * (n - 1) * s;
        *copied = *combined * brings;
        break;
    case CLQ_REDUCE:
        *combined = (n - 1) * s;
        *copied = *combined * brings;
        break;
    case CLQ_ALL_GATHER: *copied = n * (n - 1) * s * moves; break;
    case CLQ_BROADCAST: *copied = (n - 1) * s * moves; break;
    default: *copied = s * moves; break;
    }
}

static clq_status limit_in_host_memory(const clq_bench_traffic *t, double *us) {
    double copied = direct_bytes(t), combined = 0, copy_gbps, add_gbps = INFINITY;
    unsigned cores = all_cores(t);
    if (!t->direct) link_bytes(t, &copied, &combined);
    /* The measurement uses as much memory as the call touches. A copy touches two bytes for each byte it moves. */
    size_t held = CLQ_MAX((size_t)(t->in_place ? (copied + combined) / 2 : copied + combined), (size_t)4096);
    held = CLQ_MIN(held, (size_t)256 << 20);
    /* A reduction in place is measured as an update of one array. Otherwise a copy has two arrays, each of half as many
     * bytes. */
    bool updates = t->direct && t->in_place && (t->collective == CLQ_ALL_REDUCE || t->collective == CLQ_REDUCE);
    CLQ_TRY(
        clq_bench_host_rate(cores, updates ? 2 * held : held, updates ? CLQ_BENCH_UPDATE : CLQ_BENCH_COPY, &copy_gbps));
    if (combined > 0) CLQ_TRY(clq_bench_host_rate(cores, held, CLQ_BENCH_ADD, &add_gbps));
    *us = (copied / copy_gbps + combined / add_gbps) * 1e-3;
    return CLQ_OK;
}

/* ---- if bytes go over links ---- */

/* Bytes that the busiest link carries. */
static double bytes_per_link(const clq_bench_traffic *t) {
    double n = t->n, s = (double)t->bytes;
    if (t->collective == CLQ_ALL_REDUCE) return 2 * (n - 1) / n * s;
    return t->collective == CLQ_REDUCE_SCATTER || t->collective == CLQ_ALL_GATHER ? (n - 1) * s : s;
}

/* Whether the collective sends bytes from this rank to the next one: around the ring, away from the root, or toward
 * it. */
static bool uses_link(const clq_bench_traffic *t, unsigned from) {
    switch (t->collective) {
    case CLQ_BROADCAST: return (from + 1) % t->n != t->root;
    case CLQ_REDUCE: return from != t->root;
    case CLQ_SEND_RECV: return from == t->root;
    default: return true;
    }
}

static clq_status move_all(void *context, uint64_t repeats) { return clq_bench_lane_move(context, repeats); }

static clq_status rate_of_link(const clq_bench_traffic *t, unsigned from, unsigned to, double *gbps) {
    const size_t bytes = (size_t)16 << 20;
    if (t->run->world) return clq_bench_rate_between(t->run, from, to, bytes, gbps);
    clq_bench_lane lane = {0};
    clq_bench_times times;
    bool staged = t->transport == CLQ_TRANSPORT_STAGED || !clq_device_same_context(t->devices[from], t->devices[to]);
    clq_status status = clq_bench_lane_open(t->devices[from], t->devices[to], staged, bytes, 1, &lane);
    if (status == CLQ_OK) status = clq_bench_measure(t->run, &(clq_bench_work){move_all, NULL, &lane}, &times);
    clq_bench_lane_release(&lane);
    if (status == CLQ_OK) *gbps = (double)bytes / times.p50_us * 1e-3;
    return status;
}

clq_status clq_bench_collective_limit(const clq_bench_traffic *t, double *slowest_gbps, double *us) {
    *us = NAN;
    if (t->n < 2 || t->bytes == 0) return CLQ_OK;
    bool shared = !t->run->world;
    for (unsigned r = 0; r < t->n && shared; r++) shared = shared && clq_device_get_info(t->devices[r])->host_unified;
    if (shared) return limit_in_host_memory(t, us);
    if (*slowest_gbps == 0) {
        *slowest_gbps = INFINITY;
        for (unsigned r = 0; r < t->n; r++) {
            double gbps;
            if (!uses_link(t, r)) continue;
            CLQ_TRY(rate_of_link(t, r, (r + 1) % t->n, &gbps));
            *slowest_gbps = CLQ_MIN(*slowest_gbps, gbps);
        }
    }
    *us = bytes_per_link(t) / *slowest_gbps * 1e-3;
    return CLQ_OK;
}
