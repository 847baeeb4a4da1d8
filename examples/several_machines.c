/* Adds up one buffer for each process, over all machines of a run: the first OpenCL device of each. The same program
 * runs alone.
 * cc several_machines.c $(pkg-config --cflags --libs clique) -lOpenCL; mpirun -n 2 --host n1,n2 ./a.out */
#include <clique/comm.h>
#include <clique/world.h>

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000000 };

static void check(clq_status status) {
    if (status == CLQ_OK) return;
    fprintf(stderr, "%s: %s\n", clq_status_text(status), clq_error_detail());
    _Exit(1); /* a run that has failed is not finalized */
}

static void check_cl(cl_int error, const char *what) {
    if (error == CL_SUCCESS) return;
    fprintf(stderr, "%s failed with OpenCL's error %d\n", what, error);
    _Exit(1);
}

/* The first device, with a buffer full of `value`. */
static void make_rank(float value, clq_rank *rank, clq_slice *slice) {
    cl_platform_id platform;
    cl_int error;
    check_cl(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check_cl(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &rank->device, NULL), "clGetDeviceIDs");
    rank->context = clCreateContext(NULL, 1, &rank->device, NULL, NULL, &error);
    check_cl(error, "clCreateContext");
    rank->queue = clCreateCommandQueue(rank->context, rank->device, 0, &error);
    check_cl(error, "clCreateCommandQueue");
    slice->offset = 0;
    slice->memory = clCreateBuffer(rank->context, CL_MEM_READ_WRITE, COUNT * sizeof value, NULL, &error);
    check_cl(error, "clCreateBuffer");
    check_cl(
        clEnqueueFillBuffer(rank->queue, slice->memory, &value, sizeof value, 0, COUNT * sizeof value, 0, NULL, NULL),
        "clEnqueueFillBuffer");
}

int main(void) {
    clq_world *world;
    clq_group *group;
    clq_rank rank = {0};
    clq_slice slice;
    float last, expected = 0;
    char *how;
    check(clq_world_open(NULL, &world)); /* by the launcher's environment; without a launcher alone */
    const unsigned me = clq_world_rank(world), size = clq_world_size(world);
    for (unsigned r = 0; r < size; r++) expected += (float)(r + 1);

    make_rank((float)(me + 1), &rank, &slice);
    check(clq_group_create(&rank, 1, NULL, &group));
    check(clq_group_span(group, world));
    check(clq_group_explain(group, &how));
    check(clq_all_reduce(group, &slice, &slice, COUNT, CLQ_F32, CLQ_SUM, NULL, NULL));
    check_cl(clEnqueueReadBuffer(rank.queue, slice.memory, CL_TRUE, (COUNT - 1) * sizeof last, sizeof last, &last, 0,
                                 NULL, NULL),
             "clEnqueueReadBuffer");
    printf("%s: %g, as it should be: %s\n", clq_world_name(world, me), (double)last, last == expected ? "yes" : "no");
    if (me == 0) printf("%s", how);
    free(how);

    clq_group_destroy(group);
    clReleaseMemObject(slice.memory);
    clReleaseCommandQueue(rank.queue);
    clReleaseContext(rank.context);
    clq_world_close(world);
    return last != expected;
}
