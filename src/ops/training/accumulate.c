/* Sums of gradients over several batches. */
#include "ops/elementwise/cut.h"

void clq_accumulate(clq_list *list, size_t floats, clq_value x, clq_value sum) {
    const double bytes = 3.0 * (double)floats * sizeof(float);
    const clq_cut cut = clq_cut_make(list, bytes, (double)floats / 4, 256);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    clq_launch_begin(list, "accumulate", "accumulate", options.text, "accumulate");
    clq_launch_value(list, sum, CLQ_READS_WRITES);
    clq_launch_value(list, x, CLQ_READS);
    clq_launch_size(list, floats);
    clq_launch_param(list, CLQ_PARAM_SUM_FACTOR);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 2 * (double)floats, 0, bytes, 0);
}
