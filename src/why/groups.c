/* Probes: what several devices cost one another, by their plans and by made-up work. No step is made. */
#include "why/probe.h"

#include <math.h>
#include <string.h>

/* ---- plans ---- */

static clq_status ask_mirrored(clq_probing *p, clq_group_probe *g) {
    /* single fails here as it fails in training: it refuses several devices */
    const bool single = p->task->config->strategy == CLQ_STRATEGY_SINGLE;
    clq_trainer *trainer;
    const clq_status status =
        clq_probing_open(p, 0, g->count, p->out->batch, single ? CLQ_STRATEGY_SINGLE : CLQ_STRATEGY_MIRRORED, &trainer);
    g->too_large = status == CLQ_ERROR_DEVICE_MEMORY;
    if (status != CLQ_OK) return clq_probing_lacks(p, status);
    g->shards_update = clq_probing_path(trainer, "sharded update");
    g->overlaps = clq_probing_path(trainer, "overlap");
    g->exchanges = clq_probed_work_of(trainer).sum_count;
    clq_trainer_destroy(trainer);
    return CLQ_OK;
}

/* *out NULL: the strategy does not take the model, or this many devices, or does not fit their memory. */
static clq_status open_if_fit(clq_probing *p, const clq_group_probe *g, clq_strategy_kind strategy, clq_trainer **out) {
    *out = NULL;
    const clq_status status = clq_probing_open(p, 0, g->count, p->out->batch, strategy, out);
    return status == CLQ_ERROR_ARGUMENT || status == CLQ_ERROR_UNSUPPORTED ? CLQ_OK : clq_probing_lacks(p, status);
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
    double most = p->out->group_count ? (double)p->out->gradient_bytes : 0.0;
    for (unsigned group = 0; group < p->out->group_count; group++) {
        const clq_pipe_probe *pipe = &p->out->groups[group].pipe;
        const clq_probed_work *sliced = &p->sliced[group];
        for (unsigned s = 0; s < pipe->stages; s++) most = CLQ_MAX(most, pipe->sent_bytes[s]);
        for (unsigned i = 0; i < CLQ_MIN(sliced->sum_count, (unsigned)CLQ_RIG_MEETINGS_MAX); i++)
            most = CLQ_MAX(most, (double)sliced->sums[i]);
    }
    return (size_t)most;
}

bool clq_group_has_collectives(const clq_group_probe *group) {
    return !group->too_large || group->slices.exchanges > 0;
}

/* ---- made-up work ---- */

/* What part of its memory rate each device keeps when all devices work at once, by look. */
typedef struct sharing {
    clq_looks looks;
    double kept[CLQ_REPLICAS_MAX][CLQ_LOOKS_MAX];
} sharing;

/* Measures the devices alone, then all at once: only ratios of rates measured close together mean anything. */
static clq_status look_at_sharing(clq_probing *p, const clq_group_probe *g, sharing *s) {
    double alone[CLQ_REPLICAS_MAX], now[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < g->count; r++)
        if (p->alike[r] == r) CLQ_TRY(clq_rig_rate_alone(&p->rig, CLQ_LOAD_MEMORY, r, &alone[r]));
    CLQ_TRY(clq_rig_rates(&p->rig, CLQ_LOAD_MEMORY, g->count, now));
    for (unsigned r = 0; r < g->count; r++) s->kept[r][s->looks.count] = now[r] / alone[p->alike[r]];
    return CLQ_OK;
}

/* Devices that are alike share one ratio, their mean: other load on the machine slows now one of them, now another. */
static void take_sharing(const clq_probing *p, clq_group_probe *g, sharing *s) {
    double sums[CLQ_REPLICAS_MAX] = {0}, spread = 0;
    unsigned counts[CLQ_REPLICAS_MAX] = {0};
    for (unsigned r = 0; r < g->count; r++) {
        const unsigned picked = clq_looks_pick(&s->looks, s->kept[r]);
        sums[p->alike[r]] += CLQ_MIN(clq_middle_mean(s->kept[r], picked), 1.0);
        counts[p->alike[r]]++;
        spread = CLQ_MAX(spread, clq_middle_spread(s->kept[r], picked) * p->out->devices[r].memory_share);
    }
    for (unsigned r = 0; r < g->count; r++)
        g->gbps[r] = sums[p->alike[r]] / counts[p->alike[r]] * p->out->devices[r].gbps;
    clq_doubt_add(&g->doubt, &s->looks, spread);
}

static clq_status probe_sharing(clq_probing *p, clq_group_probe *g) {
    enum { QUIET_LEAST = 5 };
    clq_patience *patience = p->task->patience;
    sharing *s = clq_alloc(1, sizeof *s);
    if (!s) return CLQ_ERROR_MEMORY;
    s->looks = (clq_looks){.first = CLQ_PROBING_LOOKS, .least = QUIET_LEAST};
    clq_status status = CLQ_OK;
    while (status == CLQ_OK && clq_looks_wanted(&s->looks, patience)) {
        clq_looks_begin(&s->looks);
        status = look_at_sharing(p, g, s);
        clq_looks_end(&s->looks, patience);
    }
    if (status == CLQ_OK) take_sharing(p, g, s);
    clq_free(s);
    return status;
}

/* ---- exchanges ---- */

static unsigned buckets_of(const clq_probing *p) {
    const size_t given = p->task->config->bucket_bytes, bytes = given ? given : CLQ_BUCKET_BYTES_DEFAULT;
    return (unsigned)CLQ_MAX(clq_ceil_div(p->out->gradient_bytes, bytes), (size_t)1);
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

/* An exchange to measure, and where its results go. */
typedef struct wanted_exchange {
    clq_rig_meeting meeting;
    const size_t *bytes;
    unsigned count;
    size_t batch; /* samples of the step that each device makes before it */
    double work;  /* the part of such a step, on one device, that is made */
    bool stores;
    double *seconds;
    double *waiting_s; /* NULL: *seconds includes it */
} wanted_exchange;

/* Measures the exchanges and, by the work of the first one, what devices keep of their arithmetic rates. */
static clq_status probe_exchanges(clq_probing *p, clq_group_probe *g, const wanted_exchange *wanted,
                                  size_t wanted_count) {
    clq_rig_together together = {.alike = p->alike, .doubt = g->doubt};
    clq_rig_exchange exchanges[CLQ_RIG_EXCHANGES_MAX];
    double work_s[CLQ_RIG_EXCHANGES_MAX][CLQ_REPLICAS_MAX], gflops[CLQ_REPLICAS_MAX];
    const clq_device_probe *devices = p->out->devices;
    for (unsigned r = 0; r < g->count; r++) gflops[r] = devices[r].gflops;
    for (size_t i = 0; i < wanted_count; i++) {
        const wanted_exchange *w = &wanted[i];
        for (unsigned r = 0; r < g->count; r++) work_s[i][r] = w->work * clq_probed_step(&devices[r], w->batch);
        exchanges[i] = (clq_rig_exchange){.meeting = w->meeting,
                                          .bytes = w->bytes,
                                          .count = w->count,
                                          .work_s = work_s[i],
                                          .gflops = gflops,
                                          .optimizer = w->stores ? &p->task->config->optimizer : NULL};
    }
    CLQ_TRY(clq_rig_exchanges(&p->rig, g->count, exchanges, wanted_count, p->task->patience, &together));
    for (size_t i = 0; i < wanted_count; i++) {
        *wanted[i].seconds = exchanges[i].seconds + (wanted[i].waiting_s ? 0.0 : exchanges[i].waiting_s);
        if (wanted[i].waiting_s) *wanted[i].waiting_s = exchanges[i].waiting_s;
    }
    for (unsigned r = 0; r < g->count; r++) g->gflops[r] = gflops[r] / together.slowing[r];
    g->doubt = together.doubt;
    return CLQ_OK;
}

static void weigh_slices(const clq_probing *p, const clq_probed_work *sliced, clq_slice_probe *out) {
    const clq_device_probe *d = &p->out->devices[0];
    out->work = CLQ_MIN((sliced->flops / d->gflops + sliced->traffic / d->gbps) /
                            (p->work.flops / d->gflops + p->work.traffic / d->gbps),
                        1.0);
    out->parameters = (double)sliced->gradient_bytes / (double)p->work.gradient_bytes;
}

static clq_status probe_meetings(clq_probing *p, clq_group_probe *g, const clq_probed_work *sliced) {
    const size_t batch = p->out->batch, share = clq_ceil_div(batch, g->count), *all = &p->out->gradient_bytes;
    const bool meets = clq_group_has_collectives(g);
    const unsigned sums = meets ? CLQ_MIN(sliced->sum_count, (unsigned)CLQ_RIG_MEETINGS_MAX) : 0;
    if (sums) weigh_slices(p, sliced, &g->slices);
    double waiting[2]; /* ignored: the waiting of the first exchange is taken for all steps by shares */
    wanted_exchange wanted[CLQ_RIG_EXCHANGES_MAX];
    size_t count = 0;
    if (meets)
        wanted[count++] = (wanted_exchange){CLQ_RIG_ALL_REDUCE, all, 1, share, 1, false, &g->exchange_s, &g->waiting_s};
    wanted[count++] =
        (wanted_exchange){CLQ_RIG_STORE, all, 1, share, 1, true, &g->store_s, meets ? &waiting[0] : &g->waiting_s};
    wanted[count++] = (wanted_exchange){CLQ_RIG_OWN_STORE, all, 1, batch, 1, true, &g->own_store_s, NULL};
    if (meets && !g->shards_update)
        wanted[count++] =
            (wanted_exchange){CLQ_RIG_SCATTER_GATHER, all, 1, share, 1, false, &g->scatter_s, &waiting[1]};
    if (sums)
        wanted[count++] = (wanted_exchange){CLQ_RIG_ALL_REDUCE,    sliced->sums, sums, batch, g->slices.work, false,
                                            &g->slices.exchange_s, NULL};
    CLQ_TRY(probe_exchanges(p, g, wanted, count));
    /* Only some of the sums were made. Each of the others is taken to last as long. */
    if (sums) g->slices.exchange_s *= (double)sliced->sum_count / sums;
    return CLQ_OK;
}

clq_status clq_probe_group(clq_probing *p, unsigned group) {
    clq_group_probe *g = &p->out->groups[group];
    g->buckets = buckets_of(p);
    g->doubt = (clq_doubt){.others = (double)NAN};
    CLQ_TRY(probe_sharing(p, g));
    CLQ_TRY(probe_meetings(p, g, &p->sliced[group]));
    if (clq_group_has_collectives(g)) CLQ_TRY(probe_links(p, g));
    return probe_pipe(p, g);
}
