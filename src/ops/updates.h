/* Operations over flat arenas, which hold all variables: updates, norms, loss scaling, compression, checks. Part of
 * ops/ops.h. */
#ifndef CLQ_OPS_UPDATES_H
#define CLQ_OPS_UPDATES_H

#include "launch/launch.h"

/* ---- penalties on weights (penalty.c): a part of the loss that each sample has ---- */

/* l1 * sum |w| + l2 * sum w^2. */
typedef struct clq_penalty_problem {
    size_t elements;
    double l1, l2;
    size_t metrics_width; /* floats of a row of the metrics */
} clq_penalty_problem;
/* Adds it, once for each sample, to the first float of the row, which the loss has written. */
void clq_penalty_loss(clq_list *list, const clq_penalty_problem *p, clq_value w, clq_value metrics);
/* dw, of as many samples, each times the step's `scale`, and times initial * 2^state[0] unless there is no state. */
void clq_penalty_gradient(clq_list *list, const clq_penalty_problem *p, float initial, clq_value state, clq_value w,
                          clq_value dw);

/* ---- optimizers (optimizers.c, one row each), and their updates over flat arenas (update.c), launched once; sums
 * of gradients (accumulate.c) ---- */

/* UPDATE_STATES: how many states an update may have: cl/update.cl's STATES_0 and so on. A block is what has one number
 * of its own where variables differ: so many floats of an arena. */
enum {
    CLQ_UPDATE_RANKS_MAX = 8,
    CLQ_UPDATE_STATES_MAX = 4,
    CLQ_UPDATE_CONSTANTS = 3,
    CLQ_UPDATE_RATES = 3,
    CLQ_UPDATE_BLOCK = 128
};

/* How an optimizer with these hyper-parameters computes a weight: the function rule_NAME of cl/update_rules.cl. */
typedef struct clq_update_rule {
    const char *name;
    unsigned states; /* flat arenas beside the weights and their gradient: zero before the first update */
    unsigned flops;  /* for one weight */
} clq_update_rule;

typedef struct clq_optimizer_row {
    const char *name;
    clq_option options[CLQ_HYPERPARAMETERS_MAX + 1]; /* the hyper-parameters; "lr" is first, "weight_decay" last */
    clq_update_rule rule;
    const clq_update_rule *(*choose)(const double *values); /* where there are several, in place of `rule` */
    bool trust_ratio; /* steps go by norms of variables: clq_update_directions comes first */
    /* What the rule gets of the hyper-parameters, 0 unless set. NULL: those behind lr, as they are. */
    void (*constants)(const double *values, float constants[CLQ_UPDATE_CONSTANTS]);
    /* What the rule gets as rate, second and third in update `step`, from 1: lr, 0 and 0 unless set. NULL: these. */
    void (*rates)(const double *values, double lr, uint64_t step, double rates[CLQ_UPDATE_RATES]);
} clq_optimizer_row;
size_t clq_optimizer_count(void);
const clq_optimizer_row *clq_optimizer_row_of(clq_optimizer_kind kind);
const clq_update_rule *clq_optimizer_rule(const clq_optimizer *optimizer);
unsigned clq_optimizer_states(const clq_optimizer *optimizer);
bool clq_optimizer_has_trust_ratio(const clq_optimizer *optimizer);
/* What its rule gets as c0, c1, c2. */
void clq_optimizer_constants(const clq_optimizer *optimizer, float constants[CLQ_UPDATE_CONSTANTS]);
double clq_optimizer_weight_decay(const clq_optimizer *optimizer);
/* What an update is given anew in each step: what its rule takes, and the part of the weights that decays. */
typedef struct clq_update_rates {
    float rate, second, third, decay;
} clq_update_rates;
/* Those of all optimizers of a step, in the order of their numbers. */
typedef struct clq_step_rates {
    clq_update_rates of[CLQ_OPTIMIZERS_MAX];
} clq_step_rates;
clq_step_rates clq_rates_of_params(const clq_step_params *params);
void clq_set_rates(clq_step_params *params, unsigned number, const clq_update_rates *rates);
/* Of update `step`, from 1, with a learning rate of lr. */
clq_update_rates clq_optimizer_rates(const clq_optimizer *optimizer, double lr, uint64_t step);

/* Flat arenas, and the part of them that is updated. Replicas on the same memory can shard an update: each has a part
 * of its own, adds all gradients there, that of rank 0 first, and writes the new weights where all gradients were;
 * where its own weights were, it leaves the sum. (So weights and gradients have changed places.) */
typedef struct clq_update_arenas {
    clq_value w, g;
    clq_value states[CLQ_UPDATE_STATES_MAX]; /* as many as the rule has */
    clq_value average;                       /* of the weights, laid out as the states; NO_VALUE: none is kept */
    /* A number for each block, counted from first_block at `first`, or NO_VALUE: what the gradient is taken times; 1
     * where weights decay and 0 where they do not. */
    clq_value factors, decays;
    clq_value ratios; /* of an optimizer with a trust ratio: a number for each block, counted likewise */
    size_t first_block;
    size_t first, floats;                      /* first: begins a view (clq_device_view_align); at least one float */
    size_t states_first;                       /* the same in the states, which may be of the part alone */
    unsigned ranks, rank;                      /* 0 or 1: not sharded. At most CLQ_UPDATE_RANKS_MAX */
    clq_value peers[CLQ_UPDATE_RANKS_MAX - 1]; /* [i]: gradient of rank (rank + 1 + i) % ranks */
} clq_update_arenas;

/* An update, and what is done around its rule. */
typedef struct clq_update_problem {
    clq_optimizer optimizer; /* the learning rate is not read */
    unsigned number;         /* whose rates are taken: of the optimizers of a step */
    float limit;             /* elements of the gradient are cut off at -limit and limit; 0: none are */
    bool factor_of_all;      /* the arenas' `factors` are one number for all blocks */
    bool summed;             /* of several ranks: clq_sum_gradients has added the gradients up */
    bool skips;              /* where the factor is 0, weights, states and average stay as they are */
} clq_update_problem;
/* By CLQ_PARAM_RATE, _SECOND, _THIRD and _DECAY of its number, and _AVERAGE. */
void clq_update(clq_list *list, const clq_update_problem *problem, const clq_update_arenas *arenas);
/* With a trust ratio (LAMB) an optimizer's step in a variable has a length that depends on norms of the whole variable,
 * so an update by it takes two passes. The first, of whole blocks: the new states; and squares (blocks, 2), counted
 * from first_block at `first`: of the weights of each block, less what decays of them, and of their step's direction.
 * Then come clq_squares_from_blocks, where ranks have parts of variables a sum over these, and clq_block_ratios. The
 * second is clq_update, which changes no state. Gradients of several ranks are added up before. */
void clq_update_directions(clq_list *list, const clq_update_problem *problem, const clq_update_arenas *arenas,
                           clq_value squares);
/* Of several ranks: the sum of all gradients in the part, where the rank's own was, and (blocks) the squares of each of
 * its blocks, which are whole. */
void clq_sum_gradients(clq_list *list, const clq_update_arenas *arenas, clq_value squares);
/* Adds up gradients over runs: sum = x where CLQ_PARAM_SUM_FACTOR is 0, whatever was there; else (sum + x) times it. */
void clq_accumulate(clq_list *list, size_t floats, clq_value x, clq_value sum);

/* The same by the host, on its own memory (update_host.c): floats [first, first + floats) of each array. */
typedef struct clq_host_update {
    float *w;
    float *states[CLQ_UPDATE_STATES_MAX]; /* as many as the rule has */
    float *average;                       /* of the weights; NULL: none is kept */
    /* The gradient is their sum, in this order, times `factor`. At least one. */
    const float *const *gradients;
    unsigned gradient_count;
    float factor;
    float *sum;  /* gets the gradient; may be one of `gradients`; NULL: not wanted */
    float limit; /* then elements are cut off, for the update alone, at -limit and limit; 0: none are */
    float ratio; /* of the second pass of an optimizer with a trust ratio, which does not look at gradients:
                    norm(weights) / norm(direction) */
    /* Get the new weights as well; may be none. */
    float *const *copies;
    unsigned copy_count;
    size_t first, floats;
} clq_host_update;
/* By the rule of cl/update_rules.cl, in plain float arithmetic: the same bits on every processor and for every cut of
 * the arrays into parts. average: the part of its way that the average goes. Waits for nothing; any number of threads
 * on parts of their own. */
void clq_update_on_host(const clq_optimizer *optimizer, const clq_host_update *update, const clq_update_rates *rates,
                        float average);
/* The first pass of an optimizer with a trust ratio (clq_update_directions): squares gets both sums over these floats.
 */
void clq_directions_on_host(const clq_optimizer *optimizer, const clq_host_update *update,
                            const clq_update_rates *rates, double squares[2]);
/* The sum without the update: `sum` is set. */
void clq_sum_on_host(const clq_host_update *update);
double clq_square_sum_on_host(const float *x, size_t floats); /* in double */

/* ---- constraints on weights, behind their update (constrain.c) ---- */

/* A variable with axes in turns: along the second and the fourth its numbers have a norm, for each place along the
 * others. */
typedef struct clq_constraint_problem {
    size_t sizes[5];
    bool non_negative;        /* numbers below 0 become 0; no norm */
    double least, most, rate; /* the norm n becomes rate * clip(n, least, most) + (1 - rate) * n */
} clq_constraint_problem;
/* Of the variable at a block of the arena w. */
void clq_constrain_weights(clq_list *list, const clq_constraint_problem *p, size_t block, clq_value w);
void clq_constrain_on_host(const clq_constraint_problem *p, float *w);

/* ---- norms of an arena's variables (norms.c) ---- */

/* An arena, or a part of it, as `count` blocks of CLQ_UPDATE_BLOCK floats. table (entries, 4) i32: of each run of
 * blocks the variable that it is of, or -1 for a gap; its first block; the one behind its last; and 1 where its squares
 * count, else 0. Runs lie side by side. A variable without blocks has an empty run. */
typedef struct clq_blocks {
    clq_value table;
    size_t entries, count;
} clq_blocks;
/* out[variable] (f32) = the sum of the squares of the variable's blocks in x where they count, else 0; in a fixed
 * order. Other places of `out` stay. */
void clq_squares_from_values(clq_list *list, const clq_blocks *blocks, clq_value x, clq_value out);
/* The same from the squares of each block; of so many kinds of squares at once: (blocks, kinds) to (variables, kinds).
 */
void clq_squares_from_blocks(clq_list *list, const clq_blocks *blocks, unsigned kinds, clq_value squares,
                             clq_value out);
/* What clips a gradient to a norm of `limit`, as in Keras: limit / norm where the norm is larger, else 1; NaN where it
 * is NaN. off: the factor from clq_take_scale_off, by which the clip factor is multiplied; CLQ_NO_VALUE: none.
 * Of all variables together, from their squares (variables): factor (1). */
void clq_global_factor(clq_list *list, size_t variables, float limit, clq_value squares, clq_value off,
                       clq_value factor);
/* Of each variable by itself: factors (count), of each block that of its variable, and of gaps 1. */
void clq_block_factors(clq_list *list, const clq_blocks *blocks, float limit, clq_value squares, clq_value off,
                       clq_value factors);
/* Of an optimizer with a trust ratio, from the squares of weights and directions (variables, 2): ratios (count), of
 * each block that of its variable: norm(weights) / norm(direction), 1 where one of them is 0; and of gaps 1. */
void clq_block_ratios(clq_list *list, const clq_blocks *blocks, clq_value squares, clq_value ratios);

/* ---- loss scaling (Micikevicius et al., "Mixed precision training", 2018), in norms.c ----
 * A loss is taken times a scale before its gradient is computed, so that small gradients do not become 0 in halves. The
 * scale follows the gradients: it doubles after `interval` steps in a row whose gradients were finite, and is halved
 * after one whose gradient was not, down to 1 and up to CLQ_LOSS_SCALE_MOST. Doubling and halving are exact. */

#define CLQ_LOSS_SCALE_MOST 0x1p126
typedef struct clq_loss_scaling {
    float initial; /* 1 to CLQ_LOSS_SCALE_MOST; 0: losses are not scaled */
    uint32_t interval;
} clq_loss_scaling;
/* The state (i32), zero at first: the scale is initial * 2^EXPONENT; finite steps since it changed; steps that were
 * skipped. */
enum { CLQ_SCALING_EXPONENT, CLQ_SCALING_FINITE, CLQ_SCALING_SKIPPED, CLQ_SCALING_INTS = 4 };
/* From the squares (variables) of a scaled gradient to those of the gradient itself, where they are finite. off (1):
 * what takes the scale off the gradient, or 0 where the squares are not finite. The state goes one step on. */
void clq_take_scale_off(clq_list *list, size_t variables, const clq_loss_scaling *scaling, clq_value squares,
                        clq_value state, clq_value off);

/* check.c: hashes (blocks) = a hash of 64 bits of each block of CLQ_UPDATE_BLOCK words of x, the same on every device.
 * first (1) i32 = the smaller of itself and `place`, where x has NaN or infinities: in all, or each of the samples. */
void clq_block_hashes(clq_list *list, size_t blocks, clq_value x, clq_value hashes);
void clq_find_not_finite(clq_list *list, size_t elements, bool per_sample, int place, clq_value x, clq_value first);
/* x = x * CLQ_PARAM_SCALE, of whole vectors (average.c). */
void clq_weigh(clq_list *list, size_t floats, clq_value x);

/* x = x times, or over, the loss scale of a state; of whole vectors (average.c). */
void clq_scale_by_state(clq_list *list, size_t floats, float initial, bool over, clq_value state, clq_value x);

/* ---- compression of gradients (compress.c) ----
 * With error feedback (Seide et al., "1-bit stochastic gradient descent", 2014; Karimireddy et al., "Error feedback
 * fixes SignSGD", 2019): what a message leaves out of a gradient stays in `error`, and goes with the next one. So
 * messages and the last error together are the sum of all gradients, but for float32's rounding of error + gradient.
 * Arenas of `floats`, a multiple of 16; gradient and error are f32. */

/* halves (f16) = error + gradient, each rounded to the nearest, ties to even. error = what was rounded off. A finite
 * number beyond clq_halves_most is sent as that, and the rest stays in the error; infinity and NaN are sent as they
 * are, and leave no error. */
void clq_compress_halves(clq_list *list, size_t floats, unsigned ranks, clq_value gradient, clq_value error,
                         clq_value halves);
/* The largest half of which so many can be added, in any order, with a finite half for a sum. */
float clq_halves_most(unsigned ranks);
void clq_expand_halves(clq_list *list, size_t floats, clq_value halves, clq_value gradient);

/* Of error + gradient the `chosen` numbers, 1 to `floats`, that are the largest in size (top-k: Lin et al., "Deep
 * gradient compression", 2018); of equals those that come first; NaN is larger than all. pairs (2, chosen): their
 * places (u32) in rising order, then the numbers (f32). error = the others, and 0 for these. */
void clq_choose_largest(clq_list *list, size_t floats, size_t chosen, clq_value gradient, clq_value error,
                        clq_value pairs);
/* gradient = the sum of what `ranks` have chosen, pairs (ranks, 2, chosen), added in their order; 0 where none has. */
void clq_add_pairs(clq_list *list, size_t floats, size_t chosen, unsigned ranks, clq_value pairs, clq_value gradient);

#endif
