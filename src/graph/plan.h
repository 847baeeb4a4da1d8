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
    clq_buffer *decays;          /* f32, of each block: 1 where parameters decay, else 0. NULL: all do */
    clq_buffer *of_trust_ratios; /* the table, where variables of optimizers without a trust ratio have no blocks.
                                    NULL: all have one */
} clq_block_table;

/* What hashes an arena (hash.c). {0} until needed. */
typedef struct clq_hasher {
    clq_list *list;
    clq_buffer *hashes; /* (blocks) 64 bits each */
} clq_hasher;

struct clq_weights {
    const clq_model *model; /* outlives them */
    clq_device *device;
    clq_stage whose, *stage;         /* stage: NULL, or &whose */
    clq_dtype dtypes[2];             /* of the variables in the arenas PARAMETERS and STATE; f32 where there are none */
    size_t part_begin, part_end;     /* of the arenas: which bytes the optimizer's slots are for, and updates change */
    clq_weight_slice *slices;        /* what they hold of variable i */
    bool sliced;                     /* less than all of some */
    size_t arena_bytes, whole_bytes; /* of each arena of trainable variables; those that are whole, which are first */
    size_t state_bytes, apart_bytes; /* of which the first are each replica's own */
    size_t *offsets;                 /* where variable i lies in the arenas of its role, or CLQ_NO_OFFSET */
    clq_buffer *parameters, *gradient, *state; /* NULL: none */
    clq_buffer *optimizer[CLQ_UPDATE_STATES_MAX];
    unsigned optimizer_slots;
    clq_buffer *scaling;       /* clq_weights_scaling */
    float first_scale;         /* of the loss, where there is a state */
    bool averages;             /* the last of the slots is the parameters' average */
    clq_treatment *treatments; /* (variables) */
    bool spares;               /* one of them is spared */
    clq_run *runs;             /* (run_count) of the arenas, by optimizer; NULL: nothing is updated */
    size_t run_count;
    clq_held *held; /* (held_count) variables; NULL: none */
    size_t held_count;
    clq_optimizer others[CLQ_OPTIMIZERS_MAX - 1]; /* as of clq_update_options, as is */
    bool trust_ratios, main_has_trust_ratio;      /* an optimizer has one; the main one has */
    bool measures_whole;    /* squares of variables that are whole count, as they do of the first rank */
    clq_block_table blocks; /* of the part; all zero where nothing is updated */
    bool turned;            /* parameters and gradient have changed places */
    clq_list *mean, *weigh; /* of state, of parameters (state.c); NULL until needed */
    unsigned mean_of;       /* replicas that `mean` divides by */
    clq_hasher hashers[3];  /* of the parameters as they were at first, of where they are when turned, of the state */
};

/* A part of all replicas' updates, as a launch list of its own: one from weights to gradients as they are at first, and
 * one from where they have changed places. */
typedef struct clq_sharded_update {
    clq_list *lists[2];      /* NULL: the update is not sharded */
    clq_list *sums[2];       /* what comes before where it is wanted: the sum of the gradients, and its squares; */
    clq_list *directions[2]; /* of an optimizer with a trust ratio then its first pass */
    clq_placement placements[2], sum_placements[2], direction_placements[2]; /* between their launches */
    clq_buffer *squares;                                                     /* clq_plan_step_squares */
    clq_buffer *factors; /* what the part of the gradient is taken times: the first pass leaves it for the second. NULL:
                            there is one pass, or no such factor */
    clq_block_table blocks;                                  /* of the plan's part */
    clq_buffer *aliases[2 * 3 * (CLQ_UPDATE_RANKS_MAX - 1)]; /* of peers' gradients, by each list */
    unsigned alias_count;
} clq_sharded_update;

/* A variable's ranges of the arenas as values of the list. */
typedef struct clq_plan_variable {
    clq_value weight, gradient; /* gradient NO_VALUE: it has none */
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
    size_t *exchanges; /* launches in front of which replicas add up what they have, in order */
    size_t exchange_count, exchange_capacity;
    uint32_t step, slot; /* of the run */
} clq_checks;

struct clq_plan {
    const clq_model *model; /* outlives the plan, as the weights do */
    clq_device *device;
    clq_weights *weights;
    clq_buffer *parameters, *gradient; /* of the weights, when the arguments of kernels were set */
    clq_weights *own_weights;          /* the same where they end with the plan, else NULL */
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
    /* If config.beside has one of the size, it is that one. inputs: (feed.count); NULL: another stage reads it. */
    clq_buffer *inputs[CLQ_FEED_MAX], *metrics, *norms, *output[CLQ_MODEL_OUTPUTS_MAX];
    clq_buffer *crossings[CLQ_CROSSING_KINDS][CLQ_CROSSINGS_MAX]; /* NULL: none */
    clq_buffer **constants;                                       /* (constant_count) what its graph knows */
    uint32_t constant_count;

    /* the same as values of the list; of arenas the part that is updated */
    clq_value v_crossings[CLQ_CROSSING_KINDS][CLQ_CROSSINGS_MAX];
    clq_value v_inputs[CLQ_FEED_MAX], v_metrics, v_norms, v_output[CLQ_MODEL_OUTPUTS_MAX];
    clq_value v_parameters, v_gradient, v_optimizer[CLQ_UPDATE_STATES_MAX], v_table, v_trust_table, v_decays, v_scaling;
    clq_plan_variable *variables;
};

/* `beside`, where it has the size, else one of the plan's own. */
clq_status clq_plan_create_buffer(clq_plan *plan, clq_buffer *beside, size_t bytes, const char *what, clq_buffer **out);
/* Of bytes [begin, end) of the arenas, multiples of CLQ_VARIABLE_ALIGN. Release in any case. Errors: MEMORY,
 * DEVICE_MEMORY, … */
clq_status clq_block_table_create(const clq_weights *weights, size_t begin, size_t end, clq_block_table *out);
void clq_hasher_release(clq_hasher *hasher);          /* takes {0} */
void clq_block_table_release(clq_block_table *table); /* takes {0} */
/* runs.c: copies what updates need of the options, and finds the runs of arenas that are laid out. */
clq_status clq_weights_take_optimizers(clq_weights *weights, const clq_optimizer *main,
                                       const clq_update_options *options);
bool clq_weights_have_trust_ratio(const clq_weights *weights, uint32_t variable); /* whether its optimizer has one */
/* Of bytes [begin, end) of the arenas. */
clq_updates clq_plan_updates(const clq_plan *plan, size_t begin, size_t end);
/* stage.c */
clq_status clq_plan_create_crossings(clq_plan *plan);
void clq_plan_destroy_crossings(clq_plan *plan);
size_t clq_plan_crossing_bytes(const clq_plan *plan); /* of all, each once */
/* A range of a buffer as a value of a list. */
clq_value clq_plan_value(clq_list *list, const char *name, clq_buffer *buffer, size_t offset, size_t bytes);
/* check.c: where the config asks for it. A value that node reads from outside, in front of its launches; that it wrote,
 * behind them. */
clq_status clq_checks_open(clq_plan *plan);
void clq_checks_release(clq_checks *checks); /* takes {0} */
void clq_check_input(clq_plan *plan, const clq_node *node, const clq_graph_value *value, clq_value memory);
void clq_check_output(clq_plan *plan, const clq_node *node, const clq_graph_value *value, clq_value memory);
/* The next launch is an exchange of replicas. */
void clq_check_exchange(clq_plan *plan);
/* What was found so far: by launches for compiling, on memory that has nothing yet. */
clq_status clq_checks_forget(const clq_plan *plan, clq_queue *queue);
/* Runs launches, and looks at what was found behind them and in front of each exchange, so that the replica that has
 * the first number that is not finite tells it, and no other gets it. Waits for the queue where it looks; without
 * checks the launches are run. NOT_FINITE names the first place. */
clq_status clq_checks_run(clq_plan *plan, clq_queue *queue, size_t first, size_t end, const clq_order *order);
/* All of a buffer; NO_VALUE where it is NULL. */
clq_value clq_plan_whole_value(clq_list *list, const char *name, clq_buffer *buffer);
/* Arithmetic of launches first to end - 1, for a full batch. */
double clq_plan_launch_flops(const clq_plan *plan, size_t first, size_t end);

void clq_plan_drop_constants(clq_plan *plan); /* behind its list */
/* The graph of the plan's step, through all passes, as of clq_graph_build. */
clq_status clq_plan_build_graph(const clq_plan *plan, clq_list *list, clq_graph *graph, clq_pass_observer after,
                                void *observer);
/* Adds all launches and notes where each segment ends. */
clq_status clq_plan_emit(clq_plan *plan);

#endif
