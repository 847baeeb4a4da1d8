/* What a process measures for predictions of several processes: its own devices, and steps while the others make
 * theirs. */
#include "why/predict.h"
#include "why/probe.h"

#include <string.h>
#include <time.h>

/* ---- its devices alone ---- */

/* Inserts a step by its batch. A batch that is there already, or for which there is no room, is left out. */
static void add_step(clq_machine_probe *out, size_t batch, const clq_step_parts *parts) {
    unsigned at = 0;
    while (at < out->step_count && out->steps[at].batch < batch) at++;
    if ((at < out->step_count && out->steps[at].batch == batch) || out->step_count == CLQ_MACHINE_STEPS_MAX) return;
    memmove(&out->steps[at + 1], &out->steps[at], (out->step_count - at) * sizeof out->steps[0]);
    out->steps[at] = (clq_machine_step){batch, *parts};
    out->step_count++;
}

/* Adds a step of all devices, predicted from their probes. */
static void predict_step(const clq_probes *probes, size_t batch, clq_machine_probe *out) {
    const unsigned devices = probes->device_count;
    clq_prediction step;
    const clq_way way = {devices == 1 ? "single" : "mirrored", 0, devices, batch, 1};
    if (clq_why_predict_one(probes, &way, &step)) {
        add_step(out, batch, &step.parts);
        out->doubt = clq_doubt_worse(&out->doubt, &step.doubt);
    } else if (batch >= devices && (!out->too_large || batch < out->too_large)) {
        out->too_large = batch;
    }
}

/* Steps of each device were probed at these batches. So between them, the step of all devices together lies on a line,
 * too. */
static void conclude(const clq_probes *probes, size_t largest, clq_machine_probe *out) {
    const clq_device_probe *first = &probes->devices[0];
    *out = (clq_machine_probe){.devices = probes->device_count, .update_s = first->update_s, .doubt = first->doubt};
    for (unsigned r = 0; r < probes->device_count; r++)
        out->adding_s = CLQ_MAX(out->adding_s, clq_adding_seconds(probes, &probes->devices[r]));
    predict_step(probes, probes->batch, out);
    predict_step(probes, largest, out);
    for (unsigned i = 0; i < first->step_count; i++)
        predict_step(probes, first->steps[i].batch * probes->device_count, out);
}

clq_status clq_why_probe_machine(const clq_why_task *task, size_t largest, clq_machine_probe *out) {
    clq_probes *probes = clq_alloc(1, sizeof *probes);
    clq_why_task own = *task;
    if (!probes) return CLQ_ERROR_MEMORY;
    own.all_only = true;
    own.further = largest;
    clq_status status = clq_why_probe(&own, probes);
    clq_machine_probe found;
    if (status == CLQ_OK) conclude(probes, largest, &found);
    if (status == CLQ_OK && found.step_count == 0) status = clq_error_raise(&probes->lack);
    clq_free(probes);
    if (status == CLQ_OK) *out = found;
    return status;
}

/* ---- steps beside the others', and with them ---- */

static const double lasts_s = 0.6;
enum { STEPS_LEAST = 12, STEPS_BEFORE = 3 };

static uint64_t count_of(double each_s) {
    return (uint64_t)CLQ_MIN(CLQ_MAX(lasts_s / CLQ_MAX(each_s, 1e-6), (double)STEPS_LEAST),
                             (double)CLQ_MACHINE_TIMED_MOST);
}

/* Creates a trainer and makes its first steps. If a process fails, all processes learn of it; *out may be set even
 * then. */
static clq_status begin_steps(const clq_why_task *task, clq_world *world, clq_trainer **out) {
    const clq_probing probing = {.task = task};
    clq_status status = clq_trainer_create(task->model, task->devices, task->config, out);
    if (status == CLQ_OK) status = clq_probing_set_batch(&probing, *out, task->config->global_batch);
    CLQ_TRY(clq_world_check(world, status));
    return clq_world_check(world, clq_fit(*out, task->data, &(clq_fit_config){.steps = STEPS_BEFORE}));
}

clq_status clq_why_time_steps(const clq_why_task *task, clq_world *world, double estimate_s, float *seconds,
                              size_t *count) {
    const uint64_t steps = count_of(estimate_s);
    clq_trainer *trainer = NULL;
    clq_status status = begin_steps(task, world, &trainer);
    const double start = clq_now();
    if (status == CLQ_OK) status = clq_fit(trainer, task->data, &(clq_fit_config){.steps = steps});
    /* Takes the times of this fit alone: older ones are of the fit that made the first steps. */
    if (status == CLQ_OK) status = clq_trainer_step_times(trainer, (size_t)steps - 1, seconds, count);
    if (status == CLQ_OK && *count == 0) { /* epochs of one or two steps give no times of single steps */
        seconds[0] = (float)((clq_now() - start) / (double)steps);
        *count = 1;
    }
    clq_trainer_destroy(trainer);
    return status;
}

/* The next batch of the data; after the last batch, the first one again. */
static clq_status next_batch(clq_dataset *data, clq_batch *out) {
    bool more = false;
    while (!more) CLQ_TRY(clq_dataset_next(data, out, &more));
    return CLQ_OK;
}

static clq_status time_rounds(const clq_why_task *task, clq_world *world, clq_trainer *trainer, double rest_s,
                              size_t count, float *seconds) {
    const struct timespec rest = {.tv_sec = (time_t)rest_s, .tv_nsec = (long)((rest_s - (double)(time_t)rest_s) * 1e9)};
    clq_batch batch;
    for (size_t i = 0; i < count; i++) {
        CLQ_TRY(next_batch(task->data, &batch));
        CLQ_TRY(clq_world_barrier(world));
        (void)nanosleep(&rest, NULL);
        const double start = clq_now();
        CLQ_TRY(clq_step(trainer, &batch));
        CLQ_TRY(clq_trainer_wait(trainer));
        seconds[i] = (float)(clq_now() - start);
    }
    return CLQ_OK;
}

clq_status clq_why_time_rounds(const clq_why_task *task, clq_world *world, double estimate_s, double rest_s,
                               float *seconds, size_t *count) {
    static const double rest_most_s = 1;
    const size_t rounds = (size_t)count_of(estimate_s);
    clq_trainer *trainer = NULL;
    clq_status status = begin_steps(task, world, &trainer);
    if (status == CLQ_OK) {
        status = time_rounds(task, world, trainer, CLQ_MIN(rest_s, rest_most_s), rounds, seconds);
        if (status != CLQ_OK) status = clq_world_fail_with(world, status); /* the others wait at the next round */
    }
    if (status == CLQ_OK) *count = rounds;
    clq_trainer_destroy(trainer);
    return status;
}

/* The middle half of the means of some looks: what disturbs the machine for a moment is in few looks. */
double clq_why_mean_step(const float *seconds, size_t count) {
    enum { LOOKS = 16 };
    double looks[LOOKS];
    const size_t looked = CLQ_MIN(count, (size_t)LOOKS);
    for (size_t i = 0; i < looked; i++) {
        const size_t begin = i * count / looked, end = (i + 1) * count / looked;
        looks[i] = 0;
        for (size_t k = begin; k < end; k++) looks[i] += (double)seconds[k] / (double)(end - begin);
    }
    return clq_middle_mean(looks, looked);
}

/* The rounds of a look follow one another, and the looks lie apart. Few rounds are one look. */
void clq_why_note_together(clq_machine_probe *probe, const float *seconds, size_t count) {
    const size_t rounds = CLQ_MIN(count, (size_t)CLQ_MACHINE_ROUNDS / CLQ_MACHINE_LOOKS),
                 looks = CLQ_MIN(count / rounds, (size_t)CLQ_MACHINE_LOOKS);
    probe->look_count = (unsigned)looks;
    probe->look_rounds = (unsigned)rounds;
    for (size_t i = 0; i < looks; i++)
        for (size_t k = 0; k < rounds; k++) probe->rounds_s[i * rounds + k] = seconds[i * count / looks + k];
    probe->together_s = clq_why_mean_step(seconds, count);
}
