/* The cache has one file per entry. A driver is only given what is exactly as it was written, whole and for this key:
 * some drivers end the process over anything else. */
#include "device/internal.h"

#include <stdio.h>
#include <string.h>

enum { ENTRY_MAX = 1 << 28 };

typedef struct entry_header {
    char magic[8];
    uint64_t key_low, key_high;
    uint64_t bytes; /* of the payload, which follows */
    uint64_t check_low, check_high;
} entry_header;
_Static_assert(sizeof(entry_header) == 48, "the header is written as it lies in memory");

static const char magic[8] = {'C', 'L', 'Q', 'P', 'R', 'O', 'G', '1'};

static char *entry_path(const char *cache_dir, const char *folder, clq_hash128 key) {
    return clq_strprintf("%s/%s/%016llx%016llx.bin", cache_dir, folder, (unsigned long long)key.high,
                         (unsigned long long)key.low);
}

static entry_header header_of(clq_hash128 key, const void *data, size_t bytes) {
    clq_hash128 check = clq_hash128_of(data, bytes, 0);
    entry_header header = {
        .key_low = key.low, .key_high = key.high, .bytes = bytes, .check_low = check.low, .check_high = check.high};
    memcpy(header.magic, magic, sizeof magic);
    return header;
}

static bool entry_is_good(clq_hash128 key, const unsigned char *entry, size_t bytes) {
    if (bytes <= sizeof(entry_header)) return false;
    entry_header wanted = header_of(key, entry + sizeof wanted, bytes - sizeof wanted);
    return memcmp(entry, &wanted, sizeof wanted) == 0;
}

clq_status clq_cache_load(const char *cache_dir, const char *folder, clq_hash128 key, void **out, size_t *bytes) {
    *out = NULL;
    char *path = entry_path(cache_dir, folder, key);
    if (!path) return CLQ_ERROR_MEMORY;
    void *entry = NULL;
    size_t length = 0;
    clq_status status = clq_file_exists(path) ? clq_file_read(path, ENTRY_MAX, &entry, &length) : CLQ_ERROR_NOT_FOUND;
    bool good = status == CLQ_OK && entry_is_good(key, entry, length);
    if (status != CLQ_ERROR_MEMORY && status != CLQ_ERROR_NOT_FOUND && !good)
        clq_log(CLQ_LOG_WARNING, "%s is damaged and made anew", path);
    clq_free(path);
    if (good) {
        *bytes = length - sizeof(entry_header);
        memmove(entry, (char *)entry + sizeof(entry_header), *bytes);
        *out = entry;
        return CLQ_OK;
    }
    clq_free(entry);
    return status == CLQ_ERROR_MEMORY ? status : CLQ_OK;
}

clq_status clq_cache_store(const char *cache_dir, const char *folder, clq_hash128 key, const void *data, size_t bytes) {
    entry_header header = header_of(key, data, bytes);
    char *whole_folder = clq_strprintf("%s/%s", cache_dir, folder);
    char *path = entry_path(cache_dir, folder, key);
    clq_file_writer *writer = NULL;
    clq_status status = whole_folder && path ? clq_make_folder(whole_folder) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) status = clq_file_writer_open(path, &writer);
    if (status == CLQ_OK) status = clq_file_writer_put(writer, &header, sizeof header);
    if (status == CLQ_OK) status = clq_file_writer_put(writer, data, bytes);
    if (status == CLQ_OK)
        status = clq_file_writer_commit(writer);
    else
        clq_file_writer_cancel(writer);
    clq_free(path);
    clq_free(whole_folder);
    return status;
}

clq_status clq_cache_key(clq_text *text, clq_hash128 *out) {
    if (!text->failed) *out = clq_hash128_of(text->data, text->length, 0);
    clq_free(text->data);
    return text->failed ? CLQ_ERROR_MEMORY : CLQ_OK;
}

void clq_cache_drop(const char *cache_dir, const char *folder, clq_hash128 key) {
    char *path = entry_path(cache_dir, folder, key);
    if (path) (void)remove(path); /* an entry that cannot be removed cannot be written either: the cache is read-only */
    clq_free(path);
}

bool clq_cache_has(const char *cache_dir, const char *folder, clq_hash128 key) {
    void *data = NULL;
    size_t bytes = 0;
    bool has = clq_cache_load(cache_dir, folder, key, &data, &bytes) == CLQ_OK && data;
    clq_free(data);
    return has;
}
