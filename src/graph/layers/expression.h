/* Expressions as trees: what expression_text.c makes of a text, and expression.c of a tree. Private to graph. */
#ifndef CLQ_GRAPH_EXPRESSION_H
#define CLQ_GRAPH_EXPRESSION_H

#include "graph/layers/layer.h"
#include <clique/custom.h>

typedef enum clq_term_kind { CLQ_TERM_NUMBER, CLQ_TERM_INPUT, CLQ_TERM_VARIABLE, CLQ_TERM_CALL } clq_term_kind;

/* Of a call: an instruction, or an activation that is built of several. */
typedef struct clq_term {
    clq_term_kind kind;
    bool by_element; /* an input is read in it */
    unsigned index;  /* INPUT, VARIABLE */
    double number;   /* NUMBER; of an instruction that has one */
    clq_element_op op;
    clq_activation activation;           /* LINEAR: it is `op` */
    unsigned operand_count, operands[3]; /* terms in front */
} clq_term;

/* Its last term is the whole. */
typedef struct clq_expression_tree {
    clq_term terms[CLQ_EXPRESSION_TERMS_MAX];
    unsigned count;
} clq_expression_tree;

/* Of a text with so many inputs, and variables of these names. Calls whose operands are numbers are numbers, as far as
 * double has them. Errors: ARGUMENT. */
clq_status clq_expression_parse(const char *text, size_t inputs, const char *const *variables, size_t variable_count,
                                clq_expression_tree *out);

#endif
