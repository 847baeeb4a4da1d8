/* A step: all devices compute, and each bucket in turn is exchanged as the library does it (comm/outer/wide.c): summed
 * onto the first device of each machine, summed between machines, and sent back. */
#include "scale/scale.h"

#include <math.h>

/* Up to so many ranks, each rank is walked. Beyond that, one rank stands for all, but not in a star, whose ranks are
 * not alike. */
enum { WALKED_MOST = 16 };

static const clq_algorithm algorithms[] = {CLQ_ALGORITHM_RING, CLQ_ALGORITHM_DOUBLING, CLQ_ALGORITHM_TORUS};
static const size_t bucket_sizes[] = {(size_t)1 << 20,  (size_t)4 << 20,   (size_t)16 << 20,
                                      (size_t)64 << 20, (size_t)256 << 20, CLQ_SCALE_WHOLE};

/* ---- one exchange ---- */

static clq_status collective_s(clq_algorithm algorithm, clq_collective collective, unsigned ranks, size_t bytes,
                               const clq_scale_link *link, bool by_one, double *seconds) {
    clq_schedule schedule;
    clq_schedule_make(algorithm, collective, ranks, 0, 0, bytes, NULL, &schedule);
    return clq_scale_walk(&schedule, link, by_one, seconds);
}

/* An all-reduce within one machine, by the fastest algorithm that may be chosen for its devices. */
static clq_status within_s(const clq_scale_task *task, size_t bytes, double *seconds) {
    double least = 0;
    for (size_t i = 0; i < CLQ_COUNT_OF(algorithms); i++) {
        double one;
        CLQ_TRY(collective_s(algorithms[i], CLQ_ALL_REDUCE, task->devices, bytes, &task->inside, false, &one));
        least = i == 0 ? one : CLQ_MIN(least, one);
    }
    *seconds = least;
    return CLQ_OK;
}

static clq_status exchange_s(const clq_scale_task *task, size_t bytes, double *seconds) {
    double gather = 0, between, spread = 0;
    *seconds = 0;
    if (task->machines == 1) return task->devices == 1 ? CLQ_OK : within_s(task, bytes, seconds);
    const clq_algorithm algorithm = clq_schedule_between(task->algorithm, task->machines, bytes);
    /* A star has at most CLQ_REPLICAS_MAX ranks, so that walking all of them does not take long. */
    const bool by_one = task->machines > WALKED_MOST && algorithm != CLQ_ALGORITHM_REDUCE_TO_ONE;
    if (task->devices > 1) {
        CLQ_TRY(collective_s(CLQ_ALGORITHM_RING, CLQ_REDUCE, task->devices, bytes, &task->inside, false, &gather));
        CLQ_TRY(collective_s(CLQ_ALGORITHM_RING, CLQ_BROADCAST, task->devices, bytes, &task->inside, false, &spread));
    }
    CLQ_TRY(collective_s(algorithm, CLQ_ALL_REDUCE, task->machines, bytes, &task->between, by_one, &between));
    *seconds = gather + between + spread;
    return CLQ_OK;
}

/* ---- the step ---- */

static clq_status check(const clq_scale_task *task) {
    if (task->machines >= 1 && task->devices >= 1 && task->devices <= CLQ_REPLICAS_MAX && task->piece_count >= 1)
        return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "%u machines of %u devices, with %zu parts of a gradient: expected at least one of "
                    "each, and at most %d devices",
                    task->machines, task->devices, task->piece_count, (int)CLQ_REPLICAS_MAX);
}

static clq_algorithm algorithm_of(const clq_scale_task *task) {
    const bool is_by_bytes = task->algorithm == CLQ_ALGORITHM_AUTO || task->algorithm == CLQ_ALGORITHM_DIRECT;
    return is_by_bytes ? CLQ_ALGORITHM_AUTO : clq_schedule_between(task->algorithm, task->machines, 0);
}

/* limit_s: a step that takes longer is not walked to its end; its step_s is beyond the limit then. */
static clq_status walk_buckets(const clq_scale_task *task, double slowest, double limit_s, clq_scale_result *out) {
    const double computed_s = slowest * (task->forward_s + task->backward_s);
    double ended_s = 0, last_s = 0;
    size_t bytes = 0, last_bytes = 0;
    for (size_t i = 0; i < task->piece_count && ended_s <= limit_s; i++) {
        bytes += task->pieces[i].bytes;
        if (bytes < task->bucket_bytes && i + 1 < task->piece_count) continue;
        if (bytes != last_bytes) CLQ_TRY(exchange_s(task, bytes, &last_s)); /* often the last bucket was as large */
        const double whole_s = task->bucket_bytes == CLQ_SCALE_WHOLE
                                   ? computed_s
                                   : slowest * (task->forward_s + task->pieces[i].part * task->backward_s);
        ended_s = CLQ_MAX(ended_s, whole_s) + last_s;
        out->exchange_s += last_s;
        out->buckets++;
        last_bytes = bytes;
        bytes = 0;
    }
    out->exposed_s = CLQ_MAX(ended_s - computed_s, 0.0);
    out->step_s = computed_s + out->exposed_s + task->update_s;
    return CLQ_OK;
}

static clq_status step(const clq_scale_task *task, double limit_s, clq_scale_result *out) {
    const double slowest = clq_scale_largest(task->machines * task->devices, task->spread),
                 alone_s = task->forward_s + task->backward_s;
    clq_scale_result result = {.algorithm = algorithm_of(task), .bucket_bytes = task->bucket_bytes};
    CLQ_TRY(walk_buckets(task, slowest, limit_s, &result));
    result.waiting_s = (slowest - 1) * alone_s;
    result.efficiency = result.step_s > 0 ? (alone_s + task->update_s) / result.step_s : 1;
    *out = result;
    return CLQ_OK;
}

clq_status clq_scale_step(const clq_scale_task *task, clq_scale_result *out) {
    CLQ_TRY(check(task));
    return step(task, (double)INFINITY, out);
}

/* Whether doubling is known to be slower than the best step so far, without a walk: it sends all bytes log2(machines)
 * times, at least. The walk would take long, because many bytes make many messages. */
static bool is_hopeless(const clq_scale_task *task, const clq_scale_result *best) {
    double bytes = 0;
    if (task->algorithm != CLQ_ALGORITHM_DOUBLING || best->buckets == 0) return false;
    for (size_t i = 0; i < task->piece_count; i++) bytes += (double)task->pieces[i].bytes;
    const double least_s = log2((double)task->machines) * bytes * task->between.byte_s;
    return least_s > best->step_s;
}

clq_status clq_scale_best(const clq_scale_task *task, clq_scale_result *out) {
    clq_scale_result best = {.step_s = (double)INFINITY};
    clq_scale_task trial = *task;
    CLQ_TRY(check(task));
    for (size_t a = 0; a < CLQ_COUNT_OF(algorithms); a++)
        for (size_t b = CLQ_COUNT_OF(bucket_sizes); b-- > 0;) {
            clq_scale_result one;
            trial.algorithm = algorithms[a];
            trial.bucket_bytes = bucket_sizes[b];
            if (is_hopeless(&trial, &best)) continue;
            CLQ_TRY(step(&trial, best.step_s, &one));
            if (one.step_s < best.step_s) best = one;
        }
    *out = best;
    return CLQ_OK;
}
