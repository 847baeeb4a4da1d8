/* Numbers of 16 bits: halves (IEEE 754 binary16) and bfloat16. */
#include "base/base.h"

#include <math.h>
#include <string.h>

float clq_half_to_float(uint16_t half) {
    int exponent = (half >> 10) & 31, mantissa = half & 1023;
    float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                      : exponent     ? ldexpf((float)(mantissa + 1024), exponent - 25)
                                     : ldexpf((float)mantissa, -24);
    return half & 0x8000 ? -magnitude : magnitude;
}

uint16_t clq_half_of_float(float value) {
    static const float overflows = 65520, least_normal = 1.0f / 16384;
    unsigned sign = signbit(value) ? 0x8000 : 0, size;
    float magnitude = fabsf(value);
    if (isnan(value))
        size = 0x7E00;
    else if (magnitude >= overflows)
        size = 0x7C00;
    else if (magnitude < least_normal)
        size = (unsigned)lrintf(ldexpf(magnitude, 24));
    else { /* if the mantissa rounds up to the next power of two, the sum's carry increments the exponent */
        int exponent = ilogbf(magnitude);
        size = ((unsigned)(exponent + 14) << 10) + (unsigned)lrintf(ldexpf(magnitude, 10 - exponent));
    }
    return (uint16_t)(sign | size);
}

float clq_bfloat_to_float(uint16_t brain) {
    uint32_t bits = (uint32_t)brain << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t clq_bfloat_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
