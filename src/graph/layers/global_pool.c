/* GlobalAveragePooling and GlobalMaxPooling, 1D to 3D: the mean or the largest number of each channel over all
 * places. */
#include "graph/layers/layer.h"

typedef struct global_pool_config {
    bool keep_dims;
    size_t mask; /* which input is the mask, from 1 on; 0: none */
} global_pool_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("keepdims", CLQ_ATTRIBUTE_FLAG, global_pool_config, keep_dims)},
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
};

static const clq_attribute masked_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("keepdims", CLQ_ATTRIBUTE_FLAG, global_pool_config, keep_dims)},
    {CLQ_LAYER_ATTRIBUTE("mask", CLQ_ATTRIBUTE_TENSOR, global_pool_config, mask), .implicit = 1},
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
};

static unsigned axes_of(const clq_layer *layer) {
    if (layer->kind == &clq_layer_global_average_pool1d || layer->kind == &clq_layer_global_max_pool1d) return 1;
    return layer->kind == &clq_layer_global_average_pool3d || layer->kind == &clq_layer_global_max_pool3d ? 3 : 2;
}
static bool is_average(const clq_layer *layer) {
    return layer->kind == &clq_layer_global_average_pool1d || layer->kind == &clq_layer_global_average_pool2d ||
           layer->kind == &clq_layer_global_average_pool3d;
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(clq_layer_check_rank(x, axes_of(layer)));
    const size_t channels = x->dims[x->rank - 1], mask = ((const global_pool_config *)layer->config)->mask;
    const clq_shape *steps = mask ? &clq_model_input_of(model, y, mask - 1)->shape : NULL;
    if (y->input_count > 1u + (mask > 0))
        return clq_fail(CLQ_ERROR_ARGUMENT, "it takes one input, and perhaps its mask");
    if (steps && (steps->rank != 1 || steps->dims[0] != x->dims[0]))
        return clq_fail(CLQ_ERROR_ARGUMENT, "its mask should have a number for each of %zu steps", x->dims[0]);
    y->shape = CLQ_SHAPE(channels);
    if (!((const global_pool_config *)layer->config)->keep_dims) return CLQ_OK;
    y->shape = *x;
    for (unsigned d = 0; d + 1 < x->rank; d++) y->shape.dims[d] = 1;
    return CLQ_OK;
}

/* The sum of the steps that count, divided by their number. */
static clq_id expand_masked(clq_expansion *e, clq_id x, clq_id mask, size_t steps, size_t channels) {
    const clq_shape whole = CLQ_SHAPE(steps, channels), row = CLQ_SHAPE(channels);
    const clq_repeat_problem sum = {.outer = 1, .repeats = steps, .inner = channels, .scale = 1};
    const clq_id each = clq_expand_repeated(e, &CLQ_SHAPE(steps, 1), &whole, mask);
    clq_node kept = clq_expand_node(e, &clq_op_elementwise), sums[2], share = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &kept.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element), counts = clq_element_take(p, clq_each_element);
    const unsigned none = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SELECT, .a = counts, .b = number, .c = none});
    kept.inputs[0] = x;
    kept.inputs[1] = each;
    kept.outputs[0] = clq_expand_value(e, &whole, steps * channels);
    if (!each) return 0;
    const clq_id terms[2] = {clq_graph_add_node(e->graph, &kept), each};
    for (unsigned i = 0; i < 2; i++) {
        sums[i] = clq_expand_node(e, &clq_op_reduce);
        sums[i].attributes.repeat = sum;
        sums[i].inputs[0] = terms[i];
        sums[i].outputs[0] = clq_expand_value(e, &row, channels);
        share.inputs[i] = terms[i] ? clq_graph_add_node(e->graph, &sums[i]) : 0;
    }
    p = &share.attributes.program;
    const unsigned total = clq_element_take(p, clq_each_element), count = clq_element_take(p, clq_each_element);
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_DIVIDE, .a = total, .b = count});
    return share.inputs[0] && share.inputs[1] ? clq_expand_unary(e, share, share.inputs[0]) : 0;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const size_t mask = ((const global_pool_config *)e->layer->config)->mask;
    const clq_model_tensor *in = clq_model_input_of(e->model, e->y, 0);
    const size_t channels = clq_model_channels(in), places = in->elements / channels;
    if (mask) return expand_masked(e, x[0], x[mask - 1], places, channels);
    clq_node node = clq_expand_node(e, is_average(e->layer) ? &clq_op_reduce : &clq_op_pool2d);
    if (is_average(e->layer))
        node.attributes.repeat = (clq_repeat_problem){
            .outer = 1, .repeats = places, .inner = channels, .scale = (float)(1.0 / (double)places)};
    else /* one window over a row of all places */
        node.attributes.pool2d = (clq_pool2d_problem){.in_h = 1,
                                                      .in_w = places,
                                                      .channels = channels,
                                                      .out_h = 1,
                                                      .out_w = 1,
                                                      .size_h = 1,
                                                      .size_w = places,
                                                      .stride_h = 1,
                                                      .stride_w = places};
    return clq_expand_unary(e, node, x[0]);
}

#define KIND(kind, class_name, name_stem, rows, masked)                                                                \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, 2},                                                                     \
                                 CLQ_LAYER_CONFIG(global_pool_config, rows),                                           \
                                 .takes_mask = (masked),                                                               \
                                 .infer = infer,                                                                       \
                                 .expand = expand}
KIND(clq_layer_global_average_pool1d, "GlobalAveragePooling1D", "global_average_pooling1d", masked_attributes, true);
KIND(clq_layer_global_average_pool2d, "GlobalAveragePooling2D", "global_average_pooling2d", attributes, false);
KIND(clq_layer_global_average_pool3d, "GlobalAveragePooling3D", "global_average_pooling3d", attributes, false);
KIND(clq_layer_global_max_pool1d, "GlobalMaxPooling1D", "global_max_pooling1d", attributes, false);
KIND(clq_layer_global_max_pool2d, "GlobalMaxPooling2D", "global_max_pooling2d", attributes, false);
KIND(clq_layer_global_max_pool3d, "GlobalMaxPooling3D", "global_max_pooling3d", attributes, false);

/* Chooses the kind by the input's rank: 1D, 2D or 3D. An input of any other rank goes to the 2D kind, which refuses
 * it. */
static clq_tensor add(clq_model *model, clq_tensor x, const clq_layer_kind *const kinds[3], bool keep_dims,
                      const char *name) {
    const unsigned axes = clq_model_rank(model, x) - 1;
    const clq_layer_kind *kind = kinds[axes >= 1 && axes <= 3 ? axes - 1 : 1];
    return clq_model_add_layer(model, kind, name, &(global_pool_config){.keep_dims = keep_dims}, &x, 1);
}

clq_tensor clq_global_average_pool(clq_model *model, clq_tensor x, bool keep_dims, const char *name) {
    static const clq_layer_kind *const kinds[] = {&clq_layer_global_average_pool1d, &clq_layer_global_average_pool2d,
                                                  &clq_layer_global_average_pool3d};
    return add(model, x, kinds, keep_dims, name);
}

clq_tensor clq_global_max_pool(clq_model *model, clq_tensor x, bool keep_dims, const char *name) {
    static const clq_layer_kind *const kinds[] = {&clq_layer_global_max_pool1d, &clq_layer_global_max_pool2d,
                                                  &clq_layer_global_max_pool3d};
    return add(model, x, kinds, keep_dims, name);
}

clq_tensor clq_global_average_pool2d(clq_model *model, clq_tensor x, bool keep_dims, const char *name) {
    return clq_model_add_layer(model, &clq_layer_global_average_pool2d, name,
                               &(global_pool_config){.keep_dims = keep_dims}, &x, 1);
}
