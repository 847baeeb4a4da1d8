/* Measures the links between neighbors in the ring of processes, by messages there and back. These are sent as
 * collectives send theirs, and so include the way from the caller to the world's thread. */
#include "why/rig.h"

#include <string.h>

/* Few bytes give the latency. Many bytes give the link's rate: they take 35 ms at 1 Gbit/s. */
enum { FEW_BYTES = 64, MANY_BYTES = 4 << 20, FEW_LOOKS = 41, MANY_LOOKS = 5 };

typedef struct link_probing {
    clq_world *world;
    clq_outer *outer;
    char *out, *in; /* of MANY_BYTES */
} link_probing;

/* Seconds in one direction: the median of some looks. The first look is not counted, because the other process may be
 * late. */
static clq_status look(const link_probing *p, unsigned from, unsigned to, size_t bytes, size_t count, double *seconds) {
    const clq_outer_way way = {.from = from, .to = to, .returns = true, .bytes = bytes, .out = p->out, .in = p->in};
    double looks[FEW_LOOKS];
    for (size_t i = 0; i <= count; i++) {
        const double start = clq_now();
        CLQ_TRY(clq_outer_travel(p->outer, &way));
        if (i > 0) looks[i - 1] = (clq_now() - start) / 2;
    }
    *seconds = clq_median(looks, count);
    return CLQ_OK;
}

static clq_status probe_link(const link_probing *p, unsigned from, unsigned to, clq_link_probe *out) {
    double few_s, many_s;
    CLQ_TRY(look(p, from, to, FEW_BYTES, FEW_LOOKS, &few_s));
    CLQ_TRY(look(p, from, to, MANY_BYTES, MANY_LOOKS, &many_s));
    const double beta_s = CLQ_MAX((many_s - few_s) / (MANY_BYTES - FEW_BYTES), 1e-12);
    *out = (clq_link_probe){.alpha_s = CLQ_MAX(few_s - beta_s * FEW_BYTES, 0.0), .beta_s = beta_s};
    return CLQ_OK;
}

/* Turn 0: links from even ranks. Turn 1: links from odd ranks. Turn 2, with an odd number of ranks: the link that
 * closes the ring. So no process is in two links at a time. */
static unsigned turn_of(unsigned from, unsigned size) { return size % 2 == 1 && from + 1 == size ? 2 : from % 2; }

static clq_status probe_turns(const link_probing *p, clq_link_probe *own) {
    enum { TURNS = 3 };
    const unsigned size = clq_world_size(p->world), rank = clq_world_rank(p->world), before = (rank + size - 1) % size;
    clq_link_probe others;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        CLQ_TRY(clq_world_barrier(p->world));
        if (turn_of(rank, size) == turn) CLQ_TRY(probe_link(p, rank, (rank + 1) % size, own));
        if (turn_of(before, size) == turn) CLQ_TRY(probe_link(p, before, rank, &others));
    }
    return CLQ_OK;
}

clq_status clq_why_probe_links(clq_world *world, clq_link_probe *out) {
    link_probing p = {.world = world, .out = clq_alloc(MANY_BYTES, 1), .in = clq_alloc(MANY_BYTES, 1)};
    clq_link_probe own = {0};
    clq_status status = clq_world_check(world, p.out && p.in ? CLQ_OK : CLQ_ERROR_MEMORY);
    if (status == CLQ_OK) status = clq_world_check(world, clq_outer_create(world, 0, &p.outer));
    if (status == CLQ_OK) status = probe_turns(&p, &own);
    if (status == CLQ_OK) status = clq_world_gather(world, &own, sizeof own, out);
    clq_outer_destroy(p.outer);
    clq_free(p.in);
    clq_free(p.out);
    return status;
}
