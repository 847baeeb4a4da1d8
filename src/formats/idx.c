#include "formats/private.h"

#include <string.h>

enum { MAGIC_BYTES = 4, DIM_BYTES = 4 };

static bool find_dtype(unsigned char code, clq_dtype *out) {
    switch (code) {
    case 0x08: *out = CLQ_U8; return true;
    case 0x09: *out = CLQ_I8; return true;
    case 0x0B: *out = CLQ_I16; return true;
    case 0x0C: *out = CLQ_I32; return true;
    case 0x0D: *out = CLQ_F32; return true;
    case 0x0E: *out = CLQ_F64; return true;
    default: return false;
    }
}

/* Parses type and shape. *header: the offset of the values. */
static clq_status parse_header(const char *path, const unsigned char *in, size_t size, clq_array *array,
                               size_t *header) {
    if (size < MAGIC_BYTES)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: no IDX file: only %zu byte%s", path, size, clq_plural(size));
    if (in[0] != 0 || in[1] != 0 || !find_dtype(in[2], &array->dtype))
        return clq_fail(CLQ_ERROR_FORMAT, "%s: no IDX file: starts with %02x %02x %02x %02x", path, in[0], in[1], in[2],
                        in[3]);
    array->rank = in[3];
    if (array->rank < 1 || array->rank > CLQ_ARRAY_DIMS_MAX)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: IDX with %u dimensions; 1 to %d are read", path, array->rank,
                        CLQ_ARRAY_DIMS_MAX);
    *header = MAGIC_BYTES + (size_t)array->rank * DIM_BYTES;
    if (size < *header)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: truncated IDX: %zu bytes, its header alone is %zu", path, size, *header);
    for (unsigned i = 0; i < array->rank; i++) {
        const unsigned char *dim = in + MAGIC_BYTES + (size_t)i * DIM_BYTES;
        array->dims[i] = (size_t)dim[0] << 24 | (size_t)dim[1] << 16 | (size_t)dim[2] << 8 | dim[3];
    }
    return CLQ_OK;
}

clq_status clq_idx_look(const char *path, clq_array *out) {
    void *data;
    size_t size, header;
    CLQ_TRY(clq_gz_peek(path, MAGIC_BYTES + CLQ_ARRAY_DIMS_MAX * DIM_BYTES, &data, &size));
    clq_array array = {0};
    const clq_status status = parse_header(path, data, size, &array, &header);
    clq_free(data);
    if (status == CLQ_OK) *out = array;
    return status;
}

clq_status clq_idx_read(const char *path, clq_array *out) {
    void *data;
    size_t size, header = 0;
    CLQ_TRY(clq_gz_read(path, CLQ_FORMATS_FILE_MAX, &data, &size));
    clq_array array = {.data = data};
    clq_status status = parse_header(path, data, size, &array, &header);
    if (status == CLQ_OK) status = clq_array_expect(&array, size - header, path, "IDX");
    if (status != CLQ_OK) {
        clq_free(data);
        return status;
    }
    memmove(data, (char *)data + header, size - header); /* in place, so that memory never holds the data twice */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    clq_swap_bytes(data, array.count, clq_dtype_bytes(array.dtype));
#endif
    *out = array;
    return CLQ_OK;
}
