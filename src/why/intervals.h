/* Sets of time intervals, by which traces are explained. Private to why. */
#ifndef CLQ_WHY_INTERVALS_H
#define CLQ_WHY_INTERVALS_H

#include "base/base.h"

typedef struct clq_interval {
    double begin, end;
} clq_interval;
/* Start with {0}, end with clq_free(items). */
typedef struct clq_intervals {
    clq_interval *items;
    size_t count, capacity;
} clq_intervals;
clq_status clq_intervals_add(clq_intervals *set, double begin, double end); /* in any order; end >= begin */
/* Sorts, and joins intervals that overlap or touch. clq_intervals_take takes sets in this form. */
void clq_intervals_join(clq_intervals *set);
/* Moves the intersection of `from` and `what` from `from` to *taken, which must be {0}. If an interval is cut in two,
 * its halves stay separate. */
clq_status clq_intervals_take(clq_intervals *from, const clq_intervals *what, clq_intervals *taken);

#endif
