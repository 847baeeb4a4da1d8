/* How operations other than products are divided among work-items. If kernels are written as tiles, there are few
 * work-items, each with a run of the work. Otherwise work-groups step through the work side by side. The cut depends on
 * the device and the capacity, never on the count. Kernels divide the work of the count among all items that were
 * launched, so a sum has as many parts in every run. */
#ifndef CLQ_OPS_CUT_H
#define CLQ_OPS_CUT_H

#include "ops/ops.h"

typedef struct clq_cut {
    bool tile;
    size_t groups; /* work-groups; with one item each if tile */
    size_t group;  /* items of a work-group */
    size_t lanes;  /* floats of a kernel's vector */
} clq_cut;

/* bytes: memory traffic of a full batch, which determines how many cores to use. units: pieces of work (vectors,
 * elements) that can be given to one item of a work-group. group: the preferred size of a work-group, a power of
 * two. */
clq_cut clq_cut_make(const clq_list *list, double bytes, double units, size_t group);
/* "-DTILE" or, for example, "-DGROUP=64", followed by the formatted text. */
clq_kernel_options clq_cut_options(const clq_cut *cut, const char *format, ...) CLQ_PRINTF(2, 3);
/* Sets the launch's work: all groups of the cut, or one group. */
void clq_cut_work(clq_list *list, const clq_cut *cut);
void clq_cut_work_one(clq_list *list, const clq_cut *cut);
/* out (numbers) = the sums of partials (slices, numbers), slice by slice. (fold.c) */
void clq_fold(clq_list *list, size_t slices, size_t numbers, clq_value partials, clq_value out);
/* How many slices to cut a sum into that adds `rows` rows of a full batch and has `numbers` results. For tiles, at most
 * one slice per item of the cut. */
size_t clq_fold_slices(const clq_list *list, const clq_cut *cut, size_t rows, size_t numbers);

/* The length of the longest vector that divides a size. Several sizes can be or-ed. A power of two. */
size_t clq_cut_pack(const clq_cut *cut, size_t sizes);

#endif
