/* Moves the pixels of images: pixel (i, j) of y is taken from a place of x, which may lie between pixels. Each sample
 * has its own rule, by its draws (4), from 0 to 1. x (height, width, channels), y (out_height, out_width, channels).
 * KIND: 0 flip, 1 rotation, 2 zoom, 3 shift, 4 crop. FILL is what lies beyond the edge: 0 `value`, 1 the pixel at the
 * edge, 2 the image reflected at the edge, 3 the image from its other side. NEAREST: the nearest pixel is taken,
 * without interpolation. */
typedef STORED(X_STORAGE) x_number;
typedef STORED(Y_STORAGE) y_number;

/* The place that a place beyond the edge is taken from, along one axis. */
ALWAYS_INLINE float folded(float at, float size) {
#if FILL == 1
    return clamp(at, 0.0f, size - 1.0f);
#elif FILL == 2
    const float period = 2.0f * size, place = fabs(at + 0.5f), rest = place - period * floor(place / period);
    return clamp((rest < size ? rest : period - rest) - 0.5f, 0.0f, size - 1.0f);
#elif FILL == 3
    return at - size * floor(at / size);
#else
    return at;
#endif
}

ALWAYS_INLINE float number_at(global const x_number *x, int i, int j, int c, int height, int width, int channels,
                              float value) {
#if FILL == 3
    i = (i % height + height) % height;
    j = (j % width + width) % width;
#elif FILL == 0
    if (i < 0 || j < 0 || i >= height || j >= width) return value;
#else
    i = clamp(i, 0, height - 1);
    j = clamp(j, 0, width - 1);
#endif
    return READ(X_STORAGE, x + ((size_t)i * width + j) * channels + c);
}

KERNEL void warp(global const x_number *x, global const float *draws, global y_number *y, int count, int height,
                 int width, int channels, int out_height, int out_width, float low0, float high0, float low1,
                 float high1, int flags, float value) {
    const int out = out_height * out_width;
    FOR_MY (place, (size_t)count * out) {
        const size_t sample = place / out;
        const int p = (int)(place - sample * out), i = p / out_width, j = p - i * out_width;
        global const float *draw = draws + sample * 4;
        const float first = fma(draw[0], high0 - low0, low0), second = fma(draw[1], high1 - low1, low1);
        const float middle_i = 0.5f * (float)(height - 1), middle_j = 0.5f * (float)(width - 1);
        float at_i = (float)i, at_j = (float)j;
#if KIND == 0
        if (draw[0] <= 0.5f) {
            if (flags & 1) at_j = (float)(width - 1 - j);
            if (flags & 2) at_i = (float)(height - 1 - i);
        }
#elif KIND == 1
        const float turn = 6.283185307179586f * first, across = cos(turn), along = sin(turn);
        at_j = middle_j + across * ((float)j - middle_j) - along * ((float)i - middle_i);
        at_i = middle_i + along * ((float)j - middle_j) + across * ((float)i - middle_i);
#elif KIND == 2
        const float wide = flags & 1 ? second : first;
        at_i = middle_i + (1.0f + first) * ((float)i - middle_i);
        at_j = middle_j + (1.0f + wide) * ((float)j - middle_j);
#elif KIND == 3
        at_i = (float)i - first * (float)height;
        at_j = (float)j - second * (float)width;
#else
        at_i = (float)i + floor(first);
        at_j = (float)j + floor(second);
#endif
        at_i = folded(at_i, (float)height);
        at_j = folded(at_j, (float)width);
#ifdef NEAREST
        const int top = (int)rint(at_i), left = (int)rint(at_j);
#else
        const int top = (int)floor(at_i), left = (int)floor(at_j);
        const float down = at_i - (float)top, right = at_j - (float)left;
#endif
        global const x_number *image = x + sample * height * width * channels;
        for (int c = 0; c < channels; c++) {
            float number = number_at(image, top, left, c, height, width, channels, value);
#ifndef NEAREST
            const float beside = number_at(image, top, left + 1, c, height, width, channels, value),
                        below = number_at(image, top + 1, left, c, height, width, channels, value),
                        both = number_at(image, top + 1, left + 1, c, height, width, channels, value);
            const float upper = fma(right, beside - number, number), lower = fma(right, both - below, below);
            number = fma(down, lower - upper, upper);
#endif
            WRITE(Y_STORAGE, number, y + place * channels + c);
        }
    }
}
