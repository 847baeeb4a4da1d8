/* Elementwise programs: their text for compilers, their launches, and the sums over rows that go with them. */
#include "ops/elementwise/cut.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- operations ---- */

enum { FLOPS_OF_EXP = 12, FLOPS_OF_PHILOX = 100 };

/* For each clq_element_op: how many registers it takes, how many words of the kernel's arguments, and its cost. */
static const struct operation {
    unsigned registers, words;
    double flops;
} operations[CLQ_ELEMENT_OPS] = {
    [CLQ_ELEMENT_INPUT] = {0, 0, 0},
    [CLQ_ELEMENT_CONSTANT] = {0, 1, 0},
    [CLQ_ELEMENT_ADD] = {2, 0, 1},
    [CLQ_ELEMENT_SUBTRACT] = {2, 0, 1},
    [CLQ_ELEMENT_MULTIPLY] = {2, 0, 1},
    [CLQ_ELEMENT_MAXIMUM] = {2, 0, 1},
    [CLQ_ELEMENT_MINIMUM] = {2, 0, 1},
    [CLQ_ELEMENT_NEGATE] = {1, 0, 1},
    [CLQ_ELEMENT_SQUARE] = {1, 0, 1},
    [CLQ_ELEMENT_SCALE] = {1, 1, 1},
    [CLQ_ELEMENT_RELU] = {1, 0, 1},
    [CLQ_ELEMENT_SIGMOID] = {1, 0, FLOPS_OF_EXP},
    [CLQ_ELEMENT_TANH] = {1, 0, FLOPS_OF_EXP},
    [CLQ_ELEMENT_RELU_SLOPE] = {2, 0, 1},
    [CLQ_ELEMENT_SIGMOID_SLOPE] = {2, 0, 3},
    [CLQ_ELEMENT_TANH_SLOPE] = {2, 0, 3},
    [CLQ_ELEMENT_GREATER] = {2, 0, 1},
    [CLQ_ELEMENT_AT_LEAST] = {2, 0, 1},
    [CLQ_ELEMENT_EQUAL] = {2, 0, 1},
    [CLQ_ELEMENT_SELECT] = {3, 0, 1},
    [CLQ_ELEMENT_DROPOUT] = {1, 3, FLOPS_OF_PHILOX},
    [CLQ_ELEMENT_MISH] = {1, 0, FLOPS_OF_EXP + 6},
    [CLQ_ELEMENT_MISH_SLOPE] = {2, 0, FLOPS_OF_EXP + 16},
    [CLQ_ELEMENT_SOFTPLUS] = {1, 0, 2 * FLOPS_OF_EXP},
    [CLQ_ELEMENT_SOFTPLUS_SLOPE] = {2, 0, FLOPS_OF_EXP},
    [CLQ_ELEMENT_DIVIDE] = {2, 0, 1},
    [CLQ_ELEMENT_EXP] = {1, 0, FLOPS_OF_EXP},
    [CLQ_ELEMENT_EXPM1] = {1, 0, FLOPS_OF_EXP},
    [CLQ_ELEMENT_LOG] = {1, 0, FLOPS_OF_EXP},
    [CLQ_ELEMENT_LOG1P] = {1, 0, FLOPS_OF_EXP},
    [CLQ_ELEMENT_SQRT] = {1, 0, 1},
    [CLQ_ELEMENT_ABS] = {1, 0, 1},
    [CLQ_ELEMENT_SIGN] = {1, 0, 1},
    [CLQ_ELEMENT_ERF] = {1, 0, 2 * FLOPS_OF_EXP},
    [CLQ_ELEMENT_SIN] = {1, 0, 2 * FLOPS_OF_EXP},
    [CLQ_ELEMENT_COS] = {1, 0, 2 * FLOPS_OF_EXP},
    [CLQ_ELEMENT_POWER] = {1, 1, 3 * FLOPS_OF_EXP},
    [CLQ_ELEMENT_NORMAL] = {0, 1, FLOPS_OF_PHILOX + 2 * FLOPS_OF_EXP},
};

bool clq_element_is_random(clq_element_op op) { return op == CLQ_ELEMENT_DROPOUT || op == CLQ_ELEMENT_NORMAL; }

bool clq_element_program_is_random(const clq_element_program *p) {
    for (size_t i = 0; i < p->instruction_count; i++)
        if (clq_element_is_random(p->instructions[i].op)) return true;
    return false;
}

unsigned clq_element_operands(clq_element_op op) { return operations[op].registers; }

size_t clq_element_words(const clq_element_program *p) {
    size_t words = clq_element_program_is_random(p) ? p->slice.whole ? 4 : 2 : 0; /* the seed; the slice */
    for (size_t i = 0; i < p->instruction_count; i++) words += operations[p->instructions[i].op].words;
    return words;
}

unsigned clq_element_do(clq_element_program *p, clq_instruction instruction) {
    assert(p->instruction_count < CLQ_ELEMENT_INSTRUCTIONS);
    p->instructions[p->instruction_count] = instruction;
    return (unsigned)p->instruction_count++;
}

unsigned clq_element_take(clq_element_program *p, struct clq_element_input input) {
    assert(p->input_count < CLQ_ELEMENT_INPUTS);
    p->inputs[p->input_count++] = input;
    return clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_INPUT, .a = (unsigned)p->input_count - 1});
}

static bool instruction_fits(const clq_element_program *p, size_t index) {
    const clq_instruction *i = &p->instructions[index];
    if (i->op >= CLQ_ELEMENT_OPS) return false;
    if (i->op == CLQ_ELEMENT_INPUT) return i->a < p->input_count;
    if (clq_element_is_random(i->op) && i->stream >= 1u << 24) return false;
    if (i->op == CLQ_ELEMENT_DROPOUT && !(i->number >= 0 && i->number < 1)) return false;
    unsigned registers = operations[i->op].registers;
    return (registers < 1 || i->a < index) && (registers < 2 || i->b < index) && (registers < 3 || i->c < index);
}

static bool is_float(clq_dtype dtype) { return dtype == CLQ_F32 || dtype == CLQ_F16 || dtype == CLQ_BF16; }

static bool inputs_fit(const clq_element_program *p) {
    for (size_t j = 0; j < p->input_count; j++) {
        const clq_dtype dtype = p->inputs[j].dtype;
        const clq_element_kind kind = p->inputs[j].kind;
        const bool several = kind == CLQ_EACH_ELEMENT || kind == CLQ_EACH_CHANNEL;
        if (dtype != CLQ_F32 && !(is_float(dtype) && several) && !(dtype == CLQ_U8 && kind == CLQ_EACH_ELEMENT))
            return false;
    }
    return true;
}

bool clq_element_program_fits(const clq_element_program *p) {
    if (p->input_count > CLQ_ELEMENT_INPUTS || p->output_count > CLQ_ELEMENT_OUTPUTS ||
        p->sum_count > CLQ_ELEMENT_SUMS || p->instruction_count > CLQ_ELEMENT_INSTRUCTIONS || !inputs_fit(p) ||
        p->output_count + p->sum_count == 0)
        return false;
    for (size_t i = 0; i < p->instruction_count; i++)
        if (!instruction_fits(p, i)) return false;
    for (size_t k = 0; k < p->output_count; k++)
        if (p->outputs[k].from >= p->instruction_count || !is_float(p->outputs[k].dtype)) return false;
    for (size_t k = 0; k < p->sum_count; k++)
        if (p->sums[k] >= p->instruction_count) return false;
    return clq_element_words(p) <= CLQ_ELEMENT_WORDS;
}

/* Arithmetic of one element. */
static double flops_of(const clq_element_program *p) {
    double flops = (double)p->sum_count;
    for (size_t i = 0; i < p->instruction_count; i++) flops += operations[p->instructions[i].op].flops;
    return CLQ_MAX(flops, 1.0);
}

/* The memory traffic of one sample's values. Vectors per channel stay in caches, and are not counted. */
static double bytes_of(const clq_element_program *p, size_t elements) {
    double bytes = 0;
    for (size_t k = 0; k < p->output_count; k++) bytes += (double)clq_dtype_bytes(p->outputs[k].dtype);
    for (size_t j = 0; j < p->input_count; j++)
        if (p->inputs[j].kind == CLQ_EACH_ELEMENT) bytes += (double)clq_dtype_bytes(p->inputs[j].dtype);
    return bytes * (double)elements;
}

clq_dropout_words clq_dropout_words_of(double rate) {
    assert(rate >= 0 && rate < 1);
    return (clq_dropout_words){.threshold = (uint32_t)fmin(round(rate * 0x1p32), 0x1p32 - 1),
                               .scale = (float)(1 / (1 - rate))};
}

/* ---- the program's text and arguments ---- */

typedef struct program_text {
    clq_kernel_options options;
    uint32_t words[CLQ_ELEMENT_WORDS];
    size_t word_count;
} program_text;

static uint32_t bits_of(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* Adds the words that an instruction takes, and the options that name them. */
static void add_words(program_text *t, const clq_instruction *instruction, size_t i) {
    static const char names[] = "WVU";
    uint32_t words[3] = {bits_of((float)instruction->number)};
    if (clq_element_is_random(instruction->op))
        words[0] = (uint32_t)(clq_random_stream(CLQ_RANDOM_DROPOUT, (uint64_t)instruction->stream << 32) >> 32);
    if (instruction->op == CLQ_ELEMENT_DROPOUT) {
        const clq_dropout_words w = clq_dropout_words_of(instruction->number);
        words[1] = w.threshold;
        words[2] = bits_of(w.scale);
    }
    for (unsigned k = 0; k < operations[instruction->op].words; k++) {
        clq_options_add(&t->options, " -D%c%zu=%zu", names[k], i, t->word_count);
        t->words[t->word_count++] = words[k];
    }
}

static void add_instruction(program_text *t, const clq_instruction *instruction, size_t i) {
    const unsigned operands[] = {instruction->a, instruction->b, instruction->c};
    size_t count = instruction->op == CLQ_ELEMENT_INPUT ? 1 : operations[instruction->op].registers;
    clq_options_add(&t->options, " -DOP%zu=%d", i, (int)instruction->op);
    for (size_t k = 0; k < count; k++) clq_options_add(&t->options, " -D%c%zu=%u", (int)('A' + (int)k), i, operands[k]);
    add_words(t, instruction, i);
}

/* A kind's number in cl/elementwise.cl. */
static int input_kind(const struct clq_element_input *input) {
    const bool half = input->dtype == CLQ_F16, bfloat = input->dtype == CLQ_BF16;
    if (input->kind == CLQ_EACH_CHANNEL && (half || bfloat)) return half ? 7 : 8;
    if (input->kind != CLQ_EACH_ELEMENT) return (int)input->kind + 1;
    return half ? 5 : bfloat ? 6 : input->dtype == CLQ_U8;
}

static double samples_most(const clq_list *list, const clq_element_values *v) {
    return v->whole ? 1 : clq_list_capacity(list);
}

/* Adds the options and words by which a program finds an element's channel, or its index in a sample. */
static void add_places(program_text *t, const clq_list *list, const clq_cut *cut, const clq_element_program *p,
                       const clq_element_values *v) {
    bool by_channel = false, random = clq_element_program_is_random(p);
    for (size_t j = 0; j < p->input_count; j++)
        by_channel =
            by_channel || p->inputs[j].kind == CLQ_EACH_CHANNEL || p->inputs[j].kind == CLQ_EACH_SAMPLE_AND_CHANNEL;
    bool wide = (double)v->elements * samples_most(list, v) >= 0x1p32;
    if (wide && (by_channel || random)) clq_options_add(&t->options, " -DWIDE");
    if (by_channel && v->channels % cut->lanes == 0) clq_options_add(&t->options, " -DALIGNED");
    if (!random) return;
    const size_t ends = p->slice.whole ? v->channels | p->slice.whole | p->slice.first : v->elements;
    clq_options_add(&t->options, " -DRANDOM%s%s%s", v->elements >= cut->lanes ? " -DLONG_SAMPLES" : "",
                    ends % 4 == 0 ? " -DBLOCKS" : "", p->slice.whole ? " -DSLICED" : "");
    t->words[t->word_count++] = (uint32_t)p->seed;
    t->words[t->word_count++] = (uint32_t)(p->seed >> 32);
    if (!p->slice.whole) return;
    t->words[t->word_count++] = (uint32_t)p->slice.whole;
    t->words[t->word_count++] = (uint32_t)p->slice.first;
}

static void add_program(program_text *t, const clq_list *list, const clq_cut *cut, const clq_element_program *p,
                        const clq_element_values *v) {
    t->options = clq_cut_options(cut, "%s", "");
    add_places(t, list, cut, p, v);
    for (size_t j = 0; j < p->input_count; j++) {
        clq_options_add(&t->options, " -DIN%zu=%d", j, input_kind(&p->inputs[j]));
        if (p->inputs[j].kind == CLQ_EACH_CHANNEL) clq_options_add(&t->options, " -DROW%zu=%u", j, p->inputs[j].row);
    }
    for (size_t i = 0; i < p->instruction_count; i++) add_instruction(t, &p->instructions[i], i);
    for (size_t k = 0; k < p->output_count; k++) {
        clq_options_add(&t->options, " -DOUT%zu=%u", k, p->outputs[k].from);
        if (p->outputs[k].dtype != CLQ_F32)
            clq_options_add(&t->options, " -DOUT%zu_STORAGE=%d", k, p->outputs[k].dtype == CLQ_F16 ? 1 : 2);
    }
    for (size_t k = 0; k < p->sum_count; k++) clq_options_add(&t->options, " -DSUM%zu=%u", k, p->sums[k]);
    clq_options_add(&t->options, " -DINPUTS=%zu -DOUTPUTS=%zu -DWORDS=%zu -DINSTRUCTIONS=%zu", p->input_count,
                    p->output_count, t->word_count, p->instruction_count);
}

/* The arguments that every kernel of a program has. */
static void add_arguments(clq_list *list, const program_text *t, const clq_element_program *p,
                          const clq_element_values *v) {
    if (v->whole)
        clq_launch_int(list, 1);
    else
        clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, v->elements, v->channels);
    if (clq_element_program_is_random(p)) {
        clq_launch_param(list, CLQ_PARAM_STEP);
        clq_launch_param(list, CLQ_PARAM_FIRST_ROW);
    }
    for (size_t j = 0; j < p->input_count; j++) clq_launch_value(list, v->inputs[j], CLQ_READS);
    for (size_t k = 0; k < p->output_count; k++) clq_launch_value(list, v->outputs[k], CLQ_WRITES);
    for (size_t n = 0; n < t->word_count; n++) clq_launch_int(list, (int)t->words[n]);
}

static void add_cost(clq_list *list, const clq_element_program *p, const clq_element_values *v) {
    double flops = flops_of(p) * (double)v->elements, bytes = bytes_of(p, v->elements);
    if (v->whole)
        clq_launch_cost(list, flops, 0, bytes, 0);
    else
        clq_launch_cost(list, 0, flops, 0, bytes);
}

static clq_cut cut_elements(const clq_list *list, const clq_element_program *p, const clq_element_values *v) {
    double samples = samples_most(list, v);
    return clq_cut_make(list, bytes_of(p, v->elements) * samples, (double)v->elements * samples / 4, 256);
}

/* ---- sums over rows ---- */

enum {
    SUM_ITEMS_PER_UNIT = 1024, /* work-items that hide the latency of a compute unit's memory, four loads each */
    SUM_ROWS_LEAST = 4,        /* per item: as many as it loads together */
    FOLD_COLUMNS_MOST = 8 /* channels of a work-group that folds: neighbours fill a memory transaction of 32 bytes */
};

typedef struct column_cut {
    clq_cut cut;
    size_t fold;          /* how many rows make one long row */
    size_t columns, rows; /* of a work-group */
    size_t column_groups, slices;
    size_t fold_columns; /* channels of a work-group that folds; only local kernels */
    size_t sums;
} column_cut;

static size_t greatest_divisor(size_t a, size_t b) {
    while (b) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static column_cut cut_columns(const clq_list *list, const clq_element_program *p, const clq_element_values *v) {
    column_cut c = {.cut = cut_elements(list, p, v), .fold_columns = 1, .sums = p->sum_count};
    size_t channels = v->channels, rows = v->elements / channels * (size_t)samples_most(list, v);
    if (c.cut.tile) { /* a long row is whole vectors; slices are long enough to be worth their sums */
        c.fold = c.cut.lanes / greatest_divisor(c.cut.lanes, channels);
        c.columns = c.rows = 1;
        size_t vectors = c.fold * channels / c.cut.lanes, long_rows = rows / c.fold;
        c.slices = CLQ_MAX(CLQ_MIN(long_rows / 64, c.cut.groups), (size_t)1);
        c.column_groups = CLQ_MAX(CLQ_MIN(vectors / 4, c.cut.groups / c.slices), (size_t)1);
    } else { /* a long row has at least one column for each item side by side */
        c.columns = CLQ_MIN((size_t)32, c.cut.group);
        c.rows = c.cut.group / c.columns;
        c.fold = clq_ceil_div(c.columns, channels);
        c.column_groups = clq_ceil_div(c.fold * channels, c.columns);
        size_t units = CLQ_MAX(clq_device_get_info(clq_list_device(list))->compute_units, 1u);
        size_t groups = units * SUM_ITEMS_PER_UNIT / c.cut.group; /* more slices would only make the fold longer */
        size_t most = rows / c.fold / (SUM_ROWS_LEAST * c.rows);
        c.slices = CLQ_MAX(CLQ_MIN(groups / c.column_groups, most), (size_t)1);
        while (c.fold_columns < CLQ_MIN((size_t)FOLD_COLUMNS_MOST, CLQ_MIN(channels, c.cut.group))) c.fold_columns *= 2;
    }
    return c;
}

static void add_sums(clq_list *list, const clq_element_values *v, size_t count) {
    for (size_t k = 0; k < count; k++) clq_launch_value(list, v->sums[k], CLQ_WRITES);
}

/* Adds up the slices' sums. Only a tile kernel with one work-item needs no fold. With local kernels, work-groups share
 * the channels. With tile kernels, one item adds to the first slice's sums. */
static void fold_columns(clq_list *list, const column_cut *c, const char *options, const clq_element_values *v,
                         clq_value shares) {
    double numbers = (double)(2 * c->sums * c->slices * c->fold * v->channels);
    clq_launch_begin(list, "row sums", "elementwise", options, "fold_columns");
    clq_launch_value(list, shares, c->cut.tile ? CLQ_READS_WRITES : CLQ_READS);
    CLQ_LAUNCH_SIZES(list, c->slices, c->fold, v->channels);
    if (c->cut.tile) {
        add_sums(list, v, c->sums);
        clq_cut_work_one(list, &c->cut);
    } else {
        size_t groups = clq_ceil_div(v->channels, c->fold_columns), group = c->cut.group;
        clq_launch_size(list, c->fold_columns);
        add_sums(list, v, c->sums);
        clq_launch_local(list, 2 * group * sizeof(float));
        clq_launch_work(list, 1, (size_t[]){groups * group}, (size_t[]){group}, -1, 0, 0);
    }
    clq_launch_cost(list, numbers * 6, 0, numbers * sizeof(float), 0);
}

/* How many elements an item fetches before it stores any. In a program of many operations, the operations and not the
 * memory take the time, so one element is enough. */
static int together(const clq_element_program *p) { return flops_of(p) < FLOPS_OF_EXP ? 4 : 1; }

static void with_sums(clq_list *list, const char *label, const clq_element_program *p, const clq_element_values *v) {
    column_cut c = cut_columns(list, p, v);
    program_text t = {.word_count = 0};
    add_program(&t, list, &c.cut, p, v);
    clq_options_add(&t.options, " -DSUMS=%zu", p->sum_count);
    if (!c.cut.tile)
        clq_options_add(&t.options, " -DCOLUMNS=%zu -DROWS=%zu -DTOGETHER=%d", c.columns, c.rows, together(p));
    size_t numbers = 2 * c.sums * c.slices * c.fold * v->channels;
    clq_value shares = clq_list_scratch(list, "column sums", CLQ_F32, numbers, 0);
    clq_launch_begin(list, label, "elementwise", t.options.text, "elementwise_sums");
    add_arguments(list, &t, p, v);
    clq_launch_value(list, shares, CLQ_WRITES);
    clq_launch_size(list, c.fold);
    add_sums(list, v, c.sums);
    clq_launch_local(list, 2 * c.sums * c.columns * c.rows * sizeof(float));
    clq_launch_work(list, 2, (size_t[]){c.column_groups * c.columns, c.slices * c.rows}, (size_t[]){c.columns, c.rows},
                    -1, 0, 0);
    add_cost(list, p, v);
    if (!c.cut.tile || c.slices * c.column_groups > 1) fold_columns(list, &c, t.options.text, v, shares);
}

void clq_elementwise(clq_list *list, const char *label, const clq_element_program *p, const clq_element_values *v) {
    assert(v->elements % v->channels == 0 && !(v->whole && clq_element_program_is_random(p)));
    if (!clq_element_program_fits(p)) {
        clq_list_latch(list, clq_fail(CLQ_ERROR_INTERNAL,
                                      "an elementwise program of %zu instructions and %zu numbers is too long",
                                      p->instruction_count, clq_element_words(p)));
        return;
    }
    if (p->sum_count > 0) {
        with_sums(list, label, p, v);
        return;
    }
    clq_cut cut = cut_elements(list, p, v);
    program_text t = {.word_count = 0};
    add_program(&t, list, &cut, p, v);
    clq_launch_begin(list, label, "elementwise", t.options.text, "elementwise");
    add_arguments(list, &t, p, v);
    clq_cut_work(list, &cut);
    add_cost(list, p, v);
}
