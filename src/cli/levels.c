/* The table of `clique plan`: a step with more and more recomputation, in bytes and in time. */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>

static bool is_taken(const clq_levels *levels, size_t i) {
    const clq_recompute_level *row = &levels->rows[i], *taken = &levels->taken;
    return row->activation_bytes == taken->activation_bytes && fabs(row->work - taken->work) <= 1e-9 * row->work;
}

static clq_status measure(const clq_plan *plan, const clq_recompute_level *level, double *seconds) {
    clq_plan_seconds took;
    const clq_status status = clq_plan_time_level(plan, level, &took);
    if (status == CLQ_ERROR_DEVICE_MEMORY) return CLQ_OK; /* it does not fit beside the plan itself */
    CLQ_TRY(status);
    *seconds = took.forward + took.backward;
    return CLQ_OK;
}

/* Gives the plan that was taken a row of its own, unless a row equals it. Rows stay in descending order of bytes. */
static void add_taken(clq_levels *levels) {
    size_t at = 0;
    for (size_t i = 0; i < levels->count; i++)
        if (is_taken(levels, i)) return;
    if (levels->count == CLQ_RECOMPUTE_LEVELS) levels->count--; /* the last one, with the fewest bytes */
    while (at < levels->count && levels->rows[at].activation_bytes > levels->taken.activation_bytes) at++;
    for (size_t i = levels->count++; i > at; i--) levels->rows[i] = levels->rows[i - 1];
    levels->rows[at] = levels->taken;
}

clq_status clq_levels_find(const clq_plan *plan, bool measures, clq_levels *out) {
    *out = (clq_levels){.taken = clq_plan_level(plan)};
    CLQ_TRY(clq_plan_levels(plan, out->rows, &out->count));
    add_taken(out);
    for (size_t i = 0; i < out->count; i++) {
        out->seconds[i] = (double)NAN;
        if (measures) CLQ_TRY(measure(plan, &out->rows[i], &out->seconds[i]));
    }
    return CLQ_OK;
}

static const char *name_of(const clq_recompute_level *level) {
    static const char *const names[] = {
        [CLQ_RECOMPUTE_OFF] = "off", [CLQ_RECOMPUTE_AUTO] = "part", [CLQ_RECOMPUTE_ALL] = "all"};
    return names[level->recompute == CLQ_RECOMPUTE_AUTO && level->activations_most == 0 ? CLQ_RECOMPUTE_OFF
                                                                                        : level->recompute];
}

void clq_print_levels(const clq_levels *levels) {
    const double bytes = (double)levels->rows[0].activation_bytes, work = levels->rows[0].work;
    printf("\n%-9s %14s %8s %14s %12s\n", "recompute", "activations MB", "of off", "estimated time", "measured ms");
    for (size_t i = 0; i < levels->count; i++) {
        const clq_recompute_level *row = &levels->rows[i];
        clq_fprintf(stdout, "%-9s %14.3f %8.2f %13.2fx ", name_of(row), (double)row->activation_bytes * 1e-6,
                    bytes > 0 ? (double)row->activation_bytes / bytes : 1.0, work > 0 ? row->work / work : 1.0);
        if (isnan(levels->seconds[i]))
            printf("%12s", "-");
        else
            clq_fprintf(stdout, "%12.3f", levels->seconds[i] * 1e3);
        printf("%s\n", is_taken(levels, i) ? "  taken" : "");
    }
}

json_t *clq_describe_levels(const clq_levels *levels) {
    json_t *rows = json_array();
    const double work = levels->rows[0].work;
    for (size_t i = 0; i < levels->count; i++)
        rows = clq_json_append(rows,
                               json_pack("{s:s, s:I, s:f, s:o, s:b}", "recompute", name_of(&levels->rows[i]),
                                         "activation_bytes", (json_int_t)levels->rows[i].activation_bytes,
                                         "estimated_time", work > 0 ? levels->rows[i].work / work : 1.0, "measured_ms",
                                         clq_json_number(levels->seconds[i] * 1e3), "taken", (int)is_taken(levels, i)));
    return rows;
}
