/* Runs operations on every kind of device with both kernel families, on values with guarded memory of their own.
 *
 * All memory that a test did not fill holds 0xFF bytes (NaN): beyond the count, behind each value's end, and in
 * scratch. So reading there shows in results, and rig_check_untouched finds writes. Failures end the test. */
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
} rig;

/* Candidates that make products and 3x3 convolutions, whatever is known to be faster; NULL: as the list chooses. */
typedef struct rig_variant {
    const char *product, *conv;
    clq_dtype x, w, y; /* how memory has a layer's values: x for dx, too, y for dz. Weights' gradients are f32 */
} rig_variant;

/* Calls body for PoCL's basic device and for Intel's (PoCL's pthread device where the processor is no x86-64), each as
 * TILE and as LOCAL. Under oclgrind for its device alone. If CLQ_TEST_DEVICES is set, for the devices of that SPEC (as
 * clq_devices_select has it) instead: so the operations are tested on any other driver, such as a GPU's.
 * CLQ_TEST_FAMILY=tile|local leaves out the other one. */
void rig_each(void (*body)(rig *r));
bool rig_is_simulated(const rig *r);
/* Whether a case is run here, of those that are programs of their own: PoCL's device has each in one of the families,
 * turn by turn, and the other driver has it in the other. A simulator has all, and so has every device with
 * CLQ_TEST_DEVICES. */
bool rig_takes(const rig *r, size_t index);
/* Whether a case of this size runs on the device: the simulator takes a second for what others do in a millisecond. */
bool rig_affords(const rig *r, size_t floats);

/* A list of the rig's device and family, with all parameters 0; the ops are then added to r->list. */
void rig_begin(rig *r, uint32_t capacity);
/* Before the first operation. */
void rig_force(rig *r, const rig_variant *variant);
clq_value rig_value(rig *r, const char *name, size_t fixed_bytes, size_t bytes_per_example);
/* Gives every value memory and binds. */
void rig_bind(rig *r);
/* 0xFF everywhere in the value, then the data. */
void rig_fill(rig *r, clq_value value, const void *data, size_t bytes);
void rig_run(rig *r, uint32_t count);
void rig_read(rig *r, clq_value value, void *out, size_t bytes);
/* Number `index` of a value on the host, as a type stores it: f32, f16, bf16 or u8. */
void rig_store(void *to, size_t index, clq_dtype dtype, double number);
/* The first n numbers of a value of such a type. */
void rig_read_stored(rig *r, clq_value value, clq_dtype dtype, float *out, size_t n);
/* What a run leaves, and where. */
typedef struct rig_result {
    const char *what;
    clq_value value;
    size_t bytes;
} rig_result;
/* What a run left in values, and not behind it; checked to be the same after another run, which a simulator, that finds
 * races, is spared. clq_free each. */
void rig_read_both(rig *r, const rig_result *results, size_t n, uint32_t count, void **got);
/* Nothing was written from byte `from` on, nor behind the value. */
void rig_check_untouched(rig *r, clq_value value, size_t from);
/* The value's n numbers, as of rig_check_close with half a bit of a type of 16 bits on top of `relative`; and nothing
 * was written behind them. */
void rig_check_value(rig *r, const char *what, clq_value value, clq_dtype dtype, const double *want, size_t n,
                     double relative, double absolute);
void rig_end(rig *r);

/* |got - want| <= relative * |want| + absolute for all; equal infinities and NaN for NaN are fine. */
void rig_check_close(const rig *r, const char *what, const float *got, const double *want, size_t n, double relative,
                     double absolute);

/* Numbers for tests. */
double rig_uniform(clq_random *random, double low, double high);
size_t rig_below(clq_random *random, size_t bound);
/* Random floats in [low, high) as floats and as the same numbers in double. Free with clq_free. */
void rig_numbers(clq_random *random, size_t n, double low, double high, float **floats, double **doubles);
/* Numbers as a type of F32, F16 or BF16 stores them: rounds both, and gives what memory has. clq_free. */
void *rig_stored(clq_dtype dtype, float *floats, double *doubles, size_t n);
/* What memory of such a type has, as floats. clq_free. */
float *rig_floats(clq_dtype dtype, const void *stored, size_t n);
/* The same numbers as floats, as doubles, and as memory has them. */
typedef struct rig_data {
    float *floats;
    double *exact;
    void *stored;
} rig_data;
rig_data rig_make(clq_random *random, clq_dtype dtype, size_t n, double low, double high); /* rig_release */
void rig_release(rig_data *data);
/* How far a number that is stored may be from one that is not: half of the last bit. */
double rig_half_bit(clq_dtype dtype, double number);
/* A value of the list with such numbers. */
clq_value rig_value_of(rig *r, const char *name, clq_dtype dtype, size_t fixed, size_t per_example);
/* Makes numbers their absolute values: what sums of them tell is how large rounding errors can be. */
void rig_sizes(double *numbers, size_t n);
void *rig_alloc(size_t count, size_t size);

#endif
