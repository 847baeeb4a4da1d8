/* Trying a block of products on a device before it is used: compilers of GPUs refuse groups for want of registers, and
 * have been known to get such kernels wrong. */
#include "ops/product_local.h"

#include <string.h>

/* Edges in every block, whole vectors; sums of small whole numbers, which float32 holds exactly in any order. */
enum { M = 133, N = 68, K = 44 };

static float number(size_t i) { return (float)((int)(i * 7 % 13) - 6); }

/* op(A) has A transposed or not, in memory (K, M) or (M, K); B is (K, N). */
static bool right(const float *c, bool transposed) {
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n++) {
            float sum = 0;
            for (size_t k = 0; k < K; k++) sum += number(transposed ? k * M + m : m * K + k) * number(k * N + n);
            if (c[m * N + n] != sum) return false;
        }
    return true;
}

typedef struct trial {
    clq_queue *queue;
    clq_list *list;
    clq_buffer *a, *b, *c;
    float *numbers; /* the largest of the three */
} trial;

static clq_status write_numbers(trial *t, clq_buffer *to) {
    size_t bytes = clq_buffer_bytes(to);
    for (size_t i = 0; i < bytes / sizeof(float); i++) t->numbers[i] = number(i);
    return clq_queue_write(t->queue, to, 0, t->numbers, bytes, true);
}

static clq_status run(trial *t, clq_device *device, size_t index, bool transposed, bool *works) {
    clq_list_destroy(t->list);
    t->list = NULL;
    CLQ_TRY(clq_list_create(device, 1, &t->list));
    clq_list *list = t->list;
    clq_list_set_family(list, CLQ_FAMILY_LOCAL);
    clq_list_set_product(list, CLQ_PRODUCT_LOCAL);
    clq_list_set_local_block(list, index);
    clq_list_scope(list, "trial");
    clq_buffer *const buffers[] = {t->a, t->b, t->c};
    clq_value values[3];
    for (size_t i = 0; i < 3; i++) {
        values[i] = clq_list_value(list, CLQ_VALUE_EXTERNAL, "trial", clq_buffer_bytes(buffers[i]), 0);
        clq_list_place(list, values[i], buffers[i], 0);
    }
    clq_gemm(list, transposed, false, M, N, K, values[0], values[1], values[2]);
    CLQ_TRY(clq_list_bind(list));
    clq_list_set_int(list, CLQ_PARAM_COUNT, 1);
    CLQ_TRY(clq_list_run(list, t->queue, 0, clq_list_launch_count(list)));
    CLQ_TRY(clq_queue_finish(t->queue));
    CLQ_TRY(clq_queue_read(t->queue, t->c, 0, t->numbers, sizeof(float) * M * N, true));
    *works = right(t->numbers, transposed);
    return CLQ_OK;
}

static clq_status run_both(trial *t, clq_device *device, size_t index, bool *works) {
    t->numbers = clq_alloc((size_t)M * N, sizeof *t->numbers);
    if (!t->numbers) return CLQ_MEMORY;
    CLQ_TRY(clq_queue_create(device, 0, &t->queue));
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, sizeof(float) * M * K, "trial", &t->a));
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, sizeof(float) * K * N, "trial", &t->b));
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, sizeof(float) * M * N, "trial", &t->c));
    CLQ_TRY(write_numbers(t, t->a));
    CLQ_TRY(write_numbers(t, t->b));
    bool straight = false, transposed = false;
    CLQ_TRY(run(t, device, index, false, &straight));
    CLQ_TRY(run(t, device, index, true, &transposed));
    *works = straight && transposed;
    return CLQ_OK;
}

bool clq_local_block_works(clq_device *device, size_t index) {
    const clq_local_block *b = clq_local_block_get(index);
    trial t = {0};
    bool works = false;
    clq_status status = run_both(&t, device, index, &works);
    if (!works)
        clq_log(CLQ_LOG_WARNING, "%s: blocks of %zu x %zu are not used for products: %s", clq_device_label(device),
                b->rows, b->columns, status == CLQ_OK ? "their answers are wrong" : clq_error_detail());
    clq_list_destroy(t.list);
    clq_buffer_destroy(t.a);
    clq_buffer_destroy(t.b);
    clq_buffer_destroy(t.c);
    clq_queue_destroy(t.queue);
    clq_free(t.numbers);
    return works;
}
