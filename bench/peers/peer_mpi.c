/* What clique bench peers measures on MPI: MPI_Allreduce, float, sum, out of place.
 *
 *     mpirun -n RANKS peer_mpi BYTES SAMPLES WARMUPS
 *
 * A sample begins behind a barrier, lasts until the last rank is done, and has so many calls that it takes at least 20
 * us. Rank 0 prints {"version", "in_place", "time_us": {"min", "p50", "p99"}} as one line. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* By nearest rank. */
static double percentile(const double *sorted, int count, int percent) {
    int at = (count * percent + 99) / 100;
    return sorted[at > 0 ? at - 1 : 0];
}

static void reduce(const float *in, float *out, int count, long repeats) {
    for (long i = 0; i < repeats; i++) MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Seconds of the slowest rank. */
static double sample(const float *in, float *out, int count, long repeats) {
    double slowest;
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime();
    reduce(in, out, count, repeats);
    seconds = MPI_Wtime() - seconds;
    MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static long calls_per_sample(const float *in, float *out, int count) {
    long repeats = 1;
    while (repeats < 1 << 20 && sample(in, out, count, repeats) < 20e-6) repeats *= 2;
    return repeats;
}

/* Whole numbers, whose sum is exact. */
static float value(int rank, int i) { return (float)((i + 3 * rank) % 61); }

static int count_wrong(const float *out, int count, int ranks) {
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        float sum = 0;
        for (int r = 0; r < ranks; r++) sum += value(r, i);
        wrong += out[i] != sum;
    }
    return wrong;
}

static void print_result(double *seconds, int samples, long repeats) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n\r\"\\")] = '\0';
    qsort(seconds, (size_t)samples, sizeof *seconds, compare);
    double us = 1e6 / (double)repeats;
    printf("{\"version\": \"%s\", \"in_place\": false, \"time_us\": {\"min\": %.9g, \"p50\": %.9g, \"p99\": %.9g}}\n",
           version, seconds[0] * us, percentile(seconds, samples, 50) * us, percentile(seconds, samples, 99) * us);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long bytes = argc == 4 ? atol(argv[1]) : 0, samples = argc == 4 ? atol(argv[2]) : 0;
    long warm_ups = argc == 4 ? atol(argv[3]) : 0;
    int count = (int)(bytes / (long)sizeof(float));
    float *in = malloc((size_t)count * sizeof *in + 1), *out = malloc((size_t)count * sizeof *out + 1);
    double *seconds = malloc((size_t)samples * sizeof *seconds + 1);
    if (count < 1 || samples < 1 || !in || !out || !seconds) {
        fprintf(stderr, "usage: peer_mpi BYTES SAMPLES WARMUPS, and memory for them\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < count; i++) in[i] = value(rank, i);
    memset(out, 0, (size_t)count * sizeof *out);
    for (long i = 0; i < warm_ups; i++) sample(in, out, count, 1);
    long repeats = calls_per_sample(in, out, count);
    for (long i = 0; i < samples; i++) seconds[i] = sample(in, out, count, repeats);
    int wrong = count_wrong(out, count, ranks);
    if (wrong > 0) {
        fprintf(stderr, "rank %d: %d wrong sums\n", rank, wrong);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0) print_result(seconds, (int)samples, repeats);
    free(seconds);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
