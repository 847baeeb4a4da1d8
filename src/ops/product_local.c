/* Products for devices with work-groups and local memory (cl/product_local.cl). */
#include "ops/product.h"

#include <stdio.h>

enum { DEEP = 16, SIDE_MOST = 16, TERMS_LEAST = 256, GROUPS_PER_UNIT = 4 };

/* Work-items along one side of a work-group: a block of C has four times as many rows and columns. */
static size_t side_of(const clq_list *list) {
    size_t most = clq_device_get_info(clq_list_device(list))->max_work_group, side = SIDE_MOST;
    while (side > 1 && side * side > most) side /= 2;
    return side;
}

static void add_options(char *options, size_t used, const clq_patches *p, size_t side, const char *more) {
    (void)snprintf(options + used, CLQ_PRODUCT_OPTIONS - used, "-DSIDE=%zu -DDEEP=%d%s%s", side, DEEP,
                   clq_patches_are_matrix(p) ? " -DMATRIX" : "", more);
}

void clq_product_rows_local(clq_list *list, const clq_rows_product *p) {
    size_t side = side_of(list), block = 4 * side, panels = clq_ceil_div(p->columns, block);
    char options[CLQ_PRODUCT_OPTIONS], more[64];
    (void)snprintf(more, sizeof more, " -DACT=%d%s%s", (int)p->activation, p->b ? " -DBIAS" : "",
                   p->transposed ? " -DB_TRANSPOSED" : "");
    add_options(options, clq_patches_options(&p->patches, p->columns, options, sizeof options), &p->patches, side,
                more);
    clq_launch_begin(list, p->label, "product_local", options, "product_rows");
    clq_launch_value(list, p->x, CLQ_READS);
    clq_launch_value(list, p->w, CLQ_READS);
    clq_launch_value(list, p->b, CLQ_READS);
    clq_launch_value(list, p->y, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    size_t pixels = p->patches.rows * p->patches.h.out * p->patches.w.out;
    clq_launch_work(list, 2, (size_t[]){panels * side, 0}, (size_t[]){side, side}, 1, pixels, block);
    clq_product_cost(list, &p->patches, p->columns);
}

void clq_product_outer_local(clq_list *list, const clq_outer_product *p) {
    size_t side = side_of(list), block = 4 * side, panels = clq_ceil_div(p->columns, block);
    size_t tiles = clq_ceil_div(clq_patches_depth(&p->patches), block);
    size_t units = clq_device_get_info(clq_list_device(list))->compute_units;
    size_t slices = clq_product_slices(list, &p->patches, p->columns,
                                       clq_ceil_div(units * GROUPS_PER_UNIT, tiles * panels), TERMS_LEAST);
    char options[CLQ_PRODUCT_OPTIONS], more[64];
    (void)snprintf(more, sizeof more, " -DOUTER -DSLICES=%zu", slices);
    add_options(options, clq_patches_options(&p->patches, p->columns, options, sizeof options), &p->patches, side,
                more);
    clq_value partial = clq_product_partial(list, p, slices);
    clq_launch_begin(list, p->label, "product_local", options, "product_outer");
    clq_launch_value(list, p->x, CLQ_READS);
    clq_launch_value(list, p->dz, CLQ_READS);
    clq_launch_value(list, partial, CLQ_WRITES);
    clq_launch_param(list, CLQ_PARAM_COUNT);
    clq_launch_work(list, 3, (size_t[]){panels * side, tiles * side, slices}, (size_t[]){side, side, 1}, -1, 0, 0);
    clq_product_cost(list, &p->patches, p->columns);
    clq_product_reduce(list, p, partial, slices);
}
