/* The trials of a block of products. */
#include "ops/local/local.h"
#include "ops/product/product_local.h"

#include <stdio.h>

/* These problems have edges in every block. They cover loads of vectors and of single numbers; A and B as they lie and
 * transposed; steps that end with the sum and steps that reach beyond it; and sums that are cut into slices or added to
 * C in parts. */
static const clq_gemm_problem problems[] = {
    {.m = 133, .n = 68, .k = 44},
    {.m = 132, .n = 68, .k = 44, .transpose_a = true},
    {.m = 20, .n = 67, .k = 64, .transpose_b = true},
    {.m = 20, .n = 36, .k = 2080},
};
enum { TRIALS = CLQ_COUNT_OF(problems), LONG = TRIALS - 1 };

typedef struct gemm {
    clq_gemm_problem p;
    size_t block;
    const clq_local_terms *terms;
} gemm;

/* Whether an array's numbers use all the bits of a float. Only one array may, so that sums stay exact. Neither does if
 * shorter numbers are allowed, or if the sums are long. */
static bool is_full(const gemm *g, size_t array) {
    if (g->terms->precision != CLQ_MATMUL_HIGHEST || g->p.k == problems[LONG].k) return false;
    for (size_t i = 0; i < 3; i++)
        if (g->terms->storage[i] != CLQ_F32) return false;
    return array == (g->p.transpose_a ? 1 : 0);
}

/* Small whole numbers, with a fraction if the array is full. */
static float number(const void *context, size_t array, size_t i) {
    float whole = (float)((int)(i * 7 % 13) - 6), fraction = (float)((int)(i % 5) - 2) / 8192;
    return is_full(context, array) ? whole + fraction : whole;
}

static float as_stored(clq_dtype dtype, float sum) {
    if (dtype == CLQ_F16) return clq_half_to_float(clq_half_of_float(sum));
    return dtype == CLQ_BF16 ? clq_bfloat_to_float(clq_bfloat_of_float(sum)) : sum;
}

static bool right(const void *context, const float *c) {
    const gemm *g = context;
    const clq_gemm_problem *p = &g->p;
    for (size_t m = 0; m < p->m; m++)
        for (size_t n = 0; n < p->n; n++) {
            float sum = 0;
            for (size_t k = 0; k < p->k; k++)
                sum += number(g, 0, p->transpose_a ? k * p->m + m : m * p->k + k) *
                       number(g, 1, p->transpose_b ? n * p->k + k : k * p->n + n);
            if (c[m * p->n + n] != as_stored(g->terms->storage[2], sum)) return false;
        }
    return true;
}

static void add(clq_list *list, const void *context, const clq_value values[3]) {
    const gemm *g = context;
    const clq_product product = clq_product_of_gemm(&g->p, values[0], values[1], values[2]);
    clq_list_set_precision(list, g->terms->precision);
    clq_product_by_local(list, &product, g->block);
}

bool clq_local_block_works(clq_device *device, size_t index, const void *context) {
    static const char *const of_floats[] = {
        [CLQ_MATMUL_HIGHEST] = "", [CLQ_MATMUL_HIGH] = ", high", [CLQ_MATMUL_MEDIUM] = ", medium"};
    const clq_local_terms *terms = context;
    gemm gemms[TRIALS];
    clq_local_trial trials[TRIALS];
    const clq_dtype *storage = terms->storage;
    char block[CLQ_CANDIDATE_BYTES], stored[CLQ_STORAGE_NAME_BYTES], name[CLQ_CANDIDATE_BYTES + sizeof stored + 8];
    for (size_t i = 0; i < TRIALS; i++) {
        gemms[i] = (gemm){problems[i], index, terms};
        const clq_gemm_problem *p = &gemms[i].p;
        trials[i] = (clq_local_trial){.numbers = {p->m * p->k, p->k * p->n, p->m * p->n},
                                      .storage = {storage[0], storage[1], storage[2]},
                                      .number = number,
                                      .examples = 1,
                                      .add = add,
                                      .right = right,
                                      .context = &gemms[i]};
    }
    clq_local_block_name(index, block);
    clq_product_name_storage(storage, stored);
    (void)snprintf(name, sizeof name, "%s%s%s", block, of_floats[terms->precision], stored);
    /* A 16-bit result cannot hold a long sum exactly. */
    return clq_local_works(device, name, "products", trials, storage[2] == CLQ_F32 ? TRIALS : (size_t)LONG);
}
