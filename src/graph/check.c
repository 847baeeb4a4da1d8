/* The check of numerics. Behind the launches of each node, one more launch looks for numbers that are not finite. It
 * leaves the place of the first one in a buffer, which the host reads after each run. */
#include "graph/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const int32_t nowhere = INT32_MAX;
static const char in_samples[] = "in the samples";

clq_status clq_checks_open(clq_plan *plan) {
    clq_checks *checks = &plan->checks;
    if (!plan->config.check_numerics) return CLQ_OK;
    CLQ_TRY(clq_buffer_create(plan->device, CLQ_MEMORY_DEVICE, sizeof nowhere, "check of numerics", &checks->first));
    CLQ_TRY(clq_buffer_set(plan->device, checks->first, &nowhere, sizeof nowhere));
    checks->v_first = clq_plan_whole_value(plan->list, "check", checks->first);
    return CLQ_OK;
}

void clq_checks_release(clq_checks *checks) {
    clq_buffer_destroy(checks->first);
    clq_free(checks->places);
    clq_free(checks->exchanges);
    *checks = (clq_checks){.first = NULL};
}

clq_status clq_checks_forget(const clq_plan *plan, clq_queue *queue) {
    if (!plan->checks.first) return CLQ_OK;
    return clq_queue_write(queue, plan->checks.first, 0, &nowhere, sizeof nowhere, true);
}

/* ---- what is checked ---- */

static bool is_float(clq_dtype dtype) { return dtype == CLQ_F32 || dtype == CLQ_F16 || dtype == CLQ_BF16; }

static void add(clq_plan *plan, const clq_graph_value *value, clq_value memory, const clq_check_place *place) {
    clq_checks *checks = &plan->checks;
    clq_check_place *grown = clq_grow(checks->places, checks->count, &checks->capacity, 64, sizeof *grown);
    if (!grown) {
        clq_list_latch(plan->list, CLQ_ERROR_MEMORY);
        return;
    }
    checks->places = grown;
    checks->places[checks->count] = *place;
    clq_find_not_finite(plan->list, value->elements, value->per_sample, (int)checks->count++, memory, checks->v_first);
}

void clq_check_input(clq_plan *plan, const clq_node *node, const clq_graph_value *value, clq_value memory) {
    clq_check_place place = {.segment = node->segment};
    if (!plan->checks.first || node->segment > CLQ_SEGMENT_BACKWARD || !is_float(value->dtype)) return;
    switch (value->home) {
    case CLQ_HOME_SAMPLES: snprintf(place.text, sizeof place.text, "%s", in_samples); break;
    case CLQ_HOME_WEIGHT:
    case CLQ_HOME_STATE:
        snprintf(place.text, sizeof place.text, "in variable '%s', as the updates before left it", value->name);
        break;
    case CLQ_HOME_RECEIVED:
        snprintf(place.text, sizeof place.text, "in '%s', which came from the stage in front", value->name);
        break;
    case CLQ_HOME_RECEIVED_GRADIENT:
        snprintf(place.text, sizeof place.text, "in the gradient of '%s', which came from the stage behind",
                 value->name);
        break;
    default: return;
    }
    add(plan, value, memory, &place);
}

/* The host looks at rows of metrics. */
void clq_check_output(clq_plan *plan, const clq_node *node, const clq_graph_value *value, clq_value memory) {
    clq_check_place place = {.segment = node->segment};
    if (!plan->checks.first || node->segment > CLQ_SEGMENT_BACKWARD || !is_float(value->dtype) || !node->op->emit ||
        value->home == CLQ_HOME_METRICS)
        return;
    const char *segment = clq_segment_name(node->segment);
    if (node->segment == CLQ_SEGMENT_BACKWARD && value->home != CLQ_HOME_GRADIENT)
        snprintf(place.text, sizeof place.text, "in the gradient of what layer '%s' reads, %s, operation %s",
                 node->scope, segment, node->op->name);
    else
        snprintf(place.text, sizeof place.text, "in %s'%s', %s of layer '%s', operation %s",
                 value->home == CLQ_HOME_GRADIENT ? "the gradient of " : "", value->name, segment, node->scope,
                 node->op->name);
    add(plan, value, memory, &place);
}

void clq_check_exchange(clq_plan *plan) {
    clq_checks *checks = &plan->checks;
    if (!checks->first) return;
    size_t *grown = clq_grow(checks->exchanges, checks->exchange_count, &checks->exchange_capacity, 16, sizeof *grown);
    if (!grown) {
        clq_list_latch(plan->list, CLQ_ERROR_MEMORY);
        return;
    }
    checks->exchanges = grown;
    checks->exchanges[checks->exchange_count++] = clq_list_launch_count(plan->list);
}

/* ---- what was found ---- */

/* Finds whether the losses of the run's row are finite, as far as the plan has them. If not, *output is the output of
 * the first loss that is not. */
static clq_status check_losses(const clq_plan *plan, clq_queue *queue, bool *finite, uint32_t *output) {
    const size_t row = (size_t)plan->checks.slot * clq_losses_width(plan->losses, plan->model->output_count);
    *finite = true;
    for (uint32_t i = 0; i < plan->model->output_count && *finite; i++) {
        const size_t at = row + clq_losses_width(plan->losses, i);
        float loss;
        CLQ_TRY(clq_queue_read(queue, plan->metrics, at * sizeof loss, &loss, sizeof loss, true));
        *finite = isfinite(loss);
        *output = i;
    }
    return CLQ_OK;
}

static clq_status tell(const clq_plan *plan, const char *where) {
    return clq_fail(CLQ_ERROR_NOT_FINITE, "step %u on %s: the first number that is not finite is %s; %s",
                    plan->checks.step, clq_device_label(plan->device), where,
                    strcmp(where, in_samples) == 0 ? "take it out of the data"
                    : plan->config.update_options.scaling.initial > 0
                        ? "a lower learning rate, clipping, or a smaller loss scale may keep it finite"
                        : "a lower learning rate, or clipping, may keep it finite");
}

/* Looks at what was found, after the launches before `end` have run. */
static clq_status look(const clq_plan *plan, clq_queue *queue, size_t end) {
    const clq_checks *checks = &plan->checks;
    int32_t place;
    uint32_t output = 0;
    bool finite = true;
    if (!checks->first) return CLQ_OK;
    CLQ_TRY(clq_queue_read(queue, checks->first, 0, &place, sizeof place, true));
    const clq_check_place *found = place < (int32_t)checks->count ? &checks->places[place] : NULL;
    if (found && found->segment <= CLQ_SEGMENT_LOSS) return tell(plan, found->text);
    if (end >= plan->segment_end[CLQ_SEGMENT_LOSS]) CLQ_TRY(check_losses(plan, queue, &finite, &output));
    if (finite) return found ? tell(plan, found->text) : CLQ_OK;
    char text[CLQ_LAYER_NAME_MAX + 64];
    snprintf(text, sizeof text, "the loss of output '%s'", clq_model_output_name(plan->model, output));
    return tell(plan, text);
}

clq_status clq_checks_run(clq_plan *plan, clq_queue *queue, size_t first, size_t end, const clq_order *order) {
    const clq_checks *checks = &plan->checks;
    clq_order own = order ? *order : (clq_order){0};
    for (size_t i = 0; i < checks->exchange_count; i++) {
        const size_t stop = checks->exchanges[i];
        if (stop <= first || stop >= end) continue;
        clq_order until = own;
        until.done = NULL;
        CLQ_TRY(clq_list_run_after(plan->list, queue, first, stop, &until));
        CLQ_TRY(look(plan, queue, stop));
        own = (clq_order){.done = own.done};
        first = stop;
    }
    CLQ_TRY(clq_list_run_after(plan->list, queue, first, end, &own));
    return look(plan, queue, end);
}
