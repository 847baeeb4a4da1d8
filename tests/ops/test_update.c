#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const size_t lengths[] = {1, 3, 15, 16, 17, 63, 64, 65, 1009, 60013};

enum { STEPS = 5 };
typedef enum optimizer { SGD, MOMENTUM, NESTEROV, ADAM, OPTIMIZERS } optimizer;

static void add_ranks(rig *r, optimizer kind, const clq_update_arenas *arenas) {
    if (kind == ADAM)
        clq_update_adam(r->list, arenas, 0.9, 0.999, 1e-7);
    else
        clq_update_sgd(r->list, arenas, kind == SGD ? 0 : 0.9f, kind == NESTEROV);
}

static void add_update(rig *r, optimizer kind, size_t n, clq_value w, clq_value g, clq_value m, clq_value v) {
    add_ranks(r, kind, &(clq_update_arenas){.w = w, .g = g, .m = m, .v = kind == ADAM ? v : m, .floats = n});
}

static void step_reference(optimizer kind, size_t n, double rate, double *w, const double *g, double *m, double *v) {
    if (kind == ADAM)
        ref_adam(n, rate, 0.9, 0.999, 1e-7, w, g, m, v);
    else
        ref_sgd(n, rate, kind == SGD ? 0 : (double)0.9f, kind == NESTEROV, w, g, m);
}

/* The rate of step t as the caller makes it. */
static double rate_of(optimizer kind, int t) {
    return kind == ADAM ? 1e-3 * sqrt(1 - pow(0.999, t)) / (1 - pow(0.9, t)) : 0.01;
}

typedef struct flat {
    clq_value w, g, m, v;
} flat;

/* A list of the update alone, with these weights and states of zeros. */
static flat begin_update(rig *r, optimizer kind, size_t n, const float *w) {
    float *zeros = rig_alloc(n, sizeof(float));
    size_t bytes = n * sizeof(float);
    rig_begin(r, 1);
    flat a = {.w = rig_value(r, "w", bytes, 0)};
    a.g = rig_value(r, "g", bytes, 0);
    a.m = rig_value(r, "m", bytes, 0);
    a.v = rig_value(r, "v", bytes, 0);
    add_update(r, kind, n, a.w, a.g, a.m, a.v);
    rig_bind(r);
    rig_fill(r, a.w, w, bytes);
    rig_fill(r, a.m, zeros, bytes);
    rig_fill(r, a.v, zeros, bytes);
    clq_free(zeros);
    return a;
}

static void check_update(rig *r, optimizer kind, size_t n) {
    clq_random random = clq_random_start(7, n);
    float *w, *g, *got = rig_alloc(n, sizeof(float));
    double *want_w, *want_g, *want_m = rig_alloc(n, sizeof(double)), *want_v = rig_alloc(n, sizeof(double));
    size_t bytes = n * sizeof(float);
    rig_numbers(&random, n, -1, 1, &w, &want_w);
    flat a = begin_update(r, kind, n, w);
    for (int t = 1; t <= STEPS; t++) {
        rig_numbers(&random, n, -0.5, 0.5, &g, &want_g);
        if (t > 1) g[0] = 0, want_g[0] = 0;
        rig_fill(r, a.g, g, bytes);
        float rate = (float)rate_of(kind, t);
        r->params.rate = rate;
        rig_run(r, 1);
        step_reference(kind, n, (double)rate, want_w, want_g, want_m, want_v);
        clq_free(g);
        clq_free(want_g);
    }
    rig_read(r, a.w, got, bytes);
    rig_check_close(r, "w", got, want_w, n, 1e-6, 2e-7);
    if (kind != SGD) {
        rig_read(r, a.m, got, bytes);
        rig_check_close(r, "m", got, want_m, n, 2e-6, 1e-7);
    }
    if (kind == ADAM) {
        rig_read(r, a.v, got, bytes);
        rig_check_close(r, "v", got, want_v, n, 2e-6, 0);
    }
    rig_end(r);
    clq_free(w);
    clq_free(want_w);
    clq_free(want_m);
    clq_free(want_v);
    clq_free(got);
}

static void updates(rig *r) {
    for (optimizer kind = SGD; kind < OPTIMIZERS; kind++)
        for (size_t i = 0; i < CLQ_COUNT_OF(lengths); i++)
            if (rig_affords(r, lengths[i])) check_update(r, kind, lengths[i]);
}

/* ---- an update that several replicas shard ---- */

enum { PART = 128 }; /* floats: parts begin at multiples */

static size_t part_begin(size_t n, unsigned rank, unsigned ranks) {
    return rank == ranks ? n : n / PART * rank / ranks * PART;
}

/* Replicas with gradients of their own; all on one device, one after the other. */
typedef struct sharding {
    unsigned ranks;
    size_t n;
    clq_value w[CLQ_UPDATE_RANKS_MAX], g[CLQ_UPDATE_RANKS_MAX], m[CLQ_UPDATE_RANKS_MAX], v[CLQ_UPDATE_RANKS_MAX];
} sharding;

static void begin_sharded(rig *r, optimizer kind, sharding *s) {
    size_t bytes = s->n * sizeof(float);
    rig_begin(r, 1);
    for (unsigned i = 0; i < s->ranks; i++) {
        s->w[i] = rig_value(r, "w", bytes, 0);
        s->g[i] = rig_value(r, "g", bytes, 0);
        s->m[i] = rig_value(r, "m", bytes, 0);
        s->v[i] = rig_value(r, "v", bytes, 0);
    }
    for (unsigned i = 0; i < s->ranks; i++) {
        size_t begin = part_begin(s->n, i, s->ranks);
        clq_update_arenas arenas = {.w = s->w[i],
                                    .g = s->g[i],
                                    .m = s->m[i],
                                    .v = kind == ADAM ? s->v[i] : s->m[i],
                                    .first = begin,
                                    .floats = part_begin(s->n, i + 1, s->ranks) - begin,
                                    .ranks = s->ranks,
                                    .rank = i};
        for (unsigned k = 0; k + 1 < s->ranks; k++) arenas.peers[k] = s->g[(i + 1 + k) % s->ranks];
        add_ranks(r, kind, &arenas);
    }
    rig_bind(r);
}

/* Where its gradient was every replica gets the weights that one would get from the sum of the gradients, which the
 * test makes in the order of ranks; where its weights were, the sum of its part. The rest stays, of its states, too. */
static void check_sharded(rig *r, optimizer kind, unsigned ranks, size_t n) {
    clq_random random = clq_random_start(23, n + ranks);
    size_t bytes = n * sizeof(float);
    float *w, *g, *sum = rig_alloc(n, sizeof(float)), *want = rig_alloc(n, sizeof(float)),
                  *got = rig_alloc(n, sizeof(float));
    double *unused;
    sharding s = {.ranks = ranks, .n = n};
    rig_numbers(&random, n, -1, 1, &w, &unused);
    clq_free(unused);
    begin_sharded(r, kind, &s);
    for (unsigned i = 0; i < ranks; i++) {
        rig_numbers(&random, n, -0.5, 0.5, &g, &unused);
        for (size_t k = 0; k < n; k++) sum[k] = i ? sum[k] + g[k] : g[k];
        rig_fill(r, s.w[i], w, bytes);
        rig_fill(r, s.g[i], g, bytes);
        size_t begin = part_begin(n, i, ranks), end = part_begin(n, i + 1, ranks);
        memset(got, 0xFF, bytes);
        memset(got + begin, 0, (end - begin) * sizeof(float));
        rig_fill(r, s.m[i], got, bytes);
        rig_fill(r, s.v[i], got, bytes);
        clq_free(g);
        clq_free(unused);
    }
    r->params.rate = 0.01f;
    rig_run(r, 1);
    float *all = rig_alloc(ranks * n, sizeof(float)), *gradients = rig_alloc(ranks * n, sizeof(float));
    for (unsigned i = 0; i < ranks; i++) {
        size_t begin = part_begin(n, i, ranks), end = part_begin(n, i + 1, ranks);
        rig_read(r, s.w[i], all + i * n, bytes);
        rig_check_untouched(r, s.w[i], bytes);
        rig_read(r, s.g[i], gradients + i * n, bytes);
        rig_check_untouched(r, s.g[i], bytes);
        rig_read(r, s.m[i], got, bytes);
        for (size_t k = 0; k < n; k++)
            if ((k < begin || k >= end) && !isnan(got[k]))
                fail_msg("%s: state %zu of rank %u was written", r->name, k, i);
    }
    rig_end(r);

    flat a = begin_update(r, kind, n, w);
    rig_fill(r, a.g, sum, bytes);
    r->params.rate = 0.01f;
    rig_run(r, 1);
    rig_read(r, a.w, want, bytes);
    rig_end(r);
    for (unsigned i = 0; i < ranks; i++) {
        size_t begin = part_begin(n, i, ranks), part = part_begin(n, i + 1, ranks) - begin;
        const float *weights = all + i * n;
        assert_memory_equal(weights + begin, sum + begin, part * sizeof(float));
        assert_memory_equal(gradients + i * n, want, bytes);
        for (size_t k = 0; k < n; k++)
            if (k < begin || k >= begin + part) assert_memory_equal(&weights[k], &w[k], sizeof(float));
    }
    clq_free(w);
    clq_free(sum);
    clq_free(want);
    clq_free(got);
    clq_free(all);
    clq_free(gradients);
}

static void sharded_updates(rig *r) {
    static const unsigned ranks[] = {2, 3, 5, 8};
    for (optimizer kind = SGD; kind < OPTIMIZERS; kind++)
        for (size_t i = 0; i < CLQ_COUNT_OF(ranks); i++)
            for (size_t length = 0; length < 2; length++) {
                size_t n = length ? 469 * PART : PART * ranks[i] + 37;
                if (rig_affords(r, n * ranks[i])) check_sharded(r, kind, ranks[i], n);
            }
}

/* Epsilon is outside the root: with a gradient of 1e-9 it decides the step. */
static void adam_epsilon(rig *r) {
    float w = 1, g = 1e-9f, zero = 0;
    double want_w = 1, want_g = (double)g, want_m = 0, want_v = 0;
    rig_begin(r, 1);
    clq_value vw = rig_value(r, "w", 4, 0), vg = rig_value(r, "g", 4, 0), vm = rig_value(r, "m", 4, 0),
              vv = rig_value(r, "v", 4, 0);
    add_update(r, ADAM, 1, vw, vg, vm, vv);
    rig_bind(r);
    rig_fill(r, vw, &w, 4);
    rig_fill(r, vg, &g, 4);
    rig_fill(r, vm, &zero, 4);
    rig_fill(r, vv, &zero, 4);
    r->params.rate = 100;
    rig_run(r, 1);
    ref_adam(1, 100, 0.9, 0.999, 1e-7, &want_w, &want_g, &want_m, &want_v);
    rig_read(r, vw, &w, 4);
    rig_check_close(r, "w", &w, &want_w, 1, 1e-6, 0);
    rig_end(r);
}

static void check_square_sum(rig *r, size_t n, size_t offset, double low, double high) {
    clq_random random = clq_random_start(11, n + offset);
    float *x, got[2], again[2];
    double *unused;
    rig_numbers(&random, n + offset, low, high, &x, &unused);
    rig_begin(r, 1);
    clq_value vx = rig_value(r, "x", (n + offset) * sizeof(float), 0), out = rig_value(r, "out", 3 * sizeof(float), 0);
    clq_square_sum(r->list, n, vx, offset * sizeof(float), out, 1);
    rig_bind(r);
    rig_fill(r, vx, x, (n + offset) * sizeof(float));
    rig_run(r, 1);
    rig_read(r, out, got, sizeof got);
    double want = ref_square_sum(n, x + offset);
    rig_check_close(r, "square sum", &got[1], &want, 1, 2e-7, 0);
    rig_check_untouched(r, out, 2 * sizeof(float));
    rig_run(r, 1);
    rig_read(r, out, again, sizeof again);
    assert_memory_equal(got, again, sizeof got);
    rig_fill(r, out, NULL, 0);
    rig_run(r, 1);
    rig_read(r, out, again, sizeof again);
    assert_memory_equal(&got[1], &again[1], sizeof(float));
    rig_end(r);
    clq_free(x);
    clq_free(unused);
}

static void square_sums(rig *r) {
    for (size_t i = 0; i < CLQ_COUNT_OF(lengths); i++)
        if (rig_affords(r, lengths[i])) check_square_sum(r, lengths[i], i % 3 ? 0 : 5, -1, 1);
    if (!rig_affords(r, 300007)) return;
    check_square_sum(r, 300007, 16, 0.9, 1.1);
    check_square_sum(r, 100000, 0, 0.1, 0.1000001);
}

static void test_updates(void **state) {
    (void)state;
    rig_each(updates);
}
static void test_sharded_updates(void **state) {
    (void)state;
    rig_each(sharded_updates);
}
static void test_adam_epsilon(void **state) {
    (void)state;
    rig_each(adam_epsilon);
}
static void test_square_sums(void **state) {
    (void)state;
    rig_each(square_sums);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_updates), cmocka_unit_test(test_sharded_updates),
                                       cmocka_unit_test(test_adam_epsilon), cmocka_unit_test(test_square_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
