#include "support/files.h"
#include "support/formats_seeds.h"

#include <fcntl.h>

enum { TRIALS = 50000 };

/* Numbers that readers trip over: limits of sizes and signs, and bytes that mean something in headers. */
static const uint32_t telling[] = {0,      1,          0x7f,       0x80,       0xff,       0x7fff,     0x8000,
                                   0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x40000000, 0x01000000, 100000001,
                                   '"',    '{',        '}',        '[',        ']',        ',',        ':',
                                   '0',    '9',        '-',        '\\',       ' '};

static size_t below(clq_random *random, size_t bound) { return (size_t)clq_random_below(random, bound); }

static size_t mutate(clq_random *random, unsigned char *data, size_t bytes) {
    size_t at = bytes ? below(random, bytes) : 0, length = bytes ? 1 + below(random, CLQ_MIN(bytes - at, 24)) : 0;
    switch (clq_random_below(random, 7)) {
    case 0: /* a bit */
        if (bytes) data[at] ^= (unsigned char)(1u << clq_random_below(random, 8));
        break;
    case 1: /* a byte */
        if (bytes) data[at] = (unsigned char)telling[below(random, CLQ_COUNT_OF(telling))];
        break;
    case 2: { /* a number in either byte order */
        uint32_t value = telling[below(random, CLQ_COUNT_OF(telling))];
        bool big = clq_random_below(random, 2);
        for (size_t i = 0; i < 4 && at + i < bytes; i++) data[at + i] = (unsigned char)(value >> 8 * (big ? 3 - i : i));
        break;
    }
    case 3: /* the end is missing */ return at;
    case 4: /* some bytes are missing */
        memmove(data + at, data + at + length, bytes - at - length);
        return bytes - length;
    case 5: /* some bytes are there twice */
        if (bytes + length > SEED_BYTES_MAX) break;
        memmove(data + at + length, data + at, bytes - at);
        return bytes + length;
    case 6: /* some bytes lie elsewhere, too */
        if (bytes) memmove(data + below(random, bytes - length + 1), data + at, length);
        break;
    }
    return bytes;
}

/* Damaged files are read or refused. The sanitizers and seeds_read check that nothing else happens. */
static void damaged_files(void **state) {
    (void)state;
    const seed *seeds;
    size_t count = seeds_make(&seeds), taken = 0, refused = 0;
    clq_random random = clq_random_start(20250711, 0);
    unsigned char data[SEED_BYTES_MAX];
    const char *path = files_put("damaged", "", 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    for (unsigned trial = 0; trial < TRIALS; trial++) {
        const seed *from = &seeds[trial % count];
        size_t bytes = from->bytes;
        memcpy(data, from->data, bytes);
        for (uint64_t times = 1 + clq_random_below(&random, 4); times > 0; times--)
            bytes = mutate(&random, data, bytes);
        assert_int_equal(pwrite(fd, data, bytes, 0), bytes);
        assert_int_equal(ftruncate(fd, (off_t)bytes), 0); /* last: some file systems sync what was cut to nothing */
        *(seeds_read(from->kind, path) ? &taken : &refused) += 1;
        seed_kind other = (seed_kind)below(&random, SEED_KINDS);
        if (other != from->kind) seeds_read(other, path);
    }
    close(fd);
    /* Both happen often: the damage is neither always fatal nor without effect. */
    assert_true(taken > TRIALS / 50);
    assert_true(refused > TRIALS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(damaged_files)};
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
