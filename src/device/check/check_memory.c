#include "device/check/checks.h"

#include <string.h>

enum { BYTES = 100003, SHIFT_A = 4099, SHIFT_B = 517, WORDS = 4096 };

static unsigned char pattern(size_t i, unsigned seed) { return (unsigned char)(i * 131 + (i >> 8) * 17 + seed); }

static void fill_pattern(unsigned char *bytes, unsigned seed) {
    for (size_t i = 0; i < BYTES; i++) bytes[i] = pattern(i, seed);
}

/* `what` names the way that the bytes went. */
static void check_pattern(const unsigned char *bytes, unsigned seed, const char *what, clq_verdict *out) {
    for (size_t i = 0; i < BYTES && out->ok; i++)
        if (bytes[i] != pattern(i, seed))
            clq_verdict_wrong(out, "%s: byte %zu is %u and should be %u", what, i, bytes[i], pattern(i, seed));
}

typedef struct pair {
    clq_buffer *device, *staging;
    unsigned char *host;
} pair;

static clq_status with_pair(clq_queue *queue, clq_status (*check)(clq_queue *queue, pair *p, clq_verdict *out),
                            clq_verdict *out) {
    clq_device *device = clq_queue_device(queue);
    pair p = {.host = clq_alloc(BYTES, 1)};
    clq_status status = p.host ? CLQ_OK : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK)
        status = clq_buffer_create(device, CLQ_MEMORY_DEVICE, 3 * BYTES, "a known-answer test", &p.device);
    if (status == CLQ_OK)
        status = clq_buffer_create(device, CLQ_MEMORY_PINNED, 2 * BYTES, "a known-answer test", &p.staging);
    if (status == CLQ_OK) status = check(queue, &p, out);
    (void)clq_queue_finish(queue); /* after a failure, commands that use the host's memory may be under way */
    clq_buffer_destroy(p.device);
    clq_buffer_destroy(p.staging);
    clq_free(p.host);
    return status;
}

static clq_status copy(clq_queue *queue, pair *p, clq_verdict *out) {
    /* Host to device, device to device within a buffer, device to host, all at offsets that are not aligned. */
    fill_pattern(p->host, 1);
    CLQ_TRY(clq_queue_write(queue, p->device, SHIFT_B, p->host, BYTES, true));
    CLQ_TRY(clq_queue_copy(queue, p->device, SHIFT_B, p->device, BYTES + SHIFT_A, BYTES));
    memset(p->host, 0, BYTES);
    CLQ_TRY(clq_queue_read(queue, p->device, BYTES + SHIFT_A, p->host, BYTES, true));
    check_pattern(p->host, 1, "host to device to host", out);
    if (!out->ok) return CLQ_OK;
    /* The way of staged transfers: the host writes into pinned memory, which goes to the device and back to other
     * pinned memory. */
    unsigned char *slots = clq_buffer_host(p->staging);
    fill_pattern(slots, 2);
    CLQ_TRY(clq_queue_write(queue, p->device, SHIFT_A, slots, BYTES, false));
    CLQ_TRY(clq_queue_read(queue, p->device, SHIFT_A, slots + BYTES, BYTES, false));
    CLQ_TRY(clq_queue_finish(queue));
    check_pattern(slots + BYTES, 2, "pinned memory to device to pinned memory", out);
    return CLQ_OK;
}

clq_status clq_check_copies(clq_queue *queue, clq_verdict *out) { return with_pair(queue, copy, out); }

static clq_status fill_and_read(clq_queue *queue, pair *p, clq_verdict *out) {
    CLQ_TRY(clq_queue_read(queue, p->device, 0, p->host, BYTES, true));
    for (size_t i = 0; i < BYTES && out->ok; i++)
        if (p->host[i] != 0) clq_verdict_wrong(out, "byte %zu of a new buffer is %u", i, p->host[i]);
    if (!out->ok) return CLQ_OK;
    fill_pattern(p->host, 3);
    CLQ_TRY(clq_queue_write(queue, p->device, 0, p->host, BYTES, true));
    CLQ_TRY(clq_queue_fill_zero(queue, p->device, SHIFT_B, SHIFT_A));
    memset(p->host, 255, BYTES);
    CLQ_TRY(clq_queue_read(queue, p->device, 0, p->host, BYTES, true));
    for (size_t i = 0; i < BYTES && out->ok; i++) {
        unsigned wanted = i >= SHIFT_B && i < SHIFT_B + SHIFT_A ? 0 : pattern(i, 3);
        if (p->host[i] != wanted)
            clq_verdict_wrong(out, "byte %zu after a fill is %u and should be %u", i, p->host[i], wanted);
    }
    return CLQ_OK;
}

clq_status clq_check_fills(clq_queue *queue, clq_verdict *out) { return with_pair(queue, fill_and_read, out); }

/* Runs a kernel of selftest.cl. Its arguments are the buffer and then the numbers. */
static clq_status run_on(clq_queue *queue, clq_buffer *buffer, const char *function, const uint32_t *numbers,
                         uint32_t count, size_t items) {
    clq_kernel *kernel = NULL;
    CLQ_TRY(clq_check_kernel(clq_queue_device(queue), function, &kernel));
    clq_status status = clq_kernel_set_buffer(kernel, 0, buffer);
    for (uint32_t i = 0; i < count && status == CLQ_OK; i++)
        status = clq_kernel_set_bytes(kernel, i + 1, &numbers[i], sizeof numbers[i]);
    if (status == CLQ_OK) status = clq_queue_launch(queue, kernel, 1, &items, NULL);
    if (status == CLQ_OK) status = clq_queue_finish(queue);
    clq_kernel_destroy(kernel);
    return status;
}

/* Tests that a kernel sees the range of its view, and that nothing else of the buffer changes. The view is four lines
 * of zeros. The answer to a zero is the round's number, which is then in the second line and the fourth. */
static clq_status offsets(clq_queue *queue, clq_buffer *whole, uint32_t *words, clq_verdict *out) {
    enum { ROUND = 7 };
    size_t align = clq_device_view_align(clq_queue_device(queue)), all = clq_buffer_bytes(whole) / sizeof *words;
    size_t first = align / sizeof *words, line = (all - first) / 8;
    clq_buffer *view;
    CLQ_TRY(clq_buffer_view(whole, align, 4 * line * sizeof *words, &view));
    clq_status status = run_on(queue, view, "answer_lines", (uint32_t[]){(uint32_t)line, ROUND}, 2, line);
    clq_buffer_destroy(view);
    CLQ_TRY(status);
    CLQ_TRY(clq_queue_read(queue, whole, 0, words, all * sizeof *words, true));
    for (size_t i = 0; i < all && out->ok; i++) {
        uint32_t wanted = i >= first && i < first + 4 * line && (i - first) / line % 2 == 1 ? ROUND : 0;
        if (words[i] != wanted)
            clq_verdict_wrong(out, "word %zu beside or in a view is %u and should be %u", i, (unsigned)words[i],
                              (unsigned)wanted);
    }
    return CLQ_OK;
}

static clq_status mapped_pointer(clq_queue *queue, clq_buffer *buffer, clq_verdict *out) {
    size_t bytes = WORDS * sizeof(uint32_t);
    void *pointer;
    CLQ_TRY(clq_queue_map(queue, buffer, 0, bytes, true, &pointer));
    for (uint32_t i = 0; i < WORDS; i++) ((uint32_t *)pointer)[i] = i;
    CLQ_TRY(clq_queue_unmap(queue, buffer, pointer));
    CLQ_TRY(run_on(queue, buffer, "add_words", (uint32_t[]){9}, 1, WORDS));
    CLQ_TRY(clq_queue_map(queue, buffer, 0, bytes, false, &pointer));
    for (uint32_t i = 0; i < WORDS; i++)
        if (((uint32_t *)pointer)[i] != i + 9)
            clq_verdict_wrong(out, "the map shows %u in word %u", (unsigned)((uint32_t *)pointer)[i], (unsigned)i);
    CLQ_TRY(clq_queue_unmap(queue, buffer, pointer));
    return clq_queue_finish(queue);
}

/* Tests small and large buffers: drivers lay them out in different ways. */
clq_status clq_check_offsets(clq_queue *queue, clq_verdict *out) {
    clq_device *device = clq_queue_device(queue);
    const size_t align = clq_device_view_align(device),
                 sizes[] = {align + 64, 5 * align + 24, WORDS * sizeof(uint32_t)};
    uint32_t *words = clq_alloc(WORDS, sizeof *words);
    clq_status status = words ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < CLQ_COUNT_OF(sizes) && status == CLQ_OK; i++) {
        clq_buffer *buffer = NULL;
        size_t bytes = CLQ_MIN(sizes[i], WORDS * sizeof *words);
        status = clq_buffer_create(device, CLQ_MEMORY_DEVICE, bytes, "a known-answer test", &buffer);
        if (status == CLQ_OK) status = offsets(queue, buffer, words, out);
        clq_buffer_destroy(buffer);
    }
    clq_free(words);
    return status;
}

static clq_status check_mapped(clq_queue *queue, clq_verdict *out) {
    clq_buffer *buffer;
    size_t bytes = WORDS * sizeof(uint32_t);
    CLQ_TRY(clq_buffer_create(clq_queue_device(queue), CLQ_MEMORY_DEVICE, bytes, "a known-answer test", &buffer));
    clq_status status = mapped_pointer(queue, buffer, out);
    clq_buffer_destroy(buffer);
    return status;
}

clq_status clq_check_host_memory(clq_queue *queue, clq_verdict *out) {
    clq_device *device = clq_queue_device(queue);
    if (!clq_device_get_info(device)->fine_grain_svm) return check_mapped(queue, out);
    CLQ_TRY(clq_check_coherence(queue, out));
    if (out->ok) return CLQ_OK;
    out->ok = true; /* the device is usable, but not as one that shares the host's memory */
    clq_device_distrust_host_memory(device, out->detail);
    return check_mapped(queue, out);
}
