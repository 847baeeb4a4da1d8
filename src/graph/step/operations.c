/* The operations: how each is differentiated, and how it becomes launches. */
#include "graph/step/products.h"

bool clq_node_is_alias(const clq_node *node, const clq_operation *op, unsigned output) {
    if (op->traits & CLQ_OP_ALIAS) return output == 0;
    return op->is_alias && op->is_alias(node, output);
}

static const clq_graph_value *input_of(const clq_emission *e, unsigned i) {
    return clq_graph_value_at(e->graph, e->node->inputs[i]);
}

/* ---- input and reshapes ---- */

static void emit_scale_bytes(clq_emission *e) {
    clq_input_u8(e->list, input_of(e, 0)->elements, e->node->attributes.factor, e->in[0], e->out[0]);
}
static bool scale_bytes_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    (void)list;
    (void)node;
    (void)dtype;
    return value == CLQ_NODE_INPUTS;
}
const clq_operation clq_op_scale_bytes = {.name = "scale_bytes",
                                          .traits = CLQ_OP_AGAIN,
                                          .types = CLQ_OP_TYPE(CLQ_U8),
                                          .stores = scale_bytes_stores,
                                          .emit = emit_scale_bytes};

static void reshape_gradient(clq_derivation *d) { clq_add_gradient(d, &clq_op_reshape, CLQ_IDS(d->dy[0])); }
const clq_operation clq_op_reshape = {.name = "reshape",
                                      .traits = CLQ_OP_ALIAS | CLQ_OP_AGAIN,
                                      .differentiate = reshape_gradient,
                                      .split = clq_split_alike};

/* ---- products ---- */

clq_id clq_add_slope(clq_derivation *d, clq_activation activation) {
    const clq_id dy = d->dy[0], bias = d->wants[2] ? d->node.inputs[2] : 0;
    if (activation == CLQ_ACTIVATION_LINEAR && !bias) return dy;
    clq_node node = clq_graph_node_like(&d->node, &clq_op_elementwise, CLQ_SEGMENT_BACKWARD, CLQ_IDS(dy));
    clq_element_program *p = &node.attributes.program;
    unsigned register_of_dz = clq_element_take(p, clq_each_element);
    clq_id dz = dy;
    if (activation != CLQ_ACTIVATION_LINEAR) {
        const clq_element_op slope = clq_activation_row_of(activation)->slope;
        const unsigned y = clq_element_take(p, clq_each_element);
        node.inputs[1] = d->node.outputs[0];
        register_of_dz = clq_element_do(p, (clq_instruction){.op = slope, .a = y, .b = register_of_dz});
        p->outputs[p->output_count++].from = register_of_dz;
        dz = node.outputs[0] = clq_graph_add_like(d->graph, dy, NULL);
    }
    if (bias) {
        p->sums[p->sum_count++] = register_of_dz;
        d->dx[2] = node.outputs[p->output_count] = clq_graph_add_like(d->graph, bias, NULL);
    }
    clq_graph_add_node(d->graph, &node);
    return dz;
}

void clq_add_product_gradients(clq_derivation *d, const clq_operation *op, const clq_id inputs[CLQ_NODE_INPUTS]) {
    clq_node back = clq_graph_backward_node(&d->node, op, inputs);
    if (d->wants[0]) back.outputs[0] = d->dx[0] = clq_graph_add_gradient(d->graph, d->node.inputs[0]);
    if (d->wants[1]) back.outputs[1] = d->dx[1] = clq_graph_add_gradient(d->graph, d->node.inputs[1]);
    if (d->wants[0] || d->wants[1]) clq_graph_add_node(d->graph, &back);
}

/* inputs: x, w, dz */
static void product_gradient(clq_derivation *d, const clq_operation *op, clq_activation activation) {
    const clq_id dz = clq_add_slope(d, activation);
    clq_add_product_gradients(d, op, CLQ_IDS(d->node.inputs[0], d->node.inputs[1], dz));
}

bool clq_product_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    (void)list, (void)node, (void)dtype;
    return value != 2;
}
bool clq_stores_all(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    (void)list, (void)node, (void)value, (void)dtype;
    return true;
}
bool clq_product_gradient_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    (void)list, (void)node, (void)dtype;
    return value != CLQ_NODE_INPUTS + 1;
}

static void dense_gradient(clq_derivation *d) {
    product_gradient(d, &clq_op_dense_gradient, d->node.attributes.dense.activation);
}
static void emit_dense(clq_emission *e) {
    clq_dense_forward(e->list, &e->node->attributes.dense, e->in[0], e->in[1], e->in[2], e->out[0]);
}
static double dense_work(const clq_node *node) {
    const clq_dense_problem *p = &node->attributes.dense;
    return 2.0 * (double)(CLQ_MAX(p->rows_per_example, (size_t)1) * p->in * p->out);
}
static clq_activation *dense_activation(clq_node *node) { return &node->attributes.dense.activation; }

/* A part of the kernel's columns and of the bias makes, from whole x, the same columns of the output. A part of the
 * kernel's rows makes, from the same columns of x, a summand of the whole output. */
static bool dense_split(clq_split *s) {
    const clq_dense_problem *p = &s->node->attributes.dense;
    clq_split_group(s, s->in[0] ? p->in : p->out);
    if (s->in[0] || (s->in[1] && s->in[1] != p->out)) {
        s->summed = true;
        return !s->in[2] && !s->out[0] && clq_split_set(&s->in[0], p->in) && clq_split_set(&s->in[1], p->in * p->out);
    }
    clq_split_fan(s, 0);
    return clq_split_set(&s->in[1], p->out) && clq_split_set(&s->out[0], p->out) &&
           (!s->node->inputs[2] || clq_split_set(&s->in[2], p->out));
}
static size_t dense_begins(const clq_node *node) { return node->attributes.dense.out; }
/* The bias and the activation, which come behind the sum over ranks. */
static clq_node finish_of(const clq_node *dense) {
    clq_node node = clq_graph_node_like(dense, &clq_op_elementwise, dense->segment, CLQ_IDS(0, dense->inputs[2]));
    clq_element_program *p = &node.attributes.program;
    unsigned y = clq_element_take(p, clq_each_element);
    if (dense->inputs[2]) {
        const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
        const unsigned bias = clq_element_take(p, by_channel);
        y = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = y, .b = bias});
    }
    p->outputs[p->output_count++].from = clq_activation_do(p, dense->attributes.dense.activation, y);
    return node;
}
static void dense_narrow(const clq_split *s, const clq_part *part, clq_narrowing *n) {
    clq_dense_problem *p = &n->node.attributes.dense;
    if (!s->summed) {
        p->out = clq_part_of(part, p->out);
        return;
    }
    if (n->node.inputs[2] || p->activation != CLQ_ACTIVATION_LINEAR) n->finish = finish_of(&n->node);
    p->in = clq_part_of(part, p->in);
    p->activation = CLQ_ACTIVATION_LINEAR;
    n->node.inputs[2] = 0;
}
const clq_operation clq_op_dense = {.name = "dense",
                                    .traits = CLQ_OP_AGAIN,
                                    .stores = clq_product_stores,
                                    .differentiate = dense_gradient,
                                    .emit = emit_dense,
                                    .work = dense_work,
                                    .activation = dense_activation,
                                    .split = dense_split,
                                    .begins = dense_begins,
                                    .narrow = dense_narrow};

static void emit_dense_gradient(clq_emission *e) {
    clq_dense_backward(e->list, &e->node->attributes.dense, e->in[0], e->in[1], e->in[2], e->out[0], e->out[1]);
}
static bool *dense_adds(clq_node *node) { return &node->attributes.dense.adds; }
const clq_operation clq_op_dense_gradient = {
    .name = "dense_gradient", .stores = clq_product_gradient_stores, .emit = emit_dense_gradient, .adds = dense_adds};

static void conv2d_gradient(clq_derivation *d) {
    product_gradient(d, &clq_op_conv2d_gradient, d->node.attributes.conv2d.activation);
}
static void emit_conv2d(clq_emission *e) {
    clq_conv2d_forward(e->list, &e->node->attributes.conv2d, e->in[0], e->in[1], e->in[2], e->out[0]);
}
double clq_conv2d_work_of(const clq_conv2d_problem *p) {
    return 2.0 * (double)(p->kernel_h * p->kernel_w * p->in_c) * (double)(p->out_h * p->out_w * p->out_c);
}
static double conv2d_work(const clq_node *node) { return clq_conv2d_work_of(&node->attributes.conv2d); }
static clq_activation *conv2d_activation(clq_node *node) { return &node->attributes.conv2d.activation; }
const clq_operation clq_op_conv2d = {.name = "conv2d",
                                     .traits = CLQ_OP_AGAIN,
                                     .stores = clq_product_stores,
                                     .differentiate = conv2d_gradient,
                                     .emit = emit_conv2d,
                                     .work = conv2d_work,
                                     .activation = conv2d_activation};

static void emit_conv2d_gradient(clq_emission *e) {
    clq_conv2d_backward(e->list, &e->node->attributes.conv2d, e->in[0], e->in[1], e->in[2], e->out[0], e->out[1]);
}
static bool *conv2d_adds(clq_node *node) { return &node->attributes.conv2d.adds; }
const clq_operation clq_op_conv2d_gradient = {.name = "conv2d_gradient",
                                              .stores = clq_product_gradient_stores,
                                              .emit = emit_conv2d_gradient,
                                              .adds = conv2d_adds};

/* ---- convolutions in groups ---- */

static void grouped_gradient(clq_derivation *d) {
    product_gradient(d, &clq_op_grouped_gradient, d->node.attributes.grouped.conv.activation);
}
static void emit_grouped(clq_emission *e) {
    clq_grouped_forward(e->list, &e->node->attributes.grouped, e->in[0], e->in[1], e->in[2], e->out[0]);
}
static double grouped_work(const clq_node *node) {
    return clq_conv2d_work_of(&node->attributes.grouped.conv) / (double)node->attributes.grouped.groups;
}
static clq_activation *grouped_activation(clq_node *node) { return &node->attributes.grouped.conv.activation; }
const clq_operation clq_op_grouped = {.name = "grouped",
                                      .traits = CLQ_OP_AGAIN,
                                      .stores = clq_product_stores,
                                      .differentiate = grouped_gradient,
                                      .emit = emit_grouped,
                                      .work = grouped_work,
                                      .activation = grouped_activation};

static void emit_grouped_gradient(clq_emission *e) {
    clq_grouped_backward(e->list, &e->node->attributes.grouped, e->in[0], e->in[1], e->in[2], e->out[0], e->out[1]);
}
const clq_operation clq_op_grouped_gradient = {
    .name = "grouped_gradient", .stores = clq_product_gradient_stores, .emit = emit_grouped_gradient};

/* ---- transposed convolutions: each is the gradient of a convolution by its input ---- */

/* inputs: x, w, dy. dx is the convolution of dy. dw is the gradient of this convolution's weights, with dy as its input
 * and x as the gradient of its output. */
static void conv2d_transpose_gradient(clq_derivation *d) {
    clq_add_product_gradients(d, &clq_op_conv2d_transpose_gradient,
                              CLQ_IDS(d->node.inputs[0], d->node.inputs[1], d->dy[0]));
}
static void emit_conv2d_transpose(clq_emission *e) {
    clq_conv2d_backward(e->list, &e->node->attributes.conv2d, CLQ_NO_VALUE, e->in[1], e->in[0], e->out[0],
                        CLQ_NO_VALUE);
}
const clq_operation clq_op_conv2d_transpose = {.name = "conv2d_transpose",
                                               .traits = CLQ_OP_AGAIN,
                                               .stores = clq_product_stores,
                                               .differentiate = conv2d_transpose_gradient,
                                               .emit = emit_conv2d_transpose,
                                               .work = conv2d_work};

static void emit_conv2d_transpose_gradient(clq_emission *e) {
    const clq_conv2d_problem *p = &e->node->attributes.conv2d;
    if (e->out[0]) clq_conv2d_forward(e->list, p, e->in[2], e->in[1], CLQ_NO_VALUE, e->out[0]);
    if (e->out[1]) clq_conv2d_backward(e->list, p, e->in[2], CLQ_NO_VALUE, e->in[0], CLQ_NO_VALUE, e->out[1]);
}
const clq_operation clq_op_conv2d_transpose_gradient = {
    .name = "conv2d_transpose_gradient", .stores = clq_product_gradient_stores, .emit = emit_conv2d_transpose_gradient};

/* ---- pooling ---- */

clq_id clq_add_winners(clq_derivation *d, const clq_pool2d_problem *p) {
    clq_graph_value winners = *clq_graph_value_at(d->graph, d->node.outputs[0]);
    winners.name = "winners";
    winners.dtype = p->size_h * p->size_w <= 256 ? CLQ_U8 : CLQ_I32;
    winners.home = CLQ_HOME_STEP;
    d->node.outputs[1] = clq_graph_add_value(d->graph, &winners);
    return d->node.outputs[1];
}

/* inputs: y, dy, winners */
static void pool2d_gradient(clq_derivation *d) {
    const clq_pool2d_problem *p = &d->node.attributes.pool2d;
    const clq_id y = p->activation == CLQ_ACTIVATION_LINEAR ? 0 : d->node.outputs[0],
                 winners = p->average ? 0 : clq_add_winners(d, p);
    clq_add_gradient(d, &clq_op_pool2d_gradient, CLQ_IDS(y, d->dy[0], winners));
}
static void emit_pool2d(clq_emission *e) {
    clq_pool2d_forward(e->list, &e->node->attributes.pool2d, e->in[0], e->out[0], e->out[1]);
}
static clq_activation *pool2d_activation(clq_node *node) { return &node->attributes.pool2d.activation; }
const clq_operation clq_op_pool2d = {.name = "pool2d",
                                     .traits = CLQ_OP_AGAIN | CLQ_OP_JOINS_LAST,
                                     .types = CLQ_WINNER_TYPES,
                                     .stores = clq_stores_all,
                                     .differentiate = pool2d_gradient,
                                     .emit = emit_pool2d,
                                     .activation = pool2d_activation};

static void emit_pool2d_gradient(clq_emission *e) {
    clq_pool2d_backward(e->list, &e->node->attributes.pool2d, e->in[0], e->in[1], e->in[2], e->out[0]);
}
const clq_operation clq_op_pool2d_gradient = {
    .name = "pool2d_gradient", .types = CLQ_WINNER_TYPES, .stores = clq_stores_all, .emit = emit_pool2d_gradient};

/* ---- softmax ---- */

/* inputs: y, dy; outputs: dz, and db if the sums over rows are wanted */
static void softmax_gradient(clq_derivation *d) {
    clq_add_gradient(d, &clq_op_softmax_gradient, CLQ_IDS(d->node.outputs[0], d->dy[0]));
}
static void emit_softmax(clq_emission *e) {
    const clq_graph_value *x = input_of(e, 0);
    clq_softmax_forward(e->list, x->elements, clq_graph_value_channels(x), e->in[0], e->out[0]);
}
/* Rows stay whole. */
static bool softmax_split(clq_split *s) {
    const size_t row = clq_graph_value_channels(clq_graph_value_at(s->graph, s->node->inputs[0]));
    return clq_split_in_units(s, (const size_t[CLQ_NODE_VALUES]){[0] = row, [CLQ_NODE_INPUTS] = row});
}
const clq_operation clq_op_softmax = {.name = "softmax",
                                      .traits = CLQ_OP_WIDE | CLQ_OP_AGAIN,
                                      .overwrites = 1,
                                      .differentiate = softmax_gradient,
                                      .emit = emit_softmax,
                                      .split = softmax_split};

static void emit_softmax_gradient(clq_emission *e) {
    const clq_graph_value *dy = input_of(e, 1);
    clq_softmax_backward(e->list, dy->elements, clq_graph_value_channels(dy), e->in[0], e->in[1], e->out[0], e->out[1]);
}
const clq_operation clq_op_softmax_gradient = {
    .name = "softmax_gradient", .traits = CLQ_OP_WIDE, .overwrites = 2, .sums = 1, .emit = emit_softmax_gradient};

/* ---- loss, norms and update ---- */

/* The kernel of the loss makes the gradient, too. */
static void loss_gradient(clq_derivation *d) {
    d->node.outputs[1] = d->dx[0] = clq_graph_add_gradient(d->graph, d->node.inputs[0]);
}
/* inputs: x; labels; the state of the loss scale, or none; and if some steps do not count: their mask, how many steps
 * count, and how many steps there are. Outputs: metrics, dx. */
static void emit_loss(clq_emission *e) {
    const struct clq_loss_attributes *loss = &e->node->attributes.loss;
    clq_loss_and_metrics(e->list, &loss->problem,
                         &(clq_loss_values){.x = e->in[0],
                                            .targets = e->in[1],
                                            .scaling = e->in[2],
                                            .initial = loss->scale,
                                            .mask = e->in[3],
                                            .counting = e->in[4],
                                            .steps = e->in[5],
                                            .dx = e->out[1],
                                            .metrics = e->out[0]});
}
const clq_operation clq_op_loss = {.name = "loss",
                                   .traits = CLQ_OP_LOSS,
                                   .types = CLQ_OP_TYPE(CLQ_I32),
                                   .differentiate = loss_gradient,
                                   .emit = emit_loss};

static clq_blocks blocks_of(const clq_emission *e, unsigned table, size_t count) {
    return (clq_blocks){.table = e->in[table], .entries = input_of(e, table)->elements / 4, .count = count};
}

/* inputs: gradients, table of blocks */
static void emit_squares(clq_emission *e) {
    const clq_blocks blocks = blocks_of(e, 1, input_of(e, 0)->elements / CLQ_UPDATE_BLOCK);
    clq_squares_from_values(e->list, &blocks, e->in[0], e->out[0]);
}
enum { TABLE_TYPES = CLQ_OP_TYPE(CLQ_I32) };
const clq_operation clq_op_squares = {.name = "squares", .types = TABLE_TYPES, .emit = emit_squares};

/* inputs: squares, state of the loss scale; outputs: squares of the unscaled gradient, in place; the factor that takes
 * the scale off */
static void emit_take_scale_off(clq_emission *e) {
    clq_take_scale_off(e->list, input_of(e, 0)->elements, &e->node->attributes.scaling, e->in[0], e->in[1], e->out[1]);
}
const clq_operation clq_op_take_scale_off = {
    .name = "take_scale_off", .traits = CLQ_OP_ALIAS, .types = TABLE_TYPES, .emit = emit_take_scale_off};

/* inputs: squares, table of blocks, and the factor that takes a scale off, or none. Output: one factor, or one for each
 * block. */
static void emit_clip(clq_emission *e) {
    const clq_clip *clip = &e->node->attributes.clip;
    const clq_blocks blocks = blocks_of(e, 1, clq_graph_value_at(e->graph, e->node->outputs[0])->elements);
    if (clip->kind == CLQ_CLIP_GLOBAL_NORM)
        clq_global_factor(e->list, input_of(e, 0)->elements, (float)clip->limit, e->in[0], e->in[2], e->out[0]);
    else
        clq_block_factors(e->list, &blocks, (float)clip->limit, e->in[0], e->in[2], e->out[0]);
}
const clq_operation clq_op_clip = {.name = "clip", .types = TABLE_TYPES, .emit = emit_clip};

/* The launch reads its output, too, whose memory lies outside of the step. */
static void emit_accumulate(clq_emission *e) { clq_accumulate(e->list, input_of(e, 0)->elements, e->in[0], e->out[0]); }
const clq_operation clq_op_accumulate = {.name = "accumulate", .emit = emit_accumulate};

/* inputs: squares of blocks, table of blocks */
static void emit_step_squares(clq_emission *e) {
    const clq_blocks blocks = blocks_of(e, 1, input_of(e, 0)->elements / 2);
    clq_squares_from_blocks(e->list, &blocks, 2, e->in[0], e->out[0]);
}
const clq_operation clq_op_step_squares = {.name = "step_squares", .types = TABLE_TYPES, .emit = emit_step_squares};

/* inputs: squares, table of blocks */
static void emit_ratios(clq_emission *e) {
    const clq_blocks blocks = blocks_of(e, 1, clq_graph_value_at(e->graph, e->node->outputs[0])->elements);
    clq_block_ratios(e->list, &blocks, e->in[0], e->out[0]);
}
const clq_operation clq_op_ratios = {.name = "ratios", .types = TABLE_TYPES, .emit = emit_ratios};

/* inputs: as in clq_graph_add_update. Parameters and slots are updated in place. */
static clq_update_arenas arenas_of(const clq_emission *e) {
    clq_update_arenas arenas = {.w = e->in[CLQ_UPDATES_PARAMETERS],
                                .g = e->in[CLQ_UPDATES_GRADIENTS],
                                .average = e->in[CLQ_UPDATES_AVERAGE],
                                .factors = e->in[CLQ_UPDATES_FACTORS],
                                .decays = e->in[CLQ_UPDATES_DECAYS],
                                .ratios = e->in[CLQ_UPDATES_RATIOS],
                                .floats = input_of(e, CLQ_UPDATES_PARAMETERS)->elements};
    for (unsigned i = 0; i < CLQ_UPDATES_STATE_COUNT; i++) arenas.states[i] = e->in[CLQ_UPDATES_FIRST_STATE + i];
    return arenas;
}

static void emit_directions(clq_emission *e) {
    const clq_update_arenas arenas = arenas_of(e);
    e->out[0] = clq_add_directions(e->list, &e->node->attributes.updates, &arenas, e->out[0]);
}
const clq_operation clq_op_directions = {.name = "directions", .emit = emit_directions};

static void emit_update(clq_emission *e) {
    const clq_update_arenas arenas = arenas_of(e);
    clq_add_updates(e->list, &e->node->attributes.updates, &arenas);
}
const clq_operation clq_op_update = {.name = "update", .emit = emit_update};
