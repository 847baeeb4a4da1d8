#include "formats/private.h"

#include <string.h>

#define ZLIB_CONST /* next_in points to const */
#include <zlib.h>

enum { GZIP_ONLY = 16 + 15, ZLIB_CHUNK = 1 << 30, LIKELY_RATIO = 16, WINDOW_BYTES = 1 << 18 };
/* The least bytes of a gzip file: a header of 10, an empty stream of 2, a trailer of 8 (RFC 1952, RFC 1951). */
enum { SHORTEST = 20 };

/* The compressed file. Only a window of it is in memory, because the inflated content is in memory, too. */
typedef struct input {
    clq_file file;
    unsigned char *window; /* (WINDOW_BYTES) */
    size_t first, end;     /* the window holds the file's bytes [first, end) */
    size_t offset;         /* of the next byte to inflate; within the window or at its end */
} input;

/* The content that was inflated so far. */
typedef struct output {
    const char *path;
    char *data;
    size_t bytes, capacity, max_bytes;
    bool peeks; /* true: inflating stops after max_bytes; false: more than max_bytes are an error */
} output;

static bool is_enough(const output *to) { return to->peeks && to->bytes >= to->max_bytes; }

static voidpf inflate_alloc(voidpf context, uInt count, uInt size) {
    (void)context;
    return clq_alloc(count, size);
}

static void inflate_free(voidpf context, voidpf block) {
    (void)context;
    clq_free(block);
}

static clq_status make_room(output *to, size_t capacity) {
    char *grown = clq_alloc_unset(64, capacity); /* not zeroed: the system gives the pages as they are filled */
    if (!grown) return clq_fail_within(CLQ_ERROR_MEMORY, "%s", to->path);
    if (to->bytes) memcpy(grown, to->data, to->bytes);
    clq_free(to->data);
    to->data = grown;
    to->capacity = capacity;
    return CLQ_OK;
}

/* Makes sure that the window holds at least `wanted` bytes from the offset on, or all that are left of the file. */
static clq_status look_ahead(input *in, size_t wanted) {
    if (in->end - in->offset >= wanted || in->end == in->file.bytes) return CLQ_OK;
    size_t bytes = CLQ_MIN(in->file.bytes - in->offset, (size_t)WINDOW_BYTES);
    CLQ_TRY(clq_file_get(&in->file, in->offset, in->window, bytes));
    in->first = in->offset;
    in->end = in->first + bytes;
    return CLQ_OK;
}

static const unsigned char *next_byte(const input *in) { return in->window + (in->offset - in->first); }

/* Guesses the inflated size. The last 4 bytes of a gzip file give the last member's inflated size, modulo 2^32. This is
 * usually the complete size, but it may be wrong or a lie. So the guess is at most LIKELY_RATIO times the file's
 * size. */
static clq_status first_guess(const input *in, size_t max_bytes, size_t *out) {
    unsigned char last[4];
    CLQ_TRY(clq_file_get(&in->file, in->file.bytes - sizeof last, last, sizeof last));
    size_t told = (size_t)last[0] | (size_t)last[1] << 8 | (size_t)last[2] << 16 | (size_t)last[3] << 24;
    *out = CLQ_MIN(CLQ_MIN(told, max_bytes), in->file.bytes * LIKELY_RATIO) + 1;
    return CLQ_OK;
}

static clq_status fail_stream(const output *to, const z_stream *stream, size_t offset, int result) {
    if (result == Z_MEM_ERROR) return clq_fail_within(CLQ_ERROR_MEMORY, "%s", to->path);
    if (result == Z_BUF_ERROR)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: truncated gzip: ends at offset %zu inside a compressed stream", to->path,
                        offset);
    return clq_fail(CLQ_ERROR_FORMAT, "%s: damaged gzip at offset %zu: %s", to->path, offset,
                    stream->msg ? stream->msg : "no reason known");
}

static clq_status grow(output *to) {
    if (to->bytes > to->max_bytes)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: inflates to more than the %zu bytes that are read here", to->path,
                        to->max_bytes);
    if (to->bytes < to->capacity) return CLQ_OK;
    size_t most = to->max_bytes + 1; /* a byte more than is allowed shows that the content is too long */
    return make_room(to, to->capacity > most / 2 ? most : to->capacity * 2);
}

/* Inflates one member, which starts at the input's offset, and moves the offset behind it. */
static clq_status inflate_member(z_stream *stream, input *in, output *to) {
    while (!is_enough(to)) {
        CLQ_TRY(grow(to));
        CLQ_TRY(look_ahead(in, 1));
        uInt room = (uInt)CLQ_MIN(to->capacity - to->bytes, (size_t)ZLIB_CHUNK);
        uInt given = (uInt)(in->end - in->offset);
        stream->next_in = next_byte(in);
        stream->avail_in = given;
        stream->next_out = (Bytef *)to->data + to->bytes;
        stream->avail_out = room;
        int result = inflate(stream, Z_NO_FLUSH);
        in->offset += given - stream->avail_in;
        to->bytes += room - stream->avail_out;
        if (result == Z_STREAM_END) return CLQ_OK;
        if (result != Z_OK) return fail_stream(to, stream, in->offset, result);
    }
    return CLQ_OK;
}

static bool is_gzip(const unsigned char *in, size_t size) { return size >= 2 && in[0] == 0x1f && in[1] == 0x8b; }

static clq_status inflate_all(z_stream *stream, input *in, output *to) {
    while (in->offset < in->file.bytes && !is_enough(to)) {
        CLQ_TRY(look_ahead(in, 2));
        if (!is_gzip(next_byte(in), in->end - in->offset))
            return clq_fail(CLQ_ERROR_FORMAT, "%s: trailing bytes after the gzip stream, at offset %zu", to->path,
                            in->offset);
        if (inflateReset(stream) != Z_OK) return clq_fail(CLQ_ERROR_SYSTEM, "%s: zlib cannot start", to->path);
        CLQ_TRY(inflate_member(stream, in, to));
    }
    return to->bytes <= to->max_bytes || to->peeks ? CLQ_OK : grow(to);
}

static clq_status inflate_into(input *in, output *to) {
    size_t guess;
    CLQ_TRY(first_guess(in, to->max_bytes, &guess));
    CLQ_TRY(make_room(to, guess));
    z_stream stream = {.zalloc = inflate_alloc, .zfree = inflate_free};
    int result = inflateInit2(&stream, GZIP_ONLY);
    if (result != Z_OK) return fail_stream(to, &stream, 0, result);
    clq_status status = inflate_all(&stream, in, to);
    inflateEnd(&stream);
    return status;
}

static clq_status inflate_file(const clq_file *file, size_t max_bytes, bool peeks, void **out, size_t *bytes) {
    if (file->bytes < SHORTEST)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: truncated gzip: only %zu byte%s", file->path, file->bytes,
                        clq_plural(file->bytes));
    input in = {.file = *file, .window = clq_alloc(WINDOW_BYTES, 1)};
    if (!in.window) return clq_fail_within(CLQ_ERROR_MEMORY, "%s", file->path);
    output to = {.path = file->path, .max_bytes = max_bytes, .peeks = peeks};
    clq_status status = inflate_into(&in, &to);
    clq_free(in.window);
    if (status != CLQ_OK) {
        clq_free(to.data);
        return status;
    }
    *out = to.data;
    *bytes = peeks ? CLQ_MIN(to.bytes, max_bytes) : to.bytes;
    return CLQ_OK;
}

static clq_status get_first(const clq_file *file, size_t max_bytes, void **out, size_t *bytes) {
    *bytes = CLQ_MIN(file->bytes, max_bytes);
    *out = clq_alloc_aligned(64, CLQ_MAX(*bytes, (size_t)1));
    if (!*out) return CLQ_ERROR_MEMORY;
    const clq_status status = clq_file_get(file, 0, *out, *bytes);
    if (status != CLQ_OK) clq_free(*out);
    return status;
}

static clq_status read_either(const clq_file *file, size_t max_bytes, bool peeks, void **out, size_t *bytes) {
    unsigned char magic[2] = {0};
    size_t looked = CLQ_MIN(file->bytes, sizeof magic);
    CLQ_TRY(clq_file_get(file, 0, magic, looked));
    if (is_gzip(magic, looked)) return inflate_file(file, max_bytes, peeks, out, bytes);
    if (peeks) return get_first(file, max_bytes, out, bytes);
    if (file->bytes > max_bytes)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: %zu bytes; the most that is read here is %zu", file->path, file->bytes,
                        max_bytes);
    return clq_file_get_all(file, out, bytes);
}

clq_status clq_gz_read(const char *path, size_t max_bytes, void **out, size_t *bytes) {
    max_bytes = CLQ_MIN(max_bytes, (size_t)PTRDIFF_MAX / 2);
    size_t slack = max_bytes / 64 + 4096; /* data that gzip cannot compress become a little longer */
    clq_file file;
    CLQ_TRY(clq_file_open(path, max_bytes + slack, &file));
    clq_status status = read_either(&file, max_bytes, false, out, bytes);
    clq_file_close(&file);
    return status;
}

clq_status clq_gz_peek(const char *path, size_t max_bytes, void **out, size_t *bytes) {
    clq_file file;
    CLQ_TRY(clq_file_open(path, PTRDIFF_MAX / 2, &file));
    clq_status status = read_either(&file, max_bytes, true, out, bytes);
    clq_file_close(&file);
    return status;
}
