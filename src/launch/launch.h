/* launch: launch lists. A list holds what a device runs, in order: kernels with their sizes and arguments, and calls of
 * libraries. An operation (ops) adds launches, which name their memory as values. Then graph places every value in a
 * buffer, and the list is bound: its kernels are built and their arguments set. Then it can run. A run looks nothing up
 * and allocates nothing.
 *
 * A list is created for a capacity, the largest number of examples in a batch. Each run takes a count from 0 to the
 * capacity. Work that grows with the batch is launched for the count, not for the capacity.
 *
 * If there are several ways to compute an operation, the list chooses among these candidates (choice.c). On CPU devices
 * the launches between two calls can run as one kernel (fused.h). */
#ifndef CLQ_LAUNCH_H
#define CLQ_LAUNCH_H

#include "device/device.h"

/* ---- building a list (list.c) ---- */

typedef struct clq_list clq_list;

/* Memory that launches read and write, named before it has a place. 0 is no value. */
typedef uint32_t clq_value;
enum { CLQ_NO_VALUE = 0 };

/* Where a value lives. SCRATCH and ACTIVATION values share one arena: a value has its memory there from the first to
 * the last launch that uses it. The caller gives an EXTERNAL value a buffer (clq_list_place). */
typedef enum clq_value_kind { CLQ_VALUE_ACTIVATION, CLQ_VALUE_SCRATCH, CLQ_VALUE_EXTERNAL } clq_value_kind;

/* Parameters of a step: kernel arguments of 4 bytes that change between runs of a list. A row gives the enumerator, the
 * member of clq_step_params, its type, and its type in kernels. */
/* clang-format off */
#define CLQ_STEP_PARAMS(X)                                                                                            \
    X(COUNT, count, uint32_t, "int")         /* examples in this run */                                               \
    X(SCALE, scale, float, "float")          /* 1 / global count, the weight of one example's loss */                 \
    X(SLOT, slot, uint32_t, "int")           /* which row of the metrics buffer this step writes */                   \
    X(STEP, step, uint32_t, "int")           /* number of the update that the step makes or would make, from 1 */     \
    X(FIRST_ROW, first_row, uint32_t, "int") /* where in the global batch the replica's examples begin */ \
    X(SUM_FACTOR, sum_factor, float, "float") /* clq_accumulate: sum = (sum + gradient) * this; 0: sum = gradient */ \
    X(AVERAGE, average, float, "float")      /* the moving average changes by (weights - average) * this */           \
    CLQ_RATE_PARAMS(X, , )                   /* of the update, for each optimizer (clq_update_rates) */               \
    CLQ_RATE_PARAMS(X, _1, _1)                                                                                        \
    CLQ_RATE_PARAMS(X, _2, _2)                                                                                        \
    CLQ_RATE_PARAMS(X, _3, _3)
/* Learning rate (Adam's is bias-corrected); two more numbers of the optimizer's rule; learning rate * weight decay. */
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

/* The table of parameters, indexed by clq_param (params.c). */
typedef struct clq_param_info {
    const char *name, *kernel_type; /* "first_row"; "int" or "float" */
    size_t offset;                  /* in clq_step_params */
} clq_param_info;
extern const clq_param_info clq_param_table[CLQ_PARAM_COUNT_OF];

/* What a launch does with a value. A value in the arena has no defined content before a launch has written it, so no
 * launch may read it earlier. */
typedef enum clq_access { CLQ_READS = 1, CLQ_WRITES = 2, CLQ_READS_WRITES = 3 } clq_access;

/* A list for one device and at most `capacity` examples. Calls that add to the list return no status: the list keeps
 * the first failure (clq_list_status). */
clq_status clq_list_create(clq_device *device, uint32_t capacity, clq_list **out);
void clq_list_destroy(clq_list *list); /* takes NULL; destroy it before the buffers of its values */
clq_status clq_list_status(const clq_list *list);
void clq_list_latch(clq_list *list, clq_status status); /* records a failure of an operation that is being added */
clq_device *clq_list_device(const clq_list *list);
uint32_t clq_list_capacity(const clq_list *list);
/* The kernel family that operations use: the device's (clq_device_family) unless it is set, as tests do. Set it before
 * the first operation. */
void clq_list_set_family(clq_list *list, clq_kernel_family family);
clq_kernel_family clq_list_family(const clq_list *list);
size_t clq_list_vector(const clq_list *list); /* clq_device_vector */
/* How exact matrix products are (HIGHEST unless set). Set it before the first operation. */
void clq_list_set_precision(clq_list *list, clq_matmul_precision precision);
clq_matmul_precision clq_list_precision(const clq_list *list);

/* Adds a value of fixed_bytes + capacity * bytes_per_example bytes. The name is copied; `clique plan` shows it. */
clq_value clq_list_value(clq_list *list, clq_value_kind kind, const char *name, size_t fixed_bytes,
                         size_t bytes_per_example);
/* The type of the numbers in a value's memory: F32 unless it is set, and always F32 for NO_VALUE. Kernels compute with
 * F16 and BF16 as floats. Set it before the first launch that names the value. */
void clq_list_set_storage(clq_list *list, clq_value value, clq_dtype dtype);
clq_dtype clq_list_storage(const clq_list *list, clq_value value);
/* Adds a SCRATCH value, which an operation needs between its launches: fixed + capacity * per_example numbers of a
 * type. */
clq_value clq_list_scratch(clq_list *list, const char *name, clq_dtype dtype, size_t fixed, size_t per_example);
/* Names the layer ("conv2d_1") to which the launches that follow belong in tables and messages. The name is copied. */
void clq_list_scope(clq_list *list, const char *scope);

/* A kernel's build options, put together piece by piece. Start with {0}. Text that does not fit is a mistake in the
 * calling code (an assertion). */
typedef struct clq_kernel_options {
    char text[1536];
    size_t length;
} clq_kernel_options;
void clq_options_add(clq_kernel_options *options, const char *format, ...) CLQ_PRINTF(2, 3);
void clq_options_add_list(clq_kernel_options *options, const char *format, va_list arguments) CLQ_PRINTF(2, 0);
/* Adds " -DNAME_STORAGE=…" (cl/prelude.cl) if the value is of 16 bits. If it is F32, adds nothing: kernels then
 * define NAME_STORAGE as 0. */
void clq_options_storage(clq_kernel_options *options, const clq_list *list, const char *name, clq_value value);

/* These calls, in this order, add a launch: begin, arguments (in the kernel's order), work, cost. The options are
 * copied. The label, the file and the function must be literals, or live as long as the list. So must the label and the
 * function of a call. */
void clq_launch_begin(clq_list *list, const char *label /* "forward" */, const char *file, const char *options,
                      const char *function);
/* Gives the launch a source of its own in place of an embedded file. `file` (copied) only names the source; `text` is
 * the source, and must outlive the list. Call it directly after clq_launch_begin. */
void clq_launch_source(clq_list *list, const char *file, const char *text);
void clq_launch_value(clq_list *list, clq_value value,
                      clq_access access); /* NO_VALUE: a placeholder, which the kernel leaves alone */
/* A part of a value, at a byte offset that is a multiple of clq_device_view_align. */
void clq_launch_value_at(clq_list *list, clq_value value, size_t offset, size_t bytes, clq_access access);
/* Several values as arguments, one after the other: CLQ_LAUNCH_READS(list, x, w). CLQ_LAUNCH_ALL makes an array of its
 * arguments, and the array's length. */
void clq_launch_values(clq_list *list, clq_access access, const clq_value *values, size_t count);
#define CLQ_LAUNCH_ALL(type, ...) (const type[]){__VA_ARGS__}, CLQ_COUNT_OF(((const type[]){__VA_ARGS__}))
#define CLQ_LAUNCH_READS(list, ...) clq_launch_values(list, CLQ_READS, CLQ_LAUNCH_ALL(clq_value, __VA_ARGS__))
#define CLQ_LAUNCH_WRITES(list, ...) clq_launch_values(list, CLQ_WRITES, CLQ_LAUNCH_ALL(clq_value, __VA_ARGS__))
void clq_launch_int(clq_list *list, int value);
/* A size as an int argument. Every size fits: no device has a buffer for an example so large that an int cannot hold
 * its size. CLQ_LAUNCH_SIZES adds several sizes. */
void clq_launch_size(clq_list *list, size_t size);
void clq_launch_sizes(clq_list *list, const size_t *sizes, size_t count);
#define CLQ_LAUNCH_SIZES(list, ...) clq_launch_sizes(list, CLQ_LAUNCH_ALL(size_t, __VA_ARGS__))
void clq_launch_float(clq_list *list, float value);
void clq_launch_param(clq_list *list, clq_param param);
void clq_launch_zeros(clq_list *list, size_t bytes); /* memory to read at least this many zero bytes from */
void clq_launch_local(clq_list *list, size_t bytes);
/* Global and local sizes for a full batch. If local is NULL, the driver chooses the local size; tile kernels pass
 * {1,1,1}. If batch_dim >= 0, each run sets the size of that dimension to local * ceil(count * rows_per_example /
 * rows_per_group), whatever `global` says, and a run with a count of 0 skips the launch. */
void clq_launch_work(clq_list *list, uint32_t dims, const size_t *global, const size_t *local, int batch_dim,
                     size_t rows_per_example, size_t rows_per_group);
/* The cost of the launch: arithmetic operations and bytes of memory traffic, each as a fixed part and a part per
 * example. */
void clq_launch_cost(clq_list *list, double flops, double flops_per_example, double bytes, double bytes_per_example);
/* Adds a launch that is a call, for example of CLBlast or of an exchange. Each run of the list calls `run` at that
 * place with the run's count, even if the count is 0. The values that the call uses are named by clq_launch_value
 * before this, without clq_launch_begin. buffers[i] is the buffer of the i-th of these values, or a placeholder for
 * NO_VALUE. The list frees context with clq_free, even if adding fails. `function` is a name for tables: "CLBlast". */
typedef clq_status (*clq_call)(void *context, clq_queue *queue, uint32_t count, clq_buffer *const *buffers);
void clq_launch_call(clq_list *list, const char *label, const char *function, clq_call run, void *context);

/* ---- reading a list, for placing and printing (list.c) ---- */

typedef struct clq_launch_info {
    const char *scope, *label, *file, *function, *options; /* file and options are NULL for a call */
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
    size_t first_use, last_use; /* indices of launches; first > last if no launch uses the value */
} clq_value_info;
size_t clq_list_value_count(const clq_list *list);
void clq_list_value_info(const clq_list *list, clq_value value, clq_value_info *out);

/* ---- placing, binding, running (list_run.c) ---- */

/* Places a value in a range of a buffer, at an offset that is a multiple of clq_device_view_align. Every value that a
 * launch uses must have a place before the list is bound. */
void clq_list_place(clq_list *list, clq_value value, clq_buffer *buffer, size_t offset);
/* Builds the kernels and sets all arguments. After this the list cannot grow. */
clq_status clq_list_bind(clq_list *list);
/* Whether binding fuses runs of launches into one kernel each (fused.h). Only launches on CPU devices can be fused, and
 * a call ends a run. Use this for lists during which nothing else needs the device's cores: the threads of a fused
 * kernel do not sleep while they wait for each other. Set it before binding. */
void clq_list_set_fused(clq_list *list, bool fused);
bool clq_list_is_fused(const clq_list *list); /* once bound: whether all launches are fused */
/* How many commands a run of the whole bound list takes. The launches of a fused kernel count as one command. */
size_t clq_list_command_count(const clq_list *list);
/* Gives an external value another buffer of the same size, between runs of a bound list: for inputs that arrive by
 * turns in several buffers. The value must have been placed as the whole of a buffer, and launches must only read it.
 * The new buffer must outlive the launches. */
clq_status clq_list_replace(clq_list *list, clq_value value, clq_buffer *buffer);
/* Exchanges two buffers of one size, for all values in them, between runs of a bound list. Errors: INTERNAL if the
 * sizes differ. */
clq_status clq_list_swap(clq_list *list, clq_buffer *a, clq_buffer *b);
/* Sets all parameters for the runs that follow. Before the first call they are zero. */
void clq_list_set_params(clq_list *list, const clq_step_params *params);
/* Enqueues launches [first, end) for COUNT examples, on an in-order queue of the list's device. Allocates nothing and
 * looks nothing up, and sets only those kernel arguments whose parameter changed. */
clq_status clq_list_run(clq_list *list, clq_queue *queue, size_t first, size_t end);
/* The same with an order: the first launch waits for the order's events, and the order's `done` event completes with
 * the last launch. first < end. Not for a device that runs in its caller (clq_device_runs_in_caller). */
clq_status clq_list_run_after(clq_list *list, clq_queue *queue, size_t first, size_t end, const clq_order *order);
/* Launches each kernel once, for a full batch: for drivers that compile a kernel at its first launch. The memory that
 * launches write is set to zero before a kernel gets it, and again at the end. Memory that launches only read stays as
 * it is. Calls of libraries are left out. */
clq_status clq_list_launch_first(clq_list *list, clq_queue *queue);

/* ---- choices (choice.c) ----
 * If there are several ways to compute an operation, the operation makes a choice: a tuning key (the operation and its
 * shape) and named candidates. The first candidate is the default, from a rule that knows the device's vectors and
 * cores, but has measured nothing. The operation submits the choice to the list while the operation is added, and is
 * then computed in the way of the candidate that the list selects. The list takes
 * - the candidate of its own selections (the tuner's, or forced ones);
 * - otherwise the candidate that was measured and kept for such devices, their driver and this version of Clique;
 * - otherwise the default.
 *
 * Another candidate may add numbers in another order. So a measured candidate is used only once it is kept. */

enum { CLQ_TUNING_KEY_BYTES = 160, CLQ_CANDIDATE_BYTES = 24, CLQ_CANDIDATES_MOST = 12 };
typedef struct clq_choice {
    char key[CLQ_TUNING_KEY_BYTES]; /* "weight gradient 784x128, sum of 64" */
    struct clq_candidate {
        char name[CLQ_CANDIDATE_BYTES]; /* "8 x 2 vectors" */
        uint32_t values[2];             /* the operation knows their meaning */
    } candidates[CLQ_CANDIDATES_MOST];
    size_t count, selected;
    size_t first, end; /* the launches that depend on the choice; end 0: the whole list */
    size_t index;      /* among the list's choices; SIZE_MAX if the list did not note it */
    bool kept;         /* the selected candidate was measured and kept */
} clq_choice;
/* An operation starts a choice with its key (cut off if it is too long), and adds candidates. A candidate is not added
 * if its name is already there, or if the choice is full. */
void clq_choice_start(clq_choice *choice, const char *format, ...) CLQ_PRINTF(2, 3);
void clq_choice_add(clq_choice *choice, uint32_t value0, uint32_t value1, const char *format, ...) CLQ_PRINTF(4, 5);
/* Adds a candidate that is never measured, and only if one of the list's own selections names it. In a full choice it
 * takes the place of the last candidate. */
void clq_choice_add_named(clq_choice *choice, const clq_list *list, uint32_t value0, uint32_t value1, const char *name);
/* Selects a candidate. The list notes the choice, for the tuner, if it has several candidates and none is forced. */
const struct clq_candidate *clq_list_select(clq_list *list, clq_choice *choice);
/* The launches that depend on the choice end here, before the next one that is added. */
void clq_list_end_choice(clq_list *list, const clq_choice *choice);
size_t clq_list_choice_count(const clq_list *list);
const clq_choice *clq_list_choice(const clq_list *list, size_t index);

/* A list's own selections. If a key ends with '*', its selection forces all choices whose keys begin with what is
 * before the '*'. A variant is forced only in this way; tests and `clique bench` compare variants by it. The first
 * selection for a choice that names one of its candidates decides. If a selection has the choice's exact key but names
 * none of its candidates, the default is selected. */
typedef struct clq_selection {
    char key[CLQ_TUNING_KEY_BYTES], candidate[CLQ_CANDIDATE_BYTES];
} clq_selection;
typedef struct clq_selections {
    const clq_selection *entries;
    size_t count;
    bool by_rule; /* all other choices ignore what was kept, and select */
    size_t nth;   /* this candidate, or the last one if they have fewer */
} clq_selections;
/* The list borrows the selections until the last operation is added; NULL: none. Set them before the first
 * operation. */
void clq_list_set_selections(clq_list *list, const clq_selections *selections);

bool clq_selections_are_shared(const clq_device *a, const clq_device *b); /* whether what is kept holds for both */
/* Keeps a candidate for a key, in place of what was kept before. Errors: WRITE, MEMORY; STATE if the device has no
 * place to keep things. */
clq_status clq_selection_keep(clq_device *device, const char *key, const char *candidate);

#endif
