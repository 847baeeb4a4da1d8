/* The trial of a block of products. */
#include "ops/local.h"
#include "ops/product_local.h"

/* Edges in every block, whole vectors. */
enum { M = 133, N = 68, K = 44 };

typedef struct gemm {
    size_t block;
    const clq_local_terms *terms;
    bool transposed; /* A: in memory (K, M), else (M, K). B is (K, N) */
} gemm;

/* Which operand has all the bits of a float: one alone, so that sums stay exact; none where shorter numbers do. */
static bool is_full(const gemm *g, size_t array) {
    return g->terms->precision == CLQ_MATMUL_HIGHEST && !g->terms->halves && array == (g->transposed ? 1 : 0);
}

static float number(const void *context, size_t array, size_t i) {
    float whole = (float)((int)(i * 7 % 13) - 6), fraction = (float)((int)(i % 5) - 2) / 8192;
    return is_full(context, array) ? whole + fraction : whole;
}

static bool right(const void *context, const float *c) {
    const gemm *g = context;
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n++) {
            float sum = 0;
            for (size_t k = 0; k < K; k++)
                sum += number(g, 0, g->transposed ? k * M + m : m * K + k) * number(g, 1, k * N + n);
            if (c[m * N + n] != sum) return false;
        }
    return true;
}

static void add(clq_list *list, const void *context, const clq_value values[3]) {
    const gemm *g = context;
    clq_gemm_problem p = {.m = M, .n = N, .k = K, .transpose_a = g->transposed, .halves = g->terms->halves};
    clq_list_set_product(list, CLQ_PRODUCT_LOCAL);
    clq_list_set_local_block(list, g->block);
    clq_list_set_precision(list, g->terms->precision);
    clq_gemm(list, &p, values[0], values[1], values[2]);
}

bool clq_local_block_works(clq_device *device, size_t index, const void *context) {
    const clq_local_terms *terms = context;
    clq_status status = CLQ_OK;
    bool works = true;
    for (int transposed = 0; transposed < 2 && status == CLQ_OK && works; transposed++) {
        const gemm g = {index, terms, transposed != 0};
        const clq_local_trial trial = {
            .numbers = {(size_t)M * K, (size_t)K * N, (size_t)M * N},
            .halves = {terms->halves & CLQ_HALF_A, terms->halves & CLQ_HALF_B, terms->halves & CLQ_HALF_C},
            .number = number,
            .examples = 1,
            .add = add,
            .right = right,
            .context = &g};
        status = clq_local_try(device, &trial, &works);
    }
    works = works && status == CLQ_OK;
    const clq_local_block *b = clq_local_block_get(index);
    if (!works) clq_local_warn(device, clq_local_way_name(b->way), b->rows, b->columns, "products", status);
    return works;
}
