/* Elements of every type, computed one by one in the plainest way: the reference for the collectives' arithmetic. */
#ifndef CLQ_TEST_COMM_VALUES_H
#define CLQ_TEST_COMM_VALUES_H

#include "base/base.h"
#include <clique/comm.h>

/* All types that can be reduced. */
extern const clq_dtype values_dtypes[];
enum { VALUES_DTYPES = 12 };

/* Sets element i to a whole number: rounded to a float type, or wrapped around in an integer type. */
void values_put(clq_dtype dtype, void *array, size_t i, int64_t value);
/* array[i] = the bits of the random word. In a float type these may be NaN, an infinity or a subnormal number. */
void values_put_any(clq_dtype dtype, void *array, size_t i, uint64_t random);
/* out[i] = a[i] op b[i]. Floats are computed in double and rounded to the type; F16 and BF16 are rounded to float
 * first. Integers are computed in 64 bits and wrap around. AVG is SUM here. */
void values_combine(clq_dtype dtype, clq_redop op, const void *a, const void *b, void *out, size_t i);
/* Turns array[i], a sum of n elements, into their average. */
void values_average(clq_dtype dtype, void *array, size_t i, unsigned n);
/* Whether both elements have the same bits. For floats, any NaN equals any other NaN, and zeros have no sign. */
bool values_equal(clq_dtype dtype, const void *a, const void *b, size_t i);
/* Whether the element is a float that is not 0 but subnormal in the type in which it is computed. Devices may take it
 * for zero. */
bool values_tiny(clq_dtype dtype, const void *array, size_t i);

#endif
