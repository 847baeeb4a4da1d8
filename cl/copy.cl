/* Copies channels of the rows of x to channels of the rows of y. Without TILE, channels are counted in packs of WIDTH,
 * which divides all counts and offsets of channels: a row of x has `from` packs, a row of y has `to`, and `packs` of
 * them are copied. With TILE, channels are counted one by one, a work-item takes whole rows, and vectors begin
 * anywhere. X_STORAGE and Y_STORAGE: how the numbers are stored (prelude.cl). */
typedef STORED(X_STORAGE) x_number;
typedef STORED(Y_STORAGE) y_number;

#ifdef TILE

KERNEL void copy_channels(global const x_number *x, global y_number *y, int count, int rows, int channels, int from,
                          int from_offset, int to, int to_offset) {
    FOR_MY (row, (size_t)count * rows) {
        global const x_number *source = x + row * from + from_offset;
        global y_number *target = y + row * to + to_offset;
        int c = 0;
        for (; c + VEC <= channels; c += VEC) WRITE_V(Y_STORAGE, READ_V(X_STORAGE, source + c), target + c);
        for (; c < channels; c++) WRITE(Y_STORAGE, READ(X_STORAGE, source + c), target + c);
    }
}

#else

KERNEL void copy_channels(global const x_number *x, global y_number *y, int count, int rows, int packs, int from,
                          int from_offset, int to, int to_offset) {
    FOR_MY (i, (size_t)count * rows * packs) {
        size_t row = i / packs, at = i - row * packs;
        PACK(WIDTH) pack = READ_PACK(X_STORAGE, WIDTH, x + (row * from + from_offset + at) * WIDTH);
        WRITE_PACK(Y_STORAGE, WIDTH, pack, y + (row * to + to_offset + at) * WIDTH);
    }
}

#endif
