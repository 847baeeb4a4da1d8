/* A model, its stages, slices of its variables, and weights on a device. A part of graph.h, which includes it. */
#ifndef CLQ_GRAPH_WEIGHTS_H
#define CLQ_GRAPH_WEIGHTS_H

#include "graph/layer_rows.h"
#include "graph/properties/properties.h"

/* ---- the model (model.c, variables.c, layers/, named/) ---- */

/* Whether a user's word for a model is a file's path, and not the name of one that is built in; and that path, or
 * NULL. */
bool clq_model_is_file(const char *word);
const char *clq_model_path(const char *word);

enum { CLQ_LAYER_NAME_MAX = 128, CLQ_MARKS_MAX = 63 };

/* A layer: its settings and its variables. Applied to several tensors it is shared. */
struct clq_layer {
    const clq_layer_kind *kind;
    char name[CLQ_LAYER_NAME_MAX];
    bool named;           /* by the model's maker; else the name was made from the kind, */
    uint32_t made_before; /* when so many layers of the kind had names that were made */
    void *config;         /* of the kind's type, checked; the model's. Texts in it are not kept */
    uint32_t *variables;  /* (variable_places) index + 1, by the kind's number of it; 0: none. The model's */
    size_t variable_places;
    clq_shape made_for, applied_to; /* shape of its first input when it was first, and last, applied */
    bool frozen;                    /* clq_freeze: its variables are fixed, and it works as in evaluation */
    bool of_mask;                   /* it computes a mask that another layer makes */
    char *path;                     /* of a Keras file's layer, in its files of weights; NULL: not known. The model's */
    /* Of a layer that a block, whose name is the first block_bytes bytes of the layer's, has in files of weights under
     * another name than here: that one, behind the block's place, if this is not known. NULL: none. The model's */
    char *block_store;
    size_t block_bytes;
    char *place; /* in that file's text: its number in config.layers, of models within it with '/' between. What is in
                    a block has the block's. NULL: it has none. The model's */
};

#define CLQ_MASK_DROPPED UINT32_MAX
/* A tensor of the model: what a layer gives for certain inputs. */
struct clq_model_tensor {
    uint32_t layer;                    /* id */
    uint32_t first_input, input_count; /* of the model's `inputs` */
    clq_dtype dtype;                   /* f32: the only one that there is */
    bool recompute;                    /* clq_recompute: its value is not kept for backward */
    bool whole;                        /* all its numbers are known to be whole */
    clq_shape shape;                   /* without the batch */
    size_t elements;                   /* product of shape; of rank 0: 1 */
    uint32_t mask; /* id of the tensor that says which steps count; 0: all do. Finished: CLQ_MASK_DROPPED if neither a
                      layer nor a loss reads that tensor */
    uint32_t made_mask; /* what the layer's kind makes of its inputs' masks: the same, unless a block has another one */
};

/* Who changes a variable. */
typedef enum clq_role {
    CLQ_ROLE_TRAINABLE, /* the optimizer, by its gradient */
    CLQ_ROLE_STATE      /* what computes the model's output, as moving statistics; or nobody. It has no gradient */
} clq_role;
struct clq_variable {
    char name[CLQ_LAYER_NAME_MAX + 32]; /* "conv2d/kernel" */
    clq_dtype dtype;                    /* as it is stored. f32: the only one that operations take */
    clq_shape shape;
    size_t elements, fan_in, fan_out;
    bool is_bias;
    clq_role role;
    clq_initialiser initialiser;
    clq_properties properties;
    size_t ones[2]; /* values from .. to that are 1 at first, whatever the initialiser */
    /* Sets its first values in place of the initialiser, by its shape and a number that the layer chose. NULL: none. */
    void (*fill)(const clq_variable *variable, float *out);
    unsigned fill_by;
    bool decay;        /* weight decay is about it */
    bool synchronized; /* of state: replicas that train together give it the same values, to the same bits */
    bool fixed;        /* of state: nobody changes it */
    uint32_t layer;    /* id */
};

struct clq_model {
    char name[CLQ_LAYER_NAME_MAX];
    clq_layer *layers; /* id - 1 is the index */
    uint32_t layer_count;
    uint32_t *names; /* (name_slots, a power of two) ids of layers by the hashes of their names; 0: free (names.c) */
    size_t name_slots;
    clq_model_tensor *tensors; /* id - 1 is the index, which clq_tensor.id is; inputs come before what reads them */
    uint32_t tensor_count;
    uint32_t *inputs; /* ids of tensors: what each tensor is computed from */
    uint32_t input_total;
    clq_variable *variables; /* in the order of the layers */
    uint32_t variable_count;
    size_t layer_capacity, tensor_capacity, input_capacity, variable_capacity;
    uint32_t input; /* id of a tensor */
    uint32_t outputs[CLQ_MODEL_OUTPUTS_MAX], output_count;
    size_t decodes;  /* places of a text, of whose tokens a sample is one (decode.c); 0: a sample is what it is */
    bool recomputes; /* some tensor is marked for it */
    uint32_t marks[CLQ_MARKS_MAX], mark_count; /* ids of tensors behind which pipelines cut, ascending */
    bool finished;
    clq_error error;    /* the builder's first failure */
    char *keras_config; /* text of the Keras file that it was read from, or that it was prepared to be; NULL: it was
                           made here. The model's */
};

/* The first values of variable `index` of a model, by its initialiser, which was checked: out (elements). Each variable
 * has a stream of random numbers of its own, so a layer's values do not depend on the others. Errors: MEMORY. */
clq_status clq_variable_initialise(const clq_variable *variable, uint64_t seed, uint32_t index, float *out);
size_t clq_variable_bytes(const clq_variable *variable); /* as it is stored */
/* Whether state is the same on all replicas, to the same bits. */
static inline bool clq_variable_is_shared(const clq_variable *variable) {
    return variable->synchronized || variable->fixed;
}
/* Input `i` of a tensor. */
const clq_model_tensor *clq_model_input_of(const clq_model *model, const clq_model_tensor *tensor, size_t i);
/* Whether a layer of the model has the name. (names.c) */
bool clq_model_has_layer(const clq_model *model, const char *name);
/* Of a finished model. */
/* Of a layer that takes numbers of rows: how many rows there are; 0 of others. */
size_t clq_layer_rows(const clq_layer *layer);
/* How many of so many inputs of a use of the layer stand in front of those that keywords give. (model.c) */
size_t clq_layer_positional(const clq_layer *layer, size_t count);
/* What samples of bytes are multiplied by on their way into the model: 1 or 1 / 255. Errors: MEMORY. (layers/input.c)
 */
clq_status clq_model_byte_factor(const clq_model *model, float *out);
/* Values of a sample that a layer takes for numbers of rows. */
typedef struct clq_tokens {
    size_t first, count;
    size_t rows;
    uint32_t layer; /* its index */
} clq_tokens;
/* false: what makes tensor `index` takes no numbers of rows, or they are not the sample's own values. */
bool clq_model_tokens(const clq_model *model, uint32_t index, clq_tokens *out);
/* The input, or the part of it, whose values x has, all of them, perhaps in other places; NULL: x has others. */
const clq_model_tensor *clq_model_find_own(const clq_model *model, const clq_model_tensor *x);
/* Whether a tensor has nothing but places of a TopK along an axis of at most so many, perhaps moved. (layers/top_k.c)
 */
bool clq_model_has_places(const clq_model *model, clq_tensor tensor, size_t size);
const clq_model_tensor *clq_model_input(const clq_model *model);
const clq_model_tensor *clq_model_output(const clq_model *model, size_t index);
const char *clq_model_tensor_name(const clq_model *model, const clq_model_tensor *tensor); /* its layer's */

/* Adds a text that two models have in common only if plans of them compute alike: for what is kept of a model. */
void clq_model_add_key(const clq_model *model, clq_text *to);
/* As clq_input, with a name for the layer (NULL: made). */
clq_tensor clq_model_add_input(clq_model *model, clq_shape shape, const char *name);
/* Applies a layer that was added before, by its id: the same variables. */
clq_tensor clq_model_apply_again(clq_model *model, uint32_t layer, const clq_tensor *inputs, size_t count);

/* ---- one token after another (decode.c) ---- */

/* A finished model that takes (context) tokens and gives (context, n), as one that takes a token: a sample is the
 * token's number and its place, and the output is (1, n). Variables have the names and shapes of the first one's. What
 * attention keeps of tokens are further variables, of state: so plans over the same weights go on with the same text.
 * The caller destroys *out. Errors: UNSUPPORTED names the layer that is in the way; MEMORY. */
clq_status clq_model_decoding(const clq_model *model, clq_model **out);
/* Whether what the model gives are probabilities: its first output is a softmax over its last axis, or that in another
 * shape. Errors: MEMORY. */
clq_status clq_model_gives_probabilities(const clq_model *model, bool *out);
/* ---- where Keras's files have variables (stores.c) ---- */

/* What Keras makes of a class's name: "batch_normalization" of BatchNormalization. */
void clq_store_name(const char *class_name, clq_text *to);
/* Where a Keras file's layer, which gives x, is in its files of weights ("layers/dense_1"; NULL: not known), and in its
 * text (as of clq_layer); copied. Errors: MEMORY. */
clq_status clq_model_note_path(clq_model *model, clq_tensor x, const char *path, const char *place);
/* The same of clq_layer.block_store, by the block's name. */
clq_status clq_model_note_block_store(clq_model *model, clq_tensor x, const char *block, const char *store);
typedef struct clq_stores {
    char **paths; /* (count) of variables: "layers/dense_1/vars/0"; NULL: not known */
    uint32_t count;
    char **zeros; /* (zero_count) of whole numbers that Keras has beside them, and that mean nothing: 0 */
    size_t zero_count;
} clq_stores;
/* Of a finished model. Errors: MEMORY. */
clq_status clq_model_stores(const clq_model *model, clq_stores *out);
void clq_stores_release(clq_stores *stores);
/* Of a variable of a layer whose place is `path`; the caller's. NULL: out of memory. */
char *clq_variable_store(const clq_layer *layer, uint32_t variable, const char *path);

/* ---- stages (stage.c) ----
 * A model in parts, one behind the other, each with plans and weights of its own. Identities stay those of the whole
 * model: indices of variables and outputs, names, the random numbers of dropout. */

enum { CLQ_CROSSINGS_MAX = 16 };
/* A place between two tensors of a finished model, in their order. A tensor that is made in front of it and read behind
 * it crosses it, even if it only passes through the next stages. */
typedef struct clq_cut {
    uint32_t at; /* id of the first tensor behind it */
    unsigned count;
    uint32_t tensors[CLQ_CROSSINGS_MAX]; /* that cross: ids, ascending */
    bool trained[CLQ_CROSSINGS_MAX];     /* they depend on trainable variables: their gradients cross back */
} clq_cut;
/* Tensors [before.at, after.at). No tensor crosses the cut in front of tensor 1, or the one behind the last. */
typedef struct clq_stage {
    clq_cut before, after;
} clq_stage;
/* All valid cuts, first to last: those with at least one layer on each side, where no layer is applied on both sides
 * and no more than CLQ_CROSSINGS_MAX tensors cross. There may be none. The caller frees *out with clq_free. */
clq_status clq_model_cuts(const clq_model *model, clq_cut **out, size_t *count);
/* Bytes of one sample: of the values that cross, or of the gradients that cross back. */
size_t clq_cut_bytes(const clq_model *model, const clq_cut *cut, bool gradients);
/* stage NULL: the whole model. */
bool clq_stage_has_tensor(const clq_stage *stage, uint32_t id);
bool clq_stage_has_variable(const clq_stage *stage, const clq_model *model, uint32_t variable);

/* ---- slices of variables (slicing.c) ----
 * Ranks may split a model's weights in place of the batch (tensor parallelism; Shoeybi et al., "Megatron-LM", 2019).
 * Each rank has a slice of the columns (units) of a kernel, of a Dense layer or of attention's queries, keys and
 * values, with its bias. It computes its units from whole rows, and from them what follows, as far as this can be
 * computed of some units, or heads, alone: up to other Dense layers, and attention's output, of whose kernels it has a
 * slice of the rows (inputs). Of these it computes a summand. In forward ranks sum the summands, and in backward the
 * gradients of what was whole. What no such layer follows is joined: of an Embedding with many rows ranks have columns,
 * and gather whole rows behind it; in a model in which no other layers are split so are Dense layers. Every rank has
 * all other variables whole, and computes all other layers. */

/* A rank's part of a variable: indices [first, first + count) of one axis, and all of the other axes. */
typedef struct clq_weight_slice {
    unsigned axis;
    size_t first, count;
    bool joined; /* the units that a layer computes with the slice are gathered to whole rows right behind it */
    bool rows;   /* of inputs, whatever its axis: what is computed with the slice are summands. Else of units */
} clq_weight_slice;
/* How the ranks split the variables of a model. */
typedef struct clq_slicing clq_slicing;
/* Units, and heads, are split as evenly as possible; layers with fewer than ranks stay whole. The model must outlive
 * the slicing. Errors: ARGUMENT (the model has nothing that can be split), MEMORY. */
clq_status clq_slicing_create(const clq_model *model, unsigned ranks, clq_slicing **out);
void clq_slicing_destroy(clq_slicing *slicing); /* takes NULL */
clq_weight_slice clq_slicing_of(const clq_slicing *slicing, unsigned rank, size_t variable);
/* Whether the slice is less than the whole variable. */
bool clq_weight_slice_is_part(const clq_weight_slice *slice, const clq_variable *variable);
size_t clq_weight_slice_elements(const clq_weight_slice *slice, const clq_variable *variable);
/* Copies a slice out of a variable's values, and a slice's values back into the variable. */
void clq_weight_slice_cut(const clq_weight_slice *slice, const clq_variable *variable, const float *values, float *out);
void clq_weight_slice_paste(const clq_weight_slice *slice, const clq_variable *variable, const float *values,
                            float *out);

/* ---- weights (weights.c) ----
 * A model's variables on a device, and what training keeps beside them, in flat arenas. Any number of plans work on
 * them, one at a time. Trainable variables lie in the arena of parameters, and alike in those of the gradient and of
 * the optimizer's slots, in the order in which backward finishes their gradients; state lies in an arena of its own:
 * first what each replica keeps up by itself, then what is synchronized, in the model's order. Each variable is aligned
 * to CLQ_VARIABLE_ALIGN bytes, the gaps are zero, and the layout is the same on every device. Slices of variables lie
 * behind the trainable variables that are whole, which so are laid out alike on all ranks. */
enum { CLQ_VARIABLE_ALIGN = 512 };
/* How updates treat a variable, by the settings of a training. All zero: as the main optimizer says. */
typedef struct clq_treatment {
    uint8_t optimizer; /* the number of its own: 0, the main one, or 1 + its place among the others */
    bool spared;       /* it does not decay */
} clq_treatment;
/* What is done with gradients and parameters around the optimizer's rule. All zero: nothing. */
typedef struct clq_update_options {
    clq_clip clip;
    clq_loss_scaling scaling;
    bool averages;               /* a moving average of the parameters is kept, in one more optimizer slot, the last */
    const clq_optimizer *others; /* (other_count, less than CLQ_OPTIMIZERS_MAX) beside the main one */
    unsigned other_count;
    const clq_treatment *treatments; /* (variables); NULL: all zero */
} clq_update_options;
/* Arenas beside parameters and gradients that updates need, and whether an optimizer has a trust ratio. (runs.c) */
unsigned clq_update_slots(const clq_optimizer *main, const clq_update_options *options);
bool clq_updates_have_trust_ratios(const clq_optimizer *main, const clq_update_options *options);
#define CLQ_NO_OFFSET SIZE_MAX /* of a variable of another stage */
typedef enum clq_arena { CLQ_ARENA_PARAMETERS, CLQ_ARENA_STATE, CLQ_ARENA_GRADIENT } clq_arena;

/* All zero. update NULL: no gradient and no optimizer slots. Errors: STATE (the model is not finished), UNSUPPORTED
 * (the device aligns buffers to more, or variables of one arena differ in type), ARGUMENT (more parameters than
 * memory), DEVICE_MEMORY, MEMORY. */
clq_status clq_weights_create(const clq_model *model, clq_device *device, const clq_optimizer *update,
                              clq_weights **out);
/* Which part of a model's variables and optimizer slots weights hold. All zero: everything. */
typedef struct clq_holding {
    const clq_stage *stage;     /* the variables of a stage, which is copied; NULL: of the whole model */
    const clq_slicing *slicing; /* the slices of rank `rank`, which are copied; NULL: all of each variable */
    unsigned rank;
    /* The arenas are seen as `parts` equal parts, and padded where they do not divide evenly; variables lie where they
     * lie without parts. Only part number `part` has optimizer slots, and updates change only that part (stage 1 of
     * Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", 2020). parts 0: no
     * parts. */
    unsigned part, parts;
    const clq_update_options *options; /* of the updates that they are made for; NULL: none */
} clq_holding;
clq_status clq_weights_create_holding(const clq_model *model, clq_device *device, const clq_optimizer *update,
                                      const clq_holding *holding, clq_weights **out);
/* The range of bytes of the arenas that updates change: all, or the part of the holding. */
void clq_weights_part(const clq_weights *weights, size_t *begin, size_t *end);
void clq_weights_destroy(clq_weights *weights); /* takes NULL; after the plans over them */
/* NULL where there is none: no update, no state. Good until clq_weights_turn. */
clq_buffer *clq_weights_arena(const clq_weights *weights, clq_arena arena);
size_t clq_weights_arena_bytes(const clq_weights *weights, clq_arena arena); /* of STATE 0 where there is none */
/* Bytes into the arena of its role; CLQ_NO_OFFSET: another stage has it. */
size_t clq_weights_offset(const clq_weights *weights, size_t variable);
/* (count) what follows updates of their variables, of weights that are updated; they outlive it. */
const clq_held *clq_weights_held(const clq_weights *weights, size_t *count);
clq_arena clq_variable_arena(const clq_variable *variable); /* PARAMETERS or STATE */
/* The slice of a variable that the weights hold; its bytes lie at the variable's offset, in the variable's order. */
clq_weight_slice clq_weights_slice(const clq_weights *weights, size_t variable);
size_t clq_weights_variable_bytes(const clq_weights *weights, size_t variable);
/* Bytes of the trainable variables that are whole, which come first. */
size_t clq_weights_whole_bytes(const clq_weights *weights);
/* Of all values of the arena; of GRADIENT and of the optimizer's slots that of PARAMETERS. */
clq_dtype clq_weights_dtype(const clq_weights *weights, clq_arena arena);
/* First values of all variables of arena PARAMETERS or STATE, into its copy on the host, which is zero. Errors: MEMORY.
 */
clq_status clq_weights_initial_values(const clq_weights *weights, clq_arena arena, uint64_t seed, void *out);
/* The state of the loss scale (CLQ_SCALING_INTS of i32); NULL: losses are not scaled. */
clq_buffer *clq_weights_scaling(const clq_weights *weights);
unsigned clq_weights_optimizer_slots(const clq_weights *weights);
clq_buffer *clq_weights_optimizer_slot(const clq_weights *weights, unsigned slot); /* as large as what is updated */
/* Bytes of the unsynchronized state, which comes first: each replica has values of its own there. The state behind it
 * is the same on all replicas. */
size_t clq_weights_apart_bytes(const clq_weights *weights);
/* Divides the unsynchronized state, summed over so many replicas, by their number. Another number than in the call
 * before waits for the queue. */
clq_status clq_weights_mean_state(clq_weights *weights, clq_queue *queue, unsigned replicas);
/* Parameters = share * parameters, before a sum over replicas that makes a weighted mean of them. Not of weights that
 * turn. */
clq_status clq_weights_weigh(clq_weights *weights, clq_queue *queue, float share);
/* Hashes of the blocks of CLQ_VARIABLE_ALIGN bytes of arena PARAMETERS or STATE (clq_block_hashes), each computed by
 * the device; out: clq_weights_blocks of them. Waits for the queue. */
size_t clq_weights_blocks(const clq_weights *weights, clq_arena arena);
clq_status clq_weights_hash(clq_weights *weights, clq_queue *queue, clq_arena arena, uint64_t *out);
/* The arenas of parameters and gradient change places, with what is in them; plans follow when they run next. */
void clq_weights_turn(clq_weights *weights);

bool clq_shape_equal(const clq_shape *a, const clq_shape *b); /* (model.c) */

#endif
