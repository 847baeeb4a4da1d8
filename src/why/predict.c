/* Computes steps from probes: the rows, and what limits them. */
#include "why/predict.h"

#include <string.h>

/* ---- rows ---- */

static const struct {
    const char *name;
    clq_predict_fn predict;
    bool asynchronous;
} rows[] = {{"single", clq_predict_single, false},
            {"mirrored", clq_predict_mirrored, false},
            {"mirrored --shard-optimizer", clq_predict_sharded, false},
            {"central", clq_predict_central, false},
            {"ps --staleness 0", clq_predict_central, false},
            {"ps", clq_predict_asynchronous, true},
            {"pipeline", clq_predict_pipeline, false},
            {"tensor", clq_predict_tensor, false}};

static size_t row_of(const clq_way *way) {
    size_t row = 0;
    while (row < CLQ_COUNT_OF(rows) && strcmp(rows[row].name, way->strategy) != 0) row++;
    return row;
}

bool clq_way_is_asynchronous(const clq_way *way) {
    const size_t row = row_of(way);
    return row < CLQ_COUNT_OF(rows) && rows[row].asynchronous;
}

/* No row predicts compression, local steps, backup replicas, or shares that are not equal. */
const char *clq_why_row(clq_strategy_kind kind, const clq_strategy_options *o, unsigned replicas) {
    if (o->compression.kind != CLQ_COMPRESSION_OFF || o->local_steps > 0 || o->shares != CLQ_SHARES_EQUAL) return NULL;
    if (kind == CLQ_STRATEGY_AUTO) kind = replicas == 1 ? CLQ_STRATEGY_SINGLE : CLQ_STRATEGY_MIRRORED;
    switch (kind) {
    case CLQ_STRATEGY_MIRRORED:
        return replicas == 1 ? "single" : o->shard_optimizer ? "mirrored --shard-optimizer" : "mirrored";
    case CLQ_STRATEGY_PS: return o->backup > 0 ? NULL : o->staleness > 0 ? "ps" : "ps --staleness 0";
    case CLQ_STRATEGY_PIPELINE: return o->stages == 0 || o->stages == replicas ? "pipeline" : NULL;
    case CLQ_STRATEGY_SINGLE: return "single";
    case CLQ_STRATEGY_CENTRAL: return "central";
    case CLQ_STRATEGY_TENSOR: return "tensor";
    default: return NULL;
    }
}

/* ---- limits ---- */

const char *clq_limit_name(clq_limit limit) {
    static const char *const names[CLQ_LIMIT_COUNT] = {
        [CLQ_LIMIT_COMPUTE] = "compute",
        [CLQ_LIMIT_INPUT] = "input",
        [CLQ_LIMIT_HOST] = "host",
        [CLQ_LIMIT_LAUNCHES] = "launches",
        [CLQ_LIMIT_SMALL_BATCH] = "too small a batch",
        [CLQ_LIMIT_SHARED_MEMORY] = "shared memory",
        [CLQ_LIMIT_SHARED_CORES] = "shared cores",
        [CLQ_LIMIT_SLOW_DEVICE] = "slow device",
        [CLQ_LIMIT_SLOW_MACHINE] = "slow machine",
        [CLQ_LIMIT_COMMUNICATION] = "communication",
        [CLQ_LIMIT_BUBBLE] = "pipeline bubble",
    };
    return names[limit];
}

/* COMPUTE, if compute is at least two thirds of the step: then nothing else is worth much. Otherwise the largest other
 * part. */
clq_limit clq_limit_of(const clq_step_parts *p, clq_limit sharing, clq_limit waiting) {
    const struct {
        clq_limit limit;
        double seconds;
    } others[] = {
        {CLQ_LIMIT_INPUT, p->input},
        {CLQ_LIMIT_HOST, p->host},
        {CLQ_LIMIT_LAUNCHES, p->launches},
        {CLQ_LIMIT_SMALL_BATCH, p->fixed},
        {sharing, p->sharing},
        {waiting, p->waiting},
        {CLQ_LIMIT_COMMUNICATION, p->communication},
    };
    size_t most = 0;
    if (3 * p->compute >= 2 * clq_parts_sum(p)) return CLQ_LIMIT_COMPUTE;
    for (size_t i = 1; i < CLQ_COUNT_OF(others); i++)
        if (others[i].seconds > others[most].seconds) most = i;
    return others[most].limit;
}

static clq_limit limit_of(const clq_outline *o) {
    return clq_limit_of(&o->parts, o->slow.memory > o->slow.cores ? CLQ_LIMIT_SHARED_MEMORY : CLQ_LIMIT_SHARED_CORES,
                        o->bubble ? CLQ_LIMIT_BUBBLE : CLQ_LIMIT_SLOW_DEVICE);
}

/* ---- doubt ---- */

static clq_doubt doubt_of(const clq_probes *p, const clq_way *way) {
    const clq_group_probe *g = way->replicas > 1 ? clq_group_of(p, way->replicas) : NULL;
    clq_doubt doubt = p->devices[way->first].doubt;
    for (unsigned r = 1; r < way->replicas; r++) doubt = clq_doubt_worse(&doubt, &p->devices[way->first + r].doubt);
    return g ? clq_doubt_worse(&doubt, &g->doubt) : doubt;
}

/* ---- the face ---- */

bool clq_predict_by_shares(const clq_probes *p, const clq_way *way, const double *shares, clq_prediction *out) {
    clq_outline o = {.posts = (double)way->replicas * (double)way->accumulate, .shares = shares};
    const double samples = (double)way->accumulate * (double)way->batch;
    const size_t row = row_of(way);
    if (row == CLQ_COUNT_OF(rows) || way->replicas < 1 || way->first + way->replicas > p->device_count) return false;
    if (way->batch < way->replicas || !rows[row].predict(p, way, &o)) return false;
    /* Both run beside the devices' work, so only the time by which they are longer shows. */
    o.parts.input += CLQ_MAX(samples / p->rows_per_s - clq_parts_sum(&o.parts), 0.0);
    o.parts.host += CLQ_MAX(p->post_s * o.posts - clq_parts_sum(&o.parts), 0.0);
    const double step_s = clq_parts_sum(&o.parts);
    *out = (clq_prediction){.way = *way,
                            .step_s = step_s,
                            .images_per_s = samples / step_s,
                            .parts = o.parts,
                            .limit = limit_of(&o),
                            .doubt = doubt_of(p, way)};
    return true;
}

bool clq_why_predict_one(const clq_probes *p, const clq_way *way, clq_prediction *out) {
    return clq_predict_by_shares(p, way, NULL, out);
}

size_t clq_why_predict(const clq_probes *p, clq_prediction *out, size_t capacity) {
    size_t count = 0;
    for (unsigned n = 1; n <= p->device_count; n++)
        for (size_t i = 0; i < CLQ_COUNT_OF(rows) && count < capacity; i++)
            count += clq_why_predict_one(
                p, &(clq_way){.strategy = rows[i].name, .replicas = n, .batch = p->batch, .accumulate = p->accumulate},
                &out[count]);
    return count;
}

const clq_prediction *clq_why_best(const clq_prediction *predictions, size_t count) {
    const clq_prediction *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (!clq_way_is_asynchronous(&predictions[i].way) &&
            (!best || predictions[i].images_per_s > best->images_per_s))
            best = &predictions[i];
    return best;
}
