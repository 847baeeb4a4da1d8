#include "support/files.h"
#include "support/formats_seeds.h"

static void good_files_are_good(void **state) {
    (void)state;
    const seed *seeds;
    size_t count = seeds_make(&seeds);
    bool seen[SEED_KINDS] = {false};
    for (size_t i = 0; i < count; i++) {
        const char *path = files_put("good", seeds[i].data, seeds[i].bytes);
        for (seed_kind kind = 0; kind < SEED_KINDS; kind++)
            if (seeds_read(kind, path) != (kind == seeds[i].kind))
                fail_msg("\"%s\" read as kind %d: %s", seeds[i].name, (int)kind, clq_error_detail());
        seen[seeds[i].kind] = true;
    }
    for (int kind = 0; kind < SEED_KINDS; kind++) assert_true(seen[kind]);
}

/* A file that was cut anywhere is refused by the reader of its kind and by all others. So is a file with one byte too
 * many. CIFAR-10's files do not state a length, so a whole number of records is good. */
static void cut_files_are_refused(void **state) {
    (void)state;
    const seed *seeds;
    size_t count = seeds_make(&seeds);
    for (size_t i = 0; i < count; i++) {
        size_t step = seeds[i].kind == SEED_CIFAR ? 439 : 1;
        for (size_t bytes = 0; bytes < seeds[i].bytes; bytes += step) {
            const char *path = files_put("cut", seeds[i].data, bytes);
            for (seed_kind kind = 0; kind < SEED_KINDS; kind++)
                if (seeds_read(kind, path) != (kind == SEED_CIFAR && bytes == 3073))
                    fail_msg("\"%s\" cut to %d bytes is taken as kind %d", seeds[i].name, (int)bytes, (int)kind);
        }
        unsigned char longer[SEED_BYTES_MAX + 1] = {0};
        memcpy(longer, seeds[i].data, seeds[i].bytes);
        if (seeds_read(seeds[i].kind, files_put("longer", longer, seeds[i].bytes + 1)))
            fail_msg("\"%s\" with a byte too many is taken", seeds[i].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(good_files_are_good), cmocka_unit_test(cut_files_are_refused)};
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
