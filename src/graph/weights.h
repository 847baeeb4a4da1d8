/* A model, its stages, slices of its variables, and weights on a device. A part of graph.h, which includes it. */
#ifndef CLQ_GRAPH_WEIGHTS_H
#define CLQ_GRAPH_WEIGHTS_H

#include "graph/layer_rows.h"
#include "graph/properties/properties.h"

/* ---- the model (model.c, variables.c, layers/, named/) ---- */

/* clq_model_is_file: whether a user's word for a model is the path of a file, and not the name of a built-in model.
 * clq_model_path: this path, or NULL. */
bool clq_model_is_file(const char *word);
const char *clq_model_path(const char *word);

enum { CLQ_LAYER_NAME_MAX = 128, CLQ_MARKS_MAX = 63 };

/* A layer: its settings and its variables. If it is applied to several tensors, it is shared. */
struct clq_layer {
    const clq_layer_kind *kind;
    char name[CLQ_LAYER_NAME_MAX];
    bool named;           /* true: the model's maker gave the name. false: the model made it from the kind */
    uint32_t made_before; /* of a made name: how many layers of the kind had made names before */
    void *config;         /* of the kind's type, checked. The model owns it. Of its texts, only COPY attributes stay
                             valid */
    uint32_t *variables;  /* (variable_places) of each variable, by the kind's number for it, its index + 1; 0: none.
                             The model owns it */
    size_t variable_places;
    clq_shape made_for, applied_to; /* shapes of its first input when it was first applied, and last */
    bool frozen;                    /* clq_freeze: its variables are fixed, and it works as in evaluation */
    bool of_mask;                   /* it computes the mask of another layer, which added it */
    char *path;                     /* of a layer from a Keras file: its path in files of weights. NULL: not known. The
                                       model owns it */
    /* A layer of a block may have another name in files of weights than here. This is its path there, behind the
     * block's path. It is used if `path` is not known. The first block_bytes bytes of the layer's name are the block's
     * name. NULL: none. The model owns it. */
    char *block_store;
    size_t block_bytes;
    char *place; /* of a layer from a Keras file: its number in config.layers. In a model within the model, it is
                    several numbers with '/' between. In a block, it is the block's place. NULL: it has none. The model
                    owns it */
};

#define CLQ_MASK_DROPPED UINT32_MAX
/* A tensor of the model: the output of a layer for certain inputs. */
struct clq_model_tensor {
    uint32_t layer;                    /* id */
    uint32_t first_input, input_count; /* range of the model's `inputs` */
    clq_dtype dtype;                   /* always f32 */
    bool recompute;                    /* clq_recompute: its value is not kept for backward */
    bool whole;                        /* all its values are known to be whole numbers */
    clq_shape shape;                   /* without the batch */
    size_t elements;                   /* product of shape; of rank 0: 1 */
    uint32_t mask; /* id of the mask: the tensor that says which steps count. 0: all steps count. In a finished model
                      CLQ_MASK_DROPPED, if neither a layer nor a loss reads the mask */
    uint32_t made_mask; /* the mask that the layer's kind made of its inputs' masks. The same as `mask`, unless
                           clq_keep_mask changed that */
};

/* Who changes a variable. */
typedef enum clq_role {
    CLQ_ROLE_TRAINABLE, /* the optimizer, by its gradient */
    CLQ_ROLE_STATE      /* the forward pass, as for moving statistics; or nobody. The variable has no gradient */
} clq_role;
struct clq_variable {
    char name[CLQ_LAYER_NAME_MAX + 32]; /* "conv2d/kernel" */
    clq_dtype dtype;                    /* type as it is stored. Operations take only f32 */
    clq_shape shape;
    size_t elements, fan_in, fan_out;
    bool is_bias;
    clq_role role;
    clq_initialiser initialiser;
    clq_properties properties;
    size_t ones[2]; /* values [ones[0], ones[1]) are 1 at first, whatever the initialiser */
    /* Sets the variable's first values in place of the initialiser, by the shape and by `fill_by`, a number that the
     * layer chose. NULL: the initialiser sets them. */
    void (*fill)(const clq_variable *variable, float *out);
    unsigned fill_by;
    bool decay;        /* weight decay applies to it */
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
    clq_model_tensor *tensors; /* id - 1 is the index (clq_tensor.id). A tensor stands behind its inputs */
    uint32_t tensor_count;
    uint32_t *inputs; /* ids of the tensors that each tensor is computed from */
    uint32_t input_total;
    clq_variable *variables; /* in the order of the layers */
    uint32_t variable_count;
    size_t layer_capacity, tensor_capacity, input_capacity, variable_capacity;
    uint32_t input; /* id of a tensor */
    uint32_t outputs[CLQ_MODEL_OUTPUTS_MAX], output_count;
    size_t decodes;  /* of a model that decodes (decode.c): tokens that a text can have; a sample is one token. 0: the
                        model does not decode */
    bool recomputes; /* some tensor is marked for recomputation */
    uint32_t marks[CLQ_MARKS_MAX], mark_count; /* ids of tensors behind which pipelines cut, ascending */
    bool finished;
    clq_error error;    /* the builder's first failure */
    char *keras_config; /* text of the Keras file that the model was read from, or prepared for. NULL: there is none.
                           The model owns it */
};

/* Computes the first values of variable `index` of a model by its initialiser, which was checked. out: (elements). Each
 * variable has its own stream of random numbers, so the values of a layer do not depend on other layers. Errors:
 * MEMORY. */
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
/* How many rows a layer's table has, if the layer's input is row numbers. 0: the input is not row numbers. */
size_t clq_layer_rows(const clq_layer *layer);
/* How many of `count` inputs of a use of the layer are positional. Inputs that keywords give stand behind them.
 * (model.c) */
size_t clq_layer_positional(const clq_layer *layer, size_t count);
/* By what samples of bytes are multiplied on their way into the model: 1 or 1 / 255. Errors: MEMORY.
 * (layers/input.c) */
clq_status clq_model_byte_factor(const clq_model *model, float *out);
/* Values of a sample that a layer takes for row numbers. */
typedef struct clq_tokens {
    size_t first, count;
    size_t rows;
    uint32_t layer; /* its index */
} clq_tokens;
/* Finds the row numbers of the layer that makes tensor `index`. false: the layer takes no row numbers, or they are not
 * the sample's own values. */
bool clq_model_tokens(const clq_model *model, uint32_t index, clq_tokens *out);
/* The input, or the part of the input, that has the same values as x, perhaps in other places. NULL: x has other
 * values. */
const clq_model_tensor *clq_model_find_own(const clq_model *model, const clq_model_tensor *x);
/* Whether all values of a tensor are indices that a TopK found along an axis of at most `size` places, perhaps moved.
 * (layers/top_k.c) */
bool clq_model_has_places(const clq_model *model, clq_tensor tensor, size_t size);
const clq_model_tensor *clq_model_input(const clq_model *model);
const clq_model_tensor *clq_model_output(const clq_model *model, size_t index);
const char *clq_model_tensor_name(const clq_model *model, const clq_model_tensor *tensor); /* its layer's */

/* Adds a key for results that are kept of a model. Two models have the same key only if their plans compute alike. */
void clq_model_add_key(const clq_model *model, clq_text *to);
/* As clq_input, with a name for the layer (NULL: made). */
clq_tensor clq_model_add_input(clq_model *model, clq_shape shape, const char *name);
/* Applies a layer once more, which was added before, by its id. All uses share its variables. */
clq_tensor clq_model_apply_again(clq_model *model, uint32_t layer, const clq_tensor *inputs, size_t count);

/* ---- one token after another (decode.c) ---- */

/* Makes a model that decodes from a finished model that takes (context) tokens and gives (context, n). The new model
 * takes one token: a sample is the token's number and its place, and the output is (1, n). Its variables have the names
 * and shapes of the first model's. Attention keeps keys and values of the tokens so far in further variables, of state.
 * So plans over the same weights continue the same text. The caller destroys *out. Errors: UNSUPPORTED names the layer
 * that does not permit this; MEMORY. */
clq_status clq_model_decoding(const clq_model *model, clq_model **out);
/* Whether the model's first output is probabilities: a softmax over the last axis, perhaps in another shape. Errors:
 * MEMORY. */
clq_status clq_model_gives_probabilities(const clq_model *model, bool *out);
/* ---- where Keras's files have variables (stores.c) ---- */

/* What Keras makes of a class's name: "batch_normalization" of BatchNormalization. */
void clq_store_name(const char *class_name, clq_text *to);
/* Notes where a Keras file's layer, which gives x, is in files of weights (`path`, "layers/dense_1"), and in the file's
 * text (`place`, as of clq_layer). Copies both. NULL: keeps what was noted before. Errors: MEMORY. */
clq_status clq_model_note_path(clq_model *model, clq_tensor x, const char *path, const char *place);
/* The same for clq_layer.block_store. block: the block's name. */
clq_status clq_model_note_block_store(clq_model *model, clq_tensor x, const char *block, const char *store);
typedef struct clq_stores {
    char **paths; /* (count) paths of variables: "layers/dense_1/vars/0"; NULL: not known */
    uint32_t count;
    char **zeros; /* (zero_count) paths of whole numbers that Keras stores beside the variables. They mean nothing, and
                     are 0 */
    size_t zero_count;
} clq_stores;
/* Finds the paths for a finished model. Errors: MEMORY. */
clq_status clq_model_stores(const clq_model *model, clq_stores *out);
void clq_stores_release(clq_stores *stores);
/* The path of a variable. path: that of its layer. The caller frees the result. NULL: out of memory. */
char *clq_variable_store(const clq_layer *layer, uint32_t variable, const char *path);

/* ---- stages (stage.c) ----
 * A stage is a part of a model, with plans and weights of its own. Stages lie one behind the other. Things in a stage
 * keep their identity in the whole model: indices of variables and outputs, names, and the random numbers of
 * dropout. */

enum { CLQ_CROSSINGS_MAX = 16 };
/* A place between two neighbouring tensors of a finished model, in the model's order. A tensor crosses the cut if it is
 * made in front of the cut and read behind it, even if it only passes through the next stages. */
typedef struct clq_cut {
    uint32_t at; /* id of the first tensor behind the cut */
    unsigned count;
    uint32_t tensors[CLQ_CROSSINGS_MAX]; /* ids of the tensors that cross, ascending */
    bool trained[CLQ_CROSSINGS_MAX];     /* the tensor depends on a trainable variable: its gradient crosses back */
} clq_cut;
/* Tensors [before.at, after.at). No tensor crosses the cut in front of tensor 1, or the one behind the last. */
typedef struct clq_stage {
    clq_cut before, after;
} clq_stage;
/* Finds all valid cuts, first to last. A cut is valid if there is at least one layer on each side, no layer is applied
 * on both sides, and at most CLQ_CROSSINGS_MAX tensors cross. There may be none. The caller frees *out with
 * clq_free. */
clq_status clq_model_cuts(const clq_model *model, clq_cut **out, size_t *count);
/* Bytes of one sample that cross: values, or the gradients that cross back. */
size_t clq_cut_bytes(const clq_model *model, const clq_cut *cut, bool gradients);
/* stage NULL: the whole model. */
bool clq_stage_has_tensor(const clq_stage *stage, uint32_t id);
bool clq_stage_has_variable(const clq_stage *stage, const clq_model *model, uint32_t variable);

/* ---- slices of variables (slicing.c) ----
 * Ranks may split a model's weights in place of the batch (tensor parallelism; Shoeybi et al., "Megatron-LM", 2019). A
 * rank has a slice of the columns (units) of a kernel, and of its bias. The kernel is that of a Dense layer, or of
 * attention's queries, keys and values. The rank reads whole rows, and computes its units. From its units it computes
 * the operations that follow, as long as some units, or heads, are enough for them. This chain of operations ends at
 * another Dense layer, or at attention's output. There the rank has a slice of the kernel's rows (inputs), and computes
 * a summand of the output. In forward, ranks sum the summands. In backward, they sum the gradients of the whole rows.
 * If no such layer follows, the units are joined: ranks gather whole rows right behind the layer. An Embedding with
 * many rows is split by columns and joined. So are Dense layers, in a model without such chains. Every rank has all
 * other variables whole, and computes all other layers. */

/* A rank's part of a variable: indices [first, first + count) of one axis, and all of the other axes. */
typedef struct clq_weight_slice {
    unsigned axis;
    size_t first, count;
    bool joined; /* ranks gather the units that a layer computes with the slice to whole rows, right behind the layer */
    bool rows;   /* true: a slice of inputs, whatever its axis, with which ranks compute summands. false: a slice of
                    units */
} clq_weight_slice;
/* How the ranks split the variables of a model. */
typedef struct clq_slicing clq_slicing;
/* Splits units and heads as evenly as possible. A layer with fewer units or heads than ranks stays whole. The model
 * must outlive the slicing. Errors: ARGUMENT (the model has nothing that can be split), MEMORY. */
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
 * A model's variables on a device, and what training keeps beside them, in flat arenas. Any number of plans work on the
 * same weights, one at a time. Trainable variables lie in the arena of parameters, in the order in which backward
 * finishes their gradients. The arenas of the gradient and of the optimizer's slots have the same layout. Slices of
 * variables lie behind the variables that are whole, so whole variables lie at the same place on all ranks. State has
 * an arena of its own, in the model's order: first the state that each replica keeps for itself, then the state that is
 * the same on all replicas. Each variable is aligned to CLQ_VARIABLE_ALIGN bytes, the gaps are zero, and the layout is
 * the same on every device. */
enum { CLQ_VARIABLE_ALIGN = 512 };
/* How updates treat a variable, by the settings of a training. All zero: as the main optimizer says. */
typedef struct clq_treatment {
    uint8_t optimizer; /* number of its optimizer: 0 is the main one, 1 + i is others[i] */
    bool spared;       /* weight decay does not apply to it */
} clq_treatment;
/* What is done with gradients and parameters around the optimizer's rule. All zero: nothing. */
typedef struct clq_update_options {
    clq_clip clip;
    clq_loss_scaling scaling;
    bool averages;               /* a moving average of the parameters is kept, in one more optimizer slot, the last */
    const clq_optimizer *others; /* (other_count, less than CLQ_OPTIMIZERS_MAX) optimizers beside the main one */
    unsigned other_count;
    const clq_treatment *treatments; /* (variables); NULL: all zero */
} clq_update_options;
/* How many optimizer slots updates need: arenas beside parameters and gradient. And whether an optimizer has a trust
 * ratio. (runs.c) */
unsigned clq_update_slots(const clq_optimizer *main, const clq_update_options *options);
bool clq_updates_have_trust_ratios(const clq_optimizer *main, const clq_update_options *options);
#define CLQ_NO_OFFSET SIZE_MAX /* the offset of a variable of another stage */
typedef enum clq_arena { CLQ_ARENA_PARAMETERS, CLQ_ARENA_STATE, CLQ_ARENA_GRADIENT } clq_arena;

/* Makes weights that are all zero. update NULL: they have no gradient and no optimizer slots. Errors: STATE (the model
 * is not finished), UNSUPPORTED (the device aligns buffers to more, or variables of one arena differ in type), ARGUMENT
 * (more parameters than memory), DEVICE_MEMORY, MEMORY. */
clq_status clq_weights_create(const clq_model *model, clq_device *device, const clq_optimizer *update,
                              clq_weights **out);
/* Which part of a model's variables and optimizer slots weights hold. All zero: everything. */
typedef struct clq_holding {
    const clq_stage *stage;     /* the variables of a stage, which is copied; NULL: of the whole model */
    const clq_slicing *slicing; /* the slices of rank `rank`, which are copied; NULL: all of each variable */
    unsigned rank;
    /* The arenas consist of `parts` equal parts. If they do not divide evenly, they are padded at the end; variables
     * stay where they are. Only part number `part` has optimizer slots, and updates change only this part (stage 1 of
     * Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", 2020). parts 0: no
     * parts. */
    unsigned part, parts;
    const clq_update_options *options; /* of the updates that the weights are made for; NULL: none */
} clq_holding;
clq_status clq_weights_create_holding(const clq_model *model, clq_device *device, const clq_optimizer *update,
                                      const clq_holding *holding, clq_weights **out);
/* The range of bytes of the arenas that updates change: all, or the part of the holding. */
void clq_weights_part(const clq_weights *weights, size_t *begin, size_t *end);
void clq_weights_destroy(clq_weights *weights); /* takes NULL; after the plans over them */
/* NULL: there is no such arena, as without update or state. Valid until clq_weights_turn. */
clq_buffer *clq_weights_arena(const clq_weights *weights, clq_arena arena);
size_t clq_weights_arena_bytes(const clq_weights *weights, clq_arena arena); /* of STATE 0 if there is none */
/* The offset of a variable in the arena of its role, in bytes. CLQ_NO_OFFSET: another stage has the variable. */
size_t clq_weights_offset(const clq_weights *weights, size_t variable);
/* (count) the variables whose updates something follows, as a constraint. The weights own the array */
const clq_held *clq_weights_held(const clq_weights *weights, size_t *count);
clq_arena clq_variable_arena(const clq_variable *variable); /* PARAMETERS or STATE */
/* The slice of a variable that the weights hold; its bytes lie at the variable's offset, in the variable's order. */
clq_weight_slice clq_weights_slice(const clq_weights *weights, size_t variable);
size_t clq_weights_variable_bytes(const clq_weights *weights, size_t variable);
/* Bytes of the trainable variables that are whole, which come first. */
size_t clq_weights_whole_bytes(const clq_weights *weights);
/* The type of all values of the arena. GRADIENT and the optimizer's slots have that of PARAMETERS. */
clq_dtype clq_weights_dtype(const clq_weights *weights, clq_arena arena);
/* Writes the first values of all variables of arena PARAMETERS or STATE to `out`, a copy of the arena on the host,
 * which is zero before. Errors: MEMORY. */
clq_status clq_weights_initial_values(const clq_weights *weights, clq_arena arena, uint64_t seed, void *out);
/* The state of the loss scale (CLQ_SCALING_INTS of i32); NULL: losses are not scaled. */
clq_buffer *clq_weights_scaling(const clq_weights *weights);
unsigned clq_weights_optimizer_slots(const clq_weights *weights);
clq_buffer *clq_weights_optimizer_slot(const clq_weights *weights, unsigned slot); /* as large as the part that is
                                                                                      updated */
/* Bytes of the unsynchronized state, which comes first: each replica has values of its own there. The state behind it
 * is the same on all replicas. */
size_t clq_weights_apart_bytes(const clq_weights *weights);
/* Divides the unsynchronized state, which was summed over so many replicas, by their number. If the number is another
 * one than in the call before, waits for the queue. */
clq_status clq_weights_mean_state(clq_weights *weights, clq_queue *queue, unsigned replicas);
/* Multiplies the parameters by `share`, so that a sum over replicas makes a weighted mean. The weights must never
 * turn. */
clq_status clq_weights_weigh(clq_weights *weights, clq_queue *queue, float share);
/* Computes a hash of each block of CLQ_VARIABLE_ALIGN bytes of arena PARAMETERS or STATE, on the device
 * (clq_block_hashes). out: clq_weights_blocks hashes. Waits for the queue. */
size_t clq_weights_blocks(const clq_weights *weights, clq_arena arena);
clq_status clq_weights_hash(clq_weights *weights, clq_queue *queue, clq_arena arena, uint64_t *out);
/* Swaps the arenas of parameters and gradient, with what is in them. Plans follow when they run next. */
void clq_weights_turn(clq_weights *weights);

bool clq_shape_equal(const clq_shape *a, const clq_shape *b); /* (model.c) */

#endif
