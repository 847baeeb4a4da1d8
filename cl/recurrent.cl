/* Recurrent cells over the steps of a sequence, and their gradients. CELL: 0 simple, 1 LSTM (Hochreiter and
 * Schmidhuber, 1997), 2 GRU (Cho et al., 2014) with the reset after the product, 3 GRU with the reset before the
 * product, and without a bias of the product. The state h has `units` numbers, and the cell GATES times as many: LSTM
 * has input, forget, cell, output; GRU has update, reset, candidate. ACT, GATE_ACT: the activations of the cell and of
 * its gates, whose slopes follow from their results.
 *
 * A sample has z (steps, GATES, units), what the inputs of the steps give. The options are
 * - BIAS: bias (2, GATES, units), of the inputs and of the state's product;
 * - BACKWARDS: the last step is processed first; y has the steps in the order in which they were processed;
 * - MASK: mask (steps), 0 if the state stays as it is. At such a step, y is 0 with ZEROES, else the state;
 * - DROPS: drops (GATES, units), factors of the state in the product of each gate. There are then as many COPIES of the
 *   state as gates. This is also so if the reset comes first, since the product of one gate takes another state.
 *
 * Steps depend on each other, so a work-item, or a work-group, takes rows of the batch through all of them. */
#if CELL == 0
#define GATES 1
#define KEPT 1 /* h */
#elif CELL == 1
#define GATES 4
#define KEPT 6 /* the gates, the previous c, the activation of c */
#elif CELL == 2
#define GATES 3
#define KEPT 5 /* the gates, the candidate's product, the previous h */
#else
#define GATES 3
#define KEPT 4 /* the gates, the previous h */
#define RESET_FIRST
#endif
#if defined(DROPS) || defined(RESET_FIRST)
#define COPIES GATES
#else
#define COPIES 1
#endif
/* APART: the gradient of the state's product differs from that of z. */
#if defined(DROPS) || CELL >= 2
#define APART
#endif

#ifdef TILE
#define LANES VEC
typedef floatv numbers;
#define LOAD(p, n) READ_V_UNTIL(0, p, (p) + (n))
ALWAYS_INLINE void store(floatv value, global float *p, int n) {
    if (n >= VEC) {
        WRITE_V(0, value, p);
    } else {
        float lanes[VEC];
        CLQ_JOIN(vstore, VEC)(value, 0, lanes);
        for (int l = 0; l < n; l++) p[l] = lanes[l];
    }
}
/* Stores numbers that are not read soon past the caches: a line that is written whole need not be read first. Compilers
 * that make an instruction of a prefetch (PREFETCH) make one of this store, too. */
ALWAYS_INLINE void store_away(floatv value, global float *p, int n) {
#ifdef PREFETCH
    if (n >= VEC && ((size_t)p & (sizeof(floatv) - 1)) == 0) {
        __builtin_nontemporal_store(value, (global floatv *)p);
        return;
    }
#endif
    store(value, p, n);
}
#define ROWS (VEC == 16 ? 4 : 2)
#define MOST_ROWS 4
#define FIRST_BLOCK 0
#define NEXT_BLOCK 1
#define SYNC
#define FOR_MY_ROWS(block, blocks) FOR_MY (block, blocks)
#else
#define LANES 1
typedef float numbers;
#define LOAD(p, n) (*(p))
#define store(value, p, n) (*(p) = (value))
#define store_away store
#define ROWS 1
#define MOST_ROWS 1
#define FIRST_BLOCK ((int)get_local_id(0))
#define NEXT_BLOCK ((int)get_local_size(0))
#define SYNC barrier(CLK_GLOBAL_MEM_FENCE);
#define FOR_MY_ROWS(block, blocks)                                                                                     \
    for (int block = (int)get_group_id(0); block < (blocks); block += (int)get_num_groups(0))
#endif
#define FOR_MY_UNITS(j, units) for (int j = FIRST_BLOCK * LANES; j < (units); j += NEXT_BLOCK * LANES)

#define ACTIVATED(x) ACTIVATE(numbers, x)
#define GATED(x) CLQ_JOIN(ACTIVATE_, GATE_ACT)(numbers, x)
#define SLOPE_OF(y, dy) SLOPE(numbers, y, dy)
#define GATE_SLOPE(y, dy) CLQ_JOIN(SLOPE_, GATE_ACT)(numbers, y, dy)

#ifdef MASK
#define COUNTS(mask, at) ((mask)[at] != 0.0f)
#else
#define COUNTS(mask, at) 1
#endif

/* The carry of a row: the state as products take it, of this step and the next (2, COPIES, units); the state itself; c.
 * If the reset comes first, update and reset are there instead of c. */
#ifdef RESET_FIRST
#define CARRY (2 * COPIES + 3)
#else
#define CARRY (2 * COPIES + 2)
#endif

#ifdef TILE
#define LOAD_WHOLE(p, n) READ_V(0, p)
#else
#define LOAD_WHOLE(p, n) LOAD(p, n)
#endif

/* What a work-item processes: rows of the batch. Rows after the end of the batch repeat its last row. */
typedef struct run {
    global const float *z, *u, *bias, *mask, *drops;
    global float *y, *last_h, *last_c, *before, *kept, *carry;
    int steps, units, rows;
    size_t row[MOST_ROWS];
} run;

ALWAYS_INLINE void take_rows(run *x, int block, int count) {
    x->rows = min(ROWS, count - block * ROWS);
    UNROLL for (int r = 0; r < ROWS; r++) x->row[r] = min(block * ROWS + r, count - 1);
}

/* Stores the state of row r, units from j on, for the products of the step whose half of the carry begins at
 * `half_`. */
ALWAYS_INLINE void store_state(const run *x, int r, int j, int half_, numbers h, numbers c) {
    global float *own = x->carry + x->row[r] * CARRY * x->units + j;
    const int left = x->units - j;
    for (int g = 0; g < COPIES; g++) {
#ifdef DROPS
        const numbers factor = LOAD(x->drops + (x->row[r] * COPIES + g) * x->units + j, left);
        store(h * factor, own + half_ + g * x->units, left);
#else
        store(h, own + half_ + g * x->units, left);
#endif
    }
    store(h, own + 2 * COPIES * x->units, left);
    store(c, own + (2 * COPIES + 1) * x->units, left);
}

/* The state's products: a[r][g] = the bias, if any, + the sum over k of state[k] * u[k, g, j …], for gates `from` to
 * `to` - 1. */
#define IS_MEANT(g) ((g) >= from && (g) < to) /* known once inlined; bounds of loops would have to be known earlier */
#define ADD_PRODUCT(LOAD_U)                                                                                            \
    for (int k = 0; k < x->units; k++) {                                                                               \
        numbers weights[GATES];                                                                                        \
        UNROLL for (int g = 0; g < GATES; g++) if (IS_MEANT(g)) weights[g] =                                           \
            LOAD_U(x->u + ((size_t)k * GATES + g) * x->units + j, left);                                               \
        UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int g = 0; g < GATES; g++) if (IS_MEANT(g)) a[r][g] =        \
            fma((numbers)(state[r][(g % COPIES) * x->units + k]), weights[g], a[r][g]);                                \
    }
ALWAYS_INLINE void add_products(const run *x, int j, int now, int from, int to, numbers a[MOST_ROWS][GATES]) {
    const int left = x->units - j;
    global const float *state[MOST_ROWS];
    UNROLL for (int r = 0; r < ROWS; r++) state[r] = x->carry + x->row[r] * CARRY * x->units + now;
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int g = 0; g < GATES; g++) {
#ifdef BIAS
        a[r][g] = LOAD(x->bias + (GATES + g) * x->units + j, left);
#else
        a[r][g] = 0;
#endif
    }
    if (left >= LANES) {
        ADD_PRODUCT(LOAD_WHOLE)
    } else {
        ADD_PRODUCT(LOAD)
    }
}

/* Returns the next state, and fills kept (KEPT) with what backward needs. a: the state's products. If the reset comes
 * first, kept already has the update and the reset. */
ALWAYS_INLINE numbers next_state(const numbers *given, const numbers *a, numbers h_before, numbers *c, numbers *kept) {
#if CELL == 0
    return kept[0] = ACTIVATED(given[0] + a[0]);
#elif CELL == 1
    const numbers in = GATED(given[0] + a[0]), forget = GATED(given[1] + a[1]), cell = ACTIVATED(given[2] + a[2]),
                  out = GATED(given[3] + a[3]), c_before = *c;
    *c = fma(forget, c_before, in * cell);
    const numbers shown = ACTIVATED(*c);
    kept[0] = in;
    kept[1] = forget;
    kept[2] = cell;
    kept[3] = out;
    kept[4] = c_before;
    kept[5] = shown;
    return out * shown;
#elif CELL == 3
    const numbers candidate = ACTIVATED(given[2] + a[2]);
    kept[2] = candidate;
    kept[3] = h_before;
    return fma(kept[0], h_before - candidate, candidate);
#else
    const numbers update = GATED(given[0] + a[0]), reset = GATED(given[1] + a[1]),
                  candidate = ACTIVATED(fma(reset, a[2], given[2]));
    kept[0] = update;
    kept[1] = reset;
    kept[2] = candidate;
    kept[3] = a[2];
    kept[4] = h_before;
    return fma(update, h_before - candidate, candidate);
#endif
}

/* Stores the results of step t for row r: for backward, for the readers of y, and for the next step. */
ALWAYS_INLINE void end_step(const run *x, int r, int j, int s, int t, int now, numbers h, numbers c, numbers seen,
                            const numbers *kept) {
    const int left = x->units - j, next = COPIES * x->units - now;
#ifdef KEEP
    global const float *state = x->carry + x->row[r] * CARRY * x->units + now + j;
    for (int g = 0; g < COPIES; g++)
        store_away(LOAD(state + g * x->units, left),
                   x->before + ((x->row[r] * COPIES + g) * x->steps + t) * x->units + j, left);
    for (int i = 0; i < KEPT; i++)
        store_away(kept[i], x->kept + ((x->row[r] * x->steps + t) * KEPT + i) * x->units + j, left);
#endif
#ifdef SEQUENCE
    store(seen, x->y + (x->row[r] * x->steps + s) * x->units + j, left);
#endif
    store_state(x, r, j, next, h, c);
    if (s == x->steps - 1) {
        store(h, x->last_h + x->row[r] * x->units + j, left);
#if CELL == 1
        store(c, x->last_c + x->row[r] * x->units + j, left);
#endif
    }
}

#ifdef RESET_FIRST
/* Computes the update, the reset, and the state that the candidate's product takes. */
ALWAYS_INLINE void reset_step(const run *x, int j, int s, int t) {
    const int left = x->units - j, now = (s & 1) * COPIES * x->units;
    numbers a[MOST_ROWS][GATES];
    add_products(x, j, now, 0, 2, a);
    for (int r = 0; r < x->rows; r++) {
        global float *own = x->carry + x->row[r] * CARRY * x->units + j, *taken = own + now + 2 * x->units;
        global const float *z = x->z + (x->row[r] * x->steps + t) * GATES * x->units + j;
        const numbers reset = GATED(LOAD(z + x->units, left) + a[r][1]);
        store(GATED(LOAD(z, left) + a[r][0]), own + (2 * COPIES + 1) * x->units, left);
        store(reset, own + (2 * COPIES + 2) * x->units, left);
        store(reset * LOAD(taken, left), taken, left);
    }
}
#define FIRST_PRODUCT 2
#else
#define FIRST_PRODUCT 0
#endif

/* Prefetches what step t reads for units from j on, before the products of the step before it. */
ALWAYS_INLINE void fetch_forward(const run *x, int j, int t) {
    UNROLL for (int r = 0; r < ROWS; r++) {
        const size_t at = x->row[r] * x->steps + t;
        UNROLL for (int g = 0; g < GATES; g++) FETCH_TO_READ(x->z + (at * GATES + g) * x->units + j);
    }
}

ALWAYS_INLINE void forward_step(const run *x, int j, int s, int t, int next) {
    const int left = x->units - j, now = (s & 1) * COPIES * x->units;
    numbers a[MOST_ROWS][GATES];
    fetch_forward(x, j, next);
    add_products(x, j, now, FIRST_PRODUCT, GATES, a);
    for (int r = 0; r < x->rows; r++) {
        global const float *own = x->carry + x->row[r] * CARRY * x->units + j;
        const size_t at = x->row[r] * x->steps + t;
        const numbers h_before = LOAD(own + 2 * COPIES * x->units, left),
                      c_before = LOAD(own + (2 * COPIES + 1) * x->units, left);
        numbers given[GATES], kept[KEPT], c = c_before;
#ifdef RESET_FIRST
        kept[0] = c_before;
        kept[1] = LOAD(own + (2 * COPIES + 2) * x->units, left);
#endif
        UNROLL for (int g = 0; g < GATES; g++) {
            given[g] = LOAD(x->z + (at * GATES + g) * x->units + j, left);
#ifdef BIAS
            given[g] += LOAD(x->bias + g * x->units + j, left);
#endif
        }
        numbers h = next_state(given, a[r], h_before, &c, kept), seen = h;
        if (!COUNTS(x->mask, at)) {
            h = h_before;
            c = c_before;
#ifdef ZEROES
            seen = 0;
#else
            seen = h;
#endif
        }
        end_step(x, r, j, s, t, now, h, c, seen, kept);
    }
}

#ifdef BACKWARDS
#define STEP(s) (steps - 1 - (s))
#else
#define STEP(s) (s)
#endif

/* A program of the tile family has one kernel, which halves the compiler's time: the backward one with GRADIENT, else
 * the forward one. A program of the local family has both. */
#ifndef GRADIENT
KERNEL void recurrent_forward(global const float *z, global const float *u, global const float *bias,
                              global const float *h0, global const float *c0, global const float *mask,
                              global const float *drops, global float *y, global float *last_h, global float *last_c,
                              global float *before, global float *kept, global float *carry, int count, int steps,
                              int units) {
    run x = {z, u, bias, mask, drops, y, last_h, last_c, before, kept, carry, steps, units, 0, {0}};
    FOR_MY_ROWS(block, (count + ROWS - 1) / ROWS) {
        take_rows(&x, (int)block, count);
        FOR_MY_UNITS(j, units) {
            for (int r = 0; r < x.rows; r++) {
                numbers h = 0, c = 0;
#ifdef STATE
                h = LOAD(h0 + x.row[r] * units + j, units - j);
#if CELL == 1
                c = LOAD(c0 + x.row[r] * units + j, units - j);
#endif
#endif
                store_state(&x, r, j, 0, h, c);
            }
        }
        SYNC for (int s = 0; s < steps; s++) {
#ifdef RESET_FIRST
            FOR_MY_UNITS(j, units)
            reset_step(&x, j, s, STEP(s));
            SYNC
#endif
                FOR_MY_UNITS(j, units) forward_step(&x, j, s, STEP(s), STEP(min(s + 1, steps - 1)));
            SYNC
        }
    }
}
#endif

/* ---- backward ---- */

/* Gradients of rows. carry (BACK_CARRY, units) has those of h and c. With TILE, it also has those of the step's gates,
 * as the state's products get them, and they are read from there: dz and dr go past the caches. */
#ifdef TILE
#define BACK_CARRY (2 + GATES)
#else
#define BACK_CARRY 2
#endif
typedef struct back {
    global const float *dy, *u, *kept, *mask, *drops;
    global float *dz, *dr, *dboth, *carry;
    int steps, units, rows;
    size_t row[MOST_ROWS];
} back;

/* d: the gradients before the gates' activations. behind: the gradients of the state's products. Returns what else goes
 * to the previous h; *dc becomes the gradient of the previous c. If the reset comes first, the reset's gradient is that
 * of a product, and comes later. */
ALWAYS_INLINE numbers slopes_of(const numbers *kept, numbers dh, numbers *dc, numbers *d, numbers *behind) {
#if CELL == 0
    d[0] = behind[0] = SLOPE_OF(kept[0], dh);
    return 0;
#elif CELL == 1
    const numbers all = *dc + SLOPE_OF(kept[5], dh * kept[3]);
    d[0] = behind[0] = GATE_SLOPE(kept[0], all * kept[2]);
    d[1] = behind[1] = GATE_SLOPE(kept[1], all * kept[4]);
    d[2] = behind[2] = SLOPE_OF(kept[2], all * kept[0]);
    d[3] = behind[3] = GATE_SLOPE(kept[3], dh * kept[5]);
    *dc = all * kept[1];
    return 0;
#elif CELL == 3
    const numbers one = 1;
    d[0] = behind[0] = GATE_SLOPE(kept[0], dh * (kept[3] - kept[2]));
    d[1] = behind[1] = 0;
    d[2] = behind[2] = SLOPE_OF(kept[2], dh * (one - kept[0]));
    return dh * kept[0];
#else
    const numbers one = 1;
    d[0] = behind[0] = GATE_SLOPE(kept[0], dh * (kept[4] - kept[2]));
    d[2] = SLOPE_OF(kept[2], dh * (one - kept[0]));
    d[1] = behind[1] = GATE_SLOPE(kept[1], d[2] * kept[3]);
    behind[2] = d[2] * kept[1];
    return dh * kept[0];
#endif
}

ALWAYS_INLINE void store_slopes(const back *x, int r, int j, int t, const numbers *d, const numbers *behind) {
    const int left = x->units - j;
    const size_t at = x->row[r] * x->steps + t;
    for (int g = 0; g < GATES; g++) {
        store_away(d[g], x->dz + (at * GATES + g) * x->units + j, left);
#ifdef APART
        for (int copy = 0; copy < COPIES; copy++)
            store_away(copy == g % COPIES ? behind[g] : (numbers)(0),
                       x->dr + (((x->row[r] * COPIES + copy) * x->steps + t) * GATES + g) * x->units + j, left);
#endif
#ifdef BIAS
        store_away(d[g], x->dboth + (at * 2 * GATES + g) * x->units + j, left);
        store_away(behind[g], x->dboth + ((at * 2 + 1) * GATES + g) * x->units + j, left);
#endif
#ifdef TILE
        store(behind[g], x->carry + (x->row[r] * BACK_CARRY + 2 + g) * x->units + j, left);
#endif
    }
}

/* Prefetches what step t reads for units from j on, during the step that is processed before it. */
ALWAYS_INLINE void fetch_backward(const back *x, int r, int j, int s, int t) {
    const size_t at = x->row[r] * x->steps + t;
    UNROLL for (int i = 0; i < KEPT; i++) FETCH_TO_READ(x->kept + (at * KEPT + i) * x->units + j);
#ifdef SEQUENCE
    FETCH_TO_READ(x->dy + (x->row[r] * x->steps + s) * x->units + j);
#endif
}

/* next: the step that is processed after s, or s itself if it is the last one. */
ALWAYS_INLINE void backward_step(const back *x, int j, int s, int t, int next, int next_t) {
    const int left = x->units - j;
    for (int r = 0; r < x->rows; r++) {
        fetch_backward(x, r, j, next, next_t);
        global float *own = x->carry + x->row[r] * BACK_CARRY * x->units + j;
        const size_t at = x->row[r] * x->steps + t;
        const int counts = COUNTS(x->mask, at);
        numbers dh = LOAD(own, left), dc = LOAD(own + x->units, left), rest, d[GATES], behind[GATES], kept[KEPT];
#ifdef SEQUENCE
#ifdef ZEROES
        if (counts)
#endif
            dh += LOAD(x->dy + (x->row[r] * x->steps + s) * x->units + j, left);
#endif
        if (counts) {
            UNROLL for (int i = 0; i < KEPT; i++) kept[i] = LOAD(x->kept + (at * KEPT + i) * x->units + j, left);
            rest = slopes_of(kept, dh, &dc, d, behind);
        } else {
            UNROLL for (int g = 0; g < GATES; g++) d[g] = behind[g] = 0;
            rest = dh;
        }
        store(rest, own, left);
        store(dc, own + x->units, left);
        store_slopes(x, r, j, t, d, behind);
    }
}

/* The gradients before gate g at step t, as the state's product gets them: `units` numbers. */
#ifdef TILE
#define SLOPES_OF(r, g) (x->carry + (x->row[r] * BACK_CARRY + 2 + (g)) * x->units)
#elif defined(APART)
#define SLOPES_OF(r, g) (x->dr + (((x->row[r] * COPIES + (g) % COPIES) * x->steps + t) * GATES + (g)) * x->units)
#else
#define SLOPES_OF(r, g) (x->dz + ((x->row[r] * x->steps + t) * GATES + (g)) * x->units)
#endif
#ifdef DROPS
#define DROP_OF(r, g, k) LOAD(x->drops + (x->row[r] * COPIES + (g)) * x->units + (k), x->units - (k))
#endif

/* Adds `value`, the gradient that came back, to units from k on of row r's state. If that was the state after the reset
 * (resets), it also gives the gradient of the reset. */
ALWAYS_INLINE void give_back(const back *x, int r, int k, int t, int resets, numbers value) {
    const int left = x->units - k;
    global float *state = x->carry + x->row[r] * BACK_CARRY * x->units + k;
#ifdef RESET_FIRST
    if (resets) {
        const size_t at = x->row[r] * x->steps + t;
        global const float *kept = x->kept + at * KEPT * x->units + k;
        const numbers reset = LOAD(kept + x->units, left),
                      slope = GATE_SLOPE(reset, value * LOAD(kept + 3 * x->units, left));
        store(slope, x->dz + (at * GATES + 1) * x->units + k, left);
        store(slope, x->dr + (((x->row[r] * COPIES + 1) * x->steps + t) * GATES + 1) * x->units + k, left);
#ifdef TILE
        store(slope, SLOPES_OF(r, 1) + k, left);
#endif
        value *= reset;
    }
#endif
    store(LOAD(state, left) + value, state, left);
}

/* Adds what comes back to the state through gates `from` to `to` - 1. */
#ifdef TILE
#define MOST_VECTORS 4 /* vectors of a state that an item sums at a time */
#define IS_SUMMED(v) ((v) < vectors)
#define ADD_GATE(LOAD_U)                                                                                               \
    for (int n = 0; n < x->units; n++) {                                                                               \
        floatv weights[MOST_VECTORS];                                                                                  \
        UNROLL for (int v = 0; v < MOST_VECTORS; v++) if (IS_SUMMED(v)) weights[v] =                                   \
            LOAD_U(u + (size_t)n * x->units + v * VEC, left);                                                          \
        UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < MOST_VECTORS; v++) if (IS_SUMMED(v))          \
            sums[r][v] = fma((floatv)slopes[r][n], weights[v], sums[r][v]);                                            \
    }
/* For units from k on: `vectors` whole vectors of them, or one vector that is not whole. x->u is (GATES, units, units);
 * a row of it is what the gradient of one unit in a gate gives back to the state. */
ALWAYS_INLINE void add_vectors(const back *x, int k, int t, int from, int to, int vectors, int whole) {
    const int left = x->units - k;
    floatv sums[MOST_ROWS][MOST_VECTORS], totals[MOST_ROWS][MOST_VECTORS];
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < MOST_VECTORS; v++) totals[r][v] = sums[r][v] = 0;
    for (int g = from; g < to; g++) {
        global const float *u = x->u + (size_t)g * x->units * x->units + k, *slopes[MOST_ROWS];
        UNROLL for (int r = 0; r < ROWS; r++) slopes[r] = SLOPES_OF(r, g);
        if (whole) {
            ADD_GATE(LOAD_WHOLE)
        } else {
            ADD_GATE(LOAD)
        }
#ifdef DROPS
        UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < MOST_VECTORS; v++) if (IS_SUMMED(v)) {
            totals[r][v] = fma(sums[r][v], DROP_OF(r, g, k + v * VEC), totals[r][v]);
            sums[r][v] = 0;
        }
#endif
    }
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < MOST_VECTORS; v++) if (IS_SUMMED(v) && r < x->rows)
        give_back(x, r, k + v * VEC, t, from == 2, totals[r][v] + sums[r][v]);
}
ALWAYS_INLINE void add_to_state(const back *x, int t, int from, int to) {
    int k = 0;
    for (; k + MOST_VECTORS * VEC <= x->units; k += MOST_VECTORS * VEC) add_vectors(x, k, t, from, to, MOST_VECTORS, 1);
    for (; k + VEC <= x->units; k += VEC) add_vectors(x, k, t, from, to, 1, 1);
    if (k < x->units) add_vectors(x, k, t, from, to, 1, 0);
}
#else
ALWAYS_INLINE void add_to_state(const back *x, int t, int from, int to) {
    FOR_MY_UNITS(k, x->units) {
        float total = 0;
        for (int g = from; g < to; g++) {
            global const float *slopes = SLOPES_OF(0, g), *weights = x->u + ((size_t)k * GATES + g) * x->units;
            float sum = 0;
            for (int n = 0; n < x->units; n++) sum = fma(slopes[n], weights[n], sum);
#ifdef DROPS
            sum *= DROP_OF(0, g, k);
#endif
            total += sum;
        }
        give_back(x, 0, k, t, from == 2, total);
    }
}
#endif

/* Begins with the gradients of the state after the last step, as far as there are any. */
ALWAYS_INLINE void begin_back(const back *x, int j, global const float *dlast_h, global const float *dlast_c) {
    const int left = x->units - j;
    for (int r = 0; r < x->rows; r++) {
        numbers dh = 0, dc = 0;
#ifdef LAST
        dh = LOAD(dlast_h + x->row[r] * x->units + j, left);
#endif
#ifdef LAST_CELL
        dc = LOAD(dlast_c + x->row[r] * x->units + j, left);
#endif
        store(dh, x->carry + x->row[r] * BACK_CARRY * x->units + j, left);
        store(dc, x->carry + (x->row[r] * BACK_CARRY + 1) * x->units + j, left);
    }
}

#if defined(GRADIENT) || !defined(TILE)
KERNEL void recurrent_backward(global const float *dy, global const float *dlast_h, global const float *dlast_c,
                               global const float *u, global const float *kept, global const float *mask,
                               global const float *drops, global float *dz, global float *dr, global float *dboth,
                               global float *dh0, global float *dc0, global float *carry, int count, int steps,
                               int units) {
    back x = {dy, u, kept, mask, drops, dz, dr, dboth, carry, steps, units, 0, {0}};
    FOR_MY_ROWS(block, (count + ROWS - 1) / ROWS) {
        x.rows = min(ROWS, count - (int)block * ROWS);
        UNROLL for (int r = 0; r < ROWS; r++) x.row[r] = min((int)block * ROWS + r, count - 1);
        FOR_MY_UNITS(j, units)
        begin_back(&x, j, dlast_h, dlast_c);
        for (int s = steps - 1; s >= 0; s--) {
            FOR_MY_UNITS(j, units)
            backward_step(&x, j, s, STEP(s), max(s - 1, 0), STEP(max(s - 1, 0)));
            SYNC
#ifdef RESET_FIRST
                add_to_state(&x, STEP(s), 2, GATES);
            SYNC add_to_state(&x, STEP(s), 0, 2);
#else
                add_to_state(&x, STEP(s), 0, GATES);
#endif
        }
#ifdef STATE
        FOR_MY_UNITS(j, units) {
            for (int r = 0; r < x.rows; r++) {
                global const float *own = carry + x.row[r] * BACK_CARRY * units + j;
                store(LOAD(own, units - j), dh0 + x.row[r] * units + j, units - j);
#if CELL == 1
                store(LOAD(own + units, units - j), dc0 + x.row[r] * units + j, units - j);
#endif
            }
        }
#endif
    }
}
#endif
