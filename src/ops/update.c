/* Optimizer updates and sums of squares over flat arenas. */
#include "ops/cut.h"

#include <assert.h>

static void flat_size(clq_list *list, const clq_cut *cut, size_t floats) {
    clq_launch_int(list, clq_cut_int(floats / cut->lanes));
    clq_launch_int(list, (int)(floats % cut->lanes));
}

static clq_cut flat_cut(const clq_list *list, size_t floats, unsigned arrays) {
    return clq_cut_make(list, (double)floats * sizeof(float) * arrays, (double)floats / 4, 256);
}

void clq_update_sgd(clq_list *list, size_t floats, float momentum, bool nesterov, clq_value w, clq_value g,
                    clq_value v) {
    bool moves = momentum != 0;
    unsigned arrays = moves ? 5 : 3;
    clq_cut cut = flat_cut(list, floats, arrays);
    char options[CLQ_CUT_OPTIONS];
    clq_cut_options(&cut, options, "%s%s", moves ? " -DMOMENTUM" : "", moves && nesterov ? " -DNESTEROV" : "");
    clq_launch_begin(list, "update", "update", options, "update_sgd");
    clq_launch_value(list, w, CLQ_READS_WRITES);
    clq_launch_value(list, g, CLQ_READS);
    clq_launch_value(list, moves ? v : CLQ_NO_VALUE, CLQ_READS_WRITES);
    flat_size(list, &cut, floats);
    clq_launch_param(list, CLQ_PARAM_RATE);
    clq_launch_float(list, momentum);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, (double)floats * (moves ? 6 : 2), 0, (double)floats * sizeof(float) * arrays, 0);
}

void clq_update_adam(clq_list *list, size_t floats, double beta1, double beta2, double epsilon, clq_value w,
                     clq_value g, clq_value m, clq_value v) {
    clq_cut cut = flat_cut(list, floats, 7);
    char options[CLQ_CUT_OPTIONS];
    clq_cut_options(&cut, options, "%s", "");
    clq_launch_begin(list, "update", "update", options, "update_adam");
    clq_launch_value(list, w, CLQ_READS_WRITES);
    clq_launch_value(list, g, CLQ_READS);
    clq_launch_value(list, m, CLQ_READS_WRITES);
    clq_launch_value(list, v, CLQ_READS_WRITES);
    flat_size(list, &cut, floats);
    clq_launch_param(list, CLQ_PARAM_RATE);
    clq_launch_float(list, (float)(1 - beta1)); /* rounded once, after the subtraction */
    clq_launch_float(list, (float)(1 - beta2));
    clq_launch_float(list, (float)epsilon);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, (double)floats * 11, 0, (double)floats * sizeof(float) * 7, 0);
}

void clq_square_sum(clq_list *list, size_t floats, clq_value x, size_t offset_bytes, clq_value out, size_t index) {
    assert(offset_bytes % sizeof(float) == 0);
    clq_cut cut = flat_cut(list, floats, 1);
    char options[CLQ_CUT_OPTIONS];
    clq_cut_options(&cut, options, "%s", "");
    bool whole = cut.groups == 1;
    clq_value shares = out;
    if (!whole) shares = clq_list_value(list, CLQ_VALUE_SCRATCH, "square sums", cut.groups * sizeof(float), 0);
    clq_launch_begin(list, "square sum", "update", options, "square_sum");
    clq_launch_value(list, x, CLQ_READS);
    clq_launch_int(list, clq_cut_int(offset_bytes / sizeof(float)));
    flat_size(list, &cut, floats);
    clq_launch_value(list, shares, CLQ_WRITES);
    clq_launch_int(list, whole ? clq_cut_int(index) : 0);
    clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, (double)floats * 2, 0, (double)floats * sizeof(float), 0);
    if (whole) return;
    clq_launch_begin(list, "square sum", "update", options, "sum_shares");
    clq_launch_value(list, shares, CLQ_READS);
    clq_launch_int(list, clq_cut_int(cut.groups));
    clq_launch_value(list, out, CLQ_WRITES);
    clq_launch_int(list, clq_cut_int(index));
    clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work_one(list, &cut);
    clq_launch_cost(list, (double)cut.groups, 0, (double)cut.groups * sizeof(float), 0);
}
