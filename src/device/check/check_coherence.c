/* Tests whether the host sees what kernels wrote, and kernels see what the host wrote, through the host's pointer into
 * a device's memory and with nothing but the end of a command between. Inputs and all-reduces rely on that if a device
 * says that its memory is the host's. Drivers say so even of integrated GPUs whose caches may not be coherent with the
 * host's. */
#include "device/check/checks.h"

/* A cache line has 16 words. Lines of four kinds alternate. So whatever is moved as a unit, such as a pair of lines or
 * a page, holds words of the host and of the kernel. */
enum { LINE = 16, LINES = 256, WORDS = LINE * LINES, ROUNDS = 8 };

/* A line's kind is its number modulo 4. The host writes questions and notes, kernels write answers and sums. */
typedef enum line_kind { QUESTION, ANSWER, NOTE, SUM } line_kind;

static line_kind kind_of(uint32_t i) { return (line_kind)(i / LINE % 4); }
static uint32_t question(uint32_t i, uint32_t round) { return i * 2654435761u + round * 40503u; }
static uint32_t note(uint32_t i, uint32_t round) { return ~question(i, round); }
static uint32_t answer(uint32_t i, uint32_t round) { return question(i, round) * 3 + round; }

static uint32_t wanted(uint32_t i, uint32_t round) {
    uint32_t sum = 0;
    switch (kind_of(i)) {
    case QUESTION: return question(i, round);
    case ANSWER: return answer(i - LINE, round);
    case NOTE: return note(i, round);
    case SUM: break;
    }
    for (uint32_t r = 0; r <= round; r++) sum += answer(i - 3 * LINE, r);
    return sum;
}

static void put(volatile uint32_t *words, line_kind kind, uint32_t round) {
    for (uint32_t i = 0; i < WORDS; i++)
        if (kind_of(i) == kind) words[i] = kind == NOTE ? note(i, round) : question(i, round);
}

/* The host writes the notes while the kernel may run, as it writes the next batch while a step runs. */
static clq_status run_round(clq_queue *queue, clq_kernel *kernel, volatile uint32_t *words, uint32_t round,
                            clq_verdict *out) {
    static const char *const writers[] = {"it", "a kernel", "it", "a kernel"};
    const size_t items = WORDS / 4;
    put(words, QUESTION, round);
    CLQ_TRY(clq_kernel_set_bytes(kernel, 2, &round, sizeof round));
    CLQ_TRY(clq_queue_launch(queue, kernel, 1, &items, NULL));
    CLQ_TRY(clq_queue_flush(queue));
    put(words, NOTE, round);
    CLQ_TRY(clq_queue_finish(queue));
    for (uint32_t i = 0; i < WORDS && out->ok; i++)
        if (words[i] != wanted(i, round))
            clq_verdict_wrong(out, "in round %u the host sees %#x in word %u, where %s wrote %#x", (unsigned)round,
                              (unsigned)words[i], (unsigned)i, writers[kind_of(i)], (unsigned)wanted(i, round));
    return CLQ_OK;
}

/* Tests a view of a buffer, since most of what kernels are given are views. */
clq_status clq_check_coherence(clq_queue *queue, clq_verdict *out) {
    clq_device *device = clq_queue_device(queue);
    const size_t align = clq_device_view_align(device), bytes = WORDS * sizeof(uint32_t);
    const uint32_t line = LINE;
    clq_buffer *whole = NULL, *view = NULL;
    clq_kernel *kernel = NULL;
    clq_status status;
    CLQ_TRY_OR(end, status, clq_check_kernel(device, "answer_lines", &kernel));
    CLQ_TRY_OR(end, status, clq_buffer_create(device, CLQ_MEMORY_DEVICE, align + bytes, "a known-answer test", &whole));
    CLQ_TRY_OR(end, status, clq_buffer_view(whole, align, bytes, &view));
    CLQ_TRY_OR(end, status, clq_kernel_set_buffer(kernel, 0, view));
    CLQ_TRY_OR(end, status, clq_kernel_set_bytes(kernel, 1, &line, sizeof line));
    for (uint32_t round = 0; round < ROUNDS && status == CLQ_OK && out->ok; round++)
        status = run_round(queue, kernel, clq_buffer_host(view), round, out);
end:
    if (status != CLQ_OK) (void)clq_queue_finish(queue);
    clq_kernel_destroy(kernel);
    clq_buffer_destroy(view);
    clq_buffer_destroy(whole);
    return status;
}
