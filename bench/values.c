#include "values.h"

#include <math.h>
#include <string.h>

int64_t clq_bench_value_in(unsigned rank, size_t i) {
    static const int8_t pattern[] = {1, -1, 2, 1, 1, -1, 3, 1, -1, 1, 1};
    return pattern[(i * 7 + rank * 5 + i / 64) % CLQ_COUNT_OF(pattern)];
}

/* Encodes a float with these numbers of exponent and mantissa bits, rounded to the nearest. For zero and for values
 * that are normal numbers in that format. */
static uint16_t encode(double value, int exponent, int mantissa) {
    int e;
    double fraction = frexp(fabs(value), &e); /* 0.5 <= fraction < 1 */
    if (value == 0) return 0;
    unsigned biased = (unsigned)(e - 2 + (1 << (exponent - 1)));
    unsigned bits = (biased << mantissa) + (unsigned)rint(ldexp(2 * fraction - 1, mantissa));
    return (uint16_t)(bits | (value < 0 ? 1u << (exponent + mantissa) : 0));
}

static uint16_t encode_half(clq_dtype dtype, double value) {
    return dtype == CLQ_F16 ? encode(value, 5, 10) : encode(value, 8, 7);
}

void clq_bench_value_put(clq_dtype dtype, void *values, size_t at, int64_t value) {
    switch (dtype) {
    case CLQ_F32: ((float *)values)[at] = (float)value; break;
    case CLQ_F64: ((double *)values)[at] = (double)value; break;
    case CLQ_F16:
    case CLQ_BF16: ((uint16_t *)values)[at] = encode_half(dtype, (double)value); break;
    default:
        switch (clq_dtype_bytes(dtype)) {
        case 1: ((uint8_t *)values)[at] = (uint8_t)value; break;
        case 2: ((uint16_t *)values)[at] = (uint16_t)value; break;
        case 4: ((uint32_t *)values)[at] = (uint32_t)value; break;
        default: ((uint64_t *)values)[at] = (uint64_t)value; break;
        }
    }
}

static bool is_unsigned(clq_dtype dtype) {
    return dtype == CLQ_U8 || dtype == CLQ_U16 || dtype == CLQ_U32 || dtype == CLQ_U64 || dtype == CLQ_BOOL;
}
/* In an unsigned type, a negative number has wrapped and is larger than any other. */
static bool comes_before(clq_dtype dtype, int64_t a, int64_t b) {
    return is_unsigned(dtype) ? (uint64_t)a < (uint64_t)b : a < b;
}

/* Stores the average as clique/comm.h defines it: floats are multiplied by 1 / n, integers are divided toward zero, in
 * the type. */
static void put_average(clq_dtype dtype, int64_t sum, unsigned n, void *values, size_t at) {
    if (dtype == CLQ_F32) {
        ((float *)values)[at] = (float)sum * (1.0f / (float)n);
    } else if (dtype == CLQ_F64) {
        ((double *)values)[at] = (double)sum * (1.0 / (double)n);
    } else if (dtype == CLQ_F16 || dtype == CLQ_BF16) {
        ((uint16_t *)values)[at] = encode_half(dtype, (double)((float)sum * (1.0f / (float)n)));
    } else if (is_unsigned(dtype)) {
        size_t bits = 8 * clq_dtype_bytes(dtype);
        uint64_t wrapped = bits == 64 ? (uint64_t)sum : (uint64_t)sum & (((uint64_t)1 << bits) - 1);
        clq_bench_value_put(dtype, values, at, (int64_t)(wrapped / n));
    } else {
        clq_bench_value_put(dtype, values, at, sum / (int64_t)n);
    }
}

void clq_bench_value_put_reduced(clq_dtype dtype, clq_redop op, unsigned n, size_t i, void *values, size_t at) {
    int64_t result = clq_bench_value_in(0, i);
    for (unsigned r = 1; r < n; r++) {
        int64_t value = clq_bench_value_in(r, i);
        switch (op) {
        case CLQ_REDOP_PROD: result *= value; break;
        case CLQ_REDOP_MIN: result = comes_before(dtype, value, result) ? value : result; break;
        case CLQ_REDOP_MAX: result = comes_before(dtype, result, value) ? value : result; break;
        default: result += value; break;
        }
    }
    if (op == CLQ_REDOP_AVG)
        put_average(dtype, result, n, values, at);
    else
        clq_bench_value_put(dtype, values, at, result);
}
