/* Images whose pixels are moved by a rule that each sample draws. */
#include "ops/elementwise/cut.h"

void clq_warp(clq_list *list, const clq_warp_problem *p, clq_value x, clq_value draws, clq_value y) {
    const double capacity = clq_list_capacity(list), out = (double)(p->out_height * p->out_width),
                 numbers = out * (double)p->channels, bytes = 8 * numbers;
    const clq_cut cut = clq_cut_make(list, bytes * capacity, out * capacity, 256);
    clq_kernel_options options =
        clq_cut_options(&cut, " -DKIND=%d -DFILL=%d%s", (int)p->kind, (int)p->fill, p->nearest ? " -DNEAREST" : "");
    clq_options_storage(&options, list, "X", x);
    clq_options_storage(&options, list, "Y", y);
    clq_launch_begin(list, "warp", "warp", options.text, "warp");
    CLQ_LAUNCH_READS(list, x, draws);
    clq_launch_value(list, y, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, p->height, p->width, p->channels, p->out_height, p->out_width);
    for (unsigned i = 0; i < 2; i++) {
        clq_launch_float(list, (float)p->ranges[i][0]);
        clq_launch_float(list, (float)p->ranges[i][1]);
    }
    clq_launch_int(list, (int)p->flags);
    clq_launch_float(list, (float)p->value);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, 20 * numbers, 0, bytes);
}
