/* Values and limits for the collectives' benchmarks. */
#ifndef CLQ_BENCH_VALUES_H
#define CLQ_BENCH_VALUES_H

#include "bench.h"

/* ---- values.c: whole numbers whose reduction is exact in every type and in every order ---- */

/* Element i of a rank's input. The values are small, and mostly 1 or -1, so that products stay small, too. */
int64_t clq_bench_value_in(unsigned rank, size_t i);
/* Stores a whole number, |value| <= 256, as values[at] in the type; integers wrap. */
void clq_bench_value_put(clq_dtype dtype, void *values, size_t at, int64_t value);
/* Stores the reduction of element i over n ranks as values[at]. */
void clq_bench_value_put_reduced(clq_dtype dtype, clq_redop op, unsigned n, size_t i, void *values, size_t at);

/* ---- traffic.c ---- */

typedef struct clq_bench_traffic {
    clq_bench_run *run;
    clq_device *const *devices; /* not used if there are several processes */
    unsigned n;                 /* ranks; if there are several processes: their number, as each counts as one rank */
    clq_collective collective;
    unsigned root; /* for broadcast and reduce; for send_recv the sender */
    size_t bytes;  /* the call's count in bytes */
    clq_dtype dtype;
    clq_redop op;
    bool in_place;
    bool direct;             /* whether the algorithm is direct */
    clq_transport transport; /* of the links, if the algorithm is not direct */
} clq_bench_traffic;

/* The least time in us that the collective can take, by what is measured now (collectives.c says how). NaN if there is
 * nothing to compare it with. slowest_gbps: the rate of the slowest link; 0 before the first call, and kept from call
 * to call. */
clq_status clq_bench_collective_limit(const clq_bench_traffic *traffic, double *slowest_gbps, double *us);

#endif
