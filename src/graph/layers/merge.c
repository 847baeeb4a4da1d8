/* Add, Subtract, Multiply, Average, Maximum, Minimum: elementwise layers of several inputs, whose shapes broadcast. */
#include "graph/layers/layer.h"

#include <stdio.h>

/* ---- shapes ---- */

static size_t dim_from_end(const clq_shape *shape, unsigned i) {
    return i < shape->rank ? shape->dims[shape->rank - 1 - i] : 1;
}

/* NumPy's rule. False: the two do not broadcast. */
static bool broadcast(const clq_shape *a, const clq_shape *b, clq_shape *out) {
    clq_shape result = {.rank = CLQ_MAX(a->rank, b->rank)};
    for (unsigned i = 0; i < result.rank; i++) {
        const size_t m = dim_from_end(a, i), n = dim_from_end(b, i);
        if (m != n && m != 1 && n != 1) return false;
        result.dims[result.rank - 1 - i] = CLQ_MAX(m, n);
    }
    *out = result;
    return true;
}

clq_status clq_layer_infer_broadcast(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    (void)layer;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    for (size_t i = 1; i < y->input_count; i++) {
        const clq_shape so_far = y->shape, *x = &clq_model_input_of(model, y, i)->shape;
        char first[CLQ_SHAPE_TEXT_MAX], second[CLQ_SHAPE_TEXT_MAX];
        if (!broadcast(&so_far, x, &y->shape))
            return clq_fail(CLQ_ARGUMENT,
                            "its inputs %s and %s do not broadcast: from the last axis on, sizes must be equal or 1",
                            clq_shape_describe(&so_far, first), clq_shape_describe(x, second));
    }
    return CLQ_OK;
}

/* ---- operations ---- */

/* One operation for each run of axes. */
clq_id clq_expand_repeated(clq_expansion *e, const clq_shape *from, const clq_shape *to, clq_id x) {
    clq_shape shape = {.rank = to->rank};
    size_t elements = 1, inner = 1;
    for (unsigned i = 0; i < shape.rank; i++) {
        shape.dims[shape.rank - 1 - i] = dim_from_end(from, i);
        elements *= dim_from_end(from, i);
    }
    for (unsigned end = shape.rank; end > 0;) {
        size_t repeats = 1;
        unsigned d = end;
        while (d > 0 && shape.dims[d - 1] == 1 && to->dims[d - 1] > 1) {
            d--;
            repeats *= to->dims[d];
            shape.dims[d] = to->dims[d];
        }
        if (repeats > 1) {
            clq_node node = clq_expand_node(e, &clq_op_repeat);
            node.attributes.repeat =
                (clq_repeat_problem){.outer = elements / inner, .repeats = repeats, .inner = inner, .scale = 1};
            elements *= repeats;
            node.inputs[0] = x;
            node.outputs[0] = clq_expand_value(e, &shape, elements);
            x = clq_graph_add_node(e->graph, &node);
        } else {
            d--;
        }
        for (; end > d; end--) inner *= shape.dims[end - 1];
    }
    return x;
}

static clq_id expand_all(clq_expansion *e, const clq_id *x, clq_element_op op) {
    clq_id result = 0;
    for (uint32_t i = 0; i < e->y->input_count; i++) {
        clq_id term = clq_expand_repeated(e, &clq_model_input_of(e->model, e->y, i)->shape, &e->y->shape, x[i]);
        result = i == 0 ? term : clq_expand_elements(e, (clq_instruction){.op = op}, CLQ_IDS(result, term));
    }
    return result;
}

static clq_id expand_add(clq_expansion *e, const clq_id *x) { return expand_all(e, x, CLQ_ELEMENT_ADD); }
static clq_id expand_subtract(clq_expansion *e, const clq_id *x) { return expand_all(e, x, CLQ_ELEMENT_SUBTRACT); }
static clq_id expand_multiply(clq_expansion *e, const clq_id *x) { return expand_all(e, x, CLQ_ELEMENT_MULTIPLY); }
static clq_id expand_maximum(clq_expansion *e, const clq_id *x) { return expand_all(e, x, CLQ_ELEMENT_MAXIMUM); }
static clq_id expand_minimum(clq_expansion *e, const clq_id *x) { return expand_all(e, x, CLQ_ELEMENT_MINIMUM); }
static clq_id expand_average(clq_expansion *e, const clq_id *x) {
    const clq_instruction scale = {.op = CLQ_ELEMENT_SCALE, .number = (double)(1.0f / (float)e->y->input_count)};
    const clq_id sum = expand_add(e, x);
    return clq_expand_elements(e, scale, &sum);
}

clq_tensor clq_layer_join_masks(clq_model *model, uint32_t layer, clq_tensor y) {
    const uint32_t first = model->tensors[y.id - 1].first_input, count = model->tensors[y.id - 1].input_count;
    clq_tensor mask = {0};
    for (uint32_t i = 0; i < count; i++) {
        const clq_tensor other = {.model = model, .id = model->tensors[model->inputs[first + i] - 1].mask};
        if (!other.id) return other;
    }
    for (uint32_t i = 0; i < count; i++) {
        const clq_tensor other = {.model = model, .id = model->tensors[model->inputs[first + i] - 1].mask};
        if (other.id == mask.id) continue;
        mask = mask.id ? clq_model_join_masks(model, model->layers[layer - 1].name, mask, other) : other;
    }
    return mask;
}

#define MERGE(kind, class_name, name_stem, most, expansion)                                                            \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {2, (most)},                                                                \
                                 .takes_list = true,                                                                   \
                                 .mask = clq_layer_join_masks,                                                         \
                                 .by_token = clq_layer_is_by_token,                                                    \
                                 .infer = clq_layer_infer_broadcast,                                                   \
                                 .expand = (expansion)}
MERGE(clq_layer_add, "Add", "add", SIZE_MAX, expand_add);
MERGE(clq_layer_subtract, "Subtract", "subtract", 2, expand_subtract);
MERGE(clq_layer_multiply, "Multiply", "multiply", SIZE_MAX, expand_multiply);
MERGE(clq_layer_average, "Average", "average", SIZE_MAX, expand_average);
MERGE(clq_layer_maximum, "Maximum", "maximum", SIZE_MAX, expand_maximum);
MERGE(clq_layer_minimum, "Minimum", "minimum", SIZE_MAX, expand_minimum);

clq_tensor clq_add(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return clq_model_add_layer(model, &clq_layer_add, name, NULL, inputs, count);
}
clq_tensor clq_subtract(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return clq_model_add_layer(model, &clq_layer_subtract, name, NULL, inputs, count);
}
clq_tensor clq_multiply(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return clq_model_add_layer(model, &clq_layer_multiply, name, NULL, inputs, count);
}
clq_tensor clq_average(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return clq_model_add_layer(model, &clq_layer_average, name, NULL, inputs, count);
}
clq_tensor clq_maximum(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return clq_model_add_layer(model, &clq_layer_maximum, name, NULL, inputs, count);
}
clq_tensor clq_minimum(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return clq_model_add_layer(model, &clq_layer_minimum, name, NULL, inputs, count);
}
