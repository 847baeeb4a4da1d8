/* What a program gives a variable that training obeys: a file of properties/ and a row for each. A part of graph.h.
 *
 * A property is a member of clq_properties, and its row (properties.c) says what it does and when: in the loss, or
 * behind each update. All others ask the rows: plans, updates by replicas and by the store in the host's memory,
 * slices, shards, and which settings go together. A property that does something at another moment is a further
 * function of the row, and its one call.
 *
 * What the settings of a training say of variables, as whose weights do not decay, is a clq_treatment. */
#ifndef CLQ_GRAPH_PROPERTIES_H
#define CLQ_GRAPH_PROPERTIES_H

#include "graph/layer_rows.h"

typedef struct clq_variable clq_variable;
typedef struct clq_weights clq_weights;

/* All zero: none. */
typedef struct clq_properties {
    double l1, l2;             /* its penalty: l1 * sum |w| + l2 * sum w^2 is added to the loss (penalty.c) */
    clq_constraint constraint; /* (constraint.c) */
} clq_properties;

typedef struct clq_property {
    const char *names; /* of a model: "constraints on its weights" */
    bool (*is_on)(const clq_properties *properties);
    void (*add_key)(const clq_properties *properties, clq_text *to); /* all that tells it from others */
    /* Adds its part of the loss to the graph, of variable `index`, which the graph reads. NULL: it has none. */
    void (*join_loss)(clq_expansion *e, uint32_t index);
    /* What follows an update of all replicas, of a variable that is whole: so it is in the way of a sharded update, of
     * slices, of store ranks and of local steps. On a device, of the variable at a block of the arena w; and on the
     * host, in plain float arithmetic, of its values. Both NULL: nothing. */
    void (*follow)(clq_list *list, const clq_variable *variable, size_t block, clq_value w);
    void (*follow_on_host)(const clq_variable *variable, float *w);
} clq_property;
extern const clq_property clq_property_penalty, clq_property_constraint;

/* The first property that follows the variable's updates, if it is trained; of a model's variables. NULL: none. */
const clq_property *clq_variable_follows(const clq_variable *variable);
const clq_property *clq_model_follows(const clq_model *model);
/* What tells variables with these from others: nothing if there are none. */
void clq_properties_add_key(const clq_properties *properties, clq_text *to);
/* Of the weights that the graph reads and trains. */
void clq_properties_join_loss(clq_expansion *e);

/* A variable of the arenas whose updates something follows; it lies at this block. */
typedef struct clq_held {
    size_t block;
    const clq_variable *variable; /* the model's */
} clq_held;
/* All that the weights have: an array of the caller's, NULL if there are none. Errors: MEMORY. */
clq_status clq_find_held(const clq_weights *weights, clq_held **out, size_t *count);
/* What follows its update, in the arena w; in an array on the host that is laid out as the arena. */
void clq_follow_update(clq_list *list, const clq_held *held, clq_value w);
void clq_follow_on_host(const clq_held *held, float *w);

#endif
