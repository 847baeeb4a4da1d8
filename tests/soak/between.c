/* All-reduces between processes, beside the engine's own on as many bytes, in turns: medians of rounds.
 *
 *     mpirun -n R build/tests/soak_between [ROUNDS [LEAST [MOST]]]        bytes; default 15 rounds, 64 KiB to 64 MiB
 *
 * Prints a line for each size from rank 0. Each round is begun by a barrier; short all-reduces are made several times.
 */
#include "comm/outer/outer.h"

#include <stdlib.h>

enum { ROUNDS_MOST = 99 };

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static clq_status all_reduce(clq_world *world, clq_outer *outer, float *values, size_t count) {
    const clq_outer_task task = {.collective = CLQ_ALL_REDUCE,
                                 .algorithm = CLQ_ALGORITHM_RING,
                                 .in = values,
                                 .out = values,
                                 .count = count,
                                 .dtype = CLQ_F32};
    return outer ? clq_outer_run(outer, &task) : clq_world_engine_all_reduce(world, values, values, count);
}

/* outer NULL: the engine's own. */
static clq_status time_round(clq_world *world, clq_outer *outer, float *values, size_t count, double *seconds) {
    const int times = count < 1 << 14 ? 20 : count < 1 << 20 ? 4 : 1;
    for (size_t i = 0; i < count; i++) values[i] = 0; /* sums stay what they are */
    CLQ_TRY(clq_world_barrier(world));
    const double began = clq_now();
    for (int i = 0; i < times; i++) CLQ_TRY(all_reduce(world, outer, values, count));
    *seconds = (clq_now() - began) / times;
    return CLQ_OK;
}

static clq_status compare(clq_world *world, clq_outer *outer, float *values, size_t bytes, unsigned rounds) {
    double ours[ROUNDS_MOST], engines[ROUNDS_MOST], warm;
    const size_t count = bytes / sizeof *values;
    CLQ_TRY(time_round(world, outer, values, count, &warm));
    CLQ_TRY(time_round(world, NULL, values, count, &warm));
    for (unsigned r = 0; r < rounds; r++) {
        CLQ_TRY(time_round(world, outer, values, count, &ours[r]));
        CLQ_TRY(time_round(world, NULL, values, count, &engines[r]));
    }
    qsort(ours, rounds, sizeof *ours, by_value);
    qsort(engines, rounds, sizeof *engines, by_value);
    if (clq_world_rank(world) > 0) return CLQ_OK;
    printf("%10zu bytes  ours %9.3f ms  %s %9.3f ms  %.2f of its rate\n", bytes, ours[rounds / 2] * 1e3,
           clq_world_engine_name(world), engines[rounds / 2] * 1e3, engines[rounds / 2] / ours[rounds / 2]);
    fflush(stdout);
    return CLQ_OK;
}

static uint64_t number(int count, char **arguments, int index, uint64_t least, uint64_t most, uint64_t value) {
    if (index < count && !clq_parse_u64(arguments[index], least, most, &value)) {
        fprintf(stderr, "'%s': expected a number from %llu to %llu\n", arguments[index], (unsigned long long)least,
                (unsigned long long)most);
        exit(2);
    }
    return value;
}

int main(int count, char **arguments) {
    const unsigned rounds = (unsigned)number(count, arguments, 1, 1, ROUNDS_MOST, 15);
    const size_t least = number(count, arguments, 2, 4, (uint64_t)1 << 30, 64 << 10);
    const size_t most = number(count, arguments, 3, least, (uint64_t)1 << 30, 64 << 20);
    clq_world *world = NULL;
    clq_outer *outer = NULL;
    float *values = clq_alloc_aligned(64, most);
    clq_status status = values ? clq_world_open(NULL, &world) : CLQ_MEMORY;
    if (status == CLQ_OK) status = clq_outer_create(world, 0, &outer);
    for (size_t bytes = least; status == CLQ_OK && bytes <= most; bytes *= 4)
        status = compare(world, outer, values, bytes, rounds);
    if (status != CLQ_OK) fprintf(stderr, "%s\n", clq_error_detail());
    clq_outer_destroy(outer);
    clq_world_close(world);
    clq_free(values);
    return status != CLQ_OK;
}
