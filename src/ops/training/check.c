/* Checks of values in memory. */
#include "ops/elementwise/cut.h"

void clq_block_hashes(clq_list *list, size_t blocks, clq_value x, clq_value hashes) {
    const double words = (double)blocks * CLQ_UPDATE_BLOCK;
    const clq_cut cut = clq_cut_make(list, words * sizeof(uint32_t), (double)blocks, 64);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    clq_launch_begin(list, "hash", "check", options.text, "block_hashes");
    clq_launch_value(list, x, CLQ_READS);
    clq_launch_size(list, blocks);
    clq_launch_value(list, hashes, CLQ_WRITES);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, 0, words * sizeof(uint32_t) + (double)blocks * sizeof(uint64_t), 0);
}

void clq_find_not_finite(clq_list *list, size_t elements, bool per_sample, int place, clq_value x, clq_value first) {
    const double batch = per_sample ? (double)clq_list_capacity(list) : 1;
    const double numbers = (double)elements * batch, bytes = (double)elements * sizeof(float);
    const clq_cut cut = clq_cut_make(list, numbers * sizeof(float), numbers, 64);
    clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    clq_options_storage(&options, list, "X", x);
    clq_launch_begin(list, "check", "check", options.text, "not_finite");
    clq_launch_value(list, x, CLQ_READS);
    clq_launch_size(list, per_sample ? 0 : elements);
    clq_launch_size(list, per_sample ? elements : 0);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_int(list, place);
    clq_launch_value(list, first, CLQ_READS_WRITES);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, 0, per_sample ? 0 : bytes, per_sample ? bytes : 0);
}
