#include "formats/private.h"

#include <stdio.h>
#include <string.h>

bool clq_array_measure(clq_array *array, size_t *bytes) {
    size_t count = 1;
    for (unsigned i = 0; i < array->rank; i++)
        if (!clq_mul_size(count, array->dims[i], &count)) return false;
    if (!clq_mul_size(count, clq_dtype_bytes(array->dtype), bytes) || *bytes > PTRDIFF_MAX) return false;
    array->count = count;
    return true;
}

clq_status clq_array_create(clq_dtype dtype, unsigned rank, const size_t *dims, clq_array *out) {
    if (clq_dtype_bytes(dtype) == 0) return clq_fail(CLQ_ARGUMENT, "an array of the unknown type %d", (int)dtype);
    if (rank > CLQ_ARRAY_DIMS_MAX)
        return clq_fail(CLQ_ARGUMENT, "an array of %u dimensions; %d is the most", rank, CLQ_ARRAY_DIMS_MAX);
    clq_array array = {.dtype = dtype, .rank = rank};
    if (rank) memcpy(array.dims, dims, rank * sizeof(*dims));
    size_t bytes;
    if (!clq_array_measure(&array, &bytes)) {
        char shape[256];
        clq_array_describe(&array, shape, sizeof(shape));
        return clq_fail(CLQ_MEMORY, "an array %s does not fit in memory", shape);
    }
    array.data = clq_alloc_aligned(64, bytes);
    if (!array.data) return CLQ_MEMORY;
    *out = array;
    return CLQ_OK;
}

void clq_array_release(clq_array *array) {
    clq_free(array->data);
    *array = (clq_array){0};
}

void clq_array_describe(const clq_array *array, char *text, size_t bytes) {
    char shape[CLQ_ARRAY_DIMS_MAX * 24] = "";
    size_t used = 0;
    for (unsigned i = 0; i < array->rank; i++)
        used += (size_t)snprintf(shape + used, sizeof(shape) - used, "%s%zu", i ? ", " : "", array->dims[i]);
    snprintf(text, bytes, "(%s%s) %s", shape, array->rank == 1 ? "," : "", clq_dtype_name(array->dtype));
}

void clq_swap_bytes(void *data, size_t count, size_t size) {
    unsigned char *next = data;
    if (size == 2)
        for (size_t i = 0; i < count; i++, next += 2) {
            uint16_t value;
            memcpy(&value, next, 2);
            value = __builtin_bswap16(value);
            memcpy(next, &value, 2);
        }
    else if (size == 4)
        for (size_t i = 0; i < count; i++, next += 4) {
            uint32_t value;
            memcpy(&value, next, 4);
            value = __builtin_bswap32(value);
            memcpy(next, &value, 4);
        }
    else if (size == 8)
        for (size_t i = 0; i < count; i++, next += 8) {
            uint64_t value;
            memcpy(&value, next, 8);
            value = __builtin_bswap64(value);
            memcpy(next, &value, 8);
        }
}
