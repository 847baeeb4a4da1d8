/* Measures alternatives until it is known which is the fastest. */
#include "why/choose.h"

#include <math.h>
#include <string.h>

enum { LOOKS = 2 /* at each device alone: other load on the machine slows now one device, now another */ };
/* A CPU device that reaches less than this part of the best rate is not tried in parts. */
static const double hopeless = 0.25;

typedef struct choosing {
    const clq_why_task *task;
    const clq_choosing *wanted;
    double until;
    clq_machine machine;
    const clq_device_info **infos;
    clq_lone lone[CLQ_LONE_MAX];
    size_t lone_count;
    clq_together together[CLQ_TOGETHER_MAX];
    clq_probes probes;
    clq_prediction predictions[CLQ_PREDICTIONS_MAX];
    clq_error first; /* the first failure of a device alone */
    clq_choice_made out;
    clq_devices devices[CLQ_ALTERNATIVES_MAX]; /* of the alternatives */
} choosing;

static bool is_late(const choosing *c) { return c->wanted->budget_s > 0 && clq_now() >= c->until; }

/* Turns a failure that concerns one alternative alone into OK: the alternative is left out. Other failures end the
 * choosing. So does a driver that hangs in its compiler, because then no device is used any more. */
static clq_status forgive(const choosing *c, clq_status status, const clq_alternative *alternative) {
    bool noted;
    if (clq_system_is_stuck(c->machine.rule->system, &noted)) return status;
    switch (status) {
    case CLQ_ERROR_DEVICE:
    case CLQ_ERROR_BUILD:
    case CLQ_ERROR_TIMEOUT:
        clq_log(CLQ_LOG_WARNING, "devices %s are left out of the choice: %s", alternative->devices, clq_error_detail());
        return CLQ_OK;
    case CLQ_ERROR_DEVICE_MEMORY:
    case CLQ_ERROR_NO_DEVICE:
    case CLQ_ERROR_UNSUPPORTED: return CLQ_OK;
    default: return status;
    }
}

static clq_alternative *alternative_of(choosing *c, const clq_devices *devices, clq_alternative_state state) {
    clq_alternative *alternative = &c->out.alternatives[c->out.count];
    *alternative = (clq_alternative){.state = state, .replicas = devices->count, .strategy = "mirrored"};
    if (!clq_why_spec(devices, 0, devices->count, alternative->devices, sizeof alternative->devices)) return NULL;
    c->devices[c->out.count++] = *devices;
    return alternative;
}

/* Selects by SPEC, so that devices are tested, and split if they can be. */
static clq_status select_devices(choosing *c, const char *spec, clq_devices *out) {
    return clq_devices_select(c->machine.rule->system, spec, out);
}

static clq_status time_device(choosing *c, const char *spec, double *images_per_s, clq_doubt *doubt) {
    clq_why_task task = *c->task;
    clq_devices devices;
    CLQ_TRY(select_devices(c, spec, &devices));
    task.devices = &devices;
    return clq_why_time(&task, images_per_s, doubt);
}

static double best_rate(const choosing *c) {
    const clq_alternative *best = clq_why_fastest(c->out.alternatives, c->out.count);
    return best ? best->images_per_s : 0.0;
}

/* ---- devices alone ---- */

static clq_status look_at(choosing *c, size_t i) {
    clq_lone *lone = &c->lone[i];
    clq_alternative *alternative = &c->out.alternatives[i];
    double images_per_s = 0;
    clq_doubt doubt;
    clq_status status = time_device(c, alternative->devices, &images_per_s, &doubt);
    if (status != CLQ_OK) {
        alternative->state = CLQ_ALTERNATIVE_FAILED;
        alternative->images_per_s = lone->images_per_s = 0;
        lone->too_large = status == CLQ_ERROR_DEVICE_MEMORY;
        if (c->first.status == CLQ_OK) clq_error_take(status, &c->first);
        return forgive(c, status, alternative);
    }
    if (images_per_s > lone->images_per_s) alternative->doubt.others = doubt.others;
    if (alternative->state == CLQ_ALTERNATIVE_MEASURED) {
        const double both = images_per_s + lone->images_per_s;
        doubt.spread = CLQ_MAX(doubt.spread, 2 * fabs(images_per_s - lone->images_per_s) / both);
    }
    alternative->doubt.spread = CLQ_MAX(alternative->doubt.spread, doubt.spread);
    alternative->state = CLQ_ALTERNATIVE_MEASURED;
    lone->images_per_s = CLQ_MAX(lone->images_per_s, images_per_s);
    if (clq_why_strategy_alone(c->wanted)) alternative->images_per_s = lone->images_per_s;
    return CLQ_OK;
}

static bool was_chosen(const choosing *c, const clq_alternative *alternative) {
    return c->wanted->before && strcmp(c->wanted->before->devices, alternative->devices) == 0;
}

/* Whether the earlier choice has a device of this kind. Such a kind is measured however little time is left. Otherwise
 * the earlier choice would be lost if time does not reach it. */
static bool was_part_of_choice(const choosing *c, size_t i) {
    const clq_kept_choice *before = c->wanted->before;
    return before && clq_why_has_kind(&c->machine, &c->lone[i], before->devices);
}

static clq_status measure_lone(choosing *c) {
    const char *strategy = clq_why_strategy_alone(c->wanted);
    c->lone_count = clq_why_lone(&c->machine, c->lone, CLQ_COUNT_OF(c->lone));
    for (size_t i = 0; i < c->lone_count; i++) {
        const clq_devices one = {.system = c->machine.rule->system, .count = 1, .items = {c->lone[i].device}};
        alternative_of(c, &one, CLQ_ALTERNATIVE_NO_TIME)->strategy = strategy ? strategy : "single";
    }
    for (unsigned look = 0; look < LOOKS; look++)
        for (size_t i = 0; i < c->lone_count; i++) {
            const clq_alternative *alternative = &c->out.alternatives[i];
            const bool whatever = look == 0 && (i == 0 || was_part_of_choice(c, i));
            if (alternative->state == CLQ_ALTERNATIVE_FAILED || (!whatever && is_late(c))) continue;
            CLQ_TRY(look_at(c, i));
        }
    return CLQ_OK;
}

/* ---- devices together ---- */

/* A bound on the rate of an alternative, by the rates of its devices alone. Of a split device, one part is timed. The
 * bound is infinite if a device lacks memory for the whole batch: its rate is not known. */
static clq_status bound_of(choosing *c, const clq_together *t, double *bound) {
    double rates[CLQ_REPLICAS_MAX];
    char spec[CLQ_SPEC_TEXT];
    *bound = (double)INFINITY;
    for (uint32_t i = 0; i < t->count; i++) {
        if (c->lone[t->lone[i]].too_large) return CLQ_OK;
        rates[i] = c->lone[t->lone[i]].images_per_s;
    }
    *bound = 0;
    if (t->items[0].parts > 1) {
        const clq_devices one = {.count = 1, .items = {t->items[0]}};
        if (rates[0] < hopeless * best_rate(c) || !clq_why_spec(&one, 0, 1, spec, sizeof spec)) return CLQ_OK;
        clq_doubt doubt;
        CLQ_TRY(time_device(c, spec, &rates[0], &doubt));
        for (uint32_t i = 1; i < t->count; i++) rates[i] = rates[0];
    }
    *bound = clq_why_bound(rates, t->count, t->all_only);
    return CLQ_OK;
}

static clq_status predict(choosing *c, const clq_together *t, clq_alternative *alternative, clq_devices *devices) {
    clq_why_task task = *c->task;
    double bound;
    task.all_only = t->all_only;
    task.devices = devices;
    CLQ_TRY(select_devices(c, alternative->devices, devices));
    CLQ_TRY(bound_of(c, t, &bound));
    alternative->state = CLQ_ALTERNATIVE_SLOWER;
    if (bound <= best_rate(c)) return CLQ_OK;
    CLQ_TRY(clq_why_probe(&task, &c->probes));
    const size_t count = clq_why_predict(&c->probes, c->predictions, CLQ_COUNT_OF(c->predictions));
    const clq_prediction *best = clq_why_pick(c->wanted, c->predictions, count, 2);
    if (!best) {
        if (c->probes.lack.status != CLQ_OK) alternative->state = CLQ_ALTERNATIVE_FAILED;
        return CLQ_OK;
    }
    alternative->state = CLQ_ALTERNATIVE_PREDICTED;
    alternative->strategy = best->way.strategy;
    alternative->images_per_s = best->images_per_s;
    alternative->doubt = best->doubt;
    alternative->replicas = devices->count = best->way.replicas;
    (void)clq_why_spec(devices, 0, devices->count, alternative->devices, sizeof alternative->devices);
    return CLQ_OK;
}

/* Predicts the alternatives of several devices. The earlier choice comes first, however little time is left. */
static clq_status predict_together(choosing *c) {
    const size_t count = clq_why_together(&c->machine, c->lone, c->lone_count, c->together, CLQ_COUNT_OF(c->together));
    const clq_kept_choice *before = c->wanted->before;
    const size_t whatever = before && clq_why_put_first(c->together, count, before->devices);
    for (size_t i = 0; i < count; i++) {
        clq_devices devices = {.system = c->machine.rule->system, .count = c->together[i].count};
        memcpy(devices.items, c->together[i].items, sizeof devices.items);
        clq_alternative *alternative = alternative_of(c, &devices, CLQ_ALTERNATIVE_NO_TIME);
        if (!alternative || (i >= whatever && is_late(c))) continue;
        clq_status status = predict(c, &c->together[i], alternative, &c->devices[c->out.count - 1]);
        if (status == CLQ_OK) continue;
        alternative->state = CLQ_ALTERNATIVE_FAILED;
        CLQ_TRY(forgive(c, status, alternative));
    }
    return CLQ_OK;
}

/* ---- all of it ---- */

static void take_reached(choosing *c) {
    for (size_t i = 0; i < c->out.count && c->wanted->fell_short; i++) {
        clq_alternative *a = &c->out.alternatives[i];
        if (was_chosen(c, a) && strcmp(a->strategy, c->wanted->before->strategy) == 0)
            a->images_per_s = CLQ_MIN(a->images_per_s, c->wanted->before->reached_images_per_s);
    }
}

static clq_status choose(choosing *c) {
    CLQ_TRY(measure_lone(c));
    if (strcmp(c->wanted->strategy, "single") != 0) CLQ_TRY(predict_together(c));
    take_reached(c);
    const clq_alternative *best = clq_why_fastest(c->out.alternatives, c->out.count);
    if (best) {
        c->out.best = (size_t)(best - c->out.alternatives);
        c->out.devices = c->devices[c->out.best];
        return CLQ_OK;
    }
    if (c->first.status != CLQ_OK) return clq_error_raise(&c->first);
    return clq_fail(CLQ_ERROR_UNSUPPORTED,
                    "strategy %s is not predicted on any of the devices: name them with --devices",
                    c->wanted->strategy);
}

static clq_status list_infos(choosing *c, clq_system *system) {
    c->machine.count = clq_system_device_count(system);
    c->infos = clq_alloc(CLQ_MAX(c->machine.count, (size_t)1), sizeof *c->infos);
    if (!c->infos) return CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < c->machine.count; i++) c->infos[i] = clq_system_device_info(system, i);
    c->machine.devices = c->infos;
    return CLQ_OK;
}

clq_status clq_why_choose(const clq_why_task *task, const clq_choosing *wanted, clq_choice_made *out) {
    choosing *c = clq_alloc(1, sizeof *c);
    clq_trainer_config config = *task->config;
    if (!c) return CLQ_ERROR_MEMORY;
    /* Devices are compared with the kernels that they have; no kernels are measured. */
    config.tuning = CLQ_TUNING_OFF;
    const clq_why_task own = {.model = task->model, .config = &config, .data = task->data, .patience = task->patience};
    c->task = &own;
    c->wanted = wanted;
    c->until = clq_now() + wanted->budget_s;
    c->machine = (clq_machine){.rule = task->devices,
                               .cores = clq_cpu_count(),
                               .batch = CLQ_MIN(config.global_batch, clq_dataset_get_info(task->data)->samples)};
    clq_status status = list_infos(c, task->devices->system);
    if (status == CLQ_OK) status = choose(c);
    if (status == CLQ_OK) *out = c->out;
    clq_free(c->infos);
    clq_free(c);
    return status;
}
