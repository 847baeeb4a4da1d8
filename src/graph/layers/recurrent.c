/* SimpleRNN, LSTM and GRU: first one product of the inputs of all steps, then the cell, which goes from step to
 * step. */
#include "graph/layers/layer.h"

#include <stdio.h>

enum { KERNEL, RECURRENT, BIAS };

typedef struct recurrent_config {
    clq_recurrent_config cell;
    bool return_state;
    size_t mask, state; /* input numbers, from 1 on; 0: none */
} recurrent_config;

#define MEMBER(key, type, member) CLQ_LAYER_ATTRIBUTE(key, type, recurrent_config, member)
#define COMMON                                                                                                         \
    {MEMBER("units", CLQ_ATTRIBUTE_SIZES, cell.units), .needed = true},                                                \
        {MEMBER("activation", CLQ_ATTRIBUTE_ACTIVATION, cell.activation), .fallback = CLQ_ACTIVATION_TANH},            \
        {MEMBER("use_bias", CLQ_ATTRIBUTE_OPPOSITE, cell.no_bias)},                                                    \
        {MEMBER("return_sequences", CLQ_ATTRIBUTE_FLAG, cell.return_sequences)},                                       \
        {MEMBER("return_state", CLQ_ATTRIBUTE_FLAG, return_state)},                                                    \
        {MEMBER("go_backwards", CLQ_ATTRIBUTE_FLAG, cell.go_backwards)},                                               \
        {MEMBER("zero_output_for_mask", CLQ_ATTRIBUTE_FLAG, cell.zero_output_for_mask)},                               \
        {MEMBER("dropout", CLQ_ATTRIBUTE_NUMBER, cell.dropout), .most = 1, .below = true},                             \
        {MEMBER("recurrent_dropout", CLQ_ATTRIBUTE_NUMBER, cell.recurrent_dropout), .most = 1, .below = true},         \
        {MEMBER("seed", CLQ_ATTRIBUTE_SEED, cell.seed)},                                                               \
        {MEMBER("kernel_initializer", CLQ_ATTRIBUTE_INITIALISER, cell.kernel_initialiser)},                            \
        {MEMBER("recurrent_initializer", CLQ_ATTRIBUTE_INITIALISER, cell.recurrent_initialiser)},                      \
        {MEMBER("bias_initializer", CLQ_ATTRIBUTE_INITIALISER, cell.bias_initialiser)},                                \
        {MEMBER("mask", CLQ_ATTRIBUTE_TENSOR, mask), .implicit = 1, .alone = true},                                    \
        {MEMBER("initial_state", CLQ_ATTRIBUTE_TENSOR, state), .several = true},                                       \
        {.key = "stateful", .type = CLQ_ATTRIBUTE_ONLY_FALSE},                                                         \
        {.key = "time_major", .type = CLQ_ATTRIBUTE_ONLY_FALSE}, {.key = "unroll", .type = CLQ_ATTRIBUTE_UNUSED},      \
        {.key = "implementation", .type = CLQ_ATTRIBUTE_UNUSED}, {                                                     \
        .key = "use_cudnn", .type = CLQ_ATTRIBUTE_UNUSED                                                               \
    }
#define GATES                                                                                                          \
    {                                                                                                                  \
        MEMBER("recurrent_activation", CLQ_ATTRIBUTE_ACTIVATION, cell.gate_activation),                                \
            .fallback = CLQ_ACTIVATION_SIGMOID                                                                         \
    }
static const clq_attribute simple_attributes[] = {COMMON};
static const clq_attribute lstm_attributes[] = {
    COMMON, GATES, {MEMBER("unit_forget_bias", CLQ_ATTRIBUTE_OPPOSITE, cell.no_forget_ones)}};
static const clq_attribute gru_attributes[] = {
    COMMON, GATES, {MEMBER("reset_after", CLQ_ATTRIBUTE_OPPOSITE, cell.reset_before)}};

static const recurrent_config *config_of(const clq_layer *layer) { return layer->config; }
static clq_cell cell_of(const clq_layer *layer) {
    return layer->kind == &clq_layer_lstm  ? CLQ_CELL_LSTM
           : layer->kind == &clq_layer_gru ? CLQ_CELL_GRU
                                           : CLQ_CELL_SIMPLE;
}
static size_t width_of(const clq_layer *layer) { return clq_cell_gates(cell_of(layer)) * config_of(layer)->cell.units; }
/* A GRU that resets behind the recurrent product has a second bias, that of this product. The cell adds it. */
static bool has_two_biases(const clq_layer *layer) {
    return cell_of(layer) == CLQ_CELL_GRU && !config_of(layer)->cell.reset_before;
}
static unsigned states_of(const clq_layer *layer) { return cell_of(layer) == CLQ_CELL_LSTM ? 2 : 1; }

/* ---- shapes ---- */

/* The kernels compute linear, relu, sigmoid and tanh. With another activation each step becomes operations of its own,
 * and the number of steps is limited. */
static clq_status check_activation(const char *key, clq_activation activation, size_t steps) {
    const char *name = clq_activation_row_of(activation)->name;
    if (clq_recurrent_knows(activation)) return CLQ_OK;
    if (activation == CLQ_ACTIVATION_SOFTMAX)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s '%s' is not supported", key, name);
    if (steps <= CLQ_PARTS_STEPS) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED,
                    "with %s '%s' more than %d steps are not supported: there are %zu; linear, relu, sigmoid and tanh "
                    "take any number",
                    key, name, CLQ_PARTS_STEPS, steps);
}

/* The mask must have a number for each step, and each state a number for each unit. */
static clq_status check_inputs(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y) {
    const recurrent_config *config = config_of(layer);
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    const unsigned states = states_of(layer);
    char text[CLQ_SHAPE_TEXT_MAX];
    if (y->input_count != 1u + (config->mask > 0) + (config->state > 0 ? states : 0))
        return clq_fail(CLQ_ERROR_ARGUMENT, "it takes its sequence, perhaps a mask, and all %u states or none", states);
    if (config->mask) {
        const clq_shape *mask = &clq_model_input_of(model, y, config->mask - 1)->shape;
        if (mask->rank != 1 || mask->dims[0] != x->dims[0])
            return clq_fail(CLQ_ERROR_ARGUMENT, "its mask %s should be one number for each of %zu steps",
                            clq_shape_describe(mask, text), x->dims[0]);
    }
    for (unsigned i = 0; i < states && config->state; i++) {
        const clq_shape *state = &clq_model_input_of(model, y, config->state - 1 + i)->shape;
        if (state->rank != 1 || state->dims[0] != config->cell.units)
            return clq_fail(CLQ_ERROR_ARGUMENT, "its initial state %s should be (%zu), as its units",
                            clq_shape_describe(state, text), config->cell.units);
    }
    return CLQ_OK;
}

/* Sets y's shape to that of the output. If the layer gives several tensors, y has the values of all, one behind the
 * other. */
static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const recurrent_config *config = config_of(layer);
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    const size_t units = config->cell.units;
    char text[CLQ_SHAPE_TEXT_MAX];
    size_t elements;
    if (x->rank != 2)
        return clq_fail(CLQ_ERROR_ARGUMENT, "it takes (steps, features), and its input is %s",
                        clq_shape_describe(x, text));
    CLQ_TRY(check_activation("activation", config->cell.activation, x->dims[0]));
    if (cell_of(layer) != CLQ_CELL_SIMPLE)
        CLQ_TRY(check_activation("recurrent_activation", config->cell.gate_activation, x->dims[0]));
    CLQ_TRY(check_inputs(model, layer, y));
    CLQ_TRY(clq_shape_elements(&CLQ_SHAPE(x->dims[0], 16, units), &elements)); /* the most that backward keeps */
    y->shape = config->cell.return_sequences ? CLQ_SHAPE(x->dims[0], units) : CLQ_SHAPE(units);
    if (!config->return_state) return CLQ_OK;
    y->shape = CLQ_SHAPE((config->cell.return_sequences ? x->dims[0] : 1) * units + states_of(layer) * units);
    return CLQ_OK;
}

static unsigned count_outputs(const clq_layer *layer) {
    return config_of(layer)->return_state ? 1 + states_of(layer) : 1;
}
static clq_status find_output(const clq_model *model, const clq_model_tensor *y, unsigned index,
                              clq_arrangement *places, clq_shape *shape) {
    const clq_layer *layer = &model->layers[y->layer - 1];
    const size_t units = config_of(layer)->cell.units, first = y->elements - states_of(layer) * units;
    const size_t begin = index == 0 ? 0 : first + (index - 1) * units, count = index == 0 ? first : units;
    *shape = CLQ_SHAPE(count);
    if (index == 0 && config_of(layer)->cell.return_sequences) *shape = CLQ_SHAPE(first / units, units);
    *places = clq_arrangement_run(y->elements, begin, count);
    return CLQ_OK;
}

/* Sequences keep the mask of their steps. As in Keras, they also keep it if the cell ignores the mask because the call
 * has initial states. */
static clq_tensor pass_mask(clq_model *model, uint32_t layer, clq_tensor y) {
    const recurrent_config *config = config_of(&model->layers[layer - 1]);
    clq_tensor mask = {.model = model};
    if (!config->cell.return_sequences) return mask;
    if (!config->mask) return clq_layer_keep_mask(model, layer, y);
    mask.id = model->inputs[model->tensors[y.id - 1].first_input + config->mask - 1];
    return mask;
}

/* ---- variables ---- */

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    static const clq_initialiser orthogonal = {.kind = CLQ_INITIALISER_ORTHOGONAL, .gain = 1};
    const clq_recurrent_config *config = &config_of(layer)->cell;
    const size_t width = width_of(layer), channels = clq_model_channels(clq_model_input_of(model, y, 0));
    clq_variable_kind kernel = clq_variable_kind_by(&clq_variable_kernel, &config->kernel_initialiser),
                      state = clq_variable_kind_by(&clq_variable_kernel, &orthogonal),
                      bias = clq_variable_kind_by(&clq_variable_bias, &config->bias_initialiser);
    state = clq_variable_kind_by(&state, &config->recurrent_initialiser);
    state.what = "recurrent_kernel";
    if (cell_of(layer) == CLQ_CELL_LSTM && !config->no_forget_ones) {
        bias.ones[0] = config->units;
        bias.ones[1] = 2 * config->units;
    }
    CLQ_TRY(clq_model_declare_variable(model, layer, KERNEL, CLQ_SHAPE(channels, width), &kernel));
    CLQ_TRY(clq_model_declare_variable(model, layer, RECURRENT, CLQ_SHAPE(config->units, width), &state));
    if (config->no_bias) return CLQ_OK;
    const clq_shape shape = has_two_biases(layer) ? CLQ_SHAPE(2, width) : CLQ_SHAPE(width);
    return clq_model_declare_variable(model, layer, BIAS, shape, &bias);
}

/* ---- operations ---- */

/* Rows of inputs times the kernel, plus the bias. If there are two biases, the cell adds both. */
static clq_id project(clq_expansion *e, clq_id x, size_t rows, size_t in) {
    const size_t out = width_of(e->layer);
    const clq_shape shape = CLQ_SHAPE(rows, out);
    clq_node node = clq_expand_node(e, &clq_op_dense);
    node.attributes.dense = (clq_dense_problem){.in = in, .out = out, .rows_per_example = rows};
    node.inputs[0] = x;
    node.inputs[1] = clq_expand_weight(e, KERNEL);
    if (!has_two_biases(e->layer)) node.inputs[2] = clq_expand_weight(e, BIAS);
    node.outputs[0] = clq_expand_value(e, &shape, rows * out);
    return x ? clq_graph_add_node(e->graph, &node) : 0;
}

/* x times factors. A sample has one factor for each feature, which all its steps share. */
static clq_id drop(clq_expansion *e, clq_id x, const clq_shape *shape, clq_id factors) {
    const struct clq_element_input each = {.kind = CLQ_EACH_SAMPLE_AND_CHANNEL, .dtype = CLQ_F32};
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element), factor = clq_element_take(p, each);
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY, .a = number, .b = factor});
    node.inputs[0] = x;
    node.inputs[1] = factors;
    node.outputs[0] = clq_expand_value(e, shape, shape->dims[0] * shape->dims[1]);
    return factors ? clq_graph_add_node(e->graph, &node) : 0;
}

/* With a dropout of the state, too, Keras drops the inputs of each gate separately. Here each gate has a copy of the
 * inputs with its own dropout. The product computes all gates from each copy, and gate g is taken from copy g. */
static clq_id project_dropped(clq_expansion *e, clq_id x, size_t steps, size_t in, uint32_t stream) {
    const clq_recurrent_config *config = &config_of(e->layer)->cell;
    const size_t gates = clq_cell_gates(cell_of(e->layer)), units = config->units;
    const size_t copies = config->recurrent_dropout > 0 ? gates : 1;
    const clq_shape all = CLQ_SHAPE(copies * in), rows = CLQ_SHAPE(steps, in);
    const clq_id factors = clq_expand_drops(e, &all, config->dropout, config->seed, stream);
    clq_id terms[4];
    size_t widths[4];
    clq_node of;
    const clq_parts parts = clq_expand_parts(e, &of);
    if (copies == 1) return project(e, drop(e, x, &rows, factors), steps, in);
    for (unsigned g = 0; g < copies; g++) {
        terms[g] = drop(e, x, &rows, clq_part_run(&parts, factors, g * in, CLQ_SHAPE(in)));
        widths[g] = steps * in;
    }
    const clq_id z = project(e, clq_part_side_by_side(&parts, terms, widths, (unsigned)copies, 1), copies * steps, in);
    for (unsigned g = 0; g < copies; g++) { /* (copies, steps, gates, units): gate g of copy g */
        const size_t sizes[] = {copies, steps, gates, units};
        const clq_shape shape = CLQ_SHAPE(steps, units);
        clq_node node = clq_expand_node(e, &clq_op_arrange);
        clq_arrangement *a = &node.attributes.arrangement;
        *a = clq_arrangement_of(4, sizes);
        a->axes[0].first = a->axes[2].first = (long)g;
        a->axes[0].out = a->axes[2].out = 1;
        node.inputs[0] = z;
        node.outputs[0] = clq_expand_value(e, &shape, steps * units);
        terms[g] = z ? clq_graph_add_node(e->graph, &node) : 0;
        widths[g] = units;
    }
    return clq_part_side_by_side(&parts, terms, widths, (unsigned)copies, steps);
}

/* The two dropouts of one use have streams that are this far apart. */
enum { STATE_STREAM = 1 << 22 };

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const recurrent_config *config = config_of(e->layer);
    const clq_recurrent_config *cell = &config->cell;
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    const size_t steps = in->dims[0], units = cell->units;
    const clq_shape sequence = CLQ_SHAPE(steps, units), state = CLQ_SHAPE(units);
    const uint32_t stream = e->dropouts++;
    const bool trains = e->config->mode == CLQ_MODE_TRAIN, lstm = cell_of(e->layer) == CLQ_CELL_LSTM;
    clq_node node = clq_expand_node(e, &clq_op_recurrent);
    node.attributes.recurrent =
        (clq_recurrent_problem){.cell = cell_of(e->layer),
                                .steps = steps,
                                .units = units,
                                .activation = cell->activation,
                                .gate_activation = cell->gate_activation,
                                .backwards = cell->go_backwards,
                                .resets_first = cell_of(e->layer) == CLQ_CELL_GRU && cell->reset_before,
                                .zeroes = cell->zero_output_for_mask};
    node.inputs[0] = trains && cell->dropout > 0 ? project_dropped(e, x[0], steps, in->dims[1], stream)
                                                 : project(e, x[0], steps, in->dims[1]);
    node.inputs[1] = clq_expand_weight(e, RECURRENT);
    if (has_two_biases(e->layer)) node.inputs[2] = clq_expand_weight(e, BIAS);
    if (config->state) node.inputs[3] = x[config->state - 1];
    if (config->state && lstm) node.inputs[4] = x[config->state];
    if (config->mask) node.inputs[5] = x[config->mask - 1];
    if (trains && cell->recurrent_dropout > 0) {
        const clq_shape all = CLQ_SHAPE(width_of(e->layer));
        node.inputs[6] = clq_expand_drops(e, &all, cell->recurrent_dropout, cell->seed, stream + STATE_STREAM);
    }
    if (cell->return_sequences) node.outputs[0] = clq_expand_value(e, &sequence, steps * units);
    node.outputs[1] = clq_expand_value(e, &state, units);
    if (lstm) node.outputs[2] = clq_expand_value(e, &state, units);
    if (!node.inputs[0] || e->graph->error.status != CLQ_OK) return 0;
    (void)clq_graph_add_node(e->graph, &node);
    const clq_id y = cell->return_sequences ? node.outputs[0] : node.outputs[1];
    if (!config->return_state) return y;
    clq_node of;
    const clq_parts parts = clq_expand_parts(e, &of);
    const clq_id terms[] = {y, node.outputs[1], node.outputs[2]};
    const size_t widths[] = {cell->return_sequences ? steps * units : units, units, units};
    return clq_part_side_by_side(&parts, terms, widths, lstm ? 3 : 2, 1);
}

static const char *const stores[] = {[KERNEL] = "cell/vars/0", [RECURRENT] = "cell/vars/1", [BIAS] = "cell/vars/2"};

#define KIND(kind, class_name, name_stem, rows, most)                                                                  \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, (most)},                                                                \
                                 CLQ_LAYER_CONFIG(recurrent_config, rows),                                             \
                                 .draws = true,                                                                        \
                                 .output_count = count_outputs,                                                        \
                                 .output = find_output,                                                                \
                                 .mask = pass_mask,                                                                    \
                                 .takes_mask = true,                                                                   \
                                 .infer = infer,                                                                       \
                                 .declare = declare,                                                                   \
                                 .stores = stores,                                                                     \
                                 .expand = expand}
KIND(clq_layer_simple_rnn, "SimpleRNN", "simple_rnn", simple_attributes, 3);
KIND(clq_layer_lstm, "LSTM", "lstm", lstm_attributes, 4);
KIND(clq_layer_gru, "GRU", "gru", gru_attributes, 3);

/* ---- builders ---- */

clq_recurrent_config clq_recurrent_config_default(size_t units) {
    return (clq_recurrent_config){
        .units = units, .activation = CLQ_ACTIVATION_TANH, .gate_activation = CLQ_ACTIVATION_SIGMOID};
}

clq_tensor clq_recurrent(clq_model *model, clq_tensor x, clq_cell cell, const clq_recurrent_config *config) {
    CLQ_LAYER_KNOWS(model, clq_recurrent_config, config);
    const clq_layer_kind *kind = cell == CLQ_CELL_LSTM  ? &clq_layer_lstm
                                 : cell == CLQ_CELL_GRU ? &clq_layer_gru
                                                        : &clq_layer_simple_rnn;
    const recurrent_config all = {.cell = config ? *config : (clq_recurrent_config){0}};
    return clq_model_add_layer(model, kind, all.cell.name, &all, &x, 1);
}

/* "bidirectional", "bidirectional_1", … */
static void name_pair(const clq_model *model, char *name, size_t bytes) {
    (void)snprintf(name, bytes, "bidirectional");
    for (unsigned n = 1; clq_model_has_layer(model, name); n++) (void)snprintf(name, bytes, "bidirectional_%u", n);
}

clq_tensor clq_bidirectional(clq_model *model, clq_tensor x, clq_cell cell, const clq_recurrent_config *config) {
    CLQ_LAYER_KNOWS(model, clq_recurrent_config, config);
    enum { NAME_BYTES = 2 * CLQ_LAYER_NAME_MAX }; /* a name that becomes too long is refused */
    clq_recurrent_config forward = config ? *config : (clq_recurrent_config){0}, backward = forward;
    char made[CLQ_LAYER_NAME_MAX], names[2][NAME_BYTES];
    const char *name = forward.name;
    backward.go_backwards = !forward.go_backwards;
    if (!name) {
        name_pair(model, made, sizeof made);
        name = made;
    }
    (void)snprintf(names[0], sizeof names[0], "forward_%s", name);
    (void)snprintf(names[1], sizeof names[1], "backward_%s", name);
    forward.name = names[0];
    backward.name = names[1];
    const clq_tensor ahead = clq_recurrent(model, x, cell, &forward);
    clq_tensor back = clq_recurrent(model, x, cell, &backward);
    const clq_axes steps = {.count = 1, .axes = {0}};
    if (forward.return_sequences) back = clq_model_add_layer(model, &clq_layer_op_flip, NULL, &steps, &back, 1);
    const clq_tensor both = clq_concatenate(model, CLQ_TENSORS(ahead, back), -1, name);
    return forward.return_sequences ? clq_keep_mask(model, both, x) : both;
}
