#include "device/check/checks.h"

#include <math.h>
#include <string.h>

enum { ITEMS = 512, FLOAT_RESULTS = 8, RESULTS = FLOAT_RESULTS + 1 };

/* A kernel of selftest.cl with an output buffer, and with an input buffer if it takes input. */
typedef struct trial {
    clq_queue *queue;
    clq_kernel *kernel;
    clq_buffer *in, *out;
    clq_status status; /* the first failure */
} trial;

/* The kernels of the start-up test. Their program has no others, since drivers compile all of a program when it is
 * kept. */
#define AT_START "arithmetic long_loop group_sum answer_lines"

clq_status clq_check_kernel(clq_device *device, const char *function, clq_kernel **out) {
    const char *at_start = clq_device_get_info(device)->fine_grain_svm ? AT_START : AT_START " add_words";
    const clq_program_wish program = {
        .file = "selftest", .options = "", .kernels = strstr(at_start, function) ? at_start : "vectors random_words"};
    return clq_kernel_create_among(device, &program, function, out);
}

static trial trial_open(clq_queue *queue, const char *function, const void *in, size_t in_bytes, size_t out_bytes) {
    clq_device *device = clq_queue_device(queue);
    trial t = {.queue = queue};
    CLQ_TRY_OR(done, t.status, clq_check_kernel(device, function, &t.kernel));
    CLQ_TRY_OR(done, t.status, clq_buffer_create(device, CLQ_MEMORY_DEVICE, out_bytes, "a known-answer test", &t.out));
    if (in_bytes > 0) {
        CLQ_TRY_OR(done, t.status,
                   clq_buffer_create(device, CLQ_MEMORY_DEVICE, in_bytes, "a known-answer test", &t.in));
        CLQ_TRY_OR(done, t.status, clq_queue_write(queue, t.in, 0, in, in_bytes, true));
        CLQ_TRY_OR(done, t.status, clq_kernel_set_buffer(t.kernel, 0, t.in));
    }
    t.status = clq_kernel_set_buffer(t.kernel, in_bytes > 0 ? 1 : 0, t.out);
done:
    return t;
}

/* Runs the kernel, reads its output and closes the trial. */
static clq_status trial_run(trial *t, size_t global, const size_t *local, void *out, size_t out_bytes) {
    if (t->status == CLQ_OK) t->status = clq_queue_launch(t->queue, t->kernel, 1, &global, local);
    if (t->status == CLQ_OK) t->status = clq_queue_finish(t->queue);
    if (t->status == CLQ_OK) t->status = clq_queue_read(t->queue, t->out, 0, out, out_bytes, true);
    clq_kernel_destroy(t->kernel);
    clq_buffer_destroy(t->in);
    clq_buffer_destroy(t->out);
    return t->status;
}

static uint32_t integers_answer(uint32_t i) {
    uint32_t a = i * 2654435761u + 12345u, b = (a >> 7) | 1u;
    uint32_t high = (uint32_t)(((uint64_t)a * b) >> 32);
    uint32_t mixed = high ^ (a / b) ^ (a % b) ^ ((a << 11) | (a >> 21));
    int64_t s = (int64_t)(a >> 1) - 1073741824;
    int64_t shifted = s >= 0 ? s / 32 : -((31 - s) / 32); /* towards minus infinity, as >> on the device */
    mixed ^= (uint32_t)(s / 3) + (uint32_t)shifted;
    return mixed ^ (uint32_t)(((uint64_t)a * b + i) >> 21);
}

/* slack[k] is by how much result k may differ from device to device, because of rounding. */
static void floats_answer(double x, int answer[FLOAT_RESULTS], int slack[FLOAT_RESULTS]) {
    const double values[FLOAT_RESULTS] = {x,
                                          rint(x * x * 3.0 / (x + 1.0) * 16.0),
                                          x * 3.0 + 2.0,
                                          rint(exp(-x * 0.01) * 10000.0),
                                          rint(log(x + 1.0) * 1000.0),
                                          3.0,
                                          (x > 7.0 ? x : 7.0) - (x < 9.0 ? x : 9.0),
                                          rint(x * 0.5)};
    for (int k = 0; k < FLOAT_RESULTS; k++) {
        answer[k] = (int)values[k];
        slack[k] = k == 1 || k == 3 || k == 4;
    }
}

clq_status clq_check_arithmetic(clq_queue *queue, clq_verdict *out) {
    float in[ITEMS];
    int got[ITEMS * RESULTS];
    for (int i = 0; i < ITEMS; i++) in[i] = (float)i;
    trial t = trial_open(queue, "arithmetic", in, sizeof in, sizeof got);
    CLQ_TRY(trial_run(&t, ITEMS, NULL, got, sizeof got));
    for (int i = 0; i < ITEMS; i++) {
        int answer[FLOAT_RESULTS], slack[FLOAT_RESULTS];
        const int *values = got + i * RESULTS;
        const uint32_t word = (uint32_t)values[FLOAT_RESULTS], wanted = integers_answer((uint32_t)i);
        if (word != wanted && out->ok)
            clq_verdict_wrong(out, "integer %d is %#x and should be %#x", i, (unsigned)word, (unsigned)wanted);
        floats_answer(i, answer, slack);
        for (int k = 0; k < FLOAT_RESULTS && out->ok; k++)
            if (values[k] < answer[k] - slack[k] || values[k] > answer[k] + slack[k])
                clq_verdict_wrong(out, "floating-point result %d of %d is %d and should be %d", k, i, values[k],
                                  answer[k]);
    }
    return CLQ_OK;
}

clq_status clq_check_vectors(clq_queue *queue, clq_verdict *out) {
    enum { WIDEST = 16, COUNT = 8, SHIFT = 3 };
    float in[(COUNT + 1) * WIDEST], got[2 * COUNT * WIDEST];
    for (int i = 0; i < (COUNT + 1) * WIDEST; i++) in[i] = (float)((i * 7) % 31);
    size_t width = clq_device_vector(clq_queue_device(queue));
    trial t = trial_open(queue, "vectors", in, sizeof in, sizeof got);
    CLQ_TRY(trial_run(&t, COUNT, NULL, got, sizeof got));
    for (size_t i = 0; i < COUNT; i++) {
        const float *row = got + 2 * i * width, *from = in + i * width + SHIFT;
        float sum = 0.0f, most = 0.0f;
        for (size_t k = 0; k < width; k++) {
            sum += from[k];
            most = from[k] > most ? from[k] : most;
            if (row[k] != from[k] * 2.0f + (float)k)
                clq_verdict_wrong(out, "lane %zu of vector %zu is %g", k, i, (double)row[k]);
        }
        if (row[width] != sum || row[width + 1] != most)
            clq_verdict_wrong(out, "vector %zu has sum %g and maximum %g", i, (double)row[width],
                              (double)row[width + 1]);
    }
    return CLQ_OK;
}

clq_status clq_check_long_loop(clq_queue *queue, clq_verdict *out) {
    enum { COUNT = 2 };
    const uint32_t rounds = 80000;
    uint32_t got[COUNT];
    trial t = trial_open(queue, "long_loop", NULL, 0, sizeof got);
    if (t.status == CLQ_OK) t.status = clq_kernel_set_bytes(t.kernel, 1, &rounds, sizeof rounds);
    CLQ_TRY(trial_run(&t, COUNT, NULL, got, sizeof got));
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t x = i;
        for (uint32_t k = 0; k < rounds; k++) x = x * 1664525u + 1013904223u + (x >> 16);
        if (got[i] != x) clq_verdict_wrong(out, "a loop of %u rounds ended early or went wrong", (unsigned)rounds);
    }
    return CLQ_OK;
}

clq_status clq_check_barrier(clq_queue *queue, clq_verdict *out) {
    uint32_t in[ITEMS], got[ITEMS];
    for (uint32_t i = 0; i < ITEMS; i++) in[i] = i * i + 1;
    trial t = trial_open(queue, "group_sum", in, sizeof in, sizeof got);
    size_t most = 1, local = 64;
    if (t.status == CLQ_OK) t.status = clq_kernel_max_group(t.kernel, &most);
    while (local > 1 && local > most) local /= 2;
    if (t.status == CLQ_OK) t.status = clq_kernel_set_local(t.kernel, 2, local * sizeof(uint32_t));
    CLQ_TRY(trial_run(&t, ITEMS, &local, got, sizeof got));
    for (uint32_t group = 0; group < ITEMS / local; group++) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < local; i++) sum += in[group * local + i];
        if (got[group] != sum)
            clq_verdict_wrong(out, "a work-group's sum is %u and should be %u", (unsigned)got[group], (unsigned)sum);
    }
    return CLQ_OK;
}

clq_status clq_check_random(clq_queue *queue, clq_verdict *out) {
    enum { COUNT = 64 };
    const uint64_t key = 0x0123456789abcdefu, high = 0xfedcba9876543210u;
    uint32_t got[COUNT * 4];
    trial t = trial_open(queue, "random_words", NULL, 0, sizeof got);
    if (t.status == CLQ_OK) t.status = clq_kernel_set_bytes(t.kernel, 1, &key, sizeof key);
    if (t.status == CLQ_OK) t.status = clq_kernel_set_bytes(t.kernel, 2, &high, sizeof high);
    CLQ_TRY(trial_run(&t, COUNT, NULL, got, sizeof got));
    for (uint64_t i = 0; i < COUNT; i++) {
        clq_philox answer = clq_philox4x32(key, i * 0x100000001u, high);
        if (memcmp(answer.word, got + 4 * i, sizeof answer.word) != 0)
            clq_verdict_wrong(out, "random word %u is %#x and should be %#x", (unsigned)(4 * i), (unsigned)got[4 * i],
                              (unsigned)answer.word[0]);
    }
    return CLQ_OK;
}
