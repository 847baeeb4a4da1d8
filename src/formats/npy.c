#include "formats/npy.h"
#include "formats/private.h"

#include <string.h>

enum { MAGIC_BYTES = 6, PREFIX_V1 = 10, PREFIX_V2 = 12, HEADER_MAX = 1 << 20, ALIGNMENT = 64 };

static const char magic[] = "\x93NUMPY";

/* Where the header's text starts and ends. */
static clq_status find_header(const char *path, const unsigned char *in, size_t size, size_t *begin, size_t *end) {
    if (size < PREFIX_V1 || memcmp(in, magic, MAGIC_BYTES) != 0)
        return clq_fail(CLQ_FORMAT, "%s: no NPY file: %s", path, size < PREFIX_V1 ? "too short" : "no such magic");
    unsigned major = in[6];
    if (major < 1 || major > 3 || in[7] != 0)
        return clq_fail(CLQ_UNSUPPORTED, "%s: NPY version %u.%u; 1.0 to 3.0 are read", path, major, in[7]);
    size_t length = (size_t)in[8] | (size_t)in[9] << 8;
    *begin = PREFIX_V1;
    if (major > 1) {
        if (size < PREFIX_V2) return clq_fail(CLQ_FORMAT, "%s: truncated NPY: %zu bytes", path, size);
        length |= (size_t)in[10] << 16 | (size_t)in[11] << 24;
        *begin = PREFIX_V2;
    }
    if (length > HEADER_MAX || length > size - *begin)
        return clq_fail(CLQ_FORMAT, "%s: truncated NPY: a header of %zu bytes in a file of %zu", path, length, size);
    *end = *begin + length;
    return CLQ_OK;
}

static clq_status parse(const char *path, const unsigned char *in, size_t size, clq_npy_header *header,
                        clq_array *array, size_t *data_at) {
    size_t begin = 0, bytes;
    CLQ_TRY(find_header(path, in, size, &begin, data_at));
    CLQ_TRY(clq_npy_header_parse((const char *)in + begin, *data_at - begin, path, header));
    array->dtype = header->dtype;
    array->rank = header->rank;
    memcpy(array->dims, header->dims, sizeof(array->dims));
    char shape[256];
    clq_array_describe(array, shape, sizeof(shape));
    if (!clq_array_measure(array, &bytes))
        return clq_fail(CLQ_FORMAT, "%s: NPY header of %s, more than fits in memory", path, shape);
    if (bytes != size - *data_at)
        return clq_fail(CLQ_FORMAT, "%s: %s NPY: %s needs %zu bytes after the header, the file has %zu", path,
                        size - *data_at < bytes ? "truncated" : "oversized", shape, bytes, size - *data_at);
    return CLQ_OK;
}

/* Writes the elements in C order, the last index fastest; `from` has the first index fastest. */
static void transpose(const clq_array *array, const char *from, char *to) {
    size_t size = clq_dtype_bytes(array->dtype), strides[CLQ_ARRAY_DIMS_MAX], index[CLQ_ARRAY_DIMS_MAX] = {0};
    size_t stride = size;
    for (unsigned i = 0; i < array->rank; i++) {
        strides[i] = stride;
        stride *= array->dims[i];
    }
    for (size_t n = 0, offset = 0; n < array->count; n++, to += size) {
        memcpy(to, from + offset, size);
        for (unsigned i = array->rank; i-- > 0;) {
            offset += strides[i];
            if (++index[i] < array->dims[i]) break;
            offset -= strides[i] * array->dims[i];
            index[i] = 0;
        }
    }
}

/* numpy takes any byte but 0 as true; here true is 1. */
static void normalise_bools(clq_array *array) {
    unsigned char *values = array->data;
    for (size_t i = 0; i < array->count; i++) values[i] = values[i] != 0;
}

/* Moves the values into place; array->data is the file's content and is replaced where they change
 * order. */
static clq_status arrange(const clq_npy_header *header, size_t data_at, clq_array *array) {
    size_t size = clq_dtype_bytes(array->dtype);
    char *values = (char *)array->data + data_at;
    if (header->fortran_order && array->rank > 1) {
        char *ordered = clq_alloc_aligned(64, array->count * size);
        if (!ordered) return CLQ_MEMORY;
        transpose(array, values, ordered);
        clq_free(array->data);
        array->data = ordered;
    } else {
        memmove(array->data, values, array->count * size);
    }
    if (header->swapped) clq_swap_bytes(array->data, array->count, size);
    if (array->dtype == CLQ_BOOL) normalise_bools(array);
    return CLQ_OK;
}

clq_status clq_npy_read(const char *path, clq_array *out) {
    clq_array array = {0};
    clq_npy_header header;
    size_t size, data_at = 0;
    clq_status status = clq_file_read(path, CLQ_FORMATS_FILE_MAX, &array.data, &size);
    if (status != CLQ_OK) return status;
    CLQ_TRY_OR(fail, status, parse(path, array.data, size, &header, &array, &data_at));
    CLQ_TRY_OR(fail, status, arrange(&header, data_at, &array));
    *out = array;
    return CLQ_OK;
fail:
    clq_array_release(&array);
    return status;
}

static const char *type_name(clq_dtype dtype) {
    switch (dtype) {
    case CLQ_F32: return "f4";
    case CLQ_F64: return "f8";
    case CLQ_F16: return "f2";
    case CLQ_I8: return "i1";
    case CLQ_I16: return "i2";
    case CLQ_I32: return "i4";
    case CLQ_I64: return "i8";
    case CLQ_U8: return "u1";
    case CLQ_U16: return "u2";
    case CLQ_U32: return "u4";
    case CLQ_U64: return "u8";
    case CLQ_BOOL: return "b1";
    case CLQ_BF16:
    case CLQ_DTYPE_COUNT: break;
    }
    return NULL;
}

/* Prefix and dictionary, blanks up to the alignment, a newline. */
static void compose_header(const clq_array *array, clq_text *text) {
    char order = clq_dtype_bytes(array->dtype) == 1 ? '|' : __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';
    clq_text dict = {0};
    clq_text_add(&dict, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, type_name(array->dtype));
    for (unsigned i = 0; i < array->rank; i++) clq_text_add(&dict, "%s%zu", i ? ", " : "", array->dims[i]);
    clq_text_add(&dict, "%s), }", array->rank == 1 ? "," : "");
    size_t total = clq_round_up(PREFIX_V1 + dict.length + 1, ALIGNMENT), length = total - PREFIX_V1;
    clq_text_add_bytes(text, magic, MAGIC_BYTES);
    clq_text_add_bytes(text, (char[]){1, 0, (char)(length & 0xff), (char)(length >> 8)}, 4);
    if (dict.failed)
        text->failed = true;
    else
        clq_text_add(text, "%-*s\n", (int)length - 1, dict.data);
    clq_free(dict.data);
}

clq_status clq_npy_write(const char *path, const clq_array *array) {
    if (!type_name(array->dtype))
        return clq_fail(CLQ_UNSUPPORTED, "%s: NPY has no type for %s", path, clq_dtype_name(array->dtype));
    clq_text header = {0};
    clq_file_writer *writer = NULL;
    clq_status status = CLQ_MEMORY;
    compose_header(array, &header);
    if (header.failed) goto done;
    CLQ_TRY_OR(done, status, clq_file_writer_open(path, &writer));
    CLQ_TRY_OR(done, status, clq_file_writer_put(writer, header.data, header.length));
    CLQ_TRY_OR(done, status, clq_file_writer_put(writer, array->data, array->count * clq_dtype_bytes(array->dtype)));
    status = clq_file_writer_commit(writer);
    writer = NULL;
done:
    clq_file_writer_cancel(writer);
    clq_free(header.data);
    return status;
}
