/* How operations that are no products are cut up: few fat work-items, each with a run of the work, where kernels are
 * written as tiles; else work-groups that step through the work side by side. The cut depends on the device and the
 * capacity, never on the count: kernels divide what the count gives them among all that were launched, so sums have
 * as many parts in every run. */
#ifndef CLQ_OPS_CUT_H
#define CLQ_OPS_CUT_H

#include "ops/ops.h"

typedef struct clq_cut {
    bool tile;
    size_t groups; /* work-groups; of one item each where tile */
    size_t group;  /* items of a work-group */
    size_t lanes;  /* floats of a kernel's vector */
} clq_cut;

/* bytes: memory traffic of a full batch, which says how many cores it is worth. units: what the items of work-groups
 * can be given one of (vectors, elements). group: the wished size of a work-group, a power of two. */
clq_cut clq_cut_make(const clq_list *list, double bytes, double units, size_t group);
/* "-DTILE", or "-DGROUP=64", then what the format says. */
clq_kernel_options clq_cut_options(const clq_cut *cut, const char *format, ...) CLQ_PRINTF(2, 3);
/* The launch's work: all of the cut's groups, or one of them. */
void clq_cut_work(clq_list *list, const clq_cut *cut);
void clq_cut_work_one(clq_list *list, const clq_cut *cut);
/* out (numbers) = the sums of partials (slices, numbers), slice by slice. (fold.c) */
void clq_fold(clq_list *list, size_t slices, size_t numbers, clq_value partials, clq_value out);
/* Into how many slices to cut a sum of `rows` rows of a full batch that gives so many numbers: of tiles, one for each
 * of the cut's items. */
size_t clq_fold_slices(const clq_list *list, const clq_cut *cut, size_t rows, size_t numbers);

/* The longest vector that a size, or each of several sizes that were or-ed, is a multiple of: a power of two. */
size_t clq_cut_pack(const clq_cut *cut, size_t sizes);

#endif
