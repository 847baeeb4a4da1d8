/* Attention over rows of keys and values that are kept from run to run, against its definition in double. */
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <math.h>
#include <string.h>

typedef struct cached_case {
    size_t context, heads, shared, key, value, window;
    uint32_t capacity;
    size_t begin; /* the first token's place */
} cached_case;

static const cached_case cases[] = {
    {9, 2, 2, 8, 8, 0, 1, 0},     /* the first token of a text */
    {9, 2, 2, 8, 8, 0, 4, 5},     /* up to the last place */
    {21, 6, 2, 19, 35, 0, 3, 11}, /* several queries to a head; beside whole vectors */
    {40, 4, 1, 16, 80, 7, 5, 30}, /* a window; more values than a group's items, or as many as four vectors and more */
    {33, 1, 1, 1, 1, 40, 2, 31},  /* a window that is longer than the text */
    {300, 4, 4, 64, 64, 0, 2, 290},
};

static double *copy_of(const double *numbers, size_t n) {
    double *copy = rig_alloc(n, sizeof *copy);
    memcpy(copy, numbers, n * sizeof *copy);
    return copy;
}

/* The caches have rows before the samples' rows, and NaN after them, which must not be read. */
static void check(rig *r, const cached_case *c, uint32_t count) {
    const clq_cached_problem p = {c->context, c->heads, c->shared, c->key, c->value, c->window, 0.37};
    const size_t key_row = p.shared * p.key, value_row = p.shared * p.value, out = p.heads * p.value;
    clq_random random = clq_random_start(81, c->context);
    rig_data q = rig_make(&random, CLQ_F32, p.heads * p.key * count, -2, 2),
             k = rig_make(&random, CLQ_F32, key_row * count, -2, 2),
             v = rig_make(&random, CLQ_F32, value_row * count, -1, 1),
             keys = rig_make(&random, CLQ_F32, key_row * p.context, -2, 2),
             values = rig_make(&random, CLQ_F32, value_row * p.context, -1, 1);
    float places[8];
    double exact[8], *want = rig_alloc(out * count + 1, sizeof *want), *all_keys, *all_values;
    for (uint32_t i = 0; i < count; i++) exact[i] = (double)(places[i] = (float)(c->begin + i));
    rig_begin(r, c->capacity);
    clq_value vq = rig_value_of(r, "q", CLQ_F32, 0, p.heads * p.key), vk = rig_value_of(r, "k", CLQ_F32, 0, key_row),
              vv = rig_value_of(r, "v", CLQ_F32, 0, value_row), vp = rig_value_of(r, "places", CLQ_F32, 0, 1),
              vkeys = rig_value_of(r, "keys", CLQ_F32, key_row * p.context, 0),
              vvalues = rig_value_of(r, "values", CLQ_F32, value_row * p.context, 0),
              vy = rig_value_of(r, "y", CLQ_F32, 0, out);
    clq_cached_append(r->list, &p, vk, vv, vp, vkeys, vvalues);
    clq_cached_attend(r->list, &p, vq, vkeys, vvalues, vp, vy);
    rig_bind(r);
    rig_fill(r, vq, q.stored, p.heads * p.key * count * sizeof(float));
    rig_fill(r, vk, k.stored, key_row * count * sizeof(float));
    rig_fill(r, vv, v.stored, value_row * count * sizeof(float));
    rig_fill(r, vp, places, count * sizeof(float));
    rig_fill(r, vkeys, keys.stored, key_row * c->begin * sizeof(float));
    rig_fill(r, vvalues, values.stored, value_row * c->begin * sizeof(float));
    rig_run(r, count);
    all_keys = copy_of(keys.exact, key_row * p.context);
    all_values = copy_of(values.exact, value_row * p.context);
    ref_cached_append(&p, count, k.exact, v.exact, exact, all_keys, all_values);
    ref_cached_attend(&p, count, q.exact, all_keys, all_values, exact, want);
    rig_check_value(r, "y", vy, CLQ_F32, want, out * count, 2e-6, 2e-6);
    rig_check_value(r, "keys", vkeys, CLQ_F32, all_keys, key_row * (c->begin + count), 0, 0);
    rig_check_value(r, "values", vvalues, CLQ_F32, all_values, value_row * (c->begin + count), 0, 0);
    rig_end(r);
    rig_data *const data[] = {&q, &k, &v, &keys, &values};
    for (size_t i = 0; i < CLQ_COUNT_OF(data); i++) rig_release(data[i]);
    clq_free(want);
    clq_free(all_keys);
    clq_free(all_values);
}

static void cached(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        const cached_case *c = &cases[i];
        if (!rig_affords(r, c->context * c->shared * (c->key + c->value))) continue;
        check(r, c, c->capacity);
        if (c->capacity > 1) check(r, c, i % 2 ? 0 : c->capacity - 1);
    }
}

static void test_cached(void **state) {
    (void)state;
    rig_each(cached);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cached)};
    return cmocka_run_group_tests_name("ops/cached", tests, NULL, NULL);
}
