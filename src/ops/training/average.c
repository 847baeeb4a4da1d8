/* Multiplies values by a replica's share of a mean, or by a loss scale. */
#include "ops/elementwise/cut.h"

#include <assert.h>

void clq_weigh(clq_list *list, size_t floats, clq_value x) {
    const double bytes = 2 * (double)floats * sizeof(float);
    const clq_cut cut = clq_cut_make(list, bytes, (double)floats / 4, 256);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    assert(floats % cut.lanes == 0);
    clq_launch_begin(list, "weigh", "average", options.text, "weigh");
    clq_launch_value(list, x, CLQ_READS_WRITES);
    clq_launch_size(list, floats / cut.lanes);
    clq_launch_param(list, CLQ_PARAM_SCALE);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, (double)floats, 0, bytes, 0);
}

void clq_scale_by_state(clq_list *list, size_t floats, float initial, bool over, clq_value state, clq_value x) {
    const double bytes = 2 * (double)floats * sizeof(float);
    const clq_cut cut = clq_cut_make(list, bytes, (double)floats / 4, 256);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    assert(floats % cut.lanes == 0);
    clq_launch_begin(list, "loss scale", "average", options.text, "scale_by_state");
    clq_launch_value(list, x, CLQ_READS_WRITES);
    clq_launch_size(list, floats / cut.lanes);
    clq_launch_value(list, state, CLQ_READS);
    clq_launch_float(list, initial);
    clq_launch_int(list, over);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, (double)floats, 0, bytes, 0);
}
