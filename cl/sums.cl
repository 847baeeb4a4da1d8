/* Sums over the items of a work-group, for kernels that other files have. */

#ifndef TILE
/* The sum over runs of so many items of a work-group, as trees; to all items of the run. (Local memory comes as an
 * argument: arrays in kernels can end up shared by the threads of PoCL 3.1's pthread device.) */
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

/* Of kernels that give blocks of BLOCK floats to runs of a work-group's items, a vector at a time to each item. */
#define RUN (GROUP < BLOCK / VEC ? GROUP : BLOCK / VEC)
#define RUNS (GROUP / RUN)
#endif
