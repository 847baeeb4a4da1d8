/* Attention: over whole texts, and over cached keys and values, for tokens that come one after another. */
#include "ops/elementwise/cut.h"

enum { GROUP_MOST = 256 };

/* The number of items of a work-group, from the numbers of scores and of columns of values. */
static size_t group_of(size_t scores, size_t value) {
    size_t group = 32;
    while (group < GROUP_MOST && group < CLQ_MAX(scores / 2, value)) group *= 2;
    return group;
}

/* ---- over whole texts ---- */

static size_t matrices_of(const clq_attention_problem *p) { return p->counts[0] * p->counts[1]; }

double clq_attention_flops(const clq_attention_problem *p) {
    return 2.0 * (double)matrices_of(p) * (double)p->tokens * (double)p->others * (double)(p->key + p->value);
}

/* Traffic of memory beyond the caches. Every query reads the keys and values, but they count once. */
static double bytes_of(const clq_attention_problem *p) {
    const double numbers = (double)p->tokens * (double)(p->key + p->value + (p->masked ? p->others : 0)) +
                           (double)p->others * (double)(p->key + p->value);
    return (double)matrices_of(p) * numbers * (double)clq_dtype_bytes(CLQ_F32);
}

static void add_matrix(clq_list *list, const clq_batched_matrix *matrix) {
    CLQ_LAUNCH_SIZES(list, matrix->sample, matrix->pitch[0], matrix->pitch[1], matrix->row);
}

void clq_attention_forward(clq_list *list, const clq_attention_problem *p, clq_value q, clq_value k, clq_value v,
                           clq_value mask, clq_value y) {
    static const double flops_per_byte = 4; /* as for products of small matrices (batched.c) */
    static const char *const masks[] = {"", " -DADDS", " -DSELECTS"};
    const double capacity = clq_list_capacity(list), rows = (double)(matrices_of(p) * p->tokens);
    const size_t group = group_of(p->others, p->value);
    const clq_cut cut = clq_cut_make(list, (bytes_of(p) + clq_attention_flops(p) / flops_per_byte) * capacity,
                                     rows * (double)group * capacity, group);
    const clq_kernel_options options =
        clq_cut_options(&cut, "%s%s", cut.tile && p->k.column == 1 ? " -DDOT" : "", masks[p->masked]);
    const clq_value scores = clq_list_scratch(list, "scores", CLQ_F32, cut.groups * p->others, 0);
    clq_launch_begin(list, "attend", "attention", options.text, "attend");
    CLQ_LAUNCH_READS(list, q, k, v);
    if (p->masked) CLQ_LAUNCH_READS(list, mask);
    CLQ_LAUNCH_WRITES(list, y, scores);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, p->counts[0], p->counts[1], p->tokens, p->others, p->key, p->value);
    clq_launch_float(list, p->scale);
    clq_launch_float(list, p->low);
    add_matrix(list, &p->q);
    add_matrix(list, &p->k);
    clq_launch_size(list, p->k.column);
    add_matrix(list, &p->v);
    add_matrix(list, &p->y);
    add_matrix(list, &p->mask);
    clq_launch_size(list, p->mask.column);
    if (!cut.tile) clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, clq_attention_flops(p), 0, bytes_of(p));
}

/* ---- for tokens that come one after another ---- */

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
    clq_launch_begin(list, "append", "attention", options.text, "cached_append");
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
    const size_t group = group_of(p->context, p->value);
    const clq_cut cut = clq_cut_make(list, bytes * capacity, (double)(p->heads * group) * capacity, group);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    const clq_value scores = clq_list_scratch(list, "scores", CLQ_F32, 0, p->heads * p->context);
    clq_launch_begin(list, "attend", "attention", options.text, "cached_attend");
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
