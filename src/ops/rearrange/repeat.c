/* Values repeated along an axis, and summed over it. */
#include "ops/elementwise/cut.h"

static void add(clq_list *list, const clq_repeat_problem *p, const char *kernel, clq_value from, clq_value to) {
    const double small = (double)p->outer * (double)p->inner, large = small * (double)p->repeats;
    const double capacity = clq_list_capacity(list), bytes = (small + large) * sizeof(float);
    const bool spread = p->inner == 1;
    clq_cut cut = clq_cut_make(list, bytes * capacity, large * capacity / 4, 256);
    size_t width = clq_cut_pack(&cut, spread ? p->repeats : p->inner);
    const clq_kernel_options options = clq_cut_options(&cut, " -DWIDTH=%zu%s", width, spread ? " -DSPREAD" : "");
    clq_launch_begin(list, kernel, "repeat", options.text, kernel);
    clq_launch_value(list, from, CLQ_READS);
    clq_launch_value(list, to, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, p->outer, spread ? p->repeats / width : p->repeats, spread ? 1 : p->inner / width);
    clq_launch_float(list, p->scale);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, large, 0, bytes);
}

void clq_repeat(clq_list *list, const clq_repeat_problem *p, clq_value x, clq_value y) { add(list, p, "repeat", x, y); }

void clq_reduce_axis(clq_list *list, const clq_repeat_problem *p, clq_value y, clq_value x) {
    add(list, p, "reduce", y, x);
}
