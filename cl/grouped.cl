/* Grouped convolutions, depthwise ones among them: filter f reads only the channels of group f / OUT. x (in_h, in_w,
 * in_c), w (KH, KW, IN, out_c), y (out_h, out_w, out_c). Each group has IN channels and OUT filters. With TILE, a
 * work-item makes whole rows, else it makes single numbers. X_STORAGE and so on: how numbers are stored; ACT: the
 * activation (prelude.cl). */
typedef STORED(X_STORAGE) x_number;
typedef STORED(Y_STORAGE) y_number;
typedef STORED(DZ_STORAGE) dz_number;
typedef STORED(DX_STORAGE) dx_number;

#define SIZES                                                                                                          \
    int in_h, int in_w, int in_c, int out_h, int out_w, int out_c, int stride_h, int stride_w, int dilation_h,         \
        int dilation_w, int pad_h, int pad_w

#ifdef TILE

/* Lane l has the number at pixel p that filter f + l reads as input `i` of its group, for the first `filters` lanes. */
ALWAYS_INLINE floatv channels_at(global const x_number *p, int f, int filters, int i) {
#if IN == 1 && OUT == 1
    return READ_V_UNTIL(X_STORAGE, p + f, p + f + filters);
#elif OUT % VEC == 0
    return (floatv)(READ(X_STORAGE, p + f / OUT * IN + i));
#else
    float lanes[VEC];
    for (int k = 0; k < VEC; k++) lanes[k] = k < filters ? READ(X_STORAGE, p + (f + k) / OUT * IN + i) : 0.0f;
    return CLQ_JOIN(vload, VEC)(0, lanes);
#endif
}

ALWAYS_INLINE floatv floats_until(global const float *p, int n) { return READ_V_UNTIL(0, p, p + n); }

#define STORE_UNTIL(S, value, p, n)                                                                                    \
    if ((n) >= VEC) {                                                                                                  \
        WRITE_V(S, value, p);                                                                                          \
    } else {                                                                                                           \
        float lanes_[VEC];                                                                                             \
        CLQ_JOIN(vstore, VEC)(value, 0, lanes_);                                                                       \
        for (int k_ = 0; k_ < (n); k_++) WRITE(S, lanes_[k_], (p) + k_);                                               \
    }

#define PIXELS 4

/* Makes pixels ox to ox + pixels - 1 of row oy of y, for `filters` filters from f on. whole: there are PIXELS pixels,
 * and all their taps lie inside the width of the image. */
ALWAYS_INLINE void filter_pixels(global const x_number *image, global const float *w, global y_number *to, floatv start,
                                 int oy, int ox, int pixels, int f, int filters, bool whole, SIZES) {
    floatv sums[PIXELS];
    UNROLL for (int p = 0; p < PIXELS; p++) sums[p] = start;
    for (int ky = 0; ky < KH; ky++) {
        const int iy = oy * stride_h - pad_h + ky * dilation_h;
        if (iy < 0 || iy >= in_h) continue;
        UNROLL for (int kx = 0; kx < KW; kx++) {
            for (int i = 0; i < IN; i++) {
                const floatv tap = floats_until(w + ((size_t)(ky * KW + kx) * IN + i) * out_c + f, filters);
                UNROLL for (int p = 0; p < PIXELS; p++) {
                    const int ix = (ox + p) * stride_w - pad_w + kx * dilation_w;
                    if (!whole && (p >= pixels || ix < 0 || ix >= in_w)) continue;
                    sums[p] = fma(channels_at(image + ((size_t)iy * in_w + ix) * in_c, f, filters, i), tap, sums[p]);
                }
            }
        }
    }
    UNROLL for (int p = 0; p < PIXELS; p++) if (whole || p < pixels)
        STORE_UNTIL(Y_STORAGE, ACTIVATE(floatv, sums[p]), to + (size_t)(ox + p) * out_c + f, filters)
}

KERNEL void grouped_forward(global const x_number *x, global const float *w, global const float *b, global y_number *y,
                            int count, int in_h, int in_w, int in_c, int out_h, int out_w, int out_c, int stride_h,
                            int stride_w, int dilation_h, int dilation_w, int pad_h, int pad_w) {
    FOR_MY (row, (size_t)count * out_h) {
        const size_t sample = row / out_h;
        const int oy = (int)(row - sample * out_h);
        global const x_number *image = x + sample * in_h * in_w * in_c;
        global y_number *to = y + row * out_w * out_c;
        /* All taps of pixels `first` to `end` - 1 lie inside the width of the image. */
        const int first = clamp((pad_w + stride_w - 1) / stride_w, 0, out_w);
        const int reach = in_w - 1 + pad_w - (KW - 1) * dilation_w;
        const int end = reach < 0 ? first : clamp(reach / stride_w + 1, first, out_w);
        for (int f = 0; f < out_c; f += VEC) {
            const int filters = min(VEC, out_c - f);
#ifdef BIAS
            const floatv start = floats_until(b + f, filters);
#else
            const floatv start = 0;
#endif
            for (int ox = 0; ox < out_w;) {
                const bool whole = ox >= first && ox + PIXELS <= end;
                const int pixels = whole ? PIXELS : ox < first ? min(PIXELS, first - ox) : min(PIXELS, out_w - ox);
                if (whole)
                    filter_pixels(image, w, to, start, oy, ox, PIXELS, f, filters, true, in_h, in_w, in_c, out_h, out_w,
                                  out_c, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w);
                else
                    filter_pixels(image, w, to, start, oy, ox, pixels, f, filters, false, in_h, in_w, in_c, out_h,
                                  out_w, out_c, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w);
                ox += pixels;
            }
        }
    }
}

/* The gradient of `channels` channels from c on, at pixel (iy, ix): the sum over the taps that met the pixel. */
ALWAYS_INLINE floatv gather(global const dz_number *image, global const float *w, int iy, int ix, int c, int channels,
                            SIZES) {
    floatv sum = 0;
    for (int ky = 0; ky < KH; ky++) {
        const int ty = iy + pad_h - ky * dilation_h;
        if (ty < 0 || ty % stride_h || ty / stride_h >= out_h) continue;
        for (int kx = 0; kx < KW; kx++) {
            const int tx = ix + pad_w - kx * dilation_w;
            if (tx < 0 || tx % stride_w || tx / stride_w >= out_w) continue;
            global const dz_number *dz = image + ((size_t)(ty / stride_h) * out_w + tx / stride_w) * out_c;
            global const float *taps = w + (size_t)(ky * KW + kx) * IN * out_c;
#if IN == 1 && OUT == 1
            sum = fma(READ_V_UNTIL(DZ_STORAGE, dz + c, dz + c + channels), floats_until(taps + c, channels), sum);
#else
            float lanes[VEC];
            for (int k = 0; k < VEC; k++) {
                lanes[k] = 0;
                if (k >= channels) continue;
                const int group = (c + k) / IN, i = (c + k) - group * IN;
                global const float *row = taps + (size_t)i * out_c + group * OUT;
                float part = 0;
                for (int j = 0; j < OUT; j++) part = fma(READ(DZ_STORAGE, dz + group * OUT + j), row[j], part);
                lanes[k] = part;
            }
            sum += CLQ_JOIN(vload, VEC)(0, lanes);
#endif
        }
    }
    return sum;
}

KERNEL void grouped_input_gradient(global const dz_number *dz, global const float *w, global dx_number *dx, int count,
                                   int in_h, int in_w, int in_c, int out_h, int out_w, int out_c, int stride_h,
                                   int stride_w, int dilation_h, int dilation_w, int pad_h, int pad_w) {
    FOR_MY (row, (size_t)count * in_h) {
        const size_t sample = row / in_h;
        const int iy = (int)(row - sample * in_h);
        global const dz_number *image = dz + sample * out_h * out_w * out_c;
        global dx_number *to = dx + row * in_w * in_c;
        for (int ix = 0; ix < in_w; ix++)
            for (int c = 0; c < in_c; c += VEC) {
                const int channels = min(VEC, in_c - c);
                const floatv sum = gather(image, w, iy, ix, c, channels, in_h, in_w, in_c, out_h, out_w, out_c,
                                          stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w);
                STORE_UNTIL(DX_STORAGE, sum, to + (size_t)ix * in_c + c, channels)
            }
    }
}

/* Adds what one row of dz gives to the partial sums of the taps, for `filters` filters from f on and input `i` of their
 * groups. */
ALWAYS_INLINE void add_row(global const x_number *image, global const dz_number *row, global float *partial, int oy,
                           int f, int filters, int i, SIZES) {
    floatv sums[KH * KW];
    UNROLL for (int t = 0; t < KH * KW; t++) sums[t] = 0;
    for (int ox = 0; ox < out_w; ox++) {
        const floatv slope =
            READ_V_UNTIL(DZ_STORAGE, row + (size_t)ox * out_c + f, row + (size_t)ox * out_c + f + filters);
        UNROLL for (int ky = 0; ky < KH; ky++) {
            const int iy = oy * stride_h - pad_h + ky * dilation_h;
            if (iy < 0 || iy >= in_h) continue;
            UNROLL for (int kx = 0; kx < KW; kx++) {
                const int ix = ox * stride_w - pad_w + kx * dilation_w;
                if (ix < 0 || ix >= in_w) continue;
                sums[ky * KW + kx] =
                    fma(channels_at(image + ((size_t)iy * in_w + ix) * in_c, f, filters, i), slope, sums[ky * KW + kx]);
            }
        }
    }
    UNROLL for (int t = 0; t < KH * KW; t++) {
        global float *to = partial + ((size_t)t * IN + i) * out_c + f;
        const floatv sum = floats_until(to, filters) + sums[t];
        STORE_UNTIL(0, sum, to, filters)
    }
}

/* partials (slices, KH, KW, IN, out_c): each slice has a range of the rows of all samples. */
KERNEL void grouped_weight_gradient(global const x_number *x, global const dz_number *dz, global float *partials,
                                    int count, int slices, int in_h, int in_w, int in_c, int out_h, int out_w,
                                    int out_c, int stride_h, int stride_w, int dilation_h, int dilation_w, int pad_h,
                                    int pad_w) {
    const size_t rows = (size_t)count * out_h, share = (rows + slices - 1) / slices,
                 numbers = (size_t)KH * KW * IN * out_c;
    FOR_MY (slice, slices) {
        global float *partial = partials + slice * numbers;
        const size_t begin = min(slice * share, rows), end = min(begin + share, rows);
        for (size_t n = 0; n < numbers; n++) partial[n] = 0;
        for (size_t row = begin; row < end; row++) {
            const size_t sample = row / out_h;
            for (int f = 0; f < out_c; f += VEC)
                for (int i = 0; i < IN; i++)
                    add_row(x + sample * in_h * in_w * in_c, dz + row * out_w * out_c, partial,
                            (int)(row - sample * out_h), f, min(VEC, out_c - f), i, in_h, in_w, in_c, out_h, out_w,
                            out_c, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w);
        }
    }
}

#else

KERNEL void grouped_forward(global const x_number *x, global const float *w, global const float *b, global y_number *y,
                            int count, int in_h, int in_w, int in_c, int out_h, int out_w, int out_c, int stride_h,
                            int stride_w, int dilation_h, int dilation_w, int pad_h, int pad_w) {
    FOR_MY (n, (size_t)count * out_h * out_w * out_c) {
        const int f = (int)(n % out_c);
        const size_t pixel = n / out_c, row = pixel / out_w, sample = row / out_h;
        const int ox = (int)(pixel - row * out_w), oy = (int)(row - sample * out_h);
        float sum = 0;
#ifdef BIAS
        sum = b[f];
#endif
        for (int ky = 0; ky < KH; ky++) {
            const int iy = oy * stride_h - pad_h + ky * dilation_h;
            if (iy < 0 || iy >= in_h) continue;
            for (int kx = 0; kx < KW; kx++) {
                const int ix = ox * stride_w - pad_w + kx * dilation_w;
                if (ix < 0 || ix >= in_w) continue;
                global const x_number *from = x + ((sample * in_h + iy) * in_w + ix) * in_c + f / OUT * IN;
                for (int i = 0; i < IN; i++)
                    sum = fma(READ(X_STORAGE, from + i), w[((size_t)(ky * KW + kx) * IN + i) * out_c + f], sum);
            }
        }
        const float result = ACTIVATE(float, sum);
        WRITE(Y_STORAGE, result, y + n);
    }
}

KERNEL void grouped_input_gradient(global const dz_number *dz, global const float *w, global dx_number *dx, int count,
                                   int in_h, int in_w, int in_c, int out_h, int out_w, int out_c, int stride_h,
                                   int stride_w, int dilation_h, int dilation_w, int pad_h, int pad_w) {
    FOR_MY (n, (size_t)count * in_h * in_w * in_c) {
        const int c = (int)(n % in_c), group = c / IN, i = c - group * IN;
        const size_t pixel = n / in_c, row = pixel / in_w, sample = row / in_h;
        const int ix = (int)(pixel - row * in_w), iy = (int)(row - sample * in_h);
        float sum = 0;
        for (int ky = 0; ky < KH; ky++) {
            const int ty = iy + pad_h - ky * dilation_h;
            if (ty < 0 || ty % stride_h || ty / stride_h >= out_h) continue;
            for (int kx = 0; kx < KW; kx++) {
                const int tx = ix + pad_w - kx * dilation_w;
                if (tx < 0 || tx % stride_w || tx / stride_w >= out_w) continue;
                global const dz_number *from =
                    dz + ((sample * out_h + ty / stride_h) * out_w + tx / stride_w) * out_c + group * OUT;
                global const float *taps = w + ((size_t)(ky * KW + kx) * IN + i) * out_c + group * OUT;
                for (int j = 0; j < OUT; j++) sum = fma(READ(DZ_STORAGE, from + j), taps[j], sum);
            }
        }
        WRITE(DX_STORAGE, sum, dx + n);
    }
}

KERNEL void grouped_weight_gradient(global const x_number *x, global const dz_number *dz, global float *partials,
                                    int count, int slices, int in_h, int in_w, int in_c, int out_h, int out_w,
                                    int out_c, int stride_h, int stride_w, int dilation_h, int dilation_w, int pad_h,
                                    int pad_w) {
    const size_t rows = (size_t)count * out_h, share = (rows + slices - 1) / slices,
                 numbers = (size_t)KH * KW * IN * out_c;
    FOR_MY (n, slices * numbers) {
        const size_t slice = n / numbers, weight = n - slice * numbers, above = weight / out_c;
        const int f = (int)(weight - above * out_c), i = (int)(above % IN), tap = (int)(above / IN);
        const int ky = tap / KW, kx = tap - ky * KW;
        const size_t begin = min(slice * share, rows), end = min(begin + share, rows);
        float total = 0;
        for (size_t row = begin; row < end; row++) {
            const size_t sample = row / out_h;
            const int iy = (int)(row - sample * out_h) * stride_h - pad_h + ky * dilation_h;
            if (iy < 0 || iy >= in_h) continue;
            global const x_number *from = x + (sample * in_h + iy) * in_w * in_c + f / OUT * IN + i;
            float sum = 0;
            for (int ox = 0; ox < out_w; ox++) {
                const int ix = ox * stride_w - pad_w + kx * dilation_w;
                if (ix < 0 || ix >= in_w) continue;
                sum = fma(READ(X_STORAGE, from + (size_t)ix * in_c),
                          READ(DZ_STORAGE, dz + (row * out_w + ox) * out_c + f), sum);
            }
            total += sum;
        }
        partials[n] = total;
    }
}

#endif
