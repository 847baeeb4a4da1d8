/* Recurrent cells over sequences: one launch for all steps, since each step needs the step before. */
#include "ops/elementwise/cut.h"

#include <assert.h>

enum { GROUP_MOST = 256 };

size_t clq_cell_gates(clq_cell cell) {
    static const size_t gates[] = {[CLQ_CELL_SIMPLE] = 1, [CLQ_CELL_LSTM] = 4, [CLQ_CELL_GRU] = 3};
    return gates[cell];
}

bool clq_recurrent_knows(clq_activation activation) {
    return activation == CLQ_ACTIVATION_LINEAR || clq_activation_joins(activation);
}

size_t clq_recurrent_kept(const clq_recurrent_problem *p) {
    static const size_t kept[] = {[CLQ_CELL_SIMPLE] = 1, [CLQ_CELL_LSTM] = 6, [CLQ_CELL_GRU] = 5};
    return (p->resets_first ? 4 : kept[p->cell]) * p->units;
}

size_t clq_recurrent_copies(const clq_recurrent_problem *p, bool drops) {
    return drops || p->resets_first ? clq_cell_gates(p->cell) : 1;
}
bool clq_recurrent_apart(const clq_recurrent_problem *p, bool drops) { return drops || p->cell == CLQ_CELL_GRU; }

double clq_recurrent_flops(const clq_recurrent_problem *p) {
    return 2.0 * (double)(p->steps * p->units) * (double)(clq_cell_gates(p->cell) * p->units);
}

/* The cell's number in cl/recurrent.cl. */
static unsigned number_of(const clq_recurrent_problem *p) {
    return p->cell == CLQ_CELL_SIMPLE ? 0 : p->cell == CLQ_CELL_LSTM ? 1 : p->resets_first ? 3 : 2;
}

/* With tiles, an item takes rows of the batch. Otherwise a work-group does, and its items share the units. */
static clq_cut cut_rows(const clq_list *list, const clq_recurrent_problem *p) {
    const double flops_per_byte = 4, capacity = clq_list_capacity(list);
    size_t group = 32;
    while (group < GROUP_MOST && group < p->units) group *= 2;
    return clq_cut_make(list, clq_recurrent_flops(p) / flops_per_byte * capacity, capacity * (double)group, group);
}

static clq_kernel_options options_of(const clq_list *list, const clq_recurrent_problem *p, const clq_cut *cut,
                                     bool mask, bool drops, bool bias, bool state, bool sequence) {
    assert(clq_recurrent_knows(p->activation) && clq_recurrent_knows(p->gate_activation));
    assert(!p->resets_first || (p->cell == CLQ_CELL_GRU && !bias));
    clq_kernel_options options = clq_cut_options(cut, " -DCELL=%u -DACT=%d -DGATE_ACT=%d", number_of(p),
                                                 (int)p->activation, (int)p->gate_activation);
    clq_options_add(&options, "%s%s%s%s%s%s%s", p->backwards ? " -DBACKWARDS" : "", mask ? " -DMASK" : "",
                    mask && p->zeroes ? " -DZEROES" : "", drops ? " -DDROPS" : "", bias ? " -DBIAS" : "",
                    state ? " -DSTATE" : "", sequence ? " -DSEQUENCE" : "");
    if (cut->tile && clq_device_has_quirk(clq_list_device(list), CLQ_QUIRK_COMPILES_PREFETCH))
        clq_options_add(&options, " -DPREFETCH");
    return options;
}

void clq_recurrent_forward(clq_list *list, const clq_recurrent_problem *p, const clq_recurrent_values *v) {
    const clq_cut cut = cut_rows(list, p);
    const size_t gates = clq_cell_gates(p->cell);
    const bool drops = v->drops != CLQ_NO_VALUE, keeps = v->kept != CLQ_NO_VALUE;
    const size_t copies = clq_recurrent_copies(p, drops);
    clq_kernel_options options = options_of(list, p, &cut, v->mask != CLQ_NO_VALUE, drops, v->bias != CLQ_NO_VALUE,
                                            v->h0 != CLQ_NO_VALUE, v->y != CLQ_NO_VALUE);
    const clq_value carry =
        clq_list_scratch(list, "carry", CLQ_F32, 0, (2 * copies + (p->resets_first ? 3 : 2)) * p->units);
    clq_options_add(&options, "%s", keeps ? " -DKEEP" : "");
    clq_launch_begin(list, "forward", "recurrent", options.text, "recurrent_forward");
    CLQ_LAUNCH_READS(list, v->z, v->u, v->bias, v->h0, v->c0, v->mask, v->drops);
    CLQ_LAUNCH_WRITES(list, v->y, v->h, v->c, v->before, v->kept, carry);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, p->steps, p->units);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, clq_recurrent_flops(p), (double)(p->units * gates * p->units) * sizeof(float),
                    (double)(p->steps * ((gates + 1) * p->units + (keeps ? clq_recurrent_kept(p) : 0))) *
                        sizeof(float));
}

/* Transposes u, so that its rows, the units of the state, come last. Items that take whole rows of the batch can then
 * read it in the same way as in forward. */
static clq_value turn_weights(clq_list *list, const clq_recurrent_problem *p, clq_value u) {
    const size_t width = clq_cell_gates(p->cell) * p->units;
    const clq_value turned = clq_list_scratch(list, "turned", CLQ_F32, width * p->units, 0);
    clq_arrangement a = clq_arrangement_of(2, (size_t[]){p->units, width});
    const clq_arranged_axis first = a.axes[0];
    a.axes[0] = a.axes[1];
    a.axes[1] = first;
    clq_arrange(list, &a, width * p->units, true, u, turned);
    return turned;
}

void clq_recurrent_backward(clq_list *list, const clq_recurrent_problem *p, const clq_recurrent_gradients *g) {
    const clq_cut cut = cut_rows(list, p);
    const size_t gates = clq_cell_gates(p->cell);
    const bool drops = g->drops != CLQ_NO_VALUE;
    clq_kernel_options options =
        options_of(list, p, &cut, g->mask != CLQ_NO_VALUE, drops, g->bias, g->state, g->dy != CLQ_NO_VALUE);
    const clq_value carry = clq_list_scratch(list, "carry", CLQ_F32, 0, (cut.tile ? 2 + gates : 2) * p->units);
    const clq_value u = cut.tile ? turn_weights(list, p, g->u) : g->u;
    clq_options_add(&options, "%s%s%s", cut.tile ? " -DGRADIENT" : "", g->dh != CLQ_NO_VALUE ? " -DLAST" : "",
                    g->dc != CLQ_NO_VALUE ? " -DLAST_CELL" : "");
    clq_launch_begin(list, "backward", "recurrent", options.text, "recurrent_backward");
    CLQ_LAUNCH_READS(list, g->dy, g->dh, g->dc, u, g->kept, g->mask, g->drops);
    CLQ_LAUNCH_WRITES(list, g->dz, g->dr, g->dboth, g->dh0, g->dc0, carry);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, p->steps, p->units);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, clq_recurrent_flops(p), (double)(p->units * gates * p->units) * sizeof(float),
                    (double)(p->steps * (2 * gates * p->units + clq_recurrent_kept(p))) * sizeof(float));
}
