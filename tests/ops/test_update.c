#include "support/ops_update.h"

#include <stdlib.h>

typedef struct flat {
    clq_value w, g, states[STATES], average, factors, decays;
} flat;

/* Variables of so many blocks, one behind the other, of the optimizers whose steps go by norms of variables; the
 * weights of the second, and the gradient of the third, are 0. */
enum { VARIABLES = 4, GAP = 2 };
static const size_t blocks_of[VARIABLES] = {3, 1, 2, 40};
static const size_t all_blocks = 3 + 1 + 2 + 40 + GAP;

static float decays_at(size_t b) { return b % 3 == 1 ? 0.0f : 1.0f; }

/* Some are 0. Where the update skips blocks, all blocks of a variable have the same factor. */
static float factor_at(const manner *m, size_t b) {
    if (m->factor_of_all) return 0.75f;
    if (!m->skips) return 0.25f * (float)(b % 5);
    size_t v = 0;
    for (size_t end = blocks_of[0]; v < VARIABLES && b >= end; v++) end += v + 1 < VARIABLES ? blocks_of[v + 1] : 0;
    return 0.25f * (float)(v % VARIABLES);
}

static bool skipped_at(const manner *m, size_t i) { return m->skips && factor_at(m, i / CLQ_UPDATE_BLOCK) == 0; }

/* Parameters of update t, from 1. */
static void set_rates(clq_step_params *params, const clq_optimizer *optimizer, double lr, unsigned t) {
    const clq_update_rates rates = clq_optimizer_rates(optimizer, lr, t);
    params->rate = rates.rate;
    params->second = rates.second;
    params->third = rates.third;
    params->decay = rates.decay;
}

static flat make_flat(rig *r, const clq_optimizer *optimizer, size_t n) {
    size_t bytes = n * sizeof(float);
    flat a = {.w = rig_value(r, "w", bytes, 0)};
    a.g = rig_value(r, "g", bytes, 0);
    for (unsigned i = 0; i < clq_optimizer_states(optimizer); i++) a.states[i] = rig_value(r, "state", bytes, 0);
    return a;
}

static clq_update_arenas arenas_of(const flat *a, size_t n) {
    clq_update_arenas arenas = {
        .w = a->w, .g = a->g, .average = a->average, .factors = a->factors, .decays = a->decays, .floats = n};
    memcpy(arenas.states, a->states, sizeof arenas.states);
    return arenas;
}

static void add_manner(rig *r, const manner *m, size_t n, flat *a) {
    const size_t blocks = clq_ceil_div(n, CLQ_UPDATE_BLOCK);
    if (m->average > 0) a->average = rig_value(r, "average", n * sizeof(float), 0);
    if (m->factors) a->factors = rig_value(r, "factors", (1 + blocks) * sizeof(float), 0);
    if (m->decays) a->decays = rig_value(r, "decays", (1 + blocks) * sizeof(float), 0);
}

/* The weights, states and averages of zeros, and the numbers of blocks from `first` on. */
static void fill_start(rig *r, const clq_optimizer *optimizer, const manner *m, size_t n, size_t first, const float *w,
                       const flat *a) {
    const size_t blocks = clq_ceil_div(n, CLQ_UPDATE_BLOCK), bytes = n * sizeof(float);
    float *numbers = rig_alloc(CLQ_MAX(n, 1 + blocks), sizeof(float));
    rig_fill(r, a->w, w, bytes);
    for (unsigned i = 0; i < clq_optimizer_states(optimizer); i++) rig_fill(r, a->states[i], numbers, bytes);
    if (a->average) rig_fill(r, a->average, numbers, bytes);
    for (size_t b = 0; b < blocks; b++) numbers[first + b] = factor_at(m, b);
    if (m->factor_of_all) numbers[0] = factor_at(m, 0);
    if (a->factors) rig_fill(r, a->factors, numbers, (1 + blocks) * sizeof(float));
    for (size_t b = 0; b < blocks; b++) numbers[first + b] = decays_at(b);
    if (a->decays) rig_fill(r, a->decays, numbers, (1 + blocks) * sizeof(float));
    clq_free(numbers);
}

static clq_update_problem problem_of(const clq_optimizer *optimizer, const manner *m) {
    return (clq_update_problem){
        .optimizer = *optimizer, .limit = (float)m->limit, .factor_of_all = m->factor_of_all, .skips = m->skips};
}

/* A list of the update alone, with these weights and states of zeros. m NULL: nothing is done around the rule. */
static flat begin_update(rig *r, const clq_optimizer *optimizer, const manner *m, size_t n, const float *w) {
    static const manner none = {0};
    if (!m) m = &none;
    rig_begin(r, 1);
    flat a = make_flat(r, optimizer, n);
    add_manner(r, m, n, &a);
    clq_update_arenas arenas = arenas_of(&a, n);
    arenas.first_block = 1;
    const clq_update_problem problem = problem_of(optimizer, m);
    clq_update(r->list, &problem, &arenas);
    rig_bind(r);
    fill_start(r, optimizer, m, n, 1, w, &a);
    return a;
}

/* Of weights that do not decay: by an optimizer without. */
static void ref_update_in_manner(const clq_optimizer *optimizer, const manner *m, size_t n, double lr, unsigned t,
                                 double *w, const double *g, double *const *states) {
    clq_optimizer without = *optimizer;
    size_t decay = 0;
    while (clq_optimizer_row_of(optimizer->kind)->options[decay + 1].key) decay++;
    without.values[decay] = 0;
    for (size_t first = 0; first < n; first += CLQ_UPDATE_BLOCK) {
        const size_t count = CLQ_MIN(n - first, (size_t)CLQ_UPDATE_BLOCK);
        double *of[STATES];
        for (unsigned i = 0; i < STATES; i++) of[i] = states[i] + first;
        ref_update(m->decays && decays_at(first / CLQ_UPDATE_BLOCK) == 0 ? &without : optimizer, count, lr, t,
                   w + first, g + first, of);
    }
}

/* ---- optimizers whose steps go by norms of variables ---- */

static void fill_table(rig *r, clq_value table) {
    int32_t rows[VARIABLES + 1][4], first = 0;
    for (int v = 0; v <= VARIABLES; v++) {
        const int32_t count = v < VARIABLES ? (int32_t)blocks_of[v] : GAP;
        const int32_t row[4] = {v < VARIABLES ? v : -1, first, first + count, v < VARIABLES};
        memcpy(rows[v], row, sizeof row);
        first += count;
    }
    rig_fill(r, table, rows, sizeof rows);
}

/* The passes in one list. */
static flat begin_with_ratios(rig *r, const clq_optimizer *optimizer, const manner *m, const float *w) {
    const size_t n = all_blocks * CLQ_UPDATE_BLOCK;
    const clq_update_problem problem = problem_of(optimizer, m);
    rig_begin(r, 1);
    flat a = make_flat(r, optimizer, n);
    add_manner(r, m, n, &a);
    const clq_value table = rig_value(r, "table", (VARIABLES + 1) * 4 * sizeof(int32_t), 0),
                    of_blocks = rig_value(r, "squares of blocks", 2 * (1 + all_blocks) * sizeof(float), 0),
                    squares = rig_value(r, "squares", 2 * VARIABLES * sizeof(float), 0),
                    ratios = rig_value(r, "ratios", (1 + all_blocks) * sizeof(float), 0);
    clq_update_arenas arenas = arenas_of(&a, n);
    const clq_blocks blocks = {.table = table, .entries = VARIABLES + 1, .count = all_blocks};
    clq_update_directions(r->list, &problem, &arenas, of_blocks);
    clq_squares_from_blocks(r->list, &blocks, 2, of_blocks, squares);
    clq_block_ratios(r->list, &blocks, squares, ratios);
    arenas.ratios = ratios;
    clq_update(r->list, &problem, &arenas);
    rig_bind(r);
    fill_table(r, table);
    fill_start(r, optimizer, m, n, 0, w, &a);
    return a;
}

/* Variable by variable. Whether weights decay differs by block here: they do before, by hand. */
static void ref_with_ratios(const clq_optimizer *optimizer, const manner *m, size_t n, double lr, unsigned t, double *w,
                            const double *g, double *const *states) {
    (void)n; /* of all variables */
    clq_optimizer without = *optimizer;
    without.values[4] = 0;
    size_t first = 0;
    for (size_t v = 0; v < VARIABLES; v++) {
        const size_t count = blocks_of[v] * CLQ_UPDATE_BLOCK;
        double *of[STATES];
        for (unsigned i = 0; i < STATES; i++) of[i] = states[i] + first;
        for (size_t i = first; i < first + count; i++)
            w[i] -= w[i] * optimizer->values[4] * lr * (m->decays ? (double)decays_at(i / CLQ_UPDATE_BLOCK) : 1);
        ref_update(&without, count, lr, t, w + first, g + first, of);
        first += count;
    }
}

static void spare_zeros(float *w, float *g, double *want_w, double *want_g) {
    size_t first = 0;
    for (size_t v = 0; v <= VARIABLES; v++) {
        const size_t end = first + (v < VARIABLES ? blocks_of[v] : GAP) * CLQ_UPDATE_BLOCK;
        for (size_t i = first; i < end; i++) {
            if (w && (v == 1 || v == VARIABLES)) w[i] = 0, want_w[i] = 0;
            if (g && (v == 2 || v == VARIABLES)) g[i] = 0, want_g[i] = 0;
        }
        first = end;
    }
}

/* ---- updates by one ---- */

/* What an update leaves as it is, as it was before the step. */
static void leave_skipped(const manner *m, size_t n, double *x, const double *before) {
    for (size_t i = 0; i < n; i++)
        if (skipped_at(m, i)) x[i] = before[i];
}

/* One step of the reference, of which t is the number, from 1. average: of all steps before it. */
static void ref_step(const clq_optimizer *optimizer, const manner *m, size_t n, double lr, unsigned t, double *w,
                     double *g, double *const *states, double *average) {
    const bool first = t == 1;
    double *before[STATES + 1];
    float *factors = m->factors ? rig_alloc(clq_ceil_div(n, CLQ_UPDATE_BLOCK), sizeof(float)) : NULL;
    for (size_t b = 0; factors && b < clq_ceil_div(n, CLQ_UPDATE_BLOCK); b++) factors[b] = factor_at(m, b);
    for (unsigned i = 0; i <= STATES; i++) {
        before[i] = rig_alloc(n, sizeof(double));
        memcpy(before[i], i < STATES ? states[i] : w, n * sizeof(double));
    }
    treat(m, factors, n, g);
    (clq_optimizer_has_trust_ratio(optimizer) ? ref_with_ratios : ref_update_in_manner)(optimizer, m, n, lr, t, w, g,
                                                                                        states);
    for (unsigned i = 0; i <= STATES; i++) {
        leave_skipped(m, n, i < STATES ? states[i] : w, before[i]);
        clq_free(before[i]);
    }
    for (size_t i = 0; i < n; i++)
        if (first || !skipped_at(m, i)) average[i] = first ? w[i] : m->average * average[i] + (1 - m->average) * w[i];
    clq_free(factors);
}

/* By an optimizer of norms: n is that of all variables. */
static void check_update(rig *r, const clq_optimizer *optimizer, const manner *m, size_t n) {
    clq_random random = clq_random_start(7, n);
    const bool ratios = clq_optimizer_has_trust_ratio(optimizer);
    float *w, *g, *got = rig_alloc(n, sizeof(float));
    double *want_w, *want_g, *want[STATES], *average = rig_alloc(n, sizeof(double));
    const size_t bytes = n * sizeof(float);
    const double near = ratios ? 5e-7 : 3e-7;
    for (unsigned i = 0; i < STATES; i++) want[i] = rig_alloc(n, sizeof(double));
    rig_numbers(&random, n, -1, 1, &w, &want_w);
    if (ratios) spare_zeros(w, NULL, want_w, NULL);
    flat a = ratios ? begin_with_ratios(r, optimizer, m, w) : begin_update(r, optimizer, m, n, w);
    for (unsigned t = 1; t <= STEPS; t++) {
        const float lr = 0.003f * (float)t;
        rig_numbers(&random, n, -0.5, 0.5, &g, &want_g);
        if (ratios) spare_zeros(NULL, g, NULL, want_g);
        if (t > 1) g[0] = 0, want_g[0] = 0;
        rig_fill(r, a.g, g, bytes);
        set_rates(&r->params, optimizer, (double)lr, t);
        r->params.average = t == 1 ? 1 : (float)(1 - m->average);
        rig_run(r, 1);
        ref_step(optimizer, m, n, (double)lr, t, want_w, want_g, want, average);
        rig_read(r, a.g, got, bytes);
        assert_memory_equal(got, g, bytes);
        clq_free(g);
        clq_free(want_g);
    }
    rig_read(r, a.w, got, bytes);
    rig_check_close(r, "w", got, want_w, n, 1e-6, near);
    for (unsigned i = 0; i < clq_optimizer_states(optimizer); i++) {
        rig_read(r, a.states[i], got, bytes);
        rig_check_close(r, "a state", got, want[i], n, 2e-6, 1e-7);
    }
    if (a.average) rig_read(r, a.average, got, bytes);
    if (a.average) rig_check_close(r, "the average", got, average, n, 1e-6, near);
    rig_end(r);
    clq_free(w);
    clq_free(want_w);
    for (unsigned i = 0; i < STATES; i++) clq_free(want[i]);
    clq_free(average);
    clq_free(got);
}

static const manner plain = {0};

static size_t lengths_before; /* optimizers */

/* Decay is around the rule: weights that decay take turns where the rule is there without, too. One of RMSprop's is
 * not. A simulator has every second length, others for the next optimizer. */
static void check_lengths(rig *r, const clq_optimizer *optimizer) {
    const size_t index = lengths_before++;
    const bool has_twin = clq_optimizer_weight_decay(optimizer) != 0 && optimizer->kind != CLQ_OPTIMIZER_RMSPROP;
    if (has_twin && !rig_takes(r, index)) return;
    rig_alternate(r, index);
    for (size_t i = 0; i < CLQ_COUNT_OF(lengths); i++)
        if (rig_affords(r, lengths[i]) && !(rig_is_simulated(r) && (index + i) % 2))
            check_update(r, optimizer, &plain, lengths[i]);
}

static void updates(rig *r) {
    lengths_before = 0;
    each_optimizer(r, check_lengths);
}

/* What is done around a rule, alone and together. A simulator has one length with a tail, and one without. Manners take
 * turns if their kernels differ only in a number. */
static void manners(rig *r) {
    static const manner all[] = {{.limit = 0.125},
                                 {.average = 0.75},
                                 {.decays = true},
                                 {.factors = true},
                                 {.factors = true, .factor_of_all = true, .limit = 0.25},
                                 {.factors = true, .limit = 0.0625, .average = 0.5, .decays = true},
                                 {.factors = true, .skips = true, .average = 0.5, .decays = true}};
    static const clq_optimizer optimizers[] = {{CLQ_OPTIMIZER_SGD, {0, 0.890625, 0, 0.5}},
                                               {CLQ_OPTIMIZER_ADAMW, {0, 0.9, 0.75, 1e-3, 1, 0.5}}};
    static const size_t some[] = {17, 128, 1, 1009};
    const size_t count = rig_is_simulated(r) ? 2 : CLQ_COUNT_OF(some);
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++)
        for (size_t k = 0; k < count; k++)
            if ((rig_takes(r, i) || all[i].average > 0 || i == 0) && rig_affords(r, some[k]))
                check_update(r, &optimizers[i % 2], &all[i], some[k]);
}

static void updates_with_ratios(rig *r) {
    static const manner all[] = {{0},
                                 {.limit = 0.125, .average = 0.75},
                                 {.factors = true, .decays = true},
                                 {.factors = true, .factor_of_all = true},
                                 {.factors = true, .skips = true, .average = 0.5}};
    for (size_t i = 0; i < CLQ_COUNT_OF(all); i++)
        if ((i < 2 || rig_takes(r, i)) && rig_affords(r, all_blocks * CLQ_UPDATE_BLOCK))
            check_update(r, &trust_ratio_optimizers[i % CLQ_COUNT_OF(trust_ratio_optimizers)], &all[i],
                         all_blocks * CLQ_UPDATE_BLOCK);
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
        clq_update(r->list, &(clq_update_problem){.optimizer = *optimizer}, &arenas);
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
    set_rates(&r->params, optimizer, 0.01, 1);
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

    flat a = begin_update(r, optimizer, NULL, n, w);
    rig_fill(r, a.g, sum, bytes);
    set_rates(&r->params, optimizer, 0.01, 1);
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

static size_t sharded_before; /* optimizers */

/* Each number of ranks is a program of each rule, with a tail and without. Rules know nothing of ranks: the first has
 * each number in each family, Adam's have one, turn by turn, and the others two ranks. Of these each driver has one of
 * the families, with a tail or without: every four rules have each once. */
static void check_ranks(rig *r, const clq_optimizer *optimizer) {
    static const unsigned ranks[] = {2, 3, 5, 8};
    const size_t index = sharded_before++, count = CLQ_COUNT_OF(ranks);
    const bool all = index == 0 || getenv("CLQ_TEST_DEVICES");
    const size_t first = all || optimizer->kind != CLQ_OPTIMIZER_ADAM ? 0 : index % count;
    if (!all && !rig_takes(r, index / 2)) return;
    for (size_t i = first; i < (all ? count : first + 1); i++)
        for (size_t length = 0; length < 2; length++) {
            size_t n = length ? 469 * PART : PART * ranks[i] + 37;
            if (rig_takes(r, index + i + length) && rig_affords(r, n * ranks[i]))
                check_sharded(r, optimizer, ranks[i], n);
        }
}

static void sharded_updates(rig *r) {
    sharded_before = 0;
    each_optimizer(r, check_ranks);
}

/* Epsilon is outside the root: with a gradient of 1e-9 it decides the step. */
static void adam_epsilon(rig *r) {
    static const clq_optimizer adam = {CLQ_OPTIMIZER_ADAM, {0, 0.9, 0.999, 1e-7}};
    float w = 1, g = 1e-9f;
    double want_w = 1, want_g = (double)g, want_m = 0, want_v = 0;
    flat a = begin_update(r, &adam, NULL, 1, &w);
    rig_fill(r, a.g, &g, 4);
    r->params.rate = 100;
    rig_run(r, 1);
    ref_adam(1, 100, 0.9, 0.999, 1e-7, &want_w, &want_g, &want_m, &want_v);
    rig_read(r, a.w, &w, 4);
    rig_check_close(r, "w", &w, &want_w, 1, 1e-6, 0);
    rig_end(r);
}

/* Gradients that are nearly alike, whose variance rounding leaves below 0: epsilon remains under the root. */
static void rmsprop_without_variance(rig *r) {
    static const clq_optimizer rmsprop = {CLQ_OPTIMIZER_RMSPROP, {0, 0.75, 0, 0.125, 1}};
    const float g = 20.1f, mean_square = g * g * (1 - 1e-5f);
    float w = 1;
    const double want = 1 - 0.01 * (double)g / sqrt(0.125);
    flat a = begin_update(r, &rmsprop, NULL, 1, &w);
    rig_fill(r, a.g, &g, sizeof g);
    rig_fill(r, a.states[0], &mean_square, sizeof mean_square);
    rig_fill(r, a.states[1], &g, sizeof g);
    set_rates(&r->params, &rmsprop, 0.01, 1);
    rig_run(r, 1);
    rig_read(r, a.w, &w, sizeof w);
    rig_check_close(r, "w", &w, &want, 1, 1e-5, 0);
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

static void test_updates(void **state) {
    (void)state;
    rig_each(updates);
}
static void test_manners(void **state) {
    (void)state;
    rig_each(manners);
}
static void test_updates_with_ratios(void **state) {
    (void)state;
    rig_each(updates_with_ratios);
}
static void test_sharded_updates(void **state) {
    (void)state;
    rig_each(sharded_updates);
}
static void test_adam_epsilon(void **state) {
    (void)state;
    rig_each(adam_epsilon);
}
static void test_rmsprop_without_variance(void **state) {
    (void)state;
    rig_each(rmsprop_without_variance);
}
static void test_sums(void **state) {
    (void)state;
    rig_each(sums);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_updates),
                                       cmocka_unit_test(test_manners),
                                       cmocka_unit_test(test_updates_with_ratios),
                                       cmocka_unit_test(test_sharded_updates),
                                       cmocka_unit_test(test_adam_epsilon),
                                       cmocka_unit_test(test_rmsprop_without_variance),
                                       cmocka_unit_test(test_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
