/* Discretization: the number of the bin that a number is in, or one-hot rows of these bins. The boundaries were given,
 * or Keras found them in data. Bin i begins with boundary i - 1 and ends in front of boundary i. */
#include "graph/layers/layer.h"

enum { INT, ONE_HOT, MULTI_HOT, COUNT };
static const char *const modes[] = {"int", "one_hot", "multi_hot", "count", NULL};

typedef struct bins_config {
    clq_numbers boundaries;
    int mode;
} bins_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("bin_boundaries", CLQ_ATTRIBUTE_NUMBERS, bins_config, boundaries), .listed = true},
    {CLQ_LAYER_ATTRIBUTE("output_mode", CLQ_ATTRIBUTE_CHOICE, bins_config, mode), .words = modes, .fallback = INT},
    {.key = "num_bins", .type = CLQ_ATTRIBUTE_UNUSED}, /* of a layer that has not seen data yet */
    {.key = "epsilon", .type = CLQ_ATTRIBUTE_UNUSED},
    {.key = "sparse", .type = CLQ_ATTRIBUTE_ONLY_FALSE},
};

static const bins_config *config_of(const clq_layer *layer) { return layer->config; }

/* With MULTI_HOT and COUNT, x (a, …) -> (…, bins): numbers along the first axis are combined. With ONE_HOT, x (a,
 * …) -> (a, …, bins), and a last axis of one place is dropped. */
static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_numbers *given = &config_of(layer)->boundaries;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    const int mode = config_of(layer)->mode;
    const size_t bins = given->count + 1;
    size_t elements;
    if (given->count == 0)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "it has no bin_boundaries: adapt it to data in Keras before it is saved");
    for (size_t i = 1; i < given->count; i++)
        if (!(given->values[i - 1] <= given->values[i]))
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "bin_boundaries[%zu] is below the one before: sort them", i);
    const clq_shape pairs = CLQ_SHAPE(clq_model_input_of(model, y, 0)->elements, bins);
    CLQ_TRY(clq_shape_elements(&pairs, &elements));
    y->shape = *x;
    if (mode == INT) return CLQ_OK;
    y->shape.rank = 0;
    for (unsigned d = mode != ONE_HOT; d < x->rank; d++)
        if (mode != ONE_HOT || d + 1 < x->rank || x->dims[d] != 1) y->shape.dims[y->shape.rank++] = x->dims[d];
    if (y->shape.rank == CLQ_SHAPE_MAX) return clq_fail(CLQ_ERROR_UNSUPPORTED, "its output would have too many axes");
    y->shape.dims[y->shape.rank++] = bins;
    return CLQ_OK;
}

/* How many boundaries are not above the number. For NaN, these are all boundaries. */
static clq_id count_below(clq_expansion *e, const clq_parts *parts, size_t numbers, clq_id x) {
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    const clq_numbers *given = &config_of(e->layer)->boundaries;
    const clq_shape pairs = CLQ_SHAPE(numbers, given->count);
    clq_node above = clq_part_node(
        parts, &clq_op_elementwise,
        CLQ_IDS(clq_part_reshape(parts, clq_expand_repeated(e, &CLQ_SHAPE(numbers, 1), &pairs, x), pairs),
                clq_graph_add_constant(e->graph, "boundaries", &CLQ_SHAPE(given->count), given->count, given->values)));
    clq_element_program *p = &above.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element), boundary = clq_element_take(p, by_channel);
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_GREATER, .a = boundary, .b = number});
    const clq_repeat_problem sum = {.outer = numbers, .repeats = given->count, .inner = 1, .scale = 1};
    const clq_id total = above.inputs[0] && above.inputs[1]
                             ? clq_part_reduce(parts, clq_part_add(parts, above, pairs), &sum, CLQ_SHAPE(numbers))
                             : 0;
    clq_node rest = clq_part_node(parts, &clq_op_elementwise, CLQ_IDS(total));
    p = &rest.attributes.program;
    const unsigned taken = clq_element_take(p, clq_each_element);
    const unsigned all =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = (double)given->count});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SUBTRACT, .a = all, .b = taken});
    return total ? clq_part_add(parts, rest, CLQ_SHAPE(numbers)) : 0;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const bins_config *config = config_of(e->layer);
    const clq_model_tensor *in = clq_model_input_of(e->model, e->y, 0);
    const size_t bins = config->boundaries.count + 1;
    clq_node of;
    const clq_parts parts = clq_expand_parts(e, &of);
    clq_id y = count_below(e, &parts, in->elements, x[0]);
    if (config->mode != INT && y) y = clq_layer_expand_classes(e, y, in->elements, bins);
    if (config->mode == INT || config->mode == ONE_HOT || !y) return clq_part_reshape(&parts, y, e->y->shape);
    const clq_repeat_problem sum = {
        .outer = 1, .repeats = in->shape.dims[0], .inner = in->elements / in->shape.dims[0] * bins, .scale = 1};
    y = clq_part_reduce(&parts, y, &sum, e->y->shape);
    return config->mode == COUNT || !y ? y : clq_layer_expand_at_most_one(e, y);
}

static bool takes_bytes(const clq_layer *layer) {
    (void)layer;
    return true;
}

const clq_layer_kind clq_layer_discretization = {.type = "Discretization",
                                                 .stem = "discretization",
                                                 .inputs = {1, 1},
                                                 CLQ_LAYER_CONFIG(bins_config, attributes),
                                                 .takes_bytes = takes_bytes,
                                                 .infer = infer,
                                                 .expand = expand};
