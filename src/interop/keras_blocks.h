/* Layers that are made of others, written down as models within the model: what writes them (keras_block_writer.c), and
 * the blocks of keras_hub (keras_hub.c, keras_hub_decoders.c, keras_hub_vision.c). */
#ifndef CLQ_INTEROP_KERAS_BLOCKS_H
#define CLQ_INTEROP_KERAS_BLOCKS_H

#include "interop/keras.h"

#define CLQ_LAYERS "keras.layers"
#define CLQ_NUMPY "keras.src.ops.numpy"
#define CLQ_NN "keras.src.ops.nn"
#define CLQ_HUB "keras_hub.src."

typedef struct clq_block_writer {
    const clq_keras_block_use *use;
    json_t *config; /* the block's; borrowed */
    json_t *layers;
    const char *path; /* of the block, for messages */
    clq_status status;
    const char *output[2];
    const char *masked; /* the input or layer whose mask the output has; NULL: it has none */
} clq_block_writer;

#define CLQ_FROM(...) ((const char *const[]){__VA_ARGS__, NULL})
void clq_block_refuse(clq_block_writer *w, const char *key, const char *format, ...);
json_t *clq_block_refer(const char *layer, int output);
void clq_block_add(clq_block_writer *w, const char *module, const char *class_name, const char *name, json_t *config,
                   json_t *keywords, const char *const *inputs);
void clq_block_add_of_list(clq_block_writer *w, const char *class_name, const char *name, json_t *config,
                           const char *const *inputs);
json_t *clq_block_value_of(const clq_block_writer *w, const char *key);
json_t *clq_block_value_or(const clq_block_writer *w, const char *key, json_t *otherwise);
long clq_block_whole(clq_block_writer *w, const char *key, long otherwise);
double clq_block_number(clq_block_writer *w, const char *key, double otherwise);
bool clq_block_flag(clq_block_writer *w, const char *key, bool otherwise);
const clq_shape *clq_block_shape_of(const clq_block_writer *w, unsigned input);
size_t clq_block_channels_of(clq_block_writer *w);
size_t clq_block_divide(clq_block_writer *w, size_t all, size_t parts, const char *key);
const char *const *clq_block_give(clq_block_writer *w, const char *name);
void clq_block_add_norm(clq_block_writer *w, const char *name, const char *from);
void clq_block_add_rms(clq_block_writer *w, const char *name, const char *from);
void clq_block_add_dropout(clq_block_writer *w, const char *name, double rate, const char *from);
void clq_block_add_sum(clq_block_writer *w, const char *name, const char *a, const char *b);
void clq_block_take_initializers(const clq_block_writer *w, json_t *config, bool bias);
json_t *clq_block_dense_config(const clq_block_writer *w, size_t units, json_t *activation, bool bias);
void clq_block_add_dense(clq_block_writer *w, const char *name, size_t units, json_t *activation, bool bias,
                         const char *from);
void clq_block_add_attention(clq_block_writer *w, const char *name, size_t heads, size_t key, double dropout,
                             json_t *keywords, const char *query, const char *value);
void clq_block_add_pairs(clq_block_writer *w, const char *name, const char *mask);
bool clq_block_is_given(const clq_block_writer *w, unsigned input);
json_t *clq_block_mask_keyword(const clq_block_writer *w, unsigned input, const char *key, const char *mask);

/* A kind of block. */
typedef struct clq_block_row {
    const char *module; /* NULL: Keras's layers */
    const char *class_name;
    const char *const *names; /* of what it is applied to, in order */
    const char *const *keys;  /* of its configuration, beside name, dtype and trainable */
    const char *const *(*write)(
        clq_block_writer *w); /* names of the layers that give its outputs; NULL: it was refused */
} clq_block_row;
/* Those of keras_hub; behind the last, one without names. */
extern const clq_block_row clq_hub_blocks[], clq_hub_decoders[], clq_hub_vision[];

#endif
