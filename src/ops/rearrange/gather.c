/* Rows of a table by number: embeddings. */
#include "ops/elementwise/cut.h"

static double bytes_of(const clq_list *list, const clq_gather_problem *p, clq_value y) {
    return (double)(p->tokens * p->width) * (double)(sizeof(float) + clq_dtype_bytes(clq_list_storage(list, y)));
}

void clq_gather(clq_list *list, const clq_gather_problem *p, clq_value x, clq_value table, clq_value y) {
    const double bytes = bytes_of(list, p, y), capacity = clq_list_capacity(list);
    const clq_cut cut = clq_cut_make(list, bytes * capacity, (double)(p->tokens * p->width) * capacity, 256);
    clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    clq_options_storage(&options, list, "X", x);
    clq_options_storage(&options, list, "Y", y);
    clq_launch_begin(list, "gather", "gather", options.text, "gather");
    CLQ_LAUNCH_READS(list, x, table);
    clq_launch_value(list, y, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, p->tokens, p->rows, p->width);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, (double)p->tokens, 0, bytes);
}

void clq_gather_gradient(clq_list *list, const clq_gather_problem *p, clq_value x, clq_value dy, clq_value dtable) {
    const double table = (double)(p->rows * p->width) * sizeof(float), bytes = bytes_of(list, p, dy);
    const clq_cut cut = clq_cut_make(list, table + bytes * clq_list_capacity(list), (double)(p->rows * p->width), 256);
    clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    clq_options_storage(&options, list, "X", x);
    clq_options_storage(&options, list, "DY", dy);
    clq_launch_begin(list, "gather gradient", "gather", options.text, "gather_gradient");
    CLQ_LAUNCH_READS(list, x, dy);
    clq_launch_value(list, dtable, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, p->tokens, p->rows, p->width, cut.groups);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, (double)(p->tokens * p->width), table, bytes);
}
