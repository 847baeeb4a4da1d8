/* Channels of one value's rows to channels of another's: rows of `from` and `to` packs, of which `packs` are copied.
 * Work-groups take packs of WIDTH channels, which divides all of these; a tile takes rows, by whatever lies anywhere.
 */

#ifdef TILE

KERNEL void copy_channels(global const float *x, global float *y, int count, int rows, int channels, int from,
                          int from_offset, int to, int to_offset) {
    FOR_MY (row, (size_t)count * rows) {
        global const float *source = x + row * from + from_offset;
        global float *target = y + row * to + to_offset;
        int c = 0;
        for (; c + VEC <= channels; c += VEC)
            *(global floatv_anywhere *)(target + c) = *(global const floatv_anywhere *)(source + c);
        for (; c < channels; c++) target[c] = source[c];
    }
}

#else

#if WIDTH == 1
typedef float pack;
#else
typedef CLQ_JOIN(float, WIDTH) pack;
#endif

KERNEL void copy_channels(global const float *x, global float *y, int count, int rows, int packs, int from,
                          int from_offset, int to, int to_offset) {
    FOR_MY (i, (size_t)count * rows * packs) {
        size_t row = i / packs, at = i - row * packs;
        ((global pack *)y)[row * to + to_offset + at] = ((global const pack *)x)[row * from + from_offset + at];
    }
}

#endif
