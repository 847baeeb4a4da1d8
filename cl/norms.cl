#include "sums.cl"
/* Norms of the gradient's variables, and the factors that clip gradients (src/ops/training/norms.c). An arena is
 * divided into blocks of 128 floats. table: four numbers for each of `entries` ranges of blocks: the range's variable,
 * or -1 for a gap; its first block; the block after its last; and whether its squares count. */

#define BLOCK 128

typedef struct entry {
    int variable, first, end, counts;
} entry;

static entry entry_at(global const int *table, size_t e) {
    entry found = {table[4 * e], table[4 * e + 1], table[4 * e + 2], table[4 * e + 3]};
    return found;
}

/* Compensated sums (Kahan): the rounding error of an addition is kept in `low`, and subtracted from the next term. */
static void add(float *sum, float *low, float term) {
    float rest = term - *low, next = *sum + rest;
    *low = (next - *sum) - rest;
    *sum = next;
}

#ifdef TILE

#define FOR_MY_ENTRY FOR_MY
#define FIRST_LANE true
#define FOR_LANES(i, first, end) for (int i = (first); i < (end); i++)
#define ALL_SUM(shared, value) (value)

/* squares[b] = the sum of the squares of block b. Two chains hide the latency of the additions. */
KERNEL void block_squares(global const float *x, int blocks, global float *squares, local float *shared) {
    FOR_MY (b, blocks) {
        global const float *at = x + b * BLOCK;
        floatv even = 0, odd = 0;
        UNROLL for (int i = 0; i < BLOCK / VEC; i += 2) {
            floatv v = LOADV_ALIGNED(at + i * VEC), u = LOADV_ALIGNED(at + (i + 1) * VEC);
            even += v * v;
            odd += u * u;
        }
        squares[b] = floatv_sum(even + odd);
    }
}

#else

#define FOR_MY_ENTRY(e, n) for (size_t e = get_group_id(0); e < (size_t)(n); e += get_num_groups(0))
#define FIRST_LANE (get_local_id(0) == 0)
#define FOR_LANES(i, first, end) for (int i = (first) + (int)get_local_id(0); i < (end); i += GROUP)
#define ALL_SUM(shared, value) sum_of_items(shared, value, GROUP)

KERNEL void block_squares(global const float *x, int blocks, global float *squares, local float *shared) {
    int item = (int)get_local_id(0), lane = item & (RUN - 1);
    for (int first = (int)get_group_id(0) * RUNS; first < blocks; first += (int)get_num_groups(0) * RUNS) {
        int b = first + item / RUN;
        floatv sum = 0;
        for (int i = lane; i < BLOCK / VEC && b < blocks; i += RUN) {
            floatv v = LOADV_ALIGNED(x + (size_t)b * BLOCK + i * VEC);
            sum += v * v;
        }
        float total = sum_of_items(shared, floatv_sum(sum), RUN);
        if (lane == 0 && b < blocks) squares[b] = total;
    }
}

#endif

/* out[variable][kind] = the sum of squares[block][kind] over the variable's blocks, or 0 if its squares do not count.
 * There are `kinds` kinds of squares, side by side. */
KERNEL void variable_squares(global const float *squares, global const int *table, int entries, int kinds,
                             global float *out, local float *shared) {
    FOR_MY_ENTRY(e, entries * kinds) {
        entry own = entry_at(table, e / kinds);
        int kind = (int)e % kinds;
        float sum = 0, low = 0;
        if (own.variable >= 0 && own.counts)
            FOR_LANES (b, own.first, own.end) add(&sum, &low, squares[(size_t)b * kinds + kind]);
        float total = ALL_SUM(shared, sum - low);
        if (FIRST_LANE && own.variable >= 0) out[own.variable * kinds + kind] = total;
    }
}

/* As in Keras: limit / norm if the norm is larger than the limit, else 1. NaN stays NaN. */
static float factor_of(float squares, float limit) {
    float norm = sqrt(squares);
    return norm <= limit ? 1.0f : limit / norm;
}

/* SCALED: `off` is the factor that takes a loss scale off the gradient, or 0 if no update is made. A factor that is not
 * finite becomes 0, too: squares are not finite only in a step without an update. (PoCL 6.0 with LLVM 18 ends the
 * process if the source compares `off` with 0.) */
#ifdef SCALED
#define OFF_PARAMETER , global const float *off
static float taken_off(float factor, float off) { return isfinite(factor) ? factor * off : 0.0f; }
#define TAKEN_OFF(factor) taken_off(factor, off[0])
#else
#define OFF_PARAMETER
#define TAKEN_OFF(factor) (factor)
#endif

/* factors[0], by the norm of all variables together. One work-group. */
KERNEL void global_factor(global const float *squares OFF_PARAMETER, int variables, float limit, global float *factors,
                          local float *shared) {
    float sum = 0, low = 0;
    FOR_LANES (v, 0, variables) add(&sum, &low, squares[v]);
    float total = ALL_SUM(shared, sum - low);
    if (FIRST_LANE) factors[0] = TAKEN_OFF(factor_of(total, limit));
}

/* factors[block], by the norm of the block's variable. Gaps are not clipped: their factor is 1, or `off` if SCALED. */
KERNEL void block_factors(global const float *squares OFF_PARAMETER, global const int *table, int entries, float limit,
                          global float *factors, local float *shared) {
    FOR_MY_ENTRY(e, entries) {
        entry own = entry_at(table, e);
        float factor = own.variable < 0 ? 1.0f : factor_of(squares[own.variable], limit);
        FOR_LANES (b, own.first, own.end) factors[b] = TAKEN_OFF(factor);
    }
}

/* The state of a loss scale: its exponent, the number of finite steps since it changed, and of steps that were skipped
 * (clq_take_scale_off). Scales are 1 to 2^126, whose inverse is no denormal number. One work-group. */
KERNEL void take_scale_off(global float *squares, int variables, float initial, int interval, global int *state,
                           global float *off, local float *shared) {
    float scale = ldexp(initial, state[0]), inverse = 1.0f / scale, sum = 0;
    FOR_LANES (v, 0, variables) sum += squares[v];
    bool finite = isfinite(ALL_SUM(shared, sum)); /* after this, all items have read the state */
    if (finite)
        FOR_LANES (v, 0, variables) squares[v] = squares[v] * inverse * inverse;
    if (!FIRST_LANE) return;
    off[0] = finite ? inverse : 0.0f;
    bool doubles = finite && state[1] + 1 >= interval;
    if (doubles && scale <= 0x1p125f) state[0]++;
    if (!finite && scale >= 2.0f) state[0]--;
    state[1] = finite && !doubles ? state[1] + 1 : 0;
    state[2] += finite ? 0 : 1;
}

/* ratios[block] = norm(weights) / norm(direction) of the block's variable, from both sums of squares. The ratio is 1 if
 * one of them is 0, and for gaps. It is 0 if the first is below 0, which marks skipped variables (directions). NaN
 * stays NaN. */
KERNEL void block_ratios(global const float *squares, global const int *table, int entries, global float *ratios,
                         local float *shared) {
    FOR_MY_ENTRY(e, entries) {
        entry own = entry_at(table, e);
        float ratio = 1.0f;
        if (own.variable >= 0) {
            float weights = squares[2 * own.variable], direction = squares[2 * own.variable + 1];
            if (weights < 0.0f)
                ratio = 0.0f;
            else if (weights != 0.0f && direction != 0.0f)
                ratio = sqrt(weights) / sqrt(direction);
        }
        FOR_LANES (b, own.first, own.end) ratios[b] = ratio;
    }
}
