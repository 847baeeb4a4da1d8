/* Trying a block of products on a device before it is used: compilers of GPUs refuse groups for want of registers, or
 * units that they do not know, and have been known to get such kernels wrong. */
#include "ops/product_local.h"

#include <string.h>

/* Edges in every block, whole vectors; sums of small whole numbers, which float32 holds exactly in any order. */
enum { M = 133, N = 68, K = 44, NUMBERS_MOST = M * N };

typedef struct trial {
    clq_device *device;
    size_t index;
    const clq_local_terms *terms;
    bool transposed; /* A lies so: (K, M), else (M, K); B is (K, N) */
    clq_queue *queue;
    clq_list *list;
    clq_buffer *a, *b, *c;
    float *numbers; /* as many as the largest has; halves, where it has such */
} trial;

/* Which operand has all the bits of a float: one alone, so that sums stay exact; none where shorter numbers do. */
static bool is_full(const trial *t, bool a) {
    return t->terms->precision == CLQ_MATMUL_HIGHEST && !t->terms->halves && a != t->transposed;
}

static float number(size_t i, bool full) {
    float whole = (float)((int)(i * 7 % 13) - 6), fraction = (float)((int)(i % 5) - 2) / 8192;
    return full ? whole + fraction : whole;
}

static clq_status write_numbers(const trial *t, clq_buffer *to, size_t count, bool halves, bool full) {
    uint16_t *as_halves = (uint16_t *)t->numbers;
    for (size_t i = 0; i < count; i++)
        if (halves)
            as_halves[i] = clq_half_of_float(number(i, full));
        else
            t->numbers[i] = number(i, full);
    return clq_queue_write(t->queue, to, 0, t->numbers, count * (halves ? 2 : sizeof(float)), true);
}

static bool is_right(const trial *t) {
    bool full_a = is_full(t, true), full_b = is_full(t, false), halves = t->terms->halves & CLQ_HALF_C;
    for (size_t i = 0; i < (size_t)M * N; i++) {
        size_t m = i / N, n = i % N;
        float want = 0;
        for (size_t k = 0; k < K; k++)
            want += number(t->transposed ? k * M + m : m * K + k, full_a) * number(k * N + n, full_b);
        if (halves ? ((const uint16_t *)t->numbers)[i] != clq_half_of_float(want) : t->numbers[i] != want) return false;
    }
    return true;
}

static clq_status add_product(trial *t) {
    clq_list *list = t->list;
    clq_list_set_family(list, CLQ_FAMILY_LOCAL);
    clq_list_set_product(list, CLQ_PRODUCT_LOCAL);
    clq_list_set_local_block(list, t->index);
    clq_list_set_precision(list, t->terms->precision);
    clq_list_scope(list, "trial");
    clq_buffer *const buffers[] = {t->a, t->b, t->c};
    clq_value values[3];
    for (size_t i = 0; i < 3; i++) {
        values[i] = clq_list_value(list, CLQ_VALUE_EXTERNAL, "trial", clq_buffer_bytes(buffers[i]), 0);
        clq_list_place(list, values[i], buffers[i], 0);
    }
    clq_gemm_problem p = {.m = M, .n = N, .k = K, .transpose_a = t->transposed, .halves = t->terms->halves};
    clq_gemm(list, &p, values[0], values[1], values[2]);
    return clq_list_bind(list);
}

static clq_status run(trial *t, bool transposed, bool *works) {
    t->transposed = transposed;
    CLQ_TRY(write_numbers(t, t->a, (size_t)M * K, t->terms->halves & CLQ_HALF_A, is_full(t, true)));
    CLQ_TRY(write_numbers(t, t->b, (size_t)K * N, t->terms->halves & CLQ_HALF_B, is_full(t, false)));
    clq_list_destroy(t->list);
    t->list = NULL;
    CLQ_TRY(clq_list_create(t->device, 1, &t->list));
    CLQ_TRY(add_product(t));
    clq_list_set_int(t->list, CLQ_PARAM_COUNT, 1);
    CLQ_TRY(clq_list_run(t->list, t->queue, 0, clq_list_launch_count(t->list)));
    CLQ_TRY(clq_queue_finish(t->queue));
    size_t bytes = (size_t)M * N * (t->terms->halves & CLQ_HALF_C ? 2 : sizeof(float));
    CLQ_TRY(clq_queue_read(t->queue, t->c, 0, t->numbers, bytes, true));
    *works = is_right(t);
    return CLQ_OK;
}

static clq_status run_both(trial *t, bool *works) {
    t->numbers = clq_alloc(NUMBERS_MOST, sizeof *t->numbers);
    if (!t->numbers) return CLQ_MEMORY;
    CLQ_TRY(clq_queue_create(t->device, 0, &t->queue));
    CLQ_TRY(clq_buffer_create(t->device, CLQ_MEMORY_DEVICE, sizeof(float) * M * K, "trial", &t->a));
    CLQ_TRY(clq_buffer_create(t->device, CLQ_MEMORY_DEVICE, sizeof(float) * K * N, "trial", &t->b));
    CLQ_TRY(clq_buffer_create(t->device, CLQ_MEMORY_DEVICE, sizeof(float) * M * N, "trial", &t->c));
    bool straight = false, transposed = false;
    CLQ_TRY(run(t, false, &straight));
    CLQ_TRY(run(t, true, &transposed));
    *works = straight && transposed;
    return CLQ_OK;
}

bool clq_local_block_works(clq_device *device, size_t index, const clq_local_terms *terms) {
    const clq_local_block *b = clq_local_block_get(index);
    trial t = {.device = device, .index = index, .terms = terms};
    bool works = false;
    clq_status status = run_both(&t, &works);
    if (!works)
        clq_log(CLQ_LOG_WARNING, "%s: %s %zux%zu is not used for products: %s", clq_device_label(device),
                clq_local_way_name(b->way), b->rows, b->columns,
                status == CLQ_OK ? "their answers are wrong" : clq_error_detail());
    clq_list_destroy(t.list);
    clq_buffer_destroy(t.a);
    clq_buffer_destroy(t.b);
    clq_buffer_destroy(t.c);
    clq_queue_destroy(t.queue);
    clq_free(t.numbers);
    return works;
}
