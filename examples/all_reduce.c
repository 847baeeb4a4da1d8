/* Sums one buffer per OpenCL device over all devices of all drivers, with the program's own contexts, queues and
 * buffers.
 *
 *     cc all_reduce.c $(pkg-config --cflags --libs clique) -lOpenCL */
#include <clique/comm.h>

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000000 };

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

/* Makes a context, a queue and a buffer full of `value` on a device. */
static void make_rank(cl_device_id device, float value, clq_rank *rank, clq_slice *slice) {
    cl_int error;
    rank->device = device;
    rank->context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    check_cl(error, "clCreateContext");
    rank->queue = clCreateCommandQueue(rank->context, device, 0, &error);
    check_cl(error, "clCreateCommandQueue");
    slice->offset = 0;
    slice->memory = clCreateBuffer(rank->context, CL_MEM_READ_WRITE, COUNT * sizeof value, NULL, &error);
    check_cl(error, "clCreateBuffer");
    check_cl(
        clEnqueueFillBuffer(rank->queue, slice->memory, &value, sizeof value, 0, COUNT * sizeof value, 0, NULL, NULL),
        "clEnqueueFillBuffer");
}

int main(void) {
    enum { MOST = CLQ_REPLICAS_MAX };
    clq_rank ranks[MOST] = {{0}};
    clq_slice slices[MOST];
    unsigned n = 0;
    float expected = 0;
    cl_platform_id platforms[16];
    cl_uint platform_count = 0;
    if (clGetPlatformIDs(16, platforms, &platform_count) != CL_SUCCESS) platform_count = 0;
    for (cl_uint p = 0; p < platform_count && p < 16; p++) {
        cl_device_id devices[MOST];
        cl_uint count = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MOST, devices, &count) != CL_SUCCESS) continue;
        for (cl_uint d = 0; d < count && d < MOST && n < MOST; d++, n++) {
            make_rank(devices[d], (float)(n + 1), &ranks[n], &slices[n]);
            expected += (float)(n + 1);
        }
    }
    if (n == 0) {
        fprintf(stderr, "this machine has no OpenCL device\n");
        return 1;
    }

    clq_group *group;
    cl_event done[MOST];
    char *how;
    check(clq_group_create(ranks, n, NULL, &group));
    check(clq_group_explain(group, &how));
    check(
        clq_all_reduce(group, slices, slices, COUNT, CLQ_F32, CLQ_REDOP_SUM, NULL, done)); /* starts after the fills */
    for (unsigned r = 0; r < n; r++) {
        float last;
        check_cl(clEnqueueReadBuffer(ranks[r].queue, slices[r].memory, CL_TRUE, (COUNT - 1) * sizeof last, sizeof last,
                                     &last, 1, &done[r], NULL),
                 "clEnqueueReadBuffer");
        printf("rank %u: %g, as it should be: %s\n", r, (double)last, last == expected ? "yes" : "no");
        if (last != expected) return 1;
        clReleaseEvent(done[r]);
    }
    check(clq_group_wait(group));
    printf("%s", how);
    free(how);
    clq_group_destroy(group);
    for (unsigned r = 0; r < n; r++) {
        clReleaseMemObject(slices[r].memory);
        clReleaseCommandQueue(ranks[r].queue);
        clReleaseContext(ranks[r].context);
    }
    return 0;
}
