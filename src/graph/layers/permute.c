/* Permute: the axes of each sample in another order. */
#include "graph/layers/layer.h"

typedef struct permute_config {
    clq_shape axes; /* for each axis of y, the axis of x, from 1 on */
} permute_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("dims", CLQ_ATTRIBUTE_SHAPE, permute_config, axes), .needed = true},
};

/* For any kind whose config begins with the axes. */
clq_status clq_layer_infer_permuted(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *axes = &((const permute_config *)layer->config)->axes;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    char order[CLQ_SHAPE_TEXT_MAX], text[CLQ_SHAPE_TEXT_MAX];
    unsigned seen = 0;
    for (unsigned d = 0; d < axes->rank; d++)
        if (axes->dims[d] >= 1 && axes->dims[d] <= x->rank) seen |= 1u << (axes->dims[d] - 1);
    if (axes->rank != x->rank || seen != (1u << x->rank) - 1)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s should name each axis of its input %s once, from 1 to %u",
                        clq_shape_describe(axes, order), clq_shape_describe(x, text), x->rank);
    y->shape.rank = x->rank;
    for (unsigned d = 0; d < x->rank; d++) y->shape.dims[d] = x->dims[axes->dims[d] - 1];
    return CLQ_OK;
}

clq_id clq_layer_expand_permuted(clq_expansion *e, const clq_id *x) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    const clq_shape *axes = &((const permute_config *)e->layer->config)->axes;
    const clq_arrangement whole = clq_arrangement_of(in->rank, in->dims);
    clq_arrangement a = {.rank = in->rank};
    for (unsigned d = 0; d < in->rank; d++) a.axes[d] = whole.axes[axes->dims[d] - 1];
    return clq_expand_arrange(e, &a, x[0]);
}

const clq_layer_kind clq_layer_permute = {.type = "Permute",
                                          .stem = "permute",
                                          .inputs = {1, 1},
                                          CLQ_LAYER_CONFIG(permute_config, attributes),
                                          .moves = true,
                                          .infer = clq_layer_infer_permuted,
                                          .expand = clq_layer_expand_permuted};

clq_tensor clq_permute(clq_model *model, clq_tensor x, clq_shape axes, const char *name) {
    return clq_model_add_layer(model, &clq_layer_permute, name, &(permute_config){axes}, &x, 1);
}
