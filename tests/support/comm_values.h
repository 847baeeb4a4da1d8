/* Elements of every type, one by one and by the book: what the collectives' arithmetic is held against. */
#ifndef CLQ_TEST_COMM_VALUES_H
#define CLQ_TEST_COMM_VALUES_H

#include "base/base.h"
#include <clique/comm.h>

/* All that can be reduced. */
extern const clq_dtype values_dtypes[];
enum { VALUES_DTYPES = 12 };

/* A whole number as element i: rounded to the type, or wrapped round in it. */
void values_put(clq_dtype dtype, void *array, size_t i, int64_t value);
/* array[i] = any bit pattern that the random word makes: also NaN, infinities, the smallest numbers. */
void values_put_any(clq_dtype dtype, void *array, size_t i, uint64_t random);
/* out[i] = a[i] op b[i]: computed in double (f64: as is; 64 bits: exact), rounded once to float for the halves' sake,
 * then to the type. AVG is SUM here. */
void values_combine(clq_dtype dtype, clq_redop op, const void *a, const void *b, void *out, size_t i);
/* array[i] = the average that this sum of n makes. */
void values_average(clq_dtype dtype, void *array, size_t i, unsigned n);
/* The same bits; of floats, any NaN is any other and zeros have no sign. */
bool values_equal(clq_dtype dtype, const void *a, const void *b, size_t i);
/* A float nearer to zero than any normal number of the type it is computed in, which devices may take for zero. */
bool values_tiny(clq_dtype dtype, const void *array, size_t i);

#endif
