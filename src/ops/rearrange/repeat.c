/* Values repeated along an axis, and summed over it. */
#include "ops/elementwise/cut.h"

/* x is the value with fewer numbers. */
static void add(clq_list *list, const clq_repeat_problem *p, const char *kernel, clq_value x, clq_value y,
                bool reduces) {
    const double small = (double)p->outer * (double)p->inner, large = small * (double)p->repeats;
    const double capacity = clq_list_capacity(list), of_x = (double)clq_dtype_bytes(clq_list_storage(list, x)),
                 of_y = (double)clq_dtype_bytes(clq_list_storage(list, y)), bytes = small * of_x + large * of_y;
    const bool spread = p->inner == 1;
    clq_cut cut = clq_cut_make(list, bytes * capacity, large * capacity / 4, 256);
    size_t width = clq_cut_pack(&cut, spread ? p->repeats : p->inner);
    clq_kernel_options options = clq_cut_options(&cut, " -DWIDTH=%zu%s", width, spread ? " -DSPREAD" : "");
    clq_options_storage(&options, list, "X", x);
    clq_options_storage(&options, list, "Y", y);
    clq_launch_begin(list, kernel, "repeat", options.text, kernel);
    clq_launch_value(list, reduces ? y : x, CLQ_READS);
    clq_launch_value(list, reduces ? x : y, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, p->outer, spread ? p->repeats / width : p->repeats, spread ? 1 : p->inner / width);
    clq_launch_float(list, p->scale);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, large, 0, bytes);
}

void clq_repeat(clq_list *list, const clq_repeat_problem *p, clq_value x, clq_value y) {
    add(list, p, "repeat", x, y, false);
}

void clq_reduce_axis(clq_list *list, const clq_repeat_problem *p, clq_value y, clq_value x) {
    add(list, p, "reduce", x, y, true);
}
