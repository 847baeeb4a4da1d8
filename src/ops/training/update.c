/* Optimizer updates and sums of squares over flat arenas. */
#include "ops/elementwise/cut.h"

#include <assert.h>

static void flat_size(clq_list *list, const clq_cut *cut, size_t floats) {
    clq_launch_int(list, clq_cut_int(floats / cut->lanes));
    clq_launch_int(list, (int)(floats % cut->lanes));
}

static clq_cut flat_cut(const clq_list *list, size_t floats, unsigned arrays) {
    return clq_cut_make(list, (double)floats * sizeof(float) * arrays, (double)floats / 4, 256);
}

static void add_part(clq_list *list, const clq_update_arenas *a, clq_value arena, clq_access access) {
    clq_launch_value_at(list, arena, a->first * sizeof(float), a->floats * sizeof(float), access);
}

/* States and weights are read and written, and of several ranks all gradients. */
static clq_cut begin_update(clq_list *list, const clq_update_arenas *a, unsigned states, const char *options,
                            const char *function, unsigned *arrays) {
    unsigned ranks = CLQ_MAX(a->ranks, 1u);
    *arrays = 2 * states + 2 + (ranks > 1 ? 2 * ranks : 1);
    clq_cut cut = flat_cut(list, a->floats, *arrays);
    char all[CLQ_CUT_OPTIONS];
    assert(ranks <= CLQ_UPDATE_RANKS_MAX && a->rank < ranks);
    if (ranks > 1)
        clq_cut_options(&cut, all, "%s -DRANKS=%u", options, ranks);
    else
        clq_cut_options(&cut, all, "%s", options);
    clq_launch_begin(list, "update", "update", all, function);
    add_part(list, a, a->w, CLQ_READS_WRITES);
    add_part(list, a, a->g, ranks > 1 ? CLQ_READS_WRITES : CLQ_READS);
    return cut;
}

static void end_update(clq_list *list, const clq_update_arenas *a, const clq_cut *cut, double flops, unsigned arrays) {
    unsigned peers = a->ranks > 1 ? a->ranks - 1 : 0;
    clq_launch_int(list, (int)a->rank);
    for (unsigned i = 0; i < peers; i++) add_part(list, a, a->peers[i], CLQ_READS_WRITES);
    clq_cut_work(list, cut);
    clq_launch_cost(list, (double)a->floats * (flops + peers), 0, (double)a->floats * sizeof(float) * arrays, 0);
}

void clq_update_sgd(clq_list *list, const clq_update_arenas *a, float momentum, bool nesterov) {
    bool moves = momentum != 0;
    const char *options = moves && nesterov ? " -DMOMENTUM -DNESTEROV" : moves ? " -DMOMENTUM" : "";
    unsigned arrays;
    clq_cut cut = begin_update(list, a, moves ? 1 : 0, options, "update_sgd", &arrays);
    add_part(list, a, moves ? a->v : CLQ_NO_VALUE, CLQ_READS_WRITES);
    flat_size(list, &cut, a->floats);
    clq_launch_param(list, CLQ_PARAM_RATE);
    clq_launch_float(list, momentum);
    end_update(list, a, &cut, moves ? 6 : 2, arrays);
}

void clq_update_adam(clq_list *list, const clq_update_arenas *a, double beta1, double beta2, double epsilon) {
    unsigned arrays;
    clq_cut cut = begin_update(list, a, 2, "", "update_adam", &arrays);
    add_part(list, a, a->m, CLQ_READS_WRITES);
    add_part(list, a, a->v, CLQ_READS_WRITES);
    flat_size(list, &cut, a->floats);
    clq_launch_param(list, CLQ_PARAM_RATE);
    clq_launch_float(list, (float)(1 - beta1)); /* rounded once, after the subtraction */
    clq_launch_float(list, (float)(1 - beta2));
    clq_launch_float(list, (float)epsilon);
    end_update(list, a, &cut, 11, arrays);
}

void clq_square_sum(clq_list *list, size_t floats, clq_value x, size_t offset_bytes, clq_value out, size_t index) {
    assert(offset_bytes % sizeof(float) == 0);
    clq_cut cut = flat_cut(list, floats, 1);
    char options[CLQ_CUT_OPTIONS];
    bool whole = cut.groups == 1, aligned = !cut.tile && offset_bytes % (cut.lanes * sizeof(float)) == 0;
    clq_cut_options(&cut, options, "%s", aligned ? " -DALIGNED" : "");
    clq_value shares = out;
    if (!whole) shares = clq_list_value(list, CLQ_VALUE_SCRATCH, "square sums", cut.groups * sizeof(float), 0);
    clq_launch_begin(list, "square sum", "update", options, "square_sum");
    clq_launch_value(list, x, CLQ_READS);
    clq_launch_int(list, clq_cut_int(offset_bytes / sizeof(float)));
    flat_size(list, &cut, floats);
    clq_launch_value(list, shares, CLQ_WRITES);
    clq_launch_int(list, whole ? clq_cut_int(index) : 0);
    clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work(list, &cut);
    clq_launch_cost(list, (double)floats * 2, 0, (double)floats * sizeof(float), 0);
    if (whole) return;
    clq_launch_begin(list, "square sum", "update", options, "sum_shares");
    clq_launch_value(list, shares, CLQ_READS);
    clq_launch_int(list, clq_cut_int(cut.groups));
    clq_launch_value(list, out, CLQ_WRITES);
    clq_launch_int(list, clq_cut_int(index));
    clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work_one(list, &cut);
    clq_launch_cost(list, (double)cut.groups, 0, (double)cut.groups * sizeof(float), 0);
}
