/* Probes: what several devices cost one another, by their plans and by made-up work. No step is made. */
#include "why/probe.h"

#include <string.h>

/* ---- plans ---- */

static clq_status ask_mirrored(clq_probing *p, clq_group_probe *g) {
    /* single refuses several */
    const bool single = p->task->config->strategy == CLQ_STRATEGY_SINGLE;
    clq_trainer *trainer;
    CLQ_TRY(clq_probing_open(p, 0, g->count, p->out->batch, single ? CLQ_STRATEGY_SINGLE : CLQ_STRATEGY_MIRRORED,
                             &trainer));
    g->shards_update = clq_probing_path(trainer, "sharded update");
    g->overlaps = clq_probing_path(trainer, "overlap");
    g->exchanges = clq_probed_work_of(trainer).sum_count;
    clq_trainer_destroy(trainer);
    return CLQ_OK;
}

/* *out NULL: the strategy does not take the model, or so many devices. */
static clq_status open_if_fit(const clq_probing *p, const clq_group_probe *g, clq_strategy_kind strategy,
                              clq_trainer **out) {
    *out = NULL;
    const clq_status status = clq_probing_open(p, 0, g->count, p->out->batch, strategy, out);
    return status == CLQ_ARGUMENT || status == CLQ_UNSUPPORTED ? CLQ_OK : status;
}

static void note_stages(const clq_strategy *strategy, clq_pipe_probe *out) {
    clq_pipeline_info info;
    clq_stage_info stages[CLQ_REPLICAS_MAX];
    double work = 0, parameters = 0;
    if (!clq_strategy_pipelines(strategy, &info)) return;
    out->stages = info.stages;
    out->micro_batches = info.micro_batches;
    for (unsigned s = 0; s < out->stages; s++) {
        (void)clq_strategy_stage(strategy, s, &stages[s]);
        work += stages[s].forward + stages[s].backward;
        parameters += (double)stages[s].parameters;
    }
    for (unsigned s = 0; s < out->stages; s++) {
        out->forward[s] = stages[s].forward / work;
        out->backward[s] = stages[s].backward / work;
        out->parameters[s] = (double)stages[s].parameters / CLQ_MAX(parameters, 1.0);
        out->sent_bytes[s] = (double)stages[s].sent_bytes;
        out->back_bytes[s] = (double)stages[s].back_bytes;
    }
}

static clq_status ask_pipeline(clq_probing *p, clq_group_probe *g) {
    clq_trainer *trainer;
    CLQ_TRY(open_if_fit(p, g, CLQ_STRATEGY_PIPELINE, &trainer));
    if (trainer) note_stages(clq_trainer_strategy(trainer), &g->pipe);
    clq_trainer_destroy(trainer);
    return CLQ_OK;
}

static clq_status ask_tensor(clq_probing *p, clq_group_probe *g, clq_probed_work *sliced) {
    clq_trainer *trainer;
    CLQ_TRY(open_if_fit(p, g, CLQ_STRATEGY_TENSOR, &trainer));
    if (!trainer) return CLQ_OK;
    *sliced = clq_probed_work_of(trainer);
    g->slices.exchanges = sliced->sum_count;
    g->slices.launches = clq_strategy_calls(clq_trainer_strategy(trainer), 0);
    for (unsigned i = 0; i < CLQ_MIN(sliced->sum_count, (unsigned)CLQ_RIG_MEETINGS_MAX); i++)
        g->slices.bytes += sliced->sums[i];
    clq_trainer_destroy(trainer);
    return CLQ_OK;
}

clq_status clq_ask_group(clq_probing *p, unsigned group) {
    clq_group_probe *g = &p->out->groups[group];
    CLQ_TRY(ask_mirrored(p, g));
    CLQ_TRY(ask_pipeline(p, g));
    return ask_tensor(p, g, &p->sliced[group]);
}

size_t clq_exchanged_bytes(const clq_probing *p) {
    double most = (double)p->out->gradient_bytes;
    for (unsigned group = 0; group < p->out->group_count; group++) {
        const clq_pipe_probe *pipe = &p->out->groups[group].pipe;
        const clq_probed_work *sliced = &p->sliced[group];
        for (unsigned s = 0; s < pipe->stages; s++) most = CLQ_MAX(most, pipe->sent_bytes[s]);
        for (unsigned i = 0; i < CLQ_MIN(sliced->sum_count, (unsigned)CLQ_RIG_MEETINGS_MAX); i++)
            most = CLQ_MAX(most, (double)sliced->sums[i]);
    }
    return (size_t)most;
}

/* ---- made-up work ---- */

/* Of the devices alone, and all at once, in turn: only ratios of what was measured close together mean anything. Those
 * of devices that are alike are one: what else the machine does meets now this one, now that one. */
static clq_status probe_sharing(clq_probing *p, clq_group_probe *g, clq_load_kind kind, double *rates) {
    double ratios[CLQ_REPLICAS_MAX][CLQ_PROBING_LOOKS], now[CLQ_REPLICAS_MAX], sums[CLQ_REPLICAS_MAX] = {0};
    unsigned counts[CLQ_REPLICAS_MAX] = {0};
    for (size_t i = 0; i < CLQ_PROBING_LOOKS; i++) {
        double alone[CLQ_REPLICAS_MAX];
        for (unsigned r = 0; r < g->count; r++)
            if (p->alike[r] == r) CLQ_TRY(clq_rig_rate_alone(&p->rig, kind, r, &alone[r]));
        CLQ_TRY(clq_rig_rates(&p->rig, kind, g->count, now));
        for (unsigned r = 0; r < g->count; r++) ratios[r][i] = now[r] / alone[p->alike[r]];
    }
    for (unsigned r = 0; r < g->count; r++) {
        sums[p->alike[r]] += clq_median(ratios[r], CLQ_PROBING_LOOKS);
        counts[p->alike[r]]++;
    }
    for (unsigned r = 0; r < g->count; r++) {
        const clq_device_probe *d = &p->out->devices[r];
        rates[r] = sums[p->alike[r]] / counts[p->alike[r]] * (kind == CLQ_LOAD_ARITHMETIC ? d->gflops : d->gbps);
    }
    return CLQ_OK;
}

/* ---- exchanges ---- */

static unsigned buckets_of(const clq_probing *p) {
    const size_t given = p->task->config->bucket_bytes, bytes = given ? given : CLQ_BUCKET_BYTES_DEFAULT;
    return (unsigned)CLQ_MAX(clq_ceil_div(p->out->gradient_bytes, bytes), (size_t)1);
}

/* Behind steps of so many samples. */
static clq_status probe_exchange(clq_probing *p, const clq_group_probe *g, clq_rig_meeting meeting, size_t batch,
                                 double *seconds) {
    double work_s[CLQ_REPLICAS_MAX], gflops[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < g->count; r++) {
        work_s[r] = clq_probed_step(&p->out->devices[r], batch);
        gflops[r] = p->out->devices[r].gflops;
    }
    const clq_rig_exchange_config config = {.meeting = meeting,
                                            .bytes = &p->out->gradient_bytes,
                                            .count = 1,
                                            .work_s = work_s,
                                            .gflops = gflops,
                                            .optimizer = &p->task->config->optimizer};
    return clq_rig_exchange(&p->rig, g->count, &config, seconds);
}

static clq_status probe_links(clq_probing *p, clq_group_probe *g) {
    const size_t bytes = p->out->gradient_bytes;
    double large_s;
    CLQ_TRY(clq_rig_all_reduce(&p->rig, g->count, sizeof(float), &g->alpha_s));
    CLQ_TRY(clq_rig_all_reduce(&p->rig, g->count, bytes, &large_s));
    g->beta_s = bytes ? CLQ_MAX(large_s - g->alpha_s, 0.0) / (double)bytes : 0.0;
    return CLQ_OK;
}

static clq_status probe_pipe(clq_probing *p, clq_group_probe *g) {
    double most = 64;
    if (!g->pipe.stages) return CLQ_OK;
    for (unsigned s = 0; s < g->pipe.stages; s++) most = CLQ_MAX(most, g->pipe.sent_bytes[s]);
    CLQ_TRY(clq_rig_hop(&p->rig, g->count, &g->pipe.hop_s));
    return clq_rig_copy(&p->rig, 0, (size_t)most, &g->pipe.copy_gbps);
}

/* Sums beyond those that are made are taken for as long. */
static clq_status probe_slices(clq_probing *p, clq_group_probe *g, const clq_probed_work *sliced) {
    const unsigned made = CLQ_MIN(sliced->sum_count, (unsigned)CLQ_RIG_MEETINGS_MAX);
    double work_s[CLQ_REPLICAS_MAX], gflops[CLQ_REPLICAS_MAX];
    if (!made) return CLQ_OK;
    const clq_device_probe *d = &p->out->devices[0];
    g->slices.work = CLQ_MIN((sliced->flops / d->gflops + sliced->traffic / d->gbps) /
                                 (p->work.flops / d->gflops + p->work.traffic / d->gbps),
                             1.0);
    g->slices.parameters = (double)sliced->gradient_bytes / (double)p->work.gradient_bytes;
    for (unsigned r = 0; r < g->count; r++) {
        work_s[r] = g->slices.work * clq_probed_step(&p->out->devices[r], p->out->batch);
        gflops[r] = p->out->devices[r].gflops;
    }
    const clq_rig_exchange_config config = {.bytes = sliced->sums, .count = made, .work_s = work_s, .gflops = gflops};
    CLQ_TRY(clq_rig_exchange(&p->rig, g->count, &config, &g->slices.exchange_s));
    g->slices.exchange_s *= (double)sliced->sum_count / made;
    return CLQ_OK;
}

clq_status clq_probe_group(clq_probing *p, unsigned group) {
    const clq_probes *out = p->out;
    clq_group_probe *g = &p->out->groups[group];
    const size_t share = clq_ceil_div(out->batch, g->count);
    g->buckets = buckets_of(p);
    CLQ_TRY(probe_sharing(p, g, CLQ_LOAD_ARITHMETIC, g->gflops));
    CLQ_TRY(probe_sharing(p, g, CLQ_LOAD_MEMORY, g->gbps));
    CLQ_TRY(probe_exchange(p, g, CLQ_RIG_ALL_REDUCE, share, &g->exchange_s));
    if (!g->shards_update) CLQ_TRY(probe_exchange(p, g, CLQ_RIG_SCATTER_GATHER, share, &g->scatter_s));
    CLQ_TRY(probe_exchange(p, g, CLQ_RIG_STORE, share, &g->store_s));
    CLQ_TRY(probe_exchange(p, g, CLQ_RIG_OWN_STORE, out->batch, &g->own_store_s));
    CLQ_TRY(probe_links(p, g));
    CLQ_TRY(probe_pipe(p, g));
    return probe_slices(p, g, &p->sliced[group]);
}
