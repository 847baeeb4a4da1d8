#include "formats/private.h"

#include <string.h>

enum { MAGIC_BYTES = 6, PREFIX_V1 = 10, PREFIX_V2 = 12, HEADER_MAX = 1 << 20, ALIGNMENT = 64 };

static const char magic[] = "\x93NUMPY";

/* The content of the header, which is the text of a Python dictionary. */
typedef struct file_header {
    clq_array array; /* its type, rank and dims */
    bool swapped;    /* the values have the other byte order than the host */
    bool fortran_order;
} file_header;

static const struct {
    const char *name;
    clq_dtype dtype;
} types[] = {{"f4", CLQ_F32}, {"f8", CLQ_F64}, {"f2", CLQ_F16}, {"i1", CLQ_I8},  {"i2", CLQ_I16}, {"i4", CLQ_I32},
             {"i8", CLQ_I64}, {"u1", CLQ_U8},  {"u2", CLQ_U16}, {"u4", CLQ_U32}, {"u8", CLQ_U64}, {"b1", CLQ_BOOL}};

/* ---- the header's text ---- */

typedef struct cursor {
    const char *start, *next, *end;
    const char *where;
} cursor;

static clq_status fail_at(const cursor *at, const char *expected) {
    return clq_fail(CLQ_ERROR_FORMAT, "%s: NPY header, character %td: expected %s", at->where, at->next - at->start,
                    expected);
}

static void skip_blanks(cursor *at) {
    while (at->next < at->end && (*at->next == ' ' || *at->next == '\n' || *at->next == '\t')) at->next++;
}

/* If `c` comes next, takes it and the blanks before it. */
static bool take(cursor *at, char c) {
    skip_blanks(at);
    if (at->next == at->end || *at->next != c) return false;
    at->next++;
    return true;
}

static bool take_word(cursor *at, const char *word) {
    skip_blanks(at);
    size_t length = strlen(word);
    if ((size_t)(at->end - at->next) < length || memcmp(at->next, word, length) != 0) return false;
    at->next += length;
    return true;
}

/* Takes a string in single or double quotes. Escapes are refused: keys and type names have none. */
static clq_status take_string(cursor *at, char *out, size_t capacity) {
    char quote = take(at, '\'') ? '\'' : '"';
    if (quote == '"' && !take(at, '"')) return fail_at(at, "a string");
    size_t length = 0;
    while (at->next < at->end && *at->next != quote && *at->next != '\\' && length + 1 < capacity)
        out[length++] = *at->next++;
    if (at->next == at->end || *at->next != quote) return fail_at(at, "the end of a short string");
    at->next++;
    out[length] = '\0';
    return CLQ_OK;
}

static clq_status parse_descr(cursor *at, file_header *header) {
    skip_blanks(at);
    if (at->next < at->end && *at->next == '[')
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: NPY with structured records; only plain numbers are read",
                        at->where);
    char descr[16] = "";
    CLQ_TRY(take_string(at, descr, sizeof(descr)));
    if (!descr[0] || !strchr("<>|=", descr[0]))
        return clq_fail(CLQ_ERROR_FORMAT, "%s: NPY of type '%s', which tells no byte order", at->where, descr);
    for (size_t i = 0; i < CLQ_COUNT_OF(types); i++) {
        if (strcmp(types[i].name, descr + 1) != 0) continue;
        char foreign = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '>' : '<';
        header->array.dtype = types[i].dtype;
        header->swapped = descr[0] == foreign;
        return CLQ_OK;
    }
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: NPY of type '%s'; integers, floats of 16 to 64 bits and bool are read",
                    at->where, descr);
}

static clq_status parse_dim(cursor *at, size_t *out) {
    skip_blanks(at);
    const char *first = at->next;
    size_t value = 0;
    for (; at->next < at->end && *at->next >= '0' && *at->next <= '9'; at->next++)
        if (!clq_mul_size(value, 10, &value) || !clq_add_size(value, (size_t)(*at->next - '0'), &value))
            return fail_at(at, "a dimension that fits in memory");
    if (at->next == first) return fail_at(at, "a dimension");
    if (at->next < at->end && *at->next == 'L') at->next++; /* Python 2's suffix of long integers */
    *out = value;
    return CLQ_OK;
}

/* (), (3,), (3, 4) or (3, 4,) */
static clq_status parse_shape(cursor *at, file_header *header) {
    clq_array *array = &header->array;
    if (!take(at, '(')) return fail_at(at, "'(' of the shape");
    while (!take(at, ')')) {
        if (array->rank == CLQ_ARRAY_DIMS_MAX)
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: NPY with more than %d dimensions", at->where,
                            CLQ_ARRAY_DIMS_MAX);
        CLQ_TRY(parse_dim(at, &array->dims[array->rank++]));
        if (take(at, ',')) continue;
        if (!take(at, ')')) return fail_at(at, "',' or ')' in the shape");
        if (array->rank == 1) return fail_at(at, "',' after the only dimension");
        break;
    }
    return CLQ_OK;
}

static clq_status parse_order(cursor *at, file_header *header) {
    if (take_word(at, "True"))
        header->fortran_order = true;
    else if (!take_word(at, "False"))
        return fail_at(at, "True or False");
    return CLQ_OK;
}

/* `text` need not end with a NUL; `where` names the file. */
static clq_status parse_dictionary(const char *text, size_t bytes, const char *where, file_header *header) {
    static const struct {
        const char *key;
        clq_status (*parse)(cursor *, file_header *);
    } parts[] = {{"descr", parse_descr}, {"fortran_order", parse_order}, {"shape", parse_shape}};
    cursor at = {.start = text, .next = text, .end = text + bytes, .where = where};
    bool seen[CLQ_COUNT_OF(parts)] = {false};
    if (!take(&at, '{')) return fail_at(&at, "'{'");
    while (!take(&at, '}')) {
        char key[16];
        CLQ_TRY(take_string(&at, key, sizeof(key)));
        if (!take(&at, ':')) return fail_at(&at, "':'");
        size_t part = 0;
        while (part < CLQ_COUNT_OF(parts) && strcmp(parts[part].key, key) != 0) part++;
        if (part == CLQ_COUNT_OF(parts) || seen[part])
            return clq_fail(CLQ_ERROR_FORMAT, "%s: NPY header with %s key '%s'", where,
                            part == CLQ_COUNT_OF(parts) ? "an unknown" : "twice the", key);
        seen[part] = true;
        CLQ_TRY(parts[part].parse(&at, header));
        if (take(&at, ',')) continue;
        if (!take(&at, '}')) return fail_at(&at, "',' or '}'");
        break;
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(parts); i++)
        if (!seen[i]) return clq_fail(CLQ_ERROR_FORMAT, "%s: NPY header without '%s'", where, parts[i].key);
    skip_blanks(&at);
    return at.next == at.end ? CLQ_OK : fail_at(&at, "nothing more");
}

/* ---- reading ---- */

/* Finds where the header's text starts and ends. */
static clq_status find_header(const char *path, const unsigned char *in, size_t size, size_t *begin, size_t *end) {
    if (size < PREFIX_V1 || memcmp(in, magic, MAGIC_BYTES) != 0)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: no NPY file: %s", path,
                        size < PREFIX_V1 ? "too short" : "no such magic");
    unsigned major = in[6];
    if (major < 1 || major > 3 || in[7] != 0)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: NPY version %u.%u; 1.0 to 3.0 are read", path, major, in[7]);
    size_t length = (size_t)in[8] | (size_t)in[9] << 8;
    *begin = PREFIX_V1;
    if (major > 1) {
        if (size < PREFIX_V2) return clq_fail(CLQ_ERROR_FORMAT, "%s: truncated NPY: %zu bytes", path, size);
        length |= (size_t)in[10] << 16 | (size_t)in[11] << 24;
        *begin = PREFIX_V2;
    }
    if (length > HEADER_MAX || length > size - *begin)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: truncated NPY: a header of %zu bytes in a file of %zu", path, length,
                        size);
    *end = *begin + length;
    return CLQ_OK;
}

static clq_status parse(const char *path, const unsigned char *in, size_t size, file_header *header, size_t *data_at) {
    size_t begin = 0;
    CLQ_TRY(find_header(path, in, size, &begin, data_at));
    return parse_dictionary((const char *)in + begin, *data_at - begin, path, header);
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

/* numpy takes any byte but 0 as true; here, true is always 1. */
static void normalise_bools(clq_array *array) {
    unsigned char *values = array->data;
    for (size_t i = 0; i < array->count; i++) values[i] = values[i] != 0;
}

/* Moves the values to the beginning of the array's data, which are the file's content. If the values are in Fortran
 * order, replaces the data by a new block. */
static clq_status arrange(file_header *header, size_t data_at) {
    clq_array *array = &header->array;
    size_t size = clq_dtype_bytes(array->dtype);
    char *values = (char *)array->data + data_at;
    if (header->fortran_order && array->rank > 1) {
        char *ordered = clq_alloc_aligned(64, array->count * size);
        if (!ordered) return CLQ_ERROR_MEMORY;
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
    file_header header = {0};
    size_t size, data_at = 0;
    CLQ_TRY(clq_file_read(path, CLQ_FORMATS_FILE_MAX, &header.array.data, &size));
    clq_status status = parse(path, header.array.data, size, &header, &data_at);
    if (status == CLQ_OK) status = clq_array_expect(&header.array, size - data_at, path, "NPY");
    if (status == CLQ_OK) status = arrange(&header, data_at);
    if (status == CLQ_OK)
        *out = header.array;
    else
        clq_array_release(&header.array);
    return status;
}

clq_status clq_npy_look(const char *path, clq_array *out) {
    file_header header = {0};
    void *data;
    size_t size, data_at;
    CLQ_TRY(clq_gz_peek(path, PREFIX_V2 + HEADER_MAX, &data, &size));
    const clq_status status = parse(path, data, size, &header, &data_at);
    clq_free(data);
    if (status == CLQ_OK) *out = header.array;
    return status;
}

/* ---- writing ---- */

static const char *type_name(clq_dtype dtype) {
    for (size_t i = 0; i < CLQ_COUNT_OF(types); i++)
        if (types[i].dtype == dtype) return types[i].name;
    return NULL;
}

/* Composes the prefix, the dictionary, blanks up to the alignment, and a newline. */
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
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: NPY has no type for %s", path, clq_dtype_name(array->dtype));
    clq_text header = {0};
    clq_file_writer *writer;
    compose_header(array, &header);
    clq_status status = header.failed ? CLQ_ERROR_MEMORY : clq_file_writer_open(path, &writer);
    if (status == CLQ_OK) {
        clq_file_writer_put(writer, header.data, header.length);
        clq_file_writer_put(writer, array->data, array->count * clq_dtype_bytes(array->dtype));
        status = clq_file_writer_commit(writer); /* fails if a put failed */
    }
    clq_free(header.data);
    return status;
}
