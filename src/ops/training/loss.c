/* A loss, its gradient and metrics in one launch, or in two if the sums have several shares. Bins take two more. */
#include "ops/elementwise/cut.h"

/* Adds up the shares, one per work-group, into the metrics. */
static void sum_shares(clq_list *list, const clq_cut *cut, const char *options, const clq_loss_problem *p,
                       clq_value shares, clq_value metrics) {
    double floats = (double)cut->groups * clq_loss_sums(p);
    clq_launch_begin(list, "metrics", "loss", options, "sum_shares");
    clq_launch_value(list, shares, CLQ_READS);
    clq_launch_size(list, cut->groups);
    clq_launch_value(list, metrics, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_SLOT);
    CLQ_LAUNCH_SIZES(list, clq_loss_metrics_width(p), p->metrics_at);
    clq_launch_local(list, cut->group * sizeof(float));
    clq_cut_work_one(list, cut);
    clq_launch_cost(list, floats, 0, 4 * floats, 0);
}

static void clear_bins(clq_list *list, const clq_cut *cut, const char *options, size_t count, clq_value bins) {
    clq_launch_begin(list, "clear bins", "loss", options, "clear_bins");
    clq_launch_value(list, bins, CLQ_WRITES);
    clq_launch_size(list, count);
    clq_cut_work_one(list, cut);
    clq_launch_cost(list, 0, 0, (double)count * sizeof(int32_t), 0);
}

/* Stores the counts as floats in the row of metrics. */
static void store_bins(clq_list *list, const clq_cut *cut, const char *options, const clq_loss_problem *p,
                       clq_value bins, clq_value metrics) {
    const size_t count = clq_loss_bins(p);
    clq_launch_begin(list, "store bins", "loss", options, "store_bins");
    clq_launch_value(list, bins, CLQ_READS);
    clq_launch_size(list, count);
    clq_launch_value(list, metrics, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_SLOT);
    CLQ_LAUNCH_SIZES(list, clq_loss_metrics_width(p), p->metrics_at + clq_loss_sums(p));
    clq_cut_work_one(list, cut);
    clq_launch_cost(list, 0, 0, 2 * (double)count * sizeof(float), 0);
}

/* The skipped activation, if a metric takes its result. Otherwise LINEAR: metrics with `ranks` take x itself. */
static clq_activation skipped_activation(const clq_loss_problem *p) {
    for (unsigned i = 0; i < p->metric_count; i++)
        if (!clq_metric_row_of(p->metrics[i])->ranks) return p->skipped;
    return CLQ_ACTIVATION_LINEAR;
}

static bool wants_top(const clq_loss_problem *p, clq_activation skipped) {
    bool wants = (clq_loss_row_of(p->kind)->by_row && p->from_logits) || skipped == CLQ_ACTIVATION_SOFTMAX;
    for (unsigned i = 0; i < p->metric_count; i++) wants = wants || clq_metric_row_of(p->metrics[i])->ranks;
    return wants;
}

/* If the loss takes logits, tells the metrics that need it, and which activation turns the logits into
 * probabilities. */
static void add_logits(clq_kernel_options *options, const clq_loss_problem *p) {
    bool classes = false, probabilities = false;
    for (unsigned i = 0; i < p->metric_count && p->from_logits; i++) {
        classes = classes || clq_metric_row_of(p->metrics[i])->classes;
        probabilities = probabilities || clq_metric_row_of(p->metrics[i])->probabilities;
    }
    if (classes) clq_options_add(options, " -DLOGITS");
    const clq_activation own = clq_loss_row_of(p->kind)->activation;
    if (probabilities) clq_options_add(options, " -DPROBABLE=%d", (int)(p->skipped ? p->skipped : own));
}

static clq_kernel_options options_of(const clq_cut *cut, const clq_loss_problem *p, const clq_loss_values *v) {
    const clq_loss_row *row = clq_loss_row_of(p->kind);
    const clq_activation skipped = skipped_activation(p);
    clq_kernel_options options = clq_cut_options(
        cut, " -DLOSS=%s%s%s%s%s%s -DSKIPPED=%d -DTOTALS=%u -DMETRICS=%u",
        p->from_logits ? row->rule_of_logits : row->rule, row->by_row ? "" : " -DOF_VALUES",
        clq_loss_has_index(p) ? " -DSPARSE" : "", p->weighted ? " -DWEIGHTED" : "", v->dx ? " -DGRADIENT" : "",
        wants_top(p, skipped) ? " -DTOP" : "", (int)skipped, clq_loss_sums(p), p->metric_count);
    for (unsigned i = 0; i < p->metric_count; i++) {
        clq_options_add(&options, " -DMETRIC_%u=%s -DMETRIC_VALUE_%u=%.8ef", i, clq_metric_row_of(p->metrics[i])->rule,
                        i, (double)p->metric_values[i]);
        if (p->mask_steps > 0)
            clq_options_add(&options, " -DMETRIC_MASKED_%u=%d", i, clq_metric_is_masked(p->metrics[i]));
    }
    add_logits(&options, p);
    if (clq_loss_bins(p) > 0) clq_options_add(&options, " -DBINS");
    if (v->scaling) clq_options_add(&options, " -DSCALED");
    if (p->mask_steps > 0) clq_options_add(&options, " -DMASKED");
    return options;
}

static void add_factors(clq_list *list, const clq_loss_problem *p) {
    const float rows = (float)CLQ_MAX(p->rows, (size_t)1), smoothing = clq_loss_has_index(p) ? 0 : p->label_smoothing;
    clq_launch_param(list, CLQ_PARAM_SCALE);
    clq_launch_float(list, p->weight / rows);
    clq_launch_float(list, 1 / rows);
    clq_launch_float(list, smoothing);
    clq_launch_float(list, smoothing / (clq_loss_row_of(p->kind)->by_row ? (float)p->classes : 2));
    clq_launch_float(list, p->delta);
    clq_launch_float(list, p->gamma);
    const bool weighs = clq_loss_row_of(p->kind)->by_row || p->balanced;
    clq_launch_float(list, weighs ? p->alpha : 1);
    clq_launch_float(list, weighs ? 1 - p->alpha : 1);
}

void clq_loss_and_metrics(clq_list *list, const clq_loss_problem *p, const clq_loss_values *v) {
    size_t rows = CLQ_MAX(p->rows, (size_t)1);
    double values = (double)p->classes * (double)rows, capacity = clq_list_capacity(list);
    double bytes = values * sizeof(float) * (1 + (clq_loss_has_index(p) ? 0 : 1) + (v->dx ? 1 : 0));
    /* A group's items share a row. So there are no more groups than rows, and no more items than a row has use for. */
    size_t group = p->classes > 64 ? 256 : 64;
    clq_cut cut = clq_cut_make(list, capacity * bytes, capacity * (double)rows * (double)group, group);
    const clq_kernel_options options = options_of(&cut, p, v);
    bool whole = cut.groups == 1; /* the only share is the sum */
    const unsigned totals = clq_loss_sums(p), bin_count = clq_loss_bins(p);
    clq_value shares = v->metrics, bins = CLQ_NO_VALUE;
    if (bin_count > 0) {
        bins = clq_list_scratch(list, "bins of metrics", CLQ_I32, bin_count, 0);
        clear_bins(list, &cut, options.text, bin_count, bins);
    }
    if (!whole) shares = clq_list_scratch(list, "loss shares", CLQ_F32, cut.groups * totals, 0);
    clq_launch_begin(list, "loss", "loss", options.text, "loss_and_metrics");
    if (v->scaling) {
        clq_launch_value(list, v->scaling, CLQ_READS);
        clq_launch_float(list, v->initial);
    }
    if (p->mask_steps > 0) {
        CLQ_LAUNCH_READS(list, v->mask, v->counting, v->steps);
        clq_launch_size(list, rows / p->mask_steps);
    }
    if (bins) clq_launch_value(list, bins, CLQ_READS_WRITES);
    CLQ_LAUNCH_READS(list, v->x, v->targets);
    CLQ_LAUNCH_WRITES(list, v->dx, shares);
    if (whole)
        clq_launch_param(list, CLQ_PARAM_SLOT);
    else
        clq_launch_int(list, 0);
    CLQ_LAUNCH_SIZES(list, whole ? clq_loss_metrics_width(p) : totals, whole ? p->metrics_at : 0);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, rows, p->classes);
    add_factors(list, p);
    clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, values * (v->dx ? 20 : 12), 0, bytes);
    if (!whole) sum_shares(list, &cut, options.text, p, shares, v->metrics);
    if (bins) store_bins(list, &cut, options.text, p, bins, v->metrics);
}
