/* The optimizers: one row of the table each. The rules are in cl/update_rules.cl, for kernels and for the host.
 * Formulas and defaults are Keras's. To add an optimizer: a value of clq_optimizer_kind, a row, a rule in
 * cl/update_rules.cl, and a reference in tests/ref. */
#include "ops/ops.h"

#include <math.h>
#include <string.h>

/* The largest number below 1. */
#define BELOW_ONE 0x1.fffffffffffffp-1
#define LEARNING_RATE(value)                                                                                           \
    { "lr", value, 0, 1e6, CLQ_NUMBER }
#define BETA1(value)                                                                                                   \
    { "beta1", value, 0, BELOW_ONE, CLQ_NUMBER }
#define BETA2(value)                                                                                                   \
    { "beta2", value, 0, BELOW_ONE, CLQ_NUMBER }
#define RHO(value)                                                                                                     \
    { "rho", value, 0, BELOW_ONE, CLQ_NUMBER }
#define MOMENTUM                                                                                                       \
    { "momentum", 0, 0, 1, CLQ_NUMBER }
#define EPSILON                                                                                                        \
    { "epsilon", 1e-7, 0, 1e6, CLQ_NUMBER }
#define FLAG(name)                                                                                                     \
    { name, 0, 0, 1, CLQ_FLAG }
/* The last option of every row. It shrinks the weights, and adds nothing to the loss: Loshchilov and Hutter, "Decoupled
 * weight decay regularization", ICLR 2019. */
#define WEIGHT_DECAY(value)                                                                                            \
    { "weight_decay", value, 0, 1e6, CLQ_NUMBER }

/* ---- sgd ---- */

enum { SGD_MOMENTUM = 1, SGD_NESTEROV };

static const clq_update_rule *sgd_rule(const double *values) {
    static const clq_update_rule plain = {"sgd", 0, 2}, momentum = {"momentum", 1, 6}, nesterov = {"nesterov", 1, 6};
    if (values[SGD_MOMENTUM] == 0) return &plain;
    return values[SGD_NESTEROV] != 0 ? &nesterov : &momentum;
}

/* ---- adam and its variants ---- */

enum { ADAM_BETA1 = 1, ADAM_BETA2, ADAM_EPSILON, ADAM_AMSGRAD };

static const clq_update_rule *adam_rule(const double *values) {
    static const clq_update_rule plain = {"adam", 2, 11}, amsgrad = {"amsgrad", 3, 12};
    return values[ADAM_AMSGRAD] != 0 ? &amsgrad : &plain;
}

/* Each constant is rounded once, after the subtraction. */
static void adam_constants(const double *values, float constants[CLQ_UPDATE_CONSTANTS]) {
    constants[0] = (float)(1 - values[ADAM_BETA1]);
    constants[1] = (float)(1 - values[ADAM_BETA2]);
    constants[2] = (float)values[ADAM_EPSILON];
}

/* The correction of both moments' bias towards zero, as in the paper's section 2. */
static void adam_rates(const double *values, double lr, uint64_t step, double rates[CLQ_UPDATE_RATES]) {
    const double t = (double)step;
    rates[0] = lr * sqrt(1 - pow(values[ADAM_BETA2], t)) / (1 - pow(values[ADAM_BETA1], t));
}

static void adamax_constants(const double *values, float constants[CLQ_UPDATE_CONSTANTS]) {
    adam_constants(values, constants);
    constants[1] = (float)values[ADAM_BETA2];
}

static void adamax_rates(const double *values, double lr, uint64_t step, double rates[CLQ_UPDATE_RATES]) {
    rates[0] = lr / (1 - pow(values[ADAM_BETA1], (double)step));
}

/* Dozat's schedule of the momentum is beta1 (1 - 0.96^(t / 250) / 2). Keras has 0.96^t instead, and so has this
 * function. */
static double nadam_momentum(double beta1, double t) { return beta1 * (1 - 0.5 * pow(0.96, t)); }

/* The product of the momenta of all steps up to this step. After the first thousand steps, the momentum differs from
 * beta1 by less than a double's rounding. */
static double nadam_product(double beta1, uint64_t step) {
    static const uint64_t varied = 1000;
    const uint64_t first = step < varied ? step : varied;
    double product = pow(beta1, (double)(step - first));
    for (uint64_t t = 1; t <= first; t++) product *= nadam_momentum(beta1, (double)t);
    return product;
}

static void nadam_rates(const double *values, double lr, uint64_t step, double rates[CLQ_UPDATE_RATES]) {
    const double beta1 = values[ADAM_BETA1], t = (double)step, now = nadam_momentum(beta1, t),
                 next = nadam_momentum(beta1, t + 1), product = nadam_product(beta1, step);
    rates[0] = lr * next / (1 - product * next);
    rates[1] = lr * (1 - now) / (1 - product);
    rates[2] = 1 / (1 - pow(values[ADAM_BETA2], t));
}

static void lamb_rates(const double *values, double lr, uint64_t step, double rates[CLQ_UPDATE_RATES]) {
    rates[0] = lr;
    rates[1] = 1 / (1 - pow(values[ADAM_BETA1], (double)step));
    rates[2] = 1 / (1 - pow(values[ADAM_BETA2], (double)step));
}

static void lion_constants(const double *values, float constants[CLQ_UPDATE_CONSTANTS]) {
    constants[0] = (float)(1 - values[ADAM_BETA1]);
    constants[1] = (float)(1 - values[ADAM_BETA2]);
}

/* ---- rmsprop, adadelta ---- */

enum { RMSPROP_RHO = 1, RMSPROP_MOMENTUM, RMSPROP_EPSILON, RMSPROP_CENTERED };

static const clq_update_rule *rmsprop_rule(const double *values) {
    static const clq_update_rule rules[2][2] = {{{"rmsprop", 1, 8}, {"rmsprop_momentum", 2, 10}},
                                                {{"rmsprop_centered", 2, 13}, {"rmsprop_centered_momentum", 3, 15}}};
    return &rules[values[RMSPROP_CENTERED] != 0][values[RMSPROP_MOMENTUM] != 0];
}

static void rmsprop_constants(const double *values, float constants[CLQ_UPDATE_CONSTANTS]) {
    constants[0] = (float)(1 - values[RMSPROP_RHO]);
    constants[1] = (float)values[RMSPROP_MOMENTUM];
    constants[2] = (float)values[RMSPROP_EPSILON];
}

enum { ADADELTA_RHO = 1, ADADELTA_EPSILON };

static void adadelta_constants(const double *values, float constants[CLQ_UPDATE_CONSTANTS]) {
    constants[0] = (float)(1 - values[ADADELTA_RHO]);
    constants[2] = (float)values[ADADELTA_EPSILON];
}

/* ---- the table ---- */

static const clq_optimizer_row rows[] = {
    [CLQ_OPTIMIZER_SGD] = {.name = "sgd",
                           .options = {LEARNING_RATE(0.01), MOMENTUM, FLAG("nesterov"), WEIGHT_DECAY(0)},
                           .choose = sgd_rule},
    /* Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015; amsgrad: Reddi, Kale and Kumar, "On the
     * Convergence of Adam and Beyond", ICLR 2018 */
    [CLQ_OPTIMIZER_ADAM] = {.name = "adam",
                            .options = {LEARNING_RATE(0.001), BETA1(0.9), BETA2(0.999), EPSILON, FLAG("amsgrad"),
                                        WEIGHT_DECAY(0)},
                            .choose = adam_rule,
                            .constants = adam_constants,
                            .rates = adam_rates},
    /* Duchi, Hazan and Singer, "Adaptive Subgradient Methods", JMLR 12, 2011 */
    [CLQ_OPTIMIZER_ADAGRAD] = {.name = "adagrad",
                               .options = {LEARNING_RATE(0.001),
                                           {"initial_accumulator_value", 0.1, 0, 1e6, CLQ_NUMBER},
                                           EPSILON,
                                           WEIGHT_DECAY(0)},
                               .rule = {"adagrad", 1, 7}},
    [CLQ_OPTIMIZER_ADAMW] = {.name = "adamw",
                             .options = {LEARNING_RATE(0.001), BETA1(0.9), BETA2(0.999), EPSILON, FLAG("amsgrad"),
                                         WEIGHT_DECAY(0.004)},
                             .choose = adam_rule,
                             .constants = adam_constants,
                             .rates = adam_rates},
    /* The Adam paper's section 7.1 */
    [CLQ_OPTIMIZER_ADAMAX] = {.name = "adamax",
                              .options = {LEARNING_RATE(0.001), BETA1(0.9), BETA2(0.999), EPSILON, WEIGHT_DECAY(0)},
                              .rule = {"adamax", 2, 9},
                              .constants = adamax_constants,
                              .rates = adamax_rates},
    /* Dozat, "Incorporating Nesterov Momentum into Adam", 2016 */
    [CLQ_OPTIMIZER_NADAM] = {.name = "nadam",
                             .options = {LEARNING_RATE(0.001), BETA1(0.9), BETA2(0.999), EPSILON, WEIGHT_DECAY(0)},
                             .rule = {"nadam", 2, 14},
                             .constants = adam_constants,
                             .rates = nadam_rates},
    /* Tieleman and Hinton, lecture 6.5, 2012; centered: Graves, "Generating Sequences With Recurrent Neural Networks",
     * 2013 */
    [CLQ_OPTIMIZER_RMSPROP] = {.name = "rmsprop",
                               .options = {LEARNING_RATE(0.001), RHO(0.9), MOMENTUM, EPSILON, FLAG("centered"),
                                           WEIGHT_DECAY(0)},
                               .choose = rmsprop_rule,
                               .constants = rmsprop_constants},
    /* Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012 */
    [CLQ_OPTIMIZER_ADADELTA] = {.name = "adadelta",
                                .options = {LEARNING_RATE(0.001), RHO(0.95), EPSILON, WEIGHT_DECAY(0)},
                                .rule = {"adadelta", 2, 15},
                                .constants = adadelta_constants},
    /* Chen et al., "Symbolic Discovery of Optimization Algorithms", NeurIPS 2023 */
    [CLQ_OPTIMIZER_LION] = {.name = "lion",
                            .options = {LEARNING_RATE(0.001), BETA1(0.9), BETA2(0.99), WEIGHT_DECAY(0)},
                            .rule = {"lion", 1, 9},
                            .constants = lion_constants},
    /* You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020. The weights
     * decay first, as in Keras, which does so for every optimizer */
    [CLQ_OPTIMIZER_LAMB] = {.name = "lamb",
                            .options = {LEARNING_RATE(0.001), BETA1(0.9), BETA2(0.999), EPSILON, WEIGHT_DECAY(0)},
                            .rule = {"lamb", 2, 24},
                            .trust_ratio = true,
                            .constants = adam_constants,
                            .rates = lamb_rates},
};

size_t clq_optimizer_count(void) { return CLQ_COUNT_OF(rows); }
const clq_optimizer_row *clq_optimizer_row_of(clq_optimizer_kind kind) { return &rows[kind]; }

const clq_update_rule *clq_optimizer_rule(const clq_optimizer *optimizer) {
    const clq_optimizer_row *row = &rows[optimizer->kind];
    return row->choose ? row->choose(optimizer->values) : &row->rule;
}

unsigned clq_optimizer_states(const clq_optimizer *optimizer) { return clq_optimizer_rule(optimizer)->states; }
bool clq_optimizer_has_trust_ratio(const clq_optimizer *optimizer) { return rows[optimizer->kind].trust_ratio; }

void clq_optimizer_constants(const clq_optimizer *optimizer, float constants[CLQ_UPDATE_CONSTANTS]) {
    const clq_optimizer_row *row = &rows[optimizer->kind];
    for (unsigned i = 0; i < CLQ_UPDATE_CONSTANTS; i++)
        constants[i] = row->constants ? 0 : (float)optimizer->values[1 + i];
    if (row->constants) row->constants(optimizer->values, constants);
}

double clq_optimizer_weight_decay(const clq_optimizer *optimizer) {
    size_t last = 0;
    while (rows[optimizer->kind].options[last + 1].key) last++;
    return optimizer->values[last];
}

clq_update_rates clq_optimizer_rates(const clq_optimizer *optimizer, double lr, uint64_t step) {
    const clq_optimizer_row *row = &rows[optimizer->kind];
    double rates[CLQ_UPDATE_RATES] = {lr};
    if (row->rates) row->rates(optimizer->values, lr, step, rates);
    return (clq_update_rates){.rate = (float)rates[0],
                              .second = (float)rates[1],
                              .third = (float)rates[2],
                              .decay = (float)(lr * clq_optimizer_weight_decay(optimizer))};
}

/* ---- rates as parameters of a step: four per optimizer, one optimizer after the other ---- */

#define AT(member) offsetof(clq_step_params, member)
_Static_assert(sizeof(clq_step_rates) == sizeof(clq_step_params) - AT(rate) &&
                   AT(second) - AT(rate) == offsetof(clq_update_rates, second) &&
                   AT(third) - AT(rate) == offsetof(clq_update_rates, third) &&
                   AT(decay) - AT(rate) == offsetof(clq_update_rates, decay) &&
                   AT(rate_1) - AT(rate) == sizeof(clq_update_rates) &&
                   (int)CLQ_PARAM_RATE_1 - (int)CLQ_PARAM_RATE == sizeof(clq_update_rates) / sizeof(float),
               "rates of a step are an array");

clq_step_rates clq_rates_of_params(const clq_step_params *params) {
    clq_step_rates rates;
    memcpy(&rates, (const char *)params + AT(rate), sizeof rates);
    return rates;
}

void clq_set_rates(clq_step_params *params, unsigned number, const clq_update_rates *rates) {
    memcpy((char *)params + AT(rate) + number * sizeof *rates, rates, sizeof *rates);
}
