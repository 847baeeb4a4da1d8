/* A device's best rates: for arithmetic in registers, and for traffic through memory. */
#include "lab.h"

#include <math.h>

/* Enough work-items to fill the device. */
static size_t items_of(const clq_device *device) {
    enum { ITEMS_PER_UNIT = 2048 };
    if (clq_device_family(device) == CLQ_FAMILY_TILE) return clq_device_min_groups(device);
    return (size_t)CLQ_MAX(clq_device_get_info(device)->compute_units, 1u) * ITEMS_PER_UNIT;
}

static const size_t one[1] = {1}; /* the local size of a tile kernel */

/* ---- arithmetic ---- */

clq_status clq_bench_peak(clq_queue *queue, double *out) {
    clq_status status = clq_measure_peak(queue, out);
    if (!clq_bench_is_local(status)) return status;
    *out = NAN; /* an unknown limit ends no benchmark */
    return CLQ_OK;
}

/* ---- memory ---- */

typedef struct stream {
    clq_queue *queue;
    clq_kernel *kernel;
    size_t items;
    const size_t *local;
} stream;

static clq_status run_stream(void *context, uint64_t repeats) {
    stream *s = context;
    for (uint64_t i = 0; i < repeats; i++) CLQ_TRY(clq_queue_launch(s->queue, s->kernel, 1, &s->items, s->local));
    return clq_queue_finish(s->queue);
}

static clq_status stream_rate(const clq_bench_run *run, stream *s, cl_ulong to, cl_ulong vectors, double *out) {
    CLQ_TRY(clq_kernel_set_bytes(s->kernel, 1, &to, sizeof to));
    CLQ_TRY(clq_kernel_set_bytes(s->kernel, 2, &vectors, sizeof vectors));
    clq_bench_times times;
    CLQ_TRY(clq_bench_measure(run, &(clq_bench_work){.work = run_stream, .context = s}, &times));
    size_t vector = clq_device_vector(clq_queue_device(s->queue)) * sizeof(float);
    *out = 2.0 * (double)(vectors * vector) / times.min_us * 1e-3;
    return CLQ_OK;
}

static clq_status stream_rates(const clq_bench_run *run, stream *s, const clq_buffer *buffer, size_t vectors,
                               double *out) {
    const float half = 0.5f;
    CLQ_TRY(clq_kernel_set_buffer(s->kernel, 0, buffer));
    CLQ_TRY(clq_kernel_set_bytes(s->kernel, 3, &half, sizeof half));
    CLQ_TRY(clq_kernel_set_bytes(s->kernel, 4, &half, sizeof half));
    double copied, changed;
    CLQ_TRY(stream_rate(run, s, vectors / 2 * clq_device_vector(clq_queue_device(s->queue)), vectors / 2, &copied));
    CLQ_TRY(stream_rate(run, s, 0, vectors, &changed));
    *out = CLQ_MAX(copied, changed);
    return CLQ_OK;
}

clq_status clq_bench_stream(const clq_bench_run *run, clq_queue *queue, size_t bytes, double *out) {
    clq_device *device = clq_queue_device(queue);
    bool tile = clq_device_family(device) == CLQ_FAMILY_TILE;
    size_t vector = clq_device_vector(device) * sizeof(float), vectors = CLQ_MAX(bytes / vector, (size_t)2);
    stream s = {.queue = queue, .items = items_of(device), .local = tile ? one : NULL};
    clq_buffer *buffer = NULL;
    clq_status status = clq_kernel_create(device, "bench", tile ? "-DTILE" : "", "stream", &s.kernel);
    if (status == CLQ_OK)
        status = clq_buffer_create(device, CLQ_MEMORY_DEVICE, vectors * vector, "the limit of memory", &buffer);
    if (status == CLQ_OK) status = stream_rates(run, &s, buffer, vectors, out);
    (void)clq_queue_finish(queue);
    clq_kernel_destroy(s.kernel);
    clq_buffer_destroy(buffer);
    if (!clq_bench_is_local(status)) return status;
    *out = NAN; /* an unknown limit ends no benchmark */
    return CLQ_OK;
}
