/* The step graph: the operations on values that a plan computes, before they become launches. Private to graph.
 *
 * expand.c makes the graph of a model. Passes then change the graph (cut.c, fuse.c, differentiate.c, accumulate.c,
 * update.c). emit.c adds the graph's launches to a launch list. Nodes stand in the order in which they run. A value
 * either comes from outside, or exactly one node writes it, before any node reads it. Shapes leave the batch out. */
#ifndef CLQ_GRAPH_STEP_H
#define CLQ_GRAPH_STEP_H

#include "graph/custom.h"
#include "graph/graph.h"

/* A value of a graph. 0: none. */
typedef uint32_t clq_id;

/* The memory that a value lies in. If a plan has several memories of that kind, the value's `index` says which one. */
typedef enum clq_home {
    CLQ_HOME_STEP, /* the step's own memory, which values with separate lifetimes share */
    CLQ_HOME_SAMPLES,
    CLQ_HOME_LABELS,  /* the labels for the model's output `index` */
    CLQ_HOME_OUTPUT,  /* output `index` of the model */
    CLQ_HOME_METRICS, /* the floats of a row from number `index` on */
    CLQ_HOME_NORMS,   /* the sums of squares of all variables */
    CLQ_HOME_TABLE,   /* the table of the arenas' blocks; index 1: the one for optimizers with a trust ratio */
    CLQ_HOME_DECAYS,
    CLQ_HOME_SCALING,    /* the state of the loss scale */
    CLQ_HOME_WEIGHT,     /* variable `index`, in the arena of parameters */
    CLQ_HOME_STATE,      /* variable `index`, in the arena of state */
    CLQ_HOME_GRADIENT,   /* the gradient of variable `index`, in the arena of gradients */
    CLQ_HOME_PARAMETERS, /* whole arenas, which updates work on */
    CLQ_HOME_GRADIENTS,
    CLQ_HOME_OPTIMIZER, /* slot `index` */
    /* Tensor `index` of a stage's cut (clq_crossing): */
    CLQ_HOME_RECEIVED,
    CLQ_HOME_SENT,
    CLQ_HOME_RECEIVED_GRADIENT,
    CLQ_HOME_SENT_GRADIENT,
    CLQ_HOME_CONSTANT /* numbers that the graph owns (clq_constant), the same for all samples */
} clq_home;

typedef struct clq_graph_value {
    const char *name; /* the model's text, or a literal */
    clq_dtype dtype;
    bool per_sample; /* each sample has one: the batch is in front of the shape. false: one for all, such as a weight */
    bool recompute;  /* the model asks that backward computes it again (clq_recompute) */
    bool wide;       /* it stays f32 in mixed precision: it belongs to a CLQ_OP_WIDE composite that was lowered */
    clq_shape shape;
    size_t elements; /* product of shape */
    clq_home home;
    uint32_t index;
    /* clq_graph_find_uses sets both. readers: how many inputs of nodes the value is, plus 1 for each time that it is an
     * output of the graph or is sent. maker: index + 1 of the node that writes the value; 0: none does. */
    uint32_t readers, maker;
} clq_graph_value;

/* Inputs side by side: a sample has `rows` rows, and a row of the whole is a row of each input in turn. A row of input
 * i has widths[i] elements. */
typedef struct clq_concatenation {
    size_t rows, widths[CLQ_NODE_INPUTS];
    unsigned part; /* the input that a slice node cuts out, or that a place node puts among zeros */
} clq_concatenation;

typedef struct clq_normalisation {
    clq_normalise_problem problem;
    clq_step_sum exchange; /* the ranks whose samples the statistics are of; none: the replica's own samples alone */
} clq_normalisation;

/* A range of bytes of the arenas, and the number of the optimizer that updates it. */
typedef struct clq_run {
    size_t begin, end;
    unsigned optimizer;
} clq_run;
/* How bytes [begin, end) of the arenas are updated. (runs.c) */
typedef struct clq_updates {
    const clq_optimizer *main, *others; /* optimizer 0, and optimizers 1, 2, … */
    const clq_run *runs;                /* they cover the whole arenas, one behind the other */
    size_t run_count;
    const clq_held *held; /* none unless the update is of whole arenas */
    size_t held_count;
    clq_clip clip;
    bool skips, trust_ratios, summed; /* skips, summed: clq_update_problem's; trust_ratios: some optimizer has one */
    size_t begin, end;
} clq_updates;
const clq_optimizer *clq_updates_optimizer(const clq_updates *updates, unsigned number);
/* Each adds launches for each run: clq_add_updates those of the update, and clq_add_directions, which comes before,
 * those of the first pass of optimizers with a trust ratio. all: `first` and `states_first` are where `begin` lies, and
 * first_block is 0. clq_add_directions gives `squares`. If no run has an optimizer with a trust ratio, it gives
 * CLQ_NO_VALUE and does not write `squares`: then no block's squares are read. */
void clq_add_updates(clq_list *list, const clq_updates *updates, const clq_update_arenas *all);
clq_value clq_add_directions(clq_list *list, const clq_updates *updates, const clq_update_arenas *all,
                             clq_value squares);

/* What an operation needs to know besides its values. */
typedef union clq_attributes {
    clq_element_program program;
    float factor;              /* of scale_bytes and scale_gradient */
    clq_repeat_problem repeat; /* of repeat and reduce */
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
    clq_conv2d_problem conv2d; /* of a transposed convolution: the convolution whose gradient it is */
    clq_grouped_problem grouped;
    clq_pool2d_problem pool2d;
    clq_conv_pool_problem conv_pool;
    struct clq_loss_attributes {
        clq_loss_problem problem;
        float scale; /* the initial loss scale, if the node reads the state of the loss scale */
    } loss;
    struct clq_penalty_attributes {
        clq_penalty_problem problem;
        float scale;  /* as in the loss's attributes */
        float weight; /* of the loss whose totals the penalty is added to: its weight in the model's loss */
    } penalty;
    /* The node reads the inputs and then the variables. It writes the output and then what is kept for backward. */
    struct clq_custom_attributes {
        const clq_custom_operation *operation; /* the model's */
        unsigned inputs, variables, kept;      /* how many there are of each */
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
    bool again; /* a node of backward that runs a node of forward a second time (recompute.c) */
    clq_id inputs[CLQ_NODE_INPUTS], outputs[CLQ_NODE_OUTPUTS]; /* 0: none */
    clq_attributes attributes;
} clq_node;
/* One number for each value of a node: first the inputs, behind them the outputs. */
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
    clq_constant *constants; /* by the `index` of values in CLQ_HOME_CONSTANT */
    uint32_t constant_count;
    size_t constant_capacity;
    clq_id outputs[CLQ_MODEL_OUTPUTS_MAX]; /* what the model gives; none with a loss; id 0: another stage computes it */
    uint32_t output_count;
    clq_id sent[CLQ_CROSSINGS_MAX]; /* the values that cross the cut behind the stage */
    uint32_t sent_count;
    clq_error error; /* the first failed addition */
} clq_graph;

/* The graph latches the first addition that fails, and ignores all later additions. */
void clq_graph_release(clq_graph *graph); /* takes {0} */
clq_id clq_graph_add_value(clq_graph *graph, const clq_graph_value *value);
/* Adds a value of these numbers, which the graph copies. */
clq_id clq_graph_add_constant(clq_graph *graph, const char *name, const clq_shape *shape, size_t count,
                              const float *numbers);
/* Adds a value like another, but of float32 and in the step's own memory. name NULL: the other's. */
clq_id clq_graph_add_like(clq_graph *graph, clq_id like, const char *name);
/* Adds a value for the gradient of another: named like the other if that is a weight, otherwise "gradient". */
clq_id clq_graph_add_gradient(clq_graph *graph, clq_id of);
/* The inputs of a node, first to last; those behind the last are 0 (none). */
#define CLQ_IDS(...) ((const clq_id[CLQ_NODE_INPUTS]){__VA_ARGS__})
/* Makes a node in the scope of another, without outputs and attributes, for the caller to add. */
clq_node clq_graph_node_like(const clq_node *like, const clq_operation *op, clq_segment segment,
                             const clq_id inputs[CLQ_NODE_INPUTS]);
/* The same, in the backward segment and with the attributes of the other node. */
clq_node clq_graph_backward_node(const clq_node *forward, const clq_operation *op,
                                 const clq_id inputs[CLQ_NODE_INPUTS]);
/* Adds a node behind all others, and gives its output 0. */
clq_id clq_graph_add_node(clq_graph *graph, const clq_node *node);
void clq_graph_fail(clq_graph *graph, clq_status status);   /* with this thread's error detail; takes CLQ_OK */
size_t clq_graph_value_bytes(const clq_graph_value *value); /* of one sample if the value is per sample */
static inline clq_graph_value *clq_graph_value_at(const clq_graph *graph, clq_id id) { return &graph->values[id - 1]; }
static inline size_t clq_graph_value_channels(const clq_graph_value *value) {
    return value->shape.dims[value->shape.rank - 1];
}

/* Sets `readers` and `maker` of all values. */
void clq_graph_find_uses(clq_graph *graph);

/* ---- operations (operations.c, one row each) ---- */

enum {
    CLQ_OP_ALIAS = 1,      /* output 0 lies in input 0's memory */
    CLQ_OP_LOSS = 2,       /* gradients begin here */
    CLQ_OP_WIDE = 4,       /* its values stay f32 in mixed precision */
    CLQ_OP_AGAIN = 8,      /* it may run again: the same inputs give the same bits, and it writes only its outputs */
    CLQ_OP_EXCHANGES = 16, /* its launch waits for other ranks */
    CLQ_OP_STOPS = 32,     /* no gradient goes through it */
    CLQ_OP_JOINS_LAST = 64 /* an activation behind it joins it only after all patterns were looked for */
};
#define CLQ_OP_TYPE(dtype) (1u << (dtype))

/* A node of forward whose gradients are being added to the graph. */
typedef struct clq_derivation {
    clq_graph *graph;
    clq_node node; /* a copy, since adding moves nodes; a rule may give it more outputs, to keep values for backward */
    clq_id dy[CLQ_NODE_OUTPUTS]; /* gradients of its outputs; 0: none came */
    bool wants[CLQ_NODE_INPUTS]; /* which inputs need a gradient */
    clq_id dx[CLQ_NODE_INPUTS];  /* the rule sets it if it is wanted; 0: no gradient goes there */
} clq_derivation;
/* Adds a node with the attributes of the forward node, whose output 0 is the gradient of the forward node's input 0. */
void clq_add_gradient(clq_derivation *d, const clq_operation *op, const clq_id inputs[CLQ_NODE_INPUTS]);

/* How the values of a node are split over ranks, before the graph is cut (slicing.c, cut.c). A split value is made of
 * runs of equal length, one behind the other, and a rank has the same part of each run. A run is made of groups of
 * equal size, and no group is split. All values that are split together have equally many groups in a run, and a rank
 * has the same groups of each value. */
typedef struct clq_split {
    const clq_graph *graph;
    const clq_node *node;
    size_t in[CLQ_NODE_INPUTS], out[CLQ_NODE_OUTPUTS]; /* the length of each value's runs; 0: the value is whole */
    size_t groups;                                     /* in a run; 0: any number */
    unsigned fans; /* bits of whole inputs; each rank computes a summand of their gradients */
    bool summed;   /* output 0 is whole, and each rank computes a summand of it */
} clq_split;
/* A part of a value: numbers [first, first + count) of each of its runs of `run` numbers. run 0: the whole value. */
typedef struct clq_part {
    size_t run, first, count;
} clq_part;
/* How many of `numbers` the rank has, if they are split in the same groups as a run: the share count / run. */
static inline size_t clq_part_of(const clq_part *part, size_t numbers) { return numbers * part->count / part->run; }
/* A node as a rank computes it. */
typedef struct clq_narrowing {
    clq_node node;
    /* If the node makes only a summand: the node that makes the output from the ranks' sum. The caller sets its input 0
     * and its output. Without an operation, the sum is the output. */
    clq_node finish;
    bool flat; /* its inputs and outputs must have the shape of rows, of one part each */
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
    /* Output 0 may take the memory of this input, if nothing reads the input afterwards: its index + 1; 0: none. */
    unsigned overwrites;
    unsigned sums;  /* the output that is the sums over rows of output 0, if they are wanted; 0: there is none */
    unsigned makes; /* bits of outputs whose memory `emit` itself makes or finds */
    unsigned exact; /* bits of inputs that hold whole numbers, as large as float32 can hold: never of 16 bits */
    unsigned types; /* bits (CLQ_OP_TYPE) of the types that its values may have besides f32 */
    /* Whether the kernels of the list's device can read input `value` of a node, or write output `value -
     * CLQ_NODE_INPUTS`, when that value is stored as `dtype`, F16 or BF16. The answer holds whatever types the other
     * values have. NULL: they can for no value. */
    bool (*stores)(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype);
    void (*differentiate)(clq_derivation *d); /* NULL: no gradient comes to its outputs */
    void (*emit)(clq_emission *e);            /* NULL: there are no launches */
    /* How many operations compute the outputs of one sample, without what moving values takes. NULL: next to none. */
    double (*work)(const clq_node *node);
    /* The activation that the node applies to what it stores; passes may set it. NULL: the operation applies none. */
    clq_activation *(*activation)(clq_node *node);
    /* Whether the node adds its outputs to what their memory has; passes may set it. NULL: it always overwrites. */
    bool *(*adds)(clq_node *node);
    /* Finds the runs of a node's values from those that are known; it may lower the number of groups. False: the values
     * cannot be split like this. NULL: the values of a node always stay whole. (split.c) */
    bool (*split)(clq_split *split);
    /* The run of output 0 with which a split can begin: ranks compute a part of it each, from whole inputs and parts of
     * the weights. 0: a split cannot begin at this node. NULL: at none. */
    size_t (*begins)(const clq_node *node);
    /* Changes the node's attributes to those for a rank's parts. NULL: they stay the same. */
    void (*narrow)(const clq_split *split, const clq_part *part, clq_narrowing *narrowing);
    /* Composites alone have this: it adds the operations that the composite is short for (parts.h), which compute the
     * same outputs from the same inputs. These run if the composite has no kernels (no `emit`, or the node does not fit
     * them), and kernels are compared with them. false: there would be too many, and nothing was added. NULL: the
     * operation is no composite. (lower.c) */
    bool (*lower)(clq_graph *graph, const clq_node *node);
    bool (*fits)(const clq_node *node); /* whether the kernels can compute this node. NULL: they can compute all */
    /* Whether an output lies in input 0's memory, for operations without CLQ_OP_ALIAS. NULL: no output does. */
    bool (*is_alias)(const clq_node *node, unsigned output);
    /* By output: the operation that makes it alone, from input 0 and with the same attributes. NULL: there is none. */
    const clq_operation *alone[CLQ_NODE_OUTPUTS];
};
/* Whether an output lies in input 0's memory. (operations.c) */
bool clq_node_is_alias(const clq_node *node, const clq_operation *op, unsigned output);
/* A `stores` of operations whose kernels read and write 16 bits in all values, on every device. (operations.c) */
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

/* ---- splits over ranks (split.c): helpers of the operations' `split` ---- */

static inline size_t *clq_split_run(clq_split *split, unsigned value) {
    return value < CLQ_NODE_INPUTS ? &split->in[value] : &split->out[value - CLQ_NODE_INPUTS];
}
/* Sets a value's run to `wanted`. False: it is already another one. */
bool clq_split_set(size_t *run, size_t wanted);
/* Notes that each of a run's `parts` equal parts stays whole: the number of groups becomes a divisor of `parts`. */
void clq_split_group(clq_split *split, size_t parts);
/* Splits values that are made of equally many units, in the same order; a unit stays whole. units: how many numbers a
 * unit of each value has, inputs first, outputs behind them; 0: the value is whole, or there is none. False: a known
 * run is not made of whole units, or runs have different numbers of units. */
bool clq_split_in_units(clq_split *split, const size_t units[CLQ_NODE_VALUES]);
/* A `split` of operations whose inputs and outputs have the same numbers in the same order. */
bool clq_split_alike(clq_split *split);
/* Notes that input i is whole, and that its gradient, if it can have one, is a sum over ranks. */
void clq_split_fan(clq_split *split, unsigned i);
/* Finds the axis of a value along which its runs are split: the last axis whose places, with all axes behind it, make
 * up a run or more. *inner: how many numbers one place along that axis has. False: the axis and the run do not divide
 * evenly. */
bool clq_split_axis(const clq_graph_value *value, size_t run, unsigned *axis, size_t *inner);

/* Adds zeros in backward, with the shape and the index of another value, in the memory `home`. (gradient.c) */
clq_id clq_add_zeros(clq_graph *graph, clq_id like, clq_home home);

/* ---- exchanges (exchange.c) ---- */

static inline unsigned clq_step_sum_ranks(const clq_step_sum *exchange) { return CLQ_MAX(exchange->ranks, 1u); }
/* Adds a node that sums x over all ranks, in x's memory: nothing else may read x. The node has the scope and the
 * segment of `like`. Gives the sum; x itself if there is one rank. */
clq_id clq_add_all_reduce(clq_graph *graph, const clq_node *like, clq_id x, const clq_step_sum *exchange);
/* Adds a node that hands x on to nodes of which each rank has another part: the gradient of x becomes the sum over all
 * ranks. The node has the scope and the segment of `like`. Its output may be read only by nodes that make a new
 * gradient for it. */
clq_id clq_add_fan_out(clq_graph *graph, const clq_node *like, clq_id x, const clq_step_sum *exchange);

/* ---- batch normalisation (normalise.c) ---- */

/* Adds a value of so many rows, each with the channels of a node of batch normalisation; the shape of one row is
 * (channels). */
clq_id clq_add_channel_rows(clq_graph *graph, const clq_node *node, size_t rows, const char *name);

/* ---- elementwise operations (elementwise.c, fuse_elements.c) ----
 * The inputs of a node are those of its program. The outputs of a node are those of its program, and behind them the
 * program's sums. If a layer's node has inputs, input 0 is of kind CLQ_EACH_ELEMENT; in a fused program it may be of
 * another kind. Passes put no more outputs and sums than these into one node. */
enum { CLQ_ELEMENT_RESULTS = 3 };

extern const struct clq_element_input clq_each_element; /* f32 */
/* A value with the shape that the program runs over: the first input that has a number for each element, or else output
 * 0. A fused program may have only inputs by channel. */
static inline clq_id clq_element_place(const clq_node *node) {
    const clq_element_program *p = &node->attributes.program;
    for (size_t i = 0; i < p->input_count; i++)
        if (node->inputs[i] && p->inputs[i].kind == CLQ_EACH_ELEMENT) return node->inputs[i];
    return node->outputs[0];
}
/* The activation, if the program is nothing but an activation of one input that other operations can apply
 * (clq_activation_joins). Otherwise LINEAR. */
clq_activation clq_element_single_activation(const clq_element_program *program);
/* Whether a node has a derivative by all its inputs, as a program that is not too long. */
bool clq_element_has_derivative(const clq_node *node);
/* Makes one node of two if only the later node reads what the earlier one stores. Does so for all such pairs that fit
 * into one node. */
void clq_graph_fuse_elements(clq_graph *graph);
/* Adds a node that adds up terms[0 … count) from first to last, and gives its output. count: at most
 * CLQ_ELEMENT_INPUTS; 1: the output is a copy. */
clq_id clq_add_sum(clq_graph *graph, const clq_node *like, clq_segment segment, const clq_id *terms, unsigned count);

/* ---- passes ---- */

/* What passes know besides the graph. */
struct clq_pass_context {
    const clq_plan_config *config;
    clq_list *list;                 /* knows the device, and is asked for tuned choices */
    const clq_weight_slice *slices; /* by variable: the slice that the weights hold; NULL: all variables are whole */
    size_t table_entries, decaying; /* of the weights' table of blocks; blocks with a mark for decay, 0: all decay */
    clq_dtype arena_dtype;          /* of parameters, of gradients and of each optimizer slot */
    size_t arena_bytes;             /* of each of these: the part that is updated */
    clq_updates updates;
};

/* A pass leaves its failure in the graph. It leaves nodes that are no longer needed without an operation (`op`
 * NULL). */

/* Adds the layers as operations, and the loss if there is one: expand.c */
void clq_graph_expand(clq_graph *graph, const clq_pass_context *context);
/* Reduces nodes to what a rank computes with its slices of weights, and adds sums over ranks: cut.c */
void clq_graph_cut(clq_graph *graph, const clq_pass_context *context);
/* Replaces composites without kernels by the operations that they are short for; for comparison, all composites. Runs
 * before patterns are fused and, for comparison, also after that: lower.c */
void clq_graph_lower(clq_graph *graph, const clq_pass_context *context);
/* A pattern of nodes that becomes one node. */
typedef struct clq_fusion {
    const clq_operation *last; /* of the pattern's last node */
    /* Called with each node of that operation. If this node and those in front of it are the pattern, makes one node of
     * them, and leaves the others without an operation. */
    void (*join)(clq_graph *graph, clq_node *node, const clq_pass_context *context);
} clq_fusion;
extern const clq_fusion clq_fusion_activation, clq_fusion_last_activation, clq_fusion_conv_pool, clq_fusion_attention,
    clq_fusion_sums;
/* The node that writes a value, if the value has exactly one reader. NULL: it comes from outside, or has more. */
clq_node *clq_graph_sole_maker(const clq_graph *graph, clq_id id);
/* Fuses patterns in the graph that clq_graph_expand made: fuse.c */
void clq_graph_fuse(clq_graph *graph, const clq_pass_context *context);
/* Moves a value to a home, and gives the value that is written there. If the value lies in another home than the step's
 * own memory already (as the samples do, or a value that is two outputs at once), a node of that segment copies it.
 * (graph.c) */
clq_id clq_graph_place(clq_graph *graph, clq_id id, clq_home home, uint32_t index, clq_segment segment);
/* Moves the model's outputs to the plan's outputs, and what a stage sends to where it is sent from: expand.c */
void clq_graph_place_output(clq_graph *graph, const clq_pass_context *context);
/* Adds the gradients of all variables, from the loss back to the samples: differentiate.c */
void clq_graph_differentiate(clq_graph *graph, const clq_pass_context *context);
/* Fuses gradients, and a gradient with its sums over rows: fuse.c */
void clq_graph_fuse_gradients(clq_graph *graph, const clq_pass_context *context);
/* Stores values in 16 bits: precision.c */
void clq_graph_narrow(clq_graph *graph, const clq_pass_context *context);
/* Makes backward compute values of forward again, instead of keeping them: recompute.c */
void clq_graph_recompute(clq_graph *graph, const clq_pass_context *context);
/* Makes nodes add gradients to what earlier runs left in their memory: accumulate.c */
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

/* Builds the graph by all passes that the plan's purpose needs (passes.c). `after` (may be NULL) sees the graph after
 * each. Release the graph in any case. */
typedef void (*clq_pass_observer)(void *context, const char *pass, const clq_graph *graph);
clq_status clq_graph_build(clq_graph *graph, const clq_model *model, const clq_pass_context *context,
                           clq_pass_observer after, void *observer);

#endif
