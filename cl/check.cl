/* Checks of memory contents (src/ops/training/check.c). */

/* hashes[b] = a hash of the 512 bytes of block b, the same on every device. Its two halves are made in the same way,
 * with different steps: four chains take every fourth word each, and a last chain takes the results of the four. Each
 * step is a bijection of the sum so far, and of the word. So one word that differs always shows, and several almost
 * always. */
#define BLOCK_WORDS 128
#define MIX(sum, word) (((sum) ^ (word)) * 0x9e3779b1u)
#define MIX_MORE(sum, word) (((sum) + (word)) * 0x85ebca6bu)
KERNEL void block_hashes(global const uint4 *words, int blocks, global uint2 *hashes) {
    FOR_MY (b, blocks) {
        global const uint4 *at = words + b * (BLOCK_WORDS / 4);
        uint4 low = (uint4)(1, 2, 3, 4), high = (uint4)(5, 6, 7, 8);
        for (int i = 0; i < BLOCK_WORDS / 4; i++) {
            uint4 word = at[i];
            low = MIX(low, word);
            low ^= low >> 15;
            high = MIX_MORE(high, word);
            high ^= high >> 13;
        }
        uint2 hash = (uint2)(low.x, high.x);
        hash.x = MIX(hash.x ^ hash.x >> 15, low.y);
        hash.x = MIX(hash.x ^ hash.x >> 15, low.z);
        hash.x = MIX(hash.x ^ hash.x >> 15, low.w);
        hash.y = MIX_MORE(hash.y ^ hash.y >> 13, high.y);
        hash.y = MIX_MORE(hash.y ^ hash.y >> 13, high.z);
        hash.y = MIX_MORE(hash.y ^ hash.y >> 13, high.w);
        hashes[b] = hash;
    }
}

/* If x has a number that is NaN or infinite, *first = the smaller of *first and `place`. x has `fixed` numbers, and
 * `of_sample` more for each of `count` samples. X: the storage of x. */
#ifndef X
#define X 0
#endif
KERNEL void not_finite(global const STORED(X) * x, int fixed, int of_sample, int count, int place,
                       volatile global int *first) {
    size_t n = (size_t)fixed + (size_t)of_sample * (size_t)count;
    int found = 0;
    FOR_MY (i, n) found |= (as_uint(READ(X, x + i)) & 0x7f800000u) == 0x7f800000u;
    if (found) atomic_min(first, place);
}
