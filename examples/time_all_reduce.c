/* Times an all-reduce as nccl-tests does: message sizes, time, algbw and busbw. The ranks are all OpenCL devices of
 * each process; a single device serves as two ranks. If no launcher starts the program, it is a world of one process.
 *
 *     cc time_all_reduce.c -o time_all_reduce $(pkg-config --cflags --libs clique)
 *     ./time_all_reduce [the largest message, in MiB: 16], or mpirun -n 2 --host n1,n2 --bind-to none ./time_all_reduce
 */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <clique/comm.h>
#include <clique/world.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = CLQ_REPLICAS_MAX, WARM_UPS = 5, SAMPLES = 20, FLOATS_OF_MIB = 1 << 18, MIB_MOST = 1024 };

static clq_world *world;

/* Tells the other processes why this one ends, so that they fail at once. */
static void give_up(const char *why) {
    fprintf(stderr, "%s\n", why);
    clq_world_abort(world, why);
    clq_world_close(world);
    exit(1);
}

static void check(clq_status status) {
    if (status != CLQ_OK) give_up(clq_error_detail());
}

static void check_cl(cl_int error, const char *what) {
    if (error != CL_SUCCESS) give_up(what);
}

/* Makes a context and a queue for each device, and returns the number of ranks. */
static unsigned make_ranks(clq_rank ranks[MOST]) {
    cl_platform_id platforms[16];
    cl_device_id devices[MOST];
    cl_uint platform_count = 0, count;
    unsigned n = 0;
    if (clGetPlatformIDs(16, platforms, &platform_count) != CL_SUCCESS) platform_count = 0;
    for (cl_uint p = 0; p < platform_count && p < 16 && n < MOST; p++)
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MOST - n, devices + n, &count) == CL_SUCCESS)
            n = n + count < MOST ? n + count : MOST;
    if (n == 0) give_up("this machine has no OpenCL device");
    if (n == 1) devices[n++] = devices[0];
    for (unsigned r = 0; r < n; r++) {
        cl_int error;
        ranks[r].device = devices[r];
        ranks[r].context = clCreateContext(NULL, 1, &devices[r], NULL, NULL, &error);
        check_cl(error, "clCreateContext failed");
        ranks[r].queue = clCreateCommandQueue(ranks[r].context, devices[r], 0, &error);
        check_cl(error, "clCreateCommandQueue failed");
    }
    return n;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds from the call until each rank has its sum. All processes begin together. */
static double time_once(clq_group *group, unsigned n, const clq_slice *in, const clq_slice *out, size_t count) {
    cl_event done[MOST];
    check(clq_group_barrier(group, NULL, NULL));
    const double start = now();
    check(clq_all_reduce(group, in, out, count, CLQ_F32, CLQ_REDOP_SUM, NULL, done));
    for (unsigned r = 0; r < n; r++) clWaitForEvents(1, &done[r]);
    const double seconds = now() - start;
    check(clq_group_wait(group)); /* reports what failed, if anything did */
    for (unsigned r = 0; r < n; r++) clReleaseEvent(done[r]);
    return seconds;
}

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median_time(clq_group *group, unsigned n, const clq_slice *in, const clq_slice *out, size_t count) {
    double seconds[SAMPLES];
    for (int i = 0; i < WARM_UPS; i++) time_once(group, n, in, out, count); /* compiles, makes links, fills caches */
    for (int i = 0; i < SAMPLES; i++) seconds[i] = time_once(group, n, in, out, count);
    qsort(seconds, SAMPLES, sizeof seconds[0], by_value);
    return seconds[SAMPLES / 2];
}

int main(int argc, char **argv) {
    clq_rank ranks[MOST] = {{0}};
    clq_slice in[MOST] = {{0}}, out[MOST] = {{0}};
    clq_group *group;
    float last;
    const long mib = argc > 1 ? strtol(argv[1], NULL, 10) : 16;
    const size_t most = (size_t)mib * FLOATS_OF_MIB;
    size_t count = FLOATS_OF_MIB;
    check(clq_world_open(NULL, &world)); /* from the launcher's environment; without a launcher alone */
    if (mib < 1 || mib > MIB_MOST) give_up("the largest message: expected MiB from 1 to 1024");
    const unsigned here = make_ranks(ranks);
    check(clq_group_create(ranks, here, NULL, &group));
    check(clq_group_span(group, world));
    const unsigned n = clq_group_total(group), first = clq_group_first(group);
    for (unsigned r = 0; r < here; r++) { /* collectives can use this memory without mapping it */
        const float value = (float)(first + r + 1);
        check(clq_group_alloc(group, r, most * sizeof last, &in[r].memory));
        check(clq_group_alloc(group, r, most * sizeof last, &out[r].memory));
        check_cl(clEnqueueFillBuffer(ranks[r].queue, in[r].memory, &value, sizeof value, 0, most * sizeof value, 0,
                                     NULL, NULL),
                 "clEnqueueFillBuffer failed");
    }
    if (first == 0) printf("%u ranks\n     bytes    time us   algbw   busbw  (GB/s)\n", n);
    for (; count <= most; count *= 4) {
        const double bytes = (double)(count * sizeof last), seconds = median_time(group, here, in, out, count);
        const double algbw = bytes / seconds * 1e-9, busbw = algbw * 2 * (n - 1) / n;
        if (first == 0) printf("%10.0f %10.2f %7.2f %7.2f\n", bytes, seconds * 1e6, algbw, busbw);
    }
    check_cl(clEnqueueReadBuffer(ranks[0].queue, out[0].memory, CL_TRUE, (count / 4 - 1) * sizeof last, sizeof last,
                                 &last, 0, NULL, NULL),
             "clEnqueueReadBuffer failed");
    const int right = last == (float)(n * (n + 1) / 2);
    if (first == 0) printf("the sums are %s\n", right ? "right" : "wrong");
    clq_group_destroy(group);
    for (unsigned r = 0; r < here; r++) {
        clReleaseCommandQueue(ranks[r].queue);
        clReleaseContext(ranks[r].context);
    }
    clq_world_close(world);
    return !right;
}
