/* What products need around them. The program is one of PACK, PAD, REDUCE, FINISH, TRANSPOSE. */

#ifdef PACK
/* Weights to the panels that product_tile.cl reads: (panels, TAPS * DEPTH, NR * VEC), zeros behind the last column, from
 * (TAPS * DEPTH, COLUMNS), or TRANSPOSED: from (TAPS, COLUMNS, DEPTH). */
#define WIDTH (NR * VEC)
#define BLOCKS ((DEPTH + VEC - 1) / VEC)

typedef floatv floatv_anywhere __attribute__((aligned(4)));

/* VEC floats from p, of which `there` exist. */
static floatv load_some(global const float *p, int there) {
    if (there >= VEC) return *(global const floatv_anywhere *)p;
    float lanes[VEC];
    for (int l = 0; l < VEC; l++) lanes[l] = l < there ? p[l] : 0.0f;
    return CLQ_JOIN(vload, VEC)(0, lanes);
}

/* A square of VEC rows, transposed by perfect shuffles: each pass interleaves row i with row i + VEC / 2. */
static void transpose(floatv v[VEC]) {
    UNROLL for (int pass = 1; pass < VEC; pass *= 2) {
        floatv t[VEC];
        UNROLL for (int i = 0; i < VEC / 2; i++) {
            floatv a = v[i], b = v[i + VEC / 2];
            t[2 * i].even = a.lo;
            t[2 * i].odd = b.lo;
            t[2 * i + 1].even = a.hi;
            t[2 * i + 1].odd = b.hi;
        }
        UNROLL for (int i = 0; i < VEC; i++) v[i] = t[i];
    }
}

/* (blocks of VEC rows of one tap, panels) */
TILE_KERNEL void product_pack(global const float *from, global float *to) {
    int id = (int)get_global_id(0), panel = (int)get_global_id(1), tap = id / BLOCKS, first = id % BLOCKS * VEC;
    int rows = min(VEC, DEPTH - first);
    to += (((size_t)panel * TAPS + tap) * DEPTH + first) * WIDTH;
    for (int j = 0; j < NR; j++) {
        int column = panel * WIDTH + j * VEC;
        floatv square[VEC];
#ifdef TRANSPOSED
        for (int l = 0; l < VEC; l++) {
            bool there = column + l < COLUMNS;
            square[l] = load_some(from + ((size_t)tap * COLUMNS + column + l) * DEPTH + first, there ? rows : 0);
        }
        transpose(square);
#else
        for (int l = 0; l < rows; l++) square[l] = load_some(from + ((size_t)tap * DEPTH + first + l) * COLUMNS + column, COLUMNS - column);
#endif
        for (int l = 0; l < rows; l++) STOREV_ALIGNED(square[l], to + l * WIDTH + j * VEC);
    }
}
#endif

#ifdef PAD
/* Images (IN_H, IN_W, IN_C) into frames (FRAME_H, FRAME_W, IN_C) of zeros, TOP and LEFT from their corner; what does
 * not fit is left out. (rows of a frame, images) */
TILE_KERNEL void product_pad(global const float *from, global float *to) {
    const int floats = FRAME_W * IN_C, left = LEFT * IN_C;
    int y = (int)get_global_id(0) - TOP, right = y >= 0 && y < IN_H ? min(left + IN_W * IN_C, floats) : left;
    size_t image = get_global_id(1);
    from += (image * IN_H + y) * IN_W * IN_C;
    to += (image * FRAME_H + y + TOP) * floats;
    for (int i = 0; i < left; i++) to[i] = 0;
    for (int i = left; i < right; i++) to[i] = from[i - left];
    for (int i = right; i < floats; i++) to[i] = 0;
}
#endif

#ifdef REDUCE
/* to (FLOATS) = the sum of SLICES arrays, in order. A work-item takes SHARE floats. */
kernel void product_reduce(global const float *from, global float *to) {
    size_t i = min(get_global_id(0) * SHARE, (size_t)FLOATS), end = min(i + SHARE, (size_t)FLOATS);
    for (; i + VEC <= end; i += VEC) {
        floatv sum = LOADV(from + i);
        for (int s = 1; s < SLICES; s++) sum += LOADV(from + (size_t)s * FLOATS + i);
        STOREV(sum, to + i);
    }
    for (; i < end; i++) {
        float sum = from[i];
        for (int s = 1; s < SLICES; s++) sum += from[(size_t)s * FLOATS + i];
        to[i] = sum;
    }
}
#endif

#ifdef FINISH
static float activate(float x) {
#if ACT == 1
    return x <= 0.0f ? 0.0f : x; /* NaN stays NaN */
#elif ACT == 2
    return 1.0f / (1.0f + exp(-x));
#elif ACT == 3
    return tanh(x);
#else
    return x;
#endif
}

/* c (rows, COLUMNS) = act(c + bias), in place, for products of others. (items of a row, rows) */
kernel void product_finish(global float *c, global const float *bias) {
    c += get_global_id(1) * COLUMNS;
    for (size_t j = get_global_id(0); j < COLUMNS; j += get_global_size(0)) {
#ifdef BIAS
        c[j] = activate(c[j] + bias[j]);
#else
        c[j] = activate(c[j]);
#endif
    }
}
#endif

#ifdef TRANSPOSE
/* to (COLUMNS, ROWS) from (ROWS, COLUMNS). (rows of to) */
kernel void product_transpose(global const float *from, global float *to) {
    size_t column = get_global_id(0);
    for (size_t row = 0; row < ROWS; row++) to[column * ROWS + row] = from[row * COLUMNS + column];
}
#endif
