/* Compressing gradients with error feedback, and expanding messages. */
#include "ops/elementwise/cut.h"

#include <assert.h>

/* DIGIT_BINS: how many values the highest digit of a key can have (cl/compress.cl). */
enum { VECTOR_MOST = 16, DIGIT_BINS = 2048 };

static clq_cut cut_arena(const clq_list *list, size_t floats, unsigned arrays) {
    assert(floats % VECTOR_MOST == 0);
    return clq_cut_make(list, (double)floats * sizeof(float) * arrays, (double)floats / 4, 256);
}

/* All kernels get the same options, so that they are in one program. */
static clq_kernel_options options_of(const clq_cut *cut) { return clq_cut_options(cut, " -DBINS=%d", DIGIT_BINS); }

/* ---- halves ---- */

float clq_halves_most(unsigned ranks) {
    static const float most = 65504;
    const float part = most / (float)ranks;
    uint16_t half = clq_half_of_float(part);
    return clq_half_to_float(clq_half_to_float(half) > part ? (uint16_t)(half - 1) : half);
}

void clq_compress_halves(clq_list *list, size_t floats, unsigned ranks, clq_value gradient, clq_value error,
                         clq_value halves) {
    const clq_cut cut = cut_arena(list, floats, 3);
    const clq_kernel_options options = options_of(&cut);
    clq_launch_begin(list, "halves", "compress", options.text, "compress_halves");
    clq_launch_value(list, gradient, CLQ_READS);
    clq_launch_value(list, error, CLQ_READS_WRITES);
    clq_launch_value(list, halves, CLQ_WRITES);
    clq_launch_size(list, floats / cut.lanes);
    clq_launch_float(list, clq_halves_most(ranks));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 3 * (double)floats, 0, (double)floats * (3 * sizeof(float) + 2), 0);
}

void clq_expand_halves(clq_list *list, size_t floats, clq_value halves, clq_value gradient) {
    const clq_cut cut = cut_arena(list, floats, 1);
    const clq_kernel_options options = options_of(&cut);
    clq_launch_begin(list, "floats", "compress", options.text, "expand_halves");
    clq_launch_value(list, halves, CLQ_READS);
    clq_launch_value(list, gradient, CLQ_WRITES);
    clq_launch_size(list, floats / cut.lanes);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, (double)floats, 0, (double)floats * (sizeof(float) + 2), 0);
}

/* ---- the largest (top-k) ---- */

/* What the launches of a selection have in common. */
typedef struct selection {
    clq_list *list;
    clq_cut cut;
    clq_kernel_options options;
    size_t vectors, chosen;
    clq_value gradient, error, choice;
} selection;

static void begin_launch(const selection *s, const char *function) {
    clq_launch_begin(s->list, "largest", "compress", s->options.text, function);
}

static void decide_digit(const selection *s, clq_value counts, unsigned shift, unsigned bits) {
    const bool first = shift + bits == 31;
    const size_t shared = s->cut.tile ? 1 : DIGIT_BINS + s->cut.group;
    const double bytes = (double)(s->vectors * s->cut.lanes) * sizeof(float);
    begin_launch(s, "count_digits");
    clq_launch_value(s->list, s->gradient, CLQ_READS);
    clq_launch_value(s->list, s->error, first ? CLQ_READS_WRITES : CLQ_READS);
    clq_launch_value(s->list, first ? CLQ_NO_VALUE : s->choice, CLQ_READS);
    clq_launch_value(s->list, counts, CLQ_WRITES);
    CLQ_LAUNCH_SIZES(s->list, s->vectors, shift);
    clq_launch_int(s->list, first ? 0 : (int)(0x7fffffffu >> (shift + bits) << (shift + bits)));
    clq_launch_int(s->list, (1 << bits) - 1);
    clq_launch_int(s->list, first);
    clq_launch_local(s->list, shared * sizeof(uint32_t));
    clq_cut_work(s->list, &s->cut);
    clq_launch_cost(s->list, 0, 0, first ? 3 * bytes : bytes, 0);
    begin_launch(s, "pick_digit");
    clq_launch_value(s->list, counts, CLQ_READS);
    clq_launch_value(s->list, s->choice, first ? CLQ_WRITES : CLQ_READS_WRITES);
    CLQ_LAUNCH_SIZES(s->list, s->cut.groups, s->chosen, shift);
    clq_launch_int(s->list, first);
    clq_launch_local(s->list, shared * sizeof(uint32_t));
    clq_cut_work_one(s->list, &s->cut);
    clq_launch_cost(s->list, 0, 0, (double)(s->cut.groups * DIGIT_BINS) * sizeof(uint32_t), 0);
}

static void write_chosen(const selection *s, clq_value pairs) {
    const clq_value found = clq_list_scratch(s->list, "chosen by group", CLQ_U32, 2 * s->cut.groups, 0);
    const size_t shared = s->cut.tile ? 1 : 2 * s->cut.group;
    const double bytes = (double)(s->vectors * s->cut.lanes) * sizeof(float);
    begin_launch(s, "count_chosen");
    CLQ_LAUNCH_READS(s->list, s->error, s->choice);
    clq_launch_value(s->list, found, CLQ_WRITES);
    clq_launch_size(s->list, s->vectors);
    clq_launch_local(s->list, shared * sizeof(uint32_t));
    clq_cut_work(s->list, &s->cut);
    clq_launch_cost(s->list, 0, 0, bytes, 0);
    begin_launch(s, "write_chosen");
    clq_launch_value(s->list, s->error, CLQ_READS_WRITES);
    CLQ_LAUNCH_READS(s->list, s->choice, found);
    clq_launch_value(s->list, pairs, CLQ_WRITES);
    CLQ_LAUNCH_SIZES(s->list, s->vectors, s->chosen);
    clq_launch_local(s->list, shared * sizeof(uint32_t));
    clq_cut_work(s->list, &s->cut);
    clq_launch_cost(s->list, 0, 0, bytes, 0);
}

void clq_choose_largest(clq_list *list, size_t floats, size_t chosen, clq_value gradient, clq_value error,
                        clq_value pairs) {
    assert(chosen >= 1 && chosen <= floats);
    selection s = {
        .list = list, .cut = cut_arena(list, floats, 2), .chosen = chosen, .gradient = gradient, .error = error};
    s.options = options_of(&s.cut);
    s.vectors = floats / s.cut.lanes;
    s.choice = clq_list_scratch(list, "choice", CLQ_U32, 2, 0);
    const clq_value counts = clq_list_scratch(list, "digits", CLQ_U32, s.cut.groups * DIGIT_BINS, 0);
    decide_digit(&s, counts, 20, 11);
    decide_digit(&s, counts, 10, 10);
    decide_digit(&s, counts, 0, 10);
    write_chosen(&s, pairs);
}

void clq_add_pairs(clq_list *list, size_t floats, size_t chosen, unsigned ranks, clq_value pairs, clq_value gradient) {
    const clq_cut cut = cut_arena(list, floats, 1);
    const clq_kernel_options options = options_of(&cut);
    clq_launch_begin(list, "sum", "compress", options.text, "add_pairs");
    clq_launch_value(list, pairs, CLQ_READS);
    clq_launch_value(list, gradient, CLQ_WRITES);
    CLQ_LAUNCH_SIZES(list, floats / cut.lanes, chosen, ranks);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, (double)(ranks * chosen), 0,
                    (double)floats * sizeof(float) + (double)(ranks * chosen) * 4 * sizeof(float), 0);
}
