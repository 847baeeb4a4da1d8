/* keras.ops.cast to floats, to bool, and to whole numbers. To whole numbers only if the numbers are known to be whole:
 * others would have to be cut off. */
#include "graph/layers/layer.h"

#include <math.h>
#include <string.h>

/* Kinds whose numbers are always whole, as truths and counts are; and kinds whose numbers are whole if their inputs'
 * are. */
static const clq_layer_kind *const always[] = {
    &clq_layer_op_equal, &clq_layer_op_not_equal,  &clq_layer_op_greater, &clq_layer_op_greater_equal,
    &clq_layer_op_less,  &clq_layer_op_less_equal, &clq_layer_op_both,    &clq_layer_op_either,
    &clq_layer_op_not,   &clq_layer_op_any,        &clq_layer_op_all,     &clq_layer_op_ones,
    &clq_layer_op_zeros, &clq_layer_op_one_hot,    &clq_layer_op_sign,    &clq_layer_discretization,
};
static const clq_layer_kind *const keeping[] = {
    &clq_layer_op_add,         &clq_layer_op_subtract,      &clq_layer_op_multiply,    &clq_layer_op_maximum,
    &clq_layer_op_minimum,     &clq_layer_op_negative,      &clq_layer_op_absolute,    &clq_layer_op_square,
    &clq_layer_op_sum,         &clq_layer_op_max,           &clq_layer_op_min,         &clq_layer_op_cumsum,
    &clq_layer_op_reshape,     &clq_layer_op_squeeze,       &clq_layer_op_expand_dims, &clq_layer_op_transpose,
    &clq_layer_op_concatenate, &clq_layer_op_stack,         &clq_layer_op_get_item,    &clq_layer_op_flip,
    &clq_layer_op_repeat,      &clq_layer_op_tile,          &clq_layer_op_roll,        &clq_layer_op_cast,
    &clq_layer_op_convert,     &clq_layer_op_stop_gradient,
};

static bool is_among(const clq_layer_kind *kind, const clq_layer_kind *const *kinds, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (kinds[i] == kind) return true;
    return false;
}

/* For kinds with two operands, whether the operand's number or array is whole. True if there is none. */
static bool has_whole_operand(const clq_layer *layer) {
    if (layer->kind->attributes != clq_layer_operand_rows) return true;
    const clq_operand *operand = layer->config;
    for (size_t i = 0; i < operand->array.count; i++)
        if (operand->array.values[i] != truncf(operand->array.values[i])) return false;
    return operand->number == trunc(operand->number);
}

typedef struct cast_config {
    clq_short_text type;
} cast_config;
static bool gives_truth(const clq_layer *layer) {
    return layer->kind == &clq_layer_op_cast && strcmp(((const cast_config *)layer->config)->type.text, "bool") == 0;
}

bool clq_layer_gives_whole(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y) {
    if (gives_truth(layer)) return true;
    if (is_among(layer->kind, always, CLQ_COUNT_OF(always)) || clq_layer_gives_places(layer)) return true;
    if (!is_among(layer->kind, keeping, CLQ_COUNT_OF(keeping)) || !has_whole_operand(layer)) return false;
    for (size_t i = 0; i < y->input_count; i++)
        if (!clq_model_input_of(model, y, i)->whole) return false;
    return true;
}

static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("dtype", CLQ_ATTRIBUTE_TEXT, cast_config, type)},
};

static bool is_one_of(const char *type, const char *const *types) {
    while (*types && strcmp(type, *types) != 0) types++;
    return *types != NULL;
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    static const char *const floats[] = {"", "float32", "float16", "bfloat16", "float64", NULL}, *const wholes[] = {
                                                                                                     "int32", "int64",
                                                                                                     NULL};
    const char *type = ((const cast_config *)layer->config)->type.text;
    CLQ_TRY(clq_layer_keep_shape(model, layer, y));
    if (is_one_of(type, floats) || gives_truth(layer)) return CLQ_OK;
    if (!is_one_of(type, wholes))
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "dtype '%.40s' is not supported; there are types of floating point, int32, int64 and bool",
                        type);
    if (clq_model_input_of(model, y, 0)->whole) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED,
                    "dtype: numbers that may have fractions are cast to '%s': only whole ones are supported, as counts",
                    type);
}

/* Whatever type the numbers have in Keras, they are floats here. A cast to bool gives 1 for each number that is not
 * 0. */
static clq_id expand(clq_expansion *e, const clq_id *x) {
    if (gives_truth(e->layer)) {
        clq_node node = clq_expand_node(e, &clq_op_elementwise);
        clq_element_program *p = &node.attributes.program;
        const unsigned zero = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT});
        unsigned number = clq_element_take(p, clq_each_element);
        for (int i = 0; i < 2; i++)
            number = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_EQUAL, .a = number, .b = zero});
        p->outputs[p->output_count++].from = number;
        return clq_expand_unary(e, node, x[0]);
    }
    return clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), x[0]);
}

/* Keras returns a float32 tensor as it is, with its mask. */
static clq_tensor pass_mask(clq_model *model, uint32_t layer, clq_tensor y) {
    const cast_config *config = model->layers[layer - 1].config;
    return strcmp(config->type.text, "float32") == 0 ? clq_layer_keep_mask(model, layer, y) : (clq_tensor){0};
}

const clq_layer_kind clq_layer_op_cast = {.type = "Cast",
                                          .stem = "cast",
                                          .module = "keras.src.ops.core",
                                          .inputs = {1, 1},
                                          CLQ_LAYER_CONFIG(cast_config, attributes),
                                          .moves = true,
                                          .takes_scalars = true,
                                          .mask = pass_mask,
                                          .infer = infer,
                                          .expand = expand};
