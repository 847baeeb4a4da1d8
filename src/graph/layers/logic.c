/* keras.ops that compare numbers and combine truths. True is 1, false is 0, and any number that is not 0 counts as
 * true. */
#include "graph/layers/layer.h"

#include <stdio.h>

#define NUMPY "keras.src.ops.numpy"

/* ---- two operands ---- */

/* 1 if the register is 0, otherwise 0. */
static unsigned is_zero(clq_element_program *p, unsigned x) {
    const unsigned zero = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT});
    return clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_EQUAL, .a = x, .b = zero});
}
static unsigned is_true(clq_element_program *p, unsigned x) { return is_zero(p, is_zero(p, x)); }

static unsigned equal(clq_element_program *p, unsigned a, unsigned b) {
    return clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_EQUAL, .a = a, .b = b});
}
static unsigned not_equal(clq_element_program *p, unsigned a, unsigned b) { return is_zero(p, equal(p, a, b)); }
static unsigned greater(clq_element_program *p, unsigned a, unsigned b) {
    return clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_GREATER, .a = a, .b = b});
}
static unsigned greater_equal(clq_element_program *p, unsigned a, unsigned b) {
    return clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_AT_LEAST, .a = a, .b = b});
}
static unsigned less(clq_element_program *p, unsigned a, unsigned b) { return greater(p, b, a); }
static unsigned less_equal(clq_element_program *p, unsigned a, unsigned b) { return greater_equal(p, b, a); }
static unsigned both(clq_element_program *p, unsigned a, unsigned b) {
    const unsigned left = is_true(p, a), right = is_true(p, b);
    return clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY, .a = left, .b = right});
}
static unsigned either(clq_element_program *p, unsigned a, unsigned b) {
    const unsigned left = is_true(p, a), right = is_true(p, b);
    return clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MAXIMUM, .a = left, .b = right});
}

#define BINARY(name, class_name, name_stem)                                                                            \
    static clq_id expand_##name(clq_expansion *e, const clq_id *x) { return clq_layer_expand_binary(e, x, name); }     \
    CLQ_BINARY_KIND(clq_layer_op_##name, class_name, name_stem, NUMPY, expand_##name)
BINARY(equal, "Equal", "equal");
BINARY(not_equal, "NotEqual", "not_equal");
BINARY(greater, "Greater", "greater");
BINARY(greater_equal, "GreaterEqual", "greater_equal");
BINARY(less, "Less", "less");
BINARY(less_equal, "LessEqual", "less_equal");
BINARY(both, "LogicalAnd", "logical_and");
BINARY(either, "LogicalOr", "logical_or");

/* A free name for a mask of layer `of`, which may make several masks. NULL: the name would be too long. */
static const char *name_mask(const clq_model *model, const char *of, char name[CLQ_LAYER_NAME_MAX]) {
    for (unsigned number = 0;; number++) {
        const int length = number ? snprintf(name, CLQ_LAYER_NAME_MAX, "%s.mask_%u", of, number)
                                  : snprintf(name, CLQ_LAYER_NAME_MAX, "%s.mask", of);
        if (length >= CLQ_LAYER_NAME_MAX) return NULL;
        if (!clq_model_has_layer(model, name)) return name;
    }
}

clq_tensor clq_model_add_mask_of(clq_model *model, const char *of, const clq_layer_kind *kind, const void *config,
                                 const clq_tensor *inputs, size_t count) {
    char name[CLQ_LAYER_NAME_MAX];
    const clq_tensor mask = clq_model_add_layer(model, kind, name_mask(model, of, name), config, inputs, count);
    if (mask.id) model->layers[model->layer_count - 1].of_mask = true;
    return mask;
}
clq_tensor clq_model_add_mask(clq_model *model, const char *of, clq_tensor x) {
    return clq_model_add_mask_of(model, of, &clq_layer_op_not_equal, &(clq_operand){.place = 2}, &x, 1);
}
clq_tensor clq_model_join_masks(clq_model *model, const char *of, clq_tensor a, clq_tensor b) {
    return clq_model_add_mask_of(model, of, &clq_layer_op_either, &(clq_operand){0}, CLQ_TENSORS(a, b));
}

/* ---- one operand ---- */

static clq_id expand_not(clq_expansion *e, const clq_id *x) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    p->outputs[p->output_count++].from = is_zero(p, clq_element_take(p, clq_each_element));
    return clq_expand_unary(e, node, x[0]);
}
CLQ_FUNCTION_KIND(clq_layer_op_not, "LogicalNot", "logical_not", NUMPY, expand_not);

/* ---- over axes, by counting the numbers that are true ---- */

/* `all`: whether all numbers are true. Otherwise whether at least one is. */
static clq_id expand_count(clq_expansion *e, clq_id x, bool all) {
    const clq_model_tensor *in = clq_model_input_of(e->model, e->y, 0);
    clq_node truth = clq_expand_node(e, &clq_op_elementwise), compared = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &truth.attributes.program;
    p->outputs[p->output_count++].from = is_true(p, clq_element_take(p, clq_each_element));
    truth.inputs[0] = x;
    truth.outputs[0] = clq_expand_value(e, &in->shape, in->elements);
    const clq_id counted = clq_graph_add_node(e->graph, &truth);
    const clq_id sum = counted ? clq_layer_expand_sum(e, counted, 1) : 0;
    p = &compared.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    const double least = all ? (double)(in->elements / e->y->elements) : 1;
    const unsigned wanted = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = least});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_AT_LEAST, .a = number, .b = wanted});
    return sum ? clq_expand_unary(e, compared, sum) : 0;
}
static clq_id expand_any(clq_expansion *e, const clq_id *x) { return expand_count(e, x[0], false); }
static clq_id expand_all(clq_expansion *e, const clq_id *x) { return expand_count(e, x[0], true); }
CLQ_REDUCTION_KIND(clq_layer_op_any, "Any", "any", NUMPY, expand_any);
CLQ_REDUCTION_KIND(clq_layer_op_all, "All", "all", NUMPY, expand_all);
