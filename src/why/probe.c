/* Probes: what a step on one device is made of. */
#include "why/predict.h"
#include "why/probe.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { CHUNKS_LEAST = 3, CHUNKS_MOST = 64, BATCH_FACTOR = 4 /* how much larger a batch is tried */ };
static const double chunk_s = 25e-3, step_probe_s = 0.3;
/* A larger batch is not probed if its step would take longer than large_step_s. A probe of long steps ends after
 * long_probe_s, even with fewer chunks than CHUNKS_LEAST: long steps need few repetitions to be told apart. */
static const double large_step_s = 0.5, long_probe_s = 1.0;
/* Devices of one name are taken for equal if their steps differ by less than this factor: machines change their pace by
 * as much. */
static const double alike_most = 1.4;

bool clq_probing_path(const clq_trainer *trainer, const char *name) {
    clq_path_info path;
    for (size_t i = 0; clq_strategy_path(clq_trainer_strategy(trainer), i, &path); i++)
        if (strcmp(path.name, name) == 0) return path.on;
    return false;
}

/* ---- steps on one device ---- */

/* CPU time of the calling thread. */
static double thread_seconds(void) {
    struct timespec now;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0 ? (double)now.tv_sec + 1e-9 * (double)now.tv_nsec : 0.0;
}

typedef struct step_look {
    double step_s, post_s, spread; /* post_s: CPU time of the caller's thread */
} step_look;

static clq_status time_steps(clq_trainer *trainer, clq_dataset *data, uint64_t steps, double *seconds) {
    const double start = clq_now();
    CLQ_TRY(clq_fit(trainer, data, &(clq_fit_config){.steps = steps}));
    *seconds = (clq_now() - start) / (double)steps;
    return CLQ_OK;
}

/* A look: the median of some runs, each long enough that beginning and ending it weighs little. */
static clq_status look_at_step(clq_trainer *trainer, clq_dataset *data, uint64_t steps, step_look *out) {
    double chunks[CHUNKS_MOST], elapsed = 0;
    size_t count = 0;
    const double start = clq_now(), cpu = thread_seconds();
    while (count < CHUNKS_MOST && (elapsed < step_probe_s || (count < CHUNKS_LEAST && elapsed < long_probe_s))) {
        CLQ_TRY(time_steps(trainer, data, steps, &chunks[count++]));
        elapsed = clq_now() - start;
    }
    out->post_s = (thread_seconds() - cpu) / (double)(steps * count);
    out->step_s = clq_median(chunks, count);
    out->spread = clq_middle_spread(chunks, count);
    return CLQ_OK;
}

/* Makes looks until one met quiet cores or patience ends. *doubt becomes the worse of itself and of these looks. */
static clq_status probe_step(clq_trainer *trainer, clq_dataset *data, clq_patience *patience, step_look *out,
                             clq_doubt *doubt) {
    clq_looks looks = {.first = 1, .least = 1};
    double steps_s[CLQ_LOOKS_MAX], seconds;
    step_look look = {0};
    CLQ_TRY(time_steps(trainer, data, 1, &seconds)); /* the first launch compiles kernels */
    CLQ_TRY(time_steps(trainer, data, 1, &seconds));
    if (seconds < chunk_s) CLQ_TRY(time_steps(trainer, data, 8, &seconds));
    const uint64_t steps = (uint64_t)CLQ_MIN(CLQ_MAX(chunk_s / seconds, 1.0), 4096.0);
    while (clq_looks_wanted(&looks, patience)) {
        clq_looks_begin(&looks);
        CLQ_TRY(look_at_step(trainer, data, steps, &look));
        steps_s[looks.count] = look.step_s;
        clq_looks_end(&looks, patience);
    }
    *out = look;
    out->step_s = clq_middle_mean(steps_s, clq_looks_pick(&looks, steps_s));
    clq_doubt_add(doubt, &looks, look.spread);
    return CLQ_OK;
}

/* Times the update of all weights by itself. */
static clq_status probe_update(clq_trainer *trainer, double *out) {
    enum { LOOKS = 5 };
    clq_strategy *strategy = clq_trainer_strategy(trainer);
    const clq_step_params params = {.scale = 1, .rate = 0, .step = 1};
    double looks[LOOKS], least = 1e-6;
    for (size_t i = 0; i <= LOOKS; i++) { /* the first look estimates how long an update takes */
        const unsigned updates = i == 0 ? 4 : (unsigned)CLQ_MIN(CLQ_MAX(chunk_s / LOOKS / least, 4.0), 1000.0);
        CLQ_TRY(clq_strategy_wait(strategy));
        const double start = clq_now();
        for (unsigned k = 0; k < updates; k++) CLQ_TRY(clq_strategy_apply(strategy, &params));
        CLQ_TRY(clq_strategy_wait(strategy));
        const double seconds = (clq_now() - start) / updates;
        if (i == 0)
            least = CLQ_MAX(seconds, least);
        else
            looks[i - 1] = seconds;
    }
    *out = clq_median(looks, LOOKS);
    return CLQ_OK;
}

/* Times copying a sample, if the replica's thread does that within its step. Otherwise *out is 0. */
static clq_status probe_rows(const clq_trainer *trainer, clq_dataset *data, double *out) {
    const clq_dataset_info *info = clq_dataset_get_info(data);
    const size_t batch = clq_dataset_batch_size(data),
                 bytes = clq_values_bytes(info->sample_dtype, batch * info->sample_elements);
    *out = 0;
    if (!clq_probing_path(trainer, "own rows") || clq_probing_path(trainer, "upload ahead")) return CLQ_OK;
    void *to = clq_alloc(bytes, 1);
    if (!to) return CLQ_ERROR_MEMORY;
    double copying_s = 0;
    size_t rows_copied = 0;
    clq_status status = CLQ_OK;
    const double start = clq_now();
    while (status == CLQ_OK && (clq_now() - start < chunk_s / 2 || rows_copied == 0)) {
        clq_rows rows;
        bool more;
        status = clq_dataset_next_rows(data, &rows, &more);
        if (status != CLQ_OK || !more) continue; /* the next epoch begins */
        const double before = clq_now();
        clq_rows_copy(&rows, clq_feed_find(rows.feed, CLQ_FEED_SAMPLES, 0), to);
        copying_s += clq_now() - before;
        rows_copied += rows.count;
    }
    clq_free(to);
    if (status == CLQ_OK) *out = copying_s / (double)rows_copied;
    return status;
}

/* Samples per second that the pipeline delivers to steps that take no time. */
static clq_status probe_pipeline(const clq_trainer *trainer, clq_dataset *data, double *out) {
    const bool by_rows = clq_probing_path(trainer, "own rows");
    CLQ_TRY(clq_dataset_seek(data, 0, 0));
    const double start = clq_now();
    size_t samples = 0;
    while (clq_now() - start < 2 * chunk_s || samples == 0) {
        clq_rows rows;
        clq_batch batch;
        bool more;
        CLQ_TRY(by_rows ? clq_dataset_next_rows(data, &rows, &more) : clq_dataset_next(data, &batch, &more));
        if (more) samples += by_rows ? rows.count : batch.count;
    }
    *out = (double)samples / (clq_now() - start);
    return clq_dataset_seek(data, 0, 0);
}

clq_probed_work clq_probed_work_of(const clq_trainer *trainer) {
    const clq_plan *plan = clq_strategy_plan(clq_trainer_strategy(trainer), 0);
    const clq_list *list = clq_plan_list(plan);
    clq_plan_memory m;
    clq_plan_get_memory(plan, &m);
    clq_probed_work w = {.memory_bytes = m.activation_bytes + m.parameter_bytes + m.gradient_bytes + m.optimizer_bytes,
                         .gradient_bytes = m.gradient_bytes};
    for (size_t i = 0; i < clq_list_launch_count(list); i++) {
        clq_launch_info info;
        clq_list_launch_info(list, i, &info);
        if (strcmp(info.function, "all_reduce") == 0) {
            if (w.sum_count < CLQ_RIG_MEETINGS_MAX) w.sums[w.sum_count] = (size_t)(info.bytes / 2); /* read, written */
            w.sum_count++;
            continue;
        }
        w.flops += info.flops;
        w.traffic += info.bytes;
    }
    return w;
}

/* ---- the whole ---- */

/* `count` devices from `first` on. */
clq_status clq_probing_open(const clq_probing *p, unsigned first, unsigned count, size_t batch,
                            clq_strategy_kind strategy, clq_trainer **out) {
    clq_devices devices = *p->task->devices;
    clq_trainer_config config = *p->task->config;
    const uint32_t micro_batches = config.strategy_options.micro_batches;
    memmove(devices.items, devices.items + first, count * sizeof devices.items[0]);
    devices.count = count;
    config.global_batch = batch;
    config.trace_steps = 0;
    config.check_replicas = 0; /* one device refuses this setting */
    config.strategy_options = clq_trainer_config_default().strategy_options;
    config.strategy_options.accumulate = 1;
    if (strategy == CLQ_STRATEGY_PIPELINE) config.strategy_options.micro_batches = micro_batches;
    config.strategy = strategy;
    return clq_trainer_create(p->task->model, &devices, &config, out);
}

clq_status clq_probing_set_batch(const clq_probing *p, const clq_trainer *trainer, size_t batch) {
    CLQ_TRY(clq_dataset_batch(p->task->data, batch, true));
    return clq_probing_path(trainer, "own rows") ? CLQ_OK : clq_dataset_prefetch(p->task->data, CLQ_PREFETCH_AUTO);
}

/* Measures all that a trainer on one device can tell. whole: also what does not depend on the batch. */
static clq_status ask_trainer(clq_probing *p, unsigned device, bool whole, clq_trainer *trainer, clq_step_probe *step) {
    clq_device_probe *d = &p->out->devices[device];
    step_look look;
    CLQ_TRY(clq_probing_set_batch(p, trainer, step->batch));
    CLQ_TRY(probe_step(trainer, p->task->data, p->task->patience, &look, &d->doubt));
    step->step_s = look.step_s;
    if (!whole) return CLQ_OK;
    d->launches = clq_strategy_calls(clq_trainer_strategy(trainer), 0);
    CLQ_TRY(probe_update(trainer, &d->update_s));
    CLQ_TRY(clq_dataset_seek(p->task->data, 0, 0));
    CLQ_TRY(probe_rows(trainer, p->task->data, &d->row_s));
    if (device > 0) return CLQ_OK;
    p->work = clq_probed_work_of(trainer);
    p->out->post_s = look.post_s;
    p->out->gradient_bytes = p->work.gradient_bytes;
    return probe_pipeline(trainer, p->task->data, &p->out->rows_per_s);
}

clq_status clq_probing_lacks(clq_probing *p, clq_status status) {
    clq_error lack;
    if (status != CLQ_ERROR_DEVICE_MEMORY) return status;
    clq_error_take(status, &lack);
    if (p->out->lack.status == CLQ_OK) p->out->lack = lack;
    return CLQ_OK;
}

/* Notes a batch that does not fit. The first batch that fits also tells what does not depend on the batch. */
static clq_status probe_batch(clq_probing *p, unsigned device, size_t batch) {
    clq_device_probe *d = &p->out->devices[device];
    unsigned at = 0;
    if (!clq_step_fits(d, batch)) return CLQ_OK;
    while (at < d->step_count && d->steps[at].batch < batch) at++;
    if ((at < d->step_count && d->steps[at].batch == batch) || d->step_count == CLQ_STEP_PROBES_MAX) return CLQ_OK;
    clq_trainer *trainer = NULL;
    clq_step_probe step = {.batch = batch};
    clq_status status = clq_probing_open(p, device, 1, batch, CLQ_STRATEGY_AUTO, &trainer);
    if (status == CLQ_OK) status = ask_trainer(p, device, d->step_count == 0, trainer, &step);
    clq_trainer_destroy(trainer);
    if (status == CLQ_ERROR_DEVICE_MEMORY) d->too_large = batch;
    if (status != CLQ_OK) return clq_probing_lacks(p, status);
    memmove(&d->steps[at + 1], &d->steps[at], (d->step_count - at) * sizeof d->steps[0]);
    d->steps[at] = step;
    d->step_count++;
    return CLQ_OK;
}

/* Probes the global batch, its share on each number of devices that is probed, micro-batches, and a larger batch for
 * advice. */
static clq_status probe_device(clq_probing *p, unsigned device) {
    clq_probes *out = p->out;
    out->devices[device].doubt = (clq_doubt){.others = (double)NAN};
    CLQ_TRY(probe_batch(p, device, out->batch));
    for (unsigned g = 0; g < out->group_count; g++)
        CLQ_TRY(probe_batch(p, device, clq_ceil_div(out->batch, out->groups[g].count)));
    if (p->task->further) CLQ_TRY(probe_batch(p, device, clq_ceil_div(p->task->further, (size_t)out->device_count)));
    for (unsigned g = 0; g < out->group_count; g++) /* micro-batches of a pipeline */
        if (out->groups[g].pipe.stages)
            CLQ_TRY(probe_batch(p, device, clq_ceil_div(out->batch, (size_t)out->groups[g].pipe.micro_batches)));
    const size_t large = BATCH_FACTOR * out->batch;
    const clq_device_probe *d = &out->devices[device];
    if (d->step_count == 0) return clq_error_raise(&out->lack);
    if (large > out->samples || BATCH_FACTOR * d->steps[d->step_count - 1].step_s > large_step_s) return CLQ_OK;
    const clq_error lack = out->lack;
    clq_status status = probe_batch(p, device, large);
    out->lack = lack; /* nobody asked for this batch: if it does not fit, it is only not advised */
    return status;
}

double clq_probed_step(const clq_device_probe *d, size_t batch) {
    unsigned i = 0;
    while (i + 1 < d->step_count && d->steps[i].batch < batch) i++;
    return d->steps[i].step_s;
}

/* Times a step of a device alone, without keeping the result. */
static clq_status time_share(const clq_probing *p, unsigned device, size_t batch, double *step_s) {
    clq_trainer *trainer;
    clq_doubt doubt = {.others = (double)NAN};
    step_look look = {0};
    CLQ_TRY(clq_probing_open(p, device, 1, batch, CLQ_STRATEGY_AUTO, &trainer));
    clq_status status = clq_probing_set_batch(p, trainer, batch);
    if (status == CLQ_OK) status = probe_step(trainer, p->task->data, p->task->patience, &look, &doubt);
    clq_trainer_destroy(trainer);
    if (status == CLQ_OK) *step_s = look.step_s;
    return status;
}

/* The device is like an earlier one by its name. If its steps take about as long, too, what was measured there holds
 * for it. If not, both are timed once more, because the machine may have been busy. */
static clq_status probe_like(clq_probing *p, unsigned device, unsigned first) {
    enum { TRIES = 2 };
    clq_probes *out = p->out;
    size_t share = clq_ceil_div(out->batch, out->device_count);
    if (!clq_step_fits(&out->devices[first], share)) share = out->devices[first].steps[0].batch;
    double own_s, first_s = clq_probed_step(&out->devices[first], share);
    for (unsigned i = 0; i < TRIES; i++) {
        if (i > 0) CLQ_TRY(time_share(p, first, share, &first_s));
        clq_status status = time_share(p, device, share, &own_s);
        if (status == CLQ_ERROR_DEVICE_MEMORY) break; /* it has less memory */
        CLQ_TRY(status);
        if (own_s < alike_most * first_s && first_s < alike_most * own_s) {
            out->devices[device] = out->devices[first];
            return CLQ_OK;
        }
    }
    p->alike[device] = device;
    return probe_device(p, device);
}

/* ---- made-up work ---- */

static clq_status probe_alone(clq_probing *p, unsigned device) {
    clq_device_probe *d = &p->out->devices[device];
    double gflops[CLQ_PROBING_LOOKS], gbps[CLQ_PROBING_LOOKS];
    for (size_t i = 0; i < CLQ_PROBING_LOOKS; i++) {
        CLQ_TRY(clq_rig_rate_alone(&p->rig, CLQ_LOAD_ARITHMETIC, device, &gflops[i]));
        CLQ_TRY(clq_rig_rate_alone(&p->rig, CLQ_LOAD_MEMORY, device, &gbps[i]));
    }
    d->gflops = clq_median(gflops, CLQ_PROBING_LOOKS);
    d->gbps = clq_median(gbps, CLQ_PROBING_LOOKS);
    const double arithmetic_s = p->work.flops / d->gflops, memory_s = p->work.traffic / d->gbps;
    d->memory_share = arithmetic_s + memory_s > 0 ? memory_s / (arithmetic_s + memory_s) : 0.0;
    return clq_rig_launch(&p->rig, device, &d->launch_s);
}

/* ---- all of it ---- */

unsigned clq_why_next_count(unsigned count, unsigned most) {
    enum { EACH_UP_TO = 8 };
    if (count >= most || count < EACH_UP_TO) return count + 1;
    return CLQ_MIN(2 * count, most);
}

static void choose_groups(clq_probes *out, bool all_only) {
    for (unsigned n = all_only ? CLQ_MAX(out->device_count, 2u) : 2;
         n <= out->device_count && out->group_count < CLQ_GROUP_PROBES_MAX;
         n = clq_why_next_count(n, out->device_count))
        out->groups[out->group_count++] = (clq_group_probe){.count = n};
}

static void note_cores(clq_probing *p) {
    unsigned busy = 0;
    p->out->cores = clq_cpu_count();
    for (unsigned r = 0; r < p->out->device_count; r++) {
        const clq_device_info *info = clq_device_get_info(p->rig.members[r].device);
        if (info->type == CLQ_DEVICE_CPU) busy += CLQ_MAX(info->compute_units, 1u);
        p->out->busy_cores[r] = busy;
    }
}

static clq_status find_alike(clq_probing *p) {
    clq_device *opened[CLQ_REPLICAS_MAX];
    CLQ_TRY(clq_devices_open(p->task->devices, false, opened, NULL));
    for (unsigned r = 0; r < p->out->device_count; r++) {
        p->alike[r] = 0;
        while (p->alike[r] < r && !clq_selections_are_shared(opened[p->alike[r]], opened[r])) p->alike[r]++;
    }
    for (unsigned r = 0; r < p->out->device_count; r++) clq_device_close(opened[r]);
    return CLQ_OK;
}

static void take_settings(const clq_why_task *task, clq_probes *out) {
    const clq_strategy_options *options = &task->config->strategy_options;
    const bool serves = task->config->strategy == CLQ_STRATEGY_PS && options->staleness > 0;
    const int32_t staleness = serves ? options->staleness : clq_trainer_config_default().strategy_options.staleness;
    out->accumulate = (size_t)CLQ_MAX(options->accumulate, (uint64_t)1);
    out->staleness = (unsigned)staleness;
    out->strategy = clq_why_row(task->config->strategy, options, task->devices->count);
    for (size_t v = 0; v < task->model->variable_count; v++)
        if (task->model->variables[v].role == CLQ_ROLE_STATE && !task->model->variables[v].synchronized)
            out->own_statistics = true;
}

/* Checks that communicators fit beside the memory of made-up work. smallest: made-up work cannot do with less memory,
 * so a group without room for its communicator gets no rows with collectives. */
static clq_status find_room(clq_probing *p, bool smallest) {
    for (unsigned i = 0; i < p->out->group_count; i++) {
        clq_group_probe *g = &p->out->groups[i];
        const clq_status status = clq_group_has_collectives(g) ? clq_rig_has_room(&p->rig, g->count) : CLQ_OK;
        if (status != CLQ_ERROR_DEVICE_MEMORY || !smallest) {
            CLQ_TRY(status);
            continue;
        }
        CLQ_TRY(clq_probing_lacks(p, status));
        g->too_large = true;
        g->slices.exchanges = 0;
    }
    return CLQ_OK;
}

/* Made-up work touches as much memory as a step, or as much as there is room for. If the gradients of several devices
 * do not fit even beside the least, each device is probed alone. */
static clq_status open_rig(clq_probing *p) {
    enum { MEMORY_LEAST = 1 << 16, MEMORY_USUAL = 1 << 20, MEMORY_MOST = 64 << 20 };
    size_t bytes = CLQ_MIN(CLQ_MAX(p->work.memory_bytes, (size_t)MEMORY_USUAL), (size_t)MEMORY_MOST);
    for (;;) {
        const bool smallest = bytes / 2 < MEMORY_LEAST;
        clq_status status = clq_rig_open(p->task->devices, bytes, clq_exchanged_bytes(p), &p->rig);
        if (status == CLQ_OK) status = find_room(p, smallest);
        if (status != CLQ_ERROR_DEVICE_MEMORY || (smallest && p->out->group_count == 0)) return status;
        clq_rig_close(&p->rig);
        if (!smallest) {
            bytes /= 2;
        } else {
            CLQ_TRY(clq_probing_lacks(p, status));
            p->out->group_count = 0;
        }
    }
}

static clq_status probe_all(clq_probing *p) {
    clq_probes *out = p->out;
    CLQ_TRY(find_alike(p));
    for (unsigned g = 0; g < out->group_count; g++) CLQ_TRY(clq_ask_group(p, g));
    for (unsigned r = 0; r < out->device_count; r++)
        CLQ_TRY(p->alike[r] == r ? probe_device(p, r) : probe_like(p, r, p->alike[r]));
    CLQ_TRY(open_rig(p));
    p->rig.sleeps = clq_path_is_disabled(p->task->config->disabled_paths, "busy wait");
    note_cores(p);
    for (unsigned r = 0; r < out->device_count; r++) CLQ_TRY(probe_alone(p, r));
    for (unsigned g = 0; g < out->group_count; g++) CLQ_TRY(clq_probe_group(p, g));
    return CLQ_OK;
}

clq_status clq_why_probe(const clq_why_task *task, clq_probes *out) {
    clq_probes *probes = clq_alloc(1, sizeof *probes);
    clq_probing *p = clq_alloc(1, sizeof *p);
    clq_status status = probes && p ? CLQ_OK : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) {
        probes->samples = clq_dataset_get_info(task->data)->samples;
        probes->batch = CLQ_MIN(task->config->global_batch, probes->samples);
        probes->device_count = task->devices->count;
        take_settings(task, probes);
        choose_groups(probes, task->all_only);
        p->task = task;
        p->out = probes;
        status = probe_all(p);
        clq_rig_close(&p->rig);
    }
    if (status == CLQ_OK) *out = *probes;
    clq_free(p);
    clq_free(probes);
    return status;
}

/* Times updates as training makes them: an update may be of several batches. */
static clq_status time_updates(const clq_why_task *task, size_t batch, clq_trainer *trainer, double *images_per_s,
                               clq_doubt *doubt) {
    const clq_probing p = {.task = task};
    const size_t whole = CLQ_MAX(clq_dataset_get_info(task->data)->samples / batch, (size_t)1);
    const double batches =
        (double)CLQ_MIN(CLQ_MAX(task->config->strategy_options.accumulate, (uint64_t)1), (uint64_t)whole);
    step_look look;
    *doubt = (clq_doubt){.others = (double)NAN};
    CLQ_TRY(clq_probing_set_batch(&p, trainer, batch));
    CLQ_TRY(probe_step(trainer, task->data, task->patience, &look, doubt));
    *images_per_s = batches * (double)batch / look.step_s;
    return CLQ_OK;
}

clq_status clq_why_time(const clq_why_task *task, double *images_per_s, clq_doubt *doubt) {
    const size_t batch = CLQ_MIN(task->config->global_batch, clq_dataset_get_info(task->data)->samples);
    clq_devices devices = *task->devices;
    clq_trainer_config config = *task->config;
    clq_trainer *trainer;
    devices.count = 1;
    config.global_batch = batch;
    config.trace_steps = 0;
    config.check_replicas = 0; /* one device refuses this setting */
    config.strategy = CLQ_STRATEGY_SINGLE;
    config.strategy_options = (clq_strategy_options){.accumulate = task->config->strategy_options.accumulate};
    CLQ_TRY(clq_trainer_create(task->model, &devices, &config, &trainer));
    clq_status status = time_updates(task, batch, trainer, images_per_s, doubt);
    clq_trainer_destroy(trainer);
    return status;
}
