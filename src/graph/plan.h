/* The inside of weights (weights.c) and of a plan, shared by plan.c (life and memory), emit.c (launches) and update.c
 * (updates that replicas shard). Private to graph. */
#ifndef CLQ_GRAPH_PLAN_H
#define CLQ_GRAPH_PLAN_H

#include "graph/graph.h"
#include "graph/step/step.h"

/* What updates know of the blocks of a range of the arenas (blocks.c). */
typedef struct clq_block_table {
    clq_buffer *table; /* as of clq_blocks */
    size_t entries, count;
    clq_buffer *decays;          /* f32, for each block: 1 if its parameters decay, else 0. NULL: all decay */
    clq_buffer *of_trust_ratios; /* a copy of the table, in which variables of optimizers without a trust ratio have no
                                    blocks. NULL: no optimizer has a trust ratio */
} clq_block_table;

/* What hashes an arena (hash.c). {0} until needed. */
typedef struct clq_hasher {
    clq_list *list;
    clq_buffer *hashes; /* (blocks) 64 bits each */
} clq_hasher;

struct clq_weights {
    const clq_model *model; /* outlives the weights */
    clq_device *device;
    clq_stage whose, *stage;         /* stage: &whose, or NULL: the whole model */
    clq_dtype dtypes[2];             /* of the variables in the arenas PARAMETERS and STATE; f32 if there are none */
    size_t part_begin, part_end;     /* bytes of the arenas: the part that has optimizer slots, and that updates
                                        change */
    clq_weight_slice *slices;        /* [i]: what the weights hold of variable i */
    bool sliced;                     /* the weights hold less than all of some variable */
    size_t arena_bytes, whole_bytes; /* of each arena of trainable variables; of the whole variables in it, which come
                                        first */
    size_t state_bytes, apart_bytes; /* of the arena of state; of the state that is each replica's own, which comes
                                        first */
    size_t *offsets;                 /* where variable i lies in the arenas of its role, or CLQ_NO_OFFSET */
    clq_buffer *parameters, *gradient, *state; /* NULL: none */
    clq_buffer *optimizer[CLQ_UPDATE_STATES_MAX];
    unsigned optimizer_slots;
    clq_buffer *scaling;       /* clq_weights_scaling */
    float first_scale;         /* the initial loss scale; 0: losses are not scaled */
    bool averages;             /* the last optimizer slot is the parameters' average */
    clq_treatment *treatments; /* (variables) */
    bool spares;               /* some variable is spared */
    clq_run *runs;             /* (run_count) ranges of the arenas, by optimizer; NULL: nothing is updated */
    size_t run_count;
    clq_held *held; /* (held_count) variables whose updates something follows; NULL: none */
    size_t held_count;
    clq_optimizer others[CLQ_OPTIMIZERS_MAX - 1]; /* a copy of those in clq_update_options */
    bool trust_ratios, main_has_trust_ratio;      /* some optimizer has one; the main optimizer has one */
    bool measures_whole;    /* the squares of whole variables count. With slices, they count on the first rank only */
    clq_block_table blocks; /* of the part that is updated; all zero: nothing is updated */
    bool turned;            /* parameters and gradient have changed places */
    clq_list *mean, *weigh; /* launches over state, and over parameters (state.c); NULL until needed */
    unsigned mean_of;       /* replicas that `mean` divides by */
    clq_hasher hashers[3];  /* of the parameters in their first place, of the parameters when turned, and of the
                               state */
};

/* A plan's part of an update that replicas share, as launch lists. There are two lists of each kind. [0] goes from the
 * weights to the gradients as these are at first, and [1] is for when they have changed places. */
typedef struct clq_sharded_update {
    clq_list *lists[2];      /* NULL: the update is not sharded */
    clq_list *sums[2];       /* run before `lists`, if clq_plan_sums_first: the sum of the gradients, and its squares */
    clq_list *directions[2]; /* run then, if an optimizer has a trust ratio: its first pass */
    clq_placement placements[2], sum_placements[2], direction_placements[2]; /* memory of the lists */
    clq_buffer *squares;                                                     /* clq_plan_step_squares */
    clq_buffer *factors; /* factors of the part of the gradient, which the first pass leaves for the second. NULL: there
                            is one pass, or no factor */
    clq_block_table blocks;                                  /* of the plan's part */
    clq_buffer *aliases[2 * 3 * (CLQ_UPDATE_RANKS_MAX - 1)]; /* of peers' gradients, anew for each list */
    unsigned alias_count;
} clq_sharded_update;

/* A variable's ranges of the arenas as values of the list. */
typedef struct clq_plan_variable {
    clq_value weight, gradient; /* gradient NO_VALUE: the variable has none */
    size_t done;                /* launches after which its gradient is whole */
} clq_plan_variable;

/* The check of numerics (check.c). first NULL: nothing is checked. */
typedef struct clq_check_place {
    clq_segment segment;
    char text[CLQ_NODE_SCOPE + 2 * CLQ_LAYER_NAME_MAX + 96]; /* "in 'dense', forward of layer 'dense', …" */
} clq_check_place;
typedef struct clq_checks {
    clq_buffer *first; /* i32: the place of the first number that is not finite; INT32_MAX: none */
    clq_value v_first;
    clq_check_place *places; /* in the order of the launches */
    size_t count, capacity;
    size_t *exchanges; /* the launches that are exchanges between replicas, in order */
    size_t exchange_count, exchange_capacity;
    uint32_t step, slot; /* of the run */
} clq_checks;

struct clq_plan {
    const clq_model *model; /* outlives the plan, as the weights do */
    clq_device *device;
    clq_weights *weights;
    clq_buffer *parameters, *gradient; /* of the weights, as the arguments of kernels have them */
    clq_weights *own_weights;          /* the weights, if the plan owns them, else NULL */
    clq_plan_config config;
    clq_loss_problem losses[CLQ_MODEL_OUTPUTS_MAX]; /* what config points to: copies of the caller's */
    clq_optimizer update;
    clq_list *list;
    size_t segment_end[CLQ_SEGMENT_COUNT];
    bool exchanges;
    clq_placement placement;
    clq_sharded_update sharded;
    clq_checks checks;
    clq_feed feed;
    /* If config.beside has a buffer of the same size, the plan uses that one, except for norms. inputs: (feed.count).
     * NULL: another stage reads the array. */
    clq_buffer *inputs[CLQ_FEED_MAX], *metrics, *norms, *output[CLQ_MODEL_OUTPUTS_MAX];
    clq_buffer *crossings[CLQ_CROSSING_KINDS][CLQ_CROSSINGS_MAX]; /* NULL: none */
    clq_buffer **constants;                                       /* (constant_count) numbers that the graph knows */
    uint32_t constant_count;

    /* The same as values of the list. Of arenas, only the part that is updated. */
    clq_value v_crossings[CLQ_CROSSING_KINDS][CLQ_CROSSINGS_MAX];
    clq_value v_inputs[CLQ_FEED_MAX], v_metrics, v_norms, v_output[CLQ_MODEL_OUTPUTS_MAX];
    clq_value v_parameters, v_gradient, v_optimizer[CLQ_UPDATE_STATES_MAX], v_table, v_trust_table, v_decays, v_scaling;
    clq_plan_variable *variables;
};

/* Gives `beside`, if it has this size. Otherwise makes a buffer of the plan's own. */
clq_status clq_plan_create_buffer(clq_plan *plan, clq_buffer *beside, size_t bytes, const char *what, clq_buffer **out);
/* Makes the table of bytes [begin, end) of the arenas, multiples of CLQ_VARIABLE_ALIGN. Release the table even after a
 * failure. Errors: MEMORY, DEVICE_MEMORY, … */
clq_status clq_block_table_create(const clq_weights *weights, size_t begin, size_t end, clq_block_table *out);
void clq_hasher_release(clq_hasher *hasher);          /* takes {0} */
void clq_block_table_release(clq_block_table *table); /* takes {0} */
/* runs.c: copies what updates need of the options, and finds the runs of the arenas. Variables are laid out before. */
clq_status clq_weights_take_optimizers(clq_weights *weights, const clq_optimizer *main,
                                       const clq_update_options *options);
bool clq_weights_have_trust_ratio(const clq_weights *weights, uint32_t variable); /* whether its optimizer has one */
/* The updates of bytes [begin, end) of the arenas. */
clq_updates clq_plan_updates(const clq_plan *plan, size_t begin, size_t end);
/* stage.c */
clq_status clq_plan_create_crossings(clq_plan *plan);
void clq_plan_destroy_crossings(clq_plan *plan);
size_t clq_plan_crossing_bytes(const clq_plan *plan); /* of all crossings, each buffer once */
/* A range of a buffer as a value of a list. */
clq_value clq_plan_value(clq_list *list, const char *name, clq_buffer *buffer, size_t offset, size_t bytes);
/* check.c. clq_checks_open prepares checks, if the config asks for them. clq_check_input checks a value from outside,
 * in front of the launches of the node that reads it. clq_check_output checks a value behind the launches of the node
 * that wrote it. */
clq_status clq_checks_open(clq_plan *plan);
void clq_checks_release(clq_checks *checks); /* takes {0} */
void clq_check_input(clq_plan *plan, const clq_node *node, const clq_graph_value *value, clq_value memory);
void clq_check_output(clq_plan *plan, const clq_node *node, const clq_graph_value *value, clq_value memory);
/* The next launch is an exchange of replicas. */
void clq_check_exchange(clq_plan *plan);
/* Forgets what was found so far, as by launches for compiling: these run on memory that has no values yet. */
clq_status clq_checks_forget(const clq_plan *plan, clq_queue *queue);
/* Runs launches. With checks, it also looks at what was found, in front of each exchange and at the end; for this it
 * waits for the queue. So the replica with the first number that is not finite reports the number, and no other replica
 * receives it. NOT_FINITE names the first place. */
clq_status clq_checks_run(clq_plan *plan, clq_queue *queue, size_t first, size_t end, const clq_order *order);
/* All of a buffer; NO_VALUE if the buffer is NULL. */
clq_value clq_plan_whole_value(clq_list *list, const char *name, clq_buffer *buffer);
/* Arithmetic of launches first to end - 1, for a full batch. */
double clq_plan_launch_flops(const clq_plan *plan, size_t first, size_t end);

void clq_plan_drop_constants(clq_plan *plan); /* after its list was destroyed */
/* The graph of the plan's step, through all passes, as of clq_graph_build. */
clq_status clq_plan_build_graph(const clq_plan *plan, clq_list *list, clq_graph *graph, clq_pass_observer after,
                                void *observer);
/* Adds all launches and notes where each segment ends. */
clq_status clq_plan_emit(clq_plan *plan);

#endif
