#include "formats/npy.h"

#include <string.h>

typedef struct cursor {
    const char *start, *next, *end;
    const char *where;
} cursor;

static clq_status fail_at(const cursor *at, const char *expected) {
    return clq_fail(CLQ_FORMAT, "%s: NPY header, character %td: expected %s", at->where, at->next - at->start,
                    expected);
}

static void skip_blanks(cursor *at) {
    while (at->next < at->end && (*at->next == ' ' || *at->next == '\n' || *at->next == '\t')) at->next++;
}

/* Takes `c`, with the blanks before it, where it comes next. */
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

/* A string in either quotes without escapes: keys and type names have none. */
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

static clq_status parse_descr(cursor *at, clq_npy_header *header) {
    static const struct {
        const char *name;
        clq_dtype dtype;
    } types[] = {{"f4", CLQ_F32}, {"f8", CLQ_F64}, {"f2", CLQ_F16}, {"i1", CLQ_I8},  {"i2", CLQ_I16}, {"i4", CLQ_I32},
                 {"i8", CLQ_I64}, {"u1", CLQ_U8},  {"u2", CLQ_U16}, {"u4", CLQ_U32}, {"u8", CLQ_U64}, {"b1", CLQ_BOOL}};
    skip_blanks(at);
    if (at->next < at->end && *at->next == '[')
        return clq_fail(CLQ_UNSUPPORTED, "%s: NPY with structured records; only plain numbers are read", at->where);
    char descr[16] = "";
    CLQ_TRY(take_string(at, descr, sizeof(descr)));
    if (!descr[0] || !strchr("<>|=", descr[0]))
        return clq_fail(CLQ_FORMAT, "%s: NPY of type '%s', which tells no byte order", at->where, descr);
    for (size_t i = 0; i < CLQ_COUNT_OF(types); i++) {
        if (strcmp(types[i].name, descr + 1) != 0) continue;
        char foreign = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '>' : '<';
        header->dtype = types[i].dtype;
        header->swapped = descr[0] == foreign;
        return CLQ_OK;
    }
    return clq_fail(CLQ_UNSUPPORTED, "%s: NPY of type '%s'; integers, floats of 16 to 64 bits and bool are read",
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
    if (at->next < at->end && *at->next == 'L') at->next++; /* Python 2 wrote long integers so */
    *out = value;
    return CLQ_OK;
}

/* (), (3,), (3, 4) or (3, 4,) */
static clq_status parse_shape(cursor *at, clq_npy_header *header) {
    if (!take(at, '(')) return fail_at(at, "'(' of the shape");
    while (!take(at, ')')) {
        if (header->rank == CLQ_ARRAY_DIMS_MAX)
            return clq_fail(CLQ_UNSUPPORTED, "%s: NPY with more than %d dimensions", at->where, CLQ_ARRAY_DIMS_MAX);
        CLQ_TRY(parse_dim(at, &header->dims[header->rank++]));
        if (take(at, ',')) continue;
        if (!take(at, ')')) return fail_at(at, "',' or ')' in the shape");
        if (header->rank == 1) return fail_at(at, "',' after the only dimension");
        break;
    }
    return CLQ_OK;
}

static clq_status parse_order(cursor *at, clq_npy_header *header) {
    if (take_word(at, "True"))
        header->fortran_order = true;
    else if (!take_word(at, "False"))
        return fail_at(at, "True or False");
    return CLQ_OK;
}

clq_status clq_npy_header_parse(const char *text, size_t bytes, const char *where, clq_npy_header *out) {
    static const struct {
        const char *key;
        clq_status (*parse)(cursor *, clq_npy_header *);
    } parts[] = {{"descr", parse_descr}, {"fortran_order", parse_order}, {"shape", parse_shape}};
    cursor at = {.start = text, .next = text, .end = text + bytes, .where = where};
    clq_npy_header header = {0};
    bool seen[CLQ_COUNT_OF(parts)] = {false};
    if (!take(&at, '{')) return fail_at(&at, "'{'");
    while (!take(&at, '}')) {
        char key[16];
        CLQ_TRY(take_string(&at, key, sizeof(key)));
        if (!take(&at, ':')) return fail_at(&at, "':'");
        size_t part = 0;
        while (part < CLQ_COUNT_OF(parts) && strcmp(parts[part].key, key) != 0) part++;
        if (part == CLQ_COUNT_OF(parts) || seen[part])
            return clq_fail(CLQ_FORMAT, "%s: NPY header with %s key '%s'", where,
                            part == CLQ_COUNT_OF(parts) ? "an unknown" : "twice the", key);
        seen[part] = true;
        CLQ_TRY(parts[part].parse(&at, &header));
        if (take(&at, ',')) continue;
        if (!take(&at, '}')) return fail_at(&at, "',' or '}'");
        break;
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(parts); i++)
        if (!seen[i]) return clq_fail(CLQ_FORMAT, "%s: NPY header without '%s'", where, parts[i].key);
    skip_blanks(&at);
    if (at.next != at.end) return fail_at(&at, "nothing more");
    *out = header;
    return CLQ_OK;
}
