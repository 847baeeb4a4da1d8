/* The end of a step: the norms of the gradient, the factors that clip it, and the update of all parameters at once,
 * over flat arenas. */
#include "graph/step/step.h"

static clq_id add_arena(clq_graph *graph, const char *name, const clq_pass_context *context, clq_home home,
                        uint32_t index) {
    clq_graph_value arena = {.name = name, .dtype = context->arena_dtype, .home = home, .index = index};
    arena.elements = clq_values_count(arena.dtype, context->arena_bytes);
    arena.shape = CLQ_SHAPE(arena.elements);
    return clq_graph_add_value(graph, &arena);
}

static clq_id add_table(clq_graph *graph, const clq_pass_context *context, bool of_trust_ratios) {
    return clq_graph_add_value(graph, &(clq_graph_value){.name = "table",
                                                         .dtype = CLQ_I32,
                                                         .shape = CLQ_SHAPE(4 * context->table_entries),
                                                         .elements = 4 * context->table_entries,
                                                         .home = CLQ_HOME_TABLE,
                                                         .index = of_trust_ratios});
}

static clq_id add_row(clq_graph *graph, const char *name, clq_dtype dtype, size_t elements, clq_home home) {
    return clq_graph_add_value(
        graph, &(clq_graph_value){
                   .name = name, .dtype = dtype, .shape = CLQ_SHAPE(elements), .elements = elements, .home = home});
}

clq_id clq_graph_add_scaling(clq_graph *graph) {
    return add_row(graph, "loss scale", CLQ_I32, CLQ_SCALING_INTS, CLQ_HOME_SCALING);
}

/* Sums of squares of the gradient, by variable. They are sums over all ranks if an update needs that, or `measures_all`
 * is set. */
static clq_id add_norms(clq_graph *graph, const clq_pass_context *context, clq_id gradients, clq_id table) {
    clq_node node = {
        .op = &clq_op_squares, .scope = "norms", .segment = CLQ_SEGMENT_NORM, .inputs = {gradients, table}};
    const clq_id squares = node.outputs[0] =
        add_row(graph, "norms", CLQ_F32, CLQ_MAX(graph->model->variable_count, 1u), CLQ_HOME_NORMS);
    clq_graph_add_node(graph, &node);
    if (!clq_updates_by_squares(&context->config->update_options) && !context->config->measures_all) return squares;
    return clq_add_all_reduce(graph, &node, squares, &context->config->norm_parts);
}

/* off: the factor that takes a scale off; 0: none. */
static clq_id add_clip(clq_graph *graph, const clq_pass_context *context, clq_id squares, clq_id table, clq_id off) {
    const clq_clip *clip = &context->config->update_options.clip;
    const size_t blocks = clq_values_count(context->arena_dtype, context->arena_bytes) / CLQ_UPDATE_BLOCK;
    clq_node node = {
        .op = &clq_op_clip, .scope = "norms", .segment = CLQ_SEGMENT_NORM, .inputs = {squares, table, off}};
    node.attributes.clip = *clip;
    node.outputs[0] =
        add_row(graph, "factors", CLQ_F32, clip->kind == CLQ_CLIP_GLOBAL_NORM ? 1 : blocks, CLQ_HOME_STEP);
    clq_graph_add_node(graph, &node);
    return node.outputs[0];
}

/* Adds the first pass of optimizers with a trust ratio, which reads what the update reads. Gives what the second pass
 * needs: for each block, the ratio of its variable. If ranks have parts of variables, their squares are summed over
 * ranks. */
static clq_id add_ratios(clq_graph *graph, const clq_pass_context *context, const clq_node *update) {
    const clq_id table = add_table(graph, context, true);
    const size_t blocks = clq_values_count(context->arena_dtype, context->arena_bytes) / CLQ_UPDATE_BLOCK;
    clq_node node = clq_graph_node_like(update, &clq_op_directions, CLQ_SEGMENT_UPDATE, update->inputs);
    node.attributes = update->attributes;
    node.outputs[0] = add_row(graph, "squares of blocks", CLQ_F32, 2 * blocks, CLQ_HOME_STEP);
    const clq_id of_blocks = clq_graph_add_node(graph, &node);
    node = clq_graph_node_like(update, &clq_op_step_squares, CLQ_SEGMENT_UPDATE, CLQ_IDS(of_blocks, table));
    node.outputs[0] =
        add_row(graph, "squares", CLQ_F32, 2 * CLQ_MAX((size_t)graph->model->variable_count, 1u), CLQ_HOME_STEP);
    clq_id squares = clq_graph_add_node(graph, &node);
    squares = clq_add_all_reduce(graph, &node, squares, &context->config->norm_parts);
    node = clq_graph_node_like(update, &clq_op_ratios, CLQ_SEGMENT_UPDATE, CLQ_IDS(squares, table));
    node.outputs[0] = add_row(graph, "ratios", CLQ_F32, blocks, CLQ_HOME_STEP);
    return clq_graph_add_node(graph, &node);
}

/* The factors that the update multiplies the gradient by: those that clip it, the one that takes its scale off, or both
 * in one. 0: there are none. */
static clq_id add_factors(clq_graph *graph, const clq_pass_context *context, clq_id squares, clq_id table) {
    const clq_update_options *options = &context->config->update_options;
    clq_id off = 0;
    if (options->scaling.initial > 0) {
        clq_node node = {.op = &clq_op_take_scale_off,
                         .scope = "norms",
                         .segment = CLQ_SEGMENT_NORM,
                         .inputs = {squares, clq_graph_add_scaling(graph)}};
        node.attributes.scaling = options->scaling;
        squares = node.outputs[0] = clq_graph_add_like(graph, squares, NULL);
        off = node.outputs[1] = add_row(graph, "scale off", CLQ_F32, 1, CLQ_HOME_STEP);
        clq_graph_add_node(graph, &node);
    }
    return clq_clips_by_norm(&options->clip) ? add_clip(graph, context, squares, table, off) : off;
}

void clq_graph_add_update(clq_graph *graph, const clq_pass_context *context) {
    const clq_update_options *options = &context->config->update_options;
    const unsigned states = clq_update_slots(context->config->update, options) - (options->averages ? 1 : 0);
    clq_node node = {.op = &clq_op_update, .scope = "update", .segment = CLQ_SEGMENT_UPDATE};
    node.attributes.updates = context->updates;
    node.inputs[CLQ_UPDATES_PARAMETERS] = add_arena(graph, "parameters", context, CLQ_HOME_PARAMETERS, 0);
    node.inputs[CLQ_UPDATES_GRADIENTS] = add_arena(graph, "gradient", context, CLQ_HOME_GRADIENTS, 0);
    for (unsigned i = 0; i < states; i++)
        node.inputs[CLQ_UPDATES_FIRST_STATE + i] = add_arena(graph, "optimizer state", context, CLQ_HOME_OPTIMIZER, i);
    if (options->averages)
        node.inputs[CLQ_UPDATES_AVERAGE] = add_arena(graph, "average", context, CLQ_HOME_OPTIMIZER, states);
    if (context->decaying > 0)
        node.inputs[CLQ_UPDATES_DECAYS] = add_row(graph, "decays", CLQ_F32, context->decaying, CLQ_HOME_DECAYS);
    if (context->config->gradient_norms || clq_updates_by_squares(options)) {
        const clq_id table = add_table(graph, context, false),
                     squares = add_norms(graph, context, node.inputs[CLQ_UPDATES_GRADIENTS], table);
        node.inputs[CLQ_UPDATES_FACTORS] = add_factors(graph, context, squares, table);
    }
    if (context->updates.trust_ratios) node.inputs[CLQ_UPDATES_RATIOS] = add_ratios(graph, context, &node);
    clq_graph_add_node(graph, &node);
}
