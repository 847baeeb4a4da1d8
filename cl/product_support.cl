/* Kernels that products need besides the product itself. Shapes are arguments, so one program serves all layers. */

/* Packs weights (taps, columns, depth) into the panels that product_tile.cl reads: (panels, taps * depth, width), with
 * zeros after the last column. width is a multiple of VEC. Global size: (taps * blocks of VEC rows of a tap,
 * panels). */
TILE_KERNEL void product_pack(global const STORED(FROM_STORAGE) * from, global float *to, int taps, int depth,
                              int columns, int width) {
    int blocks = (depth + VEC - 1) / VEC, id = (int)get_global_id(0), panel = (int)get_global_id(1);
    int tap = id / blocks, first = id % blocks * VEC, rows = min(VEC, depth - first);
    from += (size_t)tap * columns * depth + first;
    to += (((size_t)panel * taps + tap) * depth + first) * width;
    for (int j = 0; j < width; j += VEC) {
        int column = panel * width + j;
        floatv square[VEC];
        for (int l = 0; l < VEC; l++) {
            global const STORED(FROM_STORAGE) *row = from + (size_t)(column + l) * depth;
            square[l] = READ_V_UNTIL(FROM_STORAGE, row, row + (column + l < columns ? rows : 0));
        }
        floatv_transpose(square);
        for (int l = 0; l < rows; l++) STOREV_ALIGNED(square[l], to + (size_t)l * width + j);
    }
}

/* Copies images of in_rows rows of in_numbers into frames of zeros, `top` rows and `left` numbers from their corner.
 * Numbers that do not fit are left out. Global size: (rows of a frame, images). */
TILE_KERNEL void product_pad(global const STORED(FROM_STORAGE) * from, global STORED(TO_STORAGE) * to, int in_rows,
                             int in_numbers, int numbers, int top, int left) {
    int y = (int)get_global_id(0) - top, right = y >= 0 && y < in_rows ? min(left + in_numbers, numbers) : left;
    size_t image = get_global_id(1);
    from += (image * in_rows + y) * in_numbers;
    to += (image * get_global_size(0) + y + top) * numbers;
    for (int i = 0; i < left; i++) to[i] = 0;
#if FROM_STORAGE == TO_STORAGE
    for (int i = left; i < right; i++) to[i] = from[i - left];
#else
    int i = left;
    for (; i + VEC <= right; i += VEC) WRITE_V(TO_STORAGE, READ_V(FROM_STORAGE, from + i - left), to + i);
    for (; i < right; i++) WRITE(TO_STORAGE, READ(FROM_STORAGE, from + i - left), to + i);
#endif
    for (int i = right; i < numbers; i++) to[i] = 0;
}

/* ADDS: the result is factor * (what is there + the sum), or, if `factor` is 0, the sum. */
#ifdef ADDS
#define WITH(there, sum) (factor == 0 ? (sum) : factor * ((there) + (sum)))
#else
#define WITH(there, sum) (sum)
#endif

/* to = the sum of `slices` arrays of floats, in order. With ADDS, `to` has floats, too. A work-item takes `share`
 * numbers. For kernels with register tiles. */
typedef STORED(TO_STORAGE) to_number;
#if TO_STORAGE
#define STORE_SUMS(value, pointer) WRITE_V(TO_STORAGE, value, pointer)
#else
#define STORE_SUMS(value, pointer) STOREV(value, pointer)
#endif
kernel void product_reduce(global const float *from, global to_number *to, int floats, int slices, int share,
                           float factor) {
    size_t i = min(get_global_id(0) * share, (size_t)floats), end = min(i + share, (size_t)floats);
    for (; i + VEC <= end; i += VEC) {
        floatv sum = LOADV(from + i);
        for (int s = 1; s < slices; s++) sum += LOADV(from + (size_t)s * floats + i);
        STORE_SUMS(WITH(LOADV(to + i), sum), to + i);
    }
    for (; i < end; i++) {
        float sum = from[i];
        for (int s = 1; s < slices; s++) sum += from[(size_t)s * floats + i];
        WRITE(TO_STORAGE, WITH(to[i], sum), to + i);
    }
}

/* The same by work-groups. A column is WIDE neighbouring floats; WIDE divides the floats. A work-group makes `across`
 * columns, a power of two. Each column has items / across work-items, its rows. Row r adds slices r, r + rows, and so
 * on. The sums of the rows are then added as a tree. */
#ifdef WIDE
typedef PACK(WIDE) floats_wide;
kernel void product_reduce_rows(global const float *from, global to_number *to, int floats, int slices, int across,
                                local floats_wide *shared, float factor) {
    int item = (int)get_local_id(0), items = (int)get_local_size(0), rows = items / across, columns = floats / WIDE;
    int column = (int)get_group_id(0) * across + item % across, row = item / across;
    floats_wide sum = 0;
    if (column < columns) {
        _Pragma("unroll 4") for (int s = row; s < slices; s += rows) {
            sum += ((global const floats_wide *)from)[(size_t)s * columns + column];
        }
    }
    shared[item] = sum;
    for (int step = items / 2; step >= across; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < step) shared[item] = sum += shared[item + step];
    }
    if (row > 0 || column >= columns) return;
    to += (size_t)column * WIDE;
    sum = WITH(*(global const floats_wide *)to, sum);
    WRITE_PACK(TO_STORAGE, WIDE, sum, to);
}
#endif

/* c (rows, columns) = act(c + bias), in place, for products that other libraries make (CLBlast). Global size: (items of
 * a row, rows). */
kernel void product_finish(global float *c, global const float *bias, int columns, int has_bias) {
    c += get_global_id(1) * columns;
    for (int j = (int)get_global_id(0); j < columns; j += (int)get_global_size(0))
        c[j] = ACTIVATE(float, has_bias ? c[j] + bias[j] : c[j]);
}

/* Transposes `from` (rows, columns) to `to` (columns, rows). Numbers are as wide as NUMBER. Global size: (columns). */
#ifndef NUMBER
#define NUMBER uint
#endif
kernel void product_transpose(global const NUMBER *from, global NUMBER *to, int rows, int columns) {
    size_t column = get_global_id(0);
    for (int row = 0; row < rows; row++) to[column * rows + row] = from[(size_t)row * columns + column];
}
