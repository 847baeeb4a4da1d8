#include "formats/private.h"
#include "formats/safetensors.h"

#include <string.h>

static clq_status fail_memory(const char *path) {
    return clq_fail(CLQ_MEMORY, "%s: out of host memory for the header", path);
}

static clq_status check_text(const char *path, const char *text) {
    if (clq_is_utf8(text)) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT, "%s: cannot write '%.200s', which is no UTF-8", path, text);
}

static const char *type_name(clq_dtype dtype) {
    for (size_t i = 0; i < CLQ_COUNT_OF(clq_safetensors_types); i++)
        if (clq_safetensors_types[i].dtype == dtype) return clq_safetensors_types[i].name;
    return NULL;
}

static clq_status measure(const char *path, const clq_safetensors_source *tensor, size_t *bytes) {
    clq_array array = {.dtype = tensor->dtype, .rank = tensor->rank};
    if (!tensor->name || !type_name(tensor->dtype) || tensor->rank > CLQ_ARRAY_DIMS_MAX)
        return clq_fail(CLQ_ARGUMENT, "%s: a tensor without a name, of an unknown type or of too many dimensions",
                        path);
    memcpy(array.dims, tensor->dims, sizeof(array.dims));
    if (!clq_array_measure(&array, bytes) || *bytes > INT64_MAX)
        return clq_fail(CLQ_ARGUMENT, "%s: tensor '%.200s': its shape does not fit in memory", path, tensor->name);
    return CLQ_OK;
}

/* {"dtype":"F32","shape":[2,3],"data_offsets":[begin,end]} */
static clq_status add_tensor(const char *path, json_t *header, const clq_safetensors_source *tensor, size_t begin,
                             size_t end) {
    CLQ_TRY(check_text(path, tensor->name));
    if (strcmp(tensor->name, CLQ_SAFETENSORS_METADATA) == 0 || json_object_get(header, tensor->name))
        return clq_fail(CLQ_ARGUMENT, "%s: tensor '%.200s': the name is taken", path, tensor->name);
    json_t *shape = json_array();
    for (unsigned i = 0; i < tensor->rank; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)tensor->dims[i])) != 0) {
            json_decref(shape);
            return fail_memory(path);
        }
    json_t *info = json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_name(tensor->dtype), "shape", shape, "data_offsets",
                             (json_int_t)begin, (json_int_t)end); /* takes shape, also when it fails */
    return json_object_set_new(header, tensor->name, info) == 0 ? CLQ_OK : fail_memory(path);
}

static clq_status add_metadata(const char *path, json_t *header, const char *const *metadata, size_t count) {
    if (count == 0) return CLQ_OK;
    for (size_t i = 0; i < 2 * count; i++) CLQ_TRY(check_text(path, metadata[i]));
    json_t *pairs = json_object();
    for (size_t i = 0; i < count; i++)
        if (json_object_set_new(pairs, metadata[2 * i], json_string(metadata[2 * i + 1])) != 0) {
            json_decref(pairs);
            return fail_memory(path);
        }
    return json_object_set_new(header, CLQ_SAFETENSORS_METADATA, pairs) == 0 ? CLQ_OK : fail_memory(path);
}

static int add_to_text(const char *bytes, size_t length, void *context) {
    clq_text *text = context;
    clq_text_add_bytes(text, bytes, length);
    return text->failed ? -1 : 0;
}

/* The header's text, with blanks up to a multiple of 8. */
static clq_status compose_header(const char *path, const clq_safetensors_source *tensors, size_t count,
                                 const char *const *metadata, size_t metadata_count, clq_text *text) {
    json_t *header = json_object();
    if (!header) return fail_memory(path);
    clq_status status;
    CLQ_TRY_OR(done, status, add_metadata(path, header, metadata, metadata_count));
    size_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 0, end;
        CLQ_TRY_OR(done, status, measure(path, &tensors[i], &bytes));
        if (!clq_add_size(begin, bytes, &end) || end > INT64_MAX) {
            status = clq_fail(CLQ_ARGUMENT, "%s: more data than a file can hold", path);
            goto done;
        }
        CLQ_TRY_OR(done, status, add_tensor(path, header, &tensors[i], begin, end));
        begin = end;
    }
    if (json_dump_callback(header, add_to_text, text, JSON_COMPACT) != 0) text->failed = true;
    while (!text->failed && text->length % 8) clq_text_add_bytes(text, " ", 1);
    if (text->failed)
        status = fail_memory(path);
    else if (text->length > CLQ_SAFETENSORS_HEADER_MAX)
        status = clq_fail(CLQ_ARGUMENT, "%s: a header of %zu bytes; %d is the most", path, text->length,
                          CLQ_SAFETENSORS_HEADER_MAX);
done:
    json_decref(header);
    return status;
}

static clq_status put_all(const char *path, clq_file_writer *writer, const clq_text *header,
                          const clq_safetensors_source *tensors, size_t count) {
    uint64_t length = header->length;
    CLQ_TRY(clq_file_writer_put(writer, &length, sizeof(length)));
    CLQ_TRY(clq_file_writer_put(writer, header->data, header->length));
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 0;
        CLQ_TRY(measure(path, &tensors[i], &bytes));
        CLQ_TRY(clq_file_writer_put(writer, tensors[i].data, bytes));
    }
    return CLQ_OK;
}

clq_status clq_safetensors_write(const char *path, const clq_safetensors_source *tensors, size_t count,
                                 const char *const *metadata, size_t metadata_count) {
    clq_text header = {0};
    clq_file_writer *writer = NULL;
    clq_status status;
    CLQ_TRY_OR(done, status, compose_header(path, tensors, count, metadata, metadata_count, &header));
    CLQ_TRY_OR(done, status, clq_file_writer_open(path, &writer));
    CLQ_TRY_OR(done, status, put_all(path, writer, &header, tensors, count));
    status = clq_file_writer_commit(writer);
    writer = NULL;
done:
    clq_file_writer_cancel(writer);
    clq_free(header.data);
    return status;
}
