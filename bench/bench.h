/* clique-bench: measurements as rows. main.c finds the benchmark; each has a file of its own; result.c writes the file
 * of docs/contract.md ("clique-bench/1"). */
#ifndef CLQ_BENCH_H
#define CLQ_BENCH_H

#include "train/train.h"

#include <stdio.h>

typedef struct clq_bench_options {
    const char *devices, *models, *data, *json, *csv;
    uint64_t batch, warm_ups, runs;
} clq_bench_options;

clq_status clq_bench_train(int argc, char **argv);

/* A result under construction: rows are flat JSON objects of one kind. */
typedef struct clq_bench_result {
    json_t *document, *rows;
} clq_bench_result;
clq_status clq_bench_result_start(const char *bench, int argc, char **argv, const clq_devices *devices,
                                  clq_bench_result *out);
clq_status clq_bench_result_add(clq_bench_result *result,
                                json_t *row); /* takes the row, which may be NULL (out of memory) */
/* Writes what the options ask for; by rename. */
clq_status clq_bench_result_write(const clq_bench_result *result, const char *json, const char *csv);
void clq_bench_result_release(clq_bench_result *result);

#endif
