/* Made-up work: kernels that only multiply and add in registers, or that change memory in place (cl/bench.cl). */
#include "device/device.h"

#include <math.h>

enum { ITEMS_PER_UNIT = 2048 /* fill a device */, CHAINS = 10 /* cl/bench.cl */ };
static const size_t one[1] = {1}; /* the local size of a tile kernel */
static const float half = 0.5f;

struct clq_load {
    clq_load_kind kind;
    clq_queue *queue;
    clq_kernel *kernel;
    clq_buffer *buffer;
    size_t items;
    const size_t *local;
    double work;
};

static size_t items_of(const clq_device *device) {
    if (clq_device_family(device) == CLQ_FAMILY_TILE) return clq_device_min_groups(device);
    return (size_t)CLQ_MAX(clq_device_get_info(device)->compute_units, 1u) * ITEMS_PER_UNIT;
}

static clq_status open_arithmetic(clq_load *load, clq_device *device, const char *options) {
    CLQ_TRY(clq_kernel_create(device, "bench", options, "peak", &load->kernel));
    CLQ_TRY(
        clq_buffer_create(device, CLQ_MEMORY_DEVICE, load->items * sizeof(float), "made-up arithmetic", &load->buffer));
    load->work = 2.0 * CHAINS * clq_device_vector(device) * (double)load->items;
    CLQ_TRY(clq_kernel_set_buffer(load->kernel, 0, load->buffer));
    CLQ_TRY(clq_kernel_set_bytes(load->kernel, 1, &half, sizeof half));
    return clq_kernel_set_bytes(load->kernel, 2, &half, sizeof half);
}

static clq_status open_memory(clq_load *load, clq_device *device, const char *options, size_t bytes) {
    const size_t vector = clq_device_vector(device) * sizeof(float);
    const cl_ulong vectors = CLQ_MAX(bytes / vector, (size_t)1), in_place = 0;
    CLQ_TRY(clq_kernel_create(device, "bench", options, "stream", &load->kernel));
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, vectors * vector, "made-up traffic", &load->buffer));
    load->work = 2.0 * (double)(vectors * vector);
    CLQ_TRY(clq_kernel_set_buffer(load->kernel, 0, load->buffer));
    CLQ_TRY(clq_kernel_set_bytes(load->kernel, 1, &in_place, sizeof in_place));
    CLQ_TRY(clq_kernel_set_bytes(load->kernel, 2, &vectors, sizeof vectors));
    CLQ_TRY(clq_kernel_set_bytes(load->kernel, 3, &half, sizeof half));
    return clq_kernel_set_bytes(load->kernel, 4, &half, sizeof half);
}

clq_status clq_load_create(clq_queue *queue, clq_load_kind kind, size_t bytes, clq_load **out) {
    clq_device *device = clq_queue_device(queue);
    const bool tile = clq_device_family(device) == CLQ_FAMILY_TILE;
    const char *options = tile ? "-DTILE" : "";
    clq_load *load = clq_alloc(1, sizeof *load);
    if (!load) return CLQ_ERROR_MEMORY;
    *load = (clq_load){.kind = kind, .queue = queue, .items = items_of(device), .local = tile ? one : NULL};
    clq_status status = kind == CLQ_LOAD_ARITHMETIC ? open_arithmetic(load, device, options)
                                                    : open_memory(load, device, options, bytes);
    if (status == CLQ_OK)
        *out = load;
    else
        clq_load_destroy(load);
    return status;
}

void clq_load_destroy(clq_load *load) {
    if (!load) return;
    (void)clq_queue_finish(load->queue);
    clq_kernel_destroy(load->kernel);
    clq_buffer_destroy(load->buffer);
    clq_free(load);
}

double clq_load_work(const clq_load *load) { return load->work; }

clq_status clq_load_enqueue(clq_load *load, int rounds) {
    if (load->kind == CLQ_LOAD_ARITHMETIC) {
        CLQ_TRY(clq_kernel_set_bytes(load->kernel, 3, &rounds, sizeof rounds));
        return clq_queue_launch(load->queue, load->kernel, 1, &load->items, load->local);
    }
    for (int i = 0; i < rounds; i++) CLQ_TRY(clq_queue_launch(load->queue, load->kernel, 1, &load->items, load->local));
    return CLQ_OK;
}

/* Repeating x = x / 2 + 1 / 2 leads to 1 from any x, so the results are known. */
clq_status clq_load_check(clq_load *load, bool *ok) {
    float sums[2], want = (float)(load->work / (double)load->items / 2);
    CLQ_TRY(clq_queue_read(load->queue, load->buffer, 0, &sums[0], sizeof(float), true));
    CLQ_TRY(
        clq_queue_read(load->queue, load->buffer, (load->items - 1) * sizeof(float), &sums[1], sizeof(float), true));
    *ok = fabsf(sums[0] - want) <= 1e-3f * want && fabsf(sums[1] - want) <= 1e-3f * want;
    return CLQ_OK;
}
