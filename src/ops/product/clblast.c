/* Matrix products by CLBlast. Only this file calls CLBlast. */
#include "ops/product/product.h"

#include <clblast_c.h>
#include <pthread.h>

typedef struct gemm {
    clq_product p;
    size_t m, k;          /* for the current count */
    uint32_t warm;        /* the last count that was run */
    bool takes_scratch;   /* whether the scratch memory is large enough for this count */
    size_t scratch_bytes; /* 0: no scratch memory */
} gemm;

/* CLBlast builds a kernel when a shape first needs it. It sometimes fails if the threads of two devices do this at the
 * same time. So a call that may be the first of its kind runs alone. */
static pthread_mutex_t cold = PTHREAD_MUTEX_INITIALIZER;

static clq_status lock_cold(void) {
    return pthread_mutex_lock(&cold) == 0 ? CLQ_OK : clq_fail(CLQ_ERROR_SYSTEM, "CLBlast's lock could not be taken");
}

static void set_count(gemm *g, uint32_t count) {
    const clq_patches *q = &g->p.patches;
    g->m = g->p.outer ? q->channels : q->rows * count;
    g->k = g->p.outer ? q->rows * count : q->channels;
}

static CLBlastTranspose transpose(bool transposed) { return transposed ? CLBlastTransposeYes : CLBlastTransposeNo; }
static size_t a_stride(const gemm *g) { return g->p.outer ? g->m : g->k; }
static size_t b_stride(const gemm *g) { return g->p.transposed ? g->k : g->p.columns; }

static clq_status result_of(clq_queue *queue, const gemm *g, CLBlastStatusCode code) {
    if (code == CLBlastSuccess) return CLQ_OK;
    return clq_fail(CLQ_ERROR_DEVICE, "%s: CLBlast's Sgemm of (%zu, %zu) by (%zu, %zu) failed with its code %d",
                    clq_device_label(clq_queue_device(queue)), g->m, g->k, g->k, g->p.columns, (int)code);
}

/* Without scratch memory, CLBlast allocates memory in each call. */
static clq_status call(const gemm *g, clq_queue *queue, clq_buffer *const *buffers) {
    cl_command_queue handle = clq_queue_handle(queue);
    cl_mem scratch = g->takes_scratch ? clq_buffer_handle(buffers[3]) : NULL;
    cl_event event = NULL;
    CLBlastStatusCode code = CLBlastSgemmWithTempBuffer(
        CLBlastLayoutRowMajor, transpose(g->p.outer), transpose(g->p.transposed), g->m, g->p.columns, g->k, 1.0f,
        clq_buffer_handle(buffers[0]), 0, a_stride(g), clq_buffer_handle(buffers[1]), 0, b_stride(g), 0.0f,
        clq_buffer_handle(buffers[2]), 0, g->p.columns, &handle, clq_queue_wants_event(queue, &event), scratch);
    CLQ_TRY(result_of(queue, g, code));
    return clq_queue_record(queue, "Sgemm", event);
}

/* The bytes of scratch memory that a product needs. The caller holds the lock. */
static clq_status scratch_of(const gemm *g, clq_queue *queue, size_t *bytes) {
    cl_command_queue handle = clq_queue_handle(queue);
    return result_of(queue, g,
                     CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, transpose(g->p.outer),
                                                transpose(g->p.transposed), g->m, g->p.columns, g->k, 0, a_stride(g), 0,
                                                b_stride(g), 0, g->p.columns, &handle, bytes));
}

static clq_status call_cold(gemm *g, clq_queue *queue, uint32_t count, clq_buffer *const *buffers) {
    size_t bytes;
    CLQ_TRY(scratch_of(g, queue, &bytes));
    g->takes_scratch = bytes > 0 && bytes <= g->scratch_bytes;
    CLQ_TRY(call(g, queue, buffers));
    g->warm = count;
    return CLQ_OK;
}

/* buffers: A, B, C and the scratch memory, if there is any */
static clq_status run(void *context, clq_queue *queue, uint32_t count, clq_buffer *const *buffers) {
    gemm *g = context;
    set_count(g, count);
    if (g->m == 0) return CLQ_OK;
    if (g->k == 0) return clq_queue_fill_zero(queue, buffers[2], 0, g->m * g->p.columns * sizeof(float));
    if (g->warm == count) return call(g, queue, buffers);
    CLQ_TRY(lock_cold());
    clq_status status = call_cold(g, queue, count, buffers);
    (void)pthread_mutex_unlock(&cold);
    return status;
}

/* The most scratch memory that products of up to `capacity` examples need. CLBlast pads operands to whole tiles in
 * scratch memory, but only operands that are not whole tiles already. So the largest product may need none, while the
 * product of one example less needs some. */
static clq_status scratch_most(gemm *g, clq_queue *queue, uint32_t capacity) {
    CLQ_TRY(lock_cold());
    clq_status status = CLQ_OK;
    for (uint32_t count = capacity; count > 0 && count + 1 >= capacity && status == CLQ_OK; count--) {
        size_t needed = 0;
        set_count(g, count);
        status = scratch_of(g, queue, &needed);
        g->scratch_bytes = CLQ_MAX(g->scratch_bytes, needed);
    }
    (void)pthread_mutex_unlock(&cold);
    return status;
}

static clq_status plan_scratch(clq_list *list, gemm *g) {
    clq_queue *queue;
    CLQ_TRY(clq_queue_create(clq_list_device(list), 0, &queue));
    clq_status status = scratch_most(g, queue, clq_list_capacity(list));
    clq_queue_destroy(queue);
    return status;
}

static void finish(clq_list *list, const clq_product *p) {
    size_t group = clq_list_family(list) == CLQ_FAMILY_TILE ? 1 : 64;
    clq_kernel_options options = {.length = 0};
    clq_options_add(&options, "-DACT=%d", (int)p->activation);
    clq_launch_begin(list, "finish", "product_support", options.text, "product_finish");
    clq_launch_value(list, p->c, CLQ_READS_WRITES);
    clq_launch_value(list, p->bias, CLQ_READS);
    CLQ_LAUNCH_SIZES(list, p->columns, p->bias != CLQ_NO_VALUE);
    clq_launch_work(list, 2, (size_t[]){group, 0}, (size_t[]){group, 1}, 1, p->patches.rows, 1);
    clq_launch_cost(list, 0, 0, 0, (double)(p->patches.rows * p->columns) * 2 * sizeof(float));
}

void clq_product_by_clblast(clq_list *list, const clq_product *p) {
    gemm *g = clq_alloc(1, sizeof *g);
    if (!g) {
        clq_list_latch(list, CLQ_ERROR_MEMORY);
        return;
    }
    g->p = *p;
    clq_list_latch(list, plan_scratch(list, g));
    clq_value made = p->outer ? clq_product_partial(list, p, 1) : p->c;
    CLQ_LAUNCH_READS(list, p->a, p->b);
    clq_launch_value(list, made, CLQ_WRITES);
    if (g->scratch_bytes)
        clq_launch_value(list, clq_list_scratch(list, "CLBlast's scratch", CLQ_U8, g->scratch_bytes, 0), CLQ_WRITES);
    clq_launch_call(list, p->label, "CLBlast", run, g);
    clq_product_cost(list, p);
    clq_product_reduce(list, p, made, 1);
    if (p->bias || p->activation != CLQ_ACTIVATION_LINEAR) finish(list, p);
}
