#include "base/base.h"

#include <assert.h>

clq_philox clq_philox4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    clq_philox x = {
        {(uint32_t)counter_low, (uint32_t)(counter_low >> 32), (uint32_t)counter_high, (uint32_t)(counter_high >> 32)}};
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = UINT64_C(0xD2511F53) * x.word[0];
        uint64_t product1 = UINT64_C(0xCD9E8D57) * x.word[2];
        x = (clq_philox){{(uint32_t)(product1 >> 32) ^ x.word[1] ^ key0, (uint32_t)product1,
                          (uint32_t)(product0 >> 32) ^ x.word[3] ^ key1, (uint32_t)product0}};
        key0 += UINT32_C(0x9E3779B9);
        key1 += UINT32_C(0xBB67AE85);
    }
    return x;
}

clq_random clq_random_start(uint64_t seed, uint64_t stream) {
    return (clq_random){.key = seed, .stream = stream, .used = 4};
}

uint32_t clq_random_u32(clq_random *random) {
    if (random->used == 4) {
        random->block = clq_philox4x32(random->key, random->counter++, random->stream);
        random->used = 0;
    }
    return random->block.word[random->used++];
}

static uint64_t next_u64(clq_random *random) {
    uint64_t low = clq_random_u32(random);
    return low | (uint64_t)clq_random_u32(random) << 32;
}

uint64_t clq_random_below(clq_random *random, uint64_t bound) {
    assert(bound >= 1);
    /* Without the lowest 2^64 mod bound values, each remainder has equally many values. */
    uint64_t surplus = (0 - bound) % bound, value;
    do value = next_u64(random);
    while (value < surplus);
    return value % bound;
}

double clq_random_unit(clq_random *random) { return (double)(next_u64(random) >> 11) * 0x1p-53; }
