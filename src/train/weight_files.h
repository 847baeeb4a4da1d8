/* Files of weights: which tensor of a file is which variable of a model. Private to train. */
#ifndef CLQ_TRAIN_WEIGHT_FILES_H
#define CLQ_TRAIN_WEIGHT_FILES_H

#include "train/trainer.h"

/* All variables in the host's memory, one after the other (weights.c). Start with {0}, release in any case. */
typedef struct clq_image {
    float *values;
    size_t *first; /* by variable: where it begins in `values` */
} clq_image;
clq_status clq_image_open(const clq_model *model, clq_image *out);
void clq_image_release(clq_image *all);
static inline float *clq_image_of(const clq_image *all, uint32_t variable) {
    return all->values + all->first[variable];
}

/* ---- name maps (weight_map.c) ---- */

/* The order of axes in another library's tensors: axis d of the variable is the tensor's axis axes[d]. */
typedef struct clq_axis_order {
    const char *word;
    unsigned rank;
    unsigned char axes[5];
} clq_axis_order;
/* A line of a name map, such as "theirs -> ours oihw reshaped". */
typedef struct clq_map_line {
    char *theirs, *ours;         /* owned; ours NULL: these tensors are left out */
    const clq_axis_order *order; /* NULL: the axes stay as they are */
    bool reshaped;               /* the shape may differ if the number of values is the same; their order stays */
    size_t number;               /* of the line in the file, from 1 */
} clq_map_line;
typedef struct clq_weight_map {
    const char *path; /* borrowed */
    clq_map_line *lines;
    size_t count, capacity;
} clq_weight_map;
/* Start with {0}, release in any case. Errors: NOT_FOUND, READ, FORMAT (names the line), MEMORY. */
clq_status clq_weight_map_read(const char *path, clq_weight_map *out);
void clq_weight_map_release(clq_weight_map *map);
/* Whether the line matches tensors of this name. The first line that matches counts. */
bool clq_map_line_names(const clq_map_line *line, const char *theirs);
/* Finds the first line that matches a tensor. *line: NULL if there is none. *ours: the variable's name, which the
 * caller frees; NULL if the tensor is left out. Errors: MEMORY. */
clq_status clq_weight_map_find(const clq_weight_map *map, const char *theirs, const clq_map_line **line, char **ours);

/* ---- matching (weight_match.c) ---- */

typedef struct clq_weight_match {
    const clq_safetensors_entry *tensor; /* NULL: the file has no tensor for the variable */
    const clq_map_line *line;            /* of the map; NULL: the tensor's axes and shape stay as they are */
} clq_weight_match;
typedef struct clq_weight_matches {
    clq_weight_match *of; /* by variable */
    bool *left;           /* by tensor: a weight that is not loaded, though no line of the map leaves it out */
} clq_weight_matches;
typedef struct clq_matching {
    const clq_model *model;
    const clq_safetensors *file;
    const char *path;          /* the file's, for messages */
    const clq_stores *stores;  /* the variables' paths in a Keras file; NULL: tensors have the variables' names */
    const clq_weight_map *map; /* NULL: none */
    bool partial;              /* skip tensors and variables that have no counterpart of the same shape */
} clq_matching;
/* Finds the tensor of each variable. Start *out with {0}, and release it in any case. Errors: MISMATCH (a tensor that
 * is no variable's, unless partial; two tensors for one variable), ARGUMENT (a line of the map that names no tensor or
 * no variable), MEMORY. */
clq_status clq_weights_match(const clq_matching *m, clq_weight_matches *out);
void clq_weight_matches_release(clq_weight_matches *matches);
/* Finds paths of variables that the model's file does not give, by the layers' names in the file of weights. */
clq_status clq_stores_find_by_names(const clq_model *model, const clq_safetensors *file, clq_stores *stores);

/* Writes the text of an archive's config.json (config_text.c). path: the archive's, for messages. The caller frees
 * out->data in any case. Errors: UNSUPPORTED (the model is from a file of Keras 2; only a part of what is one layer in
 * Keras is frozen), MEMORY. */
clq_status clq_model_config_text(const clq_model *model, const char *path, clq_text *out);

/* Reads a matched tensor's values as float32, in the variable's order. Errors: MISMATCH (type, shape), FORMAT (a value
 * that is not finite). */
clq_status clq_read_matched(const clq_weight_match *match, const clq_variable *variable, const char *path, float *out);

#endif
