/* Attention over rows of keys and values that are kept, for tokens that come one after another. */
#include "ops/elementwise/cut.h"

enum { GROUP_MOST = 256 };

static size_t key_row(const clq_cached_problem *p) { return p->shared * p->key; }
static size_t value_row(const clq_cached_problem *p) { return p->shared * p->value; }

double clq_cached_flops(const clq_cached_problem *p) {
    const size_t rows = p->window ? CLQ_MIN(p->window, p->context) : p->context;
    return 2.0 * (double)rows * (double)p->heads * (double)(p->key + p->value);
}

void clq_cached_append(clq_list *list, const clq_cached_problem *p, clq_value k, clq_value v, clq_value places,
                       clq_value keys, clq_value values) {
    const size_t numbers = key_row(p) + value_row(p);
    const double bytes = 2.0 * (double)clq_values_bytes(CLQ_F32, numbers), capacity = clq_list_capacity(list);
    const clq_cut cut = clq_cut_make(list, bytes * capacity, (double)numbers * capacity, 64);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    clq_launch_begin(list, "append", "cached", options.text, "cached_append");
    CLQ_LAUNCH_READS(list, k, v, places);
    CLQ_LAUNCH_WRITES(list, keys, values);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, p->context, key_row(p), value_row(p));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, 0, 0, bytes);
}

void clq_cached_attend(clq_list *list, const clq_cached_problem *p, clq_value q, clq_value keys, clq_value values,
                       clq_value places, clq_value y) {
    const double bytes = (double)clq_values_bytes(CLQ_F32, p->context * (key_row(p) + value_row(p))),
                 capacity = clq_list_capacity(list);
    size_t group = 32;
    while (group < GROUP_MOST && group < CLQ_MAX(p->context / 2, p->value)) group *= 2;
    const clq_cut cut = clq_cut_make(list, bytes * capacity, (double)(p->heads * group) * capacity, group);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    const clq_value scores = clq_list_scratch(list, "scores", CLQ_F32, 0, p->heads * p->context);
    clq_launch_begin(list, "attend", "cached", options.text, "cached_attend");
    CLQ_LAUNCH_READS(list, q, keys, values, places);
    CLQ_LAUNCH_WRITES(list, y, scores);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, p->context, p->heads, p->shared, p->key, p->value,
                     p->window ? CLQ_MIN(p->window, p->context) : p->context);
    clq_launch_float(list, (float)p->scale);
    if (!cut.tile) clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, clq_cached_flops(p), 0, bytes);
}
