/* A lab: operations on one device, with memory for all their values, to be timed and looked at. */
#ifndef CLQ_BENCH_LAB_H
#define CLQ_BENCH_LAB_H

#include "bench.h"
#include "ops/ops.h"

enum { CLQ_BENCH_LAB_VALUES = 24 };

typedef struct clq_bench_lab {
    clq_queue *queue;
    clq_list *list;
    clq_buffer *buffers[CLQ_BENCH_LAB_VALUES + 1]; /* by value; those that a value is placed in */
} clq_bench_lab;

/* Then values and operations are added to lab->list, bound, filled, timed. Release also after a failure. */
clq_status clq_bench_lab_open(clq_queue *queue, uint32_t capacity, clq_bench_lab *lab);
void clq_bench_lab_release(clq_bench_lab *lab);
clq_value clq_bench_lab_value(clq_bench_lab *lab, const char *name, size_t bytes); /* of a full batch */
/* Gives every value memory, builds the kernels, and sets the count to the capacity. */
clq_status clq_bench_lab_bind(clq_bench_lab *lab);
clq_status clq_bench_lab_write(clq_bench_lab *lab, clq_value value, const void *data);
/* The caller frees it with clq_free. */
clq_status clq_bench_lab_read(clq_bench_lab *lab, clq_value value, float **out);
/* How the list's operations are made, of what could be otherwise: "tiles, 8 x 2 vectors"; null where nothing could. */
json_t *clq_bench_lab_selections(const clq_bench_lab *lab);
/* Times the list: all its launches, one after the other, waited for once per sample. */
clq_status clq_bench_lab_measure(const clq_bench_run *run, clq_bench_lab *lab, clq_bench_times *out);

/* So many floats from -1 to 1, always the same for one seed. Caller frees; NULL on failure. */
float *clq_bench_floats(size_t count, uint64_t seed);

/* Some places of an array of `count` to look at: first, last, and others at random, always the same. */
enum { CLQ_BENCH_SAMPLES = 64 };
size_t clq_bench_sampled(size_t count, size_t places[CLQ_BENCH_SAMPLES]);
/* Whether a sum of so many float products of that magnitude (sum of |a b|) may come out as `got`: its rounding errors
 * are at most terms * 2^-24 * magnitude (Higham, "Accuracy and Stability of Numerical Algorithms", 3.1), and a few
 * more for what is done to it. */
bool clq_bench_sum_is(double got, double want, size_t terms, double magnitude);

/* The rate of a kernel that multiplies and adds in registers alone, in 1e9 operations/s (a fused one counts two): the
 * best of some launches. NaN where the device cannot tell. */
clq_status clq_bench_peak(clq_queue *queue, double *out);
/* The traffic, reading and writing, in 1e9 bytes/s, of a kernel over memory of so many bytes: the better of copying one
 * half to the other and changing all in place (which spares a CPU reading what it overwrites). NaN where the device
 * cannot tell. */
clq_status clq_bench_stream(const clq_bench_run *run, clq_queue *queue, size_t bytes, double *out);

#endif
