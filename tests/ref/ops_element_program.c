#include "ref/ref_elementwise.h"

#include <math.h>

static uint32_t ref_word(uint64_t seed, uint32_t stream, uint32_t step, uint32_t place, uint32_t element) {
    uint64_t low = (uint64_t)place << 32 | element / 4, high = (UINT64_C(3) << 24 | stream) << 32 | step;
    return clq_philox4x32(seed, low, high).word[element % 4];
}

double ref_dropout(uint64_t seed, uint32_t stream, uint32_t step, uint32_t place, uint32_t element, double rate) {
    const uint32_t word = ref_word(seed, stream, step, place, element);
    return (double)word >= nearbyint(ldexp(rate, 32)) ? 1 / (1 - rate) : 0;
}

/* The number that a standard normal variable exceeds with probability v, found by bisection. The word's top bit is the
 * sign. */
static double ref_normal(uint32_t word) {
    const double v = ((double)(word & 0x7fffffffu) + 0.5) * 0x1p-32;
    double low = 0, high = 8;
    for (unsigned i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        *(erfc(middle * M_SQRT1_2) / 2 > v ? &low : &high) = middle;
    }
    return word >> 31 ? -low : low;
}

double ref_stored(double number, clq_dtype dtype) {
    const int bits = dtype == CLQ_F16 ? 11 : 8, least = dtype == CLQ_F16 ? -14 : -126;
    const double most = dtype == CLQ_F16 ? 65504 : (2 - 0x1p-7) * 0x1p127;
    if ((dtype != CLQ_F16 && dtype != CLQ_BF16) || !isfinite(number) || number == 0) return number;
    const int unit = (int)fmax(ilogb(number), least) - (bits - 1);
    const double rounded = ldexp(nearbyint(ldexp(number, -unit)), unit);
    return fabs(rounded) > most ? copysign(INFINITY, number) : rounded;
}

static double larger(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }

/* The place of an element. */
typedef struct spot {
    size_t elements, channels, sample, element;
    uint32_t step, first_row;
} spot;

static double input_of(const struct clq_element_input *input, const double *x, const spot *s) {
    size_t channel = s->element % s->channels;
    switch (input->kind) {
    case CLQ_EACH_ELEMENT: return x[s->sample * s->elements + s->element];
    case CLQ_EACH_CHANNEL: return x[input->row * s->channels + channel];
    case CLQ_ONE_FOR_ALL: return x[0];
    case CLQ_EACH_SAMPLE_AND_CHANNEL: return x[s->sample * s->channels + channel];
    }
    return NAN;
}

/* An element's index among whole rows, even if the program has only a slice of each row. */
static uint32_t number_of(const clq_element_program *p, const spot *s) {
    const size_t row = s->element / s->channels, column = s->element % s->channels;
    return (uint32_t)(p->slice.whole ? row * p->slice.whole + p->slice.first + column : s->element);
}

static double result_of(const clq_element_program *p, const clq_instruction *i, const double *r, const spot *s) {
    double a = r[i->a], b = r[i->b], c = r[i->c];
    switch (i->op) {
    case CLQ_ELEMENT_CONSTANT: return (double)(float)i->number;
    case CLQ_ELEMENT_ADD: return a + b;
    case CLQ_ELEMENT_SUBTRACT: return a - b;
    case CLQ_ELEMENT_MULTIPLY: return a * b;
    case CLQ_ELEMENT_MAXIMUM: return larger(a, b);
    case CLQ_ELEMENT_MINIMUM: return -larger(-a, -b);
    case CLQ_ELEMENT_NEGATE: return -a;
    case CLQ_ELEMENT_SQUARE: return a * a;
    case CLQ_ELEMENT_SCALE: return a * (double)(float)i->number;
    case CLQ_ELEMENT_RELU: return larger(a, 0);
    case CLQ_ELEMENT_SIGMOID: return 1 / (1 + exp(-a));
    case CLQ_ELEMENT_TANH: return tanh(a);
    case CLQ_ELEMENT_RELU_SLOPE: return a > 0 ? b : 0;
    case CLQ_ELEMENT_SIGMOID_SLOPE: return b * a * (1 - a);
    case CLQ_ELEMENT_TANH_SLOPE: return b * (1 - a * a);
    case CLQ_ELEMENT_GREATER: return a > b;
    case CLQ_ELEMENT_AT_LEAST: return a >= b;
    case CLQ_ELEMENT_EQUAL: return a == b;
    case CLQ_ELEMENT_SELECT: return a != 0 ? b : c;
    case CLQ_ELEMENT_DROPOUT: {
        double factor =
            ref_dropout(p->seed, i->stream, s->step, s->first_row + (uint32_t)s->sample, number_of(p, s), i->number);
        return factor > 0 ? a * factor : 0;
    }
    case CLQ_ELEMENT_NORMAL:
        return ref_normal(ref_word(p->seed, i->stream, s->step, s->first_row + (uint32_t)s->sample, number_of(p, s)));
    case CLQ_ELEMENT_MISH: ref_activation(CLQ_ACTIVATION_MISH, 1, 1, &a, &c); return c;
    case CLQ_ELEMENT_MISH_SLOPE: ref_activation_gradient(CLQ_ACTIVATION_MISH, 1, 1, &a, &b, &c, NULL); return c;
    case CLQ_ELEMENT_SOFTPLUS: ref_activation(CLQ_ACTIVATION_SOFTPLUS, 1, 1, &a, &c); return c;
    case CLQ_ELEMENT_SOFTPLUS_SLOPE: return b / (1 + exp(-a));
    case CLQ_ELEMENT_DIVIDE: return a / b;
    case CLQ_ELEMENT_EXP: return exp(a);
    case CLQ_ELEMENT_EXPM1: return expm1(a);
    case CLQ_ELEMENT_LOG: return log(a);
    case CLQ_ELEMENT_LOG1P: return log1p(a);
    case CLQ_ELEMENT_SQRT: return sqrt(a);
    case CLQ_ELEMENT_ABS: return fabs(a);
    case CLQ_ELEMENT_SIGN: return (a > 0) - (a < 0);
    case CLQ_ELEMENT_ERF: return erf(a);
    case CLQ_ELEMENT_SIN: return sin(a);
    case CLQ_ELEMENT_COS: return cos(a);
    case CLQ_ELEMENT_POWER: return pow(a, (double)(float)i->number);
    case CLQ_ELEMENT_INPUT:
    case CLQ_ELEMENT_OPS: break;
    }
    return NAN;
}

void ref_element_program(const clq_element_program *p, size_t elements, size_t channels, size_t samples, uint32_t step,
                         uint32_t first_row, const double *const *inputs, double *const *outputs, double *const *sums) {
    for (size_t k = 0; k < p->sum_count; k++)
        for (size_t c = 0; c < channels; c++) sums[k][c] = 0;
    for (size_t at = 0; at < samples * elements; at++) {
        const spot s = {elements, channels, at / elements, at % elements, step, first_row};
        double r[CLQ_ELEMENT_INSTRUCTIONS] = {0};
        for (size_t i = 0; i < p->instruction_count; i++) {
            const clq_instruction *one = &p->instructions[i];
            r[i] = one->op == CLQ_ELEMENT_INPUT ? input_of(&p->inputs[one->a], inputs[one->a], &s)
                                                : result_of(p, one, r, &s);
        }
        for (size_t k = 0; k < p->output_count; k++)
            outputs[k][at] = ref_stored(r[p->outputs[k].from], p->outputs[k].dtype);
        for (size_t k = 0; k < p->sum_count; k++) sums[k][s.element % channels] += r[p->sums[k]];
    }
}
