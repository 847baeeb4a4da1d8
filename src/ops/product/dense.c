/* Dense layers and plain matrix products. */
#include "ops/product/product.h"

clq_product clq_product_forward(clq_patches patches, size_t columns, clq_activation activation, clq_value x,
                                clq_value w, clq_value b, clq_value y) {
    return (clq_product){
        .label = "forward",
        .patches = patches,
        .columns = columns,
        .activation = activation,
        .a = x,
        .b = w,
        .bias = b,
        .c = y,
    };
}

clq_product clq_product_weight_gradient(clq_patches patches, size_t columns, clq_value x, clq_value dz, clq_value dw,
                                        bool adds) {
    return (clq_product){
        .label = "weight gradient",
        .patches = patches,
        .columns = columns,
        .outer = true,
        .a = x,
        .b = dz,
        .c = dw,
        .adds = adds,
    };
}

clq_product clq_product_input_gradient(clq_patches patches, size_t columns, clq_value dz, clq_value w, clq_value dx) {
    return (clq_product){
        .label = "input gradient",
        .patches = patches,
        .columns = columns,
        .transposed = true,
        .a = dz,
        .b = w,
        .c = dx,
    };
}

void clq_dense_forward(clq_list *list, const clq_dense_problem *p, clq_value x, clq_value w, clq_value b, clq_value y) {
    const clq_patches patches = clq_patches_of_matrix(p->rows_per_example, p->in);
    const clq_product product = clq_product_forward(patches, p->out, p->activation, x, w, b, y);
    clq_product_add(list, &product);
}

void clq_dense_backward(clq_list *list, const clq_dense_problem *p, clq_value x, clq_value w, clq_value dz,
                        clq_value dx, clq_value dw) {
    const clq_patches of_x = clq_patches_of_matrix(p->rows_per_example, p->in);
    const clq_patches of_z = clq_patches_of_matrix(p->rows_per_example, p->out);
    const clq_product weights = clq_product_weight_gradient(of_x, p->out, x, dz, dw, p->adds);
    const clq_product input = clq_product_input_gradient(of_z, p->in, dz, w, dx);
    if (dw) clq_product_add(list, &weights);
    if (dx) clq_product_add(list, &input);
}

/* (rows, columns) to (columns, rows) */
static clq_value transpose(clq_list *list, size_t rows, size_t columns, clq_value from) {
    const clq_dtype dtype = clq_list_storage(list, from);
    clq_value to = clq_list_scratch(list, "transposed", dtype, rows * columns, 0);
    clq_launch_begin(list, "transpose", "product_support", clq_is_short(list, from) ? "-DNUMBER=ushort" : "",
                     "product_transpose");
    clq_launch_value(list, from, CLQ_READS);
    clq_launch_value(list, to, CLQ_WRITES);
    CLQ_LAUNCH_SIZES(list, rows, columns);
    clq_launch_work(list, 1, (size_t[]){columns}, (size_t[]){1}, -1, 0, 0);
    clq_launch_cost(list, 0, 0, 2 * (double)clq_values_bytes(dtype, rows * columns), 0);
    return to;
}

clq_product clq_product_of_gemm(const clq_gemm_problem *p, clq_value a, clq_value b, clq_value c) {
    return (clq_product){
        .label = "product",
        .patches = p->transpose_a ? clq_patches_of_matrix(p->k, p->m) : clq_patches_of_matrix(p->m, p->k),
        .columns = p->n,
        .outer = p->transpose_a,
        .transposed = p->transpose_b && !p->transpose_a,
        .a = a,
        .b = b,
        .c = c,
    };
}

void clq_gemm(clq_list *list, const clq_gemm_problem *p, clq_value a, clq_value b, clq_value c) {
    if (p->transpose_a && p->transpose_b) b = transpose(list, p->n, p->k, b);
    const clq_product product = clq_product_of_gemm(p, a, b, c);
    clq_product_add(list, &product);
}
