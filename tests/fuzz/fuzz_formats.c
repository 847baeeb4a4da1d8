/* All parsers under libFuzzer. The first byte chooses the reader, the rest is the file; seeds_read aborts where a
 * reader breaks its word. tests/fuzz/run builds and runs it. */
#include "base/base.h"
#include "support/formats_seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t max_bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes, unsigned number);

/* The readers want a path: that of a file in memory, which is written anew each time and gone with the process. */
static const char *file_with(const uint8_t *data, size_t bytes) {
    static char path[32];
    static int fd = -1;
    if (fd < 0) {
        char name[] = "/dev/shm/clique-fuzz-XXXXXX";
        fd = mkstemp(name);
        unlink(name);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || pwrite(fd, data, bytes, 0) != (ssize_t)bytes || ftruncate(fd, (off_t)bytes) != 0) {
        perror("the file in memory");
        exit(1);
    }
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes == 0) return 0;
    seeds_read((seed_kind)(data[0] % SEED_KINDS), file_with(data + 1, bytes - 1));
    return 0;
}

/* Now and then starts again from a good file, so that no corpus need be kept. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes, unsigned number) {
    const seed *seeds;
    size_t count = seeds_make(&seeds);
    const seed *from = &seeds[number / 16 % count];
    if (number % 16 == 0 && from->bytes < max_bytes) {
        data[0] = (uint8_t)from->kind;
        memcpy(data + 1, from->data, from->bytes);
        bytes = from->bytes + 1;
    }
    return LLVMFuzzerMutate(data, bytes, CLQ_MIN(max_bytes, (size_t)FILE_MAX));
}
