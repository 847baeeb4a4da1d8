/* launch: launch lists. A list is what a device is to run, in order: kernels with their sizes and arguments, and calls
 * of libraries. An operation (ops) adds launches that name their memory as values. Then every value is placed in a
 * buffer (graph does so), the list is bound (kernels are built, arguments set), and run. Running looks nothing up and
 * allocates nothing.
 *
 * The batch is a number: a list is made for a capacity, and runs any count from 0 up to it. Work that grows with the
 * batch is launched for the count, not for the capacity.
 *
 * Where an operation can be made in several ways, the list chooses among the candidates (choice.c). On CPU devices the
 * launches between two calls can run as one kernel (fused.h). */
#ifndef CLQ_LAUNCH_H
#define CLQ_LAUNCH_H

#include "device/device.h"

/* ---- building a list (list.c) ---- */

typedef struct clq_list clq_list;

/* Memory that launches read and write, before it has a place. 0 is none. */
typedef uint32_t clq_value;
enum { CLQ_NO_VALUE = 0 };

/* Where a value lives. SCRATCH and ACTIVATION values share one arena by lifetime (first to last launch that uses
 * them); the others are given a buffer by the caller (clq_list_place). */
typedef enum clq_value_kind { CLQ_VALUE_ACTIVATION, CLQ_VALUE_SCRATCH, CLQ_VALUE_EXTERNAL } clq_value_kind;

/* Parameters of a step: kernel arguments of 4 bytes that change between runs of a list. A row is the enumerator, the
 * member of clq_step_params, its type, and the kernel's. */
/* clang-format off */
#define CLQ_STEP_PARAMS(X)                                                                                            \
    X(COUNT, count, uint32_t, "int")         /* examples in this run */                                               \
    X(SCALE, scale, float, "float")          /* 1 / global count, the weight of one example's loss */                 \
    X(SLOT, slot, uint32_t, "int")           /* which row of the metrics buffer this step writes */                   \
    X(STEP, step, uint32_t, "int")           /* number of the update that the step makes or would make, from 1 */     \
    X(FIRST_ROW, first_row, uint32_t, "int") /* index in the global batch of the replica's first example */ \
    X(SUM_FACTOR, sum_factor, float, "float") /* where gradients are added up (clq_accumulate); 0: they begin anew */ \
    X(AVERAGE, average, float, "float")      /* the part of its way that the average of the weights goes */           \
    CLQ_RATE_PARAMS(X, , )                   /* of an update, by optimizer (clq_update_rates) */                      \
    CLQ_RATE_PARAMS(X, _1, _1)                                                                                        \
    CLQ_RATE_PARAMS(X, _2, _2)                                                                                        \
    CLQ_RATE_PARAMS(X, _3, _3)
/* Learning rate, or Adam's bias-corrected rate; others of the rule; the part of the weights that decays. */
#define CLQ_RATE_PARAMS(X, N, n)                                                                                      \
    X(RATE##N, rate##n, float, "float")                                                                               \
    X(SECOND##N, second##n, float, "float")                                                                           \
    X(THIRD##N, third##n, float, "float")                                                                             \
    X(DECAY##N, decay##n, float, "float")

typedef enum clq_param {
#define CLQ_STEP_PARAM_ENUM(name, member, type, kernel_type) CLQ_PARAM_##name,
    CLQ_STEP_PARAMS(CLQ_STEP_PARAM_ENUM)
#undef CLQ_STEP_PARAM_ENUM
    CLQ_PARAM_COUNT_OF
} clq_param;

typedef struct clq_step_params {
#define CLQ_STEP_PARAM_MEMBER(name, member, type, kernel_type) type member;
    CLQ_STEP_PARAMS(CLQ_STEP_PARAM_MEMBER)
#undef CLQ_STEP_PARAM_MEMBER
} clq_step_params;
/* clang-format on */
_Static_assert(sizeof(clq_step_params) == sizeof(uint32_t) * CLQ_PARAM_COUNT_OF, "each parameter has four bytes");

/* The table of parameters, by clq_param (params.c). */
typedef struct clq_param_info {
    const char *name, *kernel_type; /* "first_row"; "int" or "float" */
    size_t offset;                  /* in clq_step_params */
} clq_param_info;
extern const clq_param_info clq_param_table[CLQ_PARAM_COUNT_OF];

/* What a launch does with a value. Memory of the arena is of use to nobody before a launch has written it. */
typedef enum clq_access { CLQ_READS = 1, CLQ_WRITES = 2, CLQ_READS_WRITES = 3 } clq_access;

/* A list for one device and at most `capacity` examples. Adding latches the first failure (clq_list_status). */
clq_status clq_list_create(clq_device *device, uint32_t capacity, clq_list **out);
void clq_list_destroy(clq_list *list); /* takes NULL; before the buffers that its values were placed in */
clq_status clq_list_status(const clq_list *list);
void clq_list_latch(clq_list *list, clq_status status); /* a failure of an operation that is being added */
clq_device *clq_list_device(const clq_list *list);
uint32_t clq_list_capacity(const clq_list *list);
/* The kernel family that operations use: the device's (clq_device_family) unless set. Tests force each. Before the
 * first operation. */
void clq_list_set_family(clq_list *list, clq_kernel_family family);
clq_kernel_family clq_list_family(const clq_list *list);
size_t clq_list_vector(const clq_list *list); /* clq_device_vector */
/* How exact products are (HIGHEST unless set). Before the first operation. */
void clq_list_set_precision(clq_list *list, clq_matmul_precision precision);
clq_matmul_precision clq_list_precision(const clq_list *list);

/* bytes = fixed + capacity * per_example. The name is copied; shown by clique plan. */
clq_value clq_list_value(clq_list *list, clq_value_kind kind, const char *name, size_t fixed_bytes,
                         size_t bytes_per_example);
/* The type in which a value's memory has its numbers: F32 unless set, and of NO_VALUE. F16 and BF16 are computed with as
 * floats. Before the first launch that names the value. */
void clq_list_set_storage(clq_list *list, clq_value value, clq_dtype dtype);
clq_dtype clq_list_storage(const clq_list *list, clq_value value);
/* What an operation needs between its launches: so many numbers of a type. */
clq_value clq_list_scratch(clq_list *list, const char *name, clq_dtype dtype, size_t fixed, size_t per_example);
/* What follows belongs to this layer, in tables and messages ("conv2d_1"); copied. */
void clq_list_scope(clq_list *list, const char *scope);

/* Options of a kernel, which are put together piece by piece; more than there is room for is a mistake in the code.
 * Starts as {0}. */
typedef struct clq_kernel_options {
    char text[1536];
    size_t length;
} clq_kernel_options;
void clq_options_add(clq_kernel_options *options, const char *format, ...) CLQ_PRINTF(2, 3);
void clq_options_add_list(clq_kernel_options *options, const char *format, va_list arguments) CLQ_PRINTF(2, 0);
/* " -DNAME_STORAGE=…" (cl/prelude.cl) where the value is of 16 bits; nothing where it is F32: kernels define 0 then. */
void clq_options_storage(clq_kernel_options *options, const clq_list *list, const char *name, clq_value value);

/* A launch is built by these calls in order: begin, arguments (in the kernel's order), work, cost. The options are
 * copied; the label, the file and the function are literals, or live as long as the list, also those of a call. */
void clq_launch_begin(clq_list *list, const char *label /* "forward" */, const char *file, const char *options,
                      const char *function);
/* The launch's file is not embedded: `file` only names it (copied), and this is its source, which outlives the list.
 * Directly behind clq_launch_begin. */
void clq_launch_source(clq_list *list, const char *file, const char *text);
void clq_launch_value(clq_list *list, clq_value value,
                      clq_access access); /* NO_VALUE: a placeholder that the kernel leaves alone */
/* A part of a value, at a byte offset that is a multiple of clq_device_view_align. */
void clq_launch_value_at(clq_list *list, clq_value value, size_t offset, size_t bytes, clq_access access);
/* Several values, one behind the other: CLQ_LAUNCH_READS(list, x, w). ALL: an array of them and its length. */
void clq_launch_values(clq_list *list, clq_access access, const clq_value *values, size_t count);
#define CLQ_LAUNCH_ALL(type, ...) (const type[]){__VA_ARGS__}, CLQ_COUNT_OF(((const type[]){__VA_ARGS__}))
#define CLQ_LAUNCH_READS(list, ...) clq_launch_values(list, CLQ_READS, CLQ_LAUNCH_ALL(clq_value, __VA_ARGS__))
#define CLQ_LAUNCH_WRITES(list, ...) clq_launch_values(list, CLQ_WRITES, CLQ_LAUNCH_ALL(clq_value, __VA_ARGS__))
void clq_launch_int(clq_list *list, int value);
/* A size as an int: one of an example that does not fit has no buffer on any device. Several: CLQ_LAUNCH_SIZES. */
void clq_launch_size(clq_list *list, size_t size);
void clq_launch_sizes(clq_list *list, const size_t *sizes, size_t count);
#define CLQ_LAUNCH_SIZES(list, ...) clq_launch_sizes(list, CLQ_LAUNCH_ALL(size_t, __VA_ARGS__))
void clq_launch_float(clq_list *list, float value);
void clq_launch_param(clq_list *list, clq_param param);
void clq_launch_zeros(clq_list *list, size_t bytes); /* memory to read at least this many zero bytes from */
void clq_launch_local(clq_list *list, size_t bytes);
/* Global and local sizes for a full batch; local NULL leaves it to the driver (tile kernels pass {1,1,1}). If
 * batch_dim >= 0, that dimension is in fact local * ceil(count * rows_per_example / rows_per_group), its value in
 * `global` being ignored; with a count of 0 the launch is skipped. */
void clq_launch_work(clq_list *list, uint32_t dims, const size_t *global, const size_t *local, int batch_dim,
                     size_t rows_per_example, size_t rows_per_group);
/* What it costs: arithmetic and memory traffic, fixed and per example. */
void clq_launch_cost(clq_list *list, double flops, double flops_per_example, double bytes, double bytes_per_example);
/* A launch that is a call (of CLBlast, of an exchange): run is called at its place with the count, also with 0; the
 * values it uses are named by clq_launch_value before, with no begin. buffers[i] is the i-th named value's, NO_VALUE's
 * a placeholder. context is freed with clq_free, also where adding fails. `function` is for tables: "CLBlast". */
typedef clq_status (*clq_call)(void *context, clq_queue *queue, uint32_t count, clq_buffer *const *buffers);
void clq_launch_call(clq_list *list, const char *label, const char *function, clq_call run, void *context);

/* ---- reading a list, for placing and printing (list.c) ---- */

typedef struct clq_launch_info {
    const char *scope, *label, *file, *function, *options; /* file and options NULL for a call */
    size_t global[3], local[3];                            /* for a full batch */
    uint32_t dims;
    double flops, bytes; /* for a full batch */
} clq_launch_info;
size_t clq_list_launch_count(const clq_list *list);
void clq_list_launch_info(const clq_list *list, size_t index, clq_launch_info *out);
typedef struct clq_value_info {
    const char *name;
    clq_value_kind kind;
    size_t bytes;
    size_t first_use, last_use; /* launch indices; first > last where no launch uses it */
} clq_value_info;
size_t clq_list_value_count(const clq_list *list);
void clq_list_value_info(const clq_list *list, clq_value value, clq_value_info *out);

/* ---- placing, binding, running (list_run.c) ---- */

/* Placing: every value that a launch uses gets a range of a buffer (offset aligned to clq_device_view_align). */
void clq_list_place(clq_list *list, clq_value value, clq_buffer *buffer, size_t offset);
/* Builds kernels and sets all arguments. After it the list is fixed. */
clq_status clq_list_bind(clq_list *list);
/* Whether binding fuses runs of launches into one kernel each (fused.h), where it can: on CPU devices, between calls.
 * For lists during which nothing else wants the device's cores, since its threads do not sleep while they wait for each
 * other. Before binding. */
void clq_list_set_fused(clq_list *list, bool fused);
bool clq_list_is_fused(const clq_list *list); /* once bound: whether all launches are fused */
/* Once bound: how many commands a run of the whole list takes, fused launches being one. */
size_t clq_list_command_count(const clq_list *list);
/* Another buffer of the same size for an external value that was placed as the whole of one and is read only, between
 * runs: for what arrives in turn in several buffers. It must outlive the launches. */
clq_status clq_list_replace(clq_list *list, clq_value value, clq_buffer *buffer);
/* Exchanges two buffers of one size, for all values in them, between runs of a bound list. Errors: ARGUMENT for buffers
 * of two sizes. */
clq_status clq_list_swap(clq_list *list, clq_buffer *a, clq_buffer *b);
/* All parameters, for the runs that follow; zeros until then. */
void clq_list_set_params(clq_list *list, const clq_step_params *params);
/* Enqueues launches [first, end) on an in-order queue of the list's device for COUNT examples. No allocation, no
 * look-up; arguments are touched only where a parameter changed. */
clq_status clq_list_run(clq_list *list, clq_queue *queue, size_t first, size_t end);
/* The same, where the first of them waits for the order's events and the last one gives the order's. first < end. Not
 * on a device that runs in its caller. */
clq_status clq_list_run_after(clq_list *list, clq_queue *queue, size_t first, size_t end, const clq_order *order);
/* Launches each kernel once, for a full batch, with memory that launches write zero, and leaves that memory zero: for
 * drivers that compile then. What launches only read stays as it is. Calls of libraries are left out. */
clq_status clq_list_launch_first(clq_list *list, clq_queue *queue);

/* ---- choices (choice.c) ----
 * Where an operation can be made in several ways, it makes a choice: a tuning key (the operation and its shape) and
 * named candidates, the first of which is the default: that of a rule that knows the device's vectors and cores, and
 * has measured nothing. The operation submits the choice to the list while it is added, and is made by the candidate
 * that the list selects. That is the candidate of the list's own selections (the tuner's, or forced ones); else the one
 * that was measured and kept for such devices, their driver and this version of Clique; else the default.
 *
 * Another candidate may add in another order. So what was measured counts only once it is kept. */

enum { CLQ_TUNING_KEY_BYTES = 160, CLQ_CANDIDATE_BYTES = 24, CLQ_CANDIDATES_MOST = 12 };
typedef struct clq_choice {
    char key[CLQ_TUNING_KEY_BYTES]; /* "weight gradient 784x128, sum of 64" */
    struct clq_candidate {
        char name[CLQ_CANDIDATE_BYTES]; /* "8 x 2 vectors" */
        uint32_t values[2];             /* the operation knows their meaning */
    } candidates[CLQ_CANDIDATES_MOST];
    size_t count, selected;
    size_t first, end; /* the launches that depend on it; end 0: the whole list */
    size_t index;      /* among the list's; SIZE_MAX where the list did not note it */
    bool kept;         /* selected since it was measured and kept */
} clq_choice;
/* An operation starts a choice by its key (what does not fit is cut off), and adds candidates. One whose name is there
 * already is not added, nor one too many. */
void clq_choice_start(clq_choice *choice, const char *format, ...) CLQ_PRINTF(2, 3);
void clq_choice_add(clq_choice *choice, uint32_t value0, uint32_t value1, const char *format, ...) CLQ_PRINTF(4, 5);
/* A candidate that is never measured: it is added only where one of the list's own selections names it. */
void clq_choice_add_named(clq_choice *choice, const clq_list *list, uint32_t value0, uint32_t value1, const char *name);
/* Selects a candidate. The list notes the choice, for the tuner, if it has several candidates and none is forced. */
const struct clq_candidate *clq_list_select(clq_list *list, clq_choice *choice);
/* The launches that depend on the choice end here. */
void clq_list_end_choice(clq_list *list, const clq_choice *choice);
size_t clq_list_choice_count(const clq_list *list);
const clq_choice *clq_list_choice(const clq_list *list, size_t index);

/* A list's own selections. Those whose key ends with '*' force all choices whose keys begin so: there is no other way
 * to force a variant, and tests and `clique bench` compare variants by it. The first selection that names a candidate
 * of the choice decides. Where a selection has the choice's whole key but names no candidate, the default is selected.
 */
typedef struct clq_selection {
    char key[CLQ_TUNING_KEY_BYTES], candidate[CLQ_CANDIDATE_BYTES];
} clq_selection;
typedef struct clq_selections {
    const clq_selection *entries;
    size_t count;
    bool by_rule; /* for all other choices what was kept is left aside, */
    size_t nth;   /* and candidate `nth`, or the last, is selected */
} clq_selections;
/* Borrowed until the last operation is added; NULL: none. Before the first operation. */
void clq_list_set_selections(clq_list *list, const clq_selections *selections);

bool clq_selections_are_shared(const clq_device *a, const clq_device *b); /* whether what is kept is so for both */
/* In place of what was kept before. Errors: WRITE, MEMORY; STATE where the device has no place to keep things. */
clq_status clq_selection_keep(clq_device *device, const char *key, const char *candidate);

#endif
