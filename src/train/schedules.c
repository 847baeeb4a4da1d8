/* Schedules of the learning rate: a row of the table for each. Formulas are those of keras.optimizers.schedules, of the
 * update's number from 0. */
#include "train/trainer.h"

#include <math.h>

/* It has no default: it has to be given. */
#define DECAY_STEPS                                                                                                    \
    { "decay_steps", 0, 1, 1e15, false }

static double constant(const double *values, double lr, double step) {
    (void)values;
    (void)step;
    return lr;
}

enum { EXPONENTIAL_STEPS, EXPONENTIAL_RATE, EXPONENTIAL_STAIRCASE };

static double exponential(const double *values, double lr, double step) {
    double decays = step / values[EXPONENTIAL_STEPS];
    return lr * pow(values[EXPONENTIAL_RATE], values[EXPONENTIAL_STAIRCASE] != 0 ? floor(decays) : decays);
}

enum { COSINE_STEPS, COSINE_ALPHA };

/* Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", ICLR 2017, without restarts. */
static double cosine(const double *values, double lr, double step) {
    double done = fmin(step, values[COSINE_STEPS]) / values[COSINE_STEPS];
    double decayed = (1 + cos(acos(-1.0) * done)) / 2;
    return lr * ((1 - values[COSINE_ALPHA]) * decayed + values[COSINE_ALPHA]);
}

static const clq_lr_schedule_row rows[] = {
    [CLQ_LR_SCHEDULE_CONSTANT] = {.name = "constant", .rate = constant},
    [CLQ_LR_SCHEDULE_EXPONENTIAL] = {.name = "exponential",
                                     .options = {DECAY_STEPS,
                                                 {"decay_rate", 0.96, 0, 1e6, false},
                                                 {"staircase", 0, 0, 1, true}},
                                     .rate = exponential},
    [CLQ_LR_SCHEDULE_COSINE] = {.name = "cosine", .options = {DECAY_STEPS, {"alpha", 0, 0, 1, false}}, .rate = cosine},
};

size_t clq_lr_schedule_count(void) { return CLQ_COUNT_OF(rows); }
const clq_lr_schedule_row *clq_lr_schedule_row_of(clq_lr_schedule_kind kind) { return &rows[kind]; }

double clq_lr_schedule_rate(const clq_lr_schedule *schedule, double lr, uint64_t step) {
    return rows[schedule->kind].rate(schedule->values, lr, (double)step);
}
