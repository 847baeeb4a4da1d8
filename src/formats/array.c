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

clq_status clq_array_expect(clq_array *array, size_t given, const char *path, const char *format) {
    char shape[256];
    size_t bytes;
    clq_array_describe(array, shape, sizeof(shape));
    if (!clq_array_measure(array, &bytes))
        return clq_fail(CLQ_ERROR_FORMAT, "%s: %s header of %s, more than fits in memory", path, format, shape);
    if (bytes != given)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: %s %s: %s needs %zu byte%s after the header, the file has %zu", path,
                        given < bytes ? "truncated" : "oversized", format, shape, bytes, clq_plural(bytes), given);
    return CLQ_OK;
}

clq_status clq_array_create(clq_dtype dtype, unsigned rank, const size_t *dims, clq_array *out) {
    if (clq_dtype_bytes(dtype) == 0) return clq_fail(CLQ_ERROR_ARGUMENT, "an array of the unknown type %d", (int)dtype);
    if (rank > CLQ_ARRAY_DIMS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "an array of %u dimensions; %d is the most", rank, CLQ_ARRAY_DIMS_MAX);
    clq_array array = {.dtype = dtype, .rank = rank};
    if (rank) memcpy(array.dims, dims, rank * sizeof(*dims));
    size_t bytes;
    if (!clq_array_measure(&array, &bytes)) {
        char shape[256];
        clq_array_describe(&array, shape, sizeof(shape));
        return clq_fail(CLQ_ERROR_MEMORY, "an array %s does not fit in memory", shape);
    }
    array.data = clq_alloc_aligned(64, bytes);
    if (!array.data) return CLQ_ERROR_MEMORY;
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
    unsigned char *value = data;
    for (size_t i = 0; i < count && size > 1; i++, value += size)
        for (size_t low = 0, high = size; low + 1 < high; low++) {
            unsigned char byte = value[low];
            value[low] = value[--high];
            value[high] = byte;
        }
}
