/* RepeatVector and UpSampling1D to 3D: values repeated along axes. resample.c interpolates between places. */
#include "graph/layers/layer.h"

typedef struct repeat_config {
    size_t times[3];   /* along each axis except the channels' */
    int interpolation; /* clq_layer_interpolations; 0: the nearest place */
} repeat_config;
static const clq_attribute vector_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("n", CLQ_ATTRIBUTE_SIZES, repeat_config, times), .needed = true},
};
static const clq_attribute attributes_1d[] = {
    {CLQ_LAYER_ATTRIBUTE("size", CLQ_ATTRIBUTE_SIZES, repeat_config, times), .fallback = 2},
};
static const clq_attribute attributes_2d[] = {
    {CLQ_LAYER_ATTRIBUTE("size", CLQ_ATTRIBUTE_SIZES, repeat_config, times), .count = 2, .fallback = 2},
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
    {CLQ_LAYER_ATTRIBUTE("interpolation", CLQ_ATTRIBUTE_CHOICE, repeat_config, interpolation),
     .words = clq_layer_interpolations},
};

static const clq_attribute attributes_3d[] = {
    {CLQ_LAYER_ATTRIBUTE("size", CLQ_ATTRIBUTE_SIZES, repeat_config, times), .count = 3, .fallback = 2},
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
};

static unsigned axes_of(const clq_layer *layer) {
    return layer->kind == &clq_layer_up_sampling1d ? 1 : layer->kind == &clq_layer_up_sampling2d ? 2 : 3;
}

static clq_status times_of(size_t *size, size_t times) {
    if (clq_mul_size(*size, times, size) && *size <= INT32_MAX) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%zu times as many places are too many", times);
}

static clq_status infer_vector(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    char text[CLQ_SHAPE_TEXT_MAX];
    if (x->rank != 1)
        return clq_fail(CLQ_ERROR_ARGUMENT, "it takes (features) and its input is %s: flatten it first",
                        clq_shape_describe(x, text));
    y->shape = CLQ_SHAPE(((const repeat_config *)layer->config)->times[0], x->dims[0]);
    return CLQ_OK;
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const unsigned axes = axes_of(layer);
    y->shape = clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(clq_layer_check_rank(&y->shape, axes));
    for (unsigned d = 0; d < axes; d++)
        CLQ_TRY(times_of(&y->shape.dims[d], ((const repeat_config *)layer->config)->times[d]));
    return CLQ_OK;
}

/* Repeats each run of `inner` elements `times` times. */
static clq_id repeat(clq_expansion *e, clq_id x, size_t inner, size_t times) {
    clq_graph_value from = *clq_graph_value_at(e->graph, x);
    if (times == 1) return x;
    clq_node node = clq_expand_node(e, &clq_op_repeat);
    node.attributes.repeat =
        (clq_repeat_problem){.outer = from.elements / inner, .repeats = times, .inner = inner, .scale = 1};
    const clq_shape shape = CLQ_SHAPE(from.elements / inner * times, inner);
    node.inputs[0] = x;
    node.outputs[0] = clq_expand_value(e, &shape, from.elements * times);
    return clq_graph_add_node(e->graph, &node);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const repeat_config *config = e->layer->config;
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    size_t inner = in->dims[in->rank - 1];
    clq_id y = x[0];
    if (config->interpolation) return clq_layer_expand_resampled(e, y, config->interpolation, false);
    /* The last axis comes first, as fewer values are then moved. A vector has one axis to repeat along. */
    for (unsigned d = CLQ_MAX(in->rank - 1, 1u); d-- > 0 && y;) {
        y = repeat(e, y, inner, config->times[d]);
        inner *= e->y->shape.dims[d];
    }
    return y ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), y) : 0;
}

#define KIND(kind, class_name, name_stem, rows, shape)                                                                 \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(repeat_config, rows),                                                \
                                 .infer = (shape),                                                                     \
                                 .expand = expand}
KIND(clq_layer_repeat_vector, "RepeatVector", "repeat_vector", vector_attributes, infer_vector);
KIND(clq_layer_up_sampling1d, "UpSampling1D", "up_sampling1d", attributes_1d, infer);
KIND(clq_layer_up_sampling2d, "UpSampling2D", "up_sampling2d", attributes_2d, infer);
KIND(clq_layer_up_sampling3d, "UpSampling3D", "up_sampling3d", attributes_3d, infer);

clq_tensor clq_repeat_vector(clq_model *model, clq_tensor x, size_t times, const char *name) {
    return clq_model_add_layer(model, &clq_layer_repeat_vector, name, &(repeat_config){.times = {times}}, &x, 1);
}

clq_tensor clq_up_sampling2d(clq_model *model, clq_tensor x, const size_t size[2], const char *name) {
    const repeat_config config = {.times = {size ? size[0] : 0, size ? size[1] : 0}};
    return clq_model_add_layer(model, &clq_layer_up_sampling2d, name, &config, &x, 1);
}

clq_tensor clq_up_sampling3d(clq_model *model, clq_tensor x, const size_t size[3], const char *name) {
    const repeat_config config = {.times = {size ? size[0] : 0, size ? size[1] : 0, size ? size[2] : 0}};
    return clq_model_add_layer(model, &clq_layer_up_sampling3d, name, &config, &x, 1);
}
