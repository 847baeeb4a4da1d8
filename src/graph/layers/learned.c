/* Learned rows, the same for each sample: keras_hub's PositionEmbedding, and LearnedRows for class tokens. Also
 * keras_hub's RotaryEmbedding. */
#include "graph/layers/layer.h"

#include <math.h>
#include <string.h>

#define HUB "keras_hub.src."

/* ---- learned rows ---- */

typedef struct learned_config {
    size_t rows, channels; /* channels 0: as many as the input has */
    bool behind_one;       /* the variable has an axis of size 1 in front */
    clq_initialiser initialiser;
} learned_config;
static const clq_attribute position_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("sequence_length", CLQ_ATTRIBUTE_SIZES, learned_config, rows), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("initializer", CLQ_ATTRIBUTE_INITIALISER, learned_config, initialiser)},
};
static const clq_attribute learned_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("rows", CLQ_ATTRIBUTE_SIZES, learned_config, rows), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("channels", CLQ_ATTRIBUTE_SIZES, learned_config, channels), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("behind_one", CLQ_ATTRIBUTE_FLAG, learned_config, behind_one)},
    {CLQ_LAYER_ATTRIBUTE("initializer", CLQ_ATTRIBUTE_INITIALISER, learned_config, initialiser)},
};

static const learned_config *config_of(const clq_layer *layer) { return layer->config; }
static size_t channels_of(const clq_layer *layer, const clq_model_tensor *x) {
    return clq_or_default(config_of(layer)->channels, clq_model_channels(x));
}

/* Gives as many of the first rows as x has tokens. */
static clq_status infer_position(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    y->shape = *x;
    if (x->rank != 2) return clq_fail(CLQ_ERROR_ARGUMENT, "it takes (tokens, channels), not %u axes", x->rank);
    if (x->dims[0] <= config_of(layer)->rows) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%zu tokens are more than the %zu that it has positions for", x->dims[0],
                    config_of(layer)->rows);
}
static clq_status infer_learned(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    (void)model;
    y->shape = CLQ_SHAPE(config_of(layer)->rows, config_of(layer)->channels);
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    clq_variable_kind table = clq_variable_kind_by(&clq_variable_kernel, &config_of(layer)->initialiser);
    table.what = "embeddings";
    table.decay = false;
    const size_t rows = config_of(layer)->rows, channels = channels_of(layer, clq_model_input_of(model, y, 0));
    const clq_shape shape = config_of(layer)->behind_one ? CLQ_SHAPE(1, rows, channels) : CLQ_SHAPE(rows, channels);
    return clq_model_declare_variable(model, layer, CLQ_KERNEL, shape, &table);
}

/* 0, 1, 2, … for each sample: a one of the sample times a constant row. */
static clq_id add_numbers(clq_expansion *e, size_t count) {
    const clq_shape shape = CLQ_SHAPE(count), single = CLQ_SHAPE(1);
    float *numbers = clq_alloc(count, sizeof *numbers);
    if (!numbers) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < count; i++) numbers[i] = (float)i;
    const clq_id known = clq_graph_add_constant(e->graph, "places", &shape, count, numbers);
    clq_free(numbers);
    clq_node one = clq_expand_node(e, &clq_op_elementwise), node = clq_expand_node(e, &clq_op_batched);
    clq_element_program *p = &one.attributes.program;
    p->outputs[p->output_count++].from = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 1});
    one.outputs[0] = clq_expand_value(e, &single, 1);
    node.attributes.batched = (clq_batched_problem){.counts = {1, 1},
                                                    .m = 1,
                                                    .n = count,
                                                    .k = 1,
                                                    .a = {.sample = 1, .row = 1, .column = 1},
                                                    .b = {.row = count, .column = 1},
                                                    .c = {.sample = count, .row = count, .column = 1},
                                                    .scale = 1};
    node.inputs[0] = clq_graph_add_node(e->graph, &one);
    node.inputs[1] = known;
    node.outputs[0] = clq_expand_value(e, &shape, count);
    return known && node.inputs[0] ? clq_graph_add_node(e->graph, &node) : 0;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    clq_node node = clq_expand_node(e, &clq_op_gather);
    const size_t tokens = e->y->shape.dims[0], channels = e->y->shape.dims[1];
    (void)x;
    node.attributes.gather =
        (clq_gather_problem){.tokens = tokens, .rows = config_of(e->layer)->rows, .width = channels};
    node.inputs[1] = clq_expand_weight(e, CLQ_KERNEL);
    /* A model that decodes gets one token, and takes the row of the token's place. */
    const clq_id numbers = e->model->decodes ? clq_expand_places(e) : add_numbers(e, tokens);
    return numbers ? clq_expand_unary(e, node, numbers) : 0;
}

const clq_layer_kind clq_layer_position_embedding = {.type = "PositionEmbedding",
                                                     .stem = "position_embedding",
                                                     .module = HUB "layers.modeling.position_embedding",
                                                     .inputs = {1, 1},
                                                     CLQ_LAYER_CONFIG(learned_config, position_attributes),
                                                     .is_table = true,
                                                     .by_token = clq_layer_is_of_tokens,
                                                     .infer = infer_position,
                                                     .declare = declare,
                                                     .expand = expand};
/* Files have it only as a part of other layers. */
const clq_layer_kind clq_layer_learned_rows = {.type = "LearnedRows",
                                               .stem = "learned_rows",
                                               .module = "clique",
                                               .inputs = {1, 1},
                                               CLQ_LAYER_CONFIG(learned_config, learned_attributes),
                                               .infer = infer_learned,
                                               .declare = declare,
                                               .expand = expand};

clq_tensor clq_position_embedding(clq_model *model, clq_tensor x, size_t rows, const clq_initialiser *initialiser,
                                  const char *name) {
    learned_config config = {.rows = rows};
    if (initialiser) config.initialiser = *initialiser;
    return clq_model_add_layer(model, &clq_layer_position_embedding, name, &config, &x, 1);
}

/* ---- RotaryEmbedding (Su et al., "RoFormer", 2021): rotates the halves of each row by an angle of its place ---- */

typedef struct rotary_config {
    double wavelength, factor;
} rotary_config;
static const clq_attribute rotary_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("max_wavelength", CLQ_ATTRIBUTE_NUMBER, rotary_config, wavelength), .fallback = 1e4,
     .least = 1, .most = 1e12},
    {CLQ_LAYER_ATTRIBUTE("scaling_factor", CLQ_ATTRIBUTE_NUMBER, rotary_config, factor), .fallback = 1, .least = 1e-6,
     .most = 1e6},
    {.key = "sequence_axis", .type = CLQ_ATTRIBUTE_ONLY_NUMBER, .fallback = 1},
    {.key = "feature_axis", .type = CLQ_ATTRIBUTE_ONLY_NUMBER, .fallback = -1},
    {.key = "rope_type", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "linear"},
    {.key = "beta_fast", .type = CLQ_ATTRIBUTE_UNUSED},
    {.key = "beta_slow", .type = CLQ_ATTRIBUTE_UNUSED},
    {.key = "original_max_position_embeddings", .type = CLQ_ATTRIBUTE_UNUSED},
    {.key = "truncate", .type = CLQ_ATTRIBUTE_UNUSED},
    {.key = "denominator_dim", .type = CLQ_ATTRIBUTE_ONLY_NULL},
};

static clq_status infer_rotary(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    char text[CLQ_SHAPE_TEXT_MAX];
    (void)layer;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    if (y->shape.rank >= 2 && y->shape.dims[y->shape.rank - 1] % 2 == 0) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "it takes (tokens, …, width) with an even width, not %s",
                    clq_shape_describe(&y->shape, text));
}

/* The cosine or the sine of each number's angle, for `tokens` tokens of `row` numbers each. The sine has the sign with
 * which the row's other half is added. */
static clq_id add_turns(clq_expansion *e, size_t tokens, size_t row, bool sine) {
    const rotary_config *config = e->layer->config;
    const size_t width = clq_model_channels(e->y), half = width / 2, count = tokens * row;
    float *turns = clq_alloc(count, sizeof *turns);
    if (!turns) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t place = i % width, pair = place % half;
        const double frequency = pow(config->wavelength, -2.0 * (double)pair / (double)width) / config->factor;
        const double angle = (double)(i / row) * frequency;
        turns[i] = (float)(!sine ? cos(angle) : place < half ? -sin(angle) : sin(angle));
    }
    const clq_id id = clq_graph_add_constant(e->graph, sine ? "sines" : "cosines", &CLQ_SHAPE(count), count, turns);
    clq_free(turns);
    return id;
}

/* The turns of a single token in a model that decodes: those of its place, the same for all heads. */
static clq_id add_turns_of_place(clq_expansion *e, bool sine) {
    const size_t width = clq_model_channels(e->y), places = e->model->decodes;
    const clq_shape shape = CLQ_SHAPE(width);
    clq_node node = clq_expand_node(e, &clq_op_gather);
    node.attributes.gather = (clq_gather_problem){.tokens = 1, .rows = places, .width = width};
    node.inputs[0] = clq_expand_places(e);
    node.inputs[1] = add_turns(e, places, width, sine);
    node.outputs[0] = clq_expand_value(e, &shape, width);
    return node.inputs[1] ? clq_graph_add_node(e->graph, &node) : 0;
}

static clq_id expand_rotary(clq_expansion *e, const clq_id *x) {
    const size_t width = clq_model_channels(e->y), tokens = e->y->shape.dims[0], decodes = e->model->decodes;
    const struct clq_element_input turn = {.kind = decodes ? CLQ_EACH_SAMPLE_AND_CHANNEL : CLQ_EACH_CHANNEL,
                                           .dtype = CLQ_F32};
    const clq_shape flat = decodes ? CLQ_SHAPE(e->y->elements / width, width) : CLQ_SHAPE(1, e->y->elements);
    const size_t half = width / 2, sizes[] = {e->y->elements / half / 2, 2, half};
    clq_node swap = clq_expand_node(e, &clq_op_arrange), whole = clq_expand_node(e, &clq_op_reshape),
             node = clq_expand_node(e, &clq_op_elementwise);
    swap.attributes.arrangement = clq_arrangement_of(3, sizes);
    swap.attributes.arrangement.axes[1].first = 1;
    swap.attributes.arrangement.axes[1].step = -1;
    swap.inputs[0] = whole.inputs[0] = x[0];
    swap.outputs[0] = clq_expand_value(e, &flat, e->y->elements);
    whole.outputs[0] = clq_expand_value(e, &flat, e->y->elements);
    clq_element_program *p = &node.attributes.program;
    const unsigned own = clq_element_take(p, clq_each_element), other = clq_element_take(p, clq_each_element);
    const unsigned cosine = clq_element_take(p, turn), sine = clq_element_take(p, turn);
    const unsigned stays = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY, .a = own, .b = cosine});
    const unsigned comes = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY, .a = other, .b = sine});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = stays, .b = comes});
    node.inputs[0] = clq_graph_add_node(e->graph, &whole);
    node.inputs[1] = clq_graph_add_node(e->graph, &swap);
    for (unsigned i = 0; i < 2; i++)
        node.inputs[2 + i] =
            decodes ? add_turns_of_place(e, i > 0) : add_turns(e, tokens, e->y->elements / tokens, i > 0);
    node.outputs[0] = clq_expand_value(e, &flat, e->y->elements);
    const clq_id turned = node.inputs[2] && node.inputs[3] ? clq_graph_add_node(e->graph, &node) : 0;
    return turned ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), turned) : 0;
}

const clq_layer_kind clq_layer_rotary_embedding = {.type = "RotaryEmbedding",
                                                   .stem = "rotary_embedding",
                                                   .module = HUB "layers.modeling.rotary_embedding",
                                                   .inputs = {1, 1},
                                                   CLQ_LAYER_CONFIG(rotary_config, rotary_attributes),
                                                   .by_token = clq_layer_is_by_token,
                                                   .infer = infer_rotary,
                                                   .expand = expand_rotary};
