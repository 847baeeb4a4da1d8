/* How a layer's attributes are read and written: each type of attribute has a function for either (keras_attributes.c,
 * keras_arguments.c). */
#ifndef CLQ_INTEROP_KERAS_READING_H
#define CLQ_INTEROP_KERAS_READING_H

#include "interop/keras.h"

/* What a row is read from: the file's attributes, and the layer's first input. */
typedef struct clq_keras_reading {
    clq_keras_attributes *a;
    const clq_attribute *row;
    const clq_model_tensor *x;
} clq_keras_reading;

/* What a row is written with: the shape of the layer's first input. */
typedef struct clq_keras_writing {
    const clq_attribute *row;
    const clq_shape *x;
} clq_keras_writing;

/* How one type of attribute is read and written. */
typedef struct clq_keras_type {
    void (*read)(const clq_keras_reading *r, void *member);
    /* Gives the value for the file. JSON null: the file goes without the key. NULL: memory is out. A type without this
     * function is not written. */
    json_t *(*write)(const clq_keras_writing *w, const void *member);
    enum { CLQ_KERAS_IN_CONFIG, CLQ_KERAS_IN_KEYWORDS, CLQ_KERAS_IN_ARGUMENTS } home;
} clq_keras_type;
extern const clq_keras_type clq_keras_types[CLQ_ATTRIBUTE_TYPES];

/* The value of a row; NULL if the file has none. Refuses a missing value if the row says that it is needed. */
json_t *clq_keras_value(const clq_keras_reading *r);
/* Refuses a value: "path.key: VALUE should be WANTED". */
void clq_keras_unfit(const clq_keras_reading *r, const json_t *value, const char *wanted);
/* A value as the file has it, cut short, for messages. */
const char *clq_keras_quote(const json_t *value, char text[80]);
/* For a number or nested lists of numbers, where true and false are 1 and 0: counts the numbers; and copies them to
 * `to` from *at on, moving *at. False: something is no number. */
size_t clq_keras_count_numbers(const json_t *value);
bool clq_keras_take_numbers(const json_t *value, float *to, size_t *at);
bool clq_keras_is_count(const json_t *value, size_t *out); /* a whole number from 0 to INT32_MAX */
/* Reads a list of sizes. One of them may be -1, and becomes what the others leave of `elements`. False: it is no such
 * list. */
bool clq_keras_resolve_shape(const json_t *target, size_t elements, clq_shape *out);

/* The functions of clq_keras_types that are not in keras_attributes.c. */
void clq_keras_read_activation(const clq_keras_reading *r, void *member); /* (keras_activations.c) */
json_t *clq_keras_write_activation(const clq_keras_writing *w, const void *member);
void clq_keras_read_operand(const clq_keras_reading *r, void *member);
void clq_keras_read_argument(const clq_keras_reading *r, void *member);
void clq_keras_read_tensor(const clq_keras_reading *r, void *member);
void clq_keras_read_keyword_flag(const clq_keras_reading *r, void *member);
void clq_keras_read_keyword_number(const clq_keras_reading *r, void *member);
void clq_keras_read_places(const clq_keras_reading *r, void *member);
void clq_keras_read_batch_shape(const clq_keras_reading *r, void *member);
void clq_keras_read_order(const clq_keras_reading *r, void *member);
void clq_keras_read_open_shape(const clq_keras_reading *r, void *member);
void clq_keras_read_word(const clq_keras_reading *r, void *member);
void clq_keras_read_choice(const clq_keras_reading *r, void *member);
void clq_keras_read_pads(const clq_keras_reading *r, void *member);
void clq_keras_read_range(const clq_keras_reading *r, void *member);
void clq_keras_read_sections(const clq_keras_reading *r, void *member);
void clq_keras_read_axis_pair(const clq_keras_reading *r, void *member);

/* Appends the shape's sizes to the list, and takes the list. */
json_t *clq_keras_write_dims(json_t *list, const clq_shape *shape);
json_t *clq_keras_write_axis(int axis); /* as files count axes, the batch being axis 0 */
json_t *clq_keras_write_initialiser(const clq_keras_writing *w, const void *member);
json_t *clq_keras_write_operand(const clq_keras_writing *w, const void *member);
json_t *clq_keras_write_keyword_flag(const clq_keras_writing *w, const void *member);
json_t *clq_keras_write_keyword_number(const clq_keras_writing *w, const void *member);
json_t *clq_keras_write_places(const clq_keras_writing *w, const void *member);
json_t *clq_keras_write_batch_shape(const clq_keras_writing *w, const void *member);
json_t *clq_keras_write_order(const clq_keras_writing *w, const void *member);
json_t *clq_keras_write_open_shape(const clq_keras_writing *w, const void *member);
json_t *clq_keras_write_word(const clq_keras_writing *w, const void *member);
json_t *clq_keras_write_choice(const clq_keras_writing *w, const void *member);
json_t *clq_keras_write_pads(const clq_keras_writing *w, const void *member);
json_t *clq_keras_write_range(const clq_keras_writing *w, const void *member);
json_t *clq_keras_write_sections(const clq_keras_writing *w, const void *member);
json_t *clq_keras_write_axis_pair(const clq_keras_writing *w, const void *member);

/* Puts the layers of a Functional model into the order in which Keras lists them. outputs: the model's output_layers.
 * *out: a new list, the caller's. Errors: MEMORY. (keras_order.c) */
clq_status clq_keras_arrange(json_t *layers, json_t *outputs, json_t **out);
/* Writes the text of the file that clq_model_write_keras_json writes; and reads a model from such a text. The model
 * keeps the text, so that the text can be written back. where: what messages call the text. (keras_writer.c,
 * keras_json.c) */
clq_status clq_keras_write_text(const clq_model *model, clq_text *text);
clq_status clq_keras_read_text(const char *text, size_t bytes, const clq_keras_sizes *given, const char *where,
                               clq_model **out);

#endif
