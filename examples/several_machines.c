/* All-reduces one buffer of each process. Each process uses the first OpenCL device of its machine. If no launcher
 * starts the program, it is a world of one process.
 *
 *     cc several_machines.c $(pkg-config --cflags --libs clique) -lOpenCL; mpirun -n 2 --host n1,n2 ./a.out */
#include <clique/comm.h>
#include <clique/world.h>

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 1000000 };

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

/* Makes a context, a queue and a buffer full of `value` on the first device. */
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
    clq_group *group;
    clq_rank rank = {0};
    clq_slice slice;
    float last, expected = 0;
    char *how;
    check(clq_world_open(NULL, &world)); /* from the launcher's environment; without a launcher alone */
    const unsigned me = clq_world_rank(world), size = clq_world_size(world);
    for (unsigned r = 0; r < size; r++) expected += (float)(r + 1);

    make_rank((float)(me + 1), &rank, &slice);
    check(clq_group_create(&rank, 1, NULL, &group));
    check(clq_group_span(group, world));
    check(clq_group_explain(group, &how));
    check(clq_all_reduce(group, &slice, &slice, COUNT, CLQ_F32, CLQ_REDOP_SUM, NULL, NULL));
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
