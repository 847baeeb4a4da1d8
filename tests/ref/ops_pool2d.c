#include "ref/ref_elementwise.h"

/* The index of element (n, h, w, c) in (count, h, w, channels), or -1 outside the image. */
static long at(const clq_pool2d_problem *p, size_t n, long h, long w, size_t c) {
    if (h < 0 || w < 0 || h >= (long)p->in_h || w >= (long)p->in_w) return -1;
    return (long)(((n * p->in_h + (size_t)h) * p->in_w + (size_t)w) * p->channels + c);
}

typedef struct window {
    long best;  /* index of the largest element */
    int winner; /* the element's place in the window */
    size_t covered;
    double sum;
} window;

/* Looks at one window. Unless dx is NULL, adds `share` to every element of dx in the window that is not padding. */
static window look(const clq_pool2d_problem *p, size_t n, size_t oh, size_t ow, size_t c, const double *x, double *dx,
                   double share) {
    window result = {.best = -1};
    for (size_t h = 0; h < p->size_h; h++) {
        for (size_t w = 0; w < p->size_w; w++) {
            long i = at(p, n, (long)(oh * p->stride_h + h) - (long)p->pad_top,
                        (long)(ow * p->stride_w + w) - (long)p->pad_left, c);
            if (i < 0) continue;
            result.covered++;
            result.sum += x[i];
            if (dx) dx[i] += share;
            if (result.best < 0 || x[i] > x[result.best]) {
                result.best = i;
                result.winner = (int)(h * p->size_w + w);
            }
        }
    }
    return result;
}

void ref_pool2d(const clq_pool2d_problem *p, size_t count, const double *x, double *y, int *winner) {
    size_t i = 0;
    for (size_t n = 0; n < count; n++)
        for (size_t oh = 0; oh < p->out_h; oh++)
            for (size_t ow = 0; ow < p->out_w; ow++)
                for (size_t c = 0; c < p->channels; c++, i++) {
                    window one = look(p, n, oh, ow, c, x, NULL, 0);
                    y[i] = p->average ? one.sum / (double)one.covered : x[one.best];
                    if (winner) winner[i] = one.winner;
                }
}

void ref_pool2d_gradient(const clq_pool2d_problem *p, size_t count, const double *x, const double *dy, double *dx) {
    for (size_t i = 0; i < count * p->in_h * p->in_w * p->channels; i++) dx[i] = 0;
    size_t i = 0;
    for (size_t n = 0; n < count; n++)
        for (size_t oh = 0; oh < p->out_h; oh++)
            for (size_t ow = 0; ow < p->out_w; ow++)
                for (size_t c = 0; c < p->channels; c++, i++) {
                    window one = look(p, n, oh, ow, c, x, NULL, 0);
                    if (p->average)
                        look(p, n, oh, ow, c, x, dx, dy[i] / (double)one.covered);
                    else
                        dx[one.best] += dy[i];
                }
}
