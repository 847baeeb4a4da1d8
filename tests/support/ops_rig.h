/* Runs operations on every kind of device with both kernel families. Each value has memory of its own, with a guard
 * behind it.
 *
 * All memory that a test did not fill holds 0xFF bytes (NaN): beyond the count, behind each value's end, and in
 * scratch. So a read from there shows in the results, and rig_check_untouched finds a write to it. Failures end the
 * test. */
#ifndef OPS_RIG_H
#define OPS_RIG_H

#include "ops/ops.h"
#include "support/check.h"

enum { RIG_VALUES = 48 };

typedef struct rig {
    clq_device *device;
    clq_queue *queue;
    clq_kernel_family family;
    char name[160]; /* device and family, for messages */
    clq_list *list;
    clq_step_params params;              /* of the runs; rig_run sets the count */
    clq_buffer *buffers[RIG_VALUES + 1]; /* by value */
    size_t bytes[RIG_VALUES + 1];        /* without the guard behind them; scratch has none */
    clq_selection forced[4];
    clq_selections selections;
    bool optimizes_all; /* set by a test: all programs of the tile family are optimized */
    bool plain;         /* from rig_alternate */
    char *folder;       /* of the cache, for programs that are not optimized; NULL: there is no cache */
    bool is_apart;      /* the device has that folder now, and `folder` is the one for other programs */
} rig;

/* Candidates that compute products and 3x3 convolutions, whatever is known to be faster. NULL: the list chooses. */
typedef struct rig_variant {
    const char *product, *conv;
    clq_dtype x, w, y; /* how memory stores a layer's values: x also dx, y also dz. Weights' gradients are f32 */
} rig_variant;

/* Calls body for PoCL's basic device and for Intel's CPU (PoCL's pthread device if the processor is no x86-64), for
 * each with the TILE and with the LOCAL family. On PoCL, the LOCAL family runs on a second basic device, because the
 * first device's compiler optimizes. The body must not keep anything of r->device for the next call. Under oclgrind,
 * calls body for its device alone. If CLQ_TEST_DEVICES is set, calls body for the devices of that SPEC (as
 * clq_devices_select reads it) instead: this tests the operations on any other driver, such as a GPU's.
 * CLQ_TEST_FAMILY=tile|local leaves out the other family. */
void rig_each(void (*body)(rig *r));
bool rig_is_simulated(const rig *r);
/* Whether a case with a program of its own runs on this device with this family. PoCL's device runs the cases in turn
 * with one family and the other. The other driver runs each case with the family that PoCL's device does not use for
 * it. A simulator runs every case with both families, and so does every device of CLQ_TEST_DEVICES. */
bool rig_takes(const rig *r, size_t index);
/* Whether the device runs a case of this size. A simulator takes a second for what other devices do in a millisecond,
 * so it runs small cases alone. */
bool rig_affords(const rig *r, size_t floats);

/* Programs of the tile family, which drivers for CPUs compile for users, are optimized if a kernel of their list is new
 * to this device. A kernel is told by its file, its name, its macros without numbers, the types of its values, and the
 * numbers of a few macros that choose code (chooses_code in ops_rig.c). Programs of further lists, most of which differ
 * in shapes, are not optimized: this takes a third of the time. They have a cache of their own. A program that the
 * device has already stays as it is.
 *
 * rig_alternate is for cases of which each has a kernel of its own, and whichever drivers run them: if the index is
 * even, lists from here to the next call may be optimized on PoCL's device alone, else on the other driver's alone. */
void rig_alternate(rig *r, size_t index);
/* Makes a list for the rig's device and family, with all parameters 0. The test then adds its operations to r->list. */
void rig_begin(rig *r, uint32_t capacity);
/* Forces the candidates of the variant. Call this before the first operation is added. */
void rig_force(rig *r, const rig_variant *variant);
clq_value rig_value(rig *r, const char *name, size_t fixed_bytes, size_t bytes_per_example);
/* Gives every value memory, and binds the list. */
void rig_bind(rig *r);
/* Fills the value's memory with 0xFF, then writes the data to its beginning. */
void rig_fill(rig *r, clq_value value, const void *data, size_t bytes);
void rig_run(rig *r, uint32_t count);
void rig_read(rig *r, clq_value value, void *out, size_t bytes);
/* Stores number `index` of a value in the host's copy, as the type has it: f32, f16, bf16 or u8. */
void rig_store(void *to, size_t index, clq_dtype dtype, double number);
/* Reads the first n numbers of a value that is stored as f32, f16 or bf16. */
void rig_read_stored(rig *r, clq_value value, clq_dtype dtype, float *out, size_t n);
/* One result of a run: its name in messages, the value that holds it, and its size. */
typedef struct rig_result {
    const char *what;
    clq_value value;
    size_t bytes;
} rig_result;
/* Reads what a run left in values, and checks that nothing was written behind them. Then runs again and checks that the
 * results are the same. A simulator finds races by itself, so it does not run again. clq_free each of `got`. */
void rig_read_both(rig *r, const rig_result *results, size_t n, uint32_t count, void **got);
/* Checks that nothing was written to the value from byte `from` on, nor behind the value. */
void rig_check_untouched(rig *r, clq_value value, size_t from);
/* Checks the value's n numbers as rig_check_close does, with half of the last bit of a 16-bit type added to `relative`;
 * and checks that nothing was written behind them. */
void rig_check_value(rig *r, const char *what, clq_value value, clq_dtype dtype, const double *want, size_t n,
                     double relative, double absolute);
void rig_end(rig *r);

/* Checks |got - want| <= relative * |want| + absolute for all numbers. Equal infinities are fine, and so is NaN for
 * NaN. */
void rig_check_close(const rig *r, const char *what, const float *got, const double *want, size_t n, double relative,
                     double absolute);

/* Numbers for tests. */
double rig_uniform(clq_random *random, double low, double high);
size_t rig_below(clq_random *random, size_t bound);
/* Draws random floats in [low, high), and gives them as floats and as doubles. clq_free both. */
void rig_numbers(clq_random *random, size_t n, double low, double high, float **floats, double **doubles);
/* Rounds the numbers in both arrays to F32, F16 or BF16, and returns them as memory stores them. clq_free. */
void *rig_stored(clq_dtype dtype, float *floats, double *doubles, size_t n);
/* Converts numbers that memory stores as such a type to floats. clq_free. */
float *rig_floats(clq_dtype dtype, const void *stored, size_t n);
/* The same numbers as floats, as doubles, and as memory has them. */
typedef struct rig_data {
    float *floats;
    double *exact;
    void *stored;
} rig_data;
rig_data rig_make(clq_random *random, clq_dtype dtype, size_t n, double low, double high); /* rig_release */
void rig_release(rig_data *data);
/* The largest error of storing a number as a type of 16 bits: half of the last bit. F32: 0. */
double rig_half_bit(clq_dtype dtype, double number);
/* Adds a value to the list that stores its numbers as this type. fixed, per_example: counts of numbers. */
clq_value rig_value_of(rig *r, const char *name, clq_dtype dtype, size_t fixed, size_t per_example);
/* Replaces numbers by their absolute values. Sums of these tell how large rounding errors can be. */
void rig_sizes(double *numbers, size_t n);
void *rig_alloc(size_t count, size_t size);

#endif
