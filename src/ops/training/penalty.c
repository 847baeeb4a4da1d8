/* Penalties on weights. */
#include "ops/elementwise/cut.h"

void clq_penalty_loss(clq_list *list, const clq_penalty_problem *p, clq_value w, clq_value metrics) {
    const double bytes = (double)p->elements * sizeof(float);
    const clq_cut cut = clq_cut_make(list, bytes, (double)p->elements, 256);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    clq_launch_begin(list, "loss", "penalty", options.text, "penalty_loss");
    clq_launch_value(list, w, CLQ_READS);
    clq_launch_value(list, metrics, CLQ_READS_WRITES);
    clq_launch_param(list, CLQ_PARAM_SLOT);
    clq_launch_size(list, p->metrics_width);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_size(list, p->elements);
    clq_launch_float(list, (float)p->l1);
    clq_launch_float(list, (float)p->l2);
    clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work_one(list, &cut);
    clq_launch_cost(list, 2 * (double)p->elements, 0, bytes, 0);
}

void clq_penalty_gradient(clq_list *list, const clq_penalty_problem *p, float initial, clq_value state, clq_value w,
                          clq_value dw) {
    const double bytes = 2 * (double)p->elements * sizeof(float);
    const clq_cut cut = clq_cut_make(list, bytes, (double)p->elements, 256);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", state != CLQ_NO_VALUE ? " -DSCALED" : "");
    clq_launch_begin(list, "gradient", "penalty", options.text, "penalty_gradient");
    if (state) {
        clq_launch_value(list, state, CLQ_READS);
        clq_launch_float(list, initial);
    }
    clq_launch_value(list, w, CLQ_READS);
    clq_launch_value(list, dw, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_SCALE);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_size(list, p->elements);
    clq_launch_float(list, (float)p->l1);
    clq_launch_float(list, (float)p->l2);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 3 * (double)p->elements, 0, bytes, 0);
}
