/* Sums over the items of a work-group, for the kernels of other files. */

#ifndef TILE
/* The sum over each `run` consecutive items of a work-group, as a tree; every item of the run gets it. (Local memory
 * comes as an argument: arrays in kernels can end up shared by the threads of PoCL 3.1's pthread device.) */
static float sum_of_items(local float *shared, float value, int run) {
    int item = (int)get_local_id(0), lane = item & (run - 1);
    barrier(CLK_LOCAL_MEM_FENCE);
    shared[item] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = run / 2; step > 0; step /= 2) {
        if (lane < step) shared[item] += shared[item + step];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return shared[item - lane];
}

/* For kernels in which a run of a work-group's items takes a block of BLOCK floats, a vector at a time for each
 * item. */
#define RUN (GROUP < BLOCK / VEC ? GROUP : BLOCK / VEC)
#define RUNS (GROUP / RUN)
#endif
