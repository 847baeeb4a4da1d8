/* Updates on the host's memory, by vectors of one width. Private to update_host*.c. */
#ifndef CLQ_OPS_UPDATE_HOST_H
#define CLQ_OPS_UPDATE_HOST_H

#include "ops/ops.h"

/* The numbers that a rule takes besides the arrays. */
typedef struct clq_host_numbers {
    clq_update_rates rates;
    float average, constants[CLQ_UPDATE_CONSTANTS];
} clq_host_numbers;
/* Runs a rule over the floats of an update. numbers NULL: computes only the sum. */
typedef void clq_host_rule(const clq_host_update *update, const clq_host_numbers *numbers);
/* The rule's part of clq_directions_on_host. */
typedef void clq_host_directions(const clq_host_update *update, const clq_host_numbers *numbers, double squares[2]);

/* A row for each rule of cl/update_rules.cl. The last row has no name, and computes only the sum. */
typedef struct clq_host_rule_row {
    const char *name;
    clq_host_rule *run;
    clq_host_directions *direct; /* NULL: the rule has no trust ratio */
} clq_host_rule_row;

/* update_host_plain.c, update_host_avx2.c: for vectors of 16 and of 32 bytes. */
extern const clq_host_rule_row clq_host_rules_plain[], clq_host_rules_avx2[];

#endif
