/* The arithmetic of the direct algorithm, on the host's own pointers. */
#ifndef CLQ_COMM_REDUCE_H
#define CLQ_COMM_REDUCE_H

#include <stddef.h>

/* For begin <= i < end: the sum of in[0][i], in[1][i], … in this order is written to every out[k][i]. in[k] and
 * out[k] may be the same; other overlaps may not be. */
typedef void clq_reduce_f32(const float *const *in, float *const *out, unsigned ranks, size_t begin, size_t end);

/* The one for the widest vectors that this processor has; all give the same bits. */
clq_reduce_f32 *clq_reduce_f32_best(void);

#endif
