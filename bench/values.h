/* Values and limits of the collectives' benchmarks. */
#ifndef CLQ_BENCH_VALUES_H
#define CLQ_BENCH_VALUES_H

#include "bench.h"

/* ---- values.c: whole numbers whose reduction is exact in every type, whatever the order ---- */

/* Element i of a rank's input: small, and more often than not 1 or -1, so that products stay small, too. */
int64_t clq_bench_value_in(unsigned rank, size_t i);
/* values[at] = a whole number, |value| <= 256, in the type; integers wrap. */
void clq_bench_value_put(clq_dtype dtype, void *values, size_t at, int64_t value);
/* values[at] = the reduction of element i of n ranks. */
void clq_bench_value_put_reduced(clq_dtype dtype, clq_redop op, unsigned n, size_t i, void *values, size_t at);

/* ---- traffic.c ---- */

typedef struct clq_bench_traffic {
    clq_bench_run *run;
    clq_device *const *devices; /* of several processes: not looked at */
    unsigned n;                 /* ranks; or, of several processes, these: each is a rank */
    clq_collective collective;
    unsigned root; /* of broadcast and reduce; the sender of send_recv */
    size_t bytes;  /* of the call's count */
    clq_dtype dtype;
    clq_redop op;
    bool in_place;
    bool direct;             /* the algorithm is */
    clq_transport transport; /* else: of the links */
} clq_bench_traffic;

/* The least time, in us, that the collective can take for what is measured now (collectives.c says what); NaN where
 * nothing was found to hold it against. slowest_gbps: of the links, 0 at first; kept from call to call. */
clq_status clq_bench_collective_limit(const clq_bench_traffic *traffic, double *slowest_gbps, double *us);

#endif
