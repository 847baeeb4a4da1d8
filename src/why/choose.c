/* Alternatives and the choice among them: arithmetic alone. */
#include "why/choose.h"

#include <stdlib.h>
#include <string.h>

/* ---- kinds of devices ---- */

static bool is_alike(const clq_device_info *a, const clq_device_info *b) {
    return a->type == b->type && a->compute_units == b->compute_units && strcmp(a->driver, b->driver) == 0 &&
           strcmp(a->name, b->name) == 0 && strcmp(a->driver_version, b->driver_version) == 0;
}

static bool is_gpu(const clq_device_info *info) { return info->type == CLQ_DEVICE_GPU; }

static bool is_of_rule(const clq_machine *m, uint32_t index) {
    for (uint32_t i = 0; i < m->rule->count; i++)
        if (m->rule->items[i].index == index) return true;
    return false;
}

/* The index of the lone device of the same kind; lone_count: there is none. */
static size_t kind_of(const clq_machine *m, const clq_lone *lone, size_t lone_count, uint32_t index) {
    size_t kind = 0;
    while (kind < lone_count && !is_alike(m->devices[lone[kind].device.index], m->devices[index])) kind++;
    return kind;
}

size_t clq_why_lone(const clq_machine *m, clq_lone *out, size_t capacity) {
    size_t count = 0;
    for (unsigned pass = 0; pass < 2; pass++) /* the rule's, then the others */
        for (uint32_t i = 0; i < m->count && count < capacity; i++) {
            if (is_of_rule(m, i) != (pass == 0) || !m->devices[i]->usable) continue;
            if (pass == 1 && is_gpu(m->devices[i])) continue; /* the rule left it out: a second driver's, or too slow */
            if (kind_of(m, out, count, i) < count) continue;
            out[count++] = (clq_lone){.device = {i, 0, 1}};
        }
    return count;
}

bool clq_why_has_kind(const clq_machine *m, const clq_lone *kind, const char *spec) {
    for (const char *at = spec; at; at = strchr(at, ',')) {
        at += *at == ',';
        const unsigned long index = strtoul(at, NULL, 10);
        if (index < m->count && is_alike(m->devices[kind->device.index], m->devices[index])) return true;
    }
    return false;
}

/* ---- devices together ---- */

typedef struct listing {
    const clq_machine *machine;
    const clq_lone *lone;
    size_t lone_count;
    clq_together *out;
    size_t count, capacity;
} listing;

static void take(clq_together *to, clq_device_choice device, size_t kind) {
    to->items[to->count] = device;
    to->lone[to->count++] = (uint32_t)kind;
}

static void add(listing *l, const clq_together *alternative) {
    if (alternative->count > 1 && alternative->count <= l->machine->batch && l->count < l->capacity)
        l->out[l->count++] = *alternative;
}

static bool may_join(const clq_lone *lone) { return lone->images_per_s > 0 || lone->too_large; }

/* Below 0: it cannot join others. */
static double rate_of(const listing *l, uint32_t index) {
    const size_t kind = kind_of(l->machine, l->lone, l->lone_count, index);
    return kind < l->lone_count && may_join(&l->lone[kind]) ? l->lone[kind].images_per_s : -1.0;
}

/* The rule's GPUs that may join others, the fastest first. Equal ones are in the table's order. */
static clq_together gpus_of(const listing *l) {
    clq_together gpus = {.count = 0};
    double last = 1e300;
    uint32_t least = 0; /* GPUs of the rate `last` are taken from this index on */
    while (gpus.count < CLQ_REPLICAS_MAX) {
        uint32_t next = 0;
        double best = -1;
        for (uint32_t i = 0; i < l->machine->count; i++) {
            const double rate = rate_of(l, i);
            if (!is_gpu(l->machine->devices[i]) || !is_of_rule(l->machine, i) || rate <= best) continue;
            if (rate > last || (rate == last && i < least)) continue;
            best = rate;
            next = i;
        }
        if (best < 0) break;
        take(&gpus, (clq_device_choice){next, 0, 1}, kind_of(l->machine, l->lone, l->lone_count, next));
        last = best;
        least = next + 1;
    }
    return gpus;
}

static void add_gpus(listing *l) {
    const clq_together gpus = gpus_of(l);
    add(l, &gpus);
}

/* All of these GPUs and the fastest CPU device. */
static void add_gpus_and_cpu(listing *l) {
    clq_together all = gpus_of(l);
    size_t fastest = l->lone_count;
    for (size_t i = 0; i < l->lone_count; i++) {
        const clq_device_info *info = l->machine->devices[l->lone[i].device.index];
        if (info->type == CLQ_DEVICE_CPU && may_join(&l->lone[i]) &&
            (fastest == l->lone_count || l->lone[i].images_per_s > l->lone[fastest].images_per_s))
            fastest = i;
    }
    if (fastest == l->lone_count || all.count == 0 || all.count == CLQ_REPLICAS_MAX) return;
    take(&all, l->lone[fastest].device, fastest);
    all.all_only = true; /* the GPUs without it are the alternative of add_gpus */
    add(l, &all);
}

/* Several CPU devices of a kind, each with cores of its own. */
static void add_cpus(listing *l) {
    for (size_t k = 0; k < l->lone_count; k++) {
        const clq_device_info *kind = l->machine->devices[l->lone[k].device.index];
        const size_t most =
            CLQ_MIN(CLQ_MIN(l->machine->cores / CLQ_MAX(kind->compute_units, 1u), CLQ_REPLICAS_MAX), l->machine->batch);
        clq_together all = {.all_only = true};
        if (kind->type != CLQ_DEVICE_CPU || !may_join(&l->lone[k])) continue;
        for (uint32_t i = 0; i < l->machine->count && all.count < most; i++)
            if (l->machine->devices[i]->usable && is_alike(kind, l->machine->devices[i]))
                take(&all, (clq_device_choice){i, 0, 1}, k);
        add(l, &all);
    }
}

/* A CPU device in 2, 4, 8, … parts, and in parts of one core. */
static void add_parts(listing *l) {
    for (size_t k = 0; k < l->lone_count; k++) {
        const clq_device_choice whole = l->lone[k].device;
        const clq_device_info *info = l->machine->devices[whole.index];
        const uint32_t most = CLQ_MIN(info->compute_units, (uint32_t)CLQ_REPLICAS_MAX);
        if (info->type != CLQ_DEVICE_CPU || !may_join(&l->lone[k])) continue;
        for (uint32_t parts = 2; parts <= most; parts = parts < most ? CLQ_MIN(2 * parts, most) : most + 1) {
            clq_together all = {.all_only = true};
            for (uint32_t part = 0; part < parts; part++) take(&all, (clq_device_choice){whole.index, part, parts}, k);
            add(l, &all);
        }
    }
}

/* Each adds its alternatives. */
static void (*const kinds[])(listing *l) = {add_gpus, add_cpus, add_parts, add_gpus_and_cpu};

size_t clq_why_together(const clq_machine *machine, const clq_lone *lone, size_t lone_count, clq_together *out,
                        size_t capacity) {
    listing l = {.machine = machine, .lone = lone, .lone_count = lone_count, .out = out, .capacity = capacity};
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++) kinds[i](&l);
    return l.count;
}

static bool is_or_begins_with(const clq_together *t, const char *spec) {
    clq_devices devices = {.count = t->count};
    char text[CLQ_SPEC_TEXT];
    memcpy(devices.items, t->items, sizeof devices.items);
    for (uint32_t count = t->count; count > 1; count = t->all_only ? 1 : count - 1)
        if (clq_why_spec(&devices, 0, count, text, sizeof text) && strcmp(text, spec) == 0) return true;
    return false;
}

bool clq_why_put_first(clq_together *alternatives, size_t count, const char *devices) {
    size_t i = 0;
    while (i < count && !is_or_begins_with(&alternatives[i], devices)) i++;
    if (i == count) return false;
    const clq_together found = alternatives[i];
    memmove(&alternatives[1], &alternatives[0], i * sizeof found);
    alternatives[0] = found;
    return true;
}

double clq_why_bound(const double *rates, unsigned count, bool all_only) {
    static const double slack = 1.1; /* a smaller share may run faster than in proportion: it fits a cache */
    double least = rates[0], bound = 0;
    for (unsigned n = 1; n <= count; n++) {
        least = CLQ_MIN(least, rates[n - 1]);
        if (n > 1 && (n == count || !all_only)) bound = CLQ_MAX(bound, slack * n * least);
    }
    return bound;
}

/* ---- the choice ---- */

/* A simpler alternative is taken if it reaches this part of the best rate: predictions are no closer to the truth. */
static const double near = 0.95;

const char *clq_alternative_state_name(clq_alternative_state state) {
    static const char *const names[CLQ_ALTERNATIVE_STATES] = {[CLQ_ALTERNATIVE_MEASURED] = "measured",
                                                              [CLQ_ALTERNATIVE_PREDICTED] = "predicted",
                                                              [CLQ_ALTERNATIVE_SLOWER] = "slower",
                                                              [CLQ_ALTERNATIVE_NO_TIME] = "no time",
                                                              [CLQ_ALTERNATIVE_FAILED] = "failed"};
    return names[state];
}

bool clq_why_may_choose(const clq_choosing *choosing, const char *strategy) {
    /* Without ps, whose updates come by gradients of older weights, and without pipeline, which takes the statistics of
     * micro-batches. */
    static const struct {
        const char *name;
        bool takes_settings;
    } equals[] = {{"single", true}, {"mirrored", true}, {"central", false}, {"tensor", false}};
    if (strcmp(choosing->strategy, "auto") != 0) return strcmp(choosing->strategy, strategy) == 0;
    for (size_t i = 0; i < CLQ_COUNT_OF(equals); i++)
        if (strcmp(equals[i].name, strategy) == 0) return equals[i].takes_settings || choosing->plain;
    return false;
}

const char *clq_why_strategy_alone(const clq_choosing *choosing) {
    if (strcmp(choosing->strategy, "mirrored") == 0) return choosing->strategy;
    return clq_why_may_choose(choosing, "single") ? "single" : NULL;
}

const clq_prediction *clq_why_pick(const clq_choosing *choosing, const clq_prediction *predictions, size_t count,
                                   unsigned least) {
    const clq_prediction *best = NULL, *plain = NULL;
    for (size_t i = 0; i < count; i++) {
        const clq_prediction *p = &predictions[i];
        if (p->way.replicas < least || !clq_why_may_choose(choosing, p->way.strategy)) continue;
        if (!best || p->images_per_s > best->images_per_s) best = p;
        if (strcmp(p->way.strategy, "mirrored") == 0 && (!plain || p->images_per_s > plain->images_per_s)) plain = p;
    }
    return plain && plain->images_per_s >= near * best->images_per_s ? plain : best;
}

const clq_alternative *clq_why_fastest(const clq_alternative *alternatives, size_t count) {
    const clq_alternative *best = NULL, *fewest = NULL;
    for (size_t i = 0; i < count; i++)
        if (alternatives[i].images_per_s > 0 && (!best || alternatives[i].images_per_s > best->images_per_s))
            best = &alternatives[i];
    fewest = best;
    for (size_t i = 0; i < count && best; i++)
        if (alternatives[i].images_per_s >= near * best->images_per_s && alternatives[i].replicas < fewest->replicas)
            fewest = &alternatives[i];
    return fewest;
}
