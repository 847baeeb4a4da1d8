/* Sums of squares by variable, and the factors that clip by them. */
#include "ref/ref_elementwise.h"
#include "support/ops_rig.h"

#include <math.h>

enum { ENTRY = 4, VARIABLES = 7, ENTRIES = 8, BLOCKS_MOST = 700 };

/* Runs of blocks in an arena, not in the variables' order. One run is empty, one does not count, two are gaps. Variable
 * 4 has no run. */
typedef struct layout {
    size_t runs[ENTRIES]; /* blocks of each run */
    size_t blocks;
} layout;
static const int variable_of[ENTRIES] = {6, 0, 3, -1, 5, 1, 2, -1};
static const bool counts[ENTRIES] = {true, true, true, false, false, true, true, false};

static layout make_layout(clq_random *random, size_t most) {
    layout l = {.blocks = 0};
    for (size_t e = 0; e < ENTRIES; e++) {
        l.runs[e] = variable_of[e] == 3 ? 0 : 1 + rig_below(random, most);
        l.blocks += l.runs[e];
    }
    return l;
}

static void fill_table(rig *r, const layout *l, clq_value table) {
    int32_t numbers[ENTRIES * ENTRY];
    int32_t first = 0;
    for (size_t e = 0; e < ENTRIES; e++) {
        const int32_t row[ENTRY] = {variable_of[e], first, first + (int32_t)l->runs[e], counts[e]};
        memcpy(numbers + ENTRY * e, row, sizeof row);
        first += (int32_t)l->runs[e];
    }
    rig_fill(r, table, numbers, sizeof numbers);
}

/* squares: of each variable that counts. all: their sum. of_block: the squares of each block's variable, -1 for a
 * gap. */
typedef struct reference {
    double squares[VARIABLES], all, of_block[BLOCKS_MOST];
} reference;

static void make_reference(const layout *l, const float *x, reference *out) {
    size_t first = 0;
    *out = (reference){.all = 0};
    for (size_t e = 0; e < ENTRIES; e++) {
        if (variable_of[e] >= 0 && counts[e])
            out->squares[variable_of[e]] = ref_square_sum(l->runs[e] * CLQ_UPDATE_BLOCK, x + first * CLQ_UPDATE_BLOCK);
        for (size_t b = first; b < first + l->runs[e]; b++)
            out->of_block[b] = variable_of[e] < 0 ? -1 : out->squares[variable_of[e]];
        first += l->runs[e];
    }
    for (size_t v = 0; v < VARIABLES; v++) out->all += out->squares[v];
}

static double factor_of(double squares, double limit) { return fmin(1, limit / sqrt(squares)); }

static void check(rig *r, size_t most, double limit, double spoilt) {
    static float got[BLOCKS_MOST];
    static double want[BLOCKS_MOST];
    static reference ref;
    clq_random random = clq_random_start(41, most);
    const layout l = make_layout(&random, most);
    const size_t floats = l.blocks * CLQ_UPDATE_BLOCK;
    float *x;
    double *unused, all;
    rig_numbers(&random, floats, -1, 1, &x, &unused);
    clq_free(unused);
    make_reference(&l, x, &ref);
    if (spoilt != 0) x[3] = (float)spoilt;
    rig_begin(r, 1);
    const clq_value vx = rig_value(r, "x", floats * sizeof *x, 0),
                    table = rig_value(r, "table", ENTRIES * ENTRY * sizeof(int32_t), 0),
                    squares = rig_value(r, "squares", VARIABLES * sizeof(float), 0),
                    one = rig_value(r, "factor", sizeof(float), 0),
                    factors = rig_value(r, "factors", l.blocks * sizeof(float), 0);
    const clq_blocks blocks = {.table = table, .entries = ENTRIES, .count = l.blocks};
    clq_squares_from_values(r->list, &blocks, vx, squares);
    clq_global_factor(r->list, VARIABLES, (float)limit, squares, CLQ_NO_VALUE, one);
    clq_block_factors(r->list, &blocks, (float)limit, squares, CLQ_NO_VALUE, factors);
    rig_bind(r);
    rig_fill(r, vx, x, floats * sizeof *x);
    fill_table(r, &l, table);
    for (size_t v = 0; v < VARIABLES; v++) got[v] = v == 4 ? 0.0f : (float)NAN;
    rig_fill(r, squares, got, VARIABLES * sizeof(float));
    rig_run(r, 1);
    rig_read(r, squares, got, VARIABLES * sizeof(float));
    rig_check_untouched(r, squares, VARIABLES * sizeof(float));
    if (spoilt != 0) {
        assert_true(!isfinite(got[variable_of[0]]));
        rig_read(r, one, got, sizeof(float));
        assert_true(isnan(got[0]) || got[0] == 0);
        rig_read(r, factors, got, l.blocks * sizeof(float));
        assert_true(isnan(got[0]) || got[0] == 0);
    } else {
        rig_check_close(r, "squares", got, ref.squares, VARIABLES, 3e-7, 0);
        rig_read(r, one, got, sizeof(float));
        all = factor_of(ref.all, limit);
        rig_check_close(r, "the factor of all", got, &all, 1, 3e-7, 0);
        rig_read(r, factors, got, l.blocks * sizeof(float));
        for (size_t b = 0; b < l.blocks; b++) want[b] = ref.of_block[b] < 0 ? 1 : factor_of(ref.of_block[b], limit);
        rig_check_close(r, "factors", got, want, l.blocks, 3e-7, 0);
        rig_check_untouched(r, factors, l.blocks * sizeof(float));
    }
    rig_end(r);
    clq_free(x);
}

/* The squares of a block sum to about 128 / 3. The limits lie below all norms, between them and above all. */
static void check_all(rig *r) {
    static const size_t most[] = {1, 3, 80};
    static const double limits[] = {0.5, 10, 1000};
    for (size_t i = 0; i < CLQ_COUNT_OF(most); i++)
        for (size_t k = 0; k < CLQ_COUNT_OF(limits); k++)
            if (rig_affords(r, most[i] * ENTRIES * CLQ_UPDATE_BLOCK)) check(r, most[i], limits[k], 0);
    if (!rig_affords(r, 3 * ENTRIES * CLQ_UPDATE_BLOCK)) return;
    check(r, 3, 1, (double)NAN);
    check(r, 3, 1, (double)INFINITY);
}

static void norms_and_factors(void **state) {
    (void)state;
    rig_each(check_all);
}

/* ---- the loss scale ---- */

typedef struct scale_step {
    float squares[VARIABLES]; /* given */
    bool finite;
    double scale;     /* the loss scale of the squares */
    int32_t state[3]; /* wanted after the step */
} scale_step;

/* The scale begins at 4. It is doubled after two finite steps, halved after a step that is not finite, and never below
 * 1. */
static const scale_step scale_steps[] = {
    {{16, 32, 0, 48, 1}, true, 4, {0, 1, 0}},           {{16, (float)INFINITY, 0, 48, 1}, false, 4, {-1, 0, 1}},
    {{16, 32, 0, (float)NAN, 1}, false, 2, {-2, 0, 2}}, {{3e38f, 3e38f, 0, 1, 1}, false, 1, {-2, 0, 3}},
    {{16, 32, 0, 48, 1}, true, 1, {-2, 1, 3}},          {{16, 32, 0, 48, 1}, true, 1, {-1, 0, 3}},
    {{16, 32, 0, 48, 1}, true, 2, {-1, 1, 3}},
};

static void check_scale(rig *r) {
    const clq_loss_scaling scaling = {.initial = 4, .interval = 2};
    int32_t state[CLQ_SCALING_INTS] = {0};
    float off, factor, got[VARIABLES];
    rig_begin(r, 1);
    const clq_value squares = rig_value(r, "squares", VARIABLES * sizeof(float), 0),
                    of_state = rig_value(r, "state", sizeof state, 0), of_off = rig_value(r, "off", sizeof off, 0),
                    of_factor = rig_value(r, "factor", sizeof factor, 0);
    clq_take_scale_off(r->list, VARIABLES, &scaling, squares, of_state, of_off);
    clq_global_factor(r->list, VARIABLES, 0.5f, squares, of_off, of_factor);
    rig_bind(r);
    rig_fill(r, of_state, state, sizeof state);
    for (size_t i = 0; i < CLQ_COUNT_OF(scale_steps); i++) {
        const scale_step *s = &scale_steps[i];
        double all = 0;
        rig_fill(r, squares, s->squares, sizeof s->squares);
        rig_run(r, 1);
        rig_read(r, of_state, state, sizeof state);
        rig_read(r, of_off, &off, sizeof off);
        rig_read(r, of_factor, &factor, sizeof factor);
        rig_read(r, squares, got, sizeof got);
        assert_memory_equal(state, s->state, sizeof s->state);
        assert_true((double)off == (s->finite ? 1 / s->scale : 0));
        for (size_t v = 0; v < VARIABLES; v++) {
            const double plain = (double)s->squares[v] / (s->scale * s->scale);
            all += plain;
            if (s->finite) assert_true((double)got[v] == plain);
        }
        const double want = s->finite ? factor_of(all, 0.5) / s->scale : 0;
        rig_check_close(r, "the factor of all", &factor, &want, 1, 3e-7, 0);
    }
    rig_end(r);
}

static void loss_scale(void **state) {
    (void)state;
    rig_each(check_scale);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(norms_and_factors), cmocka_unit_test(loss_scale)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
