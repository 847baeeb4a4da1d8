/* Elementwise programs: random ones over all kinds of inputs against an interpreter in double, within a bound of
 * rounding errors that goes along with each register; and what is asked of them by name. */
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <math.h>
#include <stdio.h>

enum { STEP = 5, FIRST_ROW = 3 };
enum { LONG_SUMS = 7 }; /* a program of paths that no other has: both families of each driver have it */

/* ---- random programs ---- */

/* What is known of a register: |value| is at most `most`, it is a multiple of 2^-fraction, and it is off by `error` at
 * most; where that is 0, it is exact. */
typedef struct known {
    double most, error;
    int fraction;
} known;

static known rounded(double most, double error) { return (known){most, error + most * 0x1p-22, 99}; }

/* Sums and products of exact numbers are exact as long as a float holds their bits. */
static known exact_if_it_fits(double most, int fraction, double error) {
    bool fits = error <= 0 && ldexp(most, fraction) < 0x1p24;
    return fits ? (known){most, 0, fraction} : rounded(most, error);
}

static known known_of(const clq_instruction *i, const known *r) {
    known a = r[i->a], b = r[i->b], c = r[i->c];
    double larger = fmax(a.most, b.most), error = fmax(a.error, b.error), number = fabs(i->number);
    int finer = CLQ_MAX(a.fraction, b.fraction);
    switch (i->op) {
    case CLQ_ELEMENT_CONSTANT: return (known){number, 0, 3};
    case CLQ_ELEMENT_ADD:
    case CLQ_ELEMENT_SUBTRACT: return exact_if_it_fits(a.most + b.most, finer, a.error + b.error);
    case CLQ_ELEMENT_MULTIPLY:
        return exact_if_it_fits(a.most * b.most, a.fraction + b.fraction, a.error * b.most + b.error * a.most);
    case CLQ_ELEMENT_SQUARE: return exact_if_it_fits(a.most * a.most, 2 * a.fraction, 2 * a.error * a.most);
    case CLQ_ELEMENT_MAXIMUM:
    case CLQ_ELEMENT_MINIMUM: return (known){larger, error, finer};
    case CLQ_ELEMENT_SCALE: return rounded(a.most * number, a.error * number);
    case CLQ_ELEMENT_DROPOUT: return rounded(a.most / (1 - number), a.error / (1 - number));
    case CLQ_ELEMENT_SIGMOID:
    case CLQ_ELEMENT_TANH: return rounded(1, a.error + 4e-7);
    case CLQ_ELEMENT_RELU_SLOPE: return b;
    case CLQ_ELEMENT_MISH: return rounded(a.most + 1, 1.1 * a.error); /* mish' and mish'' lie within 1.1 */
    case CLQ_ELEMENT_MISH_SLOPE: return rounded(2 * b.most, 1.1 * (b.error + a.error * b.most));
    case CLQ_ELEMENT_SIGMOID_SLOPE:
    case CLQ_ELEMENT_TANH_SLOPE:
        return rounded(b.most * (1 + a.most) * (1 + a.most),
                       b.error * (1 + a.most) * (1 + a.most) + 2 * a.error * (1 + a.most) * b.most);
    case CLQ_ELEMENT_GREATER:
    case CLQ_ELEMENT_AT_LEAST:
    case CLQ_ELEMENT_EQUAL: return (known){1, 0, 0};
    case CLQ_ELEMENT_SELECT:
        return (known){fmax(b.most, c.most), fmax(b.error, c.error), CLQ_MAX(b.fraction, c.fraction)};
    case CLQ_ELEMENT_SOFTPLUS: return rounded(a.most + 1, a.error);
    case CLQ_ELEMENT_SOFTPLUS_SLOPE: return rounded(b.most, b.error + a.error * b.most);
    case CLQ_ELEMENT_ABS: return a;
    case CLQ_ELEMENT_SIGN: return (known){1, 0, 0};
    case CLQ_ELEMENT_ERF: return rounded(1, 1.2 * a.error + 8e-7);
    /* The error of an argument of some size is as large a part of it. */
    case CLQ_ELEMENT_SIN:
    case CLQ_ELEMENT_COS: return rounded(1, a.error + 4e-7);
    case CLQ_ELEMENT_NORMAL: return (known){6.5, 1e-5, 99};
    case CLQ_ELEMENT_EXP:
    case CLQ_ELEMENT_EXPM1: return rounded(exp(a.most) + 1, exp(a.most) * (1.1 * a.error + 4e-7));
    case CLQ_ELEMENT_DIVIDE: /* these have places where they are not finite, and tests of their own */
    case CLQ_ELEMENT_LOG:
    case CLQ_ELEMENT_LOG1P:
    case CLQ_ELEMENT_SQRT:
    case CLQ_ELEMENT_POWER:
    case CLQ_ELEMENT_NEGATE:
    case CLQ_ELEMENT_RELU:
    case CLQ_ELEMENT_INPUT:
    case CLQ_ELEMENT_OPS: break;
    }
    return a;
}

static bool has_poles(clq_element_op op) {
    return op == CLQ_ELEMENT_DIVIDE || op == CLQ_ELEMENT_LOG || op == CLQ_ELEMENT_LOG1P || op == CLQ_ELEMENT_SQRT ||
           op == CLQ_ELEMENT_POWER;
}

/* What hangs on a comparison is only known of exact numbers. */
static bool is_fit(const clq_instruction *i, const known *r) {
    bool exact = r[i->a].error <= 0;
    if (has_poles(i->op)) return false;
    switch (i->op) {
    case CLQ_ELEMENT_SIGN:
    case CLQ_ELEMENT_RELU_SLOPE:
    case CLQ_ELEMENT_SELECT: return exact;
    case CLQ_ELEMENT_GREATER:
    case CLQ_ELEMENT_AT_LEAST:
    case CLQ_ELEMENT_EQUAL: return exact && r[i->b].error <= 0;
    case CLQ_ELEMENT_EXP:
    case CLQ_ELEMENT_EXPM1: return r[i->a].most < 5;
    default: return known_of(i, r).most < 1e4;
    }
}

static struct clq_element_input any_input(clq_random *random, bool whole) {
    static const clq_element_kind kinds[] = {CLQ_EACH_ELEMENT, CLQ_EACH_ELEMENT, CLQ_EACH_ELEMENT,
                                             CLQ_EACH_CHANNEL, CLQ_ONE_FOR_ALL,  CLQ_EACH_SAMPLE_AND_CHANNEL};
    struct clq_element_input input = {.kind = kinds[rig_below(random, CLQ_COUNT_OF(kinds) - whole)], .dtype = CLQ_F32};
    static const clq_dtype types[] = {CLQ_U8, CLQ_F16, CLQ_BF16, CLQ_F32};
    const size_t type = rig_below(random, CLQ_COUNT_OF(types));
    if (input.kind == CLQ_EACH_ELEMENT || (input.kind == CLQ_EACH_CHANNEL && type > 0)) input.dtype = types[type];
    if (input.kind == CLQ_EACH_CHANNEL) input.row = (unsigned)rig_below(random, 3);
    return input;
}

/* `first`: an operation that it has, besides others. */
static clq_element_program any_program(clq_random *random, clq_element_op first, bool whole, known *r) {
    clq_element_program p = {.seed = clq_random_u32(random)};
    size_t inputs = 1 + rig_below(random, CLQ_ELEMENT_INPUTS), length = inputs + 1 + rig_below(random, 9);
    if (clq_element_is_random(first)) whole = false;
    for (size_t j = 0; j < inputs; j++) {
        struct clq_element_input input = any_input(random, whole);
        r[clq_element_take(&p, input)] = (known){input.dtype == CLQ_U8 ? 255 : 2, 0, input.dtype == CLQ_U8 ? 0 : 3};
    }
    for (unsigned tries = 0; p.instruction_count < length && tries < 1000; tries++) {
        clq_element_op op = p.instruction_count == inputs ? first : (clq_element_op)rig_below(random, CLQ_ELEMENT_OPS);
        size_t n = p.instruction_count;
        clq_instruction one = {op,
                               (unsigned)rig_below(random, n),
                               (unsigned)rig_below(random, n),
                               (unsigned)rig_below(random, n),
                               (double)rig_below(random, 8) / 8,
                               (uint32_t)tries};
        if (op == CLQ_ELEMENT_INPUT || (clq_element_is_random(op) && whole) || !is_fit(&one, r)) continue;
        r[clq_element_do(&p, one)] = known_of(&one, r);
    }
    p.output_count = 1 + rig_below(random, CLQ_ELEMENT_OUTPUTS);
    for (size_t k = 0; k < p.output_count; k++) {
        static const clq_dtype types[] = {CLQ_F32, CLQ_F16, CLQ_BF16};
        p.outputs[k].from = (unsigned)(p.instruction_count - 1 - rig_below(random, p.instruction_count) * (k > 0));
        p.outputs[k].dtype = types[rig_below(random, CLQ_COUNT_OF(types))];
    }
    p.sum_count = rig_below(random, CLQ_ELEMENT_SUMS + 1);
    for (size_t k = 0; k < p.sum_count; k++) p.sums[k] = (unsigned)rig_below(random, p.instruction_count);
    assert_true(clq_element_program_fits(&p));
    return p;
}

/* ---- running one ---- */

typedef struct shape {
    size_t elements, channels;
    uint32_t capacity, count;
} shape;

/* Edges: 1, primes, whole vectors and one beside them, samples shorter than vectors, a count of 0; the last are for
 * several work-items. */
static const shape shapes[] = {
    {1, 1, 1, 1},       {3, 3, 23, 22},         {15, 15, 9, 8},       {16, 16, 5, 5},   {17, 17, 9, 9},
    {8, 2, 9, 7},       {48, 6, 3, 2},          {64, 32, 3, 3},       {12, 4, 7, 0},    {10, 10, 64, 63},
    {509, 509, 2, 2},   {31, 1, 9, 8},          {63, 21, 4, 3},       {128, 128, 6, 5}, {4, 4, 65, 64},
    {33 * 7, 33, 5, 4}, {200 * 48, 48, 20, 19}, {2056, 2056, 40, 39}, {30, 5, 11, 9},   {96, 16, 7, 7},
    {1000, 10, 99, 97},
};

typedef struct inputs {
    void *data[CLQ_ELEMENT_INPUTS];
    double *want[CLQ_ELEMENT_INPUTS];
    size_t bytes[CLQ_ELEMENT_INPUTS];
} inputs;

static size_t numbers_of(const struct clq_element_input *input, const shape *s, bool whole) {
    size_t samples = whole ? 1 : s->count;
    switch (input->kind) {
    case CLQ_EACH_ELEMENT: return s->elements * samples;
    case CLQ_EACH_CHANNEL: return 3 * s->channels;
    case CLQ_ONE_FOR_ALL: return 1;
    case CLQ_EACH_SAMPLE_AND_CHANNEL: return s->channels * samples;
    }
    return 0;
}

/* Multiples of 1/8 from -2 to 2, of which many are equal, or bytes. */
static void make_input(clq_random *random, const struct clq_element_input *input, size_t n, inputs *in, size_t j) {
    bool bytes = input->dtype == CLQ_U8;
    in->bytes[j] = n * clq_dtype_bytes(input->dtype);
    in->data[j] = rig_alloc(n + 1, sizeof(float));
    in->want[j] = rig_alloc(n + 1, sizeof(double));
    for (size_t i = 0; i < n; i++) {
        in->want[j][i] = bytes ? (double)rig_below(random, 256) : (double)rig_below(random, 33) / 8 - 2;
        rig_store(in->data[j], i, input->dtype, in->want[j][i]);
    }
}

static clq_value input_value(rig *r, const struct clq_element_input *input, const shape *s, bool whole) {
    size_t bytes = s->elements * clq_dtype_bytes(input->dtype);
    switch (input->kind) {
    case CLQ_EACH_ELEMENT: return rig_value(r, "x", whole ? bytes : 0, whole ? 0 : bytes);
    case CLQ_EACH_CHANNEL: return rig_value(r, "by channel", 3 * s->channels * clq_dtype_bytes(input->dtype), 0);
    case CLQ_ONE_FOR_ALL: return rig_value(r, "one", sizeof(float), 0);
    case CLQ_EACH_SAMPLE_AND_CHANNEL: return rig_value(r, "by sample", 0, s->channels * sizeof(float));
    }
    return CLQ_NO_VALUE;
}

/* Outputs lie over the first inputs that they can lie over, where asked for. */
static clq_value output_value(rig *r, const clq_element_program *p, const clq_element_values *v, const shape *s,
                              size_t k, bool in_place) {
    for (size_t j = k; in_place && j < p->input_count; j++) {
        bool taken = false;
        for (size_t o = 0; o < k; o++) taken = taken || v->outputs[o] == v->inputs[j];
        if (!taken && p->inputs[j].kind == CLQ_EACH_ELEMENT && p->inputs[j].dtype == p->outputs[k].dtype)
            return v->inputs[j];
    }
    size_t bytes = s->elements * clq_dtype_bytes(p->outputs[k].dtype);
    return rig_value(r, "y", v->whole ? bytes : 0, v->whole ? 0 : bytes);
}

/* What is exact is rounded once; of what is not, by one unit more. */
static void check_outputs(rig *r, const clq_element_program *p, const clq_element_values *v, const known *k, size_t n,
                          double *const *want) {
    float *got = rig_alloc(n + 1, sizeof(float));
    for (size_t o = 0; o < p->output_count; o++) {
        const clq_dtype dtype = p->outputs[o].dtype;
        const double error = k[p->outputs[o].from].error, unit = dtype == CLQ_F16 ? 0x1p-10 : 0x1p-7;
        rig_read_stored(r, v->outputs[o], dtype, got, n);
        rig_check_close(r, "y", got, want[o], n, error > 0 && dtype != CLQ_F32 ? unit : 0, 2 * error);
        rig_check_untouched(r, v->outputs[o], n * clq_dtype_bytes(dtype));
    }
    clq_free(got);
}

static void check_sums(rig *r, const clq_element_program *p, const clq_element_values *v, const known *k, size_t rows,
                       double *const *want) {
    float *got = rig_alloc(v->channels, sizeof(float));
    for (size_t s = 0; s < p->sum_count; s++) {
        const known *of = &k[p->sums[s]];
        rig_read(r, v->sums[s], got, v->channels * sizeof(float));
        rig_check_close(r, "sum", got, want[s], v->channels, 2e-7,
                        (double)rows * (2 * of->error + of->most * 64 * 0x1p-24));
        rig_check_untouched(r, v->sums[s], v->channels * sizeof(float));
    }
    clq_free(got);
}

static void check_program(rig *r, const clq_element_program *p, const known *k, const shape *s, bool whole,
                          bool in_place) {
    clq_random random = clq_random_start(62, s->elements * 64 + s->count);
    clq_element_values v = {.elements = s->elements, .channels = s->channels, .whole = whole};
    size_t n = s->elements * (whole ? 1 : s->count), sums_bytes = s->channels * sizeof(float);
    double *want[CLQ_ELEMENT_OUTPUTS], *want_sums[CLQ_ELEMENT_SUMS];
    inputs in;
    rig_begin(r, s->capacity);
    for (size_t j = 0; j < p->input_count; j++) {
        make_input(&random, &p->inputs[j], numbers_of(&p->inputs[j], s, whole), &in, j);
        v.inputs[j] = input_value(r, &p->inputs[j], s, whole);
    }
    for (size_t o = 0; o < p->output_count; o++) {
        want[o] = rig_alloc(n + 1, sizeof(double));
        v.outputs[o] = output_value(r, p, &v, s, o, in_place);
    }
    for (size_t o = 0; o < p->sum_count; o++) {
        want_sums[o] = rig_alloc(s->channels, sizeof(double));
        v.sums[o] = rig_value(r, "sum", sums_bytes, 0);
    }
    clq_elementwise(r->list, "program", p, &v);
    rig_bind(r);
    for (size_t j = 0; j < p->input_count; j++) rig_fill(r, v.inputs[j], in.data[j], in.bytes[j]);
    r->params.step = STEP;
    r->params.first_row = FIRST_ROW;
    rig_run(r, s->count);
    ref_element_program(p, s->elements, s->channels, whole ? 1 : s->count, STEP, FIRST_ROW,
                        (const double *const *)in.want, want, want_sums);
    check_outputs(r, p, &v, k, n, want);
    check_sums(r, p, &v, k, n / s->channels, want_sums);
    rig_end(r);
    for (size_t j = 0; j < p->input_count; j++) clq_free(in.data[j]), clq_free(in.want[j]);
    for (size_t o = 0; o < p->output_count; o++) clq_free(want[o]);
    for (size_t o = 0; o < p->sum_count; o++) clq_free(want_sums[o]);
}

/* Every operation leads one program, which each driver has in one family; shapes, outputs over inputs and values
 * without samples are gone through beside. */
static void random_programs(rig *r) {
    for (size_t i = 0; i < CLQ_ELEMENT_OPS - CLQ_ELEMENT_CONSTANT; i++) {
        if (i != LONG_SUMS && !rig_takes(r, i)) continue;
        clq_random random = clq_random_start(61, i);
        clq_element_op first = (clq_element_op)(CLQ_ELEMENT_CONSTANT + i);
        if (has_poles(first)) continue;
        bool whole = i % 5 == 4 && !clq_element_is_random(first);
        known k[CLQ_ELEMENT_INSTRUCTIONS];
        clq_element_program p = any_program(&random, first, whole, k);
        for (size_t s = i % 4; s < CLQ_COUNT_OF(shapes); s += 4)
            if (rig_affords(r, shapes[s].elements * shapes[s].capacity * 2))
                check_program(r, &p, k, &shapes[s], whole, s % 2);
    }
}

/* ---- by name ---- */

static unsigned floats(clq_element_program *p) {
    return clq_element_take(p, (struct clq_element_input){.kind = CLQ_EACH_ELEMENT, .dtype = CLQ_F32});
}

/* Gradients of weights that several layers share: dw += what came last, over dw itself. */
static void accumulation(rig *r) {
    enum { N = 1013, BYTES = N * sizeof(float) };
    clq_random random = clq_random_start(63, 0);
    float *dw, *more, got[N];
    double *unused[2];
    rig_numbers(&random, N, -1, 1, &dw, &unused[0]);
    rig_numbers(&random, N, -1, 1, &more, &unused[1]);
    clq_element_program p = {.output_count = 1};
    unsigned a = floats(&p), b = floats(&p);
    p.outputs[0].from = clq_element_do(&p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = a, .b = b});
    rig_begin(r, 7);
    clq_value to = rig_value(r, "dw", BYTES, 0), from = rig_value(r, "more", BYTES, 0);
    const clq_element_values v = {.elements = N, .channels = 1, .whole = true, .inputs = {to, from}, .outputs = {to}};
    clq_elementwise(r->list, "add", &p, &v);
    rig_bind(r);
    rig_fill(r, to, dw, BYTES);
    rig_fill(r, from, more, BYTES);
    rig_run(r, 0); /* weights have gradients whatever the count is */
    rig_run(r, 3);
    rig_read(r, to, got, BYTES);
    for (size_t i = 0; i < N; i++) assert_true(got[i] == dw[i] + more[i] + more[i]);
    rig_end(r);
    void *const all[] = {dw, more, unused[0], unused[1]};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) clq_free(all[i]);
}

/* Operations with places where they are not finite, between these; and what OpenCL promises of the others. */
static void functions(rig *r) {
    static const struct {
        clq_element_op op;
        double low, high, number, relative, absolute;
    } cases[] = {{CLQ_ELEMENT_DIVIDE, 0.01, 50, 0, 4e-7, 0},   {CLQ_ELEMENT_LOG, 1e-30, 1e-3, 0, 5e-7, 0},
                 {CLQ_ELEMENT_LOG, 0.5, 2, 0, 1e-6, 3e-7},     {CLQ_ELEMENT_LOG1P, -0.9, 3, 0, 1e-6, 1e-30},
                 {CLQ_ELEMENT_SQRT, 0, 1e6, 0, 4e-7, 0},       {CLQ_ELEMENT_POWER, 0.01, 30, 2.5, 2e-6, 0},
                 {CLQ_ELEMENT_POWER, 0.01, 30, -0.5, 2e-6, 0}, {CLQ_ELEMENT_POWER, -20, 20, 3, 2e-6, 0},
                 {CLQ_ELEMENT_EXP, -80, 80, 0, 1e-6, 0},       {CLQ_ELEMENT_EXPM1, -1e-3, 1e-3, 0, 1e-6, 0},
                 {CLQ_ELEMENT_EXPM1, -90, 80, 0, 1e-6, 0},     {CLQ_ELEMENT_ERF, -5, 5, 0, 2e-6, 0},
                 {CLQ_ELEMENT_ERF, -1e-3, 1e-3, 0, 2e-6, 0},   {CLQ_ELEMENT_SIN, -1000, 1000, 0, 4e-7, 4e-7},
                 {CLQ_ELEMENT_COS, -1000, 1000, 0, 4e-7, 4e-7}};
    enum { N = 1013, BYTES = N * sizeof(float) };
    r->optimizes_all = true;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        if (!rig_takes(r, i)) continue;
        clq_random random = clq_random_start(64, i);
        float *x, *y, got[N];
        double *dx, *dy, want[N], *to = want;
        rig_numbers(&random, N, cases[i].low, cases[i].high, &x, &dx);
        rig_numbers(&random, N, cases[i].low, cases[i].high, &y, &dy);
        clq_element_program p = {.output_count = 1};
        const unsigned a = floats(&p), b = floats(&p);
        p.outputs[0].from =
            clq_element_do(&p, (clq_instruction){.op = cases[i].op, .a = a, .b = b, .number = cases[i].number});
        rig_begin(r, 1);
        clq_element_values v = {.elements = N, .channels = 1};
        v.inputs[0] = rig_value(r, "x", 0, BYTES), v.inputs[1] = rig_value(r, "y", 0, BYTES);
        v.outputs[0] = rig_value(r, "z", 0, BYTES);
        clq_elementwise(r->list, "function", &p, &v);
        rig_bind(r);
        rig_fill(r, v.inputs[0], x, BYTES);
        rig_fill(r, v.inputs[1], y, BYTES);
        rig_run(r, 1);
        rig_read(r, v.outputs[0], got, BYTES);
        ref_element_program(&p, N, 1, 1, 0, 0, (const double *const[]){dx, dy}, &to, NULL);
        rig_check_close(r, "z", got, want, N, cases[i].relative, cases[i].absolute);
        rig_end(r);
        void *const all[] = {x, y, dx, dy};
        for (size_t k = 0; k < CLQ_COUNT_OF(all); k++) clq_free(all[k]);
    }
}

/* Maximum and minimum hand NaN on from either side; what dropout and select leave out does not matter. */
static void not_a_number(rig *r) {
    enum { N = 21, BYTES = N * sizeof(float) };
    static const clq_element_op ops[] = {CLQ_ELEMENT_MAXIMUM, CLQ_ELEMENT_MINIMUM, CLQ_ELEMENT_RELU};
    float x[N], y[N], got[N];
    for (size_t i = 0; i < N; i++) x[i] = i % 3 ? 1 : NAN, y[i] = i % 3 == 1 ? NAN : -INFINITY;
    clq_element_program p = {.output_count = 3};
    unsigned a = floats(&p), b = floats(&p);
    for (size_t o = 0; o < 3; o++) p.outputs[o].from = clq_element_do(&p, (clq_instruction){ops[o], a, b, 0, 0, 0});
    p.outputs[2].from = clq_element_do(&p, (clq_instruction){CLQ_ELEMENT_SELECT, p.outputs[0].from, b, b, 0, 0});
    rig_begin(r, 1);
    clq_element_values v = {.elements = N, .channels = N};
    for (size_t i = 0; i < 2; i++) v.inputs[i] = rig_value(r, "x", 0, BYTES);
    for (size_t i = 0; i < 3; i++) v.outputs[i] = rig_value(r, "y", 0, BYTES);
    clq_elementwise(r->list, "extremes", &p, &v);
    rig_bind(r);
    rig_fill(r, v.inputs[0], x, BYTES);
    rig_fill(r, v.inputs[1], y, BYTES);
    rig_run(r, 1);
    for (size_t o = 0; o < 2; o++) {
        rig_read(r, v.outputs[o], got, BYTES);
        for (size_t i = 0; i < N; i++) assert_true(i % 3 < 2 ? isnan(got[i]) : got[i] == (o ? -INFINITY : 1));
    }
    rig_read(r, v.outputs[2], got, BYTES);
    for (size_t i = 0; i < N; i++) assert_true(i % 3 == 1 ? isnan(got[i]) : got[i] == -INFINITY);
    rig_end(r);
}

/* ---- values of 2^32 elements and more ---- */

enum { WIDE_ELEMENTS = 30, WIDE_CHANNELS = 5, WIDE_COUNT = 9, WIDE_ROW = WIDE_ELEMENTS * sizeof(float) };

/* A value by element, one by channel, one by sample and channel; y. */
static void wide_values(rig *r, clq_value v[4]) {
    rig_begin(r, WIDE_COUNT);
    v[0] = rig_value(r, "x", 0, WIDE_ROW);
    v[1] = rig_value(r, "by channel", WIDE_CHANNELS * sizeof(float), 0);
    v[2] = rig_value(r, "by sample", 0, WIDE_CHANNELS * sizeof(float));
    v[3] = rig_value(r, "y", 0, WIDE_ROW);
}

static void run_wide(rig *r, const clq_value v[4], const float *numbers, float *y) {
    rig_bind(r);
    rig_fill(r, v[0], numbers, WIDE_ROW * WIDE_COUNT);
    rig_fill(r, v[1], numbers, WIDE_CHANNELS * sizeof(float));
    rig_fill(r, v[2], numbers, WIDE_CHANNELS * WIDE_COUNT * sizeof(float));
    r->params.step = STEP;
    r->params.first_row = FIRST_ROW;
    rig_run(r, WIDE_COUNT);
    rig_read(r, v[3], y, WIDE_ROW * WIDE_COUNT);
    rig_end(r);
}

/* The program that a list makes, and the same once more with places of 64 bits: nobody has the memory to need them. */
static void wide_places(rig *r) {
    enum { N = WIDE_ELEMENTS * WIDE_COUNT };
    clq_random random = clq_random_start(64, 0);
    float *numbers, narrow[N], wide[N];
    double *unused;
    rig_numbers(&random, N, 1, 2, &numbers, &unused);
    clq_element_program p = {.output_count = 1, .seed = 5};
    unsigned x = floats(&p), c = clq_element_take(&p, (struct clq_element_input){.kind = CLQ_EACH_CHANNEL});
    unsigned s = clq_element_take(&p, (struct clq_element_input){.kind = CLQ_EACH_SAMPLE_AND_CHANNEL});
    unsigned scaled = clq_element_do(&p, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY, .a = x, .b = c});
    unsigned sum = clq_element_do(&p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = scaled, .b = s});
    clq_instruction drop = {.op = CLQ_ELEMENT_DROPOUT, .a = sum, .number = 0.5, .stream = 6};
    p.outputs[0].from = clq_element_do(&p, drop);
    clq_value v[4];
    wide_values(r, v);
    const clq_element_values values = {
        .elements = WIDE_ELEMENTS, .channels = WIDE_CHANNELS, .inputs = {v[0], v[1], v[2]}, .outputs = {v[3]}};
    clq_elementwise(r->list, "narrow", &p, &values);
    clq_launch_info info;
    clq_list_launch_info(r->list, 0, &info);
    char options[2048];
    assert_null(strstr(info.options, "WIDE"));
    assert_true((size_t)snprintf(options, sizeof options, "%s -DWIDE", info.options) < sizeof options);
    size_t global = info.global[0], local = info.local[0];
    run_wide(r, v, numbers, narrow);
    wide_values(r, v);
    clq_launch_begin(r->list, "wide", "elementwise", options, "elementwise");
    clq_launch_param(r->list, CLQ_PARAM_COUNT);
    clq_launch_int(r->list, WIDE_ELEMENTS);
    clq_launch_int(r->list, WIDE_CHANNELS);
    clq_launch_param(r->list, CLQ_PARAM_STEP);
    clq_launch_param(r->list, CLQ_PARAM_FIRST_ROW);
    for (size_t i = 0; i < 4; i++) clq_launch_value(r->list, v[i], i < 3 ? CLQ_READS : CLQ_WRITES);
    const int words[] = {5, 0, 3 << 24 | 6, (int)0x80000000u}; /* seed, stream, threshold */
    for (size_t i = 0; i < 4; i++) clq_launch_int(r->list, words[i]);
    clq_launch_float(r->list, 2);
    clq_launch_work(r->list, 1, &global, &local, -1, 0, 0);
    run_wide(r, v, numbers, wide);
    assert_memory_equal(narrow, wide, sizeof narrow);
    clq_free(numbers);
    clq_free(unused);
}

/* ---- what fits ---- */

static void test_what_fits(void **state) {
    (void)state;
    const clq_element_program good = {
        .input_count = 1,
        .instructions = {{.op = CLQ_ELEMENT_INPUT}, {.op = CLQ_ELEMENT_ADD}},
        .instruction_count = 2,
        .outputs = {{.from = 1}},
        .output_count = 1,
    };
    assert_true(clq_element_program_fits(&good));
    clq_element_program p = good;
    p.instructions[1].b = 1; /* of itself */
    assert_false(clq_element_program_fits(&p));
    p = good, p.instructions[0].a = 1; /* no such input */
    assert_false(clq_element_program_fits(&p));
    p = good, p.outputs[0].from = 2;
    assert_false(clq_element_program_fits(&p));
    p = good, p.outputs[0].dtype = CLQ_F16;
    assert_true(clq_element_program_fits(&p));
    p = good, p.outputs[0].dtype = CLQ_U8;
    assert_false(clq_element_program_fits(&p));
    p = good, p.inputs[0].dtype = CLQ_F64;
    assert_false(clq_element_program_fits(&p));
    p = good, p.inputs[0] = (struct clq_element_input){.kind = CLQ_ONE_FOR_ALL, .dtype = CLQ_U8};
    assert_false(clq_element_program_fits(&p));
    p = good, p.inputs[0] = (struct clq_element_input){.kind = CLQ_ONE_FOR_ALL, .dtype = CLQ_F16};
    assert_false(clq_element_program_fits(&p));
    p = good, p.output_count = 0; /* of no use */
    assert_false(clq_element_program_fits(&p));
    p = good, p.instructions[1] = (clq_instruction){.op = CLQ_ELEMENT_DROPOUT, .number = 1};
    assert_false(clq_element_program_fits(&p));
    p.instructions[1].number = 0.5;
    assert_true(clq_element_program_fits(&p));
    while (p.instruction_count < 8) clq_element_do(&p, p.instructions[1]);
    assert_true(clq_element_program_fits(&p)); /* seven dropouts: 23 words */
    clq_element_do(&p, p.instructions[1]);
    assert_false(clq_element_program_fits(&p));
}

static void test_random_programs(void **state) {
    (void)state;
    rig_each(random_programs);
}
static void test_accumulation(void **state) {
    (void)state;
    rig_each(accumulation);
}
static void test_functions(void **state) {
    (void)state;
    rig_each(functions);
}
static void test_not_a_number(void **state) {
    (void)state;
    rig_each(not_a_number);
}

static void test_wide_places(void **state) {
    (void)state;
    rig_each(wide_places);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_fits),    cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_accumulation), cmocka_unit_test(test_not_a_number),
        cmocka_unit_test(test_functions),    cmocka_unit_test(test_wide_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
