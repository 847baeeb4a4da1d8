/* Dense layers and plain matrix products. */
#include "ops/product/product.h"

void clq_dense_forward(clq_list *list, const clq_dense_problem *p, clq_value x, clq_value w, clq_value b, clq_value y) {
    clq_product_rows(list, &(clq_rows_product){
                               .label = "forward",
                               .patches = clq_patches_of_matrix(p->rows_per_example, p->in),
                               .columns = p->out,
                               .activation = p->activation,
                               .x = x,
                               .w = w,
                               .b = b,
                               .y = y,
                           });
}

void clq_dense_backward(clq_list *list, const clq_dense_problem *p, clq_value x, clq_value w, clq_value dz,
                        clq_value dx, clq_value dw) {
    if (dw)
        clq_product_outer(list, &(clq_outer_product){
                                    .label = "weight gradient",
                                    .patches = clq_patches_of_matrix(p->rows_per_example, p->in),
                                    .columns = p->out,
                                    .x = x,
                                    .dz = dz,
                                    .dw = dw,
                                });
    if (dx)
        clq_product_rows(list, &(clq_rows_product){
                                   .label = "input gradient",
                                   .patches = clq_patches_of_matrix(p->rows_per_example, p->out),
                                   .columns = p->in,
                                   .transposed = true,
                                   .x = dz,
                                   .w = w,
                                   .y = dx,
                               });
}

/* (rows, columns) to (columns, rows) */
static clq_value transpose(clq_list *list, size_t rows, size_t columns, bool halves, clq_value from) {
    size_t bytes = rows * columns * (halves ? 2 : sizeof(float));
    clq_value to = clq_list_value(list, CLQ_VALUE_SCRATCH, "transposed", bytes, 0);
    clq_launch_begin(list, "transpose", "product_support", halves ? "-DNUMBER=ushort" : "", "product_transpose");
    clq_launch_value(list, from, CLQ_READS);
    clq_launch_value(list, to, CLQ_WRITES);
    clq_launch_int(list, (int)rows);
    clq_launch_int(list, (int)columns);
    clq_launch_work(list, 1, (size_t[]){columns}, (size_t[]){1}, -1, 0, 0);
    clq_launch_cost(list, 0, 0, 2 * (double)bytes, 0);
    return to;
}

void clq_gemm(clq_list *list, const clq_gemm_problem *p, clq_value a, clq_value b, clq_value c) {
    if (p->transpose_a) {
        if (p->transpose_b) b = transpose(list, p->n, p->k, p->halves & CLQ_HALF_B, b);
        clq_product_outer(list, &(clq_outer_product){
                                    .label = "product",
                                    .patches = clq_patches_of_matrix(p->k, p->m),
                                    .columns = p->n,
                                    .x = a,
                                    .dz = b,
                                    .dw = c,
                                    .halves = p->halves,
                                });
        return;
    }
    clq_product_rows(list, &(clq_rows_product){
                               .label = "product",
                               .patches = clq_patches_of_matrix(p->m, p->k),
                               .columns = p->n,
                               .transposed = p->transpose_b,
                               .x = a,
                               .w = b,
                               .y = c,
                               .halves = p->halves,
                           });
}
