/* Shares of replicas, and how long replicas compute. */
#include "strategy/module.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* LEAST: a replica's speed is the median over at least this many steps, so that one late wake-up does not count as a
 * change of speed. AGREED: at least this many reviews in a row must find that a change pays. Each review that agrees
 * makes the next one look one step further back, up to KEPT. WARM: this many first steps do not count, because they
 * meet cold caches and drivers. */
enum { LEAST = 3, AGREED = 3, KEPT = 31, WARM = 2 };
/* A change must have a predicted gain of gain_least, since measurements vary by themselves. The gains of the reviews
 * that agree must add up to gains_enough: a small gain must be found many times, a large one a few times. */
static const double gain_least = 0.05, gains_enough = 0.8;
/* With several processes, a review takes place every so many steps. It uses the measurements of all processes. */
enum { STEPS_OF_ALL = 8 };
/* A change within this many steps of the last one goes half of the way. If other programs use the machine, they
 * interrupt the replica with more work more often, and shares would oscillate. */
enum { SOON = 64 };

/* ---- arithmetic ---- */

double clq_share_cost_of(const clq_share_cost *cost, size_t samples) {
    return cost->fixed_s + (double)samples * cost->sample_s;
}

/* Two observations must lie apart: otherwise the slope between them is mostly noise. */
static bool lie_apart(size_t a, size_t b) {
    const size_t larger = CLQ_MAX(a, b), smaller = CLQ_MIN(a, b);
    return (larger - smaller) * 8 >= larger;
}

void clq_share_cost_observe(clq_share_cost *cost, size_t samples, double seconds) {
    /* At least half of the measured time counts as time per sample, so that noise cannot cause a large change. If the
     * fixed part is larger than that, a second change of the shares finds it. */
    const double slope_least = 0.5;
    const clq_share_cost last = *cost;
    const double expected = clq_share_cost_of(cost, samples);
    const bool known = last.took_s > 0.0;
    cost->samples = samples;
    cost->took_s = seconds;
    if (known && samples != last.samples && lie_apart(samples, last.samples)) {
        const double slope = (seconds - last.took_s) / ((double)samples - (double)last.samples);
        const double least = samples > 0 ? slope_least * seconds / (double)samples : 0.0;
        if (slope > 0.0) cost->sample_s = CLQ_MAX(slope, least);
        if (samples > 0) cost->sample_s = CLQ_MIN(cost->sample_s, seconds / (double)samples);
        cost->fixed_s = CLQ_MAX(seconds - cost->sample_s * (double)samples, 0.0);
    } else if (known && expected > 0.0) {
        cost->fixed_s *= seconds / expected;
        cost->sample_s *= seconds / expected;
    } else if (samples > 0) {
        cost->sample_s = seconds / (double)samples;
    }
}

/* How many samples the replica finishes in `seconds`, at most `most`. */
static size_t done_by(const clq_share_cost *cost, size_t most, double seconds) {
    if (seconds <= cost->fixed_s) return 0;
    const double samples = (seconds - cost->fixed_s) / CLQ_MAX(cost->sample_s, DBL_MIN);
    return samples < (double)most ? (size_t)samples : most;
}

static size_t fill(unsigned replicas, const clq_share_cost *costs, const size_t *most, double seconds, size_t *counts) {
    size_t sum = 0;
    for (unsigned r = 0; r < replicas; r++) sum += counts[r] = done_by(&costs[r], most[r], seconds);
    return sum;
}

/* Each sample goes to the replica that finishes one more sample the soonest: this gives the least time for all. To save
 * work, a bisection first finds a time that is a little too short for all samples. The replicas get what they finish
 * within this time, and only the few samples that are left are given one by one. */
void clq_shares_balance(size_t total, unsigned replicas, const clq_share_cost *costs, const size_t *most,
                        size_t *counts) {
    double low = 0.0, high = 0.0;
    for (unsigned r = 0; r < replicas; r++) high = CLQ_MAX(high, clq_share_cost_of(&costs[r], most[r]));
    for (int i = 0; i < 100; i++) {
        const double middle = low + (high - low) / 2;
        if (fill(replicas, costs, most, middle, counts) <= total)
            low = middle;
        else
            high = middle;
    }
    size_t given = fill(replicas, costs, most, low, counts);
    for (; given < total; given++) {
        unsigned next = replicas;
        for (unsigned r = 0; r < replicas; r++)
            if (counts[r] < most[r] && (next == replicas || clq_share_cost_of(&costs[r], counts[r] + 1) <
                                                                clq_share_cost_of(&costs[next], counts[next] + 1)))
                next = r;
        if (next == replicas) return;
        counts[next]++;
    }
}

/* ---- the shares of a strategy ---- */

/* Times of a replica's steps with its present share. */
typedef struct times {
    double seconds[KEPT]; /* of the last steps; a ring */
    uint64_t count;
    unsigned cold; /* how many of the next steps do not count (WARM) */
} times;

typedef struct change {
    uint64_t step;
    size_t counts[CLQ_REPLICAS_MAX];
} change;

struct clq_shares {
    double weights[CLQ_REPLICAS_MAX];
    bool measured;
    pthread_mutex_t lock;            /* of the next two members */
    size_t counts[CLQ_REPLICAS_MAX]; /* of a full global batch; written by the poster */
    times times[CLQ_REPLICAS_MAX];   /* by replica of this process; the other arrays are by replica of all processes */
    /* Used by the poster only: */
    clq_share_cost costs[CLQ_REPLICAS_MAX];
    size_t most[CLQ_REPLICAS_MAX]; /* samples that each replica has room for */
    uint64_t looked_at;            /* how many times every replica had at the last review, at least */
    unsigned agreed;               /* reviews in a row that found that a change pays */
    double gains;                  /* the sum of the gains that these reviews predicted */
    change *changes;               /* (change_count) the first one has the shares of the first step */
    size_t change_count;
};

clq_status clq_shares_check(const clq_strategy_options *options, unsigned replicas) {
    double sum = 0.0;
    if (options->shares == CLQ_SHARES_EQUAL) return CLQ_OK;
    if (replicas > CLQ_REPLICAS_MAX)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "shares other than equal ones are of at most %d replicas, and there are %u: use equal shares",
                        CLQ_REPLICAS_MAX, replicas);
    if (options->shares != CLQ_SHARES_WEIGHTS) return CLQ_OK;
    if (options->share_count != replicas || !options->share_weights)
        return clq_fail(CLQ_ERROR_ARGUMENT, "shares: %u %s given for %u %s: give one for each", options->share_count,
                        options->share_count == 1 ? "weight is" : "weights are", replicas,
                        replicas == 1 ? "replica" : "replicas");
    for (unsigned r = 0; r < replicas; r++) {
        const double weight = options->share_weights[r];
        if (!isfinite(weight) || weight < 0.0)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "shares: the weight of replica %u is %g: expected a finite number of at least 0", r,
                            weight);
        sum += weight;
    }
    if (isfinite(sum) && sum >= DBL_MIN) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "shares: the weights sum to %g: expected a finite sum above 0", sum);
}

clq_status clq_shares_create(const clq_strategy *strategy, clq_shares **out) {
    const clq_strategy_options *options = &strategy->config.options;
    *out = NULL;
    if ((unsigned)options->shares > CLQ_SHARES_WEIGHTS)
        return clq_fail(CLQ_ERROR_ARGUMENT, "shares %d is none of clq_shares_kind", (int)options->shares);
    CLQ_TRY(clq_shares_check(options, strategy->total));
    if (options->shares == CLQ_SHARES_EQUAL || strategy->total == 1) return CLQ_OK;
    clq_shares *shares = clq_alloc(1, sizeof *shares);
    if (!shares) return CLQ_ERROR_MEMORY;
    const int error = pthread_mutex_init(&shares->lock, NULL);
    if (error) {
        clq_free(shares);
        return clq_fail_lock("the shares of replicas", error);
    }
    shares->measured = options->shares == CLQ_SHARES_AUTO;
    for (unsigned r = 0; r < strategy->total; r++) {
        shares->weights[r] = shares->measured ? 1.0 : options->share_weights[r];
        shares->times[r].cold = WARM;
    }
    *out = shares;
    return CLQ_OK;
}

void clq_shares_destroy(clq_shares *shares) {
    if (!shares) return;
    pthread_mutex_destroy(&shares->lock);
    clq_free(shares->changes);
    clq_free(shares);
}

bool clq_shares_are_measured(const clq_shares *shares) { return shares && shares->measured; }
const double *clq_shares_weights(const clq_shares *shares) { return shares ? shares->weights : NULL; }

/* Bytes of all values of one sample and of their gradients: an upper bound of what a plan needs per sample. */
static double sample_bytes(const clq_strategy *strategy) {
    double bytes = (double)clq_feed_bytes(&strategy->feed);
    for (uint32_t i = 0; i < strategy->model->tensor_count; i++)
        bytes += 2.0 * (double)clq_values_bytes(CLQ_F32, strategy->model->tensors[i].elements);
    return bytes;
}

/* If shares are measured, any replica may get nearly the whole batch. Its plan has room for this from the start,
 * because a new plan would take seconds to compile. All replicas may be on one device or in the host's memory. So the
 * plan is limited to a quarter of the device's memory, divided by the number of replicas. */
uint32_t clq_shares_capacity(const clq_strategy *strategy, unsigned replica) {
    const clq_shares *shares = strategy->shares;
    const size_t batch = strategy->config.global_batch, even = clq_ceil_div(batch, strategy->total);
    if (!clq_shares_are_measured(shares))
        return (uint32_t)CLQ_MAX(
            clq_shares_most(batch, strategy->total, clq_shares_weights(shares), strategy->first + replica), (size_t)1);
    const clq_device_info *info = clq_device_get_info(strategy->replicas[replica].worker.device);
    const double room = (double)info->global_mem_bytes / 4 / strategy->count / sample_bytes(strategy);
    return (uint32_t)CLQ_MIN(CLQ_MAX(room, (double)even), (double)batch);
}

/* Gathers the rooms of all processes' replicas. A room of 0 marks an unused place, since every replica has room for at
 * least an even share. */
clq_status clq_shares_take_rooms(clq_strategy *strategy) {
    clq_world *world = strategy->config.world;
    enum { ROOMS_BYTES = sizeof(size_t) * CLQ_REPLICAS_MAX };
    size_t own[CLQ_REPLICAS_MAX] = {0};
    unsigned next = 0;
    if (!clq_shares_are_measured(strategy->shares)) return CLQ_OK;
    for (unsigned r = 0; r < strategy->count; r++) own[r] = strategy->replicas[r].capacity;
    size_t *all = clq_alloc(clq_world_size(world), ROOMS_BYTES);
    clq_status status = clq_world_check(world, all ? CLQ_OK : CLQ_ERROR_MEMORY);
    if (status == CLQ_OK) status = clq_world_gather(world, own, ROOMS_BYTES, all);
    for (size_t i = 0; status == CLQ_OK && i < (size_t)clq_world_size(world) * CLQ_REPLICAS_MAX; i++)
        if (all[i] > 0) strategy->shares->most[next++] = all[i];
    clq_free(all);
    return status;
}

/* ---- changes ---- */

size_t clq_shares_change_count(const clq_shares *shares) { return shares ? shares->change_count : 0; }

uint64_t clq_shares_change(const clq_shares *shares, size_t index, size_t *counts) {
    memcpy(counts, shares->changes[index].counts, sizeof shares->changes[index].counts);
    return shares->changes[index].step;
}

static clq_status change_shares(clq_strategy *strategy, uint64_t step, const size_t *counts) {
    clq_shares *shares = strategy->shares;
    change *grown =
        clq_realloc(shares->changes, shares->change_count, shares->change_count + 1, sizeof *shares->changes);
    if (!grown) return CLQ_ERROR_MEMORY;
    shares->changes = grown;
    change *next = &shares->changes[shares->change_count++];
    *next = (change){.step = step};
    pthread_mutex_lock(&shares->lock);
    for (unsigned r = 0; r < strategy->total; r++) {
        next->counts[r] = shares->counts[r] = counts[r];
        shares->weights[r] = (double)counts[r];
        shares->times[r].count = 0;
    }
    pthread_mutex_unlock(&shares->lock);
    shares->looked_at = 0;
    shares->agreed = 0;
    shares->gains = 0.0;
    return CLQ_OK;
}

bool clq_shares_now(const clq_strategy *strategy, size_t *counts) {
    const clq_shares *shares = strategy->shares;
    if (!clq_shares_are_measured(shares) || shares->change_count == 0) return false;
    memcpy(counts, shares->counts, strategy->total * sizeof *counts);
    return true;
}

clq_status clq_shares_go_on(clq_strategy *strategy, uint64_t step, const size_t *counts) {
    size_t sum = 0;
    if (!clq_shares_are_measured(strategy->shares)) return CLQ_OK;
    for (unsigned r = 0; r < strategy->total; r++) {
        if (counts[r] > strategy->shares->most[r]) return CLQ_OK;
        sum += counts[r];
    }
    return sum == strategy->config.global_batch ? change_shares(strategy, step, counts) : CLQ_OK;
}

/* ---- the review ---- */

/* The median of the last `count` times. */
static double median(const times *t, unsigned count) {
    double sorted[KEPT];
    for (unsigned i = 0; i < count; i++) {
        const double next = t->seconds[(t->count - 1 - i) % KEPT];
        unsigned at = i;
        for (; at > 0 && sorted[at - 1] > next; at--) sorted[at] = sorted[at - 1];
        sorted[at] = next;
    }
    return sorted[count / 2];
}

/* What a process has measured. */
typedef struct measured {
    uint64_t count, replicas;         /* count: each of its replicas has at least so many times */
    double seconds[CLQ_REPLICAS_MAX]; /* the median of each replica; 0 if there are too few times */
} measured;

static measured look_here(const clq_strategy *strategy) {
    clq_shares *shares = strategy->shares;
    measured own = {.count = UINT64_MAX, .replicas = strategy->count};
    pthread_mutex_lock(&shares->lock);
    for (unsigned r = 0; r < strategy->count; r++) own.count = CLQ_MIN(own.count, shares->times[r].count);
    const unsigned back = CLQ_MIN((unsigned)CLQ_MIN(own.count, (uint64_t)KEPT), LEAST + shares->agreed);
    for (unsigned r = 0; r < strategy->count && own.count >= LEAST; r++)
        own.seconds[r] = median(&shares->times[r], back);
    pthread_mutex_unlock(&shares->lock);
    return own;
}

/* Gathers what all processes have measured: all (processes), seconds (replicas). *least: every replica was measured at
 * least so many times. */
static clq_status gather(const clq_strategy *strategy, measured *all, uint64_t *least, double *seconds) {
    const measured own = look_here(strategy);
    unsigned next = 0;
    *least = UINT64_MAX;
    CLQ_TRY(clq_world_gather(strategy->config.world, &own, sizeof own, all));
    for (unsigned p = 0; p < clq_world_size(strategy->config.world); p++) {
        *least = CLQ_MIN(*least, all[p].count);
        for (unsigned r = 0; r < all[p].replicas; r++) seconds[next++] = all[p].seconds[r];
    }
    return CLQ_OK;
}

/* *again: every replica was measured again since the last review. seconds (replicas): their medians. */
static clq_status look(clq_strategy *strategy, uint64_t step, bool *again, double *seconds) {
    clq_shares *shares = strategy->shares;
    uint64_t least;
    *again = false;
    if (clq_strategy_spans(strategy)) {
        if (step % STEPS_OF_ALL != 0) return CLQ_OK;
        measured *all = clq_alloc(clq_world_size(strategy->config.world), sizeof *all);
        if (!all) return clq_world_fail_with(strategy->config.world, CLQ_ERROR_MEMORY); /* the others wait */
        const clq_status status = gather(strategy, all, &least, seconds);
        clq_free(all);
        CLQ_TRY(status);
    } else {
        const measured own = look_here(strategy);
        least = own.count;
        memcpy(seconds, own.seconds, sizeof own.seconds);
    }
    *again = least >= LEAST && least != shares->looked_at;
    if (*again) shares->looked_at = least;
    return CLQ_OK;
}

/* Changes counts to the shares half way between the present ones and these. */
static void go_half(const clq_strategy *strategy, size_t *counts) {
    double sums[CLQ_REPLICAS_MAX];
    size_t offsets[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < strategy->total; r++) sums[r] = (double)counts[r] + (double)strategy->shares->counts[r];
    clq_shares_split(strategy->config.global_batch, strategy->total, sums, offsets, counts);
}

clq_status clq_shares_review(clq_strategy *strategy, uint64_t step) {
    clq_shares *shares = strategy->shares;
    const unsigned replicas = strategy->total;
    double seconds[CLQ_REPLICAS_MAX], now_s = 0.0, then_s = 0.0;
    size_t counts[CLQ_REPLICAS_MAX], offsets[CLQ_REPLICAS_MAX];
    bool again;
    if (!clq_shares_are_measured(shares)) return CLQ_OK;
    if (shares->change_count == 0) {
        clq_shares_split(strategy->config.global_batch, replicas, NULL, offsets, counts);
        return change_shares(strategy, step, counts);
    }
    CLQ_TRY(look(strategy, step, &again, seconds));
    if (!again) return CLQ_OK;
    for (unsigned r = 0; r < replicas; r++) {
        clq_share_cost_observe(&shares->costs[r], shares->counts[r], seconds[r]);
        now_s = CLQ_MAX(now_s, seconds[r]);
    }
    clq_shares_balance(strategy->config.global_batch, replicas, shares->costs, shares->most, counts);
    for (unsigned r = 0; r < replicas; r++) then_s = CLQ_MAX(then_s, clq_share_cost_of(&shares->costs[r], counts[r]));
    const bool pays =
        now_s > then_s * (1.0 + gain_least) && memcmp(counts, shares->counts, replicas * sizeof counts[0]) != 0;
    shares->agreed = pays ? shares->agreed + 1 : 0;
    shares->gains = pays ? shares->gains + now_s / then_s - 1.0 : 0.0;
    if (shares->agreed < AGREED || shares->gains < gains_enough) return CLQ_OK;
    if (shares->change_count > 1 && step - shares->changes[shares->change_count - 1].step < SOON)
        go_half(strategy, counts);
    return change_shares(strategy, step, counts);
}

/* ---- by a replica's thread ---- */

void clq_pace_compute(clq_replica *replica) {
    if (clq_shares_are_measured(replica->strategy->shares)) replica->pace.since = clq_now();
}

/* Whether this step is measured. To wait for a device costs a wake-up. So if the device works behind its thread, only
 * some of the short steps are measured. */
static bool is_due(const clq_replica *replica) {
    const double long_s = 2e-3;
    const unsigned every = 4;
    return clq_device_runs_in_caller(replica->worker.device) || replica->pace.last_s >= long_s ||
           replica->pace.unmeasured + 1 >= every;
}

clq_status clq_pace_rest(clq_replica *replica, bool device) {
    clq_pace *pace = &replica->pace;
    if (!(pace->since > 0.0)) return CLQ_OK;
    if (device && is_due(replica)) CLQ_TRY(clq_queue_finish(replica->worker.queue));
    pace->spent_s += clq_now() - pace->since;
    pace->since = 0.0;
    return CLQ_OK;
}

clq_status clq_pace_arrive(clq_replica *replica, size_t samples) {
    clq_shares *shares = replica->strategy->shares;
    clq_pace *pace = &replica->pace;
    if (!clq_shares_are_measured(shares)) return CLQ_OK;
    const bool due = is_due(replica);
    CLQ_TRY(clq_pace_rest(replica, true));
    pthread_mutex_lock(&shares->lock);
    times *t = &shares->times[replica->worker.index];
    const bool counts = due && samples == shares->counts[replica->strategy->first + replica->worker.index];
    if (counts) {
        if (t->cold > 0)
            t->cold--;
        else
            t->seconds[t->count++ % KEPT] = pace->spent_s;
    }
    pthread_mutex_unlock(&shares->lock);
    if (counts) pace->last_s = pace->spent_s;
    pace->unmeasured = counts ? 0 : pace->unmeasured + 1; /* an epoch's smaller batch may be due each time */
    pace->spent_s = 0.0;
    return CLQ_OK;
}
