/* Samples to the first layer's floats. */
#include "ops/elementwise/cut.h"

void clq_input_u8(clq_list *list, size_t elements, clq_value x, clq_value y) {
    double n = (double)elements, full = n * clq_list_capacity(list);
    clq_cut cut = clq_cut_make(list, full * 5, full / 4, 256);
    char options[CLQ_CUT_OPTIONS];
    clq_cut_options(&cut, options, "%s", "");
    clq_launch_begin(list, "input", "input", options, "input_u8");
    clq_launch_value(list, x, CLQ_READS);
    clq_launch_value(list, y, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_int(list, clq_cut_int(elements));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, n, 0, n * 5);
}
