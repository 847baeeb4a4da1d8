/* Slices of channels. */
#include "ops/elementwise/cut.h"

#include <assert.h>

void clq_copy_channels(clq_list *list, size_t rows, size_t channels, clq_slice_of_channels from,
                       clq_slice_of_channels to, clq_value x, clq_value y) {
    assert(channels > 0 && from.offset + channels <= from.width && to.offset + channels <= to.width);
    const size_t number = clq_dtype_bytes(clq_list_storage(list, x)) + clq_dtype_bytes(clq_list_storage(list, y));
    double numbers = (double)(rows * channels), bytes = numbers * (double)number;
    double capacity = clq_list_capacity(list);
    clq_cut cut = clq_cut_make(list, bytes * capacity, numbers * capacity / 4, 256);
    size_t width = cut.tile ? 1 : clq_cut_pack(&cut, channels | from.width | from.offset | to.width | to.offset);
    clq_kernel_options options = clq_cut_options(&cut, " -DWIDTH=%zu", width);
    clq_options_storage(&options, list, "X", x);
    clq_options_storage(&options, list, "Y", y);
    clq_launch_begin(list, "copy", "copy", options.text, "copy_channels");
    clq_launch_value(list, x, CLQ_READS);
    clq_launch_value(list, y, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, rows, channels / width, from.width / width, from.offset / width, to.width / width,
                     to.offset / width);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, numbers, 0, bytes);
}
