#include "graph/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 21, ROUNDS_MOST = 3 * ROUNDS, ROUNDS_LEAST = 3, ROUNDS_OF_ONE = 9, REPEATS_MOST = 8, SEED = 0 };
static const double trial_s = 3e-4;  /* seconds of a trial's launches, so many that waiting for them weighs little */
static const double hopeless = 1.15; /* if b's least time is above a's by this factor, more trials would not help */
/* Factors by which b must be faster, so that momentary load of the machine does not decide. */
static const double median_gain = 0.97, least_gain = 0.98;

/* ---- what plans compute with ---- */

static const clq_arena arenas[] = {CLQ_ARENA_PARAMETERS, CLQ_ARENA_STATE};

static void make_samples(clq_dtype dtype, void *samples, size_t bytes) {
    clq_random random = clq_random_start(SEED, 0);
    if (dtype == CLQ_U8)
        for (size_t i = 0; i < bytes; i++) ((unsigned char *)samples)[i] = (unsigned char)clq_random_u32(&random);
    else
        for (size_t i = 0; i < clq_values_count(CLQ_F32, bytes); i++)
            ((float *)samples)[i] = (float)clq_random_unit(&random);
}

static void make_labels(const clq_loss_problem *loss, void *labels, size_t bytes) {
    clq_random random = clq_random_start(SEED, 1);
    const size_t count = clq_values_count(clq_loss_target_dtype(loss), bytes);
    if (clq_loss_has_index(loss))
        for (size_t i = 0; i < count; i++) ((int32_t *)labels)[i] = (int32_t)clq_random_below(&random, loss->classes);
    else
        for (size_t i = 0; i < count; i++) ((float *)labels)[i] = 1 / (float)loss->classes;
}

static clq_status make_array(const clq_plan *plan, unsigned i, void **out) {
    const clq_feed_array *array = &plan->feed.arrays[i];
    if (!plan->inputs[i]) return CLQ_OK;
    const size_t bytes = clq_buffer_bytes(plan->inputs[i]);
    *out = clq_alloc(bytes, 1);
    if (!*out) return CLQ_ERROR_MEMORY;
    if (array->role == CLQ_FEED_SAMPLES)
        make_samples(array->dtype, *out, bytes);
    else
        make_labels(&plan->losses[array->index], *out, bytes);
    return CLQ_OK;
}

clq_status clq_trials_open(const clq_plan *plan, const clq_tune_config *tune, clq_trials *trials) {
    *trials = (clq_trials){.tune = tune};
    for (unsigned i = 0; i < plan->feed.count; i++) CLQ_TRY(make_array(plan, i, &trials->inputs[i]));
    /* First values are neither zeros nor denormal, and as many gradients are zero as in training. */
    for (size_t i = 0; i < CLQ_COUNT_OF(arenas); i++) {
        trials->variables[i] = clq_alloc(CLQ_MAX(clq_weights_arena_bytes(plan->weights, arenas[i]), (size_t)1), 1);
        if (!trials->variables[i]) return CLQ_ERROR_MEMORY;
        CLQ_TRY(clq_weights_initial_values(plan->weights, arenas[i], SEED, trials->variables[i]));
    }
    return clq_queue_create(plan->device, 0, &trials->queue);
}

void clq_trials_release(clq_trials *trials) {
    clq_queue_destroy(trials->queue);
    for (size_t i = 0; i < CLQ_COUNT_OF(arenas); i++) clq_free(trials->variables[i]);
    for (unsigned i = 0; i < CLQ_FEED_MAX; i++) clq_free(trials->inputs[i]);
}

/* Writes made-up values where other stages would send theirs. */
static clq_status write_received(clq_trials *trials, clq_plan *plan) {
    static const clq_crossing kinds[] = {CLQ_RECEIVED, CLQ_RECEIVED_GRADIENT};
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++)
        for (unsigned i = 0; i < CLQ_CROSSINGS_MAX; i++) {
            clq_buffer *to = plan->crossings[kinds[k]][i];
            if (!to) continue;
            const size_t count = clq_values_count(CLQ_F32, clq_buffer_bytes(to));
            clq_random random = clq_random_start(SEED, 2);
            float *values = clq_alloc(count, sizeof *values);
            if (!values) return CLQ_ERROR_MEMORY;
            for (size_t v = 0; v < count; v++) values[v] = (float)clq_random_unit(&random);
            clq_status status = clq_queue_write(trials->queue, to, 0, values, clq_buffer_bytes(to), true);
            clq_free(values);
            CLQ_TRY(status);
        }
    return CLQ_OK;
}

clq_status clq_trials_prepare(clq_trials *trials, clq_plan *plan) {
    const uint32_t count = plan->config.capacity;
    clq_plan_set_params(
        plan, &(clq_step_params){
                  .count = count, .scale = 1 / (float)count, .step = 1, .sum_factor = plan->config.accumulates});
    for (size_t i = 0; i < CLQ_COUNT_OF(arenas); i++) {
        const size_t bytes = clq_weights_arena_bytes(plan->weights, arenas[i]);
        if (bytes > 0)
            CLQ_TRY(clq_queue_write(trials->queue, clq_weights_arena(plan->weights, arenas[i]), 0, trials->variables[i],
                                    bytes, true));
    }
    for (unsigned i = 0; i < plan->feed.count; i++)
        if (plan->inputs[i])
            CLQ_TRY(clq_queue_write(trials->queue, plan->inputs[i], 0, trials->inputs[i],
                                    clq_buffer_bytes(plan->inputs[i]), true));
    return write_received(trials, plan);
}

/* ---- trials ---- */

clq_trial_part clq_trial_part_of(clq_plan *plan, const clq_choice *choice) {
    if (choice->end) return (clq_trial_part){plan, choice->first, choice->end};
    return (clq_trial_part){plan, 0, plan->segment_end[CLQ_SEGMENT_BACKWARD]};
}

/* Runs a part several times, and gives the seconds of one run. The launches in front of the part run before, as in a
 * step. Each run works on what the run before left, which is the same amount of work. */
static clq_status run(clq_trials *trials, const clq_trial_part *part, size_t repeats, double *seconds) {
    if (trials->tune->trial)
        return trials->tune->trial(trials->tune->context, part->plan, part->first, part->end, seconds);
    CLQ_TRY(clq_plan_run_part(part->plan, trials->queue, 0, part->first));
    CLQ_TRY(clq_queue_finish(trials->queue));
    double start = clq_now();
    for (size_t i = 0; i < repeats; i++) {
        CLQ_TRY(clq_plan_run_part(part->plan, trials->queue, part->first, part->end));
        CLQ_TRY(clq_queue_flush(trials->queue));
    }
    CLQ_TRY(clq_queue_finish(trials->queue));
    *seconds = (clq_now() - start) / (double)repeats;
    return CLQ_OK;
}

/* How many runs a trial has, so that waiting for them weighs little. first: the seconds of one run. */
static size_t repeats_of(double first) {
    return (size_t)CLQ_MIN(CLQ_MAX(trial_s / CLQ_MAX(first, 1e-6), 1.0), (double)REPEATS_MOST);
}

clq_status clq_trials_least(clq_trials *trials, clq_trial_part part, double *seconds) {
    double first, least = INFINITY;
    CLQ_TRY(run(trials, &part, 1, &first)); /* kernels are finished at their first launch */
    CLQ_TRY(run(trials, &part, 1, &first));
    for (unsigned i = 0; i < ROUNDS_OF_ONE; i++) {
        double took;
        CLQ_TRY(run(trials, &part, repeats_of(first), &took));
        least = CLQ_MIN(least, took);
    }
    *seconds = least;
    return CLQ_OK;
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median_of(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

/* Rounds of trials. In a round, a and b run one behind the other, so other load of the machine slows both. */
typedef struct rounds {
    double a[ROUNDS_MOST], b[ROUNDS_MOST], ratio[ROUNDS_MOST], least_a, least_b;
    size_t count;
} rounds;

/* Whether the ratio that decides lies within the middle half of the measured ratios. Then more rounds may tell. */
static bool is_doubtful(const rounds *r) {
    double sorted[ROUNDS_MOST];
    memcpy(sorted, r->ratio, r->count * sizeof *sorted);
    qsort(sorted, r->count, sizeof *sorted, by_value);
    return sorted[r->count / 4] < median_gain && sorted[r->count - 1 - r->count / 4] >= median_gain;
}

static bool wants_more(const rounds *r) {
    if (r->count < ROUNDS_LEAST) return true;
    if (r->least_b > hopeless * r->least_a) return false;
    return r->count < ROUNDS || (r->count < ROUNDS_MOST && is_doubtful(r));
}

clq_status clq_trials_compare(clq_trials *trials, clq_trial_part a, clq_trial_part b, clq_trial_result *out) {
    rounds r = {.least_a = INFINITY, .least_b = INFINITY};
    double first;
    CLQ_TRY(run(trials, &b, 1, &first)); /* kernels are finished at their first launch */
    CLQ_TRY(run(trials, &a, 1, &first));
    const size_t repeats = repeats_of(first);
    while (wants_more(&r)) {
        double *a_s = &r.a[r.count], *b_s = &r.b[r.count];
        bool a_first = r.count % 2; /* the first one finds the other's memory in the caches */
        if (a_first) CLQ_TRY(run(trials, &a, repeats, a_s));
        CLQ_TRY(run(trials, &b, repeats, b_s));
        if (!a_first) CLQ_TRY(run(trials, &a, repeats, a_s));
        r.ratio[r.count++] = *b_s / *a_s;
        r.least_a = CLQ_MIN(r.least_a, *a_s);
        r.least_b = CLQ_MIN(r.least_b, *b_s);
    }
    out->rounds = r.count;
    out->b_wins = !is_doubtful(&r) && r.least_b < least_gain * r.least_a && median_of(r.ratio, r.count) < median_gain;
    out->a_s = median_of(r.a, r.count);
    out->b_s = median_of(r.b, r.count);
    return CLQ_OK;
}
