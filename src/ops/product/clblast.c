/* CLBlast's matrix products. The only file that calls it. */
#include "ops/product/product.h"

#include <clblast_c.h>
#include <pthread.h>
#include <stdio.h>

typedef struct gemm {
    CLBlastTranspose a, b;
    size_t m, n, k;
    bool m_grows, k_grows; /* with the count: m, or k, is for one example */
    uint32_t warm;         /* the last count that was run, */
    bool takes_scratch;    /* and whether the scratch memory is large enough for it */
    size_t scratch_bytes;  /* 0: there is none */
} gemm;

/* CLBlast builds a kernel when a shape first needs it, and fails now and then where two devices' threads do so at the
 * same time: a call that may be the first of its kind runs alone. */
static pthread_mutex_t cold = PTHREAD_MUTEX_INITIALIZER;

static clq_status lock_cold(void) {
    return pthread_mutex_lock(&cold) == 0 ? CLQ_OK : clq_fail(CLQ_SYSTEM, "CLBlast's lock could not be taken");
}

static size_t a_stride(const gemm *g, size_t m, size_t k) { return g->a == CLBlastTransposeYes ? m : k; }
static size_t b_stride(const gemm *g, size_t k) { return g->b == CLBlastTransposeYes ? k : g->n; }

static clq_status result_of(clq_queue *queue, const gemm *g, size_t m, size_t k, CLBlastStatusCode code) {
    if (code == CLBlastSuccess) return CLQ_OK;
    return clq_fail(CLQ_DEVICE, "%s: CLBlast's Sgemm of (%zu, %zu) by (%zu, %zu) failed with its code %d",
                    clq_device_label(clq_queue_device(queue)), m, k, k, g->n, (int)code);
}

/* Without scratch memory CLBlast allocates what it needs in each call. */
static clq_status call(const gemm *g, clq_queue *queue, size_t m, size_t k, clq_buffer *const *buffers) {
    cl_command_queue handle = clq_queue_handle(queue);
    cl_mem scratch = g->takes_scratch ? clq_buffer_handle(buffers[3]) : NULL;
    cl_event event = NULL;
    CLBlastStatusCode code = CLBlastSgemmWithTempBuffer(
        CLBlastLayoutRowMajor, g->a, g->b, m, g->n, k, 1.0f, clq_buffer_handle(buffers[0]), 0, a_stride(g, m, k),
        clq_buffer_handle(buffers[1]), 0, b_stride(g, k), 0.0f, clq_buffer_handle(buffers[2]), 0, g->n, &handle,
        clq_queue_wants_event(queue, &event), scratch);
    CLQ_TRY(result_of(queue, g, m, k, code));
    return clq_queue_record(queue, "Sgemm", event);
}

/* The scratch memory of a product. The caller holds the lock. */
static clq_status scratch_of(const gemm *g, clq_queue *queue, size_t m, size_t k, size_t *bytes) {
    cl_command_queue handle = clq_queue_handle(queue);
    return result_of(queue, g, m, k,
                     CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, g->a, g->b, m, g->n, k, 0, a_stride(g, m, k), 0,
                                                b_stride(g, k), 0, g->n, &handle, bytes));
}

static clq_status call_cold(gemm *g, clq_queue *queue, uint32_t count, size_t m, size_t k, clq_buffer *const *buffers) {
    size_t bytes;
    CLQ_TRY(scratch_of(g, queue, m, k, &bytes));
    g->takes_scratch = bytes > 0 && bytes <= g->scratch_bytes;
    CLQ_TRY(call(g, queue, m, k, buffers));
    g->warm = count;
    return CLQ_OK;
}

/* buffers: A, B, C and, where there is one, the scratch memory */
static clq_status run(void *context, clq_queue *queue, uint32_t count, clq_buffer *const *buffers) {
    gemm *g = context;
    size_t m = g->m_grows ? g->m * count : g->m, k = g->k_grows ? g->k * count : g->k;
    if (m == 0) return CLQ_OK;
    if (k == 0) return clq_queue_fill_zero(queue, buffers[2], 0, m * g->n * sizeof(float));
    if (g->warm == count) return call(g, queue, m, k, buffers);
    CLQ_TRY(lock_cold());
    clq_status status = call_cold(g, queue, count, m, k, buffers);
    (void)pthread_mutex_unlock(&cold);
    return status;
}

/* What products of up to `capacity` examples need at most. CLBlast pads operands to whole tiles in scratch memory, each
 * only where it is not whole already: so the largest product may need none where one of an example less does. */
static clq_status scratch_most(const gemm *g, clq_queue *queue, uint32_t capacity, size_t *bytes) {
    size_t most = 0;
    CLQ_TRY(lock_cold());
    clq_status status = CLQ_OK;
    for (uint32_t count = capacity; count > 0 && count + 1 >= capacity && status == CLQ_OK; count--) {
        size_t needed = 0;
        status = scratch_of(g, queue, g->m_grows ? g->m * count : g->m, g->k_grows ? g->k * count : g->k, &needed);
        most = CLQ_MAX(most, needed);
    }
    (void)pthread_mutex_unlock(&cold);
    *bytes = most;
    return status;
}

static clq_status plan_scratch(clq_list *list, gemm *g) {
    clq_queue *queue;
    CLQ_TRY(clq_queue_create(clq_list_device(list), 0, &queue));
    clq_status status = scratch_most(g, queue, clq_list_capacity(list), &g->scratch_bytes);
    clq_queue_destroy(queue);
    return status;
}

static void add(clq_list *list, const char *label, const gemm *wanted, clq_value a, clq_value b, clq_value c) {
    gemm *g = clq_alloc(1, sizeof *g);
    if (!g) {
        clq_list_latch(list, CLQ_MEMORY);
        return;
    }
    *g = *wanted;
    clq_list_latch(list, plan_scratch(list, g));
    clq_launch_value(list, a, CLQ_READS);
    clq_launch_value(list, b, CLQ_READS);
    clq_launch_value(list, c, CLQ_WRITES);
    if (g->scratch_bytes)
        clq_launch_value(list, clq_list_value(list, CLQ_VALUE_SCRATCH, "CLBlast's scratch", g->scratch_bytes, 0),
                         CLQ_WRITES);
    clq_launch_call(list, label, "CLBlast", run, g);
}

static void finish(clq_list *list, const clq_rows_product *p) {
    size_t group = clq_list_family(list) == CLQ_FAMILY_TILE ? 1 : 64;
    char options[16];
    (void)snprintf(options, sizeof options, "-DACT=%d", (int)p->activation);
    clq_launch_begin(list, "finish", "product_support", options, "product_finish");
    clq_launch_value(list, p->y, CLQ_READS_WRITES);
    clq_launch_value(list, p->b, CLQ_READS);
    clq_launch_int(list, (int)p->columns);
    clq_launch_int(list, p->b != CLQ_NO_VALUE);
    clq_launch_work(list, 2, (size_t[]){group, 0}, (size_t[]){group, 1}, 1, p->patches.rows, 1);
    clq_launch_cost(list, 0, 0, 0, (double)(p->patches.rows * p->columns) * 2 * sizeof(float));
}

void clq_product_rows_clblast(clq_list *list, const clq_rows_product *p) {
    add(list, p->label,
        &(gemm){.a = CLBlastTransposeNo,
                .b = p->transposed ? CLBlastTransposeYes : CLBlastTransposeNo,
                .m = p->patches.rows,
                .m_grows = true,
                .n = p->columns,
                .k = p->patches.channels},
        p->x, p->w, p->y);
    clq_product_cost(list, &p->patches, p->columns);
    if (p->b || p->activation != CLQ_LINEAR) finish(list, p);
}

void clq_product_outer_clblast(clq_list *list, const clq_outer_product *p) {
    add(list, p->label,
        &(gemm){.a = CLBlastTransposeYes,
                .b = CLBlastTransposeNo,
                .m = p->patches.channels,
                .n = p->columns,
                .k = p->patches.rows,
                .k_grows = true},
        p->x, p->dz, p->dw);
    clq_product_cost(list, &p->patches, p->columns);
}
