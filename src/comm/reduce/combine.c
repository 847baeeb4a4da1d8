#include "comm/reduce/combine.h"

#include <stdio.h>
#include <string.h>

/* The types' names in OpenCL C: as stored, as computed in, and as computed in if the sign does not matter. */
static const struct {
    const char *stored, *work, *wrapping;
    int half;
    bool real;
} types[CLQ_DTYPE_COUNT] = {
    [CLQ_F32] = {"float", "float", "float", 0, true}, [CLQ_F64] = {"double", "double", "double", 0, true},
    [CLQ_F16] = {"half", "float", "float", 1, true},  [CLQ_BF16] = {"ushort", "float", "float", 2, true},
    [CLQ_I8] = {"char", "char", "uchar", 0, false},   [CLQ_I16] = {"short", "short", "ushort", 0, false},
    [CLQ_I32] = {"int", "int", "uint", 0, false},     [CLQ_I64] = {"long", "long", "ulong", 0, false},
    [CLQ_U8] = {"uchar", "uchar", "uchar", 0, false}, [CLQ_U16] = {"ushort", "ushort", "ushort", 0, false},
    [CLQ_U32] = {"uint", "uint", "uint", 0, false},   [CLQ_U64] = {"ulong", "ulong", "ulong", 0, false},
};

/* Launches the kernel for one element. A driver may leave most of the compiling to a kernel's first launch, as PoCL
 * does; this launch gets it done. */
static clq_status launch_once(clq_device *device, clq_kernel *kernel, clq_dtype dtype) {
    const size_t element = clq_dtype_bytes(dtype);
    clq_buffer *buffer = NULL;
    clq_queue *queue;
    CLQ_TRY(clq_queue_create(device, 0, &queue));
    clq_status status = clq_buffer_create(device, CLQ_MEMORY_DEVICE, 3 * element, "a first launch", &buffer);
    if (status == CLQ_OK)
        status = clq_combine_launch(queue, kernel, dtype, (clq_place_at){buffer, 0}, (clq_place_at){buffer, element},
                                    (clq_place_at){buffer, 2 * element}, element, 0, NULL);
    if (status == CLQ_OK) status = clq_queue_finish(queue);
    clq_buffer_destroy(buffer);
    clq_queue_destroy(queue);
    return status;
}

clq_status clq_combine_create(clq_device *device, clq_dtype dtype, clq_redop op, clq_kernel **out) {
    static const int codes[CLQ_REDOP_COUNT] = {
        [CLQ_REDOP_SUM] = 0, [CLQ_REDOP_AVG] = 0, [CLQ_REDOP_PROD] = 1, [CLQ_REDOP_MIN] = 2, [CLQ_REDOP_MAX] = 3};
    if (!types[dtype].stored) return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s cannot be reduced", clq_dtype_name(dtype));
    if (dtype == CLQ_F64 && !clq_device_get_info(device)->fp64)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s has no f64", clq_device_label(device));
    bool wraps = codes[op] < 2;
    const char *work = wraps ? types[dtype].wrapping : types[dtype].work;
    char options[160];
    snprintf(options, sizeof options, "-DELEMENT=%s -DWORK=%s -DQUOTIENT=%s -DOP=%d -DHALF=%d%s%s%s",
             types[dtype].half || types[dtype].real ? types[dtype].stored : work, work, types[dtype].work, codes[op],
             types[dtype].half, types[dtype].real ? " -DREAL" : "", dtype == CLQ_F64 ? " -DDOUBLE" : "",
             clq_device_family(device) == CLQ_FAMILY_TILE ? " -DTILE" : "");
    clq_kernel *kernel;
    CLQ_TRY(clq_kernel_create(device, "comm", options, "comm_combine", &kernel));
    clq_status status = launch_once(device, kernel, dtype);
    if (status == CLQ_OK)
        *out = kernel;
    else
        clq_kernel_destroy(kernel);
    return status;
}

/* Writes an average's factor in the type that the kernel wants: 1 / ranks or, for integers, ranks. Returns its
 * bytes. */
static size_t make_factor(clq_dtype dtype, unsigned ranks, void *out) {
    size_t bytes = types[dtype].half ? sizeof(float) : clq_dtype_bytes(dtype);
    if (dtype == CLQ_F64) {
        double factor = 1.0 / (double)ranks;
        memcpy(out, &factor, sizeof factor);
    } else if (types[dtype].real) {
        float factor = 1.0f / (float)ranks;
        memcpy(out, &factor, sizeof factor);
    } else {
        const void *const by_bytes[] = {[1] = &(uint8_t){(uint8_t)ranks},
                                        [2] = &(uint16_t){(uint16_t)ranks},
                                        [4] = &(uint32_t){ranks},
                                        [8] = &(uint64_t){ranks}};
        memcpy(out, by_bytes[bytes], bytes);
    }
    return bytes;
}

/* How many work-items a GPU gets: one for each vector, in whole work-groups, but no more than keep every compute unit
 * busy with several work-groups. The kernel's stride takes care of the rest. */
static size_t items_of(const clq_device *device, size_t count) {
    enum { WIDTH = 4 /* as in comm.cl */, GROUP = 256 };
    const size_t busy = (size_t)CLQ_MAX(clq_device_get_info(device)->compute_units, 1u) * 1024;
    return CLQ_MIN(busy, clq_round_up(CLQ_MAX(count, (size_t)1), WIDTH * GROUP) / WIDTH);
}

clq_status clq_combine_launch(clq_queue *queue, clq_kernel *kernel, clq_dtype dtype, clq_place_at to,
                              clq_place_at operand, clq_place_at received, size_t bytes, unsigned ranks,
                              const clq_order *order) {
    const clq_device *device = clq_queue_device(queue);
    const clq_place_at places[3] = {to, operand, received};
    const size_t element = clq_dtype_bytes(dtype);
    for (uint32_t i = 0; i < 3; i++) {
        const uint64_t at = places[i].offset / element;
        CLQ_TRY(clq_kernel_set_buffer(kernel, 2 * i, places[i].buffer));
        CLQ_TRY(clq_kernel_set_bytes(kernel, 2 * i + 1, &at, sizeof at));
    }
    const uint64_t count = bytes / element;
    const int32_t average = ranks > 0;
    char factor[sizeof(uint64_t)];
    size_t factor_bytes = make_factor(dtype, CLQ_MAX(ranks, 1u), factor);
    CLQ_TRY(clq_kernel_set_bytes(kernel, 6, &count, sizeof count));
    CLQ_TRY(clq_kernel_set_bytes(kernel, 7, &average, sizeof average));
    CLQ_TRY(clq_kernel_set_bytes(kernel, 8, factor, factor_bytes));
    /* On the tile family each work-item is its own work-group. Drivers that choose themselves put all items into one
     * work-group, which one thread runs. */
    const bool tile = clq_device_family(device) == CLQ_FAMILY_TILE;
    const size_t one = 1, items = tile ? clq_device_min_groups(device) : items_of(device, (size_t)count);
    return clq_queue_launch_after(queue, kernel, 1, &items, tile ? &one : NULL, order);
}
