#include "stepper.h"

#include <math.h>
#include <string.h>

/* ---- the step ---- */

/* Enough samples that each step's batch comes from memory, not from a cache, and that training does not memorize
 * them. */
enum { SAMPLES = 4096, BATCHES_LEAST = 2, SEED = 0 };
static const float rate = 1e-3f;

/* Writes the initial weights, because the computed values must be neither zeros nor denormal numbers. */
static clq_status write_weights(const clq_bench_stepper *s, clq_queue *queue) {
    size_t bytes = clq_plan_arena_bytes(s->plan);
    char *arena = clq_alloc(bytes, 1);
    if (!arena) return CLQ_ERROR_MEMORY;
    clq_status status = clq_weights_initial_values(clq_plan_weights(s->plan), CLQ_ARENA_PARAMETERS, SEED, arena);
    if (status == CLQ_OK) status = clq_queue_write(queue, clq_plan_parameters(s->plan), 0, arena, bytes, true);
    clq_free(arena);
    return status;
}

static clq_status make_plan(clq_bench_stepper *s, const clq_model *model, clq_tuning tuning) {
    const clq_optimizer adam = clq_optimizer_default(CLQ_OPTIMIZER_ADAM);
    const clq_shape out = clq_model_output_shape(model, 0);
    const clq_loss_problem loss = {.kind = CLQ_LOSS_SPARSE_CATEGORICAL,
                                   .classes = out.dims[out.rank - 1],
                                   .rows = s->places,
                                   .weight = 1,
                                   .metric_count = 1,
                                   .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}};
    const clq_plan_config config = {
        .capacity = (uint32_t)s->batch, .sample_dtype = CLQ_U8, .loss = &loss, .update = &adam, .metric_slots = 1};
    const clq_tune_config tune = clq_tune_config_of(tuning, 0);
    if (tuning != CLQ_TUNING_OFF) CLQ_TRY(clq_plan_tune(model, s->device, &config, &tune, NULL));
    CLQ_TRY(clq_plan_create_alone(model, s->device, &config, &s->plan));
    clq_plan_set_params(
        s->plan,
        &(clq_step_params){.count = (uint32_t)s->batch, .scale = 1.0f / (float)s->batch, .rate = rate, .step = 1});
    s->launches = clq_list_launch_count(clq_plan_list(s->plan));
    return CLQ_OK;
}

static size_t image_bytes(const clq_bench_stepper *s) { return clq_buffer_bytes(clq_plan_samples(s->plan)); }
static size_t label_bytes(const clq_bench_stepper *s) { return s->batch * s->places * sizeof(int32_t); }

static clq_status make_pinned(const clq_bench_stepper *s, size_t bytes, const char *what, clq_buffer **out) {
    return clq_buffer_create(s->device, CLQ_MEMORY_PINNED, bytes, what, out);
}

static char *batch_in(const clq_buffer *batches, size_t i, size_t bytes) {
    return (char *)clq_buffer_host(batches) + i * bytes;
}

static clq_status make_batches(clq_bench_stepper *s, const clq_model *model) {
    char spec[CLQ_BENCH_DATA_BYTES];
    clq_dataset *data;
    s->batches = CLQ_MAX(SAMPLES / s->batch, (size_t)BATCHES_LEAST);
    CLQ_TRY(clq_bench_model_data(model, s->batches * s->batch, spec));
    CLQ_TRY(clq_dataset_open(spec, "train", &data));
    clq_status status = clq_dataset_batch(data, s->batch, true);
    if (status == CLQ_OK) status = make_pinned(s, s->batches * image_bytes(s), "images", &s->images);
    if (status == CLQ_OK) status = make_pinned(s, s->batches * label_bytes(s), "labels", &s->labels);
    for (size_t i = 0; i < s->batches && status == CLQ_OK; i++) {
        clq_batch batch;
        bool more;
        status = clq_dataset_next(data, &batch, &more);
        if (status != CLQ_OK) break;
        memcpy(batch_in(s->images, i, image_bytes(s)), batch.samples, image_bytes(s));
        memcpy(batch_in(s->labels, i, label_bytes(s)), batch.labels, label_bytes(s));
    }
    clq_dataset_destroy(data);
    return status;
}

clq_status clq_bench_stepper_open(clq_device *device, const clq_model *model, size_t batch, clq_tuning tuning,
                                  clq_bench_stepper *stepper) {
    *stepper = (clq_bench_stepper){.device = device, .batch = batch, .places = clq_bench_model_places(model)};
    clq_queue *queue;
    CLQ_TRY(make_plan(stepper, model, tuning));
    CLQ_TRY(make_batches(stepper, model));
    CLQ_TRY(clq_queue_create(device, 0, &queue));
    clq_status status = write_weights(stepper, queue);
    clq_queue_destroy(queue);
    return status;
}

void clq_bench_stepper_release(clq_bench_stepper *stepper) {
    clq_plan_destroy(stepper->plan);
    clq_buffer_destroy(stepper->images);
    clq_buffer_destroy(stepper->labels);
    *stepper = (clq_bench_stepper){0};
}

static clq_status upload(clq_bench_stepper *s, clq_queue *queue) {
    size_t at = s->next++ % s->batches;
    CLQ_TRY(clq_queue_write(queue, clq_plan_samples(s->plan), 0, batch_in(s->images, at, image_bytes(s)),
                            image_bytes(s), false));
    return clq_queue_write(queue, clq_plan_labels(s->plan, 0), 0, batch_in(s->labels, at, label_bytes(s)),
                           label_bytes(s), false);
}

static clq_status enqueue(clq_bench_stepper *s, clq_queue *queue, size_t steps) {
    for (size_t i = 0; i < steps; i++) {
        CLQ_TRY(upload(s, queue));
        CLQ_TRY(clq_plan_run_part(s->plan, queue, 0, s->launches));
        CLQ_TRY(clq_queue_flush(queue));
    }
    return CLQ_OK;
}

clq_status clq_bench_stepper_run(clq_bench_stepper *stepper, clq_queue *queue, size_t steps) {
    clq_status status = enqueue(stepper, queue, steps);
    clq_status finished = clq_queue_finish(queue); /* also after a failure, since uploads read the batches */
    return status == CLQ_OK ? finished : status;
}

/* ---- times ---- */

/* Steps between two waits. Several, so that the wait weighs little; few, so that both kinds of blocks meet the machine
 * in the same state. */
enum { BLOCK = 8 };

/* Times of the launches: seconds[launch * steps + i], with i < counts[launch]. */
typedef struct samples {
    double *seconds;
    size_t *counts;
    size_t steps;
} samples;

static clq_status samples_open(const clq_bench_stepper *s, size_t steps, samples *out) {
    *out = (samples){.steps = steps};
    out->seconds = clq_alloc(s->launches * steps, sizeof *out->seconds);
    out->counts = clq_alloc(s->launches, sizeof *out->counts);
    return out->seconds && out->counts ? CLQ_OK : CLQ_ERROR_MEMORY;
}

static void samples_release(samples *all) {
    clq_free(all->seconds);
    clq_free(all->counts);
}

static void note(samples *all, size_t launch, double seconds) {
    if (all->counts[launch] < all->steps) all->seconds[launch * all->steps + all->counts[launch]++] = seconds;
}

static clq_status sum_up(const clq_bench_stepper *s, const samples *all, clq_bench_times *out) {
    for (size_t i = 0; i < s->launches; i++) {
        if (all->counts[i] == 0)
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "the driver recorded no time of launch %zu of %zu", i + 1,
                            s->launches);
        out[i] = clq_bench_times_of(all->seconds + i * all->steps, all->counts[i], 1);
    }
    return CLQ_OK;
}

static double sum_of(const clq_bench_stepper *s, const clq_bench_times *times) {
    double sum = 0;
    for (size_t i = 0; i < s->launches; i++) sum += times[i].p50_us;
    return sum;
}

/* Notes the times of the list's launches. The name of a launch's span is the list's own label, the same pointer; no
 * other span has it. */
static void note_spans(const clq_bench_stepper *s, const clq_span *spans, size_t count, samples *all) {
    const clq_list *list = clq_plan_list(s->plan);
    size_t expected = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < s->launches; k++) {
            size_t launch = (expected + k) % s->launches;
            clq_launch_info info;
            clq_list_launch_info(list, launch, &info);
            if (spans[i].name != info.label) continue;
            note(all, launch, spans[i].end - spans[i].begin);
            expected = launch + 1;
            break;
        }
}

/* Runs blocks of undisturbed steps and blocks of recorded steps in turn. blocks: gets the seconds of a step in each
 * block, first of all undisturbed blocks, then of all recorded ones. */
static clq_status run_in_turn(clq_bench_stepper *s, clq_queue *plain, clq_queue *traced, size_t steps, double *blocks,
                              clq_bench_step_times *out) {
    size_t count = clq_ceil_div(steps, BLOCK);
    for (size_t i = 0; i < count; i++)
        for (unsigned kind = 0; kind < 2; kind++) {
            size_t now = CLQ_MIN(steps - i * BLOCK, (size_t)BLOCK);
            double start = clq_now();
            CLQ_TRY(clq_bench_stepper_run(s, kind ? traced : plain, now));
            blocks[kind * count + i] = (clq_now() - start) / (double)now;
        }
    out->step = clq_bench_times_of(blocks, count, 1);
    out->profiled = clq_bench_times_of(blocks + count, count, 1);
    return CLQ_OK;
}

static clq_status time_with(clq_bench_stepper *s, clq_queue *plain, clq_queue *traced, size_t steps, samples *all,
                            clq_bench_step_times *out) {
    clq_span *spans = NULL;
    size_t count;
    double error_s, *blocks = clq_alloc(2 * steps, sizeof *blocks);
    if (!blocks) return CLQ_ERROR_MEMORY;
    clq_status status = run_in_turn(s, plain, traced, steps, blocks, out);
    clq_free(blocks);
    CLQ_TRY(status);
    CLQ_TRY(clq_queue_spans(traced, &spans, &count, &error_s));
    note_spans(s, spans, count, all);
    clq_free(spans);
    return sum_up(s, all, out->launches);
}

static clq_status time_by_profile(clq_bench_stepper *s, clq_queue *plain, size_t steps, clq_bench_step_times *out) {
    clq_queue *traced;
    samples all;
    out->timing = CLQ_BENCH_BY_PROFILE;
    CLQ_TRY(clq_queue_create(s->device, CLQ_QUEUE_TRACE, &traced));
    clq_status status = samples_open(s, steps, &all);
    if (status == CLQ_OK) status = time_with(s, plain, traced, steps, &all, out);
    samples_release(&all);
    clq_queue_destroy(traced);
    return status;
}

static clq_status step_alone(clq_bench_stepper *s, clq_queue *queue, samples *all) {
    CLQ_TRY(upload(s, queue));
    CLQ_TRY(clq_queue_finish(queue));
    for (size_t i = 0; i < s->launches; i++) {
        double start = clq_now();
        CLQ_TRY(clq_plan_run_part(s->plan, queue, i, i + 1));
        CLQ_TRY(clq_queue_finish(queue));
        note(all, i, clq_now() - start);
    }
    return CLQ_OK;
}

static clq_status time_alone(clq_bench_stepper *s, clq_queue *queue, size_t steps, clq_bench_step_times *out) {
    samples all;
    double *blocks = clq_alloc(steps, sizeof *blocks);
    clq_status status = samples_open(s, steps, &all);
    if (status == CLQ_OK && !blocks) status = CLQ_ERROR_MEMORY;
    out->timing = CLQ_BENCH_ALONE;
    size_t count = clq_ceil_div(steps, BLOCK);
    for (size_t i = 0; i < steps && status == CLQ_OK; i++) {
        if (i % BLOCK == 0) {
            size_t now = CLQ_MIN(steps - i, (size_t)BLOCK);
            double start = clq_now();
            status = clq_bench_stepper_run(s, queue, now);
            blocks[i / BLOCK] = (clq_now() - start) / (double)now;
        }
        if (status == CLQ_OK) status = step_alone(s, queue, &all);
    }
    (void)clq_queue_finish(queue);
    if (status == CLQ_OK) status = sum_up(s, &all, out->launches);
    if (status == CLQ_OK) out->step = clq_bench_times_of(blocks, count, 1);
    samples_release(&all);
    clq_free(blocks);
    return status;
}

/* ---- which timing to believe ---- */

/* The profile is wrong if its launches, which follow one another, take longer than the whole step. 10% are allowed for
 * differences between the clocks. */
static bool is_too_long(const clq_bench_stepper *s, const clq_bench_step_times *by_profile) {
    return sum_of(s, by_profile->launches) > 1.1 * by_profile->profiled.p50_us;
}

/* In a small step, the host may take more than half of the time, so launches that sum up to less are not yet wrong.
 * They are if they take more than twice as long when each is waited for, less the cost of the wait. A wait costs at
 * most the time of the shortest launch. */
static bool is_too_short(const clq_bench_stepper *s, const clq_bench_times *by_profile, const clq_bench_times *alone) {
    double shortest = INFINITY;
    for (size_t i = 0; i < s->launches; i++) shortest = CLQ_MIN(shortest, alone[i].min_us);
    return sum_of(s, by_profile) < 0.5 * (sum_of(s, alone) - shortest * (double)s->launches);
}

static clq_status choose(clq_bench_stepper *s, clq_queue *queue, size_t steps, clq_bench_step_times *out) {
    clq_status status = time_by_profile(s, queue, steps, out);
    if (status != CLQ_OK && status != CLQ_ERROR_UNSUPPORTED) return status;
    bool doubtful = status != CLQ_OK || is_too_long(s, out);
    if (!doubtful && sum_of(s, out->launches) >= 0.5 * out->profiled.p50_us) return CLQ_OK;
    clq_bench_step_times alone = {.launches = clq_alloc(s->launches, sizeof *alone.launches)};
    if (!alone.launches) return CLQ_ERROR_MEMORY;
    status = time_alone(s, queue, steps, &alone);
    bool better = status == CLQ_OK && (doubtful || is_too_short(s, out->launches, alone.launches));
    clq_free(better ? out->launches : alone.launches);
    if (better) *out = alone;
    return status;
}

clq_status clq_bench_stepper_time(clq_bench_stepper *stepper, clq_queue *queue, size_t warm_ups, size_t steps,
                                  const clq_bench_timing *choice, clq_bench_step_times *out) {
    clq_bench_step_times times = {.launches = clq_alloc(stepper->launches, sizeof *times.launches)};
    if (!times.launches) return CLQ_ERROR_MEMORY;
    clq_status status = clq_bench_stepper_run(stepper, queue, warm_ups);
    if (status == CLQ_OK)
        status = !choice                           ? choose(stepper, queue, steps, &times)
                 : *choice == CLQ_BENCH_BY_PROFILE ? time_by_profile(stepper, queue, steps, &times)
                                                   : time_alone(stepper, queue, steps, &times);
    if (status == CLQ_OK)
        *out = times;
    else
        clq_free(times.launches);
    return status;
}
