#include "ops/training/update_host.h"
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <math.h>

static const size_t lengths[] = {1, 3, 15, 16, 17, 63, 64, 65, 1009, 60013};

enum { STEPS = 5, STATES = CLQ_UPDATE_STATES_MAX };

/* Each optimizer of the table with hyper-parameters that are not its defaults or that choose another rule; those that
 * are left out here run with their defaults. Multiples of 1/64 are the same in float. */
static const clq_optimizer variants[] = {
    {CLQ_OPTIMIZER_SGD, {0}},
    {CLQ_OPTIMIZER_SGD, {0, 0.890625}},
    {CLQ_OPTIMIZER_SGD, {0, 0.890625, 1}},
    {CLQ_OPTIMIZER_ADAM, {0, 0.9, 0.999, 1e-7}},
    {CLQ_OPTIMIZER_ADAM, {0, 0.5, 0.75, 0.125}},
};

typedef void (*with_optimizer)(rig *r, const clq_optimizer *optimizer);

static void each_optimizer(rig *r, with_optimizer run) {
    for (size_t i = 0; i < CLQ_COUNT_OF(variants); i++) run(r, &variants[i]);
    for (size_t kind = CLQ_OPTIMIZER_ADAM + 1; kind < clq_optimizer_count(); kind++) {
        clq_optimizer optimizer = {.kind = (clq_optimizer_kind)kind};
        const clq_option *options = clq_optimizer_row_of(optimizer.kind)->options;
        for (size_t i = 0; options[i].key; i++) optimizer.values[i] = options[i].value;
        run(r, &optimizer);
    }
}

typedef struct flat {
    clq_value w, g, states[STATES];
} flat;

static flat make_flat(rig *r, const clq_optimizer *optimizer, size_t n) {
    size_t bytes = n * sizeof(float);
    flat a = {.w = rig_value(r, "w", bytes, 0)};
    a.g = rig_value(r, "g", bytes, 0);
    for (unsigned i = 0; i < clq_optimizer_states(optimizer); i++) a.states[i] = rig_value(r, "state", bytes, 0);
    return a;
}

static clq_update_arenas arenas_of(const flat *a, size_t n) {
    clq_update_arenas arenas = {.w = a->w, .g = a->g, .floats = n};
    memcpy(arenas.states, a->states, sizeof arenas.states);
    return arenas;
}

/* A list of the update alone, with these weights and states of zeros. */
static flat begin_update(rig *r, const clq_optimizer *optimizer, size_t n, const float *w) {
    float *zeros = rig_alloc(n, sizeof(float));
    rig_begin(r, 1);
    flat a = make_flat(r, optimizer, n);
    const clq_update_arenas arenas = arenas_of(&a, n);
    clq_update(r->list, optimizer, &arenas);
    rig_bind(r);
    rig_fill(r, a.w, w, n * sizeof(float));
    for (unsigned i = 0; i < clq_optimizer_states(optimizer); i++) rig_fill(r, a.states[i], zeros, n * sizeof(float));
    clq_free(zeros);
    return a;
}

static void check_update(rig *r, const clq_optimizer *optimizer, size_t n) {
    clq_random random = clq_random_start(7, n);
    unsigned states = clq_optimizer_states(optimizer);
    float *w, *g, *got = rig_alloc(n, sizeof(float));
    double *want_w, *want_g, *want[STATES];
    size_t bytes = n * sizeof(float);
    for (unsigned i = 0; i < STATES; i++) want[i] = rig_alloc(n, sizeof(double));
    rig_numbers(&random, n, -1, 1, &w, &want_w);
    flat a = begin_update(r, optimizer, n, w);
    for (int t = 1; t <= STEPS; t++) {
        rig_numbers(&random, n, -0.5, 0.5, &g, &want_g);
        if (t > 1) g[0] = 0, want_g[0] = 0;
        rig_fill(r, a.g, g, bytes);
        float rate = 0.003f * (float)t;
        r->params.rate = rate;
        rig_run(r, 1);
        ref_update(optimizer, n, (double)rate, want_w, want_g, want);
        clq_free(g);
        clq_free(want_g);
    }
    rig_read(r, a.w, got, bytes);
    rig_check_close(r, "w", got, want_w, n, 1e-6, 2e-7);
    for (unsigned i = 0; i < states; i++) {
        rig_read(r, a.states[i], got, bytes);
        rig_check_close(r, "a state", got, want[i], n, 2e-6, 1e-7);
    }
    rig_end(r);
    clq_free(w);
    clq_free(want_w);
    for (unsigned i = 0; i < STATES; i++) clq_free(want[i]);
    clq_free(got);
}

static void check_lengths(rig *r, const clq_optimizer *optimizer) {
    for (size_t i = 0; i < CLQ_COUNT_OF(lengths); i++)
        if (rig_affords(r, lengths[i])) check_update(r, optimizer, lengths[i]);
}

static void updates(rig *r) { each_optimizer(r, check_lengths); }

/* ---- an update that several replicas shard ---- */

enum { PART = 128 }; /* floats: parts begin at multiples */

static size_t part_begin(size_t n, unsigned rank, unsigned ranks) {
    return rank == ranks ? n : n / PART * rank / ranks * PART;
}

/* Replicas with gradients of their own; all on one device, one after the other. */
typedef struct sharding {
    unsigned ranks;
    size_t n;
    flat of[CLQ_UPDATE_RANKS_MAX];
} sharding;

static void begin_sharded(rig *r, const clq_optimizer *optimizer, sharding *s) {
    rig_begin(r, 1);
    for (unsigned i = 0; i < s->ranks; i++) s->of[i] = make_flat(r, optimizer, s->n);
    for (unsigned i = 0; i < s->ranks; i++) {
        clq_update_arenas arenas = arenas_of(&s->of[i], s->n);
        arenas.first = arenas.states_first = part_begin(s->n, i, s->ranks);
        arenas.floats = part_begin(s->n, i + 1, s->ranks) - arenas.first;
        arenas.ranks = s->ranks;
        arenas.rank = i;
        for (unsigned k = 0; k + 1 < s->ranks; k++) arenas.peers[k] = s->of[(i + 1 + k) % s->ranks].g;
        clq_update(r->list, optimizer, &arenas);
    }
    rig_bind(r);
}

/* Where its gradient was every replica gets the weights that one would get from the sum of the gradients, which the
 * test makes in the order of ranks; where its weights were, the sum of its part. The rest stays, of its states, too. */
static void check_sharded(rig *r, const clq_optimizer *optimizer, unsigned ranks, size_t n) {
    clq_random random = clq_random_start(23, n + ranks);
    size_t bytes = n * sizeof(float);
    unsigned states = clq_optimizer_states(optimizer);
    float *w, *g, *sum = rig_alloc(n, sizeof(float)), *want = rig_alloc(n, sizeof(float)),
                  *got = rig_alloc(n, sizeof(float));
    double *unused;
    sharding s = {.ranks = ranks, .n = n};
    rig_numbers(&random, n, -1, 1, &w, &unused);
    clq_free(unused);
    begin_sharded(r, optimizer, &s);
    for (unsigned i = 0; i < ranks; i++) {
        rig_numbers(&random, n, -0.5, 0.5, &g, &unused);
        for (size_t k = 0; k < n; k++) sum[k] = i ? sum[k] + g[k] : g[k];
        rig_fill(r, s.of[i].w, w, bytes);
        rig_fill(r, s.of[i].g, g, bytes);
        size_t begin = part_begin(n, i, ranks), end = part_begin(n, i + 1, ranks);
        memset(got, 0xFF, bytes);
        memset(got + begin, 0, (end - begin) * sizeof(float));
        for (unsigned k = 0; k < states; k++) rig_fill(r, s.of[i].states[k], got, bytes);
        clq_free(g);
        clq_free(unused);
    }
    r->params.rate = 0.01f;
    rig_run(r, 1);
    float *all = rig_alloc(ranks * n, sizeof(float)), *gradients = rig_alloc(ranks * n, sizeof(float));
    for (unsigned i = 0; i < ranks; i++) {
        size_t begin = part_begin(n, i, ranks), end = part_begin(n, i + 1, ranks);
        rig_read(r, s.of[i].w, all + i * n, bytes);
        rig_check_untouched(r, s.of[i].w, bytes);
        rig_read(r, s.of[i].g, gradients + i * n, bytes);
        rig_check_untouched(r, s.of[i].g, bytes);
        for (unsigned state = 0; state < states; state++) {
            rig_read(r, s.of[i].states[state], got, bytes);
            for (size_t k = 0; k < n; k++)
                if ((k < begin || k >= end) && !isnan(got[k]))
                    fail_msg("%s: place %zu of state %u of rank %u was written", r->name, k, state, i);
        }
    }
    rig_end(r);

    flat a = begin_update(r, optimizer, n, w);
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

static void check_ranks(rig *r, const clq_optimizer *optimizer) {
    static const unsigned ranks[] = {2, 3, 5, 8};
    for (size_t i = 0; i < CLQ_COUNT_OF(ranks); i++)
        for (size_t length = 0; length < 2; length++) {
            size_t n = length ? 469 * PART : PART * ranks[i] + 37;
            if (rig_affords(r, n * ranks[i])) check_sharded(r, optimizer, ranks[i], n);
        }
}

static void sharded_updates(rig *r) { each_optimizer(r, check_ranks); }

/* Epsilon is outside the root: with a gradient of 1e-9 it decides the step. */
static void adam_epsilon(rig *r) {
    static const clq_optimizer adam = {CLQ_OPTIMIZER_ADAM, {0, 0.9, 0.999, 1e-7}};
    float w = 1, g = 1e-9f;
    double want_w = 1, want_g = (double)g, want_m = 0, want_v = 0;
    flat a = begin_update(r, &adam, 1, &w);
    rig_fill(r, a.g, &g, 4);
    r->params.rate = 100;
    rig_run(r, 1);
    ref_adam(1, 100, 0.9, 0.999, 1e-7, &want_w, &want_g, &want_m, &want_v);
    rig_read(r, a.w, &w, 4);
    rig_check_close(r, "w", &w, &want_w, 1, 1e-6, 0);
    rig_end(r);
}

/* ---- sums of gradients ---- */

/* factor 0: what is there does not count, whatever it is. */
static void check_accumulate(rig *r, size_t n, float factor) {
    const size_t bytes = n * sizeof(float);
    clq_random random = clq_random_start(13, n);
    float *x, *sum, *got = rig_alloc(n, sizeof *got);
    double *added, *want;
    rig_numbers(&random, n, -1, 1, &x, &added);
    rig_numbers(&random, n, -1, 1, &sum, &want);
    rig_begin(r, 1);
    const clq_value vx = rig_value(r, "x", bytes, 0), vsum = rig_value(r, "sum", bytes, 0);
    clq_accumulate(r->list, n, vx, vsum);
    rig_bind(r);
    rig_fill(r, vx, x, bytes);
    rig_fill(r, vsum, factor == 0 ? NULL : sum, factor == 0 ? 0 : bytes);
    r->params.sum_factor = factor;
    rig_run(r, 1);
    rig_read(r, vsum, got, bytes);
    for (size_t i = 0; i < n; i++) want[i] = factor == 0 ? added[i] : (want[i] + added[i]) * (double)factor;
    rig_check_close(r, "a sum", got, want, n, 1.2e-7, 0);
    rig_check_untouched(r, vsum, bytes);
    rig_read(r, vx, got, bytes);
    assert_memory_equal(got, x, bytes);
    rig_end(r);
    clq_free(x);
    clq_free(sum);
    clq_free(added);
    clq_free(want);
    clq_free(got);
}

static void sums(rig *r) {
    static const size_t floats[] = {1, 16, 31, 1024, 64017};
    static const float factors[] = {1, 0, 0.3f};
    for (size_t i = 0; i < CLQ_COUNT_OF(floats); i++)
        if (rig_affords(r, floats[i])) check_accumulate(r, floats[i], factors[i % CLQ_COUNT_OF(factors)]);
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

/* ---- updates by the host ---- */

enum { HOST_RANKS = 3, HOST_COPIES = 2 };

/* Each array with a float behind it that nobody may touch. */
typedef struct host_case {
    size_t n;
    float *w, *gradients[HOST_RANKS], *states[STATES], *sum, *copies[HOST_COPIES];
} host_case;

static float *host_array(size_t n) {
    float *array = rig_alloc(n + 1, sizeof(float));
    array[n] = (float)NAN;
    return array;
}

static host_case begin_host(size_t n, const float *w) {
    host_case c = {.n = n, .w = host_array(n), .sum = host_array(n)};
    memcpy(c.w, w, n * sizeof(float));
    for (unsigned i = 0; i < HOST_RANKS; i++) c.gradients[i] = host_array(n);
    for (unsigned i = 0; i < STATES; i++) c.states[i] = host_array(n);
    for (unsigned i = 0; i < HOST_COPIES; i++) c.copies[i] = host_array(n);
    return c;
}

static void end_host(host_case *c) {
    assert_true(isnan(c->w[c->n]) && isnan(c->sum[c->n]));
    for (unsigned i = 0; i < STATES; i++) assert_true(isnan(c->states[i][c->n]));
    for (unsigned i = 0; i < HOST_COPIES; i++) {
        assert_true(isnan(c->copies[i][c->n]));
        assert_memory_equal(c->copies[i], c->w, c->n * sizeof(float));
    }
    clq_free(c->w);
    clq_free(c->sum);
    for (unsigned i = 0; i < HOST_RANKS; i++) clq_free(c->gradients[i]);
    for (unsigned i = 0; i < STATES; i++) clq_free(c->states[i]);
    for (unsigned i = 0; i < HOST_COPIES; i++) clq_free(c->copies[i]);
}

static clq_host_update host_update(const host_case *c, size_t first, size_t floats) {
    clq_host_update update = {.w = c->w,
                              .gradients = (const float *const *)c->gradients,
                              .gradient_count = HOST_RANKS,
                              .factor = 0.75f,
                              .sum = c->sum,
                              .copies = c->copies,
                              .copy_count = HOST_COPIES,
                              .first = first,
                              .floats = floats};
    memcpy(update.states, c->states, sizeof update.states);
    return update;
}

/* By the narrowest vectors that there are, whatever the processor has. */
static void update_plain(const clq_optimizer *optimizer, const clq_host_update *update, float rate) {
    float constants[CLQ_UPDATE_CONSTANTS];
    const clq_host_rule_row *row = clq_host_rules_plain;
    while (strcmp(row->name, clq_optimizer_rule(optimizer)->name) != 0) row++;
    clq_optimizer_constants(optimizer, constants);
    row->run(update, rate, constants);
}

static void check_host_update(rig *r, const clq_optimizer *optimizer, size_t n) {
    clq_random random = clq_random_start(31, n);
    float *w;
    double *want_w, *want_g = rig_alloc(n, sizeof(double)), *want[STATES];
    for (unsigned i = 0; i < STATES; i++) want[i] = rig_alloc(n, sizeof(double));
    rig_numbers(&random, n, -1, 1, &w, &want_w);
    host_case whole = begin_host(n, w), parts = begin_host(n, w);
    for (int t = 1; t <= STEPS; t++) {
        const float rate = 0.003f * (float)t;
        const size_t cut = rig_below(&random, n + 1);
        for (size_t i = 0; i < n; i++) {
            float sum = 0;
            for (unsigned k = 0; k < HOST_RANKS; k++) {
                whole.gradients[k][i] = parts.gradients[k][i] = (float)rig_uniform(&random, -0.2, 0.2);
                sum = k ? sum + whole.gradients[k][i] : whole.gradients[k][i];
            }
            want_g[i] = (double)(0.75f * sum);
        }
        const clq_host_update all = host_update(&whole, 0, n), front = host_update(&parts, 0, cut),
                              back = host_update(&parts, cut, n - cut);
        clq_update_on_host(optimizer, &all, rate);
        update_plain(optimizer, &back, rate);
        update_plain(optimizer, &front, rate);
        rig_check_close(r, "the sum", whole.sum, want_g, n, 0, 0);
        ref_update(optimizer, n, (double)rate, want_w, want_g, want);
    }
    rig_check_close(r, "w", whole.w, want_w, n, 1e-6, 2e-7);
    assert_memory_equal(whole.w, parts.w, n * sizeof(float));
    assert_memory_equal(whole.sum, parts.sum, n * sizeof(float));
    for (unsigned i = 0; i < clq_optimizer_states(optimizer); i++) {
        rig_check_close(r, "a state", whole.states[i], want[i], n, 2e-6, 1e-7);
        assert_memory_equal(whole.states[i], parts.states[i], n * sizeof(float));
    }
    end_host(&whole);
    end_host(&parts);
    for (unsigned i = 0; i < STATES; i++) clq_free(want[i]);
    clq_free(w);
    clq_free(want_w);
    clq_free(want_g);
}

static void check_host_lengths(rig *r, const clq_optimizer *optimizer) {
    for (size_t i = 0; i < CLQ_COUNT_OF(lengths); i++) check_host_update(r, optimizer, lengths[i]);
}

static void test_host_updates(void **state) {
    rig host = {.name = "the host"};
    (void)state;
    each_optimizer(&host, check_host_lengths);
}

/* A sum alone, into the first of its gradients, and its squares. */
static void test_host_sums(void **state) {
    float a[7] = {1, 2, 3, 4, 5, 6, 7}, b[7] = {10, 20, 30, 40, 50, 60, 70};
    static const float want[7] = {5.5f, 11, 16.5f, 22, 27.5f, 33, 7};
    const float *const gradients[] = {a, b};
    (void)state;
    clq_sum_on_host(&(clq_host_update){
        .gradients = gradients, .gradient_count = 2, .factor = 0.5f, .sum = a, .first = 0, .floats = 6});
    assert_memory_equal(a, want, sizeof a);
    assert_true(clq_square_sum_on_host(a, 6) == ref_square_sum(6, a));
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
static void test_sums(void **state) {
    (void)state;
    rig_each(sums);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_updates),      cmocka_unit_test(test_sharded_updates),
                                       cmocka_unit_test(test_adam_epsilon), cmocka_unit_test(test_square_sums),
                                       cmocka_unit_test(test_host_updates), cmocka_unit_test(test_host_sums),
                                       cmocka_unit_test(test_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
