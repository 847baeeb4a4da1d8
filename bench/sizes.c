/* The sizes of a sweep. */
#include "bench.h"

#include <string.h>

static const uint64_t most = (uint64_t)1 << 40;

static bool parse_bytes(const char *text, uint64_t *out) {
    static const char units[] = "KMG";
    char digits[32];
    size_t length = strlen(text);
    const char *unit = length ? strchr(units, text[length - 1] & ~0x20) : NULL;
    uint64_t scale = unit && *unit ? (uint64_t)1 << (10 * (unit - units + 1)) : 1, count;
    length -= scale > 1;
    if (length == 0 || length >= sizeof digits) return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (!clq_parse_u64(digits, 0, most / scale, &count)) return false;
    *out = count * scale;
    return true;
}

clq_status clq_bench_sizes_set(clq_bench_sizes *sizes, const clq_argument *option, const char *text) {
    if (option->key == 'f') {
        sizes->step = 0;
        if (clq_parse_u64(text, 2, 1 << 20, &sizes->factor)) return CLQ_OK;
        return clq_fail(CLQ_ERROR_ARGUMENT, "-f '%s': expected a whole number of at least 2", text);
    }
    uint64_t *target = option->key == 'b' ? &sizes->min : option->key == 'e' ? &sizes->max : &sizes->step;
    if (parse_bytes(text, target) && (option->key != 'i' || sizes->step > 0)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "-%c '%s': expected a size in bytes, such as 65536, 64K, 16M or 1G",
                    option->key, text);
}

clq_status clq_bench_sizes_check(const clq_bench_sizes *sizes, uint64_t least) {
    if (sizes->min < least)
        return clq_fail(CLQ_ERROR_ARGUMENT, "-b: the smallest size is %llu", (unsigned long long)least);
    if (sizes->max >= sizes->min) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "-e: the largest size, %llu, is below the smallest, %llu (-b)",
                    (unsigned long long)sizes->max, (unsigned long long)sizes->min);
}

bool clq_bench_sizes_next(const clq_bench_sizes *sizes, uint64_t *bytes) {
    uint64_t next = sizes->step ? *bytes + sizes->step : *bytes ? *bytes * sizes->factor : 1;
    if (next > sizes->max) return false;
    *bytes = next;
    return true;
}

size_t clq_bench_sizes_count(const clq_bench_sizes *sizes) {
    if (sizes->step) return (size_t)((sizes->max - sizes->min) / sizes->step) + 1; /* up to 2^40: too many for a loop */
    size_t count = 1;
    for (uint64_t bytes = sizes->min; clq_bench_sizes_next(sizes, &bytes);) count++;
    return count;
}
