#include "update_rules.cl"
#include "sums.cl"
/* Updates over flat arenas: `vectors` whole vectors, then `tail` floats. */

#define FOR_TAIL(i, vectors, tail) FOR_MY_FROM (i, (size_t)(vectors)*VEC, (size_t)(vectors)*VEC + (tail))

/* RANKS replicas, each of which updates a part. A replica adds the gradients of all replicas, rank 0's first, and
 * writes the new weights to the places of these gradients. There they stay: weights and gradients change places, and
 * the sum is kept in the place of the replica's own weights. (What is read from another core's cache is written there,
 * too. So a line comes back with the right to be written, and travels twice in a step. If new weights were written in
 * the place of old ones, it would travel four times, which costs more than six times as much between cores that share
 * no cache.) w and g are the replica's own. The gradients of its peers come in the order of ranks, from its own rank
 * on, and wrap around. */
#ifndef RANKS
#define RANKS 1
#endif
#define PEERS_1(DO)
#define PEERS_2(DO) DO(1)
#define PEERS_3(DO) PEERS_2(DO) DO(2)
#define PEERS_4(DO) PEERS_3(DO) DO(3)
#define PEERS_5(DO) PEERS_4(DO) DO(4)
#define PEERS_6(DO) PEERS_5(DO) DO(5)
#define PEERS_7(DO) PEERS_6(DO) DO(6)
#define PEERS_8(DO) PEERS_7(DO) DO(7)
#define FOR_PEERS(DO) CLQ_JOIN(PEERS_, RANKS)(DO)
#define PEER_GRADIENT(i) , global float *g##i
#define TAKE_PEER(i) gs[(rank + i) % RANKS] = g##i;
#define TAKE_GRADIENTS                                                                                                 \
    global float *gs[RANKS];                                                                                           \
    gs[rank] = g;                                                                                                      \
    FOR_PEERS(TAKE_PEER)

/* The sum of the gradients over ranks. */
ALWAYS_INLINE floatv gradient_vector(global float *const *gs, size_t i) {
    floatv sum = LOADV_ALIGNED(gs[0] + i * VEC);
    UNROLL for (int r = 1; r < RANKS; r++) sum += LOADV_ALIGNED(gs[r] + i * VEC);
    return sum;
}

ALWAYS_INLINE float gradient_float(global float *const *gs, size_t i) {
    float sum = gs[0][i];
    UNROLL for (int r = 1; r < RANKS; r++) sum += gs[r][i];
    return sum;
}

/* SUMMED: g already has the sum, in the place of the replica's own gradient. */
#ifdef SUMMED
#define GRADIENT_VECTOR(i) LOADV_ALIGNED(g + (i)*VEC)
#define GRADIENT_FLOAT(i) g[i]
#else
#define GRADIENT_VECTOR(i) gradient_vector(gs, i)
#define GRADIENT_FLOAT(i) gradient_float(gs, i)
#endif

#if RANKS == 1
#define SET_VECTOR(i, weights, gradient) STOREV_ALIGNED(weights, w + (i)*VEC)
#define SET_FLOAT(i, weight, gradient) (w[i] = (weight))
#else
#define SET_VECTOR(i, weights, gradient) set_vector(w, gs, i, weights, gradient)
#define SET_FLOAT(i, weight, gradient) set_float(w, gs, i, weight, gradient)

ALWAYS_INLINE void set_vector(global float *w, global float *const *gs, size_t i, floatv weights, floatv gradient) {
    STOREV_ALIGNED(gradient, w + i * VEC);
    UNROLL for (int r = 0; r < RANKS; r++) STOREV_ALIGNED(weights, gs[r] + i * VEC);
}

ALWAYS_INLINE void set_float(global float *w, global float *const *gs, size_t i, float weight, float gradient) {
    w[i] = gradient;
    UNROLL for (int r = 0; r < RANKS; r++) gs[r][i] = weight;
}
#endif

#define BLOCK 128

/* For whole blocks: g = the sum of all ranks' gradients; squares[b] = the sum of its squares over block b. */
KERNEL void sum_gradients(global float *g, int blocks, global float *squares, int rank FOR_PEERS(PEER_GRADIENT)) {
    TAKE_GRADIENTS
    FOR_MY (b, blocks) {
        floatv sums = 0;
        for (size_t i = b * (BLOCK / VEC); i < (b + 1) * (BLOCK / VEC); i++) {
            floatv sum = gradient_vector(gs, i);
            STOREV_ALIGNED(sum, g + i * VEC);
            sums += sum * sum;
        }
        squares[b] = floatv_sum(sums);
    }
}

/* ---- the update ----
 * Every form of it applies the program's rule, -DRULE, which has STATES states. */

#ifndef RULE
#define RULE sgd
#define STATES 0
#endif
#define NEW_WEIGHTS CLQ_JOIN(rule_, RULE)
#define STATES_0(DO)
#define STATES_1(DO) DO(0)
#define STATES_2(DO) STATES_1(DO) DO(1)
#define STATES_3(DO) STATES_2(DO) DO(2)
#define STATES_4(DO) STATES_3(DO) DO(3)
#define FOR_STATES(DO) CLQ_JOIN(STATES_, STATES)(DO)
#define STATE_ARGUMENT(k) , global float *state##k
#define LOAD_STATE(k) s[k] = LOADV_ALIGNED(state##k + i * VEC);
#define STORE_STATE(k) STOREV_ALIGNED(s[k], state##k + i * VEC);
#ifdef TRUST_RATIO
#define FOR_CHANGED_STATES(DO)
#else
#define FOR_CHANGED_STATES FOR_STATES
#endif
#define LOAD_STATE_FLOAT(k) s[k] = (floatv)state##k[i];
#define STORE_STATE_FLOAT(k) state##k[i] = s[k].s0;

/* What is done around the rule, each by an option. A block is 128 floats; first_block is the block of w[0].
 * FACTORS 1: the gradient is multiplied by factors[0]. 2: by its block's number in factors. 3: this is the second pass
 * of a rule with a trust ratio (TRUST_RATIO), and factors has the ratios of the blocks.
 * SKIPS: if that factor, or ratio, is 0, nothing changes, whatever the gradient is.
 * LIMITED: then the elements of the gradient are clamped to [-limit, limit].
 * DECAY 1: all weights decay. 2: the blocks whose number in decays is 1 decay, those with 0 do not.
 * AVERAGE: the moving average of the weights moves the part `average` of the way towards the new weights. */
#ifndef DECAY
#define DECAY 0
#endif
#ifdef LIMITED
#define LIMIT(g) PICK((g) > limit, ALL(limit), PICK((g) < -limit, ALL(-limit), g))
#else
#define LIMIT(g) (g)
#endif
#ifndef FACTORS
#define FACTORS 0
#endif
#if FACTORS == 3
#define FACTORS_ARGUMENT , global const float *factors
#define FACTOR(at) factors[first_block + (at) / BLOCK]
#define TAKEN(g, at) ((floatv)FACTOR(at))
#elif FACTORS == 2
#define FACTORS_ARGUMENT , global const float *factors
#define FACTOR(at) factors[first_block + (at) / BLOCK]
#define TAKEN(g, at) LIMIT((g)*FACTOR(at))
#elif FACTORS == 1
#define FACTORS_ARGUMENT , global const float *factors
#define FACTOR(at) factors[0]
#define TAKEN(g, at) LIMIT((g)*FACTOR(at))
#else
#define FACTORS_ARGUMENT
#define TAKEN(g, at) LIMIT(g)
#endif
#ifdef SKIPS
#define IS_SKIPPED(at) (FACTOR(at) == 0.0f)
#else
#define IS_SKIPPED(at) false
#endif
#if DECAY == 2
#define DECAY_ARGUMENT , global const float *decays
#define DECAYED(w, at) ((w) - (w) * (decay * decays[first_block + (at) / BLOCK]))
#elif DECAY == 1
#define DECAY_ARGUMENT
#define DECAYED(w, at) ((w) - (w)*decay)
#else
#define DECAY_ARGUMENT
#define DECAYED(w, at) (w)
#endif
#ifdef AVERAGE
#define AVERAGE_ARGUMENT , global float *averages
#define MOVE_AVERAGE(i, weights)                                                                                       \
    {                                                                                                                  \
        floatv before = LOADV_ALIGNED(averages + (i)*VEC);                                                             \
        STOREV_ALIGNED(before + (weights - before) * average, averages + (i)*VEC);                                     \
    }
#define MOVE_AVERAGE_FLOAT(i, weight) averages[i] += ((weight)-averages[i]) * average
#else
#define AVERAGE_ARGUMENT
#define MOVE_AVERAGE(i, weights)
#define MOVE_AVERAGE_FLOAT(i, weight)
#endif

#ifdef TRUST_RATIO
/* The first pass of a rule with a trust ratio, over whole blocks. It updates the states. For each block, it makes the
 * sum of the squares of its weights after decay, and that of the direction: squares[first_block + block][2]. A skipped
 * block has -1 and 0. No sum of squares is below 0, so this makes the ratio of the block's variable 0
 * (block_ratios). */
#define DIRECTION CLQ_JOIN(direction_, RULE)
#define ADD_DIRECTION(i)                                                                                               \
    floatv s[STATES + 1], old = DECAYED(LOADV_ALIGNED(w + (i)*VEC), (i)*VEC);                                          \
    FOR_STATES(LOAD_STATE)                                                                                             \
    floatv gradient = TAKEN(LOADV_ALIGNED(g + (i)*VEC), (i)*VEC);                                                      \
    floatv direction = DIRECTION(old, gradient, s, rate, second, third, c0, c1, c2);                                   \
    FOR_STATES(STORE_STATE)                                                                                            \
    of_weights += old * old;                                                                                           \
    of_direction += direction * direction;

KERNEL void directions(global const float *w,
                       global const float *g FOR_STATES(STATE_ARGUMENT) FACTORS_ARGUMENT DECAY_ARGUMENT, int blocks,
                       int first_block, float rate, float second, float third, float decay, float average, float limit,
                       float c0, float c1, float c2, global float *squares, local float *shared) {
#ifdef TILE
    FOR_MY (b, blocks) {
        floatv of_weights = 0, of_direction = 0;
        global float *own = squares + 2 * (first_block + b);
        /* These are not chosen at the end: LLVM 18 in PoCL 6.0 ends the process over choices that ask whether a number
         * is 0. */
        own[0] = -1.0f;
        own[1] = 0.0f;
        if (IS_SKIPPED(b * BLOCK)) continue;
        for (size_t i = b * (BLOCK / VEC); i < (b + 1) * (BLOCK / VEC); i++) {
            ADD_DIRECTION(i)
        }
        own[0] = floatv_sum(of_weights);
        own[1] = floatv_sum(of_direction);
    }
#else
    int item = (int)get_local_id(0), lane = item & (RUN - 1);
    for (int first = (int)get_group_id(0) * RUNS; first < blocks; first += (int)get_num_groups(0) * RUNS) {
        size_t b = first + item / RUN;
        floatv of_weights = 0, of_direction = 0;
        bool is_there = b < (size_t)blocks, skipped = is_there && IS_SKIPPED(b * BLOCK);
        for (size_t k = lane; k < BLOCK / VEC && is_there && !skipped; k += RUN) {
            size_t i = b * (BLOCK / VEC) + k;
            ADD_DIRECTION(i)
        }
        float weights = sum_of_items(shared, floatv_sum(of_weights), RUN);
        float direction = sum_of_items(shared, floatv_sum(of_direction), RUN);
        if (lane == 0 && is_there) {
            squares[2 * (first_block + b)] = skipped ? -1.0f : weights;
            squares[2 * (first_block + b) + 1] = skipped ? 0.0f : direction;
        }
    }
#endif
}
#endif

KERNEL void update(global float *w,
                   global float *g FOR_STATES(STATE_ARGUMENT) FACTORS_ARGUMENT DECAY_ARGUMENT AVERAGE_ARGUMENT,
                   int vectors, int tail, int first_block, float rate, float second, float third, float decay,
                   float average, float limit, float c0, float c1, float c2, int rank FOR_PEERS(PEER_GRADIENT)) {
    TAKE_GRADIENTS
    FOR_MY (i, vectors) {
        floatv gradient = GRADIENT_VECTOR(i), s[STATES + 1], whole = LOADV_ALIGNED(w + i * VEC);
        if (IS_SKIPPED(i * VEC)) {
            if (average == 1.0f) { /* in the first update, the average begins with the weights */
                MOVE_AVERAGE(i, whole)
            }
            SET_VECTOR(i, whole, gradient);
            continue;
        }
        floatv old = DECAYED(whole, i * VEC);
        FOR_STATES(LOAD_STATE)
        floatv weights = NEW_WEIGHTS(old, TAKEN(gradient, i * VEC), s, rate, second, third, c0, c1, c2);
        FOR_CHANGED_STATES(STORE_STATE)
        MOVE_AVERAGE(i, weights)
        SET_VECTOR(i, weights, gradient);
    }
#ifdef TAIL /* there is a tail, unlike in arenas of plans. A single float stands in all lanes. */
    FOR_TAIL (i, vectors, tail) {
        float gradient = GRADIENT_FLOAT(i);
        if (IS_SKIPPED(i)) {
            if (average == 1.0f) {
                MOVE_AVERAGE_FLOAT(i, w[i]);
            }
            SET_FLOAT(i, w[i], gradient);
            continue;
        }
        floatv s[STATES + 1], all = (floatv)gradient, old = DECAYED((floatv)w[i], i);
        FOR_STATES(LOAD_STATE_FLOAT)
        floatv weights = NEW_WEIGHTS(old, TAKEN(all, i), s, rate, second, third, c0, c1, c2);
        FOR_CHANGED_STATES(STORE_STATE_FLOAT)
        MOVE_AVERAGE_FLOAT(i, weights.s0);
        SET_FLOAT(i, weights.s0, gradient);
    }
#endif
}
