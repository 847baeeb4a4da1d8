/* The last stage of sums that were cut into slices (docs/decisions/029). */
#include "ops/elementwise/cut.h"

void clq_fold(clq_list *list, size_t slices, size_t numbers, clq_value partials, clq_value out) {
    const double all = (double)slices * (double)numbers;
    const clq_cut cut = clq_cut_make(list, all * sizeof(float), (double)numbers, 64);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    clq_launch_begin(list, "fold", "fold", options.text, "fold");
    clq_launch_value(list, partials, CLQ_READS);
    clq_launch_value(list, out, CLQ_WRITES);
    CLQ_LAUNCH_SIZES(list, slices, numbers);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, all, 0, all * sizeof(float), 0);
}

size_t clq_fold_slices(const clq_list *list, const clq_cut *cut, size_t rows, size_t numbers) {
    if (cut->tile) return CLQ_MIN(cut->groups, CLQ_MAX(rows, (size_t)1));
    const size_t units = CLQ_MAX(clq_device_get_info(clq_list_device(list))->compute_units, 1u);
    const size_t wished = clq_ceil_div(units * 1024, CLQ_MAX(numbers, (size_t)1)); /* items that hide latencies */
    return CLQ_MAX(CLQ_MIN(wished, rows / 4), (size_t)1);
}
