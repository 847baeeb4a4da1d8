/* Products of small matrices, many per sample. */
#include "ops/elementwise/cut.h"

#include <assert.h>

enum {
    PACKED_ROWS_LEAST = 16,  /* the fewest rows of C for which a panel of B is worth transposing */
    PACKED_DEPTH_MOST = 256, /* the most terms of a panel, which then stays in a core's first-level cache */
};

/* How many flops count as one byte of traffic when the number of cores is chosen. */
static const double flops_per_byte = 4;

clq_batched_matrix clq_batched_transposed(clq_batched_matrix matrix) {
    const size_t row = matrix.row;
    matrix.row = matrix.column;
    matrix.column = row;
    return matrix;
}

double clq_batched_flops(const clq_batched_problem *p) {
    return 2.0 * (double)(p->counts[0] * p->counts[1]) * (double)p->m * (double)p->n * (double)p->k;
}

static void add_pitches(clq_list *list, const clq_batched_matrix *matrix) {
    CLQ_LAUNCH_SIZES(list, matrix->sample, matrix->pitch[0], matrix->pitch[1], matrix->row);
}

static double numbers_of(size_t rows, size_t columns, const clq_batched_problem *p) {
    return (double)(p->counts[0] * p->counts[1]) * (double)rows * (double)columns;
}

void clq_batched(clq_list *list, const clq_batched_problem *p, clq_value a, clq_value b, clq_value c) {
    const double capacity = clq_list_capacity(list);
    const double bytes = numbers_of(p->m, p->k, p) * (double)clq_dtype_bytes(clq_list_storage(list, a)) +
                         numbers_of(p->k, p->n, p) * (double)clq_dtype_bytes(clq_list_storage(list, b)) +
                         numbers_of(p->m, p->n, p) * (double)clq_dtype_bytes(clq_list_storage(list, c));
    const clq_cut cut = clq_cut_make(list, (bytes + clq_batched_flops(p) / flops_per_byte) * capacity,
                                     numbers_of(p->m, p->n, p) * capacity, 256);
    const bool apart = cut.tile && p->b.column != 1;
    const bool packed = apart && p->b.row == 1 && p->m >= PACKED_ROWS_LEAST && p->k <= PACKED_DEPTH_MOST;
    const bool dot = apart && !packed && p->a.column == 1 && p->b.row == 1;
    assert(p->c.column == 1);
    clq_kernel_options options =
        clq_cut_options(&cut, "%s%s", dot ? " -DDOT" : "", apart && !dot && !packed ? " -DB_APART" : "");
    if (packed) clq_options_add(&options, " -DPACKED=%d", PACKED_DEPTH_MOST);
    clq_options_storage(&options, list, "A", a);
    clq_options_storage(&options, list, "B", b);
    clq_options_storage(&options, list, "C", c);
    clq_launch_begin(list, "batched", "batched", options.text, "batched");
    CLQ_LAUNCH_READS(list, a, b);
    clq_launch_value(list, c, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    CLQ_LAUNCH_SIZES(list, p->counts[0], p->counts[1], p->m, p->n, p->k);
    clq_launch_float(list, p->scale);
    add_pitches(list, &p->a);
    clq_launch_size(list, p->a.column);
    add_pitches(list, &p->b);
    clq_launch_size(list, p->b.column);
    add_pitches(list, &p->c);
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 0, clq_batched_flops(p), 0, bytes);
}
