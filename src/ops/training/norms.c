/* Norms of variables in a flat arena, and factors that clip gradients by norm. All stay on the device: the host does
 * not read them. */
#include "ops/elementwise/cut.h"

/* The cut of a kernel that gives each run of blocks to an item, or to a work-group. */
static clq_cut cut_of_runs(const clq_list *list, const clq_blocks *blocks) {
    const double bytes = (double)blocks->count * sizeof(float);
    return clq_cut_make(list, bytes, (double)blocks->entries * 64, 64);
}

static void add_table(clq_list *list, const clq_blocks *blocks) {
    clq_launch_value(list, blocks->table, CLQ_READS);
    clq_launch_size(list, blocks->entries);
}

static void end_launch(clq_list *list, const clq_cut *cut, double flops, double bytes) {
    clq_launch_local(list, cut->group * sizeof(float));
    clq_cut_work(list, cut);
    clq_launch_cost(list, flops, 0, bytes, 0);
}

void clq_squares_from_values(clq_list *list, const clq_blocks *blocks, clq_value x, clq_value out) {
    const double floats = (double)blocks->count * CLQ_UPDATE_BLOCK;
    const clq_value squares = clq_list_scratch(list, "squares of blocks", CLQ_F32, blocks->count, 0);
    const clq_cut flat = clq_cut_make(list, floats * sizeof(float), floats / 4, 256);
    const clq_kernel_options of_blocks = clq_cut_options(&flat, "%s", "");
    clq_launch_begin(list, "squares", "norms", of_blocks.text, "block_squares");
    clq_launch_value(list, x, CLQ_READS);
    clq_launch_size(list, blocks->count);
    clq_launch_value(list, squares, CLQ_WRITES);
    end_launch(list, &flat, 2 * floats, (floats + (double)blocks->count) * sizeof(float));
    clq_squares_from_blocks(list, blocks, 1, squares, out);
}

void clq_squares_from_blocks(clq_list *list, const clq_blocks *blocks, unsigned kinds, clq_value squares,
                             clq_value out) {
    const double sums = (double)blocks->count * kinds;
    const clq_cut runs = cut_of_runs(list, blocks);
    const clq_kernel_options of_runs = clq_cut_options(&runs, "%s", "");
    clq_launch_begin(list, "squares of variables", "norms", of_runs.text, "variable_squares");
    clq_launch_value(list, squares, CLQ_READS);
    add_table(list, blocks);
    clq_launch_size(list, kinds);
    clq_launch_value(list, out, CLQ_WRITES);
    end_launch(list, &runs, sums, sums * sizeof(float));
}

/* The options of a kernel that clips. off: the factor that takes a loss scale off, or none. */
static clq_kernel_options clip_options(const clq_cut *cut, clq_value off) {
    return clq_cut_options(cut, "%s", off ? " -DSCALED" : "");
}

void clq_global_factor(clq_list *list, size_t variables, float limit, clq_value squares, clq_value off,
                       clq_value factor) {
    const clq_cut cut = clq_cut_make(list, (double)variables * sizeof(float), (double)variables, 64);
    const clq_kernel_options options = clip_options(&cut, off);
    clq_launch_begin(list, "clip", "norms", options.text, "global_factor");
    clq_launch_value(list, squares, CLQ_READS);
    if (off) clq_launch_value(list, off, CLQ_READS);
    clq_launch_size(list, variables);
    clq_launch_float(list, limit);
    clq_launch_value(list, factor, CLQ_WRITES);
    clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work_one(list, &cut);
    clq_launch_cost(list, (double)variables, 0, (double)variables * sizeof(float), 0);
}

void clq_block_factors(clq_list *list, const clq_blocks *blocks, float limit, clq_value squares, clq_value off,
                       clq_value factors) {
    const clq_cut cut = cut_of_runs(list, blocks);
    const clq_kernel_options options = clip_options(&cut, off);
    clq_launch_begin(list, "clip", "norms", options.text, "block_factors");
    clq_launch_value(list, squares, CLQ_READS);
    if (off) clq_launch_value(list, off, CLQ_READS);
    add_table(list, blocks);
    clq_launch_float(list, limit);
    clq_launch_value(list, factors, CLQ_WRITES);
    end_launch(list, &cut, (double)blocks->count, (double)blocks->count * sizeof(float));
}

void clq_take_scale_off(clq_list *list, size_t variables, const clq_loss_scaling *scaling, clq_value squares,
                        clq_value state, clq_value off) {
    const clq_cut cut = clq_cut_make(list, (double)variables * sizeof(float), (double)variables, 64);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    clq_launch_begin(list, "loss scale", "norms", options.text, "take_scale_off");
    clq_launch_value(list, squares, CLQ_READS_WRITES);
    clq_launch_size(list, variables);
    clq_launch_float(list, scaling->initial);
    clq_launch_size(list, scaling->interval);
    clq_launch_value(list, state, CLQ_READS_WRITES);
    clq_launch_value(list, off, CLQ_WRITES);
    clq_launch_local(list, cut.group * sizeof(float));
    clq_cut_work_one(list, &cut);
    clq_launch_cost(list, 3 * (double)variables, 0, 2 * (double)variables * sizeof(float), 0);
}

void clq_block_ratios(clq_list *list, const clq_blocks *blocks, clq_value squares, clq_value ratios) {
    const clq_cut cut = cut_of_runs(list, blocks);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", "");
    clq_launch_begin(list, "ratios", "norms", options.text, "block_ratios");
    clq_launch_value(list, squares, CLQ_READS);
    add_table(list, blocks);
    clq_launch_value(list, ratios, CLQ_WRITES);
    end_launch(list, &cut, (double)blocks->count, (double)blocks->count * sizeof(float));
}
