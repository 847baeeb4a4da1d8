#include "base/base.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

clq_hash128 clq_hash128_of(const void *data, size_t bytes, uint64_t seed) {
    XXH128_hash_t hash = XXH3_128bits_withSeed(data, bytes, seed);
    return (clq_hash128){.low = hash.low64, .high = hash.high64};
}
