/* Checks of what is in memory. */
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
