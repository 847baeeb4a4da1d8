#include "lab.h"

#include <math.h>

clq_status clq_bench_lab_open(clq_queue *queue, uint32_t capacity, clq_bench_lab *lab) {
    *lab = (clq_bench_lab){.queue = queue};
    CLQ_TRY(clq_list_create(clq_queue_device(queue), capacity, &lab->list));
    clq_list_scope(lab->list, "bench");
    return CLQ_OK;
}

void clq_bench_lab_release(clq_bench_lab *lab) {
    if (lab->queue) (void)clq_queue_finish(lab->queue);
    clq_list_destroy(lab->list);
    for (size_t i = 0; i < CLQ_COUNT_OF(lab->buffers); i++) clq_buffer_destroy(lab->buffers[i]);
    *lab = (clq_bench_lab){0};
}

clq_value clq_bench_lab_value(clq_bench_lab *lab, const char *name, size_t bytes) {
    return clq_list_value(lab->list, CLQ_VALUE_EXTERNAL, name, bytes, 0);
}

clq_status clq_bench_lab_bind(clq_bench_lab *lab) {
    CLQ_TRY(clq_list_status(lab->list));
    size_t count = clq_list_value_count(lab->list);
    if (count > CLQ_BENCH_LAB_VALUES) return clq_fail(CLQ_STATE, "an operation of %zu values", count);
    for (clq_value v = 1; v <= count; v++) {
        clq_value_info info;
        clq_list_value_info(lab->list, v, &info);
        CLQ_TRY(
            clq_buffer_create(clq_list_device(lab->list), CLQ_MEMORY_DEVICE, info.bytes, info.name, &lab->buffers[v]));
        clq_list_place(lab->list, v, lab->buffers[v], 0);
    }
    CLQ_TRY(clq_list_bind(lab->list));
    clq_list_set_int(lab->list, CLQ_PARAM_COUNT, (int)clq_list_capacity(lab->list));
    return CLQ_OK;
}

clq_status clq_bench_lab_write(clq_bench_lab *lab, clq_value value, const void *data) {
    if (!data) return CLQ_MEMORY;
    clq_buffer *buffer = lab->buffers[value];
    return clq_queue_write(lab->queue, buffer, 0, data, clq_buffer_bytes(buffer), true);
}

clq_status clq_bench_lab_read(clq_bench_lab *lab, clq_value value, float **out) {
    const clq_buffer *buffer = lab->buffers[value];
    float *data = clq_alloc(clq_buffer_bytes(buffer), 1);
    if (!data) return CLQ_MEMORY;
    clq_status status = clq_queue_read(lab->queue, buffer, 0, data, clq_buffer_bytes(buffer), true);
    if (status == CLQ_OK)
        *out = data;
    else
        clq_free(data);
    return status;
}

static clq_status run_list(void *context, uint64_t repeats) {
    clq_bench_lab *lab = context;
    size_t launches = clq_list_launch_count(lab->list);
    for (uint64_t i = 0; i < repeats; i++) CLQ_TRY(clq_list_run(lab->list, lab->queue, 0, launches));
    return clq_queue_finish(lab->queue);
}

clq_status clq_bench_lab_measure(const clq_bench_run *run, clq_bench_lab *lab, clq_bench_times *out) {
    return clq_bench_measure(run, &(clq_bench_work){.work = run_list, .context = lab}, out);
}

/* ---- numbers ---- */

float *clq_bench_floats(size_t count, uint64_t seed) {
    float *floats = clq_alloc(count, sizeof *floats);
    clq_random random = clq_random_start(seed, 0);
    for (size_t i = 0; floats && i < count; i++) floats[i] = (float)((double)clq_random_u32(&random) * 0x1p-31 - 1);
    return floats;
}

size_t clq_bench_sampled(size_t count, size_t places[CLQ_BENCH_SAMPLES]) {
    clq_random random = clq_random_start(count, 1);
    size_t samples = CLQ_MIN(count, (size_t)CLQ_BENCH_SAMPLES);
    for (size_t i = 0; i < samples; i++)
        places[i] = count == samples   ? i
                    : i == 0           ? 0
                    : i == samples - 1 ? count - 1
                                       : (size_t)clq_random_below(&random, count);
    return samples;
}

bool clq_bench_sum_is(double got, double want, size_t terms, double magnitude) {
    return fabs(got - want) <= (double)(terms + 8) * 0x1p-24 * magnitude + 1e-30;
}

/* ---- the peak ---- */

enum { PEAK_ROUNDS_MOST = 32768 /* some drivers end longer loops */, PEAK_LAUNCHES = 5 };
static const double peak_s = 5e-3; /* of a launch at least */

typedef struct peak {
    clq_queue *queue;
    clq_kernel *kernel;
    clq_buffer *out;
    size_t items;
    const size_t *local;
    double per_round; /* operations of all items */
} peak;

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

clq_status clq_bench_peak(clq_queue *queue, double *out) {
    enum { CHAINS = 10 /* cl/bench.cl */, ITEMS_PER_UNIT = 2048 };
    clq_device *device = clq_queue_device(queue);
    bool tile = clq_device_family(device) == CLQ_FAMILY_TILE;
    size_t units = CLQ_MAX(clq_device_get_info(device)->compute_units, 1u);
    static const size_t one[1] = {1}; /* the local size of a tile kernel */
    peak p = {.queue = queue,
              .local = tile ? one : NULL,
              .items = tile ? clq_device_min_groups(device) : units * ITEMS_PER_UNIT};
    p.per_round = 2.0 * CHAINS * clq_device_vector(device) * (double)p.items;
    clq_status status = clq_kernel_create(device, "bench", tile ? "-DTILE" : "", "peak", &p.kernel);
    if (status == CLQ_OK)
        status = clq_buffer_create(device, CLQ_MEMORY_DEVICE, p.items * sizeof(float), "peak", &p.out);
    if (status == CLQ_OK) status = run_peak(&p, out);
    (void)clq_queue_finish(queue);
    clq_kernel_destroy(p.kernel);
    clq_buffer_destroy(p.out);
    if (!clq_bench_is_local(status)) return status;
    *out = NAN; /* a limit that is not known stops no benchmark */
    return CLQ_OK;
}
