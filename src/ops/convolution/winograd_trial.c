/* The trial of a block of Winograd's products. */
#include "ops/local/local.h"
#include "ops/convolution/winograd.h"

/* The tiles reach beyond the image on all sides, and beyond the outputs in one direction: 5 x 4 inputs, padded by one
 * row and two columns, give 5 x 6 outputs. There are edges in every block of tiles and columns, and in steps of
 * channels. */
enum { EXAMPLES = 4, IN_H = 5, IN_W = 4, OUT_H = 5, OUT_W = 6, CHANNELS = 14, COLUMNS = 36 };

static const clq_winograd_tiles tiles = {(OUT_H + 1) / 2, (OUT_W + 1) / 2, (size_t)OUT_H *OUT_W};

typedef struct conv {
    size_t block;
    bool transposed; /* the weights, as for a gradient by the input */
} conv;

static clq_patches patches_of(bool transposed) {
    int tap = transposed ? -1 : 1, last = transposed ? CLQ_WINOGRAD_TAPS - 1 : 0;
    return (clq_patches){.rows = 1,
                         .channels = CHANNELS,
                         .h = {IN_H, OUT_H, CLQ_WINOGRAD_TAPS, 1, last - 1, tap, 1},
                         .w = {IN_W, OUT_W, CLQ_WINOGRAD_TAPS, 1, last - 2, tap, 1}};
}

/* Weights are multiples of 4: halved twice, they are still whole. */
static float number(const void *context, size_t array, size_t i) {
    (void)context;
    return (float)(((int)(i * 7 % 13) - 6) * (array == 1 ? 4 : 1));
}

/* The input place that an output meets through a tap, or -1 if it lies outside. */
static int place_of(const clq_axis *a, size_t out, size_t tap) {
    int at = (int)out + a->first + (int)tap * a->tap;
    return at < (int)a->in ? CLQ_MAX(at, -1) : -1;
}

static float sum_of(const clq_patches *q, bool transposed, size_t image, size_t y, size_t x, size_t column) {
    float sum = 0;
    for (size_t tap = 0; tap < q->h.taps * q->w.taps; tap++) {
        int down = place_of(&q->h, y, tap / q->w.taps), right = place_of(&q->w, x, tap % q->w.taps);
        if (down < 0 || right < 0) continue;
        size_t pixel = (image * q->h.in + (size_t)down) * q->w.in + (size_t)right;
        for (size_t k = 0; k < CHANNELS; k++) {
            size_t weight =
                transposed ? (tap * COLUMNS + column) * CHANNELS + k : (tap * CHANNELS + k) * COLUMNS + column;
            sum += number(NULL, 0, pixel * CHANNELS + k) * number(NULL, 1, weight);
        }
    }
    return sum;
}

static bool right(const void *context, const float *y) {
    bool transposed = ((const conv *)context)->transposed;
    clq_patches q = patches_of(transposed);
    for (size_t pixel = 0; pixel < (size_t)EXAMPLES * OUT_H * OUT_W; pixel++)
        for (size_t n = 0; n < COLUMNS; n++)
            if (y[pixel * COLUMNS + n] !=
                sum_of(&q, transposed, pixel / (OUT_H * OUT_W), pixel / OUT_W % OUT_H, pixel % OUT_W, n))
                return false;
    return true;
}

static void add(clq_list *list, const void *context, const clq_value values[3]) {
    const conv *c = context;
    clq_product product = clq_product_forward(patches_of(c->transposed), COLUMNS, CLQ_ACTIVATION_LINEAR, values[0],
                                              values[1], CLQ_NO_VALUE, values[2]);
    product.label = "trial";
    product.transposed = c->transposed;
    (void)clq_winograd_local_add(list, &product, &tiles, c->block);
}

bool clq_winograd_block_works(clq_device *device, size_t index, const void *unused) {
    enum { WEIGHTS = CLQ_WINOGRAD_TAPS * CLQ_WINOGRAD_TAPS * CHANNELS * COLUMNS };
    (void)unused;
    const conv convs[] = {{index, false}, {index, true}};
    clq_local_trial trials[2];
    char name[CLQ_CANDIDATE_BYTES];
    for (size_t i = 0; i < 2; i++)
        trials[i] = (clq_local_trial){
            .numbers = {(size_t)EXAMPLES * IN_H * IN_W * CHANNELS, WEIGHTS, (size_t)EXAMPLES * OUT_H * OUT_W * COLUMNS},
            .number = number,
            .examples = EXAMPLES,
            .add = add,
            .right = right,
            .context = &convs[i]};
    clq_winograd_block_name(index, name);
    return clq_local_works(device, name, "convolutions", trials, 2);
}
