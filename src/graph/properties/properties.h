/* Properties that a program gives a variable, and that training obeys. Each has a file of properties/ and a row. A part
 * of graph.h.
 *
 * A property is a member of clq_properties. Its row (properties.c) says what the property does and when: in the loss,
 * or behind each update. All other code asks the rows: plans, updates by replicas and by the store in the host's
 * memory, slices, shards, and the check of which settings go together. A property that acts at another moment needs a
 * new function in the row, and one call of this function.
 *
 * What the settings of a training say of variables, such as which weights do not decay, is no property. It is a
 * clq_treatment. */
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
    const char *names; /* in messages about a model: "constraints on its weights" */
    bool (*is_on)(const clq_properties *properties);
    void (*add_key)(const clq_properties *properties, clq_text *to); /* adds all that tells it from others */
    /* Adds its part of the loss to the graph, for variable `index`, which the graph reads. NULL: it has none. */
    void (*join_loss)(clq_expansion *e, uint32_t index);
    /* What follows an update of all replicas. It needs the whole variable after each update, so it excludes a sharded
     * update, slices of the variable, store ranks and local steps. `follow` works on a device, on the variable at a
     * block of the arena w. `follow_on_host` works on the host, on the variable's values, in plain float arithmetic.
     * Both NULL: nothing follows. */
    void (*follow)(clq_list *list, const clq_variable *variable, size_t block, clq_value w);
    void (*follow_on_host)(const clq_variable *variable, float *w);
} clq_property;
extern const clq_property clq_property_penalty, clq_property_constraint;

/* The first property that follows updates of the variable, if it is trained; or updates of any variable of the model.
 * NULL: none. */
const clq_property *clq_variable_follows(const clq_variable *variable);
const clq_property *clq_model_follows(const clq_model *model);
/* Adds what tells variables with these properties from others: nothing if there are none. */
void clq_properties_add_key(const clq_properties *properties, clq_text *to);
/* Adds the properties' parts of the loss for all weights that the graph reads and trains. */
void clq_properties_join_loss(clq_expansion *e);

/* A variable whose updates a property follows, and the block of the arenas where it begins. */
typedef struct clq_held {
    size_t block;
    const clq_variable *variable; /* the model's */
} clq_held;
/* Finds all such variables of the weights: an array that the caller frees with clq_free; NULL if the model has none.
 * Errors: MEMORY. */
clq_status clq_find_held(const clq_weights *weights, clq_held **out, size_t *count);
/* Do what follows the variable's update: in the arena w; or on the host, in an array that is laid out as the arena. */
void clq_follow_update(clq_list *list, const clq_held *held, clq_value w);
void clq_follow_on_host(const clq_held *held, float *w);

#endif
