/* Files of weights: which of a file's tensors is which of a model's variables. Private to train. */
#ifndef CLQ_TRAIN_WEIGHT_FILES_H
#define CLQ_TRAIN_WEIGHT_FILES_H

#include "train/trainer.h"

/* All variables on the host, one behind the other (weights.c). Start with {0}, release in any case. */
typedef struct clq_image {
    float *values;
    size_t *first; /* of each variable, in floats */
} clq_image;
clq_status clq_image_open(const clq_model *model, clq_image *out);
void clq_image_release(clq_image *all);
static inline float *clq_image_of(const clq_image *all, uint32_t variable) {
    return all->values + all->first[variable];
}

/* ---- name maps (weight_map.c) ---- */

/* Axes of another library's tensors: axis d of the variable is their axis axes[d]. */
typedef struct clq_axis_order {
    const char *word;
    unsigned rank;
    unsigned char axes[5];
} clq_axis_order;
/* "theirs -> ours oihw reshaped" */
typedef struct clq_map_line {
    char *theirs, *ours;         /* the map's; ours NULL: such tensors are left out */
    const clq_axis_order *order; /* NULL: as it is */
    bool reshaped;               /* as many values in another shape, in the same order */
    size_t number;               /* in the file, from 1 on */
} clq_map_line;
typedef struct clq_weight_map {
    const char *path; /* borrowed */
    clq_map_line *lines;
    size_t count, capacity;
} clq_weight_map;
/* Start with {0}, release in any case. Errors: NOT_FOUND, READ, FORMAT (names the line), MEMORY. */
clq_status clq_weight_map_read(const char *path, clq_weight_map *out);
void clq_weight_map_release(clq_weight_map *map);
/* Whether the line is about tensors of this name, unless one in front of it is. */
bool clq_map_line_names(const clq_map_line *line, const char *theirs);
/* The first line that is about a tensor, and what it calls the variable: the caller's, NULL if the tensor is left out.
 * *line NULL: there is none. Errors: MEMORY. */
clq_status clq_weight_map_find(const clq_weight_map *map, const char *theirs, const clq_map_line **line, char **ours);

/* ---- matching (weight_match.c) ---- */

typedef struct clq_weight_match {
    const clq_safetensors_entry *tensor; /* NULL: the file has none */
    const clq_map_line *line;            /* NULL: it is taken as it is */
} clq_weight_match;
typedef struct clq_weight_matches {
    clq_weight_match *of; /* by variable */
    bool *left;           /* by tensor: it is no variable, and nobody said that it is left out */
} clq_weight_matches;
typedef struct clq_matching {
    const clq_model *model;
    const clq_safetensors *file;
    const char *path;          /* of the file, for messages */
    const clq_stores *stores;  /* of a Keras file; NULL: tensors have the variables' names */
    const clq_weight_map *map; /* NULL: none */
    bool partial;              /* what is on one side alone, or has another shape, is left */
} clq_matching;
/* Start with {0}, release in any case. Errors: MISMATCH (a tensor that is no variable, unless partial; two tensors for
 * one variable), ARGUMENT (a line that names no tensor or no variable), MEMORY. */
clq_status clq_weights_match(const clq_matching *m, clq_weight_matches *out);
void clq_weight_matches_release(clq_weight_matches *matches);
/* Paths of variables that the model's file does not tell, by the names of layers in the file of weights. */
clq_status clq_stores_find_by_names(const clq_model *model, const clq_safetensors *file, clq_stores *stores);

/* What an archive has as its config.json (config_text.c). path: of the archive, for messages. The caller frees out's
 * text in any case. Errors: UNSUPPORTED (a file of Keras 2; a part of what is one layer there is frozen), MEMORY. */
clq_status clq_model_config_text(const clq_model *model, const char *path, clq_text *out);

/* A matched tensor's values, as float32 in the variable's order. Errors: MISMATCH (type, shape), FORMAT (a value that
 * is not finite). */
clq_status clq_read_matched(const clq_weight_match *match, const clq_variable *variable, const char *path, float *out);

#endif
