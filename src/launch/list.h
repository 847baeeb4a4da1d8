/* The inside of a launch list, shared by the files of this layer. */
#ifndef CLQ_LAUNCH_LIST_H
#define CLQ_LAUNCH_LIST_H

#include "launch/launch.h"

#include <string.h>

typedef enum clq_argument_kind {
    CLQ_ARGUMENT_VALUE,
    CLQ_ARGUMENT_INT,
    CLQ_ARGUMENT_FLOAT,
    CLQ_ARGUMENT_PARAM,
    CLQ_ARGUMENT_LOCAL
} clq_argument_kind;

/* Four bytes that are an int or a float: a number among the arguments, or a parameter's value. */
typedef union clq_word {
    int32_t as_int;
    float as_float;
    uint32_t bits;
} clq_word;

/* A parameter's value. */
static inline clq_word clq_param_word(const clq_step_params *params, clq_param param) {
    clq_word word;
    memcpy(&word, (const char *)params + clq_param_table[param].offset, sizeof word);
    return word;
}

typedef struct clq_argument {
    clq_argument_kind kind;
    clq_value value;      /* VALUE: which; NO_VALUE for the placeholder */
    size_t offset, bytes; /* VALUE: the range of it; LOCAL: bytes alone */
    clq_access access;    /* VALUE */
    clq_param param;
    clq_word word; /* INT, FLOAT: the number; PARAM: what the kernel was last given */
} clq_argument;

typedef struct clq_launch {
    const char *scope, *label, *file, *function, *options; /* file and options are NULL for a call */
    const char *text; /* the source if `file` only names it, borrowed; otherwise NULL */
    size_t first_argument, argument_count;
    uint32_t dims;
    size_t global[3], local[3]; /* global for a full batch */
    bool has_local;
    int batch_dim; /* -1: none */
    size_t rows_per_example, rows_per_group;
    double flops, bytes; /* for a full batch */
    clq_call call;
    void *context;
    clq_kernel *kernel;    /* once bound; NULL for a call or a fused launch */
    struct clq_fused *run; /* the fused run that the launch is in; or NULL */
    clq_buffer **buffers;  /* once bound: of a call's values; NULL for a kernel */
    bool has_params;
} clq_launch;

typedef struct clq_value_slot {
    const char *name;
    clq_value_kind kind;
    clq_dtype storage;
    size_t bytes, first_use, last_use;
    bool written;
    clq_buffer *buffer; /* once placed; not owned */
    size_t offset;
} clq_value_slot;

/* A range of a placed buffer as a buffer of its own. */
typedef struct clq_list_view {
    const clq_buffer *parent;
    size_t offset, bytes;
    clq_buffer *view;
} clq_list_view;

struct clq_list {
    clq_device *device;
    uint32_t capacity;
    clq_kernel_family family;
    clq_matmul_precision precision;
    const clq_selections *selections; /* borrowed, or NULL */
    clq_error error;                  /* the first failure */
    const char *scope;
    char **texts; /* scopes, options and names, copied */
    size_t text_count, text_capacity;
    bool open; /* a launch was begun and has no work yet */
    bool bound;
    clq_value_slot *values; /* value - 1 is the index */
    size_t value_count, value_capacity;
    clq_launch *launches;
    size_t launch_count, launch_capacity;
    clq_choice *choices;
    size_t choice_count, choice_capacity;
    clq_argument *arguments; /* of all launches, one after the other */
    size_t argument_count, argument_capacity;
    size_t pending; /* values at the end of `arguments` that wait for clq_launch_call */
    clq_step_params params;
    clq_list_view *views;
    size_t view_count, view_capacity;
    size_t zero_bytes;       /* of the placeholder */
    clq_buffer *placeholder; /* zeros: the buffer of NO_VALUE; NULL until it is needed */
    bool fuses;              /* binding fuses launches where it can */
    struct clq_fused **runs; /* once bound: the runs of fused launches, in order */
    size_t run_count, run_capacity;
};

/* Makes room for one more element. On failure the array stays as it is, and the list keeps the failure. */
#define CLQ_LIST_GROW(list, array, count, capacity)                                                                    \
    clq_list_grow((list), (void **)&(list)->array, (list)->count, &(list)->capacity, sizeof *(list)->array)
bool clq_list_grow(clq_list *list, void **array, size_t count, size_t *capacity, size_t size);
/* The buffer that stands for NO_VALUE, made when it is first asked for. */
clq_status clq_list_placeholder(clq_list *list, clq_buffer **out);
/* Undoes clq_list_bind. */
void clq_list_unbind(clq_list *list);
/* The global size in dimension `batch_dim` for this many examples. */
size_t clq_launch_batch_size(const clq_launch *launch, size_t count);

#endif
