/* Optimizer updates over flat arenas. */
#include "ops/elementwise/cut.h"

#include <assert.h>

static clq_cut flat_cut(const clq_list *list, size_t floats, unsigned arrays) {
    return clq_cut_make(list, (double)floats * sizeof(float) * arrays, (double)floats / 4, 256);
}

static void add_range(clq_list *list, clq_value arena, size_t first, size_t floats, clq_access access) {
    clq_launch_value_at(list, arena, clq_values_bytes(CLQ_F32, first), clq_values_bytes(CLQ_F32, floats), access);
}

static void add_part(clq_list *list, const clq_update_arenas *a, clq_value arena, clq_access access) {
    add_range(list, arena, a->first, a->floats, access);
}

static void add_numbers(clq_list *list, const clq_update_problem *p) {
    const unsigned first = p->number * (CLQ_PARAM_RATE_1 - CLQ_PARAM_RATE);
    float constants[CLQ_UPDATE_CONSTANTS];
    clq_optimizer_constants(&p->optimizer, constants);
    for (unsigned i = CLQ_PARAM_RATE; i < CLQ_PARAM_RATE_1; i++) clq_launch_param(list, (clq_param)(first + i));
    clq_launch_param(list, CLQ_PARAM_AVERAGE);
    clq_launch_float(list, p->limit);
    for (unsigned i = 0; i < CLQ_UPDATE_CONSTANTS; i++) clq_launch_float(list, constants[i]);
}

/* The options of every pass: the rule, and the decay of the weights. */
static clq_kernel_options rule_options(const clq_cut *cut, const clq_update_problem *p, const clq_update_arenas *a) {
    const clq_update_rule *rule = clq_optimizer_rule(&p->optimizer);
    const int decay = clq_optimizer_weight_decay(&p->optimizer) == 0 ? 0 : a->decays ? 2 : 1;
    clq_kernel_options options = clq_cut_options(cut, " -DRULE=%s -DSTATES=%u", rule->name, rule->states);
    if (clq_optimizer_has_trust_ratio(&p->optimizer)) clq_options_add(&options, " -DTRUST_RATIO");
    if (decay) clq_options_add(&options, " -DDECAY=%d", decay);
    return options;
}

/* Options for what happens to gradients before the rule gets them. */
static void add_gradient_options(clq_kernel_options *options, const clq_update_problem *p, const clq_update_arenas *a) {
    if (p->limit > 0) clq_options_add(options, " -DLIMITED");
    if (a->factors) clq_options_add(options, " -DFACTORS=%d%s", p->factor_of_all ? 1 : 2, p->skips ? " -DSKIPS" : "");
}

static clq_kernel_options update_options(const clq_cut *cut, const clq_update_problem *p, const clq_update_arenas *a) {
    clq_kernel_options options = rule_options(cut, p, a);
    clq_options_add(&options, " -DRANKS=%u%s", CLQ_MAX(a->ranks, 1u), a->floats % cut->lanes ? " -DTAIL" : "");
    if (p->summed) clq_options_add(&options, " -DSUMMED");
    if (a->average) clq_options_add(&options, " -DAVERAGE");
    if (clq_optimizer_has_trust_ratio(&p->optimizer))
        clq_options_add(&options, " -DFACTORS=3%s", p->skips ? " -DSKIPS" : "");
    else
        add_gradient_options(&options, p, a);
    return options;
}

static void add_states(clq_list *list, const clq_update_problem *p, const clq_update_arenas *a, clq_access access) {
    for (unsigned i = 0; i < clq_optimizer_states(&p->optimizer); i++)
        add_range(list, a->states[i], a->states_first, a->floats, access);
}

static void add_decays(clq_list *list, const clq_update_problem *p, const clq_update_arenas *a) {
    if (a->decays && clq_optimizer_weight_decay(&p->optimizer) != 0) clq_launch_value(list, a->decays, CLQ_READS);
}

void clq_update_directions(clq_list *list, const clq_update_problem *p, const clq_update_arenas *a, clq_value squares) {
    const clq_update_rule *rule = clq_optimizer_rule(&p->optimizer);
    const unsigned arrays = 2 * rule->states + 2;
    const clq_cut cut = flat_cut(list, a->floats, arrays);
    assert(clq_optimizer_has_trust_ratio(&p->optimizer) && a->floats % CLQ_UPDATE_BLOCK == 0);
    clq_kernel_options options = rule_options(&cut, p, a);
    add_gradient_options(&options, p, a);
    clq_launch_begin(list, "directions", "update", options.text, "directions");
    add_part(list, a, a->w, CLQ_READS);
    add_part(list, a, a->g, CLQ_READS);
    add_states(list, p, a, CLQ_READS_WRITES);
    if (a->factors) clq_launch_value(list, a->factors, CLQ_READS);
    add_decays(list, p, a);
    CLQ_LAUNCH_SIZES(list, a->floats / CLQ_UPDATE_BLOCK, a->first_block);
    add_numbers(list, p);
    clq_launch_value(list, squares, CLQ_WRITES);
    clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, (double)a->floats * rule->flops, 0, (double)a->floats * sizeof(float) * arrays, 0);
}

void clq_update(clq_list *list, const clq_update_problem *p, const clq_update_arenas *a) {
    const clq_update_rule *rule = clq_optimizer_rule(&p->optimizer);
    unsigned ranks = CLQ_MAX(a->ranks, 1u);
    /* States, average and weights are read and written. With several ranks, so are all gradients. The second pass of a
     * rule with a trust ratio only reads states, and reads a gradient only to store it in the weights' place. */
    const bool second = clq_optimizer_has_trust_ratio(&p->optimizer);
    unsigned arrays = (second ? 1 : 2) * rule->states + (a->average ? 2 : 0) + 2 + (ranks > 1 ? 2 * ranks : 1);
    clq_cut cut = flat_cut(list, a->floats, arrays);
    const clq_value factors = second ? a->ratios : a->factors;
    assert(ranks <= CLQ_UPDATE_RANKS_MAX && a->rank < ranks && rule->states <= CLQ_UPDATE_STATES_MAX);
    assert(!second || (a->ratios && (ranks == 1 || p->summed)));
    const clq_kernel_options options = update_options(&cut, p, a);
    clq_launch_begin(list, "update", "update", options.text, "update");
    add_part(list, a, a->w, CLQ_READS_WRITES);
    add_part(list, a, a->g, ranks > 1 ? CLQ_READS_WRITES : CLQ_READS);
    add_states(list, p, a, second ? CLQ_READS : CLQ_READS_WRITES);
    if (factors) clq_launch_value(list, factors, CLQ_READS);
    add_decays(list, p, a);
    if (a->average) add_range(list, a->average, a->states_first, a->floats, CLQ_READS_WRITES);
    CLQ_LAUNCH_SIZES(list, a->floats / cut.lanes, a->floats % cut.lanes, a->first_block);
    add_numbers(list, p);
    clq_launch_size(list, a->rank);
    for (unsigned i = 0; i + 1 < ranks; i++) add_part(list, a, a->peers[i], CLQ_READS_WRITES);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, (double)a->floats * (rule->flops + ranks - 1), 0, (double)a->floats * sizeof(float) * arrays,
                    0);
}

void clq_sum_gradients(clq_list *list, const clq_update_arenas *a, clq_value squares) {
    const unsigned arrays = a->ranks + 1;
    const clq_cut cut = flat_cut(list, a->floats, arrays);
    const clq_kernel_options options = clq_cut_options(&cut, " -DRANKS=%u", a->ranks);
    clq_launch_begin(list, "sum", "update", options.text, "sum_gradients");
    add_part(list, a, a->g, CLQ_READS_WRITES);
    clq_launch_size(list, a->floats / CLQ_UPDATE_BLOCK);
    clq_launch_value(list, squares, CLQ_WRITES);
    clq_launch_size(list, a->rank);
    for (unsigned i = 0; i + 1 < a->ranks; i++) add_part(list, a, a->peers[i], CLQ_READS);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, (double)a->floats * (a->ranks + 1), 0, (double)a->floats * sizeof(float) * arrays, 0);
}
