/* clique bench memory: how fast bytes are copied between host and device and on the device, and how fast a fill is.
 *
 * Pageable: host memory from a plain allocation, moved by a blocking call. Pinned: host memory that the driver
 * allocated, mapped once. Mapped: the device's own buffer is mapped and unmapped. If host and device share memory,
 * mapping moves nothing: a rate of more than three times memcpy's is then shown as zero-copy, not as a bandwidth. Every
 * row's data are verified. */
#include "bench.h"

#include <math.h>
#include <string.h>

typedef struct bed {
    clq_queue *queue;
    clq_buffer *from, *to, *pinned; /* from and to are on the device */
    unsigned char *host, *found;    /* pageable */
    size_t bytes;
    double copy_limit, fill_limit; /* 1e9 bytes/s; NaN: no limit */
} bed;

/* ---- what is timed ---- */

static clq_status write_pageable(void *context, uint64_t repeats) {
    bed *b = context;
    for (uint64_t i = 0; i < repeats; i++) CLQ_TRY(clq_queue_write(b->queue, b->to, 0, b->host, b->bytes, true));
    return CLQ_OK;
}

static clq_status read_pageable(void *context, uint64_t repeats) {
    bed *b = context;
    for (uint64_t i = 0; i < repeats; i++) CLQ_TRY(clq_queue_read(b->queue, b->from, 0, b->found, b->bytes, true));
    return CLQ_OK;
}

static clq_status write_pinned(void *context, uint64_t repeats) {
    bed *b = context;
    for (uint64_t i = 0; i < repeats; i++) {
        CLQ_TRY(clq_queue_write(b->queue, b->to, 0, clq_buffer_host(b->pinned), b->bytes, false));
        CLQ_TRY(clq_queue_finish(b->queue));
    }
    return CLQ_OK;
}

static clq_status read_pinned(void *context, uint64_t repeats) {
    bed *b = context;
    for (uint64_t i = 0; i < repeats; i++) {
        CLQ_TRY(clq_queue_read(b->queue, b->from, 0, clq_buffer_host(b->pinned), b->bytes, false));
        CLQ_TRY(clq_queue_finish(b->queue));
    }
    return CLQ_OK;
}

/* Writes nothing to the mapped memory: the host's own writing is not the driver's time. */
static clq_status write_mapped(void *context, uint64_t repeats) {
    bed *b = context;
    for (uint64_t i = 0; i < repeats; i++) {
        void *pointer;
        CLQ_TRY(clq_queue_map_new(b->queue, b->to, 0, b->bytes, &pointer));
        CLQ_TRY(clq_queue_unmap(b->queue, b->to, pointer));
        CLQ_TRY(clq_queue_finish(b->queue));
    }
    return CLQ_OK;
}

static clq_status read_mapped(void *context, uint64_t repeats) {
    bed *b = context;
    for (uint64_t i = 0; i < repeats; i++) {
        void *pointer;
        CLQ_TRY(clq_queue_map(b->queue, b->from, 0, b->bytes, CLQ_BENCH_COPY, &pointer));
        CLQ_TRY(clq_queue_unmap(b->queue, b->from, pointer));
        CLQ_TRY(clq_queue_finish(b->queue));
    }
    return CLQ_OK;
}

static clq_status copy_on_device(void *context, uint64_t repeats) {
    bed *b = context;
    for (uint64_t i = 0; i < repeats; i++) {
        CLQ_TRY(clq_queue_copy(b->queue, b->from, 0, b->to, 0, b->bytes));
        CLQ_TRY(clq_queue_finish(b->queue));
    }
    return CLQ_OK;
}

static clq_status fill(void *context, uint64_t repeats) {
    bed *b = context;
    for (uint64_t i = 0; i < repeats; i++) {
        CLQ_TRY(clq_queue_fill_zero(b->queue, b->to, 0, b->bytes));
        CLQ_TRY(clq_queue_finish(b->queue));
    }
    return CLQ_OK;
}

/* ---- what must have arrived ---- */

static clq_status found_on_device(bed *b) { return clq_queue_read(b->queue, b->to, 0, b->found, b->bytes, true); }

static clq_status found_by_read(bed *b) {
    (void)b; /* already in b->found */
    return CLQ_OK;
}

static clq_status found_in_pinned(bed *b) {
    memcpy(b->found, clq_buffer_host(b->pinned), b->bytes);
    return CLQ_OK;
}

/* The timed function writes nothing, so this one writes something in the same way. */
static clq_status found_after_mapping(bed *b) {
    void *pointer;
    CLQ_TRY(clq_queue_map_new(b->queue, b->to, 0, b->bytes, &pointer));
    memcpy(pointer, b->host, b->bytes);
    CLQ_TRY(clq_queue_unmap(b->queue, b->to, pointer));
    return found_on_device(b);
}

static clq_status found_by_mapping(bed *b) {
    void *pointer;
    CLQ_TRY(clq_queue_map(b->queue, b->from, 0, b->bytes, CLQ_BENCH_COPY, &pointer));
    memcpy(b->found, pointer, b->bytes);
    CLQ_TRY(clq_queue_unmap(b->queue, b->from, pointer));
    return clq_queue_finish(b->queue);
}

/* ---- the cases ---- */

static const struct way {
    const char *what, *memory;
    clq_status (*work)(void *context, uint64_t repeats);
    clq_status (*find)(bed *b);
    bool fills;
} ways[] = {
    {"host to device", "pageable", write_pageable, found_on_device, false},
    {"host to device", "pinned", write_pinned, found_on_device, false},
    {"host to device", "mapped", write_mapped, found_after_mapping, false},
    {"device to host", "pageable", read_pageable, found_by_read, false},
    {"device to host", "pinned", read_pinned, found_in_pinned, false},
    {"device to host", "mapped", read_mapped, found_by_mapping, false},
    {"copy", "device", copy_on_device, found_on_device, false},
    {"fill", "device", fill, found_on_device, true},
};

/* Each case has another pattern, so that bytes left by an earlier case do not pass for its result. The period is a
 * prime and so divides no block into which a driver may cut transfers. */
static void set_pattern(unsigned char *bytes, size_t count, size_t seed) {
    for (size_t i = 0; i < count; i++) bytes[i] = (unsigned char)(1 + (i + 37 * seed) % 251);
}

static clq_status prepare(bed *b, const struct way *way) {
    set_pattern(b->host, b->bytes, (size_t)(way - ways));
    memset(b->found, 0xFF, b->bytes);
    CLQ_TRY(clq_queue_write(b->queue, b->from, 0, b->host, b->bytes, true));
    CLQ_TRY(clq_queue_write(b->queue, b->to, 0, b->found, b->bytes, true));
    if (way->work == write_pinned)
        memcpy(clq_buffer_host(b->pinned), b->host, b->bytes);
    else
        memset(clq_buffer_host(b->pinned), 0xFF, b->bytes);
    return CLQ_OK;
}

static clq_status measure_way(clq_bench_run *run, bed *b, const struct way *way, clq_bench_times *times,
                              uint64_t *wrong) {
    CLQ_TRY(prepare(b, way));
    CLQ_TRY(clq_bench_measure(run, &(clq_bench_work){.work = way->work, .context = b}, times));
    CLQ_TRY(way->find(b));
    if (way->fills) memset(b->host, 0, b->bytes);
    *wrong = 0;
    for (size_t i = 0; i < b->bytes; i++) *wrong += b->host[i] != b->found[i];
    return CLQ_OK;
}

static const double zero_copy_factor = 3;

static clq_status add(clq_bench_run *run, uint32_t device, const bed *b, const struct way *way,
                      const clq_bench_times *times, uint64_t wrong, const char *reason) {
    double rate = (double)b->bytes / times->p50_us * 1e-3, limit = way->fills ? b->fill_limit : b->copy_limit;
    bool zero_copy = rate > zero_copy_factor * limit;
    if (zero_copy) rate = NAN;
    clq_bench_row row = clq_bench_row_of(run, device);
    clq_bench_put_text(&row, "what", way->what);
    clq_bench_put_text(&row, "memory", way->memory);
    clq_bench_put_count(&row, "bytes", b->bytes);
    clq_bench_put_times(&row, "time_us", times);
    clq_bench_put_number(&row, "gbps", rate);
    clq_bench_put_limit(&row, "gbps", rate, limit);
    clq_bench_put(&row, "zero_copy", json_boolean(zero_copy));
    clq_bench_put_wrong(&row, times, wrong);
    clq_bench_put_reason(&row, reason);
    return clq_bench_add(run, &row);
}

static void bed_release(bed *b) {
    (void)clq_queue_finish(b->queue); /* after a failure, a transfer may still use our memory */
    clq_buffer_destroy(b->from);
    clq_buffer_destroy(b->to);
    clq_buffer_destroy(b->pinned);
    clq_free(b->host);
    clq_free(b->found);
}

/* Makes the buffers and measures the limits. The host can measure no limit for copies and fills inside a device that
 * has memory of its own. Copies between host and device are compared with memcpy on all of the host's cores. */
static clq_status bed_make(bed *b) {
    clq_device *device = clq_queue_device(b->queue);
    bool unified = clq_device_get_info(device)->host_unified;
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, b->bytes, "the source", &b->from));
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, b->bytes, "the target", &b->to));
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_PINNED, b->bytes, "pinned memory", &b->pinned));
    b->host = clq_alloc_aligned(4096, b->bytes);
    b->found = clq_alloc_aligned(4096, b->bytes);
    if (!b->host || !b->found) return CLQ_ERROR_MEMORY;
    unsigned cores = unified ? clq_bench_cores_of(device) : clq_cpu_count();
    CLQ_TRY(clq_bench_host_rate(cores, b->bytes, CLQ_BENCH_COPY, &b->copy_limit));
    return unified ? clq_bench_host_rate(cores, b->bytes, CLQ_BENCH_FILL, &b->fill_limit) : CLQ_OK;
}

static clq_status measure_size(clq_bench_run *run, uint32_t device, clq_queue *queue, size_t bytes) {
    bed b = {.queue = queue, .bytes = bytes, .copy_limit = NAN, .fill_limit = NAN};
    bool unified = clq_device_get_info(clq_queue_device(queue))->host_unified;
    clq_status made = bed_make(&b), status = clq_bench_is_local(made) ? CLQ_OK : made;
    for (size_t i = 0; i < CLQ_COUNT_OF(ways) && status == CLQ_OK; i++) {
        bed seen = b;
        if (!unified && ways[i].work == copy_on_device) seen.copy_limit = NAN;
        clq_bench_times times = clq_bench_no_times;
        uint64_t wrong = 0;
        status = made == CLQ_OK ? measure_way(run, &b, &ways[i], &times, &wrong) : made;
        if (status != CLQ_OK && !clq_bench_is_local(status)) break;
        status = add(run, device, &seen, &ways[i], &times, wrong, status == CLQ_OK ? NULL : clq_error_detail());
    }
    bed_release(&b);
    return status;
}

static clq_status measure_device(clq_bench_run *run, uint32_t device, clq_queue *queue) {
    const clq_bench_sizes *sizes = run->context;
    uint64_t bytes = sizes->min;
    do CLQ_TRY(measure_size(run, device, queue, (size_t)bytes));
    while (clq_bench_sizes_next(sizes, &bytes));
    return CLQ_OK;
}

static clq_status run_memory(clq_bench_run *run, void *context) {
    run->expected = clq_bench_sizes_count(context) * CLQ_COUNT_OF(ways) * run->devices.count;
    return clq_bench_each_device(run, measure_device);
}

static clq_status set_option(void *context, const clq_argument *option, const char *text) {
    return clq_bench_sizes_set(context, option, text);
}

static clq_status check(const void *context) { return clq_bench_sizes_check(context, 1); }

clq_status clq_bench_memory(int argc, char **argv) {
    static const clq_argument table[] = {CLQ_BENCH_SIZES_OPTIONS, {0}};
    static const clq_bench_column columns[] = {{"label", "device", -12, 0},      {"what", "what", -14, 0},
                                               {"memory", "memory", -8, 0},      {"bytes", "bytes", 11, 0},
                                               {"time_us.min", "us min", 10, 2}, {"time_us.p50", "us p50", 10, 2},
                                               {"time_us.p99", "us p99", 10, 2}, {"gbps", "GB/s", 8, 2},
                                               {"limit_gbps", "limit", 8, 2},    {"pct_of_limit", "%", 5, 0},
                                               {"wrong", "wrong", 6, 0},         {"zero_copy", "zero-copy", -9, 0},
                                               {"reason", "reason", -1, 0},      {0}};
    static const clq_bench_spec spec = {.name = "memory",
                                        .about = "Copies between host and device, on the device, and fills; sizes from "
                                                 "4 KiB to 64 MiB by a factor of 4 unless given.",
                                        .options = table,
                                        .set = set_option,
                                        .check = check,
                                        .run = run_memory,
                                        .iterations = 20,
                                        .iterations_most = 1000000,
                                        .warm_ups = 2,
                                        .columns = columns};
    clq_bench_sizes sizes = {.min = 4 << 10, .max = 64 << 20, .factor = 4};
    return clq_bench_main(&spec, &sizes, argc, argv);
}
