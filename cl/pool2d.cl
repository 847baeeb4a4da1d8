/* Max and average pooling, NHWC. Windows are SIZE_H x SIZE_W, with strides STRIDE_H and STRIDE_W. Work is divided into
 * packs (vectors) of WIDTH channels. WIDTH divides the channels, so all accesses are aligned and there are no
 * remainders. INSIDE: no window reaches beyond the input. BLOCKS: INSIDE, and the windows lie side by side (size =
 * stride). The output has gone through the activation ACT. Numbers are stored (prelude.cl) as X_STORAGE in the input,
 * Y_STORAGE in the output, DX_STORAGE and DY_STORAGE in their gradients. */
typedef STORED(X_STORAGE) x_number;
typedef STORED(Y_STORAGE) y_number;
typedef STORED(DX_STORAGE) dx_number;
typedef STORED(DY_STORAGE) dy_number;
typedef PACK(WIDTH) pack;
/* Pack number `index` of a value, whose storage is S. */
#define PACK_OF(S, p, index) READ_PACK(S, WIDTH, (p) + (index)*WIDTH)
#define SET_PACK(S, p, index, v) WRITE_PACK(S, WIDTH, v, (p) + (index)*WIDTH)

#if WIDTH == 1
typedef int ipack;
typedef WINNER winners_t;
#define TO_WINNERS CLQ_JOIN(convert_, WINNER)
#define TO_IPACK convert_int
#else
typedef CLQ_JOIN(int, WIDTH) ipack;
typedef CLQ_JOIN(WINNER, WIDTH) winners_t;
#define TO_WINNERS CLQ_JOIN(CLQ_JOIN(convert_, WINNER), WIDTH)
#define TO_IPACK CLQ_JOIN(convert_int, WIDTH)
#endif

#if SIZE_H * SIZE_W <= 16
#define UNROLL_WINDOW UNROLL
#else
#define UNROLL_WINDOW
#endif

/* The shapes. vectors: how many packs the channels are. */
typedef struct shape {
    int in_h, in_w, out_h, out_w, pad_top, pad_left, vectors;
} shape;
#define SHAPE_ARGS int in_h, int in_w, int out_h, int out_w, int pad_top, int pad_left, int vectors
#define SHAPE                                                                                                          \
    { in_h, in_w, out_h, out_w, pad_top, pad_left, vectors }

/* With TILE, narrow packs go through exp and tanh after all of them are stored, by whole vectors: a narrow vector takes
 * as long as a wide one. (This is not done row by row: wide loads of what narrow stores have just written wait for
 * these stores.) */
#if defined(TILE) && WIDTH < VEC && ACT > 1 && !Y_STORAGE /* 16 bits would be rounded twice */
#define AFTERWARDS
#define ACTIVATED(value) (value)
#else
#define ACTIVATED(value) ACTIVATE(pack, value)
#endif

#ifdef AFTERWARDS
static void activate(global float *y, size_t n) {
    size_t i = 0;
    for (; i + VEC <= n; i += VEC) {
        global floatv_anywhere *at = (global floatv_anywhere *)(y + i);
        *at = ACTIVATE(floatv, *at);
    }
    for (; i < n; i++) y[i] = ACTIVATE(floatv, (floatv)(y[i])).s0;
}
#endif

/* How many elements a window at `first` covers along one axis, without padding. */
static int covered(int first, int size, int length) { return min(first + size, length) - max(first, 0); }

static void pool_element(global const x_number *x, global y_number *y, global winners_t *winner, const shape *s,
                         size_t n, int oh, int ow, int v) {
    int top = oh * STRIDE_H - s->pad_top, left = ow * STRIDE_W - s->pad_left;
    size_t out = ((n * s->out_h + oh) * s->out_w + ow) * s->vectors + v;
    long at = (((long)n * s->in_h + top) * s->in_w + left) * s->vectors + v;
#ifdef AVERAGE
    pack sum = 0;
#else
    /* if nothing is larger than -inf, the first element wins */
    pack best = -INFINITY;
    ipack where = max(-top, 0) * SIZE_W + max(-left, 0);
#endif
    UNROLL_WINDOW for (int h = 0; h < SIZE_H; h++) {
        UNROLL_WINDOW for (int w = 0; w < SIZE_W; w++) {
#ifndef INSIDE
            if (top + h < 0 || top + h >= s->in_h || left + w < 0 || left + w >= s->in_w) continue;
#endif
            pack value = PACK_OF(X_STORAGE, x, at + ((long)h * s->in_w + w) * s->vectors);
#ifdef AVERAGE
            sum += value;
#else
            ipack better = (value > best) | (value != value); /* NaN wins and stays */
            best = better ? value : best;
            where = better ? (ipack)(h * SIZE_W + w) : where;
#endif
        }
    }
#ifdef AVERAGE
    pack mean = sum / (float)(covered(top, SIZE_H, s->in_h) * covered(left, SIZE_W, s->in_w));
    mean = ACTIVATED(mean);
    SET_PACK(Y_STORAGE, y, out, mean);
#else
    best = ACTIVATED(best);
    SET_PACK(Y_STORAGE, y, out, best);
#ifdef KEEP
    winner[out] = TO_WINNERS(where);
#endif
#endif
}

KERNEL void pool2d_forward(global const x_number *x, global y_number *y, global WINNER *winner, int count, SHAPE_ARGS) {
    const shape s = SHAPE;
    global winners_t *keep = (global winners_t *)winner;
#ifdef TILE
    FOR_MY (row, (size_t)count * out_h) {
        size_t n = row / out_h;
        int oh = (int)(row - n * out_h);
        for (int ow = 0; ow < out_w; ow++)
            for (int v = 0; v < vectors; v++) pool_element(x, y, keep, &s, n, oh, ow, v);
    }
#ifdef AFTERWARDS
    const size_t rows = (size_t)count * out_h, first = MY_FIRST(rows), width = out_w * vectors * WIDTH;
    activate(y + first * width, (MY_END(rows) - first) * width);
#endif
#else
    FOR_MY (i, (size_t)count * out_h * out_w * vectors) {
        size_t pixel = i / vectors, row = pixel / out_w, n = row / out_h;
        pool_element(x, y, keep, &s, n, (int)(row - n * out_h), (int)(pixel - row * out_w), (int)(i - pixel * vectors));
    }
#endif
}

/* The gradient of a window's result before the activation. */
static pack gradient_of(global const y_number *y, global const dy_number *dy, size_t out) {
#if ACT != 0
    pack stored = PACK_OF(Y_STORAGE, y, out), behind = PACK_OF(DY_STORAGE, dy, out);
    return SLOPE(pack, stored, behind);
#else
    return PACK_OF(DY_STORAGE, dy, out);
#endif
}

#ifdef BLOCKS

/* Each window owns a block of the input, which is written once. The last windows also write zeros after their
 * blocks. */
static void unpool_block(global const y_number *y, global const dy_number *dy, global const winners_t *winner,
                         global dx_number *dx, const shape *s, size_t n, int oh, int ow, int v) {
    size_t out = ((n * s->out_h + oh) * s->out_w + ow) * s->vectors + v;
    size_t at = ((n * s->in_h + oh * SIZE_H) * s->in_w + ow * SIZE_W) * s->vectors + v;
    pack gradient = gradient_of(y, dy, out);
#ifdef AVERAGE
    gradient *= 1.0f / (SIZE_H * SIZE_W);
#else
    ipack where = TO_IPACK(winner[out]);
#endif
    UNROLL_WINDOW for (int h = 0; h < SIZE_H; h++) {
        UNROLL_WINDOW for (int w = 0; w < SIZE_W; w++) {
#ifdef AVERAGE
            SET_PACK(DX_STORAGE, dx, at + ((size_t)h * s->in_w + w) * s->vectors, gradient);
#else
            pack mine = where == (ipack)(h * SIZE_W + w) ? gradient : (pack)0;
            SET_PACK(DX_STORAGE, dx, at + ((size_t)h * s->in_w + w) * s->vectors, mine);
#endif
        }
    }
    int rows = oh == s->out_h - 1 ? s->in_h - oh * SIZE_H : SIZE_H;
    int columns = ow == s->out_w - 1 ? s->in_w - ow * SIZE_W : SIZE_W;
    for (int h = 0; h < rows; h++)
        for (int w = h < SIZE_H ? SIZE_W : 0; w < columns; w++)
            SET_PACK(DX_STORAGE, dx, at + ((size_t)h * s->in_w + w) * s->vectors, (pack)0);
}

KERNEL void pool2d_backward(global const y_number *y, global const dy_number *dy, global const WINNER *winner,
                            global dx_number *dx, int count, SHAPE_ARGS) {
    const shape s = SHAPE;
    global const winners_t *keep = (global const winners_t *)winner;
#ifdef TILE
    FOR_MY (row, (size_t)count * out_h) {
        size_t n = row / out_h;
        int oh = (int)(row - n * out_h);
        for (int ow = 0; ow < out_w; ow++)
            for (int v = 0; v < vectors; v++) unpool_block(y, dy, keep, dx, &s, n, oh, ow, v);
    }
#else
    FOR_MY (i, (size_t)count * out_h * out_w * vectors) {
        size_t pixel = i / vectors, row = pixel / out_w, n = row / out_h;
        unpool_block(y, dy, keep, dx, &s, n, (int)(row - n * out_h), (int)(pixel - row * out_w),
                     (int)(i - pixel * vectors));
    }
#endif
}

#else

/* The windows along one axis that cover its element `i` are first_window to end_window - 1. */
static int first_window(int i, int pad, int size, int stride) {
    int beyond = i + pad - size; /* a window that starts here or before does not reach i */
    return beyond < 0 ? 0 : beyond / stride + 1;
}
static int end_window(int i, int pad, int stride, int windows) { return min((i + pad) / stride + 1, windows); }

/* The gradient that window (oh, ow) passes to its element number `place`. */
static pack handed(global const y_number *y, global const dy_number *dy, global const winners_t *winner, const shape *s,
                   size_t n, int oh, int ow, int v, int place) {
    size_t out = ((n * s->out_h + oh) * s->out_w + ow) * s->vectors + v;
#ifdef AVERAGE
    int area =
        covered(oh * STRIDE_H - s->pad_top, SIZE_H, s->in_h) * covered(ow * STRIDE_W - s->pad_left, SIZE_W, s->in_w);
    return gradient_of(y, dy, out) / (float)area;
#else
    return TO_IPACK(winner[out]) == (ipack)place ? gradient_of(y, dy, out) : (pack)0;
#endif
}

/* Each input element gathers from the windows that cover it, in their order. */
static void unpool_element(global const y_number *y, global const dy_number *dy, global const winners_t *winner,
                           global dx_number *dx, const shape *s, size_t n, int ih, int iw, int v) {
    int end_h = end_window(ih, s->pad_top, STRIDE_H, s->out_h), end_w = end_window(iw, s->pad_left, STRIDE_W, s->out_w);
    pack sum = 0;
    for (int oh = first_window(ih, s->pad_top, SIZE_H, STRIDE_H); oh < end_h; oh++) {
        for (int ow = first_window(iw, s->pad_left, SIZE_W, STRIDE_W); ow < end_w; ow++) {
            int h = ih + s->pad_top - oh * STRIDE_H, w = iw + s->pad_left - ow * STRIDE_W;
            sum += handed(y, dy, winner, s, n, oh, ow, v, h * SIZE_W + w);
        }
    }
    SET_PACK(DX_STORAGE, dx, ((n * s->in_h + ih) * s->in_w + iw) * s->vectors + v, sum);
}

KERNEL void pool2d_backward(global const y_number *y, global const dy_number *dy, global const WINNER *winner,
                            global dx_number *dx, int count, SHAPE_ARGS) {
    const shape s = SHAPE;
    global const winners_t *keep = (global const winners_t *)winner;
#ifdef TILE
    FOR_MY (row, (size_t)count * in_h) {
        size_t n = row / in_h;
        int ih = (int)(row - n * in_h);
        for (int iw = 0; iw < in_w; iw++)
            for (int v = 0; v < vectors; v++) unpool_element(y, dy, keep, dx, &s, n, ih, iw, v);
    }
#else
    FOR_MY (i, (size_t)count * in_h * in_w * vectors) {
        size_t pixel = i / vectors, row = pixel / in_w, n = row / in_h;
        unpool_element(y, dy, keep, dx, &s, n, (int)(row - n * in_h), (int)(pixel - row * in_w),
                       (int)(i - pixel * vectors));
    }
#endif
}

#endif
