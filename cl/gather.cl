/* Looks up rows of a table by their numbers (an embedding), and makes the gradient of the table. x: numbers of rows,
 * `tokens` for each sample; numbers beyond the table count as its nearest end. table (rows, width). X_STORAGE,
 * Y_STORAGE, DY_STORAGE: how the numbers of samples are stored (prelude.cl). */
typedef STORED(X_STORAGE) x_number;
typedef STORED(Y_STORAGE) y_number;
typedef STORED(DY_STORAGE) dy_number;

ALWAYS_INLINE int row_of(global const x_number *x, int rows) { return clamp((int)READ(X_STORAGE, x), 0, rows - 1); }

KERNEL void gather(global const x_number *x, global const float *table, global y_number *y, int count, int tokens,
                   int rows, int width) {
    const size_t all = (size_t)count * tokens;
#ifdef TILE
    FOR_MY (token, all) {
        global const float *from = table + (size_t)row_of(x + token, rows) * width;
        global y_number *to = y + token * width;
        int i = 0;
        for (; i + VEC <= width; i += VEC) {
            const floatv values = READ_V(0, from + i);
            WRITE_V(Y_STORAGE, values, to + i);
        }
        for (; i < width; i++) WRITE(Y_STORAGE, from[i], to + i);
    }
#else
    FOR_MY (number, all * width) {
        const size_t token = number / width;
        const float value = table[(size_t)row_of(x + token, rows) * width + (number - token * width)];
        WRITE(Y_STORAGE, value, y + number);
    }
#endif
}

/* The gradient of each row of the table is the sum over its tokens, in their order. With TILE, a slice has a range of
 * rows, and looks at all tokens. */
KERNEL void gather_gradient(global const x_number *x, global const dy_number *dy, global float *dtable, int count,
                            int tokens, int rows, int width, int slices) {
    const size_t all = (size_t)count * tokens;
#ifdef TILE
    const int share = (rows + slices - 1) / slices;
    FOR_MY (slice, slices) {
        const int begin = min((int)slice * share, rows), end = min(begin + share, rows);
        for (size_t i = (size_t)begin * width; i < (size_t)end * width; i++) dtable[i] = 0;
        for (size_t token = 0; token < all; token++) {
            const int row = row_of(x + token, rows);
            if (row < begin || row >= end) continue;
            global const dy_number *from = dy + token * width;
            global float *to = dtable + (size_t)row * width;
            int i = 0;
            for (; i + VEC <= width; i += VEC) {
                const floatv sum = READ_V(0, to + i) + READ_V(DY_STORAGE, from + i);
                WRITE_V(0, sum, to + i);
            }
            for (; i < width; i++) to[i] += READ(DY_STORAGE, from + i);
        }
    }
#else
    FOR_MY (number, (size_t)rows * width) {
        const int row = (int)(number / width), i = (int)(number % width);
        float sum = 0;
        for (size_t token = 0; token < all; token++)
            if (row_of(x + token, rows) == row) sum += READ(DY_STORAGE, dy + token * width + i);
        dtable[number] = sum;
    }
#endif
}
