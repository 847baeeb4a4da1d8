/* Normalisation of each row by itself. */
#include "ops/elementwise/cut.h"

enum { GROUP_MOST = 256 };

static size_t channels_of(const clq_row_norm_problem *p) { return p->groups * p->width; }
static size_t elements_of(const clq_row_norm_problem *p) { return p->outer * p->positions * channels_of(p); }

size_t clq_row_norm_rows(const clq_row_norm_problem *p) { return p->outer * p->groups; }

static double bytes_of(const clq_list *list, const clq_row_norm_problem *p, clq_value x, clq_value y) {
    return (double)elements_of(p) *
           (double)(clq_dtype_bytes(clq_list_storage(list, x)) + clq_dtype_bytes(clq_list_storage(list, y)));
}

static void add_sizes(clq_list *list, const clq_row_norm_problem *p) {
    CLQ_LAUNCH_SIZES(list, p->outer, p->positions, p->groups, p->width);
}

/* A tile takes rows. Without tiles, a work-group takes one row at a time, and its size is a power of two. */
static clq_cut cut_rows(const clq_list *list, const clq_row_norm_problem *p, double bytes) {
    const double capacity = clq_list_capacity(list), rows = (double)clq_row_norm_rows(p);
    size_t group = 32;
    while (group < GROUP_MOST && group < p->positions * p->width) group *= 2;
    return clq_cut_make(list, bytes * capacity, rows * (double)group * capacity, group);
}

static clq_kernel_options options_of(const clq_row_norm_problem *p, const clq_cut *cut, clq_value gamma) {
    return clq_cut_options(cut, "%s%s", p->centred ? " -DCENTRED" : "", gamma != CLQ_NO_VALUE ? " -DGAMMA" : "");
}

static void add_shared(clq_list *list, const clq_cut *cut) {
    if (!cut->tile) clq_launch_local(list, cut->group * sizeof(float));
}

void clq_row_norm_forward(clq_list *list, const clq_row_norm_problem *p, clq_value x, clq_value gamma, clq_value beta,
                          clq_value y, clq_value statistics) {
    const double bytes = bytes_of(list, p, x, y);
    const clq_cut cut = cut_rows(list, p, bytes);
    clq_kernel_options options = options_of(p, &cut, gamma);
    clq_options_add(&options, "%s%s", beta != CLQ_NO_VALUE ? " -DBETA" : "",
                    statistics != CLQ_NO_VALUE ? " -DKEEP" : "");
    clq_options_storage(&options, list, "X", x);
    clq_options_storage(&options, list, "Y", y);
    clq_launch_begin(list, "forward", "row_norm", options.text, "row_norm_forward");
    CLQ_LAUNCH_READS(list, x, gamma, beta);
    CLQ_LAUNCH_WRITES(list, y, statistics);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    add_sizes(list, p);
    clq_launch_float(list, (float)p->epsilon);
    add_shared(list, &cut);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, (double)elements_of(p) * 8, 0, bytes);
}

/* Adds up the partial sums that a launch left, gamma's before beta's, and copies them to dgamma and dbeta unless these
 * are none. */
static void hand_out(clq_list *list, const clq_row_norm_problem *p, size_t slices, clq_value partials, clq_value dgamma,
                     clq_value dbeta) {
    const size_t channels = channels_of(p);
    const clq_value both = clq_list_scratch(list, "gradients", CLQ_F32, 2 * channels, 0);
    clq_fold(list, slices, 2 * channels, partials, both);
    const clq_value to[] = {dgamma, dbeta};
    for (unsigned row = 0; row < 2; row++) {
        clq_element_program copy = {.output_count = 1};
        if (to[row] == CLQ_NO_VALUE) continue;
        copy.outputs[0].from =
            clq_element_take(&copy, (struct clq_element_input){.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32, .row = row});
        clq_elementwise(
            list, "gradient", &copy,
            &(clq_element_values){
                .elements = channels, .channels = channels, .whole = true, .inputs = {both}, .outputs = {to[row]}});
    }
}

/* Sums gamma's and beta's gradients over slices of all rows. The same launch computes dx, unless it is none. */
static void backward_by_tiles(clq_list *list, const clq_row_norm_problem *p, const clq_cut *rows, double bytes,
                              clq_value x, clq_value dy, clq_value statistics, clq_value gamma, clq_value dx,
                              clq_value dgamma, clq_value dbeta) {
    clq_cut cut = *rows;
    const bool sums = dgamma != CLQ_NO_VALUE || dbeta != CLQ_NO_VALUE;
    const size_t all = clq_row_norm_rows(p) * clq_list_capacity(list);
    const size_t slices = clq_fold_slices(list, &cut, all, 2 * channels_of(p));
    const clq_value partials =
        sums ? clq_list_scratch(list, "partial sums", CLQ_F32, slices * 2 * channels_of(p), 0) : CLQ_NO_VALUE;
    clq_kernel_options options = options_of(p, &cut, gamma);
    cut.groups = slices;
    clq_options_add(&options, "%s%s", sums ? " -DSUMS" : "", dx != CLQ_NO_VALUE ? " -DINPUT" : "");
    clq_options_storage(&options, list, "X", x);
    clq_options_storage(&options, list, "DY", dy);
    clq_options_storage(&options, list, "DX", dx);
    clq_launch_begin(list, "backward", "row_norm", options.text, "row_norm_backward");
    CLQ_LAUNCH_READS(list, x, dy, statistics, gamma);
    CLQ_LAUNCH_WRITES(list, dx, partials);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_size(list, slices);
    add_sizes(list, p);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, (double)elements_of(p) * 16, 0, bytes);
    if (sums) hand_out(list, p, slices, partials, dgamma, dbeta);
}

static void input_by_groups(clq_list *list, const clq_row_norm_problem *p, const clq_cut *cut, double bytes,
                            clq_value x, clq_value dy, clq_value statistics, clq_value gamma, clq_value dx) {
    clq_kernel_options options = options_of(p, cut, gamma);
    clq_options_storage(&options, list, "X", x);
    clq_options_storage(&options, list, "DY", dy);
    clq_options_storage(&options, list, "DX", dx);
    clq_launch_begin(list, "backward", "row_norm", options.text, "row_norm_backward");
    CLQ_LAUNCH_READS(list, x, dy, statistics, gamma);
    clq_launch_value(list, dx, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    add_sizes(list, p);
    add_shared(list, cut);
    clq_cut_work(list, cut);
    clq_launch_cost(list, 0, (double)elements_of(p) * 16, 0, bytes);
}

static void sums_by_groups(clq_list *list, const clq_row_norm_problem *p, double bytes, clq_value x, clq_value dy,
                           clq_value statistics, clq_value dgamma, clq_value dbeta) {
    const size_t channels = channels_of(p), blocks = p->outer * clq_list_capacity(list);
    clq_cut cut = clq_cut_make(list, bytes * clq_list_capacity(list), (double)channels * 64, 64);
    const size_t slices = clq_fold_slices(list, &cut, blocks, channels);
    const clq_value partials = clq_list_scratch(list, "partial sums", CLQ_F32, slices * 2 * channels, 0);
    clq_kernel_options options = options_of(p, &cut, CLQ_NO_VALUE);
    clq_options_storage(&options, list, "X", x);
    clq_options_storage(&options, list, "DY", dy);
    clq_launch_begin(list, "gradient sums", "row_norm", options.text, "row_norm_sums");
    CLQ_LAUNCH_READS(list, x, dy, statistics);
    clq_launch_value(list, partials, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_size(list, slices);
    add_sizes(list, p);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, (double)elements_of(p) * 4, 0, bytes);
    hand_out(list, p, slices, partials, dgamma, dbeta);
}

void clq_row_norm_backward(clq_list *list, const clq_row_norm_problem *p, clq_value x, clq_value dy,
                           clq_value statistics, clq_value gamma, clq_value dx, clq_value dgamma, clq_value dbeta) {
    const double bytes = 2 * bytes_of(list, p, x, dy);
    const clq_cut cut = cut_rows(list, p, bytes);
    if (cut.tile) {
        backward_by_tiles(list, p, &cut, bytes, x, dy, statistics, gamma, dx, dgamma, dbeta);
        return;
    }
    if (dx != CLQ_NO_VALUE) input_by_groups(list, p, &cut, bytes, x, dy, statistics, gamma, dx);
    if (dgamma != CLQ_NO_VALUE || dbeta != CLQ_NO_VALUE)
        sums_by_groups(list, p, bytes, x, dy, statistics, dgamma, dbeta);
}
