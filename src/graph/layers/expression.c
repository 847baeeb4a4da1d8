/* A layer that is an expression of its inputs' elements and of variables. Each call that depends on an input becomes an
 * elementwise node, and the passes fuse the nodes. */
#include "graph/layers/expression.h"

#include <math.h>
#include <string.h>

typedef struct expression_config {
    const char *text;
    clq_expression_tree tree;
    struct variable {
        char name[CLQ_LAYER_NAME_MAX];
        double value;
        bool by_channel;
    } variables[CLQ_EXPRESSION_VARIABLES_MAX];
    unsigned variable_count;
} expression_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("expression", CLQ_ATTRIBUTE_COPY, expression_config, text), .needed = true},
};

/* ---- shapes and variables ---- */

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const expression_config *config = layer->config;
    for (unsigned i = 0; i < config->variable_count; i++) {
        const struct variable *v = &config->variables[i];
        const clq_variable_kind kind = {.what = v->name,
                                        .initialiser = {.kind = CLQ_INITIALISER_CONSTANT, .value = v->value}};
        CLQ_TRY(
            clq_model_declare_variable(model, layer, i, CLQ_SHAPE(v->by_channel ? clq_model_channels(y) : 1), &kind));
    }
    return CLQ_OK;
}

/* ---- operations ---- */

/* The node of one call that depends on an input, under construction. It reads each of its inputs and variables once. */
typedef struct making {
    clq_expansion *e;
    const expression_config *config;
    const clq_id *values; /* by term */
    clq_node node;
    unsigned variables; /* how many of the node's inputs are variables */
    bool full;
} making;

static bool has_room(making *m, unsigned instructions) {
    const clq_element_program *p = &m->node.attributes.program;
    if (p->instruction_count + instructions > CLQ_ELEMENT_INSTRUCTIONS || p->input_count == CLQ_ELEMENT_INPUTS)
        m->full = true;
    return !m->full;
}

static unsigned take(making *m, clq_id value, clq_element_kind kind) {
    clq_element_program *p = &m->node.attributes.program;
    for (unsigned i = 0; i < p->instruction_count; i++)
        if (p->instructions[i].op == CLQ_ELEMENT_INPUT && m->node.inputs[p->instructions[i].a] == value) return i;
    if (!has_room(m, 1)) return 0;
    m->variables += kind != CLQ_EACH_ELEMENT;
    m->node.inputs[p->input_count] = value;
    return clq_element_take(p, (struct clq_element_input){.kind = kind, .dtype = CLQ_F32});
}

static unsigned make_call(making *m, const clq_term *term, const unsigned *operands) {
    clq_element_program *p = &m->node.attributes.program;
    if (!has_room(m, CLQ_ACTIVATION_INSTRUCTIONS)) return 0;
    if (term->activation != CLQ_ACTIVATION_LINEAR) return clq_activation_do(p, term->activation, operands[0]);
    return clq_element_do(
        p, (clq_instruction){
               .op = term->op, .a = operands[0], .b = operands[1], .c = operands[2], .number = term->number});
}

/* The register of a term. If the term depends on an input, an earlier node has computed it, and this node reads the
 * value. */
static unsigned make(making *m, unsigned index) {
    const clq_term *term = &m->config->tree.terms[index];
    unsigned operands[3] = {0};
    if (term->by_element) return take(m, m->values[index], CLQ_EACH_ELEMENT);
    if (term->kind == CLQ_TERM_VARIABLE)
        return take(m, clq_expand_weight(m->e, term->index),
                    m->config->variables[term->index].by_channel ? CLQ_EACH_CHANNEL : CLQ_ONE_FOR_ALL);
    if (term->kind == CLQ_TERM_NUMBER)
        return has_room(m, 1) ? clq_element_do(&m->node.attributes.program,
                                               (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = term->number})
                              : 0;
    for (unsigned i = 0; i < term->operand_count; i++) operands[i] = make(m, term->operands[i]);
    return m->full ? 0 : make_call(m, term, operands);
}

/* Operands that depend on an input come first, because the node's first input must be one that has elements. */
static clq_id add_call(clq_expansion *e, const clq_id *values, const clq_term *term) {
    making m = {.e = e, .config = e->layer->config, .values = values, .node = clq_expand_node(e, &clq_op_elementwise)};
    clq_element_program *p = &m.node.attributes.program;
    unsigned operands[3] = {0};
    for (unsigned by_element = 2; by_element-- > 0;)
        for (unsigned i = 0; i < term->operand_count && !m.full; i++)
            if (m.config->tree.terms[term->operands[i]].by_element == by_element)
                operands[i] = make(&m, term->operands[i]);
    const unsigned made = m.full ? 0 : make_call(&m, term, operands);
    if (!m.full) p->outputs[p->output_count++].from = made;
    if (m.full || m.variables > CLQ_ELEMENT_SUMS || !clq_element_has_derivative(&m.node)) {
        clq_graph_fail(
            e->graph,
            clq_fail(CLQ_ERROR_UNSUPPORTED,
                     "layer '%s': expression '%.200s': too many variables or numbers meet before an input does: "
                     "change the order, or make two layers of it",
                     e->layer->name, m.config->text));
        return 0;
    }
    return clq_expand_unary(e, m.node, m.node.inputs[0]);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_expression_tree *tree = &((const expression_config *)e->layer->config)->tree;
    clq_id values[CLQ_EXPRESSION_TERMS_MAX] = {0};
    for (unsigned i = 0; i < tree->count && e->graph->error.status == CLQ_OK; i++) {
        const clq_term *term = &tree->terms[i];
        if (term->kind == CLQ_TERM_INPUT)
            values[i] = clq_expand_repeated(e, &clq_model_input_of(e->model, e->y, term->index)->shape, &e->y->shape,
                                            x[term->index]);
        else if (term->by_element)
            values[i] = add_call(e, values, term);
    }
    const unsigned last = tree->count - 1;
    if (tree->terms[last].kind != CLQ_TERM_INPUT) return values[last];
    return values[last] ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), values[last]) : 0;
}

static const clq_layer_kind expression_kind = {.type = "Expression",
                                               .stem = "expression",
                                               .module = "clique",
                                               .inputs = {1, CLQ_EXPRESSION_INPUTS_MAX},
                                               CLQ_LAYER_CONFIG(expression_config, attributes),
                                               .mask = clq_layer_join_masks,
                                               .infer = clq_layer_infer_broadcast,
                                               .declare = declare,
                                               .expand = expand};

/* ---- the builder ---- */

static clq_status read_config(const char *text, size_t inputs, const clq_expression_config *given,
                              expression_config *out) {
    const char *names[CLQ_EXPRESSION_VARIABLES_MAX];
    if (!text) return clq_fail(CLQ_ERROR_ARGUMENT, "the expression is NULL");
    if (inputs < 1 || inputs > CLQ_EXPRESSION_INPUTS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "an expression has 1 to %d inputs, not %zu", CLQ_EXPRESSION_INPUTS_MAX,
                        inputs);
    out->text = text;
    for (unsigned i = 0; given && i < CLQ_EXPRESSION_VARIABLES_MAX && given->variables[i].name; i++) {
        if (!isfinite((float)given->variables[i].value))
            return clq_fail(CLQ_ERROR_ARGUMENT, "variable '%.60s': its value %g should be finite",
                            given->variables[i].name, given->variables[i].value);
        names[out->variable_count++] = given->variables[i].name;
    }
    CLQ_TRY(clq_expression_parse(text, inputs, names, out->variable_count, &out->tree));
    for (unsigned i = 0; i < out->variable_count; i++) {
        memcpy(out->variables[i].name, names[i], strlen(names[i]) + 1);
        out->variables[i].value = given->variables[i].value;
        out->variables[i].by_channel = given->variables[i].by_channel;
    }
    return CLQ_OK;
}

clq_tensor clq_expression(clq_model *model, const char *expression, const clq_tensor *inputs, size_t count,
                          const clq_expression_config *config) {
    CLQ_LAYER_KNOWS(model, clq_expression_config, config);
    expression_config read = {.text = NULL};
    const char *name = config ? config->name : NULL;
    const clq_status status = read_config(expression, count, config, &read);
    if (status != CLQ_OK) return clq_model_fail(model, status, name ? name : "expression");
    return clq_model_add_layer(model, &expression_kind, name, &read, inputs, count);
}
