#include "ref/ref_elementwise.h"

#include <math.h>

/* Extends an axis beyond its edges: returns the place in the image that `at` reads, or -1 for the fill value. */
static long extended(clq_warp_fill fill, long at, long size) {
    long turn = at % (2 * size);
    if (at >= 0 && at < size) return at;
    if (fill == CLQ_FILL_VALUE) return -1;
    if (fill == CLQ_FILL_EDGE) return at < 0 ? 0 : size - 1;
    if (turn < 0) turn += 2 * size;
    if (fill == CLQ_FILL_WRAPPED) return turn % size;
    return turn < size ? turn : 2 * size - 1 - turn; /* a b c | c b a */
}

static double number_at(const clq_warp_problem *p, const double *image, double row, double column, size_t channel) {
    const long i = extended(p->fill, (long)row, (long)p->height), j = extended(p->fill, (long)column, (long)p->width);
    if (i < 0 || j < 0) return p->value;
    return image[((size_t)i * p->width + (size_t)j) * p->channels + channel];
}

/* The source (row, column) of a pixel of y. Rows go down. */
static void source_of(const clq_warp_problem *p, const double *draws, double row, double column, double from[2]) {
    double drawn[2];
    const double down = row - ((double)p->height - 1) / 2, right = column - ((double)p->width - 1) / 2;
    for (unsigned i = 0; i < 2; i++) drawn[i] = p->ranges[i][0] + draws[i] * (p->ranges[i][1] - p->ranges[i][0]);
    from[0] = row;
    from[1] = column;
    switch (p->kind) {
    case CLQ_WARP_FLIP:
        if (draws[0] > 0.5) break;
        if (p->flags & 2) from[0] = (double)p->height - 1 - row;
        if (p->flags & 1) from[1] = (double)p->width - 1 - column;
        break;
    case CLQ_WARP_TURN: { /* the image turns counterclockwise, so sources turn clockwise */
        const double angle = 2 * M_PI * drawn[0];
        from[0] += cos(angle) * down + sin(angle) * right - down;
        from[1] += cos(angle) * right - sin(angle) * down - right;
        break;
    }
    case CLQ_WARP_ZOOM:
        from[0] += drawn[0] * down;
        from[1] += drawn[p->flags & 1] * right;
        break;
    case CLQ_WARP_SHIFT:
        from[0] -= drawn[0] * (double)p->height;
        from[1] -= drawn[1] * (double)p->width;
        break;
    case CLQ_WARP_CROP:
        from[0] += floor(drawn[0]);
        from[1] += floor(drawn[1]);
        break;
    }
}

static double tie_of(double at) { return fabs(at - floor(at) - 0.5); }

void ref_warp(const clq_warp_problem *p, size_t count, const double *x, const double *draws, double *y, double *ties) {
    const size_t out = p->out_height * p->out_width;
    for (size_t n = 0; n < count * out; n++) {
        const size_t sample = n / out, row = n % out / p->out_width, column = n % p->out_width;
        const double *image = x + sample * p->height * p->width * p->channels;
        double from[2];
        source_of(p, draws + 4 * sample, (double)row, (double)column, from);
        const double top = floor(from[0]), left = floor(from[1]), lower = from[0] - top, right = from[1] - left;
        if (ties) ties[n] = fmin(tie_of(from[0]), tie_of(from[1]));
        for (size_t c = 0; c < p->channels; c++) {
            double sum = 0;
            for (unsigned k = 0; k < 4 && !p->nearest; k++)
                sum += (k & 2 ? lower : 1 - lower) * (k & 1 ? right : 1 - right) *
                       number_at(p, image, top + (k >> 1), left + (k & 1), c);
            if (p->nearest) sum = number_at(p, image, floor(from[0] + 0.5), floor(from[1] + 0.5), c);
            y[n * p->channels + c] = sum;
        }
    }
}
