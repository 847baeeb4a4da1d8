#include "formats/private.h"

#include <string.h>

#define ZLIB_CONST /* next_in points to const */
#include <zlib.h>

enum { GZIP_ONLY = 16 + 15, ZLIB_CHUNK = 1 << 30, LIKELY_RATIO = 16 };

/* What was inflated so far. */
typedef struct output {
    const char *path;
    char *data;
    size_t bytes, capacity, max_bytes;
} output;

static voidpf inflate_alloc(voidpf context, uInt count, uInt size) {
    (void)context;
    return clq_alloc(count, size);
}

static void inflate_free(voidpf context, voidpf block) {
    (void)context;
    clq_free(block);
}

static clq_status make_room(output *to, size_t capacity) {
    char *grown = clq_alloc_aligned(64, capacity);
    if (!grown) return clq_fail_within(CLQ_MEMORY, "%s", to->path);
    if (to->bytes) memcpy(grown, to->data, to->bytes);
    clq_free(to->data);
    to->data = grown;
    to->capacity = capacity;
    return CLQ_OK;
}

/* The last 4 bytes tell the inflated size of the last member, modulo 2^32: usually all, but it may
 * lie, so it buys no more than a likely ratio. */
static size_t first_guess(const unsigned char *in, size_t size, size_t max_bytes) {
    const unsigned char *last = in + size - 4;
    size_t told = (size_t)last[0] | (size_t)last[1] << 8 | (size_t)last[2] << 16 | (size_t)last[3] << 24;
    return CLQ_MIN(CLQ_MIN(told, max_bytes), size * LIKELY_RATIO) + 1;
}

static clq_status fail_stream(const output *to, const z_stream *stream, size_t offset, int result) {
    if (result == Z_MEM_ERROR) return clq_fail_within(CLQ_MEMORY, "%s", to->path);
    if (result == Z_BUF_ERROR)
        return clq_fail(CLQ_FORMAT, "%s: truncated gzip: ends at offset %zu inside a compressed stream", to->path,
                        offset);
    return clq_fail(CLQ_FORMAT, "%s: damaged gzip at offset %zu: %s", to->path, offset,
                    stream->msg ? stream->msg : "no reason known");
}

static clq_status grow(output *to) {
    if (to->bytes > to->max_bytes)
        return clq_fail(CLQ_FORMAT, "%s: inflates to more than the %zu bytes that are read here", to->path,
                        to->max_bytes);
    if (to->bytes < to->capacity) return CLQ_OK;
    size_t most = to->max_bytes + 1; /* one more than allowed shows that there is more */
    return make_room(to, to->capacity > most / 2 ? most : to->capacity * 2);
}

/* Inflates one member, which starts at in + *offset, and moves *offset behind it. */
static clq_status inflate_member(z_stream *stream, const unsigned char *in, size_t size, size_t *offset, output *to) {
    for (;;) {
        CLQ_TRY(grow(to));
        uInt room = (uInt)CLQ_MIN(to->capacity - to->bytes, (size_t)ZLIB_CHUNK);
        uInt given = (uInt)CLQ_MIN(size - *offset, (size_t)ZLIB_CHUNK);
        stream->next_in = in + *offset;
        stream->avail_in = given;
        stream->next_out = (Bytef *)to->data + to->bytes;
        stream->avail_out = room;
        int result = inflate(stream, Z_NO_FLUSH);
        *offset += given - stream->avail_in;
        to->bytes += room - stream->avail_out;
        if (result == Z_STREAM_END) return CLQ_OK;
        if (result != Z_OK) return fail_stream(to, stream, *offset, result);
    }
}

static bool is_gzip(const unsigned char *in, size_t size) { return size >= 2 && in[0] == 0x1f && in[1] == 0x8b; }

static clq_status inflate_all(z_stream *stream, const unsigned char *in, size_t size, output *to) {
    for (size_t offset = 0; offset < size;) {
        if (!is_gzip(in + offset, size - offset))
            return clq_fail(CLQ_FORMAT, "%s: trailing bytes after the gzip stream, at offset %zu", to->path, offset);
        if (inflateReset(stream) != Z_OK) return clq_fail(CLQ_SYSTEM, "%s: zlib cannot start", to->path);
        CLQ_TRY(inflate_member(stream, in, size, &offset, to));
    }
    return to->bytes <= to->max_bytes ? CLQ_OK : grow(to);
}

static clq_status inflate_file(const char *path, const unsigned char *in, size_t size, size_t max_bytes, void **out,
                               size_t *bytes) {
    if (size < 18) return clq_fail(CLQ_FORMAT, "%s: truncated gzip: only %zu bytes", path, size);
    output to = {.path = path, .max_bytes = max_bytes};
    CLQ_TRY(make_room(&to, first_guess(in, size, max_bytes)));
    z_stream stream = {.zalloc = inflate_alloc, .zfree = inflate_free};
    clq_status status;
    int result = inflateInit2(&stream, GZIP_ONLY);
    if (result == Z_OK) {
        status = inflate_all(&stream, in, size, &to);
        inflateEnd(&stream);
    } else {
        status = fail_stream(&to, &stream, 0, result);
    }
    if (status != CLQ_OK) {
        clq_free(to.data);
        return status;
    }
    *out = to.data;
    *bytes = to.bytes;
    return CLQ_OK;
}

clq_status clq_gz_read(const char *path, size_t max_bytes, void **out, size_t *bytes) {
    max_bytes = CLQ_MIN(max_bytes, (size_t)PTRDIFF_MAX / 2);
    void *data;
    size_t size, slack = max_bytes / 64 + 4096; /* gzip adds a little to what it cannot compress */
    CLQ_TRY(clq_file_read(path, max_bytes + slack, &data, &size));
    if (!is_gzip(data, size)) {
        if (size > max_bytes) {
            clq_free(data);
            return clq_fail(CLQ_FORMAT, "%s: %zu bytes; the most that is read here is %zu", path, size, max_bytes);
        }
        *out = data;
        *bytes = size;
        return CLQ_OK;
    }
    clq_status status = inflate_file(path, data, size, max_bytes, out, bytes);
    clq_free(data);
    return status;
}
