#include "ref/ref_elementwise.h"
#include "support/ops_activation.h"
#include "support/ops_rig.h"

#include <math.h>

typedef struct shape {
    size_t rows_per_example, channels;
    uint32_t capacity, count;
} shape;

static const shape shapes[] = {
    {1, 1, 1, 1},    {1, 10, 64, 64}, {1, 10, 64, 63},   {3, 16, 5, 4},     {1, 17, 9, 8}, {7, 1, 5, 5},
    {49, 32, 6, 5},  {1, 128, 5, 5},  {2, 15, 33, 32},   {1, 1009, 3, 2},   {5, 31, 7, 0}, {121, 64, 4, 3},
    {1, 33, 40, 40}, {1, 1024, 2, 1}, {200, 48, 20, 19}, {1, 2056, 40, 39}, /* enough for several work-items, by rows
                                                                               and by columns */
};

static const clq_activation all[] = {
    CLQ_ACTIVATION_LINEAR,      CLQ_ACTIVATION_RELU,        CLQ_ACTIVATION_SIGMOID,
    CLQ_ACTIVATION_TANH,        CLQ_ACTIVATION_SOFTMAX,     CLQ_ACTIVATION_MISH,
    CLQ_ACTIVATION_SOFTPLUS,    CLQ_ACTIVATION_SILU,        CLQ_ACTIVATION_GELU,
    CLQ_ACTIVATION_RELU6,       CLQ_ACTIVATION_LEAKY_RELU,  CLQ_ACTIVATION_ELU,
    CLQ_ACTIVATION_SELU,        CLQ_ACTIVATION_EXPONENTIAL, CLQ_ACTIVATION_SOFTSIGN,
    CLQ_ACTIVATION_LOG_SIGMOID, CLQ_ACTIVATION_HARD_SILU,   CLQ_ACTIVATION_HARD_SIGMOID,
    CLQ_ACTIVATION_HARD_TANH,   CLQ_ACTIVATION_SQUAREPLUS,  CLQ_ACTIVATION_TANH_SHRINK,
    CLQ_ACTIVATION_SOFT_SHRINK, CLQ_ACTIVATION_HARD_SHRINK, CLQ_ACTIVATION_GELU_APPROXIMATE};

/* An activation that is not built of several instructions has a slope of its own. */
static bool has_slope(clq_activation act) { return !clq_activation_row_of(act)->build; }

/* Each activation is a program of its own. One driver runs it in one family, and the other driver in the other family.
 * Softmax has kernels of its own and runs in both families on both drivers. */
static bool takes(const rig *r, clq_activation act) {
    size_t index = 0;
    while (all[index] != act) index++;
    return act == CLQ_ACTIVATION_SOFTMAX || rig_takes(r, index);
}

/* Every activation is tested. */
static void test_all_have_a_turn(void **state) {
    (void)state;
    for (unsigned a = 0; clq_activation_row_of((clq_activation)a); a++) {
        bool found = false;
        for (size_t i = 0; i < CLQ_COUNT_OF(all); i++) found = found || all[i] == (clq_activation)a;
        if (!found) fail_msg("activation %s has no turn", clq_activation_row_of((clq_activation)a)->name);
        clq_element_program p = {.output_count = 1};
        (void)clq_activation_do(&p, (clq_activation)a, clq_element_take(&p, (struct clq_element_input){0}));
        assert_in_range(p.instruction_count, 1, 1 + CLQ_ACTIVATION_INSTRUCTIONS);
    }
}

static size_t size_of(shape s) { return s.rows_per_example * s.channels * s.capacity; }

/* ---- forward ---- */

static void check_forward(rig *r, clq_activation act, shape s, bool in_place) {
    clq_random random = clq_random_start(1, s.channels);
    size_t elements = s.rows_per_example * s.channels, n = elements * s.count, bytes = n * sizeof(float);
    float *x, *y = rig_alloc(n + 1, sizeof(float));
    double *dx, *want = rig_alloc(n + 1, sizeof(double));
    rig_numbers(&random, n, -6, 6, &x, &dx);
    ref_activation(act, s.rows_per_example * s.count, s.channels, dx, want);
    rig_begin(r, s.capacity);
    clq_value vx = rig_value(r, "x", 0, elements * sizeof(float)),
              vy = in_place ? vx : rig_value(r, "y", 0, elements * sizeof(float));
    activation_forward(r->list, act, elements, s.channels, vx, vy);
    rig_bind(r);
    rig_fill(r, vx, x, bytes);
    rig_run(r, s.count);
    rig_read(r, vy, y, bytes);
    rig_check_close(r, "y", y, want, n, 1e-6, has_slope(act) ? 0 : 1e-6);
    rig_check_untouched(r, vy, bytes);
    rig_end(r);
    clq_free(x);
    clq_free(dx);
    clq_free(y);
    clq_free(want);
}

/* A simulator has half of the shapes, others for the next activation: four in a row, so that all ways to write results
 * are among them. */
static bool has_turn(const rig *r, size_t activation, size_t index) {
    return takes(r, all[activation]) && (!rig_is_simulated(r) || (activation + index / 4) % 2 == 0);
}

static void forward(rig *r) {
    r->optimizes_all = true; /* each activation, on the driver that has it with the family for CPUs */
    for (size_t a = 0; a < CLQ_COUNT_OF(all); a++)
        for (size_t i = 0; i < CLQ_COUNT_OF(shapes); i++)
            if (has_turn(r, a, i) && rig_affords(r, size_of(shapes[i])))
                check_forward(r, all[a], shapes[i], i % 3 == 2);
}

/* ---- backward ---- */

typedef struct backward_case {
    shape s;
    size_t elements, n, rows;
    float *y, *dy;    /* as the device gets them; y: what the slope takes */
    double *x, *d_dy; /* x: the input that gave y */
    double *want, *want_db;
} backward_case;

static backward_case make_backward(clq_activation act, shape s) {
    clq_random random = clq_random_start(2, s.channels * 7 + (size_t)act);
    backward_case c = {.s = s, .elements = s.rows_per_example * s.channels, .rows = s.rows_per_example * s.count};
    c.n = c.elements * s.count;
    float *x;
    rig_numbers(&random, c.n, -2, 2, &x, &c.x);
    rig_numbers(&random, c.n, -1, 1, &c.dy, &c.d_dy);
    c.y = x; /* takes x's memory */
    double *y = rig_alloc(c.n + 1, sizeof(double));
    ref_activation(act, c.rows, s.channels, c.x, y);
    const bool of_input = clq_activation_row_of(act)->slope_of_input;
    for (size_t i = 0; i < c.n; i++) c.y[i] = of_input ? c.y[i] : (float)y[i];
    c.want = rig_alloc(c.n + 1, sizeof(double));
    c.want_db = rig_alloc(s.channels, sizeof(double));
    ref_activation_gradient(act, c.rows, s.channels, c.x, c.d_dy, c.want, c.want_db);
    clq_free(y);
    return c;
}

static void free_backward(backward_case *c) {
    clq_free(c->y);
    clq_free(c->dy);
    clq_free(c->x);
    clq_free(c->d_dy);
    clq_free(c->want);
    clq_free(c->want_db);
}

typedef enum where { APART, IN_PLACE, NOWHERE } where;

static void check_backward(rig *r, clq_activation act, shape s, where dz, bool sums) {
    backward_case c = make_backward(act, s);
    size_t bytes = c.n * sizeof(float), per_example = c.elements * sizeof(float), db_bytes = s.channels * sizeof(float);
    float *got = rig_alloc(c.n + 1, sizeof(float)), *db = rig_alloc(s.channels, sizeof(float)),
          *again = rig_alloc(s.channels, sizeof(float));
    rig_begin(r, s.capacity);
    clq_value vy = rig_value(r, "y", 0, per_example), vdy = rig_value(r, "dy", 0, per_example);
    clq_value vdb = sums ? rig_value(r, "db", db_bytes, 0) : CLQ_NO_VALUE;
    clq_value vdz = dz == IN_PLACE ? vdy : dz == APART ? rig_value(r, "dz", 0, per_example) : CLQ_NO_VALUE;
    activation_backward(r->list, act, c.elements, s.channels, vy, vdy, vdz, vdb);
    rig_bind(r);
    for (int run = 0; run < 2; run++) {
        rig_fill(r, vy, c.y, bytes);
        rig_fill(r, vdy, c.dy, bytes);
        rig_run(r, s.count);
        if (sums) rig_read(r, vdb, run ? again : db, db_bytes);
    }
    if (vdz) {
        rig_read(r, vdz, got, bytes);
        rig_check_close(r, "dz", got, c.want, c.n, 1e-6, 1e-6);
        rig_check_untouched(r, vdz, bytes);
    }
    if (sums) {
        rig_check_close(r, "db", db, c.want_db, s.channels, 1e-6, 1e-7 * (double)(c.rows + 10));
        assert_memory_equal(db, again, db_bytes);
    }
    rig_end(r);
    free_backward(&c);
    clq_free(got);
    clq_free(db);
    clq_free(again);
}

/* NOWHERE: the gradient is only summed, not stored. Relu and sigmoid are left out there: their slopes take results, as
 * does tanh's, which stands for them. */
static void backward(rig *r) {
    for (size_t a = 0; a < CLQ_COUNT_OF(all); a++) {
        for (size_t i = 0; i < CLQ_COUNT_OF(shapes); i++) {
            where dz = (where)(i % 2);
            if (!has_slope(all[a]) || !has_turn(r, a, i) || !rig_affords(r, size_of(shapes[i]))) continue;
            check_backward(r, all[a], shapes[i], dz, i % 4 != 3);
            if (i % 4 == 0 && all[a] != CLQ_ACTIVATION_RELU && all[a] != CLQ_ACTIVATION_SIGMOID)
                check_backward(r, all[a], shapes[i], NOWHERE, true);
        }
    }
}

/* ---- chains ---- */

static const activation_chain chains[] = {
    {1, {CLQ_ACTIVATION_SIGMOID}},
    {2, {CLQ_ACTIVATION_TANH, CLQ_ACTIVATION_RELU}},
    {3, {CLQ_ACTIVATION_RELU, CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_TANH}},
    {8,
     {CLQ_ACTIVATION_TANH, CLQ_ACTIVATION_TANH, CLQ_ACTIVATION_RELU, CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_TANH,
      CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_TANH}},
};

/* x goes through act and then the chain: at[0] is x, at[1] is what act gave, at[i + 2] what link i gave. Makes dx from
 * dy (which is overwritten), and db, its sums over rows. */
static void ref_chain(const activation_chain *chain, clq_activation act, size_t rows, size_t channels,
                      double *const *at, double *dy, double *dx, double *db) {
    ref_activation(act, rows, channels, at[0], at[1]);
    for (unsigned i = 0; i < chain->count; i++) ref_activation(chain->links[i], rows, channels, at[i + 1], at[i + 2]);
    for (unsigned i = chain->count; i-- > 0;) {
        ref_activation_gradient(chain->links[i], rows, channels, at[i + 1], dy, dx, NULL);
        memcpy(dy, dx, rows * channels * sizeof *dy);
    }
    ref_activation_gradient(act, rows, channels, at[0], dy, dx, db);
}

/* The chain after an activation: forward, and backward in place, with sums or without. */
static void check_chain(rig *r, const activation_chain *chain, clq_activation act, shape s, bool sums) {
    clq_random random = clq_random_start(8, s.channels * 16 + chain->count * 2 + sums);
    size_t elements = s.rows_per_example * s.channels, rows = s.rows_per_example * s.count, n = rows * s.channels;
    size_t per_example = elements * sizeof(float), db_bytes = s.channels * sizeof(float);
    double *at[CHAIN_LINKS_MOST + 2], *d_dy, *want = rig_alloc(n + 1, sizeof(double)),
                                             *want_db = rig_alloc(s.channels, sizeof(double));
    float *x, *dy, *got = rig_alloc(n + s.channels, sizeof(float));
    rig_numbers(&random, n, -2, 2, &x, &at[0]);
    rig_numbers(&random, n, -1, 1, &dy, &d_dy);
    for (unsigned i = 0; i <= chain->count; i++) at[i + 1] = rig_alloc(n + 1, sizeof(double));
    ref_chain(chain, act, rows, s.channels, at, d_dy, want, want_db);
    for (size_t i = 0; i < n; i++) x[i] = (float)at[1][i];
    rig_begin(r, s.capacity);
    clq_value vx = rig_value(r, "x", 0, per_example), vy = rig_value(r, "y", 0, per_example),
              vdy = rig_value(r, "dy", 0, per_example), vdb = sums ? rig_value(r, "db", db_bytes, 0) : CLQ_NO_VALUE;
    chain_forward(r->list, chain, elements, vx, vy);
    chain_backward(r->list, chain, act, elements, s.channels, vx, vdy, vdy, vdb);
    rig_bind(r);
    rig_fill(r, vx, x, n * sizeof(float));
    rig_fill(r, vdy, dy, n * sizeof(float));
    rig_run(r, s.count);
    rig_read(r, vy, got, n * sizeof(float));
    rig_check_close(r, "y", got, at[chain->count + 1], n, 2e-6, 1e-6);
    rig_check_untouched(r, vy, n * sizeof(float));
    rig_read(r, vdy, got, n * sizeof(float));
    rig_check_close(r, "dz", got, want, n, 4e-6, 1e-6);
    rig_check_untouched(r, vdy, n * sizeof(float));
    if (sums) {
        rig_read(r, vdb, got, db_bytes);
        rig_check_close(r, "db", got, want_db, s.channels, 2e-6, 1e-7 * (double)(rows + 10));
    }
    rig_end(r);
    for (unsigned i = 0; i <= chain->count + 1; i++) clq_free(at[i]);
    clq_free(x);
    clq_free(dy);
    clq_free(d_dy);
    clq_free(got);
    clq_free(want);
    clq_free(want_db);
}

static void through_chains(rig *r) {
    static const clq_activation before[] = {CLQ_ACTIVATION_LINEAR, CLQ_ACTIVATION_RELU, CLQ_ACTIVATION_TANH,
                                            CLQ_ACTIVATION_SIGMOID};
    _Static_assert(CLQ_COUNT_OF(before) == CLQ_COUNT_OF(chains), "one for each");
    for (size_t c = 0; c < CLQ_COUNT_OF(chains); c++)
        for (size_t i = c % 3; i < CLQ_COUNT_OF(shapes); i += 3)
            if (rig_takes(r, c) && rig_affords(r, size_of(shapes[i]) * chains[c].count))
                check_chain(r, &chains[c], before[c], shapes[i], i % 4 != 3);
}

/* A chain gives what separate launches give, bit for bit, wherever vectors end. No element's result depends on other
 * elements. */
static void links_one_by_one(rig *r) {
    enum { N = 53, BYTES = N * sizeof(float) };
    clq_random random = clq_random_start(12, 0);
    for (size_t c = 0; c < CLQ_COUNT_OF(chains); c++) {
        const activation_chain *chain = &chains[c];
        float *x, *dy, got[N], want[N];
        double *unused[2];
        if (!rig_takes(r, c)) continue;
        rig_numbers(&random, N, -4, 4, &x, &unused[0]);
        rig_numbers(&random, N, -1, 1, &dy, &unused[1]);
        x[5] = NAN;
        x[N - 1] = -INFINITY;
        rig_begin(r, 1);
        clq_value at[CHAIN_LINKS_MOST + 1] = {rig_value(r, "x", 0, BYTES)}, y = rig_value(r, "y", 0, BYTES),
                                        dx = rig_value(r, "dx", 0, BYTES), slope = rig_value(r, "dy", 0, BYTES);
        chain_forward(r->list, chain, N, at[0], y);
        chain_backward(r->list, chain, CLQ_ACTIVATION_LINEAR, N, N, at[0], slope, dx, CLQ_NO_VALUE);
        for (unsigned i = 0; i < chain->count; i++) {
            at[i + 1] = rig_value(r, "link", 0, BYTES);
            activation_forward(r->list, chain->links[i], N, N, at[i], at[i + 1]);
        }
        for (unsigned i = chain->count; i-- > 0;)
            activation_backward(r->list, chain->links[i], N, N, at[i + 1], slope, slope, CLQ_NO_VALUE);
        rig_bind(r);
        rig_fill(r, at[0], x, BYTES);
        rig_fill(r, slope, dy, BYTES);
        rig_run(r, 1);
        rig_read(r, y, got, BYTES);
        rig_read(r, at[chain->count], want, BYTES);
        assert_true(isnan(got[5]) && isnan(want[5]) && isfinite(got[N - 1]));
        got[5] = want[5]; /* which NaN it is does not matter */
        assert_memory_equal(got, want, BYTES);
        rig_read(r, dx, got, BYTES);
        rig_read(r, slope, want, BYTES);
        got[5] = want[5];
        assert_memory_equal(got, want, BYTES);
        rig_end(r);
        clq_free(x);
        clq_free(dy);
        clq_free(unused[0]);
        clq_free(unused[1]);
    }
}

/* A bias gradient over 100,000 rows, all of one sign so that rounding adds up. */
static void long_sums(rig *r) {
    const uint32_t rows = rig_affords(r, 1000000) ? 100003 : 503;
    static const size_t widths[] = {3, 16};
    for (size_t w = 0; w < CLQ_COUNT_OF(widths); w++) {
        size_t channels = widths[w], n = rows * channels;
        clq_random random = clq_random_start(5, channels);
        float *dy, *db = rig_alloc(channels, sizeof(float));
        double *d_dy, *want = rig_alloc(channels, sizeof(double));
        rig_numbers(&random, n, 0.5, 1, &dy, &d_dy);
        for (size_t i = 0; i < n; i++) want[i % channels] += d_dy[i];
        rig_begin(r, rows);
        clq_value vdy = rig_value(r, "dy", 0, channels * sizeof(float)),
                  vdb = rig_value(r, "db", channels * sizeof(float), 0);
        activation_backward(r->list, CLQ_ACTIVATION_LINEAR, channels, channels, CLQ_NO_VALUE, vdy, CLQ_NO_VALUE, vdb);
        rig_bind(r);
        rig_fill(r, vdy, dy, n * sizeof(float));
        rig_run(r, rows);
        rig_read(r, vdb, db, channels * sizeof(float));
        rig_check_close(r, "db", db, want, channels, 1e-6, 0);
        rig_end(r);
        clq_free(dy);
        clq_free(d_dy);
        clq_free(db);
        clq_free(want);
    }
}

/* NaN is not lost, and infinities give the right limits. */
static void extremes(rig *r) {
    static const struct {
        clq_activation act;
        float x, y;
    } cases[] = {
        {CLQ_ACTIVATION_RELU, NAN, NAN},
        {CLQ_ACTIVATION_RELU, -INFINITY, 0},
        {CLQ_ACTIVATION_RELU, INFINITY, INFINITY},
        {CLQ_ACTIVATION_SIGMOID, NAN, NAN},
        {CLQ_ACTIVATION_SIGMOID, 200, 1},
        {CLQ_ACTIVATION_SIGMOID, -200, 0},
        {CLQ_ACTIVATION_SIGMOID, INFINITY, 1},
        {CLQ_ACTIVATION_SIGMOID, -INFINITY, 0},
        {CLQ_ACTIVATION_TANH, NAN, NAN},
        {CLQ_ACTIVATION_TANH, 100, 1},
        {CLQ_ACTIVATION_TANH, -INFINITY, -1},
        {CLQ_ACTIVATION_LINEAR, NAN, NAN},
        {CLQ_ACTIVATION_MISH, NAN, NAN},
        {CLQ_ACTIVATION_MISH, 100, 100},
        {CLQ_ACTIVATION_MISH, -200, 0},
        {CLQ_ACTIVATION_MISH, INFINITY, INFINITY},
        {CLQ_ACTIVATION_SOFTPLUS, NAN, NAN},
        {CLQ_ACTIVATION_SOFTPLUS, 1000, 1000},
        {CLQ_ACTIVATION_SOFTPLUS, -1000, 0},
        {CLQ_ACTIVATION_SILU, NAN, NAN},
        {CLQ_ACTIVATION_SILU, -200, 0},
        {CLQ_ACTIVATION_SILU, 200, 200},
        {CLQ_ACTIVATION_GELU, NAN, NAN},
        {CLQ_ACTIVATION_GELU, -40, 0},
        {CLQ_ACTIVATION_GELU, 1e30f, 1e30f},
        {CLQ_ACTIVATION_GELU_APPROXIMATE, -1e4f, 0},
        {CLQ_ACTIVATION_GELU_APPROXIMATE, 1e4f, 1e4f},
        {CLQ_ACTIVATION_RELU6, NAN, NAN},
        {CLQ_ACTIVATION_RELU6, INFINITY, 6},
        {CLQ_ACTIVATION_ELU, NAN, NAN},
        {CLQ_ACTIVATION_ELU, 1e30f, 1e30f},
        {CLQ_ACTIVATION_ELU, -INFINITY, -1},
        {CLQ_ACTIVATION_LOG_SIGMOID, -1000, -1000},
        {CLQ_ACTIVATION_LOG_SIGMOID, 1000, 0},
        {CLQ_ACTIVATION_HARD_TANH, NAN, NAN},
        {CLQ_ACTIVATION_LEAKY_RELU, NAN, NAN},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        float x[19], y[19];
        double want[19];
        if (!takes(r, cases[i].act)) continue;
        for (size_t k = 0; k < 19; k++) x[k] = cases[i].x, want[k] = (double)cases[i].y;
        rig_begin(r, 1);
        clq_value vx = rig_value(r, "x", 0, sizeof x), vy = rig_value(r, "y", 0, sizeof y);
        activation_forward(r->list, cases[i].act, 19, 19, vx, vy);
        rig_bind(r);
        rig_fill(r, vx, x, sizeof x);
        rig_run(r, 1);
        rig_read(r, vy, y, sizeof y);
        rig_check_close(r, "y", y, want, 19, 1e-7, 0);
        rig_end(r);
    }
}

/* Logits that overflow exp, and rows of equal logits. */
static void softmax_extremes(rig *r) {
    const float x[4][3] = {{1000, 999, -1000}, {-1000, -1000, -1000}, {88, 0, -88}, {0, -INFINITY, 0}};
    float y[12];
    double in[12], want[12];
    for (size_t i = 0; i < 12; i++) in[i] = (double)x[i / 3][i % 3];
    ref_activation(CLQ_ACTIVATION_SOFTMAX, 4, 3, in, want);
    rig_begin(r, 4);
    clq_value vx = rig_value(r, "x", 0, 12), vy = rig_value(r, "y", 0, 12);
    activation_forward(r->list, CLQ_ACTIVATION_SOFTMAX, 3, 3, vx, vy);
    rig_bind(r);
    rig_fill(r, vx, x, sizeof x);
    rig_run(r, 4);
    rig_read(r, vy, y, sizeof y);
    rig_check_close(r, "y", y, want, 12, 1e-6, 1e-37);
    rig_end(r);
}

/* ---- the reference itself ---- */

static void test_reference_by_differences(void **state) {
    (void)state;
    enum { ROWS = 3, CHANNELS = 5, N = ROWS * CHANNELS };
    clq_random random = clq_random_start(3, 0);
    double x[N], dy[N], dx[N], db[CHANNELS];
    for (size_t i = 0; i < N; i++)
        x[i] = rig_uniform(&random, 0.1, 2) * (i % 2 ? 1 : -1), dy[i] = rig_uniform(&random, -1, 1);
    for (size_t a = 0; a < CLQ_COUNT_OF(all); a++) {
        if (!has_slope(all[a])) continue;
        ref_activation_gradient(all[a], ROWS, CHANNELS, x, dy, dx, db);
        for (size_t i = 0; i < N; i++) {
            double h = 1e-5, kept = x[i], y[2][N], slope = 0;
            x[i] = kept + h;
            ref_activation(all[a], ROWS, CHANNELS, x, y[1]);
            x[i] = kept - h;
            ref_activation(all[a], ROWS, CHANNELS, x, y[0]);
            x[i] = kept;
            for (size_t k = 0; k < N; k++) slope += dy[k] * (y[1][k] - y[0][k]) / (2 * h);
            assert_true(fabs(slope - dx[i]) < 1e-8);
        }
        for (size_t c = 0; c < CHANNELS; c++) {
            double sum = 0;
            for (size_t row = 0; row < ROWS; row++) sum += dx[row * CHANNELS + c];
            assert_true(fabs(sum - db[c]) < 1e-14);
        }
    }
}

#define ON_DEVICES(name)                                                                                               \
    static void test_##name(void **state) {                                                                            \
        (void)state;                                                                                                   \
        rig_each(name);                                                                                                \
    }
ON_DEVICES(forward)
ON_DEVICES(backward)
ON_DEVICES(through_chains)
ON_DEVICES(links_one_by_one)
ON_DEVICES(long_sums)
ON_DEVICES(extremes)
ON_DEVICES(softmax_extremes)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_have_a_turn),  cmocka_unit_test(test_reference_by_differences),
        cmocka_unit_test(test_forward),          cmocka_unit_test(test_backward),
        cmocka_unit_test(test_through_chains),   cmocka_unit_test(test_links_one_by_one),
        cmocka_unit_test(test_long_sums),        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_softmax_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
