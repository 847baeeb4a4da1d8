/* A hierarchical all-reduce by hand. The even ranks all-reduce among themselves, and so do the odd ranks. Then the
 * first ranks of the two halves all-reduce with each other, and each broadcasts to its half. No step waits for a rank
 * that has no part in it.
 *
 *     cc split_groups.c $(pkg-config --cflags --libs clique) -lOpenCL */
#include <clique/comm.h>

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 100000, RANKS = 6, HALF = RANKS / 2 };

static void check(clq_status status) {
    if (status == CLQ_OK) return;
    fprintf(stderr, "%s: %s\n", clq_status_text(status), clq_error_detail());
    exit(1);
}

static void check_cl(cl_int error, const char *what) {
    if (error == CL_SUCCESS) return;
    fprintf(stderr, "%s failed with OpenCL's error %d\n", what, error);
    exit(1);
}

static unsigned find_devices(cl_device_id *devices) {
    cl_platform_id platforms[16];
    cl_uint platform_count = 0, n = 0;
    if (clGetPlatformIDs(16, platforms, &platform_count) != CL_SUCCESS) platform_count = 0;
    for (cl_uint p = 0; p < platform_count && p < 16 && n < RANKS; p++) {
        cl_uint count = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, RANKS - n, &devices[n], &count) != CL_SUCCESS) continue;
        n += count < RANKS - n ? count : RANKS - n;
    }
    return n;
}

static void release(cl_event *events, unsigned count) {
    for (unsigned i = 0; i < count; i++) clReleaseEvent(events[i]);
}

int main(void) {
    cl_device_id devices[RANKS];
    unsigned device_count = find_devices(devices);
    if (device_count == 0) {
        fprintf(stderr, "this machine has no OpenCL device\n");
        return 1;
    }
    clq_rank ranks[RANKS];
    for (unsigned r = 0; r < RANKS; r++) { /* several ranks may share a device */
        cl_int error;
        ranks[r].device = devices[r % device_count];
        ranks[r].context = clCreateContext(NULL, 1, &ranks[r].device, NULL, NULL, &error);
        check_cl(error, "clCreateContext");
        ranks[r].queue = clCreateCommandQueue(ranks[r].context, ranks[r].device, 0, &error);
        check_cl(error, "clCreateCommandQueue");
    }

    clq_group *all, *halves[2], *firsts;
    int half_of[RANKS], is_first[RANKS];
    for (unsigned r = 0; r < RANKS; r++) {
        half_of[r] = (int)r % 2; /* half h: ranks h, h + 2, h + 4 */
        is_first[r] = r < 2 ? 0 : CLQ_NO_COLOR;
    }
    check(clq_group_create(ranks, RANKS, NULL, &all));
    check(clq_group_split(all, half_of, NULL, 2, halves));
    check(clq_group_split(all, is_first, NULL, 1, &firsts));

    clq_slice data[2][HALF];
    for (unsigned r = 0; r < RANKS; r++) {
        const float value = (float)(r + 1);
        clq_slice *slice = &data[r % 2][r / 2];
        slice->offset = 0;
        check(clq_group_alloc(all, r, COUNT * sizeof value, &slice->memory)); /* usable in all groups */
        check_cl(clEnqueueFillBuffer(ranks[r].queue, slice->memory, &value, sizeof value, 0, COUNT * sizeof value, 0,
                                     NULL, NULL),
                 "clEnqueueFillBuffer");
    }

    cl_event added[2][HALF], exchanged[2], passed[2][HALF];
    for (unsigned h = 0; h < 2; h++)
        check(clq_all_reduce(halves[h], data[h], data[h], COUNT, CLQ_F32, CLQ_REDOP_SUM, NULL, added[h]));
    const clq_slice first[2] = {data[0][0], data[1][0]};
    const cl_event both[2] = {added[0][0], added[1][0]}; /* only events order the calls of different groups */
    check(clq_all_reduce(firsts, first, first, COUNT, CLQ_F32, CLQ_REDOP_SUM, both, exchanged));
    for (unsigned h = 0; h < 2; h++) {
        const cl_event waits[HALF] = {exchanged[h]};
        check(clq_broadcast(halves[h], data[h], data[h], COUNT, CLQ_F32, 0, waits, passed[h]));
    }

    const float expected = RANKS * (RANKS + 1) / 2.0f;
    for (unsigned r = 0; r < RANKS; r++) {
        float last;
        check_cl(clEnqueueReadBuffer(ranks[r].queue, data[r % 2][r / 2].memory, CL_TRUE, (COUNT - 1) * sizeof last,
                                     sizeof last, &last, 1, &passed[r % 2][r / 2], NULL),
                 "clEnqueueReadBuffer");
        printf("rank %u: %g, as it should be: %s\n", r, (double)last, last == expected ? "yes" : "no");
        if (last != expected) return 1;
    }
    release(exchanged, 2);
    for (unsigned h = 0; h < 2; h++) {
        release(added[h], HALF);
        release(passed[h], HALF);
        clq_group_destroy(halves[h]);
    }
    clq_group_destroy(firsts);
    clq_group_destroy(all);
    for (unsigned r = 0; r < RANKS; r++) {
        clReleaseCommandQueue(ranks[r].queue);
        clReleaseContext(ranks[r].context);
    }
    return 0;
}
