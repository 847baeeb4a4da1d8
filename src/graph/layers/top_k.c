/* keras.ops.top_k: the largest numbers along the last axis, in order, and their places. The numbers are found one after
 * another: a step takes the largest number of the places that are still free, at the first of these that has it. A
 * value is read from the place that was found. Therefore equal numbers, -inf among them, come once for each place, and
 * the gradient goes to the place. NaN is larger than all numbers. */
#include "graph/layers/layer.h"

#include <math.h>

typedef struct top_k_config {
    size_t k, part; /* part 0: values, 1: places */
} top_k_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("k", CLQ_ATTRIBUTE_SIZES, top_k_config, k), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("part", CLQ_ATTRIBUTE_SIZES, top_k_config, part)},
    {.key = "sorted", .type = CLQ_ATTRIBUTE_UNUSED},
};

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const top_k_config *config = layer->config;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    size_t *width = &y->shape.dims[y->shape.rank - 1];
    if (config->k > *width) return clq_fail(CLQ_ERROR_ARGUMENT, "k %zu is more than the %zu places", config->k, *width);
    if (config->k > CLQ_PARTS_STEPS)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "k %zu is not supported, at most %d", config->k, CLQ_PARTS_STEPS);
    *width = config->k;
    return CLQ_OK;
}

/* Values are (rows, width), or (rows, 1) with one number for each row. `left` has width - i for each place i that is
 * free, and 0 for each place that is taken. */
typedef struct search {
    clq_node of;
    clq_parts parts;
    size_t rows, width;
} search;

/* The largest number of each row: a pooling with one window over the whole row. */
static clq_id largest_of(const search *s, clq_id x) {
    clq_node node = clq_part_node(&s->parts, &clq_op_pool2d, CLQ_IDS(x));
    node.attributes.pool2d = (clq_pool2d_problem){.in_h = s->rows,
                                                  .in_w = s->width,
                                                  .channels = 1,
                                                  .out_h = s->rows,
                                                  .out_w = 1,
                                                  .size_h = 1,
                                                  .size_w = s->width,
                                                  .stride_h = 1,
                                                  .stride_w = s->width};
    return clq_part_add(&s->parts, node, CLQ_SHAPE(s->rows, 1));
}

static clq_repeat_problem runs_of(const search *s) {
    return (clq_repeat_problem){.outer = s->rows, .repeats = s->width, .inner = 1, .scale = 1};
}
static clq_id spread(const search *s, clq_id of_rows) {
    const clq_repeat_problem runs = runs_of(s);
    return clq_part_repeat(&s->parts, of_rows, &runs, CLQ_SHAPE(s->rows, s->width));
}

static clq_id all_left(const search *s) {
    const clq_shape shape = CLQ_SHAPE(s->rows, s->width);
    float *numbers = clq_alloc(s->width, sizeof *numbers);
    if (!numbers) {
        clq_graph_fail(s->parts.graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < s->width; i++) numbers[i] = (float)(s->width - i);
    const clq_id known = clq_graph_add_constant(s->parts.graph, "places", &CLQ_SHAPE(s->width), s->width, numbers);
    clq_free(numbers);
    return clq_part_by_channel(&s->parts, CLQ_ELEMENT_ADD, clq_part_zeros(&s->parts, shape), known, shape);
}

/* Begins a program whose registers 0, 1, … are the inputs. */
static clq_node begin(const search *s, clq_id a, clq_id b, clq_id c) {
    clq_node node = clq_part_node(&s->parts, &clq_op_elementwise, CLQ_IDS(a, b, c));
    for (unsigned i = 0; i < (c ? 3u : 2u); i++) (void)clq_element_take(&node.attributes.program, clq_each_element);
    return node;
}
static unsigned constant(clq_node *node, double number) {
    return clq_element_do(&node->attributes.program, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = number});
}
static unsigned compute(clq_node *node, clq_element_op op, unsigned a, unsigned b, unsigned c) {
    return clq_element_do(&node->attributes.program, (clq_instruction){.op = op, .a = a, .b = b, .c = c});
}
static clq_id end(const search *s, clq_node *node, unsigned from) {
    clq_element_program *p = &node->attributes.program;
    p->outputs[p->output_count++].from = from;
    return clq_part_add(&s->parts, *node, CLQ_SHAPE(s->rows, s->width));
}

/* x at free places, -inf at taken places. */
static clq_id rest_of(const search *s, clq_id x, clq_id left) {
    clq_node node = begin(s, left, x, 0);
    return end(s, &node, compute(&node, CLQ_ELEMENT_SELECT, 0, 1, constant(&node, -INFINITY)));
}

/* `left` at the places that have the largest number of the rest, 0 at all others. A taken place stays 0, even if the
 * largest number is -inf. */
static clq_id candidates_of(const search *s, clq_id rest, clq_id left) {
    clq_node node = begin(s, rest, spread(s, largest_of(s, rest)), left);
    const unsigned is_number = compute(&node, CLQ_ELEMENT_EQUAL, 0, 0, 0),
                   is_largest = compute(&node, CLQ_ELEMENT_AT_LEAST, 0, 1, 0),
                   is_it = compute(&node, CLQ_ELEMENT_SELECT, is_number, is_largest, constant(&node, 1));
    return end(s, &node, compute(&node, CLQ_ELEMENT_MULTIPLY, is_it, 2, 0));
}

/* `left` with the place in `found` taken. `found` has the place at all places of its row. */
static clq_id left_without(const search *s, clq_id left, clq_id found) {
    clq_node node = begin(s, left, found, 0);
    const unsigned is_it = compute(&node, CLQ_ELEMENT_EQUAL, 0, 1, 0);
    return end(s, &node, compute(&node, CLQ_ELEMENT_SELECT, is_it, constant(&node, 0), 0));
}

/* x's number at the place in `found`: the sum of the row, with zeros at all other places. */
static clq_id value_at(const search *s, clq_id x, clq_id left, clq_id found) {
    const clq_repeat_problem runs = runs_of(s);
    clq_node node = begin(s, left, found, x);
    const unsigned is_it = compute(&node, CLQ_ELEMENT_EQUAL, 0, 1, 0);
    const clq_id alone = end(s, &node, compute(&node, CLQ_ELEMENT_SELECT, is_it, 2, constant(&node, 0)));
    return clq_part_reduce(&s->parts, alone, &runs, CLQ_SHAPE(s->rows, 1));
}

/* Places that are counted down from `width` become places that are counted up from 0. */
static clq_id add_counted(clq_expansion *e, clq_id x, size_t width) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned counted = clq_element_take(p, clq_each_element);
    const unsigned all = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = (double)width});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SUBTRACT, .a = all, .b = counted});
    return x ? clq_expand_unary(e, node, x) : 0;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const top_k_config *config = e->layer->config;
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    const size_t width = in->dims[in->rank - 1], rows = e->y->elements / config->k;
    search s = {.rows = rows, .width = width};
    s.parts = clq_expand_parts(e, &s.of);
    clq_joining found = {.rows = rows};
    const clq_id all = clq_part_reshape(&s.parts, x[0], CLQ_SHAPE(rows, width));
    /* The search gives no gradient: which places have the largest numbers has no slope. */
    const clq_id seen =
        clq_part_add(&s.parts, clq_part_node(&s.parts, &clq_op_stop_gradient, CLQ_IDS(all)), CLQ_SHAPE(rows, width));
    clq_id left = all_left(&s), rest = seen;
    for (size_t i = 0; i < config->k && rest && left; i++) {
        const clq_id first = largest_of(&s, candidates_of(&s, rest, left)), place = spread(&s, first);
        clq_joining_add(&s.parts, &found, config->part == 0 ? value_at(&s, all, left, place) : first, 1);
        if (i + 1 == config->k) break;
        left = left_without(&s, left, place);
        rest = rest_of(&s, seen, left);
    }
    const clq_id joined = rest && left ? clq_joining_end(&s.parts, &found) : 0,
                 y = joined ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), joined) : 0;
    return config->part == 0 ? y : add_counted(e, y, width);
}

bool clq_layer_gives_places(const clq_layer *layer) {
    return layer->kind == &clq_layer_top_k && ((const top_k_config *)layer->config)->part == 1;
}

bool clq_model_has_places(const clq_model *model, clq_tensor tensor, size_t size) {
    for (const clq_model_tensor *x = &model->tensors[tensor.id - 1], *from;; x = from) {
        const clq_layer *layer = &model->layers[x->layer - 1];
        if (x->input_count != 1) return false;
        from = clq_model_input_of(model, x, 0);
        if (clq_layer_gives_places(layer)) return from->shape.dims[from->shape.rank - 1] <= size;
        const bool of_one = layer->kind == &clq_layer_op_sum && from->elements == x->elements;
        if (!layer->kind->moves && !of_one) return false;
    }
}

static unsigned count_parts(const clq_layer *layer) {
    (void)layer;
    return 2;
}

const clq_layer_kind clq_layer_top_k = {.type = "TopK",
                                        .stem = "top_k",
                                        .module = "keras.src.ops.math",
                                        .inputs = {1, 1},
                                        CLQ_LAYER_CONFIG(top_k_config, attributes),
                                        .output_count = count_parts,
                                        .output_member = CLQ_OUTPUT_MEMBER(top_k_config, part),
                                        .infer = infer,
                                        .expand = expand};
