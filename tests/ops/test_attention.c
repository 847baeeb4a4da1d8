/* Attention of whole texts in one launch, against its definition in double. */
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

typedef struct attention_case {
    size_t outer, heads, tokens, others, key, value;
    clq_attention_mask masked;
    bool by_head;  /* heads lie one after the other, not side by side */
    bool apart;    /* keys' rows lie side by side, not their columns */
    size_t period; /* how many numbers the mask has for all samples; 0: one for each score of each sample */
} attention_case;

static const attention_case cases[] = {
    {1, 1, 1, 1, 1, 1, CLQ_ATTENTION_ALL, false, false, 0},
    {1, 2, 5, 5, 8, 8, CLQ_ATTENTION_ALL, false, false, 0},
    {2, 3, 7, 9, 5, 3, CLQ_ATTENTION_ADDS, true, true, 0},
    {1, 2, 6, 6, 4, 19, CLQ_ATTENTION_ADDS, false, false, 36},
    {1, 2, 4, 17, 16, 80, CLQ_ATTENTION_SELECTS, true, false, 0},
    {2, 1, 3, 33, 19, 35, CLQ_ATTENTION_SELECTS, true, true, 33},
    {1, 1, 70, 70, 16, 16, CLQ_ATTENTION_ALL, false, true, 0},
};

static clq_batched_matrix matrix_of(const attention_case *c, size_t rows, size_t columns) {
    const size_t one = rows * columns;
    if (c->by_head)
        return (clq_batched_matrix){
            .sample = c->outer * c->heads * one, .pitch = {c->heads * one, one}, .row = columns, .column = 1};
    return (clq_batched_matrix){.sample = c->outer * c->heads * one,
                                .pitch = {c->heads * one, columns},
                                .row = c->heads * columns,
                                .column = 1};
}

static clq_attention_problem problem_of(const attention_case *c) {
    const size_t pairs = c->tokens * c->others;
    clq_attention_problem p = {.counts = {c->outer, c->heads},
                               .tokens = c->tokens,
                               .others = c->others,
                               .key = c->key,
                               .value = c->value,
                               .q = matrix_of(c, c->tokens, c->key),
                               .k = matrix_of(c, c->others, c->key),
                               .v = matrix_of(c, c->others, c->value),
                               .y = matrix_of(c, c->tokens, c->value),
                               .masked = c->masked,
                               .scale = 0.37f,
                               .low = -3e4f};
    if (c->apart)
        p.k = (clq_batched_matrix){.sample = c->outer * c->heads * c->others * c->key,
                                   .pitch = {c->heads * c->others * c->key, c->others * c->key},
                                   .row = 1,
                                   .column = c->others};
    p.mask.column = 1;
    if (c->period != c->others) p.mask.row = c->others;
    if (c->period == 0) {
        p.mask.sample = c->outer * c->heads * pairs;
        p.mask.pitch[0] = c->heads * pairs;
        p.mask.pitch[1] = pairs;
    }
    return p;
}

static void check(rig *r, const attention_case *c, uint32_t count) {
    const clq_attention_problem p = problem_of(c);
    const size_t matrices = c->outer * c->heads, out = matrices * c->tokens * c->value,
                 scores = matrices * c->tokens * c->others, masks = c->period ? c->period : scores * count;
    clq_random random = clq_random_start(82, c->others);
    rig_data q = rig_make(&random, CLQ_F32, p.q.sample * count, -2, 2),
             k = rig_make(&random, CLQ_F32, p.k.sample * count, -2, 2),
             v = rig_make(&random, CLQ_F32, p.v.sample * count, -1, 1), mask = rig_make(&random, CLQ_F32, masks, -1, 1);
    double *want = rig_alloc(out * count + 1, sizeof *want);
    for (size_t i = 0; i < masks && c->masked == CLQ_ATTENTION_SELECTS; i += 3)
        mask.exact[i] = (double)(((float *)mask.stored)[i] = 0);
    rig_begin(r, 3);
    const clq_value vq = rig_value_of(r, "q", CLQ_F32, 0, p.q.sample),
                    vk = rig_value_of(r, "k", CLQ_F32, 0, p.k.sample),
                    vv = rig_value_of(r, "v", CLQ_F32, 0, p.v.sample),
                    vm = rig_value_of(r, "mask", CLQ_F32, c->period, c->period ? 0 : scores),
                    vy = rig_value_of(r, "y", CLQ_F32, 0, out);
    clq_attention_forward(r->list, &p, vq, vk, vv, vm, vy);
    rig_bind(r);
    rig_fill(r, vq, q.stored, p.q.sample * count * sizeof(float));
    rig_fill(r, vk, k.stored, p.k.sample * count * sizeof(float));
    rig_fill(r, vv, v.stored, p.v.sample * count * sizeof(float));
    rig_fill(r, vm, mask.stored, masks * sizeof(float));
    rig_run(r, count);
    ref_attention(&p, count, q.exact, k.exact, v.exact, mask.exact, want);
    rig_check_value(r, "y", vy, CLQ_F32, want, out * count, 2e-6, 2e-6);
    rig_end(r);
    rig_data *const data[] = {&q, &k, &v, &mask};
    for (size_t i = 0; i < CLQ_COUNT_OF(data); i++) rig_release(data[i]);
    clq_free(want);
}

static void attention(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        const attention_case *c = &cases[i];
        if (!rig_affords(r, c->outer * c->heads * c->tokens * c->others * (c->key + c->value))) continue;
        check(r, c, 3);
        check(r, c, i % 2 ? 0 : 2);
    }
}

static void test_attention(void **state) {
    (void)state;
    rig_each(attention);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention)};
    return cmocka_run_group_tests_name("ops/attention", tests, NULL, NULL);
}
