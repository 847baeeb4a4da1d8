#include "support/comm_values.h"

#include <float.h>
#include <math.h>
#include <string.h>

const clq_dtype values_dtypes[VALUES_DTYPES] = {CLQ_F32, CLQ_F64, CLQ_F16, CLQ_BF16, CLQ_I8,  CLQ_I16,
                                                CLQ_I32, CLQ_I64, CLQ_U8,  CLQ_U16,  CLQ_U32, CLQ_U64};

static bool is_real(clq_dtype dtype) {
    return dtype == CLQ_F32 || dtype == CLQ_F64 || dtype == CLQ_F16 || dtype == CLQ_BF16;
}
static bool is_signed(clq_dtype dtype) {
    return dtype == CLQ_I8 || dtype == CLQ_I16 || dtype == CLQ_I32 || dtype == CLQ_I64;
}

/* ---- floats of a few bits: sign, `exponent` bits, `mantissa` bits ---- */

static double decode(uint32_t bits, int exponent, int mantissa) {
    int most = (1 << exponent) - 1, bias = most / 2, e = (int)(bits >> mantissa) & most;
    uint32_t fraction = bits & ((1u << mantissa) - 1);
    double sign = bits >> (exponent + mantissa) ? -1 : 1;
    if (e == most) return fraction ? NAN : sign * INFINITY;
    if (e == 0) return sign * ldexp(fraction, 1 - bias - mantissa);
    return sign * ldexp((double)fraction + (1 << mantissa), e - bias - mantissa);
}

/* Rounds to the nearest number, ties to even: rint does this in units of the last place. */
static uint32_t encode(double value, int exponent, int mantissa) {
    int most = (1 << exponent) - 1, bias = most / 2;
    uint32_t sign = signbit(value) ? 1u << (exponent + mantissa) : 0, infinity = (uint32_t)most << mantissa;
    if (isnan(value)) return infinity | 1u << (mantissa - 1);
    value = fabs(value);
    if (isinf(value)) return sign | infinity;
    int e;
    frexp(value, &e);
    e = CLQ_MAX(e - 1, 1 - bias);
    double units = rint(ldexp(value, mantissa - e));
    if (units >= ldexp(2, mantissa)) units /= 2, e++;
    if (value == 0) return sign;
    if (e > bias) return sign | infinity;
    bool small = units < ldexp(1, mantissa);
    uint32_t fraction = (uint32_t)units - (small ? 0 : 1u << mantissa);
    return sign | (small ? 0 : (uint32_t)(e + bias) << mantissa) | fraction;
}

static double get_real(clq_dtype dtype, const void *array, size_t i) {
    if (dtype == CLQ_F64) return ((const double *)array)[i];
    if (dtype == CLQ_F32) return (double)((const float *)array)[i];
    return dtype == CLQ_F16 ? decode(((const uint16_t *)array)[i], 5, 10) : decode(((const uint16_t *)array)[i], 8, 7);
}

static void put_real(clq_dtype dtype, void *array, size_t i, double value) {
    if (dtype == CLQ_F64)
        ((double *)array)[i] = value;
    else if (dtype == CLQ_F32)
        ((float *)array)[i] = (float)value;
    else /* by way of float, in which halves are computed */
        ((uint16_t *)array)[i] =
            (uint16_t)(dtype == CLQ_F16 ? encode((double)(float)value, 5, 10) : encode((double)(float)value, 8, 7));
}

/* ---- integers ---- */

static uint64_t get_whole(clq_dtype dtype, const void *array, size_t i) {
    switch (dtype) {
    case CLQ_I8: return (uint64_t)((const int8_t *)array)[i];
    case CLQ_I16: return (uint64_t)((const int16_t *)array)[i];
    case CLQ_I32: return (uint64_t)((const int32_t *)array)[i];
    case CLQ_U8: return ((const uint8_t *)array)[i];
    case CLQ_U16: return ((const uint16_t *)array)[i];
    case CLQ_U32: return ((const uint32_t *)array)[i];
    default: return ((const uint64_t *)array)[i];
    }
}

static void put_whole(clq_dtype dtype, void *array, size_t i, uint64_t value) {
    switch (clq_dtype_bytes(dtype)) {
    case 1: ((uint8_t *)array)[i] = (uint8_t)value; break;
    case 2: ((uint16_t *)array)[i] = (uint16_t)value; break;
    case 4: ((uint32_t *)array)[i] = (uint32_t)value; break;
    default: ((uint64_t *)array)[i] = value; break;
    }
}

/* ---- both ---- */

void values_put(clq_dtype dtype, void *array, size_t i, int64_t value) {
    if (is_real(dtype))
        put_real(dtype, array, i, (double)value);
    else
        put_whole(dtype, array, i, (uint64_t)value);
}

void values_put_any(clq_dtype dtype, void *array, size_t i, uint64_t random) {
    size_t bytes = clq_dtype_bytes(dtype);
    memcpy((char *)array + i * bytes, &random, bytes);
}

static double combine_real(clq_redop op, double a, double b) {
    if (op == CLQ_REDOP_PROD) return a * b;
    if (op == CLQ_REDOP_SUM || op == CLQ_REDOP_AVG) return a + b;
    if (isnan(a) || isnan(b)) return NAN;
    return op == CLQ_REDOP_MIN ? fmin(a, b) : fmax(a, b);
}

static uint64_t combine_whole(clq_redop op, bool has_sign, uint64_t a, uint64_t b) {
    if (op == CLQ_REDOP_PROD) return a * b;
    if (op == CLQ_REDOP_SUM || op == CLQ_REDOP_AVG) return a + b;
    bool less = has_sign ? (int64_t)a < (int64_t)b : a < b;
    return less == (op == CLQ_REDOP_MIN) ? a : b;
}

void values_combine(clq_dtype dtype, clq_redop op, const void *a, const void *b, void *out, size_t i) {
    if (is_real(dtype))
        put_real(dtype, out, i, combine_real(op, get_real(dtype, a, i), get_real(dtype, b, i)));
    else
        put_whole(dtype, out, i, combine_whole(op, is_signed(dtype), get_whole(dtype, a, i), get_whole(dtype, b, i)));
}

void values_average(clq_dtype dtype, void *array, size_t i, unsigned n) {
    if (dtype == CLQ_F64) {
        ((double *)array)[i] *= 1.0 / (double)n;
    } else if (is_real(dtype)) {
        put_real(dtype, array, i, (double)((float)get_real(dtype, array, i) * (1.0f / (float)n)));
    } else {
        uint64_t sum = get_whole(dtype, array, i);
        put_whole(dtype, array, i, is_signed(dtype) ? (uint64_t)((int64_t)sum / (int64_t)n) : sum / n);
    }
}

bool values_equal(clq_dtype dtype, const void *a, const void *b, size_t i) {
    if (!is_real(dtype)) return get_whole(dtype, a, i) == get_whole(dtype, b, i);
    double x = get_real(dtype, a, i), y = get_real(dtype, b, i);
    return x == y || (isnan(x) && isnan(y));
}

bool values_tiny(clq_dtype dtype, const void *array, size_t i) {
    if (!is_real(dtype)) return false;
    double size = fabs(get_real(dtype, array, i));
    return size > 0 && size < (dtype == CLQ_F64 ? DBL_MIN : (double)FLT_MIN);
}
