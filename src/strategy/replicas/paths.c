/* The table of fast paths. */
#include "strategy/replicas/paths.h"
#include "strategy/module.h"

#include <string.h>

static const struct {
    const char *name, *stage;
    unsigned needs, forbids;
} table[CLQ_PATH_COUNT] = {
    [CLQ_PATH_ONE_LAUNCH] = {"one launch", "execute", CLQ_FACT_CORES | CLQ_FACT_SINGLE_ITEMS,
                             CLQ_FACT_TRACED | CLQ_FACT_EXCHANGES},
    [CLQ_PATH_INPUT_IN_PLACE] = {"input in place", "input", CLQ_FACT_HOST_MEMORY, CLQ_FACT_STAGES},
    [CLQ_PATH_UPLOAD_AHEAD] = {"upload ahead", "input", CLQ_FACT_OWN_MEMORY,
                               CLQ_FACT_IN_CALLER | CLQ_FACT_BACKUP | CLQ_FACT_STAGES},
    [CLQ_PATH_OWN_ROWS] = {"own rows", "input", CLQ_FACT_TRAINS | CLQ_FACT_LABELS_READY, 0},
    [CLQ_PATH_OVERLAP] = {"overlap", "exchange", CLQ_FACT_REPLICAS | CLQ_FACT_TRAINS | CLQ_FACT_OVERLAP_PAYS,
                          CLQ_FACT_NO_BUCKETS | CLQ_FACT_EXCHANGES | CLQ_FACT_ACCUMULATES | CLQ_FACT_STORE |
                              CLQ_FACT_SHARDED_OPTIMIZER | CLQ_FACT_SLICED | CLQ_FACT_COMPRESSED |
                              CLQ_FACT_LOCAL_STEPS | CLQ_FACT_STAGES},
    [CLQ_PATH_SHARDED_UPDATE] = {"sharded update", "exchange",
                                 CLQ_FACT_REPLICAS | CLQ_FACT_TRAINS | CLQ_FACT_DIRECT | CLQ_FACT_PARTS |
                                     CLQ_FACT_ONE_LAUNCH,
                                 CLQ_FACT_OVERLAP | CLQ_FACT_STORE | CLQ_FACT_SLICED | CLQ_FACT_COMPRESSED |
                                     CLQ_FACT_LOCAL_STEPS | CLQ_FACT_STAGES},
    [CLQ_PATH_BUSY_WAIT] = {"busy wait", "exchange", CLQ_FACT_REPLICAS | CLQ_FACT_CORES | CLQ_FACT_IN_CALLER,
                            CLQ_FACT_OVERLAP | CLQ_FACT_STORE | CLQ_FACT_STAGES},
};

/* What to say of a fact that is needed and does not hold (missing), or that holds and forbids a path (in_the_way). The
 * first row that applies is reported, so facts that follow from the strategy come before facts that depend on device
 * and model. */
static const struct {
    unsigned fact;
    const char *missing, *in_the_way;
} reasons[] = {
    {CLQ_FACT_STAGES, NULL, "stages work by micro-batches"},
    {CLQ_FACT_STORE, NULL, "variables lie in the host's memory"},
    {CLQ_FACT_BACKUP, NULL, "backup replicas leave batches out"},
    {CLQ_FACT_REPLICAS, "there is one replica", NULL},
    {CLQ_FACT_SLICED, NULL, "replicas split the weights, not the batch"},
    {CLQ_FACT_TRAINS, "nothing is trained", NULL},
    {CLQ_FACT_CORES, "there are fewer cores than would work at once", NULL},
    {CLQ_FACT_SINGLE_ITEMS, "a launch is no kernel of single work-items", NULL},
    {CLQ_FACT_HOST_MEMORY, "the device's memory is not the host's", NULL},
    {CLQ_FACT_OWN_MEMORY, "the device's memory is the host's", NULL},
    {CLQ_FACT_LABELS_READY, "labels are converted for the loss", NULL},
    {CLQ_FACT_TRACED, NULL, "launches are recorded or checked one by one"},
    {CLQ_FACT_IN_CALLER, "a device has threads of its own", "commands run in the thread that hands them over"},
    {CLQ_FACT_OVERLAP_PAYS, "the gradient is small, or exchanged in the host's memory", NULL},
    {CLQ_FACT_DIRECT, "the gradient is exchanged over links", NULL},
    {CLQ_FACT_PARTS, "the gradient has too few parts, or does not lie in a CPU's memory", NULL},
    {CLQ_FACT_ONE_LAUNCH, "a plan's launches are not one", NULL},
    {CLQ_FACT_NO_BUCKETS, NULL, "bucket_bytes rules it out"},
    {CLQ_FACT_OVERLAP, NULL, "the gradient is exchanged in buckets"},
    {CLQ_FACT_SHARDED_OPTIMIZER, NULL, "each replica gets its part of the gradient alone"},
    {CLQ_FACT_ACCUMULATES, NULL, "gradients of several batches are accumulated first"},
    {CLQ_FACT_EXCHANGES, NULL, "sums are exchanged within the step"},
    {CLQ_FACT_COMPRESSED, NULL, "the gradient is compressed as a whole"},
    {CLQ_FACT_LOCAL_STEPS, NULL, "replicas update by their own gradients"},
};

/* Why the path is off by these facts; NULL: it is on. */
static const char *objection(clq_path path, unsigned facts) {
    for (size_t i = 0; i < CLQ_COUNT_OF(reasons); i++) {
        if (table[path].needs & ~facts & reasons[i].fact) return reasons[i].missing;
        if (table[path].forbids & facts & reasons[i].fact) return reasons[i].in_the_way;
    }
    return NULL;
}

static clq_status disable(clq_paths *paths, const char *name, size_t length) {
    clq_text known = {0};
    clq_nearest nearest = {.word = name, .length = length};
    for (unsigned p = 0; p < CLQ_PATH_COUNT; p++) {
        if (strlen(table[p].name) == length && memcmp(table[p].name, name, length) == 0) {
            paths->disabled[p] = true;
            clq_free(known.data);
            return CLQ_OK;
        }
        clq_text_add(&known, "%s%s", p ? ", " : "", table[p].name);
        clq_nearest_try(&nearest, table[p].name);
    }
    clq_status status = CLQ_ERROR_MEMORY;
    if (!known.failed)
        status = clq_nearest_fail(&nearest, "fast path '%.*s' is unknown: expected %s", (int)length, name, known.data);
    clq_free(known.data);
    return status;
}

clq_status clq_paths_open(clq_paths *paths, const char *disabled) {
    *paths = (clq_paths){0};
    for (const char *at = disabled ? disabled : ""; *at;) {
        size_t length = strcspn(at, ",");
        CLQ_TRY(disable(paths, at, length));
        at += length + (at[length] == ',');
    }
    for (unsigned p = 0; p < CLQ_PATH_COUNT; p++) (void)clq_paths_decide(paths, (clq_path)p, 0);
    return CLQ_OK;
}

bool clq_path_is_disabled(const char *disabled, const char *name) {
    for (const char *at = disabled ? disabled : ""; *at;) {
        const size_t length = strcspn(at, ",");
        if (strlen(name) == length && memcmp(name, at, length) == 0) return true;
        at += length + (at[length] == ',');
    }
    return false;
}

void clq_write_disabled_paths(const char *disabled, clq_text *to) {
    bool first = true;
    for (unsigned p = 0; p < CLQ_PATH_COUNT; p++) {
        if (!clq_path_is_disabled(disabled, table[p].name)) continue;
        clq_text_add(to, "%s%s", first ? "" : ",", table[p].name);
        first = false;
    }
}

bool clq_paths_decide(clq_paths *paths, clq_path path, unsigned facts) {
    paths->reason[path] = paths->disabled[path] ? "switched off" : objection(path, facts);
    paths->on[path] = !paths->reason[path];
    return paths->on[path];
}

bool clq_strategy_path(const clq_strategy *strategy, size_t index, clq_path_info *out) {
    if (index >= CLQ_PATH_COUNT) return false;
    *out = (clq_path_info){.name = table[index].name,
                           .stage = table[index].stage,
                           .on = strategy->paths.on[index],
                           .reason = strategy->paths.reason[index]};
    return true;
}
