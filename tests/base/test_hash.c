#include "support/check.h"

/* Made with Python's xxhash 4.1: xxh3_128_intdigest of the first n bytes (7 i + 3) mod 256. */
static const struct {
    size_t bytes;
    uint64_t seed, low, high;
} answers[] = {
    {0, 0x0, 0x6001c324468d497f, 0x99aa06d3014798d8},
    {0, 0x9e3779b97f4a7c15, 0x4ca5176998171787, 0xd142977a2cca554b},
    {1, 0x0, 0x13e608bc156defed, 0x22bbb76b211a39ba},
    {1, 0x9e3779b97f4a7c15, 0x1b4c466098160569, 0x8b0bde64ebb5391a},
    {3, 0x0, 0xa9088dda485b481c, 0xce31763cbf8245a5},
    {3, 0x9e3779b97f4a7c15, 0xa8bacd847619199e, 0xa6c5358dff93af85},
    {8, 0x0, 0x3cd024e3d63a1588, 0xe3bc8a5f46171555},
    {8, 0x9e3779b97f4a7c15, 0xde775c059292f841, 0xd63852876fe8a157},
    {16, 0x0, 0x60d75c5e47d40a24, 0xce0b9647ab24f884},
    {16, 0x9e3779b97f4a7c15, 0x525da27d50e50d60, 0x4f914088f379a471},
    {17, 0x0, 0xeeed7654312a26d7, 0xbfd327edcc2fbd12},
    {17, 0x9e3779b97f4a7c15, 0x3445a39302223baf, 0xa61a1ca6a6cba50b},
    {128, 0x0, 0xc580008b6c92ac53, 0x1b1962a096bac78b},
    {128, 0x9e3779b97f4a7c15, 0x11b625103e3f16e8, 0x0e547fad963e783e},
    {129, 0x0, 0xbd91ce7ace4d385b, 0x293e4968c4619023},
    {129, 0x9e3779b97f4a7c15, 0xfb2fdd6e76e6384f, 0xb29aa6b7f2bdb673},
    {240, 0x0, 0x04e0b5f034bee80b, 0xad46c1021b076bc7},
    {240, 0x9e3779b97f4a7c15, 0xecae892a3fac66c3, 0x9bd1b9f5f322c628},
    {241, 0x0, 0x8beadd3a8874fe17, 0xac6c3492c3d6b45d},
    {241, 0x9e3779b97f4a7c15, 0xa0462d397650b282, 0x44bd02453c9c891c},
    {1000, 0x0, 0x6c4f14bd97bd9e82, 0x6bcc7eff62da44c2},
    {1000, 0x9e3779b97f4a7c15, 0x7d4fd63b32d06559, 0xcda1869fa4cea9c0},
    {5000, 0x0, 0x799aaddd7339581d, 0xc98ae385d09887cc},
    {5000, 0x9e3779b97f4a7c15, 0x4eae2d7f035db6bb, 0x97456f98ec4c2df0},
};

static void known_answers(void **state) {
    (void)state;
    unsigned char data[1 + 5000];
    for (int shift = 0; shift < 2; shift++) { /* the alignment of the bytes must not matter */
        for (int i = 0; i < 5000; i++) data[shift + i] = (unsigned char)(7 * i + 3);
        for (size_t i = 0; i < CLQ_COUNT_OF(answers); i++) {
            clq_hash128 hash = clq_hash128_of(data + shift, answers[i].bytes, answers[i].seed);
            assert_true(hash.low == answers[i].low);
            assert_true(hash.high == answers[i].high);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
