/* Cross-entropy: loss, gradient and metrics. */
#include "ops/elementwise/cut.h"

#include <stdio.h>

/* Adds the shares (loss, right answers) up into the metrics. */
static void sum_shares(clq_list *list, const clq_cut *cut, const char *options, clq_value shares, clq_value metrics) {
    clq_launch_begin(list, "metrics", "loss", options, "sum_shares");
    clq_launch_value(list, shares, CLQ_READS);
    clq_launch_int(list, clq_cut_int(cut->groups));
    clq_launch_value(list, metrics, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_SLOT);
    clq_launch_local(list, cut->group * sizeof(float));
    clq_cut_work_one(list, cut);
    clq_launch_cost(list, 2 * (double)cut->groups, 0, 8 * (double)cut->groups, 0);
}

void clq_cross_entropy(clq_list *list, const clq_loss_problem *p, clq_value x, clq_value labels, clq_value dx,
                       clq_value metrics) {
    bool sparse = p->kind == CLQ_LOSS_SPARSE_CATEGORICAL;
    double classes = (double)p->classes, capacity = clq_list_capacity(list);
    double bytes = classes * sizeof(float) * (1 + (sparse ? 0 : 1) + (dx ? 1 : 0));
    /* a group's items share a row: one row to a group, and no more items than it has use for */
    size_t group = p->classes > 64 ? 256 : 64;
    clq_cut cut = clq_cut_make(list, capacity * bytes, capacity * (double)group, group);
    char options[CLQ_CUT_OPTIONS];
    clq_cut_options(&cut, options, " -DLOSS%s%s%s", sparse ? " -DSPARSE" : "", p->from_logits ? " -DLOGITS" : "",
                    dx ? " -DGRADIENT" : "");
    bool whole = cut.groups == 1; /* its share is the sum */
    clq_value shares = metrics;
    if (!whole) shares = clq_list_value(list, CLQ_VALUE_SCRATCH, "loss shares", cut.groups * 2 * sizeof(float), 0);
    clq_launch_begin(list, "loss", "loss", options, "cross_entropy");
    clq_launch_value(list, x, CLQ_READS);
    clq_launch_value(list, labels, CLQ_READS);
    clq_launch_value(list, dx, CLQ_WRITES);
    clq_launch_value(list, shares, CLQ_WRITES);
    if (whole)
        clq_launch_param(list, CLQ_PARAM_SLOT);
    else
        clq_launch_int(list, 0);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_int(list, clq_cut_int(p->classes));
    clq_launch_param(list, CLQ_PARAM_SCALE);
    clq_launch_float(list, sparse ? 0 : p->label_smoothing);
    clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, classes * (dx ? 20 : 12), 0, bytes);
    if (!whole) sum_shares(list, &cut, options, shares, metrics);
}
