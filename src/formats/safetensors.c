#include "formats/private.h"

#include <stdlib.h>
#include <string.h>

#define METADATA "__metadata__"

enum { LENGTH_BYTES = 8, HEADER_MAX = 100 * 1000 * 1000, HEADER_DEPTH = 4 };

/* The file's values are little-endian, and this code does not swap bytes. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors are read and written on little-endian hosts");

static const struct {
    const char *name;
    clq_dtype dtype;
} types[] = {
    {"F32", CLQ_F32}, {"F64", CLQ_F64}, {"F16", CLQ_F16},   {"BF16", CLQ_BF16}, {"I8", CLQ_I8},
    {"I16", CLQ_I16}, {"I32", CLQ_I32}, {"I64", CLQ_I64},   {"U8", CLQ_U8},     {"U16", CLQ_U16},
    {"U32", CLQ_U32}, {"U64", CLQ_U64}, {"BOOL", CLQ_BOOL},
};

/* ---- reading ---- */

struct clq_safetensors {
    const char *path; /* for messages; NULL once the file is open */
    char *content;
    json_t *header; /* owns the names and the metadata */
    clq_safetensors_entry *entries;
    size_t count;
};

static clq_status fail_tensor(const clq_safetensors *file, const char *name, const char *what) {
    return clq_fail(CLQ_ERROR_FORMAT, "%s: tensor '%.200s': %s", file->path, name, what);
}

static clq_status parse_dtype(const clq_safetensors *file, const json_t *info, clq_safetensors_entry *entry) {
    const char *name = json_string_value(json_object_get(info, "dtype"));
    if (!name) return fail_tensor(file, entry->name, "no 'dtype'");
    for (size_t i = 0; i < CLQ_COUNT_OF(types); i++) {
        if (strcmp(types[i].name, name) != 0) continue;
        entry->dtype = types[i].dtype;
        return CLQ_OK;
    }
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: tensor '%.200s': unknown type '%.40s'", file->path, entry->name, name);
}

static bool size_value(const json_t *value, size_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    uintmax_t whole = (uintmax_t)json_integer_value(value);
    if (whole > SIZE_MAX) return false;
    *out = (size_t)whole;
    return true;
}

static clq_status parse_shape(const clq_safetensors *file, const json_t *info, clq_safetensors_entry *entry) {
    const json_t *shape = json_object_get(info, "shape");
    if (!json_is_array(shape)) return fail_tensor(file, entry->name, "no 'shape'");
    if (json_array_size(shape) > CLQ_ARRAY_DIMS_MAX)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: tensor '%.200s': %zu dimensions; %d is the most", file->path,
                        entry->name, json_array_size(shape), CLQ_ARRAY_DIMS_MAX);
    clq_array array = {.dtype = entry->dtype, .rank = (unsigned)json_array_size(shape)};
    for (unsigned i = 0; i < array.rank; i++)
        if (!size_value(json_array_get(shape, i), &array.dims[i]))
            return fail_tensor(file, entry->name, "a dimension that is no size");
    if (!clq_array_measure(&array, &entry->bytes))
        return fail_tensor(file, entry->name, "a shape that does not fit in memory");
    entry->rank = array.rank;
    memcpy(entry->dims, array.dims, sizeof(entry->dims));
    entry->count = array.count;
    return CLQ_OK;
}

/* Finds the entry's data. values: the part of the file behind the header. */
static clq_status parse_offsets(const clq_safetensors *file, const json_t *info, const char *values, size_t bytes,
                                clq_safetensors_entry *entry) {
    const json_t *offsets = json_object_get(info, "data_offsets");
    size_t begin, end;
    if (json_array_size(offsets) != 2 || !size_value(json_array_get(offsets, 0), &begin) ||
        !size_value(json_array_get(offsets, 1), &end))
        return fail_tensor(file, entry->name, "no 'data_offsets' of two sizes");
    if (begin > end || end > bytes)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: tensor '%.200s': offsets %zu to %zu in %zu bytes of data", file->path,
                        entry->name, begin, end, bytes);
    if (end - begin != entry->bytes)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: tensor '%.200s': %zu bytes of data for a shape of %zu bytes", file->path,
                        entry->name, end - begin, entry->bytes);
    entry->data = values + begin;
    return CLQ_OK;
}

static clq_status check_metadata(const clq_safetensors *file, json_t *metadata) {
    if (!json_is_object(metadata)) return clq_fail(CLQ_ERROR_FORMAT, "%s: " METADATA " is no object", file->path);
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return clq_fail(CLQ_ERROR_FORMAT, "%s: metadata '%.200s' is no string", file->path, key);
    }
    return CLQ_OK;
}

static clq_status parse_entries(clq_safetensors *file, const char *values, size_t bytes) {
    file->entries = clq_alloc(json_object_size(file->header), sizeof(*file->entries));
    if (!file->entries) return CLQ_ERROR_MEMORY;
    const char *name;
    json_t *info;
    json_object_foreach(file->header, name, info) {
        if (strcmp(name, METADATA) == 0) {
            CLQ_TRY(check_metadata(file, info));
            continue;
        }
        clq_safetensors_entry *entry = &file->entries[file->count];
        entry->name = name;
        if (!json_is_object(info)) return fail_tensor(file, name, "is no object");
        CLQ_TRY(parse_dtype(file, info, entry));
        CLQ_TRY(parse_shape(file, info, entry));
        CLQ_TRY(parse_offsets(file, info, values, bytes, entry));
        file->count++;
    }
    return CLQ_OK;
}

/* Compares entries by place. In a valid file, at most one of several entries at one place has bytes; it comes last. */
static int compare_places(const void *a, const void *b) {
    const clq_safetensors_entry *left = a, *right = b;
    if (left->data != right->data) return (const char *)left->data < (const char *)right->data ? -1 : 1;
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

/* Checks that the tensors cover the data exactly: nothing may be hidden between tensors, and no byte may belong to
 * two. */
static clq_status check_places(clq_safetensors *file, const char *values, size_t bytes) {
    if (file->count) qsort(file->entries, file->count, sizeof(*file->entries), compare_places);
    size_t at = 0;
    for (size_t i = 0; i < file->count; i++) {
        size_t begin = (size_t)((const char *)file->entries[i].data - values);
        if (begin != at)
            return fail_tensor(file, file->entries[i].name, begin > at ? "a hole before its data" : "overlaps another");
        at += file->entries[i].bytes;
    }
    if (at != bytes)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: %zu byte%s of data behind the last tensor", file->path, bytes - at,
                        clq_plural(bytes - at));
    return CLQ_OK;
}

/* Other formats in which programs keep weights: how their files begin, and what the user can do. */
static const struct stranger {
    const char *begin;
    size_t bytes;
    const char *what;
} strangers[] = {
    {"\x89HDF\r\n\x1a\n", 8,
     "HDF5: of Keras's files, those are read that Keras 3 wrote and whose names end in .weights.h5"},
    {"PK\3\4", 4,
     "a zip archive: a .keras file needs a name that ends so, and what PyTorch saved is to be saved anew as "
     "safetensors"},
    {"\x93NUMPY", 6, "an array of NumPy: tensors with names are to be saved as safetensors"},
    {"\x80\2", 2, "a Python pickle, as PyTorch's files: it is to be saved anew as safetensors"},
    {"\x80\3", 2, "a Python pickle: it is to be saved anew as safetensors"},
    {"\x80\4", 2, "a Python pickle: it is to be saved anew as safetensors"},
    {"\x80\5", 2, "a Python pickle: it is to be saved anew as safetensors"},
    {"GGUF", 4, "GGUF: it is to be saved anew as safetensors"},
};

static clq_status check_begin(const clq_safetensors *file, size_t size) {
    for (size_t i = 0; i < CLQ_COUNT_OF(strangers); i++)
        if (size >= strangers[i].bytes && memcmp(file->content, strangers[i].begin, strangers[i].bytes) == 0)
            return clq_fail(CLQ_ERROR_FORMAT, "%s: no safetensors file, but %s", file->path, strangers[i].what);
    return CLQ_OK;
}

static clq_status parse_file(clq_safetensors *file, size_t size) {
    if (size < LENGTH_BYTES)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: no safetensors file: only %zu byte%s", file->path, size,
                        clq_plural(size));
    uint64_t length;
    memcpy(&length, file->content, sizeof(length));
    size_t rest = size - LENGTH_BYTES;
    if (length > HEADER_MAX) CLQ_TRY(check_begin(file, size)); /* otherwise it may be a header that is cut off */
    if (length > HEADER_MAX || length > rest)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: no safetensors file or truncated: a header of %ju bytes in %zu",
                        file->path, (uintmax_t)length, size);
    const char *header = file->content + LENGTH_BYTES, *values = header + length;
    if (length == 0 || *header != '{')
        return clq_fail(CLQ_ERROR_FORMAT, "%s: no safetensors file: its header does not start with '{'", file->path);
    CLQ_TRY(clq_json_parse(header, (size_t)length, HEADER_DEPTH, file->path, &file->header));
    CLQ_TRY(parse_entries(file, values, rest - (size_t)length));
    return check_places(file, values, rest - (size_t)length);
}

clq_status clq_safetensors_open(const char *path, clq_safetensors **out) {
    clq_safetensors *file = clq_alloc(1, sizeof(*file));
    if (!file) return CLQ_ERROR_MEMORY;
    file->path = path;
    size_t size;
    void *content;
    clq_status status;
    CLQ_TRY_OR(fail, status, clq_file_read(path, CLQ_FORMATS_FILE_MAX, &content, &size));
    file->content = content;
    CLQ_TRY_OR(fail, status, parse_file(file, size));
    file->path = NULL;
    *out = file;
    return CLQ_OK;
fail:
    clq_safetensors_close(file);
    return status;
}

void clq_safetensors_close(clq_safetensors *file) {
    if (!file) return;
    json_decref(file->header);
    clq_free(file->entries);
    clq_free(file->content);
    clq_free(file);
}

size_t clq_safetensors_count(const clq_safetensors *file) { return file->count; }

const clq_safetensors_entry *clq_safetensors_at(const clq_safetensors *file, size_t index) {
    return index < file->count ? &file->entries[index] : NULL;
}

const clq_safetensors_entry *clq_safetensors_find(const clq_safetensors *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->entries[i].name, name) == 0) return &file->entries[i];
    return NULL;
}

const char *clq_safetensors_metadata(const clq_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, METADATA), key));
}

bool clq_safetensors_metadata_at(const clq_safetensors *file, size_t index, const char **key, const char **value) {
    const char *name;
    json_t *text;
    size_t i = 0;
    json_object_foreach(json_object_get(file->header, METADATA), name, text) {
        if (i++ < index) continue;
        *key = name;
        *value = json_string_value(text);
        return *value != NULL;
    }
    return false;
}

/* ---- writing ---- */

static clq_status fail_memory(const char *path) {
    return clq_fail_within(clq_fail_memory("writing the header"), "%s", path);
}

static clq_status check_text(const char *path, const char *text) {
    if (clq_is_utf8(text)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%s: cannot write '%.200s', which is no UTF-8", path, text);
}

static const char *type_name(clq_dtype dtype) {
    for (size_t i = 0; i < CLQ_COUNT_OF(types); i++)
        if (types[i].dtype == dtype) return types[i].name;
    return NULL;
}

static clq_status measure(const char *path, const clq_safetensors_source *tensor, size_t *bytes) {
    clq_array array = {.dtype = tensor->dtype, .rank = tensor->rank};
    if (!tensor->name || !type_name(tensor->dtype) || tensor->rank > CLQ_ARRAY_DIMS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: a tensor without a name, of an unknown type or of too many dimensions",
                        path);
    memcpy(array.dims, tensor->dims, sizeof(array.dims));
    if (!clq_array_measure(&array, bytes) || *bytes > INT64_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: tensor '%.200s': its shape does not fit in memory", path,
                        tensor->name);
    return CLQ_OK;
}

/* {"dtype":"F32","shape":[2,3],"data_offsets":[begin,end]} */
static clq_status add_tensor(const char *path, json_t *header, const clq_safetensors_source *tensor, size_t begin,
                             size_t end) {
    CLQ_TRY(check_text(path, tensor->name));
    if (strcmp(tensor->name, METADATA) == 0 || json_object_get(header, tensor->name))
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: tensor '%.200s': the name is taken", path, tensor->name);
    json_t *shape = json_array();
    for (unsigned i = 0; i < tensor->rank; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)tensor->dims[i])) != 0) {
            json_decref(shape);
            return fail_memory(path);
        }
    json_t *info = json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_name(tensor->dtype), "shape", shape, "data_offsets",
                             (json_int_t)begin, (json_int_t)end); /* takes over `shape`, also when it fails */
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
    return json_object_set_new(header, METADATA, pairs) == 0 ? CLQ_OK : fail_memory(path);
}

/* Composes the header's text, with blanks at its end up to a multiple of 8 bytes. */
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
            status = clq_fail(CLQ_ERROR_ARGUMENT, "%s: more data than a file can hold", path);
            goto done;
        }
        CLQ_TRY_OR(done, status, add_tensor(path, header, &tensors[i], begin, end));
        begin = end;
    }
    clq_json_dump(header, JSON_COMPACT, text);
    while (!text->failed && text->length % 8) clq_text_add_bytes(text, " ", 1);
    if (text->failed)
        status = fail_memory(path);
    else if (text->length > HEADER_MAX)
        status =
            clq_fail(CLQ_ERROR_ARGUMENT, "%s: a header of %zu bytes; %d is the most", path, text->length, HEADER_MAX);
done:
    json_decref(header);
    return status;
}

clq_status clq_safetensors_write(const char *path, const clq_safetensors_source *tensors, size_t count,
                                 const char *const *metadata, size_t metadata_count) {
    clq_text header = {0};
    clq_file_writer *writer;
    clq_status status;
    CLQ_TRY_OR(done, status, compose_header(path, tensors, count, metadata, metadata_count, &header));
    CLQ_TRY_OR(done, status, clq_file_writer_open(path, &writer));
    uint64_t length = header.length;
    clq_file_writer_put(writer, &length, sizeof(length));
    clq_file_writer_put(writer, header.data, header.length);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 0;
        (void)measure(path, &tensors[i], &bytes); /* cannot fail here: compose_header has measured all tensors */
        clq_file_writer_put(writer, tensors[i].data, bytes);
    }
    status = clq_file_writer_commit(writer); /* fails if a put failed */
done:
    clq_free(header.data);
    return status;
}
