/* keras.ops.where: the second of three operands if the first is true, otherwise the third. Each operand may be a
 * tensor, a number or an array, and their shapes broadcast. */
#include "graph/layers/layer.h"

#include <stdio.h>

enum { TERMS = 3 };
typedef struct where_config {
    clq_operand terms[TERMS]; /* place 0: it is a tensor */
} where_config;
#define TERM(name, number)                                                                                             \
    {                                                                                                                  \
        .key = (name), .type = CLQ_ATTRIBUTE_ARGUMENT, .at = offsetof(where_config, terms[(number)-1]),                \
        .count = (number)                                                                                              \
    }
static const clq_attribute attributes[] = {TERM("condition", 1), TERM("x1", 2), TERM("x2", 3)};

/* Broadcasts y with one more shape, which may have fewer axes if it is an array's. False: they do not broadcast. */
static bool join_shape(clq_shape *y, const clq_shape *x) {
    if (x->rank > y->rank) return false;
    for (unsigned d = 0; d < x->rank; d++) {
        size_t *to = &y->dims[y->rank - x->rank + d];
        if (*to != x->dims[d] && *to != 1 && x->dims[d] != 1) return false;
        *to = CLQ_MAX(*to, x->dims[d]);
    }
    return true;
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const where_config *config = layer->config;
    unsigned tensors = TERMS;
    for (unsigned i = 0; i < TERMS; i++) tensors -= config->terms[i].place > 0;
    if (y->input_count != tensors || tensors == 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "it takes three tensors, or numbers in place of some");
    y->shape = clq_model_input_of(model, y, 0)->shape;
    for (unsigned i = 1; i < tensors; i++) {
        const clq_shape *x = &clq_model_input_of(model, y, i)->shape;
        if (x->rank != y->shape.rank || !join_shape(&y->shape, x))
            return clq_fail(CLQ_ERROR_ARGUMENT, "its tensors do not broadcast: sizes must be equal or 1, axis by axis");
    }
    for (unsigned i = 0; i < TERMS; i++) {
        if (config->terms[i].array.count == 0) continue;
        CLQ_TRY(clq_layer_check_operand(&config->terms[i], &y->shape));
        if (!join_shape(&y->shape, &config->terms[i].shape))
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "its tensors and arrays do not broadcast: sizes must be equal or 1, axis by axis");
    }
    return CLQ_OK;
}

/* A tensor, broadcast to y's shape, as one row. */
static clq_id add_tensor(clq_expansion *e, unsigned input, clq_id x) {
    clq_node flat = clq_expand_node(e, &clq_op_reshape);
    flat.inputs[0] = clq_expand_repeated(e, &clq_model_input_of(e->model, e->y, input)->shape, &e->y->shape, x);
    flat.outputs[0] = clq_expand_value(e, &CLQ_SHAPE(1, e->y->elements), e->y->elements);
    return flat.inputs[0] ? clq_graph_add_node(e->graph, &flat) : 0;
}
/* An array, broadcast to y's shape, as a constant. */
static clq_id add_array(clq_expansion *e, const clq_operand *operand) {
    const size_t count = e->y->elements;
    float *numbers = clq_alloc(count, sizeof *numbers);
    if (!numbers) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < count; i++) numbers[i] = clq_layer_operand_number(operand, &e->y->shape, i);
    const clq_id id = clq_graph_add_constant(e->graph, "array", &CLQ_SHAPE(count), count, numbers);
    clq_free(numbers);
    return id;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const where_config *config = e->layer->config;
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    unsigned registers[TERMS], inputs = 0;
    /* Tensors come first, because a program's first input tells how many values a sample has. */
    for (unsigned i = 0; i < TERMS; i++) {
        if (config->terms[i].place > 0) continue;
        registers[i] = clq_element_take(p, clq_each_element);
        node.inputs[inputs] = add_tensor(e, inputs, x[inputs]);
        if (!node.inputs[inputs++]) return 0;
    }
    for (unsigned i = 0; i < TERMS; i++) {
        const clq_operand *term = &config->terms[i];
        if (term->place == 0) continue;
        if (term->array.count == 0) {
            registers[i] = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = term->number});
            continue;
        }
        registers[i] = clq_element_take(p, by_channel);
        node.inputs[inputs] = add_array(e, term);
        if (!node.inputs[inputs++]) return 0;
    }
    p->outputs[p->output_count++].from = clq_element_do(
        p, (clq_instruction){.op = CLQ_ELEMENT_SELECT, .a = registers[0], .b = registers[1], .c = registers[2]});
    node.outputs[0] = clq_expand_value(e, &CLQ_SHAPE(1, e->y->elements), e->y->elements);
    const clq_id made = clq_graph_add_node(e->graph, &node);
    return made ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), made) : 0;
}

const clq_layer_kind clq_layer_op_where = {.type = "Where",
                                           .stem = "where",
                                           .module = "keras.src.ops.numpy",
                                           .inputs = {1, TERMS},
                                           CLQ_LAYER_CONFIG(where_config, attributes),
                                           .takes_scalars = true,
                                           .infer = infer,
                                           .expand = expand};
