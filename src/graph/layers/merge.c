/* Add, Subtract, Multiply, Average, Maximum, Minimum: elementwise layers of several inputs whose shapes broadcast.
 * Masks work as in Keras: a step that a mask leaves out is 1 in a product, and in a comparison it takes the value of
 * the other term. */
#include "graph/layers/layer.h"

#include <stdio.h>

typedef struct masked_config {
    /* Which input is the mask of the first term, counted from 1; the masks of the other terms follow. 0: no term has a
     * mask. */
    size_t masks;
} masked_config;
static const clq_attribute masked_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("masks", CLQ_ATTRIBUTE_TENSOR, masked_config, masks), .implicit = 1, .unnamed = true,
     .each = true},
};

static uint32_t count_terms(const clq_layer *layer, const clq_model_tensor *y) {
    return (uint32_t)clq_layer_positional(layer, y->input_count);
}

/* ---- shapes ---- */

static size_t dim_from_end(const clq_shape *shape, unsigned i) {
    return i < shape->rank ? shape->dims[shape->rank - 1 - i] : 1;
}

/* NumPy's rule. False: the two shapes do not broadcast. */
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
    const uint32_t count = count_terms(layer, y);
    if (count < layer->kind->inputs[0])
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s takes %zu inputs or more, not %u", layer->kind->type,
                        layer->kind->inputs[0], count);
    y->shape = clq_model_input_of(model, y, 0)->shape;
    for (size_t i = 1; i < count; i++) {
        const clq_shape so_far = y->shape, *x = &clq_model_input_of(model, y, i)->shape;
        char first[CLQ_SHAPE_TEXT_MAX], second[CLQ_SHAPE_TEXT_MAX];
        if (!broadcast(&so_far, x, &y->shape))
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "its inputs %s and %s do not broadcast: from the last axis on, sizes must be equal or 1",
                            clq_shape_describe(&so_far, first), clq_shape_describe(x, second));
    }
    return CLQ_OK;
}

/* ---- operations ---- */

/* One operation for each run of axes that are repeated. */
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

static clq_id add_term(clq_expansion *e, const clq_id *x, uint32_t i) {
    return clq_expand_repeated(e, &clq_model_input_of(e->model, e->y, i)->shape, &e->y->shape, x[i]);
}

static clq_id expand_all(clq_expansion *e, const clq_id *x, clq_element_op op) {
    clq_id result = 0;
    for (uint32_t i = 0; i < e->y->input_count; i++) {
        const clq_id term = add_term(e, x, i);
        result = i == 0 ? term : clq_expand_elements(e, (clq_instruction){.op = op}, CLQ_IDS(result, term));
    }
    return result;
}

static clq_id expand_add(clq_expansion *e, const clq_id *x) { return expand_all(e, x, CLQ_ELEMENT_ADD); }
static clq_id expand_subtract(clq_expansion *e, const clq_id *x) { return expand_all(e, x, CLQ_ELEMENT_SUBTRACT); }
static clq_id expand_average(clq_expansion *e, const clq_id *x) {
    const clq_instruction scale = {.op = CLQ_ELEMENT_SCALE, .number = (double)(1.0f / (float)e->y->input_count)};
    const clq_id sum = expand_add(e, x);
    return clq_expand_elements(e, scale, &sum);
}

/* ---- masks in products and comparisons ---- */

/* The mask of input i; 0: none. Keras adds axes to an input that has fewer, and the input then loses its mask. */
static uint32_t mask_of_term(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y, uint32_t i) {
    const size_t masks = ((const masked_config *)layer->config)->masks;
    const uint32_t *inputs = model->inputs + y->first_input;
    if (masks == 0 || inputs[masks - 1 + i] == inputs[i]) return 0;
    return model->tensors[inputs[i] - 1].shape.rank < y->shape.rank ? 0 : inputs[masks - 1 + i];
}

static clq_status infer_masked(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    char shape[CLQ_SHAPE_TEXT_MAX], steps[CLQ_SHAPE_TEXT_MAX];
    CLQ_TRY(clq_layer_infer_broadcast(model, layer, y));
    for (uint32_t i = 0; i < count_terms(layer, y); i++) {
        const uint32_t id = mask_of_term(model, layer, y, i);
        const clq_shape *x = &clq_model_input_of(model, y, i)->shape, *mask = id ? &model->tensors[id - 1].shape : NULL;
        bool fits = !id || mask->rank + 1 == x->rank;
        for (unsigned d = 0; fits && id && d < mask->rank; d++) fits = mask->dims[d] == x->dims[d];
        if (!fits)
            return clq_fail(CLQ_ERROR_UNSUPPORTED,
                            "input %u, %s, carries a mask %s, which should be of all axes but the last", i,
                            clq_shape_describe(x, shape), clq_shape_describe(mask, steps));
    }
    return CLQ_OK;
}

/* The mask of input i, in y's shape; 0: input i counts everywhere. */
static clq_id add_counts(clq_expansion *e, const clq_id *x, uint32_t i) {
    const uint32_t id = mask_of_term(e->model, e->layer, e->y, i);
    if (!id) return 0;
    clq_shape shape = e->model->tensors[id - 1].shape;
    shape.dims[shape.rank++] = 1;
    return clq_expand_repeated(e, &shape, &e->y->shape, x[((const masked_config *)e->layer->config)->masks - 1 + i]);
}

/* x if it counts. Otherwise `other`, or `number` if `other` is 0. */
static clq_id select_counting(clq_expansion *e, clq_id counts, clq_id x, clq_id other, double number) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned a = clq_element_take(p, clq_each_element), b = clq_element_take(p, clq_each_element);
    const unsigned c = other ? clq_element_take(p, clq_each_element)
                             : clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = number});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SELECT, .a = a, .b = b, .c = c});
    node.inputs[1] = x;
    node.inputs[2] = other;
    return counts && x ? clq_expand_unary(e, node, counts) : 0;
}

/* What counts in a or in b; 0: everything does. */
static clq_id join_counts(clq_expansion *e, clq_id a, clq_id b) {
    return a && b ? clq_expand_elements(e, (clq_instruction){.op = CLQ_ELEMENT_MAXIMUM}, CLQ_IDS(a, b)) : 0;
}

/* Factors that do not count are 1. If no factor counts, the product is 0. */
static clq_id expand_multiply(clq_expansion *e, const clq_id *x) {
    clq_id result = 0, counts = 0;
    for (uint32_t i = 0; i < count_terms(e->layer, e->y); i++) {
        const clq_id own = add_counts(e, x, i);
        clq_id term = add_term(e, x, i);
        if (own) term = select_counting(e, own, term, 0, 1);
        counts = i == 0 ? own : join_counts(e, counts, own);
        result = i == 0 ? term
                        : clq_expand_elements(e, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY}, CLQ_IDS(result, term));
    }
    return counts ? select_counting(e, counts, result, 0, 0) : result;
}

/* Compares the terms one after another, in Keras's order. What does not count becomes what it is compared with. */
static clq_id expand_extreme(clq_expansion *e, const clq_id *x, clq_element_op op) {
    clq_id result = add_term(e, x, 0), counts = add_counts(e, x, 0);
    for (uint32_t i = 1; i < count_terms(e->layer, e->y); i++) {
        const clq_id own = add_counts(e, x, i);
        clq_id term = add_term(e, x, i);
        if (own) term = select_counting(e, own, term, result, 0);
        if (counts) result = select_counting(e, counts, result, term, 0);
        counts = join_counts(e, counts, own);
        result = clq_expand_elements(e, (clq_instruction){.op = op}, CLQ_IDS(result, term));
    }
    return result;
}
static clq_id expand_maximum(clq_expansion *e, const clq_id *x) { return expand_extreme(e, x, CLQ_ELEMENT_MAXIMUM); }
static clq_id expand_minimum(clq_expansion *e, const clq_id *x) { return expand_extreme(e, x, CLQ_ELEMENT_MINIMUM); }

/* ---- kinds ---- */

clq_tensor clq_layer_join_masks(clq_model *model, uint32_t layer, clq_tensor y) {
    const uint32_t first = model->tensors[y.id - 1].first_input;
    const uint32_t count = count_terms(&model->layers[layer - 1], &model->tensors[y.id - 1]);
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

#define MERGE(kind, class_name, name_stem, most, expansion, ...)                                                       \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {2, (most)},                                                                \
                                 .takes_list = true,                                                                   \
                                 .mask = clq_layer_join_masks,                                                         \
                                 .by_token = clq_layer_is_by_token,                                                    \
                                 .expand = (expansion),                                                                \
                                 __VA_ARGS__}
#define PLAIN(kind, class_name, name_stem, most, expansion)                                                            \
    MERGE(kind, class_name, name_stem, most, expansion, .infer = clq_layer_infer_broadcast)
#define MASKED(kind, class_name, name_stem, expansion)                                                                 \
    MERGE(kind, class_name, name_stem, SIZE_MAX, expansion, .infer = infer_masked,                                     \
          CLQ_LAYER_CONFIG(masked_config, masked_attributes))
PLAIN(clq_layer_add, "Add", "add", SIZE_MAX, expand_add);
PLAIN(clq_layer_subtract, "Subtract", "subtract", 2, expand_subtract);
MASKED(clq_layer_multiply, "Multiply", "multiply", expand_multiply);
PLAIN(clq_layer_average, "Average", "average", SIZE_MAX, expand_average);
MASKED(clq_layer_maximum, "Maximum", "maximum", expand_maximum);
MASKED(clq_layer_minimum, "Minimum", "minimum", expand_minimum);

clq_tensor clq_add(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return clq_model_add_layer(model, &clq_layer_add, name, NULL, inputs, count);
}
clq_tensor clq_subtract(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return clq_model_add_layer(model, &clq_layer_subtract, name, NULL, inputs, count);
}
clq_tensor clq_multiply(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return clq_model_add_layer(model, &clq_layer_multiply, name, &(masked_config){0}, inputs, count);
}
clq_tensor clq_average(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return clq_model_add_layer(model, &clq_layer_average, name, NULL, inputs, count);
}
clq_tensor clq_maximum(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return clq_model_add_layer(model, &clq_layer_maximum, name, &(masked_config){0}, inputs, count);
}
clq_tensor clq_minimum(clq_model *model, const clq_tensor *inputs, size_t count, const char *name) {
    return clq_model_add_layer(model, &clq_layer_minimum, name, &(masked_config){0}, inputs, count);
}
