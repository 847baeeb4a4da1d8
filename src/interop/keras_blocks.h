/* Blocks: layers that Clique writes down as models made of simpler layers. What writes the layers is in
 * keras_block_writer.c, functions of keras.ops in keras_ops.c, and blocks of keras_hub in keras_hub.c and
 * keras_hub_*.c, a file for each kind of model. */
#ifndef CLQ_INTEROP_KERAS_BLOCKS_H
#define CLQ_INTEROP_KERAS_BLOCKS_H

#include "interop/keras.h"

#define CLQ_LAYERS "keras.layers"
#define CLQ_NUMPY "keras.src.ops.numpy"
#define CLQ_NN "keras.src.ops.nn"
#define CLQ_HUB "keras_hub.src."

typedef struct clq_block_writer {
    const clq_keras_block_use *use;
    json_t *config; /* the block's configuration; borrowed */
    json_t *layers;
    const char *path; /* of the block, for messages */
    clq_status status;
    const char *output[CLQ_BLOCK_OUTPUTS_MAX + 1]; /* names of the layers that give its outputs; NULL after the last */
    char given[CLQ_LAYER_NAME_MAX];                /* the name of the first of these */
    const char *masked; /* the input or layer whose mask the output has; NULL: the output has no mask */
} clq_block_writer;

#define CLQ_FROM(...) ((const char *const[]){__VA_ARGS__, NULL})
void clq_block_refuse(clq_block_writer *w, const char *key, const char *format, ...);
json_t *clq_block_refer(const char *layer, int output);
void clq_block_add(clq_block_writer *w, const char *module, const char *class_name, const char *name, json_t *config,
                   json_t *keywords, const char *const *inputs);
void clq_block_add_of_list(clq_block_writer *w, const char *class_name, const char *name, json_t *config,
                           const char *const *inputs);
/* clq_block_use_again adds one more call of a layer, with the same weights. clq_block_read_again makes the last layer
 * read the output of such a second call in place of the first's. */
void clq_block_use_again(clq_block_writer *w, const char *name, const char *input);
void clq_block_read_again(clq_block_writer *w);
/* Sets an attribute of the last layer; takes value. */
void clq_block_set(clq_block_writer *w, const char *key, json_t *value);
/* Adds an argument, or a keyword, to the last layer's call; takes it. */
void clq_block_append_argument(clq_block_writer *w, json_t *argument);
void clq_block_set_keyword(clq_block_writer *w, const char *key, json_t *value);
/* Notes what Keras's files of weights call the last layer within the block, if that is not the layer's name. */
void clq_block_note_store(clq_block_writer *w, const char *store);
/* Notes that the last layer stands for the block. It has the block's name, and its weights are where files of weights
 * have the block. */
void clq_block_note_itself(clq_block_writer *w);
json_t *clq_block_value_of(const clq_block_writer *w, const char *key);
json_t *clq_block_value_or(const clq_block_writer *w, const char *key, json_t *otherwise);
/* The activation that a key names; `otherwise` if the configuration lacks the key. Null means linear, as in Keras. */
json_t *clq_block_take_activation(const clq_block_writer *w, const char *key, const char *otherwise);
long clq_block_whole(clq_block_writer *w, const char *key, long otherwise);
double clq_block_number(clq_block_writer *w, const char *key, double otherwise);
bool clq_block_flag(clq_block_writer *w, const char *key, bool otherwise);
const clq_shape *clq_block_shape_of(const clq_block_writer *w, unsigned input);
size_t clq_block_channels_of(clq_block_writer *w);
/* The channels of the first input. The key, if it is there, must repeat their number. */
size_t clq_block_same_channels(clq_block_writer *w, const char *key);
size_t clq_block_divide(clq_block_writer *w, size_t all, size_t parts, const char *key);
const char *const *clq_block_give(clq_block_writer *w, const char *name);
/* epsilon: if the block has no layer_norm_epsilon. clq_block_add_rms_of uses its epsilon in any case. */
void clq_block_add_norm_of(clq_block_writer *w, const char *name, double epsilon, const char *from);
void clq_block_add_rms_of(clq_block_writer *w, const char *name, double epsilon, const char *from);
void clq_block_add_norm(clq_block_writer *w, const char *name, const char *from);
void clq_block_add_rms(clq_block_writer *w, const char *name, const char *from);
void clq_block_add_dropout(clq_block_writer *w, const char *name, double rate, const char *from);
/* Takes activation. */
void clq_block_add_activation(clq_block_writer *w, const char *name, json_t *activation, const char *from);
void clq_block_add_sum(clq_block_writer *w, const char *name, const char *a, const char *b);
void clq_block_take_initializers(const clq_block_writer *w, json_t *config, bool bias);
json_t *clq_block_dense_config(const clq_block_writer *w, size_t units, json_t *activation, bool bias);
void clq_block_add_dense(clq_block_writer *w, const char *name, size_t units, json_t *activation, bool bias,
                         const char *from);
void clq_block_add_attention(clq_block_writer *w, const char *name, size_t heads, size_t key, double dropout,
                             json_t *keywords, const char *query, const char *value);
/* Adds learned rows, which are the same for each sample; takes the initializer. behind_one: the variable has an axis of
 * size 1 in front. */
void clq_block_add_learned(clq_block_writer *w, const char *name, size_t rows, size_t channels, bool behind_one,
                           json_t *initializer, const char *from);
json_t *clq_block_normal(double deviation); /* an initializer */
void clq_block_add_pairs(clq_block_writer *w, const char *name, const char *mask);
bool clq_block_is_given(const clq_block_writer *w, unsigned input);
json_t *clq_block_mask_keyword(const clq_block_writer *w, unsigned input, const char *key, const char *mask);
bool clq_block_keyword_flag(const clq_block_writer *w, const char *key, bool otherwise); /* a keyword of the call */

/* ---- parts of attention by heads ---- */

/* Maps (tokens, channels) to (tokens, heads, width) by an EinsumDense of this equation. bias: the bias's axes; NULL:
 * there is no bias. */
void clq_block_add_heads(clq_block_writer *w, const char *name, const char *equation, size_t heads, size_t width,
                         const char *bias, const char *from);
void clq_block_add_rotary(clq_block_writer *w, const char *name, double wavelength, double factor, const char *from);
/* Whether input number `input`, which the call must give, carries a mask. If it does not, the written block is only for
 * calls in which it carries none. */
bool clq_block_has_mask(const clq_block_writer *w, unsigned input);
/* Refuses a first input that carries a mask. Keras would take that mask in place of the argument `mask` if a call
 * leaves out the argument. */
void clq_block_refuse_carried(clq_block_writer *w, const char *mask);
/* Gives the second input, a padding mask, the shape (1, 1, tokens) that attention takes. NULL: the call has no such
 * input. In any case refuses a mask that the first input carries (clq_block_refuse_carried). */
const char *clq_block_add_mask(clq_block_writer *w, const char *mask);
/* Adds a causal attention; takes config. */
void clq_block_add_attended(clq_block_writer *w, json_t *config, const char *mask, const char *query, const char *key,
                            const char *value);
/* Adds a slice: channels [first, end) of each head. */
void clq_block_take_channels(clq_block_writer *w, const char *name, size_t first, size_t end, const char *from);
/* Reshapes (tokens) to (tokens, 1, 1), by way of the layer `between`. */
void clq_block_add_by_head(clq_block_writer *w, const char *name, const char *between, const char *from);
/* Adds the layer "tokens", a one for each token of x, and the layer "counts", their running sums: 1, 2, 3, … */
void clq_block_count_tokens(clq_block_writer *w, const char *x);
/* The attention window that a key asks for, in tokens; `otherwise` if it is missing or null. 0: no window. Refuses 0 in
 * a file. */
size_t clq_block_take_window(clq_block_writer *w, const char *key, long otherwise);

/* A kind of block. */
typedef struct clq_block_row {
    const char *module; /* the module of its class; NULL: keras.layers */
    const char *class_name;
    const char *const *names; /* of its inputs, in order; NULL after the last */
    const char *keys; /* of its configuration, besides those of all layers, with spaces between them; NULL: the layer
                         itself gets all keys and checks them (add_itself) */
    const char *const *(*write)(clq_block_writer *w); /* gives clq_block_writer.output; NULL: it refused the block */
    const char *flags;    /* keywords of its calls that are true or false, with spaces between them; NULL: none */
    bool takes_arguments; /* its calls may have arguments that are not tensors (clq_keras_block_use.arguments) */
    /* Whether a MultiHeadAttention within Keras's layer reads the first input itself, and so ends the input's mask.
     * NULL: no. */
    bool (*ends_mask)(json_t *config);
    bool (*of_config)(json_t *config); /* of a class that has a kind, too: whether a layer with this config is the
                                          block; NULL: all layers are */
} clq_block_row;
extern const char *const clq_block_inputs_names[]; /* of a block with one input, "inputs" */
#define CLQ_BLOCK_ROW(in_module, of_class, its_names, its_keys, function)                                              \
    { .module = (in_module), .class_name = (of_class), .names = (its_names), .keys = its_keys, .write = (function) }
#define CLQ_BLOCK_END                                                                                                  \
    { .class_name = NULL }
/* The rows of Keras's functions (keras_ops.c), of layers whose axes are not the last ones (keras_axes.c), and of
 * keras_hub. A row without a class name ends each table. */
extern const clq_block_row clq_keras_ops[], clq_keras_axes[], clq_hub_blocks[], clq_hub_decoders[], clq_hub_rotary[],
    clq_hub_relative[], clq_hub_vision[], clq_hub_pairs[], clq_hub_images[];

#endif
