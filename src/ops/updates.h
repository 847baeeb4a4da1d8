/* Operations over flat arenas. An arena holds all variables, or their gradients: updates, norms, loss scaling,
 * compression, checks. Part of ops/ops.h. */
#ifndef CLQ_OPS_UPDATES_H
#define CLQ_OPS_UPDATES_H

#include "launch/launch.h"

/* ---- penalties on weights (penalty.c): a term that is added to the loss of each sample ---- */

/* The penalty is l1 * sum |w| + l2 * sum w^2. */
typedef struct clq_penalty_problem {
    size_t elements;
    double l1, l2;
    size_t metrics_width; /* floats of a row of the metrics */
} clq_penalty_problem;
/* Adds the penalty, once for each sample, to the loss: the first float of the metrics row, which the loss has
 * written. */
void clq_penalty_loss(clq_list *list, const clq_penalty_problem *p, clq_value w, clq_value metrics);
/* Writes dw: the penalty's gradient, times the number of samples, times CLQ_PARAM_SCALE. With a state (not none), also
 * times the loss scale, initial * 2^state[0]. */
void clq_penalty_gradient(clq_list *list, const clq_penalty_problem *p, float initial, clq_value state, clq_value w,
                          clq_value dw);

/* ---- optimizers (optimizers.c: one row each), their updates over flat arenas (update.c: one launch each), and sums of
 * gradients (accumulate.c) ---- */

/* UPDATE_STATES_MAX: how many states an update can have (STATES_0 and so on in cl/update.cl). UPDATE_BLOCK: the floats
 * of a block. If variables differ in a number (a factor, a decay), each block of an arena has its own. */
enum {
    CLQ_UPDATE_RANKS_MAX = 8,
    CLQ_UPDATE_STATES_MAX = 4,
    CLQ_UPDATE_CONSTANTS = 3,
    CLQ_UPDATE_RATES = 3,
    CLQ_UPDATE_BLOCK = 128
};

/* The function rule_NAME of cl/update_rules.cl, which computes the new weights. */
typedef struct clq_update_rule {
    const char *name;
    unsigned states; /* how many flat arenas it keeps beside weights and gradient: zero before the first update */
    unsigned flops;  /* per weight */
} clq_update_rule;

typedef struct clq_optimizer_row {
    const char *name;
    clq_option options[CLQ_HYPERPARAMETERS_MAX + 1]; /* the hyper-parameters; "lr" is first, "weight_decay" last */
    clq_update_rule rule;
    const clq_update_rule *(*choose)(const double *values); /* returns the rule for these values; NULL: `rule` */
    bool trust_ratio; /* steps depend on norms of variables: clq_update_directions runs first */
    /* Sets the constants that the rule gets, which are 0 before. NULL: the hyper-parameters after lr, as they are. */
    void (*constants)(const double *values, float constants[CLQ_UPDATE_CONSTANTS]);
    /* Sets rate, second and third for update number `step`, from 1. Before the call, they are lr, 0 and 0. NULL:
     * these. */
    void (*rates)(const double *values, double lr, uint64_t step, double rates[CLQ_UPDATE_RATES]);
} clq_optimizer_row;
size_t clq_optimizer_count(void);
const clq_optimizer_row *clq_optimizer_row_of(clq_optimizer_kind kind);
const clq_update_rule *clq_optimizer_rule(const clq_optimizer *optimizer);
unsigned clq_optimizer_states(const clq_optimizer *optimizer);
bool clq_optimizer_has_trust_ratio(const clq_optimizer *optimizer);
/* The rule's arguments c0, c1 and c2. */
void clq_optimizer_constants(const clq_optimizer *optimizer, float constants[CLQ_UPDATE_CONSTANTS]);
double clq_optimizer_weight_decay(const clq_optimizer *optimizer);
/* The numbers of an update that change from step to step: three for the rule, and the part of the weights that
 * decays. */
typedef struct clq_update_rates {
    float rate, second, third, decay;
} clq_update_rates;
/* The rates of all optimizers of a step, by their numbers. */
typedef struct clq_step_rates {
    clq_update_rates of[CLQ_OPTIMIZERS_MAX];
} clq_step_rates;
clq_step_rates clq_rates_of_params(const clq_step_params *params);
void clq_set_rates(clq_step_params *params, unsigned number, const clq_update_rates *rates);
/* The rates of update number `step`, from 1, with learning rate lr. */
clq_update_rates clq_optimizer_rates(const clq_optimizer *optimizer, double lr, uint64_t step);

/* Flat arenas, and the part of them that is updated.
 *
 * Replicas on the same memory can shard an update. Each rank updates a part of its own: it adds all ranks' gradients in
 * this part, rank 0's first. It writes the new weights over all these gradients, and the sum over its own weights. So
 * weights and gradients change places. */
typedef struct clq_update_arenas {
    clq_value w, g;
    clq_value states[CLQ_UPDATE_STATES_MAX]; /* as many as the rule has */
    clq_value average;                       /* moving average of the weights, laid out as the states; NO_VALUE: none */
    /* One number per block, or NO_VALUE. Entry first_block belongs to the block at float `first`. factors: what the
     * gradient is multiplied by. decays: 1 if the block's weights decay, otherwise 0. */
    clq_value factors, decays;
    clq_value ratios; /* only with a trust ratio: one number per block, indexed as `factors` */
    size_t first_block;
    size_t first, floats; /* first is aligned as a view (clq_device_view_align); floats is at least 1 */
    size_t states_first;  /* as `first`, but in the states, which may be arenas of the part alone */
    unsigned ranks, rank; /* ranks: 0 or 1 if not sharded. At most CLQ_UPDATE_RANKS_MAX */
    clq_value peers[CLQ_UPDATE_RANKS_MAX - 1]; /* [i]: gradient of rank (rank + 1 + i) % ranks */
} clq_update_arenas;

/* An update: its rule, and what is done before and after the rule. */
typedef struct clq_update_problem {
    clq_optimizer optimizer; /* its learning rate is not read */
    unsigned number;         /* the optimizer's number in a step: selects the rates */
    float limit;             /* elements of the gradient are clipped to [-limit, limit]; 0: no clipping */
    bool factor_of_all;      /* the arenas' `factors` have one number for all blocks */
    bool summed;             /* with several ranks: clq_sum_gradients has added the gradients before */
    bool skips;              /* if a factor is 0, its weights, states and average stay as they are */
} clq_update_problem;
/* Runs an update with the parameters CLQ_PARAM_RATE, _SECOND, _THIRD and _DECAY of the optimizer's number, and
 * CLQ_PARAM_AVERAGE. */
void clq_update(clq_list *list, const clq_update_problem *problem, const clq_update_arenas *arenas);
/* With a trust ratio (LAMB), the length of a variable's step depends on norms of the whole variable, so an update takes
 * two passes.
 *
 * clq_update_directions is the first pass, over whole blocks. It writes the new states. It also writes squares (blocks,
 * 2), indexed as `factors`: sums of squares over each block, of the weights after their decay, and of the step's
 * direction.
 *
 * Then come clq_squares_from_blocks, a sum over the ranks if ranks have parts of variables, and clq_block_ratios.
 *
 * clq_update is the second pass, and changes no state. The gradients of several ranks are summed before the first
 * pass. */
void clq_update_directions(clq_list *list, const clq_update_problem *problem, const clq_update_arenas *arenas,
                           clq_value squares);
/* With several ranks: sums all gradients in the part, and writes the sum over the rank's own gradient. Writes squares
 * (blocks): the sum of squares of each block. The part must be whole blocks. */
void clq_sum_gradients(clq_list *list, const clq_update_arenas *arenas, clq_value squares);
/* Accumulates gradients over runs. If CLQ_PARAM_SUM_FACTOR is 0, sum = x, whatever `sum` was before. Otherwise sum =
 * (sum + x) * CLQ_PARAM_SUM_FACTOR. */
void clq_accumulate(clq_list *list, size_t floats, clq_value x, clq_value sum);

/* An update by the host, on its own memory (update_host.c): floats [first, first + floats) of each array. */
typedef struct clq_host_update {
    float *w;
    float *states[CLQ_UPDATE_STATES_MAX]; /* as many as the rule has */
    float *average;                       /* moving average of the weights; NULL: none */
    /* The gradient is the sum of these, in this order, times `factor`. At least one. */
    const float *const *gradients;
    unsigned gradient_count;
    float factor;
    float *sum;  /* gets this gradient; may be one of `gradients`; NULL: not stored */
    float limit; /* for the update, but not in `sum`, elements are clipped to [-limit, limit]; 0: no clipping */
    float ratio; /* norm(weights) / norm(direction), for the second pass of an optimizer with a trust ratio; this pass
                    reads no gradients */
    /* Arrays that get the new weights as well. There may be none. */
    float *const *copies;
    unsigned copy_count;
    size_t first, floats;
} clq_host_update;
/* Runs the rule of cl/update_rules.cl in plain float arithmetic. The bits are the same on every processor, and however
 * the arrays are cut into parts. average: how far the moving average goes towards the new weights, from 0 to 1. Does
 * not wait. Any number of threads may call it, each for parts of its own. */
void clq_update_on_host(const clq_optimizer *optimizer, const clq_host_update *update, const clq_update_rates *rates,
                        float average);
/* The first pass of an optimizer with a trust ratio (clq_update_directions). squares gets both sums over these
 * floats. */
void clq_directions_on_host(const clq_optimizer *optimizer, const clq_host_update *update,
                            const clq_update_rates *rates, double squares[2]);
/* Only sets `sum`, without an update. */
void clq_sum_on_host(const clq_host_update *update);
double clq_square_sum_on_host(const float *x, size_t floats); /* in double */

/* ---- constraints on weights, applied after their update (constrain.c) ---- */

/* A variable as five axes. For each index of the axes 0, 2 and 4, the numbers along the axes 1 and 3 have a norm. */
typedef struct clq_constraint_problem {
    size_t sizes[5];
    bool non_negative;        /* numbers below 0 become 0; norms are not constrained */
    double least, most, rate; /* the norm n becomes rate * clip(n, least, most) + (1 - rate) * n */
} clq_constraint_problem;
/* Constrains the variable that begins at block `block` of the arena w. */
void clq_constrain_weights(clq_list *list, const clq_constraint_problem *p, size_t block, clq_value w);
void clq_constrain_on_host(const clq_constraint_problem *p, float *w);

/* ---- norms of an arena's variables (norms.c) ---- */

/* An arena, or a part of it, as `count` blocks of CLQ_UPDATE_BLOCK floats. table (entries, 4) i32 has a row for each
 * run of blocks: the variable, or -1 for a gap; the run's first block; its last block + 1; and 1 if the run's squares
 * count, otherwise 0. The runs are adjacent. A variable without blocks has an empty run. */
typedef struct clq_blocks {
    clq_value table;
    size_t entries, count;
} clq_blocks;
/* out[variable] (f32) = the sum of the squares of the variable's blocks in x, in a fixed order, or 0 if its squares do
 * not count. Other elements of `out` stay. */
void clq_squares_from_values(clq_list *list, const clq_blocks *blocks, clq_value x, clq_value out);
/* The same from sums of squares per block, for several kinds of squares at once: (blocks, kinds) to (variables,
 * kinds). */
void clq_squares_from_blocks(clq_list *list, const clq_blocks *blocks, unsigned kinds, clq_value squares,
                             clq_value out);
/* Factors that clip a gradient to a norm of `limit`, as in Keras: limit / norm if the norm is larger, otherwise 1, and
 * NaN if the norm is NaN. off: the result of clq_take_scale_off, or CLQ_NO_VALUE. With `off`, factors are multiplied by
 * it, and are 0 instead of NaN.
 *
 * clq_global_factor: one factor (1), from the norm of all variables together. squares (variables). */
void clq_global_factor(clq_list *list, size_t variables, float limit, clq_value squares, clq_value off,
                       clq_value factor);
/* One factor per variable, from its own norm: factors (count) has, for each block, the factor of its variable, and 1
 * (times `off`) in gaps. */
void clq_block_factors(clq_list *list, const clq_blocks *blocks, float limit, clq_value squares, clq_value off,
                       clq_value factors);
/* The trust ratios, from the squares of weights and directions (variables, 2): ratios (count) has, for each block, the
 * ratio of its variable, norm(weights) / norm(direction). The ratio is 1 if one of the norms is 0, and in gaps. It is 0
 * if clq_update_directions has skipped the variable. */
void clq_block_ratios(clq_list *list, const clq_blocks *blocks, clq_value squares, clq_value ratios);

/* ---- loss scaling (Micikevicius et al., "Mixed precision training", 2018), in norms.c ----
 * The loss is multiplied by a scale before its gradient is computed, so that small gradients do not become 0 in halves.
 * The scale follows the gradients. It doubles after `interval` steps in a row with finite gradients, and is halved
 * after a step whose gradient was not finite. It stays from 1 to CLQ_LOSS_SCALE_MOST. Doubling and halving are
 * exact. */

#define CLQ_LOSS_SCALE_MOST 0x1p126
typedef struct clq_loss_scaling {
    float initial; /* 1 to CLQ_LOSS_SCALE_MOST; 0: losses are not scaled */
    uint32_t interval;
} clq_loss_scaling;
/* The state (i32), zero at first: the scale is initial * 2^EXPONENT; finite steps since the scale changed; skipped
 * steps. */
enum { CLQ_SCALING_EXPONENT, CLQ_SCALING_FINITE, CLQ_SCALING_SKIPPED, CLQ_SCALING_INTS = 4 };
/* If the squares (variables) of a scaled gradient are finite, replaces them by the squares of the gradient itself. off
 * (1) becomes the factor that takes the scale off the gradient, or 0 if the squares are not finite. Advances the state
 * by one step. */
void clq_take_scale_off(clq_list *list, size_t variables, const clq_loss_scaling *scaling, clq_value squares,
                        clq_value state, clq_value off);

/* check.c. clq_block_hashes: hashes (blocks) = a hash of 64 bits of each block of CLQ_UPDATE_BLOCK words of x, the same
 * on every device. clq_find_not_finite: if x has NaN or infinities, first (1) i32 = min(first, place). x has `elements`
 * numbers in all or, with per_sample, in each sample. */
void clq_block_hashes(clq_list *list, size_t blocks, clq_value x, clq_value hashes);
void clq_find_not_finite(clq_list *list, size_t elements, bool per_sample, int place, clq_value x, clq_value first);
/* x = x * CLQ_PARAM_SCALE (average.c). floats must be whole vectors. */
void clq_weigh(clq_list *list, size_t floats, clq_value x);

/* Multiplies x by the loss scale of a state or, with `over`, divides x by it (average.c). floats must be whole
 * vectors. */
void clq_scale_by_state(clq_list *list, size_t floats, float initial, bool over, clq_value state, clq_value x);

/* ---- compression of gradients (compress.c)
 * With error feedback (Seide et al., "1-bit stochastic gradient descent", 2014; Karimireddy et al., "Error feedback
 * fixes SignSGD", 2019): what a message leaves out of a gradient stays in `error`, and is added to the next gradient.
 * So all messages and the last error together are the sum of all gradients, up to float32's rounding of error +
 * gradient. Arenas have `floats` numbers, a multiple of 16. gradient and error are f32. ---- */

/* halves (f16) = error + gradient, each rounded to the nearest half, ties to even. error = what the rounding left out.
 * A finite number beyond clq_halves_most is sent as clq_halves_most, and the rest stays in the error. Infinity and NaN
 * are sent as they are, and leave no error. */
void clq_compress_halves(clq_list *list, size_t floats, unsigned ranks, clq_value gradient, clq_value error,
                         clq_value halves);
/* The largest half of which `ranks` can be added, in any order, with a finite half as the sum. */
float clq_halves_most(unsigned ranks);
void clq_expand_halves(clq_list *list, size_t floats, clq_value halves, clq_value gradient);

/* Chooses the `chosen` numbers (1 to `floats`) of error + gradient with the largest absolute values (top-k: Lin et al.,
 * "Deep gradient compression", 2018). Of equal numbers, the first wins. NaN counts as largest. pairs (2, chosen): the
 * indices (u32) in rising order, then the numbers (f32). error = the numbers that were not chosen, and 0 in place of
 * the chosen ones. */
void clq_choose_largest(clq_list *list, size_t floats, size_t chosen, clq_value gradient, clq_value error,
                        clq_value pairs);
/* gradient = the sum of the numbers that `ranks` ranks have chosen: pairs (ranks, 2, chosen), added in the ranks'
 * order. 0 if no rank has chosen an element. */
void clq_add_pairs(clq_list *list, size_t floats, size_t chosen, unsigned ranks, clq_value pairs, clq_value gradient);

#endif
