/* The step graph: what a plan computes, as operations on values, before it becomes launches. Private to graph.
 *
 * expand.c makes the graph of a model; passes change it (cut.c, fuse.c, differentiate.c, accumulate.c, update.c);
 * emit.c adds its launches to a launch list. Nodes stand in the order in which they run. Every value is written by one
 * node, before any node that reads it, or comes from outside. Shapes leave the batch out. */
#ifndef CLQ_GRAPH_STEP_H
#define CLQ_GRAPH_STEP_H

#include "graph/custom.h"
#include "graph/graph.h"

/* A value of a graph. 0: none. */
typedef uint32_t clq_id;

/* The memory that a value lies in. `index` of the value tells which, where there are several. */
typedef enum clq_home {
    CLQ_HOME_STEP, /* the step's own, which values share by lifetime */
    CLQ_HOME_SAMPLES,
    CLQ_HOME_LABELS,  /* of output `index` of the model */
    CLQ_HOME_OUTPUT,  /* output `index` of the model */
    CLQ_HOME_METRICS, /* of a row, the floats from `index` on */
    CLQ_HOME_NORMS,   /* of all variables */
    CLQ_HOME_TABLE,   /* of the arenas' blocks: of all, index 1: of optimizers with a trust ratio */
    CLQ_HOME_DECAYS,
    CLQ_HOME_SCALING,    /* the state of the loss scale */
    CLQ_HOME_WEIGHT,     /* variable `index`, in the arena of parameters */
    CLQ_HOME_STATE,      /* variable `index`, in the arena of state */
    CLQ_HOME_GRADIENT,   /* of variable `index`, in the arena of gradients */
    CLQ_HOME_PARAMETERS, /* whole arenas, which updates work on */
    CLQ_HOME_GRADIENTS,
    CLQ_HOME_OPTIMIZER, /* slot `index` */
    /* Of a stage, tensor `index` of its cut (clq_crossing) */
    CLQ_HOME_RECEIVED,
    CLQ_HOME_SENT,
    CLQ_HOME_RECEIVED_GRADIENT,
    CLQ_HOME_SENT_GRADIENT,
    CLQ_HOME_CONSTANT /* numbers that the graph has (clq_constant), of all samples */
} clq_home;

typedef struct clq_graph_value {
    const char *name; /* the model's or a literal */
    clq_dtype dtype;
    bool per_sample; /* the batch is in front of the shape; else there is one for all samples, as of weights */
    bool recompute;  /* the model asks for it to be computed again in backward (clq_recompute) */
    bool wide;       /* it stays f32 in mixed precision, as the values of an operation do that was lowered to others */
    clq_shape shape;
    size_t elements; /* product of shape */
    clq_home home;
    uint32_t index;
    /* By clq_graph_find_uses. How many nodes read it (being an output of the graph counts once), and the node that
     * writes it: index + 1; 0: none does. */
    uint32_t readers, maker;
} clq_graph_value;

/* Inputs that lie side by side: of each of `rows` rows of a sample, input i has widths[i] elements. */
typedef struct clq_concatenation {
    size_t rows, widths[CLQ_NODE_INPUTS];
    unsigned part; /* the input that a slice gives back, and that is placed */
} clq_concatenation;

typedef struct clq_normalisation {
    clq_normalise_problem problem;
    clq_step_sum exchange; /* over whose samples statistics are; none: over the replica's own */
} clq_normalisation;

/* A run of the arenas (bytes), and the number of the optimizer that updates it. */
typedef struct clq_run {
    size_t begin, end;
    unsigned optimizer;
} clq_run;
/* How bytes [begin, end) of the arenas are updated. (runs.c) */
typedef struct clq_updates {
    const clq_optimizer *main, *others; /* numbers 0, and 1 and more */
    const clq_run *runs;                /* of the whole arenas, one behind the other */
    size_t run_count;
    const clq_held *held; /* of whole arenas alone */
    size_t held_count;
    clq_clip clip;
    bool skips, trust_ratios, summed; /* as of clq_update_problem; an optimizer has a trust ratio */
    size_t begin, end;
} clq_updates;
const clq_optimizer *clq_updates_optimizer(const clq_updates *updates, unsigned number);
/* Launches for each run: of the update; before, of the first pass where an optimizer has a trust ratio. all: `first`
 * and `states_first` are where `begin` lies, first_block is 0. The pass gives `squares`; none where no run has such an
 * optimizer: then it is not written, and there are no blocks whose squares are looked at. */
void clq_add_updates(clq_list *list, const clq_updates *updates, const clq_update_arenas *all);
clq_value clq_add_directions(clq_list *list, const clq_updates *updates, const clq_update_arenas *all,
                             clq_value squares);

/* What an operation needs to know besides its values. */
typedef union clq_attributes {
    clq_element_program program;
    float factor;              /* of bytes */
    clq_repeat_problem repeat; /* of reduce, too */
    clq_concatenation concatenation;
    clq_arrangement arrangement;
    clq_normalisation normalise;
    clq_row_norm_problem row_norm;
    clq_batched_problem batched;
    clq_gather_problem gather;
    clq_recurrent_problem recurrent;
    clq_attention_problem attention;
    clq_cached_problem cached;
    clq_warp_problem warp;
    clq_step_sum exchange;
    clq_dense_problem dense;   /* .activation is the operation's */
    clq_conv2d_problem conv2d; /* of transposed ones: of the convolution whose gradient they are */
    clq_grouped_problem grouped;
    clq_pool2d_problem pool2d;
    clq_conv_pool_problem conv_pool;
    struct clq_loss_attributes {
        clq_loss_problem problem;
        float scale; /* the initial one, where there is a state */
    } loss;
    struct clq_penalty_attributes {
        clq_penalty_problem problem;
        float scale;  /* as of the loss */
        float weight; /* of the loss whose totals it is added to: their part in the model's loss */
    } penalty;
    /* Of its values in order: inputs, variables; output, what is kept. */
    struct clq_custom_attributes {
        const clq_custom_operation *operation; /* the model's */
        unsigned inputs, variables, kept;      /* how many */
        size_t forward_items, backward_items, group;
        double operations;
    } custom;
    clq_loss_scaling scaling;
    clq_clip clip;
    clq_updates updates;
} clq_attributes;

typedef struct clq_operation clq_operation;
typedef struct clq_pass_context clq_pass_context;

enum { CLQ_NODE_SCOPE = 2 * CLQ_LAYER_NAME_MAX + 4 };
typedef struct clq_node {
    const clq_operation *op;
    char scope[CLQ_NODE_SCOPE]; /* the layer's name, for tables, traces and messages: "conv2d + max_pooling2d" */
    clq_segment segment;
    bool again; /* of backward: a second run of a node of forward (recompute.c) */
    clq_id inputs[CLQ_NODE_INPUTS], outputs[CLQ_NODE_OUTPUTS]; /* 0: none */
    clq_attributes attributes;
} clq_node;
/* The values of a node by one number: inputs, and outputs behind them. */
enum { CLQ_NODE_VALUES = CLQ_NODE_INPUTS + CLQ_NODE_OUTPUTS };
static inline clq_id clq_node_value(const clq_node *node, unsigned i) {
    return i < CLQ_NODE_INPUTS ? node->inputs[i] : node->outputs[i - CLQ_NODE_INPUTS];
}

/* Numbers that are known when the graph is made. */
typedef struct clq_constant {
    float *numbers;
    size_t count;
} clq_constant;

typedef struct clq_graph {
    const clq_model *model;
    const clq_stage *stage;  /* NULL: the whole model */
    clq_graph_value *values; /* id - 1 is the index */
    clq_node *nodes;
    uint32_t value_count, node_count;
    size_t value_capacity, node_capacity;
    clq_constant *constants; /* by index of values of that home */
    uint32_t constant_count;
    size_t constant_capacity;
    clq_id outputs[CLQ_MODEL_OUTPUTS_MAX]; /* what the model gives; none with a loss; 0: another stage gives it */
    uint32_t output_count;
    clq_id sent[CLQ_CROSSINGS_MAX]; /* what crosses the cut behind the stage */
    uint32_t sent_count;
    clq_error error; /* the first failure of adding */
} clq_graph;

/* Adding to a graph latches the first failure; what is added behind it is ignored. */
void clq_graph_release(clq_graph *graph); /* takes {0} */
clq_id clq_graph_add_value(clq_graph *graph, const clq_graph_value *value);
/* A value of these numbers, of which it has a copy. */
clq_id clq_graph_add_constant(clq_graph *graph, const char *name, const clq_shape *shape, size_t count,
                              const float *numbers);
/* A value like another, of float32 and the step's own memory. name NULL: the other's. */
clq_id clq_graph_add_like(clq_graph *graph, clq_id like, const char *name);
/* A value for the gradient of another: of the same name where that is a weight. */
clq_id clq_graph_add_gradient(clq_graph *graph, clq_id of);
/* The inputs of a node, first to last; none where they end. */
#define CLQ_IDS(...) ((const clq_id[CLQ_NODE_INPUTS]){__VA_ARGS__})
/* A node in the scope of another, without outputs and attributes. */
clq_node clq_graph_node_like(const clq_node *like, const clq_operation *op, clq_segment segment,
                             const clq_id inputs[CLQ_NODE_INPUTS]);
/* The same in the backward segment, with the other's attributes. */
clq_node clq_graph_backward_node(const clq_node *forward, const clq_operation *op,
                                 const clq_id inputs[CLQ_NODE_INPUTS]);
/* Behind all others. Gives its output 0. */
clq_id clq_graph_add_node(clq_graph *graph, const clq_node *node);
void clq_graph_fail(clq_graph *graph, clq_status status);   /* this thread's detail; takes CLQ_OK */
size_t clq_graph_value_bytes(const clq_graph_value *value); /* of one sample where there is one for each */
static inline clq_graph_value *clq_graph_value_at(const clq_graph *graph, clq_id id) { return &graph->values[id - 1]; }
static inline size_t clq_graph_value_channels(const clq_graph_value *value) {
    return value->shape.dims[value->shape.rank - 1];
}

/* Notes the uses of all values. */
void clq_graph_find_uses(clq_graph *graph);

/* ---- operations (operations.c, one row each) ---- */

enum {
    CLQ_OP_ALIAS = 1,      /* output 0 is input 0's memory */
    CLQ_OP_LOSS = 2,       /* gradients begin here */
    CLQ_OP_WIDE = 4,       /* its values stay f32 in mixed precision */
    CLQ_OP_AGAIN = 8,      /* of the same inputs it makes the same bits at any time, and writes its outputs alone */
    CLQ_OP_EXCHANGES = 16, /* its launch waits for other ranks */
    CLQ_OP_STOPS = 32,     /* no gradient goes through it */
    CLQ_OP_JOINS_LAST = 64 /* an activation behind it joins it only when no pattern takes it any more */
};
#define CLQ_OP_TYPE(dtype) (1u << (dtype))

/* A node whose gradients are added to its graph. */
typedef struct clq_derivation {
    clq_graph *graph;
    clq_node node;               /* a copy, since adding moves nodes; it may be given more outputs to keep things in */
    clq_id dy[CLQ_NODE_OUTPUTS]; /* gradients of its outputs; 0: none came */
    bool wants[CLQ_NODE_INPUTS]; /* of which inputs */
    clq_id dx[CLQ_NODE_INPUTS];  /* is set where it is wanted; 0: no gradient goes there */
} clq_derivation;
/* Adds the gradient of input 0: output 0 of one node, which has the attributes of the other. */
void clq_add_gradient(clq_derivation *d, const clq_operation *op, const clq_id inputs[CLQ_NODE_INPUTS]);

/* How the values of a node are split over ranks, before the graph is cut (slicing.c, cut.c). A value is runs of as many
 * numbers, one behind the other, and of each run a rank has the same part. A run is so many groups, of one size, that
 * stay whole. All values that are split together have as many groups in a run, and ranks have the same ones of each. */
typedef struct clq_split {
    const clq_graph *graph;
    const clq_node *node;
    size_t in[CLQ_NODE_INPUTS], out[CLQ_NODE_OUTPUTS]; /* the lengths of runs; 0: the value is whole */
    size_t groups;                                     /* 0: any number */
    unsigned fans; /* bits of whole inputs, to whose gradient each rank has a summand */
    bool summed;   /* of output 0, which is whole, each rank has a summand */
} clq_split;
/* Numbers [first, first + count) of a run; run 0: all of a value. */
typedef struct clq_part {
    size_t run, first, count;
} clq_part;
/* How many of `numbers`, which are some of a rank's groups in each run, or of what is as many for each, the rank has.
 */
static inline size_t clq_part_of(const clq_part *part, size_t numbers) { return numbers * part->count / part->run; }
/* A node as a rank has it. */
typedef struct clq_narrowing {
    clq_node node;
    /* What makes the node's output of the ranks' sum, if the node adds no more than a summand; its input 0 and its
     * output are the caller's. No operation: the sum is the output. */
    clq_node finish;
    bool flat; /* its inputs and outputs have to be rows of one part each */
} clq_narrowing;

/* A node whose launches are added to a list, and the memory of its values. */
typedef struct clq_emission {
    clq_list *list;
    const clq_graph *graph;
    const clq_node *node;
    clq_value in[CLQ_NODE_INPUTS], out[CLQ_NODE_OUTPUTS];
} clq_emission;

struct clq_operation {
    const char *name;
    unsigned traits; /* CLQ_OP_… */
    /* Output 0 may lie where this input was, if nothing reads the input afterwards: its index + 1; 0: none. */
    unsigned overwrites;
    unsigned sums;  /* the output, if it is wanted, that is the sums over rows of output 0; 0: there is none */
    unsigned makes; /* bits of outputs whose memory `emit` makes, or finds */
    unsigned exact; /* bits of inputs whose numbers are whole, and as large as float32 has them: never of 16 bits */
    unsigned types; /* bits (CLQ_OP_TYPE) of the types that its values may have besides f32 */
    /* Whether the kernels of the list's device read input `value` of a node, or write output `value - CLQ_NODE_INPUTS`,
     * where it is stored as `dtype`, F16 or BF16: each value by itself, whatever types the others have. NULL: none. */
    bool (*stores)(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype);
    void (*differentiate)(clq_derivation *d); /* NULL: no gradient comes to its outputs */
    void (*emit)(clq_emission *e);            /* NULL: there are no launches */
    /* What computing the outputs of one sample takes beside moving values, in operations. NULL: nothing to speak of. */
    double (*work)(const clq_node *node);
    /* The activation that it applies to what it stores, for others to set. NULL: it applies none. */
    clq_activation *(*activation)(clq_node *node);
    /* Whether outputs are added to what their memory has, for others to set. NULL: it overwrites. */
    bool *(*adds)(clq_node *node);
    /* From the runs of some of a node's values those of the others; it may lower the number of groups. False: not all
     * of them can be split so. NULL: the values of a node stay whole. (split.c) */
    bool (*split)(clq_split *split);
    /* The run of output 0 of which ranks compute a part each from whole inputs, by parts of its weights; 0: there is
     * none. NULL: there never is. */
    size_t (*begins)(const clq_node *node);
    /* Gives the node the attributes that it has with a rank's parts. NULL: it has the same. */
    void (*narrow)(const clq_split *split, const clq_part *part, clq_narrowing *narrowing);
    /* Of a composite: adds the operations that it is short for (parts.h), which compute the same of the node's values.
     * They run if it has no kernels (no `emit`, or the node does not fit them), and are what these are compared with.
     * false: nothing was added, since there are too many. NULL: it is no composite. (lower.c) */
    bool (*lower)(clq_graph *graph, const clq_node *node);
    bool (*fits)(const clq_node *node); /* whether its kernels compute this one. NULL: they compute all */
    /* Whether input 0 is the memory of an output, as of CLQ_OP_ALIAS of output 0. NULL: of no other output. */
    bool (*is_alias)(const clq_node *node, unsigned output);
    /* By output: what makes it alone, of input 0, with the same attributes. NULL: only the operation itself. */
    const clq_operation *alone[CLQ_NODE_OUTPUTS];
};
/* Whether an output is the memory of input 0. (operations.c) */
bool clq_node_is_alias(const clq_node *node, const clq_operation *op, unsigned output);
/* As `stores`, of operations whose kernels read and write 16 bits in all values, on every device. (operations.c) */
bool clq_stores_all(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype);
/* Whether input `value`, or output `value - CLQ_NODE_INPUTS`, of a node may have a type. (emit.c) */
bool clq_node_takes(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype);
extern const clq_operation clq_op_scale_bytes, clq_op_reshape, clq_op_dense, clq_op_conv2d, clq_op_pool2d,
    clq_op_conv_pool, clq_op_softmax, clq_op_loss, clq_op_dense_gradient, clq_op_conv2d_gradient,
    clq_op_pool2d_gradient, clq_op_conv_pool_gradient, clq_op_softmax_gradient, clq_op_squares, clq_op_take_scale_off,
    clq_op_clip, clq_op_directions, clq_op_step_squares, clq_op_ratios, clq_op_update, clq_op_elementwise,
    clq_op_repeat, clq_op_reduce, clq_op_arrange, clq_op_grouped, clq_op_grouped_gradient, clq_op_conv2d_transpose,
    clq_op_conv2d_transpose_gradient, clq_op_row_norm, clq_op_row_norm_gradient, clq_op_batched, clq_op_gather,
    clq_op_gather_gradient, clq_op_penalty, clq_op_penalty_gradient, clq_op_warp, clq_op_recurrent,
    clq_op_recurrent_gradient, clq_op_concatenate, clq_op_slice, clq_op_moments, clq_op_statistics,
    clq_op_moving_statistics, clq_op_normalise, clq_op_normalise_sums, clq_op_normalise_corrections,
    clq_op_normalise_gradient, clq_op_all_reduce, clq_op_fan_out, clq_op_place, clq_op_accumulate, clq_op_frames,
    clq_op_attention, clq_op_cached_append, clq_op_cached_attend, clq_op_stop_gradient, clq_op_scale_gradient,
    clq_op_custom, clq_op_custom_constant, clq_op_custom_gradient;

/* ---- splits over ranks (split.c): what rows' `split` is made of ---- */

static inline size_t *clq_split_run(clq_split *split, unsigned value) {
    return value < CLQ_NODE_INPUTS ? &split->in[value] : &split->out[value - CLQ_NODE_INPUTS];
}
/* A value's run is `wanted`. False: it is another one already. */
bool clq_split_set(size_t *run, size_t wanted);
/* Groups are no smaller than one of so many equal parts of a run. */
void clq_split_group(clq_split *split, size_t parts);
/* Inputs, and outputs behind them, are as many units, of so many numbers each, in the same order; a unit stays whole.
 * 0: the value is whole, or none. False: some runs are not of units, or not of as many. */
bool clq_split_in_units(clq_split *split, const size_t units[CLQ_NODE_VALUES]);
/* A `split`: of inputs and outputs the same numbers in the same order. */
bool clq_split_alike(clq_split *split);
/* Input i is whole; its gradient, if it can have one, is a sum over ranks. */
void clq_split_fan(clq_split *split, unsigned i);
/* The axis of a value along which its runs are split: the last one in front of which there are only whole runs. *inner:
 * how many numbers one place along it has. False: it is no multiple of runs. */
bool clq_split_axis(const clq_graph_value *value, size_t run, unsigned *axis, size_t *inner);

/* Zeros in backward, of another value's shape and index, in a home of their own. (gradient.c) */
clq_id clq_add_zeros(clq_graph *graph, clq_id like, clq_home home);

/* ---- exchanges (exchange.c) ---- */

static inline unsigned clq_step_sum_ranks(const clq_step_sum *exchange) { return CLQ_MAX(exchange->ranks, 1u); }
/* The sum of x over all ranks, where x was: nothing else may read x. By a node like another, in its segment. x itself
 * where there is one rank. */
clq_id clq_add_all_reduce(clq_graph *graph, const clq_node *like, clq_id x, const clq_step_sum *exchange);
/* x, for nodes of which each rank has another part: its gradient is the sum over all ranks. By a node like another, in
 * its segment. Nothing but what makes a gradient of its own for it may read it. */
clq_id clq_add_fan_out(clq_graph *graph, const clq_node *like, clq_id x, const clq_step_sum *exchange);

/* ---- batch normalisation (normalise.c) ---- */

/* A value of so many rows of channels of a node of it; one row is (channels). */
clq_id clq_add_channel_rows(clq_graph *graph, const clq_node *node, size_t rows, const char *name);

/* ---- elementwise operations (elementwise.c, fuse_elements.c) ----
 * The values of a node are the program's inputs; its outputs, and behind them its sums. Input 0 is of kind
 * CLQ_EACH_ELEMENT. More outputs and sums than these are not put together. */
enum { CLQ_ELEMENT_RESULTS = 3 };

extern const struct clq_element_input clq_each_element; /* f32 */
/* A value of the shape that the program goes over: the first input that has a number for each element, or its output.
 * A fused program may have inputs by channel alone. */
static inline clq_id clq_element_place(const clq_node *node) {
    const clq_element_program *p = &node->attributes.program;
    for (size_t i = 0; i < p->input_count; i++)
        if (node->inputs[i] && p->inputs[i].kind == CLQ_EACH_ELEMENT) return node->inputs[i];
    return node->outputs[0];
}
/* The activation that the program is, of one input, and that other operations can apply (clq_activation_joins); else
 * LINEAR. */
clq_activation clq_element_single_activation(const clq_element_program *program);
/* Whether a node has a derivative by all its inputs, and it is a program that is not too long. */
bool clq_element_has_derivative(const clq_node *node);
/* Makes one node of two where the later one alone reads what the other stores; of all that can be. */
void clq_graph_fuse_elements(clq_graph *graph);
/* Adds a node that adds up terms[0 … count), at most CLQ_ELEMENT_INPUTS, first to last; its output. Of one: a copy. */
clq_id clq_add_sum(clq_graph *graph, const clq_node *like, clq_segment segment, const clq_id *terms, unsigned count);

/* ---- passes ---- */

/* What passes go by. */
struct clq_pass_context {
    const clq_plan_config *config;
    clq_list *list;                 /* asked for tuned choices */
    const clq_weight_slice *slices; /* what weights hold, by variable; NULL: all of each */
    size_t table_entries, decaying; /* of the weights' table of blocks; blocks that may decay or not, 0: all do */
    clq_dtype arena_dtype;          /* of parameters, of gradients and of each optimizer slot */
    size_t arena_bytes;             /* of each of these, as far as it is updated */
    clq_updates updates;
};

/* Passes leave a failure in the graph, and nodes that are no longer needed without an operation. */

/* The layers as operations, and the loss if there is one: expand.c */
void clq_graph_expand(clq_graph *graph, const clq_pass_context *context);
/* Leaves of nodes what is done with slices of weights, and adds what ranks add up: cut.c */
void clq_graph_cut(clq_graph *graph, const clq_pass_context *context);
/* Of the graph that clq_graph_expand made, before patterns are looked for; for comparison, behind that, too: lower.c */
void clq_graph_lower(clq_graph *graph, const clq_pass_context *context);
/* A pattern of nodes that become one. */
typedef struct clq_fusion {
    const clq_operation *last; /* of the pattern's last node */
    /* Is given each such node. It makes one node of it and what is in front of it if they are the pattern, and leaves
     * those that are no longer needed without an operation. */
    void (*join)(clq_graph *graph, clq_node *node, const clq_pass_context *context);
} clq_fusion;
extern const clq_fusion clq_fusion_activation, clq_fusion_last_activation, clq_fusion_conv_pool, clq_fusion_attention,
    clq_fusion_sums;
/* The node that writes a value which nothing but one node reads; NULL: it comes from outside, or others read it. */
clq_node *clq_graph_sole_maker(const clq_graph *graph, clq_id id);
/* Of the graph that clq_graph_expand made: fuse.c */
void clq_graph_fuse(clq_graph *graph, const clq_pass_context *context);
/* Has a value written to a home of its own: by a copy, a node of that scope, where it lies in another home already, as
 * the samples and what is two outputs at once do. Gives the value that is written there. (graph.c) */
clq_id clq_graph_place(clq_graph *graph, clq_id id, clq_home home, uint32_t index, clq_segment segment);
/* Has the model's output written where the plan's output is, and what a stage sends where it is sent from: expand.c */
void clq_graph_place_output(clq_graph *graph, const clq_pass_context *context);
/* Adds the gradients of all variables, from the loss back to the samples: differentiate.c */
void clq_graph_differentiate(clq_graph *graph, const clq_pass_context *context);
/* Of gradients, and of a gradient and its sums: fuse.c */
void clq_graph_fuse_gradients(clq_graph *graph, const clq_pass_context *context);
/* Stores values in 16 bits: precision.c */
void clq_graph_narrow(clq_graph *graph, const clq_pass_context *context);
/* Has values that forward made computed again in backward, in place of being kept: recompute.c */
void clq_graph_recompute(clq_graph *graph, const clq_pass_context *context);
/* Has gradients added to what their memory has, where it has any: accumulate.c */
void clq_graph_accumulate(clq_graph *graph, const clq_pass_context *context);
/* Inputs of the update. */
enum {
    CLQ_UPDATES_PARAMETERS,
    CLQ_UPDATES_GRADIENTS,
    CLQ_UPDATES_FIRST_STATE, /* the first of the rule's states */
    CLQ_UPDATES_STATE_COUNT = CLQ_UPDATE_STATES_MAX - 1,
    CLQ_UPDATES_AVERAGE = CLQ_UPDATES_FIRST_STATE + CLQ_UPDATES_STATE_COUNT,
    CLQ_UPDATES_FACTORS,
    CLQ_UPDATES_DECAYS,
    CLQ_UPDATES_RATIOS
};
_Static_assert((int)CLQ_UPDATES_RATIOS < (int)CLQ_NODE_INPUTS, "an update has room for its inputs");
clq_id clq_graph_add_scaling(clq_graph *graph); /* the state of the loss scale */
/* Adds the norms of the gradient, if wanted, and the update of all parameters: update.c */
void clq_graph_add_update(clq_graph *graph, const clq_pass_context *context);

/* The whole: through all passes that the plan's purpose needs (passes.c). `after` (may be NULL) sees the graph after
 * each. Release the graph in any case. */
typedef void (*clq_pass_observer)(void *context, const char *pass, const clq_graph *graph);
clq_status clq_graph_build(clq_graph *graph, const clq_model *model, const clq_pass_context *context,
                           clq_pass_observer after, void *observer);

#endif
