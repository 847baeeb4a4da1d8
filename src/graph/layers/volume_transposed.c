/* Conv3DTranspose: the gradient of a convolution of volumes with respect to its input, as a layer. */
#include "graph/layers/volume.h"

/* It begins with the config of a volume convolution, which the code that both share reads. */
typedef struct transposed_config {
    clq_conv3d_config conv;
    clq_numbers behind;
} transposed_config;
static const clq_attribute attributes[] = {
    CLQ_VOLUME_ATTRIBUTES,
    {CLQ_LAYER_ATTRIBUTE("output_padding", CLQ_ATTRIBUTE_NUMBERS, transposed_config, behind), .whole = true},
};

/* The windows of the convolution whose gradient the layer is. They lie in y, and there is one for each place of x. */
static clq_status place(const clq_layer *layer, const clq_shape *x, clq_volume_windows *out) {
    const clq_conv3d_config *config = layer->config;
    CLQ_TRY(clq_volume_windows_of(x, config->kernel, config->strides, config->dilation, out));
    for (unsigned d = 0; d < CLQ_VOLUME_AXES; d++) {
        out->of[d].out = out->of[d].in;
        const size_t *behind;
        size_t places;
        CLQ_TRY(clq_layer_find_behind(&((const transposed_config *)layer->config)->behind, CLQ_VOLUME_AXES, d, &places,
                                      &behind));
        CLQ_TRY(clq_window_place_transposed(&out->of[d], config->padding, behind));
    }
    return CLQ_OK;
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_conv3d_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    clq_volume_windows w;
    if (config->groups > 1)
        return clq_fail(CLQ_ERROR_ARGUMENT, "it has no groups, and %zu are asked for", config->groups);
    CLQ_TRY(place(layer, x, &w));
    CLQ_TRY(clq_volume_check(&w, config->filters, clq_model_channels(clq_model_input_of(model, y, 0))));
    y->shape = CLQ_SHAPE(w.of[CLQ_DEPTH].in, w.of[CLQ_HEIGHT].in, w.of[CLQ_WIDTH].in, config->filters);
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_conv3d_config *config = layer->config;
    return clq_volume_declare(model, layer, config->filters, clq_model_channels(clq_model_input_of(model, y, 0)));
}

static clq_id arrange(const clq_parts *parts, const clq_arrangement *a, clq_id x, clq_shape shape) {
    clq_node node = clq_part_node(parts, &clq_op_arrange, CLQ_IDS(x));
    node.attributes.arrangement = *a;
    return clq_part_add(parts, node, shape);
}

/* What place k of the windows gives to y. In `windows`, all `places` of the width lie side by side. */
static clq_id give_place(const clq_parts *parts, const clq_volume_windows *w, size_t k, clq_id windows,
                         const clq_shape *y) {
    const size_t channels = y->dims[CLQ_VOLUME_AXES], places = w->of[CLQ_WIDTH].size;
    const clq_arrangement taken = clq_volume_place(w, k, channels);
    clq_arrangement a = clq_arrangement_back(&taken);
    for (unsigned d = 0; d < a.rank; d++)
        if (a.axes[d].pitch >= channels) a.axes[d].pitch *= places;
    a.axes[a.rank] = a.axes[a.rank - 1];
    a.axes[a.rank - 1] =
        (clq_arranged_axis){.out = 1, .in = places, .pitch = channels, .first = (long)k, .step = 1, .spread = 1};
    a.rank++;
    return arrange(parts, &a, windows, *y);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_conv3d_config *config = e->layer->config;
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    const size_t channels = in->dims[CLQ_VOLUME_AXES];
    clq_volume_windows w;
    clq_node of;
    clq_id y = 0;
    (void)place(e->layer, in, &w); /* as it was inferred */
    const clq_parts parts = clq_expand_parts(e, &of);
    const clq_conv2d_problem problem = clq_volume_problem(&w, config->filters, channels);
    const clq_arrangement positions = clq_volume_positions(&w, channels), images = clq_arrangement_back(&positions);
    const clq_id apart = arrange(&parts, &images, x[0], CLQ_SHAPE(problem.out_h, problem.out_w, channels));
    clq_node node = clq_part_node(&parts, &clq_op_conv2d_transpose, CLQ_IDS(apart, clq_expand_weight(e, CLQ_KERNEL)));
    node.attributes.conv2d = problem;
    const clq_id windows = clq_part_add(&parts, node, CLQ_SHAPE(problem.in_h, problem.in_w, problem.in_c));
    for (size_t k = 0; k < w.of[CLQ_WIDTH].size; k++) {
        const clq_id given = give_place(&parts, &w, k, windows, &e->y->shape);
        y = k ? clq_part_combine(&parts, CLQ_ELEMENT_ADD, y, given) : given;
    }
    return y ? clq_expand_activation(e, config->activation, clq_expand_bias(e, CLQ_BIAS, y)) : 0;
}

const clq_layer_kind clq_layer_conv3d_transpose = {.type = "Conv3DTranspose",
                                                   .stem = "conv3d_transpose",
                                                   .inputs = {1, 1},
                                                   CLQ_LAYER_CONFIG(transposed_config, attributes),
                                                   .infer = infer,
                                                   .declare = declare,
                                                   .expand = expand};

clq_tensor clq_conv3d_transpose(clq_model *model, clq_tensor x, const clq_conv3d_config *config) {
    CLQ_LAYER_KNOWS(model, clq_conv3d_config, config);
    const transposed_config all = {.conv = config ? *config : (clq_conv3d_config){0}};
    return clq_model_add_layer(model, &clq_layer_conv3d_transpose, all.conv.name, &all, &x, 1);
}
