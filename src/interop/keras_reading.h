/* How rows of attributes are read and written: by type, a function each (keras_attributes.c, keras_arguments.c). */
#ifndef CLQ_INTEROP_KERAS_READING_H
#define CLQ_INTEROP_KERAS_READING_H

#include "interop/keras.h"

/* What a row is read with: the file's attributes, and the layer's first input. */
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

/* A type of attributes. */
typedef struct clq_keras_type {
    void (*read)(const clq_keras_reading *r, void *member);
    /* The value that a file has; null: the file goes without it. Gives NULL if memory is out. No function: files go
     * without such values. */
    json_t *(*write)(const clq_keras_writing *w, const void *member);
    enum { CLQ_KERAS_IN_CONFIG, CLQ_KERAS_IN_KEYWORDS, CLQ_KERAS_IN_ARGUMENTS } home;
} clq_keras_type;
extern const clq_keras_type clq_keras_types[CLQ_ATTRIBUTE_TYPES];

/* The value of a row; NULL if the file has none, and then what the row says of that is done. */
json_t *clq_keras_value(const clq_keras_reading *r);
/* Refuses a value: "path.key: VALUE should be WANTED". */
void clq_keras_unfit(const clq_keras_reading *r, const json_t *value, const char *wanted);
/* A value as the file has it, cut short, for messages. */
const char *clq_keras_quote(const json_t *value, char text[80]);
/* Of a number, or lists of them: how many; and whether they are all numbers, which go to to[*at …]. */
size_t clq_keras_count_numbers(const json_t *value);
bool clq_keras_take_numbers(const json_t *value, float *to, size_t *at);
bool clq_keras_is_count(const json_t *value, size_t *out); /* a whole number from 0 on */
/* Sizes, of which one may be -1: what the others leave of so many elements. */
bool clq_keras_resolve_shape(const json_t *target, size_t elements, clq_shape *out);

/* Of types of attributes. */
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

/* The list, which is taken, with the shape's sizes behind what it has. */
json_t *clq_keras_write_dims(json_t *list, const clq_shape *shape);
json_t *clq_keras_write_axis(int axis); /* as files count it */
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

/* The layers of a Functional model in the order that Keras gives them; outputs: its output_layers. The caller's list.
 * Errors: MEMORY. (keras_order.c) */
clq_status clq_keras_arrange(json_t *layers, json_t *outputs, json_t **out);
/* The text of the file that clq_model_write_keras_json writes; and a model of such a text, which stays with it so that
 * it can be written back. where: what messages call it. (keras_writer.c, keras_json.c) */
clq_status clq_keras_write_text(const clq_model *model, clq_text *text);
clq_status clq_keras_read_text(const char *text, size_t bytes, const clq_keras_sizes *given, const char *where,
                               clq_model **out);

#endif
