/* Means over positions: x (samples, positions, channels) to y (samples, channels). Work goes by packs of WIDTH
 * channels, where WIDTH divides the channels: all accesses are aligned and there are no remainders. */

#if WIDTH == 1
typedef float pack;
#else
typedef CLQ_JOIN(float, WIDTH) pack;
#endif

#define BLOCK 64 /* terms that are added as they are; more of them would round off too much */

/* Terms first, first + step, ... of `positions`, `pitch` packs apart. */
static pack sum_of(global const pack *x, int first, int step, int positions, int pitch) {
    pack sum = 0;
    for (int p = first; p < positions;) {
        pack some = 0;
        for (int k = 0; k < BLOCK && p < positions; k++, p += step) some += x[(size_t)p * pitch];
        sum += some;
    }
    return sum;
}

#ifdef TILE

KERNEL void reduce_mean(global const float *x, global float *y, int count, int positions, int packs,
                        local float *shared) {
    FOR_MY (i, (size_t)count * packs) {
        size_t sample = i / packs, v = i - sample * packs;
        global const pack *from = (global const pack *)x + sample * positions * packs + v;
        ((global pack *)y)[i] = sum_of(from, 0, 1, positions, packs) / (float)positions;
    }
}

#else

/* A work-group makes COLUMNS packs (a power of two) of a sample with GROUP / COLUMNS work-items for each. */
KERNEL void reduce_mean(global const float *x, global float *y, int count, int positions, int packs,
                        local float *shared) {
    local pack *sums = (local pack *)shared;
    int item = (int)get_local_id(0), column = item % COLUMNS, row = item / COLUMNS;
    int parts = (packs + COLUMNS - 1) / COLUMNS;
    for (size_t i = get_group_id(0); i < (size_t)count * parts; i += get_num_groups(0)) {
        size_t sample = i / parts;
        int v = (int)(i - sample * parts) * COLUMNS + column;
        global const pack *from = (global const pack *)x + sample * positions * packs + v;
        pack sum = 0;
        if (v < packs) sum = sum_of(from, row, GROUP / COLUMNS, positions, packs);
        sums[item] = sum;
        for (int step = GROUP / 2; step >= COLUMNS; step /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (item < step) sums[item] = sum += sums[item + step];
        }
        if (row == 0 && v < packs) ((global pack *)y)[sample * packs + v] = sum / (float)positions;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#endif
