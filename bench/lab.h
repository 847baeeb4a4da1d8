/* A lab runs operations on one device, with memory for all their values, so that they can be timed and checked. */
#ifndef CLQ_BENCH_LAB_H
#define CLQ_BENCH_LAB_H

#include "bench.h"
#include "ops/ops.h"

enum { CLQ_BENCH_LAB_VALUES = 24 };

typedef struct clq_bench_lab {
    clq_queue *queue;
    clq_list *list;
    clq_buffer *buffers[CLQ_BENCH_LAB_VALUES + 1]; /* buffers[v] is the memory of value v */
} clq_bench_lab;

/* Opens a lab. The caller then adds values and operations to lab->list, binds, writes the inputs, and measures. Release
 * the lab also after a failure. */
clq_status clq_bench_lab_open(clq_queue *queue, uint32_t capacity, clq_bench_lab *lab);
void clq_bench_lab_release(clq_bench_lab *lab);
clq_value clq_bench_lab_value(clq_bench_lab *lab, const char *name, size_t bytes); /* bytes: for a full batch */
/* Gives every value memory, builds the kernels, and sets the run's count to the list's capacity. */
clq_status clq_bench_lab_bind(clq_bench_lab *lab);
clq_status clq_bench_lab_write(clq_bench_lab *lab, clq_value value, const void *data);
/* The caller frees it with clq_free. */
clq_status clq_bench_lab_read(clq_bench_lab *lab, clq_value value, float **out);
/* The candidates that the list selected if it had a choice: "tiles, 8 x 2 vectors". JSON null if it had none. */
json_t *clq_bench_lab_selections(const clq_bench_lab *lab);
/* Times the whole list: enqueues all its launches, repeatedly, and waits once per sample. */
clq_status clq_bench_lab_measure(const clq_bench_run *run, clq_bench_lab *lab, clq_bench_times *out);

/* `count` random floats from -1 to 1, always the same for one seed. The caller frees them; NULL on failure. */
float *clq_bench_floats(size_t count, uint64_t seed);

/* Chooses places in an array of `count` elements to check: the first, the last, and random ones between, always the
 * same. Returns how many; all if the array has no more than CLQ_BENCH_SAMPLES. */
enum { CLQ_BENCH_SAMPLES = 64 };
size_t clq_bench_sampled(size_t count, size_t places[CLQ_BENCH_SAMPLES]);
/* Whether `got` is a possible result for a sum of `terms` float products. magnitude: the sum of |a b|. The rounding
 * errors of such a sum are at most terms * 2^-24 * magnitude (Higham, "Accuracy and Stability of Numerical Algorithms",
 * 3.1); a few more are allowed for what is done to the sum. */
bool clq_bench_sum_is(double got, double want, size_t terms, double magnitude);

/* The rate of a kernel that only multiplies and adds in registers, in 1e9 operations/s (a fused multiply-add counts
 * two): the best of some launches. NaN if it cannot be measured on the device. */
clq_status clq_bench_peak(clq_queue *queue, double *out);
/* The memory traffic, reads and writes together, of a kernel on `bytes` bytes of memory, in 1e9 bytes/s. It is the
 * better of two rates: copying one half to the other, and changing all in place (which spares a CPU reading what it
 * overwrites). NaN if it cannot be measured on the device. */
clq_status clq_bench_stream(const clq_bench_run *run, clq_queue *queue, size_t bytes, double *out);

#endif
