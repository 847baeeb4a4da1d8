/* What PoCL (1.8 to 7.1 at least) gives as a program's binary: a header, the program's intermediate code, and for each
 * kernel its metadata and the shared libraries that it was compiled to. All but the metadata are files of PoCL's cache,
 * which PoCL reads when it is asked for the binary. If files of that folder were lost or damaged meanwhile, so is the
 * binary. A binary without intermediate code ends the process that loads it. A binary with a broken library ends the
 * process that launches the kernel. */
#include "device/internal.h"

#include <string.h>

enum { HASH_BYTES = 41, HAS_SCOPE_VARIABLES = 2 /* of the header's flags */ };

typedef struct reader {
    const unsigned char *at, *end;
    bool failed;
} reader;

/* Numbers are little-endian in the file, whatever the machine. */
static uint64_t read_number(reader *r, unsigned bytes) {
    uint64_t value = 0;
    if ((size_t)(r->end - r->at) < bytes) {
        r->failed = true;
        return 0;
    }
    for (unsigned i = bytes; i > 0; i--) value = value << 8 | r->at[i - 1];
    r->at += bytes;
    return value;
}

/* A reader of the next `bytes` bytes alone. */
static reader read_part(reader *r, uint64_t bytes) {
    reader part = {.at = r->at, .end = r->at, .failed = bytes > (size_t)(r->end - r->at)};
    r->failed = r->failed || part.failed;
    if (r->failed) return part;
    r->at += bytes;
    part.end = r->at;
    return part;
}

/* LLVM's bitcode is a row of blocks. The first word of a block says that it is one, and the second is its length in
 * words of 32 bits. */
static bool bitcode_is_whole(reader file) {
    enum { MAGIC = 0xdec04342u, ENTER_BLOCK = 1, KIND_BITS = 3 };
    if (read_number(&file, 4) != MAGIC) return false;
    size_t blocks = 0;
    for (; file.at < file.end && !file.failed; blocks++) {
        if ((read_number(&file, 4) & KIND_BITS) != ENTER_BLOCK) return false;
        uint64_t words = read_number(&file, 4);
        (void)read_part(&file, words * 4);
    }
    return blocks > 0 && !file.failed;
}

/* An ELF file of 64 bits ends with its table of sections, so the table must lie within the file. Other ELF files are
 * not checked. */
static bool library_is_whole(reader file) {
    enum { MAGIC = 0x464c457f, CLASS_64 = 2, SECTIONS_AT = 40, ENTRY_BYTES_AT = 58 };
    reader header = file, layout = file;
    uint64_t all = (uint64_t)(file.end - file.at);
    if (read_number(&header, 4) != MAGIC) return false;
    if (read_number(&header, 1) != CLASS_64) return true;
    (void)read_part(&layout, SECTIONS_AT);
    uint64_t sections_at = read_number(&layout, 8);
    (void)read_part(&layout, ENTRY_BYTES_AT - SECTIONS_AT - 8);
    uint64_t entry_bytes = read_number(&layout, 2), entries = read_number(&layout, 2);
    return !layout.failed && sections_at <= all && entry_bytes * entries <= all - sections_at;
}

static bool ends_with(reader text, const char *end) {
    size_t length = strlen(end);
    return (size_t)(text.end - text.at) >= length && memcmp(text.end - length, end, length) == 0;
}

/* A file is its name and its content, each behind its length. */
static bool file_is_whole(reader *files) {
    reader name = read_part(files, read_number(files, 4));
    reader content = read_part(files, read_number(files, 4));
    if (files->failed || content.at == content.end) return false;
    if (ends_with(name, "/program.bc") && !bitcode_is_whole(content)) return false;
    return !ends_with(name, ".so") || library_is_whole(content);
}

/* There must be at least one file. */
static bool files_are_whole(reader files) {
    if (files.at == files.end) return false;
    while (files.at < files.end)
        if (!file_is_whole(&files)) return false;
    return true;
}

/* A kernel begins with three lengths: of all of it, of its files, and of its arguments' description. Its files come
 * last. */
static bool kernel_is_whole(reader *r) {
    reader start = *r;
    uint64_t all = read_number(&start, 8), files = read_number(&start, 8);
    reader kernel = read_part(r, all);
    if (r->failed || start.failed || files > all) return false;
    (void)read_part(&kernel, all - files);
    return files_are_whole(kernel);
}

bool clq_pocl_binary_is_whole(const void *binary, size_t bytes) {
    enum { ONE_FILE = 8 /* in front of the kernels, in place of folders */, FIRST_VERSION = 9, LAST_VERSION = 11 };
    static const char magic[8] = "poclbin";
    reader r = {.at = binary, .end = (const unsigned char *)binary + bytes};
    if (bytes < sizeof magic || memcmp(binary, magic, sizeof magic) != 0) return true;
    (void)read_part(&r, sizeof magic + 8 /* the device */);
    uint64_t version = read_number(&r, 4), kernels = read_number(&r, 4), flags = read_number(&r, 8);
    uint64_t folders = version == ONE_FILE ? 0 : read_number(&r, 4);
    if (r.failed) return false;
    if (version < ONE_FILE || version > LAST_VERSION) return true; /* a form that is not known */
    (void)read_part(&r, HASH_BYTES);
    if (version > FIRST_VERSION && (flags & HAS_SCOPE_VARIABLES)) (void)read_number(&r, 8);
    if (kernels == 0 || (version == ONE_FILE ? !file_is_whole(&r) : folders == 0)) return false;
    for (; folders > 0; folders--) {
        reader files = read_part(&r, read_number(&r, 8));
        if (r.failed || !files_are_whole(files)) return false;
    }
    for (; kernels > 0; kernels--)
        if (!kernel_is_whole(&r)) return false;
    return !r.failed && r.at == r.end;
}
