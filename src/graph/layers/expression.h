/* Expressions as trees: expression_text.c parses a text to a tree, and expression.c expands a tree to operations.
 * Private to graph. */
#ifndef CLQ_GRAPH_EXPRESSION_H
#define CLQ_GRAPH_EXPRESSION_H

#include "graph/layers/layer.h"
#include <clique/custom.h>

typedef enum clq_term_kind { CLQ_TERM_NUMBER, CLQ_TERM_INPUT, CLQ_TERM_VARIABLE, CLQ_TERM_CALL } clq_term_kind;

/* A part of an expression. A CALL is one instruction, or an activation that consists of several. */
typedef struct clq_term {
    clq_term_kind kind;
    bool by_element; /* it depends on an input */
    unsigned index;  /* of an INPUT or VARIABLE: which */
    double number;   /* of a NUMBER; of a CALL whose instruction has one */
    clq_element_op op;
    clq_activation activation;           /* of a CALL; LINEAR: the call is `op` */
    unsigned operand_count, operands[3]; /* operands: earlier terms */
} clq_term;

/* The last term is the whole expression. */
typedef struct clq_expression_tree {
    clq_term terms[CLQ_EXPRESSION_TERMS_MAX];
    unsigned count;
} clq_expression_tree;

/* Parses a text that reads `inputs` inputs and the named variables. A call whose operands are all numbers becomes a
 * number if it can be computed in double. Errors: ARGUMENT. */
clq_status clq_expression_parse(const char *text, size_t inputs, const char *const *variables, size_t variable_count,
                                clq_expression_tree *out);

#endif
