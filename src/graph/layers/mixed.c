/* A matrix of numbers mixes the places along an axis: keras.ops.matmul with an array, and cumsum. */
#include "graph/layers/layer.h"

clq_id clq_layer_expand_mixed(clq_expansion *e, const clq_mixture *mix, const float *matrix, clq_id x) {
    const size_t m = mix->to, k = mix->from, outer = mix->outer, inner = mix->inner;
    clq_node node = clq_expand_node(e, &clq_op_batched);
    const clq_id known = clq_graph_add_constant(e->graph, "matrix", &CLQ_SHAPE(m, k), m * k, matrix);
    const clq_batched_matrix of = {.row = k, .column = 1};
    clq_batched_problem *p = &node.attributes.batched;
    if (inner > 1) { /* the matrix is the left factor, and x has a row for each place */
        *p = (clq_batched_problem){.counts = {outer, 1}, .m = m, .n = inner, .k = k, .a = of, .scale = 1};
        p->b = (clq_batched_matrix){.sample = outer * k * inner, .pitch = {k * inner, 0}, .row = inner, .column = 1};
        p->c = (clq_batched_matrix){.sample = outer * m * inner, .pitch = {m * inner, 0}, .row = inner, .column = 1};
        node.inputs[0] = known;
        node.inputs[1] = x;
    } else { /* all rows of a sample are the left factor, and the transposed matrix is the right one */
        *p = (clq_batched_problem){.counts = {1, 1}, .m = outer, .n = m, .k = k, .scale = 1};
        p->a = (clq_batched_matrix){.sample = outer * k, .row = k, .column = 1};
        p->b = clq_batched_transposed(of);
        p->c = (clq_batched_matrix){.sample = outer * m, .row = m, .column = 1};
        node.inputs[0] = x;
        node.inputs[1] = known;
    }
    node.outputs[0] = clq_expand_value(e, &e->y->shape, e->y->elements);
    return known && x ? clq_graph_add_node(e->graph, &node) : 0;
}

/* ---- keras.ops.matmul of a tensor and an array of two axes, or of two tensors (products.c) ---- */

static const clq_operand *operand_of(const clq_layer *layer) { return layer->config; }

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_operand *operand = operand_of(layer);
    if (operand->place == 0) return clq_layer_infer_matmul(model, layer, y);
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape, *array = &operand->shape;
    char a[CLQ_SHAPE_TEXT_MAX], b[CLQ_SHAPE_TEXT_MAX];
    if (operand->array.count == 0 || array->rank != 2)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "products with arrays are supported only if these have two axes");
    CLQ_TRY(clq_layer_check_operand(operand, x));
    const unsigned least = operand->place == 1 ? 2 : 1, axis = x->rank - least;
    if (y->input_count != 1 || x->rank < least || x->dims[axis] != array->dims[operand->place == 1])
        return clq_fail(CLQ_ERROR_ARGUMENT, "there is no product of %s and an array %s as its operand %u",
                        clq_shape_describe(x, a), clq_shape_describe(array, b), operand->place);
    y->shape = *x;
    y->shape.dims[axis] = array->dims[operand->place == 2];
    return CLQ_OK;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_operand *operand = operand_of(e->layer);
    if (operand->place == 0) return clq_layer_expand_matmul(e, x);
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    const size_t rows = operand->shape.dims[0], columns = operand->shape.dims[1];
    const bool left = operand->place == 1;
    const float *given = operand->array.values;
    float *matrix = clq_alloc(rows * columns, sizeof *matrix);
    if (!matrix) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < rows * columns; i++) /* an array on the right is transposed */
        matrix[left ? i : i % columns * rows + i / columns] = given[i];
    clq_mixture mix = {.to = left ? rows : columns, .from = left ? columns : rows, .outer = 1, .inner = 1};
    for (unsigned d = 0; d + (left ? 2u : 1u) < in->rank; d++) mix.outer *= in->dims[d];
    if (left) mix.inner = in->dims[in->rank - 1];
    const clq_id y = clq_layer_expand_mixed(e, &mix, matrix, x[0]);
    clq_free(matrix);
    return y;
}

const clq_layer_kind clq_layer_op_matmul = {.type = "Matmul",
                                            .stem = "matmul",
                                            .module = "keras.src.ops.numpy",
                                            .inputs = {1, 2},
                                            .config_bytes = sizeof(clq_operand),
                                            CLQ_LAYER_ATTRIBUTES(clq_layer_operand_rows),
                                            .infer = infer,
                                            .expand = expand};
