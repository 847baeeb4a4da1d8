/* Add, Subtract, Multiply, Average, Maximum: elementwise layers of several inputs, whose shapes broadcast. */
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

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
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

/* Repeats x along the axes on which it has size 1 and y more: one operation for each run of such axes. */
static clq_id repeat(clq_expansion *e, const clq_model_tensor *y, const clq_shape *from, clq_id x) {
    clq_shape shape = {.rank = y->shape.rank};
    size_t elements = 1, inner = 1;
    for (unsigned i = 0; i < shape.rank; i++) {
        shape.dims[shape.rank - 1 - i] = dim_from_end(from, i);
        elements *= dim_from_end(from, i);
    }
    for (unsigned end = shape.rank; end > 0;) {
        size_t repeats = 1;
        unsigned d = end;
        while (d > 0 && shape.dims[d - 1] == 1 && y->shape.dims[d - 1] > 1) {
            d--;
            repeats *= y->shape.dims[d];
            shape.dims[d] = y->shape.dims[d];
        }
        if (repeats > 1) {
            clq_node node = clq_expand_node(e, y, &clq_op_repeat);
            node.attributes.repeat =
                (clq_repeat_problem){.outer = elements / inner, .repeats = repeats, .inner = inner, .scale = 1};
            elements *= repeats;
            node.inputs[0] = x;
            x = node.outputs[0] = clq_expand_value(e, y, &shape, elements);
            clq_graph_add_node(e->graph, &node);
        } else {
            d--;
        }
        for (; end > d; end--) inner *= shape.dims[end - 1];
    }
    return x;
}

static clq_id expand_all(clq_expansion *e, const clq_model_tensor *y, const clq_id *x, clq_element_op op) {
    clq_id result = 0;
    for (uint32_t i = 0; i < y->input_count; i++) {
        clq_id term = repeat(e, y, &clq_model_input_of(e->model, y, i)->shape, x[i]);
        result = i == 0 ? term : clq_expand_elements(e, y, &(clq_instruction){.op = op}, (clq_id[]){result, term}, 2);
    }
    return result;
}

static clq_id expand_add(clq_expansion *e, const clq_model_tensor *y, const clq_id *x) {
    return expand_all(e, y, x, CLQ_ELEMENT_ADD);
}
static clq_id expand_subtract(clq_expansion *e, const clq_model_tensor *y, const clq_id *x) {
    return expand_all(e, y, x, CLQ_ELEMENT_SUBTRACT);
}
static clq_id expand_multiply(clq_expansion *e, const clq_model_tensor *y, const clq_id *x) {
    return expand_all(e, y, x, CLQ_ELEMENT_MULTIPLY);
}
static clq_id expand_maximum(clq_expansion *e, const clq_model_tensor *y, const clq_id *x) {
    return expand_all(e, y, x, CLQ_ELEMENT_MAXIMUM);
}
static clq_id expand_average(clq_expansion *e, const clq_model_tensor *y, const clq_id *x) {
    const clq_instruction scale = {.op = CLQ_ELEMENT_SCALE, .number = (double)(1.0f / (float)y->input_count)};
    const clq_id sum = expand_all(e, y, x, CLQ_ELEMENT_ADD);
    return clq_expand_elements(e, y, &scale, &sum, 1);
}

#define MERGE(kind, class_name, name_stem, most, expansion)                                                            \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs_least = 2,                                                                    \
                                 .inputs_most = (most),                                                                \
                                 .infer = infer,                                                                       \
                                 .expand = (expansion)}
MERGE(clq_layer_add, "Add", "add", SIZE_MAX, expand_add);
MERGE(clq_layer_subtract, "Subtract", "subtract", 2, expand_subtract);
MERGE(clq_layer_multiply, "Multiply", "multiply", SIZE_MAX, expand_multiply);
MERGE(clq_layer_average, "Average", "average", SIZE_MAX, expand_average);
MERGE(clq_layer_maximum, "Maximum", "maximum", SIZE_MAX, expand_maximum);

static clq_tensor add(clq_model *model, const clq_layer_kind *kind, const clq_tensor *inputs, size_t count,
                      const char *name) {
    const clq_layer_config none = {.axis = 0};
    return clq_model_add_layer(model, kind, name, &none, inputs, count);
}
clq_tensor clq_add(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return add(model, &clq_layer_add, inputs, count, name);
}
clq_tensor clq_subtract(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return add(model, &clq_layer_subtract, inputs, count, name);
}
clq_tensor clq_multiply(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return add(model, &clq_layer_multiply, inputs, count, name);
}
clq_tensor clq_average(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return add(model, &clq_layer_average, inputs, count, name);
}
clq_tensor clq_maximum(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return add(model, &clq_layer_maximum, inputs, count, name);
}
