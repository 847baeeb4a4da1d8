/* Learning-rate schedules: each is a row of the table. The formulas are those of keras.optimizers.schedules. `step` is
 * the update's number, from 0. */
#include "train/trainer.h"

#include <math.h>

/* An option without a default: it must be given. */
#define STEPS(key)                                                                                                     \
    { key, 0, 1, 1e15, CLQ_NUMBER }

static double constant(const double *values, double lr, double step) {
    (void)values;
    (void)step;
    return lr;
}

enum { DECAY_STEPS, DECAY_RATE, DECAY_STAIRCASE };

static double decays(const double *values, double step) {
    const double count = step / values[DECAY_STEPS];
    return values[DECAY_STAIRCASE] != 0 ? floor(count) : count;
}

static double exponential(const double *values, double lr, double step) {
    return lr * pow(values[DECAY_RATE], decays(values, step));
}

static double inverse_time(const double *values, double lr, double step) {
    return lr / (1 + values[DECAY_RATE] * decays(values, step));
}

enum { POLYNOMIAL_STEPS, POLYNOMIAL_END, POLYNOMIAL_POWER, POLYNOMIAL_CYCLE };

/* With cycle, the decay ends at the next multiple of its steps, so the rate rises again after each end. */
static double polynomial(const double *values, double lr, double step) {
    double steps = values[POLYNOMIAL_STEPS], end = values[POLYNOMIAL_END];
    if (values[POLYNOMIAL_CYCLE] == 0)
        step = fmin(step, steps);
    else if (step > 0)
        steps *= ceil(step / steps);
    return (lr - end) * pow(1 - step / steps, values[POLYNOMIAL_POWER]) + end;
}

enum { PIECEWISE_VALUES = CLQ_LR_BOUNDARIES_MAX };

static double piecewise(const double *values, double lr, double step) {
    size_t i = 0;
    (void)lr;
    while (i < CLQ_LR_BOUNDARIES_MAX && values[i] > 0 && step > values[i]) i++;
    return values[PIECEWISE_VALUES + i];
}

static clq_status check_piecewise(const double *values) {
    if (!(values[0] > 0))
        return clq_fail(CLQ_ERROR_ARGUMENT, "schedule piecewise: boundaries and values have to be given");
    for (size_t i = 0; i < CLQ_LR_BOUNDARIES_MAX; i++) {
        if (floor(values[i]) != values[i])
            return clq_fail(CLQ_ERROR_ARGUMENT, "schedule piecewise: boundary %g is no whole number", values[i]);
        if (i > 0 && values[i] > 0 && values[i - 1] == 0)
            return clq_fail(CLQ_ERROR_ARGUMENT, "schedule piecewise: boundary %g is behind the 0 that ends them",
                            values[i]);
        if (i > 0 && values[i] > 0 && !(values[i] > values[i - 1]))
            return clq_fail(CLQ_ERROR_ARGUMENT, "schedule piecewise: boundaries rise, and %g is behind %g", values[i],
                            values[i - 1]);
    }
    return CLQ_OK;
}

enum { COSINE_STEPS, COSINE_ALPHA };

/* Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", ICLR 2017. done: how much of the decay
 * has passed, 0 to 1. */
static double cosine_of(double done, double alpha, double factor) {
    const double decayed = factor * (1 + cos(acos(-1.0) * done)) / 2;
    return (1 - alpha) * decayed + alpha;
}

static double cosine(const double *values, double lr, double step) {
    return lr * cosine_of(fmin(step, values[COSINE_STEPS]) / values[COSINE_STEPS], values[COSINE_ALPHA], 1);
}

enum { RESTARTS_STEPS, RESTARTS_T_MUL, RESTARTS_M_MUL, RESTARTS_ALPHA };

/* Run i has first * t_mul^i steps, and begins at lr * m_mul^i if alpha is 0. */
static double cosine_restarts(const double *values, double lr, double step) {
    const double longer = values[RESTARTS_T_MUL], rounding = 1e-9;
    double runs = step / values[RESTARTS_STEPS], i = floor(runs), done = runs - i;
    if (longer != 1) { /* i: how many runs are over, from the sum of a geometric series */
        i = floor(log(1 - runs * (1 - longer)) / log(longer));
        done = (runs - (1 - pow(longer, i)) / (1 - longer)) / pow(longer, i);
    }
    if (done > 1 - rounding) { /* the logarithm was rounded down */
        i++;
        done = 0;
    }
    return lr * cosine_of(fmax(done, 0), values[RESTARTS_ALPHA], pow(values[RESTARTS_M_MUL], i));
}

static const clq_lr_schedule_row rows[] = {
    [CLQ_LR_SCHEDULE_CONSTANT] = {.name = "constant", .rate = constant},
    [CLQ_LR_SCHEDULE_EXPONENTIAL] = {.name = "exponential",
                                     .options = {STEPS("decay_steps"),
                                                 {"decay_rate", 0.96, 0, 1e6, CLQ_NUMBER},
                                                 {"staircase", 0, 0, 1, CLQ_FLAG}},
                                     .rate = exponential},
    [CLQ_LR_SCHEDULE_COSINE] = {.name = "cosine",
                                .options = {STEPS("decay_steps"), {"alpha", 0, 0, 1, CLQ_NUMBER}},
                                .rate = cosine},
    [CLQ_LR_SCHEDULE_INVERSE_TIME] = {.name = "inverse_time",
                                      .options = {STEPS("decay_steps"),
                                                  {"decay_rate", 0.5, 0, 1e6, CLQ_NUMBER},
                                                  {"staircase", 0, 0, 1, CLQ_FLAG}},
                                      .rate = inverse_time},
    [CLQ_LR_SCHEDULE_POLYNOMIAL] = {.name = "polynomial",
                                    .options = {STEPS("decay_steps"),
                                                {"end", 1e-4, 0, 1e6, CLQ_NUMBER},
                                                {"power", 1, 0, 1e3, CLQ_NUMBER},
                                                {"cycle", 0, 0, 1, CLQ_FLAG}},
                                    .rate = polynomial},
    [CLQ_LR_SCHEDULE_PIECEWISE] = {.name = "piecewise",
                                   .lists = {{"boundaries", 0, CLQ_LR_BOUNDARIES_MAX, 1, 1e15},
                                             {"values", PIECEWISE_VALUES, CLQ_LR_BOUNDARIES_MAX + 1, 0, 1e6}},
                                   .rate = piecewise,
                                   .check = check_piecewise},
    [CLQ_LR_SCHEDULE_COSINE_RESTARTS] = {.name = "cosine_restarts",
                                         .options = {STEPS("first_decay_steps"),
                                                     {"t_mul", 2, 1, 1e6, CLQ_NUMBER},
                                                     {"m_mul", 1, 0, 1e6, CLQ_NUMBER},
                                                     {"alpha", 0, 0, 1, CLQ_NUMBER}},
                                         .rate = cosine_restarts},
};

size_t clq_lr_schedule_count(void) { return CLQ_COUNT_OF(rows); }
const clq_lr_schedule_row *clq_lr_schedule_row_of(clq_lr_schedule_kind kind) { return &rows[kind]; }

uint64_t clq_lr_warmup_steps(const clq_lr_schedule *schedule) { return (uint64_t)schedule->values[CLQ_LR_WARMUP]; }

double clq_lr_warmup_rate(const clq_lr_schedule *schedule, double first, uint64_t step) {
    const double from = schedule->values[CLQ_LR_WARMUP_FROM];
    return (first - from) * ((double)step / schedule->values[CLQ_LR_WARMUP]) + from;
}

double clq_lr_schedule_rate(const clq_lr_schedule *schedule, double lr, uint64_t step) {
    const clq_lr_schedule_row *row = &rows[schedule->kind];
    const uint64_t warmup = clq_lr_warmup_steps(schedule);
    if (step < warmup) return clq_lr_warmup_rate(schedule, row->rate(schedule->values, lr, 0), step);
    return row->rate(schedule->values, lr, (double)(step - warmup));
}
