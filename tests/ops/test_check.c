/* Checks of what is in memory: hashes of blocks, numbers that are not finite. */
#include "support/ops_rig.h"

#include <math.h>

enum { WORDS = CLQ_UPDATE_BLOCK, BLOCKS_MOST = 900 };

/* The hash as the comment of cl/check.cl describes it, a word at a time. */
static uint32_t mix(uint32_t sum, uint32_t word) { return (sum ^ word) * 0x9e3779b1u; }
static uint32_t mix_more(uint32_t sum, uint32_t word) { return (sum + word) * 0x85ebca6bu; }

static uint64_t hash_of(const uint32_t *words) {
    uint32_t low[4] = {1, 2, 3, 4}, high[4] = {5, 6, 7, 8};
    for (int i = 0; i < WORDS; i++) {
        low[i % 4] = mix(low[i % 4], words[i]);
        low[i % 4] ^= low[i % 4] >> 15;
        high[i % 4] = mix_more(high[i % 4], words[i]);
        high[i % 4] ^= high[i % 4] >> 13;
    }
    uint32_t all = low[0], more = high[0];
    for (int k = 1; k < 4; k++) {
        all = mix(all ^ all >> 15, low[k]);
        more = mix_more(more ^ more >> 13, high[k]);
    }
    return (uint64_t)more << 32 | all;
}

static void check(rig *r, size_t blocks) {
    static uint32_t words[BLOCKS_MOST * WORDS];
    static uint64_t got[BLOCKS_MOST];
    clq_random random = clq_random_start(7, blocks);
    for (size_t i = 0; i < blocks * WORDS; i++) words[i] = clq_random_u32(&random);
    rig_begin(r, 1);
    const clq_value x = rig_value(r, "x", blocks * WORDS * sizeof *words, 0),
                    hashes = rig_value(r, "hashes", blocks * sizeof *got, 0);
    clq_block_hashes(r->list, blocks, x, hashes);
    rig_bind(r);
    rig_fill(r, x, words, blocks * WORDS * sizeof *words);
    rig_run(r, 1);
    rig_read(r, hashes, got, blocks * sizeof *got);
    rig_check_untouched(r, hashes, blocks * sizeof *got);
    rig_end(r);
    for (size_t b = 0; b < blocks; b++)
        if (got[b] != hash_of(words + b * WORDS)) fail_msg("%s: block %zu of %zu", r->name, b, blocks);
}

static void check_all(rig *r) {
    static const size_t blocks[] = {1, 2, 67, BLOCKS_MOST};
    for (size_t i = 0; i < CLQ_COUNT_OF(blocks); i++)
        if (rig_affords(r, blocks[i] * WORDS)) check(r, blocks[i]);
}

static void hashes_of_blocks(void **state) {
    (void)state;
    rig_each(check_all);
}

/* A change of any bit of a block, or of any two signs, changes the hash. */
static void what_differs_shows(void **state) {
    (void)state;
    uint32_t words[WORDS];
    clq_random random = clq_random_start(8, 0);
    for (size_t i = 0; i < WORDS; i++) words[i] = clq_random_u32(&random);
    const uint64_t hash = hash_of(words);
    for (size_t bit = 0; bit < 32 * WORDS; bit++) {
        words[bit / 32] ^= 1u << bit % 32;
        assert_true(hash_of(words) != hash);
        words[bit / 32] ^= 1u << bit % 32;
    }
    for (size_t i = 0; i < WORDS; i++)
        for (size_t k = 0; k < i; k++) {
            words[i] ^= 0x80000000u, words[k] ^= 0x80000000u;
            assert_true(hash_of(words) != hash);
            words[i] ^= 0x80000000u, words[k] ^= 0x80000000u;
        }
}

/* ---- numbers that are not finite ---- */

enum { ELEMENTS = 37, SAMPLES_MOST = 50, NONE = 1000 };

/* x has the largest number, the smallest, and a number that is not finite at `at`. This number counts if it lies in the
 * first `count` samples. Two checks, with the numbers 7 and 5, find it: the smaller number stays. */
static void check_numbers(rig *r, bool per_sample, uint32_t count, size_t at, float spoilt) {
    static float x[SAMPLES_MOST * ELEMENTS];
    const size_t all = per_sample ? SAMPLES_MOST * ELEMENTS : ELEMENTS, seen = per_sample ? count * ELEMENTS : ELEMENTS;
    const int32_t none = NONE, wanted = at < seen ? 5 : NONE;
    int32_t got;
    for (size_t i = 0; i < all; i++) x[i] = i % 3 == 0 ? 3.4028234e38f : i % 3 == 1 ? -1e-45f : 0.0f;
    if (at < all) x[at] = spoilt;
    rig_begin(r, SAMPLES_MOST);
    const clq_value vx = rig_value(r, "x", per_sample ? 0 : all * sizeof *x, per_sample ? ELEMENTS * sizeof *x : 0),
                    first = rig_value(r, "first", sizeof none, 0);
    clq_find_not_finite(r->list, ELEMENTS, per_sample, 7, vx, first);
    clq_find_not_finite(r->list, ELEMENTS, per_sample, 5, vx, first);
    rig_bind(r);
    rig_fill(r, vx, x, all * sizeof *x);
    rig_fill(r, first, &none, sizeof none);
    rig_run(r, count);
    rig_read(r, first, &got, sizeof got);
    rig_end(r);
    if (got != wanted) fail_msg("%s: %d at %zu of %u samples", r->name, (int)got, at, (unsigned)count);
}

static void check_all_numbers(rig *r) {
    static const size_t places[] = {0, ELEMENTS - 1, ELEMENTS, 3 * ELEMENTS - 1, 3 * ELEMENTS, SAMPLES_MOST * ELEMENTS};
    static const float spoilt[] = {(float)NAN, (float)INFINITY, (float)-INFINITY};
    for (size_t i = 0; i < CLQ_COUNT_OF(places); i++) {
        check_numbers(r, true, 3, places[i], spoilt[i % 3]);
        if (rig_is_simulated(r)) continue;
        check_numbers(r, true, SAMPLES_MOST, places[i], spoilt[i % 3]);
        check_numbers(r, true, 0, places[i], spoilt[i % 3]);
        if (places[i] < ELEMENTS) check_numbers(r, false, 3, places[i], spoilt[i % 3]);
    }
}

static void numbers_that_are_not_finite(void **state) {
    (void)state;
    rig_each(check_all_numbers);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(hashes_of_blocks), cmocka_unit_test(what_differs_shows),
                                       cmocka_unit_test(numbers_that_are_not_finite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
