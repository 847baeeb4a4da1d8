/* The rate at which a device multiplies and adds at best: in registers alone (peak in cl/bench.cl). */
#include "device/device.h"

#include <math.h>

enum {
    ITEMS_PER_UNIT = 2048 /* fill a device */,
    PEAK_ROUNDS_MOST = 32768 /* some drivers end longer loops */,
    PEAK_LAUNCHES = 5
};
static const double peak_s = 5e-3; /* of a launch at least */

typedef struct peak {
    clq_queue *queue;
    clq_kernel *kernel;
    clq_buffer *out;
    size_t items;
    const size_t *local;
    double per_round; /* operations of all items */
} peak;

static const size_t one[1] = {1}; /* the local size of a tile kernel */

static size_t items_of(const clq_device *device) {
    if (clq_device_family(device) == CLQ_FAMILY_TILE) return clq_device_min_groups(device);
    return (size_t)CLQ_MAX(clq_device_get_info(device)->compute_units, 1u) * ITEMS_PER_UNIT;
}

static clq_status time_peak(peak *p, int rounds, double *out) {
    CLQ_TRY(clq_kernel_set_bytes(p->kernel, 3, &rounds, sizeof rounds));
    double start = clq_now();
    CLQ_TRY(clq_queue_launch(p->queue, p->kernel, 1, &p->items, p->local));
    CLQ_TRY(clq_queue_finish(p->queue));
    *out = clq_now() - start;
    return CLQ_OK;
}

/* x = x / 2 + 1 / 2 goes to 1 from anywhere, so the results are known. */
static clq_status check_peak(peak *p, bool *ok) {
    float sums[2], want = (float)(p->per_round / (double)p->items / 2);
    CLQ_TRY(clq_queue_read(p->queue, p->out, 0, &sums[0], sizeof(float), true));
    CLQ_TRY(clq_queue_read(p->queue, p->out, (p->items - 1) * sizeof(float), &sums[1], sizeof(float), true));
    *ok = fabsf(sums[0] - want) <= 1e-3f * want && fabsf(sums[1] - want) <= 1e-3f * want;
    return CLQ_OK;
}

static clq_status run_peak(peak *p, double *out) {
    const float half = 0.5f;
    CLQ_TRY(clq_kernel_set_buffer(p->kernel, 0, p->out));
    CLQ_TRY(clq_kernel_set_bytes(p->kernel, 1, &half, sizeof half));
    CLQ_TRY(clq_kernel_set_bytes(p->kernel, 2, &half, sizeof half));
    int rounds = 512;
    double seconds = 0, best = INFINITY;
    CLQ_TRY(time_peak(p, rounds, &seconds)); /* the first is not counted */
    do {
        rounds *= 2;
        CLQ_TRY(time_peak(p, rounds, &seconds));
    } while (seconds < peak_s && rounds < PEAK_ROUNDS_MOST);
    for (int i = 0; i < PEAK_LAUNCHES; i++) {
        CLQ_TRY(time_peak(p, rounds, &seconds));
        best = CLQ_MIN(best, seconds);
    }
    bool ok;
    CLQ_TRY(check_peak(p, &ok));
    *out = ok ? p->per_round * rounds / best * 1e-9 : NAN;
    return CLQ_OK;
}

clq_status clq_measure_peak(clq_queue *queue, double *out) {
    enum { CHAINS = 10 /* cl/bench.cl */ };
    clq_device *device = clq_queue_device(queue);
    bool tile = clq_device_family(device) == CLQ_FAMILY_TILE;
    peak p = {.queue = queue, .local = tile ? one : NULL, .items = items_of(device)};
    p.per_round = 2.0 * CHAINS * clq_device_vector(device) * (double)p.items;
    clq_status status = clq_kernel_create(device, "bench", tile ? "-DTILE" : "", "peak", &p.kernel);
    if (status == CLQ_OK)
        status = clq_buffer_create(device, CLQ_MEMORY_DEVICE, p.items * sizeof(float), "peak", &p.out);
    if (status == CLQ_OK) status = run_peak(&p, out);
    (void)clq_queue_finish(queue);
    clq_kernel_destroy(p.kernel);
    clq_buffer_destroy(p.out);
    return status;
}
