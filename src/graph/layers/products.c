/* Products of tensors: Dot, EinsumDense, and Matmul and Einsum of keras.ops. */
#include "graph/layers/layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NUMPY "keras.src.ops.numpy"

/* ---- contractions of two tensors ----
 * Each axis of a, b and c has a label. A label that all three have counts matrices. A label of a and b alone is summed
 * over. A label of a and c alone is a row of the matrices, and one of b and c alone is a column. */

enum { A, B, C };
typedef struct contraction {
    unsigned rank[3];
    unsigned char labels[3][CLQ_SHAPE_MAX];
    size_t sizes[256]; /* by label; 0: not known yet */
} contraction;

/* Labels, in order. */
typedef struct axes {
    unsigned count;
    unsigned char labels[CLQ_SHAPE_MAX];
} axes;

static int place_of(const contraction *c, int which, unsigned char label) {
    for (unsigned d = 0; d < c->rank[which]; d++)
        if (c->labels[which][d] == label) return (int)d;
    return -1;
}
static bool has(const contraction *c, int which, unsigned char label) { return place_of(c, which, label) >= 0; }

static clq_shape shape_of(const contraction *c, int which) {
    clq_shape shape = {.rank = c->rank[which]};
    for (unsigned d = 0; d < shape.rank; d++) shape.dims[d] = c->sizes[c->labels[which][d]];
    return shape;
}
static size_t elements_of(const contraction *c, int which) {
    size_t elements = 1;
    for (unsigned d = 0; d < c->rank[which]; d++) elements *= c->sizes[c->labels[which][d]];
    return elements;
}

/* The labels of `from`, in its order, that a, b and c have or lack as the flags say. */
static axes select_axes(const contraction *c, int from, bool in_a, bool in_b, bool in_c) {
    axes result = {.count = 0};
    for (unsigned d = 0; d < c->rank[from]; d++) {
        const unsigned char label = c->labels[from][d];
        if (has(c, A, label) == in_a && has(c, B, label) == in_b && has(c, C, label) == in_c)
            result.labels[result.count++] = label;
    }
    return result;
}

static size_t size_of(const contraction *c, const axes *labels) {
    size_t size = 1;
    for (unsigned i = 0; i < labels->count; i++) size *= c->sizes[labels->labels[i]];
    return size;
}

/* Whether the axes lie one behind the other in the tensor, so that they act as one axis. Sets the pitch of that
 * axis. */
static bool join(const contraction *c, int which, const axes *labels, size_t *pitch) {
    *pitch = 1;
    if (labels->count == 0) return true;
    const int first = place_of(c, which, labels->labels[0]);
    for (unsigned i = 0; i < labels->count; i++)
        if (place_of(c, which, labels->labels[i]) != first + (int)i) return false;
    for (unsigned d = (unsigned)first + labels->count; d < c->rank[which]; d++) *pitch *= c->sizes[c->labels[which][d]];
    return true;
}

/* The contraction as products of small matrices that stay where they lie. The functions below give false if some axes
 * would have to be moved first. */
typedef struct matrices {
    axes counts[2], rows, columns, summed;
} matrices;

static bool split_counts(const contraction *c, matrices *m) {
    const axes all = select_axes(c, C, true, true, true);
    unsigned at = 0;
    for (unsigned i = 0; i < all.count; i++) {
        axes longer = m->counts[at];
        size_t pitch;
        longer.labels[longer.count++] = all.labels[i];
        const bool joined = join(c, A, &longer, &pitch) && join(c, B, &longer, &pitch) && join(c, C, &longer, &pitch);
        if (!joined && (at == 1 || longer.count == 1)) return false;
        if (joined) {
            m->counts[at] = longer;
        } else {
            m->counts[++at].count = 1;
            m->counts[at].labels[0] = all.labels[i];
        }
    }
    return true;
}

static bool place(const contraction *c, int which, const matrices *m, const axes *rows, const axes *columns,
                  clq_batched_matrix *out) {
    out->sample = elements_of(c, which);
    for (unsigned i = 0; i < 2; i++)
        if (!join(c, which, &m->counts[i], &out->pitch[i])) return false;
    return join(c, which, rows, &out->row) && join(c, which, columns, &out->column) &&
           (out->row == 1 || out->column == 1);
}

static bool find_problem(const contraction *c, double scale, clq_batched_problem *out) {
    matrices m = {.rows = select_axes(c, C, true, false, true),
                  .columns = select_axes(c, C, false, true, true),
                  .summed = select_axes(c, A, true, true, false)};
    if (!split_counts(c, &m)) return false;
    *out = (clq_batched_problem){.counts = {size_of(c, &m.counts[0]), size_of(c, &m.counts[1])},
                                 .m = size_of(c, &m.rows),
                                 .n = size_of(c, &m.columns),
                                 .k = size_of(c, &m.summed),
                                 .scale = (float)scale};
    return place(c, A, &m, &m.rows, &m.summed, &out->a) && place(c, B, &m, &m.summed, &m.columns, &out->b) &&
           place(c, C, &m, &m.rows, &m.columns, &out->c) && out->c.column == 1;
}

static contraction swapped(const contraction *c) {
    contraction other = *c;
    other.rank[A] = c->rank[B];
    other.rank[B] = c->rank[A];
    memcpy(other.labels[A], c->labels[B], sizeof other.labels[A]);
    memcpy(other.labels[B], c->labels[A], sizeof other.labels[B]);
    return other;
}

/* x with its axes in another order, which is noted as the tensor's order. */
static clq_id reorder(clq_expansion *e, contraction *c, int which, const axes *order, clq_id x) {
    const clq_shape from = shape_of(c, which);
    const clq_arrangement whole = clq_arrangement_of(from.rank, from.dims);
    clq_node node = clq_expand_node(e, &clq_op_arrange);
    clq_arrangement *a = &node.attributes.arrangement;
    a->rank = from.rank;
    for (unsigned d = 0; d < from.rank; d++) a->axes[d] = whole.axes[place_of(c, which, order->labels[d])];
    memcpy(c->labels[which], order->labels, sizeof c->labels[which]);
    const clq_shape to = shape_of(c, which);
    node.inputs[0] = x;
    node.outputs[0] = clq_expand_value(e, &to, elements_of(c, which));
    return clq_graph_add_node(e->graph, &node);
}

static axes append(axes a, axes b) {
    for (unsigned i = 0; i < b.count; i++) a.labels[a.count++] = b.labels[i];
    return a;
}

static clq_id multiply(clq_expansion *e, const clq_batched_problem *p, const clq_shape *shape, clq_id a, clq_id b) {
    clq_node node = clq_expand_node(e, &clq_op_batched);
    node.attributes.batched = *p;
    node.inputs[0] = a;
    node.inputs[1] = b;
    node.outputs[0] = clq_expand_value(e, shape, p->counts[0] * p->counts[1] * p->m * p->n);
    return clq_graph_add_node(e->graph, &node);
}

static clq_id contract(clq_expansion *e, const contraction *wanted, double scale, clq_id a, clq_id b) {
    contraction c = *wanted, turned = swapped(wanted);
    clq_batched_problem p;
    const clq_shape shape = shape_of(&c, C);
    if (find_problem(&c, scale, &p)) return multiply(e, &p, &shape, a, b);
    if (find_problem(&turned, scale, &p)) return multiply(e, &p, &shape, b, a);
    const axes counts = select_axes(&c, C, true, true, true), rows = select_axes(&c, C, true, false, true),
               columns = select_axes(&c, C, false, true, true), summed = select_axes(&c, A, true, true, false);
    const axes of_a = append(append(counts, rows), summed), of_b = append(append(counts, summed), columns),
               of_c = append(append(counts, rows), columns);
    axes home = {.count = c.rank[C]};
    memcpy(home.labels, c.labels[C], sizeof home.labels);
    a = reorder(e, &c, A, &of_a, a);
    b = reorder(e, &c, B, &of_b, b);
    memcpy(c.labels[C], of_c.labels, sizeof c.labels[C]);
    const clq_shape made = shape_of(&c, C);
    if (!a || !b || !find_problem(&c, scale, &p)) return 0;
    const clq_id y = multiply(e, &p, &made, a, b);
    return y ? reorder(e, &c, C, &home, y) : 0;
}

/* Sets a label's size from an axis of x, or checks the size that it has. */
static clq_status note_size(contraction *c, unsigned char label, size_t size, const clq_shape *x) {
    char text[CLQ_SHAPE_TEXT_MAX];
    if (c->sizes[label] == 0) c->sizes[label] = size;
    if (c->sizes[label] == size) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "an axis of %zu places of its input %s meets one of %zu", size,
                    clq_shape_describe(x, text), c->sizes[label]);
}

/* ---- keras.ops.matmul of two tensors (with an array: mixed.c) ---- */

/* Both tensors have the same axes in front of the last two. For each place along these, two matrices are multiplied. */
static clq_status find_matmul(const clq_model *model, const clq_model_tensor *y, contraction *c) {
    if (y->input_count != 2) return clq_fail(CLQ_ERROR_ARGUMENT, "it takes two operands, of which one may be an array");
    const clq_shape *x[2] = {&clq_model_input_of(model, y, 0)->shape, &clq_model_input_of(model, y, 1)->shape};
    char first[CLQ_SHAPE_TEXT_MAX], second[CLQ_SHAPE_TEXT_MAX];
    *c = (contraction){.rank = {x[0]->rank, x[1]->rank, x[0]->rank}};
    if (x[0]->rank != x[1]->rank || x[0]->rank < 2)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "products of %s and %s are not supported: both need at least two axes, as many",
                        clq_shape_describe(x[0], first), clq_shape_describe(x[1], second));
    const unsigned last = x[0]->rank - 1;
    for (unsigned d = 0; d <= last; d++) {
        c->labels[A][d] = d == last ? 'k' : (unsigned char)(1 + d);
        c->labels[B][d] = d == last ? 'n' : d == last - 1 ? 'k' : (unsigned char)(1 + d);
        c->labels[C][d] = d == last ? 'n' : (unsigned char)(1 + d);
        CLQ_TRY(note_size(c, c->labels[A][d], x[0]->dims[d], x[0]));
        CLQ_TRY(note_size(c, c->labels[B][d], x[1]->dims[d], x[1]));
    }
    return CLQ_OK;
}
clq_status clq_layer_infer_matmul(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    contraction c;
    (void)layer;
    CLQ_TRY(find_matmul(model, y, &c));
    y->shape = shape_of(&c, C);
    return CLQ_OK;
}
clq_id clq_layer_expand_matmul(clq_expansion *e, const clq_id *x) {
    contraction c;
    (void)find_matmul(e->model, e->y, &c); /* as it was inferred */
    return contract(e, &c, 1, x[0], x[1]);
}

/* ---- equations: "bhc,bic->bhi" ---- */

/* Reads the labels of a term. The axes that "..." stands for get numbers as labels, counted from the last of them.
 * Gives the text behind the term. */
static const char *read_term(const char *text, unsigned rank, unsigned char *labels, bool *fits) {
    unsigned count = 0, named = 0;
    for (const char *at = text; *at && *at != ',' && *at != '-'; at++) named += *at != '.' && *at != ' ';
    for (; *text && *text != ',' && *text != '-'; text++) {
        const bool letter = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z');
        if (*text == ' ') continue;
        if (letter && count < rank) {
            labels[count++] = (unsigned char)*text;
        } else if (strncmp(text, "...", 3) == 0 && named <= rank) {
            for (unsigned d = rank - named; d > 0 && count < rank; d--) labels[count++] = (unsigned char)d;
            text += 2;
        } else {
            *fits = false;
        }
    }
    *fits = *fits && count == rank;
    return text;
}

/* How many axes the term behind "->" has, if "..." stands for `more` axes. */
static unsigned rank_of_term(const char *text, unsigned more) {
    unsigned rank = 0;
    if (strstr(text, "...")) rank += more;
    for (; *text; text++) rank += *text != '.' && *text != ' ';
    return rank;
}

static clq_status refuse_equation(const clq_short_text *equation, const char *wanted) {
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "the equation '%s' is not supported: %s", equation->text, wanted);
}

/* Whether a term that begins with the batch names it again. */
static bool names_batch_again(const unsigned char *labels) {
    return strchr((const char *)labels + 1, labels[0]) != NULL;
}

/* Every term has to begin with the batch, which the contraction leaves out. ranks: of a and b, without the batch. */
static clq_status parse_equation(const clq_short_text *equation, const unsigned ranks[2], contraction *c) {
    unsigned char labels[3][CLQ_SHAPE_MAX + 1] = {{0}};
    const char *text = equation->text, *arrow = strstr(text, "->");
    bool fits = arrow != NULL;
    *c = (contraction){.rank = {ranks[A], ranks[B]}};
    if (!fits) return refuse_equation(equation, "it should name its result, behind '->'");
    unsigned named = 0;
    for (const char *at = text; *at && *at != ','; at++) named += *at != '.' && *at != ' ';
    text = read_term(text, ranks[A] + 1, labels[A], &fits);
    fits = fits && *text == ',';
    if (fits) text = read_term(text + 1, ranks[B] + 1, labels[B], &fits);
    const unsigned rank = rank_of_term(arrow + 2, ranks[A] + 1 > named ? ranks[A] + 1 - named : 0);
    fits = fits && text == arrow && rank >= 1 && rank <= CLQ_SHAPE_MAX + 1;
    if (fits) fits = *read_term(arrow + 2, rank, labels[C], &fits) == '\0' && fits;
    if (!fits) return refuse_equation(equation, "it should be of two tensors, with a letter for each axis");
    if (labels[A][0] != labels[B][0] || labels[A][0] != labels[C][0])
        return refuse_equation(equation, "each of its terms should begin with the batch");
    if (names_batch_again(labels[A]) || names_batch_again(labels[B]) || names_batch_again(labels[C]))
        return refuse_equation(equation, "the batch's letter should be there once in each term");
    c->rank[C] = rank - 1;
    for (unsigned i = 0; i < 3; i++) memcpy(c->labels[i], labels[i] + 1, CLQ_SHAPE_MAX);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned d = 0; d < c->rank[i]; d++) {
            const unsigned char label = c->labels[i][d];
            const int uses = has(c, A, label) + has(c, B, label) + has(c, C, label);
            if (uses < 2 || place_of(c, (int)i, label) != (int)d)
                return refuse_equation(equation, "each letter should be in two terms or more, once in each");
        }
    return CLQ_OK;
}

typedef struct einsum_config {
    clq_short_text equation;
} einsum_config;
static const clq_attribute einsum_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("subscripts", CLQ_ATTRIBUTE_TEXT, einsum_config, equation), .needed = true},
};

/* An equation of one tensor, "bhwc->bwch", as a contraction without b. Labels that the result lacks are summed over. */
static clq_status parse_alone(const clq_short_text *equation, const clq_shape *x, contraction *c) {
    unsigned char labels[2][CLQ_SHAPE_MAX + 1] = {{0}};
    const char *arrow = strstr(equation->text, "->"), *text = equation->text;
    bool fits = arrow != NULL && !strchr(text, '.');
    *c = (contraction){.rank = {x->rank}};
    if (fits) fits = read_term(text, x->rank + 1, labels[0], &fits) == arrow && fits;
    const unsigned rank = fits ? rank_of_term(arrow + 2, 0) : 0;
    fits = fits && rank >= 1 && rank <= x->rank + 1;
    if (fits) fits = *read_term(arrow + 2, rank, labels[1], &fits) == '\0' && fits;
    if (!fits || labels[0][0] != labels[1][0])
        return refuse_equation(equation, "it should be of one tensor, with a letter for each axis, the batch first");
    if (names_batch_again(labels[0]) || names_batch_again(labels[1]))
        return refuse_equation(equation, "the batch's letter should be there once in each term");
    c->rank[C] = rank - 1;
    memcpy(c->labels[A], labels[0] + 1, CLQ_SHAPE_MAX);
    memcpy(c->labels[C], labels[1] + 1, CLQ_SHAPE_MAX);
    for (unsigned i = A; i <= C; i += C)
        for (unsigned d = 0; d < c->rank[i]; d++)
            if (place_of(c, (int)i, c->labels[i][d]) != (int)d || !has(c, A, c->labels[i][d]))
                return refuse_equation(equation,
                                       "each letter should be of one axis, and those of the result of its input");
    for (unsigned d = 0; d < x->rank; d++) CLQ_TRY(note_size(c, c->labels[A][d], x->dims[d], x));
    return CLQ_OK;
}
/* Moves the axes that are summed over behind those of the result, and sums. */
static clq_id rearrange(clq_expansion *e, const contraction *wanted, clq_id x) {
    contraction c = *wanted;
    const axes summed = select_axes(&c, A, true, false, false), kept = select_axes(&c, C, true, false, true);
    const axes order = append(kept, summed);
    clq_node node = clq_expand_node(e, &clq_op_reduce);
    const clq_id turned = reorder(e, &c, A, &order, x);
    node.attributes.repeat =
        (clq_repeat_problem){.outer = size_of(&c, &kept), .repeats = size_of(&c, &summed), .inner = 1, .scale = 1};
    if (summed.count == 0) node = clq_expand_node(e, &clq_op_reshape);
    return turned ? clq_expand_unary(e, node, turned) : 0;
}

static clq_status find_einsum(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y,
                              contraction *c) {
    const einsum_config *config = layer->config;
    if (y->input_count == 1) return parse_alone(&config->equation, &clq_model_input_of(model, y, 0)->shape, c);
    const clq_shape *x[2] = {&clq_model_input_of(model, y, 0)->shape, &clq_model_input_of(model, y, 1)->shape};
    CLQ_TRY(parse_equation(&config->equation, (unsigned[]){x[0]->rank, x[1]->rank}, c));
    for (unsigned i = 0; i < 2; i++)
        for (unsigned d = 0; d < x[i]->rank; d++) CLQ_TRY(note_size(c, c->labels[i][d], x[i]->dims[d], x[i]));
    return CLQ_OK;
}
static clq_status infer_einsum(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    contraction c;
    CLQ_TRY(find_einsum(model, layer, y, &c));
    y->shape = shape_of(&c, C);
    return CLQ_OK;
}
static clq_id expand_einsum(clq_expansion *e, const clq_id *x) {
    contraction c;
    (void)find_einsum(e->model, e->layer, e->y, &c); /* as it was inferred */
    return e->y->input_count == 1 ? rearrange(e, &c, x[0]) : contract(e, &c, 1, x[0], x[1]);
}
const clq_layer_kind clq_layer_op_einsum = {.type = "Einsum",
                                            .stem = "einsum",
                                            .module = NUMPY,
                                            .inputs = {1, 2},
                                            CLQ_LAYER_CONFIG(einsum_config, einsum_attributes),
                                            .infer = infer_einsum,
                                            .expand = expand_einsum};

/* ---- Dot ---- */

typedef struct dot_config {
    int axes[2];
    bool normalize;
} dot_config;
static const clq_attribute dot_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axes", CLQ_ATTRIBUTE_AXIS_PAIR, dot_config, axes), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("normalize", CLQ_ATTRIBUTE_FLAG, dot_config, normalize)},
};

/* The result has the first tensor's axes without the one that is summed over, then the second's. No other axes are
 * matched. */
static clq_status find_dot(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y, contraction *c) {
    const dot_config *config = layer->config;
    *c = (contraction){.rank = {0}};
    for (unsigned i = 0; i < 2; i++) {
        const clq_shape *x = &clq_model_input_of(model, y, i)->shape;
        unsigned axis;
        if (!clq_find_axis(x, config->axes[i], &axis))
            return clq_fail(CLQ_ERROR_ARGUMENT, "axes: its input %u has no axis %d", i, config->axes[i]);
        for (unsigned d = 0; d < x->rank; d++) {
            const unsigned char label = (unsigned char)(d == axis ? 'k' : 1 + i * CLQ_SHAPE_MAX + d);
            c->labels[i][c->rank[i]++] = label;
            CLQ_TRY(note_size(c, label, x->dims[d], x));
            if (d == axis) continue;
            if (c->rank[C] == CLQ_SHAPE_MAX)
                return clq_fail(CLQ_ERROR_UNSUPPORTED, "its output would have too many axes");
            c->labels[C][c->rank[C]++] = label;
        }
    }
    return CLQ_OK;
}
static clq_status infer_dot(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    contraction c;
    CLQ_TRY(find_dot(model, layer, y, &c));
    y->shape = c.rank[C] ? shape_of(&c, C) : CLQ_SHAPE(1);
    return CLQ_OK;
}

/* x divided by the root of the sum of its squares along the last axis. */
static clq_id normalise(clq_expansion *e, const clq_shape *shape, clq_id x) {
    clq_node node = clq_expand_node(e, &clq_op_row_norm), scale = clq_expand_node(e, &clq_op_elementwise);
    const size_t width = shape->dims[shape->rank - 1], elements = clq_graph_value_at(e->graph, x)->elements;
    node.attributes.row_norm = (clq_row_norm_problem){
        .outer = elements / width, .positions = 1, .groups = 1, .width = width, .epsilon = 1e-12 / (double)width};
    node.inputs[0] = x;
    node.outputs[0] = clq_expand_value(e, shape, elements);
    clq_element_program *p = &scale.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SCALE, .a = number, .number = 1 / sqrt((double)width)});
    scale.inputs[0] = clq_graph_add_node(e->graph, &node);
    scale.outputs[0] = clq_expand_value(e, shape, elements);
    return scale.inputs[0] ? clq_graph_add_node(e->graph, &scale) : 0;
}

static clq_id expand_dot(clq_expansion *e, const clq_id *x) {
    clq_id operands[2] = {x[0], x[1]};
    contraction c;
    (void)find_dot(e->model, e->layer, e->y, &c); /* as it was inferred */
    for (int i = A; i <= B && ((const dot_config *)e->layer->config)->normalize; i++) {
        axes order = {.count = 0};
        for (unsigned d = 0; d < c.rank[i]; d++)
            if (c.labels[i][d] != 'k') order.labels[order.count++] = c.labels[i][d];
        order.labels[order.count++] = 'k';
        if (c.labels[i][c.rank[i] - 1] != 'k') operands[i] = reorder(e, &c, i, &order, operands[i]);
        const clq_shape shape = shape_of(&c, i);
        if (operands[i]) operands[i] = normalise(e, &shape, operands[i]);
        if (!operands[i]) return 0;
    }
    return contract(e, &c, 1, operands[0], operands[1]);
}
const clq_layer_kind clq_layer_dot = {.type = "Dot",
                                      .stem = "dot",
                                      .inputs = {2, 2},
                                      .takes_list = true,
                                      CLQ_LAYER_CONFIG(dot_config, dot_attributes),
                                      .infer = infer_dot,
                                      .expand = expand_dot};

/* ---- EinsumDense: a Dense layer with several axes of units, or that sums over several axes of its input ---- */

typedef struct einsum_dense_config {
    clq_short_text equation, bias_axes;
    clq_activation activation;
    clq_initialiser kernel_initialiser, bias_initialiser;
    clq_shape output; /* without the batch; a size of 0 is the input's */
} einsum_dense_config;
static const clq_attribute einsum_dense_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("equation", CLQ_ATTRIBUTE_TEXT, einsum_dense_config, equation), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("output_shape", CLQ_ATTRIBUTE_OPEN_SHAPE, einsum_dense_config, output), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("bias_axes", CLQ_ATTRIBUTE_TEXT, einsum_dense_config, bias_axes)},
    {CLQ_LAYER_ATTRIBUTE("activation", CLQ_ATTRIBUTE_ACTIVATION, einsum_dense_config, activation)},
    {CLQ_LAYER_ATTRIBUTE("kernel_initializer", CLQ_ATTRIBUTE_INITIALISER, einsum_dense_config, kernel_initialiser)},
    {CLQ_LAYER_ATTRIBUTE("bias_initializer", CLQ_ATTRIBUTE_INITIALISER, einsum_dense_config, bias_initialiser)},
};

/* The layer sums over the input's last axes, and the units are the output's last axes. The kernel has both, in any
 * order. */
typedef struct einsum_dense {
    contraction c; /* b is the kernel, without a batch */
    axes wanted;   /* the kernel's, as a matrix: the axes that are summed over, then the units */
    size_t in, out;
    clq_shape kernel, bias; /* bias of rank 0: none */
} einsum_dense;

static clq_status find_dense(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y,
                             einsum_dense *out) {
    const einsum_dense_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    const char *comma = strchr(config->equation.text, ','), *arrow = strstr(config->equation.text, "->");
    contraction *c = &out->c;
    clq_short_text whole;
    *out = (einsum_dense){.in = 1, .out = 1};
    if (!comma || !arrow || arrow < comma) return refuse_equation(&config->equation, "it should be as 'abc,cd->abd'");
    unsigned kernel = 0;
    for (const char *at = comma + 1; at < arrow; at++) kernel += *at != ' ';
    /* The kernel's term gets a batch, too, because parse_equation wants one in every term. */
    const char batch = config->equation.text[0] == '.' ? '.' : config->equation.text[0];
    if (batch == '.' || kernel == 0 || kernel > CLQ_SHAPE_MAX || strlen(config->equation.text) + 1 >= sizeof whole.text)
        return refuse_equation(&config->equation, "it should be as 'abc,cd->abd'");
    (void)snprintf(whole.text, sizeof whole.text, "%.*s,%c%s", (int)(comma - config->equation.text),
                   config->equation.text, batch, comma + 1);
    CLQ_TRY(parse_equation(&whole, (unsigned[]){x->rank, kernel}, c));
    for (unsigned d = 0; d < x->rank; d++) CLQ_TRY(note_size(c, c->labels[A][d], x->dims[d], x));
    if (config->output.rank != c->rank[C])
        return clq_fail(CLQ_ERROR_ARGUMENT, "output_shape has %u axes behind the batch, and the equation %u",
                        config->output.rank, c->rank[C]);
    for (unsigned d = 0; d < c->rank[C]; d++)
        if (config->output.dims[d]) CLQ_TRY(note_size(c, c->labels[C][d], config->output.dims[d], &config->output));
    const axes summed = select_axes(c, A, true, true, false), units = select_axes(c, C, false, true, true),
               kept = select_axes(c, A, true, false, true);
    bool fits = summed.count + units.count == kernel && summed.count + kept.count == c->rank[A] &&
                kept.count + units.count == c->rank[C] && summed.count > 0;
    for (unsigned i = 0; i < summed.count && fits; i++) fits = c->labels[A][kept.count + i] == summed.labels[i];
    for (unsigned i = 0; i < units.count && fits; i++) fits = c->labels[C][kept.count + i] == units.labels[i];
    for (unsigned i = 0; i < kept.count && fits; i++) fits = c->labels[C][i] == kept.labels[i];
    if (!fits)
        return refuse_equation(&config->equation, "only the input's last axes can be summed over, as 'abc,cde->abde'");
    out->wanted = append(summed, units);
    out->in = size_of(c, &summed);
    out->out = size_of(c, &units);
    if (out->out == 0) return clq_fail(CLQ_ERROR_ARGUMENT, "output_shape should have the sizes of the kernel's axes");
    out->kernel = shape_of(c, B);
    const char *bias = config->bias_axes.text;
    const size_t biases = strlen(bias);
    if (biases == 0) return CLQ_OK;
    for (unsigned i = 0; i < units.count && fits; i++) {
        fits = biases == units.count && (unsigned char)bias[i] == units.labels[i];
        out->bias.dims[out->bias.rank++] = c->sizes[units.labels[i]];
    }
    if (fits) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "bias_axes '%s' are not supported, only all axes of the units", bias);
}

static clq_status infer_dense(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    einsum_dense d;
    CLQ_TRY(find_dense(model, layer, y, &d));
    y->shape = shape_of(&d.c, C);
    return CLQ_OK;
}
static clq_status declare_dense(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const einsum_dense_config *config = layer->config;
    einsum_dense d;
    CLQ_TRY(find_dense(model, layer, y, &d));
    const clq_variable_kind kernel = clq_variable_kind_by(&clq_variable_kernel, &config->kernel_initialiser),
                            bias = clq_variable_kind_by(&clq_variable_bias, &config->bias_initialiser);
    CLQ_TRY(clq_model_declare_variable(model, layer, CLQ_KERNEL, d.kernel, &kernel));
    if (d.bias.rank == 0) return CLQ_OK;
    return clq_model_declare_variable(model, layer, CLQ_BIAS, d.bias, &bias);
}
/* The kernel as a matrix (in, out). */
static clq_id expand_kernel(clq_expansion *e, const einsum_dense *d) {
    const clq_id kernel = clq_expand_weight(e, CLQ_KERNEL);
    const clq_arrangement whole = clq_arrangement_of(d->kernel.rank, d->kernel.dims);
    clq_arrangement turned = whole;
    if (memcmp(d->wanted.labels, d->c.labels[B], d->wanted.count) == 0) return kernel;
    for (unsigned i = 0; i < d->wanted.count; i++) turned.axes[i] = whole.axes[place_of(&d->c, B, d->wanted.labels[i])];
    return clq_expand_arranged_weight(e, &turned, &CLQ_SHAPE(d->in, d->out), kernel);
}
static clq_id expand_dense(clq_expansion *e, const clq_id *x) {
    const einsum_dense_config *config = e->layer->config;
    einsum_dense d;
    clq_node node = clq_expand_node(e, &clq_op_dense);
    (void)find_dense(e->model, e->layer, e->y, &d); /* as it was inferred */
    const size_t rows = clq_model_input_of(e->model, e->y, 0)->elements / d.in;
    const clq_shape shape = CLQ_SHAPE(rows, d.out); /* a row has all units, as the bias does */
    node.attributes.dense = (clq_dense_problem){.in = d.in, .out = d.out, .rows_per_example = rows};
    node.inputs[0] = x[0];
    node.inputs[1] = expand_kernel(e, &d);
    node.inputs[2] = clq_expand_weight(e, CLQ_BIAS);
    node.outputs[0] = clq_expand_value(e, &shape, rows * d.out);
    const clq_id z = node.inputs[1] ? clq_graph_add_node(e->graph, &node) : 0;
    if (!z) return 0;
    return clq_expand_activation(e, config->activation, clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), z));
}
/* By token if the input's first axis is the output's first axis, too. */
static bool dense_is_by_token(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y) {
    einsum_dense d;
    return find_dense(model, layer, y, &d) == CLQ_OK && d.c.rank[C] > 1 && d.c.labels[A][0] == d.c.labels[C][0];
}
const clq_layer_kind clq_layer_einsum_dense = {.type = "EinsumDense",
                                               .stem = "einsum_dense",
                                               .inputs = {1, 1},
                                               CLQ_LAYER_CONFIG(einsum_dense_config, einsum_dense_attributes),
                                               .by_token = dense_is_by_token,
                                               .infer = infer_dense,
                                               .declare = declare_dense,
                                               .expand = expand_dense};
