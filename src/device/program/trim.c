/* Gives back memory pages of code that drivers read while they were loaded. A CPU driver's compiler is a library of 50
 * to 130 MB, and its start touches half of it. If all programs come from the cache, none of that is used again. */
#include "device/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef struct mapping {
    uintptr_t begin, end;
    bool from_file; /* private, of a file, and read-only */
} mapping;

/* Whether the line of /proc/self/smaps begins a mapping. */
static bool read_mapping(const char *line, mapping *out) {
    char rights[5];
    uintmax_t offset, inode;
    uintptr_t begin, end;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %jx %*s %ju", &begin, &end, rights, &offset, &inode) != 5)
        return false;
    *out = (mapping){begin, end, inode != 0 && rights[1] == '-' && rights[3] == 'p'};
    return true;
}

/* Gives back only mappings that are exactly as they are in their file, since they can be read from there again.
 * Mappings to which the linker wrote before it made them read-only are left alone. */
void clq_trim_code(void) {
#if defined(__linux__)
    FILE *file = fopen("/proc/self/smaps", "re");
    if (!file) return;
    char line[512];
    mapping at = {0};
    unsigned long kib;
    while (fgets(line, sizeof line, file)) {
        if (read_mapping(line, &at)) continue;
        if (sscanf(line, "Anonymous: %lu", &kib) != 1 || !at.from_file || kib > 0) continue;
        (void)madvise((void *)at.begin, at.end - at.begin, MADV_DONTNEED);
    }
    fclose(file);
#endif
}
