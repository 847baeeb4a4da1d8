/* clique why --trace FILE: where the queues of a recorded run waited, and for whom. */
#include "cli/cli.h"

#include <stdio.h>

static double step_seconds(const clq_traced_step *step) {
    double sum = 0;
    for (unsigned d = 0; d < CLQ_DOINGS; d++) sum += step->seconds[d];
    return sum;
}

/* The mean over the replica's steps; there is at least one. */
static double mean(const clq_traced_replica *r, unsigned doing) {
    double sum = 0;
    for (size_t i = 0; i < r->step_count; i++) sum += r->steps[i].seconds[doing];
    return sum / (double)r->step_count;
}

static double mean_step(const clq_traced_replica *r) {
    double sum = 0;
    for (unsigned d = 0; d < CLQ_DOINGS; d++) sum += mean(r, d);
    return sum;
}

/* ---- for people ---- */

static clq_status print_replica(const clq_traced_replica *r) {
    clq_text text = {0};
    clq_text_add(&text, "%7u %6zu", r->replica, r->step_count);
    if (r->step_count > 0) {
        clq_text_add(&text, " %9.4f", 1e3 * mean_step(r));
        for (unsigned d = 0; d < CLQ_DOINGS; d++) clq_text_add(&text, " %9.4f", 1e3 * mean(r, d));
        for (unsigned whom = 0; whom < CLQ_REPLICAS_MAX; whom++)
            if (r->waited_for_s[whom] > 0)
                clq_text_add(&text, "  %u: %.4f", whom, 1e3 * r->waited_for_s[whom] / (double)r->step_count);
    }
    clq_status status = text.failed ? CLQ_ERROR_MEMORY : clq_print(stdout, "%s\n", text.data);
    clq_free(text.data);
    return status;
}

static clq_status print_run(const char *path, const clq_traced_run *run) {
    CLQ_TRY(clq_print(stdout, "%s: milliseconds of a step, means\n\n", path));
    printf("%7s %6s %9s", "replica", "steps", "step");
    for (unsigned d = 0; d < CLQ_DOINGS; d++) printf(" %9s", clq_doing_name(d));
    printf("  waited for\n");
    for (size_t i = 0; i < run->count; i++) CLQ_TRY(print_replica(&run->replicas[i]));
    putchar('\n');
    for (size_t i = 0; i < run->count; i++)
        CLQ_TRY(clq_print(stdout, "%7u %s\n", run->replicas[i].replica, run->replicas[i].name));
    return CLQ_OK;
}

/* ---- JSON ---- */

static json_t *describe_step(const clq_traced_step *step) {
    json_t *parts = json_object();
    for (unsigned d = 0; d < CLQ_DOINGS; d++)
        parts = clq_json_put(parts, clq_doing_name(d), clq_json_number(1e3 * step->seconds[d]));
    return json_pack("{s:I, s:o, s:o, s:o}", "step", (json_int_t)step->step, "ms",
                     clq_json_number(1e3 * step_seconds(step)), "parts_ms", parts, "waited_for",
                     step->waited_for < 0 ? json_null() : json_integer(step->waited_for));
}

static json_t *describe_replica(const clq_traced_replica *r) {
    json_t *parts = json_object(), *waited = json_array(), *steps = json_array();
    const bool any = r->step_count > 0;
    for (unsigned d = 0; d < CLQ_DOINGS; d++)
        parts = clq_json_put(parts, clq_doing_name(d), any ? clq_json_number(1e3 * mean(r, d)) : json_null());
    for (unsigned whom = 0; whom < CLQ_REPLICAS_MAX; whom++)
        if (r->waited_for_s[whom] > 0)
            waited = clq_json_append(waited, json_pack("{s:i, s:o}", "replica", (int)whom, "ms",
                                                       clq_json_number(1e3 * r->waited_for_s[whom])));
    for (size_t i = 0; i < r->step_count; i++) steps = clq_json_append(steps, describe_step(&r->steps[i]));
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "replica", (int)r->replica, "name", clq_json_text(r->name),
                     "step_ms", any ? clq_json_number(1e3 * mean_step(r)) : json_null(), "parts_ms", parts,
                     "waited_for", waited, "steps", steps);
}

clq_status clq_explain_trace(const clq_options *options) {
    clq_traced_run run;
    CLQ_TRY(clq_trace_explain(options->trace, &run));
    clq_status status;
    if (options->json) {
        json_t *replicas = json_array();
        for (size_t i = 0; i < run.count; i++) replicas = clq_json_append(replicas, describe_replica(&run.replicas[i]));
        status = clq_print_json(json_pack("{s:o, s:o}", "trace", clq_json_text(options->trace), "replicas", replicas));
    } else {
        status = print_run(options->trace, &run);
    }
    clq_traced_run_release(&run);
    return status;
}
